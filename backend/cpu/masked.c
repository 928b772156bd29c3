/* Choices between an element and something else, where the condition says that
 * the element is there: `if i >= p && i < n + p then x.[i - p] else 0`, as
 * padding writes it.  The lanes for which it holds are loaded, and nothing is
 * to be looked at. */
#include "backend/cpu/emit.h"

#include <math.h>

#define format emit_format

static bool is_zero(const Step *s) {
  if (s->kind == STEP_INDEX)
    return s->low == 0 && s->high == 0;
  return s->kind == STEP_CONST &&
         (dtype_is_float(s->dtype) ? s->value.f == 0 && !signbit(s->value.f)
                                   : s->value.i == 0);
}

typedef struct Range {
  const Quasi *of;
  int64_t low, high; /* sizes */
} Range;

/* One part of of - x + y; false: it does not fit. */
static bool add_up(Graph *g, int64_t of, int64_t x, int64_t y, int64_t *sum) {
  return size_sub(g, of, x, sum) && size_add(g, *sum, y, sum);
}

/* x `op` y: what it says of a form that is x - y and a number. */
static void compare(const Loop *loop, const Step *c, Range *r) {
  const Step *x = &loop->steps.at[c->args[0]], *y = &loop->steps.at[c->args[1]];
  Graph *g = loop->graph;
  int64_t at, rest, strict;
  if (x->kind != STEP_INDEX || y->kind != STEP_INDEX ||
      !add_up(g, r->of->constant, x->index->constant, y->index->constant, &at))
    return;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (!add_up(g, r->of->times[v], x->index->times[v], y->index->times[v],
                &rest) ||
        rest != 0)
      return;
  if ((c->op == PRIM_GE || c->op == PRIM_GT) &&
      size_add(g, at, c->op == PRIM_GT, &strict) &&
      (r->low == INT64_MIN || size_holds(g, SIZE_LE, r->low, strict)))
    r->low = strict;
  if ((c->op == PRIM_LE || c->op == PRIM_LT) &&
      size_sub(g, at, c->op == PRIM_LT, &strict) &&
      (r->high == INT64_MAX || size_holds(g, SIZE_LE, strict, r->high)))
    r->high = strict;
}

/* Recursion is as deep as a body, which the planner bounds. */
static void narrow(const Loop *loop, uint32_t condition, Range *r) {
  const Step *c = &loop->steps.at[condition];
  if (c->kind != STEP_OP || c->arg_count != 2)
    return;
  if (c->op == PRIM_AND) {
    narrow(loop, c->args[0], r);
    narrow(loop, c->args[1], r);
  } else {
    compare(loop, c, r);
  }
}

static bool is_even(const Emitter *e, const Quasi *q) {
  for (uint32_t j = 0; j < QUOTIENTS; j++)
    if (q->times[KERNEL_AXES + j] && e->lane_quotients[j])
      return false;
  return true;
}

/* Lanes next to each other, of which those that the condition holds for are
 * there. */
static bool is_there(const Emitter *e, const Step *read, uint32_t condition) {
  int64_t step = read->address->times[e->lane], part;
  Graph *g = e->k->graph;
  bool even = is_even(e, read->address);
  for (uint32_t j = 0; j < read->index_count; j++) {
    const ReadIndex *i = &read->indices[j];
    const Step *index = &e->loop->steps.at[i->step];
    if (index->kind != STEP_INDEX)
      return false;
    Range r = {index->index, index->low, index->high};
    narrow(e->loop, condition, &r);
    if (!size_holds(g, SIZE_LE, 0, r.low) || !size_below(g, r.high, i->extent) ||
        !size_mul(g, index->index->times[e->lane], i->stride, &part) ||
        !size_add(g, step, part, &step))
      return false;
    even &= is_even(e, index->index);
  }
  return even && step == 1;
}

static bool is_read_once(const Loop *loop, uint32_t at) {
  uint32_t uses = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    for (uint32_t a = 0; a < s->arg_count; a++)
      uses += s->args[a] == at;
    for (uint32_t a = 0; s->kind == STEP_READ && a < s->index_count; a++)
      uses += s->indices[a].step == at;
  }
  for (uint32_t j = 0; j < loop->results.len; j++)
    uses += loop->results.at[j].step == at;
  return uses == 1;
}

bool emit_is_masked(const Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  if (s->kind != STEP_SELECT || !e->varies[at])
    return false;
  const Step *read = &e->loop->steps.at[s->args[1]];
  return read->kind == STEP_READ && !read->pairs && read->dtype == s->dtype &&
         is_read_once(e->loop, s->args[1]) && is_there(e, read, s->args[0]);
}

bool emit_masked_else(const Emitter *e, uint32_t at) {
  return !is_zero(&e->loop->steps.at[e->loop->steps.at[at].args[2]]);
}

const char *emit_masked(Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  const Step *read = &e->loop->steps.at[s->args[1]];
  Quasi *at_all = quasi_copy(e->arena, read->address); /* as one form, whose
      parts are computed where they change */
  for (uint32_t j = 0; j < read->index_count; j++) {
    const ReadIndex *i = &read->indices[j];
    const Quasi *index = e->loop->steps.at[i->step].index;
    e->failed |= !quasi_add(e->k->graph, at_all, i->stride, index);
  }
  const char *place = emit_quasi(e, at_all);
  if (at_all->times[e->fetched])
    buffer_printf(&e->blocks[e->lane_level],
                  "__builtin_prefetch(p%u + %s + j + %s);\n", read->input,
                  place, emit_int(e, at_all->times[e->fetched]));
  const char *mask = emit_lanes(e, s->args[0], 'b');
  const char *x =
      format(e, "ldw_%s(p%u + %s + j, ~%s, REST)", dtype_info[read->dtype].name,
             read->input, place, mask);
  char class = e->classes[at];
  if (class == 'i' && read->dtype == DT_I64)
    x = format(e, "narrow(%s)", x);
  if (!emit_masked_else(e, at))
    return x;
  return format(e, "sel_%c(%s, %s, %s)", class, mask, x,
                emit_lanes(e, s->args[2], class));
}
