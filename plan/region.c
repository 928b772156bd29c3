/* Plans of regions of a compiled function. */
#include "plan/region.h"

#include "plan/plan.h"
#include "support/arena.h"

/* Marks belong to one planner run; the next plan sets its own. */
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
