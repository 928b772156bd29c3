/* Polymorphic recursion.  A function whose parameters and result are annotated
 * may call itself at other sizes and types than its own (Mycroft 1984): inside,
 * it is used by what its annotation says.  Its own scheme is known when its
 * body is; then each such use is made one of that scheme, and what the scheme
 * demands beyond the annotation is proved there, under the scheme's own
 * conditions. */
#include "typecheck/internal.h"

typedef struct PolyUse {
  Binding *binding;
  Core *core;
  Map map; /* variable of the annotation -> what it stands for */
  Fact *facts;
  Origin *origin;
} PolyUse;

/* ---- the scheme of an annotation ---- */

bool is_annotated(const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    if (!k->params[i].type && k->params[i].pat->kind != PAT_ASCRIBE)
      return false;
  return k->result != NULL;
}

/* What an annotation has just named belongs to its scheme. */
static void make_generic(Checker *c, Scope *s) {
  DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
  if (v && v->level >= c->level)
    v->level = LEVEL_GENERIC;
  if (s->shape && s->shape->len == 1 && s->shape->at[0].tag == IT_SPLICE)
    s->shape->at[0].var->level = LEVEL_GENERIC;
  if (s->elem)
    s->elem->level = LEVEL_GENERIC;
  if (s->tyvar)
    s->tyvar->level = LEVEL_GENERIC;
}

typedef struct Holes { /* of the type: what is neither named nor known */
  Checker *c;
  bool any;
} Holes;

static void hole_ty(void *arg, TyVar *v) {
  Holes *h = arg;
  h->any |= v->level != LEVEL_GENERIC && v->level >= h->c->level;
}
static void hole_elem(void *arg, ElemVar *v) {
  Holes *h = arg;
  h->any |= v->dtype == DT_NONE && v->level != LEVEL_GENERIC &&
            v->level >= h->c->level;
}
static void hole_dim(void *arg, DimVar *v) {
  Holes *h = arg;
  h->any |= !v->top && v->level != LEVEL_GENERIC && v->level >= h->c->level;
}
static void hole_shape(void *arg, ShapeVar *v) {
  Holes *h = arg;
  h->any |= v->level != LEVEL_GENERIC && v->level >= h->c->level;
}

Scheme *annotated_scheme(Checker *c, Clause *k, Type *skeleton) {
  if (!is_annotated(k))
    return NULL;
  Scope *mark = c->scope;
  uint32_t errors = c->diags->errors, n = k->param_count;
  uint32_t holes_before = c->unwritten.len;
  Constraints given = {0}, *outer = c->collect;
  c->collect = &given;
  Type **params = NEW_ARRAY(c->arena, Type *, n);
  for (uint32_t i = 0; i < n; i++)
    params[i] = annot_type(c, k->params[i].type ? k->params[i].type
                                                : k->params[i].pat->type,
                           AN_PARAM);
  annot_facts(c, k->given, AN_PARAM, false);
  Scope *named = c->scope;
  Type *t = annot_type(c, k->result, AN_RESULT);
  c->unwritten.len = holes_before; /* they are met again, and solved */
  bool closed = c->scope == named; /* the result names no size of its own */
  c->collect = outer;
  c->scope = mark;
  if (c->diags->errors > errors || !closed || named == mark)
    return NULL;
  for (Scope *s = named; s != mark; s = s->outer)
    make_generic(c, s);
  Type *arrow = skeleton;
  Effect *effect = NULL;
  for (uint32_t i = 0; i < n; i++, arrow = ty_norm(c, arrow->arg[1]))
    effect = arrow->effect;
  for (uint32_t i = n; i-- > 0;) {
    t = ty_fun(c, params[i], t, i + 1 == n ? effect : effect_pure(c));
    t->label = k->params[i].label;
    t->optional = k->params[i].preset != NULL;
  }
  Holes holes = {.c = c};
  Visit v = {.ty = hole_ty, .elem = hole_elem, .dim = hole_dim,
             .shape = hole_shape, .arg = &holes, .c = c};
  ty_visit(&v, t);
  if (holes.any)
    return NULL;
  Scheme *s = NEW(c->arena, Scheme);
  *s = (Scheme){.type = t, .given = given.at, .given_count = given.len,
                .poly = true};
  return s;
}

/* ---- uses ---- */

void polyrec_use(Checker *c, Binding *b, Core *core, Type **type, Origin *o) {
  Inst *inst;
  *type = scheme_instantiate(c, b->annotated, o, &inst);
  PolyUse *use = NEW(c->arena, PolyUse);
  *use = (PolyUse){b, core, {0}, c->facts, o};
  use->map = inst->map;
  VEC_PUSH(c->arena, b->group->poly, use);
}

/* ---- the same variables, in the annotation and in the scheme ---- */

typedef struct Pairs {
  Map *by_name; /* being read: name -> variable */
  Map *map;     /* being made: variable of the scheme -> what it stands for */
  const Map *use;
  bool misfit; /* an element type is not of the class that is wanted */
} Pairs;

static void pair(Pairs *p, Sym *name, void *var) {
  if (!name)
    return;
  if (!p->map) {
    map_put(p->by_name, name, var);
    return;
  }
  void *other = map_get(p->by_name, name);
  void *to = other ? map_get(p->use, other) : NULL;
  if (to)
    map_put(p->map, var, to);
}

static void pair_elem(void *arg, ElemVar *v) {
  Pairs *p = arg;
  if (v->level != LEVEL_GENERIC)
    return;
  pair(p, v->name, v);
  ElemVar *to = p->map ? map_get(p->map, v) : NULL;
  to = to ? elem_root(to) : NULL;
  if (!to || to == v || !(to->classes & ~v->classes))
    return;
  bool fixed = to->dtype != DT_NONE || to->level == LEVEL_GENERIC;
  if (!fixed)
    to->classes &= v->classes;
  p->misfit |= fixed || !to->classes;
}
static void pair_dim(void *p, DimVar *v) {
  if (v->level == LEVEL_GENERIC)
    pair(p, v->name, v);
}
static void pair_shape(void *p, ShapeVar *v) {
  if (v->level == LEVEL_GENERIC)
    pair(p, v->name, v);
}

/* Sizes, shapes and element types have names apart. */
static bool pair_all(Checker *c, Scheme *own, const PolyUse *use, Map *map) {
  bool fits = true;
  for (int kind = 0; kind < 3; kind++) {
    Map by_name;
    map_init(&by_name, c->arena);
    Pairs p = {.by_name = &by_name, .use = &use->map};
    Visit v = {.elem = kind == 0 ? pair_elem : NULL,
               .dim = kind == 1 ? pair_dim : NULL,
               .shape = kind == 2 ? pair_shape : NULL,
               .arg = &p,
               .c = c};
    ty_visit(&v, use->binding->annotated->type);
    p.map = map;
    ty_visit(&v, own->type);
    fits &= !p.misfit;
  }
  return fits;
}

/* The conditions of the scheme hold in its body. */
static void assume(Checker *c, const Scheme *s) {
  for (uint32_t i = 0; i < s->given_count; i++) {
    const Constraint *k = s->given[i];
    if ((k->kind == CN_DIM_LE || k->kind == CN_DIM_EQ) && !k->facts)
      fact_known(c, dim_sub(c->dims, k->right, k->left),
                 k->kind == CN_DIM_EQ);
  }
}

static void finish_use(Checker *c, PolyUse *use) {
  Scheme *own = use->binding->scheme;
  uint32_t errors = c->diags->errors, pending = c->pending.len;
  Fact *facts = c->facts;
  c->facts = use->facts;
  assume(c, own);
  Map map;
  map_init(&map, c->arena);
  bool fits = pair_all(c, own, use, &map);
  Inst *inst = scheme_at(c, own, map, use->origin);
  inst->core = use->core;
  use->core->inst = inst;
  c->facts = facts;
  bool open = !fits;
  for (uint32_t i = pending; i < c->pending.len; i++)
    open |= !c->pending.at[i]->done;
  c->pending.len = pending;
  if (!open || c->diags->errors > errors)
    return;
  Diag *d = error_at(c, 306, use->core->span,
                     "what `%s` demands is not known to hold for this call",
                     use->binding->name->text);
  d->note = arena_printf(c->arena, "%s : %s", use->binding->name->text,
                         scheme_text(c, own));
  d->help = "write the condition after `given`, or test it in an `if`";
}

void polyrec_finish(Checker *c, Group *group) {
  for (uint32_t i = 0; i < group->poly.len; i++)
    finish_use(c, group->poly.at[i]);
}
