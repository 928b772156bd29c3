/* backend/cuda, for the files that write attention.  Names in the text, beside
 * those of contractions: rows and terms, how many there are; row0, the block's
 * first; s, scores, and then weights, as mma's result; c, the sums; most and
 * total, of a thread's two rows. */
#ifndef AXON_CUDA_ATTENTION_EMIT_H
#define AXON_CUDA_ATTENTION_EMIT_H

#include "backend/cuda/attention.h"
#include "backend/cuda/gemm_emit.h"

typedef struct AttentionGemms {
  char name_q[48];
  GemmSchedule q_schedule, kv_schedule;
  GemmShape q_shape, kv_shape;
  GemmKernelSpec q_spec, kv_spec, epilogue_spec;
  GemmTiledCopy q_copy, k_copy, v_copy;
} AttentionGemms;

/* The schedules of a's part, and of b's and v's. */
void attention_gemm_schedules(const AttentionShape *shape,
                              const GemmSchedule *s, AttentionGemms *p);
void attention_gemms(const AttentionKernelSpec *t, AttentionGemms *p);
/* ---- attention_softmax.c ---- */
void attention_put_block_bounds(Buffer *out, const AttentionKernelSpec *t);
/* With words of their own for tiles that are inside. */
void attention_put_scores(Buffer *out, const AttentionKernelSpec *t,
                          const char *row, const char *term);
void attention_put_online_softmax(Buffer *out, const AttentionKernelSpec *t);
void attention_put_pack_weights(Buffer *out, const AttentionKernelSpec *t,
                                const char *at);
void attention_put_accumulators(Buffer *out, const AttentionKernelSpec *t,
                                const AttentionGemms *p);
void attention_put_init(Buffer *out, const AttentionKernelSpec *t,
                        const AttentionGemms *p);
void attention_put_row_sums(Buffer *out, const AttentionKernelSpec *t,
                            const AttentionGemms *p);
void attention_put_trim_check(Buffer *out, const AttentionKernelSpec *t);
void attention_put_row_state(Buffer *out, const AttentionKernelSpec *t,
                             uint32_t floats, const char *warp);
/* ---- attention_wgmma.c ---- */
void attention_put_wgmma_kernel(Buffer *out, const AttentionKernelSpec *t,
                                AttentionGemms *p);
/* Where things begin in shared memory, behind what TMA fills. */
typedef struct AttentionSmem {
  uint32_t query_offset, stage_bytes, v_offset, epilogue_offset,
      row_state_floats, barriers_offset, total_bytes;
} AttentionSmem;
/* attention_smem.c */
AttentionSmem attention_smem(const AttentionGemms *p, const GemmSchedule *s);
const char *attention_row_prologue(const AttentionKernelSpec *t);

#endif
