/* Counting bytes and operations of a kernel, and dividing them by limits. */
#include "tensor/cost.h"

static const double start_seconds = 1e-6; /* of a kernel on one thread */

/* Those not listed are one. */
static const uint8_t op_costs[PRIM_COUNT] = {
    [PRIM_DIV] = 2,    [PRIM_MOD] = 2,   [PRIM_POW] = 15,   [PRIM_RSQRT] = 3,
    [PRIM_SQRT] = 2,   [PRIM_EXP] = 10,  [PRIM_EXPM1] = 10, [PRIM_LOG] = 10,
    [PRIM_LOG1P] = 10, [PRIM_SIN] = 10,  [PRIM_COS] = 10,   [PRIM_TAN] = 15,
    [PRIM_ATAN2] = 15, [PRIM_SINH] = 10, [PRIM_COSH] = 10,  [PRIM_TANH] = 10,
    [PRIM_ERF] = 10,
};

double prim_cost(PrimId op) {
  return op_costs[op] ? op_costs[op] : 1;
}

/* ---- counting ---- */

static double points_along(const Loop *loop, uint64_t axes) {
  double points = 1;
  for (uint32_t v = 0; v < loop->axes; v++)
    if (axes >> v & 1)
      points *= loop_points(loop, v, v + 1) *
                (loop->limits && v == loop->limited ? loop->part : 1);
  return points;
}

static double step_cost(const Step *s) {
  switch (s->kind) {
  case STEP_OP:
    return prim_cost(s->op);
  case STEP_SELECT:
  case STEP_CONVERT:
  case STEP_PAIR:
    return 1;
  case STEP_RANDOM:
    return RANDOM_COST;
  case STEP_CONST:
  case STEP_INDEX:
  case STEP_READ:
  case STEP_LOCAL:
    break;
  }
  return 0;
}

/* Each step as often as its axes have points: it is hoisted out of others. */
static void count_steps(Cost *cost, const Loop *loop, const uint64_t *depends,
                        double *elements) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    double points = points_along(loop, depends[j]), each = step_cost(s);
    if (s->kind == STEP_READ && points > elements[s->input])
      elements[s->input] = points;
    cost->others += each * points;
    if (each > 0 && dtype_info[s->dtype].bytes > cost->wide)
      cost->wide = dtype_info[s->dtype].bytes;
  }
}

static void count_results(Cost *cost, const Loop *loop) {
  uint64_t all = ((uint64_t)1 << loop->axes) - 1;
  uint64_t outer = ((uint64_t)1 << loop->outer) - 1;
  uint64_t kept = ((uint64_t)1 << loop->kept) - 1;
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    double bytes = dtype_info[r->dtype].bytes;
    if (r->reduce != PRIM_NONE)
      cost->others += points_along(loop, all);
    if (r->out)
      cost->written += bytes * points_along(loop, kept);
    if (r->local)
      cost->scratch += 2 * bytes *
                       (double)size_guess(loop->graph, r->local_size) *
                       points_along(loop, outer);
  }
}

Cost cost_of(const Kernel *k) {
  Cost cost = {.wide = 1, .points = 1};
  double *elements = NEW_ARRAY(k->arena, double, k->inputs.len + 1);
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    double before = cost.others;
    count_steps(&cost, loop, loop_depends(k->arena, loop), elements);
    count_results(&cost, loop);
    if (loop_is_product(loop)) {
      uint64_t all = ((uint64_t)1 << loop->axes) - 1;
      double both = 2 * points_along(loop, all);
      double rest = cost.others - before - both;
      cost.products += both;
      cost.halves += product_of_halves(loop) ? both : 0;
      cost.others = before + (rest > 0 ? rest : 0);
    }
  }
  for (uint32_t j = 0; j < k->inputs.len; j++) {
    const Node *x = k->inputs.at[j];
    double count = node_guess(k->graph, x);
    cost.read += dtype_info[x->dtype].bytes *
                 (elements[j] < count ? elements[j] : count);
  }
  if (k->loops.len)
    cost.points = points_along(k->loops.at[0],
                               ((uint64_t)1 << k->loops.at[0]->outer) - 1);
  return cost;
}

/* ---- at the limits ---- */

/* The first level that holds so much; each core has its own first two. */
static MachineLevel level_of(const Machine *m, double bytes, int threads) {
  for (int k = LEVEL_1; k < LEVEL_MEMORY; k++) {
    double size = (double)m->cache[k] * (k < LEVEL_3 ? threads : 1);
    if (bytes <= size)
      return (MachineLevel)k;
  }
  return LEVEL_MEMORY;
}

static double bytes_seconds(const Cost *cost, const MachineLimits *l,
                            MachineLevel level, int all) {
  double read = l->read[level][all], copy = l->copy[level][all];
  double both = cost->read < cost->written ? cost->read : cost->written;
  double rest = cost->read - both, only = cost->written - both;
  return rest / read + (2 * both + only) / copy;
}

static void take(Prediction *p, CostBound bound, double seconds) {
  if (seconds <= p->limit)
    return;
  p->bound = bound;
  p->limit = seconds;
}

Prediction cost_predict(const Cost *cost, int64_t pieces, double scratch,
                        const Machine *m, const MachineLimits *limits) {
  int all = pieces > 1 && limits->threads > 1;
  int threads = all ? limits->threads : 1;
  MachineLevel level = level_of(m, cost->read + cost->written, threads);
  double narrow = cost->wide > 4 ? cost->wide / 4 : 1;
  double rate = limits->fma[all] / narrow; /* a multiply-add counts as two */
  Prediction p = {.bound = (CostBound)level};
  take(&p, (CostBound)level, bytes_seconds(cost, limits, level, all));
  double pairs = limits->bf16[all] > 0 ? limits->bf16[all] : rate;
  take(&p, COST_ARITHMETIC,
       (cost->products - cost->halves) / rate + cost->halves / pairs +
           2 * cost->others / rate);
  level = level_of(m, scratch, 1);
  take(&p, COST_SCRATCH, cost->scratch / limits->copy[level][all]);
  p.seconds = p.limit + (all ? limits->fork : 0) + start_seconds;
  return p;
}
