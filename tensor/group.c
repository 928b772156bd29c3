/* Bodies under fusion: equal cells made once, and simplified. */
#include "tensor/group.h"

#include "tensor/size.h"

#include <math.h>
#include <string.h>

Group *group_new(Arena *arena, Graph *g, const Node *n) {
  Group *group = NEW(arena, Group);
  group->arena = arena;
  group->graph = g;
  group->axis_count = n->free_count + n->rank;
  group->reduce_count = n->reduce_count;
  group->reduce = n->reduce;
  group->iterations = 1;
  uint32_t axes = group->axis_count + n->reduce_count;
  for (uint32_t k = 0; k < axes; k++) {
    group->extents[k] = n->extents[k];
    group->iterations *= (double)size_guess(g, n->extents[k]);
  }
  return group;
}

uint32_t group_resolve(const Group *group, uint32_t cell) {
  while (group->cells.at[cell].forward)
    cell = group->cells.at[cell].forward - 1;
  return cell;
}

/* ---- finding equal cells ---- */

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t payload(const Cell *c, uint32_t word) {
  switch (c->kind) {
  case CELL_CONST: {
    uint64_t bits;
    memcpy(&bits, &c->value.i, sizeof bits);
    return word ? 0 : bits;
  }
  case CELL_SIZE:
    return word ? 0 : (uint64_t)c->size;
  case CELL_AXIS:
    return word ? 0 : c->axis;
  case CELL_READ:
    return word ? 0 : (uint64_t)(uintptr_t)c->node;
  case CELL_RANDOM:
    return c->key.word[word];
  case CELL_OP:
  case CELL_SELECT:
  case CELL_CONVERT:
    return 0;
  }
  return 0;
}

static uint64_t hash_cell(const Cell *c, uint32_t count, const uint32_t *args) {
  uint64_t h = mix((uint64_t)c->kind << 32 | c->dtype, c->op);
  h = mix(mix(h, payload(c, 0) + c->sure), payload(c, 1));
  for (uint32_t k = 0; k < count; k++)
    h = mix(h, args[k]);
  return h ^ h >> 32;
}

static bool equal_cells(const Cell *a, const Cell *b, uint32_t count,
                        const uint32_t *args) {
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
         a->arg_count == count && a->sure == b->sure &&
         payload(a, 0) == payload(b, 0) && payload(a, 1) == payload(b, 1) &&
         (count == 0 || memcmp(a->args, args, count * sizeof *args) == 0);
}

static void table_put(Group *group, uint32_t cell) {
  const Cell *c = &group->cells.at[cell].cell;
  uint64_t at = hash_cell(c, c->arg_count, c->args);
  uint32_t mask = group->table_cap - 1;
  for (at &= mask; group->table[at]; at = (at + 1) & mask)
    ;
  group->table[at] = cell + 1;
}

static void table_grow(Group *group) {
  group->table_cap = group->table_cap ? 2 * group->table_cap : 64;
  group->table = NEW_ARRAY(group->arena, uint32_t, group->table_cap);
  for (uint32_t k = 0; k < group->cells.len; k++)
    table_put(group, k);
}

static uint32_t table_find(const Group *group, const Cell *c, uint32_t count,
                           const uint32_t *args) {
  if (!group->table_cap)
    return UINT32_MAX;
  uint32_t mask = group->table_cap - 1;
  uint64_t at = hash_cell(c, count, args) & mask;
  for (; group->table[at]; at = (at + 1) & mask)
    if (equal_cells(&group->cells.at[group->table[at] - 1].cell, c, count,
                    args))
      return group->table[at] - 1;
  return UINT32_MAX;
}

/* ---- bounds ---- */

typedef struct Bounds {
  int64_t low, high;
} Bounds;

static const Bounds unbounded = {INT64_MIN, INT64_MAX};

static bool bounded(Bounds b) {
  return b.low != INT64_MIN && b.high != INT64_MAX;
}

static bool is_plain(const Graph *g, Bounds x) {
  return size_is_number(g, x.low) && size_is_number(g, x.high);
}

static Bounds bounds_times(Graph *g, Bounds x, Bounds y) {
  int64_t p[4];
  if (!is_plain(g, x) || !is_plain(g, y)) { /* where signs are known */
    Bounds b;
    return size_holds(g, SIZE_LE, 0, x.low) &&
                   size_holds(g, SIZE_LE, 0, y.low) &&
                   size_mul(g, x.low, y.low, &b.low) &&
                   size_mul(g, x.high, y.high, &b.high)
               ? b
               : unbounded;
  }
  if (__builtin_mul_overflow(x.low, y.low, &p[0]) ||
      __builtin_mul_overflow(x.low, y.high, &p[1]) ||
      __builtin_mul_overflow(x.high, y.low, &p[2]) ||
      __builtin_mul_overflow(x.high, y.high, &p[3]))
    return unbounded;
  Bounds b = {p[0], p[0]};
  for (uint32_t k = 1; k < 4; k++) {
    b.low = p[k] < b.low ? p[k] : b.low;
    b.high = p[k] > b.high ? p[k] : b.high;
  }
  return b;
}

static Bounds bounds_op(Graph *g, PrimId op, Bounds x, Bounds y) {
  Bounds b = unbounded;
  bool positive = y.low != INT64_MIN && size_holds(g, SIZE_LE, 1, y.low);
  if (op == PRIM_MOD && positive)
    return size_sub(g, y.high, 1, &b.high) ? (Bounds){0, b.high} : unbounded;
  if (!bounded(x) || !bounded(y))
    return b;
  bool good = true;
  if (op == PRIM_ADD)
    good = size_add(g, x.low, y.low, &b.low) &&
           size_add(g, x.high, y.high, &b.high);
  else if (op == PRIM_SUB)
    good = size_sub(g, x.low, y.high, &b.low) &&
           size_sub(g, x.high, y.low, &b.high);
  else if (op == PRIM_MUL)
    b = bounds_times(g, x, y);
  else if (op == PRIM_DIV && positive && y.low == y.high)
    good = size_div(g, x.low, y.low, &b.low) &&
           size_div(g, x.high, y.low, &b.high);
  else if (op == PRIM_MAXIMUM)
    b = (Bounds){size_max(g, x.low, y.low), size_max(g, x.high, y.high)};
  else if (op == PRIM_MINIMUM)
    b = (Bounds){size_min(g, x.low, y.low), size_min(g, x.high, y.high)};
  return good ? b : unbounded;
}

static Bounds bounds_of(const Group *group, uint32_t cell) {
  return (Bounds){group->cells.at[cell].low, group->cells.at[cell].high};
}

static Bounds cell_bounds(const Group *group, const Cell *c,
                          const uint32_t *args) {
  if (c->dtype != DT_I64)
    return unbounded;
  if (c->kind == CELL_CONST)
    return (Bounds){c->value.i, c->value.i};
  if (c->kind == CELL_AXIS)
    return (Bounds){0, size_less(group->graph, group->extents[c->axis], 1)};
  if (c->kind == CELL_SIZE)
    return (Bounds){c->size, c->size};
  if (c->kind == CELL_OP && c->arg_count == 2)
    return bounds_op(group->graph, c->op, bounds_of(group, args[0]),
                     bounds_of(group, args[1]));
  return unbounded;
}

/* ---- simplification ---- */

static const Cell *cell_at(const Group *group, uint32_t k) {
  return &group->cells.at[k].cell;
}

static bool is_int(const Group *group, uint32_t k, int64_t x) {
  const Cell *c = cell_at(group, k);
  return c->kind == CELL_CONST && c->dtype == DT_I64 && c->value.i == x;
}

static uint32_t constant(Group *group, Scalar x) {
  Cell c = {.kind = CELL_CONST, .dtype = x.dtype, .value = x};
  return group_cell(group, &c, 0, NULL);
}

static bool fold_op(const Group *group, const Cell *c, uint32_t count,
                    const uint32_t *args, Scalar *out) {
  Scalar x[3];
  if (count == 0 || count > 3)
    return false;
  for (uint32_t k = 0; k < count; k++) {
    if (cell_at(group, args[k])->kind != CELL_CONST)
      return false;
    x[k] = cell_at(group, args[k])->value;
    if (is_param(x[k]))
      return false;
  }
  PrimId op = c->kind == CELL_CONVERT ? PRIM_CONVERT : c->op;
  return scalar_apply(op, count, x, c->dtype, out) == ARITH_OK;
}

static bool is_test(PrimId op) {
  return op == PRIM_EQ || op == PRIM_NE || op == PRIM_LT || op == PRIM_LE ||
         op == PRIM_GT || op == PRIM_GE;
}

/* Is a comparison of bounded integers already decided? */
static bool fold_test(const Group *group, const Cell *c, const uint32_t *args,
                      Scalar *out) {
  if (c->arg_count != 2 || cell_at(group, args[0])->dtype != DT_I64)
    return false;
  Bounds x = bounds_of(group, args[0]), y = bounds_of(group, args[1]);
  const Graph *g = group->graph;
  if (g->sizes && args[0] != args[1] && (!bounded(x) || !bounded(y)))
    return false;
  bool less = size_below(g, x.high, y.low);
  bool more = size_below(g, y.high, x.low);
  bool below = size_holds(g, SIZE_LE, x.high, y.low);
  bool above = size_holds(g, SIZE_LE, y.high, x.low);
  bool same = args[0] == args[1];
  *out = (Scalar){.dtype = DT_BOOL};
  if (same && is_test(c->op))
    out->i = c->op == PRIM_EQ || c->op == PRIM_LE || c->op == PRIM_GE;
  else if (c->op == PRIM_LT && (less || above))
    out->i = less;
  else if (c->op == PRIM_LE && (below || more))
    out->i = below;
  else if (c->op == PRIM_GT && (more || below))
    out->i = more;
  else if (c->op == PRIM_GE && (above || less))
    out->i = above;
  else if (c->op == PRIM_EQ && (less || more))
    out->i = 0;
  else if (c->op == PRIM_NE && (less || more))
    out->i = 1;
  else
    return false;
  return true;
}

/* Integers that a float type holds exactly, and their order. */
static int64_t exact_most(Dtype t) {
  return t == DT_F64    ? (int64_t)1 << 53
         : t == DT_F32  ? 1 << 24
         : t == DT_F16  ? 1 << 11
         : t == DT_BF16 ? 1 << 8
                        : 0;
}

/* The integer that a float stands for; UINT32_MAX: it may be none. */
static uint32_t exact_int(Group *group, uint32_t k) {
  const Cell *c = cell_at(group, k);
  int64_t most = exact_most(c->dtype);
  if (c->kind == CELL_CONST && fabs(c->value.f) <= (double)most &&
      c->value.f == floor(c->value.f))
    return constant(group, (Scalar){.dtype = DT_I64, .i = (int64_t)c->value.f});
  if (c->kind != CELL_CONVERT || cell_at(group, c->args[0])->dtype != DT_I64)
    return UINT32_MAX;
  Bounds b = bounds_of(group, c->args[0]);
  return b.low >= -most && b.high <= most ? c->args[0] : UINT32_MAX;
}

/* Indices that were made floats are compared as what they are: so conditions
 * on them are seen to be that. */
static uint32_t test_ints(Group *group, const Cell *c, const uint32_t *args) {
  if (!is_test(c->op) || !dtype_is_float(cell_at(group, args[0])->dtype))
    return UINT32_MAX;
  uint32_t ints[2] = {exact_int(group, args[0]), exact_int(group, args[1])};
  return ints[0] == UINT32_MAX || ints[1] == UINT32_MAX
             ? UINT32_MAX
             : group_cell(group, c, 2, ints);
}

/* x + 0, x * 1, x / 1, and / and % that the bounds of x make idle. */
static uint32_t idle_int(Group *group, const Cell *c, const uint32_t *args) {
  if (c->dtype != DT_I64 || c->arg_count != 2)
    return UINT32_MAX;
  uint32_t x = args[0], y = args[1];
  Bounds bx = bounds_of(group, x), by = bounds_of(group, y);
  const Graph *g = group->graph;
  bool small = (c->op == PRIM_DIV || c->op == PRIM_MOD) && by.low == by.high &&
               bounded(bx) && size_holds(g, SIZE_LE, 0, bx.low) &&
               size_below(g, bx.high, by.low);
  if (c->op == PRIM_ADD)
    return is_int(group, y, 0) ? x : is_int(group, x, 0) ? y : UINT32_MAX;
  if (c->op == PRIM_SUB && is_int(group, y, 0))
    return x;
  if (c->op == PRIM_MUL && (is_int(group, y, 1) || is_int(group, x, 1)))
    return is_int(group, y, 1) ? x : y;
  if (c->op == PRIM_MUL && (is_int(group, y, 0) || is_int(group, x, 0)))
    return is_int(group, y, 0) ? y : x;
  if (c->op == PRIM_DIV && is_int(group, y, 1))
    return x;
  if (c->op == PRIM_DIV && small)
    return constant(group, (Scalar){.dtype = DT_I64});
  if (c->op == PRIM_MOD && small)
    return x;
  return UINT32_MAX;
}

/* x / c where 1 / c is exact: a product is the same number, and quicker. */
static bool divides_exactly(const Group *group, const Cell *c,
                            const uint32_t *args, Scalar *factor) {
  if (c->op != PRIM_DIV || (c->dtype != DT_F32 && c->dtype != DT_F64) ||
      cell_at(group, args[1])->kind != CELL_CONST)
    return false;
  int exponent;
  double by = cell_at(group, args[1])->value.f;
  if (fabs(frexp(by, &exponent)) != 0.5 || exponent < -100 || exponent > 100)
    return false;
  *factor = (Scalar){.dtype = c->dtype, .f = 1 / by};
  return true;
}

/* The larger of x and x. */
static uint32_t idle_extreme(const Cell *c, const uint32_t *args) {
  bool idle = (c->op == PRIM_MAXIMUM || c->op == PRIM_MINIMUM) &&
              c->arg_count == 2 && args[0] == args[1];
  return idle ? args[0] : UINT32_MAX;
}

/* `true && x`, `false || x`, and so on. */
static uint32_t idle_bool(const Group *group, const Cell *c,
                          const uint32_t *args) {
  if (c->op != PRIM_AND && c->op != PRIM_OR)
    return UINT32_MAX;
  for (uint32_t k = 0; k < 2; k++) {
    const Cell *x = cell_at(group, args[k]);
    if (x->kind == CELL_CONST)
      return (x->value.i != 0) == (c->op == PRIM_AND) ? args[1 - k] : args[k];
  }
  return UINT32_MAX;
}

/* Is it made of indices and numbers alone, so that it may be asked anywhere?
 * Recursion is as deep as a body, which the planner bounds. */
static bool is_harmless(const Group *group, uint32_t k) {
  const Cell *c = cell_at(group, group_resolve(group, k));
  if (c->kind != CELL_CONST && c->kind != CELL_SIZE && c->kind != CELL_AXIS &&
      c->kind != CELL_OP)
    return false;
  if (c->kind == CELL_OP &&
      (c->op == PRIM_DIV || c->op == PRIM_MOD || c->op == PRIM_POW))
    return false;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (!is_harmless(group, c->args[j]))
      return false;
  return true;
}

/* `if c then (if d then x else y) else y` asks once. */
static uint32_t nested_choice(Group *group, const Cell *c,
                              const uint32_t *args) {
  const Cell *inner = cell_at(group, args[1]);
  if (inner->kind != CELL_SELECT ||
      group_resolve(group, inner->args[2]) != args[2] ||
      !is_harmless(group, inner->args[0]))
    return UINT32_MAX;
  uint32_t x = group_resolve(group, inner->args[1]);
  Cell both = {.kind = CELL_OP, .op = PRIM_AND, .dtype = DT_BOOL};
  both.span = c->span;
  uint32_t conditions[2] = {args[0], group_resolve(group, inner->args[0])};
  uint32_t all[3] = {group_cell(group, &both, 2, conditions), x, args[2]};
  return group_cell(group, c, 3, all);
}

static uint32_t simpler(Group *group, const Cell *c, uint32_t count,
                        const uint32_t *args) {
  Scalar value;
  switch (c->kind) {
  case CELL_AXIS:
    if (group->extents[c->axis] == 1)
      return constant(group, (Scalar){.dtype = DT_I64});
    break;
  case CELL_SELECT:
    if (cell_at(group, args[0])->kind == CELL_CONST)
      return cell_at(group, args[0])->value.i ? args[1] : args[2];
    if (args[1] == args[2])
      return args[1];
    return nested_choice(group, c, args);
  case CELL_CONVERT:
    if (cell_at(group, args[0])->dtype == c->dtype)
      return args[0];
    if (fold_op(group, c, count, args, &value))
      return constant(group, value);
    break;
  case CELL_OP: {
    if (fold_op(group, c, count, args, &value) ||
        fold_test(group, c, args, &value))
      return constant(group, value);
    if (divides_exactly(group, c, args, &value)) {
      Cell times = *c;
      times.op = PRIM_MUL;
      uint32_t factors[2] = {args[0], constant(group, value)};
      return group_cell(group, &times, 2, factors);
    }
    uint32_t same = idle_int(group, c, args);
    if (same == UINT32_MAX)
      same = idle_bool(group, c, args);
    if (same == UINT32_MAX)
      same = idle_extreme(c, args);
    return same == UINT32_MAX ? test_ints(group, c, args) : same;
  }
  case CELL_CONST:
  case CELL_SIZE:
  case CELL_READ:
  case CELL_RANDOM:
    break;
  }
  return UINT32_MAX;
}

uint32_t group_cell(Group *group, const Cell *model, uint32_t count,
                    const uint32_t *args) {
  Cell c = *model;
  c.arg_count = count;
  uint32_t found = simpler(group, &c, count, args);
  if (found == UINT32_MAX)
    found = table_find(group, &c, count, args);
  if (found != UINT32_MAX)
    return found;
  Bounds b = cell_bounds(group, &c, args);
  c.args = count ? NEW_ARRAY(group->arena, uint32_t, count) : NULL;
  if (count)
    memcpy(c.args, args, count * sizeof *args);
  GroupCell made = {.cell = c, .low = b.low, .high = b.high};
  VEC_PUSH(group->arena, group->cells, made);
  if (2 * group->cells.len >= group->table_cap)
    table_grow(group);
  else
    table_put(group, group->cells.len - 1);
  return group->cells.len - 1;
}

uint32_t group_axis(Group *group, uint32_t k) {
  Cell c = {.kind = CELL_AXIS, .dtype = DT_I64, .axis = k};
  return group_cell(group, &c, 0, NULL);
}

/* ---- the finished body ---- */

typedef struct Cleaning {
  Group *from, *to;
  uint32_t *done; /* 1 + the cell in `to` */
} Cleaning;

/* Recursion is as deep as a body: bounded by the planner's limit on cells. */
static uint32_t clean(Cleaning *c, uint32_t cell) {
  cell = group_resolve(c->from, cell);
  if (c->done[cell])
    return c->done[cell] - 1;
  const Cell *old = cell_at(c->from, cell);
  uint32_t small[8], count = old->arg_count, made;
  uint32_t *args = count <= ARRAY_LEN(small)
                       ? small
                       : NEW_ARRAY(c->to->arena, uint32_t, count);
  for (uint32_t k = 0; k < count; k++)
    args[k] = clean(c, old->args[k]);
  made = group_cell(c->to, old, count, args);
  c->done[cell] = made + 1;
  return made;
}

static void mark_live(const Group *group, uint32_t cell, bool *live) {
  for (uint32_t k = cell + 1; k-- > 0;) {
    const Cell *c = cell_at(group, k);
    live[k] |= k == cell;
    for (uint32_t j = 0; live[k] && j < c->arg_count; j++)
      live[c->args[j]] = true;
  }
}

/* Leaves out what simplification made useless, and puts the value last. */
static void compact(Group *group) {
  uint32_t count = group->cells.len, kept = 0;
  bool *live = NEW_ARRAY(group->arena, bool, count);
  uint32_t *place = NEW_ARRAY(group->arena, uint32_t, count);
  mark_live(group, group->value, live);
  for (uint32_t k = 0; k < count; k++) {
    if (!live[k])
      continue;
    GroupCell *c = &group->cells.at[kept];
    *c = group->cells.at[k];
    for (uint32_t j = 0; j < c->cell.arg_count; j++)
      c->cell.args[j] = place[c->cell.args[j]];
    place[k] = kept++;
  }
  group->cells.len = kept;
  group->value = kept - 1;
}

Group *group_clean(Arena *arena, Group *group) {
  Group *to = NEW(arena, Group);
  *to = *group;
  to->arena = arena;
  to->cells.at = NULL;
  to->cells.len = to->cells.cap = 0;
  to->table = NULL;
  to->table_cap = 0;
  Cleaning c = {.from = group, .to = to};
  c.done = NEW_ARRAY(arena, uint32_t, group->cells.len);
  to->value = clean(&c, group->value);
  compact(to);
  return to;
}

/* The extents of a node that became a reduction; NULL: it did not. */
static int64_t *wider_extents(const Group *group, const Node *n) {
  if (n->reduce_count == group->reduce_count)
    return NULL;
  size_t size = (group->axis_count + group->reduce_count) * sizeof(int64_t);
  int64_t *extents = mem_alloc(size);
  memcpy(extents, group->extents, size);
  return extents;
}

static void copy_cells(const Group *group, Cell *cells) {
  uint32_t count = group->cells.len;
  uint32_t *args = (uint32_t *)(cells + count);
  for (uint32_t k = 0; k < count; k++) {
    cells[k] = group->cells.at[k].cell;
    if (cells[k].arg_count)
      memcpy(args, cells[k].args, cells[k].arg_count * sizeof *args);
    cells[k].args = args;
    args += cells[k].arg_count;
    if (cells[k].kind == CELL_READ)
      node_retain(cells[k].node);
  }
}

void group_install(Group *group, Node *n) {
  uint32_t count = group->cells.len, arg_count = 0;
  for (uint32_t k = 0; k < count; k++)
    arg_count += group->cells.at[k].cell.arg_count;
  int64_t *extents = wider_extents(group, n);
  Cell *old = n->cells;
  uint32_t old_count = n->cell_count;
  Cell *cells =
      mem_try_alloc(count * sizeof *cells + arg_count * sizeof(uint32_t));
  if (!cells) {
    mem_free(extents);
    trap_raise(FAIL_MEMORY);
  }
  copy_cells(group, cells);
  n->cells = cells;
  n->cell_count = count;
  if (extents)
    n->extents = extents; /* the first ones lie in the node's own block */
  n->reduce = group->reduce;
  n->reduce_count = group->reduce_count;
  for (uint32_t k = 0; k < old_count; k++)
    if (old[k].kind == CELL_READ)
      node_release(old[k].node);
  mem_free(old);
  node_release(n->guard); /* it is in the body */
  n->guard = NULL;
}
