/* Counts the bytes and operations of a kernel, and divides them by the peak
 * rates of the machine. */
#include "kernel/roofline.h"
#include "machine/limits/planner.h"
#include "support/arena.h"

/* ---- counting ---- */

static double iterations_along(const LoopNest *loop, uint64_t axes) {
  double iterations = 1;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (axes >> v & 1)
      iterations *=
          loop_iterations_hint(loop, v, v + 1) *
          (loop->trim_bounds && v == loop->trimmed_axis ? loop->trip_fraction
                                                        : 1);
  return iterations;
}

static double op_cost(const KernelOp *s) {
  switch (s->kind) {
  case KOP_MAP:
    return map_info[s->op].cost;
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    return 1;
  case KOP_RANDOM:
    return RANDOM_COST;
  case KOP_CONST:
  case KOP_AFFINE:
  case KOP_LOAD:
  case KOP_LOAD_LOCAL:
    break;
  }
  return 0;
}

/* Counts each op once per iteration of the axes on which it depends: it is
 * hoisted out of the other axes. */
static void count_ops(Cost *cost, const LoopNest *loop, const uint64_t *op_vars,
                      double *input_elements) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    double iterations = iterations_along(loop, op_vars[j]), each = op_cost(s);
    if (s->kind == KOP_LOAD && iterations > input_elements[s->input])
      input_elements[s->input] = iterations;
    cost->other_ops += each * iterations;
    if (each > 0 && dtype_info[s->dtype].bytes > cost->widest_bytes)
      cost->widest_bytes = dtype_info[s->dtype].bytes;
  }
}

static void count_outputs(Cost *cost, const LoopNest *loop) {
  uint64_t all = ((uint64_t)1 << loop->axis_count) - 1;
  uint64_t parallel = ((uint64_t)1 << loop->parallel_axes) - 1;
  uint64_t spatial = ((uint64_t)1 << loop->spatial_axes) - 1;
  for (uint32_t v = loop->parallel_axes - loop->accumulated_axes;
       v < loop->parallel_axes; v++)
    spatial &= ~((uint64_t)1 << v);
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    double bytes = dtype_info[r->dtype].bytes;
    if (r->reduce != PRIM_NONE)
      cost->other_ops +=
          reduce_info[r->reduce].cost * iterations_along(loop, all);
    if (r->global_index)
      cost->bytes_written += bytes * iterations_along(loop, spatial);
    if (r->local_index)
      cost->scratch_bytes +=
          2 * bytes * (double)extent_hint(loop->graph, r->local_elements) *
          iterations_along(loop, parallel);
  }
}

Cost kernel_cost(const Kernel *k) {
  Cost cost = {.widest_bytes = 1, .parallel_iterations = 1};
  double *input_elements = NEW_ARRAY(k->arena, double, k->inputs.len + 1);
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    double before = cost.other_ops;
    if (loop->keeps_states)
      continue;
    count_ops(&cost, loop, loop_op_vars(k->arena, loop), input_elements);
    count_outputs(&cost, loop);
    if (loop_is_contraction(loop)) {
      uint64_t all = ((uint64_t)1 << loop->axis_count) - 1;
      double both = 2 * iterations_along(loop, all);
      double rest = cost.other_ops - before - both;
      cost.contraction_flops += both;
      cost.bf16_flops += contraction_is_bf16(loop) ? both : 0;
      cost.other_ops = before + (rest > 0 ? rest : 0);
    }
  }
  for (uint32_t j = 0; j < k->inputs.len; j++) {
    const Node *x = k->inputs.at[j];
    double count = node_element_hint(k->graph, x);
    cost.bytes_read += dtype_info[x->dtype].bytes *
                       (input_elements[j] < count ? input_elements[j] : count);
  }
  if (k->loops.len)
    cost.parallel_iterations = iterations_along(
        k->loops.at[0], ((uint64_t)1 << k->loops.at[0]->parallel_axes) - 1);
  return cost;
}

/* ---- prediction ---- */

/* The smallest level of memory that holds the bytes.  L1 and L2 caches exist
 * once per core. */
static MemoryLevel level_that_holds(const Machine *m, double bytes,
                                    int threads) {
  for (int k = LEVEL_L1; k < LEVEL_DRAM; k++) {
    double size = (double)m->cache_bytes[k] * (k < LEVEL_L3 ? threads : 1);
    if (bytes <= size)
      return (MemoryLevel)k;
  }
  return LEVEL_DRAM;
}

static double traffic_seconds(const Cost *cost, const PeakRates *l,
                              MemoryLevel level, int all) {
  double read = l->read_bandwidth[level][all],
         copy = l->copy_bandwidth[level][all];
  double both = cost->bytes_read < cost->bytes_written ? cost->bytes_read
                                                       : cost->bytes_written;
  double rest = cost->bytes_read - both, only = cost->bytes_written - both;
  return rest / read + (2 * both + only) / copy;
}

static void raise_bound(Prediction *p, RooflineBound bound, double seconds) {
  if (seconds <= p->bound_seconds)
    return;
  p->bound = bound;
  p->bound_seconds = seconds;
}

Prediction roofline_predict(const Cost *cost, int64_t tasks,
                            double scratch_bytes, const Machine *m,
                            const PeakRates *limits) {
  int all = tasks > 1 && limits->threads > 1;
  int threads = all ? limits->threads : 1;
  MemoryLevel level =
      level_that_holds(m, cost->bytes_read + cost->bytes_written, threads);
  double width_factor = cost->widest_bytes > 4 ? cost->widest_bytes / 4 : 1;
  double fma_rate =
      limits->f32_flops[all] / width_factor; /* a multiply-add counts twice */
  Prediction p = {.bound = (RooflineBound)level};
  raise_bound(&p, (RooflineBound)level,
              traffic_seconds(cost, limits, level, all));
  double bf16_rate =
      limits->bf16_flops[all] > 0 ? limits->bf16_flops[all] : fma_rate;
  raise_bound(&p, ROOFLINE_COMPUTE,
              (cost->contraction_flops - cost->bf16_flops) / fma_rate +
                  cost->bf16_flops / bf16_rate +
                  2 * cost->other_ops / fma_rate);
  level = level_that_holds(m, scratch_bytes, 1);
  raise_bound(&p, ROOFLINE_SCRATCH,
              cost->scratch_bytes / limits->copy_bandwidth[level][all]);
  p.seconds = p.bound_seconds + (all ? limits->fork_join_seconds : 0) +
              KERNEL_LAUNCH_SECONDS;
  return p;
}
