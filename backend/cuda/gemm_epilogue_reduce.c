/* Row reductions in the epilogue of a matmul.  The threads that hold
 * accumulators of a row reduce them, combine their results by shuffles, and
 * store one partial result per row and tile. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

enum { CORE_MATRIX_COLUMNS = 8, WARP_LANES = 32 };

/* Neighbouring lanes that share a row. */
static uint32_t lanes_per_row(const GemmSchedule *s) {
  uint32_t column_threads = s->thread_n ? s->n / s->thread_n : 0;
  if (s->mma_kind == MMA_KIND_FMA)
    return column_threads < WARP_LANES ? column_threads : WARP_LANES;
  FragmentLayout h = fragment_layout_mma_c();
  uint32_t lanes = 1;
  while (layout_at(&h.thread_row, lanes) == 0)
    lanes++;
  return lanes;
}

uint32_t gemm_row_partials(const GemmSchedule *s) {
  switch ((MmaKind)s->mma_kind) {
  case MMA_KIND_FMA:
    return s->n / s->thread_n / lanes_per_row(s);
  case MMA_KIND_MMA_SYNC:
    return s->warps_n;
  case MMA_KIND_WGMMA:
  case MMA_KIND_TCGEN05:
  case MMA_KIND_NONE:
    break;
  }
  return 1;
}

bool gemm_can_reduce_rows(const GemmSchedule *s) {
  /* The combine step needs complete warps. */
  return gemm_threads(s) % WARP_LANES == 0;
}

/* Emits one level of a row's reductions.  column_loop opens the loop over the
 * columns, and declares `column` and `term`. */
static void put_level(Buffer *out, const GemmKernelSpec *t, uint32_t level,
                      const char *column_loop) {
  const RowReductionCallbacks *r = &t->row_reduction;
  r->put_init(t->owner, out, level);
  buffer_puts(out, column_loop);
  buffer_puts(out, r->out_of_bounds_safe
                       ? "const bool there = column < n_all;\n{\n"
                       : "const bool there = true;\n"
                         "if (i < m_all && column < n_all) {\n");
  gemm_put_unravel(out, &t->n, "column");
  r->put_update(t->owner, out, level, "term");
  buffer_puts(out, "}\n}\n");
  r->put_combine(t->owner, out, level, lanes_per_row(t->schedule));
}

/* part: number of the partial result within the tile.  is_writer: condition
 * for the lane that stores it. */
static void put_row_reduction(Buffer *out, const GemmKernelSpec *t,
                              const char *column_loop, const char *part,
                              const char *is_writer) {
  const RowReductionCallbacks *r = &t->row_reduction;
  const GemmSchedule *s = t->schedule;
  gemm_put_unravel(out, &t->m, "i");
  for (uint32_t level = 0; level < r->level_count; level++)
    put_level(out, t, level, column_loop);
  /* Blocks of a cluster may have tiles beyond the last column. */
  buffer_printf(out,
                "if (%s && i < m_all%s) {\n"
                "const int64_t part = (int64_t)(n0 / %uu * %uu + %s);\n"
                "const int64_t point = (int64_t)batch * m_all + i;\n",
                is_writer, s->cluster_n > 1 ? " && n0 < (unsigned)n_all" : "",
                s->n, gemm_row_partials(s), part);
  for (uint32_t level = 0; level < r->level_count; level++)
    r->put_store_partial(t->owner, out, level);
  buffer_puts(out, "}\n");
}

void gemm_put_row_reduction(Buffer *out, const GemmKernelSpec *t,
                            const char *sums, const char *row,
                            const char *column, const char *part) {
  const GemmSchedule *s = t->schedule;
  uint32_t columns = gemm_warp_columns(s);
  FragmentLayout h = fragment_layout_mma_c();
  Buffer column_loop = {.arena = out->arena}, is_writer = column_loop;
  if (!t->row_reduction.level_count)
    return;
  buffer_printf(&column_loop,
                "#pragma unroll\nfor (int z = 0; z < %u; z++)\n"
                "#pragma unroll\nfor (int v = 0; v < 2; v++) {\n"
                "const int column = (int)(n0 + %s + z * %uu + ",
                columns / CORE_MATRIX_COLUMNS, column, CORE_MATRIX_COLUMNS);
  layout_print(&column_loop, &h.thread_column, "lane");
  buffer_printf(&column_loop,
                ") + v;\nconst float term = %s[z * 4 + h * 2 + v];\n", sums);
  buffer_printf(&is_writer, "lane %% %uu == 0", lanes_per_row(s));
  buffer_printf(out,
                "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                "const int i = (int)(m0 + %s + h * %uu + ",
                row, (uint32_t)layout_at(&h.value_row, 2));
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, ");\n");
  put_row_reduction(out, t, column_loop.text, part, is_writer.text);
  buffer_puts(out, "}\n");
  buffer_free(&column_loop);
  buffer_free(&is_writer);
}

void gemm_put_row_reduction_fma(Buffer *out, const GemmKernelSpec *t,
                                uint32_t vector_m, uint32_t vector_n) {
  const GemmSchedule *s = t->schedule;
  uint32_t lanes = lanes_per_row(s);
  Buffer column_loop = {.arena = out->arena}, part = column_loop,
         is_writer = column_loop;
  if (!t->row_reduction.level_count)
    return;
  buffer_printf(&column_loop,
                "#pragma unroll\nfor (int w = 0; w < %u; w++)\n"
                "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                "const int column = (int)(n0 + b_place * %uu + w * %uu) + v;\n"
                "const %s term = sums[u][w * %u + v];\n",
                s->thread_n / vector_n, vector_n, vector_n,
                s->n / s->thread_n * vector_n,
                gemm_compute_type(t->shape->accumulator_dtype), vector_n);
  buffer_printf(&part, "b_place / %uu", lanes);
  buffer_printf(&is_writer, "b_place %% %uu == 0", lanes);
  buffer_printf(out,
                "#pragma unroll\nfor (int u = 0; u < %u; u++) {\n"
                "const int i = (int)(m0 + a_place * %uu + u / %u * %uu + u %% "
                "%u);\n",
                s->thread_m, vector_m, vector_m, s->m / s->thread_m * vector_m,
                vector_m);
  put_row_reduction(out, t, column_loop.text, part.text, is_writer.text);
  buffer_puts(out, "}\n");
  buffer_free(&column_loop);
  buffer_free(&part);
  buffer_free(&is_writer);
}
