/* Prefix sums.  Accumulators are f64, f32 for 16-bit floats, and 64-bit
 * integers.  Each result is rounded once.
 *
 * Four lines are interleaved, since each addition waits for the previous
 * one.  A few long lines are divided into blocks, whose size does not depend on
 * the number of threads.  The first pass computes the sums of the blocks.  The
 * second pass starts each block from the sum of the blocks before it.  If the
 * elements of a line are strided, neighbouring lines are computed together. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/half_float.h"
#include "backend/cpu/library_ops.h"
#include "machine/limits/cpu.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

enum {
  INTERLEAVED_LINES =
      4, /* lines that `interleaved` computes; fixed by its code */
};

typedef struct PrefixSum {
  const AxisLines *lines;
  const void *from;
  void *to, *block_offsets; /* sum of the elements before each block */
  int64_t blocks, strips;   /* blocks of a line; strips of neighbouring lines */
} PrefixSum;

#define PER_TYPE_CODE "backend/cpu/prefix_sum.def"
#include "backend/cpu/element_types.def"

/* f16 on processors that convert it. */
#if defined __x86_64__
/* Processors with vectors of 32 bytes, AVX2 and FMA, have it. */
#define HAS_F16C true
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("f16c")
#endif
#define ELEMENT uint16_t
#define ACCUMULATOR float
#define TO_ACCUMULATOR(x) _cvtsh_ss(x)
#define FROM_ACCUMULATOR(x) _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)
#define FOR_TYPE(x) f16c_##x
#include "backend/cpu/prefix_sum.def"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define HAS_F16C false
#define f16c_cumsum f16_cumsum
#endif

bool library_op_cumsum(LibraryOp *r) {
  const AxisLines *l = &r->lines;
  PrefixSum s = {.lines = l,
                 .from = r->node->inputs[0]->data->data,
                 .to = r->out->data,
                 .blocks = (l->length + SCAN_BLOCK_ELEMENTS - 1) /
                           SCAN_BLOCK_ELEMENTS,
                 .strips = (l->inner + STRIP_COLUMNS - 1) / STRIP_COLUMNS};
  switch (r->node->dtype) {
  case DT_F32:
    return f32_cumsum(r, &s);
  case DT_F64:
    return f64_cumsum(r, &s);
  case DT_U8:
    return u8_cumsum(r, &s);
  case DT_I8:
    return i8_cumsum(r, &s);
  case DT_I32:
    return i32_cumsum(r, &s);
  case DT_I64:
    return i64_cumsum(r, &s);
  case DT_F16:
    return HAS_F16C && cpu_vector_bytes() > 16 ? f16c_cumsum(r, &s)
                                               : f16_cumsum(r, &s);
  case DT_BF16:
    return bf16_cumsum(r, &s);
  case DT_F8_E4M3:
    return f8_e4m3_cumsum(r, &s);
  case DT_F8_E5M2:
    return f8_e5m2_cumsum(r, &s);
  case DT_F4_E2M1:
    return f4_e2m1_cumsum(r, &s);
  case DT_F8_E8M0:
    return f8_e8m0_cumsum(r, &s);
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return false;
}
