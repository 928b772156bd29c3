/* Statistics of constraints, by the classes of the table in doc/inference.md.
   Records a reason for each unproved one. */
#include "typecheck/solver.h"
#include "support/arena_text.h"

void note_runtime_check(Checker *c, Span span, const char *text,
                        const char *reason) {
  c->notes.stats.runtime++;
  UnprovedConstraint o = {span, text, reason, NULL};
  VEC_PUSH(c->arena, c->notes.unproved, o);
}

static bool mentions_products(const Constraint *k) {
  return dim_has_products(k->left) || dim_has_products(k->right);
}

static bool is_product_constraint(const Constraint *k) {
  const Origin *o = k->origin;
  return k->divisibility || mentions_products(k) ||
         (o && o->scheme && o->prim == PRIM_RESHAPE);
}

ConstraintClass constraint_class(const Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    return k->from_broadcast          ? CONSTRAINT_BROADCAST
           : is_product_constraint(k) ? CONSTRAINT_PRODUCT
                                      : CONSTRAINT_SIZE_EQ;
  case CN_DIM_NE:
    return CONSTRAINT_SIZE_EQ;
  case CN_DIM_LE:
    return CONSTRAINT_SIZE_LE;
  case CN_SHAPE_EQ:
    return CONSTRAINT_SHAPE_EQ;
  case CN_BROADCAST:
    return CONSTRAINT_BROADCAST;
  case CN_KEEP:
    return CONSTRAINT_KEEP;
  }
  return CONSTRAINT_NONE;
}

void stats_count_proved(Checker *c, const Constraint *k) {
  c->notes.stats.proved++;
  c->notes.stats.by_class[constraint_class(k)].proved++;
}

static const char *unproved_reason(Checker *c, Constraint *k) {
  if (!constraint_is_size(k))
    return "the rank is known only at run time";
  if (k->sufficient_only)
    return "sufficient for every loop index, but possibly too strict";
  VarKinds l = dim_var_kinds(c, k->left), r = dim_var_kinds(c, k->right);
  if (l.unknown || r.unknown)
    return "the size is unknown";
  if (l.index || r.index)
    return "the solver cannot bound a loop index";
  if (l.existential || r.existential)
    return "the size depends on data";
  if (mentions_products(k)) /* about the shape, not about its sizes */
    return "the rank is known only at run time";
  return "the solver can neither prove nor refute it";
}

void stats_count_unproved(Checker *c, Constraint *k) {
  c->notes.stats.by_class[constraint_class(k)].runtime++;
  const char *text = "shapes that broadcast";
  if (constraint_is_size(k)) {
    const char *x, *y;
    dims_text(c, k->left, k->right, &x, &y);
    text = arena_printf(c->arena, "%s %s %s", x,
                        k->kind == CN_DIM_EQ   ? "=="
                        : k->kind == CN_DIM_LE ? "<="
                                               : "!=",
                        y);
  }
  note_runtime_check(c, k->origin->span, text, unproved_reason(c, k));
}

/* Does not count givens that come from assumptions, not from constraints. */
void note_deferred(Checker *c, Scheme *s, Sym *name) {
  for (uint32_t i = 0; i < s->given_count; i++)
    if (s->given[i]->origin) {
      DeferredConstraint k = {s, s->given[i], name};
      VEC_PUSH(c->arena, c->notes.deferred, k);
      c->notes.stats.deferred++;
      c->notes.stats.by_class[constraint_class(k.given)].deferred++;
    }
}
