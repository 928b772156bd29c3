/* Cost model for the vectorized axis. */
#include "backend/cpu/vector_axis.h"

#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_parts.h"
#include "kernel/trim_no_ops.h"
#include "machine/limits/cpu.h"

#include <math.h>

static bool is_64bit(const KernelOp *s) {
  return s->dtype == DT_F64 || (s->dtype == DT_I64 && s->kind != KOP_AFFINE &&
                                s->kind != KOP_CONST && !emit_fits_i32(s));
}

/* True if loads along v compute the index in scalars: it is a sum of an index
 * and a number that is equal in all lanes. */
static bool is_row_part(const LoopNest *loop, const uint64_t *depends,
                        uint32_t index_op, uint32_t v, int64_t *stride) {
  uint32_t start;
  const KernelOp *index = loop_index_affine(loop, index_op, &start);
  if (!index || start == NO_OP || depends[start] >> v & 1)
    return false;
  *stride = index->affine->coef[v];
  return true;
}

static bool loop_needs_64bit(Arena *arena, const LoopNest *loop,
                             const uint64_t *depends, uint32_t v) {
  const bool *is_value = loop_value_ops(arena, loop);
  for (uint32_t i = 0; i < loop->ops.len; i++) {
    int64_t stride;
    if (is_64bit(&loop->ops.at[i]) &&
        (depends
             ? depends[i] >> v & 1 &&
                   (is_value[i] || !is_row_part(loop, depends, i, v, &stride) ||
                    stride != 1)
             : is_value[i]))
      return true;
  }
  return false;
}

bool vector_axis_needs_64bit(const Kernel *k, const uint32_t *vector_axes) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (loop_needs_64bit(k->arena, loop,
                         vector_axes ? loop_op_vars(k->arena, loop) : NULL,
                         vector_axes ? vector_axes[j] : NO_AXIS))
      return true;
  }
  return false;
}

static bool is_byte(Dtype t) {
  return t == DT_U8 || t == DT_I8 || t == DT_BOOL;
}

/* Operations that C computes on vectors of bytes. */
static const bool computes_bytes[PRIM_COUNT] = {
    [PRIM_ADD] = true,     [PRIM_SUB] = true,     [PRIM_MUL] = true,
    [PRIM_MAXIMUM] = true, [PRIM_MINIMUM] = true, [PRIM_EQ] = true,
    [PRIM_NE] = true,      [PRIM_LT] = true,      [PRIM_LE] = true,
    [PRIM_GT] = true,      [PRIM_GE] = true,      [PRIM_AND] = true,
    [PRIM_OR] = true,      [PRIM_NOT] = true,     [PRIM_BIT_AND] = true,
    [PRIM_BIT_OR] = true,  [PRIM_BIT_XOR] = true, [PRIM_BIT_NOT] = true,
    [PRIM_SELECT] = true};

bool loop_op_is_byte_term(const LoopNest *loop, uint32_t at) {
  const KernelOp *s = &loop->ops.at[at];
  bool is_term = s->kind == KOP_CONVERT &&
                 is_byte(loop->ops.at[s->args[0]].dtype) &&
                 (s->dtype == DT_I64 || s->dtype == DT_I32);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    for (uint32_t a = 0; a < loop->ops.at[j].arg_count; a++)
      is_term &= loop->ops.at[j].args[a] != at;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    is_term &= loop->outputs.at[j].value_op != at ||
               reduce_info[loop->outputs.at[j].reduce].combine == PRIM_ADD;
  return is_term;
}

static bool op_fits_bytes(const LoopNest *loop, uint32_t at, uint32_t v) {
  const KernelOp *s = &loop->ops.at[at];
  if (v >= loop->spatial_axes && loop_op_is_byte_term(loop, at))
    return true;
  if (!is_byte(s->dtype))
    return false;
  switch (s->kind) {
  case KOP_CONST:
  case KOP_CONVERT:
    return true;
  case KOP_LOAD:
    return !s->checked_index_count && s->address->coef[v] >= -1 &&
           s->address->coef[v] <= 1;
  case KOP_MAP:
    return computes_bytes[s->op];
  case KOP_AFFINE:
  case KOP_LOAD_LOCAL:
  case KOP_SELECT:
  case KOP_RANDOM:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    return false;
  }
  return false;
}

static bool depends_on_quotients(const LoopNest *loop) {
  bool depends = false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    depends |= q && affine_has_floor_divs(q);
  }
  return depends;
}

/* Returns true if all outputs are contiguous bytes, or sums of bytes. */
static bool stores_bytes(const LoopNest *loop, uint32_t v) {
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    bool is_stored = v < loop->spatial_axes;
    bool is_sum = !is_stored && loop_op_is_byte_term(loop, r->value_op);
    if ((!is_byte(r->dtype) && !is_sum) || r->local_index || !r->global_index ||
        prim_is_arg_reduction(r->reduce) ||
        (is_stored && r->global_index->coef[v] != 1))
      return false;
  }
  return true;
}

static bool loop_fits_bytes(const LoopNest *loop, uint32_t v, uint32_t width) {
  if (v == NO_AXIS || loop->staging || depends_on_quotients(loop) ||
      loop_extent_hint(loop, v) < width)
    return false;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (!op_fits_bytes(loop, j, v))
      return false;
  return stores_bytes(loop, v);
}

bool vector_axis_needs_parts(const Schedule *s, const LoopNest *loop,
                             uint32_t v) {
  return schedule_has_byte_lanes(s) && !loop_fits_bytes(loop, v, s->width);
}

/* Returns true if the operations fit in each part of the axis. */
static bool parts_fit_bytes(const Kernel *k, const LoopNest *loop, uint32_t v,
                            uint32_t width) {
  LoopPart parts[MAX_LOOP_PARTS];
  uint32_t count =
      stores_bytes(loop, v) ? vector_axis_parts(k, loop, v, width, parts) : 0;
  for (uint32_t j = 0; j < count; j++)
    if (!loop_fits_bytes(parts[j].loop, v, width))
      return false;
  return count > 0;
}

bool vector_axis_fits_bytes(const Kernel *k, const Schedule *s,
                            uint32_t width) {
  if (s->gemm_tilings || s->small_product || s->transpose || s->strip_length)
    return false;
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (!loop_fits_bytes(k->loops.at[j], s->vector_axes[j], width) &&
        !parts_fit_bytes(k, k->loops.at[j], s->vector_axes[j], width))
      return false;
  return true;
}

/* ---- cost of vectors along an axis ---- */

static bool has_reduction(const LoopNest *loop) {
  return loop->axis_count > loop->spatial_axes;
}

static double access_cost(int64_t stride, double width) {
  return stride == 0 ? 0.5 : stride == 1 ? 1 : width;
}

/* A load with a small stride loads all elements between and deinterleaves them.
 * Stride -1 reverses the lanes. */
static double load_cost(int64_t stride, double width) {
  if (stride == -1)
    return fmin(REVERSE_COST, width);
  return stride > 1 && stride <= MAX_DEINTERLEAVE && stride < width
             ? (double)stride
             : access_cost(stride, width);
}

/* A store with a small stride uses masked vector stores if the machine has
 * them. */
static double store_cost(int64_t stride, double width) {
  return stride > 1 && stride <= MAX_DEINTERLEAVE &&
                 width >= MIN_MASKED_STORE_LANES
             ? (double)stride
             : access_cost(stride, STRIDED_STORE_FACTOR * width);
}

/* Vectors of a short axis are shuffled, and stored together. */
static double output_cost(const LoopNest *loop, const LoopOutput *r, uint32_t v,
                          double width) {
  return interleave_axis(loop, v, (uint32_t)width) != NO_AXIS
             ? INTERLEAVED_STORE_COST
             : store_cost(r->global_index->coef[v], width);
}

/* Cost of floor divisions that differ along v.  Usually all lanes have the same
 * quotient, which is tested; otherwise lanes are loaded one by one. */
static double quotient_cost(const LoopNest *loop, const AffineExpr *q,
                            uint32_t v, double width) {
  double cost = 0;
  for (uint32_t j = 0; j < loop->floor_div_count; j++) {
    const FloorDiv *part = &loop->floor_divs[j];
    if (!q->coef[MAX_KERNEL_AXES + j])
      continue;
    for (uint32_t i = 0; i < j; i++)
      if (part->dividend.coef[MAX_KERNEL_AXES + i] &&
          loop->floor_divs[i].dividend.coef[v])
        return width;
    const Graph *g = loop->graph;
    double coef = fabs((double)extent_hint(g, part->dividend.coef[v]));
    if (coef > 0 && (double)extent_hint(g, part->divisor) <
                        MIN_UNIFORM_QUOTIENT_VECTORS * width * coef)
      return width;
    cost += coef > 0 ? QUOTIENT_COST : 0;
  }
  return cost;
}

/* A data-dependent index is a gather.  A computed index adds its stride to the
 * address. */
static double read_cost(const LoopNest *loop, const uint64_t *depends,
                        const KernelOp *s, uint32_t v, double width) {
  int64_t stride = s->address->coef[v];
  double quotients = quotient_cost(loop, s->address, v, width);
  if (quotients >= width)
    return quotients;
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    uint32_t index_op = s->checked_indices[j].index_op;
    const KernelOp *index = &loop->ops.at[index_op];
    int64_t index_stride;
    if (!(depends[index_op] >> v & 1))
      continue;
    if (index->kind == KOP_AFFINE)
      index_stride = index->affine->coef[v];
    else if (!is_row_part(loop, depends, index_op, v, &index_stride) ||
             index_stride != 1)
      return width;
    if (!extent_mul(loop->graph, index_stride, s->checked_indices[j].stride,
                    &index_stride) ||
        !extent_add(loop->graph, stride, index_stride, &stride))
      return width;
  }
  return load_cost(stride, width) + quotients;
}

bool loop_is_arg_reduction(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (prim_is_arg_reduction(loop->outputs.at[j].reduce))
      return true;
  return false;
}

static bool result_is_awaited(const LoopNest *loop) {
  bool local = false;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    local |= loop->outputs.at[j].local_index != NULL;
  return local || loop_is_arg_reduction(loop);
}

/* Cost of one vector of staged data. */
static double staging_cost(const LoopNest *loop, const AffineExpr *q,
                           double width) {
  double contiguous = 1;
  for (uint32_t v = loop->parallel_axes; v < loop->axis_count; v++)
    if (q->coef[v] == 1)
      contiguous = (double)loop_extent_hint(loop, v);
  double transposed = TRANSPOSE_VECTOR_COST * width / fmin(contiguous, width);
  return 1 + fmin(transposed, 1.5 * width);
}

/* Cost of a strided load, or of its staged copy, which many iterations
 * share. */
static double strided_cost(const LoopNest *loop, const KernelOp *s, uint32_t v,
                           double width, double cost) {
  double elements;
  if (v >= loop->parallel_axes || !loop_load_is_strided(loop, s, v, &elements))
    return cost;
  double points =
      loop_iterations_hint(loop, loop->parallel_axes, loop->axis_count);
  double staged = 1 + staging_cost(loop, s->address, width) * elements / points;
  return s->address->coef[v] <= MAX_DEINTERLEAVE ? fmin(cost, staged) : staged;
}

/* Cost of one iteration, in vector loads. may_stage: strided accesses may be
 * staged. */
static double vectorized_cost(const LoopNest *loop, const uint64_t *depends,
                              uint32_t v, uint32_t width, bool may_stage) {
  double cost = 1, extent = (double)loop_extent_hint(loop, v), w = width;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD) {
      double read = read_cost(loop, depends, s, v, w);
      cost += may_stage ? strided_cost(loop, s, v, w, read) : read;
    }
    if (s->kind == KOP_LOAD_LOCAL)
      cost += v < loop->parallel_axes ? 1 : load_cost(s->address->coef[v], w);
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if (may_stage && v < loop->parallel_axes &&
        loop_store_is_strided(loop, r, v))
      cost += 1 + staging_cost(loop, r->global_index, w);
    else if (r->global_index && v < loop->spatial_axes && !has_reduction(loop))
      cost += output_cost(loop, r, v, w);
  }
  double vectors = (double)ceil_div(loop_extent_hint(loop, v), width);
  cost *= vectors * w / extent;
  if (has_reduction(loop) && v < loop->spatial_axes)
    cost += 1;
  else if (has_reduction(loop))
    cost += (result_is_awaited(loop) ? AWAITED_REDUCTION_COST
                                     : HORIZONTAL_REDUCTION_COST) *
            w / extent;
  return cost;
}

/* ---- staging ---- */

typedef struct StridedAccesses { /* strided accesses of a kernel */
  uint32_t count;                /* number of different loads */
  bool has_stores;               /* some stores are strided */
  bool is_shuffled; /* all have small strides, and the stores are interleaved */
  uint32_t inputs[MAX_KERNEL_VARS];
  double bytes_per_point,
      elements_per_point[MAX_KERNEL_VARS]; /* per iteration of the parallel axes
                                            */
} StridedAccesses;

static void add_strided_load(StridedAccesses *a, const KernelOp *s, uint32_t v,
                             double elements) {
  a->is_shuffled &= s->address->coef[v] <= MAX_DEINTERLEAVE;
  for (uint32_t j = 0; j < a->count; j++)
    if (a->inputs[j] == s->input && a->elements_per_point[j] == elements)
      return;
  if (a->count < MAX_KERNEL_VARS) {
    a->inputs[a->count] = s->input;
    a->elements_per_point[a->count++] = elements;
  }
  a->bytes_per_point += elements * dtype_info[s->dtype].bytes;
}

static void add_strided_store(StridedAccesses *a, const LoopNest *loop,
                              const LoopOutput *r, uint32_t v, uint32_t width) {
  if (!loop_store_is_strided(loop, r, v))
    return;
  a->has_stores = true;
  a->is_shuffled &=
      !has_reduction(loop) && interleave_axis(loop, v, width) != NO_AXIS;
  if (!r->local_index)
    a->bytes_per_point +=
        loop_iterations_hint(loop, loop->parallel_axes, loop->spatial_axes) *
        dtype_info[r->dtype].bytes;
}

static bool has_products(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->spatial_axes > k->parallel_axes &&
        loop_is_contraction(k->loops.at[j]))
      return true;
  return false;
}

double vector_axis_min_task_lanes(const Kernel *k, uint32_t v, uint32_t width) {
  double min_lanes = MIN_STAGED_VECTORS * (double)width;
  return kernel_local_bytes(k, true) * min_lanes <= MAX_ROWS_L2_BYTES &&
                 loop_iterations_hint(k->loops.at[0], v, v + 1) >=
                     MIN_STAGED_TASKS * min_lanes
             ? min_lanes
             : width;
}

bool vector_axis_staging_pays(const Kernel *k, uint32_t v, uint32_t width) {
  StridedAccesses a = {.is_shuffled = true};
  double elements;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (loop_load_is_strided(loop, &loop->ops.at[i], v, &elements))
        add_strided_load(&a, &loop->ops.at[i], v, elements);
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      add_strided_store(&a, loop, &loop->outputs.at[i], v, width);
  }
  double points = loop_iterations_hint(k->loops.at[0], v, v + 1);
  double min_lanes = vector_axis_min_task_lanes(k, v, width),
         rows = kernel_local_bytes(k, true);
  if (width == 1 || (a.count == 0 && !a.has_stores) ||
      points < MIN_STAGED_TASKS * min_lanes ||
      (a.has_stores && a.is_shuffled && !has_products(k)))
    return false;
  return has_products(k)
             ? min_lanes > width &&
                   (a.bytes_per_point + rows) * min_lanes <= MAX_STAGED_L1_BYTES
             : a.bytes_per_point * min_lanes <= MAX_STAGED_L1_BYTES &&
                   rows * min_lanes <= MAX_ROWS_BYTES;
}

/* ---- selection ---- */

uint32_t vector_axis_best_inner(Arena *arena, const LoopNest *loop,
                                uint32_t width, double *cost) {
  const uint64_t *depends = loop_op_vars(arena, loop);
  uint32_t best = NO_AXIS;
  *cost = width;
  for (uint32_t v = loop->parallel_axes; v < loop->axis_count; v++) {
    double c = vectorized_cost(loop, depends, v, width, false);
    if (loop_is_arg_reduction(loop) && has_reduction(loop) &&
        v + 1 < loop->axis_count)
      continue; /* argmax must find the first of equal elements */
    if (best == NO_AXIS || c <= *cost) {
      *cost = c;
      best = v;
    }
  }
  return best;
}

static double loop_iterations(const LoopNest *loop) {
  return loop_iterations_hint(loop, 0, loop->axis_count);
}

static double inner_axes_cost(const Kernel *k, uint32_t width) {
  double all = 0, cost;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    vector_axis_best_inner(k->arena, k->loops.at[j], width, &cost);
    all += cost * loop_iterations(k->loops.at[j]);
  }
  return all;
}

static double outer_axis_cost(const Kernel *k, uint32_t v, uint32_t width) {
  bool may_stage = vector_axis_staging_pays(k, v, width);
  bool spills_l2 =
      may_stage && kernel_local_bytes(k, true) * width > MAX_ROWS_L2_BYTES;
  double all = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    all += loop_iterations(loop) * vectorized_cost(loop,
                                                   loop_op_vars(k->arena, loop),
                                                   v, width, may_stage);
    for (uint32_t i = 0; i < loop->outputs.len && spills_l2; i++)
      if (loop->outputs.at[i].local_index)
        all += L2_MISS_VECTOR_COST *
               loop_iterations_hint(loop, 0, loop->spatial_axes);
  }
  return all;
}

uint32_t vector_axis_best_outer(const Kernel *k, uint32_t width) {
  bool has_inner_axes = k->parallel_axes == 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    has_inner_axes |= k->loops.at[j]->axis_count > k->parallel_axes;
  double best = has_inner_axes ? inner_axes_cost(k, width) : 0;
  uint32_t vector_axis = NO_AXIS;
  for (uint32_t v = k->parallel_axes; v-- > 0;) {
    double cost = outer_axis_cost(k, v, width);
    if ((vector_axis == NO_AXIS && !has_inner_axes) || cost < best) {
      best = cost;
      vector_axis = v;
    }
  }
  return vector_axis;
}

/* ---- matmuls with few columns ---- */

/* Cost of register tiles.  The last tile may have idle lanes. */
static double gemm_tile_cost(const LoopNest *loop, double width) {
  double columns = (double)loop_extent_hint(loop, loop->spatial_axes - 1);
  double vectors = ceil(columns / width);
  double terms =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  bool is_full = vectors * width == columns;
  return loop_iterations(loop) / (columns * terms) * vectors * width *
         (TILE_TERM_COST * terms + (is_full ? 0 : EDGE_TILE_COST));
}

/* Cost of vectors along a parallel axis. */
static double product_outer_axis_cost(const LoopNest *loop, uint32_t v,
                                      double width) {
  double cost = OUTER_AXIS_TERM_COST,
         points =
             loop_iterations_hint(loop, loop->parallel_axes, loop->axis_count);
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    double elements;
    const KernelOp *s = &loop->ops.at[j];
    if (loop_load_is_strided(loop, s, v, &elements))
      cost += staging_cost(loop, s->address, width) * elements / points;
  }
  return cost * loop_iterations(loop);
}

static double kernel_tiles_cost(const Kernel *k, uint32_t width) {
  double all = 0, cost;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    vector_axis_best_inner(k->arena, loop, width, &cost);
    all += loop_is_contraction(loop) ? gemm_tile_cost(loop, width)
                                     : cost * loop_iterations(loop);
  }
  return all;
}

static double kernel_outer_axis_cost(const Kernel *k, uint32_t v,
                                     uint32_t width) {
  double all = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    const uint64_t *depends = loop_op_vars(k->arena, loop);
    all += loop_is_contraction(loop)
               ? product_outer_axis_cost(loop, v, width)
               : vectorized_cost(loop, depends, v, width, true) *
                     loop_iterations(loop);
  }
  return all;
}

uint32_t vector_axis_beats_gemm(const Kernel *k, uint32_t width) {
  if (k->vectorize_outer || !has_products(k))
    return k->vectorize_outer ? k->parallel_axes - 1 : NO_AXIS;
  double best = kernel_tiles_cost(k, width);
  uint32_t vector_axis = NO_AXIS;
  for (uint32_t v = k->parallel_axes; v-- > 0;) {
    double cost = vector_axis_staging_pays(k, v, width)
                      ? kernel_outer_axis_cost(k, v, width)
                      : best;
    if (cost < best) {
      best = cost;
      vector_axis = v;
    }
  }
  return vector_axis;
}
