//@ AX_WGMMA_CHECK
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error "ax_wgmma_: wgmma is of sm_90a alone"
#endif
#define AX_WGMMA_CHECK

//@ ax_wgmma_fence ax_wgmma_commit ax_wgmma_wait
/* 9.7.15.7: wgmma.fence orders accesses to the registers before it;
 * wgmma.commit_group; wgmma.wait_group: waits until at most the last N groups
 * are in flight.  ax_hold follows it. */
AX_WGMMA_CHECK
AX_DEVICE void ax_wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
AX_DEVICE void ax_wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> AX_DEVICE void ax_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

//@ ax_wgmma_descriptor
/* 9.7.15.5.1.2.2: descriptor of a matrix at `address`.  leading, stride:
 * bytes. swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes. */
AX_DEVICE unsigned long long ax_wgmma_descriptor(unsigned address,
                                                 unsigned leading,
                                                 unsigned stride,
                                                 unsigned swizzle) {
  return (unsigned long long)(address >> 4 & 0x3fff) |
         (unsigned long long)(leading >> 4 & 0x3fff) << 16 |
         (unsigned long long)(stride >> 4 & 0x3fff) << 32 |
         (unsigned long long)swizzle << 62;
}
