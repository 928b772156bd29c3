/* Constructors that compute nothing: other shapes and orders of the same
 * elements, as maps of indices. */
#include "tensor/internal.h"

#include <string.h>

static bool axis_fits(const Graph *g, const Node *x, uint32_t axis,
                      const char *what, Fault *fault) {
  if (axis < x->rank)
    return node_axis_sized(g, x, axis, what, fault);
  fault_set(fault, "%s along axis %u, but %s has %u", what, axis,
            node_text(g, x).text, x->rank);
  return false;
}

/* The form of x itself. */
static Form form_like(Node *x) {
  Form form = {.dtype = x->dtype, .rank = x->rank, .stars = x->stars};
  memcpy(form.own, node_own(x), x->rank * sizeof form.own[0]);
  for (uint32_t k = 0; k < x->free_count; k++)
    form_free_add(&form, x->free[k]);
  return form;
}

static void own_axes(Body *b, uint32_t count, uint32_t *own) {
  for (uint32_t k = 0; k < count; k++)
    own[k] = body_own(b, k);
}

static void resize_axis(Form *form, uint32_t axis, int64_t extent) {
  form->own[axis] = extent;
  form->stars &= ~((uint32_t)1 << axis);
}

/* ---- reshape ---- */

/* Saturates. */
static int64_t own_product(Graph *g, uint32_t count, const int64_t *extents) {
  int64_t product;
  return size_product(g, count, extents, &product) ? product : INT64_MAX;
}

/* The size of the axis that is to be solved for. */
static bool solve_axis(Graph *g, const Node *x, int64_t count, int64_t known,
                       int64_t *out, Fault *fault) {
  int64_t rest = 0;
  bool good = size_plainly(g, SIZE_LE, 1, known) &&
              size_mod(g, count, known, &rest);
  if (!good || rest) {
    fault_set(fault, "reshape: %s elements of %s are no multiple of %s",
              size_text(g, count).text, node_text(g, x).text,
              size_text(g, known).text);
    Fault again = *fault;
    if (!size_demand(g, SIZE_LE, 1, known, fault))
      return false;
    *fault = again;
    if (!size_mod(g, count, known, &rest) ||
        !size_demand(g, SIZE_EQ, rest, 0, fault))
      return false;
  }
  return size_div(g, count, known, out);
}

static bool solve_shape(Graph *g, const Node *x, uint32_t rank, int64_t *shape,
                        uint32_t stars, Fault *fault) {
  TypeText wanted = form_text(g, x->dtype, rank, shape, stars);
  int64_t count, known;
  uint32_t open = UINT32_MAX;
  for (uint32_t k = 0; k < rank; k++) {
    if (size_is_number(g, shape[k]) && shape[k] >= 0)
      continue;
    if (shape[k] == -1 && open == UINT32_MAX) {
      open = k;
      continue;
    }
    fault_set(fault, "reshape to %s: a size is negative", wanted.text);
    if (!size_demand(g, SIZE_LE, 0, shape[k], fault))
      return false;
  }
  if (open < rank)
    shape[open] = 1;
  count = own_product(g, x->rank, node_own(x));
  known = own_product(g, rank, shape);
  if (open < rank)
    return solve_axis(g, x, count, known, &shape[open], fault);
  if (known == count)
    return true;
  fault_set(fault, "reshape from %s to %s: %s elements are not %s",
            node_text(g, x).text, wanted.text, size_text(g, count).text,
            size_text(g, known).text);
  return size_demand(g, SIZE_EQ, known, count, fault);
}

/* Axes in[i0..i1) of x and out[j0..j1) of the result hold the same elements;
 * the result's number of them, and from it the index of each axis of x. */
static void reshape_group(Body *b, const int64_t *in, uint32_t i0, uint32_t i1,
                          const int64_t *out, uint32_t j0, uint32_t j1,
                          uint32_t *own) {
  uint32_t number = UINT32_MAX;
  int64_t stride = 1;
  for (uint32_t j = j1; j-- > j0;) {
    if (out[j] == 1)
      continue;
    uint32_t part = body_times(b, body_own(b, j), stride);
    number = number == UINT32_MAX ? part
                                  : body_op2(b, PRIM_ADD, DT_I64, part, number);
    size_mul(b->graph, stride, out[j], &stride);
  }
  stride = 1;
  for (uint32_t i = i1; i-- > i0;) {
    if (in[i] == 1 || number == UINT32_MAX) {
      own[i] = body_int(b, 0);
      continue;
    }
    own[i] = body_over(b, number, stride);
    bool first = true; /* is this the slowest axis of the group? */
    for (uint32_t k = i0; k < i; k++)
      first &= in[k] == 1;
    if (!first)
      own[i] = body_modulo(b, own[i], in[i]);
    size_mul(b->graph, stride, in[i], &stride);
  }
}

/* The next group: as few axes as hold the same elements.  Sizes that are no
 * numbers are told apart by their products alone. */
static void next_group(Graph *g, const Node *x, const Form *form, uint32_t *i,
                       uint32_t *j) {
  uint32_t most = x->rank - *i + form->rank - *j;
  for (uint32_t steps = 1; steps < most; steps++)
    for (uint32_t k = 0; k <= steps; k++) {
      uint32_t to_i = *i + k, to_j = *j + steps - k;
      if (to_i <= x->rank && to_j <= form->rank &&
          own_product(g, k, node_own(x) + *i) ==
              own_product(g, steps - k, form->own + *j)) {
        *i = to_i;
        *j = to_j;
        return;
      }
    }
  *i = x->rank;
  *j = form->rank;
}

static void reshape_symbolic(Body *b, const Node *x, const Form *form,
                             uint32_t *own) {
  uint32_t i = 0, j = 0;
  while (i < x->rank || j < form->rank) {
    uint32_t i0 = i, j0 = j;
    next_group(b->graph, x, form, &i, &j);
    reshape_group(b, node_own(x), i0, i, form->own, j0, j, own);
  }
}

static void reshape_axes(Body *b, const Node *x, const Form *form,
                         uint32_t *own) {
  const int64_t *in = node_own(x), *out = form->own;
  uint32_t i = 0, j = 0;
  while (i < x->rank || j < form->rank) {
    uint32_t i0 = i, j0 = j;
    int64_t pi = i < x->rank ? in[i++] : 1;
    int64_t pj = j < form->rank ? out[j++] : 1;
    while (pi != pj)
      if (pi < pj)
        pi *= in[i++];
      else
        pj *= out[j++];
    reshape_group(b, in, i0, i, out, j0, j, own);
  }
}

Node *node_reshape(Graph *g, Node *x, uint32_t rank, const int64_t *shape,
                   uint32_t stars, Fault *fault) {
  if (rank > RANK_MAX) {
    fault_set(fault, "more than %d axes", RANK_MAX);
    return NULL;
  }
  Form form = form_like(x);
  form.rank = rank;
  form.stars = stars;
  memcpy(form.own, shape, rank * sizeof *shape);
  if (!solve_shape(g, x, rank, form.own, stars, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  if (own_product(g, rank, form.own) == 0)
    for (uint32_t k = 0; k < x->rank; k++)
      own[k] = body_int(&b, 0);
  else if (g->sizes)
    reshape_symbolic(&b, x, &form, own);
  else
    reshape_axes(&b, x, &form, own);
  return body_move(&b, g, x, own, fault);
}

/* ---- other shapes ---- */

Node *node_permute(Graph *g, Node *x, const uint32_t *order, Fault *fault) {
  Form form = form_like(x);
  uint32_t seen = 0;
  form.stars = 0;
  for (uint32_t k = 0; k < x->rank; k++) {
    if (order[k] >= x->rank || (seen >> order[k] & 1)) {
      fault_set(fault, "permute wants each of the %u axes of %s once", x->rank,
                node_text(g, x).text);
      return NULL;
    }
    seen |= (uint32_t)1 << order[k];
    form.own[k] = node_own(x)[order[k]];
    form.stars |= (uint32_t)node_is_star(x, order[k]) << k;
  }
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < x->rank; k++)
    own[order[k]] = body_own(&b, k);
  return body_move(&b, g, x, own, fault);
}

static bool broadcasts(Graph *g, const Node *x, uint32_t rank,
                       const int64_t *shape, uint32_t stars, Fault *fault) {
  bool fits = rank >= x->rank;
  for (uint32_t at = 0; fits && at < rank; at++) {
    uint32_t k = at - (rank - x->rank);
    bool there = at >= rank - x->rank && !node_is_star(x, k);
    int64_t own = there ? node_own(x)[k] : 0;
    SizeTest test = there ? SIZE_EQ : SIZE_LE;
    if (size_plainly(g, test, own, shape[at]) && !(there && stars >> at & 1))
      continue;
    fits = !(there && stars >> at & 1);
    fault_set(fault, "%s does not broadcast to %s", node_text(g, x).text,
              form_text(g, x->dtype, rank, shape, stars).text);
    if (!fits || !size_demand(g, test, own, shape[at], fault))
      return false;
  }
  if (!fits)
    fault_set(fault, "%s does not broadcast to %s", node_text(g, x).text,
              form_text(g, x->dtype, rank, shape, stars).text);
  return fits;
}

Node *node_broadcast(Graph *g, Node *x, uint32_t rank, const int64_t *shape,
                     uint32_t stars, Fault *fault) {
  if (rank > RANK_MAX) {
    fault_set(fault, "more than %d axes", RANK_MAX);
    return NULL;
  }
  if (!broadcasts(g, x, rank, shape, stars, fault))
    return NULL;
  Form form = form_like(x);
  form.rank = rank;
  form.stars = stars;
  memcpy(form.own, shape, rank * sizeof *shape);
  Body b;
  body_init(&b, g, &form);
  body_read_axes(&b, x, rank - x->rank);
  return body_node(&b, g, fault);
}

Node *node_squeeze(Graph *g, Node *x, uint32_t first, uint32_t count,
                   Fault *fault) {
  if (first > x->rank || count > x->rank - first) {
    fault_set(fault, "squeeze of axes %u to %u, but %s has %u", first,
              first + count - 1, node_text(g, x).text, x->rank);
    return NULL;
  }
  for (uint32_t k = first; k < first + count; k++)
    if (node_own(x)[k] != 1) {
      fault_set(fault,
                "squeeze removes axes of size 1, but axis %u of %s has "
                "%s",
                k, node_text(g, x).text, size_text(g, node_own(x)[k]).text);
      if (!size_demand(g, SIZE_EQ, node_own(x)[k], 1, fault))
        return NULL;
    }
  Form form = form_like(x);
  form.rank = 0;
  form.stars = 0;
  for (uint32_t k = 0; k < x->rank; k++) {
    if (k >= first && k < first + count)
      continue;
    form.stars |= (uint32_t)node_is_star(x, k) << form.rank;
    form.own[form.rank++] = node_own(x)[k];
  }
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < x->rank; k++)
    if (k >= first && k < first + count)
      own[k] = body_int(&b, 0);
    else
      own[k] = body_own(&b, k < first ? k : k - count);
  return body_move(&b, g, x, own, fault);
}

/* ---- along one axis ---- */

Node *node_reverse(Graph *g, Node *x, uint32_t axis, Fault *fault) {
  if (!axis_fits(g, x, axis, "reverse", fault))
    return NULL;
  Form form = form_like(x);
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  own_axes(&b, x->rank, own);
  uint32_t most = body_int(&b, size_less(g, form.own[axis], 1));
  own[axis] = body_op2(&b, PRIM_SUB, DT_I64, most, own[axis]);
  return body_move(&b, g, x, own, fault);
}

Node *node_roll(Graph *g, Node *x, uint32_t axis, int64_t by, Fault *fault) {
  if (!axis_fits(g, x, axis, "roll", fault))
    return NULL;
  Form form = form_like(x);
  int64_t n = form.own[axis];
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  own_axes(&b, x->rank, own);
  if (!size_is_number(g, n) || !size_is_number(g, by)) {
    own[axis] = body_plus(&b, own[axis], size_less(g, 0, by));
    own[axis] = body_modulo(&b, own[axis], n);
  } else if (n > 1 && int_mod(by, n) != 0) {
    own[axis] = body_plus(&b, own[axis], n - int_mod(by, n));
    own[axis] = body_modulo(&b, own[axis], n);
  }
  return body_move(&b, g, x, own, fault);
}

Node *node_tile(Graph *g, Node *x, uint32_t axis, int64_t times, bool each,
                Fault *fault) {
  if (!axis_fits(g, x, axis, each ? "repeat" : "tile", fault))
    return NULL;
  Form form = form_like(x);
  int64_t n = form.own[axis], size;
  bool good = size_mul(g, n, times, &size);
  if (!good || !size_plainly(g, SIZE_LE, 0, times)) {
    fault_set(fault, "%s %s times of axis %u of %s", each ? "repeat" : "tile",
              size_text(g, times).text, axis, node_text(g, x).text);
    if (!good || !size_demand(g, SIZE_LE, 0, times, fault))
      return NULL;
  }
  resize_axis(&form, axis, size);
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  own_axes(&b, x->rank, own);
  if (size == 0)
    own[axis] = body_int(&b, 0);
  else
    own[axis] =
        each ? body_over(&b, own[axis], times) : body_modulo(&b, own[axis], n);
  return body_move(&b, g, x, own, fault);
}

static bool pad_fits(Graph *g, const Node *x, int64_t before, int64_t after,
                     Dtype value, bool fits, Fault *fault) {
  if (fits && size_plainly(g, SIZE_LE, 0, before) &&
      size_plainly(g, SIZE_LE, 0, after))
    return true;
  fault_set(fault, "pad of %s by %s before and %s after with %s",
            node_text(g, x).text, size_text(g, before).text,
            size_text(g, after).text, dtype_info[value].name);
  fault_help(fault, "both numbers must be at least 0");
  Fault again = *fault;
  if (!fits || !size_demand(g, SIZE_LE, 0, before, fault))
    return false;
  *fault = again;
  return size_demand(g, SIZE_LE, 0, after, fault);
}

Node *node_pad(Graph *g, Node *x, uint32_t axis, int64_t before, int64_t after,
               Scalar value, Fault *fault) {
  if (!axis_fits(g, x, axis, "pad", fault))
    return NULL;
  Form form = form_like(x);
  int64_t n = form.own[axis], end, size;
  bool fits = value.dtype == x->dtype && size_add(g, n, before, &end) &&
              size_add(g, end, after, &size);
  if (!pad_fits(g, x, before, after, value.dtype, fits, fault))
    return NULL;
  if (before == 0 && after == 0)
    return node_retain(x);
  resize_axis(&form, axis, size);
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  own_axes(&b, x->rank, own);
  uint32_t at = own[axis];
  uint32_t low = body_op2(&b, PRIM_GE, DT_BOOL, at, body_int(&b, before));
  uint32_t high = body_op2(&b, PRIM_LT, DT_BOOL, at, body_int(&b, end));
  uint32_t inside = body_op2(&b, PRIM_AND, DT_BOOL, low, high);
  own[axis] = body_plus(&b, at, size_less(g, 0, before));
  uint32_t element = body_read(&b, x, own);
  body_select(&b, inside, element, body_const(&b, value));
  return body_node(&b, g, fault);
}

Node *node_triangle(Graph *g, Node *x, bool lower, Fault *fault) {
  if (x->rank < 2) {
    fault_set(fault, "%s wants a matrix, not %s", lower ? "tril" : "triu",
              node_text(g, x).text);
    return NULL;
  }
  Form form = form_like(x);
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  own_axes(&b, x->rank, own);
  uint32_t row = own[x->rank - 2], column = own[x->rank - 1];
  uint32_t kept = body_op2(&b, lower ? PRIM_LE : PRIM_GE, DT_BOOL, column, row);
  uint32_t element = body_read(&b, x, own);
  body_select(&b, kept, element, body_const(&b, (Scalar){.dtype = x->dtype}));
  return body_node(&b, g, fault);
}

/* ---- several into one ---- */

/* One of cells[low..high): that whose bounds hold `at`; piece k ends before
 * ends[k].  A tree of choices, so that many pieces stay quick. */
static uint32_t choose(Body *b, uint32_t at, const uint32_t *cells,
                       const int64_t *ends, uint32_t low, uint32_t high) {
  if (high - low == 1)
    return cells[low];
  uint32_t middle = low + (high - low) / 2;
  uint32_t x = choose(b, at, cells, ends, low, middle);
  uint32_t y = choose(b, at, cells, ends, middle, high);
  uint32_t before =
      body_op2(b, PRIM_LT, DT_BOOL, at, body_int(b, ends[middle - 1]));
  return body_select(b, before, x, y);
}

static bool pieces_agree(Graph *g, const char *what, const Node *x,
                         const Node *y, uint32_t axis, Fault *fault) {
  fault_set(fault, "%s of different shapes: %s and %s", what,
            node_text(g, x).text, node_text(g, y).text);
  return size_demand(g, SIZE_EQ, node_own(x)[axis], node_own(y)[axis], fault);
}

static bool pieces_fit(Graph *g, uint32_t axis, uint32_t count, Node *const *xs,
                       bool stacking, Fault *fault) {
  const char *what = stacking ? "stack" : "concat";
  if (count == 0) {
    fault_set(fault, "%s of nothing", what);
    return false;
  }
  const Node *x = xs[0];
  for (uint32_t k = 0; k < count; k++) {
    const Node *y = xs[k];
    bool same = y->rank == x->rank && y->dtype == x->dtype;
    for (uint32_t j = 0; same && j < x->rank; j++)
      same = j == axis || node_own(x)[j] == node_own(y)[j] ||
             pieces_agree(g, what, x, y, j, fault);
    if (!same) {
      fault_set(fault, "%s of different shapes: %s and %s", what,
                node_text(g, x).text, node_text(g, y).text);
      return false;
    }
  }
  return stacking || axis_fits(g, x, axis, what, fault);
}

static uint32_t shared_stars(uint32_t count, Node *const *xs) {
  uint32_t stars = UINT32_MAX;
  for (uint32_t k = 0; k < count; k++)
    stars &= xs[k]->stars;
  return stars;
}

/* Scratch of `count` items that a raise or fault gives back. */
typedef struct Pieces {
  uint32_t *cells;
  int64_t *ends;
} Pieces;

static Pieces pieces_new(uint32_t count) {
  Pieces p;
  p.ends = mem_alloc(count * (sizeof *p.ends + sizeof *p.cells));
  p.cells = (uint32_t *)(p.ends + count);
  return p;
}

static void concat_body(Body *b, uint32_t axis, uint32_t count, Node *const *xs,
                        Pieces p) {
  uint32_t own[RANK_MAX];
  own_axes(b, xs[0]->rank, own);
  uint32_t at = own[axis];
  for (uint32_t k = 0; k < count; k++) {
    own[axis] = body_plus(b, at, k ? size_less(b->graph, 0, p.ends[k - 1]) : 0);
    p.cells[k] = body_read(b, xs[k], own);
  }
  choose(b, at, p.cells, p.ends, 0, count);
}

Node *node_concat(Graph *g, uint32_t axis, uint32_t count, Node *const *xs,
                  Fault *fault) {
  if (!pieces_fit(g, axis, count, xs, false, fault))
    return NULL;
  if (count == 1)
    return node_retain(xs[0]);
  Form form = form_like(xs[0]);
  form.stars &= shared_stars(count, xs);
  resize_axis(&form, axis, 0);
  if (!form_free(&form, count, xs, fault))
    return NULL;
  Pieces p = pieces_new(count);
  int64_t size = 0;
  for (uint32_t k = 0; k < count; k++) {
    if (!size_add(g, size, node_own(xs[k])[axis], &size))
      size = INT64_MAX; /* storing it will be refused */
    p.ends[k] = size;
  }
  form.own[axis] = size;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    mem_free(p.ends);
    trap_raise(trap.kind);
  }
  Body b;
  body_init(&b, g, &form);
  concat_body(&b, axis, count, xs, p);
  Node *n = body_node(&b, g, fault);
  trap_end(&trap);
  mem_free(p.ends);
  return n;
}

/* Scalars that are all known become data at once: [1, 2, 3]. */
static Node *stack_known(Graph *g, uint32_t count, Node *const *xs,
                         Fault *fault) {
  Scalar x;
  for (uint32_t k = 0; k < count; k++)
    if (!node_known(xs[k], &x))
      return NULL;
  int64_t shape = count;
  Tensor *t = tensor_new(xs[0]->dtype, 1, &shape, false, fault);
  if (!t)
    return NULL;
  for (uint32_t k = 0; k < count; k++)
    if (node_known(xs[k], &x))
      scalar_store(x, tensor_at(t, k));
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    tensor_release(t);
    trap_raise(trap.kind);
  }
  Node *n = node_data(g, t);
  trap_end(&trap);
  tensor_release(t);
  return n;
}

Node *node_stack(Graph *g, uint32_t count, Node *const *xs, Fault *fault) {
  if (!pieces_fit(g, UINT32_MAX, count, xs, true, fault))
    return NULL;
  Node *known = xs[0]->rank ? NULL : stack_known(g, count, xs, fault);
  if (known)
    return known;
  Form form = {.dtype = xs[0]->dtype, .rank = xs[0]->rank + 1};
  if (form.rank > RANK_MAX) {
    fault_set(fault, "more than %d axes", RANK_MAX);
    return NULL;
  }
  form.stars = shared_stars(count, xs) << 1;
  form.own[0] = count;
  memcpy(form.own + 1, node_own(xs[0]), xs[0]->rank * sizeof form.own[0]);
  if (!form_free(&form, count, xs, fault))
    return NULL;
  Pieces p = pieces_new(count);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    mem_free(p.ends);
    trap_raise(trap.kind);
  }
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX];
  own_axes(&b, form.rank, own);
  for (uint32_t k = 0; k < count; k++) {
    p.ends[k] = k + 1;
    p.cells[k] = body_read(&b, xs[k], own + 1);
  }
  choose(&b, own[0], p.cells, p.ends, 0, count);
  Node *n = body_node(&b, g, fault);
  trap_end(&trap);
  mem_free(p.ends);
  return n;
}
