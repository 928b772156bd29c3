/* Products through a window as C: what a unit needs of the sliding side is put
 * into scratch memory, its panels are copied from there as they come. */
#include "backend/cpu/keeping.h"
#include "backend/cpu/products.h"

enum { SPANS_MOST = 64 }; /* vectors of a line, whose lanes are known ahead */

#define format emit_format

/* ---- the tile for as many vectors as there are ---- */

void emit_window_tile(Emitter *e, const Tile *t, uint32_t at, Buffer *out) {
  const char *id = product_id(e, at);
  const char *type = product_type(t->dtype);
  buffer_printf(out,
                "static __attribute__((noinline)) void\n"
                "part%s(const %s *a, int64_t lda, const %s *b, int64_t depth,\n"
                "%s *c, int64_t ldc, int more, int64_t vectors) {\n",
                id, type, type, type);
  for (uint32_t v = 1; v < t->vectors; v++)
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

/* ---- where terms begin ---- */

static void emit_place(Emitter *e, Buffer *out, const Window *w, const Reach *r,
                       const char *name, int64_t stride, int64_t rest) {
  buffer_printf(out, "const int64_t %s = %s", name,
                emit_int(e, emit_times(e, r->low, -1)));
  for (uint32_t k = 0; k < w->terms; k++)
    if (r->by[k])
      buffer_printf(out, " + %s * k%u", emit_int(e, r->by[k]), k);
  buffer_puts(out, ";\n");
  const char *to = emit_int(e, stride);
  if (r->step == 1)
    buffer_printf(out, "at += %s * %s;\n", name, to);
  else
    buffer_printf(out, "at += %s / %s * %s + %s %% %s * %s;\n", name,
                  emit_int(e, r->step), to, name, emit_int(e, r->step),
                  emit_int(e, rest));
}

static void emit_offsets(Emitter *e, Buffer *out, const Window *w,
                         int64_t depth) {
  buffer_printf(out,
                "int32_t *const offsets = (int32_t *)(room + %s);\n"
                "{\nint32_t *to = offsets;\n",
                emit_room(e, depth, DT_I32));
  for (uint32_t k = 0; k < w->terms; k++)
    buffer_printf(out, "for (int64_t k%u = 0; k%u < %s; k%u++)%s\n", k, k,
                  emit_int(e, w->extents[k]), k, k + 1 == w->terms ? " {" : "");
  buffer_puts(out, "int64_t at = 0;\n");
  int64_t stride = emit_times(e, w->plane, window_phases(w));
  for (uint32_t k = w->terms; k-- > 0;)
    if (w->free[k]) {
      buffer_printf(out, "at += k%u * %s;\n", k, emit_int(e, stride));
      stride = emit_times(e, stride, w->extents[k]);
    }
  if (w->rows)
    emit_place(e, out, w, &w->row, "row", w->pitch,
               emit_times(e, w->plane, w->column.step));
  emit_place(e, out, w, &w->column, "column", 1, w->plane);
  buffer_puts(out, "*to++ = (int32_t)at;\n}\n}\n");
}

/* ---- the window ---- */

/* One line of it, its remainders by the step apart. */
static void emit_line(Emitter *e, Buffer *out, const Tile *t, const Window *w) {
  const char *type = product_type(t->dtype), *plane = emit_int(e, w->plane);
  const char *first = "line", *at = "plane";
  if (w->rows && w->row.step > 1) {
    const char *step = emit_int(e, w->row.step);
    at = format(e, "(plane + line %% %s * %s)", step,
                emit_int(e, w->column.step));
    first = format(e, "line / %s", step);
  }
  buffer_printf(out, "%s *const to = window + %s * %s + %s * %s;\n", type, at,
                plane, first, emit_int(e, w->pitch));
}

/* Which lanes of a line are inside is found out once for all of them. */
static bool spans_begin(Emitter *e, const Window *w, Spans *spans) {
  const Loop *loop = w->loop;
  uint32_t last = loop->axes - 1;
  int64_t vectors = divide_up(loop->extents[last], e->s->width);
  *spans = (Spans){.text = {.arena = e->arena},
                   .vectors = (uint32_t)vectors,
                   .vector = "a",
                   .line = last - 1};
  return size_is_number(loop->graph, loop->extents[last]) &&
         vectors <= SPANS_MOST;
}

static void emit_fill(Emitter *e, Buffer *out, const Tile *t, Buffer *unit) {
  const Window *w = t->window;
  const Loop *loop = w->loop;
  uint32_t order[KERNEL_AXES], count = 0, last = loop->axes - 1;
  Spans spans;
  const char *name = dtype_info[t->dtype].name;
  const char *type = product_type(t->dtype);
  bool deals = w->column.step > 1;
  Buffer store = {.arena = e->arena};
  for (uint32_t v = loop->kept; v < last; v++)
    order[count++] = v;
  if (count > 1) /* the next plane, while this one is copied */
    e->fetched = order[count - 2];
  e->spans = spans_begin(e, w, &spans) ? &spans : NULL;
  const char *value = product_begin(e, loop, last, count, order, unit);
  e->spans = NULL;
  e->fetched = NO_LANE;
  buffer_printf(&store, "st_%s(%s + j, %s);\n", name, deals ? "whole" : "to",
                value);
  if (deals)
    buffer_printf(
        out, "%s *const whole = (%s *)(room + %s);\n", type, type,
        emit_room(e,
                  emit_plus(e, loop->extents[last],
                            (int64_t)e->s->width * 2 * w->column.step),
                  t->dtype));
  buffer_printf(out,
                "const int64_t width = (hi - lo - 1) * %s + %s;\n"
                "const int64_t height = %s%s;\nint64_t plane = 0;\n",
                emit_int(e, w->column.step),
                emit_int(e, emit_plus(e, w->column.span, 1)),
                w->rows ? format(e, "(below - above - 1) * %s + ",
                                 emit_int(e, w->row.step))
                        : "",
                w->rows ? emit_int(e, emit_plus(e, w->row.span, 1)) : "1");
  if (spans.text.len) {
    buffer_puts(out, "enum { inside = 0 };\n"
                     "const int64_t start = 0, end = width;\n");
    emit_put(out, &spans.text);
  }
  for (uint32_t v = loop->kept; v + 1 < last; v++) {
    buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                  emit_int(e, loop->extents[v]), v);
    emit_put(out, &e->blocks[2 + v - loop->kept]);
  }
  buffer_printf(out,
                "for (int64_t line = 0; line < height; line++) {\n"
                "const int64_t i%u = line;\n",
                last - 1);
  emit_put(out, &e->blocks[e->lane_level - 1]);
  emit_line(e, out, t, w);
  buffer_puts(out,
              "const int64_t end = width;\nint64_t j = 0, a = 0;\n(void)a;\n");
  emit_lane_loop(e, out, ", a++", &store, &store);
  if (deals)
    buffer_printf(out, "deal_%s(to, %s, whole, %s, width);\n", name,
                  emit_int(e, w->plane), emit_int(e, w->column.step));
  buffer_printf(out, "(void)i%u;\n}\nplane += %s;\n", last - 1,
                emit_int(e, window_phases(w)));
  for (uint32_t v = loop->kept; v + 1 < last; v++)
    buffer_puts(out, "}\n");
}

/* ---- panels ---- */

static void emit_panel(const Tile *t, const char *id, Buffer *out) {
  const char *type = product_type(t->dtype);
  char v = type[0];
  buffer_printf(out,
                "for (int64_t k = k0; k < k1; k++) {\n"
                "const %s *const from = window + offsets[k] + y;\n"
                "%s *const row = panel + (k - k0) * NR%s;\n",
                type, type, id);
  for (uint32_t j = 0; j < t->vectors; j++)
    buffer_printf(out,
                  "*(v%c_u *)(row + %u * W) = *(const v%c_u *)(from + %u * W);"
                  "\n",
                  v, j, v, j);
  buffer_puts(out, "}\n");
}

/* Panel after panel, terms in blocks, rows in blocks. */
static void emit_panels(Emitter *e, const Tile *t, uint32_t at, Buffer *unit,
                        Buffer *out) {
  const char *id = product_id(e, at);
  const char *kc = emit_int(e, t->block_k), *mc = emit_int(e, t->block_m);
  const char *depth = emit_int(e, t->depth), *rows = product_rows(e, t);
  buffer_printf(out,
                "for (int64_t y = 0; y < places; y += NR%s)\n"
                "for (int64_t k0 = 0; k0 < %s || k0 == 0; k0 += %s) {\n"
                "const int64_t k1 = k0 + %s < %s ? k0 + %s : %s;\n",
                id, depth, kc, kc, depth, kc, depth);
  emit_panel(t, id, out);
  buffer_printf(out,
                "const int64_t vectors = (places - y + W - 1) / W;\n"
                "for (int64_t x0 = m0; x0 < m1; x0 += %s) {\n"
                "const int64_t x1 = x0 + %s < m1 ? x0 + %s : m1;\n",
                mc, mc, mc);
  if (t->a.form != OPERAND_PLAIN)
    product_copy_a(e, t, unit, out);
  buffer_printf(out,
                "for (int64_t x = x0; x < x1; x += MR%s)\n"
                "if (x + MR%s <= x1)\n"
                "part%s(%s, panel, k1 - k0,\n"
                "c + (x - m0) * ldc + y, ldc, k0 != 0, vectors);\nelse\n"
                "edge%s(%s,\npanel, NR%s, k1 - k0,\n"
                "c + (x - m0) * ldc + y, ldc, k0 != 0, x1 - x, NR%s);\n"
                "}\n}\n",
                id, id, id, rows, id, rows, id, id);
}

/* ---- lanes across ---- */

/* What a panel has summed up, lanes along the rows of the left side: turned,
 * and put where the loops after this one look for it, which follow at once,
 * while a cache has it. */
static void emit_finish(Emitter *e, const Tile *t, const char *id,
                        const Buffer *rest, Buffer *out) {
  char v = product_type(t->dtype)[0];
  buffer_printf(
      out,
      "for (int64_t p = 0; p < places; p += W)\n"
      "for (int64_t g = first; g < next; g += W) {\nv%c x[W];\n"
      "for (int l = 0; l < W; l++)\n"
      "x[l] = *(const v%c_u *)(sums + (p + l) * NR%s + (g - first));\n"
      "turn%s_%c(x);\n"
      "for (int l = 0; l < W && g + l < next; l++)\n"
      "*(v%c_u *)(c + (g - first + l) * ldc + p) = x[l];\n}\n"
      "const int64_t y0 = first, y1 = next;\n(void)y0, (void)y1;\n",
      v, v, id, e->number, v, v);
  emit_put(out, rest);
}

/* What is read after the panel at hand, `b`, while that is multiplied: by each
 * tile a part of it, where it lies as it was kept, else by some of them W rows
 * each. */
static void emit_next_panel(Emitter *e, const Tile *t, uint32_t at,
                            const uint32_t *kept, Buffer *out) {
  const char *id = product_id(e, at), *type = product_type(t->dtype);
  const char *depth = emit_int(e, t->depth);
  if (!kept) {
    buffer_printf(out,
                  "int64_t ahead = NR%s / W;\n"
                  "const int64_t each = W, apart = lda, hop = W * lda;\n"
                  "(void)apart;\n"
                  "const %s *b =\n"
                  "to < %s ? a + first * lda + to : a + next * lda;\n",
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
                ": to < %s ? a + first * lda + to : a + next * lda;\n",
                id, id, *kept, id, *kept,
                t->window->rims.group ? "0" : format(e, "NR%s / W", id), *kept,
                type, *kept, id, depth);
}

/* Zeros by what is not finite are not zeros: is all of the panel, so that terms
 * may be left out? */
static void emit_sound(Emitter *e, const Tile *t, uint32_t at,
                       const uint32_t *kept, Buffer *out) {
  const char *id = product_id(e, at);
  char v = product_type(t->dtype)[0];
  if (!t->window->rims.group)
    return;
  if (!dtype_is_float(t->dtype)) {
    buffer_puts(out, "const int sound = 1;\n");
    return;
  }
  buffer_puts(out, "const int sound = ");
  if (kept)
    buffer_printf(out, "kept%u ? %s == 0 : ", *kept, keeping_mark(e, *kept));
  buffer_printf(out, "sound_%c(panel, to - from, next - first, NR%s);\n", v,
                id);
}

/* A panel of the left side: `weights`, terms from .. to - 1. */
static void emit_weights(Emitter *e, const Tile *t, uint32_t at, Buffer *unit,
                         Buffer *out) {
  uint32_t kept;
  const char *type = product_type(t->dtype);
  bool keeps = keeping_begin(e, t, &t->a, t->m, at, &kept);
  if (keeps)
    buffer_printf(out,
                  "const %s *const weights =\n"
                  "kept%u ? kept%u + first * %s + from * NR%s : panel;\n"
                  "if (!kept%u) {\n",
                  type, kept, kept, emit_int(e, t->depth), product_id(e, at),
                  kept);
  else
    buffer_printf(out, "const %s *const weights = panel;\n{\n", type);
  buffer_printf(out,
                "%s *const b = panel;\n"
                "const int64_t n0 = first, n1 = next;\n",
                type);
  if (keeps)
    keeping_copy(e, kept, out);
  else
    product_copy_b(e, t, &t->a, t->m, at, unit, out);
  buffer_puts(out, "}\n");
  emit_sound(e, t, at, keeps ? &kept : NULL, out);
  if (t->far)
    emit_next_panel(e, t, at, keeps ? &kept : NULL, out);
}

/* Which terms a line takes: those of the row's from `before` on, so many of
 * each group. */
static void emit_taken(Emitter *e, const Window *w, Buffer *out) {
  const Rims *r = &w->rims;
  const Reach *row = &w->row;
  if (!r->row) {
    buffer_printf(out, "const int64_t before = 0, taken = %s;\n",
                  emit_int(e, r->group));
    return;
  }
  const char *each = emit_int(e, r->row), *all = emit_int(e, r->group / r->row);
  const char *by = emit_int(e, row->by[row->term]);
  buffer_printf(out,
                "const int64_t top_line = (above + line) * %s;\n"
                "const int64_t least = rim_of(%s - top_line, %s, %s);\n"
                "const int64_t most = rim_of(%s - top_line, %s, %s);\n"
                "const int64_t before = sound ? least * %s : 0;\n"
                "const int64_t taken = sound ? most * %s - before : %s;\n",
                emit_int(e, row->step), emit_int(e, row->from + row->low), by,
                all, emit_int(e, row->to + row->low), by, all, each, each,
                emit_int(e, r->group));
}

/* The function for a tile: of those that leave out rows, or whole. */
static const char *tile_function(Emitter *e, const Rims *r, const char *name) {
  const char *all = name;
  for (uint32_t j = 0; j < r->end_count; j++)
    all = format(e, "sound && lo + z == %s ? %s_end%u\n: %s",
                 emit_int(e, r->ends[j].at), name, j, all);
  return r->end_count ? format(e, "(%s)", all) : all;
}

/* The call of one, but for what follows its last argument. */
static const char *tile_call(Emitter *e, const Tile *t, const char *id,
                             const char *name, const char *pitch) {
  const Rims *r = &t->window->rims;
  const char *terms = r->group
                          ? format(e, "(to - from) / %s, %s, %s, taken",
                                   emit_int(e, r->group), emit_int(e, r->group),
                                   emit_int(e, r->row ? r->row : r->group))
                          : "to - from";
  const char *before = r->group ? " + before" : "";
  return format(e,
                "%s(window + line * %s + z, offsets + from%s,\n"
                "weights%s%s, NR%s,\n"
                "%s, sums + (line * %s + z) * NR%s, NR%s, from != 0",
                tile_function(e, r, name), emit_int(e, t->window->pitch),
                before, before, r->group ? format(e, " * NR%s", id) : "", id,
                terms, pitch, id, id);
}

/* What is left of a line by the tile that is large enough. */
static void emit_shorter(Emitter *e, const Tile *t, const char *id,
                         const char *pitch, Buffer *out) {
  buffer_puts(out, "for (int64_t z = 0, done; z < hi - lo; z += done) {\n"
                   "const int64_t left = hi - lo - z;\n");
  for (uint32_t part = 1; part < PRODUCT_PARTS; part++) {
    uint32_t rows = product_part(t, part);
    const char *name = format(e, "short%s_of%u", id, rows);
    buffer_printf(out, "if (left <= %u) {\ndone = %u;\n%s);\n} else ", rows,
                  rows, tile_call(e, t, id, name, pitch));
  }
  buffer_printf(out, "{\ndone = MR%s;\n", id);
}

/* Panel after panel of the left side, terms in blocks. */
static void emit_across(Emitter *e, const Tile *t, uint32_t at, Buffer *unit,
                        const Buffer *rest, Buffer *out) {
  const char *id = product_id(e, at);
  const Window *w = t->window;
  const char *kc = emit_int(e, t->block_k), *depth = emit_int(e, t->depth);
  const char *pitch = emit_int(e, e->s->pitch);
  buffer_printf(
      out,
      "const int64_t lines = %s;\nconst int64_t places = lines * %s;\n"
      "for (int64_t first = m0; first < m1; first += NR%s) {\n"
      "const int64_t next = first + NR%s < m1 ? first + NR%s : m1;\n"
      "for (int64_t from = 0; from < %s || from == 0; from += %s) {\n"
      "const int64_t to = from + %s < %s ? from + %s : %s;\n",
      w->rows ? "below - above" : "1", pitch, id, id, id, depth, kc, kc, depth,
      kc, depth);
  emit_weights(e, t, at, unit, out);
  buffer_puts(out, "for (int64_t line = 0; line < lines; line++) {\n");
  if (w->rims.group)
    emit_taken(e, w, out);
  if (t->shorter)
    emit_shorter(e, t, id, pitch, out);
  else
    buffer_printf(out, "for (int64_t z = 0; z < hi - lo; z += MR%s) {\n", id);
  if (t->far)
    buffer_printf(out,
                  "if (ahead-- > 0) {\n%s, each%s, b);\nb += hop;\n"
                  "} else {\n",
                  tile_call(e, t, id, format(e, "far%s", id), pitch),
                  w->rims.group ? "" : ", apart");
  buffer_printf(out, "%s);\n%s}\n%s}\n}\n",
                tile_call(e, t, id, format(e, "tile%s", id), pitch),
                t->far ? "}\n" : "", t->shorter ? "}\n" : "");
  emit_finish(e, t, id, rest, out);
  buffer_puts(out, "}\n");
}

/* ---- the whole ---- */

/* The window, panels, and what else the sums take. */
static void emit_rooms(Emitter *e, const Tile *t, Buffer *out) {
  const char *type = product_type(t->dtype);
  const Window *w = t->window;
  /* the last ones go on */
  int64_t elements = emit_plus(e, emit_times(e, w->planes, w->plane),
                               w->across ? t->rows : t->block_n);
  buffer_printf(out,
                "const int64_t m0 = top, m1 = bottom;\n"
                "%s *const window = (%s *)(room + %s);\n"
                "%s *const panel = (%s *)(room + %s);\n",
                type, type, emit_room(e, elements, t->dtype), type, type,
                emit_room(e, t->block_k * t->block_n, t->dtype));
  if (w->across)
    buffer_printf(
        out, "%s *const sums = (%s *)(room + %s);\n", type, type,
        emit_room(e, emit_times(e, e->s->places, t->block_n), t->dtype));
}

static void emit_sums(Emitter *e, const Tile *t, uint32_t at, Buffer *unit,
                      const Buffer *rest, Buffer *out) {
  const Window *w = t->window;
  const Local *l = &e->locals[at][0];
  buffer_printf(out, "const int64_t ldc = %s;\n%s *const c = l%u;\n", l->block,
                product_type(t->dtype), l->name);
  if (w->across) {
    emit_across(e, t, at, unit, rest, out);
    return;
  }
  buffer_puts(out, "const int64_t places = ");
  if (w->rows)
    buffer_printf(out, "(below - above - 1) * %s + ", emit_int(e, w->pitch));
  buffer_puts(out, "(hi - lo);\n");
  emit_panels(e, t, at, unit, out);
}

void emit_window(Emitter *e, Buffer *out, uint32_t at, const Buffer *rest) {
  const Tile *t = &e->s->tiling->of[at];
  const Window *w = t->window;
  Buffer unit = {.arena = e->arena}, body = unit, inner = unit;
  uint32_t last = w->loop->kept - 1;
  emit_offsets(e, &e->head, w, t->depth);
  emit_rooms(e, t, &body);
  if (!w->across)
    product_left(e, t, &unit, &body, &inner);
  else if (t->far)
    product_plain(e, t, &t->a, t->m, &unit, &inner);
  emit_fill(e, &inner, t, &unit);
  emit_sums(e, t, at, &unit, rest, &inner);
  buffer_printf(out, "{\nconst int64_t i%u = lo;\n(void)i%u;\n", last, last);
  if (w->rows)
    buffer_printf(out, "const int64_t i%u = above;\n(void)i%u;\n", last - 2,
                  last - 2);
  emit_put(out, &unit);
  emit_put(out, &body);
  emit_put(out, &inner);
  buffer_puts(out, "}\n");
  if (w->across)
    return;
  buffer_puts(out, "{\nconst int64_t y0 = top, y1 = bottom;\n"
                   "(void)y0, (void)y1;\n");
  emit_put(out, rest);
  buffer_puts(out, "}\n");
}
