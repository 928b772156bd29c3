/* plan_report: records how each run of the graph is computed, and describes it
   as text or JSON.  Main entry points: plan_recorder_init and plan_text. */
#ifndef AXON_PLAN_REPORT_PLAN_REPORT_H
#define AXON_PLAN_REPORT_PLAN_REPORT_H

#include "session/session.h"
#include "support/map.h"
#include "support/vec.h"

#include "kernel/roofline.h"
#include "plan/backend.h"
#include "plan/observer.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Sources Sources;

typedef struct PlanLocation {
  const char *text; /* the expression, truncated if long; or NULL */
  const char *file; /* NULL if there is no place */
  uint32_t line;
  const char *line_text; /* the source line */
} PlanLocation;

typedef struct PlanLoop {
  PlanLocation place;
  const char *spatial_extents; /* extents of spatial axes that are not parallel
                                  axes: "1024", or "" */
  const char *reduction_extents; /* extents of reduction axes, or "" */
  const char *operation;         /* "sum of exp, -" */
  bool keeps_states;             /* LoopNest.keeps_states: not shown */
} PlanLoop;

typedef enum ValueStorage {
  VALUE_INLINED,      /* inlined into the expression that reads it */
  VALUE_LOCAL,        /* in scratch memory, inside of the parallel loop */
  VALUE_VIEW,         /* a view: no data movement */
  VALUE_MATERIALIZED, /* materialized in memory */
} ValueStorage;

typedef struct PlanValue {
  PlanLocation place;
  ValueStorage storage;
  const char *type;
  double bytes;
  const char *reason; /* why it is materialized, or NULL */
  bool is_saved;      /* it stays in memory because a reverse pass reads it */
} PlanValue;

/* Values of one source line that are saved for a gradient. */
typedef struct SavedLine {
  PlanLocation place;
  uint32_t count;
  double bytes;
} SavedLine;

/* What is saved for the gradient of one differentiated call. */
typedef struct SavedCall {
  uint32_t id; /* as in SavedValue */
  double bytes;
  VEC(SavedLine) lines; /* largest first */
  Map nodes;            /* 1 + the ids of the nodes that are counted */
} SavedCall;

typedef struct PlanFusionBlocker {
  uint32_t kernel; /* number of the kernel in its run */
  const char *reason;
} PlanFusionBlocker;

typedef struct PlanKernel {
  PlanLocation place;
  bool is_library_op; /* compiled as a library operation, not as a kernel */
  const char
      *fallback_reason; /* why there is no kernel; NULL if there is one */
  bool is_alias;        /* it shares the memory of another value */
  const char *parallel_extents; /* extents of the parallel axes: "64 × 8" */
  VEC(PlanLoop) loops;
  VEC(PlanValue) values;
  VEC(PlanFusionBlocker) fusion_blockers;
  Cost cost;
  Prediction predicted;
  KernelInfo info;
  const char *stage_text; /* see PlanStage; or NULL */
  bool reuses_code;       /* same code as an earlier kernel */
  uint32_t tries;         /* first of equal runs: number of tries */
  /* seconds of the best try, and of all tries */
  double best_seconds, spent_seconds;
  double total_seconds; /* sum over equal runs of one try each, in seconds */
} PlanKernel;

typedef struct PlanRun {
  Arena *arena;
  uint32_t count;         /* number of equal runs */
  bool unused_by_program; /* the program did not need it */
  double bytes_before, peak_bytes;
  VEC(PlanKernel) kernels;
  const char *key; /* identifies equal runs */
} PlanRun;

/* An observer that records.  Zero it, then call plan_recorder_init. */
/* What else is recorded of each kernel. */
typedef enum PlanStage {
  PLAN_NO_STAGE,
  PLAN_SPECS,    /* what its loop nests compute */
  PLAN_FACTS,    /* what choosers know of them */
  PLAN_SCHEDULE, /* its schedule, as --schedules reads it */
  PLAN_NESTS,    /* its loop nests after some steps of their schedules */
  PLAN_LOWERED,  /* where each operation of the loop nests is computed */
  PLAN_CODE,     /* the generated code */
} PlanStage;

typedef struct StageChoice {
  PlanStage stage;
  uint32_t steps; /* PLAN_NESTS */
} StageChoice;

typedef struct PlanRecorder {
  PlanObserver observer;
  const Sources *sources;
  Arena *arena; /* holds the recorded runs */
  bool with_code;
  StageChoice shown;
  bool unused_by_program; /* current runs are not needed by the program */
  VEC(PlanRun *) runs;
  VEC(SavedCall *) calls; /* differentiated calls, in order */
  /* The current run. */
  PlanRun *current;
  FusionGroup *const *clusters;
  bool first_of_equals; /* first of equal runs */
  /* 1 + index of the fusion group that ran last */
  uint32_t last_cluster_plus_one;
} PlanRecorder;

/* ---- plan_recorder.c ---- */
void plan_recorder_init(PlanRecorder *recorder, Session *session, bool code,
                        bool dry);
void plan_recorder_free(PlanRecorder *recorder);

/* ---- plan_text.c, plan_json.c ---- */
typedef struct PlanStyle {
  bool colour;
  bool stable; /* omits everything that differs between machines */
  bool with_code;
  bool with_schedule; /* JSON has schedules */
  bool with_stage;    /* shows only the recorded stage */
  bool dry_run;
  const char *arch; /* architecture of a GPU that is not available, or NULL */
  int64_t only_kernel; /* the only kernel to show, or 0 */
} PlanStyle;
void plan_text_run(Buffer *out, const PlanRun *run, uint32_t number,
                   uint32_t first, const PlanStyle *style);
void plan_text(Buffer *out, const PlanRecorder *recorder,
               const PlanStyle *style);
void plan_json(Buffer *out, const PlanRecorder *recorder,
               const PlanStyle *style);
/* The schedules of all kernels, as --schedules reads them; or the recorded
 * stage. */
void plan_schedules(Buffer *out, const PlanRecorder *recorder,
                    const PlanStyle *style);
const char *plan_bound_name(RooflineBound bound);
/* Total seconds: kernels, interpreter fallback (included in the former),
   compilers. */
typedef struct PlanTotals {
  double kernel_seconds, fallback_seconds, compile_seconds, peak_bytes;
  uint32_t runs, compiled, cache_hits;
} PlanTotals;
PlanTotals plan_totals(const PlanRecorder *recorder);
/* The call with the most bytes; NULL: there is none. */
const SavedCall *plan_largest_call(const PlanRecorder *recorder);

#endif
