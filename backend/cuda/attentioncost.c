/* Which schedule attention gets. */
#include "backend/cuda/attentionemit.h"

#include <math.h>
#include <string.h>

/* Registers, lanes and powers of a clock are of the "CUDA C++ Programming
 * Guide" (technical specifications and arithmetic throughput by compute
 * capability); how many registers a text takes is fitted to what ptxas says.
 * All that waits, and what a score takes, are guesses that no GPU has been
 * asked about. */
enum {
  REGISTERS = 65536,
  REGISTERS_MOST = 255,
  FEW_REGISTERS = 68,     /* beside sums, scores and operands */
  GROUP_REGISTERS = 32,   /* the same of warpgroups whose scores are little, */
  LITTLE_SCORE = 16,      /* of so many operations, */
  READ_REGISTERS = 20,    /* and what reads for these take, beside values */
  AGAIN_REGISTERS = 24,   /* of what stays for another round */
  WIDE_REGISTERS = 32,    /* of what scores are made of, of 64 bits */
  WHOLE_REGISTERS = 5,    /* of a copy of 16 bytes of a stage, */
  PART_REGISTERS = 11,    /* of less, */
  ELEMENT_REGISTERS = 27, /* and of what is loaded one by one */
  STEP_CLOCKS = 150, /* to wait for a stage, and for rows' largest scores */
  BLOCK_CLOCKS = 2500,
  LATENCY = 700,
  SCORE_CLOCKS = 8, /* instructions for each score, and what it takes */
  STEP_WORK = 100,  /* instructions of a warp for each stage, and its sums' */
  LANES = 128,      /* that a multiprocessor has of them, */
  EXPONENTS = 16,   /* and of powers */
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

/* Of an operand's tile: addresses of copies that stay, and what waits to be
 * stored. */
static uint32_t loading_registers(const GemmSchedule *s, uint32_t copy,
                                  uint32_t bytes) {
  uint32_t each = copy ? copy : 16, all = gemm_threads(s) * each;
  bool held = !copy || s->copy == BY_REGISTERS;
  return (bytes + all - 1) / all *
         ((copy == 16 ? WHOLE_REGISTERS
           : copy     ? PART_REGISTERS
                      : ELEMENT_REGISTERS) +
          (held ? each / 4 : 0));
}

static uint32_t registers_of(const AttentionShape *shape,
                             const GemmSchedule *s) {
  uint32_t k = round_up(shape->k, 16), e = round_up(shape->e, 16);
  uint32_t held = k <= ATTENTION_HELD ? k / 4 : 4;
  uint32_t all = e / 2 + s->n / 2 + shape->reads * s->n / 4;
  AttentionParts p;
  /* ptxas has what is wide before the product is there; while warpgroups wait
   * for it, that of all scores */
  if (s->way == GEMM_WGMMA)
    return all + s->n / 4 + (shape->wide ? s->n : 0) +
           (shape->score <= LITTLE_SCORE
                ? GROUP_REGISTERS + shape->reads * READ_REGISTERS
                : FEW_REGISTERS);
  attention_schedules(shape, s, &p);
  all += FEW_REGISTERS + (shape->again ? AGAIN_REGISTERS : 0) +
         (shape->wide ? WIDE_REGISTERS : 0);
  return all + held + loading_registers(s, p.second.copy_a, s->n * k * 2) +
         loading_registers(s, p.second.copy_b, s->n * e * 2);
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
         registers_of(shape, s) <=
             (s->way == GEMM_WGMMA
                  ? gemm_group_registers(s->warps_m, ATTENTION_PRODUCER)
                  : REGISTERS_MOST) &&
         blocks_of(shape, gpu, s) >= 1;
}

static double seconds_of(const AttentionShape *shape, const GemmGpu *gpu,
                         const GemmSchedule *s) {
  double blocks = blocks_of(shape, gpu, s), m = s->m, n = s->n;
  double k = round_up(shape->k, 16), e = round_up(shape->e, 16);
  bool group = s->way == GEMM_WGMMA;
  double math = 2 * m * n * (k + e) / (group ? gpu->group : gpu->half);
  double scores =
      m * n * (SCORE_CLOCKS + shape->score) / LANES + m * n / EXPONENTS;
  if (group) /* each has a warp on each of the four schedulers */
    scores += m / 64 * (STEP_WORK + e / 2);
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
  /* tiles that limits cut through are gone through whole */
  double cut = shape->part < 1 ? (m + n) / 2 : 0;
  double steps = ceil(fmin(shape->n * shape->part + cut, shape->n) / n);
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

/* Is it a schedule at all, when a person has written it? */
static bool can_run(const AttentionShape *shape, const GemmGpu *gpu,
                    const GemmSchedule *s) {
  bool group = s->way == GEMM_WGMMA;
  uint32_t rows = group ? 64 : 16;
  if ((!group && s->way != GEMM_MMA) || s->warps_m < 1 ||
      s->warps_m > (group ? 3 : 8) || s->m != rows * s->warps_m ||
      s->warps_n != 1 || s->n < rows / 2 || s->n > 256 || s->n % 16 ||
      s->stages < 2 || s->stages > 8 || s->split != 1)
    return false;
  return (group ? may_group(shape, gpu) && s->copy == BY_ENGINE
                : s->copy == (gpu->async ? BY_ASYNC : BY_REGISTERS)) &&
         attention_fits(shape, gpu, s);
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

bool attention_change(const AttentionShape *shape, const GemmGpu *gpu,
                      const char *text, GemmSchedule *s, Buffer *why) {
  GemmSchedule to = *s;
  if (!gemm_parse(&to, text, why))
    return false;
  if (!can_run(shape, gpu, &to)) {
    buffer_puts(why, "there is no such kernel, or it does not fit");
    return false;
  }
  to.blocks = blocks_of(shape, gpu, &to);
  *s = to;
  return true;
}

int64_t attention_blocks(const GemmSchedule *s, int64_t m, int64_t batch) {
  return (m + s->m - 1) / s->m * batch;
}
