/* Stored nodes as nests of loops.
 *
 * A sum of floats has an order, and a C compiler keeps it: so that its vectors
 * are of use, sums are taken of LANES elements at a time, along an axis of the
 * result (columns) or along the innermost reduced one, whichever of them
 * memory is read along. */
#include "session/cgen.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 64, LANES = 32, UNROLL = 4 };

void cgen_open(Cgen *e, const char *head) {
  cgen_line(e, "%s%s{", head, *head ? " " : "");
  e->depth++;
}

void cgen_close(Cgen *e) {
  e->depth--;
  cgen_line(e, "}");
}

static void close_to(Cgen *e, uint32_t depth) {
  while (e->depth > depth)
    cgen_close(e);
}

/* ---- axes ---- */

static uint32_t add_axis(Cgen *e, const char *name, int64_t extent) {
  if (e->axis_count == LIN_AXES) {
    session_error(e->s, 613, e->t->span, "%s cannot be built: more than %d "
                  "loops in each other", e->t->name, LIN_AXES);
    trap_raise(FAIL_ERROR);
  }
  e->axis[e->axis_count] = name;
  e->extent[e->axis_count] = extent;
  if (!size_is_number(e->g, extent))
    sizes_assume(e->g, (SizeFact){SIZE_LE, 1, extent});
  return e->axis_count++;
}

void cgen_axis_loop(Cgen *e, int64_t extent) {
  const char *i = cgen_fresh(e, "i");
  uint32_t k = add_axis(e, i, extent);
  cgen_open(e, cgen_format(e, "for (int64_t %s = 0; %s < %s; %s++)", i, i,
                           cgen_size(e, e->extent[k]), i));
}

/* Element of x for this element of n: where n has more axes of its own in
 * front, they are passed over. */
Val cgen_at(Cgen *e, const Node *n, const Node *x, uint32_t first) {
  Val args[RANK_MAX];
  for (uint32_t k = 0; k < x->free_count; k++)
    for (uint32_t j = 0; j < n->free_count; j++)
      if (n->free[j] == x->free[k])
        args[k] = cgen_axis(e, j);
  for (uint32_t k = 0; k < x->rank; k++)
    args[x->free_count + k] =
        x->stars >> k & 1 ? cgen_number(e, 0)
                          : cgen_axis(e, n->free_count + first + k);
  return cgen_read(e, x, args, false, n->span);
}

static void test_guard(Cgen *e, const Node *n) {
  if (!n->guard)
    return;
  Val v = cgen_at(e, n, n->guard, 0);
  cgen_open(e, cgen_format(e, "if (%s)", v.text));
}

Nest cgen_begin(Cgen *e) {
  e->axis_count = 0;
  Nest nest = {e->depth, cgen_scope(e), sizes_mark(e->g)};
  cgen_open(e, "");
  return nest;
}

void cgen_finish(Cgen *e, Nest nest) {
  close_to(e, nest.depth);
  cgen_leave(e, nest.scope);
  e->contexts.len = 0;
  sizes_reset(e->g, nest.mark);
  e->axis_count = 0;
}

void cgen_free_axes(Cgen *e, const Node *n) {
  for (uint32_t k = 0; k < n->free_count; k++)
    cgen_axis_loop(e, n->extents[k]);
  test_guard(e, n);
}

static void store(Cgen *e, const Node *n, const char *name, const char *value) {
  const char *at[RANK_MAX];
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    at[k] = e->axis[k];
  const char *kept = cgen_info(e, n)->name;
  cgen_info(e, n)->name = name;
  const char *address = cgen_address(e, n, at);
  cgen_info(e, n)->name = kept;
  cgen_line(e, "%s = %s;", address, cgen_store(e, n->dtype, value));
}

static void all_axes(Cgen *e, Val *axes) {
  for (uint32_t k = 0; k < e->axis_count; k++)
    axes[k] = cgen_axis(e, k);
}

static const char *body_text(Cgen *e, const Node *n) {
  Val axes[LIN_AXES];
  all_axes(e, axes);
  return cgen_body(e, n, axes).text;
}

void cgen_copy(Cgen *e, const Node *to, const Node *x, const char *name,
               const char *at, int64_t count) {
  Nest nest = cgen_begin(e);
  uint32_t own = to->free_count + (at != NULL);
  for (uint32_t k = 0; k < to->free_count; k++)
    cgen_axis_loop(e, to->extents[k]);
  if (at)
    add_axis(e, at, count);
  for (uint32_t k = own; k < to->free_count + to->rank; k++)
    cgen_axis_loop(e, to->extents[k]);
  store(e, to, name, cgen_at(e, to, x, at != NULL).text);
  cgen_finish(e, nest);
}

/* ---- reductions ---- */

typedef struct Fold {
  const Node *n;
  Dtype body, held;
  const char *start, *combine; /* combine: a format of two, NULL: x + y */
  const char *to;
  uint32_t first, outer, axes; /* first: of which there is no loop yet */
} Fold;

static const char *least(Dtype t) {
  return dtype_is_float(t) ? "(-INFINITY)"
         : t == DT_I64     ? "INT64_MIN"
         : t == DT_I32     ? "INT32_MIN"
         : t == DT_I8      ? "-128"
                           : "0";
}

static const char *greatest(Dtype t) {
  return dtype_is_float(t) ? "INFINITY"
         : t == DT_I64     ? "INT64_MAX"
         : t == DT_I32     ? "INT32_MAX"
         : t == DT_I8      ? "127"
         : t == DT_BOOL    ? "1"
                           : "255";
}

static Fold fold_of(const Node *n, const char *to) {
  Fold f = {.n = n, .to = to, .outer = n->free_count + n->rank};
  f.axes = f.outer + n->reduce_count;
  f.body = f.held = n->cells[n->cell_count - 1].dtype;
  bool d = f.body == DT_F64, whole = !dtype_is_float(f.body);
  switch ((int)n->reduce) {
  case PRIM_SUM:
  case PRIM_PROD:
    f.held = whole ? DT_I64 : d ? DT_F64 : DT_F32;
    f.start = n->reduce == PRIM_SUM ? "0" : "1";
    f.combine = n->reduce == PRIM_SUM ? whole ? "add_i(%s, %s)" : "%s + %s"
                : whole               ? "mul_i(%s, %s)"
                                      : "%s * %s";
    break;
  case PRIM_MAX:
    f.start = least(f.body);
    f.combine = whole ? "max_i(%s, %s)" : d ? "max_d(%s, %s)" : "max_f(%s, %s)";
    break;
  case PRIM_MIN:
    f.start = greatest(f.body);
    f.combine = whole ? "min_i(%s, %s)" : d ? "min_d(%s, %s)" : "min_f(%s, %s)";
    break;
  case PRIM_ANY:
    f.start = "0";
    f.combine = "%s | %s";
    break;
  case PRIM_ALL:
    f.start = "1";
    f.combine = "%s & %s";
    break;
  }
  return f;
}

static const char *combined(Cgen *e, const Fold *f, const char *x,
                            const char *y) {
  const char *text = cgen_format(e, f->combine, x, y);
  if (f->held != DT_I64 && !dtype_is_float(f->held) && strchr(text, '('))
    return cgen_format(e, "(int32_t)%s", text);
  return text;
}

static void add_to(Cgen *e, const Fold *f, const char *acc) {
  const char *x = body_text(e, f->n);
  bool first = f->n->reduce == PRIM_MAX || f->n->reduce == PRIM_MIN;
  cgen_line(e, "%s = %s;", acc,
            first ? combined(e, f, x, acc) : combined(e, f, acc, x));
}

static void store_fold(Cgen *e, const Fold *f, const char *acc) {
  store(e, f->n, f->to, cgen_convert(e, f->held, f->n->dtype, acc));
}

static void fold_plain(Cgen *e, const Fold *f) {
  const char *acc = cgen_fresh(e, "a");
  cgen_line(e, "%s %s = %s;", cgen_held(f->held), acc, f->start);
  uint32_t depth = e->depth, scope = cgen_scope(e);
  for (uint32_t k = f->outer; k < f->axes; k++)
    cgen_axis_loop(e, f->n->extents[k]);
  add_to(e, f, acc);
  cgen_leave(e, scope);
  close_to(e, depth);
  e->axis_count = f->outer;
  store_fold(e, f, acc);
}

/* The first of the best; NaN is better than all. */
static void fold_best(Cgen *e, const Fold *f) {
  const char *best = cgen_fresh(e, "a"), *at = cgen_fresh(e, "a");
  const char *turn = cgen_fresh(e, "a"), *held = cgen_held(f->body);
  cgen_line(e, "%s %s = 0;", held, best);
  cgen_line(e, "int64_t %s = 0, %s = 0;", at, turn);
  uint32_t depth = e->depth, scope = cgen_scope(e);
  for (uint32_t k = f->outer; k < f->axes; k++)
    cgen_axis_loop(e, f->n->extents[k]);
  const char *x = body_text(e, f->n);
  const char *sign = f->n->reduce == PRIM_ARGMAX ? ">" : "<";
  const char *nan = dtype_is_float(f->body)
                        ? cgen_format(e, " || (isnan(%s) && !isnan(%s))", x,
                                      best)
                        : "";
  cgen_open(e, cgen_format(e, "if (%s == 0 || %s %s %s%s)", turn, x, sign, best,
                           nan));
  cgen_line(e, "%s = %s;", best, x);
  cgen_line(e, "%s = %s;", at, turn);
  cgen_close(e);
  cgen_line(e, "%s++;", turn);
  cgen_leave(e, scope);
  close_to(e, depth);
  e->axis_count = f->outer;
  store(e, f->n, f->to, at);
}

/* LANES sums along the innermost reduced axis, put together pairwise. */
static void fold_lanes(Cgen *e, const Fold *f) {
  const char *acc = cgen_fresh(e, "a"), *l = cgen_fresh(e, "l");
  const char *from = cgen_fresh(e, "r"), *held = cgen_held(f->held);
  cgen_line(e, "%s %s[%d];", held, acc, LANES);
  cgen_line(e, "for (int %s = 0; %s < %d; %s++) %s[%s] = %s;", l, l, LANES, l,
            acc, l, f->start);
  uint32_t depth = e->depth;
  for (uint32_t k = f->outer; k + 1 < f->axes; k++)
    cgen_axis_loop(e, f->n->extents[k]);
  int64_t extent = f->n->extents[f->axes - 1];
  const char *end = cgen_size(e, extent), *r = cgen_fresh(e, "i");
  uint32_t axis = add_axis(e, r, extent), scope = cgen_scope(e);
  cgen_line(e, "int64_t %s = 0;", from);
  for (uint32_t tail = 0; tail < 2; tail++) {
    if (!tail)
      cgen_open(e, cgen_format(e, "for (; %s + %d <= %s; %s += %d)", from,
                               LANES, end, from, LANES));
    cgen_open(e, tail ? cgen_format(e, "for (int %s = 0; %s < %s - %s; %s++)",
                                    l, l, end, from, l)
                      : cgen_format(e, "for (int %s = 0; %s < %d; %s++)", l, l,
                                    LANES, l));
    e->axis[axis] = cgen_fresh(e, "i");
    cgen_line(e, "const int64_t %s = %s + %s;", e->axis[axis], from, l);
    add_to(e, f, cgen_format(e, "%s[%s]", acc, l));
    cgen_leave(e, scope);
    cgen_close(e);
    if (!tail)
      cgen_close(e);
  }
  close_to(e, depth);
  e->axis_count = f->outer;
  const char *half = cgen_fresh(e, "h");
  const char *x = cgen_format(e, "%s[%s]", acc, l);
  const char *y = cgen_format(e, "%s[%s + %s]", acc, l, half);
  cgen_line(e, "for (int %s = %d; %s; %s /= 2)", half, LANES / 2, half, half);
  cgen_line(e, "  for (int %s = 0; %s < %s; %s++) %s = %s;", l, l, half, l, x,
            combined(e, f, x, y));
  store_fold(e, f, cgen_format(e, "%s[0]", acc));
}

/* One block of columns.  In a whole one the innermost reduced axis goes UNROLL
 * at a time, so that sums are fetched and put back less often. */
static void columns_block(Cgen *e, const Fold *f, const char *acc,
                          const char *base, const char *count, bool whole) {
  uint32_t column = f->outer - 1, scope = cgen_scope(e), last = f->axes - 1;
  const char *l = cgen_fresh(e, "l"), *end, *r = cgen_fresh(e, "r");
  const char *head = cgen_format(e, "for (int %s = 0; %s < %s; %s++)", l, l,
                                 count, l);
  uint32_t depth = e->depth, axes = e->axis_count;
  for (uint32_t k = f->outer; k < last; k++)
    cgen_axis_loop(e, f->n->extents[k]);
  uint32_t inner = add_axis(e, r, f->n->extents[last]);
  end = cgen_size(e, f->n->extents[last]);
  cgen_line(e, "int64_t %s = 0;", r);
  for (uint32_t tail = !whole; tail < 2; tail++) {
    cgen_open(e, tail ? cgen_format(e, "for (; %s < %s; %s++)", r, end, r)
                      : cgen_format(e, "for (; %s + %d <= %s; %s += %d)", r,
                                    UNROLL, end, r, UNROLL));
    cgen_open(e, head);
    e->axis[column] = cgen_fresh(e, "i");
    cgen_line(e, "const int64_t %s = %s + %s;", e->axis[column], base, l);
    const char *sum = cgen_format(e, "%s[%s]", acc, l), *s = cgen_fresh(e, "s");
    cgen_line(e, "%s %s = %s;", cgen_held(f->held), s, sum);
    for (uint32_t u = 0; u < (tail ? 1 : UNROLL); u++) {
      e->axis[inner] = r;
      if (u) {
        e->axis[inner] = cgen_fresh(e, "i");
        cgen_line(e, "const int64_t %s = %s + %u;", e->axis[inner], r, u);
      }
      add_to(e, f, s);
    }
    cgen_line(e, "%s = %s;", sum, s);
    cgen_leave(e, scope);
    cgen_close(e);
    cgen_close(e);
  }
  close_to(e, depth);
  e->axis_count = axes;
}

/* COLUMNS elements of the last axis at a time, for all of the one before it. */
static void fold_columns(Cgen *e, const Fold *f) {
  const Node *n = f->n;
  uint32_t column = f->outer - 1, first = f->first;
  const char *base = cgen_fresh(e, "b"), *acc = cgen_fresh(e, "a");
  const char *l = cgen_fresh(e, "l"), *count = cgen_fresh(e, "n");
  const char *end = cgen_size(e, n->extents[column]);
  uint32_t row = column > first ? column - 1 : column;
  for (uint32_t k = first; k < row; k++)
    cgen_axis_loop(e, n->extents[k]);
  cgen_open(e, cgen_format(e, "for (int64_t %s = 0; %s < %s; %s += %d)", base,
                           base, end, base, COLUMNS));
  cgen_line(e, "const int %s = (int)size_min(%d, %s - %s);", count, COLUMNS,
            end, base);
  if (row < column)
    cgen_axis_loop(e, n->extents[row]);
  add_axis(e, base, n->extents[column]);
  cgen_line(e, "%s %s[%d];", cgen_held(f->held), acc, COLUMNS);
  cgen_line(e, "for (int %s = 0; %s < %d; %s++) %s[%s] = %s;", l, l, COLUMNS, l,
            acc, l, f->start);
  cgen_open(e, cgen_format(e, "if (%s == %d)", count, COLUMNS));
  columns_block(e, f, acc, base, cgen_format(e, "%d", COLUMNS), true);
  e->depth--;
  cgen_line(e, "} else {");
  e->depth++;
  columns_block(e, f, acc, base, count, false);
  cgen_close(e);
  e->axis_count = f->outer;
  cgen_open(e, cgen_format(e, "for (int %s = 0; %s < %s; %s++)", l, l, count,
                           l));
  e->axis[column] = cgen_fresh(e, "i");
  cgen_line(e, "const int64_t %s = %s + %s;", e->axis[column], base, l);
  store_fold(e, f, cgen_format(e, "%s[%s]", acc, l));
  cgen_close(e);
}

/* ---- which of them ---- */

/* How elements are read that are next to each other along an axis. */
typedef struct Steps {
  uint32_t still, next, far;
} Steps;

/* moves: which cells are others where the axis moves on */
static bool *cells_along(Cgen *e, const Node *n, uint32_t axis) {
  bool *moves = NEW_ARRAY(e->arena, bool, n->cell_count + 1);
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    moves[k] = c->kind == CELL_AXIS && c->axis == axis;
    for (uint32_t j = 0; j < c->arg_count; j++)
      moves[k] |= moves[c->args[j]];
  }
  return moves;
}

/* Which argument of a read moves, if it is one; else UINT32_MAX. */
static uint32_t moving_arg(const Cell *c, const bool *moves) {
  uint32_t which = UINT32_MAX;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (moves[c->args[j]]) {
      if (which != UINT32_MAX)
        return UINT32_MAX;
      which = j;
    }
  return which;
}

static bool is_written_in(Cgen *e, const Node *x) {
  return x->kind == NODE_COMP && !cgen_info(e, x)->stored;
}

/* Is the index, which moves, the axis, or that and something that stays? */
static bool is_next(Cgen *e, const Node *n, uint32_t k, const bool *moves) {
  const Cell *c = &n->cells[k];
  if (c->kind == CELL_AXIS)
    return true;
  uint32_t which = moving_arg(c, moves);
  if (which == UINT32_MAX || !is_next(e, n, c->args[which], moves))
    return false;
  if (c->kind == CELL_OP)
    return c->op == PRIM_ADD || (c->op == PRIM_SUB && which == 0);
  if (c->kind != CELL_READ || !is_written_in(e, c->node))
    return false;
  const Node *x = c->node;
  const bool *inner = cells_along(e, x, which);
  return inner[x->cell_count - 1] && is_next(e, x, x->cell_count - 1, inner);
}

static Steps steps_along(Cgen *e, const Node *n, uint32_t axis) {
  Steps s = {0};
  const bool *moves = cells_along(e, n, axis);
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    if (c->kind != CELL_READ || !moves[k]) {
      s.still += c->kind == CELL_READ;
      continue;
    }
    uint32_t which = moving_arg(c, moves);
    bool next = which != UINT32_MAX && is_next(e, n, c->args[which], moves);
    if (next && is_written_in(e, c->node)) {
      Steps inner = steps_along(e, c->node, which);
      s.still += inner.still, s.next += inner.next, s.far += inner.far;
    } else {
      *(next && which == c->arg_count - 1 ? &s.next : &s.far) += 1;
    }
  }
  return s;
}

static bool is_short(const Cgen *e, int64_t extent) {
  return size_is_number(e->g, extent) && extent < 8;
}

static void cgen_fold(Cgen *e, const Node *n, const char *to) {
  Fold f = fold_of(n, to);
  bool best = n->reduce == PRIM_ARGMAX || n->reduce == PRIM_ARGMIN;
  bool lanes = dtype_is_float(f.held) && n->reduce != PRIM_PROD && !best;
  Steps inner = steps_along(e, n, f.axes - 1);
  Steps column = {0};
  f.first = n->guard ? n->free_count : 0;
  bool some = f.first < f.outer;
  if (some)
    column = steps_along(e, n, f.outer - 1);
  bool columns = lanes && some && n->reduce_count &&
                 !is_short(e, n->extents[f.outer - 1]) &&
                 8 * column.far + column.next < 8 * inner.far + inner.next;
  if (columns) {
    fold_columns(e, &f);
    return;
  }
  for (uint32_t k = f.first; k < f.outer; k++)
    cgen_axis_loop(e, n->extents[k]);
  if (best)
    fold_best(e, &f);
  else if (lanes && n->reduce_count && !is_short(e, n->extents[f.axes - 1]))
    fold_lanes(e, &f);
  else
    fold_plain(e, &f);
}

void cgen_comp(Cgen *e, const Node *n, const char *to) {
  Nest nest = cgen_begin(e);
  if (n->guard || n->reduce == PRIM_NONE)
    cgen_free_axes(e, n);
  if (n->reduce != PRIM_NONE) {
    cgen_fold(e, n, to);
  } else {
    for (uint32_t k = n->free_count; k < n->free_count + n->rank; k++)
      cgen_axis_loop(e, n->extents[k]);
    store(e, n, to, body_text(e, n));
  }
  cgen_finish(e, nest);
}

/* ---- requirements ---- */

static const char *fact_text(Cgen *e, SizeFact f) {
  static const char *const signs[] = {
      [SIZE_EQ] = "==", [SIZE_LE] = "<=", [SIZE_NE] = "!="};
  const char *x = cgen_size(e, f.x), *y = cgen_size(e, f.y);
  return cgen_format(e, "%s %s %s", x, signs[f.test], y);
}

void cgen_test(Cgen *e, const Requirement *r) {
  Nest nest = cgen_begin(e);
  for (uint32_t k = 0; k < r->when_count; k++)
    cgen_open(e, cgen_format(e, "if (%s)", fact_text(e, r->when[k])));
  cgen_open(e, cgen_format(e, "if (!(%s))", fact_text(e, r->fact)));
  for (uint32_t k = 0; r->guard && k < r->guard->free_count; k++)
    cgen_axis_loop(e, r->guard->extents[k]);
  if (r->guard)
    cgen_open(e, cgen_format(e, "if (%s)", cgen_at(e, r->guard, r->guard, 0)
                                               .text));
  const char *message = r->message;
  if (*r->help)
    message = cgen_format(e, "%s (%s)", message, r->help);
  cgen_line(e, "%s", cgen_fail(e, r->span, message));
  cgen_finish(e, nest);
}

void cgen_ask(Cgen *e, const char *go, const Node *more) {
  Nest nest = cgen_begin(e);
  cgen_line(e, "%s = %s;", go, cgen_at(e, more, more, 0).text);
  cgen_finish(e, nest);
}
