/* Chooses the schedule of a kernel from its memory accesses.
 *
 * The goals: warps access whole cache lines (coalescing), threads use vector
 * accesses, and enough threads are in flight to hide memory latency.  So
 * adjacent threads are placed along the axis for which most accesses are
 * contiguous: an outer axis, or an axis of the row that a thread group
 * shares. */
#include "backend/cuda/nest.h"
#include "backend/cuda/threads.h"
#include "machine/limits/cuda.h"
#include "support/int_math.h"
#include "support/arena.h"

#include <math.h>
#include <stdlib.h>

enum {
  ACCESS_BYTES = 16, /* largest vector access of a thread */
  /* Registers per SM: CUDA C++ Programming Guide, technical specifications by
   * compute capability. */
  SM_REGISTERS = 65536,
};

/* ---- coalescing cost of an axis ---- */

static int64_t extent_estimate(const LoopNest *loop, int64_t x) {
  return extent_hint(loop->graph, x);
}

static double stride_cost(const LoopNest *loop, int64_t times) {
  int64_t step = llabs(extent_estimate(loop, times));
  return step == 0 ? 0.1 : step == 1 ? 1 : UNCOALESCED_COST;
}

/* True if the index depends on the axis through floor divisions. */
static bool depends_non_affinely(const LoopNest *loop, const AffineExpr *at,
                                 uint32_t v) {
  AffineExpr rest = *at;
  rest.coef[v] = 0;
  return cuda_depends_on_axis(loop, &rest, v);
}

static double load_cost(const LoopNest *loop, const uint64_t *depends,
                        const KernelOp *s, uint32_t v) {
  int64_t step = s->address->coef[v], more;
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    const KernelOp *index = &loop->ops.at[s->checked_indices[j].index_op];
    if (!(depends[s->checked_indices[j].index_op] >> v & 1))
      continue;
    if (index->kind != KOP_AFFINE ||
        !extent_mul(loop->graph, index->affine->coef[v],
                    s->checked_indices[j].stride, &more) ||
        !extent_add(loop->graph, step, more, &step))
      return UNCOALESCED_COST;
  }
  return stride_cost(loop, step) +
         (depends_non_affinely(loop, s->address, v) ? 0.5 : 0);
}

static double coalescing_cost(Arena *arena, const LoopNest *loop, uint32_t v) {
  const uint64_t *depends = loop_op_vars(arena, loop);
  double cost = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD)
      cost += load_cost(loop, depends, &loop->ops.at[j], v);
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (loop->outputs.at[j].global_index &&
        (v < loop->spatial_axes || loop->outputs.at[j].reduce == PRIM_NONE))
      cost +=
          1.5 * stride_cost(loop, loop->outputs.at[j].global_index->coef[v]);
  double extent = (double)loop_extent_hint(loop, v);
  return cost * (extent < WARP ? sqrt(WARP / fmax(extent, 1)) : 1);
}

/* ---- rows distributed over a thread group ---- */

static uint32_t best_inner_axis(Arena *arena, const LoopNest *loop,
                                double *cost) {
  uint32_t best = NO_AXIS, first, end;
  *cost = 0;
  cuda_row_axes(loop, &first, &end);
  for (uint32_t v = first; v < end; v++) {
    double c = coalescing_cost(arena, loop, v);
    if (best == NO_AXIS || c <= *cost) {
      *cost = c;
      best = v;
    }
  }
  return best;
}

uint32_t cuda_distributed_axes(const LoopNest *loop, const CudaSchedule *s,
                               uint32_t axes[MAX_KERNEL_AXES]) {
  Arena *arena = arena_new();
  double cost;
  uint32_t count = 0, first, end,
           last = s->coalesce_outer ? NO_AXIS
                                    : best_inner_axis(arena, loop, &cost);
  cuda_row_axes(loop, &first, &end);
  for (uint32_t v = first; v < end; v++)
    if (v != last)
      axes[count++] = v;
  if (last != NO_AXIS)
    axes[count++] = last;
  arena_free(arena);
  return count;
}

static double row_length(const LoopNest *loop) {
  uint32_t first, end;
  cuda_row_axes(loop, &first, &end);
  return loop_iterations_hint(loop, first, end);
}

static double outer_points(const Kernel *k) {
  return loop_iterations_hint(k->loops.at[0], 0, k->parallel_axes);
}

static double longest_row(const Kernel *k) {
  double max = 1;
  for (uint32_t j = 0; j < k->loops.len; j++)
    max = fmax(max, row_length(k->loops.at[j]));
  return max;
}

static bool has_inner_axes(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->axis_count > k->parallel_axes)
      return true;
  return false;
}

bool cuda_needs_fission(const Kernel *k, const CudaTarget *target) {
  return has_inner_axes(k) && longest_row(k) >= LONG_ROW_ELEMENTS &&
         outer_points(k) * 2 < target->sm_count;
}

/* The outer axis with the best coalescing; NO_AXIS: rows are better. */
static uint32_t best_outer_axis(const Kernel *k, bool inner) {
  double rows = 0, min = 0, cost;
  uint32_t best = NO_AXIS;
  for (uint32_t j = 0; inner && j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    best_inner_axis(k->arena, loop, &cost);
    rows += cost * loop_iterations_hint(loop, 0, loop->axis_count);
  }
  for (uint32_t v = k->parallel_axes; v-- > 0;) {
    double all = 0;
    if (loop_extent_hint(k->loops.at[0], v) == 1 && (v || best != NO_AXIS))
      continue; /* no adjacent points */
    for (uint32_t j = 0; j < k->loops.len; j++) {
      const LoopNest *loop = k->loops.at[j];
      all += coalescing_cost(k->arena, loop, v) *
             loop_iterations_hint(loop, 0, loop->axis_count);
    }
    if (best == NO_AXIS || all < min) {
      min = all;
      best = v;
    }
  }
  return inner && (best == NO_AXIS || rows <= min) ? NO_AXIS : best;
}

/* ---- vector width ---- */

typedef struct AccessCounts {
  uint32_t vectorized, scalar; /* accesses that vary along the axis */
} AccessCounts;

static void count_accesses(const LoopNest *loop, uint32_t v, uint32_t vector,
                           AccessCounts *a) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind != KOP_LOAD ||
        (!s->checked_index_count && cuda_is_invariant(loop, s->address, v)))
      continue;
    if (!s->checked_index_count &&
        cuda_is_vectorizable(loop, s->address, v, vector))
      a->vectorized++;
    else
      a->scalar++;
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if (!r->global_index ||
        (r->reduce != PRIM_NONE && v >= loop->parallel_axes))
      continue;
    if (cuda_is_vectorizable(loop, r->global_index, v, vector))
      a->vectorized += 2;
    else
      a->scalar += 2;
  }
}

/* The smallest and largest element size among loads and stores, bytes. */
static void element_byte_range(const Kernel *k, uint32_t *min, uint32_t *max) {
  *min = 8, *max = 1;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len + loop->outputs.len; i++) {
      bool read = i < loop->ops.len;
      const KernelOp *s = read ? &loop->ops.at[i] : NULL;
      const LoopOutput *r = read ? NULL : &loop->outputs.at[i - loop->ops.len];
      if (read ? s->kind != KOP_LOAD : !r->global_index)
        continue;
      uint32_t bytes = dtype_info[read ? s->dtype : r->dtype].bytes;
      *min = bytes < *min ? bytes : *min;
      *max = bytes > *max ? bytes : *max;
    }
  }
}
static uint32_t min_element_bytes(const Kernel *k) {
  uint32_t min, max;
  element_byte_range(k, &min, &max);
  return min;
}
static uint32_t max_element_bytes(const Kernel *k) {
  uint32_t min, max;
  element_byte_range(k, &min, &max);
  return max;
}

/* True if vectors of `vector` elements divide the axes, axes[j] of loop j. */
static bool divides_axes(const Kernel *k, const uint32_t *axes,
                         uint32_t vector) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    bool alone = k->parallel_axes == 1 && loop->axis_count == 1;
    int64_t left = 1;
    if (axes[j] != NO_AXIS && !alone &&
        (!extent_floor_mod(loop->graph, loop->extents[axes[j]], vector,
                           &left) ||
         left != 0))
      return false;
  }
  return true;
}

uint32_t cuda_max_vector(const Kernel *k) {
  uint32_t vector = ACCESS_BYTES / min_element_bytes(k);
  return vector > MAX_VECTOR_WIDTH ? MAX_VECTOR_WIDTH : vector;
}

/* items: elements along the vector axis, for `threads` threads. */
static uint32_t choose_vector(const Kernel *k, const uint32_t *axes,
                              double items, double threads) {
  for (uint32_t vector = cuda_max_vector(k); vector > 1; vector /= 2) {
    AccessCounts a = {0};
    for (uint32_t j = 0; j < k->loops.len; j++)
      if (axes[j] != NO_AXIS)
        count_accesses(k->loops.at[j], axes[j], vector, &a);
    if (items / vector >= threads && divides_axes(k, axes, vector) &&
        a.vectorized > a.scalar)
      return vector;
  }
  return 1;
}

/* ---- passes without sums ---- */

/* An axis along which operands are contiguous, other than the last one. */
static uint32_t transposed_axis(const Kernel *k, uint32_t last) {
  uint32_t found = NO_AXIS;
  const LoopNest *first = k->loops.at[0];
  if (k->parallel_axes < 2 ||
      loop_extent_hint(first, last) < TRANSPOSE_TILE_SIDE / 2)
    return NO_AXIS;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind != KOP_LOAD || s->checked_index_count ||
          stride_cost(loop, s->address->coef[last]) < UNCOALESCED_COST ||
          depends_non_affinely(loop, s->address, last))
        continue;
      for (uint32_t v = 0; v < k->parallel_axes; v++)
        if (v != last && s->address->coef[v] == 1 &&
            loop_extent_hint(loop, v) >= TRANSPOSE_TILE_SIDE / 2 &&
            !depends_non_affinely(loop, s->address, v))
          found = v;
    }
  }
  return found;
}

/* Elements of a tile are in shared memory. */
static uint32_t max_tile_side(const Kernel *k) {
  return max_element_bytes(k) <= 2 ? 2 * TRANSPOSE_TILE_SIDE
                                   : TRANSPOSE_TILE_SIDE;
}

static void choose_nest(CudaPass *p, const CudaTarget *target) {
  const Kernel *k = p->k;
  uint32_t last = best_outer_axis(k, false), vector = 1, axes[MAX_KERNEL_LOOPS];
  uint32_t along = k->parallel_axes ? transposed_axis(k, last) : NO_AXIS;
  if (along != NO_AXIS) {
    cuda_nest_choose_tiles(p, along, last, max_tile_side(k),
                           2 * DEFAULT_BLOCK_THREADS);
    return;
  }
  for (uint32_t j = 0; j < k->loops.len; j++)
    axes[j] = last;
  if (k->parallel_axes)
    vector = choose_vector(k, axes, outer_points(k),
                           (double)target->sm_count * MIN_SM_THREADS);
  cuda_nest_choose_points(p, last, vector, DEFAULT_BLOCK_THREADS);
}

/* ---- rows ---- */

bool cuda_can_split_reduction(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  const LoopOutput *r = &loop->outputs.at[0];
  return k->loops.len == 1 && loop->outputs.len == 1 &&
         loop->axis_count > loop->spatial_axes &&
         loop->spatial_axes == loop->parallel_axes && r->reduce != PRIM_NONE &&
         (r->global_index || r->local_index);
}

/* Splits the reduction if the thread groups do not fill the device. */
static void choose_reduction_chunk(const Kernel *k, const CudaTarget *target,
                                   CudaSchedule *s) {
  double width = (double)s->block_threads / s->group_threads;
  double blocks = ceil(outer_points(k) / width),
         row = row_length(k->loops.at[0]);
  double wanted = 4.0 * target->sm_count / blocks;
  double max =
      row / (s->group_threads * s->vector_width * 2.0 * MIN_THREAD_VECTORS);
  double parts = fmin(fmin(wanted, max), MAX_REDUCTION_CHUNKS);
  if (wanted < 4 || parts < 2)
    return;
  int64_t chunk_multiple = (int64_t)s->group_threads * s->vector_width;
  s->reduction_chunk =
      (int64_t)ceil(row / parts / (double)chunk_multiple) * chunk_multiple;
}

static uint32_t next_power_of_two(double x) {
  uint32_t p = 1;
  while (p < x && p < MAX_BLOCK_THREADS)
    p *= 2;
  return p;
}

/* Estimates the registers of a thread with an unrolled loop. */
static uint32_t loop_registers(const Kernel *k) {
  uint32_t max = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    uint32_t registers = loop->outputs.len;
    for (uint32_t i = 0; i < loop->ops.len; i++)
      registers += loop->ops.at[i].kind == KOP_LOAD;
    max = registers > max ? registers : max;
  }
  return BASE_LOOP_REGISTERS + LOOP_UNROLL * max;
}

/* True if a block with groups of twice the size has enough registers. */
static bool can_double_group(const CudaSchedule *s, uint32_t width,
                             uint32_t registers) {
  return s->group_threads < MAX_BLOCK_THREADS &&
         2 * s->group_threads * width * registers <= SM_REGISTERS;
}

static void choose_outer_coalesced(const Kernel *k, const CudaTarget *target,
                                   CudaSchedule *s) {
  double points = outer_points(k), row = longest_row(k);
  double full = (double)target->sm_count * MIN_SM_THREADS;
  uint32_t registers = loop_registers(k);
  s->coalesce_outer = true;
  while (s->group_threads < WARP && can_double_group(s, WARP, registers) &&
         points * s->group_threads < full &&
         row >= 2.0 * MIN_THREAD_TERMS * s->group_threads)
    s->group_threads *= 2;
  s->block_threads = s->group_threads * WARP < DEFAULT_BLOCK_THREADS
                         ? DEFAULT_BLOCK_THREADS
                         : s->group_threads * WARP;
}

static uint32_t registers_per_element(Dtype t) {
  return dtype_info[t].bytes == 8 ? 2 : 1;
}

static bool reads_input(const Kernel *k, uint32_t from, uint32_t to,
                        const KernelOp *s) {
  for (uint32_t j = from; j < to; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *x = &k->loops.at[j]->ops.at[i];
      if (x->kind == KOP_LOAD && x->input == s->input &&
          affine_equal(x->address, s->address))
        return true;
    }
  return false;
}

static bool reads_local(const Kernel *k, uint32_t from, uint32_t loop,
                        uint32_t result) {
  for (uint32_t j = from; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL && s->source_loop == loop &&
          s->source_output == result)
        return true;
    }
  return false;
}

/* Registers per row element that stay live after loop `at`: inputs that later
 * loops read again, and results that later loops read. */
static uint32_t live_registers_after(const Kernel *k, uint32_t first,
                                     uint32_t at) {
  uint32_t registers = 0;
  for (uint32_t j = 0; j <= at; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind == KOP_LOAD && !s->checked_index_count &&
          !reads_input(k, 0, j, s) && reads_input(k, at + 1, k->loops.len, s))
        registers += registers_per_element(s->dtype);
    }
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      if (r->local_index && r->local_elements != 1 &&
          reads_local(k, at + 1, first + j, i))
        registers += registers_per_element(r->dtype);
    }
  }
  return registers;
}

static uint32_t max_live_registers(const Kernel *k, uint32_t first) {
  uint32_t max = 1;
  for (uint32_t j = 0; j + 1 < k->loops.len; j++) {
    uint32_t registers = live_registers_after(k, first, j);
    max = registers > max ? registers : max;
  }
  return max;
}

static bool is_simple_row(const LoopNest *loop) {
  return loop->axis_count == loop->parallel_axes ||
         loop->spatial_axes == loop->parallel_axes ||
         loop->spatial_axes == loop->axis_count;
}

/* Vectors of a row per thread.  Rounded up, so that similar sizes share one
 * source. */
static uint32_t vectors_per_thread(double row, const CudaSchedule *s) {
  uint32_t times =
      (uint32_t)ceil(row / ((double)s->group_threads * s->vector_width));
  return times <= 4 ? next_power_of_two(times) : (times + 1) / 2 * 2;
}

static bool fits_registers(const CudaPass *p, double row,
                           const CudaSchedule *s) {
  double register_budget = SM_REGISTERS / s->block_threads - BASE_ROW_REGISTERS;
  if (ceil(row / ((double)s->group_threads * s->vector_width)) *
          s->vector_width >
      MAX_ROW_REGISTERS)
    return false;
  return vectors_per_thread(row, s) * s->vector_width *
             max_live_registers(p->k, p->first_loop) <=
         fmin(MAX_ROW_REGISTERS * 2.0, register_budget);
}

static bool has_symbolic_rows(const Kernel *k) {
  bool open = false;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t v = k->parallel_axes; v < k->loops.at[j]->axis_count; v++)
      open |= !extent_is_static(k->graph, k->loops.at[j]->extents[v]);
  return open;
}

bool cuda_can_keep_rows(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (!is_simple_row(k->loops.at[j]))
      return false;
  return k->loops.len > 1 && !has_symbolic_rows(k);
}

/* Keeps rows in registers.  If a full block has too few registers per thread,
 * tries half the threads. */
static void choose_register_rows(const CudaPass *p, double row,
                                 CudaSchedule *s) {
  const Kernel *k = p->k;
  CudaSchedule half = *s;
  if (!cuda_can_keep_rows(k))
    return;
  half.group_threads = half.block_threads = s->block_threads / 2;
  if (!fits_registers(p, row, s) && s->group_threads == MAX_BLOCK_THREADS &&
      fits_registers(p, row, &half))
    *s = half;
  if (fits_registers(p, row, s))
    s->vectors_in_registers = vectors_per_thread(row, s);
}

static void row_vector_axes(const Kernel *k, uint32_t axes[MAX_KERNEL_LOOPS]) {
  double cost;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    bool is_partial_reduce = loop->spatial_axes > loop->parallel_axes &&
                             loop->axis_count > loop->spatial_axes;
    axes[j] =
        is_partial_reduce ? NO_AXIS : best_inner_axis(k->arena, loop, &cost);
  }
}

static void choose_rows(const CudaPass *p, const CudaTarget *target,
                        CudaSchedule *s) {
  const Kernel *k = p->k;
  uint32_t axes[MAX_KERNEL_LOOPS], registers = loop_registers(k);
  double row = longest_row(k), points = outer_points(k);
  row_vector_axes(k, axes);
  s->vector_width = choose_vector(k, axes, row, 1);
  double items = ceil(row / s->vector_width);
  s->group_threads = items <= WARP ? next_power_of_two(items) : WARP;
  if (items > 2 * MIN_THREAD_VECTORS * WARP)
    s->group_threads = DEFAULT_BLOCK_THREADS;
  while (s->group_threads >= WARP && can_double_group(s, 1, registers) &&
         (items > 2.0 * MIN_THREAD_VECTORS * s->group_threads ||
          (points * s->group_threads <
               (double)target->sm_count * MIN_SM_THREADS / 2 &&
           items >= 2.0 * s->group_threads)))
    s->group_threads *= 2;
  while (k->loops.len > 1 && s->group_threads >= WARP &&
         can_double_group(s, 1, registers) &&
         items * s->vector_width >
             (double)PREFERRED_ROW_REGISTERS * s->group_threads)
    s->group_threads *= 2;
  s->block_threads = s->group_threads > DEFAULT_BLOCK_THREADS
                         ? s->group_threads
                         : DEFAULT_BLOCK_THREADS;
  choose_register_rows(p, row, s);
}

void cuda_schedule(CudaPass *p, const CudaTarget *target, bool no_split) {
  if (!p->whole)
    p->whole = p->k;
  Kernel *k = p->k = p->whole;
  CudaSchedule *s = &p->s;
  *s = (CudaSchedule){.group_threads = 1, .vector_width = 1};
  if (!has_inner_axes(k)) {
    choose_nest(p, target);
    return;
  }
  s->kind = CUDA_ROW;
  uint32_t outer_axis = best_outer_axis(k, true);
  if (outer_axis != NO_AXIS) {
    kernel_move_axis_last(k, outer_axis);
    choose_outer_coalesced(k, target, s);
  } else {
    choose_rows(p, target, s);
  }
  if (!no_split && cuda_can_split_reduction(k))
    choose_reduction_chunk(k, target, s);
  cuda_choose_row_nests(p, target, !no_split);
}

/* ---- text ---- */

void cuda_schedule_print(Buffer *out, const CudaSchedule *s) {
  switch (s->kind) {
  case CUDA_NEST:
    cuda_nest_describe(out, s->nests[0]);
    break;
  case CUDA_ROW:
    buffer_printf(out, "thread groups of %u%s", s->group_threads,
                  s->coalesce_outer ? " across points" : "");
    break;
  case CUDA_GEMM:
    gemm_pass_print(out, s->gemm);
    return;
  case CUDA_ATTENTION:
    attention_pass_print(out, s->attention);
    return;
  case CUDA_LIBRARY:
    buffer_printf(out, "%s", s->description);
    break;
  case CUDA_KERNEL_KINDS:
    break;
  }
  buffer_printf(out, ", blocks of %u", s->block_threads);
  if (s->vector_width > 1)
    buffer_printf(out, ", %u elements at once", s->vector_width);
  if (s->vectors_in_registers)
    buffer_printf(out, ", rows in registers, %u each",
                  s->vectors_in_registers * s->vector_width);
  if (s->homes && s->homes->shared_bytes)
    buffer_puts(out, ", values in shared memory");
  if (s->homes && s->homes->scratch_bytes)
    buffer_puts(out, ", values in scratch memory");
  if (s->online_softmax)
    buffer_puts(out, ", online sums");
  if (s->reduction_chunk)
    buffer_printf(out, ", sums of %lld terms", (long long)s->reduction_chunk);
}
