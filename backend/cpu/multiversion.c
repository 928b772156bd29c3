/* Several schedules of one kernel, for sizes that differ. */
#include "backend/cpu/multiversion.h"

#include "backend/cpu/batched_small_gemm.h"
#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/vector_axis.h"
#include "kernel/roofline.h"
#include "machine/limits/planner.h"

#include <math.h>
#include <string.h>

enum {
  MAX_FEW = 24, /* at most so many */
  ASSUMED_FEW = 8,
  MAX_SMALL = 128, /* of all */
  ASSUMED_SMALL = 64,
  ASSUMED_LONG = 1 << 16, /* of rows that go in portions */
  PACK_COST_TERMS = 12,   /* of an element, in terms of a sum */
};

/* Of the one variable of a sum's terms, of two, of more: such that there are
 * not much more than a hundred of them. */
static const int64_t max_few_by_vars[] = {MAX_FEW, 11, 5};

static const double MIN_SPEEDUP =
    1.25; /* times as fast, by the count of cycles */

/* ---- which there may be ---- */

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

/* The variables of what is stored, then those of what is summed. */
static uint32_t find_vars(const Kernel *k, KernelVersions *v) {
  uint32_t kept = 0;
  for (uint32_t reduced = 0; reduced < 2; reduced++) {
    for (uint32_t j = 0; j < k->loops.len; j++) {
      const LoopNest *loop = k->loops.at[j];
      for (uint32_t i = reduced ? loop->spatial_axes : 0;
           i < (reduced ? loop->axis_count : loop->spatial_axes); i++)
        extent_each_var(k->graph, loop->extents[i], add_var, v);
    }
    kept = reduced ? kept : v->var_count;
  }
  return kept;
}

/* Which one of them it is, as a set. */
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

/* Such that there are some hundreds of megabytes of two axes or one. */
static int64_t assumed_large(uint32_t vars) {
  return vars == 1 ? 1 << 26 : vars == 2 ? 1 << 13 : EXTENT_HINT_DEFAULT;
}

/* The length of the rows that may go in portions; NULL: there are none, or it
 * is no variable alone. */
static const DimVar *strip_mined_length_var(const Kernel *k) {
  int64_t length;
  KernelVersions of = {.var_count = 0};
  if (kernel_can_strip_mine(k, &length))
    extent_each_var(k->graph, length, add_var, &of);
  return of.var_count == 1 ? of.vars[0] : NULL;
}

/* From which length on they do. */
static int64_t min_strip_mined_length(const Kernel *k, const DimVar *var) {
  ExtentTable *sizes = k->graph->extent_table;
  double at[2];
  extent_table_set_hint(sizes, var, ASSUMED_LONG);
  at[1] = kernel_local_bytes(k, false);
  extent_table_set_hint(sizes, var, 0);
  at[0] = kernel_local_bytes(k, false);
  double each = (at[1] - at[0]) / (ASSUMED_LONG - EXTENT_HINT_DEFAULT);
  double max_value = (double)MAX_TASK_LOCAL_BYTES / MIN_STRIP_MINED_ROWS;
  double length = EXTENT_HINT_DEFAULT + (max_value - at[0]) / each;
  return each > 0 && length < ASSUMED_LONG / 2 ? (int64_t)length + 1 : 0;
}

static void add_window_version(KernelVersions *v, uint32_t vars,
                               int64_t max_value) {
  add_version(v, vars, max_value, max_value ? ASSUMED_FEW : ASSUMED_SMALL);
  v->versions[v->count - 1].window = true;
}

/* Those of a product through a window; false: it is none. */
static bool add_window_versions(const Kernel *k, KernelVersions *v) {
  const LoopNest *loop = k->loops.at[0];
  uint32_t rows = 0;
  uint64_t sliding_axes = gemm_tiling_sliding_axes(k->arena, loop, &rows);
  if (!sliding_axes)
    return false;
  for (uint32_t j = loop->spatial_axes; j < loop->axis_count; j++)
    if (sliding_axes >> j & 1)
      extent_each_var(k->graph, loop->extents[j], add_window_var, v);
  KernelVersions few = {.var_count = 0};
  extent_each_var(k->graph, loop->extents[rows], add_var, &few);
  if (few.var_count == 1)
    add_window_version(v, var_bit(v, few.vars[0]), MAX_FEW);
  add_window_version(v, all_vars(v), 0);
  add_version(v, 0, 0, 0);
  return true;
}

static void remove_other_var(void *versions, DimVar *var) {
  KernelVersions *v = versions;
  v->window_vars &= ~var_bit(v, var);
}

/* Sums of few terms, where the variables of these say nothing else but how
 * far others reach that are not few. */
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
      KernelVersions of = {.var_count = 0};
      extent_each_var(k->graph, loop->extents[i], add_var, &of);
      if (of.var_count == 1)
        remove_other_var(v, (DimVar *)(uintptr_t)of.vars[0]);
    }
  }
  uint32_t count = (uint32_t)__builtin_popcount(v->window_vars);
  bool some = count && v->window_vars != all_vars(v);
  for (uint32_t j = 0; j < v->count; j++)
    some &= v->versions[j].var_set != v->window_vars ||
            v->versions[j].max_value != MAX_FEW;
  if (some)
    add_version(v, v->window_vars, max_few_by_vars[count < 3 ? count - 1 : 2],
                count == 1 ? ASSUMED_FEW : ASSUMED_WINDOW_LENGTH);
}

/* A product of a batch, whose members are small: each size of these is a
 * variable, or a number. */
static void add_batched_gemm_version(const Kernel *k, uint32_t bytes,
                                     KernelVersions *v) {
  int64_t sizes[3];
  int64_t max_value = batched_gemm_symbolic_sizes(
      k, bytes / (vector_axis_needs_64bit(k, NULL) ? 8 : 4), sizes);
  uint32_t set = 0;
  if (!max_value)
    return;
  for (uint32_t j = 0; j < 3; j++) {
    bool suffix = extent_is_static(k->graph, sizes[j]);
    uint32_t one =
        suffix ? 0 : var_bit(v, dim_as_var(extent_dim(k->graph, sizes[j])));
    if (suffix ? sizes[j] > max_value : !one)
      return;
    set |= one;
  }
  add_version(v, set, max_value, ASSUMED_FEW);
  v->versions[v->count - 1].batched_gemm = true;
}

/* ---- indices of 32 bits ---- */

static bool has_low(const KernelOp *s) {
  return s->low == INT64_MIN && s->symbolic_min != INT64_MIN;
}

static bool has_high(const KernelOp *s) {
  return s->high == INT64_MAX && s->symbolic_max != INT64_MAX;
}

static bool is_index(const KernelOp *s) {
  return s->kind == KOP_AFFINE && s->dtype == DT_I64;
}

/* The sizes that 31 bits have to hold, so that they do indices. */
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

/* ---- all of them ---- */

static void find_versions(const Kernel *k, uint32_t bytes, KernelVersions *v) {
  *v = (KernelVersions){.var_count = 0};
  uint32_t kept = find_vars(k, v);
  if (add_window_versions(k, v))
    return;
  add_batched_gemm_version(k, bytes, v);
  if (kept <= MAX_VERSIONED_VARS) {
    for (uint32_t j = 0; j < kept && has_product(k); j++)
      add_version(v, (uint32_t)1 << j, 1, 1);
    for (uint32_t j = 0; j < kept; j++)
      add_version(v, (uint32_t)1 << j, MAX_FEW, ASSUMED_FEW);
  }
  add_short_reduction_version(k, v);
  find_index_bounds(k, v);
  const DimVar *length = strip_mined_length_var(k);
  if (length && min_strip_mined_length(k, length)) {
    add_version(v, var_bit(v, length), 0, ASSUMED_LONG);
    v->versions[v->count - 1].min_value = min_strip_mined_length(k, length);
  }
  if (v->var_count) {
    add_version(v, all_vars(v), MAX_SMALL, ASSUMED_SMALL);
    add_version(v, all_vars(v), 0, assumed_large(v->var_count));
    v->versions[v->count - 1].min_points = 1; /* until it is known */
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
                                     : ASSUMED_SMALL;
    if (is_own || x->window)
      extent_table_set_hint(k->graph->extent_table, v->vars[j],
                            enable ? assumed_value : 0);
  }
}

/* From how many points on it no longer fits a cache. */
static double min_uncached_points(const Kernel *k) {
  Cost cost = kernel_cost(k);
  const LoopNest *loop = k->loops.at[0];
  return ceil(0.75 * ASSUMED_LLC_BYTES /
              (cost.bytes_read + cost.bytes_written + 1) *
              loop_iterations_hint(loop, 0, loop->axis_count));
}

static bool emit_version(const KernelVersions *v, const Kernel *k,
                         uint32_t bytes, const char *suffix, KernelVersion *x) {
  x->kernel = kernel_copy(k);
  x->kernel->exceeds_caches = x->min_points > 0;
  x->kernel->allow_conv_windows = x->window;
  x->kernel->small_batched_gemm = x->batched_gemm;
  x->kernel->native_only = v->native_only;
  x->index_32bit = x != &v->versions[v->count - 1] &&
                   (v->index_minima.len || v->index_maxima.len);
  if (x->index_32bit)
    assume_32bit_indices(x->kernel);
  set_assumed_values(v, k, x, true);
  if (x->min_points > 0)
    x->min_points = min_uncached_points(x->kernel);
  x->alias_begin = extent_table_alias_count(k->graph->extent_table);
  schedule_choose(x->kernel, bytes, &x->schedule);
  x->unrolled_loops = 0;
  for (uint32_t j = 0; j < x->kernel->loops.len; j++)
    x->unrolled_loops += short_reduction_applies(x->kernel->loops.at[j]);
  bool good = emit_kernel(x->kernel, &x->schedule, NULL, suffix, &x->emitted);
  x->alias_end = extent_table_alias_count(k->graph->extent_table);
  set_assumed_values(v, k, x, false);
  return good;
}

/* ---- which pay ---- */

static double pack_cost(const Operand *o, double elements) {
  return o->packing == OPERAND_UNPACKED ? 0 : PACK_COST_TERMS * elements;
}

/* What tiles work on, edges too, and what is copied for them. */
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

static bool same_text(const Buffer *x, const Buffer *y) {
  return x->len == y->len && memcmp(x->text, y->text, x->len) == 0;
}

/* Through a window; with lanes across, or not. */
static bool has_window(const KernelVersion *x, bool *vectorize_channels) {
  const GemmTilings *t = x->schedule.gemm_tilings;
  *vectorize_channels =
      t && t->by_loop[0].window && t->by_loop[0].window->vectorize_channels;
  return t && t->by_loop[0].window;
}

/* Is it done in another way than what is left for the same sizes? */
static bool window_is_worthwhile(const KernelVersion *x,
                                 const KernelVersion *next) {
  bool vectorize_channels, other;
  return has_window(x, &vectorize_channels) &&
         (!has_window(next, &other) || vectorize_channels != other);
}

/* Blocks whose sums stay in registers, or longer ones. */
static bool fits_registers(const Schedule *s) {
  return s->task_columns <=
         (int64_t)schedule_max_accumulators(s->vector_bytes) * s->width;
}

/* Of loops without tiles: do only blocks differ, and vectors lie along the same
 * axes? */
static bool has_same_strategy(const KernelVersion *x, const KernelVersion *y) {
  const Schedule *s = &x->schedule, *t = &y->schedule;
  bool same = s->shape == t->shape && s->width == t->width &&
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

/* Is it done in another way, or much less work? */
static bool is_worthwhile(const KernelVersions *v, const KernelVersion *x,
                          const KernelVersion *fallback) {
  const Schedule *s = &x->schedule, *t = &fallback->schedule;
  if (same_text(&x->emitted.code.source, &fallback->emitted.code.source))
    return false;
  if (!s->gemm_tilings && !t->gemm_tilings)
    return !has_same_strategy(x, fallback);
  if (!s->gemm_tilings || !t->gemm_tilings || s->shape != t->shape ||
      s->strip_length != t->strip_length)
    return true;
  set_assumed_values(v, x->kernel, x, true);
  double now = tile_work(fallback), then = tile_work(x);
  set_assumed_values(v, x->kernel, x, false);
  return now > MIN_SPEEDUP * then;
}

bool multiversion_emit(const Kernel *k, uint32_t bytes, bool native_only,
                       const char *suffix, KernelVersions *v) {
  find_versions(k, bytes, v);
  v->native_only = native_only;
  KernelVersion *fallback = &v->versions[v->count - 1];
  if (!emit_version(v, k, bytes, suffix, fallback))
    return false;
  uint32_t kept = 0;
  for (uint32_t j = 0; j + 1 < v->count; j++)
    if (emit_version(v, k, bytes, suffix, &v->versions[j]) &&
        (v->versions[j].window || is_worthwhile(v, &v->versions[j], fallback)))
      v->versions[kept++] = v->versions[j];
  v->versions[kept++] = *fallback;
  v->count = 0;
  for (uint32_t j = 0; j < kept; j++)
    if (!v->versions[j].window ||
        window_is_worthwhile(&v->versions[j], &v->versions[j + 1]))
      v->versions[v->count++] = v->versions[j];
  return true;
}
