/* Adjoints of comprehensions.
 *
 * For T[i] = sum[r] body with a read U[e(i, r)] whose partial derivative is w,
 *
 *     dU[j] = sum over {(i, r) : e(i, r) = j} of g[i] * w(i, r)
 *
 * where g is the cotangent of T.  The axes i and r are computed from j by the
 * inversion of e (invert.c).  So the adjoint of a matrix product, convolution,
 * slice or window is a comprehension, which gathers.
 *
 * The condition of the inversion is put around reads, and not around the
 * product: `w * (if inside then g[...] else 0)` is one kernel.
 *
 * If an index depends on data at summed axes, as in the lookup of an embedding,
 * the adjoint is a deterministic scatter. */
#include "tensor/adjoint.h"
#include "support/arena.h"
#include "support/trap.h"
#include "tensor/derive.h"
#include "tensor/invert.h"

#include <string.h>

#define NO_OP UINT32_MAX

/* The body of one contribution. */
typedef struct AdjointBody {
  ReversePass *pass;
  Node *n, *g;
  /* MAX, MIN: the number of elements that are the extreme.  PROD: the number of
   * zeros, and the product of the others.  Otherwise NULL. */
  Node *count, *product;
  NodeSpec spec;
  BodyBuilder b;
  Inversion x;
  uint32_t condition;          /* under which the element exists, or NO_OP */
  bool guards_all;             /* all reads need the condition */
  bool has_guarded;            /* a read has the condition */
  uint32_t *copies, *adjoints; /* by op of n's body; NO_OP: none */
  uint8_t *on_path;            /* by op: it depends on the read */
  uint32_t op;                 /* whose partial is being built */
} AdjointBody;

/* ---- copies of the body of n ---- */

static uint32_t copy_op(AdjointBody *a, uint32_t k);

static bool is_bounded(const AdjointBody *a, uint32_t k) {
  const BodyOp *c = &a->n->body_ops[k];
  if (c->kind == BODY_AXIS)
    return a->x.vars[c->axis].is_bounded;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (is_bounded(a, c->args[j]))
      return true;
  return false;
}

static uint32_t zero_of(AdjointBody *a, Dtype dtype) {
  return body_const(&a->b, (Scalar){.dtype = dtype});
}

/* `value`, or 0 if the element does not exist. */
static uint32_t guarded(AdjointBody *a, uint32_t value) {
  if (a->condition == NO_OP)
    return value;
  return body_select(&a->b, a->condition, value,
                     zero_of(a, a->b.ops[value].dtype));
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
    args[j] = copy_op(a, c->args[j]);
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
    args[j] = copy_op(a, c->args[j]);
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

static uint32_t copy_op(AdjointBody *a, uint32_t k) {
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

/* Reads x, which has the axes of n, or fewer free ones. */
static uint32_t read_like_n(AdjointBody *a, Node *x) {
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

static void forget_copies(AdjointBody *a) {
  for (uint32_t k = 0; k < a->n->body_op_count; k++)
    a->copies[k] = NO_OP;
}

/* The axis of the new body that is free axis k of x. */
static uint32_t free_axis_of(AdjointBody *a, const Node *x, uint32_t k) {
  return body_free_axis(&a->b, node_spec_free_axis(&a->spec, x->free_vars[k]));
}

/* True if the body may compute an infinity or NaN where reads are replaced by
 * 0, because the element does not exist. */
static bool is_undefined_at_zero(const Node *n) {
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_OP && dtype_is_float(c->dtype) &&
        (c->op == PRIM_DIV || c->op == PRIM_MOD || c->op == PRIM_POW ||
         c->op == PRIM_LOG || c->op == PRIM_RSQRT))
      return true;
  }
  return false;
}

static bool is_product(PrimId reduce) {
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
  forget_copies(a);
  for (uint32_t k = 0; k < g->free_count; k++) {
    uint32_t axis = 0;
    while (axis < n->free_count && n->free_vars[axis] != g->free_vars[k])
      axis++;
    a->x.vars[k] = axis < n->free_count
                       ? outer.vars[axis]
                       : (InvertVar){.value = free_axis_of(a, g, k)};
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
  uint32_t value = copy_op(a, g->body_op_count - 1);
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
  uint32_t g = read_like_n(a, a->g);
  if (prim_is_extreme(a->n->reduce)) {
    uint32_t count = read_like_n(a, a->count);
    if (a->condition != NO_OP) { /* 0 / 0 is NaN */
      uint32_t one = body_const(b, (Scalar){.dtype = t, .f = 1});
      count = body_select(b, a->condition, count, one);
    }
    uint32_t share = body_op2(b, PRIM_DIV, t, g, count);
    uint32_t is_best =
        body_op2(b, PRIM_EQ, DT_BOOL, copy_op(a, value), read_like_n(a, a->n));
    return body_op(b, PRIM_SELECT, t, 3,
                   (uint32_t[]){is_best, share, zero_of(a, t)});
  }
  if (!is_product(a->n->reduce))
    return g;
  /* Without zeros, the product of the other terms is the product over x.  With
   * one zero, only its own is not zero. */
  uint32_t x = copy_op(a, value), zeros = read_like_n(a, a->count);
  uint32_t product = read_like_n(a, a->product), zero = zero_of(a, t);
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
  return copy_op(a, a->n->body_ops[a->op].args[k]);
}

/* The node itself may have been stored. */
static uint32_t partial_result(void *owner) {
  AdjointBody *a = owner;
  bool is_value = a->op == a->n->body_op_count - 1;
  return is_value && a->n->reduce == PRIM_NONE &&
                 a->n->body_ops[a->op].dtype == a->n->dtype
             ? read_like_n(a, a->n)
             : copy_op(a, a->op);
}

/* ---- factors that may be infinite or NaN ---- */

enum { MAX_FACTOR_OPS = 16, MAX_MOVES = 8 }; /* what the searches visit */

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
    return c->value.f - c->value.f == 0;
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
      uint32_t zero = zero_of(a, t), test = copy_op(a, c->args[0]);
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

/* Makes an op the value of the body: the last op. */
static void set_value(AdjointBody *a, uint32_t op) {
  BodyBuilder *b = &a->b;
  if (op == b->op_count - 1)
    return;
  const BodyOp *c = &b->ops[op];
  Dtype t = c->dtype;
  uint32_t test = body_const(b, (Scalar){.dtype = DT_BOOL, .i = 1});
  body_op(b, PRIM_SELECT, t, 3, (uint32_t[]){test, op, op});
}

/* Builds the cotangent of the read.  Returns false if it is zero. */
static bool build_value(AdjointBody *a, uint32_t read) {
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
      (c->dtype == DT_F16 || c->dtype == DT_BF16))
    value = c->args[0];
  set_value(a, value);
  return true;
}

/* ---- gathering contributions ---- */

static void spec_like(NodeSpec *spec, const Node *x) {
  *spec = (NodeSpec){
      .dtype = x->dtype, .rank = x->rank, .broadcast_mask = x->broadcast_mask};
  memcpy(spec->own_extents, x->extents + x->free_count,
         x->rank * sizeof *spec->own_extents);
  for (uint32_t k = 0; k < x->free_count; k++)
    node_spec_add_free(spec, x->free_vars[k]);
}

static bool has_free(const Node *x, const IndexVar *v) {
  for (uint32_t k = 0; k < x->free_count; k++)
    if (x->free_vars[k] == v)
      return true;
  return false;
}

/* True if free axis k of n is also a free axis of the contribution to x, which
 * does not have it. */
static bool keeps_axis(const AdjointBody *a, const Node *x, uint32_t k) {
  return reverse_is_enclosing(a->pass, a->n->free_vars[k]) &&
         !has_free(x, a->n->free_vars[k]);
}

/* The spec of a contribution to x.  It also has the free indices of the
 * cotangent that n does not have, as in a loop around a pullback, and those of
 * n that the call of vjp is inside of. */
static void contribution_spec(AdjointBody *a, const Node *x) {
  const Node *g = a->g, *n = a->n;
  spec_like(&a->spec, x);
  for (uint32_t k = 0; k < g->free_count; k++)
    if (!has_free(n, g->free_vars[k]) && a->spec.free_count < MAX_RANK)
      node_spec_add_free(&a->spec, g->free_vars[k]);
  for (uint32_t k = 0; k < n->free_count; k++)
    if (keeps_axis(a, x, k) && a->spec.free_count < MAX_RANK)
      node_spec_add_free(&a->spec, n->free_vars[k]);
}

static void require(AdjointBody *a, uint32_t condition) {
  a->condition = a->condition == NO_OP ? condition
                                       : body_op2(&a->b, PRIM_AND, DT_BOOL,
                                                  a->condition, condition);
}

/* The guard of n is true at the element. */
static void require_guard(AdjointBody *a) {
  if (!a->n->guard)
    return;
  require(a, read_like_n(a, a->n->guard));
  a->guards_all = true;
}

static void require_data_indices(AdjointBody *a) {
  BodyBuilder *b = &a->b;
  for (uint32_t k = 0; k < a->x.data_count; k++) {
    uint32_t index = body_convert(b, copy_op(a, a->x.data_ops[k]), DT_I64);
    uint32_t condition =
        body_op2(b, PRIM_EQ, DT_BOOL, index, a->x.data_targets[k]);
    require(a, condition);
  }
}

/* The elements of an own axis with one remainder modulo a stride. */
typedef struct Residues {
  int64_t strides[MAX_RANK]; /* 1: all elements */
  int64_t residues[MAX_RANK];
} Residues;

/* The index of element q of the axis among those with its residue. */
static uint32_t residue_target(AdjointBody *a, const Residues *r, uint32_t k) {
  uint32_t axis = body_own_axis(&a->b, k);
  return r ? body_add_int(&a->b, body_mul_int(&a->b, axis, r->strides[k]),
                          r->residues[k])
           : axis;
}

/* Restricts the own axes to the residues. */
static void restrict_spec(AdjointBody *a, const Residues *r) {
  Graph *g = a->pass->graph;
  for (uint32_t k = 0; r && k < a->spec.rank; k++)
    if (r->strides[k] > 1) {
      int64_t *extent = &a->spec.own_extents[k];
      int64_t rest = extent_sub_saturating(g, *extent, r->residues[k]);
      if (!extent_ceil_div(g, rest, r->strides[k], extent))
        *extent = INT64_MAX; /* too large: materialization will fail */
    }
}

/* Returns NULL, with *is_zero set, if there is no contribution; NULL alone if
 * the read cannot be inverted.  r: only these elements, unless it is NULL. */
static Node *gathered(AdjointBody *a, uint32_t read, const Residues *r,
                      bool *is_zero, bool *inverted) {
  const BodyOp *c = &a->n->body_ops[read];
  Graph *g = a->pass->graph;
  uint32_t targets[2 * MAX_RANK];
  contribution_spec(a, c->node);
  restrict_spec(a, r);
  body_init(&a->b, g, &a->spec);
  for (uint32_t k = 0; k < c->arg_count; k++)
    targets[k] = k < c->node->free_count
                     ? free_axis_of(a, c->node, k)
                     : residue_target(a, r, k - c->node->free_count);
  a->x.b = &a->b, a->x.spec = &a->spec, a->x.n = a->n;
  forget_copies(a);
  for (uint32_t k = 0; k < a->n->free_count; k++)
    a->x.kept_axes[k] =
        keeps_axis(a, c->node, k) ? free_axis_of(a, a->n, k) : NO_OP;
  *inverted = invert_read(&a->x, c, targets) && !a->x.data_is_summed;
  if (!*inverted) {
    body_drop(&a->b);
    return NULL;
  }
  a->condition = a->x.condition;
  a->guards_all = false;
  require_guard(a);
  require_data_indices(a);
  *is_zero = !build_value(a, read);
  if (*is_zero) {
    body_drop(&a->b);
    return NULL;
  }
  a->spec.reduce = a->spec.reduce_count ? PRIM_SUM : PRIM_NONE;
  return body_finish(&a->b, g, a->pass->fault);
}

/* ---- scattering contributions ---- */

typedef struct ScatterPlan {
  uint32_t suffix; /* trailing own axes of U that are plain axes of n */
  uint32_t row_axes[MAX_RANK], row_axis_count; /* the other axes of n */
  uint32_t suffix_axes[MAX_RANK];              /* by position */
  bool used[2 * MAX_RANK]; /* axes of n, by free axes of U */
  /* Free axes of U that are read at a computed index: the scatter treats them
   * as leading own axes. */
  uint32_t leading[MAX_RANK], leading_count;
} ScatterPlan;

static bool op_uses_axis(const Node *n, uint32_t op, uint32_t axis) {
  const BodyOp *c = &n->body_ops[op];
  if (c->kind == BODY_AXIS)
    return c->axis == axis;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (op_uses_axis(n, c->args[j], axis))
      return true;
  return false;
}

static bool is_plain_suffix(const Node *n, const BodyOp *read, uint32_t k) {
  const BodyOp *index = &n->body_ops[read->args[k]];
  if (index->kind != BODY_AXIS ||
      n->extents[index->axis] != read->node->extents[k])
    return false;
  for (uint32_t j = 0; j < read->arg_count; j++)
    if (j != k && op_uses_axis(n, read->args[j], index->axis))
      return false;
  return true;
}

static bool plan_scatter(const AdjointBody *a, const BodyOp *read,
                         ScatterPlan *s) {
  const Node *n = a->n, *u = read->node;
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  *s = (ScatterPlan){.suffix = 0};
  for (uint32_t k = 0; k < u->free_count; k++) {
    const BodyOp *index = &n->body_ops[read->args[k]];
    if (index->kind != BODY_AXIS || s->used[index->axis])
      s->leading[s->leading_count++] = k;
    else
      s->used[index->axis] = true;
  }
  for (uint32_t k = 0; k < n->free_count; k++)
    s->used[k] |= keeps_axis(a, u, k);
  while (s->suffix < u->rank &&
         is_plain_suffix(n, read, read->arg_count - 1 - s->suffix))
    s->suffix++;
  for (uint32_t k = 0; k < s->suffix; k++) {
    uint32_t arg = read->args[read->arg_count - s->suffix + k];
    s->suffix_axes[k] = n->body_ops[arg].axis;
    s->used[s->suffix_axes[k]] = true;
  }
  for (uint32_t k = 0; k < axes; k++)
    if (!s->used[k])
      s->row_axes[s->row_axis_count++] = k;
  return s->row_axis_count + s->suffix + u->free_count + n->free_count <=
             MAX_RANK &&
         u->free_count + u->rank <= MAX_RANK;
}

static bool is_leading(const ScatterPlan *s, uint32_t k) {
  for (uint32_t j = 0; j < s->leading_count; j++)
    if (s->leading[j] == k)
      return true;
  return false;
}

static void remove_free(NodeSpec *spec, const IndexVar *v) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < spec->free_count; k++)
    if (spec->free_vars[k] != v)
      spec->free_vars[count++] = spec->free_vars[k];
  spec->free_count = count;
}

/* Begins a body over the rows, and the suffix unless it is left out. */
static void begin_rows(AdjointBody *a, const BodyOp *read, const ScatterPlan *s,
                       bool with_suffix, Dtype dtype) {
  const Node *n = a->n, *u = read->node;
  contribution_spec(a, u);
  for (uint32_t k = 0; k < s->leading_count; k++)
    remove_free(&a->spec, u->free_vars[s->leading[k]]);
  a->spec.dtype = dtype;
  a->spec.broadcast_mask = 0;
  a->spec.rank = s->row_axis_count + (with_suffix ? s->suffix : 0);
  for (uint32_t k = 0; k < a->spec.rank; k++)
    a->spec.own_extents[k] =
        n->extents[k < s->row_axis_count
                       ? s->row_axes[k]
                       : s->suffix_axes[k - s->row_axis_count]];
  body_init(&a->b, a->pass->graph, &a->spec);
  a->x.b = &a->b, a->x.spec = &a->spec, a->x.n = n;
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  for (uint32_t k = 0; k < axes; k++)
    a->x.vars[k] = (InvertVar){.extent = n->extents[k], .value = NO_OP};
  for (uint32_t k = 0; k < u->free_count; k++)
    if (!is_leading(s, k))
      a->x.vars[n->body_ops[read->args[k]].axis].value = free_axis_of(a, u, k);
  for (uint32_t k = 0; k < n->free_count; k++)
    if (keeps_axis(a, u, k))
      a->x.vars[k].value = free_axis_of(a, n, k);
  for (uint32_t k = 0; k < a->spec.rank; k++)
    a->x.vars[k < s->row_axis_count ? s->row_axes[k]
                                    : s->suffix_axes[k - s->row_axis_count]]
        .value = body_own_axis(&a->b, k);
  forget_copies(a);
  a->condition = NO_OP;
  a->guards_all = false;
  require_guard(a);
}

/* flat * extent + index */
static uint32_t flattened(AdjointBody *a, uint32_t flat, uint32_t index,
                          int64_t extent) {
  BodyBuilder *b = &a->b;
  index = body_convert(b, index, DT_I64);
  return flat == NO_OP ? index
                       : body_op2(b, PRIM_ADD, DT_I64,
                                  body_mul_int(b, flat, extent), index);
}

/* True if some elements of n may not read: then the index may be anywhere, and
 * the row is 0. */
static bool reads_conditionally(const Node *n) {
  bool has_select = n->guard;
  for (uint32_t k = 0; k < n->body_op_count; k++)
    has_select |= n->body_ops[k].kind == BODY_SELECT;
  return has_select;
}

/* The index, or 0 if it is not one of `rows` rows. */
static uint32_t bounded_row(AdjointBody *a, uint32_t index, int64_t rows) {
  BodyBuilder *b = &a->b;
  uint32_t zero = body_int(b, 0);
  uint32_t above = body_op2(b, PRIM_GE, DT_BOOL, index, zero);
  uint32_t below = body_op2(b, PRIM_LT, DT_BOOL, index, body_int(b, rows));
  return body_select(b, body_op2(b, PRIM_AND, DT_BOOL, above, below), index,
                     zero);
}

/* The row number in U: its axes before the suffix, flattened. */
static Node *scatter_index(AdjointBody *a, const BodyOp *read,
                           const ScatterPlan *s, int64_t row_count) {
  const Node *u = read->node;
  BodyBuilder *b = &a->b;
  begin_rows(a, read, s, false, DT_I64);
  uint32_t flat = NO_OP;
  for (uint32_t k = 0; k < u->free_count; k++)
    if (is_leading(s, k))
      flat = flattened(a, flat, copy_op(a, read->args[k]), u->extents[k]);
  for (uint32_t k = u->free_count; k + s->suffix < read->arg_count; k++)
    flat = flattened(a, flat, copy_op(a, read->args[k]), u->extents[k]);
  if (flat == NO_OP)
    flat = body_int(b, 0);
  else if (reads_conditionally(a->n))
    flat = bounded_row(a, flat, row_count);
  set_value(a, flat);
  return body_finish(b, a->pass->graph, a->pass->fault);
}

/* x.[i, j, ...]: the leading axes of a scatter become free axes again. */
static Node *free_leading(AdjointBody *a, const Node *u, const ScatterPlan *s,
                          Node *x) {
  ReversePass *p = a->pass;
  Subscript subscripts[2 * MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    subscripts[k] = (Subscript){.kind = SUBSCRIPT_SLICE,
                                .stop = x->extents[x->free_count + k]};
  for (uint32_t k = 0; k < s->leading_count; k++)
    subscripts[k] =
        (Subscript){.kind = SUBSCRIPT_INDEX,
                    .index = reverse_own(
                        p, node_index(p->graph, u->free_vars[s->leading[k]]))};
  return node_subscript(p->graph, x, x->rank, subscripts, p->fault);
}

static Node *scatter_rows(AdjointBody *a, const BodyOp *read,
                          const ScatterPlan *s, int64_t row_count, Node *index,
                          Node *rows) {
  ReversePass *p = a->pass;
  Graph *g = p->graph;
  Node *u = read->node;
  const int64_t *own = u->extents + u->free_count;
  int64_t shape[MAX_RANK], count;
  if (!extent_product(g, index->rank, index->extents + index->free_count,
                      &count))
    return NULL;
  Node *flat =
      reverse_own(p, node_reshape(g, index, 1, &(int64_t){count}, 0, p->fault));
  shape[0] = count;
  memcpy(shape + 1, own + u->rank - s->suffix, s->suffix * sizeof *shape);
  Node *y =
      reverse_own(p, node_reshape(g, rows, 1 + s->suffix, shape, 0, p->fault));
  shape[0] = row_count;
  Node *zeros = reverse_own(p, node_full(g, (Scalar){.dtype = u->dtype},
                                         1 + s->suffix, shape, 0, p->fault));
  if (!flat || !y || !zeros)
    return NULL;
  Node *inputs[3] = {zeros, flat, y};
  Node *sum =
      reverse_own(p, node_opaque(g, PRIM_SCATTER, 3, inputs, (int64_t[4]){0},
                                 (PrngKey){0}, 0, p->fault));
  if (!sum)
    return NULL;
  uint32_t leading = s->leading_count;
  for (uint32_t k = 0; k < leading; k++)
    shape[k] = u->extents[s->leading[k]];
  memcpy(shape + leading, own, u->rank * sizeof *shape);
  Node *made = node_reshape(g, sum, leading + u->rank, shape,
                            u->broadcast_mask << leading, p->fault);
  return made && leading ? free_leading(a, u, s, reverse_own(p, made)) : made;
}

static Node *scattered(AdjointBody *a, uint32_t read, bool *is_zero) {
  const BodyOp *c = &a->n->body_ops[read];
  ReversePass *p = a->pass;
  ScatterPlan s;
  if (!plan_scatter(a, c, &s)) {
    fault_set(p->fault, "the derivative of this index is not supported");
    return NULL;
  }
  const Node *u = c->node;
  int64_t row_count;
  if (!extent_product(p->graph, u->rank - s.suffix, u->extents + u->free_count,
                      &row_count))
    return NULL;
  for (uint32_t k = 0; k < s.leading_count; k++)
    if (!extent_mul(p->graph, row_count, u->extents[s.leading[k]], &row_count))
      return NULL;
  *is_zero = row_count == 0;
  if (*is_zero)
    return NULL;
  begin_rows(a, c, &s, true, c->dtype);
  *is_zero = !build_value(a, read);
  if (*is_zero) {
    body_drop(&a->b);
    return NULL;
  }
  a->spec.reduce = a->spec.reduce_count ? PRIM_SUM : PRIM_NONE;
  Node *rows = reverse_own(p, body_finish(&a->b, p->graph, p->fault));
  Node *index =
      rows ? reverse_own(p, scatter_index(a, c, &s, row_count)) : NULL;
  return index ? scatter_rows(a, c, &s, row_count, index, rows) : NULL;
}

/* ---- a node ---- */

/* A reduction over the terms of n: the number of terms that satisfy a test, or
 * the product of those that do not. */
static Node *reduce_terms(AdjointBody *a, bool of_others) {
  const Node *n = a->n;
  spec_like(&a->spec, n);
  a->spec.reduce = of_others ? n->reduce : PRIM_SUM;
  a->spec.reduce_count = n->reduce_count;
  memcpy(a->spec.reduced_extents, n->extents + n->free_count + n->rank,
         n->reduce_count * sizeof *n->extents);
  BodyBuilder *b = &a->b;
  body_init(b, a->pass->graph, &a->spec);
  for (uint32_t k = 0; k < n->free_count; k++)
    a->x.vars[k].value = body_free_axis(b, k);
  for (uint32_t k = 0; k < n->rank; k++)
    a->x.vars[n->free_count + k].value = body_own_axis(b, k);
  for (uint32_t k = 0; k < n->reduce_count; k++)
    a->x.vars[n->free_count + n->rank + k].value = body_reduced_axis(b, k);
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++)
    a->x.vars[k].is_bounded = false;
  forget_copies(a);
  a->condition = NO_OP;
  a->guards_all = false;
  Dtype t = n->dtype;
  uint32_t x = copy_op(a, n->body_op_count - 1), zero = zero_of(a, t);
  uint32_t one = body_const(b, (Scalar){.dtype = t, .f = 1});
  uint32_t to = prim_is_extreme(n->reduce) ? read_like_n(a, a->n) : zero;
  uint32_t test = body_op2(b, PRIM_EQ, DT_BOOL, x, to);
  body_op(b, PRIM_SELECT, t, 3, (uint32_t[]){test, one, of_others ? x : zero});
  return body_finish(b, a->pass->graph, a->pass->fault);
}

static bool prepare_reduction(AdjointBody *a) {
  ReversePass *p = a->pass;
  PrimId op = a->n->reduce;
  if (!prim_is_extreme(op) && !is_product(op))
    return true;
  a->count = reverse_own(p, reduce_terms(a, false));
  if (is_product(op) && a->count)
    a->product = reverse_own(p, reduce_terms(a, true));
  return a->count && (!is_product(op) || a->product);
}

/* ---- strided contributions ---- */

enum { MAX_RESIDUES = 16 }; /* nodes of one contribution */

/* How the elements are divided; false: all are computed alike. */
static bool find_residues(AdjointBody *a, const Node *u, Residues *r,
                          uint32_t *count) {
  *count = 1;
  for (uint32_t k = 0; k < u->rank; k++) {
    int64_t stride = a->x.strides[k], extent = u->extents[u->free_count + k];
    bool divides =
        stride > 1 && stride <= MAX_RESIDUES &&
        (!extent_is_static(a->pass->graph, extent) || extent >= stride);
    r->strides[k] = divides ? stride : 1;
    *count *= divides ? (uint32_t)stride : 1;
    if (*count > MAX_RESIDUES)
      return false;
  }
  return *count > 1;
}

static void set_residues(Residues *r, const Node *u, uint32_t number) {
  for (uint32_t k = 0; k < u->rank; k++) {
    r->residues[k] = number % r->strides[k];
    number /= (uint32_t)r->strides[k];
  }
}

/* Element j of the result is element j / stride of the part of its residue.
 * parts[k] is NULL if it is zero. */
static Node *interleaved(AdjointBody *a, Node *u, Residues *r, uint32_t count,
                         Node *const *parts) {
  BodyBuilder *b = &a->b;
  uint32_t own[MAX_RANK], axes[MAX_RANK], value = NO_OP;
  contribution_spec(a, u);
  body_init(b, a->pass->graph, &a->spec);
  for (uint32_t k = 0; k < u->rank; k++) {
    axes[k] = body_own_axis(b, k);
    own[k] = body_floor_div_int(b, axes[k], r->strides[k]);
  }
  value = zero_of(a, u->dtype);
  for (uint32_t at = 0; at < count; at++) {
    if (!parts[at])
      continue;
    set_residues(r, u, at);
    uint32_t test = NO_OP;
    for (uint32_t k = 0; k < u->rank; k++) {
      if (r->strides[k] == 1)
        continue;
      uint32_t rest = body_floor_mod_int(b, axes[k], r->strides[k]);
      uint32_t residue = body_int(b, r->residues[k]);
      uint32_t same = body_op2(b, PRIM_EQ, DT_BOOL, rest, residue);
      test = test == NO_OP ? same : body_op2(b, PRIM_AND, DT_BOOL, test, same);
    }
    uint32_t read = body_read(b, parts[at], own);
    if (b->ops[read].kind == BODY_READ)
      b->ops[read].proved_safe = true;
    value = body_select(b, test, read, value);
  }
  set_value(a, value);
  return body_finish(b, a->pass->graph, a->pass->fault);
}

/* One dense node for each residue.  A single node would multiply by zeros, or
 * read with strides. */
static Node *gathered_by_residues(AdjointBody *a, uint32_t read, Residues *r,
                                  uint32_t count, bool *is_zero) {
  Node *u = a->n->body_ops[read].node, *parts[MAX_RESIDUES];
  *is_zero = true;
  for (uint32_t at = 0; at < count; at++) {
    bool part_is_zero = false, inverted;
    set_residues(r, u, at);
    parts[at] =
        reverse_own(a->pass, gathered(a, read, r, &part_is_zero, &inverted));
    if (!parts[at] && !part_is_zero)
      return NULL;
    *is_zero = *is_zero && part_is_zero;
  }
  return *is_zero ? NULL : interleaved(a, u, r, count, parts);
}

static bool contribute_read(AdjointBody *a, uint32_t read) {
  bool is_zero = false, inverted;
  Residues r;
  uint32_t count;
  Node *made = gathered(a, read, NULL, &is_zero, &inverted);
  if (made && find_residues(a, a->n->body_ops[read].node, &r, &count)) {
    node_release(made);
    made = gathered_by_residues(a, read, &r, count, &is_zero);
  }
  if (!inverted)
    made = scattered(a, read, &is_zero);
  return is_zero ||
         reverse_contribute(a->pass, a->n->body_ops[read].node, made);
}

static bool contribute_reads(AdjointBody *a) {
  const Node *n = a->n;
  if (!prepare_reduction(a))
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_READ && dtype_is_float(c->dtype) &&
        reverse_depends(a->pass, c->node) && !contribute_read(a, k))
      return false;
  }
  return true;
}

bool adjoint_comprehension(ReversePass *p, Node *n, Node *g) {
  if (!dtype_is_float(n->dtype))
    return true;
  uint32_t ops = n->body_op_count;
  AdjointBody body, *a = &body;
  a->pass = p, a->n = n, a->g = g;
  a->count = a->product = NULL;
  a->copies = NEW_ARRAY(p->arena, uint32_t, ops);
  a->adjoints = NEW_ARRAY(p->arena, uint32_t, ops);
  a->on_path = NEW_ARRAY(p->arena, uint8_t, ops);
  body_init(&a->b, p->graph, &a->spec);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    body_drop(&a->b);
    trap_raise(trap.kind);
  }
  bool ok = contribute_reads(a);
  trap_end(&trap);
  return ok;
}
