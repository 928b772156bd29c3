/* Regions of a compiled function, for `axon build`.
 *
 * A region is the set of values that are needed at one place of the function.
 * It is planned like a graph that runs immediately.  But its sizes are symbolic
 * (tensor/extent.h), and its kernels are emitted, not run. */
#ifndef AXON_PLAN_REGION_H
#define AXON_PLAN_REGION_H

#include "plan/fusion_group.h"

typedef struct Arena Arena;

typedef struct Region {
  uint32_t group_count, materialized_count;
  FusionGroup *const *groups; /* in order of execution */
  Node **materialized;        /* the nodes of the groups, borrowed */
  struct Plan *plan;
} Region;

/* Plans nodes that have no data yet.  It may raise; the caller must call
 * region_release in any case. */
void region_plan(Region *r, Arena *arena, Graph *g, uint32_t count,
                 Node *const *roots);
void region_release(Region *r);

#endif
