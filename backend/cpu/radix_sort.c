/* Sorting elements where nobody asks from where they came: by digits, from the
 * last one, of keys that have their order and are as wide as they are.
 *
 * Ascending, NaN last, -0 and 0 equal, in the order in which they come: all of
 * these have one key, and where there are some they are put back afterwards. */
#include "backend/cpu/library_ops.h"

#include "runtime/thread_pool.h"

#include <string.h>

enum {
  MAX_INSERTION_SORT = 40, /* keys that are put in their places one by one */
  DIGIT_BITS = 8,          /* bits */
  BUCKETS = 1 << DIGIT_BITS,
  MIN_PARALLEL_KEYS = 1 << 16, /* keys of one line that threads share, */
  PARALLEL_PARTS = 16,         /* in so many parts */
  GRAIN_KEYS = 1 << 14,        /* keys that a thread takes at a time */
};

typedef struct KeyPart {
  uint32_t counts[BUCKETS];
  uint64_t min_key, max_key;  /* keys are between them */
  bool has_nan_or_minus_zero; /* there is a NaN or a -0 */
} KeyPart;

/* One line that threads share. */
typedef struct ParallelSort {
  const void *from;
  void *to, *keys, *scratch;
  KeyPart *parts;
  int64_t n;
  uint64_t min_key;
  uint32_t shift;
} ParallelSort;

/* Lines that threads share out. */
typedef struct LineSort {
  const AxisLines *lines;
  const void *from;
  void *to;
} LineSort;

static int64_t part_begin(const ParallelSort *h, int64_t part) {
  return h->n / PARALLEL_PARTS * part +
         (part < h->n % PARALLEL_PARTS ? part : h->n % PARALLEL_PARTS);
}

/* Counts to where each digit's keys begin; false: all have the same. */
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

/* Those of a digit: part after part. */
static bool part_counts_to_offsets(const ParallelSort *h) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < BUCKETS; d++) {
    uint32_t previous = sum;
    for (uint32_t part = 0; part < PARALLEL_PARTS; part++) {
      uint32_t count = h->parts[part].counts[d];
      h->parts[part].counts[d] = sum;
      sum += count;
    }
    if (sum - previous == h->n)
      return false;
  }
  return true;
}

/* Of all parts; true: there is something odd. */
static bool combine_key_ranges(const ParallelSort *h, uint64_t *min_key,
                               uint64_t *max_key) {
  bool needs_fixup = false;
  *min_key = UINT64_MAX, *max_key = 0;
  for (uint32_t k = 0; k < PARALLEL_PARTS; k++) {
    const KeyPart *p = &h->parts[k];
    needs_fixup |= p->has_nan_or_minus_zero;
    *min_key = p->min_key < *min_key ? p->min_key : *min_key;
    *max_key = p->max_key > *max_key ? p->max_key : *max_key;
  }
  return needs_fixup;
}

/* What is odd is of bits alone: twice those of infinity or more, and the sign
 * alone.  INFINITE is twice the bits of infinity; of integers nothing is. */
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
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return false;
}
