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
  LONG = 1 << 18,       /* elements: what is shorter stays in a cache */
  NEAR = 256,           /* neighbours that go along with each, at most */
  PART = 1 << 13,       /* elements of a part, at least, */
  PART_MOST = 1 << 16,  /* and at most, */
  PARTS_MOST = 1 << 12, /* where there are no more parts than that */
  DEEP = 4,             /* of nodes between a mean and its sum */
};

/* Where an axis of a node stands: at an axis of what is looked at; of a free
 * one that is the number of its index. */
typedef enum PlaceKind { ELSEWHERE, ZERO, FREE, OWN, REDUCED } PlaceKind;

typedef struct Place {
  PlaceKind kind;
  uint32_t axis;
} Place;

/* A node, and where its axes stand: the free ones, own ones, reduced ones. */
typedef struct View {
  Node *node;
  Place at[2 * RANK_MAX];
} View;

static bool is_pending(const Node *n) {
  return n->kind == NODE_COMP && !n->data && !n->guard;
}

static bool is_plain(const Node *n) {
  return is_pending(n) && n->reduce == PRIM_NONE;
}

static const Cell *value_of(const Node *n) {
  return &n->cells[n->cell_count - 1];
}

static View view_of(Node *n) {
  View v = {.node = n};
  for (uint32_t k = 0; k < n->free_count; k++)
    v.at[k] = (Place){FREE, n->free[k]->id};
  for (uint32_t k = 0; k < n->rank; k++)
    v.at[n->free_count + k] = (Place){OWN, k};
  for (uint32_t k = 0; k < n->reduce_count; k++)
    v.at[n->free_count + n->rank + k] = (Place){REDUCED, k};
  return v;
}

/* What a cell reads, as what is looked at sees it. */
static View view_read(const View *v, const Cell *read) {
  View r = {.node = read->node};
  for (uint32_t k = 0; k < read->arg_count; k++) {
    const Cell *index = &v->node->cells[read->args[k]];
    if (index->kind == CELL_AXIS)
      r.at[k] = v->at[index->axis];
    else if (index->kind == CELL_CONST && index->value.i == 0)
      r.at[k].kind = ZERO;
  }
  return r;
}

/* Is it another node's elements, all of them? */
static bool is_move(const Node *n) {
  const Cell *value = is_plain(n) ? value_of(n) : NULL;
  if (!value || value->kind != CELL_READ)
    return false;
  for (uint32_t k = 0; k < value->arg_count; k++) {
    const Cell *index = &n->cells[value->args[k]];
    if (index->kind == CELL_AXIS &&
        n->extents[index->axis] != value->node->extents[k])
      return false;
  }
  return true;
}

/* What merely moves elements is what they are of. */
static View without_moves(View v) {
  while (is_move(v.node))
    v = view_read(&v, value_of(v.node));
  return v;
}

/* The two values that v is op of. */
static bool view_args(View v, PrimId op, View args[2]) {
  v = without_moves(v);
  const Cell *value = is_plain(v.node) ? value_of(v.node) : NULL;
  if (!value || value->kind != CELL_OP || value->op != op)
    return false;
  for (uint32_t j = 0; j < 2; j++) {
    const Cell *arg = &v.node->cells[value->args[j]];
    if (arg->kind != CELL_READ)
      return false;
    args[j] = without_moves(view_read(&v, arg));
  }
  return true;
}

/* A free index that stands at another axis than its own is not followed. */
static bool is_known(const View *v, uint32_t k) {
  const Place *p = &v->at[k];
  const Node *n = v->node;
  return p->kind != ELSEWHERE &&
         (p->kind != FREE || (k < n->free_count && n->free[k]->id == p->axis));
}

static bool same_view(const View *x, const View *y) {
  bool same = x->node == y->node;
  for (uint32_t k = 0; same && k < x->node->free_count + x->node->rank; k++)
    same = x->at[k].kind == y->at[k].kind && x->at[k].axis == y->at[k].axis;
  return same;
}

/* ---- what is to be cut ---- */

typedef enum Role { KEPT, BEFORE, CUT, WITHIN } Role;

/* The sum, over own axes of a node; what becomes of each of these, and its
 * number there.  Parts have axes BEFORE, the number of the part, KEPT; they are
 * sums along the part, and the axes WITHIN. */
typedef struct Moments {
  Graph *graph;
  Node *of;
  uint32_t first, count;
  bool keep;
  Role roles[RANK_MAX];
  uint32_t numbers[RANK_MAX];
  uint32_t before, within;
  int64_t part, parts, extent; /* extent: of the axis that is cut */
  double each;                 /* elements of a whole part */
  View x, y, mean_x, mean_y;
  Node *sum_x, *sum_y;   /* that the means are of */
  Node *part_x, *part_y; /* sums of parts */
} Moments;

static bool is_summed(const Moments *m, const Place *p) {
  return p->kind == OWN && p->axis >= m->first && p->axis < m->first + m->count;
}

/* Has it each axis of the sum once, but for those of one element? */
static bool has_axes(const Moments *m, const View *x) {
  bool seen[RANK_MAX] = {false};
  const int64_t *own = node_own(m->of);
  for (uint32_t k = 0; k < x->node->free_count + x->node->rank; k++) {
    const Place *p = &x->at[k];
    if (!is_known(x, k) ||
        (p->kind == OWN &&
         (seen[p->axis] || own[p->axis] != x->node->extents[k])))
      return false;
    if (p->kind == OWN)
      seen[p->axis] = true;
  }
  for (uint32_t k = 0; k < m->of->rank; k++)
    if (!seen[k] && own[k] != 1)
      return false;
  return true;
}

static bool is_mean_like(const Moments *m, const View *mean) {
  for (uint32_t k = 0; k < mean->node->free_count + mean->node->rank; k++)
    if (!is_known(mean, k) || is_summed(m, &mean->at[k]))
      return false;
  return true;
}

/* Elements of all sums, with their neighbours: of each axis of x that is kept,
 * within one that is summed, a few. */
static double elements(const Moments *m) {
  const Node *x = m->x.node;
  double all = 1, near = 1;
  bool within = false;
  for (uint32_t k = 0; k < x->free_count + x->rank; k++)
    if (is_summed(m, &m->x.at[k])) {
      all *= (double)x->extents[k];
      within = true;
    } else if (within) {
      near *= (double)x->extents[k];
    }
  return all * (near < NEAR ? near : NEAR);
}

/* Cuts the axis of x, from the innermost on, at which so many elements are
 * together; false: all of it is short. */
static bool choose_cut(Moments *m) {
  const Node *x = m->x.node;
  double all = elements(m), target = all / PARTS_MOST, near = 1;
  if (all < LONG)
    return false;
  target = target < PART ? PART : target > PART_MOST ? PART_MOST : target;
  m->each = 1;
  for (uint32_t k = x->free_count + x->rank; k-- > 0;) {
    double extent = (double)x->extents[k], inner = m->each * near;
    if (!is_summed(m, &m->x.at[k])) {
      near = near * extent < NEAR ? near * extent : NEAR;
      continue;
    }
    Role *role = &m->roles[m->x.at[k].axis];
    *role = m->extent ? BEFORE : inner * extent < target ? WITHIN : CUT;
    if (*role == CUT) {
      m->extent = x->extents[k];
      m->part = (int64_t)ceil(target / inner);
    }
    m->each *= *role == WITHIN ? extent : 1;
  }
  return m->extent > 0;
}

/* A part that leaves none over, where there is one of about that length. */
static void choose_part(Moments *m) {
  int64_t least = m->part;
  for (int64_t n = least; n <= 2 * least && n <= m->extent; n++)
    if (m->extent % n == 0) {
      m->part = n;
      break;
    }
  m->each *= (double)m->part;
  m->parts = (m->extent + m->part - 1) / m->part;
}

static void number_axes(Moments *m) {
  uint32_t kept = 0;
  for (uint32_t t = 0; t < m->of->rank; t++)
    if (m->roles[t] == BEFORE)
      m->numbers[t] = m->before++;
    else if (m->roles[t] == WITHIN)
      m->numbers[t] = ++m->within; /* behind the part's own */
    else if (m->roles[t] == KEPT)
      m->numbers[t] = kept++;
}

static bool is_ragged(const Moments *m) {
  return m->extent % m->part != 0;
}

/* ---- sums of parts ---- */

/* The free indices of x that are such here, too. */
static void free_of(Form *form, const View *x) {
  for (uint32_t k = 0; k < x->node->free_count; k++)
    if (x->at[k].kind == FREE)
      form_free_add(form, x->node->free[k]);
}

/* Of the parts, of x and perhaps of y. */
static void part_form(const Moments *m, Form *form, const View *x,
                      const View *y) {
  const int64_t *own = node_own(m->of);
  *form = (Form){.dtype = m->of->dtype, .reduce = PRIM_SUM};
  free_of(form, x);
  if (y)
    free_of(form, y);
  form->rank = m->before + 1;
  form->own[m->before] = m->parts;
  form->reduce_count = 1 + m->within;
  form->reduced[0] = m->part;
  for (uint32_t t = 0; t < m->of->rank; t++)
    if (m->roles[t] == BEFORE)
      form->own[m->numbers[t]] = own[t];
    else if (m->roles[t] == WITHIN)
      form->reduced[m->numbers[t]] = own[t];
    else if (m->roles[t] == KEPT)
      form->own[form->rank++] = own[t];
}

/* The axis that is cut, in the body of a part. */
static uint32_t cut_index(const Moments *m, Body *b) {
  uint32_t from = body_times(b, body_own(b, m->before), m->part);
  uint32_t at = body_reduced(b, 0);
  return body_op2(b, PRIM_ADD, DT_I64, from, at);
}

static uint32_t part_axis(const Moments *m, Body *b, uint32_t t) {
  uint32_t n = m->numbers[t];
  return m->roles[t] == BEFORE   ? body_own(b, n)
         : m->roles[t] == WITHIN ? body_reduced(b, n)
         : m->roles[t] == KEPT   ? body_own(b, m->before + 1 + n)
                                 : cut_index(m, b);
}

/* What is looked at, where cells are its axes' places. */
static uint32_t read_view(Body *b, const View *x, const uint32_t *cells) {
  Node *n = x->node;
  uint32_t own[RANK_MAX], bound_count = 0;
  IndexBinding bound[RANK_MAX];
  for (uint32_t k = 0; k < n->free_count + n->rank; k++) {
    const Place *p = &x->at[k];
    if (p->kind == FREE)
      continue;
    uint32_t cell = p->kind == ZERO ? body_int(b, 0) : cells[p->axis];
    if (k < n->free_count)
      bound[bound_count++] = (IndexBinding){n->free[k], cell};
    else
      own[k - n->free_count] = cell;
  }
  return body_read_bound(b, n, own, bound_count, bound);
}

/* Is there an element, at the end of the last part? */
static uint32_t is_there(const Moments *m, Body *b) {
  uint32_t at = cut_index(m, b), extent = body_int(b, m->extent);
  return body_op2(b, PRIM_LT, DT_BOOL, at, extent);
}

static uint32_t number(const Moments *m, Body *b, double x) {
  return body_const(b, (Scalar){.dtype = m->of->dtype, .f = x});
}

/* x, or zero behind the end of the last part. */
static uint32_t if_there(const Moments *m, Body *b, uint32_t x) {
  if (!is_ragged(m))
    return x;
  uint32_t zero = number(m, b, 0), there = is_there(m, b);
  return body_select(b, there, x, zero);
}

/* Behind the last element it is zero. */
static uint32_t read_part(const Moments *m, Body *b, const View *x) {
  uint32_t cells[RANK_MAX];
  for (uint32_t t = 0; t < m->of->rank; t++)
    cells[t] = part_axis(m, b, t);
  return if_there(m, b, read_view(b, x, cells));
}

static bool is_safe(const Node *n) {
  return n->safe || n->data;
}

/* What it reads of x and y is inside of these. */
static Node *part_node(const Moments *m, Body *b, const View *x, const View *y,
                       Fault *fault) {
  Node *n = body_node(b, m->graph, fault);
  if (n)
    n->safe = is_safe(x->node) && (!y || is_safe(y->node));
  return n;
}

static Node *sum_of_part(const Moments *m, const View *x, Fault *fault) {
  Form form;
  part_form(m, &form, x, NULL);
  Body b;
  body_init(&b, m->graph, &form);
  read_part(m, &b, x);
  return part_node(m, &b, x, NULL, fault);
}

/* Elements of the part that axis `axis` stands at. */
static uint32_t length(const Moments *m, Body *b, uint32_t axis) {
  uint32_t whole = number(m, b, m->each);
  if (!is_ragged(m))
    return whole;
  uint32_t last = body_int(b, m->parts - 1);
  double left = (double)(m->extent % m->part) * (m->each / (double)m->part);
  uint32_t is_last = body_op2(b, PRIM_EQ, DT_BOOL, axis, last);
  uint32_t rest = number(m, b, left);
  return body_select(b, is_last, rest, whole);
}

static uint32_t binary(const Moments *m, Body *b, PrimId op, uint32_t x,
                       uint32_t y) {
  return body_op2(b, op, m->of->dtype, x, y);
}

/* The mean of the part. */
static uint32_t center(const Moments *m, Body *b, Node *part) {
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < part->rank; k++)
    own[k] = body_own(b, k);
  uint32_t sum = body_read(b, part, own);
  return binary(m, b, PRIM_DIV, sum, length(m, b, own[m->before]));
}

static uint32_t difference(const Moments *m, Body *b, const View *x,
                           Node *part) {
  uint32_t at = read_part(m, b, x);
  return binary(m, b, PRIM_SUB, at, center(m, b, part));
}

/* The sum of x - c of each part; with y, times y - d. */
static Node *centered(const Moments *m, const View *x, Node *part,
                      const View *y, Node *part_y, Fault *fault) {
  Form form;
  part_form(m, &form, x, y);
  Body b;
  body_init(&b, m->graph, &form);
  uint32_t value = difference(m, &b, x, part);
  if (y && part_y == part)
    value = binary(m, &b, PRIM_MUL, value, value);
  else if (y)
    value = binary(m, &b, PRIM_MUL, value, difference(m, &b, y, part_y));
  if_there(m, &b, value);
  return part_node(m, &b, x, y, fault);
}

/* ---- the sum that a mean is of ---- */

/* Is n the sum of x, over the same axes?  there: how it sees x. */
static bool is_sum_of(const Moments *m, Node *n, const View *x, View *there) {
  if (!is_pending(n) || n->reduce != PRIM_SUM || n->dtype != m->of->dtype ||
      value_of(n)->kind != CELL_READ)
    return false;
  View v = view_of(n);
  *there = without_moves(view_read(&v, value_of(n)));
  if (there->node != x->node)
    return false;
  const int64_t *reduced = node_own(n) + n->rank, *extents = x->node->extents;
  uint32_t summed = 0;
  for (uint32_t k = 0; k < x->node->free_count + x->node->rank; k++) {
    const Place *p = &there->at[k];
    bool over = p->kind == REDUCED;
    if (!is_known(there, k) || (p->kind == FREE) != (x->at[k].kind == FREE) ||
        over != is_summed(m, &x->at[k]) ||
        (over && (reduced[p->axis] != extents[k] || summed >> p->axis & 1)))
      return false;
    summed |= over ? 1u << p->axis : 0;
  }
  return summed == (1u << n->reduce_count) - 1;
}

/* The cells of the axes of parts, in the body of the sum over all parts: kept
 * are those of the axes that stay. */
static uint32_t read_sums(const Moments *m, Body *b, Node *part,
                          const uint32_t *kept) {
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k <= m->before; k++)
    own[k] = body_reduced(b, k);
  for (uint32_t t = 0; t < m->of->rank; t++)
    if (m->roles[t] == KEPT)
      own[m->before + 1 + m->numbers[t]] = kept[t];
  return body_read(b, part, own);
}

static void reduce_parts(const Moments *m, Form *form) {
  const int64_t *own = node_own(m->of);
  form->reduce = PRIM_SUM;
  form->reduce_count = m->before + 1;
  form->reduced[m->before] = m->parts;
  for (uint32_t t = 0; t < m->of->rank; t++)
    if (m->roles[t] == BEFORE)
      form->reduced[m->numbers[t]] = own[t];
}

/* The node is from now on the sum of what `other` is, which has its axes. */
static void become(Node *n, Node *other) {
  Cell *cells = n->cells;
  uint32_t count = n->cell_count, axes = n->free_count + n->rank;
  n->cells = other->cells;
  n->cell_count = other->cell_count;
  n->reduce_count = other->reduce_count;
  memcpy(n->extents + axes, other->extents + axes,
         other->reduce_count * sizeof *n->extents);
  other->cells = cells;
  other->cell_count = count;
  n->safe = other->safe;
  node_release(other);
}

static bool sum_parts(const Moments *m, Node *sum, const View *x,
                      const View *there, Node *part, Fault *fault) {
  Form form = {.dtype = sum->dtype, .rank = sum->rank, .stars = sum->stars};
  memcpy(form.own, node_own(sum), sum->rank * sizeof *form.own);
  form_free(&form, 1, &sum, fault);
  reduce_parts(m, &form);
  Body b;
  body_init(&b, m->graph, &form);
  uint32_t kept[RANK_MAX];
  for (uint32_t t = 0; t < m->of->rank; t++)
    kept[t] = UINT32_MAX;
  for (uint32_t k = 0; k < x->node->free_count + x->node->rank; k++)
    if (x->at[k].kind == OWN && there->at[k].kind == OWN)
      kept[x->at[k].axis] = body_own(&b, there->at[k].axis);
  for (uint32_t t = 0; t < m->of->rank; t++)
    if (kept[t] == UINT32_MAX)
      kept[t] = body_int(&b, 0);
  read_sums(m, &b, part, kept);
  Node *made = body_node(&b, m->graph, fault);
  if (made)
    become(sum, made);
  return made;
}

/* The sum of x behind a mean; NULL: there is none that is not done yet. */
static Node *find_sum(const Moments *m, Node *mean, const View *x,
                      uint32_t deep) {
  View there;
  if (is_sum_of(m, mean, x, &there))
    return mean;
  for (uint32_t k = 0; deep && is_plain(mean) && k < mean->cell_count; k++) {
    const Cell *c = &mean->cells[k];
    Node *found =
        c->kind == CELL_READ ? find_sum(m, c->node, x, deep - 1) : NULL;
    if (found)
      return found;
  }
  return NULL;
}

static Node *cut_sum(const Moments *m, Node *sum, const View *x, Fault *fault) {
  View there;
  if (!is_sum_of(m, sum, x, &there))
    return NULL;
  Node *part = sum_of_part(m, x, fault);
  if (part && sum_parts(m, sum, x, &there, part, fault))
    return part;
  node_release(part);
  return NULL;
}

/* ---- the whole ---- */

/* (c - m) or (d - n), and what belongs to it, in the body of all. */
static uint32_t offset(const Moments *m, Body *b, Node *part, const View *mean,
                       const uint32_t *kept, uint32_t n) {
  uint32_t c = binary(m, b, PRIM_DIV, read_sums(m, b, part, kept), n);
  return binary(m, b, PRIM_SUB, c, read_view(b, mean, kept));
}

typedef struct Parts { /* of all parts; NULL: 0, or not there */
  Node *products, *rest_x, *rest_y;
} Parts;

static Node *merged(const Moments *m, const Parts *p, Form *form,
                    Fault *fault) {
  Body b;
  body_init(&b, m->graph, form);
  uint32_t kept[RANK_MAX];
  for (uint32_t t = 0; t < m->of->rank; t++)
    kept[t] = m->roles[t] != KEPT       ? UINT32_MAX
              : m->keep || t < m->first ? body_own(&b, t)
                                        : body_own(&b, t - m->count);
  uint32_t n = length(m, &b, body_reduced(&b, m->before));
  uint32_t x = offset(m, &b, m->part_x, &m->mean_x, kept, n), y = x;
  if (m->part_y != m->part_x)
    y = offset(m, &b, m->part_y, &m->mean_y, kept, n);
  uint32_t value = binary(m, &b, PRIM_MUL, n, y);
  if (p->rest_y)
    value = binary(m, &b, PRIM_ADD, value, read_sums(m, &b, p->rest_y, kept));
  if (p->rest_x && y == x) /* twice the same */
    value = binary(m, &b, PRIM_ADD, value, read_sums(m, &b, p->rest_x, kept));
  value = binary(m, &b, PRIM_MUL, x, value);
  if (p->rest_x && y != x) {
    uint32_t rest = read_sums(m, &b, p->rest_x, kept);
    rest = binary(m, &b, PRIM_MUL, y, rest);
    value = binary(m, &b, PRIM_ADD, value, rest);
  }
  uint32_t products = read_sums(m, &b, p->products, kept);
  binary(m, &b, PRIM_ADD, products, value);
  return body_node(&b, m->graph, fault);
}

static Node *merge(const Moments *m, Form form, Fault *fault) {
  bool one = m->part_x == m->part_y;
  Parts p = {.products =
                 centered(m, &m->x, m->part_x, &m->y, m->part_y, fault)};
  if (!is_plain(m->x.node))
    p.rest_x = centered(m, &m->x, m->part_x, NULL, NULL, fault);
  if (one)
    p.rest_y = p.rest_x ? node_retain(p.rest_x) : NULL;
  else if (!is_plain(m->y.node))
    p.rest_y = centered(m, &m->y, m->part_y, NULL, NULL, fault);
  reduce_parts(m, &form);
  Node *all = p.products ? merged(m, &p, &form, fault) : NULL;
  node_release(p.products);
  node_release(p.rest_x);
  node_release(p.rest_y);
  return all;
}

static bool find_moments(Moments *m) {
  View factors[2], x[2], y[2];
  if (!view_args(view_of(m->of), PRIM_MUL, factors) ||
      !view_args(factors[0], PRIM_SUB, x) ||
      !view_args(factors[1], PRIM_SUB, y))
    return false;
  m->x = x[0], m->mean_x = x[1];
  m->y = y[0], m->mean_y = y[1];
  if (!has_axes(m, &m->x) || !has_axes(m, &m->y) ||
      !is_mean_like(m, &m->mean_x) || !is_mean_like(m, &m->mean_y) ||
      !choose_cut(m))
    return false;
  m->sum_x = find_sum(m, m->mean_x.node, &m->x, DEEP);
  m->sum_y = m->sum_x ? find_sum(m, m->mean_y.node, &m->y, DEEP) : NULL;
  return m->sum_y;
}

Node *moments_sum(Graph *g, Node *x, uint32_t first, uint32_t count, bool keep,
                  const Form *form, Fault *fault) {
  Moments m = {.graph = g, .of = x, .first = first, .count = count};
  m.keep = keep;
  if (g->guard || g->sizes || (x->dtype != DT_F32 && x->dtype != DT_F64) ||
      !is_plain(x) || x->free_count + x->rank > RANK_MAX - 2 ||
      (double)node_count(x) < LONG || !find_moments(&m))
    return NULL;
  choose_part(&m);
  number_axes(&m);
  bool one = same_view(&m.x, &m.y) && same_view(&m.mean_x, &m.mean_y);
  if (!one && m.sum_x == m.sum_y)
    return NULL;
  m.part_x = cut_sum(&m, m.sum_x, &m.x, fault);
  m.part_y = one || !m.part_x ? m.part_x : cut_sum(&m, m.sum_y, &m.y, fault);
  Node *all = m.part_y ? merge(&m, *form, fault) : NULL;
  node_release(m.part_x);
  if (!one)
    node_release(m.part_y);
  return all;
}
