/* Products of few rows with an operand that is computed from several tensors of
 * fewer bytes than its numbers, such as weights of 4 bits and their scales.
 *
 * Such an operand is read as it is, and its numbers are computed in registers,
 * once for a block of rows.  A packed copy would take more bytes than the
 * operand, and only one of a single tensor is kept (prepack.c).  Lanes lie
 * along the columns, and each result adds its terms in order, so a row has the
 * same bits in a product of any number of rows up to MAX_NARROW_ROWS. */
#include "backend/cpu/narrow_product.h"
#include "machine/limits/cpu.h"
#include "machine/limits/planner.h"
#include "support/arena.h"

/* ---- the pattern ---- */

/* Marks the ops from which `at` is computed. */
static void mark_operand(const LoopNest *loop, uint32_t at, bool *marks) {
  marks[at] = true;
  for (uint32_t j = at + 1; j-- > 0;)
    for (uint32_t a = 0; marks[j] && a < loop->ops.at[j].arg_count; a++)
      marks[loop->ops.at[j].args[a]] = true;
}

/* Returns true if neighbouring terms read the same elements, as a window that
 * slides along v does. */
static bool slides_along(const LoopNest *loop, const KernelOp *s, uint32_t v) {
  for (uint32_t k = loop->spatial_axes; k < loop->axis_count; k++) {
    int64_t step = s->address->coef[k];
    if (step && step > -loop->extents[v] && step < loop->extents[v])
      return true;
  }
  return false;
}

/* The operand can be computed in vectors along v: its loads are contiguous
 * there, in bounds, and do not slide.  They are of several tensors, some of
 * fewer bytes. */
static bool is_narrow_along(const LoopNest *loop, const uint64_t *op_vars,
                            const bool *marks, uint32_t v) {
  uint32_t bytes = dtype_info[loop->outputs.at[0].dtype].bytes;
  bool is_narrow = false, has_several = false;
  uint32_t first = UINT32_MAX;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    bool varies = marks[j] && (op_vars[j] >> v & 1);
    if (!varies)
      continue;
    if (s->kind == KOP_SELECT || s->kind == KOP_LOAD_LOCAL ||
        s->kind == KOP_RANDOM || s->kind == KOP_AFFINE)
      return false;
    if (s->kind != KOP_LOAD)
      continue;
    if (s->checked_index_count || slides_along(loop, s, v) ||
        !loop_load_is_contiguous(loop, op_vars, s, v))
      return false;
    is_narrow |= dtype_info[s->dtype].bytes < bytes;
    has_several |= first != UINT32_MAX && s->input != first;
    first = s->input;
  }
  return is_narrow && has_several;
}

/* The last parallel axis on which only the other operand depends; NO_AXIS:
 * there is none. */
static uint32_t find_rows(const LoopNest *loop, uint64_t narrow,
                          uint64_t other) {
  for (uint32_t v = loop->parallel_axes; v-- > 0;)
    if ((other >> v & 1) && !(narrow >> v & 1))
      return v;
  return NO_AXIS;
}

static bool has_enough_work(const LoopNest *loop, const NarrowProduct *p,
                            uint32_t width) {
  double terms =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  return loop->extents[p->columns] >= width && terms >= MIN_CONTRACTION_K &&
         terms <= MAX_NARROW_TERMS &&
         (p->rows == NO_AXIS || loop->extents[p->rows] <= MAX_NARROW_ROWS);
}

static bool is_plain_sum(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  return k->loops.len == 1 && !k->accumulated_axes && !kernel_is_symbolic(k) &&
         !k->trim_bounds.len && !loop->trim_bounds && !loop->strip_mined &&
         loop->staging == STAGE_NONE && loop->floor_div_count == 0 &&
         loop->spatial_axes == loop->parallel_axes &&
         loop->axis_count > loop->spatial_axes && nest_sums_products(loop) &&
         loop->outputs.at[0].global_index && !loop->outputs.at[0].local_index &&
         loop->outputs.at[0].dtype ==
             loop->ops.at[loop->outputs.at[0].value_op].dtype &&
         !contraction_is_bf16(loop);
}

bool narrow_product_match(const Kernel *k, uint32_t width, NarrowProduct *p) {
  const LoopNest *loop = k->loops.at[0];
  if (!is_plain_sum(k) || width < 2)
    return false;
  const LoopOutput *r = &loop->outputs.at[0];
  const uint64_t *op_vars = loop_op_vars(k->arena, loop);
  const KernelOp *product = &loop->ops.at[r->value_op];
  for (uint32_t side = 0; side < 2; side++) {
    uint32_t narrow = product->args[side], other = product->args[1 - side];
    bool *marks = NEW_ARRAY(k->arena, bool, loop->ops.len);
    mark_operand(loop, narrow, marks);
    for (uint32_t v = loop->parallel_axes; v-- > 0;)
      if (r->global_index->coef[v] == 1 && (op_vars[narrow] >> v & 1) &&
          !(op_vars[other] >> v & 1) &&
          is_narrow_along(loop, op_vars, marks, v)) {
        p->columns = v;
        p->rows = find_rows(loop, op_vars[narrow], op_vars[other]);
        p->operations = 0;
        for (uint32_t j = 0; j < loop->ops.len; j++)
          p->operations += marks[j] && (op_vars[j] >> v & 1);
        return has_enough_work(loop, p, width);
      }
  }
  return false;
}

/* ---- tasks ---- */

bool narrow_product_choose(Kernel *k, Schedule *s) {
  NarrowProduct p;
  if (!narrow_product_match(k, s->width, &p))
    return false;
  s->task_kind = p.rows == NO_AXIS ? TASK_COLUMNS : TASK_TILE;
  if (p.rows != NO_AXIS) {
    s->task_height = k->loops.at[0]->extents[p.rows];
    s->task_height = s->task_height > 0 ? s->task_height : 1;
    kernel_move_axis_last(k, p.rows);
    p.columns -= p.columns > p.rows;
  }
  kernel_move_axis_last(k, p.columns);
  int64_t vectors = NARROW_TASK_COLUMNS / s->width;
  vectors = vectors > MAX_ROW_BLOCK_VECTORS ? vectors : MAX_ROW_BLOCK_VECTORS;
  s->last_axis_block = vectors * s->width;
  s->reduction_unroll = 1;
  return true;
}

bool narrow_product_has_tasks(const Kernel *k, const Schedule *s,
                              const NarrowProduct *p) {
  uint32_t last = k->parallel_axes - 1;
  return p->columns == last && !s->gemm_tilings && !s->reduction_chunk &&
         (p->rows == NO_AXIS
              ? s->task_kind == TASK_COLUMNS
              : s->task_kind == TASK_TILE && p->rows + 1 == last);
}

/* ---- the nest ---- */

typedef struct NarrowTile {
  uint32_t rows, vectors;
} NarrowTile;

/* Time of all rows for one term of one vector, in vector operations. */
static double tile_time(const NarrowProduct *p, int64_t rows,
                        const NarrowTile *t) {
  double broadcasts = 0.5 / t->vectors;
  return (double)(rows / t->rows) *
             (p->operations + t->rows * (1 + broadcasts)) +
         (double)(rows % t->rows) * (p->operations + 1 + broadcasts);
}

/* The block of rows and vectors whose sums stay in registers.  With one vector,
 * each row reads its factor as an operand of the addition, and needs no
 * register for it. */
static NarrowTile choose_tile(const NarrowProduct *p, const Schedule *s,
                              int64_t rows) {
  NarrowTile best = {1, MAX_ROW_BLOCK_VECTORS};
  for (uint32_t vectors = MAX_ROW_BLOCK_VECTORS; vectors; vectors /= 2)
    for (uint32_t n = vectors > 1 ? MAX_ACCUMULATORS / vectors
                                  : schedule_max_accumulators(s->vector_bytes);
         n; n--) {
      NarrowTile t = {n, vectors};
      if (n <= rows && tile_time(p, rows, &t) < tile_time(p, rows, &best))
        best = t;
    }
  return best;
}

/* Adds the sums to sums of more digits after some iterations of the reduced
 * axes: makes a piece of the axis whose iterations have that many terms. */
static uint32_t add_runs(NestChoice *c) {
  const LoopNest *loop = c->loop;
  int64_t terms = 1;
  if (!nest_needs_runs(loop, c->schedule, c->vector_axis))
    return NO_AXIS;
  for (uint32_t v = loop->axis_count; v-- > loop->spatial_axes;) {
    if (terms * loop->extents[v] > F32_RUN_VECTORS) {
      nest_build_step(&c->builder, STEP_TILE, v, 0, F32_RUN_VECTORS / terms,
                      TAIL_LESS);
      nest_build_step(&c->builder, STEP_RUN, v, 1, 0, TAIL_LESS);
      return v;
    }
    terms *= loop->extents[v];
  }
  return NO_AXIS;
}

/* Outer axes, blocks of rows and of vectors, terms, rows, vectors. */
static void order_loops(NestChoice *c, uint32_t rows, uint32_t run) {
  NestStep order = {.kind = STEP_ORDER};
  uint32_t terms = c->loop->spatial_axes;
  if (rows != NO_AXIS)
    nest_step_add(&order, rows, 1);
  nest_step_add(&order, c->vector_axis, 2);
  for (uint32_t v = terms; v < c->loop->axis_count; v++) {
    if (v == run)
      nest_step_add(&order, v, 1);
    nest_step_add(&order, v, 0);
  }
  if (rows != NO_AXIS)
    nest_step_add(&order, rows, 0);
  nest_step_add(&order, c->vector_axis, 1);
  nest_step_add(&order, c->vector_axis, 0);
  nest_build_order(&c->builder, &order);
}

void narrow_product_nest(NestChoice *c, const NarrowProduct *p) {
  const LoopNest *loop = c->loop;
  uint32_t v = c->vector_axis, last = loop->axis_count - 1;
  int64_t rows = p->rows == NO_AXIS ? 1 : loop->extents[p->rows];
  NarrowTile t = choose_tile(p, c->schedule, rows);
  nest_build_step(&c->builder, STEP_TILE, v, 0, c->schedule->width, TAIL_PEEL);
  nest_build_step(&c->builder, STEP_TILE, v, 1, t.vectors, TAIL_IF);
  nest_build_step(&c->builder, STEP_UNROLL, v, 1, 0, TAIL_LESS);
  if (p->rows != NO_AXIS) {
    nest_build_step(&c->builder, STEP_TILE, p->rows, 0, t.rows, TAIL_PEEL);
    nest_build_step(&c->builder, STEP_UNROLL, p->rows, 0, 0, TAIL_LESS);
  }
  uint32_t run = add_runs(c);
  /* The parts of a byte. */
  if (last > loop->spatial_axes && run != last && loop->extents[last] > 0 &&
      loop->extents[last] <= MAX_NARROW_PARTS)
    nest_build_step(&c->builder, STEP_UNROLL, last, 0, 0, TAIL_LESS);
  order_loops(c, p->rows, run);
  nest_build_step(&c->builder, STEP_LANES, v, 0, 0, TAIL_LESS);
  nest_build_flag(&c->builder, STEP_FMA);
}
