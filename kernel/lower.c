/* Lowering: translates a materialized node into a loop nest.
 *
 * Index expressions become quasi-affine expressions of loop variables.  An axis
 * is split if the body divides its index by a divisor of its extent.  The main
 * entry point is lower_node. */
#include "kernel/verify.h"
#include "support/arena.h"

typedef struct IndexValue { /* the value of an i64 op of a body */
  bool is_affine;           /* `affine` is its value */
  AffineExpr *affine;
  int64_t low, high; /* bounds; INT64_MIN, INT64_MAX: unknown */
} IndexValue;

typedef struct Lowerer {
  Arena *arena;
  LoopNest *loop;
  LoweredNode *lowered;
  const Node *node;
  AxisSplits *splits;
  IndexValue *values; /* for each op of the body */
  uint32_t *op_of;    /* for each op of the body: 1 + its kernel op, or 0 */
  /* The variables of axis k are first_var[k] .. first_var[k] + var_count[k] -
   * 1, outermost first. */
  uint32_t first_var[MAX_RANK], var_count[MAX_RANK];
  bool failed; /* not representable, for example too many variables */
} Lowerer;

static bool affine_is_constant(const AffineExpr *q) {
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v])
      return false;
  return true;
}

/* True if low .. high lies in 0 .. end - 1. */
static bool range_within(const Graph *g, int64_t low, int64_t high,
                         int64_t end) {
  return extent_proved(g, EXTENT_LE, 0, low) &&
         extent_proved_less(g, high, end);
}

/* ---- floor division ---- */

static uint32_t floor_div_var(Lowerer *b, const AffineExpr *dividend,
                              int64_t divisor) {
  LoopNest *k = b->loop;
  for (uint32_t j = 0; j < k->floor_div_count; j++)
    if (k->floor_divs[j].divisor == divisor &&
        affine_equal(&k->floor_divs[j].dividend, dividend))
      return MAX_KERNEL_AXES + j;
  int64_t low, high;
  if (k->floor_div_count == ARRAY_LEN(k->floor_divs) ||
      !affine_bounds(k, dividend, &low, &high) ||
      !extent_floor_div(k->graph, low, divisor, &low) ||
      !extent_floor_div(k->graph, high, divisor, &high)) {
    b->failed = true;
    return MAX_KERNEL_AXES;
  }
  k->floor_divs[k->floor_div_count] = (FloorDiv){*dividend, divisor, low, high};
  return MAX_KERNEL_AXES + k->floor_div_count++;
}

/* True if q is one floor division plus a constant.  Dividing it again then
 * gives one floor division. */
static bool is_single_floor_div(const AffineExpr *q, uint32_t *var) {
  uint32_t found = 0;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    if (q->coef[v] == 0)
      continue;
    if (v < MAX_KERNEL_AXES || q->coef[v] != 1)
      return false;
    *var = v;
    found++;
  }
  return found == 1;
}

/* Simplifies floor(x / divisor) by a common factor: if x = part * y + z with
 * 0 <= z < part, and `part` divides the divisor, the result is
 * floor(y / (divisor / part)).  Example: (c * 784 + j) / 6272 is c / 8 if
 * 0 <= j < 784. */
static bool cancel_common_factor(Lowerer *b, AffineExpr *x, int64_t *divisor) {
  Graph *g = b->loop->graph;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    int64_t part = x->coef[v], left, low, high;
    if (part == 0 || part == 1 || !extent_proved(g, EXTENT_LE, 2, part) ||
        !extent_floor_mod(g, *divisor, part, &left) || left != 0)
      continue;
    AffineExpr quotient = {0}, remainder = {0};
    if (affine_divide(g, x, part, &quotient, &remainder) &&
        affine_bounds(b->loop, &remainder, &low, &high) &&
        range_within(g, low, high, part) &&
        extent_floor_div(g, *divisor, part, divisor)) {
      *x = quotient;
      return true;
    }
  }
  return false;
}

/* floor(dividend / divisor).  Terms that the divisor divides leave the floor.
 * The remainder contributes 0 if it lies in 0 .. divisor - 1. */
static AffineExpr *affine_floor_div(Lowerer *b, const AffineExpr *dividend,
                                    int64_t divisor) {
  Graph *g = b->loop->graph;
  AffineExpr *out = affine_new(b->arena, 0), remainder = {0};
  int64_t low, high, offset;
  b->failed |= !affine_divide(g, dividend, divisor, out, &remainder);
  if (affine_bounds(b->loop, &remainder, &low, &high) &&
      range_within(g, low, high, divisor))
    return out;
  if (cancel_common_factor(b, &remainder, &divisor)) {
    affine_add(g, out, 1, affine_floor_div(b, &remainder, divisor));
    return out;
  }
  uint32_t var;
  if (is_single_floor_div(&remainder, &var)) {
    const FloorDiv *inner = &b->loop->floor_divs[var - MAX_KERNEL_AXES];
    AffineExpr inner_dividend = inner->dividend;
    int64_t product;
    if (extent_mul(g, remainder.constant, inner->divisor, &offset) &&
        extent_add(g, inner_dividend.constant, offset,
                   &inner_dividend.constant) &&
        extent_mul(g, inner->divisor, divisor, &product)) {
      affine_add(g, out, 1, affine_floor_div(b, &inner_dividend, product));
      return out;
    }
  }
  out->coef[floor_div_var(b, &remainder, divisor)] += 1;
  return out;
}

/* ---- values of index ops ---- */

static IndexValue unknown_value(void) {
  return (IndexValue){.low = INT64_MIN, .high = INT64_MAX};
}

static IndexValue value_of_affine(const Lowerer *b, AffineExpr *q) {
  IndexValue f = {.affine = q};
  f.is_affine = affine_bounds(b->loop, q, &f.low, &f.high);
  return f.is_affine ? f : unknown_value();
}

static AffineExpr *axis_value(Lowerer *b, uint32_t axis) {
  AffineExpr *q = affine_new(b->arena, 0);
  int64_t stride = 1;
  for (uint32_t k = b->var_count[axis]; k-- > 0;) {
    q->coef[b->first_var[axis] + k] = stride;
    b->failed |= !extent_mul(b->loop->graph, stride,
                             b->loop->extents[b->first_var[axis] + k], &stride);
  }
  return q;
}

/* True if the divisor divides x. */
static bool divides_evenly(Graph *g, int64_t divisor, int64_t x) {
  int64_t left;
  return extent_proved(g, EXTENT_LE, 0, divisor) &&
         extent_floor_mod(g, x, divisor, &left) && left == 0;
}

/* True if divisor y is a size of at least 1 whenever x is computed.  A size
 * that divides the extent of a nonempty axis is not 0. */
static bool is_positive_divisor(const Lowerer *b, const IndexValue *x,
                                const IndexValue *y) {
  Graph *g = b->loop->graph;
  if (y->low != y->high)
    return false;
  if (extent_proved(g, EXTENT_LE, 1, y->low))
    return true;
  for (uint32_t v = 0; v < MAX_KERNEL_AXES; v++)
    if (x->affine->coef[v] && divides_evenly(g, y->low, b->loop->extents[v]))
      return true;
  return false;
}

static IndexValue scale_value(Lowerer *b, const IndexValue *x, int64_t factor) {
  AffineExpr *q = affine_new(b->arena, 0);
  return affine_add(b->loop->graph, q, factor, x->affine)
             ? value_of_affine(b, q)
             : unknown_value();
}

static IndexValue op_value(Lowerer *b, PrimId op, const IndexValue *x,
                           const IndexValue *y) {
  Graph *g = b->loop->graph;
  if (!x->is_affine || !y->is_affine)
    return unknown_value();
  AffineExpr *q = affine_new(b->arena, 0);
  if (op == PRIM_ADD || op == PRIM_SUB) {
    affine_add(g, q, 1, x->affine);
    return affine_add(g, q, op == PRIM_ADD ? 1 : -1, y->affine)
               ? value_of_affine(b, q)
               : unknown_value();
  }
  if (op == PRIM_MUL && affine_is_constant(y->affine))
    return scale_value(b, x, y->affine->constant);
  if (op == PRIM_MUL && affine_is_constant(x->affine))
    return scale_value(b, y, x->affine->constant);
  if ((op == PRIM_DIV || op == PRIM_MOD) && is_positive_divisor(b, x, y)) {
    AffineExpr *quotient = affine_floor_div(b, x->affine, y->low);
    int64_t less;
    if (op == PRIM_DIV)
      return value_of_affine(b, quotient);
    *q = *x->affine;
    return extent_sub(g, 0, y->low, &less) && affine_add(g, q, less, quotient)
               ? value_of_affine(b, q)
               : unknown_value();
  }
  return unknown_value();
}

static bool has_bounds(const IndexValue *f) {
  return f->low != INT64_MIN && f->high != INT64_MAX;
}

/* Tightens the bounds by those that follow from the operation itself. */
static void refine_bounds(Graph *g, PrimId op, const IndexValue *x,
                          const IndexValue *y, IndexValue *out) {
  int64_t low = INT64_MIN, high = INT64_MAX;
  bool positive = y->low != INT64_MIN && extent_proved(g, EXTENT_LE, 1, y->low);
  bool fits_i64 = true;
  if (op == PRIM_MOD && positive && y->high != INT64_MAX) {
    low = 0;
    fits_i64 = extent_sub(g, y->high, 1, &high);
  } else if (!has_bounds(x) || !has_bounds(y)) {
    if (op == PRIM_MAXIMUM)
      low = x->low == INT64_MIN   ? y->low
            : y->low == INT64_MIN ? x->low
                                  : extent_max(g, x->low, y->low);
    if (op == PRIM_MINIMUM)
      high = x->high == INT64_MAX   ? y->high
             : y->high == INT64_MAX ? x->high
                                    : extent_min(g, x->high, y->high);
  } else if (op == PRIM_DIV && positive && y->low == y->high) {
    fits_i64 = extent_floor_div(g, x->low, y->low, &low) &&
               extent_floor_div(g, x->high, y->low, &high);
  } else if (op == PRIM_MAXIMUM) {
    low = extent_max(g, x->low, y->low);
    high = extent_max(g, x->high, y->high);
  } else if (op == PRIM_MINIMUM) {
    low = extent_min(g, x->low, y->low);
    high = extent_min(g, x->high, y->high);
  } else if (op == PRIM_ADD) {
    fits_i64 = extent_add(g, x->low, y->low, &low) &&
               extent_add(g, x->high, y->high, &high);
  } else if (op == PRIM_SUB) {
    fits_i64 = extent_sub(g, x->low, y->high, &low) &&
               extent_sub(g, x->high, y->low, &high);
  }
  if (!fits_i64)
    return;
  if (out->low == INT64_MIN ||
      (low != INT64_MIN && extent_proved(g, EXTENT_LE, out->low, low)))
    out->low = low;
  if (out->high == INT64_MAX ||
      (high != INT64_MAX && extent_proved(g, EXTENT_LE, high, out->high)))
    out->high = high;
}

/* The value of a read.  The result of an arg-reduction is less than the number
 * of its terms. */
static IndexValue read_value(const Lowerer *b, const Node *x) {
  const int64_t *reduced = x->extents + x->free_count + x->rank;
  IndexValue f = unknown_value();
  int64_t count;
  if (node_is_materialized(x) || x->kind != NODE_COMP ||
      !prim_is_arg_reduction(x->reduce) ||
      !extent_product(b->loop->graph, x->reduce_count, reduced, &count) ||
      !extent_is_static(b->loop->graph, count) || count < 1)
    return f;
  f.low = 0;
  f.high = count - 1;
  return f;
}

static IndexValue body_op_value(Lowerer *b, const BodyOp *expr) {
  if (expr->dtype != DT_I64)
    return unknown_value();
  if (expr->kind == BODY_READ)
    return read_value(b, expr->node);
  if (expr->kind == BODY_CONST) /* a huge number is not a handle of an extent */
    return extent_is_static(b->loop->graph, expr->value.i)
               ? value_of_affine(b, affine_new(b->arena, expr->value.i))
               : unknown_value();
  if (expr->kind == BODY_EXTENT)
    return value_of_affine(b, affine_new(b->arena, expr->extent));
  if (expr->kind == BODY_AXIS)
    return value_of_affine(b, axis_value(b, expr->axis));
  if (expr->kind != BODY_OP || expr->arg_count != 2)
    return unknown_value();
  const IndexValue *x = &b->values[expr->args[0]],
                   *y = &b->values[expr->args[1]];
  IndexValue f = op_value(b, expr->op, x, y);
  refine_bounds(b->loop->graph, expr->op, x, y, &f);
  return f;
}

static void compute_values(Lowerer *b) {
  for (uint32_t k = 0; k < b->node->body_op_count; k++)
    b->values[k] = body_op_value(b, &b->node->body_ops[k]);
}

/* ---- splitting axes ---- */

void axis_splits_add(const Graph *g, AxisSplits *splits, uint32_t axis,
                     int64_t divisor) {
  uint32_t at = splits->split_count[axis];
  int64_t *to = splits->inner_extents[axis], size = extent_hint(g, divisor);
  for (uint32_t k = 0; k < at; k++)
    if (to[k] == divisor)
      return;
  if (at == ARRAY_LEN(splits->inner_extents[axis]))
    return;
  for (; at > 0 && extent_hint(g, to[at - 1]) > size; at--)
    to[at] = to[at - 1];
  to[at] = divisor;
  splits->split_count[axis]++;
}

/* Splits each axis whose index is divided by a divisor of its extent.  Before
 * any split, variable v is axis v of the node. */
static void find_splits(Lowerer *b) {
  for (uint32_t j = 0; j < b->loop->floor_div_count; j++) {
    const FloorDiv *q = &b->loop->floor_divs[j];
    uint32_t axis = NO_OP, terms = 0;
    for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
      if (q->dividend.coef[v]) {
        axis = v;
        terms++;
      }
    if (terms == 1 && axis < MAX_KERNEL_AXES && q->dividend.coef[axis] == 1 &&
        q->dividend.constant == 0 &&
        divides_evenly(b->loop->graph, q->divisor, b->loop->extents[axis]))
      axis_splits_add(b->loop->graph, b->splits, axis, q->divisor);
  }
}

static void assign_axis_vars(Lowerer *b, uint32_t axis, uint32_t *var) {
  Graph *g = b->loop->graph;
  int64_t remainder = b->node->extents[axis], inner = 1;
  int64_t sizes[ARRAY_LEN(b->splits->inner_extents[0]) + 1];
  uint32_t count = 0;
  for (uint32_t j = 0; j < b->splits->split_count[axis]; j++) {
    int64_t split = b->splits->inner_extents[axis][j];
    int64_t part, left;
    if (split == inner || !divides_evenly(g, inner, split) ||
        !extent_floor_div(g, split, inner, &part) ||
        !divides_evenly(g, part, remainder) ||
        !extent_floor_div(g, remainder, part, &left))
      continue;
    sizes[count++] = part;
    remainder = left;
    inner = split;
  }
  if (remainder != 1 || count == 0)
    sizes[count++] = remainder;
  b->first_var[axis] = *var;
  b->var_count[axis] = count;
  for (uint32_t j = 0; j < count && *var < MAX_KERNEL_AXES; j++)
    b->loop->extents[(*var)++] = sizes[count - 1 - j];
}

/* An axis of extent 1 gets no variable: no expression uses it. */
static void assign_vars(Lowerer *b) {
  LoopNest *k = b->loop;
  const Node *n = b->node;
  uint32_t var = 0, outer = n->free_count + n->rank;
  for (uint32_t axis = 0; axis < outer + n->reduce_count; axis++) {
    if (axis == outer)
      k->spatial_axes = var;
    b->first_var[axis] = var;
    b->var_count[axis] = 0;
    if (n->extents[axis] != 1)
      assign_axis_vars(b, axis, &var);
  }
  if (n->reduce_count == 0)
    k->spatial_axes = var;
  k->axis_count = var;
  b->failed |= var >= MAX_KERNEL_AXES;
  k->floor_div_count = 0;
  compute_values(b);
}

/* ---- ops ---- */

static uint32_t kernel_op_of(Lowerer *b, uint32_t expr);

static void lower_read(Lowerer *b, const BodyOp *expr, KernelOp *s) {
  const Node *x = expr->node;
  int64_t stride = x->strides && x->rank ? x->strides[x->rank - 1] : 1;
  s->node = x;
  s->address = affine_new(b->arena, 0);
  s->index_exprs = NEW_ARRAY(b->arena, AffineExpr *, expr->arg_count + 1);
  s->checked_indices = NEW_ARRAY(b->arena, CheckedIndex, expr->arg_count + 1);
  Graph *g = b->loop->graph;
  for (uint32_t j = expr->arg_count; j-- > 0;) {
    const IndexValue *f = &b->values[expr->args[j]];
    if (f->is_affine && range_within(g, f->low, f->high, x->extents[j])) {
      b->failed |= !affine_add(g, s->address, stride, f->affine);
      s->index_exprs[j] = f->affine;
    } else {
      s->checked_indices[s->checked_index_count++] =
          (CheckedIndex){kernel_op_of(b, expr->args[j]), stride, x->extents[j]};
    }
    b->failed |= !extent_mul(g, stride, x->extents[j], &stride);
    if (x->strides && j > 0)
      stride = x->strides[j - 1];
  }
}

/* Sets the static bounds of an op.  They decide the type in which generated
 * code computes it. */
static void set_bounds(const Lowerer *b, KernelOp *s, const IndexValue *f) {
  const Graph *g = b->loop->graph;
  bool unbounded_below = f->low == INT64_MIN; /* otherwise maybe symbolic */
  s->symbolic_min = f->low;
  s->symbolic_max = f->high;
  s->high = extent_is_static(g, f->high) ? f->high : INT64_MAX;
  s->low = extent_is_static(g, f->low) ? f->low : INT64_MIN;
  if (!unbounded_below && s->low == INT64_MIN)
    s->low = extent_proved(g, EXTENT_LE, 1, f->low)   ? 1
             : extent_proved(g, EXTENT_LE, 0, f->low) ? 0
                                                      : INT64_MIN;
}

static KernelOp lower_op(Lowerer *b, uint32_t at) {
  const BodyOp *expr = &b->node->body_ops[at];
  KernelOp s = {.dtype = expr->dtype,
                .op = expr->op,
                .span = expr->span,
                .proved_safe = expr->proved_safe};
  set_bounds(b, &s, &b->values[at]);
  switch (expr->kind) {
  case BODY_CONST:
    s.kind = KOP_CONST;
    s.value = expr->value;
    return s;
  case BODY_READ:
    s.kind = KOP_LOAD;
    lower_read(b, expr, &s);
    return s;
  case BODY_RANDOM:
    s.kind = KOP_RANDOM;
    s.key = expr->key;
    break;
  case BODY_OP:
    s.kind = KOP_MAP;
    break;
  case BODY_SELECT:
    s.kind = KOP_SELECT;
    break;
  case BODY_CONVERT:
    s.kind = KOP_CONVERT;
    break;
  case BODY_EXTENT:
  case BODY_AXIS: /* always affine */
    b->failed = true;
    return s;
  }
  b->failed |= expr->arg_count > 3;
  for (uint32_t j = 0; j < expr->arg_count && j < 3; j++)
    s.args[s.arg_count++] = kernel_op_of(b, expr->args[j]);
  return s;
}

/* The planner limits the depth of the recursion: it is the depth of a body. */
static uint32_t kernel_op_of(Lowerer *b, uint32_t expr) {
  if (b->op_of[expr])
    return b->op_of[expr] - 1;
  KernelOp s;
  const IndexValue *f = &b->values[expr];
  if (f->is_affine) {
    s = (KernelOp){.kind = KOP_AFFINE, .dtype = DT_I64};
    s.affine = NEW(b->arena, AffineExpr);
    *s.affine = *f->affine;
    set_bounds(b, &s, f);
  } else {
    s = lower_op(b, expr);
  }
  VEC_PUSH(b->arena, b->loop->ops, s);
  b->op_of[expr] = b->loop->ops.len;
  return b->loop->ops.len - 1;
}

/* ---- main entry point ---- */

static void set_output(Lowerer *b, Node *n) {
  LoopNest *k = b->loop;
  int64_t stride = 1;
  LoopOutput r = {.node = n, .reduce = n->reduce, .dtype = n->dtype};
  r.global_index = affine_new(b->arena, 0);
  for (uint32_t v = k->spatial_axes; v-- > 0;) {
    r.global_index->coef[v] = stride;
    b->failed |= !extent_mul(k->graph, stride, k->extents[v], &stride);
  }
  if (k->spatial_axes == k->axis_count && prim_is_arg_reduction(r.reduce)) {
    b->failed |= !n->speculatable; /* the body runs only because it may fault */
    KernelOp zero = {.kind = KOP_CONST, .dtype = DT_I64};
    zero.value.dtype = DT_I64;
    VEC_PUSH(b->arena, k->ops, zero);
  } else {
    r.value_op = kernel_op_of(b, n->body_op_count - 1);
  }
  if (k->spatial_axes == k->axis_count) /* the reduction has one term */
    r.reduce = PRIM_NONE;
  VEC_PUSH(b->arena, k->outputs, r);
}

LoweredNode *lower_node(Arena *arena, Graph *g, Node *n, AxisSplits *splits) {
  Lowerer *b = NEW(arena, Lowerer);
  b->arena = arena;
  b->lowered = NEW(arena, LoweredNode);
  b->loop = b->lowered->loop = NEW(arena, LoopNest);
  b->loop->graph = g;
  b->node = n;
  b->splits = splits;
  b->values = NEW_ARRAY(arena, IndexValue, n->body_op_count);
  b->op_of = NEW_ARRAY(arena, uint32_t, n->body_op_count);
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++) {
    b->first_var[k] = k;
    b->var_count[k] = 1;
    b->loop->extents[k] = n->extents[k];
  }
  compute_values(b);
  find_splits(b);
  assign_vars(b);
  if (!b->failed)
    set_output(b, n);
  for (uint32_t k = 0; k < n->free_count + n->rank; k++) {
    b->lowered->first_var[k] = b->first_var[k];
    b->lowered->var_count[k] = b->var_count[k];
  }
  if (b->failed)
    return NULL;
  loop_verify_after(b->loop, "lowering");
  return b->lowered;
}
