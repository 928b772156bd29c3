/* The body of the adjoint of a comprehension.
 *
 * For T[i] = sum[r] body with a read U[e(i, r)] whose partial derivative is w,
 *
 *     dU[j] = sum over {(i, r) : e(i, r) = j} of g[i] * w(i, r)
 *
 * where g is the cotangent of T.  The axes i and r are computed from j by the
 * inversion of e (invert.c).  So the adjoint of a matrix product, convolution,
 * slice or window is a comprehension, which gathers.
 *
 * The body of T is copied with other axes, and differentiated backwards: each
 * op on the way from the read to the value gets an adjoint.
 *
 * The condition of the inversion is put around reads, and not around the
 * product: `w * (if inside then g[...] else 0)` is one kernel. */
#include "tensor/adjoint_body.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "tensor/derive.h"

#include <math.h>
#include <string.h>

/* ---- copies of the body of n ---- */

static bool is_bounded(const AdjointBody *a, uint32_t k) {
  const BodyOp *c = &a->n->body_ops[k];
  if (c->kind == BODY_AXIS)
    return a->x.vars[c->axis].is_bounded;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (is_bounded(a, c->args[j]))
      return true;
  return false;
}

uint32_t adjoint_body_zero(AdjointBody *a, Dtype dtype) {
  return body_const(&a->b, (Scalar){.dtype = dtype});
}

/* `value`, or 0 if the element does not exist. */
static uint32_t guarded(AdjointBody *a, uint32_t value) {
  if (a->condition == NO_OP)
    return value;
  return body_select(&a->b, a->condition, value,
                     adjoint_body_zero(a, a->b.ops[value].dtype));
}

static uint32_t read_at(AdjointBody *a, Node *x, const uint32_t *args,
                        bool is_safe) {
  IndexBinding bindings[MAX_RANK];
  for (uint32_t k = 0; k < x->free_count; k++)
    bindings[k] = (IndexBinding){x->free_vars[k], args[k]};
  uint32_t read = body_read_with_bindings(&a->b, x, args + x->free_count,
                                          x->free_count, bindings);
  if (a->b.ops[read].kind == BODY_READ)
    a->b.ops[read].proved_safe = is_safe;
  return read;
}

static uint32_t copy_read(AdjointBody *a, uint32_t k) {
  const BodyOp *c = &a->n->body_ops[k];
  uint32_t args[2 * MAX_RANK];
  for (uint32_t j = 0; j < c->arg_count; j++)
    args[j] = adjoint_body_copy(a, c->args[j]);
  bool is_safe = c->proved_safe || a->n->speculatable;
  uint32_t read = read_at(a, c->node, args, is_safe);
  if (!a->guards_all && !is_bounded(a, k))
    return read;
  a->has_guarded |= dtype_is_float(c->dtype);
  return guarded(a, read);
}

static uint32_t copy_plain_op(AdjointBody *a, const BodyOp *c) {
  uint32_t args[3];
  for (uint32_t j = 0; j < c->arg_count; j++)
    args[j] = adjoint_body_copy(a, c->args[j]);
  if (c->kind == BODY_CONVERT)
    return body_convert(&a->b, args[0], c->dtype);
  if (c->kind == BODY_SELECT)
    return body_select(&a->b, args[0], args[1], args[2]);
  if (c->kind == BODY_RANDOM)
    return body_random(&a->b, c->op, c->key, c->dtype, args[0]);
  uint32_t op = body_op(&a->b, c->op, c->dtype, c->arg_count, args);
  a->b.ops[op].proved_safe = c->proved_safe || a->n->speculatable;
  return op;
}

uint32_t adjoint_body_copy(AdjointBody *a, uint32_t k) {
  const BodyOp *c = &a->n->body_ops[k];
  if (a->copies[k] != NO_OP)
    return a->copies[k];
  uint32_t copy;
  if (c->kind == BODY_CONST)
    copy = body_const(&a->b, c->value);
  else if (c->kind == BODY_EXTENT)
    copy = body_int(&a->b, c->extent);
  else if (c->kind == BODY_AXIS)
    copy = a->x.vars[c->axis].value;
  else if (c->kind == BODY_READ)
    copy = copy_read(a, k);
  else
    copy = copy_plain_op(a, c);
  return a->copies[k] = copy;
}

/* ---- the cotangent ---- */

uint32_t adjoint_body_read_like(AdjointBody *a, Node *x) {
  const Node *n = a->n;
  uint32_t args[2 * MAX_RANK];
  for (uint32_t k = 0; k < x->free_count; k++) {
    uint32_t axis = 0;
    while (axis < n->free_count && n->free_vars[axis] != x->free_vars[k])
      axis++;
    args[k] = axis < n->free_count
                  ? a->x.vars[axis].value
                  : body_free_axis(
                        &a->b, node_spec_free_axis(&a->spec, x->free_vars[k]));
  }
  for (uint32_t k = 0; k < x->rank; k++)
    args[x->free_count + k] = a->x.vars[n->free_count + k].value;
  return guarded(a, read_at(a, x, args, true));
}

void adjoint_body_forget_copies(AdjointBody *a) {
  for (uint32_t k = 0; k < a->n->body_op_count; k++)
    a->copies[k] = NO_OP;
}

uint32_t adjoint_body_free_axis(AdjointBody *a, const Node *x, uint32_t k) {
  return body_free_axis(&a->b, node_spec_free_axis(&a->spec, x->free_vars[k]));
}

/* True if the primitive gives an infinity or NaN for an argument of 0, and for
 * a second one of -1, 0 or 1. */
static bool prim_is_undefined_at_zero(PrimId op) {
  uint32_t arity = map_info[op].arity;
  for (uint32_t k = 0; arity <= 2 && k < arity; k++)
    for (int other = -1; other <= 1; other++) {
      Scalar args[2] = {{.dtype = DT_F64}, {.dtype = DT_F64}}, value;
      args[1 - k].f = other;
      scalar_apply(op, arity, args, DT_F64, &value);
      if (!isfinite(value.f))
        return true;
    }
  return false;
}

/* True if the body may compute an infinity or NaN where reads are replaced by
 * 0, because the element does not exist. */
static bool is_undefined_at_zero(const Node *n) {
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_OP && dtype_is_float(c->dtype) &&
        prim_is_undefined_at_zero(c->op))
      return true;
  }
  return false;
}

bool adjoint_reduces_product(PrimId reduce) {
  return reduce_info[reduce].combine == PRIM_MUL;
}

/* ---- sums of sums ---- */

/* True if n only moves elements, and its cotangent is a sum that nothing else
 * reads.  Then the contribution is one sum over all axes.  Each element of the
 * cotangent is read once, so nothing is computed twice. */
static bool merges_sums(const AdjointBody *a) {
  const Node *n = a->n, *g = a->g;
  return n->reduce == PRIM_NONE && g->kind == NODE_COMP && !g->data &&
         g->reduce == PRIM_SUM && !g->guard && !g->own_body &&
         !is_undefined_at_zero(g) && g->dtype == n->dtype &&
         n->body_ops[n->body_op_count - 1].kind == BODY_READ &&
         a->spec.free_count + a->spec.rank + a->spec.reduce_count +
                 g->reduce_count <=
             MAX_RANK;
}

/* The terms of the cotangent's sum, over new summed axes. */
static uint32_t cotangent_terms(AdjointBody *a) {
  Node *n = a->n, *g = a->g;
  uint32_t *outer_copies = a->copies;
  Inversion outer = a->x;
  a->copies = NEW_ARRAY(a->pass->arena, uint32_t, g->body_op_count);
  a->n = g;
  adjoint_body_forget_copies(a);
  for (uint32_t k = 0; k < g->free_count; k++) {
    uint32_t axis = 0;
    while (axis < n->free_count && n->free_vars[axis] != g->free_vars[k])
      axis++;
    a->x.vars[k] = axis < n->free_count
                       ? outer.vars[axis]
                       : (InvertVar){.value = adjoint_body_free_axis(a, g, k)};
  }
  for (uint32_t k = 0; k < g->rank; k++)
    a->x.vars[g->free_count + k] = outer.vars[n->free_count + k];
  for (uint32_t k = 0; k < g->reduce_count; k++) {
    uint32_t axis = a->spec.reduce_count++;
    a->spec.reduced_extents[axis] = g->extents[g->free_count + g->rank + k];
    a->x.vars[g->free_count + g->rank + k] =
        (InvertVar){.value = body_reduced_axis(&a->b, axis)};
  }
  a->has_guarded = false;
  uint32_t value = adjoint_body_copy(a, g->body_op_count - 1);
  if (!a->has_guarded)
    value = guarded(a, value);
  a->n = n;
  a->copies = outer_copies;
  a->x = outer;
  return value;
}

/* Of each term of the reduction. */
static uint32_t cotangent_of_terms(AdjointBody *a) {
  BodyBuilder *b = &a->b;
  Dtype t = a->n->dtype;
  uint32_t value = a->n->body_op_count - 1;
  if (merges_sums(a))
    return cotangent_terms(a);
  uint32_t g = adjoint_body_read_like(a, a->g);
  if (prim_is_extreme(a->n->reduce)) {
    uint32_t count = adjoint_body_read_like(a, a->count);
    if (a->condition != NO_OP) { /* 0 / 0 is NaN */
      uint32_t one = body_const(b, (Scalar){.dtype = t, .f = 1});
      count = body_select(b, a->condition, count, one);
    }
    uint32_t share = body_op2(b, PRIM_DIV, t, g, count);
    uint32_t is_best =
        body_op2(b, PRIM_EQ, DT_BOOL, adjoint_body_copy(a, value),
                 adjoint_body_read_like(a, a->n));
    return body_op(b, PRIM_SELECT, t, 3,
                   (uint32_t[]){is_best, share, adjoint_body_zero(a, t)});
  }
  if (!adjoint_reduces_product(a->n->reduce))
    return g;
  /* Without zeros, the product of the other terms is the product over x.  With
   * one zero, only its own is not zero. */
  uint32_t x = adjoint_body_copy(a, value),
           zeros = adjoint_body_read_like(a, a->count);
  uint32_t product = adjoint_body_read_like(a, a->product),
           zero = adjoint_body_zero(a, t);
  Scalar one = {.dtype = t, .f = 1};
  uint32_t is_zero = body_op2(b, PRIM_EQ, DT_BOOL, x, zero);
  uint32_t divisor = body_op(b, PRIM_SELECT, t, 3,
                             (uint32_t[]){is_zero, body_const(b, one), x});
  uint32_t own = body_op(b, PRIM_SELECT, t, 3,
                         (uint32_t[]){is_zero, body_const(b, one), zero});
  uint32_t is_only = body_op2(b, PRIM_EQ, DT_BOOL, zeros, own);
  uint32_t others = body_op2(b, PRIM_DIV, t, product, divisor);
  others = body_op(b, PRIM_SELECT, t, 3, (uint32_t[]){is_only, others, zero});
  return body_op2(b, PRIM_MUL, t, g, others);
}

/* ---- reverse accumulation in the body ---- */

#define RULE_PARTIALS(id) [PRIM_##id] = derive_##id,
#define RULE_LINEAR(id)
#define RULE_CUSTOM(id)
#define RULE_RULE(id)
#define RULE_ZERO(id)
static uint32_t (*const partials[PRIM_COUNT])(const Derive *) = {
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  RULE_##derivative(id)
#include "primitives/primitives.def"
#undef P
};

static uint32_t partial_operand(void *owner, uint32_t k) {
  AdjointBody *a = owner;
  return adjoint_body_copy(a, a->n->body_ops[a->op].args[k]);
}

/* The node itself may have been stored. */
static uint32_t partial_result(void *owner) {
  AdjointBody *a = owner;
  bool is_value = a->op == a->n->body_op_count - 1;
  return is_value && a->n->reduce == PRIM_NONE &&
                 a->n->body_ops[a->op].dtype == a->n->dtype
             ? adjoint_body_read_like(a, a->result)
             : adjoint_body_copy(a, a->op);
}

/* ---- factors that may be infinite or NaN ---- */

enum { MAX_MOVES = 8 }; /* nodes that is_spread looks through */

/* True if finite arguments give finite results, almost always.  If an operation
 * is missing here, its product is absorbed without need, which costs time. */
static bool is_bounded_function(PrimId op) {
  static const PrimId bounded[] = {
      PRIM_ADD,  PRIM_SUB,  PRIM_MUL,   PRIM_NEG,   PRIM_ABS,   PRIM_MAXIMUM,
      PRIM_SIN,  PRIM_COS,  PRIM_ERF,   PRIM_TANH,  PRIM_FLOOR, PRIM_MINIMUM,
      PRIM_CEIL, PRIM_SIGN, PRIM_ROUND, PRIM_TRUNC, PRIM_SELECT};
  for (uint32_t k = 0; k < ARRAY_LEN(bounded); k++)
    if (bounded[k] == op)
      return true;
  return false;
}

/* True if an op of n's body is surely finite: it depends on no data. */
static bool is_finite(const Node *n, uint32_t op, uint32_t *visited) {
  const BodyOp *c = &n->body_ops[op];
  if (!dtype_is_float(c->dtype) || c->kind == BODY_RANDOM)
    return true;
  if (++*visited > MAX_FACTOR_OPS)
    return false;
  if (c->kind == BODY_CONST)
    return isfinite(c->value.f);
  if (c->kind == BODY_READ) {
    const Node *x = c->node;
    return x->kind == NODE_COMP && x->reduce == PRIM_NONE && !x->own_body &&
           x->body_op_count && is_finite(x, x->body_op_count - 1, visited);
  }
  if (c->kind == BODY_OP && !is_bounded_function(c->op))
    return false;
  for (uint32_t k = 0; k < c->arg_count; k++)
    if (!is_finite(n, c->args[k], visited))
      return false;
  return true;
}

/* True if the cotangent is constant along an axis, as that of the terms of a
 * sum. */
static bool is_spread(const Node *g) {
  for (uint32_t k = 0; k < MAX_MOVES; k++) {
    if (g->kind != NODE_COMP || g->reduce != PRIM_NONE || g->own_body ||
        !g->body_op_count)
      return false;
    const BodyOp *c = &g->body_ops[g->body_op_count - 1];
    if (c->kind == BODY_CONST)
      return true;
    if (c->kind != BODY_READ)
      return false;
    if (c->arg_count < g->free_count + g->rank)
      return true;
    g = c->node;
  }
  return false;
}

/* True if the partial of a product must be absorbed by a cotangent of 0.  Terms
 * of sums are left out: sums of products stay matrix products. */
static bool absorbs_factor(const AdjointBody *a, const BodyOp *c, uint32_t j) {
  uint32_t visited = 0;
  return c->op == PRIM_MUL && a->n->reduce == PRIM_NONE && !is_spread(a->g) &&
         !is_finite(a->n, c->args[1 - j], &visited);
}

static void accumulate(AdjointBody *a, uint32_t op, uint32_t value) {
  uint32_t sum = a->adjoints[op];
  a->adjoints[op] = sum == NO_OP ? value
                                 : body_op2(&a->b, PRIM_ADD,
                                            a->b.ops[value].dtype, sum, value);
}

static void adjoint_of_op(AdjointBody *a, uint32_t k) {
  const BodyOp *c = &a->n->body_ops[k];
  uint32_t ct = a->adjoints[k];
  for (uint32_t j = 0; j < c->arg_count; j++) {
    uint32_t arg = c->args[j];
    Dtype t = a->n->body_ops[arg].dtype;
    if (!a->on_path[arg] || !dtype_is_float(t) || !dtype_is_float(c->dtype))
      continue;
    if (c->kind == BODY_CONVERT) {
      accumulate(a, arg, body_convert(&a->b, ct, t));
    } else if (c->kind == BODY_SELECT) {
      uint32_t zero = adjoint_body_zero(a, t),
               test = adjoint_body_copy(a, c->args[0]);
      accumulate(
          a, arg,
          body_select(&a->b, test, j == 1 ? ct : zero, j == 1 ? zero : ct));
    } else if (c->kind == BODY_OP && partials[c->op]) {
      Derive d = {
          &a->b,           c->dtype,      ct, j, absorbs_factor(a, c, j), a,
          partial_operand, partial_result};
      a->op = k;
      accumulate(a, arg, partials[c->op](&d));
    }
  }
}

static void mark_path(AdjointBody *a, uint32_t read) {
  for (uint32_t k = 0; k < a->n->body_op_count; k++) {
    const BodyOp *c = &a->n->body_ops[k];
    a->on_path[k] = k == read;
    for (uint32_t j = 0; c->kind != BODY_READ && j < c->arg_count; j++)
      a->on_path[k] |= a->on_path[c->args[j]];
  }
}

bool adjoint_body_build(AdjointBody *a, uint32_t read) {
  uint32_t last = a->n->body_op_count - 1;
  mark_path(a, read);
  if (!a->on_path[last])
    return false;
  for (uint32_t k = 0; k <= last; k++)
    a->adjoints[k] = NO_OP;
  a->adjoints[last] =
      body_convert(&a->b, cotangent_of_terms(a), a->n->body_ops[last].dtype);
  for (uint32_t k = last; k > read; k--)
    if (a->on_path[k] && a->adjoints[k] != NO_OP)
      adjoint_of_op(a, k);
  uint32_t value = a->adjoints[read];
  if (value == NO_OP)
    return false;
  if (is_undefined_at_zero(a->n))
    value = guarded(a, value);
  /* Sums of 16-bit floats are accumulated in f32, and rounded once. */
  const BodyOp *c = &a->b.ops[value];
  if (a->spec.reduce_count && c->kind == BODY_CONVERT &&
      (dtype_is_narrow_float(c->dtype)))
    value = c->args[0];
  body_set_result(&a->b, value);
  return true;
}
