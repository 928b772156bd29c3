/* What became of constraints, counted and told: by the rows of the table in
 * doc/inference.md, with the reason where one stays open. */
#include "typecheck/internal.h"

#include <string.h>

void open_note(Checker *c, Span span, const char *text, const char *reason) {
  c->stats.open++;
  OpenConstraint o = {span, text, reason, NULL};
  VEC_PUSH(c->arena, c->open, o);
}

static void mention_prod(void *arg, ShapeVar *v) {
  (void)v;
  *(bool *)arg = true;
}

static void mention_nothing(void *arg, DimVar *v) { (void)arg, (void)v; }

static bool mentions_products(const Constraint *k) {
  bool found = false;
  dim_each_var(k->left, mention_nothing, mention_prod, &found);
  dim_each_var(k->right, mention_nothing, mention_prod, &found);
  return found;
}

static bool is_of_products(const Constraint *k) {
  const Origin *o = k->origin;
  return k->divides || mentions_products(k) ||
         (o && o->scheme && o->what && strcmp(o->what, "reshape") == 0);
}

CheckRow constraint_row(const Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    return k->joins ? ROW_JOIN : is_of_products(k) ? ROW_PROD : ROW_SIZE;
  case CN_DIM_NE: return ROW_SIZE;
  case CN_DIM_LE: return ROW_LE;
  case CN_SHAPE_EQ: return ROW_SHAPE;
  case CN_JOIN: return ROW_JOIN;
  case CN_KEEP: return ROW_KEEP;
  }
  return ROW_NONE;
}

void tally_proved(Checker *c, const Constraint *k) {
  c->stats.proved++;
  c->stats.row[constraint_row(k)].proved++;
}

static const char *why_open(Checker *c, Constraint *k) {
  if (k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE && k->kind != CN_DIM_NE)
    return "a rank is not known before the program runs";
  if (k->enough)
    return "enough for every index of a loop, perhaps more than is needed";
  Census l = dim_census(c, k->left), r = dim_census(c, k->right);
  if (l.top || r.top)
    return "a size was forgotten";
  if (l.index || r.index)
    return "an index that the solver cannot bound";
  if (l.data || r.data)
    return "a size that data decides";
  if (mentions_products(k)) /* of a shape, not of its sizes */
    return "a rank is not known before the program runs";
  return "beyond what the solver decides";
}

void tally_open(Checker *c, Constraint *k) {
  c->stats.row[constraint_row(k)].open++;
  const char *text = "shapes that join";
  if (k->kind == CN_DIM_EQ || k->kind == CN_DIM_LE || k->kind == CN_DIM_NE)
  {
    const char *x, *y;
    dims_text(c, k->left, k->right, &x, &y);
    text = arena_printf(c->arena, "%s %s %s", x,
                        k->kind == CN_DIM_EQ   ? "=="
                        : k->kind == CN_DIM_LE ? "<="
                                               : "!=",
                        y);
  }
  open_note(c, k->origin->span, text, why_open(c, k));
}

/* What is merely known of its sizes comes from no demand. */
void note_carried(Checker *c, Scheme *s, Sym *name) {
  for (uint32_t i = 0; i < s->given_count; i++)
    if (s->given[i]->origin) {
      Carried k = {s, s->given[i], name};
      VEC_PUSH(c->arena, c->carried, k);
      c->stats.carried++;
      c->stats.row[constraint_row(k.given)].carried++;
    }
}
