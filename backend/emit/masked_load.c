/* Masked loads: a select whose condition implies that the index is in bounds,
 * as in `if i >= p && i < n + p then x.[i - p] else 0` (padding).  Only the
 * selected lanes are loaded, and no index is checked. */
#include "backend/emit/emit.h"
#include "machine/limits/cpu.h"

#include <math.h>

#define format emit_format

static bool is_zero(const KernelOp *s) {
  if (s->kind == KOP_AFFINE)
    return s->low == 0 && s->high == 0;
  return s->kind == KOP_CONST &&
         (dtype_is_float(s->dtype) ? s->value.f == 0 && !signbit(s->value.f)
                                   : s->value.i == 0);
}

typedef struct IndexRange {
  const AffineExpr *expr;
  int64_t low, high; /* extents */
} IndexRange;

/* *sum = of - x + y.  Returns false on overflow. */
static bool coef_difference(Graph *g, int64_t expr, int64_t x, int64_t y,
                            int64_t *sum) {
  return extent_sub(g, expr, x, sum) && extent_add(g, *sum, y, sum);
}

/* Narrows the range by x `op` y, if r->of is x - y plus a constant. */
static void narrow_by_comparison(const LoopNest *loop, const KernelOp *c,
                                 IndexRange *r) {
  const KernelOp *x = &loop->ops.at[c->args[0]], *y = &loop->ops.at[c->args[1]];
  Graph *g = loop->graph;
  int64_t at, rest, limit;
  if (x->kind != KOP_AFFINE || y->kind != KOP_AFFINE ||
      !coef_difference(g, r->expr->constant, x->affine->constant,
                       y->affine->constant, &at))
    return;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (!coef_difference(g, r->expr->coef[v], x->affine->coef[v],
                         y->affine->coef[v], &rest) ||
        rest != 0)
      return;
  if ((c->op == PRIM_GE || c->op == PRIM_GT) &&
      extent_add(g, at, c->op == PRIM_GT, &limit) &&
      (r->low == INT64_MIN || extent_proved(g, EXTENT_LE, r->low, limit)))
    r->low = limit;
  if ((c->op == PRIM_LE || c->op == PRIM_LT) &&
      extent_sub(g, at, c->op == PRIM_LT, &limit) &&
      (r->high == INT64_MAX || extent_proved(g, EXTENT_LE, limit, r->high)))
    r->high = limit;
}

/* The planner limits the depth of the recursion. */
static void narrow_by_condition(const LoopNest *loop, uint32_t condition,
                                IndexRange *r) {
  const KernelOp *c = &loop->ops.at[condition];
  if (c->kind != KOP_MAP || c->arg_count != 2)
    return;
  if (c->op == PRIM_AND) {
    narrow_by_condition(loop, c->args[0], r);
    narrow_by_condition(loop, c->args[1], r);
  } else {
    narrow_by_comparison(loop, c, r);
  }
}

/* Returns true if lanes are contiguous and the condition implies that they are
 * in bounds. */
static bool is_in_bounds_where(const Emitter *e, const KernelOp *read,
                               uint32_t condition) {
  int64_t stride = read->address->coef[e->vector_axis], index_stride;
  Graph *g = e->kernel->graph;
  bool is_uniform = emit_floor_divs_are_uniform(e, read->address);
  for (uint32_t j = 0; j < read->checked_index_count; j++) {
    const CheckedIndex *i = &read->checked_indices[j];
    const KernelOp *index = &e->loop->ops.at[i->index_op];
    if (index->kind != KOP_AFFINE)
      return false;
    IndexRange r = {index->affine, index->low, index->high};
    narrow_by_condition(e->loop, condition, &r);
    if (!extent_proved(g, EXTENT_LE, 0, r.low) ||
        !extent_proved_less(g, r.high, i->extent) ||
        !extent_mul(g, index->affine->coef[e->vector_axis], i->stride,
                    &index_stride) ||
        !extent_add(g, stride, index_stride, &stride))
      return false;
    is_uniform &= emit_floor_divs_are_uniform(e, index->affine);
  }
  return is_uniform && stride == 1;
}

static bool has_one_use(const LoopNest *loop, uint32_t at) {
  uint32_t uses = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    for (uint32_t a = 0; a < s->arg_count; a++)
      uses += s->args[a] == at;
    for (uint32_t a = 0; s->kind == KOP_LOAD && a < s->checked_index_count; a++)
      uses += s->checked_indices[a].index_op == at;
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    uses += loop->outputs.at[j].value_op == at;
  return uses == 1;
}

bool emit_is_masked_load(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  if (s->kind != KOP_SELECT || !e->ops.varies[at])
    return false;
  const KernelOp *read = &e->loop->ops.at[s->args[1]];
  return read->kind == KOP_LOAD && !read->packed_pairs && !read->packed_bytes &&
         read->dtype == s->dtype && has_one_use(e->loop, s->args[1]) &&
         is_in_bounds_where(e, read, s->args[0]);
}

bool emit_has_passthru(const Emitter *e, uint32_t at) {
  return !is_zero(&e->loop->ops.at[e->loop->ops.at[at].args[2]]);
}

/* ---- masks that are intervals of lanes ---- */

/* Returns true if the expression consists of extents and small constants, so
 * that it does not overflow 64 bits. */
static bool fits_i64_arithmetic(const Emitter *e, const AffineExpr *q) {
  const Graph *g = e->kernel->graph;
  bool is_moderate = g->extent_table != NULL;
  for (uint32_t v = 0; v <= MAX_KERNEL_VARS && is_moderate; v++) {
    int64_t x = v < MAX_KERNEL_VARS ? q->coef[v] : q->constant;
    is_moderate = !extent_is_static(g, x) || (x > INT32_MIN && x < INT32_MAX);
  }
  return is_moderate;
}

/* The step of x - y between lanes: 1 or -1; 0: another one. */
static int compared_lane_step(const Emitter *e, const KernelOp *c) {
  const KernelOp *x = &e->loop->ops.at[c->args[0]];
  const KernelOp *y = &e->loop->ops.at[c->args[1]];
  if (x->kind != KOP_AFFINE || y->kind != KOP_AFFINE ||
      !(emit_fits_i32(x) || fits_i64_arithmetic(e, x->affine)) ||
      !(emit_fits_i32(y) || fits_i64_arithmetic(e, y->affine)) ||
      !emit_floor_divs_are_uniform(e, x->affine) ||
      !emit_floor_divs_are_uniform(e, y->affine))
    return 0;
  int64_t stride;
  bool known = extent_sub(e->kernel->graph, x->affine->coef[e->vector_axis],
                          y->affine->coef[e->vector_axis], &stride);
  return known && (stride == 1 || stride == -1) ? (int)stride : 0;
}

/* Returns true if the condition holds for an interval of lanes. */
static bool is_lane_interval(const Emitter *e, uint32_t condition) {
  const KernelOp *c = &e->loop->ops.at[condition];
  if (!e->ops.varies[condition])
    return true;
  if (c->kind != KOP_MAP || c->arg_count != 2)
    return false;
  if (c->op == PRIM_AND)
    return is_lane_interval(e, c->args[0]) && is_lane_interval(e, c->args[1]);
  return (c->op == PRIM_GE || c->op == PRIM_GT || c->op == PRIM_LE ||
          c->op == PRIM_LT) &&
         compared_lane_step(e, c);
}

bool emit_has_interval_mask(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  return e->width > 1 && emit_is_masked_load(e, at) &&
         (!emit_has_passthru(e, at) ||
          e->loop->ops.at[s->args[2]].kind == KOP_CONST) &&
         is_lane_interval(e, s->args[0]);
}

typedef struct LaneInterval { /* bounds as C; NULL: unbounded */
  const char *from, *to, *uniform_condition;
  uint32_t level;          /* loop level at which all of it is known */
  uint64_t reduction_axes; /* reduction axes that the bounds depend on */
  bool spelled_out; /* bounds are complete expressions, not built up level by
                       level */
} LaneInterval;

static const char *tighter_bound(Emitter *e, const char *x, const char *y,
                                 char op) {
  return x ? format(e, "(%s %c %s ? %s : %s)", x, op, y, x, y) : y;
}

static const char *spelled_out_affine(Emitter *e, const AffineExpr *q) {
  const char *sum = emit_int(e, q->constant);
  for (uint32_t v = 0; v < MAX_KERNEL_AXES; v++)
    if (q->coef[v])
      sum = format(e, "%s + %s * i%u", sum, emit_int(e, q->coef[v]), v);
  return sum;
}

/* Adds the bound that a comparison implies for the lane j or -j. */
static void add_bound(Emitter *e, const KernelOp *c, LaneInterval *r) {
  int stride = compared_lane_step(e, c);
  AffineExpr *q = affine_copy(e->arena, e->loop->ops.at[c->args[1]].affine);
  e->failed |=
      !affine_add(e->kernel->graph, q, -1, e->loop->ops.at[c->args[0]].affine);
  q->coef[e->vector_axis] = 0;
  bool is_lower_bound = c->op == PRIM_GE || c->op == PRIM_GT;
  q->constant =
      emit_extent_add(e, q->constant, c->op == PRIM_GT || c->op == PRIM_LE);
  const char *bound =
      r->spelled_out ? spelled_out_affine(e, q) : emit_affine(e, q);
  uint32_t level = r->spelled_out ? 0 : emit_affine_level(e, q);
  for (uint32_t v = e->loop->spatial_axes; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v])
      r->reduction_axes |= (uint64_t)1 << v;
  r->level = level > r->level ? level : r->level;
  if (stride < 0) {
    bound = format(e, "(1 - (%s))", bound);
    is_lower_bound = !is_lower_bound;
  }
  if (is_lower_bound)
    r->from = tighter_bound(e, r->from, bound, '>');
  else
    r->to = tighter_bound(e, r->to, bound, '<');
}

/* The planner limits the depth of the recursion. */
static void find_lane_interval(Emitter *e, uint32_t condition,
                               LaneInterval *r) {
  const KernelOp *c = &e->loop->ops.at[condition];
  if (!e->ops.varies[condition]) {
    const char *x = emit_scalar(e, condition);
    uint32_t level = e->ops.levels[condition];
    r->level = level > r->level ? level : r->level;
    r->uniform_condition = r->uniform_condition
                               ? format(e, "%s && %s", r->uniform_condition, x)
                               : x;
  } else if (c->op == PRIM_AND) {
    find_lane_interval(e, c->args[0], r);
    find_lane_interval(e, c->args[1], r);
  } else {
    add_bound(e, c, r);
  }
}

/* Declares the bounds, first%u and last%u, at the level at which they are
 * known. */
static uint32_t emit_interval_bounds(Emitter *e, const LaneInterval *r) {
  Buffer *b = &e->levels.code[r->level];
  uint32_t name = e->next_id++;
  if (r->from)
    buffer_printf(b, "const int64_t first%u = %s;\n", name, r->from);
  if (r->uniform_condition)
    buffer_printf(b, "const int64_t last%u = %s ? %s : 0;\n", name,
                  r->uniform_condition, r->to ? r->to : "0x3fffffffffffffff");
  else if (r->to)
    buffer_printf(b, "const int64_t last%u = %s;\n", name, r->to);
  return name;
}

void emit_each_uniform_condition(const Emitter *e, uint32_t condition,
                                 EmitOpVisitor *visit, void *context) {
  const KernelOp *c = &e->loop->ops.at[condition];
  if (!e->ops.varies[condition])
    visit(context, condition);
  else if (c->op == PRIM_AND)
    for (uint32_t j = 0; j < 2; j++)
      emit_each_uniform_condition(e, c->args[j], visit, context);
}

/* The variables that the bounds depend on. */
static uint64_t variables_of(const Emitter *e, uint32_t condition) {
  const KernelOp *c = &e->loop->ops.at[condition];
  uint64_t all = 0;
  if (!e->ops.varies[condition])
    return 0;
  if (c->op == PRIM_AND)
    return variables_of(e, c->args[0]) | variables_of(e, c->args[1]);
  for (uint32_t a = 0; a < 2; a++)
    for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
      if (e->loop->ops.at[c->args[a]].affine->coef[v])
        all |= (uint64_t)1 << v;
  return all;
}

/* Returns true if the mask is equal in all lines and depends on few terms. */
static bool mask_is_hoistable(const Emitter *e, uint32_t condition) {
  const LoopNest *loop = e->loop;
  uint64_t expr = variables_of(e, condition);
  int64_t all = 1;
  if (expr >> MAX_KERNEL_AXES || expr >> e->hoisted_masks->line_axis & 1)
    return false;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (v != e->vector_axis && expr >> v & 1 &&
        (!extent_is_static(loop->graph, loop->extents[v]) ||
         __builtin_mul_overflow(all, loop->extents[v], &all) ||
         all > MAX_HOISTED_MASK_TERMS))
      return false;
  return true;
}

/* Returns true if the operation is affine in the line, without floor
 * divisions. */
static bool is_affine_in_line(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  return s->kind == KOP_AFFINE && !affine_has_floor_divs(s->affine);
}

/* Returns true if the condition holds for an interval of lines. */
static bool line_condition_is_interval(const Emitter *e, uint32_t condition) {
  const KernelOp *c = &e->loop->ops.at[condition];
  if (e->ops.varies[condition] && c->op != PRIM_AND)
    return true;
  if (c->kind != KOP_MAP || c->arg_count != 2)
    return false;
  if (c->op == PRIM_AND)
    return line_condition_is_interval(e, c->args[0]) &&
           line_condition_is_interval(e, c->args[1]);
  return (c->op == PRIM_GE || c->op == PRIM_GT || c->op == PRIM_LE ||
          c->op == PRIM_LT) &&
         e->ops.levels[condition] <=
             e->levels.of[e->hoisted_masks->line_axis] &&
         is_affine_in_line(e, c->args[0]) && is_affine_in_line(e, c->args[1]);
}

/* Computes the masks before the loop over lines: an array indexed by the terms
 * that they depend on, and by the vector. */
static const char *emit_hoisted_mask(Emitter *e, uint32_t condition) {
  LaneInterval r = {.spelled_out = true};
  Buffer *out = &e->hoisted_masks->source, body = {.arena = e->arena};
  uint32_t name = e->next_id++, open_loops = 0;
  long long all = 1;
  const char *subscript = "0";
  find_lane_interval(e, condition, &r);
  for (uint32_t v = e->loop->spatial_axes; v < e->loop->axis_count; v++) {
    if (!(r.reduction_axes >> v & 1))
      continue;
    long long extent = e->loop->extents[v];
    buffer_printf(&body, "for (int64_t i%u = 0; i%u < %lld; i%u++)\n", v, v,
                  extent, v);
    subscript = open_loops++
                    ? format(e, "(%s) * %lld + i%u", subscript, extent, v)
                    : format(e, "i%u", v);
    all *= extent;
  }
  buffer_printf(out, "span there%u[%lld][%u];\n", name, all,
                e->hoisted_masks->vector_count);
  emit_append(out, &body);
  buffer_printf(out,
                "for (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n"
                "there%u[%s][a] = span_of(%s, %s, end - j);\n}\n",
                e->hoisted_masks->vector_count, name, subscript,
                r.from ? format(e, "%s - j", r.from) : "0",
                r.to ? format(e, "%s - j", r.to) : "W");
  const char *x = format(e, "there%u[%s][%s]", name, subscript,
                         e->hoisted_masks->vector_index);
  if (!r.uniform_condition)
    return x;
  const char **line_condition = &e->hoisted_masks->line_condition;
  *line_condition = *line_condition ? format(e, "%s && %s", *line_condition,
                                             r.uniform_condition)
                                    : r.uniform_condition;
  e->hoisted_masks->condition_is_interval &=
      line_condition_is_interval(e, condition);
  return format(e, "span_if(inside || (%s), %s)", r.uniform_condition, x);
}

static const char *emit_interval_load(Emitter *e, uint32_t at,
                                      const char *subscript) {
  const KernelOp *s = &e->loop->ops.at[at];
  Dtype t = e->loop->ops.at[s->args[1]].dtype;
  char class = e->ops.classes[at];
  bool narrows_to_i32 = class == 'i' && t == DT_I64;
  const char *name = dtype_info[t].name, *x;
  const char *other =
      emit_has_passthru(e, at)
          ? emit_vector(e, s->args[2], narrows_to_i32 ? 'l' : class)
          : format(e, "splat_%c(0)", narrows_to_i32 ? 'l' : class);
  if (e->hoisted_masks && mask_is_hoistable(e, s->args[0])) {
    const char *mask = emit_hoisted_mask(e, s->args[0]);
    x = format(e, "ldm_%s(%s, %s, %s, inside)", name, subscript, mask, other);
  } else {
    LaneInterval r = {.level = 0};
    find_lane_interval(e, s->args[0], &r);
    uint32_t bounds = emit_interval_bounds(e, &r);
    const char *from = r.from ? format(e, "first%u - j", bounds) : "0";
    const char *to =
        r.to || r.uniform_condition ? format(e, "last%u - j", bounds) : "W";
    x = format(e, "ldr_%s(%s, %s, %s, REST, %s)", name, subscript, from, to,
               other);
  }
  return narrows_to_i32 ? format(e, "narrow(%s)", x) : x;
}

/* Prefetches the data of the next iteration. */
static void emit_next_point_prefetch(Emitter *e, uint32_t input,
                                     const AffineExpr *q,
                                     const char *subscript) {
  Buffer *b = &e->levels.code[e->levels.vector];
  int64_t distance = q->coef[e->prefetch_axis];
  if (distance)
    buffer_printf(b, "__builtin_prefetch(p%u + %s + j + %s);\n", input,
                  subscript, emit_int(e, distance));
}

const char *emit_masked_load(Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  const KernelOp *read = &e->loop->ops.at[s->args[1]];
  /* one expression, so that each part is loop-invariant */
  AffineExpr *address = affine_copy(e->arena, read->address);
  for (uint32_t j = 0; j < read->checked_index_count; j++) {
    const CheckedIndex *i = &read->checked_indices[j];
    const AffineExpr *index = e->loop->ops.at[i->index_op].affine;
    e->failed |= !affine_add(e->kernel->graph, address, i->stride, index);
  }
  const char *subscript = emit_affine(e, address);
  emit_next_point_prefetch(e, read->input, address, subscript);
  if (emit_has_interval_mask(e, at))
    return emit_interval_load(
        e, at, format(e, "p%u + %s + j", read->input, subscript));
  const char *mask = emit_vector(e, s->args[0], 'b');
  const char *x =
      format(e, "ldw_%s(p%u + %s + j, ~%s, REST)", dtype_info[read->dtype].name,
             read->input, subscript, mask);
  char class = e->ops.classes[at];
  if (class == 'i' && read->dtype == DT_I64)
    x = format(e, "narrow(%s)", x);
  if (!emit_has_passthru(e, at))
    return x;
  return format(e, "sel_%c(%s, %s, %s)", class, mask, x,
                emit_vector(e, s->args[2], class));
}
