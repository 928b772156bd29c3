//@ ax_fence_async
/* 9.7.13.4, fence.proxy.async: makes this thread's writes to shared memory
 * visible to the asynchronous proxy (TMA, wgmma). */
#if __CUDA_ARCH__ < 900
#error "ax_fence_async: the asynchronous proxy is of sm_90 on"
#endif
AX_DEVICE void ax_fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

//@ ax_mbarrier_init
/* 9.7.13.16.9, mbarrier.init: an mbarrier of 8 bytes at `bar`.  A phase
 * completes after `count` arrivals and after all expected bytes have
 * arrived. */
#if __CUDA_ARCH__ < 900
#error "ax_mbarrier_init: used of sm_90 on"
#endif
AX_DEVICE void ax_mbarrier_init(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count)
               : "memory");
}

//@ ax_fence_mbarrier_init
/* 9.7.13.4: makes mbarrier.init visible to the cluster and to TMA. */
#if __CUDA_ARCH__ < 900
#error "ax_fence_mbarrier_init: of sm_90 on"
#endif
AX_DEVICE void ax_fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

//@ ax_mbarrier_arrive ax_mbarrier_expect
/* 9.7.13.16.13, mbarrier.arrive: one arrival; the second form also expects
 * `bytes` more bytes. */
#if __CUDA_ARCH__ < 900
#error "ax_mbarrier_arrive: used of sm_90 on"
#endif
AX_DEVICE void ax_mbarrier_arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar)
               : "memory");
}
AX_DEVICE void ax_mbarrier_expect(unsigned bar, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
      "r"(bytes)
      : "memory");
}

//@ ax_mbarrier_arrive_at
/* The same for the mbarrier at this address in another block of the cluster.
 * The scope is the block.  With cluster scope (.release.cluster), ptxas
 * inserts a fence of the whole GPU. */
#if __CUDA_ARCH__ < 900
#error "ax_mbarrier_arrive_at: clusters are of sm_90 on"
#endif
AX_DEVICE void ax_mbarrier_arrive_at(unsigned bar, unsigned rank) {
  asm volatile("{\n"
               ".reg .b32 remote;\n"
               "mapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
               "}" ::"r"(bar),
               "r"(rank)
               : "memory");
}

//@ ax_mbarrier_try ax_mbarrier_wait
/* 9.7.13.16.16, mbarrier.try_wait.parity: true if the phase of this parity is
 * complete; the first phase has parity 0.  ax_mbarrier_wait: waits until it
 * is. */
#if __CUDA_ARCH__ < 900
#error "ax_mbarrier_wait: mbarrier.try_wait is of sm_90 on"
#endif
AX_DEVICE bool ax_mbarrier_try(unsigned bar, unsigned parity) {
  unsigned is;
  asm volatile("{\n"
               ".reg .pred p;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n"
               "}"
               : "=r"(is)
               : "r"(bar), "r"(parity)
               : "memory");
  return is != 0;
}
AX_DEVICE void ax_mbarrier_wait(unsigned bar, unsigned parity) {
  while (!ax_mbarrier_try(bar, parity))
    ;
}

//@ ax_cluster_rank ax_cluster_blocks
/* 10.19 to 10.21: rank of the block in its cluster; blocks of a cluster. */
#if __CUDA_ARCH__ < 900
#error "ax_cluster_rank: clusters are of sm_90 on"
#endif
AX_DEVICE unsigned ax_cluster_rank() {
  unsigned v;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
  return v;
}
AX_DEVICE unsigned ax_cluster_blocks() {
  unsigned v;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
  return v;
}

//@ ax_cluster_sync ax_cluster_arrive ax_cluster_wait
/* 9.7.13.3, barrier.cluster: all threads of the cluster. */
#if __CUDA_ARCH__ < 900
#error "ax_cluster_sync: clusters are of sm_90 on"
#endif
AX_DEVICE void ax_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
AX_DEVICE void ax_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
AX_DEVICE void ax_cluster_sync() {
  ax_cluster_arrive();
  ax_cluster_wait();
}

//@ ax_cluster_begin
/* 9.7.13.3, barrier.cluster.arrive.relaxed: the same without a fence of memory.
 * It makes mbarriers visible that ax_fence_mbarrier_init follows. */
#if __CUDA_ARCH__ < 900
#error "ax_cluster_begin: clusters are of sm_90 on"
#endif
AX_DEVICE void ax_cluster_begin() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

//@ ax_cluster_load_4
/* 9.7.9.8, ld.shared::cluster: loads 4 bytes at this address of another
 * block. */
#if __CUDA_ARCH__ < 900
#error "ax_cluster_load_4: clusters are of sm_90 on"
#endif
AX_DEVICE unsigned ax_cluster_load_4(unsigned address, unsigned rank) {
  unsigned v;
  asm volatile("{\n"
               ".reg .b32 remote;\n"
               "mapa.shared::cluster.u32 remote, %1, %2;\n"
               "ld.shared::cluster.u32 %0, [remote];\n"
               "}"
               : "=r"(v)
               : "r"(address), "r"(rank)
               : "memory");
  return v;
}

//@ ax_bulk_load
/* 9.7.9.25.4.1, cp.async.bulk: copies `bytes` from global to shared memory,
 * and completes them on `bar`.  Addresses and size are multiples of 16. */
#if __CUDA_ARCH__ < 900
#error "ax_bulk_load: cp.async.bulk is of sm_90 on"
#endif
AX_DEVICE void ax_bulk_load(unsigned to, const void *from, unsigned bytes,
                            unsigned bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar)
      : "memory");
}

//@ ax_bulk_store
/* The same to global memory, as part of a bulk group (ax_tma_commit). */
#if __CUDA_ARCH__ < 900
#error "ax_bulk_store: cp.async.bulk is of sm_90 on"
#endif
AX_DEVICE void ax_bulk_store(void *to, unsigned from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::
                   "l"(__cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
}

//@ ax_tensor_map
/* A tensor map from cuTensorMapEncodeTiled: a kernel parameter, declared
 * `const __grid_constant__`, or a member of one. */
struct __align__(64) ax_tensor_map {
  unsigned long long opaque[16];
};
