/* Operators, and assumptions from comparisons and divisions of sizes. */
#include "typecheck/internal.h"
#include "support/arena.h"

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
         !(elem_root(t->tensor.elem)->classes & ~(uint32_t)CLASS_INT);
}

static void note_size(void *arg, DimVar *v) {
  *(bool *)arg |= !v->is_integer;
}

static bool mentions_size(Checker *c, Dim *d) {
  bool found = false;
  dim_each_var(dim_resolve(c->dims, d), note_size, NULL, &found);
  return found;
}

/* Tracks the terms of x / d and x % d.  If a size is divided, d must be at
   least 1.  For integers this is required once the result is used as a size. */
static void track_division(Checker *c, PrimId id, Type *a, Type *b, Type *r,
                           Origin *o) {
  Dim *x = ty_singleton(c, a), *y = ty_singleton(c, b);
  if (!x || !y)
    return;
  if (dim_is_const(y) && dim_sign(y) == 0)
    return;
  bool unguarded = false;
  if (assumption_check_le(c, dim_int(c->dims, 1), y) != ENTAILED) {
    DimVar *v = dim_as_var(y);
    unguarded = !is_int_type(c, a) || dim_is_const(y) ||
                (v && v->is_integer && !mentions_size(c, x));
    if (!unguarded)
      add_size_le(c, dim_int(c->dims, 1), y, o);
  }
  Dim *q =
      unguarded ? dim_div_unguarded(c->dims, x, y) : dim_div(c->dims, x, y);
  if (id == PRIM_MOD)
    q = dim_sub(c->dims, x, dim_mul(c->dims, y, q));
  r->tensor.singleton = q;
}

static void note_compared_sizes(Checker *c, Expr *e, Type *a, Type *b) {
  Dim *x = ty_singleton(c, a), *y = ty_singleton(c, b);
  if (!x || !y)
    return;
  ComparedSizes *t = NEW(c->arena, ComparedSizes);
  *t = (ComparedSizes){x, y};
  map_put(&c->facts.compared_sizes, e, t);
}

static Origin *operand_origin(Checker *c, Expr *e, PrimId id, uint32_t number) {
  Origin *o = origin_new(c, ORIGIN_OPERATOR, e->span);
  o->subject = prim_info[id].name;
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
  Origin *of = operand_origin(c, e->arg[0], PRIM_NONE, 1);
  Origin *og = operand_origin(c, e->arg[1], PRIM_NONE, 2);
  of->subject = og->subject = ">>";
  f = subsume(c, f, tf, ty_fun(c, a, b, ef), of);
  g = subsume(c, g, tg, ty_fun(c, b, r, eg), og);
  dependent_note_value(c, f, tf);
  dependent_note_value(c, g, tg);
  Var *vf = var_new(c, NULL, e->arg[0]->span, false);
  Var *vg = var_new(c, NULL, e->arg[1]->span, false);
  Var *x = var_new(c, NULL, e->span, false);
  Core *inner = core_items(c, CORE_APP, e->span, 2, core_var(c, vf, e->span),
                           core_var(c, x, e->span));
  Core *outer =
      core_items(c, CORE_APP, e->span, 2, core_var(c, vg, e->span), inner);
  Core *fn = core_items(c, CORE_LAM, e->span, 1, outer);
  fn->params = NEW(c->arena, CoreParam);
  fn->params[0].var = x;
  fn->param_count = 1;
  Effect *effect = effect_var(c);
  effect_subsume(c, ef, effect, e->span, NULL);
  effect_subsume(c, eg, effect, e->span, NULL);
  effect = effect_close(c, effect);
  *type = ty_fun(c, a, r, effect);
  return core_let(c, vf, f, core_let(c, vg, g, fn));
}

/* x :: xs, where the type of the whole list is given. */
static Core *check_cons(Checker *c, Expr *e, Type *item, Type *expected,
                        Type **type) {
  Origin *o = operand_origin(c, e->arg[0], PRIM_NONE, 1);
  Origin *ot = operand_origin(c, e->arg[1], PRIM_NONE, 2);
  o->subject = ot->subject = "::";
  *type = expected;
  Core *h = check(c, e->arg[0], item, o);
  return core_items(c, CORE_CONS, e->span, 2, h,
                    check(c, e->arg[1], expected, ot));
}

static Core *infer_cons(Checker *c, Expr *e, Type *expected, Type **type) {
  Type *item = ty_given_item(c, expected), *head, *tail;
  if (item)
    return check_cons(c, e, item, expected, type);
  uint32_t mark = c->dims->next_id;
  Core *h = infer(c, e->arg[0], &head);
  head = ty_forget_local_sizes(c, head, mark, FORGET_FROM_UNKNOWN);
  Core *t = infer(c, e->arg[1], &tail);
  tail = ty_norm(c, tail);
  Origin *o = operand_origin(c, e->arg[0], PRIM_NONE, 1);
  o->subject = "::";
  head = ty_forget_singletons(c, head);
  if (tail->tag == TY_DATATYPE &&
      tail->data.type == c->builtins.list_datatype) {
    h = subsume(c, h, head, ty_norm(c, tail->args[0]), o);
    *type = tail;
  } else {
    *type = ty_list(c, head);
    Origin *ot = operand_origin(c, e->arg[1], PRIM_NONE, 2);
    ot->subject = "::";
    t = subsume(c, t, tail, *type, ot);
  }
  return core_items(c, CORE_CONS, e->span, 2, h, t);
}

/* A value that is compared as a whole: any value but a tensor.  A type that is
   not known yet is that of a tensor. */
static bool is_structure(Checker *c, Type *t) {
  TypeTag tag = ty_norm(c, t)->tag;
  return tag != TY_VAR && tag != TY_TENSOR && tag != TY_LIFT && tag != TY_CAST;
}

/* A value whose type is a variable of an annotation. */
static bool is_generic(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_VAR && t->var->skolem;
}

static bool is_unknown(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_VAR && !t->var->skolem;
}

static bool compares_structures(Checker *c, Expr *e, Type **types) {
  if (e->op < BIN_EQ || e->op > BIN_GE)
    return false;
  if (is_unknown(c, types[0]) && is_unknown(c, types[1]))
    return !guess_assume(c, e, e->arg[0]);
  return is_structure(c, types[0]) || is_structure(c, types[1]) ||
         (is_generic(c, types[0]) && is_generic(c, types[1]));
}

static PrimId prim_of_op(BinOp op) {
  static const PrimId prims[BIN_COUNT] = {
      [BIN_OR] = PRIM_OR,   [BIN_AND] = PRIM_AND, [BIN_EQ] = PRIM_EQ,
      [BIN_NE] = PRIM_NE,   [BIN_LT] = PRIM_LT,   [BIN_LE] = PRIM_LE,
      [BIN_GT] = PRIM_GT,   [BIN_GE] = PRIM_GE,   [BIN_APPEND] = PRIM_APPEND,
      [BIN_ADD] = PRIM_ADD, [BIN_SUB] = PRIM_SUB, [BIN_MUL] = PRIM_MUL,
      [BIN_DIV] = PRIM_DIV, [BIN_MOD] = PRIM_MOD, [BIN_MATMUL] = PRIM_MATMUL};
  return prims[op];
}

/* Infers both sides.  The right side of && and || is checked under the
   condition of the left one. */
static void infer_sides(Checker *c, Expr *e, Core **args, Type **types) {
  args[0] = infer(c, e->arg[0], &types[0]);
  bool cond = e->op == BIN_AND || e->op == BIN_OR;
  bool on_index = cond && condition_on_index(c, e->arg[0]);
  Assumption *assumptions = c->facts.assumptions;
  uint32_t part = cond ? control_region_begin(c) : c->facts.control_region;
  if (cond)
    condition_assume(c, e->arg[0], args[0], e->op == BIN_AND);
  c->loops.index_condition_depth += on_index;
  args[1] = infer(c, e->arg[1], &types[1]);
  c->loops.index_condition_depth -= on_index;
  control_region_end(c, part);
  if (cond)
    c->facts.assumptions = assumptions;
}

/* The origins of the complete expression, out[0], and of both operands. */
static void binary_origins(Checker *c, Expr *e, PrimId id, Type **types,
                           Origin **out) {
  Origin *o =
      origin_new(c, ORIGIN_OPERATOR, e->op_span.file ? e->op_span : e->span);
  o->subject = prim_info[id].name;
  o->prim = id;
  o->actual = types[0], o->expected = types[1];
  o->other_span = e->span;
  Origin *oa = operand_origin(c, e->arg[0], id, 1);
  Origin *ob = operand_origin(c, e->arg[1], id, 2);
  o->operands.left = oa->operands.left = ob->operands.left = e->arg[0];
  o->operands.right = oa->operands.right = ob->operands.right = e->arg[1];
  oa->other_span = e->arg[1]->span;
  ob->other_span = e->arg[0]->span;
  if (id == PRIM_MATMUL) {
    oa->actual = ob->actual = types[0];
    oa->expected = ob->expected = types[1];
    oa->span = ob->span = o->span;
  }
  out[0] = o, out[1] = oa, out[2] = ob;
}

/* Comparisons of values that are not tensors: `equal a b`, `not (equal a b)`,
   or `compare a b < 0` and its like. */
static Core *infer_structure_comparison(Checker *c, Expr *e, Core **args,
                                        Type **types, Type **type) {
  bool is_equality = e->op == BIN_EQ || e->op == BIN_NE;
  PrimId id = is_equality ? PRIM_EQUAL : PRIM_COMPARE;
  Origin *o[3];
  binary_origins(c, e, prim_of_op(e->op), types, o);
  Type *ft = scheme_instantiate(c, binding_scheme(c, binding_of_prim(c, id)),
                                o[0], NULL);
  Type *rest = ty_norm(c, ft->fun.result);
  uint32_t reported = c->solver.contradicted.len;
  args[0] = subsume(c, args[0], types[0], ft->fun.param, o[1]);
  if (reported == c->solver.contradicted.len)
    args[1] = subsume(c, args[1], types[1], rest->fun.param, o[2]);
  *type = ty_scalar(c, DT_BOOL, NULL);
  Core *core = prim_core(c, id, 2, args, NULL, e->span);
  if (e->op == BIN_EQ)
    return core;
  if (e->op == BIN_NE)
    return prim_core(c, PRIM_NOT, 1, &core, elem_fixed(c, DT_BOOL), e->span);
  Core *zero = core_new(c, CORE_NUM, e->span);
  zero->num = "0";
  zero->elem.var = elem_fixed(c, DT_I64);
  Core *sides[2] = {core, zero};
  return prim_core(c, prim_of_op(e->op), 2, sides, elem_fixed(c, DT_BOOL),
                   e->span);
}

/* Marks the inner dimension, for messages about calls of functions that contain
   the product. */
static void mark_matmul_inner(Checker *c, Type *left) {
  const Shape *s = shape_norm(c, ty_norm(c, left)->tensor.shape);
  DimVar *v = dim_as_var(s->axes[s->len - 1].dim);
  if (v)
    v->matmul_inner = true;
}

static Core *infer_binary(Checker *c, Expr *e, Type **type) {
  PrimId id = prim_of_op(e->op);
  Type *types[2];
  Core *args[2];
  infer_sides(c, e, args, types);
  if (compares_structures(c, e, types))
    return infer_structure_comparison(c, e, args, types, type);
  Origin *o[3];
  binary_origins(c, e, id, types, o);
  Type *ft = scheme_instantiate(c, binding_scheme(c, binding_of_prim(c, id)),
                                o[0], NULL);
  Type *rest = ty_norm(c, ft->fun.result), *r = rest->fun.result;
  uint32_t reported = c->solver.contradicted.len;
  if (id == PRIM_MATMUL)
    mark_matmul_inner(c, ft->fun.param);
  args[0] = subsume(c, args[0], types[0], ft->fun.param, o[1]);
  if (reported == c->solver.contradicted.len)
    args[1] = subsume(c, args[1], types[1], rest->fun.param, o[2]);
  if (id == PRIM_DIV || id == PRIM_MOD)
    track_division(c, id, types[0], types[1], ty_root(r), o[0]);
  if (e->op >= BIN_EQ && e->op <= BIN_GE)
    note_compared_sizes(c, e, types[0], types[1]);
  if (c->solver.progress && c->solver.pending.len)
    solve_pending(c);
  *type = error_reported_at(c, reported, o[0]->span, NULL) ? ty_meta(c) : r;
  Type *rn = ty_norm(c, r);
  Core *app = prim_core(c, id, 2, args,
                        rn->tag == TY_TENSOR ? rn->tensor.elem : NULL, e->span);
  if (id == PRIM_AND || id == PRIM_OR)
    app->checker_data =
        types[1]; /* only known later whether the right side always runs */
  return app;
}

static Core *infer_negate(Checker *c, Expr *e, Type **type) {
  Type *t;
  Core *arg = infer(c, e->arg[0], &t);
  Type *ft =
      scheme_instantiate(c, binding_scheme(c, binding_of_prim(c, PRIM_NEG)),
                         origin_new(c, ORIGIN_OPERATOR, e->span), NULL);
  arg = subsume(c, arg, t, ft->fun.param,
                operand_origin(c, e->arg[0], PRIM_NEG, 1));
  *type = ft->fun.result;
  return prim_core(c, PRIM_NEG, 1, &arg, ty_root(ft->fun.result)->tensor.elem,
                   e->span);
}

Core *infer_operator(Checker *c, Expr *e, Type *expected, Type **type) {
  if (e->kind == EX_NEG)
    return infer_negate(c, e, type);
  if (e->op == BIN_COMPOSE)
    return infer_compose(c, e, type);
  if (e->op == BIN_CONS)
    return infer_cons(c, e, expected, type);
  return infer_binary(c, e, type);
}
