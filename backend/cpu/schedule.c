/* Chooses the schedule of a kernel from its access patterns. */
#include "backend/cpu/small_product.h"
#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/narrow_product.h"
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/vector_axis.h"
#include "backend/cpu/cpu.h"
#include "kernel/roofline.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_BYTE_LANES = 32 }; /* as in backend/cpu/prelude/vector_types.inc */

/* ---- task sizes ---- */

static double outer_points(const Kernel *k) {
  return loop_iterations_hint(k->loops.at[0], 0, k->parallel_axes);
}

static bool has_reduction(const LoopNest *loop) {
  return loop->axis_count > loop->spatial_axes;
}

static double loop_iterations(const LoopNest *loop) {
  return loop_iterations_hint(loop, 0, loop->axis_count);
}

bool schedule_can_split(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  return k->loops.len == 1 && loop->outputs.len == 1 && has_reduction(loop) &&
         loop->spatial_axes == loop->parallel_axes &&
         loop->outputs.at[0].global_index;
}

/* Returns true if consecutive terms of a long reduction are in different
 * pages. */
static bool terms_span_pages(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  if (!schedule_can_split(k) || loop_iterations(loop) < MIN_SPLIT_OPS)
    return false;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD && loop->ops.at[j].checked_index_count)
      return false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    for (uint32_t v = loop->spatial_axes;
         s->kind == KOP_LOAD && v < loop->axis_count; v++)
      if (extent_hint(loop->graph, s->address->coef[v]) >=
          PAGE_STRIDE_BYTES / dtype_info[s->dtype].bytes)
        return true;
  }
  return false;
}

static int64_t choose_task_columns(const Kernel *k, const Schedule *s) {
  uint32_t width = s->width;
  int64_t extent = loop_extent_hint(k->loops.at[0], k->parallel_axes - 1),
          block;
  double rows = outer_points(k) / (double)extent,
         local = kernel_local_bytes(k, true);
  bool any_reduction = false;
  double terms = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    double ops_per_term = loop_iterations(k->loops.at[j]) / outer_points(k);
    any_reduction |= has_reduction(k->loops.at[j]);
    terms = ops_per_term > terms ? ops_per_term : terms;
  }
  block = extent;
  if (terms_span_pages(k)) {
    int64_t max = PAGE_STRIDE_ROW_VECTORS * width;
    return extent < max ? ceil_div(extent, width) * width : max;
  }
  if (rows < MIN_MAP_TASKS) {
    block = ceil_div((int64_t)((double)extent * rows), MIN_MAP_TASKS);
    block =
        block < MIN_TASK_COLUMNS && !any_reduction ? MIN_TASK_COLUMNS : block;
  }
  int64_t max = terms <= MAX_REGISTER_TERMS || k->vectorize_outer
                    ? schedule_max_accumulators(s->vector_bytes) * width
                    : MAX_COLUMN_VECTORS * width;
  double bytes =
      k->vectorize_outer ? MAX_STAGED_LOCAL_BYTES : MAX_COLUMN_LOCAL_BYTES;
  if ((any_reduction || k->vectorize_outer) && block > max)
    block = max;
  if (local * (double)block > bytes)
    block = (int64_t)(bytes / local) / width * width;
  int64_t min = 4 * width;
  if (k->vectorize_outer)
    min = (int64_t)vector_axis_min_task_lanes(k, k->parallel_axes - 1, width);
  block = block < min ? min : block;
  block = block < extent ? block : extent;
  max = INT32_MAX / width * width; /* tiles have no more iterations */
  return block < max ? ceil_div(block, width) * width : max;
}

static void choose_reduction_chunk(const Kernel *k, Schedule *s) {
  const LoopNest *loop = k->loops.at[0];
  if (!schedule_can_split(k))
    return;
  double tasks = outer_points(k), iterations = loop_iterations(loop);
  if (s->task_kind == TASK_COLUMNS)
    tasks /= (double)s->last_axis_block;
  if (tasks >= MIN_UNSPLIT_TASKS || iterations < MIN_SPLIT_OPS)
    return;
  int64_t extent = loop_extent_hint(loop, loop->spatial_axes);
  double ops_per_term = iterations / outer_points(k) / (double)extent;
  if (s->task_kind == TASK_COLUMNS)
    ops_per_term *= (double)s->last_axis_block;
  int64_t chunk = (int64_t)(MIN_CHUNK_TERMS / ops_per_term) + 1;
  int64_t min = ceil_div(extent, MAX_REDUCTION_CHUNKS);
  if (s->task_kind == TASK_COLUMNS && min < MIN_CHUNK_ROWS)
    min = MIN_CHUNK_ROWS;
  chunk = chunk > min ? chunk : min;
  int64_t max = (int64_t)(MAX_TASK_TERMS / ops_per_term) + 1;
  s->reduction_chunk = chunk < max ? chunk : max;
}

uint32_t schedule_transpose_axis(const Kernel *k, uint32_t vector_axis) {
  uint32_t found = NO_AXIS;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (loop->axis_count > k->parallel_axes)
      return NO_AXIS;
    const uint64_t *depends = loop_op_vars(k->arena, loop);
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind != KOP_LOAD ||
          s->address->coef[vector_axis] < MIN_TRANSPOSE_STRIDE)
        continue;
      for (uint32_t v = 0; v < k->parallel_axes; v++)
        if (v != vector_axis && loop_load_is_contiguous(loop, depends, s, v) &&
            loop_extent_hint(loop, v) >= 8)
          found = v;
    }
  }
  return found;
}

/* ---- reuse between iterations ---- */

typedef struct TensorReads { /* tensors that a kernel reads */
  const KernelOp *largest;   /* a load of the largest tensor */
  double largest_bytes,
      other_bytes; /* bytes of the largest tensor, and of all others */
} TensorReads;

static TensorReads find_reads(const Kernel *k) {
  TensorReads r = {0};
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind != KOP_LOAD || (r.largest && s->node == r.largest->node))
        continue;
      double bytes =
          node_element_hint(k->graph, s->node) * dtype_info[s->dtype].bytes;
      bool more = bytes > r.largest_bytes;
      r.other_bytes += more ? r.largest_bytes : bytes;
      r.largest_bytes = more ? bytes : r.largest_bytes;
      r.largest = more ? s : r.largest;
    }
  return r;
}

/* Moves an axis last if neighbouring iterations along it read the same row of a
 * large tensor.  The tensor must exceed the caches of a core, and these must
 * hold all other tensors.  Then each row is loaded once. */
static void reorder_for_reuse(Kernel *k) {
  TensorReads r = find_reads(k);
  if (k->parallel_axes < 2 || r.largest_bytes <= MIN_SHARED_TENSOR_BYTES ||
      r.other_bytes > MIN_SHARED_TENSOR_BYTES / 2 ||
      r.largest->checked_index_count)
    return;
  for (uint32_t v = MAX_KERNEL_AXES; v < MAX_KERNEL_VARS; v++)
    if (r.largest->address->coef[v])
      return;
  for (uint32_t v = k->parallel_axes; v-- > 0;)
    if (!r.largest->address->coef[v]) {
      kernel_move_axis_last(k, v);
      return;
    }
}

/* True if an element of a tensor depends on a parallel axis. */
static bool depends_on_axis(const KernelOp *load, uint32_t v) {
  bool depends = load->address->coef[v] || load->checked_index_count;
  for (uint32_t j = MAX_KERNEL_AXES; j < MAX_KERNEL_VARS; j++)
    depends |= load->address->coef[j] != 0;
  return depends;
}

/* Bytes that the kernel reads of tensors that depend on axis v, and of
 * others. */
static void count_reads_along(const Kernel *k, uint32_t v, double bytes[2]) {
  const Node *last = NULL;
  bytes[0] = bytes[1] = 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind != KOP_LOAD || s->node == last)
        continue;
      last = s->node;
      bytes[depends_on_axis(s, v)] +=
          node_element_hint(k->graph, s->node) * dtype_info[s->dtype].bytes;
    }
}

/* Moves an axis next to the columns of a task if fewer bytes are read again
 * then: those of tensors that do not depend on it are read once, and the others
 * for each iteration of the other axes.  An example are few rows times a large
 * matrix whose elements are computed. */
static void reorder_columns_for_reuse(Kernel *k) {
  uint32_t inner = k->parallel_axes - 2;
  for (uint32_t v = 0; k->parallel_axes > 2 && v < inner; v++) {
    double bytes[2],
        rows = loop_extent_hint(k->loops.at[0], v),
        others = loop_iterations_hint(k->loops.at[0], 0, inner + 1) / rows;
    count_reads_along(k, v, bytes);
    if (bytes[0] < MIN_REREAD_BYTES || rows * bytes[0] < 2 * others * bytes[1])
      continue;
    kernel_move_axis_last(k, v);
    kernel_move_axis_last(k, inner);
    return;
  }
}

/* ---- non-temporal stores ---- */

/* Accessed bytes per byte of the last-level cache from which a kernel uses
 * non-temporal stores.  A non-temporal store does not read its line first and
 * keeps other data in the cache.  But the next reader of the result waits for
 * memory. */
static double nontemporal_cache_ratio(const Cost *cost) {
  double bytes = cost->bytes_read + cost->bytes_written;
  bool is_memory_bound = cost->contraction_flops + cost->other_ops <
                         MEMORY_BOUND_OPS_PER_BYTE * bytes;
  return is_memory_bound ? MEMORY_BOUND_CACHE_RATIO : COMPUTE_BOUND_CACHE_RATIO;
}

/* Size of an output from which it uses non-temporal stores.  Short rows do not
 * use them, since both ends of a row are partial lines.  Tests set
 * AXON_STREAM. */
static double choose_nontemporal_bytes(const Kernel *k) {
  if (kernel_is_symbolic(k) && !k->exceeds_caches)
    return INFINITY; /* the size is unknown */
  const char *setting = getenv("AXON_STREAM");
  if (setting && *setting)
    return strtod(setting, NULL);
  /* other cores share the cache */
  double cache =
      k->exceeds_caches ? ASSUMED_LLC_BYTES : (double)machine()->cache_bytes[2];
  Cost cost = kernel_cost(k);
  bool exceeds_cache = cost.bytes_read + cost.bytes_written >
                       nontemporal_cache_ratio(&cost) * cache;
  return cache > 0 && exceeds_cache ? cache / 4 : INFINITY;
}

void schedule_trim(Kernel *k, const Schedule *s) {
  if (s->reduction_chunk || s->gemm_tilings)
    return;
  if (s->task_kind == TASK_POINT)
    kernel_trim(k, TRIM_ROWS);
  else if (s->task_kind == TASK_COLUMNS)
    kernel_trim(k, TRIM_COLUMNS);
}

/* Makes tasks of vectors along the last axis, and of all iterations of a short
 * axis whose elements lie between theirs.  Returns false if there is none. */
static bool choose_interleaved_tasks(Kernel *k, Schedule *s) {
  const LoopNest *loop = k->loops.at[0];
  uint32_t last = k->parallel_axes - 1,
           axis = interleave_axis(loop, last, s->width);
  if (k->loops.len > 1 || axis >= k->parallel_axes ||
      loop->spatial_axes > k->parallel_axes)
    return false;
  kernel_move_axis_last(k, axis);
  kernel_move_axis_last(k, last - 1);
  s->task_kind = TASK_TILE;
  s->task_height = loop->extents[last - 1];
  double rows = outer_points(k) / (double)s->task_height;
  int64_t extent = loop_extent_hint(loop, last),
          block = ceil_div((int64_t)rows, MIN_MAP_TASKS);
  block = block < MIN_TASK_COLUMNS ? MIN_TASK_COLUMNS : block;
  s->last_axis_block = round_up(block < extent ? block : extent, s->width);
  return true;
}

static void choose_loops(Kernel *k, Schedule *s, uint32_t vector_axis) {
  uint32_t transpose_axis = vector_axis == NO_AXIS
                                ? NO_AXIS
                                : schedule_transpose_axis(k, vector_axis);
  if (transpose_axis != NO_AXIS) { /* tiles whose lines stay in the cache */
    kernel_move_axis_last(k, transpose_axis);
    kernel_move_axis_last(k, vector_axis - (vector_axis > transpose_axis));
    s->task_kind = TASK_TILE;
    s->last_axis_block = TRANSPOSE_TILE_SIDE;
    s->task_height = TRANSPOSE_TILE_SIDE;
    s->transpose = true;
  } else if (vector_axis != NO_AXIS) {
    kernel_move_axis_last(k, vector_axis);
    if (!vector_axis_staging_pays(k, k->parallel_axes - 1, s->width) &&
        (choose_interleaved_tasks(k, s) || short_reduction_choose(k, s)))
      return;
    s->task_kind = TASK_COLUMNS;
    reorder_columns_for_reuse(k);
    s->last_axis_block = choose_task_columns(k, s);
    s->reduction_unroll = terms_span_pages(k) ? PAGE_STRIDE_UNROLL : 1;
  }
  choose_reduction_chunk(k, s);
  if (s->task_kind == TASK_POINT && !s->reduction_chunk)
    reorder_for_reuse(k);
}

static uint32_t vector_axis_of(const Kernel *k, const LoopNest *loop,
                               const Schedule *s) {
  double cost;
  if (loop->staging == STAGE_OUT)
    return loop->contiguous_axis;
  if (s->small_product)
    return s->small_product->n_axis;
  return s->task_kind == TASK_COLUMNS || s->task_kind == TASK_TILE
             ? k->parallel_axes - 1
             : vector_axis_best_inner(k->arena, loop, s->width, &cost);
}

static void choose_vector_axes(const Kernel *k, Schedule *s) {
  s->vector_axes = NEW_ARRAY(k->arena, uint32_t, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    s->vector_axes[j] = vector_axis_of(k, k->loops.at[j], s);
}

static void choose_for_width(Kernel *k, uint32_t bytes, Schedule *s,
                             uint32_t width) {
  *s = (Schedule){.vector_bytes = bytes,
                  .task_kind = TASK_POINT,
                  .last_axis_block = 1,
                  .gemm_fields = s->gemm_fields};
  s->width = width ? width : 1;
  s->task_height = 1;
  s->nontemporal_bytes = choose_nontemporal_bytes(k);
  uint32_t outer_axis =
      k->accumulated_axes ? NO_AXIS : vector_axis_beats_gemm(k, s->width);
  if (k->accumulated_axes) /* schedule_accumulates has verified it */
    gemm_tiling_choose(k, s);
  else if (outer_axis != NO_AXIS)
    choose_loops(k, s, outer_axis);
  else if (!narrow_product_choose(k, s) &&
           (s->gemm_fields || !small_product_choose(k, s)) &&
           !gemm_tiling_choose(k, s))
    choose_loops(k, s, vector_axis_best_outer(k, s->width));
  choose_vector_axes(k, s);
}

/* Stages strided accesses. */
static void choose_staging(Kernel *k, Schedule *s) {
  if (s->task_kind != TASK_COLUMNS || s->small_product || s->reduction_chunk ||
      k->vectorize_outer || k->trim_bounds.len ||
      !vector_axis_staging_pays(k, k->parallel_axes - 1, s->width))
    return;
  kernel_stage_strided(k, k->parallel_axes - 1);
  s->last_axis_block = choose_task_columns(k, s);
  s->reduction_unroll = 1;
  s->nontemporal_bytes = choose_nontemporal_bytes(k);
  choose_vector_axes(k, s);
}

bool schedule_can_accumulate(const Kernel *k) {
  uint32_t bytes = cpu_vector_bytes();
  Kernel *copy = kernel_copy(k);
  Schedule s = {.vector_bytes = bytes, .task_kind = TASK_POINT};
  s.width = bytes / (vector_axis_needs_64bit(k, NULL) ? 8 : 4);
  return !kernel_is_symbolic(k) && gemm_tiling_choose(copy, &s) &&
         (s.strip_length || s.last_axis_block >= MIN_STRIP_MINED_ROWS ||
          s.last_axis_block ==
              loop_extent_hint(copy->loops.at[0], copy->parallel_axes - 1));
}

bool schedule_has_byte_lanes(const Schedule *s) {
  return s->width >= MIN_BYTE_LANES && s->width == s->vector_bytes;
}

/* Chooses lanes of 8 bits if all vectors are contiguous then. */
static void choose_byte_lanes(Kernel *k, uint32_t bytes, Schedule *s) {
  if (bytes < MIN_BYTE_LANES || !vector_axis_fits_bytes(k, s, bytes))
    return;
  uint32_t width = s->width;
  choose_for_width(k, bytes, s, bytes);
  if (!vector_axis_fits_bytes(k, s, bytes))
    choose_for_width(k, bytes, s, width);
}

void schedule_prepare_nests(Kernel *k, Schedule *s) {
  s->nests = NEW_ARRAY(k->arena, Nest *, k->loops.len);
  choose_vector_axes(k, s);
}

/* Chooses how the loops that are no matmuls run within a task. */
static void choose_nests(Kernel *k, Schedule *s) {
  s->nests = NEW_ARRAY(k->arena, Nest *, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (!s->gemm_tilings || !s->gemm_tilings->by_loop[j].is_gemm)
      s->nests[j] = nest_choose(k, s, j);
}

void schedule_choose(Kernel *k, uint32_t bytes, bool may_use_bytes,
                     Schedule *s) {
  schedule_choose_with(k, bytes, may_use_bytes, NULL, s);
}

void schedule_choose_with(Kernel *k, uint32_t bytes, bool may_use_bytes,
                          const struct GemmFields *fields, Schedule *s) {
  s->gemm_fields = fields;
  bool needs_64bit = vector_axis_needs_64bit(k, NULL);
  choose_for_width(k, bytes, s, needs_64bit ? bytes / 8 : bytes / 4);
  if (!needs_64bit && !s->gemm_tilings &&
      vector_axis_needs_64bit(k, s->vector_axes))
    choose_for_width(k, bytes, s, bytes / 8);
  if (may_use_bytes)
    choose_byte_lanes(k, bytes, s);
  schedule_trim(k, s);
  choose_staging(k, s);
  choose_nests(k, s);
}
