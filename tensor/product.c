/* Which loops are sums of products of two sides, each of which lacks an axis
 * of the result that the other one has: matrix products, contractions of any
 * axes, convolutions. */
#include "tensor/kernel.h"

#include "tensor/scalar.h"

#include <string.h>

enum {
  LEAST_M = 4,
  LEAST_N = 8,
  LEAST_K = 8,
  LEAST_WORK = 1 << 14,
  FAR_M = 2,         /* or so few, where the other side lies along them and */
  FAR_SIDE = 1 << 16 /* has so many elements: it is better read but once */
};

static uint64_t quasi_axes(const Loop *loop, const Quasi *q) {
  uint64_t set = 0;
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    if (!q->times[v])
      continue;
    if (v < KERNEL_AXES)
      set |= (uint64_t)1 << v;
    else
      set |= quasi_axes(loop, &loop->quotients[v - KERNEL_AXES].of);
  }
  return set;
}

static uint64_t step_depends(const Loop *loop, const Step *s,
                             const uint64_t *depends) {
  uint64_t set = 0;
  if (s->kind == STEP_INDEX)
    set = quasi_axes(loop, s->index);
  if (s->kind == STEP_LOCAL) /* of this point of the outer axes */
    set = quasi_axes(loop, s->address) | (((uint64_t)1 << loop->outer) - 1);
  if (s->kind == STEP_READ) {
    set = quasi_axes(loop, s->address);
    for (uint32_t a = 0; a < s->index_count; a++)
      set |= depends[s->indices[a].step];
  }
  for (uint32_t a = 0; a < s->arg_count; a++)
    set |= depends[s->args[a]];
  return set;
}

uint64_t *loop_depends(Arena *arena, const Loop *loop) {
  uint64_t *depends = NEW_ARRAY(arena, uint64_t, loop->steps.len);
  for (uint32_t j = 0; j < loop->steps.len; j++)
    depends[j] = step_depends(loop, &loop->steps.at[j], depends);
  return depends;
}

bool loop_reads_line(const Loop *loop, const uint64_t *depends, const Step *s,
                     uint32_t v) {
  uint64_t others = 0;
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    if (s->address->times[KERNEL_AXES + j])
      others |= quasi_axes(loop, &loop->quotients[j].of);
  for (uint32_t j = 0; j < s->index_count; j++)
    others |= depends[s->indices[j].step];
  return s->address->times[v] == 1 && !(others >> v & 1);
}

/* ---- factors ---- */

static uint64_t reduced_axes(const Loop *loop) {
  uint64_t all = ((uint64_t)1 << loop->axes) - 1;
  return all & ~(((uint64_t)1 << loop->kept) - 1);
}

static bool add_outside(Product *p, uint32_t step, bool over) {
  if (p->outside_count == FACTORS_MOST)
    return false;
  p->over[p->outside_count] = over;
  p->outside[p->outside_count++] = step;
  return true;
}

/* Recursion is as deep as a body, which the planner bounds. */
static bool find_factors(const Loop *loop, Product *p, uint32_t at) {
  const Step *s = &loop->steps.at[at];
  uint64_t reduced = reduced_axes(loop);
  if (!(p->depends[at] & reduced))
    return add_outside(p, at, false);
  if (s->kind == STEP_OP && s->op == PRIM_MUL)
    return find_factors(loop, p, s->args[0]) &&
           find_factors(loop, p, s->args[1]);
  if (s->kind == STEP_OP && s->op == PRIM_DIV && dtype_is_float(s->dtype) &&
      !(p->depends[s->args[1]] & reduced))
    return find_factors(loop, p, s->args[0]) &&
           add_outside(p, s->args[1], true);
  if (p->count == FACTORS_MOST)
    return false;
  p->factors[p->count++] = at;
  return true;
}

bool product_sides(const Loop *loop, const Product *p, uint32_t n, uint32_t *m,
                   uint32_t *with_n) {
  uint64_t a = 0, b = 0;
  *with_n = 0;
  for (uint32_t j = 0; j < p->count; j++) {
    bool has = p->depends[p->factors[j]] >> n & 1;
    *with_n |= (uint32_t)has << j;
    *(has ? &b : &a) |= p->depends[p->factors[j]];
  }
  *m = UINT32_MAX;
  for (uint32_t v = 0; v < loop->kept; v++)
    if (v != n && (a >> v & 1) && !(b >> v & 1) &&
        (*m == UINT32_MAX || size_guess(loop->graph, loop->extents[v]) >
                                 size_guess(loop->graph, loop->extents[*m])))
      *m = v;
  return *m != UINT32_MAX;
}

/* Do the factors with the axis lie along it in memory? */
static bool lies_along(const Loop *loop, const Product *p, uint32_t v) {
  for (uint32_t j = 0; j < p->count; j++) {
    const Step *s = &loop->steps.at[p->factors[j]];
    if ((p->depends[p->factors[j]] >> v & 1) &&
        (s->kind != STEP_READ || !loop_reads_line(loop, p->depends, s, v)))
      return false;
  }
  return true;
}

static bool is_big_enough(const Loop *loop, const Product *p, uint32_t m,
                          uint32_t n) {
  double depth = loop_points(loop, loop->kept, loop->axes);
  double x = loop_points(loop, m, m + 1), y = loop_points(loop, n, n + 1);
  double least = x < y ? x : y, most = x < y ? y : x;
  bool far = most * depth >= FAR_SIDE && lies_along(loop, p, x < y ? n : m);
  return least >= (far ? FAR_M : LEAST_M) && most >= LEAST_N &&
         depth >= LEAST_K && x * y * depth >= LEAST_WORK;
}

static bool is_summed(Dtype t) {
  return t == DT_F32 || t == DT_F64;
}

/* any: also one too small to be worth copies of its factors */
static bool find(Arena *arena, const Loop *loop, Product *p, bool any) {
  memset(p, 0, sizeof *p);
  if (loop->results.len != 1 || loop->axes == loop->kept || loop->kept < 2)
    return false;
  const Result *r = &loop->results.at[0];
  Dtype t = loop->steps.at[r->step].dtype;
  if (r->reduce != PRIM_SUM || !is_summed(t))
    return false;
  p->depends = loop_depends(arena, loop);
  if (!find_factors(loop, p, r->step) || p->count < 2)
    return false;
  for (uint32_t n = 0; n < loop->kept; n++) {
    uint32_t m, with_n;
    if (product_sides(loop, p, n, &m, &with_n) && with_n &&
        (any || is_big_enough(loop, p, m, n)))
      return true;
  }
  return false;
}

bool product_find(Arena *arena, const Loop *loop, Product *p) {
  return find(arena, loop, p, false);
}

bool product_find_any(Arena *arena, const Loop *loop, Product *p) {
  return find(arena, loop, p, true);
}

bool loop_is_product(const Loop *loop) {
  if (loop->results.len != 1 || loop->results.at[0].reduce != PRIM_SUM)
    return false;
  Arena *arena = arena_new();
  Product p;
  bool is = product_find(arena, loop, &p);
  arena_free(arena);
  return is;
}

bool product_of_halves(const Loop *loop) {
  Arena *arena = arena_new();
  Product p;
  bool are = product_find(arena, loop, &p);
  for (uint32_t j = 0; are && j < p.count; j++) {
    const Step *s = &loop->steps.at[p.factors[j]];
    are =
        s->kind == STEP_CONVERT && loop->steps.at[s->args[0]].dtype == DT_BF16;
  }
  arena_free(arena);
  return are;
}

/* ---- factors outside of the sum ---- */

uint32_t loop_take_step(Arena *arena, const Loop *from, Loop *to,
                        uint32_t *place, uint32_t at) {
  if (place[at])
    return place[at] - 1;
  Step s = from->steps.at[at];
  for (uint32_t a = 0; a < s.arg_count; a++)
    s.args[a] = loop_take_step(arena, from, to, place, s.args[a]);
  if (s.kind == STEP_INDEX)
    s.index = quasi_copy(arena, s.index);
  if (s.kind == STEP_READ || s.kind == STEP_LOCAL)
    s.address = quasi_copy(arena, s.address);
  if (s.kind == STEP_READ && s.index_count) {
    ReadIndex *indices = NEW_ARRAY(arena, ReadIndex, s.index_count);
    for (uint32_t a = 0; a < s.index_count; a++) {
      indices[a] = s.indices[a];
      indices[a].step =
          loop_take_step(arena, from, to, place, s.indices[a].step);
    }
    s.indices = indices;
  }
  VEC_PUSH(arena, to->steps, s);
  place[at] = to->steps.len;
  return to->steps.len - 1;
}

static uint32_t op_step(Arena *arena, Loop *loop, PrimId op, Dtype t,
                        uint32_t x, uint32_t y) {
  Step s = {.kind = STEP_OP, .op = op, .dtype = t, .arg_count = 2};
  s.args[0] = x;
  s.args[1] = y;
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(arena, loop->steps, s);
  return loop->steps.len - 1;
}

Loop *product_side(Arena *arena, const Loop *loop, const Product *p,
                   uint32_t which, Dtype t) {
  Loop *to = loop_like(arena, loop);
  uint32_t *place = NEW_ARRAY(arena, uint32_t, loop->steps.len);
  uint32_t value = UINT32_MAX;
  for (uint32_t j = 0; j < p->count; j++) {
    if (!(which >> j & 1))
      continue;
    uint32_t factor = loop_take_step(arena, loop, to, place, p->factors[j]);
    value = value == UINT32_MAX
                ? factor
                : op_step(arena, to, PRIM_MUL, t, value, factor);
  }
  Result r = {.dtype = t, .step = value};
  VEC_PUSH(arena, to->results, r);
  return to;
}

/* The sum alone, as a loop of its own, whose values are local. */
static Loop *sum_alone(Arena *arena, const Loop *loop, const Product *p,
                       const Result *r) {
  Loop *to = loop_like(arena, loop);
  uint32_t *place = NEW_ARRAY(arena, uint32_t, loop->steps.len);
  Dtype t = loop->steps.at[r->step].dtype;
  uint32_t product = loop_take_step(arena, loop, to, place, p->factors[0]);
  for (uint32_t j = 1; j < p->count; j++)
    product = op_step(arena, to, PRIM_MUL, t, product,
                      loop_take_step(arena, loop, to, place, p->factors[j]));
  Result sum = *r;
  sum.step = product;
  sum.out = NULL;
  sum.dtype = t;
  sum.local_size = 1;
  sum.local = quasi_new(arena, 0);
  for (uint32_t v = loop->kept; v-- > loop->outer;) {
    sum.local->times[v] = sum.local_size;
    if (!size_mul(loop->graph, sum.local_size, loop->extents[v],
                  &sum.local_size))
      sum.local_size = INT64_MAX;
  }
  VEC_PUSH(arena, to->results, sum);
  return to;
}

/* A sum of quotients of products, too small for tiles or of one row: to divide
 * once is less work. */
static bool divides_terms(Arena *arena, const Loop *loop, Product *p) {
  memset(p, 0, sizeof *p);
  if (loop->results.len != 1 || loop->axes == loop->kept ||
      loop->results.at[0].reduce != PRIM_SUM ||
      !is_summed(loop->steps.at[loop->results.at[0].step].dtype))
    return false;
  p->depends = loop_depends(arena, loop);
  if (!find_factors(loop, p, loop->results.at[0].step) || p->count < 2)
    return false;
  for (uint32_t j = 0; j < p->outside_count; j++)
    if (p->over[j])
      return true;
  return false;
}

/* What is done to the sum, where it has terms; without, it stays 0, and is
 * neither divided by 0 nor multiplied by what is infinite. */
static uint32_t where_terms(Arena *arena, const Loop *loop, Loop *rest,
                            uint32_t value) {
  int64_t terms;
  if (!size_product(loop->graph, loop->axes - loop->kept,
                    loop->extents + loop->kept, &terms) ||
      size_holds(loop->graph, SIZE_LE, 1, terms))
    return value;
  Step count = {.kind = STEP_INDEX, .dtype = DT_I64};
  Step none = {.kind = STEP_CONST, .dtype = DT_I64};
  count.index = quasi_new(arena, terms);
  count.high = INT64_MAX;
  none.value.dtype = DT_I64;
  VEC_PUSH(arena, rest->steps, count);
  VEC_PUSH(arena, rest->steps, none);
  uint32_t last = rest->steps.len - 1;
  Step chosen = {.kind = STEP_SELECT, .arg_count = 3};
  chosen.args[0] = op_step(arena, rest, PRIM_LT, DT_BOOL, last, last - 1);
  chosen.args[1] = value;
  chosen.args[2] = 0; /* the sum */
  chosen.dtype = rest->steps.at[value].dtype;
  chosen.low = INT64_MIN;
  chosen.high = INT64_MAX;
  VEC_PUSH(arena, rest->steps, chosen);
  return rest->steps.len - 1;
}

Loop *product_hoist(Arena *arena, Loop *loop, bool alone) {
  Product p;
  if ((!product_find(arena, loop, &p) || !p.outside_count) &&
      (alone || !divides_terms(arena, loop, &p)))
    return NULL;
  Result r = loop->results.at[0];
  Dtype t = loop->steps.at[r.step].dtype;
  Loop *sum = sum_alone(arena, loop, &p, &r), *rest = loop_like(arena, loop);
  rest->axes = rest->kept;
  uint32_t *place = NEW_ARRAY(arena, uint32_t, loop->steps.len);
  Step read = {.kind = STEP_LOCAL, .dtype = t, .loop = LOOP_BEFORE};
  read.low = INT64_MIN;
  read.high = INT64_MAX;
  read.address = quasi_new(arena, 0);
  *read.address = *sum->results.at[0].local;
  VEC_PUSH(arena, rest->steps, read);
  uint32_t value = 0;
  for (uint32_t j = 0; j < p.outside_count; j++)
    value = op_step(arena, rest, p.over[j] ? PRIM_DIV : PRIM_MUL, t, value,
                    loop_take_step(arena, loop, rest, place, p.outside[j]));
  r.step = where_terms(arena, loop, rest, value);
  r.reduce = PRIM_NONE;
  VEC_PUSH(arena, rest->results, r);
  *loop = *sum;
  return rest;
}
