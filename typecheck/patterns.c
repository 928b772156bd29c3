/* Patterns, and the functions that clauses of patterns make. */
#include "typecheck/internal.h"

#include <string.h>

static CorePat *pat_new(Checker *c, CorePatKind kind, Span span) {
  CorePat *p = NEW(c->arena, CorePat);
  p->kind = kind;
  p->span = span;
  p->rest = -1;
  return p;
}

static Var *bind_name(Checker *c, Sym *name, Span span, Type *type,
                      bool top) {
  Binding *b = binding_new(c, BK_VALUE, name, span);
  b->scheme = scheme_mono(c, type);
  b->var = var_new(c, name, span, top);
  scope_push(c, name, b);
  if (top && c->bound)
    VEC_PUSH(c->arena, *c->bound, b);
  return b->var;
}

static void pat_mismatch(Checker *c, Pat *p, Type *got, Type *want) {
  Origin *o = origin_new(c, OR_PATTERN, p->span);
  mismatch(c, want, got, o);
}

static void fits(Checker *c, Pat *p, Type *type, Type *want) {
  Origin *o = origin_new(c, OR_PATTERN, p->span);
  if (!unify(c, type, want, o))
    pat_mismatch(c, p, type, want);
}

static CorePat *pat_parts(Checker *c, Pat *p, CorePatKind kind, Type **types,
                          bool top) {
  CorePat *cp = pat_new(c, kind, p->span);
  cp->arg_count = p->arg_count;
  cp->args = NEW_ARRAY(c->arena, CorePat *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++)
    cp->args[i] = pattern(c, p->args[i], types[i], top);
  return cp;
}

static CorePat *pat_tuple(Checker *c, Pat *p, Type *type, bool top) {
  Type *t = ty_norm(c, type);
  if (t->tag != TY_TUPLE || t->count != p->arg_count) {
    Type **args = NEW_ARRAY(c->arena, Type *, p->arg_count);
    for (uint32_t i = 0; i < p->arg_count; i++)
      args[i] = ty_meta(c);
    Type *want = ty_tuple(c, p->arg_count, args);
    fits(c, p, t, want);
    t = want;
  }
  return pat_parts(c, p, CP_TUPLE, t->args, top);
}

static CorePat *pat_list(Checker *c, Pat *p, Type *type, bool top) {
  Type *item = ty_meta(c);
  Type *list = ty_list(c, item);
  fits(c, p, type, list);
  Type **types = NEW_ARRAY(c->arena, Type *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++)
    types[i] = p->kind == PAT_CONS && i == 1 ? list : item;
  return pat_parts(c, p, p->kind == PAT_CONS ? CP_CONS : CP_LIST, types, top);
}

static CorePat *pat_con(Checker *c, Pat *p, Type *type, bool top) {
  if (!p->name.module &&
      (p->name.id == c->sym_true || p->name.id == c->sym_false)) {
    fits(c, p, type, ty_scalar(c, DT_BOOL, NULL));
    CorePat *cp = pat_new(c, CP_BOOL, p->span);
    cp->flag = p->name.id == c->sym_true;
    return cp;
  }
  Binding *b = lookup(c, p->name.module, p->name.id);
  if (!b || b->kind != BK_CON) {
    unknown_con(c, p->name.module, p->name.id, p->span);
    return pat_new(c, CP_WILD, p->span);
  }
  Type *t = scheme_instantiate(c, b->scheme,
                               origin_new(c, OR_PATTERN, p->span), NULL);
  CorePat *cp = pat_new(c, CP_CON, p->span);
  cp->con = &b->con->con;
  if (b->con->con.has_arg != (p->arg_count == 1)) {
    error_at(c, 345, p->span, "constructor `%s` takes %s argument",
             b->name->text, b->con->con.has_arg ? "an" : "no")
        ->help = arena_printf(c->arena,
                              b->con->con.has_arg ? "write `%s x`, or `%s _`"
                                                  : "write `%s` alone",
                              b->name->text, b->name->text);
    return pat_new(c, CP_WILD, p->span);
  }
  if (!p->arg_count) {
    fits(c, p, type, t);
    return cp;
  }
  fits(c, p, type, t->arg[1]);
  cp->args = NEW(c->arena, CorePat *);
  cp->arg_count = 1;
  cp->args[0] = pattern(c, p->args[0], t->arg[0], top);
  return cp;
}

static bool has_label(const Type *t, const Sym *label) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->labels[i] == label)
      return true;
  return false;
}

/* True if the pattern and a record whose fields are all known agree in their
 * labels, or nothing can be said; else an error. */
static bool labels_fit(Checker *c, Pat *p, Type *type, Type *want) {
  Type *t = ty_norm(c, type);
  if (t->tag != TY_RECORD || t->arg[0])
    return true;
  for (uint32_t i = 0; i < want->count; i++)
    if (!has_label(t, want->labels[i])) {
      error_at(c, 305, p->fields[i].span, "there is no field `%s` in %s",
               want->labels[i]->text, ty_text(c, ty_forget_terms(c, t)));
      return false;
    }
  for (uint32_t i = 0; i < t->count && !p->open; i++)
    if (!has_label(want, t->labels[i])) {
      error_at(c, 305, p->span, "this pattern leaves out the field `%s`",
               t->labels[i]->text)
          ->help = "end it in `...` where other fields are not looked at";
      return false;
    }
  return true;
}

static CorePat *pat_record(Checker *c, Pat *p, Type *type, bool top) {
  uint32_t n = p->field_count;
  Type *want = ty_new(c, TY_RECORD);
  want->count = n;
  want->labels = NEW_ARRAY(c->arena, Sym *, n);
  want->args = NEW_ARRAY(c->arena, Type *, n);
  if (p->open)
    want->arg[0] = ty_meta(c);
  for (uint32_t i = 0; i < n; i++) {
    want->labels[i] = p->fields[i].id;
    for (uint32_t k = 0; k < i; k++)
      if (want->labels[k] == want->labels[i])
        error_at(c, 343, p->fields[i].span, "field `%s` is given twice",
                 want->labels[i]->text);
    want->args[i] = p->fields[i].type
                        ? annot_type(c, p->fields[i].type,
                                     top ? AN_VAL : AN_PARAM)
                        : ty_meta(c);
  }
  if (labels_fit(c, p, type, want))
    fits(c, p, type, want);
  CorePat *cp = pat_new(c, CP_RECORD, p->span);
  cp->labels = want->labels;
  cp->arg_count = n;
  cp->args = NEW_ARRAY(c->arena, CorePat *, n);
  for (uint32_t i = 0; i < n; i++) {
    PatField *f = &p->fields[i];
    if (f->pat) {
      cp->args[i] = pattern(c, f->pat, want->args[i], top);
    } else {
      cp->args[i] = pat_new(c, CP_VAR, f->span);
      cp->args[i]->var = bind_name(c, f->id, f->span, want->args[i], top);
    }
  }
  return cp;
}

/* [b, h, ...s] against a shape value: each item is a size that is known. */
static CorePat *pat_shape(Checker *c, Pat *p, Type *type, bool top) {
  CorePat *cp = pat_new(c, CP_SHAPE, p->span);
  cp->arg_count = p->arg_count;
  cp->args = NEW_ARRAY(c->arena, CorePat *, p->arg_count);
  Shape *s = shape_new(c, 0);
  Shape **parts = NEW_ARRAY(c->arena, Shape *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++) {
    if (p->args[i]->kind == PAT_SPLICE) {
      if (cp->rest >= 0)
        error_at(c, 346, p->args[i]->span,
                 "a shape pattern has one ... at most");
      parts[i] = shape_of_var(c, shape_var(c, -1));
      cp->rest = (int)i;
    } else {
      Dim *d = meta_dim(c, p->args[i]->id, p->args[i]->span);
      parts[i] = shape_dims(c, 1, &d);
    }
    s = shape_concat(c, s, parts[i]);
  }
  Type *value = ty_norm(c, type);
  if (value->tag == TY_DATA && value->data == c->data_list)
    error_at(c, 305, p->span, "this is the pattern of a shape, not of a list")
        ->help = "a list is matched by `list [a, b]`, or by `x :: rest`";
  else
    fits(c, p, type, ty_shape(c, s));
  for (uint32_t i = 0; i < p->arg_count; i++) {
    Pat *item = p->args[i];
    if (item->kind != PAT_SPLICE) {
      cp->args[i] =
          pattern(c, item, ty_int(c, parts[i]->at[0].dim), top);
    } else if (item->id) {
      cp->args[i] = pat_new(c, CP_VAR, item->span);
      cp->args[i]->var = bind_name(c, item->id, item->span,
                                   ty_shape(c, parts[i]), top);
    } else {
      cp->args[i] = pat_new(c, CP_WILD, item->span);
    }
  }
  return cp;
}

static CorePat *pat_num(Checker *c, Pat *p, Type *type) {
  CorePat *cp = pat_new(c, CP_NUM, p->span);
  ElemVar *e = elem_meta(c, p->is_float ? CLASS_FLOAT : CLASS_NUM);
  e->prefer = p->is_float ? 2 : 1;
  Type *t = ty_norm(c, type);
  Type *want = ty_tensor(c, e, shape_new(c, 0), NULL);
  if (t->tag == TY_TENSOR) {
    if (!unify_elem(c, t->elem, e) ||
        !unify_shape(c, t->shape, want->shape,
                     origin_new(c, OR_PATTERN, p->span)))
      pat_mismatch(c, p, t, want);
  } else {
    fits(c, p, t, want);
  }
  cp->num = p->num;
  cp->is_float = p->is_float;
  cp->elem.var = e;
  return cp;
}

CorePat *pattern(Checker *c, Pat *p, Type *type, bool top) {
  CorePat *cp;
  switch (p->kind) {
  case PAT_WILD:
    return pat_new(c, CP_WILD, p->span);
  case PAT_VAR:
    cp = pat_new(c, CP_VAR, p->span);
    cp->var = bind_name(c, p->id, p->span, type, top);
    return cp;
  case PAT_NUM:
    return pat_num(c, p, type);
  case PAT_STRING:
    fits(c, p, type, ty_string(c));
    cp = pat_new(c, CP_STRING, p->span);
    cp->text = p->text;
    cp->text_len = p->text_len;
    return cp;
  case PAT_CON: return pat_con(c, p, type, top);
  case PAT_TUPLE: return pat_tuple(c, p, type, top);
  case PAT_RECORD: return pat_record(c, p, type, top);
  case PAT_SHAPE: return pat_shape(c, p, type, top);
  case PAT_LIST:
  case PAT_CONS: return pat_list(c, p, type, top);
  case PAT_AS:
    cp = pat_new(c, CP_AS, p->span);
    cp->var = bind_name(c, p->id, p->id_span.file ? p->id_span : p->span,
                        type, top);
    cp->args = NEW(c->arena, CorePat *);
    cp->arg_count = 1;
    cp->args[0] = pattern(c, p->args[0], type, top);
    return cp;
  case PAT_ASCRIBE: {
    Type *want = annot_type(c, p->type, top ? AN_VAL : AN_PARAM);
    fits(c, p, type, want);
    return pattern(c, p->args[0], want, top);
  }
  case PAT_SPLICE:
    break;
  }
  error_at(c, 346, p->span, "... stands only in a shape pattern");
  return pat_new(c, CP_WILD, p->span);
}

/* ---- functions ---- */

typedef struct FunParam {
  Type *type;
  Var *var;
  Type *preset;
  Core *preset_core;
  Scope *scope; /* where the default is to be understood */
} FunParam;

/* What a default must agree with: the parameter's type, with the sizes that an
 * argument may choose left free. */
static Type *relaxed(Checker *c, Type *t) {
  t = ty_norm(c, t);
  Shape *any[3];
  for (int i = 0; i < 3; i++)
    any[i] = shape_of_var(c, shape_var(c, -1));
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

static CorePat *clause_params(Checker *c, Clause *k, FunParam *params,
                              bool first) {
  CorePat *tuple = pat_new(c, CP_TUPLE, k->span);
  tuple->arg_count = k->param_count;
  tuple->args = NEW_ARRAY(c->arena, CorePat *, k->param_count);
  for (uint32_t i = 0; i < k->param_count; i++) {
    Param *p = &k->params[i];
    if (first)
      params[i].scope = c->scope;
    if (p->type) {
      Type *want = annot_type(c, p->type, AN_PARAM);
      Origin *o = origin_new(c, OR_ANNOTATION, p->span);
      if (!unify(c, params[i].type, want, o))
        mismatch(c, params[i].type, want, o);
    }
    tuple->args[i] = pattern(c, p->pat, params[i].type, false);
  }
  return tuple;
}

static void determine_names(Checker *c, uint32_t n, const FunParam *params,
                            const Scope *outer) {
  Type **types = NEW_ARRAY(c->arena, Type *, n);
  for (uint32_t i = 0; i < n; i++)
    types[i] = params[i].type;
  names_determined(c, n, types, c->scope, outer);
}

/* A default alone can say what a parameter is: `~k:(k = 2)`. */
static bool param_is_number(const Param *p) {
  return p->preset && p->preset->kind == EX_NUM && !p->preset->is_float;
}

Core *clauses_core(Checker *c, Clause *clauses, uint32_t count, Span span,
                   Type *want, Type *result_want, Type **type) {
  uint32_t n = clauses[0].param_count;
  FunParam *params = NEW_ARRAY(c->arena, FunParam, n);
  Type *w = want ? ty_norm(c, want) : NULL;
  for (uint32_t i = 0; i < n; i++) {
    bool fit = w && w->tag == TY_FUN && w->label == clauses[0].params[i].label;
    params[i].type = fit ? w->arg[0] : ty_meta(c);
    params[i].var = var_new(c, NULL, clauses[0].params[i].span, false);
    w = fit ? ty_norm(c, w->arg[1]) : NULL;
  }
  Type *result = result_want ? result_want : w ? w : ty_meta(c);
  uint32_t outer_params = c->params.len;
  for (uint32_t i = 0; i < n; i++)
    VEC_PUSH(c->arena, c->params, params[i].type);
  Effect *outer = c->effect, *effect = effect_context(c);
  c->effect = effect;
  Fact *facts = c->facts;
  Scope *saved = c->scope;
  Stage *stage = c->stage;
  c->stage = NULL;
  CoreRule *rules = NEW_ARRAY(c->arena, CoreRule, count);
  CorePat **pats = NEW_ARRAY(c->arena, CorePat *, count);
  bool result_open = ty_norm(c, result)->tag == TY_VAR && !result_want;
  Type *joined = NULL;
  bool plain = count == 1;
  for (uint32_t i = 0; i < count; i++) {
    Clause *k = &clauses[i];
    if (k->param_count != n) {
      error_at(c, 347, k->span, "this clause has %u parameter%s, the first %u",
               k->param_count, k->param_count == 1 ? "" : "s", n)
          ->help = "every clause takes the same number: `_` is one that is "
                   "not looked at";
      continue;
    }
    for (uint32_t j = 0; j < n; j++) {
      plain = plain && simple(k->params[j].pat);
      if (i && k->params[j].label != clauses[0].params[j].label)
        error_at(c, 348, k->params[j].span,
                 "every clause has the same labels as the first");
    }
    unique_params(c, k);
    uint32_t serial = c->serial;
    pats[i] = clause_params(c, k, params, i == 0);
    Type *annotated = NULL;
    determine_names(c, n, params, saved);
    annot_facts(c, k->given, AN_PARAM, true);
    if (k->result) {
      annotated = annot_type(c, k->result, AN_RESULT);
      Origin *o = origin_new(c, OR_RESULT, k->body->span);
      o->other = k->result->span;
      o->expr = k->body;
      rules[i].body = check(c, k->body, annotated, o);
    } else if (!result_open) {
      Origin *o = origin_new(c, OR_RESULT, k->body->span);
      o->expr = k->body;
      rules[i].body = check(c, k->body, result, o);
    } else {
      uint32_t mark = c->dims->next_id;
      rules[i].body = infer(c, k->body, &annotated);
      if (count > 1)
        annotated = ty_leave(c, annotated, mark, false);
    }
    if (annotated) {
      Origin *o = origin_new(c, OR_BRANCH, k->body->span);
      o->other = clauses[0].body->span;
      o->expr = k->body;
      joined = joined ? ty_join(c, joined, annotated, o) : annotated;
    }
    rules[i].pat = pats[i];
    rules[i].body = open_bound(c, c->scope, saved, rules[i].body);
    checks_claim(c, rules[i].body, serial, false);
    c->scope = saved;
    c->facts = facts;
  }
  if (joined && ty_root(result) != ty_root(joined)) {
    Origin *o = origin_new(c, OR_RESULT, span);
    if (!unify(c, result, joined, o))
      mismatch(c, joined, result, o);
  }
  for (uint32_t j = 0; j < n; j++) {
    Param *p = &clauses[0].params[j];
    if (p->preset)
      infer_preset(c, p, &params[j]);
    name_term(c, p->pat, params[j].type);
    (void)param_is_number;
  }
  c->params.len = outer_params;
  c->effect = outer;
  effect = effect_close(c, effect);
  c->stage = stage;
  /* types: p1 -> ... -> result; only the last arrow runs the body */
  Type *t = joined && result_open ? joined : result;
  for (uint32_t j = n; j-- > 0;) {
    t = ty_fun(c, params[j].type, t, j + 1 == n ? effect : effect_var(c));
    t->label = clauses[0].params[j].label;
    t->optional = clauses[0].params[j].preset != NULL;
    t->preset = params[j].preset;
  }
  *type = t;
  /* core */
  Core *fn = core_new(c, CORE_LAM, span);
  fn->params = NEW_ARRAY(c->arena, CoreParam, n);
  fn->param_count = n;
  fn->items = NEW(c->arena, Core *);
  fn->item_count = 1;
  for (uint32_t j = 0; j < n; j++) {
    fn->params[j].var = params[j].var;
    fn->params[j].preset = params[j].preset_core;
    bool var = count == 1 && pats[0] && pats[0]->args[j]->kind == CP_VAR;
    if (var)
      fn->params[j].var = pats[0]->args[j]->var;
  }
  if (plain) {
    fn->items[0] = rules[0].body;
    return fn;
  }
  Core *match = core_new(c, CORE_CASE, span);
  Core *subject = core_new(c, CORE_TUPLE, span);
  uint32_t used = 0;
  subject->items = NEW_ARRAY(c->arena, Core *, n);
  for (uint32_t j = 0; j < n; j++) { /* those that only name are left out */
    if (count == 1 && (pats[0]->args[j]->kind == CP_VAR ||
                       pats[0]->args[j]->kind == CP_WILD))
      continue;
    subject->items[used] = core_var(c, params[j].var, span);
    for (uint32_t i = 0; i < count; i++)
      if (pats[i])
        pats[i]->args[used] = pats[i]->args[j];
    params[used].type = params[j].type;
    used++;
  }
  subject->item_count = used;
  uint32_t valid = 0;
  for (uint32_t i = 0; i < count; i++)
    if (pats[i]) {
      pats[i]->arg_count = used;
      rules[valid] = rules[i];
      rules[valid].pat = used == 1 ? pats[i]->args[0] : pats[i];
      pats[valid] = rules[valid].pat;
      valid++;
    }
  match->items = NEW(c->arena, Core *);
  match->items[0] = used == 1 ? subject->items[0] : subject;
  match->item_count = 1;
  match->rules = rules;
  match->rule_count = valid;
  Type **types = NEW_ARRAY(c->arena, Type *, used);
  for (uint32_t j = 0; j < used; j++)
    types[j] = params[j].type;
  match_check(c, valid, pats, used == 1 ? types[0] : ty_tuple(c, used, types),
              span);
  fn->items[0] = match;
  return fn;
}

Core *infer_fn(Checker *c, Expr *e, Type *want, Type **type) {
  return clauses_core(c, e->clauses, e->clause_count, e->span, want, NULL,
                      type);
}
