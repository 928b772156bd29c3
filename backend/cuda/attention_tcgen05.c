/* Persistent attention kernels with tcgen05 (sm_100a).  A block has one or two
 * query tiles of 128 rows (groups).  Warp 0 loads by TMA.  One thread of warp 1
 * issues all products.  Warp 2 allocates and frees tensor memory.  A warpgroup
 * per group computes the weights, and stores the results.
 *
 * Tensor memory has the scores of each group, then their accumulators.  The
 * weights replace the first half of the scores, as 16-bit values.  They are the
 * left operand of the second product (FlashAttention-4, flash_attn/cute).
 *
 * The order of the products is that of the groups: while the weights of one
 * group are computed, tensor cores work for the other.  In step j, a group
 * multiplies the weights of step j - 1, and then computes the scores of step j
 * in their place.  The PTX manual (9.7.16.6.2) guarantees the order of a
 * thread's products into the same accumulator.  That a product reads its left
 * operand before the thread's next product overwrites it is an assumption,
 * which the kernels of FlashAttention-4 make, too.  Each group has three
 * mbarriers:
 * - `scores` completes when the scores of a step are there; the products of
 *   earlier steps are complete, too
 * - `weights` completes when all warps have stored their weights, and have
 *   rescaled their accumulators
 * - `ready` completes when the sums of a tile are complete
 *
 * A warp has 32 rows, which it processes in two halves.  tcgen05.ld gives a
 * thread the same elements of 16 rows as mma, so that scores, softmax and
 * epilogues are those of other kernels. */
#include "backend/cuda/attention_emit.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"

enum {
  HALF_SHIFT = 4, /* a half has 16 rows */
  GROUP_WARPS = 4,
  PAIR_GROUP_COLUMNS = 4, /* of 32 bits: 8 weights */
  PAIR_GROUP_REGISTERS = 2,
  RESCALED_COLUMNS = 32, /* accumulators that are in registers together */
};

static uint32_t value_columns(const AttentionShape *shape) {
  return attention_padded_dim(shape->value_dim);
}

uint32_t attention_tmem_columns(const AttentionShape *shape,
                                const GemmSchedule *s) {
  return s->mma_kind == MMA_KIND_TCGEN05
             ? s->warps_m * (s->n + value_columns(shape))
             : 0;
}

static void put_load(Buffer *out, const char *array, const char *place,
                     uint32_t columns) {
  const TmemGroups groups = {TMEM_GROUP_COLUMNS, TMEM_GROUP_REGISTERS,
                             columns / TMEM_GROUP_COLUMNS};
  gemm_put_tmem_access(out, "load", array, place, &groups);
  buffer_printf(out, "ax_tmem_wait_load();\nax_hold(%s);\n", array);
}

/* Each part of the kernel computes the sizes: ptxas spills values that warps
 * with few and with many registers share. */
static void put_tile_loop(Buffer *out, const AttentionKernelSpec *t,
                          bool producer) {
  attention_put_sizes(out, t);
  attention_put_tiles(out, t);
  attention_put_tile_loop(out, t, producer);
}

/* ---- products ---- */

static void put_descriptors(Buffer *out, const AttentionGemms *p,
                            const AttentionSmem *r) {
  gemm_put_tcgen05_descriptor(out, &p->first.q_copy.tile, false, "a_first",
                              r->query_offset);
  gemm_put_tcgen05_descriptor(out, &p->first.k_copy.tile, false, "b_first", 0);
  gemm_put_tcgen05_descriptor(out, &p->v_copy.tile, true, "v_first",
                              r->v_offset);
}

/* The scores of a step. */
static void put_qk(Buffer *out, const AttentionKernelSpec *t,
                   const AttentionGemms *p, const AttentionSmem *r) {
  const GemmSchedule *s = t->schedule;
  const SmemTile *q = &p->first.q_copy.tile, *key = &p->first.k_copy.tile;
  buffer_printf(out,
                "const uint64_t a_group = a_first + g * %uu;\n"
                "const uint64_t b_stage = b_first + (stage * %uu >> 4);\n",
                gemm_unswizzled_offset(q, TCGEN05_M, 0) >> 4, r->stage_bytes);
  for (uint32_t k = 0; k < p->first.q_schedule.k; k += 16)
    buffer_printf(out,
                  "ax_tcgen05_mma_f16(tensor + g * %uu, a_group + %u, b_stage "
                  "+ %u, 0x%xu, %s);\n",
                  s->n, gemm_unswizzled_offset(q, 0, k) >> 4,
                  gemm_unswizzled_offset(key, 0, k) >> 4,
                  gemm_tcgen05_instruction(t->shape->query.dtype, TCGEN05_M,
                                           s->n, false, false),
                  k ? "true" : "false");
  buffer_puts(out, "ax_tcgen05_commit(scores + 8 * g);\n");
}

/* The weights of the last step times its values. */
static void put_pv(Buffer *out, const AttentionKernelSpec *t,
                   const AttentionGemms *p, const AttentionSmem *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t columns = value_columns(t->shape);
  buffer_printf(out,
                "ax_mbarrier_wait(weights + 8 * g, last & 1);\n"
                "ax_tcgen05_fence_after();\n"
                "const uint64_t v_stage = v_first + (last_stage * %uu >> 4);\n",
                r->stage_bytes);
  for (uint32_t k = 0; k < s->n; k += 16)
    buffer_printf(out,
                  "ax_tcgen05_mma_f16_ta(tensor + %uu + g * %uu, tensor + g * "
                  "%uu + %u, v_stage + %u, 0x%xu, %s);\n",
                  s->warps_m * s->n, columns, s->n, k / 2,
                  gemm_unswizzled_offset(&p->v_copy.tile, k, 0) >> 4,
                  gemm_tcgen05_instruction(t->shape->value.dtype, TCGEN05_M,
                                           columns, false, true),
                  k ? "true" : "step > 1");
  buffer_puts(out, "if (step == steps)\nax_tcgen05_commit(ready + 8 * g);\n");
}

static void put_products(Buffer *out, const AttentionKernelSpec *t,
                         const AttentionGemms *p, const AttentionSmem *r) {
  const GemmSchedule *s = t->schedule;
  buffer_puts(out, "if (ax_warp() == 1 && ax_elect()) {\n");
  put_descriptors(out, p, r);
  put_tile_loop(out, t, true);
  buffer_printf(out,
                "(void)row0;\n"
                "if (steps > 0)\nax_mbarrier_wait(full_a, queries & 1);\n"
                "for (unsigned step = 0; steps > 0 && step <= steps; step++) "
                "{\n"
                "const unsigned now = done + step, last = now - 1;\n"
                "const unsigned stage = now %% %uu, last_stage = last %% %uu;\n"
                "if (step > 0)\n"
                "ax_mbarrier_wait(full_v + 8 * last_stage, last / %uu & 1);\n"
                "#pragma unroll\nfor (unsigned g = 0; g < %uu; g++) {\n"
                "if (step > 0) {\n",
                s->stages, s->stages, s->stages, s->warps_m);
  put_pv(out, t, p, r);
  buffer_printf(out,
                "}\nif (step < steps) {\nif (g == 0) {\n"
                "ax_mbarrier_wait(full_b + 8 * stage, now / %uu & 1);\n"
                "ax_tcgen05_fence_after();\n}\n",
                s->stages);
  put_qk(out, t, p, r);
  buffer_puts(out,
              "}\n}\n"
              "if (step > 0)\nax_tcgen05_commit(empty_v + 8 * last_stage);\n"
              "if (step < steps)\nax_tcgen05_commit(empty_b + 8 * stage);\n"
              "if (step + 1 == steps)\nax_tcgen05_commit(empty_a);\n}\n");
  attention_put_tile_end(out);
  buffer_puts(out, "}\n");
}

/* ---- loads ---- */

/* The commits that release the stages and the query arrive in shared memory. */
static void put_producer(Buffer *out, const AttentionKernelSpec *t,
                         AttentionGemms *p, const AttentionSmem *r) {
  uint32_t stages = t->schedule->stages;
  buffer_puts(out, "if (ax_warp() == 0 && ax_elect()) {\n");
  put_tile_loop(out, t, true);
  buffer_puts(out, "{\n");
  attention_put_producer_loads(out, t, p, r);
  buffer_puts(out, "}\n");
  attention_put_tile_end(out);
  buffer_printf(out,
                "for (unsigned end = done + %uu; done < end; done++) {\n"
                "const unsigned stage = done %% %uu, parity = done / %uu & 1;\n"
                "ax_mbarrier_wait(empty_b + 8 * stage, parity ^ 1);\n"
                "ax_mbarrier_wait(empty_v + 8 * stage, parity ^ 1);\n}\n"
                "ax_mbarrier_wait(empty_a, (queries & 1) ^ 1);\n}\n",
                stages, stages, stages);
}

/* ---- weights ---- */

static const char half_loop[] =
    "#pragma unroll\nfor (unsigned half = 0; half < 2; half++) {\n"
    "const unsigned row = first_row + half * 16u;\n";

/* The state of the rows: of each half, two rows of a thread. */
static void put_row_state(Buffer *out, const AttentionKernelSpec *t) {
  if (t->shape->subtract_max)
    buffer_puts(out, "float mosts[2][2], tops[2][2];\n");
  if (attention_has_row_sums(t))
    buffer_puts(out, "float totals[2][2];\n");
}

static void put_row_begin(Buffer *out, const AttentionKernelSpec *t) {
  if (!attention_has_row_sums(t))
    return;
  buffer_puts(out, "#pragma unroll\nfor (int h = 0; h < 4; h++) {\n");
  if (t->shape->subtract_max)
    buffer_puts(out, "mosts[h / 2][h % 2] = tops[h / 2][h % 2] = "
                     "__int_as_float(0xff800000);\n");
  buffer_puts(out, "totals[h / 2][h % 2] = 0;\n}\n");
}

static void put_half_state(Buffer *out, const AttentionKernelSpec *t) {
  if (t->shape->subtract_max)
    buffer_puts(out,
                "float (&most)[2] = mosts[half], (&top)[2] = tops[half];\n");
  if (attention_has_row_sums(t))
    buffer_puts(out, "float (&total)[2] = totals[half];\n");
}

/* Rescales the accumulators of 16 rows, if the maximum of one of them is
 * another one.  There are none before the second step. */
static void put_rescale(Buffer *out, const AttentionKernelSpec *t) {
  uint32_t columns = value_columns(t->shape);
  uint32_t each = columns % RESCALED_COLUMNS ? 16 : RESCALED_COLUMNS;
  const TmemGroups groups = {TMEM_GROUP_COLUMNS, TMEM_GROUP_REGISTERS,
                             each / TMEM_GROUP_COLUMNS};
  if (!t->shape->subtract_max)
    return;
  buffer_printf(out,
                "if (step > 0 && ax_any(shrink[0] != 1.0f || shrink[1] != "
                "1.0f)) {\n"
                "#pragma unroll 1\n"
                "for (unsigned column = 0; column < %uu; column += %uu) {\n"
                "float part[%u];\n"
                "const unsigned at = sums_at + (half << %u) + column;\n",
                columns, each, each / 2, TMEM_LANE_SHIFT + HALF_SHIFT);
  put_load(out, "part", "at", each);
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "part[i] *= shrink[i / 2 %% 2];\n",
                each / 2);
  gemm_put_tmem_access(out, "store", "part", "at", &groups);
  buffer_puts(out, "}\n}\n");
}

static void put_weights(Buffer *out, const AttentionKernelSpec *t) {
  uint32_t columns = t->schedule->n;
  const TmemGroups groups = {PAIR_GROUP_COLUMNS, PAIR_GROUP_REGISTERS,
                             columns / (2 * PAIR_GROUP_COLUMNS)};
  buffer_puts(out, half_loop);
  put_half_state(out, t);
  buffer_printf(out,
                "const unsigned place = scores_at + (half << %u);\n"
                "float s[%u];\n",
                TMEM_LANE_SHIFT + HALF_SHIFT, columns / 2);
  put_load(out, "s", "place", columns);
  attention_put_scores(out, t, "row0 + (int)row",
                       "from + (int)step * stage_terms");
  attention_put_online_softmax(out, t);
  put_rescale(out, t);
  buffer_printf(out, "unsigned p[%u];\n", columns / 4);
  attention_put_pack_all(out, t);
  gemm_put_tmem_access(out, "store_pairs", "p", "place", &groups);
  buffer_puts(out, "}\n");
}

static void put_steps(Buffer *out, const AttentionKernelSpec *t) {
  buffer_puts(out, "for (unsigned step = 0; step < steps; step++) {\n"
                   "ax_mbarrier_wait(scores + 8 * group, (done + step) & 1);\n"
                   "ax_tcgen05_fence_after();\n");
  put_weights(out, t);
  buffer_puts(out, "ax_tmem_wait_store();\nax_tcgen05_fence_before();\n"
                   "ax_sync_warp();\nif (lane == 0)\n"
                   "ax_mbarrier_arrive(weights + 8 * group);\n}\n");
}

/* ---- results ---- */

/* The next product into the accumulators follows an arrival at `weights`. */
static void put_results(Buffer *out, const AttentionKernelSpec *t,
                        AttentionGemms *p, const AttentionSmem *r) {
  uint32_t columns = value_columns(t->shape);
  buffer_puts(out, "if (steps > 0) {\n"
                   "ax_mbarrier_wait(ready + 8 * group, queries & 1);\n"
                   "ax_tcgen05_fence_after();\n}\n");
  buffer_puts(out, half_loop);
  put_half_state(out, t);
  buffer_printf(out,
                "float sums[%u];\nif (steps > 0) {\n"
                "const unsigned at = sums_at + (half << %u);\n",
                columns / 2, TMEM_LANE_SHIFT + HALF_SHIFT);
  put_load(out, "sums", "at", columns);
  buffer_printf(out,
                "} else {\n#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "sums[i] = 0;\n}\n",
                columns / 2);
  attention_put_exact_maximum(out, t, p);
  attention_put_row_sums(out, t, p);
  attention_put_epilogue(out, t, p, r);
  buffer_puts(out, "}\n");
}

static void put_consumer(Buffer *out, const AttentionKernelSpec *t,
                         AttentionGemms *p, const AttentionSmem *r) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "const unsigned group = thread / 128u - 1, warp = ax_warp() %% "
                "4u;\n"
                "const unsigned first_row = group * %uu + warp * %uu;\n"
                "const unsigned lanes = warp * %uu << %u;\n"
                "const unsigned scores_at = tensor + lanes + group * %uu;\n"
                "const unsigned sums_at = tensor + lanes + %uu + group * "
                "%uu;\n",
                TCGEN05_M, TMEM_WARP_LANES, TMEM_WARP_LANES, TMEM_LANE_SHIFT,
                s->n, s->warps_m * s->n, value_columns(t->shape));
  attention_put_epilogue_memory(out, t, r, "(group * 4u + warp)");
  put_row_state(out, t);
  put_tile_loop(out, t, false);
  put_row_begin(out, t);
  put_steps(out, t);
  put_results(out, t, p, r);
  attention_put_tile_end(out);
  if (s->store == STORE_TMA)
    buffer_puts(out, "if (lane == 0)\nax_tma_wait_read<0>();\n");
  buffer_puts(out, "ax_tcgen05_fence_before();\n");
}

/* ---- kernel ---- */

static void put_barriers(Buffer *out, const AttentionKernelSpec *t,
                         const AttentionSmem *r) {
  uint32_t stages = t->schedule->stages, groups = t->schedule->warps_m;
  attention_put_barrier_addresses(out, t, r);
  buffer_printf(out,
                "const unsigned empty_a = empty_v + %uu, scores = empty_a + 8, "
                "ready = scores + %uu, weights = ready + %uu;\n",
                8 * stages, 8 * groups, 8 * groups);
  buffer_printf(out,
                "if (thread == 0) {\n"
                "for (unsigned at = full_a; at < weights; at += 8)\n"
                "ax_mbarrier_init(at, 1);\n"
                "for (unsigned g = 0; g < %uu; g++)\n"
                "ax_mbarrier_init(weights + 8 * g, %u);\n"
                "ax_fence_mbarrier_init();\n}\n",
                groups, GROUP_WARPS);
}

static void put_tmem_begin(Buffer *out, uint32_t columns,
                           const AttentionSmem *r) {
  buffer_printf(out,
                "if (ax_warp() == 2) {\nax_tmem_alloc(shared + %uu, %u);\n"
                "ax_tmem_permit();\n}\nax_sync();\n"
                "const unsigned tensor = *(const unsigned *)(memory + %uu);\n",
                r->repeat_offset, columns, r->repeat_offset);
}

void attention_put_tcgen05_kernel(Buffer *out, const AttentionKernelSpec *t,
                                  AttentionGemms *p) {
  const GemmSchedule *s = t->schedule;
  AttentionSmem r = attention_smem(p, s);
  uint32_t columns = gemm_tmem_allocation(attention_tmem_columns(t->shape, s));
  attention_put_begin(out, t);
  put_barriers(out, t, &r);
  put_tmem_begin(out, columns, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (s->warps_m > 1)
    buffer_printf(out, "ax_registers_less<%u>();\n",
                  ATTENTION_TENSOR_PRODUCER_REGISTERS);
  put_producer(out, t, p, &r);
  put_products(out, t, p, &r);
  buffer_puts(out, "} else {\n");
  if (s->warps_m > 1)
    buffer_printf(out, "ax_registers_more<%u>();\n",
                  gemm_consumer_registers(s->warps_m,
                                          ATTENTION_TENSOR_PRODUCER_REGISTERS));
  put_consumer(out, t, p, &r);
  buffer_printf(out,
                "}\nax_sync_warp();\nax_sync();\n"
                "if (ax_warp() == 2) {\nax_tcgen05_fence_after();\n"
                "ax_tmem_free(tensor, %u);\n}\n",
                columns);
}
