/* Matmuls with row reductions.  Each tile stores partial results; a second
 * pass combines them and runs the remaining loops.  The matmul result is never
 * written to memory.
 *
 * A sum of exponentials relative to the row maximum is first relative to the
 * maximum of its part (online softmax, arXiv:1805.02867). */
#include "backend/cuda/gemm_row_reduction.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

/* ---- operations of loops over the same axes ---- */

static bool is_used(const LoopOutput *r) {
  return r->global_index || r->local_index;
}

static bool is_row_scalar(const LoopOutput *r) {
  return is_used(r) && r->reduce != PRIM_NONE;
}

static bool is_row_map(const LoopOutput *r) {
  return is_used(r) && r->reduce == PRIM_NONE;
}

/* True if a local load reads an element of the result or its elementwise
 * epilogue; otherwise it reads a value of the row. */
static bool reads_element(const GemmRowReduction *t, const Kernel *k,
                          const KernelOp *s) {
  return s->source_loop < t->second_pass_loop ||
         (s->source_loop < t->first_reduction &&
          is_row_map(
              &k->loops.at[s->source_loop]->outputs.at[s->source_output]));
}

static bool reads_kind(const GemmRowReduction *t, const Kernel *k,
                       const LoopNest *loop, bool elements) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL &&
        reads_element(t, k, &loop->ops.at[j]) == elements)
      return true;
  return false;
}

/* True if an operation depends on a value of the row.  Operands precede their
 * users. */
static bool depends_on_row_scalar(const GemmRowReduction *t, const Kernel *k,
                                  const LoopNest *loop, uint32_t at) {
  bool *needs = NEW_ARRAY(k->arena, bool, loop->ops.len);
  for (uint32_t i = 0; i <= at; i++) {
    const KernelOp *s = &loop->ops.at[i];
    needs[i] = s->kind == KOP_LOAD_LOCAL && !reads_element(t, k, s);
    for (uint32_t j = 0; j < s->arg_count; j++)
      needs[i] |= needs[s->args[j]];
  }
  return needs[at];
}

/* ---- matching ---- */

static bool has_output_axes_of(const LoopNest *loop, const LoopNest *product) {
  return loop->axis_count == product->spatial_axes &&
         memcmp(loop->extents, product->extents,
                loop->axis_count * sizeof *loop->extents) == 0;
}

/* True if the loop reduces all inner axes of the matmul.  elements: the loop
 * may also have elementwise results. */
static bool reduces_rows(const Kernel *k, const LoopNest *loop, bool elements) {
  if (loop->spatial_axes != k->parallel_axes ||
      !has_output_axes_of(loop, k->loops.at[0]))
    return false;
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if ((is_row_map(r) && !elements) ||
        (is_row_scalar(r) && r->global_index &&
         affine_has_floor_divs(r->global_index)))
      return false;
  }
  return true;
}

static bool has_row_map(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (is_row_map(&loop->outputs.at[j]))
      return true;
  return false;
}

/* Finds an earlier reduction that is the maximum of this loop's x. */
static bool find_row_max(GemmRowReduction *t, const Kernel *k, uint32_t at,
                         ExpSumPattern *pattern) {
  for (uint32_t j = t->first_reduction; j < t->gemm_kernel->loops.len; j++) {
    uint32_t other = t->loop_index[j];
    for (uint32_t i = 0;
         !t->exp_sum[j].matched && i < k->loops.at[other]->outputs.len; i++)
      if (exp_sum_is_row_max(k, at, pattern, other, i)) {
        pattern->max_loop = j;
        pattern->max_output = i;
        return true;
      }
  }
  return false;
}

static bool find_exp_sum(GemmRowReduction *t, const Kernel *k, uint32_t at,
                         ExpSumPattern *pattern) {
  return match_exp_sum(k, at, pattern) &&
         !depends_on_row_scalar(t, k, k->loops.at[at], pattern->x) &&
         find_row_max(t, k, at, pattern);
}

/* ---- matmul pass ---- */

static uint32_t add_local_load(const Kernel *k, LoopNest *loop, Dtype t,
                               uint32_t of, uint32_t result) {
  KernelOp local = {.kind = KOP_LOAD_LOCAL,
                    .dtype = t,
                    .low = INT64_MIN,
                    .high = INT64_MAX,
                    .source_loop = of,
                    .source_output = result,
                    .address = affine_new(k->arena, 0)};
  VEC_PUSH(k->arena, loop->ops, local);
  return loop->ops.len;
}

/* A loop with the elementwise results of `from`. */
static LoopNest *map_loop(const Kernel *k, const LoopNest *from) {
  LoopNest *loop = loop_clone_empty(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->ops.len);
  loop->spatial_axes = loop->axis_count;
  for (uint32_t j = 0; j < from->outputs.len; j++) {
    LoopOutput r = from->outputs.at[j];
    if (is_row_map(&r)) {
      r.value_op = loop_clone_op(k->arena, from, loop, place, r.value_op);
      r.local_index = r.local_index ? r.local_index : affine_new(k->arena, 0);
    } else {
      r = (LoopOutput){.dtype = r.dtype};
    }
    VEC_PUSH(k->arena, loop->outputs, r);
  }
  return loop;
}

/* An elementwise loop that computes the terms of a reduction.  Elementwise
 * results of the same loop come from the loop before. */
static LoopNest *terms_loop(const GemmRowReduction *t, const Kernel *k,
                            uint32_t at, const ExpSumPattern *pattern) {
  const LoopNest *from = k->loops.at[at];
  LoopNest *loop = loop_clone_empty(k->arena, from);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->ops.len);
  loop->spatial_axes = loop->axis_count;
  if (pattern->matched)
    place[pattern->shift] =
        add_local_load(k, loop, DT_F32, pattern->max_loop, pattern->max_output);
  for (uint32_t j = 0; at < t->first_reduction && j < from->outputs.len; j++) {
    const LoopOutput *r = &t->gemm_kernel->loops.at[at]->outputs.at[j];
    const KernelOp *s = &from->ops.at[from->outputs.at[j].value_op];
    if (!is_row_map(r))
      continue;
    uint32_t *to = &place[from->outputs.at[j].value_op];
    *to = add_local_load(k, loop, s->dtype, at, j);
    loop->ops.at[*to - 1].address = affine_copy(k->arena, r->local_index);
  }
  for (uint32_t j = 0; j < from->outputs.len; j++) {
    LoopOutput r = from->outputs.at[j];
    if (is_row_scalar(&r)) {
      r.value_op = loop_clone_op(k->arena, from, loop, place, r.value_op);
      r.local_index = affine_new(k->arena, 0);
      r.global_index = NULL;
    } else {
      r = (LoopOutput){.dtype = r.dtype};
    }
    VEC_PUSH(k->arena, loop->outputs, r);
  }
  return loop;
}

static bool add_reduction(GemmRowReduction *t, const Kernel *k, uint32_t at) {
  const LoopNest *loop = k->loops.at[at];
  ExpSumPattern pattern = {.matched = false};
  uint32_t to = t->gemm_kernel->loops.len;
  if (!reduces_rows(k, loop, at < t->first_reduction) ||
      t->partial_count + loop->outputs.len > MAX_KERNEL_LOOPS ||
      (reads_kind(t, k, loop, false) && !find_exp_sum(t, k, at, &pattern)))
    return false;
  t->loop_index[to] = at;
  t->exp_sum[to] = pattern;
  for (uint32_t i = 0; i < loop->outputs.len; i++)
    if (is_row_scalar(&loop->outputs.at[i]))
      t->partial_index[to][i] = t->partial_count++;
  VEC_PUSH(k->arena, t->gemm_kernel->loops, terms_loop(t, k, at, &pattern));
  return true;
}

static bool match_loops(GemmRowReduction *t, const Kernel *k) {
  const LoopNest *product = k->loops.at[0];
  uint32_t j = 0;
  while (j < k->loops.len &&
         k->loops.at[j]->spatial_axes == product->spatial_axes &&
         (j == 0 || has_output_axes_of(k->loops.at[j], product))) {
    t->loop_index[j] = j;
    VEC_PUSH(k->arena, t->gemm_kernel->loops,
             loop_clone(k->arena, k->loops.at[j++]));
  }
  t->first_reduction = t->second_pass_loop = j;
  if (j < k->loops.len && has_row_map(k->loops.at[j]) &&
      reduces_rows(k, k->loops.at[j], true)) {
    t->loop_index[t->first_reduction++] = j;
    VEC_PUSH(k->arena, t->gemm_kernel->loops, map_loop(k, k->loops.at[j]));
  }
  for (; j < k->loops.len; j++)
    if (reads_kind(t, k, k->loops.at[j], true) && !add_reduction(t, k, j))
      return false;
  return t->gemm_kernel->loops.len > t->first_reduction;
}

GemmRowReduction *gemm_row_reduction_match(const Kernel *k,
                                           const CudaTarget *target,
                                           const char *fields) {
  const LoopNest *product = k->loops.at[0];
  if (k->loops.len < 2 || k->loops.len >= MAX_KERNEL_LOOPS ||
      k->parallel_axes == 0 || product->spatial_axes == k->parallel_axes ||
      product->spatial_axes == product->axis_count || k->trim_check)
    return NULL;
  GemmRowReduction *t = NEW(k->arena, GemmRowReduction);
  *t = (GemmRowReduction){.gemm_kernel = NEW(k->arena, Kernel)};
  *t->gemm_kernel = *k;
  t->gemm_kernel->loops = (typeof(t->gemm_kernel->loops)){0};
  if (!match_loops(t, k))
    return NULL;
  t->gemm = gemm_pass_match(t->gemm_kernel, target, fields);
  return t->gemm && gemm_can_reduce_rows(&t->gemm->s) ? t : NULL;
}

/* ---- epilogue ---- */

typedef void PutReduction(CudaWriter *w, Buffer *out, uint32_t loop,
                          uint32_t result);

/* Level 0: reductions of elements.  Level 1: sums of exponentials relative to
 * a maximum of level 0. */
static void for_each(CudaWriter *w, Buffer *out, uint32_t level,
                     PutReduction *each) {
  const GemmRowReduction *t = w->row_reduction;
  for (uint32_t j = t->first_reduction; j < t->gemm_kernel->loops.len; j++)
    for (uint32_t i = 0; i < t->gemm_kernel->loops.at[j]->outputs.len; i++)
      if (t->exp_sum[j].matched == (level == 1) &&
          t->gemm_kernel->loops.at[j]->outputs.at[i].reduce != PRIM_NONE)
        each(w, out, j, i);
}

static void put_init_one(CudaWriter *w, Buffer *out, uint32_t j, uint32_t i) {
  const LoopNest *loop = w->row_reduction->gemm_kernel->loops.at[j];
  CudaAccumulator *sum = &w->row_reduction->accumulators[j][i];
  *sum = cuda_accumulator_new(w, loop, &loop->outputs.at[i]);
  cuda_accumulator_declare(sum, out);
}

static void put_init(void *owner, Buffer *out, uint32_t level) {
  for_each(owner, out, level, put_init_one);
}

/* The maximum of the part, or 0 if it is not finite. */
static const char *bind_block_max(CudaWriter *w, const KernelOp *s) {
  if (s->source_loop < w->row_reduction->first_reduction)
    return NULL;
  return exp_sum_finite_max(
      &w->e,
      w->row_reduction->accumulators[s->source_loop][s->source_output].name);
}

static void put_update(void *owner, Buffer *out, uint32_t level,
                       const char *x) {
  CudaWriter *w = owner;
  const GemmRowReduction *t = w->row_reduction;
  for (uint32_t j = 0; j < t->gemm_kernel->loops.len; j++)
    if (j < t->first_reduction || t->exp_sum[j].matched == (level == 1))
      cuda_put_epilogue_loop(w, out, j, j ? NULL : x, NULL, bind_block_max);
}

static void put_combine_one(CudaWriter *w, Buffer *out, uint32_t j,
                            uint32_t i) {
  cuda_accumulator_combine(w, &w->row_reduction->accumulators[j][i], out,
                           w->row_reduction->combine, "(unsigned char *)0");
}

static void put_combine(void *owner, Buffer *out, uint32_t level,
                        uint32_t lanes) {
  CudaWriter *w = owner;
  w->row_reduction->combine = format(&w->e, "ax_fold<%u>", lanes);
  for_each(w, out, level, put_combine_one);
}

static void put_store_partial_one(CudaWriter *w, Buffer *out, uint32_t j,
                                  uint32_t i) {
  const GemmRowReduction *t = w->row_reduction;
  const char *at =
      format(&w->e, "part * %s + point", emit_int(&w->e, w->point_count));
  cuda_accumulator_store_partial(w, &t->accumulators[j][i],
                                 &t->partials[t->partial_index[j][i]], at, out);
}

static void put_store_partial(void *owner, Buffer *out, uint32_t level) {
  for_each(owner, out, level, put_store_partial_one);
}

/* True if the epilogue neither loads nor faults, for any operands. */
static bool is_bounds_safe(const Kernel *front) {
  for (uint32_t j = 1; j < front->loops.len; j++)
    for (uint32_t i = 0; i < front->loops.at[j]->ops.len; i++)
      if (!cuda_is_speculatable(&front->loops.at[j]->ops.at[i]))
        return false;
  return true;
}

void gemm_row_reduction_callbacks(CudaWriter *w, RowReductionCallbacks *to) {
  const GemmRowReduction *t = w->row_reduction;
  if (!t)
    return;
  *to = (RowReductionCallbacks){.level_count = 1,
                                .out_of_bounds_safe =
                                    is_bounds_safe(t->gemm_kernel),
                                .put_init = put_init,
                                .put_update = put_update,
                                .put_combine = put_combine,
                                .put_store_partial = put_store_partial};
  for (uint32_t j = t->first_reduction; j < t->gemm_kernel->loops.len; j++)
    to->level_count = t->exp_sum[j].matched ? 2 : to->level_count;
}

/* ---- partial results ---- */

void gemm_row_reduction_begin(CudaWriter *w) {
  GemmRowReduction *t = w->row_reduction;
  Emitter *e = &w->e;
  const LoopNest *product = t->gemm_kernel->loops.at[0];
  const GemmSchedule *s = &t->gemm->s;
  int64_t columns = 1, count;
  for (uint32_t j = 0; j < t->gemm->n_count; j++)
    columns = emit_extent_mul(e, columns, product->extents[t->gemm->n[j]]);
  t->partials_per_row = emit_extent_mul(
      e, emit_extent_ceil_div(e, columns, s->n), gemm_row_partials(s));
  count = emit_extent_mul(e, t->partials_per_row, w->point_count);
  for (uint32_t j = t->first_reduction; j < t->gemm_kernel->loops.len; j++) {
    const LoopNest *loop = t->gemm_kernel->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].reduce != PRIM_NONE)
        t->partials[t->partial_index[j][i]] =
            cuda_alloc_partials(w, loop, &loop->outputs.at[i], count);
  }
}

/* The address of a partial result by the axes of the second pass.  The row
 * order is that of the tiles. */
static AffineExpr *partial_address(CudaWriter *w, const GemmRowReduction *t,
                                   const LoopNest *combine) {
  Emitter *e = &w->e;
  const GemmPass *tile = t->gemm;
  AffineExpr *at = affine_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t j = tile->m_count; j-- > 0;) {
    at->coef[tile->m[j]] = stride;
    stride = emit_extent_mul(e, stride, combine->extents[tile->m[j]]);
  }
  for (uint32_t j = tile->batch_count; j-- > 0;) {
    at->coef[tile->batch[j]] = stride;
    stride = emit_extent_mul(e, stride, combine->extents[tile->batch[j]]);
  }
  at->coef[combine->spatial_axes] = stride;
  return at;
}

static uint32_t add_op(Arena *arena, LoopNest *loop, KernelOp s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(arena, loop->ops, s);
  return loop->ops.len - 1;
}

static uint32_t add_binary_op(Arena *arena, LoopNest *loop, PrimId op,
                              uint32_t x, uint32_t y) {
  return add_op(arena, loop,
                (KernelOp){.kind = KOP_MAP,
                           .dtype = DT_F32,
                           .op = op,
                           .arg_count = op == PRIM_EXP ? 1 : 2,
                           .args = {x, y}});
}

/* Rescales a partial sum from the part's maximum to v (match_exp_sum.h). */
static uint32_t add_rescale(CudaWriter *w, const GemmRowReduction *t,
                            const LoopNest *from, LoopNest *combine,
                            uint32_t part, const ExpSumPattern *pattern) {
  Arena *arena = w->e.arena;
  uint32_t *place = NEW_ARRAY(arena, uint32_t, from->ops.len);
  uint32_t number = t->partial_index[pattern->max_loop][pattern->max_output];
  uint32_t block_max =
      add_op(arena, combine,
             cuda_partial_load(w, &t->partials[number],
                               partial_address(w, t, combine)));
  uint32_t v = loop_clone_op(arena, from, combine, place, pattern->shift);
  uint32_t scale =
      add_binary_op(arena, combine, PRIM_EXP,
                    add_binary_op(arena, combine, PRIM_SUB, block_max, v), 0);
  return add_binary_op(arena, combine, PRIM_MUL, part, scale);
}

/* at: index in t->gemm_kernel. */
static LoopNest *combine_loop(CudaWriter *w, const GemmRowReduction *t,
                              const Kernel *k, uint32_t at) {
  const LoopNest *from = k->loops.at[t->loop_index[at]];
  LoopNest *combine = NEW(k->arena, LoopNest);
  *combine = (LoopNest){.graph = from->graph,
                        .parallel_axes = k->parallel_axes,
                        .spatial_axes = k->parallel_axes,
                        .axis_count = k->parallel_axes + 1};
  memcpy(combine->extents, from->extents,
         k->parallel_axes * sizeof *from->extents);
  combine->extents[k->parallel_axes] = t->partials_per_row;
  for (uint32_t i = 0; i < from->outputs.len; i++) {
    LoopOutput r = from->outputs.at[i];
    if (is_row_scalar(&r)) {
      KernelOp part =
          cuda_partial_load(w, &t->partials[t->partial_index[at][i]],
                            partial_address(w, t, combine));
      part.span = from->ops.at[r.value_op].span;
      r.value_op = add_op(k->arena, combine, part);
      if (t->exp_sum[at].matched)
        r.value_op =
            add_rescale(w, t, from, combine, r.value_op, &t->exp_sum[at]);
    } else {
      r = (LoopOutput){.dtype = r.dtype};
    }
    VEC_PUSH(k->arena, combine->outputs, r);
  }
  return combine;
}

Kernel *gemm_row_reduction_second_pass(CudaWriter *w, const GemmRowReduction *t,
                                       const Kernel *k) {
  Kernel *second_pass = NEW(k->arena, Kernel);
  uint32_t next = t->first_reduction;
  *second_pass = *k;
  second_pass->loops = (typeof(second_pass->loops)){0};
  for (uint32_t j = t->second_pass_loop; j < k->loops.len; j++) {
    bool parts = next < t->gemm_kernel->loops.len && t->loop_index[next] == j;
    VEC_PUSH(k->arena, second_pass->loops,
             parts ? combine_loop(w, t, k, next++)
                   : loop_clone(k->arena, k->loops.at[j]));
  }
  return second_pass;
}
