/* What the files behind `axon plan` share: what was told of each run of the
 * graph, kept until all is known. */
#ifndef AXON_CLI_PLAN_H
#define AXON_CLI_PLAN_H

#include "cli/cli.h"

#include "tensor/cost.h"
#include "tensor/watch.h"

typedef struct PlanPlace {
  const char *text; /* the expression, cut where it is long; or NULL */
  const char *file; /* or NULL: nowhere */
  uint32_t line;
  const char *whole; /* the line */
} PlanPlace;

typedef struct PlanLoop {
  PlanPlace place;
  const char *inner;   /* extents beside the shared ones: "1024", or "" */
  const char *reduced; /* those that are reduced, or "" */
  const char *does;    /* "sum of exp, -" */
} PlanLoop;

typedef enum ValueFate {
  VALUE_FUSED,  /* part of the expression that reads it */
  VALUE_LOCAL,  /* in scratch memory, for the points at hand */
  VALUE_MOVED,  /* another order of something, at no cost */
  VALUE_STORED, /* in memory */
} ValueFate;

typedef struct PlanValue {
  PlanPlace place;
  ValueFate fate;
  const char *type;
  double bytes;
  const char *why; /* it is stored; or NULL */
} PlanValue;

typedef struct PlanApart {
  uint32_t from; /* number of a kernel, among those of the run */
  const char *why;
} PlanApart;

typedef struct PlanKernel {
  PlanPlace place;
  bool routine; /* it is no kernel, and compiled all the same */
  const char *interpreted; /* why there is no kernel; NULL: there is one */
  bool shared;             /* its memory is that of another value */
  const char *outer;       /* extents of the points that are apart: "64 × 8" */
  VEC(PlanLoop) loops;
  VEC(PlanValue) values;
  VEC(PlanApart) apart;
  Cost cost;
  Prediction predicted;
  KernelAbout about;
  bool again;         /* its code is that of an earlier kernel */
  uint32_t tries;     /* of the first of equal runs: */
  double best, spent; /* seconds of the best, of all of them */
  double total;       /* of one try of each of the equal runs */
} PlanKernel;

typedef struct PlanRun {
  Arena *arena;
  uint32_t count; /* equal runs */
  bool extra;     /* the program did not need it */
  double held, peak;
  VEC(PlanKernel) kernels;
  const char *key; /* what makes runs equal */
} PlanRun;

/* One that listens; zeroed, then plan_listen. */
typedef struct PlanLog {
  PlanWatch watch;
  const Sources *sources;
  Arena *arena; /* of the list */
  bool code;
  bool extra; /* what is run now is not needed by the program */
  VEC(PlanRun *) runs;
  /* of the run that is under way */
  PlanRun *current;
  Cluster *const *clusters;
  bool fresh;     /* it is the first of equal ones */
  uint32_t tried; /* 1 + the cluster that ran last */
} PlanLog;

/* ---- planlog.c ---- */
void plan_listen(PlanLog *log, Session *session, bool code, bool dry);
void plan_forget(PlanLog *log);

/* ---- plantext.c, planjson.c ---- */
typedef struct PlanStyle {
  bool colour;
  bool stable; /* nothing that differs from machine to machine */
  bool code;
  bool dry;
  const char *arch; /* of a GPU that is not here; or NULL */
  int64_t kernel; /* 0, or the only one that is wanted */
} PlanStyle;
void plan_text_run(Buffer *out, const PlanRun *run, uint32_t number,
                   uint32_t first, const PlanStyle *style);
void plan_text(Buffer *out, const PlanLog *log, const PlanStyle *style);
void plan_json(Buffer *out, const PlanLog *log, const PlanStyle *style);
const char *plan_bound(CostBound bound);
/* Seconds, reference backend's among them, of compilers. */
typedef struct PlanTotals {
  double kernels, interpreted, compiling, peak;
  uint32_t runs, compiled, found;
} PlanTotals;
PlanTotals plan_totals(const PlanLog *log);

/* ---- plan.c ---- */
/* Prints what is computed while f is called: for the REPL. */
void plan_while(Session *session, bool stable, void (*f)(void *), void *arg);

#endif
