/* Schedules of batches of small matmuls. */
#include "backend/cpu/small_product.h"

static uint32_t term_axis(const NestChoice *c) {
  return c->loop->spatial_axes;
}

/* Rows that are longer than a vector: tiles of rows, whose sums stay in
 * registers.  The terms are a loop around them. */
static void choose_tiles(NestChoice *c, const SmallProduct *p) {
  NestBuilder *b = &c->builder;
  uint32_t m = p->m_axis, n = p->n_axis;
  bool has_tiles = p->symbolic || p->mr < p->rows;
  /* the rows behind the last tile are tiles of fewer rows */
  uint32_t rest = !p->symbolic     ? p->mr
                  : p->mr % 4 == 0 ? 4
                  : p->mr % 2 == 0 ? 2
                                   : p->mr,
           pieces = rest < p->mr ? 2 : 1;
  if (has_tiles)
    nest_build_step(b, STEP_TILE, m, 0, rest,
                    p->symbolic ? TAIL_PEEL : TAIL_SHIFT);
  if (pieces == 2)
    nest_build_step(b, STEP_TILE, m, 1, p->mr / rest, TAIL_PEEL);
  for (uint32_t j = 0; j < pieces; j++)
    nest_build_step(b, STEP_UNROLL, m, j, 0, TAIL_LESS);
  nest_build_step(b, STEP_TILE, n, 0, c->schedule->width, TAIL_MASK);
  if (p->symbolic)
    nest_build_step(b, STEP_TILE, n, 1, p->row_vectors, TAIL_LESS);
  nest_build_step(b, STEP_UNROLL, n, 1, 0, TAIL_LESS);
  NestStep order = {.kind = STEP_ORDER};
  if (p->symbolic) /* one iteration */
    nest_step_add(&order, n, 2);
  nest_step_add(&order, p->batch_axis, 0);
  if (has_tiles)
    nest_step_add(&order, m, pieces);
  nest_step_add(&order, term_axis(c), 0);
  for (uint32_t j = pieces; j-- > 0;)
    nest_step_add(&order, m, j);
  nest_step_add(&order, n, 1);
  nest_step_add(&order, n, 0);
  nest_build_order(b, &order);
  nest_build_step(b, STEP_LANES, n, 0, 0, TAIL_MASK);
}

/* Shorter rows: the lanes are elements of several rows, and perhaps of several
 * matrices. */
static void choose_shuffles(NestChoice *c, const SmallProduct *p) {
  NestBuilder *b = &c->builder;
  uint32_t k = term_axis(c), lanes = c->loop->axis_count;
  NestStep rows = {.kind = STEP_ORDER}, flatten = {.kind = STEP_FLATTEN},
           order = rows;
  if (p->members > 1) {
    nest_build_step(b, STEP_TILE, p->batch_axis, 0, p->members, TAIL_LESS);
    nest_step_add(&flatten, p->batch_axis, 0);
  }
  nest_step_add(&rows, p->m_axis, 0);
  nest_step_add(&rows, p->n_axis, 0);
  nest_build_order(b, &rows);
  nest_step_add(&flatten, p->m_axis, 0);
  nest_step_add(&flatten, p->n_axis, 0);
  nest_build_order(b, &flatten);
  nest_build_step(b, STEP_TILE, lanes, 0, c->schedule->width, TAIL_MASK);
  nest_build_step(b, STEP_UNROLL, lanes, 1, 0, TAIL_LESS);
  nest_build_step(b, STEP_UNROLL, k, 0, 0, TAIL_LESS);
  nest_step_add(&order, k, 0);
  nest_step_add(&order, lanes, 1);
  nest_step_add(&order, lanes, 0);
  nest_build_order(b, &order);
  nest_build_step(b, STEP_LANES, lanes, 0, 0, TAIL_MASK);
  nest_build_step(b, STEP_SHUFFLE, p->batch_axis, 0, 0, TAIL_LESS);
}

void small_product_nest(NestChoice *c, const SmallProduct *p) {
  if (p->row_vectors)
    choose_tiles(c, p);
  else
    choose_shuffles(c, p);
  if (nest_sums_products(c->loop))
    nest_build_flag(&c->builder, STEP_FMA);
}
