/* Validates matmul schedules that a user wrote. */
#include "backend/cuda/gemm_emit.h"
#include "backend/cuda/kernel.h"
#include "machine/limits/cuda.h"
#include "support/int_math.h"

#include <math.h>

enum {
  FIRST_BF16_MMA_ARCH = 80, /* also tf32 */
  MMA_M = 16,
  WGMMA_M = 64,
  TCGEN05_MAX_M = 128,
  TMA_N_MULTIPLE = 32,
  TMA_STAGE_ROW_BYTES = 128, /* k extent of a stage */
  MAX_ACCUMULATORS = 2,
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
  if (shape->a.computed || shape->b.computed)
    return "way=tcgen05 cannot compute an operand: use way=mma";
  return tma_refusal(shape, gpu);
}

/* ---- schedules ---- */

static const char *check_fma(const GemmShape *shape, const GemmSchedule *s) {
  if (shape->a.dtype != shape->accumulator_dtype ||
      shape->b.dtype != shape->accumulator_dtype)
    return "way=fma needs operands of the accumulator type";
  if ((s->thread_m != 2 && s->thread_m != 4 && s->thread_m != 8) ||
      (s->thread_n != 4 && s->thread_n != 8))
    return "thread_m must be 2, 4 or 8; thread_n must be 4 or 8";
  if (!int_is_power_of_two(s->m) || !int_is_power_of_two(s->n) ||
      s->m < MMA_M || s->n / s->thread_n < 8 || (s->k != 8 && s->k != 16))
    return "m and n must be powers of two, n / thread_n at least 8, k 8 or 16";
  return s->store == STORE_DIRECT ? NULL : "way=fma needs store=direct";
}

static const char *check_mma(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t m = s->warps_m ? s->m / s->warps_m : 0;
  uint32_t n = s->warps_n ? s->n / s->warps_n : 0;
  uint32_t depth = gemm_instruction_k(shape, s);
  if (!int_is_power_of_two(s->warps_m) || !int_is_power_of_two(s->warps_n) ||
      !int_is_power_of_two(m) || !int_is_power_of_two(n) ||
      m * s->warps_m != s->m || n * s->warps_n != s->n || m < MMA_M ||
      n < MMA_M)
    return "the rows and columns of a warp must be powers of two, at least 16";
  if (s->k != 2 * depth && s->k != 4 * depth)
    return "k must be 2 or 4 times the depth of an mma";
  return s->store == STORE_SHARED ? NULL : "way=mma needs store=shared";
}

/* What kernels with a producer have in common. */
static const char *check_producer(const GemmShape *shape,
                                  const GemmSchedule *s) {
  if (s->copy != COPY_TMA ||
      (s->store != STORE_SHARED && s->store != STORE_TMA))
    return "way=wgmma and way=tcgen05 need copy=engine, and store=shared or "
           "store=engine";
  if (s->store == STORE_TMA && !gemm_can_store_tma(shape))
    return "TMA cannot store these results";
  if (s->store == STORE_TMA &&
      (!s->store_stages || s->store_stages > MAX_STORE_STAGES))
    return "waiting must be 1 to 4";
  if (!int_is_power_of_two(s->cluster_m) ||
      !int_is_power_of_two(s->cluster_n) ||
      gemm_cluster_size(s) > MAX_CLUSTER_BLOCKS)
    return "cluster_m and cluster_n must be powers of two, at most 8 blocks "
           "together";
  if (!s->n || s->n % TMA_N_MULTIPLE)
    return "n must be a multiple of 32";
  if (s->k * dtype_info[shape->a.dtype].bytes != TMA_STAGE_ROW_BYTES)
    return "a stage must have 128 bytes of k: k must be 64, or 32 for f32, or "
           "128 for types of 8 bits";
  if (shape->im2col && s->cluster_n > 1)
    return "blocks share no pixels: cluster_n must be 1";
  uint32_t min = 8; /* rows of a swizzle atom */
  if (s->n / s->cluster_m < min || s->k / s->cluster_n < min ||
      s->k / s->cluster_m < min)
    return "the part of a block in a cluster copy must have at least 8 rows";
  return NULL;
}

static const char *check_tcgen05(const GemmShape *shape, const GpuSpec *gpu,
                                 const GemmSchedule *s) {
  const char *why = gemm_tcgen05_refusal(shape, gpu);
  if (!why)
    why = check_producer(shape, s);
  if (why)
    return why;
  if ((s->m != TCGEN05_MAX_M && s->m != TCGEN05_MAX_M / 2) || s->warps_m != 1)
    return "way=tcgen05 needs m=64 or m=128, and warps_m=1";
  if (!s->accumulators || s->accumulators > MAX_ACCUMULATORS)
    return "accumulators must be 1 or 2";
  return s->persistent ? NULL : "way=tcgen05 needs persistent=1";
}

static const char *check_wgmma(const GemmShape *shape, const GpuSpec *gpu,
                               const GemmSchedule *s) {
  const char *why = gemm_wgmma_refusal(shape, gpu);
  if (!why)
    why = check_producer(shape, s);
  if (why)
    return why;
  uint32_t groups = s->warps_m;
  uint32_t rows = s->pingpong || !groups ? s->m : s->m / groups;
  if (groups < 1 || groups > 3 || !rows || rows % WGMMA_M ||
      (!s->pingpong && rows * groups != s->m))
    return "warps_m must be 1 to 3 groups, each with a multiple of 64 rows";
  if (s->pingpong && groups != 2)
    return "pingpong=1 needs warps_m=2";
  if (!s->stages_in_flight || s->stages_in_flight > s->stages)
    return "flight must be from 1 to stages";
  if (s->split != 1)
    return "to split sums, use stream=1, not split";
  return s->persistent || (!s->stream && !s->pingpong)
             ? NULL
             : "stream=1 and pingpong=1 need persistent=1";
}

static const char *check_way(const GemmShape *shape, const GpuSpec *gpu,
                             const GemmSchedule *s) {
  const char *why = NULL;
  if (s->m < 1 || s->n < 1 || s->m > MAX_TILE_SIDE || s->n > MAX_TILE_SIDE)
    return "m and n must be from 1 to 256";
  switch ((MmaKind)s->mma_kind) {
  case MMA_KIND_NONE:
    break;
  case MMA_KIND_FMA:
    return check_fma(shape, s);
  case MMA_KIND_MMA_SYNC:
    why = gemm_mma_refusal(shape, gpu);
    return why ? why : check_mma(shape, s);
  case MMA_KIND_WGMMA:
    return check_wgmma(shape, gpu, s);
  case MMA_KIND_TCGEN05:
    return check_tcgen05(shape, gpu, s);
  }
  return "way must be fma, mma, wgmma or tcgen05";
}

static const char *check_pipeline(const GemmShape *shape, const GpuSpec *gpu,
                                  const GemmSchedule *s) {
  if (!gemm_has_producer(s) &&
      s->copy != (gpu->has_cp_async ? COPY_CP_ASYNC : COPY_VIA_REGISTERS))
    return "copy must be async from sm_80 on, registers before";
  if (s->stages < 2 || (s->copy == COPY_VIA_REGISTERS && s->stages != 2))
    return "stages must be at least 2, and exactly 2 if copy=registers";
  if (!s->raster || !s->split || s->split > MAX_SPLIT_K)
    return "raster and split must be at least 1, split at most 32";
  if ((s->split > 1 && (shape->no_split_k || shape->symbolic_tile_count)) ||
      (s->stream && shape->no_split_k))
    return "the sums of this kernel cannot be split";
  double tiles = ceil(shape->m / s->m) * ceil(shape->n / s->n) * shape->batch;
  return s->split > 1 && tiles > CUDA_COUNTER_COUNT
             ? "too many tiles for the counters"
             : NULL;
}

/* False: `why` is the condition that fails.  Fills in the dependent fields. */
static bool check_schedule(const GemmShape *shape, const GpuSpec *gpu,
                           GemmSchedule *s, Buffer *why) {
  const char *bad = check_way(shape, gpu, s);
  if (!bad && !gemm_schedule_check_fields(s, false, why))
    return false;
  if (!bad)
    bad = check_pipeline(shape, gpu, s);
  if (!bad) {
    s->width_a = s->width_b = MMA_M;
    gemm_complete_schedule(shape, gpu, s);
    if (!gemm_fits(shape, gpu, s))
      bad = "it exceeds shared memory or registers";
  }
  if (bad)
    buffer_puts(why, bad);
  return !bad;
}

bool gemm_override(const GemmShape *shape, const GpuSpec *gpu, const char *text,
                   GemmSchedule *s, Buffer *why) {
  GemmSchedule to = *s;
  if (!gemm_schedule_parse(&to, text, why))
    return false;
  uint32_t terms = TMA_STAGE_ROW_BYTES / dtype_info[shape->a.dtype].bytes;
  if (to.mma_kind != s->mma_kind) {
    to = (GemmSchedule){.mma_kind = to.mma_kind,
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
                        .stages = 3,
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
    if (!gemm_schedule_parse(&to, text, why))
      return false;
  }
  if (!check_schedule(shape, gpu, &to, why))
    return false;
  *s = to;
  return true;
}
