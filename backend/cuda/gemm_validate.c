/* Validates matmul schedules that a user wrote. */
#include "backend/cuda/gemm_emit.h"
#include "backend/cuda/kernel.h"
#include "machine/limits/cuda.h"

#include <math.h>

enum {
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

static const char *check_fma(const GemmShape *shape, const GemmSchedule *s) {
  if (shape->a.dtype != shape->accumulator_dtype ||
      shape->b.dtype != shape->accumulator_dtype)
    return "way=fma needs operands of the accumulator type";
  if ((s->thread_m != 2 && s->thread_m != 4 && s->thread_m != 8) ||
      (s->thread_n != 4 && s->thread_n != 8))
    return "thread_m must be 2, 4 or 8; thread_n must be 4 or 8";
  if (!is_power_of_two(s->m) || !is_power_of_two(s->n) || s->m < MMA_M ||
      s->n / s->thread_n < 8 || (s->k != 8 && s->k != 16))
    return "m and n must be powers of two, n / thread_n at least 8, k 8 or 16";
  return s->store == STORE_DIRECT ? NULL : "way=fma needs store=direct";
}

static const char *check_mma(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t m = s->warps_m ? s->m / s->warps_m : 0;
  uint32_t n = s->warps_n ? s->n / s->warps_n : 0;
  uint32_t depth = gemm_instruction_k(shape, s);
  if (!is_power_of_two(s->warps_m) || !is_power_of_two(s->warps_n) ||
      !is_power_of_two(m) || !is_power_of_two(n) || m * s->warps_m != s->m ||
      n * s->warps_n != s->n || m < MMA_M || n < MMA_M)
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
  if (!is_power_of_two(s->cluster_m) || !is_power_of_two(s->cluster_n) ||
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
  if (!gemm_can_use_tcgen05(shape, gpu))
    return "tcgen05 cannot load these operands by TMA, or the architecture is "
           "not sm_100a";
  const char *why = check_producer(shape, s);
  if (why)
    return why;
  if ((s->m != TCGEN05_MAX_M && s->m != TCGEN05_MAX_M / 2) || s->warps_m != 1)
    return "way=tcgen05 needs m=64 or m=128, and warps_m=1";
  if (!s->accumulators || s->accumulators > MAX_ACCUMULATORS)
    return "accumulators must be 1 or 2";
  return s->persistent && s->split == 1 && !s->stream && !s->pingpong
             ? NULL
             : "way=tcgen05 needs persistent=1, split=1, stream=0 and "
               "pingpong=0";
}

static const char *check_wgmma(const GemmShape *shape, const GpuSpec *gpu,
                               const GemmSchedule *s) {
  if (!gemm_can_use_wgmma(shape, gpu))
    return "wgmma cannot load these operands by TMA";
  const char *why = check_producer(shape, s);
  if (why)
    return why;
  uint32_t groups = s->warps_m, rows = s->pingpong ? s->m : s->m / groups;
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

/* Returns NULL or the condition that fails.  Fills in the dependent fields. */
static const char *check_schedule(const GemmShape *shape, const GpuSpec *gpu,
                                  GemmSchedule *s) {
  const char *why = NULL;
  if (s->m < 1 || s->n < 1 || s->m > MAX_TILE_SIDE || s->n > MAX_TILE_SIDE)
    return "m and n must be at most 256";
  if (s->mma_kind == MMA_KIND_FMA)
    why = check_fma(shape, s);
  else if (s->mma_kind == MMA_KIND_MMA_SYNC && !gemm_can_use_mma(shape, gpu))
    why = "mma does not support these operands";
  else if (s->mma_kind == MMA_KIND_MMA_SYNC)
    why = check_mma(shape, s);
  else if (s->mma_kind == MMA_KIND_TCGEN05)
    why = check_tcgen05(shape, gpu, s);
  else
    why = check_wgmma(shape, gpu, s);
  if (why)
    return why;
  if (!gemm_has_producer(s) &&
      s->copy != (gpu->has_cp_async ? COPY_CP_ASYNC : COPY_VIA_REGISTERS))
    return "copy must be async from sm_80 on, registers before";
  if (s->stages < 2 || (s->copy == COPY_VIA_REGISTERS && s->stages != 2))
    return "stages must be at least 2, and exactly 2 if copy=registers";
  if (!s->raster || !s->split || s->split > MAX_SPLIT_K)
    return "raster and split must be at least 1, split at most 32";
  if (!gemm_has_producer(s) && (s->cluster_m != 1 || s->cluster_n != 1))
    return "cluster_m and cluster_n need way=wgmma or way=tcgen05";
  if ((s->split > 1 && (shape->no_split_k || shape->symbolic_tile_count)) ||
      (s->stream && shape->no_split_k))
    return "the sums of this kernel cannot be split";
  double tiles = ceil(shape->m / s->m) * ceil(shape->n / s->n) * shape->batch;
  if (s->split > 1 && tiles > CUDA_COUNTER_COUNT)
    return "too many tiles for the counters";
  if (!gemm_has_producer(s) && (s->stream || s->pingpong || s->persistent))
    return "stream, pingpong and persistent need way=wgmma";
  if (s->mma_kind != MMA_KIND_TCGEN05 && s->accumulators)
    return "accumulators needs way=tcgen05";
  s->width_a = s->width_b = MMA_M;
  gemm_complete_schedule(shape, gpu, s);
  return gemm_fits(shape, gpu, s) ? NULL
                                  : "it exceeds shared memory or registers";
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
  const char *bad = check_schedule(shape, gpu, &to);
  if (bad) {
    buffer_puts(why, bad);
    return false;
  }
  *s = to;
  return true;
}
