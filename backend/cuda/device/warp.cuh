//@ ax_sync ax_sync_or ax_sync_and ax_sync_count
/* 9.7.13.1, barrier 0: all threads of the block. */
AX_DEVICE void ax_sync() {
  __syncthreads();
}
AX_DEVICE bool ax_sync_or(bool p) {
  return __syncthreads_or(p) != 0;
}
AX_DEVICE bool ax_sync_and(bool p) {
  return __syncthreads_and(p) != 0;
}
AX_DEVICE int ax_sync_count(bool p) {
  return __syncthreads_count(p);
}

//@ ax_barrier_sync ax_barrier_arrive
/* 9.7.13.1, bar.sync and bar.arrive: `count` threads. */
AX_DEVICE void ax_barrier_sync(unsigned id, unsigned count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}
AX_DEVICE void ax_barrier_arrive(unsigned id, unsigned count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
}

//@ ax_sync_warp
/* 9.7.13.2, bar.warp.sync. */
AX_DEVICE void ax_sync_warp() {
  __syncwarp();
}

//@ ax_lane
/* 10.8, %laneid. */
AX_DEVICE unsigned ax_lane() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

//@ ax_warp
/* The warp's index in a one-dimensional block, uniform in the warp. */
AX_DEVICE unsigned ax_warp() {
  return __shfl_sync(~0u, threadIdx.x / 32, 0);
}

//@ ax_shuffle ax_shuffle_xor ax_shuffle_up ax_shuffle_down
/* 9.7.9.6, shfl.sync: all lanes; T has 4 or 8 bytes. */
template <typename T> AX_DEVICE T ax_shuffle(T v, int lane) {
  return __shfl_sync(~0u, v, lane);
}
template <typename T> AX_DEVICE T ax_shuffle_xor(T v, int mask) {
  return __shfl_xor_sync(~0u, v, mask);
}
template <typename T> AX_DEVICE T ax_shuffle_up(T v, unsigned by) {
  return __shfl_up_sync(~0u, v, by);
}
template <typename T> AX_DEVICE T ax_shuffle_down(T v, unsigned by) {
  return __shfl_down_sync(~0u, v, by);
}

//@ ax_ballot ax_any ax_all
/* 9.7.13.9, vote.sync: all lanes. */
AX_DEVICE unsigned ax_ballot(bool p) {
  return __ballot_sync(~0u, p);
}
AX_DEVICE bool ax_any(bool p) {
  return __any_sync(~0u, p) != 0;
}
AX_DEVICE bool ax_all(bool p) {
  return __all_sync(~0u, p) != 0;
}

//@ ax_elect
/* 9.7.13.15, elect.sync: true in one lane of the warp. */
#if __CUDA_ARCH__ < 900
#error "ax_elect: elect.sync is of sm_90 on"
#endif
AX_DEVICE bool ax_elect() {
  unsigned is;
  asm volatile("{\n"
               ".reg .pred p;\n"
               "elect.sync _|p, 0xffffffff;\n"
               "selp.u32 %0, 1, 0, p;\n"
               "}"
               : "=r"(is));
  return is != 0;
}

//@ ax_registers_more ax_registers_less
/* 9.7.19.5, setmaxnreg: registers per thread of the warpgroup, a multiple of
 * 8. */
#if !defined __CUDA_ARCH_FEAT_SM90_ALL && !defined __CUDA_ARCH_FEAT_SM100_ALL \
    && !defined __CUDA_ARCH_FEAT_SM120_ALL
#error "ax_registers_more: setmaxnreg is of sm_90a, sm_100a, sm_120a"
#endif
template <int N> AX_DEVICE void ax_registers_more() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> AX_DEVICE void ax_registers_less() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

//@ ax_grid_wait ax_grid_launch
/* 9.7.13.14, griddepcontrol (programmatic dependent launch): waits for earlier
 * kernels; lets later kernels start. */
#if __CUDA_ARCH__ < 900
#error "ax_grid_wait: griddepcontrol is of sm_90 on"
#endif
AX_DEVICE void ax_grid_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
AX_DEVICE void ax_grid_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
