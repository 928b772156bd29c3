/* A fusion group: the nodes that one kernel computes. */
#ifndef AXON_PLAN_FUSION_GROUP_H
#define AXON_PLAN_FUSION_GROUP_H

#include "kernel/kernel.h"
#include "support/vec.h"

/* Nodes in order, and their kernel. */
typedef struct FusionGroup {
  VEC(Node *) nodes;
  /* NULL: a node without loop nest (opaque, or with too many axes) */
  Kernel *kernel;
  void *backend_data; /* what a backend stored in `prepare` */
  bool transient;     /* backend_data lives only as long as the plan */
  bool library_op;    /* the backend has a library routine for an opaque node */
  /* Why the reference backend runs it; NULL: it does not. */
  const char *fallback_reason;
  struct FusionRemarks *remarks; /* see observer.h; NULL: no observer */
  /* The node whose data the single node shares; NULL: none. */
  const Node *alias_of;
  /* For each input of the kernel or library routine: nothing reads it later, so
   * an output may take its memory; or NULL. */
  const bool *donated;
  const double *params; /* values of the float parameters of the kernel */
  /* Values of the random-key parameters of the kernel. */
  const PrngKey *random_keys;
  bool reverse_order; /* walk over memory from the end */
  /* cached_plan.c: where the fused bodies are; NULL: the nodes have them. */
  const struct PlanBinding *binding;
} FusionGroup;

/* Where the node stands in its group. */
uint32_t fusion_group_node_index(const FusionGroup *c, const Node *n);
/* True if the value of the node is written to memory. */
bool fusion_group_stores(const FusionGroup *c, const Node *n);
/* True if every backend computes the same bits for the nodes. */
bool fusion_group_is_exact(const FusionGroup *c);

/* ---- cached_plan.c ---- */

/* Gives node k its fused body, before it is interpreted. */
void fusion_group_restore_body(const FusionGroup *c, uint32_t k);

/* The fused body of a node in a cached plan, for all runs of the plan. */
typedef struct PlannedBody {
  const BodyOp *ops; /* ask fusion_group_operand, fusion_group_constant */
  uint32_t op_count;
  void **cached; /* what a backend made of the body; initially NULL */
  Arena *arena;  /* lives as long as the plan */
} PlannedBody;
/* Returns false if node k is no comprehension, or its plan is not cached. */
bool fusion_group_planned_body(const FusionGroup *c, uint32_t k,
                               PlannedBody *out);
/* The node that a BODY_READ of such a body reads in this run. */
const Node *fusion_group_operand(const FusionGroup *c, const BodyOp *read);
/* The value of a BODY_CONST in this run. */
Scalar fusion_group_constant(const FusionGroup *c, const BodyOp *constant);

#endif
