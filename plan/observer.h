/* watch: what is told of how the graph is run, to who asks (`axon plan`).
 *
 * Nobody listens normally (Graph.observer is NULL), and then nothing here is
 * done.  All that is handed over lives in the arena of a plan: it is gone when
 * `ran` was called for the last cluster. */
#ifndef AXON_PLAN_OBSERVER_H
#define AXON_PLAN_OBSERVER_H

#include "kernel/roofline.h"
#include "plan/fusion_group.h"

/* A value that became part of what reads it, and is never in memory. */
typedef struct FusedValue {
  Span span;
  Dtype dtype;
  int64_t element_count; /* elements that it would have had */
  bool is_view; /* nothing but other values, elsewhere: it costs nothing */
} FusedValue;

/* What a cluster reads from another one, and why both are not one kernel. */
typedef struct FusionBlocker {
  const FusionGroup *producer;
  const char *reason;
} FusionBlocker;

typedef struct FusionRemarks {
  VEC(FusedValue) inlined_values;
  VEC(FusionBlocker) blockers;
  VEC(const char *)
  materialize_reasons; /* why each node is a value of its own */
} FusionRemarks;

/* Decided, and not yet run. */
typedef struct PlanSummary {
  Arena *arena; /* of the plan */
  const Graph *graph;
  uint32_t group_count;
  FusionGroup *const *groups; /* in the order in which they run */
  double input_bytes;         /* bytes of what they read and was there before */
  double peak_bytes;          /* and with all that is alive at once */
} PlanSummary;

typedef struct PlanObserver {
  void *owner;
  void (*planned)(void *owner, const PlanSummary *planned);
  /* Cluster `at` was run, in so many seconds; less than 0: it is memory of
   * another value.  True: it is to be run again, for its time. */
  bool (*group_executed)(void *owner, uint32_t at, double seconds);
  /* What was planned last is run once more: another turn of a loop. */
  void (*replayed)(void *owner);
  bool dry_run; /* nothing is run: values are zeros */
} PlanObserver;

/* What a backend makes of a cluster. */
typedef struct KernelInfo {
  uint32_t vector_lanes;
  int64_t tasks;          /* independent pieces */
  size_t scratch_bytes;   /* bytes for each thread */
  const char *task_shape; /* of a piece, in words */
  const char *tiling;     /* of products, in words; or NULL */
  const char
      *specialized_for; /* what the code is for; all sizes are arguments */
  uint32_t
      strided_accesses; /* reads and writes whose lanes lie apart in memory, */
  uint32_t indirect_accesses; /* and those whose lanes lie where data says */
  const char *source;         /* C, where it was asked for; or NULL */
  const void *code_id; /* the same where several are of one text; or NULL */
  bool compiled;
  double compile_seconds; /* in this process; 0: it was found in the cache */
  const char
      *compiler_report; /* what its compiler says that it uses; or NULL */
  bool has_prediction;  /* the backend has limits of its own: */
  Prediction prediction;
} KernelInfo;

#endif
