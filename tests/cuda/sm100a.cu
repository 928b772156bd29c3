/* Wrappers of sm_100a alone, and the conversion to 4-bit floats; sm100a.ptx has
 * their instructions. */
struct sm100a_args {
  float *out;
  unsigned more;
};
extern "C" __global__ void __launch_bounds__(256)
    sm100a(const __grid_constant__ sm100a_args a) {
  const unsigned at = ax_shared_address(ax_shared());
  float d[124];
  if (ax_warp() == 2) {
    ax_tmem_alloc(at, 512);
    ax_tmem_permit();
  }
  ax_tcgen05_fence_before();
  ax_sync();
  ax_tcgen05_fence_after();
  const unsigned to = *(const unsigned *)ax_shared();
  const unsigned long long where = ax_tcgen05_descriptor(at, 16, 1024, 2);
  if (ax_warp() == 1 && ax_elect()) {
    ax_tcgen05_mma_f16(to, where, where, 0x8400490u, false);
    ax_tcgen05_mma_tf32(to, where, where, 0x8400910u, true);
    ax_tcgen05_mma_f8(to, where, where, 0x8400010u, a.more > 3);
    ax_tcgen05_copy_scales(to + 256, where);
    ax_tcgen05_mma_mxf4(to, where, where, 0x8900480u, to + 256, to + 260, true);
    ax_tcgen05_mma_nvf4(to, where, where, 0x8100480u, to + 256, to + 260,
                        a.more > 5);
    ax_tcgen05_commit(at + 8);
    ax_tcgen05_commit_cast(at + 8, a.more);
  }
  ax_tmem_store_x1(a.out, to);
  ax_tmem_store_x2(a.out, to);
  ax_tmem_store_x4(a.out, to);
  ax_tmem_store_x8(a.out, to);
  ax_tmem_store_x16(a.out, to);
  const unsigned *const pairs = (const unsigned *)a.out;
  ax_tmem_store_pairs_x1(pairs, to);
  ax_tmem_store_pairs_x2(pairs, to);
  ax_tmem_store_pairs_x4(pairs, to);
  ax_tmem_store_pairs_x8(pairs, to);
  ax_tmem_store_pairs_x16(pairs, to);
  ax_tmem_wait_store();
  if (ax_warp() == 1 && ax_elect())
    ax_tcgen05_mma_f16_ta(to, to + 8, where, 0x8400490u, a.more > 4);
  ax_tmem_load_x1(d, to);
  ax_tmem_load_x2(d + 4, to + 8);
  ax_tmem_load_x4(d + 12, to + 24);
  ax_tmem_load_x8(d + 28, to + 56);
  ax_tmem_load_x16(d + 60, to + 120);
  ax_tmem_wait_load();
  ax_hold(d);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 124; i++)
    sum = sum * 3 + d[i];
  sum += (float)ax_pack_f4_e2m1(make_uint2(a.more, __float_as_uint(sum)));
  a.out[threadIdx.x] = sum + ax_f4_e2m1_to_f32(ax_f32_to_f4_e2m1(sum));
  if (ax_warp() == 2)
    ax_tmem_free(to, 512);
}
