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
/* 9.7.9.25.5.2, cp.async.bulk.tensor: the box of `map` that begins at these
 * coordinates, the first of which is of the axis that lies densest; what is
 * outside of the tensor is 0.  All bytes of the box count as arrived at `bar`. */
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
/* The same in the mode im2col: channels from `c` on of so many pixels, from
 * the one at w, h, d of image n on as a bounding box counts them, each moved by
 * the offsets. */
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
/* The same to the same place of each block of the cluster whose bit is in
 * `blocks`; in each of them the bytes arrive at its own `bar`. */
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

//@ ax_tma_store_1d ax_tma_store_2d ax_tma_store_3d ax_tma_store_4d ax_tma_store_5d
/* The box to global memory, but for what is outside of the tensor; part of a
 * group (ax_tma_commit). */
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
/* 9.7.9.25.4.4 and 5, cp.async.bulk.commit_group and wait_group: until at most
 * the last N groups of this thread still read shared memory, or are under way
 * at all. */
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
