/* Parts of an axis.  A concatenation, a rolled or a padded row has conditions
 * that change at few indices of the axis.  Between these, each condition is
 * known: a select is one of its operands, and a quotient is a number.  So each
 * part has its own operations, often just a copy. */
#include "kernel/loop_parts.h"
#include "support/arena.h"

#include <string.h>

typedef struct PartList {
  Arena *arena;
  uint32_t axis, count;
  LoopPart *parts; /* MAX_LOOP_PARTS */
  bool failed;     /* there are more, or a size overflows */
} PartList;

/* ---- known values ---- */

static bool is_constant(const KernelOp *s, bool value) {
  return s->kind == KOP_CONST && s->dtype == DT_BOOL && s->value.i == value;
}

static void set_constant(KernelOp *s, bool value) {
  s->kind = KOP_CONST;
  s->arg_count = 0;
  s->value = (Scalar){.dtype = DT_BOOL, .i = value};
}

static bool is_select(const KernelOp *s) {
  return s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT);
}

/* Returns true if an operation, or one that it needs, can fail.  can_fail: of
 * the operations before it. */
static bool op_can_fail(const LoopNest *loop, uint32_t at,
                        const bool *can_fail) {
  const KernelOp *s = &loop->ops.at[at];
  bool is_map = s->kind == KOP_MAP && !dtype_is_float(s->dtype) &&
                map_info[s->op].fault != ARITH_OK;
  uint32_t indices = s->kind == KOP_LOAD ? s->checked_index_count : 0;
  bool fails = !s->proved_safe &&
               (indices || (is_map && loop->ops.at[s->args[1]].low <= 0));
  for (uint32_t a = 0; a < indices; a++)
    fails |= can_fail[s->checked_indices[a].index_op];
  for (uint32_t a = 0; a < s->arg_count; a++)
    fails |= can_fail[s->args[a]];
  return fails;
}

/* The operand that an operation equals, or `at`.  Only KOP_SELECT demands one
 * side: the errors of operands of maps are not lost. */
static uint32_t simplify_op(LoopNest *loop, uint32_t at, const bool *can_fail) {
  KernelOp *s = &loop->ops.at[at];
  if (!s->arg_count)
    return at;
  const KernelOp *x = &loop->ops.at[s->args[0]];
  if (is_select(s))
    for (uint32_t side = 1; side < 3; side++)
      if (is_constant(x, side == 1) &&
          loop->ops.at[s->args[side]].dtype == s->dtype &&
          (s->kind == KOP_SELECT || !can_fail[s->args[3 - side]]))
        return s->args[side];
  if (s->kind != KOP_MAP)
    return at;
  if (s->op == PRIM_NOT && x->kind == KOP_CONST)
    set_constant(s, !x->value.i);
  if (s->op != PRIM_AND && s->op != PRIM_OR)
    return at;
  for (uint32_t j = 0; j < 2; j++) {
    if (is_constant(&loop->ops.at[s->args[j]], s->op == PRIM_AND))
      return s->args[1 - j];
    if (is_constant(&loop->ops.at[s->args[j]], s->op == PRIM_OR) &&
        !can_fail[s->args[1 - j]]) {
      set_constant(s, s->op == PRIM_OR);
      return at;
    }
  }
  return at;
}

/* A copy of the operations that its outputs need. */
static LoopNest *needed_part(Arena *arena, const LoopNest *from) {
  LoopNest *to = loop_clone_empty(arena, from);
  uint32_t *op_map = NEW_ARRAY(arena, uint32_t, from->ops.len);
  for (uint32_t j = 0; j < from->outputs.len; j++) {
    LoopOutput r = from->outputs.at[j];
    r.value_op = loop_clone_op(arena, from, to, op_map, r.value_op);
    r.global_index = affine_copy(arena, r.global_index);
    r.local_index = affine_copy(arena, r.local_index);
    VEC_PUSH(arena, to->outputs, r);
  }
  return to;
}

/* Replaces each operation that equals another one. */
static LoopNest *simplified(Arena *arena, const LoopNest *from) {
  LoopNest *loop = needed_part(arena, from);
  uint32_t *equal = NEW_ARRAY(arena, uint32_t, loop->ops.len);
  bool *can_fail = NEW_ARRAY(arena, bool, loop->ops.len);
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    KernelOp *s = &loop->ops.at[j];
    for (uint32_t a = 0; a < s->arg_count; a++)
      s->args[a] = equal[s->args[a]];
    for (uint32_t a = 0; s->kind == KOP_LOAD && a < s->checked_index_count; a++)
      s->checked_indices[a].index_op = equal[s->checked_indices[a].index_op];
    can_fail[j] = op_can_fail(loop, j, can_fail);
    equal[j] = simplify_op(loop, j, can_fail);
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    loop->outputs.at[j].value_op = equal[loop->outputs.at[j].value_op];
  return needed_part(arena, loop);
}

/* Replaces a quotient by its only value.  Returns false on overflow. */
static bool set_quotient(const LoopNest *loop, AffineExpr *q, uint32_t number) {
  int64_t *coef = &q->coef[MAX_KERNEL_AXES + number], term;
  bool fits =
      extent_mul(loop->graph, *coef, loop->floor_divs[number].low, &term) &&
      extent_add(loop->graph, q->constant, term, &q->constant);
  *coef = 0;
  return fits;
}

static bool replace_quotient(LoopNest *loop, uint32_t number) {
  bool fits = true;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (kernel_op_affine(&loop->ops.at[j]))
      fits &= set_quotient(loop, kernel_op_affine(&loop->ops.at[j]), number);
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    LoopOutput *r = &loop->outputs.at[j];
    if (r->global_index)
      fits &= set_quotient(loop, r->global_index, number);
    if (r->local_index)
      fits &= set_quotient(loop, r->local_index, number);
  }
  for (uint32_t j = number + 1; j < loop->floor_div_count; j++)
    fits &= set_quotient(loop, &loop->floor_divs[j].dividend, number);
  return fits;
}

/* ---- indices ---- */

/* Adds a checked index to the address if it is in bounds in the part.  Returns
 * false if it may be out of bounds. */
static bool fold_checked_index(const PartList *l, const LoopPart *part,
                               KernelOp *s, const CheckedIndex *r) {
  const KernelOp *index = &part->loop->ops.at[r->index_op];
  if (index->kind != KOP_AFFINE)
    return false;
  Graph *g = part->loop->graph;
  LoopNest shifted = *part->loop; /* its index 0 is `from` */
  AffineExpr q = *index->affine;
  int64_t begin, low, high;
  return extent_sub(g, part->to, part->from, &shifted.extents[l->axis]) &&
         extent_mul(g, q.coef[l->axis], part->from, &begin) &&
         extent_add(g, q.constant, begin, &q.constant) &&
         affine_bounds(&shifted, &q, &low, &high) &&
         extent_proved(g, EXTENT_LE, 0, low) &&
         extent_proved_less(g, high, r->extent) &&
         affine_add(g, s->address, r->stride, index->affine);
}

static void fold_checked_indices(const PartList *l, const LoopPart *part) {
  for (uint32_t j = 0; j < part->loop->ops.len; j++) {
    KernelOp *s = &part->loop->ops.at[j];
    uint32_t left = 0;
    if (s->kind != KOP_LOAD)
      continue;
    for (uint32_t a = 0; a < s->checked_index_count; a++)
      if (!fold_checked_index(l, part, s, &s->checked_indices[a]))
        s->checked_indices[left++] = s->checked_indices[a];
    s->checked_index_count = left;
  }
}

/* ---- where a part ends ---- */

/* Returns true if the expression is the index of the axis, or its negative,
 * plus a constant. */
static bool is_index(const AffineExpr *q, uint32_t axis, int64_t sign) {
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v] != (v == axis ? sign : 0))
      return false;
  return true;
}

/* Finds a comparison that is true from the index *point on, or before it. */
static bool find_comparison(const PartList *l, const LoopNest *loop,
                            uint32_t *op, bool *is_first, int64_t *point) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    Inequality x[2];
    if (comparison_inequalities(loop, &loop->ops.at[j], true, x) != 1 ||
        x[0].load)
      continue;
    *op = j;
    *is_first = is_index(&x[0].affine, l->axis, -1);
    if (*is_first ? extent_add(loop->graph, x[0].affine.constant, 1, point)
                  : is_index(&x[0].affine, l->axis, 1) &&
                        extent_sub(loop->graph, 0, x[0].affine.constant, point))
      return true;
  }
  return false;
}

/* Finds a quotient that exceeds its lowest value from the index *point on. */
static bool find_quotient(const PartList *l, const LoopNest *loop,
                          uint32_t *number, int64_t *point) {
  Graph *g = loop->graph;
  for (uint32_t j = 0; j < loop->floor_div_count; j++) {
    const FloorDiv *q = &loop->floor_divs[j];
    int64_t values, next;
    if (!is_index(&q->dividend, l->axis, 1) ||
        !extent_sub(g, q->high, q->low, &values) || values < 1 ||
        values >= MAX_LOOP_PARTS || !extent_add(g, q->low, 1, &next) ||
        !extent_mul(g, next, q->divisor, point) ||
        !extent_sub(g, *point, q->dividend.constant, point))
      continue;
    *number = j;
    return true;
  }
  return false;
}

static void add_parts(PartList *l, LoopNest *loop, int64_t from, int64_t to);

/* Adds the part before or behind a point.  op: the comparison that is `truth`
 * there, or NO_OP. */
static void add_side(PartList *l, const LoopNest *from_loop, int64_t from,
                     int64_t to, uint32_t op, bool truth) {
  LoopNest *loop = loop_clone(l->arena, from_loop);
  if (from == to)
    return;
  if (op != NO_OP)
    set_constant(&loop->ops.at[op], truth);
  add_parts(l, simplified(l->arena, loop), from, to);
}

static void split_quotient(PartList *l, const LoopNest *from_loop, int64_t from,
                           int64_t at, int64_t to, uint32_t number) {
  for (uint32_t side = 0; side < 2; side++) {
    LoopNest *loop = loop_clone(l->arena, from_loop);
    FloorDiv *q = &loop->floor_divs[number];
    if (side == 0)
      q->high = q->low;
    else
      l->failed |= !extent_add(loop->graph, q->low, 1, &q->low);
    if (q->low == q->high)
      l->failed |= !replace_quotient(loop, number);
    if (q->low == q->high)
      q->dividend = (AffineExpr){.constant = 0};
    add_side(l, loop, side ? at : from, side ? to : at, NO_OP, false);
  }
}

static void add_parts(PartList *l, LoopNest *loop, int64_t from, int64_t to) {
  Graph *g = loop->graph;
  uint32_t number;
  int64_t at;
  bool is_first = false,
       has_comparison = find_comparison(l, loop, &number, &is_first, &at);
  if (l->failed)
    return;
  if (!has_comparison && !find_quotient(l, loop, &number, &at)) {
    l->failed |= l->count == MAX_LOOP_PARTS;
    if (l->failed)
      return;
    LoopPart *part = &l->parts[l->count++];
    *part = (LoopPart){from, to, loop};
    fold_checked_indices(l, part);
    part->loop = needed_part(l->arena, loop);
    return;
  }
  at = extent_min(g, extent_max(g, at, from), to);
  if (!has_comparison) {
    split_quotient(l, loop, from, at, to, number);
    return;
  }
  add_side(l, loop, from, at, number, is_first);
  add_side(l, loop, at, to, number, !is_first);
}

uint32_t loop_parts(Arena *arena, const LoopNest *loop, uint32_t axis,
                    LoopPart *parts) {
  PartList l = {.arena = arena, .axis = axis, .parts = parts};
  uint32_t number;
  bool is_first;
  int64_t at;
  if (loop->axis_count != loop->spatial_axes || loop->ops.len > MAX_PART_OPS ||
      (!find_comparison(&l, loop, &number, &is_first, &at) &&
       !find_quotient(&l, loop, &number, &at)))
    return 0;
  add_parts(&l, needed_part(arena, loop), 0, loop->extents[axis]);
  return l.failed || l.count < 2 ? 0 : l.count;
}
