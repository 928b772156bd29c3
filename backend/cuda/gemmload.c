/* Operands of a contraction on their way to shared memory. */
#include "backend/cuda/gemmemit.h"

#include <string.h>

enum { LINE = 16, TERMS = 8 /* that neighbouring threads have */ };

/* ---- axes ---- */

void gemm_put_extent(Buffer *out, const GemmGroup *g, const char *name) {
  buffer_printf(out, "  const int %s = (int)(", name);
  for (uint32_t j = 0; j < g->count; j++)
    buffer_printf(out, "%s%s", j ? " * " : "", g->axes[j].extent);
  buffer_puts(out, g->count ? ");\n" : "1);\n");
}

/* Variables of the axes from the element's number, the last axis first. */
void gemm_put_axes(Buffer *out, const GemmGroup *g, const char *index) {
  if (g->count == 1) {
    buffer_printf(out, "const int64_t %s = %s;\n(void)%s;\n", g->axes[0].name,
                  index, g->axes[0].name);
    return;
  }
  for (uint32_t j = g->count; j-- > 0;) {
    const GemmAxis *a = &g->axes[j];
    bool last = j + 1 == g->count;
    buffer_printf(out, "const unsigned rest_%s = ", a->name);
    if (last)
      buffer_printf(out, "(unsigned)(%s);\n", index);
    else
      buffer_printf(out, "rest_%s / (unsigned)(%s);\n", a[1].name, a[1].extent);
    buffer_printf(out, "const int64_t %s = rest_%s", a->name, a->name);
    if (j)
      buffer_printf(out, " %% (unsigned)(%s)", a->extent);
    buffer_printf(out, ";\n(void)%s;\n", a->name);
  }
}

static void put_sum(Buffer *out, const GemmGroup *g, bool b, int guard) {
  bool any = false;
  for (uint32_t j = 0; j < g->count; j++) {
    const GemmAxis *a = &g->axes[j];
    const char *times = guard >= 0 ? (b ? a->guard_b : a->guard_a)[guard]
                        : b        ? a->stride_b
                                   : a->stride_a;
    if (!times)
      continue;
    buffer_printf(out, "%s%s", any ? " + " : "", a->name);
    if (strcmp(times, "1") != 0)
      buffer_printf(out, " * (%s)", times);
    any = true;
  }
  buffer_puts(out, any ? "" : "0");
}

void gemm_put_offset(Buffer *out, const GemmGroup *g, const char *name,
                     bool b) {
  buffer_printf(out, "const int64_t %s = ", name);
  put_sum(out, g, b, -1);
  buffer_puts(out, ";\n");
}

/* ---- types ---- */

const char *gemm_scalar(Dtype t) {
  switch ((int)t) {
  case DT_F64:
    return "double";
  case DT_I64:
    return "int64_t";
  case DT_I32:
  case DT_I8:
  case DT_U8:
  case DT_BOOL:
    return "int";
  }
  return "float";
}

const char *gemm_stored(Dtype t) {
  switch ((int)t) {
  case DT_F16:
  case DT_BF16:
    return "uint16_t";
  case DT_I8:
    return "int8_t";
  case DT_U8:
  case DT_BOOL:
    return "uint8_t";
  case DT_I32:
    return "int";
  }
  return gemm_scalar(t);
}

void gemm_put_widened(Buffer *out, Dtype t, const char *x) {
  if (t == DT_F16 || t == DT_BF16)
    buffer_printf(out, "ax_%s_to_f32(%s)", dtype_info[t].name, x);
  else
    buffer_puts(out, x);
}

void gemm_put_narrowed(Buffer *out, Dtype t, const char *x) {
  if (t == DT_F16 || t == DT_BF16)
    buffer_printf(out, "ax_f32_to_%s(%s)", dtype_info[t].name, x);
  else
    buffer_printf(out, "(%s)(%s)", gemm_stored(t), x);
}

/* ---- an operand ---- */

GemmSource gemm_source(const GemmText *t, bool b) {
  const GemmSchedule *s = t->schedule;
  const GemmSide *side = b ? &t->shape->b : &t->shape->a;
  GemmSource to = {.t = t,
                   .b = b,
                   .letter = b ? 'b' : 'a',
                   .side = side,
                   .operand = b ? &t->b : &t->a,
                   .along = b ? &t->n : &t->m,
                   .tile = gemm_tile(t->shape, s, b),
                   .turned = side->turned || s->way == GEMM_FMA,
                   .copy = b ? s->copy_b : s->copy_a,
                   .end = "to"};
  to.vector = (to.copy ? to.copy : LINE) / to.tile.bytes;
  to.spread = to.copy && s->way == GEMM_FMA && !side->turned;
  to.held = !to.copy || s->copy == BY_REGISTERS;
  to.across = to.tile.columns / to.vector;
  uint32_t threads = gemm_loaders(s), all = to.tile.rows * to.across;
  to.passes = (all + threads - 1) / threads;
  to.whole = all % threads == 0;
  to.bytes = (uint32_t)((shared_bytes(&to.tile) + 1023) / 1024 * 1024);
  return to;
}

void gemm_put_places(Buffer *out, const GemmSource *s) {
  buffer_printf(out,
                "AX_DEVICE unsigned %s_%c(unsigned row, unsigned column) {\n"
                "return ",
                s->t->name, s->letter);
  shared_print(out, &s->tile, "row", "column");
  buffer_puts(out, ";\n}\n");
}

/* The row and column of the tile that a thread has in pass p. */
static void put_place(Buffer *out, const GemmSource *s) {
  uint32_t threads = gemm_loaders(s->t->schedule);
  buffer_printf(out, "const unsigned e = thread + p * %uu;\n", threads);
  if (!s->whole)
    buffer_printf(out, "if (e >= %uu)\ncontinue;\n", s->tile.rows * s->across);
  if (s->spread)
    buffer_printf(out,
                  "const unsigned row = e %% %du + e / %uu * %du, "
                  "column = e / %du %% %uu;\n",
                  TERMS, TERMS * s->across, TERMS, TERMS, s->across);
  else
    buffer_printf(out,
                  "const unsigned row = e / %uu, column = e %% %uu * %uu;\n",
                  s->across, s->across, s->vector);
  buffer_puts(out, "(void)row, (void)column;\n");
}

static void put_passes(Buffer *out, const GemmSource *s) {
  buffer_printf(out, "#pragma unroll\nfor (int p = 0; p < %u; p++) {\n",
                s->passes);
  put_place(out, s);
}

/* Where rows lie, for each pass: the part of addresses that stays. */
void gemm_put_begin(Buffer *out, const GemmSource *s) {
  char c = s->letter;
  if (s->held)
    buffer_printf(out, "%s %c_held[%u];\n",
                  s->copy == 4    ? "unsigned"
                  : s->copy == 8  ? "uint2"
                  : s->copy == 16 ? "uint4"
                                  : "uint4",
                  c, s->passes);
  if (!s->copy)
    return;
  buffer_printf(out, "int64_t %c_at[%u];\nint %c_left[%u];\n", c, s->passes, c,
                s->passes);
  for (uint32_t g = 0; g < s->operand->guards; g++)
    buffer_printf(out, "int %c_guard%u[%u];\n", c, g, s->passes);
  put_passes(out, s);
  buffer_printf(out, "const int r = (int)(%c0 + %s);\n", s->b ? 'n' : 'm',
                s->turned ? "column" : "row");
  buffer_printf(out, "%c_left[p] = %c_all - r;\n", c, s->b ? 'n' : 'm');
  gemm_put_axes(out, s->along, "r");
  gemm_put_offset(out, s->along, "at", s->b);
  buffer_printf(out, "%c_at[p] = at + %c_batch;\n", c, c);
  for (uint32_t g = 0; g < s->operand->guards; g++) {
    buffer_printf(out, "%c_guard%u[p] = (int)(%s + ", c, g,
                  s->operand->guard[g].first);
    put_sum(out, s->along, s->b, (int)g);
    buffer_puts(out, " + ");
    put_sum(out, &s->t->batch, s->b, (int)g);
    buffer_puts(out, ");\n");
  }
  buffer_puts(out, "}\n");
}

/* How many bytes of the copy there are: `have`. */
static void put_have(Buffer *out, const GemmSource *s) {
  char c = s->letter;
  uint32_t bytes = s->tile.bytes;
  bool along = s->turned && !s->spread; /* the copy goes along the rows */
  bool one = s->vector == 1;
  if (one)
    buffer_printf(out, "bool there = %c_left[p] > 0 && t < to;\n", c);
  else
    buffer_printf(out, "bool there = %s;\n", along ? "t < to" : "true");
  if (!one && !along)
    buffer_printf(out, "there = %c_left[p] > 0;\n", c);
  for (uint32_t g = 0; g < s->operand->guards; g++) {
    buffer_printf(out, "there = there && (unsigned)(%c_guard%u[p] + (int)(", c,
                  g);
    put_sum(out, &s->t->k, s->b, (int)g);
    buffer_printf(out, ")) < (unsigned)(%s);\n", s->operand->guard[g].extent);
  }
  if (one) {
    buffer_printf(out, "const int have = there ? %u : 0;\n", s->copy);
    return;
  }
  buffer_printf(out, "const int left = ");
  if (along)
    buffer_printf(out, "%c_left[p];\n", c);
  else
    buffer_puts(out, "to - t;\n");
  buffer_printf(out,
                "const int have = !there || left <= 0 ? 0 : left < %u ? "
                "left * %u : %u;\n",
                s->vector, bytes, s->copy);
}

static void put_term(Buffer *out, const GemmSource *s, const char *term) {
  buffer_printf(out, "const int t = %s + (int)%s;\n", term,
                s->turned ? "row" : "column");
}

/* A whole copy, or the few elements that there are. */
static void put_copy_held(Buffer *out, const GemmSource *s) {
  char c = s->letter;
  const char *type = s->copy == 16 ? "uint4" : s->copy == 8 ? "uint2" : NULL;
  if (type)
    buffer_printf(out, "%s v = make_%s(%s);\n", type, type,
                  s->copy == 16 ? "0, 0, 0, 0" : "0, 0");
  else
    buffer_puts(out, "unsigned v = 0;\n");
  buffer_printf(out, "if (have == %u) {\nv = ax_load_%u(source);\n}", s->copy,
                s->copy);
  if (s->vector > 1) {
    const char *element = s->tile.bytes == 2 ? "uint16_t" : "unsigned";
    buffer_printf(out,
                  " else if (have > 0) {\nunsigned w[%u] = {0};\n"
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "if (i * %u < have)\n",
                  s->copy / 4, s->vector, s->tile.bytes);
    if (s->tile.bytes == 2)
      buffer_printf(
          out,
          "w[i / 2] |= (unsigned)((const %s *)source)[i] << i %% 2 * 16;\n",
          element);
    else
      buffer_printf(out, "w[i] = ((const %s *)source)[i];\n", element);
    if (s->copy == 16)
      buffer_puts(out, "v = make_uint4(w[0], w[1], w[2], w[3]);\n}");
    else if (s->copy == 8)
      buffer_puts(out, "v = make_uint2(w[0], w[1]);\n}");
    else
      buffer_puts(out, "v = w[0];\n}");
  }
  buffer_printf(out, "\n%c_held[p] = v;\n", c);
}

static void put_copies(Buffer *out, const GemmSource *s, const char *at,
                       const char *term) {
  char c = s->letter;
  put_passes(out, s);
  put_term(out, s, term);
  gemm_put_axes(out, &s->t->k, "t");
  gemm_put_offset(out, &s->t->k, "terms", s->b);
  put_have(out, s);
  buffer_printf(out,
                "const %s *source = (const %s *)%s + "
                "(have > 0 ? %c_at[p] + terms : 0);\n",
                gemm_stored(s->side->dtype), gemm_stored(s->side->dtype),
                s->operand->pointer, c);
  if (s->held)
    put_copy_held(out, s);
  else
    buffer_printf(out,
                  "ax_copy_%u(%s + %s_%c(row, column), source, "
                  "(unsigned)have);\n",
                  s->copy, at, s->t->name, c);
  buffer_puts(out, "}\n");
}

/* ---- element by element ---- */

/* The value where the variables of all axes say, as it lies in memory. */
static void put_read(Buffer *out, const GemmSource *s, const char *to) {
  Dtype t = s->side->dtype;
  bool b = s->b;
  buffer_puts(out, "const bool there = true");
  for (uint32_t g = 0; g < s->operand->guards; g++) {
    buffer_printf(out, " && (unsigned)(int)(%s + ", s->operand->guard[g].first);
    put_sum(out, &s->t->batch, b, (int)g);
    buffer_puts(out, " + ");
    put_sum(out, s->along, b, (int)g);
    buffer_puts(out, " + ");
    put_sum(out, &s->t->k, b, (int)g);
    buffer_printf(out, ") < (unsigned)(%s)", s->operand->guard[g].extent);
  }
  buffer_printf(out, ";\nif (there) {\nconst %s bits = ((const %s *)%s)[",
                gemm_stored(t), gemm_stored(t), s->operand->pointer);
  put_sum(out, &s->t->batch, b, -1);
  buffer_puts(out, " + ");
  put_sum(out, s->along, b, -1);
  buffer_puts(out, " + ");
  put_sum(out, &s->t->k, b, -1);
  buffer_printf(out, "];\n%s = ", to);
  gemm_put_widened(out, t, "bits");
  buffer_puts(out, ";\n}\n");
}

/* v[i] of the elements of one store, and these as a register of four. */
static void put_values(Buffer *out, const GemmSource *s, const char *term,
                       const char *to) {
  char group = s->b ? 'n' : 'm';
  Dtype t = s->side->dtype;
  const char *type = gemm_scalar(t);
  buffer_printf(out,
                "%s v[%u];\n#pragma unroll\nfor (int i = 0; i < %u; i++) {\n"
                "const int t = %s + (int)(%s), r = (int)(%c0 + %s);\n"
                "v[i] = 0;\nif (t < %s && r < %c_all) {\n",
                type, s->vector, s->vector, term,
                s->turned ? "row" : "column + i", group,
                s->turned ? "column + i" : "row", s->end, group);
  gemm_put_axes(out, s->along, "r");
  gemm_put_axes(out, &s->t->k, "t");
  if (s->operand->value)
    s->operand->value(s->t->owner, out, "v[i]");
  else
    put_read(out, s, "v[i]");
  buffer_puts(out, "}\n}\n");
  buffer_printf(out, "%s = make_uint4(", to);
  for (int j = 0; j < 4; j++) {
    buffer_puts(out, j ? ", " : "");
    if (t == DT_F16 || t == DT_BF16)
      buffer_printf(out, "ax_pack_%s(v[%d], v[%d])", dtype_info[t].name, 2 * j,
                    2 * j + 1);
    else if (t == DT_F32)
      buffer_printf(out, "__float_as_uint(v[%d])", j);
    else
      buffer_printf(out,
                    "(unsigned)((uint64_t)__double_as_longlong(v[%d]) >> %d)",
                    j / 2, j % 2 * 32);
  }
  buffer_puts(out, ");\n");
}

static void put_values_held(Buffer *out, const GemmSource *s,
                            const char *term) {
  char to[16];
  snprintf(to, sizeof to, "%c_held[p]", s->letter);
  put_passes(out, s);
  put_values(out, s, term, to);
  buffer_puts(out, "}\n");
}

/* Where some of it lies in shared memory, which begins at `at`. */
static void put_in_tile(Buffer *out, const GemmSource *s, const char *at) {
  buffer_printf(out, "*(%s *)(memory + %s + %s_%c(row, column))",
                s->copy == 4   ? "unsigned"
                : s->copy == 8 ? "uint2"
                               : "uint4",
                at, s->t->name, s->letter);
}

void gemm_put_computed(Buffer *out, const GemmSource *s, const char *at,
                       const char *term) {
  Buffer to = {0};
  uint32_t each = gemm_ahead(s->passes);
  put_in_tile(&to, s, at);
  buffer_printf(out,
                "#pragma unroll 1\nfor (int q = 0; q < %u; q += %u) {\n"
                "uint4 ahead[%u];\n",
                s->passes, each, each);
  for (int stores = 0; stores < 2; stores++) {
    buffer_printf(out,
                  "#pragma unroll\nfor (int u = 0; u < %u; u++) {\n"
                  "const int p = q + u;\n",
                  each);
    put_place(out, s);
    if (stores)
      buffer_printf(out, "%s = ahead[u];\n", to.text);
    else
      put_values(out, s, term, "ahead[u]");
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "}\n");
  buffer_free(&to);
}

void gemm_put_load(Buffer *out, const GemmSource *s, const char *at,
                   const char *term) {
  buffer_puts(out, "{\n");
  if (s->copy)
    put_copies(out, s, at, term);
  else
    put_values_held(out, s, term);
  buffer_puts(out, "}\n");
}

void gemm_put_held(Buffer *out, const GemmSource *s, const char *at) {
  put_passes(out, s);
  put_in_tile(out, s, at);
  buffer_printf(out, " = %c_held[p];\n}\n", s->letter);
}
