/* Attention kernels with wgmma (sm_90a).  The producer warpgroup loads the
 * query tile once, and key and value tiles stage by stage, by TMA.  Each
 * consumer warpgroup has 64 rows.  attention_persistent.c gives a block of a
 * persistent kernel its tiles.
 *
 * A consumer issues the first matmul of the next tile together with the second
 * matmul of the current tile.  While one warpgroup runs softmax, the tensor
 * cores work on its matmuls in flight and on those of the other warpgroup
 * (FlashAttention-3, arXiv:2407.08608). */
#include "backend/cuda/attention_emit.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"

/* True if a block processes several ranges of n. */
static bool has_turns(const AttentionKernelSpec *t) {
  return t->counters || t->schedule->persistent;
}

/* The stages before this range, in an index of stages. */
static const char *earlier_steps(const AttentionKernelSpec *t) {
  return has_turns(t) ? "done + " : "";
}

/* ---- producer ---- */

static void put_producer_load(Buffer *out, const AttentionKernelSpec *t,
                              AttentionGemms *p, const AttentionSmem *r,
                              bool v) {
  const GemmTiledCopy *s = v ? &p->v_copy : &p->first.k_copy;
  char at[60];
  snprintf(at, sizeof at, "shared + stage * %uu + %uu", r->stage_bytes,
           v ? r->v_offset : 0);
  buffer_printf(out,
                "ax_mbarrier_wait(empty_%c + 8 * stage, parity ^ 1);\n"
                "ax_mbarrier_expect(full_%c + 8 * stage, %u);\n",
                v ? 'v' : 'b', v ? 'v' : 'b',
                (uint32_t)smem_tile_bytes(&s->tile));
  gemm_put_tma_load(
      out, &(TmaLoad){
               .tile = &s->tile,
               .batch = &t->first.kv_batch,
               .b = v,
               .smem_address = at,
               .tensor_map = v ? t->value.tensor_map : t->first.key.tensor_map,
               .barrier = v ? "full_v + 8 * stage" : "full_b + 8 * stage",
               .contiguous_coord = "0",
               .strided_coord = "from + (int)step * stage_terms"});
}

void attention_put_producer_loads(Buffer *out, const AttentionKernelSpec *t,
                                  AttentionGemms *p, const AttentionSmem *r) {
  char at[40];
  snprintf(at, sizeof at, "shared + %uu", r->query_offset);
  if (t->schedule->persistent)
    buffer_puts(out, "if (steps > 0) {\n"
                     "ax_mbarrier_wait(empty_a, (queries & 1) ^ 1);\n");
  buffer_printf(out, "ax_mbarrier_expect(full_a, %u);\n",
                (uint32_t)smem_tile_bytes(&p->first.q_copy.tile));
  gemm_put_tma_load(out, &(TmaLoad){.tile = &p->first.q_copy.tile,
                                    .batch = &t->first.batch,
                                    .smem_address = at,
                                    .tensor_map = t->first.query.tensor_map,
                                    .barrier = "full_a",
                                    .contiguous_coord = "0",
                                    .strided_coord = "row0"});
  if (t->schedule->persistent)
    buffer_puts(out, "}\n");
  gemm_put_unravel(out, &t->first.kv_batch, "(int64_t)batch");
  buffer_printf(
      out,
      "for (unsigned step = 0; step < steps; step++) {\n"
      "const unsigned stage = (%sstep) %% %uu, parity = (%sstep) / %uu & 1;\n",
      earlier_steps(t), t->schedule->stages, earlier_steps(t),
      t->schedule->stages);
  put_producer_load(out, t, p, r, false);
  put_producer_load(out, t, p, r, true);
  buffer_puts(out, "}\n");
}

/* Prepares the next attempt, or leaves the loop of attempts. */
static void put_next_attempt(Buffer *out, const AttentionKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "if (attempt == (again ? bands : 0))\nbreak;\n"
                "row0 = (int)attempt * %u;\nfrom = 0;\nto = terms;\n"
                "whole_high = 0;\ndone += steps;\n"
                "steps = (unsigned)(terms + %u) / %uu;\n",
                s->m, s->n - 1, s->n);
}

/* Sets `again` in the last block of the batch that has its sums, if any sum is
 * not finite.  This block waits until the others have stored their results,
 * which it replaces. */
static void put_producer_attempt(Buffer *out, const AttentionKernelSpec *t) {
  buffer_printf(out,
                "ax_sync_warp();\nif (attempt == 0) {\n"
                "ax_barrier_sync(%u, %u);\n"
                "if (lane == 0) {\n__threadfence();\n"
                "const bool last = atomicAdd(counts, 1u) == bands - 1;\n"
                "__threadfence();\n"
                "*repeat = last && atomicAdd(counts + 1, 0u) > 0;\n"
                "if (last)\ncounts[0] = counts[1] = 0;\n}\n}\n"
                "ax_barrier_sync(%u, %u);\n"
                "if (attempt == 0) {\nagain = *repeat;\n"
                "if (lane == 0) {\n"
                "while (again && atomicAdd(counts + 2, 0u) != bands - 1)\n"
                "__nanosleep(100);\n"
                "__threadfence();\natomicInc(counts + 2, bands - 1);\n}\n"
                "if (again)\nax_barrier_sync(%u, %u);\n}\n",
                ATTENTION_SUMS_BARRIER, attention_attempt_threads(t),
                ATTENTION_ATTEMPT_BARRIER, attention_attempt_threads(t),
                ATTENTION_NEXT_BARRIER, attention_attempt_threads(t));
  put_next_attempt(out, t);
}

/* Counters are read and written by a warp. */
static void put_persistent_producer(Buffer *out, const AttentionKernelSpec *t,
                                    AttentionGemms *p, const AttentionSmem *r) {
  buffer_puts(out, t->counters ? "if (ax_warp() == 0) {\n"
                               : "if (ax_warp() == 0 && ax_elect()) {\n");
  attention_put_tile_loop(out, t, true);
  buffer_puts(out, t->counters ? "if (ax_elect()) {\n" : "{\n");
  attention_put_producer_loads(out, t, p, r);
  buffer_printf(out, "}\n%s", t->counters ? "ax_sync_warp();\n" : "");
  attention_put_tile_end(out);
  buffer_puts(out, "}\n");
}

static void put_producer(Buffer *out, const AttentionKernelSpec *t,
                         AttentionGemms *p, const AttentionSmem *r) {
  if (t->schedule->persistent) {
    put_persistent_producer(out, t, p, r);
    return;
  }
  if (t->counters)
    buffer_printf(out,
                  "if (ax_warp() == 0) {\n"
                  "unsigned *const counts = %s + batch * %uu;\n"
                  "for (unsigned attempt = 0;; attempt++) {\n"
                  "if (ax_elect()) {\n",
                  t->counters, ATTENTION_COUNTERS);
  else
    buffer_puts(out, "if (ax_warp() == 0 && ax_elect()) {\n");
  attention_put_producer_loads(out, t, p, r);
  buffer_puts(out, "}\n");
  if (!t->counters)
    return;
  put_producer_attempt(out, t);
  buffer_puts(out, "}\n}\n");
}

/* ---- consumers ---- */

static void put_qk_wgmma(Buffer *out, const AttentionKernelSpec *t,
                         AttentionGemms *p, const AttentionSmem *r,
                         const char *step) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "{\nconst unsigned stage = (%s%s) %% %uu;\n"
                "ax_mbarrier_wait(full_b + 8 * stage, (%s%s) / %uu & 1);\n"
                "const uint64_t b_stage = b_first + (stage * %uu >> 4);\n"
                "ax_wgmma_fence();\n",
                earlier_steps(t), step, s->stages, earlier_steps(t), step,
                s->stages, r->stage_bytes);
  for (uint32_t k = 0; k < p->first.q_schedule.k; k += 16)
    buffer_printf(out,
                  "ax_wgmma_m64n%uk16_%s<0, 0>(s, a_first + %u, b_stage + %u, "
                  "%s);\n",
                  s->n, dtype_info[t->shape->query.dtype].name,
                  gemm_unswizzled_offset(&p->first.q_copy.tile, 0, k) >> 4,
                  gemm_unswizzled_offset(&p->first.k_copy.tile, 0, k) >> 4,
                  k ? "true" : "false");
  buffer_puts(out, "ax_wgmma_commit();\n}\n");
}

static void put_pv_wgmma(Buffer *out, const AttentionKernelSpec *t,
                         AttentionGemms *p, const AttentionSmem *r,
                         const char *step) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "{\nconst unsigned stage = (%s%s) %% %uu;\n"
                "ax_mbarrier_wait(full_v + 8 * stage, (%s%s) / %uu & 1);\n"
                "const uint64_t v_stage = v_first + (stage * %uu >> 4);\n"
                "ax_wgmma_fence();\n",
                earlier_steps(t), step, s->stages, earlier_steps(t), step,
                s->stages, r->stage_bytes);
  for (uint32_t k = 0; k < s->n; k += 16)
    buffer_printf(out,
                  "ax_wgmma_m64n%uk16_%s_ra<1>(sums, p + %u, v_stage + %u, "
                  "true);\n",
                  p->first.kv_schedule.n,
                  dtype_info[t->shape->value.dtype].name, k / 4,
                  gemm_unswizzled_offset(&p->v_copy.tile, k, 0) >> 4);
  buffer_puts(out, "ax_wgmma_commit();\n}\n");
}

static void put_consumer_release(Buffer *out, const AttentionKernelSpec *t,
                                 char c, const char *step) {
  buffer_printf(out,
                "if (member == 0)\nax_mbarrier_arrive(empty_%c + 8 * ((%s%s) "
                "%% %uu));\n",
                c, earlier_steps(t), step, t->schedule->stages);
}

static const char row_expr[] = "row0 + (int)row";
static const char column_expr[] = "from + (int)step * stage_terms";

static bool has_order(const AttentionKernelSpec *t) {
  return t->schedule->warps_m > 1 &&
         t->schedule->warps_m <= ATTENTION_MAX_ORDERED_GROUPS;
}

/* Ping-pong scheduling: a warpgroup that has issued its matmuls lets the next
 * one issue.  Barrier 1 + g is that of warpgroup g and of the one before it.
 * In a persistent kernel the order continues in the next tile. */
static void put_ping_pong(Buffer *out, const AttentionKernelSpec *t,
                          bool begin) {
  uint32_t groups = t->schedule->warps_m;
  if (!has_order(t))
    return;
  if (begin) {
    buffer_puts(out, "ax_barrier_sync(1 + group, 256);\n");
    return;
  }
  if (!t->schedule->persistent)
    buffer_printf(out, "if (group < %uu || step + 1 < steps)\n", groups - 1);
  buffer_printf(out, "ax_barrier_arrive(1 + (group + 1) %% %uu, 256);\n",
                groups);
}

/* The first tile, without a second matmul.  It is peeled off the loop, so that
 * both matmuls are in flight at fixed places in the loop body; otherwise ptxas
 * serializes them. */
static void put_first_step(Buffer *out, const AttentionKernelSpec *t,
                           AttentionGemms *p, const AttentionSmem *r) {
  buffer_puts(out, "const unsigned step = 0;\n");
  put_qk_wgmma(out, t, p, r, "step");
  buffer_puts(out, "ax_wgmma_wait<0>();\nax_hold(s);\n");
  put_consumer_release(out, t, 'b', "step");
  attention_put_scores(out, t, row_expr, column_expr);
  attention_put_online_softmax(out, t);
  attention_put_pack_all(out, t);
}

static void put_kv_step(Buffer *out, const AttentionKernelSpec *t,
                        AttentionGemms *p, const AttentionSmem *r) {
  put_ping_pong(out, t, true);
  put_qk_wgmma(out, t, p, r, "step");
  put_pv_wgmma(out, t, p, r, "step - 1");
  put_ping_pong(out, t, false);
  buffer_puts(out, "ax_wgmma_wait<1>();\nax_hold(s);\n");
  put_consumer_release(out, t, 'b', "step");
  attention_put_scores(out, t, row_expr, column_expr);
  attention_put_online_softmax(out, t);
  buffer_puts(out, "ax_wgmma_wait<0>();\nax_hold(sums);\n");
  put_consumer_release(out, t, 'v', "step - 1");
  if (t->shape->subtract_max)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums[i] *= shrink[i / 2 %% 2];\n",
                  p->first.kv_schedule.n / 2);
  attention_put_pack_all(out, t);
}

static void put_kv_loop(Buffer *out, const AttentionKernelSpec *t,
                        AttentionGemms *p, const AttentionSmem *r) {
  const char *release_query = t->schedule->persistent
                                  ? "if (member == 0)\n"
                                    "ax_mbarrier_arrive(empty_a);\n"
                                  : "";
  if (has_order(t) && !t->schedule->persistent)
    buffer_printf(
        out, "if (group == %uu && steps > 1)\nax_barrier_arrive(1, 256);\n",
        t->schedule->warps_m - 1);
  buffer_printf(out, "if (steps > 0) {\n%s{\n",
                t->schedule->persistent
                    ? "ax_mbarrier_wait(full_a, queries & 1);\n"
                    : "");
  put_first_step(out, t, p, r);
  buffer_puts(out, "}\nfor (unsigned step = 1; step < steps; step++) {\n");
  put_kv_step(out, t, p, r);
  buffer_printf(out, "}\n%s", release_query);
  put_pv_wgmma(out, t, p, r, "steps - 1");
  buffer_puts(out, "ax_wgmma_wait<0>();\nax_hold(sums);\n");
  if (has_turns(t))
    put_consumer_release(out, t, 'v', "steps - 1");
  buffer_puts(out, "}\n");
}

/* Counts a sum that is not finite: 0 times it is NaN. */
static void put_count_sums(Buffer *out, const AttentionKernelSpec *t,
                           const AttentionGemms *p) {
  bool persistent = t->schedule->persistent;
  buffer_printf(out,
                "if (%s) {\nfloat zero = 0;\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "zero = fmaf(sums[i], 0.0f, zero);\n"
                "if (ax_any(!(zero == 0.0f)) && lane == 0)\n"
                "atomicAdd(%s + batch * %uu + 1, 1u);\n",
                persistent ? "!again" : "attempt == 0",
                p->first.kv_schedule.n / 2, t->counters, ATTENTION_COUNTERS);
  if (!persistent)
    buffer_printf(out, "ax_barrier_arrive(%u, %u);\n", ATTENTION_SUMS_BARRIER,
                  attention_attempt_threads(t));
  buffer_puts(out, "}\n");
}

/* The next attempt loads by TMA where this one stored. */
static void put_consumer_attempt(Buffer *out, const AttentionKernelSpec *t) {
  attention_put_stores_done(out, t);
  buffer_printf(out,
                "ax_fence_async();\nax_barrier_sync(%u, %u);\n"
                "if (attempt == 0) {\nagain = *repeat;\n"
                "if (again)\nax_barrier_sync(%u, %u);\n}\n",
                ATTENTION_ATTEMPT_BARRIER, attention_attempt_threads(t),
                ATTENTION_NEXT_BARRIER, attention_attempt_threads(t));
  put_next_attempt(out, t);
}

/* The sums are stored from registers, or through shared memory. */
void attention_put_epilogue(Buffer *out, const AttentionKernelSpec *t,
                            AttentionGemms *p, const AttentionSmem *r) {
  Buffer row_prologue = {0};
  char at[80];
  bool engine = t->schedule->store == STORE_TMA;
  buffer_puts(out, "const unsigned m0 = (unsigned)row0, n0 = 0;\n"
                   "const int m_all = rows;\n");
  gemm_put_extent(out, &t->e, "n_all");
  if (engine) {
    attention_put_register_rows(out, t, &row_prologue);
  } else {
    snprintf(at, sizeof at, "(float2 *)(memory + %uu + row * %uu)",
             r->state_offset, r->state_pitch);
    if (t->schedule->persistent) /* the last tile's state is read */
      buffer_puts(out, "ax_sync_warp();\n");
    attention_put_row_state(out, t, at);
    attention_put_row_prologue(&row_prologue, t);
  }
  p->epilogue_spec.row_prologue = row_prologue.text;
  if (engine)
    gemm_put_epilogue_tma(out, &p->epilogue_spec, "sums", "row");
  else
    gemm_put_epilogue_via_shared(out, &p->epilogue_spec, "sums", "row", "0u");
  buffer_free(&row_prologue);
}

/* The rows of a block from the first load to the stores. */
static void put_consumer_rows(Buffer *out, const AttentionKernelSpec *t,
                              AttentionGemms *p, const AttentionSmem *r) {
  attention_put_init(out, t, p);
  if (!t->schedule->persistent)
    buffer_printf(out, "ax_mbarrier_wait(full_a, %s);\n",
                  t->counters ? "attempt & 1" : "0");
  put_kv_loop(out, t, p, r);
  if (t->counters)
    put_count_sums(out, t, p);
  attention_put_row_sums(out, t, p);
  attention_put_epilogue(out, t, p, r);
}

void attention_put_epilogue_memory(Buffer *out, const AttentionKernelSpec *t,
                                   const AttentionSmem *r, const char *warp) {
  buffer_printf(out, "const unsigned out_at = %uu + %s * %uu;\n",
                r->epilogue_offset, warp, r->warp_epilogue_bytes);
  buffer_puts(out, t->schedule->store == STORE_TMA
                       ? "const unsigned sets = out_at;\nunsigned stored = 0;\n"
                       : "float *const slab = (float *)(memory + out_at);\n");
}

/* The first warpgroup waits for the last turn, which nobody uses. */
static void put_consumer_tiles(Buffer *out, const AttentionKernelSpec *t,
                               AttentionGemms *p, const AttentionSmem *r) {
  if (has_order(t))
    buffer_printf(out, "if (group == %uu)\nax_barrier_arrive(1, 256);\n",
                  t->schedule->warps_m - 1);
  attention_put_tile_loop(out, t, false);
  put_consumer_rows(out, t, p, r);
  attention_put_tile_end(out);
  if (has_order(t))
    buffer_puts(out, "if (group == 0)\nax_barrier_sync(1, 256);\n");
}

static void put_consumer_attempts(Buffer *out, const AttentionKernelSpec *t,
                                  AttentionGemms *p, const AttentionSmem *r) {
  if (t->counters)
    buffer_puts(out, "for (unsigned attempt = 0;; attempt++) {\n");
  put_consumer_rows(out, t, p, r);
  if (t->counters) {
    put_consumer_attempt(out, t);
    buffer_puts(out, "}\n");
  }
}

static void put_consumer(Buffer *out, const AttentionKernelSpec *t,
                         AttentionGemms *p, const AttentionSmem *r) {
  const GemmSchedule *s = t->schedule;
  char at[80];
  buffer_puts(out,
              "const unsigned group = thread / 128u - 1, member = thread % "
              "128u;\nconst unsigned row = group * 64u + member / 32u * "
              "16u;\n");
  attention_put_epilogue_memory(out, t, r, "row / 16u");
  snprintf(at, sizeof at, "shared + %uu + group * %uu", r->query_offset,
           gemm_unswizzled_offset(&p->first.q_copy.tile, WGMMA_M, 0));
  gemm_put_smem_descriptor(out, &p->first.q_copy.tile, false, "a_first", at);
  gemm_put_smem_descriptor(out, &p->first.k_copy.tile, false, "b_first",
                           "shared");
  snprintf(at, sizeof at, "shared + %uu", r->v_offset);
  gemm_put_smem_descriptor(out, &p->v_copy.tile, true, "v_first", at);
  buffer_printf(out,
                "float s[%u];\nunsigned p[%u];\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\ns[i] = 0;\n",
                s->n / 2, s->n / 4, s->n / 2);
  attention_put_accumulators(out, t, p);
  if (s->persistent)
    put_consumer_tiles(out, t, p, r);
  else
    put_consumer_attempts(out, t, p, r);
  if (s->store == STORE_TMA)
    buffer_puts(out, "if (lane == 0)\nax_tma_wait_read<0>();\n");
}

/* ---- kernel ---- */

static void put_barriers(Buffer *out, const AttentionKernelSpec *t,
                         const AttentionSmem *r) {
  uint32_t stages = t->schedule->stages, groups = t->schedule->warps_m;
  attention_put_barrier_addresses(out, t, r);
  if (t->schedule->persistent)
    buffer_printf(out, "const unsigned empty_a = empty_v + %uu;\n", 8 * stages);
  buffer_puts(out, "if (thread == 0) {\nax_mbarrier_init(full_a, 1);\n");
  if (t->schedule->persistent)
    buffer_printf(out, "ax_mbarrier_init(empty_a, %u);\n", groups);
  buffer_printf(out,
                "for (unsigned i = 0; i < %uu; i++) {\n"
                "ax_mbarrier_init(full_b + 8 * i, 1);\n"
                "ax_mbarrier_init(full_v + 8 * i, 1);\n"
                "ax_mbarrier_init(empty_b + 8 * i, %u);\n"
                "ax_mbarrier_init(empty_v + 8 * i, %u);\n}\n"
                "ax_fence_mbarrier_init();\n}\nax_sync();\n",
                stages, groups, groups);
}

void attention_put_begin(Buffer *out, const AttentionKernelSpec *t) {
  gemm_put_preamble(out);
  buffer_printf(out,
                "if (thread == 0) {\nax_tma_prefetch(%s);\n"
                "ax_tma_prefetch(%s);\nax_tma_prefetch(%s);\n}\n",
                t->first.query.tensor_map, t->first.key.tensor_map,
                t->value.tensor_map);
  buffer_printf(out, "const int stage_terms = %u;\n", t->schedule->n);
}

static void put_first_attempt(Buffer *out, const AttentionKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out, "%sunsigned steps = (unsigned)(to - from + %u) / %uu;\n",
                t->counters ? "" : "const ", s->n - 1, s->n);
  if (t->counters)
    buffer_puts(out, "bool again = false;\nunsigned done = 0;\n");
}

void attention_put_wgmma_kernel(Buffer *out, const AttentionKernelSpec *t,
                                AttentionGemms *p) {
  const GemmSchedule *s = t->schedule;
  AttentionSmem r = attention_smem(p, s);
  attention_put_begin(out, t);
  attention_put_sizes(out, t);
  if (s->persistent) {
    attention_put_tiles(out, t);
  } else {
    attention_put_block_tile(out, t);
    attention_put_tile_bounds(out, t, true);
    put_first_attempt(out, t);
  }
  if (t->counters)
    buffer_printf(out, "unsigned *const repeat = (unsigned *)(memory + %uu);\n",
                  r.repeat_offset);
  put_barriers(out, t, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (s->warps_m > 1)
    buffer_printf(out, "ax_registers_less<%u>();\n",
                  ATTENTION_PRODUCER_REGISTERS);
  put_producer(out, t, p, &r);
  buffer_puts(out, "} else {\n");
  if (s->warps_m > 1)
    buffer_printf(
        out, "ax_registers_more<%u>();\n",
        gemm_consumer_registers(s->warps_m, ATTENTION_PRODUCER_REGISTERS));
  put_consumer(out, t, p, &r);
  buffer_puts(out, "}\n");
}
