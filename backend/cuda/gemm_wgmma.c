/* Warp-specialized matmul kernels with wgmma (sm_90a).
 *
 * The producer warpgroup fills the stages of a pipeline in shared memory
 * (gemm_tma_pipeline.c).  The consumer warpgroups run wgmma on these stages.
 *
 * Consumer warpgroups share a tile (cooperative), or alternate between tiles
 * (ping-pong): one runs the mainloop, the other the epilogue. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

/* ---- wgmma mainloop ---- */

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
      buffer_printf(
          out,
          "ax_wgmma_m64n%u%s(sums%u, a_stage + %u, b_stage + %u, "
          "true);\n",
          s->n, wgmma_suffix(t, r, type), x,
          (gemm_mn_offset(&r->a, x * WGMMA_M) + gemm_k_offset(&r->a, k)) >> 4,
          gemm_k_offset(&r->b, k) >> 4);
  buffer_printf(out, "ax_wgmma_commit();\nax_wgmma_wait<%u>();\n",
                s->stages_in_flight - 1);
  put_consumer_release(out, t, r, s->stages_in_flight - 1, "step - from");
  buffer_puts(out, "}\nax_wgmma_wait<0>();\n");
  for (uint32_t x = 0; x < m_tiles; x++)
    buffer_printf(out, "ax_hold(sums%u);\n", x);
  for (uint32_t left = s->stages_in_flight; --left > 0;) {
    buffer_printf(out, "if (to - from >= %uu)\n", left);
    put_consumer_release(out, t, r, left, NULL);
  }
}

/* ---- stream-K ---- */

/* The threads of a warpgroup or of all of them, and the sums of their rows. */
static StreamK stream_k(const GemmKernelSpec *t, const TmaPipeline *r) {
  bool pingpong = t->schedule->pingpong;
  StreamK k = {.arrays = r->group_rows / WGMMA_M,
               .values = t->schedule->n / 2,
               .threads = pingpong ? 128 : 128 * r->consumer_groups,
               .member = pingpong ? "member" : "(thread - 128u)"};
  snprintf(k.sync, sizeof k.sync, "ax_barrier_sync(3 + %s, %u);\n",
           pingpong ? "group" : "0", k.threads);
  snprintf(k.count_offset, sizeof k.count_offset, "%uu%s", r->counts_offset,
           pingpong ? " + group * 4u" : "");
  return k;
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
  const StreamK k = stream_k(t, r);
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
           s->pingpong ? 0 : gemm_mn_offset(&r->a, r->group_rows));
  gemm_put_smem_descriptor(out, &r->a.tile, r->a.mn_major, "a_first", at);
  snprintf(at, sizeof at, "shared + %uu", r->a.stage_bytes);
  gemm_put_smem_descriptor(out, &r->b.tile, r->b.mn_major, "b_first", at);
  buffer_printf(out,
                "const unsigned row = group * %uu + member / 32u * 16u;\n"
                "unsigned round = 0;\n",
                s->pingpong ? 0 : r->group_rows);
  gemm_put_work_init(out, t);
  if (s->pingpong)
    buffer_printf(out,
                  "unsigned turn = 0;\nif (group == 1 && (%s))\n"
                  "ax_barrier_arrive(1, 256);\n",
                  gemm_has_work_expr(t));
  gemm_put_work_loop(out, t);
  gemm_put_tile_coords(out, t);
  if (s->pingpong)
    buffer_puts(out,
                "if (turn++ % 2 != group) {\nround += to - from;\ncontinue;\n"
                "}\nax_barrier_sync(1 + group, 256);\n");
  put_accumulators(out, t, m_tiles);
  put_wgmma_mainloop(out, t, r);
  if (s->pingpong)
    buffer_printf(out, "if (%s)\nax_barrier_arrive(2 - group, 256);\n",
                  gemm_has_work_expr(t));
  if (s->stream) {
    gemm_put_stream_k_begin(out, t, &k);
    buffer_puts(out, "if (last) {\n");
  }
  for (uint32_t x = 0; s->stream && x < m_tiles; x++)
    gemm_put_stream_k_sums(out, t, &k, x);
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

static void put_barrier_init(Buffer *out, const GemmKernelSpec *t,
                             const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  gemm_put_stage_barriers(
      out, r, gemm_cluster_size(s) * (s->pingpong ? 1 : r->consumer_groups));
  buffer_printf(out, "ax_fence_mbarrier_init();\n}\n%s();\n",
                gemm_cluster_size(s) > 1 ? "ax_cluster_begin" : "ax_sync");
}

void gemm_put_wgmma_kernel(Buffer *before, Buffer *out,
                           const GemmKernelSpec *t) {
  TmaPipeline r = gemm_tma_pipeline(t);
  uint32_t registers = gemm_producer_registers(t->schedule);
  if (!r.a.copy_bytes)
    gemm_put_smem_offset(before, &r.a);
  if (!r.b.copy_bytes)
    gemm_put_smem_offset(before, &r.b);
  gemm_put_preamble(out);
  gemm_put_work_sizes(out, t);
  put_barrier_init(out, t, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (r.consumer_groups > 1)
    buffer_printf(out, "ax_registers_less<%u>();\n", registers);
  gemm_put_producer(out, t, &r);
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
