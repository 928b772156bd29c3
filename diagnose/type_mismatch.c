/* Messages about types of different kind, rank or element type. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

/* ---- tensors ---- */

static const char *elem_text(ElemVar *e) {
  e = elem_root(e);
  if (elem_shown_dtype(e) != DT_NONE)
    return dtype_info[elem_shown_dtype(e)].name;
  if (e->skolem && e->name)
    return e->name->text;
  return !(e->classes & ~(uint32_t)CLASS_INT)     ? "an integer type"
         : !(e->classes & ~(uint32_t)CLASS_FLOAT) ? "a float type"
         : !(e->classes & ~(uint32_t)CLASS_NUM)   ? "a numeric type"
                                                  : "any element type";
}

/* The type of a tensor.  The value of an integer does not matter: "i64" rather
   than "dim(3)". */
static const char *valueless_text(Checker *c, Type *t) {
  const ElemVar *e = elem_root(t->tensor.elem);
  bool scalar = !shape_norm(c, t->tensor.shape)->len;
  return scalar && elem_shown_dtype(e) != DT_NONE
             ? dtype_info[elem_shown_dtype(e)].name
             : ty_text(c, ty_forget_singletons(c, t));
}

bool error_are_namesakes(const ElemVar *x, const ElemVar *y) {
  return x->skolem && y->skolem && x->name && x->name == y->name;
}

static void elem_error(Checker *c, Type *actual, Type *expected, Origin *o) {
  ElemVar *g = elem_root(actual->tensor.elem),
          *w = elem_root(expected->tensor.elem);
  bool namesakes = error_are_namesakes(g, w);
  Diag *d =
      error_at(c, 308, o->span, "%s is %s; expected %s%s", error_subject(c, o),
               elem_text(g), namesakes ? "another " : "", elem_text(w));
  if (namesakes)
    diag_add_label(c->arena, d, w->origin,
                   arena_printf(c->arena, "the other %s", w->name->text));
  d->primary_label = valueless_text(c, actual);
  hint_elem_type(c, d, actual, expected, o);
  if (o->prim == PRIM_NONE)
    error_note_callee(c, d, o);
  error_add_labels(c, d, o);
  error_global_elem(c, d, actual, expected);
  error_global_elem(c, d, expected, actual);
}

/* The literal axis in the call. */
static Expr *axis_of_call(const Origin *o) {
  for (uint32_t i = 0; i < origin_arg_count(o); i++) {
    Arg *a = &o->arg.args[i];
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

/* "3 axes; expected 4" */
static const char *ranks_text(Checker *c, const Shape *have,
                              const Shape *expected) {
  uint32_t min = shape_min_rank(expected), n = shape_min_rank(have), at;
  if ((!shape_has_known_rank(have) &&
       (!shape_has_known_rank(expected) || n <= min)) ||
      (!shape_has_known_rank(expected) && min <= n))
    return "the wrong number of axes";
  const char *found = shape_has_known_rank(have)
                          ? axes_text(c, n)
                          : arena_printf(c->arena, "%u or more axes", n);
  if (hint_find_star(have, expected, &at))
    return "a broadcast axis; expected an axis with a size";
  if (hint_find_star(expected, have, &at))
    return "an axis with a size; expected a broadcast axis";
  if (min == 0)
    return arena_printf(c->arena, "%s; expected none", found);
  return arena_printf(c->arena, "%s; expected %u%s", found, min,
                      shape_has_known_rank(expected) ? "" : " or more");
}

/* True for a literal that only the expected type explains. */
static bool is_literal_of(Checker *c, const Expr *e, Type *expected) {
  Shape *s =
      expected->tag == TY_TENSOR ? shape_norm(c, expected->tensor.shape) : NULL;
  return (expected->tag == TY_SHAPE && e->kind == EX_BRACKET) ||
         (expected->tag == TY_FUN && e->kind == EX_FN) ||
         (s && shape_has_known_rank(s) && !s->len && e->kind == EX_NUM);
}

/* The type of the parameter for an argument without label; NULL if there is
   none. */
static Type *parameter_type(Checker *c, const Origin *o, uint32_t number) {
  uint32_t k = 0;
  Type *t = o->arg.fun_type ? ty_norm(c, o->arg.fun_type) : NULL;
  while (t && t->tag == TY_FUN && (t->fun.label || ++k < number))
    t = ty_norm(c, t->fun.result);
  return t && t->tag == TY_FUN ? ty_norm(c, t->fun.param) : NULL;
}

/* True if x has the kind of y, and a number of axes that y permits. */
static bool has_kind_of(Checker *c, Type *x, Type *y) {
  x = ty_norm(c, x), y = ty_norm(c, y);
  if (x->tag == TY_DATATYPE && y->tag == TY_DATATYPE)
    return x->data.type == y->data.type;
  if (x->tag != TY_TENSOR || y->tag != TY_TENSOR)
    return x->tag == y->tag;
  Shape *s = shape_norm(c, x->tensor.shape),
        *t = shape_norm(c, y->tensor.shape);
  if (shape_has_known_rank(t))
    return shape_has_known_rank(s) && s->len == t->len;
  return !shape_has_known_rank(s) || s->len >= shape_min_rank(t);
}

/* An argument that any type fits is a literal of the type that is expected
   here. */
static void hint_swapped_literal(Checker *c, Diag *d, Type *expected,
                                 const Origin *o) {
  if (d->help || o->kind != ORIGIN_ARG || !o->number || !o->expr ||
      is_literal_of(c, o->expr, expected))
    return;
  uint32_t number = 0;
  for (uint32_t i = 0; i < o->arg.arg_count; i++) {
    const Arg *a = &o->arg.args[i];
    number += !a->label;
    if (a->label || a->expr == o->expr || !is_literal_of(c, a->expr, expected))
      continue;
    Type *other = parameter_type(c, o, number);
    if (other == expected || /* as compare 1 "a" */
        (o->actual && other && !has_kind_of(c, o->actual, other)))
      continue;
    d->help = arena_printf(c->arena, "arguments %u and %u may be swapped",
                           o->number, number);
    if (number > o->number)
      fixit_swap(c, d, o->expr, a->expr);
    else
      fixit_swap(c, d, a->expr, o->expr);
    return;
  }
}

static bool has_star(const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_STAR)
      return true;
  return false;
}

static void rank_error(Checker *c, Type *actual, Type *expected, Origin *o) {
  Shape *have = shape_norm(c, actual->tensor.shape);
  Expr *axis = axis_of_call(o);
  if (axis && shape_has_known_rank(have)) {
    error_at(c, 316, axis->span, "there is no axis %s: %s has %s", axis->num,
             valueless_text(c, actual), axes_text(c, have->len))
        ->help = "axes count from 0, or from the end: -1, -2, ...";
    return;
  }
  Diag *d =
      error_at(c, 304, o->span, "%s has %s", error_subject(c, o),
               ranks_text(c, have, shape_norm(c, expected->tensor.shape)));
  if (o->prim == PRIM_MATMUL) {
    d->primary_label =
        arena_printf(c->arena, "found %s", valueless_text(c, actual));
    d->help = has_star(have)
                  ? "a product needs axes with sizes: write an axis of size 1 "
                    "as `new`, as in x.[new, :]"
                  : "a matrix product needs rank 2 or more on both sides; for "
                    "a vector, write dot m v";
  } else {
    d->primary_label =
        error_two_types(c, "found %s, expected %s", actual, expected);
    hint_rank(c, d, actual, expected, o);
    hint_swapped_literal(c, d, expected, o);
    error_mark_type_origin(c, d, o, "", actual, expected);
    error_mark_index_tensor(c, d, o, have);
    error_note_loop_state(c, d, o);
  }
  error_add_provenance(c, d, o);
}

/* ---- others ---- */

static bool effects_differ(Type *actual, Type *expected) {
  for (; actual->tag == TY_FUN && expected->tag == TY_FUN;
       actual = ty_root(actual->fun.result),
       expected = ty_root(expected->fun.result))
    if (effect_root(actual->fun.effect)->tag == EF_IMPURE &&
        effect_root(expected->fun.effect)->tag == EF_PURE)
      return true;
  return false;
}

/* True for two datatypes of one name whose types print equally: the second was
   declared while the first was in use. */
static Datatype *datatype_of_same_name(Checker *c, Type *a, Type *b) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a->tag != b->tag)
    return NULL;
  if (a->tag == TY_DATATYPE && a->data.type != b->data.type)
    return a->data.type->name == b->data.type->name ? a->data.type : NULL;
  Datatype *found = NULL;
  if (a->tag == TY_FUN) {
    found = datatype_of_same_name(c, a->fun.param, b->fun.param);
    return found ? found
                 : datatype_of_same_name(c, a->fun.result, b->fun.result);
  }
  if (!ty_has_args(a))
    return NULL;
  for (uint32_t i = 0; i < a->count && i < b->count && !found; i++)
    found = datatype_of_same_name(c, a->args[i], b->args[i]);
  return found;
}

/* "argument 1 of f", or a field of it. */
static const char *diff_subject(Checker *c, const TypeDiff *part,
                                const Origin *o) {
  return *part->path ? arena_printf(c->arena, "%s of %s", part->path,
                                    error_subject(c, o))
                     : error_subject(c, o);
}

/* "w, b" */
static const char *fields_text(Checker *c, const Type *record) {
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < record->count; i++)
    buffer_printf(&text, "%s%s", i ? ", " : "", record->record.labels[i]->text);
  if (record->record.rest || !record->count)
    buffer_printf(&text, record->count ? ", ..." : "none");
  return text.text;
}

/* "int; expected string": the values of integers do not matter where kinds
   differ. */
static const char *kinds_text(Checker *c, const TypeDiff *part) {
  const char *actual = ty_text(c, ty_forget_singletons(c, part->actual));
  const char *expected = ty_text(c, ty_forget_singletons(c, part->expected));
  if (strcmp(actual, expected) == 0)
    return error_two_types(c, "%s; expected %s", part->actual, part->expected);
  return arena_printf(c->arena, "%s; expected %s", actual, expected);
}

static Diag *diff_error(Checker *c, Type *actual, Type *expected, Origin *o) {
  TypeDiff part;
  if (!type_diff(c, actual, expected, &part))
    part = (TypeDiff){.path = "", .actual = actual, .expected = expected};
  const char *what = diff_subject(c, &part, o);
  if (!part.field) {
    Diag *d = error_at(c, 305, o->span, "%s is %s", what, kinds_text(c, &part));
    if (error_is_tensor(expected) && !error_is_tensor(actual) &&
        actual->tag != TY_FUN)
      error_mark_comparison(c, d, o);
    if (!d->mistake.file)
      error_mark_type_origin(c, d, o, part.path, part.actual, part.expected);
    error_mark_function_origin(c, d, o, actual, expected);
    error_global_elem(c, d, part.actual, part.expected);
    error_global_elem(c, d, part.expected, part.actual);
    if (*part.path && !d->mistake.file)
      error_set_mistake_in(
          d, o, &part,
          arena_printf(c->arena, "%s : %s", part.path, kinds_text(c, &part)));
    return d;
  }
  Diag *d = error_at(c, 305, o->span,
                     part.extra ? "%s has an unexpected field `%s`"
                                : "%s lacks the field `%s`",
                     what, part.field->text);
  d->primary_label =
      arena_printf(c->arena, "found fields %s; expected %s",
                   fields_text(c, part.actual), fields_text(c, part.expected));
  suggest_similar_field(c, d, &part);
  error_set_mistake_in(
      d, o, &part,
      arena_printf(c->arena, "%s.%s", part.path, part.field->text));
  return d;
}

static void effect_error(Checker *c, Type *actual, Origin *o) {
  Diag *d =
      error_at(c, 320, o->span, "%s has effects; expected a pure function",
               error_subject(c, o));
  d->primary_label = ty_text(c, actual);
  d->help = o->prim != PRIM_NONE
                ? "map, for, reduce, fold and scan call a function in any "
                  "order: use iterate, lists.map or a recursive function"
                : "`->` is the type of a pure function; `->!` is the type of a "
                  "function with effects";
}

static void no_leading_axis_error(Checker *c, Type *actual, Origin *o) {
  Diag *d = error_at(c, 304, o->span, "%s has no leading axis to iterate over",
                     error_subject(c, o));
  d->primary_label = ty_text(c, actual);
  error_add_provenance(c, d, o);
}

static bool is_list(Checker *c, const Type *t) {
  return t->tag == TY_DATATYPE && t->data.type == c->builtins.list_datatype;
}

/* Reports types of different kinds, by their texts or by the reason why they
   differ. */
static Diag *kind_error(Checker *c, Type *actual, Type *expected, Origin *o) {
  const char *g = ty_text(c, actual), *w = ty_text(c, expected);
  if (strcmp(g, w) != 0)
    return diff_error(c, actual, expected, o);
  Datatype *two = datatype_of_same_name(c, actual, expected);
  if (!two)
    return error_at(c, 305, o->span,
                    "%s has the wrong type: a type would contain itself, or a "
                    "size would leave its scope",
                    error_subject(c, o));
  Diag *d = error_at(c, 305, o->span, "%s is %s; expected another datatype %s",
                     error_subject(c, o), g, two->name->text);
  d->note = arena_printf(
      c->arena,
      "there are two datatypes %s: existing values have the earlier one",
      two->name->text);
  return d;
}

/* Are both arguments of one call, components of one tuple, or fields of one
   record? */
static bool are_siblings(const Origin *a, const Origin *b) {
  if (a->kind != b->kind)
    return false;
  if (a->kind == ORIGIN_ARG)
    return a->arg.args && a->arg.args == b->arg.args && a->number && b->number;
  return a->kind == ORIGIN_ELEMENT
             ? a->whole && a->whole == b->whole
             : a->kind == ORIGIN_FIELD && a->record &&
                   a->record->kind == EX_RECORD && a->record == b->record;
}

static const char *swapped_text(Checker *c, const Origin *a, const Origin *b) {
  if (a->kind == ORIGIN_FIELD)
    return arena_printf(c->arena, "the values of `%s` and `%s` may be swapped",
                        a->subject, b->subject);
  bool components = a->kind == ORIGIN_ELEMENT;
  return arena_printf(c->arena, "%s %u and %u may be swapped",
                      components ? "components" : "arguments",
                      a->number + components, b->number + components);
}

/* Two arguments, components or fields have each other's expected kinds.  The
   first error gets the help; the second is not reported. */
static bool swapped_arguments(Checker *c, Type *actual, Type *expected,
                              const Origin *o) {
  for (uint32_t i = 0; i < c->solver.contradicted.len; i++) {
    const Origin *other = c->solver.contradicted.at[i];
    bool any_data = expected->tag == TY_VAR && expected->var->is_data;
    if (!are_siblings(other, o) || !other->actual || !other->expected ||
        (!any_data && !has_kind_of(c, other->actual, expected)) ||
        !has_kind_of(c, actual, other->expected) ||
        has_kind_of(c, actual, expected))
      continue;
    Diag *d = error_find_at(c, other->span);
    if (!d)
      return false;
    d->help = swapped_text(c, other, o);
    fixit_swap(c, d, other->expr, o->expr);
    return true;
  }
  return false;
}

static bool has_function(Checker *c, Type *t) {
  (void)c;
  return t->tag == TY_FUN ||
         (t->tag == TY_DATATYPE && t->data.type->has_function);
}

static bool is_not_stackable(Checker *c, Type *t) {
  return t->tag != TY_TUPLE && t->tag != TY_RECORD && !ty_stackable(c, t);
}

/* The first part of a type that `wanted` accepts, and its path, such as
   "layer.f". */
static Type *find_part(Checker *c, Type *t, bool (*wanted)(Checker *c, Type *t),
                       const char **path) {
  t = ty_norm(c, t);
  if (wanted(c, t))
    return t;
  if (!ty_has_args(t))
    return NULL;
  for (uint32_t i = 0; i < t->count; i++) {
    const char *inner = "";
    Type *found = find_part(c, t->args[i], wanted, &inner);
    if (!found)
      continue;
    const char *name = t->tag == TY_RECORD ? t->record.labels[i]->text
                       : t->tag == TY_TUPLE
                           ? arena_printf(c->arena, "component %u", i + 1)
                           : "an element";
    *path = *inner ? arena_printf(c->arena, "%s.%s", name, inner) : name;
    return found;
  }
  return NULL;
}

/* Do both belong to arguments of one call? */
static bool same_call(const Origin *a, const Origin *b) {
  return a != b && origin_arg_count(a) && origin_arg_count(b) &&
         a->arg.args == b->arg.args;
}

/* Has an argument of the same call an error?  It is the same mistake. */
static bool has_error_in_call(const Checker *c, const Origin *o) {
  bool found = false;
  for (uint32_t i = 0; i < c->solver.contradicted.len && !found; i++)
    found = same_call(c->solver.contradicted.at[i], o);
  return found;
}

/* The call lacks a key, so that all arguments are at the wrong position. */
static bool follows_missing_key(Checker *c, const Origin *o) {
  for (uint32_t i = 0; i < c->solver.contradicted.len; i++)
    if (same_call(c->solver.contradicted.at[i], o) &&
        error_key_is_missing(c, c->solver.contradicted.at[i]))
      return true;
  return false;
}

/* A function where data is expected. */
typedef struct FunctionAsData {
  Type *function; /* or a datatype with functions */
  const char *path;
  bool is_taken;   /* a function with a parameter that contains it */
  bool is_refused; /* a function whose parameter must be data */
} FunctionAsData;

static bool is_data_variable(const Type *t) {
  return t->tag == TY_VAR && t->var->is_data;
}

static bool find_function_as_data(Checker *c, Type *actual, Type *expected,
                                  FunctionAsData *out) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  if (is_data_variable(expected) || is_data_variable(actual)) {
    out->is_refused = !is_data_variable(expected);
    out->path = "";
    out->function = find_part(c, out->is_refused ? expected : actual,
                              has_function, &out->path);
    return out->function != NULL;
  }
  if (actual->tag != expected->tag)
    return false;
  if (actual->tag == TY_FUN) {
    out->is_taken = true;
    return find_function_as_data(c, actual->fun.param, expected->fun.param,
                                 out);
  }
  if (!ty_has_args(actual) || actual->count != expected->count)
    return false;
  for (uint32_t i = 0; i < actual->count; i++)
    if (find_function_as_data(c, actual->args[i], expected->args[i], out))
      return true;
  return false;
}

static const char *function_as_data_help(const FunctionAsData *found,
                                         const Origin *o, bool is_result) {
  if (o->kind == ORIGIN_OPERATOR || o->prim == PRIM_EQUAL ||
      o->prim == PRIM_COMPARE)
    return "functions are not comparable: compare what they return";
  if (is_result)
    return "return tensors, or structures of tensors";
  return found->is_refused
             ? "functions cannot be compared, differentiated or saved: write "
               "a function that uses the other parts, `fn x y => ...`"
             : "pass its parameters, which are tensors, and use the function "
               "directly";
}

/* Data is expected, but the type contains a function. */
static bool function_in_data(Checker *c, Type *actual, Type *expected,
                             Origin *o) {
  FunctionAsData found = {0};
  if (!find_function_as_data(c, actual, expected, &found))
    return false;
  if (has_error_in_call(c, o))
    return true;
  bool is_result = o->kind != ORIGIN_OPERATOR &&
                   (o->kind != ORIGIN_ARG || o->arg.is_differentiated);
  bool is_datatype = found.function->tag == TY_DATATYPE;
  bool is_part = is_datatype || found.function != actual;
  const char *verb = found.is_refused ? "needs data; it does not accept"
                     : found.is_taken
                         ? is_datatype ? "takes a value with" : "takes"
                     : is_part ? "contains"
                               : "is";
  Diag *d = error_at(c, 377, o->span, "%s %s a function%s%s%s %s",
                     is_result ? "the result" : error_subject(c, o), verb,
                     *found.path ? ", " : "", found.path,
                     *found.path ? " :" : ":", ty_text(c, found.function));
  d->help = function_as_data_help(&found, o, is_result);
  error_note_callee(c, d, o);
  return true;
}

/* Data is expected, but the type is a variable of an annotation that can be a
   function. */
static bool variable_in_data(Checker *c, Type *actual, Type *expected,
                             Origin *o) {
  if (actual->tag != TY_VAR || !actual->var->skolem || actual->var->is_data ||
      expected->tag != TY_VAR || !expected->var->is_data)
    return false;
  if (has_error_in_call(c, o))
    return true;
  const char *name = ty_text(c, actual);
  Diag *d = error_at(c, 377, o->span, "%s can be a function: its type is %s",
                     error_subject(c, o), name);
  d->help = arena_printf(
      c->arena, "add `given %s : data` to the type of the function", name);
  error_note_callee(c, d, o);
  return true;
}

static void diagnose_not_stackable(Checker *c, Type *t, Origin *o) {
  const char *path = "";
  Type *part = find_part(c, t, is_not_stackable, &path);
  Diag *d = error_at(c, 378, o->span, "values of type %s do not form a tensor",
                     ty_text(c, part ? part : t));
  if (*path)
    d->note = arena_printf(c->arena, "it is %s of %s", path, ty_text(c, t));
  d->help = o->kind == ORIGIN_RANGE
                ? "to collect them in a list, use lists.tabulate, as in "
                  "`lists.tabulate 3 (fn i => ...)`, or lists.map"
                : "to collect them in a list, use lists.map, as in `lists.map "
                  "f (unstack x)`";
  error_note_callee(c, d, o);
}

/* The part of `actual` whose counterpart is a variable of class `tensors`, but
   which is not in this class; or NULL. */
static Type *find_not_stackable(Checker *c, Type *actual, Type *expected) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  if (expected->tag == TY_VAR)
    return expected->var->is_stackable && !ty_stackable(c, actual) ? actual
                                                                   : NULL;
  if (actual->tag != expected->tag)
    return NULL;
  if (actual->tag == TY_FUN) {
    Type *part = find_not_stackable(c, actual->fun.param, expected->fun.param);
    return part ? part
                : find_not_stackable(c, actual->fun.result,
                                     expected->fun.result);
  }
  Type *part = NULL;
  if (actual->tag == TY_RECORD && expected->record.rest)
    return find_not_stackable(c, actual, expected->record.rest);
  if (ty_has_args(actual) && actual->count == expected->count)
    for (uint32_t i = 0; i < actual->count && !part; i++)
      part = find_not_stackable(c, actual->args[i], expected->args[i]);
  return part;
}

/* A part of an argument, after another argument of the call was reported with
   the same two types. */
static bool is_reported_in_call(Checker *c, Type *actual, Type *expected,
                                const Origin *o) {
  const char *found = ty_text(c, actual), *wanted = ty_text(c, expected);
  for (uint32_t i = 0;
       o->kind == ORIGIN_ELEMENT && i < c->solver.contradicted.len; i++) {
    const Origin *other = c->solver.contradicted.at[i];
    bool is_same = origin_arg_count(other) && other->actual &&
                   other->expected &&
                   strcmp(ty_text(c, other->actual), found) == 0 &&
                   strcmp(ty_text(c, other->expected), wanted) == 0;
    for (uint32_t j = 0; is_same && j < other->arg.arg_count; j++)
      if (span_is_within(o->span, other->arg.args[j].expr->span))
        return true;
  }
  return false;
}

void diagnose_types(Checker *c, Type *actual, Type *expected, Origin *o) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  if (is_reported_in_call(c, actual, expected, o) || follows_missing_key(c, o))
    return;
  bool swapped = swapped_arguments(c, actual, expected, o);
  VEC_PUSH(c->arena, c->solver.contradicted, o);
  if (!o->actual)
    o->actual = actual, o->expected = expected;
  if (swapped)
    return;
  if (o->kind == ORIGIN_ARG && o->arg.is_differentiated &&
      diagnose_differentiated(c, actual, expected, o))
    return;
  if (error_is_tensor(actual) && error_is_tensor(expected)) {
    if (elems_differ(actual->tensor.elem, expected->tensor.elem))
      elem_error(c, actual, expected, o);
    else
      rank_error(c, actual, expected, o);
    return;
  }
  if (actual->tag == TY_FUN && expected->tag == TY_FUN &&
      effects_differ(actual, expected)) {
    effect_error(c, actual, o);
    return;
  }
  if (function_in_data(c, actual, expected, o) ||
      variable_in_data(c, actual, expected, o) ||
      diagnose_float_types(c, actual, expected, o))
    return;
  Type *not_stackable = find_not_stackable(c, actual, expected);
  if (not_stackable) {
    diagnose_not_stackable(c, not_stackable, o);
    return;
  }
  if (expected->tag == TY_LIFT && actual->tag == TY_TENSOR) {
    no_leading_axis_error(c, actual, o);
    return;
  }
  Diag *d = kind_error(c, actual, expected, o);
  hint_float_types(c, d, actual, expected, o);
  hint_type_kind(c, d, actual, expected, o);
  hint_swapped_literal(c, d, expected, o);
  if (!d->help)
    d->help = derivative_argument_help(c, actual, expected, o);
  if (expected->tag == TY_LIFT && is_list(c, actual))
    d->help = "for lists, use lists.map, lists.fold and lists.iter";
  if (o->prim == PRIM_SORT && is_list(c, actual) && !d->help)
    d->help = "for a list, write `lists.sort less xs`";
  if (expected->tag == TY_FUN && !d->help)
    error_note_callee(c, d, o);
  if (!d->help)
    error_note_loop_state(c, d, o);
  if (o->kind == ORIGIN_FIELD && o->subject && actual->tag == TY_RECORD)
    d->note = arena_printf(c->arena, "there is no field `%s` in %s", o->subject,
                           ty_text(c, actual));
  error_add_labels(c, d, o);
}
