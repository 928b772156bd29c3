/* Sorting elements where nobody asks from where they came: by digits, from the
 * last one, of keys that have their order and are as wide as they are.
 *
 * Ascending, NaN last, -0 and 0 equal, in the order in which they come: all of
 * these have one key, and where there are some they are put back afterwards. */
#include "backend/cpu/routines.h"

#include "runtime/pool.h"

#include <string.h>

enum {
  SHORT = 40, /* keys that are put in their places one by one */
  DIGIT = 8,  /* bits */
  BUCKETS = 1 << DIGIT,
  SHARED = 1 << 16, /* keys of one line that threads share, */
  PARTS = 16,       /* in so many parts */
  WORK = 1 << 14,   /* keys that a thread takes at a time */
};

typedef struct Part {
  uint32_t counts[BUCKETS];
  uint64_t low, high; /* keys are between them */
  bool odd;           /* there is a NaN or a -0 */
} Part;

/* One line that threads share. */
typedef struct Shared {
  const void *from;
  void *to, *keys, *scratch;
  Part *parts;
  int64_t n;
  uint64_t low;
  uint32_t shift;
} Shared;

/* Lines that threads share out. */
typedef struct Sort {
  const Lines *lines;
  const void *from;
  void *to;
} Sort;

static int64_t part_begin(const Shared *h, int64_t part) {
  return h->n / PARTS * part + (part < h->n % PARTS ? part : h->n % PARTS);
}

/* Counts to where each digit's keys begin; false: all have the same. */
static bool add_up(uint32_t *counts, int64_t n) {
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
static bool add_up_parts(const Shared *h) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < BUCKETS; d++) {
    uint32_t before = sum;
    for (uint32_t part = 0; part < PARTS; part++) {
      uint32_t count = h->parts[part].counts[d];
      h->parts[part].counts[d] = sum;
      sum += count;
    }
    if (sum - before == h->n)
      return false;
  }
  return true;
}

/* Of all parts; true: there is something odd. */
static bool join_parts(const Shared *h, uint64_t *low, uint64_t *high) {
  bool odd = false;
  *low = UINT64_MAX, *high = 0;
  for (uint32_t k = 0; k < PARTS; k++) {
    const Part *p = &h->parts[k];
    odd |= p->odd;
    *low = p->low < *low ? p->low : *low;
    *high = p->high > *high ? p->high : *high;
  }
  return odd;
}

/* What is odd is of bits alone: twice those of infinity or more, and the sign
 * alone.  INFINITE is twice the bits of infinity; of integers nothing is. */
#define K uint8_t
#define SIGN 0
#define INFINITE 0
#define NAME(x) u8_##x
#include "backend/cpu/keys.def"

#define K uint8_t
#define SIGN 0x80
#define INFINITE 0
#define NAME(x) i8_##x
#include "backend/cpu/keys.def"

#define K uint32_t
#define SIGN UINT32_C(0x80000000)
#define INFINITE 0
#define NAME(x) i32_##x
#include "backend/cpu/keys.def"

#define K uint64_t
#define SIGN UINT64_C(0x8000000000000000)
#define INFINITE 0
#define NAME(x) i64_##x
#include "backend/cpu/keys.def"

#define K uint16_t
#define SIGN 0x8000
#define INFINITE 0xf800
#define NAME(x) f16_##x
#include "backend/cpu/keys.def"

#define K uint16_t
#define SIGN 0x8000
#define INFINITE 0xff00
#define NAME(x) bf16_##x
#include "backend/cpu/keys.def"

#define K uint32_t
#define SIGN UINT32_C(0x80000000)
#define INFINITE UINT32_C(0xff000000)
#define NAME(x) f32_##x
#include "backend/cpu/keys.def"

#define K uint64_t
#define SIGN UINT64_C(0x8000000000000000)
#define INFINITE UINT64_C(0xffe0000000000000)
#define NAME(x) f64_##x
#include "backend/cpu/keys.def"

bool routine_sort(Routine *r) {
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
