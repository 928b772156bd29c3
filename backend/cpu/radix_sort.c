/* Sorts elements without their indices: short lines by a sorting network,
 * others by radix, least significant digit first.  Keys are unsigned integers
 * as wide as the elements and in their order.
 *
 * The order is ascending, with NaN last and -0 equal to 0.  Equal elements
 * keep their order.  NaNs share one key, and so do zeros; if there is a NaN or
 * a -0, they are restored after the sort. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/library_ops.h"
#include "machine/limits/cpu.h"
#include "runtime/thread_pool.h"

#include <string.h>

#if defined __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define HAS_AVX2 __builtin_cpu_supports("avx2")
#else
#define AVX2
#define HAS_AVX2 false
#endif

enum {
  DIGIT_BITS = 8, /* bits of a digit */
  BUCKETS = 1 << DIGIT_BITS,
  LONG_DIGIT_BITS = 11, /* of wide keys that all threads sort: fewer passes */
  NETWORK_LINES = 16,   /* short lines that are sorted at once */
  MAX_NETWORK_SIZE = MAX_NETWORK_SORT * 12, /* exceeds that of any network */
};

/* digits that one pass over the keys of a line counts */
#define DIGITS_AT_ONCE(KEY) (sizeof(KEY) < 4 ? sizeof(KEY) : 4)

typedef struct KeyPart {
  uint32_t counts[1 << LONG_DIGIT_BITS];
  uint64_t min_key, max_key;  /* range of the keys */
  bool has_nan_or_minus_zero; /* the part has a NaN or a -0 */
} KeyPart;

/* One line that several threads sort. */
typedef struct ParallelSort {
  const void *from;
  void *to, *keys, *scratch;
  KeyPart *parts;
  int64_t n;
  uint64_t min_key;
  uint32_t shift, digit_bits;
} ParallelSort;

/* Lines of which each thread sorts some. */
typedef struct LineSort {
  const AxisLines *lines;
  const void *from;
  void *to;
} LineSort;

/* Comparisons that sort a line of any keys. */
typedef struct SortingNetwork {
  uint32_t count;
  uint8_t low[MAX_NETWORK_SIZE], high[MAX_NETWORK_SIZE];
} SortingNetwork;

/* Batcher's merge exchange: sorted runs of `run` keys become longer. */
static void make_network(SortingNetwork *s, uint32_t n) {
  s->count = 0;
  for (uint32_t run = 1; run < n; run *= 2)
    for (uint32_t step = run; step; step /= 2)
      for (uint32_t j = step % run; j + step < n; j += 2 * step)
        for (uint32_t i = j; i < j + step && i + step < n; i++)
          if (i / (2 * run) == (i + step) / (2 * run)) {
            s->low[s->count] = (uint8_t)i;
            s->high[s->count++] = (uint8_t)(i + step);
          }
}

static int64_t part_begin(const ParallelSort *h, int64_t part) {
  return h->n / SORT_PARTS * part +
         (part < h->n % SORT_PARTS ? part : h->n % SORT_PARTS);
}

/* Replaces counts by the offset of each digit's keys.  Returns false if all
 * keys have the same digit. */
static bool counts_to_offsets(uint32_t *counts, int64_t n) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < BUCKETS; d++) {
    uint32_t count = counts[d];
    if (count == n)
      return false;
    counts[d] = sum;
    sum += count;
  }
  return true;
}

/* Replaces counts by offsets: for each digit, part after part. */
static bool part_counts_to_offsets(const ParallelSort *h) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < 1u << h->digit_bits; d++) {
    uint32_t previous = sum;
    for (uint32_t part = 0; part < SORT_PARTS; part++) {
      uint32_t count = h->parts[part].counts[d];
      h->parts[part].counts[d] = sum;
      sum += count;
    }
    if (sum - previous == h->n)
      return false;
  }
  return true;
}

/* Combines the ranges of all parts.  Returns true if there is a NaN or a -0. */
static bool combine_key_ranges(const ParallelSort *h, uint64_t *min_key,
                               uint64_t *max_key) {
  bool needs_fixup = false;
  *min_key = UINT64_MAX, *max_key = 0;
  for (uint32_t k = 0; k < SORT_PARTS; k++) {
    const KeyPart *p = &h->parts[k];
    needs_fixup |= p->has_nan_or_minus_zero;
    *min_key = p->min_key < *min_key ? p->min_key : *min_key;
    *max_key = p->max_key > *max_key ? p->max_key : *max_key;
  }
  return needs_fixup;
}

/* TWICE_INFINITY_BITS is twice the bits of infinity, or of the greatest number
 * if there is no infinity; 0 for integers.  A NaN has twice its bits above it,
 * and -0 is the sign bit alone.  UNUSED_BITS of an element are above its sign.
 */
#define KEY uint8_t
#define SIGN_BIT 0
#define TWICE_INFINITY_BITS 0
#define FOR_TYPE(x) u8_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint8_t
#define SIGN_BIT 0x80
#define TWICE_INFINITY_BITS 0
#define FOR_TYPE(x) i8_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint32_t
#define SIGN_BIT UINT32_C(0x80000000)
#define TWICE_INFINITY_BITS 0
#define FOR_TYPE(x) i32_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint64_t
#define SIGN_BIT UINT64_C(0x8000000000000000)
#define TWICE_INFINITY_BITS 0
#define FOR_TYPE(x) i64_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint16_t
#define SIGN_BIT 0x8000
#define TWICE_INFINITY_BITS 0xf800
#define FOR_TYPE(x) f16_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint16_t
#define SIGN_BIT 0x8000
#define TWICE_INFINITY_BITS 0xff00
#define FOR_TYPE(x) bf16_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint8_t
#define SIGN_BIT 0x80
#define TWICE_INFINITY_BITS 0xfc
#define FOR_TYPE(x) f8_e4m3_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint8_t
#define SIGN_BIT 0x80
#define TWICE_INFINITY_BITS 0xf8
#define FOR_TYPE(x) f8_e5m2_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint8_t
#define SIGN_BIT 0x80
#define UNUSED_BITS 4
#define TWICE_INFINITY_BITS 0xe0
#define FOR_TYPE(x) f4_e2m1_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint32_t
#define SIGN_BIT UINT32_C(0x80000000)
#define TWICE_INFINITY_BITS UINT32_C(0xff000000)
#define FOR_TYPE(x) f32_##x
#include "backend/cpu/radix_sort.def"

#define KEY uint64_t
#define SIGN_BIT UINT64_C(0x8000000000000000)
#define TWICE_INFINITY_BITS UINT64_C(0xffe0000000000000)
#define FOR_TYPE(x) f64_##x
#include "backend/cpu/radix_sort.def"

bool library_op_sort(LibraryOp *r) {
  if (r->lines.length > UINT32_MAX)
    return false;
  switch (r->node->dtype) {
  case DT_F32:
    return f32_sort(r);
  case DT_F64:
    return f64_sort(r);
  case DT_BOOL:
  case DT_U8:
  case DT_F8_E8M0: /* exponents, and NaN after them */
    return u8_sort(r);
  case DT_I8:
    return i8_sort(r);
  case DT_I32:
    return i32_sort(r);
  case DT_I64:
    return i64_sort(r);
  case DT_F16:
    return f16_sort(r);
  case DT_BF16:
    return bf16_sort(r);
  case DT_F8_E4M3:
    return f8_e4m3_sort(r);
  case DT_F8_E5M2:
    return f8_e5m2_sort(r);
  case DT_F4_E2M1:
    return f4_e2m1_sort(r);
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return false;
}
