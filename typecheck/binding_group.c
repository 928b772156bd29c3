/* Recursive binding groups: types and implicit parameters of functions that
   call themselves and each other.  Main entry point: infer_fun. */
#include "typecheck/internal.h"
#include "support/arena.h"

static Type *fun_skeleton(Checker *c, Clause *k, Type *t) {
  for (uint32_t i = k->param_count; i-- > 0;) {
    t = ty_fun(c, ty_meta(c), t, effect_var(c));
    t->fun.label = k->params[i].label;
    t->fun.optional = k->params[i].default_value != NULL;
  }
  return t;
}

/* The parameters of t with a new result type. */
static Type *params_with_fresh_result(Checker *c, const FunDef *f, Type *t) {
  uint32_t n = f->clauses[0].param_count;
  return map_get(&c->inference.retracted_singletons, f)
             ? fun_with_fresh_result(c, t, n)
             : t;
}

/* If each call of a recursive function decides sizes of its result, recursive
   calls return different sizes too.  Then the function is checked again with
   that knowledge. */
static void note_varying_result(Checker *c, const FunDef *f, Type *t,
                                uint32_t mark) {
  for (uint32_t i = 0; i < f->clauses[0].param_count; i++)
    t = ty_norm(c, t)->fun.result;
  if (!result_size_varies(c, t, mark) ||
      map_get(&c->inference.retracted_singletons, f))
    return;
  map_put(&c->inference.retracted_singletons, f, t);
  c->inference.needs_recheck = true;
}

static Type *result_of_last_pass(Checker *c, const FunDef *f) {
  Type *t = map_get(&c->inference.retracted_singletons, f);
  return t ? result_fresh_copy(c, t) : ty_meta(c);
}

static void pass_implicits_to_occurrences(Checker *c, BindingGroup *g,
                                          Scheme *s) {
  for (uint32_t i = 0; s->implicits.len && i < g->occurrences.len; i++) {
    Core *use = g->occurrences.at[i];
    Core *var = core_new(c, CORE_VAR, use->span);
    *var = *use;
    use->kind = CORE_TAPP;
    use->items = NEW(c->arena, Core *);
    use->items[0] = var;
    use->item_count = 1;
    use->implicit_count = s->implicits.len;
    use->implicits = NEW_ARRAY(c->arena, ImplicitArg, s->implicits.len);
    for (uint32_t k = 0; k < s->implicits.len; k++) {
      ImplicitArg h = s->implicits.at[k];
      if (h.kind == IMPLICIT_DIM)
        h.dim = dim_of_var(c->dims, h.dim_var);
      if (h.kind == IMPLICIT_SHAPE) {
        h.shape.axes = NEW(c->arena, CoreAxis);
        h.shape.axes[0] =
            (CoreAxis){.kind = CORE_AXIS_SPLICE, .var = h.shape_var};
        h.shape.len = 1;
      }
      use->implicits[k] = h;
    }
  }
}

/* The functions of a group share their type variables, and so their implicit
   parameters. */
static void collect_shared_implicits(Checker *c, BindingGroup *g, uint32_t n,
                                     Scheme **schemes, Core **items) {
  for (uint32_t i = 0; i < n; i++) {
    if (i)
      schemes[i]->implicits.len = 0;
    implicit_collect(c, schemes[0], items[i]);
  }
  if (n == 1)
    required_sizes_mark(c, schemes[0], items[0]);
  pass_implicits_to_occurrences(c, g, schemes[0]);
  for (uint32_t i = 1; i < n; i++)
    schemes[i]->implicits = schemes[0]->implicits;
}

/* Annotated functions have type variables of their own.  A function needs the
   implicit parameters of those that it calls. */
static void collect_own_implicits(Checker *c, BindingGroup *g, uint32_t n,
                                  Scheme **schemes, Core **items) {
  polyrec_finish(c, g);
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t before = schemes[i]->implicits.len;
      implicit_collect(c, schemes[i], items[i]);
      more |= schemes[i]->implicits.len > before;
    }
  }
  for (uint32_t i = 0; i < n; i++)
    required_sizes_mark(c, schemes[i], items[i]);
}

/* Binds the names of the group to function types with the right number of
   arguments; nothing else is known of them. */
static void bind_group(Checker *c, Dec *dec, BindingGroup *g, bool top,
                       Binding **bindings, Type **types) {
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    FunDef *f = &dec->funs[i];
    Binding *b = bindings[i] = binding_new(c, BK_VALUE, f->name, f->name_span);
    types[i] = fun_skeleton(c, &f->clauses[0], result_of_last_pass(c, f));
    b->scheme = scheme_mono(c, types[i]);
    b->value.var = var_new(c, f->name, f->name_span, top);
    b->value.recursive = true;
    b->value.group = g;
    b->doc = dec->doc;
    b->value.clause = f->clause_count == 1 ? &f->clauses[0] : NULL;
    scope_push(c, f->name, b);
    for (uint32_t k = 0; k < f->clause_count; k++)
      refs_add_binding(c, f->clauses[k].name_span, b, NULL);
  }
}

/* True if annotations give the complete type of every function.  Otherwise the
   functions share variables. */
static void group_annotated(Checker *c, Dec *dec, Binding **bindings,
                            Type *const *types) {
  bool all = true;
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    bindings[i]->value.annotation_scheme =
        annotated_scheme(c, dec->funs[i].clauses, types[i]);
    all &= bindings[i]->value.annotation_scheme != NULL;
  }
  for (uint32_t i = 0; i < dec->fun_count && !all; i++)
    bindings[i]->value.annotation_scheme = NULL;
}

static Core *infer_group_member(Checker *c, const FunDef *f, const Binding *b,
                                Type **type, uint32_t mark) {
  Type *t;
  Scope *inner = c->names.scope;
  Core *core = infer_clauses(c, f->clauses, f->clause_count, f->name_span,
                             params_with_fresh_result(c, f, *type), NULL, &t);
  c->names.scope = inner;
  Origin *o = origin_new(c, ORIGIN_RESULT, f->name_span);
  if (!unify(c, *type, t, o))
    report_type_mismatch(c, t, *type, o);
  *type = t;
  if (b->value.used_recursively)
    note_varying_result(c, f, t, mark);
  return core;
}

/* Generalizes the type of each function. */
static void generalize_group(Checker *c, Dec *dec, BindingGroup *g,
                             Binding **bindings, Type **types, Core **items,
                             uint32_t pending) {
  uint32_t n = dec->fun_count;
  bool annotated = bindings[0]->value.annotation_scheme != NULL,
       top = bindings[0]->value.var->global;
  Scheme **schemes = NEW_ARRAY(c->arena, Scheme *, n);
  scheme_generalize(c, n, types, schemes, pending);
  runtime_checks_insert(c);
  dependent_check(c, schemes[0]);
  if (top)
    note_deferred(c, schemes[0], bindings[0]->name);
  for (uint32_t i = 0; i < n; i++)
    bindings[i]->scheme = schemes[i];
  if (annotated)
    collect_own_implicits(c, g, n, schemes, items);
  else
    collect_shared_implicits(c, g, n, schemes, items);
  for (uint32_t i = 0; i < n; i++) {
    items[i] = abstract_implicits(c, schemes[i], items[i]);
    bindings[i]->value.recursive = false;
    bindings[i]->value.group = NULL;
    if (top && c->inference.pattern_bindings)
      VEC_PUSH(c->arena, *c->inference.pattern_bindings, bindings[i]);
  }
}

CoreDec *infer_fun(Checker *c, Dec *dec, bool top) {
  uint32_t n = dec->fun_count, pending = c->solver.pending.len;
  uint32_t mark = c->dims->next_id;
  BindingGroup group = {.outer = c->inference.binding_group};
  Binding **bindings = NEW_ARRAY(c->arena, Binding *, n);
  Type **types = NEW_ARRAY(c->arena, Type *, n);
  CoreDec *d = NEW(c->arena, CoreDec);
  d->kind = CD_FUNS;
  d->span = dec->span;
  d->vars = NEW_ARRAY(c->arena, Var *, n);
  d->items = NEW_ARRAY(c->arena, Core *, n);
  d->var_count = n;
  uint32_t outer_params = c->inference.params.len;
  check_unique_funs(c, dec);
  c->inference.level++;
  c->inference.binding_group = &group;
  Effect *outer = c->inference.effect;
  Assumption *assumptions = c->facts.assumptions;
  Scope *saved = c->names.scope;
  bind_group(c, dec, &group, top, bindings, types);
  group_annotated(c, dec, bindings, types);
  for (uint32_t i = 0; i < n; i++) {
    d->vars[i] = bindings[i]->value.var;
    d->items[i] =
        infer_group_member(c, &dec->funs[i], bindings[i], &types[i], mark);
  }
  bool recursive = false;
  for (uint32_t i = 0; i < n; i++)
    recursive |= bindings[i]->value.used_recursively;
  if (top && recursive)
    c->inference.recursive_types = types;
  solve_pending(c);
  c->inference.level--;
  c->inference.effect = outer;
  c->facts.assumptions = assumptions;
  generalize_group(c, dec, &group, bindings, types, d->items, pending);
  c->inference.params.len = outer_params;
  c->inference.binding_group = group.outer;
  if (top)
    c->names.scope = saved;
  return d;
}
