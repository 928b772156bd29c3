/* Cost model and schedule search of matmuls.
 *
 * The time of a pipeline stage is that of its busiest resource: tensor cores
 * (or FMA units), shared memory, or L2.  Blocks of an SM share these
 * resources.  Stages in flight hide the latency of loads.
 *
 * Tiles run in waves; the last wave is often not full (wave quantization).
 * The time is at least the DRAM traffic divided by the bandwidth. */
#include "backend/cuda/gemm_emit.h"
#include "machine/limits/cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  SHARED_BYTES_PER_CLOCK = 128, /* shared memory bandwidth of an SM: bytes */
  STORE_BYTES = 16,             /* of a vector store to shared memory */
};

static const GpuSpec gpus[] = {
#define GEMM_GPU(arch, sms, sm_threads, sm_shared, block_shared, has_cp_async, \
                 has_tma, f16_mma, tf32_mma, f16_wgmma, f16_tcgen05, f32_fma,  \
                 f64_fma, clock, bandwidth, l2, l2_rate)                       \
  {                                                                            \
      arch,         sms,     sm_threads, sm_shared,   block_shared,            \
      has_cp_async, has_tma, f16_mma,    tf32_mma,    f16_wgmma,               \
      f16_tcgen05,  f32_fma, f64_fma,    (clock)*1e9, (bandwidth)*1e9,         \
      (l2)*1e6,     l2_rate},
#include "backend/cuda/gemm.def"
};

bool gpu_spec(const char *arch, GpuSpec *out) {
  if (strncmp(arch, "sm_", 3) != 0)
    return false;
  uint32_t number = (uint32_t)strtoul(arch + 3, NULL, 10);
  bool found = false;
  for (size_t j = 0; j < ARRAY_LEN(gpus); j++)
    if (gpus[j].arch / 10 == number / 10 && gpus[j].arch <= number) {
      *out = gpus[j]; /* the entries are sorted */
      found = true;
    }
  return found;
}

/* ---- resources of a schedule ---- */

/* wgmma and tcgen05 support one swizzle per panel width, the one of TMA. */
static Swizzle tma_swizzle(uint32_t width) {
  uint8_t bits = 0;
  while (16u << bits < width)
    bits++;
  return bits ? (Swizzle){bits, 4, 3} : (Swizzle){0};
}

static uint32_t stage_bytes(const GemmShape *shape, const GemmSchedule *s) {
  SmemTile a = gemm_operand_tile(shape, s, false),
           b = gemm_operand_tile(shape, s, true);
  int64_t bytes = (smem_tile_bytes(&a) + SMEM_ALIGN_BYTES - 1) /
                      SMEM_ALIGN_BYTES * SMEM_ALIGN_BYTES +
                  (smem_tile_bytes(&b) + SMEM_ALIGN_BYTES - 1) /
                      SMEM_ALIGN_BYTES * SMEM_ALIGN_BYTES;
  return (uint32_t)bytes + gemm_scale_bytes(shape, s);
}

/* Epilogues of mma kernels reuse the memory of the stages.  Kernels with a
 * producer have separate memory for the epilogue, since the producer already
 * fills the stages for the next tile. */
uint32_t gemm_shared_bytes(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t stages = s->stages * stage_bytes(shape, s), epilogue = 0;
  if (s->mma_kind == MMA_KIND_MMA_SYNC)
    epilogue = s->warps_m * s->warps_n * 16 * gemm_epilogue_tile_pitch(s) * 4;
  if (gemm_has_producer(s))
    return stages + s->warps_m * 4 * gemm_warp_epilogue_bytes(shape, s) +
           SMEM_ALIGN_BYTES;
  return stages > epilogue ? stages : epilogue;
}

/* Registers for copies: addresses, bounds of small copies, and values between
 * load and store. */
static uint32_t loading_registers(const GemmShape *shape, const GemmSchedule *s,
                                  bool b) {
  uint32_t copy = b ? s->copy_b : s->copy_a, tile_mn = gemm_tile_side(s, b);
  uint32_t bytes = tile_mn * s->k * gemm_element_bytes(shape),
           each = copy ? copy : 16;
  uint32_t passes = bytes / each / gemm_threads(s) + 1;
  uint32_t value_registers = copy && s->copy == COPY_CP_ASYNC ? 0 : each / 4;
  uint32_t address_registers = !copy ? 0
                               : copy < 16 && s->mma_kind == MMA_KIND_MMA_SYNC
                                   ? GEMM_SMALL_COPY_REGISTERS
                                   : GEMM_COPY_REGISTERS;
  return passes * (address_registers + value_registers);
}

static uint32_t thread_registers(const GemmShape *shape,
                                 const GemmSchedule *s) {
  uint32_t warp_m, warp_n, element_registers, more = GEMM_BASE_REGISTERS;
  if (!gemm_has_producer(s))
    more +=
        loading_registers(shape, s, false) + loading_registers(shape, s, true);
  switch ((MmaKind)s->mma_kind) {
  case MMA_KIND_FMA:
    element_registers = dtype_info[shape->accumulator_dtype].bytes / 4;
    return (s->thread_m * s->thread_n + s->thread_m + s->thread_n) *
               element_registers +
           more;
  case MMA_KIND_MMA_SYNC:
    warp_m = s->m / s->warps_m;
    warp_n = s->n / s->warps_n;
    return warp_m * warp_n / WARP + warp_m / 4 + warp_n / 4 + more;
  case MMA_KIND_WGMMA:
    return (s->pingpong ? s->m : s->m / s->warps_m) * s->n / WARPGROUP_THREADS +
           GEMM_WGMMA_BASE_REGISTERS;
  case MMA_KIND_TCGEN05: /* a row of sums of each warp is in two lanes */
    return s->n / 2 + GEMM_WGMMA_BASE_REGISTERS;
  case MMA_KIND_NONE:
    break;
  }
  return 0;
}

/* The register file is allocated per 4 warps. */
static uint32_t round_up_to_warpgroups(uint32_t threads) {
  return (threads + WARPGROUP_THREADS - 1) / WARPGROUP_THREADS *
         WARPGROUP_THREADS;
}

static uint32_t blocks_per_sm(const GemmShape *shape, const GpuSpec *gpu,
                              const GemmSchedule *s) {
  uint32_t threads = gemm_threads(s),
           shared = gemm_shared_bytes(shape, s) + SMEM_ALIGN_BYTES;
  uint32_t registers = (thread_registers(shape, s) + 7) / 8 * 8;
  uint32_t max = GEMM_MAX_SM_BLOCKS;
  if (gemm_has_producer(s))
    return 1;
  if (gpu->sm_threads / threads < max)
    max = gpu->sm_threads / threads;
  if (gpu->sm_shared_bytes / shared < max)
    max = gpu->sm_shared_bytes / shared;
  while (max &&
         registers * round_up_to_warpgroups(max * threads) > SM_REGISTERS)
    max--;
  return max;
}

/* Registers of the threads of the epilogue, or of all threads. */
static uint32_t max_registers(const GemmSchedule *s) {
  uint32_t each = SM_REGISTERS / gemm_threads(s) / 8 * 8;
  if (s->mma_kind == MMA_KIND_WGMMA)
    return gemm_consumer_registers(s->warps_m, gemm_producer_registers(s));
  return s->mma_kind == MMA_KIND_TCGEN05 && each < MAX_THREAD_REGISTERS
             ? each
             : MAX_THREAD_REGISTERS;
}

BlockUse gemm_block_use(const GemmShape *shape, const GpuSpec *gpu,
                        const GemmSchedule *s) {
  return (BlockUse){.threads = gemm_threads(s),
                    .shared_bytes = gemm_shared_bytes(shape, s),
                    .max_shared_bytes = gpu->block_shared_bytes,
                    .registers = thread_registers(shape, s),
                    .max_registers = max_registers(s),
                    .blocks = blocks_per_sm(shape, gpu, s)};
}

bool block_use_fits(const BlockUse *u) {
  return u->threads >= WARP && u->threads <= MAX_BLOCK_THREADS &&
         u->shared_bytes <= u->max_shared_bytes &&
         u->registers <= u->max_registers && u->blocks >= 1;
}

bool gemm_scales_fit(const GemmShape *shape, const GemmSchedule *s) {
  return s->m == TCGEN05_M && !s->pair && gemm_cluster_size(s) == 1 &&
         gemm_tmem_columns(shape, s) <= TENSOR_MEMORY_COLUMNS;
}

bool gemm_fits(const GemmShape *shape, const GpuSpec *gpu,
               const GemmSchedule *s) {
  BlockUse u = gemm_block_use(shape, gpu, s);
  return s->stages > (s->copy == COPY_VIA_REGISTERS) && block_use_fits(&u) &&
         (!shape->scale_block || gemm_scales_fit(shape, s));
}

/* ---- predicted time ---- */

static double math_rate(const GemmShape *shape, const GpuSpec *gpu,
                        const GemmSchedule *s) {
  bool is_tf32 = shape->a.dtype == DT_F32;
  if (s->mma_kind == MMA_KIND_WGMMA) /* inverse to the bytes of an element */
    return gpu->f16_wgmma_rate * 2 / dtype_info[shape->a.dtype].bytes;
  if (s->mma_kind == MMA_KIND_TCGEN05)
    return gpu->f16_tcgen05_rate * 2 / dtype_info[shape->a.dtype].bytes * s->m /
           TCGEN05_M;
  bool is_f8 = dtype_info[shape->a.dtype].bytes == 1;
  if (s->mma_kind == MMA_KIND_MMA_SYNC)
    return is_tf32 ? gpu->tf32_mma_rate : gpu->f16_mma_rate * (is_f8 ? 2 : 1);
  return shape->accumulator_dtype == DT_F64 ? gpu->f64_fma_rate
                                            : gpu->f32_fma_rate;
}

/* Load latency that is not hidden if the producer warpgroup computes an
 * operand: its 4 warps wait for their loads. */
static double exposed_load_clocks(const GemmShape *shape, const GemmSchedule *s,
                                  bool b) {
  uint32_t stores =
      (b ? s->n : s->m) * s->k * gemm_element_bytes(shape) / STORE_BYTES;
  uint32_t passes = (stores + PRODUCER_THREADS - 1) / PRODUCER_THREADS;
  if (b ? s->copy_b : s->copy_a)
    return 0;
  return passes / gemm_loads_in_flight(passes) *
         (double)GEMM_LOAD_LATENCY_CLOCKS;
}

/* Bytes that an operand reads per element of shared memory.  With scales, each
 * of its terms has a byte, and a scale has one. */
static double source_bytes(const GemmShape *shape) {
  return shape->scale_block
             ? gemm_terms_per_k(shape) * (1 + 1.0 / shape->scale_block)
             : gemm_element_bytes(shape);
}

/* Clocks of a stage if the block has the SM to itself. */
static double stage_clocks(const GemmShape *shape, const GpuSpec *gpu,
                           const GemmSchedule *s) {
  double bytes = gemm_element_bytes(shape), m = s->m, n = s->n, k = s->k;
  double math = 2 * m * n * k / math_rate(shape, gpu, s);
  double columns = gemm_tile_side(s, true); /* in shared memory */
  double copied = (m + columns) * k * bytes, loaded = 0;
  if (s->mma_kind == MMA_KIND_MMA_SYNC)
    loaded = (s->warps_n * m + s->warps_m * n) * k * bytes;
  if (s->mma_kind ==
      MMA_KIND_WGMMA) /* each wgmma reads its rows, and all columns */
    loaded = (m + m / WGMMA_M * n) * k * bytes;
  if (s->mma_kind == MMA_KIND_TCGEN05)
    loaded = (m + columns) * k * bytes;
  if (s->mma_kind == MMA_KIND_FMA) /* lanes of a warp share rows and columns */
    loaded = gemm_threads(s) / (double)WARP * k * bytes *
             (4.0 * s->thread_m + 8.0 * s->thread_n);
  double shared = (copied + loaded) / SHARED_BYTES_PER_CLOCK;
  double l2 = (m / s->cluster_n + n / s->cluster_m) * k * source_bytes(shape) /
              (gpu->l2_bytes_per_clock / gpu->sms);
  /* p-norm instead of the maximum: see GEMM_STAGE_NORM. */
  double max = pow(pow(math, GEMM_STAGE_NORM) + pow(shared, GEMM_STAGE_NORM) +
                       pow(l2, GEMM_STAGE_NORM),
                   1.0 / GEMM_STAGE_NORM);
  /* Computed operands.  The SM issues instructions of 4 warps per clock. */
  double computed = (s->copy_a ? 0 : m * k) + (s->copy_b ? 0 : n * k);
  computed *=
      (shape->scale_block ? GEMM_PACKED_BYTE_OPS : GEMM_COMPUTED_ELEMENT_OPS) /
      (4 * WARP);
  if (gemm_has_producer(s))
    computed += exposed_load_clocks(shape, s, false) +
                exposed_load_clocks(shape, s, true);
  if (s->copy == COPY_VIA_REGISTERS)
    computed += copied / 16 * GEMM_REGISTER_COPY_OPS / (4 * WARP);
  double copy_count = 0;
  if (s->copy_a)
    copy_count += m * k * bytes / s->copy_a;
  if (s->copy_b)
    copy_count += n * k * bytes / s->copy_b;
  if (s->copy == COPY_TMA)
    copy_count = 0;
  return fmax(max, computed + GEMM_COPY_OPS * copy_count / (4 * WARP) +
                       (s->mma_kind == MMA_KIND_FMA ? math : 0));
}

static double ceil_quotient(double x, double by) {
  return ceil(x / by);
}

static double k_stages(const GemmShape *shape, const GemmSchedule *s) {
  if (gemm_has_producer(s) && shape->inner_k > 0)
    return shape->k / shape->inner_k * ceil_quotient(shape->inner_k, s->k);
  return ceil_quotient(shape->k, s->k);
}

/* Includes the tiles of clusters beyond the last row or column. */
static double tile_count(const GemmShape *shape, const GemmSchedule *s) {
  return ceil_quotient(shape->m, s->m * s->cluster_m) *
         ceil_quotient(shape->n, s->n * s->cluster_n) * gemm_cluster_size(s) *
         shape->batch;
}

/* Clocks of the epilogue of a tile in a kernel with a producer: operations, and
 * transfers through shared memory. */
static double epilogue_clocks(const GemmShape *shape, const GemmSchedule *s) {
  bool tma_store = s->store == STORE_TMA;
  double bytes =
      tma_store ? 2.0 * shape->max_output_bytes * shape->output_count : 8;
  double ops =
      shape->epilogue_ops + (!tma_store            ? SHARED_STORE_OPS
                             : s->store_stages > 1 ? BUFFERED_TMA_STORE_OPS
                                                   : TMA_STORE_OPS);
  return s->m * (double)s->n *
         (ops / WARPGROUP_THREADS + bytes / SHARED_BYTES_PER_CLOCK);
}

/* Clocks of a tile whose products take `math` clocks.  With two accumulators,
 * the epilogue overlaps the products of the next tile. */
static double tcgen05_wave_clocks(const GemmShape *shape, const GemmSchedule *s,
                                  double math) {
  double epilogue = epilogue_clocks(shape, s);
  double tile = PERSISTENT_TILE_CLOCKS * (1 - HIDDEN_TILE_OVERHEAD);
  return tile + (s->accumulators > 1
                     ? fmax(math, epilogue) + epilogue * EXPOSED_TENSOR_EPILOGUE
                     : math + epilogue);
}

/* Clocks of a wave with `blocks` blocks per SM and `stages` stages per
 * block. */
static double wave_clocks(const GemmShape *shape, const GpuSpec *gpu,
                          const GemmSchedule *s, double blocks, double stages) {
  if (blocks <= 0)
    return 0;
  double each = blocks * stage_clocks(shape, gpu, s);
  double latency = STAGE_LATENCY_CLOCKS +
                   CLUSTER_LATENCY_CLOCKS * (gemm_cluster_size(s) - 1.0);
  double latency_per_stage = latency / (s->stages - 1);
  double overhead = gemm_has_producer(s)
                        ? CLUSTER_STAGE_CLOCKS * (gemm_cluster_size(s) - 1.0)
                        : GEMM_STAGE_CLOCKS;
  double stage = fmax(each + overhead, latency_per_stage);
  double stored = s->m * (double)s->n * shape->epilogue_bytes;
  double store =
      blocks * stored / (gpu->dram_bandwidth / gpu->clock_hz / gpu->sms);
  if (s->persistent &&
      s->mma_kind == MMA_KIND_WGMMA) { /* overlaps the next tile's mainloop */
    double overlap = s->pingpong ? 1 : PERSISTENT_OVERLAP;
    return stages * stage +
           PERSISTENT_TILE_CLOCKS * (1 - HIDDEN_TILE_OVERHEAD * overlap) +
           epilogue_clocks(shape, s) *
               (s->pingpong ? PINGPONG_EXPOSED_EPILOGUE : 1) +
           store * (1 - HIDDEN_STORES * overlap);
  }
  if (s->mma_kind == MMA_KIND_TCGEN05)
    return tcgen05_wave_clocks(shape, s, stages * stage) +
           store * (1 - HIDDEN_STORES);
  return stages * stage + GEMM_BLOCK_CLOCKS + store;
}

/* Elements that DRAM delivers.  In a convolution, windows overlap, and the
 * cache delivers the repeated ones. */
static double operand_elements(const GemmSide *side, double used) {
  return side->tensor_elements > 0 && side->tensor_elements < used
             ? side->tensor_elements
             : used;
}

static double bytes_moved(const GemmShape *shape, const GpuSpec *gpu,
                          const GemmSchedule *s) {
  double bytes = source_bytes(shape), each = shape->m * shape->n * shape->batch;
  double a = operand_elements(&shape->a, shape->m * shape->k * shape->batch);
  double b = operand_elements(&shape->b, shape->n * shape->k * shape->batch);
  double all = (a + b) * bytes + each * shape->epilogue_bytes;
  if (s->stream)
    return all + 2.0 * gpu->sms * s->m * s->n * 4;
  return s->split > 1 ? all + 2.0 * s->split * each * 4 : all;
}

/* A block stores one partial sum, and loads those of the other blocks of its
 * tile.  All of this traffic goes to L2. */
static double stream_k_clocks(const GpuSpec *gpu, const GemmSchedule *s,
                              double tiles) {
  double part = s->m * (double)s->n * 4 / (gpu->l2_bytes_per_clock / gpu->sms);
  return STREAM_K_CLOCKS + part * (1 + fmax(1, gpu->sms / tiles));
}

/* A smooth maximum.  Of two memory-bound schedules, it prefers the one with
 * less compute time. */
static double smooth_max(double x, double y) {
  double squares = x * x * x * x + y * y * y * y;
  return fmax(fmax(x, y), sqrt(sqrt(squares)));
}

double gemm_seconds(const GemmShape *shape, const GpuSpec *gpu,
                    const GemmSchedule *s) {
  double blocks = blocks_per_sm(shape, gpu, s);
  double tiles = tile_count(shape, s) * s->split;
  double stages = ceil_quotient(k_stages(shape, s), s->split);
  double sms = gpu->sms / gemm_cluster_size(s) * gemm_cluster_size(s);
  double full_waves = floor(tiles / (sms * blocks));
  if (s->stream) { /* the remaining tiles are split evenly */
    double rest = tiles - full_waves * sms,
           remainder_stages = rest * stages / sms;
    double extra = rest > 0 ? stream_k_clocks(gpu, s, rest) : 0;
    /* The blocks are at different k indices, so they do not share operands in
     * L2. */
    double shared = wave_clocks(shape, gpu, s, remainder_stages > 0,
                                ceil(remainder_stages)) *
                    (1 + STREAM_K_SLOWDOWN);
    return smooth_max(
        (full_waves * wave_clocks(shape, gpu, s, 1, stages) + shared + extra) /
            gpu->clock_hz,
        bytes_moved(shape, gpu, s) / gpu->dram_bandwidth);
  }
  double rest = ceil((tiles - full_waves * sms * blocks) / sms);
  double clocks = full_waves * wave_clocks(shape, gpu, s, blocks, stages) +
                  wave_clocks(shape, gpu, s, rest, stages);
  if (s->split > 1)
    clocks += GEMM_BLOCK_CLOCKS;
  return smooth_max(clocks / gpu->clock_hz,
                    bytes_moved(shape, gpu, s) / gpu->dram_bandwidth);
}

/* ---- schedule search ---- */

typedef struct ScheduleSearch {
  const GemmShape *shape;
  const GpuSpec *gpu;
  GemmSchedule best;
  double seconds;
} ScheduleSearch;

static uint32_t swizzle_digits(Swizzle s) {
  return 100 * s.bits + 10 * s.base + s.shift;
}

/* Bytes per copy; 0: element by element. */
static uint32_t copy_bytes(const GemmSide *side, const GemmSchedule *s) {
  uint32_t bytes = dtype_info[side->dtype].bytes;
  uint32_t copy =
      side->align_bytes < 16 && s->copy != COPY_TMA ? side->align_bytes : 16;
  if (s->mma_kind == MMA_KIND_FMA && !side->mn_major)
    copy = bytes;
  return side->computed || copy < 4 ? 0 : copy;
}

/* Chooses panel width and swizzle of an operand tile from the accesses:
 * fragment loads and copies. */
static void choose_smem_layout(const GemmShape *shape, GemmSchedule *s, bool b,
                               uint32_t count, const SmemAccess *reads) {
  SmemAccess accesses[2];
  uint32_t *width = b ? &s->width_b : &s->width_a;
  uint32_t copy = b ? s->copy_b : s->copy_a;
  *width = 1;
  SmemTile t = gemm_operand_tile(shape, s, b);
  *width = t.panel_bytes = gemm_panel_bytes(
      t.columns, t.element_bytes, s->mma_kind == MMA_KIND_FMA ? 1024 : 128);
  for (uint32_t j = 0; j < count; j++)
    accesses[j] = reads[j];
  accesses[count++] =
      smem_tile_row_access(&t, copy > t.element_bytes ? copy : 16);
  if (gemm_has_producer(s))
    t.swizzle = tma_swizzle(t.panel_bytes);
  else
    smem_tile_choose_swizzle(&t, count, accesses);
  *(b ? &s->swizzle_b : &s->swizzle_a) = swizzle_digits(t.swizzle);
}

void gemm_choose_operand_layout(const GemmShape *shape, GemmSchedule *s, bool b,
                                const FragmentLayout *h, bool mn_major) {
  const GemmSide *side = b ? &shape->b : &shape->a;
  SmemAccess read =
      fragment_layout_access(h, dtype_info[side->dtype].bytes, mn_major);
  *(b ? &s->copy_b : &s->copy_a) = copy_bytes(side, s);
  choose_smem_layout(shape, s, b, 1, &read);
}

/* In fma kernels the stores have the bank conflicts: if k is contiguous, a
 * warp stores 8 k indices of 4 rows at a time. */
static void choose_operand_layout(const GemmShape *shape, GemmSchedule *s,
                                  bool b) {
  const GemmSide *side = b ? &shape->b : &shape->a;
  uint32_t bytes = dtype_info[side->dtype].bytes;
  FragmentLayout h =
      b ? fragment_layout_repeat_values(fragment_layout_mma_b(bytes), 2, 1)
        : fragment_layout_mma_a(bytes);
  SmemAccess write = {
      .row = layout_append(layout_mode(8, 1), 4, 0),
      .column = layout_append(layout_mode(8, 0), 4, 1),
      .lane_bytes = bytes,
  };
  if (s->mma_kind == MMA_KIND_FMA)
    choose_smem_layout(shape, s, b,
                       !side->mn_major && (b ? s->copy_b : s->copy_a), &write);
  else
    gemm_choose_operand_layout(shape, s, b, &h, side->mn_major);
}

static void set_copy_bytes(const GemmShape *shape, GemmSchedule *s) {
  s->copy_a = copy_bytes(&shape->a, s);
  s->copy_b = copy_bytes(&shape->b, s);
}

static void try_schedule(ScheduleSearch *c, GemmSchedule s) {
  if (!s.stages)
    return;
  set_copy_bytes(c->shape, &s);
  s.cluster_m = s.cluster_m ? s.cluster_m : 1;
  s.cluster_n = s.cluster_n ? s.cluster_n : 1;
  s.width_a = s.width_b = 16;
  if (!gemm_fits(c->shape, c->gpu, &s))
    return;
  double seconds = gemm_seconds(c->shape, c->gpu, &s);
  if (c->best.mma_kind && seconds >= c->seconds)
    return;
  c->seconds = seconds;
  c->best = s;
}

/* Tries split-K while there are too few tiles for all SMs. */
static void try_split_k(ScheduleSearch *c, GemmSchedule s) {
  double tiles = tile_count(c->shape, &s),
         stages = ceil_quotient(c->shape->k, s.k);
  for (s.split = 1; s.split <= MAX_SPLIT_K; s.split *= 2) {
    try_schedule(c, s);
    if (c->shape->no_split_k || c->shape->symbolic_tile_count ||
        tiles * s.split >= SPLIT_K_PARTS_PER_SM * c->gpu->sms ||
        stages < MIN_SPLIT_K_STAGES * s.split ||
        c->shape->accumulator_dtype == DT_F64)
      return;
  }
}

static void try_stages(ScheduleSearch *c, GemmSchedule s) {
  if (s.copy == COPY_VIA_REGISTERS) {
    s.stages = 2;
    try_split_k(c, s);
    return;
  }
  for (s.stages = GEMM_MIN_ASYNC_STAGES; s.stages <= GEMM_MAX_ASYNC_STAGES;
       s.stages++)
    try_split_k(c, s);
}

static void try_mma(ScheduleSearch *c) {
  static const uint8_t tile_sides[] = {16, 32, 64}, warps[] = {1, 2, 4};
  uint32_t depth = 32 / gemm_element_bytes(c->shape);
  GemmSchedule s = {.mma_kind = MMA_KIND_MMA_SYNC,
                    .copy = c->gpu->has_cp_async ? COPY_CP_ASYNC
                                                 : COPY_VIA_REGISTERS,
                    .store = STORE_SHARED,
                    .raster = GEMM_RASTER_TILES,
                    .cluster_m = 1,
                    .cluster_n = 1};
  for (size_t m = 0; m < 3; m++)
    for (size_t n = 0; n < 3; n++)
      for (size_t x = 0; x < 3; x++)
        for (size_t y = 0; y < 3; y++)
          for (s.k = 2 * depth; s.k <= 4 * depth; s.k *= 2) {
            s.warps_m = warps[x];
            s.warps_n = warps[y];
            s.m = tile_sides[m] * s.warps_m;
            s.n = tile_sides[n] * s.warps_n;
            if (s.warps_m * s.warps_n <= 8 && s.m <= 256 && s.n <= 256)
              try_stages(c, s);
          }
}

static void try_fma(ScheduleSearch *c) {
  static const uint8_t tile_sides[] = {2, 4, 8};
  GemmSchedule s = {.mma_kind = MMA_KIND_FMA,
                    .copy = c->gpu->has_cp_async ? COPY_CP_ASYNC
                                                 : COPY_VIA_REGISTERS,
                    .store = STORE_DIRECT,
                    .raster = GEMM_RASTER_TILES,
                    .cluster_m = 1,
                    .cluster_n = 1};
  for (size_t m = 0; m < 3; m++)
    for (size_t n = 1; n < 3; n++)
      for (uint32_t x = 4; x <= 16; x *= 2)
        for (uint32_t y = 8; y <= 32; y *= 2)
          for (s.k = 8; s.k <= 16; s.k *= 2) {
            s.thread_m = tile_sides[m];
            s.thread_n = tile_sides[n];
            s.m = s.thread_m * x;
            s.n = s.thread_n * y;
            if (x * y >= 64 && x * y <= 256 && s.m >= 16)
              try_stages(c, s);
          }
}

/* Tries stream-K: the last, partial wave is split across all SMs. */
static void try_stream_k(ScheduleSearch *c, GemmSchedule s) {
  uint32_t max = gemm_has_producer(&s) && !c->shape->no_split_k;
  for (s.stream = 0; s.stream <= max; s.stream++)
    try_schedule(c, s);
}

/* Tries clusters of 2 blocks, which share one operand.  Larger clusters would
 * leave some SMs of a GPU unused. */
static void try_clusters(ScheduleSearch *c, GemmSchedule s) {
  for (uint32_t j = 0; j < 3; j++) {
    s.cluster_m = j == 1 ? 2 : 1;
    s.cluster_n = j == 2 ? 2 : 1;
    if (j < 2 || !c->shape->im2col)
      try_stream_k(c, s);
  }
}

/* True if shared memory has room for the stages, and tensor memory for their
 * scales. */
static bool stages_fit(const ScheduleSearch *c, const GemmSchedule *s) {
  return gemm_shared_bytes(c->shape, s) <= c->gpu->block_shared_bytes &&
         (!c->shape->scale_block ||
          gemm_tmem_columns(c->shape, s) <= TENSOR_MEMORY_COLUMNS);
}

/* Tries the kinds of stores, each with as many stages as fit. */
static void try_stores(ScheduleSearch *c, GemmSchedule s) {
  uint32_t rows = s.pingpong ? s.m : s.m / s.warps_m;
  bool fits_unrolled = c->shape->epilogue_ops * rows * s.n / WARPGROUP_THREADS *
                           c->shape->output_count <=
                       MAX_UNROLLED_EPILOGUE_OPS;
  for (s.store_stages = 0; s.store_stages <= GEMM_MAX_STORE_STAGES;
       s.store_stages++) {
    s.store = s.store_stages ? STORE_TMA : STORE_SHARED;
    if (s.store_stages && (!gemm_can_store_tma(c->shape) || !fits_unrolled))
      return;
    s.stages = GEMM_MAX_WGMMA_STAGES;
    while (s.stages > 2 && !stages_fit(c, &s))
      s.stages--;
    try_clusters(c, s);
  }
}

/* The k extent of a stage is 128 bytes, the widest swizzle. */
static void try_wgmma(ScheduleSearch *c) {
  static const uint16_t widths[] = {32, 64, 96, 128, 192, 256};
  GemmSchedule s = {.mma_kind = MMA_KIND_WGMMA,
                    .copy = COPY_TMA,
                    .k = 128 / gemm_element_bytes(c->shape),
                    .persistent = 1,
                    .stages_in_flight = GEMM_WGMMA_STAGES_IN_FLIGHT,
                    .split = 1,
                    .raster = GEMM_RASTER_TILES,
                    .width_a = 128,
                    .width_b = 128};
  for (size_t n = 0; n < ARRAY_LEN(widths); n++)
    for (uint32_t pingpong = 0; pingpong < 2; pingpong++)
      for (s.m = 64; s.m <= 256; s.m *= 2) {
        s.warps_m = pingpong ? 2 : s.m == 64 ? 1 : 2;
        s.n = widths[n];
        s.pingpong = pingpong;
        try_stores(c, s);
      }
}

/* Tries one accumulator, too, if scales need a part of tensor memory. */
static void try_accumulators(ScheduleSearch *c, GemmSchedule s) {
  for (s.accumulators = c->shape->scale_block ? 1 : 2; s.accumulators <= 2;
       s.accumulators++)
    try_stores(c, s);
}

/* Without pairs, which have not run on a GPU yet. */
static void try_tcgen05(ScheduleSearch *c) {
  static const uint16_t widths[] = {32, 64, 96, 128, 192, 256};
  GemmSchedule s = {.mma_kind = MMA_KIND_TCGEN05,
                    .copy = COPY_TMA,
                    .k = 128 / gemm_element_bytes(c->shape),
                    .persistent = 1,
                    .warps_m = 1,
                    .split = 1,
                    .raster = GEMM_RASTER_TILES,
                    .width_a = 128,
                    .width_b = 128};
  for (size_t n = 0; n < ARRAY_LEN(widths); n++)
    for (s.m = TCGEN05_M / 2; s.m <= TCGEN05_M; s.m *= 2) {
      s.n = widths[n];
      try_accumulators(c, s);
    }
}

void gemm_choose_layouts(const GemmShape *shape, GemmSchedule *s) {
  choose_operand_layout(shape, s, false);
  choose_operand_layout(shape, s, true);
}

void gemm_complete_schedule(const GemmShape *shape, const GpuSpec *gpu,
                            GemmSchedule *s) {
  set_copy_bytes(shape, s);
  gemm_choose_layouts(shape, s);
  s->blocks = blocks_per_sm(shape, gpu, s);
}

bool gemm_choose(const GemmShape *shape, const GpuSpec *gpu, GemmSchedule *s,
                 double *seconds) {
  ScheduleSearch c = {.shape = shape, .gpu = gpu};
  if (shape->scale_block) {
    if (!gemm_tcgen05_refusal(shape, gpu))
      try_tcgen05(&c);
  } else if (!gemm_mma_refusal(shape, gpu)) {
    try_mma(&c);
    if (!gemm_wgmma_refusal(shape, gpu))
      try_wgmma(&c);
    if (!gemm_tcgen05_refusal(shape, gpu))
      try_tcgen05(&c);
  } else if (shape->a.dtype == shape->accumulator_dtype &&
             shape->b.dtype == shape->accumulator_dtype) {
    try_fma(&c);
  }
  if (!c.best.mma_kind)
    return false;
  gemm_complete_schedule(shape, gpu, &c.best);
  *s = c.best;
  *seconds = c.seconds;
  return true;
}

uint32_t gemm_max_grid_blocks(const GemmSchedule *s, const GpuSpec *gpu) {
  uint32_t blocks = gemm_cluster_size(s);
  return s->persistent ? gpu->sms * s->blocks / blocks * blocks : 0;
}

bool gemm_can_store_tma(const GemmShape *shape) {
  return shape->tma_storable && shape->output_count &&
         shape->max_output_bytes <= 4;
}

/* Stream-K: a block has at most two partial sums, the end of one tile and the
 * beginning of another. */
int64_t gemm_workspace_floats(const GemmSchedule *s, const GpuSpec *gpu,
                              int64_t tiles) {
  int64_t each = (int64_t)s->m * s->n;
  if (s->stream)
    return 2 * (int64_t)gpu->sms * s->blocks * each;
  return s->split > 1 ? tiles * s->split * each : 0;
}
