/* Which passes are contractions, and these as text: operands that are read as
 * they lie are copied, others computed on their way; the loops that follow the
 * product are done with its sums. */
#include "backend/cuda/gemm_row_reduction.h"
#include "backend/cuda/schedule_override.h"

#include <string.h>

#define format emit_format

enum { ALIGN_BYTES = 16, MAX_FISSION_BYTES = 512 << 20 };

/* ---- finding one ---- */

static uint64_t operand_depends(const ContractionPattern *p,
                                uint32_t n_factors) {
  uint64_t set = 0;
  for (uint32_t j = 0; j < p->factor_count; j++)
    if (n_factors >> j & 1)
      set |= p->op_vars[p->factors[j]];
  return set;
}

/* Where results lie next to each other along an axis, columns do: stores are
 * then whole. */
static bool is_contiguous(const Kernel *k, uint32_t axis) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      const AffineExpr *to = r->global_index ? r->global_index : r->local_index;
      if (to && to->coef[axis] == 1)
        return true;
    }
  return false;
}

/* Are its rows reduced, along all axes but the outer ones? */
static bool has_row_reduction(const Kernel *k) {
  for (uint32_t j = 1; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (k->loops.at[j]->outputs.at[i].reduce != PRIM_NONE)
        return true;
  return false;
}

static bool are_columns_inner(const GemmPass *t, const Kernel *k) {
  for (uint32_t j = 0; j < t->n_count; j++)
    if (t->n[j] < k->parallel_axes)
      return false;
  return t->n_count == k->loops.at[0]->spatial_axes - k->parallel_axes;
}

/* The axis that splits the factors best; NO_AXIS: none does. */
static uint32_t choose_n_axis(const Kernel *k, const ContractionPattern *p,
                              uint32_t *n_factors) {
  const LoopNest *loop = k->loops.at[0];
  uint32_t best = NO_AXIS, m, with;
  double max = 0;
  for (uint32_t v = has_row_reduction(k) ? k->parallel_axes : 0;
       v < loop->spatial_axes; v++) {
    if (!contraction_operand_sides(loop, p, v, &m, &with) || !with)
      continue;
    double extent =
        (double)loop_extent_hint(loop, v) * (is_contiguous(k, v) ? 1e6 : 1);
    if (best == NO_AXIS || extent > max) {
      best = v;
      max = extent;
      *n_factors = with;
    }
  }
  return best;
}

static bool classify_axes(GemmPass *t, const LoopNest *loop, uint64_t a,
                          uint64_t b) {
  for (uint32_t v = 0; v < loop->axis_count; v++) {
    bool in_a = a >> v & 1, in_b = b >> v & 1;
    if (v >= loop->spatial_axes)
      t->k[t->k_count++] = v;
    else if (in_a == in_b)
      t->batch[t->batch_count++] = v;
    else if (in_a)
      t->m[t->m_count++] = v;
    else
      t->n[t->n_count++] = v;
  }
  return t->m_count && t->n_count && t->batch_count <= GEMM_MAX_AXES &&
         t->m_count <= GEMM_MAX_AXES && t->n_count <= GEMM_MAX_AXES &&
         t->k_count <= GEMM_MAX_AXES;
}

static bool reads_same_point(const Kernel *k, const KernelOp *s,
                             uint32_t loop) {
  return s->source_loop < loop &&
         affine_equal(s->address, k->loops.at[s->source_loop]
                                      ->outputs.at[s->source_output]
                                      .local_index);
}

/* Are all loops behind the product over its results, each point for itself? */
static bool has_pointwise_epilogue(const Kernel *k) {
  const LoopNest *first = k->loops.at[0];
  const LoopOutput *sum = &first->outputs.at[0];
  if ((sum->global_index && !cuda_is_affine(sum->global_index)) ||
      (sum->local_index && !cuda_is_affine(sum->local_index)))
    return false;
  for (uint32_t j = 1; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (loop->axis_count != first->spatial_axes ||
        loop->spatial_axes != first->spatial_axes)
      return false;
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD_LOCAL &&
          !reads_same_point(k, &loop->ops.at[i], j))
        return false;
  }
  for (uint32_t i = 0; k->loops.len > 1 && i < first->ops.len; i++)
    if (first->ops.at[i].kind == KOP_LOAD_LOCAL)
      return false;
  return true;
}

/* ---- operands ---- */

/* What a value of 16 bits is that is but widened; or NULL. */
const KernelOp *cuda_widened_half(const LoopNest *side) {
  const KernelOp *s = &side->ops.at[side->outputs.at[0].value_op];
  if (s->kind != KOP_CONVERT)
    return NULL;
  const KernelOp *of = &side->ops.at[s->args[0]];
  return of->dtype == DT_F16 || of->dtype == DT_BF16 ? of : NULL;
}

/* The read that the side is, of the type that its tile has; or NULL. */
const KernelOp *cuda_plain_load(const LoopNest *side, Dtype t) {
  const KernelOp *s = cuda_widened_half(side);
  if (!s)
    s = &side->ops.at[side->outputs.at[0].value_op];
  return s->kind == KOP_LOAD && s->dtype == t && !s->checked_index_count &&
                 cuda_is_affine(s->address)
             ? s
             : NULL;
}

/* The largest part of `align` that so many elements are a multiple of, whatever
 * open sizes are; no less than one. */
static uint32_t alignment_of(const LoopNest *loop, int64_t count,
                             uint32_t bytes, uint32_t align) {
  int64_t size, left;
  while (align > bytes &&
         (!extent_mul(loop->graph, count, bytes, &size) ||
          !extent_floor_mod(loop->graph, size, align, &left) || left))
    align /= 2;
  return align;
}

/* Bytes that all parts of an address but one are multiples of. */
uint32_t cuda_alignment_of(const LoopNest *loop, const AffineExpr *at,
                           uint32_t bytes, uint32_t dense) {
  uint32_t align = alignment_of(loop, at->constant, bytes, ALIGN_BYTES);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != dense)
      align = alignment_of(loop, at->coef[v], bytes, align);
  return align;
}

/* Which axis of a group is the last one, if elements along it are next to each
 * other, and copies of them do not go on to another one's. */
bool cuda_is_contiguous_group(const LoopNest *loop, const AffineExpr *at,
                              uint32_t count, const uint32_t *axes,
                              uint32_t *align, uint32_t bytes) {
  if (!count || at->coef[axes[count - 1]] != 1)
    return false;
  uint32_t dense = axes[count - 1];
  *align = cuda_alignment_of(loop, at, bytes, dense);
  if (count > 1)
    *align = alignment_of(loop, loop->extents[dense], bytes, *align);
  return true;
}

/* Of what is computed: do neighbours in memory differ in their row, and not in
 * their term?  What all rows or all terms share does not count. */
static bool is_computed_mn_major(const GemmPass *t, const LoopNest *side,
                                 bool b) {
  const uint32_t *rows = b ? t->n : t->m, count = b ? t->n_count : t->m_count;
  bool transposed = false;
  for (uint32_t j = 0; j < side->ops.len; j++) {
    const KernelOp *s = &side->ops.at[j];
    if (s->kind != KOP_LOAD)
      continue;
    if (s->address->coef[t->k[t->k_count - 1]] == 1)
      return false;
    bool terms = false;
    for (uint32_t v = 0; v < t->k_count; v++)
      terms |= s->address->coef[t->k[v]] != 0;
    transposed |= terms && s->address->coef[rows[count - 1]] == 1;
  }
  return transposed;
}

static GemmSide gemm_side(GemmPass *t, const LoopNest *loop, bool b,
                          Dtype dtype) {
  const KernelOp *read = b ? t->load_b : t->load_a;
  GemmSide side = {.dtype = dtype};
  uint32_t bytes = dtype_info[dtype].bytes;
  side.align_bytes = bytes;
  side.computed = !read;
  side.mn_major =
      !read && bytes == 2 && is_computed_mn_major(t, b ? t->b : t->a, b);
  if (!read)
    return side;
  if (read->node && !loop->graph->extent_table)
    side.tensor_elements = (double)node_element_count(read->node);
  if (!cuda_is_contiguous_group(loop, read->address, t->k_count, t->k,
                                &side.align_bytes, bytes))
    side.mn_major = cuda_is_contiguous_group(
        loop, read->address, b ? t->n_count : t->m_count, b ? t->n : t->m,
        &side.align_bytes, bytes);
  const BoundsPredicates *g = b ? &t->predicates_b : &t->predicates_a;
  for (uint32_t j = 0; j < g->count; j++)
    for (uint32_t v = 0; v < loop->axis_count; v++)
      if (g->index[j].coef[v] && read->address->coef[v] == 1)
        side.align_bytes = bytes; /* of neighbours some may not be there */
  return side;
}

static double axis_points(const LoopNest *loop, uint32_t count,
                          const uint32_t *axes) {
  double all = 1;
  for (uint32_t j = 0; j < count; j++)
    all *= (double)loop_extent_hint(loop, axes[j]);
  return all;
}

/* Bytes of results, and of what is read with them, for each. */
static double epilogue_bytes(const Kernel *k) {
  double bytes = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].global_index || k->loops.len == 1)
        bytes += dtype_info[loop->outputs.at[i].dtype].bytes;
    for (uint32_t i = 0; j && i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD)
        bytes += dtype_info[loop->ops.at[i].dtype].bytes;
  }
  return bytes;
}

uint32_t cuda_store_alignment(const Kernel *k, uint32_t dense) {
  uint32_t align = ALIGN_BYTES;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      uint32_t bytes = dtype_info[r->dtype].bytes, channels;
      channels =
          r->global_index
              ? cuda_alignment_of(k->loops.at[j], r->global_index, bytes, dense)
              : ALIGN_BYTES;
      align = channels < align ? channels : align;
    }
  return align;
}

bool cuda_requires_align16(const GemmSide *sides, uint32_t count,
                           uint32_t store_align) {
  bool wants = store_align == ALIGN_BYTES;
  for (uint32_t j = 0; j < count; j++)
    wants |= !sides[j].computed &&
             sides[j].align_bytes > dtype_info[sides[j].dtype].bytes;
  return wants;
}

/* Operands of 16 bits for the tensor cores; else both are of the type of the
 * sum. */
static Dtype operand_dtype(const LoopNest *a, const LoopNest *b,
                           const GpuSpec *gpu, Dtype sum) {
  const KernelOp *x = cuda_widened_half(a), *y = cuda_widened_half(b);
  bool good = x && y && x->dtype == y->dtype && sum == DT_F32 &&
              (x->dtype == DT_F16 || gpu->arch >= 80);
  return good ? x->dtype : sum;
}

/* What memory parts of sums need is told by numbers. */
static bool has_known_tile_count(const LoopNest *loop) {
  bool known = true;
  for (uint32_t v = 0; v < loop->spatial_axes; v++)
    known &= extent_is_static(loop->graph, loop->extents[v]);
  return known;
}

static bool choose_schedule(GemmPass *t, const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  const GpuSpec *gpu = &t->gpu;
  double seconds;
  t->shape.m = axis_points(loop, t->m_count, t->m);
  t->shape.n = axis_points(loop, t->n_count, t->n);
  t->shape.k = axis_points(loop, t->k_count, t->k);
  t->shape.batch = axis_points(loop, t->batch_count, t->batch);
  t->shape.epilogue_bytes = epilogue_bytes(k);
  t->shape.store_align_bytes = cuda_store_alignment(k, t->n[t->n_count - 1]);
  cuda_epilogue_shape(k, t);
  t->shape.no_split_k = !t->has_counters;
  t->shape.symbolic_tile_count = !has_known_tile_count(loop);
  return t->shape.m * t->shape.batch < INT32_MAX && t->shape.n < INT32_MAX &&
         t->shape.k < INT32_MAX && gemm_choose(&t->shape, gpu, &t->s, &seconds);
}

static GemmPass *match_gemm(Kernel *k, const CudaTarget *target) {
  LoopNest *loop = k->loops.at[0];
  ContractionPattern p;
  uint32_t n_factors = 0;
  GpuSpec gpu;
  if (!target->arch || !gpu_spec(target->arch, &gpu) ||
      !contraction_match(k->arena, loop, &p) || p.hoisted_count ||
      !has_pointwise_epilogue(k) || choose_n_axis(k, &p, &n_factors) == NO_AXIS)
    return NULL;
  uint32_t all = (1u << p.factor_count) - 1;
  GemmPass *t = NEW(k->arena, GemmPass);
  t->arch = target->arch;
  t->has_tensor_maps = target->has_tensor_maps;
  t->has_counters = target->has_tensor_maps || loop->graph->extent_table;
  t->shape.allow_tf32 = target->allow_tf32;
  if (!classify_axes(t, loop, operand_depends(&p, all & ~n_factors),
                     operand_depends(&p, n_factors)) ||
      (has_row_reduction(k) && !are_columns_inner(t, k)))
    return NULL;
  Dtype sum = loop->ops.at[loop->outputs.at[0].value_op].dtype;
  t->a = contraction_operand_loop(k->arena, loop, &p, all & ~n_factors, sum);
  t->b = contraction_operand_loop(k->arena, loop, &p, n_factors, sum);
  Dtype dtype = operand_dtype(t->a, t->b, &gpu, sum);
  t->load_a = cuda_predicated_load(k->arena, t->a, dtype, &t->predicates_a);
  t->load_b = cuda_predicated_load(k->arena, t->b, dtype, &t->predicates_b);
  t->shape.a = gemm_side(t, loop, false, dtype);
  t->shape.b = gemm_side(t, loop, true, dtype);
  t->shape.accumulator_dtype = sum;
  gpu.sms = (uint32_t)target->sm_count;
  gpu.block_shared_bytes = target->optin_shared_bytes;
  t->gpu = gpu;
  if (target->has_tensor_maps)
    gemm_pass_find_tensor_maps(t, loop);
  if (!choose_schedule(t, k))
    return NULL;
  t->override_error = override_apply(t->arch, &t->shape, &t->gpu, &t->s);
  return t;
}

GemmPass *gemm_pass_match(Kernel *k, const CudaTarget *target) {
  LoopNest *loop = k->loops.at[0];
  int64_t channels =
      target->has_tensor_maps ? gemm_pass_conv_channels(loop) : 0;
  if (channels) {
    loop_split_last_axis(k->arena, loop, channels);
    GemmPass *t = match_gemm(k, target);
    if (t && t->shape.im2col && t->s.way == MMA_KIND_WGMMA)
      return t;
    loop_collapse_last_axes(k->arena, loop);
  }
  return match_gemm(k, target);
}

/* Sums, and values of their terms beside them, are not left by one pass. */
static bool has_partial_outputs(const LoopNest *loop) {
  bool sums = false, values = false;
  for (uint32_t j = 0;
       loop->axis_count > loop->spatial_axes && j < loop->outputs.len; j++) {
    sums |= loop->outputs.at[j].reduce != PRIM_NONE;
    values |= loop->outputs.at[j].reduce == PRIM_NONE;
  }
  return sums && values;
}

bool gemm_pass_needs_fission(const Kernel *k) {
  double bytes = kernel_local_bytes(k, true) *
                 loop_iterations_hint(k->loops.at[0], 0, k->parallel_axes);
  bool product = false;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    product |= loop_is_contraction(k->loops.at[j]);
    if (has_partial_outputs(k->loops.at[j]))
      return false;
  }
  return product && k->loops.len > 1 && bytes <= MAX_FISSION_BYTES;
}

void gemm_pass_print(Buffer *out, const GemmPass *t) {
  buffer_printf(out, "tile for %s: ", t->arch);
  gemm_schedule_print(out, &t->s);
  if (t->shape.a.dtype == DT_F32 && t->s.way != MMA_KIND_FMA)
    buffer_puts(out, ", f32 rounded to tf32");
  if (t->override_error)
    buffer_printf(out, " (%s)", t->override_error);
}

/* ---- as text ---- */

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

/* Guards are of 32 bits: what is beyond these, an open size, cuts nothing. */
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
  for (; o.predicate_count < predicates->count; o.predicate_count++)
    o.predicates[o.predicate_count] = (GemmPredicate){
        emit_int(e, predicates->index[o.predicate_count].constant),
        predicate_extent(w, predicates->extent[o.predicate_count])};
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

/* ---- the whole ---- */

/* The axes have their values. */
static void put_epilogue(void *owner, Buffer *out, const char *x,
                         const char *const to[GEMM_MAX_OUTPUTS]) {
  cuda_put_epilogue_loops(owner, out, 0, x, to, NULL);
}

static int64_t axis_count(CudaWriter *w, uint32_t count, const uint32_t *axes) {
  int64_t all = 1;
  for (uint32_t j = 0; j < count; j++)
    all = emit_extent_mul(&w->e, all, w->k->loops.at[0]->extents[axes[j]]);
  return all;
}

/* Counters of a module are of each call, as several may run at a time. */
static const char *tile_counters(CudaWriter *w, int64_t tiles) {
  Emitter *e = &w->e;
  CudaPass *p = w->pass;
  if (!w->k->graph->extent_table)
    return format(e, "((unsigned *)a.p[%u] + %d)", w->out->pointer_count - 1,
                  CUDA_COUNTERS_OFFSET / 4);
  p->counter_count = p->max_grid_blocks ? p->max_grid_blocks : tiles;
  p->counters_offset = cuda_alloc_scratch(w, p->counter_count, DT_I32);
  return format(e, "((unsigned *)(scratch + %s))",
                emit_int(e, p->counters_offset));
}

/* Blocks and memory, as sizes. */
static void set_grid(CudaWriter *w, const GemmPass *t, GemmKernelSpec *g) {
  Emitter *e = &w->e;
  const GemmSchedule *s = &t->s;
  int64_t rows = axis_count(w, t->m_count, t->m),
          columns = axis_count(w, t->n_count, t->n);
  int64_t m_tiles = emit_extent_ceil_div(e, rows, s->m * s->cluster_m);
  int64_t n_tiles = emit_extent_ceil_div(e, columns, s->n * s->cluster_n);
  int64_t tiles = emit_extent_mul(e, emit_extent_mul(e, m_tiles, n_tiles),
                                  axis_count(w, t->batch_count, t->batch));
  int64_t parts = s->split;
  const uint32_t *last = t->k + t->k_count - 1;
  if (s->stream) {
    bool taps = t->shape.inner_k > 0;
    parts = emit_extent_ceil_div(
        e, axis_count(w, taps ? 1 : t->k_count, taps ? last : t->k), s->k);
    if (taps)
      parts = emit_extent_mul(e, parts, axis_count(w, t->k_count - 1, t->k));
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
  map.round_tf32 = t->shape.a.dtype == DT_F32; /* wgmma would cut it */
  gemm_pass_set_box(t, b, &map);
  return cuda_add_tensor_map(w, &map);
}

/* Of one image the tiles of clusters that are beyond it are of another one,
 * which is not there. */
static GemmIm2col im2col_coords(CudaWriter *w, const GemmPass *t) {
  Emitter *e = &w->e;
  const Im2colOperand *p = &t->im2col;
  GemmIm2col to = {.spatial_axes = p->spatial_axes};
  const char *first = emit_int(e, w->k->loops.at[0]->extents[t->m[0]]);
  for (uint32_t j = 0; j < p->spatial_axes; j++) {
    const char *at = format(e, "i%u", p->m[j]);
    if (!p->is_batched && j + 1 == p->spatial_axes)
      at = format(e, "i%u %% %s", p->m[j], first);
    to.coord[j] = format(e, "%s * %s + %s", at, emit_int(e, p->stride[j]),
                         emit_int(e, p->tensor_map.lower_corner[j]));
    to.offset[j] = p->k[j] == NO_AXIS ? "0"
                                      : format(e, "i%u * %s", p->k[j],
                                               emit_int(e, p->dilation[j]));
  }
  to.batch_coord = p->is_batched ? format(e, "i%u", t->m[0])
                                 : format(e, "i%u / %s", t->m[0], first);
  return to;
}

void cuda_note_int32_size(CudaWriter *w, int64_t size) {
  if (!extent_is_static(w->k->graph, size))
    VEC_PUSH(w->e.arena, w->pass->int32_sizes, size);
}

/* Rows, columns, terms, tiles, and where guards begin and end. */
static void note_int32_sizes(CudaWriter *w, const GemmPass *t) {
  const BoundsPredicates *predicates[] = {&t->predicates_a, &t->predicates_b};
  Graph *g = w->k->graph;
  int64_t low, m_tiles;
  cuda_note_int32_size(w, axis_count(w, t->batch_count, t->batch));
  cuda_note_int32_size(w, axis_count(w, t->m_count, t->m));
  cuda_note_int32_size(w, axis_count(w, t->n_count, t->n));
  cuda_note_int32_size(w, axis_count(w, t->k_count, t->k));
  cuda_note_int32_size(w, w->pass->grid_blocks);
  for (uint32_t b = 0; b < 2; b++)
    for (uint32_t j = 0; j < predicates[b]->count; j++)
      if (affine_bounds(w->k->loops.at[0], &predicates[b]->index[j], &low,
                        &m_tiles)) {
        cuda_note_int32_size(w, extent_sub_saturating(g, 0, low));
        cuda_note_int32_size(w, m_tiles);
      }
}

void gemm_pass_put(CudaWriter *w, Buffer *before) {
  const GemmPass *t = w->s->gemm;
  GemmKernelSpec g = {.shape = &t->shape,
                      .schedule = &t->s,
                      .name = w->pass->name,
                      .batch = axis_group(w, t, t->batch_count, t->batch),
                      .m = axis_group(w, t, t->m_count, t->m),
                      .n = axis_group(w, t, t->n_count, t->n),
                      .k = axis_group(w, t, t->k_count, t->k),
                      .a = gemm_operand(w, t->load_a, &t->predicates_a),
                      .b = gemm_operand(w, t->load_b, &t->predicates_b),
                      .put_epilogue = put_epilogue,
                      .owner = w};
  const AxisList axes[] = {
      {t->batch_count, t->batch}, {t->m_count, t->m}, {t->n_count, t->n}};
  if (!t->load_a)
    g.a.put_value = put_value_a;
  if (!t->load_b)
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
  gemm_row_reduction_callbacks(w, &g.row_reduction);
  set_grid(w, t, &g);
  note_int32_sizes(w, t);
  gemm_put_kernel(before, &w->body, &g);
}
