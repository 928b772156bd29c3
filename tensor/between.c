/* Two products with the weights of rows between them, attention above all:
 *
 *     s[n] = sum over k of a[k] * b[n, k],
 *     c[e] = sum over n of weight (s[n]) * v[n, e].
 *
 * Whatever loops are between the products, each weight is followed back to s:
 * what they leave along n is put into one expression of a point of n, in which
 * equal steps are one.  Then it is algebra again: factors that are the same all
 * along n are taken out of the sum, and what remains is exp (x - the largest x)
 * or no matter what of the point alone; sums over n that it is divided by must
 * be those of just that. */
#include "tensor/kernel.h"

#include "tensor/scalar.h"

#include <string.h>

enum { NO_STEP = UINT32_MAX };

typedef struct Walk {
  Arena *arena;
  const Kernel *k;
  Between *b;
  Loop *row;
  uint32_t **place;  /* by loop and step: 1 + the row's step, or 0 */
  uint64_t *depends; /* of the row's steps */
} Walk;

/* ---- the row's steps ---- */

static uint32_t take_quotient(Walk *w, uint32_t from, uint32_t number);

/* The axis of a loop that goes along the row. */
static uint32_t along(const Walk *w, uint32_t loop) {
  return loop == w->b->last ? w->k->loops.at[loop]->kept : w->k->outer;
}

/* A form of the loop, in the row's variables; false: it has others. */
static bool take_form(Walk *w, uint32_t from, const Quasi *q, Quasi *to) {
  const Loop *loop = w->k->loops.at[from];
  uint32_t outer = w->k->outer, n = along(w, from);
  *to = (Quasi){.constant = q->constant};
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    if (!q->times[v])
      continue;
    uint32_t into = v < outer ? v : v == n ? outer : NO_STEP;
    if (v >= KERNEL_AXES && v - KERNEL_AXES < loop->quotient_count)
      into = take_quotient(w, from, v - KERNEL_AXES);
    if (into == NO_STEP)
      return false;
    if (!size_add(loop->graph, to->times[into], q->times[v], &to->times[into]))
      return false;
  }
  return true;
}

static uint32_t take_quotient(Walk *w, uint32_t from, uint32_t number) {
  Quotient q = w->k->loops.at[from]->quotients[number];
  Quasi of;
  uint32_t j = 0;
  if (!take_form(w, from, &q.of, &of))
    return NO_STEP;
  q.of = of;
  while (j < w->row->quotient_count &&
         (w->row->quotients[j].by != q.by ||
          !quasi_equal(&w->row->quotients[j].of, &q.of)))
    j++;
  if (j == QUOTIENTS)
    return NO_STEP;
  if (j == w->row->quotient_count)
    w->row->quotients[w->row->quotient_count++] = q;
  return KERNEL_AXES + j;
}

static bool equal_steps(const Step *x, const Step *y) {
  return x->arg_count == y->arg_count &&
         memcmp(x->args, y->args, x->arg_count * sizeof *x->args) == 0 &&
         step_does_same(x, y);
}

static uint32_t put(Walk *w, const Step *s) {
  for (uint32_t j = 0; j < w->row->steps.len; j++)
    if (equal_steps(&w->row->steps.at[j], s))
      return j;
  VEC_PUSH(w->arena, w->row->steps, *s);
  return w->row->steps.len - 1;
}

static uint32_t take(Walk *w, uint32_t loop, uint32_t at);

static uint32_t take_converted(Walk *w, uint32_t loop, const Result *r) {
  uint32_t at = take(w, loop, r->step);
  if (at == NO_STEP || w->row->steps.at[at].dtype == r->dtype)
    return at;
  Step s = {.kind = STEP_CONVERT, .dtype = r->dtype, .arg_count = 1};
  s.args[0] = at;
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  return put(w, &s);
}

/* What is left along the row is computed here; s, and what is left of a whole
 * row, stay what they are. */
static uint32_t take_local(Walk *w, uint32_t from, const Step *s) {
  const Loop *x = w->k->loops.at[s->loop], *loop = w->k->loops.at[from];
  const Result *r = &x->results.at[s->result];
  uint32_t outer = w->k->outer;
  Step leaf = *s;
  leaf.address = quasi_new(w->arena, 0);
  if (!r->local || s->loop >= w->b->last)
    return NO_STEP;
  if (loop_keeps(x, r, outer)) {
    if (loop_reading_axis(loop, s->address, x, r, outer) != along(w, from))
      return NO_STEP;
    if (s->loop)
      return take_converted(w, s->loop, r);
    leaf.address->times[outer] = 1;
  }
  return put(w, &leaf);
}

static uint32_t take_step(Walk *w, uint32_t from, Step s) {
  Quasi form;
  for (uint32_t j = 0; j < s.arg_count; j++)
    if ((s.args[j] = take(w, from, s.args[j])) == NO_STEP)
      return NO_STEP;
  if (s.kind == STEP_LOCAL)
    return take_local(w, from, &s);
  if (s.kind == STEP_INDEX) {
    if (!take_form(w, from, s.index, &form))
      return NO_STEP;
    s.index = quasi_copy(w->arena, &form);
  }
  if (s.kind == STEP_READ) {
    if (!take_form(w, from, s.address, &form))
      return NO_STEP;
    ReadIndex *indices = NEW_ARRAY(w->arena, ReadIndex, s.index_count + 1);
    for (uint32_t j = 0; j < s.index_count; j++) {
      indices[j] = s.indices[j];
      indices[j].step = take(w, from, s.indices[j].step);
      if (indices[j].step == NO_STEP)
        return NO_STEP;
    }
    s.address = quasi_copy(w->arena, &form);
    s.indices = indices;
  }
  return s.kind == STEP_PAIR ? NO_STEP : put(w, &s);
}

/* A loop's step as one of the row; NO_STEP: it is none.  Recursion is as deep
 * as bodies, which the planner bounds, and as there are loops. */
static uint32_t take(Walk *w, uint32_t loop, uint32_t at) {
  uint32_t *place = &w->place[loop][at];
  if (!*place) {
    uint32_t to = take_step(w, loop, w->k->loops.at[loop]->steps.at[at]);
    *place = to == NO_STEP ? NO_STEP : to + 1;
  }
  return *place == NO_STEP ? NO_STEP : *place - 1;
}

/* ---- weights ---- */

static const Step *step_at(const Walk *w, uint32_t at) {
  return &w->row->steps.at[at];
}

/* Without what only changes its type; or only widens it. */
static uint32_t stripped(const Walk *w, uint32_t at, bool widened) {
  const Step *s = step_at(w, at);
  while (s->kind == STEP_CONVERT && dtype_is_float(s->dtype)) {
    Dtype from = step_at(w, s->args[0])->dtype;
    if (!dtype_is_float(from) ||
        (widened && dtype_info[from].bytes >= dtype_info[s->dtype].bytes))
      break;
    at = s->args[0];
    s = step_at(w, at);
  }
  return at;
}

static uint32_t bare(const Walk *w, uint32_t at) {
  return stripped(w, at, false);
}
static uint32_t narrow(const Walk *w, uint32_t at) {
  return stripped(w, at, true);
}

static bool varies(const Walk *w, uint32_t at) {
  return w->depends[at] >> w->k->outer & 1;
}

/* Is it a row's largest value of that? */
static bool is_largest(const Walk *w, const Step *s, uint32_t of) {
  if (s->kind != STEP_LOCAL || s->loop == 0)
    return false;
  const Result *r = &w->k->loops.at[s->loop]->results.at[s->result];
  uint32_t at = w->place[s->loop][r->step];
  return r->reduce == PRIM_MAX && r->dtype == s->dtype && at != 0 &&
         at != NO_STEP && narrow(w, at - 1) == of;
}

/* exp (x - the largest x): x; NO_STEP: it is none. */
static uint32_t shifted(Walk *w, uint32_t at) {
  const Step *s = step_at(w, at);
  if (s->kind != STEP_OP || s->op != PRIM_EXP)
    return NO_STEP;
  s = step_at(w, narrow(w, s->args[0]));
  if (s->kind != STEP_OP || s->op != PRIM_SUB)
    return NO_STEP;
  uint32_t x = narrow(w, s->args[0]), y = narrow(w, s->args[1]);
  return is_largest(w, step_at(w, y), x) ? s->args[0] : NO_STEP;
}

static bool add_factor(Between *b, uint32_t at, bool over) {
  if (b->factors == FACTORS_MOST)
    return false;
  b->over[b->factors] = over;
  b->factor[b->factors++] = at;
  return true;
}

/* Takes out factors that are the same all along the row; what remains. */
static uint32_t core_of(Walk *w, uint32_t at) {
  for (;;) {
    at = bare(w, at);
    const Step *s = step_at(w, at);
    if (s->kind != STEP_OP || (s->op != PRIM_MUL && s->op != PRIM_DIV) ||
        !dtype_is_float(s->dtype))
      return at;
    bool other = s->op == PRIM_MUL && !varies(w, s->args[0]);
    uint32_t by = s->args[!other], rest = s->args[other];
    if (varies(w, by) || !varies(w, rest))
      return at;
    if (!add_factor(w->b, by, s->op == PRIM_DIV))
      return NO_STEP;
    at = rest;
  }
}

static bool is_free(Walk *w, uint32_t at) {
  const Step *s = step_at(w, at);
  if (s->kind == STEP_LOCAL && !varies(w, at))
    return false;
  for (uint32_t j = 0; j < s->arg_count; j++)
    if (!is_free(w, s->args[j]))
      return false;
  for (uint32_t j = 0; s->kind == STEP_READ && j < s->index_count; j++)
    if (!is_free(w, s->indices[j].step))
      return false;
  return true;
}

/* Do rounded weights stay as good without their factors?  Those of f16 can be
 * too large, or too small. */
static bool keeps_range(Walk *w, Dtype t) {
  const Between *b = w->b;
  if (t != DT_F16 || !b->factors ||
      (!b->relative && step_at(w, b->core)->dtype == t))
    return true;
  for (uint32_t j = 0; j < b->factors; j++)
    if (!b->relative || !b->over[j] ||
        step_at(w, bare(w, b->factor[j]))->kind != STEP_LOCAL)
      return false;
  return true;
}

/* Is all that is left of whole rows what the weights are relative to, or their
 * total? */
static bool knows_rows(Walk *w) {
  Between *b = w->b;
  for (uint32_t j = 1; j < b->last; j++) {
    const Loop *loop = w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      uint32_t of = take(w, j, r->step);
      if (loop_keeps(loop, r, w->k->outer))
        continue;
      bool sum = r->reduce == PRIM_SUM && bare(w, of) == b->core;
      bool most = r->reduce == PRIM_MAX && b->relative &&
                  narrow(w, of) == narrow(w, b->score);
      if ((!sum && !most) || !dtype_is_float(r->dtype) || !r->local)
        return false;
      b->total |= sum;
    }
  }
  return true;
}

/* The weight, as the second product has it, is this step. */
static bool find_weight(Walk *w, uint32_t at) {
  Between *b = w->b;
  const Step *s = step_at(w, at);
  b->weight =
      s->kind == STEP_CONVERT ? step_at(w, s->args[0])->dtype : s->dtype;
  b->core = core_of(w, at);
  if (b->core == NO_STEP)
    return false;
  b->score = shifted(w, b->core);
  b->relative = b->score != NO_STEP;
  if (!b->relative)
    b->score = b->core;
  return is_free(w, b->score) && keeps_range(w, b->weight) && knows_rows(w);
}

/* ---- the loops ---- */

static bool is_first(const Kernel *k, Between *b) {
  const Loop *loop = k->loops.at[0];
  uint32_t m;
  if (loop->kept != k->outer + 1 || loop->results.at[0].out ||
      !product_find(k->arena, loop, &b->first) || b->first.outside_count)
    return false;
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (loop->steps.at[j].kind == STEP_LOCAL)
      return false;
  return product_sides(loop, &b->first, k->outer, &m, &b->with_n);
}

/* Goes it along the row, leaving nothing in memory? */
static bool is_row(const Kernel *k, const Loop *loop) {
  bool local = loop->axes == k->outer + 1 &&
               loop->extents[k->outer] == k->loops.at[0]->extents[k->outer];
  for (uint32_t j = 0; j < loop->results.len; j++)
    local &= !loop->results.at[j].out;
  return local;
}

/* The second product: one side has the row's axis, which it sums, and none of
 * its columns, the other one has no local values. */
static bool is_second(const Kernel *k, const Loop *loop, Between *b) {
  if (loop->kept <= k->outer || loop->axes != loop->kept + 1 ||
      loop->extents[loop->kept] != k->loops.at[0]->extents[k->outer] ||
      !product_find_any(k->arena, loop, &b->second) || b->second.outside_count)
    return false;
  uint64_t columns = ((uint64_t)1 << loop->kept) - ((uint64_t)1 << k->outer);
  b->with_e = 0;
  for (uint32_t j = 0; j < b->second.count; j++)
    if (b->second.depends[b->second.factors[j]] & columns)
      b->with_e |= 1u << j;
  return b->with_e && b->with_e != (1u << b->second.count) - 1;
}

/* What follows with each element of the second's result. */
static bool follows(const Kernel *k, const Loop *loop, const Between *b) {
  const Loop *second = k->loops.at[b->last];
  if (loop->axes != second->kept || loop->kept != loop->axes)
    return false;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_LOCAL && s->loop >= b->last &&
        !quasi_equal(s->address,
                     k->loops.at[s->loop]->results.at[s->result].local))
      return false;
  }
  return true;
}

static bool find_loops(const Kernel *k, Between *b) {
  if (k->loops.len < 2 || !k->outer || !is_first(k, b))
    return false;
  for (b->last = 1; !is_second(k, k->loops.at[b->last], b); b->last++)
    if (b->last + 1 == k->loops.len || !is_row(k, k->loops.at[b->last]))
      return false;
  for (uint32_t j = b->last + 1; j < k->loops.len; j++)
    if (!follows(k, k->loops.at[j], b))
      return false;
  return true;
}

/* Loops behind the second product read no more of the row than is left of it as
 * a whole. */
static bool is_row_over(const Walk *w) {
  for (uint32_t j = w->b->last + 1; j < w->k->loops.len; j++) {
    const Loop *loop = w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *s = &loop->steps.at[i];
      if (s->kind != STEP_LOCAL || s->loop >= w->b->last)
        continue;
      const Loop *x = w->k->loops.at[s->loop];
      if (loop_keeps(x, &x->results.at[s->result], w->k->outer))
        return false;
    }
  }
  return true;
}

static Loop *new_row(const Kernel *k) {
  Loop *row = NEW(k->arena, Loop);
  row->graph = k->graph;
  row->outer = k->outer;
  row->kept = row->axes = k->outer + 1;
  memcpy(row->extents, k->loops.at[0]->extents,
         row->axes * sizeof *row->extents);
  return row;
}

bool kernel_between(const Kernel *k, Between *b) {
  *b = (Between){0};
  if (!find_loops(k, b))
    return false;
  Walk w = {.arena = k->arena, .k = k, .b = b, .row = new_row(k)};
  b->row = w.row;
  w.place = NEW_ARRAY(k->arena, uint32_t *, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    w.place[j] = NEW_ARRAY(k->arena, uint32_t, k->loops.at[j]->steps.len);
  for (uint32_t j = 1; j < b->last; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      if (take(&w, j, k->loops.at[j]->results.at[i].step) == NO_STEP)
        return false;
  uint32_t weight = NO_STEP;
  for (uint32_t j = 0; j < b->second.count; j++) {
    if (b->with_e >> j & 1)
      continue;
    if (weight != NO_STEP)
      return false; /* a product of weights, which nobody has rounded */
    weight = take(&w, b->last, b->second.factors[j]);
    if (weight == NO_STEP)
      return false;
  }
  w.depends = loop_depends(k->arena, w.row);
  return varies(&w, weight) && find_weight(&w, weight) && is_row_over(&w);
}
