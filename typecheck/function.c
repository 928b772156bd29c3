/* Functions: clauses, parameters with labels and defaults, and the `case` over
   the patterns of several clauses. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"

typedef struct FunParam {
  Type *type;
  Var *var;
  Type *default_type;
  Core *default_core;
  Scope *scope; /* scope of the default */
} FunParam;

typedef struct Function {
  Clause *clauses;
  uint32_t count, arity;
  Span span;
  FunParam *params;
  CoreRule *rules; /* one per clause */
  /* parameters of each clause as a tuple; NULL after an error */
  CorePat **pats;
  Branch *branches; /* without a type where the result type is known */
  Type *result;
  bool result_open;    /* only the bodies determine the result type */
  Type *joined_result; /* of the bodies, or NULL */
} Function;

/* The type for checking a default: the parameter's type, with free variables
   for sizes that an argument may choose. */
static Type *default_expected_type(Checker *c, Type *t) {
  t = ty_norm(c, t);
  Shape *any[3];
  for (int i = 0; i < 3; i++)
    any[i] = shape_meta(c);
  switch (t->tag) {
  case TY_TENSOR:
    return ty_tensor(c, t->tensor.elem, t->tensor.shape,
                     t->tensor.singleton ? meta_integer(c, (Span){0}) : NULL);
  case TY_AXIS: {
    Shape *r = shape_norm(c, t->axis[1]);
    return ty_axis(c, any[0], shape_has_known_rank(r) ? r : any[1], any[2]);
  }
  case TY_KEEP: {
    Type *k = ty_new(c, TY_KEEP);
    k->axis[0] = any[0];
    k->axis[1] = t->axis[1];
    return k;
  }
  case TY_SHAPE:
    return ty_shape(c, any[0]);
  case TY_VAR:
  case TY_FUN:
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATATYPE:
  case TY_LIFT:
  case TY_CAST:
    break;
  }
  return t;
}

static bool is_simple_pattern(const Pat *p) {
  while (p->kind == PAT_ASCRIBE)
    p = p->args[0];
  return p->kind == PAT_VAR || p->kind == PAT_WILD;
}

/* Names a size after the parameter that supplies it. */
static void name_singleton(Checker *c, Pat *p, Type *t) {
  while (p->kind == PAT_ASCRIBE)
    p = p->args[0];
  t = ty_norm(c, t);
  if (p->kind != PAT_VAR || t->tag != TY_TENSOR || !t->tensor.singleton)
    return;
  DimVar *v = dim_as_var(dim_resolve(c->dims, t->tensor.singleton));
  if (v && v->kind == DV_META && !v->name && !v->unknown)
    v->name = p->id;
}

static void infer_default(Checker *c, Param *p, FunParam *f) {
  Scope *saved = c->names.scope;
  c->names.scope = f->scope;
  f->default_type = default_expected_type(c, f->type);
  Origin *o = origin_new(c, ORIGIN_DEFAULT, p->default_value->span);
  o->subject = p->label ? p->label->text : NULL;
  o->expr = p->default_value;
  if (ty_norm(c, f->type)->tag == TY_VAR) {
    Type *t;
    f->default_core = infer(c, p->default_value, &t);
    Type *r = default_expected_type(c, t);
    unify(c, f->type, r, o);
    f->default_type = t;
  } else {
    f->default_core = check(c, p->default_value, f->default_type, o);
  }
  c->names.scope = saved;
}

/* Takes parameter types from the expected type, as far as it is a function. */
static void make_params(Checker *c, Function *f, Type *expected,
                        Type *expected_result) {
  Type *w = expected ? ty_norm(c, expected) : NULL;
  f->params = NEW_ARRAY(c->arena, FunParam, f->arity);
  for (uint32_t i = 0; i < f->arity; i++) {
    Param *p = &f->clauses[0].params[i];
    bool fit = w && w->tag == TY_FUN && w->fun.label == p->label;
    f->params[i].type = fit ? w->fun.param : ty_meta(c);
    f->params[i].var = var_new(c, NULL, p->span, false);
    w = fit ? ty_norm(c, w->fun.result) : NULL;
  }
  f->result = expected_result ? expected_result : w ? w : ty_meta(c);
  f->result_open = !expected_result && ty_norm(c, f->result)->tag == TY_VAR;
}

/* Returns false after an error: the numbers of parameters differ. */
static bool check_like_first_clause(Checker *c, const Function *f, uint32_t i) {
  const Clause *k = &f->clauses[i];
  if (k->param_count != f->arity) {
    error_at(c, 347, k->span,
             "this clause has %u parameter%s; the first clause has %u",
             k->param_count, k->param_count == 1 ? "" : "s", f->arity)
        ->help = "all clauses need the same number of parameters: write `_` "
                 "for an unused one";
    return false;
  }
  for (uint32_t j = 0; j < f->arity; j++)
    if (k->params[j].label != f->clauses[0].params[j].label)
      error_at(c, 348, k->params[j].span,
               "all clauses need the labels of the first clause");
  return true;
}

static CorePat *clause_params(Checker *c, const Function *f, Clause *k) {
  CorePat *tuple = corepat_new(c, CP_TUPLE, k->span);
  tuple->arg_count = k->param_count;
  tuple->args = NEW_ARRAY(c->arena, CorePat *, k->param_count);
  for (uint32_t i = 0; i < k->param_count; i++) {
    Param *p = &k->params[i];
    Type *type = f->params[i].type;
    if (k == f->clauses)
      f->params[i].scope = c->names.scope;
    if (p->label)
      refs_add_name(c, REF_LABEL, p->span, p->label,
                    f->clauses[0].params[i].span, type);
    if (p->type) {
      Type *expected = annot_type(c, p->type, ANNOT_PARAM);
      Origin *o = origin_new(c, ORIGIN_ANNOTATION, p->span);
      if (!unify(c, type, expected, o))
        report_type_mismatch(c, type, expected, o);
    }
    tuple->args[i] = infer_pattern(c, p->pat, type, false);
  }
  return tuple;
}

static Type **param_types(Checker *c, const Function *f) {
  Type **types = NEW_ARRAY(c->arena, Type *, f->arity);
  for (uint32_t i = 0; i < f->arity; i++)
    types[i] = f->params[i].type;
  return types;
}

/* *type: what this clause says about the result, or NULL. */
static Core *clause_body(Checker *c, const Function *f, Clause *k,
                         Type **type) {
  *type = NULL;
  if (k->result || !f->result_open) {
    Origin *o = origin_new(c, ORIGIN_RESULT, k->body->span);
    o->expr = k->body;
    Origin *callback = c->inference.callback;
    if (callback && callback->expr->clauses == f->clauses)
      o->callback = callback;
    if (!k->result)
      return check(c, k->body, f->result, o);
    o->other_span = k->result->span;
    *type = annot_type(c, k->result, ANNOT_RESULT);
    return check(c, k->body, *type, o);
  }
  uint32_t mark = c->dims->next_id;
  Core *body = infer(c, k->body, type);
  if (f->count > 1)
    *type = ty_forget_local_sizes(c, *type, mark, FORGET_NEW);
  return body;
}

/* The assumptions of the clause itself are removed at its end.  Those of the
   failed match stay. */
static void infer_clause(Checker *c, Function *f, uint32_t i) {
  Clause *k = &f->clauses[i];
  Type **types = param_types(c, f);
  Branch *b = &f->branches[i];
  Scope *saved = c->names.scope;
  Assumption *assumptions = c->facts.assumptions;
  uint32_t serial = c->solver.serial, part = control_region_begin(c);
  check_unique_params(c, k);
  uint32_t errors = c->diags->errors;
  f->pats[i] = clause_params(c, f, k);
  if (c->diags->errors == errors)
    check_sizes_determined(c, f->arity, types, c->names.scope, saved);
  annot_givens(c, k->given, ANNOT_PARAM, true);
  clause_assume(c, k, types, true);
  b->assumptions = c->facts.assumptions;
  Core *body = clause_body(c, f, k, &b->type);
  body = unpack_scope(c, c->names.scope, saved, body);
  runtime_checks_claim(c, body, serial, false);
  f->rules[i].pat = f->pats[i];
  f->rules[i].body = body;
  c->names.scope = saved;
  c->facts.assumptions = assumptions;
  clause_assume(c, k, types, false);
  control_region_end(c, part);
}

static void join_results(Checker *c, Function *f) {
  bool any = false;
  for (uint32_t i = 0; i < f->count; i++) {
    f->branches[i].unreachable = !f->branches[i].type;
    any |= f->branches[i].type != NULL;
  }
  Assumption *around = c->facts.assumptions;
  if (any)
    f->joined_result =
        join_branches(c, f->branches, f->clauses, f->count, around);
  c->facts.assumptions = around;
}

static bool shapes_differ(Checker *c, Type *a, Type *b) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  return a->tag == TY_TENSOR && b->tag == TY_TENSOR &&
         !shape_equal(c, shape_norm(c, a->tensor.shape),
                      shape_norm(c, b->tensor.shape));
}

/* The origin of the result type.  The body may have another result than its
   recursive calls; an argument whose size differs from its parameter explains
   that.  In large groups, only the function's own calls (from `own` on) are
   examined. */
static Origin *result_origin(Checker *c, const Function *f, uint32_t own) {
  enum { LARGE_GROUP_CALLS = 256 };
  Origin *o = origin_new(c, ORIGIN_RESULT, f->span);
  uint32_t count =
      c->inference.binding_group ? c->inference.binding_group->calls.len : 0;
  for (uint32_t i = count > LARGE_GROUP_CALLS ? own : 0; i < count; i++) {
    const Origin *call = c->inference.binding_group->calls.at[i];
    Span name = call->arg.recursive_callee->span;
    if (name.file != f->span.file || name.start != f->span.start ||
        !call->actual || !call->expected ||
        !shapes_differ(c, call->actual, call->expected))
      continue;
    *o = *call;
    break;
  }
  return o;
}

/* Infers in the scope of the function.  Returns the effect of its bodies. */
static Effect *infer_all_clauses(Checker *c, Function *f) {
  uint32_t calls =
      c->inference.binding_group ? c->inference.binding_group->calls.len : 0;
  for (uint32_t i = 0; i < f->arity; i++)
    VEC_PUSH(c->arena, c->inference.params,
             ((ParamType){f->params[i].type, c->dims->next_id}));
  Effect *outer = c->inference.effect, *effect = effect_var(c);
  c->inference.effect = effect;
  Assumption *around = c->facts.assumptions;
  for (uint32_t i = 0; i < f->count; i++)
    if (check_like_first_clause(c, f, i))
      infer_clause(c, f, i);
  c->facts.assumptions = around;
  join_results(c, f);
  if (f->joined_result && ty_root(f->result) != ty_root(f->joined_result)) {
    Origin *o = result_origin(c, f, calls);
    if (!unify(c, f->result, f->joined_result, o))
      report_type_mismatch(c, f->joined_result, f->result, o);
  }
  for (uint32_t i = 0; i < f->arity; i++) {
    Param *p = &f->clauses[0].params[i];
    if (p->default_value)
      infer_default(c, p, &f->params[i]);
    name_singleton(c, p->pat, f->params[i].type);
  }
  c->inference.effect = outer;
  return effect_close(c, effect);
}

/* p1 -> ... -> result: only the last arrow has the effect of the body. */
static Type *function_type(Checker *c, const Function *f, Effect *effect) {
  Type *t = f->joined_result && f->result_open ? f->joined_result : f->result;
  for (uint32_t i = f->arity; i-- > 0;) {
    Param *p = &f->clauses[0].params[i];
    t = ty_fun(c, f->params[i].type, t,
               i + 1 == f->arity ? effect : effect_var(c));
    t->fun.label = p->label;
    t->fun.optional = p->default_value != NULL;
    t->fun.default_type = f->params[i].default_type;
  }
  return t;
}

/* The parameters that patterns inspect, as one value, and its type.  Omits
   parameters that are only named, also from the patterns. */
static Core *case_scrutinee(Checker *c, Function *f, Type **type) {
  Core *all = core_new(c, CORE_TUPLE, f->span);
  Type **types = NEW_ARRAY(c->arena, Type *, f->arity);
  uint32_t used = 0;
  all->items = NEW_ARRAY(c->arena, Core *, f->arity);
  for (uint32_t i = 0; i < f->arity; i++) {
    CorePat *only = f->count == 1 ? f->pats[0]->args[i] : NULL;
    if (only && (only->kind == CP_VAR || only->kind == CP_WILD))
      continue;
    all->items[used] = core_var(c, f->params[i].var, f->span);
    types[used] = f->params[i].type;
    for (uint32_t k = 0; k < f->count; k++)
      if (f->pats[k])
        f->pats[k]->args[used] = f->pats[k]->args[i];
    used++;
  }
  for (uint32_t k = 0; k < f->count; k++)
    if (f->pats[k])
      f->pats[k]->arg_count = used;
  all->item_count = used;
  *type = used == 1 ? types[0] : ty_tuple(c, used, types);
  return used == 1 ? all->items[0] : all;
}

static Core *function_case(Checker *c, Function *f) {
  Type *type;
  Core *match =
      core_items(c, CORE_CASE, f->span, 1, case_scrutinee(c, f, &type));
  uint32_t valid = 0;
  for (uint32_t i = 0; i < f->count; i++) {
    CorePat *p = f->pats[i];
    if (!p)
      continue;
    f->rules[valid].body = f->rules[i].body;
    f->rules[valid].pat = p->arg_count == 1 ? p->args[0] : p;
    f->pats[valid] = f->rules[valid].pat;
    valid++;
  }
  match->rules = f->rules;
  match->rule_count = valid;
  check_exhaustiveness(c, valid, f->pats, type, f->span);
  return match;
}

static Core *function_core(Checker *c, Function *f) {
  bool plain = f->count == 1;
  Core *fn = core_new(c, CORE_LAM, f->span);
  fn->params = NEW_ARRAY(c->arena, CoreParam, f->arity);
  fn->param_count = f->arity;
  for (uint32_t i = 0; i < f->arity; i++) {
    CorePat *only = f->count == 1 ? f->pats[0]->args[i] : NULL;
    fn->params[i].var =
        only && only->kind == CP_VAR ? only->var : f->params[i].var;
    fn->params[i].default_value = f->params[i].default_core;
    plain = plain && is_simple_pattern(f->clauses[0].params[i].pat);
  }
  fn->items = NEW(c->arena, Core *);
  fn->items[0] = plain ? f->rules[0].body : function_case(c, f);
  fn->item_count = 1;
  return fn;
}

Core *infer_clauses(Checker *c, Clause *clauses, uint32_t count, Span span,
                    Type *expected, Type *expected_result, Type **type) {
  Function f = {.clauses = clauses,
                .count = count,
                .span = span,
                .arity = clauses[0].param_count};
  f.rules = NEW_ARRAY(c->arena, CoreRule, count);
  f.pats = NEW_ARRAY(c->arena, CorePat *, count);
  f.branches = NEW_ARRAY(c->arena, Branch, count);
  make_params(c, &f, expected, expected_result);
  Effect *effect = infer_all_clauses(c, &f);
  *type = function_type(c, &f, effect);
  return function_core(c, &f);
}

Core *infer_fn(Checker *c, Expr *e, Type *expected, Type **type) {
  uint32_t mark = c->dims->next_id, outer_params = c->inference.params.len;
  Core *core = infer_clauses(c, e->clauses, e->clause_count, e->span, expected,
                             NULL, type);
  if (e != c->inference.val_function)
    c->inference.params.len = outer_params;
  if (expected)
    lambda_widen_results(c, expected, e->clauses[0].param_count, mark, e->span);
  return core;
}
