/* Operands of contractions that are a tensor within bounds, and zero beyond, as
 * those of convolutions are: copied as they lie, under guards. */
#include "backend/cuda/tile.h"
#include "tensor/limit.h"

#include <math.h>

typedef struct Forms { /* all of them not negative */
  uint32_t count;
  Quasi of[4 * GEMM_GUARDS];
} Forms;

/* Is x = factor * y but for a constant, which is this one? */
static bool is_apart(const Quasi *x, int64_t factor, const Quasi *y,
                     int64_t *by) {
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (x->times[v] != factor * y->times[v])
      return false;
  return !__builtin_sub_overflow(x->constant, factor * y->constant, by);
}

/* Of several that differ by a constant the least says it all. */
static bool add_form(const Loop *loop, Forms *f, const Quasi *form) {
  int64_t low, high, by;
  if (!cuda_is_affine(form) || !quasi_bounds(loop, form, &low, &high))
    return false;
  if (low >= 0)
    return true;
  for (uint32_t j = 0; j < f->count; j++)
    if (is_apart(form, 1, &f->of[j], &by)) {
      f->of[j].constant += by < 0 ? by : 0;
      return true;
    }
  if (f->count == ARRAY_LEN(f->of))
    return false;
  f->of[f->count++] = *form;
  return true;
}

/* What holds where, and only where, the condition does.  Recursion is as deep
 * as a body. */
static bool add_condition(const Loop *loop, uint32_t at, Forms *f) {
  const Step *s = &loop->steps.at[at];
  Quasi forms[2];
  if (s->kind == STEP_OP && s->op == PRIM_AND)
    return add_condition(loop, s->args[0], f) &&
           add_condition(loop, s->args[1], f);
  uint32_t count = limit_forms(loop, s, true, forms);
  bool good = count > 0;
  for (uint32_t j = 0; good && j < count; j++)
    good = add_form(loop, f, &forms[j]);
  return good;
}

static bool add_guard(const Loop *loop, CudaGuards *to, const Quasi *form,
                      int64_t most) {
  int64_t low, high;
  if (to->count == GEMM_GUARDS || !quasi_bounds(loop, form, &low, &high) ||
      low < INT32_MIN || high >= INT32_MAX || most >= INT32_MAX)
    return false;
  to->of[to->count] = *form;
  to->extent[to->count++] = most < 0 ? 0 : most + 1;
  return true;
}

static bool counts_up(const Quasi *form) {
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (form->times[v] < 0)
      return false;
  return true;
}

/* Of a form that has no partner the other bound is the one that it has anyway:
 * that of how far it goes, from where it counts upwards. */
static bool add_alone(const Loop *loop, CudaGuards *to, const Quasi *form) {
  int64_t low, high;
  Quasi up = {0};
  if (!quasi_bounds(loop, form, &low, &high))
    return false;
  if (counts_up(form))
    return add_guard(loop, to, form, high);
  up.constant = high;
  return quasi_add(loop->graph, &up, -1, form) &&
         add_guard(loop, to, &up, high);
}

/* Two that bound the same from both sides are one guard. */
static bool give_guards(const Loop *loop, const Forms *f, CudaGuards *to) {
  bool taken[ARRAY_LEN(f->of)] = {0}, good = true;
  for (uint32_t j = 0; good && j < f->count; j++) {
    int64_t most;
    uint32_t with = 0;
    for (uint32_t i = j + 1; !taken[j] && !with && i < f->count; i++)
      if (!taken[i] && is_apart(&f->of[j], -1, &f->of[i], &most))
        with = i;
    if (taken[j])
      continue;
    good = with ? add_guard(loop, to, &f->of[counts_up(&f->of[j]) ? j : with],
                            most)
                : add_alone(loop, to, &f->of[j]);
    taken[with] |= with != 0;
  }
  return good;
}

/* Is the index inside wherever the guards hold? */
static bool is_inside(const Loop *loop, const CudaGuards *g, const Quasi *index,
                      int64_t extent) {
  int64_t low, high, by;
  if (quasi_bounds(loop, index, &low, &high) && low >= 0 && high < extent)
    return true;
  for (uint32_t j = 0; j < g->count; j++)
    if (is_apart(index, 1, &g->of[j], &by) && by >= 0 &&
        by <= extent - g->extent[j])
      return true;
  return false;
}

/* The read with an address in place of its indices; or NULL. */
static const Step *settled(Arena *arena, const Loop *loop, const Step *read,
                           const CudaGuards *g) {
  Step *to = NEW(arena, Step);
  Quasi *at = quasi_copy(arena, read->address);
  for (uint32_t j = 0; j < read->index_count; j++) {
    const ReadIndex *r = &read->indices[j];
    const Step *index = &loop->steps.at[r->step];
    if (index->kind != STEP_INDEX ||
        !is_inside(loop, g, index->index, r->extent) ||
        !quasi_add(loop->graph, at, r->stride, index->index))
      return NULL;
  }
  *to = *read;
  to->address = at;
  to->index_count = 0;
  return cuda_is_affine(at) ? to : NULL;
}

static bool is_zero(const Step *s) {
  return s->kind == STEP_CONST && dtype_is_float(s->dtype) &&
         !is_param(s->value) && s->value.f == 0 && !signbit(s->value.f);
}

const Step *cuda_guarded_read(Arena *arena, const Loop *side, Dtype t,
                              CudaGuards *to) {
  const Step *s = cuda_narrow_of(side);
  Forms forms = {0};
  to->count = 0;
  if (!s)
    s = &side->steps.at[side->results.at[0].step];
  bool choice =
      s->kind == STEP_SELECT || (s->kind == STEP_OP && s->op == PRIM_SELECT);
  if (side->graph->sizes)
    return choice ? NULL : cuda_copied_read(side, t);
  if (choice && (!is_zero(&side->steps.at[s->args[2]]) ||
                 !add_condition(side, s->args[0], &forms) ||
                 !give_guards(side, &forms, to)))
    return NULL;
  if (choice)
    s = &side->steps.at[s->args[1]];
  return s->kind == STEP_READ && s->dtype == t ? settled(arena, side, s, to)
                                               : NULL;
}
