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
void attention_gemms(const AttentionKernelSpec *t, AttentionGemms *p) {
  memset(p, 0, sizeof *p);
  attention_gemm_schedules(t->shape, t->schedule, p);
  p->q_spec = (GemmKernelSpec){.shape = &p->q_shape,
                               .schedule = &p->q_schedule,
                               .name = p->name_q,
                               .batch = t->batch,
                               .m = t->m,
                               .k = t->k,
                               .a = t->query,
                               .owner = t->owner};
  p->kv_spec = (GemmKernelSpec){.shape = &p->kv_shape,
                                .schedule = &p->kv_schedule,
                                .name = t->name,
                                .batch = t->kv_batch,
                                .m = t->kv_k,
                                .n = t->e,
                                .k = t->n,
                                .a = t->key,
                                .b = t->value,
                                .owner = t->owner};
  p->epilogue_spec = p->kv_spec;
  p->epilogue_spec.batch = t->batch;
  p->epilogue_spec.m = t->m;
  p->epilogue_spec.put_epilogue = t->put_epilogue;
  p->epilogue_spec.output_count = t->output_count;
  memcpy(p->epilogue_spec.outputs, t->outputs, sizeof t->outputs);
  snprintf(p->name_q, sizeof p->name_q, "%.40s_q", t->name);
  p->q_copy = gemm_tiled_copy(&p->q_spec, false);
  p->k_copy = gemm_tiled_copy(&p->kv_spec, false);
  p->v_copy = gemm_tiled_copy(&p->kv_spec, true);
}

/* ---- mma ---- */

typedef struct MmaStepContext {
  const AttentionKernelSpec *t;
  AttentionGemms *p;
} MmaStepContext;

static void put_query_fragment(Buffer *out, const AttentionGemms *p,
                               const char *array, const char *term) {
  gemm_put_fragment_load(out, &p->q_copy,
                         &(FragmentLoad){.name = array,
                                         .smem_tile = "q_at",
                                         .first_row = "warp * 16u",
                                         .first_k = term,
                                         .count = 1});
}

static bool query_in_registers(const AttentionKernelSpec *t) {
  return t->shape->head_dim <= ATTENTION_MAX_REGISTER_HEAD_DIM;
}

static void put_qk_mma(Buffer *out, const MmaStepContext *context) {
  const AttentionKernelSpec *t = context->t;
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "float s[%u];\n#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "s[i] = 0;\n#pragma unroll\nfor (int kk = 0; kk < %u; kk++) {\n"
                "unsigned b_of[%u][4];\n",
                s->n / 2, s->n / 2, context->p->q_schedule.k / 16, s->n / 16);
  if (!query_in_registers(t)) {
    buffer_puts(out, "unsigned q[1][4];\n");
    put_query_fragment(out, context->p, "q", "kk * 16u");
  }
  gemm_put_fragment_load(out, &context->p->k_copy,
                         &(FragmentLoad){.name = "b_of",
                                         .smem_tile = "b_at",
                                         .first_row = "0u",
                                         .first_k = "kk * 16u",
                                         .count = s->n / 16,
                                         .b = true});
  buffer_printf(out, "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n",
                s->n / 8);
  gemm_put_mma(out, t->shape->query.dtype, s, "s + y * 4",
               query_in_registers(t) ? "q[kk]" : "q[0]",
               "b_of[y / 2] + y % 2 * 2");
  buffer_puts(out, "}\n}\n");
}

static void put_pv_mma(Buffer *out, const MmaStepContext *context) {
  const AttentionKernelSpec *t = context->t;
  const GemmSchedule *s = t->schedule;
  uint32_t e = context->p->kv_schedule.n;
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

static void put_kv_step(Buffer *out, const void *owner, const GemmTiledCopy *a,
                        const GemmTiledCopy *b) {
  const MmaStepContext *context = owner;
  buffer_printf(out,
                "const unsigned b_at = shared + read * %uu;\n"
                "const unsigned v_at = b_at + %uu;\n",
                a->stage_bytes + b->stage_bytes, a->stage_bytes);
  if (query_in_registers(context->t)) {
    buffer_printf(out,
                  "if (step == 0) {\n#pragma unroll\n"
                  "for (int kk = 0; kk < %u; kk++) {\n",
                  context->p->q_schedule.k / 16);
    put_query_fragment(out, context->p, "(q + kk)", "kk * 16u");
    buffer_puts(out, "}\n}\n");
  }
  put_qk_mma(out, context);
  attention_put_scores(out, context->t, "row0 + (int)warp * 16",
                       "from + step * stage_terms");
  attention_put_online_softmax(out, context->t);
  put_pv_mma(out, context);
}

/* Emits the loop over n from `from` to `to`. */
static void put_kv_loop(Buffer *out, const AttentionKernelSpec *t,
                        AttentionGemms *p) {
  const MmaStepContext context = {t, p};
  attention_put_init(out, t, p);
  buffer_puts(out, "{\nconst unsigned m0 = 0, n0 = 0;\n");
  gemm_put_extent(out, &t->kv_k, "m_all");
  gemm_put_extent(out, &t->e, "n_all");
  gemm_put_unravel(out, &t->kv_batch, "(int64_t)batch");
  gemm_put_offset(out, &t->kv_batch, "a_batch", false);
  gemm_put_offset(out, &t->kv_batch, "b_batch", true);
  buffer_puts(out, "(void)a_batch, (void)b_batch;\n");
  gemm_put_copy_setup(out, &p->k_copy);
  gemm_put_copy_setup(out, &p->v_copy);
  if (query_in_registers(t))
    buffer_printf(out, "unsigned q[%u][4];\n", p->q_schedule.k / 16);
  gemm_put_mainloop(out, &p->kv_spec, &p->k_copy, &p->v_copy, put_kv_step,
                    &context);
  buffer_puts(out, "}\n");
  attention_put_row_sums(out, t, p);
}

static void put_mma_kernel(Buffer *before, Buffer *out,
                           const AttentionKernelSpec *t, AttentionGemms *p) {
  const GemmSchedule *s = t->schedule;
  uint32_t stages = s->stages * (p->k_copy.stage_bytes + p->v_copy.stage_bytes);
  uint32_t pitch = gemm_epilogue_tile_pitch(&p->kv_schedule);
  gemm_put_smem_offset(before, &p->q_copy);
  gemm_put_smem_offset(before, &p->k_copy);
  gemm_put_smem_offset(before, &p->v_copy);
  gemm_put_preamble(out);
  attention_put_block_bounds(out, t);
  buffer_printf(
      out,
      "const unsigned warp = thread / 32u;\n"
      "const unsigned q_at = shared + %uu;\n{\n"
      "const unsigned m0 = (unsigned)row0;\nconst int m_all = rows;\n",
      stages);
  gemm_put_extent(out, &t->k, "to");
  gemm_put_offset(out, &t->batch, "a_batch", false);
  buffer_puts(out, "(void)a_batch;\n");
  gemm_put_copy_setup(out, &p->q_copy);
  gemm_put_copy(out, &p->q_copy, "q_at", "0");
  if (p->q_copy.via_registers) {
    buffer_printf(out, "const unsigned into = %uu;\n", stages);
    gemm_put_registers_to_shared(out, &p->q_copy, "into");
  } else if (p->k_copy.via_registers &&
             /* otherwise it is part of the first stage's copies */
             p->v_copy.via_registers) {
    buffer_puts(out, "ax_copy_commit();\nax_copy_wait<0>();\n");
  }
  buffer_puts(out, "}\n");
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
  attention_put_row_state(out, t, s->m * pitch, "warp");
  buffer_puts(out, "const unsigned m0 = (unsigned)row0, n0 = 0;\n"
                   "const int m_all = rows;\n");
  gemm_put_extent(out, &t->e, "n_all");
  p->epilogue_spec.row_prologue = attention_row_prologue(t);
  gemm_put_epilogue_via_shared(out, &p->epilogue_spec, "sums", "warp * 16u",
                               "0u");
}

void attention_put_kernel(Buffer *before, Buffer *body,
                          const AttentionKernelSpec *t) {
  AttentionGemms p;
  attention_gemms(t, &p);
  if (t->schedule->mma_kind == MMA_KIND_WGMMA)
    attention_put_wgmma_kernel(body, t, &p);
  else
    put_mma_kernel(before, body, t, &p);
}
