/* What rows of a contraction come to, tile by tile: those threads that have a
 * row's sums go through them, put together what they found, and leave it as one
 * part of the row. */
#include "backend/cuda/gemmemit.h"

enum { CORE = 8, WARP_MOST = 32 };

/* Neighbouring lanes that have a row. */
static uint32_t lanes_of(const GemmSchedule *s) {
  uint32_t across = s->thread_n ? s->n / s->thread_n : 0;
  if (s->way == GEMM_FMA)
    return across < WARP_MOST ? across : WARP_MOST;
  Held h = held_mma_c();
  uint32_t lanes = 1;
  while (layout_at(&h.thread_row, lanes) == 0)
    lanes++;
  return lanes;
}

uint32_t gemm_row_parts(const GemmSchedule *s) {
  switch ((GemmWay)s->way) {
  case GEMM_FMA:
    return s->n / s->thread_n / lanes_of(s);
  case GEMM_MMA:
    return s->warps_n;
  case GEMM_WGMMA:
  case GEMM_NONE:
    break;
  }
  return 1;
}

bool gemm_may_reduce(const GemmSchedule *s) {
  /* all lanes of a warp put together */
  return gemm_threads(s) % WARP_MOST == 0;
}

/* A row's elements; `each` opens the loop over them, and declares `column` and
 * `term`. */
static void put_level(Buffer *out, const GemmText *t, uint32_t level,
                      const char *each) {
  const GemmRows *r = &t->rows;
  r->begin(t->owner, out, level);
  buffer_puts(out, each);
  buffer_puts(out, r->anywhere ? "const bool there = column < n_all;\n{\n"
                               : "const bool there = true;\n"
                                 "if (i < m_all && column < n_all) {\n");
  gemm_put_axes(out, &t->n, "column");
  r->take(t->owner, out, level, "term");
  buffer_puts(out, "}\n}\n");
  r->join(t->owner, out, level, lanes_of(t->schedule));
}

/* part: which of the tile's; first: is it the thread that leaves it? */
static void put_row(Buffer *out, const GemmText *t, const char *each,
                    const char *part, const char *first) {
  const GemmRows *r = &t->rows;
  const GemmSchedule *s = t->schedule;
  gemm_put_axes(out, &t->m, "i");
  for (uint32_t level = 0; level < r->levels; level++)
    put_level(out, t, level, each);
  /* blocks of a cluster may have tiles beyond the last column */
  buffer_printf(out,
                "if (%s && i < m_all%s) {\n"
                "const int64_t part = (int64_t)(n0 / %uu * %uu + %s);\n"
                "const int64_t point = (int64_t)batch * m_all + i;\n",
                first, s->cluster_n > 1 ? " && n0 < (unsigned)n_all" : "", s->n,
                gemm_row_parts(s), part);
  for (uint32_t level = 0; level < r->levels; level++)
    r->leave(t->owner, out, level);
  buffer_puts(out, "}\n");
}

void gemm_put_rows(Buffer *out, const GemmText *t, const char *sums,
                   const char *row, const char *column, const char *part) {
  const GemmSchedule *s = t->schedule;
  uint32_t columns = s->way == GEMM_WGMMA ? s->n : s->n / s->warps_n;
  Held h = held_mma_c();
  Buffer each = {.arena = out->arena}, first = each;
  if (!t->rows.levels)
    return;
  buffer_printf(&each,
                "#pragma unroll\nfor (int z = 0; z < %u; z++)\n"
                "#pragma unroll\nfor (int v = 0; v < 2; v++) {\n"
                "const int column = (int)(n0 + %s + z * %uu + ",
                columns / CORE, column, CORE);
  layout_print(&each, &h.thread_column, "lane");
  buffer_printf(&each, ") + v;\nconst float term = %s[z * 4 + h * 2 + v];\n",
                sums);
  buffer_printf(&first, "lane %% %uu == 0", lanes_of(s));
  buffer_printf(out,
                "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                "const int i = (int)(m0 + %s + h * %uu + ",
                row, (uint32_t)layout_at(&h.value_row, 2));
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, ");\n");
  put_row(out, t, each.text, part, first.text);
  buffer_puts(out, "}\n");
  buffer_free(&each);
  buffer_free(&first);
}

void gemm_put_rows_fma(Buffer *out, const GemmText *t, uint32_t gm,
                       uint32_t gn) {
  const GemmSchedule *s = t->schedule;
  uint32_t lanes = lanes_of(s);
  Buffer each = {.arena = out->arena}, part = each, first = each;
  if (!t->rows.levels)
    return;
  buffer_printf(&each,
                "#pragma unroll\nfor (int w = 0; w < %u; w++)\n"
                "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                "const int column = (int)(n0 + b_place * %uu + w * %uu) + v;\n"
                "const %s term = sums[u][w * %u + v];\n",
                s->thread_n / gn, gn, gn, s->n / s->thread_n * gn,
                gemm_scalar(t->shape->sum), gn);
  buffer_printf(&part, "b_place / %uu", lanes);
  buffer_printf(&first, "b_place %% %uu == 0", lanes);
  buffer_printf(out,
                "#pragma unroll\nfor (int u = 0; u < %u; u++) {\n"
                "const int i = (int)(m0 + a_place * %uu + u / %u * %uu + u %% "
                "%u);\n",
                s->thread_m, gm, gm, s->m / s->thread_m * gm, gm);
  put_row(out, t, each.text, part.text, first.text);
  buffer_puts(out, "}\n");
  buffer_free(&each);
  buffer_free(&part);
  buffer_free(&first);
}
