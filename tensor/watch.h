/* watch: what is told of how the graph is run, to who asks (`axon plan`).
 *
 * Nobody listens normally (Graph.watch is NULL), and then nothing here is
 * done.  All that is handed over lives in the arena of a plan: it is gone when
 * `ran` was called for the last cluster. */
#ifndef AXON_TENSOR_WATCH_H
#define AXON_TENSOR_WATCH_H

#include "tensor/cost.h"
#include "tensor/kernel.h"

/* A value that became part of what reads it, and is never in memory. */
typedef struct FusedValue {
  Span span;
  Dtype dtype;
  int64_t count; /* elements that it would have had */
  bool moves;    /* nothing but other values, elsewhere: it costs nothing */
} FusedValue;

/* What a cluster reads from another one, and why both are not one kernel. */
typedef struct Apart {
  const Cluster *from;
  const char *why;
} Apart;

typedef struct ClusterNotes {
  VEC(FusedValue) fused;
  VEC(Apart) apart;
  VEC(const char *) stored; /* why each node is a value of its own */
} ClusterNotes;

/* Decided, and not yet run. */
typedef struct Planned {
  Arena *arena; /* of the plan */
  const Graph *graph;
  uint32_t count;
  Cluster *const *clusters; /* in the order in which they run */
  double held;              /* bytes of what they read and was there before */
  double peak;              /* and with all that is alive at once */
} Planned;

/* Is the node's value put into memory? */
bool cluster_stores(const Cluster *c, const Node *n);

typedef struct PlanWatch {
  void *owner;
  void (*planned)(void *owner, const Planned *planned);
  /* Cluster `at` was run, in so many seconds; less than 0: it is memory of
   * another value.  True: it is to be run again, for its time. */
  bool (*ran)(void *owner, uint32_t at, double seconds);
  /* What was planned last is run once more: another turn of a loop. */
  void (*again)(void *owner);
  bool dry; /* nothing is run: values are zeros */
} PlanWatch;

/* What a backend makes of a cluster. */
struct KernelAbout {
  uint32_t lanes;
  int64_t units;      /* independent pieces */
  size_t scratch;     /* bytes for each thread */
  const char *shape;  /* of a piece, in words */
  const char *tiles;  /* of products, in words; or NULL */
  const char *fixed;  /* what the code is for; all sizes are arguments */
  uint32_t apart;     /* reads and writes whose lanes lie apart in memory, */
  uint32_t by_index;  /* and those whose lanes lie where data says */
  const char *code;   /* C, where it was asked for; or NULL */
  const void *object; /* the same where several are of one text; or NULL */
  bool compiled;
  double compile_seconds; /* in this process; 0: it was found in the cache */
  const char *report;     /* what its compiler says that it uses; or NULL */
  bool predicts;          /* the backend has limits of its own: */
  Prediction predicted;
};

#endif
