/* Rows added at places that data says, each sum in the order of the rows and
 * rounded once.
 *
 * Threads have ranges of columns, where rows are wide: then each goes along
 * all rows.  Of narrow ones there are sums for each of so many parts of the
 * rows, whatever the number of threads, where there are few sums and many
 * rows; these are added up then. */
#include "backend/cpu/narrow.h"
#include "backend/cpu/routines.h"

#include <string.h>

enum {
  COLUMNS = 16, /* of a range, at least */
  RANGES = 16,  /* at most */
  PARTS = 8,    /* of many rows, */
  ROWS_MANY = 1 << 14,
  SUMS_FEW = 1 << 14, /* with few sums */
  WORK = 1 << 15,     /* elements that a thread takes at a time */
  AT_ONCE = 256,      /* indices that are looked at together */
};

typedef struct Scatter {
  const void *x, *index, *y;
  void *to, *sums;
  Dtype index_type;
  int64_t slices, rows, width, added; /* rows of x; elements of a row; rows of
                                         y */
  int64_t parts, ranges;              /* of a slice's rows of y; of columns */
} Scatter;

#define FETCH(T)                      \
  for (int64_t k = 0; k < count; k++) \
  to[k] = ((const T *)s->index)[from + k]

/* So many indices, at most AT_ONCE, from one on. */
static void fetch(const Scatter *s, int64_t from, int64_t count, int64_t *to) {
  switch (s->index_type) {
  case DT_I64:
    FETCH(int64_t);
    break;
  case DT_I32:
    FETCH(int32_t);
    break;
  case DT_I8:
    FETCH(int8_t);
    break;
  default:
    FETCH(uint8_t);
    break;
  }
}

/* Is each of them an index?  1: not all. */
static int check_indices(void *context, int64_t begin, int64_t end) {
  const Scatter *s = context;
  bool bad = false;
  for (int64_t k = begin; k < end; k += AT_ONCE) {
    int64_t at[AT_ONCE], count = end - k < AT_ONCE ? end - k : AT_ONCE;
    fetch(s, k, count, at);
    for (int64_t j = 0; j < count; j++)
      bad |= (uint64_t)at[j] >= (uint64_t)s->rows;
  }
  return bad;
}

#define EACH "backend/cpu/scatter.def"
#include "backend/cpu/numbers.def"

static Scatter scatter_of(const Routine *r) {
  const Node *const n = r->node, *index = n->inputs[1];
  Scatter s = {.x = n->inputs[0]->data->data,
               .index = index->data->data,
               .y = n->inputs[2]->data->data,
               .to = r->out->data,
               .index_type = index->dtype,
               .slices = r->lines.outer,
               .rows = r->lines.length,
               .width = r->lines.inner,
               .added = index->extents[index->free_count]};
  int64_t sums = s.slices * s.rows * s.width;
  s.ranges = s.width / COLUMNS < 1        ? 1
             : s.width / COLUMNS > RANGES ? RANGES
                                          : s.width / COLUMNS;
  s.parts =
      s.ranges == 1 && s.slices == 1 && s.added >= ROWS_MANY && sums <= SUMS_FEW
          ? PARTS
          : 1;
  return s;
}

bool routine_scatter(Routine *r) {
  Scatter s = scatter_of(r);
  if (!routine_share(r, s.slices * s.added, WORK, check_indices, &s))
    return false;
  switch (r->node->dtype) {
  case DT_F32:
    return f32_scatter(r, &s);
  case DT_F64:
    return f64_scatter(r, &s);
  case DT_U8:
    return u8_scatter(r, &s);
  case DT_I8:
    return i8_scatter(r, &s);
  case DT_I32:
    return i32_scatter(r, &s);
  case DT_I64:
    return i64_scatter(r, &s);
  case DT_F16:
    return f16_scatter(r, &s);
  case DT_BF16:
    return bf16_scatter(r, &s);
  default:
    return false;
  }
}
