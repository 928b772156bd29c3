/* Schedules of short reductions with vectors along a spatial axis.  The terms
 * are unrolled, and the accumulators of a block of vectors stay in registers.
 *
 * If the windows of neighbouring rows overlap, several rows share the load of
 * a vector: the loop runs over their input rows, and each input row adds a term
 * to each row whose window contains it.  If there are many terms, the other
 * reduced axes are loops around the input rows. */
#include "backend/cpu/nest_choose.h"
#include "machine/limits/cpu.h"

#include <string.h>

enum { CACHE_LINE_BYTES = 64 };

bool short_reduction_is_unrolled(const Schedule *s, const LoopNest *loop,
                                 uint32_t vector_axis) {
  if (vector_axis + 1 == loop->parallel_axes && s->task_kind != TASK_TILE)
    return false;
  if (loop->outputs.len != 1 || !short_reduction_applies(loop) ||
      vector_axis >= loop->spatial_axes)
    return false;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (loop_is_trimmed(loop, v) ||
        (s->reduction_chunk && v == loop->spatial_axes))
      return false;
  return true;
}

typedef struct ShortNest {
  NestChoice *c;
  uint32_t row_axis;      /* NO_AXIS: none */
  uint32_t rows, vectors; /* of a block */
  NestStream stream;
  bool has_stream;
  bool partially_unrolled; /* terms are in loops around the input rows */
  bool has_padding;        /* input rows end in padding */
} ShortNest;

/* ---- rows ---- */

static int64_t input_rows(const ShortNest *f, int64_t rows) {
  return stream_input_rows(f->c->loop, &f->stream, rows);
}

/* Returns true if sharing saves at least a quarter of the loads. */
static bool saves_loads(const ShortNest *f, int64_t rows) {
  return 4 * input_rows(f, rows) <=
         3 * rows * f->c->loop->extents[f->stream.term_axis];
}

/* The number of rows for which a task reads the fewest input rows. */
static uint32_t choose_rows(const ShortNest *f, uint32_t max) {
  const Schedule *s = f->c->schedule;
  const LoopNest *loop = f->c->loop;
  bool is_task_axis = f->row_axis < loop->parallel_axes &&
                      s->task_kind == TASK_TILE && !s->gemm_tilings;
  int64_t row_count = is_task_axis ? s->task_height
                                   : loop_extent_hint(loop, f->row_axis),
          min_input_rows = INT64_MAX;
  uint32_t best = max;
  for (uint32_t rows = max; rows > 1; rows--) {
    int64_t all = row_count / rows * input_rows(f, rows) +
                  row_count % rows * input_rows(f, 1);
    if (all < min_input_rows && saves_loads(f, rows)) {
      min_input_rows = all;
      best = rows;
    }
  }
  return best;
}

bool short_reduction_has_constant_terms(const LoopNest *loop) {
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (!extent_is_static(loop->graph, loop->extents[v]))
      return false;
  return true;
}

static void choose_stream(ShortNest *f) {
  const LoopNest *loop = f->c->loop;
  double terms =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  f->rows = 1;
  f->partially_unrolled =
      !short_reduction_has_constant_terms(loop) ||
      terms * MAX_ROW_BLOCK_VECTORS > 2 * MAX_UNROLLED_TERMS;
  if (f->row_axis == NO_AXIS)
    return;
  int64_t extent = loop_extent_hint(loop, f->row_axis);
  uint32_t max = MAX_ACCUMULATORS / f->vectors;
  max = extent < max ? (uint32_t)extent : max;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count && max > 1; v++) {
    if (!nest_find_stream(loop, f->row_axis, v, &f->stream))
      continue;
    bool partially_unrolled =
        !short_reduction_has_constant_terms(loop) ||
        (terms > FULL_UNROLL_TERMS && terms > (double)loop->extents[v]);
    double rows = MAX_UNROLLED_TERMS /
                  (partially_unrolled ? (double)loop->extents[v] : terms);
    rows = rows < max ? rows : max;
    if (rows < 2 || !saves_loads(f, (int64_t)rows))
      continue;
    f->partially_unrolled = partially_unrolled;
    f->rows = choose_rows(f, (uint32_t)rows);
    f->has_stream = true;
    return;
  }
}

/* The coefficient of the input row in an expression of row and term. */
static int64_t input_row_coef(const LoopNest *loop, const NestStream *s,
                              const AffineExpr *q) {
  int64_t x = q->coef[s->row_axis], y = q->coef[s->term_axis],
          input = INT64_MAX;
  if (extent_is_static(loop->graph, x) && extent_is_static(loop->graph, y))
    return x / s->row_stride;
  if (s->row_stride == 1) /* otherwise term_stride is 1 or -1 */
    return x;
  return extent_mul(loop->graph, y, s->term_stride, &input) ? input : INT64_MAX;
}

LoopNest *nest_index_by_input_rows(const Nest *n) {
  const NestStream *s = &n->stream;
  LoopNest *loop = loop_clone(n->arena, n->spec);
  loop->extents[loop->axis_count++] = 1;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    if (!q || !q->coef[s->row_axis] || !q->coef[s->term_axis])
      continue;
    q->coef[s->input_axis] = input_row_coef(loop, s, q);
    q->coef[s->row_axis] = q->coef[s->term_axis] = 0;
  }
  return loop;
}

/* ---- vectors ---- */

/* Vectors of a block, such that no vector of the last block is idle. */
static uint32_t choose_block_vectors(const ShortNest *f) {
  const LoopNest *loop = f->c->loop;
  const Schedule *s = f->c->schedule;
  uint32_t v = f->c->vector_axis, best = MAX_ROW_BLOCK_VECTORS;
  int64_t max =
      v + 1 == loop->parallel_axes ? s->last_axis_block : loop->extents[v];
  if (!extent_is_static(loop->graph, max))
    return best;
  int64_t vectors = ceil_div(max, s->width);
  if (vectors <= best)
    return vectors ? (uint32_t)vectors : 1;
  for (uint32_t j = best; j > 1; j--)
    if (ceil_div(vectors, j) * j < ceil_div(vectors, best) * best)
      best = j;
  return best;
}

/* Vectors per cache line, if rows share their input rows. */
static uint32_t vectors_per_cache_line(const ShortNest *f) {
  Dtype t = f->c->loop->outputs.at[0].dtype;
  uint32_t vectors =
      CACHE_LINE_BYTES / (f->c->schedule->width * dtype_info[t].bytes);
  return vectors < 1                       ? 1
         : vectors < MAX_ROW_BLOCK_VECTORS ? vectors
                                           : MAX_ROW_BLOCK_VECTORS;
}

static bool reads_padding(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_SELECT && loop->ops.at[s->args[1]].kind == KOP_LOAD)
      return true;
  }
  return false;
}

/* ---- steps ---- */

/* The loops over terms.  The input rows come first if all terms are unrolled,
 * and last otherwise. */
static void add_terms(const ShortNest *f, NestStep *order) {
  const NestChoice *c = f->c;
  uint32_t input = f->has_stream ? f->stream.input_axis : NO_AXIS;
  if (f->has_stream && !f->partially_unrolled)
    nest_step_add(order, input, 0);
  for (uint32_t j = 0; j < c->order_count; j++)
    if (c->order[j] >= c->loop->spatial_axes &&
        !(f->has_stream && c->order[j] == f->stream.term_axis))
      nest_step_add(order, c->order[j], 0);
  if (f->has_stream && f->partially_unrolled)
    nest_step_add(order, input, 0);
}

/* Outer axes, rows, blocks of vectors, terms, rows of a block, vectors. */
static void order_loops(ShortNest *f) {
  NestChoice *c = f->c;
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t j = 0; j < c->order_count; j++)
    if (c->order[j] < c->loop->spatial_axes)
      nest_step_add(&order, c->order[j],
                    f->has_stream && c->order[j] == f->row_axis);
  nest_step_add(&order, c->vector_axis, 2);
  add_terms(f, &order);
  if (f->has_stream)
    nest_step_add(&order, f->row_axis, 0);
  nest_step_add(&order, c->vector_axis, 1);
  nest_step_add(&order, c->vector_axis, 0);
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, STEP_LANES, c->vector_axis, 0, 0, TAIL_MASK);
}

void short_reduction_nest(NestChoice *c, bool has_epilogue) {
  const LoopNest *loop = c->loop;
  ShortNest f = {.c = c, .row_axis = NO_AXIS};
  for (uint32_t j = 0; j < c->order_count; j++)
    if (c->order[j] < loop->spatial_axes)
      f.row_axis = c->order[j];
  f.has_padding = reads_padding(loop);
  f.vectors = f.has_padding ? 1 : vectors_per_cache_line(&f);
  choose_stream(&f);
  if (!f.has_stream)
    f.vectors = choose_block_vectors(&f);
  nest_build_step(&c->builder, STEP_TILE, c->vector_axis, 0, c->schedule->width,
                  TAIL_MASK);
  nest_build_step(&c->builder, STEP_TILE, c->vector_axis, 1, f.vectors,
                  f.has_stream && f.has_padding ? TAIL_LESS : TAIL_IF);
  nest_build_step(&c->builder, STEP_UNROLL, c->vector_axis, 1, 0, TAIL_LESS);
  for (uint32_t j = 0; j < c->order_count && !f.partially_unrolled; j++)
    if (c->order[j] >= loop->spatial_axes &&
        !(f.has_stream && c->order[j] == f.stream.term_axis))
      nest_build_step(&c->builder, STEP_UNROLL, c->order[j], 0, 0, TAIL_LESS);
  if (f.has_stream) {
    nest_build_step(&c->builder, STEP_TILE, f.row_axis, 0, f.rows, TAIL_PEEL);
    nest_build_step(&c->builder, STEP_UNROLL, f.row_axis, 0, 0, TAIL_LESS);
    NestStep stream = {.kind = STEP_STREAM};
    nest_step_add(&stream, f.row_axis, 0);
    nest_step_add(&stream, f.stream.term_axis, 0);
    nest_build_order(&c->builder, &stream);
  }
  order_loops(&f);
  if (f.has_stream)
    nest_build_flag(&c->builder, STEP_BROADCAST);
  if (f.has_stream && f.has_padding)
    nest_build_flag(&c->builder, STEP_MASKED);
  if (nest_sums_products(loop))
    nest_build_flag(&c->builder, STEP_FMA);
  if (has_epilogue)
    nest_build_flag(&c->builder, STEP_EPILOGUE);
}

/* ---- epilogue ---- */

static bool reads_loop(const LoopNest *loop, uint32_t at) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL &&
        loop->ops.at[j].source_loop == at)
      return true;
  return false;
}

/* Replaces the only inner axis by the inner axes of the reduction, which it
 * collapses.  Returns false on overflow. */
static bool split_axis_form(const LoopNest *sums, AffineExpr *q) {
  int64_t times = q ? q->coef[sums->parallel_axes] : 0;
  for (uint32_t v = sums->spatial_axes; q && v-- > sums->parallel_axes;) {
    q->coef[v] = times;
    if (!extent_mul(sums->graph, times, sums->extents[v], &times))
      return false;
  }
  return true;
}

/* A copy of the loop over the axes of the reduction; NULL: it iterates over
 * other axes. */
static LoopNest *retarget_axes(Arena *arena, const LoopNest *sums,
                               const LoopNest *from) {
  uint32_t outer = sums->parallel_axes, inner = sums->spatial_axes - outer;
  bool same = from->axis_count == sums->spatial_axes, succeeded = true;
  int64_t all;
  for (uint32_t v = outer; same && v < sums->spatial_axes; v++)
    same = from->extents[v] == sums->extents[v];
  if (same)
    return loop_clone(arena, from);
  if (inner < 2 || from->axis_count != outer + 1 || from->floor_div_count ||
      !extent_product(sums->graph, inner, sums->extents + outer, &all) ||
      all != from->extents[outer])
    return NULL;
  LoopNest *loop = loop_clone(arena, from);
  loop->axis_count = loop->spatial_axes = sums->spatial_axes;
  for (uint32_t v = outer; v < sums->spatial_axes; v++)
    loop->extents[v] = sums->extents[v];
  for (uint32_t j = 0; j < loop->ops.len; j++)
    succeeded &= split_axis_form(sums, kernel_op_affine(&loop->ops.at[j]));
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    succeeded &= split_axis_form(sums, loop->outputs.at[j].global_index) &&
                 split_axis_form(sums, loop->outputs.at[j].local_index);
  return succeeded ? loop : NULL;
}

/* Returns true if the stored type is the computed type. */
static bool stores_computed_dtype(const LoopNest *loop, const LoopOutput *r) {
  Dtype t = loop->ops.at[r->value_op].dtype;
  return r->dtype == t && (t == DT_F32 || t == DT_F64);
}

LoopNest *short_reduction_epilogue(const Kernel *k, const Schedule *s,
                                   Arena *arena, uint32_t at) {
  const LoopNest *sums = k->loops.at[at];
  const LoopOutput *r = &sums->outputs.at[0];
  bool tile = s->task_kind == TASK_TILE && !s->gemm_tilings;
  if ((s->task_kind != TASK_POINT && !tile) || at + 1 == k->loops.len ||
      !short_reduction_is_unrolled(s, sums, s->vector_axes[at]) ||
      r->global_index || !r->local_index || !stores_computed_dtype(sums, r) ||
      s->reduction_chunk || s->strip_length)
    return NULL;
  const LoopNest *next = k->loops.at[at + 1];
  if (next->axis_count != next->spatial_axes || next->staging != STAGE_NONE ||
      next->trim_bounds || next->strip_mined ||
      next->outputs.len > MAX_LOOP_OUTPUTS)
    return NULL;
  for (uint32_t j = at + 2; j < k->loops.len; j++)
    if (reads_loop(k->loops.at[j], at))
      return NULL;
  LoopNest *loop =
      reads_loop(next, at) ? retarget_axes(arena, sums, next) : NULL;
  for (uint32_t j = 0; loop && j < loop->ops.len; j++) {
    const KernelOp *x = &loop->ops.at[j];
    if (x->kind == KOP_LOAD_LOCAL && x->source_loop == at &&
        !affine_equal(x->address, r->local_index))
      return NULL;
  }
  return loop;
}
