/* Attention by warpgroups (sm_90a): one has TMA fetch a block's rows, and what
 * they are weighed against, stage by stage; the others have 64 rows each.  The
 * next scores are multiplied while the last weights are: the tensor cores work
 * while a group makes weights of scores, its own next product and the other
 * group's (FlashAttention-3, arXiv:2407.08608). */
#include "backend/cuda/attentionemit.h"

enum { GROUP_ROWS = 64, LINE = 1024 };

static uint32_t whole(int64_t bytes) {
  return (uint32_t)((bytes + LINE - 1) / LINE * LINE);
}

AttentionRoom attention_room(const AttentionParts *p, const GemmSchedule *s) {
  SharedTile a = gemm_tile(&p->first_shape, &p->first, false);
  SharedTile b = gemm_tile(&p->second_shape, &p->second, false);
  SharedTile v = gemm_tile(&p->second_shape, &p->second, true);
  AttentionRoom r;
  r.v = whole(shared_bytes(&b));
  r.stage = r.v + whole(shared_bytes(&v));
  r.query = s->stages * r.stage;
  r.slabs = r.query + whole(shared_bytes(&a));
  r.carried = s->m * gemm_slab_pitch(&p->second);
  r.barriers = r.slabs + r.carried * 4 + s->m * 8;
  r.all = r.barriers + 8 * (1 + 4 * s->stages);
  return r;
}

/* ---- who fetches ---- */

static void put_fetch(Buffer *out, const AttentionText *t, AttentionParts *p,
                      const AttentionRoom *r, bool v) {
  const GemmSource *s = v ? &p->v : &p->b;
  char at[60];
  snprintf(at, sizeof at, "shared + stage * %uu + %uu", r->stage, v ? r->v : 0);
  buffer_printf(out,
                "ax_mbarrier_wait(empty_%c + 8 * stage, parity ^ 1);\n"
                "ax_mbarrier_expect(full_%c + 8 * stage, %u);\n",
                v ? 'v' : 'b', v ? 'v' : 'b', (uint32_t)shared_bytes(&s->tile));
  gemm_put_boxes(out, &(GemmBoxes){.tile = &s->tile,
                                   .batch = &t->inner,
                                   .b = v,
                                   .at = at,
                                   .map = v ? t->v.map : t->b.map,
                                   .barrier = v ? "full_v + 8 * stage"
                                                : "full_b + 8 * stage",
                                   .dense = "0",
                                   .other = "from + (int)step * stage_terms"});
}

static void put_producer(Buffer *out, const AttentionText *t, AttentionParts *p,
                         const AttentionRoom *r) {
  char at[40];
  snprintf(at, sizeof at, "shared + %uu", r->query);
  buffer_printf(out,
                "if (ax_warp() == 0 && ax_elect()) {\n"
                "ax_mbarrier_expect(full_a, %u);\n",
                (uint32_t)shared_bytes(&p->a.tile));
  gemm_put_boxes(out, &(GemmBoxes){.tile = &p->a.tile,
                                   .batch = &t->batch,
                                   .at = at,
                                   .map = t->a.map,
                                   .barrier = "full_a",
                                   .dense = "0",
                                   .other = "row0"});
  gemm_put_axes(out, &t->inner, "(int64_t)batch");
  buffer_printf(
      out,
      "for (unsigned step = 0; step < steps; step++) {\n"
      "const unsigned stage = step %% %uu, parity = step / %uu & 1;\n",
      t->schedule->stages, t->schedule->stages);
  put_fetch(out, t, p, r, false);
  put_fetch(out, t, p, r, true);
  buffer_puts(out, "}\n}\n");
}

/* ---- who multiplies ---- */

static void put_first(Buffer *out, const AttentionText *t, AttentionParts *p,
                      const AttentionRoom *r, const char *step) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "{\nconst unsigned stage = (%s) %% %uu;\n"
                "ax_mbarrier_wait(full_b + 8 * stage, (%s) / %uu & 1);\n"
                "const uint64_t b_stage = b_first + (stage * %uu >> 4);\n"
                "ax_wgmma_fence();\n",
                step, s->stages, step, s->stages, r->stage);
  for (uint32_t k = 0; k < p->first.k; k += 16)
    buffer_printf(out,
                  "ax_wgmma_m64n%uk16_%s<0, 0>(s, a_first + %u, b_stage + %u, "
                  "%s);\n",
                  s->n, dtype_info[t->shape->a.dtype].name,
                  gemm_tile_at(&p->a.tile, 0, k) >> 4,
                  gemm_tile_at(&p->b.tile, 0, k) >> 4, k ? "true" : "false");
  buffer_puts(out, "ax_wgmma_commit();\n}\n");
}

static void put_second(Buffer *out, const AttentionText *t, AttentionParts *p,
                       const AttentionRoom *r, const char *step) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "{\nconst unsigned stage = (%s) %% %uu;\n"
                "ax_mbarrier_wait(full_v + 8 * stage, (%s) / %uu & 1);\n"
                "const uint64_t v_stage = v_first + (stage * %uu >> 4);\n"
                "ax_wgmma_fence();\n",
                step, s->stages, step, s->stages, r->stage);
  for (uint32_t k = 0; k < s->n; k += 16)
    buffer_printf(out,
                  "ax_wgmma_m64n%uk16_%s_ra<1>(sums, p + %u, v_stage + %u, "
                  "true);\n",
                  p->second.n, dtype_info[t->shape->v.dtype].name, k / 4,
                  gemm_tile_at(&p->v.tile, k, 0) >> 4);
  buffer_puts(out, "ax_wgmma_commit();\n}\n");
}

static void put_release(Buffer *out, const AttentionText *t, char c,
                        const char *step) {
  buffer_printf(out,
                "if (member == 0)\nax_mbarrier_arrive(empty_%c + 8 * ((%s) %% "
                "%uu));\n",
                c, step, t->schedule->stages);
}

static const char row_at[] = "row0 + (int)row";
static const char term_at[] = "from + (int)step * stage_terms";

/* Weights as the left side of the second product. */
static void put_packed(Buffer *out, const AttentionText *t) {
  buffer_printf(out, "#pragma unroll\nfor (int i = 0; i < %u; i++)\n",
                t->schedule->n / 4);
  buffer_printf(out, "p[i] = ax_pack_%s(s[i * 2], s[i * 2 + 1]);\n",
                dtype_info[t->shape->v.dtype].name);
}

/* Groups take turns: who has begun its products lets the other begin. */
static void put_turn(Buffer *out, const AttentionText *t, bool begin) {
  if (t->schedule->warps_m != 2)
    return;
  buffer_puts(out, begin ? "ax_barrier_sync(1 + group, 256);\n"
                         : "if (group == 0 || step + 1 < steps)\n"
                           "ax_barrier_arrive(2 - group, 256);\n");
}

/* The first scores, before there are sums: the loop behind has both products
 * under way at the same places in each turn, or ptxas would have them wait for
 * each other. */
static void put_first_step(Buffer *out, const AttentionText *t,
                           AttentionParts *p, const AttentionRoom *r) {
  buffer_puts(out, "const unsigned step = 0;\n");
  put_first(out, t, p, r, "step");
  buffer_puts(out, "ax_wgmma_wait<0>();\nax_wgmma_hold(s);\n");
  put_release(out, t, 'b', "step");
  attention_put_scores(out, t, row_at, term_at);
  attention_put_weights(out, t);
  put_packed(out, t);
}

static void put_step(Buffer *out, const AttentionText *t, AttentionParts *p,
                     const AttentionRoom *r) {
  put_turn(out, t, true);
  put_first(out, t, p, r, "step");
  put_second(out, t, p, r, "step - 1");
  put_turn(out, t, false);
  buffer_puts(out, "ax_wgmma_wait<1>();\nax_wgmma_hold(s);\n");
  put_release(out, t, 'b', "step");
  attention_put_scores(out, t, row_at, term_at);
  attention_put_weights(out, t);
  buffer_puts(out, "ax_wgmma_wait<0>();\nax_wgmma_hold(sums);\n");
  put_release(out, t, 'v', "step - 1");
  if (t->shape->relative)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums[i] *= shrink[i / 2 %% 2];\n",
                  p->second.n / 2);
  put_packed(out, t);
}

static void put_steps(Buffer *out, const AttentionText *t, AttentionParts *p,
                      const AttentionRoom *r) {
  if (t->schedule->warps_m == 2)
    buffer_puts(out, "if (group == 1 && steps > 1)\n"
                     "ax_barrier_arrive(1, 256);\n");
  buffer_puts(out, "if (steps > 0) {\n{\n");
  put_first_step(out, t, p, r);
  buffer_puts(out, "}\nfor (unsigned step = 1; step < steps; step++) {\n");
  put_step(out, t, p, r);
  buffer_puts(out, "}\n");
  put_second(out, t, p, r, "steps - 1");
  buffer_puts(out, "ax_wgmma_wait<0>();\nax_wgmma_hold(sums);\n}\n");
}

static void put_consumer(Buffer *out, const AttentionText *t, AttentionParts *p,
                         const AttentionRoom *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t pitch = gemm_slab_pitch(&p->second);
  char at[80];
  buffer_printf(out,
                "const unsigned group = thread / 128u - 1, member = thread %% "
                "128u;\nconst unsigned row = group * 64u + member / 32u * "
                "16u;\n"
                "float *const slabs = (float *)(memory + %uu);\n"
                "float *const slab = slabs + row / 16u * %uu;\n",
                r->slabs, 16 * pitch);
  snprintf(at, sizeof at, "shared + %uu + group * %uu", r->query,
           gemm_tile_at(&p->a.tile, GROUP_ROWS, 0));
  gemm_put_descriptor(out, &p->a.tile, false, "a_first", at);
  gemm_put_descriptor(out, &p->b.tile, false, "b_first", "shared");
  snprintf(at, sizeof at, "shared + %uu", r->v);
  gemm_put_descriptor(out, &p->v.tile, true, "v_first", at);
  buffer_printf(out,
                "float s[%u];\nunsigned p[%u];\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\ns[i] = 0;\n",
                s->n / 2, s->n / 4, s->n / 2);
  attention_put_sums(out, t, p);
  attention_put_zero(out, t, p);
  buffer_puts(out, "ax_mbarrier_wait(full_a, 0);\n");
  put_steps(out, t, p, r);
  attention_put_totals(out, t, p);
  attention_put_carried(out, t, r->carried, "(row / 16u)");
  buffer_puts(out, "const unsigned m0 = (unsigned)row0, n0 = 0;\n"
                   "const int m_all = rows;\n");
  gemm_put_extent(out, &t->e, "n_all");
  p->store.of_row = attention_of_row(t);
  gemm_put_slab(out, &p->store, "sums", "row", "0u");
}

/* ---- the whole ---- */

static void put_barriers(Buffer *out, const AttentionText *t,
                         const AttentionRoom *r) {
  uint32_t stages = t->schedule->stages, groups = t->schedule->warps_m;
  buffer_printf(out,
                "const unsigned full_a = shared + %uu, full_b = full_a + 8;\n"
                "const unsigned full_v = full_b + %uu, empty_b = full_v + "
                "%uu, empty_v = empty_b + %uu;\n"
                "if (thread == 0) {\nax_mbarrier_init(full_a, 1);\n"
                "for (unsigned i = 0; i < %uu; i++) {\n"
                "ax_mbarrier_init(full_b + 8 * i, 1);\n"
                "ax_mbarrier_init(full_v + 8 * i, 1);\n"
                "ax_mbarrier_init(empty_b + 8 * i, %u);\n"
                "ax_mbarrier_init(empty_v + 8 * i, %u);\n}\n"
                "ax_fence_mbarrier_init();\n}\nax_sync();\n",
                r->barriers, 8 * stages, 8 * stages, 8 * stages, stages, groups,
                groups);
}

void attention_group_put(Buffer *out, const AttentionText *t,
                         AttentionParts *p) {
  const GemmSchedule *s = t->schedule;
  AttentionRoom r = attention_room(p, s);
  gemm_put_start(out);
  attention_put_rows(out, t);
  buffer_printf(out,
                "const int stage_terms = %u;\n"
                "const unsigned steps = (unsigned)(to - from + %u) / %uu;\n",
                s->n, s->n - 1, s->n);
  put_barriers(out, t, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (s->warps_m > 1)
    buffer_printf(out, "ax_registers_less<%u>();\n", ATTENTION_PRODUCER);
  put_producer(out, t, p, &r);
  buffer_puts(out, "} else {\n");
  if (s->warps_m > 1)
    buffer_printf(out, "ax_registers_more<%u>();\n",
                  gemm_group_registers(s->warps_m, ATTENTION_PRODUCER));
  put_consumer(out, t, p, &r);
  buffer_puts(out, "}\n");
}
