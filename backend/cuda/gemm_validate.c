/* Validates matmul schedules that a user wrote. */
#include "backend/cuda/gemm_micro.h"
#include "backend/cuda/kernel.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"
#include "support/int_math.h"

#include <math.h>

enum {
  FIRST_BF16_MMA_ARCH = 80, /* also tf32 */
  MMA_M = 16,
  PAIR_N_MULTIPLE = 64,
  TMA_N_MULTIPLE = 32,
  TMA_STAGE_ROW_BYTES = 128, /* k extent of a stage */
  MAX_ACCUMULATORS = 2,
  MAX_WGMMA_GROUPS = 3,
  MIN_STAGES = 2,
  MAX_TILE_SIDE = 256,
  MAX_CLUSTER_BLOCKS = 8, /* portable limit of the cluster size */
  MAX_STORE_STAGES = 4,
};

/* ---- operands ---- */

static bool has_mma(const GemmShape *shape, const GpuSpec *gpu) {
  switch (shape->a.dtype) {
  case DT_F8_E4M3:
  case DT_F8_E5M2:
    return shape->b.dtype == shape->a.dtype && gpu->arch >= FIRST_F8_MMA_ARCH;
  case DT_F16:
    return shape->b.dtype == DT_F16;
  case DT_BF16:
    return shape->b.dtype == DT_BF16 && gpu->arch >= FIRST_BF16_MMA_ARCH;
  case DT_F32:
    return gpu->arch >= FIRST_BF16_MMA_ARCH;
  case DT_NONE:
  case DT_BOOL:
  case DT_U8:
  case DT_I8:
  case DT_I32:
  case DT_I64:
  case DT_F64:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
  case DT_COUNT:
    break;
  }
  return false;
}

const char *gemm_mma_refusal(const GemmShape *shape, const GpuSpec *gpu) {
  if (shape->accumulator_dtype != DT_F32 || !has_mma(shape, gpu))
    return "tensor cores of this GPU do not multiply operands of these types";
  if (shape->a.dtype == DT_F32 && !shape->allow_tf32)
    return "tensor cores round f32 operands to tf32, which needs AXON_TF32=1";
  return NULL;
}

/* For kernels with a producer, which use TMA. */
static const char *tma_refusal(const GemmShape *shape, const GpuSpec *gpu) {
  const GemmSide *sides[] = {&shape->a, &shape->b};
  const char *why = gemm_mma_refusal(shape, gpu);
  for (size_t j = 0; j < ARRAY_LEN(sides) && !why; j++)
    if (!sides[j]->computed && !sides[j]->tma_copyable)
      why = "TMA cannot copy an operand: use way=mma";
  if (!why && shape->a.dtype == DT_F32 &&
      (shape->a.mn_major || shape->b.mn_major))
    why = "the reduction axis of f32 operands must be contiguous";
  return why;
}

/* Producer threads compute only 16-bit elements, since wgmma truncates to tf32
 * and does not round. */
const char *gemm_wgmma_refusal(const GemmShape *shape, const GpuSpec *gpu) {
  if (!gpu->f16_wgmma_rate)
    return "way=wgmma needs the architecture sm_90a";
  if (shape->a.computed && shape->b.computed)
    return "way=wgmma cannot compute both operands: use way=mma";
  if ((shape->a.computed || shape->b.computed) &&
      dtype_info[shape->a.dtype].bytes != 2)
    return "way=wgmma computes only operands of 16 bits: use way=mma";
  return tma_refusal(shape, gpu);
}

/* The first group of warps loads and multiplies, so that no warps are left to
 * compute an operand. */
const char *gemm_tcgen05_refusal(const GemmShape *shape, const GpuSpec *gpu) {
  if (!gpu->f16_tcgen05_rate)
    return "way=tcgen05 needs the architecture sm_100a";
  if (shape->scale_block)
    return NULL;
  if (shape->a.computed || shape->b.computed)
    return "way=tcgen05 cannot compute an operand: use way=mma";
  return tma_refusal(shape, gpu);
}

/* ---- refusals ---- */

bool gemm_refuse(Buffer *why, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (why)
    buffer_vprintf(why, format, args);
  va_end(args);
  return false;
}

/* Appends a smaller number of stages, or else of columns, that fits. */
static void put_fix(ScheduleCheck *check, const void *shape, const GpuSpec *gpu,
                    const GemmSchedule *s, Buffer *why) {
  GemmSchedule to = *s;
  while (--to.stages >= MIN_STAGES && to.stages < s->stages)
    if (check(shape, gpu, &to, NULL)) {
      buffer_printf(why, ": write stages=%u", to.stages);
      return;
    }
  to = *s;
  while (to.n > MMA_M) {
    to.n -= MMA_M;
    if (check(shape, gpu, &to, NULL)) {
      buffer_printf(why, ": write n=%u", to.n);
      return;
    }
  }
  buffer_puts(why, ": write smaller m and n");
}

bool gemm_refuse_use(const BlockUse *u, ScheduleCheck *check, const void *shape,
                     const GpuSpec *gpu, const GemmSchedule *s, Buffer *why) {
  if (!why)
    return false;
  buffer_printf(why, "m=%u n=%u k=%u stages=%u: ", s->m, s->n, s->k, s->stages);
  if (u->threads < WARP || u->threads > MAX_BLOCK_THREADS)
    return gemm_refuse(why,
                       "a block has %u threads, and it can have %u to %u: "
                       "change m, n, or their parts",
                       u->threads, WARP, MAX_BLOCK_THREADS);
  if (u->shared_bytes > u->max_shared_bytes)
    buffer_printf(why,
                  "a block uses %u bytes of shared memory, and it can use %u",
                  u->shared_bytes, u->max_shared_bytes);
  else if (u->registers > u->max_registers)
    buffer_printf(why, "a thread uses some %u registers, and it can use %u",
                  u->registers, u->max_registers);
  else
    buffer_printf(why,
                  "%u threads of %u registers and %u bytes of shared memory "
                  "exceed an SM",
                  u->threads, u->registers, u->shared_bytes);
  put_fix(check, shape, gpu, s, why);
  return false;
}

/* ---- schedules ---- */

static bool check_fma(const GemmShape *shape, const GemmSchedule *s,
                      Buffer *why) {
  if (shape->a.dtype != shape->accumulator_dtype ||
      shape->b.dtype != shape->accumulator_dtype)
    return gemm_refuse(why, "way=fma needs operands of the accumulator type");
  if ((s->thread_m != 2 && s->thread_m != 4 && s->thread_m != 8) ||
      (s->thread_n != 4 && s->thread_n != 8))
    return gemm_refuse(why,
                       "thread_m=%u thread_n=%u: thread_m must be 2, 4 or 8; "
                       "thread_n must be 4 or 8",
                       s->thread_m, s->thread_n);
  if (!int_is_power_of_two(s->m) || !int_is_power_of_two(s->n) ||
      s->m < MMA_M || s->n / s->thread_n < 8 || (s->k != 8 && s->k != 16))
    return gemm_refuse(why,
                       "m=%u n=%u k=%u thread_n=%u: m and n must be powers of "
                       "two, m at least 16, n at least 8 x thread_n, and k 8 "
                       "or 16",
                       s->m, s->n, s->k, s->thread_n);
  return s->store == STORE_DIRECT ||
         gemm_refuse(why, "way=fma needs store=direct");
}

static bool check_mma(const GemmShape *shape, const GemmSchedule *s,
                      Buffer *why) {
  uint32_t m = s->warps_m ? s->m / s->warps_m : 0;
  uint32_t n = s->warps_n ? s->n / s->warps_n : 0;
  uint32_t depth = gemm_instruction_k(shape, s);
  if (!int_is_power_of_two(s->warps_m) || !int_is_power_of_two(s->warps_n) ||
      !int_is_power_of_two(m) || !int_is_power_of_two(n) ||
      m * s->warps_m != s->m || n * s->warps_n != s->n || m < MMA_M ||
      n < MMA_M)
    return gemm_refuse(why,
                       "m=%u n=%u warps_m=%u warps_n=%u: m / warps_m and n / "
                       "warps_n, the rows and columns of a warp, must be "
                       "powers of two, at least 16",
                       s->m, s->n, s->warps_m, s->warps_n);
  if (s->k != 2 * depth && s->k != 4 * depth)
    return gemm_refuse(why, "k=%u: with way=mma, k must be %u or %u", s->k,
                       2 * depth, 4 * depth);
  return s->store == STORE_SHARED ||
         gemm_refuse(why, "way=mma needs store=shared");
}

static bool check_store(const GemmShape *shape, const GemmSchedule *s,
                        Buffer *why) {
  if (s->copy != COPY_TMA ||
      (s->store != STORE_SHARED && s->store != STORE_TMA))
    return gemm_refuse(
        why, "way=wgmma and way=tcgen05 need copy=engine, and store=shared or "
             "store=engine");
  if (s->store != STORE_TMA)
    return !s->store_stages ||
           gemm_refuse(why,
                       "waiting=%u needs store=engine: leave waiting out, or "
                       "write store=engine",
                       s->store_stages);
  if (!gemm_can_store_tma(shape))
    return gemm_refuse(why,
                       "TMA cannot store these results: write store=shared");
  return (s->store_stages && s->store_stages <= MAX_STORE_STAGES) ||
         gemm_refuse(why, "waiting=%u: with store=engine, it must be 1 to %u",
                     s->store_stages, MAX_STORE_STAGES);
}

static bool check_cluster(const GemmShape *shape, const GemmSchedule *s,
                          Buffer *why) {
  uint32_t min = 8; /* rows of a swizzle atom */
  if (!int_is_power_of_two(s->cluster_m) ||
      !int_is_power_of_two(s->cluster_n) ||
      gemm_cluster_size(s) > MAX_CLUSTER_BLOCKS)
    return gemm_refuse(why,
                       "cluster_m=%u cluster_n=%u: they must be powers of two, "
                       "at most %u blocks together",
                       s->cluster_m, s->cluster_n, MAX_CLUSTER_BLOCKS);
  if (shape->im2col && s->cluster_n > 1)
    return gemm_refuse(
        why, "cluster_n=%u: blocks share no pixels, so cluster_n must be 1",
        s->cluster_n);
  return (s->n / s->cluster_m >= min && s->k / s->cluster_n >= min &&
          s->k / s->cluster_m >= min) ||
         gemm_refuse(why,
                     "n=%u k=%u cluster_m=%u cluster_n=%u: n / cluster_m, k / "
                     "cluster_m and k / cluster_n must be at least %u",
                     s->n, s->k, s->cluster_m, s->cluster_n, min);
}

/* What kernels with a producer have in common. */
static bool check_producer(const GemmShape *shape, const GemmSchedule *s,
                           Buffer *why) {
  uint32_t terms = TMA_STAGE_ROW_BYTES / gemm_element_bytes(shape);
  if (!s->n || s->n % TMA_N_MULTIPLE)
    return gemm_refuse(why, "n=%u: n must be a multiple of %u", s->n,
                       TMA_N_MULTIPLE);
  if (s->k != terms)
    return gemm_refuse(why,
                       "k=%u: for operands of this type k must be %u, the %u "
                       "bytes of a stage",
                       s->k, terms, TMA_STAGE_ROW_BYTES);
  return check_store(shape, s, why) && check_cluster(shape, s, why);
}

static bool check_pair(const GemmShape *shape, const GemmSchedule *s,
                       Buffer *why) {
  if (s->pair > 1)
    return gemm_refuse(why, "pair=%u: it must be 0 or 1", s->pair);
  if (!s->pair)
    return true;
  if (shape->im2col)
    return gemm_refuse(why, "pair=1 multiplies no images: write pair=0");
  if (s->m != TCGEN05_M || s->n % PAIR_N_MULTIPLE)
    return gemm_refuse(why,
                       "m=%u n=%u: pair=1 needs m=%u, and n a multiple of %u",
                       s->m, s->n, TCGEN05_M, PAIR_N_MULTIPLE);
  if (s->cluster_m != 2 || s->cluster_n != 1)
    return gemm_refuse(why,
                       "cluster_m=%u cluster_n=%u: pair=1 needs cluster_m=2 "
                       "cluster_n=1",
                       s->cluster_m, s->cluster_n);
  return !s->stream || gemm_refuse(why, "pair=1 needs stream=0");
}

static bool check_scales(const GemmShape *shape, const GemmSchedule *s,
                         Buffer *why) {
  if (!shape->scale_block || gemm_scales_fit(shape, s))
    return true;
  if (gemm_tmem_columns(shape, s) > TENSOR_MEMORY_COLUMNS)
    return gemm_refuse(why,
                       "n=%u accumulators=%u stages=%u: the sums, and the "
                       "scales of 4-bit floats, exceed the %d columns of "
                       "tensor memory: write accumulators=1, or fewer stages",
                       s->n, s->accumulators, s->stages, TENSOR_MEMORY_COLUMNS);
  return gemm_refuse(why,
                     "m=%u pair=%u cluster_m=%u cluster_n=%u: 4-bit floats "
                     "with scales need m=%u, pair=0, and no cluster",
                     s->m, s->pair, s->cluster_m, s->cluster_n, TCGEN05_M);
}

static bool check_tcgen05(const GemmShape *shape, const GpuSpec *gpu,
                          const GemmSchedule *s, Buffer *why) {
  const char *refusal = gemm_tcgen05_refusal(shape, gpu);
  if (refusal)
    return gemm_refuse(why, "%s", refusal);
  if (!check_producer(shape, s, why))
    return false;
  if ((s->m != TCGEN05_M && s->m != TCGEN05_M / 2) || s->warps_m != 1)
    return gemm_refuse(
        why, "m=%u warps_m=%u: way=tcgen05 needs m=64 or m=128, and warps_m=1",
        s->m, s->warps_m);
  if (!s->accumulators || s->accumulators > MAX_ACCUMULATORS)
    return gemm_refuse(why, "accumulators=%u: it must be 1 or %u",
                       s->accumulators, MAX_ACCUMULATORS);
  if (!s->persistent)
    return gemm_refuse(why, "way=tcgen05 needs persistent=1");
  return check_pair(shape, s, why) && check_scales(shape, s, why);
}

static bool check_groups(const GemmSchedule *s, Buffer *why) {
  uint32_t groups = s->warps_m;
  uint32_t rows = s->pingpong || !groups ? s->m : s->m / groups;
  if (groups < 1 || groups > MAX_WGMMA_GROUPS || !rows || rows % WGMMA_M ||
      (!s->pingpong && rows * groups != s->m))
    return gemm_refuse(why,
                       "m=%u warps_m=%u: warps_m must be 1 to %u groups, each "
                       "with a multiple of %u rows",
                       s->m, groups, MAX_WGMMA_GROUPS, WGMMA_M);
  return !s->pingpong || groups == 2 ||
         gemm_refuse(why, "warps_m=%u: pingpong=1 needs warps_m=2", groups);
}

static bool check_wgmma(const GemmShape *shape, const GpuSpec *gpu,
                        const GemmSchedule *s, Buffer *why) {
  const char *refusal = gemm_wgmma_refusal(shape, gpu);
  if (refusal)
    return gemm_refuse(why, "%s", refusal);
  if (!check_producer(shape, s, why) || !check_groups(s, why))
    return false;
  if (!s->stages_in_flight || s->stages_in_flight > s->stages)
    return gemm_refuse(why, "flight=%u: it must be from 1 to stages=%u",
                       s->stages_in_flight, s->stages);
  if (s->split != 1)
    return gemm_refuse(why, "split=%u: to split sums, use stream=1, not split",
                       s->split);
  return s->persistent || (!s->stream && !s->pingpong) ||
         gemm_refuse(why, "stream=1 and pingpong=1 need persistent=1");
}

static bool check_way(const GemmShape *shape, const GpuSpec *gpu,
                      const GemmSchedule *s, Buffer *why) {
  const char *refusal;
  if (s->m < 1 || s->n < 1 || s->m > MAX_TILE_SIDE || s->n > MAX_TILE_SIDE)
    return gemm_refuse(why, "m=%u n=%u: m and n must be from 1 to %u", s->m,
                       s->n, MAX_TILE_SIDE);
  switch ((MmaKind)s->mma_kind) {
  case MMA_KIND_NONE:
    break;
  case MMA_KIND_FMA:
    return check_fma(shape, s, why);
  case MMA_KIND_MMA_SYNC:
    refusal = gemm_mma_refusal(shape, gpu);
    return refusal ? gemm_refuse(why, "%s", refusal) : check_mma(shape, s, why);
  case MMA_KIND_WGMMA:
    return check_wgmma(shape, gpu, s, why);
  case MMA_KIND_TCGEN05:
    return check_tcgen05(shape, gpu, s, why);
  }
  return gemm_refuse(why, "way must be fma, mma, wgmma or tcgen05");
}

static bool check_pipeline(const GemmShape *shape, const GpuSpec *gpu,
                           const GemmSchedule *s, Buffer *why) {
  if (!gemm_has_producer(s) &&
      s->copy != (gpu->has_cp_async ? COPY_CP_ASYNC : COPY_VIA_REGISTERS))
    return gemm_refuse(why, "copy must be %s on this GPU",
                       gpu->has_cp_async ? "async" : "registers");
  if (s->stages < MIN_STAGES ||
      (s->copy == COPY_VIA_REGISTERS && s->stages != MIN_STAGES))
    return gemm_refuse(why,
                       "stages=%u: it must be at least %u, and exactly %u if "
                       "copy=registers",
                       s->stages, MIN_STAGES, MIN_STAGES);
  if (!s->raster || !s->split || s->split > MAX_SPLIT_K)
    return gemm_refuse(why,
                       "raster=%u split=%u: raster and split must be at least "
                       "1, split at most %d",
                       s->raster, s->split, MAX_SPLIT_K);
  if ((s->split > 1 && (shape->no_split_k || shape->symbolic_tile_count)) ||
      (s->stream && shape->no_split_k))
    return gemm_refuse(why, "the sums of this kernel cannot be split: write "
                            "split=1 and stream=0");
  double tiles = ceil(shape->m / s->m) * ceil(shape->n / s->n) * shape->batch;
  return s->split <= 1 || tiles <= CUDA_COUNTER_COUNT ||
         gemm_refuse(why,
                     "split=%u: the product has %.0f tiles, and a split one at "
                     "most %u: write larger m and n",
                     s->split, tiles, CUDA_COUNTER_COUNT);
}

/* False: `why` is the condition that fails.  Fills in the derived fields. */
static bool check_schedule(const void *of, const GpuSpec *gpu, GemmSchedule *s,
                           Buffer *why) {
  const GemmShape *shape = of;
  if (!check_way(shape, gpu, s, why) ||
      !gemm_schedule_check_fields(s, false, why) ||
      !check_pipeline(shape, gpu, s, why))
    return false;
  s->width_a = s->width_b = MMA_M;
  gemm_complete_schedule(shape, gpu, s);
  BlockUse u = gemm_block_use(shape, gpu, s);
  return block_use_fits(&u) ||
         gemm_refuse_use(&u, check_schedule, shape, gpu, s, why);
}

/* ---- micro-kernels ---- */

enum { MICRO_THREADS_SIDE = 16, MICRO_WARPS_SIDE = 2 };

static uint32_t at_most_side(uint32_t side) {
  return side < MAX_TILE_SIDE ? side : MAX_TILE_SIDE;
}

/* The fields of a tile that the micro-kernel leaves open: 16 x 16 threads, or
 * 2 x 2 warps. */
static void open_micro_fields(const GemmShape *shape, GemmSchedule *s) {
  const MicroKernel *m = s->micro;
  bool is_thread = cuda_micro_kind(m) == MMA_KIND_FMA;
  uint32_t side = is_thread ? MICRO_THREADS_SIDE : MICRO_WARPS_SIDE;
  s->m = at_most_side(m->rows * side);
  s->n = at_most_side(m->columns * side);
  s->k = is_thread ? 8 : TMA_STAGE_ROW_BYTES / gemm_element_bytes(shape);
  s->thread_m = s->thread_n = s->warps_m = s->warps_n = 0;
}

/* Sets a field that the micro-kernel determines. */
static bool set_micro_field(const GemmSchedule *s, const char *key,
                            uint32_t value, uint32_t *field, Buffer *why) {
  if (*field && *field != value)
    return gemm_refuse(why, "micro=%s has %s=%u: leave out %s", s->micro->name,
                       key, value, key);
  *field = value;
  return true;
}

static bool close_micro_fields(GemmSchedule *s, Buffer *why) {
  const MicroKernel *m = s->micro;
  if (cuda_micro_kind(m) == MMA_KIND_FMA)
    return set_micro_field(s, "thread_m", m->rows, &s->thread_m, why) &&
           set_micro_field(s, "thread_n", m->columns, &s->thread_n, why);
  if (s->m % m->rows || s->n % m->columns)
    return gemm_refuse(why,
                       "m=%u n=%u: micro=%s needs multiples of %u rows and %u "
                       "columns",
                       s->m, s->n, m->name, m->rows, m->columns);
  return set_micro_field(s, "warps_m", s->m / m->rows, &s->warps_m, why) &&
         set_micro_field(s, "warps_n", s->n / m->columns, &s->warps_n, why);
}

static bool check_micro(const GemmShape *shape, const GemmSchedule *s,
                        Buffer *why) {
  const MicroKernel *m = s->micro;
  if (shape->scale_block || shape->a.dtype != m->dtype)
    return gemm_refuse(why, "micro=%s is for products of %s", m->name,
                       dtype_info[m->dtype].name);
  return s->mma_kind == (uint32_t)cuda_micro_kind(m) ||
         gemm_refuse(why, "micro=%s needs way=%s", m->name,
                     cuda_micro_kind(m) == MMA_KIND_FMA ? "fma" : "mma");
}

/* ---- changes ---- */

bool gemm_override(const GemmShape *shape, const GpuSpec *gpu, const char *text,
                   GemmSchedule *s, Buffer *why) {
  GemmSchedule to = *s;
  to.mma_kind = s->micro ? (uint32_t)cuda_micro_kind(s->micro) : s->mma_kind;
  if (!gemm_schedule_parse(&to, text, why) ||
      (s->micro && !check_micro(shape, &to, why)))
    return false;
  if (to.store != s->store && to.store != STORE_TMA) {
    to.store_stages = 0;
    gemm_schedule_parse(&to, text, why);
  }
  uint32_t terms = TMA_STAGE_ROW_BYTES / gemm_element_bytes(shape);
  if (to.mma_kind != s->mma_kind || to.micro) {
    to = (GemmSchedule){.mma_kind = to.mma_kind,
                        .micro = s->micro,
                        .copy = gemm_has_producer(&to) ? COPY_TMA
                                : gpu->has_cp_async    ? COPY_CP_ASYNC
                                                       : COPY_VIA_REGISTERS,
                        .store = to.mma_kind == MMA_KIND_FMA ? STORE_DIRECT
                                                             : STORE_SHARED,
                        .m = 128,
                        .n = 128,
                        .k = to.mma_kind == MMA_KIND_FMA ? 8 : terms,
                        .warps_m = 2,
                        .warps_n = to.mma_kind == MMA_KIND_MMA_SYNC ? 2 : 0,
                        .thread_m = to.mma_kind == MMA_KIND_FMA ? 8 : 0,
                        .thread_n = to.mma_kind == MMA_KIND_FMA ? 8 : 0,
                        .stages = gpu->has_cp_async ? 3 : MIN_STAGES,
                        .raster = GEMM_RASTER_TILES,
                        .split = 1,
                        .cluster_m = 1,
                        .cluster_n = 1};
    to.stages_in_flight = to.mma_kind == MMA_KIND_WGMMA;
    to.persistent = gemm_has_producer(&to);
    if (to.mma_kind == MMA_KIND_TCGEN05)
      to.warps_m = 1, to.accumulators = MAX_ACCUMULATORS;
    if (to.mma_kind == MMA_KIND_FMA)
      to.warps_m = 0;
    if (to.micro)
      open_micro_fields(shape, &to);
    if (!gemm_schedule_parse(&to, text, why) ||
        (to.micro && !close_micro_fields(&to, why)))
      return false;
  }
  if (!check_schedule(shape, gpu, &to, why) ||
      !gemm_schedule_check_derived(&to, text, why))
    return false;
  *s = to;
  return true;
}
