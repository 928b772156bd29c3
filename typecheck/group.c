/* Functions that call themselves and one another: their types, and what they
 * are handed beside their arguments. */
#include "typecheck/internal.h"

static Type *fun_skeleton(Checker *c, Clause *k, Type *t) {
  for (uint32_t i = k->param_count; i-- > 0;) {
    t = ty_fun(c, ty_meta(c), t, effect_var(c));
    t->label = k->params[i].label;
    t->optional = k->params[i].preset != NULL;
  }
  return t;
}

/* The parameters as in t, and a result of which nothing is said. */
static Type *params_of(Checker *c, const Fun *f, Type *t) {
  uint32_t n = f->clauses[0].param_count;
  return map_get(&c->forgotten, f) ? fun_params(c, t, n) : t;
}

/* Results of a recursive function whose sizes each call decides are different
 * results already where it calls itself: it is checked once more, knowing
 * that. */
static void note_result(Checker *c, const Fun *f, Type *t, uint32_t mark) {
  for (uint32_t i = 0; i < f->clauses[0].param_count; i++)
    t = ty_norm(c, t)->arg[1];
  if (!result_differs(c, t, mark) || map_get(&c->forgotten, f))
    return;
  map_put(&c->forgotten, f, t);
  c->again = true;
}

static Type *result_before(Checker *c, const Fun *f) {
  Type *t = map_get(&c->forgotten, f);
  return t ? result_anew(c, t) : ty_meta(c);
}

static void add_hidden_to_uses(Checker *c, Group *g, Scheme *s) {
  for (uint32_t i = 0; s->hidden.len && i < g->uses.len; i++) {
    Core *use = g->uses.at[i];
    Core *var = core_new(c, CORE_VAR, use->span);
    *var = *use;
    use->kind = CORE_TAPP;
    use->items = NEW(c->arena, Core *);
    use->items[0] = var;
    use->item_count = 1;
    use->hidden_count = s->hidden.len;
    use->hidden = NEW_ARRAY(c->arena, Hidden, s->hidden.len);
    for (uint32_t k = 0; k < s->hidden.len; k++) {
      Hidden h = s->hidden.at[k];
      if (h.kind == HID_DIM)
        h.dim = dim_of_var(c->dims, h.dim_var);
      if (h.kind == HID_SHAPE) {
        h.shape.at = NEW(c->arena, ShapeItem);
        h.shape.at[0] =
            (ShapeItem){.kind = SI_SPLICE, .var = h.shape_var};
        h.shape.len = 1;
      }
      use->hidden[k] = h;
    }
  }
}

/* The functions of a group share their variables, and so what they are handed
 * beside their arguments. */
static void hidden_of_all(Checker *c, Group *g, uint32_t n, Scheme **schemes,
                          Core **items) {
  for (uint32_t i = 0; i < n; i++) {
    if (i)
      schemes[i]->hidden.len = 0;
    hidden_collect(c, schemes[0], items[i]);
  }
  add_hidden_to_uses(c, g, schemes[0]);
  for (uint32_t i = 1; i < n; i++)
    schemes[i]->hidden = schemes[0]->hidden;
}

/* Those that are annotated have variables of their own.  What one needs, those
 * that call it may need as well. */
static void hidden_of_each(Checker *c, Group *g, uint32_t n, Scheme **schemes,
                           Core **items) {
  polyrec_finish(c, g);
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t before = schemes[i]->hidden.len;
      hidden_collect(c, schemes[i], items[i]);
      more |= schemes[i]->hidden.len > before;
    }
  }
}

/* The names of the group stand for themselves in it; types: a function of as
 * many arguments each, of which nothing else is known. */
static void bind_group(Checker *c, Dec *dec, Group *g, bool top, Binding **bs,
                       Type **types) {
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    Fun *f = &dec->funs[i];
    Binding *b = bs[i] = binding_new(c, BK_VALUE, f->name, f->name_span);
    types[i] = fun_skeleton(c, &f->clauses[0], result_before(c, f));
    b->scheme = scheme_mono(c, types[i]);
    b->var = var_new(c, f->name, f->name_span, top);
    b->recursive = true;
    b->group = g;
    b->doc = dec->doc;
    b->clause = f->clause_count == 1 ? &f->clauses[0] : NULL;
    scope_push(c, f->name, b);
    for (uint32_t k = 0; k < f->clause_count; k++)
      places_binding(c, f->clauses[k].name_span, b, NULL);
  }
}

/* Where annotations say all of each of them: else they share variables. */
static void group_annotated(Checker *c, Dec *dec, Binding **bs,
                            Type *const *types) {
  bool all = true;
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    bs[i]->annotated = annotated_scheme(c, dec->funs[i].clauses, types[i]);
    all &= bs[i]->annotated != NULL;
  }
  for (uint32_t i = 0; i < dec->fun_count && !all; i++)
    bs[i]->annotated = NULL;
}

static Core *infer_member(Checker *c, const Fun *f, const Binding *b,
                          Type **type, uint32_t mark) {
  Type *t;
  Scope *inner = c->scope;
  Core *core = clauses_core(c, f->clauses, f->clause_count, f->name_span,
                            params_of(c, f, *type), NULL, &t);
  c->scope = inner;
  Origin *o = origin_new(c, OR_RESULT, f->name_span);
  if (!unify(c, *type, t, o))
    mismatch(c, t, *type, o);
  *type = t;
  if (b->used)
    note_result(c, f, t, mark);
  return core;
}

/* Each function gets the type that it has for its users. */
static void generalise_group(Checker *c, Dec *dec, Group *g, Binding **bs,
                             Type **types, Core **items, uint32_t pending) {
  uint32_t n = dec->fun_count;
  bool annotated = bs[0]->annotated != NULL, top = bs[0]->var->global;
  Scheme **schemes = NEW_ARRAY(c->arena, Scheme *, n);
  scheme_generalise(c, n, types, schemes, pending);
  checks_place(c);
  if (top)
    note_carried(c, schemes[0], bs[0]->name);
  for (uint32_t i = 0; i < n; i++)
    bs[i]->scheme = schemes[i];
  if (annotated)
    hidden_of_each(c, g, n, schemes, items);
  else
    hidden_of_all(c, g, n, schemes, items);
  for (uint32_t i = 0; i < n; i++) {
    items[i] = with_hidden(c, schemes[i], items[i]);
    bs[i]->recursive = false;
    bs[i]->group = NULL;
    if (top && c->bound)
      VEC_PUSH(c->arena, *c->bound, bs[i]);
  }
}

CoreDec *infer_fun(Checker *c, Dec *dec, bool top) {
  uint32_t n = dec->fun_count, pending = c->pending.len;
  uint32_t mark = c->dims->next_id;
  Group group = {.outer = c->group};
  Binding **bs = NEW_ARRAY(c->arena, Binding *, n);
  Type **types = NEW_ARRAY(c->arena, Type *, n);
  CoreDec *d = NEW(c->arena, CoreDec);
  d->kind = CD_FUNS;
  d->span = dec->span;
  d->vars = NEW_ARRAY(c->arena, Var *, n);
  d->items = NEW_ARRAY(c->arena, Core *, n);
  d->var_count = n;
  unique_funs(c, dec);
  c->level++;
  c->group = &group;
  Effect *outer = c->effect;
  Fact *facts = c->facts;
  Scope *saved = c->scope;
  bind_group(c, dec, &group, top, bs, types);
  group_annotated(c, dec, bs, types);
  for (uint32_t i = 0; i < n; i++) {
    d->vars[i] = bs[i]->var;
    d->items[i] =
        infer_member(c, &dec->funs[i], bs[i], &types[i], mark);
  }
  solve_pending(c);
  c->level--;
  c->effect = outer;
  c->facts = facts;
  generalise_group(c, dec, &group, bs, types, d->items, pending);
  c->group = group.outer;
  if (top)
    c->scope = saved;
  return d;
}
