/* A backend: what runs the groups of a plan. */
#ifndef AXON_PLAN_BACKEND_H
#define AXON_PLAN_BACKEND_H

#include "plan/fusion_group.h"

typedef struct KernelInfo KernelInfo; /* plan/observer.h */

/* A backend runs clusters of stored nodes (plan/fusion_group.h) whose inputs
 * (guards too) all have data, and sets node->data of those that others read.
 * The body of such a node is fused: it reads only nodes with data, and earlier
 * ones of its cluster.  A reduction is done in the type of the body's value
 * (sums of f16, bf16 in f32) and converted to the node's at the end.  Where the
 * guard is false the data holds zeros and the body is not run. */
typedef struct Backend {
  const char *name;
  bool compiles_kernels; /* wants the clusters' kernels */
  bool supports_views; /* tensors may be parts of others, in the same memory */
  /* Has it a kernel for two products and the rows between them that leaves no
   * row in memory?  Asked before clusters are decided about; NULL: for none. */
  bool (*has_fused_attention)(const Kernel *kernel);
  uint32_t max_row_bytes; /* bytes that loops of a kernel may leave for each
                             other at a point; 0: as is good for CPUs */
  /* Before any of them runs: what takes long can begin.  NULL: nothing.  A plan
   * may be kept and run again with other nodes: then this is not called, and
   * of the kernel a cluster has nothing but the inputs; all else that `run`
   * needs is in cluster->backend_data, and lives on unless cluster->transient.
   */
  void (*prepare)(Graph *g, uint32_t count, FusionGroup *const *clusters);
  bool (*run)(Graph *g, FusionGroup *cluster, Span *where, Fault *fault);
  /* What it has left to do of all that ran, so that tensors have their data,
   * also where something failed.  NULL: nothing. */
  bool (*synchronize)(Graph *g, Fault *fault);
  /* What it has made of a cluster that was prepared (plan/observer.h): waits
   * for that. notes: what the code is to say of each loop, NULL: no code is
   * wanted. False: nothing, it is left to the reference backend.  NULL: it
   * makes nothing of clusters. */
  bool (*describe)(const FusionGroup *cluster, Arena *arena,
                   const char *const *notes, KernelInfo *out);
} Backend;

#endif
