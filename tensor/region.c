/* Plans of functions that are compiled. */
#include "tensor/region.h"

#include "tensor/internal.h"

#include <string.h>

/* Marks are for the planner alone, and the next plan has its own. */
static void forget_marks(const Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    if (plan->nodes.at[k]->node)
      plan->nodes.at[k]->node->mark = 0;
}

void region_plan(Region *r, Arena *arena, Graph *g, uint32_t count,
                 Node *const *roots) {
  *r = (Region){.plan = NEW(arena, Plan)};
  Plan *plan = r->plan;
  plan->arena = arena;
  plan->graph = g;
  plan_make(plan, count, roots);
  plan_cluster(plan, true);
  forget_marks(plan);
  r->clusters = plan->clusters.at;
  r->cluster_count = plan->clusters.len;
  r->stored = NEW_ARRAY(arena, Node *, plan->stored.len + 1);
  for (uint32_t k = 0; k < plan->stored.len; k++)
    r->stored[r->stored_count++] = plan->stored.at[k]->node;
}

void region_end(Region *r) {
  if (r->plan)
    plan_end(r->plan);
  r->plan = NULL;
}

bool node_has_shape(const Node *x, const Shape *s) {
  bool same = x->free_count == s->free_count && x->rank == s->rank;
  for (uint32_t k = 0; same && k < s->free_count; k++)
    same = x->free[k] == s->free[k];
  return same && (!s->rank || memcmp(x->extents + x->free_count, s->own,
                                     s->rank * sizeof *s->own) == 0);
}

Node *node_shaped(Graph *g, Node *x, const Shape *s, Fault *fault) {
  Form form = {.dtype = x->dtype, .stars = s->stars};
  form.free_count = s->free_count;
  form.rank = s->rank;
  uint32_t own[RANK_MAX];
  if (s->free_count)
    memcpy(form.free, s->free, s->free_count * sizeof *s->free);
  if (s->rank)
    memcpy(form.own, s->own, s->rank * sizeof *s->own);
  Body b;
  body_init(&b, g, &form);
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = x->stars >> k & 1 ? body_int(&b, 0) : body_own(&b, k);
  body_read(&b, x, own);
  return body_node(&b, g, fault);
}
