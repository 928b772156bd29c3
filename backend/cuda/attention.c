/* Attention by mma: a block has some rows; a warp 16 of them, with their
 * scores, sums and what they are relative to in its registers. */
#include "backend/cuda/attention.h"
#include "backend/cuda/attentionemit.h"

#include <string.h>

/* ---- its operands, as those of contractions ---- */

/* a is the left side of one; b and v are both sides of another, whose terms are
 * n: rows of their tiles are terms, whatever they are in the products. */
void attention_parts(const AttentionText *t, AttentionParts *p) {
  memset(p, 0, sizeof *p);
  attention_schedules(t->shape, t->schedule, p);
  p->q = (GemmText){.shape = &p->first_shape,
                    .schedule = &p->first,
                    .name = p->name_q,
                    .batch = t->batch,
                    .m = t->m,
                    .k = t->k,
                    .a = t->a,
                    .owner = t->owner};
  p->kv = (GemmText){.shape = &p->second_shape,
                     .schedule = &p->second,
                     .name = t->name,
                     .batch = t->inner,
                     .m = t->terms,
                     .n = t->e,
                     .k = t->n,
                     .a = t->b,
                     .b = t->v,
                     .owner = t->owner};
  p->store = p->kv;
  p->store.batch = t->batch;
  p->store.m = t->m;
  p->store.epilogue = t->epilogue;
  p->store.results = t->results;
  memcpy(p->store.result, t->result, sizeof t->result);
  snprintf(p->name_q, sizeof p->name_q, "%.40s_q", t->name);
  p->a = gemm_source(&p->q, false);
  p->b = gemm_source(&p->kv, false);
  p->v = gemm_source(&p->kv, true);
}

/* ---- rows and scores ---- */

enum { WHOLE_SCORE = 16 /* operations */ };

#define LOG2_E "1.44269504f"
#define LEAST "__int_as_float(0xff800000)"
#define NO_NUMBER "__int_as_float(0x7fffffff)"

/* Scores that are much work are written once. */
static bool has_whole(const AttentionText *t) {
  return t->inside || t->shape->score <= WHOLE_SCORE;
}

static bool has_unit(const AttentionText *t) {
  return has_whole(t) && t->unit;
}

static void put_range(Buffer *out, const AttentionText *t,
                      void (*range)(void *, Buffer *, const char *,
                                    const char *)) {
  buffer_printf(out,
                "{\nconst int64_t first_row = row0, last_row = min(row0 + %u, "
                "rows - 1);\n",
                t->schedule->m - 1);
  range(t->owner, out, "first_row", "last_row");
  buffer_puts(out, "}\n");
}

/* Which rows the block has, and which terms they need. */
void attention_put_rows(Buffer *out, const AttentionText *t) {
  const GemmSchedule *s = t->schedule;
  gemm_put_extent(out, &t->m, "rows");
  gemm_put_extent(out, &t->n, "terms");
  buffer_printf(out,
                "const unsigned bands = (unsigned)(rows + %u) / %uu;\n"
                "const unsigned batch = blockIdx.x / bands;\n"
                "const int row0 = (int)((bands - 1 - blockIdx.x %% bands) * "
                "%uu);\n",
                s->m - 1, s->m, s->m);
  gemm_put_axes(out, &t->batch, "(int64_t)batch");
  buffer_puts(out, "int low = 0, high = terms;\n");
  if (t->limits) {
    put_range(out, t, t->limits);
    buffer_printf(out,
                  "low = max(low, 0) / %u * %u;\nhigh = min(high, terms);\n",
                  s->n, s->n);
  }
  if (has_whole(t))
    buffer_printf(out,
                  "int whole_low = 0, whole_high = row0 + %u <= rows ? terms : "
                  "0;\n",
                  s->m);
  if (has_whole(t) && t->inside)
    put_range(out, t, t->inside);
  if (has_unit(t))
    t->unit(t->owner, out);
  if (has_whole(t) && t->plain) {
    buffer_puts(out, "{\nbool plain = true;\n");
    t->plain(t->owner, out, "plain");
    buffer_puts(out, "whole_high = plain ? whole_high : 0;\n}\n");
  }
  buffer_printf(out, "%sint from = low, to = max(high, low);\n",
                t->wrong ? "" : "const ");
}

/* Where a score is: `r` and `j`, of one that is not there those of the last one
 * that is, unless the score is right of any. */
static void put_place(Buffer *out, const AttentionText *t, const char *row,
                      const char *term, bool whole) {
  Held h = held_mma_c();
  bool near = !whole && !t->anywhere;
  const char *own = whole ? "" : "own_";
  buffer_printf(out, "const int %sr = %s + (int)", own, row);
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, " + (int)");
  layout_print(out, &h.value_row, "(unsigned)i");
  buffer_printf(out, ";\nconst int %sj = %s + y * 8 + (int)", own, term);
  layout_print(out, &h.thread_column, "lane");
  buffer_puts(out, " + (int)");
  layout_print(out, &h.value_column, "(unsigned)i");
  buffer_puts(out, ";\n");
  if (!whole)
    buffer_printf(out, "const int r = %s, j = %s;\n",
                  near ? "min(own_r, rows - 1)" : "own_r",
                  near ? "min(own_j, to - 1)" : "own_j");
}

/* Each score of a thread becomes what `score` makes of it; what there is not is
 * the least there is.  whole: all are there, and nothing hides them.  There are
 * no branches: ptxas would have products wait for each other, or spill. */
static void put_some_scores(Buffer *out, const AttentionText *t,
                            const char *row, const char *term, bool whole) {
  const char *least = t->shape->relative ? LEAST : "0.0f";
  buffer_printf(out,
                "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n"
                "#pragma unroll\nfor (int i = 0; i < 4; i++) {\n",
                t->schedule->n / 8);
  put_place(out, t, row, term, whole);
  buffer_puts(out, "float p;\n{\nconst float x = s[y * 4 + i];\n");
  gemm_put_axes(out, &t->m, "r");
  gemm_put_axes(out, &t->n, "j");
  t->score(t->owner, out, "x", "p", whole);
  buffer_puts(out, "}\n");
  if (whole)
    buffer_puts(out, "s[y * 4 + i] = p;\n}\n}\n");
  else
    buffer_printf(out,
                  "s[y * 4 + i] = own_r < rows && own_j < to ? p : %s;\n}\n}\n",
                  least);
}

void attention_put_scores(Buffer *out, const AttentionText *t, const char *row,
                          const char *term) {
  if (has_unit(t))
    buffer_puts(out, "float unit = 1;\n");
  if (has_whole(t)) {
    buffer_printf(out, "if (%s >= whole_low && %s + %u <= whole_high) {\n",
                  term, term, t->schedule->n);
    if (has_unit(t))
      buffer_puts(out, "unit = unit_whole;\n");
    else
      put_some_scores(out, t, row, term, true);
    buffer_puts(out, "} else {\n");
  }
  put_some_scores(out, t, row, term, false);
  if (has_whole(t))
    buffer_puts(out, "}\n");
}

static bool has_totals(const AttentionText *t) {
  return t->shape->relative || t->shape->total;
}

/* A thread's sums, and what it carries along of its rows. */
void attention_put_sums(Buffer *out, const AttentionText *t,
                        const AttentionParts *p) {
  buffer_printf(out, "float sums[%u];\n", p->second.n / 2);
  if (t->shape->relative)
    buffer_puts(out, "float most[2];\n");
  if (has_totals(t))
    buffer_puts(out, "float total[2];\n");
}

void attention_put_zero(Buffer *out, const AttentionText *t,
                        const AttentionParts *p) {
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\nsums[i] = 0;\n",
                p->second.n / 2);
  if (t->shape->relative)
    buffer_puts(out, "most[0] = most[1] = " LEAST ";\n");
  if (has_totals(t))
    buffer_puts(out, "total[0] = total[1] = 0;\n");
}

/* Their total alone. */
static void put_added(Buffer *out, const AttentionText *t) {
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "total[i / 2 %% 2] += s[i];\n",
                t->schedule->n / 2);
}

/* What the row's weights are relative to may have grown: what is there already
 * shrinks, and scores become weights.  What they are relative to is the same
 * rounded number in all of them. */
void attention_put_weights(Buffer *out, const AttentionText *t) {
  uint32_t columns = t->schedule->n;
  if (t->shape->total && !t->shape->relative)
    put_added(out, t);
  if (!t->shape->relative)
    return;
  const char *times = has_unit(t) ? " * unit" : "";
  buffer_printf(
      out,
      "float shrink[2];\n#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
      "float x = " LEAST ";\n#pragma unroll\nfor (int y = 0; y < %u; y++)\n"
      "x = fmaxf(x, fmaxf(s[y * 4 + h * 2], s[y * 4 + h * 2 + 1]));\n"
      "x = fmaxf(x, ax_shuffle_xor(x, 1));\n"
      "x = fmaxf(x, ax_shuffle_xor(x, 2));\n"
      "x = fmaxf(most[h], x%s);\n"
      "const float base = x == " LEAST " ? 0.0f : x * " LOG2_E ";\n"
      "shrink[h] = ax_exp2(most[h] * " LOG2_E " - base);\n"
      "most[h] = x;\ntotal[h] *= shrink[h];\n"
      "#pragma unroll\nfor (int y = 0; y < %u; y++)\n"
      "#pragma unroll\nfor (int i = h * 2; i < h * 2 + 2; i++) {\n"
      "s[y * 4 + i] = ax_exp2(fmaf(s[y * 4 + i], " LOG2_E "%s, -base));\n"
      "total[h] += s[y * 4 + i];\n}\n}\n",
      columns / 8, times, columns / 8, times);
}

/* Two neighbours of each are a register of the second product's left side: an
 * accumulator of 16 columns is one of its operands. */
void attention_put_pack(Buffer *out, const AttentionText *t, const char *at) {
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < 4; i++)\n"
                "p[i] = ax_pack_%s(s[%s + i * 2], s[%s + i * 2 + 1]);\n",
                dtype_info[t->shape->v.dtype].name, at, at);
}

/* The rows' totals.  A row whose scores are all the least there is has weights
 * relative to that, which are no numbers. */
void attention_put_totals(Buffer *out, const AttentionText *t,
                          const AttentionParts *p) {
  if (!has_totals(t))
    return;
  buffer_puts(out, "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                   "total[h] += ax_shuffle_xor(total[h], 1);\n"
                   "total[h] += ax_shuffle_xor(total[h], 2);\n");
  if (t->shape->relative)
    buffer_printf(out,
                  "if (most[h] == " LEAST " && terms > 0) {\n"
                  "total[h] = " NO_NUMBER ";\n"
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "if (i / 2 %% 2 == h)\nsums[i] = " NO_NUMBER ";\n}\n",
                  p->second.n / 2);
  buffer_puts(out, "}\n");
}

/* These, and what weights are relative to, for who stores the sums: behind the
 * slabs of so many warps. */
void attention_put_carried(Buffer *out, const AttentionText *t, uint32_t floats,
                           const char *warp) {
  Held h = held_mma_c();
  if (!has_totals(t))
    return;
  buffer_printf(out,
                "float2 *const carried = (float2 *)((float *)slabs + %uu) + %s "
                "* 16u;\n"
                "#pragma unroll\nfor (int h = 0; h < 2; h++)\n"
                "if (lane %% 4u == 0)\ncarried[h * 8 + ",
                floats, warp);
  layout_print(out, &h.thread_row, "lane");
  buffer_printf(out, "] = make_float2(%s, total[h]);\n",
                t->shape->relative ? "most[h]" : "0.0f");
}

/* Were limits wrong in one of the block's rows? */
static void put_wrong(Buffer *out, const AttentionText *t) {
  Held h = held_mma_c();
  buffer_puts(out, "bool wrong = false;\n"
                   "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                   "const int r = row0 + (int)(warp * 16u) + h * 8 + (int)");
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, ";\nif (r < rows) {\n");
  gemm_put_axes(out, &t->m, "r");
  t->wrong(t->owner, out, "most[h]", "total[h]", "wrong");
  buffer_puts(out, "}\n}\n");
}

/* ---- by mma ---- */

typedef struct Step {
  const AttentionText *t;
  AttentionParts *p;
} Step;

static void put_query(Buffer *out, const AttentionParts *p, const char *array,
                      const char *term) {
  gemm_put_fragments(out, &p->a,
                     &(GemmFragments){.name = array,
                                      .at = "q_at",
                                      .first = "warp * 16u",
                                      .term = term,
                                      .count = 1});
}

static bool holds_query(const AttentionText *t) {
  return t->shape->k <= ATTENTION_HELD;
}

static void put_first(Buffer *out, const Step *step) {
  const AttentionText *t = step->t;
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "float s[%u];\n#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "s[i] = 0;\n#pragma unroll\nfor (int kk = 0; kk < %u; kk++) {\n"
                "unsigned b_of[%u][4];\n",
                s->n / 2, s->n / 2, step->p->first.k / 16, s->n / 16);
  if (!holds_query(t)) {
    buffer_puts(out, "unsigned q[1][4];\n");
    put_query(out, step->p, "q", "kk * 16u");
  }
  gemm_put_fragments(out, &step->p->b,
                     &(GemmFragments){.name = "b_of",
                                      .at = "b_at",
                                      .first = "0u",
                                      .term = "kk * 16u",
                                      .count = s->n / 16,
                                      .b = true});
  buffer_printf(out, "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n",
                s->n / 8);
  gemm_put_product(out, t->shape->a.dtype, s, "s + y * 4",
                   holds_query(t) ? "q[kk]" : "q[0]",
                   "b_of[y / 2] + y % 2 * 2");
  buffer_puts(out, "}\n}\n");
}

static void put_second(Buffer *out, const Step *step) {
  const AttentionText *t = step->t;
  const GemmSchedule *s = t->schedule;
  uint32_t e = step->p->second.n;
  if (t->shape->relative)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums[i] *= shrink[i / 2 %% 2];\n",
                  e / 2);
  buffer_printf(out,
                "#pragma unroll\nfor (int kk = 0; kk < %u; kk++) {\n"
                "unsigned p[4], v_of[%u][4];\n",
                s->n / 16, e / 16);
  attention_put_pack(out, t, "kk * 8");
  gemm_put_fragments(out, &step->p->v,
                     &(GemmFragments){.name = "v_of",
                                      .at = "v_at",
                                      .first = "0u",
                                      .term = "kk * 16u",
                                      .count = e / 16,
                                      .b = true,
                                      .turned = true});
  buffer_printf(out, "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n", e / 8);
  gemm_put_product(out, t->shape->v.dtype, s, "sums + y * 4", "p",
                   "v_of[y / 2] + y % 2 * 2");
  buffer_puts(out, "}\n}\n");
}

static void put_step(Buffer *out, const void *owner, const GemmSource *a,
                     const GemmSource *b) {
  const Step *step = owner;
  buffer_printf(out,
                "const unsigned b_at = shared + read * %uu;\n"
                "const unsigned v_at = b_at + %uu;\n",
                a->bytes + b->bytes, a->bytes);
  if (holds_query(step->t)) {
    buffer_printf(out,
                  "if (step == 0) {\n#pragma unroll\n"
                  "for (int kk = 0; kk < %u; kk++) {\n",
                  step->p->first.k / 16);
    put_query(out, step->p, "(q + kk)", "kk * 16u");
    buffer_puts(out, "}\n}\n");
  }
  put_first(out, step);
  attention_put_scores(out, step->t, "row0 + (int)warp * 16",
                       "from + step * stage_terms");
  attention_put_weights(out, step->t);
  put_second(out, step);
}

/* All terms from `from` to `to`. */
static void put_terms(Buffer *out, const AttentionText *t, AttentionParts *p) {
  const Step step = {t, p};
  attention_put_zero(out, t, p);
  buffer_puts(out, "{\nconst unsigned m0 = 0, n0 = 0;\n");
  gemm_put_extent(out, &t->terms, "m_all");
  gemm_put_extent(out, &t->e, "n_all");
  gemm_put_axes(out, &t->inner, "(int64_t)batch");
  gemm_put_offset(out, &t->inner, "a_batch", false);
  gemm_put_offset(out, &t->inner, "b_batch", true);
  buffer_puts(out, "(void)a_batch, (void)b_batch;\n");
  gemm_put_begin(out, &p->b);
  gemm_put_begin(out, &p->v);
  if (holds_query(t))
    buffer_printf(out, "unsigned q[%u][4];\n", p->first.k / 16);
  gemm_put_stages(out, &p->kv, &p->b, &p->v, put_step, &step);
  buffer_puts(out, "}\n");
  attention_put_totals(out, t, p);
}

static void put_mma(Buffer *before, Buffer *out, const AttentionText *t,
                    AttentionParts *p) {
  const GemmSchedule *s = t->schedule;
  uint32_t stages = s->stages * (p->b.bytes + p->v.bytes);
  uint32_t pitch = gemm_slab_pitch(&p->second);
  gemm_put_places(before, &p->a);
  gemm_put_places(before, &p->b);
  gemm_put_places(before, &p->v);
  gemm_put_start(out);
  attention_put_rows(out, t);
  buffer_printf(
      out,
      "const unsigned warp = thread / 32u;\n"
      "const unsigned q_at = shared + %uu;\n{\n"
      "const unsigned m0 = (unsigned)row0;\nconst int m_all = rows;\n",
      stages);
  gemm_put_extent(out, &t->k, "to");
  gemm_put_offset(out, &t->batch, "a_batch", false);
  buffer_puts(out, "(void)a_batch;\n");
  gemm_put_begin(out, &p->a);
  gemm_put_load(out, &p->a, "q_at", "0");
  if (p->a.held) {
    buffer_printf(out, "const unsigned into = %uu;\n", stages);
    gemm_put_held(out, &p->a, "into");
  } else if (p->b.held && p->v.held) { /* else it comes with the first stage */
    buffer_puts(out, "ax_copy_commit();\nax_copy_wait<0>();\n");
  }
  buffer_puts(out, "}\n");
  attention_put_sums(out, t, p);
  if (t->wrong)
    buffer_puts(out, "for (bool again = false;; again = true) {\n");
  put_terms(out, t, p);
  if (t->wrong) {
    put_wrong(out, t);
    buffer_puts(out, "if (!ax_sync_or(wrong) || again)\nbreak;\n"
                     "from = 0;\nto = terms;\n}\n");
  }
  buffer_printf(out,
                "float *const slabs = (float *)memory, *const slab = slabs "
                "+ warp * %uu;\n",
                16 * pitch);
  attention_put_carried(out, t, s->m * pitch, "warp");
  buffer_puts(out, "const unsigned m0 = (unsigned)row0, n0 = 0;\n"
                   "const int m_all = rows;\n");
  gemm_put_extent(out, &t->e, "n_all");
  p->store.of_row = attention_of_row(t);
  gemm_put_slab(out, &p->store, "sums", "warp * 16u", "0u");
}

const char *attention_of_row(const AttentionText *t) {
  return has_totals(t) ? "const float most = carried[slab_row].x, total = "
                         "carried[slab_row].y;\n(void)most, (void)total;\n"
                       : NULL;
}

void attention_put(Buffer *before, Buffer *body, const AttentionText *t) {
  AttentionParts p;
  attention_parts(t, &p);
  if (t->schedule->way == GEMM_WGMMA)
    attention_group_put(body, t, &p);
  else
    put_mma(before, body, t, &p);
}
