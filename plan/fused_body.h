/* tensor, for the planner: bodies that grow by substitution.
 *
 * A group is a stored node whose body is being fused.  Its cells are made once
 * each (equal cells are one), so a value that several readers share is
 * computed once.  A read of a node that is not yet decided about stands as a
 * BODY_READ; when the node is inlined, `forward` says what the read became. */
#ifndef AXON_PLAN_FUSED_BODY_H
#define AXON_PLAN_FUSED_BODY_H

#include "plan/observer.h"
#include "plan/plan.h"

typedef struct FusedOp {
  BodyOp body_op;    /* args lie in the group's arena */
  uint32_t forward;  /* 1 + the cell that this one became, or 0 */
  int64_t low, high; /* bounds of an i64; INT64_MIN, INT64_MAX: unknown */
} FusedOp;

typedef struct FusedBody {
  Arena *arena;
  Graph *graph;
  uint32_t axis_count, reduce_count;
  int64_t extents[MAX_RANK];
  PrimId reduce;
  double iterations; /* of the body, reductions included */
  VEC(FusedOp) ops;
  uint32_t *hash_table, hash_capacity; /* hash table: 1 + cell */
  uint32_t value_op;
  VEC(FusedValue) inlined_values; /* where somebody watches */
} FusedBody;

FusedBody *fused_body_new(Arena *arena, Graph *g, const Node *n);
/* Simplified, and found if it is there: the number of a cell equal to c. */
uint32_t fused_body_intern(FusedBody *body, const BodyOp *c, uint32_t count,
                           const uint32_t *args);
uint32_t fused_body_resolve(const FusedBody *body, uint32_t op_index);
uint32_t fused_body_axis(FusedBody *body, uint32_t k);
/* The same body, in a new group, without cells that are not needed, and
 * simplified again now that every read is decided. */
FusedBody *fused_body_simplify(Arena *arena, FusedBody *body);
/* in_bounds.c: is every index of a read inside wherever its value is wanted? */
bool fused_body_read_in_bounds(const FusedBody *body, uint32_t read,
                               const int64_t *extents);
/* Gives the node the group's body. */
void fused_body_install(FusedBody *body, Node *n);

#endif
