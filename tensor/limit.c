/* Parts of loops that need not be gone through: where a condition on indices
 * chooses a value that changes nothing.
 *
 * `if j <= i then x else k`: beyond i an element is k, and what is computed of
 * it has, at all such j, the same value, the *rest*, which only depends on the
 * outer axes.  A sum of rests that are zero is zero, and a maximum does not
 * care for less than it has already: so loops over j may end at i.  Scores of
 * attention that a mask hides are -inf, and what they weigh is exp (-inf - m),
 * zero; sums over bands and triangles are alike.
 *
 * A rest may only be known when it is there: m may be infinite, k may be as
 * large as m.  So the kernel has a *guard*, run behind its loops: whether, at
 * this point, any rest would have counted.  Then all is done once more, without
 * limits.  And zero by what is not finite is not zero: before a product leaves
 * out terms, its other factors are looked at. */
#include "tensor/limit.h"

#include "tensor/scalar.h"

#include <math.h>
#include <string.h>

enum {
  NO_AXIS = UINT32_MAX,
  NO_REST = UINT32_MAX,
  SHORT = 32, /* axes that are gone through wholly */
};

typedef struct Limiter {
  Arena *arena;
  Kernel *k;
  bool tiled;
  Limit limit; /* at hand */
  uint32_t number;
  Loop *guard;
  /* by loop: the axis that is limited, whether it may be; by step: 1 + where
   * its rest is in the guard, NO_REST, 0: not looked at */
  uint32_t *axis, **place;
  bool *cut;
  VEC(uint32_t) wrong; /* steps of the guard, each true where a rest counts */
} Limiter;

/* ---- inequalities of conditions ---- */

static bool step_form(const Loop *loop, uint32_t at, Quasi *out) {
  const Step *s = &loop->steps.at[at];
  if (s->kind == STEP_INDEX)
    *out = *s->index;
  else if (s->kind == STEP_CONST && s->dtype == DT_I64 &&
           size_is_number(loop->graph, s->value.i))
    *out = (Quasi){.constant = s->value.i};
  else
    return false;
  return true;
}

static PrimId opposite(PrimId op) {
  switch ((int)op) {
  case PRIM_LT:
    return PRIM_GE;
  case PRIM_LE:
    return PRIM_GT;
  case PRIM_GT:
    return PRIM_LE;
  case PRIM_GE:
    return PRIM_LT;
  case PRIM_EQ:
    return PRIM_NE;
  case PRIM_NE:
    return PRIM_EQ;
  }
  return PRIM_NONE;
}

static uint32_t put_form(Graph *g, Quasi *out, uint32_t count, const Quasi *d,
                         int64_t factor, int64_t constant) {
  out[count] = (Quasi){.constant = constant};
  return quasi_add(g, &out[count], factor, d) ? count + 1 : count;
}

/* |x| < y or <= y: -x <= y and x <= y */
static uint32_t band_forms(const Loop *loop, const Step *s, PrimId op,
                           Quasi *out) {
  const Step *x = &loop->steps.at[s->args[0]];
  Quasi of, most;
  if (x->kind != STEP_OP || x->op != PRIM_ABS ||
      (op != PRIM_LT && op != PRIM_LE) || !step_form(loop, x->args[0], &of) ||
      !step_form(loop, s->args[1], &most) ||
      !size_sub(loop->graph, most.constant, op == PRIM_LT, &most.constant))
    return 0;
  uint32_t count = put_form(loop->graph, out, 0, &most, 1, 0);
  if (!count || !quasi_add(loop->graph, &out[0], 1, &of))
    return 0;
  count = put_form(loop->graph, out, 1, &most, 1, 0);
  return count == 2 && quasi_add(loop->graph, &out[1], -1, &of) ? 2 : 0;
}

uint32_t limit_forms(const Loop *loop, const Step *s, bool truth, Quasi *out) {
  Quasi x, y;
  if (s->kind != STEP_OP || s->arg_count != 2 || !opposite(s->op))
    return 0;
  PrimId op = truth ? s->op : opposite(s->op);
  if (!step_form(loop, s->args[0], &x) || !step_form(loop, s->args[1], &y))
    return band_forms(loop, s, op, out);
  if (!quasi_add(loop->graph, &x, -1, &y))
    return 0;
  if (op == PRIM_LT || op == PRIM_LE)
    return put_form(loop->graph, out, 0, &x, -1, op == PRIM_LT ? -1 : 0);
  if (op == PRIM_GT || op == PRIM_GE)
    return put_form(loop->graph, out, 0, &x, 1, op == PRIM_GT ? -1 : 0);
  return op == PRIM_EQ
             ? put_form(loop->graph, out,
                        put_form(loop->graph, out, 0, &x, 1, 0), &x, -1, 0)
             : 0;
}

/* ---- of indices that were made floats ---- */

/* The index that it was; NULL: it was none. */
static const Step *converted(const Loop *loop, uint32_t at) {
  const Step *s = &loop->steps.at[at];
  const Step *of = &loop->steps.at[s->args[0]];
  return s->kind == STEP_CONVERT && dtype_is_float(s->dtype) &&
                 of->kind == STEP_INDEX
             ? of
             : NULL;
}

static bool compares_floats(const Loop *loop, const Step *s) {
  return s->kind == STEP_OP && s->arg_count == 2 && opposite(s->op) &&
         converted(loop, s->args[0]) && converted(loop, s->args[1]);
}

/* As if the indices were compared. */
static uint32_t all_forms(const Loop *loop, const Step *s, bool truth,
                          Quasi *out) {
  if (!compares_floats(loop, s))
    return limit_forms(loop, s, truth, out);
  Step of = *s;
  for (uint32_t j = 0; j < 2; j++)
    of.args[j] = loop->steps.at[s->args[j]].args[0];
  return limit_forms(loop, &of, truth, out);
}

/* Integers below that are floats of the type, and others become no less. */
static int64_t exact_most(Dtype t) {
  return t == DT_F64 ? (int64_t)1 << 53 : t == DT_F32 ? 1 << 24 : 0;
}

/* The floats compare as the indices do where one of the two is exact, whatever
 * the other one is: where its largest value is small enough.  False: that is
 * not so. */
static bool needs_of(const Loop *loop, const Step *s, Limit *limit) {
  limit->most = limit->exact = 0;
  if (!compares_floats(loop, s))
    return true;
  int64_t exact = exact_most(loop->steps.at[s->args[0]].dtype), low, high;
  for (uint32_t j = 0; exact && j < 2; j++) {
    const Step *of = converted(loop, s->args[j]);
    if (!quasi_bounds(loop, of->index, &low, &high) ||
        !size_holds(loop->graph, SIZE_LE, 1 - exact, low) ||
        (size_is_number(loop->graph, high) && high >= exact))
      continue;
    limit->most = high;
    limit->exact = exact;
    return true;
  }
  return false;
}

bool limit_of_form(const Loop *loop, const Quasi *form, Limit *limit,
                   uint32_t *axis) {
  uint32_t found = 0;
  for (uint32_t v = loop->outer; v < KERNEL_VARS; v++)
    if (form->times[v]) {
      *axis = v;
      found++;
    }
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (!size_is_number(loop->graph, form->times[v]))
      return false; /* up or down: nobody knows */
  if (found != 1 || *axis >= loop->axes)
    return false;
  int64_t t = form->times[*axis];
  Quasi rest = *form;
  rest.times[*axis] = 0;
  limit->by = t > 0 ? t : -t;
  limit->least = t > 0;
  limit->of = (Quasi){0};
  limit->of.constant = t > 0 ? t - 1 : 0;
  return quasi_add(loop->graph, &limit->of, t > 0 ? -1 : 1, &rest);
}

static bool equal_limits(const Limit *x, const Limit *y) {
  return x->by == y->by && x->least == y->least && x->most == y->most &&
         x->exact == y->exact && quasi_equal(&x->of, &y->of);
}

/* The axis of the loop that the comparison limits so; NO_AXIS: none. */
static uint32_t limited_axis(const Limiter *l, const Loop *loop, uint32_t at,
                             bool truth) {
  Quasi forms[2];
  uint32_t count = all_forms(loop, &loop->steps.at[at], truth, forms), axis;
  for (uint32_t j = 0; j < count; j++) {
    Limit limit;
    if (limit_of_form(loop, &forms[j], &limit, &axis) &&
        needs_of(loop, &loop->steps.at[at], &limit) &&
        equal_limits(&limit, &l->limit))
      return axis;
  }
  return NO_AXIS;
}

/* Does the condition hold (truth), or not, only within the limit?  Recursion
 * is as deep as a body, which the planner bounds. */
static bool keeps_within(const Limiter *l, uint32_t at_loop, uint32_t at,
                         bool truth) {
  const Loop *loop = l->k->loops.at[at_loop];
  const Step *s = &loop->steps.at[at];
  if (s->kind != STEP_OP)
    return false;
  if (s->op == PRIM_NOT)
    return keeps_within(l, at_loop, s->args[0], !truth);
  if (s->op != PRIM_AND && s->op != PRIM_OR) {
    uint32_t axis = limited_axis(l, loop, at, truth);
    return axis != NO_AXIS && axis == l->axis[at_loop];
  }
  bool x = keeps_within(l, at_loop, s->args[0], truth);
  bool y = keeps_within(l, at_loop, s->args[1], truth);
  return (s->op == PRIM_AND) == truth ? x || y : x && y;
}

/* ---- rests ---- */

static uint32_t put_step(Limiter *l, const Step *s) {
  VEC_PUSH(l->arena, l->guard->steps, *s);
  return l->guard->steps.len - 1;
}

static bool is_of_point(const Limiter *l, const Quasi *q) {
  for (uint32_t v = l->k->outer; v < KERNEL_VARS; v++)
    if (q->times[v])
      return false;
  return true;
}

bool loop_keeps(const Loop *loop, const Result *r, uint32_t v) {
  return r->reduce == PRIM_NONE || v < loop->kept;
}

uint32_t loop_reading_axis(const Loop *reader, const Quasi *address,
                           const Loop *loop, const Result *r, uint32_t of) {
  int64_t step = r->local->times[of], extent = loop->extents[of], least, most;
  int64_t whole, rest;
  Graph *g = loop->graph;
  uint32_t found = NO_AXIS;
  Quasi lower = {.constant = address->constant};
  for (uint32_t v = reader->outer; v < KERNEL_VARS; v++) {
    int64_t t = address->times[v];
    if (t == step && v < reader->axes && reader->extents[v] == extent &&
        found == NO_AXIS)
      found = v;
    else if (t && (!size_mul(g, step, extent, &whole) ||
                   (t != whole && (!size_mod(g, t, whole, &rest) || rest))))
      lower.times[v] = t;
  }
  bool alone = quasi_bounds(reader, &lower, &least, &most) &&
               size_holds(g, SIZE_LE, 0, least) && size_below(g, most, step);
  return alone ? found : NO_AXIS;
}

static uint32_t rest_of(Limiter *l, uint32_t at_loop, uint32_t at);

/* Of a value that an earlier loop has left along its limited axis. */
static uint32_t rest_of_local(Limiter *l, uint32_t at_loop, const Step *s) {
  const Loop *loop = l->k->loops.at[s->loop];
  const Result *r = &loop->results.at[s->result];
  uint32_t axis = l->axis[s->loop];
  if (axis == NO_AXIS || !loop_keeps(loop, r, axis) || r->reduce != PRIM_NONE ||
      !r->local ||
      loop_reading_axis(l->k->loops.at[at_loop], s->address, loop, r, axis) !=
          l->axis[at_loop])
    return NO_REST;
  uint32_t rest = rest_of(l, s->loop, r->step);
  if (rest == NO_REST || l->guard->steps.at[rest].dtype == r->dtype)
    return rest;
  Step convert = {.kind = STEP_CONVERT, .dtype = r->dtype, .arg_count = 1};
  convert.args[0] = rest;
  convert.low = INT64_MIN;
  convert.high = INT64_MAX;
  return put_step(l, &convert);
}

static bool is_choice(const Step *s) {
  return s->kind == STEP_SELECT || (s->kind == STEP_OP && s->op == PRIM_SELECT);
}

static uint32_t rest_of_op(Limiter *l, uint32_t at_loop, const Step *s) {
  if (is_choice(s)) {
    if (keeps_within(l, at_loop, s->args[0], true))
      return rest_of(l, at_loop, s->args[2]);
    if (keeps_within(l, at_loop, s->args[0], false))
      return rest_of(l, at_loop, s->args[1]);
  }
  Step to = *s;
  for (uint32_t j = 0; j < s->arg_count; j++)
    if ((to.args[j] = rest_of(l, at_loop, s->args[j])) == NO_REST)
      return NO_REST;
  return put_step(l, &to);
}

static uint32_t find_rest(Limiter *l, uint32_t at_loop, uint32_t at) {
  const Step *s = &l->k->loops.at[at_loop]->steps.at[at];
  switch (s->kind) {
  case STEP_CONST:
    return put_step(l, s);
  case STEP_INDEX:
    return is_of_point(l, s->index) ? put_step(l, s) : NO_REST;
  case STEP_READ:
    return s->index_count == 0 && is_of_point(l, s->address) ? put_step(l, s)
                                                             : NO_REST;
  case STEP_LOCAL:
    return is_of_point(l, s->address) ? put_step(l, s)
                                      : rest_of_local(l, at_loop, s);
  case STEP_OP:
  case STEP_SELECT:
  case STEP_CONVERT:
    return rest_of_op(l, at_loop, s);
  case STEP_RANDOM:
  case STEP_PAIR: /* made of operands alone */
    break;
  }
  return NO_REST;
}

/* The step of the guard that is the step's value beyond the limit; NO_REST:
 * that is not one value.  Recursion is as deep as a body. */
static uint32_t rest_of(Limiter *l, uint32_t at_loop, uint32_t at) {
  uint32_t *place = &l->place[at_loop][at];
  if (*place == 0) {
    uint32_t rest = find_rest(l, at_loop, at);
    *place = rest == NO_REST ? NO_REST : rest + 1;
  }
  return *place == NO_REST ? NO_REST : *place - 1;
}

/* ---- what a rest may be ---- */

static uint32_t put_op(Limiter *l, PrimId op, Dtype t, uint32_t count,
                       uint32_t x, uint32_t y) {
  Step s = {.kind = STEP_OP, .op = op, .dtype = t, .arg_count = count};
  s.args[0] = x;
  s.args[1] = y;
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  return put_step(l, &s);
}

static bool is_zero(const Step *s) {
  return dtype_is_float(s->dtype) ? s->value.f == 0 : s->value.i == 0;
}

/* Zeros alone may be left out of a sum. */
static bool must_be_zero(Limiter *l, uint32_t rest) {
  if (rest == NO_REST)
    return false;
  Step s = l->guard->steps.at[rest];
  if (s.kind == STEP_CONST && !is_param(s.value))
    return is_zero(&s);
  Step zero = {.kind = STEP_CONST, .dtype = s.dtype};
  zero.value.dtype = s.dtype;
  VEC_PUSH(l->arena, l->wrong,
           put_op(l, PRIM_NE, DT_BOOL, 2, rest, put_step(l, &zero)));
  return true;
}

/* What is not beyond the extreme of the others may be left out. */
static bool must_be_within(Limiter *l, uint32_t at_loop, uint32_t at,
                           uint32_t rest) {
  const Loop *loop = l->k->loops.at[at_loop];
  const Result *r = &loop->results.at[at];
  bool most = r->reduce == PRIM_MAX;
  if (rest == NO_REST)
    return false;
  const Step *s = &l->guard->steps.at[rest];
  if (s->kind == STEP_CONST && dtype_is_float(s->dtype) &&
      s->value.f == (most ? -INFINITY : INFINITY))
    return true;
  if (!r->local || loop->kept > loop->outer)
    return false;
  Step extreme = {.kind = STEP_LOCAL, .dtype = r->dtype, .loop = at_loop};
  extreme.result = at;
  extreme.address = quasi_copy(l->arena, r->local);
  extreme.low = INT64_MIN;
  extreme.high = INT64_MAX;
  uint32_t covers = put_op(l, most ? PRIM_GE : PRIM_LE, DT_BOOL, 2,
                           put_step(l, &extreme), rest);
  VEC_PUSH(l->arena, l->wrong, put_op(l, PRIM_NOT, DT_BOOL, 1, covers, 0));
  return true;
}

/* ---- loops that may be cut ---- */

static bool is_product(const Limiter *l, uint32_t at) {
  return l->tiled && loop_is_product(l->k->loops.at[at]);
}

/* Terms of a product: those factors that its columns do not share are zero,
 * and the others are looked at. */
static bool may_leave_terms(Limiter *l, uint32_t at, uint32_t axis) {
  Loop *loop = l->k->loops.at[at];
  Product p;
  uint32_t m, with_n;
  if (loop->axes != loop->kept + 1 || axis != loop->kept ||
      !product_find(l->arena, loop, &p) || p.outside_count ||
      !product_sides(loop, &p, loop->kept - 1, &m, &with_n))
    return false;
  uint32_t rest = NO_REST;
  for (uint32_t j = 0; j < p.count; j++) {
    if (with_n >> j & 1)
      continue;
    uint32_t factor = rest_of(l, at, p.factors[j]);
    if (factor == NO_REST)
      return false;
    Dtype t = l->guard->steps.at[factor].dtype;
    rest = rest == NO_REST ? factor : put_op(l, PRIM_MUL, t, 2, rest, factor);
  }
  return must_be_zero(l, rest);
}

static bool may_leave_out(Limiter *l, uint32_t at, uint32_t axis) {
  const Loop *loop = l->k->loops.at[at];
  if (is_product(l, at))
    return axis < loop->kept
               ? axis == loop->kept - 1 && !loop->results.at[0].out
               : may_leave_terms(l, at, axis);
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if (loop_keeps(loop, r, axis) ? r->out != NULL
        : r->reduce == PRIM_SUM   ? !must_be_zero(l, rest_of(l, at, r->step))
        : r->reduce == PRIM_MAX || r->reduce == PRIM_MIN
            ? !must_be_within(l, at, j, rest_of(l, at, r->step))
            : true)
      return false;
  }
  return true;
}

/* The axis that one of its own conditions limits. */
static uint32_t own_axis(const Limiter *l, const Loop *loop) {
  for (uint32_t j = 0; j < loop->steps.len; j++)
    for (uint32_t truth = 0; truth < 2; truth++) {
      uint32_t axis = limited_axis(l, loop, j, truth);
      if (axis != NO_AXIS)
        return axis;
    }
  return NO_AXIS;
}

/* Or that walks over values which are limited. */
static uint32_t read_axis(Limiter *l, uint32_t at) {
  const Loop *loop = l->k->loops.at[at];
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    uint32_t from = s->kind == STEP_LOCAL ? l->axis[s->loop] : NO_AXIS;
    if (from == NO_AXIS)
      continue;
    const Loop *x = l->k->loops.at[s->loop];
    const Result *r = &x->results.at[s->result];
    if (r->local && r->reduce == PRIM_NONE &&
        rest_of(l, s->loop, r->step) != NO_REST)
      return loop_reading_axis(loop, s->address, x, r, from);
  }
  return NO_AXIS;
}

static bool is_free(const Loop *loop, uint32_t axis) {
  return !loop->limits || loop->limited == axis;
}

static void find_cuts(Limiter *l) {
  for (uint32_t j = 0; j < l->k->loops.len; j++) {
    const Loop *loop = l->k->loops.at[j];
    uint32_t axis = own_axis(l, loop);
    l->axis[j] = axis = axis == NO_AXIS ? read_axis(l, j) : axis;
    uint32_t before = l->wrong.len;
    l->cut[j] =
        axis != NO_AXIS && is_free(loop, axis) && may_leave_out(l, j, axis);
    if (!l->cut[j])
      l->wrong.len = before;
  }
}

/* Are all who read the loop's values along the axis limited likewise? */
static bool is_read_within(const Limiter *l, uint32_t at, uint32_t axis) {
  const Loop *loop = l->k->loops.at[at];
  bool any = false;
  for (uint32_t j = at + 1; j < l->k->loops.len; j++) {
    const Loop *reader = l->k->loops.at[j];
    for (uint32_t i = 0; i < reader->steps.len; i++) {
      const Step *s = &reader->steps.at[i];
      if (s->kind != STEP_LOCAL || s->loop != at)
        continue;
      const Result *r = &loop->results.at[s->result];
      if (!loop_keeps(loop, r, axis))
        continue;
      if (!l->cut[j] ||
          loop_reading_axis(reader, s->address, loop, r, axis) != l->axis[j])
        return false;
      any = true;
    }
  }
  return any;
}

/* A loop whose values nobody wants beyond the limit need not compute them. */
static void find_sources(Limiter *l) {
  for (uint32_t j = l->k->loops.len; j-- > 0;) {
    const Loop *loop = l->k->loops.at[j];
    bool left = false;
    for (uint32_t i = 0; l->cut[j] && i < loop->results.len; i++)
      left |= loop_keeps(loop, &loop->results.at[i], l->axis[j]);
    if (left)
      l->cut[j] = is_read_within(l, j, l->axis[j]);
    bool out = false;
    for (uint32_t i = 0; i < loop->results.len; i++)
      out |= loop->results.at[i].out || !loop->results.at[i].local;
    for (uint32_t v = loop->kept;
         l->axis[j] == NO_AXIS && !out && v-- > loop->outer;)
      if (is_free(loop, v) && is_read_within(l, j, v) &&
          (!is_product(l, j) || v + 1 == loop->kept)) {
        l->axis[j] = v;
        l->cut[j] = true;
      }
  }
}

/* ---- how much is left ---- */

enum { SAMPLES = 16 };

/* Floor (of / by) at one of some points, evenly apart along all outer axes. */
static double limit_at(const Loop *loop, const Limit *limit, uint32_t sample) {
  double x = (double)size_guess(loop->graph, limit->of.constant);
  for (uint32_t v = 0; v < loop->outer; v++)
    x += (double)limit->of.times[v] * (double)(loop_guess(loop, v) - 1) *
         (sample + 0.5) / SAMPLES;
  return floor(x / (double)limit->by);
}

static double part_left(const Kernel *k, const Loop *loop) {
  double extent = (double)loop_guess(loop, loop->limited), points = 0;
  for (uint32_t j = 0; j < SAMPLES; j++) {
    double from = 0, to = extent;
    for (uint32_t i = 0; i < k->limits.len; i++) {
      double x = limit_at(loop, &k->limits.at[i], j);
      if (!(loop->limits >> i & 1))
        continue;
      if (k->limits.at[i].least)
        from = x > from ? x : from;
      else
        to = x + 1 < to ? x + 1 : to;
    }
    points += to > from ? to - from : 1;
  }
  return points / SAMPLES / extent;
}

/* ---- the whole ---- */

static Loop *guard_new(const Limiter *l) {
  Loop *guard = NEW(l->arena, Loop);
  guard->graph = l->k->graph;
  guard->outer = guard->kept = guard->axes = l->k->outer;
  memcpy(guard->extents, l->k->loops.at[0]->extents, sizeof guard->extents);
  return guard;
}

static void add_guards(Limiter *l) {
  if (!l->wrong.len)
    return;
  uint32_t *place = NEW_ARRAY(l->arena, uint32_t, l->guard->steps.len);
  if (!l->k->guard)
    l->k->guard = guard_new(l);
  for (uint32_t j = 0; j < l->wrong.len; j++) {
    Result r = {.reduce = PRIM_NONE, .dtype = DT_BOOL};
    r.step =
        loop_take_step(l->arena, l->guard, l->k->guard, place, l->wrong.at[j]);
    VEC_PUSH(l->arena, l->k->guard->results, r);
  }
}

/* Sets what the limit at hand leaves of the loops; false: nothing worth it. */
static bool apply(Limiter *l) {
  uint32_t count = l->k->loops.len;
  l->guard = guard_new(l);
  l->wrong.len = 0;
  for (uint32_t j = 0; j < count; j++) {
    l->place[j] = NEW_ARRAY(l->arena, uint32_t, l->k->loops.at[j]->steps.len);
    l->axis[j] = NO_AXIS;
    l->cut[j] = false;
  }
  find_cuts(l);
  find_sources(l);
  bool worth = false;
  for (uint32_t j = 0; j < count; j++)
    worth |= l->cut[j] && loop_guess(l->k->loops.at[j], l->axis[j]) >= SHORT;
  for (uint32_t j = 0; worth && j < count; j++) {
    Loop *loop = l->k->loops.at[j];
    if (!l->cut[j])
      continue;
    loop->limited = l->axis[j];
    loop->limits |= (uint32_t)1 << l->number;
    loop->finite |= is_product(l, j) && l->axis[j] >= loop->kept;
  }
  if (worth)
    add_guards(l);
  return worth;
}

static void try_limit(Limiter *l, const Limit *limit) {
  Kernel *k = l->k;
  for (uint32_t j = 0; j < k->limits.len; j++)
    if (equal_limits(&k->limits.at[j], limit))
      return;
  l->limit = *limit;
  l->number = k->limits.len;
  if (l->number < LIMITS_MOST && apply(l))
    VEC_PUSH(l->arena, k->limits, *limit);
}

static void try_condition(Limiter *l, const Loop *loop, uint32_t at,
                          bool truth) {
  Quasi forms[2];
  Limit limit;
  uint32_t count = all_forms(loop, &loop->steps.at[at], truth, forms), axis;
  for (uint32_t j = 0; j < count; j++)
    if (limit_of_form(loop, &forms[j], &limit, &axis) &&
        needs_of(loop, &loop->steps.at[at], &limit))
      try_limit(l, &limit);
}

void kernel_limit(Kernel *k, bool tiled) {
  Limiter l = {.arena = k->arena, .k = k, .tiled = tiled};
  if (k->limits.len)
    return;
  l.axis = NEW_ARRAY(k->arena, uint32_t, k->loops.len);
  l.place = NEW_ARRAY(k->arena, uint32_t *, k->loops.len);
  l.cut = NEW_ARRAY(k->arena, bool, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      try_condition(&l, loop, i, true);
      try_condition(&l, loop, i, false);
    }
  }
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->limits)
      k->loops.at[j]->part = part_left(k, k->loops.at[j]);
  if (!tiled) /* else they are those of several rows */
    kernel_settle(k);
}
