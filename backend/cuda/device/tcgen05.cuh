//@ AX_TCGEN05_CHECK
#ifndef __CUDA_ARCH_FEAT_SM100_ALL
#error "ax_tcgen05_, ax_tmem_: tcgen05 is of sm_100a alone"
#endif
#define AX_TCGEN05_CHECK

//@ ax_tmem_alloc ax_tmem_permit ax_tmem_free
/* 9.7.16, tcgen05.alloc: allocates columns of tensor memory, a power of two
 * from 32 to 512, and writes their address to shared memory at `to`; waits
 * until they are free.  tcgen05.relinquish_alloc_permit: the block allocates no
 * more.  tcgen05.dealloc. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tmem_alloc(unsigned to, unsigned columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
          to),
      "r"(columns)
      : "memory");
}
AX_DEVICE void ax_tmem_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::
                   : "memory");
}
AX_DEVICE void ax_tmem_free(unsigned address, unsigned columns) {
  asm volatile(
      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address),
      "r"(columns)
      : "memory");
}

//@ ax_tmem_pair_alloc ax_tmem_pair_permit ax_tmem_pair_free
/* 9.7.16, tcgen05.alloc and others with .cta_group::2: issued by a warp of each
 * block of a pair, the blocks of a cluster whose ranks differ in the last bit.
 * The columns are the same in both. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tmem_pair_alloc(unsigned to, unsigned columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
          to),
      "r"(columns)
      : "memory");
}
AX_DEVICE void ax_tmem_pair_permit() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::
                   : "memory");
}
AX_DEVICE void ax_tmem_pair_free(unsigned address, unsigned columns) {
  asm volatile(
      "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address),
      "r"(columns)
      : "memory");
}

//@ ax_tcgen05_fence_before ax_tcgen05_fence_after
/* 9.7.16, tcgen05.fence: orders tcgen05 instructions before a barrier of
 * threads, and after it. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tcgen05_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
AX_DEVICE void ax_tcgen05_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

//@ ax_tcgen05_descriptor
/* 9.7.16, shared memory descriptor of a matrix at `address`.  leading,
 * stride: bytes.  swizzle: 0 none, 2 128 bytes, 4 64 bytes, 6 32 bytes.  Bit 46
 * is always 1. */
AX_DEVICE unsigned long long ax_tcgen05_descriptor(unsigned address,
                                                   unsigned leading,
                                                   unsigned stride,
                                                   unsigned swizzle) {
  return (unsigned long long)(address >> 4 & 0x3fff) |
         (unsigned long long)(leading >> 4 & 0x3fff) << 16 |
         (unsigned long long)(stride >> 4 & 0x3fff) << 32 | 1ull << 46 |
         (unsigned long long)swizzle << 61;
}

//@ ax_tcgen05_mma_f16 ax_tcgen05_mma_tf32 ax_tcgen05_mma_f8
/* 9.7.16, tcgen05.mma: d = a * b, or d += a * b.  d: address in tensor
 * memory.  a, b: descriptors.  instruction: the instruction descriptor
 * (9.7.16), with the types, sizes and storage of the operands.  One thread
 * issues it; it is asynchronous. */
AX_TCGEN05_CHECK
#define AX_TCGEN05_MMA(NAME, KIND)                                        \
  AX_DEVICE void ax_tcgen05_mma_##NAME(                                   \
      unsigned d, unsigned long long a, unsigned long long b,             \
      unsigned instruction, bool add) {                                   \
    asm volatile("{\n"                                                    \
                 ".reg .pred p;\n"                                        \
                 "setp.ne.b32 p, %4, 0;\n"                                \
                 "tcgen05.mma.cta_group::1.kind::" KIND                   \
                 " [%0], %1, %2, %3, p;\n"                                \
                 "}" ::"r"(d),                                            \
                 "l"(a), "l"(b), "r"(instruction), "r"((unsigned)add)     \
                 : "memory");                                             \
  }
AX_TCGEN05_MMA(f16, "f16")
AX_TCGEN05_MMA(tf32, "tf32")
AX_TCGEN05_MMA(f8, "f8f6f4")

//@ ax_tcgen05_mma_f16_ta
/* 9.7.16, tcgen05.mma.kind::f16 with A in tensor memory at `a`: lane i has row
 * i, and a column two neighbouring elements of each row. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tcgen05_mma_f16_ta(unsigned d, unsigned a,
                                     unsigned long long b,
                                     unsigned instruction, bool add) {
  asm volatile("{\n"
               ".reg .pred p;\n"
               "setp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n"
               "}" ::"r"(d),
               "r"(a), "l"(b), "r"(instruction), "r"((unsigned)add)
               : "memory");
}

//@ ax_tcgen05_mma_mxf4 ax_tcgen05_mma_nvf4
/* 9.7.16, tcgen05.mma with .block_scale: d = a * b, or d += a * b, with pairs
 * of 4-bit floats in bytes.  a, b: descriptors.  Each float is multiplied by
 * the scale factor of its block of 32 or 16 terms.  scales_a, scales_b:
 * addresses of the scale factors in tensor memory.  mxf4: powers of two,
 * f8_e8m0; nvf4: f8_e4m3 without sign. */
AX_TCGEN05_CHECK
#define AX_TCGEN05_SCALED_MMA(NAME, KIND, SIZE)                           \
  AX_DEVICE void ax_tcgen05_mma_##NAME(                                   \
      unsigned d, unsigned long long a, unsigned long long b,             \
      unsigned instruction, unsigned scales_a, unsigned scales_b,         \
      bool add) {                                                         \
    asm volatile("{\n"                                                    \
                 ".reg .pred p;\n"                                        \
                 "setp.ne.b32 p, %6, 0;\n"                                \
                 "tcgen05.mma.cta_group::1.kind::" KIND                   \
                 ".block_scale.scale_vec::" SIZE                          \
                 " [%0], %1, %2, %3, [%4], [%5], p;\n"                    \
                 "}" ::"r"(d),                                            \
                 "l"(a), "l"(b), "r"(instruction), "r"(scales_a),         \
                 "r"(scales_b), "r"((unsigned)add)                        \
                 : "memory");                                             \
  }
AX_TCGEN05_SCALED_MMA(mxf4, "mxf4", "2X")
AX_TCGEN05_SCALED_MMA(nvf4, "mxf4nvf4", "4X")

//@ ax_tcgen05_copy_scales
/* 9.7.16, tcgen05.cp: copies 32 rows of 16 bytes, which the descriptor `from`
 * describes, to 4 columns of tensor memory at `to`: once to the 32 lanes of
 * each warp.  It is asynchronous.  Products that the thread issues later follow
 * it. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tcgen05_copy_scales(unsigned to, unsigned long long from) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to),
               "l"(from)
               : "memory");
}

//@ ax_tcgen05_pair_mma_f16 ax_tcgen05_pair_mma_tf32 ax_tcgen05_pair_mma_f8
/* 9.7.16, tcgen05.mma.cta_group::2 with A in shared memory: a product of a pair
 * of blocks, issued by a thread of the first one.  Each block has half of the
 * rows of a and d, and half of the columns of b, at the same addresses. */
AX_TCGEN05_CHECK
#define AX_TCGEN05_PAIR_MMA(NAME, KIND)                                   \
  AX_DEVICE void ax_tcgen05_pair_mma_##NAME(                              \
      unsigned d, unsigned long long a, unsigned long long b,             \
      unsigned instruction, bool add) {                                   \
    asm volatile("{\n"                                                    \
                 ".reg .pred p;\n"                                        \
                 "setp.ne.b32 p, %4, 0;\n"                                \
                 "tcgen05.mma.cta_group::2.kind::" KIND                   \
                 " [%0], %1, %2, %3, p;\n"                                \
                 "}" ::"r"(d),                                            \
                 "l"(a), "l"(b), "r"(instruction), "r"((unsigned)add)     \
                 : "memory");                                             \
  }
AX_TCGEN05_PAIR_MMA(f16, "f16")
AX_TCGEN05_PAIR_MMA(tf32, "tf32")
AX_TCGEN05_PAIR_MMA(f8, "f8f6f4")

//@ ax_tcgen05_pair_commit
/* 9.7.16, tcgen05.commit.cta_group::2: one arrival at the mbarrier at the same
 * offset of each block whose bit is set in `blocks`, once the products of the
 * pair that this thread has issued are complete. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tcgen05_pair_commit(unsigned bar, unsigned blocks) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one"
               ".shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar),
               "h"((unsigned short)blocks)
               : "memory");
}

//@ ax_tcgen05_commit ax_tcgen05_commit_cast
/* 9.7.16, tcgen05.commit: one arrival at the mbarrier once the products
 * that this thread has issued are complete; the second form: at the same
 * offset of each block whose bit is set in `blocks`. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tcgen05_commit(unsigned bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one"
               ".shared::cluster.b64 [%0];" ::"r"(bar)
               : "memory");
}
AX_DEVICE void ax_tcgen05_commit_cast(unsigned bar, unsigned blocks) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one"
               ".shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar),
               "h"((unsigned short)blocks)
               : "memory");
}

//@ ax_tmem_wait_load
/* 9.7.16, tcgen05.wait::ld: waits until the warp's loads are complete.  ax_hold
 * follows it. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tmem_wait_load() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

//@ ax_tmem_wait_store
/* 9.7.16, tcgen05.wait::st: waits until the warp's stores are complete. */
AX_TCGEN05_CHECK
AX_DEVICE void ax_tmem_wait_store() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}
