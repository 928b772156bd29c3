/* Rows too long for a cache, portion by portion.
 *
 * A row's maximum m, what exponentials of x - m come to, and products with
 * these all go along one axis.  They may go along a portion of it, then along
 * the next: sums begin with what the portions before have left, and when m has
 * grown, that is multiplied by exp (m before - m now).  So a row of scores is
 * never there as a whole (Milakov, Gimelshein, Online normalizer calculation
 * for softmax, 2018; Dao and others, FlashAttention, 2022).
 *
 * What is asked of the loops is algebra: all that depends on m does so by a
 * factor exp (slope * m), to which multiples and sums of such values keep. */
#include "tensor/kernel.h"

#include "tensor/scalar.h"

#include <string.h>

enum { NO_AXIS = UINT32_MAX };

/* How a value depends on the extreme. */
typedef enum Dependence {
  UNSEEN,
  FREE,    /* not at all */
  SHIFTED, /* + slope * m */
  SCALED,  /* * exp (slope * m) */
  OTHER,
} Dependence;

typedef struct Share {
  Dependence by;
  double slope;
} Share;

typedef struct Portioner {
  const Kernel *k;
  Arena *arena;
  uint32_t from, to;   /* the loops */
  uint32_t *axis;      /* of each, from `from` on */
  Share **shares;      /* likewise, by step */
  uint32_t of, result; /* the loop and number of the extreme that matters */
  bool has;
} Portioner;

static uint32_t axis_of(const Portioner *p, uint32_t loop) {
  return p->axis[loop - p->from];
}

/* ---- how values depend on the extreme ---- */

static Share share_of(Portioner *p, uint32_t at_loop, uint32_t at);

static const Share other = {.by = OTHER}, free_share = {.by = FREE};

static Share share_of_local(Portioner *p, const Step *s) {
  if (s->loop < p->from)
    return free_share;
  const Loop *loop = p->k->loops.at[s->loop];
  const Result *r = &loop->results.at[s->result];
  Share inner = share_of(p, s->loop, r->step);
  if (loop_keeps(loop, r, axis_of(p, s->loop)) && r->reduce == PRIM_NONE)
    return inner;
  if (loop_keeps(loop, r, axis_of(p, s->loop)))
    return inner.by == FREE ? inner : other;
  if ((r->reduce != PRIM_MAX && r->reduce != PRIM_MIN) || inner.by != FREE ||
      (p->has && (p->of != s->loop || p->result != s->result)))
    return other;
  p->has = true;
  p->of = s->loop;
  p->result = s->result;
  return (Share){SHIFTED, 1};
}

static bool known_number(const Step *s, double *x) {
  *x = s->value.f;
  return s->kind == STEP_CONST && dtype_is_float(s->dtype) &&
         !is_param(s->value);
}

static Share negative(Share x) {
  if (x.by == SHIFTED)
    x.slope = -x.slope;
  return x;
}

static Share sum_of(Share x, Share y) {
  if (x.by == SCALED || y.by == SCALED)
    return x.by == y.by && x.slope == y.slope ? x : other;
  return (Share){SHIFTED, x.slope + y.slope};
}

static Share product_of(const Loop *loop, const Step *s, Share x, Share y) {
  double factor;
  if (x.by == SHIFTED || y.by == SHIFTED) {
    const Step *by = &loop->steps.at[s->args[x.by == SHIFTED]];
    Share shifted = x.by == SHIFTED ? x : y;
    if ((x.by == FREE || y.by == FREE) && known_number(by, &factor))
      return (Share){SHIFTED, shifted.slope * factor};
    return other;
  }
  return (Share){SCALED, x.slope + y.slope};
}

static Share quotient_of(const Loop *loop, const Step *s, Share x, Share y) {
  double by;
  if (y.by != FREE)
    return other;
  if (x.by == SCALED)
    return x;
  return known_number(&loop->steps.at[s->args[1]], &by) && by != 0
             ? (Share){SHIFTED, x.slope / by}
             : other;
}

/* A condition that is free of the extreme; zero goes with any factor. */
static Share choice_of(const Loop *loop, const Step *s, const Share *args) {
  double number;
  Share x = args[1], y = args[2];
  if (args[0].by != FREE)
    return other;
  if (x.by == y.by && x.slope == y.slope)
    return x;
  for (uint32_t j = 1; j < 3; j++)
    if (args[3 - j].by == SCALED &&
        known_number(&loop->steps.at[s->args[j]], &number) && number == 0)
      return args[3 - j];
  return other;
}

static Share share_of_op(const Loop *loop, const Step *s, const Share *args) {
  bool is_free = true;
  for (uint32_t j = 0; j < s->arg_count; j++) {
    is_free &= args[j].by == FREE;
    if (args[j].by == OTHER)
      return other;
  }
  if (is_free)
    return free_share;
  if (s->kind == STEP_CONVERT)
    return dtype_is_float(s->dtype) ? args[0] : other;
  if (s->kind == STEP_SELECT || (s->kind == STEP_OP && s->op == PRIM_SELECT))
    return choice_of(loop, s, args);
  if (s->kind != STEP_OP)
    return other;
  switch ((int)s->op) {
  case PRIM_ADD:
    return sum_of(args[0], args[1]);
  case PRIM_SUB:
    return sum_of(args[0], negative(args[1]));
  case PRIM_NEG:
    return negative(args[0]);
  case PRIM_MUL:
    return product_of(loop, s, args[0], args[1]);
  case PRIM_DIV:
    return quotient_of(loop, s, args[0], args[1]);
  case PRIM_EXP:
    return args[0].by == SHIFTED ? (Share){SCALED, args[0].slope} : other;
  }
  return other;
}

static Share find_share(Portioner *p, uint32_t at_loop, uint32_t at) {
  const Loop *loop = p->k->loops.at[at_loop];
  const Step *s = &loop->steps.at[at];
  Share args[3] = {free_share, free_share, free_share};
  if (s->kind == STEP_LOCAL)
    return share_of_local(p, s);
  for (uint32_t j = 0; s->kind == STEP_READ && j < s->index_count; j++)
    if (share_of(p, at_loop, s->indices[j].step).by != FREE)
      return other;
  for (uint32_t j = 0; j < s->arg_count; j++)
    args[j] = share_of(p, at_loop, s->args[j]);
  return share_of_op(loop, s, args);
}

/* Recursion is as deep as a body, which the planner bounds. */
static Share share_of(Portioner *p, uint32_t at_loop, uint32_t at) {
  Share *share = &p->shares[at_loop - p->from][at];
  if (share->by == UNSEEN)
    *share = find_share(p, at_loop, at);
  return *share;
}

/* ---- which loops ---- */

/* The axis along which a loop goes with the values of those before it. */
static uint32_t common_axis(const Portioner *p, const Loop *loop) {
  uint32_t axis = NO_AXIS;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind != STEP_LOCAL || s->loop < p->from)
      continue;
    const Loop *x = p->k->loops.at[s->loop];
    const Result *r = &x->results.at[s->result];
    if (!loop_keeps(x, r, axis_of(p, s->loop)))
      continue;
    uint32_t v = loop_reading_axis(loop, s->address, x, r, axis_of(p, s->loop));
    if (v == NO_AXIS || (axis != NO_AXIS && axis != v))
      return NO_AXIS;
    axis = v;
  }
  return axis;
}

static bool fits_shape(const Loop *loop, uint32_t axis, bool product) {
  uint32_t inner = loop->axes - loop->outer;
  if (loop->limits && loop->limited != axis)
    return false;
  return product ? inner == 2 && loop->axes == loop->kept + 1 : inner == 1;
}

static bool is_carried_well(Portioner *p, uint32_t at, const Result *r) {
  Share share = share_of(p, at, r->step);
  bool single = r->dtype == DT_F32 || r->dtype == DT_F64;
  if (r->reduce == PRIM_SUM)
    return single && (share.by == FREE || share.by == SCALED);
  return single && (r->reduce == PRIM_MAX || r->reduce == PRIM_MIN) &&
         share.by == FREE;
}

static bool take_loop(Portioner *p, uint32_t at, uint32_t axis) {
  const Loop *loop = p->k->loops.at[at];
  if (axis == NO_AXIS || !fits_shape(loop, axis, loop_is_product(loop)))
    return false;
  p->axis[at - p->from] = axis;
  p->shares[at - p->from] = NEW_ARRAY(p->arena, Share, loop->steps.len);
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if (r->out || (!loop_keeps(loop, r, axis) &&
                   (!r->local || !is_carried_well(p, at, r))))
      return false;
  }
  return true;
}

/* The last loop that reads, along the axis, what one of from .. to - 1 left. */
static uint32_t last_reader(const Portioner *p) {
  uint32_t last = p->from;
  for (uint32_t j = p->from; j < p->k->loops.len; j++)
    for (uint32_t i = 0; i < p->k->loops.at[j]->steps.len; i++) {
      const Step *s = &p->k->loops.at[j]->steps.at[i];
      if (s->kind != STEP_LOCAL || s->loop < p->from || s->loop >= p->to)
        continue;
      const Loop *x = p->k->loops.at[s->loop];
      if (loop_keeps(x, &x->results.at[s->result], axis_of(p, s->loop)))
        last = j;
    }
  return last;
}

static bool find_loops(Portioner *p) {
  p->to = p->from + 1;
  if (!take_loop(p, p->from, p->k->loops.at[p->from]->kept - 1))
    return false;
  while (p->to <= last_reader(p)) {
    if (!take_loop(p, p->to, common_axis(p, p->k->loops.at[p->to])))
      return false;
    p->to++;
  }
  return p->to > p->from + 1;
}

/* The factor shrinks what is there, and does not let it grow. */
static bool shrinks(const Portioner *p) {
  if (!p->has)
    return true;
  bool most = p->k->loops.at[p->of]->results.at[p->result].reduce == PRIM_MAX;
  for (uint32_t j = p->from; j < p->to; j++)
    for (uint32_t i = 0; i < p->k->loops.at[j]->steps.len; i++) {
      Share s = p->shares[j - p->from][i];
      if (s.by == SCALED && (most ? s.slope >= 0 : s.slope <= 0))
        return false;
    }
  return true;
}

static bool find(Portioner *p, const Kernel *k) {
  uint32_t from = 0;
  *p = (Portioner){.k = k, .arena = k->arena};
  while (from < k->loops.len && !(loop_is_product(k->loops.at[from]) &&
                                  k->loops.at[from]->kept > k->outer))
    from++;
  p->from = from;
  if (from == k->loops.len)
    return false;
  p->axis = NEW_ARRAY(k->arena, uint32_t, k->loops.len);
  p->shares = NEW_ARRAY(k->arena, Share *, k->loops.len);
  return find_loops(p) && shrinks(p);
}

bool kernel_has_portions(const Kernel *k, int64_t *length) {
  Portioner p;
  if (!find(&p, k))
    return false;
  const Loop *loop = k->loops.at[p.from];
  if (length)
    *length = loop->extents[loop->kept - 1];
  return true;
}

bool kernel_portion(Kernel *k) {
  Portioner p;
  if (k->portion_to)
    return true;
  if (!find(&p, k))
    return false;
  k->portion_from = p.from;
  k->portion_to = p.to;
  for (uint32_t j = p.from; j < p.to; j++) {
    Loop *loop = k->loops.at[j];
    loop->limited = axis_of(&p, j);
    loop->portioned = true;
    for (uint32_t i = 0; i < loop->results.len; i++) {
      Result *r = &loop->results.at[i];
      Share share = share_of(&p, j, r->step);
      if (loop_keeps(loop, r, loop->limited))
        continue;
      r->carried = true;
      r->scaled = share.by == SCALED;
      r->slope = share.slope;
      r->scale_loop = p.of;
      r->scale_result = p.result;
    }
  }
  return true;
}
