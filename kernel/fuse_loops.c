/* Builds a kernel from the loops of a fusion group.
 *
 * Renumbers the variables so that all loops share the parallel axes.  Loads of
 * values that the group computes become local loads.  Then axes are collapsed,
 * and loops with the same iteration space are fused.
 *
 * The main entry point is kernel_fuse_loops. */
#include "kernel/verify.h"
#include "machine/limits/planner.h"
#include "support/arena.h"

#include <string.h>

/* ---- delinearization ---- */

bool lowered_node_delinearize(Arena *arena, const LoweredNode *x, uint32_t axis,
                              const AffineExpr *at, const LoopNest *reader,
                              AffineExpr **parts) {
  const int64_t *extents = x->loop->extents + x->first_var[axis];
  AffineExpr *rest = affine_new(arena, 0);
  *rest = *at;
  for (uint32_t k = x->var_count[axis]; k-- > 1;)
    if (!affine_div_rem(arena, rest, extents[k], reader, &rest, &parts[k]))
      return false;
  if (x->var_count[axis])
    parts[0] = rest;
  return true;
}

/* ---- renumbering ---- */

typedef struct KernelBuilder {
  Arena *arena;
  Kernel *kernel;
  const FusedNode *nodes;
  uint32_t node_count, parallel_axes;
  /* New number of each variable of the current node. */
  uint32_t var_map[MAX_KERNEL_AXES];
} KernelBuilder;

static AffineExpr *remap_vars(const KernelBuilder *a, const AffineExpr *from,
                              uint32_t axes) {
  AffineExpr *to = affine_new(a->arena, from->constant);
  for (uint32_t v = 0; v < axes; v++)
    to->coef[a->var_map[v]] = from->coef[v];
  for (uint32_t v = MAX_KERNEL_AXES; v < MAX_KERNEL_VARS; v++)
    to->coef[v] = from->coef[v];
  return to;
}

/* Number of parallel axes that the node reduces; these are the last ones. */
static uint32_t accumulated_axes(const KernelBuilder *a, const FusedNode *m) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < a->parallel_axes; j++)
    count += m->parallel_vars[j] >= m->lowered->loop->spatial_axes;
  return count;
}

static void assign_vars(KernelBuilder *a, const FusedNode *m, LoopNest *loop) {
  const LoopNest *from = m->lowered->loop;
  bool is_parallel[MAX_KERNEL_AXES] = {false};
  uint32_t next = a->parallel_axes;
  for (uint32_t j = 0; j < a->parallel_axes; j++) {
    is_parallel[m->parallel_vars[j]] = true;
    a->var_map[m->parallel_vars[j]] = j;
  }
  loop->spatial_axes = a->parallel_axes;
  for (uint32_t v = 0; v < from->axis_count; v++)
    if (!is_parallel[v]) {
      a->var_map[v] = next++;
      loop->spatial_axes += v < from->spatial_axes;
    }
  for (uint32_t v = 0; v < from->axis_count; v++)
    loop->extents[a->var_map[v]] = from->extents[v];
  loop->graph = from->graph;
  loop->parallel_axes = a->parallel_axes;
  loop->axis_count = from->axis_count;
  loop->accumulated_axes = accumulated_axes(a, m);
  if (loop->accumulated_axes)
    a->kernel->accumulated_axes = loop->accumulated_axes;
}

static uint32_t find_or_add_input(Kernel *k, const Node *x) {
  for (uint32_t j = 0; j < k->inputs.len; j++)
    if (k->inputs.at[j] == x)
      return j;
  VEC_PUSH(k->arena, k->inputs, x);
  return k->inputs.len - 1;
}

static uint32_t find_fused_node(const KernelBuilder *a, const Node *x) {
  for (uint32_t j = 0; j < a->node_count; j++)
    if (a->nodes[j].node == x)
      return j;
  return UINT32_MAX;
}

/* The product of extents; INT64_MAX on overflow. */
static int64_t extent_mul_saturating(const LoopNest *loop, int64_t x,
                                     int64_t y) {
  int64_t out;
  return extent_mul(loop->graph, x, y, &out) ? out : INT64_MAX;
}

AffineExpr *loop_local_layout(Arena *arena, const LoopNest *loop,
                              int64_t *size) {
  AffineExpr *q = affine_new(arena, 0);
  *size = 1;
  for (uint32_t v = loop->spatial_axes; v-- > loop->parallel_axes;) {
    q->coef[v] = *size;
    *size = extent_mul_saturating(loop, *size, loop->extents[v]);
  }
  return q;
}

/* The address of a load among the local values of its producer, at one point of
 * the parallel axes.  NULL if the index cannot be delinearized; the planner has
 * excluded this. */
static AffineExpr *local_address(const KernelBuilder *a, const FusedNode *x,
                                 const KernelOp *read, const LoopNest *reader) {
  const LoopNest *loop = x->lowered->loop;
  bool is_parallel[MAX_KERNEL_AXES] = {false};
  int64_t strides[MAX_KERNEL_AXES], size = 1;
  for (uint32_t j = 0; j < a->parallel_axes; j++)
    is_parallel[x->parallel_vars[j]] = true;
  for (uint32_t v = loop->spatial_axes; v-- > 0;) {
    strides[v] = size;
    size = is_parallel[v] ? size
                          : extent_mul_saturating(loop, size, loop->extents[v]);
  }
  AffineExpr *address = affine_new(a->arena, 0), *parts[MAX_KERNEL_AXES];
  uint32_t axes = x->node->free_count + x->node->rank;
  for (uint32_t axis = 0; axis < axes; axis++) {
    if (!read->index_exprs[axis] ||
        !lowered_node_delinearize(a->arena, x->lowered, axis,
                                  read->index_exprs[axis], reader, parts))
      return NULL;
    for (uint32_t p = 0; p < x->lowered->var_count[axis]; p++) {
      uint32_t v = x->lowered->first_var[axis] + p;
      if (!is_parallel[v] &&
          !affine_add(loop->graph, address, strides[v], parts[p]))
        return NULL;
    }
  }
  return address;
}

static bool resolve_load(KernelBuilder *a, const FusedNode *m, KernelOp *s) {
  const LoopNest *from = m->lowered->loop;
  uint32_t producer = find_fused_node(a, s->node);
  if (producer == UINT32_MAX) {
    s->input = find_or_add_input(a->kernel, s->node);
    s->address = remap_vars(a, s->address, from->axis_count);
    return true;
  }
  AffineExpr *address = local_address(a, &a->nodes[producer], s, from);
  if (!address)
    return false;
  s->kind = KOP_LOAD_LOCAL;
  s->source_loop = producer;
  s->source_output = 0;
  s->address = remap_vars(a, address, from->axis_count);
  s->checked_index_count = 0;
  LoopNest *loop = a->kernel->loops.at[producer];
  LoopOutput *r = &loop->outputs.at[0];
  if (!r->local_index)
    r->local_index = loop_local_layout(a->arena, loop, &r->local_elements);
  return true;
}

static bool add_loop(KernelBuilder *a, const FusedNode *m) {
  const LoopNest *from = m->lowered->loop;
  LoopNest *loop = NEW(a->arena, LoopNest);
  VEC_PUSH(a->arena, a->kernel->loops, loop);
  assign_vars(a, m, loop);
  loop->floor_div_count = from->floor_div_count;
  for (uint32_t j = 0; j < from->floor_div_count; j++) {
    loop->floor_divs[j] = from->floor_divs[j];
    loop->floor_divs[j].dividend =
        *remap_vars(a, &from->floor_divs[j].dividend, from->axis_count);
  }
  for (uint32_t j = 0; j < from->ops.len; j++) {
    KernelOp s = from->ops.at[j];
    if (s.kind == KOP_AFFINE)
      s.affine = remap_vars(a, s.affine, from->axis_count);
    if (s.kind == KOP_LOAD && !resolve_load(a, m, &s))
      return false;
    VEC_PUSH(a->arena, loop->ops, s);
  }
  LoopOutput r = from->outputs.at[0];
  r.global_index =
      m->live_out ? remap_vars(a, r.global_index, from->axis_count) : NULL;
  VEC_PUSH(a->arena, loop->outputs, r);
  return true;
}

/* ---- collapsing axes ---- */

typedef VEC(AffineExpr *) AffineUses;

static void mark_floor_divs(const LoopNest *loop, const AffineExpr *q,
                            bool *used) {
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    used[j] |= q->coef[MAX_KERNEL_AXES + j] != 0;
}

/* Drops floor divisions that no expression uses. */
static void prune_floor_divs(Arena *arena, LoopNest *loop, AffineUses *u) {
  bool used[MAX_FLOOR_DIVS] = {false};
  for (uint32_t j = 0; j < u->len; j++)
    mark_floor_divs(loop, u->at[j], used);
  for (uint32_t j = loop->floor_div_count; j-- > 0;)
    if (used[j])
      mark_floor_divs(loop, &loop->floor_divs[j].dividend, used);
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (used[j])
      VEC_PUSH(arena, *u, &loop->floor_divs[j].dividend);
    else
      loop->floor_divs[j] = (FloorDiv){.divisor = 1};
}

/* Adds an expression once, since several ops may share it. */
static void add_use(Arena *arena, AffineUses *u, AffineExpr *q) {
  for (uint32_t j = 0; j < u->len; j++)
    if (u->at[j] == q)
      return;
  if (q)
    VEC_PUSH(arena, *u, q);
}

static AffineUses collect_affine_uses(Arena *arena, LoopNest *loop) {
  AffineUses u = {0};
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_AFFINE)
      add_use(arena, &u, s->affine);
    else if (s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL)
      add_use(arena, &u, s->address);
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    add_use(arena, &u, loop->outputs.at[j].global_index);
    add_use(arena, &u, loop->outputs.at[j].local_index);
  }
  prune_floor_divs(arena, loop, &u);
  return u;
}

/* True if all expressions address axes v and v + 1 like one axis. */
static bool axes_are_collapsible(Graph *g, const AffineUses *u, uint32_t v,
                                 int64_t inner) {
  for (uint32_t j = 0; j < u->len; j++) {
    int64_t step;
    if (!extent_mul(g, u->at[j]->coef[v + 1], inner, &step) ||
        u->at[j]->coef[v] != step)
      return false;
  }
  return true;
}

/* Collapses axis v into axis v + 1. */
static void collapse_axis(LoopNest *loop, const AffineUses *u, uint32_t v) {
  loop->extents[v + 1] =
      extent_mul_saturating(loop, loop->extents[v + 1], loop->extents[v]);
  memmove(loop->extents + v, loop->extents + v + 1,
          (loop->axis_count - v - 1) * sizeof *loop->extents);
  for (uint32_t j = 0; j < u->len; j++) {
    int64_t *times = u->at[j]->coef;
    memmove(times + v, times + v + 1,
            (loop->axis_count - v - 1) * sizeof *times);
    times[loop->axis_count - 1] = 0;
  }
  loop->axis_count--;
  loop->accumulated_axes -= loop->accumulated_axes > 0 &&
                            v < loop->parallel_axes &&
                            v >= loop->parallel_axes - loop->accumulated_axes;
  loop->spatial_axes -= v < loop->spatial_axes;
  loop->parallel_axes -= v < loop->parallel_axes;
}

void loop_split_last_axis(Arena *arena, LoopNest *loop, int64_t by) {
  AffineUses u = collect_affine_uses(arena, loop);
  uint32_t v = loop->axis_count - 1;
  loop->extents[v] /= by;
  loop->extents[v + 1] = by;
  for (uint32_t j = 0; j < u.len; j++) {
    int64_t *times = u.at[j]->coef;
    times[v + 1] = times[v];
    times[v] = extent_mul_saturating(loop, times[v], by);
  }
  loop->axis_count++;
}

void loop_collapse_last_axes(Arena *arena, LoopNest *loop) {
  AffineUses u = collect_affine_uses(arena, loop);
  collapse_axis(loop, &u, loop->axis_count - 2);
}

static void collapse_inner_axes(Arena *arena, LoopNest *loop) {
  AffineUses u = collect_affine_uses(arena, loop);
  for (uint32_t v = loop->axis_count; v-- > loop->parallel_axes + 1;)
    if (v != loop->spatial_axes &&
        axes_are_collapsible(loop->graph, &u, v - 1, loop->extents[v]))
      collapse_axis(loop, &u, v - 1);
}

static void collapse_parallel_axes(Kernel *k) {
  AffineUses *uses = NEW_ARRAY(k->arena, AffineUses, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    uses[j] = collect_affine_uses(k->arena, k->loops.at[j]);
  for (uint32_t v = k->parallel_axes; v-- > 1;) {
    bool collapses = v != k->parallel_axes - k->accumulated_axes;
    bool accumulated = v > k->parallel_axes - k->accumulated_axes;
    for (uint32_t j = 0; j < k->loops.len; j++)
      collapses = collapses && axes_are_collapsible(k->graph, &uses[j], v - 1,
                                                    k->loops.at[j]->extents[v]);
    for (uint32_t j = 0; collapses && j < k->loops.len; j++)
      collapse_axis(k->loops.at[j], &uses[j], v - 1);
    k->parallel_axes -= collapses;
    k->accumulated_axes -= collapses && accumulated;
  }
}

/* ---- fusing loops ---- */

/* True if two loops have the same axes.  If one loop reduces and the other one
 * stores, the reduction may keep only the parallel axes. */
static bool iteration_spaces_match(const LoopNest *x, const LoopNest *y) {
  if (x->axis_count != y->axis_count ||
      memcmp(x->extents, y->extents, x->axis_count * sizeof *x->extents) != 0)
    return false;
  bool stores_x = x->spatial_axes == x->axis_count,
       stores_y = y->spatial_axes == y->axis_count;
  if (stores_x == stores_y)
    return x->spatial_axes == y->spatial_axes;
  return (stores_x ? y : x)->spatial_axes == x->parallel_axes;
}

/* True if loop y reads each value of x in the iteration that computes it. */
static bool reads_pointwise(const Kernel *k, uint32_t x, const LoopNest *y) {
  const LoopNest *loop = k->loops.at[x];
  for (uint32_t j = 0; j < y->ops.len; j++) {
    const KernelOp *s = &y->ops.at[j];
    if (s->kind != KOP_LOAD_LOCAL || s->source_loop != x)
      continue;
    const LoopOutput *r = &loop->outputs.at[s->source_output];
    if (r->reduce != PRIM_NONE || !affine_equal(r->local_index, s->address))
      return false;
  }
  return true;
}

static uint32_t last_producer_loop(const LoopNest *y) {
  uint32_t latest = 0;
  for (uint32_t j = 0; j < y->ops.len; j++)
    if (y->ops.at[j].kind == KOP_LOAD_LOCAL &&
        y->ops.at[j].source_loop > latest)
      latest = y->ops.at[j].source_loop;
  return latest;
}

static bool ops_equal(const KernelOp *x, const KernelOp *y) {
  if (x->kind != y->kind || x->dtype != y->dtype || x->op != y->op ||
      x->arg_count != y->arg_count || x->proved_safe != y->proved_safe ||
      memcmp(x->args, y->args, x->arg_count * sizeof *x->args) != 0)
    return false;
  switch (x->kind) {
  case KOP_CONST:
    return memcmp(&x->value.i, &y->value.i, sizeof x->value.i) == 0;
  case KOP_AFFINE:
    return affine_equal(x->affine, y->affine);
  case KOP_LOAD:
    return x->input == y->input &&
           x->checked_index_count == y->checked_index_count &&
           affine_equal(x->address, y->address) &&
           (x->checked_index_count == 0 ||
            memcmp(x->checked_indices, y->checked_indices,
                   x->checked_index_count * sizeof *x->checked_indices) == 0);
  case KOP_LOAD_LOCAL:
    return x->source_loop == y->source_loop &&
           x->source_output == y->source_output &&
           affine_equal(x->address, y->address);
  case KOP_RANDOM:
    return memcmp(&x->key, &y->key, sizeof x->key) == 0;
  case KOP_MAP:
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    return true;
  }
  return false;
}

static uint32_t find_or_add_op(Arena *arena, LoopNest *loop,
                               const KernelOp *s) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (ops_equal(&loop->ops.at[j], s))
      return j;
  VEC_PUSH(arena, loop->ops, *s);
  return loop->ops.len - 1;
}

/* Adds the floor divisions of y to those of x.  Returns false if there are too
 * many. */
static bool merge_floor_divs(LoopNest *x, LoopNest *y) {
  uint32_t mapping[MAX_FLOOR_DIVS];
  for (uint32_t j = 0; j < y->floor_div_count; j++) {
    AffineExpr of = y->floor_divs[j].dividend;
    for (uint32_t i = 0; i < j; i++)
      if (of.coef[MAX_KERNEL_AXES + i] && mapping[i] != i)
        return false; /* a nested division would get a new number; rare */
    uint32_t at = 0;
    while (at < x->floor_div_count &&
           !(x->floor_divs[at].divisor == y->floor_divs[j].divisor &&
             affine_equal(&x->floor_divs[at].dividend, &of)))
      at++;
    if (at == MAX_FLOOR_DIVS)
      return false;
    if (at == x->floor_div_count)
      x->floor_divs[x->floor_div_count++] = y->floor_divs[j];
    mapping[j] = at;
  }
  for (uint32_t j = 0; j < y->ops.len; j++) {
    KernelOp *s = &y->ops.at[j];
    AffineExpr *q = kernel_op_affine(s);
    if (!q)
      continue;
    int64_t times[MAX_FLOOR_DIVS];
    memcpy(times, q->coef + MAX_KERNEL_AXES, sizeof times);
    memset(q->coef + MAX_KERNEL_AXES, 0, sizeof times);
    for (uint32_t i = 0; i < y->floor_div_count; i++)
      q->coef[MAX_KERNEL_AXES + mapping[i]] += times[i];
  }
  return true;
}

static void redirect_loads(Kernel *k, uint32_t loop, uint32_t output,
                           uint32_t to_loop, uint32_t to_output) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL && s->source_loop == loop &&
          s->source_output == output) {
        s->source_loop = to_loop;
        s->source_output = to_output;
      }
    }
}

/* Fuses loop y, which has one output, into loop x. */
static bool fuse_into(Kernel *k, uint32_t x_at, uint32_t y_at) {
  LoopNest *x = k->loops.at[x_at], *y = k->loops.at[y_at];
  if (!merge_floor_divs(x, y))
    return false;
  uint32_t *mapping = NEW_ARRAY(k->arena, uint32_t, y->ops.len);
  for (uint32_t j = 0; j < y->ops.len; j++) {
    KernelOp s = y->ops.at[j];
    if (s.kind == KOP_LOAD_LOCAL && s.source_loop == x_at) {
      mapping[j] = x->outputs.at[s.source_output].value_op;
      continue;
    }
    for (uint32_t i = 0; i < s.arg_count; i++)
      s.args[i] = mapping[s.args[i]];
    if (s.kind == KOP_LOAD && s.checked_index_count) {
      CheckedIndex *indices =
          NEW_ARRAY(k->arena, CheckedIndex, s.checked_index_count);
      memcpy(indices, s.checked_indices,
             s.checked_index_count * sizeof *indices);
      for (uint32_t i = 0; i < s.checked_index_count; i++)
        indices[i].index_op = mapping[indices[i].index_op];
      s.checked_indices = indices;
    }
    mapping[j] = find_or_add_op(k->arena, x, &s);
  }
  LoopOutput r = y->outputs.at[0];
  r.value_op = mapping[r.value_op];
  VEC_PUSH(k->arena, x->outputs, r);
  if (y->spatial_axes < x->spatial_axes)
    x->spatial_axes = y->spatial_axes;
  redirect_loads(k, y_at, 0, x_at, x->outputs.len - 1);
  y->outputs.len = 0;
  return true;
}

/* Drops the local storage of outputs that no loop loads. */
static void drop_unread_locals(Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      bool read = false;
      for (uint32_t l = 0; l < k->loops.len && !read; l++)
        for (uint32_t s = 0; s < k->loops.at[l]->ops.len && !read; s++) {
          const KernelOp *step = &k->loops.at[l]->ops.at[s];
          read = k->loops.at[l]->outputs.len && step->kind == KOP_LOAD_LOCAL &&
                 step->source_loop == j && step->source_output == i;
        }
      if (!read)
        r->local_index = NULL;
    }
}

static void drop_empty_loops(Kernel *k) {
  uint32_t kept = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    LoopNest *loop = k->loops.at[j];
    if (!loop->outputs.len)
      continue;
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      redirect_loads(k, j, i, kept, i);
    k->loops.at[kept++] = loop;
  }
  k->loops.len = kept;
}

static bool local_is_read(const Kernel *k, uint32_t loop, uint32_t output,
                          const LoopNest *except) {
  for (uint32_t l = 0; l < k->loops.len; l++)
    for (uint32_t s = 0; s < k->loops.at[l]->ops.len; s++) {
      const LoopNest *by = k->loops.at[l];
      const KernelOp *step = &by->ops.at[s];
      if (by->outputs.len && by != except && step->kind == KOP_LOAD_LOCAL &&
          step->source_loop == loop && step->source_output == output)
        return true;
    }
  return false;
}

/* True if no loop of the kernel has axes besides the parallel axes, and if the
 * fused loop has few enough outputs and ops.  Its values stay in registers. */
static bool within_fusion_limits(const Kernel *k, uint32_t x,
                                 const LoopNest *y) {
  const LoopNest *loop = k->loops.at[x];
  uint32_t stored = 1;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    stored += loop->outputs.at[j].global_index || local_is_read(k, x, j, y);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->axis_count > k->loops.at[j]->parallel_axes)
      return false;
  return stored <= MAX_FUSED_OUTPUTS &&
         loop->ops.len + y->ops.len <= MAX_FUSED_OPS;
}

/* Contractions are not fused: backends compile them as tiles. */
static bool can_fuse(const Kernel *k, uint32_t x, const LoopNest *y) {
  const LoopNest *loop = k->loops.at[x];
  return loop->outputs.len && !loop_is_contraction(loop) &&
         iteration_spaces_match(loop, y) && reads_pointwise(k, x, y) &&
         (loop->axis_count > loop->parallel_axes ||
          within_fusion_limits(k, x, y));
}

/* Drops outputs that are neither stored nor local, except a loop's last one. */
static void drop_dead_outputs(Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    LoopNest *loop = k->loops.at[j];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      if (!loop->outputs.at[i].global_index && !loop->outputs.at[i].local_index)
        continue;
      redirect_loads(k, j, i, j, kept);
      loop->outputs.at[kept++] = loop->outputs.at[i];
    }
    loop->outputs.len = kept ? kept : loop->outputs.len;
  }
}

static void fuse_loops(Kernel *k) {
  for (uint32_t y = 1; y < k->loops.len; y++) {
    LoopNest *loop = k->loops.at[y];
    if (loop_is_contraction(loop))
      continue;
    for (uint32_t x = last_producer_loop(loop); x < y; x++)
      if (can_fuse(k, x, loop) && fuse_into(k, x, y))
        break;
  }
  drop_unread_locals(k);
  drop_dead_outputs(k);
  drop_empty_loops(k);
}

/* ---- contractions ---- */

/* Moves factors that do not depend on the reduced axes out of sums.  A new loop
 * after the sum reads its local values and applies the factors. */
static void hoist_invariant_factors(Kernel *k) {
  Kernel old = *k;
  uint32_t *mapping = NEW_ARRAY(k->arena, uint32_t, old.loops.len);
  k->loops.at = NULL;
  k->loops.len = k->loops.cap = 0;
  for (uint32_t j = 0; j < old.loops.len; j++) {
    LoopNest *rest = contraction_hoist_factors(k->arena, old.loops.at[j],
                                               old.loops.len == 1);
    VEC_PUSH(k->arena, k->loops, old.loops.at[j]);
    if (rest)
      VEC_PUSH(k->arena, k->loops, rest);
    mapping[j] = k->loops.len - 1;
  }
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL)
        s->source_loop =
            s->source_loop == PREVIOUS_LOOP ? j - 1 : mapping[s->source_loop];
    }
}

void kernel_split_store_loop(Kernel *k, uint32_t at) {
  LoopNest *loop = k->loops.at[at], *rest = NEW(k->arena, LoopNest);
  LoopOutput r = loop->outputs.at[0], sum = r;
  *rest = *loop;
  memset(&rest->ops, 0, sizeof rest->ops);
  memset(&rest->outputs, 0, sizeof rest->outputs);
  rest->axis_count = rest->spatial_axes;
  sum.dtype = loop->ops.at[r.value_op].dtype;
  sum.global_index = NULL;
  sum.local_index = loop_local_layout(k->arena, loop, &sum.local_elements);
  loop->outputs.at[0] = sum;
  KernelOp read = {
      .kind = KOP_LOAD_LOCAL, .dtype = sum.dtype, .source_loop = at};
  read.low = INT64_MIN;
  read.high = INT64_MAX;
  read.address = loop_local_layout(k->arena, loop, &sum.local_elements);
  VEC_PUSH(k->arena, rest->ops, read);
  r.reduce = PRIM_NONE;
  r.value_op = 0;
  VEC_PUSH(k->arena, rest->outputs, r);
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL && s->source_loop >= at)
        s->source_loop++;
    }
  VEC_PUSH(k->arena, k->loops, rest);
  for (uint32_t j = k->loops.len - 1; j > at + 1; j--)
    k->loops.at[j] = k->loops.at[j - 1];
  k->loops.at[at + 1] = rest;
  kernel_verify_after(k, "splitting of a loop that stores");
}

/* ---- order of parallel axes ---- */

static void rotate(int64_t *x, uint32_t from, uint32_t to) {
  int64_t moved = x[from];
  memmove(x + from, x + from + 1, (to - from) * sizeof *x);
  x[to] = moved;
}

void kernel_move_axis_last(Kernel *k, uint32_t v) {
  uint32_t last = k->parallel_axes - 1;
  uint8_t name = k->axis_names[v];
  memmove(&k->axis_names[v], &k->axis_names[v + 1], last - v);
  k->axis_names[last] = name;
  for (uint32_t j = 0; j < k->loops.len && v != last; j++) {
    LoopNest *loop = k->loops.at[j];
    AffineUses u = collect_affine_uses(k->arena, loop);
    rotate(loop->extents, v, last);
    for (uint32_t i = 0; i < u.len; i++)
      rotate(u.at[i]->coef, v, last);
  }
}

void kernel_make_axes_inner(Kernel *k, uint32_t count) {
  k->parallel_axes = count;
  for (uint32_t j = 0; j < k->loops.len; j++)
    k->loops.at[j]->parallel_axes = count;
}

/* ---- main entry point ---- */

Kernel *kernel_fuse_loops(Arena *arena, uint32_t count, FusedNode *nodes,
                          uint32_t parallel_axes) {
  KernelBuilder a = {.arena = arena, .nodes = nodes, .node_count = count};
  a.parallel_axes = parallel_axes;
  a.kernel = NEW(arena, Kernel);
  a.kernel->arena = arena;
  a.kernel->graph = nodes[0].lowered->loop->graph;
  a.kernel->parallel_axes = parallel_axes;
  for (uint32_t j = 0; j < count; j++)
    if (!add_loop(&a, &nodes[j]))
      return NULL;
  collapse_parallel_axes(a.kernel);
  for (uint32_t j = 0; j < a.kernel->loops.len; j++)
    collapse_inner_axes(arena, a.kernel->loops.at[j]);
  hoist_invariant_factors(a.kernel);
  fuse_loops(a.kernel);
  for (uint32_t v = 0; v < MAX_KERNEL_AXES; v++)
    a.kernel->axis_names[v] = (uint8_t)v;
  kernel_verify_after(a.kernel, "fusion of loops");
  return a.kernel;
}
