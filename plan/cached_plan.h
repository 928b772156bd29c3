/* Cached plans.
 *
 * Planning takes longer than running small graphs, and a program runs the same
 * graphs again and again: iterations of a loop, calls of a function.  So a plan
 * is cached.  Its *plan key* describes the graph: nodes are numbers, in the
 * order in which they are reached from the roots.  If a later graph has the
 * same key, its nodes and leaves take the places of the earlier ones.
 *
 * Most floats are parameters and not part of the key, such as 0.9 in `x * 0.9`.
 * The exceptions are facts on which a plan may depend: whether two floats are
 * equal, and the values 0, 1 and powers of two.  During planning, a parameter
 * is represented by a special NaN, so that the plan cannot depend on its value.
 * All keys of random numbers are parameters. */
#ifndef AXON_PLAN_CACHED_PLAN_H
#define AXON_PLAN_CACHED_PLAN_H

#include "plan/plan.h"
#include "support/vec.h"

typedef struct Arena Arena;

/* ---- plan_key.c ---- */

typedef struct PlanParams { /* parameters, without duplicates */
  VEC(double) values;
  uint32_t *hash_table, hash_capacity; /* hash table of 1 + index */
  VEC(PrngKey) random_keys;
} PlanParams;
/* Returns the index of x; UINT32_MAX: it is no parameter. */
uint32_t plan_params_find(const PlanParams *params, double x);
uint32_t plan_params_find_key(const PlanParams *params, PrngKey key);

typedef struct PlanKey {
  Arena *arena;
  VEC(uint64_t) words;
  VEC(Node *) nodes;  /* nodes to run, operands before consumers */
  VEC(Node *) leaves; /* nodes with data that these read */
  PlanParams params;
  /* Filled in by plan_key_add_uses.  The operands of node k are
   * operand_numbers[operand_end[k - 1] .. operand_end[k]).  The flags say
   * whether anything outside the graph holds the node. */
  VEC(uint32_t) operand_numbers, operand_end;
  bool *externally_held;
  bool uncacheable; /* a part of the graph has no key */
} PlanKey;

/* Marks nodes only while it runs.  Afterwards, reads of rows may be reads of
 * row views (row_views.c). */
void plan_key_build(PlanKey *o, Graph *g, uint32_t count, Node *const *roots);

/* Call this before planning, which changes the operands of nodes. */
void plan_key_add_uses(PlanKey *o, uint32_t count, Node *const *roots);

/* ---- row_views.c ---- */

/* A body op that reads rows from .. from + count - 1 of a leaf.  Another op is
 * the constant `from`, which is used for nothing else. */
typedef struct RowSliceRead {
  Node *node;
  uint32_t read_op, start_op;
  int64_t first_row, row_count;
  /* Position in the key, and of the word with the constant. */
  uint32_t leaf_number, key_word;
} RowSliceRead;
/* Returns false if the op is no such read. */
bool row_view_match(const Graph *g, Node *n, uint32_t read_op,
                    RowSliceRead *out);
/* Makes the given reads, which are all reads of the leaf, read a new leaf: the
 * rows that they need.  Returns NULL if they need all rows, or without
 * memory. */
Node *row_view_substitute(Graph *g, Node *leaf, uint32_t count,
                          const RowSliceRead *reads);

/* ---- cached_plan.c ---- */

typedef struct CachedPlan CachedPlan;

/* Describes the plan in the numbers of the key.  The plan must have groups, and
 * its nodes must have their fused bodies. */
CachedPlan *cached_plan_new(Arena *arena, const Plan *plan, const PlanKey *o);
/* Creates the groups for the nodes of the key.  They live in the arena. */
FusionGroup **cached_plan_instantiate(Arena *arena, const CachedPlan *r,
                                      const PlanKey *o, uint32_t *count);
/* Retains what the groups read while they run. */
void cached_plan_retain_inputs(const CachedPlan *r, const PlanKey *o);
void cached_plan_release_inputs(const CachedPlan *r, const PlanKey *o);
/* The nodes that the groups compute, then the nodes that they read. */
typedef struct TouchedNodes {
  VEC(Node *) nodes;
  uint32_t computed_count;
} TouchedNodes;
void cached_plan_touched_nodes(Arena *arena, const CachedPlan *r,
                               const PlanKey *o, TouchedNodes *out);
/* Counts a run.  Returns true if the graph should be planned again, because
 * code that was below the compilation threshold has run often enough to be
 * compiled, or has to be compiled.  The former happens once: if the new plan
 * has more kernels than the backend can keep, this plan stays. */
bool cached_plan_count_run(CachedPlan *r, double expected_runs,
                           bool compiles_all);
/* True if that is so from the start, for this work and this number of runs. */
bool plan_is_hot(const Graph *g, double work, double expected_runs);
/* Operations of one run of a node. */
double plan_node_work(const Node *n);

/* ---- plan_cache.c ---- */

typedef struct PlanCache PlanCache;

/* True if the key allows caching. */
bool plan_cache_accepts(const PlanKey *o);
/* Returns NULL if there is none. */
CachedPlan *plan_cache_find(Graph *g, const PlanKey *o);
/* The arena for a cached plan with this key. */
Arena *plan_cache_arena(Graph *g, const PlanKey *o);
/* Adds r.  Replaces an earlier plan with the same key. */
void plan_cache_insert(Graph *g, const PlanKey *o, CachedPlan *r);
void plan_cache_free(Graph *g);

#endif
