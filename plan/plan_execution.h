/* The execution of one plan, for execute.c and loop_execute.c. */
#ifndef AXON_PLAN_PLAN_EXECUTION_H
#define AXON_PLAN_PLAN_EXECUTION_H

#include "plan/cached_plan.h"
#include "support/vec.h"

typedef struct Arena Arena;

typedef struct PlanExecution {
  Arena *arena; /* arena for all of this; the graph reuses it */
  Graph *graph;
  Plan plan;
  PlanKey key;
  double expected_runs; /* how often the plan is expected to run */
  /* The cached plan whose nodes it holds; or NULL. */
  const CachedPlan *cached_plan;
  uint32_t group_count;
  FusionGroup *const *groups;
  /* For an observer, instead of a cached plan: nodes of several groups. */
  VEC(Node *) copied;
  VEC(Tensor *) mapped; /* operands in mapped files, retained */
  VEC(Tensor *) files;  /* one of them for each file */
} PlanExecution;
/* Set run->expected_runs first.  Call plan_execution_end in any case. */
void plan_execution_begin(Graph *g, PlanExecution *run);
void plan_execution_end(PlanExecution *run);
/* Prepares the groups of a cached plan or of a new one. */
bool plan_execution_prepare(PlanExecution *run, uint32_t count,
                            Node *const *roots, Fault *fault);
/* The same for an observer, which is notified.  The plan is not cached. */
bool plan_execution_prepare_observed(PlanExecution *run, uint32_t count,
                                     Node *const *roots, Fault *fault);
/* Returns false if a mapped file has changed.  Then nothing that was computed
 * since the last check is valid. */
bool run_is_whole(const PlanExecution *run, Fault *fault);
/* Runs a group.  Its nodes then have data.  They keep their bodies. */
bool plan_execution_run_group(Graph *g, FusionGroup *group, uint32_t at,
                              Span *where, Fault *fault);

#endif
