/* Application: labelled arguments, defaults, partial application, pipes. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>
#include <stdlib.h>

typedef struct QueuedArg { /* an argument, and where to store its core */
  Arg *arg;
  Type *expected;
  Core **slot;
  uint32_t number;
  bool is_differentiated; /* a function, such as the first argument of grad */
  /* of a differentiated function that was checked: its result, and where it
     comes from */
  Type *result;
  Origin *origin;
} QueuedArg;

typedef struct Application {
  Checker *c;
  Expr *e;
  Expr *head;
  const char *name;
  PrimId prim;
  Core *fn;
  /* type of fn; type after the arguments so far */
  Type *fun_type, *remaining_type;
  Arg *args;
  uint32_t count;
  VEC(Core *) items; /* fn, then arguments in order */
  VEC(QueuedArg) queue;
  VEC(CoreParam)
  unapplied_params; /* labelled parameters without argument (partial
                       application) */
  bool is_partial;
  uint32_t reported;         /* errors before the call */
  bool has_curried_function; /* a function that is differentiated returns a
                                function: an error */
} Application;

static bool has_existential(const TypeExpr *t) {
  for (uint32_t i = 0; i < t->axes.len; i++)
    if (t->axes.at[i].kind == AXIS_DIM &&
        t->axes.at[i].dim->kind == DX_EXISTENTIAL)
      return true;
  for (uint32_t i = 0; i < t->arg_count; i++)
    if (has_existential(t->args[i]))
      return true;
  return false;
}

/* True for a function whose parameter annotation names an existential size.
   Such an annotation informs other arguments, but learns nothing from them. */
static bool states_existential(const Expr *e) {
  const Pat *p = e->clauses[0].params[0].pat;
  return p->kind == PAT_ASCRIBE && has_existential(p->type);
}

static bool takes_datatype(Checker *c, Type *fun) {
  for (; fun->tag == TY_FUN; fun = ty_root(fun->fun.result))
    if (ty_norm(c, fun->fun.param)->tag == TY_DATATYPE)
      return true;
  return false;
}

/* One float, or a tuple that begins with one. */
static bool is_loss_result(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_TUPLE && t->count)
    t = ty_norm(c, t->args[0]);
  if (t->tag != TY_TENSOR)
    return false;
  Shape *s = shape_norm(c, t->tensor.shape);
  return !s->len && !(elem_root(t->tensor.elem)->classes & ~CLASS_FLOAT);
}

/* True for a function that is passed to vjp, and for one whose last parameter
   is data of any type and whose result is one float: a loss.  Only before other
   arguments determine the data. */
static bool is_differentiated(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag != TY_FUN)
    return false;
  while (!t->fun.is_differentiated && ty_norm(c, t->fun.result)->tag == TY_FUN)
    t = ty_norm(c, t->fun.result);
  Type *param = ty_norm(c, t->fun.param);
  return t->fun.is_differentiated ||
         (param->tag == TY_VAR && param->var->is_data &&
          is_loss_result(c, t->fun.result));
}

/* True for arguments that are checked after the others, since those determine
   their parameter types: functions, and a name if items have unknown sizes. */
static bool is_checked_last(const Application *k, const QueuedArg *g) {
  Expr *e = g->arg->expr;
  if (e->kind == EX_FN)
    return !states_existential(e);
  return (e->kind == EX_ID || e->kind == EX_FIELD) &&
         ty_root(g->expected)->tag == TY_FUN &&
         takes_datatype(k->c, ty_root(k->fun_type));
}

static bool mentions_ty_var(Type *t, const TyVar *v) {
  t = ty_root(t);
  if (t->tag == TY_VAR)
    return t->var == v;
  for (uint32_t i = 0; t->tag == TY_TUPLE && i < t->count; i++)
    if (mentions_ty_var(t->args[i], v))
      return true;
  return false;
}

/* True if some function argument returns the type variable `expected`: the
   argument is the state of a loop. */
static bool is_loop_state(Application *k, Type *expected) {
  expected = ty_root(expected);
  if (expected->tag != TY_VAR || expected->var->skolem)
    return false;
  for (Type *t = ty_root(k->fun_type); t->tag == TY_FUN;
       t = ty_root(t->fun.result)) {
    Type *p = ty_root(t->fun.param);
    if (p->tag != TY_FUN)
      continue;
    while (p->tag == TY_FUN)
      p = ty_root(p->fun.result);
    if (mentions_ty_var(p, expected->var))
      return true;
  }
  return false;
}

/* Name under which the value of a pipe is an argument. */
static const char pipe_name[] = "|>";

bool is_pipe_name(const Sym *id) {
  return strcmp(id->text, pipe_name) == 0;
}

Span arg_span(const Expr *e, const Expr *arg) {
  bool piped = arg->kind == EX_ID && is_pipe_name(arg->id);
  return piped ? e->span : arg->span;
}

/* The callee, if it is being defined and is monomorphic there. */
static Binding *recursive_callee(Checker *c, const Application *k, Origin *o) {
  Binding *b = k->head->kind == EX_ID ? k->head->binding : NULL;
  if (!b || !binding_is_recursive(b) || b->value.annotation_scheme ||
      !b->value.group)
    return NULL;
  VEC_PUSH(c->arena, b->value.group->calls, o);
  return b;
}

/* The function type t, with another result. */
static Type *with_result(Checker *c, Type *t, Type *result) {
  t = ty_norm(c, t);
  if (t->tag != TY_FUN)
    return result;
  Type *r = ty_new(c, TY_FUN);
  *r = *t;
  r->fun.result = with_result(c, t->fun.result, result);
  return r;
}

static Type *last_result(Checker *c, Type *t) {
  t = ty_norm(c, t);
  while (t->tag == TY_FUN)
    t = ty_norm(c, t->fun.result);
  return t;
}

/* Compares the result of a function that is differentiated.  This comes last,
   since other arguments determine the element types. */
static void check_differentiated_result(Checker *c, QueuedArg *g) {
  Expr *e = g->arg->expr;
  Type *result = g->result, *expected = last_result(c, g->expected);
  g->result = NULL;
  Origin *o = NEW(c->arena, Origin);
  *o = *g->origin;
  o->actual = o->expected = NULL;
  o->arg.is_differentiated = true;
  if (e->kind == EX_FN && e->clause_count == 1)
    o->span = e->clauses[0].body->span;
  if (!unify(c, result, expected, o))
    report_type_mismatch(c, result, expected, o);
}

/* Checks a function that is differentiated, with any result.  A function as
   result is reported at once: other arguments follow it by mistake. */
static Core *check_differentiated(Application *k, QueuedArg *g, Origin *o) {
  Checker *c = k->c;
  uint32_t reported = c->solver.contradicted.len;
  Type *result = ty_meta(c);
  Core *core = check(c, g->arg->expr, with_result(c, g->expected, result), o);
  if (c->solver.contradicted.len != reported)
    return core;
  g->result = result, g->origin = o;
  if (ty_norm(c, result)->tag == TY_FUN) {
    check_differentiated_result(c, g);
    k->has_curried_function = true;
  }
  return core;
}

/* Notes the type of the data that this function is differentiated by, for
   report_no_floats. */
static void note_differentiated(Application *k, const QueuedArg *g) {
  Checker *c = k->c;
  Type *t = ty_norm(c, g->expected);
  if (!g->is_differentiated)
    return;
  while (t->tag == TY_FUN && ty_norm(c, t->fun.result)->tag == TY_FUN)
    t = ty_norm(c, t->fun.result);
  if (t->tag != TY_FUN)
    return;
  Differentiated d = {t->fun.param, k->head->span, k->name};
  for (uint32_t i = 0; i < k->queue.len; i++)
    if (ty_root(k->queue.at[i].expected) == ty_root(t->fun.param))
      d.span = arg_span(k->e, k->queue.at[i].arg->expr);
  VEC_PUSH(c->arena, c->notes.differentiated, d);
}

/* False if no value of this type contains a float. */
static bool may_have_floats(Checker *c, Type *t) {
  t = ty_norm(c, t);
  switch (t->tag) {
  case TY_VAR:
    return true;
  case TY_TENSOR:
    return elem_root(t->tensor.elem)->classes & CLASS_FLOAT;
  case TY_LIFT:
    return may_have_floats(c, t->lift.type);
  case TY_CAST:
    return may_have_floats(c, t->cast.type);
  case TY_DATATYPE:
    if (t->data.type->con_count)
      return true; /* of the program: its constructors may have some */
    break;
  case TY_TUPLE:
  case TY_RECORD:
    break;
  case TY_FUN:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    return false;
  }
  for (uint32_t i = 0; i < t->count; i++)
    if (may_have_floats(c, t->args[i]))
      return true;
  return t->tag == TY_RECORD && t->record.rest &&
         may_have_floats(c, t->record.rest);
}

void report_no_floats(Checker *c) {
  for (uint32_t i = 0; i < c->notes.differentiated.len; i++) {
    const Differentiated *d = &c->notes.differentiated.at[i];
    if (may_have_floats(c, d->type))
      continue;
    Diag *w = warning_at(c, 405, d->span,
                         "nothing in the argument of %s is a float: the "
                         "gradient is the argument itself",
                         d->callee ? d->callee : "this function");
    w->primary_label = ty_text(c, d->type);
  }
}

static void check_arg(Application *k, QueuedArg *g) {
  Checker *c = k->c;
  Origin *o = origin_new(c, ORIGIN_ARG, arg_span(k->e, g->arg->expr));
  o->subject = k->name;
  o->prim = k->prim;
  o->number = g->number;
  o->arg.label = g->arg->label;
  o->expr = g->arg->expr;
  o->arg.callee = k->head;
  o->arg.fun_type = k->fun_type;
  o->arg.args = k->args;
  o->arg.arg_count = k->count;
  o->arg.is_loop_state = is_loop_state(k, g->expected);
  o->arg.recursive_callee = recursive_callee(c, k, o);
  Origin *outer = c->inference.callback;
  if (o->expr->kind == EX_FN)
    c->inference.callback = o;
  if (k->has_curried_function ||
      (g->is_differentiated &&
       error_reported_at(c, k->reported, k->head->span, k->args)))
    *g->slot = check(c, g->arg->expr, ty_meta(c), o); /* the same mistake */
  else if (g->is_differentiated)
    *g->slot = check_differentiated(k, g, o);
  else
    *g->slot = check(c, g->arg->expr, g->expected, o);
  c->inference.callback = outer;
}

/* Checks queued arguments.  Functions come last, when their parameter types are
   known. */
static void check_queued_args(Application *k) {
  for (uint32_t i = 0; i < k->queue.len; i++)
    note_differentiated(k, &k->queue.at[i]);
  for (uint32_t i = 0; i < k->queue.len; i++)
    if (!is_checked_last(k, &k->queue.at[i]))
      check_arg(k, &k->queue.at[i]);
  for (uint32_t i = 0; i < k->queue.len; i++)
    if (is_checked_last(k, &k->queue.at[i]))
      check_arg(k, &k->queue.at[i]);
  for (uint32_t i = 0; i < k->queue.len; i++)
    if (k->queue.at[i].result)
      check_differentiated_result(k->c, &k->queue.at[i]);
  k->queue.len = 0;
}

static void queue_arg(Application *k, Arg *a, Type *expected, uint32_t number) {
  Core **slot = NEW(k->c->arena, Core *);
  *slot = NULL;
  VEC_PUSH(k->c->arena, k->items, (Core *)slot);
  QueuedArg g = {.arg = a,
                 .expected = expected,
                 .slot = slot,
                 .number = number,
                 .is_differentiated = is_differentiated(k->c, expected)};
  VEC_PUSH(k->c->arena, k->queue, g);
}

static Arg *find_labelled_arg(Application *k, uint32_t from, uint32_t to,
                              Sym *label) {
  for (uint32_t i = from; i < to; i++)
    if (k->args[i].label == label)
      return &k->args[i];
  return NULL;
}

static void error_unknown_label(Application *k, Arg *a) {
  Checker *c = k->c;
  Diag *d = error_at(c, 319, a->label_span.file ? a->label_span : a->span,
                     "%s has no parameter ~%s",
                     k->name ? k->name : "this function", a->label->text);
  const SchemeInstance *of =
      k->fn->kind == CORE_VAR ? k->fn->checker_data : NULL;
  d->note = arena_printf(c->arena, "its type is %s",
                         of ? scheme_text(c, of->scheme)
                            : ty_text(c, k->remaining_type));
  suggest(c, d,
          (Suggestion){
              .kind = SUGGEST_LABEL, .args = a, .type = k->remaining_type});
}

/* Returns true after an error if the function has no parameter with one of
   these labels. */
static bool has_unknown_label(Application *k, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; i++) {
    bool found = false;
    for (Type *u = ty_norm(k->c, k->remaining_type);
         u->tag == TY_FUN && u->fun.label; u = ty_norm(k->c, u->fun.result))
      found |= u->fun.label == k->args[i].label;
    if (!found) {
      error_unknown_label(k, &k->args[i]);
      return true;
    }
  }
  return false;
}

/* x[0], as an index is written in other languages. */
static bool is_bracket_call(const Application *k) {
  const Expr *a = k->args[0].expr;
  return a->kind == EX_BRACKET && k->fn->span.end == a->span.start;
}

/* A hint for the application of a value that is not a function. */
static const char *hint_not_function(const Application *k) {
  const Expr *a = k->args[0].expr;
  if (a->kind == EX_NUM && a->num[0] == '-')
    return "to subtract, put a space after the minus sign";
  if (is_bracket_call(k))
    return "to index, write a dot: `x.[i, j]`";
  if (k->head->kind == EX_NUM && k->head->span.end <= a->span.start)
    return a->kind == EX_NUM ? "separate elements by commas: `[1, 2]`"
                             : "to multiply, write `2 * x`";
  return NULL;
}

/* f"...", where f is not defined. */
static bool is_format_string(Checker *c, const Arg *args, uint32_t count) {
  const Expr *f = args[0].expr;
  return count > 1 && f->kind == EX_ID && strcmp(f->id->text, "f") == 0 &&
         args[1].expr->kind == EX_STRING &&
         args[1].expr->span.start == f->span.end && !is_defined_name(c, f->id);
}

/* Words of other languages between operands look like arguments.  Reports each
   undefined one; the call is then ignored. */
static bool has_foreign_word(Checker *c, Arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const Expr *a = args[i].expr;
    if (args[i].label || (!undefined_foreign_word(c, a) &&
                          !is_format_string(c, args + i, count - i)))
      continue;
    Type *t;
    infer(c, args[i].expr, &t);
    return true;
  }
  return false;
}

static bool has_error_arg(const Arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (args[i].expr->kind == EX_ERROR)
      return true;
  return false;
}

/* Labelled arguments and the positional argument after them, if any. */
typedef struct ArgGroup {
  uint32_t first, last; /* labelled */
  bool positional;
} ArgGroup;

static ArgGroup next_arg_group(const Application *k, uint32_t first) {
  uint32_t last = first;
  while (last < k->count && k->args[last].label)
    last++;
  return (ArgGroup){first, last, last < k->count};
}

static void warn_bracket_call(Application *k, Type *callee, ArgGroup p) {
  Checker *c = k->c;
  if (p.first || !is_bracket_call(k) || !k->name)
    return;
  Span span = span_join(k->fn->span, k->args[0].span);
  Diag *d = warning_at(c, 412, span, "this calls %s; it is no index", k->name);
  d->help = "for an element, write a dot, as in `x.[0]`; for a call, write a "
            "space, as in `f [1, 2]`";
  VEC_PUSH(c->arena, c->inference.bracket_calls, ((BracketCall){callee, d}));
}

/* Unifies an unknown type with a function of these arguments.  NULL if the type
   must be data. */
static Type *unify_with_arrow(Application *k, Type *t, ArgGroup p) {
  Checker *c = k->c;
  Type *r = ty_meta(c), *f = NULL;
  if (p.positional)
    f = ty_fun(c, ty_meta(c), r, effect_var(c));
  for (uint32_t i = p.last; i-- > p.first;) {
    f = ty_fun(c, ty_meta(c), f ? f : r, effect_var(c));
    f->fun.label = k->args[i].label;
  }
  if (!unify(c, t, f, origin_new(c, ORIGIN_ARG, k->fn->span)))
    return NULL;
  warn_bracket_call(k, f, p);
  return f;
}

/* Reports f x y where f expects (x, y). */
static bool error_expects_tuple(Application *k) {
  Checker *c = k->c;
  Type *fun_type = ty_norm(c, k->fun_type);
  Type *param =
      fun_type->tag == TY_FUN ? ty_norm(c, fun_type->fun.param) : NULL;
  if (!param || fun_type->fun.label || param->tag != TY_TUPLE ||
      param->count != k->count)
    return false;
  for (uint32_t i = 0; i < k->count; i++)
    if (k->args[i].label)
      return false;
  Span span = span_join(k->args[0].span, k->args[k->count - 1].span);
  Diag *d = error_at(c, 322, span, "%s takes one tuple; found %u arguments",
                     k->name ? k->name : "this function", k->count);
  d->note = arena_printf(c->arena, "%s : %s", k->name ? k->name : "its type",
                         ty_text(c, fun_type));
  suggest(c, d,
          (Suggestion){
              .kind = SUGGEST_TUPLE, .args = k->args, .arg_count = k->count});
  k->queue.len = 0;
  return true;
}

/* Reports f x ~label:y where x completes the call. */
static bool error_label_after_positional(Application *k, uint32_t first) {
  Checker *c = k->c;
  uint32_t known = 0;
  for (uint32_t i = first; i < k->count; i++)
    for (Type *t = ty_norm(c, k->fun_type); t->tag == TY_FUN;
         t = ty_norm(c, t->fun.result))
      known += t->fun.label && t->fun.label == k->args[i].label;
  if (known != k->count - first)
    return false;
  Span span = span_join(k->args[first].span, k->args[k->count - 1].span);
  Diag *d = error_at(c, 322, span,
                     "~%s comes after an argument without a "
                     "label",
                     k->args[first].label->text);
  d->help = "labelled arguments come before the others";
  suggest(c, d,
          (Suggestion){.kind = SUGGEST_LABELS_FIRST,
                       .args = k->args,
                       .arg_count = k->count,
                       .first = first});
  return true;
}

static bool takes_axis(const Application *k) {
  const Type *t = ty_root(k->fun_type);
  while (t->tag == TY_FUN &&
         !(t->fun.label && strcmp(t->fun.label->text, "axis") == 0))
    t = ty_root(t->fun.result);
  return t->tag == TY_FUN;
}

/* True if e is a number that may be an axis of a tensor of type t. */
static bool is_axis_of(Checker *c, const Expr *e, Type *t) {
  if (e->kind != EX_NUM || e->is_float)
    return false;
  if (!t || t->tag != TY_TENSOR)
    return true;
  const Shape *s = shape_norm(c, t->tensor.shape);
  long long axis = strtoll(e->num, NULL, 0);
  return !shape_has_known_rank(s) ||
         (-(long long)s->len <= axis && axis < (long long)s->len);
}

/* The help for an argument after the tensor of a reduction: sum x 0, max a b.
 */
static const char *hint_reduction(const Application *k) {
  Type *first = k->args[0].expr->inferred_type;
  const Expr *last = k->args[k->count - 1].expr;
  first = first ? ty_norm(k->c, first) : NULL;
  if (!k->name || !takes_axis(k))
    return NULL;
  if (k->count == 2 && is_axis_of(k->c, last, first))
    return arena_printf(
        k->c->arena, "the axis is a labelled argument: write `%s ~axis:%s x`",
        k->name, last->num);
  return prim_is_extreme(k->prim) /* max: maximum */
             ? arena_printf(k->c->arena, "for two values, write `%simum a b`",
                            prim_info[k->prim].name)
             : NULL;
}

static bool begins_line(Checker *c, Span span) {
  const Source *source = sources_get(c->sources, span.file);
  uint32_t at = span.start;
  while (at && (source->text[at - 1] == ' ' || source->text[at - 1] == '\t'))
    at--;
  return at && source->text[at - 1] == '\n';
}

/* The help for the first superfluous argument. */
static const char *hint_superfluous(const Application *k, uint32_t first) {
  const Expr *e = k->args[first].expr, *before = k->args[first - 1].expr;
  const char *reduction = hint_reduction(k);
  if (reduction)
    return reduction;
  if (before->span.end == e->span.start && e->kind == EX_BRACKET)
    return "to index, write a dot: `x.[i, j]`";
  if (before->span.end == e->span.start && before->kind == EX_ID)
    return arena_printf(
        k->c->arena, "for a call as an argument, write parentheses: `(%s x)`",
        before->id->text);
  if (begins_line(k->c, e->span) && !begins_line(k->c, before->span))
    return "to evaluate one after the other, write a sequence: `(a; b)`";
  return k->prim == PRIM_PRINT
             ? "to print several values, write a tuple: `print (a, b)`"
             : NULL;
}

/* True if the place lies in an argument of a call with a reported
   contradiction. */
static bool is_in_reported_call(const Checker *c, Span place) {
  for (uint32_t i = 0; i < c->solver.contradicted.len; i++) {
    const Origin *o = c->solver.contradicted.at[i];
    for (uint32_t j = 0; o->kind == ORIGIN_ARG && j < o->arg.arg_count; j++)
      if (span_is_within(place, o->arg.args[j].expr->span))
        return true;
  }
  return false;
}

static void error_not_function(Application *k, Type *t, uint32_t first) {
  Checker *c = k->c;
  bool is_stacked = t->tag == TY_VAR && t->var->is_stackable;
  if (is_stacked && is_in_reported_call(c, k->fn->span))
    return;
  if (first == 0) {
    Diag *d = error_at(c, 321, k->fn->span, "%s is not a function",
                       k->name ? k->name : "this");
    d->note = is_stacked
                  ? "it is a part of a tensor, or a structure of such parts"
                  : arena_printf(c->arena, "it is %s", ty_text(c, t));
    d->help = hint_not_function(k);
    return;
  }
  if (error_expects_tuple(k) || error_label_after_positional(k, first))
    return;
  check_queued_args(k);
  if (error_reported_at(c, k->reported, k->head->span, k->args))
    return;
  Span span = span_join(k->args[first].span, k->args[k->count - 1].span);
  Diag *d = error_at(c, 322, span, "too many arguments for %s",
                     k->name ? k->name : "this function");
  d->note = arena_printf(c->arena, "its result is %s",
                         ty_text(c, ty_forget_singletons(c, t)));
  d->help = hint_superfluous(k, first);
}

static void error_missing_label(Application *k, Type *t, uint32_t last) {
  Checker *c = k->c;
  Diag *d = error_at(c, 323, k->fn->span, "the argument ~%s is missing",
                     t->fun.label->text);
  if (find_labelled_arg(k, last, k->count, t->fun.label))
    d->help = "labelled arguments come before the others";
  d->note = arena_printf(c->arena, "%s : %s", k->name ? k->name : "its type",
                         ty_text(c, k->remaining_type));
}

/* Adds an argument that is not written. */
static void push_item(Application *k, Core *core) {
  Core **slot = NEW(k->c->arena, Core *);
  *slot = core;
  VEC_PUSH(k->c->arena, k->items, (Core *)slot);
}

/* Adds the default of a parameter. */
static void push_default(Application *k, Type *t) {
  Checker *c = k->c;
  if (t->fun.default_type) {
    Origin *o = origin_new(c, ORIGIN_DEFAULT, k->fn->span);
    o->subject = k->name;
    if (!unify(c, t->fun.param, t->fun.default_type, o))
      report_type_mismatch(c, t->fun.default_type, t->fun.param, o);
  }
  push_item(k, core_new(c, CORE_ABSENT, k->fn->span));
}

/* Applies the labelled parameters of *type. *type becomes the remaining
   type. */
static bool call_labels(Application *k, ArgGroup p, Type **type) {
  Checker *c = k->c;
  Type *t = *type;
  uint32_t used = 0;
  for (; t->tag == TY_FUN && t->fun.label; t = ty_norm(c, t->fun.result)) {
    Arg *a = find_labelled_arg(k, p.first, p.last, t->fun.label);
    if (a) {
      queue_arg(k, a, t->fun.param, 0);
      used++;
    } else if (!p.positional) {
      CoreParam param = {.var = var_new(c, t->fun.label, k->e->span, false)};
      VEC_PUSH(c->arena, k->unapplied_params, param);
      push_item(k, core_var(c, param.var, k->e->span));
    } else if (t->fun.optional) {
      push_default(k, t);
    } else {
      if (!has_unknown_label(k, p.first, p.last))
        error_missing_label(k, t, p.last);
      return false;
    }
  }
  *type = t;
  return used == p.last - p.first || !has_unknown_label(k, p.first, p.last);
}

/* Applies one group: labelled arguments and the positional one after them. */
static bool call_group(Application *k, uint32_t *next, uint32_t *number) {
  Checker *c = k->c;
  ArgGroup p = next_arg_group(k, *next);
  Type *t = ty_norm(c, k->remaining_type);
  if (t->tag == TY_VAR && !t->var->skolem) {
    check_queued_args(k);
    t = ty_norm(c, k->remaining_type);
  }
  Type *function =
      t->tag == TY_VAR && !t->var->skolem ? unify_with_arrow(k, t, p) : t;
  if (!function || function->tag != TY_FUN) {
    error_not_function(k, t, p.first);
    return false;
  }
  t = function;
  if (!call_labels(k, p, &t))
    return false;
  *next = p.last;
  if (!p.positional || t->tag == TY_VAR) {
    k->is_partial = !p.positional;
    k->remaining_type = t;
    for (uint32_t i = p.first; p.positional && i < p.last; i++)
      k->args[i].label = NULL;
    return true;
  }
  Arg *a = &k->args[p.last];
  if (t->tag != TY_FUN) {
    error_at(c, 322, a->span, "too many arguments for %s",
             k->name ? k->name : "this function");
    return false;
  }
  queue_arg(k, a, t->fun.param, ++*number);
  effect_subsume(c, t->fun.effect, c->inference.effect, k->fn->span, k->name);
  k->remaining_type = t->fun.result;
  *next = p.last + 1;
  return true;
}

/* f ~label:x without a positional argument is a function of the remaining
   parameters. */
static Core *partial_application(Application *k, Core *app) {
  Checker *c = k->c;
  if (!k->is_partial)
    return app;
  if (!k->unapplied_params.len)
    return app;
  Core *fn = core_items(c, CORE_LAM, app->span, 1, app);
  fn->params = k->unapplied_params.at;
  fn->param_count = k->unapplied_params.len;
  return fn;
}

/* The type of a partial application: parameters without an argument remain. */
static Type *partial_application_type(Application *k, Type *before) {
  Checker *c = k->c;
  Type *t = k->remaining_type;
  Type *labels[64];
  uint32_t n = 0;
  for (Type *u = ty_norm(c, before); u->tag == TY_FUN && u->fun.label && n < 64;
       u = ty_norm(c, u->fun.result)) {
    bool given = false;
    for (uint32_t i = 0; i < k->count; i++)
      given |= k->args[i].label == u->fun.label;
    if (!given)
      labels[n++] = u;
  }
  while (n--) {
    Type *f = ty_new(c, TY_FUN);
    *f = *labels[n];
    f->fun.result = t;
    t = f;
  }
  return t;
}

static Core *call_core(Application *k) {
  Checker *c = k->c;
  Core *app = core_new(c, CORE_APP, k->e->span);
  app->items = NEW_ARRAY(c->arena, Core *, k->items.len + 1);
  app->items[app->item_count++] = k->fn;
  for (uint32_t i = 0; i < k->items.len; i++) {
    Core *arg = *(Core **)k->items.at[i];
    app->items[app->item_count++] =
        arg ? arg : core_new(c, CORE_ERROR, k->e->span);
  }
  return app;
}

/* Warns about argmax and similar over an axis of size 1: the answer is always
   0, so probably the axes were confused. */
static void warn_axis_of_one(Checker *c, Application *k, Type *before) {
  for (Type *t = ty_norm(c, before); t->tag == TY_FUN;
       t = ty_norm(c, t->fun.result)) {
    Type *a = ty_norm(c, t->fun.param);
    int64_t n;
    if (a->tag != TY_AXIS)
      continue;
    Shape *r = shape_norm(c, a->axis[1]);
    if (r->len == 1 && r->axes[0].tag == SHAPE_DIM &&
        dim_is_int(r->axes[0].dim, &n) && n == 1)
      warning_at(c, 403, k->e->span, "%s over an axis of size 1 is always 0",
                 k->name)
          ->help = "to use another axis, give ~axis";
  }
}

static Core *infer_call(Application *k, Type **type) {
  Checker *c = k->c;
  uint32_t next = 0, number = 0;
  k->reported = c->solver.contradicted.len;
  Type *before = k->fun_type = k->remaining_type;
  while (next < k->count && !k->is_partial) {
    before = k->remaining_type;
    if (!call_group(k, &next, &number)) {
      check_queued_args(k);
      *type = ty_meta(c);
      return core_new(c, CORE_ERROR, k->e->span);
    }
  }
  check_queued_args(k);
  if (c->solver.progress && c->solver.pending.len)
    solve_pending(c);
  note_lifted_results_agree(c, k->fun_type, k->e->span);
  if (prim_is_arg_reduction(k->prim))
    warn_axis_of_one(c, k, before);
  Core *app = call_core(k);
  *type =
      k->is_partial ? partial_application_type(k, before) : k->remaining_type;
  if (error_reported_at(c, k->reported, k->head->span, k->args))
    *type = ty_meta(c); /* the result of an error has any type */
  if (k->fn->kind == CORE_PRIM && prim_is_map_like(k->prim))
    app->checker_data = k->remaining_type;
  app = partial_application(k, app);
  *type = ty_unpack(c, *type, &app);
  return app;
}

/* The head of nested applications and pipes, with all arguments. */
typedef struct Spine {
  Expr *head;
  VEC(Arg) args;
} Spine;

static void flatten_spine(Checker *c, Expr *e, Spine *s) {
  if (e->kind == EX_APP) {
    flatten_spine(c, e->arg[0], s);
    for (uint32_t i = 0; i < e->arg_count; i++)
      VEC_PUSH(c->arena, s->args, e->args[i]);
  } else {
    s->head = e;
  }
}

/* True if an error was reported at an argument, or at an item of one. */
static bool arg_error_reported(const Checker *c, uint32_t mark, const Expr *e,
                               const Spine *s) {
  for (uint32_t i = 0; i < s->args.len; i++) {
    const Expr *arg = s->args.at[i].expr;
    if (error_reported_at(c, mark, arg_span(e, arg), NULL))
      return true;
    for (uint32_t k = 0; arg->kind == EX_TUPLE && k < arg->item_count; k++)
      if (error_reported_at(c, mark, arg->items[k]->span, NULL))
        return true;
  }
  return false;
}

static const char *head_name(Checker *c, Expr *e) {
  if (e->kind == EX_ID)
    return e->id->text;
  if (e->kind == EX_FIELD && e->arg[0]->kind == EX_ID)
    return arena_printf(c->arena, "%s.%s", e->arg[0]->id->text, e->id->text);
  return NULL;
}

static Binding *head_binding(Checker *c, Expr *e) {
  if (e->kind == EX_ID)
    return lookup(c, NULL, e->id);
  if (e->kind == EX_FIELD && e->arg[0]->kind == EX_ID) {
    Binding *m = lookup(c, NULL, e->arg[0]->id);
    if (m && m->kind == BK_MODULE)
      return lookup(c, e->arg[0]->id, e->id);
  }
  return NULL;
}

static Expr *new_pipe_application(Checker *c, const Expr *e, Span input) {
  Expr *x = NEW(c->arena, Expr), *app = NEW(c->arena, Expr);
  *x = (Expr){.kind = EX_ID, .span = input};
  *app = (Expr){.kind = EX_APP, .span = e->arg[1]->span};
  app->arg[0] = e->arg[1];
  app->args = NEW(c->arena, Arg);
  app->args[0] = (Arg){.span = x->span, .expr = x};
  app->arg_count = 1;
  return app;
}

/* x names a value that is already checked: the input of a pipe. */
static Core *bind_pipe_input(Checker *c, Type *t, Expr *value, Expr *x) {
  Span span = value->span;
  Binding *b =
      binding_new(c, BK_VALUE, intern_string(c->interner, pipe_name), span);
  b->scheme = scheme_mono(c, t);
  b->value.var = var_new(c, NULL, span, false);
  b->value.expr = value;
  scope_push(c, b->name, b);
  x->id = b->name;
  return core_var(c, b->value.var, span);
}

static Core *infer_pipe(Checker *c, Expr *e, Type **type) {
  Type *t;
  Scope *saved = c->names.scope;
  Expr *left = e->arg[0];
  bool chain = left->kind == EX_BIN && left->op == BIN_PIPE;
  Core *value = chain ? infer_pipe(c, left, &t) : infer(c, left, &t);
  left->inferred_type = t;
  if (!e->desugared) /* all passes use the same (retracted_singletons) */
    e->desugared = new_pipe_application(c, e, left->span);
  Expr *app = e->desugared;
  Core *ref = bind_pipe_input(c, t, left, app->args[0].expr);
  Core *core = infer_app(c, app, type);
  app->inferred_type = *type;
  c->names.scope = saved;
  return core_let(c, ref->var, value, core);
}

/* f64 0.1 is rounded once, to f64, not to f32 first. */
static Core *typed_literal(Checker *c, Dtype dtype, Expr *e, Type **type) {
  if (e->kind != EX_NUM || dtype == DT_BOOL ||
      (e->is_float && !dtype_is_float(dtype)))
    return NULL;
  Core *core = infer(c, e, type);
  unify_elem(c, ty_root(*type)->tensor.elem, elem_fixed(c, dtype));
  return core;
}

/* Records the values of parameters if a function is applied directly. */
static void record_bound_values(Clause *k, const Arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count && i < k->param_count; i++)
    if (!args[i].label && !k->params[i].label && k->params[i].pat)
      k->params[i].pat->value = args[i].expr;
}

/* Warns about `f (x).[0]`, which indexes x.  Nobody needs these parentheses for
   that. */
static void warn_indexed_argument(Checker *c, const Arg *args, uint32_t n) {
  const Expr *e = n ? args[n - 1].expr : NULL;
  if (!e || e->kind != EX_INDEX || e->arg[0]->kind != EX_ID ||
      !e->arg[0]->parenthesized || e->parenthesized)
    return;
  warning_at(c, 410, e->span,
             "this indexes the argument, not the result of the call")
      ->help = "for the result, write `(f x).[0]`; for the argument, "
               "`f x.[0]`";
}

/* Reports `dim n` for a size n, and `dim x` without an axis; NULL for other
   arguments. */
static Core *infer_dim_without_axis(Checker *c, Expr *e, const Arg *args,
                                    uint32_t count, Type **type) {
  if (count != 1 || args[0].label || args[0].expr->kind != EX_ID ||
      args[0].expr->id == c->builtins.sym_all)
    return NULL;
  uint32_t errors = c->diags->errors;
  const char *name = args[0].expr->id->text;
  Core *core = infer(c, args[0].expr, type);
  Type *t = ty_norm(c, *type);
  if (c->diags->errors != errors)
    return core;
  if (t->tag != TY_TENSOR)
    return NULL;
  bool is_size = ty_singleton(c, t) != NULL;
  error_at(c, 317, args[0].expr->span, "the axis of `dim` is missing")->help =
      arena_printf(c->arena,
                   is_size ? "the size itself is `%s`" : "write `dim 0 %s`",
                   name);
  if (!is_size)
    *type = ty_meta(c);
  return is_size ? core : core_new(c, CORE_ERROR, e->span);
}

static Core *infer_spine(Checker *c, Expr *e, Type **type) {
  Spine s = {0};
  flatten_spine(c, e, &s);
  check_unique_labels(c, s.args.at, s.args.len);
  warn_indexed_argument(c, s.args.at, s.args.len);
  if (has_error_arg(s.args.at, s.args.len) ||
      has_foreign_word(c, s.args.at, s.args.len)) {
    *type = ty_meta(c);
    return core_new(c, CORE_ERROR, e->span);
  }
  Binding *b = head_binding(c, s.head);
  refs_add_labels(c, s.args.at, s.args.len, b);
  if (b && (b->kind == BK_PRIM || b->kind == BK_DTYPE))
    refs_add_binding(c, s.head->span, b, NULL);
  if (b && b->kind == BK_PRIM && b->prim == PRIM_DIM) {
    Core *core = infer_dim_without_axis(c, e, s.args.at, s.args.len, type);
    if (core)
      return core;
  }
  if (b && b->kind == BK_PRIM && (prim_info[b->prim].flags & PRIM_SPECIAL)) {
    uint32_t reported = c->solver.contradicted.len;
    Core *core = infer_special(c, e, b->prim, s.args.at, s.args.len, type);
    if (core && arg_error_reported(c, reported, e, &s))
      *type = ty_meta(c);
    if (core)
      return core;
  }
  Application k = {.c = c,
                   .e = e,
                   .head = s.head,
                   .name = head_name(c, s.head),
                   .args = s.args.at,
                   .count = s.args.len};
  k.prim = b && b->kind == BK_PRIM ? b->prim : PRIM_NONE;
  if (b && b->kind == BK_DTYPE && k.count == 1) {
    Core *literal = typed_literal(c, b->dtype, k.args[0].expr, type);
    if (literal)
      return literal;
  }
  c->inference.head = (ApplicationHead){s.head, k.args, k.count};
  if (s.head->kind == EX_FN)
    record_bound_values(s.head->clauses, k.args, k.count);
  k.fn = infer(c, s.head, &k.remaining_type);
  return infer_call(&k, type);
}

Core *infer_app(Checker *c, Expr *e, Type **type) {
  if (e->kind == EX_BIN)
    return infer_pipe(c, e, type);
  uint32_t mark = c->solver.serial;
  Core *core = infer_spine(c, e, type);
  runtime_checks_claim(c, core, mark, false);
  return core;
}
