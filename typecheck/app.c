/* Application: operators, labelled arguments and their defaults, pipelines,
 * and the arguments whose notation depends on what is wanted (axes, shapes). */
#include "typecheck/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- operators ---- */

static Core *prim_core(Checker *c, PrimId id, uint32_t n, Core **args,
                       ElemVar *elem, Span span) {
  Core *prim = core_new(c, CORE_PRIM, span);
  prim->prim = id;
  prim->arity = n;
  prim->elem.var = elem;
  Core *app = core_new(c, CORE_APP, span);
  app->items = NEW_ARRAY(c->arena, Core *, n + 1);
  app->items[0] = prim;
  for (uint32_t i = 0; i < n; i++)
    app->items[i + 1] = args[i];
  app->item_count = n + 1;
  return app;
}

static bool is_int_type(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_TENSOR &&
         !(elem_root(t->elem)->classes & ~(uint32_t)CLASS_INT);
}

static void find_size(void *arg, DimVar *v) { *(bool *)arg |= !v->value; }

static bool mentions_size(Checker *c, Dim *d) {
  bool found = false;
  dim_each_var(dim_resolve(c->dims, d), find_size, NULL, &found);
  return found;
}

/* x / d and x % d are tracked.  Where a size is divided, d must be at least 1;
 * of mere integers nothing is asked before they are used as sizes. */
static void track_division(Checker *c, PrimId id, Type *a, Type *b, Type *r,
                           Origin *o) {
  Dim *x = term_of(c, a), *y = term_of(c, b);
  if (!x || !y)
    return;
  if (dim_is_const(y) && dim_sign(y) == 0)
    return;
  bool soft = false;
  if (facts_le(c, dim_int(c->dims, 1), y) != PROVED) {
    DimVar *v = dim_as_var(y);
    soft = !is_int_type(c, a) || dim_is_const(y) ||
           (v && v->value && !mentions_size(c, x));
    if (!soft)
      demand_le(c, dim_int(c->dims, 1), y, o);
  }
  Dim *q = soft ? dim_div_soft(c->dims, x, y) : dim_div(c->dims, x, y);
  if (id == PRIM_MOD)
    q = dim_sub(c->dims, x, dim_mul(c->dims, y, q));
  r->term = q;
}

static void note_terms(Checker *c, Expr *e, Type *a, Type *b) {
  Dim *x = term_of(c, a), *y = term_of(c, b);
  if (!x || !y)
    return;
  Terms *t = NEW(c->arena, Terms);
  *t = (Terms){x, y};
  map_put(&c->terms, e, t);
}

static Origin *operand(Checker *c, Expr *e, PrimId id, uint32_t number) {
  Origin *o = origin_new(c, OR_OPERATOR, e->span);
  o->what = prim_info[id].name;
  o->prim = id;
  o->number = number;
  o->expr = e;
  return o;
}

static Core *infer_compose(Checker *c, Expr *e, Type **type) {
  Type *tf, *tg, *a = ty_meta(c), *b = ty_meta(c), *r = ty_meta(c);
  Core *f = infer(c, e->arg[0], &tf);
  Core *g = infer(c, e->arg[1], &tg);
  Effect *ef = effect_var(c), *eg = effect_var(c);
  Origin *of = operand(c, e->arg[0], PRIM_NONE, 1);
  Origin *og = operand(c, e->arg[1], PRIM_NONE, 2);
  of->what = og->what = ">>";
  f = flow(c, f, tf, ty_fun(c, a, b, ef), of);
  g = flow(c, g, tg, ty_fun(c, b, r, eg), og);
  Var *vf = var_new(c, NULL, e->arg[0]->span, false);
  Var *vg = var_new(c, NULL, e->arg[1]->span, false);
  Var *x = var_new(c, NULL, e->span, false);
  Core *inner = core_items(c, CORE_APP, e->span, 2,
                           core_var(c, vf, e->span), core_var(c, x, e->span));
  Core *outer = core_items(c, CORE_APP, e->span, 2,
                           core_var(c, vg, e->span), inner);
  Core *fn = core_items(c, CORE_LAM, e->span, 1, outer);
  fn->params = NEW(c->arena, CoreParam);
  fn->params[0].var = x;
  fn->param_count = 1;
  Effect *effect = effect_context(c);
  effect_join(c, ef, effect, e->span, NULL);
  effect_join(c, eg, effect, e->span, NULL);
  effect = effect_close(c, effect);
  *type = ty_fun(c, a, r, effect);
  return core_let(c, vf, f, core_let(c, vg, g, fn));
}

static Core *infer_cons(Checker *c, Expr *e, Type **type) {
  Type *head, *tail;
  Core *h = infer(c, e->arg[0], &head);
  Core *t = infer(c, e->arg[1], &tail);
  tail = ty_norm(c, tail);
  Origin *o = operand(c, e->arg[0], PRIM_NONE, 1);
  o->what = "::";
  head = ty_forget_terms(c, head);
  if (tail->tag == TY_DATA && tail->data == c->data_list) {
    Type *item = ty_norm(c, tail->args[0]);
    h = flow(c, h, head, item, o);
    *type = tail;
  } else {
    *type = ty_list(c, head);
    Origin *ot = operand(c, e->arg[1], PRIM_NONE, 2);
    ot->what = "::";
    t = flow(c, t, tail, *type, ot);
  }
  return core_items(c, CORE_CONS, e->span, 2, h, t);
}

static bool is_string(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_DATA && t->data == c->data_string;
}

static Core *string_compare(Checker *c, Expr *e, Core *a, Core *b, Type *ta,
                            Type *tb, Type **type) {
  a = flow(c, a, ta, ty_string(c), operand(c, e->arg[0], PRIM_EQ, 1));
  b = flow(c, b, tb, ty_string(c), operand(c, e->arg[1], PRIM_EQ, 2));
  *type = ty_scalar(c, DT_BOOL, NULL);
  Core *args[2] = {a, b};
  Core *eq = prim_core(c, PRIM_STR_EQ, 2, args, NULL, e->span);
  if (e->op == BIN_EQ)
    return eq;
  return prim_core(c, PRIM_NOT, 1, &eq, elem_fixed(c, DT_BOOL), e->span);
}

static PrimId prim_of_op(BinOp op) {
  static const PrimId prims[BIN_COUNT] = {
      [BIN_OR] = PRIM_OR,   [BIN_AND] = PRIM_AND, [BIN_EQ] = PRIM_EQ,
      [BIN_NE] = PRIM_NE,   [BIN_LT] = PRIM_LT,   [BIN_LE] = PRIM_LE,
      [BIN_GT] = PRIM_GT,   [BIN_GE] = PRIM_GE,   [BIN_APPEND] = PRIM_APPEND,
      [BIN_ADD] = PRIM_ADD, [BIN_SUB] = PRIM_SUB, [BIN_MUL] = PRIM_MUL,
      [BIN_DIV] = PRIM_DIV, [BIN_MOD] = PRIM_MOD,
      [BIN_MATMUL] = PRIM_MATMUL};
  return prims[op];
}

static Core *infer_binary(Checker *c, Expr *e, Type **type) {
  PrimId id = prim_of_op(e->op);
  Type *ta, *tb;
  Fact *facts = c->facts;
  Core *args[2];
  args[0] = infer(c, e->arg[0], &ta);
  bool cond = id == PRIM_AND || id == PRIM_OR;
  bool on_index = cond && condition_on_index(c, e->arg[0]);
  if (cond)
    condition_facts(c, e->arg[0], args[0], id == PRIM_AND);
  c->conditional += on_index;
  args[1] = infer(c, e->arg[1], &tb);
  c->conditional -= on_index;
  if (cond)
    c->facts = facts;
  if ((id == PRIM_EQ || id == PRIM_NE) &&
      (is_string(c, ta) || is_string(c, tb)))
    return string_compare(c, e, args[0], args[1], ta, tb, type);
  if ((id == PRIM_EQ || id == PRIM_NE) && ty_is_unit(ta) && ty_is_unit(tb)) {
    Core *same = core_new(c, CORE_BOOL, e->span);
    same->flag = id == PRIM_EQ;
    *type = ty_scalar(c, DT_BOOL, NULL);
    return core_items(c, CORE_SEQ, e->span, 3, args[0], args[1], same);
  }
  Origin *o = origin_new(c, OR_OPERATOR,
                         e->op_span.file ? e->op_span : e->span);
  o->what = prim_info[id].name;
  o->prim = id;
  o->got = ta, o->want = tb;
  o->other = e->span;
  Origin *oa = operand(c, e->arg[0], id, 1);
  Origin *ob = operand(c, e->arg[1], id, 2);
  o->left = oa->left = ob->left = e->arg[0];
  o->right = oa->right = ob->right = e->arg[1];
  oa->other = e->arg[1]->span;
  ob->other = e->arg[0]->span;
  if (id == PRIM_MATMUL) {
    oa->got = ob->got = ta;
    oa->want = ob->want = tb;
    oa->span = ob->span = o->span;
  }
  Type *ft = scheme_instantiate(
      c, binding_scheme(c, binding_of_prim(c, id)), o, NULL);
  Type *pa = ft->arg[0], *rest = ty_norm(c, ft->arg[1]);
  Type *pb = rest->arg[0], *r = rest->arg[1];
  uint32_t told = c->told.len;
  args[0] = flow(c, args[0], ta, pa, oa);
  if (told == c->told.len)
    args[1] = flow(c, args[1], tb, pb, ob);
  if (id == PRIM_DIV || id == PRIM_MOD)
    track_division(c, id, ta, tb, ty_root(r), o);
  if (e->op >= BIN_EQ && e->op <= BIN_GE)
    note_terms(c, e, ta, tb);
  if (c->progress && c->pending.len)
    solve_pending(c);
  *type = told_of(c, told, o->span, NULL) ? ty_meta(c) : r;
  Type *rn = ty_norm(c, r);
  Core *app = prim_core(c, id, 2, args,
                        rn->tag == TY_TENSOR ? rn->elem : NULL, e->span);
  if (cond)
    app->inst = tb; /* whether its right side is run is known later */
  return app;
}

static Core *infer_negate(Checker *c, Expr *e, Type **type) {
  Type *t;
  Core *arg = infer(c, e->arg[0], &t);
  Type *ft = scheme_instantiate(
      c, binding_scheme(c, binding_of_prim(c, PRIM_NEG)),
      origin_new(c, OR_OPERATOR, e->span), NULL);
  arg = flow(c, arg, t, ft->arg[0], operand(c, e->arg[0], PRIM_NEG, 1));
  *type = ft->arg[1];
  return prim_core(c, PRIM_NEG, 1, &arg, ty_root(ft->arg[1])->elem,
                   e->span);
}

Core *infer_operator(Checker *c, Expr *e, Type **type) {
  if (e->kind == EX_NEG)
    return infer_negate(c, e, type);
  if (e->op == BIN_COMPOSE)
    return infer_compose(c, e, type);
  if (e->op == BIN_CONS)
    return infer_cons(c, e, type);
  return infer_binary(c, e, type);
}

/* ---- arguments whose notation depends on what is wanted ---- */

static bool literal_axis(Expr *e, long *k) {
  if (e->kind != EX_NUM || e->is_float)
    return false;
  char *end;
  *k = strtol(e->num, &end, 0);
  return *end == 0 && *k > -64 && *k < 64;
}

static Shape *some_axes(Checker *c, long n) {
  Shape *s = shape_new(c, (uint32_t)n);
  for (long i = 0; i < n; i++) {
    s->at[i].tag = IT_SPLICE;
    s->at[i].var = shape_var(c, 1);
  }
  return s;
}

static Shape *any_axes(Checker *c) {
  return shape_of_var(c, shape_var(c, -1));
}

ShapeIt literal_item(Checker *c, Span span) {
  ShapeIt it = {.tag = IT_DIM, .dim = meta_dim(c, NULL, span)};
  dim_as_var(it.dim)->literal = true;
  return it;
}

/* The axes first .. first + count - 1; a negative first counts from the end. */
static void axis_literal(Checker *c, Type *want, long first, long count,
                         Origin *o) {
  Shape *s = first >= 0 ? some_axes(c, first) : any_axes(c);
  Shape *r = some_axes(c, count);
  for (long i = 0; i < count && !c->loose_axis; i++)
    r->at[i] = literal_item(c, o->span);
  Shape *t = first >= 0 ? any_axes(c) : some_axes(c, -first - count);
  if (!decided(c, ROW_AXIS, unify(c, ty_axis(c, s, r, t), want, o))) {
    Diag *d = error_at(c, 316, o->span, "there is no axis %ld here", first);
    d->note = arena_printf(c->arena, "the axes are split as %s",
                           ty_text(c, want));
  }
}

static bool tuple_axes(Expr *e, long *first, long *count) {
  if (e->kind != EX_TUPLE || !e->item_count)
    return false;
  for (uint32_t i = 0; i < e->item_count; i++) {
    long k;
    if (!literal_axis(e->items[i], &k) || (i && k != *first + (long)i))
      return false;
    if (!i)
      *first = k;
  }
  *count = (long)e->item_count;
  return *first >= 0 || *first + *count <= 0;
}

/* (0, 2): numbers, but not adjacent ones. */
static bool literal_axes(Expr *e) {
  long k;
  bool all = e->kind == EX_TUPLE && e->item_count > 0;
  for (uint32_t i = 0; all && i < e->item_count; i++)
    all = literal_axis(e->items[i], &k);
  return all;
}

Core *check_axis(Checker *c, Expr *e, Type *want, Origin *o) {
  long first, count = 1;
  if (literal_axis(e, &first) || tuple_axes(e, &first, &count)) {
    axis_literal(c, want, first, count, o);
    Type *ignored;
    return infer(c, e, &ignored);
  }
  if (e->kind == EX_ID && e->id == c->sym_all) {
    Binding *b = lookup(c, NULL, e->id);
    if (!b || b->kind == BK_PRIM) {
      Shape *none = shape_new(c, 0);
      if (!unify(c, ty_axis(c, none, any_axes(c), none), want, o))
        mismatch(c, ty_axis(c, none, any_axes(c), none), want, o);
      return core_new(c, CORE_AXIS_ALL, e->span);
    }
  }
  Type *t;
  Core *core = infer(c, e, &t);
  Type *n = ty_norm(c, t);
  if (n->tag == TY_TENSOR || n->tag == TY_TUPLE) {
    error_at(c, 317, e->span, "an axis is a literal number, a tuple of "
                              "adjacent ones, `all`, or a parameter that "
                              "takes an axis")
        ->help = literal_axes(e)
                     ? "the axes of a tuple follow one another: reduce in two "
                       "steps, as in `mean ~axis:0 (mean ~axis:(2, 3) x)`, or "
                       "`permute` them together first"
                     : "write the number here: shapes are known before the "
                       "program runs";
    return core;
  }
  return flow(c, core, t, want, o);
}

Core *check_keep(Checker *c, Expr *e, Type *want, Origin *o) {
  if (e->kind == EX_CON && (e->id == c->sym_true || e->id == c->sym_false)) {
    if (e->id == c->sym_true)
      demand(c, (Constraint){.kind = CN_KEEP, .origin = o, .a = want->axis[0],
                             .b = want->axis[1]});
    else if (!decided(c, ROW_KEEP,
                      unify_shape(c, want->axis[0], shape_new(c, 0), o)))
      report_shapes(c, want->axis[0], shape_new(c, 0), o);
    Type *ignored;
    return infer(c, e, &ignored);
  }
  Type *t;
  Core *core = infer(c, e, &t);
  if (ty_norm(c, t)->tag == TY_TENSOR) {
    error_at(c, 317, e->span,
             "~keep is a literal true or false, or a parameter that takes one");
    return core;
  }
  return flow(c, core, t, want, o);
}

/* [n, 3], [b, _], [...s, 4] where a shape is wanted. */
Core *check_shape_bracket(Checker *c, Expr *e, Type *want, Origin *o) {
  Core *core = core_new(c, CORE_SHAPE, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  core->splices = NEW_ARRAY(c->arena, bool, e->item_count);
  Shape *s = shape_new(c, 0);
  uint32_t holes = 0;
  bool zero = false;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Expr *item = e->items[i];
    Shape *one = shape_new(c, 1);
    Origin *oi = origin_new(c, OR_ELEMENT, item->span);
    oi->expr = item;
    Type *t;
    if (item->kind == EX_HOLE) {
      one->at[0].dim = meta_dim(c, NULL, item->span);
      dim_as_var(one->at[0].dim)->hole = true;
      Filled hole = {dim_as_var(one->at[0].dim), e->span};
      VEC_PUSH(c->arena, c->holes, hole);
      core->items[i] = core_new(c, CORE_DIM, item->span);
      core->items[i]->dim = one->at[0].dim;
      if (holes++)
        error_at(c, 318, item->span, "only one _ can be solved for");
    } else if (e->splices && e->splices[i]) {
      one = any_axes(c);
      core->splices[i] = true;
      core->items[i] = check(c, item, ty_shape(c, one), oi);
    } else {
      core->items[i] = infer(c, item, &t);
      Type *n = ty_norm(c, t);
      if (n->tag == TY_TENSOR && n->term &&
          !(elem_root(n->elem)->classes & CLASS_INT))
        n->term = NULL;
      Type *want_int = ty_int(c, meta_term(c, item->span));
      core->items[i] = flow(c, core->items[i], t, want_int, oi);
      Dim *d = dim_resolve(c->dims, want_int->term);
      if (dim_has_top(d))
        d = size_of(c, item, &core->items[i], ty_int(c, NULL));
      demand_le(c, dim_int(c->dims, 0), d, oi);
      one->at[0].dim = d;
      zero |= dim_is_const(dim_resolve(c->dims, d)) &&
              !dim_sign(dim_resolve(c->dims, d));
    }
    s = shape_concat(c, s, one);
  }
  if (holes && zero && o->prim == PRIM_RESHAPE)
    error_at(c, 318, e->span, "a _ beside a size of 0 could be any size");
  if (!unify(c, ty_shape(c, s), want, o))
    mismatch(c, ty_shape(c, s), want, o);
  return core;
}

/* True, and an error, if a tensor cannot have an element of this type. */
static bool no_element(Checker *c, Expr *whole, Expr *item, Type *t) {
  t = ty_norm(c, t);
  if (t->tag != TY_DATA && t->tag != TY_TUPLE && t->tag != TY_RECORD &&
      t->tag != TY_FUN)
    return false;
  Diag *d = error_at(c, 305, item->span, "a tensor has no elements of type %s",
                     ty_text(c, ty_forget_terms(c, t)));
  d->help = whole->item_count == 1 ? "a list is written `list [x]`"
                                   : "a list is written `list [x, y]`";
  return true;
}

/* [a, b, c] as a tensor: the items have one shape, a leading axis is new. */
Core *infer_bracket(Checker *c, Expr *e, Type **type) {
  Core *core = core_new(c, CORE_TENSOR, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  core->splices = NEW_ARRAY(c->arena, bool, e->item_count);
  ElemVar *elem = elem_meta(c, CLASS_ANY);
  Shape *row = e->item_count ? NULL : shape_new(c, 0);
  Dim *n = dim_int(c->dims, 0);
  Type *first = NULL;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Type *t;
    Origin *o = origin_new(c, OR_ELEMENT, e->items[i]->span);
    o->number = i;
    o->expr = e->items[i];
    if (i)
      o->other = e->items[0]->span;
    bool splice = e->splices && e->splices[i];
    core->splices[i] = splice;
    core->items[i] = infer(c, e->items[i], &t);
    if (no_element(c, e, e->items[i], t)) {
      *type = ty_meta(c);
      return core;
    }
    if (!row)
      row = any_axes(c);
    Shape *whole = row;
    if (splice) {
      Dim *m = meta_dim(c, NULL, e->items[i]->span);
      whole = shape_concat(c, shape_dims(c, 1, &m), row);
      n = dim_add(c->dims, n, m);
    } else {
      n = dim_add(c->dims, n, dim_int(c->dims, 1));
    }
    Type *want = ty_tensor(c, elem, whole, NULL);
    if (first)
      o->got = t, o->want = first;
    core->items[i] = flow(c, core->items[i], t, want, o);
    first = first ? first : t;
  }
  core->elem.var = elem;
  *type = ty_tensor(c, elem,
                      shape_concat(c, shape_dims(c, 1, &n), row), NULL);
  return core;
}

/* ---- application ---- */

typedef struct Given { /* an argument, and where its core goes */
  Arg *arg;
  Type *want;
  Core **slot;
  uint32_t number;
} Given;

typedef struct Call {
  Checker *c;
  Expr *e;
  Expr *head;
  const char *name;
  PrimId prim;
  Core *fn;
  Type *whole, *type; /* of fn; and what is left of it */
  Arg *args;
  uint32_t count;
  VEC(Core *) items;   /* fn, then arguments in order */
  VEC(Given) queue;
  VEC(CoreParam) waiting; /* label parameters still open (partial call) */
  bool stop;
} Call;

static bool has_some(const TypeExpr *t) {
  for (uint32_t i = 0; i < t->axes.len; i++)
    if (t->axes.at[i].kind == AXIS_DIM && t->axes.at[i].dim->kind == DX_SOME)
      return true;
  for (uint32_t i = 0; i < t->arg_count; i++)
    if (has_some(t->args[i]))
      return true;
  return false;
}

/* A function that says of its parameter that some size does: it tells the
 * others, not they it. */
static bool tells_size(const Expr *e) {
  const Pat *p = e->clauses[0].params[0].pat;
  return p->kind == PAT_ASCRIBE && has_some(p->type);
}

static bool takes_data(Checker *c, Type *fun) {
  for (; fun->tag == TY_FUN; fun = ty_root(fun->arg[1]))
    if (ty_norm(c, fun->arg[0])->tag == TY_DATA)
      return true;
  return false;
}

/* Checked after the others, which say what it is given: where there are items,
 * whose sizes may be unknown, a name is, too. */
static bool is_later(const Call *k, const Given *g) {
  Expr *e = g->arg->expr;
  if (e->kind == EX_FN)
    return !tells_size(e);
  return (e->kind == EX_ID || e->kind == EX_FIELD) &&
         ty_root(g->want)->tag == TY_FUN && takes_data(k->c, ty_root(k->whole));
}

static bool has_part(Type *t, const TyVar *v) {
  t = ty_root(t);
  if (t->tag == TY_VAR)
    return t->var == v;
  for (uint32_t i = 0; t->tag == TY_TUPLE && i < t->count; i++)
    if (has_part(t->args[i], v))
      return true;
  return false;
}

/* Whether a function among the arguments makes values of the variable that
 * `want` is: the state of a loop. */
static bool is_state(Call *k, Type *want) {
  want = ty_root(want);
  if (want->tag != TY_VAR || want->var->rigid)
    return false;
  for (Type *t = ty_root(k->whole); t->tag == TY_FUN; t = ty_root(t->arg[1])) {
    Type *p = ty_root(t->arg[0]);
    if (p->tag != TY_FUN)
      continue;
    while (p->tag == TY_FUN)
      p = ty_root(p->arg[1]);
    if (has_part(p, want->var))
      return true;
  }
  return false;
}

/* A pipe's value is the argument of a call under this name. */
static const char pipe_name[] = "|>";

Span arg_place(const Expr *e, const Expr *arg) {
  bool piped = arg->kind == EX_ID && strcmp(arg->id->text, pipe_name) == 0;
  return piped ? e->span : arg->span;
}

static void check_one(Call *k, Given *g) {
  Checker *c = k->c;
  Origin *o = origin_new(c, OR_ARG, arg_place(k->e, g->arg->expr));
  o->what = k->name;
  o->prim = k->prim;
  o->number = g->number;
  o->label = g->arg->label;
  o->expr = g->arg->expr;
  o->head = k->head;
  o->fun = k->whole;
  o->args = k->args;
  o->arg_count = k->count;
  o->state = is_state(k, g->want);
  *g->slot = check(c, g->arg->expr, g->want, o);
}

/* Checks what was queued: functions after the rest, so that they know the
 * types of their parameters. */
static void flush(Call *k) {
  for (uint32_t i = 0; i < k->queue.len; i++)
    if (!is_later(k, &k->queue.at[i]))
      check_one(k, &k->queue.at[i]);
  for (uint32_t i = 0; i < k->queue.len; i++)
    if (is_later(k, &k->queue.at[i]))
      check_one(k, &k->queue.at[i]);
  k->queue.len = 0;
}

static void queue_arg(Call *k, Arg *a, Type *want, uint32_t number) {
  Core **slot = NEW(k->c->arena, Core *);
  *slot = NULL;
  VEC_PUSH(k->c->arena, k->items, (Core *)slot);
  Given g = {a, want, slot, number};
  VEC_PUSH(k->c->arena, k->queue, g);
}

static Arg *take_label(Call *k, uint32_t from, uint32_t to, Sym *label) {
  for (uint32_t i = from; i < to; i++)
    if (k->args[i].label == label)
      return &k->args[i];
  return NULL;
}

static void unknown_label(Call *k, Arg *a) {
  Checker *c = k->c;
  Diag *d = error_at(c, 319, a->label_span.file ? a->label_span : a->span,
                     "%s takes no argument labelled ~%s",
                     k->name ? k->name : "this function", a->label->text);
  d->note = arena_printf(c->arena, "its type is %s", ty_text(c, k->type));
  suggest_label(c, d, a, k->type);
}

/* True, and an error, if one of these labels is none of the function's. */
static bool unknown_labels(Call *k, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; i++) {
    bool found = false;
    for (Type *u = ty_norm(k->c, k->type); u->tag == TY_FUN && u->label;
         u = ty_norm(k->c, u->arg[1]))
      found |= u->label == k->args[i].label;
    if (!found) {
      unknown_label(k, &k->args[i]);
      return true;
    }
  }
  return false;
}

/* What may be meant where a value that is no function is applied. */
static const char *help_not_function(const Call *k) {
  const Expr *a = k->args[0].expr;
  if (a->kind == EX_NUM && a->num[0] == '-')
    return "to subtract, put a space after the minus sign";
  if (a->kind == EX_BRACKET && k->fn->span.end == a->span.start)
    return "an index has a dot: `x.[i, j]`";
  return NULL;
}

/* Words of other languages stand between operands like arguments: of those
 * that are not defined each is an error, and the call is not looked at. */
static bool foreign_args(Checker *c, Arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const Expr *a = args[i].expr;
    if (a->kind != EX_ID || args[i].label || !lexer_foreign(a->id->text) ||
        lookup(c, NULL, a->id))
      continue;
    Type *t;
    infer(c, args[i].expr, &t);
    return true;
  }
  return false;
}

static bool broken_args(const Arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (args[i].expr->kind == EX_ERROR)
      return true;
  return false;
}

/* One group of label parameters and the positional one behind it. */
static bool call_group(Call *k, uint32_t *next, uint32_t *number) {
  Checker *c = k->c;
  uint32_t first = *next, last = first;
  while (last < k->count && k->args[last].label)
    last++;
  bool positional = last < k->count;
  Type *t = ty_norm(c, k->type);
  if (t->tag == TY_VAR && !t->var->rigid) { /* unknown: it becomes one */
    flush(k);
    t = ty_norm(c, k->type);
  }
  if (t->tag == TY_VAR && !t->var->rigid) {
    Type *r = ty_meta(c);
    Type *f = NULL;
    if (positional)
      f = ty_fun(c, ty_meta(c), r, effect_var(c));
    for (uint32_t i = last; i-- > first;) {
      f = ty_fun(c, ty_meta(c), f ? f : r, effect_var(c));
      f->label = k->args[i].label;
    }
    unify(c, t, f, origin_new(c, OR_ARG, k->fn->span));
    t = f;
  }
  if (t->tag != TY_FUN) {
    Diag *d;
    Span span = span_join(k->args[first].span, k->args[k->count - 1].span);
    if (first == 0) {
      d = error_at(c, 321, k->fn->span, "%s is not a function",
                   k->name ? k->name : "this");
      d->note = arena_printf(c->arena, "it is %s", ty_text(c, t));
      d->help = help_not_function(k);
    } else {
      d = error_at(c, 322, span, "%s is given too many arguments",
                   k->name ? k->name : "this function");
      d->note = arena_printf(c->arena, "what it returns is %s",
                             ty_text(c, t));
    }
    return false;
  }
  uint32_t used = 0;
  while (t->tag == TY_FUN && t->label) {
    Arg *a = take_label(k, first, last, t->label);
    if (a) {
      queue_arg(k, a, t->arg[0], 0);
      used++;
    } else if (!positional) {
      CoreParam p = {.var = var_new(c, t->label, k->e->span, false)};
      VEC_PUSH(c->arena, k->waiting, p);
      Core **slot = NEW(c->arena, Core *);
      *slot = core_var(c, p.var, k->e->span);
      VEC_PUSH(c->arena, k->items, (Core *)slot);
    } else if (t->optional) {
      if (t->preset) {
        Origin *o = origin_new(c, OR_DEFAULT, k->fn->span);
        o->what = k->name;
        if (!unify(c, t->arg[0], t->preset, o))
          mismatch(c, t->preset, t->arg[0], o);
      }
      Core **slot = NEW(c->arena, Core *);
      *slot = core_new(c, CORE_ABSENT, k->fn->span);
      VEC_PUSH(c->arena, k->items, (Core *)slot);
    } else if (unknown_labels(k, first, last)) {
      return false;
    } else {
      Diag *d = error_at(c, 323, k->fn->span, "the argument ~%s is missing",
                         t->label->text);
      if (take_label(k, last, k->count, t->label))
        d->help = "labelled arguments stand before the others";
      d->note =
          arena_printf(c->arena, "%s : %s", k->name ? k->name : "its type",
                       ty_text(c, k->type));
      return false;
    }
    t = ty_norm(c, t->arg[1]);
  }
  if (used < last - first && unknown_labels(k, first, last))
    return false;
  if (!positional) {
    k->stop = true;
    k->type = t;
    *next = last;
    return true;
  }
  if (t->tag == TY_VAR) {
    k->type = t;
    *next = last;
    for (uint32_t i = first; i < last; i++)
      k->args[i].label = NULL;
    return true;
  }
  if (t->tag != TY_FUN) {
    error_at(c, 322, k->args[last].span, "%s is given too many arguments",
             k->name ? k->name : "this function");
    return false;
  }
  Arg *a = &k->args[last];
  queue_arg(k, a, t->arg[0], ++*number);
  effect_join(c, t->effect, c->effect, k->fn->span, k->name);
  k->type = t->arg[1];
  *next = last + 1;
  return true;
}

/* f ~label:x without a positional argument waits for what is missing. */
static Core *wait_for_rest(Call *k, Core *app) {
  Checker *c = k->c;
  if (!k->stop)
    return app;
  if (!k->waiting.len)
    return app;
  Core *fn = core_items(c, CORE_LAM, app->span, 1, app);
  fn->params = k->waiting.at;
  fn->param_count = k->waiting.len;
  return fn;
}

/* The type of what waits: the label parameters that were not given. */
static Type *waiting_type(Call *k, Type *before) {
  Checker *c = k->c;
  Type *t = k->type;
  Type *labels[64];
  uint32_t n = 0;
  for (Type *u = ty_norm(c, before); u->tag == TY_FUN && u->label && n < 64;
       u = ty_norm(c, u->arg[1])) {
    bool given = false;
    for (uint32_t i = 0; i < k->count; i++)
      given |= k->args[i].label == u->label;
    if (!given)
      labels[n++] = u;
  }
  while (n--) {
    Type *f = ty_new(c, TY_FUN);
    *f = *labels[n];
    f->arg[1] = t;
    t = f;
  }
  return t;
}

static Core *call_core(Call *k) {
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

/* The best of one is always the first: most likely the axes were mixed up. */
static void warn_single(Checker *c, Call *k, Type *before) {
  for (Type *t = ty_norm(c, before); t->tag == TY_FUN;
       t = ty_norm(c, t->arg[1])) {
    Type *a = ty_norm(c, t->arg[0]);
    int64_t n;
    if (a->tag != TY_AXIS)
      continue;
    Shape *r = shape_norm(c, a->axis[1]);
    if (r->len == 1 && r->at[0].tag == IT_DIM &&
        dim_is_int(r->at[0].dim, &n) && n == 1)
      warning_at(c, 403, k->e->span, "%s over an axis of size 1 is always 0",
                 k->name)
          ->help = "another axis may be meant: give it with ~axis";
  }
}

static Core *run_call(Call *k, Type **type) {
  Checker *c = k->c;
  uint32_t next = 0, number = 0, told = c->told.len;
  Type *before = k->whole = k->type;
  while (next < k->count && !k->stop) {
    before = k->type;
    if (!call_group(k, &next, &number)) {
      flush(k);
      *type = ty_meta(c);
      return core_new(c, CORE_ERROR, k->e->span);
    }
  }
  flush(k);
  if (c->progress && c->pending.len)
    solve_pending(c);
  lifts_agree(c, k->whole, k->e->span);
  if (k->prim == PRIM_ARGMAX || k->prim == PRIM_ARGMIN)
    warn_single(c, k, before);
  Core *app = call_core(k);
  *type = k->stop ? waiting_type(k, before) : k->type;
  if (told_of(c, told, k->head->span, k->args))
    *type = ty_meta(c); /* what came of it is not judged */
  if (k->fn->kind == CORE_PRIM && prim_maps(k->prim))
    app->inst = k->type;
  app = wait_for_rest(k, app);
  *type = ty_open_data(c, *type, &app);
  return app;
}

/* The head of nested applications and pipes, with all its arguments. */
typedef struct Spine {
  Expr *head;
  VEC(Arg) args;
} Spine;

static void flatten(Checker *c, Expr *e, Spine *s) {
  if (e->kind == EX_APP) {
    flatten(c, e->arg[0], s);
    for (uint32_t i = 0; i < e->arg_count; i++)
      VEC_PUSH(c->arena, s->args, e->args[i]);
  } else {
    s->head = e;
  }
}

/* Whether an error was told of an argument, or of an item of one. */
static bool arg_told(const Checker *c, uint32_t mark, const Expr *e,
                     const Spine *s) {
  for (uint32_t i = 0; i < s->args.len; i++) {
    const Expr *arg = s->args.at[i].expr;
    if (told_of(c, mark, arg_place(e, arg), NULL))
      return true;
    for (uint32_t k = 0; arg->kind == EX_TUPLE && k < arg->item_count; k++)
      if (told_of(c, mark, arg->items[k]->span, NULL))
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

/* A stand-in for a value that was already checked: what a pipe brings. */
static Expr *standing(Checker *c, Type *t, Expr *value, Core **core) {
  Span span = value->span;
  Binding *b = binding_new(c, BK_VALUE, intern_text(c->in, pipe_name), span);
  b->scheme = scheme_mono(c, t);
  b->var = var_new(c, NULL, span, false);
  b->value = value;
  scope_push(c, b->name, b);
  *core = core_var(c, b->var, span);
  Expr *e = NEW(c->arena, Expr);
  e->kind = EX_ID;
  e->span = span;
  e->id = b->name;
  return e;
}

static Core *infer_pipe(Checker *c, Expr *e, Type **type) {
  Type *t;
  Scope *saved = c->scope;
  Expr *left = e->arg[0];
  bool chain = left->kind == EX_BIN && left->op == BIN_PIPE;
  Core *value = chain ? infer_pipe(c, left, &t) : infer(c, left, &t);
  left->inferred = t;
  Core *ref;
  Expr *x = standing(c, t, left, &ref);
  Expr *app = NEW(c->arena, Expr);
  *app = (Expr){.kind = EX_APP, .span = e->arg[1]->span};
  app->arg[0] = e->arg[1];
  app->args = NEW(c->arena, Arg);
  app->args[0] = (Arg){.span = x->span, .expr = x};
  app->arg_count = 1;
  e->call = app;
  Core *core = infer_app(c, app, type);
  app->inferred = *type;
  c->scope = saved;
  places_expr(c, PLACE_STAGE, app->span, *type);
  return core_let(c, ref->var, value, core);
}

/* f64 0.1 is that number in f64, not one that was an f32 first. */
static Core *typed_literal(Checker *c, Dtype dtype, Expr *e, Type **type) {
  if (e->kind != EX_NUM || dtype == DT_BOOL ||
      (e->is_float && !dtype_is_float(dtype)))
    return NULL;
  Core *core = infer(c, e, type);
  unify_elem(c, ty_root(*type)->elem, elem_fixed(c, dtype));
  return core;
}

/* What the parameters of a function that is applied at once are bound to. */
static void bind_values(Clause *k, const Arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count && i < k->param_count; i++)
    if (!args[i].label && !k->params[i].label && k->params[i].pat)
      k->params[i].pat->value = args[i].expr;
}

static Core *infer_spine(Checker *c, Expr *e, Type **type) {
  Spine s = {0};
  flatten(c, e, &s);
  unique_labels(c, s.args.at, s.args.len);
  if (broken_args(s.args.at, s.args.len) ||
      foreign_args(c, s.args.at, s.args.len)) {
    *type = ty_meta(c);
    return core_new(c, CORE_ERROR, e->span);
  }
  Binding *b = head_binding(c, s.head);
  places_labels(c, s.args.at, s.args.len, b);
  if (b && (b->kind == BK_PRIM || b->kind == BK_DTYPE))
    places_binding(c, s.head->span, b, NULL);
  if (b && b->kind == BK_PRIM &&
      (prim_info[b->prim].flags & PRIM_SPECIAL)) {
    uint32_t told = c->told.len;
    Core *core = infer_special(c, e, b->prim, s.args.at, s.args.len, type);
    if (core && arg_told(c, told, e, &s))
      *type = ty_meta(c);
    if (core)
      return core;
  }
  Call k = {.c = c, .e = e, .head = s.head, .name = head_name(c, s.head),
            .args = s.args.at, .count = s.args.len};
  k.prim = b && b->kind == BK_PRIM ? b->prim : PRIM_NONE;
  if (b && b->kind == BK_DTYPE && k.count == 1) {
    Core *literal = typed_literal(c, b->dtype, k.args[0].expr, type);
    if (literal)
      return literal;
  }
  c->head = s.head;
  c->head_args = k.args;
  c->head_arg_count = k.count;
  if (s.head->kind == EX_FN)
    bind_values(s.head->clauses, k.args, k.count);
  k.fn = infer(c, s.head, &k.type);
  return run_call(&k, type);
}

Core *infer_app(Checker *c, Expr *e, Type **type) {
  if (e->kind == EX_BIN)
    return infer_pipe(c, e, type);
  uint32_t mark = c->serial;
  Core *core = infer_spine(c, e, type);
  checks_claim(c, core, mark, false);
  return core;
}
