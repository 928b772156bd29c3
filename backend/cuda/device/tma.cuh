//@ AX_TMA_CHECK
#if __CUDA_ARCH__ < 900
#error "ax_tma_: cp.async.bulk.tensor is of sm_90 on"
#endif
#define AX_TMA_CHECK
#define AX_IS(...) __VA_ARGS__

//@ ax_tma_prefetch
/* 9.7.9.15, prefetch.tensormap. */
AX_TMA_CHECK
AX_DEVICE void ax_tma_prefetch(const ax_tensor_map *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

//@ ax_tma_load_1d ax_tma_load_2d ax_tma_load_3d ax_tma_load_4d ax_tma_load_5d
/* 9.7.9.25.5.2, cp.async.bulk.tensor: loads the box of `map` at these
 * coordinates, the contiguous axis first.  Elements out of bounds are 0.  All
 * bytes of the box complete on `bar`. */
AX_TMA_CHECK
#define AX_TMA_LOAD(D, AT, COORDINATES, OPERANDS)                             \
  AX_DEVICE void ax_tma_load_##D(unsigned to, const ax_tensor_map *map,       \
                                 unsigned bar, AX_IS COORDINATES) {           \
    asm volatile("cp.async.bulk.tensor." #D ".shared::cluster.global.tile"    \
                 ".mbarrier::complete_tx::bytes [%0], [%1, " AT "], [%2];" :: \
                     "r"(to),                                                 \
                 "l"(map), "r"(bar), AX_IS OPERANDS                           \
                 : "memory");                                                 \
  }
AX_TMA_LOAD(1d, "{%3}", (int a), ("r"(a)))
AX_TMA_LOAD(2d, "{%3, %4}", (int a, int b), ("r"(a), "r"(b)))
AX_TMA_LOAD(3d, "{%3, %4, %5}", (int a, int b, int c),
            ("r"(a), "r"(b), "r"(c)))
AX_TMA_LOAD(4d, "{%3, %4, %5, %6}", (int a, int b, int c, int d),
            ("r"(a), "r"(b), "r"(c), "r"(d)))
AX_TMA_LOAD(5d, "{%3, %4, %5, %6, %7}", (int a, int b, int c, int d, int e),
            ("r"(a), "r"(b), "r"(c), "r"(d), "r"(e)))

//@ ax_tma_pixels_3d ax_tma_pixels_4d ax_tma_pixels_5d
/* The same in im2col mode: channels from `c` on.  Pixels start at w, h, d of
 * image n and follow the bounding box; the offsets are added to each pixel. */
AX_TMA_CHECK
#define AX_TMA_PIXELS(D, AT, MOVED, COORDINATES, OPERANDS)                    \
  AX_DEVICE void ax_tma_pixels_##D(unsigned to, const ax_tensor_map *map,     \
                                   unsigned bar, AX_IS COORDINATES) {         \
    asm volatile("cp.async.bulk.tensor." #D ".shared::cluster.global.im2col"  \
                 ".mbarrier::complete_tx::bytes [%0], [%1, " AT "], [%2], "   \
                 MOVED ";" ::"r"(to),                                         \
                 "l"(map), "r"(bar), AX_IS OPERANDS                           \
                 : "memory");                                                 \
  }
#define AX_MOVE(x) "h"((unsigned short)(x))
AX_TMA_PIXELS(3d, "{%3, %4, %5}", "{%6}", (int c, int w, int n, int move_w),
              ("r"(c), "r"(w), "r"(n), AX_MOVE(move_w)))
AX_TMA_PIXELS(4d, "{%3, %4, %5, %6}", "{%7, %8}",
              (int c, int w, int h, int n, int move_w, int move_h),
              ("r"(c), "r"(w), "r"(h), "r"(n), AX_MOVE(move_w),
               AX_MOVE(move_h)))
AX_TMA_PIXELS(5d, "{%3, %4, %5, %6, %7}", "{%8, %9, %10}",
              (int c, int w, int h, int d, int n, int move_w, int move_h,
               int move_d),
              ("r"(c), "r"(w), "r"(h), "r"(d), "r"(n), AX_MOVE(move_w),
               AX_MOVE(move_h), AX_MOVE(move_d)))

//@ ax_tma_cast_1d ax_tma_cast_2d ax_tma_cast_3d ax_tma_cast_4d ax_tma_cast_5d
/* The same with multicast: to the same shared memory offset of each block
 * whose bit is set in `blocks`.  The bytes complete on the `bar` of each of
 * these blocks. */
#if !defined __CUDA_ARCH_FEAT_SM90_ALL && !defined __CUDA_ARCH_FEAT_SM100_ALL
#error "ax_tma_cast_: several blocks at once is of sm_90a, sm_100a"
#endif
AX_TMA_CHECK
#define AX_TMA_CAST(D, AT, COORDINATES, OPERANDS)                             \
  AX_DEVICE void ax_tma_cast_##D(unsigned to, const ax_tensor_map *map,       \
                                 unsigned bar, unsigned blocks,               \
                                 AX_IS COORDINATES) {                         \
    asm volatile("cp.async.bulk.tensor." #D ".shared::cluster.global.tile"    \
                 ".mbarrier::complete_tx::bytes.multicast::cluster "          \
                 "[%0], [%1, " AT "], [%2], %3;" ::"r"(to),                   \
                 "l"(map), "r"(bar), "h"((unsigned short)blocks),             \
                 AX_IS OPERANDS                                               \
                 : "memory");                                                 \
  }
AX_TMA_CAST(1d, "{%4}", (int a), ("r"(a)))
AX_TMA_CAST(2d, "{%4, %5}", (int a, int b), ("r"(a), "r"(b)))
AX_TMA_CAST(3d, "{%4, %5, %6}", (int a, int b, int c),
            ("r"(a), "r"(b), "r"(c)))
AX_TMA_CAST(4d, "{%4, %5, %6, %7}", (int a, int b, int c, int d),
            ("r"(a), "r"(b), "r"(c), "r"(d)))
AX_TMA_CAST(5d, "{%4, %5, %6, %7, %8}", (int a, int b, int c, int d, int e),
            ("r"(a), "r"(b), "r"(c), "r"(d), "r"(e)))

//@ ax_tma_pair_1d ax_tma_pair_2d ax_tma_pair_3d ax_tma_pair_4d ax_tma_pair_5d
/* As ax_tma_load, by a block of a pair (tcgen05): the bytes complete at the
 * same offset as `bar` in the first block of the pair. */
AX_TMA_CHECK
#ifndef __CUDA_ARCH_FEAT_SM100_ALL
#error "ax_tma_pair_: pairs of blocks are of sm_100a alone"
#endif
#define AX_TMA_PAIR(D, AT, COORDINATES, OPERANDS)                             \
  AX_DEVICE void ax_tma_pair_##D(unsigned to, const ax_tensor_map *map,       \
                                 unsigned bar, AX_IS COORDINATES) {           \
    asm volatile("{\n"                                                        \
                 ".reg .b32 first, there;\n"                                  \
                 "mov.u32 first, %%cluster_ctarank;\n"                        \
                 "and.b32 first, first, -2;\n"                                \
                 "mapa.shared::cluster.u32 there, %2, first;\n"               \
                 "cp.async.bulk.tensor." #D                                   \
                 ".shared::cluster.global.tile"                               \
                 ".mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, " AT  \
                 "], [there];\n"                                              \
                 "}" ::"r"(to),                                               \
                 "l"(map), "r"(bar), AX_IS OPERANDS                           \
                 : "memory");                                                 \
  }
AX_TMA_PAIR(1d, "{%3}", (int a), ("r"(a)))
AX_TMA_PAIR(2d, "{%3, %4}", (int a, int b), ("r"(a), "r"(b)))
AX_TMA_PAIR(3d, "{%3, %4, %5}", (int a, int b, int c),
            ("r"(a), "r"(b), "r"(c)))
AX_TMA_PAIR(4d, "{%3, %4, %5, %6}", (int a, int b, int c, int d),
            ("r"(a), "r"(b), "r"(c), "r"(d)))
AX_TMA_PAIR(5d, "{%3, %4, %5, %6, %7}", (int a, int b, int c, int d, int e),
            ("r"(a), "r"(b), "r"(c), "r"(d), "r"(e)))

//@ ax_tma_store_1d ax_tma_store_2d ax_tma_store_3d ax_tma_store_4d ax_tma_store_5d
/* Stores a box to global memory, without elements out of bounds, as part of a
 * bulk group (ax_tma_commit). */
AX_TMA_CHECK
#define AX_TMA_STORE(D, AT, COORDINATES, OPERANDS)                            \
  AX_DEVICE void ax_tma_store_##D(const ax_tensor_map *map, unsigned from,    \
                                  AX_IS COORDINATES) {                        \
    asm volatile("cp.async.bulk.tensor." #D ".global.shared::cta.tile"        \
                 ".bulk_group [%0, " AT "], [%1];" ::"l"(map),                \
                 "r"(from), AX_IS OPERANDS                                    \
                 : "memory");                                                 \
  }
AX_TMA_STORE(1d, "{%2}", (int a), ("r"(a)))
AX_TMA_STORE(2d, "{%2, %3}", (int a, int b), ("r"(a), "r"(b)))
AX_TMA_STORE(3d, "{%2, %3, %4}", (int a, int b, int c),
             ("r"(a), "r"(b), "r"(c)))
AX_TMA_STORE(4d, "{%2, %3, %4, %5}", (int a, int b, int c, int d),
             ("r"(a), "r"(b), "r"(c), "r"(d)))
AX_TMA_STORE(5d, "{%2, %3, %4, %5, %6}", (int a, int b, int c, int d, int e),
             ("r"(a), "r"(b), "r"(c), "r"(d), "r"(e)))

//@ ax_tma_commit ax_tma_wait_read ax_tma_wait
/* 9.7.9.25.4.4 and 5, cp.async.bulk.commit_group and wait_group: waits until
 * at most the last N groups of this thread still read shared memory (_read),
 * or are in flight. */
AX_TMA_CHECK
AX_DEVICE void ax_tma_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int N> AX_DEVICE void ax_tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N> AX_DEVICE void ax_tma_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
