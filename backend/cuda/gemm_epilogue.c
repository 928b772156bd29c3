/* Epilogues of matmul kernels: stores from registers or through shared memory,
 * and the split-K fixup. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

#include <string.h>

enum { EPILOGUE_TILE_ROWS = 16, STORE_BYTES = 16 };

/* ---- columns of a row ---- */

static bool is_contiguous(const GemmKernelSpec *t, const GemmOutput *r) {
  uint32_t last = t->batch.count + t->m.count + t->n.count - 1;
  return t->n.count == 1 && r->strides[last] &&
         strcmp(r->strides[last], "1") == 0;
}

static void put_output_offset(Buffer *out, const GemmKernelSpec *t,
                              const GemmOutput *r) {
  const GemmAxisGroup *groups[] = {&t->batch, &t->m, &t->n};
  uint32_t at = 0;
  bool any = false;
  for (uint32_t g = 0; g < 3; g++)
    for (uint32_t j = 0; j < groups[g]->count; j++, at++)
      if (r->strides[at]) {
        buffer_printf(out, "%s%s * (int64_t)(%s)", any ? " + " : "",
                      groups[g]->axes[j].name, r->strides[at]);
        any = true;
      }
  buffer_puts(out, any ? "" : "0");
}

/* Emits 16-byte stores. */
static void put_vector_store(Buffer *out, const GemmKernelSpec *t,
                             uint32_t number, uint32_t count) {
  const GemmOutput *r = &t->outputs[number];
  uint32_t bytes = dtype_info[r->dtype].bytes, lane_width = STORE_BYTES / bytes;
  for (uint32_t from = 0; from < count; from += lane_width) {
    buffer_printf(out, "ax_store_16(row%u + %u, make_uint4(", number, from);
    for (uint32_t w = 0; w < 4; w++) {
      uint32_t at = from + w * 4 / bytes;
      buffer_puts(out, w ? ", " : "");
      if (bytes == 2)
        buffer_printf(out, "ax_pack_%s(y%u[%u], y%u[%u])",
                      dtype_info[r->dtype].name, number, at, number, at + 1);
      else if (r->dtype == DT_F32)
        buffer_printf(out, "__float_as_uint(y%u[%u])", number, at);
      else
        buffer_printf(out, "(unsigned)y%u[%u]", number, at);
    }
    buffer_puts(out, "));\n");
  }
}

static bool is_vectorizable(const GemmKernelSpec *t, const GemmOutput *r,
                            uint32_t count) {
  uint32_t bytes = dtype_info[r->dtype].bytes;
  bool kind = r->dtype == DT_F16 || r->dtype == DT_BF16 || r->dtype == DT_F32 ||
              r->dtype == DT_I32;
  return kind && is_contiguous(t, r) &&
         t->shape->store_align_bytes >= STORE_BYTES &&
         count * bytes % STORE_BYTES == 0;
}

void gemm_put_epilogue_row(Buffer *out, const GemmKernelSpec *t,
                           uint32_t count) {
  static const char *const names[GEMM_MAX_OUTPUTS] = {"y0[v]", "y1[v]", "y2[v]",
                                                      "y3[v]"};
  gemm_put_unravel(out, &t->m, "i");
  for (uint32_t r = 0; r < t->output_count; r++)
    buffer_printf(out, "%s y%u[%u];\n", gemm_compute_type(t->outputs[r].dtype),
                  r, count);
  buffer_printf(out,
                "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                "const int column = j + v;\nif (column < n_all) {\n",
                count);
  gemm_put_unravel(out, &t->n, "column");
  t->put_epilogue(t->owner, out, "x[v]", names);
  for (uint32_t r = 0; r < t->output_count; r++) {
    if (is_vectorizable(t, &t->outputs[r], count))
      continue;
    buffer_printf(out, "((%s *)%s)[", gemm_storage_type(t->outputs[r].dtype),
                  t->outputs[r].pointer);
    put_output_offset(out, t, &t->outputs[r]);
    buffer_puts(out, "] = ");
    gemm_put_narrowed(out, t->outputs[r].dtype, names[r]);
    buffer_puts(out, ";\n");
  }
  buffer_puts(out, "}\n}\n");
  for (uint32_t r = 0; r < t->output_count; r++) {
    const GemmOutput *to = &t->outputs[r];
    const char *type = gemm_storage_type(to->dtype);
    if (!is_vectorizable(t, to, count))
      continue;
    buffer_puts(out, "{\n");
    gemm_put_unravel(out, &t->n, "j");
    buffer_printf(out, "%s *const row%u = (%s *)%s + ", type, r, type,
                  to->pointer);
    put_output_offset(out, t, to);
    buffer_printf(out, ";\nif (j + %u <= n_all) {\n", count);
    put_vector_store(out, t, r, count);
    buffer_printf(out,
                  "} else {\n#pragma unroll\nfor (int v = 0; v < %u; v++)\n"
                  "if (j + v < n_all)\nrow%u[v] = ",
                  count, r);
    gemm_put_narrowed(out, to->dtype, names[r]);
    buffer_puts(out, ";\n}\n}\n");
  }
}

/* ---- mma accumulators ---- */

/* Columns per lane: 16 bytes of the output with the smallest elements. */
static uint32_t lane_columns(const GemmKernelSpec *t) {
  uint32_t min = 4;
  for (uint32_t r = 0; r < t->output_count; r++)
    if (dtype_info[t->outputs[r].dtype].bytes < min)
      min = dtype_info[t->outputs[r].dtype].bytes;
  return min <= 2 ? 8 : 4;
}

/* Stores the accumulators of a warp to shared memory in MMA layout, and loads
 * them row by row for coalesced global stores. */
void gemm_put_epilogue_via_shared(Buffer *out, const GemmKernelSpec *t,
                                  const char *sums, const char *row,
                                  const char *column) {
  const GemmSchedule *s = t->schedule;
  uint32_t columns = gemm_warp_columns(s);
  uint32_t tile_columns = gemm_epilogue_tile_columns(s),
           pitch = gemm_epilogue_tile_pitch(s);
  uint32_t lane_width = lane_columns(t),
           lanes_per_row = tile_columns / lane_width;
  FragmentLayout h = fragment_layout_mma_c();
  buffer_printf(out,
                "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n"
                "ax_sync_warp();\n"
                "#pragma unroll\nfor (int z = 0; z < %u; z++) {\n",
                columns / tile_columns, tile_columns / 8);
  for (uint32_t v = 0; v < 4; v += 2) {
    buffer_printf(out, "*(float2 *)(slab + (%u + ",
                  (uint32_t)layout_at(&h.value_row, v));
    layout_print(out, &h.thread_row, "lane");
    buffer_printf(out, ") * %uu + z * 8 + ", pitch);
    layout_print(out, &h.thread_column, "lane");
    buffer_printf(out,
                  ") = make_float2(%s[y * %u + z * 4 + %u], "
                  "%s[y * %u + z * 4 + %u]);\n",
                  sums, tile_columns / 2, v, sums, tile_columns / 2, v + 1);
  }
  buffer_printf(
      out,
      "}\nax_sync_warp();\n#pragma unroll 1\n"
      "for (unsigned z = lane; z < %uu; z += 32u) {\n"
      "const int i = (int)(m0 + %s + z / %uu);\n"
      "const int j = (int)(n0 + %s + y * %uu + z %% %uu * %uu);\n"
      "if (i < m_all && j < n_all) {\nconst unsigned slab_row = z / %uu;\n"
      "(void)slab_row;\n%sfloat x[%u];\n"
      "#pragma unroll\nfor (int v = 0; v < %u; v += 4) {\n"
      "const float4 w = *(const float4 *)(slab + z / %uu * %uu + "
      "z %% %uu * %uu + v);\n"
      "x[v] = w.x, x[v + 1] = w.y, x[v + 2] = w.z, x[v + 3] = w.w;\n"
      "}\n",
      EPILOGUE_TILE_ROWS * lanes_per_row, row, lanes_per_row, column,
      tile_columns, lanes_per_row, lane_width, lanes_per_row,
      t->row_prologue ? t->row_prologue : "", lane_width, lane_width,
      lanes_per_row, pitch, lanes_per_row, lane_width);
  gemm_put_epilogue_row(out, t, lane_width);
  buffer_puts(out, "}\n}\n}\n");
}

/* ---- split-K ---- */

/* Partial sums are stored in thread-value layout.  The last block adds them in
 * order of their number, so that the result is deterministic. */
void gemm_put_split_k_fixup(Buffer *out, const GemmKernelSpec *t,
                            uint32_t count, uint32_t lane_width) {
  const GemmSchedule *s = t->schedule;
  uint32_t threads = gemm_threads(s);
  buffer_printf(
      out,
      "float *const parts = (float *)%s + (int64_t)whole * %uu + "
      "thread;\n"
      "#pragma unroll\nfor (int r = 0; r < %u; r++)\n"
      "parts[(int64_t)(part * %uu + r) * %uu] = sums[r / %u][r %% %u];\n"
      "__threadfence();\nax_sync();\n"
      "unsigned *const count = (unsigned *)memory;\n"
      "if (thread == 0)\n"
      "*count = atomicAdd((unsigned *)%s + whole, 1u);\n"
      "ax_sync();\nconst bool last = *count == %uu;\nax_sync();\n"
      "if (last) {\n__threadfence();\n"
      "if (thread == 0)\n((unsigned *)%s)[whole] = 0;\n",
      t->workspace, s->split * count * threads, count, count, threads,
      lane_width, lane_width, t->counters, s->split - 1, t->counters);
  buffer_printf(
      out,
      "#pragma unroll\nfor (int r = 0; r < %u; r++)\n"
      "sums[r / %u][r %% %u] = 0;\n"
      "for (int p = 0; p < %u; p++) {\n"
      "#pragma unroll\nfor (int r = 0; r < %u; r++)\n"
      "sums[r / %u][r %% %u] += parts[(int64_t)(p * %u + r) * %uu];\n}\n",
      count, lane_width, lane_width, s->split, count, lane_width, lane_width,
      count, threads);
}
