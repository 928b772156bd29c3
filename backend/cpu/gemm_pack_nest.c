/* Schedules of the nests that pack the operands of matmuls, or that test their
 * elements. */
#include "backend/cpu/gemm_chooser.h"
#include "kernel/nest.h"

typedef struct PackChoice {
  NestBuilder builder;
  const LoopNest *loop;
  uint32_t axis; /* of the lines: rows of a, or columns of b */
  uint32_t first_term, last_term;
  uint32_t line_count; /* loops over lines, outermost first: several if the
                          rows of the whole batch are those of one matmul */
  uint32_t lines[MAX_KERNEL_AXES];
  int64_t width;
} PackChoice;

static bool is_line(const PackChoice *c, uint32_t v) {
  for (uint32_t j = 0; j < c->line_count; j++)
    if (c->lines[j] == v)
      return true;
  return false;
}

static bool is_term(const PackChoice *c, uint32_t v) {
  return v >= c->first_term && v <= c->last_term;
}

static void add_terms(const PackChoice *c, NestStep *order, uint32_t piece) {
  for (uint32_t v = c->first_term; v <= c->last_term; v++)
    nest_step_add(order, v, v == c->last_term ? piece : 0);
}

static void add_lines(const PackChoice *c, NestStep *order) {
  for (uint32_t j = 0; j < c->line_count; j++)
    nest_step_add(order, c->lines[j], 0);
}

/* One copy has one index of each other axis. */
static void choose_tasks(PackChoice *c) {
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t v = 0; v < c->loop->axis_count; v++)
    if (!is_line(c, v) && !is_term(c, v))
      nest_step_add(&order, v, 0);
  uint32_t tasks = order.piece_count;
  add_lines(c, &order);
  add_terms(c, &order, 0);
  nest_build_tasks(&c->builder, &order, tasks);
}

/* Vectors along the terms of each line. */
static void choose_rows(PackChoice *c) {
  uint32_t k = c->last_term;
  nest_build_step(&c->builder, STEP_TILE, k, 0, c->width, TAIL_PEEL);
  nest_build_step(&c->builder, STEP_LANES, k, 0, 0, TAIL_LESS);
}

/* Vectors along the lines, for each term. */
static void choose_columns(PackChoice *c) {
  NestStep order = {.kind = STEP_ORDER};
  add_terms(c, &order, 0);
  nest_step_add(&order, c->axis, 0);
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, STEP_TILE, c->axis, 0, c->width, TAIL_PEEL);
  nest_build_step(&c->builder, STEP_LANES, c->axis, 0, 0, TAIL_LESS);
}

/* The same, panel by panel. */
static void choose_panels(PackChoice *c, uint32_t vectors) {
  NestStep order = {.kind = STEP_ORDER};
  nest_build_step(&c->builder, STEP_TILE, c->axis, 0, c->width, TAIL_PEEL);
  nest_build_step(&c->builder, STEP_TILE, c->axis, 1, vectors, TAIL_LESS);
  nest_step_add(&order, c->axis, 2);
  add_terms(c, &order, 0);
  nest_step_add(&order, c->axis, 1);
  nest_step_add(&order, c->axis, 0);
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, STEP_LANES, c->axis, 0, 0, TAIL_LESS);
}

/* Panels of which square blocks are transposed in registers: vectors are loaded
 * along the terms, and stored along the lines. */
static void choose_transposed_panels(PackChoice *c, uint32_t vectors) {
  uint32_t k = c->last_term;
  NestStep order = {.kind = STEP_ORDER};
  nest_build_step(&c->builder, STEP_TILE, c->axis, 0, c->width, TAIL_LESS);
  nest_build_step(&c->builder, STEP_TILE, c->axis, 1, vectors, TAIL_LESS);
  nest_build_step(&c->builder, STEP_TILE, k, 0, c->width, TAIL_LESS);
  nest_step_add(&order, c->axis, 2);
  nest_step_add(&order, c->axis, 1);
  add_terms(c, &order, 1);
  nest_step_add(&order, c->axis, 0);
  nest_step_add(&order, k, 0);
  nest_build_order(&c->builder, &order);
  nest_build_step(&c->builder, STEP_UNROLL, c->axis, 0, 0, TAIL_LESS);
  nest_build_step(&c->builder, STEP_LANES, k, 0, 0, TAIL_LESS);
  nest_build_step(&c->builder, STEP_TRANSPOSE, c->axis, 0, 0, TAIL_LESS);
}

static PackChoice begin_choice(const Kernel *k, LoopNest *loop, uint32_t axis,
                               uint32_t width) {
  uint32_t first = loop_term_axis(loop);
  return (PackChoice){.builder.nest = nest_new(k->arena, loop, k->axis_names),
                      .loop = loop,
                      .axis = axis,
                      .first_term = first,
                      .last_term =
                          loop->accumulated_axes ? first : loop->axis_count - 1,
                      .line_count = 1,
                      .lines = {axis},
                      .width = width};
}

static Nest *end_choice(const PackChoice *c) {
  nest_verify_chosen(c->builder.nest, c->builder.refusal);
  return c->builder.refusal ? NULL : c->builder.nest;
}

Nest *gemm_test_nest(const Kernel *k, LoopNest *loop, uint32_t axis,
                     bool along_terms, uint32_t width) {
  PackChoice c = begin_choice(k, loop, axis, width);
  uint64_t axes = loop_op_vars(k->arena, loop)[loop->outputs.at[0].value_op];
  c.line_count = 0;
  for (uint32_t v = loop->parallel_axes; v < loop->spatial_axes; v++)
    if (v != axis && (axes >> v & 1))
      c.lines[c.line_count++] = v;
  c.lines[c.line_count++] = axis;
  choose_tasks(&c);
  if (along_terms)
    choose_rows(&c);
  else
    choose_columns(&c);
  return end_choice(&c);
}

/* The nest that packs an operand; NULL: none does. */
static Nest *choose_nest(const Kernel *k, const GemmTiling *t, const Operand *o,
                         uint32_t axis, uint32_t width) {
  PackChoice c = begin_choice(k, o->loop, axis, width);
  bool by_rows = o->packing == OPERAND_PACK_A_ROWS;
  if (o->packing == OPERAND_UNPACKED && !o->may_prepack)
    return NULL;
  for (uint32_t v = c.loop->parallel_axes; v < c.loop->spatial_axes; v++)
    if (by_rows && gemm_merges_batch(t) && v != t->n_axis)
      c.lines[c.line_count++] = v;
  choose_tasks(&c);
  switch (o->packing) {
  case OPERAND_PACK_A_ROWS:
    choose_rows(&c);
    break;
  case OPERAND_PACK_A_COLUMNS:
    choose_columns(&c);
    break;
  case OPERAND_PACK_B_TRANSPOSED:
    choose_transposed_panels(&c, t->nr_vectors);
    break;
  case OPERAND_UNPACKED:
  case OPERAND_PACK_B:
    choose_panels(&c, t->nr_vectors);
    break;
  case OPERAND_UNPACKED_COLUMNS:
  case OPERAND_PACK_B_IM2COL:
    return NULL;
  }
  return end_choice(&c);
}

/* The nest that copies the window of a convolution: lines of a plane, whose
 * axes are the last ones. */
static Nest *choose_window_nest(const Kernel *k, ConvWindow *w,
                                uint32_t width) {
  LoopNest *loop = w->copy_loop;
  uint32_t last = loop->axis_count - 1;
  PackChoice c = {.builder.nest = nest_new(k->arena, loop, k->axis_names),
                  .loop = loop,
                  .axis = last - 1,
                  .first_term = last,
                  .last_term = last,
                  .width = width};
  for (uint32_t v = loop->spatial_axes; v < last; v++)
    c.lines[c.line_count++] = v;
  choose_tasks(&c);
  choose_rows(&c);
  return end_choice(&c);
}

void gemm_pack_choose(const Kernel *k, const Schedule *s, GemmTiling *t) {
  t->a.nest = choose_nest(k, t, &t->a, t->m_axis, s->width);
  t->b.nest = t->window ? choose_window_nest(k, t->window, s->width)
                        : choose_nest(k, t, &t->b, t->n_axis, s->width);
}
