/* Suggestions for shapes that do not fit.  A suggestion is only given if the
   corrected program checks at that place. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

static bool is_size_one(const ShapeAxis *it) {
  int64_t n;
  return it->tag == SHAPE_DIM && dim_is_int(it->dim, &n) && n == 1;
}

static bool is_unsolved_size(const ShapeAxis *it) {
  DimVar *v = it->tag == SHAPE_DIM ? dim_as_var(it->dim) : NULL;
  return v && v->kind == DV_META;
}

static bool same_axis(const ShapeAxis *a, const ShapeAxis *b) {
  return a->tag == SHAPE_DIM && b->tag == SHAPE_DIM &&
         dim_equal(a->dim, b->dim);
}

static bool fits_axis(const ShapeAxis *a, const ShapeAxis *b) {
  return a->tag == SHAPE_DIM && b->tag == SHAPE_DIM &&
         (is_unsolved_size(a) || is_unsolved_size(b) ||
          dim_equal(a->dim, b->dim));
}

/* The name of an operand or argument, or its text if that is short. */
static const char *name_of(Checker *c, const Expr *e) {
  enum { MAX_QUOTED_BYTES = 24 };
  const char *path = e ? error_expr_path(c, e) : NULL;
  if (path || !e)
    return path ? path : "x";
  e = error_brought(e);
  const char *text = error_source_text(c, e->span);
  return text && *text && strlen(text) <= MAX_QUOTED_BYTES
             ? fixit_argument_text(c, e)
             : "x";
}

/* ":, new, ...": `item` at an axis that follows `before` axes. */
static const char *items_at(Checker *c, uint32_t at, uint32_t before,
                            const char *item) {
  Buffer text = {.arena = c->arena};
  if (at == before) {
    buffer_printf(&text, "..., %s", item);
    return text.text;
  }
  for (uint32_t i = 0; i < at; i++)
    buffer_puts(&text, ":, ");
  buffer_printf(&text, "%s, ...", item);
  return text.text;
}

/* ---- flatten ---- */

static Dim *row_size(Checker *c, const Shape *s) {
  Dim *product = dim_int(c->dims, 1);
  for (uint32_t i = 1; i < s->len; i++) {
    if (s->axes[i].tag != SHAPE_DIM || is_unsolved_size(&s->axes[i]))
      return NULL;
    product = dim_mul(c->dims, product, s->axes[i].dim);
  }
  return product;
}

bool hint_flatten(Checker *c, Diag *d, const Origin *o, Expr *e, Type *actual,
                  Dim *wanted) {
  Shape *s = error_shape(c, actual);
  Dim *size =
      s && s->len > 2 && shape_has_known_rank(s) ? row_size(c, s) : NULL;
  if (!size || !dim_equal(size, dim_resolve(c->dims, wanted)))
    return false;
  Shape *flat = shape_new(c, 2);
  flat->axes[0] = s->axes[0];
  flat->axes[1] = (ShapeAxis){.tag = SHAPE_DIM, .dim = size};
  d->help = arena_printf(c->arena, "insert flatten: the result is %s, from %s",
                         shape_text(c, flat), shape_text(c, s));
  if (e)
    fixit_apply(c, d, o, e, "flatten");
  return true;
}

/* ---- ranks ---- */

/* Finds where one more axis makes `small` fit `large`.  Returns false if there
   is no such place, or several.  Prefers an axis of size 1. */
static bool missing_axis(const Shape *small, const Shape *large,
                         uint32_t *out) {
  uint32_t found = 0, ones = 0;
  for (uint32_t p = 0; p < large->len; p++) {
    bool unit = is_size_one(&large->axes[p]), some = unit;
    bool fits = unit || is_unsolved_size(&large->axes[p]);
    for (uint32_t i = 0; i < small->len && fits; i++) {
      const ShapeAxis *other = &large->axes[i + (i >= p)];
      fits = fits_axis(&small->axes[i], other);
      some |= same_axis(&small->axes[i], other);
    }
    if (!fits || !some || (ones && !unit))
      continue;
    if (unit && !ones)
      found = 0;
    ones += unit;
    if (!found++)
      *out = p;
  }
  return found == 1 || (found && *out == 0);
}

static void hint_new_axis(Checker *c, Diag *d, const Origin *o, uint32_t at,
                          const Shape *have, bool unit) {
  const char *items = items_at(c, at, have->len, "new"),
             *name = name_of(c, o->expr);
  d->help = arena_printf(
      c->arena,
      at == 0 && !unit  ? "to add a leading axis of size 1, write %s.[%s]"
      : at == have->len ? "to add a last axis of size 1, write %s.[%s]"
                        : "to add an axis of size 1, write %s.[%s]",
      name, items);
  if (o->expr)
    fixit_index(c, d, o, o->expr, items);
}

/* A number is expected, but a tensor is found. */
static bool hint_elementwise(Checker *c, Diag *d, const Origin *o,
                             const Shape *have) {
  if (o->kind != ORIGIN_ARG)
    return false;
  Type *fun = o->arg.fun_type ? ty_root(o->arg.fun_type) : NULL;
  if (o->prim != PRIM_NONE || have->len != 1 || !fun || !o->arg.callee ||
      o->arg.arg_count != 1 || fun->tag != TY_FUN || fun->fun.label ||
      ty_root(fun->fun.result)->tag == TY_FUN)
    return false;
  const char *name = o->subject ? o->subject : "f";
  d->help = arena_printf(c->arena,
                         "to apply it to each element, write map %s x", name);
  fixit_wrap_callee(c, d, o, "map");
  return true;
}

/* ---- axes that stretch ---- */

bool hint_find_star(const Shape *have, const Shape *expected, uint32_t *at) {
  if (have->len != expected->len)
    return false;
  for (uint32_t i = 0; i < have->len; i++)
    if (axis_is_star(&have->axes[i]) && expected->axes[i].tag == SHAPE_DIM) {
      *at = i;
      return true;
    }
  return false;
}

/* The star of an index that makes an axis broadcast, if there is exactly
   one. */
static const Slice *only_star_slice(const Expr *e) {
  const Slice *found = NULL;
  for (uint32_t i = 0; e && e->kind == EX_INDEX && i < e->slice_count; i++)
    if (e->slices[i].kind == SLICE_STAR) {
      if (found)
        return NULL;
      found = &e->slices[i];
    }
  return found;
}

/* Suggests an axis of size 1 instead of a star, or the reverse. */
static bool hint_star_or_one(Checker *c, Diag *d, const Origin *o,
                             const Shape *have, const Shape *expected) {
  uint32_t at;
  bool stretches = hint_find_star(have, expected, &at);
  if (!stretches &&
      !(hint_find_star(expected, have, &at) && is_size_one(&have->axes[at])))
    return false;
  const Slice *star = stretches ? only_star_slice(o->expr) : NULL;
  if (star) {
    d->help = "`new` adds an axis of size 1; `*` adds a broadcast axis, which "
              "has no size";
    fixit_replace(c, d, star->span, "new");
    return true;
  }
  const char *items =
      items_at(c, at, have->len - 1, stretches ? "0, new" : "0, *");
  if (at + 1 == have->len)
    items = stretches ? "..., 0, new" : "..., 0, *";
  d->help = arena_printf(
      c->arena,
      stretches
          ? "a broadcast axis has no size: write %s.[%s] for an axis of size 1"
          : "to broadcast the axis of size 1, write %s.[%s]",
      name_of(c, o->expr), items);
  if (o->expr)
    fixit_index(c, d, o, o->expr, items);
  return true;
}

void hint_rank(Checker *c, Diag *d, Type *actual, Type *expected,
               const Origin *o) {
  Shape *have = error_shape(c, actual), *wanted = error_shape(c, expected);
  uint32_t at;
  if (o->subject && strcmp(o->subject, "if") == 0) {
    d->help = "for a choice per element, write select c x y; for one choice, "
              "all c or any c";
    return;
  }
  if (shape_has_known_rank(have) && !shape_has_known_rank(wanted) &&
      have->len && have->len + 1 == shape_min_rank(wanted) &&
      wanted->axes[0].tag == SHAPE_SPLICE && o->subject &&
      strncmp(o->subject, "nn.", 3) == 0 &&
      fits_axis(&have->axes[have->len - 1], &wanted->axes[wanted->len - 1])) {
    hint_new_axis(c, d, o, 0, have, false);
    return;
  }
  if (!shape_has_known_rank(have) || !shape_has_known_rank(wanted) ||
      hint_star_or_one(c, d, o, have, wanted))
    return;
  if (wanted->len == 0 && hint_elementwise(c, d, o, have))
    return;
  if (wanted->len == 2 && have->len > 2 &&
      fits_axis(&have->axes[0], &wanted->axes[0]) &&
      wanted->axes[1].tag == SHAPE_DIM &&
      hint_flatten(c, d, o, o->expr, actual, wanted->axes[1].dim))
    return;
  if (wanted->len == have->len + 1 && missing_axis(have, wanted, &at)) {
    hint_new_axis(c, d, o, at, have, is_size_one(&wanted->axes[at]));
  } else if (have->len == wanted->len + 1 && missing_axis(wanted, have, &at) &&
             is_size_one(&have->axes[at])) {
    const char *items = items_at(c, at, wanted->len, "0");
    d->help = arena_printf(
        c->arena, "its %s axis has size 1: to remove it, write %s.[%s]",
        at == wanted->len ? "last"
        : at == 0         ? "first"
                          : "middle",
        name_of(c, o->expr), items);
    if (o->expr)
      fixit_index(c, d, o, o->expr, items);
  }
}

/* ---- axes in another order ---- */

typedef struct AxisOrder { /* axis i becomes axis at[i] of the original */
  uint32_t at[MAX_RANK], len;
} AxisOrder;

/* True if the reordered axes may be equal to the expected ones, and a moved
   axis certainly is. */
static bool order_fits(const AxisOrder *order, const Shape *have,
                       const Shape *expected) {
  bool some = false;
  for (uint32_t i = 0; i < order->len; i++) {
    const ShapeAxis *a = &have->axes[order->at[i]], *b = &expected->axes[i];
    if (!fits_axis(a, b))
      return false;
    some |= order->at[i] != i && same_axis(a, b);
  }
  return some;
}

/* The order after one axis is moved. */
static AxisOrder move_axis(uint32_t len, uint32_t from, uint32_t to) {
  AxisOrder order = {.len = len};
  for (uint32_t i = 0, next = 0; i < len; i++) {
    next += next == from;
    order.at[i] = i == to ? from : next++;
  }
  return order;
}

/* Finds the only reordering that fits: one moved axis, otherwise two exchanged
   ones. */
static bool find_order(const Shape *have, const Shape *expected,
                       AxisOrder *out) {
  uint32_t found = 0, n = have->len;
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t to = 0; to < n; to++) {
      AxisOrder order = move_axis(n, from, to);
      if (from == to || from == to + 1 || !order_fits(&order, have, expected))
        continue; /* exchanging neighbours equals moving one */
      *out = order;
      found++;
    }
  for (uint32_t i = 0; i < n && !found; i++)
    for (uint32_t j = i + 2; j < n; j++) {
      AxisOrder order = move_axis(n, n, n);
      order.at[i] = j, order.at[j] = i;
      if (!order_fits(&order, have, expected))
        continue;
      *out = order;
      found++;
    }
  return found == 1;
}

static const char *permute_text(Checker *c, const AxisOrder *order) {
  static const char *const plain = "abcdefghijklmnopqrstuvwxyz";
  bool images = order->len == 4 && order->at[0] == 0;
  const char *letters =
      images && order->at[1] == 3 && order->at[2] == 1   ? "bhwc"
      : images && order->at[3] == 1 && order->at[1] == 2 ? "bchw"
                                                         : plain;
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < order->len; i++)
    buffer_printf(&text, "%s%c", i ? " " : "permute \"", letters[i]);
  for (uint32_t i = 0; i < order->len; i++)
    buffer_printf(&text, "%s%c", i ? " " : " -> ", letters[order->at[i]]);
  buffer_puts(&text, "\"");
  return text.text;
}

bool hint_axis_order(Checker *c, Diag *d, const Origin *o, Expr *e,
                     Type *actual, Type *expected) {
  Shape *a = error_shape(c, actual), *b = error_shape(c, expected);
  AxisOrder order = {.len = 0};
  if (!a || !b || !shape_has_known_rank(a) || !shape_has_known_rank(b) ||
      a->len != b->len || a->len < 2 || a->len > 26 ||
      !find_order(a, b, &order))
    return false;
  uint32_t n = order.len, first = 0, last = n - 1;
  while (order.at[first] == first)
    first++;
  while (order.at[last] == last)
    last--;
  bool exchanged = order.at[first] == last && order.at[last] == first;
  const char *change =
      first + 2 == n && exchanged ? "transpose" : permute_text(c, &order);
  const char *name = name_of(c, e);
  d->help =
      exchanged
          ? arena_printf(c->arena, "axes %u and %u may be swapped: write %s %s",
                         first, last, change, name)
          : arena_printf(c->arena,
                         "the axes may be in the wrong order: write %s %s",
                         change, name);
  if (e)
    fixit_apply(c, d, o, e, change);
  return true;
}

/* ---- reshape and concat ---- */

/* The value of an integer at the call, if it is known. */
static bool number_at_call(Checker *c, const Origin *o, const Expr *e,
                           int64_t *out) {
  if (!e->inferred_type)
    return false;
  const Type *t = ty_norm(
      c, call_substitute_type(c, o->call_substitution, e->inferred_type));
  return t->tag == TY_TENSOR && t->tensor.singleton &&
         dim_is_int(dim_resolve(c->dims, t->tensor.singleton), out);
}

/* reshape [heads, d / heads]: the division is inexact. */
static bool hint_inexact_item(Checker *c, Diag *d, const Expr *shape,
                              const Origin *o) {
  for (uint32_t i = 0; i < shape->item_count; i++) {
    const Expr *e = shape->items[i];
    int64_t x, y;
    const char *text = error_source_text(c, e->span);
    if (e->kind != EX_BIN || e->op != BIN_DIV || !text ||
        !number_at_call(c, o, e->arg[0], &x) ||
        !number_at_call(c, o, e->arg[1], &y) || y <= 0 || x % y == 0)
      continue;
    d->help =
        arena_printf(c->arena, "%s rounds down: %lld is not a multiple of %lld",
                     text, (long long)x, (long long)y);
    return true;
  }
  return false;
}

void hint_reshape(Checker *c, Diag *d, const Expr *shape, const Constraint *k) {
  Dim *have = dim_resolve(c->dims, k->left);
  Dim *made = dim_resolve(c->dims, k->right);
  const Expr *item = NULL;
  int64_t n, right = 0;
  if (shape->kind != EX_BRACKET || hint_inexact_item(c, d, shape, k->origin))
    return;
  for (uint32_t i = 0; i < shape->item_count; i++) {
    const Expr *e = shape->items[i];
    Dim *other = NULL;
    if (e->kind == EX_NUM && !e->is_float && !shape->splices[i])
      other = dim_exact_quotient(
          c->dims, dim_mul(c->dims, have, dim_parse(c->dims, e->num)), made);
    if (!other || !dim_is_int(other, &n) || n < 2)
      continue;
    if (item)
      return; /* it is unclear which one is wrong */
    item = e, right = n;
  }
  if (!item)
    return;
  const char *text = arena_printf(c->arena, "%lld", (long long)right);
  d->help = arena_printf(
      c->arena, "with %s instead of %s, the numbers of elements are equal",
      text, item->num);
  fixit_replace(c, d, item->span, text);
}

bool hint_concat_axis(Checker *c, Diag *d, const Origin *o) {
  const Expr *axis = o->kind == ORIGIN_ELEMENT ? o->operands.axis : NULL;
  uint32_t i, j;
  if (!axis || axis->kind != EX_NUM || !o->operands.left)
    return false;
  Shape *a = error_shape(c, o->operands.left->inferred_type);
  Shape *b = error_shape(c, o->operands.right->inferred_type);
  if (!a || !b || a->len != b->len || !error_find_one_axis(a, b, &i, &j))
    return false;
  const char *other = axis->num[0] == '-'
                          ? arena_printf(c->arena, "-%u", a->len - i)
                          : arena_printf(c->arena, "%u", i);
  d->help = arena_printf(c->arena,
                         "the shapes fit along another axis: ~axis:%s", other);
  fixit_replace(c, d, axis->span, other);
  return true;
}

/* ---- products ---- */

void hint_matmul_inner(Checker *c, Diag *d, const Origin *o, Dim *x, Dim *y) {
  Shape *a = error_shape(c, o->actual), *b = error_shape(c, o->expected);
  if (!a || !b || !shape_has_known_rank(a) || !shape_has_known_rank(b))
    return;
  Expr *left = origin_left(o), *right = origin_right(o);
  const ShapeAxis *rows = a->len > 1 ? &a->axes[a->len - 2] : NULL;
  const ShapeAxis *columns = b->len > 1 ? &b->axes[b->len - 1] : NULL;
  if (columns && columns->tag == SHAPE_DIM && dim_equal(columns->dim, x)) {
    d->help = "the right side may be transposed: write transpose";
    if (right)
      fixit_apply(c, d, o, right, "transpose");
  } else if (hint_flatten(c, d, o, left, o->actual, y)) {
    return;
  } else if (rows && rows->tag == SHAPE_DIM && dim_equal(rows->dim, y) &&
             left && error_expr_path(c, left)) {
    d->help = "the left side may be transposed: write transpose";
    fixit_apply(c, d, o, left, "transpose");
  }
}

/* ---- layers: weights and biases ---- */

bool hint_transposed_matrix(Checker *c, Diag *d, const Origin *o,
                            const char *name, Expr *e, Type *t, Dim *have,
                            Dim *expected) {
  Shape *w = error_shape(c, t);
  if (!w || w->len != 2 || w->axes[0].tag != SHAPE_DIM ||
      w->axes[1].tag != SHAPE_DIM || !dim_equal(w->axes[0].dim, expected) ||
      !dim_equal(w->axes[1].dim, have))
    return false;
  d->help =
      arena_printf(c->arena, "%s : %s may be transposed", name, ty_text(c, t));
  if (e)
    fixit_apply(c, d, o, e, "transpose");
  return true;
}

/* The differing sizes of one axis, as in the types. */
static bool differing_sizes(Checker *c, Type *actual, Type *expected, Dim **x,
                            Dim **y) {
  Shape *a = error_shape(c, actual), *b = error_shape(c, expected);
  uint32_t i, j;
  if (!error_find_one_axis(a, b, &i, &j))
    return false;
  *x = a->axes[i].dim, *y = b->axes[j].dim;
  return true;
}

static bool has_size(Checker *c, Type *t, Dim *d) {
  Shape *s = error_shape(c, t);
  for (uint32_t i = 0; s && i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM && dim_equal(s->axes[i].dim, d))
      return true;
  return false;
}

/* The field may be written in a literal {w = ..., b = ...}. */
static void hint_record_literal(Checker *c, Diag *d, const Origin *o, Dim *have,
                                Dim *expected) {
  const Expr *record = o->record;
  for (uint32_t i = 0; i < record->field_count; i++) {
    FieldExpr *f = &record->fields[i];
    Type *t = f->expr->inferred_type;
    if (f->expr == o->expr || !t || !has_size(c, t, expected))
      continue;
    diag_add_label(c->arena, d, f->expr->span, ty_text(c, ty_norm(c, t)));
    hint_transposed_matrix(c, d, o, f->id->text, f->expr, t, have, expected);
    return;
  }
}

void hint_record_field(Checker *c, Diag *d, const Origin *o,
                       const TypeDiff *part) {
  Dim *have, *expected;
  if (!differing_sizes(c, part->actual, part->expected, &have, &expected))
    return;
  if (o->kind == ORIGIN_FIELD && o->record && o->record->kind == EX_RECORD) {
    hint_record_literal(c, d, o, have, expected);
    return;
  }
  if (*part->path && hint_transposed_matrix(c, d, o, part->path, NULL,
                                            part->actual, have, expected))
    return;
  Type *record = ty_norm(c, o->actual);
  if (record->tag != TY_RECORD || o->kind != ORIGIN_ARG)
    return;
  record = row_flat(c, record);
  for (uint32_t i = 0; i < record->count; i++)
    if (hint_transposed_matrix(c, d, o, record->record.labels[i]->text, NULL,
                               record->args[i], have, expected))
      return;
}

/* ---- joins ---- */

/* The shapes of two operands, the shorter and the longer one. */
typedef struct Operands {
  Shape *small, *large;
  Expr *of_small, *of_large;
} Operands;

/* Counts the ways in which the axes of `small` form a subsequence of `large`.
   where[i] is the position of axis i in one of them. */
static uint32_t count_subsequences(const Shape *small, uint32_t i,
                                   const Shape *large, uint32_t from,
                                   uint32_t *where) {
  if (i == small->len)
    return 1;
  uint32_t count = 0, rest[MAX_RANK];
  for (uint32_t k = from; k < large->len && count < 2; k++) {
    if (!same_axis(&small->axes[i], &large->axes[k]))
      continue;
    uint32_t more = count_subsequences(small, i + 1, large, k + 1, rest);
    if (more && !count) {
      where[i] = k;
      for (uint32_t j = i + 1; j < small->len; j++)
        where[j] = rest[j];
    }
    count += more;
  }
  return count;
}

/* Suggests stars for missing axes that are not in front. */
static bool hint_add_stars(Checker *c, Diag *d, const Origin *o,
                           const Operands *x) {
  enum { MAX_SEARCHED_AXES = 8 };
  uint32_t where[MAX_RANK], next = 0, stars = 0;
  if (!x->small->len || x->large->len > MAX_SEARCHED_AXES ||
      x->small->len == x->large->len)
    return false;
  uint32_t match_count = count_subsequences(x->small, 0, x->large, 0, where);
  /* finds a match at the front first, if there is one */
  bool front = where[0] == 0;
  for (uint32_t i = 0; match_count && i < x->small->len; i++)
    front &= where[i] == i;
  if (!match_count || (match_count > 1 && !front))
    return false;
  Buffer items = {.arena = c->arena};
  for (uint32_t k = front ? x->small->len : where[0]; k < x->large->len; k++) {
    bool has = !front && next < x->small->len && where[next] == k;
    next += has;
    stars += !has;
    buffer_printf(&items, "%s%s",
                  items.len ? ", "
                  : front   ? "..., "
                            : "",
                  has ? ":" : "*");
  }
  if (!stars)
    return false; /* they are aligned */
  d->help = arena_printf(
      c->arena, "axes are aligned at the right: %s needs %s%s: write %s.[%s]%s",
      shape_text(c, x->small),
      stars == 1 ? "a broadcast axis" : "broadcast axes",
      front ? " at the end" : "", name_of(c, x->of_small), items.text,
      front ? ", or use ~keep:true in a reduction" : "");
  if (x->of_small)
    fixit_index(c, d, o, x->of_small, items.text);
  return true;
}

/* [b] with [b, 1]. */
static bool hint_drop_last_one(Checker *c, Diag *d, const Origin *o,
                               const Operands *x) {
  uint32_t n = x->small->len;
  if (x->large->len != n + 1 || !is_size_one(&x->large->axes[n]))
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (!same_axis(&x->small->axes[i], &x->large->axes[i]))
      return false;
  d->help = arena_printf(
      c->arena,
      "the last axis of %s has size 1: to remove it, write %s.[..., 0]",
      shape_text(c, x->large), name_of(c, x->of_large));
  if (x->of_large)
    fixit_index(c, d, o, x->of_large, "..., 0");
  return true;
}

/* [b, 1] with [b, n]: only one side has axes of size 1. */
static bool hint_ones_to_stars(Checker *c, Diag *d, const Origin *o,
                               const Shape *x, const Shape *y) {
  uint32_t ones[2] = {0};
  Buffer items = {.arena = c->arena};
  for (uint32_t i = 0; i < x->len; i++) {
    bool same = same_axis(&x->axes[i], &y->axes[i]);
    bool left = !same && is_size_one(&x->axes[i]);
    bool right = !same && is_size_one(&y->axes[i]);
    if (!same && !left && !right)
      return false;
    ones[0] += left, ones[1] += right;
    buffer_printf(&items, "%s%s", i ? ", " : "", same ? ":" : "0, *");
  }
  if (ones[0] && ones[1]) {
    d->help = "an axis of size 1 does not broadcast: remove it with index 0, "
              "and add a broadcast axis, as in x.[:, *]";
    return true;
  }
  Expr *e = ones[0] ? origin_left(o) : origin_right(o);
  d->help = arena_printf(c->arena,
                         "an axis of size 1 does not broadcast: to make it a "
                         "broadcast axis, write %s.[%s]",
                         name_of(c, e), items.text);
  if (e)
    fixit_index(c, d, o, e, items.text);
  return true;
}

/* [k, n] with [n, 1]: without its last axis, that aligns at the right. */
static bool hint_drop_column(Checker *c, Diag *d, const Origin *o,
                             const Shape *x, const Shape *y) {
  const Shape *column = is_size_one(&x->axes[x->len - 1]) ? x : y;
  const Shape *other = column == x ? y : x;
  uint32_t n = column->len;
  bool fits = n > 1 && is_size_one(&column->axes[n - 1]);
  for (uint32_t i = 1; fits && i < n; i++)
    fits = same_axis(&column->axes[n - 1 - i], &other->axes[n - i]);
  if (!fits)
    return false;
  Expr *e = column == x ? origin_left(o) : origin_right(o);
  d->help = arena_printf(
      c->arena,
      "the last axis of %s has size 1: to remove it, write %s.[..., 0]",
      shape_text(c, column), name_of(c, e));
  if (e)
    fixit_index(c, d, o, e, "..., 0");
  return true;
}

/* n with n - 1: a slice of the longer one fits. */
static bool hint_slice_longer(Checker *c, Diag *d, const Origin *o,
                              const Shape *x, const Shape *y) {
  enum { MAX_LENGTH_DIFFERENCE = 16 };
  uint32_t i, j;
  int64_t more;
  if (!error_find_one_axis(x, y, &i, &j) || dim_is_const(x->axes[i].dim) ||
      !dim_is_int(dim_sub(c->dims, x->axes[i].dim, y->axes[j].dim), &more))
    return false;
  const Shape *longer = more > 0 ? x : y;
  Expr *e = more > 0 ? origin_left(o) : origin_right(o);
  uint32_t at = more > 0 ? i : j, by = (uint32_t)(more > 0 ? more : -more);
  if (more > MAX_LENGTH_DIFFERENCE || more < -MAX_LENGTH_DIFFERENCE)
    return false;
  const char *items[2];
  for (int k = 0; k < 2; k++) {
    const char *part = k ? arena_printf(c->arena, "%u:", by)
                         : arena_printf(c->arena, ":-%u", by);
    items[k] = longer->len == 1 ? part : items_at(c, at, longer->len - 1, part);
  }
  const char *name = name_of(c, e);
  d->help = arena_printf(c->arena,
                         "one side is longer by %u: %s.[%s] and %s.[%s] have "
                         "the length of the other side",
                         by, name, items[0], name, items[1]);
  for (int k = 0; e && k < 2; k++)
    fixit_index(c, d, o, e, items[k]);
  return true;
}

/* Suggests how to make two operands broadcast. */
void hint_broadcast(Checker *c, Diag *d, const Origin *o) {
  Shape *a = error_shape(c, o->actual), *b = error_shape(c, o->expected);
  if (!a || !b || !shape_has_known_rank(a) || !shape_has_known_rank(b))
    return;
  bool shorter = a->len < b->len;
  Expr *left = origin_left(o), *right = origin_right(o);
  Operands x = {shorter ? a : b, shorter ? b : a, shorter ? left : right,
                shorter ? right : left};
  if (hint_drop_last_one(c, d, o, &x) || hint_add_stars(c, d, o, &x) ||
      hint_slice_longer(c, d, o, a, b))
    return;
  if (a->len == b->len && a->len && !hint_ones_to_stars(c, d, o, a, b) &&
      !hint_drop_column(c, d, o, a, b))
    hint_axis_order(c, d, o, right, o->expected, o->actual);
}
