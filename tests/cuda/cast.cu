/* Wrappers of sm_90a and sm_100a. */
struct cast_args {
  ax_tensor_map map;
};
extern "C" __global__ void __launch_bounds__(128)
    cast(const __grid_constant__ cast_args a) {
  unsigned at = ax_shared_address(ax_shared()), bar = at + 8192;
  ax_tma_cast_1d(at, &a.map, bar, 3, 1);
  ax_tma_cast_2d(at, &a.map, bar, 3, 1, 2);
  ax_tma_cast_3d(at, &a.map, bar, 3, 1, 2, 3);
  ax_tma_cast_4d(at, &a.map, bar, 3, 1, 2, 3, 4);
  ax_tma_cast_5d(at, &a.map, bar, 3, 1, 2, 3, 4, 5);
}
