/* Warp-specialized matmul kernels with wgmma (sm_90a).
 *
 * The producer warpgroup fills the stages of a pipeline in shared memory, by
 * TMA or by computing an operand.  The consumer warpgroups run wgmma on these
 * stages.
 *
 * Each stage has two mbarriers.  `full` completes when all bytes of the stage
 * have arrived or are computed.  `empty` completes when all consumers have
 * released the stage.  The phase parity is that of the use count of the stage.
 *
 * The kernel is persistent.  A block processes *segments*: whole tiles, and
 * with stream-K (arXiv:2301.03598) equal shares of the tiles of the last,
 * partial wave.  The last block that finishes a shared tile adds the partial
 * sums.
 *
 * Consumer warpgroups share a tile (cooperative), or alternate between tiles
 * (ping-pong): one runs the mainloop, the other the epilogue.
 *
 * The blocks of a cluster process neighbouring tiles in lockstep.  Each block
 * loads a part of a shared operand and multicasts it.  A stage is empty when
 * all blocks of the cluster have released it. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

enum {
  WGMMA_M = 64, /* rows of a wgmma instruction */
  PRODUCER_WARPS = 4,
};

/* ---- tile scheduler ---- */

/* Declares the work distribution: cluster `team` of `teams`.  Without
 * clusters, a cluster is one block. */
static void put_cluster_index(Buffer *out, const GemmSchedule *s) {
  uint32_t blocks = gemm_cluster_size(s);
  if (blocks == 1)
    buffer_puts(out, "const unsigned team = blockIdx.x, teams = gridDim.x;\n");
  else
    buffer_printf(out,
                  "const unsigned rank = ax_cluster_rank();\n"
                  "const unsigned team = blockIdx.x / %uu, "
                  "teams = gridDim.x / %uu;\n",
                  blocks, blocks);
}

/* Converts a cluster-level number (of a tile or a partial sum) to the block's
 * number. */
static const char *block_number(const GemmKernelSpec *t, const char *number,
                                char to[80]) {
  uint32_t blocks = gemm_cluster_size(t->schedule);
  if (blocks == 1)
    snprintf(to, 80, "%s", number);
  else
    snprintf(to, 80, "(%s * %uu + rank)", number, blocks);
  return to;
}

static void put_work_sizes(Buffer *out, const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  put_cluster_index(out, s);
  gemm_put_problem_size(out, t);
  gemm_put_extent(out, &t->batch, "batches");
  if (t->shape->inner_k > 0) {
    GemmAxisGroup outer = t->k;
    outer.count--;
    gemm_put_extent(out, &outer, "taps");
    buffer_printf(out,
                  "const unsigned tap_steps = (unsigned)(%s + %u) / %uu;\n"
                  "const unsigned steps = (unsigned)taps * tap_steps;\n",
                  t->k.axes[outer.count].extent, s->k - 1, s->k);
  } else {
    buffer_printf(out, "const unsigned steps = (unsigned)(k_all + %u) / %uu;\n",
                  s->k - 1, s->k);
  }
  buffer_puts(out, "const unsigned tiles = tiles_m * tiles_n * "
                   "(unsigned)batches;\n");
  if (s->stream)
    buffer_puts(out,
                "const unsigned alone =\n"
                "steps ? tiles / teams * teams : tiles;\n"
                "const uint64_t cuts = (uint64_t)(tiles - alone) * steps;\n"
                "const unsigned cut_to = (unsigned)(cuts * (team + 1) "
                "/ teams);\n");
}

static const char *has_work_expr(const GemmKernelSpec *t) {
  return t->schedule->stream ? "next < alone || cut < cut_to" : "next < tiles";
}

static void put_work_init(Buffer *out, const GemmKernelSpec *t) {
  buffer_puts(out, "unsigned next = team;\n");
  if (t->schedule->stream)
    buffer_puts(out, "unsigned cut = (unsigned)(cuts * team / teams);\n");
}

/* Opens the loop over segments.  from, to: range of k stages.  whole: number
 * of the tile. */
static void put_work_loop(Buffer *out, const GemmKernelSpec *t) {
  buffer_printf(out,
                "while (%s) {\nunsigned tile = next, from = 0, to = steps;\n",
                has_work_expr(t));
  if (t->schedule->stream)
    buffer_puts(out, "if (next < alone) {\nnext += teams;\n} else {\n"
                     "tile = alone + cut / steps;\nfrom = cut % steps;\n"
                     "to = min(steps, from + (cut_to - cut));\n"
                     "cut += to - from;\n}\nconst unsigned whole = tile;\n"
                     "(void)whole;\n");
  else
    buffer_puts(out, "next += teams;\n");
  gemm_put_tile_coords(out, t);
}

/* ---- pipeline ---- */

typedef struct TmaPipeline {
  GemmTiledCopy a, b;
  uint32_t consumer_groups, stages, stage_bytes;
  /* Offsets in shared memory. */
  uint32_t epilogue_offset, barriers_offset, counts_offset;
  uint32_t group_rows;    /* rows of a warpgroup's tile */
  bool producer_computes; /* an operand is computed by all producer threads */
} TmaPipeline;

static TmaPipeline tma_pipeline(const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  TmaPipeline r = {.a = gemm_tiled_copy(t, false),
                   .b = gemm_tiled_copy(t, true)};
  r.a.k_end = r.b.k_end = "end";
  r.producer_computes = !r.a.copy_bytes || !r.b.copy_bytes;
  r.consumer_groups = s->warps_m;
  r.stages = s->stages;
  r.stage_bytes = r.a.stage_bytes + r.b.stage_bytes;
  r.epilogue_offset = r.stages * r.stage_bytes;
  r.barriers_offset =
      r.epilogue_offset +
      r.consumer_groups * 4 * gemm_warp_epilogue_bytes(t->shape, s);
  r.counts_offset = r.barriers_offset + 2 * 8 * r.stages;
  r.group_rows = s->pingpong ? s->m : s->m / r.consumer_groups;
  return r;
}

static void put_barrier_init(Buffer *out, const GemmKernelSpec *t,
                             const TmaPipeline *r) {
  buffer_printf(out,
                "const unsigned full = shared + %uu, empty = full + %uu;\n"
                "if (thread == 0) {\nfor (unsigned s = 0; s < %uu; s++) {\n"
                "ax_mbarrier_init(full + 8 * s, %u);\n"
                "ax_mbarrier_init(empty + 8 * s, %u);\n}\n"
                "ax_fence_mbarrier_init();\n}\n%s();\n",
                r->barriers_offset, 8 * r->stages, r->stages,
                r->producer_computes ? 1 + PRODUCER_WARPS : 1,
                gemm_cluster_size(t->schedule) *
                    (t->schedule->pingpong ? 1 : r->consumer_groups),
                gemm_cluster_size(t->schedule) > 1 ? "ax_cluster_sync"
                                                   : "ax_sync");
}

/* Blocks that receive the same multicast; 0: no multicast. */
static uint32_t multicast_count(const GemmSchedule *s, bool b) {
  uint32_t multicast = b ? s->cluster_m : s->cluster_n;
  return multicast > 1 ? multicast : 0;
}

/* One TMA box per panel of the tile. */
void gemm_put_tma_load(Buffer *out, const TmaLoad *b) {
  const SmemTile *t = b->tile;
  uint32_t each = t->panel_bytes / t->element_bytes, axes = 2;
  uint32_t rows = b->multicast_parts ? t->rows / b->multicast_parts : 0;
  for (uint32_t j = 0; j < b->batch->count; j++)
    axes += gemm_stride(&b->batch->axes[j], b->b) != NULL;
  for (uint32_t from = 0; from < t->columns; from += each) {
    buffer_printf(out, "ax_tma_%s_%ud(%s + %uu",
                  b->multicast_parts ? "cast" : "load", axes, b->smem_address,
                  from / each * t->rows * t->panel_bytes);
    if (b->multicast_parts)
      buffer_printf(out, " + %s * %uu", b->multicast_part,
                    rows * t->panel_bytes);
    buffer_printf(out, ", %s, %s, ", b->tensor_map, b->barrier);
    if (b->multicast_parts)
      buffer_printf(out, "%s, ", b->multicast_mask);
    buffer_printf(out, "(int)(%s) + %u, %s", b->contiguous_coord, from,
                  b->strided_coord);
    if (b->multicast_parts)
      buffer_printf(out, " + (int)(%s * %uu)", b->multicast_part, rows);
    for (uint32_t j = b->batch->count; j-- > 0;)
      if (gemm_stride(&b->batch->axes[j], b->b))
        buffer_printf(out, ", (int)%s", b->batch->axes[j].name);
    buffer_puts(out, ");\n");
  }
}

static void put_im2col_load(Buffer *out, const GemmTiledCopy *s, const char *at,
                            const char *term) {
  const GemmIm2col *p = &s->operand->im2col;
  buffer_printf(out, "ax_tma_pixels_%ud(%s, %s, full + 8 * stage, %s",
                p->spatial_axes + 2, at, s->operand->tensor_map, term);
  for (uint32_t j = 0; j < p->spatial_axes; j++)
    buffer_printf(out, ", (int)(%s)", p->coord[j]);
  buffer_printf(out, ", (int)(%s)", p->batch_coord);
  for (uint32_t j = 0; j < p->spatial_axes; j++)
    buffer_printf(out, ", (int)(%s)", p->offset[j]);
  buffer_puts(out, ");\n");
}

/* Blocks of a cluster are numbered along the rows first.  Blocks of the same
 * column share the right operand. */
static void put_operand_tma_load(Buffer *out, const GemmKernelSpec *t,
                                 const GemmTiledCopy *s, const char *at) {
  char terms[40], rows[16], part[24], blocks[40];
  uint32_t m = t->schedule->cluster_m, n = t->schedule->cluster_n, mask = 0;
  GemmAxisGroup batch_axes = t->batch;
  snprintf(terms, sizeof terms, "(int)(step%s * %uu)",
           t->shape->inner_k > 0 ? " % tap_steps" : "", t->schedule->k);
  for (uint32_t j = 0; t->shape->inner_k > 0 && j + 1 < t->k.count; j++)
    batch_axes.axes[batch_axes.count++] = t->k.axes[j];
  if (s->operand->im2col.spatial_axes) {
    put_im2col_load(out, s, at, terms);
    return;
  }
  snprintf(rows, sizeof rows, "(int)%c0", s->b ? 'n' : 'm');
  for (uint32_t j = 0; j < (s->b ? m : n); j++)
    mask |= 1u << (s->b ? j : j * m);
  snprintf(part, sizeof part, "rank %c %uu", s->b ? '%' : '/', m);
  if (s->b)
    snprintf(blocks, sizeof blocks, "%uu << rank / %uu * %uu", mask, m, m);
  else
    snprintf(blocks, sizeof blocks, "%uu << rank %% %uu", mask, m);
  gemm_put_tma_load(
      out, &(TmaLoad){.tile = &s->tile,
                      .batch = &batch_axes,
                      .b = s->b,
                      .smem_address = at,
                      .tensor_map = s->operand->tensor_map,
                      .barrier = "full + 8 * stage",
                      .contiguous_coord = s->mn_major ? rows : terms,
                      .strided_coord = s->mn_major ? terms : rows,
                      .multicast_parts = multicast_count(t->schedule, s->b),
                      .multicast_part = part,
                      .multicast_mask = blocks});
}

/* Emits the TMA loads of a stage. */
static void put_stage_tma_loads(Buffer *out, const GemmKernelSpec *t,
                                const TmaPipeline *r) {
  char smem_b[40];
  uint32_t bytes = 0;
  snprintf(smem_b, sizeof smem_b, "into + %uu", r->a.stage_bytes);
  bytes += r->a.copy_bytes ? (uint32_t)smem_tile_bytes(&r->a.tile) : 0;
  bytes += r->b.copy_bytes ? (uint32_t)smem_tile_bytes(&r->b.tile) : 0;
  buffer_printf(out, "ax_mbarrier_expect(full + 8 * stage, %u);\n", bytes);
  if (r->a.copy_bytes)
    put_operand_tma_load(out, t, &r->a, "into");
  if (r->b.copy_bytes)
    put_operand_tma_load(out, t, &r->b, smem_b);
}

/* Emits the computation of a stage.  The threads write through the generic
 * proxy and wgmma reads through the asynchronous proxy, so a proxy fence is
 * needed. */
static void put_stage_computed(Buffer *out, const GemmKernelSpec *t,
                               const TmaPipeline *r) {
  const char *terms = "k_all", *first = "";
  char at[60];
  if (t->shape->inner_k > 0) {
    terms = t->k.axes[t->k.count - 1].extent;
    first = "(int)tap * inner + ";
    buffer_printf(out, "const int inner = (int)(%s);\n", terms);
  }
  buffer_printf(out, "const int begin = %s(int)(step%s * %uu);\n", first,
                *first ? " % tap_steps" : "", t->schedule->k);
  buffer_printf(out, "const int end = %s;\n",
                *first ? "((int)tap + 1) * inner" : terms);
  for (uint32_t b = 0; b < 2; b++) {
    const GemmTiledCopy *s = b ? &r->b : &r->a;
    snprintf(at, sizeof at, "stage * %uu + %uu", r->stage_bytes,
             b ? r->a.stage_bytes : 0);
    if (!s->copy_bytes)
      gemm_put_computed(out, s, at, "begin");
  }
  buffer_puts(out, "ax_fence_async();\nax_sync_warp();\n"
                   "if (lane == 0)\nax_mbarrier_arrive(full + 8 * stage);\n");
}

static void put_producer(Buffer *out, const GemmKernelSpec *t,
                         const TmaPipeline *r) {
  if (r->producer_computes)
    buffer_puts(out, "{\n");
  else
    buffer_printf(out,
                  "if (ax_warp() == 0 && ax_elect()) {\n"
                  "ax_tma_prefetch(%s);\nax_tma_prefetch(%s);\n",
                  t->a.tensor_map, t->b.tensor_map);
  buffer_puts(out, "unsigned round = 0;\n");
  put_work_init(out, t);
  put_work_loop(out, t);
  if (t->a.im2col.spatial_axes)
    gemm_put_unravel(out, &t->m, "m0");
  buffer_printf(out,
                "for (unsigned step = from; step < to; step++, round++) {\n"
                "const unsigned stage = round %% %uu;\n"
                "const unsigned into = shared + stage * %uu;\n"
                "ax_mbarrier_wait(empty + 8 * stage, (round / %uu & 1) ^ 1);\n",
                r->stages, r->stage_bytes, r->stages);
  if (t->shape->inner_k > 0) {
    GemmAxisGroup outer = t->k;
    outer.count--;
    buffer_puts(out, "const unsigned tap = step / tap_steps;\n");
    gemm_put_unravel(out, &outer, "tap");
  }
  if (r->producer_computes)
    buffer_puts(out, "if (thread == 0) {\n");
  put_stage_tma_loads(out, t, r);
  if (r->producer_computes) {
    buffer_puts(out, "}\n");
    put_stage_computed(out, t, r);
  }
  buffer_puts(out, "}\n}\n}\n");
}

/* ---- wgmma mainloop ---- */

/* Offset in the tile, without swizzle: wgmma descriptors add it to the start
 * address. */
uint32_t gemm_unswizzled_offset(const SmemTile *t, uint32_t row,
                                uint32_t column) {
  SmemTile unswizzled = *t;
  unswizzled.swizzle = (Swizzle){0};
  return (uint32_t)smem_tile_offset(&unswizzled, row, column);
}

static uint32_t mn_offset(const GemmTiledCopy *s, uint32_t at) {
  return s->mn_major ? gemm_unswizzled_offset(&s->tile, 0, at)
                     : gemm_unswizzled_offset(&s->tile, at, 0);
}

static uint32_t k_offset(const GemmTiledCopy *s, uint32_t at) {
  return s->mn_major ? gemm_unswizzled_offset(&s->tile, at, 0)
                     : gemm_unswizzled_offset(&s->tile, 0, at);
}

void gemm_put_smem_descriptor(Buffer *out, const SmemTile *tile,
                              bool transposed, const char *name,
                              const char *at) {
  SmemDescriptor m = smem_tile_descriptor(tile, transposed);
  buffer_printf(out,
                "const uint64_t %s = ax_wgmma_descriptor(%s, %uu, %uu, %uu);\n",
                name, at, m.leading_bytes, m.stride_bytes, m.swizzle);
}

/* The instruction name after the number of columns.  Only 16-bit operands can
 * be transposed. */
static const char *wgmma_suffix(const GemmKernelSpec *t, const TmaPipeline *r,
                                char to[40]) {
  Dtype dtype = t->shape->a.dtype;
  if (dtype_info[dtype].bytes == 2)
    snprintf(to, 40, "k16_%s<%d, %d>", dtype_info[dtype].name, r->a.mn_major,
             r->b.mn_major);
  else
    snprintf(to, 40, "%s",
             dtype == DT_F8_E4M3   ? "k32_e4m3"
             : dtype == DT_F8_E5M2 ? "k32_e5m2"
                                   : "k8_tf32");
  return to;
}

/* Releases the stage that was consumed `stages_back` stages ago.  begun: a
 * variable that counts the consumed stages of the segment; NULL: there are
 * enough. */
static void put_consumer_release(Buffer *out, const GemmKernelSpec *t,
                                 const TmaPipeline *r, uint32_t stages_back,
                                 const char *begun) {
  uint32_t blocks = gemm_cluster_size(t->schedule);
  if (begun && stages_back)
    buffer_printf(out, "if (%s >= %uu)\n", begun, stages_back);
  buffer_printf(out,
                "if (member < %uu)\nax_mbarrier_arrive%s(empty + 8 * ((round - "
                "%uu) %% %uu)%s);\n",
                blocks, blocks > 1 ? "_at" : "", stages_back, r->stages,
                blocks > 1 ? ", member" : "");
}

/* Issues the wgmmas of a stage.  At most stages_in_flight - 1 earlier stages
 * stay in flight; the stage before them is complete and is released. */
static void put_wgmma_mainloop(Buffer *out, const GemmKernelSpec *t,
                               const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t depth = gemm_instruction_k(t->shape, s),
           m_tiles = r->group_rows / WGMMA_M;
  char type[40];
  buffer_printf(out,
                "for (unsigned step = from; step < to; step++, round++) {\n"
                "const unsigned stage = round %% %uu;\n"
                "ax_mbarrier_wait(full + 8 * stage, round / %uu & 1);\n"
                "const uint64_t a_stage = a_first + (stage * %uu >> 4);\n"
                "const uint64_t b_stage = b_first + (stage * %uu >> 4);\n"
                "ax_wgmma_fence();\n",
                r->stages, r->stages, r->stage_bytes, r->stage_bytes);
  for (uint32_t k = 0; k < s->k; k += depth)
    for (uint32_t x = 0; x < m_tiles; x++)
      buffer_printf(out,
                    "ax_wgmma_m64n%u%s(sums%u, a_stage + %u, b_stage + %u, "
                    "true);\n",
                    s->n, wgmma_suffix(t, r, type), x,
                    (mn_offset(&r->a, x * WGMMA_M) + k_offset(&r->a, k)) >> 4,
                    k_offset(&r->b, k) >> 4);
  buffer_printf(out, "ax_wgmma_commit();\nax_wgmma_wait<%u>();\n",
                s->stages_in_flight - 1);
  put_consumer_release(out, t, r, s->stages_in_flight - 1, "step - from");
  buffer_puts(out, "}\nax_wgmma_wait<0>();\n");
  for (uint32_t x = 0; x < m_tiles; x++)
    buffer_printf(out, "ax_wgmma_hold(sums%u);\n", x);
  for (uint32_t left = s->stages_in_flight; --left > 0;) {
    buffer_printf(out, "if (to - from >= %uu)\n", left);
    put_consumer_release(out, t, r, left, NULL);
  }
}

/* ---- stream-K fixup ---- */

/* The workspace slot of a thread.  A block has two slots: for the end of a
 * tile, and for the beginning of one. */
static void put_workspace_slot(Buffer *out, const GemmKernelSpec *t,
                               const char *cluster, const char *first,
                               uint32_t sums, uint32_t threads) {
  char block[80];
  buffer_printf(out, "parts + (%s * 2 + (%s ? 0 : 1)) * (int64_t)%u",
                block_number(t, cluster, block), first, sums * threads);
}

/* Like gemm_put_split_k_fixup.  The blocks that share a tile follow from their
 * indices.  The block with the beginning of a tile usually finishes last.  Then
 * it adds the other partial sums to its accumulators, without storing them. */
static void put_stream_k_fixup(Buffer *out, const GemmKernelSpec *t,
                               const TmaPipeline *r) {
  bool pingpong = t->schedule->pingpong;
  uint32_t m_tiles = r->group_rows / WGMMA_M, each = t->schedule->n / 2;
  uint32_t threads = pingpong ? 128 : 128 * r->consumer_groups,
           sums = m_tiles * each;
  const char *first = pingpong ? "member" : "thread - 128u";
  char sync[60], counter[80];
  block_number(t, "(whole - alone)", counter);
  snprintf(sync, sizeof sync, "ax_barrier_sync(3 + %s, %u);\n",
           pingpong ? "group" : "0", threads);
  buffer_printf(out,
                "bool last = true;\nif (to - from < steps) {\n"
                "float *const parts = (float *)%s + (%s);\n"
                "unsigned *const count = (unsigned *)(memory + %uu)%s;\n"
                "bool there = false;\nif (from == 0) {\n%s"
                "if (%s == 0)\n*count = atomicAdd((unsigned *)%s + %s, 0u) + "
                "to;\n%sthere = *count == steps;\n}\n"
                "if (!there) {\nfloat *to_slot = ",
                t->workspace, first, r->counts_offset,
                pingpong ? " + group" : "", sync, first, t->counters, counter,
                sync);
  put_workspace_slot(out, t, "team", "from", sums, threads);
  buffer_puts(out, ";\n");
  for (uint32_t x = 0; x < m_tiles; x++)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "to_slot[(%u + i) * %u] = sums%u[i];\n",
                  each, x * each, threads, x);
  buffer_printf(out,
                "__threadfence();\n%s"
                "if (%s == 0)\n*count = atomicAdd((unsigned *)%s + %s, "
                "to - from) + to - from;\n%s}\nlast = *count == steps;\n"
                "if (last) {\n__threadfence();\n"
                "if (%s == 0)\n((unsigned *)%s)[%s] = 0;\nif (!there) {\n",
                sync, first, t->counters, counter, sync, first, t->counters,
                counter);
  for (uint32_t x = 0; x < m_tiles; x++)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums%u[i] = 0;\n",
                  each, x);
  buffer_puts(out, "}\n"
                   "const uint64_t low = (uint64_t)(whole - alone) * steps;\n"
                   "unsigned b = (unsigned)(low * teams / cuts);\n"
                   "while (cuts * (b + 1) / teams <= low)\nb++;\n"
                   "b += there;\n"
                   "for (; cuts * b / teams < low + steps; b++) {\n"
                   "const float *slot = ");
  put_workspace_slot(out, t, "b", "cuts * b / teams > low", sums, threads);
  buffer_puts(out, ";\n");
  for (uint32_t x = 0; x < m_tiles; x++)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums%u[i] += slot[(%u + i) * %u];\n",
                  each, x, x * each, threads);
  buffer_puts(out, "}\n}\n}\nif (last) {\n");
}

/* ---- consumers ---- */

static void put_accumulators(Buffer *out, const GemmKernelSpec *t,
                             uint32_t m_tiles) {
  for (uint32_t x = 0; x < m_tiles; x++)
    buffer_printf(out,
                  "float sums%u[%u];\n#pragma unroll\n"
                  "for (int i = 0; i < %u; i++)\nsums%u[i] = 0;\n",
                  x, t->schedule->n / 2, t->schedule->n / 2, x);
}

static void put_consumer(Buffer *out, const GemmKernelSpec *t,
                         const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t m_tiles = r->group_rows / WGMMA_M;
  char at[80], row[80];
  buffer_printf(out,
                "const unsigned group = thread / 128u - 1, member = thread %% "
                "128u;\n"
                "const unsigned out_at = %uu + (thread / 32u - 4) * %uu;\n",
                r->epilogue_offset, gemm_warp_epilogue_bytes(t->shape, s));
  buffer_puts(out, s->store == STORE_TMA
                       ? "const unsigned sets = out_at;\nunsigned stored = 0;\n"
                       : "float *const slab = (float *)(memory + out_at);\n");
  snprintf(at, sizeof at, "shared + group * %uu",
           s->pingpong ? 0 : mn_offset(&r->a, r->group_rows));
  gemm_put_smem_descriptor(out, &r->a.tile, r->a.mn_major, "a_first", at);
  snprintf(at, sizeof at, "shared + %uu", r->a.stage_bytes);
  gemm_put_smem_descriptor(out, &r->b.tile, r->b.mn_major, "b_first", at);
  buffer_printf(out,
                "const unsigned row = group * %uu + member / 32u * 16u;\n"
                "unsigned round = 0;\n",
                s->pingpong ? 0 : r->group_rows);
  put_work_init(out, t);
  if (s->pingpong)
    buffer_printf(out,
                  "unsigned turn = 0;\nif (group == 1 && (%s))\n"
                  "ax_barrier_arrive(1, 256);\n",
                  has_work_expr(t));
  put_work_loop(out, t);
  if (s->pingpong)
    buffer_puts(out,
                "if (turn++ % 2 != group) {\nround += to - from;\ncontinue;\n"
                "}\nax_barrier_sync(1 + group, 256);\n");
  put_accumulators(out, t, m_tiles);
  put_wgmma_mainloop(out, t, r);
  if (s->pingpong)
    buffer_printf(out, "if (%s)\nax_barrier_arrive(2 - group, 256);\n",
                  has_work_expr(t));
  if (s->stream)
    put_stream_k_fixup(out, t, r);
  for (uint32_t x = 0; x < m_tiles; x++) {
    snprintf(at, sizeof at, "sums%u", x);
    snprintf(row, sizeof row, "row + %uu", x * WGMMA_M);
    gemm_put_row_reduction(out, t, at, row, "0u", "0u");
    if (s->store == STORE_TMA)
      gemm_put_epilogue_tma(out, t, at, row);
    else if (t->shape->output_count || !t->row_reduction.level_count)
      gemm_put_epilogue_via_shared(out, t, at, row, "0u");
  }
  buffer_puts(out, s->stream ? "}\n}\n" : "}\n");
  if (s->store == STORE_TMA)
    buffer_puts(out, "if (lane == 0)\nax_tma_wait_read<0>();\n");
}

/* ---- kernel ---- */

void gemm_put_wgmma_kernel(Buffer *before, Buffer *out,
                           const GemmKernelSpec *t) {
  TmaPipeline r = tma_pipeline(t);
  uint32_t registers = gemm_producer_registers(t->schedule);
  if (!r.a.copy_bytes)
    gemm_put_smem_offset(before, &r.a);
  if (!r.b.copy_bytes)
    gemm_put_smem_offset(before, &r.b);
  gemm_put_preamble(out);
  put_work_sizes(out, t);
  put_barrier_init(out, t, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (r.consumer_groups > 1)
    buffer_printf(out, "ax_registers_less<%u>();\n", registers);
  put_producer(out, t, &r);
  buffer_puts(out, "} else {\n");
  if (r.consumer_groups > 1)
    buffer_printf(out, "ax_registers_more<%u>();\n",
                  gemm_consumer_registers(r.consumer_groups, registers));
  put_consumer(out, t, &r);
  buffer_puts(out, "}\n");
  if (gemm_cluster_size(t->schedule) >
      1) /* other blocks may still write to this block's shared memory */
    buffer_puts(out, "ax_sync_warp();\nax_cluster_sync();\n");
}

void gemm_tma_box(const GemmShape *shape, const GemmSchedule *s, bool b,
                  uint32_t box[2], uint32_t *swizzle) {
  SmemTile tile = gemm_operand_tile(shape, s, b);
  uint32_t multicast = multicast_count(s, b);
  box[0] = tile.panel_bytes / tile.element_bytes;
  box[1] = multicast ? tile.rows / multicast : tile.rows;
  *swizzle = smem_tile_descriptor(&tile, false).swizzle;
}
