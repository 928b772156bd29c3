/* Types that do not fit: of another kind, rank or element type. */
#include "errors.h"

#include <string.h>

/* ---- tensors ---- */

static const char *elem_text(ElemVar *e) {
  e = elem_root(e);
  if (e->dtype != DT_NONE)
    return dtype_info[e->dtype].name;
  return !(e->classes & ~(uint32_t)CLASS_INT)     ? "an integer type"
         : !(e->classes & ~(uint32_t)CLASS_FLOAT) ? "a float type"
         : !(e->classes & ~(uint32_t)CLASS_NUM)   ? "a numeric type"
         : e->name                                ? e->name->text
                                                  : "any element type";
}

static void elem_error(Checker *c, Type *got, Type *want, Origin *o) {
  ElemVar *g = elem_root(got->elem), *w = elem_root(want->elem);
  Diag *d = error_at(c, 308, o->span, "%s is %s where %s is wanted",
                     error_place(c, o), elem_text(g), elem_text(w));
  d->label = ty_text(c, got);
  help_elem(c, d, got, want, o);
  if (o->prim == PRIM_NONE)
    error_note_callee(c, d, o);
  error_marks(c, d, o);
}

/* The literal axis of the call. */
static Expr *axis_of_call(const Origin *o) {
  for (uint32_t i = 0; i < o->arg_count; i++) {
    Arg *a = &o->args[i];
    bool axis = a->label ? strcmp(a->label->text, "axis") == 0
                         : i == 0 && o->prim == PRIM_DIM;
    if (axis && a->expr->kind == EX_NUM)
      return a->expr;
  }
  return NULL;
}

static const char *axes_text(Checker *c, uint32_t n) {
  return n == 0 ? "no axes"
                : arena_printf(c->arena, "%u %s", n, n == 1 ? "axis" : "axes");
}

/* "3 axes where 4 are wanted" */
static const char *ranks_text(Checker *c, const Shape *have,
                              const Shape *want) {
  uint32_t least = shape_least_rank(want), n = shape_least_rank(have), at;
  if (!shape_known_rank(have) || (!shape_known_rank(want) && least <= n))
    return "the wrong number of axes";
  if (help_star(have, want, &at))
    return "a stretching axis where one of a size is wanted";
  if (help_star(want, have, &at))
    return "an axis of a size where one that stretches is wanted";
  if (least == 0)
    return arena_printf(c->arena, "%s where none is wanted", axes_text(c, n));
  return arena_printf(c->arena, "%s where %u%s %s wanted", axes_text(c, n),
                      least, shape_known_rank(want) ? "" : " or more",
                      least == 1 ? "is" : "are");
}

static void rank_error(Checker *c, Type *got, Type *want, Origin *o) {
  Shape *have = shape_norm(c, got->shape);
  Expr *axis = axis_of_call(o);
  if (axis && shape_known_rank(have)) {
    error_at(c, 316, axis->span, "there is no axis %s: %s has %s", axis->num,
             ty_text(c, got), axes_text(c, have->len))
        ->help = "axes are counted from 0, or from the end with -1, -2, ...";
    return;
  }
  Diag *d = error_at(c, 304, o->span, "%s has %s", error_place(c, o),
                     ranks_text(c, have, shape_norm(c, want->shape)));
  if (o->prim == PRIM_MATMUL) {
    d->label = arena_printf(c->arena, "this is %s", ty_text(c, got));
    d->help = "a matrix product wants rank 2 or more on both sides: dot m v "
              "takes a vector";
  } else {
    d->label = error_two_types(c, "this is %s, wanted is %s", got, want);
    help_rank(c, d, got, want, o);
    error_demand(c, d, o, "", want);
  }
  error_path(c, d, o);
}

/* ---- others ---- */

static bool effect_clash(Type *got, Type *want) {
  for (; got->tag == TY_FUN && want->tag == TY_FUN;
       got = ty_root(got->arg[1]), want = ty_root(want->arg[1]))
    if (effect_root(got->effect)->tag == EF_EFFECT &&
        effect_root(want->effect)->tag == EF_PURE)
      return true;
  return false;
}

/* Two datatypes of one name in types that print alike: the second was declared
 * when the first was in use already. */
static Data *namesake(Checker *c, Type *a, Type *b) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a->tag != b->tag)
    return NULL;
  if (a->tag == TY_DATA && a->data != b->data)
    return a->data->name == b->data->name ? a->data : NULL;
  Data *found = NULL;
  for (uint32_t i = 0; i < a->count && i < b->count && !found; i++)
    found = namesake(c, a->args[i], b->args[i]);
  for (int i = 0; a->tag == TY_FUN && i < 2 && !found; i++)
    found = namesake(c, a->arg[i], b->arg[i]);
  return found;
}

/* "argument 1 of f", or a field of it. */
static const char *part_of(Checker *c, const Clash *part, const Origin *o) {
  return *part->path
             ? arena_printf(c->arena, "%s of %s", part->path, error_place(c, o))
             : error_place(c, o);
}

/* "w, b" */
static const char *fields_text(Checker *c, const Type *record) {
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < record->count; i++)
    buffer_printf(&text, "%s%s", i ? ", " : "", record->labels[i]->text);
  if (record->arg[0] || !record->count)
    buffer_printf(&text, record->count ? ", ..." : "none");
  return text.text;
}

static Diag *clash_error(Checker *c, Type *got, Type *want, Origin *o) {
  Clash part;
  if (!type_clash(c, got, want, &part))
    part = (Clash){.path = "", .got = got, .want = want};
  const char *what = part_of(c, &part, o);
  if (!part.field) {
    Diag *d = error_at(
        c, 305, o->span, "%s is %s", what,
        error_two_types(c, "%s where %s is wanted", part.got, part.want));
    error_demand(c, d, o, part.path, part.want);
    return d;
  }
  Diag *d = error_at(c, 305, o->span,
                     part.extra ? "%s has a field `%s`, which is not wanted"
                                : "%s lacks the field `%s`",
                     what, part.field->text);
  d->label = arena_printf(c->arena, "the fields are %s; wanted are %s",
                          fields_text(c, part.got), fields_text(c, part.want));
  return d;
}

static void effect_error(Checker *c, Type *got, Origin *o) {
  Diag *d = error_at(c, 320, o->span,
                     "%s has effects where a pure function is wanted",
                     error_place(c, o));
  d->label = ty_text(c, got);
  d->help = o->prim != PRIM_NONE
                ? "map, for, reduce, fold and scan run their function in any "
                  "order: use iterate, lists.map or a recursive function"
                : "an arrow `->` is of a pure function; with effects it is "
                  "`->!`";
}

static void no_axis_error(Checker *c, Type *got, Origin *o) {
  Diag *d = error_at(c, 304, o->span, "%s has no leading axis to run over",
                     error_place(c, o));
  d->label = ty_text(c, got);
  error_path(c, d, o);
}

/* Types that are told apart by what they print as, or by why they are not. */
static Diag *types_error(Checker *c, Type *got, Type *want, Origin *o) {
  const char *g = ty_text(c, got), *w = ty_text(c, want);
  if (strcmp(g, w) != 0)
    return clash_error(c, got, want, o);
  Data *two = namesake(c, got, want);
  if (!two)
    return error_at(c, 305, o->span,
                    "%s does not fit: a type would contain itself, or a size "
                    "would leave its scope",
                    error_place(c, o));
  Diag *d =
      error_at(c, 305, o->span, "%s is %s, where another datatype %s is wanted",
               error_place(c, o), g, two->name->text);
  d->note = arena_printf(c->arena,
                         "there are two datatypes %s: what was made "
                         "of the earlier one stays of it",
                         two->name->text);
  return d;
}

/* Each of two arguments is of the kind that is wanted of the other: the first
 * that was told of gets the help, and the second is not told. */
static bool swapped_arguments(Checker *c, Type *got, Type *want,
                              const Origin *o) {
  for (uint32_t i = 0; o->kind == OR_ARG && o->args && i < c->told.len; i++) {
    const Origin *other = c->told.at[i];
    if (other->args != o->args || other->kind != OR_ARG || !other->number ||
        !o->number || !other->got || !other->want ||
        ty_root(other->got)->tag != want->tag ||
        ty_root(other->want)->tag != got->tag || got->tag == want->tag)
      continue;
    Diag *d = error_told_at(c, other->span);
    if (!d)
      return false;
    d->help = arena_printf(c->arena, "arguments %u and %u look swapped",
                           other->number, o->number);
    edit_swap(c, d, other->expr, o->expr);
    return true;
  }
  return false;
}

void mismatch(Checker *c, Type *got, Type *want, Origin *o) {
  got = ty_norm(c, got), want = ty_norm(c, want);
  bool swapped = swapped_arguments(c, got, want, o);
  VEC_PUSH(c->arena, c->told, o);
  if (!o->got)
    o->got = got, o->want = want;
  if (swapped)
    return;
  if (error_is_tensor(got) && error_is_tensor(want)) {
    if (elems_clash(got->elem, want->elem))
      elem_error(c, got, want, o);
    else
      rank_error(c, got, want, o);
    return;
  }
  if (got->tag == TY_FUN && want->tag == TY_FUN && effect_clash(got, want)) {
    effect_error(c, got, o);
    return;
  }
  if (want->tag == TY_LIFT && got->tag == TY_TENSOR) {
    no_axis_error(c, got, o);
    return;
  }
  Diag *d = types_error(c, got, want, o);
  help_kind(c, d, got, want, o);
  if (o->kind == OR_FIELD && o->what && got->tag == TY_RECORD)
    d->note = arena_printf(c->arena, "there is no field `%s` in %s", o->what,
                           ty_text(c, got));
  error_marks(c, d, o);
}
