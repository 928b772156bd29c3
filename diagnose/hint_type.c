/* Suggestions for types of different kinds, mostly for habits from other
   languages. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

static bool is_list(Checker *c, Type *t) {
  return t->tag == TY_DATATYPE && t->data.type == c->builtins.list_datatype;
}

/* A tuple is passed to a function of several arguments. */
static bool hint_tuple_argument(Checker *c, Diag *d, Type *actual,
                                const Origin *o) {
  const Expr *e = error_brought(o->expr);
  if (actual->tag != TY_TUPLE || o->kind != ORIGIN_ARG || !o->arg.fun_type ||
      !e || e->kind != EX_TUPLE || o->number != 1)
    return false;
  uint32_t count = 0;
  for (Type *t = ty_root(o->arg.fun_type); t->tag == TY_FUN;
       t = ty_root(t->fun.result))
    count += !t->fun.label;
  if (count != e->item_count)
    return false;
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < e->item_count; i++) {
    const char *item = fixit_argument_text(c, e->items[i]);
    if (!item)
      return false;
    buffer_printf(&text, "%s%s", i ? " " : "", item);
  }
  bool apart = o->arg.callee && o->arg.callee->span.end < e->span.start;
  d->help = arena_printf(c->arena, "write arguments separated by spaces: %s %s",
                         o->subject ? o->subject : "f", text.text);
  if (e == o->expr)
    fixit_replace(c, d, e->span,
                  apart ? text.text : arena_printf(c->arena, " %s", text.text));
  return true;
}

/* True for a number that is or may become an integer. */
static bool is_size(Checker *c, Type *t) {
  Shape *s = error_shape(c, t);
  const ElemVar *e = s ? elem_root(ty_norm(c, t)->tensor.elem) : NULL;
  return s && s->len == 0 && !e->skolem && (e->classes & CLASS_INT);
}

static bool is_sizes(Checker *c, Type *t) {
  bool all = t->tag == TY_TUPLE && t->count;
  for (uint32_t i = 0; all && i < t->count; i++)
    all = is_size(c, t->args[i]);
  return all;
}

/* "2, 3" for (2, 3), and "2" for 2.  NULL if the sizes are not literals. */
static const char *sizes_written(Checker *c, Type *actual, const Expr *e) {
  if (!e || actual->tag != TY_TUPLE)
    return e ? error_source_text(c, e->span) : NULL;
  if (e->kind != EX_TUPLE)
    return NULL;
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < e->item_count; i++) {
    const char *item = error_source_text(c, e->items[i]->span);
    if (!item)
      return NULL;
    buffer_printf(&text, "%s%s", i ? ", " : "", item);
  }
  return text.text;
}

/* zeros (2, 3) and zeros 3. */
static bool hint_shape_literal(Checker *c, Diag *d, Type *actual,
                               const Origin *o) {
  const Expr *e = error_brought(o->expr);
  if (!is_size(c, actual) && !is_sizes(c, actual))
    return false;
  const char *sizes = sizes_written(c, actual, e);
  if (!sizes) {
    d->help = "write a shape in brackets, as in [n, m]";
    return true;
  }
  const char *text = arena_printf(c->arena, "[%s]", sizes);
  d->help = arena_printf(c->arena, "write the shape as %s", text);
  fixit_replace(c, d, e->span, text);
  return true;
}

/* A function where another value is expected: tells its next parameter, and a
 * shape if that is the last one. */
static void hint_missing_argument(Checker *c, Diag *d, Type *function,
                                  Type *expected, const Origin *o) {
  Type *param = ty_norm(c, function->fun.param);
  const char *text = o->expr ? error_source_text(c, o->expr->span) : NULL;
  if (function->fun.label || param->tag == TY_VAR) {
    d->help = "an argument may be missing";
  } else if (param->tag == TY_SHAPE && expected->tag == TY_TENSOR && text &&
             ty_norm(c, function->fun.result)->tag == TY_TENSOR) {
    const char *shape = shape_text(c, expected->tensor.shape);
    d->help = arena_printf(c->arena, "the shape is missing: write `%s %s`",
                           text, shape);
  } else {
    d->help =
        arena_printf(c->arena, "an argument may be missing: the next one is %s",
                     ty_text(c, param));
  }
}

/* f -x: a subtraction, though the minus sign belongs to x. */
static bool hint_negative_argument(Checker *c, Diag *d, const Origin *o) {
  const Expr *right =
      o->prim == PRIM_SUB && o->number == 1 ? origin_right(o) : NULL;
  const Source *source = right && right->span.file
                             ? sources_get(c->sources, right->span.file)
                             : NULL;
  const char *name = source ? error_source_text(c, right->span) : NULL;
  uint32_t at = name ? right->span.start : 0;
  if (at < 2 || source->text[at - 1] != '-' ||
      !strchr(" \t\n", source->text[at - 2]))
    return false;
  const char *argument = arena_printf(c->arena, "(-%s)", name);
  d->help = arena_printf(c->arena,
                         "`-%s` is subtracted here: as an argument, write %s",
                         name, argument);
  fixit_replace(c, d, (Span){right->span.file, at - 1, right->span.end},
                argument);
  return true;
}

/* val (a, b, c) = split_key k */
static bool hint_component_count(Checker *c, Diag *d, Type *actual,
                                 Type *expected, const Origin *o) {
  if (o->kind == ORIGIN_PATTERN && error_is_tensor(expected) &&
      error_shape(c, expected)->len &&
      (actual->tag == TY_TUPLE || actual->tag == TY_SHAPE)) {
    d->help = "for the elements of a tensor, write `x.[0]` and so on, or `val "
              "list [a, b] = unstack x`";
    return true;
  }
  if (o->kind == ORIGIN_PATTERN && actual->tag == TY_TUPLE &&
      expected->tag == TY_SHAPE) {
    d->help = "for the sizes of a shape, write `val [a, b] = shape x`";
    return true;
  }
  if (o->kind != ORIGIN_PATTERN || actual->tag != TY_TUPLE ||
      expected->tag != TY_TUPLE || actual->count == expected->count ||
      !expected->count) /* () is a value, too */
    return false;
  const Type *part = ty_norm(c, expected->args[0]);
  bool is_key =
      part->tag == TY_DATATYPE && part->data.type == c->builtins.key_datatype;
  d->help = arena_printf(
      c->arena, "the value has %u components, the pattern %u%s",
      expected->count, actual->count,
      is_key ? "; for any number of keys, write `fold_key k i`" : "");
  return true;
}

bool error_key_is_missing(Checker *c, const Origin *o) {
  Type *expected = o->expected ? ty_norm(c, o->expected) : NULL;
  if (o->kind != ORIGIN_ARG || o->number != 1 || !o->arg.fun_type ||
      !expected || expected->tag != TY_DATATYPE ||
      expected->data.type != c->builtins.key_datatype)
    return false;
  uint32_t params = 0, given = 0;
  for (Type *t = ty_root(o->arg.fun_type); t->tag == TY_FUN;
       t = ty_root(t->fun.result))
    params += !t->fun.label;
  for (uint32_t i = 0; i < o->arg.arg_count; i++)
    given += !o->arg.args[i].label;
  return given < params;
}

/* normal [3], normal (3, 4), random.randint 0 3 [5] */
static void hint_missing_key(Checker *c, Diag *d, Type *actual,
                             const Origin *o) {
  const Expr *first = error_brought(o->expr);
  const Type *key = ty_root(o->arg.fun_type);
  const Type *next = ty_root(key->fun.result);
  bool is_shape = (is_size(c, actual) || is_sizes(c, actual)) &&
                  next->tag == TY_FUN &&
                  ty_root(next->fun.param)->tag == TY_SHAPE;
  const char *text = is_shape ? sizes_written(c, actual, first) : NULL;
  text = text ? arena_printf(c->arena, "[%s]", text)
              : fixit_argument_text(c, first);
  Buffer rest = {.arena = c->arena};
  bool is_after = false;
  for (uint32_t i = 0; i < o->arg.arg_count; i++) {
    const Arg *a = &o->arg.args[i];
    const char *item = is_after ? error_source_text(c, a->expr->span) : NULL;
    if (item)
      buffer_printf(&rest, " %s", item);
    is_after |= a->expr == o->expr;
  }
  d->help = arena_printf(
      c->arena, "a random function takes a key first: write `%s (key 1) %s%s`",
      o->subject ? o->subject : "f", text ? text : "[n]",
      rest.len ? rest.text : "");
  if (text && first == o->expr)
    fixit_replace(c, d, first->span,
                  arena_printf(c->arena, "(key 1) %s", text));
}

/* A random function without a key, or with a seed. */
static bool hint_key(Checker *c, Diag *d, Type *actual, Type *expected,
                     const Origin *o) {
  if (o->kind != ORIGIN_ARG || expected->tag != TY_DATATYPE ||
      expected->data.type != c->builtins.key_datatype)
    return false;
  bool is_number = is_size(c, actual);
  if (o->expr && error_key_is_missing(c, o) &&
      (is_number || is_sizes(c, actual) || error_is_tensor(actual))) {
    hint_missing_key(c, d, actual, o);
    return true;
  }
  if (!is_number)
    return false;
  d->help = "to make a key from a seed, write `key 1`";
  if (o->expr)
    fixit_apply(c, d, o, o->expr, "key");
  return true;
}

/* The function of a loop returns a state alone, or with an output. */
static bool hint_loop_result(Diag *d, Type *actual, Type *expected,
                             const Origin *o) {
  PrimId loop = origin_loop_of_result(o);
  if (o->kind == ORIGIN_ARG && o->prim == PRIM_SCAN && o->number == 1 &&
      actual->tag == TY_FUN)
    loop = PRIM_SCAN;
  if (!loop)
    return false;
  if (loop == PRIM_SCAN && actual->tag != TY_TUPLE)
    d->help = "the function of `scan` returns a pair: the next state, and the "
              "output of this step, as in (s, s)";
  else if (loop != PRIM_SCAN && actual->tag == TY_TUPLE &&
           expected->tag != TY_TUPLE)
    d->help = "this function returns the next state alone; for an output of "
              "each step, use `scan`";
  return d->help != NULL;
}

static bool is_structure(const Type *t) {
  return t->tag == TY_RECORD || t->tag == TY_TUPLE;
}

/* while (x < 3) (x + 1) */
static bool hint_while(Diag *d, Type *actual, Type *expected, const Origin *o) {
  if (o->kind != ORIGIN_ARG || o->prim != PRIM_WHILE ||
      expected->tag != TY_FUN || actual->tag == TY_FUN)
    return false;
  d->help =
      "`while` takes two functions and the first state: `while (fn x => x "
      "< 100) (fn x => 2 * x) 1`";
  return true;
}

/* A structure of tensors for a function of one tensor. */
static bool hint_structure(Checker *c, Diag *d, Type *actual, Type *expected,
                           const Origin *o) {
  if (o->kind != ORIGIN_ARG || !o->subject || !is_structure(actual) ||
      !error_is_tensor(expected) || !o->arg.fun_type)
    return false;
  const Type *fun = ty_norm(c, o->arg.fun_type);
  const Shape *from =
      fun->tag == TY_FUN ? error_shape(c, fun->fun.param) : NULL;
  const Shape *to = from ? error_shape(c, fun->fun.result) : NULL;
  const Binding *b = o->arg.callee ? o->arg.callee->binding : NULL;
  if (b && b->module->library && strcmp(o->subject, "zeros_like") == 0)
    d->help = "for all tensors of a structure, write optim.zeros_like";
  else if (to && o->arg.arg_count == 1 && shape_equal(c, from, to))
    d->help = arena_printf(c->arena,
                           "for every float in a structure, write each %s x",
                           o->subject);
  return d->help != NULL;
}

static bool is_compare(const Expr *e) {
  return e->kind == EX_ID && e->binding && e->binding->kind == BK_PRIM &&
         e->binding->prim == PRIM_COMPARE;
}

static bool is_element_type(Checker *c, Type *t) {
  return error_is_tensor(ty_norm(c, t));
}

void hint_type_kind(Checker *c, Diag *d, Type *actual, Type *expected,
                    const Origin *o) {
  const Expr *e = error_brought(o->expr);
  if (actual->tag == TY_FUN && hint_negative_argument(c, d, o))
    return;
  if (actual->tag == TY_FUN && expected->tag != TY_FUN)
    hint_missing_argument(c, d, actual, expected, o);
  else if (o->prim == PRIM_ADD && actual->tag == TY_DATATYPE &&
           actual->data.type == c->builtins.string_datatype)
    d->help = "to join strings, use `^`";
  else if (o->kind == ORIGIN_OPERATOR && actual->tag == TY_DATATYPE &&
           actual->data.type == c->builtins.key_datatype)
    d->help = "a key is not a number: for another key, write `fold_key k 1`, "
              "or `val (a, b) = split_key k`";
  else if (o->prim == PRIM_APPEND && error_is_tensor(actual) &&
           o->number == 2) {
    d->help = "`^` joins strings: to convert x to a string, write `string x`";
    if (o->expr)
      fixit_apply(c, d, o, o->expr, "string");
  } else if (o->prim == PRIM_APPEND && error_is_tensor(actual))
    d->help = "`^` joins strings; for a power, write `pow x y`";
  else if (is_list(c, expected) && e && e->kind == EX_BRACKET)
    d->help = "for a list, write `list [x, y]`: brackets alone make a tensor";
  else if (e && is_compare(e) && expected->tag == TY_FUN)
    d->help = "`compare` gives -1, 0 or 1; for a bool, write `less`";
  else if (is_list(c, actual) && e && e->kind == EX_LIST &&
           error_is_tensor(expected) && is_element_type(c, actual->args[0]))
    d->help = "for a tensor, omit `list`: `[x, y]`";
  else if (o->kind == ORIGIN_INDEX && actual->tag == TY_TUPLE)
    d->help = "to get the parts of a tuple, use a pattern: `val (a, b) = e`";
  else if (o->kind == ORIGIN_INDEX && is_list(c, actual))
    d->help = "for an element of a list, write `lists.nth i xs`";
  else if (o->kind == ORIGIN_INDEX && actual->tag == TY_RECORD)
    d->help = "write a field as `r.name`";
  else if (expected->tag == TY_SHAPE && hint_shape_literal(c, d, actual, o))
    return;
  else if (o->prim == PRIM_SAVE && o->number == 2)
    d->help = "to save a structure, write save_tree \"file.safetensors\" x";
  else if (hint_key(c, d, actual, expected, o) ||
           hint_tuple_argument(c, d, actual, o) ||
           hint_component_count(c, d, actual, expected, o) ||
           hint_loop_result(d, actual, expected, o) ||
           hint_while(d, actual, expected, o) ||
           hint_structure(c, d, actual, expected, o))
    return;
  else if (is_list(c, actual) && error_is_tensor(expected) &&
           o->kind == ORIGIN_ARG && error_is_tensor(actual->args[0])) {
    d->help =
        "to make a tensor from a list of tensors of equal shape, use `stack`";
    if (o->expr)
      fixit_apply(c, d, o, o->expr, "stack");
  }
}

/* ---- element types ---- */

/* Class labels are expected, but a row of probabilities is found. */
static bool hint_class_labels(Checker *c, Diag *d, Type *actual, Type *expected,
                              const Origin *o) {
  Shape *a = shape_norm(c, actual->tensor.shape),
        *b = shape_norm(c, expected->tensor.shape);
  if (!shape_has_known_rank(a) || !shape_has_known_rank(b) ||
      a->len != b->len + 1 ||
      elem_root(expected->tensor.elem)->classes & ~(uint32_t)CLASS_INT ||
      !o->expr)
    return false;
  d->help = "for the index of the largest element of each row, write argmax x";
  fixit_apply(c, d, o, o->expr, "argmax");
  return true;
}

/* x.[x > 1] */
static bool hint_bool_index(Diag *d, Type *actual, const Origin *o) {
  if (o->kind != ORIGIN_INDEX ||
      elem_root(actual->tensor.elem)->dtype != DT_BOOL)
    return false;
  d->help = "for the elements that satisfy a condition, write `filter (fn x => "
            "x > 1) x`; for a choice per element, `select c x y`";
  return true;
}

static bool is_class(const ElemVar *e, uint32_t classes) {
  return e->classes && !(e->classes & ~classes);
}

/* x / 255.0: with a float literal, suggests converting the integer operand. */
static bool hint_convert_operand(Checker *c, Diag *d, Type *actual,
                                 Type *expected, const Origin *o) {
  const Expr *other = o->number == 2 ? origin_left(o) : NULL;
  if (o->kind != ORIGIN_OPERATOR || !other ||
      !is_class(elem_root(actual->tensor.elem), CLASS_FLOAT) ||
      !is_class(elem_root(expected->tensor.elem), CLASS_INT))
    return false;
  d->help = "no implicit conversion: to convert the left side, write `float x`";
  fixit_apply(c, d, o, other, "float");
  return true;
}

/* A type variable of an annotation meets another element type. */
static bool hint_type_variable(Checker *c, Diag *d, const ElemVar *is,
                               const ElemVar *wanted) {
  if (!wanted->skolem || !wanted->name)
    return false;
  const char *name = wanted->name->text;
  if (error_are_namesakes(is, wanted))
    d->help = arena_printf(
        c->arena,
        "annotate all parameters and the results of both functions, with the "
        "class of %s after `given`: then each function has its own %s",
        name, name);
  else if (is->skolem && is->name)
    d->help = arena_printf(
        c->arena, "%s and %s may be different types: write %s for both",
        is->name->text, name, name);
  else if (elem_shown_dtype(is) != DT_NONE)
    d->help = arena_printf(
        c->arena, "%s is arbitrary: to allow only one element type, write %s",
        name, dtype_info[elem_shown_dtype(is)].name);
  return d->help != NULL;
}

void hint_elem_type(Checker *c, Diag *d, Type *actual, Type *expected,
                    const Origin *o) {
  ElemVar *g = elem_root(actual->tensor.elem),
          *w = elem_root(expected->tensor.elem);
  if (hint_bool_index(d, actual, o) ||
      hint_class_labels(c, d, actual, expected, o) ||
      hint_convert_operand(c, d, actual, expected, o) ||
      hint_type_variable(c, d, g, w))
    return;
  if (w->dtype == DT_BOOL && is_class(g, CLASS_NUM))
    d->help = "to compare, write for example x > 0; `bool x` is true where x "
              "is not 0";
  else if (w->dtype != DT_NONE && w->dtype != DT_BOOL)
    d->help = arena_printf(c->arena, "no implicit conversion: write %s x",
                           dtype_info[w->dtype].name);
  else if (w->classes == CLASS_FLOAT)
    d->help = "no implicit conversion: write float x";
  else if (g->dtype == DT_BOOL && is_class(w, CLASS_NUM))
    d->help = "no implicit conversion: write i64 x or float x";
  else if (is_class(w, CLASS_INT) && is_class(g, CLASS_FLOAT))
    d->help = "no implicit conversion: write i64 x";
}
