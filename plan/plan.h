/* The plan of a graph: which nodes are stored, and what runs at once. */
#ifndef AXON_PLAN_PLAN_H
#define AXON_PLAN_PLAN_H

#include "plan/fusion_group.h"

/* A read, in a group, of a node that is to be decided about. */
typedef struct NodeUse {
  struct FusedBody *body;
  uint32_t read_op;
} NodeUse;

/* A set of nodes that are to run, in order, with fused bodies. */
typedef struct Plan {
  Arena *arena;
  Graph *graph;
  VEC(struct PlanNode *) nodes;        /* inputs before readers */
  VEC(struct PlanNode *) materialized; /* those that run, in order */
  VEC(FusionGroup *) groups; /* of these, in order: what runs at once */
  const struct PlanParams
      *params; /* floats that it is not to depend on: while it
                  is made they are marks in bodies; or NULL */
} Plan;

typedef struct PlanNode {
  Node *node;    /* a counted reference until it was let go */
  bool root;     /* the caller wants its data */
  bool required; /* something needs its data as such: guards, opaque nodes */
  bool materialized, live;
  bool only_indices;        /* made of indices and numbers alone, by little; */
  bool only_smaller_inputs; /* or of these and of what has far fewer elements */
  bool only_materialized_inputs; /* made of what is there, element by element */
  uint32_t order;                /* among the stored ones */
  uint32_t plan_refs;            /* references from nodes of the plan */
  double recompute_cost; /* of one element, with all that it needs and is
                            pending */
  double
      pointwise_cost; /* likewise, without reductions and what is behind them */
  uint32_t pending_readers; /* stored nodes not yet run that read it */
  const struct PlanNode *last_reader; /* so that each is counted once */
  const char *reason;     /* of a stored node: why it was not fused */
  struct FusedBody *body; /* of a stored node: its body under construction */
  VEC(NodeUse) uses;
  VEC(struct PlanNode *) inputs; /* of a stored node, after fusion */
} PlanNode;

/* Collects what the roots need, decides, and gives every stored node its
 * fused body.  May raise: plan_release must run in any case. */
void plan_fuse(Plan *plan, uint32_t count, Node *const *roots);
/* fusion_groups.c: puts stored nodes together; kernels: and finds their
 * kernels. */
void plan_build_groups(Plan *plan, bool kernels);
/* observer.c: tells the one who watches of a plan that is about to run. */
void observer_notify_plan(Graph *g, const Plan *plan);
/* Lets go of its nodes.  What a stored node reads it holds itself. */
void plan_release(Plan *plan);

#endif
