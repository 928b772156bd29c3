/* Batches of small matmuls as C. */
#include "backend/cpu/batched_small_gemm.h"
#include "backend/cpu/cpu_emitter.h"

#define format emit_format

/* ---- whole matrices in registers ---- */

static bool is_nontemporal(const Emitter *e) {
  return batched_gemm_is_nontemporal(e->cpu->schedule, e->kernel->graph,
                                     &e->kernel->loops.at[0]->outputs.at[0]);
}

static const char *shuffle_expr(Emitter *e, const BatchedGemm *p,
                                const MatrixRef *operand, int64_t v,
                                int64_t term, int64_t members) {
  uint32_t width = e->width;
  char name = operand == &p->a ? 'a' : 'b';
  int64_t sources[MAX_SHUFFLE_SOURCES];
  batched_gemm_shuffle_sources(p, operand, v, width, term, members, sources);
  Buffer text = {.arena = e->arena};
  buffer_printf(&text, "__builtin_shufflevector(%c%lld, %c%lld", name,
                (long long)sources[0], name, (long long)sources[1]);
  for (int64_t l = 0; l < width; l++) {
    int64_t at =
        batched_gemm_factor_element(p, operand, v, width, l, term, members);
    int64_t lane_index = at < 0 ? 0 : at % width;
    bool from_second = at >= 0 && at / width != sources[0];
    buffer_printf(&text, ", %lld",
                  (long long)(from_second ? lane_index + width : lane_index));
  }
  buffer_puts(&text, ")");
  return text.text;
}

static void emit_block_loads(Emitter *e, Buffer *out, const BatchedGemm *p,
                             char name, int64_t elements) {
  const char *type = dtype_info[p->dtype].name;
  char v = vector_type_letter(value_class(p->dtype));
  int64_t width = e->width;
  for (int64_t j = 0; j * width < elements; j++)
    if (elements - j * width >= width)
      buffer_printf(out, "const v%c %c%lld = ld_%s(%c + %lld);\n", v, name,
                    (long long)j, type, name, (long long)(j * width));
    else
      buffer_printf(out, "const v%c %c%lld = ldp_%s(%c + %lld, %lld);\n", v,
                    name, (long long)j, type, name, (long long)(j * width),
                    (long long)(elements - j * width));
}

/* Emits `members` matmuls. */
static void emit_members_at_once(Emitter *e, Buffer *out, const BatchedGemm *p,
                                 int64_t members) {
  const char *type = dtype_info[p->dtype].name;
  char letter = vector_type_letter(value_class(p->dtype));
  int64_t width = e->width, all = batched_gemm_members_span(&p->c, members);
  emit_block_loads(e, out, p, 'a', batched_gemm_members_span(&p->a, members));
  emit_block_loads(e, out, p, 'b', batched_gemm_members_span(&p->b, members));
  for (int64_t v = 0; v * width < all; v++)
    buffer_printf(out, "v%c c%lld = {0};\n", letter, (long long)v);
  for (int64_t k = 0; k < p->depth; k++)
    for (int64_t v = 0; v * width < all; v++)
      buffer_printf(out, "c%lld += %s\n* %s;\n", (long long)v,
                    shuffle_expr(e, p, &p->a, v, k, members),
                    shuffle_expr(e, p, &p->b, v, k, members));
  for (int64_t v = 0; v * width < all; v++)
    if (all - v * width >= width)
      buffer_printf(out, "%s_%s(c + %lld, c%lld);\n",
                    is_nontemporal(e) ? "nt" : "st", type,
                    (long long)(v * width), (long long)v);
    else
      buffer_printf(out, "stp_%s(c + %lld, c%lld, %lld);\n", type,
                    (long long)(v * width), (long long)v,
                    (long long)(all - v * width));
}

static void emit_register_blocks(Emitter *e, Buffer *out,
                                 const BatchedGemm *p) {
  const char *type = memory_type(p->dtype);
  buffer_printf(out,
                "static __attribute__((noinline)) FUSED void\n"
                "members%s(const %s *a, int64_t sa, const %s *b, int64_t sb,\n"
                "%s *c, int64_t sc, int64_t count) {\nFUSING\n",
                e->suffix, type, type, type);
  if (p->per_register > 1) {
    long long n = p->per_register;
    buffer_printf(out,
                  "for (; count >= %lld; count -= %lld,\n"
                  "a += %lld * sa, b += %lld * sb, c += %lld * sc) {\n",
                  n, n, n, n, n);
    emit_members_at_once(e, out, p, p->per_register);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "for (; count > 0; count--, a += sa, b += sb, c += sc) {\n");
  emit_members_at_once(e, out, p, 1);
  buffer_puts(out, "}\n}\n");
}

/* ---- tiles ---- */

static bool last_vector_is_partial(const BatchedGemm *p, uint32_t width) {
  return p->symbolic || p->columns % width != 0;
}

/* Accesses vector j of a row that begins at `to`; the last one may be
 * partial. */
static const char *row_access(Emitter *e, const BatchedGemm *p,
                              const char *what, const char *to, uint32_t j,
                              const char *value) {
  bool is_partial =
      last_vector_is_partial(p, e->width) && j + 1 == p->nr_vectors;
  return format(e, "%s%s_%s(%s + %u * W%s%s%s)", what, is_partial ? "p" : "",
                dtype_info[p->dtype].name, to, j, *value ? ", " : "", value,
                is_partial ? ", rest" : "");
}

static void emit_tile_terms(Emitter *e, Buffer *out, const BatchedGemm *p) {
  char v = vector_type_letter(value_class(p->dtype));
  for (uint32_t i = 0; i < p->mr; i++)
    for (uint32_t j = 0; j < p->nr_vectors; j++)
      buffer_printf(out, "v%c c%u_%u = {0};\n", v, i, j);
  buffer_puts(out, "for (int64_t k = 0; k < depth; k++) {\n");
  for (uint32_t j = 0; j < p->nr_vectors; j++)
    buffer_printf(out, "const v%c b%u = %s;\n", v, j,
                  row_access(e, p, "ld", "y", j, ""));
  for (uint32_t i = 0; i < p->mr; i++) {
    buffer_printf(out, "const v%c a%u = x[%u * ra] - (v%c){0};\n", v, i, i, v);
    for (uint32_t j = 0; j < p->nr_vectors; j++)
      buffer_printf(out, "c%u_%u += a%u * b%u;\n", i, j, i, j);
  }
  buffer_puts(out, "x += ka;\ny += rb;\n}\n");
}

static void emit_tile_stores(Emitter *e, Buffer *out, const BatchedGemm *p) {
  const char *store = is_nontemporal(e) ? "nt" : "st";
  for (uint32_t i = 0; i < p->mr; i++)
    for (uint32_t j = 0; j < p->nr_vectors; j++)
      buffer_printf(out, "%s;\n",
                    row_access(e, p, store, format(e, "z + %u * rc", i), j,
                               format(e, "c%u_%u", i, j)));
}

static void emit_signature(Emitter *e, Buffer *out, const BatchedGemm *p,
                           const char *suffix, const char *last) {
  const char *type = memory_type(p->dtype);
  buffer_printf(
      out,
      "static __attribute__((noinline)) FUSED void\n"
      "members%s%s(const %s *a, int64_t sa, const %s *b, int64_t sb,\n"
      "%s *c, int64_t sc, int64_t count, int64_t ra, int64_t ka,\n"
      "int64_t rb, int64_t rc, int64_t rows, int64_t depth, "
      "int64_t %s) {\n",
      e->suffix, suffix, type, type, type, last);
}

static void emit_tiled(Emitter *e, Buffer *out, const BatchedGemm *p) {
  const char *type = memory_type(p->dtype);
  emit_signature(e, out, p, "", "rest");
  buffer_printf(out,
                "FUSING\n(void)rest;\n"
                "for (; count > 0; count--, a += sa, b += sb, c += sc)\n"
                "for (int64_t i = 0; i < rows; i += %u) {\n"
                "const int64_t m = i + %u <= rows ? i : rows - %u;\n"
                "const %s *x = a + m * ra, *y = b;\n"
                "%s *const z = c + m * rc;\n",
                p->mr, p->mr, p->mr, type, type);
  emit_tile_terms(e, out, p);
  emit_tile_stores(e, out, p);
  buffer_puts(out, "}\n}\n");
}

/* Emits tiles of a symbolic number of rows for nr_vectors vectors: full tiles,
 * then tiles of 4 rows and of 1 row. */
static void emit_symbolic_tiles(Emitter *e, Buffer *out, BatchedGemm *p) {
  const char *type = memory_type(p->dtype);
  uint32_t rows =
      batched_gemm_max_mr(p->nr_vectors, e->cpu->schedule->vector_bytes);
  emit_signature(e, out, p, format(e, "_%u", p->nr_vectors), "rest");
  buffer_puts(out, "FUSING\nfor (; count > 0; count--, a += sa, b += sb, "
                   "c += sc) {\nint64_t i = 0;\n");
  for (; rows; rows = rows > 4 ? 4 : rows > 1 ? 1 : 0) {
    p->mr = rows;
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

static void emit_symbolic(Emitter *e, Buffer *out, const BatchedGemm *sources) {
  BatchedGemm p = *sources;
  Buffer calls = {.arena = e->arena};
  for (p.nr_vectors = 1; p.nr_vectors <= sources->nr_vectors; p.nr_vectors++) {
    emit_symbolic_tiles(e, out, &p);
    buffer_printf(&calls,
                  "%s%smembers%s_%u(a, sa, b, sb, c, sc, count, ra, ka, rb, "
                  "rc, rows, depth, columns - %u * W);\n",
                  p.nr_vectors > 1 ? "else " : "",
                  p.nr_vectors < sources->nr_vectors
                      ? format(e, "if (columns <= %u * W)\n", p.nr_vectors)
                      : "\n",
                  e->suffix, p.nr_vectors, p.nr_vectors - 1);
  }
  emit_signature(e, out, sources, "", "columns");
  buffer_printf(out, "%s}\n", calls.text);
}

void emit_batched_gemm_function(Emitter *e, Buffer *out) {
  const BatchedGemm *p = e->cpu->schedule->batched_gemm;
  (p->symbolic     ? emit_symbolic
   : p->nr_vectors ? emit_tiled
                   : emit_register_blocks)(e, out, p);
}

static const char *emit_matrix_offset(Emitter *e, const BatchedGemm *p,
                                      const AffineExpr *q) {
  AffineExpr remaining = *q;
  remaining.coef[p->m_axis] = remaining.coef[p->n_axis] =
      remaining.coef[p->batch_axis] = 0;
  remaining.coef[e->loop->spatial_axes] = 0;
  return emit_affine(e, &remaining);
}

void emit_batched_gemm_call(Emitter *e, Buffer *out) {
  const BatchedGemm *p = e->cpu->schedule->batched_gemm;
  LoopNest *loop = e->kernel->loops.at[0];
  LoopOutput *r = &loop->outputs.at[0];
  const MatrixRef *blocks[] = {&p->a, &p->b, &p->c};
  const char *at[3], *stride[3];
  VEC_PUSH(e->arena, e->emitted->call.outputs, r);
  emit_begin_loop(e, loop, NO_AXIS, 0, NULL);
  for (uint32_t j = 0; j < 3; j++) {
    const KernelOp *s = blocks[j]->load;
    stride[j] = emit_int(e, blocks[j]->batch_stride);
    const char *offset =
        emit_matrix_offset(e, p, s ? s->address : r->global_index);
    at[j] = s ? format(e, "p%u + %s + lo * %s", s->input, offset, stride[j])
              : format(e, "o0 + %s + lo * %s", offset, stride[j]);
  }
  emit_append(&e->function.head, &e->levels.code[0]);
  buffer_puts(out, "{\n");
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  buffer_printf(out, "members%s(%s, %s,\n%s, %s,\n%s, %s, hi - lo", e->suffix,
                at[0], stride[0], at[1], stride[1], at[2], stride[2]);
  if (p->nr_vectors) {
    const int64_t sizes[] = {
        p->a.row_stride,
        p->a.column_stride,
        p->b.row_stride,
        p->c.row_stride,
        p->rows,
        p->depth,
        p->symbolic ? p->columns
                    : p->columns - (int64_t)(p->nr_vectors - 1) * e->width};
    for (uint32_t j = 0; j < ARRAY_LEN(sizes); j++)
      buffer_printf(out, "%s%s", j ? ", " : ",\n", emit_int(e, sizes[j]));
  }
  buffer_puts(out, ");\n}\n");
  e->cpu->has_nontemporal |= is_nontemporal(e);
}
