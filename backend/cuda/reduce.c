/* Rows of a product that come to numbers: its tiles leave parts of them, and a
 * pass behind it puts these together and does what follows.  So nothing as
 * large as the product is in memory.
 *
 * What is relative to the largest of a row is relative to that of the part
 * first (arXiv:1805.02867). */
#include "backend/cuda/reduce.h"

#include <string.h>

#define format emit_format

/* ---- steps of loops over the same axes ---- */

static bool is_wanted(const Result *r) {
  return r->out || r->local;
}

static bool is_number(const Result *r) {
  return is_wanted(r) && r->reduce != PRIM_NONE;
}

static bool is_element(const Result *r) {
  return is_wanted(r) && r->reduce == PRIM_NONE;
}

/* Reads it an element, of the product or of what is done with it; else it reads
 * what is of a row. */
static bool reads_element(const CudaReduce *t, const Kernel *k, const Step *s) {
  return s->loop < t->behind ||
         (s->loop < t->first &&
          is_element(&k->loops.at[s->loop]->results.at[s->result]));
}

static bool reads(const CudaReduce *t, const Kernel *k, const Loop *loop,
                  bool elements) {
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (loop->steps.at[j].kind == STEP_LOCAL &&
        reads_element(t, k, &loop->steps.at[j]) == elements)
      return true;
  return false;
}

/* Does a step need something that is of a row?  Steps come behind those that
 * they need. */
static bool needs_row(const CudaReduce *t, const Kernel *k, const Loop *loop,
                      uint32_t at) {
  bool *needs = NEW_ARRAY(k->arena, bool, loop->steps.len);
  for (uint32_t i = 0; i <= at; i++) {
    const Step *s = &loop->steps.at[i];
    needs[i] = s->kind == STEP_LOCAL && !reads_element(t, k, s);
    for (uint32_t j = 0; j < s->arg_count; j++)
      needs[i] |= needs[s->args[j]];
  }
  return needs[at];
}

/* ---- which kernels are such ---- */

static bool has_axes_of(const Loop *loop, const Loop *product) {
  return loop->axes == product->kept &&
         memcmp(loop->extents, product->extents,
                loop->axes * sizeof *loop->extents) == 0;
}

/* Along all inner axes of the product; one number of each point.  elements:
 * those that are left beside these do not count. */
static bool reduces(const Kernel *k, const Loop *loop, bool elements) {
  if (loop->kept != k->outer || !has_axes_of(loop, k->loops.at[0]))
    return false;
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if ((is_element(r) && !elements) ||
        (is_number(r) && r->out && !cuda_is_affine(r->out)))
      return false;
  }
  return true;
}

static bool has_elements(const Loop *loop) {
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (is_element(&loop->results.at[j]))
      return true;
  return false;
}

/* Among those before it: the largest of this one's x. */
static bool find_largest(CudaReduce *t, const Kernel *k, uint32_t at,
                         CudaNear *near) {
  for (uint32_t j = t->first; j < t->front->loops.len; j++) {
    uint32_t other = t->number[j];
    for (uint32_t i = 0; !t->near[j].is && i < k->loops.at[other]->results.len;
         i++)
      if (cuda_is_largest(k, at, near, other, i)) {
        near->loop = j;
        near->result = i;
        return true;
      }
  }
  return false;
}

static bool find_near(CudaReduce *t, const Kernel *k, uint32_t at,
                      CudaNear *near) {
  return cuda_near(k, at, near) && !needs_row(t, k, k->loops.at[at], near->x) &&
         find_largest(t, k, at, near);
}

/* ---- the product's pass ---- */

static uint32_t put_local(const Kernel *k, Loop *loop, Dtype t, uint32_t of,
                          uint32_t result) {
  Step local = {.kind = STEP_LOCAL,
                .dtype = t,
                .low = INT64_MIN,
                .high = INT64_MAX,
                .loop = of,
                .result = result,
                .address = quasi_new(k->arena, 0)};
  VEC_PUSH(k->arena, loop->steps, local);
  return loop->steps.len;
}

/* The part of a loop that is of elements, as a loop. */
static Loop *elements_of(const Kernel *k, const Loop *from) {
  Loop *loop = loop_like(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->steps.len);
  loop->kept = loop->axes;
  for (uint32_t j = 0; j < from->results.len; j++) {
    Result r = from->results.at[j];
    if (is_element(&r)) {
      r.step = loop_take_step(k->arena, from, loop, place, r.step);
      r.local = r.local ? r.local : quasi_new(k->arena, 0);
    } else {
      r = (Result){.dtype = r.dtype};
    }
    VEC_PUSH(k->arena, loop->results, r);
  }
  return loop;
}

/* A reduction's terms, as a loop that keeps them; elements beside it are in the
 * loop before. */
static Loop *terms_of(const CudaReduce *t, const Kernel *k, uint32_t at,
                      const CudaNear *near) {
  const Loop *from = k->loops.at[at];
  Loop *loop = loop_like(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->steps.len);
  loop->kept = loop->axes;
  if (near->is)
    place[near->v] = put_local(k, loop, DT_F32, near->loop, near->result);
  for (uint32_t j = 0; at < t->first && j < from->results.len; j++) {
    const Result *r = &t->front->loops.at[at]->results.at[j];
    const Step *s = &from->steps.at[from->results.at[j].step];
    if (!is_element(r))
      continue;
    uint32_t *to = &place[from->results.at[j].step];
    *to = put_local(k, loop, s->dtype, at, j);
    loop->steps.at[*to - 1].address = quasi_copy(k->arena, r->local);
  }
  for (uint32_t j = 0; j < from->results.len; j++) {
    Result r = from->results.at[j];
    if (is_number(&r)) {
      r.step = loop_take_step(k->arena, from, loop, place, r.step);
      r.local = quasi_new(k->arena, 0);
      r.out = NULL;
    } else {
      r = (Result){.dtype = r.dtype};
    }
    VEC_PUSH(k->arena, loop->results, r);
  }
  return loop;
}

static bool add_reduction(CudaReduce *t, const Kernel *k, uint32_t at) {
  const Loop *loop = k->loops.at[at];
  CudaNear near = {.is = false};
  uint32_t to = t->front->loops.len;
  if (!reduces(k, loop, at < t->first) ||
      t->count + loop->results.len > KERNEL_LOOPS ||
      (reads(t, k, loop, false) && !find_near(t, k, at, &near)))
    return false;
  t->number[to] = at;
  t->near[to] = near;
  for (uint32_t i = 0; i < loop->results.len; i++)
    if (is_number(&loop->results.at[i]))
      t->part[to][i] = t->count++;
  VEC_PUSH(k->arena, t->front->loops, terms_of(t, k, at, &near));
  return true;
}

static bool find_loops(CudaReduce *t, const Kernel *k) {
  const Loop *product = k->loops.at[0];
  uint32_t j = 0;
  while (j < k->loops.len && k->loops.at[j]->kept == product->kept &&
         (j == 0 || has_axes_of(k->loops.at[j], product))) {
    t->number[j] = j;
    VEC_PUSH(k->arena, t->front->loops, loop_copy(k->arena, k->loops.at[j++]));
  }
  t->first = t->behind = j;
  if (j < k->loops.len && has_elements(k->loops.at[j]) &&
      reduces(k, k->loops.at[j], true)) {
    t->number[t->first++] = j;
    VEC_PUSH(k->arena, t->front->loops, elements_of(k, k->loops.at[j]));
  }
  for (; j < k->loops.len; j++)
    if (reads(t, k, k->loops.at[j], true) && !add_reduction(t, k, j))
      return false;
  return t->front->loops.len > t->first;
}

CudaReduce *cuda_reduce_find(const Kernel *k, const CudaTarget *target) {
  const Loop *product = k->loops.at[0];
  if (k->loops.len < 2 || k->loops.len >= KERNEL_LOOPS || k->outer == 0 ||
      product->kept == k->outer || product->kept == product->axes || k->guard)
    return NULL;
  CudaReduce *t = NEW(k->arena, CudaReduce);
  *t = (CudaReduce){.front = NEW(k->arena, Kernel)};
  *t->front = *k;
  t->front->loops = (typeof(t->front->loops)){0};
  if (!find_loops(t, k))
    return NULL;
  t->tile = cuda_tile_find(t->front, target);
  return t->tile && gemm_may_reduce(&t->tile->s) ? t : NULL;
}

/* ---- its epilogue ---- */

typedef void Each(CudaWriter *w, Buffer *out, uint32_t loop, uint32_t result);

/* First those of all elements, then those near to one of these. */
static void for_each(CudaWriter *w, Buffer *out, uint32_t level, Each *each) {
  const CudaReduce *t = w->reduce;
  for (uint32_t j = t->first; j < t->front->loops.len; j++)
    for (uint32_t i = 0; i < t->front->loops.at[j]->results.len; i++)
      if (t->near[j].is == (level == 1) &&
          t->front->loops.at[j]->results.at[i].reduce != PRIM_NONE)
        each(w, out, j, i);
}

static void put_begin_one(CudaWriter *w, Buffer *out, uint32_t j, uint32_t i) {
  const Loop *loop = w->reduce->front->loops.at[j];
  CudaSum *sum = &w->reduce->sums[j][i];
  *sum = cuda_sum_new(w, loop, &loop->results.at[i]);
  cuda_sum_declare(sum, out);
}

static void put_begin(void *owner, Buffer *out, uint32_t level) {
  for_each(owner, out, level, put_begin_one);
}

/* What exponents are relative to: the largest of the part, if it is finite. */
static const char *given_largest(CudaWriter *w, const Step *s) {
  if (s->loop < w->reduce->first)
    return NULL;
  return cuda_near_largest(&w->e, w->reduce->sums[s->loop][s->result].name);
}

static void put_take(void *owner, Buffer *out, uint32_t level, const char *x) {
  CudaWriter *w = owner;
  const CudaReduce *t = w->reduce;
  for (uint32_t j = 0; j < t->front->loops.len; j++)
    if (j < t->first || t->near[j].is == (level == 1))
      cuda_put_loop(w, out, j, j ? NULL : x, NULL, given_largest);
}

static void put_join_one(CudaWriter *w, Buffer *out, uint32_t j, uint32_t i) {
  cuda_sum_join(w, &w->reduce->sums[j][i], out, w->reduce->fold,
                "(unsigned char *)0");
}

static void put_join(void *owner, Buffer *out, uint32_t level, uint32_t lanes) {
  CudaWriter *w = owner;
  w->reduce->fold = format(&w->e, "ax_fold<%u>", lanes);
  for_each(w, out, level, put_join_one);
}

static void put_leave_one(CudaWriter *w, Buffer *out, uint32_t j, uint32_t i) {
  const CudaReduce *t = w->reduce;
  const char *at =
      format(&w->e, "part * %s + point", emit_int(&w->e, w->points));
  cuda_sum_leave(w, &t->sums[j][i], &t->parts[t->part[j][i]], at, out);
}

static void put_leave(void *owner, Buffer *out, uint32_t level) {
  for_each(owner, out, level, put_leave_one);
}

/* Does it read nothing, and is no fault, wherever it is looked at? */
static bool is_anywhere(const Kernel *front) {
  for (uint32_t j = 1; j < front->loops.len; j++)
    for (uint32_t i = 0; i < front->loops.at[j]->steps.len; i++)
      if (!cuda_touches_nothing(&front->loops.at[j]->steps.at[i]))
        return false;
  return true;
}

void cuda_reduce_rows(CudaWriter *w, GemmRows *to) {
  const CudaReduce *t = w->reduce;
  if (!t)
    return;
  *to = (GemmRows){.levels = 1,
                   .anywhere = is_anywhere(t->front),
                   .begin = put_begin,
                   .take = put_take,
                   .join = put_join,
                   .leave = put_leave};
  for (uint32_t j = t->first; j < t->front->loops.len; j++)
    to->levels = t->near[j].is ? 2 : to->levels;
}

/* ---- parts ---- */

void cuda_reduce_begin(CudaWriter *w) {
  CudaReduce *t = w->reduce;
  Emitter *e = &w->e;
  const Loop *product = t->front->loops.at[0];
  const GemmSchedule *s = &t->tile->s;
  int64_t columns = 1, count;
  for (uint32_t j = 0; j < t->tile->ns; j++)
    columns = emit_times(e, columns, product->extents[t->tile->n[j]]);
  t->each = emit_times(e, emit_over(e, columns, s->n), gemm_row_parts(s));
  count = emit_times(e, t->each, w->points);
  for (uint32_t j = t->first; j < t->front->loops.len; j++) {
    const Loop *loop = t->front->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++)
      if (loop->results.at[i].reduce != PRIM_NONE)
        t->parts[t->part[j][i]] =
            cuda_take_part(w, loop, &loop->results.at[i], count);
  }
}

/* A part's address by the axes of the pass that puts parts together: tiles have
 * rows in an order of their own. */
static Quasi *part_at(CudaWriter *w, const CudaReduce *t, const Loop *over) {
  Emitter *e = &w->e;
  const CudaTile *tile = t->tile;
  Quasi *at = quasi_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t j = tile->ms; j-- > 0;) {
    at->times[tile->m[j]] = stride;
    stride = emit_times(e, stride, over->extents[tile->m[j]]);
  }
  for (uint32_t j = tile->batches; j-- > 0;) {
    at->times[tile->batch[j]] = stride;
    stride = emit_times(e, stride, over->extents[tile->batch[j]]);
  }
  at->times[over->kept] = stride;
  return at;
}

static uint32_t put_step(Arena *arena, Loop *loop, Step s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(arena, loop->steps, s);
  return loop->steps.len - 1;
}

static uint32_t put_op(Arena *arena, Loop *loop, PrimId op, uint32_t x,
                       uint32_t y) {
  return put_step(arena, loop,
                  (Step){.kind = STEP_OP,
                         .dtype = DT_F32,
                         .op = op,
                         .arg_count = op == PRIM_EXP ? 1 : 2,
                         .args = {x, y}});
}

/* A part relative to the largest of it becomes one relative to v (near.h). */
static uint32_t put_scaled(CudaWriter *w, const CudaReduce *t, const Loop *from,
                           Loop *over, uint32_t part, const CudaNear *near) {
  Arena *arena = w->e.arena;
  uint32_t *place = NEW_ARRAY(arena, uint32_t, from->steps.len);
  uint32_t number = t->part[near->loop][near->result];
  uint32_t most = put_step(
      arena, over, cuda_part_step(w, &t->parts[number], part_at(w, t, over)));
  uint32_t v = loop_take_step(arena, from, over, place, near->v);
  uint32_t by =
      put_op(arena, over, PRIM_EXP, put_op(arena, over, PRIM_SUB, most, v), 0);
  return put_op(arena, over, PRIM_MUL, part, by);
}

/* at: of the product's pass. */
static Loop *over_parts(CudaWriter *w, const CudaReduce *t, const Kernel *k,
                        uint32_t at) {
  const Loop *from = k->loops.at[t->number[at]];
  Loop *over = NEW(k->arena, Loop);
  *over = (Loop){.graph = from->graph,
                 .outer = k->outer,
                 .kept = k->outer,
                 .axes = k->outer + 1};
  memcpy(over->extents, from->extents, k->outer * sizeof *from->extents);
  over->extents[k->outer] = t->each;
  for (uint32_t i = 0; i < from->results.len; i++) {
    Result r = from->results.at[i];
    if (is_number(&r)) {
      Step part =
          cuda_part_step(w, &t->parts[t->part[at][i]], part_at(w, t, over));
      part.span = from->steps.at[r.step].span;
      r.step = put_step(k->arena, over, part);
      if (t->near[at].is)
        r.step = put_scaled(w, t, from, over, r.step, &t->near[at]);
    } else {
      r = (Result){.dtype = r.dtype};
    }
    VEC_PUSH(k->arena, over->results, r);
  }
  return over;
}

Kernel *cuda_reduce_rest(CudaWriter *w, const CudaReduce *t, const Kernel *k) {
  Kernel *rest = NEW(k->arena, Kernel);
  uint32_t next = t->first;
  *rest = *k;
  rest->loops = (typeof(rest->loops)){0};
  for (uint32_t j = t->behind; j < k->loops.len; j++) {
    bool parts = next < t->front->loops.len && t->number[next] == j;
    VEC_PUSH(k->arena, rest->loops,
             parts ? over_parts(w, t, k, next++)
                   : loop_copy(k->arena, k->loops.at[j]));
  }
  return rest;
}
