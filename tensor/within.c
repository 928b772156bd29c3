/* What is true wherever a loop goes that limits cut: its conditions need not be
 * looked at, and indices that they keep inside are addresses.
 *
 * Loops of one point go as far as their limits say, to the element; but one
 * element at least, so there has to be one for each point. */
#include "tensor/limit.h"

typedef struct Within {
  const Kernel *k;
  Loop *loop;
} Within;

static bool has_limit(const Within *w, uint32_t number) {
  return w->loop->limits >> number & 1;
}

/* Is the form not negative at all points? */
static bool is_positive(const Loop *loop, const Quasi *form) {
  int64_t low, high;
  return quasi_bounds(loop, form, &low, &high) &&
         size_holds(loop->graph, SIZE_LE, 0, low);
}

/* Is x <= y at all points? */
static bool is_below(const Loop *loop, const Quasi *x, const Quasi *y) {
  Quasi d = *y;
  return quasi_add(loop->graph, &d, -1, x) && is_positive(loop, &d);
}

/* Is an element between this limit and the ends of the axis, and others? */
static bool leaves_some(const Within *w, const Limit *limit) {
  const Loop *loop = w->loop;
  Quasi end = {0};
  if (limit->least && (!size_mul(loop->graph, loop->extents[loop->limited],
                                 limit->by, &end.constant) ||
                       !size_sub(loop->graph, end.constant, 1, &end.constant)))
    return false;
  if (limit->least ? !is_below(loop, &limit->of, &end)
                   : !is_below(loop, &end, &limit->of))
    return false;
  for (uint32_t j = 0; j < w->k->limits.len; j++) {
    const Limit *other = &w->k->limits.at[j];
    if (has_limit(w, j) && limit->least && !other->least &&
        (limit->by != 1 || other->by != 1 ||
         !is_below(loop, &limit->of, &other->of)))
      return false;
  }
  return true;
}

static bool is_exact(const Within *w) {
  for (uint32_t j = 0; j < w->k->limits.len; j++)
    if (has_limit(w, j) &&
        (w->k->limits.at[j].exact || !leaves_some(w, &w->k->limits.at[j])))
      return false;
  return true;
}

/* Is the form not negative within the limits? */
static bool holds(const Within *w, const Quasi *form) {
  Limit limit;
  uint32_t axis;
  if (is_positive(w->loop, form))
    return true;
  if (!limit_of_form(w->loop, form, &limit, &axis) || axis != w->loop->limited)
    return false;
  for (uint32_t j = 0; j < w->k->limits.len; j++) {
    const Limit *is = &w->k->limits.at[j];
    if (has_limit(w, j) && is->least == limit.least && is->by == limit.by &&
        (is->least ? is_below(w->loop, &limit.of, &is->of)
                   : is_below(w->loop, &is->of, &limit.of)))
      return true;
  }
  return false;
}

/* Has the condition this value within the limits?  Recursion is as deep as a
 * body, which the planner bounds. */
static bool is_known(const Within *w, uint32_t at, bool truth) {
  const Step *s = &w->loop->steps.at[at];
  if (s->kind != STEP_OP)
    return false;
  if (s->op == PRIM_NOT)
    return is_known(w, s->args[0], !truth);
  if (s->op == PRIM_AND || s->op == PRIM_OR) {
    bool x = is_known(w, s->args[0], truth), y = is_known(w, s->args[1], truth);
    return (s->op == PRIM_AND) == truth ? x && y : x || y;
  }
  Quasi forms[2];
  uint32_t count = limit_forms(w->loop, s, truth, forms);
  for (uint32_t j = 0; j < count; j++)
    if (!holds(w, &forms[j]))
      return false;
  return count > 0;
}

static void settle_choice(const Within *w, Step *s) {
  for (uint32_t side = 1; side < 3; side++)
    if (is_known(w, s->args[0], side == 1)) {
      s->kind = STEP_CONVERT;
      s->arg_count = 1;
      s->args[0] = s->args[side];
      return;
    }
}

/* An index that is inside goes into the address; false: it may not be. */
static bool settle_index(const Within *w, Step *s, const ReadIndex *r) {
  const Step *index = &w->loop->steps.at[r->step];
  if (index->kind != STEP_INDEX)
    return false;
  Quasi rest = {0}, *address;
  if (!size_sub(w->loop->graph, r->extent, 1, &rest.constant) ||
      !quasi_add(w->loop->graph, &rest, -1, index->index) ||
      !holds(w, index->index) || !holds(w, &rest))
    return false;
  address = quasi_copy(w->k->arena, s->address);
  if (!quasi_add(w->loop->graph, address, r->stride, index->index))
    return false;
  s->address = address;
  return true;
}

static void settle_read(const Within *w, Step *s) {
  uint32_t left = 0;
  ReadIndex *indices = NEW_ARRAY(w->k->arena, ReadIndex, s->index_count);
  for (uint32_t j = 0; j < s->index_count; j++)
    if (!settle_index(w, s, &s->indices[j]))
      indices[left++] = s->indices[j];
  s->indices = indices;
  s->index_count = left;
}

void loop_settle(const Kernel *k, Loop *loop) {
  const Within w = {k, loop};
  for (uint32_t i = 0; i < loop->steps.len; i++) {
    Step *s = &loop->steps.at[i];
    if (s->kind == STEP_SELECT || (s->kind == STEP_OP && s->op == PRIM_SELECT))
      settle_choice(&w, s);
    else if (s->kind == STEP_READ && s->index_count)
      settle_read(&w, s);
  }
}

void kernel_settle(Kernel *k) {
  bool whole = k->guard != NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    whole |= k->loops.at[j]->finite;
  for (uint32_t j = 0; !whole && j < k->loops.len; j++) {
    Within w = {k, k->loops.at[j]};
    if (w.loop->limits && is_exact(&w))
      loop_settle(k, w.loop);
  }
}
