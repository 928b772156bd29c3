/* Rows that a team cannot keep: what a loop leaves all along one is computed
 * again where later loops read it, from what is in memory anyway.  To have it
 * there would take as many bytes as the row, twice, and it is but some
 * operations. */
#include "backend/cuda/kernel.h"
#include "tensor/cost.h"

#include <string.h>

enum { COST_MOST = 64 /* of an element, as prim_cost counts */ };

static bool is_row(const Loop *loop, const Result *r) {
  return r->local && r->reduce == PRIM_NONE && loop->axes > loop->outer;
}

static bool has_same_axes(const Loop *x, const Loop *y) {
  return x->axes == y->axes &&
         memcmp(x->extents, y->extents, x->axes * sizeof *x->extents) == 0;
}

/* What it takes; more than there may be, where it depends on more than the
 * axes and sizes of its loop say. */
static double cost_of_step(const Loop *loop, uint32_t at) {
  const Step *s = &loop->steps.at[at];
  double cost = s->kind == STEP_OP ? prim_cost(s->op) : 0.5;
  bool apart = (s->kind == STEP_READ &&
                (s->index_count > 0 || !cuda_is_affine(s->address))) ||
               (s->kind == STEP_LOCAL && !cuda_is_affine(s->address)) ||
               (s->kind == STEP_INDEX && !cuda_is_affine(s->index)) ||
               s->kind == STEP_RANDOM;
  for (uint32_t j = 0; j < s->arg_count && cost <= COST_MOST; j++)
    cost += cost_of_step(loop, s->args[j]);
  return apart ? COST_MOST + 1 : cost;
}

/* Do all that read it go along the same axes, and read it where they are? */
static bool is_read_in_place(const Kernel *k, uint32_t at, uint32_t result) {
  const Loop *from = k->loops.at[at];
  for (uint32_t j = at + 1; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *s = &loop->steps.at[i];
      if (s->kind == STEP_LOCAL && s->loop == at && s->result == result &&
          (!has_same_axes(from, loop) ||
           !quasi_equal(s->address, from->results.at[result].local)))
        return false;
    }
  }
  return true;
}

static bool may_be_again(const Kernel *k, uint32_t at, uint32_t result) {
  const Loop *loop = k->loops.at[at];
  const Result *r = &loop->results.at[result];
  return is_row(loop, r) && cuda_is_affine(r->local) &&
         cost_of_step(loop, r->step) <= COST_MOST &&
         is_read_in_place(k, at, result);
}

static uint32_t as_kept(Arena *arena, Loop *to, uint32_t step, Dtype t) {
  if (to->steps.at[step].dtype == t)
    return step;
  Step s = {.kind = STEP_CONVERT,
            .dtype = t,
            .arg_count = 1,
            .args = {step},
            .low = INT64_MIN,
            .high = INT64_MAX};
  VEC_PUSH(arena, to->steps, s);
  return to->steps.len - 1;
}

/* The loop, with the result's steps in place of what reads it. */
static Loop *with_steps(const Kernel *k, const Loop *loop, uint32_t at,
                        uint32_t result) {
  const Loop *from = k->loops.at[at];
  const Result *r = &from->results.at[result];
  Loop *to = loop_like(k->arena, loop);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, loop->steps.len);
  uint32_t *there = NEW_ARRAY(k->arena, uint32_t, from->steps.len);
  for (uint32_t i = 0; i < loop->steps.len; i++) {
    const Step *s = &loop->steps.at[i];
    if (s->kind == STEP_LOCAL && s->loop == at && s->result == result)
      place[i] = 1 + as_kept(k->arena, to,
                             loop_take_step(k->arena, from, to, there, r->step),
                             r->dtype);
  }
  for (uint32_t i = 0; i < loop->results.len; i++) {
    Result copy = loop->results.at[i];
    copy.step = loop_take_step(k->arena, loop, to, place, copy.step);
    VEC_PUSH(k->arena, to->results, copy);
  }
  return to;
}

static bool reads(const Loop *loop, uint32_t at, uint32_t result) {
  for (uint32_t i = 0; i < loop->steps.len; i++)
    if (loop->steps.at[i].kind == STEP_LOCAL && loop->steps.at[i].loop == at &&
        loop->steps.at[i].result == result)
      return true;
  return false;
}

static void put_again(Kernel *k, uint32_t at, uint32_t result) {
  for (uint32_t j = at + 1; j < k->loops.len; j++)
    if (reads(k->loops.at[j], at, result))
      k->loops.at[j] = with_steps(k, k->loops.at[j], at, result);
  Loop *loop = loop_copy(k->arena, k->loops.at[at]);
  loop->results.at[result].local = NULL;
  k->loops.at[at] = loop;
}

Kernel *cuda_recompute(const Kernel *k) {
  Kernel *to = NEW(k->arena, Kernel);
  *to = *k;
  to->loops = (typeof(to->loops)){0};
  for (uint32_t j = 0; j < k->loops.len; j++)
    VEC_PUSH(k->arena, to->loops, k->loops.at[j]);
  for (uint32_t j = 0; j < to->loops.len; j++)
    for (uint32_t i = 0; i < to->loops.at[j]->results.len; i++)
      if (may_be_again(to, j, i))
        put_again(to, j, i);
  return to;
}
