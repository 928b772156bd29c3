/* One-pass moments: sums of products of deviations, such as a variance, in one
 * pass over memory.
 *
 * The sum of (x - m) (y - n), where m and n are means of x and y, needs the
 * means first.  So x and y would be read from memory twice.  But for any c and
 * d, and N terms,
 *
 *     sum (x - m) (y - n) = sum (x - c) (y - d) + (c - m) sum (y - d)
 *                         + (d - n) sum (x - c) + N (c - m) (d - n)
 *
 * So the terms are split into parts that fit into a cache.  For each part, its
 * sums are computed first.  Then c and d are the means of the part, and the
 * products follow.  When m and n are known, only a few numbers per part are
 * combined (Chan, Golub, LeVeque, Algorithms for computing the sample variance,
 * 1983).  The total sums become sums over the parts.
 *
 * This is as accurate as two passes, since deviations are small.  It is correct
 * for all m and n.
 *
 * Exactly, the sums of x - c are 0; computed, they are rounding errors.  They
 * are left out if x is inlined, since x would have to be computed once more for
 * them. */
#include "machine/limits/planner.h"
#include "tensor/internal.h"

#include <math.h>
#include <string.h>

/* The index of an axis of a node, in terms of the axes of another node, the
 * operand of the sum.  For a free axis, `axis` is the number of its index. */
typedef enum AxisSource {
  AXIS_UNKNOWN,
  AXIS_ZERO,
  AXIS_FREE,
  AXIS_OWN,
  AXIS_REDUCED
} AxisSource;

typedef struct AxisRef {
  AxisSource kind;
  uint32_t axis;
} AxisRef;

/* A node, and the indices of its axes: free, own, reduced. */
typedef struct AccessMap {
  Node *node;
  AxisRef axes[2 * MAX_RANK];
} AccessMap;

static bool is_pending(const Node *n) {
  return n->kind == NODE_COMP && !n->data && !n->guard;
}

static bool is_pending_pointwise(const Node *n) {
  return is_pending(n) && n->reduce == PRIM_NONE;
}

static const BodyOp *body_value(const Node *n) {
  return &n->body_ops[n->body_op_count - 1];
}

static AccessMap identity_map(Node *n) {
  AccessMap v = {.node = n};
  for (uint32_t k = 0; k < n->free_count; k++)
    v.axes[k] = (AxisRef){AXIS_FREE, n->free_vars[k]->id};
  for (uint32_t k = 0; k < n->rank; k++)
    v.axes[n->free_count + k] = (AxisRef){AXIS_OWN, k};
  for (uint32_t k = 0; k < n->reduce_count; k++)
    v.axes[n->free_count + n->rank + k] = (AxisRef){AXIS_REDUCED, k};
  return v;
}

/* What an op reads, in terms of the same axes as v. */
static AccessMap compose_read(const AccessMap *v, const BodyOp *read) {
  AccessMap r = {.node = read->node};
  for (uint32_t k = 0; k < read->arg_count; k++) {
    const BodyOp *index = &v->node->body_ops[read->args[k]];
    if (index->kind == BODY_AXIS)
      r.axes[k] = v->axes[index->axis];
    else if (index->kind == BODY_CONST && index->value.i == 0)
      r.axes[k].kind = AXIS_ZERO;
  }
  return r;
}

/* True if n has the elements of another node, all of them. */
static bool is_view(const Node *n) {
  const BodyOp *value = is_pending_pointwise(n) ? body_value(n) : NULL;
  if (!value || value->kind != BODY_READ)
    return false;
  for (uint32_t k = 0; k < value->arg_count; k++) {
    const BodyOp *index = &n->body_ops[value->args[k]];
    if (index->kind == BODY_AXIS &&
        n->extents[index->axis] != value->node->extents[k])
      return false;
  }
  return true;
}

/* Looks through views. */
static AccessMap skip_views(AccessMap v) {
  while (is_view(v.node))
    v = compose_read(&v, body_value(v.node));
  return v;
}

/* Matches v = args[0] op args[1]. */
static bool match_binary(AccessMap v, PrimId op, AccessMap args[2]) {
  v = skip_views(v);
  const BodyOp *value =
      is_pending_pointwise(v.node) ? body_value(v.node) : NULL;
  if (!value || value->kind != BODY_OP || value->op != op)
    return false;
  for (uint32_t j = 0; j < 2; j++) {
    const BodyOp *arg = &v.node->body_ops[value->args[j]];
    if (arg->kind != BODY_READ)
      return false;
    args[j] = skip_views(compose_read(&v, arg));
  }
  return true;
}

/* A free index that is read at another axis is not followed. */
static bool axis_is_known(const AccessMap *v, uint32_t k) {
  const AxisRef *p = &v->axes[k];
  const Node *n = v->node;
  return p->kind != AXIS_UNKNOWN &&
         (p->kind != AXIS_FREE ||
          (k < n->free_count && n->free_vars[k]->id == p->axis));
}

static bool same_access(const AccessMap *x, const AccessMap *y) {
  bool same = x->node == y->node;
  for (uint32_t k = 0; same && k < x->node->free_count + x->node->rank; k++)
    same = x->axes[k].kind == y->axes[k].kind &&
           x->axes[k].axis == y->axes[k].axis;
  return same;
}

/* ---- choice of the parts ---- */

typedef enum AxisRole {
  ROLE_KEPT,
  ROLE_OUTER,
  ROLE_SPLIT,
  ROLE_INNER
} AxisRole;

/* The sum over own axes of `operand`.  roles[k] is what becomes of own axis k;
 * positions[k] is its number in that role.  Partial sums have the axes OUTER,
 * the number of the part, KEPT.  They are sums along the part and the axes
 * INNER. */
typedef struct Moments {
  Graph *graph;
  Node *operand;
  uint32_t first, count;
  bool keepdims;
  AxisRole roles[MAX_RANK];
  uint32_t positions[MAX_RANK];
  uint32_t outer_count, inner_count;
  /* split_extent: extent of the axis that is split. */
  int64_t part_length, part_count, split_extent;
  double part_elements; /* elements of a full part */
  AccessMap x, y, mean_x, mean_y;
  Node *sum_x, *sum_y;         /* the sums behind the means */
  Node *partial_x, *partial_y; /* sums of the parts */
} Moments;

static bool is_summed_axis(const Moments *m, const AxisRef *p) {
  return p->kind == AXIS_OWN && p->axis >= m->first &&
         p->axis < m->first + m->count;
}

/* True if x has each axis of the sum once, axes of extent 1 excepted. */
static bool covers_axes(const Moments *m, const AccessMap *x) {
  bool seen[MAX_RANK] = {false};
  const int64_t *own = node_own_extents(m->operand);
  for (uint32_t k = 0; k < x->node->free_count + x->node->rank; k++) {
    const AxisRef *p = &x->axes[k];
    if (!axis_is_known(x, k) ||
        (p->kind == AXIS_OWN &&
         (seen[p->axis] || own[p->axis] != x->node->extents[k])))
      return false;
    if (p->kind == AXIS_OWN)
      seen[p->axis] = true;
  }
  for (uint32_t k = 0; k < m->operand->rank; k++)
    if (!seen[k] && own[k] != 1)
      return false;
  return true;
}

static bool is_constant_along_sum(const Moments *m, const AccessMap *mean) {
  for (uint32_t k = 0; k < mean->node->free_count + mean->node->rank; k++)
    if (!axis_is_known(mean, k) || is_summed_axis(m, &mean->axes[k]))
      return false;
  return true;
}

/* Number of elements of all sums.  Kept axes of x inside a summed axis count up
 * to MAX_MOMENT_INNER_ELEMENTS. */
static double summed_elements(const Moments *m) {
  const Node *x = m->x.node;
  double all = 1, neighbours = 1;
  bool within = false;
  for (uint32_t k = 0; k < x->free_count + x->rank; k++)
    if (is_summed_axis(m, &m->x.axes[k])) {
      all *= (double)x->extents[k];
      within = true;
    } else if (within) {
      neighbours *= (double)x->extents[k];
    }
  return all * (neighbours < MAX_MOMENT_INNER_ELEMENTS
                    ? neighbours
                    : MAX_MOMENT_INNER_ELEMENTS);
}

/* Assigns roles from the innermost axis of x outwards.  Splits the axis at
 * which a part has enough elements.  Returns false if the sum is short. */
static bool choose_split_axis(Moments *m) {
  const Node *x = m->x.node;
  double all = summed_elements(m), target = all / MAX_MOMENT_PARTS,
         neighbours = 1;
  if (all < MIN_MOMENT_ELEMENTS)
    return false;
  target = target < MIN_MOMENT_PART_ELEMENTS   ? MIN_MOMENT_PART_ELEMENTS
           : target > MAX_MOMENT_PART_ELEMENTS ? MAX_MOMENT_PART_ELEMENTS
                                               : target;
  m->part_elements = 1;
  for (uint32_t k = x->free_count + x->rank; k-- > 0;) {
    double extent = (double)x->extents[k],
           inner = m->part_elements * neighbours;
    if (!is_summed_axis(m, &m->x.axes[k])) {
      neighbours = neighbours * extent < MAX_MOMENT_INNER_ELEMENTS
                       ? neighbours * extent
                       : MAX_MOMENT_INNER_ELEMENTS;
      continue;
    }
    AxisRole *role = &m->roles[m->x.axes[k].axis];
    *role = m->split_extent           ? ROLE_OUTER
            : inner * extent < target ? ROLE_INNER
                                      : ROLE_SPLIT;
    if (*role == ROLE_SPLIT) {
      m->split_extent = x->extents[k];
      m->part_length = (int64_t)ceil(target / inner);
    }
    m->part_elements *= *role == ROLE_INNER ? extent : 1;
  }
  return m->split_extent > 0;
}

/* Chooses a similar length that divides the extent, if there is one. */
static void choose_part_length(Moments *m) {
  int64_t min_length = m->part_length;
  for (int64_t n = min_length; n <= 2 * min_length && n <= m->split_extent; n++)
    if (m->split_extent % n == 0) {
      m->part_length = n;
      break;
    }
  m->part_elements *= (double)m->part_length;
  m->part_count = (m->split_extent + m->part_length - 1) / m->part_length;
}

static void number_axes(Moments *m) {
  uint32_t kept = 0;
  for (uint32_t t = 0; t < m->operand->rank; t++)
    if (m->roles[t] == ROLE_OUTER)
      m->positions[t] = m->outer_count++;
    else if (m->roles[t] == ROLE_INNER)
      m->positions[t] = ++m->inner_count; /* position 0 is the part itself */
    else if (m->roles[t] == ROLE_KEPT)
      m->positions[t] = kept++;
}

static bool has_tail_part(const Moments *m) {
  return m->split_extent % m->part_length != 0;
}

/* ---- partial sums ---- */

/* Adds the free indices of x that are free here, too. */
static void add_free_vars(NodeSpec *spec, const AccessMap *x) {
  for (uint32_t k = 0; k < x->node->free_count; k++)
    if (x->axes[k].kind == AXIS_FREE)
      node_spec_add_free(spec, x->node->free_vars[k]);
}

/* The node spec of partial sums of x, and of y unless it is NULL. */
static void partial_spec(const Moments *m, NodeSpec *spec, const AccessMap *x,
                         const AccessMap *y) {
  const int64_t *own = node_own_extents(m->operand);
  *spec = (NodeSpec){.dtype = m->operand->dtype, .reduce = PRIM_SUM};
  add_free_vars(spec, x);
  if (y)
    add_free_vars(spec, y);
  spec->rank = m->outer_count + 1;
  spec->own_extents[m->outer_count] = m->part_count;
  spec->reduce_count = 1 + m->inner_count;
  spec->reduced_extents[0] = m->part_length;
  for (uint32_t t = 0; t < m->operand->rank; t++)
    if (m->roles[t] == ROLE_OUTER)
      spec->own_extents[m->positions[t]] = own[t];
    else if (m->roles[t] == ROLE_INNER)
      spec->reduced_extents[m->positions[t]] = own[t];
    else if (m->roles[t] == ROLE_KEPT)
      spec->own_extents[spec->rank++] = own[t];
}

/* The index along the split axis, in the body of a partial sum. */
static uint32_t split_axis_index(const Moments *m, BodyBuilder *b) {
  uint32_t from =
      body_mul_int(b, body_own_axis(b, m->outer_count), m->part_length);
  uint32_t at = body_reduced_axis(b, 0);
  return body_op2(b, PRIM_ADD, DT_I64, from, at);
}

static uint32_t partial_axis(const Moments *m, BodyBuilder *b, uint32_t t) {
  uint32_t n = m->positions[t];
  return m->roles[t] == ROLE_OUTER   ? body_own_axis(b, n)
         : m->roles[t] == ROLE_INNER ? body_reduced_axis(b, n)
         : m->roles[t] == ROLE_KEPT  ? body_own_axis(b, m->outer_count + 1 + n)
                                     : split_axis_index(m, b);
}

/* Reads x at the indices `cells` of the operand's axes. */
static uint32_t read_access(BodyBuilder *b, const AccessMap *x,
                            const uint32_t *cells) {
  Node *n = x->node;
  uint32_t own[MAX_RANK], binding_count = 0;
  IndexBinding bindings[MAX_RANK];
  for (uint32_t k = 0; k < n->free_count + n->rank; k++) {
    const AxisRef *p = &x->axes[k];
    if (p->kind == AXIS_FREE)
      continue;
    uint32_t cell = p->kind == AXIS_ZERO ? body_int(b, 0) : cells[p->axis];
    if (k < n->free_count)
      bindings[binding_count++] = (IndexBinding){n->free_vars[k], cell};
    else
      own[k - n->free_count] = cell;
  }
  return body_read_with_bindings(b, n, own, binding_count, bindings);
}

/* False beyond the end of the last part. */
static uint32_t is_in_bounds(const Moments *m, BodyBuilder *b) {
  uint32_t at = split_axis_index(m, b), extent = body_int(b, m->split_extent);
  return body_op2(b, PRIM_LT, DT_BOOL, at, extent);
}

static uint32_t float_constant(const Moments *m, BodyBuilder *b, double x) {
  return body_const(b, (Scalar){.dtype = m->operand->dtype, .f = x});
}

/* x; zero beyond the end of the last part. */
static uint32_t zero_out_of_bounds(const Moments *m, BodyBuilder *b,
                                   uint32_t x) {
  if (!has_tail_part(m))
    return x;
  uint32_t zero = float_constant(m, b, 0), there = is_in_bounds(m, b);
  return body_select(b, there, x, zero);
}

/* Zero beyond the end of the last part. */
static uint32_t read_in_part(const Moments *m, BodyBuilder *b,
                             const AccessMap *x) {
  uint32_t cells[MAX_RANK];
  for (uint32_t t = 0; t < m->operand->rank; t++)
    cells[t] = partial_axis(m, b, t);
  return zero_out_of_bounds(m, b, read_access(b, x, cells));
}

static bool is_speculatable(const Node *n) {
  return n->speculatable || n->data;
}

/* Its reads of x and y are in bounds. */
static Node *finish_partial(const Moments *m, BodyBuilder *b,
                            const AccessMap *x, const AccessMap *y,
                            Fault *fault) {
  Node *n = body_finish(b, m->graph, fault);
  if (n)
    n->speculatable =
        is_speculatable(x->node) && (!y || is_speculatable(y->node));
  return n;
}

static Node *partial_sum(const Moments *m, const AccessMap *x, Fault *fault) {
  NodeSpec spec;
  partial_spec(m, &spec, x, NULL);
  BodyBuilder b;
  body_init(&b, m->graph, &spec);
  read_in_part(m, &b, x);
  return finish_partial(m, &b, x, NULL, fault);
}

/* Number of elements of part number `axis`. */
static uint32_t elements_of_part(const Moments *m, BodyBuilder *b,
                                 uint32_t axis) {
  uint32_t whole_part = float_constant(m, b, m->part_elements);
  if (!has_tail_part(m))
    return whole_part;
  uint32_t last = body_int(b, m->part_count - 1);
  double left = (double)(m->split_extent % m->part_length) *
                (m->part_elements / (double)m->part_length);
  uint32_t is_last = body_op2(b, PRIM_EQ, DT_BOOL, axis, last);
  uint32_t rest = float_constant(m, b, left);
  return body_select(b, is_last, rest, whole_part);
}

static uint32_t binary(const Moments *m, BodyBuilder *b, PrimId op, uint32_t x,
                       uint32_t y) {
  return body_op2(b, op, m->operand->dtype, x, y);
}

/* The mean of the current part. */
static uint32_t part_mean(const Moments *m, BodyBuilder *b, Node *partial) {
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < partial->rank; k++)
    own[k] = body_own_axis(b, k);
  uint32_t sum = body_read(b, partial, own);
  return binary(m, b, PRIM_DIV, sum,
                elements_of_part(m, b, own[m->outer_count]));
}

static uint32_t deviation(const Moments *m, BodyBuilder *b, const AccessMap *x,
                          Node *partial) {
  uint32_t at = read_in_part(m, b, x);
  return binary(m, b, PRIM_SUB, at, part_mean(m, b, partial));
}

/* Partial sums of x - c; with y, of (x - c) (y - d). */
static Node *centered_sum(const Moments *m, const AccessMap *x, Node *partial,
                          const AccessMap *y, Node *partial_y, Fault *fault) {
  NodeSpec spec;
  partial_spec(m, &spec, x, y);
  BodyBuilder b;
  body_init(&b, m->graph, &spec);
  uint32_t value = deviation(m, &b, x, partial);
  if (y && partial_y == partial)
    value = binary(m, &b, PRIM_MUL, value, value);
  else if (y)
    value = binary(m, &b, PRIM_MUL, value, deviation(m, &b, y, partial_y));
  zero_out_of_bounds(m, &b, value);
  return finish_partial(m, &b, x, y, fault);
}

/* ---- the sum behind a mean ---- */

/* True if n is the sum of x over the same axes.  *there: how n reads x. */
static bool is_sum_of(const Moments *m, Node *n, const AccessMap *x,
                      AccessMap *there) {
  if (!is_pending(n) || n->reduce != PRIM_SUM ||
      n->dtype != m->operand->dtype || body_value(n)->kind != BODY_READ)
    return false;
  AccessMap v = identity_map(n);
  *there = skip_views(compose_read(&v, body_value(n)));
  if (there->node != x->node)
    return false;
  const int64_t *reduced = node_own_extents(n) + n->rank,
                *extents = x->node->extents;
  uint32_t summed = 0;
  for (uint32_t k = 0; k < x->node->free_count + x->node->rank; k++) {
    const AxisRef *p = &there->axes[k];
    bool over = p->kind == AXIS_REDUCED;
    if (!axis_is_known(there, k) ||
        (p->kind == AXIS_FREE) != (x->axes[k].kind == AXIS_FREE) ||
        over != is_summed_axis(m, &x->axes[k]) ||
        (over && (reduced[p->axis] != extents[k] || summed >> p->axis & 1)))
      return false;
    summed |= over ? 1u << p->axis : 0;
  }
  return summed == (1u << n->reduce_count) - 1;
}

/* Reads a partial sum, in the body of the sum over all parts.  `kept` has the
 * ops of the axes that remain. */
static uint32_t read_partial(const Moments *m, BodyBuilder *b, Node *partial,
                             const uint32_t *kept) {
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k <= m->outer_count; k++)
    own[k] = body_reduced_axis(b, k);
  for (uint32_t t = 0; t < m->operand->rank; t++)
    if (m->roles[t] == ROLE_KEPT)
      own[m->outer_count + 1 + m->positions[t]] = kept[t];
  return body_read(b, partial, own);
}

static void reduce_over_parts(const Moments *m, NodeSpec *spec) {
  const int64_t *own = node_own_extents(m->operand);
  spec->reduce = PRIM_SUM;
  spec->reduce_count = m->outer_count + 1;
  spec->reduced_extents[m->outer_count] = m->part_count;
  for (uint32_t t = 0; t < m->operand->rank; t++)
    if (m->roles[t] == ROLE_OUTER)
      spec->reduced_extents[m->positions[t]] = own[t];
}

/* Turns n into the sum that `other` is.  They have equal axes. */
static void replace_body(Node *n, Node *other) {
  BodyOp *cells = n->body_ops;
  uint32_t count = n->body_op_count, axes = n->free_count + n->rank;
  n->body_ops = other->body_ops;
  n->body_op_count = other->body_op_count;
  n->reduce_count = other->reduce_count;
  memcpy(n->extents + axes, other->extents + axes,
         other->reduce_count * sizeof *n->extents);
  other->body_ops = cells;
  other->body_op_count = count;
  n->speculatable = other->speculatable;
  node_release(other);
}

static bool sum_partials(const Moments *m, Node *sum, const AccessMap *x,
                         const AccessMap *there, Node *partial, Fault *fault) {
  NodeSpec spec = {.dtype = sum->dtype,
                   .rank = sum->rank,
                   .broadcast_mask = sum->broadcast_mask};
  memcpy(spec.own_extents, node_own_extents(sum),
         sum->rank * sizeof *spec.own_extents);
  node_spec_add_free_of(&spec, 1, &sum, fault);
  reduce_over_parts(m, &spec);
  BodyBuilder b;
  body_init(&b, m->graph, &spec);
  uint32_t kept[MAX_RANK];
  for (uint32_t t = 0; t < m->operand->rank; t++)
    kept[t] = UINT32_MAX;
  for (uint32_t k = 0; k < x->node->free_count + x->node->rank; k++)
    if (x->axes[k].kind == AXIS_OWN && there->axes[k].kind == AXIS_OWN)
      kept[x->axes[k].axis] = body_own_axis(&b, there->axes[k].axis);
  for (uint32_t t = 0; t < m->operand->rank; t++)
    if (kept[t] == UINT32_MAX)
      kept[t] = body_int(&b, 0);
  read_partial(m, &b, partial, kept);
  Node *made = body_finish(&b, m->graph, fault);
  if (made)
    replace_body(sum, made);
  return made;
}

/* Returns the sum of x behind a mean; NULL if there is none that is pending. */
static Node *find_pending_sum(const Moments *m, Node *mean, const AccessMap *x,
                              uint32_t depth_left) {
  AccessMap there;
  if (is_sum_of(m, mean, x, &there))
    return mean;
  for (uint32_t k = 0;
       depth_left && is_pending_pointwise(mean) && k < mean->body_op_count;
       k++) {
    const BodyOp *c = &mean->body_ops[k];
    Node *found = c->kind == BODY_READ
                      ? find_pending_sum(m, c->node, x, depth_left - 1)
                      : NULL;
    if (found)
      return found;
  }
  return NULL;
}

static Node *split_sum(const Moments *m, Node *sum, const AccessMap *x,
                       Fault *fault) {
  AccessMap there;
  if (!is_sum_of(m, sum, x, &there))
    return NULL;
  Node *partial = partial_sum(m, x, fault);
  if (partial && sum_partials(m, sum, x, &there, partial, fault))
    return partial;
  node_release(partial);
  return NULL;
}

/* ---- the result ---- */

/* c - m or d - n, in the body of the final sum. */
static uint32_t mean_shift(const Moments *m, BodyBuilder *b, Node *partial,
                           const AccessMap *mean, const uint32_t *kept,
                           uint32_t n) {
  uint32_t c = binary(m, b, PRIM_DIV, read_partial(m, b, partial, kept), n);
  return binary(m, b, PRIM_SUB, c, read_access(b, mean, kept));
}

typedef struct Partials { /* partial sums; NULL: zero, or not needed */
  Node *products, *residual_x, *residual_y;
} Partials;

static Node *combined_body(const Moments *m, const Partials *p, NodeSpec *spec,
                           Fault *fault) {
  BodyBuilder b;
  body_init(&b, m->graph, spec);
  uint32_t kept[MAX_RANK];
  for (uint32_t t = 0; t < m->operand->rank; t++)
    kept[t] = m->roles[t] != ROLE_KEPT      ? UINT32_MAX
              : m->keepdims || t < m->first ? body_own_axis(&b, t)
                                            : body_own_axis(&b, t - m->count);
  uint32_t n = elements_of_part(m, &b, body_reduced_axis(&b, m->outer_count));
  uint32_t x = mean_shift(m, &b, m->partial_x, &m->mean_x, kept, n), y = x;
  if (m->partial_y != m->partial_x)
    y = mean_shift(m, &b, m->partial_y, &m->mean_y, kept, n);
  uint32_t value = binary(m, &b, PRIM_MUL, n, y);
  if (p->residual_y)
    value = binary(m, &b, PRIM_ADD, value,
                   read_partial(m, &b, p->residual_y, kept));
  if (p->residual_x && y == x) /* both terms are equal */
    value = binary(m, &b, PRIM_ADD, value,
                   read_partial(m, &b, p->residual_x, kept));
  value = binary(m, &b, PRIM_MUL, x, value);
  if (p->residual_x && y != x) {
    uint32_t rest = read_partial(m, &b, p->residual_x, kept);
    rest = binary(m, &b, PRIM_MUL, y, rest);
    value = binary(m, &b, PRIM_ADD, value, rest);
  }
  uint32_t products = read_partial(m, &b, p->products, kept);
  binary(m, &b, PRIM_ADD, products, value);
  return body_finish(&b, m->graph, fault);
}

static Node *combine_parts(const Moments *m, NodeSpec spec, Fault *fault) {
  bool is_square = m->partial_x == m->partial_y;
  Partials p = {.products = centered_sum(m, &m->x, m->partial_x, &m->y,
                                         m->partial_y, fault)};
  if (!is_pending_pointwise(m->x.node))
    p.residual_x = centered_sum(m, &m->x, m->partial_x, NULL, NULL, fault);
  if (is_square)
    p.residual_y = p.residual_x ? node_retain(p.residual_x) : NULL;
  else if (!is_pending_pointwise(m->y.node))
    p.residual_y = centered_sum(m, &m->y, m->partial_y, NULL, NULL, fault);
  reduce_over_parts(m, &spec);
  Node *all = p.products ? combined_body(m, &p, &spec, fault) : NULL;
  node_release(p.products);
  node_release(p.residual_x);
  node_release(p.residual_y);
  return all;
}

static bool match_moments(Moments *m) {
  AccessMap factors[2], x[2], y[2];
  if (!match_binary(identity_map(m->operand), PRIM_MUL, factors) ||
      !match_binary(factors[0], PRIM_SUB, x) ||
      !match_binary(factors[1], PRIM_SUB, y))
    return false;
  m->x = x[0], m->mean_x = x[1];
  m->y = y[0], m->mean_y = y[1];
  if (!covers_axes(m, &m->x) || !covers_axes(m, &m->y) ||
      !is_constant_along_sum(m, &m->mean_x) ||
      !is_constant_along_sum(m, &m->mean_y) || !choose_split_axis(m))
    return false;
  m->sum_x = find_pending_sum(m, m->mean_x.node, &m->x, MAX_MEAN_SEARCH_DEPTH);
  m->sum_y = m->sum_x ? find_pending_sum(m, m->mean_y.node, &m->y,
                                         MAX_MEAN_SEARCH_DEPTH)
                      : NULL;
  return m->sum_y;
}

Node *moments_sum(Graph *g, Node *x, uint32_t first, uint32_t count,
                  bool keepdims, const NodeSpec *spec, Fault *fault) {
  Moments m = {.graph = g, .operand = x, .first = first, .count = count};
  m.keepdims = keepdims;
  if (g->guard || g->extent_table || node_is_recorded(x) ||
      (x->dtype != DT_F32 && x->dtype != DT_F64) || !is_pending_pointwise(x) ||
      x->free_count + x->rank > MAX_RANK - 2 ||
      (double)node_element_count(x) < MIN_MOMENT_ELEMENTS || !match_moments(&m))
    return NULL;
  choose_part_length(&m);
  number_axes(&m);
  bool is_square = same_access(&m.x, &m.y) && same_access(&m.mean_x, &m.mean_y);
  if (!is_square && m.sum_x == m.sum_y)
    return NULL;
  m.partial_x = split_sum(&m, m.sum_x, &m.x, fault);
  m.partial_y = is_square || !m.partial_x ? m.partial_x
                                          : split_sum(&m, m.sum_y, &m.y, fault);
  Node *all = m.partial_y ? combine_parts(&m, *spec, fault) : NULL;
  node_release(m.partial_x);
  if (!is_square)
    node_release(m.partial_y);
  return all;
}
