/* Plans that are kept.
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
#ifndef AXON_PLAN_CACHED_PLAN_H
#define AXON_PLAN_CACHED_PLAN_H

#include "plan/plan.h"

/* ---- plan_key.c ---- */

typedef struct PlanParams { /* different ones */
  VEC(double) values;
  uint32_t *hash_table, hash_capacity; /* hash table: 1 + number */
  VEC(PrngKey) random_keys;
} PlanParams;
/* UINT32_MAX: it is none of them. */
uint32_t plan_params_find(const PlanParams *params, double x);
uint32_t plan_params_find_key(const PlanParams *params, PrngKey key);

typedef struct PlanKey {
  Arena *arena;
  VEC(uint64_t) words;
  VEC(Node *) nodes;  /* that are to be run: inputs before readers */
  VEC(Node *) leaves; /* that they read, and that have data */
  PlanParams params;
  /* plan_key_add_uses, of node k: children[operand_end[k - 1] ..
   * operand_end[k]) are the numbers of what it reads; of all: does anything
   * else hold it? */
  VEC(uint32_t) operand_numbers, operand_end;
  bool *externally_held;
  bool uncacheable; /* there is something in it that has no outline */
} PlanKey;

/* Sets no marks for longer than it runs.  Reads of rows may be others
 * afterwards (row_views.c). */
void plan_key_build(PlanKey *o, Graph *g, uint32_t count, Node *const *roots);

/* Before there is a plan, which changes what reads what. */
void plan_key_add_uses(PlanKey *o, uint32_t count, Node *const *roots);

/* ---- row_views.c ---- */

/* A read, by a cell of the node, of rows from .. from + count - 1 of a leaf,
 * where another cell is the number `from`, and nothing else. */
typedef struct RowSliceRead {
  Node *node;
  uint32_t read_op, start_op;
  int64_t first_row, row_count;
  uint32_t leaf_number,
      key_word; /* of the outline: which one; where the number is */
} RowSliceRead;
/* False: it is none. */
bool row_view_match(const Graph *g, Node *n, uint32_t read_op,
                    RowSliceRead *out);
/* Has these, which are all that reads the leaf, read what they need of it as a
 * leaf of its own; NULL: that is all of it, or there is no memory. */
Node *row_view_substitute(Graph *g, Node *leaf, uint32_t count,
                          const RowSliceRead *reads);

/* ---- cached_plan.c ---- */

typedef struct CachedPlan CachedPlan;

/* In the outline's numbers; the plan has clusters, and its nodes their fused
 * bodies. */
CachedPlan *cached_plan_new(Arena *arena, const Plan *plan, const PlanKey *o);
/* The clusters, of these nodes; they live in the arena. */
FusionGroup **cached_plan_instantiate(Arena *arena, const CachedPlan *r,
                                      const PlanKey *o, uint32_t *count);
/* What the clusters read is there as long as they run. */
void cached_plan_retain_inputs(const CachedPlan *r, const PlanKey *o);
void cached_plan_release_inputs(const CachedPlan *r, const PlanKey *o);
/* The nodes that clusters compute, then those that they read. */
typedef struct TouchedNodes {
  VEC(Node *) nodes;
  uint32_t computed_count;
} TouchedNodes;
void cached_plan_touched_nodes(Arena *arena, const CachedPlan *r,
                               const PlanKey *o, TouchedNodes *out);
/* Is it time to plan it anew: what was too little work to be compiled was run
 * so often that it is not too little any more? */
bool cached_plan_count_run(CachedPlan *r, double expected_runs);
/* Would it be that at once, where what is so much work is run so often? */
bool plan_is_hot(const Graph *g, double work, double expected_runs);

/* ---- plan_cache.c ---- */

typedef struct PlanCache PlanCache;

/* Can one be kept for it? */
bool plan_cache_accepts(const PlanKey *o);
/* NULL: there is none. */
CachedPlan *plan_cache_find(Graph *g, const PlanKey *o);
/* Where a recipe is to be made that will be kept. */
Arena *plan_cache_arena(Graph *g, const PlanKey *o);
/* Keeps it; one that was kept before is forgotten. */
void plan_cache_insert(Graph *g, const PlanKey *o, CachedPlan *r);
void plan_cache_free(Graph *g);

#endif
