/* Bodies during fusion: equal ops exist once (value numbering), and each new op
 * is simplified.  See fused_body.h. */
#include "tensor/node.h"
#include "plan/fused_body.h"
#include "support/arena.h"
#include "support/mem.h"
#include "support/trap.h"

#include "tensor/extent.h"
#include "tensor/scalar_ops.h"

#include <math.h>
#include <string.h>

FusedBody *fused_body_new(Arena *arena, Graph *g, const Node *n) {
  FusedBody *body = NEW(arena, FusedBody);
  body->arena = arena;
  body->graph = g;
  body->axis_count = n->free_count + n->rank;
  body->reduce_count = n->reduce_count;
  body->reduce = n->reduce;
  body->iterations = 1;
  uint32_t axes = body->axis_count + n->reduce_count;
  for (uint32_t k = 0; k < axes; k++) {
    body->extents[k] = n->extents[k];
    body->iterations *= (double)extent_hint(g, n->extents[k]);
  }
  return body;
}

uint32_t fused_body_resolve(const FusedBody *body, uint32_t op_index) {
  while (body->ops.at[op_index].forward)
    op_index = body->ops.at[op_index].forward - 1;
  return op_index;
}

/* ---- finding equal ops ---- */

static uint64_t hash_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t op_payload(const BodyOp *c, uint32_t word) {
  switch (c->kind) {
  case BODY_CONST: {
    uint64_t bits;
    memcpy(&bits, &c->value.i, sizeof bits);
    return word ? 0 : bits;
  }
  case BODY_EXTENT:
    return word ? 0 : (uint64_t)c->extent;
  case BODY_AXIS:
    return word ? 0 : c->axis;
  case BODY_READ:
    return word ? 0 : (uint64_t)(uintptr_t)c->node;
  case BODY_RANDOM:
    return c->key.word[word];
  case BODY_OP:
  case BODY_SELECT:
  case BODY_CONVERT:
    return 0;
  }
  return 0;
}

static uint64_t hash_op(const BodyOp *c, uint32_t count, const uint32_t *args) {
  uint64_t h = hash_mix((uint64_t)c->kind << 32 | c->dtype, c->op);
  h = hash_mix(hash_mix(h, op_payload(c, 0) + c->proved_safe),
               op_payload(c, 1));
  for (uint32_t k = 0; k < count; k++)
    h = hash_mix(h, args[k]);
  return h ^ h >> 32;
}

static bool ops_equal(const BodyOp *a, const BodyOp *b, uint32_t count,
                      const uint32_t *args) {
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
         a->arg_count == count && a->proved_safe == b->proved_safe &&
         op_payload(a, 0) == op_payload(b, 0) &&
         op_payload(a, 1) == op_payload(b, 1) &&
         (count == 0 || memcmp(a->args, args, count * sizeof *args) == 0);
}

static void hash_insert(FusedBody *body, uint32_t op_index) {
  const BodyOp *c = &body->ops.at[op_index].body_op;
  uint64_t at = hash_op(c, c->arg_count, c->args);
  uint32_t mask = body->hash_capacity - 1;
  for (at &= mask; body->hash_table[at]; at = (at + 1) & mask)
    ;
  body->hash_table[at] = op_index + 1;
}

static void hash_grow(FusedBody *body) {
  body->hash_capacity = body->hash_capacity ? 2 * body->hash_capacity : 64;
  body->hash_table = NEW_ARRAY(body->arena, uint32_t, body->hash_capacity);
  for (uint32_t k = 0; k < body->ops.len; k++)
    hash_insert(body, k);
}

static uint32_t hash_find(const FusedBody *body, const BodyOp *c,
                          uint32_t count, const uint32_t *args) {
  if (!body->hash_capacity)
    return UINT32_MAX;
  uint32_t mask = body->hash_capacity - 1;
  uint64_t at = hash_op(c, count, args) & mask;
  for (; body->hash_table[at]; at = (at + 1) & mask)
    if (ops_equal(&body->ops.at[body->hash_table[at] - 1].body_op, c, count,
                  args))
      return body->hash_table[at] - 1;
  return UINT32_MAX;
}

/* ---- intervals ---- */

typedef struct Interval {
  int64_t low, high;
} Interval;

static const Interval unbounded = {INT64_MIN, INT64_MAX};

static bool is_bounded(Interval b) {
  return b.low != INT64_MIN && b.high != INT64_MAX;
}

static bool is_static_interval(const Graph *g, Interval x) {
  return extent_is_static(g, x.low) && extent_is_static(g, x.high);
}

static Interval interval_mul(Graph *g, Interval x, Interval y) {
  int64_t p[4];
  if (!is_static_interval(g, x) ||
      !is_static_interval(g, y)) { /* the signs must be known */
    Interval b;
    return extent_proved(g, EXTENT_LE, 0, x.low) &&
                   extent_proved(g, EXTENT_LE, 0, y.low) &&
                   extent_mul(g, x.low, y.low, &b.low) &&
                   extent_mul(g, x.high, y.high, &b.high)
               ? b
               : unbounded;
  }
  if (__builtin_mul_overflow(x.low, y.low, &p[0]) ||
      __builtin_mul_overflow(x.low, y.high, &p[1]) ||
      __builtin_mul_overflow(x.high, y.low, &p[2]) ||
      __builtin_mul_overflow(x.high, y.high, &p[3]))
    return unbounded;
  Interval b = {p[0], p[0]};
  for (uint32_t k = 1; k < 4; k++) {
    b.low = p[k] < b.low ? p[k] : b.low;
    b.high = p[k] > b.high ? p[k] : b.high;
  }
  return b;
}

static Interval interval_op(Graph *g, PrimId op, Interval x, Interval y) {
  Interval b = unbounded;
  bool positive = y.low != INT64_MIN && extent_proved(g, EXTENT_LE, 1, y.low);
  if (op == PRIM_MOD && positive)
    return extent_sub(g, y.high, 1, &b.high) ? (Interval){0, b.high}
                                             : unbounded;
  if (!is_bounded(x) || !is_bounded(y))
    return b;
  bool good = true;
  if (op == PRIM_ADD)
    good = extent_add(g, x.low, y.low, &b.low) &&
           extent_add(g, x.high, y.high, &b.high);
  else if (op == PRIM_SUB)
    good = extent_sub(g, x.low, y.high, &b.low) &&
           extent_sub(g, x.high, y.low, &b.high);
  else if (op == PRIM_MUL)
    b = interval_mul(g, x, y);
  else if (op == PRIM_DIV && positive && y.low == y.high)
    good = extent_floor_div(g, x.low, y.low, &b.low) &&
           extent_floor_div(g, x.high, y.low, &b.high);
  else if (op == PRIM_MAXIMUM)
    b = (Interval){extent_max(g, x.low, y.low), extent_max(g, x.high, y.high)};
  else if (op == PRIM_MINIMUM)
    b = (Interval){extent_min(g, x.low, y.low), extent_min(g, x.high, y.high)};
  return good ? b : unbounded;
}

static Interval interval_at(const FusedBody *body, uint32_t op_index) {
  return (Interval){body->ops.at[op_index].low, body->ops.at[op_index].high};
}

static Interval compute_interval(const FusedBody *body, const BodyOp *c,
                                 const uint32_t *args) {
  if (c->dtype != DT_I64)
    return unbounded;
  if (c->kind == BODY_CONST) /* a huge number is not a handle of an extent */
    return extent_is_static(body->graph, c->value.i)
               ? (Interval){c->value.i, c->value.i}
               : unbounded;
  if (c->kind == BODY_AXIS)
    return (Interval){
        0, extent_sub_saturating(body->graph, body->extents[c->axis], 1)};
  if (c->kind == BODY_EXTENT)
    return (Interval){c->extent, c->extent};
  if (c->kind == BODY_OP && c->arg_count == 2)
    return interval_op(body->graph, c->op, interval_at(body, args[0]),
                       interval_at(body, args[1]));
  return unbounded;
}

/* ---- simplification ---- */

static const BodyOp *op_at(const FusedBody *body, uint32_t k) {
  return &body->ops.at[k].body_op;
}

static bool is_int_constant(const FusedBody *body, uint32_t k, int64_t x) {
  const BodyOp *c = op_at(body, k);
  return c->kind == BODY_CONST && c->dtype == DT_I64 && c->value.i == x;
}

static uint32_t intern_constant(FusedBody *body, Scalar x) {
  BodyOp c = {.kind = BODY_CONST, .dtype = x.dtype, .value = x};
  return fused_body_intern(body, &c, 0, NULL);
}

static bool fold_constants(const FusedBody *body, const BodyOp *c,
                           uint32_t count, const uint32_t *args, Scalar *out) {
  Scalar x[3];
  if (count == 0 || count > 3)
    return false;
  for (uint32_t k = 0; k < count; k++) {
    if (op_at(body, args[k])->kind != BODY_CONST)
      return false;
    x[k] = op_at(body, args[k])->value;
    if (scalar_is_param(x[k]))
      return false;
  }
  PrimId op = c->kind == BODY_CONVERT ? PRIM_CONVERT : c->op;
  return scalar_apply(op, count, x, c->dtype, out) == ARITH_OK;
}

/* Folds a comparison of integers whose intervals decide it. */
static bool fold_comparison(const FusedBody *body, const BodyOp *c,
                            const uint32_t *args, Scalar *out) {
  if (c->arg_count != 2 || op_at(body, args[0])->dtype != DT_I64)
    return false;
  Interval x = interval_at(body, args[0]), y = interval_at(body, args[1]);
  const Graph *g = body->graph;
  if (g->extent_table && args[0] != args[1] &&
      (!is_bounded(x) || !is_bounded(y)))
    return false;
  bool less = extent_proved_less(g, x.high, y.low);
  bool more = extent_proved_less(g, y.high, x.low);
  bool below = extent_proved(g, EXTENT_LE, x.high, y.low);
  bool above = extent_proved(g, EXTENT_LE, y.high, x.low);
  bool same = args[0] == args[1];
  *out = (Scalar){.dtype = DT_BOOL};
  if (same && prim_is_comparison(c->op))
    out->i = c->op == PRIM_EQ || c->op == PRIM_LE || c->op == PRIM_GE;
  else if (c->op == PRIM_LT && (less || above))
    out->i = less;
  else if (c->op == PRIM_LE && (below || more))
    out->i = below;
  else if (c->op == PRIM_GT && (more || below))
    out->i = more;
  else if (c->op == PRIM_GE && (above || less))
    out->i = above;
  else if (c->op == PRIM_EQ && (less || more))
    out->i = 0;
  else if (c->op == PRIM_NE && (less || more))
    out->i = 1;
  else
    return false;
  return true;
}

/* The largest integer up to which a float type represents all integers. */
static int64_t max_exact_int(Dtype t) {
  return t == DT_F64       ? (int64_t)1 << 53
         : t == DT_F32     ? 1 << 24
         : t == DT_F16     ? 1 << 11
         : t == DT_BF16    ? 1 << 8
         : t == DT_F8_E4M3 ? 1 << 4
         : t == DT_F8_E5M2 ? 1 << 3
         : t == DT_F4_E2M1 ? 1 << 2
                           : 0;
}

/* Returns the integer op behind a float that was converted exactly; UINT32_MAX
 * if there is none. */
static uint32_t exact_int_operand(FusedBody *body, uint32_t k) {
  const BodyOp *c = op_at(body, k);
  int64_t max = max_exact_int(c->dtype);
  if (c->kind == BODY_CONST && fabs(c->value.f) <= (double)max &&
      c->value.f == floor(c->value.f))
    return intern_constant(body,
                           (Scalar){.dtype = DT_I64, .i = (int64_t)c->value.f});
  if (c->kind != BODY_CONVERT || op_at(body, c->args[0])->dtype != DT_I64)
    return UINT32_MAX;
  Interval b = interval_at(body, c->args[0]);
  return b.low >= -max && b.high <= max ? c->args[0] : UINT32_MAX;
}

/* Compares indices that were converted to floats as integers.  Then later
 * analyses recognize conditions on indices. */
static uint32_t compare_as_ints(FusedBody *body, const BodyOp *c,
                                const uint32_t *args) {
  if (!prim_is_comparison(c->op) ||
      !dtype_is_float(op_at(body, args[0])->dtype))
    return UINT32_MAX;
  uint32_t ints[2] = {exact_int_operand(body, args[0]),
                      exact_int_operand(body, args[1])};
  return ints[0] == UINT32_MAX || ints[1] == UINT32_MAX
             ? UINT32_MAX
             : fused_body_intern(body, c, 2, ints);
}

/* x + 0, x * 1, x / 1, and / and % that the interval of x makes redundant. */
static uint32_t simplify_int_identity(FusedBody *body, const BodyOp *c,
                                      const uint32_t *args) {
  if (c->dtype != DT_I64 || c->arg_count != 2)
    return UINT32_MAX;
  uint32_t x = args[0], y = args[1];
  Interval bx = interval_at(body, x), by = interval_at(body, y);
  const Graph *g = body->graph;
  bool small = (c->op == PRIM_DIV || c->op == PRIM_MOD) && by.low == by.high &&
               is_bounded(bx) && extent_proved(g, EXTENT_LE, 0, bx.low) &&
               extent_proved_less(g, bx.high, by.low);
  if (c->op == PRIM_ADD)
    return is_int_constant(body, y, 0)   ? x
           : is_int_constant(body, x, 0) ? y
                                         : UINT32_MAX;
  if (c->op == PRIM_SUB && is_int_constant(body, y, 0))
    return x;
  if (c->op == PRIM_MUL &&
      (is_int_constant(body, y, 1) || is_int_constant(body, x, 1)))
    return is_int_constant(body, y, 1) ? x : y;
  if (c->op == PRIM_MUL &&
      (is_int_constant(body, y, 0) || is_int_constant(body, x, 0)))
    return is_int_constant(body, y, 0) ? y : x;
  if (c->op == PRIM_DIV && is_int_constant(body, y, 1))
    return x;
  if (c->op == PRIM_DIV && small)
    return intern_constant(body, (Scalar){.dtype = DT_I64});
  if (c->op == PRIM_MOD && small)
    return x;
  return UINT32_MAX;
}

/* x / c becomes x * (1 / c) if 1 / c is exact: the result is equal, and
 * faster. */
static bool reciprocal_is_exact(const FusedBody *body, const BodyOp *c,
                                const uint32_t *args, Scalar *factor) {
  if (c->op != PRIM_DIV || (c->dtype != DT_F32 && c->dtype != DT_F64) ||
      op_at(body, args[1])->kind != BODY_CONST)
    return false;
  int exponent;
  double by = op_at(body, args[1])->value.f;
  if (fabs(frexp(by, &exponent)) != 0.5 || exponent < -100 || exponent > 100)
    return false;
  *factor = (Scalar){.dtype = c->dtype, .f = 1 / by};
  return true;
}

/* min(x, x) and max(x, x) are x. */
static uint32_t simplify_min_max(const BodyOp *c, const uint32_t *args) {
  bool idle = (c->op == PRIM_MAXIMUM || c->op == PRIM_MINIMUM) &&
              c->arg_count == 2 && args[0] == args[1];
  return idle ? args[0] : UINT32_MAX;
}

/* Simplifies `true && x`, `false || x`, and so on. */
static uint32_t simplify_bool_identity(const FusedBody *body, const BodyOp *c,
                                       const uint32_t *args) {
  if (c->op != PRIM_AND && c->op != PRIM_OR)
    return UINT32_MAX;
  for (uint32_t k = 0; k < 2; k++) {
    const BodyOp *x = op_at(body, args[k]);
    if (x->kind == BODY_CONST)
      return (x->value.i != 0) == (c->op == PRIM_AND) ? args[1 - k] : args[k];
  }
  return UINT32_MAX;
}

/* True if op k depends on indices and constants only, so that it may run
 * anywhere.  The recursion depth is bounded by the limit on ops of a body. */
static bool is_speculatable(const FusedBody *body, uint32_t k) {
  const BodyOp *c = op_at(body, fused_body_resolve(body, k));
  if (c->kind != BODY_CONST && c->kind != BODY_EXTENT && c->kind != BODY_AXIS &&
      c->kind != BODY_OP)
    return false;
  if (c->kind == BODY_OP && prim_info[c->op].class == PC_MAP &&
      map_info[c->op].fault != ARITH_OK)
    return false;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (!is_speculatable(body, c->args[j]))
      return false;
  return true;
}

/* Merges the conditions of `if c then (if d then x else y) else y`. */
static uint32_t merge_nested_select(FusedBody *body, const BodyOp *c,
                                    const uint32_t *args) {
  const BodyOp *inner = op_at(body, args[1]);
  if (inner->kind != BODY_SELECT ||
      fused_body_resolve(body, inner->args[2]) != args[2] ||
      !is_speculatable(body, inner->args[0]))
    return UINT32_MAX;
  uint32_t x = fused_body_resolve(body, inner->args[1]);
  BodyOp both = {.kind = BODY_OP, .op = PRIM_AND, .dtype = DT_BOOL};
  both.span = c->span;
  uint32_t conditions[2] = {args[0], fused_body_resolve(body, inner->args[0])};
  uint32_t all[3] = {fused_body_intern(body, &both, 2, conditions), x, args[2]};
  return fused_body_intern(body, c, 3, all);
}

static uint32_t simplify_op(FusedBody *body, const BodyOp *c, uint32_t count,
                            const uint32_t *args) {
  Scalar value;
  switch (c->kind) {
  case BODY_AXIS:
    if (body->extents[c->axis] == 1)
      return intern_constant(body, (Scalar){.dtype = DT_I64});
    break;
  case BODY_SELECT:
    if (op_at(body, args[0])->kind == BODY_CONST)
      return op_at(body, args[0])->value.i ? args[1] : args[2];
    if (args[1] == args[2])
      return args[1];
    return merge_nested_select(body, c, args);
  case BODY_CONVERT:
    if (op_at(body, args[0])->dtype == c->dtype)
      return args[0];
    if (fold_constants(body, c, count, args, &value))
      return intern_constant(body, value);
    break;
  case BODY_OP: {
    if (fold_constants(body, c, count, args, &value) ||
        fold_comparison(body, c, args, &value))
      return intern_constant(body, value);
    if (reciprocal_is_exact(body, c, args, &value)) {
      BodyOp times = *c;
      times.op = PRIM_MUL;
      uint32_t factors[2] = {args[0], intern_constant(body, value)};
      return fused_body_intern(body, &times, 2, factors);
    }
    uint32_t same = simplify_int_identity(body, c, args);
    if (same == UINT32_MAX)
      same = simplify_bool_identity(body, c, args);
    if (same == UINT32_MAX)
      same = simplify_min_max(c, args);
    return same == UINT32_MAX ? compare_as_ints(body, c, args) : same;
  }
  case BODY_CONST:
  case BODY_EXTENT:
  case BODY_READ:
  case BODY_RANDOM:
    break;
  }
  return UINT32_MAX;
}

uint32_t fused_body_intern(FusedBody *body, const BodyOp *model, uint32_t count,
                           const uint32_t *args) {
  BodyOp c = *model;
  c.arg_count = count;
  uint32_t found = simplify_op(body, &c, count, args);
  if (found == UINT32_MAX)
    found = hash_find(body, &c, count, args);
  if (found != UINT32_MAX)
    return found;
  Interval b = compute_interval(body, &c, args);
  c.args = count ? NEW_ARRAY(body->arena, uint32_t, count) : NULL;
  if (count)
    memcpy(c.args, args, count * sizeof *args);
  FusedOp made = {.body_op = c, .low = b.low, .high = b.high};
  VEC_PUSH(body->arena, body->ops, made);
  if (2 * body->ops.len >= body->hash_capacity)
    hash_grow(body);
  else
    hash_insert(body, body->ops.len - 1);
  return body->ops.len - 1;
}

uint32_t fused_body_axis(FusedBody *body, uint32_t k) {
  BodyOp c = {.kind = BODY_AXIS, .dtype = DT_I64, .axis = k};
  return fused_body_intern(body, &c, 0, NULL);
}

/* ---- the finished body ---- */

typedef struct BodyRebuild {
  FusedBody *from, *to;
  uint32_t *new_index; /* 1 + the number of the op in `to` */
} BodyRebuild;

/* The recursion depth is bounded by the planner's limit on ops. */
static uint32_t rebuild_op(BodyRebuild *c, uint32_t op_index) {
  op_index = fused_body_resolve(c->from, op_index);
  if (c->new_index[op_index])
    return c->new_index[op_index] - 1;
  const BodyOp *old = op_at(c->from, op_index);
  uint32_t small[8], count = old->arg_count, made;
  uint32_t *args = count <= ARRAY_LEN(small)
                       ? small
                       : NEW_ARRAY(c->to->arena, uint32_t, count);
  for (uint32_t k = 0; k < count; k++)
    args[k] = rebuild_op(c, old->args[k]);
  made = fused_body_intern(c->to, old, count, args);
  c->new_index[op_index] = made + 1;
  return made;
}

static void mark_live(const FusedBody *body, uint32_t op_index, bool *live) {
  for (uint32_t k = op_index + 1; k-- > 0;) {
    const BodyOp *c = op_at(body, k);
    live[k] |= k == op_index;
    for (uint32_t j = 0; live[k] && j < c->arg_count; j++)
      live[c->args[j]] = true;
  }
}

/* Drops ops that are no longer used, and puts the value last. */
static void eliminate_dead_ops(FusedBody *body) {
  uint32_t count = body->ops.len, kept = 0;
  bool *live = NEW_ARRAY(body->arena, bool, count);
  uint32_t *mapping = NEW_ARRAY(body->arena, uint32_t, count);
  mark_live(body, body->value_op, live);
  for (uint32_t k = 0; k < count; k++) {
    if (!live[k])
      continue;
    FusedOp *c = &body->ops.at[kept];
    *c = body->ops.at[k];
    for (uint32_t j = 0; j < c->body_op.arg_count; j++)
      c->body_op.args[j] = mapping[c->body_op.args[j]];
    mapping[k] = kept++;
  }
  body->ops.len = kept;
  body->value_op = kept - 1;
}

FusedBody *fused_body_simplify(Arena *arena, FusedBody *body) {
  FusedBody *to = NEW(arena, FusedBody);
  *to = *body;
  to->arena = arena;
  to->ops.at = NULL;
  to->ops.len = to->ops.cap = 0;
  to->hash_table = NULL;
  to->hash_capacity = 0;
  BodyRebuild c = {.from = body, .to = to};
  c.new_index = NEW_ARRAY(arena, uint32_t, body->ops.len);
  to->value_op = rebuild_op(&c, body->value_op);
  eliminate_dead_ops(to);
  return to;
}

/* The extents of a node that became a reduction; NULL: it did not. */
static int64_t *extended_extents(const FusedBody *body, const Node *n) {
  if (n->reduce_count == body->reduce_count)
    return NULL;
  size_t size = (body->axis_count + body->reduce_count) * sizeof(int64_t);
  int64_t *extents = mem_alloc(size);
  memcpy(extents, body->extents, size);
  return extents;
}

static void copy_ops(const FusedBody *body, BodyOp *ops) {
  uint32_t count = body->ops.len;
  uint32_t *args = (uint32_t *)(ops + count);
  for (uint32_t k = 0; k < count; k++) {
    ops[k] = body->ops.at[k].body_op;
    if (ops[k].arg_count)
      memcpy(args, ops[k].args, ops[k].arg_count * sizeof *args);
    ops[k].args = args;
    args += ops[k].arg_count;
    if (ops[k].kind == BODY_READ)
      node_retain(ops[k].node);
  }
}

void fused_body_install(FusedBody *body, Node *n) {
  uint32_t count = body->ops.len, arg_count = 0;
  for (uint32_t k = 0; k < count; k++)
    arg_count += body->ops.at[k].body_op.arg_count;
  int64_t *extents = extended_extents(body, n);
  BodyOp *ops =
      mem_try_alloc(count * sizeof *ops + arg_count * sizeof(uint32_t));
  if (!ops) {
    mem_free(extents);
    trap_raise(FAIL_MEMORY);
  }
  copy_ops(body, ops);
  node_replace_body(n, ops, count, body->reduce, body->reduce_count, extents);
}
