/* Scores and online softmax of attention: shared by all attention kernels. */
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_emit.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"

#define LOG2_E "1.44269504f"
#define NEG_INFINITY_TEXT "__int_as_float(0xff800000)"
#define NAN_TEXT "__int_as_float(0x7fffffff)"

/* Packs weights as the left operand of the second matmul.  An accumulator of
 * 16 columns has the thread-value layout of this operand; two neighbouring
 * elements form a register. */
void attention_put_pack_weights(Buffer *out, const AttentionKernelSpec *t,
                                const char *at) {
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < 4; i++)\n"
                "p[i] = ax_pack_%s(s[%s + i * 2], s[%s + i * 2 + 1]);\n",
                dtype_info[t->shape->value.dtype].name, at, at);
}

/* Expensive scores are emitted once, without a separate path for unmasked
 * tiles. */
static bool has_unmasked_path(const AttentionKernelSpec *t) {
  return t->put_unmasked_bounds ||
         t->shape->score_ops <= MAX_DUPLICATED_SCORE_OPS;
}

static bool has_score_scale(const AttentionKernelSpec *t) {
  return has_unmasked_path(t) && t->put_score_scale;
}

static void put_range(Buffer *out, const AttentionKernelSpec *t,
                      void (*range)(void *, Buffer *, const char *,
                                    const char *)) {
  buffer_printf(out,
                "{\nconst int64_t first_row = row0, last_row = min(row0 + %u, "
                "rows - 1);\n",
                t->schedule->m - 1);
  range(t->owner, out, "first_row", "last_row");
  buffer_puts(out, "}\n");
}

void attention_put_sizes(Buffer *out, const AttentionKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  gemm_put_extent(out, &t->first.m, "rows");
  gemm_put_extent(out, &t->first.n, "terms");
  buffer_printf(out, "const unsigned bands = (unsigned)(rows + %u) / %uu;\n",
                s->m - 1, s->m);
}

void attention_put_block_tile(Buffer *out, const AttentionKernelSpec *t) {
  buffer_printf(out,
                "const unsigned batch = blockIdx.x / bands;\n"
                "%sint row0 = (int)((bands - 1 - blockIdx.x %% bands) * "
                "%uu);\n",
                t->counters ? "" : "const ", t->schedule->m);
}

/* Emits which scores of a tile need no conditions. */
static void put_unmasked_range(Buffer *out, const AttentionKernelSpec *t) {
  buffer_printf(out,
                "int whole_low = 0, whole_high = row0 + %u <= rows ? terms : "
                "0;\n",
                t->schedule->m);
  if (t->put_unmasked_bounds)
    put_range(out, t, t->put_unmasked_bounds);
  if (has_score_scale(t))
    t->put_score_scale(t->owner, out);
  if (t->put_number_check) {
    buffer_puts(out, "{\nbool plain = true;\n");
    t->put_number_check(t->owner, out, "plain");
    buffer_puts(out, "whole_high = plain ? whole_high : 0;\n}\n");
  }
}

void attention_put_tile_bounds(Buffer *out, const AttentionKernelSpec *t,
                               bool scores) {
  const GemmSchedule *s = t->schedule;
  gemm_put_unravel(out, &t->first.batch, "(int64_t)batch");
  buffer_puts(out, "int low = 0, high = terms;\n");
  if (t->put_bounds) {
    put_range(out, t, t->put_bounds);
    buffer_printf(out,
                  "low = max(low, 0) / %u * %u;\nhigh = min(high, terms);\n",
                  s->n, s->n);
  }
  if (scores && has_unmasked_path(t))
    put_unmasked_range(out, t);
  buffer_printf(out, "%sint from = low, to = max(high, low);\n",
                t->put_trim_check || t->counters ? "" : "const ");
}

/* Declares the coordinates `r` and `j` of a score.  Out of bounds they are
 * clamped to the last valid element, unless the score is valid everywhere. */
static void put_score_coord(Buffer *out, const AttentionKernelSpec *t,
                            const char *row, const char *term, bool unmasked) {
  FragmentLayout h = fragment_layout_mma_c();
  bool clamped = !unmasked && !t->out_of_bounds_safe;
  const char *prefix = unmasked ? "" : "own_";
  buffer_printf(out, "const int %sr = %s + (int)", prefix, row);
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, " + (int)");
  layout_print(out, &h.value_row, "(unsigned)i");
  buffer_printf(out, ";\nconst int %sj = %s + y * 8 + (int)", prefix, term);
  layout_print(out, &h.thread_column, "lane");
  buffer_puts(out, " + (int)");
  layout_print(out, &h.value_column, "(unsigned)i");
  buffer_puts(out, ";\n");
  if (!unmasked)
    buffer_printf(out, "const int r = %s, j = %s;\n",
                  clamped ? "min(own_r, rows - 1)" : "own_r",
                  clamped ? "min(own_j, to - 1)" : "own_j");
}

/* Replaces dot products by scores.  Masked elements get -infinity, or weight
 * 0. unmasked: all scores are in bounds and not masked.  The code has no
 * branches: with branches, ptxas serializes the MMAs or spills. */
static void put_masked_scores(Buffer *out, const AttentionKernelSpec *t,
                              const char *row, const char *term,
                              bool unmasked) {
  const char *masked_value =
      t->shape->subtract_max ? NEG_INFINITY_TEXT : "0.0f";
  buffer_printf(out,
                "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n"
                "#pragma unroll\nfor (int i = 0; i < 4; i++) {\n",
                t->schedule->n / 8);
  put_score_coord(out, t, row, term, unmasked);
  buffer_puts(out, "float p;\n{\nconst float x = s[y * 4 + i];\n");
  if (t->shape->head_dim2)
    buffer_puts(out, "const float second = second_s[y * 4 + i];\n");
  gemm_put_unravel(out, &t->first.m, "r");
  gemm_put_unravel(out, &t->first.n, "j");
  t->put_score(t->owner, out, "x", "p", unmasked);
  buffer_puts(out, "}\n");
  if (unmasked)
    buffer_puts(out, "s[y * 4 + i] = p;\n}\n}\n");
  else
    buffer_printf(out,
                  "s[y * 4 + i] = own_r < rows && own_j < to ? p : %s;\n}\n}\n",
                  masked_value);
}

void attention_put_scores(Buffer *out, const AttentionKernelSpec *t,
                          const char *row, const char *term) {
  if (has_score_scale(t))
    buffer_puts(out, "float unit = 1;\n");
  if (has_unmasked_path(t)) {
    buffer_printf(out, "if (%s >= whole_low && %s + %u <= whole_high) {\n",
                  term, term, t->schedule->n);
    if (has_score_scale(t))
      buffer_puts(out, "unit = unit_whole;\n");
    else
      put_masked_scores(out, t, row, term, true);
    buffer_puts(out, "} else {\n");
  }
  put_masked_scores(out, t, row, term, false);
  if (has_unmasked_path(t))
    buffer_puts(out, "}\n");
}

bool attention_has_row_sums(const AttentionKernelSpec *t) {
  return t->shape->subtract_max || t->shape->needs_row_sum;
}

/* Declares the accumulators of a thread, and the maximum and sum of its
 * rows. */
void attention_put_accumulators(Buffer *out, const AttentionKernelSpec *t,
                                const AttentionGemms *p) {
  buffer_printf(out, "float sums[%u];\n", p->first.kv_schedule.n / 2);
  if (t->shape->subtract_max)
    buffer_puts(out, "float most[2];\n");
  if (attention_has_row_sums(t))
    buffer_puts(out, "float total[2];\n");
}

void attention_put_init(Buffer *out, const AttentionKernelSpec *t,
                        const AttentionGemms *p) {
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\nsums[i] = 0;\n",
                p->first.kv_schedule.n / 2);
  if (t->shape->subtract_max)
    buffer_puts(out, "most[0] = most[1] = " NEG_INFINITY_TEXT ";\n");
  if (attention_has_row_sums(t))
    buffer_puts(out, "total[0] = total[1] = 0;\n");
}

/* Adds the weights to the row sums. */
static void put_add_scores(Buffer *out, const AttentionKernelSpec *t) {
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "total[i / 2 %% 2] += s[i];\n",
                t->schedule->n / 2);
}

/* With accumulators in tensor memory, a row keeps the maximum of earlier tiles
 * (`most`) until the new maximum would make weights exceed 2^8, so that the
 * accumulators are seldom rescaled (FlashAttention-4).  `top` is the
 * maximum.  The factor cancels in the quotient of accumulators and sum, and
 * attention_put_exact_maximum removes it from both. */
static bool rescales_late(const AttentionKernelSpec *t) {
  return t->schedule->mma_kind == MMA_KIND_TCGEN05;
}

static void put_late_maximum(Buffer *out) {
  buffer_printf(out,
                "top[h] = x;\n"
                "x = (x - most[h]) * " LOG2_E " <= %d.0f ? most[h] : x;\n",
                MAX_LATE_EXPONENT);
}

void attention_put_exact_maximum(Buffer *out, const AttentionKernelSpec *t,
                                 const AttentionGemms *p) {
  if (!t->shape->subtract_max)
    return;
  buffer_printf(out,
                "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                "const float late = most[h] == top[h] ? 1.0f : "
                "ax_exp2((most[h] - top[h]) * " LOG2_E ");\n"
                "most[h] = top[h];\ntotal[h] *= late;\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "if (i / 2 %% 2 == h)\nsums[i] *= late;\n}\n",
                p->first.kv_schedule.n / 2);
}

/* Updates the row maximum, rescales the row sum, and replaces scores by
 * weights.  All weights of a row use the same rounded maximum. */
void attention_put_online_softmax(Buffer *out, const AttentionKernelSpec *t) {
  uint32_t columns = t->schedule->n;
  if (t->shape->needs_row_sum && !t->shape->subtract_max)
    put_add_scores(out, t);
  if (!t->shape->subtract_max)
    return;
  const char *times = has_score_scale(t) ? " * unit" : "";
  buffer_printf(
      out,
      "float shrink[2];\n#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
      "float x = " NEG_INFINITY_TEXT
      ";\n#pragma unroll\nfor (int y = 0; y < %u; y++)\n"
      "x = fmaxf(x, fmaxf(s[y * 4 + h * 2], s[y * 4 + h * 2 + 1]));\n"
      "x = fmaxf(x, ax_shuffle_xor(x, 1));\n"
      "x = fmaxf(x, ax_shuffle_xor(x, 2));\n"
      "x = fmaxf(%s[h], x%s);\n",
      columns / 8, rescales_late(t) ? "top" : "most", times);
  if (rescales_late(t))
    put_late_maximum(out);
  buffer_printf(
      out,
      "const float base = x == " NEG_INFINITY_TEXT " ? 0.0f : x * " LOG2_E ";\n"
      "shrink[h] = %sax_exp2(most[h] * " LOG2_E " - base);\n"
      "most[h] = x;\ntotal[h] *= shrink[h];\n"
      "#pragma unroll\nfor (int y = 0; y < %u; y++)\n"
      "#pragma unroll\nfor (int i = h * 2; i < h * 2 + 2; i++) {\n"
      "s[y * 4 + i] = ax_exp2(fmaf(s[y * 4 + i], " LOG2_E "%s, -base));\n"
      "total[h] += s[y * 4 + i];\n}\n}\n",
      rescales_late(t) ? "x == most[h] ? 1.0f : " : "", columns / 8, times);
}

/* Combines the row sums of 4 lanes.  If all scores of a row are -infinity, the
 * weights are NaN. */
void attention_put_row_sums(Buffer *out, const AttentionKernelSpec *t,
                            const AttentionGemms *p) {
  if (!attention_has_row_sums(t))
    return;
  buffer_puts(out, "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                   "total[h] += ax_shuffle_xor(total[h], 1);\n"
                   "total[h] += ax_shuffle_xor(total[h], 2);\n");
  if (t->shape->subtract_max)
    buffer_printf(out,
                  "if (most[h] == " NEG_INFINITY_TEXT " && terms > 0) {\n"
                  "total[h] = " NAN_TEXT ";\n"
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "if (i / 2 %% 2 == h)\nsums[i] = " NAN_TEXT ";\n}\n",
                  p->first.kv_schedule.n / 2);
  buffer_puts(out, "}\n");
}

/* Stores maximum and sum of the 16 rows of a warp to shared memory at
 * `address`, a float2 *, for the epilogue. */
void attention_put_row_state(Buffer *out, const AttentionKernelSpec *t,
                             const char *address) {
  FragmentLayout h = fragment_layout_mma_c();
  if (!attention_has_row_sums(t))
    return;
  buffer_printf(out,
                "float2 *const carried = %s;\n"
                "#pragma unroll\nfor (int h = 0; h < 2; h++)\n"
                "if (lane %% 4u == 0)\ncarried[h * 8 + ",
                address);
  layout_print(out, &h.thread_row, "lane");
  buffer_printf(out, "] = make_float2(%s, total[h]);\n",
                t->shape->subtract_max ? "most[h]" : "0.0f");
}

/* Checks whether the trimmed bounds are invalid for a row of the block. */
void attention_put_trim_check(Buffer *out, const AttentionKernelSpec *t) {
  FragmentLayout h = fragment_layout_mma_c();
  buffer_puts(out, "bool wrong = false;\n"
                   "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                   "const int r = row0 + (int)(warp * 16u) + h * 8 + (int)");
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, ";\nif (r < rows) {\n");
  gemm_put_unravel(out, &t->first.m, "r");
  t->put_trim_check(t->owner, out, "most[h]", "total[h]", "wrong");
  buffer_puts(out, "}\n}\n");
}

static void put_row_factors(Buffer *out, const AttentionKernelSpec *t) {
  if (!t->put_row_factors)
    return;
  t->put_row_factors(t->owner, out, true);
  buffer_puts(out, "{\n");
  gemm_put_unravel(out, &t->first.m, "i");
  t->put_row_factors(t->owner, out, false);
  buffer_puts(out, "}\n");
}

void attention_put_register_rows(Buffer *out, const AttentionKernelSpec *t,
                                 Buffer *row_prologue) {
  if (!attention_has_row_sums(t)) {
    put_row_factors(row_prologue, t);
    return;
  }
  buffer_printf(out,
                "const float row_most[2] = {%s}, "
                "row_total[2] = {total[0], total[1]};\n",
                t->shape->subtract_max ? "most[0], most[1]" : "0.0f, 0.0f");
  buffer_puts(row_prologue,
              "const float most = row_most[h], total = row_total[h];\n"
              "(void)most, (void)total;\n");
  put_row_factors(row_prologue, t);
}

void attention_put_row_prologue(Buffer *out, const AttentionKernelSpec *t) {
  if (!attention_has_row_sums(t)) {
    put_row_factors(out, t);
    return;
  }
  buffer_puts(out, "const float most = carried[slab_row].x, total = "
                   "carried[slab_row].y;\n(void)most, (void)total;\n");
  put_row_factors(out, t);
  if (!t->put_row_outputs)
    return;
  buffer_puts(out, "if (j == 0) {\n");
  gemm_put_unravel(out, &t->first.m, "i");
  t->put_row_outputs(t->owner, out);
  buffer_puts(out, "}\n");
}

void attention_put_pack_all(Buffer *out, const AttentionKernelSpec *t) {
  buffer_printf(out, "#pragma unroll\nfor (int i = 0; i < %u; i++)\n",
                t->schedule->n / 4);
  buffer_printf(out, "p[i] = ax_pack_%s(s[i * 2], s[i * 2 + 1]);\n",
                dtype_info[t->shape->value.dtype].name);
}
