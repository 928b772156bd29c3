/* Validates schedules of fused attention that a user wrote. */
#include "backend/cuda/attention_emit.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"

enum {
  MAX_MMA_WARPS = 8,
  MAX_WGMMA_GROUPS = 3,
  MAX_TCGEN05_GROUPS = 2,
  COLUMN_MULTIPLE = 16,
  MIN_PRODUCER_COLUMNS = 32, /* of kernels with a producer */
  MAX_COLUMNS = 256,
  MIN_STAGES = 2,
  MAX_STAGES = 8,
  MAX_STORE_STAGES = 4,
};

uint32_t attention_rows_per_unit(MmaKind kind) {
  return kind == MMA_KIND_TCGEN05 ? TCGEN05_M
         : kind == MMA_KIND_WGMMA ? WGMMA_M
                                  : 16;
}

const char *attention_producer_refusal(const AttentionShape *shape,
                                       const GpuSpec *gpu, MmaKind kind) {
  const struct {
    const GemmSide *side;
    const char *computed, *uncopyable;
  } operands[] = {
      {&shape->query, "the query is computed, and TMA only copies: use way=mma",
       "TMA cannot copy the query: use way=mma"},
      {&shape->key, "the keys are computed, and TMA only copies: use way=mma",
       "TMA cannot copy the keys: use way=mma"},
      {&shape->value,
       "the values are computed, and TMA only copies: use way=mma",
       "TMA cannot copy the values: use way=mma"},
  };
  bool tcgen05 = kind == MMA_KIND_TCGEN05;
  if ((tcgen05 ? gpu->f16_tcgen05_rate : gpu->f16_wgmma_rate) <= 0 ||
      !gpu->has_tma)
    return tcgen05 ? "way=tcgen05 needs the architecture sm_100a: use way=mma"
                   : "way=wgmma needs the architecture sm_90a: use way=mma";
  if (shape->head_dim2)
    return "these scores are computed from two products: use way=mma";
  for (size_t j = 0; j < ARRAY_LEN(operands); j++)
    if (operands[j].side->computed)
      return operands[j].computed;
    else if (!operands[j].side->tma_copyable ||
             operands[j].side->align_bytes < 16)
      return operands[j].uncopyable;
  return NULL;
}

static const char *way_of(const GemmSchedule *s) {
  return s->mma_kind == MMA_KIND_TCGEN05 ? "tcgen05"
         : s->mma_kind == MMA_KIND_WGMMA ? "wgmma"
                                         : "mma";
}

static bool check_rows(const GemmSchedule *s, Buffer *why) {
  uint32_t rows = attention_rows_per_unit((MmaKind)s->mma_kind);
  uint32_t most = s->mma_kind == MMA_KIND_TCGEN05 ? MAX_TCGEN05_GROUPS
                  : s->mma_kind == MMA_KIND_WGMMA ? MAX_WGMMA_GROUPS
                                                  : MAX_MMA_WARPS;
  if (s->warps_n != 1)
    return gemm_refuse(why,
                       "warps_n=%u: attention has warps along the rows only, "
                       "so warps_n must be 1",
                       s->warps_n);
  if (s->warps_m < 1 || s->warps_m > most)
    return gemm_refuse(why, "warps_m=%u: with way=%s, it must be 1 to %u",
                       s->warps_m, way_of(s), most);
  return s->m == rows * s->warps_m ||
         gemm_refuse(why,
                     "m=%u warps_m=%u: with way=%s, m must be %u x warps_m, "
                     "here %u",
                     s->m, s->warps_m, way_of(s), rows, rows * s->warps_m);
}

static bool check_persistent(const GemmSchedule *s, Buffer *why) {
  if (s->persistent > 1)
    return gemm_refuse(why, "persistent=%u: it must be 0 or 1", s->persistent);
  if (s->mma_kind == MMA_KIND_TCGEN05 && !s->persistent)
    return gemm_refuse(why, "way=tcgen05 needs persistent=1");
  return !s->persistent || gemm_has_producer(s) ||
         gemm_refuse(why, "persistent=1 needs way=wgmma or way=tcgen05: write "
                          "persistent=0");
}

static bool check_tile(const AttentionShape *shape, const GemmSchedule *s,
                       Buffer *why) {
  uint32_t k = attention_padded_dim(shape->head_dim),
           min = gemm_has_producer(s) ? MIN_PRODUCER_COLUMNS : COLUMN_MULTIPLE;
  if (s->n < min || s->n > MAX_COLUMNS || s->n % COLUMN_MULTIPLE)
    return gemm_refuse(
        why, "n=%u: the keys of a tile must be a multiple of %u from %u to %u",
        s->n, COLUMN_MULTIPLE, min, MAX_COLUMNS);
  return s->k == k ||
         gemm_refuse(why,
                     "k=%u: a tile has the whole head dimension, %u, as a "
                     "multiple of 16: write k=%u",
                     s->k, shape->head_dim, k);
}

static bool check_tensor_memory(const AttentionShape *shape,
                                const GemmSchedule *s, Buffer *why) {
  uint32_t columns = attention_tmem_columns(shape, s),
           sums = attention_padded_dim(shape->value_dim);
  if (columns <= TENSOR_MEMORY_COLUMNS)
    return true;
  int left = TENSOR_MEMORY_COLUMNS / (int)s->warps_m - (int)sums;
  gemm_refuse(why,
              "m=%u n=%u: a block uses %u columns of tensor memory, and there "
              "are %u: write ",
              s->m, s->n, columns, TENSOR_MEMORY_COLUMNS);
  return left >= MIN_PRODUCER_COLUMNS ? gemm_refuse(why, "n=%d", left)
                                      : gemm_refuse(why, "m=128 warps_m=1");
}

static bool check_copies(const GpuSpec *gpu, const GemmSchedule *s,
                         Buffer *why) {
  CopyMethod copy = gemm_has_producer(s) ? COPY_TMA
                    : gpu->has_cp_async  ? COPY_CP_ASYNC
                                         : COPY_VIA_REGISTERS;
  uint32_t most = copy == COPY_VIA_REGISTERS ? MIN_STAGES : MAX_STAGES;
  if (s->copy != copy)
    return gemm_refuse(why, "way=%s needs copy=%s on this GPU", way_of(s),
                       copy == COPY_TMA        ? "engine"
                       : copy == COPY_CP_ASYNC ? "async"
                                               : "registers");
  if (s->stages >= MIN_STAGES && s->stages <= most)
    return true;
  return most == MIN_STAGES
             ? gemm_refuse(why, "stages=%u: with copy=registers it must be %u",
                           s->stages, MIN_STAGES)
             : gemm_refuse(why, "stages=%u: it must be from %u to %u",
                           s->stages, MIN_STAGES, MAX_STAGES);
}

static bool check_store(const AttentionShape *shape, const GemmSchedule *s,
                        Buffer *why) {
  if (s->store == STORE_SHARED)
    return !s->store_stages ||
           gemm_refuse(why,
                       "waiting=%u needs store=engine: leave waiting out, or "
                       "write waiting=0",
                       s->store_stages);
  if (s->store != STORE_TMA)
    return gemm_refuse(why, "attention stores its results through shared "
                            "memory or by TMA: write store=shared");
  if (!gemm_has_producer(s))
    return gemm_refuse(why, "store=engine needs way=wgmma or way=tcgen05: "
                            "write store=shared");
  if (!shape->tma_storable)
    return gemm_refuse(why, "TMA cannot store these results: write "
                            "store=shared");
  return (s->store_stages >= 1 && s->store_stages <= MAX_STORE_STAGES) ||
         gemm_refuse(why, "waiting=%u: with store=engine, it must be 1 to %u",
                     s->store_stages, MAX_STORE_STAGES);
}

static bool check_schedule(const void *of, const GpuSpec *gpu, GemmSchedule *s,
                           Buffer *why) {
  const AttentionShape *shape = of;
  const char *refusal = NULL;
  if (gemm_has_producer(s))
    refusal = attention_producer_refusal(shape, gpu, (MmaKind)s->mma_kind);
  else if (s->mma_kind != MMA_KIND_MMA_SYNC)
    refusal = "attention has way=mma, way=wgmma and way=tcgen05 only";
  if (refusal)
    return gemm_refuse(why, "%s", refusal);
  if (!gemm_schedule_check_fields(s, true, why) || !check_rows(s, why) ||
      !check_persistent(s, why) || !check_tile(shape, s, why) ||
      !check_copies(gpu, s, why) || !check_store(shape, s, why) ||
      !check_tensor_memory(shape, s, why))
    return false;
  BlockUse u = attention_block_use(shape, gpu, s);
  s->blocks = u.blocks;
  return block_use_fits(&u) ||
         gemm_refuse_use(&u, check_schedule, shape, gpu, s, why);
}

bool attention_override(const AttentionShape *shape, const GpuSpec *gpu,
                        const char *text, GemmSchedule *s, Buffer *why) {
  GemmSchedule to = *s, base = *s;
  if (!gemm_schedule_parse(&to, text, why))
    return false;
  if (to.mma_kind != s->mma_kind) {
    base.persistent = to.mma_kind == MMA_KIND_TCGEN05;
    base.store = STORE_SHARED;
  }
  if (base.store != s->store || (to.store != s->store && to.store != STORE_TMA))
    base.store_stages = 0;
  to = base;
  if (!gemm_schedule_parse(&to, text, why) ||
      !check_schedule(shape, gpu, &to, why) ||
      !gemm_schedule_check_derived(&to, text, why))
    return false;
  *s = to;
  return true;
}
