/* tensor, for the planner: bodies that grow by substitution.
 *
 * A group is a stored node whose body is being fused.  Its cells are made once
 * each (equal cells are one), so a value that several readers share is
 * computed once.  A read of a node that is not yet decided about stands as a
 * CELL_READ; when the node is inlined, `forward` says what the read became. */
#ifndef AXON_TENSOR_GROUP_H
#define AXON_TENSOR_GROUP_H

#include "tensor/internal.h"
#include "tensor/watch.h"

typedef struct GroupCell {
  Cell cell;         /* args lie in the group's arena */
  uint32_t forward;  /* 1 + the cell that this one became, or 0 */
  int64_t low, high; /* bounds of an i64; INT64_MIN, INT64_MAX: unknown */
} GroupCell;

typedef struct Group {
  Arena *arena;
  Graph *graph;
  uint32_t axis_count, reduce_count;
  int64_t extents[RANK_MAX];
  PrimId reduce;
  double iterations; /* of the body, reductions included */
  VEC(GroupCell) cells;
  uint32_t *table, table_cap; /* hash table: 1 + cell */
  uint32_t value;
  VEC(FusedValue) fused; /* where somebody watches */
} Group;

Group *group_new(Arena *arena, Graph *g, const Node *n);
/* Simplified, and found if it is there: the number of a cell equal to c. */
uint32_t group_cell(Group *group, const Cell *c, uint32_t count,
                    const uint32_t *args);
uint32_t group_resolve(const Group *group, uint32_t cell);
uint32_t group_axis(Group *group, uint32_t k);
/* The same body, in a new group, without cells that are not needed, and
 * simplified again now that every read is decided. */
Group *group_clean(Arena *arena, Group *group);
/* inside.c: is every index of a read inside wherever its value is wanted? */
bool group_reads_inside(const Group *group, uint32_t read,
                        const int64_t *extents);
/* Gives the node the group's body. */
void group_install(Group *group, Node *n);

#endif
