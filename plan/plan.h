/* The plan of a graph: which nodes are materialized, and which fusion groups
 * compute them. */
#ifndef AXON_PLAN_PLAN_H
#define AXON_PLAN_PLAN_H

#include "plan/fusion_group.h"
#include "support/vec.h"

typedef struct Arena Arena;

/* A read in a fused body, of a node that is not yet decided. */
typedef struct NodeUse {
  struct FusedBody *body;
  uint32_t read_op;
} NodeUse;

/* Nodes to run, in order, with fused bodies. */
typedef struct Plan {
  Arena *arena;
  Graph *graph;
  VEC(struct PlanNode *) nodes;        /* operands before consumers */
  VEC(struct PlanNode *) materialized; /* the nodes that run, in order */
  VEC(FusionGroup *)
  groups; /* fusion groups of these nodes, in order of execution */
  /* Parameters on which the plan must not depend; during planning, bodies
   * contain placeholders for them.  May be NULL. */
  const struct PlanParams *params;
} Plan;

typedef struct PlanNode {
  Node *node;    /* a counted reference until plan_release */
  bool root;     /* the caller needs its data */
  bool required; /* something needs its data: it is a guard, or an operand of an
                    opaque node */
  bool is_scheduled; /* required, since a schedule of the program stores it */
  bool cuts;         /* and its readers are in other kernels */
  bool materialized, live;
  bool only_indices;        /* a cheap expression of indices and constants */
  bool only_smaller_inputs; /* the same, or reads only much smaller nodes */
  /* An elementwise expression of nodes with data. */
  bool only_materialized_inputs;
  double input_bytes;    /* of the tensors that such an expression reads */
  bool in_narrow_factor; /* a part of a factor of narrow data that is inlined */
  uint32_t order;        /* position among the materialized nodes */
  uint32_t plan_refs;    /* references from nodes of the plan */
  double recompute_cost; /* operations per element, with all pending operands */
  /* The same, without reductions and their operands. */
  double pointwise_cost;
  uint32_t pending_readers; /* materialized consumers that have not run yet */
  /* The last consumer that was counted, so that each is counted once. */
  const struct PlanNode *last_reader;
  /* For a materialized node: why it was not inlined. */
  const char *reason;
  /* For a materialized node: its body during fusion. */
  struct FusedBody *body;
  VEC(NodeUse) uses;
  /* For a materialized node: its operands after fusion. */
  VEC(struct PlanNode *) inputs;
} PlanNode;

/* Collects the nodes that the roots depend on, decides which are materialized,
 * and gives those their fused bodies.  It may raise; the caller must call
 * plan_release in any case. */
void plan_fuse(Plan *plan, uint32_t count, Node *const *roots);
/* fusion_groups.c: forms fusion groups.  `kernels`: also builds their
 * kernels. */
void plan_build_groups(Plan *plan, bool kernels);
/* observer.c: reports a plan that is about to run. */
void observer_notify_plan(Graph *g, const Plan *plan);
/* Releases the nodes of the plan.  Materialized nodes hold their own
 * operands. */
void plan_release(Plan *plan);

#endif
