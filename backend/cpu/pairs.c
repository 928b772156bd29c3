/* Products of bf16 by dot products of pairs: the machine multiplies two terms
 * at a time and adds both products to a sum in f32.
 *
 * An operand's terms become pairs, numbers of 32 bits, so that copies and tiles
 * are those of numbers of 32 bits.  Where the number of terms is odd, or open,
 * the last one has a zero beside it.  Elements that are subnormal count as
 * zero, and so do sums that become so: the instruction knows none. */
#include "backend/cpu/emit.h"
#include "backend/cpu/tiling.h"

#include <string.h>

static bool machine_has_pairs(void) {
#if defined(__x86_64__) || defined(__i386__)
  return target_vector_bytes() == 64 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

/* The value of bf16 that an operand is; NULL: it is computed in f32. */
static const Step *widened(const Loop *loop) {
  const Step *s = &loop->steps.at[loop->results.at[0].step];
  if (s->kind != STEP_CONVERT || s->dtype != DT_F32)
    return NULL;
  const Step *of = &loop->steps.at[s->args[0]];
  return of->dtype == DT_BF16 ? of : NULL;
}

/* Of sizes that are open nobody knows. */
static bool is_even(const Loop *loop, int64_t terms) {
  return size_is_number(loop->graph, terms) && terms % 2 == 0;
}

/* Can the last axis be cut into twos? */
static bool operand_fits(const Loop *loop) {
  uint32_t k = loop->axes - 1;
  if (!widened(loop))
    return false;
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    if (loop->quotients[j].of.times[k])
      return false;
  return is_even(loop, loop->extents[k]) ||
         (loop->axes == loop->kept + 1 && loop->quotient_count < QUOTIENTS);
}

bool pairs_fit(const Schedule *s, const Tile *t) {
  const Loop *a = t->a.loop, *b = t->b.loop;
  bool single = a->axes == a->kept + 1 && b->axes == b->kept + 1;
  return machine_has_pairs() && s->width * 4 == target_vector_bytes() &&
         t->dtype == DT_F32 && operand_fits(a) && operand_fits(b) &&
         (single || is_even(a, t->depth));
}

/* ---- the first and the second of each pair ---- */

/* k becomes 2 * k + second; of an odd number of terms the second of the last
 * pair is read where the first is: the quotient is then 1.  What overflows is
 * emitted nowhere. */
static void shift_form(Graph *g, Quasi *q, uint32_t k, bool second,
                       uint32_t quotient) {
  int64_t times = q->times[k];
  if (!size_mul(g, times, 2, &q->times[k]))
    q->times[k] = INT64_MAX;
  if (!second)
    return;
  if (!size_add(g, q->constant, times, &q->constant) ||
      (quotient && !size_mul(g, times, -1, &q->times[quotient])))
    q->constant = INT64_MAX;
}

static uint32_t take_half(Arena *arena, const Loop *from, Loop *to, bool second,
                          uint32_t quotient) {
  uint32_t *place = NEW_ARRAY(arena, uint32_t, from->steps.len);
  uint32_t first = to->steps.len, k = from->axes - 1;
  uint32_t value =
      loop_take_step(arena, from, to, place, from->results.at[0].step);
  for (uint32_t j = first; j < to->steps.len; j++) {
    Step *s = &to->steps.at[j];
    if (s->kind == STEP_INDEX)
      shift_form(from->graph, s->index, k, second, quotient);
    else if (s->kind == STEP_READ || s->kind == STEP_LOCAL)
      shift_form(from->graph, s->address, k, second, quotient);
  }
  return value;
}

static uint32_t add_step(Arena *arena, Loop *to, Step s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(arena, to->steps, s);
  return to->steps.len - 1;
}

/* at, or 0 where there is no such term. */
static uint32_t within(Arena *arena, Loop *to, uint32_t k, int64_t terms,
                       uint32_t at) {
  Quasi *second = quasi_new(arena, 1);
  second->times[k] = 2;
  Step index = {.kind = STEP_INDEX, .dtype = DT_I64, .index = second};
  Step end = {.kind = STEP_INDEX, .dtype = DT_I64};
  end.index = quasi_new(arena, terms);
  Step zero = {.kind = STEP_CONST, .dtype = DT_F32};
  zero.value = (Scalar){.dtype = DT_F32};
  Step less = {
      .kind = STEP_OP, .op = PRIM_LT, .dtype = DT_BOOL, .arg_count = 2};
  less.args[0] = add_step(arena, to, index);
  less.args[1] = add_step(arena, to, end);
  Step chosen = {.kind = STEP_SELECT, .dtype = DT_F32, .arg_count = 3};
  chosen.args[0] = add_step(arena, to, less);
  chosen.args[1] = at;
  chosen.args[2] = add_step(arena, to, zero);
  return add_step(arena, to, chosen);
}

/* The variable that is 1 for the last pair, and 0 for all others. */
static uint32_t last_pair(Loop *to, uint32_t k, int64_t terms) {
  Quotient *q = &to->quotients[to->quotient_count];
  *q = (Quotient){.of = {.constant = 1}, .by = terms, .high = 1};
  q->of.times[k] = 2;
  return KERNEL_AXES + to->quotient_count++;
}

/* As they lie: two elements are one number. */
static uint32_t whole_pairs(Arena *arena, Loop *to, const Step *of, uint32_t k,
                            int64_t terms) {
  Step s = *of;
  s.dtype = DT_I32;
  s.pairs = true;
  s.terms = is_even(to, terms) ? 0 : terms;
  s.address = quasi_copy(arena, of->address);
  s.address->times[k] = 2;
  return add_step(arena, to, s);
}

static uint32_t made_pairs(Arena *arena, const Loop *loop, Loop *to, uint32_t k,
                           int64_t terms) {
  uint32_t q = is_even(to, terms) ? 0 : last_pair(to, k, terms);
  Step s = {.kind = STEP_PAIR, .dtype = DT_I32, .arg_count = 2};
  s.args[0] = take_half(arena, loop, to, false, q);
  s.args[1] = take_half(arena, loop, to, true, q);
  if (q)
    s.args[1] = within(arena, to, k, terms, s.args[1]);
  return add_step(arena, to, s);
}

Loop *pairs_of(Arena *arena, const Loop *loop, bool along) {
  uint32_t k = loop->axes - 1;
  int64_t terms = loop->extents[k];
  const Step *of = widened(loop);
  Loop *to = NEW(arena, Loop);
  *to = *loop;
  memset(&to->steps, 0, sizeof to->steps);
  memset(&to->results, 0, sizeof to->results);
  if (!size_div_up(to->graph, terms, 2, &to->extents[k]))
    to->extents[k] = INT64_MAX;
  bool lies =
      (of->kind == STEP_READ && !of->index_count) || of->kind == STEP_LOCAL;
  Result r = {.dtype = DT_I32};
  r.step = along && lies && of->address->times[k] == 1
               ? whole_pairs(arena, to, of, k, terms)
               : made_pairs(arena, loop, to, k, terms);
  VEC_PUSH(arena, to->results, r);
  return to;
}
