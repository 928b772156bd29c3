/* Small products of a batch.  Of rows that are shorter than a register, whole
 * blocks lie in registers: lanes lie along the elements of a result's block,
 * row after row, and perhaps along some members.  For each term both factors
 * are lanes of the registers that hold the operands' blocks, in an order that
 * is a constant: no element is loaded twice, none is broadcast from memory, and
 * no register is left half empty.
 *
 * Longer rows are lanes as they are, and tiles of some rows lie in registers.
 * The last tile of a block begins so that it ends with it: what it shares with
 * the one before comes to the same.  Nothing is copied, since all of b stays in
 * the first cache. */
#include "backend/cpu/members.h"

#include "backend/cpu/emit.h"

enum {
  REGISTERS = 8,         /* of each block, at most */
  SOURCES = 2,           /* registers that lanes are taken from at a time */
  LEAST_MEMBERS = 64,    /* fewer are not worth a code of their own */
  ROWS_MOST = 128,       /* of a block that is cut into tiles */
  TILE_VECTORS = 4,      /* side by side */
  TILE_BYTES = 24 << 10, /* of b, which tiles go through again and again */
};

#define format emit_format

/* ---- which products ---- */

static const Step *plain_factor(const Loop *loop, uint32_t at, Dtype t) {
  const Step *s = &loop->steps.at[at];
  if (s->kind != STEP_READ || s->index_count || s->dtype != t)
    return NULL;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (s->address->times[v] < 0 || (v >= KERNEL_AXES && s->address->times[v]))
      return NULL;
  return s;
}

static Block block_of(const Step *read, const Quasi *at, uint32_t row,
                      int64_t rows, uint32_t column, int64_t columns,
                      uint32_t batch) {
  Block b = {.read = read, .rows = at->times[row], .step = at->times[column]};
  if (rows && columns)
    b.span = (rows - 1) * b.rows + (columns - 1) * b.step + 1;
  b.stride = at->times[batch];
  return b;
}

/* Where lane `lane` of register v of the result has its factor: an element of
 * the operand's block. */
static int64_t element_of(const Members *p, const Block *of, int64_t v,
                          uint32_t width, int64_t lane, int64_t term,
                          int64_t members) {
  int64_t block = p->rows * p->columns, e = v * width + lane;
  if (e >= block * members)
    return -1;
  int64_t row = e % block / p->columns, column = e % p->columns;
  int64_t member = members > 1 ? e / block * of->stride : 0;
  return member + (of == &p->a ? row * of->rows + term * of->step
                               : term * of->rows + column * of->step);
}

/* The registers of an operand that its factors come from; false: too many. */
static bool sources_of(const Members *p, const Block *of, int64_t v,
                       uint32_t width, int64_t term, int64_t members,
                       int64_t from[SOURCES]) {
  int count = 0;
  from[0] = from[1] = 0;
  for (int64_t l = 0; l < width; l++) {
    int64_t e = element_of(p, of, v, width, l, term, members);
    bool seen = e < 0;
    for (int k = 0; k < count; k++)
      seen |= from[k] == e / width;
    if (seen)
      continue;
    if (count == SOURCES)
      return false;
    from[count++] = e / width;
  }
  return true;
}

static int64_t reach(const Block *b, int64_t members) {
  return (members - 1) * b->stride + b->span;
}

/* How many whole members fit into a register of each block; 1: at least. */
static int64_t fitting(const Members *p, uint32_t width) {
  int64_t count = 1;
  if (p->c.stride != p->rows * p->columns)
    return 1;
  while (reach(&p->a, count + 1) <= width && reach(&p->b, count + 1) <= width &&
         reach(&p->c, count + 1) <= width)
    count++;
  return count;
}

/* Do whole blocks fit into registers? */
static bool fits(Members *p, uint32_t width) {
  const Block *blocks[] = {&p->a, &p->b, &p->c};
  int64_t most = REGISTERS * (int64_t)width;
  if (p->columns > width / 2 || p->rows > most || p->depth > most ||
      p->c.rows != p->columns)
    return false;
  for (uint32_t j = 0; j < ARRAY_LEN(blocks); j++)
    if (blocks[j]->span > REGISTERS * (int64_t)width)
      return false;
  for (int64_t v = 0; v < divide_up(p->c.span, width); v++)
    for (int64_t k = 0; k < p->depth; k++) {
      int64_t from[SOURCES];
      if (!sources_of(p, &p->a, v, width, k, 1, from) ||
          !sources_of(p, &p->b, v, width, k, 1, from))
        return false;
    }
  p->at_once = fitting(p, width);
  return true;
}

/* Rows of a tile with so many vectors side by side. */
static uint32_t rows_most(uint32_t vectors, uint32_t bytes) {
  static const uint8_t many[] = {12, 12, 8, 6}, few[] = {8, 4, 3, 2};
  return (bytes == 64 ? many : few)[vectors - 1]; /* of 32 registers */
}

/* Or a tile of its rows?  As even ones as there may be. */
static bool tile_fits(Members *p, uint32_t width) {
  int64_t vectors = divide_up(p->columns, width);
  if (vectors > TILE_VECTORS || p->rows > ROWS_MOST || p->depth > ROWS_MOST ||
      p->rows * p->columns * p->depth < ROWS_MOST || p->b.step != 1 ||
      p->b.span * dtype_info[p->dtype].bytes > TILE_BYTES ||
      4 * p->columns < width)
    return false;
  int64_t most = rows_most((uint32_t)vectors, target_vector_bytes());
  p->at_once = 1;
  p->vectors = (uint32_t)vectors;
  p->tile_rows = (uint32_t)divide_up(p->rows, divide_up(p->rows, most));
  return true;
}

/* The axis with the most members. */
static bool find_batch(Members *p, const Loop *loop, const Quasi *out) {
  int64_t block = p->open ? 1 : p->rows * p->columns;
  p->batch = UINT32_MAX;
  for (uint32_t v = 0; v < loop->outer; v++)
    if (v != p->m && v != p->n && out->times[v] >= block &&
        (p->open || size_is_number(loop->graph, out->times[v])) &&
        (p->batch == UINT32_MAX ||
         loop_guess(loop, v) > loop_guess(loop, p->batch)))
      p->batch = v;
  return p->batch != UINT32_MAX && loop_guess(loop, p->batch) >= LEAST_MEMBERS;
}

/* Are a member's places numbers, and how far it is to the next one? */
static bool is_fixed(const Members *p, const Graph *g, const Quasi *at,
                     uint32_t k) {
  return size_is_number(g, at->times[p->m]) &&
         size_is_number(g, at->times[p->n]) &&
         size_is_number(g, at->times[k]) &&
         size_is_number(g, at->times[p->batch]);
}

static bool find_members(const Kernel *kernel, Members *p, uint32_t width) {
  const Loop *loop = kernel->loops.at[0];
  const Result *r = &loop->results.at[0];
  Product product;
  uint32_t with_n, k = loop->kept;
  if (!product_find_any(kernel->arena, loop, &product) || product.count != 2 ||
      product.outside_count || !r->out || r->local || loop->axes != k + 1 ||
      loop->outer != k || r->dtype != loop->steps.at[r->step].dtype)
    return false;
  p->dtype = r->dtype;
  for (p->n = 0; p->n < k && r->out->times[p->n] != 1;)
    p->n++;
  if (p->n == k || !product_sides(loop, &product, p->n, &p->m, &with_n) ||
      (with_n != 1 && with_n != 2))
    return false;
  const Step *a = plain_factor(loop, product.factors[with_n == 1], p->dtype);
  const Step *b = plain_factor(loop, product.factors[with_n != 1], p->dtype);
  p->rows = loop->extents[p->m];
  p->columns = loop->extents[p->n];
  p->depth = loop->extents[k];
  Graph *g = loop->graph;
  p->open = !size_is_number(g, p->rows) || !size_is_number(g, p->columns) ||
            !size_is_number(g, p->depth);
  if (!a || !b || p->depth < 1 || !find_batch(p, loop, r->out))
    return false;
  if (p->open) {
    p->a = block_of(a, a->address, p->m, 0, k, 0, p->batch);
    p->b = block_of(b, b->address, k, 0, p->n, 0, p->batch);
    p->c = block_of(NULL, r->out, p->m, 0, p->n, 0, p->batch);
    p->at_once = 1;
    p->vectors = TILE_VECTORS;
    return p->b.step == 1;
  }
  if (!is_fixed(p, g, a->address, k) || !is_fixed(p, g, b->address, k) ||
      !is_fixed(p, g, r->out, k))
    return false;
  p->a = block_of(a, a->address, p->m, p->rows, k, p->depth, p->batch);
  p->b = block_of(b, b->address, k, p->depth, p->n, p->columns, p->batch);
  p->c = block_of(NULL, r->out, p->m, p->rows, p->n, p->columns, p->batch);
  return fits(p, width) || tile_fits(p, width);
}

static bool is_one(const Kernel *k, uint32_t width) {
  return k->loops.len == 1 && k->loops.at[0]->results.len == 1 &&
         k->outer >= 3 && width >= 4;
}

int64_t members_open(const Kernel *k, uint32_t width, int64_t sizes[3]) {
  Members p = {.n = 0};
  if (!is_one(k, width) || !find_members(k, &p, width) || !p.open)
    return 0;
  sizes[0] = p.rows;
  sizes[1] = p.columns;
  sizes[2] = p.depth;
  return TILE_VECTORS * (int64_t)width;
}

bool members_choose(Kernel *k, Schedule *s) {
  enum { UNIT_WORK = 1 << 14, OPEN_BLOCK = 64 };
  Members *p = NEW(k->arena, Members);
  if (!is_one(k, s->width) || !find_members(k, p, s->width) ||
      (p->open && !k->small))
    return false;
  kernel_move_last(k, p->m);
  kernel_move_last(k, p->n - (p->n > p->m));
  kernel_move_last(k, p->batch - (p->batch > p->m) - (p->batch > p->n));
  p->batch = k->outer - 1;
  p->n = k->outer - 2;
  p->m = k->outer - 3;
  int64_t block = p->open ? OPEN_BLOCK
                          : UNIT_WORK / (p->rows * p->columns * p->depth);
  s->members = p;
  s->shape = UNIT_MEMBERS;
  s->block = divide_up(block > 0 ? block : 1, p->at_once) * p->at_once;
  return true;
}

/* Where every vector is whole. */
bool members_stream(const Schedule *s, const Graph *g, const Result *r) {
  const Members *p = s->members;
  if (p->open)
    return false;
  int64_t all = p->vectors ? p->columns : reach(&p->c, p->at_once);
  return schedule_streams(s, g, r) && all % s->width == 0;
}

/* ---- as C ---- */

static bool is_streamed(const Emitter *e) {
  return members_stream(e->s, e->k->graph, &e->k->loops.at[0]->results.at[0]);
}

static const char *lanes_of(Emitter *e, const Members *p, const Block *of,
                            int64_t v, int64_t term, int64_t members) {
  uint32_t width = e->s->width;
  char name = of == &p->a ? 'a' : 'b';
  int64_t from[SOURCES];
  sources_of(p, of, v, width, term, members, from);
  Buffer text = {.arena = e->arena};
  buffer_printf(&text, "__builtin_shufflevector(%c%lld, %c%lld", name,
                (long long)from[0], name, (long long)from[1]);
  for (int64_t l = 0; l < width; l++) {
    int64_t at = element_of(p, of, v, width, l, term, members);
    int64_t lane = at < 0 ? 0 : at % width;
    bool second = at >= 0 && at / width != from[0];
    buffer_printf(&text, ", %lld", (long long)(second ? lane + width : lane));
  }
  buffer_puts(&text, ")");
  return text.text;
}

static void emit_load(Emitter *e, Buffer *out, const Members *p, char name,
                      int64_t reach) {
  const char *type = dtype_info[p->dtype].name;
  char v = vector_letter(class_of(p->dtype));
  int64_t width = e->s->width;
  for (int64_t j = 0; j * width < reach; j++)
    if (reach - j * width >= width)
      buffer_printf(out, "const v%c %c%lld = ld_%s(%c + %lld);\n", v, name,
                    (long long)j, type, name, (long long)(j * width));
    else
      buffer_printf(out, "const v%c %c%lld = ldp_%s(%c + %lld, %lld);\n", v,
                    name, (long long)j, type, name, (long long)(j * width),
                    (long long)(reach - j * width));
}

/* So many members. */
static void emit_some(Emitter *e, Buffer *out, const Members *p,
                      int64_t members) {
  const char *type = dtype_info[p->dtype].name;
  char letter = vector_letter(class_of(p->dtype));
  int64_t width = e->s->width, all = reach(&p->c, members);
  emit_load(e, out, p, 'a', reach(&p->a, members));
  emit_load(e, out, p, 'b', reach(&p->b, members));
  for (int64_t v = 0; v * width < all; v++)
    buffer_printf(out, "v%c c%lld = {0};\n", letter, (long long)v);
  for (int64_t k = 0; k < p->depth; k++)
    for (int64_t v = 0; v * width < all; v++)
      buffer_printf(out, "c%lld += %s\n* %s;\n", (long long)v,
                    lanes_of(e, p, &p->a, v, k, members),
                    lanes_of(e, p, &p->b, v, k, members));
  for (int64_t v = 0; v * width < all; v++)
    if (all - v * width >= width)
      buffer_printf(out, "%s_%s(c + %lld, c%lld);\n",
                    is_streamed(e) ? "nt" : "st", type, (long long)(v * width),
                    (long long)v);
    else
      buffer_printf(out, "stp_%s(c + %lld, c%lld, %lld);\n", type,
                    (long long)(v * width), (long long)v,
                    (long long)(all - v * width));
}

static void emit_blocks(Emitter *e, Buffer *out, const Members *p) {
  const char *type = memory_type(p->dtype);
  buffer_printf(out,
                "static __attribute__((noinline)) FUSED void\n"
                "members%s(const %s *a, int64_t sa, const %s *b, int64_t sb,\n"
                "%s *c, int64_t sc, int64_t count) {\nFUSING\n",
                e->number, type, type, type);
  if (p->at_once > 1) {
    long long n = p->at_once;
    buffer_printf(out,
                  "for (; count >= %lld; count -= %lld,\n"
                  "a += %lld * sa, b += %lld * sb, c += %lld * sc) {\n",
                  n, n, n, n, n);
    emit_some(e, out, p, p->at_once);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "for (; count > 0; count--, a += sa, b += sb, c += sc) {\n");
  emit_some(e, out, p, 1);
  buffer_puts(out, "}\n}\n");
}

/* ---- tiles ---- */

static bool is_cut(const Members *p, uint32_t width) {
  return p->open || p->columns % width != 0;
}

/* Vector j of a row that begins at `to`, of which the last may be cut. */
static const char *row_part(Emitter *e, const Members *p, const char *what,
                            const char *to, uint32_t j, const char *value) {
  bool cut = is_cut(p, e->s->width) && j + 1 == p->vectors;
  return format(e, "%s%s_%s(%s + %u * W%s%s%s)", what, cut ? "p" : "",
                dtype_info[p->dtype].name, to, j, *value ? ", " : "", value,
                cut ? ", rest" : "");
}

static void emit_tile_terms(Emitter *e, Buffer *out, const Members *p) {
  char v = vector_letter(class_of(p->dtype));
  for (uint32_t i = 0; i < p->tile_rows; i++)
    for (uint32_t j = 0; j < p->vectors; j++)
      buffer_printf(out, "v%c c%u_%u = {0};\n", v, i, j);
  buffer_puts(out, "for (int64_t k = 0; k < depth; k++) {\n");
  for (uint32_t j = 0; j < p->vectors; j++)
    buffer_printf(out, "const v%c b%u = %s;\n", v, j,
                  row_part(e, p, "ld", "y", j, ""));
  for (uint32_t i = 0; i < p->tile_rows; i++) {
    buffer_printf(out, "const v%c a%u = x[%u * ra] - (v%c){0};\n", v, i, i, v);
    for (uint32_t j = 0; j < p->vectors; j++)
      buffer_printf(out, "c%u_%u += a%u * b%u;\n", i, j, i, j);
  }
  buffer_puts(out, "x += ka;\ny += rb;\n}\n");
}

static void emit_tile_stores(Emitter *e, Buffer *out, const Members *p) {
  const char *store = is_streamed(e) ? "nt" : "st";
  for (uint32_t i = 0; i < p->tile_rows; i++)
    for (uint32_t j = 0; j < p->vectors; j++)
      buffer_printf(out, "%s;\n",
                    row_part(e, p, store, format(e, "z + %u * rc", i), j,
                             format(e, "c%u_%u", i, j)));
}

static void emit_head(Emitter *e, Buffer *out, const Members *p,
                      const char *suffix, const char *last) {
  const char *type = memory_type(p->dtype);
  buffer_printf(out,
                "static __attribute__((noinline)) FUSED void\n"
                "members%s%s(const %s *a, int64_t sa, const %s *b, int64_t sb,\n"
                "%s *c, int64_t sc, int64_t count, int64_t ra, int64_t ka,\n"
                "int64_t rb, int64_t rc, int64_t rows, int64_t depth, "
                "int64_t %s) {\n",
                e->number, suffix, type, type, type, last);
}

static void emit_cut_blocks(Emitter *e, Buffer *out, const Members *p) {
  const char *type = memory_type(p->dtype);
  emit_head(e, out, p, "", "rest");
  buffer_printf(out,
                "FUSING\n(void)rest;\n"
                "for (; count > 0; count--, a += sa, b += sb, c += sc)\n"
                "for (int64_t i = 0; i < rows; i += %u) {\n"
                "const int64_t m = i + %u <= rows ? i : rows - %u;\n"
                "const %s *x = a + m * ra, *y = b;\n"
                "%s *const z = c + m * rc;\n",
                p->tile_rows, p->tile_rows, p->tile_rows, type, type);
  emit_tile_terms(e, out, p);
  emit_tile_stores(e, out, p);
  buffer_puts(out, "}\n}\n");
}

/* Tiles of any number of rows, with so many vectors side by side: whole ones,
 * and row by row what is left. */
static void emit_open_blocks(Emitter *e, Buffer *out, Members *p) {
  const char *type = memory_type(p->dtype);
  uint32_t rows = rows_most(p->vectors, e->s->bytes);
  emit_head(e, out, p, format(e, "_%u", p->vectors), "rest");
  buffer_puts(out, "FUSING\nfor (; count > 0; count--, a += sa, b += sb, "
                   "c += sc) {\nint64_t i = 0;\n");
  for (; rows; rows = rows > 4 ? 4 : rows > 1 ? 1 : 0) {
    p->tile_rows = rows;
    buffer_printf(out,
                  "for (; i + %u <= rows; i += %u) {\n"
                  "const %s *x = a + i * ra, *y = b;\n"
                  "%s *const z = c + i * rc;\n",
                  rows, rows, type, type);
    emit_tile_terms(e, out, p);
    emit_tile_stores(e, out, p);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "}\n}\n");
}

static void emit_open(Emitter *e, Buffer *out, const Members *from) {
  Members p = *from;
  Buffer calls = {.arena = e->arena};
  for (p.vectors = 1; p.vectors <= from->vectors; p.vectors++) {
    emit_open_blocks(e, out, &p);
    buffer_printf(&calls,
                  "%s%smembers%s_%u(a, sa, b, sb, c, sc, count, ra, ka, rb, "
                  "rc, rows, depth, columns - %u * W);\n",
                  p.vectors > 1 ? "else " : "",
                  p.vectors < from->vectors
                      ? format(e, "if (columns <= %u * W)\n", p.vectors)
                      : "\n",
                  e->number, p.vectors, p.vectors - 1);
  }
  emit_head(e, out, from, "", "columns");
  buffer_printf(out, "%s}\n", calls.text);
}

void emit_member_function(Emitter *e, Buffer *out) {
  const Members *p = e->s->members;
  (p->open      ? emit_open
   : p->vectors ? emit_cut_blocks
                : emit_blocks)(e, out, p);
}

static const char *emit_place(Emitter *e, const Members *p, const Quasi *q) {
  Quasi rest = *q;
  rest.times[p->m] = rest.times[p->n] = rest.times[p->batch] = 0;
  rest.times[e->loop->kept] = 0;
  return emit_quasi(e, &rest);
}

void emit_members(Emitter *e, Buffer *out) {
  const Members *p = e->s->members;
  Loop *loop = e->k->loops.at[0];
  Result *r = &loop->results.at[0];
  const Block *blocks[] = {&p->a, &p->b, &p->c};
  const char *at[3], *stride[3];
  VEC_PUSH(e->arena, e->out->call.outs, r);
  emit_begin_loop(e, loop, NO_LANE, 0, NULL);
  for (uint32_t j = 0; j < 3; j++) {
    const Step *s = blocks[j]->read;
    stride[j] = emit_int(e, blocks[j]->stride);
    const char *place = emit_place(e, p, s ? s->address : r->out);
    at[j] = s ? format(e, "p%u + %s + lo * %s", s->input, place, stride[j])
              : format(e, "o0 + %s + lo * %s", place, stride[j]);
  }
  emit_put(&e->head, &e->blocks[0]);
  buffer_puts(out, "{\n");
  emit_put(out, &e->blocks[ROW_LEVEL]);
  buffer_printf(out, "members%s(%s, %s,\n%s, %s,\n%s, %s, hi - lo", e->number,
                at[0], stride[0], at[1], stride[1], at[2], stride[2]);
  if (p->vectors) {
    const int64_t sizes[] = {p->a.rows,
                             p->a.step,
                             p->b.rows,
                             p->c.rows,
                             p->rows,
                             p->depth,
                             p->open ? p->columns
                                     : p->columns - (int64_t)(p->vectors - 1) *
                                                        e->s->width};
    for (uint32_t j = 0; j < ARRAY_LEN(sizes); j++)
      buffer_printf(out, "%s%s", j ? ", " : ",\n", emit_int(e, sizes[j]));
  }
  buffer_puts(out, ");\n}\n");
  e->streams |= is_streamed(e);
}
