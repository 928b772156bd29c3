/* Batches of small matmuls.
 *
 * If rows are shorter than a vector, whole matrices are in registers.  The
 * lanes of a register are the elements of the result in row-major order,
 * perhaps of several matrices.  For each term, both factors are constant
 * shuffles of operand registers.  No element is loaded twice or broadcast from
 * memory, and no register is half empty.
 *
 * Longer rows use register tiles of several rows.  The last tile of a matrix
 * overlaps the tile before it and computes the same results again.  Nothing is
 * packed, since B stays in the L1 cache. */
#include "backend/cpu/batched_small_gemm.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

enum {
  MAX_NR_VECTORS = 4, /* vectors of a tile; the tables of batched_gemm_max_mr
                         have this length */
};

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

int64_t batched_gemm_factor_element(const BatchedGemm *p,
                                    const MatrixRef *operand, int64_t v,
                                    uint32_t width, int64_t lane_index,
                                    int64_t term, int64_t members) {
  int64_t block = p->rows * p->columns, element = v * width + lane_index;
  if (element >= block * members)
    return -1;
  int64_t row = element % block / p->columns, column = element % p->columns;
  int64_t member = members > 1 ? element / block * operand->batch_stride : 0;
  return member +
         (operand == &p->a
              ? row * operand->row_stride + term * operand->column_stride
              : term * operand->row_stride + column * operand->column_stride);
}

bool batched_gemm_shuffle_sources(const BatchedGemm *p,
                                  const MatrixRef *operand, int64_t v,
                                  uint32_t width, int64_t term, int64_t members,
                                  int64_t sources[MAX_SHUFFLE_SOURCES]) {
  int count = 0;
  sources[0] = sources[1] = 0;
  for (int64_t l = 0; l < width; l++) {
    int64_t e =
        batched_gemm_factor_element(p, operand, v, width, l, term, members);
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

int64_t batched_gemm_members_span(const MatrixRef *b, int64_t members) {
  return (members - 1) * b->batch_stride + b->span;
}

/* Number of whole matrices that fit in one register; at least 1. */
static int64_t members_per_register(const BatchedGemm *p, uint32_t width) {
  int64_t count = 1;
  if (p->c.batch_stride != p->rows * p->columns)
    return 1;
  while (batched_gemm_members_span(&p->a, count + 1) <= width &&
         batched_gemm_members_span(&p->b, count + 1) <= width &&
         batched_gemm_members_span(&p->c, count + 1) <= width)
    count++;
  return count;
}

/* Returns true if whole matrices fit in registers. */
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
      if (!batched_gemm_shuffle_sources(p, &p->a, v, width, k, 1, sources) ||
          !batched_gemm_shuffle_sources(p, &p->b, v, width, k, 1, sources))
        return false;
    }
  p->per_register = members_per_register(p, width);
  return true;
}

uint32_t batched_gemm_max_mr(uint32_t vectors, uint32_t bytes) {
  static const uint8_t mr_of_32_registers[] = {12, 12, 8, 6},
                       mr_of_16_registers[] = {8, 4, 3, 2};
  return (bytes == 64
              ? mr_of_32_registers
              : mr_of_16_registers)[vectors -
                                    1]; /* AVX-512 has 32 vector registers */
}

/* Returns true if tiles of rows are profitable.  All tiles have about equal
 * heights. */
static bool fits_tiles(BatchedGemm *p, uint32_t width) {
  int64_t vectors = ceil_div(p->columns, width);
  if (vectors > MAX_NR_VECTORS || p->rows > MAX_TILED_ROWS ||
      p->depth > MAX_TILED_ROWS ||
      p->rows * p->columns * p->depth < MAX_TILED_ROWS ||
      p->b.column_stride != 1 ||
      p->b.span * dtype_info[p->dtype].bytes > MAX_B_BYTES ||
      4 * p->columns < width)
    return false;
  int64_t max = batched_gemm_max_mr((uint32_t)vectors, cpu_vector_bytes());
  p->per_register = 1;
  p->nr_vectors = (uint32_t)vectors;
  p->mr = (uint32_t)ceil_div(p->rows, ceil_div(p->rows, max));
  return true;
}

/* Finds the longest batch axis. */
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

/* Returns true if the strides of a matrix and of the batch are constant. */
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
  int64_t block = p->symbolic
                      ? SYMBOLIC_TASK_MATMULS
                      : BATCHED_TASK_OPS / (p->rows * p->columns * p->depth);
  s->batched_gemm = p;
  s->task_kind = TASK_BATCHED_GEMM;
  s->last_axis_block =
      ceil_div(block > 0 ? block : 1, p->per_register) * p->per_register;
  return true;
}

/* Only if every vector is full. */
bool batched_gemm_is_nontemporal(const Schedule *s, const Graph *g,
                                 const LoopOutput *r) {
  const BatchedGemm *p = s->batched_gemm;
  if (p->symbolic)
    return false;
  int64_t all = p->nr_vectors
                    ? p->columns
                    : batched_gemm_members_span(&p->c, p->per_register);
  return schedule_is_nontemporal(s, g, r) && all % s->width == 0;
}
