/* Matches sums of exponentials relative to a value of the row, if the row
 * maximum is computed, too.  A part of a row can then be summed relative to
 * its own maximum, and rescaled later (online softmax, arXiv:1805.02867). */
#include "backend/cuda/nest.h"
#include "support/arena.h"

/* Two loops, a before b.  same_b, same_a: for each operation of b and of a, 1
 * + the operation of a that is known to have the same value. */
typedef struct LoopComparison {
  const Kernel *k;
  const LoopNest *a, *b;
  uint32_t *same_b, *same_a;
} LoopComparison;

/* True if equal operations have equal values, independent of the loop's
 * quotients. */
static bool is_comparable(const KernelOp *s) {
  switch (s->kind) {
  case KOP_AFFINE:
    return !affine_has_floor_divs(s->affine);
  case KOP_LOAD:
    return !affine_has_floor_divs(s->address) && !s->checked_index_count;
  case KOP_LOAD_LOCAL:
    return !affine_has_floor_divs(s->address);
  case KOP_CONST:
  case KOP_MAP:
  case KOP_SELECT:
  case KOP_CONVERT:
    return true;
  case KOP_RANDOM:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    break;
  }
  return false;
}

static bool same_value(LoopComparison *p, uint32_t at, bool in_b,
                       uint32_t other_at);

static bool same_step(LoopComparison *p, uint32_t at, bool in_b,
                      uint32_t other_at) {
  const KernelOp *x = &p->a->ops.at[at];
  const KernelOp *y = &(in_b ? p->b : p->a)->ops.at[other_at];
  if (in_b && y->kind == KOP_LOAD_LOCAL &&
      p->k->loops.at[y->source_loop] == p->a) {
    const LoopOutput *r = &p->a->outputs.at[y->source_output];
    return r->reduce == PRIM_NONE && affine_equal(y->address, r->local_index) &&
           same_value(p, at, false, r->value_op);
  }
  if (!kernel_op_equivalent(x, y) || !is_comparable(x) ||
      (x->kind == KOP_LOAD_LOCAL && !affine_equal(x->address, y->address)))
    return false;
  for (uint32_t j = 0; j < x->arg_count; j++)
    if (!same_value(p, x->args[j], in_b, y->args[j]))
      return false;
  return true;
}

/* True if operation `at` of a has the same value as operation `other_at` of b,
 * or of a.  b may load outputs of a.  The first difference ends the
 * comparison. */
static bool same_value(LoopComparison *p, uint32_t at, bool in_b,
                       uint32_t other_at) {
  uint32_t *known = in_b ? &p->same_b[other_at] : &p->same_a[other_at];
  if (*known == at + 1 || (!in_b && at == other_at))
    return true;
  if (!same_step(p, at, in_b, other_at))
    return false;
  *known = at + 1;
  return true;
}

static bool is_f32(const KernelOp *s, PrimId op) {
  return s->kind == KOP_MAP && s->op == op && s->dtype == DT_F32;
}

static bool is_used(const LoopOutput *r) {
  return r->global_index || r->local_index;
}

bool match_exp_sum(const Kernel *k, uint32_t at, ExpSumPattern *to) {
  const LoopNest *loop = k->loops.at[at];
  uint32_t count = 0, sum = 0;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (is_used(&loop->outputs.at[j])) {
      sum = j;
      count++;
    }
  const LoopOutput *r = &loop->outputs.at[sum];
  if (count != 1 || r->reduce != PRIM_SUM)
    return false;
  const KernelOp *exp = &loop->ops.at[r->value_op];
  const KernelOp *difference =
      is_f32(exp, PRIM_EXP) ? &loop->ops.at[exp->args[0]] : exp;
  if (difference == exp || !is_f32(difference, PRIM_SUB))
    return false;
  *to = (ExpSumPattern){.matched = true,
                        .sum_output = sum,
                        .x = difference->args[0],
                        .shift = difference->args[1]};
  uint64_t points = ((uint64_t)1 << k->parallel_axes) - 1;
  return !(loop_op_vars(k->arena, loop)[to->shift] & ~points);
}

bool exp_sum_is_row_max(const Kernel *k, uint32_t at,
                        const ExpSumPattern *pattern, uint32_t other,
                        uint32_t result) {
  const LoopNest *x = k->loops.at[other], *loop = k->loops.at[at];
  const LoopOutput *r = &x->outputs.at[result];
  LoopComparison p = {.k = k,
                      .a = x,
                      .b = loop,
                      .same_b = NEW_ARRAY(k->arena, uint32_t, loop->ops.len),
                      .same_a = NEW_ARRAY(k->arena, uint32_t, x->ops.len)};
  return r->reduce == PRIM_MAX && r->dtype == DT_F32 && is_used(r) &&
         same_value(&p, r->value_op, true, pattern->x);
}

LoopNest *exp_sum_terms(const Kernel *k, uint32_t at,
                        const ExpSumPattern *pattern) {
  const LoopNest *from = k->loops.at[at];
  LoopNest *loop = loop_clone_empty(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->ops.len);
  KernelOp max_op = {.kind = KOP_LOAD_LOCAL,
                     .dtype = DT_F32,
                     .low = INT64_MIN,
                     .high = INT64_MAX,
                     .source_loop = pattern->max_loop,
                     .source_output = pattern->max_output,
                     .address = affine_new(k->arena, 0)};
  VEC_PUSH(k->arena, loop->ops, max_op);
  place[pattern->shift] = loop->ops.len;
  for (uint32_t j = 0; j < from->outputs.len; j++) {
    LoopOutput r = from->outputs.at[j];
    r.value_op = j == pattern->sum_output
                     ? loop_clone_op(k->arena, from, loop, place, r.value_op)
                     : 0;
    VEC_PUSH(k->arena, loop->outputs, r);
  }
  return loop;
}

const char *exp_sum_finite_max(Emitter *e, uint32_t max_name) {
  return emit_format(e, "(acc%u - acc%u == 0 ? acc%u : 0)", max_name, max_name,
                     max_name);
}

/* ---- online sums ---- */

static bool is_pure_reduction(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (is_output_used(&loop->outputs.at[j]) &&
        loop->outputs.at[j].reduce == PRIM_NONE)
      return false;
  return row_loop_kind(loop) == ROW_REDUCE;
}

static bool find_row_max(const Kernel *k, const RowNest *rows, uint32_t at,
                         ExpSumPattern *pattern) {
  for (uint32_t j = 0; j < at; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; is_pure_reduction(loop) && i < loop->outputs.len; i++)
      if (row_nests_match(&rows[j], &rows[at]) &&
          exp_sum_is_row_max(k, at, pattern, j, i)) {
        pattern->max_loop = j;
        pattern->max_output = i;
        return true;
      }
  }
  return false;
}

bool cuda_match_online(const Kernel *k, const RowNest *rows, uint32_t at,
                       ExpSumPattern *sum) {
  return is_pure_reduction(k->loops.at[at]) && match_exp_sum(k, at, sum) &&
         find_row_max(k, rows, at, sum);
}
