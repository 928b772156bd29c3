/* Which schedule a contraction gets.
 *
 * A block's stage takes as long as the busiest of what it needs: tensor cores
 * (or multiply-adds), shared memory, L2; blocks of a multiprocessor share
 * these; stages that are under way hide what memory takes to answer.  Tiles
 * come in waves, of which the last one is mostly not full.  All of it is then
 * no faster than the bytes come from memory. */
#include "backend/cuda/gemmemit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  REGISTERS = 65536,    /* of a multiprocessor */
  REGISTERS_MOST = 255, /* of a thread */
  BLOCKS_MOST = 16,     /* of a multiprocessor */
  LATENCY = 700,        /* clocks until L2 answers, with memory behind it */
  STAGE_CLOCKS = 60,    /* to wait for and begin a stage */
  BLOCK_CLOCKS = 1500,  /* to begin a block, and end it */
  STREAM_CLOCKS = 3000, /* to find parts of sums, beside their bytes */
  ENGINE_CLOCKS = 600,  /* the same of one that goes on to other tiles */
  CLUSTER_CLOCKS = 10,  /* for its blocks to have a stage empty together */
  SHARED_BYTES = 128,   /* per clock */
  LINE_BYTES = 16,      /* that are stored at once */
  ALIGNED = 1024,
  FEW_REGISTERS = 40,   /* that all kernels have, */
  GROUP_REGISTERS = 60, /* and those of warpgroups */
  GROUP = 128,          /* threads that do one wgmma, or things each clock */
  GROUP_ROWS = 64,      /* of one wgmma */
  AHEAD = 4,            /* passes that threads compute at once */
  UNROLLED =
      2048, /* things that are written out, at most: they are read, too */
  PRODUCER = 128,
};

static const GemmGpu gpus[] = {
#define GEMM_GPU(arch, sms, threads, shared, block, async, engine, half, wide, \
                 group, single, twice, clock, memory, l2, l2_rate)             \
  {                                                                            \
      arch,        sms,          threads,  shared, block,  async,              \
      engine,      half,         wide,     group,  single, twice,              \
      (clock)*1e9, (memory)*1e9, (l2)*1e6, l2_rate},
#include "backend/cuda/gemm.def"
};

bool gemm_gpu(const char *arch, GemmGpu *out) {
  if (strncmp(arch, "sm_", 3) != 0)
    return false;
  uint32_t number = (uint32_t)strtoul(arch + 3, NULL, 10);
  bool found = false;
  for (size_t j = 0; j < ARRAY_LEN(gpus); j++)
    if (gpus[j].arch / 10 == number / 10 && gpus[j].arch <= number) {
      *out = gpus[j]; /* the last that fits: they are in order */
      found = true;
    }
  return found;
}

/* ---- what a schedule needs ---- */

static uint32_t bytes_of(const GemmShape *shape) {
  return dtype_info[shape->a.dtype].bytes;
}

uint32_t gemm_depth(const GemmShape *shape, const GemmSchedule *s) {
  return s->way == GEMM_FMA ? 1 : 32 / bytes_of(shape);
}

uint32_t gemm_threads(const GemmSchedule *s) {
  switch ((GemmWay)s->way) {
  case GEMM_FMA:
    return s->m / s->thread_m * (s->n / s->thread_n);
  case GEMM_MMA:
    return s->warps_m * s->warps_n * WARP;
  case GEMM_WGMMA:
    return s->warps_m * GROUP + PRODUCER;
  case GEMM_NONE:
    break;
  }
  return 0;
}

uint32_t gemm_loaders(const GemmSchedule *s) {
  return s->way == GEMM_WGMMA ? PRODUCER : gemm_threads(s);
}

/* wgmma knows one swizzle of each width, that of TMA. */
static Swizzle group_swizzle(uint32_t width) {
  uint8_t bits = 0;
  while (16u << bits < width)
    bits++;
  return bits ? (Swizzle){bits, 4, 3} : (Swizzle){0};
}

SharedTile gemm_tile(const GemmShape *shape, const GemmSchedule *s, bool b) {
  const GemmSide *side = b ? &shape->b : &shape->a;
  uint32_t across = b ? s->n : s->m, swizzle = b ? s->swizzle_b : s->swizzle_a;
  bool turned = side->turned || s->way == GEMM_FMA;
  return (SharedTile){
      .rows = turned ? s->k : across,
      .columns = turned ? across : s->k,
      .bytes = dtype_info[side->dtype].bytes,
      .width = b ? s->width_b : s->width_a,
      .swizzle = {swizzle / 100, swizzle / 10 % 10, swizzle % 10}};
}

static uint32_t stage_bytes(const GemmShape *shape, const GemmSchedule *s) {
  SharedTile a = gemm_tile(shape, s, false), b = gemm_tile(shape, s, true);
  int64_t bytes = (shared_bytes(&a) + ALIGNED - 1) / ALIGNED * ALIGNED +
                  (shared_bytes(&b) + ALIGNED - 1) / ALIGNED * ALIGNED;
  return (uint32_t)bytes;
}

/* Results go through what the stages leave; those of warpgroups, while these
 * are filled for the next tile, through memory of their own. */
uint32_t gemm_shared(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t stages = s->stages * stage_bytes(shape, s), sums = 0;
  if (s->way == GEMM_MMA)
    sums = s->warps_m * s->warps_n * 16 * gemm_slab_pitch(s) * 4;
  if (s->way == GEMM_WGMMA)
    return stages + s->warps_m * 4 * gemm_out_bytes(shape, s) + ALIGNED;
  return stages > sums ? stages : sums;
}

uint32_t gemm_out_bytes(const GemmShape *shape, const GemmSchedule *s) {
  return s->store == STORE_ENGINE ? s->waiting * gemm_set_bytes(shape, s)
                                  : 16 * gemm_slab_pitch(s) * 4;
}

/* Addresses of copies that stay, of smaller ones with how much there is, and
 * what waits to be stored. */
static uint32_t loading_registers(const GemmShape *shape, const GemmSchedule *s,
                                  bool b) {
  uint32_t copy = b ? s->copy_b : s->copy_a, across = b ? s->n : s->m;
  uint32_t bytes = across * s->k * bytes_of(shape), each = copy ? copy : 16;
  uint32_t passes = bytes / each / gemm_threads(s) + 1;
  uint32_t held = copy && s->copy == BY_ASYNC ? 0 : each / 4;
  uint32_t stays = !copy ? 0 : copy < 16 && s->way == GEMM_MMA ? 4 : 3;
  return passes * (stays + held);
}

static uint32_t registers_of(const GemmShape *shape, const GemmSchedule *s) {
  uint32_t wm, wn, more = FEW_REGISTERS;
  if (s->way != GEMM_WGMMA)
    more +=
        loading_registers(shape, s, false) + loading_registers(shape, s, true);
  switch ((GemmWay)s->way) {
  case GEMM_FMA:
    wm = dtype_info[shape->sum].bytes / 4;
    return (s->thread_m * s->thread_n + s->thread_m + s->thread_n) * wm + more;
  case GEMM_MMA:
    wm = s->m / s->warps_m;
    wn = s->n / s->warps_n;
    return wm * wn / WARP + wm / 4 + wn / 4 + more;
  case GEMM_WGMMA:
    return (s->pingpong ? s->m : s->m / s->warps_m) * s->n / GROUP +
           GROUP_REGISTERS;
  case GEMM_NONE:
    break;
  }
  return 0;
}

/* Registers are given to four warps at a time. */
static uint32_t whole_groups(uint32_t threads) {
  return (threads + GROUP - 1) / GROUP * GROUP;
}

static uint32_t blocks_of(const GemmShape *shape, const GemmGpu *gpu,
                          const GemmSchedule *s) {
  uint32_t threads = gemm_threads(s), shared = gemm_shared(shape, s) + ALIGNED;
  uint32_t registers = (registers_of(shape, s) + 7) / 8 * 8;
  uint32_t most = BLOCKS_MOST;
  if (s->way == GEMM_WGMMA)
    return 1;
  if (gpu->threads / threads < most)
    most = gpu->threads / threads;
  if (gpu->shared / shared < most)
    most = gpu->shared / shared;
  while (most && registers * whole_groups(most * threads) > REGISTERS)
    most--;
  return most;
}

uint32_t gemm_producer_registers(const GemmSchedule *s) {
  return s->copy_a && s->copy_b ? GEMM_PRODUCER_REGISTERS
                                : GEMM_COMPUTER_REGISTERS;
}

/* Consumers have what producers leave. */
uint32_t gemm_group_registers(uint32_t groups, uint32_t producer) {
  uint32_t threads = GROUP * (groups + 1), each = REGISTERS / threads / 8 * 8;
  uint32_t left = each * threads - producer * GROUP;
  uint32_t most = left / (GROUP * groups) / 8 * 8;
  return most > REGISTERS_MOST ? REGISTERS_MOST : most;
}

static uint32_t most_registers(const GemmSchedule *s) {
  return s->way == GEMM_WGMMA
             ? gemm_group_registers(s->warps_m, gemm_producer_registers(s))
             : REGISTERS_MOST;
}

bool gemm_fits(const GemmShape *shape, const GemmGpu *gpu,
               const GemmSchedule *s) {
  uint32_t threads = gemm_threads(s), stages = s->copy == BY_REGISTERS;
  return threads >= WARP && threads <= 1024 && s->stages > stages &&
         gemm_shared(shape, s) <= gpu->block &&
         registers_of(shape, s) <= most_registers(s) &&
         blocks_of(shape, gpu, s) >= 1;
}

/* ---- how long it takes ---- */

static double rate_of(const GemmShape *shape, const GemmGpu *gpu,
                      const GemmSchedule *s) {
  bool wide = shape->a.dtype == DT_F32;
  if (s->way == GEMM_WGMMA)
    return wide ? gpu->group / 2 : gpu->group;
  if (s->way == GEMM_MMA)
    return wide ? gpu->wide : gpu->half;
  return shape->sum == DT_F64 ? gpu->twice : gpu->single;
}

uint32_t gemm_ahead(uint32_t passes) {
  uint32_t each = AHEAD;
  while (passes % each)
    each /= 2;
  return each;
}

/* Those that compute for others are four warps, and nothing else goes on there
 * while they wait for what they read. */
static double alone_clocks(const GemmShape *shape, const GemmSchedule *s,
                           bool b) {
  uint32_t stores = (b ? s->n : s->m) * s->k * bytes_of(shape) / LINE_BYTES;
  uint32_t passes = (stores + PRODUCER - 1) / PRODUCER;
  if (b ? s->copy_b : s->copy_a)
    return 0;
  return passes / gemm_ahead(passes) * (double)LATENCY;
}

/* Clocks of one stage of one block that has the multiprocessor to itself. */
static double stage_clocks(const GemmShape *shape, const GemmGpu *gpu,
                           const GemmSchedule *s) {
  double bytes = bytes_of(shape), m = s->m, n = s->n, k = s->k;
  double math = 2 * m * n * k / rate_of(shape, gpu, s);
  double copied = (m + n) * k * bytes, loaded = 0;
  if (s->way == GEMM_MMA)
    loaded = (s->warps_n * m + s->warps_m * n) * k * bytes;
  if (s->way == GEMM_WGMMA) /* each product its rows, and all columns */
    loaded = (m + m / GROUP_ROWS * n) * k * bytes;
  if (s->way == GEMM_FMA) /* a warp's lanes share rows, and columns */
    loaded = gemm_threads(s) / (double)WARP * k * bytes *
             (4.0 * s->thread_m + 8.0 * s->thread_n);
  double shared = (copied + loaded) / SHARED_BYTES;
  double l2 = (m / s->cluster_n + n / s->cluster_m) * k * bytes /
              (gpu->l2_rate / gpu->sms);
  /* what is nearly as busy as the busiest gets in its way */
  double most =
      cbrt(math * math * math + shared * shared * shared + l2 * l2 * l2);
  /* element by element: some ten instructions of each, four at a time */
  double computed = (s->copy_a ? 0 : m * k) + (s->copy_b ? 0 : n * k);
  computed *= 12.0 / (4 * WARP);
  if (s->way == GEMM_WGMMA)
    computed += alone_clocks(shape, s, false) + alone_clocks(shape, s, true);
  if (s->copy == BY_REGISTERS)
    computed += copied / 16 * 4 / (4 * WARP);
  double small = 0;
  if (s->copy_a)
    small += m * k * bytes / s->copy_a;
  if (s->copy_b)
    small += n * k * bytes / s->copy_b;
  if (s->copy == BY_ENGINE)
    small = 0;
  return fmax(most, computed + 6 * small / (4 * WARP) +
                        (s->way == GEMM_FMA ? math : 0));
}

static double ceil_of(double x, double by) {
  return ceil(x / by);
}

static double stages_of(const GemmShape *shape, const GemmSchedule *s) {
  if (s->way == GEMM_WGMMA && shape->inner > 0)
    return shape->k / shape->inner * ceil_of(shape->inner, s->k);
  return ceil_of(shape->k, s->k);
}

/* With those that clusters have beyond the edges. */
static double tiles_of(const GemmShape *shape, const GemmSchedule *s) {
  return ceil_of(shape->m, s->m * s->cluster_m) *
         ceil_of(shape->n, s->n * s->cluster_n) * gemm_cluster(s) *
         shape->batch;
}

/* What threads of warpgroups do to store a tile: of each element, in registers
 * or through shared memory. */
static double finish_clocks(const GemmShape *shape, const GemmSchedule *s) {
  bool engine = s->store == STORE_ENGINE;
  double bytes = engine ? 2.0 * shape->widest * shape->results : 8;
  double things = shape->finish + (!engine ? 6 : s->waiting > 1 ? 2 : 3);
  return s->m * (double)s->n * (things / GROUP + bytes / SHARED_BYTES);
}

/* So many blocks on each multiprocessor, each with so many stages. */
static double wave_clocks(const GemmShape *shape, const GemmGpu *gpu,
                          const GemmSchedule *s, double blocks, double stages) {
  if (blocks <= 0)
    return 0;
  double each = blocks * stage_clocks(shape, gpu, s);
  double waiting = LATENCY / (double)(s->stages - 1);
  double overhead = s->way == GEMM_WGMMA
                        ? CLUSTER_CLOCKS * (gemm_cluster(s) - 1.0)
                        : STAGE_CLOCKS;
  double stage = fmax(each + overhead, waiting);
  double stored = s->m * (double)s->n * shape->stored;
  double store = blocks * stored / (gpu->memory / gpu->clock / gpu->sms);
  if (s->persistent && s->way == GEMM_WGMMA) { /* beside the next tile's sum */
    double ahead = s->pingpong ? 1 : 0.5;
    return stages * stage + ENGINE_CLOCKS * (1 - 0.7 * ahead) +
           finish_clocks(shape, s) * (s->pingpong ? 0.2 : 1) +
           store * (1 - 0.8 * ahead);
  }
  return stages * stage + BLOCK_CLOCKS + store;
}

/* Those of a convolution are used again and again. */
static double side_elements(const GemmSide *side, double used) {
  return side->elements > 0 && side->elements < used ? side->elements : used;
}

static double bytes_moved(const GemmShape *shape, const GemmGpu *gpu,
                          const GemmSchedule *s) {
  double bytes = bytes_of(shape), each = shape->m * shape->n * shape->batch;
  double a = side_elements(&shape->a, shape->m * shape->k * shape->batch);
  double b = side_elements(&shape->b, shape->n * shape->k * shape->batch);
  double all = (a + b) * bytes + each * shape->stored;
  if (s->stream)
    return all + 2.0 * gpu->sms * s->m * s->n * 4;
  return s->split > 1 ? all + 2.0 * s->split * each * 4 : all;
}

/* A block puts one part of a sum down, and has others added to one of its own;
 * all of that goes through L2. */
static double stream_clocks(const GemmGpu *gpu, const GemmSchedule *s,
                            double tiles) {
  double part = s->m * (double)s->n * 4 / (gpu->l2_rate / gpu->sms);
  return STREAM_CLOCKS + part * (1 + fmax(1, gpu->sms / tiles));
}

/* The longer one, and something of the other: of two schedules that memory
 * bounds, the one that does less besides is the better one. */
static double together(double x, double y) {
  double squares = x * x * x * x + y * y * y * y;
  return fmax(fmax(x, y), sqrt(sqrt(squares)));
}

double gemm_seconds(const GemmShape *shape, const GemmGpu *gpu,
                    const GemmSchedule *s) {
  double blocks = blocks_of(shape, gpu, s);
  double tiles = tiles_of(shape, s) * s->split;
  double stages = ceil_of(stages_of(shape, s), s->split);
  double sms = gpu->sms / gemm_cluster(s) * gemm_cluster(s);
  double full = floor(tiles / (sms * blocks));
  if (s->stream) { /* the rest is cut into equal parts */
    double rest = tiles - full * sms, cut = rest * stages / sms;
    double extra = rest > 0 ? stream_clocks(gpu, s, rest) : 0;
    return together((full * wave_clocks(shape, gpu, s, 1, stages) +
                     wave_clocks(shape, gpu, s, cut > 0, ceil(cut)) + extra) /
                        gpu->clock,
                    bytes_moved(shape, gpu, s) / gpu->memory);
  }
  double rest = ceil((tiles - full * sms * blocks) / sms);
  double clocks = full * wave_clocks(shape, gpu, s, blocks, stages) +
                  wave_clocks(shape, gpu, s, rest, stages);
  if (s->split > 1)
    clocks += BLOCK_CLOCKS;
  return together(clocks / gpu->clock,
                  bytes_moved(shape, gpu, s) / gpu->memory);
}

/* ---- what there is to choose from ---- */

typedef struct Choice {
  const GemmShape *shape;
  const GemmGpu *gpu;
  GemmSchedule best;
  double seconds;
} Choice;

static uint32_t width_of(uint32_t columns, uint32_t bytes, uint32_t most) {
  uint32_t width = columns * bytes;
  while (width & (width - 1))
    width &= width - 1;
  if (columns * bytes % width)
    width = columns * bytes & -(columns * bytes);
  return width > most ? most : width;
}

static uint32_t digits(Swizzle s) {
  return 100 * s.bits + 10 * s.base + s.shift;
}

/* Bytes of one copy; 0: it goes element by element. */
static uint32_t copy_of(const GemmSide *side, const GemmSchedule *s) {
  uint32_t bytes = dtype_info[side->dtype].bytes;
  uint32_t copy = side->align < 16 && s->copy != BY_ENGINE ? side->align : 16;
  if (s->way == GEMM_FMA && !side->turned)
    copy = bytes;
  return side->computed || copy < 4 ? 0 : copy;
}

/* How the tile of an operand lies in shared memory: by how it is read there,
 * and written. */
static void lay(const GemmShape *shape, GemmSchedule *s, bool b, uint32_t count,
                const SharedAccess *reads) {
  SharedAccess of[2];
  uint32_t *width = b ? &s->width_b : &s->width_a;
  uint32_t copy = b ? s->copy_b : s->copy_a;
  *width = 1;
  SharedTile t = gemm_tile(shape, s, b);
  *width = t.width =
      width_of(t.columns, t.bytes, s->way == GEMM_FMA ? 1024 : 128);
  for (uint32_t j = 0; j < count; j++)
    of[j] = reads[j];
  of[count++] = shared_rows(&t, copy > t.bytes ? copy : 16);
  if (s->way == GEMM_WGMMA)
    t.swizzle = group_swizzle(t.width);
  else
    shared_choose(&t, count, of);
  *(b ? &s->swizzle_b : &s->swizzle_a) = digits(t.swizzle);
}

void gemm_lay(const GemmShape *shape, GemmSchedule *s, bool b, const Held *h,
              bool turned) {
  const GemmSide *side = b ? &shape->b : &shape->a;
  SharedAccess read = held_access(h, dtype_info[side->dtype].bytes, turned);
  *(b ? &s->copy_b : &s->copy_a) = copy_of(side, s);
  lay(shape, s, b, 1, &read);
}

/* Of multiply-adds it is the writes that wait: threads have 8 terms of 4 rows
 * at a time where these do not lie next to each other. */
static void choose_tile(const GemmShape *shape, GemmSchedule *s, bool b) {
  const GemmSide *side = b ? &shape->b : &shape->a;
  uint32_t bytes = dtype_info[side->dtype].bytes;
  Held h = b ? held_values(held_mma_b(bytes), 2, 1) : held_mma_a(bytes);
  SharedAccess write = {
      .row = layout_with(layout_mode(8, 1), 4, 0),
      .column = layout_with(layout_mode(8, 0), 4, 1),
      .bytes = bytes,
  };
  if (s->way == GEMM_FMA)
    lay(shape, s, b, !side->turned && (b ? s->copy_b : s->copy_a), &write);
  else
    gemm_lay(shape, s, b, &h, side->turned);
}

static void give_copies(const GemmShape *shape, GemmSchedule *s) {
  s->copy_a = copy_of(&shape->a, s);
  s->copy_b = copy_of(&shape->b, s);
}

static void try(Choice *c, GemmSchedule s) {
  if (!s.stages)
    return;
  give_copies(c->shape, &s);
  s.cluster_m = s.cluster_m ? s.cluster_m : 1;
  s.cluster_n = s.cluster_n ? s.cluster_n : 1;
  s.width_a = s.width_b = 16;
  if (!gemm_fits(c->shape, c->gpu, &s))
    return;
  double seconds = gemm_seconds(c->shape, c->gpu, &s);
  if (c->best.way && seconds >= c->seconds)
    return;
  c->seconds = seconds;
  c->best = s;
}

/* Sums are cut where there are too few tiles for all multiprocessors. */
static void try_splits(Choice *c, GemmSchedule s) {
  double tiles = tiles_of(c->shape, &s), stages = ceil_of(c->shape->k, s.k);
  for (s.split = 1; s.split <= 32; s.split *= 2) {
    try(c, s);
    if (c->shape->alone || c->shape->open ||
        tiles * s.split >= 2 * c->gpu->sms || stages < 4.0 * s.split ||
        c->shape->sum == DT_F64)
      return;
  }
}

static void try_stages(Choice *c, GemmSchedule s) {
  if (s.copy == BY_REGISTERS) {
    s.stages = 2;
    try_splits(c, s);
    return;
  }
  for (s.stages = 3; s.stages <= 6; s.stages++)
    try_splits(c, s);
}

static void try_mma(Choice *c) {
  static const uint8_t sides[] = {16, 32, 64}, warps[] = {1, 2, 4};
  uint32_t depth = 32 / bytes_of(c->shape);
  GemmSchedule s = {.way = GEMM_MMA,
                    .copy = c->gpu->async ? BY_ASYNC : BY_REGISTERS,
                    .store = STORE_SHARED,
                    .raster = 8,
                    .cluster_m = 1,
                    .cluster_n = 1};
  for (size_t m = 0; m < 3; m++)
    for (size_t n = 0; n < 3; n++)
      for (size_t x = 0; x < 3; x++)
        for (size_t y = 0; y < 3; y++)
          for (s.k = 2 * depth; s.k <= 4 * depth; s.k *= 2) {
            s.warps_m = warps[x];
            s.warps_n = warps[y];
            s.m = sides[m] * s.warps_m;
            s.n = sides[n] * s.warps_n;
            if (s.warps_m * s.warps_n <= 8 && s.m <= 256 && s.n <= 256)
              try_stages(c, s);
          }
}

static void try_fma(Choice *c) {
  static const uint8_t sides[] = {2, 4, 8};
  GemmSchedule s = {.way = GEMM_FMA,
                    .copy = c->gpu->async ? BY_ASYNC : BY_REGISTERS,
                    .store = STORE_DIRECT,
                    .raster = 8,
                    .cluster_m = 1,
                    .cluster_n = 1};
  for (size_t m = 0; m < 3; m++)
    for (size_t n = 1; n < 3; n++)
      for (uint32_t x = 4; x <= 16; x *= 2)
        for (uint32_t y = 8; y <= 32; y *= 2)
          for (s.k = 8; s.k <= 16; s.k *= 2) {
            s.thread_m = sides[m];
            s.thread_n = sides[n];
            s.m = s.thread_m * x;
            s.n = s.thread_n * y;
            if (x * y >= 64 && x * y <= 256 && s.m >= 16)
              try_stages(c, s);
          }
}

/* Where the last tiles leave multiprocessors without work, all share them. */
static void try_streams(Choice *c, GemmSchedule s) {
  for (s.stream = 0; s.stream <= !c->shape->alone; s.stream++)
    try(c, s);
}

/* Two blocks share one of the operands; of more, some multiprocessors of a GPU
 * would be left over. */
static void try_clusters(Choice *c, GemmSchedule s) {
  for (uint32_t j = 0; j < 3; j++) {
    s.cluster_m = j == 1 ? 2 : 1;
    s.cluster_n = j == 2 ? 2 : 1;
    if (j < 2 || !c->shape->pixels)
      try_streams(c, s);
  }
}

/* As many stages as there is room for. */
static void try_stores(Choice *c, GemmSchedule s) {
  uint32_t rows = s.pingpong ? s.m : s.m / s.warps_m;
  bool short_text =
      c->shape->finish * rows * s.n / GROUP * c->shape->results <= UNROLLED;
  for (s.waiting = 0; s.waiting <= 2; s.waiting++) {
    s.store = s.waiting ? STORE_ENGINE : STORE_SHARED;
    if (s.waiting && (!gemm_may_store(c->shape) || !short_text))
      return;
    for (s.stages = 7; s.stages > 2; s.stages--)
      if (gemm_shared(c->shape, &s) <= c->gpu->block)
        break;
    try_clusters(c, s);
  }
}

/* Rows of 128 bytes. */
static void try_group(Choice *c) {
  static const uint16_t widths[] = {32, 64, 96, 128, 192, 256};
  GemmSchedule s = {.way = GEMM_WGMMA,
                    .copy = BY_ENGINE,
                    .k = 128 / bytes_of(c->shape),
                    .persistent = 1,
                    .flight = 2,
                    .split = 1,
                    .raster = 8,
                    .width_a = 128,
                    .width_b = 128};
  for (size_t n = 0; n < ARRAY_LEN(widths); n++)
    for (uint32_t ping = 0; ping < 2; ping++)
      for (s.m = 64; s.m <= 256; s.m *= 2) {
        s.warps_m = ping ? 2 : s.m == 64 ? 1 : 2;
        s.n = widths[n];
        s.pingpong = ping;
        try_stores(c, s);
      }
}

bool gemm_may_tensor(const GemmShape *shape, const GemmGpu *gpu) {
  switch ((int)shape->a.dtype) {
  case DT_F16:
    return shape->b.dtype == DT_F16 && shape->sum == DT_F32;
  case DT_BF16:
    return shape->b.dtype == DT_BF16 && shape->sum == DT_F32 && gpu->arch >= 80;
  case DT_F32:
    return shape->tf32 && shape->sum == DT_F32 && gpu->arch >= 80;
  }
  return false;
}

/* By TMA, or computed by the threads that would have it copy: halves, since
 * what wgmma takes for tf32 is to be rounded. */
static bool may_bring(const GemmSide *side) {
  return side->computed ? dtype_info[side->dtype].bytes == 2 : side->boxes;
}

bool gemm_may_group(const GemmShape *shape, const GemmGpu *gpu) {
  bool wide = shape->a.dtype == DT_F32; /* wgmma has terms of these in rows */
  return gpu->group > 0 && gpu->engine && may_bring(&shape->a) &&
         may_bring(&shape->b) && (!shape->a.computed || !shape->b.computed) &&
         (!wide || (shape->tf32 && !shape->a.turned && !shape->b.turned));
}

void gemm_lay_out(const GemmShape *shape, GemmSchedule *s) {
  choose_tile(shape, s, false);
  choose_tile(shape, s, true);
}

void gemm_settle(const GemmShape *shape, const GemmGpu *gpu, GemmSchedule *s) {
  give_copies(shape, s);
  gemm_lay_out(shape, s);
  s->blocks = blocks_of(shape, gpu, s);
}

bool gemm_choose(const GemmShape *shape, const GemmGpu *gpu, GemmSchedule *s,
                 double *seconds) {
  Choice c = {.shape = shape, .gpu = gpu};
  if (gemm_may_tensor(shape, gpu)) {
    try_mma(&c);
    if (gemm_may_group(shape, gpu))
      try_group(&c);
  } else if (shape->a.dtype == shape->sum && shape->b.dtype == shape->sum) {
    try_fma(&c);
  }
  if (!c.best.way)
    return false;
  gemm_settle(shape, gpu, &c.best);
  *s = c.best;
  *seconds = c.seconds;
  return true;
}

uint32_t gemm_grid_most(const GemmSchedule *s, const GemmGpu *gpu) {
  uint32_t blocks = gemm_cluster(s);
  return s->persistent ? gpu->sms * s->blocks / blocks * blocks : 0;
}

bool gemm_may_store(const GemmShape *shape) {
  return shape->boxes && shape->results && shape->widest <= 4;
}

/* Streams: a block has a part of a sum's end, and one of another's beginning.
 */
int64_t gemm_room(const GemmSchedule *s, const GemmGpu *gpu, int64_t tiles) {
  int64_t each = (int64_t)s->m * s->n;
  if (s->stream)
    return 2 * (int64_t)gpu->sms * s->blocks * each;
  return s->split > 1 ? tiles * s->split * each : 0;
}
