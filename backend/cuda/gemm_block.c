/* Resources of a thread block of a matmul kernel: threads, registers, tiles,
 * and shared memory. */
#include "backend/cuda/gemm_emit.h"
#include "machine/limits/cuda.h"

enum { STORE_BOX_ROW_BYTES = 128 /* of a TMA box with 128-byte swizzle */ };

uint32_t gemm_element_bytes(const GemmShape *shape) {
  return dtype_info[shape->a.dtype].bytes;
}

uint32_t gemm_terms_per_k(const GemmShape *shape) {
  return shape->scale_block ? GEMM_PACKED_TERMS : 1;
}

uint32_t gemm_instruction_k(const GemmShape *shape, const GemmSchedule *s) {
  return s->mma_kind == MMA_KIND_FMA ? 1 : 32 / gemm_element_bytes(shape);
}

/* A warpgroup of its own packs operands with scales.  Attention, which has no
 * accumulators, has none. */
static uint32_t packing_threads(const GemmSchedule *s) {
  return s->accumulators && !s->copy_a ? PRODUCER_THREADS : 0;
}

uint32_t gemm_threads(const GemmSchedule *s) {
  switch ((MmaKind)s->mma_kind) {
  case MMA_KIND_FMA:
    return s->m / s->thread_m * (s->n / s->thread_n);
  case MMA_KIND_MMA_SYNC:
    return s->warps_m * s->warps_n * WARP;
  case MMA_KIND_WGMMA:
    return s->warps_m * WARPGROUP_THREADS + PRODUCER_THREADS;
  case MMA_KIND_TCGEN05:
    return s->warps_m * WARPGROUP_THREADS + PRODUCER_THREADS +
           packing_threads(s);
  case MMA_KIND_NONE:
    break;
  }
  return 0;
}

bool gemm_has_producer(const GemmSchedule *s) {
  return s->mma_kind == MMA_KIND_WGMMA || s->mma_kind == MMA_KIND_TCGEN05;
}

uint32_t gemm_loader_threads(const GemmSchedule *s) {
  return gemm_has_producer(s) ? PRODUCER_THREADS : gemm_threads(s);
}

uint32_t gemm_tile_side(const GemmSchedule *s, bool b) {
  return b ? s->n / (1 + s->pair) : s->m;
}

SmemTile gemm_operand_tile(const GemmShape *shape, const GemmSchedule *s,
                           bool b) {
  const GemmSide *side = b ? &shape->b : &shape->a;
  uint32_t tile_mn = gemm_tile_side(s, b);
  uint32_t swizzle = b ? s->swizzle_b : s->swizzle_a;
  bool mn_major = side->mn_major || s->mma_kind == MMA_KIND_FMA;
  return (SmemTile){
      .rows = mn_major ? s->k : tile_mn,
      .columns = mn_major ? tile_mn : s->k,
      .element_bytes = dtype_info[side->dtype].bytes,
      .panel_bytes = b ? s->width_b : s->width_a,
      .swizzle = {swizzle / 100, swizzle / 10 % 10, swizzle % 10}};
}

uint32_t gemm_warp_epilogue_bytes(const GemmShape *shape,
                                  const GemmSchedule *s) {
  return s->store == STORE_TMA
             ? s->store_stages * gemm_store_stage_bytes(shape, s)
             : 16 * gemm_epilogue_tile_pitch(s) * 4;
}

uint32_t gemm_producer_registers(const GemmSchedule *s) {
  return s->copy_a && s->copy_b ? GEMM_PRODUCER_REGISTERS
                                : GEMM_COMPUTING_PRODUCER_REGISTERS;
}

/* Consumers get the registers that the producer warpgroup releases. */
uint32_t gemm_consumer_registers(uint32_t groups, uint32_t producer) {
  uint32_t threads = WARPGROUP_THREADS * (groups + 1),
           each = SM_REGISTERS / threads / 8 * 8;
  uint32_t left = each * threads - producer * WARPGROUP_THREADS;
  uint32_t max = left / (WARPGROUP_THREADS * groups) / 8 * 8;
  return max > MAX_THREAD_REGISTERS ? MAX_THREAD_REGISTERS : max;
}

uint32_t gemm_loads_in_flight(uint32_t passes) {
  uint32_t each = MAX_LOADS_IN_FLIGHT;
  while (passes % each)
    each /= 2;
  return each;
}

uint32_t gemm_panel_bytes(uint32_t columns, uint32_t bytes, uint32_t max) {
  uint32_t width = columns * bytes;
  while (width & (width - 1))
    width &= width - 1;
  if (columns * bytes % width)
    width = columns * bytes & -(columns * bytes);
  return width > max ? max : width;
}

uint32_t gemm_warp_columns(const GemmSchedule *s) {
  return gemm_has_producer(s) ? s->n : s->n / s->warps_n;
}

/* The largest power of two that divides the columns of a warp, within the
 * limit. */
uint32_t gemm_epilogue_tile_columns(const GemmSchedule *s) {
  uint32_t columns = gemm_warp_columns(s), power_of_two = columns & -columns;
  uint32_t max = gemm_has_producer(s) ? MAX_WGMMA_EPILOGUE_COLUMNS
                                      : MAX_EPILOGUE_TILE_COLUMNS;
  return power_of_two < max ? power_of_two : max;
}

/* Chooses the padding with the fewest bank conflicts for the stores of 2
 * accumulators and the loads of 4. */
uint32_t gemm_epilogue_tile_pitch(const GemmSchedule *s) {
  FragmentLayout h = fragment_layout_mma_c();
  uint32_t columns = gemm_epilogue_tile_columns(s), best = 0, cost = UINT32_MAX;
  int64_t row[WARP], column[WARP];
  for (int64_t l = 0; l < WARP; l++) {
    row[l] = layout_at(&h.thread_row, l);
    column[l] = layout_at(&h.thread_column, l);
  }
  for (uint32_t padding = 0; padding <= 16; padding += 4) {
    int64_t at[WARP];
    uint32_t pitch = columns + padding, lanes_per_row = columns / 4, sum;
    for (int64_t l = 0; l < WARP; l++)
      at[l] = 4 * (row[l] * pitch + column[l]);
    sum = layout_wavefronts(at, 8);
    for (int64_t l = 0; l < WARP; l++)
      at[l] = 4 * (l / lanes_per_row * pitch + l % lanes_per_row * 4);
    sum += layout_wavefronts(at, 16);
    if (sum < cost) {
      cost = sum;
      best = pitch;
    }
  }
  return best;
}

uint32_t gemm_tma_store_columns(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t max = STORE_BOX_ROW_BYTES /
                 (shape->max_output_bytes ? shape->max_output_bytes : 1);
  uint32_t even = s->n & -s->n;
  return even < max ? even : max;
}

uint32_t gemm_tma_box_bytes(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t bytes = STORE_BOX_ROWS * gemm_tma_store_columns(shape, s) *
                   shape->max_output_bytes;
  return (bytes + SMEM_ALIGN_BYTES - 1) / SMEM_ALIGN_BYTES * SMEM_ALIGN_BYTES;
}

uint32_t gemm_store_stage_bytes(const GemmShape *shape, const GemmSchedule *s) {
  return gemm_tma_box_bytes(shape, s) * shape->output_count;
}

uint32_t gemm_cluster_size(const GemmSchedule *s) {
  return s->cluster_m * s->cluster_n;
}
