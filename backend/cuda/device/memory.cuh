//@ ax_load_16 ax_load_8 ax_load_4
/* 9.7.9.8, ld.global: 16, 8 or 4 bytes, aligned to their size. */
AX_DEVICE uint4 ax_load_16(const void *p) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
AX_DEVICE uint2 ax_load_8(const void *p) {
  uint2 v;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p)
               : "memory");
  return v;
}
AX_DEVICE unsigned ax_load_4(const void *p) {
  unsigned v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

//@ ax_load_16_once ax_load_8_once ax_load_4_once
/* 9.7.9.9, ld.global.nc: for data that no thread writes while the kernel runs,
 * and that is read once. */
AX_DEVICE uint4 ax_load_16_once(const void *p) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p));
  return v;
}
AX_DEVICE uint2 ax_load_8_once(const void *p) {
  uint2 v;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
      : "=r"(v.x), "=r"(v.y)
      : "l"(p));
  return v;
}
AX_DEVICE unsigned ax_load_4_once(const void *p) {
  unsigned v;
  asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

//@ ax_store_16 ax_store_8 ax_store_4
/* 9.7.9.12, st.global. */
AX_DEVICE void ax_store_16(void *p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
AX_DEVICE void ax_store_8(void *p, uint2 v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y)
               : "memory");
}
AX_DEVICE void ax_store_4(void *p, unsigned v) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

//@ ax_store_16_once ax_store_8_once ax_store_4_once
/* The same with .cs (streaming): for data that the kernel does not read
 * again. */
AX_DEVICE void ax_store_16_once(void *p, uint4 v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
AX_DEVICE void ax_store_8_once(void *p, uint2 v) {
  asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x),
               "r"(v.y)
               : "memory");
}
AX_DEVICE void ax_store_4_once(void *p, unsigned v) {
  asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

//@ ax_copy_4 ax_copy_8 ax_copy_16
/* 9.7.9.25.3.1, cp.async: copies the first `bytes` bytes at `from` to shared
 * memory, and fills the rest with 0.  Addresses are aligned to the copy size.
 * Copies of 16 bytes bypass L1. */
#if __CUDA_ARCH__ < 800
#error "ax_copy_16: cp.async is of sm_80 on"
#endif
AX_DEVICE void ax_copy_4(unsigned to, const void *from, unsigned bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
AX_DEVICE void ax_copy_8(unsigned to, const void *from, unsigned bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
AX_DEVICE void ax_copy_16(unsigned to, const void *from, unsigned bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}

//@ ax_copy_commit ax_copy_wait
/* 9.7.9.25.3.2 and 3, cp.async.commit_group and wait_group: waits until at
 * most the last N groups of this thread are in flight. */
#if __CUDA_ARCH__ < 800
#error "ax_copy_commit: cp.async is of sm_80 on"
#endif
AX_DEVICE void ax_copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> AX_DEVICE void ax_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
