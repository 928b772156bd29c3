/* Epilogue with TMA stores.  A warp writes 16 rows of each output from its
 * registers to a store buffer in shared memory, and TMA stores the buffer.
 * Stores in flight overlap the next buffer and the mainloop of the next tile.
 * Operands of the epilogue are loaded one buffer ahead. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

enum { CORE_MATRIX_COLUMNS = 8 };

static SmemTile store_tile(const GemmShape *shape, const GemmSchedule *s,
                           Dtype t) {
  uint32_t columns = gemm_tma_store_columns(shape, s);
  uint32_t width = columns * dtype_info[t].bytes, bits = 0;
  while (16u << bits < width)
    bits++;
  return (SmemTile){.rows = STORE_BOX_ROWS,
                    .columns = columns,
                    .element_bytes = dtype_info[t].bytes,
                    .panel_bytes = width,
                    .swizzle = {bits, bits ? 4 : 0, bits ? 3 : 0}};
}

void gemm_tma_store_box(const GemmShape *shape, const GemmSchedule *s, Dtype t,
                        uint32_t box[2], uint32_t *swizzle) {
  SmemTile tile = store_tile(shape, s, t);
  box[0] = tile.columns;
  box[1] = tile.rows;
  *swizzle = smem_tile_descriptor(&tile, false).swizzle;
}

/* ---- kernel source ---- */

static bool is_half(const GemmOutput *r) {
  return dtype_info[r->dtype].bytes == 2;
}

/* Emits the shared memory offset of an element of an output's box. */
static void put_smem_offset(Buffer *out, const GemmKernelSpec *t, uint32_t r,
                            const char *row, const char *column) {
  SmemTile tile = store_tile(t->shape, t->schedule, t->outputs[r].dtype);
  buffer_printf(out, "set + %uu + ",
                r * gemm_tma_box_bytes(t->shape, t->schedule));
  smem_tile_print_offset(out, &tile, row, column);
}

/* Emits loads of pairs for the columns of store stage `ahead`, an expression.
 * The arrays q%u have the pairs of two stages. */
static void put_pair_loads(Buffer *out, const GemmKernelSpec *t,
                           const char *row, const char *ahead) {
  uint32_t columns = gemm_tma_store_columns(t->shape, t->schedule);
  FragmentLayout h = fragment_layout_mma_c();
  buffer_printf(out,
                "{\nconst unsigned ahead = %s;\n"
                "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                "const int i = (int)(m0 + %s + h * %uu + ",
                ahead, row, (uint32_t)layout_at(&h.value_row, 2));
  layout_print(out, &h.thread_row, "lane");
  buffer_puts(out, ");\n(void)i;\n");
  gemm_put_unravel(out, &t->m, "i");
  buffer_printf(out,
                "#pragma unroll\nfor (int z = 0; z < %u; z++) {\n"
                "const int j = (int)(n0 + ahead * %uu + z * %uu + ",
                columns / CORE_MATRIX_COLUMNS, columns, CORE_MATRIX_COLUMNS);
  layout_print(out, &h.thread_column, "lane");
  buffer_puts(out, ");\n");
  gemm_put_unravel(out, &t->n, "j");
  for (uint32_t r = 0; r < t->pair_count; r++)
    buffer_printf(out, "%sq%u[ahead %% 2u][%s] = %s;\n",
                  t->pairs[r].row_invariant ? "if (h == 0)\n" : "", r,
                  t->pairs[r].row_invariant ? "z" : "z * 2 + h",
                  t->pairs[r].element);
  buffer_puts(out, "}\n}\n}\n");
}

/* Emits the epilogue of two neighbouring columns.  in_bounds: the tile is
 * completely in bounds. */
static void put_epilogue_pair(Buffer *out, const GemmKernelSpec *t,
                              const char *sums, bool in_bounds) {
  static const char *const names[GEMM_MAX_OUTPUTS] = {"y0[v]", "y1[v]", "y2[v]",
                                                      "y3[v]"};
  uint32_t columns = gemm_tma_store_columns(t->shape, t->schedule);
  for (uint32_t r = 0; r < t->output_count; r++)
    buffer_printf(out, "float y%u[2] = {0, 0};\n", r);
  for (uint32_t r = 0; in_bounds && r < t->pair_count; r++)
    buffer_printf(out, "const %s pair%u = q%u[y %% 2][%s];\n", t->pairs[r].type,
                  r, r, t->pairs[r].row_invariant ? "z" : "z * 2 + h");
  buffer_printf(out,
                "#pragma unroll\nfor (int v = 0; v < 2; v++) {\n"
                "const int column = j + v;\n(void)column;\n%s{\n",
                in_bounds ? "" : "if (i < m_all && column < n_all) ");
  gemm_put_unravel(out, &t->n, "column");
  buffer_printf(out, "const float x = %s[y * %u + z * 4 + h * 2 + v];\n", sums,
                columns / 2);
  if (in_bounds && t->pair_count)
    t->put_paired_epilogue(t->owner, out, "x", names);
  else
    t->put_epilogue(t->owner, out, "x", names);
  buffer_puts(out, "}\n}\n");
  for (uint32_t r = 0; r < t->output_count; r++) {
    const GemmOutput *to = &t->outputs[r];
    if (is_half(to)) {
      buffer_printf(out, "w%u[z * 2 + h] = ax_pack_%s(y%u[0], y%u[1]);\n", r,
                    dtype_info[to->dtype].name, r, r);
      continue;
    }
    buffer_puts(out, "*(float2 *)(memory + ");
    put_smem_offset(out, t, r, "box_row", "box_column");
    buffer_printf(out, ") = make_float2(y%u[0], y%u[1]);\n", r, r);
  }
}

/* Stores 4 core matrices at a time, in the layout of mma's first operand. */
static void put_stmatrix(Buffer *out, const GemmKernelSpec *t, uint32_t r) {
  FragmentLayout h = fragment_layout_mma_a(2);
  Layout row, column;
  fragment_layout_ldmatrix(&h, 2, false, &row, &column);
  buffer_printf(out, "#pragma unroll\nfor (int z = 0; z < %u; z++) {\n",
                gemm_tma_store_columns(t->shape, t->schedule) /
                    fragment_layout_columns(&h));
  buffer_puts(out, "const unsigned box_row = ");
  layout_print(out, &row, "lane");
  buffer_printf(out, ", box_column = z * %uu + ", fragment_layout_columns(&h));
  layout_print(out, &column, "lane");
  buffer_puts(out, ";\nax_stmatrix_4(shared + ");
  put_smem_offset(out, t, r, "box_row", "box_column");
  buffer_printf(out, ", w%u + z * 4);\n}\n", r);
}

static void put_tma_stores(Buffer *out, const GemmKernelSpec *t,
                           const char *row) {
  uint32_t columns = gemm_tma_store_columns(t->shape, t->schedule), at = 0;
  buffer_printf(out,
                "ax_fence_async();\nax_sync_warp();\nif (lane == 0) {\n"
                "const int i = (int)(m0 + %s), j = (int)(n0 + y * %uu);\n"
                "if (i < m_all && j < n_all) {\n",
                row, columns);
  for (uint32_t r = 0; r < t->output_count; r++) {
    const GemmOutput *to = &t->outputs[r];
    uint32_t axes = 2;
    for (at = 0; at < t->batch.count; at++)
      axes += to->strides[at] != NULL;
    buffer_printf(out, "ax_tma_store_%ud(%s, shared + set + %uu, j, i", axes,
                  to->tensor_map,
                  r * gemm_tma_box_bytes(t->shape, t->schedule));
    for (at = t->batch.count; at-- > 0;)
      if (to->strides[at])
        buffer_printf(out, ", (int)%s", t->batch.axes[at].name);
    buffer_puts(out, ");\n");
  }
  buffer_puts(out, "}\nax_tma_commit();\n}\n");
}

static void put_store_stages(Buffer *out, const GemmKernelSpec *t,
                             const char *sums, const char *row,
                             bool in_bounds) {
  const GemmSchedule *s = t->schedule;
  uint32_t columns = gemm_tma_store_columns(t->shape, s);
  FragmentLayout h = fragment_layout_mma_c();
  bool paired = in_bounds && t->pair_count;
  for (uint32_t r = 0; paired && r < t->pair_count; r++)
    buffer_printf(out, "%s q%u[2][%u];\n", t->pairs[r].type, r,
                  columns / CORE_MATRIX_COLUMNS *
                      (t->pairs[r].row_invariant ? 1 : 2));
  if (paired)
    put_pair_loads(out, t, row, "0");
  buffer_printf(out, "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n",
                s->n / columns);
  if (paired) {
    buffer_printf(out, "if (y + 1 < %u)\n", s->n / columns);
    put_pair_loads(out, t, row, "y + 1");
  }
  buffer_printf(out,
                "const unsigned set = sets + stored %% %uu * %uu;\n"
                "stored++;\n"
                "if (lane == 0)\nax_tma_wait_read<%u>();\nax_sync_warp();\n",
                s->store_stages, gemm_store_stage_bytes(t->shape, s),
                s->store_stages - 1);
  for (uint32_t r = 0; r < t->output_count; r++)
    if (is_half(&t->outputs[r]))
      buffer_printf(out, "unsigned w%u[%u];\n", r, columns / 4);
  buffer_printf(out,
                "#pragma unroll\nfor (int h = 0; h < 2; h++) {\n"
                "const unsigned box_row = h * %uu + ",
                (uint32_t)layout_at(&h.value_row, 2));
  layout_print(out, &h.thread_row, "lane");
  buffer_printf(out, ";\nconst int i = (int)(m0 + %s + box_row);\n(void)i;\n",
                row);
  gemm_put_unravel(out, &t->m, "i");
  buffer_puts(out, t->row_prologue ? t->row_prologue : "");
  buffer_printf(out,
                "#pragma unroll\nfor (int z = 0; z < %u; z++) {\n"
                "const unsigned box_column = z * %uu + ",
                columns / CORE_MATRIX_COLUMNS, CORE_MATRIX_COLUMNS);
  layout_print(out, &h.thread_column, "lane");
  buffer_printf(
      out, ";\nconst int j = (int)(n0 + y * %uu + box_column);\n(void)j;\n",
      columns);
  put_epilogue_pair(out, t, sums, in_bounds);
  buffer_puts(out, "}\n}\n");
  for (uint32_t r = 0; r < t->output_count; r++)
    if (is_half(&t->outputs[r]))
      put_stmatrix(out, t, r);
  put_tma_stores(out, t, row);
  buffer_puts(out, "}\n");
}

/* Only tiles at the edges check the bounds of epilogue loads. */
void gemm_put_epilogue_tma(Buffer *out, const GemmKernelSpec *t,
                           const char *sums, const char *row) {
  const GemmSchedule *s = t->schedule;
  if (t->out_of_bounds_safe) {
    put_store_stages(out, t, sums, row, true);
    return;
  }
  buffer_printf(out, "if (m0 + %u <= m_all && n0 + %u <= n_all) {\n", s->m,
                s->n);
  put_store_stages(out, t, sums, row, true);
  buffer_puts(out, "} else {\n");
  put_store_stages(out, t, sums, row, false);
  buffer_puts(out, "}\n");
}
