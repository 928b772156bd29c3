/* Ways out of types of different kinds: mostly what one writes who comes from
 * another language. */
#include "errors.h"

static bool is_list(Checker *c, Type *t) {
  return t->tag == TY_DATA && t->data == c->data_list;
}

/* A function of several arguments is given them as a tuple. */
static bool help_tuple(Checker *c, Diag *d, Type *got, const Origin *o) {
  const Expr *e = error_brought(o->expr);
  if (got->tag != TY_TUPLE || o->kind != OR_ARG || !o->fun || !e ||
      e->kind != EX_TUPLE || o->number != 1)
    return false;
  uint32_t count = 0;
  for (Type *t = ty_root(o->fun); t->tag == TY_FUN; t = ty_root(t->arg[1]))
    count += !t->label;
  if (count != e->item_count)
    return false;
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < e->item_count; i++) {
    const char *item = edit_argument(c, e->items[i]);
    if (!item)
      return false;
    buffer_printf(&text, "%s%s", i ? " " : "", item);
  }
  bool apart = o->head && o->head->span.end < e->span.start;
  d->help = arena_printf(c->arena, "arguments stand one after the other: "
                                   "%s %s",
                         o->what ? o->what : "f", text.text);
  if (e == o->expr)
    edit_replace(c, d, e->span,
                 apart ? text.text : arena_printf(c->arena, " %s", text.text));
  return true;
}

/* A number that is, or may become, an integer. */
static bool is_size(Checker *c, Type *t) {
  Shape *s = error_shape(c, t);
  const ElemVar *e = s ? elem_root(ty_norm(c, t)->elem) : NULL;
  return s && s->len == 0 && !e->rigid && (e->classes & CLASS_INT);
}

static bool is_sizes(Checker *c, Type *t) {
  bool all = t->tag == TY_TUPLE && t->count;
  for (uint32_t i = 0; all && i < t->count; i++)
    all = is_size(c, t->args[i]);
  return all;
}

/* "2, 3" of (2, 3), and of 2 itself; NULL: they are not written here. */
static const char *sizes_written(Checker *c, Type *got, const Expr *e) {
  if (!e || got->tag != TY_TUPLE)
    return e ? error_written(c, e->span) : NULL;
  if (e->kind != EX_TUPLE)
    return NULL;
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < e->item_count; i++) {
    const char *item = error_written(c, e->items[i]->span);
    if (!item)
      return NULL;
    buffer_printf(&text, "%s%s", i ? ", " : "", item);
  }
  return text.text;
}

/* zeros (2, 3), and zeros 3 */
static bool help_shape(Checker *c, Diag *d, Type *got, const Origin *o) {
  const Expr *e = error_brought(o->expr);
  if (!is_size(c, got) && !is_sizes(c, got))
    return false;
  const char *sizes = sizes_written(c, got, e);
  if (!sizes) {
    d->help = "a shape is written in brackets, as in [n, m]";
    return true;
  }
  const char *text = arena_printf(c->arena, "[%s]", sizes);
  d->help = arena_printf(c->arena, "a shape is written %s", text);
  edit_replace(c, d, e->span, text);
  return true;
}

void help_kind(Checker *c, Diag *d, Type *got, Type *want, const Origin *o) {
  const Expr *e = error_brought(o->expr);
  if (got->tag == TY_FUN && want->tag != TY_FUN)
    d->help = "an argument may be missing";
  else if (o->prim == PRIM_ADD && got->tag == TY_DATA &&
           got->data == c->data_string)
    d->help = "strings are joined by `^`";
  else if (o->prim == PRIM_APPEND && error_is_tensor(got) && o->number == 2) {
    d->help = "`^` joins strings: `string x` is how x is written";
    if (o->expr)
      edit_apply(c, d, o, o->expr, "string");
  } else if (o->prim == PRIM_APPEND && error_is_tensor(got))
    d->help = "`^` joins strings; a power is `pow x y`";
  else if (is_list(c, want) && e && e->kind == EX_BRACKET)
    d->help = "a list is written `list [x, y]`: brackets alone make a tensor";
  else if (is_list(c, got) && e && e->kind == EX_LIST)
    d->help = "a tensor is written without `list`: `[x, y]`";
  else if (want->tag == TY_SHAPE && help_shape(c, d, got, o))
    return;
  else if (help_tuple(c, d, got, o))
    return;
  else if (is_list(c, got) && error_is_tensor(want) && o->kind == OR_ARG &&
           error_is_tensor(got->args[0])) {
    d->help = "`stack` makes a tensor of a list of tensors of one shape";
    if (o->expr)
      edit_apply(c, d, o, o->expr, "stack");
  }
}

/* ---- element types ---- */

/* Labels of classes are wanted, and a row of probabilities is there. */
static bool help_classes(Checker *c, Diag *d, Type *got, Type *want,
                         const Origin *o) {
  Shape *a = shape_norm(c, got->shape), *b = shape_norm(c, want->shape);
  if (!shape_known_rank(a) || !shape_known_rank(b) || a->len != b->len + 1 ||
      elem_root(want->elem)->classes & ~(uint32_t)CLASS_INT || !o->expr)
    return false;
  d->help = "the number of the largest entry of each row is argmax x";
  edit_apply(c, d, o, o->expr, "argmax");
  return true;
}

static bool is_class(const ElemVar *e, uint32_t classes) {
  return e->classes && !(e->classes & ~classes);
}

/* x / 255.0: of a float that is written and whole numbers it is these that are
 * to be converted. */
static bool help_operand(Checker *c, Diag *d, Type *got, Type *want,
                         const Origin *o) {
  const Expr *other = o->number == 2 ? o->left : NULL;
  if (o->kind != OR_OPERATOR || !other ||
      !is_class(elem_root(got->elem), CLASS_FLOAT) ||
      !is_class(elem_root(want->elem), CLASS_INT))
    return false;
  d->help = "nothing converts by itself: `float x` makes a float of the left "
            "side";
  edit_apply(c, d, o, other, "float");
  return true;
}

void help_elem(Checker *c, Diag *d, Type *got, Type *want, const Origin *o) {
  ElemVar *g = elem_root(got->elem), *w = elem_root(want->elem);
  if (help_classes(c, d, got, want, o) || help_operand(c, d, got, want, o))
    return;
  if (w->dtype != DT_NONE && w->dtype != DT_BOOL && g->dtype != DT_BOOL)
    d->help = arena_printf(c->arena, "nothing converts by itself: write %s x "
                                     "to convert",
                           dtype_info[w->dtype].name);
  else if (w->classes == CLASS_FLOAT)
    d->help = "nothing converts by itself: write float x to convert";
  else if (is_class(w, CLASS_INT) && is_class(g, CLASS_FLOAT))
    d->help = "nothing converts by itself: write i64 x to convert";
}
