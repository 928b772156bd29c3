/* A fusion group: the nodes that one kernel computes. */
#ifndef AXON_PLAN_FUSION_GROUP_H
#define AXON_PLAN_FUSION_GROUP_H

#include "kernel/kernel.h"

/* What is run at once: nodes in order, and their kernel. */
typedef struct FusionGroup {
  VEC(Node *) nodes;
  Kernel *kernel;     /* NULL: of nodes that have no loop form (opaque ones, too
                         many axes) */
  void *backend_data; /* what a backend noted when it prepared it */
  bool transient;     /* that is gone with the plan */
  bool library_op; /* of a node that is no loop: a backend has one of its own */
  const char *fallback_reason; /* why it is left to the reference backend; NULL:
                                  it is not */
  struct FusionRemarks *remarks; /* observer.h; NULL: nobody asks */
  const Node *alias_of; /* whose data is that of the one node; NULL: none */
  const bool *donated;  /* of the kernel's inputs: nothing reads it later, and
                           its memory may be that of a result; or NULL */
  const double *params; /* marks among the kernel's floats stand for these, */
  const PrngKey *random_keys; /* and among its keys for these */
  bool reverse_order;         /* it is better gone over memory from its end */
  const struct PlanBinding *binding; /* cached_plan.c: where the fused
                                        bodies are; NULL: the nodes have them */
} FusionGroup;

/* Where the node stands in its group. */
uint32_t fusion_group_node_index(const FusionGroup *c, const Node *n);
/* Is the node's value put into memory? */
bool fusion_group_stores(const FusionGroup *c, const Node *n);
/* True if every backend computes the same bits for the nodes. */
bool fusion_group_is_exact(const FusionGroup *c);

/* ---- cached_plan.c ---- */

/* Gives the nodes their fused bodies: before they are interpreted. */
void fusion_group_restore_bodies(const FusionGroup *c);

#endif
