/* Sums of products as C: operands copied into the form that a tile wants, and
 * the tile, whose sums lie in registers. */
#include "backend/cpu/products.h"

#include "backend/cpu/keeping.h"

#include <string.h>

#define format emit_format

enum {
  UNROLLED_STEPS = 4,
  FETCHED_TERMS = 8, /* that rows of b which come from memory are ahead */
};

static const Tile *tile_of(const Emitter *e, uint32_t loop) {
  return &e->s->tiling->of[loop];
}

/* ---- the tile in registers ---- */

const char *product_type(Dtype t) {
  return t == DT_F64 ? "double" : t == DT_I32 ? "int32_t" : "float";
}

/* Of what the tile reads, which may lie in memory as it is. */
static const char *read_type(const Tile *t) {
  return t->element == DT_I32 ? "pairs_u" : product_type(t->element);
}

const char *product_id(Emitter *e, uint32_t at) {
  return *e->number ? format(e, "%s_%u", e->number, at) : format(e, "%u", at);
}

/* A tile, or one for the edges. */
typedef struct Variant {
  uint32_t rows, vectors;
  bool far;     /* with what is read next fetched ahead: W rows, of each term
                   `each` elements; where terms are in groups, one piece */
  bool cut;     /* only `columns` columns of b are there */
  uint32_t end; /* 1 + which tile of a line it is that leaves out rows */
} Variant;

static Variant whole_tile(const Tile *t) {
  return (Variant){.rows = t->rows, .vectors = t->vectors};
}

uint32_t product_part(const Tile *t, uint32_t part) {
  return (uint32_t)divide_up((int64_t)t->rows * part, PRODUCT_PARTS);
}

/* Of the last panel. */
static Variant last_tile(const Tile *t) {
  bool cut = t->b.form == OPERAND_PLAIN;
  return (Variant){.rows = t->rows, .vectors = t->last, .cut = cut};
}

static const char *tile_name(Emitter *e, const Tile *t, uint32_t at,
                             const Variant *v) {
  const char *id = product_id(e, at);
  const char *name = format(e, "%s%s",
                            v->far              ? "far"
                            : v->rows < t->rows ? "short"
                                                : "tile",
                            id);
  if (t->shorter && v->rows < t->rows)
    name = format(e, "%s_of%u", name, v->rows);
  if (v->vectors != t->vectors)
    name = format(e, "%s_%u", name, v->vectors);
  if (v->end)
    name = format(e, "%s_end%u", name, v->end - 1);
  return v->cut ? format(e, "%s_cut", name) : name;
}

/* One vector of b, or what is left there. */
static void emit_load(const Tile *t, char x, uint32_t j, bool cut,
                      Buffer *out) {
  if (cut)
    buffer_printf(out, "v%c b%u = ldp_%s(b + %u * W, live%u);\n", x, j,
                  dtype_info[t->element].name, j, j);
  else
    buffer_printf(out, "v%c b%u = *(const v%c_u *)(b + %u * W);\n", x, j, x, j);
}

/* One term: vectors of b, and rows from .. to - 1 of a, which are at `place`
 * where that is not NULL. */
static void emit_term(Emitter *e, const Tile *t, const Variant *shape,
                      const char *place, uint32_t from, uint32_t to,
                      Buffer *out) {
  bool pairs = t->element == DT_I32;
  bool along = !place && t->a.form != OPERAND_COLUMNS;
  char x = product_type(t->element)[0];
  for (uint32_t j = 0; j < shape->vectors && t->fetched; j++)
    buffer_printf(out, "__builtin_prefetch(b + %d * ldb + %u * W);\n",
                  FETCHED_TERMS, j);
  bool held = shape->rows > 1 &&
              dtype_info[t->element].bytes * e->s->width == e->s->bytes;
  for (uint32_t j = 0; j < shape->vectors; j++) {
    emit_load(t, x, j, shape->cut, out);
    if (held)
      buffer_printf(out, "HELD(b%u);\n", j);
  }
  if (place)
    buffer_printf(out, "const %s *const p = a + %s;\n", read_type(t), place);
  for (uint32_t i = from; i < to; i++) {
    buffer_printf(out, "const v%c a%u = %s[%u%s] - (v%c){0};\n", x, i,
                  place ? "p" : "a", i, along ? " * lda" : "", x);
    for (uint32_t j = 0; j < shape->vectors; j++)
      buffer_printf(out,
                    pairs ? "dot_bf16(c%u_%u, a%u, b%u);\n"
                          : "c%u_%u += a%u * b%u;\n",
                    i, j, i, j);
  }
  buffer_printf(out, "%sb += ldb;\n",
                place   ? ""
                : along ? "a++;\n"
                        : "a += lda;\n");
}

/* Groups of terms, of which `taken` are gone through from the first one on: all
 * of all groups in one loop, or a step of the row's term of each group, then
 * the next step.  At the end of a line a column's terms have rows of their own.
 */
static void emit_groups(Emitter *e, const Tile *t, const Variant *shape,
                        Buffer *out) {
  const Rims *r = &t->window->rims;
  const LineEnd *end = shape->end ? &r->ends[shape->end - 1] : NULL;
  uint32_t written = r->written ? r->written : 1;
  if (shape->far)
    buffer_puts(out, "const int64_t hop =\n"
                     "taken ? (each * group + taken - 1) / taken : 0;\n");
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
                read_type(t), written);
  for (uint32_t k = 0; k < written; k++) {
    buffer_puts(out, shape->far
                         ? "{\n__builtin_prefetch(next, 0, 2);\nnext += hop;\n"
                         : "{\n");
    emit_term(e, t, shape, format(e, "at[k + %u]", k), end ? end->from[k] : 0,
              end ? end->to[k] : shape->rows, out);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "}\n}\n");
}

static void emit_tile_loop(Emitter *e, const Tile *t, const Variant *shape,
                           Buffer *out) {
  uint32_t rows = shape->rows, vectors = shape->vectors;
  bool across = t->window && t->window->across;
  for (uint32_t i = 0; i < rows; i++)
    for (uint32_t j = 0; j < vectors; j++)
      buffer_printf(out, "v%c c%u_%u = {0};\n", product_type(t->dtype)[0], i,
                    j);
  for (uint32_t j = 0; j < vectors && shape->cut; j++)
    buffer_printf(out,
                  "const int live%u = columns <= %u * W ? 0\n"
                  ": columns < %u * W ? (int)columns - %u * W : W;\n",
                  j, j, j + 1, j);
  if (across && t->window->rims.group) {
    emit_groups(e, t, shape, out);
    return;
  }
  if (shape->far)
    buffer_puts(out, "for (int64_t k = 0, l = 1; l <= W; l++, next += apart)\n"
                     "for (int64_t line = 0; k < depth * l / W; k++) {\n"
                     "__builtin_prefetch(next + line, 0, 2);\nline += each;\n");
  else
    buffer_puts(out, "for (int64_t k = 0; k < depth; k++) {\n");
  emit_term(e, t, shape, across ? "offsets[k]" : NULL, 0, rows, out);
  buffer_puts(out, "}\n");
}

/* c += or = a * b, `depth` products fused into each sum. */
static void emit_tile(Emitter *e, const Tile *t, uint32_t at, Variant shape,
                      Buffer *out) {
  const char *type = product_type(t->dtype), *of = read_type(t);
  char v = type[0];
  bool across = t->window && t->window->across;
  const char *more =
      shape.far   ? format(e, ", int64_t each%s,\nconst %s *next",
                         t->window->rims.group ? "" : ", int64_t apart", of)
      : shape.cut ? ", int64_t columns"
                  : "";
  buffer_printf(out,
                "static __attribute__((noinline)) FUSED void\n"
                "%s(const %s *a, %s, const %s *b, int64_t ldb,\n"
                "int64_t %s, %s *c, int64_t ldc, int more%s) {\nFUSING\n",
                tile_name(e, t, at, &shape), of,
                across ? "const int32_t *offsets" : "int64_t lda", of,
                across && t->window->rims.group
                    ? "groups, int64_t group, int64_t row, int64_t taken"
                    : "depth",
                type, more);
  emit_tile_loop(e, t, &shape, out);
  for (uint32_t i = 0; i < shape.rows; i++)
    for (uint32_t j = 0; j < shape.vectors; j++)
      buffer_printf(out,
                    "v%c_u *const r%u_%u = (v%c_u *)(c + %u * ldc + %u * W);\n"
                    "if (more)\nc%u_%u += *r%u_%u;\n*r%u_%u = c%u_%u;\n",
                    v, i, j, v, i, j, i, j, i, j, i, j, i, j);
  buffer_puts(out, "}\n");
}

/* ---- edges ---- */

/* What is left of a where that is no tile, with zeros for the rest of one. */
static void emit_edge_rows(const Tile *t, const char *id, Buffer *out) {
  if (t->a.form != OPERAND_COLUMNS)
    buffer_printf(out,
                  "%s rest[MR%s * %d] __attribute__((aligned(64)));\n"
                  "if (rows < LEAST%s) {\n"
                  "for (int64_t i = 0; i < MR%s; i++)\n"
                  "for (int64_t k = 0; k < depth; k++)\n"
                  "rest[i * depth + k] =\n"
                  "i < rows ? a[(i < rows ? i : 0) * lda + k] : 0;\n"
                  "a = rest;\nlda = depth;\n}\n",
                  product_type(t->element), id, BLOCK_K_MOST, id, id);
}

/* The tile for so many rows. */
static void emit_edge_tile(Emitter *e, const Tile *t, uint32_t at,
                           uint32_t rows, Buffer *out) {
  const char *id = product_id(e, at);
  const char *arguments = "(a, lda, b, ldb, depth, to, apart, on";
  Variant whole = whole_tile(t), last = last_tile(t);
  whole.rows = last.rows = rows;
  if (t->last)
    buffer_printf(out, "if (columns < NR%s)\n%s%s%s);\nelse\n", id,
                  tile_name(e, t, at, &last), arguments,
                  last.cut ? ", columns" : "");
  buffer_printf(out, "%s%s);\n", tile_name(e, t, at, &whole), arguments);
}

/* A tile that the result's end cuts: in place where it is a smaller one that
 * there is, or else whole in memory of its own, from as many rows and columns
 * as there are. */
static void emit_edge(Emitter *e, const Tile *t, uint32_t at, Buffer *out) {
  const char *id = product_id(e, at);
  const char *type = product_type(t->dtype), *of = read_type(t);
  const char *name = dtype_info[t->dtype].name;
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
                t->last ? format(e, " || columns == %u * W", t->last) : "", id,
                type, id);
  emit_edge_rows(t, id, out);
  if (t->less) {
    buffer_printf(out, "if (rows == LEAST%s) {\n", id);
    emit_edge_tile(e, t, at, t->rows - 1, out);
    buffer_puts(out, "} else {\n");
  }
  emit_edge_tile(e, t, at, t->rows, out);
  buffer_printf(out,
                "%sif (whole)\nreturn;\n"
                "for (int64_t i = 0; i < rows; i++)\n"
                "for (int64_t j = 0; j < columns; j += W) {\n"
                "const int live = columns - j < W ? (int)(columns - j) : W;\n"
                "v%c x = ld_%s(r + i * NR%s + j);\n"
                "if (more)\nx += ldp_%s(c + i * ldc + j, live);\n"
                "stp_%s(c + i * ldc + j, x, live);\n}\n}\n",
                t->less ? "}\n" : "", type[0], name, id, name, name);
}

/* How many of so many rows are tiles of one row less: all that are left. */
static void emit_less(const Tile *t, const char *id, Buffer *out) {
  if (t->less)
    buffer_printf(out,
                  "INLINE int64_t less%s(int64_t rows) {\n"
                  "const int64_t count = (MR%s - rows %% MR%s) %% MR%s;\n"
                  "return count * LEAST%s <= rows ? count * LEAST%s : 0;\n}\n",
                  id, id, id, id, id, id);
}

/* Tiles of the ends of lines. */
static void emit_ends(Emitter *e, const Tile *t, uint32_t at, Buffer *out) {
  Variant v = whole_tile(t);
  for (v.end = 1; v.end <= t->window->rims.end_count; v.end++)
    for (uint32_t far = 0; far <= t->far; far++) {
      v.far = far;
      emit_tile(e, t, at, v, out);
    }
}

static void emit_product_tiles(Emitter *e, const Tile *t, uint32_t at,
                               Buffer *out) {
  const char *id = product_id(e, at);
  buffer_printf(out,
                "#define MR%s %u\n#define NR%s (%u * W)\n#define LEAST%s %u\n",
                id, t->rows, id, t->vectors, id, t->rows - t->less);
  Variant whole = whole_tile(t), last = last_tile(t), other = whole;
  emit_tile(e, t, at, whole, out);
  other.far = true;
  if (t->far)
    emit_tile(e, t, at, other, out);
  other.far = false;
  for (uint32_t part = 1; part < PRODUCT_PARTS && t->shorter; part++) {
    other.rows = product_part(t, part);
    emit_tile(e, t, at, other, out);
  }
  if (t->window && t->window->across) {
    emit_ends(e, t, at, out);
    return;
  }
  for (other.vectors = 1; other.vectors < t->vectors && t->window;
       other.vectors++)
    emit_tile(e, t, at, other, out);
  if (t->last)
    emit_tile(e, t, at, last, out);
  whole.rows = last.rows = t->rows - 1;
  if (t->less)
    emit_tile(e, t, at, whole, out);
  if (t->less && t->last)
    emit_tile(e, t, at, last, out);
  emit_edge(e, t, at, out);
  emit_less(t, id, out);
  if (t->window)
    emit_window_tile(e, t, at, out);
}

void emit_tiles(Emitter *e, Buffer *out) {
  char turned[4] = "";
  for (uint32_t j = 0; j < e->k->loops.len; j++) {
    const Tile *t = tile_of(e, j);
    if (!t->on)
      continue;
    char v = product_type(t->element)[0];
    bool turns =
        t->b.form == OPERAND_TURNED || (t->window && t->window->across);
    if (turns && !strchr(turned, v)) {
      emit_turn(e, out, v);
      turned[strlen(turned)] = v;
    }
    emit_product_tiles(e, t, j, out);
  }
}

/* ---- copying operands ---- */

/* for k in from .. to - 1, with the summed axes that it stands for: open and
 * close. */
static void open_terms(Emitter *e, Buffer *out, const Loop *loop,
                       const char *from, const char *to) {
  uint32_t count = loop->axes - loop->kept;
  if (count > 1) {
    buffer_printf(out, "int64_t term = %s;\n", from);
    for (uint32_t v = loop->axes; v-- > loop->kept;) {
      const char *n = emit_divisor(e, loop->extents[v]);
      buffer_printf(out, "int64_t i%u = term %% %s;\nterm /= %s;\n", v, n, n);
    }
  }
  buffer_printf(out, "for (int64_t k = %s; k < %s; k++) {\n", from, to);
  if (count == 1)
    buffer_printf(out, "const int64_t i%u = k;\n", loop->kept);
}

static void close_terms(Emitter *e, Buffer *out, const Loop *loop) {
  if (loop->axes - loop->kept > 1)
    for (uint32_t v = loop->axes; v-- > loop->kept;)
      buffer_printf(out, "if (++i%u == %s) {\ni%u = 0;\n", v,
                    emit_int(e, loop->extents[v]), v);
  if (loop->axes - loop->kept > 1)
    for (uint32_t v = loop->axes; v-- > loop->kept;)
      buffer_puts(out, "}\n");
  buffer_puts(out, "}\n");
}

void product_levels(Emitter *e, Buffer *out, uint32_t from, uint32_t to) {
  for (uint32_t l = from; l < to; l++)
    emit_put(out, &e->blocks[l]);
}

const char *product_begin(Emitter *e, const Loop *loop, uint32_t lane,
                          uint32_t loops, const uint32_t *order, Buffer *unit) {
  emit_begin_loop(e, loop, lane, loops, order);
  emit_steps(e);
  Dtype t = loop->results.at[0].dtype;
  const char *value = emit_lanes(e, loop->results.at[0].step, class_of(t));
  emit_put(&e->head, &e->blocks[0]);
  emit_put(unit, &e->blocks[ROW_LEVEL]);
  return value;
}

static uint32_t term_order(const Loop *loop, uint32_t *order) {
  uint32_t count = 0;
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    order[count++] = v;
  return count;
}

static void emit_store(Emitter *e, Buffer *out, const Tile *t, const char *to,
                       const char *value) {
  buffer_printf(out, "st_%s(%s, %s);\n", dtype_info[t->element].name, to,
                value);
  (void)e;
}

void product_copy_a(Emitter *e, const Tile *t, Buffer *unit, Buffer *out) {
  const Loop *loop = t->a.loop;
  uint32_t order[KERNEL_AXES];
  Buffer store = {.arena = e->arena};
  if (t->a.form == OPERAND_ROWS) {
    order[0] = t->m;
    const char *value = product_begin(e, loop, loop->kept, 1, order, unit);
    emit_store(e, &store, t, format(e, "to + (j - k0)"), value);
    buffer_printf(out,
                  "for (int64_t i%u = x0; i%u < x1; i%u++) {\n"
                  "%s *const to = a + (i%u - x0) * %d;\n",
                  t->m, t->m, t->m, product_type(t->element), t->m, LDA_ROWS);
    product_levels(e, out, 2, e->lane_level);
    buffer_puts(out, "const int64_t end = k1;\nint64_t j = k0;\n");
    emit_lane_loop(e, out, "", &store, &store);
    buffer_puts(out, "}\n");
    return;
  }
  uint32_t count = term_order(loop, order);
  const char *value = product_begin(e, loop, t->m, count, order, unit);
  emit_store(e, &store, t, format(e, "to + (j - x0)"), value);
  buffer_puts(out, "{\n");
  open_terms(e, out, loop, "k0", "k1");
  buffer_printf(out, "%s *const to = a + (k - k0) * %d;\n",
                product_type(t->element), LDA_COLUMNS);
  product_levels(e, out, 2, e->lane_level);
  buffer_puts(out, "const int64_t end = x1;\nint64_t j = x0;\n");
  emit_lane_loop(e, out, "", &store, &store);
  close_terms(e, out, loop);
  buffer_puts(out, "}\n");
}

/* Columns g .. as vectors x along the terms from k on, then the other way
 * round; all of them, or `rest` terms and the columns before n1. */
static void emit_turn_block(Emitter *e, const Operand *o, uint32_t n,
                            const char *id, char v, bool all,
                            const Buffer *take, Buffer *out) {
  bool unrolled = all && o->loop->steps.len <= UNROLLED_STEPS;
  const char *unroll =
      unrolled ? format(e, "#pragma GCC unroll %u\n", e->s->width) : "";
  buffer_printf(out,
                "%sfor (int l = 0; l < W; l++) {\nconst int64_t i%u = %s;\n",
                unroll, n, all ? "g + l" : "g + l < n1 ? g + l : n1 - 1");
  product_levels(e, out, 2, e->lane_level);
  buffer_printf(out, "const int64_t j = k;\n%s",
                all ? whole_macros : part_macros);
  product_levels(e, out, e->lane_level, e->lane_level + 1);
  emit_put(out, &e->checks);
  emit_put(out, take);
  buffer_printf(out,
                "%s}\nturn%s_%c(x);\n%s"
                "for (int l = 0; l < %s; l++)\n"
                "*(v%c_u *)(panel + (k - from + l) * NR%s + (g - y)) = x[l];\n",
                no_macros, e->number, v, unroll, all ? "W" : "rest", v, id);
}

/* A panel from values that lie along the terms. */
static void emit_turned_panel(Emitter *e, const Tile *t, const Operand *o,
                              uint32_t n, const char *id, Buffer *unit,
                              Buffer *out) {
  const Loop *loop = o->loop;
  uint32_t order[KERNEL_AXES] = {n};
  char v = product_type(t->element)[0];
  Buffer take = {.arena = e->arena};
  const char *value = product_begin(e, loop, loop->kept, 1, order, unit);
  buffer_printf(&take, "x[l] = %s;\n", value);
  buffer_printf(out,
                "for (int64_t g = y; g < right; g += W)\n"
                "for (int64_t k = from; k < to; k += W) {\n"
                "const int rest = to - k < W ? (int)(to - k) : W;\n"
                "v%c x[W];\n"
                "if (rest == W && g + W <= n1) {\n",
                v);
  emit_turn_block(e, o, n, id, v, true, &take, out);
  buffer_puts(out, "} else {\n");
  emit_turn_block(e, o, n, id, v, false, &take, out);
  buffer_puts(out, "}\n}\n");
}

void product_copy_b(Emitter *e, const Tile *t, const Operand *o, uint32_t n,
                    uint32_t at, Buffer *unit, Buffer *out) {
  const Loop *loop = o->loop;
  const char *id = product_id(e, at);
  uint32_t order[KERNEL_AXES];
  Buffer store = {.arena = e->arena};
  const char *type = product_type(t->element);
  buffer_printf(out,
                "for (int64_t y = n0; y < n1; y += NR%s) {\n"
                "const int64_t right = y + NR%s < n1 ? y + NR%s : n1;\n"
                "%s *const panel = b + (y - n0) * (to - from);\n",
                id, id, id, type);
  if (o->form != OPERAND_TURNED) {
    uint32_t count = term_order(loop, order);
    const char *value = product_begin(e, loop, n, count, order, unit);
    emit_store(e, &store, t, "row + (j - y)", value);
    open_terms(e, out, loop, "from", "to");
    buffer_printf(out, "%s *const row = panel + (k - from) * NR%s;\n", type,
                  id);
    product_levels(e, out, 2, e->lane_level);
    buffer_puts(out, "const int64_t end = right;\nint64_t j = y;\n");
    emit_lane_loop(e, out, "", &store, &store);
    close_terms(e, out, loop);
  } else {
    emit_turned_panel(e, t, o, n, id, unit, out);
  }
  buffer_puts(out, "}\n");
}

/* ---- the result ---- */

/* c points to the element of m0, n0; ldc: from row to row. */
static void emit_result(Emitter *e, const Tile *t, uint32_t at, Buffer *unit,
                        Buffer *out) {
  const Loop *loop = e->k->loops.at[at];
  const Result *r = &loop->results.at[0];
  const char *type = product_type(t->dtype);
  emit_begin_loop(e, loop, NO_LANE, 0, NULL);
  const Quasi *q = r->out ? r->out : r->local;
  Quasi rest = *q;
  rest.times[t->m] = rest.times[t->n] = 0;
  const char *others = emit_quasi(e, &rest);
  emit_put(&e->head, &e->blocks[0]);
  emit_put(unit, &e->blocks[ROW_LEVEL]);
  if (r->out) {
    VEC_PUSH(e->arena, e->out->call.outs, &e->k->loops.at[at]->results.at[0]);
    const char *ldc = emit_int(e, r->out->times[t->m]);
    e->out->call.accumulator = t->dtype; /* of chunks */
    buffer_printf(out,
                  "const int64_t ldc = %s;\n"
                  "%s *const c = o%u + %s + m0 * ldc + n0%s;\n",
                  ldc, type, e->out->call.outs.len - 1, others,
                  e->s->chunk ? " + share" : "");
    return;
  }
  const Local *l = &e->locals[at][0];
  if (e->s->shape == UNIT_TILE) /* m0 is top, and n0 is lo */
    buffer_printf(out, "const int64_t ldc = %s;\n%s *const c = l%u;\n",
                  l->block, type, l->name);
  else
    buffer_printf(out,
                  "const int64_t ldc = %s;\n"
                  "%s *const c = l%u + (m0 - lo) * ldc + %s + n0;\n",
                  l->size, type, l->name, others);
}

/* ---- the whole ---- */

/* Axes of the result other than those of the tile, that are not of the unit. */
static uint32_t open_others(Emitter *e, const Tile *t, uint32_t at,
                            Buffer *out) {
  const Loop *loop = e->k->loops.at[at];
  uint32_t count = 0;
  for (uint32_t v = loop->outer; v < loop->kept; v++) {
    if (v == t->m || v == t->n)
      continue;
    buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                  emit_int(e, loop->extents[v]), v);
    count++;
  }
  return count;
}

static void emit_ranges(Emitter *e, const Tile *t, uint32_t at, Buffer *out) {
  const Loop *loop = e->k->loops.at[at];
  const char *n = emit_int(e, loop->extents[t->n]), *id = product_id(e, at);
  bool tile = e->s->shape == UNIT_TILE, limited = is_limited(loop, t->n);
  buffer_printf(out, "const int64_t m0 = %s, m1 = %s;\n", tile ? "top" : "lo",
                tile ? "bottom" : "hi");
  if (limited) /* whole panels */
    buffer_printf(out,
                  "const int64_t left = from%u / NR%s * NR%s;\n"
                  "const int64_t right = (to%u + NR%s - 1) / NR%s * NR%s;\n",
                  at, id, id, at, id, id, id);
  if (tile || t->ahead)
    buffer_printf(out, "{\nconst int64_t n0 = %s, n1 = %s;\n",
                  tile ? "lo" : "0", tile ? "hi" : n);
  else if (limited)
    buffer_printf(out,
                  "const int64_t stop = right < %s ? right : %s;\n"
                  "for (int64_t n0 = left; n0 < stop; n0 += %s) {\n"
                  "const int64_t n1 = n0 + %s < stop ? n0 + %s : stop;\n",
                  n, n, emit_int(e, t->block_n), emit_int(e, t->block_n),
                  emit_int(e, t->block_n));
  else
    buffer_printf(out,
                  "for (int64_t n0 = 0; n0 < %s; n0 += %s) {\n"
                  "const int64_t n1 = n0 + %s < %s ? n0 + %s : %s;\n",
                  n, emit_int(e, t->block_n), emit_int(e, t->block_n), n,
                  emit_int(e, t->block_n), n);
}

void product_plain(Emitter *e, const Tile *t, const Operand *o, uint32_t rows,
                   Buffer *unit, Buffer *out) {
  const Loop *loop = o->loop;
  const Step *s = &loop->steps.at[loop->results.at[0].step];
  const char *type = read_type(t), *name = o == &t->a ? "a" : "b";
  emit_begin_loop(e, loop, NO_LANE, 0, NULL);
  Quasi rest = *s->address;
  for (uint32_t v = 0; v < loop->axes; v++)
    if (v == rows || v >= loop->kept || (v + 1 == loop->kept && *name == 'b'))
      rest.times[v] = 0;
  if (s->kind == STEP_READ) {
    buffer_printf(out,
                  "const int64_t ld%s = %s;\n"
                  "const %s *const %s = (const %s *)(p%u + %s);\n",
                  name, emit_int(e, s->address->times[rows] / (1 + s->pairs)),
                  type, name, type, s->input, emit_quasi(e, &rest));
  } else {
    const Local *l = &e->locals[s->loop][s->result];
    buffer_printf(out,
                  "const int64_t ld%s = %s;\n"
                  "const %s *const %s = l%u + %s - lo * ld%s;\n",
                  name, l->size, type, name, l->name, emit_quasi(e, &rest),
                  name);
  }
  emit_put(&e->head, &e->blocks[0]);
  emit_put(unit, &e->blocks[ROW_LEVEL]);
}

static void put_room(Emitter *e, const char *name, int64_t elements, Dtype t,
                     Buffer *out) {
  const char *type = product_type(t);
  buffer_printf(out, "%s *const %s = (%s *)(room + %s);\n", type, name, type,
                emit_room(e, elements, t));
}

void product_left(Emitter *e, const Tile *t, Buffer *unit, Buffer *body,
                  Buffer *inner) {
  if (t->a.form == OPERAND_ROWS)
    put_room(e, "a", LDA_ROWS * (BLOCK_M_MOST + t->rows), t->element, body);
  else if (t->a.form == OPERAND_COLUMNS)
    put_room(e, "a", (t->block_k + 1) * LDA_COLUMNS, t->element, body);
  else
    product_plain(e, t, &t->a, t->m, unit, inner);
}

const char *product_rows(Emitter *e, const Tile *t) {
  return t->a.form == OPERAND_PLAIN ? "a + x * lda + k0, lda"
         : t->a.form == OPERAND_ROWS
             ? format(e, "a + (x - x0) * %d, %d", LDA_ROWS, LDA_ROWS)
             : format(e, "a + (x - x0), %d", LDA_COLUMNS);
}

static int64_t panel_elements(Emitter *e, const Tile *t) {
  int64_t columns = (int64_t)t->vectors * e->s->width;
  int64_t block = emit_times(e, emit_over(e, t->block_n, columns), columns);
  return emit_plus(e, emit_times(e, t->pack_k, block), e->s->width);
}

void emit_ahead(Emitter *e, Buffer *out, uint32_t at) {
  const Tile *t = tile_of(e, at);
  if (!t->ahead)
    return;
  const char *type = product_type(t->element);
  Buffer unit = {.arena = e->arena}, body = unit;
  e->ahead[at] = emit_room(e, panel_elements(e, t), t->element);
  buffer_printf(&body,
                "%s *const b = (%s *)(room + %s);\n"
                "const int64_t n0 = 0, n1 = %s, from = 0, to = %s;\n",
                type, type, e->ahead[at], emit_int(e, t->b.loop->extents[t->n]),
                emit_int(e, t->depth));
  uint32_t kept;
  bool keeps = keeping_begin(e, t, &t->b, t->n, at, &kept);
  if (keeps)
    keeping_copy(e, kept, &body);
  else
    product_copy_b(e, t, &t->b, t->n, at, &unit, &body);
  buffer_printf(out, "%s{\n", keeps ? format(e, "if (!kept%u) ", kept) : "");
  emit_put(out, &unit);
  emit_put(out, &body);
  buffer_puts(out, "}\n");
}

/* A sum of nothing is stored too; limits leave something of what there is. */
static const char *at_least_once(Emitter *e, uint32_t at, const char *k,
                                 const char *start) {
  const Loop *loop = e->k->loops.at[at];
  bool some = is_limited(loop, loop->kept) &&
              size_is_number(loop->graph, loop->extents[loop->kept]);
  return some ? "" : format(e, " || %s == %s", k, start);
}

typedef struct Terms { /* of a sum: of those that are there, from .. to - 1 */
  const char *from, *to;
} Terms;

static Terms terms_of(Emitter *e, const Tile *t, uint32_t at) {
  const Loop *loop = e->k->loops.at[at];
  if (e->s->chunk)
    return (Terms){"part", "stop"};
  if (is_limited(loop, loop->kept))
    return (Terms){format(e, "from%u", at), format(e, "to%u", at)};
  return (Terms){"0", emit_int(e, t->depth)};
}

/* Tiles of rows x0 .. x1 - 1; from `whole` on they have a row less. */
static void emit_tile_calls(Emitter *e, const Tile *t, uint32_t at,
                            const char *left, const char *right,
                            const char *panel, const char *more, Buffer *out) {
  const char *id = product_id(e, at), *rows = product_rows(e, t);
  const char *arguments =
      format(e, "(%s,\n%s, k1 - k0,\nc + (x - %s) * ldc + (y - n0), ldc, %s",
             rows, panel, t->passing ? "x0" : "m0", more);
  if (t->less)
    buffer_printf(out, "const int64_t whole = x1 - less%s(x1 - x0);\n", id);
  buffer_printf(out,
                "for (int64_t y = %s; y < %s; y += NR%s)\n"
                "for (int64_t x = x0, rows; x < x1; x += rows) {\n"
                "rows = %sx + MR%s <= x1 ? MR%s : x1 - x;\n"
                "if (rows == MR%s && y + NR%s <= n1)\n"
                "tile%s%s);\nelse\n"
                "edge%s%s,\nrows, n1 - y < NR%s ? n1 - y : NR%s);\n}\n}\n",
                left, right, id,
                t->less ? format(e, "x >= whole ? LEAST%s : ", id) : "", id, id,
                id, id, id, arguments, id, arguments, id, id);
}

/* Tiles of rows m0 .. m1 - 1, terms from .. to - 1. */
static void emit_passes(Emitter *e, const Tile *t, uint32_t at, Buffer *unit,
                        Buffer *out, const Buffer *rest, const Terms *terms,
                        const char *panel) {
  const Loop *loop = e->k->loops.at[at];
  const char *start = terms->from, *depth = terms->to;
  bool columns = t->ahead && is_limited(loop, t->n);
  const char *left = columns ? "left" : "n0", *right = columns ? "right" : "n1";
  bool some = t->ahead && is_limited(loop, loop->kept);
  bool carried = loop->results.at[0].carried;
  const char *more = carried ? "1" : format(e, "k0 != %s", start);
  const char *kc = emit_int(e, t->block_k), *mc = emit_int(e, t->block_m);
  buffer_printf(out,
                "for (int64_t x0 = m0; x0 < m1; x0 += %s) {\n"
                "const int64_t x1 = x0 + %s < m1 ? x0 + %s : m1;\n"
                "for (int64_t k0 = %s; k0 < %s%s; k0 += %s) {\n"
                "const int64_t k1 = k0 + %s < %s ? k0 + %s : %s;\n",
                mc, mc, mc, some ? start : "from", some ? depth : "to",
                at_least_once(e, at, "k0", "from"), kc, kc, some ? depth : "to",
                kc, some ? depth : "to");
  if (t->a.form != OPERAND_PLAIN)
    product_copy_a(e, t, unit, out);
  emit_tile_calls(e, t, at, left, right, panel, more, out);
  if (rest) {
    buffer_printf(out, "if (to < %s)\ncontinue;\n", depth);
    buffer_puts(out, "const int64_t y0 = x0, y1 = x1;\n(void)y0, (void)y1;\n");
    emit_put(out, rest);
  }
  buffer_puts(out, "}\n");
}

/* The panel of columns y .. as arguments; kept: its number, or NULL. */
static const char *panel_of(Emitter *e, const Tile *t, uint32_t at,
                            const uint32_t *kept) {
  const char *id = product_id(e, at), *plain = "b + k0 * ldb + y, ldb";
  if (t->b.form != OPERAND_PLAIN)
    return format(e, "%s + (k0 - from) * NR%s, NR%s",
                  kept && !t->ahead ? "panels + (y - n0) * high"
                                    : "b + (y - n0) * (to - from)",
                  id, id);
  if (!kept)
    return plain;
  return format(e,
                "kept%u ? kept%u + y * %s + k0 * NR%s\n: b + k0 * ldb + y, "
                "kept%u ? NR%s : ldb",
                *kept, *kept, e->out->call.keepings.at[*kept].depth, id, *kept,
                id);
}

/* Panels of terms from .. to - 1, each `high` of them long: kept, or copied. */
static void emit_kept(Emitter *e, uint32_t at, uint32_t kept, Buffer *out) {
  const Keeping *k = &e->out->call.keepings.at[kept];
  buffer_printf(out, "if (!kept%u)\n", kept);
  keeping_copy(e, kept, out);
  buffer_printf(out,
                "const %s *const panels =\n"
                "kept%u ? kept%u + n0 * %s + from * NR%s : b;\n"
                "const int64_t high = kept%u ? %s : to - from;\n",
                k->type, kept, kept, k->depth, product_id(e, at), kept,
                k->depth);
}

void emit_product(Emitter *e, Buffer *out, uint32_t at, const Buffer *rest) {
  const Tile *t = tile_of(e, at);
  if (t->window) {
    emit_window(e, out, at, rest);
    return;
  }
  const Terms terms = terms_of(e, t, at);
  const char *start = terms.from, *depth = terms.to;
  const char *type = product_type(t->element);
  Buffer unit = {.arena = e->arena}, body = unit, inner = unit;
  bool plain_b = t->b.form == OPERAND_PLAIN;
  uint32_t kept;
  bool keeps = keeping_begin(e, t, &t->b, t->n, at, &kept);
  product_left(e, t, &unit, &body, &inner);
  if (plain_b)
    product_plain(e, t, &t->b, t->b.loop->kept, &unit, &inner);
  else if (t->ahead && keeps)
    buffer_printf(&body,
                  "const %s *const b = kept%u ? kept%u : (%s *)(room + %s);\n",
                  type, kept, kept, type, e->ahead[at]);
  else if (t->ahead)
    buffer_printf(&body, "%s *const b = (%s *)(room + %s);\n", type, type,
                  e->ahead[at]);
  else
    put_room(e, "b", panel_elements(e, t), t->element, &body);
  emit_ranges(e, t, at, &body);
  emit_result(e, t, at, &unit, &inner);
  if (t->ahead)
    buffer_printf(&inner, "{\nconst int64_t from = 0, to = %s;\n",
                  emit_int(e, t->depth));
  else if (plain_b)
    buffer_printf(&inner, "{\nconst int64_t from = %s, to = %s;\n", start,
                  depth);
  else
    buffer_printf(&inner,
                  "for (int64_t from = %s; from < %s%s; from += %s) {\n"
                  "const int64_t to = from + %s < %s ? from + %s : %s;\n",
                  start, depth, at_least_once(e, at, "from", start),
                  emit_int(e, t->pack_k), emit_int(e, t->pack_k), depth,
                  emit_int(e, t->pack_k), depth);
  if (keeps && !t->ahead && !plain_b)
    emit_kept(e, at, kept, &inner);
  else if (!plain_b && !t->ahead)
    product_copy_b(e, t, &t->b, t->n, at, &unit, &inner);
  emit_passes(e, t, at, &unit, &inner, rest, &terms,
              panel_of(e, t, at, keeps ? &kept : NULL));
  buffer_puts(out, "{\n");
  uint32_t others = open_others(e, t, at, out);
  emit_put(out, &unit);
  emit_put(out, &body);
  emit_put(out, &inner);
  buffer_puts(out, "}\n}\n");
  while (others--)
    buffer_puts(out, "}\n");
  buffer_puts(out, "}\n");
}

/* ---- what is not finite ---- */

static void emit_odd_of(Emitter *e, Buffer *out, uint32_t at) {
  const Tile *t = tile_of(e, at);
  const Loop *loop = t->b.loop;
  uint32_t order[KERNEL_AXES], lane = t->n, count = term_order(loop, order);
  Buffer unit = {.arena = e->arena}, body = unit, test = unit;
  char class = class_of(t->dtype);
  bool turned = t->b.form == OPERAND_TURNED;
  if (turned) {
    order[0] = t->n;
    lane = loop->kept;
    count = 1;
  }
  const char *value = product_begin(e, loop, lane, count, order, &unit);
  buffer_printf(&test,
                "{ const v%c x = %s;\nodds |= test_%c(x - x != x - x) & LIVE; "
                "}\n",
                class, value, class);
  const char *n = emit_int(e, loop->extents[t->n]);
  const char *depth = emit_int(e, t->depth);
  if (turned)
    buffer_printf(&body, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", t->n,
                  t->n, n, t->n);
  else
    open_terms(e, &body, loop, "0", depth);
  product_levels(e, &body, 2, e->lane_level);
  buffer_printf(&body, "const int64_t end = %s;\nint64_t j = 0;\n",
                turned ? depth : n);
  emit_lane_loop(e, &body, "", &test, &test);
  if (turned)
    buffer_puts(&body, "}\n");
  else
    close_terms(e, &body, loop);
  uint32_t others = open_others(e, t, at, out);
  buffer_puts(out, "{\n");
  emit_put(out, &unit);
  emit_put(out, &body);
  buffer_puts(out, "}\n");
  while (others--)
    buffer_puts(out, "}\n");
}

void emit_odd(Emitter *e, Buffer *out) {
  buffer_puts(out, "vi odds = {0};\n");
  for (uint32_t j = 0; j < e->k->loops.len; j++)
    if (e->k->loops.at[j]->finite)
      emit_odd_of(e, out, j);
  buffer_puts(out, "const int odd = any_lane(odds);\n");
}
