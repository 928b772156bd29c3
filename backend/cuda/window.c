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
static bool is_apart(Graph *g, const Quasi *x, int64_t factor, const Quasi *y,
                     int64_t *by) {
  int64_t times;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (!size_mul(g, factor, y->times[v], &times) || x->times[v] != times)
      return false;
  return size_mul(g, factor, y->constant, &times) &&
         size_sub(g, x->constant, times, by);
}

/* Of several that differ by a constant the least says it all. */
static bool add_form(const Loop *loop, Forms *f, const Quasi *form) {
  Graph *g = loop->graph;
  int64_t low, high, by;
  if (!cuda_is_affine(form) || !quasi_bounds(loop, form, &low, &high))
    return false;
  if (size_holds(g, SIZE_LE, 0, low))
    return true;
  for (uint32_t j = 0; j < f->count; j++)
    if (is_apart(g, form, 1, &f->of[j], &by)) {
      if (size_holds(g, SIZE_LE, 0, by))
        return true;
      if (size_holds(g, SIZE_LE, by, 0))
        return size_add(g, f->of[j].constant, by, &f->of[j].constant);
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

/* Is it held in 32 bits?  Sizes that are open are looked at later. */
static bool is_narrow(const Graph *g, int64_t x) {
  return !size_is_number(g, x) || (x >= INT32_MIN && x < INT32_MAX);
}

static bool add_guard(const Loop *loop, CudaGuards *to, const Quasi *form,
                      int64_t most) {
  Graph *g = loop->graph;
  int64_t low, high;
  if (to->count == GEMM_GUARDS || !quasi_bounds(loop, form, &low, &high) ||
      !is_narrow(g, low) || !is_narrow(g, high) || !is_narrow(g, most) ||
      !size_add(g, most, 1, &most))
    return false;
  to->of[to->count] = *form;
  to->extent[to->count++] =
      size_holds(g, SIZE_LE, 0, most) ? most : size_max(g, most, 0);
  return true;
}

static bool counts_up(const Graph *g, const Quasi *form) {
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (!size_holds(g, SIZE_LE, 0, form->times[v]))
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
  if (counts_up(loop->graph, form))
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
      if (!taken[i] && is_apart(loop->graph, &f->of[j], -1, &f->of[i], &most))
        with = i;
    if (taken[j])
      continue;
    bool up = counts_up(loop->graph, &f->of[j]);
    good = with ? add_guard(loop, to, &f->of[up ? j : with], most)
                : add_alone(loop, to, &f->of[j]);
    taken[with] |= with != 0;
  }
  return good;
}

/* Is the index inside wherever the guards hold? */
static bool is_inside(const Loop *loop, const CudaGuards *g, const Quasi *index,
                      int64_t extent) {
  Graph *graph = loop->graph;
  int64_t low, high, by;
  if (quasi_bounds(loop, index, &low, &high) &&
      size_holds(graph, SIZE_LE, 0, low) && size_below(graph, high, extent))
    return true;
  for (uint32_t j = 0; j < g->count; j++)
    if (is_apart(graph, index, 1, &g->of[j], &by) &&
        size_holds(graph, SIZE_LE, 0, by) &&
        size_add(graph, by, g->extent[j], &by) &&
        size_holds(graph, SIZE_LE, by, extent))
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
  if (choice && (!is_zero(&side->steps.at[s->args[2]]) ||
                 !add_condition(side, s->args[0], &forms) ||
                 !give_guards(side, &forms, to)))
    return NULL;
  if (choice)
    s = &side->steps.at[s->args[1]];
  return s->kind == STEP_READ && s->dtype == t ? settled(arena, side, s, to)
                                               : NULL;
}
