/* The part that persistent matmul kernels with a producer have in common: the
 * tile scheduler, the stages in shared memory, and the producer that fills them
 * by TMA or computes an operand.
 *
 * Each stage has two mbarriers.  `full` completes when all bytes of the stage
 * have arrived or are computed.  `empty` completes when all consumers have
 * released the stage.  The phase parity is that of the use count of the stage.
 *
 * The kernel is persistent.  A block processes *segments*: whole tiles, and
 * with stream-K (arXiv:2301.03598) equal shares of the tiles of the last,
 * partial wave.
 *
 * The blocks of a cluster process neighbouring tiles in lockstep.  Each block
 * loads a part of a shared operand and multicasts it.  A stage is empty when
 * all blocks of the cluster have released it. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

enum { PRODUCER_WARPS = 4 };

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
const char *gemm_block_number(const GemmKernelSpec *t, const char *number,
                              char to[80]) {
  uint32_t blocks = gemm_cluster_size(t->schedule);
  if (blocks == 1)
    snprintf(to, 80, "%s", number);
  else
    snprintf(to, 80, "(%s * %uu + rank)", number, blocks);
  return to;
}

void gemm_put_work_sizes(Buffer *out, const GemmKernelSpec *t) {
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

const char *gemm_has_work_expr(const GemmKernelSpec *t) {
  return t->schedule->stream ? "next < alone || cut < cut_to" : "next < tiles";
}

void gemm_put_work_init(Buffer *out, const GemmKernelSpec *t) {
  buffer_puts(out, "unsigned next = team;\n");
  if (t->schedule->stream)
    buffer_puts(out, "unsigned cut = (unsigned)(cuts * team / teams);\n");
}

void gemm_put_work_loop(Buffer *out, const GemmKernelSpec *t) {
  buffer_printf(out,
                "while (%s) {\nunsigned tile = next, from = 0, to = steps;\n",
                gemm_has_work_expr(t));
  if (t->schedule->stream)
    buffer_puts(out, "if (next < alone) {\nnext += teams;\n} else {\n"
                     "tile = alone + cut / steps;\nfrom = cut % steps;\n"
                     "to = min(steps, from + (cut_to - cut));\n"
                     "cut += to - from;\n}\nconst unsigned whole = tile;\n"
                     "(void)whole;\n");
  else
    buffer_puts(out, "next += teams;\n");
}

/* ---- pipeline ---- */

TmaPipeline gemm_tma_pipeline(const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  TmaPipeline r = {.a = gemm_tiled_copy(t, false),
                   .b = gemm_tiled_copy(t, true)};
  r.a.k_end = r.b.k_end = "end";
  r.producer_computes = !r.a.copy_bytes || !r.b.copy_bytes;
  r.consumer_groups = s->warps_m;
  r.stages = s->stages;
  r.stage_bytes =
      r.a.stage_bytes + r.b.stage_bytes + gemm_scale_bytes(t->shape, s);
  r.epilogue_offset = r.stages * r.stage_bytes;
  r.barriers_offset =
      r.epilogue_offset +
      r.consumer_groups * 4 * gemm_warp_epilogue_bytes(t->shape, s);
  r.counts_offset = r.barriers_offset + 2 * 8 * r.stages;
  r.group_rows = s->pingpong ? s->m : s->m / r.consumer_groups;
  return r;
}

void gemm_put_stage_barriers(Buffer *out, const TmaPipeline *r,
                             uint32_t releases) {
  buffer_printf(out,
                "const unsigned full = shared + %uu, empty = full + %uu;\n"
                "if (thread == 0) {\nfor (unsigned s = 0; s < %uu; s++) {\n"
                "ax_mbarrier_init(full + 8 * s, %u);\n"
                "ax_mbarrier_init(empty + 8 * s, %u);\n}\n",
                r->barriers_offset, 8 * r->stages, r->stages,
                (r->a.copy_bytes || r->b.copy_bytes) +
                    (r->producer_computes ? PRODUCER_WARPS : 0),
                releases);
}

/* Blocks that receive the same multicast; 0: no multicast. */
static uint32_t multicast_count(const GemmSchedule *s, bool b) {
  uint32_t multicast = b ? s->cluster_m : s->cluster_n;
  return multicast > 1 && !s->pair ? multicast : 0;
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
                  b->pair              ? "pair"
                  : b->multicast_parts ? "cast"
                                       : "load",
                  axes, b->smem_address,
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
  char terms[40], rows[40], part[24], blocks[40];
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
  if (s->b && t->schedule->pair)
    snprintf(rows, sizeof rows, "(int)(n0 + rank * %uu)",
             gemm_tile_side(t->schedule, true));
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
                      .pair = t->schedule->pair,
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
  if (t->schedule->pair) /* the first block waits for both */
    buffer_puts(out, "if (rank == 0)\n");
  buffer_printf(out, "ax_mbarrier_expect(full + 8 * stage, %u);\n",
                bytes * (1 + t->schedule->pair));
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

/* Waits until all stages are empty: the commits of tcgen05 arrive in shared
 * memory, also in that of the other blocks of a cluster. */
static void put_producer_end(Buffer *out, const TmaPipeline *r) {
  buffer_printf(out,
                "for (unsigned end = round + %uu; round < end; round++)\n"
                "ax_mbarrier_wait(empty + 8 * (round %% %uu), "
                "(round / %uu & 1) ^ 1);\n",
                r->stages, r->stages, r->stages);
}

void gemm_put_producer(Buffer *out, const GemmKernelSpec *t,
                       const TmaPipeline *r) {
  if (r->producer_computes)
    buffer_puts(out, "{\n");
  else
    buffer_printf(out,
                  "if (ax_warp() == 0 && ax_elect()) {\n"
                  "ax_tma_prefetch(%s);\nax_tma_prefetch(%s);\n",
                  t->a.tensor_map, t->b.tensor_map);
  buffer_puts(out, "unsigned round = 0;\n");
  gemm_put_work_init(out, t);
  gemm_put_work_loop(out, t);
  gemm_put_tile_coords(out, t);
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
  if (t->shape->scale_block) {
    gemm_put_scaled_stage(out, t, r);
  } else {
    if (r->producer_computes)
      buffer_puts(out, "if (thread == 0) {\n");
    put_stage_tma_loads(out, t, r);
    if (r->producer_computes) {
      buffer_puts(out, "}\n");
      put_stage_computed(out, t, r);
    }
  }
  buffer_puts(out, "}\n}\n");
  if (t->schedule->mma_kind == MMA_KIND_TCGEN05)
    put_producer_end(out, r);
  buffer_puts(out, "}\n");
}

/* ---- tiles ---- */

/* Offset in the tile, without swizzle: wgmma descriptors add it to the start
 * address. */
uint32_t gemm_unswizzled_offset(const SmemTile *t, uint32_t row,
                                uint32_t column) {
  SmemTile unswizzled = *t;
  unswizzled.swizzle = (Swizzle){0};
  return (uint32_t)smem_tile_offset(&unswizzled, row, column);
}

uint32_t gemm_mn_offset(const GemmTiledCopy *s, uint32_t at) {
  return s->mn_major ? gemm_unswizzled_offset(&s->tile, 0, at)
                     : gemm_unswizzled_offset(&s->tile, at, 0);
}

uint32_t gemm_k_offset(const GemmTiledCopy *s, uint32_t at) {
  return s->mn_major ? gemm_unswizzled_offset(&s->tile, at, 0)
                     : gemm_unswizzled_offset(&s->tile, 0, at);
}

void gemm_tma_box(const GemmShape *shape, const GemmSchedule *s, bool b,
                  uint32_t box[2], uint32_t *swizzle) {
  SmemTile tile = gemm_operand_tile(shape, s, b);
  uint32_t multicast = multicast_count(s, b);
  box[0] = tile.panel_bytes / tile.element_bytes;
  box[1] = multicast ? tile.rows / multicast : tile.rows;
  *swizzle = smem_tile_descriptor(&tile, false).swizzle;
}
