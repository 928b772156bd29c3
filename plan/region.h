/* tensor: plans of a function that is compiled, for `axon build`.
 *
 * What is wanted at one place of the function is a region: it is planned and
 * put together as what runs at once is, but the sizes are no numbers yet
 * (tensor/extent.h), and its kernels are written and not run. */
#ifndef AXON_PLAN_REGION_H
#define AXON_PLAN_REGION_H

#include "plan/fusion_group.h"

typedef struct Region {
  uint32_t group_count, materialized_count;
  FusionGroup *const *groups; /* in order: what runs at once */
  Node **materialized;        /* their nodes, borrowed */
  struct Plan *plan;
} Region;

/* Of nodes that are not there yet.  May raise; region_release must run in any
 * case.
 */
void region_plan(Region *r, Arena *arena, Graph *g, uint32_t count,
                 Node *const *roots);
void region_release(Region *r);

#endif
