/* Reads and results whose lanes would be apart in memory: of points that lie
 * one after the other, each with some numbers that are next to each other.
 * These are read once, along those numbers, by a loop of their own, which
 * leaves them as local values; and are stored so from there. */
#include "tensor/kernel.h"

#include <string.h>

enum {
  TURNED_LEAST = 8, /* neighbours that are worth it to be turned, where each is
                       read but once, */
  STORED_LEAST = 4, /* or where they are stored */
};

static bool has_quotients(const Quasi *q) {
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (q->times[v])
      return true;
  return false;
}

bool loop_reads_apart(const Loop *loop, const Step *s, uint32_t lane,
                      double *numbers) {
  if (s->kind != STEP_READ || s->index_count || s->pairs ||
      s->dtype == DT_I64 || has_quotients(s->address) ||
      loop->axes <= loop->outer)
    return false;
  int64_t apart = s->address->times[lane], next = 0;
  double points = loop_points(loop, loop->outer, loop->axes);
  *numbers = 1;
  for (uint32_t v = loop->outer; v < loop->axes; v++) {
    if (s->address->times[v] == 1)
      next = loop_guess(loop, v);
    if (s->address->times[v])
      *numbers *= (double)loop_guess(loop, v);
  }
  return next && (next >= TURNED_LEAST || *numbers < points) &&
         size_holds(loop->graph, SIZE_LE, 2, apart);
}

/* The inner axis along which results lie next to each other; KERNEL_AXES: there
 * is none. */
static uint32_t next_stored(const Loop *loop, const Result *r) {
  for (uint32_t v = loop->outer; v < loop->kept; v++)
    if (r->out->times[v] == 1)
      return v;
  return KERNEL_AXES;
}

bool loop_stores_apart(const Loop *loop, const Result *r, uint32_t lane) {
  uint32_t v =
      r->out && r->dtype != DT_I64 ? next_stored(loop, r) : KERNEL_AXES;
  return v < KERNEL_AXES && !has_quotients(r->out) &&
         loop_guess(loop, v) >= STORED_LEAST &&
         size_holds(loop->graph, SIZE_LE, 2, r->out->times[lane]);
}

/* ---- what is read, as a loop ---- */

typedef struct Axes { /* the inner ones of a read, the last of which steps by
                         one element */
  uint32_t count, at[KERNEL_AXES];
} Axes;

static Axes axes_of(const Loop *loop, const Quasi *q) {
  Axes a = {0};
  uint32_t last = UINT32_MAX;
  for (uint32_t v = loop->outer; v < loop->axes; v++)
    if (q->times[v] == 1 && last == UINT32_MAX)
      last = v;
    else if (q->times[v])
      a.at[a.count++] = v;
  a.at[a.count++] = last;
  return a;
}

static bool is_same(const Loop *copy, const Loop *loop, const Step *s,
                    const Axes *axes) {
  const Step *x = &copy->steps.at[0];
  bool same = x->input == s->input && copy->axes == loop->outer + axes->count &&
              x->address->constant == s->address->constant;
  for (uint32_t v = 0; same && v < loop->outer; v++)
    same = x->address->times[v] == s->address->times[v];
  for (uint32_t k = 0; same && k < axes->count; k++)
    same = copy->extents[loop->outer + k] == loop->extents[axes->at[k]] &&
           x->address->times[loop->outer + k] == s->address->times[axes->at[k]];
  return same;
}

static Loop *copy_of(Arena *arena, const Loop *loop, const Step *s,
                     const Axes *axes) {
  Loop *to = NEW(arena, Loop);
  to->graph = loop->graph;
  to->outer = loop->outer;
  to->kept = to->axes = loop->outer + axes->count;
  to->copy = COPY_IN;
  to->next = to->axes - 1;
  Step read = *s;
  read.address = quasi_new(arena, s->address->constant);
  for (uint32_t v = 0; v < loop->outer; v++) {
    to->extents[v] = loop->extents[v];
    read.address->times[v] = s->address->times[v];
  }
  for (uint32_t k = 0; k < axes->count; k++) {
    to->extents[loop->outer + k] = loop->extents[axes->at[k]];
    read.address->times[loop->outer + k] = s->address->times[axes->at[k]];
  }
  VEC_PUSH(arena, to->steps, read);
  Result r = {.node = (Node *)s->node, .dtype = s->dtype};
  r.local = loop_layout(arena, to, &r.local_size);
  VEC_PUSH(arena, to->results, r);
  return to;
}

static void read_copy(Arena *arena, const Loop *copy, uint32_t number, Step *s,
                      const Axes *axes) {
  const Quasi *layout = copy->results.at[0].local;
  Quasi *address = quasi_new(arena, 0);
  for (uint32_t k = 0; k < axes->count; k++)
    address->times[axes->at[k]] = layout->times[copy->outer + k];
  Step local = {.kind = STEP_LOCAL, .dtype = s->dtype, .span = s->span};
  local.low = s->low;
  local.high = s->high;
  local.sure = s->sure;
  local.loop = number;
  local.address = address;
  *s = local;
}

/* ---- what is stored, as a loop ---- */

static void store_copy(Kernel *k, uint32_t at, uint32_t result) {
  Loop *loop = k->loops.at[at], *to = NEW(k->arena, Loop);
  Result *r = &loop->results.at[result];
  to->graph = loop->graph;
  to->outer = loop->outer;
  to->kept = to->axes = loop->kept;
  memcpy(to->extents, loop->extents, loop->kept * sizeof *to->extents);
  to->copy = COPY_OUT;
  to->next = next_stored(loop, r);
  if (!r->local)
    r->local = loop_layout(k->arena, loop, &r->local_size);
  Step read = {.kind = STEP_LOCAL, .dtype = r->dtype, .span = r->node->span};
  read.low = INT64_MIN;
  read.high = INT64_MAX;
  read.loop = at;
  read.result = result;
  read.address = quasi_copy(k->arena, r->local);
  VEC_PUSH(k->arena, to->steps, read);
  Result stored = {.node = r->node, .dtype = r->dtype};
  stored.out = r->out;
  r->out = NULL;
  VEC_PUSH(k->arena, to->results, stored);
  VEC_PUSH(k->arena, k->loops, to);
}

static void copy_results(Kernel *k, uint32_t lane) {
  uint32_t count = k->loops.len;
  for (uint32_t j = 0; j < count; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      if (loop_stores_apart(k->loops.at[j], &k->loops.at[j]->results.at[i],
                            lane))
        store_copy(k, j, i);
}

/* ---- the whole ---- */

typedef struct Read {
  const Loop *loop;
  Step *step;
  Axes axes;
  uint32_t copy;
} Read;

typedef struct Copies {
  VEC(Loop *) loops;
  VEC(Read) reads;
} Copies;

static void note_read(Arena *arena, Copies *c, const Loop *loop, Step *s) {
  Read r = {.loop = loop, .step = s, .axes = axes_of(loop, s->address)};
  while (r.copy < c->loops.len &&
         !is_same(c->loops.at[r.copy], loop, s, &r.axes))
    r.copy++;
  if (r.copy == c->loops.len)
    VEC_PUSH(arena, c->loops, copy_of(arena, loop, s, &r.axes));
  VEC_PUSH(arena, c->reads, r);
}

/* Before all other loops. */
static void put_first(Kernel *k, const Copies *c) {
  uint32_t count = c->loops.len;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++)
      if (loop->steps.at[i].kind == STEP_LOCAL)
        loop->steps.at[i].loop += count;
  }
  for (uint32_t j = 0; j < count; j++)
    VEC_PUSH(k->arena, k->loops, NULL);
  for (uint32_t j = k->loops.len; j-- > count;)
    k->loops.at[j] = k->loops.at[j - count];
  for (uint32_t j = 0; j < count; j++)
    k->loops.at[j] = c->loops.at[j];
}

void kernel_copy_apart(Kernel *k, uint32_t lane) {
  Copies c = {0};
  double numbers;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++)
      if (loop_reads_apart(loop, &loop->steps.at[i], lane, &numbers))
        note_read(k->arena, &c, loop, &loop->steps.at[i]);
  }
  put_first(k, &c);
  for (uint32_t j = 0; j < c.reads.len; j++) {
    const Read *r = &c.reads.at[j];
    read_copy(k->arena, c.loops.at[r->copy], r->copy, r->step, &r->axes);
  }
  copy_results(k, lane);
  k->across = true;
}
