/* Emits fused attention passes. */
#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/attention_emit.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

/* Name of the variable of axis n, which has different numbers in different
 * loops. */
#define KV_INDEX "at_n"

/* ---- axes and operands ---- */

static const char *stride_of(CudaWriter *w, const KernelOp *read, uint32_t v) {
  int64_t times = read ? read->address->coef[v] : 0;
  return times == 1 ? "1"
         : times    ? format(&w->e, "(int64_t)%s", emit_int(&w->e, times))
                    : NULL;
}

/* The axes of a loop with the strides of two operands; either may be NULL. */
static GemmAxisGroup axis_group(CudaWriter *w, const LoopNest *loop,
                                AxisList axes, const KernelOp *a,
                                const KernelOp *b) {
  Emitter *e = &w->e;
  GemmAxisGroup g = {.count = axes.count};
  for (uint32_t j = 0; j < axes.count; j++) {
    uint32_t v = axes.axes[j];
    g.axes[j].name = format(e, "i%u", v);
    g.axes[j].extent = format(e, "%s", emit_int(e, loop->extents[v]));
    g.axes[j].stride_a = stride_of(w, a, v);
    g.axes[j].stride_b = stride_of(w, b, v);
  }
  return g;
}

/* Axis n of a key and the value.  Its number differs between their loops. */
static GemmAxisGroup kv_axis_group(CudaWriter *w, const AttentionPass *t,
                                   const LoopNest *loop, uint32_t key) {
  uint32_t n = w->k->parallel_axes,
           last = w->k->loops.at[t->pattern.pv_loop]->spatial_axes;
  GemmAxisGroup g = axis_group(w, loop, (AxisList){1, &n}, t->load[key], NULL);
  g.axes[0].name = KV_INDEX;
  g.axes[0].stride_b = stride_of(w, t->load[ATTENTION_V], last);
  return g;
}

static void put_kv_alias(CudaWriter *w, Buffer *out, uint32_t v) {
  buffer_printf(out, "const %s i%u = (%s)" KV_INDEX ";\n(void)i%u;\n",
                w->dialect.index_type, v, w->dialect.index_type, v);
}

static void put_value(CudaWriter *w, Buffer *out, const char *to,
                      uint32_t which) {
  const AttentionPass *t = w->s->attention;
  const LoopNest *side = t->side[which];
  buffer_puts(out, "{\n");
  if (which == ATTENTION_K || which == ATTENTION_K2)
    put_kv_alias(w, out, w->k->parallel_axes);
  if (which == ATTENTION_V)
    put_kv_alias(w, out, side->spatial_axes);
  cuda_put_ops(w, out, side, NULL);
  buffer_printf(out, "%s = %s;\n}\n", to,
                emit_scalar(&w->e, side->outputs.at[0].value_op));
}

static void put_value_a(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTENTION_Q);
}
static void put_value_b(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTENTION_K);
}
static void put_value_v(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTENTION_V);
}
static void put_value_a2(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTENTION_Q2);
}
static void put_value_b2(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTENTION_K2);
}

static GemmOperand gemm_operand(CudaWriter *w, const KernelOp *read,
                                void (*value)(void *, Buffer *, const char *)) {
  GemmOperand o = {.pointer = "0"};
  Emitter *e = &w->e;
  if (!read) {
    o.put_value = value;
    return o;
  }
  o.pointer = format(e, "p%u", read->input);
  if (read->address->constant)
    o.pointer =
        format(e, "(%s + %s)", o.pointer, emit_int(e, read->address->constant));
  return o;
}

/* ---- scores, weight factors, epilogue ---- */

/* The value of a local load from the row: x is the dot product. */
static const char *bind_local(CudaWriter *w, const KernelOp *s, const char *x,
                              const char *row_max, const char *row_sum) {
  const AttentionPattern *b = &w->s->attention->pattern;
  const LoopOutput *r =
      &w->k->loops.at[s->source_loop]->outputs.at[s->source_output];
  const char *value = r->reduce == PRIM_MAX ? row_max : row_sum;
  if (s->source_loop >= b->pv_loop)
    return NULL;
  if (s->source_loop == b->products[0].loop)
    value = x;
  else if (b->product_count > 1 && s->source_loop == b->products[1].loop)
    value = "second";
  return cuda_round_to_dtype(&w->e, r->dtype, value);
}

static const char **bind_locals(CudaWriter *w, const LoopNest *loop,
                                const char *x, const char *row_max,
                                const char *row_sum) {
  const char **precomputed =
      NEW_ARRAY(w->e.arena, const char *, loop->ops.len + 1);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL)
      precomputed[j] = bind_local(w, &loop->ops.at[j], x, row_max, row_sum);
  return precomputed;
}

static void put_score(void *owner, Buffer *out, const char *x, const char *to,
                      bool unmasked) {
  CudaWriter *w = owner;
  const LoopNest *score =
      unmasked ? w->s->attention->unmasked_score : w->s->attention->score;
  put_kv_alias(w, out, w->k->parallel_axes);
  w->dialect.approximated_tanh =
      unmasked ? w->s->attention->capping_tanh : NULL;
  if (!w->s->attention->pattern.subtract_max)
    w->dialect.approximates_sigmoid =
        cuda_approximable_ops(w->e.arena, score, true);
  cuda_put_ops(w, out, score, bind_locals(w, score, x, NULL, NULL));
  w->dialect.approximated_tanh = NULL;
  w->dialect.approximates_sigmoid = NULL;
  buffer_printf(out, "%s = %s;\n", to,
                emit_scalar(&w->e, score->outputs.at[0].value_op));
}

static bool is_bounds_safe(const LoopNest *loop) {
  bool is = true;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    is &= cuda_is_speculatable(&loop->ops.at[j]);
  return is;
}

static const char *bind_row_local(CudaWriter *w, const KernelOp *s) {
  return bind_local(w, s, NULL, "most", "total");
}

/* If the row is empty, the result is 0, not 0 divided by the row sum. */
static bool is_symbolic_row(const CudaWriter *w) {
  return !extent_is_static(w->k->graph,
                           w->k->loops.at[0]->extents[w->k->parallel_axes]);
}

/* The factors of the weights, which are the same in a row: factor0, ...; of a
 * divisor, the reciprocal. */
static void put_row_factors(void *owner, Buffer *out, bool declare) {
  CudaWriter *w = owner;
  const AttentionPass *t = w->s->attention;
  const LoopNest *f = t->weight_factors;
  if (!declare) {
    w->dialect.divide_by_row_sum = "ax_over";
    cuda_put_ops(w, out, f, bind_locals(w, f, NULL, "most", "total"));
    w->dialect.divide_by_row_sum = NULL;
  }
  for (uint32_t j = 0; j < f->outputs.len; j++) {
    bool divides = t->pattern.row_factor_divides[j];
    if (declare)
      buffer_printf(out, "%s factor%u;\n", divides ? "ax_inverse" : "float", j);
    else
      buffer_printf(
          out, "factor%u = %s(float)%s%s;\n", j, divides ? "ax_invert(" : "",
          emit_scalar(&w->e, f->outputs.at[j].value_op), divides ? ")" : "");
  }
}

static void put_epilogue(void *owner, Buffer *out, const char *x,
                         const char *const to[GEMM_MAX_OUTPUTS]) {
  CudaWriter *w = owner;
  const AttentionPass *t = w->s->attention;
  uint32_t name = w->e.next_id++;
  w->dialect.divide_by_row_sum = "ax_over";
  buffer_printf(out, "float l%u = %s;\n", name, x);
  for (uint32_t j = 0; j < t->weight_factors->outputs.len; j++)
    if (t->pattern.row_factor_divides[j])
      buffer_printf(out, "l%u = ax_over(l%u, factor%u);\n", name, name, j);
    else
      buffer_printf(out, "l%u *= factor%u;\n", name, j);
  if (is_symbolic_row(w))
    buffer_printf(out, "l%u = terms == 0 ? 0.0f : l%u;\n", name, name);
  cuda_put_epilogue_loops(w, out, t->pattern.pv_loop,
                          format(&w->e, "l%u", name), to, bind_row_local);
  w->dialect.divide_by_row_sum = NULL;
}

/* True for a row statistic that the kernel stores. */
static bool is_row_output(const AttentionPass *t, const Kernel *k,
                          uint32_t loop, uint32_t output) {
  return loop < t->pattern.pv_loop &&
         k->loops.at[loop]->outputs.at[output].global_index;
}

static bool has_row_outputs(const AttentionPass *t, const Kernel *k) {
  for (uint32_t j = 0; j < t->pattern.pv_loop; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (is_row_output(t, k, j, i))
        return true;
  return false;
}

static void put_row_outputs(void *owner, Buffer *out) {
  CudaWriter *w = owner;
  const AttentionPass *t = w->s->attention;
  for (uint32_t j = 0; j < t->pattern.pv_loop; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->outputs.len; i++)
      if (is_row_output(t, w->k, j, i)) {
        const LoopOutput *r = &w->k->loops.at[j]->outputs.at[i];
        cuda_put_store_at(
            out, r->dtype, format(&w->e, "o%u", cuda_output_index(w, r)),
            cuda_address_at(w, r->global_index, w->k->parallel_axes),
            r->reduce == PRIM_MAX ? "most" : "total");
      }
}

/* Clears `to` unless the numbers of the score and their reciprocals are in the
 * range of normal floats. */
static void put_number_check(void *owner, Buffer *out, const char *to) {
  CudaWriter *w = owner;
  const LoopNest *numbers = w->s->attention->score_numbers;
  if (numbers)
    cuda_put_ops(w, out, numbers, NULL);
  for (uint32_t j = 0; numbers && j < numbers->outputs.len; j++) {
    const char *x = emit_scalar(&w->e, numbers->outputs.at[j].value_op);
    buffer_printf(out, "%s &= fabsf(%s) > 1e-30f && fabsf(%s) < 1e30f;\n", to,
                  x, x);
  }
  if (w->s->attention->score_scale)
    buffer_printf(out, "%s &= unit_whole > 1e-30f && unit_whole < 1e30f;\n",
                  to);
}

static void put_score_scale(void *owner, Buffer *out) {
  CudaWriter *w = owner;
  const LoopNest *scale = w->s->attention->score_scale;
  cuda_put_ops(w, out, scale, NULL);
  buffer_printf(out, "const float unit_whole = %s;\n",
                emit_scalar(&w->e, scale->outputs.at[0].value_op));
}

/* ---- trimmed bounds ---- */

/* Declares first_v and last_v: the range of each row axis v over a range of
 * rows. */
static void put_row_ranges(CudaWriter *w, Buffer *out, const AttentionPass *t) {
  const LoopNest *loop = w->k->loops.at[0];
  if (t->m_count > 1)
    buffer_puts(out, "int64_t first = first_row, last = last_row;\n");
  else
    buffer_puts(out, "const int64_t first = first_row, last = last_row;\n");
  for (uint32_t j = t->m_count; j-- > 0;) {
    const char *extent = emit_int(&w->e, loop->extents[t->m[j]]);
    buffer_printf(out,
                  "%sint64_t first_%u = first, last_%u = last;\n"
                  "(void)first_%u, (void)last_%u;\n",
                  j ? "" : "const ", t->m[j], t->m[j], t->m[j], t->m[j]);
    if (j)
      buffer_printf(out,
                    "first /= %s;\nlast /= %s;\n"
                    "first_%u = first == last ? first_%u %% %s : 0;\n"
                    "last_%u = first == last ? last_%u %% %s : %s - 1;\n",
                    extent, extent, t->m[j], t->m[j], extent, t->m[j], t->m[j],
                    extent, extent);
  }
}

/* If the comparison of floats is exact only for small sizes (trim_no_ops.c),
 * the bounds apply only to these sizes.  For larger sizes no tile is
 * unmasked. */
static void put_exactness_check(CudaWriter *w, Buffer *out,
                                const TrimBound *bound, bool unmasked) {
  if (!bound->exact_limit ||
      extent_is_static(w->k->graph, bound->largest_index))
    return;
  const char *largest_index = emit_int(&w->e, bound->largest_index);
  const char *exact = emit_int(&w->e, bound->exact_limit);
  if (unmasked)
    buffer_printf(out, "if (%s >= %s)\nwhole_high = 0;\nelse\n", largest_index,
                  exact);
  else
    buffer_printf(out, "if (%s < %s)\n", largest_index, exact);
}

/* Emits one trimmed bound: the loosest bound of the rows.  unmasked: the
 * tightest one. */
static void put_trim_bound(CudaWriter *w, Buffer *out, const AttentionPass *t,
                           const TrimBound *bound, bool unmasked) {
  Emitter *e = &w->e;
  const char *binding_row = unmasked ? "last" : "first",
             *opposite_row = unmasked ? "first" : "last";
  const char *to = unmasked ? "whole_" : "";
  uint64_t rows = 0;
  for (uint32_t j = 0; j < t->m_count; j++)
    rows |= (uint64_t)1 << t->m[j];
  buffer_printf(out, "{\nconst int64_t of = (int64_t)%s",
                emit_int(e, bound->dividend.constant));
  for (uint32_t v = 0; v < w->k->parallel_axes; v++) {
    int64_t times = bound->dividend.coef[v];
    if (!times)
      continue;
    buffer_printf(out, " + (int64_t)%s * ", emit_int(e, times));
    if (rows >> v & 1)
      buffer_printf(out, "%s_%u",
                    bound->is_lower == (times > 0) ? binding_row : opposite_row,
                    v);
    else
      buffer_printf(out, "(int64_t)i%u", v);
  }
  const char *by = emit_int(e, bound->divisor);
  buffer_printf(
      out, ";\nconst int64_t at = of / %s - (of %% %s < 0 ? 1 : 0);\n", by, by);
  put_exactness_check(w, out, bound, unmasked);
  if (bound->is_lower)
    buffer_printf(out,
                  "%slow = at > %slow ? (int)(at < terms ? at : terms) : "
                  "%slow;\n}\n",
                  to, to, to);
  else
    buffer_printf(out,
                  "%shigh = at < %shigh ? (int)(at < -1 ? 0 : at + 1) : "
                  "%shigh;\n}\n",
                  to, to, to);
}

static void put_trim_bounds(CudaWriter *w, Buffer *out, bool unmasked) {
  const AttentionPass *t = w->s->attention;
  put_row_ranges(w, out, t);
  for (uint32_t j = 0; j < t->trimmed->trim_bounds.len; j++)
    if (t->trim_bounds >> j & 1)
      put_trim_bound(w, out, t, &t->trimmed->trim_bounds.at[j], unmasked);
}

static void put_unmasked_bounds(void *owner, Buffer *out, const char *first,
                                const char *last) {
  (void)first, (void)last;
  put_trim_bounds(owner, out, true);
}

static void put_bounds(void *owner, Buffer *out, const char *first,
                       const char *last) {
  (void)first, (void)last;
  put_trim_bounds(owner, out, false);
}

static void put_checked_bounds(void *owner, Buffer *out, const char *first,
                               const char *last) {
  CudaWriter *w = owner;
  const AttentionPass *t = w->s->attention;
  const LoopNest *finite_check = t->finite_check;
  AffineExpr at = {.constant = 0};
  int64_t size = 1;
  (void)first, (void)last;
  for (uint32_t v = finite_check->parallel_axes; v-- > 0;) {
    at.coef[v] = finite_check->extents[v] == 1 ? 0 : size;
    size = emit_extent_mul(&w->e, size, finite_check->extents[v]);
  }
  /* result of the previous pass (emit_kernel.c) */
  buffer_printf(out, "if (!((const bool *)(scratch + %s))[0",
                emit_int(&w->e, w->locals[w->k->loops.len][0].scratch_offset));
  for (uint32_t v = 0; v < finite_check->parallel_axes; v++)
    if (at.coef[v])
      buffer_printf(out, " + i%u * (int64_t)%s", v,
                    emit_int(&w->e, at.coef[v]));
  buffer_puts(out, "]) {\n");
  put_trim_bounds(w, out, false);
  buffer_puts(out, "}\n");
}

/* Emits the check whether the trimmed bounds are invalid for a row. */
static void put_trim_check(void *owner, Buffer *out, const char *row_max,
                           const char *row_sum, const char *to) {
  CudaWriter *w = owner;
  const LoopNest *check = w->s->attention->trimmed->trim_check;
  cuda_put_ops(w, out, check, bind_locals(w, check, NULL, row_max, row_sum));
  for (uint32_t j = 0; j < check->outputs.len; j++)
    buffer_printf(out, "%s |= (bool)(%s);\n", to,
                  emit_scalar(&w->e, check->outputs.at[j].value_op));
}

/* ---- pass ---- */

static const char *operand_tensor_map(CudaWriter *w, const AttentionPass *t,
                                      uint32_t which) {
  TensorMap map = t->tensor_map[which];
  uint32_t box[2];
  AttentionGemms p;
  attention_gemm_schedules(&t->shape, &t->s, &p);
  map.pointer_index = w->out->outputs.len + t->load[which]->input;
  if (which == ATTENTION_Q)
    gemm_tma_box(&p.first.q_shape, &p.first.q_schedule, false, box,
                 &map.swizzle);
  else
    gemm_tma_box(&p.first.kv_shape, &p.first.kv_schedule, which == ATTENTION_V,
                 box, &map.swizzle);
  map.box[0] = box[0];
  map.box[1] = box[1];
  return cuda_add_tensor_map(w, &map);
}

void attention_set_output_box(const AttentionPass *t, TensorMap *map) {
  AttentionGemms p;
  attention_gemm_schedules(&t->shape, &t->s, &p);
  tensor_map_set_output_box(&p.first.kv_shape, &p.first.kv_schedule, map);
}

static void add_tensor_maps(CudaWriter *w, const AttentionPass *t,
                            AttentionKernelSpec *g) {
  if (t->s.copy != COPY_TMA)
    return;
  g->first.query.tensor_map = operand_tensor_map(w, t, ATTENTION_Q);
  g->first.key.tensor_map = operand_tensor_map(w, t, ATTENTION_K);
  g->value.tensor_map = operand_tensor_map(w, t, ATTENTION_V);
}

static void set_bounds_callbacks(CudaWriter *w, const AttentionPass *t,
                                 AttentionKernelSpec *g) {
  if (!t->trimmed)
    return;
  g->put_bounds = t->finite_check ? put_checked_bounds : put_bounds;
  if (t->checks_sums)
    g->counters = cuda_device_counters(w);
  g->put_unmasked_bounds = put_unmasked_bounds;
  if (t->shape.may_retry)
    g->put_trim_check = put_trim_check;
}

typedef void PutValue(void *owner, Buffer *out, const char *to);

static ScoreProductSpec product_spec(CudaWriter *w, uint32_t product,
                                     uint32_t query, PutValue *put_query,
                                     uint32_t key, PutValue *put_key) {
  const AttentionPass *t = w->s->attention;
  const LoopNest *loop = w->k->loops.at[t->pattern.products[product].loop];
  const KernelOp *a = t->load[query], *b = t->load[key];
  const KernelOp *v = product == 0 ? t->load[ATTENTION_V] : NULL;
  const AxisList batch = {t->batch_count, t->batch}, m = {t->m_count, t->m},
                 terms = {t->k_count[product], t->k[product]};
  ScoreProductSpec p = {.batch = axis_group(w, loop, batch, a, NULL)};
  p.m = axis_group(w, loop, m, a, NULL);
  p.k = axis_group(w, loop, terms, a, NULL);
  p.kv_batch = axis_group(w, loop, batch, b, v);
  p.n = kv_axis_group(w, t, loop, key);
  p.kv_k = axis_group(w, loop, terms, b, NULL);
  p.query = gemm_operand(w, a, put_query);
  p.key = gemm_operand(w, b, put_key);
  return p;
}

static void add_products(CudaWriter *w, AttentionKernelSpec *g) {
  g->first =
      product_spec(w, 0, ATTENTION_Q, put_value_a, ATTENTION_K, put_value_b);
  if (w->s->attention->pattern.product_count > 1)
    g->second = product_spec(w, 1, ATTENTION_Q2, put_value_a2, ATTENTION_K2,
                             put_value_b2);
}

static void note_alignment(CudaWriter *w, const AttentionPass *t) {
  const GemmSide sides[] = {t->shape.query, t->shape.key, t->shape.value,
                            t->shape.query2, t->shape.key2};
  w->out->requires_align16 |= cuda_requires_align16(sides, t->operand_count,
                                                    t->shape.store_align_bytes);
}

static void set_grid(CudaWriter *w, const AttentionPass *t) {
  int64_t rows = gemm_axes_extent(w, t->m_count, t->m);
  int64_t batches = gemm_axes_extent(w, t->batch_count, t->batch);
  w->pass->grid_blocks = emit_extent_mul(
      &w->e, emit_extent_ceil_div(&w->e, rows, t->s.m), batches);
  w->pass->max_grid_blocks = gemm_max_grid_blocks(&t->s, &t->gpu);
  cuda_note_int32_size(w, rows);
  cuda_note_int32_size(w, batches);
  cuda_note_int32_size(w, w->k->loops.at[0]->extents[w->k->parallel_axes]);
  cuda_note_int32_size(w, w->pass->grid_blocks);
}

void attention_pass_put(CudaWriter *w, Buffer *before) {
  const AttentionPass *t = w->s->attention;
  const LoopNest *last = w->k->loops.at[t->pattern.pv_loop];
  const KernelOp *v = t->load[ATTENTION_V];
  const AxisList axes[] = {
      {t->batch_count, t->batch}, {t->m_count, t->m}, {t->e_count, t->e}};
  AttentionKernelSpec g = {.shape = &t->shape,
                           .schedule = &t->s,
                           .name = w->pass->name,
                           .e = axis_group(w, last, axes[2], NULL, v),
                           .put_score = put_score,
                           .out_of_bounds_safe = is_bounds_safe(t->score),
                           .put_row_factors = put_row_factors,
                           .put_epilogue = put_epilogue,
                           .owner = w};
  g.value = gemm_operand(w, v, put_value_v);
  add_products(w, &g);
  if (t->score_numbers || t->score_scale)
    g.put_number_check = put_number_check;
  if (t->score_scale)
    g.put_score_scale = put_score_scale;
  if (has_row_outputs(t, w->k))
    g.put_row_outputs = put_row_outputs;
  note_alignment(w, t);
  g.output_count = cuda_fill_gemm_outputs(w, axes, g.outputs);
  g.epilogue_out_of_bounds_safe =
      is_bounds_safe(t->weight_factors) && cuda_epilogue_is_bounds_safe(w);
  set_bounds_callbacks(w, t, &g);
  add_tensor_maps(w, t, &g);
  set_grid(w, t);
  w->pass->shared_bytes = attention_shared_bytes(&t->shape, &t->s);
  attention_put_kernel(before, &w->body, &g);
}
