/* Running sums: in double, of floats of 16 bits in float, of integers in 64
 * bits, each rounded once.
 *
 * Lines are gone along four at a time, since an addition waits for the one
 * before.  A few long lines are cut into blocks of so many elements, whatever
 * the number of threads: their sums first, then each from what comes before
 * it.  Where a line's elements lie apart, its neighbours go along with it. */
#include "backend/cpu/half_float.h"
#include "backend/cpu/library_ops.h"

enum {
  INTERLEAVED_LINES = 4, /* lines */
  BLOCK_ELEMENTS = 4096, /* elements of a line that is */
  MIN_BLOCKED_LENGTH = 2 * INTERLEAVED_LINES *
                       BLOCK_ELEMENTS, /* where there are fewer lines than */
  MAX_BLOCKED_LINES = 8,
  STRIP_COLUMNS = 64,       /* neighbours that go together */
  GRAIN_ELEMENTS = 1 << 15, /* elements that a thread takes at a time */
};

typedef struct PrefixSum {
  const AxisLines *lines;
  const void *from;
  void *to, *block_offsets; /* starts: what comes before each block */
  int64_t blocks, strips;   /* of a line; of neighbours */
} PrefixSum;

#define PER_TYPE_CODE "backend/cpu/prefix_sum.def"
#include "backend/cpu/element_types.def"

bool library_op_cumsum(LibraryOp *r) {
  const AxisLines *l = &r->lines;
  PrefixSum s = {.lines = l,
                 .from = r->node->inputs[0]->data->data,
                 .to = r->out->data,
                 .blocks = (l->length + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS,
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
    return f16_cumsum(r, &s);
  case DT_BF16:
    return bf16_cumsum(r, &s);
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return false;
}
