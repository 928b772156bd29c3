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
#include "backend/cpu/batched_small_gemm.h"

#include "backend/cpu/cpu_emitter.h"

enum {
  MAX_BLOCK_REGISTERS = 8, /* of each block, at most */
  MAX_SHUFFLE_SOURCES = 2, /* registers that lanes are taken from at a time */
  MIN_BATCH = 64,          /* fewer are not worth a code of their own */
  MAX_TILED_ROWS = 128,    /* of a block that is cut into tiles */
  MAX_NR_VECTORS = 4,      /* side by side */
  MAX_B_BYTES = 24 << 10,  /* of b, which tiles go through again and again */
};

#define format emit_format

/* ---- which products ---- */

static const KernelOp *unindexed_factor(const LoopNest *loop, uint32_t at,
                                        Dtype t) {
  const KernelOp *s = &loop->ops.at[at];
  if (s->kind != KOP_LOAD || s->checked_index_count || s->dtype != t)
    return NULL;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (s->address->coef[v] < 0 ||
        (v >= MAX_KERNEL_AXES && s->address->coef[v]))
      return NULL;
  return s;
}

static MatrixRef matrix_ref_new(const KernelOp *read, const AffineExpr *at,
                                uint32_t row, int64_t rows, uint32_t column,
                                int64_t columns, uint32_t batch) {
  MatrixRef b = {.load = read,
                 .row_stride = at->coef[row],
                 .column_stride = at->coef[column]};
  if (rows && columns)
    b.span = (rows - 1) * b.row_stride + (columns - 1) * b.column_stride + 1;
  b.batch_stride = at->coef[batch];
  return b;
}

/* Where lane `lane` of register v of the result has its factor: an element of
 * the operand's block. */
static int64_t factor_element(const BatchedGemm *p, const MatrixRef *operand,
                              int64_t v, uint32_t width, int64_t lane_index,
                              int64_t term, int64_t members) {
  int64_t block = p->rows * p->columns, e = v * width + lane_index;
  if (e >= block * members)
    return -1;
  int64_t row = e % block / p->columns, column = e % p->columns;
  int64_t member = members > 1 ? e / block * operand->batch_stride : 0;
  return member +
         (operand == &p->a
              ? row * operand->row_stride + term * operand->column_stride
              : term * operand->row_stride + column * operand->column_stride);
}

/* The registers of an operand that its factors come from; false: too many. */
static bool shuffle_sources(const BatchedGemm *p, const MatrixRef *operand,
                            int64_t v, uint32_t width, int64_t term,
                            int64_t members,
                            int64_t sources[MAX_SHUFFLE_SOURCES]) {
  int count = 0;
  sources[0] = sources[1] = 0;
  for (int64_t l = 0; l < width; l++) {
    int64_t e = factor_element(p, operand, v, width, l, term, members);
    bool is_known = e < 0;
    for (int k = 0; k < count; k++)
      is_known |= sources[k] == e / width;
    if (is_known)
      continue;
    if (count == MAX_SHUFFLE_SOURCES)
      return false;
    sources[count++] = e / width;
  }
  return true;
}

static int64_t extent_of_members(const MatrixRef *b, int64_t members) {
  return (members - 1) * b->batch_stride + b->span;
}

/* How many whole members fit into a register of each block; 1: at least. */
static int64_t members_per_register(const BatchedGemm *p, uint32_t width) {
  int64_t count = 1;
  if (p->c.batch_stride != p->rows * p->columns)
    return 1;
  while (extent_of_members(&p->a, count + 1) <= width &&
         extent_of_members(&p->b, count + 1) <= width &&
         extent_of_members(&p->c, count + 1) <= width)
    count++;
  return count;
}

/* Do whole blocks fit into registers? */
static bool fits_registers(BatchedGemm *p, uint32_t width) {
  const MatrixRef *blocks[] = {&p->a, &p->b, &p->c};
  int64_t max = MAX_BLOCK_REGISTERS * (int64_t)width;
  if (p->columns > width / 2 || p->rows > max || p->depth > max ||
      p->c.row_stride != p->columns)
    return false;
  for (uint32_t j = 0; j < ARRAY_LEN(blocks); j++)
    if (blocks[j]->span > MAX_BLOCK_REGISTERS * (int64_t)width)
      return false;
  for (int64_t v = 0; v < ceil_div(p->c.span, width); v++)
    for (int64_t k = 0; k < p->depth; k++) {
      int64_t sources[MAX_SHUFFLE_SOURCES];
      if (!shuffle_sources(p, &p->a, v, width, k, 1, sources) ||
          !shuffle_sources(p, &p->b, v, width, k, 1, sources))
        return false;
    }
  p->per_register = members_per_register(p, width);
  return true;
}

/* Rows of a tile with so many vectors side by side. */
static uint32_t max_mr(uint32_t vectors, uint32_t bytes) {
  static const uint8_t mr_of_32_registers[] = {12, 12, 8, 6},
                       mr_of_16_registers[] = {8, 4, 3, 2};
  return (bytes == 64 ? mr_of_32_registers
                      : mr_of_16_registers)[vectors - 1]; /* of 32 registers */
}

/* Or a tile of its rows?  As even ones as there may be. */
static bool fits_tiles(BatchedGemm *p, uint32_t width) {
  int64_t vectors = ceil_div(p->columns, width);
  if (vectors > MAX_NR_VECTORS || p->rows > MAX_TILED_ROWS ||
      p->depth > MAX_TILED_ROWS ||
      p->rows * p->columns * p->depth < MAX_TILED_ROWS ||
      p->b.column_stride != 1 ||
      p->b.span * dtype_info[p->dtype].bytes > MAX_B_BYTES ||
      4 * p->columns < width)
    return false;
  int64_t max = max_mr((uint32_t)vectors, cpu_vector_bytes());
  p->per_register = 1;
  p->nr_vectors = (uint32_t)vectors;
  p->mr = (uint32_t)ceil_div(p->rows, ceil_div(p->rows, max));
  return true;
}

/* The axis with the most members. */
static bool find_batch(BatchedGemm *p, const LoopNest *loop,
                       const AffineExpr *out) {
  int64_t block = p->symbolic ? 1 : p->rows * p->columns;
  p->batch_axis = UINT32_MAX;
  for (uint32_t v = 0; v < loop->parallel_axes; v++)
    if (v != p->m_axis && v != p->n_axis && out->coef[v] >= block &&
        (p->symbolic || extent_is_static(loop->graph, out->coef[v])) &&
        (p->batch_axis == UINT32_MAX ||
         loop_extent_hint(loop, v) > loop_extent_hint(loop, p->batch_axis)))
      p->batch_axis = v;
  return p->batch_axis != UINT32_MAX &&
         loop_extent_hint(loop, p->batch_axis) >= MIN_BATCH;
}

/* Are a member's places numbers, and how far it is to the next one? */
static bool strides_are_constant(const BatchedGemm *p, const Graph *g,
                                 const AffineExpr *at, uint32_t k) {
  return extent_is_static(g, at->coef[p->m_axis]) &&
         extent_is_static(g, at->coef[p->n_axis]) &&
         extent_is_static(g, at->coef[k]) &&
         extent_is_static(g, at->coef[p->batch_axis]);
}

static bool match_batched_gemm(const Kernel *kernel, BatchedGemm *p,
                               uint32_t width) {
  const LoopNest *loop = kernel->loops.at[0];
  const LoopOutput *r = &loop->outputs.at[0];
  ContractionPattern product;
  uint32_t with_n, k = loop->spatial_axes;
  if (!contraction_match_any_size(kernel->arena, loop, &product) ||
      product.factor_count != 2 || product.hoisted_count || !r->global_index ||
      r->local_index || loop->axis_count != k + 1 || loop->parallel_axes != k ||
      r->dtype != loop->ops.at[r->value_op].dtype)
    return false;
  p->dtype = r->dtype;
  for (p->n_axis = 0; p->n_axis < k && r->global_index->coef[p->n_axis] != 1;)
    p->n_axis++;
  if (p->n_axis == k ||
      !contraction_operand_sides(loop, &product, p->n_axis, &p->m_axis,
                                 &with_n) ||
      (with_n != 1 && with_n != 2))
    return false;
  const KernelOp *a =
      unindexed_factor(loop, product.factors[with_n == 1], p->dtype);
  const KernelOp *b =
      unindexed_factor(loop, product.factors[with_n != 1], p->dtype);
  p->rows = loop->extents[p->m_axis];
  p->columns = loop->extents[p->n_axis];
  p->depth = loop->extents[k];
  Graph *g = loop->graph;
  p->symbolic = !extent_is_static(g, p->rows) ||
                !extent_is_static(g, p->columns) ||
                !extent_is_static(g, p->depth);
  if (!a || !b || p->depth < 1 || !find_batch(p, loop, r->global_index))
    return false;
  if (p->symbolic) {
    p->a = matrix_ref_new(a, a->address, p->m_axis, 0, k, 0, p->batch_axis);
    p->b = matrix_ref_new(b, b->address, k, 0, p->n_axis, 0, p->batch_axis);
    p->c = matrix_ref_new(NULL, r->global_index, p->m_axis, 0, p->n_axis, 0,
                          p->batch_axis);
    p->per_register = 1;
    p->nr_vectors = MAX_NR_VECTORS;
    return p->b.column_stride == 1;
  }
  if (!strides_are_constant(p, g, a->address, k) ||
      !strides_are_constant(p, g, b->address, k) ||
      !strides_are_constant(p, g, r->global_index, k))
    return false;
  p->a = matrix_ref_new(a, a->address, p->m_axis, p->rows, k, p->depth,
                        p->batch_axis);
  p->b = matrix_ref_new(b, b->address, k, p->depth, p->n_axis, p->columns,
                        p->batch_axis);
  p->c = matrix_ref_new(NULL, r->global_index, p->m_axis, p->rows, p->n_axis,
                        p->columns, p->batch_axis);
  return fits_registers(p, width) || fits_tiles(p, width);
}

static bool is_candidate(const Kernel *k, uint32_t width) {
  return k->loops.len == 1 && k->loops.at[0]->outputs.len == 1 &&
         k->parallel_axes >= 3 && width >= 4;
}

int64_t batched_gemm_symbolic_sizes(const Kernel *k, uint32_t width,
                                    int64_t sizes[3]) {
  BatchedGemm p = {.n_axis = 0};
  if (!is_candidate(k, width) || !match_batched_gemm(k, &p, width) ||
      !p.symbolic)
    return 0;
  sizes[0] = p.rows;
  sizes[1] = p.columns;
  sizes[2] = p.depth;
  return MAX_NR_VECTORS * (int64_t)width;
}

bool batched_gemm_choose(Kernel *k, Schedule *s) {
  enum { TASK_OPS = 1 << 14, SYMBOLIC_TASK_MEMBERS = 64 };
  BatchedGemm *p = NEW(k->arena, BatchedGemm);
  if (!is_candidate(k, s->width) || !match_batched_gemm(k, p, s->width) ||
      (p->symbolic && !k->small_batched_gemm))
    return false;
  kernel_move_axis_last(k, p->m_axis);
  kernel_move_axis_last(k, p->n_axis - (p->n_axis > p->m_axis));
  kernel_move_axis_last(k, p->batch_axis - (p->batch_axis > p->m_axis) -
                               (p->batch_axis > p->n_axis));
  p->batch_axis = k->parallel_axes - 1;
  p->n_axis = k->parallel_axes - 2;
  p->m_axis = k->parallel_axes - 3;
  int64_t block = p->symbolic ? SYMBOLIC_TASK_MEMBERS
                              : TASK_OPS / (p->rows * p->columns * p->depth);
  s->batched_gemm = p;
  s->shape = TASK_BATCHED_GEMM;
  s->task_columns =
      ceil_div(block > 0 ? block : 1, p->per_register) * p->per_register;
  return true;
}

/* Where every vector is whole. */
bool batched_gemm_is_nontemporal(const Schedule *s, const Graph *g,
                                 const LoopOutput *r) {
  const BatchedGemm *p = s->batched_gemm;
  if (p->symbolic)
    return false;
  int64_t all =
      p->nr_vectors ? p->columns : extent_of_members(&p->c, p->per_register);
  return schedule_is_nontemporal(s, g, r) && all % s->width == 0;
}

/* ---- as C ---- */

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
  shuffle_sources(p, operand, v, width, term, members, sources);
  Buffer text = {.arena = e->arena};
  buffer_printf(&text, "__builtin_shufflevector(%c%lld, %c%lld", name,
                (long long)sources[0], name, (long long)sources[1]);
  for (int64_t l = 0; l < width; l++) {
    int64_t at = factor_element(p, operand, v, width, l, term, members);
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

/* So many members. */
static void emit_members_at_once(Emitter *e, Buffer *out, const BatchedGemm *p,
                                 int64_t members) {
  const char *type = dtype_info[p->dtype].name;
  char letter = vector_type_letter(value_class(p->dtype));
  int64_t width = e->width, all = extent_of_members(&p->c, members);
  emit_block_loads(e, out, p, 'a', extent_of_members(&p->a, members));
  emit_block_loads(e, out, p, 'b', extent_of_members(&p->b, members));
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

/* Vector j of a row that begins at `to`, of which the last may be cut. */
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

/* Tiles of any number of rows, with so many vectors side by side: whole ones,
 * and row by row what is left. */
static void emit_symbolic_tiles(Emitter *e, Buffer *out, BatchedGemm *p) {
  const char *type = memory_type(p->dtype);
  uint32_t rows = max_mr(p->nr_vectors, e->cpu->schedule->vector_bytes);
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
  emit_append(&e->function_head, &e->level_code[0]);
  buffer_puts(out, "{\n");
  emit_append(out, &e->level_code[OUTER_LEVEL]);
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
