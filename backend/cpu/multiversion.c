/* Chooses the versions of a kernel with symbolic sizes. */
#include "backend/cpu/multiversion.h"

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/schedule_make.h"
#include "backend/cpu/small_product.h"
#include "backend/cpu/vector_axis.h"
#include "kernel/roofline.h"
#include "machine/limits/cpu.h"
#include "machine/limits/planner.h"
#include "support/buffer.h"

#include <math.h>
#include <string.h>

/* MAX_TINY_EXTENT for a reduction over one variable, two, or more.  The product
 * is not much more than a hundred terms. */
static const int64_t max_tiny_by_vars[] = {MAX_TINY_EXTENT, 11, 5};

/* ---- candidates ---- */

static void add_var(void *versions, DimVar *var) {
  KernelVersions *v = versions;
  for (uint32_t k = 0; k < v->var_count; k++)
    if (v->vars[k] == var)
      return;
  if (!var->is_integer && v->var_count < ARRAY_LEN(v->vars))
    v->vars[v->var_count++] = var;
}

static bool has_product(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (loop_is_contraction(k->loops.at[j]))
      return true;
  return false;
}

/* Finds the variables of spatial axes, then those of reduction axes.  Returns
 * the number of the former. */
static uint32_t find_vars(const Kernel *k, KernelVersions *v) {
  uint32_t spatial_vars = 0;
  for (uint32_t reduced = 0; reduced < 2; reduced++) {
    for (uint32_t j = 0; j < k->loops.len; j++) {
      const LoopNest *loop = k->loops.at[j];
      for (uint32_t i = reduced ? loop->spatial_axes : 0;
           i < (reduced ? loop->axis_count : loop->spatial_axes); i++)
        extent_each_var(k->graph, loop->extents[i], add_var, v);
    }
    spatial_vars = reduced ? spatial_vars : v->var_count;
  }
  return spatial_vars;
}

/* The set that contains the variable. */
static uint32_t var_bit(const KernelVersions *v, const DimVar *var) {
  uint32_t set = 0;
  for (uint32_t j = 0; j < v->var_count; j++)
    set |= (uint32_t)(v->vars[j] == var) << j;
  return set;
}

static uint32_t all_vars(const KernelVersions *v) {
  return ((uint32_t)1 << v->var_count) - 1;
}

static void add_window_var(void *versions, DimVar *var) {
  KernelVersions *v = versions;
  v->window_vars |= var_bit(v, var);
}

static void add_version(KernelVersions *v, uint32_t vars, int64_t max_value,
                        int64_t assumed_value) {
  v->versions[v->count++] = (KernelVersion){
      .var_set = vars, .max_value = max_value, .assumed_value = assumed_value};
}

/* The extent for which two axes, or one, have some hundreds of megabytes. */
static int64_t assumed_large(uint32_t vars) {
  return vars == 1 ? 1 << 26 : vars == 2 ? 1 << 13 : EXTENT_HINT_DEFAULT;
}

/* The variable that is the row length if rows may be strip-mined; NULL: they
 * may not, or the length is not one variable. */
static const DimVar *strip_mined_length_var(const Kernel *k) {
  int64_t length;
  KernelVersions vars = {.var_count = 0};
  if (kernel_can_strip_mine(k, &length))
    extent_each_var(k->graph, length, add_var, &vars);
  return vars.var_count == 1 ? vars.vars[0] : NULL;
}

/* The row length from which rows are strip-mined. */
static int64_t min_strip_mined_length(const Kernel *k, const DimVar *var) {
  ExtentTable *sizes = k->graph->extent_table;
  double at[2];
  extent_table_set_hint(sizes, var, ASSUMED_STRIP_MINED_LENGTH);
  at[1] = kernel_local_bytes(k, false);
  extent_table_set_hint(sizes, var, 0);
  at[0] = kernel_local_bytes(k, false);
  double each =
      (at[1] - at[0]) / (ASSUMED_STRIP_MINED_LENGTH - EXTENT_HINT_DEFAULT);
  double max_value = (double)MAX_TASK_LOCAL_BYTES / MIN_STRIP_MINED_ROWS;
  double length = EXTENT_HINT_DEFAULT + (max_value - at[0]) / each;
  return each > 0 && length < ASSUMED_STRIP_MINED_LENGTH / 2
             ? (int64_t)length + 1
             : 0;
}

static void add_window_version(KernelVersions *v, uint32_t vars,
                               int64_t max_value) {
  add_version(v, vars, max_value,
              max_value ? ASSUMED_TINY_EXTENT : ASSUMED_SMALL_EXTENT);
  v->versions[v->count - 1].window = true;
}

/* The versions of a convolution.  Returns false if the kernel is none. */
static bool add_window_versions(const Kernel *k, KernelVersions *v) {
  const LoopNest *loop = k->loops.at[0];
  uint32_t rows = 0;
  uint64_t sliding_axes = gemm_tiling_sliding_axes(k->arena, loop, &rows);
  if (!sliding_axes)
    return false;
  for (uint32_t j = loop->spatial_axes; j < loop->axis_count; j++)
    if (sliding_axes >> j & 1)
      extent_each_var(k->graph, loop->extents[j], add_window_var, v);
  KernelVersions row_vars = {.var_count = 0};
  extent_each_var(k->graph, loop->extents[rows], add_var, &row_vars);
  if (row_vars.var_count == 1)
    add_window_version(v, var_bit(v, row_vars.vars[0]), MAX_TINY_EXTENT);
  add_window_version(v, all_vars(v), 0);
  add_version(v, 0, 0, 0);
  return true;
}

static void remove_other_var(void *versions, DimVar *var) {
  KernelVersions *v = versions;
  v->window_vars &= ~var_bit(v, var);
}

/* A version for short reductions, if their variables appear otherwise only in
 * sums, as the extent of a window does. */
static void add_short_reduction_version(const Kernel *k, KernelVersions *v) {
  v->window_vars = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = loop->spatial_axes; i < loop->axis_count; i++)
      extent_each_var(k->graph, loop->extents[i], add_window_var, v);
  }
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->spatial_axes; i++) {
      KernelVersions vars = {.var_count = 0};
      extent_each_var(k->graph, loop->extents[i], add_var, &vars);
      if (vars.var_count == 1)
        remove_other_var(v, (DimVar *)(uintptr_t)vars.vars[0]);
    }
  }
  uint32_t count = (uint32_t)__builtin_popcount(v->window_vars);
  bool is_new = count && v->window_vars != all_vars(v);
  for (uint32_t j = 0; j < v->count; j++)
    is_new &= v->versions[j].var_set != v->window_vars ||
              v->versions[j].max_value != MAX_TINY_EXTENT;
  if (is_new)
    add_version(v, v->window_vars, max_tiny_by_vars[count < 3 ? count - 1 : 2],
                count == 1 ? ASSUMED_TINY_EXTENT : ASSUMED_WINDOW_LENGTH);
}

/* Versions for a batch of small matmuls, if each of their extents is a variable
 * or a constant: one for each number of vectors in a row. */
static void add_small_product_versions(const Kernel *k, uint32_t bytes,
                                       KernelVersions *v) {
  int64_t sizes[3], width = bytes / (vector_axis_needs_64bit(k, NULL) ? 8 : 4);
  uint32_t vectors = small_product_symbolic_sizes(k, (uint32_t)width, sizes),
           vars[3] = {0};
  for (uint32_t j = 0; vectors && j < 3; j++) {
    bool is_constant = extent_is_static(k->graph, sizes[j]);
    if (!is_constant)
      vars[j] = var_bit(v, dim_as_var(extent_dim(k->graph, sizes[j])));
    if (is_constant ? sizes[j] > vectors * width : !vars[j])
      return;
  }
  for (uint32_t j = 1; j <= vectors; j++) {
    if (!vars[1] && ceil_div(sizes[1], width) != j)
      continue;
    add_version(v, vars[0] | vars[1] | vars[2], vectors * width,
                ASSUMED_TINY_EXTENT);
    KernelVersion *x = &v->versions[v->count - 1];
    x->row_vectors = j;
    x->row_set = vars[1];
    x->max_row = j * width;
  }
}

/* ---- 32-bit indices ---- */

static bool has_low(const KernelOp *s) {
  return s->low == INT64_MIN && s->symbolic_min != INT64_MIN;
}

static bool has_high(const KernelOp *s) {
  return s->high == INT64_MAX && s->symbolic_max != INT64_MAX;
}

static bool is_index(const KernelOp *s) {
  return s->kind == KOP_AFFINE && s->dtype == DT_I64;
}

/* Finds the symbolic bounds that must fit in 31 bits. */
static void find_index_bounds(const Kernel *k, KernelVersions *v) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &k->loops.at[j]->ops.at[i];
      bool low = is_index(s) && has_low(s), high = is_index(s) && has_high(s);
      for (uint32_t n = 0; n < v->index_minima.len; n++)
        low &= v->index_minima.at[n] != s->symbolic_min;
      for (uint32_t n = 0; n < v->index_maxima.len; n++)
        high &= v->index_maxima.at[n] != s->symbolic_max;
      if (low)
        VEC_PUSH(k->arena, v->index_minima, s->symbolic_min);
      if (high)
        VEC_PUSH(k->arena, v->index_maxima, s->symbolic_max);
    }
}

static void assume_32bit_indices(Kernel *k) {
  const int64_t max_value = INT64_C(1) << 30;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (is_index(s) && has_low(s))
        s->low = -max_value;
      if (is_index(s) && has_high(s))
        s->high = max_value - 1;
    }
}

/* ---- all candidates ---- */

static void find_versions(const Kernel *k, uint32_t bytes, KernelVersions *v) {
  *v = (KernelVersions){.var_count = 0};
  uint32_t spatial_vars = find_vars(k, v);
  if (add_window_versions(k, v))
    return;
  add_small_product_versions(k, bytes, v);
  if (spatial_vars <= MAX_VERSIONED_VARS) {
    for (uint32_t j = 0; j < spatial_vars && has_product(k); j++)
      add_version(v, (uint32_t)1 << j, 1, 1);
    for (uint32_t j = 0; j < spatial_vars; j++)
      add_version(v, (uint32_t)1 << j, MAX_TINY_EXTENT, ASSUMED_TINY_EXTENT);
  }
  add_short_reduction_version(k, v);
  find_index_bounds(k, v);
  const DimVar *length = strip_mined_length_var(k);
  if (length && min_strip_mined_length(k, length)) {
    add_version(v, var_bit(v, length), 0, ASSUMED_STRIP_MINED_LENGTH);
    v->versions[v->count - 1].min_value = min_strip_mined_length(k, length);
  }
  if (v->var_count) {
    add_version(v, all_vars(v), MAX_SMALL_EXTENT, ASSUMED_SMALL_EXTENT);
    add_version(v, all_vars(v), 0, assumed_large(v->var_count));
    v->versions[v->count - 1].min_points = 1; /* emit_version sets the value */
    if (v->index_minima.len || v->index_maxima.len)
      add_version(v, 0, 0, 0);
  }
  add_version(v, 0, 0, 0);
}

static void set_assumed_values(const KernelVersions *v, const Kernel *k,
                               const KernelVersion *x, bool enable) {
  for (uint32_t j = 0; x->assumed_value && j < v->var_count; j++) {
    bool is_own = x->var_set >> j & 1;
    int64_t assumed_value = x->window && v->window_vars >> j & 1
                                ? ASSUMED_WINDOW_LENGTH
                            : is_own ? x->assumed_value
                                     : ASSUMED_SMALL_EXTENT;
    if (is_own || x->window)
      extent_table_set_hint(k->graph->extent_table, v->vars[j],
                            enable ? assumed_value : 0);
  }
}

/* The number of iterations from which the data exceeds the cache. */
static double min_uncached_points(const Kernel *k) {
  Cost cost = kernel_cost(k);
  const LoopNest *loop = k->loops.at[0];
  return ceil(COMPUTE_BOUND_CACHE_RATIO * ASSUMED_LLC_BYTES /
              (cost.bytes_read + cost.bytes_written + 1) *
              loop_iterations_hint(loop, 0, loop->axis_count));
}

static bool emit_version(const KernelVersions *v, const Kernel *k,
                         uint32_t bytes, const char *suffix, KernelVersion *x) {
  x->kernel = kernel_copy(k);
  x->kernel->exceeds_caches = x->min_points > 0;
  x->kernel->allow_conv_windows = x->window;
  x->kernel->small_product_vectors = x->row_vectors;
  x->kernel->native_only = v->native_only;
  x->index_32bit = x != &v->versions[v->count - 1] &&
                   (v->index_minima.len || v->index_maxima.len);
  if (x->index_32bit)
    assume_32bit_indices(x->kernel);
  set_assumed_values(v, k, x, true);
  if (x->min_points > 0)
    x->min_points = min_uncached_points(x->kernel);
  x->alias_begin = extent_table_alias_count(k->graph->extent_table);
  if (!schedule_make(v->group, x->kernel, bytes, false, &x->schedule))
    return false;
  x->unrolled_loops = 0;
  for (uint32_t j = 0; j < x->kernel->loops.len; j++)
    x->unrolled_loops += short_reduction_applies(x->kernel->loops.at[j]);
  bool succeeded =
      emit_kernel(x->kernel, &x->schedule, NULL, suffix, &x->emitted);
  x->alias_end = extent_table_alias_count(k->graph->extent_table);
  set_assumed_values(v, k, x, false);
  return succeeded;
}

/* ---- selection ---- */

static double pack_cost(const Operand *o, double elements) {
  return o->packing == OPERAND_UNPACKED ? 0 : PACK_COST_TERMS * elements;
}

/* Work of register tiles, including idle lanes and packing. */
static double tile_work(const KernelVersion *x) {
  double work = 0;
  for (uint32_t j = 0; j < x->kernel->loops.len; j++) {
    const LoopNest *loop = x->kernel->loops.at[j];
    const GemmTiling *t = &x->schedule.gemm_tilings->by_loop[j];
    if (!t->is_gemm)
      continue;
    double m = (double)loop_extent_hint(loop, t->m_axis);
    double n = (double)loop_extent_hint(loop, t->n_axis);
    double columns = (double)t->nr_vectors * x->schedule.width;
    work += loop_iterations_hint(loop, 0, loop->axis_count) / m / n *
            (ceil(m / t->mr) * t->mr * ceil(n / columns) * columns +
             pack_cost(&t->a, m) + pack_cost(&t->b, n));
  }
  return work;
}

/* Returns true for a convolution window. */
static bool has_window(const KernelVersion *x, bool *vectorize_channels) {
  const GemmTilings *t = x->schedule.gemm_tilings;
  *vectorize_channels =
      t && t->by_loop[0].window && t->by_loop[0].window->vectorize_channels;
  return t && t->by_loop[0].window;
}

/* Returns true if the strategy differs from that of the next version. */
static bool window_is_worthwhile(const KernelVersion *x,
                                 const KernelVersion *next) {
  bool vectorize_channels, other;
  return has_window(x, &vectorize_channels) &&
         (!has_window(next, &other) || vectorize_channels != other);
}

/* Returns true if the accumulators of a task fit in registers. */
static bool fits_registers(const Schedule *s) {
  return s->last_axis_block <=
         (int64_t)schedule_max_accumulators(s->vector_bytes) * s->width;
}

/* For loops without register tiles: returns true if only block sizes differ. */
static bool has_same_strategy(const KernelVersion *x, const KernelVersion *y) {
  const Schedule *s = &x->schedule, *t = &y->schedule;
  bool same = s->task_kind == t->task_kind && s->width == t->width &&
              s->transpose == t->transpose &&
              s->reduction_unroll == t->reduction_unroll &&
              s->strip_length == t->strip_length &&
              !s->reduction_chunk == !t->reduction_chunk &&
              fits_registers(s) == fits_registers(t) &&
              x->unrolled_loops == y->unrolled_loops &&
              isinf(s->nontemporal_bytes) == isinf(t->nontemporal_bytes);
  for (uint32_t j = 0; same && j < x->kernel->loops.len; j++)
    same = s->vector_axes[j] == t->vector_axes[j] && j < y->kernel->loops.len;
  return same && x->index_32bit == y->index_32bit &&
         x->kernel->loops.len == y->kernel->loops.len;
}

/* Returns true if the version has another strategy, or much less work. */
static bool is_worthwhile(const KernelVersions *v, const KernelVersion *x,
                          const KernelVersion *fallback) {
  const Schedule *s = &x->schedule, *t = &fallback->schedule;
  if (buffer_equal(&x->emitted.code.source, &fallback->emitted.code.source))
    return false;
  if (!s->gemm_tilings && !t->gemm_tilings)
    return !has_same_strategy(x, fallback);
  if (!s->gemm_tilings || !t->gemm_tilings || s->task_kind != t->task_kind ||
      s->strip_length != t->strip_length)
    return true;
  set_assumed_values(v, x->kernel, x, true);
  double fallback_work = tile_work(fallback), work = tile_work(x);
  set_assumed_values(v, x->kernel, x, false);
  return fallback_work > MIN_VERSION_SPEEDUP * work;
}

bool multiversion_emit(const FusionGroup *c, uint32_t bytes, bool native_only,
                       const char *suffix, KernelVersions *v) {
  const Kernel *k = c->kernel;
  find_versions(k, bytes, v);
  v->group = c;
  v->native_only = native_only;
  if (schedule_is_given(c, bytes)) {
    v->versions[0] = v->versions[v->count - 1];
    v->count = 1;
  }
  KernelVersion *fallback = &v->versions[v->count - 1];
  if (!emit_version(v, k, bytes, suffix, fallback))
    return false;
  uint32_t count = 0;
  for (uint32_t j = 0; j + 1 < v->count; j++)
    if (emit_version(v, k, bytes, suffix, &v->versions[j]) &&
        (v->versions[j].window || is_worthwhile(v, &v->versions[j], fallback)))
      v->versions[count++] = v->versions[j];
  v->versions[count++] = *fallback;
  v->count = 0;
  for (uint32_t j = 0; j < count; j++)
    if (!v->versions[j].window ||
        window_is_worthwhile(&v->versions[j], &v->versions[j + 1]))
      v->versions[v->count++] = v->versions[j];
  return true;
}
