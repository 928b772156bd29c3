/* Sums of exponents relative to a number of the row, where the largest exponent
 * of the row is there, too: a part of the row can be summed relative to its own
 * largest one, and scaled afterwards (arXiv:1805.02867). */
#include "backend/cuda/near.h"

/* Two loops, a before b, whose steps are compared; 1 + the step of a that has
 * the value of one of b, and of one of a. */
typedef struct Pair {
  const Kernel *k;
  const Loop *a, *b;
  uint32_t *same_b, *same_a;
} Pair;

/* Is it a value, the same whatever quotients its loop has? */
static bool is_plain(const Step *s) {
  switch (s->kind) {
  case STEP_INDEX:
    return cuda_is_affine(s->index);
  case STEP_READ:
    return cuda_is_affine(s->address) && !s->index_count;
  case STEP_LOCAL:
    return cuda_is_affine(s->address);
  case STEP_CONST:
  case STEP_OP:
  case STEP_SELECT:
  case STEP_CONVERT:
    return true;
  case STEP_RANDOM:
  case STEP_PAIR:
    break;
  }
  return false;
}

static bool same_value(Pair *p, uint32_t at, bool of_b, uint32_t bt);

static bool same_step(Pair *p, uint32_t at, bool of_b, uint32_t bt) {
  const Step *x = &p->a->steps.at[at];
  const Step *y = &(of_b ? p->b : p->a)->steps.at[bt];
  if (of_b && y->kind == STEP_LOCAL && p->k->loops.at[y->loop] == p->a) {
    const Result *r = &p->a->results.at[y->result];
    return r->reduce == PRIM_NONE && quasi_equal(y->address, r->local) &&
           same_value(p, at, false, r->step);
  }
  if (!step_does_same(x, y) || !is_plain(x) ||
      (x->kind == STEP_LOCAL && !quasi_equal(x->address, y->address)))
    return false;
  for (uint32_t j = 0; j < x->arg_count; j++)
    if (!same_value(p, x->args[j], of_b, y->args[j]))
      return false;
  return true;
}

/* Has step `at` of a the value of this one, of b or of a?  b may read what a
 * left.  One that has not is the end of all questions. */
static bool same_value(Pair *p, uint32_t at, bool of_b, uint32_t bt) {
  uint32_t *known = of_b ? &p->same_b[bt] : &p->same_a[bt];
  if (*known == at + 1 || (!of_b && at == bt))
    return true;
  if (!same_step(p, at, of_b, bt))
    return false;
  *known = at + 1;
  return true;
}

static bool is_f32(const Step *s, PrimId op) {
  return s->kind == STEP_OP && s->op == op && s->dtype == DT_F32;
}

static bool is_wanted(const Result *r) {
  return r->out || r->local;
}

bool cuda_near(const Kernel *k, uint32_t at, CudaNear *to) {
  const Loop *loop = k->loops.at[at];
  uint32_t count = 0, sum = 0;
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (is_wanted(&loop->results.at[j])) {
      sum = j;
      count++;
    }
  const Result *r = &loop->results.at[sum];
  if (count != 1 || r->reduce != PRIM_SUM)
    return false;
  const Step *exp = &loop->steps.at[r->step];
  const Step *less =
      is_f32(exp, PRIM_EXP) ? &loop->steps.at[exp->args[0]] : exp;
  if (less == exp || !is_f32(less, PRIM_SUB))
    return false;
  *to = (CudaNear){
      .is = true, .sum = sum, .x = less->args[0], .v = less->args[1]};
  uint64_t points = ((uint64_t)1 << k->outer) - 1;
  return !(loop_depends(k->arena, loop)[to->v] & ~points);
}

bool cuda_is_largest(const Kernel *k, uint32_t at, const CudaNear *near,
                     uint32_t other, uint32_t result) {
  const Loop *x = k->loops.at[other], *loop = k->loops.at[at];
  const Result *r = &x->results.at[result];
  Pair p = {.k = k,
            .a = x,
            .b = loop,
            .same_b = NEW_ARRAY(k->arena, uint32_t, loop->steps.len),
            .same_a = NEW_ARRAY(k->arena, uint32_t, x->steps.len)};
  return r->reduce == PRIM_MAX && r->dtype == DT_F32 && is_wanted(r) &&
         same_value(&p, r->step, true, near->x);
}

Loop *cuda_near_terms(const Kernel *k, uint32_t at, const CudaNear *near) {
  const Loop *from = k->loops.at[at];
  Loop *loop = loop_like(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->steps.len);
  Step largest = {.kind = STEP_LOCAL,
                  .dtype = DT_F32,
                  .low = INT64_MIN,
                  .high = INT64_MAX,
                  .loop = near->loop,
                  .result = near->result,
                  .address = quasi_new(k->arena, 0)};
  VEC_PUSH(k->arena, loop->steps, largest);
  place[near->v] = loop->steps.len;
  for (uint32_t j = 0; j < from->results.len; j++) {
    Result r = from->results.at[j];
    r.step = j == near->sum
                 ? loop_take_step(k->arena, from, loop, place, r.step)
                 : 0;
    VEC_PUSH(k->arena, loop->results, r);
  }
  return loop;
}

const char *cuda_near_largest(Emitter *e, uint32_t most) {
  return emit_format(e, "(acc%u - acc%u == 0 ? acc%u : 0)", most, most, most);
}
