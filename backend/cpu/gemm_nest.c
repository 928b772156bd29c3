/* Schedules of the loops around the register tile of a matmul or of a direct
 * convolution. */
#include "backend/cpu/gemm_chooser.h"
#include "kernel/nest.h"

typedef struct TileNest {
  NestBuilder builder;
  const GemmTiling *tiling;
  LoopNest *spec;
  uint32_t rows, columns, terms; /* axes of the register tile */
  uint32_t batch_count;          /* other axes that have loops in a task */
  uint32_t batch[MAX_KERNEL_AXES];
} TileNest;

/* ---- the product ---- */

/* Adds the load of an operand as an array with the axes that it has.  side: m
 * or n, `other` is the other one. */
static void add_operand(Arena *arena, LoopNest *spec, const LoopNest *operand,
                        uint32_t side, uint32_t other) {
  uint64_t axes = loop_op_vars(arena, operand)[operand->outputs.at[0].value_op];
  AffineExpr *address = affine_new(arena, 0);
  for (uint32_t v = 0; v < spec->spatial_axes; v++)
    address->coef[v] = axes >> v & 1;
  address->coef[loop_term_axis(operand)] = address->coef[other] = 0;
  address->coef[side] = address->coef[spec->spatial_axes] = 1;
  KernelOp load = {
      .kind = KOP_LOAD, .dtype = spec->outputs.at[0].dtype, .address = address};
  VEC_PUSH(arena, spec->ops, load);
}

/* The sum over k of a[m, k] * b[k, n], for each index of the other axes.  k is
 * the number of a term, also if terms have several axes, or if rows of a task
 * are the terms. */
static LoopNest *product_spec(Arena *arena, const LoopNest *loop,
                              const GemmTiling *t) {
  LoopNest *spec = loop_clone_empty(arena, loop);
  LoopOutput sum = {.reduce = loop->outputs.at[0].reduce,
                    .value_op = 2,
                    .dtype = t->accumulator_dtype};
  KernelOp product = {.kind = KOP_MAP,
                      .op = PRIM_MUL,
                      .dtype = t->accumulator_dtype,
                      .arg_count = 2,
                      .args = {0, 1}};
  spec->accumulated_axes = 0;
  spec->axis_count = spec->spatial_axes + 1;
  spec->extents[spec->spatial_axes] = t->depth;
  VEC_PUSH(arena, spec->outputs, sum);
  add_operand(arena, spec, t->a.loop, t->m_axis, t->n_axis);
  add_operand(arena, spec, t->b.loop, t->n_axis, t->m_axis);
  VEC_PUSH(arena, spec->ops, product);
  return spec;
}

/* ---- steps ---- */

static uint32_t piece_count(const TileNest *c, uint32_t axis) {
  uint32_t count = 0;
  while (nest_find(c->builder.nest, axis, count) != NO_LOOP)
    count++;
  return count;
}

/* Adds the piece of an axis that is `at` pieces inside of the outermost one,
 * unless it is in the register tile. */
static void add_piece(const TileNest *c, NestStep *order, uint32_t axis,
                      uint32_t at) {
  uint32_t count = piece_count(c, axis);
  if (at + 1 < count)
    nest_step_add(order, axis, count - 1 - at);
}

static void add_pieces(const TileNest *c, NestStep *order, uint32_t axis) {
  for (uint32_t at = 0; at < MAX_AXIS_PIECES; at++)
    add_piece(c, order, axis, at);
}

static void add_batch(const TileNest *c, NestStep *order) {
  for (uint32_t j = 0; j < c->batch_count; j++)
    nest_step_add(order, c->batch[j], 0);
}

/* Tiles of a cache block, whose size is an argument. */
static void tile_block(TileNest *c, uint32_t axis, int64_t size) {
  NestStep s = {.kind = STEP_TILE,
                .piece_count = 1,
                .pieces = {{axis, 0}},
                .number = size,
                .is_argument = true};
  nest_build_order(&c->builder, &s);
}

static void tile_register(TileNest *c, uint32_t axis, int64_t size,
                          NestTail tail) {
  nest_build_step(&c->builder, STEP_TILE, axis, 0, size, tail);
}

/* Makes the innermost pieces the register tile. */
static void choose_atom(TileNest *c) {
  NestStep order = {.kind = STEP_ORDER}, atom = {.kind = STEP_ATOM};
  const uint32_t axes[] = {c->rows, c->columns, c->terms};
  for (uint32_t j = 0; j < ARRAY_LEN(axes); j++)
    add_pieces(c, &order, axes[j]);
  for (uint32_t j = 0; j < ARRAY_LEN(axes); j++) {
    nest_step_add(&order, axes[j], 0);
    nest_step_add(&atom, axes[j], 0);
  }
  nest_build_order(&c->builder, &order);
  nest_build_order(&c->builder, &atom);
}

/* The loop of an axis that is `at` loops inside of the outermost one packs an
 * operand. */
static void pack_at(TileNest *c, uint32_t axis, uint32_t at,
                    NestOperand operand) {
  uint32_t piece = piece_count(c, axis) - 1 - at;
  nest_build_step(&c->builder, STEP_PACK, axis, piece, operand, TAIL_LESS);
}

static void finish_at(TileNest *c, uint32_t axis) {
  nest_build_step(&c->builder, STEP_FINISH, axis, piece_count(c, axis) - 1, 0,
                  TAIL_LESS);
}

static bool is_packed(const Operand *o) {
  return o->packing != OPERAND_UNPACKED &&
         o->packing != OPERAND_UNPACKED_COLUMNS;
}

/* ---- matmuls ---- */

/* The rows of the whole batch are those of one matmul. */
static void merge_batch(TileNest *c) {
  NestStep order = {.kind = STEP_ORDER}, flatten = {.kind = STEP_FLATTEN};
  add_pieces(c, &order, c->rows);
  nest_step_add(&order, c->rows, 0);
  nest_step_add(&flatten, c->rows, 0);
  add_batch(c, &order);
  add_batch(c, &flatten);
  nest_build_order(&c->builder, &order);
  nest_build_order(&c->builder, &flatten);
  c->rows = c->spec->axis_count;
  c->batch_count = 0;
}

static void choose_matmul(TileNest *c, const Schedule *s, bool has_epilogue) {
  const GemmTiling *t = c->tiling;
  uint32_t m = c->rows;
  bool packs_b = is_packed(&t->b) && !t->hoists_packing;
  bool has_blocks = packs_b || (t->shares_panels && !t->hoists_packing);
  if (s->task_kind != TASK_TILE && !t->hoists_packing)
    tile_block(c, c->columns, t->nc);
  tile_register(c, c->columns, (int64_t)t->nr_vectors * s->width, TAIL_LESS);
  if (has_blocks)
    tile_block(c, c->terms, t->pack_kc);
  tile_block(c, c->terms, t->kc);
  tile_block(c, m, t->mc);
  if (gemm_merges_batch(t))
    merge_batch(c);
  tile_register(c, c->rows, t->mr,
                t->has_mr_minus_one ? TAIL_SPREAD : TAIL_LESS);
  choose_atom(c);
  NestStep order = {.kind = STEP_ORDER};
  uint32_t blocks = piece_count(c, c->columns) > 2;
  if (!t->shares_panels)
    add_batch(c, &order);
  if (blocks)
    add_piece(c, &order, c->columns, 0);
  if (has_blocks)
    add_piece(c, &order, c->terms, 0);
  if (t->shares_panels)
    add_batch(c, &order);
  nest_step_add(&order, m, piece_count(c, m) - 1);
  add_piece(c, &order, c->terms, has_blocks);
  add_piece(c, &order, c->columns, blocks);
  add_piece(c, &order, c->rows, c->rows == m);
  nest_build_order(&c->builder, &order);
  if (packs_b)
    pack_at(c, c->terms, 0, NEST_RIGHT);
  if (is_packed(&t->a))
    pack_at(c, c->terms, has_blocks, NEST_LEFT);
  if (has_epilogue && s->task_kind == TASK_TILE)
    finish_at(c, m);
}

/* ---- convolutions ---- */

/* Vectors lie along positions of the window.  Each panel of them is copied for
 * a block of terms. */
static void choose_positions(TileNest *c, const Schedule *s) {
  const GemmTiling *t = c->tiling;
  NestStep order = {.kind = STEP_ORDER};
  tile_register(c, c->columns, (int64_t)t->nr_vectors * s->width, TAIL_LESS);
  tile_block(c, c->terms, t->kc);
  tile_block(c, c->rows, t->mc);
  tile_register(c, c->rows, t->mr, TAIL_LESS);
  choose_atom(c);
  add_pieces(c, &order, c->columns);
  add_pieces(c, &order, c->terms);
  add_pieces(c, &order, c->rows);
  nest_build_order(&c->builder, &order);
  pack_at(c, c->terms, 0, NEST_RIGHT);
  if (is_packed(&t->a))
    pack_at(c, c->rows, 0, NEST_LEFT);
}

/* Vectors lie along output channels, the rows of the product, and the rows of a
 * tile are positions of an image row. */
static void choose_channels(TileNest *c, const Schedule *s) {
  const GemmTiling *t = c->tiling;
  NestStep order = {.kind = STEP_ORDER};
  tile_register(c, c->columns, (int64_t)t->nr_vectors * s->width, TAIL_LESS);
  tile_block(c, c->terms, t->kc);
  tile_register(c, c->rows, t->mr, TAIL_LESS);
  choose_atom(c);
  add_pieces(c, &order, c->columns);
  add_pieces(c, &order, c->terms);
  add_batch(c, &order);
  add_pieces(c, &order, c->rows);
  nest_build_order(&c->builder, &order);
  pack_at(c, c->terms, 0, NEST_RIGHT);
  finish_at(c, c->columns);
}

/* ---- entry point ---- */

/* Other axes have one index in a task, or a loop. */
static void choose_tasks(TileNest *c, const ConvWindow *w) {
  NestStep order = {.kind = STEP_ORDER};
  const LoopNest *spec = c->spec;
  bool has_lines = w && w->vectorize_channels && w->has_rows;
  for (uint32_t v = 0; v < spec->spatial_axes; v++) {
    bool is_line = has_lines && v + 3 == spec->parallel_axes;
    if (v == c->rows || v == c->columns)
      continue;
    if (v >= spec->parallel_axes || is_line)
      c->batch[c->batch_count++] = v;
    else
      nest_step_add(&order, v, 0);
  }
  uint32_t tasks = order.piece_count;
  add_batch(c, &order);
  nest_step_add(&order, c->rows, 0);
  nest_step_add(&order, c->columns, 0);
  nest_build_tasks(&c->builder, &order, tasks);
}

Nest *gemm_nest_choose(const Kernel *k, const Schedule *s, const GemmTiling *t,
                       const LoopNest *loop, bool has_epilogue) {
  LoopNest *spec = product_spec(k->arena, loop, t);
  bool channels = gemm_is_along_channels(t);
  TileNest c = {.builder.nest = nest_new(k->arena, spec, k->axis_names),
                .tiling = t,
                .spec = spec,
                .rows = channels ? t->n_axis : t->m_axis,
                .columns = channels ? t->m_axis : t->n_axis,
                .terms = spec->spatial_axes};
  choose_tasks(&c, t->window);
  if (channels)
    choose_channels(&c, s);
  else if (t->window)
    choose_positions(&c, s);
  else
    choose_matmul(&c, s, has_epilogue);
  nest_verify_chosen(c.builder.nest, c.builder.refusal);
  return c.builder.refusal ? NULL : c.builder.nest;
}
