/* Wrappers of sm_100a for pairs of blocks; pair.ptx has their instructions. */
struct pair_args {
  float *out;
  unsigned more;
  ax_tensor_map map;
};
extern "C" __global__ void __launch_bounds__(256) __cluster_dims__(2)
    pair(const __grid_constant__ pair_args a) {
  const unsigned at = ax_shared_address(ax_shared());
  if (ax_warp() == 2) {
    ax_tmem_pair_alloc(at, 512);
    ax_tmem_pair_permit();
  }
  ax_tcgen05_fence_before();
  ax_sync();
  ax_tcgen05_fence_after();
  const unsigned to = *(const unsigned *)ax_shared();
  const unsigned long long where = ax_tcgen05_descriptor(at, 16, 1024, 2);
  if (ax_warp() == 0 && ax_elect()) {
    ax_tma_pair_1d(at, &a.map, at + 8, 1);
    ax_tma_pair_2d(at, &a.map, at + 8, 1, 2);
    ax_tma_pair_3d(at, &a.map, at + 8, 1, 2, 3);
    ax_tma_pair_4d(at, &a.map, at + 8, 1, 2, 3, 4);
    ax_tma_pair_5d(at, &a.map, at + 8, 1, 2, 3, 4, 5);
  }
  if (ax_warp() == 1 && ax_elect()) {
    ax_tcgen05_pair_mma_f16(to, where, where, 0x10400490u, false);
    ax_tcgen05_pair_mma_tf32(to, where, where, 0x10400910u, true);
    ax_tcgen05_pair_mma_f8(to, where, where, 0x10400010u, a.more > 3);
    ax_tcgen05_pair_commit(at + 8, a.more);
  }
  a.out[threadIdx.x] = (float)to;
  if (ax_warp() == 2)
    ax_tmem_pair_free(to, 512);
}
