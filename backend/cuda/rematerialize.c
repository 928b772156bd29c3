/* Rematerialization of rows that do not fit in registers or shared memory.
 * Later loops recompute an elementwise result from data in memory.  Storing
 * the row would write and read as many bytes as the row has. */
#include "backend/cuda/kernel.h"
#include "kernel/roofline.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#include <string.h>

static bool is_row_output(const LoopNest *loop, const LoopOutput *r) {
  return r->local_index && r->reduce == PRIM_NONE &&
         loop->axis_count > loop->parallel_axes;
}

static bool has_same_axes(const LoopNest *x, const LoopNest *y) {
  return x->axis_count == y->axis_count &&
         memcmp(x->extents, y->extents, x->axis_count * sizeof *x->extents) ==
             0;
}

/* The cost of a value, in units of `cost` in primitives/map.def.  It exceeds
 * the limit if the value is not an affine function of axes and loads. */
static double op_cost(const LoopNest *loop, uint32_t at) {
  const KernelOp *s = &loop->ops.at[at];
  double cost = s->kind == KOP_MAP ? map_info[s->op].cost : 0.5;
  bool is_not_pure =
      (s->kind == KOP_LOAD &&
       (s->checked_index_count > 0 || affine_has_floor_divs(s->address))) ||
      (s->kind == KOP_LOAD_LOCAL && affine_has_floor_divs(s->address)) ||
      (s->kind == KOP_AFFINE && affine_has_floor_divs(s->affine)) ||
      s->kind == KOP_RANDOM;
  for (uint32_t j = 0; j < s->arg_count && cost <= MAX_REMATERIALIZE_COST; j++)
    cost += op_cost(loop, s->args[j]);
  return is_not_pure ? MAX_REMATERIALIZE_COST + 1 : cost;
}

/* True if all readers have the same axes and read the element at the same
 * index. */
static bool is_read_in_place(const Kernel *k, uint32_t at, uint32_t result) {
  const LoopNest *from = k->loops.at[at];
  for (uint32_t j = at + 1; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL && s->source_loop == at &&
          s->source_output == result &&
          (!has_same_axes(from, loop) ||
           !affine_equal(s->address, from->outputs.at[result].local_index)))
        return false;
    }
  }
  return true;
}

static bool can_rematerialize(const Kernel *k, uint32_t at, uint32_t result) {
  const LoopNest *loop = k->loops.at[at];
  const LoopOutput *r = &loop->outputs.at[result];
  return is_row_output(loop, r) && !affine_has_floor_divs(r->local_index) &&
         op_cost(loop, r->value_op) <= MAX_REMATERIALIZE_COST &&
         is_read_in_place(k, at, result);
}

static uint32_t convert_to(Arena *arena, LoopNest *to, uint32_t step, Dtype t) {
  if (to->ops.at[step].dtype == t)
    return step;
  KernelOp s = {.kind = KOP_CONVERT,
                .dtype = t,
                .arg_count = 1,
                .args = {step},
                .low = INT64_MIN,
                .high = INT64_MAX};
  VEC_PUSH(arena, to->ops, s);
  return to->ops.len - 1;
}

/* Clones the loop with the producer's operations in place of the loads. */
static LoopNest *inline_producer(const Kernel *k, const LoopNest *loop,
                                 uint32_t at, uint32_t result) {
  const LoopNest *from = k->loops.at[at];
  const LoopOutput *r = &from->outputs.at[result];
  LoopNest *to = loop_clone_empty(k->arena, loop);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, loop->ops.len);
  uint32_t *inlined = NEW_ARRAY(k->arena, uint32_t, from->ops.len);
  for (uint32_t i = 0; i < loop->ops.len; i++) {
    const KernelOp *s = &loop->ops.at[i];
    if (s->kind == KOP_LOAD_LOCAL && s->source_loop == at &&
        s->source_output == result)
      place[i] = 1 + convert_to(k->arena, to,
                                loop_clone_op(k->arena, from, to, inlined,
                                              r->value_op),
                                r->dtype);
  }
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    LoopOutput copy = loop->outputs.at[i];
    copy.value_op = loop_clone_op(k->arena, loop, to, place, copy.value_op);
    VEC_PUSH(k->arena, to->outputs, copy);
  }
  return to;
}

static bool reads_output(const LoopNest *loop, uint32_t at, uint32_t result) {
  for (uint32_t i = 0; i < loop->ops.len; i++)
    if (loop->ops.at[i].kind == KOP_LOAD_LOCAL &&
        loop->ops.at[i].source_loop == at &&
        loop->ops.at[i].source_output == result)
      return true;
  return false;
}

static void rematerialize(Kernel *k, uint32_t at, uint32_t result) {
  for (uint32_t j = at + 1; j < k->loops.len; j++)
    if (reads_output(k->loops.at[j], at, result))
      k->loops.at[j] = inline_producer(k, k->loops.at[j], at, result);
  LoopNest *loop = loop_clone(k->arena, k->loops.at[at]);
  loop->outputs.at[result].local_index = NULL;
  k->loops.at[at] = loop;
}

Kernel *cuda_rematerialize(const Kernel *k) {
  Kernel *to = NEW(k->arena, Kernel);
  *to = *k;
  to->loops = (typeof(to->loops)){0};
  for (uint32_t j = 0; j < k->loops.len; j++)
    VEC_PUSH(k->arena, to->loops, k->loops.at[j]);
  for (uint32_t j = 0; j < to->loops.len; j++)
    for (uint32_t i = 0; i < to->loops.at[j]->outputs.len; i++)
      if (can_rematerialize(to, j, i))
        rematerialize(to, j, i);
  return to;
}
