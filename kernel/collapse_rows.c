/* Collapses the last two axes if only conditions tell them apart, as in a
 * concatenation or a roll of rows.  A condition on the row becomes one on the
 * index of the element: if rows have n elements, i < c is n * i + j < n * c.
 * Likewise for quotients of the row and for checked indices. */
#include "kernel/loop_parts.h"
#include "support/arena.h"

typedef struct RowCollapse {
  Arena *arena;
  const LoopNest *from;
  LoopNest *to;
  uint32_t row, column; /* the axes */
  int64_t count;        /* elements of a row */
  uint32_t *op_map;
  bool failed;
} RowCollapse;

/* Returns true if the expression depends on the row alone. */
static bool is_row(const RowCollapse *c, const AffineExpr *q) {
  return q->coef[c->row] == 1 && q->coef[c->column] == 0;
}

/* Returns true if the expression addresses the two axes like one. */
static bool is_collapsible(const RowCollapse *c, const AffineExpr *q) {
  int64_t step;
  return extent_mul(c->from->graph, q->coef[c->column], c->count, &step) &&
         q->coef[c->row] == step;
}

/* An expression of the row, times the number of elements. */
static AffineExpr *scaled(RowCollapse *c, const AffineExpr *q) {
  AffineExpr *to = affine_new(c->arena, 0);
  c->failed |= !affine_add(c->from->graph, to, c->count, q);
  return to;
}

static uint32_t push_affine(RowCollapse *c, KernelOp s, AffineExpr *q) {
  int64_t low, high;
  const Graph *g = c->from->graph;
  c->failed |= !affine_bounds(c->to, q, &low, &high);
  s.kind = KOP_AFFINE;
  s.affine = q;
  s.symbolic_min = low;
  s.symbolic_max = high;
  s.low = extent_is_static(g, low) ? low : INT64_MIN;
  s.high = extent_is_static(g, high) ? high : INT64_MAX;
  VEC_PUSH(c->arena, c->to->ops, s);
  return c->to->ops.len - 1;
}

static bool is_row_op(const RowCollapse *c, uint32_t at) {
  const KernelOp *s = &c->from->ops.at[at];
  return s->kind == KOP_AFFINE && is_row(c, s->affine) &&
         !is_collapsible(c, s->affine);
}

/* What a row is compared with, for all elements of the row. */
static uint32_t push_limit(RowCollapse *c, uint32_t at, bool is_last) {
  const KernelOp *s = &c->from->ops.at[at];
  AffineExpr limit = {0};
  if (s->kind == KOP_AFFINE)
    limit = *s->affine;
  else if (s->kind == KOP_CONST && s->dtype == DT_I64)
    limit.constant = s->value.i;
  else
    c->failed = true;
  AffineExpr *q = scaled(c, &limit);
  c->failed |=
      limit.coef[c->row] || limit.coef[c->column] ||
      (is_last &&
       (!extent_add(c->from->graph, q->constant, c->count, &q->constant) ||
        !extent_sub(c->from->graph, q->constant, 1, &q->constant)));
  return push_affine(c, *s, q);
}

static void push_comparison(RowCollapse *c, KernelOp s) {
  uint32_t side = !is_row_op(c, s.args[0]);
  bool is_last = side == 0 ? s.op == PRIM_LE || s.op == PRIM_GT
                           : s.op == PRIM_LT || s.op == PRIM_GE;
  c->failed |=
      s.op != PRIM_LT && s.op != PRIM_LE && s.op != PRIM_GT && s.op != PRIM_GE;
  s.args[1 - side] = push_limit(c, s.args[1 - side], is_last);
  s.args[side] = c->op_map[s.args[side]];
  VEC_PUSH(c->arena, c->to->ops, s);
}

/* A checked index of the row becomes one of the element. */
static void collapse_load(RowCollapse *c, KernelOp *s) {
  CheckedIndex *indices =
      NEW_ARRAY(c->arena, CheckedIndex, s->checked_index_count);
  s->address = affine_copy(c->arena, s->address);
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    CheckedIndex r = s->checked_indices[j];
    int64_t *step = &s->address->coef[c->column], all;
    if (is_row_op(c, r.index_op)) {
      c->failed |= s->address->coef[c->row] != 0 ||
                   !extent_mul(c->from->graph, *step, c->count, &all) ||
                   all != r.stride ||
                   !extent_mul(c->from->graph, r.extent, c->count, &r.extent);
      r.stride = *step;
      *step = 0;
    }
    r.index_op = c->op_map[r.index_op];
    indices[j] = r;
  }
  s->checked_indices = indices;
  c->failed |= !is_collapsible(c, s->address);
}

static void push_op(RowCollapse *c, uint32_t at) {
  KernelOp s = c->from->ops.at[at];
  uint32_t rows = 0;
  for (uint32_t a = 0; a < s.arg_count; a++)
    rows += is_row_op(c, s.args[a]);
  if (rows == 1 && s.kind == KOP_MAP && s.arg_count == 2) {
    push_comparison(c, s);
    return;
  }
  c->failed |= rows > 0 || s.kind == KOP_LOAD_LOCAL;
  for (uint32_t a = 0; a < s.arg_count; a++)
    s.args[a] = c->op_map[s.args[a]];
  if (s.kind == KOP_AFFINE) {
    AffineExpr *q = is_row_op(c, at) ? scaled(c, s.affine)
                                     : affine_copy(c->arena, s.affine);
    if (is_row_op(c, at))
      q->coef[c->column] = 1;
    c->failed |= !is_collapsible(c, q);
    push_affine(c, s, q);
    return;
  }
  if (s.kind == KOP_LOAD)
    collapse_load(c, &s);
  VEC_PUSH(c->arena, c->to->ops, s);
}

static void collapse_quotients(RowCollapse *c) {
  for (uint32_t j = 0; j < c->to->floor_div_count; j++) {
    FloorDiv *q = &c->to->floor_divs[j];
    if (!is_collapsible(c, &q->dividend) && is_row(c, &q->dividend)) {
      q->dividend = *scaled(c, &q->dividend);
      q->dividend.coef[c->column] = 1;
      c->failed |=
          !extent_mul(c->from->graph, q->divisor, c->count, &q->divisor);
    }
    c->failed |= !is_collapsible(c, &q->dividend);
  }
}

static void push_output(RowCollapse *c, LoopOutput r) {
  c->failed |= !r.global_index || r.local_index ||
               !is_collapsible(c, r.global_index) || is_row_op(c, r.value_op);
  if (c->failed)
    return;
  r.value_op = c->op_map[r.value_op];
  r.global_index = affine_copy(c->arena, r.global_index);
  VEC_PUSH(c->arena, c->to->outputs, r);
}

LoopNest *loop_collapse_rows(Arena *arena, const LoopNest *loop) {
  if (loop->axis_count < 2 || loop->axis_count != loop->parallel_axes ||
      loop->staging || loop->trim_bounds || loop->accumulated_axes ||
      loop->ops.len > MAX_PART_OPS)
    return NULL;
  RowCollapse c = {.arena = arena,
                   .from = loop,
                   .to = loop_clone_empty(arena, loop),
                   .row = loop->axis_count - 2,
                   .column = loop->axis_count - 1,
                   .count = loop->extents[loop->axis_count - 1],
                   .op_map = NEW_ARRAY(arena, uint32_t, loop->ops.len)};
  collapse_quotients(&c);
  for (uint32_t j = 0; j < loop->ops.len && !c.failed; j++) {
    push_op(&c, j);
    c.op_map[j] = c.to->ops.len - 1;
  }
  for (uint32_t j = 0; j < loop->outputs.len && !c.failed; j++)
    push_output(&c, loop->outputs.at[j]);
  if (c.failed)
    return NULL;
  loop_collapse_last_axes(arena, c.to);
  return c.to;
}
