/* Adjoints of comprehensions: what each read contributes.
 *
 * A read at indices that can be inverted gets a comprehension that gathers
 * (adjoint_body.c).  A strided read gets one for each residue, so that all are
 * dense.  A read of an interval of an axis, such as one layer of a stack, gets
 * one for the interval, whose sums have no condition.
 *
 * If an index depends on data at summed axes, as in the lookup of an embedding,
 * the adjoint is a deterministic scatter. */
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "support/trap.h"
#include "tensor/adjoint_body.h"

#include <string.h>

/* ---- gathering contributions ---- */

/* True if free axis k of n is also a free axis of the contribution to x, which
 * does not have it. */
static bool keeps_axis(const AdjointBody *a, const Node *x, uint32_t k) {
  return reverse_is_enclosing(a->pass, a->n->free_vars[k]) &&
         !node_has_free(x, a->n->free_vars[k]);
}

/* The spec of a contribution to x.  It also has the free indices of the
 * cotangent that n does not have, as in a loop around a pullback, and those of
 * n that the call of vjp is inside of. */
static void contribution_spec(AdjointBody *a, const Node *x) {
  const Node *g = a->g, *n = a->n;
  a->spec = node_spec_like(x);
  for (uint32_t k = 0; k < g->free_count; k++)
    if (!node_has_free(n, g->free_vars[k]) && a->spec.free_count < MAX_RANK)
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
  require(a, adjoint_body_read_like(a, a->n->guard));
  a->guards_all = true;
}

static void require_data_indices(AdjointBody *a) {
  BodyBuilder *b = &a->b;
  for (uint32_t k = 0; k < a->x.data_count; k++) {
    uint32_t index =
        body_convert(b, adjoint_body_copy(a, a->x.data_ops[k]), DT_I64);
    uint32_t condition =
        body_op2(b, PRIM_EQ, DT_BOOL, index, a->x.data_targets[k]);
    require(a, condition);
  }
}

/* The elements of U that one part of a contribution has.  Own axis k: those
 * with one remainder modulo a stride, or those of an interval. */
typedef struct Part {
  int64_t strides[MAX_RANK]; /* 1: all elements */
  int64_t residues[MAX_RANK];
  bool is_interval[MAX_RANK];
  int64_t lows[MAX_RANK], counts[MAX_RANK]; /* of an interval */
} Part;

/* The index in U of element q of the axis of the part; the inversion adds the
 * begin of an interval. */
static uint32_t part_target(AdjointBody *a, const Part *r, uint32_t k) {
  uint32_t axis = body_own_axis(&a->b, k);
  return r ? body_add_int(&a->b, body_mul_int(&a->b, axis, r->strides[k]),
                          r->residues[k])
           : axis;
}

/* Restricts the own axes to the part. */
static void restrict_spec(AdjointBody *a, const Part *r) {
  Graph *g = a->pass->graph;
  for (uint32_t k = 0; k < a->spec.rank; k++) {
    int64_t *extent = &a->spec.own_extents[k];
    a->x.offsets[k] = r && r->is_interval[k] ? r->lows[k] : 0;
    if (!r || (r->strides[k] == 1 && !r->is_interval[k]))
      continue;
    if (r->is_interval[k]) {
      *extent = r->counts[k];
      continue;
    }
    int64_t rest = extent_sub_saturating(g, *extent, r->residues[k]);
    if (!extent_ceil_div(g, rest, r->strides[k], extent))
      *extent = INT64_MAX; /* too large: materialization will fail */
  }
}

/* Returns NULL, with *is_zero set, if there is no contribution; NULL alone if
 * the read cannot be inverted.  r: only these elements, unless it is NULL. */
static Node *gathered(AdjointBody *a, uint32_t read, const Part *r,
                      bool *is_zero, bool *inverted) {
  const BodyOp *c = &a->n->body_ops[read];
  Graph *g = a->pass->graph;
  uint32_t targets[2 * MAX_RANK];
  contribution_spec(a, c->node);
  restrict_spec(a, r);
  body_init(&a->b, g, &a->spec);
  for (uint32_t k = 0; k < c->arg_count; k++)
    targets[k] = k < c->node->free_count
                     ? adjoint_body_free_axis(a, c->node, k)
                     : part_target(a, r, k - c->node->free_count);
  a->x.b = &a->b, a->x.spec = &a->spec, a->x.n = a->n;
  adjoint_body_forget_copies(a);
  for (uint32_t k = 0; k < a->n->free_count; k++)
    a->x.kept_axes[k] =
        keeps_axis(a, c->node, k) ? adjoint_body_free_axis(a, a->n, k) : NO_OP;
  *inverted = invert_read(&a->x, c, targets) && !a->x.data_is_summed;
  if (!*inverted) {
    body_drop(&a->b);
    return NULL;
  }
  a->condition = a->x.condition;
  a->guards_all = false;
  require_guard(a);
  require_data_indices(a);
  *is_zero = !adjoint_body_build(a, read);
  if (*is_zero) {
    body_drop(&a->b);
    return NULL;
  }
  return adjoint_finish_sum(a);
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
      a->x.vars[n->body_ops[read->args[k]].axis].value =
          adjoint_body_free_axis(a, u, k);
  for (uint32_t k = 0; k < n->free_count; k++)
    if (keeps_axis(a, u, k))
      a->x.vars[k].value = adjoint_body_free_axis(a, n, k);
  for (uint32_t k = 0; k < a->spec.rank; k++)
    a->x.vars[k < s->row_axis_count ? s->row_axes[k]
                                    : s->suffix_axes[k - s->row_axis_count]]
        .value = body_own_axis(&a->b, k);
  adjoint_body_forget_copies(a);
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
      flat = flattened(a, flat, adjoint_body_copy(a, read->args[k]),
                       u->extents[k]);
  for (uint32_t k = u->free_count; k + s->suffix < read->arg_count; k++)
    flat =
        flattened(a, flat, adjoint_body_copy(a, read->args[k]), u->extents[k]);
  if (flat == NO_OP)
    flat = body_int(b, 0);
  else if (reads_conditionally(a->n))
    flat = bounded_row(a, flat, row_count);
  body_set_result(&a->b, flat);
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
  *is_zero = !adjoint_body_build(a, read);
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
  a->spec = node_spec_like(n);
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
  adjoint_body_forget_copies(a);
  a->condition = NO_OP;
  a->guards_all = false;
  Dtype t = n->dtype;
  uint32_t x = adjoint_body_copy(a, n->body_op_count - 1),
           zero = adjoint_body_zero(a, t);
  uint32_t one = body_const(b, (Scalar){.dtype = t, .f = 1});
  uint32_t to =
      prim_is_extreme(n->reduce) ? adjoint_body_read_like(a, a->n) : zero;
  uint32_t test = body_op2(b, PRIM_EQ, DT_BOOL, x, to);
  body_op(b, PRIM_SELECT, t, 3, (uint32_t[]){test, one, of_others ? x : zero});
  return body_finish(b, a->pass->graph, a->pass->fault);
}

static bool prepare_reduction(AdjointBody *a) {
  ReversePass *p = a->pass;
  PrimId op = a->n->reduce;
  if (!prim_is_extreme(op) && !adjoint_reduces_product(op))
    return true;
  a->count = reverse_own(p, reduce_terms(a, false));
  if (adjoint_reduces_product(op) && a->count)
    a->product = reverse_own(p, reduce_terms(a, true));
  return a->count && (!adjoint_reduces_product(op) || a->product);
}

/* ---- contributions in parts ---- */

/* True if so few elements of the axis are read that the others should not be
 * computed as sums of zeros. */
static bool interval_pays(const AdjointBody *a, const Node *u, uint32_t k) {
  Graph *g = a->pass->graph;
  double all = (double)extent_hint(g, u->extents[u->free_count + k]),
         some = (double)extent_hint(g, a->x.counts[k]);
  return a->spec.reduce_count && all - some >= MIN_UNREAD_SHARE * all;
}

/* How the elements are divided; false: all are computed alike. */
static bool find_parts(AdjointBody *a, const Node *u, Part *r,
                       uint32_t *count) {
  bool any = false;
  *count = 1;
  *r = (Part){.strides = {0}};
  for (uint32_t k = 0; k < u->rank; k++) {
    int64_t stride = a->x.strides[k], extent = u->extents[u->free_count + k];
    r->is_interval[k] = interval_pays(a, u, k);
    r->lows[k] = a->x.lows[k], r->counts[k] = a->x.counts[k];
    bool divides =
        !r->is_interval[k] && stride > 1 && stride <= MAX_RESIDUES &&
        (!extent_is_static(a->pass->graph, extent) || extent >= stride);
    r->strides[k] = divides ? stride : 1;
    any |= divides || r->is_interval[k];
    *count *= divides ? (uint32_t)stride : 1;
    if (*count > MAX_RESIDUES)
      return false;
  }
  return any;
}

static void set_residues(Part *r, const Node *u, uint32_t number) {
  for (uint32_t k = 0; k < u->rank; k++) {
    r->residues[k] = number % r->strides[k];
    number /= (uint32_t)r->strides[k];
  }
}

/* Element q of the part has this index in own axis k of U: q as an op of the
 * body of U.  Adds to *test whether the part has the element. */
static uint32_t index_in_part(AdjointBody *a, const Node *u, const Part *r,
                              uint32_t k, uint32_t *test) {
  BodyBuilder *b = &a->b;
  Graph *g = a->pass->graph;
  uint32_t axis = body_own_axis(b, k), tests[2], count = 0, index = axis;
  int64_t extent = u->extents[u->free_count + k], high = extent;
  if (r->strides[k] > 1) {
    uint32_t rest = body_floor_mod_int(b, axis, r->strides[k]);
    uint32_t residue = body_int(b, r->residues[k]);
    tests[count++] = body_op2(b, PRIM_EQ, DT_BOOL, rest, residue);
    index = body_floor_div_int(b, axis, r->strides[k]);
  } else if (r->is_interval[k]) {
    uint32_t low = body_int(b, r->lows[k]);
    index = body_op2(b, PRIM_SUB, DT_I64, axis, low);
    if (r->lows[k] != 0)
      tests[count++] = body_op2(b, PRIM_GE, DT_BOOL, axis, low);
    if (extent_add(g, r->lows[k], r->counts[k], &high) &&
        !extent_proved(g, EXTENT_LE, extent, high))
      tests[count++] = body_op2(b, PRIM_LT, DT_BOOL, axis, body_int(b, high));
  }
  for (uint32_t j = 0; j < count; j++)
    *test = *test == NO_OP ? tests[j]
                           : body_op2(b, PRIM_AND, DT_BOOL, *test, tests[j]);
  return index;
}

/* The contribution to U from its parts.  parts[k] is NULL if it is zero. */
static Node *joined_parts(AdjointBody *a, Node *u, Part *r, uint32_t count,
                          Node *const *parts) {
  BodyBuilder *b = &a->b;
  uint32_t own[MAX_RANK];
  contribution_spec(a, u);
  body_init(b, a->pass->graph, &a->spec);
  uint32_t value = adjoint_body_zero(a, u->dtype);
  for (uint32_t at = 0; at < count; at++) {
    if (!parts[at])
      continue;
    set_residues(r, u, at);
    uint32_t test = NO_OP;
    for (uint32_t k = 0; k < u->rank; k++)
      own[k] = index_in_part(a, u, r, k, &test);
    uint32_t read = body_read(b, parts[at], own);
    if (b->ops[read].kind == BODY_READ)
      b->ops[read].proved_safe = true;
    value = test == NO_OP ? read : body_select(b, test, read, value);
  }
  body_set_result(&a->b, value);
  return body_finish(b, a->pass->graph, a->pass->fault);
}

/* One dense node for each part.  A single node would add zeros, or read with
 * strides. */
static Node *gathered_by_parts(AdjointBody *a, uint32_t read, Part *r,
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
  return *is_zero ? NULL : joined_parts(a, u, r, count, parts);
}

/* Records that n made the only contribution to x. */
static bool contribute(AdjointBody *a, uint32_t read, Node *made) {
  Node *x = a->n->body_ops[read].node;
  Dependent *d = map_get(&a->pass->dependents, x);
  bool is_first = d && !d->cotangent;
  if (!reverse_contribute(a->pass, x, made))
    return false;
  if (is_first && a->result == a->n) {
    d->only_reader = a->n;
    d->reader_cotangent = a->g;
    d->only_read = read;
  }
  return true;
}

static bool contribute_read(AdjointBody *a, uint32_t read) {
  bool is_zero = false, inverted;
  Part r;
  uint32_t count;
  Node *made = gathered(a, read, NULL, &is_zero, &inverted);
  if (made && find_parts(a, a->n->body_ops[read].node, &r, &count)) {
    node_release(made);
    made = gathered_by_parts(a, read, &r, count, &is_zero);
  }
  if (!inverted)
    made = scattered(a, read, &is_zero);
  return is_zero || contribute(a, read, made);
}

static bool contribute_body(ReversePass *p, Node *n, Node *g, Node *result,
                            uint32_t read);

static bool contribute_to_divisor(ReversePass *p, const Node *n, Node *quotient,
                                  uint32_t read) {
  const Dependent *d = map_get(&p->dependents, n);
  return contribute_body(p, quotient, d->reader_cotangent, d->only_reader,
                         read);
}

static bool contribute_reads(AdjointBody *a) {
  const Node *n = a->n;
  if (!prepare_reduction(a))
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind != BODY_READ || !dtype_is_float(c->dtype) ||
        !reverse_depends(a->pass, c->node))
      continue;
    uint32_t read;
    Node *quotient = adjoint_quotient(a->pass, n, k, &read);
    if (quotient ? !contribute_to_divisor(a->pass, n, quotient, read)
                 : !contribute_read(a, k))
      return false;
  }
  return true;
}

/* The contribution of one read, or of all reads. */
static bool contribute_body(ReversePass *p, Node *n, Node *g, Node *result,
                            uint32_t read) {
  uint32_t ops = n->body_op_count;
  AdjointBody body, *a = &body;
  a->pass = p, a->n = n, a->g = g, a->result = result;
  a->count = a->product = NULL;
  a->condition = NO_OP;
  a->guards_all = a->has_guarded = false;
  a->copies = NEW_ARRAY(p->arena, uint32_t, ops);
  a->adjoints = NEW_ARRAY(p->arena, uint32_t, ops);
  a->on_path = NEW_ARRAY(p->arena, uint8_t, ops);
  body_init(&a->b, p->graph, &a->spec);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    body_drop(&a->b);
    trap_raise(trap.kind);
  }
  bool ok = read == NO_OP ? contribute_reads(a) : contribute_read(a, read);
  trap_end(&trap);
  return ok;
}

bool adjoint_comprehension(ReversePass *p, Node *n, Node *g) {
  return !dtype_is_float(n->dtype) || contribute_body(p, n, g, n, NO_OP);
}
