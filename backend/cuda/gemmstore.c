/* What becomes of a contraction's sums. */
#include "backend/cuda/gemmemit.h"

#include <string.h>

enum { SLAB_ROWS = 16, SLAB_COLUMNS = 64, GROUP_COLUMNS = 32, STORE = 16 };

/* ---- a few columns of a row ---- */

static bool is_dense(const GemmText *t, const GemmResult *r) {
  uint32_t last = t->batch.count + t->m.count + t->n.count - 1;
  return t->n.count == 1 && r->strides[last] &&
         strcmp(r->strides[last], "1") == 0;
}

static void put_address(Buffer *out, const GemmText *t, const GemmResult *r) {
  const GemmGroup *groups[] = {&t->batch, &t->m, &t->n};
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

/* Full groups that are aligned go in stores of 16 bytes. */
static void put_vector(Buffer *out, const GemmText *t, uint32_t number,
                       uint32_t count) {
  const GemmResult *r = &t->result[number];
  uint32_t bytes = dtype_info[r->dtype].bytes, each = STORE / bytes;
  for (uint32_t from = 0; from < count; from += each) {
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

static bool may_vector(const GemmText *t, const GemmResult *r, uint32_t count) {
  uint32_t bytes = dtype_info[r->dtype].bytes;
  bool kind = r->dtype == DT_F16 || r->dtype == DT_BF16 || r->dtype == DT_F32 ||
              r->dtype == DT_I32;
  return kind && is_dense(t, r) && t->shape->store_align >= STORE &&
         count * bytes % STORE == 0;
}

void gemm_put_row(Buffer *out, const GemmText *t, uint32_t count) {
  static const char *const names[GEMM_RESULTS] = {"y0[v]", "y1[v]", "y2[v]",
                                                  "y3[v]"};
  gemm_put_axes(out, &t->m, "i");
  for (uint32_t r = 0; r < t->results; r++)
    buffer_printf(out, "%s y%u[%u];\n", gemm_scalar(t->result[r].dtype), r,
                  count);
  buffer_printf(out,
                "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                "const int column = j + v;\nif (column < n) {\n",
                count);
  gemm_put_axes(out, &t->n, "column");
  t->epilogue(t->owner, out, "x[v]", names);
  for (uint32_t r = 0; r < t->results; r++) {
    if (may_vector(t, &t->result[r], count))
      continue;
    buffer_printf(out, "((%s *)%s)[", gemm_stored(t->result[r].dtype),
                  t->result[r].pointer);
    put_address(out, t, &t->result[r]);
    buffer_puts(out, "] = ");
    gemm_put_narrowed(out, t->result[r].dtype, names[r]);
    buffer_puts(out, ";\n");
  }
  buffer_puts(out, "}\n}\n");
  for (uint32_t r = 0; r < t->results; r++) {
    const GemmResult *to = &t->result[r];
    const char *type = gemm_stored(to->dtype);
    if (!may_vector(t, to, count))
      continue;
    buffer_puts(out, "{\n");
    gemm_put_axes(out, &t->n, "j");
    buffer_printf(out, "%s *const row%u = (%s *)%s + ", type, r, type,
                  to->pointer);
    put_address(out, t, to);
    buffer_printf(out, ";\nif (j + %u <= n) {\n", count);
    put_vector(out, t, r, count);
    buffer_printf(out,
                  "} else {\n#pragma unroll\nfor (int v = 0; v < %u; v++)\n"
                  "if (j + v < n)\nrow%u[v] = ",
                  count, r);
    gemm_put_narrowed(out, to->dtype, names[r]);
    buffer_puts(out, ";\n}\n}\n");
  }
}

/* ---- sums of mma ---- */

/* The largest part of a warp's columns that is a power of two, and not too
 * large: that of warpgroups is memory that stages could have. */
uint32_t gemm_slab_columns(const GemmSchedule *s) {
  bool group = s->way == GEMM_WGMMA;
  uint32_t columns = group ? s->n : s->n / s->warps_n;
  uint32_t most = group ? GROUP_COLUMNS : SLAB_COLUMNS, even;
  even = columns & -columns;
  return even < most ? even : most;
}

/* The padding with which stores of pairs of sums, and loads of four, wait least
 * for banks. */
uint32_t gemm_slab_pitch(const GemmSchedule *s) {
  Held h = held_mma_c();
  uint32_t columns = gemm_slab_columns(s), best = 0, cost = UINT32_MAX;
  for (uint32_t padding = 0; padding <= 16; padding += 4) {
    int64_t at[WARP];
    uint32_t pitch = columns + padding, across = columns / 4, sum;
    for (int64_t l = 0; l < WARP; l++)
      at[l] = 4 * (layout_at(&h.thread_row, l) * pitch +
                   layout_at(&h.thread_column, l));
    sum = layout_wavefronts(at, 8);
    for (int64_t l = 0; l < WARP; l++)
      at[l] = 4 * (l / across * pitch + l % across * 4);
    sum += layout_wavefronts(at, 16);
    if (sum < cost) {
      cost = sum;
      best = pitch;
    }
  }
  return best;
}

/* How many columns a lane has: 16 bytes of the narrowest result. */
static uint32_t lane_columns(const GemmText *t) {
  uint32_t least = 4;
  for (uint32_t r = 0; r < t->results; r++)
    if (dtype_info[t->result[r].dtype].bytes < least)
      least = dtype_info[t->result[r].dtype].bytes;
  return least <= 2 ? 8 : 4;
}

/* A warp's sums are put down as it has them, and taken up as memory wants
 * them. */
void gemm_put_slab(Buffer *out, const GemmText *t, const char *sums,
                   const char *row, const char *column) {
  const GemmSchedule *s = t->schedule;
  uint32_t columns = s->way == GEMM_WGMMA ? s->n : s->n / s->warps_n;
  uint32_t slab = gemm_slab_columns(s), pitch = gemm_slab_pitch(s);
  uint32_t each = lane_columns(t), across = slab / each;
  Held h = held_mma_c();
  buffer_printf(out,
                "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n"
                "ax_sync_warp();\n"
                "#pragma unroll\nfor (int z = 0; z < %u; z++) {\n",
                columns / slab, slab / 8);
  for (uint32_t v = 0; v < 4; v += 2) {
    buffer_printf(out, "*(float2 *)(slab + (%u + ",
                  (uint32_t)layout_at(&h.value_row, v));
    layout_print(out, &h.thread_row, "lane");
    buffer_printf(out, ") * %uu + z * 8 + ", pitch);
    layout_print(out, &h.thread_column, "lane");
    buffer_printf(out,
                  ") = make_float2(%s[y * %u + z * 4 + %u], "
                  "%s[y * %u + z * 4 + %u]);\n",
                  sums, slab / 2, v, sums, slab / 2, v + 1);
  }
  buffer_printf(out,
                "}\nax_sync_warp();\n#pragma unroll 1\n"
                "for (unsigned z = lane; z < %uu; z += 32u) {\n"
                "const int i = (int)(m0 + %s + z / %uu);\n"
                "const int j = (int)(n0 + %s + y * %uu + z %% %uu * %uu);\n"
                "if (i < m && j < n) {\nconst unsigned slab_row = z / %uu;\n"
                "(void)slab_row;\n%sfloat x[%u];\n"
                "#pragma unroll\nfor (int v = 0; v < %u; v += 4) {\n"
                "const float4 w = *(const float4 *)(slab + z / %uu * %uu + "
                "z %% %uu * %uu + v);\n"
                "x[v] = w.x, x[v + 1] = w.y, x[v + 2] = w.z, x[v + 3] = w.w;\n"
                "}\n",
                SLAB_ROWS * across, row, across, column, slab, across, each,
                across, t->of_row ? t->of_row : "", each, each, across, pitch,
                across, each);
  gemm_put_row(out, t, each);
  buffer_puts(out, "}\n}\n}\n");
}

/* ---- parts of sums ---- */

/* Each part lies in memory as its threads have it; the block that is the last
 * to come adds them up in their order, so that the sum is always the same. */
void gemm_put_split(Buffer *out, const GemmText *t, uint32_t count,
                    uint32_t each) {
  const GemmSchedule *s = t->schedule;
  uint32_t threads = gemm_threads(s);
  buffer_printf(out,
                "float *const parts = (float *)%s + (int64_t)whole * %uu + "
                "thread;\n"
                "#pragma unroll\nfor (int r = 0; r < %u; r++)\n"
                "parts[(int64_t)(part * %uu + r) * %uu] = c[r / %u][r %% %u];\n"
                "__threadfence();\nax_sync();\n"
                "unsigned *const count = (unsigned *)memory;\n"
                "if (thread == 0)\n"
                "*count = atomicAdd((unsigned *)%s + whole, 1u);\n"
                "ax_sync();\nconst bool last = *count == %uu;\nax_sync();\n"
                "if (!last)\nreturn;\n__threadfence();\n"
                "if (thread == 0)\n((unsigned *)%s)[whole] = 0;\n",
                t->room, s->split * count * threads, count, count, threads,
                each, each, t->counters, s->split - 1, t->counters);
  buffer_printf(
      out,
      "#pragma unroll\nfor (int r = 0; r < %u; r++)\n"
      "c[r / %u][r %% %u] = 0;\n"
      "for (int p = 0; p < %u; p++) {\n"
      "#pragma unroll\nfor (int r = 0; r < %u; r++)\n"
      "c[r / %u][r %% %u] += parts[(int64_t)(p * %u + r) * %uu];\n}\n",
      count, each, each, s->split, count, each, each, count, threads);
}
