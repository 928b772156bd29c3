/* Which reads of a body lie inside, by bounds of their indices or because only
 * a choice wants them that has looked: `if i >= p && i < n + p then x.[i - p]
 * else 0`, as padding writes it. */
#include "tensor/group.h"
#include "tensor/size.h"

static const GroupCell *cell_at(const Group *group, uint32_t k) {
  return &group->cells.at[k];
}

/* A number, or a size (size.h). */
static bool is_number(const Group *group, uint32_t k) {
  const Cell *c = &cell_at(group, k)->cell;
  return (c->kind == CELL_CONST && c->dtype == DT_I64 &&
          size_is_number(group->graph, c->value.i)) ||
         c->kind == CELL_SIZE;
}

static int64_t number_of(const Group *group, uint32_t k) {
  const Cell *c = &cell_at(group, k)->cell;
  return c->kind == CELL_SIZE ? c->size : c->value.i;
}

typedef struct Sum { /* of a cell and a size */
  uint32_t cell;
  int64_t more;
} Sum;

/* False: it does not fit. */
static bool split_sum(const Group *group, uint32_t k, Sum *sum) {
  *sum = (Sum){group_resolve(group, k), 0};
  for (;;) {
    const Cell *c = &cell_at(group, sum->cell)->cell;
    if (c->kind != CELL_OP || c->dtype != DT_I64 ||
        (c->op != PRIM_ADD && c->op != PRIM_SUB))
      return true;
    uint32_t x = group_resolve(group, c->args[0]);
    uint32_t y = group_resolve(group, c->args[1]);
    if (c->op == PRIM_ADD && is_number(group, x)) {
      uint32_t number = x;
      x = y;
      y = number;
    }
    if (!is_number(group, y))
      return true;
    int64_t by = number_of(group, y);
    if (!(c->op == PRIM_ADD ? size_add : size_sub)(group->graph, sum->more, by,
                                                   &sum->more))
      return false;
    sum->cell = x;
  }
}

typedef struct Range {
  Sum of; /* an index */
  int64_t low, high;
} Range;

static PrimId mirrored(PrimId op) {
  return op == PRIM_GE   ? PRIM_LE
         : op == PRIM_GT ? PRIM_LT
         : op == PRIM_LE ? PRIM_GE
         : op == PRIM_LT ? PRIM_GT
                         : op;
}

static PrimId opposite(PrimId op) {
  return op == PRIM_GE   ? PRIM_LT
         : op == PRIM_GT ? PRIM_LE
         : op == PRIM_LE ? PRIM_GT
         : op == PRIM_LT ? PRIM_GE
                         : PRIM_NONE;
}

static bool is_bound(int64_t x) {
  return x != INT64_MIN && x != INT64_MAX;
}

/* What is known to be the tighter of two bounds, the other one where neither
 * is. */
static int64_t tighter(const Graph *g, int64_t x, int64_t y, bool high) {
  if (!is_bound(x) || !is_bound(y))
    return is_bound(x) ? x : y;
  return size_holds(g, SIZE_LE, high ? x : y, high ? y : x) ? x : y;
}

/* x `op` number says something of the index if both are the same but for a
 * number. */
static void compare(const Group *group, PrimId op, uint32_t x, int64_t number,
                    Range *r) {
  Graph *g = group->graph;
  Sum s;
  int64_t at, next, before;
  if (!split_sum(group, x, &s) || s.cell != r->of.cell ||
      !size_sub(g, number, s.more, &at) || !size_add(g, at, r->of.more, &at) ||
      !size_add(g, at, 1, &next) || !size_sub(g, at, 1, &before))
    return;
  int64_t low = op == PRIM_GE ? at : op == PRIM_GT ? next : INT64_MIN;
  int64_t high = op == PRIM_LE ? at : op == PRIM_LT ? before : INT64_MAX;
  r->low = tighter(g, low, r->low, false);
  r->high = tighter(g, high, r->high, true);
}

/* What it says of an index that a condition is true, or that it is not.
 * Recursion is as deep as a body, which the planner bounds. */
static void narrow(const Group *group, uint32_t condition, bool is, Range *r) {
  const Cell *c = &cell_at(group, group_resolve(group, condition))->cell;
  if (c->kind != CELL_OP)
    return;
  if (c->op == PRIM_NOT) {
    narrow(group, c->args[0], !is, r);
    return;
  }
  if (c->arg_count != 2)
    return;
  uint32_t x = group_resolve(group, c->args[0]);
  uint32_t y = group_resolve(group, c->args[1]);
  PrimId op = is ? c->op : opposite(c->op);
  if (c->op == (is ? PRIM_AND : PRIM_OR)) {
    narrow(group, x, is, r);
    narrow(group, y, is, r);
  } else if (is_number(group, y)) {
    compare(group, op, x, number_of(group, y), r);
  } else if (is_number(group, x)) {
    compare(group, mirrored(op), y, number_of(group, x), r);
  }
}

static bool uses(const Group *group, uint32_t k, uint32_t cell) {
  const GroupCell *c = cell_at(group, k);
  for (uint32_t j = 0; j < c->cell.arg_count && !c->forward; j++)
    if (group_resolve(group, c->cell.args[j]) == cell)
      return true;
  return false;
}

static bool is_inside(const Graph *g, int64_t low, int64_t high,
                      int64_t extent) {
  return low != INT64_MIN && high != INT64_MAX &&
         size_holds(g, SIZE_LE, 0, low) && size_below(g, high, extent);
}

/* Does cell k, which uses the read, want it only where the index is inside? */
static bool looks(const Group *group, uint32_t k, uint32_t read, uint32_t index,
                  int64_t extent) {
  const GroupCell *i = cell_at(group, index);
  const Cell *c = &cell_at(group, k)->cell;
  Range r = {.low = i->low, .high = i->high};
  if (c->kind != CELL_SELECT || !split_sum(group, index, &r.of) ||
      group_resolve(group, c->args[0]) == read)
    return false;
  bool first = group_resolve(group, c->args[1]) == read;
  if (first == (group_resolve(group, c->args[2]) == read))
    return false;
  narrow(group, c->args[0], first, &r);
  return is_inside(group->graph, r.low, r.high, extent);
}

static bool is_looked_at(const Group *group, uint32_t read, uint32_t index,
                         int64_t extent) {
  if (group_resolve(group, group->value) == read)
    return false;
  for (uint32_t k = 0; k < group->cells.len; k++)
    if (uses(group, k, read) && !looks(group, k, read, index, extent))
      return false;
  return true;
}

bool group_reads_inside(const Group *group, uint32_t read,
                        const int64_t *extents) {
  const Cell *cell = &cell_at(group, read)->cell;
  for (uint32_t j = 0; j < cell->arg_count; j++) {
    uint32_t index = group_resolve(group, cell->args[j]);
    const GroupCell *i = cell_at(group, index);
    if (!is_inside(group->graph, i->low, i->high, extents[j]) &&
        !is_looked_at(group, read, index, extents[j]))
      return false;
  }
  return true;
}
