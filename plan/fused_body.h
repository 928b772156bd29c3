/* Fused bodies: the body of a materialized node, which grows by inlining.
 *
 * Equal ops exist once.  So a value that several consumers share is computed
 * once.  A read of a node that is not yet decided is a BODY_READ.  When that
 * node is inlined, `forward` names the op that replaces the read. */
#ifndef AXON_PLAN_FUSED_BODY_H
#define AXON_PLAN_FUSED_BODY_H

#include "plan/observer.h"
#include "plan/plan.h"
#include "support/vec.h"

typedef struct Arena Arena;

typedef struct FusedOp {
  BodyOp body_op;    /* its args are in the arena of the body */
  uint32_t forward;  /* 1 + the op that replaces this one, or 0 */
  int64_t low, high; /* interval of an i64; INT64_MIN, INT64_MAX: unknown */
} FusedOp;

typedef struct FusedBody {
  Arena *arena;
  Graph *graph;
  uint32_t axis_count, reduce_count;
  int64_t extents[MAX_RANK];
  PrimId reduce;
  double iterations; /* iterations of the body, those of reductions included */
  VEC(FusedOp) ops;
  uint32_t *hash_table, hash_capacity; /* hash table of 1 + op */
  uint32_t value_op;
  VEC(FusedValue) inlined_values; /* filled in only for an observer */
} FusedBody;

FusedBody *fused_body_new(Arena *arena, Graph *g, const Node *n);
/* Simplifies c.  Returns the number of an op equal to it; adds one if there is
 * none. */
uint32_t fused_body_intern(FusedBody *body, const BodyOp *c, uint32_t count,
                           const uint32_t *args);
uint32_t fused_body_resolve(const FusedBody *body, uint32_t op_index);
uint32_t fused_body_axis(FusedBody *body, uint32_t k);
/* Returns a new copy of the body without unused ops.  Simplifies again, since
 * all reads are decided now. */
FusedBody *fused_body_simplify(Arena *arena, FusedBody *body);
/* in_bounds.c: true if every index of the read is in bounds wherever its value
 * is used. */
bool fused_body_read_in_bounds(const FusedBody *body, uint32_t read,
                               const int64_t *extents);
/* Gives the body to node n. */
void fused_body_install(FusedBody *body, Node *n);

#endif
