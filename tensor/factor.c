/* Sums of products of several factors: some of the factors are multiplied and
 * summed first, where what is left is less work.  v·B·w as written by a `for`
 * over both of its sums takes n² products for each element, and takes n when B
 * and v are done first: the best order of pairs of factors, greedily, by sums
 * that only some factors depend on (variable elimination; Smith and Gray,
 * opt_einsum, JOSS 2018). */
#include "tensor/internal.h"

#include <string.h>

enum { GUESSED_SIZE = 256 }; /* for one that is not known yet */

double factor_extent(const Graph *g, int64_t size) {
  return size_is_number(g, size) ? (double)size : GUESSED_SIZE;
}

static double points(const Factors *f, uint64_t axes) {
  double n = 1;
  for (uint32_t k = 0; k < f->axes; k++)
    if (axes >> k & 1)
      n *= f->extents[k];
  return n;
}

static uint64_t axes_of(const Factors *f, uint64_t factors) {
  uint64_t axes = 0;
  for (uint32_t k = 0; k < f->count; k++)
    if (factors >> k & 1)
      axes |= f->depends[k];
  return axes;
}

static uint64_t readers_of(const Factors *f, uint32_t axis) {
  uint64_t factors = 0;
  for (uint32_t k = 0; k < f->count; k++)
    factors |= (f->depends[k] >> axis & 1) << k;
  return factors;
}

/* Elements of all that is there now, as a measure of what memory may hold. */
static double elements(const Factors *f) {
  uint64_t every = (UINT64_C(1) << f->count) - 1;
  double n = points(f, axes_of(f, every) & ~f->summed);
  for (uint32_t k = 0; k < f->count; k++)
    n += points(f, f->depends[k]);
  return n;
}

bool factors_split(const Factors *f, Split *best) {
  uint64_t every = (UINT64_C(1) << f->count) - 1;
  uint64_t all = axes_of(f, every);
  double cost = points(f, all) / 2, room = 4 * elements(f);
  *best = (Split){0};
  for (uint32_t r = 0; r < f->axes; r++) {
    Split s = {.factors = readers_of(f, r)};
    if (!(f->summed >> r & 1) || s.factors == every || !s.factors)
      continue;
    uint64_t first = axes_of(f, s.factors);
    s.summed = first & f->summed & ~axes_of(f, every & ~s.factors);
    double work = points(f, first) + points(f, all & ~s.summed);
    if (work > cost || points(f, first & ~s.summed) > room)
      continue;
    cost = work;
    *best = s;
  }
  return best->factors;
}

/* ---- of a `for` ---- */

/* A product under a sum, as scalars of free indices. */
typedef struct Terms {
  Node *factors[TERMS_MOST];
  IndexVar *vars[RANK_MAX]; /* of the axes: those that the sum has of its own,
                               then those that are free */
  double extents[RANK_MAX];
  uint64_t depends[TERMS_MOST];
  uint32_t count, own, axes;
} Terms;

static const Cell *value_of(const Node *n) {
  return &n->cells[n->cell_count - 1];
}

static bool is_plain(const Node *n) {
  return n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->data &&
         !n->guard;
}

/* What was closed over, where each of its indices is an axis of its own. */
static Node *closed(const Node *x) {
  if (!is_plain(x) || value_of(x)->kind != CELL_READ)
    return NULL;
  Node *y = value_of(x)->node;
  uint32_t axes = x->free_count + x->rank;
  return is_plain(y) && y->rank == 0 && y->free_count == axes ? y : NULL;
}

static bool find_vars(Terms *t, const Node *x, const Node *y) {
  for (uint32_t k = 0; k < y->free_count; k++) {
    const Cell *c = &x->cells[value_of(x)->args[k]];
    if (c->kind != CELL_AXIS)
      return false;
    bool own = c->axis >= x->free_count;
    if (!own && x->free[c->axis] != y->free[k])
      return false;
    t->vars[own ? c->axis - x->free_count : x->rank + c->axis] = y->free[k];
  }
  t->own = x->rank;
  t->axes = x->rank + x->free_count;
  for (uint32_t k = 0; k < t->axes; k++)
    if (!t->vars[k]) /* one index stands for two axes */
      return false;
  return true;
}

static uint64_t depends(const Terms *t, const Node *n) {
  uint64_t axes = 0;
  for (uint32_t k = 0; k < n->free_count; k++)
    for (uint32_t j = 0; j < t->axes; j++)
      axes |= (uint64_t)(t->vars[j] == n->free[k]) << j;
  return axes;
}

/* False: there are too many. */
static bool find_factors(Terms *t, Node *n) {
  const Cell *c = is_plain(n) && n->rank == 0 ? value_of(n) : NULL;
  bool times = c && c->kind == CELL_OP && c->op == PRIM_MUL;
  for (uint32_t k = 0; times && k < 2; k++)
    times = n->cells[c->args[k]].kind == CELL_READ &&
            n->cells[c->args[k]].node->rank == 0;
  if (times)
    return find_factors(t, n->cells[c->args[0]].node) &&
           find_factors(t, n->cells[c->args[1]].node);
  if (t->count == TERMS_MOST)
    return false;
  t->depends[t->count] = depends(t, n);
  t->factors[t->count++] = n;
  return true;
}

/* The product of some factors and, where it is not NULL, of `more`. */
static Node *multiply(Graph *g, const Terms *t, uint64_t which, Node *more,
                      Fault *fault) {
  Node *product = more ? node_retain(more) : NULL;
  for (uint32_t k = 0; k < t->count; k++) {
    if (!(which >> k & 1))
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

/* The sum over `summed`, own axes in front, of a scalar, as a node with the
 * axes `kept` as its own; takes x, which may be NULL. */
static Node *sum_over(Graph *g, const Terms *t, uint64_t kept, uint64_t summed,
                      Node *x, Fault *fault) {
  IndexVar *vars[RANK_MAX];
  uint32_t count = 0, kept_count = 0;
  for (uint32_t k = 0; k < t->own; k++)
    if (kept >> k & 1)
      vars[count++] = t->vars[k];
  kept_count = count;
  for (uint32_t k = 0; k < t->own; k++)
    if (summed >> k & 1)
      vars[count++] = t->vars[k];
  Node *whole = x && count ? node_close(g, x, count, vars, fault) : NULL;
  if (x && !count)
    return x;
  node_release(x);
  if (!whole || count == kept_count)
    return whole;
  Node *sum = node_reduce(g, PRIM_SUM, whole, kept_count, count - kept_count,
                          false, fault);
  node_release(whole);
  return sum;
}

static uint64_t bits(uint32_t first, uint32_t count) {
  return ((UINT64_C(1) << count) - 1) << first;
}

Node *sum_apart(Graph *g, const Node *x, uint32_t first, uint32_t count,
                bool *apart, Fault *fault) {
  Terms t = {0};
  Node *y = g->guard ? NULL : closed(x);
  bool narrow = x->dtype == DT_F16 || x->dtype == DT_BF16;
  *apart = false;
  if (!y || narrow || !find_vars(&t, x, y) || !find_factors(&t, y))
    return NULL;
  for (uint32_t k = 0; k < t.axes; k++)
    t.extents[k] = factor_extent(g, t.vars[k]->extent);
  Factors f = {t.count, t.axes, t.extents, t.depends, bits(first, count)};
  Split s;
  if (!factors_split(&f, &s))
    return NULL;
  *apart = true;
  uint64_t every = bits(0, t.count), rest = every & ~s.factors;
  Node *part = multiply(g, &t, s.factors, NULL, fault);
  Node *sum = sum_over(g, &t, 0, s.summed, part, fault);
  Node *product = sum ? multiply(g, &t, rest, sum, fault) : NULL;
  node_release(sum);
  return sum_over(g, &t, bits(0, t.own) & ~f.summed, f.summed & ~s.summed,
                  product, fault);
}

/* ---- of 16 bits ---- */

/* Does n read c's node as node_map does it: each axis by its own? */
static bool is_read_alike(const Node *n, const Cell *c) {
  const Node *x = c->node;
  for (uint32_t k = 0; c->kind == CELL_READ && k < c->arg_count; k++) {
    const Cell *index = &n->cells[c->args[k]];
    uint32_t own = n->rank - x->rank + k - x->free_count;
    bool stretch = k >= x->free_count && node_is_star(x, k - x->free_count);
    if (index->kind != CELL_AXIS ? !stretch
        : k < x->free_count
            ? index->axis >= n->free_count || n->free[index->axis] != x->free[k]
            : index->axis != n->free_count + own)
      return false;
  }
  return c->kind == CELL_READ;
}

/* Is n a product of two nodes that it reads alike? */
static bool is_product(const Node *n) {
  const Cell *c = is_plain(n) ? value_of(n) : NULL;
  return c && c->kind == CELL_OP && c->op == PRIM_MUL &&
         is_read_alike(n, &n->cells[c->args[0]]) &&
         is_read_alike(n, &n->cells[c->args[1]]);
}

typedef Node *volatile Held[3]; /* what a trap has to let go of */

static void let_go(Held held) {
  for (uint32_t k = 0; k < 3; k++)
    node_release(held[k]);
}

/* The product that n is, in f32; closed over vars where there are some. */
static Node *widened(Graph *g, const Node *n, uint32_t count,
                     IndexVar *const *vars, Fault *fault) {
  Held held = {NULL};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    let_go(held);
    trap_raise(trap.kind);
  }
  for (uint32_t k = 0; k < 2; k++) {
    Node *factor = n->cells[value_of(n)->args[k]].node;
    held[k] = node_map(g, PRIM_CONVERT, 1, &factor, DT_F32, fault);
  }
  if (held[0] && held[1])
    held[2] =
        node_map(g, PRIM_MUL, 2, (Node *[]){held[0], held[1]}, DT_NONE, fault);
  Node *wide = held[2];
  if (wide)
    wide = vars ? node_close(g, wide, count, vars, fault) : node_retain(wide);
  trap_end(&trap);
  let_go(held);
  return wide;
}

Node *sum_wide(Graph *g, Node *x, Fault *fault) {
  Terms t = {0};
  if ((x->dtype != DT_F16 && x->dtype != DT_BF16) || g->guard)
    return x;
  const Node *y = closed(x);
  if (!is_product(y ? y : x) || (y && !find_vars(&t, x, y)))
    return x;
  return widened(g, y ? y : x, x->rank, y ? t.vars : NULL, fault);
}
