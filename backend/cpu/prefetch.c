/* Rows asked for before their turn: those that data chooses, and the next one
 * while what is left of this one comes from a cache.
 *
 * Caches foresee what lies behind the row at hand, but not the row that the
 * next index names; and while it comes from memory there is nothing else to do.
 * So, beside each vector of a row, that of a row some indices ahead is asked
 * for: of the next ones along the innermost axis that the indices have, as they
 * lie in memory, be it of the next point's.  What is read there is looked at
 * before it is an address; a wrong one costs a line of the cache at most. */
#include "backend/cpu/cpu_emitter.h"
#include "machine/machine.h"

#define format emit_format

enum {
  MAX_PREFETCH_BYTES =
      12 << 10,           /* bytes that are under way, of the first cache */
  MAX_PREFETCH_ROWS = 48, /* rows */
  CACHE_LINE_BYTES = 64,  /* a row is a few of them at least, */
  MIN_ROW_LINES = 2,
  MAX_ROW_BYTES =
      8 << 10, /* and so many bytes at most: then caches foresee it */
  MAX_L1_ROW_BYTES =
      16 << 10, /* a row that the first cache holds beside another */
};

/* What is read at a place that is known, perhaps converted; NULL: it is not. */
static const KernelOp *affine_index_load(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  while (s->kind == KOP_CONVERT)
    s = &e->loop->ops.at[s->args[0]];
  if (s->kind != KOP_LOAD || s->checked_index_count ||
      dtype_is_float(s->dtype) || s->dtype == DT_BOOL)
    return NULL;
  for (uint32_t v = MAX_KERNEL_AXES; v < MAX_KERNEL_VARS; v++)
    if (s->address->coef[v])
      return NULL;
  return s;
}

/* The axis along which its next element is wanted next; NO_AXIS: none is. */
static uint32_t next_axis(const Emitter *e, const KernelOp *index) {
  uint32_t found = NO_AXIS;
  for (uint32_t v = 0; v < e->loop->axis_count; v++)
    if (index->address->coef[v] &&
        (found == NO_AXIS || e->level_of[v] >= e->level_of[found]))
      found = v;
  return found;
}

static double row_bytes(const Emitter *e, const KernelOp *s, uint32_t axis) {
  double bytes = dtype_info[s->dtype].bytes;
  for (uint32_t v = 0; v < e->loop->axis_count; v++)
    if (s->address->coef[v] &&
        (v == e->vector_axis || e->level_of[v] > e->level_of[axis]))
      bytes *= (double)loop_extent_hint(e->loop, v);
  return bytes;
}

/* How many rows ahead; 0: it is in a cache anyway, or not worth it. */
static int64_t prefetch_distance(const Emitter *e, const KernelOp *s,
                                 uint32_t axis) {
  double tensor_bytes =
      node_element_hint(e->kernel->graph, s->node) * dtype_info[s->dtype].bytes;
  double row = row_bytes(e, s, axis);
  if (tensor_bytes <= (double)machine()->cache_bytes[1] ||
      row < MIN_ROW_LINES * CACHE_LINE_BYTES || row > MAX_ROW_BYTES)
    return 0;
  int64_t rows = (int64_t)(MAX_PREFETCH_BYTES / row);
  return rows < 1 ? 1 : rows > MAX_PREFETCH_ROWS ? MAX_PREFETCH_ROWS : rows;
}

/* The index so many elements ahead, or 0 where that is none. */
static const char *emit_prefetched_index(Emitter *e, const CheckedIndex *r,
                                         const KernelOp *s, int64_t distance) {
  int64_t count = 1;
  for (uint32_t k = 0; k < s->node->free_count + s->node->rank; k++)
    count = emit_extent_mul(e, count, s->node->extents[k]);
  const char *at = emit_affine(e, s->address), *ahead = emit_int(e, distance);
  uint32_t name = e->next_id++;
  buffer_printf(&e->level_code[e->op_levels[r->index_op]],
                "const int64_t f%u = p%u[%s + %s < %s ? %s + %s : %s];\n", name,
                s->input, at, ahead, emit_int(e, count), at, ahead, at);
  return format(e, "%s * ((uint64_t)f%u < (uint64_t)%s ? f%u : 0)",
                emit_int(e, r->stride), name, emit_int(e, r->extent), name);
}

/* How many rows ahead, along *axis; 0: not at all. */
static int64_t gather_prefetch_distance(const Emitter *e, const KernelOp *s,
                                        uint32_t *axis) {
  *axis = NO_AXIS;
  if (e->width == 1 || e->cpu->schedule->gemm_tilings)
    return 0;
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    const KernelOp *index =
        affine_index_load(e, s->checked_indices[j].index_op);
    if (!index)
      return 0;
    if (*axis == NO_AXIS)
      *axis = next_axis(e, index);
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
    const KernelOp *index = affine_index_load(e, r->index_op);
    int64_t distance = emit_extent_mul(e, rows, index->address->coef[axis]);
    base = format(e, "%s + %s", base,
                  emit_prefetched_index(e, r, index, distance));
  }
  return base;
}

/* ---- the next row ---- */

static bool loop_reads_same(const LoopNest *loop, const KernelOp *s) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *x = &loop->ops.at[j];
    if (x->kind == KOP_LOAD && x->node == s->node && !x->checked_index_count &&
        affine_equal(x->address, s->address))
      return true;
  }
  return false;
}

/* Has an earlier loop read the row, and no later one will? */
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
  for (uint32_t v = MAX_KERNEL_AXES; v < MAX_KERNEL_VARS; v++)
    if (s->address->coef[v])
      return false;
  return e->cpu->schedule->shape == TASK_POINT && e->width > 1 &&
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
  buffer_printf(&e->level_code[OUTER_LEVEL],
                "const int64_t f%u = i%u + 1 < %s ? %s : 0;\n", name, last,
                emit_int(e, e->loop->extents[last]),
                emit_int(e, s->address->coef[last]));
  return format(e, "__builtin_prefetch(p%u + %s + f%u + j, 0, %d);\n", s->input,
                base, name, row > MAX_L1_ROW_BYTES ? 2 : 3);
}
