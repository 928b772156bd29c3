/* The forms that a loop nest can have in a task: the steps of its schedule.
 * nest_choose.c decides which one it has. */
#include "backend/cpu/nest_choose.h"
#include "machine/limits/cpu.h"

/* ---- sums in f32 runs ---- */

static bool is_f32_sum(const LoopNest *loop, const LoopOutput *r) {
  return reduce_info[r->reduce].accumulator == ACCUMULATOR_RUNS &&
         value_class(loop->ops.at[r->value_op].dtype) == 'f';
}

bool nest_needs_runs(const LoopNest *loop, const Schedule *s,
                     uint32_t vector_axis) {
  bool row = vector_axis != NO_AXIS && vector_axis >= loop->spatial_axes;
  double run = row ? (double)F32_RUN_VECTORS * s->width : F32_RUN_VECTORS;
  bool is_sum = false;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    is_sum |= is_f32_sum(loop, &loop->outputs.at[j]);
  return is_sum &&
         (s->reduction_chunk || loop_iterations_hint(loop, loop->spatial_axes,
                                                     loop->axis_count) > run);
}

/* ---- tasks ---- */

/* Axes whose iterations lo .. hi belong to one task. */
static int64_t task_block(const NestChoice *c, uint32_t v) {
  const Schedule *s = c->schedule;
  uint32_t outer = c->loop->parallel_axes;
  bool is_block = s->task_kind == TASK_COLUMNS || s->task_kind == TASK_TILE;
  if (v + 1 == outer && (is_block || c->loop->staging == STAGE_OUT))
    return s->last_axis_block;
  if (v + 2 == outer && s->task_kind == TASK_TILE)
    return s->task_height;
  return v + 3 == outer && s->task_image_rows ? s->task_image_rows : 0;
}

/* Orders axes as the kernel does.  Blocks of axes are inner loops. */
static void order_tasks(NestChoice *c) {
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t v = 0; v < c->loop->parallel_axes; v++)
    nest_step_add(&order, v, task_block(c, v) ? 1 : 0);
  for (uint32_t v = 0; v < c->loop->axis_count; v++)
    if (v >= c->loop->parallel_axes || task_block(c, v))
      nest_step_add(&order, v, 0);
  nest_build_order(&c->builder, &order);
}

/* Divides an axis that is not parallel among tasks or strips. */
static void divide_axis(NestChoice *c, uint32_t v, int64_t size,
                        NestStepKind step) {
  const Nest *n = c->builder.nest;
  NestStep order = {.kind = STEP_ORDER};
  nest_build_step(&c->builder, STEP_TILE, v, 0, size, TAIL_LESS);
  nest_step_add(&order, v, 1);
  for (uint32_t j = c->loop->parallel_axes; j < n->loop_count; j++)
    if (!(n->loops[j].axis == v && nest_piece(n, j) == 1))
      nest_step_add(&order, n->loops[j].axis, nest_piece(n, j));
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, step, v, 1, 0, TAIL_LESS);
}

/* Other parallel axes have one iteration in a task.  Blocks whose size is not
 * constant are tiles of an unknown number of iterations. */
static void choose_tasks(NestChoice *c) {
  const LoopNest *loop = c->loop;
  for (uint32_t v = 0; v < loop->parallel_axes; v++) {
    int64_t block = task_block(c, v);
    bool is_constant = block && extent_is_static(loop->graph, block);
    if (block)
      nest_build_step(&c->builder, STEP_TILE, v, 0, is_constant ? block : 1,
                      TAIL_LESS);
  }
  order_tasks(c);
  for (uint32_t v = 0; v < loop->parallel_axes; v++)
    nest_build_step(&c->builder, STEP_TASKS, v, task_block(c, v) ? 1 : 0, 0,
                    TAIL_LESS);
  uint32_t first = loop->spatial_axes;
  if (c->schedule->reduction_chunk && loop->axis_count > first)
    divide_axis(c, first, c->schedule->reduction_chunk, STEP_TASKS);
  if (c->schedule->strip_length && loop->strip_mined)
    divide_axis(c, loop->trimmed_axis, c->schedule->strip_length, STEP_STRIPS);
}

/* Orders the loops in a task: other axes, then the vectors. */
static void order_inner_loops(NestChoice *c) {
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t j = 0; j < c->order_count; j++)
    nest_step_add(&order, c->order[j], 0);
  if (c->vector_axis != NO_AXIS)
    nest_step_add(&order, c->vector_axis, 0);
  nest_build_order(&c->builder, &order);
}

/* ---- rows ---- */

/* Number of independent accumulators; 1 if there are many other operations. */
static uint32_t choose_interleave(const NestChoice *c) {
  const uint64_t *depends = loop_op_vars(c->arena, c->loop);
  uint32_t ops = 0;
  for (uint32_t j = 0; j < c->loop->outputs.len; j++)
    if (c->loop->outputs.at[j].reduce == PRIM_NONE)
      return 1;
  for (uint32_t j = 0; j < c->loop->ops.len; j++)
    ops += depends[j] >> c->vector_axis & 1;
  return ops <= MAX_INTERLEAVED_OPS ? INTERLEAVE_COUNT : 1;
}

void nest_form_rows(NestChoice *c, int64_t number) {
  (void)number;
  uint32_t v = c->vector_axis, interleave = 1, piece = 1;
  order_inner_loops(c);
  if (v == NO_AXIS)
    return;
  nest_build_step(&c->builder, STEP_TILE, v, 0, c->schedule->width, TAIL_PEEL);
  nest_build_step(&c->builder, STEP_LANES, v, 0, 0, TAIL_LESS);
  if (v < c->loop->spatial_axes)
    return;
  interleave = choose_interleave(c);
  if (interleave > 1) {
    nest_build_step(&c->builder, STEP_TILE, v, piece, interleave, TAIL_PEEL);
    nest_build_step(&c->builder, STEP_UNROLL, v, piece, 0, TAIL_LESS);
    nest_build_step(&c->builder, STEP_PARTS, v, piece++, 0, TAIL_LESS);
  }
  if (nest_needs_runs(c->loop, c->schedule, v)) {
    nest_build_step(&c->builder, STEP_TILE, v, piece,
                    F32_RUN_VECTORS / interleave, TAIL_LESS);
    nest_build_step(&c->builder, STEP_RUN, v, piece + 1, 0, TAIL_LESS);
  }
}

/* ---- interleaved stores ---- */

/* The terms, if there are any, are unrolled around the vectors of the short
 * axis. */
void nest_form_interleaved(NestChoice *c, int64_t number) {
  const LoopNest *loop = c->loop;
  uint32_t v = c->vector_axis, w = interleave_axis(loop, v, c->schedule->width);
  NestStep order = {.kind = STEP_ORDER}, interleave = {.kind = STEP_INTERLEAVE};
  (void)number;
  nest_build_step(&c->builder, STEP_UNROLL, w, 0, 0, TAIL_LESS);
  nest_build_step(&c->builder, STEP_TILE, v, 0, c->schedule->width, TAIL_PEEL);
  nest_step_add(&order, v, 1);
  for (uint32_t j = 0; j < c->order_count; j++)
    if (c->order[j] != w) {
      nest_build_step(&c->builder, STEP_UNROLL, c->order[j], 0, 0, TAIL_LESS);
      nest_step_add(&order, c->order[j], 0);
    }
  nest_step_add(&order, w, 0);
  nest_step_add(&order, v, 0);
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, STEP_LANES, v, 0, 0, TAIL_LESS);
  nest_step_add(&interleave, w, 0);
  nest_build_order(&c->builder, &interleave);
  if (nest_sums_products(loop))
    nest_build_flag(&c->builder, STEP_FMA);
}

/* ---- columns ---- */

int64_t nest_block_vectors(const NestChoice *c) {
  const Schedule *s = c->schedule;
  bool is_outer = c->vector_axis + 1 == c->loop->parallel_axes;
  int64_t max_columns =
      is_outer ? s->last_axis_block : c->loop->extents[c->vector_axis];
  if (!extent_is_static(c->loop->graph, max_columns))
    return MAX_COLUMN_BLOCK_VECTORS;
  int64_t vectors = ceil_div(max_columns, s->width);
  return is_outer || vectors <= schedule_max_accumulators(s->vector_bytes)
             ? vectors
             : MAX_COLUMN_BLOCK_VECTORS;
}

/* True if a value depends on nothing but the short axis v: unrolled, it is a
 * constant, such as the distance by which the fields of a byte are shifted. */
static bool has_constants_along(const NestChoice *c, uint32_t v) {
  const LoopNest *loop = c->loop;
  int64_t terms = nest_constant_extent(c->builder.nest, v);
  if (terms == 0 || terms > MAX_CONSTANT_TERMS)
    return false;
  const uint64_t *depends = loop_op_vars(c->arena, loop);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (depends[j] == (uint64_t)1 << v && loop->ops.at[j].kind != KOP_LOAD)
      return true;
  return false;
}

void nest_form_columns(NestChoice *c, int64_t vectors) {
  const LoopNest *loop = c->loop;
  const Schedule *s = c->schedule;
  bool in_registers = vectors <= schedule_max_accumulators(s->vector_bytes);
  uint32_t v = c->vector_axis;
  uint32_t last = c->order_count ? c->order[c->order_count - 1] : NO_AXIS;
  nest_build_step(&c->builder, STEP_TILE, v, 0, s->width, TAIL_PEEL);
  nest_build_step(&c->builder, STEP_TILE, v, 1, vectors ? vectors : 1,
                  in_registers ? TAIL_IF : TAIL_LESS);
  if (in_registers)
    nest_build_step(&c->builder, STEP_UNROLL, v, 1, 0, TAIL_LESS);
  uint32_t terms = 0; /* loops of the last reduced axis around the vectors */
  bool unrolls = s->reduction_unroll > 1 && !in_registers;
  if (last != NO_AXIS && last >= loop->spatial_axes) {
    if (unrolls)
      nest_build_step(&c->builder, STEP_TILE, last, terms++,
                      s->reduction_unroll, TAIL_PEEL);
    if (nest_needs_runs(c->loop, c->schedule, v)) {
      nest_build_step(&c->builder, STEP_TILE, last, terms,
                      F32_RUN_VECTORS / (terms ? s->reduction_unroll : 1),
                      TAIL_LESS);
      nest_build_step(&c->builder, STEP_RUN, last, ++terms, 0, TAIL_LESS);
    }
  }
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t j = 0; j < c->order_count; j++)
    if (c->order[j] < loop->spatial_axes)
      nest_step_add(&order, c->order[j], 0);
  nest_step_add(&order, v, 2);
  for (uint32_t j = 0; j < c->order_count; j++)
    for (uint32_t piece = c->order[j] == last ? terms + 1 : 1;
         c->order[j] >= loop->spatial_axes && piece-- > unrolls;)
      nest_step_add(&order, c->order[j], piece);
  nest_step_add(&order, v, 1);
  if (unrolls)
    nest_step_add(&order, last, 0);
  nest_step_add(&order, v, 0);
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, STEP_LANES, v, 0, 0, TAIL_LESS);
  if (unrolls)
    nest_build_step(&c->builder, STEP_UNROLL, last, 0, 0, TAIL_LESS);
  else if (in_registers && !terms && last != NO_AXIS &&
           last >= loop->spatial_axes && has_constants_along(c, last))
    nest_build_step(&c->builder, STEP_UNROLL, last, 0, 0, TAIL_LESS);
}

/* ---- unroll-and-jam ---- */

void nest_form_jam(NestChoice *c, int64_t points) {
  uint32_t v = c->loop->parallel_axes - 1;
  nest_build_step(&c->builder, STEP_TILE, v, 0, points, TAIL_CLAMP);
  nest_build_step(&c->builder, STEP_UNROLL, v, 0, 0, TAIL_LESS);
  nest_form_rows(c, 0);
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t j = 0; j < c->builder.nest->loop_count; j++)
    if (c->builder.nest->loops[j].axis == c->vector_axis &&
        c->builder.nest->loops[j].run != NEST_LANES)
      nest_step_add(&order, c->vector_axis, nest_piece(c->builder.nest, j));
  nest_step_add(&order, v, 0);
  nest_build_order(&c->builder, &order);
}

/* ---- recurrences ---- */

void nest_form_recurrence(NestChoice *c, int64_t number) {
  (void)number;
  const LoopNest *loop = c->loop;
  uint32_t k = loop->spatial_axes, v = loop->parallel_axes - 1,
           lanes = c->vector_axis != NO_AXIS;
  bool has_elements = c->schedule->task_kind == TASK_COLUMNS,
       polls = loop->extents[k] > ITERATIONS_PER_POLL;
  NestStep order = {.kind = STEP_ORDER};
  if (lanes)
    nest_build_step(&c->builder, STEP_TILE, v, 0, c->schedule->width,
                    TAIL_PEEL);
  if (has_elements) {
    nest_build_step(&c->builder, STEP_TILE, v, lanes, RECURRENCE_INTERLEAVE,
                    TAIL_PEEL);
    nest_build_step(&c->builder, STEP_UNROLL, v, lanes, 0, TAIL_LESS);
    nest_step_add(&order, v, lanes + 1);
  }
  if (polls) {
    nest_build_step(&c->builder, STEP_TILE, k, 0, ITERATIONS_PER_POLL,
                    TAIL_LESS);
    nest_build_step(&c->builder, STEP_POLL, k, 1, 0, TAIL_LESS);
    nest_step_add(&order, k, 1);
  }
  nest_step_add(&order, k, 0);
  if (has_elements)
    nest_step_add(&order, v, lanes);
  if (lanes)
    nest_step_add(&order, v, 0);
  nest_build_order(&c->builder, &order);
  if (lanes)
    nest_build_step(&c->builder, STEP_LANES, v, 0, 0, TAIL_LESS);
}

/* ---- tasks of a loop nest ---- */

/* The axes that have loops in a task, except for the vector axis. */
static void find_order(NestChoice *c) {
  const LoopNest *loop = c->loop;
  uint32_t outer = loop->parallel_axes;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != c->vector_axis && (v >= outer || task_block(c, v)) &&
        !(loop->staging == STAGE_OUT && v < outer))
      c->order[c->order_count++] = v;
  if (loop->staging == STAGE_OUT)
    c->order[c->order_count++] = outer - 1;
  if (c->schedule->task_image_rows) { /* the image row is closer to the vectors
                                         in memory */
    c->order[0] = outer - 2;
    c->order[1] = outer - 3;
  }
}

NestChoice nest_begin_choice(const Kernel *k, const Schedule *s, uint32_t at) {
  NestChoice c = {.arena = k->arena,
                  .kernel = k,
                  .schedule = s,
                  .at = at,
                  .loop = k->loops.at[at],
                  .vector_axis = s->vector_axes[at]};
  c.builder.nest = nest_new(k->arena, c.loop, k->axis_names);
  choose_tasks(&c);
  c.builder.nest->task_steps = c.builder.nest->steps.len;
  find_order(&c);
  return c;
}
