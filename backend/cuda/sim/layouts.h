/* backend/cuda/sim: layouts of matrix fragments and operands, for the simulator
 * and for tests. layouts.def transcribes them from the PTX manual.  The code
 * generator must not include this file, because tests compare its derived
 * layouts with it.  C and C++. */
#ifndef AXON_CUDA_LAYOUTS_H
#define AXON_CUDA_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>

/* ---- fragments in registers ---- */

typedef enum Fragment {
  FRAGMENT_NONE,
#define FRAGMENT(name, rows, columns, threads, count, row, column) \
  FRAGMENT_##name,
#include "backend/cuda/sim/layouts.def"
  FRAGMENT_COUNT,
} Fragment;

typedef struct FragmentInfo {
  int rows, columns, threads;
  int count; /* elements per thread */
} FragmentInfo;

static inline FragmentInfo fragment_info(Fragment f) {
  switch (f) {
#define FRAGMENT(name, rows, columns, threads, count, row, column) \
  case FRAGMENT_##name: {                                          \
    FragmentInfo info = {rows, columns, threads, count};           \
    return info;                                                   \
  }
#include "backend/cuda/sim/layouts.def"
  case FRAGMENT_NONE:
  case FRAGMENT_COUNT:
    break;
  }
  FragmentInfo none = {0, 0, 0, 0};
  return none;
}

typedef struct FragmentCoord {
  int row, column;
} FragmentCoord;

/* The matrix element of element i of a thread in the warp or warpgroup. */
static inline FragmentCoord fragment_coord(Fragment f, int thread, int i) {
  FragmentCoord place = {-1, -1};
  int w = thread / 32, g = thread % 32 / 4, t = thread % 4;
  switch (f) {
#define FRAGMENT(name, rows, columns, threads, count, row_of, column_of) \
  case FRAGMENT_##name:                                                  \
    place.row = (row_of);                                                \
    place.column = (column_of);                                          \
    break;
#include "backend/cuda/sim/layouts.def"
  case FRAGMENT_NONE:
  case FRAGMENT_COUNT:
    break;
  }
  (void)w;
  return place;
}

/* ---- operands in shared memory ---- */

typedef struct SwizzleInfo {
  uint32_t span_bytes; /* 0, 32, 64 or 128; 1 if the number is invalid */
  uint32_t bits;       /* address bits that change */
  /* The pattern repeats after this; its start must be aligned to this. */
  uint32_t period_bytes;
} SwizzleInfo;

/* The swizzle with this number in descriptors. */
static inline SwizzleInfo swizzle_info(uint32_t number) {
  SwizzleInfo info = {1, 0, 0};
  switch (number) {
#define SWIZZLE(width, is, some, after) \
  case is:                              \
    info.span_bytes = width;            \
    info.bits = some;                   \
    info.period_bytes = after;          \
    break;
#include "backend/cuda/sim/layouts.def"
  }
  return info;
}

/* The swizzled address of a byte. */
static inline uint32_t swizzle_address(SwizzleInfo s, uint32_t address) {
  uint32_t mask = ((1u << s.bits) - 1) << 4;
  return address ^ (address >> 3 & mask);
}

/* An operand of wgmma, from the fields of its descriptor and of the
 * instruction. */
typedef struct SmemOperand {
  SwizzleInfo swizzle;
  bool mn_major;
  uint32_t element_bytes;
  uint32_t leading_bytes, stride_bytes;
} SmemOperand;

/* The offset of element (mn, k) from the start of the operand, before
 * swizzling; bytes. */
static inline uint32_t smem_operand_offset(const SmemOperand *o, uint32_t mn,
                                           uint32_t k) {
  const uint32_t T = 16 / o->element_bytes, W = o->swizzle.span_bytes / 16;
  const uint32_t LBO = o->leading_bytes, SBO = o->stride_bytes;
#define CANONICAL(swizzled, major, mn_step, k_step)    \
  if ((swizzled) == (W > 0) && (major) == o->mn_major) \
    return (mn_step) + (k_step);
#include "backend/cuda/sim/layouts.def"
  return 0;
}

#endif
