/* Emits matmul passes.  Operands with an affine address are copied, other
 * operands are computed.  The loops after the contraction become the
 * epilogue. */
#include "backend/cuda/gemm_row_reduction.h"

#define format emit_format

static GemmAxisGroup axis_group(CudaWriter *w, const GemmPass *t,
                                uint32_t count, const uint32_t *axes) {
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[0];
  GemmAxisGroup g = {.count = count};
  for (uint32_t j = 0; j < count; j++) {
    uint32_t v = axes[j];
    GemmAxis *a = &g.axes[j];
    a->name = format(e, "i%u", v);
    a->extent = format(e, "%s", emit_int(e, loop->extents[v]));
    for (int b = 0; b < 2; b++) {
      const KernelOp *read = b ? t->load_b : t->load_a;
      int64_t times = read ? read->address->coef[v] : 0;
      const char *text = times == 1 ? "1"
                         : times ? format(e, "(int64_t)%s", emit_int(e, times))
                                 : NULL;
      *(b ? &a->stride_b : &a->stride_a) = text;
      const BoundsPredicates *predicates =
          b ? &t->predicates_b : &t->predicates_a;
      for (uint32_t i = 0; read && i < predicates->count; i++)
        if (predicates->index[i].coef[v])
          *(b ? &a->predicate_stride_b[i] : &a->predicate_stride_a[i]) =
              emit_int(e, predicates->index[i].coef[v]);
    }
  }
  return g;
}

/* Predicates have 32 bits.  A larger symbolic extent is clamped; this cuts off
 * nothing. */
static const char *predicate_extent(CudaWriter *w, int64_t extent) {
  return emit_int(&w->e, extent_min(w->k->graph, extent, INT32_MAX));
}

static GemmOperand gemm_operand(CudaWriter *w, const KernelOp *read,
                                const BoundsPredicates *predicates) {
  GemmOperand o = {.pointer = "0"};
  if (!read)
    return o;
  Emitter *e = &w->e;
  o.pointer = format(e, "p%u", read->input);
  if (read->address->constant)
    o.pointer =
        format(e, "(%s + %s)", o.pointer, emit_int(e, read->address->constant));
  for (; o.predicate_count < predicates->count; o.predicate_count++) {
    uint32_t k = o.predicate_count;
    const char *start = emit_int(e, predicates->index[k].constant);
    o.predicates[k] =
        (GemmPredicate){start, predicate_extent(w, predicates->extent[k])};
  }
  return o;
}

static void put_value(void *owner, Buffer *out, const char *to, bool b) {
  CudaWriter *w = owner;
  const GemmPass *t = w->s->gemm;
  const LoopNest *side = b ? t->b : t->a;
  cuda_put_ops(w, out, side, NULL);
  buffer_printf(out, "%s = %s;\n", to,
                emit_scalar(&w->e, side->outputs.at[0].value_op));
}

static void put_value_a(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, false);
}

static void put_value_b(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, true);
}

/* ---- operands with scales ---- */

/* The pointer to the load's element for the first term of a row. */
static const char *row_pointer(CudaWriter *w, const KernelOp *read) {
  const LoopNest *loop = w->k->loops.at[0];
  AffineExpr at = *read->address;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    at.coef[v] = 0;
  return format(&w->e, "p%u + (%s)", read->input,
                cuda_address_at(w, &at, loop->spatial_axes));
}

static void put_scaled_row(CudaWriter *w, Buffer *out, const ScaledOperand *o,
                           bool scales) {
  buffer_printf(out, "const uint8_t *const %s = %s;\n",
                scales ? "scales" : "codes",
                row_pointer(w, scales ? o->scale : o->element));
}

static void put_scaled_row_a(void *owner, Buffer *out, bool scales) {
  CudaWriter *w = owner;
  put_scaled_row(w, out, &w->s->gemm->scaled_a, scales);
}

static void put_scaled_row_b(void *owner, Buffer *out, bool scales) {
  CudaWriter *w = owner;
  put_scaled_row(w, out, &w->s->gemm->scaled_b, scales);
}

/* The kernel's last k axis is bytes, of two terms. */
static void set_scaled_operands(CudaWriter *w, const GemmPass *t,
                                GemmKernelSpec *g) {
  Emitter *e = &w->e;
  uint32_t block = t->k[0],
           terms = (uint32_t)w->k->loops.at[0]->extents[t->k[1]];
  g->k.axes[1].extent = format(e, "%u", terms / GEMM_PACKED_TERMS);
  g->a.put_scaled_row = put_scaled_row_a;
  g->b.put_scaled_row = put_scaled_row_b;
  g->a.scale_terms = g->b.scale_terms = terms;
  g->a.scale_stride = emit_int(e, t->scaled_a.scale->address->coef[block]);
  g->b.scale_stride = emit_int(e, t->scaled_b.scale->address->coef[block]);
  w->out->requires_align16 = true;
}

/* ---- pass ---- */

static void put_epilogue(void *owner, Buffer *out, const char *x,
                         const char *const to[GEMM_MAX_OUTPUTS]) {
  cuda_put_epilogue_loops(owner, out, 0, x, to, NULL);
}

static void put_paired_epilogue(void *owner, Buffer *out, const char *x,
                                const char *const to[GEMM_MAX_OUTPUTS]) {
  CudaWriter *w = owner;
  w->uses_pairs = true;
  put_epilogue(owner, out, x, to);
  w->uses_pairs = false;
}

int64_t gemm_axes_extent(CudaWriter *w, uint32_t count, const uint32_t *axes) {
  int64_t all = 1;
  for (uint32_t j = 0; j < count; j++)
    all = emit_extent_mul(&w->e, all, w->k->loops.at[0]->extents[axes[j]]);
  return all;
}

/* The counters of an AOT module are allocated per call, since calls may run
 * concurrently. */
static const char *tile_counters(CudaWriter *w, int64_t tiles) {
  Emitter *e = &w->e;
  CudaPass *p = w->pass;
  if (!w->k->graph->extent_table)
    return cuda_device_counters(w);
  p->counter_count = p->max_grid_blocks ? p->max_grid_blocks : tiles;
  p->counters_offset = cuda_alloc_scratch(w, p->counter_count, DT_I32);
  return format(e, "((unsigned *)(scratch + %s))",
                emit_int(e, p->counters_offset));
}

/* Sets grid size, shared memory and workspace, as symbolic sizes. */
static void set_grid(CudaWriter *w, const GemmPass *t, GemmKernelSpec *g) {
  Emitter *e = &w->e;
  const GemmSchedule *s = &t->s;
  int64_t rows = gemm_axes_extent(w, t->m_count, t->m),
          columns = gemm_axes_extent(w, t->n_count, t->n);
  int64_t m_tiles = emit_extent_ceil_div(e, rows, s->m * s->cluster_m);
  int64_t n_tiles = emit_extent_ceil_div(e, columns, s->n * s->cluster_n);
  int64_t tiles =
      emit_extent_mul(e, emit_extent_mul(e, m_tiles, n_tiles),
                      gemm_axes_extent(w, t->batch_count, t->batch));
  int64_t parts = s->split;
  const uint32_t *last = t->k + t->k_count - 1;
  if (s->stream) {
    bool taps = t->shape.inner_k > 0;
    parts = emit_extent_ceil_div(
        e, gemm_axes_extent(w, taps ? 1 : t->k_count, taps ? last : t->k),
        s->k * gemm_terms_per_k(&t->shape));
    if (taps)
      parts =
          emit_extent_mul(e, parts, gemm_axes_extent(w, t->k_count - 1, t->k));
    parts = extent_max(w->k->graph, parts, 1);
  }
  tiles = emit_extent_mul(e, tiles, gemm_cluster_size(s));
  w->pass->rows = rows;
  w->pass->columns = columns;
  w->pass->tiles = tiles;
  w->pass->grid_blocks = emit_extent_mul(e, tiles, parts);
  w->pass->max_grid_blocks = gemm_max_grid_blocks(s, &t->gpu);
  w->pass->shared_bytes = gemm_shared_bytes(&t->shape, s);
  if (s->split == 1 && !s->stream)
    return;
  int64_t workspace = gemm_workspace_floats(s, &t->gpu, tiles);
  g->workspace = format(e, "(scratch + (int64_t)%s)",
                        emit_int(e, cuda_alloc_scratch(w, workspace, DT_F32)));
  g->counters = tile_counters(w, tiles);
}

static const char *operand_tensor_map(CudaWriter *w, const GemmPass *t,
                                      bool b) {
  TensorMap map = b ? t->tensor_map_b : t->tensor_map_a;
  map.pointer_index = w->out->outputs.len + (b ? t->load_b : t->load_a)->input;
  /* round to nearest; wgmma truncates */
  map.round_tf32 = t->shape.a.dtype == DT_F32;
  gemm_pass_set_box(t, b, &map);
  return cuda_add_tensor_map(w, &map);
}

/* With a single image, cluster tiles beyond its last row belong to a second
 * image, which does not exist: TMA fills them with 0. */
static GemmIm2col im2col_coords(CudaWriter *w, const GemmPass *t) {
  Emitter *e = &w->e;
  const Im2colOperand *p = &t->im2col;
  GemmIm2col to = {.spatial_axes = p->spatial_axes};
  const char *first = emit_int(e, w->k->loops.at[0]->extents[t->m[0]]);
  for (uint32_t j = 0; j < p->spatial_axes; j++) {
    const char *at = format(e, "i%u", p->m[j]);
    if (!p->is_batched && j + 1 == p->spatial_axes)
      at = format(e, "i%u %% %s", p->m[j], first);
    const char *stride = emit_int(e, p->stride[j]);
    to.coord[j] = format(e, "%s * %s + %s", at, stride,
                         emit_int(e, p->tensor_map.lower_corner[j]));
    to.offset[j] = p->k[j] == NO_AXIS ? "0"
                                      : format(e, "i%u * %s", p->k[j],
                                               emit_int(e, p->dilation[j]));
  }
  to.batch_coord = p->is_batched ? format(e, "i%u", t->m[0])
                                 : format(e, "i%u / %s", t->m[0], first);
  return to;
}

/* Notes the sizes that the kernel holds in 32 bits: sizes of axis groups, the
 * grid, and the bounds of predicates. */
static void note_int32_sizes(CudaWriter *w, const GemmPass *t) {
  const BoundsPredicates *predicates[] = {&t->predicates_a, &t->predicates_b};
  Graph *g = w->k->graph;
  int64_t low, high;
  cuda_note_int32_size(w, gemm_axes_extent(w, t->batch_count, t->batch));
  cuda_note_int32_size(w, gemm_axes_extent(w, t->m_count, t->m));
  cuda_note_int32_size(w, gemm_axes_extent(w, t->n_count, t->n));
  cuda_note_int32_size(w, gemm_axes_extent(w, t->k_count, t->k));
  cuda_note_int32_size(w, w->pass->grid_blocks);
  for (uint32_t b = 0; b < 2; b++)
    for (uint32_t j = 0; j < predicates[b]->count; j++)
      if (affine_bounds(w->k->loops.at[0], &predicates[b]->index[j], &low,
                        &high)) {
        cuda_note_int32_size(w, extent_sub_saturating(g, 0, low));
        cuda_note_int32_size(w, high);
      }
}

void gemm_pass_put(CudaWriter *w, Buffer *before) {
  const GemmPass *t = w->s->gemm;
  GemmKernelSpec g = {.shape = &t->shape,
                      .schedule = &t->s,
                      .name = w->pass->name,
                      .put_epilogue = put_epilogue,
                      .owner = w};
  g.batch = axis_group(w, t, t->batch_count, t->batch);
  g.m = axis_group(w, t, t->m_count, t->m);
  g.n = axis_group(w, t, t->n_count, t->n);
  g.k = axis_group(w, t, t->k_count, t->k);
  g.a = gemm_operand(w, t->load_a, &t->predicates_a);
  g.b = gemm_operand(w, t->load_b, &t->predicates_b);
  const AxisList axes[] = {
      {t->batch_count, t->batch}, {t->m_count, t->m}, {t->n_count, t->n}};
  if (t->shape.scale_block)
    set_scaled_operands(w, t, &g);
  else if (!t->load_a)
    g.a.put_value = put_value_a;
  if (!t->shape.scale_block && !t->load_b)
    g.b.put_value = put_value_b;
  if (t->s.copy == COPY_TMA) {
    if (t->load_a)
      g.a.tensor_map = operand_tensor_map(w, t, false);
    if (t->load_b)
      g.b.tensor_map = operand_tensor_map(w, t, true);
    if (t->shape.im2col)
      g.a.im2col = im2col_coords(w, t);
  }
  const GemmSide sides[] = {t->shape.a, t->shape.b};
  w->out->requires_align16 |=
      cuda_requires_align16(sides, 2, t->shape.store_align_bytes);
  g.output_count = cuda_fill_gemm_outputs(w, axes, g.outputs);
  g.out_of_bounds_safe = cuda_epilogue_is_bounds_safe(w);
  GemmPairLoad pairs[MAX_PAIR_LOADS];
  if (t->s.store == STORE_TMA && t->n_count == 1 && !w->row_reduction) {
    g.put_paired_epilogue = put_paired_epilogue;
    g.pairs = pairs;
    g.pair_count = cuda_find_pair_loads(w, t->n[0], axes[1], pairs);
    w->out->requires_align16 |= g.pair_count > 0;
  }
  gemm_row_reduction_callbacks(w, &g.row_reduction);
  set_grid(w, t, &g);
  note_int32_sizes(w, t);
  gemm_put_kernel(before, &w->body, &g);
}
