/* What the files behind `axon plan` share: what was told of each run of the
 * graph, kept until all is known. */
#ifndef AXON_CLI_PLAN_H
#define AXON_CLI_PLAN_H

#include "cli/cli.h"

#include "kernel/roofline.h"
#include "plan/backend.h"
#include "plan/observer.h"

typedef struct PlanLocation {
  const char *text; /* the expression, cut where it is long; or NULL */
  const char *file; /* or NULL: nowhere */
  uint32_t line;
  const char *line_text; /* the line */
} PlanLocation;

typedef struct PlanLoop {
  PlanLocation place;
  const char
      *spatial_extents; /* extents beside the shared ones: "1024", or "" */
  const char *reduction_extents; /* those that are reduced, or "" */
  const char *operation;         /* "sum of exp, -" */
} PlanLoop;

typedef enum ValueStorage {
  VALUE_INLINED,      /* part of the expression that reads it */
  VALUE_LOCAL,        /* in scratch memory, for the points at hand */
  VALUE_VIEW,         /* another order of something, at no cost */
  VALUE_MATERIALIZED, /* in memory */
} ValueStorage;

typedef struct PlanValue {
  PlanLocation place;
  ValueStorage storage;
  const char *type;
  double bytes;
  const char *reason; /* it is stored; or NULL */
} PlanValue;

typedef struct PlanFusionBlocker {
  uint32_t kernel; /* number of a kernel, among those of the run */
  const char *reason;
} PlanFusionBlocker;

typedef struct PlanKernel {
  PlanLocation place;
  bool is_library_op;          /* it is no kernel, and compiled all the same */
  const char *fallback_reason; /* why there is no kernel; NULL: there is one */
  bool is_alias;               /* its memory is that of another value */
  const char
      *parallel_extents; /* extents of the points that are apart: "64 × 8" */
  VEC(PlanLoop) loops;
  VEC(PlanValue) values;
  VEC(PlanFusionBlocker) fusion_blockers;
  Cost cost;
  Prediction predicted;
  KernelInfo info;
  bool reuses_code; /* its code is that of an earlier kernel */
  uint32_t tries;   /* of the first of equal runs: */
  double best_seconds, spent_seconds; /* seconds of the best, of all of them */
  double total_seconds;               /* of one try of each of the equal runs */
} PlanKernel;

typedef struct PlanRun {
  Arena *arena;
  uint32_t count;         /* equal runs */
  bool unused_by_program; /* the program did not need it */
  double bytes_before, peak_bytes;
  VEC(PlanKernel) kernels;
  const char *key; /* what makes runs equal */
} PlanRun;

/* One that listens; zeroed, then plan_recorder_init. */
typedef struct PlanRecorder {
  PlanObserver observer;
  const Sources *sources;
  Arena *arena; /* of the list */
  bool with_code;
  bool unused_by_program; /* what is run now is not needed by the program */
  VEC(PlanRun *) runs;
  /* of the run that is under way */
  PlanRun *current;
  FusionGroup *const *clusters;
  bool first_of_equals;           /* it is the first of equal ones */
  uint32_t last_cluster_plus_one; /* 1 + the cluster that ran last */
} PlanRecorder;

/* ---- plan_recorder.c ---- */
void plan_recorder_init(PlanRecorder *recorder, Session *session, bool code,
                        bool dry);
void plan_recorder_free(PlanRecorder *recorder);

/* ---- plan_text.c, plan_json.c ---- */
typedef struct PlanStyle {
  bool colour;
  bool stable; /* nothing that differs from machine to machine */
  bool with_code;
  bool dry_run;
  const char *arch;    /* of a GPU that is not here; or NULL */
  int64_t only_kernel; /* 0, or the only one that is wanted */
} PlanStyle;
void plan_text_run(Buffer *out, const PlanRun *run, uint32_t number,
                   uint32_t first, const PlanStyle *style);
void plan_text(Buffer *out, const PlanRecorder *recorder,
               const PlanStyle *style);
void plan_json(Buffer *out, const PlanRecorder *recorder,
               const PlanStyle *style);
const char *plan_bound_name(RooflineBound bound);
/* Seconds, reference backend's among them, of compilers. */
typedef struct PlanTotals {
  double kernel_seconds, fallback_seconds, compile_seconds, peak_bytes;
  uint32_t runs, compiled, cache_hits;
} PlanTotals;
PlanTotals plan_totals(const PlanRecorder *recorder);

/* ---- plan.c ---- */
/* Prints what is computed while f is called: for the REPL. */
void plan_record_call(Session *session, bool stable, void (*f)(void *),
                      void *arg);

#endif
