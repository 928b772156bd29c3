/* Which kernels are two products with weights between, and what each of their
 * parts is to attention.h. */
#include "backend/cuda/attend.h"

#include "backend/cuda/override.h"
#include "tensor/cost.h"
#include "tensor/limit.h"

#include <math.h>
#include <string.h>

enum { ROWS_LEAST = 64 /* of an axis that has tiles for itself */ };
static const double start_seconds = 3e-6; /* of a kernel after another one */

/* ---- axes and sides ---- */

static uint64_t depends_of(const Product *p, uint32_t which) {
  uint64_t set = 0;
  for (uint32_t j = 0; j < p->count; j++)
    if (which >> j & 1)
      set |= p->depends[p->factors[j]];
  return set;
}

/* Outer axes along which the right sides differ are the batch's; so are those
 * of rows but the longest, where that has rows enough: a tile has rows of one
 * point of them then, and what limits these is near to what limits it. */
static bool group_axes(CudaAttend *t, const Kernel *k) {
  const Between *b = &t->between;
  const Loop *first = k->loops.at[0], *second = k->loops.at[b->last];
  uint64_t shared =
      depends_of(&b->first, b->with_n) | depends_of(&b->second, b->with_e);
  uint32_t longest = NO_LANE;
  for (uint32_t v = 0; v < k->outer; v++)
    if (!(shared >> v & 1) &&
        (longest == NO_LANE ||
         loop_guess(first, v) >= loop_guess(first, longest)))
      longest = v;
  if (longest == NO_LANE)
    return false;
  bool alone = loop_guess(first, longest) >= ROWS_LEAST;
  for (uint32_t v = 0; v < k->outer; v++)
    if (shared >> v & 1 || (alone && v != longest))
      t->batch[t->batches++] = v;
    else
      t->m[t->ms++] = v;
  for (uint32_t v = first->kept; v < first->axes; v++)
    t->k[t->ks++] = v;
  for (uint32_t v = k->outer; v < second->kept; v++)
    t->e[t->es++] = v;
  return t->batches <= GEMM_AXES && t->ms <= GEMM_AXES && t->ks <= GEMM_AXES &&
         t->es <= GEMM_AXES;
}

static bool find_sides(CudaAttend *t, const Kernel *k) {
  const Between *b = &t->between;
  const Loop *first = k->loops.at[0], *second = k->loops.at[b->last];
  uint32_t all = (1u << b->first.count) - 1;
  Dtype dtype = DT_NONE;
  t->side[ATTEND_A] =
      product_side(k->arena, first, &b->first, all & ~b->with_n, DT_F32);
  t->side[ATTEND_B] =
      product_side(k->arena, first, &b->first, b->with_n, DT_F32);
  t->side[ATTEND_V] =
      product_side(k->arena, second, &b->second, b->with_e, DT_F32);
  for (uint32_t j = 0; j < ATTEND_SIDES; j++) {
    const Step *narrow = cuda_narrow_of(t->side[j]);
    if (!narrow || (j && narrow->dtype != dtype))
      return false;
    dtype = narrow->dtype;
    t->copy[j] = cuda_copied_read(t->side[j], dtype);
  }
  return b->weight == dtype &&
         first->steps.at[first->results.at[0].step].dtype == DT_F32 &&
         second->steps.at[second->results.at[0].step].dtype == DT_F32;
}

static GemmSide side_of(const CudaAttend *t, uint32_t which) {
  const Loop *loop = t->side[which];
  const Step *read = t->copy[which];
  GemmSide side = {.dtype = cuda_narrow_of(loop)->dtype};
  bool v = which == ATTEND_V;
  side.align = 2;
  side.computed =
      !read || !cuda_is_dense_group(loop, read->address, v ? t->es : t->ks,
                                    v ? t->e : t->k, &side.align, 2);
  return side;
}

static double points(const Loop *loop, uint32_t count, const uint32_t *axes) {
  double all = 1;
  for (uint32_t j = 0; j < count; j++)
    all *= (double)loop_guess(loop, axes[j]);
  return all;
}

static bool are_numbers(const Loop *loop, uint32_t count,
                        const uint32_t *axes) {
  bool are = true;
  for (uint32_t j = 0; j < count; j++)
    are &= size_is_number(loop->graph, loop->extents[axes[j]]);
  return are;
}

static double stored_bytes(const CudaAttend *t, const Kernel *k) {
  double bytes = 0;
  for (uint32_t j = t->between.last; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++)
      if (loop->results.at[i].out)
        bytes += dtype_info[loop->results.at[i].dtype].bytes;
    for (uint32_t i = 0; j > t->between.last && i < loop->steps.len; i++)
      if (loop->steps.at[i].kind == STEP_READ)
        bytes += dtype_info[loop->steps.at[i].dtype].bytes;
  }
  return bytes;
}

/* ---- what is between the products ---- */

/* Steps of the row, with all that they need, as results. */
static Loop *taken(const Kernel *k, const Loop *row, uint32_t count,
                   const uint32_t *steps) {
  Loop *to = loop_like(k->arena, row);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, row->steps.len);
  for (uint32_t j = 0; j < count; j++) {
    Result r = {.dtype = row->steps.at[steps[j]].dtype};
    r.step = loop_take_step(k->arena, row, to, place, steps[j]);
    r.local = quasi_new(k->arena, 0);
    VEC_PUSH(k->arena, to->results, r);
  }
  return to;
}

/* Is v - v zero everywhere?  Rows' axes are not among those of v. */
static Loop *finite_of(const CudaAttend *t, const Kernel *k) {
  Loop *loop = loop_copy(k->arena, t->side[ATTEND_V]);
  Result *r = &loop->results.at[0];
  uint64_t depends = depends_of(&t->between.second, t->between.with_e);
  Dtype type = loop->steps.at[r->step].dtype;
  Step difference = {.kind = STEP_OP,
                     .op = PRIM_SUB,
                     .dtype = type,
                     .arg_count = 2,
                     .args = {r->step, r->step},
                     .low = INT64_MIN,
                     .high = INT64_MAX};
  Step zero = {.kind = STEP_CONST, .dtype = type, .value.dtype = type};
  Step is = difference;
  VEC_PUSH(k->arena, loop->steps, difference);
  VEC_PUSH(k->arena, loop->steps, zero);
  is.op = PRIM_NE;
  is.dtype = DT_BOOL;
  is.args[0] = loop->steps.len - 2;
  is.args[1] = loop->steps.len - 1;
  VEC_PUSH(k->arena, loop->steps, is);
  loop->kept = loop->outer;
  for (uint32_t v = 0; v < loop->outer; v++)
    if (!(depends >> v & 1))
      loop->extents[v] = 1;
  *r = (Result){.reduce = PRIM_ANY, .dtype = DT_BOOL, .local_size = 1};
  r->step = loop->steps.len - 1;
  r->local = quasi_new(k->arena, 0);
  return loop;
}

/* ---- can limits be wrong? ---- */

/* What is known of a value where the row's largest score is finite, and its
 * total so, too, and positive.  (Where they are not, the row comes to numbers
 * that are none, with limits or without.) */
typedef enum Known { UNKNOWN, LEAST, ZERO, FINITE, POSITIVE, YES, NO } Known;

static Known known_const(const Step *s) {
  if (!dtype_is_float(s->dtype) || is_param(s->value))
    return UNKNOWN;
  return s->value.f == -INFINITY ? LEAST
         : s->value.f == 0       ? ZERO
         : !isfinite(s->value.f) ? UNKNOWN
         : s->value.f > 0        ? POSITIVE
                                 : FINITE;
}

static bool is_finite(Known x) {
  return x == ZERO || x == FINITE || x == POSITIVE;
}

static Known known_op(PrimId op, Known x, Known y) {
  switch ((int)op) {
  case PRIM_ADD:
  case PRIM_SUB:
    return x == LEAST && is_finite(y) ? LEAST : UNKNOWN;
  case PRIM_MUL:
    return x == LEAST && y == POSITIVE ? LEAST
           : x == ZERO && is_finite(y) ? ZERO
                                       : UNKNOWN;
  case PRIM_DIV:
    return y != POSITIVE ? UNKNOWN : x == LEAST || x == ZERO ? x : UNKNOWN;
  case PRIM_EXP:
    return x == LEAST ? ZERO : UNKNOWN;
  case PRIM_NE:
    return x == ZERO && y == ZERO ? NO : UNKNOWN;
  case PRIM_GE:
    return is_finite(x) && y == LEAST ? YES : UNKNOWN;
  case PRIM_NOT:
    return x == YES ? NO : x == NO ? YES : UNKNOWN;
  }
  return UNKNOWN;
}

static bool is_sure(const Kernel *k) {
  const Loop *guard = k->guard;
  Known *known = NEW_ARRAY(k->arena, Known, guard ? guard->steps.len : 0);
  for (uint32_t j = 0; guard && j < guard->steps.len; j++) {
    const Step *s = &guard->steps.at[j];
    Known x = s->arg_count ? known[s->args[0]] : UNKNOWN;
    Known y = s->arg_count > 1 ? known[s->args[1]] : UNKNOWN;
    if (s->kind == STEP_CONST)
      known[j] = known_const(s);
    else if (s->kind == STEP_LOCAL)
      known[j] = k->loops.at[s->loop]->results.at[s->result].reduce == PRIM_MAX
                     ? FINITE
                     : POSITIVE;
    else if (s->kind == STEP_CONVERT && dtype_is_float(s->dtype))
      known[j] = x == LEAST || x == ZERO ? x : UNKNOWN;
    else if (s->kind == STEP_OP)
      known[j] = known_op(s->op, x, y);
  }
  for (uint32_t j = 0; guard && j < guard->results.len; j++)
    if (known[guard->results.at[j].step] != NO)
      return false;
  return true;
}

/* ---- tiles that are whole ---- */

static uint32_t add_step(const Kernel *k, Loop *to, Step s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(k->arena, to->steps, s);
  return to->steps.len - 1;
}

static bool divides_by_number(const Loop *loop, const Step *s) {
  return s->kind == STEP_OP && s->op == PRIM_DIV && s->dtype == DT_F32 &&
         loop->steps.at[s->args[1]].kind == STEP_CONST;
}

static uint32_t add_number(const Kernel *k, Loop *to, double x) {
  return add_step(k, to,
                  (Step){.kind = STEP_CONST,
                         .dtype = DT_F32,
                         .value = {.dtype = DT_F32, .f = x}});
}

static uint32_t add_op(const Kernel *k, Loop *to, PrimId op, uint32_t x,
                       uint32_t y, uint32_t z) {
  bool test = op == PRIM_LT || op == PRIM_GT;
  return add_step(k, to,
                  (Step){.kind = STEP_OP,
                         .dtype = test ? DT_BOOL : DT_F32,
                         .op = op,
                         .arg_count = op == PRIM_ABS      ? 1
                                      : op == PRIM_SELECT ? 3
                                                          : 2,
                         .args = {x, y, z}});
}

/* The power of 2 that makes c a number whose reciprocal is as exact as any. */
static uint32_t add_power(const Kernel *k, Loop *to, uint32_t c) {
  uint32_t size = add_op(k, to, PRIM_ABS, c, 0, 0);
  uint32_t small = add_op(k, to, PRIM_LT, size, add_number(k, to, 1e-30), 0);
  uint32_t large = add_op(k, to, PRIM_GT, size, add_number(k, to, 1e30), 0);
  uint32_t less = add_op(k, to, PRIM_SELECT, large, add_number(k, to, 0x1p-90),
                         add_number(k, to, 1));
  return add_op(k, to, PRIM_SELECT, small, add_number(k, to, 0x1p90), less);
}

/* x / c as x * (1 / c): to divide takes longer than all else that is done with
 * a score.  What it is off by is less than what the sum is.  any: of any c, by
 * a product more; else c is looked at when the kernel begins (divisors). */
static Loop *by_reciprocals(CudaAttend *t, const Kernel *k, const Loop *from,
                            bool any) {
  Loop *to = loop_like(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->steps.len);
  uint32_t *divisors = NEW_ARRAY(k->arena, uint32_t, from->steps.len);
  uint32_t count = 0;
  for (uint32_t j = 0; j < from->steps.len; j++) {
    const Step *s = &from->steps.at[j];
    uint32_t at = loop_take_step(k->arena, from, to, place, j);
    if (!divides_by_number(from, s))
      continue;
    uint32_t x = to->steps.at[at].args[0], c = to->steps.at[at].args[1];
    if (any) {
      uint32_t power = add_power(k, to, c);
      x = add_op(k, to, PRIM_MUL, x, power, 0);
      c = add_op(k, to, PRIM_MUL, c, power, 0);
    }
    uint32_t over = add_op(k, to, PRIM_DIV, add_number(k, to, 1), c, 0);
    place[j] = add_op(k, to, PRIM_MUL, x, over, 0) + 1;
    divisors[count++] = s->args[1];
  }
  if (!count)
    return NULL;
  Result r = from->results.at[0];
  r.step = place[r.step] - 1;
  VEC_PUSH(k->arena, to->results, r);
  if (!any)
    t->divisors = taken(k, from, count, divisors);
  return taken(k, to, 1, &r.step);
}

/* Is it a number times the first product's value?  Then the weights' power
 * takes the number, and scores stay what they are. */
static void find_unit(CudaAttend *t, const Kernel *k) {
  const Loop *whole = t->whole;
  const Step *s = &whole->steps.at[whole->results.at[0].step];
  if (!t->between.relative)
    return;
  while (s->kind == STEP_CONVERT && s->dtype == DT_F32)
    s = &whole->steps.at[s->args[0]];
  if (s->kind != STEP_OP || s->op != PRIM_MUL || s->dtype != DT_F32)
    return;
  const Step *x = &whole->steps.at[s->args[0]];
  const Step *by = &whole->steps.at[s->args[1]];
  while (x->kind == STEP_CONVERT && x->dtype == DT_F32)
    x = &whole->steps.at[x->args[0]];
  bool number = by->kind == STEP_CONST ||
                (by->kind == STEP_OP && by->op == PRIM_DIV &&
                 whole->steps.at[by->args[0]].kind == STEP_CONST &&
                 whole->steps.at[by->args[1]].kind == STEP_CONST);
  if (number && x->kind == STEP_LOCAL && x->loop == 0 && x->dtype == DT_F32)
    t->unit = taken(k, whole, 1, &s->args[1]);
}

/* The score where no limit cuts. */
static void find_whole(CudaAttend *t, const Kernel *k) {
  Loop *whole = loop_copy(k->arena, t->score);
  if (t->limits) {
    whole->limited = k->outer;
    whole->limits = t->limits;
    loop_settle(t->limited, whole);
    whole = taken(k, whole, 1, &whole->results.at[0].step);
  }
  Loop *times = by_reciprocals(t, k, whole, false);
  t->whole = times ? times : whole;
  find_unit(t, k);
}

/* Limits that hold for all loops between. */
static void find_limits(CudaAttend *t, const Kernel *k) {
  Kernel *limited = NEW(k->arena, Kernel);
  *limited = *k;
  limited->loops = (typeof(limited->loops)){0};
  for (uint32_t j = 0; j < k->loops.len; j++)
    VEC_PUSH(k->arena, limited->loops, loop_copy(k->arena, k->loops.at[j]));
  kernel_limit(limited, true);
  t->limits = UINT32_MAX;
  for (uint32_t j = 1; j <= t->between.last; j++) {
    const Loop *loop = limited->loops.at[j];
    uint32_t along = j == t->between.last ? loop->kept : k->outer;
    t->limits &= loop->limits && loop->limited == along ? loop->limits : 0;
  }
  t->shape.part = 1;
  if (!t->limits)
    return;
  t->shape.part = limited->loops.at[t->between.last]->part;
  t->limited = limited;
  for (uint32_t j = 0; limited->guard && j < limited->guard->results.len; j++)
    limited->guard->results.at[j].local = quasi_new(k->arena, 0);
  t->sure = t->between.relative && is_sure(limited);
  t->finite = finite_of(t, k);
}

/* ---- tensors for TMA ---- */

/* Limits that may be wrong are for mma. */
static void find_maps(CudaAttend *t, const Kernel *k) {
  const uint32_t n = k->outer, last = k->loops.at[t->between.last]->kept;
  GemmSide *sides[] = {&t->shape.a, &t->shape.b, &t->shape.v};
  const CudaAxes batch = {t->batches, t->batch}, terms = {t->ks, t->k};
  const CudaAxes axes[ATTEND_SIDES][3] = {
      {terms, {t->ms, t->m}, batch},
      {terms, {1, &n}, batch},
      {{t->es, t->e}, {1, &last}, batch},
  };
  for (uint32_t j = 0; j < ATTEND_SIDES; j++)
    sides[j]->boxes = (!t->limited || t->sure) && !sides[j]->computed &&
                      cuda_map_of(t->side[j], t->copy[j], axes[j], &t->map[j]);
}

/* ---- the whole ---- */

/* Is it a float that is made through 64 bits (emit_convert)?  An index has 32,
 * in which it becomes one, unless that has 16 (rounds_twice). */
static bool is_made_wide(const Loop *loop, const Step *s) {
  if (s->kind != STEP_CONVERT || !dtype_is_float(s->dtype))
    return false;
  const Step *from = &loop->steps.at[s->args[0]];
  uint32_t bytes = dtype_info[s->dtype].bytes;
  if (bytes == 2 && (from->dtype == DT_I32 || from->dtype == DT_I64))
    return true;
  return bytes == 8 ||
         (dtype_info[from->dtype].bytes == 8 && from->kind != STEP_INDEX);
}

static bool describe(CudaAttend *t, const Kernel *k) {
  const Loop *first = k->loops.at[0], *second = k->loops.at[t->between.last];
  AttentionShape *s = &t->shape;
  double terms = points(first, t->ks, t->k);
  double columns = points(second, t->es, t->e);
  s->a = side_of(t, ATTEND_A);
  s->b = side_of(t, ATTEND_B);
  s->v = side_of(t, ATTEND_V);
  s->m = points(first, t->ms, t->m);
  s->n = (double)loop_guess(first, k->outer);
  s->batch = points(first, t->batches, t->batch);
  s->relative = t->between.relative;
  s->total = t->between.total;
  s->again = t->limited && t->limited->guard && !t->sure;
  s->stored = stored_bytes(t, k);
  for (uint32_t j = 0; j < t->score->steps.len; j++) {
    const Step *step = &t->score->steps.at[j];
    s->reads += step->kind == STEP_READ;
    s->wide |= is_made_wide(t->score, step);
    s->score += step->kind == STEP_OP ? prim_cost(step->op) : 1;
  }
  s->store_align = cuda_store_align(k, t->e[t->es - 1]);
  s->k = (uint32_t)(terms < UINT16_MAX ? terms : UINT16_MAX);
  s->e = (uint32_t)(columns < UINT16_MAX ? columns : UINT16_MAX);
  return are_numbers(first, t->ks, t->k) && are_numbers(second, t->es, t->e) &&
         s->m < INT32_MAX && s->n < INT32_MAX && s->batch < INT32_MAX;
}

/* Are two products and what is done with rows in memory slower? */
static bool is_better(const CudaAttend *t, const GemmGpu *gpu, double seconds) {
  const AttentionShape *s = &t->shape;
  GemmShape first = {.a = s->a,
                     .b = s->b,
                     .sum = DT_F32,
                     .m = s->m,
                     .n = s->n,
                     .k = s->k,
                     .batch = s->batch,
                     .stored = dtype_info[t->between.weight].bytes,
                     .store_align = 16};
  GemmShape second = first;
  GemmSchedule unused;
  double x, y, rows = s->m * s->n * s->batch;
  double scores = rows * s->score / (gpu->single * gpu->sms * gpu->clock);
  second.b = s->v;
  second.b.turned = true;
  second.n = s->e;
  second.k = s->n;
  bool over = s->relative || s->total;
  double moved =
      (over ? 3 : 0) * dtype_info[t->between.weight].bytes * rows / gpu->memory;
  if (!gemm_choose(&first, gpu, &unused, &x) ||
      !gemm_choose(&second, gpu, &unused, &y))
    return true;
  return seconds + (t->limited ? start_seconds : 0) <=
         x + y + scores + moved + (over ? 3 : 1) * start_seconds;
}

CudaAttend *cuda_attend_find(const Kernel *k, const CudaTarget *target) {
  CudaAttend *t = NEW(k->arena, CudaAttend);
  GemmGpu gpu;
  if (!target->arch || !gemm_gpu(target->arch, &gpu) ||
      k->loops.len >= KERNEL_LOOPS || !kernel_between(k, &t->between) ||
      !group_axes(t, k) || !find_sides(t, k))
    return NULL;
  gpu.sms = (uint32_t)target->processors;
  gpu.block = target->shared_most;
  t->arch = target->arch;
  t->score = taken(k, t->between.row, 1, &t->between.score);
  t->factors = taken(k, t->between.row, t->between.factors, t->between.factor);
  find_limits(t, k);
  find_whole(t, k);
  bool fits = describe(t, k);
  Loop *times = by_reciprocals(t, k, t->score, true);
  t->score = times ? times : t->score;
  if (target->maps)
    find_maps(t, k);
  if (!fits || !attention_choose(&t->shape, &gpu, &t->s, &t->seconds) ||
      !is_better(t, &gpu, t->seconds))
    return NULL;
  t->unused = override_rows(t->arch, &t->shape, &gpu, &t->s);
  return t;
}

void cuda_attend_print(Buffer *out, const CudaAttend *t) {
  buffer_printf(out, "rows between two products, a tile for %s: ", t->arch);
  gemm_print(out, &t->s);
  if (t->unused)
    buffer_printf(out, " (%s)", t->unused);
}
