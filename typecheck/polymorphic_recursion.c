/* Polymorphic recursion.  A function whose parameters and result are annotated
   may call itself at other sizes and types (Mycroft 1984).  Inside its
   definition, its annotation is its type.  Once the body is checked, its scheme
   is known, and each such use becomes an instance of the scheme.  Constraints
   of the scheme that the annotation does not contain are proved there, assuming
   the scheme's own constraints. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

typedef struct PolyrecUse {
  Binding *binding;
  Core *core;
  Map substitution; /* maps variables of the annotation to their instances */
  Assumption *facts;
  Origin *origin;
} PolyrecUse;

/* ---- the scheme of an annotation ---- */

/* (x : f32[n]), and tuples of such patterns. */
static bool pattern_is_annotated(const Pat *p) {
  if (p->kind != PAT_TUPLE || !p->arg_count)
    return p->kind == PAT_ASCRIBE;
  for (uint32_t i = 0; i < p->arg_count; i++)
    if (!pattern_is_annotated(p->args[i]))
      return false;
  return true;
}

bool clause_is_annotated(const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    if (!k->params[i].type && !pattern_is_annotated(k->params[i].pat))
      return false;
  return k->result != NULL;
}

/* Variables that an annotation has just named belong to its scheme. */
static void make_generic(Checker *c, Scope *s) {
  DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
  if (v && v->level >= c->inference.level)
    v->level = LEVEL_GENERIC;
  if (s->shape && s->shape->len == 1 && s->shape->axes[0].tag == SHAPE_SPLICE)
    s->shape->axes[0].var->level = LEVEL_GENERIC;
  if (s->elem)
    s->elem->level = LEVEL_GENERIC;
  if (s->tyvar)
    s->tyvar->level = LEVEL_GENERIC;
}

typedef struct UnsolvedVars { /* variables of the type that are neither named
                                 nor solved */
  Checker *c;
  bool any;
} UnsolvedVars;

static void note_unsolved_ty(void *arg, TyVar *v) {
  UnsolvedVars *h = arg;
  h->any |= v->level != LEVEL_GENERIC && v->level >= h->c->inference.level;
}
static void note_unsolved_elem(void *arg, ElemVar *v) {
  UnsolvedVars *h = arg;
  h->any |= v->dtype == DT_NONE && v->level != LEVEL_GENERIC &&
            v->level >= h->c->inference.level;
}
static void note_unsolved_dim(void *arg, DimVar *v) {
  UnsolvedVars *h = arg;
  h->any |= !v->unknown && v->level != LEVEL_GENERIC &&
            v->level >= h->c->inference.level;
}
static void note_unsolved_shape(void *arg, ShapeVar *v) {
  UnsolvedVars *h = arg;
  h->any |= v->level != LEVEL_GENERIC && v->level >= h->c->inference.level;
}

static Type *annotated_pattern_type(Checker *c, const Pat *p) {
  if (p->kind != PAT_TUPLE)
    return annot_type(c, p->type, ANNOT_PARAM);
  Type **parts = NEW_ARRAY(c->arena, Type *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++)
    parts[i] = annotated_pattern_type(c, p->args[i]);
  return ty_tuple(c, p->arg_count, parts);
}

Scheme *annotated_scheme(Checker *c, Clause *k, Type *skeleton) {
  if (!clause_is_annotated(k))
    return NULL;
  Scope *mark = c->names.scope;
  uint32_t errors = c->diags->errors, n = k->param_count;
  uint32_t holes_before = c->notes.typed_holes.len;
  Constraints given = {0}, *outer = c->names.collected_givens;
  c->names.collected_givens = &given;
  Type **params = NEW_ARRAY(c->arena, Type *, n);
  for (uint32_t i = 0; i < n; i++)
    params[i] = k->params[i].type
                    ? annot_type(c, k->params[i].type, ANNOT_PARAM)
                    : annotated_pattern_type(c, k->params[i].pat);
  annot_givens(c, k->given, ANNOT_PARAM, false);
  Scope *named = c->names.scope;
  Type *t = annot_type(c, k->result, ANNOT_RESULT);
  c->notes.typed_holes.len = holes_before; /* they are read and solved again */
  bool closed = c->names.scope == named;   /* the result introduces no size */
  c->names.collected_givens = outer;
  c->names.scope = mark;
  if (c->diags->errors > errors || !closed || named == mark)
    return NULL;
  for (Scope *s = named; s != mark; s = s->outer)
    make_generic(c, s);
  Type *arrow = skeleton;
  Effect *effect = NULL;
  for (uint32_t i = 0; i < n; i++, arrow = ty_norm(c, arrow->fun.result))
    effect = arrow->fun.effect;
  for (uint32_t i = n; i-- > 0;) {
    t = ty_fun(c, params[i], t, i + 1 == n ? effect : effect_pure(c));
    t->fun.label = k->params[i].label;
    t->fun.optional = k->params[i].default_value != NULL;
  }
  UnsolvedVars holes = {.c = c};
  TypeVisitor v = {.ty = note_unsolved_ty,
                   .elem = note_unsolved_elem,
                   .dim = note_unsolved_dim,
                   .shape = note_unsolved_shape,
                   .arg = &holes,
                   .c = c};
  ty_visit(&v, t);
  if (holes.any)
    return NULL;
  Scheme *s = NEW(c->arena, Scheme);
  *s = (Scheme){.type = t,
                .given = given.at,
                .given_count = given.len,
                .is_polymorphic = true};
  return s;
}

/* ---- uses ---- */

void polyrec_use(Checker *c, Binding *b, Core *core, Type **type, Origin *o) {
  SchemeInstance *instance;
  *type = scheme_instantiate(c, b->value.annotation_scheme, o, &instance);
  PolyrecUse *use = NEW(c->arena, PolyrecUse);
  *use = (PolyrecUse){b, core, {0}, c->facts.assumptions, o};
  use->substitution = instance->substitution;
  VEC_PUSH(c->arena, b->value.group->polyrec_uses, use);
}

/* ---- matching variables of the annotation and the scheme ---- */

typedef struct VarPairing {
  Checker *c;
  Map *by_name; /* phase 1: maps names to variables */
  Map *map;     /* phase 2: maps variables of the scheme to instances */
  const Map *use;
  bool class_mismatch; /* an element type is not in the required class */
} VarPairing;

static void pair_var(VarPairing *p, Sym *name, void *var) {
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
  VarPairing *p = arg;
  if (v->level != LEVEL_GENERIC)
    return;
  pair_var(p, v->name, v);
  ElemVar *to = p->map ? map_get(p->map, v) : NULL;
  to = to ? elem_root(to) : NULL;
  if (!to || to == v || !(to->classes & ~v->classes))
    return;
  bool fixed = to->dtype != DT_NONE || to->level == LEVEL_GENERIC;
  if (!fixed) {
    global_elem_save(p->c, to);
    to->classes &= v->classes;
  }
  p->class_mismatch |= fixed || !to->classes;
}
static void pair_dim(void *p, DimVar *v) {
  if (v->level == LEVEL_GENERIC)
    pair_var(p, v->name, v);
}
static void pair_shape(void *p, ShapeVar *v) {
  if (v->level == LEVEL_GENERIC)
    pair_var(p, v->name, v);
}

/* Sizes, shapes and element types have separate namespaces. */
static bool pair_all(Checker *c, Scheme *own, const PolyrecUse *use, Map *map) {
  bool fits = true;
  for (int kind = 0; kind < 3; kind++) {
    Map by_name;
    map_init(&by_name, c->arena);
    VarPairing p = {.c = c, .by_name = &by_name, .use = &use->substitution};
    TypeVisitor v = {.elem = kind == 0 ? pair_elem : NULL,
                     .dim = kind == 1 ? pair_dim : NULL,
                     .shape = kind == 2 ? pair_shape : NULL,
                     .arg = &p,
                     .c = c};
    ty_visit(&v, use->binding->value.annotation_scheme->type);
    p.map = map;
    ty_visit(&v, own->type);
    fits &= !p.class_mismatch;
  }
  return fits;
}

/* Assumes the constraints of the scheme in its body. */
static void assume_givens(Checker *c, const Scheme *s) {
  for (uint32_t i = 0; i < s->given_count; i++) {
    const Constraint *k = s->given[i];
    if ((k->kind == CN_DIM_LE || k->kind == CN_DIM_EQ) && !k->assumptions)
      assumption_add_unconditional(c, dim_sub(c->dims, k->right, k->left),
                                   k->kind == CN_DIM_EQ);
  }
}

static void finish_use(Checker *c, PolyrecUse *use) {
  Scheme *own = use->binding->scheme;
  uint32_t errors = c->diags->errors, pending = c->solver.pending.len;
  Assumption *assumptions = c->facts.assumptions;
  c->facts.assumptions = use->facts;
  assume_givens(c, own);
  Map map;
  map_init(&map, c->arena);
  bool fits = pair_all(c, own, use, &map);
  SchemeInstance *instance = scheme_instance_of(c, own, map, use->origin);
  instance->core = use->core;
  use->core->checker_data = instance;
  c->facts.assumptions = assumptions;
  bool undischarged = !fits;
  for (uint32_t i = pending; i < c->solver.pending.len; i++)
    undischarged |= !c->solver.pending.at[i]->solved;
  c->solver.pending.len = pending;
  if (!undischarged || c->diags->errors > errors)
    return;
  Diag *d = error_at(c, 306, use->core->span,
                     "cannot prove the conditions of `%s` for this call",
                     use->binding->name->text);
  d->note = arena_printf(c->arena, "%s : %s", use->binding->name->text,
                         scheme_text(c, own));
  d->help = "add the condition after `given`, or test it with `if`";
}

void polyrec_finish(Checker *c, BindingGroup *group) {
  for (uint32_t i = 0; i < group->polyrec_uses.len; i++)
    finish_use(c, group->polyrec_uses.at[i]);
}
