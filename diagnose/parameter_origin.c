/* Finds the places in the body of a function that require the type, the rank or
   a size of a parameter, also through functions that it is passed on to.  Main
   entry points: error_mark_type_origin and error_mark_size_origin. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PASSED_ON = 4 }; /* functions that a parameter is followed into */

typedef struct ParamSearch {
  Checker *c;
  Diag *d;
  Span span;        /* the parameter */
  const char *path; /* field of it, or "" */
  Type *type;       /* the required type: a tensor of known rank, or another
                       kind; NULL: searches only calls that it is passed to */
  Type *given;      /* the type of the value given for it */
  bool is_found;
  const Expr *passed_to; /* the call that it is passed to */
  const char *rest;      /* field of the argument */
  uint32_t number;       /* of the argument; 0 if it is labelled */
  Sym *label;
} ParamSearch;

/* ---- parameters in expressions ---- */

/* Removes the first name of a path if it is `id`; NULL otherwise. */
static const char *drop_first(const char *path, const Sym *id) {
  size_t n = strlen(id->text);
  if (strncmp(path, id->text, n) != 0 || (path[n] && path[n] != '.'))
    return NULL;
  return path[n] ? path + n + 1 : path + n;
}

static const Expr *named_expr(const Expr *e) {
  while (e->kind == EX_ID && e->binding && binding_expr(e->binding))
    e = e->binding->value
            .expr; /* another name for it, or the input of a pipe */
  return e;
}

/* The path within e, if e is the parameter or a field on its path; or NULL. */
static const char *path_within(const ParamSearch *s, const Expr *e) {
  e = named_expr(e);
  if (e->kind == EX_FIELD && e->arg[0]) {
    const char *path = path_within(s, e->arg[0]);
    return path && *path ? drop_first(path, e->id) : NULL;
  }
  return e->kind == EX_ID && e->binding &&
                 e->binding->span.file == s->span.file &&
                 e->binding->span.start == s->span.start
             ? s->path
             : NULL;
}

static bool is_param(const ParamSearch *s, const Expr *e) {
  const char *path = path_within(s, e);
  return path && !*path;
}

/* ---- what a place requires ---- */

static const char *axes_text(Checker *c, uint32_t n) {
  return n ? arena_printf(c->arena, "%u %s", n, n == 1 ? "axis" : "axes")
           : "no axes";
}

/* "4 axes", "a string" */
static const char *requirement_text(Checker *c, Type *t) {
  switch (t->tag) {
  case TY_TENSOR:
    return axes_text(c, error_shape(c, t)->len);
  case TY_TUPLE:
    return "a tuple";
  case TY_RECORD:
    return "a record";
  case TY_FUN:
    return "a function";
  case TY_SHAPE:
    return "a shape";
  case TY_DATATYPE:
    return arena_printf(c->arena, "a %s", t->data.type->name->text);
  case TY_VAR:
  case TY_AXIS:
  case TY_KEEP:
  case TY_LIFT:
  case TY_CAST:
    break;
  }
  return ty_text(c, t);
}

/* Is `declared` of the same kind as the required type? */
static bool fits(Checker *c, Type *declared, Type *type) {
  declared = ty_norm(c, declared);
  if (declared->tag != type->tag || type->tag == TY_VAR)
    return false;
  if (type->tag == TY_DATATYPE)
    return declared->data.type == type->data.type;
  if (type->tag != TY_TENSOR)
    return true;
  const Shape *s = error_shape(c, declared), *t = error_shape(c, type);
  return shape_has_known_rank(s) && shape_has_known_rank(t) && s->len == t->len;
}

static const Expr *head_of(const Expr *e) {
  while (e->kind == EX_APP)
    e = e->arg[0];
  return e;
}

static void mark(ParamSearch *s, const Expr *e, const char *label) {
  if (error_source_text(s->c, e->span))
    diag_add_label(s->c->arena, s->d, e->span, label);
  s->is_found = true;
}

/* x.[i, :n]: one item per axis. */
static void search_index(ParamSearch *s, const Expr *e) {
  uint32_t items = 0;
  for (uint32_t i = 0; i < e->slice_count; i++) {
    if (e->slices[i].kind == SLICE_ELLIPSIS)
      return;
    items +=
        e->slices[i].kind == SLICE_INDEX || e->slices[i].kind == SLICE_RANGE;
  }
  const Shape *shape = error_shape(s->c, s->type);
  if (!shape || items != shape->len || !is_param(s, e->arg[0]))
    return;
  mark(s, e,
       arena_printf(s->c->arena, "%s here: one item per axis",
                    axes_text(s->c, items)));
  if (!s->d->help && error_shape(s->c, s->given))
    s->d->help = "to keep the other axes, write `...`: x.[i, ...]";
}

/* "n, m": names for the sizes of a shape; NULL if its rank is not known. */
static const char *size_names(Checker *c, const Shape *s) {
  static const char names[] = "nmk";
  if (!s || !shape_has_known_rank(s) || !s->len || s->len >= sizeof names)
    return NULL;
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < s->len; i++)
    buffer_printf(&text, "%s%c", i ? ", " : "", names[i]);
  return text.text;
}

/* x.[i, :], where nothing else tells the type of i, for a tensor of indices. */
static void search_index_position(ParamSearch *s, const Expr *e) {
  const Shape *shape = error_shape(s->c, s->type);
  Type *given = ty_norm(s->c, s->given);
  const char *sizes = size_names(s->c, error_shape(s->c, given));
  if (!shape || shape->len || !sizes ||
      !(elem_root(given->tensor.elem)->classes & CLASS_INT))
    return;
  for (uint32_t i = 0; i < e->slice_count; i++) {
    const Slice *item = &e->slices[i];
    if (item->kind != SLICE_INDEX || !item->from->is_guess ||
        !is_param(s, item->from))
      continue;
    const char *name = error_source_text(s->c, s->span);
    mark(s, item->from, "an index without a known type is one integer");
    s->d->mistake = item->from->span;
    s->d->fixit_count = 0; /* of the help that this one replaces */
    s->d->help = arena_printf(
        s->c->arena,
        "for a tensor of indices, annotate the parameter: (%s : i64[%s])",
        name ? name : "i", sizes);
    return;
  }
}

/* if x > 0.0 ...: one decision for all elements. */
static void search_condition(ParamSearch *s, const Expr *test) {
  const Shape *shape = error_shape(s->c, s->type);
  bool uses = is_param(s, test);
  if (test->kind == EX_BIN)
    uses = is_param(s, test->arg[0]) || is_param(s, test->arg[1]);
  if (!shape || shape->len || !uses || !error_shape(s->c, s->given))
    return;
  mark(s, test, "`if` decides once: no axes here");
  if (!s->d->help)
    s->d->help = "for a choice per element, write `select c a b`";
}

/* Another argument of the call is what this one should be. */
static void hint_swapped(ParamSearch *s, const Expr *e, uint32_t number) {
  const Type *t = ty_root(head_of(e)->binding->scheme->type);
  uint32_t other = 0;
  for (uint32_t i = 0; i < e->arg_count && t->tag == TY_FUN; i++) {
    if (e->args[i].label)
      continue;
    while (t->tag == TY_FUN && t->fun.label)
      t = ty_root(t->fun.result);
    if (t->tag != TY_FUN)
      return;
    const Type *declared = ty_root(t->fun.param);
    Type *actual = e->args[i].expr->inferred_type;
    if (++other != number && declared->tag == TY_VAR && actual &&
        fits(s->c, actual, s->type)) {
      s->d->help = arena_printf(
          s->c->arena, "arguments %u and %u of %s may be swapped",
          other < number ? other : number, other < number ? number : other,
          error_source_text(s->c, head_of(e)->span));
      return;
    }
    t = ty_root(t->fun.result);
  }
}

static void found_call(ParamSearch *s, const Expr *e, const Arg *arg,
                       uint32_t number) {
  const char *name = error_source_text(s->c, head_of(e)->span);
  mark(s, arg->expr,
       arena_printf(s->c->arena, "%s expects %s", name ? name : "this",
                    requirement_text(s->c, s->type)));
  s->passed_to = e, s->rest = "", s->number = number, s->label = NULL;
  if (!s->d->help && name && s->type->tag != TY_TENSOR)
    hint_swapped(s, e, number);
}

/* Compares the arguments of an application with the declared type of the
   callee.  Returns the remaining type.  *number counts the arguments without
   label. */
static Type *search_args(ParamSearch *s, const Expr *e, uint32_t *number) {
  const Expr *head = e->arg[0];
  Type *t = NULL;
  if (head->kind == EX_APP)
    t = search_args(s, head, number);
  else if (head->binding && head->binding->scheme &&
           !binding_is_recursive(head->binding))
    t = ty_root(head->binding->scheme->type);
  for (uint32_t i = 0; i < e->arg_count && t && !s->is_found; i++) {
    const Arg *a = &e->args[i];
    const char *rest = a->expr ? path_within(s, a->expr) : NULL;
    if (!s->type && rest) {
      s->passed_to = e, s->rest = rest, s->label = a->label;
      s->number = a->label ? 0 : *number + 1;
      s->is_found = true;
      return NULL;
    }
    if (a->label)
      continue;
    while (t->tag == TY_FUN && t->fun.label)
      t = ty_root(t->fun.result);
    if (t->tag != TY_FUN)
      return NULL;
    ++*number;
    if (s->type && rest && !*rest && fits(s->c, t->fun.param, s->type))
      found_call(s, e, a, *number);
    t = ty_root(t->fun.result);
  }
  return t;
}

/* word ^ n: both are strings. */
static void search_append(ParamSearch *s, const Expr *e) {
  for (int i = 0; i < 2 && !s->is_found; i++)
    if (s->type->tag == TY_DATATYPE &&
        s->type->data.type == s->c->builtins.string_datatype &&
        is_param(s, e->arg[i])) {
      mark(s, e->arg[i], "`^` expects a string");
      s->d->help = "to convert a value to a string, write `string x`";
    }
}

static void search_expr(void *search, Expr *e) {
  ParamSearch *s = search;
  uint32_t number = 0;
  if (s->is_found)
    return;
  if (e->kind == EX_INDEX && s->type)
    search_index(s, e), search_index_position(s, e);
  else if (e->kind == EX_IF && s->type)
    search_condition(s, e->arg[0]);
  else if (e->kind == EX_BIN && e->op == BIN_APPEND && s->type)
    search_append(s, e);
  else if (e->kind == EX_APP)
    search_args(s, e, &number);
  else if (e->kind == EX_BIN && e->desugared)
    search_args(s, e->desugared, &number);
  if (!s->is_found)
    expr_visit_children(e, search_expr, s);
}

/* ---- parameters of a clause ---- */

/* NULL if an annotation determines its type. */
static const Pat *param_pattern(const Clause *k, const Sym *label,
                                uint32_t number) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    count += !p->label;
    if (label ? p->label == label : !p->label && count == number)
      return p->pat;
  }
  return NULL;
}

static const Clause *clause_of_call(const Expr *call) {
  const Expr *head = head_of(call);
  return head->binding ? binding_clause(head->binding) : NULL;
}

/* What a value becomes in a call: the parameter, or the component of its
   pattern; NULL: it has no pattern.  *clause is the callee. */
static const Pat *pattern_of(const Origin *o, const Clause **clause) {
  if (o->kind == ORIGIN_ELEMENT && o->whole) {
    const Pat *p = pattern_of(o->whole, clause);
    return p && p->kind == PAT_TUPLE && o->number < p->arg_count
               ? p->args[o->number]
               : NULL;
  }
  *clause = o->kind == ORIGIN_ARG && o->arg.callee
                ? clause_of_call(o->arg.callee)
                : NULL;
  return *clause ? param_pattern(*clause, o->arg.label, o->number) : NULL;
}

/* The component of a pattern at the start of a path, such as "part 2". */
static const Pat *pattern_part(const Pat *p, const char **path) {
  unsigned number;
  int len = 0;
  while (p && p->kind == PAT_TUPLE &&
         sscanf(*path, "part %u%n", &number, &len) == 1) {
    p = number <= p->arg_count ? p->args[number - 1] : NULL;
    *path += len + ((*path)[len] == '.');
  }
  return p;
}

static bool is_users(Checker *c, const Pat *p) {
  return p && p->kind == PAT_VAR && error_source_text(c, p->span);
}

/* Follows the parameter p through the body of k and of the functions that it
   is passed on to. */
static void mark_type(Checker *c, Diag *d, const Clause *k, const Pat *p,
                      const char *path, Type *type, Type *given) {
  for (uint32_t depth = 0; depth < MAX_PASSED_ON && k && is_users(c, p);
       depth++) {
    ParamSearch s = {.c = c,
                     .d = d,
                     .span = p->span,
                     .path = path,
                     .type = type,
                     .given = given};
    search_expr(&s, k->body);
    k = s.passed_to ? clause_of_call(s.passed_to) : NULL;
    p = k ? param_pattern(k, s.label, s.number) : NULL;
    path = "";
  }
}

static bool has_requirement(Checker *c, Type *t) {
  return t->tag != TY_VAR &&
         (t->tag != TY_TENSOR || shape_has_known_rank(error_shape(c, t)));
}

/* Marks the first parameter of a function, or component of one in its pattern,
   whose kind differs from the expected one. */
static bool mark_function_param(Checker *c, Diag *d, const Clause *k,
                                const Pat *p, Type *actual, Type *expected) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  bool parts = p && p->kind == PAT_TUPLE && actual->tag == TY_TUPLE &&
               expected->tag == TY_TUPLE && actual->count == expected->count &&
               actual->count == p->arg_count;
  for (uint32_t i = 0; parts && i < actual->count; i++)
    if (mark_function_param(c, d, k, p->args[i], actual->args[i],
                            expected->args[i]))
      return true;
  if (parts || fits(c, actual, expected) || !has_requirement(c, actual) ||
      !is_users(c, p))
    return false;
  mark_type(c, d, k, p, "", actual, expected);
  return true;
}

/* How many arguments without label a partial application has. */
static uint32_t given_arguments(const Expr *e) {
  uint32_t given = 0;
  for (; e && e->kind == EX_APP; e = e->arg[0])
    for (uint32_t i = 0; i < e->arg_count; i++)
      given += !e->args[i].label;
  return given;
}

void error_mark_function_origin(Checker *c, Diag *d, const Origin *o,
                                Type *actual, Type *expected) {
  const Expr *e = o->expr ? error_brought(o->expr) : NULL;
  const Clause *k = e ? clause_of_call(e) : NULL;
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  for (uint32_t i = given_arguments(e) + 1;
       k && actual->tag == TY_FUN && expected->tag == TY_FUN; i++) {
    if (mark_function_param(c, d, k, param_pattern(k, NULL, i),
                            actual->fun.param, expected->fun.param))
      return;
    actual = ty_norm(c, actual->fun.result);
    expected = ty_norm(c, expected->fun.result);
  }
}

void error_mark_type_origin(Checker *c, Diag *d, const Origin *o,
                            const char *path, Type *actual, Type *expected) {
  const Clause *k = NULL;
  const Pat *p = pattern_part(pattern_of(o, &k), &path);
  expected = ty_norm(c, expected);
  if (p && has_requirement(c, expected))
    mark_type(c, d, k, p, path, expected, actual);
}

/* ---- indices ---- */

/* x.[i, :], where one integer i would be an error elsewhere in the body. */
static void search_index_tensor(void *search, Expr *e) {
  ParamSearch *s = search;
  for (uint32_t i = 0; i < e->slice_count && !s->is_found; i++) {
    const Expr *from = e->slices[i].from;
    if (e->slices[i].kind != SLICE_INDEX || from->is_guess ||
        !from->guess_error || !is_param(s, from))
      continue;
    const Diag *error = from->guess_error;
    mark(s, from, "a tensor of indices here");
    diag_add_label(
        s->c->arena, s->d, error->span,
        arena_printf(s->c->arena, "for one index: %s", error->message));
    s->d->mistake = error->span;
  }
  if (!s->is_found)
    expr_visit_children(e, search_index_tensor, s);
}

void error_mark_index_tensor(Checker *c, Diag *d, const Origin *o,
                             const Shape *actual) {
  const Clause *k = NULL;
  const Pat *p = pattern_of(o, &k);
  ParamSearch s = {.c = c, .d = d, .path = ""};
  if (actual->len || !is_users(c, p))
    return;
  s.span = p->span;
  search_index_tensor(&s, k->body);
}

/* ---- comparisons ---- */

static bool is_comparison(const Expr *e) {
  return e->kind == EX_BIN && e->op >= BIN_EQ && e->op <= BIN_GE;
}

static void search_comparison(void *search, Expr *e) {
  ParamSearch *s = search;
  if (s->is_found)
    return;
  if (is_comparison(e) && (is_param(s, e->arg[0]) || is_param(s, e->arg[1]))) {
    mark(s, e,
         e->is_guess ? "of unknown types: compares tensors, element by element"
                     : "compares tensors, element by element");
    if (!e->is_guess)
      return; /* the other side tells the type */
    bool equality = e->op == BIN_EQ || e->op == BIN_NE;
    s->d->mistake = e->span;
    s->d->help =
        equality ? "to compare other values, write `equal x y`, or annotate "
                   "the parameter"
                 : "to compare other values, write `less x y`, or annotate the "
                   "parameter";
    return;
  }
  expr_visit_children(e, search_comparison, s);
}

void error_mark_comparison(Checker *c, Diag *d, const Origin *o) {
  const Clause *k = NULL;
  const Pat *p = pattern_of(o, &k);
  if (!is_users(c, p))
    return;
  ParamSearch s = {.c = c, .d = d, .span = p->span, .path = ""};
  search_comparison(&s, k->body);
}

/* ---- sizes ---- */

/* The type at a path of a parameter, with the variables of its inference. */
static Type *declared_type(Checker *c, const Expr *call, const Sym *label,
                           uint32_t number, const char *path) {
  const Binding *b = head_of(call)->binding;
  Type *t = b && b->scheme ? ty_norm(c, b->scheme->type) : NULL;
  uint32_t count = 0;
  for (; t && t->tag == TY_FUN; t = ty_norm(c, t->fun.result)) {
    count += !t->fun.label;
    if (label ? t->fun.label == label : !t->fun.label && count == number)
      break;
  }
  t = t && t->tag == TY_FUN ? ty_norm(c, t->fun.param) : NULL;
  while (t && *path && t->tag == TY_RECORD) {
    Type *field = NULL;
    t = row_flat(c, t);
    for (uint32_t i = 0; i < t->count && !field; i++) {
      const char *rest = drop_first(path, t->record.labels[i]);
      if (rest)
        field = ty_norm(c, t->args[i]), path = rest;
    }
    t = field;
  }
  return t && !*path ? t : NULL;
}

bool error_parameter_has_number(Checker *c, const Origin *o, Dim *d) {
  Type *t = o->arg.callee && dim_is_const(d)
                ? declared_type(c, o->arg.callee, o->arg.label, o->number, "")
                : NULL;
  Shape *s = error_shape(c, t);
  for (uint32_t i = 0; s && i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM && dim_equal(s->axes[i].dim, d))
      return true;
  return false;
}

/* Labels the places that solved the size.  Returns false if there is none. */
static bool mark_solutions(Checker *c, Diag *d, DimVar *v, const char *what) {
  bool any = false;
  for (; v && v->solution && !v->unknown; v = dim_as_var(v->solution)) {
    const Origin *o = v->solved_by;
    while (o && !error_source_text(c, o->span))
      o = o->body_origin;
    if (!o)
      continue;
    int64_t n;
    Dim *value = dim_resolve(c->dims, dim_of_var(c->dims, v));
    diag_add_label(
        c->arena, d, o->span,
        dim_is_int(value, &n)
            ? arena_printf(c->arena, "%s is %lld here", what, (long long)n)
            : arena_printf(c->arena, "equal to %s here", what));
    any = true;
  }
  return any;
}

/* The size of an axis, counted from the right from 1, or of an integer. */
static bool mark_size(Checker *c, Diag *d, Type *t, uint32_t from_right,
                      const char *name) {
  if (t->tag != TY_TENSOR)
    return false;
  if (t->tensor.singleton)
    return mark_solutions(c, d, dim_as_var(t->tensor.singleton), name);
  const Shape *s = t->tensor.shape;
  bool splice = false;
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_SPLICE) {
      splice = true;
      if (i + from_right >= s->len)
        return false;
    }
  if (!from_right || from_right > s->len ||
      s->axes[s->len - from_right].tag != SHAPE_DIM)
    return false;
  return mark_solutions(
      c, d, dim_as_var(s->axes[s->len - from_right].dim),
      splice
          ? arena_printf(c->arena, "axis -%u of %s", from_right, name)
          : arena_printf(c->arena, "axis %u of %s", s->len - from_right, name));
}

void error_mark_size_origin(Checker *c, Diag *d, const Origin *o,
                            const char *path, uint32_t from_right) {
  const Expr *call = o->kind == ORIGIN_ARG ? o->arg.callee : NULL;
  const Sym *label = call ? o->arg.label : NULL;
  uint32_t number = o->number, of_function;
  int len = 0;
  if (o->expr && sscanf(path, "parameter %u.%n", &of_function, &len) == 1) {
    call = error_brought(o->expr), label = NULL, path += len;
    number = of_function + given_arguments(call);
  }
  for (uint32_t depth = 0; depth < MAX_PASSED_ON && call; depth++) {
    const Clause *k = clause_of_call(call);
    const Pat *p = k ? param_pattern(k, label, number) : NULL;
    Type *t = declared_type(c, call, label, number, path);
    if (!is_users(c, p) || !t)
      return;
    const char *name = *path
                           ? arena_printf(c->arena, "%s.%s", p->id->text, path)
                           : p->id->text;
    if (mark_size(c, d, t, from_right, name))
      return;
    ParamSearch s = {.c = c, .d = d, .span = p->span, .path = path};
    search_expr(&s, k->body);
    call = s.passed_to, label = s.label, number = s.number, path = s.rest;
  }
}
