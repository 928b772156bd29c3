/* Type inference of expressions, and their translation to core (bidirectional:
   infer and check). */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

enum { MAX_DEPTH = 2500 };

/* ---- literals ---- */

Core *infer_num(Checker *c, Expr *e, Type **type) {
  ElemVar *elem = elem_meta(c, e->is_float ? CLASS_FLOAT : CLASS_NUM);
  elem->default_preference = e->is_float ? PREFERS_F32 : PREFERS_INT;
  literal_note(c, elem, e->num, e->is_float);
  Dim *singleton = NULL;
  if (!e->is_float) {
    singleton = meta_integer(c, e->span);
    dim_as_var(singleton)->solution = dim_parse(c->dims, e->num);
    singleton = dim_as_var(singleton)->solution;
  }
  *type = ty_tensor(c, elem, shape_new(c, 0), singleton);
  Core *core = core_new(c, CORE_NUM, e->span);
  core->num = e->num;
  core->is_float = e->is_float;
  core->elem.var = elem;
  return core;
}

static Core *infer_string(Checker *c, Expr *e, Type **type) {
  *type = ty_string(c);
  Core *core = core_new(c, CORE_STRING, e->span);
  core->text = e->text;
  core->text_len = e->text_len;
  return core;
}

static void note_meta(void *arg, DimVar *v) {
  bool *found = arg;
  *found |= v->kind == DV_META && !v->solution && !v->unknown;
}

/* True if the type has an unsolved shape.  A branch or an element must not
   determine the shape of the others. */
bool type_has_unsolved_shape(Checker *c, Type *w) {
  w = ty_norm(c, w);
  bool unsolved = false;
  for (uint32_t i = 0; ty_has_args(w) && i < w->count && !unsolved; i++)
    unsolved = type_has_unsolved_shape(c, w->args[i]);
  if (w->tag != TY_TENSOR)
    return unsolved;
  Shape *s = shape_norm(c, w->tensor.shape);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      dim_each_var(s->axes[i].dim, note_meta, NULL, &unsolved);
    else
      unsolved |= s->axes[i].tag == SHAPE_SPLICE && !s->axes[i].var->skolem;
  return unsolved;
}

static Core *infer_seq(Checker *c, Expr **items, uint32_t n, Span span,
                       Type *expected, Type **type, Origin *o) {
  Core *core = core_new(c, CORE_SEQ, span);
  core->items = NEW_ARRAY(c->arena, Core *, n);
  core->item_count = n;
  for (uint32_t i = 0; i < n; i++) {
    Type *t;
    if (i + 1 == n && expected) {
      core->items[i] = check(c, items[i], expected, o);
      *type = expected;
    } else {
      core->items[i] = infer(c, items[i], &t);
      if (i + 1 == n)
        *type = t;
    }
  }
  return n == 1 ? core->items[0] : core;
}

/* ---- let ---- */

static Core *infer_let(Checker *c, Expr *e, Type *expected, Type **type,
                       Origin *o) {
  Scope *saved = c->names.scope;
  Assumption *assumptions = c->facts.assumptions;
  CoreDec **decs = NEW_ARRAY(c->arena, CoreDec *, e->dec_count);
  Scope **scopes = NEW_ARRAY(c->arena, Scope *, e->dec_count);
  for (uint32_t i = 0; i < e->dec_count; i++) {
    dec_infer(c, e->decs[i], false, &decs[i]);
    if (decs[i] && decs[i]->kind == CD_BIND && decs[i]->pat->kind == CP_VAR)
      decs[i]->pat->var->value = decs[i]->expr;
    scopes[i] = c->names.scope;
  }
  Core *core =
      infer_seq(c, e->items, e->item_count, e->span, expected, type, o);
  for (uint32_t i = e->dec_count; i-- > 0;) {
    CoreDec *d = decs[i];
    if (!d)
      continue;
    core = unpack_scope(c, scopes[i], i ? scopes[i - 1] : saved, core);
    if (d->kind == CD_EXPR) {
      core = core_items(c, CORE_SEQ, d->span, 2, d->expr, core);
    } else if (d->kind == CD_BIND && d->pat->kind == CP_VAR) {
      core = core_let(c, d->pat->var, d->expr, core);
    } else if (d->kind == CD_BIND) {
      Core *match = core_items(c, CORE_CASE, d->span, 1, d->expr);
      match->rules = NEW(c->arena, CoreRule);
      match->rules[0] = (CoreRule){d->pat, core};
      match->rule_count = 1;
      core = match;
    } else {
      Core *rec = core_new(c, CORE_LETREC, d->span);
      rec->vars = d->vars;
      rec->var_count = d->var_count;
      rec->items = NEW_ARRAY(c->arena, Core *, d->var_count + 1);
      rec->item_count = d->var_count + 1;
      for (uint32_t k = 0; k < d->var_count; k++)
        rec->items[k] = d->items[k];
      rec->items[d->var_count] = core;
      core = rec;
    }
  }
  c->names.scope = saved;
  if (!e->dec_count)
    c->facts.assumptions = assumptions;
  return core;
}

/* ---- ascription ---- */

static Core *infer_ascribe(Checker *c, Expr *e, Type **type) {
  Scope *mark = c->names.scope;
  Type *expected = annot_type(c, e->type, ANNOT_VAL);
  Origin *o = origin_new(c, ORIGIN_ANNOTATION, e->arg[0]->span);
  o->other_span = e->type->span;
  o->expr = e->arg[0];
  Type *w = ty_norm(c, expected);
  Core *core;
  if (w->tag == TY_TENSOR && !w->tensor.singleton) {
    Type *actual;
    uint32_t errors = c->diags->errors;
    core = e->arg[0]->kind == EX_FN || e->arg[0]->kind == EX_BRACKET
               ? check(c, e->arg[0], w, o)
               : infer(c, e->arg[0], &actual);
    if (e->arg[0]->kind != EX_FN && e->arg[0]->kind != EX_BRACKET &&
        errors == c->diags->errors) {
      core = subsume(c, core, actual, w, o);
      actual = ty_norm(c, actual);
      if (actual->tag == TY_TENSOR && actual->tensor.singleton)
        expected = ty_tensor(c, w->tensor.elem, w->tensor.shape,
                             actual->tensor.singleton);
    }
  } else {
    core = check(c, e->arg[0], expected, o);
  }
  bind_discovered_sizes(c, mark, expected, &core);
  *type = expected;
  return core;
}

/* ---- the two directions ---- */

static Core *infer_typed_hole(Checker *c, Expr *e, Type *expected,
                              Type **type) {
  *type = expected ? expected : ty_meta(c);
  Diag *d =
      error_at(c, 330, e->span, "found hole `_` of type %s", ty_text(c, *type));
  d->help = "replace _ with an expression of this type";
  return core_new(c, CORE_ERROR, e->span);
}

/* Builds a `fn` without body; all its spans are that of e. */
static Expr *synth_fn(Checker *c, const Expr *e, uint32_t param_count,
                      Expr *body) {
  Clause *clause = NEW(c->arena, Clause);
  *clause = (Clause){.span = e->span, .param_count = param_count, .body = body};
  clause->params = NEW_ARRAY(c->arena, Param, param_count);
  Expr *fn = NEW(c->arena, Expr);
  *fn = (Expr){
      .kind = EX_FN, .span = e->span, .clauses = clause, .clause_count = 1};
  return fn;
}

/* Names a parameter.  Returns an expression that uses it. */
static Expr *synth_param(Checker *c, Expr *fn, uint32_t i, const char *name) {
  Pat *p = NEW(c->arena, Pat);
  Expr *x = NEW(c->arena, Expr);
  Sym *id = intern_string(c->interner, name);
  *p = (Pat){.kind = PAT_VAR, .span = fn->span, .id = id};
  *x = (Expr){.kind = EX_ID, .span = fn->span, .id = id};
  fn->clauses->params[i] = (Param){.span = fn->span, .pat = p};
  return x;
}

/* The expression with n parameters that an earlier pass built for e, or NULL.
 */
static Expr *expansion_of_last_pass(Checker *c, const Expr *e, uint32_t n) {
  Expr *fn = map_get(&c->inference.expansions, e);
  return fn && fn->clauses->param_count == n ? fn : NULL;
}

/* Eta expansion of `f` to fn a b => f a b, so that each call instantiates f
   anew. */
static Expr *eta_expand(Checker *c, Expr *e, Type *expected) {
  uint32_t n = 0;
  for (Type *t = expected; t->tag == TY_FUN; t = ty_norm(c, t->fun.result))
    n++;
  Expr *fn = expansion_of_last_pass(c, e, n);
  if (fn)
    return fn;
  Expr *body = NEW(c->arena, Expr);
  fn = synth_fn(c, e, n, body);
  *body = (Expr){.kind = EX_APP, .span = e->span, .arg = {e}, .arg_count = n};
  body->args = NEW_ARRAY(c->arena, Arg, n);
  for (uint32_t i = 0; i < n; i++) { /* names that differ from f */
    Expr *x = synth_param(c, fn, i, arena_printf(c->arena, "%u", i));
    body->args[i] = (Arg){.span = e->span, .expr = x};
  }
  map_put(&c->inference.expansions, e, fn);
  return fn;
}

/* (op ::) is fn a b => a :: b. */
static Expr *operator_as_fn(Checker *c, Expr *e) {
  Expr *fn = expansion_of_last_pass(c, e, 2);
  if (fn)
    return fn;
  Expr *body = NEW(c->arena, Expr);
  fn = synth_fn(c, e, 2, body);
  *body = (Expr){.kind = EX_BIN, .span = e->span, .op = e->op};
  body->arg[0] = synth_param(c, fn, 0, "a");
  body->arg[1] = synth_param(c, fn, 1, "b");
  map_put(&c->inference.expansions, e, fn);
  return fn;
}

static Core *infer_op(Checker *c, Expr *e, Type **type) {
  const char *name = arena_printf(c->arena, "op %s", binop_text[e->op]);
  PrimId id = prim_by_name(name);
  if (id == PRIM_NONE)
    return infer_fn(c, operator_as_fn(c, e), NULL, type);
  return instantiate_binding(c, binding_of_prim(c, id), e->span, type,
                             origin_new(c, ORIGIN_OPERATOR, e->span));
}

static Core *infer_by_kind(Checker *c, Expr *e, Type *expected, Type **type) {
  switch (e->kind) {
  case EX_ID:
    return infer_id(c, e, type);
  case EX_CON:
    return infer_con(c, e, type);
  case EX_NUM:
    return infer_num(c, e, type);
  case EX_STRING:
    return infer_string(c, e, type);
  case EX_HOLE:
    return infer_typed_hole(c, e, NULL, type);
  case EX_TUPLE:
    return infer_tuple(c, e, NULL, type);
  case EX_SEQ:
    return infer_seq(c, e->items, e->item_count, e->span, NULL, type, NULL);
  case EX_ASCRIBE:
    return infer_ascribe(c, e, type);
  case EX_OP:
    return infer_op(c, e, type);
  case EX_BRACKET:
    return infer_bracket(c, e, type);
  case EX_LIST:
    return infer_list(c, e, NULL, type);
  case EX_RECORD:
    return infer_record(c, e, NULL, type);
  case EX_RECORD_UPDATE:
    return infer_with(c, e, type);
  case EX_LET:
    return infer_let(c, e, NULL, type, NULL);
  case EX_FN:
    return infer_fn(c, e, NULL, type);
  case EX_CASE:
    return infer_case(c, e, NULL, type, NULL);
  case EX_IF:
    return infer_if(c, e, NULL, type, NULL);
  case EX_FOR:
    return infer_for(c, e, expected, type);
  case EX_BIN:
    if (e->op == BIN_PIPE)
      return infer_app(c, e, type);
    return infer_operator(c, e, expected, type);
  case EX_NEG:
    return infer_operator(c, e, expected, type);
  case EX_APP:
    return infer_app(c, e, type);
  case EX_FIELD:
    return infer_field(c, e, type);
  case EX_INDEX:
    return infer_index(c, e, type);
  case EX_ERROR:
    return core_error(c, e->span, type);
  }
  return core_error(c, e->span, type);
}

static bool too_deep(Checker *c, Span span) {
  if (c->inference.depth < MAX_DEPTH)
    return false;
  error_at(c, 315, span, "this expression is nested too deeply")->help =
      "give names to its parts with `val`";
  return true;
}

Core *infer(Checker *c, Expr *e, Type **type) {
  return infer_expecting(c, e, NULL, type);
}

Core *infer_expecting(Checker *c, Expr *e, Type *expected, Type **type) {
  if (too_deep(c, e->span))
    return core_error(c, e->span, type);
  c->inference.depth++;
  uint32_t mark = c->solver.serial;
  Core *core = infer_by_kind(c, e, expected, type);
  e->inferred_type = *type;
  runtime_checks_claim(c, core, mark, false);
  if (ty_root(*type)->tag != TY_FUN) /* called, or handed on by `check` */
    dependent_note_value(c, core, *type);
  c->inference.depth--;
  return core;
}

static Core *check_by_kind(Checker *c, Expr *e, Type *expected, Origin *o) {
  Type *t, *w = ty_norm(c, expected);
  if (w->tag == TY_AXIS)
    return check_axis(c, e, w, o);
  if (w->tag == TY_KEEP)
    return check_keep(c, e, w, o);
  if (w->tag == TY_SHAPE && e->kind == EX_BRACKET)
    return check_shape_bracket(c, e, w, o);
  if ((e->kind == EX_ID || e->kind == EX_FIELD) &&
      fun_takes_unknown_sizes(c, w))
    e = eta_expand(c, e, w);
  Core *core;
  uint32_t mark = c->solver.serial, errors = c->diags->errors;
  Type *branch_type = type_has_unsolved_shape(c, w) ? NULL : w;
  switch (e->kind) {
  case EX_FN:
    core = infer_fn(c, e, w, &t);
    break;
  case EX_IF:
    core = infer_if(c, e, branch_type, &t, o);
    break;
  case EX_CASE:
    core = infer_case(c, e, branch_type, &t, o);
    break;
  case EX_LET:
    core = infer_let(c, e, w->tag == TY_VAR ? NULL : w, &t, o);
    break;
  case EX_SEQ:
    core = infer_seq(c, e->items, e->item_count, e->span,
                     w->tag == TY_VAR ? NULL : w, &t, o);
    break;
  case EX_TUPLE:
    core = infer_tuple(c, e, w, &t);
    break;
  case EX_LIST:
    core = infer_list(c, e, w, &t);
    break;
  case EX_RECORD:
    core = infer_record(c, e, w, &t);
    break;
  case EX_HOLE:
    core = infer_typed_hole(c, e, w, &t);
    break;
  default:
    core = infer_by_kind(c, e, w, &t);
    break;
  }
  e->inferred_type = t;
  runtime_checks_claim(c, core, mark, false);
  if (t == expected || ty_root(t) == w || c->diags->errors > errors) {
    dependent_note_value(c, core, t);
    return core; /* report one mistake only once */
  }
  mark = c->solver.serial;
  core = subsume(c, core, t, w, o);
  dependent_note_value(c, core, t);
  dependent_note_value(c, core, w);
  if (o->kind != ORIGIN_ARG) /* origins of arguments belong to the call */
    runtime_checks_claim(c, core, mark, true);
  return core;
}

/* An annotation applies to each branch of an expression and to the last part of
   a `let`: messages blame that part. */
static Origin *origin_of_part(Checker *c, Origin *o, Expr *e) {
  if (!o->expr)
    o->expr = e;
  if (o->expr == e ||
      (o->kind != ORIGIN_RESULT && o->kind != ORIGIN_ANNOTATION))
    return o;
  Origin *part = NEW(c->arena, Origin);
  *part = *o;
  part->expr = e;
  part->span = e->span;
  return part;
}

Core *check(Checker *c, Expr *e, Type *expected, Origin *o) {
  if (too_deep(c, e->span))
    return core_new(c, CORE_ERROR, e->span);
  c->inference.depth++;
  o = origin_of_part(c, o, e);
  Core *core = check_by_kind(c, e, expected, o);
  c->inference.depth--;
  return core;
}
