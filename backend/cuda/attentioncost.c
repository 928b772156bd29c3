/* Which schedule attention gets. */
#include "backend/cuda/attentionemit.h"

#include <math.h>
#include <string.h>

enum {
  REGISTERS = 65536,
  REGISTERS_MOST = 255,
  FEW_REGISTERS = 64, /* beside sums, scores and operands */
  STEP_CLOCKS = 150,  /* to wait for a stage, and for rows' largest scores */
  BLOCK_CLOCKS = 2500,
  LATENCY = 700,
  SCORE_CLOCKS = 10, /* instructions for each score */
  LANES = 128,       /* that a multiprocessor has of them, */
  EXPONENTS = 16,    /* and of powers */
};

static uint32_t round_up(uint32_t x, uint32_t to) {
  return (x + to - 1) / to * to;
}

void attention_schedules(const AttentionShape *shape, const GemmSchedule *s,
                         AttentionParts *p) {
  Held a = held_mma_a(2), b = held_values(held_mma_b(2), 2, 1);
  p->first_shape = (GemmShape){.a = shape->a, .b = shape->a, .sum = DT_F32};
  p->second_shape = (GemmShape){.a = shape->b,
                                .b = shape->v,
                                .sum = DT_F32,
                                .stored = shape->stored,
                                .store_align = shape->store_align};
  p->second_shape.a.turned = p->second_shape.b.turned = true;
  p->first = p->second = *s;
  p->first.k = p->second.m = round_up(shape->k, 16);
  p->second.n = round_up(shape->e, 16);
  p->second.k = s->n;
  p->first.warps_n = p->second.warps_n = 1;
  gemm_lay(&p->first_shape, &p->first, false, &a, false);
  gemm_lay(&p->second_shape, &p->second, false, &b, true);
  gemm_lay(&p->second_shape, &p->second, true, &b, true);
}

static uint32_t tile_bytes(const GemmShape *shape, const GemmSchedule *s,
                           bool b) {
  SharedTile t = gemm_tile(shape, s, b);
  return round_up((uint32_t)shared_bytes(&t), 1024);
}

uint32_t attention_shared(const AttentionShape *shape, const GemmSchedule *s) {
  AttentionParts p;
  attention_schedules(shape, s, &p);
  if (s->way == GEMM_WGMMA)
    return attention_room(&p, s).all;
  uint32_t stage = tile_bytes(&p.second_shape, &p.second, false) +
                   tile_bytes(&p.second_shape, &p.second, true);
  uint32_t all =
      s->stages * stage + tile_bytes(&p.first_shape, &p.first, false);
  uint32_t sums = s->m * gemm_slab_pitch(&p.second) * 4 + s->m * 8;
  return all > sums ? all : sums;
}

static bool is_copied(const GemmSide *s) {
  return !s->computed && s->align >= 4;
}

static uint32_t registers_of(const AttentionShape *shape,
                             const GemmSchedule *s) {
  uint32_t k = round_up(shape->k, 16), e = round_up(shape->e, 16);
  uint32_t held = k <= ATTENTION_HELD ? k / 4 : 4, copies = 0;
  uint32_t bytes = s->n * (k + e) * 2 / 16 / gemm_threads(s);
  if (s->way == GEMM_WGMMA)
    return e / 2 + s->n / 2 + s->n / 4 + FEW_REGISTERS;
  if (s->copy == BY_REGISTERS || !is_copied(&shape->b) || !is_copied(&shape->v))
    copies = 4 * bytes;
  return e / 2 + s->n / 2 + held + copies + FEW_REGISTERS;
}

static uint32_t blocks_of(const AttentionShape *shape, const GemmGpu *gpu,
                          const GemmSchedule *s) {
  uint32_t threads = gemm_threads(s), most = 8;
  uint32_t registers = round_up(registers_of(shape, s), 8);
  uint32_t shared = attention_shared(shape, s) + 1024;
  if (s->way == GEMM_WGMMA)
    return 1;
  while (most &&
         (most * threads > gpu->threads || most * shared > gpu->shared ||
          round_up(most * threads, 128) * registers > REGISTERS))
    most--;
  return most;
}

bool attention_fits(const AttentionShape *shape, const GemmGpu *gpu,
                    const GemmSchedule *s) {
  return attention_shared(shape, s) <= gpu->block &&
         registers_of(shape, s) <= (s->way == GEMM_WGMMA
                                        ? gemm_group_registers(s->warps_m)
                                        : REGISTERS_MOST) &&
         blocks_of(shape, gpu, s) >= 1;
}

static double seconds_of(const AttentionShape *shape, const GemmGpu *gpu,
                         const GemmSchedule *s) {
  double blocks = blocks_of(shape, gpu, s), m = s->m, n = s->n;
  double k = round_up(shape->k, 16), e = round_up(shape->e, 16);
  bool group = s->way == GEMM_WGMMA;
  double math = 2 * m * n * (k + e) / (group ? gpu->group : gpu->half);
  double scores = m * n * SCORE_CLOCKS / LANES + m * n / EXPONENTS;
  double loaded = n * (k + e) * 2 * (group ? 1 : m / 16 + 1) / 128;
  double l2 = n * (k + e) * 2 / (gpu->l2_rate / gpu->sms);
  double most =
      cbrt(math * math * math + loaded * loaded * loaded + l2 * l2 * l2) +
      0.5 * scores;
  double stage = fmax(blocks * most + STEP_CLOCKS,
                      LATENCY / (double)(s->stages > 1 ? s->stages - 1 : 1));
  double all = ceil(shape->m / m) * shape->batch;
  double waves = fmax(1, all / (gpu->sms * blocks));
  if (all < gpu->sms * blocks)
    stage = fmax(ceil(all / gpu->sms) * most + STEP_CLOCKS, LATENCY);
  double steps = ceil(shape->n * shape->part / n);
  double clocks = waves * (steps * stage + BLOCK_CLOCKS);
  double bytes = (shape->m * k + shape->n * (k + e)) * 2 * shape->batch +
                 shape->m * e * shape->batch * shape->stored;
  return fmax(clocks / gpu->clock, bytes / gpu->memory);
}

/* Through what TMA takes, dense along k and e. */
static bool may_group(const AttentionShape *shape, const GemmGpu *gpu) {
  const GemmSide *sides[] = {&shape->a, &shape->b, &shape->v};
  for (size_t j = 0; j < 3; j++)
    if (!sides[j]->boxes || sides[j]->computed || sides[j]->align < 16)
      return false;
  return gpu->group > 0 && gpu->engine;
}

static bool may(const AttentionShape *shape, const GemmGpu *gpu) {
  Dtype t = shape->a.dtype;
  return shape->b.dtype == t && shape->v.dtype == t && shape->k >= 1 &&
         shape->e >= 1 && shape->k <= 256 && shape->e <= 256 &&
         (t == DT_F16 || (t == DT_BF16 && gpu->arch >= 80));
}

typedef struct Choice {
  const AttentionShape *shape;
  const GemmGpu *gpu;
  GemmSchedule best;
  double seconds;
} Choice;

static void try(Choice *c, const GemmSchedule *s) {
  if (!attention_fits(c->shape, c->gpu, s))
    return;
  double seconds = seconds_of(c->shape, c->gpu, s);
  if (c->best.way && seconds >= c->seconds)
    return;
  c->best = *s;
  c->seconds = seconds;
}

bool attention_choose(const AttentionShape *shape, const GemmGpu *gpu,
                      GemmSchedule *s, double *seconds) {
  Choice c = {.shape = shape, .gpu = gpu};
  GemmSchedule one = {.way = GEMM_MMA,
                      .copy = gpu->async ? BY_ASYNC : BY_REGISTERS,
                      .store = STORE_SHARED,
                      .k = round_up(shape->k, 16),
                      .warps_n = 1,
                      .split = 1,
                      .cluster_m = 1,
                      .cluster_n = 1};
  if (!may(shape, gpu))
    return false;
  for (one.warps_m = 1; one.warps_m <= 8; one.warps_m *= 2)
    for (one.n = 16; one.n <= 128; one.n *= 2)
      for (one.stages = 2; one.stages <= (gpu->async ? 3 : 2); one.stages++) {
        one.m = 16 * one.warps_m;
        try(&c, &one);
      }
  if (may_group(shape, gpu)) {
    one.way = GEMM_WGMMA;
    one.copy = BY_ENGINE;
    for (one.warps_m = 1; one.warps_m <= 3; one.warps_m++)
      for (one.n = 32; one.n <= 192; one.n += 32)
        for (one.stages = 2; one.stages <= 3; one.stages++) {
          one.m = 64 * one.warps_m;
          try(&c, &one);
        }
  }
  if (!c.best.way)
    return false;
  *s = c.best;
  s->blocks = blocks_of(shape, gpu, s);
  *seconds = c.seconds;
  return true;
}

int64_t attention_blocks(const GemmSchedule *s, int64_t m, int64_t batch) {
  return (m + s->m - 1) / s->m * batch;
}
