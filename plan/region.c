/* Plans of functions that are compiled. */
#include "plan/region.h"

#include "tensor/internal.h"

#include <string.h>

/* Marks are for the planner alone, and the next plan has its own. */
static void clear_marks(const Plan *plan) {
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
  plan_fuse(plan, count, roots);
  plan_build_groups(plan, true);
  clear_marks(plan);
  r->groups = plan->groups.at;
  r->group_count = plan->groups.len;
  r->materialized = NEW_ARRAY(arena, Node *, plan->materialized.len + 1);
  for (uint32_t k = 0; k < plan->materialized.len; k++)
    r->materialized[r->materialized_count++] = plan->materialized.at[k]->node;
}

void region_release(Region *r) {
  if (r->plan)
    plan_release(r->plan);
  r->plan = NULL;
}

bool node_has_shape(const Node *x, const NodeShape *s) {
  bool same = x->free_count == s->free_count && x->rank == s->rank;
  for (uint32_t k = 0; same && k < s->free_count; k++)
    same = x->free_vars[k] == s->free_vars[k];
  return same && (!s->rank || memcmp(x->extents + x->free_count, s->own_extents,
                                     s->rank * sizeof *s->own_extents) == 0);
}

Node *node_broadcast_to_shape(Graph *g, Node *x, const NodeShape *s,
                              Fault *fault) {
  NodeSpec spec = {.dtype = x->dtype, .broadcast_mask = s->broadcast_mask};
  spec.free_count = s->free_count;
  spec.rank = s->rank;
  uint32_t own[MAX_RANK];
  if (s->free_count)
    memcpy(spec.free_vars, s->free_vars, s->free_count * sizeof *s->free_vars);
  if (s->rank)
    memcpy(spec.own_extents, s->own_extents, s->rank * sizeof *s->own_extents);
  BodyBuilder b;
  body_init(&b, g, &spec);
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] =
        x->broadcast_mask >> k & 1 ? body_int(&b, 0) : body_own_axis(&b, k);
  body_read(&b, x, own);
  return body_finish(&b, g, fault);
}
