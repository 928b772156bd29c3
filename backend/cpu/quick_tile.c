/* Register tiles in quick objects: one function with loops over rows computes
 * all tiles of a matmul.  Its accumulators are in memory, so that it takes
 * twice as long as unrolled tiles.  Unrolled tiles take gcc most of the time of
 * a kernel, and a matmul has one of each size.  Each result adds the same
 * products in the same order. */
#include "backend/cpu/gemm.h"

#define format emit_format

bool quick_tile_applies(const GemmTiling *t) {
  return t->mr > 1;
}

static bool has_border_tiles(const GemmTiling *t) {
  return gemm_is_along_channels(t) && t->window->padding.border_tile_count;
}

static bool has_narrow_tiles(const GemmTiling *t) {
  return !gemm_is_along_channels(t) && (t->last_panel_vectors || t->window);
}

static bool has_partial_tiles(const GemmTiling *t) {
  return t->last_panel_vectors && gemm_last_panel_tile(t).is_partial;
}

static void emit_head(Emitter *e, const GemmTiling *t, const char *id,
                      Buffer *out) {
  const char *of = gemm_load_type(t);
  char v = value_class(t->accumulator_dtype);
  buffer_printf(
      out,
      "static __attribute__((noinline)) %s void\n"
      "rolled%s(const %s *a, %s, const %s *b, int64_t ldb,\n"
      "%s, %s *c, int64_t ldc, int more, int rows%s%s%s) {\n"
      "FUSING\n"
      "v%c s[MR%s][%u];\n"
      "for (int i = 0; i < rows; i++)\n"
      "for (int j = 0; j < %u; j++)\ns[i][j] = (v%c){0};\n",
      t->element_dtype == DT_I32 ? "FUSED" : format(e, "ROLLED_%c", v), id, of,
      gemm_is_along_channels(t) ? "const int32_t *offsets" : "int64_t lda", of,
      gemm_tile_sizes(t, true), memory_type(t->accumulator_dtype),
      has_narrow_tiles(t) ? ", int vectors" : "",
      has_partial_tiles(t) ? ", int64_t columns" : "",
      has_border_tiles(t) ? ", const uint8_t *ends" : "", v, id, t->nr_vectors,
      t->nr_vectors, v);
}

/* Loads the vectors of b of a term.  Vectors that a narrow tile does not have
 * are zero. */
static void emit_b_vectors(Emitter *e, const GemmTiling *t, Buffer *out) {
  char v = value_class(t->element_dtype);
  for (uint32_t j = 0; j < t->nr_vectors; j++) {
    buffer_printf(out, "v%c b%u = {0};\n", v, j);
    if (has_narrow_tiles(t) && j > 0)
      buffer_printf(out, "if (vectors > %u)\n", j);
    buffer_printf(out, "b%u = ", j);
    if (has_partial_tiles(t))
      buffer_printf(out,
                    "columns < %u * W ? ldp_%s(b + %u * W, columns <= %u * W ? "
                    "0 : (int)columns - %u * W)\n: ",
                    j + 1, dtype_info[t->element_dtype].name, j, j, j);
    buffer_printf(out, "%s(const v%c_u *)(b + %u * W);\n",
                  has_partial_tiles(t) ? format(e, "(v%c)*", v) : "*", v, j);
  }
}

/* One term of the rows low .. high - 1. */
static void emit_term(Emitter *e, const GemmTiling *t, const char *low,
                      const char *high, Buffer *out) {
  char v = value_class(t->element_dtype);
  bool by_rows = !gemm_is_along_channels(t) && !gemm_rows_are_contiguous(t);
  emit_b_vectors(e, t, out);
  buffer_printf(out,
                "for (int i = %s; i < %s; i++) {\n"
                "const v%c x = %s[i%s] - (v%c){0};\n",
                low, high, v, gemm_is_along_channels(t) ? "p" : "a",
                by_rows ? " * lda" : "", v);
  for (uint32_t j = 0; j < t->nr_vectors; j++)
    if (t->element_dtype == DT_I32)
      buffer_printf(out, "dot_bf16(s[i][%u], x, b%u);\n", j, j);
    else
      buffer_printf(out, "s[i][%u] = FUSE_%c(x, b%u, s[i][%u]);\n", j, v, j, j);
  buffer_printf(out, "}\n%sb += ldb;\n",
                gemm_is_along_channels(t) ? ""
                : by_rows                 ? "a++;\n"
                                          : "a += lda;\n");
}

static void emit_terms(Emitter *e, const GemmTiling *t, Buffer *out) {
  if (!gemm_groups_terms(t)) {
    buffer_puts(out, "for (int64_t k = 0; k < depth; k++) {\n");
    if (gemm_is_along_channels(t))
      buffer_printf(out, "const %s *const p = a + offsets[k];\n",
                    gemm_load_type(t));
    emit_term(e, t, "0", "rows", out);
    buffer_puts(out, "}\n");
    return;
  }
  uint32_t step = t->window->padding.peeled_terms;
  step = step ? step : 1;
  gemm_open_term_groups(t, step, out);
  buffer_printf(out,
                "for (int l = 0; l < %u; l++) {\n"
                "const %s *const p = a + at[k + l];\n",
                step, gemm_load_type(t));
  if (has_border_tiles(t))
    buffer_puts(out, "const int low = ends ? ends[2 * l] : 0;\n"
                     "const int high = ends ? ends[2 * l + 1] : rows;\n");
  emit_term(e, t, has_border_tiles(t) ? "low" : "0",
            has_border_tiles(t) ? "high" : "rows", out);
  buffer_puts(out, "}\n}\n}\n");
}

void emit_quick_tile(Emitter *e, const GemmTiling *t, uint32_t loop_index,
                     Buffer *out) {
  char v = value_class(t->accumulator_dtype);
  buffer_puts(out, "#ifdef QUICK\n");
  emit_head(e, t, gemm_suffix(e, loop_index), out);
  emit_terms(e, t, out);
  buffer_printf(
      out,
      "for (int i = 0; i < rows; i++)\n"
      "for (int j = 0; j < %s; j++) {\n"
      "v%c_u *const to = (v%c_u *)(c + i * ldc + j * W);\n"
      "*to = more ? s[i][j] + *to : s[i][j];\n}\n}\n#endif\n",
      has_narrow_tiles(t) ? "vectors" : format(e, "%u", t->nr_vectors), v, v);
}

/* The rows of each column of the filter in a border tile. */
static void emit_ends(const GemmTiling *t, const BorderTile *tile,
                      Buffer *out) {
  buffer_puts(out, "static const uint8_t ends[] = {");
  for (uint32_t l = 0; l < t->window->padding.peeled_terms; l++)
    buffer_printf(out, "%u, %u, ", tile->row_begin[l], tile->row_end[l]);
  buffer_puts(out, "};\n");
}

bool quick_tile_is_macro(const GemmTiling *t, const TileVariant *variant) {
  return !has_border_tiles(t) && !variant->is_partial;
}

void emit_quick_tile_call(Emitter *e, const GemmTiling *t, uint32_t loop_index,
                          const TileVariant *variant, Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  if (variant->border_tile)
    emit_ends(t, &t->window->padding.border_tiles[variant->border_tile - 1],
              out);
  bool is_macro = quick_tile_is_macro(t, variant);
  if (is_macro)
    buffer_printf(out, "rolled%s(__VA_ARGS__, %u", id, variant->mr);
  else
    buffer_printf(out, "rolled%s(a, %s, b, ldb, %s, c, ldc, more, %u", id,
                  gemm_is_along_channels(t) ? "offsets" : "lda",
                  gemm_tile_sizes(t, false), variant->mr);
  if (has_narrow_tiles(t))
    buffer_printf(out, ", %u", variant->nr_vectors);
  if (has_partial_tiles(t))
    buffer_puts(out,
                variant->is_partial ? ", columns" : format(e, ", NR%s", id));
  if (has_border_tiles(t))
    buffer_puts(out, variant->border_tile ? ", ends" : ", 0");
  buffer_puts(out, is_macro ? ")\n" : ");\n");
}
