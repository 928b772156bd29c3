/* Attention kernels with mma.  A block has s->m rows, a warp 16 of them.  A
 * warp holds scores, accumulators, maximum and sum of its rows in registers. */
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_emit.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"

#include <string.h>

/* ---- operands as matmul operands ---- */

/* The query is the left operand of one matmul.  Key and value are the operands
 * of a second one whose k axis is n: rows of their tiles are along n. */
static void product_gemms(const AttentionKernelSpec *t,
                          const ScoreProductSpec *from, const char *suffix,
                          ProductGemms *p) {
  snprintf(p->name, sizeof p->name, "%.40s_%s", t->name, suffix);
  p->q_spec = (GemmKernelSpec){.shape = &p->q_shape,
                               .schedule = &p->q_schedule,
                               .name = p->name,
                               .batch = from->batch,
                               .m = from->m,
                               .k = from->k,
                               .a = from->query,
                               .owner = t->owner};
  p->kv_spec = (GemmKernelSpec){.shape = &p->kv_shape,
                                .schedule = &p->kv_schedule,
                                .name = t->name,
                                .batch = from->kv_batch,
                                .m = from->kv_k,
                                .n = t->e,
                                .k = from->n,
                                .a = from->key,
                                .b = t->value,
                                .owner = t->owner};
  p->q_copy = gemm_tiled_copy(&p->q_spec, false);
  p->k_copy = gemm_tiled_copy(&p->kv_spec, false);
}

void attention_gemms(const AttentionKernelSpec *t, AttentionGemms *p) {
  memset(p, 0, sizeof *p);
  attention_gemm_schedules(t->shape, t->schedule, p);
  product_gemms(t, &t->first, "q", &p->first);
  p->v_copy = gemm_tiled_copy(&p->first.kv_spec, true);
  p->epilogue_spec = p->first.kv_spec;
  p->epilogue_spec.batch = t->first.batch;
  p->epilogue_spec.m = t->first.m;
  p->epilogue_spec.put_epilogue = t->put_epilogue;
  p->epilogue_spec.output_count = t->output_count;
  p->epilogue_spec.out_of_bounds_safe = t->epilogue_out_of_bounds_safe;
  p->epilogue_schedule = p->first.kv_schedule;
  p->epilogue_schedule.m = t->schedule->m;
  p->epilogue_spec.schedule = &p->epilogue_schedule;
  memcpy(p->epilogue_spec.outputs, t->outputs, sizeof t->outputs);
  if (!t->shape->head_dim2)
    return;
  product_gemms(t, &t->second, "q2", &p->second);
  p->second.k_copy.letter = 'c';
  p->second.k_copy.axis_letter = 'h';
}

/* ---- mma ---- */

typedef struct MmaStepContext {
  const AttentionKernelSpec *t;
  AttentionGemms *p;
} MmaStepContext;

/* The names of a product's variables. */
typedef struct ProductNames {
  const char *scores, *query, *query_tile, *key_tile;
} ProductNames;

static const ProductNames first_names = {"s", "q", "q_at", "b_at"},
                          second_names = {"second_s", "q2", "q2_at", "c_at"};

static void put_query_fragment(Buffer *out, const ProductGemms *p,
                               const ProductNames *names, const char *array,
                               const char *term) {
  gemm_put_fragment_load(out, &p->q_copy,
                         &(FragmentLoad){.name = array,
                                         .smem_tile = names->query_tile,
                                         .first_row = "warp * 16u",
                                         .first_k = term,
                                         .count = 1});
}

static bool query_in_registers(const AttentionKernelSpec *t) {
  return attention_query_in_registers(t->shape);
}

static void put_qk_mma(Buffer *out, const MmaStepContext *context,
                       const ProductGemms *p, const ProductNames *names) {
  const AttentionKernelSpec *t = context->t;
  const GemmSchedule *s = t->schedule;
  char scores[32], query[32];
  snprintf(scores, sizeof scores, "%s + y * 4", names->scores);
  buffer_printf(out,
                "float %s[%u];\n#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "%s[i] = 0;\n#pragma unroll\nfor (int kk = 0; kk < %u; kk++) "
                "{\nunsigned b_of[%u][4];\n",
                names->scores, s->n / 2, s->n / 2, names->scores,
                p->q_schedule.k / 16, s->n / 16);
  if (!query_in_registers(t)) {
    buffer_printf(out, "unsigned %s[1][4];\n", names->query);
    put_query_fragment(out, p, names, names->query, "kk * 16u");
  }
  gemm_put_fragment_load(out, &p->k_copy,
                         &(FragmentLoad){.name = "b_of",
                                         .smem_tile = names->key_tile,
                                         .first_row = "0u",
                                         .first_k = "kk * 16u",
                                         .count = s->n / 16,
                                         .b = true});
  buffer_printf(out, "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n",
                s->n / 8);
  snprintf(query, sizeof query, "%s[%s]", names->query,
           query_in_registers(t) ? "kk" : "0");
  gemm_put_mma(out, t->shape->query.dtype, s, scores, query,
               "b_of[y / 2] + y % 2 * 2");
  buffer_puts(out, "}\n}\n");
}

static void put_pv_mma(Buffer *out, const MmaStepContext *context) {
  const AttentionKernelSpec *t = context->t;
  const GemmSchedule *s = t->schedule;
  uint32_t e = context->p->first.kv_schedule.n;
  if (t->shape->subtract_max)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums[i] *= shrink[i / 2 %% 2];\n",
                  e / 2);
  buffer_printf(out,
                "#pragma unroll\nfor (int kk = 0; kk < %u; kk++) {\n"
                "unsigned p[4], v_of[%u][4];\n",
                s->n / 16, e / 16);
  attention_put_pack_weights(out, t, "kk * 8");
  gemm_put_fragment_load(out, &context->p->v_copy,
                         &(FragmentLoad){.name = "v_of",
                                         .smem_tile = "v_at",
                                         .first_row = "0u",
                                         .first_k = "kk * 16u",
                                         .count = e / 16,
                                         .b = true,
                                         .transposed = true});
  buffer_printf(out, "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n", e / 8);
  gemm_put_mma(out, t->shape->value.dtype, s, "sums + y * 4", "p",
               "v_of[y / 2] + y % 2 * 2");
  buffer_puts(out, "}\n}\n");
}

static void put_kv_step(Buffer *out, const void *owner,
                        const StageCopies *stage) {
  const MmaStepContext *context = owner;
  const AttentionKernelSpec *t = context->t;
  uint32_t v_offset = stage->copies[0]->stage_bytes;
  buffer_printf(out,
                "const unsigned b_at = shared + read * %uu;\n"
                "const unsigned v_at = b_at + %uu;\n",
                gemm_stage_bytes(stage), v_offset);
  if (query_in_registers(t)) {
    buffer_printf(out,
                  "if (step == 0) {\n#pragma unroll\n"
                  "for (int kk = 0; kk < %u; kk++) {\n",
                  context->p->first.q_schedule.k / 16);
    put_query_fragment(out, &context->p->first, &first_names, "(q + kk)",
                       "kk * 16u");
    buffer_puts(out, "}\n}\n");
  }
  put_qk_mma(out, context, &context->p->first, &first_names);
  if (t->shape->head_dim2) {
    buffer_printf(out, "const unsigned c_at = v_at + %uu;\n",
                  stage->copies[1]->stage_bytes);
    put_qk_mma(out, context, &context->p->second, &second_names);
  }
  attention_put_scores(out, t, "row0 + (int)warp * 16",
                       "from + step * stage_terms");
  attention_put_online_softmax(out, t);
  put_pv_mma(out, context);
}

/* Emits the loop over n from `from` to `to`. */
static void put_kv_loop(Buffer *out, const AttentionKernelSpec *t,
                        AttentionGemms *p) {
  const MmaStepContext context = {t, p};
  StageCopies stage = {2, {&p->first.k_copy, &p->v_copy}};
  attention_put_init(out, t, p);
  buffer_puts(out, "{\nconst unsigned m0 = 0, n0 = 0;\n");
  gemm_put_extent(out, &t->first.kv_k, "m_all");
  gemm_put_extent(out, &t->e, "n_all");
  gemm_put_unravel(out, &t->first.kv_batch, "(int64_t)batch");
  gemm_put_offset(out, &t->first.kv_batch, "a_batch", false);
  gemm_put_offset(out, &t->first.kv_batch, "b_batch", true);
  buffer_puts(out, "(void)a_batch, (void)b_batch;\n");
  gemm_put_copy_setup(out, &p->first.k_copy);
  gemm_put_copy_setup(out, &p->v_copy);
  if (t->shape->head_dim2) {
    stage.copies[stage.count++] = &p->second.k_copy;
    buffer_puts(out, "const unsigned h0 = 0;\n");
    gemm_put_extent(out, &t->second.kv_k, "h_all");
    gemm_put_offset(out, &t->second.kv_batch, "c_batch", false);
    buffer_puts(out, "(void)c_batch;\n");
    gemm_put_copy_setup(out, &p->second.k_copy);
  }
  if (query_in_registers(t))
    buffer_printf(out, "unsigned q[%u][4];\n", p->first.q_schedule.k / 16);
  gemm_put_mainloop(out, t->schedule, p->first.kv_schedule.k, &stage,
                    put_kv_step, &context);
  buffer_puts(out, "}\n");
  attention_put_row_sums(out, t, p);
}

/* Emits the copy of a query tile to shared memory, at `offset` bytes. */
static void put_query_copy(Buffer *out, const ScoreProductSpec *t,
                           const ProductGemms *p, const char *to,
                           uint32_t offset) {
  buffer_printf(out, "{\nconst unsigned m0 = (unsigned)row0;\n"
                     "const int m_all = rows;\n");
  gemm_put_extent(out, &t->k, "to");
  gemm_put_offset(out, &t->batch, "a_batch", false);
  buffer_puts(out, "(void)a_batch;\n");
  gemm_put_copy_setup(out, &p->q_copy);
  gemm_put_copy(out, &p->q_copy, to, "0");
  if (p->q_copy.via_registers) {
    buffer_printf(out, "const unsigned into = %uu;\n", offset);
    gemm_put_registers_to_shared(out, &p->q_copy, "into");
  }
  buffer_puts(out, "}\n");
}

/* True if no key or value is copied by cp.async.  Otherwise the copies of the
 * queries are part of the first stage's copies. */
static bool queries_wait_alone(const AttentionKernelSpec *t,
                               const AttentionGemms *p) {
  bool alone = p->first.k_copy.via_registers && p->v_copy.via_registers;
  bool copies = !p->first.q_copy.via_registers;
  if (t->shape->head_dim2) {
    alone &= p->second.k_copy.via_registers;
    copies |= !p->second.q_copy.via_registers;
  }
  return alone && copies;
}

static void put_queries(Buffer *out, const AttentionKernelSpec *t,
                        const AttentionGemms *p, uint32_t offset) {
  uint32_t second = offset + p->first.q_copy.stage_bytes;
  buffer_printf(out, "const unsigned q_at = shared + %uu;\n", offset);
  put_query_copy(out, &t->first, &p->first, "q_at", offset);
  if (t->shape->head_dim2) {
    buffer_printf(out, "const unsigned q2_at = shared + %uu;\n", second);
    put_query_copy(out, &t->second, &p->second, "q2_at", second);
  }
  if (queries_wait_alone(t, p))
    buffer_puts(out, "ax_copy_commit();\nax_copy_wait<0>();\n");
}

static void put_smem_offsets(Buffer *out, const AttentionKernelSpec *t,
                             const AttentionGemms *p) {
  gemm_put_smem_offset(out, &p->first.q_copy);
  gemm_put_smem_offset(out, &p->first.k_copy);
  gemm_put_smem_offset(out, &p->v_copy);
  if (!t->shape->head_dim2)
    return;
  gemm_put_smem_offset(out, &p->second.q_copy);
  gemm_put_smem_offset(out, &p->second.k_copy);
}

static void put_mma_kernel(Buffer *before, Buffer *out,
                           const AttentionKernelSpec *t, AttentionGemms *p) {
  const GemmSchedule *s = t->schedule;
  uint32_t stages =
      s->stages * (p->first.k_copy.stage_bytes + p->v_copy.stage_bytes +
                   p->second.k_copy.stage_bytes);
  uint32_t pitch = gemm_epilogue_tile_pitch(&p->first.kv_schedule);
  Buffer row_prologue = {0};
  put_smem_offsets(before, t, p);
  gemm_put_preamble(out);
  attention_put_sizes(out, t);
  attention_put_block_tile(out, t);
  attention_put_tile_bounds(out, t, true);
  buffer_puts(out, "const unsigned warp = thread / 32u;\n");
  put_queries(out, t, p, stages);
  attention_put_accumulators(out, t, p);
  if (t->put_trim_check)
    buffer_puts(out, "for (bool again = false;; again = true) {\n");
  put_kv_loop(out, t, p);
  if (t->put_trim_check) {
    attention_put_trim_check(out, t);
    buffer_puts(out, "if (!ax_sync_or(wrong) || again)\nbreak;\n"
                     "from = 0;\nto = terms;\n}\n");
  }
  buffer_printf(out,
                "float *const slabs = (float *)memory, *const slab = slabs "
                "+ warp * %uu;\n",
                16 * pitch);
  char at[60];
  snprintf(at, sizeof at, "(float2 *)((float *)slabs + %uu) + warp * 16u",
           s->m * pitch);
  attention_put_row_state(out, t, at);
  buffer_puts(out, "const unsigned m0 = (unsigned)row0, n0 = 0;\n"
                   "const int m_all = rows;\n");
  gemm_put_extent(out, &t->e, "n_all");
  attention_put_row_prologue(&row_prologue, t);
  p->epilogue_spec.row_prologue = row_prologue.text;
  gemm_put_epilogue_via_shared(out, &p->epilogue_spec, "sums", "warp * 16u",
                               "0u");
  buffer_free(&row_prologue);
}

void attention_put_kernel(Buffer *before, Buffer *body,
                          const AttentionKernelSpec *t) {
  AttentionGemms p;
  attention_gemms(t, &p);
  if (t->schedule->mma_kind == MMA_KIND_WGMMA)
    attention_put_wgmma_kernel(body, t, &p);
  else if (t->schedule->mma_kind == MMA_KIND_TCGEN05)
    attention_put_tcgen05_kernel(body, t, &p);
  else
    put_mma_kernel(before, body, t, &p);
}
