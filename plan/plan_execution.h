/* The run of one plan, for execute.c and loop_execute.c. */
#ifndef AXON_PLAN_PLAN_EXECUTION_H
#define AXON_PLAN_PLAN_EXECUTION_H

#include "plan/cached_plan.h"

typedef struct PlanExecution {
  Arena *arena; /* of all this; the graph keeps it for the next one */
  Graph *graph;
  Plan plan;
  PlanKey key;
  double expected_runs;          /* that what is planned is to run */
  const CachedPlan *cached_plan; /* whose nodes it holds; or NULL */
  uint32_t group_count;          /* of clusters */
  FusionGroup *const *groups;
  VEC(Tensor *) mapped; /* of what it reads, those that lie in files */
} PlanExecution;
void plan_execution_begin(Graph *g,
                          PlanExecution *run); /* run->expected_runs is there;
                                                  plan_execution_end must run */
void plan_execution_end(PlanExecution *run);
/* The clusters, of a plan that there is or a new one. */
bool plan_execution_prepare(PlanExecution *run, uint32_t count,
                            Node *const *roots, Fault *fault);
/* The same for who watches, who is told of the plan: it is not kept. */
bool plan_execution_prepare_observed(PlanExecution *run, uint32_t count,
                                     Node *const *roots, Fault *fault);
/* Are the files that it reads what they were?  If not, all that was computed
 * since the last time is not to be used. */
bool run_is_whole(const PlanExecution *run, Fault *fault);
/* Its nodes have data then, and their bodies still. */
bool plan_execution_run_group(Graph *g, FusionGroup *group, uint32_t at,
                              Span *where, Fault *fault);

#endif
