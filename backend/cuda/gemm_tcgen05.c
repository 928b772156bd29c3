/* Warp-specialized matmul kernels with tcgen05 (sm_100a).
 *
 * Warp 0 loads the stages by TMA (gemm_tma_pipeline.c).  One thread of warp 1
 * issues the products, whose sums are in tensor memory.  Warp 2 allocates and
 * frees tensor memory.  The epilogue warpgroup loads the sums from there.
 *
 * There are one or two accumulators.  With two, the epilogue of a tile overlaps
 * the products of the next one.  Each accumulator has two mbarriers.  `ready`
 * completes when the products of a tile are complete, and `drained` when all
 * epilogue warps have loaded the sums.
 *
 * With pairs (cta_group::2), the first of two blocks issues the products of
 * both, with 256 rows.  Each block has its own rows of the left operand and of
 * the sums, and half of the columns of the right operand, which it loads.  The
 * first block waits for the loads of both, and until both have drained an
 * accumulator.
 *
 * A product has 64 or 128 rows.  With 128 rows, a warp has 32 of them, which it
 * processes in two halves.  tcgen05.ld gives a thread the same elements of 16
 * rows as mma, so that the epilogues are those of other kernels. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

enum {
  LOAD_ROWS = 16,     /* rows of a load from tensor memory */
  ALLOC_COLUMNS = 32, /* columns of tensor memory that can be allocated */
  EPILOGUE_THREADS = 128
};

uint32_t gemm_tmem_allocation(uint32_t columns) {
  uint32_t all = ALLOC_COLUMNS;
  while (all < columns)
    all *= 2;
  return all;
}

uint32_t gemm_tmem_columns(const GemmShape *shape, const GemmSchedule *s) {
  return gemm_tmem_allocation(s->accumulators * s->n +
                              gemm_scale_columns(shape, s));
}

void gemm_put_tmem_access(Buffer *out, const char *access, const char *array,
                          const char *place, const TmemGroups *g) {
  uint32_t max = 16, at = 0; /* groups of one instruction, done */
  for (uint32_t each = max; each; each /= 2)
    for (; g->count - at >= each; at += each)
      buffer_printf(out, "ax_tmem_%s_x%u(%s + %u, %s + %u);\n", access, each,
                    array, at * g->registers, place, at * g->columns);
}

/* ---- descriptors ---- */

/* The numbers of types in an instruction descriptor. */
static uint32_t type_number(Dtype dtype) {
  return dtype == DT_F32 ? 2 : dtype == DT_BF16 || dtype == DT_F8_E5M2;
}

static const char *instruction_kind(Dtype dtype) {
  return dtype == DT_F32 ? "tf32" : dtype_info[dtype].bytes == 1 ? "f8" : "f16";
}

uint32_t gemm_tcgen05_instruction(Dtype dtype, uint32_t m, uint32_t n,
                                  bool a_mn_major, bool b_mn_major) {
  uint32_t f32 = 1, type = type_number(dtype);
  return f32 << 4 | type << 7 | type << 10 | (uint32_t)a_mn_major << 15 |
         (uint32_t)b_mn_major << 16 | n >> 3 << 17 | m >> 4 << 24;
}

static uint32_t instruction_descriptor(const GemmKernelSpec *t,
                                       const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  return gemm_tcgen05_instruction(t->shape->a.dtype, s->m << s->pair, s->n,
                                  r->a.mn_major, r->b.mn_major);
}

void gemm_put_tcgen05_descriptor(Buffer *out, const SmemTile *tile,
                                 bool transposed, const char *name,
                                 uint32_t offset) {
  SmemDescriptor m = smem_tile_descriptor(tile, transposed);
  buffer_printf(out,
                "const uint64_t %s = ax_tcgen05_descriptor(shared + %uu, %uu, "
                "%uu, %uu);\n",
                name, offset, m.leading_bytes, m.stride_bytes, 2 * m.swizzle);
}

/* ---- begin and end of a block ---- */

/* Offset in shared memory of the address of the accumulators. */
static uint32_t address_offset(const GemmKernelSpec *t, const TmaPipeline *r) {
  return r->counts_offset + 2 * 8 * t->schedule->accumulators;
}

/* In the names of functions for pairs. */
static const char *pair_word(const GemmSchedule *s) {
  return s->pair ? "pair_" : "";
}

static void put_begin(Buffer *out, const GemmKernelSpec *t,
                      const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  gemm_put_stage_barriers(out, r, s->pair ? 1 : gemm_cluster_size(s));
  buffer_printf(out,
                "for (unsigned s = 0; s < %uu; s++) {\n"
                "ax_mbarrier_init(shared + %uu + 8 * s, 1);\n"
                "ax_mbarrier_init(shared + %uu + 8 * s, %u);\n}\n"
                "ax_fence_mbarrier_init();\n}\n",
                s->accumulators, r->counts_offset,
                r->counts_offset + 8 * s->accumulators,
                EPILOGUE_THREADS / TMEM_WARP_LANES << s->pair);
  buffer_printf(out,
                "const unsigned ready = shared + %uu, drained = ready + %uu;\n"
                "if (ax_warp() == 2) {\n"
                "ax_tmem_%salloc(shared + %uu, %u);\nax_tmem_%spermit();\n}\n%s"
                "ax_sync();\n"
                "const unsigned tensor = *(const unsigned *)(memory + %uu);\n",
                r->counts_offset, 8 * s->accumulators, pair_word(s),
                address_offset(t, r), gemm_tmem_columns(t->shape, s),
                pair_word(s),
                gemm_cluster_size(s) > 1 ? "ax_cluster_begin();\n" : "",
                address_offset(t, r));
}

/* The loads of all tiles precede a fence (put_half).  The block has waited for
 * all copies and commits of other blocks. */
static void put_end(Buffer *out, const GemmKernelSpec *t) {
  buffer_printf(out,
                "ax_sync_warp();\nax_sync();\n"
                "if (ax_warp() == 2) {\nax_tcgen05_fence_after();\n"
                "ax_tmem_%sfree(tensor, %u);\n}\n",
                pair_word(t->schedule),
                gemm_tmem_columns(t->shape, t->schedule));
}

/* Declares the accumulator of a tile, and the parity of its use. */
static void put_accumulator(Buffer *out, const GemmSchedule *s) {
  buffer_printf(out,
                "const unsigned slot = turn %% %uu, parity = turn / %uu & 1;\n"
                "turn++;\n",
                s->accumulators, s->accumulators);
}

/* ---- products ---- */

/* All blocks of the cluster are told, since they are in lockstep. */
static void put_stage_release(Buffer *out, const GemmKernelSpec *t) {
  uint32_t blocks = gemm_cluster_size(t->schedule);
  if (t->schedule->pair)
    buffer_puts(out, "ax_tcgen05_pair_commit(empty + 8 * stage, 3u);\n");
  else if (blocks > 1)
    buffer_printf(out, "ax_tcgen05_commit_cast(empty + 8 * stage, %uu);\n",
                  (1u << blocks) - 1);
  else
    buffer_puts(out, "ax_tcgen05_commit(empty + 8 * stage);\n");
}

/* Waits until all accumulators are drained: the other block of the pair arrives
 * in the shared memory of this one. */
static void put_products_end(Buffer *out, const GemmSchedule *s) {
  buffer_printf(out,
                "for (unsigned end = turn + %uu; turn < end; turn++)\n"
                "ax_mbarrier_wait(drained + 8 * (turn %% %uu), "
                "(turn / %uu & 1) ^ 1);\n",
                s->accumulators, s->accumulators, s->accumulators);
}

/* The products need the steps of a tile, not its coordinates. */
static void put_products(Buffer *out, const GemmKernelSpec *t,
                         const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out, "if (%sax_warp() == 1 && ax_elect()) {\n",
                s->pair ? "rank == 0 && " : "");
  gemm_put_tcgen05_descriptor(out, &r->a.tile, r->a.mn_major, "a_first", 0);
  gemm_put_tcgen05_descriptor(out, &r->b.tile, r->b.mn_major, "b_first",
                              r->a.stage_bytes);
  buffer_puts(out, "unsigned round = 0, turn = 0;\n");
  gemm_put_work_init(out, t);
  if (s->stream)
    gemm_put_work_loop(out, t);
  else
    buffer_printf(out,
                  "for (; %s; next += teams) {\n"
                  "const unsigned from = 0, to = steps;\n",
                  gemm_has_work_expr(t));
  put_accumulator(out, s);
  buffer_printf(out,
                "ax_mbarrier_wait(drained + 8 * slot, parity ^ 1);\n"
                "for (unsigned step = from; step < to; step++, round++) {\n"
                "const unsigned stage = round %% %uu;\n"
                "ax_mbarrier_wait(full + 8 * stage, round / %uu & 1);\n"
                "ax_tcgen05_fence_after();\n"
                "const uint64_t a_stage = a_first + (stage * %uu >> 4);\n"
                "const uint64_t b_stage = b_first + (stage * %uu >> 4);\n",
                r->stages, r->stages, r->stage_bytes, r->stage_bytes);
  uint32_t each = gemm_instruction_k(t->shape, s);
  if (t->shape->scale_block)
    gemm_put_scaled_products(out, t, r);
  for (uint32_t k = 0; !t->shape->scale_block && k < s->k; k += each)
    buffer_printf(out,
                  "ax_tcgen05_%smma_%s(tensor + slot * %uu, a_stage + %u, "
                  "b_stage + %u, 0x%xu, %s);\n",
                  pair_word(s), instruction_kind(t->shape->a.dtype), s->n,
                  gemm_k_offset(&r->a, k) >> 4, gemm_k_offset(&r->b, k) >> 4,
                  instruction_descriptor(t, r), k ? "true" : "step != from");
  put_stage_release(out, t);
  if (s->pair) {
    buffer_puts(out, "}\nax_tcgen05_pair_commit(ready + 8 * slot, 3u);\n}\n");
    put_products_end(out, s);
    buffer_puts(out, "}\n");
  } else {
    buffer_puts(out, "}\nax_tcgen05_commit(ready + 8 * slot);\n}\n}\n");
  }
}

/* ---- epilogue ---- */

/* Loads 16 rows of the sums. */
static void put_sums(Buffer *out, const GemmSchedule *s, uint32_t half) {
  const TmemGroups groups = {TMEM_GROUP_COLUMNS, TMEM_GROUP_REGISTERS,
                             s->n / TMEM_GROUP_COLUMNS};
  char sums[16];
  snprintf(sums, sizeof sums, "sums%u", half);
  buffer_printf(out,
                "float sums%u[%u];\nif (from < to) {\n"
                "const unsigned place = tensor + slot * %uu + (warp * %uu + "
                "%uu << %u);\n",
                half, s->n / 2, s->n, TMEM_WARP_LANES, half * LOAD_ROWS,
                TMEM_LANE_SHIFT);
  gemm_put_tmem_access(out, "load", sums, "place", &groups);
  buffer_printf(out,
                "ax_tmem_wait_load();\nax_hold(sums%u);\n} else {\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "sums%u[i] = 0;\n}\n",
                half, s->n / 2, half);
}

/* Of the threads of the epilogue. */
static StreamK stream_k(const GemmKernelSpec *t, const TmaPipeline *r) {
  StreamK k = {.arrays = t->schedule->m / (4 * LOAD_ROWS),
               .values = t->schedule->n / 2,
               .threads = EPILOGUE_THREADS,
               .member = "(thread - 128u)",
               .put_load = put_sums};
  snprintf(k.sync, sizeof k.sync, "ax_barrier_sync(3, %u);\n",
           EPILOGUE_THREADS);
  snprintf(k.count_offset, sizeof k.count_offset, "%uu",
           address_offset(t, r) + 4);
  return k;
}

/* The accumulator is drained after the loads of the last half, before its
 * epilogue. */
static void put_half(Buffer *out, const GemmKernelSpec *t, const StreamK *k,
                     uint32_t half) {
  uint32_t halves = k->arrays;
  const GemmSchedule *s = t->schedule;
  char sums[16], row[40];
  snprintf(sums, sizeof sums, "sums%u", half);
  snprintf(row, sizeof row, "warp * %uu + %uu", halves * LOAD_ROWS,
           half * LOAD_ROWS);
  buffer_puts(out, "{\n");
  put_sums(out, s, half);
  if (half + 1 == halves)
    buffer_printf(out,
                  "ax_tcgen05_fence_before();\nax_sync_warp();\n"
                  "if (lane == 0)\nax_mbarrier_arrive%s(drained + 8 * slot%s);"
                  "\n",
                  s->pair ? "_at" : "", s->pair ? ", 0" : "");
  if (s->stream) {
    buffer_puts(out, "if (last) {\n");
    gemm_put_stream_k_sums(out, t, k, half);
  }
  gemm_put_row_reduction(out, t, sums, row, "0u", "0u");
  if (s->store == STORE_TMA)
    gemm_put_epilogue_tma(out, t, sums, row);
  else if (t->shape->output_count || !t->row_reduction.level_count)
    gemm_put_epilogue_via_shared(out, t, sums, row, "0u");
  buffer_puts(out, s->stream ? "}\n}\n" : "}\n");
}

static void put_epilogue(Buffer *out, const GemmKernelSpec *t,
                         const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  const StreamK k = stream_k(t, r);
  buffer_printf(out,
                "const unsigned warp = thread / 32u - 4, out_at = %uu + warp * "
                "%uu;\n",
                r->epilogue_offset, gemm_warp_epilogue_bytes(t->shape, s));
  buffer_puts(out, s->store == STORE_TMA
                       ? "const unsigned sets = out_at;\nunsigned stored = 0;\n"
                       : "float *const slab = (float *)(memory + out_at);\n");
  buffer_puts(out, "unsigned turn = 0;\n");
  gemm_put_work_init(out, t);
  gemm_put_work_loop(out, t);
  gemm_put_tile_coords(out, t);
  put_accumulator(out, s);
  buffer_puts(out, "ax_mbarrier_wait(ready + 8 * slot, parity);\n"
                   "ax_tcgen05_fence_after();\n");
  if (s->stream)
    gemm_put_stream_k_begin(out, t, &k);
  for (uint32_t half = 0; half < k.arrays; half++)
    put_half(out, t, &k, half);
  buffer_puts(out, "}\n");
  if (s->store == STORE_TMA)
    buffer_puts(out, "if (lane == 0)\nax_tma_wait_read<0>();\n");
}

/* ---- kernel ---- */

/* Operands with scales are packed by a third group of warps. */
void gemm_put_tcgen05_kernel(Buffer *before, Buffer *out,
                             const GemmKernelSpec *t) {
  TmaPipeline r = gemm_tma_pipeline(t);
  if (r.producer_computes) {
    gemm_put_smem_offset(before, &r.a);
    gemm_put_smem_offset(before, &r.b);
  }
  gemm_put_preamble(out);
  gemm_put_work_sizes(out, t);
  put_begin(out, t, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (!r.producer_computes)
    gemm_put_producer(out, t, &r);
  put_products(out, t, &r);
  if (r.producer_computes) {
    buffer_puts(out, "} else if (thread >= 256u) {\n");
    gemm_put_producer(out, t, &r);
  }
  buffer_puts(out, "} else {\n");
  put_epilogue(out, t, &r);
  buffer_puts(out, "}\n");
  put_end(out, t);
}
