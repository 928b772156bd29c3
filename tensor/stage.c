/* From a stored node to its loop. */
#include "tensor/kernel.h"

#include "tensor/scalar.h"

#include <string.h>

enum { NO_STEP = UINT32_MAX };

typedef struct Form { /* what is known of a cell that is an i64 */
  bool known;         /* q says it all */
  Quasi *q;
  int64_t low, high; /* also where it is not known */
} Form;

typedef struct Builder {
  Arena *arena;
  Loop *k;
  Stage *stage;
  const Node *n;
  Cuts *cuts;
  Form *forms;     /* by cell */
  uint32_t *steps; /* by cell: 1 + its step, or 0 */
  /* how an axis of the node was cut: variables first .. first + parts - 1 */
  uint32_t first[RANK_MAX], parts[RANK_MAX];
  bool full; /* too many variables */
} Builder;

/* ---- quasi-affine forms ---- */

Quasi *quasi_new(Arena *arena, int64_t constant) {
  Quasi *q = NEW(arena, Quasi);
  q->constant = constant;
  return q;
}

static bool add_times(Graph *g, int64_t *x, int64_t factor, int64_t y) {
  int64_t part;
  return y == 0 || (size_mul(g, y, factor, &part) && size_add(g, *x, part, x));
}

bool quasi_add(Graph *g, Quasi *x, int64_t factor, const Quasi *y) {
  bool good = add_times(g, &x->constant, factor, y->constant);
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    good &= add_times(g, &x->times[v], factor, y->times[v]);
  return good;
}

Quasi *quasi_copy(Arena *arena, const Quasi *from) {
  if (!from)
    return NULL;
  Quasi *to = NEW(arena, Quasi);
  *to = *from;
  return to;
}

static bool equal_indices(const Step *x, const Step *y) {
  bool equal = x->index_count == y->index_count;
  for (uint32_t j = 0; equal && j < x->index_count; j++)
    equal = x->indices[j].step == y->indices[j].step &&
            x->indices[j].stride == y->indices[j].stride &&
            x->indices[j].extent == y->indices[j].extent;
  return equal;
}

bool step_does_same(const Step *x, const Step *y) {
  if (x->kind != y->kind || x->dtype != y->dtype ||
      x->arg_count != y->arg_count)
    return false;
  switch (x->kind) {
  case STEP_CONST:
    return x->value.dtype == y->value.dtype && x->value.i == y->value.i;
  case STEP_INDEX:
    return quasi_equal(x->index, y->index);
  case STEP_READ:
    return x->input == y->input && quasi_equal(x->address, y->address) &&
           equal_indices(x, y);
  case STEP_LOCAL:
    return x->loop == y->loop && x->result == y->result;
  case STEP_OP:
    return x->op == y->op;
  case STEP_SELECT:
  case STEP_CONVERT:
    return true;
  case STEP_RANDOM:
    return x->op == y->op && memcmp(&x->key, &y->key, sizeof x->key) == 0;
  case STEP_PAIR:
    break;
  }
  return false;
}

Loop *loop_like(Arena *arena, const Loop *loop) {
  Loop *to = NEW(arena, Loop);
  *to = *loop;
  memset(&to->steps, 0, sizeof to->steps);
  memset(&to->results, 0, sizeof to->results);
  return to;
}

Loop *loop_copy(Arena *arena, const Loop *from) {
  Loop *to = loop_like(arena, from);
  for (uint32_t j = 0; j < from->steps.len; j++) {
    Step s = from->steps.at[j];
    if (s.kind == STEP_INDEX)
      s.index = quasi_copy(arena, s.index);
    if (s.kind == STEP_READ || s.kind == STEP_LOCAL)
      s.address = quasi_copy(arena, s.address);
    VEC_PUSH(arena, to->steps, s);
  }
  for (uint32_t j = 0; j < from->results.len; j++) {
    Result r = from->results.at[j];
    r.out = quasi_copy(arena, r.out);
    r.local = quasi_copy(arena, r.local);
    VEC_PUSH(arena, to->results, r);
  }
  return to;
}

bool quasi_equal(const Quasi *x, const Quasi *y) {
  return memcmp(x, y, sizeof *x) == 0;
}

static bool quasi_is_constant(const Quasi *q) {
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (q->times[v])
      return false;
  return true;
}

static void var_bounds(const Loop *k, uint32_t v, int64_t *low, int64_t *high) {
  *low = v < KERNEL_AXES ? 0 : k->quotients[v - KERNEL_AXES].low;
  *high = v < KERNEL_AXES ? size_less(k->graph, k->extents[v], 1)
                          : k->quotients[v - KERNEL_AXES].high;
}

bool quasi_bounds(const Loop *k, const Quasi *q, int64_t *low, int64_t *high) {
  Graph *g = k->graph;
  *low = *high = q->constant;
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    int64_t t = q->times[v], a, b;
    if (t == 0)
      continue;
    var_bounds(k, v, &a, &b);
    bool up = size_holds(g, SIZE_LE, 0, t);
    if (!up && !size_holds(g, SIZE_LE, t, 0))
      return false;
    if (!add_times(g, low, t, up ? a : b) || !add_times(g, high, t, up ? b : a))
      return false;
  }
  return true;
}

/* Is all of low .. high in 0 .. end - 1? */
static bool is_within(const Graph *g, int64_t low, int64_t high, int64_t end) {
  return size_holds(g, SIZE_LE, 0, low) && size_below(g, high, end);
}

/* ---- quotients ---- */

static uint32_t quotient_var(Builder *b, const Quasi *of, int64_t by) {
  Loop *k = b->k;
  for (uint32_t j = 0; j < k->quotient_count; j++)
    if (k->quotients[j].by == by && quasi_equal(&k->quotients[j].of, of))
      return KERNEL_AXES + j;
  int64_t low, high;
  if (k->quotient_count == ARRAY_LEN(k->quotients) ||
      !quasi_bounds(k, of, &low, &high) || !size_div(k->graph, low, by, &low) ||
      !size_div(k->graph, high, by, &high)) {
    b->full = true;
    return KERNEL_AXES;
  }
  k->quotients[k->quotient_count] = (Quotient){*of, by, low, high};
  return KERNEL_AXES + k->quotient_count++;
}

/* Is it one quotient and a constant?  Then floor(that / by) is one quotient. */
static bool is_quotient(const Quasi *q, uint32_t *var) {
  uint32_t found = 0;
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    if (q->times[v] == 0)
      continue;
    if (v < KERNEL_AXES || q->times[v] != 1)
      return false;
    *var = v;
    found++;
  }
  return found == 1;
}

/* x = by * *over + *rest: of numbers *rest is in 0 .. by - 1, else it is 0 or
 * all of x. */
static void divide_term(Graph *g, int64_t x, int64_t by, int64_t *over,
                        int64_t *rest) {
  bool numbers = size_is_number(g, x) && size_is_number(g, by);
  if (!size_mod(g, x, by, rest) || (*rest != 0 && !numbers) ||
      !size_div(g, x, by, over)) {
    *over = 0;
    *rest = x;
  }
}

bool quasi_divide(Graph *g, const Quasi *x, int64_t by, Quasi *over,
                  Quasi *rest) {
  divide_term(g, x->constant, by, &over->constant, &rest->constant);
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    int64_t left;
    bool whole =
        x->times[v] == 0 || (size_mod(g, x->times[v], by, &left) && left == 0);
    if (!whole)
      rest->times[v] = x->times[v];
    else if (x->times[v] && !size_div(g, x->times[v], by, &over->times[v]))
      return false;
  }
  return true;
}

/* Is it a multiple of a part of `by`, and something less than that part?  Then
 * *x and *by are what remains of floor(x / by): (c * 784 + j) / 6272 is
 * c / 8, where j is below 784. */
static bool take_part(Builder *b, Quasi *x, int64_t *by) {
  Graph *g = b->k->graph;
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    int64_t part = x->times[v], left, low, high;
    if (part == 0 || part == 1 || !size_holds(g, SIZE_LE, 2, part) ||
        !size_mod(g, *by, part, &left) || left != 0)
      continue;
    Quasi over = {0}, rest = {0};
    if (quasi_divide(g, x, part, &over, &rest) &&
        quasi_bounds(b->k, &rest, &low, &high) &&
        is_within(g, low, high, part) && size_div(g, *by, part, by)) {
      *x = over;
      return true;
    }
  }
  return false;
}

/* floor(of / by): terms that `by` divides go out; of the rest nothing remains
 * if it lies in 0 .. by - 1. */
static Quasi *quasi_over(Builder *b, const Quasi *of, int64_t by) {
  Graph *g = b->k->graph;
  Quasi *out = quasi_new(b->arena, 0), rest = {0};
  int64_t low, high, more;
  b->full |= !quasi_divide(g, of, by, out, &rest);
  if (quasi_bounds(b->k, &rest, &low, &high) && is_within(g, low, high, by))
    return out;
  if (take_part(b, &rest, &by)) {
    quasi_add(g, out, 1, quasi_over(b, &rest, by));
    return out;
  }
  uint32_t var;
  if (is_quotient(&rest, &var)) {
    const Quotient *inner = &b->k->quotients[var - KERNEL_AXES];
    Quasi of_inner = inner->of;
    int64_t both;
    if (size_mul(g, rest.constant, inner->by, &more) &&
        size_add(g, of_inner.constant, more, &of_inner.constant) &&
        size_mul(g, inner->by, by, &both)) {
      quasi_add(g, out, 1, quasi_over(b, &of_inner, both));
      return out;
    }
  }
  out->times[quotient_var(b, &rest, by)] += 1;
  return out;
}

/* ---- the forms of cells ---- */

static Form unknown(void) {
  return (Form){.low = INT64_MIN, .high = INT64_MAX};
}

static Form form_of(const Builder *b, Quasi *q) {
  Form f = {.q = q};
  f.known = quasi_bounds(b->k, q, &f.low, &f.high);
  return f.known ? f : unknown();
}

static Quasi *axis_form(Builder *b, uint32_t axis) {
  Quasi *q = quasi_new(b->arena, 0);
  int64_t stride = 1;
  for (uint32_t k = b->parts[axis]; k-- > 0;) {
    q->times[b->first[axis] + k] = stride;
    b->full |= !size_mul(b->k->graph, stride, b->k->extents[b->first[axis] + k],
                         &stride);
  }
  return q;
}

/* Into parts, of which each has as many. */
static bool divides(Graph *g, int64_t by, int64_t x) {
  int64_t left;
  return size_holds(g, SIZE_LE, 0, by) && size_mod(g, x, by, &left) &&
         left == 0;
}

/* A size that is at least 1, wherever x is computed: where it divides an axis
 * that has elements it is not 0. */
static bool is_divisor(const Builder *b, const Form *x, const Form *y) {
  Graph *g = b->k->graph;
  if (y->low != y->high)
    return false;
  if (size_holds(g, SIZE_LE, 1, y->low))
    return true;
  for (uint32_t v = 0; v < KERNEL_AXES; v++)
    if (x->q->times[v] && divides(g, y->low, b->k->extents[v]))
      return true;
  return false;
}

static Form scaled(Builder *b, const Form *x, int64_t factor) {
  Quasi *q = quasi_new(b->arena, 0);
  return quasi_add(b->k->graph, q, factor, x->q) ? form_of(b, q) : unknown();
}

static Form op_form(Builder *b, PrimId op, const Form *x, const Form *y) {
  Graph *g = b->k->graph;
  if (!x->known || !y->known)
    return unknown();
  Quasi *q = quasi_new(b->arena, 0);
  if (op == PRIM_ADD || op == PRIM_SUB) {
    quasi_add(g, q, 1, x->q);
    return quasi_add(g, q, op == PRIM_ADD ? 1 : -1, y->q) ? form_of(b, q)
                                                          : unknown();
  }
  if (op == PRIM_MUL && quasi_is_constant(y->q))
    return scaled(b, x, y->q->constant);
  if (op == PRIM_MUL && quasi_is_constant(x->q))
    return scaled(b, y, x->q->constant);
  if ((op == PRIM_DIV || op == PRIM_MOD) && is_divisor(b, x, y)) {
    Quasi *over = quasi_over(b, x->q, y->low);
    int64_t less;
    if (op == PRIM_DIV)
      return form_of(b, over);
    *q = *x->q;
    return size_sub(g, 0, y->low, &less) && quasi_add(g, q, less, over)
               ? form_of(b, q)
               : unknown();
  }
  return unknown();
}

static bool bounded(const Form *f) {
  return f->low != INT64_MIN && f->high != INT64_MAX;
}

/* Bounds that the operation itself gives, better or beside the form's. */
static void narrow_bounds(Graph *g, PrimId op, const Form *x, const Form *y,
                          Form *out) {
  int64_t low = INT64_MIN, high = INT64_MAX;
  bool positive = y->low != INT64_MIN && size_holds(g, SIZE_LE, 1, y->low);
  bool good = true;
  if (op == PRIM_MOD && positive && y->high != INT64_MAX) {
    low = 0;
    good = size_sub(g, y->high, 1, &high);
  } else if (!bounded(x) || !bounded(y)) {
    if (op == PRIM_MAXIMUM)
      low = x->low == INT64_MIN   ? y->low
            : y->low == INT64_MIN ? x->low
                                  : size_max(g, x->low, y->low);
    if (op == PRIM_MINIMUM)
      high = x->high == INT64_MAX   ? y->high
             : y->high == INT64_MAX ? x->high
                                    : size_min(g, x->high, y->high);
  } else if (op == PRIM_DIV && positive && y->low == y->high) {
    good = size_div(g, x->low, y->low, &low) &&
           size_div(g, x->high, y->low, &high);
  } else if (op == PRIM_MAXIMUM) {
    low = size_max(g, x->low, y->low);
    high = size_max(g, x->high, y->high);
  } else if (op == PRIM_MINIMUM) {
    low = size_min(g, x->low, y->low);
    high = size_min(g, x->high, y->high);
  } else if (op == PRIM_ADD) {
    good = size_add(g, x->low, y->low, &low) &&
           size_add(g, x->high, y->high, &high);
  } else if (op == PRIM_SUB) {
    good = size_sub(g, x->low, y->high, &low) &&
           size_sub(g, x->high, y->low, &high);
  }
  if (!good)
    return;
  if (out->low == INT64_MIN ||
      (low != INT64_MIN && size_holds(g, SIZE_LE, out->low, low)))
    out->low = low;
  if (out->high == INT64_MAX ||
      (high != INT64_MAX && size_holds(g, SIZE_LE, high, out->high)))
    out->high = high;
}

static bool is_where(PrimId op) {
  return op == PRIM_ARGMAX || op == PRIM_ARGMIN;
}

/* A place that the plan looks for is one of so many. */
static Form read_form(const Builder *b, const Node *x) {
  const int64_t *reduced = x->extents + x->free_count + x->rank;
  Form f = unknown();
  int64_t count;
  if (node_is_there(x) || x->kind != NODE_COMP || !is_where(x->reduce) ||
      !size_product(b->k->graph, x->reduce_count, reduced, &count) ||
      !size_is_number(b->k->graph, count) || count < 1)
    return f;
  f.low = 0;
  f.high = count - 1;
  return f;
}

static Form cell_form(Builder *b, const Cell *cell) {
  if (cell->dtype != DT_I64)
    return unknown();
  if (cell->kind == CELL_READ)
    return read_form(b, cell->node);
  if (cell->kind == CELL_CONST)
    return form_of(b, quasi_new(b->arena, cell->value.i));
  if (cell->kind == CELL_SIZE)
    return form_of(b, quasi_new(b->arena, cell->size));
  if (cell->kind == CELL_AXIS)
    return form_of(b, axis_form(b, cell->axis));
  if (cell->kind != CELL_OP || cell->arg_count != 2)
    return unknown();
  const Form *x = &b->forms[cell->args[0]], *y = &b->forms[cell->args[1]];
  Form f = op_form(b, cell->op, x, y);
  narrow_bounds(b->k->graph, cell->op, x, y, &f);
  return f;
}

static void find_forms(Builder *b) {
  for (uint32_t k = 0; k < b->n->cell_count; k++)
    b->forms[k] = cell_form(b, &b->n->cells[k]);
}

/* ---- cutting axes ---- */

void cuts_add(const Graph *g, Cuts *cuts, uint32_t axis, int64_t by) {
  uint32_t at = cuts->count[axis];
  int64_t *to = cuts->by[axis], size = size_guess(g, by);
  for (uint32_t k = 0; k < at; k++)
    if (to[k] == by)
      return;
  if (at == ARRAY_LEN(cuts->by[axis]))
    return;
  for (; at > 0 && size_guess(g, to[at - 1]) > size; at--)
    to[at] = to[at - 1];
  to[at] = by;
  cuts->count[axis]++;
}

/* A quotient of a whole axis by a part of it: before any cut, variable v is
 * axis v of the node. */
static void find_cuts(Builder *b) {
  for (uint32_t j = 0; j < b->k->quotient_count; j++) {
    const Quotient *q = &b->k->quotients[j];
    uint32_t axis = NO_STEP, terms = 0;
    for (uint32_t v = 0; v < KERNEL_VARS; v++)
      if (q->of.times[v]) {
        axis = v;
        terms++;
      }
    if (terms == 1 && axis < KERNEL_AXES && q->of.times[axis] == 1 &&
        q->of.constant == 0 && divides(b->k->graph, q->by, b->k->extents[axis]))
      cuts_add(b->k->graph, b->cuts, axis, q->by);
  }
}

static void place_axis(Builder *b, uint32_t axis, uint32_t *var) {
  Graph *g = b->k->graph;
  int64_t rest = b->n->extents[axis], inner = 1;
  int64_t sizes[ARRAY_LEN(b->cuts->by[0]) + 1];
  uint32_t count = 0;
  for (uint32_t j = 0; j < b->cuts->count[axis]; j++) {
    int64_t cut = b->cuts->by[axis][j];
    int64_t part, left;
    if (cut == inner || !divides(g, inner, cut) ||
        !size_div(g, cut, inner, &part) || !divides(g, part, rest) ||
        !size_div(g, rest, part, &left))
      continue;
    sizes[count++] = part;
    rest = left;
    inner = cut;
  }
  if (rest != 1 || count == 0)
    sizes[count++] = rest;
  b->first[axis] = *var;
  b->parts[axis] = count;
  for (uint32_t j = 0; j < count && *var < KERNEL_AXES; j++)
    b->k->extents[(*var)++] = sizes[count - 1 - j];
}

/* Axes of extent 1 are nowhere in the cells, and get no variable. */
static void place_axes(Builder *b) {
  Loop *k = b->k;
  const Node *n = b->n;
  uint32_t var = 0, outer = n->free_count + n->rank;
  for (uint32_t axis = 0; axis < outer + n->reduce_count; axis++) {
    if (axis == outer)
      k->kept = var;
    b->first[axis] = var;
    b->parts[axis] = 0;
    if (n->extents[axis] != 1)
      place_axis(b, axis, &var);
  }
  if (n->reduce_count == 0)
    k->kept = var;
  k->axes = var;
  b->full |= var >= KERNEL_AXES;
  k->quotient_count = 0;
  find_forms(b);
}

/* ---- steps ---- */

static uint32_t step_of(Builder *b, uint32_t cell);

static void read_step(Builder *b, const Cell *cell, Step *s) {
  const Node *x = cell->node;
  int64_t stride = x->strides && x->rank ? x->strides[x->rank - 1] : 1;
  s->node = x;
  s->address = quasi_new(b->arena, 0);
  s->at = NEW_ARRAY(b->arena, Quasi *, cell->arg_count + 1);
  s->indices = NEW_ARRAY(b->arena, ReadIndex, cell->arg_count + 1);
  Graph *g = b->k->graph;
  for (uint32_t j = cell->arg_count; j-- > 0;) {
    const Form *f = &b->forms[cell->args[j]];
    if (f->known && is_within(g, f->low, f->high, x->extents[j])) {
      b->full |= !quasi_add(g, s->address, stride, f->q);
      s->at[j] = f->q;
    } else {
      s->indices[s->index_count++] =
          (ReadIndex){step_of(b, cell->args[j]), stride, x->extents[j]};
    }
    b->full |= !size_mul(g, stride, x->extents[j], &stride);
    if (x->strides && j > 0)
      stride = x->strides[j - 1];
  }
}

/* Numbers, which decide in which type a step is computed. */
static void set_bounds(const Builder *b, Step *s, const Form *f) {
  const Graph *g = b->k->graph;
  bool none = f->low == INT64_MIN; /* or one that is no number: is it >= 0? */
  s->least = f->low;
  s->most = f->high;
  s->high = size_is_number(g, f->high) ? f->high : INT64_MAX;
  s->low = size_is_number(g, f->low) ? f->low : INT64_MIN;
  if (!none && s->low == INT64_MIN)
    s->low = size_holds(g, SIZE_LE, 1, f->low)   ? 1
             : size_holds(g, SIZE_LE, 0, f->low) ? 0
                                                 : INT64_MIN;
}

static Step plain_step(Builder *b, uint32_t at) {
  const Cell *cell = &b->n->cells[at];
  Step s = {.dtype = cell->dtype,
            .op = cell->op,
            .span = cell->span,
            .sure = cell->sure};
  set_bounds(b, &s, &b->forms[at]);
  switch (cell->kind) {
  case CELL_CONST:
    s.kind = STEP_CONST;
    s.value = cell->value;
    return s;
  case CELL_READ:
    s.kind = STEP_READ;
    read_step(b, cell, &s);
    return s;
  case CELL_RANDOM:
    s.kind = STEP_RANDOM;
    s.key = cell->key;
    break;
  case CELL_OP:
    s.kind = STEP_OP;
    break;
  case CELL_SELECT:
    s.kind = STEP_SELECT;
    break;
  case CELL_CONVERT:
    s.kind = STEP_CONVERT;
    break;
  case CELL_SIZE:
  case CELL_AXIS: /* always known */
    b->full = true;
    return s;
  }
  b->full |= cell->arg_count > 3;
  for (uint32_t j = 0; j < cell->arg_count && j < 3; j++)
    s.args[s.arg_count++] = step_of(b, cell->args[j]);
  return s;
}

/* Recursion is as deep as a body, which the planner bounds. */
static uint32_t step_of(Builder *b, uint32_t cell) {
  if (b->steps[cell])
    return b->steps[cell] - 1;
  Step s;
  const Form *f = &b->forms[cell];
  if (f->known) {
    s = (Step){.kind = STEP_INDEX, .dtype = DT_I64};
    s.index = NEW(b->arena, Quasi);
    *s.index = *f->q;
    set_bounds(b, &s, f);
  } else {
    s = plain_step(b, cell);
  }
  VEC_PUSH(b->arena, b->k->steps, s);
  b->steps[cell] = b->k->steps.len;
  return b->k->steps.len - 1;
}

/* ---- the whole ---- */

static void set_result(Builder *b, Node *n) {
  Loop *k = b->k;
  int64_t stride = 1;
  Result r = {.node = n, .reduce = n->reduce, .dtype = n->dtype};
  r.out = quasi_new(b->arena, 0);
  for (uint32_t v = k->kept; v-- > 0;) {
    r.out->times[v] = stride;
    b->full |= !size_mul(k->graph, stride, k->extents[v], &stride);
  }
  if (k->kept == k->axes && is_where(r.reduce)) {
    b->full |= !n->safe; /* the body is to be run for its faults alone */
    Step zero = {.kind = STEP_CONST, .dtype = DT_I64};
    zero.value.dtype = DT_I64;
    VEC_PUSH(b->arena, k->steps, zero);
  } else {
    r.step = step_of(b, n->cell_count - 1);
  }
  if (k->kept == k->axes) /* of one value: itself */
    r.reduce = PRIM_NONE;
  VEC_PUSH(b->arena, k->results, r);
}

Stage *stage_new(Arena *arena, Graph *g, Node *n, Cuts *cuts) {
  Builder *b = NEW(arena, Builder);
  b->arena = arena;
  b->stage = NEW(arena, Stage);
  b->k = b->stage->loop = NEW(arena, Loop);
  b->k->graph = g;
  b->n = n;
  b->cuts = cuts;
  b->forms = NEW_ARRAY(arena, Form, n->cell_count);
  b->steps = NEW_ARRAY(arena, uint32_t, n->cell_count);
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++) {
    b->first[k] = k;
    b->parts[k] = 1;
    b->k->extents[k] = n->extents[k];
  }
  find_forms(b);
  find_cuts(b);
  place_axes(b);
  if (!b->full)
    set_result(b, n);
  for (uint32_t k = 0; k < n->free_count + n->rank; k++) {
    b->stage->first[k] = b->first[k];
    b->stage->parts[k] = b->parts[k];
  }
  return b->full ? NULL : b->stage;
}
