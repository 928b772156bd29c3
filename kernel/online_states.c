/* Online reductions: loops that keep the states.
 *
 * A reduction along the strips has its state in local values, which a loop sets
 * before the first strip.  At the end of each strip, the loop of the reduction
 * combines its result with the state.
 *
 * Some sums are multiples of exp (slope * m), where m is a maximum or minimum.
 * They use the *scale*: m in the strips so far, which is finite initially, so
 * that a strip of infinities yields no NaN.  When m of a strip is known, loops
 * multiply the sums by exp (slope * (new scale - old scale)), and replace the
 * scale.  After the last strip, they do so with m itself, which may be
 * infinite.
 *
 * A term that underflows relative to m of the whole row is zero, and zero times
 * infinity is NaN.  Relative to m of its strip, the term may not underflow.  So
 * rows with a scaled sum that is not finite are computed again, with the final
 * m as the first scale. */
#include "kernel/online_reduction.h"
#include "support/arena.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct StateBuilder {
  Kernel *kernel;
  Arena *arena;
  const OnlineStates *online;
  uint32_t *numbers; /* by loop before: its number */
  uint32_t *homes;   /* by state: the loop that sets its first value */
  uint32_t scale;    /* the loop that sets the first scale; NO_OP: no state is
                        scaled */
  VEC(LoopNest *) loops;
} StateBuilder;

static const LoopOutput *output_of(const StateBuilder *b, uint32_t state) {
  const OnlineState *s = &b->online->states.at[state];
  return &b->kernel->loops.at[s->loop]->outputs.at[s->output];
}

static const LoopOutput *extreme_of(const StateBuilder *b) {
  const LoopNest *loop = b->kernel->loops.at[b->online->extreme_loop];
  return &loop->outputs.at[b->online->extreme_output];
}

static uint32_t extreme_state(const StateBuilder *b) {
  uint32_t i = 0;
  while (b->online->states.at[i].loop != b->online->extreme_loop ||
         b->online->states.at[i].output != b->online->extreme_output)
    i++;
  return i;
}

/* ---- operations ---- */

static uint32_t add_op(const StateBuilder *b, LoopNest *loop, KernelOp s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(b->arena, loop->ops, s);
  return loop->ops.len - 1;
}

static uint32_t add_const(const StateBuilder *b, LoopNest *loop, Dtype t,
                          double x) {
  KernelOp s = {.kind = KOP_CONST, .dtype = t, .value = {.dtype = t, .f = x}};
  return add_op(b, loop, s);
}

static uint32_t add_map(const StateBuilder *b, LoopNest *loop, PrimId op,
                        Dtype t, uint32_t x, uint32_t y) {
  KernelOp s = {.kind = KOP_MAP, .op = op, .dtype = t, .args = {x, y}};
  s.arg_count = op == PRIM_EXP ? 1 : 2;
  return add_op(b, loop, s);
}

/* Reads the local values that loop `home` set first, at the place of r. */
static uint32_t add_read(const StateBuilder *b, LoopNest *loop, uint32_t home,
                         const LoopOutput *r) {
  KernelOp s = {.kind = KOP_LOAD_LOCAL, .dtype = r->dtype};
  s.source_loop = home;
  s.address = affine_copy(b->arena, r->local_index);
  return add_op(b, loop, s);
}

/* ---- loops ---- */

/* A loop over the elements of a state. */
static LoopNest *state_loop_new(const StateBuilder *b, uint32_t of) {
  LoopNest *loop = loop_clone_empty(b->arena, b->kernel->loops.at[of]);
  loop->axis_count = loop->spatial_axes;
  loop->trim_bounds = 0;
  loop->trimmed_axis = 0;
  loop->requires_finite = loop->strip_mined = false;
  loop->keeps_states = true;
  return loop;
}

/* Adds a loop whose last operation is the value of r.  home: the loop whose
 * values it replaces; NO_OP: it has its own.  Returns the number of the loop.
 */
static uint32_t add_loop(StateBuilder *b, LoopNest *loop, const LoopOutput *r,
                         uint32_t home) {
  LoopOutput to = {.node = r->node,
                   .reduce = PRIM_NONE,
                   .dtype = r->dtype,
                   .value_op = loop->ops.len - 1,
                   .local_index = affine_copy(b->arena, r->local_index),
                   .local_elements = r->local_elements};
  if (home != NO_OP) {
    to.updates = true;
    to.state_loop = home;
  }
  VEC_PUSH(b->arena, loop->outputs, to);
  VEC_PUSH(b->arena, b->loops, loop);
  return b->loops.len - 1;
}

/* ---- first values ---- */

static uint32_t add_first_value(StateBuilder *b, uint32_t of,
                                const LoopOutput *r, double x) {
  LoopNest *loop = state_loop_new(b, of);
  add_const(b, loop, r->dtype, x);
  return add_loop(b, loop, r, NO_OP);
}

/* The sign of the first value of a maximum or minimum. */
static double first_sign(const LoopOutput *r) {
  return reduce_info[r->reduce].order == ORDER_MAX ? -1 : 1;
}

static void add_first_values(StateBuilder *b, bool of_extremes) {
  for (uint32_t i = 0; i < b->online->states.len; i++) {
    const LoopOutput *r = output_of(b, i);
    if (prim_is_extreme(r->reduce) == of_extremes)
      b->homes[i] = add_first_value(b, b->online->states.at[i].loop, r,
                                    of_extremes ? first_sign(r) * INFINITY : 0);
  }
}

static void add_first_scale(StateBuilder *b) {
  const LoopOutput *r = extreme_of(b);
  double max = r->dtype == DT_F64 ? DBL_MAX : (double)FLT_MAX;
  b->scale =
      add_first_value(b, b->online->extreme_loop, r, first_sign(r) * max);
}

/* ---- rescaling ---- */

/* The scales: *before, and the result.  is_final: the extreme itself. */
static uint32_t add_scales(const StateBuilder *b, LoopNest *loop, bool is_final,
                           uint32_t *before) {
  const LoopOutput *m = extreme_of(b);
  *before = add_read(b, loop, b->scale, m);
  uint32_t now = add_read(b, loop, b->homes[extreme_state(b)], m);
  return is_final ? now
                  : add_map(b, loop, reduce_info[m->reduce].combine, m->dtype,
                            *before, now);
}

/* exp (slope * (now - before)); 1 if the scale is the same, also if it is
 * infinite. */
static uint32_t add_factor(const StateBuilder *b, LoopNest *loop, double slope,
                           uint32_t now, uint32_t before) {
  Dtype t = extreme_of(b)->dtype;
  uint32_t change = add_map(b, loop, PRIM_SUB, t, now, before);
  uint32_t times = add_const(b, loop, t, slope);
  uint32_t product = add_map(b, loop, PRIM_MUL, t, times, change);
  uint32_t factor = add_map(b, loop, PRIM_EXP, t, product, 0);
  uint32_t is_same = add_map(b, loop, PRIM_EQ, DT_BOOL, now, before);
  KernelOp choose = {.kind = KOP_SELECT, .dtype = t, .arg_count = 3};
  choose.args[0] = is_same;
  choose.args[1] = add_const(b, loop, t, 1);
  choose.args[2] = factor;
  return add_op(b, loop, choose);
}

static void add_rescaling(StateBuilder *b, uint32_t state, bool is_final) {
  const OnlineState *s = &b->online->states.at[state];
  const LoopOutput *r = output_of(b, state);
  LoopNest *loop = state_loop_new(b, s->loop);
  uint32_t x = add_read(b, loop, b->homes[state], r), before;
  uint32_t now = add_scales(b, loop, is_final, &before);
  uint32_t factor = add_factor(b, loop, s->slope, now, before);
  if (loop->ops.at[factor].dtype != r->dtype) {
    KernelOp convert = {.kind = KOP_CONVERT, .dtype = r->dtype, .arg_count = 1};
    convert.args[0] = factor;
    factor = add_op(b, loop, convert);
  }
  add_map(b, loop, PRIM_MUL, r->dtype, x, factor);
  add_loop(b, loop, r, b->homes[state]);
}

/* Rescales all states, then replaces the scale. */
static void add_rescalings(StateBuilder *b, bool is_final) {
  uint32_t before;
  for (uint32_t i = 0; i < b->online->states.len; i++)
    if (b->online->states.at[i].is_scaled)
      add_rescaling(b, i, is_final);
  LoopNest *loop = state_loop_new(b, b->online->extreme_loop);
  add_scales(b, loop, is_final, &before);
  add_loop(b, loop, extreme_of(b), b->scale);
}

/* ---- check ---- */

/* The value is not finite. */
static uint32_t add_test(const StateBuilder *b, LoopNest *loop, uint32_t home,
                         const LoopOutput *r) {
  uint32_t x = add_read(b, loop, home, r);
  uint32_t zero = add_const(b, loop, r->dtype, 0);
  uint32_t difference = add_map(b, loop, PRIM_SUB, r->dtype, x, x);
  return add_map(b, loop, PRIM_NE, DT_BOOL, difference, zero);
}

/* A loop that tests all elements of a state.  Its value is local. */
static void add_test_loop(StateBuilder *b, uint32_t state, KernelOp *read) {
  const LoopOutput *r = output_of(b, state);
  LoopNest *loop = state_loop_new(b, b->online->states.at[state].loop);
  LoopOutput any = {.node = r->node,
                    .reduce = PRIM_ANY,
                    .dtype = DT_BOOL,
                    .local_index = affine_new(b->arena, 0),
                    .local_elements = 1};
  loop->spatial_axes = loop->parallel_axes;
  any.value_op = add_test(b, loop, b->homes[state], r);
  VEC_PUSH(b->arena, loop->outputs, any);
  VEC_PUSH(b->arena, b->loops, loop);
  *read = (KernelOp){.kind = KOP_LOAD_LOCAL, .dtype = DT_BOOL};
  read->source_loop = b->loops.len - 1;
  read->address = affine_new(b->arena, 0);
}

static void add_check(StateBuilder *b) {
  Kernel *k = b->kernel;
  LoopNest *check = NEW(b->arena, LoopNest);
  check->graph = k->graph;
  check->parallel_axes = check->spatial_axes = check->axis_count =
      k->parallel_axes;
  memcpy(check->extents, k->loops.at[0]->extents, sizeof check->extents);
  for (uint32_t i = 0; i < b->online->states.len; i++) {
    if (!b->online->states.at[i].is_scaled)
      continue;
    const LoopOutput *r = output_of(b, i);
    const LoopNest *of = k->loops.at[b->online->states.at[i].loop];
    LoopOutput odd = {.reduce = PRIM_NONE, .dtype = DT_BOOL};
    if (of->spatial_axes == of->parallel_axes) {
      odd.value_op = add_test(b, check, b->homes[i], r);
    } else {
      KernelOp read;
      add_test_loop(b, i, &read);
      odd.value_op = add_op(b, check, read);
    }
    VEC_PUSH(b->arena, check->outputs, odd);
  }
  k->retry_check = check;
}

/* ---- order of the loops ---- */

static void copy_loops(StateBuilder *b, uint32_t from, uint32_t to) {
  for (uint32_t j = from; j < to; j++) {
    b->numbers[j] = b->loops.len;
    VEC_PUSH(b->arena, b->loops, b->kernel->loops.at[j]);
  }
}

/* Each reduction along the strips updates its state. */
static void mark_updates(const StateBuilder *b) {
  for (uint32_t i = 0; i < b->online->states.len; i++) {
    const OnlineState *s = &b->online->states.at[i];
    LoopOutput *r = &b->kernel->loops.at[s->loop]->outputs.at[s->output];
    r->updates = true;
    r->state_loop = b->homes[i];
  }
}

/* Reads of the extreme are reads of the scale. */
static void renumber_loads(const StateBuilder *b, LoopNest *loop) {
  for (uint32_t j = 0; loop && j < loop->ops.len; j++) {
    KernelOp *s = &loop->ops.at[j];
    if (s->kind != KOP_LOAD_LOCAL)
      continue;
    bool is_extreme = b->scale != NO_OP &&
                      s->source_loop == b->online->extreme_loop &&
                      s->source_output == b->online->extreme_output;
    s->source_loop = is_extreme ? b->scale : b->numbers[s->source_loop];
    if (is_extreme)
      s->source_output = 0;
  }
}

void kernel_add_online_states(Kernel *k, const OnlineStates *states) {
  StateBuilder b = {.kernel = k,
                    .arena = k->arena,
                    .online = states,
                    .numbers = NEW_ARRAY(k->arena, uint32_t, k->loops.len),
                    .homes = NEW_ARRAY(k->arena, uint32_t, states->states.len),
                    .scale = NO_OP};
  uint32_t count = k->loops.len, end = states->strip_end;
  bool scales = false;
  for (uint32_t i = 0; i < states->states.len; i++)
    scales |= states->states.at[i].is_scaled;
  copy_loops(&b, 0, states->strip_begin);
  add_first_values(&b, true);
  if (scales)
    add_first_scale(&b);
  k->retry_begin = b.loops.len;
  add_first_values(&b, false);
  k->strip_begin = b.loops.len;
  copy_loops(&b, states->strip_begin, scales ? states->extreme_loop + 1 : end);
  if (scales) {
    add_rescalings(&b, false);
    copy_loops(&b, states->extreme_loop + 1, end);
  }
  k->strip_end = b.loops.len;
  if (scales) {
    add_rescalings(&b, true);
    add_check(&b);
  }
  k->retry_end = b.loops.len;
  copy_loops(&b, end, count);
  for (uint32_t j = 0; j < count; j++)
    renumber_loads(&b, k->loops.at[j]);
  renumber_loads(&b, k->trim_check);
  mark_updates(&b);
  k->loops.len = 0;
  for (uint32_t j = 0; j < b.loops.len; j++)
    VEC_PUSH(k->arena, k->loops, b.loops.at[j]);
}
