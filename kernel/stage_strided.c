/* Staging of strided accesses.
 *
 * If vectors lie along a parallel axis, some loads and stores are strided along
 * it, but contiguous along an inner axis.  A separate loop loads such data
 * along the contiguous axis into local values.  Another loop stores such
 * outputs from local values.
 *
 * The main entry point is kernel_stage_strided. */
#include "kernel/verify.h"
#include "machine/limits/planner.h"
#include "support/arena.h"

#include <string.h>

bool loop_load_is_strided(const LoopNest *loop, const KernelOp *s,
                          uint32_t vector_axis, double *elements) {
  if (s->kind != KOP_LOAD || s->checked_index_count || s->packed_pairs ||
      s->dtype == DT_I64 || affine_has_floor_divs(s->address) ||
      loop->axis_count <= loop->parallel_axes)
    return false;
  int64_t lane_stride = s->address->coef[vector_axis], contiguous_extent = 0;
  double iterations =
      loop_iterations_hint(loop, loop->parallel_axes, loop->axis_count);
  *elements = 1;
  for (uint32_t v = loop->parallel_axes; v < loop->axis_count; v++) {
    if (s->address->coef[v] == 1)
      contiguous_extent = loop_extent_hint(loop, v);
    if (s->address->coef[v])
      *elements *= (double)loop_extent_hint(loop, v);
  }
  return contiguous_extent &&
         (contiguous_extent >= MIN_STAGED_LOAD_ELEMENTS ||
          *elements < iterations) &&
         extent_proved(loop->graph, EXTENT_LE, 2, lane_stride);
}

/* The inner axis along which the output is contiguous in memory.  Returns
 * MAX_KERNEL_AXES if there is none. */
static uint32_t contiguous_store_axis(const LoopNest *loop,
                                      const LoopOutput *r) {
  for (uint32_t v = loop->parallel_axes; v < loop->spatial_axes; v++)
    if (r->global_index->coef[v] == 1)
      return v;
  return MAX_KERNEL_AXES;
}

/* False if the loop also sums along an axis of the output: local values do not
 * have this axis. */
static bool is_stored_once(const LoopNest *loop, const LoopOutput *r) {
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (r->global_index->coef[v])
      return false;
  return true;
}

bool loop_store_is_strided(const LoopNest *loop, const LoopOutput *r,
                           uint32_t vector_axis) {
  uint32_t v = r->global_index && r->dtype != DT_I64
                   ? contiguous_store_axis(loop, r)
                   : MAX_KERNEL_AXES;
  return v < MAX_KERNEL_AXES && !affine_has_floor_divs(r->global_index) &&
         is_stored_once(loop, r) &&
         loop_extent_hint(loop, v) >= MIN_STAGED_STORE_ELEMENTS &&
         extent_proved(loop->graph, EXTENT_LE, 2,
                       r->global_index->coef[vector_axis]);
}

/* ---- loads ---- */

/* The inner axes of a load.  The last one is contiguous. */
typedef struct StagedAxes {
  uint32_t count, vars[MAX_KERNEL_AXES];
} StagedAxes;

static StagedAxes staged_axes(const LoopNest *loop, const AffineExpr *q) {
  StagedAxes a = {0};
  uint32_t last = UINT32_MAX;
  for (uint32_t v = loop->parallel_axes; v < loop->axis_count; v++)
    if (q->coef[v] == 1 && last == UINT32_MAX)
      last = v;
    else if (q->coef[v])
      a.vars[a.count++] = v;
  a.vars[a.count++] = last;
  return a;
}

static bool stages_same_access(const LoopNest *stage, const LoopNest *loop,
                               const KernelOp *s, const StagedAxes *axes) {
  const KernelOp *x = &stage->ops.at[0];
  bool same = x->input == s->input &&
              stage->axis_count == loop->parallel_axes + axes->count &&
              x->address->constant == s->address->constant;
  for (uint32_t v = 0; same && v < loop->parallel_axes; v++)
    same = x->address->coef[v] == s->address->coef[v];
  for (uint32_t k = 0; same && k < axes->count; k++)
    same = stage->extents[loop->parallel_axes + k] ==
               loop->extents[axes->vars[k]] &&
           x->address->coef[loop->parallel_axes + k] ==
               s->address->coef[axes->vars[k]];
  return same;
}

static LoopNest *stage_in_loop(Arena *arena, const LoopNest *loop,
                               const KernelOp *s, const StagedAxes *axes) {
  LoopNest *to = NEW(arena, LoopNest);
  to->graph = loop->graph;
  to->parallel_axes = loop->parallel_axes;
  to->spatial_axes = to->axis_count = loop->parallel_axes + axes->count;
  to->staging = STAGE_IN;
  to->contiguous_axis = to->axis_count - 1;
  KernelOp read = *s;
  read.address = affine_new(arena, s->address->constant);
  for (uint32_t v = 0; v < loop->parallel_axes; v++) {
    to->extents[v] = loop->extents[v];
    read.address->coef[v] = s->address->coef[v];
  }
  for (uint32_t k = 0; k < axes->count; k++) {
    to->extents[loop->parallel_axes + k] = loop->extents[axes->vars[k]];
    read.address->coef[loop->parallel_axes + k] =
        s->address->coef[axes->vars[k]];
  }
  VEC_PUSH(arena, to->ops, read);
  LoopOutput r = {.node = (Node *)s->node, .dtype = s->dtype};
  r.local_index = loop_local_layout(arena, to, &r.local_elements);
  VEC_PUSH(arena, to->outputs, r);
  return to;
}

static void redirect_load(Arena *arena, const LoopNest *stage,
                          uint32_t loop_number, KernelOp *s,
                          const StagedAxes *axes) {
  const AffineExpr *layout = stage->outputs.at[0].local_index;
  AffineExpr *address = affine_new(arena, 0);
  for (uint32_t k = 0; k < axes->count; k++)
    address->coef[axes->vars[k]] = layout->coef[stage->parallel_axes + k];
  KernelOp local = {.kind = KOP_LOAD_LOCAL, .dtype = s->dtype, .span = s->span};
  local.low = s->low;
  local.high = s->high;
  local.proved_safe = s->proved_safe;
  local.source_loop = loop_number;
  local.address = address;
  *s = local;
}

/* ---- stores ---- */

static void stage_out_output(Kernel *k, uint32_t at, uint32_t output) {
  LoopNest *loop = k->loops.at[at], *to = NEW(k->arena, LoopNest);
  LoopOutput *r = &loop->outputs.at[output];
  to->graph = loop->graph;
  to->parallel_axes = loop->parallel_axes;
  to->spatial_axes = to->axis_count = loop->spatial_axes;
  memcpy(to->extents, loop->extents, loop->spatial_axes * sizeof *to->extents);
  to->staging = STAGE_OUT;
  to->contiguous_axis = contiguous_store_axis(loop, r);
  if (!r->local_index)
    r->local_index = loop_local_layout(k->arena, loop, &r->local_elements);
  KernelOp read = {
      .kind = KOP_LOAD_LOCAL, .dtype = r->dtype, .span = r->node->span};
  read.low = INT64_MIN;
  read.high = INT64_MAX;
  read.source_loop = at;
  read.source_output = output;
  read.address = affine_copy(k->arena, r->local_index);
  VEC_PUSH(k->arena, to->ops, read);
  LoopOutput stored = {.node = r->node, .dtype = r->dtype};
  stored.global_index = r->global_index;
  r->global_index = NULL;
  VEC_PUSH(k->arena, to->outputs, stored);
  VEC_PUSH(k->arena, k->loops, to);
}

static void stage_outputs(Kernel *k, uint32_t vector_axis) {
  uint32_t count = k->loops.len;
  for (uint32_t j = 0; j < count; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (loop_store_is_strided(k->loops.at[j], &k->loops.at[j]->outputs.at[i],
                                vector_axis))
        stage_out_output(k, j, i);
}

/* ---- main entry point ---- */

typedef struct StridedLoad {
  const LoopNest *loop;
  KernelOp *op;
  StagedAxes axes;
  uint32_t stage;
} StridedLoad;

typedef struct StagingPlan {
  VEC(LoopNest *) stages;
  VEC(StridedLoad) loads;
} StagingPlan;

static void add_strided_load(Arena *arena, StagingPlan *c, const LoopNest *loop,
                             KernelOp *s) {
  StridedLoad r = {
      .loop = loop, .op = s, .axes = staged_axes(loop, s->address)};
  while (r.stage < c->stages.len &&
         !stages_same_access(c->stages.at[r.stage], loop, s, &r.axes))
    r.stage++;
  if (r.stage == c->stages.len)
    VEC_PUSH(arena, c->stages, stage_in_loop(arena, loop, s, &r.axes));
  VEC_PUSH(arena, c->loads, r);
}

/* Inserts the staging loops before all other loops. */
static void prepend_stages(Kernel *k, const StagingPlan *c) {
  uint32_t count = c->stages.len;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD_LOCAL)
        loop->ops.at[i].source_loop += count;
  }
  for (uint32_t j = 0; j < count; j++)
    VEC_PUSH(k->arena, k->loops, NULL);
  for (uint32_t j = k->loops.len; j-- > count;)
    k->loops.at[j] = k->loops.at[j - count];
  for (uint32_t j = 0; j < count; j++)
    k->loops.at[j] = c->stages.at[j];
}

void kernel_stage_strided(Kernel *k, uint32_t vector_axis) {
  StagingPlan c = {0};
  double elements;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (loop_load_is_strided(loop, &loop->ops.at[i], vector_axis, &elements))
        add_strided_load(k->arena, &c, loop, &loop->ops.at[i]);
  }
  prepend_stages(k, &c);
  for (uint32_t j = 0; j < c.loads.len; j++) {
    const StridedLoad *r = &c.loads.at[j];
    redirect_load(k->arena, c.stages.at[r->stage], r->stage, r->op, &r->axes);
  }
  stage_outputs(k, vector_axis);
  k->vectorize_outer = true;
  kernel_verify_after(k, "staging of strided loads");
}
