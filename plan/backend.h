/* The interface of a backend, which runs the fusion groups of a plan. */
#ifndef AXON_PLAN_BACKEND_H
#define AXON_PLAN_BACKEND_H

#include "plan/fusion_group.h"

typedef struct Arena Arena;

typedef struct KernelInfo KernelInfo; /* plan/observer.h */

/* A backend runs fusion groups of materialized nodes (plan/fusion_group.h).
 *
 * Before a group runs, all of its inputs have data, guards included.  The
 * backend sets node->data of the nodes that others read.
 *
 * The body of a node is fused: it reads only nodes with data, and earlier nodes
 * of its group.  A reduction uses the type of the body's value (f32 for sums of
 * f16 and bf16).  The result is converted to the node's type at the end.  If
 * the guard is false, the data are zeros and the body does not run. */
typedef struct Backend {
  const char *name;
  bool compiles_kernels; /* uses the kernels of groups */
  bool supports_views;   /* tensors may be views: parts of the memory of other
                            tensors */
  /* Returns true if the backend has a kernel for two matmuls and the rows
   * between them that stores no row (fused attention).  The planner calls this
   * before it forms groups.  NULL: it has no such kernel. */
  bool (*has_fused_attention)(const Kernel *kernel);
  /* Returns true if the backend can run a kernel in which loops accumulate
   * along parallel axes (Kernel.accumulated_axes).  NULL: it has no such
   * kernels. */
  bool (*can_accumulate)(const Kernel *kernel);
  uint32_t max_row_bytes; /* bytes of intermediates per row of a kernel; 0: the
                             default for CPUs */
  /* Called before any group runs, so that slow work, such as compilation, can
   * begin.  NULL: nothing to do.
   *
   * A plan may be cached and run again with other nodes.  Then this is not
   * called again, and of the kernel only the inputs exist.  Everything else
   * that `run` needs is in FusionGroup.backend_data.  It stays alive unless
   * FusionGroup.transient. */
  void (*prepare)(Graph *g, uint32_t count, FusionGroup *const *clusters);
  bool (*run)(Graph *g, FusionGroup *cluster, Span *where, Fault *fault);
  /* Finishes all work that was started, so that tensors have their data.  Also
   * called after a failure.  NULL: nothing to do. */
  bool (*synchronize)(Graph *g, Fault *fault);
  /* Describes the compiled code of a prepared group (plan/observer.h).  Waits
   * for its compilation.  `notes` are remarks for the source, one for each
   * loop; NULL: no source is wanted.  Returns false if the reference backend
   * runs the group.  NULL: the backend does not compile. */
  bool (*describe)(const FusionGroup *cluster, Arena *arena,
                   const char *const *notes, KernelInfo *out);
} Backend;

#endif
