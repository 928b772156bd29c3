/* Ways out of shapes that do not fit: given only where they are right, so that
 * the program with the help applied checks at that place. */
#include "errors.h"

#include <string.h>

static bool is_unit(const ShapeIt *it) {
  int64_t n;
  return it->tag == IT_DIM && dim_is_int(it->dim, &n) && n == 1;
}

static bool is_free(const ShapeIt *it) {
  DimVar *v = it->tag == IT_DIM ? dim_as_var(it->dim) : NULL;
  return v && v->kind == DV_META;
}

static bool same_axis(const ShapeIt *a, const ShapeIt *b) {
  return a->tag == IT_DIM && b->tag == IT_DIM && dim_equal(a->dim, b->dim);
}

static bool fits_axis(const ShapeIt *a, const ShapeIt *b) {
  return a->tag == IT_DIM && b->tag == IT_DIM &&
         (is_free(a) || is_free(b) || dim_equal(a->dim, b->dim));
}

/* How an operand or argument is called: by its name, if it has one. */
static const char *name_of(Checker *c, const Expr *e) {
  const char *path = e ? error_path_text(c, e) : NULL;
  return path ? path : "x";
}

/* ":, new, ..." of `item` at an axis; before is the number of axes there. */
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
    if (s->at[i].tag != IT_DIM || is_free(&s->at[i]))
      return NULL;
    product = dim_mul(c->dims, product, s->at[i].dim);
  }
  return product;
}

bool help_flatten(Checker *c, Diag *d, const Origin *o, Expr *e, Type *got,
                  Dim *wanted) {
  Shape *s = error_shape(c, got);
  Dim *size = s && s->len > 2 && shape_known_rank(s) ? row_size(c, s) : NULL;
  if (!size || !dim_equal(size, dim_resolve(c->dims, wanted)))
    return false;
  Shape *flat = shape_new(c, 2);
  flat->at[0] = s->at[0];
  flat->at[1] = (ShapeIt){.tag = IT_DIM, .dim = size};
  d->help = arena_printf(c->arena, "insert flatten: it makes %s of %s",
                         shape_text(c, flat), shape_text(c, s));
  if (e)
    edit_apply(c, d, o, e, "flatten");
  return true;
}

/* ---- ranks ---- */

/* Where one axis more makes `small` fit `large`; false: nowhere, or there is no
 * telling.  A place for an axis that has to be 1 goes before others. */
static bool missing_axis(const Shape *small, const Shape *large,
                         uint32_t *out) {
  uint32_t found = 0, units = 0;
  for (uint32_t p = 0; p < large->len; p++) {
    bool unit = is_unit(&large->at[p]), some = unit;
    bool fits = unit || is_free(&large->at[p]);
    for (uint32_t i = 0; i < small->len && fits; i++) {
      const ShapeIt *other = &large->at[i + (i >= p)];
      fits = fits_axis(&small->at[i], other);
      some |= same_axis(&small->at[i], other);
    }
    if (!fits || !some || (units && !unit))
      continue;
    if (unit && !units)
      found = 0;
    units += unit;
    if (!found++)
      *out = p;
  }
  return found == 1 || (found && *out == 0);
}

static void help_new_axis(Checker *c, Diag *d, const Origin *o, uint32_t at,
                          const Shape *have, bool unit) {
  const char *items = items_at(c, at, have->len, "new"),
             *name = name_of(c, o->expr);
  d->help = arena_printf(
      c->arena,
      at == 0 && !unit  ? "a leading axis, as of a batch of one, is made by "
                          "%s.[%s]"
      : at == have->len ? "a last axis of 1 is made by %s.[%s]"
                        : "an axis of 1 is made by %s.[%s]",
      name, items);
  if (o->expr)
    edit_index(c, d, o, o->expr, items);
}

/* One number is wanted, and many are there. */
static bool help_elements(Checker *c, Diag *d, const Origin *o,
                          const Shape *have) {
  if (o->what && strcmp(o->what, "if") == 0) {
    d->help = "select c x y chooses element by element";
    return true;
  }
  Type *fun = o->fun ? ty_root(o->fun) : NULL;
  if (o->kind != OR_ARG || o->prim != PRIM_NONE || have->len != 1 || !fun ||
      !o->head || o->arg_count != 1 || fun->tag != TY_FUN || fun->label ||
      ty_root(fun->arg[1])->tag == TY_FUN)
    return false;
  const char *name = o->what ? o->what : "f";
  d->help = arena_printf(c->arena, "map %s x applies it to each element", name);
  edit_head(c, d, o, "map");
  return true;
}

/* ---- axes that stretch ---- */

bool help_star(const Shape *have, const Shape *want, uint32_t *at) {
  if (have->len != want->len)
    return false;
  for (uint32_t i = 0; i < have->len; i++)
    if (item_is_star(&have->at[i]) && want->at[i].tag == IT_DIM) {
      *at = i;
      return true;
    }
  return false;
}

/* The star of an index that makes an axis stretch, if there is but one. */
static const Slice *star_of(const Expr *e) {
  const Slice *found = NULL;
  for (uint32_t i = 0; e && e->kind == EX_INDEX && i < e->slice_count; i++)
    if (e->slices[i].kind == SLICE_STAR) {
      if (found)
        return NULL;
      found = &e->slices[i];
    }
  return found;
}

/* An axis of 1 is wanted in place of one that stretches, or the other way
 * round. */
static bool help_stretch(Checker *c, Diag *d, const Origin *o,
                         const Shape *have, const Shape *want) {
  uint32_t at;
  bool stretches = help_star(have, want, &at);
  if (!stretches && !(help_star(want, have, &at) && is_unit(&have->at[at])))
    return false;
  const Slice *star = stretches ? star_of(o->expr) : NULL;
  if (star) {
    d->help = "`new` makes an axis of 1 where `*` makes one that stretches, "
              "which has no size";
    edit_replace(c, d, star->span, "new");
    return true;
  }
  const char *items =
      items_at(c, at, have->len - 1, stretches ? "0, new" : "0, *");
  if (at + 1 == have->len)
    items = stretches ? "..., 0, new" : "..., 0, *";
  d->help = arena_printf(c->arena,
                         stretches ? "an axis that stretches has no size: "
                                     "%s.[%s] makes one of 1 of it"
                                   : "%s.[%s] makes the axis of 1 stretch",
                         name_of(c, o->expr), items);
  if (o->expr)
    edit_index(c, d, o, o->expr, items);
  return true;
}

void help_rank(Checker *c, Diag *d, Type *got, Type *want, const Origin *o) {
  Shape *have = error_shape(c, got), *wanted = error_shape(c, want);
  uint32_t at;
  if (!shape_known_rank(have) || !shape_known_rank(wanted) ||
      help_stretch(c, d, o, have, wanted))
    return;
  if (wanted->len == 0 && help_elements(c, d, o, have))
    return;
  if (wanted->len == 2 && have->len > 2 &&
      fits_axis(&have->at[0], &wanted->at[0]) && wanted->at[1].tag == IT_DIM &&
      help_flatten(c, d, o, o->expr, got, wanted->at[1].dim))
    return;
  if (wanted->len == have->len + 1 && missing_axis(have, wanted, &at)) {
    help_new_axis(c, d, o, at, have, is_unit(&wanted->at[at]));
  } else if (have->len == wanted->len + 1 && missing_axis(wanted, have, &at) &&
             is_unit(&have->at[at])) {
    const char *items = items_at(c, at, wanted->len, "0");
    d->help = arena_printf(c->arena,
                           "its %s axis just is 1: take it off, "
                           "%s.[%s]",
                           at == wanted->len ? "last"
                           : at == 0         ? "first"
                                             : "middle",
                           name_of(c, o->expr), items);
    if (o->expr)
      edit_index(c, d, o, o->expr, items);
  }
}

/* ---- axes in another order ---- */

typedef struct Order { /* axis i is to be axis at[i] of what there is */
  uint32_t at[RANK_MAX], len;
} Order;

/* All axes may be the same then, and one that is elsewhere surely is. */
static bool order_fits(const Order *order, const Shape *have,
                       const Shape *want) {
  bool some = false;
  for (uint32_t i = 0; i < order->len; i++) {
    const ShapeIt *a = &have->at[order->at[i]], *b = &want->at[i];
    if (!fits_axis(a, b))
      return false;
    some |= order->at[i] != i && same_axis(a, b);
  }
  return some;
}

/* One axis is moved elsewhere. */
static Order moved(uint32_t len, uint32_t from, uint32_t to) {
  Order order = {.len = len};
  for (uint32_t i = 0, next = 0; i < len; i++) {
    next += next == from;
    order.at[i] = i == to ? from : next++;
  }
  return order;
}

/* The only way in which one axis moved, or else two exchanged, makes it fit. */
static bool find_order(const Shape *have, const Shape *want, Order *out) {
  uint32_t found = 0, n = have->len;
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t to = 0; to < n; to++) {
      Order order = moved(n, from, to);
      if (from == to || from == to + 1 || !order_fits(&order, have, want))
        continue; /* neighbours are exchanged in one way only */
      *out = order;
      found++;
    }
  for (uint32_t i = 0; i < n && !found; i++)
    for (uint32_t j = i + 2; j < n; j++) {
      Order order = moved(n, n, n);
      order.at[i] = j, order.at[j] = i;
      if (!order_fits(&order, have, want))
        continue;
      *out = order;
      found++;
    }
  return found == 1;
}

static const char *permute_text(Checker *c, const Order *order) {
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

bool help_order(Checker *c, Diag *d, const Origin *o, Expr *e, Type *got,
                Type *want) {
  Shape *a = error_shape(c, got), *b = error_shape(c, want);
  Order order = {.len = 0};
  if (!a || !b || !shape_known_rank(a) || !shape_known_rank(b) ||
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
  d->help = exchanged
                ? arena_printf(c->arena, "axes %u and %u look swapped: %s %s",
                               first, last, change, name)
                : arena_printf(c->arena,
                               "the axes look to be in another order: "
                               "%s %s",
                               change, name);
  if (e)
    edit_apply(c, d, o, e, change);
  return true;
}

/* ---- reshape and concat ---- */

void help_reshape(Checker *c, Diag *d, const Expr *shape, const Constraint *k) {
  Dim *have = dim_resolve(c->dims, k->left);
  Dim *made = dim_resolve(c->dims, k->right);
  const Expr *item = NULL;
  int64_t n, right = 0;
  if (shape->kind != EX_BRACKET)
    return;
  for (uint32_t i = 0; i < shape->item_count; i++) {
    const Expr *e = shape->items[i];
    Dim *other = NULL;
    if (e->kind == EX_NUM && !e->is_float && !shape->splices[i])
      other = dim_quotient(
          c->dims, dim_mul(c->dims, have, dim_text(c->dims, e->num)), made);
    if (!other || !dim_is_int(other, &n) || n < 2)
      continue;
    if (item)
      return; /* which of them is wrong? */
    item = e, right = n;
  }
  if (!item)
    return;
  const char *text = arena_printf(c->arena, "%lld", (long long)right);
  d->help = arena_printf(c->arena, "with %s in place of %s they are as many",
                         text, item->num);
  edit_replace(c, d, item->span, text);
}

bool help_concat(Checker *c, Diag *d, const Origin *o) {
  const Expr *axis = o->kind == OR_ELEMENT ? o->head : NULL;
  uint32_t i, j;
  if (!axis || axis->kind != EX_NUM || !o->left)
    return false;
  Shape *a = error_shape(c, o->left->inferred);
  Shape *b = error_shape(c, o->right->inferred);
  if (!a || !b || a->len != b->len || !error_one_axis(a, b, &i, &j))
    return false;
  const char *other = axis->num[0] == '-'
                          ? arena_printf(c->arena, "-%u", a->len - i)
                          : arena_printf(c->arena, "%u", i);
  d->help =
      arena_printf(c->arena, "they fit along another axis: ~axis:%s", other);
  edit_replace(c, d, axis->span, other);
  return true;
}

/* ---- products ---- */

void help_inner(Checker *c, Diag *d, const Origin *o, Dim *x, Dim *y) {
  Shape *a = error_shape(c, o->got), *b = error_shape(c, o->want);
  if (!a || !b || !shape_known_rank(a) || !shape_known_rank(b))
    return;
  const ShapeIt *rows = a->len > 1 ? &a->at[a->len - 2] : NULL;
  const ShapeIt *columns = b->len > 1 ? &b->at[b->len - 1] : NULL;
  if (columns && columns->tag == IT_DIM && dim_equal(columns->dim, x)) {
    d->help = "the right side looks transposed: write transpose";
    if (o->right)
      edit_apply(c, d, o, o->right, "transpose");
  } else if (help_flatten(c, d, o, o->left, o->got, y)) {
    return;
  } else if (rows && rows->tag == IT_DIM && dim_equal(rows->dim, y) &&
             o->left && error_path_text(c, o->left)) {
    d->help = "the left side looks transposed: write transpose";
    edit_apply(c, d, o, o->left, "transpose");
  }
}

/* ---- layers: weights and biases ---- */

bool help_matrix(Checker *c, Diag *d, const Origin *o, const char *name,
                 Expr *e, Type *t, Dim *have, Dim *want) {
  Shape *w = error_shape(c, t);
  if (!w || w->len != 2 || w->at[0].tag != IT_DIM || w->at[1].tag != IT_DIM ||
      !dim_equal(w->at[0].dim, want) || !dim_equal(w->at[1].dim, have))
    return false;
  d->help =
      arena_printf(c->arena, "%s : %s looks transposed", name, ty_text(c, t));
  if (e)
    edit_apply(c, d, o, e, "transpose");
  return true;
}

/* The sizes of one axis that met, as the types have them. */
static bool sizes_met(Checker *c, Type *got, Type *want, Dim **x, Dim **y) {
  Shape *a = error_shape(c, got), *b = error_shape(c, want);
  uint32_t i, j;
  if (!error_one_axis(a, b, &i, &j))
    return false;
  *x = a->at[i].dim, *y = b->at[j].dim;
  return true;
}

static bool has_size(Checker *c, Type *t, Dim *d) {
  Shape *s = error_shape(c, t);
  for (uint32_t i = 0; s && i < s->len; i++)
    if (s->at[i].tag == IT_DIM && dim_equal(s->at[i].dim, d))
      return true;
  return false;
}

/* In {w = ..., b = ...} as it is written. */
static void help_written(Checker *c, Diag *d, const Origin *o, Dim *have,
                         Dim *want) {
  const Expr *record = o->head;
  for (uint32_t i = 0; i < record->field_count; i++) {
    FieldExpr *f = &record->fields[i];
    Type *t = f->expr->inferred;
    if (f->expr == o->expr || !t || !has_size(c, t, want))
      continue;
    diag_mark(c->arena, d, f->expr->span, ty_text(c, ty_norm(c, t)));
    help_matrix(c, d, o, f->id->text, f->expr, t, have, want);
    return;
  }
}

void help_field(Checker *c, Diag *d, const Origin *o, const Clash *part) {
  Dim *have, *want;
  if (!sizes_met(c, part->got, part->want, &have, &want))
    return;
  if (o->kind == OR_FIELD && o->head && o->head->kind == EX_RECORD) {
    help_written(c, d, o, have, want);
    return;
  }
  Type *record = ty_norm(c, o->got);
  if (record->tag != TY_RECORD || o->kind != OR_ARG)
    return;
  record = row_flat(c, record);
  for (uint32_t i = 0; i < record->count; i++)
    if (help_matrix(c, d, o, record->labels[i]->text, NULL, record->args[i],
                    have, want))
      return;
}

/* ---- joins ---- */

/* The shapes of two operands, the shorter one and the longer one. */
typedef struct Operands {
  Shape *small, *large;
  Expr *of_small, *of_large;
} Operands;

/* In how many ways the axes of `small` are some of `large`, in order; where[i]
 * is where axis i is in one of them. */
static uint32_t ways_within(const Shape *small, uint32_t i, const Shape *large,
                            uint32_t from, uint32_t *where) {
  if (i == small->len)
    return 1;
  uint32_t count = 0, rest[RANK_MAX];
  for (uint32_t k = from; k < large->len && count < 2; k++) {
    if (!same_axis(&small->at[i], &large->at[k]))
      continue;
    uint32_t more = ways_within(small, i + 1, large, k + 1, rest);
    if (more && !count) {
      where[i] = k;
      for (uint32_t j = i + 1; j < small->len; j++)
        where[j] = rest[j];
    }
    count += more;
  }
  return count;
}

/* Axes that are missing elsewhere than in front. */
static bool help_stars(Checker *c, Diag *d, const Origin *o,
                       const Operands *x) {
  enum { AXES_MOST = 8 };
  uint32_t where[RANK_MAX], next = 0, stars = 0;
  if (!x->small->len || x->large->len > AXES_MOST ||
      x->small->len == x->large->len)
    return false;
  uint32_t ways = ways_within(x->small, 0, x->large, 0, where);
  bool front = where[0] == 0; /* found first, where it is one */
  for (uint32_t i = 0; ways && i < x->small->len; i++)
    front &= where[i] == i;
  if (!ways || (ways > 1 && !front))
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
  d->help = arena_printf(
      c->arena, "axes line up at the right: %s lacks %s%s, made by %s.[%s]%s",
      shape_text(c, x->small),
      stars == 1 ? "a stretching axis" : "stretching axes",
      front ? " behind its own" : "", name_of(c, x->of_small), items.text,
      front ? ", or by ~keep:true in a reduction" : "");
  if (x->of_small)
    edit_index(c, d, o, x->of_small, items.text);
  return true;
}

/* [b] meets [b, 1]. */
static bool help_last_unit(Checker *c, Diag *d, const Origin *o,
                           const Operands *x) {
  uint32_t n = x->small->len;
  if (x->large->len != n + 1 || !is_unit(&x->large->at[n]))
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (!same_axis(&x->small->at[i], &x->large->at[i]))
      return false;
  d->help = arena_printf(c->arena,
                         "the last axis of %s just is 1: take it "
                         "off, %s.[..., 0]",
                         shape_text(c, x->large), name_of(c, x->of_large));
  if (x->of_large)
    edit_index(c, d, o, x->of_large, "..., 0");
  return true;
}

/* [b, 1] meets [b, n]: the units of one side alone. */
static bool help_units(Checker *c, Diag *d, const Origin *o, const Shape *x,
                       const Shape *y) {
  uint32_t units[2] = {0};
  Buffer items = {.arena = c->arena};
  for (uint32_t i = 0; i < x->len; i++) {
    bool same = same_axis(&x->at[i], &y->at[i]);
    bool left = !same && is_unit(&x->at[i]);
    bool right = !same && is_unit(&y->at[i]);
    if (!same && !left && !right)
      return false;
    units[0] += left, units[1] += right;
    buffer_printf(&items, "%s%s", i ? ", " : "", same ? ":" : "0, *");
  }
  if (units[0] && units[1]) {
    d->help = "an axis that just is 1 does not stretch: take it off by an "
              "index 0, and make one that does, as in x.[:, *]";
    return true;
  }
  Expr *e = units[0] ? o->left : o->right;
  d->help = arena_printf(c->arena,
                         "an axis that just is 1 does not stretch: "
                         "%s.[%s] makes one that does of it",
                         name_of(c, e), items.text);
  if (e)
    edit_index(c, d, o, e, items.text);
  return true;
}

/* n meets n - 1: a part of the longer one is as long. */
static bool help_part(Checker *c, Diag *d, const Origin *o, const Shape *x,
                      const Shape *y) {
  enum { MORE_MOST = 16 };
  uint32_t i, j;
  int64_t more;
  if (!error_one_axis(x, y, &i, &j) || dim_is_const(x->at[i].dim) ||
      !dim_is_int(dim_sub(c->dims, x->at[i].dim, y->at[j].dim), &more))
    return false;
  const Shape *longer = more > 0 ? x : y;
  Expr *e = more > 0 ? o->left : o->right;
  uint32_t at = more > 0 ? i : j, by = (uint32_t)(more > 0 ? more : -more);
  if (more > MORE_MOST || more < -MORE_MOST)
    return false;
  const char *items[2];
  for (int k = 0; k < 2; k++) {
    const char *part = k ? arena_printf(c->arena, "%u:", by)
                         : arena_printf(c->arena, ":-%u", by);
    items[k] = longer->len == 1 ? part : items_at(c, at, longer->len - 1, part);
  }
  const char *name = name_of(c, e);
  d->help = arena_printf(c->arena,
                         "one is longer by %u: %s.[%s] and %s.[%s] "
                         "are parts of the other's length",
                         by, name, items[0], name, items[1]);
  for (int k = 0; e && k < 2; k++)
    edit_index(c, d, o, e, items[k]);
  return true;
}

/* How the two operands would broadcast. */
void help_join(Checker *c, Diag *d, const Origin *o) {
  Shape *a = error_shape(c, o->got), *b = error_shape(c, o->want);
  if (!a || !b || !shape_known_rank(a) || !shape_known_rank(b))
    return;
  bool shorter = a->len < b->len;
  Operands x = {shorter ? a : b, shorter ? b : a, shorter ? o->left : o->right,
                shorter ? o->right : o->left};
  if (help_last_unit(c, d, o, &x) || help_stars(c, d, o, &x) ||
      help_part(c, d, o, a, b))
    return;
  if (a->len == b->len && !help_units(c, d, o, a, b))
    help_order(c, d, o, o->right, o->want, o->got);
}
