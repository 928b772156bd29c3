/* Sums of products of differences, such as a variance, in one pass.
 *
 * The sum of (x - m) (y - n), m and n being made of the sums of x and y, wants
 * those first: x and y come from memory twice.  But for any c and d, and N
 * terms,
 *
 *     sum (x - m) (y - n) = sum (x - c) (y - d) + (c - m) sum (y - d)
 *                         + (d - n) sum (x - c) + N (c - m) (d - n),
 *
 * so what is long is cut into parts that a cache keeps.  The sums of a part are
 * taken first, c and d are its means, then come its products; and what remains
 * to be done when m and n are known is a few numbers for each part (Chan,
 * Golub, LeVeque, Algorithms for computing the sample variance, 1983).  The
 * sums of all are from now on those of the parts.  That is as exact as two
 * passes, since differences are small; it holds whatever m and n come to.
 *
 * The sums of x - c are 0 but for what rounding has left of them.  They are
 * left out where x is a value that nobody stores: it would be computed for them
 * once more. */
#include "tensor/internal.h"

#include <math.h>
#include <string.h>

enum {
  MIN_ELEMENTS = 1 << 18, /* elements: what is shorter stays in a cache */
  MAX_NEIGHBOUR_ELEMENTS =
      256,                     /* neighbours that go along with each, at most */
  MIN_PART_ELEMENTS = 1 << 13, /* elements of a part, at least, */
  MAX_PART_ELEMENTS = 1 << 16, /* and at most, */
  MAX_PARTS = 1 << 12,         /* where there are no more parts than that */
  MAX_SEARCH_DEPTH = 4,        /* of nodes between a mean and its sum */
};

/* Where an axis of a node stands: at an axis of what is looked at; of a free
 * one that is the number of its index. */
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

/* A node, and where its axes stand: the free ones, own ones, reduced ones. */
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

/* What a cell reads, as what is looked at sees it. */
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

/* Is it another node's elements, all of them? */
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

/* What merely moves elements is what they are of. */
static AccessMap skip_views(AccessMap v) {
  while (is_view(v.node))
    v = compose_read(&v, body_value(v.node));
  return v;
}

/* The two values that v is op of. */
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

/* A free index that stands at another axis than its own is not followed. */
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

/* ---- what is to be cut ---- */

typedef enum AxisRole {
  ROLE_KEPT,
  ROLE_OUTER,
  ROLE_SPLIT,
  ROLE_INNER
} AxisRole;

/* The sum, over own axes of a node; what becomes of each of these, and its
 * number there.  Parts have axes BEFORE, the number of the part, KEPT; they are
 * sums along the part, and the axes WITHIN. */
typedef struct Moments {
  Graph *graph;
  Node *operand;
  uint32_t first, count;
  bool keepdims;
  AxisRole roles[MAX_RANK];
  uint32_t positions[MAX_RANK];
  uint32_t outer_count, inner_count;
  int64_t part_length, part_count,
      split_extent;     /* extent: of the axis that is cut */
  double part_elements; /* elements of a whole part */
  AccessMap x, y, mean_x, mean_y;
  Node *sum_x, *sum_y;         /* that the means are of */
  Node *partial_x, *partial_y; /* sums of parts */
} Moments;

static bool is_summed_axis(const Moments *m, const AxisRef *p) {
  return p->kind == AXIS_OWN && p->axis >= m->first &&
         p->axis < m->first + m->count;
}

/* Has it each axis of the sum once, but for those of one element? */
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

/* Elements of all sums, with their neighbours: of each axis of x that is kept,
 * within one that is summed, a few. */
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
  return all * (neighbours < MAX_NEIGHBOUR_ELEMENTS ? neighbours
                                                    : MAX_NEIGHBOUR_ELEMENTS);
}

/* Cuts the axis of x, from the innermost on, at which so many elements are
 * together; false: all of it is short. */
static bool choose_split_axis(Moments *m) {
  const Node *x = m->x.node;
  double all = summed_elements(m), target = all / MAX_PARTS, neighbours = 1;
  if (all < MIN_ELEMENTS)
    return false;
  target = target < MIN_PART_ELEMENTS   ? MIN_PART_ELEMENTS
           : target > MAX_PART_ELEMENTS ? MAX_PART_ELEMENTS
                                        : target;
  m->part_elements = 1;
  for (uint32_t k = x->free_count + x->rank; k-- > 0;) {
    double extent = (double)x->extents[k],
           inner = m->part_elements * neighbours;
    if (!is_summed_axis(m, &m->x.axes[k])) {
      neighbours = neighbours * extent < MAX_NEIGHBOUR_ELEMENTS
                       ? neighbours * extent
                       : MAX_NEIGHBOUR_ELEMENTS;
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

/* A part that leaves none over, where there is one of about that length. */
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
      m->positions[t] = ++m->inner_count; /* behind the part's own */
    else if (m->roles[t] == ROLE_KEPT)
      m->positions[t] = kept++;
}

static bool has_tail_part(const Moments *m) {
  return m->split_extent % m->part_length != 0;
}

/* ---- sums of parts ---- */

/* The free indices of x that are such here, too. */
static void add_free_vars(NodeSpec *spec, const AccessMap *x) {
  for (uint32_t k = 0; k < x->node->free_count; k++)
    if (x->axes[k].kind == AXIS_FREE)
      node_spec_add_free(spec, x->node->free_vars[k]);
}

/* Of the parts, of x and perhaps of y. */
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

/* The axis that is cut, in the body of a part. */
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

/* What is looked at, where cells are its axes' places. */
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

/* Is there an element, at the end of the last part? */
static uint32_t is_in_bounds(const Moments *m, BodyBuilder *b) {
  uint32_t at = split_axis_index(m, b), extent = body_int(b, m->split_extent);
  return body_op2(b, PRIM_LT, DT_BOOL, at, extent);
}

static uint32_t float_constant(const Moments *m, BodyBuilder *b, double x) {
  return body_const(b, (Scalar){.dtype = m->operand->dtype, .f = x});
}

/* x, or zero behind the end of the last part. */
static uint32_t zero_out_of_bounds(const Moments *m, BodyBuilder *b,
                                   uint32_t x) {
  if (!has_tail_part(m))
    return x;
  uint32_t zero = float_constant(m, b, 0), there = is_in_bounds(m, b);
  return body_select(b, there, x, zero);
}

/* Behind the last element it is zero. */
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

/* What it reads of x and y is inside of these. */
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

/* Elements of the part that axis `axis` stands at. */
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

/* The mean of the part. */
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

/* The sum of x - c of each part; with y, times y - d. */
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

/* ---- the sum that a mean is of ---- */

/* Is n the sum of x, over the same axes?  there: how it sees x. */
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

/* The cells of the axes of parts, in the body of the sum over all parts: kept
 * are those of the axes that stay. */
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

/* The node is from now on the sum of what `other` is, which has its axes. */
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

/* The sum of x behind a mean; NULL: there is none that is not done yet. */
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

/* ---- the whole ---- */

/* (c - m) or (d - n), and what belongs to it, in the body of all. */
static uint32_t mean_shift(const Moments *m, BodyBuilder *b, Node *partial,
                           const AccessMap *mean, const uint32_t *kept,
                           uint32_t n) {
  uint32_t c = binary(m, b, PRIM_DIV, read_partial(m, b, partial, kept), n);
  return binary(m, b, PRIM_SUB, c, read_access(b, mean, kept));
}

typedef struct Partials { /* of all parts; NULL: 0, or not there */
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
  if (p->residual_x && y == x) /* twice the same */
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
  m->sum_x = find_pending_sum(m, m->mean_x.node, &m->x, MAX_SEARCH_DEPTH);
  m->sum_y = m->sum_x
                 ? find_pending_sum(m, m->mean_y.node, &m->y, MAX_SEARCH_DEPTH)
                 : NULL;
  return m->sum_y;
}

Node *moments_sum(Graph *g, Node *x, uint32_t first, uint32_t count,
                  bool keepdims, const NodeSpec *spec, Fault *fault) {
  Moments m = {.graph = g, .operand = x, .first = first, .count = count};
  m.keepdims = keepdims;
  if (g->guard || g->extent_table ||
      (x->dtype != DT_F32 && x->dtype != DT_F64) || !is_pending_pointwise(x) ||
      x->free_count + x->rank > MAX_RANK - 2 ||
      (double)node_element_count(x) < MIN_ELEMENTS || !match_moments(&m))
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
