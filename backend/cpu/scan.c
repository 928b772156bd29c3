/* Running sums: in double, of floats of 16 bits in float, of integers in 64
 * bits, each rounded once.
 *
 * Lines are gone along four at a time, since an addition waits for the one
 * before.  A few long lines are cut into blocks of so many elements, whatever
 * the number of threads: their sums first, then each from what comes before
 * it.  Where a line's elements lie apart, its neighbours go along with it. */
#include "backend/cpu/narrow.h"
#include "backend/cpu/routines.h"

enum {
  TOGETHER = 4,                /* lines */
  BLOCK = 4096,                /* elements of a line that is */
  LONG = 2 * TOGETHER * BLOCK, /* where there are fewer lines than */
  LINES_FEW = 8,
  COLUMNS = 64,   /* neighbours that go together */
  WORK = 1 << 15, /* elements that a thread takes at a time */
};

typedef struct Scan {
  const Lines *lines;
  const void *from;
  void *to, *starts;      /* starts: what comes before each block */
  int64_t blocks, strips; /* of a line; of neighbours */
} Scan;

#define EACH "backend/cpu/scan.def"
#include "backend/cpu/numbers.def"

bool routine_cumsum(Routine *r) {
  const Lines *l = &r->lines;
  Scan s = {.lines = l,
            .from = r->node->inputs[0]->data->data,
            .to = r->out->data,
            .blocks = (l->length + BLOCK - 1) / BLOCK,
            .strips = (l->inner + COLUMNS - 1) / COLUMNS};
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
  default:
    return false;
  }
}
