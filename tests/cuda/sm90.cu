/* Every wrapper of sm_90 on. */
struct sm90_args {
  const void *in;
  float *out;
  ax_tensor_map map;
};
extern "C" __global__ void __launch_bounds__(128)
    sm90(const __grid_constant__ sm90_args a) {
  unsigned at = ax_shared_address(ax_shared()), bar = at + 8192, r[4];
  ax_grid_wait();
  if (threadIdx.x == 0) {
    ax_mbarrier_init(bar, 1);
    ax_fence_mbarrier_init();
    ax_tma_prefetch(&a.map);
  }
  ax_cluster_begin();
  if (ax_warp() == 0 && ax_elect()) {
    ax_mbarrier_expect(bar, 1024);
    ax_tma_load_1d(at, &a.map, bar, 1);
    ax_tma_load_2d(at, &a.map, bar, 1, 2);
    ax_tma_load_3d(at, &a.map, bar, 1, 2, 3);
    ax_tma_load_4d(at, &a.map, bar, 1, 2, 3, 4);
    ax_tma_load_5d(at, &a.map, bar, 1, 2, 3, 4, 5);
    ax_tma_pixels_3d(at, &a.map, bar, 1, 2, 3, 4);
    ax_tma_pixels_4d(at, &a.map, bar, 1, 2, 3, 4, 5, 6);
    ax_tma_pixels_5d(at, &a.map, bar, 1, 2, 3, 4, 5, 6, 7, 8);
    ax_bulk_load(at, a.in, 64, bar);
  }
  if (!ax_mbarrier_try(bar, 0))
    ax_mbarrier_wait(bar, 0);
  ax_mbarrier_wait(bar, 1);
  ax_mbarrier_arrive(bar);
  ax_mbarrier_arrive_at(bar, ax_cluster_rank() ^ 1);
  ax_ldmatrix_4(r, at + ax_lane() * 16);
  ax_stmatrix_4(at + ax_lane() * 16, r);
  ax_stmatrix_2(at + ax_lane() % 16 * 16, r);
  ax_stmatrix_1(at + ax_lane() % 8 * 16, r);
  ax_stmatrix_4_trans(at + ax_lane() * 16, r);
  ax_stmatrix_2_trans(at + ax_lane() % 16 * 16, r);
  ax_stmatrix_1_trans(at + ax_lane() % 8 * 16, r);
  ax_fence_async();
  ax_sync();
  if (threadIdx.x == 0) {
    ax_tma_store_1d(&a.map, at, 1);
    ax_tma_store_2d(&a.map, at, 1, 2);
    ax_tma_store_3d(&a.map, at, 1, 2, 3);
    ax_tma_store_4d(&a.map, at, 1, 2, 3, 4);
    ax_tma_store_5d(&a.map, at, 1, 2, 3, 4, 5);
    ax_bulk_store(a.out, at, 64);
    ax_tma_commit();
    ax_tma_wait_read<1>();
    ax_tma_wait<0>();
  }
  ax_cluster_sync();
  ax_cluster_arrive();
  ax_cluster_wait();
  a.out[threadIdx.x] =
      (float)(ax_cluster_load_4(at, 0) + ax_cluster_blocks());
  ax_grid_launch();
}
