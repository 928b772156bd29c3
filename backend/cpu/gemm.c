/* Matmuls as C: the micro-kernel, whose accumulators stay in registers, and the
 * loops around it. */
#include "backend/cpu/gemm.h"

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/nest_writer.h"
#include "backend/cpu/prepack.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

static const GemmTiling *tiling_of(const Emitter *e, uint32_t loop) {
  return &e->cpu->schedule->gemm_tilings->by_loop[loop];
}

/* ---- micro-kernel ---- */

static TileVariant full_tile(const GemmTiling *t) {
  return (TileVariant){.mr = t->mr, .nr_vectors = t->nr_vectors};
}

TileVariant gemm_last_panel_tile(const GemmTiling *t) {
  bool is_partial = t->b.packing == OPERAND_UNPACKED;
  return (TileVariant){.mr = t->mr,
                       .nr_vectors = t->last_panel_vectors,
                       .is_partial = is_partial};
}

static const char *tile_function_name(Emitter *e, const GemmTiling *t,
                                      uint32_t loop_index,
                                      const TileVariant *v) {
  const char *id = gemm_suffix(e, loop_index);
  const char *name = format(e, "%s%s",
                            v->prefetches   ? "far"
                            : v->mr < t->mr ? "short"
                                            : "tile",
                            id);
  if (t->has_short_tiles && v->mr < t->mr)
    name = format(e, "%s_of%u", name, v->mr);
  if (v->nr_vectors != t->nr_vectors)
    name = format(e, "%s_%u", name, v->nr_vectors);
  if (v->border_tile)
    name = format(e, "%s_end%u", name, v->border_tile - 1);
  return v->is_partial ? format(e, "%s_cut", name) : name;
}

/* Loads one vector of b. is_partial: with a mask. */
static void emit_b_load(const GemmTiling *t, char x, uint32_t j,
                        bool is_partial, Buffer *out) {
  if (is_partial)
    buffer_printf(out, "v%c b%u = ldp_%s(b + %u * W, live%u);\n", x, j,
                  dtype_info[t->element_dtype].name, j, j);
  else
    buffer_printf(out, "v%c b%u = *(const v%c_u *)(b + %u * W);\n", x, j, x, j);
}

/* One term: loads vectors of b and multiplies them with rows from .. to - 1 of
 * a. offset: where a's column begins, or NULL. */
static void emit_rank_1_update(Emitter *e, const GemmTiling *t,
                               const TileVariant *variant, const char *offset,
                               uint32_t from, uint32_t to, Buffer *out) {
  bool is_bf16_dot = t->element_dtype == DT_I32;
  bool a_is_row_major = !offset && !gemm_rows_are_contiguous(t);
  char x = value_class(t->element_dtype);
  for (uint32_t j = 0; j < variant->nr_vectors && t->prefetch_b; j++)
    buffer_printf(out, "__builtin_prefetch(b + %d * ldb + %u * W);\n",
                  PREFETCH_TERMS, j);
  bool pins_register =
      variant->mr > 1 && dtype_info[t->element_dtype].bytes * e->width ==
                             e->cpu->schedule->vector_bytes;
  for (uint32_t j = 0; j < variant->nr_vectors; j++) {
    emit_b_load(t, x, j, variant->is_partial, out);
    if (pins_register)
      buffer_printf(out, "HELD(b%u);\n", j);
  }
  if (offset)
    buffer_printf(out, "const %s *const p = a + %s;\n", gemm_load_type(t),
                  offset);
  for (uint32_t i = from; i < to; i++) {
    buffer_printf(out, "const v%c a%u = %s[%u%s] - (v%c){0};\n", x, i,
                  offset ? "p" : "a", i, a_is_row_major ? " * lda" : "", x);
    for (uint32_t j = 0; j < variant->nr_vectors; j++)
      buffer_printf(out,
                    is_bf16_dot ? "dot_bf16(c%u_%u, a%u, b%u);\n"
                                : "c%u_%u += a%u * b%u;\n",
                    i, j, i, j);
  }
  buffer_printf(out, "%sb += ldb;\n",
                offset           ? ""
                : a_is_row_major ? "a++;\n"
                                 : "a += lda;\n");
}

/* If a group takes all its terms, one loop runs over all groups.  Otherwise the
 * loop order is filter row, group, filter column. */
void gemm_open_term_groups(const GemmTiling *t, uint32_t step, Buffer *out) {
  buffer_printf(out,
                "const %s *const first = b;\n"
                "const int whole = taken == group;\n"
                "const int64_t runs = whole ? 1 : groups;\n"
                "const int64_t length = whole ? groups * group : row;\n"
                "for (int64_t part = 0; part < taken;\n"
                "part += whole ? group : row)\n"
                "for (int64_t g = 0; g < runs; g++) {\n"
                "const int32_t *const at = offsets + g * group + part;\n"
                "b = first + (g * group + part) * ldb;\n"
                "for (int64_t k = 0; k < length; k += %u) {\n",
                gemm_load_type(t), step);
}

/* Terms in groups, of which each takes `taken` terms from the first one on.  In
 * a border tile, each column of the filter has its own range of rows. */
static void emit_grouped_terms(Emitter *e, const GemmTiling *t,
                               const TileVariant *variant, Buffer *out) {
  const PaddingPeel *r = &t->window->padding;
  const BorderTile *end =
      variant->border_tile ? &r->border_tiles[variant->border_tile - 1] : NULL;
  uint32_t unrolled = r->peeled_terms ? r->peeled_terms : 1;
  if (variant->prefetches)
    buffer_puts(out, "const int64_t hop =\n"
                     "taken ? (each * group + taken - 1) / taken : 0;\n");
  gemm_open_term_groups(t, unrolled, out);
  for (uint32_t k = 0; k < unrolled; k++) {
    buffer_puts(out, variant->prefetches
                         ? "{\n__builtin_prefetch(next, 0, 2);\nnext += hop;\n"
                         : "{\n");
    emit_rank_1_update(e, t, variant, format(e, "at[k + %u]", k),
                       end ? end->row_begin[k] : 0,
                       end ? end->row_end[k] : variant->mr, out);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "}\n}\n");
}

static void emit_micro_kernel_loop(Emitter *e, const GemmTiling *t,
                                   const TileVariant *variant, Buffer *out) {
  uint32_t rows = variant->mr, vectors = variant->nr_vectors;
  for (uint32_t i = 0; i < rows; i++)
    for (uint32_t j = 0; j < vectors; j++)
      buffer_printf(out, "v%c c%u_%u = {0};\n",
                    value_class(t->accumulator_dtype), i, j);
  for (uint32_t j = 0; j < vectors && variant->is_partial; j++)
    buffer_printf(out,
                  "const int live%u = columns <= %u * W ? 0\n"
                  ": columns < %u * W ? (int)columns - %u * W : W;\n",
                  j, j, j + 1, j);
  if (gemm_groups_terms(t)) {
    emit_grouped_terms(e, t, variant, out);
    return;
  }
  if (variant->prefetches)
    buffer_puts(out, "for (int64_t k = 0, l = 1; l <= W; l++, next += apart)\n"
                     "for (int64_t line = 0; k < depth * l / W; k++) {\n"
                     "__builtin_prefetch(next + line, 0, 2);\nline += each;\n");
  else
    buffer_puts(out, "for (int64_t k = 0; k < depth; k++) {\n");
  emit_rank_1_update(e, t, variant,
                     gemm_is_along_channels(t) ? "offsets[k]" : NULL, 0, rows,
                     out);
  buffer_puts(out, "}\n");
}

const char *gemm_tile_sizes(const GemmTiling *t, bool typed) {
  if (!gemm_groups_terms(t))
    return typed ? "int64_t depth" : "depth";
  return typed ? "int64_t groups, int64_t group, int64_t row, int64_t taken"
               : "groups, group, row, taken";
}

static void emit_micro_kernel_head(Emitter *e, const GemmTiling *t,
                                   uint32_t loop_index,
                                   const TileVariant *variant,
                                   const char *attribute, Buffer *out) {
  const char *of = gemm_load_type(t);
  const char *last =
      variant->prefetches
          ? format(e, ", int64_t each%s,\nconst %s *next",
                   t->window->padding.group_terms ? "" : ", int64_t apart", of)
      : variant->is_partial ? ", int64_t columns"
                            : "";
  buffer_printf(
      out,
      "static __attribute__((noinline)) %svoid\n"
      "%s(const %s *a, %s, const %s *b, int64_t ldb,\n"
      "%s, %s *c, int64_t ldc, int more%s) {\n",
      attribute, tile_function_name(e, t, loop_index, variant), of,
      gemm_is_along_channels(t) ? "const int32_t *offsets" : "int64_t lda", of,
      gemm_tile_sizes(t, true), memory_type(t->accumulator_dtype), last);
}

/* The same tile in quick objects.  Those that call the rolled tile do not
 * prefetch. */
static void emit_quick_variant(Emitter *e, const GemmTiling *t,
                               uint32_t loop_index, const TileVariant *variant,
                               Buffer *out) {
  if (variant->prefetches) {
    buffer_puts(out, "#ifndef QUICK\n");
    return;
  }
  buffer_puts(out, "#ifdef QUICK\n");
  if (quick_tile_is_macro(t, variant)) {
    const char *name = tile_function_name(e, t, loop_index, variant);
    buffer_printf(out, "#undef %s\n#define %s(...) ", name, name);
    emit_quick_tile_call(e, t, loop_index, variant, out);
  } else {
    emit_micro_kernel_head(e, t, loop_index, variant, "", out);
    emit_quick_tile_call(e, t, loop_index, variant, out);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "#else\n");
}

/* c += a * b, or c = a * b, with fused multiply-adds over `depth` terms. */
static void emit_micro_kernel(Emitter *e, const GemmTiling *t,
                              uint32_t loop_index, TileVariant variant,
                              Buffer *out) {
  char v = value_class(t->accumulator_dtype);
  bool is_micro = t->micro && variant.mr == t->mr && !variant.is_partial &&
                  variant.nr_vectors == t->nr_vectors && !variant.prefetches;
  bool is_quick = !is_micro && quick_tile_applies(t);
  if (is_quick)
    emit_quick_variant(e, t, loop_index, &variant, out);
  emit_micro_kernel_head(e, t, loop_index, &variant, "FUSED ", out);
  buffer_puts(out, "FUSING\n");
  if (is_micro) {
    bool by_columns = gemm_rows_are_contiguous(t);
    buffer_printf(out, "%s(a, %s, %s, b, ldb, depth, c, ldc, more);\n}\n",
                  micro_kernel_function(e->arena, t->micro),
                  by_columns ? "1" : "lda", by_columns ? "lda" : "1");
    return;
  }
  emit_micro_kernel_loop(e, t, &variant, out);
  for (uint32_t i = 0; i < variant.mr; i++)
    for (uint32_t j = 0; j < variant.nr_vectors; j++)
      buffer_printf(out,
                    "v%c_u *const r%u_%u = (v%c_u *)(c + %u * ldc + %u * W);\n"
                    "if (more)\nc%u_%u += *r%u_%u;\n*r%u_%u = c%u_%u;\n",
                    v, i, j, v, i, j, i, j, i, j, i, j, i, j);
  buffer_puts(out, is_quick ? "}\n#endif\n" : "}\n");
}

/* ---- edges ---- */

/* Copies the remainder rows of a to `rest` and pads them with zeros to a full
 * tile.  A single loop with a condition would become masked loads of rows
 * behind the tensor.  Where these are not mapped, x86 suppresses their faults
 * in microcode, in hundreds of cycles each. */
static void emit_zero_padded_a(const GemmTiling *t, const char *id,
                               Buffer *out) {
  if (!gemm_rows_are_contiguous(t))
    buffer_printf(out,
                  "%s rest[MR%s * %d] __attribute__((aligned(64)));\n"
                  "if (rows < LEAST%s) {\n"
                  "for (int64_t i = 0; i < rows; i++)\n"
                  "for (int64_t k = 0; k < depth; k++)\n"
                  "rest[i * depth + k] = a[i * lda + k];\n"
                  "for (int64_t k = rows * depth; k < MR%s * depth; k++)\n"
                  "rest[k] = 0;\n"
                  "a = rest;\nlda = depth;\n}\n",
                  memory_type(t->element_dtype), id, MAX_KC, id, id);
}

/* The call of the tile with `rows` rows. */
static void emit_edge_call(Emitter *e, const GemmTiling *t, uint32_t loop_index,
                           uint32_t rows, Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  const char *arguments = "(a, lda, b, ldb, depth, to, apart, on";
  TileVariant full = full_tile(t), last = gemm_last_panel_tile(t);
  full.mr = last.mr = rows;
  if (t->last_panel_vectors)
    buffer_printf(out, "if (columns < NR%s)\n%s%s%s);\nelse\n", id,
                  tile_function_name(e, t, loop_index, &last), arguments,
                  last.is_partial ? ", columns" : "");
  buffer_printf(out, "%s%s);\n", tile_function_name(e, t, loop_index, &full),
                arguments);
}

/* A tile at the edge of the result.  It writes in place if a tile of that size
 * exists.  Otherwise it computes a full tile in a buffer and copies the valid
 * part. */
static void emit_edge_kernel(Emitter *e, const GemmTiling *t,
                             uint32_t loop_index, Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  const char *type = memory_type(t->accumulator_dtype), *of = gemm_load_type(t);
  const char *name = dtype_info[t->accumulator_dtype].name;
  buffer_printf(out,
                "static __attribute__((noinline, unused)) void\n"
                "edge%s(const %s *a, int64_t lda, const %s *b, int64_t ldb,\n"
                "int64_t depth, %s *c, int64_t ldc, int more, int64_t rows, "
                "int64_t columns) {\n"
                "%s r[MR%s * NR%s] __attribute__((aligned(64)));\n"
                "const int fits = columns == NR%s%s;\n"
                "const int whole = fits && rows >= LEAST%s;\n"
                "%s *const to = whole ? c : r;\n"
                "const int64_t apart = whole ? ldc : NR%s;\n"
                "const int on = whole && more;\n",
                id, of, of, type, type, id, id, id,
                t->last_panel_vectors
                    ? format(e, " || columns == %u * W", t->last_panel_vectors)
                    : "",
                id, type, id);
  emit_zero_padded_a(t, id, out);
  if (t->has_mr_minus_one) {
    buffer_printf(out, "if (rows == LEAST%s) {\n", id);
    emit_edge_call(e, t, loop_index, t->mr - 1, out);
    buffer_puts(out, "} else {\n");
  }
  emit_edge_call(e, t, loop_index, t->mr, out);
  buffer_printf(out,
                "%sif (whole)\nreturn;\n"
                "for (int64_t i = 0; i < rows; i++)\n"
                "for (int64_t j = 0; j < columns; j += W) {\n"
                "const int live = columns - j < W ? (int)(columns - j) : W;\n"
                "v%c x = ld_%s(r + i * NR%s + j);\n"
                "if (more)\nx += ldp_%s(c + i * ldc + j, live);\n"
                "stp_%s(c + i * ldc + j, x, live);\n}\n}\n",
                t->has_mr_minus_one ? "}\n" : "", type[0], name, id, name,
                name);
}

/* Tiles for both ends of an image row. */
static void emit_border_kernels(Emitter *e, const GemmTiling *t,
                                uint32_t loop_index, Buffer *out) {
  TileVariant v = full_tile(t);
  for (v.border_tile = 1; v.border_tile <= t->window->padding.border_tile_count;
       v.border_tile++)
    for (uint32_t prefetches = 0; prefetches <= t->prefetch_a; prefetches++) {
      v.prefetches = prefetches;
      emit_micro_kernel(e, t, loop_index, v, out);
    }
}

static void emit_loop_kernels(Emitter *e, const GemmTiling *t,
                              uint32_t loop_index, Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  buffer_printf(out,
                "#define MR%s %u\n#define NR%s (%u * W)\n#define LEAST%s %u\n",
                id, t->mr, id, t->nr_vectors, id, t->mr - t->has_mr_minus_one);
  TileVariant full = full_tile(t), last = gemm_last_panel_tile(t), other = full;
  if (quick_tile_applies(t))
    emit_quick_tile(e, t, loop_index, out);
  emit_micro_kernel(e, t, loop_index, full, out);
  other.prefetches = true;
  if (t->prefetch_a)
    emit_micro_kernel(e, t, loop_index, other, out);
  other.prefetches = false;
  for (uint32_t part = 1; part < SHORT_TILE_STEPS && t->has_short_tiles;
       part++) {
    other.mr = gemm_short_tile_rows(t, part);
    emit_micro_kernel(e, t, loop_index, other, out);
  }
  if (gemm_is_along_channels(t)) {
    emit_border_kernels(e, t, loop_index, out);
    return;
  }
  for (other.nr_vectors = 1; other.nr_vectors < t->nr_vectors && t->window;
       other.nr_vectors++)
    emit_micro_kernel(e, t, loop_index, other, out);
  if (t->last_panel_vectors)
    emit_micro_kernel(e, t, loop_index, last, out);
  full.mr = last.mr = t->mr - 1;
  if (t->has_mr_minus_one)
    emit_micro_kernel(e, t, loop_index, full, out);
  if (t->has_mr_minus_one && t->last_panel_vectors)
    emit_micro_kernel(e, t, loop_index, last, out);
  emit_edge_kernel(e, t, loop_index, out);
  if (t->window)
    emit_conv_tile_dispatch(e, t, loop_index, out);
}

/* The micro-kernel of a loop, if no earlier loop has it. */
static const MicroKernel *new_micro_kernel(const Emitter *e, uint32_t loop) {
  const MicroKernel *m = tiling_of(e, loop)->micro;
  for (uint32_t j = 0; j < loop; j++)
    if (tiling_of(e, j)->micro == m)
      return NULL;
  return m;
}

void emit_gemm_functions(Emitter *e, Buffer *out) {
  char transposed[4] = "";
  for (uint32_t j = 0; j < e->kernel->loops.len; j++) {
    const MicroKernel *m = new_micro_kernel(e, j);
    if (m)
      micro_kernel_declare(out, m);
  }
  for (uint32_t j = 0; j < e->kernel->loops.len; j++) {
    const GemmTiling *t = tiling_of(e, j);
    if (!t->is_gemm)
      continue;
    char v = value_class(t->element_dtype);
    bool needs_transpose =
        (t->b.nest && nest_transposed(t->b.nest) != NO_LOOP) ||
        gemm_is_along_channels(t);
    if (needs_transpose && !strchr(transposed, v)) {
      emit_transpose_function(e, out, v);
      transposed[strlen(transposed)] = v;
    }
    emit_loop_kernels(e, t, j, out);
  }
}

void emit_micro_kernel_texts(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->kernel->loops.len; j++) {
    const MicroKernel *m = new_micro_kernel(e, j);
    if (m)
      micro_kernel_put_text(out, m);
  }
}

/* ---- the result ---- */

/* Declares c, the address of element m0, n0, and ldc, its row stride. */
static void emit_c_pointer(Emitter *e, const GemmTiling *t, uint32_t loop_index,
                           Buffer *task_code, Buffer *out) {
  LoopNest *loop = e->kernel->loops.at[loop_index];
  const LoopOutput *r = &loop->outputs.at[0];
  const char *type = memory_type(t->accumulator_dtype);
  emit_begin_loop(e, loop, NO_AXIS, 0, NULL);
  const AffineExpr *q = r->global_index ? r->global_index : r->local_index;
  AffineExpr base = *q;
  base.coef[t->m_axis] = base.coef[t->n_axis] = 0;
  for (uint32_t v = loop->parallel_axes;
       v < loop->spatial_axes && gemm_merges_batch(t); v++)
    base.coef[v] = 0;
  const char *offset = emit_affine(e, &base);
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(task_code, &e->levels.code[OUTER_LEVEL]);
  if (r->global_index) {
    uint32_t output = emit_output_number(e, &loop->outputs.at[0]);
    const char *ldc = emit_int(e, r->global_index->coef[t->m_axis]);
    e->cpu->out->accumulator_dtype = t->accumulator_dtype; /* for split-K */
    buffer_printf(out,
                  "const int64_t ldc = %s;\n"
                  "%s *const c = o%u + %s + m0 * ldc + n0%s;\n",
                  ldc, type, output, offset,
                  e->cpu->schedule->reduction_chunk ? " + share" : "");
    return;
  }
  const LocalBuffer *l = &e->function.locals[loop_index][0];
  if (e->cpu->schedule->task_kind == TASK_TILE) /* m0 is top, and n0 is lo */
    buffer_printf(out, "const int64_t ldc = %s;\n%s *const c = l%u;\n",
                  l->row_elements, type, l->id);
  else
    buffer_printf(out,
                  "const int64_t ldc = %s;\n"
                  "%s *const c = l%u + (m0 - lo) * %s + %s + n0;\n",
                  gemm_merges_batch(t)
                      ? emit_int(e, q->coef[loop->spatial_axes - 2])
                      : l->point_elements,
                  type, l->id, l->point_elements, offset);
}

/* ---- loops around the tile ---- */

/* Declares the rows m0 .. m1 - 1.  code: the ranges of rows and columns. */
static void emit_mn_ranges(Emitter *e, const GemmTiling *t, uint32_t loop_index,
                           TileCode *code, Buffer *out) {
  const LoopNest *loop = e->kernel->loops.at[loop_index];
  const char *n_axis = emit_int(e, loop->extents[t->n_axis]),
             *id = gemm_suffix(e, loop_index);
  bool tile = e->cpu->schedule->task_kind == TASK_TILE,
       is_trimmed = loop_is_trimmed(loop, t->n_axis);
  code->begin[t->m_axis] = "m0", code->end[t->m_axis] = "m1";
  code->begin[t->n_axis] = tile ? "lo" : "0";
  code->end[t->n_axis] = tile ? "hi" : n_axis;
  if (!loop->accumulated_axes)
    buffer_printf(out, "const int64_t m0 = %s, m1 = %s;\n", tile ? "top" : "lo",
                  tile ? "bottom" : "hi");
  else if (loop_is_trimmed(loop, t->m_axis))
    buffer_printf(out, "const int64_t m0 = from%u, m1 = to%u;\n", loop_index,
                  loop_index);
  else
    buffer_printf(out, "const int64_t m0 = 0, m1 = %s;\n",
                  emit_int(e, loop->extents[t->m_axis]));
  if (tile || t->hoists_packing)
    buffer_printf(out, "const int64_t n0 = %s, n1 = %s;\n",
                  code->begin[t->n_axis], code->end[t->n_axis]);
  if (!is_trimmed || tile)
    return;
  /* whole panels */
  buffer_printf(out,
                "const int64_t left = from%u / NR%s * NR%s;\n"
                "const int64_t right = (to%u + NR%s - 1) / NR%s * NR%s;\n",
                loop_index, id, id, loop_index, id, id, id);
  code->begin[t->n_axis] = "left", code->end[t->n_axis] = "right";
  if (!t->hoists_packing) {
    buffer_printf(out, "const int64_t stop = right < %s ? right : %s;\n",
                  n_axis, n_axis);
    code->end[t->n_axis] = "stop";
  }
}

static int64_t panel_elements(Emitter *e, const GemmTiling *t) {
  int64_t columns = (int64_t)t->nr_vectors * e->width;
  int64_t block =
      emit_extent_mul(e, emit_extent_ceil_div(e, t->nc, columns), columns);
  return emit_extent_add(e, emit_extent_mul(e, t->pack_kc, block), e->width);
}

void emit_hoisted_packing(Emitter *e, Buffer *out, uint32_t loop_index) {
  const GemmTiling *t = tiling_of(e, loop_index);
  if (!t->hoists_packing)
    return;
  const char *type = memory_type(t->element_dtype);
  Buffer task_code = {.arena = e->arena}, body = task_code;
  e->cpu->hoisted_panels[loop_index] =
      emit_scratch(e, panel_elements(e, t), t->element_dtype);
  const char *columns = emit_int(e, t->b.loop->extents[t->n_axis]);
  buffer_printf(&body,
                "%s *const b = (%s *)(room + %s);\n"
                "const int64_t n0 = 0, n1 = %s, from = 0, to = %s;\n",
                type, type, e->cpu->hoisted_panels[loop_index], columns,
                emit_int(e, t->depth));
  uint32_t prepacked_index;
  bool may_prepack =
      prepack_begin(e, t, &t->b, t->n_axis, loop_index, &prepacked_index);
  if (may_prepack)
    prepack_emit_call(e, prepacked_index, &body);
  else
    gemm_pack_b(e, t, &t->b, t->n_axis, &task_code, &body);
  buffer_printf(out, "%s{\n",
                may_prepack ? format(e, "if (!kept%u) ", prepacked_index) : "");
  emit_append(out, &task_code);
  emit_append(out, &body);
  buffer_puts(out, "}\n");
}

/* An empty reduction also stores a result, so that its loops run once.
 * Trimming a constant extent leaves at least one term. */
static bool may_be_empty(const LoopNest *loop) {
  return !loop_is_trimmed(loop, loop->spatial_axes) ||
         !extent_is_static(loop->graph, loop->extents[loop->spatial_axes]);
}

typedef struct TermRange { /* the terms from .. to - 1 that remain after
                              trimming or split-K */
  const char *from, *to;
} TermRange;

static TermRange term_range(Emitter *e, const GemmTiling *t,
                            uint32_t loop_index) {
  const LoopNest *loop = e->kernel->loops.at[loop_index];
  if (e->cpu->schedule->reduction_chunk)
    return (TermRange){"part", "stop"};
  if (loop->accumulated_axes)
    return (TermRange){"lo", "hi"};
  if (loop_is_trimmed(loop, loop->spatial_axes))
    return (TermRange){format(e, "from%u", loop_index),
                       format(e, "to%u", loop_index)};
  return (TermRange){"0", emit_int(e, t->depth)};
}

/* Arguments for the panel of column y. prepacked_index: of b, or NULL. */
static const char *panel_arguments(Emitter *e, const GemmTiling *t,
                                   uint32_t loop_index,
                                   const uint32_t *prepacked_index) {
  const char *id = gemm_suffix(e, loop_index), *plain = "b + k0 * ldb + y, ldb";
  if (t->b.packing != OPERAND_UNPACKED)
    return format(e, "%s + (k0 - from) * NR%s, NR%s",
                  prepacked_index && !t->hoists_packing
                      ? "panels + (y - n0) * high"
                      : "b + (y - n0) * (to - from)",
                  id, id);
  if (!prepacked_index)
    return plain;
  return format(e,
                "kept%u ? kept%u + y * %s + k0 * NR%s\n: b + k0 * ldb + y, "
                "kept%u ? NR%s : ldb",
                *prepacked_index, *prepacked_index,
                e->cpu->out->prepacked.at[*prepacked_index].depth, id,
                *prepacked_index, id);
}

/* Declares the panels of terms from .. to - 1, `high` terms each: prepacked, or
 * packed now. */
static void emit_prepacked_panels(Emitter *e, uint32_t loop_index,
                                  uint32_t prepacked_index, Buffer *out) {
  const PrepackedOperand *k = &e->cpu->out->prepacked.at[prepacked_index];
  buffer_printf(out, "if (!kept%u)\n", prepacked_index);
  prepack_emit_call(e, prepacked_index, out);
  buffer_printf(out,
                "const %s *const panels =\n"
                "kept%u ? kept%u + n0 * %s + from * NR%s : b;\n"
                "const int64_t high = kept%u ? %s : to - from;\n",
                k->c_type, prepacked_index, prepacked_index, k->depth,
                gemm_suffix(e, loop_index), prepacked_index, k->depth);
}

/* Declares b, the panels of a task or of the kernel. */
static void emit_b_pointer(Emitter *e, const GemmTiling *t, uint32_t loop_index,
                           const uint32_t *prepacked_index, Buffer *out) {
  const char *type = memory_type(t->element_dtype);
  if (!t->hoists_packing)
    gemm_scratch_pointer(e, "b", panel_elements(e, t), t->element_dtype, out);
  else if (prepacked_index)
    buffer_printf(out,
                  "const %s *const b = kept%u ? kept%u : (%s *)(room + %s);\n",
                  type, *prepacked_index, *prepacked_index, type,
                  e->cpu->hoisted_panels[loop_index]);
  else
    buffer_printf(out, "%s *const b = (%s *)(room + %s);\n", type, type,
                  e->cpu->hoisted_panels[loop_index]);
}

/* ---- the nest ---- */

/* The code of a matmul. */
typedef struct GemmCode {
  Emitter *e;
  const GemmTiling *t;
  uint32_t loop_index;
  const uint32_t *prepacked_index; /* of b; NULL: it is not prepacked */
  TermRange range;
  /* Loops of the nest: the first one of each axis, the panels of b, and the
   * rows of its tiles. */
  uint32_t columns, terms, rows, panel, tile;
  TileCode *loops;
  Buffer head;     /* before the loops */
  Buffer task;     /* what the axes outside of the matmul determine */
  Buffer ranges;   /* ranges of rows and columns */
  Buffer point;    /* what the batch axes determine */
  Buffer operands; /* addresses, if an operand is read in place */
} GemmCode;

/* The first loop of an axis in a task. */
static uint32_t first_loop(const Nest *n, uint32_t axis) {
  uint32_t at = 0;
  while (nest_runs_outside(n, at) || n->loops[at].axis != axis)
    at++;
  return at;
}

/* The code before loop `at`. */
static Buffer *code_before(GemmCode *c, uint32_t at) {
  return at && !nest_runs_outside(c->t->nest, at - 1)
             ? &c->loops->before[at - 1]
             : &c->head;
}

/* Names the columns and terms for which b is packed, and packs it. */
static void emit_blocks(GemmCode *c) {
  Emitter *e = c->e;
  const GemmTiling *t = c->t;
  Buffer *out = &c->loops->before[c->terms];
  if (c->columns < c->rows)
    tile_code_name(c->loops, c->columns, "n0", "n1");
  if (c->terms < c->rows)
    tile_code_name(c->loops, c->terms, "from", "to");
  else
    buffer_printf(&c->ranges,
                  "const int64_t from = %s, to = %s;\n(void)from;\n",
                  t->hoists_packing ? "0" : c->range.from,
                  t->hoists_packing ? emit_int(e, t->depth) : c->range.to);
  if (!t->nest->loops[c->terms].packs[NEST_RIGHT])
    return;
  if (c->prepacked_index)
    emit_prepacked_panels(e, c->loop_index, *c->prepacked_index, out);
  else
    gemm_pack_b(e, t, &t->b, t->n_axis, &c->task, out);
}

/* Names the rows of a block, and places what runs on its results. */
static void emit_row_blocks(GemmCode *c, const Buffer *epilogue) {
  const GemmTiling *t = c->t;
  const char *of_each =
      gemm_merges_batch(t)
          ? format(c->e, " * %s", emit_int(c->e, t->batch_rows))
          : "";
  uint32_t axis = t->nest->loops[c->tile].axis;
  Buffer *out = &c->loops->after[c->rows];
  tile_code_name(c->loops, c->rows, "x0", "x1");
  buffer_printf(&c->loops->before[c->rows],
                "const int64_t row0 = x0%s, row1 = x1%s;\n"
                "(void)row0, (void)row1;\n",
                of_each, of_each);
  if (axis == t->nest->flat->axis) {
    c->loops->begin[axis] = "row0";
    c->loops->end[axis] = "row1";
  }
  if (!epilogue)
    return;
  buffer_printf(out,
                "if (to >= %s) {\nconst int64_t y0 = x0, y1 = x1;\n"
                "(void)y0, (void)y1;\n",
                c->range.to);
  emit_append(out, epilogue);
  buffer_puts(out, "}\n");
}

/* One tile.  If the batch is merged, x counts the rows of all its matmuls. */
static void emit_tile(GemmCode *c) {
  Emitter *e = c->e;
  const GemmTiling *t = c->t;
  const LoopNest *loop = e->kernel->loops.at[c->loop_index];
  bool carried = loop->outputs.at[0].updates || loop->accumulated_axes;
  const char *id = gemm_suffix(e, c->loop_index), *first_row = "m0";
  if (t->epilogue_per_block)
    first_row = "row0";
  else if (gemm_merges_batch(t))
    first_row = format(e, "m0 * %s", emit_int(e, t->batch_rows));
  const char *arguments =
      format(e, "(%s,\n%s, k1 - k0,\nc + (x - %s) * ldc + (y - n0), ldc, %s",
             gemm_row_arguments(e, t, "row0"),
             panel_arguments(e, t, c->loop_index, c->prepacked_index),
             first_row, carried ? "1" : format(e, "k0 != %s", c->range.from));
  buffer_printf(&c->loops->tile,
                "const int64_t y = begin%u, x = begin%u, rows = size%u;\n"
                "if (rows == MR%s && y + NR%s <= n1)\n"
                "tile%s%s);\nelse\n"
                "edge%s%s,\nrows, n1 - y < NR%s ? n1 - y : NR%s);\n",
                c->panel, c->tile, c->tile, id, id, id, arguments, id,
                arguments, id, id);
}

/* Places what the loops do not change. */
static void emit_invariants(GemmCode *c) {
  bool shares = c->t->shares_panels;
  uint32_t first = c->columns < c->terms ? c->columns : c->terms;
  Buffer *inner = code_before(c, c->rows), *top = shares ? &c->head
                                                  : first < c->rows
                                                      ? code_before(c, first)
                                                      : inner;
  emit_append(top, &c->task);
  if (!shares)
    emit_append(top, &c->point);
  emit_append(top, &c->ranges);
  if (shares)
    emit_append(inner, &c->point);
  emit_append(inner, &c->operands);
}

static GemmCode *new_code(Emitter *e, uint32_t loop_index) {
  GemmCode *c = NEW(e->arena, GemmCode);
  const GemmTiling *t = tiling_of(e, loop_index);
  const Nest *n = t->nest;
  uint32_t terms = n->spec->spatial_axes;
  const Buffer empty = {.arena = e->arena};
  c->e = e;
  c->t = t;
  c->loop_index = loop_index;
  c->range = term_range(e, t, loop_index);
  c->columns = first_loop(n, t->n_axis);
  c->terms = first_loop(n, terms);
  c->rows = first_loop(n, t->m_axis);
  c->tile = nest_atom(n) - 1;
  c->panel = nest_atom(n) - 2;
  c->head = c->task = c->ranges = c->point = c->operands = empty;
  c->loops = tile_code_new(e, n);
  c->loops->begin[terms] = c->range.from;
  c->loops->end[terms] = c->range.to;
  return c;
}

void emit_gemm(Emitter *e, Buffer *out, uint32_t loop_index,
               const Buffer *epilogue) {
  const GemmTiling *t = tiling_of(e, loop_index);
  if (t->window) {
    emit_conv_gemm(e, out, loop_index, epilogue);
    return;
  }
  if (!t->nest) {
    e->failed = true;
    return;
  }
  GemmCode *c = new_code(e, loop_index);
  const LoopNest *loop = e->kernel->loops.at[loop_index];
  uint32_t k0 = nest_atom(t->nest) - 3, index;
  if (prepack_begin(e, t, &t->b, t->n_axis, loop_index, &index))
    c->prepacked_index = &index;
  c->loops->may_be_empty = may_be_empty(loop);
  gemm_left_operand(e, t, &c->point, &c->ranges, &c->operands);
  if (t->b.packing == OPERAND_UNPACKED)
    gemm_unpacked_operand(e, t, &t->b, loop_term_axis(t->b.loop), &c->task,
                          &c->operands);
  else
    emit_b_pointer(e, t, loop_index, c->prepacked_index, &c->ranges);
  emit_mn_ranges(e, t, loop_index, c->loops, &c->ranges);
  emit_c_pointer(e, t, loop_index, &c->point, &c->operands);
  emit_blocks(c);
  emit_row_blocks(c, epilogue);
  tile_code_name(c->loops, k0, "k0", "k1");
  if (t->nest->loops[k0].packs[NEST_LEFT])
    gemm_pack_a(e, t, &c->point, &c->loops->before[k0]);
  emit_tile(c);
  emit_invariants(c);
  buffer_puts(out, "{\n");
  emit_append(out, &c->head);
  emit_tiles(e, out, t->nest, c->loops);
  buffer_puts(out, "}\n");
}

/* ---- results that accumulate along the rows ---- */

/* Sets the results of a task to zero. */
static void emit_zeros(Emitter *e, Buffer *out, uint32_t loop_index) {
  const LoopNest *loop = e->kernel->loops.at[loop_index];
  const GemmTiling *t = tiling_of(e, loop_index);
  Buffer task_code = {.arena = e->arena}, body = task_code;
  emit_c_pointer(e, t, loop_index, &task_code, &body);
  buffer_puts(out, "{\nconst int64_t m0 = 0, n0 = 0;\n");
  emit_append(out, &task_code);
  emit_append(out, &body);
  const char *rows = emit_int(e, loop->extents[t->m_axis]);
  buffer_printf(out,
                "for (int64_t x = 0; x < %s; x++)\n"
                "for (int64_t y = 0; y < %s; y++)\nc[x * ldc + y] = 0;\n}\n",
                rows, emit_int(e, loop->extents[t->n_axis]));
}

void emit_accumulator_zeros(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->kernel->loops.len; j++)
    if (e->kernel->loops.at[j]->accumulated_axes)
      emit_zeros(e, out, j);
}

/* ---- check for inf and NaN ---- */

static void emit_loop_nonfinite_check(Emitter *e, Buffer *out,
                                      uint32_t loop_index) {
  const GemmTiling *t = tiling_of(e, loop_index);
  Buffer task_code = {.arena = e->arena}, body = task_code;
  gemm_test_b(e, t, &task_code, &body);
  buffer_puts(out, "{\n");
  emit_append(out, &task_code);
  emit_append(out, &body);
  buffer_puts(out, "}\n");
}

void emit_nonfinite_check(Emitter *e, Buffer *out) {
  buffer_puts(out, "vi odds = {0};\n");
  for (uint32_t j = 0; j < e->kernel->loops.len; j++)
    if (e->kernel->loops.at[j]->requires_finite)
      emit_loop_nonfinite_check(e, out, j);
  buffer_puts(out, "const int odd = any_lane(odds);\n");
}
