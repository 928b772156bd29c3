/* Contraction order: multiplies and sums some factors of a product first, if
 * that is less work.
 *
 * Example: v·B·w, as two nested sums of a `for`, takes n² products per element.
 * It takes n products if B and v are contracted first.
 *
 * The order is greedy, over pairs of factors and over sums on which only some
 * factors depend (variable elimination; Smith and Gray, opt_einsum, JOSS
 * 2018). */
#include "machine/limits/planner.h"
#include "support/trap.h"
#include "tensor/internal.h"

#include <string.h>

double contraction_order_extent(const Graph *g, int64_t size) {
  return extent_is_static(g, size) ? (double)size : UNKNOWN_EXTENT_HINT;
}

static double iteration_count(const ContractionOperands *f, uint64_t axes) {
  double n = 1;
  for (uint32_t k = 0; k < f->axis_count; k++)
    if (axes >> k & 1)
      n *= f->extents[k];
  return n;
}

static uint64_t operand_set_axes(const ContractionOperands *f,
                                 uint64_t factors) {
  uint64_t axes = 0;
  for (uint32_t k = 0; k < f->count; k++)
    if (factors >> k & 1)
      axes |= f->operand_axes[k];
  return axes;
}

static uint64_t operands_with_axis(const ContractionOperands *f,
                                   uint32_t axis) {
  uint64_t factors = 0;
  for (uint32_t k = 0; k < f->count; k++)
    factors |= (f->operand_axes[k] >> axis & 1) << k;
  return factors;
}

/* Number of elements of all operands; the limit for intermediates. */
static double live_elements(const ContractionOperands *f) {
  uint64_t all_operands = (UINT64_C(1) << f->count) - 1;
  double n =
      iteration_count(f, operand_set_axes(f, all_operands) & ~f->summed_axes);
  for (uint32_t k = 0; k < f->count; k++)
    n += iteration_count(f, f->operand_axes[k]);
  return n;
}

bool contraction_order_step(const ContractionOperands *f,
                            ContractionStep *best) {
  uint64_t all_operands = (UINT64_C(1) << f->count) - 1;
  uint64_t all = operand_set_axes(f, all_operands);
  double best_work = iteration_count(f, all) / 2,
         max_elements = 4 * live_elements(f);
  *best = (ContractionStep){0};
  for (uint32_t r = 0; r < f->axis_count; r++) {
    ContractionStep s = {.operands = operands_with_axis(f, r)};
    if (!(f->summed_axes >> r & 1) || s.operands == all_operands || !s.operands)
      continue;
    uint64_t first = operand_set_axes(f, s.operands);
    s.summed_axes = first & f->summed_axes &
                    ~operand_set_axes(f, all_operands & ~s.operands);
    double work =
        iteration_count(f, first) + iteration_count(f, all & ~s.summed_axes);
    if (work > best_work ||
        iteration_count(f, first & ~s.summed_axes) > max_elements)
      continue;
    best_work = work;
    *best = s;
  }
  return best->operands;
}

/* ---- sums in a `for` ---- */

/* A product under a sum.  Its factors are scalars of free indices. */
typedef struct ScalarProduct {
  Node *factors[MAX_CONTRACTION_OPERANDS];
  /* Indices of the axes: own axes of the sum, then free ones. */
  IndexVar *vars[MAX_RANK];
  double extents[MAX_RANK];
  uint64_t factor_axes[MAX_CONTRACTION_OPERANDS];
  uint32_t factor_count, own_axes, axis_count;
} ScalarProduct;

static const BodyOp *body_value(const Node *n) {
  return &n->body_ops[n->body_op_count - 1];
}

static bool is_pending_pointwise(const Node *n) {
  return n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->data &&
         !n->guard;
}

/* Returns the scalar that was closed to x, if each of its indices is an axis of
 * its own. */
static Node *closed_scalar(const Node *x) {
  if (!is_pending_pointwise(x) || body_value(x)->kind != BODY_READ)
    return NULL;
  Node *y = body_value(x)->node;
  uint32_t axes = x->free_count + x->rank;
  return is_pending_pointwise(y) && y->rank == 0 && y->free_count == axes
             ? y
             : NULL;
}

static bool match_vars(ScalarProduct *t, const Node *x, const Node *y) {
  for (uint32_t k = 0; k < y->free_count; k++) {
    const BodyOp *c = &x->body_ops[body_value(x)->args[k]];
    if (c->kind != BODY_AXIS)
      return false;
    bool own = c->axis >= x->free_count;
    if (!own && x->free_vars[c->axis] != y->free_vars[k])
      return false;
    t->vars[own ? c->axis - x->free_count : x->rank + c->axis] =
        y->free_vars[k];
  }
  t->own_axes = x->rank;
  t->axis_count = x->rank + x->free_count;
  for (uint32_t k = 0; k < t->axis_count; k++)
    if (!t->vars[k]) /* one index stands for two axes */
      return false;
  return true;
}

static uint64_t factor_axis_set(const ScalarProduct *t, const Node *n) {
  uint64_t axes = 0;
  for (uint32_t k = 0; k < n->free_count; k++)
    for (uint32_t j = 0; j < t->axis_count; j++)
      axes |= (uint64_t)(t->vars[j] == n->free_vars[k]) << j;
  return axes;
}

/* Returns false if there are too many factors. */
static bool collect_factors(ScalarProduct *t, Node *n) {
  const BodyOp *c =
      is_pending_pointwise(n) && n->rank == 0 ? body_value(n) : NULL;
  bool is_multiply = c && c->kind == BODY_OP && c->op == PRIM_MUL;
  for (uint32_t k = 0; is_multiply && k < 2; k++)
    is_multiply = n->body_ops[c->args[k]].kind == BODY_READ &&
                  n->body_ops[c->args[k]].node->rank == 0;
  if (is_multiply)
    return collect_factors(t, n->body_ops[c->args[0]].node) &&
           collect_factors(t, n->body_ops[c->args[1]].node);
  if (t->factor_count == MAX_CONTRACTION_OPERANDS)
    return false;
  t->factor_axes[t->factor_count] = factor_axis_set(t, n);
  t->factors[t->factor_count++] = n;
  return true;
}

/* The product of some factors, and of `more` unless it is NULL. */
static Node *multiply_factors(Graph *g, const ScalarProduct *t,
                              uint64_t factor_set, Node *extra_factor,
                              Fault *fault) {
  Node *product = extra_factor ? node_retain(extra_factor) : NULL;
  for (uint32_t k = 0; k < t->factor_count; k++) {
    if (!(factor_set >> k & 1))
      continue;
    Node *args[] = {product, t->factors[k]};
    Node *next = product ? node_map(g, PRIM_MUL, 2, args, DT_NONE, fault)
                         : node_retain(t->factors[k]);
    if (product)
      node_release(product);
    if (!(product = next))
      return NULL;
  }
  return product;
}

/* The sum over `summed` of a scalar, as a node with `kept` as own axes.  Takes
 * x, which may be NULL. */
static Node *sum_over(Graph *g, const ScalarProduct *t, uint64_t kept,
                      uint64_t summed, Node *x, Fault *fault) {
  IndexVar *vars[MAX_RANK];
  uint32_t count = 0, kept_count = 0;
  for (uint32_t k = 0; k < t->own_axes; k++)
    if (kept >> k & 1)
      vars[count++] = t->vars[k];
  kept_count = count;
  for (uint32_t k = 0; k < t->own_axes; k++)
    if (summed >> k & 1)
      vars[count++] = t->vars[k];
  Node *closed_product =
      x && count ? node_close(g, x, count, vars, fault) : NULL;
  if (x && !count)
    return x;
  node_release(x);
  if (!closed_product || count == kept_count)
    return closed_product;
  Node *sum = node_reduce(g, PRIM_SUM, closed_product, kept_count,
                          count - kept_count, false, fault);
  node_release(closed_product);
  return sum;
}

static uint64_t bit_range(uint32_t first, uint32_t count) {
  return ((UINT64_C(1) << count) - 1) << first;
}

Node *sum_factorized(Graph *g, const Node *x, uint32_t first, uint32_t count,
                     bool *factorized, Fault *fault) {
  ScalarProduct t = {0};
  Node *y = g->guard ? NULL : closed_scalar(x);
  bool is_half = dtype_is_narrow_float(x->dtype);
  *factorized = false;
  if (!y || is_half || !match_vars(&t, x, y) || !collect_factors(&t, y))
    return NULL;
  for (uint32_t k = 0; k < t.axis_count; k++)
    t.extents[k] = contraction_order_extent(g, t.vars[k]->extent);
  ContractionOperands f = {t.factor_count, t.axis_count, t.extents,
                           t.factor_axes, bit_range(first, count)};
  ContractionStep s;
  if (!contraction_order_step(&f, &s))
    return NULL;
  *factorized = true;
  uint64_t all_operands = bit_range(0, t.factor_count),
           remaining = all_operands & ~s.operands;
  Node *part = multiply_factors(g, &t, s.operands, NULL, fault);
  Node *sum = sum_over(g, &t, 0, s.summed_axes, part, fault);
  Node *product = sum ? multiply_factors(g, &t, remaining, sum, fault) : NULL;
  node_release(sum);
  return sum_over(g, &t, bit_range(0, t.own_axes) & ~f.summed_axes,
                  f.summed_axes & ~s.summed_axes, product, fault);
}

/* ---- sums of 16-bit products ---- */

/* True if n reads the operand like node_map: each axis at its own index. */
static bool is_broadcast_read(const Node *n, const BodyOp *c) {
  const Node *x = c->node;
  for (uint32_t k = 0; c->kind == BODY_READ && k < c->arg_count; k++) {
    const BodyOp *index = &n->body_ops[c->args[k]];
    uint32_t own = n->rank - x->rank + k - x->free_count;
    bool broadcasts =
        k >= x->free_count && node_is_broadcast_axis(x, k - x->free_count);
    if (index->kind != BODY_AXIS ? !broadcasts
        : k < x->free_count      ? index->axis >= n->free_count ||
                                  n->free_vars[index->axis] != x->free_vars[k]
                            : index->axis != n->free_count + own)
      return false;
  }
  return c->kind == BODY_READ;
}

/* True if n is an elementwise product of two nodes. */
static bool is_elementwise_product(const Node *n) {
  const BodyOp *c = is_pending_pointwise(n) ? body_value(n) : NULL;
  return c && c->kind == BODY_OP && c->op == PRIM_MUL &&
         is_broadcast_read(n, &n->body_ops[c->args[0]]) &&
         is_broadcast_read(n, &n->body_ops[c->args[1]]);
}

typedef Node *volatile OwnedNodes[3]; /* released on a trap */

static void release_owned(OwnedNodes owned) {
  for (uint32_t k = 0; k < 3; k++)
    node_release(owned[k]);
}

/* The product n, computed in f32.  It is closed over vars unless this is
 * NULL. */
static Node *widened_product(Graph *g, const Node *n, uint32_t count,
                             IndexVar *const *vars, Fault *fault) {
  OwnedNodes owned = {NULL};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release_owned(owned);
    trap_raise(trap.kind);
  }
  for (uint32_t k = 0; k < 2; k++) {
    Node *factor = n->body_ops[body_value(n)->args[k]].node;
    owned[k] = node_map(g, PRIM_CONVERT, 1, &factor, DT_F32, fault);
  }
  if (owned[0] && owned[1])
    owned[2] = node_map(g, PRIM_MUL, 2, (Node *[]){owned[0], owned[1]}, DT_NONE,
                        fault);
  Node *wide = owned[2];
  if (wide)
    wide = vars ? node_close(g, wide, count, vars, fault) : node_retain(wide);
  trap_end(&trap);
  release_owned(owned);
  return wide;
}

Node *sum_widened(Graph *g, Node *x, Fault *fault) {
  ScalarProduct t = {0};
  if (!dtype_is_narrow_float(x->dtype) || g->guard)
    return x;
  const Node *y = closed_scalar(x);
  if (!is_elementwise_product(y ? y : x) || (y && !match_vars(&t, x, y)))
    return x;
  return widened_product(g, y ? y : x, x->rank, y ? t.vars : NULL, fault);
}
