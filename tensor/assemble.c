/* The loops of a cluster as a kernel: variables numbered alike, reads of each
 * other made local, axes put together, loops over the same axes made one. */
#include "tensor/kernel.h"

#include "tensor/scalar.h"

#include <string.h>

/* ---- variables of one loop in those of another ---- */

bool quasi_split(Arena *arena, const Quasi *x, int64_t by, const Loop *loop,
                 Quasi **upper, Quasi **lower) {
  Graph *g = loop->graph;
  Quasi *up = quasi_new(arena, 0), *low = quasi_new(arena, 0);
  int64_t least, most;
  if (!quasi_divide(g, x, by, up, low))
    return false;
  *upper = up;
  *lower = low;
  return quasi_bounds(loop, low, &least, &most) &&
         size_holds(g, SIZE_LE, 0, least) && size_below(g, most, by);
}

bool stage_split(Arena *arena, const Stage *x, uint32_t axis, const Quasi *at,
                 const Loop *reader, Quasi **parts) {
  const int64_t *extents = x->loop->extents + x->first[axis];
  Quasi *rest = quasi_new(arena, 0);
  *rest = *at;
  for (uint32_t k = x->parts[axis]; k-- > 1;)
    if (!quasi_split(arena, rest, extents[k], reader, &rest, &parts[k]))
      return false;
  if (x->parts[axis])
    parts[0] = rest;
  return true;
}

/* ---- renumbering ---- */

typedef struct Assembler {
  Arena *arena;
  Kernel *k;
  const Member *members;
  uint32_t count, outer;
  uint32_t to[KERNEL_AXES]; /* of the member at hand: new numbers of variables
                             */
} Assembler;

static Quasi *renumber(const Assembler *a, const Quasi *from, uint32_t axes) {
  Quasi *to = quasi_new(a->arena, from->constant);
  for (uint32_t v = 0; v < axes; v++)
    to->times[a->to[v]] = from->times[v];
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    to->times[v] = from->times[v];
  return to;
}

static void number_axes(Assembler *a, const Member *m, Loop *loop) {
  const Loop *from = m->stage->loop;
  bool shared[KERNEL_AXES] = {false};
  uint32_t next = a->outer;
  for (uint32_t j = 0; j < a->outer; j++) {
    shared[m->shared[j]] = true;
    a->to[m->shared[j]] = j;
  }
  for (uint32_t v = 0; v < from->axes; v++)
    if (!shared[v])
      a->to[v] = next++;
  for (uint32_t v = 0; v < from->axes; v++)
    loop->extents[a->to[v]] = from->extents[v];
  loop->graph = from->graph;
  loop->outer = a->outer;
  loop->kept = from->kept;
  loop->axes = from->axes;
}

static uint32_t input_of(Kernel *k, const Node *x) {
  for (uint32_t j = 0; j < k->inputs.len; j++)
    if (k->inputs.at[j] == x)
      return j;
  VEC_PUSH(k->arena, k->inputs, x);
  return k->inputs.len - 1;
}

static uint32_t member_of(const Assembler *a, const Node *x) {
  for (uint32_t j = 0; j < a->count; j++)
    if (a->members[j].node == x)
      return j;
  return UINT32_MAX;
}

/* Of extents: what they come to fits where their node's elements do. */
static int64_t multiplied(const Loop *loop, int64_t x, int64_t y) {
  int64_t out;
  return size_mul(loop->graph, x, y, &out) ? out : INT64_MAX;
}

Quasi *loop_layout(Arena *arena, const Loop *loop, int64_t *size) {
  Quasi *q = quasi_new(arena, 0);
  *size = 1;
  for (uint32_t v = loop->kept; v-- > loop->outer;) {
    q->times[v] = *size;
    *size = multiplied(loop, *size, loop->extents[v]);
  }
  return q;
}

/* A read of a member's value at this outer point: where among its inner ones.
 * NULL: the forms do not separate, which was asked before. */
static Quasi *local_address(const Assembler *a, const Member *x,
                            const Step *read, const Loop *reader) {
  const Loop *loop = x->stage->loop;
  bool shared[KERNEL_AXES] = {false};
  int64_t strides[KERNEL_AXES], size = 1;
  for (uint32_t j = 0; j < a->outer; j++)
    shared[x->shared[j]] = true;
  for (uint32_t v = loop->kept; v-- > 0;) {
    strides[v] = size;
    size = shared[v] ? size : multiplied(loop, size, loop->extents[v]);
  }
  Quasi *address = quasi_new(a->arena, 0), *parts[KERNEL_AXES];
  uint32_t axes = x->node->free_count + x->node->rank;
  for (uint32_t axis = 0; axis < axes; axis++) {
    if (!read->at[axis] ||
        !stage_split(a->arena, x->stage, axis, read->at[axis], reader, parts))
      return NULL;
    for (uint32_t p = 0; p < x->stage->parts[axis]; p++) {
      uint32_t v = x->stage->first[axis] + p;
      if (!shared[v] && !quasi_add(loop->graph, address, strides[v], parts[p]))
        return NULL;
    }
  }
  return address;
}

static bool assemble_read(Assembler *a, const Member *m, Step *s) {
  const Loop *from = m->stage->loop;
  uint32_t source = member_of(a, s->node);
  if (source == UINT32_MAX) {
    s->input = input_of(a->k, s->node);
    s->address = renumber(a, s->address, from->axes);
    return true;
  }
  Quasi *address = local_address(a, &a->members[source], s, from);
  if (!address)
    return false;
  s->kind = STEP_LOCAL;
  s->loop = source;
  s->result = 0;
  s->address = renumber(a, address, from->axes);
  s->index_count = 0;
  Loop *loop = a->k->loops.at[source];
  Result *r = &loop->results.at[0];
  if (!r->local)
    r->local = loop_layout(a->arena, loop, &r->local_size);
  return true;
}

static bool assemble_loop(Assembler *a, const Member *m) {
  const Loop *from = m->stage->loop;
  Loop *loop = NEW(a->arena, Loop);
  VEC_PUSH(a->arena, a->k->loops, loop);
  number_axes(a, m, loop);
  loop->quotient_count = from->quotient_count;
  for (uint32_t j = 0; j < from->quotient_count; j++) {
    loop->quotients[j] = from->quotients[j];
    loop->quotients[j].of = *renumber(a, &from->quotients[j].of, from->axes);
  }
  for (uint32_t j = 0; j < from->steps.len; j++) {
    Step s = from->steps.at[j];
    if (s.kind == STEP_INDEX)
      s.index = renumber(a, s.index, from->axes);
    if (s.kind == STEP_READ && !assemble_read(a, m, &s))
      return false;
    VEC_PUSH(a->arena, loop->steps, s);
  }
  Result r = from->results.at[0];
  r.out = m->kept ? renumber(a, r.out, from->axes) : NULL;
  VEC_PUSH(a->arena, loop->results, r);
  return true;
}

/* ---- putting axes together ---- */

typedef VEC(Quasi *) Uses;

static void mark_quotients(const Loop *loop, const Quasi *q, bool *used) {
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    used[j] |= q->times[KERNEL_AXES + j] != 0;
}

/* Those that are left in no address are forgotten. */
static void note_quotients(Arena *arena, Loop *loop, Uses *u) {
  bool used[QUOTIENTS] = {false};
  for (uint32_t j = 0; j < u->len; j++)
    mark_quotients(loop, u->at[j], used);
  for (uint32_t j = loop->quotient_count; j-- > 0;)
    if (used[j])
      mark_quotients(loop, &loop->quotients[j].of, used);
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    if (used[j])
      VEC_PUSH(arena, *u, &loop->quotients[j].of);
    else
      loop->quotients[j] = (Quotient){.by = 1};
}

/* Each once: several steps may have the same. */
static void add_use(Arena *arena, Uses *u, Quasi *q) {
  for (uint32_t j = 0; j < u->len; j++)
    if (u->at[j] == q)
      return;
  if (q)
    VEC_PUSH(arena, *u, q);
}

static Uses uses_of(Arena *arena, Loop *loop) {
  Uses u = {0};
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_INDEX)
      add_use(arena, &u, s->index);
    else if (s->kind == STEP_READ || s->kind == STEP_LOCAL)
      add_use(arena, &u, s->address);
  }
  for (uint32_t j = 0; j < loop->results.len; j++) {
    add_use(arena, &u, loop->results.at[j].out);
    add_use(arena, &u, loop->results.at[j].local);
  }
  note_quotients(arena, loop, &u);
  return u;
}

/* Do all uses step over v and v + 1 as over one axis? */
static bool walks_as_one(Graph *g, const Uses *u, uint32_t v, int64_t inner) {
  for (uint32_t j = 0; j < u->len; j++) {
    int64_t step;
    if (!size_mul(g, u->at[j]->times[v + 1], inner, &step) ||
        u->at[j]->times[v] != step)
      return false;
  }
  return true;
}

/* v goes into v + 1. */
static void remove_axis(Loop *loop, const Uses *u, uint32_t v) {
  loop->extents[v + 1] =
      multiplied(loop, loop->extents[v + 1], loop->extents[v]);
  memmove(loop->extents + v, loop->extents + v + 1,
          (loop->axes - v - 1) * sizeof *loop->extents);
  for (uint32_t j = 0; j < u->len; j++) {
    int64_t *times = u->at[j]->times;
    memmove(times + v, times + v + 1, (loop->axes - v - 1) * sizeof *times);
    times[loop->axes - 1] = 0;
  }
  loop->axes--;
  loop->kept -= v < loop->kept;
  loop->outer -= v < loop->outer;
}

void loop_cut(Arena *arena, Loop *loop, int64_t by) {
  Uses u = uses_of(arena, loop);
  uint32_t v = loop->axes - 1;
  loop->extents[v] /= by;
  loop->extents[v + 1] = by;
  for (uint32_t j = 0; j < u.len; j++) {
    int64_t *times = u.at[j]->times;
    times[v + 1] = times[v];
    times[v] = multiplied(loop, times[v], by);
  }
  loop->axes++;
}

void loop_uncut(Arena *arena, Loop *loop) {
  Uses u = uses_of(arena, loop);
  remove_axis(loop, &u, loop->axes - 2);
}

static void merge_inner(Arena *arena, Loop *loop) {
  Uses u = uses_of(arena, loop);
  for (uint32_t v = loop->axes; v-- > loop->outer + 1;)
    if (v != loop->kept &&
        walks_as_one(loop->graph, &u, v - 1, loop->extents[v]))
      remove_axis(loop, &u, v - 1);
}

static void merge_outer(Kernel *k) {
  Uses *uses = NEW_ARRAY(k->arena, Uses, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    uses[j] = uses_of(k->arena, k->loops.at[j]);
  for (uint32_t v = k->outer; v-- > 1;) {
    bool one = true;
    for (uint32_t j = 0; j < k->loops.len; j++)
      one = one &&
            walks_as_one(k->graph, &uses[j], v - 1, k->loops.at[j]->extents[v]);
    for (uint32_t j = 0; one && j < k->loops.len; j++)
      remove_axis(k->loops.at[j], &uses[j], v - 1);
    k->outer -= one;
  }
}

/* ---- loops over the same axes ---- */

enum {
  RESULTS_MOST = 12, /* of loops without axes of their own that become one, */
  STEPS_MOST = 600,  /* and steps: backends and compilers take no end of them */
};

/* Stored values beside reductions of the same axes: then nothing but the outer
 * axes may be kept by these. */
static bool axes_agree(const Loop *x, const Loop *y) {
  if (x->axes != y->axes ||
      memcmp(x->extents, y->extents, x->axes * sizeof *x->extents) != 0)
    return false;
  bool stores_x = x->kept == x->axes, stores_y = y->kept == y->axes;
  if (stores_x == stores_y)
    return x->kept == y->kept;
  return (stores_x ? y : x)->kept == x->outer;
}

/* Does loop y read what x computes, and not just where it computes it? */
static bool may_follow_at_once(const Kernel *k, uint32_t x, const Loop *y) {
  const Loop *loop = k->loops.at[x];
  for (uint32_t j = 0; j < y->steps.len; j++) {
    const Step *s = &y->steps.at[j];
    if (s->kind != STEP_LOCAL || s->loop != x)
      continue;
    const Result *r = &loop->results.at[s->result];
    if (r->reduce != PRIM_NONE || !quasi_equal(r->local, s->address))
      return false;
  }
  return true;
}

static uint32_t latest_source(const Loop *y) {
  uint32_t latest = 0;
  for (uint32_t j = 0; j < y->steps.len; j++)
    if (y->steps.at[j].kind == STEP_LOCAL && y->steps.at[j].loop > latest)
      latest = y->steps.at[j].loop;
  return latest;
}

static bool equal_steps(const Step *x, const Step *y) {
  if (x->kind != y->kind || x->dtype != y->dtype || x->op != y->op ||
      x->arg_count != y->arg_count || x->sure != y->sure ||
      memcmp(x->args, y->args, x->arg_count * sizeof *x->args) != 0)
    return false;
  switch (x->kind) {
  case STEP_CONST:
    return memcmp(&x->value.i, &y->value.i, sizeof x->value.i) == 0;
  case STEP_INDEX:
    return quasi_equal(x->index, y->index);
  case STEP_READ:
    return x->input == y->input && x->index_count == y->index_count &&
           quasi_equal(x->address, y->address) &&
           (x->index_count == 0 ||
            memcmp(x->indices, y->indices,
                   x->index_count * sizeof *x->indices) == 0);
  case STEP_LOCAL:
    return x->loop == y->loop && x->result == y->result &&
           quasi_equal(x->address, y->address);
  case STEP_RANDOM:
    return memcmp(&x->key, &y->key, sizeof x->key) == 0;
  case STEP_OP:
  case STEP_SELECT:
  case STEP_CONVERT:
  case STEP_PAIR:
    return true;
  }
  return false;
}

static uint32_t add_step(Arena *arena, Loop *loop, const Step *s) {
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (equal_steps(&loop->steps.at[j], s))
      return j;
  VEC_PUSH(arena, loop->steps, *s);
  return loop->steps.len - 1;
}

/* Quotients of y among those of x: where each is; false: there is no room. */
static bool join_quotients(Loop *x, Loop *y) {
  uint32_t place[QUOTIENTS];
  for (uint32_t j = 0; j < y->quotient_count; j++) {
    Quasi of = y->quotients[j].of;
    for (uint32_t i = 0; i < j; i++)
      if (of.times[KERNEL_AXES + i] && place[i] != i)
        return false; /* rare: nested ones that move */
    uint32_t at = 0;
    while (at < x->quotient_count &&
           !(x->quotients[at].by == y->quotients[j].by &&
             quasi_equal(&x->quotients[at].of, &of)))
      at++;
    if (at == QUOTIENTS)
      return false;
    if (at == x->quotient_count)
      x->quotients[x->quotient_count++] = y->quotients[j];
    place[j] = at;
  }
  for (uint32_t j = 0; j < y->steps.len; j++) {
    Step *s = &y->steps.at[j];
    Quasi *q = s->kind == STEP_INDEX                           ? s->index
               : s->kind == STEP_READ || s->kind == STEP_LOCAL ? s->address
                                                               : NULL;
    if (!q)
      continue;
    int64_t times[QUOTIENTS];
    memcpy(times, q->times + KERNEL_AXES, sizeof times);
    memset(q->times + KERNEL_AXES, 0, sizeof times);
    for (uint32_t i = 0; i < y->quotient_count; i++)
      q->times[KERNEL_AXES + place[i]] += times[i];
  }
  return true;
}

static void refer(Kernel *k, uint32_t loop, uint32_t result, uint32_t to_loop,
                  uint32_t to_result) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      Step *s = &k->loops.at[j]->steps.at[i];
      if (s->kind == STEP_LOCAL && s->loop == loop && s->result == result) {
        s->loop = to_loop;
        s->result = to_result;
      }
    }
}

/* Makes loop y, of one result, part of loop x. */
static bool join(Kernel *k, uint32_t x_at, uint32_t y_at) {
  Loop *x = k->loops.at[x_at], *y = k->loops.at[y_at];
  if (!join_quotients(x, y))
    return false;
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, y->steps.len);
  for (uint32_t j = 0; j < y->steps.len; j++) {
    Step s = y->steps.at[j];
    if (s.kind == STEP_LOCAL && s.loop == x_at) {
      place[j] = x->results.at[s.result].step;
      continue;
    }
    for (uint32_t i = 0; i < s.arg_count; i++)
      s.args[i] = place[s.args[i]];
    if (s.kind == STEP_READ && s.index_count) {
      ReadIndex *indices = NEW_ARRAY(k->arena, ReadIndex, s.index_count);
      memcpy(indices, s.indices, s.index_count * sizeof *indices);
      for (uint32_t i = 0; i < s.index_count; i++)
        indices[i].step = place[indices[i].step];
      s.indices = indices;
    }
    place[j] = add_step(k->arena, x, &s);
  }
  Result r = y->results.at[0];
  r.step = place[r.step];
  VEC_PUSH(k->arena, x->results, r);
  if (y->kept < x->kept)
    x->kept = y->kept;
  refer(k, y_at, 0, x_at, x->results.len - 1);
  y->results.len = 0;
  return true;
}

/* What only the loop itself read needs no place. */
static void drop_locals(Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      Result *r = &k->loops.at[j]->results.at[i];
      bool read = false;
      for (uint32_t l = 0; l < k->loops.len && !read; l++)
        for (uint32_t s = 0; s < k->loops.at[l]->steps.len && !read; s++) {
          const Step *step = &k->loops.at[l]->steps.at[s];
          read = k->loops.at[l]->results.len && step->kind == STEP_LOCAL &&
                 step->loop == j && step->result == i;
        }
      if (!read)
        r->local = NULL;
    }
}

static void drop_loops(Kernel *k) {
  uint32_t kept = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    Loop *loop = k->loops.at[j];
    if (!loop->results.len)
      continue;
    for (uint32_t i = 0; i < loop->results.len; i++)
      refer(k, j, i, kept, i);
    k->loops.at[kept++] = loop;
  }
  k->loops.len = kept;
}

static bool is_read(const Kernel *k, uint32_t loop, uint32_t result,
                    const Loop *but) {
  for (uint32_t l = 0; l < k->loops.len; l++)
    for (uint32_t s = 0; s < k->loops.at[l]->steps.len; s++) {
      const Loop *by = k->loops.at[l];
      const Step *step = &by->steps.at[s];
      if (by->results.len && by != but && step->kind == STEP_LOCAL &&
          step->loop == loop && step->result == result)
        return true;
    }
  return false;
}

/* Where all loops are of the outer axes alone, what one leaves for the next is
 * in registers if they are one; it is not to leave too much for others. */
static bool is_within_reach(const Kernel *k, uint32_t x, const Loop *y) {
  const Loop *loop = k->loops.at[x];
  uint32_t stored = 1;
  for (uint32_t j = 0; j < loop->results.len; j++)
    stored += loop->results.at[j].out || is_read(k, x, j, y);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->axes > k->loops.at[j]->outer)
      return false;
  return stored <= RESULTS_MOST && loop->steps.len + y->steps.len <= STEPS_MOST;
}

/* A sum of products is left alone: backends have their own way with it. */
static bool may_join(const Kernel *k, uint32_t x, const Loop *y) {
  const Loop *loop = k->loops.at[x];
  return loop->results.len && !loop_is_product(loop) && axes_agree(loop, y) &&
         may_follow_at_once(k, x, y) &&
         (loop->axes > loop->outer || is_within_reach(k, x, y));
}

/* Results that nobody reads any more, of loops that have others. */
static void drop_results(Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    Loop *loop = k->loops.at[j];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < loop->results.len; i++) {
      if (!loop->results.at[i].out && !loop->results.at[i].local)
        continue;
      refer(k, j, i, j, kept);
      loop->results.at[kept++] = loop->results.at[i];
    }
    loop->results.len = kept ? kept : loop->results.len;
  }
}

static void join_loops(Kernel *k) {
  for (uint32_t y = 1; y < k->loops.len; y++) {
    Loop *loop = k->loops.at[y];
    if (loop_is_product(loop))
      continue;
    for (uint32_t x = latest_source(loop); x < y; x++)
      if (may_join(k, x, loop) && join(k, x, y))
        break;
  }
  drop_locals(k);
  drop_results(k);
  drop_loops(k);
}

/* ---- sums of products ---- */

/* What does not depend on the summed axes is done after the sum, in a loop of
 * its own that reads what the one before it has left. */
static void hoist_factors(Kernel *k) {
  Kernel old = *k;
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, old.loops.len);
  k->loops.at = NULL;
  k->loops.len = k->loops.cap = 0;
  for (uint32_t j = 0; j < old.loops.len; j++) {
    Loop *rest = product_hoist(k->arena, old.loops.at[j], old.loops.len == 1);
    VEC_PUSH(k->arena, k->loops, old.loops.at[j]);
    if (rest)
      VEC_PUSH(k->arena, k->loops, rest);
    place[j] = k->loops.len - 1;
  }
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      Step *s = &k->loops.at[j]->steps.at[i];
      if (s->kind == STEP_LOCAL)
        s->loop = s->loop == LOOP_BEFORE ? j - 1 : place[s->loop];
    }
}

void kernel_part_result(Kernel *k, uint32_t at) {
  Loop *loop = k->loops.at[at], *rest = NEW(k->arena, Loop);
  Result r = loop->results.at[0], sum = r;
  *rest = *loop;
  memset(&rest->steps, 0, sizeof rest->steps);
  memset(&rest->results, 0, sizeof rest->results);
  rest->axes = rest->kept;
  sum.dtype = loop->steps.at[r.step].dtype;
  sum.out = NULL;
  sum.local = loop_layout(k->arena, loop, &sum.local_size);
  loop->results.at[0] = sum;
  Step read = {.kind = STEP_LOCAL, .dtype = sum.dtype, .loop = at};
  read.low = INT64_MIN;
  read.high = INT64_MAX;
  read.address = loop_layout(k->arena, loop, &sum.local_size);
  VEC_PUSH(k->arena, rest->steps, read);
  r.reduce = PRIM_NONE;
  r.step = 0;
  VEC_PUSH(k->arena, rest->results, r);
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      Step *s = &k->loops.at[j]->steps.at[i];
      if (s->kind == STEP_LOCAL && s->loop >= at)
        s->loop++;
    }
  VEC_PUSH(k->arena, k->loops, rest);
  for (uint32_t j = k->loops.len - 1; j > at + 1; j--)
    k->loops.at[j] = k->loops.at[j - 1];
  k->loops.at[at + 1] = rest;
}

/* ---- the order of the outer axes ---- */

static void rotate(int64_t *x, uint32_t from, uint32_t to) {
  int64_t moved = x[from];
  memmove(x + from, x + from + 1, (to - from) * sizeof *x);
  x[to] = moved;
}

void kernel_move_last(Kernel *k, uint32_t v) {
  uint32_t last = k->outer - 1;
  for (uint32_t j = 0; j < k->loops.len && v != last; j++) {
    Loop *loop = k->loops.at[j];
    Uses u = uses_of(k->arena, loop);
    rotate(loop->extents, v, last);
    for (uint32_t i = 0; i < u.len; i++)
      rotate(u.at[i]->times, v, last);
  }
}

/* ---- the whole ---- */

Kernel *kernel_assemble(Arena *arena, uint32_t count, Member *members,
                        uint32_t outer) {
  Assembler a = {.arena = arena, .members = members, .count = count};
  a.outer = outer;
  a.k = NEW(arena, Kernel);
  a.k->arena = arena;
  a.k->graph = members[0].stage->loop->graph;
  a.k->outer = outer;
  for (uint32_t j = 0; j < count; j++)
    if (!assemble_loop(&a, &members[j]))
      return NULL;
  merge_outer(a.k);
  for (uint32_t j = 0; j < a.k->loops.len; j++)
    merge_inner(arena, a.k->loops.at[j]);
  hoist_factors(a.k);
  join_loops(a.k);
  return a.k;
}

static bool quasi_is_open(const Graph *g, const Quasi *q) {
  bool open = !size_is_number(g, q->constant);
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    open |= !size_is_number(g, q->times[v]);
  return open;
}

static bool step_is_open(const Graph *g, const Step *s) {
  if (s->kind == STEP_INDEX)
    return quasi_is_open(g, s->index);
  if (s->kind != STEP_READ && s->kind != STEP_LOCAL)
    return false;
  bool open = quasi_is_open(g, s->address);
  for (uint32_t j = 0; s->kind == STEP_READ && j < s->index_count; j++)
    open |= !size_is_number(g, s->indices[j].stride) ||
            !size_is_number(g, s->indices[j].extent);
  return open;
}

bool loop_is_open(const Loop *loop) {
  const Graph *g = loop->graph;
  bool open = false;
  if (!g->sizes)
    return false;
  for (uint32_t v = 0; v < loop->axes; v++)
    open |= !size_is_number(g, loop->extents[v]);
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    open |= quasi_is_open(g, &loop->quotients[j].of) ||
            !size_is_number(g, loop->quotients[j].by);
  for (uint32_t j = 0; j < loop->steps.len; j++)
    open |= step_is_open(g, &loop->steps.at[j]);
  return open;
}

bool kernel_is_open(const Kernel *k) {
  bool open = false;
  for (uint32_t j = 0; j < k->loops.len; j++)
    open |= loop_is_open(k->loops.at[j]);
  return open;
}

int64_t loop_guess(const Loop *loop, uint32_t v) {
  return size_guess(loop->graph, loop->extents[v]);
}

double loop_points(const Loop *loop, uint32_t from, uint32_t to) {
  return size_guess_product(loop->graph, to - from, loop->extents + from);
}

double kernel_local_bytes(const Kernel *k, bool one_each) {
  double bytes = 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *r = &k->loops.at[j]->results.at[i];
      if (r->local && (one_each || r->local_size > 1))
        bytes += (double)size_guess(k->graph, r->local_size) *
                 dtype_info[r->dtype].bytes;
    }
  return bytes;
}

double kernel_work(const Kernel *k) {
  double work = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    work += loop->steps.len * loop_points(loop, 0, loop->axes);
  }
  return work;
}

bool cluster_is_exact(const Cluster *c) {
  for (uint32_t k = 0; k < c->nodes.len; k++)
    if (!node_is_exact(c->nodes.at[k]))
      return false;
  return true;
}

/* ---- as text ---- */

static void print_quasi(Buffer *out, const Quasi *q) {
  const char *between = "";
  if (q->constant) {
    buffer_printf(out, "%lld", (long long)q->constant);
    between = " + ";
  }
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    if (!q->times[v])
      continue;
    buffer_puts(out, between);
    between = " + ";
    if (q->times[v] != 1)
      buffer_printf(out, "%lld*", (long long)q->times[v]);
    buffer_printf(out, "%c%u", v < KERNEL_AXES ? 'i' : 'q',
                  v < KERNEL_AXES ? v : v - KERNEL_AXES);
  }
  if (!*between)
    buffer_puts(out, "0");
}

static void print_step(Buffer *out, const Loop *loop, uint32_t at) {
  const Step *s = &loop->steps.at[at];
  buffer_printf(out, "    %%%u %s = ", at, dtype_info[s->dtype].name);
  switch (s->kind) {
  case STEP_CONST:
    scalar_print(out, s->value);
    break;
  case STEP_INDEX:
    print_quasi(out, s->index);
    break;
  case STEP_READ:
    buffer_printf(out, "in%u[", s->input);
    print_quasi(out, s->address);
    for (uint32_t j = 0; j < s->index_count; j++)
      buffer_printf(out, " + %lld*(%%%u < %lld)",
                    (long long)s->indices[j].stride, s->indices[j].step,
                    (long long)s->indices[j].extent);
    buffer_puts(out, "]");
    break;
  case STEP_LOCAL:
    buffer_printf(out, "local%u.%u[", s->loop, s->result);
    print_quasi(out, s->address);
    buffer_puts(out, "]");
    break;
  case STEP_OP:
  case STEP_RANDOM:
    buffer_puts(out, prim_info[s->op].name);
    break;
  case STEP_SELECT:
    buffer_puts(out, "choose");
    break;
  case STEP_CONVERT:
    buffer_puts(out, "convert");
    break;
  case STEP_PAIR:
    buffer_puts(out, "pair");
    break;
  }
  for (uint32_t j = 0; j < s->arg_count; j++)
    buffer_printf(out, " %%%u", s->args[j]);
  buffer_puts(out, "\n");
}

static void print_result(Buffer *out, const Result *r) {
  buffer_puts(out, "    ");
  if (r->out) {
    buffer_printf(out, "out n%u[", r->node->id);
    print_quasi(out, r->out);
    buffer_puts(out, r->local ? "], " : "] = ");
  }
  if (r->local) {
    buffer_puts(out, "local[");
    print_quasi(out, r->local);
    buffer_puts(out, "] = ");
  }
  if (r->reduce != PRIM_NONE)
    buffer_printf(out, "%s ", prim_info[r->reduce].name);
  buffer_printf(out, "%%%u\n", r->step);
}

static void print_loop(Buffer *out, const Loop *loop) {
  buffer_puts(out, "  loop");
  for (uint32_t v = 0; v < loop->axes; v++)
    buffer_printf(out, "%s i%u < %lld",
                  v == loop->kept    ? " reduce"
                  : v == loop->outer ? " in each"
                                     : "",
                  v, (long long)loop->extents[v]);
  buffer_puts(out, "\n");
  for (uint32_t j = 0; j < loop->quotient_count; j++) {
    buffer_printf(out, "    q%u = (", j);
    print_quasi(out, &loop->quotients[j].of);
    buffer_printf(out, ") / %lld\n", (long long)loop->quotients[j].by);
  }
  for (uint32_t j = 0; j < loop->steps.len; j++)
    print_step(out, loop, j);
  for (uint32_t j = 0; j < loop->results.len; j++)
    print_result(out, &loop->results.at[j]);
}

void kernel_print(Buffer *out, const Kernel *k) {
  buffer_puts(out, "kernel\n");
  for (uint32_t j = 0; j < k->loops.len; j++)
    print_loop(out, k->loops.at[j]);
}
