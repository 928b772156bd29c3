/* A kernel as a C function: its loops, and what a reduction needs around them.
 *
 * The function works on units begin .. end - 1 of what can be done apart: a
 * row, or a block or chunk of one.  The innermost loop goes over lanes; its
 * block is written twice, for whole vectors and for the rest of a row. */
#include "backend/cpu/emit.h"

#include <string.h>

enum { COLUMNS = 64, RUN = 128 };

#define format emit_format

/* ---- where loops are ---- */

/* Axes before this one are units, but for the lane's. */
static uint32_t rows_end(const Emitter *e) {
  return e->s.rows ? e->s.rows : e->k->outer;
}

static void place_loops(Emitter *e) {
  const Kernel *k = e->k;
  uint32_t level = ROW_LEVEL;
  for (uint32_t v = 0; v < k->axes; v++) {
    if (v == e->s.lane)
      continue;
    if (v >= rows_end(e))
      e->order[e->loops++] = v;
    e->level_of[v] = v < rows_end(e) ? ROW_LEVEL : ++level;
  }
  e->lane_level = e->s.lane == NO_LANE ? level : level + 1;
  if (e->s.lane != NO_LANE)
    e->level_of[e->s.lane] = e->lane_level;
}

/* ---- reductions ---- */

typedef struct Fold {
  PrimId op;
  char class;           /* of the accumulator */
  bool where;           /* argmax, argmin */
  const char *identity; /* as a scalar of the class */
} Fold;

static const char *least_text(Dtype t, bool most) {
  switch (t) {
  case DT_U8:
    return most ? "0" : "255";
  case DT_I8:
    return most ? "-128" : "127";
  case DT_I32:
    return most ? "(-0x7fffffff - 1)" : "0x7fffffff";
  case DT_I64:
    return most ? "(-0x7fffffffffffffff - 1)" : "0x7fffffffffffffff";
  case DT_F16:
  case DT_BF16:
  case DT_F32:
  case DT_F64:
    return most ? "-__builtin_inff()" : "__builtin_inff()";
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return "0";
}

static Fold fold_of(const Emitter *e) {
  Dtype t = e->k->steps.at[e->k->steps.len - 1].dtype;
  PrimId op = e->k->reduce;
  Fold f = {.op = op, .class = class_of(t)};
  f.where = op == PRIM_ARGMAX || op == PRIM_ARGMIN;
  if (op == PRIM_MAX || op == PRIM_MIN)
    f.identity = least_text(t, op == PRIM_MAX);
  else
    f.identity = op == PRIM_PROD || op == PRIM_ALL ? "1" : "0";
  return f;
}

static const char *combine(Emitter *e, const Fold *f, bool lanes,
                           const char *acc, const char *x) {
  switch ((int)f->op) {
  case PRIM_SUM:
  case PRIM_PROD: {
    const char *op = f->op == PRIM_SUM ? "+" : "*";
    if (lanes || is_float_class(f->class))
      return format(e, "%s %s %s", acc, op, x);
    const char *u = f->class == 'l' ? "uint64_t" : "uint32_t";
    return format(e, "(%s)((%s)%s %s (%s)%s)", scalar_type(f->class), u, acc,
                  op, u, x);
  }
  case PRIM_MAX:
  case PRIM_MIN:
    return emit_extreme(e, f->op == PRIM_MAX, f->class, lanes, acc, x);
  case PRIM_ANY:
    return format(e, "%s | %s", acc, x);
  case PRIM_ALL:
    return format(e, "%s & %s", acc, x);
  }
  e->failed = true;
  return acc;
}

/* Sums of floats go into doubles after each RUN vectors: as good as sums in
 * double, and as quick as sums in float. */
static bool has_runs(const Fold *f) {
  return f->op == PRIM_SUM && f->class == 'f';
}

/* One more vector of values for an accumulator. */
static void emit_take(Emitter *e, Buffer *out, const Fold *f, const char *acc,
                      bool masked) {
  uint32_t last = e->k->steps.len - 1;
  const char *x = emit_lanes(e, last, f->class);
  if (f->where) {
    buffer_printf(out, "best_%c_%s(&%s, &%s_at, %s, j + 0 * W, LIVE);\n",
                  f->class, f->op == PRIM_ARGMAX ? "more" : "less", acc, acc,
                  x);
    return;
  }
  if (masked)
    x = format(e, "sel_%c(LIVE, %s, splat_%c(%s))", f->class, x, f->class,
               f->identity);
  buffer_printf(out, "const v%c x = %s;\n%s = %s;\n", vector_letter(f->class),
                x, acc, combine(e, f, true, acc, "x"));
}

/* ---- writing loops ---- */

static void put(Buffer *out, const Buffer *text) {
  if (text->len)
    buffer_add(out, text->text, text->len);
}

static void open_loops(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->loops; j++) {
    uint32_t v = e->order[j];
    const char *extent = emit_int(e, e->k->extents[v]);
    if (j == 0 && e->s.split)
      buffer_printf(out, "for (int64_t i%u = from; i%u < to; i%u++) {\n", v, v,
                    v);
    else
      buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                    extent, v);
    put(out, &e->blocks[e->level_of[v]]);
  }
}

static void close_loops(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->loops; j++)
    buffer_puts(out, "}\n");
}

static const char whole_macros[] =
    "#define LOAD(T, p) ld_##T(p)\n#define REST W\n#define LIVE ALL\n";
static const char part_macros[] =
    "#define LOAD(T, p) ldp_##T(p, rest)\n#define REST rest\n"
    "#define LIVE (lanes() < rest)\n";
static const char no_macros[] = "#undef LOAD\n#undef REST\n#undef LIVE\n";

/* for j in lo .. hi - 1: the lane's block, and what `end` does with it; the
 * body of the rest of a row is `part`. */
static void emit_lane_loop(Emitter *e, Buffer *out, const char *step,
                           const Buffer *whole, const Buffer *part) {
  const Buffer *body = &e->blocks[e->lane_level];
  buffer_printf(out, "for (; j + W <= hi; j += W%s) {\n%s", step, whole_macros);
  put(out, body);
  put(out, &e->checks);
  put(out, whole);
  buffer_printf(out, "%s}\nif (j < hi) {\nconst int rest = (int)(hi - j);\n%s",
                no_macros, part_macros);
  put(out, body);
  put(out, &e->checks);
  put(out, part);
  buffer_printf(out, "%s}\n", no_macros);
}

/* ---- the three forms ---- */

/* Set before the block of rows is written: it adds to that. */
static void find_output(Emitter *e) {
  e->to = format(e, "o + %s", emit_quasi(e, e->k->out));
}

static void emit_map(Emitter *e, Buffer *out) {
  const Kernel *k = e->k;
  uint32_t last = k->steps.len - 1;
  const char *name = dtype_info[k->dtype].name, *at = e->to;
  Buffer whole = {.arena = e->arena}, part = whole;
  bool where = k->reduce == PRIM_ARGMAX || k->reduce == PRIM_ARGMIN;
  const char *value = where ? "splat_l(0)" /* of a single one */
                            : emit_lanes(e, last, class_of(k->dtype));
  put(out, &e->blocks[ROW_LEVEL]);
  buffer_printf(&whole, "st_%s(%s + j, %s);\n", name, at, value);
  buffer_printf(&part, "stp_%s(%s + j, %s, rest);\n", name, at, value);
  open_loops(e, out);
  buffer_puts(out, "int64_t j = lo;\n");
  emit_lane_loop(e, out, "", &whole, &part);
  if (e->s.rows)
    buffer_printf(out, "for (j = hi; j < %lld; j++)\n*(%s + j) = 0;\n",
                  (long long)k->extents[e->s.lane], at);
  close_loops(e, out);
}

/* A scalar of the accumulator's class, stored as an element of the result. */
static const char *store_scalar(Emitter *e, Dtype t, const char *to,
                                const char *x) {
  if (t == DT_F16 || t == DT_BF16)
    return format(e, "put_%s(%s, %s);\n", dtype_info[t].name, to, x);
  return format(e, "*(%s) = (%s)%s;\n", to, memory_type(t), x);
}

static void emit_row_end(Emitter *e, Buffer *out, const Fold *f) {
  Dtype t = e->s.split ? e->out->accumulator : e->k->dtype;
  const char *to = e->s.split ? "o + u" : e->to;
  if (f->where) {
    buffer_printf(
        out, "%s",
        store_scalar(e, t, to,
                     format(e, "best_%c_%s_lane(acc, acc_at)", f->class,
                            f->op == PRIM_ARGMAX ? "more" : "less")));
    return;
  }
  if (has_runs(f)) {
    buffer_printf(out,
                  "double r = sum[0];\nfor (int l = 1; l < W; l++)\n"
                  "r += sum[l];\n%s",
                  store_scalar(e, t, to, "r"));
    return;
  }
  const char *type = scalar_type(f->class);
  const char *first = f->class == 'b' ? "acc[0] & 1" : "acc[0]";
  const char *lane = f->class == 'b' ? "(acc[l] & 1)" : "acc[l]";
  buffer_printf(out, "%s r = %s;\nfor (int l = 1; l < W; l++)\nr = %s;\n%s",
                type, first, combine(e, f, false, "r", lane),
                store_scalar(e, t, to, "r"));
}

static void emit_row(Emitter *e, Buffer *out, const Fold *f) {
  Buffer whole = {.arena = e->arena}, part = whole;
  char letter = vector_letter(f->class);
  emit_take(e, &whole, f, "acc", false);
  emit_take(e, &part, f, "acc", true);
  put(out, &e->blocks[ROW_LEVEL]);
  buffer_printf(out, "v%c acc = splat_%c(%s);\n", letter, f->class,
                f->where ? "0" : f->identity);
  if (f->where)
    buffer_puts(out, "vl acc_at = splat_l(-1);\n");
  if (has_runs(f))
    buffer_puts(out, "vd sum = {0};\n");
  open_loops(e, out);
  if (has_runs(f))
    buffer_printf(out,
                  "for (int64_t j = lo, end = hi; j < end;) {\n"
                  "const int64_t hi = j + %d * W < end ? j + %d * W : end;\n",
                  RUN, RUN);
  else
    buffer_puts(out, "int64_t j = lo;\n");
  emit_lane_loop(e, out, "", &whole, &part);
  if (has_runs(f))
    buffer_puts(out, "j = hi;\nsum += CONVERT(acc, vd);\nacc = (vf){0};\n}\n");
  close_loops(e, out);
  emit_row_end(e, out, f);
}

static void emit_column_end(Emitter *e, Buffer *out, const Fold *f) {
  Dtype t = e->s.split ? e->out->accumulator : e->k->dtype;
  const char *name = dtype_info[t].name;
  const char *to = e->s.split ? format(e, "o + u / blocks * %s",
                                       emit_int(e, e->k->extents[e->s.lane]))
                              : e->to;
  char class = class_of(t);
  const char *x =
      f->where            ? "acc_at[a]"
      : class == f->class ? "acc[a]"
                          : format(e, "CONVERT(acc[a], v%c)", class);
  buffer_printf(out,
                "for (int64_t j = lo, a = 0; j < hi; j += W, a++)\n"
                "if (j + W <= hi)\nst_%s(%s + j, %s);\nelse\n"
                "stp_%s(%s + j, %s, (int)(hi - j));\n",
                name, to, x, name, to, x);
}

static void emit_column(Emitter *e, Buffer *out, const Fold *f) {
  Buffer take = {.arena = e->arena};
  if (f->where) {
    e->failed = true; /* argmax down columns: left to the reference */
    return;
  }
  Fold wide = *f;
  if (has_runs(f))
    wide.class = 'd';
  f = &wide;
  emit_take(e, &take, f, "acc[a]", false);
  char letter = vector_letter(f->class);
  put(out, &e->blocks[ROW_LEVEL]);
  buffer_printf(out,
                "v%c acc[%d];\nfor (int a = 0; a < %d; a++)\n"
                "acc[a] = splat_%c(%s);\n",
                letter, COLUMNS, COLUMNS, f->class, f->identity);
  open_loops(e, out);
  buffer_puts(out, "int64_t j = lo, a = 0;\n");
  emit_lane_loop(e, out, ", a++", &take, &take);
  close_loops(e, out);
  emit_column_end(e, out, f);
}

/* No axis at all: one element. */
static void emit_single(Emitter *e, Buffer *out) {
  uint32_t last = e->k->steps.len - 1;
  put(out, &e->blocks[ROW_LEVEL]);
  buffer_puts(out, "#define LIVE ALL\n");
  put(out, &e->checks);
  buffer_puts(out, "#undef LIVE\n");
  buffer_printf(
      out, "%s",
      store_scalar(e, e->k->dtype, "o",
                   e->k->reduce == PRIM_ARGMAX || e->k->reduce == PRIM_ARGMIN
                       ? "0"
                       : format(e, "s%u", last)));
}

/* ---- units ---- */

static int64_t divide_up(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

enum { BLOCK_UNITS = 64, BLOCK_LEAST = 2048, CHUNK_LEAST = 1 << 15 };

static int64_t rows_of(const Emitter *e) {
  int64_t rows = 1;
  for (uint32_t v = 0; v < rows_end(e); v++)
    if (v != e->s.lane)
      rows *= e->k->extents[v];
  return rows;
}

static int64_t block_size(const Emitter *e, int64_t rows) {
  int64_t extent = e->k->extents[e->s.lane], size;
  if (e->s.form == LOOP_COLUMN)
    return (int64_t)COLUMNS * e->s.width;
  if (rows >= BLOCK_UNITS)
    return extent;
  size = divide_up(extent * rows, BLOCK_UNITS);
  if (size < BLOCK_LEAST)
    size = BLOCK_LEAST;
  return divide_up(size, e->s.width) * e->s.width;
}

/* The axis that chunks cut. */
static uint32_t split_axis(const Emitter *e) {
  return e->loops ? e->order[0] : e->s.lane;
}

static int64_t chunk_size(const Emitter *e) {
  const Kernel *k = e->k;
  uint32_t axis = split_axis(e);
  int64_t inner = 1;
  for (uint32_t v = k->outer; v < k->axes; v++)
    if (v != axis)
      inner *= k->extents[v];
  if (e->s.form == LOOP_COLUMN)
    inner *= k->extents[e->s.lane];
  int64_t size = divide_up(CHUNK_LEAST, inner);
  int64_t most = divide_up(k->extents[axis], BLOCK_UNITS);
  return size > most ? size : most;
}

static void emit_units(Emitter *e, Buffer *out) {
  const Kernel *k = e->k;
  int64_t rows = rows_of(e), units = rows;
  uint32_t lane = e->s.lane;
  buffer_puts(out, "int64_t row = u;\n");
  if (e->s.rows) {
    const char *width = emit_int(e, k->extents[lane]);
    const char *limit = emit_int(e, e->s.limit);
    const char *panels = emit_int(e, k->extents[e->s.rows - 1]);
    buffer_printf(out,
                  "const int64_t lo = 0, left = %s - row %% %s * %s;\n"
                  "const int64_t hi = left < %s ? left : %s;\n",
                  limit, panels, width, width, width);
  } else if (lane != NO_LANE && e->s.form != LOOP_ROW) {
    int64_t block = block_size(e, rows);
    int64_t blocks = divide_up(k->extents[lane], block);
    const char *size = emit_int(e, block), *n = emit_int(e, blocks);
    const char *extent = emit_int(e, k->extents[lane]);
    buffer_printf(out,
                  "const int64_t blocks = %s, lo = row %% blocks * %s;\n"
                  "const int64_t hi = lo + %s < %s ? lo + %s : %s;\n"
                  "row /= blocks;\n",
                  n, size, size, extent, size, extent);
    units *= blocks;
  }
  if (e->s.split) {
    uint32_t axis = split_axis(e);
    int64_t size = chunk_size(e), chunks = divide_up(k->extents[axis], size);
    const char *chunk = emit_int(e, size), *n = emit_int(e, chunks);
    const char *extent = emit_int(e, k->extents[axis]);
    buffer_printf(out,
                  "const int64_t from = row %% %s * %s;\n"
                  "const int64_t to = from + %s < %s ? from + %s : %s;\n"
                  "row /= %s;\n",
                  n, chunk, chunk, extent, chunk, extent, n);
    units *= chunks;
    e->out->call.chunks = chunks;
  }
  if (lane != NO_LANE && e->s.form == LOOP_ROW) {
    if (e->s.split && !e->loops)
      buffer_puts(out, "const int64_t lo = from, hi = to;\n");
    else
      buffer_printf(out, "const int64_t lo = 0, hi = %s;\n",
                    emit_int(e, k->extents[lane]));
  }
  uint32_t left = 0;
  for (uint32_t v = 0; v < rows_end(e); v++)
    left += v != lane;
  for (uint32_t v = rows_end(e); v-- > 0;) {
    if (v == lane)
      continue;
    if (--left) {
      const char *extent = emit_int(e, k->extents[v]);
      buffer_printf(out, "const int64_t i%u = row %% %s;\nrow /= %s;\n", v,
                    extent, extent);
    } else {
      buffer_printf(out, "const int64_t i%u = row;\n", v);
    }
  }
  buffer_puts(out, "(void)row;\n");
  e->out->call.units = units;
}

/* ---- adding up chunks ---- */

static void emit_fold(Emitter *e, Buffer *out, const Fold *f) {
  Fold sum = *f;
  if (has_runs(f))
    sum.class = 'd';
  const char *type = scalar_type(sum.class);
  buffer_printf(out,
                "int fold(void *const *p, const int64_t *n, const double *c,\n"
                "         int64_t begin, int64_t end) {\n(void)c;\n"
                "%s *restrict const o = p[0];\nconst %s *const s = p[1];\n"
                "for (int64_t u = begin; u < end; u++) {\n"
                "const int64_t at = u / n[1] * n[0] * n[1] + u %% n[1];\n"
                "%s r = s[at];\nfor (int64_t k = 1; k < n[0]; k++)\nr = %s;\n%s"
                "}\nreturn 0;\n}\n",
                memory_type(e->k->dtype), memory_type(e->out->accumulator),
                type, combine(e, &sum, false, "r", "s[at + k * n[1]]"),
                store_scalar(e, e->k->dtype, "o + u", "r"));
}

static Dtype accumulator_dtype(const Fold *f) {
  char class = f->class;
  return has_runs(f)    ? DT_F64
         : class == 'f' ? DT_F32
         : class == 'd' ? DT_F64
         : class == 'l' ? DT_I64
         : class == 'b' ? DT_BOOL
                        : DT_I32;
}

/* ---- the function ---- */

static void emit_head(Emitter *e, Buffer *out, const char *name) {
  const Kernel *k = e->k;
  Dtype t = e->s.split ? e->out->accumulator : k->dtype;
  buffer_printf(out,
                "static int %s_units(void *result, void *const *p, "
                "const int64_t *n,\nconst double *c, int64_t begin, "
                "int64_t end) {\n"
                "(void)p, (void)n, (void)c;\n%s *restrict const o = result;\n",
                name, memory_type(t));
  for (uint32_t j = 0; j < k->inputs.len; j++)
    buffer_printf(out, "const %s *const p%u = p[%u];\n",
                  memory_type(k->inputs.at[j]->dtype), j, j + 1);
  buffer_puts(out, "vi bad = {0};\n");
}

void emit_entry(Buffer *out, const char *name) {
  buffer_printf(out,
                "int %s(void *const *p, const int64_t *n, const double *c,\n"
                "int64_t begin, int64_t end) {\n"
                "return %s_units(p[0], p, n, c, begin, end);\n}\n",
                name, name);
}

bool emit_function(Arena *arena, const Kernel *k, const Schedule *s,
                   const char *name, Emitted *result) {
  Emitter *e = NEW(arena, Emitter);
  e->arena = arena;
  e->k = k;
  e->s = *s;
  e->out = result;
  e->ints_from = result->call.ints.len;
  e->floats_from = result->call.floats.len;
  for (uint32_t j = 0; j < LEVELS; j++)
    e->blocks[j].arena = arena;
  e->checks.arena = arena;
  e->levels = NEW_ARRAY(arena, uint32_t, k->steps.len);
  e->varies = NEW_ARRAY(arena, bool, k->steps.len);
  e->classes = NEW_ARRAY(arena, char, k->steps.len);
  e->need = NEW_ARRAY(arena, const char *, k->steps.len);
  place_loops(e);
  emit_steps(e);
  find_output(e);
  if (e->failed)
    return false;
  Fold f = fold_of(e);
  result->accumulator = accumulator_dtype(&f);
  result->inner = s->form == LOOP_COLUMN ? k->extents[s->lane] : 1;
  Buffer rows = {.arena = arena}, body = rows;
  emit_units(e, &rows);
  if (s->lane == NO_LANE)
    emit_single(e, &body);
  else if (s->form == LOOP_MAP)
    emit_map(e, &body);
  else if (s->form == LOOP_ROW)
    emit_row(e, &body, &f);
  else
    emit_column(e, &body, &f);
  Buffer *out = &result->text;
  emit_head(e, out, name);
  put(out, &e->blocks[0]);
  buffer_puts(out, "for (int64_t u = begin; u < end; u++) {\n");
  put(out, &rows);
  put(out, &body);
  buffer_puts(out, "}\nreturn any_lane(bad);\n}\n");
  emit_entry(out, name);
  if (s->split)
    emit_fold(e, out, &f);
  return !e->failed;
}

bool emit_kernel(Arena *arena, const Kernel *k, const Schedule *s,
                 Emitted *result) {
  *result = (Emitted){.text = {.arena = arena}};
  buffer_printf(&result->text, "#define W %u\n@", s->width);
  return emit_function(arena, k, s, "kernel", result);
}
