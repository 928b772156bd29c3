/* Software prefetch of gathered rows, and of the next row while the rest of the
 * current row comes from a cache.
 *
 * The hardware prefetches what follows the current row, but not a gathered
 * row.  So each load of a vector also prefetches the same vector of a row that
 * is gathered some indices later.  Later means along the innermost axis of the
 * indices, so that the row may belong to a later iteration.  The index is
 * checked before it becomes an address; a wrong index costs one cache line. */
#include "backend/cpu/cpu_emitter.h"
#include "backend/emit/scalar_ops.h"
#include "machine/machine.h"
#include "machine/limits/cpu.h"

#define format emit_format

enum { CACHE_LINE_BYTES = 64 };

/* The load of an index whose place is affine, or affine from a checked start,
 * as in part of a row. */
typedef struct IndexLoad {
  const KernelOp *load;     /* NULL: the index is computed otherwise */
  const CheckedIndex *part; /* NULL: the address is the place */
  const AffineExpr *place;  /* without the start */
} IndexLoad;

/* The index may be converted. */
static IndexLoad index_load_of(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  while (s->kind == KOP_CONVERT)
    s = &e->loop->ops.at[s->args[0]];
  if (s->kind != KOP_LOAD || s->checked_index_count > 1 ||
      dtype_is_float(s->dtype) || s->dtype == DT_BOOL ||
      affine_has_floor_divs(s->address))
    return (IndexLoad){0};
  if (!s->checked_index_count)
    return (IndexLoad){s, NULL, s->address};
  uint32_t start;
  const CheckedIndex *part = &s->checked_indices[0];
  const KernelOp *index = loop_index_affine(e->loop, part->index_op, &start);
  return index && !affine_has_floor_divs(index->affine)
             ? (IndexLoad){s, part, index->affine}
             : (IndexLoad){0};
}

/* The axis along which the next element of the index is used first; NO_AXIS:
 * none. */
static uint32_t next_axis(const Emitter *e, const AffineExpr *place) {
  uint32_t found = NO_AXIS;
  for (uint32_t v = 0; v < e->loop->axis_count; v++)
    if (place->coef[v] &&
        (found == NO_AXIS || e->levels.of[v] >= e->levels.of[found]))
      found = v;
  return found;
}

static double row_bytes(const Emitter *e, const KernelOp *s, uint32_t axis) {
  double bytes = dtype_info[s->dtype].bytes;
  for (uint32_t v = 0; v < e->loop->axis_count; v++)
    if (s->address->coef[v] &&
        (v == e->vector_axis || e->levels.of[v] > e->levels.of[axis]))
      bytes *= (double)loop_extent_hint(e->loop, v);
  return bytes;
}

/* Prefetch distance in rows; 0: the tensor is in a cache, or prefetching does
 * not pay. */
static int64_t prefetch_distance(const Emitter *e, const KernelOp *s,
                                 uint32_t axis) {
  double tensor_bytes =
      node_element_hint(e->kernel->graph, s->node) * dtype_info[s->dtype].bytes;
  double row = row_bytes(e, s, axis);
  if (tensor_bytes <= (double)machine()->cache_bytes[1] ||
      row < MIN_ROW_LINES * CACHE_LINE_BYTES || row > MAX_PREFETCHED_ROW_BYTES)
    return 0;
  int64_t rows = (int64_t)(MAX_PREFETCH_BYTES / row);
  return rows < 1 ? 1 : rows > MAX_PREFETCH_ROWS ? MAX_PREFETCH_ROWS : rows;
}

/* The address of the index `distance` places later, if that is in the tensor.
 */
static const char *emit_later_address(Emitter *e, const IndexLoad *index,
                                      int64_t distance) {
  const KernelOp *s = index->load;
  const char *at = emit_affine(e, s->address), *ahead = emit_int(e, distance);
  if (index->part) {
    const char *place = emit_operand(e, index->part->index_op, 'l', false);
    const char *stride = emit_int(e, index->part->stride);
    const char *extent = emit_int(e, index->part->extent);
    return format(
        e, "%s + %s * ((uint64_t)(%s + %s) < (uint64_t)%s ? %s + %s : 0)", at,
        stride, place, ahead, extent, place, ahead);
  }
  int64_t count = 1;
  for (uint32_t k = 0; k < s->node->free_count + s->node->rank; k++)
    count = emit_extent_mul(e, count, s->node->extents[k]);
  return format(e, "%s + %s < %s ? %s + %s : %s", at, ahead, emit_int(e, count),
                at, ahead, at);
}

/* The index `distance` places later, or 0 if it is invalid. */
static const char *emit_prefetched_index(Emitter *e, const CheckedIndex *r,
                                         const IndexLoad *index,
                                         int64_t distance) {
  const char *at = emit_later_address(e, index, distance);
  uint32_t name = e->next_id++;
  buffer_printf(&e->levels.code[e->ops.levels[r->index_op]],
                "const int64_t f%u = p%u[%s];\n", name, index->load->input, at);
  const char *stride = emit_int(e, r->stride);
  return format(e, "%s * ((uint64_t)f%u < (uint64_t)%s ? f%u : 0)", stride,
                name, emit_int(e, r->extent), name);
}

/* Prefetch distance in rows, along *axis; 0: none. */
static int64_t gather_prefetch_distance(const Emitter *e, const KernelOp *s,
                                        uint32_t *axis) {
  *axis = NO_AXIS;
  if (e->width == 1 || e->cpu->schedule->gemm_tilings)
    return 0;
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    IndexLoad index = index_load_of(e, s->checked_indices[j].index_op);
    if (!index.load)
      return 0;
    if (*axis == NO_AXIS)
      *axis = next_axis(e, index.place);
  }
  return *axis == NO_AXIS ? 0 : prefetch_distance(e, s, *axis);
}

const char *emit_gather_prefetch(Emitter *e, const KernelOp *s) {
  uint32_t axis;
  int64_t rows = gather_prefetch_distance(e, s, &axis);
  if (!rows)
    return NULL;
  const char *base = emit_affine(e, s->address);
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    const CheckedIndex *r = &s->checked_indices[j];
    IndexLoad index = index_load_of(e, r->index_op);
    int64_t distance = emit_extent_mul(e, rows, index.place->coef[axis]);
    base = format(e, "%s + %s", base,
                  emit_prefetched_index(e, r, &index, distance));
  }
  return base;
}

/* ---- next row ---- */

static bool loop_reads_same(const LoopNest *loop, const KernelOp *s) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *x = &loop->ops.at[j];
    if (x->kind == KOP_LOAD && x->node == s->node && !x->checked_index_count &&
        affine_equal(x->address, s->address))
      return true;
  }
  return false;
}

/* Returns true if an earlier loop reads the row and no later loop does. */
static bool is_last_reader(const Emitter *e, const KernelOp *s) {
  bool read_earlier = false;
  for (uint32_t j = 0; j < e->loop_index; j++)
    read_earlier |= loop_reads_same(e->kernel->loops.at[j], s);
  for (uint32_t j = e->loop_index + 1; j < e->kernel->loops.len; j++)
    if (loop_reads_same(e->kernel->loops.at[j], s))
      return false;
  return read_earlier;
}

static bool is_row_of_point(const Emitter *e, const KernelOp *s) {
  uint32_t outer = e->kernel->parallel_axes;
  return !affine_has_floor_divs(s->address) &&
         e->cpu->schedule->task_kind == TASK_POINT && e->width > 1 &&
         !e->cpu->schedule->reduction_chunk && outer > 0 &&
         e->kernel->loops.at[e->loop_index] == e->loop &&
         e->vector_axis >= outer && s->address->coef[e->vector_axis] == 1 &&
         s->address->coef[outer - 1];
}

const char *emit_next_row_prefetch(Emitter *e, const KernelOp *s) {
  uint32_t last = e->kernel->parallel_axes - 1;
  double element_bytes = dtype_info[s->dtype].bytes, row;
  if (s->checked_index_count || !is_row_of_point(e, s) || !is_last_reader(e, s))
    return NULL;
  row = element_bytes * (double)loop_extent_hint(e->loop, e->vector_axis);
  if (node_element_hint(e->kernel->graph, s->node) * element_bytes <=
          (double)machine()->cache_bytes[1] ||
      row < MIN_ROW_LINES * CACHE_LINE_BYTES ||
      row > (double)machine()->cache_bytes[1] / 4)
    return NULL;
  const char *base = emit_affine(e, s->address);
  uint32_t name = e->next_id++;
  const char *extent = emit_int(e, e->loop->extents[last]);
  buffer_printf(&e->levels.code[OUTER_LEVEL],
                "const int64_t f%u = i%u + 1 < %s ? %s : 0;\n", name, last,
                extent, emit_int(e, s->address->coef[last]));
  return format(e, "__builtin_prefetch(p%u + %s + f%u + j, 0, %d);\n", s->input,
                base, name, row > MAX_L1_ROW_BYTES ? 2 : 3);
}
