/* tensor, for run.c: plans that are kept.
 *
 * To plan takes longer than to run what is small, and a program runs the same
 * again and again: a turn of a loop, a call of a function.  So what a plan came
 * to is kept as a *recipe*, under all that it was made of, the graph *in
 * outline*: its nodes as numbers, in the order in which they are reached from
 * the roots.  Where a graph has the outline of one before, its nodes take the
 * places of the other's, and its data, at leaves of the graph, those of its
 * data.
 *
 * Floats are not part of the outline but for what a plan may depend on (whether
 * two are equal; 0, 1, powers of two): they are parameters, as 0.9 in
 * `x * 0.9`.  While there is a plan of them, numbers that are none stand in
 * their places, so that nothing can be made of their values.  So are keys of
 * random numbers, all of them. */
#ifndef AXON_TENSOR_RECIPE_H
#define AXON_TENSOR_RECIPE_H

#include "tensor/internal.h"
#include "tensor/kernel.h"

/* ---- outline.c ---- */

typedef struct Params { /* different ones */
  VEC(double) values;
  uint32_t *table, cap; /* hash table: 1 + number */
  VEC(Key) keys;
} Params;
/* UINT32_MAX: it is none of them. */
uint32_t params_find(const Params *params, double x);
uint32_t params_find_key(const Params *params, Key key);

typedef struct Outline {
  Arena *arena;
  VEC(uint64_t) words;
  VEC(Node *) nodes;  /* that are to be run: inputs before readers */
  VEC(Node *) leaves; /* that they read, and that have data */
  Params params;
  /* outline_more, of node k: children[child_end[k - 1] .. child_end[k]) are the
   * numbers of what it reads; of all: does anything else hold it? */
  VEC(uint32_t) children, child_end;
  bool *held;
  bool failed; /* there is something in it that has no outline */
} Outline;

/* Sets no marks for longer than it runs.  Reads of rows may be others
 * afterwards (rows.c). */
void outline_take(Outline *o, Graph *g, uint32_t count, Node *const *roots);

/* Before there is a plan, which changes what reads what. */
void outline_more(Outline *o, uint32_t count, Node *const *roots);

/* ---- rows.c ---- */

/* A read, by a cell of the node, of rows from .. from + count - 1 of a leaf,
 * where another cell is the number `from`, and nothing else. */
typedef struct RowsRead {
  Node *node;
  uint32_t read, number;
  int64_t from, count;
  uint32_t leaf, word; /* of the outline: which one; where the number is */
} RowsRead;
/* False: it is none. */
bool rows_find(const Graph *g, Node *n, uint32_t read, RowsRead *out);
/* Has these, which are all that reads the leaf, read what they need of it as a
 * leaf of its own; NULL: that is all of it, or there is no memory. */
Node *rows_cut(Graph *g, Node *leaf, uint32_t count, const RowsRead *reads);

/* ---- recipe.c ---- */

typedef struct Recipe Recipe;

/* In the outline's numbers; the plan has clusters, and its nodes their fused
 * bodies. */
Recipe *recipe_new(Arena *arena, const Plan *plan, const Outline *o);
/* The clusters, of these nodes; they live in the arena. */
Cluster **recipe_bind(Arena *arena, const Recipe *r, const Outline *o,
                      uint32_t *count);
/* What the clusters read is there as long as they run. */
void recipe_hold(const Recipe *r, const Outline *o);
void recipe_let_go(const Recipe *r, const Outline *o);
/* The nodes that clusters compute, then those that they read. */
typedef struct Reached {
  VEC(Node *) nodes;
  uint32_t computed;
} Reached;
void recipe_reach(Arena *arena, const Recipe *r, const Outline *o,
                  Reached *out);
/* Is it time to plan it anew: what was too little work to be compiled was run
 * so often that it is not too little any more? */
bool recipe_ran(Recipe *r, double times);
/* Would it be that at once, where what is so much work is run so often? */
bool recipe_is_often(const Graph *g, double work, double times);

/* ---- memo.c ---- */

typedef struct Memo Memo;

/* Can one be kept for it? */
bool memo_takes(const Outline *o);
/* NULL: there is none. */
Recipe *memo_find(Graph *g, const Outline *o);
/* Where a recipe is to be made that will be kept. */
Arena *memo_arena(Graph *g, const Outline *o);
/* Keeps it; one that was kept before is forgotten. */
void memo_keep(Graph *g, const Outline *o, Recipe *r);
void memo_end(Graph *g);

/* ---- run.c ---- */

typedef struct Run {
  Arena *arena; /* of all this; the graph keeps it for the next one */
  Graph *graph;
  Plan plan;
  Outline outline;
  double times;         /* that what is planned is to run */
  const Recipe *recipe; /* whose nodes it holds; or NULL */
  uint32_t count;       /* of clusters */
  Cluster *const *clusters;
  VEC(Tensor *) mapped; /* of what it reads, those that lie in files */
} Run;
void run_begin(Graph *g, Run *run); /* run->times is there; run_end must run */
void run_end(Run *run);
/* The clusters, of a plan that there is or a new one. */
bool run_find(Run *run, uint32_t count, Node *const *roots, Fault *fault);
/* The same for who watches, who is told of the plan: it is not kept. */
bool run_find_watched(Run *run, uint32_t count, Node *const *roots,
                      Fault *fault);
/* Are the files that it reads what they were?  If not, all that was computed
 * since the last time is not to be used. */
bool run_is_whole(const Run *run, Fault *fault);
/* Its nodes have data then, and their bodies still. */
bool run_cluster(Graph *g, Cluster *cluster, uint32_t at, Span *where,
                 Fault *fault);

#endif
