/* Functions: their clauses, parameters with labels and defaults, and the case
 * over the patterns of several clauses. */
#include "typecheck/internal.h"

typedef struct FunParam {
  Type *type;
  Var *var;
  Type *preset;
  Core *preset_core;
  Scope *scope; /* where the default is to be understood */
} FunParam;

typedef struct Function {
  Clause *clauses;
  uint32_t count, arity;
  Span span;
  FunParam *params;
  CoreRule *rules;  /* one for each clause, */
  CorePat **pats;   /* and its parameters as a tuple; NULL where it is wrong */
  Type *result;
  bool result_open; /* nothing is known of it but what the bodies say */
  Type *joined;     /* what they have said so far, or NULL */
} Function;

/* What a default must agree with: the parameter's type, with the sizes that an
 * argument may choose left free. */
static Type *relaxed(Checker *c, Type *t) {
  t = ty_norm(c, t);
  Shape *any[3];
  for (int i = 0; i < 3; i++)
    any[i] = shape_any(c);
  switch (t->tag) {
  case TY_TENSOR:
    return ty_tensor(c, t->elem, t->shape,
                     t->term ? meta_term(c, (Span){0}) : NULL);
  case TY_AXIS: {
    Shape *r = shape_norm(c, t->axis[1]);
    return ty_axis(c, any[0], shape_known_rank(r) ? r : any[1], any[2]);
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
  case TY_DATA:
  case TY_LIFT:
    break;
  }
  return t;
}

static bool simple(const Pat *p) {
  while (p->kind == PAT_ASCRIBE)
    p = p->args[0];
  return p->kind == PAT_VAR || p->kind == PAT_WILD;
}

/* A size that came in by a parameter is called like the parameter. */
static void name_term(Checker *c, Pat *p, Type *t) {
  while (p->kind == PAT_ASCRIBE)
    p = p->args[0];
  t = ty_norm(c, t);
  if (p->kind != PAT_VAR || t->tag != TY_TENSOR || !t->term)
    return;
  DimVar *v = dim_as_var(dim_resolve(c->dims, t->term));
  if (v && v->kind == DV_META && !v->name && !v->top)
    v->name = p->id;
}

static void infer_preset(Checker *c, Param *p, FunParam *f) {
  Scope *saved = c->scope;
  c->scope = f->scope;
  f->preset = relaxed(c, f->type);
  Origin *o = origin_new(c, OR_DEFAULT, p->preset->span);
  o->what = p->label ? p->label->text : NULL;
  o->expr = p->preset;
  if (ty_norm(c, f->type)->tag == TY_VAR) {
    Type *t;
    f->preset_core = infer(c, p->preset, &t);
    Type *r = relaxed(c, t);
    unify(c, f->type, r, o);
    f->preset = t;
  } else {
    f->preset_core = check(c, p->preset, f->preset, o);
  }
  c->scope = saved;
}

/* Types from what is wanted of the function, as far as that is one. */
static void make_params(Checker *c, Function *f, Type *want,
                        Type *result_want) {
  Type *w = want ? ty_norm(c, want) : NULL;
  f->params = NEW_ARRAY(c->arena, FunParam, f->arity);
  for (uint32_t i = 0; i < f->arity; i++) {
    Param *p = &f->clauses[0].params[i];
    bool fit = w && w->tag == TY_FUN && w->label == p->label;
    f->params[i].type = fit ? w->arg[0] : ty_meta(c);
    f->params[i].var = var_new(c, NULL, p->span, false);
    w = fit ? ty_norm(c, w->arg[1]) : NULL;
  }
  f->result = result_want ? result_want : w ? w : ty_meta(c);
  f->result_open = !result_want && ty_norm(c, f->result)->tag == TY_VAR;
}

/* False after an error: so many parameters cannot be matched. */
static bool like_the_first(Checker *c, const Function *f, uint32_t i) {
  const Clause *k = &f->clauses[i];
  if (k->param_count != f->arity) {
    error_at(c, 347, k->span, "this clause has %u parameter%s, the first %u",
             k->param_count, k->param_count == 1 ? "" : "s", f->arity)
        ->help = "every clause takes the same number: `_` is one that is "
                 "not looked at";
    return false;
  }
  for (uint32_t j = 0; j < f->arity; j++)
    if (k->params[j].label != f->clauses[0].params[j].label)
      error_at(c, 348, k->params[j].span,
               "every clause has the same labels as the first");
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
      f->params[i].scope = c->scope;
    if (p->label)
      places_name(c, PLACE_LABEL, p->span, p->label,
                  f->clauses[0].params[i].span, type);
    if (p->type) {
      Type *want = annot_type(c, p->type, AN_PARAM);
      Origin *o = origin_new(c, OR_ANNOTATION, p->span);
      if (!unify(c, type, want, o))
        mismatch(c, type, want, o);
    }
    tuple->args[i] = pattern(c, p->pat, type, false);
  }
  return tuple;
}

static void determine_names(Checker *c, const Function *f,
                            const Scope *outer) {
  Type **types = NEW_ARRAY(c->arena, Type *, f->arity);
  for (uint32_t i = 0; i < f->arity; i++)
    types[i] = f->params[i].type;
  names_determined(c, f->arity, types, c->scope, outer);
}

/* *type: what this clause says of the result, or NULL. */
static Core *clause_body(Checker *c, const Function *f, Clause *k,
                         Type **type) {
  *type = NULL;
  if (k->result || !f->result_open) {
    Origin *o = origin_new(c, OR_RESULT, k->body->span);
    o->expr = k->body;
    if (!k->result)
      return check(c, k->body, f->result, o);
    o->other = k->result->span;
    *type = annot_type(c, k->result, AN_RESULT);
    return check(c, k->body, *type, o);
  }
  uint32_t mark = c->dims->next_id;
  Core *body = infer(c, k->body, type);
  if (f->count > 1)
    *type = ty_leave(c, *type, mark, LEAVE_NEW);
  return body;
}

static void clause(Checker *c, Function *f, uint32_t i) {
  Clause *k = &f->clauses[i];
  Scope *saved = c->scope;
  Fact *facts = c->facts;
  uint32_t serial = c->serial, part = part_begin(c);
  Type *type;
  unique_params(c, k);
  f->pats[i] = clause_params(c, f, k);
  determine_names(c, f, saved);
  annot_facts(c, k->given, AN_PARAM, true);
  Core *body = clause_body(c, f, k, &type);
  if (type) {
    Origin *o = origin_new(c, OR_BRANCH, k->body->span);
    o->other = f->clauses[0].body->span;
    o->expr = k->body;
    f->joined = f->joined ? ty_join(c, f->joined, type, o) : type;
  }
  body = open_bound(c, c->scope, saved, body);
  checks_claim(c, body, serial, false);
  f->rules[i].pat = f->pats[i];
  f->rules[i].body = body;
  c->scope = saved;
  c->facts = facts;
  part_end(c, part);
}

static bool other_shape(Checker *c, Type *a, Type *b) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  return a->tag == TY_TENSOR && b->tag == TY_TENSOR &&
         !shape_same(c, shape_norm(c, a->shape), shape_norm(c, b->shape));
}

/* Its bodies may have another result than its calls of itself: where one of
 * their arguments is of another size than its parameter, as that one is.  In
 * large groups its own calls are looked at, from `own` on, and no others. */
static Origin *result_origin(Checker *c, const Function *f, uint32_t own) {
  enum { LARGE = 256 };
  Origin *o = origin_new(c, OR_RESULT, f->span);
  uint32_t count = c->group ? c->group->calls.len : 0;
  for (uint32_t i = count > LARGE ? own : 0; i < count; i++) {
    const Origin *call = c->group->calls.at[i];
    Span name = call->self->span;
    if (name.file != f->span.file || name.start != f->span.start ||
        !call->got || !call->want || !other_shape(c, call->got, call->want))
      continue;
    *o = *call;
    break;
  }
  return o;
}

/* In the scope of the function; returns the effect of its bodies. */
static Effect *clauses_infer(Checker *c, Function *f) {
  uint32_t outer_params = c->params.len;
  uint32_t calls = c->group ? c->group->calls.len : 0;
  for (uint32_t i = 0; i < f->arity; i++)
    VEC_PUSH(c->arena, c->params,
             ((ParamType){f->params[i].type, c->dims->next_id}));
  Effect *outer = c->effect, *effect = effect_var(c);
  c->effect = effect;
  for (uint32_t i = 0; i < f->count; i++)
    if (like_the_first(c, f, i))
      clause(c, f, i);
  if (f->joined && ty_root(f->result) != ty_root(f->joined)) {
    Origin *o = result_origin(c, f, calls);
    if (!unify(c, f->result, f->joined, o))
      mismatch(c, f->joined, f->result, o);
  }
  for (uint32_t i = 0; i < f->arity; i++) {
    Param *p = &f->clauses[0].params[i];
    if (p->preset)
      infer_preset(c, p, &f->params[i]);
    name_term(c, p->pat, f->params[i].type);
  }
  c->params.len = outer_params;
  c->effect = outer;
  return effect_close(c, effect);
}

/* p1 -> ... -> result: only the last arrow runs the body. */
static Type *function_type(Checker *c, const Function *f, Effect *effect) {
  Type *t = f->joined && f->result_open ? f->joined : f->result;
  for (uint32_t i = f->arity; i-- > 0;) {
    Param *p = &f->clauses[0].params[i];
    t = ty_fun(c, f->params[i].type, t,
               i + 1 == f->arity ? effect : effect_var(c));
    t->label = p->label;
    t->optional = p->preset != NULL;
    t->preset = f->params[i].preset;
  }
  return t;
}

/* The parameters that patterns look into, as one value and its type: those
 * that are only named are left out of it, and of the patterns. */
static Core *subject(Checker *c, Function *f, Type **type) {
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
  Core *match = core_items(c, CORE_CASE, f->span, 1, subject(c, f, &type));
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
  match_check(c, valid, f->pats, type, f->span);
  return match;
}

static Core *function_core(Checker *c, Function *f) {
  bool plain = f->count == 1;
  Core *fn = core_new(c, CORE_LAM, f->span);
  fn->params = NEW_ARRAY(c->arena, CoreParam, f->arity);
  fn->param_count = f->arity;
  for (uint32_t i = 0; i < f->arity; i++) {
    CorePat *only = f->count == 1 ? f->pats[0]->args[i] : NULL;
    fn->params[i].var = only && only->kind == CP_VAR ? only->var
                                                     : f->params[i].var;
    fn->params[i].preset = f->params[i].preset_core;
    plain = plain && simple(f->clauses[0].params[i].pat);
  }
  fn->items = NEW(c->arena, Core *);
  fn->items[0] = plain ? f->rules[0].body : function_case(c, f);
  fn->item_count = 1;
  return fn;
}

Core *clauses_core(Checker *c, Clause *clauses, uint32_t count, Span span,
                   Type *want, Type *result_want, Type **type) {
  Function f = {.clauses = clauses, .count = count, .span = span,
                .arity = clauses[0].param_count};
  f.rules = NEW_ARRAY(c->arena, CoreRule, count);
  f.pats = NEW_ARRAY(c->arena, CorePat *, count);
  make_params(c, &f, want, result_want);
  Effect *effect = clauses_infer(c, &f);
  *type = function_type(c, &f, effect);
  return function_core(c, &f);
}

Core *infer_fn(Checker *c, Expr *e, Type *want, Type **type) {
  uint32_t mark = c->dims->next_id;
  Core *core = clauses_core(c, e->clauses, e->clause_count, e->span, want,
                            NULL, type);
  if (want)
    lambda_per_call(c, want, e->clauses[0].param_count, mark, e->span);
  return core;
}
