/* Cost model and schedule search of fused attention. */
#include "backend/cuda/attention_emit.h"
#include "machine/limits/cuda.h"

#include <math.h>
#include <string.h>

/* Throughput of an SM per clock: "CUDA C++ Programming Guide", arithmetic
 * instructions. */
enum {
  SM_LANES = 128,        /* instructions of threads */
  SM_EXP_PER_CLOCK = 16, /* exponentials */
};

static uint32_t round_up(uint32_t x, uint32_t to) {
  return (x + to - 1) / to * to;
}

uint32_t attention_padded_dim(uint32_t dim) {
  return round_up(dim, 16);
}

static void product_schedules(const AttentionShape *shape, GemmSide query,
                              GemmSide key, uint32_t head_dim,
                              const GemmSchedule *s, ProductGemms *p) {
  FragmentLayout a = fragment_layout_mma_a(2),
                 b = fragment_layout_repeat_values(fragment_layout_mma_b(2), 2,
                                                   1);
  p->q_shape = (GemmShape){.a = query, .b = query, .accumulator_dtype = DT_F32};
  p->kv_shape = (GemmShape){.a = key,
                            .b = shape->value,
                            .accumulator_dtype = DT_F32,
                            .epilogue_bytes = shape->epilogue_bytes,
                            .store_align_bytes = shape->store_align_bytes,
                            .output_count = shape->output_count,
                            .max_output_bytes = shape->max_output_bytes};
  p->kv_shape.a.mn_major = p->kv_shape.b.mn_major = true;
  p->q_schedule = p->kv_schedule = *s;
  p->q_schedule.k = p->kv_schedule.m = attention_padded_dim(head_dim);
  p->kv_schedule.n = round_up(shape->value_dim, 16);
  p->kv_schedule.k = s->n;
  p->q_schedule.warps_n = p->kv_schedule.warps_n = 1;
  gemm_choose_operand_layout(&p->q_shape, &p->q_schedule, false, &a, false);
  gemm_choose_operand_layout(&p->kv_shape, &p->kv_schedule, false, &b, true);
  gemm_choose_operand_layout(&p->kv_shape, &p->kv_schedule, true, &b, true);
}

void attention_gemm_schedules(const AttentionShape *shape,
                              const GemmSchedule *s, AttentionGemms *p) {
  product_schedules(shape, shape->query, shape->key, shape->head_dim, s,
                    &p->first);
  if (shape->head_dim2)
    product_schedules(shape, shape->query2, shape->key2, shape->head_dim2, s,
                      &p->second);
}

static uint32_t tile_bytes(const GemmShape *shape, const GemmSchedule *s,
                           bool b) {
  SmemTile t = gemm_operand_tile(shape, s, b);
  return round_up((uint32_t)smem_tile_bytes(&t), 1024);
}

uint32_t attention_shared_bytes(const AttentionShape *shape,
                                const GemmSchedule *s) {
  AttentionGemms p;
  attention_gemm_schedules(shape, s, &p);
  if (gemm_has_producer(s))
    return attention_smem(&p, s).total_bytes;
  uint32_t stage = tile_bytes(&p.first.kv_shape, &p.first.kv_schedule, false) +
                   tile_bytes(&p.first.kv_shape, &p.first.kv_schedule, true);
  uint32_t queries = tile_bytes(&p.first.q_shape, &p.first.q_schedule, false);
  if (shape->head_dim2) {
    stage += tile_bytes(&p.second.kv_shape, &p.second.kv_schedule, false);
    queries += tile_bytes(&p.second.q_shape, &p.second.q_schedule, false);
  }
  uint32_t all = s->stages * stage + queries;
  uint32_t sums =
      s->m * gemm_epilogue_tile_pitch(&p.first.kv_schedule) * 4 + s->m * 8;
  return all > sums ? all : sums;
}

/* Registers for copies of an operand tile: addresses, and values between load
 * and store. */
static uint32_t loading_registers(const GemmSchedule *s, uint32_t copy,
                                  uint32_t bytes) {
  uint32_t each = copy ? copy : 16, all = gemm_threads(s) * each;
  bool via_registers = !copy || s->copy == COPY_VIA_REGISTERS;
  return (bytes + all - 1) / all *
         ((copy == 16 ? COPY_16_REGISTERS
           : copy     ? SMALL_COPY_REGISTERS
                      : ELEMENT_LOAD_REGISTERS) +
          (via_registers ? each / 4 : 0));
}

/* Accumulators are in tensor memory.  The scores, their weights and loaded
 * operands are live together; later, the sums are. */
static uint32_t tcgen05_registers(const AttentionShape *shape,
                                  const GemmSchedule *s) {
  uint32_t weights = s->n / 2 + s->n / 4 + shape->score_loads * s->n / 4 +
                     (shape->score_converts_64_bits ? s->n : 0),
           sums = round_up(shape->value_dim, 16) / 2;
  return ATTENTION_BASE_REGISTERS + ATTENTION_TILE_REGISTERS +
         (weights > sums ? weights : sums);
}

/* Two queries would need too many registers. */
bool attention_query_in_registers(const AttentionShape *shape) {
  return !shape->head_dim2 &&
         shape->head_dim <= ATTENTION_MAX_REGISTER_HEAD_DIM;
}

static uint32_t thread_registers(const AttentionShape *shape,
                                 const GemmSchedule *s) {
  uint32_t k = round_up(shape->head_dim, 16),
           k2 = round_up(shape->head_dim2, 16),
           e = round_up(shape->value_dim, 16);
  uint32_t query_registers = attention_query_in_registers(shape) ? k / 4 : 4;
  uint32_t all = e / 2 + s->n / 2 + shape->score_loads * s->n / 4;
  AttentionGemms p;
  if (s->mma_kind == MMA_KIND_TCGEN05)
    return tcgen05_registers(shape, s);
  /* ptxas computes 64-bit conversions before the MMAs.  In wgmma kernels the
   * converted values of all scores are live during the wait for wgmma. */
  if (s->mma_kind == MMA_KIND_WGMMA)
    return all + s->n / 4 + (shape->score_converts_64_bits ? s->n : 0) +
           (s->persistent ? ATTENTION_TILE_REGISTERS : 0) +
           (shape->may_count ? COUNTING_REGISTERS : 0) +
           (shape->score_ops <= MAX_CHEAP_SCORE_OPS
                ? ATTENTION_WGMMA_BASE_REGISTERS +
                      shape->score_loads * SCORE_LOAD_REGISTERS
                : ATTENTION_BASE_REGISTERS);
  attention_gemm_schedules(shape, s, &p);
  all += ATTENTION_BASE_REGISTERS + (shape->may_retry ? RETRY_REGISTERS : 0) +
         (shape->score_converts_64_bits ? SCORE_64_BIT_REGISTERS : 0);
  if (k2) /* the results, and the addresses of the key */
    all += s->n / 2 +
           loading_registers(s, p.second.kv_schedule.copy_a, s->n * k2 * 2);
  return all + query_registers +
         loading_registers(s, p.first.kv_schedule.copy_a, s->n * k * 2) +
         loading_registers(s, p.first.kv_schedule.copy_b, s->n * e * 2);
}

static uint32_t blocks_per_sm(const AttentionShape *shape, const GpuSpec *gpu,
                              const GemmSchedule *s) {
  uint32_t threads = gemm_threads(s), max = ATTENTION_MAX_SM_BLOCKS;
  uint32_t registers = round_up(thread_registers(shape, s), 8);
  uint32_t shared = attention_shared_bytes(shape, s) + 1024;
  if (gemm_has_producer(s))
    return 1;
  while (max && (max * threads > gpu->sm_threads ||
                 max * shared > gpu->sm_shared_bytes ||
                 round_up(max * threads, 128) * registers > SM_REGISTERS))
    max--;
  return max;
}

static uint32_t max_registers(const GemmSchedule *s) {
  switch ((MmaKind)s->mma_kind) {
  case MMA_KIND_WGMMA:
    return gemm_consumer_registers(s->warps_m, ATTENTION_PRODUCER_REGISTERS);
  case MMA_KIND_TCGEN05:
    return gemm_consumer_registers(s->warps_m,
                                   ATTENTION_TENSOR_PRODUCER_REGISTERS);
  case MMA_KIND_MMA_SYNC:
  case MMA_KIND_FMA:
  case MMA_KIND_NONE:
    break;
  }
  return MAX_THREAD_REGISTERS;
}

BlockUse attention_block_use(const AttentionShape *shape, const GpuSpec *gpu,
                             const GemmSchedule *s) {
  return (BlockUse){.threads = gemm_threads(s),
                    .shared_bytes = attention_shared_bytes(shape, s),
                    .max_shared_bytes = gpu->block_shared_bytes,
                    .registers = thread_registers(shape, s),
                    .max_registers = max_registers(s),
                    .blocks = blocks_per_sm(shape, gpu, s)};
}

bool attention_fits(const AttentionShape *shape, const GpuSpec *gpu,
                    const GemmSchedule *s) {
  BlockUse u = attention_block_use(shape, gpu, s);
  return block_use_fits(&u) &&
         attention_tmem_columns(shape, s) <= TENSOR_MEMORY_COLUMNS;
}

/* Stores by TMA have fewer instructions than those through a slab.  They save
 * at most a quarter of the overhead of a tile. */
static double with_stores(const AttentionShape *shape, const GemmSchedule *s,
                          double overhead) {
  double ops = s->store_stages > 1 ? BUFFERED_TMA_STORE_OPS : TMA_STORE_OPS;
  double saved = s->m * (double)round_up(shape->value_dim, 16) *
                 (SHARED_STORE_OPS - ops) / SM_LANES;
  return s->store == STORE_TMA ? overhead - fmin(saved, overhead / 4)
                               : overhead;
}

/* tile: clocks of the main loop. */
static double all_tiles_clocks(const AttentionShape *shape,
                               const GemmSchedule *s, double waves,
                               double tile) {
  if (!s->persistent)
    return waves * (tile + with_stores(shape, s, ATTENTION_BLOCK_CLOCKS));
  return ATTENTION_BLOCK_CLOCKS +
         waves * (tile + with_stores(shape, s, ATTENTION_TILE_CLOCKS)) *
             (1 + ATTENTION_PERSISTENT_LOSS);
}

/* Clocks of the products of a step. */
static double product_clocks(const GpuSpec *gpu, const GemmSchedule *s,
                             double depth) {
  double rate = s->mma_kind == MMA_KIND_TCGEN05 ? gpu->f16_tcgen05_rate
                : s->mma_kind == MMA_KIND_WGMMA ? gpu->f16_wgmma_rate
                                                : gpu->f16_mma_rate;
  return 2 * (double)s->m * s->n * depth / rate;
}

/* Instructions of the scores of a step. */
static double score_clocks(const AttentionShape *shape, const GemmSchedule *s) {
  double all = (double)s->m * s->n,
         clocks = all * (SCORE_OPS + shape->score_ops) / SM_LANES +
                  all / SM_EXP_PER_CLOCK;
  /* each warpgroup has a warp on each of the 4 schedulers */
  if (s->mma_kind == MMA_KIND_WGMMA)
    clocks += s->m / 64 * (WARP_STAGE_OPS + round_up(shape->value_dim, 16) / 2);
  if (s->mma_kind == MMA_KIND_TCGEN05)
    clocks += s->warps_m * WARP_STAGE_OPS;
  return clocks;
}

/* The part of the scores' time in which tensor cores wait. */
static double exposed_scores(const GemmSchedule *s) {
  return s->mma_kind == MMA_KIND_TCGEN05 && s->warps_m == 1 ? 1
                                                            : EXPOSED_SCORES;
}

static double predict_seconds(const AttentionShape *shape, const GpuSpec *gpu,
                              const GemmSchedule *s) {
  double blocks = blocks_per_sm(shape, gpu, s), m = s->m, n = s->n;
  double k = round_up(shape->head_dim, 16) + round_up(shape->head_dim2, 16),
         e = round_up(shape->value_dim, 16);
  double math = product_clocks(gpu, s, k + e), scores = score_clocks(shape, s);
  double loaded =
      n * (k + e) * 2 * (gemm_has_producer(s) ? 1 : m / 16 + 1) / 128;
  double l2 = n * (k + e) * 2 / (gpu->l2_bytes_per_clock / gpu->sms);
  double max =
      cbrt(math * math * math + loaded * loaded * loaded + l2 * l2 * l2) +
      exposed_scores(s) * scores;
  double stage = fmax(blocks * max + ATTENTION_STAGE_CLOCKS,
                      ATTENTION_LOAD_LATENCY_CLOCKS /
                          (double)(s->stages > 1 ? s->stages - 1 : 1));
  double all = ceil(shape->m / m) * shape->batch;
  double waves = fmax(1, all / (gpu->sms * blocks));
  if (all < gpu->sms * blocks)
    stage = fmax(ceil(all / gpu->sms) * max + ATTENTION_STAGE_CLOCKS,
                 ATTENTION_LOAD_LATENCY_CLOCKS);
  /* A tile that trimmed bounds cross is computed completely. */
  double trimmed_tail = shape->visited_fraction < 1 ? (m + n) / 2 : 0;
  double steps = ceil(
      fmin(shape->n * shape->visited_fraction + trimmed_tail, shape->n) / n);
  double clocks = all_tiles_clocks(shape, s, waves, steps * stage);
  double bytes = (shape->m * k + shape->n * (k + e)) * 2 * shape->batch +
                 shape->m * e * shape->batch * shape->epilogue_bytes;
  return fmax(clocks / gpu->clock_hz, bytes / gpu->dram_bandwidth);
}

static bool is_supported(const AttentionShape *shape, const GpuSpec *gpu) {
  Dtype t = shape->query.dtype;
  return shape->key.dtype == t && shape->value.dtype == t &&
         shape->head_dim >= 1 && shape->value_dim >= 1 &&
         shape->head_dim <= 256 && shape->value_dim <= 256 &&
         shape->head_dim2 <= 256 &&
         (t == DT_F16 || (t == DT_BF16 && gpu->arch >= 80));
}

typedef struct ScheduleSearch {
  const AttentionShape *shape;
  const GpuSpec *gpu;
  GemmSchedule best;
  double seconds;
} ScheduleSearch;

static void try_schedule(ScheduleSearch *c, const GemmSchedule *s) {
  if (!attention_fits(c->shape, c->gpu, s))
    return;
  double seconds = predict_seconds(c->shape, c->gpu, s);
  if (c->best.mma_kind && seconds >= c->seconds)
    return;
  c->best = *s;
  c->seconds = seconds;
}

/* Tries both ways to store the results. */
static void try_stores(ScheduleSearch *c, GemmSchedule s) {
  s.m = attention_rows_per_unit((MmaKind)s.mma_kind) * s.warps_m;
  try_schedule(c, &s);
  s.store = STORE_TMA;
  for (s.store_stages = 1;
       c->shape->tma_storable && s.store_stages <= ATTENTION_MAX_STORE_STAGES;
       s.store_stages++)
    try_schedule(c, &s);
}

static void try_wgmma(ScheduleSearch *c, GemmSchedule s) {
  s.mma_kind = MMA_KIND_WGMMA;
  if (attention_producer_refusal(c->shape, c->gpu, MMA_KIND_WGMMA))
    return;
  for (s.warps_m = 1; s.warps_m <= 3; s.warps_m++)
    for (s.n = 32; s.n <= ATTENTION_MAX_WGMMA_COLUMNS; s.n += 16)
      for (s.stages = 2; s.stages <= ATTENTION_MAX_STAGES; s.stages++)
        for (s.persistent = 0; s.persistent < 2; s.persistent++)
          try_stores(c, s);
}

static void try_tcgen05(ScheduleSearch *c, GemmSchedule s) {
  s.mma_kind = MMA_KIND_TCGEN05;
  s.persistent = 1;
  if (attention_producer_refusal(c->shape, c->gpu, MMA_KIND_TCGEN05))
    return;
  for (s.warps_m = 1; s.warps_m <= 2; s.warps_m++)
    for (s.n = 32; s.n <= ATTENTION_MAX_TCGEN05_COLUMNS; s.n += 16)
      for (s.stages = 2; s.stages <= ATTENTION_MAX_STAGES; s.stages++)
        try_stores(c, s);
}

bool attention_choose(const AttentionShape *shape, const GpuSpec *gpu,
                      GemmSchedule *s, double *seconds) {
  ScheduleSearch c = {.shape = shape, .gpu = gpu};
  GemmSchedule candidate = {.mma_kind = MMA_KIND_MMA_SYNC,
                            .copy = gpu->has_cp_async ? COPY_CP_ASYNC
                                                      : COPY_VIA_REGISTERS,
                            .store = STORE_SHARED,
                            .k = attention_padded_dim(shape->head_dim),
                            .warps_n = 1,
                            .split = 1,
                            .cluster_m = 1,
                            .cluster_n = 1};
  if (!is_supported(shape, gpu))
    return false;
  for (candidate.warps_m = 1; candidate.warps_m <= 8; candidate.warps_m *= 2)
    for (candidate.n = 16; candidate.n <= ATTENTION_MAX_MMA_COLUMNS;
         candidate.n *= 2)
      for (candidate.stages = 2;
           candidate.stages <= (gpu->has_cp_async ? ATTENTION_MAX_STAGES : 2);
           candidate.stages++) {
        candidate.m = 16 * candidate.warps_m;
        try_schedule(&c, &candidate);
      }
  candidate.copy = COPY_TMA;
  try_wgmma(&c, candidate);
  try_tcgen05(&c, candidate);
  if (!c.best.mma_kind)
    return false;
  *s = c.best;
  s->blocks = blocks_per_sm(shape, gpu, s);
  *seconds = c.seconds;
  return true;
}

int64_t attention_blocks(const GemmSchedule *s, int64_t m, int64_t batch) {
  return (m + s->m - 1) / s->m * batch;
}
