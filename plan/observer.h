/* Observation of graph runs, for `axon plan`.
 *
 * Usually there is no observer (Graph.observer is NULL), and nothing here runs.
 * The reported data live in the arena of a plan.  They are valid until
 * `group_executed` returns for the last group. */
#ifndef AXON_PLAN_OBSERVER_H
#define AXON_PLAN_OBSERVER_H

#include "kernel/cost_model.h"
#include "kernel/roofline.h"
#include "plan/fusion_group.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;

/* A value that was inlined, and is never in memory. */
typedef struct FusedValue {
  Span span;
  Dtype dtype;
  int64_t element_count; /* elements of the value */
  bool is_view;          /* only moves elements, at no cost */
  uint32_t reverse_of;   /* as Node.reverse_of */
} FusedValue;

/* A producer of a group that is in another group, and the reason. */
typedef struct FusionBlocker {
  const FusionGroup *producer;
  const char *reason;
} FusionBlocker;

typedef struct FusionRemarks {
  VEC(FusedValue) inlined_values;
  VEC(FusionBlocker) blockers;
  /* Why each node is materialized. */
  VEC(const char *)
  materialize_reasons;
} FusionRemarks;

/* A value of the forward pass that stays in memory because a reverse pass reads
 * it. */
typedef struct SavedValue {
  const Node *node;
  uint32_t call; /* identifies the differentiated call; > 0 */
} SavedValue;

/* A plan that is ready to run. */
typedef struct PlanSummary {
  Arena *arena; /* the arena of the plan */
  const Graph *graph;
  uint32_t group_count;
  FusionGroup *const *groups; /* in the order of execution */
  double input_bytes;         /* bytes of inputs that existed before */
  double peak_bytes; /* largest number of bytes alive at the same time */
  VEC(SavedValue) saved;
} PlanSummary;

typedef struct PlanObserver {
  void *owner;
  void (*planned)(void *owner, const PlanSummary *planned);
  /* Group `at` ran in `seconds`.  A negative value means that its result shares
   * the memory of another value.  Returns true to run the group again for
   * timing. */
  bool (*group_executed)(void *owner, uint32_t at, double seconds);
  /* The last plan runs again, for another iteration of a loop. */
  void (*replayed)(void *owner);
  bool dry_run; /* run nothing; all values are zeros */
} PlanObserver;

/* The nests of a matmul: around its register tile, and those that pack its
 * operands; NULL: it has none, or an operand is read in place. */
typedef struct GemmNests {
  struct Nest *tiles, *left, *right;
} GemmNests;

/* A schedule of a loop nest that was compared with others. */
typedef struct ScheduleCandidate {
  uint32_t loop;
  const char *schedule;
  double cycles; /* by the cost model, in one thread */
  bool is_chosen;
} ScheduleCandidate;

/* How a backend compiled a group. */
typedef struct KernelInfo {
  uint32_t vector_lanes;
  int64_t tasks;          /* number of independent tasks */
  size_t scratch_bytes;   /* bytes per thread */
  const char *task_shape; /* description of a task */
  const char *tiling;     /* tiling of matmuls, as text; or NULL */
  /* What the code is specialized for: a vector width or a GPU architecture. */
  const char *specialized_for;
  bool has_constant_sizes; /* the code has the sizes as numbers */
  /* Loads and stores whose lanes are not contiguous. */
  uint32_t strided_accesses;
  uint32_t indirect_accesses;  /* gathers and scatters: loads and stores whose
                                  index is data */
  const char *source;          /* C source, if requested; or NULL */
  const char *schedule;        /* as --schedules reads it; or NULL */
  bool is_declared;            /* the program declares the schedule */
  const struct Kernel *kernel; /* the kernel with the loops that its schedule
                                  adds, in the arena of the plan; NULL: the
                                  kernel of the group */
  struct Nest *const *nests; /* by loop of `kernel`, as it is scheduled, in that
                                arena; NULL in it: not a nest; or NULL */
  const GemmNests *gemms;    /* by loop of `kernel`, if it is a matmul; or
                                     NULL */
  const char *const *lowered; /* by loop of `kernel`, if the source was
                                 requested: its text after lowering; NULL in
                                 it: not a nest; or NULL */
  const void *code_id;        /* equal for groups with the same code; or NULL */
  bool compiled;
  double compile_seconds; /* in this process; 0: the code was in the cache */
  /* Resource usage reported by the compiler; or NULL. */
  const char *compiler_report;
  bool has_terms; /* the backend counted what its code does */
  CostCounts counts;
  CostTerms terms; /* for the threads of this process */
  /* What was chosen from, for the loop nests with several candidates. */
  uint32_t candidate_count;
  const ScheduleCandidate *candidates;
  bool has_prediction; /* the backend computed its own prediction */
  Prediction prediction;
} KernelInfo;

#endif
