/* Scatter with addition.  Each sum adds its rows in order and is rounded once.
 *
 * If it changes few rows, the others are copied, or stay where they are if the
 * result takes the memory of x.  Otherwise, for wide rows, each thread has a
 * range of columns and adds all rows.  For many narrow rows with few results,
 * each part of the rows has a private copy of the result.  The number of parts
 * does not depend on the number of threads.  The sum of the copies is the
 * result. */
#include "backend/cpu/half_float.h"
#include "backend/cpu/library_ops.h"
#include "machine/limits/cpu.h"

#include <string.h>

typedef struct Scatter {
  const void *x, *index, *y;
  void *to, *accumulators;
  Dtype index_type;
  int64_t slices, rows, row_elements,
      update_rows; /* rows of x, elements of a row, rows of y */
  int64_t private_copies,
      column_ranges; /* parts of the rows of y, ranges of columns */
  /* Few rows: owner[k] is the first row of y with the index of row k. */
  int64_t *owner;
} Scatter;

#define LOAD_INDICES(T)               \
  for (int64_t k = 0; k < count; k++) \
  to[k] = ((const T *)s->index)[from + k]

/* Loads `count` indices, at most INDEX_BATCH. */
static void load_indices(const Scatter *s, int64_t from, int64_t count,
                         int64_t *to) {
  switch (s->index_type) {
  case DT_I64:
    LOAD_INDICES(int64_t);
    break;
  case DT_I32:
    LOAD_INDICES(int32_t);
    break;
  case DT_I8:
    LOAD_INDICES(int8_t);
    break;
  case DT_U8:
    LOAD_INDICES(uint8_t);
    break;
  case DT_BOOL:
  case DT_F16:
  case DT_BF16:
  case DT_F32:
  case DT_F64:
  case DT_F8_E4M3:
  case DT_F8_E5M2:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
  case DT_NONE:
  case DT_COUNT:
    break; /* no index types */
  }
}

/* Returns 1 if some index is out of bounds. */
static int check_indices(void *context, int64_t begin, int64_t end) {
  const Scatter *s = context;
  bool out_of_bounds = false;
  for (int64_t k = begin; k < end; k += INDEX_BATCH) {
    int64_t at[INDEX_BATCH],
        count = end - k < INDEX_BATCH ? end - k : INDEX_BATCH;
    load_indices(s, k, count, at);
    for (int64_t j = 0; j < count; j++)
      out_of_bounds |= (uint64_t)at[j] >= (uint64_t)s->rows;
  }
  return out_of_bounds;
}

/* ---- few rows ---- */

static bool changes_few_rows(const LibraryOp *r) {
  const Node *index = r->node->inputs[1];
  int64_t added = index->extents[index->free_count];
  int64_t share =
      added <= SHORT_SCATTER_ROWS ? FEW_ROWS_SHARE : MANY_ROWS_SHARE;
  return r->lines.outer == 1 && added <= MAX_FEW_ROWS &&
         added * share <= r->lines.length;
}

bool library_op_scatter_in_place(const LibraryOp *r) {
  return changes_few_rows(r);
}

/* Fills s->owner, with a hash table. */
static void find_owners(const Scatter *s, const int64_t *at) {
  uint16_t first[2 * MAX_FEW_ROWS]; /* plus 1 */
  uint64_t slots = 1;
  while (slots < 2 * (uint64_t)s->update_rows)
    slots *= 2;
  memset(first, 0, slots * sizeof *first);
  for (int64_t k = 0; k < s->update_rows; k++) {
    uint64_t slot = (uint64_t)at[k] * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (first[slot % slots] && at[first[slot % slots] - 1] != at[k])
      slot++;
    if (!first[slot % slots])
      first[slot % slots] = (uint16_t)(k + 1);
    s->owner[k] = first[slot % slots] - 1;
  }
}

static int copy_bytes(void *context, int64_t begin, int64_t end) {
  const Scatter *s = context;
  memcpy((char *)s->to + begin, (const char *)s->x + begin,
         (size_t)(end - begin));
  return 0;
}

#define PER_TYPE_CODE "backend/cpu/scatter.def"
#include "backend/cpu/element_types.def"

static Scatter scatter_of(const LibraryOp *r) {
  const Node *const n = r->node, *index = n->inputs[1];
  Scatter s = {.x = n->inputs[0]->data->data,
               .index = index->data->data,
               .y = n->inputs[2]->data->data,
               .to = r->out->data,
               .index_type = index->dtype,
               .slices = r->lines.outer,
               .rows = r->lines.length,
               .row_elements = r->lines.inner,
               .update_rows = index->extents[index->free_count]};
  int64_t sums = s.slices * s.rows * s.row_elements;
  s.column_ranges = s.row_elements / MIN_RANGE_COLUMNS < 1 ? 1
                    : s.row_elements / MIN_RANGE_COLUMNS > MAX_RANGES
                        ? MAX_RANGES
                        : s.row_elements / MIN_RANGE_COLUMNS;
  s.private_copies = s.column_ranges == 1 && s.slices == 1 &&
                             s.update_rows >= MIN_PRIVATIZED_ROWS &&
                             sums <= MAX_PRIVATIZED_SUMS
                         ? PRIVATE_COPIES
                         : 1;
  return s;
}

bool library_op_scatter(LibraryOp *r) {
  Scatter s = scatter_of(r);
  if (!library_op_parallel_for(r, s.slices * s.update_rows,
                               LIBRARY_GRAIN_ELEMENTS, check_indices, &s))
    return false;
  if (r->out->count == 0)
    return true;
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
  case DT_F8_E4M3:
    return f8_e4m3_scatter(r, &s);
  case DT_F8_E5M2:
    return f8_e5m2_scatter(r, &s);
  case DT_F4_E2M1:
    return f4_e2m1_scatter(r, &s);
  case DT_F8_E8M0:
    return f8_e8m0_scatter(r, &s);
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return false;
}
