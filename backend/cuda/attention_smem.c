/* Shared memory layout of an attention kernel. */
#include "backend/cuda/attention_emit.h"
#include "support/buffer.h"

enum { ROW_STATE_BYTES = 8 }; /* maximum and sum */

static uint32_t round_up_aligned(int64_t bytes) {
  return (uint32_t)((bytes + SMEM_ALIGN_BYTES - 1) / SMEM_ALIGN_BYTES *
                    SMEM_ALIGN_BYTES);
}

AttentionSmem attention_smem(const AttentionGemms *p, const GemmSchedule *s) {
  SmemTile a =
      gemm_operand_tile(&p->first.q_shape, &p->first.q_schedule, false);
  SmemTile b =
      gemm_operand_tile(&p->first.kv_shape, &p->first.kv_schedule, false);
  SmemTile v =
      gemm_operand_tile(&p->first.kv_shape, &p->first.kv_schedule, true);
  AttentionSmem r;
  r.v_offset = round_up_aligned(smem_tile_bytes(&b));
  r.stage_bytes = r.v_offset + round_up_aligned(smem_tile_bytes(&v));
  r.query_offset = s->stages * r.stage_bytes;
  r.epilogue_offset = r.query_offset + round_up_aligned(smem_tile_bytes(&a));
  r.warp_epilogue_bytes =
      gemm_warp_epilogue_bytes(&p->first.kv_shape, &p->first.kv_schedule);
  bool tcgen05 = s->mma_kind == MMA_KIND_TCGEN05;
  uint32_t warps = s->m / (tcgen05 ? 2 * STORE_BOX_ROWS : STORE_BOX_ROWS);
  r.state_offset = r.epilogue_offset + warps * r.warp_epilogue_bytes;
  r.barriers_offset = r.state_offset;
  r.state_pitch = ROW_STATE_BYTES;
  if (s->persistent && s->store != STORE_TMA) {
    r.barriers_offset += s->m * ROW_STATE_BYTES;
  } else {
    r.state_offset = r.query_offset;
    r.state_pitch = a.panel_bytes;
  }
  uint32_t barriers =
      1 + s->persistent + 4 * s->stages + (tcgen05 ? 3 * s->warps_m : 0);
  r.repeat_offset = r.barriers_offset + 8 * barriers;
  r.total_bytes = r.repeat_offset + 8;
  return r;
}

void attention_put_barrier_addresses(Buffer *out, const AttentionKernelSpec *t,
                                     const AttentionSmem *r) {
  uint32_t bytes = 8 * t->schedule->stages;
  buffer_printf(out,
                "const unsigned full_a = shared + %uu, full_b = full_a + 8;\n"
                "const unsigned full_v = full_b + %uu, empty_b = full_v + "
                "%uu, empty_v = empty_b + %uu;\n",
                r->barriers_offset, bytes, bytes, bytes);
}
