/* Tensor maps of matmul operands: tiled mode for dense operands, im2col mode
 * for convolutions. */
#include "backend/cuda/gemm_pass.h"
#include "support/int_math.h"

enum {
  MAX_IM2COL_OFFSET = 31 /* limit of im2col offsets, valid for every rank */
};

/* ---- sizes: INT64_MAX on overflow, which no tensor map accepts ---- */

static int64_t product_of(const LoopNest *loop, int64_t x, int64_t y) {
  int64_t out;
  return extent_mul(loop->graph, x, y, &out) ? out : INT64_MAX;
}

static int64_t sum_of(const LoopNest *loop, int64_t x, int64_t y) {
  int64_t out;
  return extent_add(loop->graph, x, y, &out) ? out : INT64_MAX;
}

/* x / y; 0 if y is not known to divide x. */
static int64_t exact_quotient(const LoopNest *loop, int64_t x, int64_t y) {
  int64_t out;
  return extent_floor_div(loop->graph, x, y, &out) &&
                 product_of(loop, out, y) == x
             ? out
             : 0;
}

static int64_t bytes_of(const LoopNest *loop, Dtype t, int64_t count) {
  return product_of(loop, count, dtype_info[t].bytes);
}

/* True if the driver can encode the map.  For symbolic sizes it uses the size
 * hints; the launcher checks the sizes of each call. */
static bool may_be_encodable(const LoopNest *loop, TensorMap map) {
  const Graph *g = loop->graph;
  map.offset_bytes = extent_hint(g, map.offset_bytes);
  for (uint32_t j = 0; j < map.rank; j++) {
    map.extent[j] = extent_hint(g, map.extent[j]);
    map.stride[j] = extent_hint(g, map.stride[j]);
  }
  for (uint32_t j = 0; map.im2col && j + 2 < map.rank; j++) {
    map.lower_corner[j] = extent_hint(g, map.lower_corner[j]);
    map.upper_corner[j] = extent_hint(g, map.upper_corner[j]);
    map.traversal_stride[j] = extent_hint(g, map.traversal_stride[j]);
  }
  return tensor_map_is_encodable(&map);
}

/* ---- tiled mode ---- */

/* True if the axes can be collapsed into one; *stride and *extent describe
 * it. */
static bool collapse_axes(const LoopNest *loop, const AffineExpr *at,
                          uint32_t count, const uint32_t *axes, int64_t *stride,
                          int64_t *extent) {
  bool any = false;
  *stride = 0;
  *extent = 1;
  for (uint32_t j = count; j-- > 0;) {
    int64_t times = at->coef[axes[j]];
    if (loop->extents[axes[j]] == 1)
      continue;
    if (!any)
      *stride = times;
    else if (times != product_of(loop, *stride, *extent))
      return false;
    any = true;
    *extent = product_of(loop, *extent, loop->extents[axes[j]]);
  }
  return *extent != INT64_MAX;
}

static bool add_axis(const LoopNest *loop, TensorMap *m, int64_t stride,
                     int64_t extent) {
  uint32_t j = m->rank;
  if (j == TENSOR_MAP_MAX_RANK)
    return false;
  m->stride[j] = bytes_of(loop, m->dtype, stride);
  if (j && extent == 1) /* stride is unused */
    m->stride[j] = TENSOR_MAP_ALIGN_BYTES;
  m->extent[j] = extent;
  m->box[j] = 1;
  m->rank++;
  return true;
}

static bool tensor_map_at(const LoopNest *loop, const AffineExpr *at, Dtype t,
                          const AxisList axes[3], TensorMap *to) {
  int64_t stride[2], extent[2];
  *to =
      (TensorMap){.dtype = t, .offset_bytes = bytes_of(loop, t, at->constant)};
  if (to->offset_bytes < 0)
    return false;
  for (uint32_t j = 0; j < 2; j++)
    if (!collapse_axes(loop, at, axes[j].count, axes[j].axes, &stride[j],
                       &extent[j]) ||
        (j == 0 && stride[0] != 1 && extent[0] != 1) ||
        !add_axis(loop, to, j ? stride[1] : 1, extent[j]))
      return false;
  for (uint32_t j = axes[2].count; j-- > 0;) {
    uint32_t v = axes[2].axes[j];
    if (at->coef[v] && !add_axis(loop, to, at->coef[v], loop->extents[v]))
      return false;
  }
  to->box[0] = TENSOR_MAP_ALIGN_BYTES / dtype_info[to->dtype].bytes;
  return may_be_encodable(loop, *to);
}

bool tensor_map_of_load(const LoopNest *loop, const KernelOp *read,
                        const AxisList axes[3], TensorMap *to) {
  return read && tensor_map_at(loop, read->address, read->dtype, axes, to);
}

bool tensor_map_of_output(const LoopNest *loop, const LoopOutput *r,
                          const AxisList axes[3], TensorMap *to) {
  return tensor_map_at(loop, r->global_index, r->dtype, axes, to);
}

bool gemm_pass_output_map(const GemmPass *t, const LoopNest *loop,
                          const LoopOutput *r, TensorMap *to) {
  const AxisList axes[] = {
      {t->n_count, t->n}, {t->m_count, t->m}, {t->batch_count, t->batch}};
  return tensor_map_of_output(loop, r, axes, to);
}

/* The tensor map of A, or of B.  Its k axis consists of all k axes, or with
 * `taps` only of the last one: those before it are filter taps, and become
 * batch axes. */
static bool operand_tensor_map(const GemmPass *t, const LoopNest *loop, bool b,
                               bool taps, TensorMap *to) {
  bool mn_major = b ? t->shape.b.mn_major : t->shape.a.mn_major;
  uint32_t batch_axes[2 * MAX_KERNEL_AXES], count = 0;
  for (uint32_t j = 0; j < t->batch_count; j++)
    batch_axes[count++] = t->batch[j];
  for (uint32_t j = 0; taps && j + 1 < t->k_count; j++)
    batch_axes[count++] = t->k[j];
  AxisList terms = {taps ? 1 : t->k_count, taps ? t->k + t->k_count - 1 : t->k};
  AxisList rows = {b ? t->n_count : t->m_count, b ? t->n : t->m},
           batch = {count, batch_axes};
  const AxisList axes[] = {mn_major ? rows : terms, mn_major ? terms : rows,
                           batch};
  if ((b ? &t->predicates_b : &t->predicates_a)->count)
    return false;
  return tensor_map_of_load(loop, b ? t->load_b : t->load_a, axes, to);
}

/* ---- im2col mode ---- */

/* A common divisor; of static sizes, the greatest one. */
static int64_t common_divisor(const LoopNest *loop, int64_t x, int64_t y) {
  const Graph *g = loop->graph;
  if (extent_is_static(g, x) && extent_is_static(g, y))
    return int_gcd(x, y);
  return !y || exact_quotient(loop, y, x) ? x
         : exact_quotient(loop, x, y)     ? y
                                          : 1;
}

static bool depends_on(const AffineExpr *q, uint32_t m, uint32_t k) {
  return q->coef[m] || (k != NO_AXIS && q->coef[k]);
}

/* Finds the predicate on a spatial axis; NULL: there is none.  False: there
 * are several. */
static bool spatial_predicate(const GemmPass *t, uint32_t m, uint32_t k,
                              const AffineExpr **predicate, int64_t *extent) {
  *predicate = NULL;
  for (uint32_t i = 0; i < t->predicates_a.count; i++)
    if (depends_on(&t->predicates_a.index[i], m, k)) {
      if (*predicate)
        return false;
      *predicate = &t->predicates_a.index[i];
      *extent = t->predicates_a.extent[i];
    }
  return true;
}

/* The stride of one pixel, such that address strides are predicate
 * coefficients times this stride; 0: there is no such stride. */
static int64_t pixel_stride(const GemmPass *t, const LoopNest *loop,
                            const AffineExpr *predicate, uint32_t m,
                            uint32_t k) {
  const AffineExpr *at = t->load_a->address;
  int64_t by = predicate->coef[m] > 0
                   ? exact_quotient(loop, at->coef[m], predicate->coef[m])
                   : 0;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (v == m || v == k
            ? product_of(loop, predicate->coef[v], by) != at->coef[v]
            : predicate->coef[v] != 0)
      return 0;
  return by;
}

/* Adds a spatial axis.  Row axis m and filter tap axis k move along it
 * (NO_AXIS: there is no tap).  At most one predicate bounds it. */
static bool add_spatial_axis(const GemmPass *t, const LoopNest *loop,
                             uint32_t m, uint32_t k, Im2colOperand *to) {
  const AffineExpr *at = t->load_a->address, *predicate;
  uint32_t j = to->spatial_axes;
  bool tap = k != NO_AXIS;
  int64_t step = at->coef[m], dilation = tap ? at->coef[k] : 0, by, end;
  TensorMap *map = &to->tensor_map;
  int64_t *extent = &map->extent[j + 1];
  if (step < 1 || (tap && dilation < 1) ||
      !spatial_predicate(t, m, k, &predicate, extent) ||
      (tap && !extent_is_static(loop->graph, loop->extents[k])))
    return false;
  by = predicate ? pixel_stride(t, loop, predicate, m, k)
                 : common_divisor(loop, step, dilation);
  if (!by)
    return false;
  int64_t max_tap = tap ? loop->extents[k] - 1 : 0;
  to->stride[j] = map->traversal_stride[j] = exact_quotient(loop, step, by);
  to->dilation[j] = exact_quotient(loop, dilation, by);
  if (to->dilation[j] > MAX_IM2COL_OFFSET)
    return false;
  map->lower_corner[j] = predicate ? predicate->constant : 0;
  end = extent_sub_saturating(loop->graph, loop->extents[m], 1);
  end =
      sum_of(loop, map->lower_corner[j], product_of(loop, end, to->stride[j]));
  if (!predicate) {
    *extent = sum_of(loop, end, product_of(loop, max_tap, to->dilation[j]));
    *extent = sum_of(loop, *extent, 1);
  }
  map->upper_corner[j] = extent_sub_saturating(
      loop->graph, end, extent_sub_saturating(loop->graph, *extent, 1));
  map->stride[j + 1] = bytes_of(loop, map->dtype, by);
  map->offset_bytes = extent_sub_saturating(
      loop->graph, map->offset_bytes,
      product_of(loop, map->lower_corner[j], map->stride[j + 1]));
  to->m[j] = m;
  to->k[j] = k;
  to->predicate_count += predicate != NULL;
  to->spatial_axes++;
  return product_of(loop, max_tap, to->dilation[j]) <= MAX_IM2COL_OFFSET &&
         (!extent_is_static(loop->graph, *extent) || *extent < INT32_MAX);
}

/* The same, with the last unmatched tap axis if that matches, otherwise without
 * a tap axis.  *unmatched_taps: number of tap axes that no spatial axis has. */
static bool match_spatial_axis(const GemmPass *t, const LoopNest *loop,
                               uint32_t m, uint32_t *unmatched_taps,
                               Im2colOperand *to) {
  Im2colOperand before = *to;
  if (*unmatched_taps &&
      add_spatial_axis(t, loop, m, t->k[*unmatched_taps - 1], to)) {
    --*unmatched_taps;
    return true;
  }
  *to = before;
  return add_spatial_axis(t, loop, m, NO_AXIS, to);
}

/* Matches an im2col operand: a tensor of channels, spatial axes and images.
 * The last row axes are pixels; the k axes before the last one are filter
 * taps. */
static bool match_im2col(GemmPass *t, const LoopNest *loop) {
  Im2colOperand *p = &t->im2col;
  const KernelOp *read = t->load_a;
  int64_t stride, extent;
  uint32_t taps = t->k_count - 1, unmatched_taps = taps,
           count = taps == t->m_count ? taps : t->m_count - 1;
  *p = (Im2colOperand){0};
  if (!read || t->shape.a.mn_major || t->batch_count || !count ||
      count > GEMM_MAX_SPATIAL_AXES || read->address->coef[t->k[taps]] != 1)
    return false;
  TensorMap *map = &p->tensor_map;
  *map = (TensorMap){.dtype = read->dtype, .im2col = true};
  map->offset_bytes = bytes_of(loop, read->dtype, read->address->constant);
  map->stride[0] = dtype_info[read->dtype].bytes;
  map->extent[0] = loop->extents[t->k[taps]];
  for (uint32_t j = 0; j < count; j++)
    if (!match_spatial_axis(t, loop, t->m[t->m_count - 1 - j], &unmatched_taps,
                            p))
      return false;
  p->is_batched = t->m_count > count;
  stride = p->is_batched ? read->address->coef[t->m[0]] : 0;
  extent = p->is_batched ? loop->extents[t->m[0]] : 1;
  map->rank = count + 2;
  map->extent[count + 1] = extent;
  map->stride[count + 1] = extent == 1 ? TENSOR_MAP_ALIGN_BYTES
                                       : bytes_of(loop, read->dtype, stride);
  map->box[0] = TENSOR_MAP_ALIGN_BYTES / dtype_info[read->dtype].bytes;
  for (uint32_t j = 1; j < map->rank; j++)
    map->box[j] = 1;
  return !unmatched_taps && p->predicate_count == t->predicates_a.count &&
         map->offset_bytes >= 0 && may_be_encodable(loop, *map);
}

/* Without padding, the channels and the next filter tap axis are one
 * contiguous axis.  Returns the channels of one pixel; 0: not a convolution. */
static int64_t conv_channels(const LoopNest *loop, const KernelOp *s) {
  uint32_t last = loop->axis_count - 1;
  int64_t extent = loop->extents[last];
  if (s->kind != KOP_LOAD || s->checked_index_count ||
      affine_has_floor_divs(s->address) || s->address->coef[last] != 1 ||
      !extent_is_static(loop->graph, extent))
    return 0;
  for (uint32_t v = 0; v < loop->spatial_axes; v++) {
    int64_t step = s->address->coef[v], channels = int_gcd(extent, step);
    if (step > 1 && step < extent && channels < extent &&
        channels * dtype_info[s->dtype].bytes % TENSOR_MAP_ALIGN_BYTES == 0)
      return channels;
  }
  return 0;
}

int64_t gemm_pass_conv_channels(const LoopNest *loop) {
  int64_t channels = 0;
  if (loop->trim_bounds || loop->axis_count == loop->spatial_axes ||
      loop->axis_count == MAX_KERNEL_AXES)
    return 0;
  for (uint32_t j = 0; j < loop->ops.len && !channels; j++)
    channels = conv_channels(loop, &loop->ops.at[j]);
  return channels;
}

/* Computed operands need no tensor map. */
void gemm_pass_find_tensor_maps(GemmPass *t, const LoopNest *loop) {
  GemmShape *s = &t->shape;
  bool encodable = false;
  for (uint32_t taps = 0; taps < 2 && !encodable; taps++) {
    if (taps && t->k_count < 2 && t->m_count < 2)
      return;
    bool b =
        !t->load_b || operand_tensor_map(t, loop, true, taps, &t->tensor_map_b);
    bool a = b && (!t->load_a ||
                   operand_tensor_map(t, loop, false, taps, &t->tensor_map_a));
    s->im2col = b && !a && taps && match_im2col(t, loop);
    if (s->im2col)
      t->tensor_map_a = t->im2col.tensor_map;
    encodable = a || s->im2col;
    s->a.tma_copyable = encodable && t->load_a;
    s->b.tma_copyable = encodable && t->load_b;
    if (taps && encodable) {
      int64_t inner = loop_extent_hint(loop, t->k[t->k_count - 1]);
      s->inner_k = inner > 0 ? (double)inner : 1;
    }
  }
}

void gemm_pass_set_box(const GemmPass *t, bool b, TensorMap *map) {
  uint32_t box[2];
  gemm_tma_box(&t->shape, &t->s, b, box, &map->swizzle);
  map->box[0] = box[0];
  map->box[1] = box[1];
}

void tensor_map_set_output_box(const GemmShape *shape, const GemmSchedule *s,
                               TensorMap *map) {
  uint32_t box[2];
  gemm_tma_store_box(shape, s, map->dtype, box, &map->swizzle);
  map->box[0] = box[0];
  map->box[1] = box[1];
}
