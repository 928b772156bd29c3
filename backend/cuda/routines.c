/* Which passes a routine has, and how they share out what there is to do. */
#include "backend/cuda/routines.h"

#include "backend/cpu/routines.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
  THREADS = 256,
  WARP = 32,
  SHARED_LINE = 256, /* bytes that parts of scratch memory begin at */
  FILLS = 4,         /* blocks for each processor, where there is enough */
  SCAN_EACH = 8,     /* AX_SCAN_EACH */
  SCAN_TILE = SCAN_EACH * THREADS,
  SCAN_PART = 4 * SCAN_TILE, /* elements of a part, at least, */
  SCAN_PARTS = 512,          /* and parts at most; */
  COLUMN_PART = 64,          /* where lines lie across memory */
  COLUMN_PARTS = 32,
  LINE_SHORT = 64,       /* elements of lines that a thread has each */
  LINE_WARP = 512,       /* or a warp */
  SORT_BYTES = 32 << 10, /* shared memory for items */
  SORT_AT_ONCE = 512,    /* items of a block, at least */
  DIGITS = 256,
  DIGIT_TILE = 2048,
  TOP_ROOM = 2048,
  TOP_MOST = 1024, /* as of ax_top */
  TOP_PART = 16 << 10,
  ADD_TERMS = 8, /* of one thread */
};

/* ---- passes ---- */

typedef struct Passes {
  Arena *arena;
  const Node *n;
  const CudaTarget *target;
  CudaKernel *out;
  CudaPass *pass; /* that is written */
  Buffer body;
} Passes;

static int64_t over(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}
static int64_t least(int64_t x, int64_t y) {
  return x < y ? x : y;
}
static int64_t most(int64_t x, int64_t y) {
  return x < y ? y : x;
}

static void begin_pass(Passes *r, const char *what, uint32_t threads,
                       int64_t blocks, int64_t shared) {
  CudaPass *p = NEW(r->arena, CudaPass);
  p->s = (CudaSchedule){.shape = CUDA_ROUTINE,
                        .threads = threads,
                        .what = what,
                        .team = 1,
                        .vector = 1,
                        .turned = NO_LANE};
  snprintf(p->name, sizeof p->name, "axon_%u", r->out->passes.len);
  p->blocks = blocks;
  p->shared = shared;
  VEC_PUSH(r->arena, r->out->passes, p);
  r->pass = p;
  r->body = (Buffer){.arena = r->arena};
}

/* A number as an argument of the pass. */
static const char *number(Passes *r, int64_t x) {
  Call *call = &r->pass->emitted.call;
  VEC_PUSH(r->arena, call->ints, x);
  return arena_printf(r->arena, "a.n[%u]", call->ints.len - 1);
}
static const char *small(Passes *r, int64_t x) {
  return arena_printf(r->arena, "(int)%s", number(r, x));
}

static const char *pointer(Passes *r, uint32_t at, bool reads,
                           const char *type) {
  return arena_printf(r->arena, "(%s%s *)a.p[%u]", reads ? "const " : "", type,
                      at);
}
static const char *input(Passes *r, uint32_t at) {
  return pointer(r, 1 + at, true, memory_type(r->n->inputs[at]->dtype));
}
static const char *output(Passes *r) {
  return pointer(r, 0, false, memory_type(r->n->dtype));
}
static const char *bad_word(Passes *r) {
  return pointer(r, r->n->input_count + 2, false, "int32_t");
}

/* Scratch memory; where it begins. */
static int64_t take(Passes *r, int64_t bytes) {
  int64_t at = over(r->out->scratch, SHARED_LINE) * SHARED_LINE;
  r->out->scratch = at + bytes;
  return at;
}
static const char *scratch(Passes *r, const char *type, int64_t at) {
  return arena_printf(r->arena, "(%s *)((char *)a.p[%u] + %s)", type,
                      r->n->input_count + 1, number(r, at));
}

/* Is it the text of an earlier pass?  Then it is started once more. */
static bool is_known(const Passes *r) {
  for (uint32_t j = 0; j + 1 < r->out->passes.len; j++) {
    const CudaPass *p = r->out->passes.at[j];
    if (p->emitted.call.ints.len == r->pass->emitted.call.ints.len &&
        p->s.threads == r->pass->s.threads &&
        strcmp(p->emitted.text.text, r->body.text) == 0) {
      memcpy(r->pass->name, p->name, sizeof p->name);
      return true;
    }
  }
  return false;
}

static void end_pass(Passes *r) {
  CudaPass *p = r->pass;
  p->emitted.text = r->body;
  if (is_known(r))
    return;
  buffer_printf(&r->out->text,
                "struct %s_args {\nvoid *p[%u];\nint64_t n[%u];\n};\n"
                "/* %s */\n"
                "extern \"C\" __global__ void __launch_bounds__(%u)\n"
                "%s(const __grid_constant__ %s_args a) {\n%s}\n",
                p->name, r->n->input_count + 3, p->emitted.call.ints.len,
                p->s.what, p->s.threads, p->name, p->name, r->body.text);
}

/* So many parts of a line that there are blocks enough. */
static int64_t parts_of(const Passes *r, int64_t lines, int64_t length,
                        int64_t part, int64_t parts_most) {
  int64_t wanted = over((int64_t)FILLS * r->target->processors, most(lines, 1));
  return most(least(least(wanted, length / part), parts_most), 1);
}

/* ---- running sums ---- */

static const char *sum_type(Dtype t) {
  switch (t) {
  case DT_F32:
  case DT_F64:
    return "double";
  case DT_F16:
  case DT_BF16:
    return "float";
  case DT_I64:
    return "uint64_t";
  default:
    return "uint32_t";
  }
}

typedef struct Scan {
  const char *of, *type, *sum; /* of: ax_of_f32 */
  int64_t outer, length, inner;
  bool own; /* of scratch memory, at: */
  int64_t at;
} Scan;

static const char *scan_from(Passes *r, const Scan *s) {
  return s->own ? scratch(r, s->type, s->at) : input(r, 0);
}
static const char *scan_to(Passes *r, const Scan *s) {
  return s->own ? scratch(r, s->type, s->at) : output(r);
}

static void put_columns(Passes *r, const Scan *s, int64_t parts, int64_t chunk,
                        int64_t sums, bool last) {
  int64_t units = s->outer * parts * s->inner;
  begin_pass(r, last ? "running sums across memory" : "sums of parts", THREADS,
             over(units, THREADS), 0);
  buffer_printf(
      &r->body, "ax_scan_columns<%s, %d>(%s, %s, %s, %s, %s, %s, %s, %s);\n",
      s->of, THREADS, scan_from(r, s), last ? scan_to(r, s) : "0",
      scratch(r, s->sum, sums), number(r, s->outer), number(r, s->length),
      number(r, s->inner), number(r, parts), number(r, chunk));
  end_pass(r);
}

static void put_lines(Passes *r, const Scan *s, int64_t parts, int64_t chunk,
                      int64_t sums, bool last) {
  int threads = s->length <= LINE_WARP ? WARP : THREADS;
  int tile = threads * SCAN_EACH;
  begin_pass(r, last ? "running sums" : "sums of parts", (uint32_t)threads,
             s->outer * parts, 8 * WARP + 8 * (tile + tile / SCAN_EACH));
  buffer_printf(&r->body, "ax_scan_%s<%s, %d>(%s, %s%s%s, %s, %s, %s);\n",
                last ? "lines" : "parts", s->of, threads, scan_from(r, s),
                last ? scan_to(r, s) : "", last ? ", " : "",
                scratch(r, s->sum, sums), number(r, s->length),
                number(r, parts), number(r, chunk));
  end_pass(r);
}

static void put_scan(Passes *r, const Scan *s) {
  bool across = s->inner > 1 || s->length <= LINE_SHORT;
  int64_t parts = across
                      ? parts_of(r, over(s->outer * s->inner, THREADS),
                                 s->length, COLUMN_PART, COLUMN_PARTS)
                      : parts_of(r, s->outer, s->length, SCAN_PART, SCAN_PARTS);
  int64_t chunk = over(s->length, parts), sums = 0;
  if (!across)
    chunk = over(chunk, SCAN_TILE) * SCAN_TILE;
  parts = over(s->length, chunk);
  if (parts > 1)
    sums = take(r, s->outer * parts * s->inner * (int64_t)sizeof(double));
  for (int last = parts == 1; last < 2; last++)
    (across ? put_columns : put_lines)(r, s, parts, chunk, sums, last != 0);
}

static bool cumsum(Passes *r, const Lines *l) {
  Dtype t = r->n->dtype;
  const char *of = arena_printf(r->arena, "ax_of_%s", dtype_info[t].name);
  const Scan s = {of,        memory_type(t), sum_type(t), l->outer,
                  l->length, l->inner,       false,       0};
  put_scan(r, &s);
  return true;
}

/* ---- sorting ---- */

typedef struct Order {
  const char *of, *type; /* of: ax_of_f32; NULL: `from` is what there is */
  Dtype dtype;
  Lines l;
  int64_t taken;      /* elements of each line that come out */
  bool largest, wide; /* the largest first; keys of 64 bits */
  bool places;        /* numbers come out, and not elements */
  int64_t items;      /* < 0, or: items come out, there in scratch memory */
  /* NULL, or: makes items of something else; items: NULL, or of the lower
   * halves, and the upper ones are wanted */
  const char *(*from)(Passes *r, const char *items);
  int bits; /* of keys */
} Order;

static void sort_short(Passes *r, const Order *o) {
  int64_t line = 1, each = o->wide ? 16 : 8, at_once = 1;
  int64_t lines = o->l.outer * o->l.inner;
  while (line < o->l.length)
    line *= 2;
  while (2 * line * at_once * each <= SORT_BYTES &&
         (line * at_once < SORT_AT_ONCE || o->l.inner > at_once) &&
         at_once < lines)
    at_once *= 2;
  begin_pass(r, "lines sorted in shared memory", THREADS, over(lines, at_once),
             line * at_once * each);
  buffer_printf(&r->body,
                "ax_sort_short<%s, %s, %d, %s>(%s, %s, %s, %s, %s, %s, %s, %s, "
                "%s);\n",
                o->of, o->wide ? "ax_wide_item" : "ax_item", THREADS,
                o->places ? "true" : "false", input(r, 0), output(r),
                number(r, lines), number(r, o->l.length), number(r, o->l.inner),
                number(r, o->taken), small(r, line), small(r, at_once),
                small(r, o->largest));
  end_pass(r);
}

/* What a pass over digits reads: elements, their upper halves, or items. */
typedef enum From { FROM_NEW, FROM_UPPER, FROM_ITEMS } From;

static const char *digits_from(Passes *r, const Order *o, From source,
                               int64_t items) {
  if (source != FROM_ITEMS && o->from)
    return o->from(r, source == FROM_NEW ? NULL
                                         : scratch(r, "const ax_item", items));
  if (source == FROM_ITEMS)
    return arena_printf(r->arena, "ax_from_items{%s, %s}",
                        scratch(r, "const ax_item", items),
                        number(r, o->l.length));
  const char *elements = arena_printf(
      r->arena, "ax_from_elements<%s>{%s, %s, %s, %s}", o->of, input(r, 0),
      number(r, o->l.length), number(r, o->l.inner), small(r, o->largest));
  if (source == FROM_NEW)
    return elements;
  return arena_printf(r->arena, "ax_from_upper<%s>{%s, %s}", o->of, elements,
                      scratch(r, "const ax_item", items));
}

static const char *digits_to(Passes *r, const Order *o, bool last,
                             int64_t items) {
  if (!last || o->items >= 0)
    return arena_printf(r->arena, "ax_to_items{%s, %s}",
                        scratch(r, "ax_item", last ? o->items : items),
                        number(r, o->l.length));
  if (o->places)
    return arena_printf(r->arena, "ax_to_places{%s, %s, %s}", output(r),
                        number(r, o->taken), number(r, o->l.inner));
  return arena_printf(r->arena, "ax_to_elements<%s>{%s, %s, %s, %s, %s}", o->of,
                      output(r), input(r, 0), number(r, o->l.length),
                      number(r, o->taken), number(r, o->l.inner));
}

/* By one digit after the other, each in parts that are counted, then moved. */
static void sort_long(Passes *r, const Order *o) {
  int64_t lines = o->l.outer * o->l.inner, n = o->l.length;
  int64_t parts = parts_of(r, lines, n, 2 * DIGIT_TILE, INT32_MAX);
  int64_t chunk = over(over(n, parts), DIGIT_TILE) * DIGIT_TILE;
  parts = over(n, chunk);
  int64_t counts = take(r, lines * DIGITS * parts * (int64_t)sizeof(uint32_t));
  int64_t room[] = {take(r, lines * n * 8), take(r, lines * n * 8)};
  int passes = (int)over(o->bits, 8);
  for (int pass = 0; pass < passes; pass++) {
    From source = pass == 0 ? FROM_NEW : pass == 4 ? FROM_UPPER : FROM_ITEMS;
    int64_t from = room[pass % 2], to = room[(pass + 1) % 2];
    int shift = 32 + pass % 4 * 8;
    begin_pass(r, "digits counted", THREADS, lines * parts,
               THREADS / WARP * DIGITS * 4);
    buffer_printf(&r->body, "ax_digit_count<%d>(%s, %s, %s, %s, %s, %s);\n",
                  THREADS, digits_from(r, o, source, from),
                  scratch(r, "uint32_t", counts), number(r, n),
                  number(r, parts), number(r, chunk), small(r, shift));
    end_pass(r);
    put_scan(r, &(Scan){"ax_of_u32", "uint32_t", "uint32_t", lines,
                        DIGITS * parts, 1, true, counts});
    begin_pass(r, "moved by digits", THREADS, lines * parts,
               DIGIT_TILE * 8 +
                   (THREADS / WARP * DIGITS + 2 * DIGITS + WARP) * 4);
    buffer_printf(&r->body, "ax_digit_move<%d>(%s, %s, %s, %s, %s, %s, %s);\n",
                  THREADS, digits_from(r, o, source, from),
                  digits_to(r, o, pass + 1 == passes, to),
                  scratch(r, "const uint32_t", counts), number(r, n),
                  number(r, parts), number(r, chunk), small(r, shift));
    end_pass(r);
  }
}

static bool is_short(const Order *o) {
  return o->l.length * (o->wide ? 16 : 8) <= SORT_BYTES;
}

static Order order_of(Passes *r, const Lines *l) {
  Dtype t = r->n->inputs[0]->dtype;
  return (Order){.of = arena_printf(r->arena, "ax_of_%s", dtype_info[t].name),
                 .type = memory_type(t),
                 .dtype = t,
                 .l = *l,
                 .taken = l->length,
                 .wide = dtype_info[t].bytes == 8,
                 .bits = 8 * (int)dtype_info[t].bytes,
                 .items = -1};
}

static bool sort(Passes *r, const Order *o) {
  if (is_short(o))
    sort_short(r, o);
  else
    sort_long(r, o);
  return true;
}

/* ---- the largest ones ---- */

static void put_top(Passes *r, const Order *o, int64_t n, int64_t parts,
                    int64_t items, bool first) {
  const char *item = o->wide ? "ax_wide_item" : "ax_item";
  int64_t chunk = over(n, parts);
  bool last = !first || parts == 1;
  begin_pass(r, last ? "the largest" : "the largest of parts", THREADS,
             o->l.outer * parts, TOP_ROOM * (o->wide ? 16 : 8) + 16);
  const char *from =
      first ? arena_printf(r->arena, "ax_top_element<%s, %s>{%s, %s}", o->of,
                           item, input(r, 0), number(r, n))
            : arena_printf(
                  r->arena, "ax_top_item<%s>{%s, %s}", item,
                  scratch(r, arena_printf(r->arena, "const %s", item), items),
                  number(r, n));
  const char *to =
      !last       ? arena_printf(r->arena, "ax_top_to_items<%s>{%s}", item,
                                 scratch(r, item, items))
      : o->places ? arena_printf(r->arena, "ax_top_to_places{%s}", output(r))
                  : arena_printf(r->arena, "ax_top_to_elements<%s>{%s, %s, %s}",
                                 o->type, output(r), input(r, 0),
                                 number(r, o->l.length));
  buffer_printf(&r->body, "ax_top<%d, %d, %s>(%s, %s, %s, %s, %s, %s);\n",
                THREADS, TOP_ROOM, item, from, to, number(r, n),
                number(r, parts), number(r, chunk), small(r, o->taken));
  end_pass(r);
}

static bool topk(Passes *r, const Lines *l) {
  Order o = order_of(r, l);
  o.taken = r->n->params[0];
  o.largest = true;
  o.places = r->n->output != 0;
  if (is_short(&o) || o.taken > TOP_MOST)
    return sort(r, &o);
  int64_t parts =
      parts_of(r, l->outer, l->length, most(TOP_PART, 8 * o.taken), INT32_MAX);
  int64_t items = 0;
  parts = over(l->length, over(l->length, parts));
  if (parts > 1)
    items = take(r, l->outer * parts * o.taken * (o.wide ? 16 : 8));
  put_top(r, &o, l->length, parts, items, true);
  if (parts > 1)
    put_top(r, &o, parts * o.taken, 1, items, false);
  return true;
}

/* ---- permutations: the order of random numbers ---- */

/* Of the lower halves, or of the upper ones in the order of `items`. */
static const char random_items[] =
    "struct ax_random_items {\n"
    "uint64_t k0, k1;\nconst ax_item *items;\n"
    "__device__ void begin(int64_t) {}\n"
    "__device__ ax_item get(int64_t k) const {\n"
    "const int64_t place = items ? (uint32_t)items[k] : k;\n"
    "const uint64_t drawn = bits64(k0, k1, place);\n"
    "return (items ? drawn >> 32 : drawn) << 32 | (uint64_t)place;\n"
    "}\n};\n";

static const char *from_random(Passes *r, const char *items) {
  r->pass->key = r->pass->emitted.call.ints.len + 1;
  const char *first = number(r, 0), *second = number(r, 0);
  return arena_printf(r->arena,
                      "ax_random_items{(uint64_t)%s, (uint64_t)%s, %s}", first,
                      second, items ? items : "0");
}

static bool permutation(Passes *r) {
  const int64_t n = r->n->params[0];
  Order o = {.l = {1, n, 1},
             .taken = n,
             .places = true,
             .bits = 64,
             .items = -1,
             .from = from_random};
  if (r->n->free_count)
    return false;
  buffer_puts(&r->out->text, random_items);
  sort_long(r, &o);
  return true;
}

/* ---- scatter ---- */

static const char *from_rows(Passes *r, const char *items) {
  (void)items; /* keys have no upper halves */
  const Node *index = r->n->inputs[1];
  int64_t added = index->extents[index->free_count];
  int64_t rows = r->n->inputs[0]->extents[r->n->inputs[0]->free_count];
  int64_t all = 1;
  for (uint32_t k = 0; k <= index->free_count; k++)
    all *= index->extents[k];
  return arena_printf(r->arena, "ax_from_rows<%s>{%s, %s, %s, %s, %s}",
                      memory_type(index->dtype), input(r, 1), number(r, added),
                      number(r, rows), number(r, all), bad_word(r));
}

static bool scatter(Passes *r, const Lines *l) {
  const Node *index = r->n->inputs[1];
  int64_t rows = l->outer * l->length, n = l->outer, bits = 1;
  n *= index->extents[index->free_count];
  while ((int64_t)1 << bits < rows)
    bits++;
  Order o = {.l = {1, n, 1}, .bits = (int)bits, .from = from_rows};
  o.items = take(r, n * 8);
  int64_t starts = take(r, (rows + 1) * (int64_t)sizeof(uint32_t));
  if (n)
    sort_long(r, &o);
  begin_pass(r, "where rows begin", THREADS, over(rows + 1, THREADS), 0);
  buffer_printf(&r->body, "ax_row_starts<%d>(%s, %s, %s, %s);\n", THREADS,
                scratch(r, "const ax_item", o.items),
                scratch(r, "uint32_t", starts), number(r, rows), number(r, n));
  end_pass(r);
  int64_t lanes = 1, count = rows * l->inner;
  while (lanes < THREADS / 2 && lanes * ADD_TERMS * rows < n)
    lanes *= 2;
  Dtype t = r->n->dtype;
  begin_pass(r, "rows added up", THREADS, over(count, THREADS / lanes),
             lanes > 1 ? THREADS * 8 : 0);
  buffer_printf(
      &r->body,
      "ax_add_rows<ax_of_%s, %d, %lld>(%s, %s, %s, %s, %s, %s, %s);\n",
      dtype_info[t].name, THREADS, (long long)lanes, input(r, 0), input(r, 2),
      output(r), scratch(r, "const ax_item", o.items),
      scratch(r, "const uint32_t", starts), number(r, count),
      number(r, l->inner));
  end_pass(r);
  r->out->checks = 1;
  return true;
}

/* ---- all of them ---- */

static bool put(Passes *r, const Lines *l) {
  Order o;
  switch ((int)r->n->op) { /* the kinds of node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    o = order_of(r, l);
    o.places = r->n->op == PRIM_ARGSORT;
    return sort(r, &o);
  case PRIM_TOPK:
    return topk(r, l);
  case PRIM_PERMUTATION:
    return permutation(r);
  case PRIM_CUMSUM:
    return cumsum(r, l);
  case PRIM_SCATTER:
    return scatter(r, l);
  }
  return false;
}

/* Numbers of elements are divided as 32 bits. */
static bool is_too_large(const Node *n) {
  bool large = node_count(n) >= INT32_MAX;
  for (uint32_t k = 0; k < n->input_count; k++)
    large |= node_count(n->inputs[k]) >= INT32_MAX;
  return large;
}

bool cuda_routine(const Node *n, const CudaTarget *target, Arena *arena,
                  CudaKernel *out) {
  *out = (CudaKernel){.text = {.arena = arena}, .pointers = n->input_count + 3};
  if (!routine_has(n) || n->guard || node_count(n) == 0 || is_too_large(n))
    return false;
  Passes r = {.arena = arena, .n = n, .target = target, .out = out};
  Lines l = routine_lines(n);
  if (!put(&r, &l))
    return false;
  Buffer text = {.arena = arena};
  code_indent(out->text.text, &text);
  out->text = text;
  return true;
}

static void put_form(Buffer *b, const Node *n) {
  buffer_printf(b, "%d %u:", n->dtype, n->free_count);
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    buffer_printf(b, " %lld", (long long)n->extents[k]);
  buffer_puts(b, ";");
}

ArtifactKey cuda_routine_key(const Node *n) {
  Buffer b = {0};
  buffer_printf(&b, "%d %u %lld ", n->op, n->output, (long long)n->params[0]);
  put_form(&b, n);
  for (uint32_t k = 0; k < n->input_count; k++)
    put_form(&b, n->inputs[k]);
  ArtifactKey key = artifact_key(1, &(ArtifactPart){b.text, b.len});
  buffer_free(&b);
  return key;
}
