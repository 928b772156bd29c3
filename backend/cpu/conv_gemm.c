/* Convolutions as C: a task copies the part of the input that it needs to
 * scratch memory.  Panels are packed from there. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/nest_writer.h"
#include "backend/cpu/prepack.h"
#include "machine/limits/cpu.h"

#define format emit_format

/* ---- tile of a given number of vectors ---- */

void emit_conv_tile_dispatch(Emitter *e, const GemmTiling *t,
                             uint32_t loop_index, Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  const char *type = memory_type(t->accumulator_dtype);
  buffer_printf(out,
                "static __attribute__((noinline)) void\n"
                "part%s(const %s *a, int64_t lda, const %s *b, int64_t depth,\n"
                "%s *c, int64_t ldc, int more, int64_t vectors) {\n",
                id, type, type, type);
  for (uint32_t v = 1; v < t->nr_vectors; v++)
    buffer_printf(out,
                  "if (vectors == %u) {\n"
                  "tile%s_%u(a, lda, b, NR%s, depth, c, ldc, more);\n"
                  "return;\n}\n",
                  v, id, v, id);
  buffer_printf(out,
                "(void)vectors;\n"
                "tile%s(a, lda, b, NR%s, depth, c, ldc, more);\n}\n",
                id, id);
}

/* ---- offsets of the filter taps ---- */

static void emit_coordinate_offset(Emitter *e, Buffer *out, const ConvWindow *w,
                                   const SlidingAccess *r, const char *name,
                                   int64_t stride, int64_t phase_stride) {
  buffer_printf(out, "const int64_t %s = %s", name,
                emit_int(e, emit_extent_mul(e, r->low, -1)));
  for (uint32_t k = 0; k < w->reduction_axes; k++)
    if (r->dilation[k])
      buffer_printf(out, " + %s * k%u", emit_int(e, r->dilation[k]), k);
  buffer_puts(out, ";\n");
  const char *coef = emit_int(e, stride);
  if (r->stride == 1)
    buffer_printf(out, "at += %s * %s;\n", name, coef);
  else {
    const char *stride = emit_int(e, r->stride);
    buffer_printf(out, "at += %s / %s * %s + %s %% %s * %s;\n", name, stride,
                  coef, name, stride, emit_int(e, phase_stride));
  }
}

static void emit_tap_offsets(Emitter *e, Buffer *out, const ConvWindow *w,
                             int64_t depth) {
  gemm_scratch_pointer(e, "offsets", depth, DT_I32, out);
  buffer_puts(out, "{\nint32_t *to = offsets;\n");
  for (uint32_t k = 0; k < w->reduction_axes; k++)
    buffer_printf(out, "for (int64_t k%u = 0; k%u < %s; k%u++)%s\n", k, k,
                  emit_int(e, w->extents[k]), k,
                  k + 1 == w->reduction_axes ? " {" : "");
  buffer_puts(out, "int64_t at = 0;\n");
  int64_t stride = emit_extent_mul(e, w->plane_elements, conv_window_phases(w));
  for (uint32_t k = w->reduction_axes; k-- > 0;)
    if (w->is_free[k]) {
      buffer_printf(out, "at += k%u * %s;\n", k, emit_int(e, stride));
      stride = emit_extent_mul(e, stride, w->extents[k]);
    }
  if (w->has_rows)
    emit_coordinate_offset(
        e, out, w, &w->row, "row", w->row_pitch,
        emit_extent_mul(e, w->plane_elements, w->column.stride));
  emit_coordinate_offset(e, out, w, &w->column, "column", 1, w->plane_elements);
  buffer_puts(out, "*to++ = (int32_t)at;\n}\n}\n");
}

/* ---- window ---- */

/* The address of a row of the window.  Each phase of the strides has its own
 * plane. */
static const char *image_row_address(Emitter *e, const ConvWindow *w) {
  const LoopNest *loop = w->copy_loop;
  uint32_t first = loop->spatial_axes, line = loop->axis_count - 2;
  const char *row = format(e, "i%u", line), *plane = "0";
  for (uint32_t v = first; v < line; v++)
    plane = v == first ? format(e, "i%u", v)
                       : format(e, "(%s * %s + i%u)", plane,
                                emit_int(e, loop->extents[v]), v);
  plane = format(e, "%s * %s", plane, emit_int(e, conv_window_phases(w)));
  if (w->has_rows && w->row.stride > 1) {
    const char *stride = emit_int(e, w->row.stride);
    plane = format(e, "%s + i%u %% %s * %s", plane, line, stride,
                   emit_int(e, w->column.stride));
    row = format(e, "i%u / %s", line, stride);
  }
  const char *elements = emit_int(e, w->plane_elements),
             *pitch = emit_int(e, w->row_pitch);
  return format(e, "window + (%s) * %s + %s * %s", plane, elements, row, pitch);
}

/* Returns true if the masks of a row are computed once for all rows. */
static bool hoists_masks(const Nest *n, int64_t vectors) {
  uint32_t last = n->spec->axis_count - 1;
  return nest_constant_extent(n, last) && vectors <= MAX_IMAGE_ROW_MASKS &&
         nest_find(n, last, 2) == NO_LOOP;
}

/* Declares the extents of the window. */
static void emit_window_extents(Emitter *e, const ConvWindow *w, Buffer *out) {
  const char *stride = emit_int(e, w->column.stride);
  const char *span = emit_int(e, emit_extent_add(e, w->column.span, 1));
  const char *row_steps = "", *row_span = "1";
  if (w->has_rows) {
    row_steps =
        format(e, "(below - above - 1) * %s + ", emit_int(e, w->row.stride));
    row_span = emit_int(e, emit_extent_add(e, w->row.span, 1));
  }
  buffer_printf(out,
                "const int64_t width = (hi - lo - 1) * %s + %s;\n"
                "const int64_t height = %s%s;\n",
                stride, span, row_steps, row_span);
}

/* Copies lines to `whole` first, whose elements are then distributed among the
 * phases of the stride. */
static void deinterleave_lines(Emitter *e, const GemmTiling *t, OperandCopy *c,
                               Buffer *out) {
  const ConvWindow *w = t->window;
  int64_t elements =
      emit_extent_add(e, w->copy_loop->extents[w->copy_loop->axis_count - 1],
                      (int64_t)e->width * 2 * w->column.stride);
  gemm_scratch_pointer(e, "whole", elements, t->accumulator_dtype, out);
  const char *plane = emit_int(e, w->plane_elements),
             *stride = emit_int(e, w->column.stride);
  c->line_end =
      format(e, "deal_%s(%s, %s, whole, %s, width);\n",
             dtype_info[t->accumulator_dtype].name, c->to, plane, stride);
  c->to = "whole";
}

static void emit_im2col(Emitter *e, Buffer *out, const GemmTiling *t,
                        Buffer *task_code) {
  const ConvWindow *w = t->window;
  const LoopNest *loop = w->copy_loop;
  uint32_t last = loop->axis_count - 1;
  int64_t vectors = ceil_div(loop->extents[last], e->width);
  HoistedMasks masks = {.source = {.arena = e->arena},
                        .vector_count = (uint32_t)vectors,
                        .line_axis = last - 1};
  OperandCopy c = {.use = OPERAND_TO_WINDOW,
                   .dtype = t->accumulator_dtype,
                   .to = image_row_address(e, w),
                   .axis = last - 1,
                   .begin = "0",
                   .end = "height",
                   .first_term = last,
                   .term_axes = 1,
                   .from = "0",
                   .until = "width",
                   .task_code = task_code,
                   .masks = hoists_masks(t->b.nest, vectors) ? &masks : NULL};
  emit_window_extents(e, w, out);
  if (w->column.stride > 1)
    deinterleave_lines(e, t, &c, out);
  if (last > loop->spatial_axes + 1) /* while one plane is copied */
    e->prefetch_axis = last - 2;
  gemm_emit_copy(e, t->b.nest, &c, out);
}

/* ---- panels ---- */

static void emit_panel_pack(const GemmTiling *t, const char *id, Buffer *out) {
  const char *type = memory_type(t->accumulator_dtype);
  char v = type[0];
  buffer_printf(out,
                "for (int64_t k = k0; k < k1; k++) {\n"
                "const %s *const from = window + offsets[k] + y;\n"
                "%s *const row = panel + (k - k0) * NR%s;\n",
                type, type, id);
  for (uint32_t j = 0; j < t->nr_vectors; j++)
    buffer_printf(out,
                  "*(v%c_u *)(row + %u * W) = *(const v%c_u *)(from + %u * W);"
                  "\n",
                  v, j, v, j);
  buffer_puts(out, "}\n");
}

/* Positions are copied panel by panel, for each block of terms. */
static void emit_panel_loops(Emitter *e, const GemmTiling *t,
                             uint32_t loop_index, Buffer *task_code,
                             Buffer *out) {
  const char *id = gemm_suffix(e, loop_index),
             *rows = gemm_row_arguments(e, t, "x0");
  TileCode *c = tile_code_new(e, t->nest);
  uint32_t tile = nest_atom(t->nest) - 1, blocks = tile - 1, terms = tile - 2,
           panels = tile - 3;
  c->may_be_empty = true;
  c->begin[t->m_axis] = "m0", c->end[t->m_axis] = "m1";
  c->end[t->n_axis] = "places";
  tile_code_name(c, panels, "y", "past");
  tile_code_name(c, terms, "k0", "k1");
  emit_panel_pack(t, id, &c->before[terms]);
  buffer_puts(&c->before[terms],
              "const int64_t vectors = (places - y + W - 1) / W;\n");
  tile_code_name(c, blocks, "x0", "x1");
  if (t->nest->loops[blocks].packs[NEST_LEFT])
    gemm_pack_a(e, t, task_code, &c->before[blocks]);
  buffer_printf(&c->tile,
                "const int64_t x = begin%u;\n"
                "if (x + MR%s <= x1)\n"
                "part%s(%s, panel, k1 - k0,\n"
                "c + (x - m0) * ldc + y, ldc, k0 != 0, vectors);\nelse\n"
                "edge%s(%s,\npanel, NR%s, k1 - k0,\n"
                "c + (x - m0) * ldc + y, ldc, k0 != 0, x1 - x, NR%s);\n",
                tile, id, id, rows, id, rows, id, id);
  emit_tiles(e, out, t->nest, c);
}

/* ---- vectors along output channels ---- */

/* Transposes the accumulators of a panel and stores them where the epilogue
 * loops read them.  The epilogue follows directly, while a cache holds the
 * result. */
static void emit_transpose_and_epilogue(Emitter *e, const GemmTiling *t,
                                        const char *id, const Buffer *epilogue,
                                        Buffer *out) {
  char v = value_class(t->accumulator_dtype);
  buffer_printf(
      out,
      "for (int64_t p = 0; p < places; p += W)\n"
      "for (int64_t g = first; g < next; g += W) {\nv%c x[W];\n"
      "for (int l = 0; l < W; l++)\n"
      "x[l] = *(const v%c_u *)(sums + (p + l) * NR%s + (g - first));\n"
      "transpose%s_%c(x);\n"
      "for (int l = 0; l < W && g + l < next; l++)\n"
      "*(v%c_u *)(c + (g - first + l) * ldc + p) = x[l];\n}\n"
      "const int64_t y0 = first, y1 = next;\n(void)y0, (void)y1;\n",
      v, v, id, e->suffix, v, v);
  emit_append(out, epilogue);
}

/* Prefetches the panel after `b` while tiles multiply `b`.  A prepacked panel
 * is divided among all tiles.  Otherwise some tiles prefetch W rows each. */
static void emit_next_panel_prefetch(Emitter *e, const GemmTiling *t,
                                     uint32_t loop_index,
                                     const uint32_t *prepacked_index,
                                     Buffer *out) {
  const char *id = gemm_suffix(e, loop_index),
             *type = memory_type(t->accumulator_dtype);
  const char *depth = emit_int(e, t->depth);
  if (!prepacked_index) {
    buffer_printf(out,
                  "int64_t ahead = NR%s / W;\n"
                  "const int64_t each = W, apart = lda, hop = W * lda;\n"
                  "(void)apart;\n"
                  "const %s *b =\n"
                  "to < %s ? a + first * lda + to : a + next * lda;\n"
                  "(void)ahead, (void)b;\n",
                  id, type, depth);
    return;
  }
  buffer_printf(out,
                "const int64_t tiles = lines * ((hi - lo + MR%s - 1) / MR%s);\n"
                "const int64_t each = kept%u ? (NR%s + tiles - 1) / tiles : W;"
                "\nint64_t ahead = kept%u ? tiles : %s;\n"
                "const int64_t hop = kept%u ? (to - from) * each : W * lda;\n"
                "const int64_t apart = hop / W;\n(void)apart;\n"
                "const %s *b = kept%u ? weights + (to - from) * NR%s\n"
                ": to < %s ? a + first * lda + to : a + next * lda;\n"
                "(void)ahead, (void)b;\n",
                id, id, *prepacked_index, id, *prepacked_index,
                t->window->padding.group_terms ? "0"
                                               : format(e, "NR%s / W", id),
                *prepacked_index, type, *prepacked_index, id, depth);
}

/* The product of zero and inf or NaN is not zero.  Declares `sound`: the panel
 * is finite, so that terms may be skipped. */
static void emit_panel_finite_check(Emitter *e, const GemmTiling *t,
                                    uint32_t loop_index,
                                    const uint32_t *prepacked_index,
                                    Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  char v = value_class(t->accumulator_dtype);
  if (!t->window->padding.group_terms)
    return;
  if (!dtype_is_float(t->accumulator_dtype)) {
    buffer_puts(out, "const int sound = 1;\n");
    return;
  }
  buffer_puts(out, "const int sound = ");
  if (prepacked_index)
    buffer_printf(out, "kept%u ? %s == 0 : ", *prepacked_index,
                  prepack_nonfinite_flag(e, *prepacked_index));
  buffer_printf(out, "sound_%c(panel, to - from, next - first, NR%s);\n", v,
                id);
}

/* Declares `weights`: the panel of a, terms from .. to - 1. */
static void emit_weight_panel(Emitter *e, const GemmTiling *t,
                              uint32_t loop_index, Buffer *task_code,
                              Buffer *out) {
  uint32_t prepacked_index;
  const char *type = memory_type(t->accumulator_dtype);
  bool may_prepack =
      prepack_begin(e, t, &t->a, t->m_axis, loop_index, &prepacked_index);
  if (may_prepack)
    buffer_printf(out,
                  "const %s *const weights =\n"
                  "kept%u ? kept%u + first * %s + from * NR%s : panel;\n"
                  "if (!kept%u) {\n",
                  type, prepacked_index, prepacked_index, emit_int(e, t->depth),
                  gemm_suffix(e, loop_index), prepacked_index);
  else
    buffer_printf(out, "const %s *const weights = panel;\n{\n", type);
  buffer_printf(out,
                "%s *const b = panel;\n"
                "const int64_t n0 = first, n1 = next;\n",
                type);
  if (may_prepack)
    prepack_emit_call(e, prepacked_index, out);
  else
    gemm_pack_b(e, t, &t->a, t->m_axis, task_code, out);
  buffer_puts(out, "}\n");
  emit_panel_finite_check(e, t, loop_index,
                          may_prepack ? &prepacked_index : NULL, out);
  if (t->prefetch_a)
    emit_next_panel_prefetch(e, t, loop_index,
                             may_prepack ? &prepacked_index : NULL, out);
}

/* Declares the terms that an image row takes: `taken` terms of each group, from
 * `before` on. */
static void emit_row_taps(Emitter *e, const ConvWindow *w, Buffer *out) {
  const PaddingPeel *r = &w->padding;
  const SlidingAccess *row = &w->row;
  if (!r->row_terms) {
    buffer_printf(out, "const int64_t before = 0, taken = %s;\n",
                  emit_int(e, r->group_terms));
    return;
  }
  const char *row_terms = emit_int(e, r->row_terms),
             *filter_rows = emit_int(e, r->group_terms / r->row_terms);
  const char *dilation = emit_int(e, row->dilation[row->filter_axis]);
  const char *stride = emit_int(e, row->stride);
  const char *begin = emit_int(e, row->valid_begin + row->low);
  const char *end = emit_int(e, row->valid_end + row->low);
  buffer_printf(out,
                "const int64_t top_line = (above + line) * %s;\n"
                "const int64_t least = rim_of(%s - top_line, %s, %s);\n"
                "const int64_t most = rim_of(%s - top_line, %s, %s);\n"
                "const int64_t before = sound ? least * %s : 0;\n"
                "const int64_t taken = sound ? most * %s - before : %s;\n",
                stride, begin, dilation, filter_rows, end, dilation,
                filter_rows, row_terms, row_terms, emit_int(e, r->group_terms));
}

/* The function of a tile: a border tile, or the full tile. */
static const char *border_tile_function(Emitter *e, const PaddingPeel *r,
                                        const char *name) {
  const char *function = name;
  for (uint32_t j = 0; j < r->border_tile_count; j++)
    function =
        format(e, "sound && lo + z == %s ? %s_end%u\n: %s",
               emit_int(e, r->border_tiles[j].column), name, j, function);
  return r->border_tile_count ? format(e, "(%s)", function) : function;
}

/* The call of a tile without its last arguments. */
static const char *tile_call(Emitter *e, const GemmTiling *t, const char *id,
                             const char *name, const char *pitch) {
  const PaddingPeel *r = &t->window->padding;
  const char *terms = "to - from";
  if (r->group_terms) {
    const char *group = emit_int(e, r->group_terms);
    terms = format(e, "(to - from) / %s, %s, %s, taken", group, group,
                   emit_int(e, r->row_terms ? r->row_terms : r->group_terms));
  }
  const char *offset = r->group_terms ? " + before" : "";
  const char *function = border_tile_function(e, r, name);
  return format(e,
                "%s(window + line * %s + z, offsets + from%s,\n"
                "weights%s%s, NR%s,\n"
                "%s, sums + (line * %s + z) * NR%s, NR%s, from != 0",
                function, emit_int(e, t->window->row_pitch), offset, offset,
                r->group_terms ? format(e, " * NR%s", id) : "", id, terms,
                pitch, id, id);
}

/* The smallest tile that covers the rest of an image row, unless it is a full
 * one. */
static void emit_short_tiles(Emitter *e, const GemmTiling *t, const char *id,
                             const char *pitch, Buffer *out) {
  for (uint32_t part = 1; part < SHORT_TILE_STEPS; part++) {
    uint32_t rows = gemm_short_tile_rows(t, part);
    const char *name = format(e, "short%s_of%u", id, rows);
    buffer_printf(out, "if (past - z <= %u) {\n%s);\n} else ", rows,
                  tile_call(e, t, id, name, pitch));
  }
}

/* A tile at position z of an image row. */
static void emit_position_tile(Emitter *e, const GemmTiling *t, const char *id,
                               const char *pitch, uint32_t at, Buffer *out) {
  buffer_printf(out, "const int64_t z = begin%u, past = end%u;\n(void)past;\n",
                at, at);
  if (t->has_short_tiles)
    emit_short_tiles(e, t, id, pitch, out);
  if (t->prefetch_a)
    buffer_printf(out,
                  "#ifndef QUICK\n"
                  "if (ahead-- > 0) {\n%s, each%s, b);\nb += hop;\n"
                  "} else\n#endif\n",
                  tile_call(e, t, id, format(e, "far%s", id), pitch),
                  t->window->padding.group_terms ? "" : ", apart");
  buffer_printf(out, "{\n%s);\n}\n",
                tile_call(e, t, id, format(e, "tile%s", id), pitch));
}

/* Panels of output channels, and image rows for each block of terms. */
static void emit_channel_vectorized(Emitter *e, const GemmTiling *t,
                                    uint32_t loop_index, Buffer *task_code,
                                    const Buffer *epilogue, Buffer *out) {
  const char *id = gemm_suffix(e, loop_index);
  const ConvWindow *w = t->window;
  const char *pitch = emit_int(e, e->cpu->schedule->row_pitch);
  TileCode *c = tile_code_new(e, t->nest);
  uint32_t tile = nest_atom(t->nest) - 1, lines = tile - 1,
           terms = lines - w->has_rows, panels = terms - 1;
  Buffer *line = &c->before[lines];
  buffer_printf(
      out, "const int64_t lines = %s;\nconst int64_t places = lines * %s;\n",
      w->has_rows ? "below - above" : "1", pitch);
  c->may_be_empty = true;
  c->begin[t->m_axis] = "m0", c->end[t->m_axis] = "m1";
  c->end[t->n_axis] = "hi - lo";
  tile_code_name(c, panels, "first", "next");
  tile_code_name(c, terms, "from", "to");
  emit_weight_panel(e, t, loop_index, task_code, &c->before[terms]);
  if (w->has_rows) {
    uint32_t axis = t->nest->loops[lines].axis;
    c->end[axis] = "lines";
    buffer_printf(line, "const int64_t line = i%u;\n", axis);
  } else {
    buffer_puts(line, "const int64_t line = 0;\n");
  }
  if (w->padding.group_terms)
    emit_row_taps(e, w, line);
  emit_position_tile(e, t, id, pitch, tile, &c->tile);
  emit_transpose_and_epilogue(e, t, id, epilogue, &c->after[panels]);
  emit_tiles(e, out, t->nest, c);
}

/* ---- entry point ---- */

/* Declares the window, the panel and the accumulators. */
static void emit_scratch_buffers(Emitter *e, const GemmTiling *t, Buffer *out) {
  const ConvWindow *w = t->window;
  /* the last tile reads beyond the last position */
  int64_t elements =
      emit_extent_add(e, emit_extent_mul(e, w->plane_count, w->plane_elements),
                      w->vectorize_channels ? t->mr : t->nc);
  buffer_puts(out, "const int64_t m0 = top, m1 = bottom;\n");
  gemm_scratch_pointer(e, "window", elements, t->accumulator_dtype, out);
  gemm_scratch_pointer(e, "panel", t->kc * t->nc, t->accumulator_dtype, out);
  if (w->vectorize_channels)
    gemm_scratch_pointer(
        e, "sums", emit_extent_mul(e, e->cpu->schedule->task_positions, t->nc),
        t->accumulator_dtype, out);
}

static void emit_conv_products(Emitter *e, const GemmTiling *t,
                               uint32_t loop_index, Buffer *task_code,
                               const Buffer *epilogue, Buffer *out) {
  const ConvWindow *w = t->window;
  const LocalBuffer *l = &e->function.locals[loop_index][0];
  buffer_printf(out, "const int64_t ldc = %s;\n%s *const c = l%u;\n",
                l->row_elements, memory_type(t->accumulator_dtype), l->id);
  if (w->vectorize_channels) {
    emit_channel_vectorized(e, t, loop_index, task_code, epilogue, out);
    return;
  }
  buffer_puts(out, "const int64_t places = ");
  if (w->has_rows)
    buffer_printf(out, "(below - above - 1) * %s + ",
                  emit_int(e, w->row_pitch));
  buffer_puts(out, "(hi - lo);\n");
  emit_panel_loops(e, t, loop_index, task_code, out);
}

void emit_conv_gemm(Emitter *e, Buffer *out, uint32_t loop_index,
                    const Buffer *epilogue) {
  const GemmTiling *t = &e->cpu->schedule->gemm_tilings->by_loop[loop_index];
  const ConvWindow *w = t->window;
  Buffer task_code = {.arena = e->arena}, body = task_code, inner = task_code;
  if (!t->nest) {
    e->failed = true;
    return;
  }
  uint32_t last = w->copy_loop->spatial_axes - 1;
  emit_tap_offsets(e, &e->function.head, w, t->depth);
  emit_scratch_buffers(e, t, &body);
  if (!w->vectorize_channels)
    gemm_left_operand(e, t, &task_code, &body, &inner);
  else if (t->prefetch_a)
    gemm_unpacked_operand(e, t, &t->a, t->m_axis, &task_code, &inner);
  emit_im2col(e, &inner, t, &task_code);
  emit_conv_products(e, t, loop_index, &task_code, epilogue, &inner);
  buffer_printf(out, "{\nconst int64_t i%u = lo;\n(void)i%u;\n", last, last);
  if (w->has_rows)
    buffer_printf(out, "const int64_t i%u = above;\n(void)i%u;\n", last - 2,
                  last - 2);
  emit_append(out, &task_code);
  emit_append(out, &body);
  emit_append(out, &inner);
  buffer_puts(out, "}\n");
  if (w->vectorize_channels)
    return;
  buffer_puts(out, "{\nconst int64_t y0 = top, y1 = bottom;\n"
                   "(void)y0, (void)y1;\n");
  emit_append(out, epilogue);
  buffer_puts(out, "}\n");
}
