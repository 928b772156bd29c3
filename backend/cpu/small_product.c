/* Batches of small matmuls.
 *
 * Nothing is packed, since B stays in the L1 cache.  Short rows share vectors,
 * so that no lanes are idle: for each term, the lanes are constant shuffles of
 * vectors of the operands, and no element is loaded twice.  The last tile of
 * longer rows overlaps the tile before it and computes the same results again.
 */
#include "backend/cpu/small_product.h"
#include "backend/cpu/lane_shuffle.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

enum {
  MAX_ROW_VECTORS = 4, /* vectors of a tile; the tables of max_tile_rows
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

static MatrixRef matrix_ref_new(const AffineExpr *at, uint32_t row,
                                int64_t rows, uint32_t column, int64_t columns,
                                uint32_t batch) {
  MatrixRef b = {.row_stride = at->coef[row],
                 .column_stride = at->coef[column],
                 .batch_stride = at->coef[batch]};
  if (rows && columns)
    b.span = (rows - 1) * b.row_stride + (columns - 1) * b.column_stride + 1;
  return b;
}

/* Number of elements that `members` matrices span. */
static int64_t members_span(const MatrixRef *b, int64_t members) {
  return (members - 1) * b->batch_stride + b->span;
}

/* Returns true if rows are short, and vectors of the operands contain the
 * factors of each vector of the result. */
static bool fits_shuffles(SmallProduct *p, const LoopNest *loop,
                          uint32_t width) {
  int64_t max = MAX_SHUFFLED_VECTORS * (int64_t)width;
  p->members = 1;
  if (p->columns > width / 2 || p->rows > max || p->depth > max ||
      p->c.span > max)
    return false;
  while (p->c.batch_stride == p->rows * p->columns &&
         members_span(&p->a, p->members + 1) <= width &&
         members_span(&p->b, p->members + 1) <= width &&
         members_span(&p->c, p->members + 1) <= width)
    p->members++;
  LaneShuffle f = {.loop = loop,
                   .width = width,
                   .axis_count = 3,
                   .axes = {p->batch_axis, p->m_axis, p->n_axis},
                   .extents = {p->members, p->rows, p->columns}};
  return !lane_shuffle_refusal(&f);
}

/* Rows of a tile of `vectors` vectors. */
static uint32_t max_tile_rows(uint32_t vectors, uint32_t bytes) {
  static const uint8_t mr_of_32_registers[] = {12, 12, 8, 6},
                       mr_of_16_registers[] = {8, 4, 3, 2};
  return (bytes == 64
              ? mr_of_32_registers
              : mr_of_16_registers)[vectors -
                                    1]; /* AVX-512 has 32 vector registers */
}

/* Returns true if tiles of rows are profitable.  All tiles have about equal
 * heights. */
static bool fits_tiles(SmallProduct *p, uint32_t bytes, uint32_t width) {
  int64_t vectors = ceil_div(p->columns, width);
  if (vectors > MAX_ROW_VECTORS || p->rows > MAX_TILED_ROWS ||
      p->depth > MAX_TILED_ROWS ||
      p->rows * p->columns * p->depth < MAX_TILED_ROWS ||
      p->b.column_stride != 1 || p->b.span * (int64_t)bytes > MAX_B_BYTES ||
      4 * p->columns < width)
    return false;
  int64_t max = max_tile_rows((uint32_t)vectors, cpu_vector_bytes());
  p->members = 1;
  p->row_vectors = (uint32_t)vectors;
  p->mr = (uint32_t)ceil_div(p->rows, ceil_div(p->rows, max));
  return true;
}

/* Finds the longest batch axis. */
static bool find_batch(SmallProduct *p, const LoopNest *loop,
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
static bool strides_are_constant(const SmallProduct *p, const Graph *g,
                                 const AffineExpr *at, uint32_t k) {
  return extent_is_static(g, at->coef[p->m_axis]) &&
         extent_is_static(g, at->coef[p->n_axis]) &&
         extent_is_static(g, at->coef[k]) &&
         extent_is_static(g, at->coef[p->batch_axis]);
}

static bool match_small_product(const Kernel *kernel, SmallProduct *p,
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
  for (p->n_axis = 0; p->n_axis < k && r->global_index->coef[p->n_axis] != 1;)
    p->n_axis++;
  if (p->n_axis == k ||
      !contraction_operand_sides(loop, &product, p->n_axis, &p->m_axis,
                                 &with_n) ||
      (with_n != 1 && with_n != 2))
    return false;
  const KernelOp *a =
      unindexed_factor(loop, product.factors[with_n == 1], r->dtype);
  const KernelOp *b =
      unindexed_factor(loop, product.factors[with_n != 1], r->dtype);
  p->rows = loop->extents[p->m_axis];
  p->columns = loop->extents[p->n_axis];
  p->depth = loop->extents[k];
  Graph *g = loop->graph;
  p->symbolic = !extent_is_static(g, p->rows) ||
                !extent_is_static(g, p->columns) ||
                !extent_is_static(g, p->depth);
  if (!a || !b || p->rows < 1 || p->columns < 1 || p->depth < 1 ||
      !find_batch(p, loop, r->global_index))
    return false;
  if (p->symbolic) {
    p->a = matrix_ref_new(a->address, p->m_axis, 0, k, 0, p->batch_axis);
    p->b = matrix_ref_new(b->address, k, 0, p->n_axis, 0, p->batch_axis);
    p->c = matrix_ref_new(r->global_index, p->m_axis, 0, p->n_axis, 0,
                          p->batch_axis);
    p->members = 1;
    return p->b.column_stride == 1;
  }
  if (!strides_are_constant(p, g, a->address, k) ||
      !strides_are_constant(p, g, b->address, k) ||
      !strides_are_constant(p, g, r->global_index, k))
    return false;
  p->a = matrix_ref_new(a->address, p->m_axis, p->rows, k, p->depth,
                        p->batch_axis);
  p->b = matrix_ref_new(b->address, k, p->depth, p->n_axis, p->columns,
                        p->batch_axis);
  p->c = matrix_ref_new(r->global_index, p->m_axis, p->rows, p->n_axis,
                        p->columns, p->batch_axis);
  return fits_shuffles(p, loop, width) ||
         fits_tiles(p, dtype_info[r->dtype].bytes, width);
}

static bool is_candidate(const Kernel *k, uint32_t width) {
  return k->loops.len == 1 && k->loops.at[0]->outputs.len == 1 &&
         k->parallel_axes >= 3 && width >= 4;
}

uint32_t small_product_symbolic_sizes(const Kernel *k, uint32_t width,
                                      int64_t sizes[3]) {
  SmallProduct p = {.n_axis = 0};
  if (!is_candidate(k, width) || !match_small_product(k, &p, width) ||
      !p.symbolic)
    return 0;
  sizes[0] = p.rows;
  sizes[1] = p.columns;
  sizes[2] = p.depth;
  return MAX_ROW_VECTORS;
}

/* Makes the batch axis the last one of tasks, and rows and columns inner axes
 * in their order. */
static void move_axes(Kernel *k, SmallProduct *p) {
  uint32_t kept = k->parallel_axes - 2;
  bool is_transposed = p->m_axis > p->n_axis;
  uint32_t first = is_transposed ? p->n_axis : p->m_axis,
           second = is_transposed ? p->m_axis : p->n_axis;
  kernel_move_axis_last(k, p->batch_axis);
  first -= first > p->batch_axis;
  second -= second > p->batch_axis;
  kernel_move_axis_last(k, first);
  kernel_move_axis_last(k, second - 1);
  kernel_make_axes_inner(k, kept);
  p->batch_axis = kept - 1;
  p->m_axis = kept + is_transposed;
  p->n_axis = kept + !is_transposed;
}

bool small_product_choose(Kernel *k, Schedule *s) {
  SmallProduct *p = NEW(k->arena, SmallProduct);
  if (!is_candidate(k, s->width) || !match_small_product(k, p, s->width) ||
      (p->symbolic && !k->small_product_vectors))
    return false;
  if (p->symbolic) {
    p->row_vectors = k->small_product_vectors;
    p->mr = max_tile_rows(p->row_vectors, s->vector_bytes);
  }
  move_axes(k, p);
  int64_t batch = k->loops.at[0]->extents[p->batch_axis],
          most = extent_is_static(k->graph, batch) ? batch : INT64_MAX;
  int64_t block =
      p->symbolic ? SYMBOLIC_TASK_MATMULS
                  : SMALL_PRODUCT_TASK_OPS / (p->rows * p->columns * p->depth);
  block = block < most ? block : most;
  s->small_product = p;
  s->task_kind = TASK_COLUMNS;
  s->last_axis_block = ceil_div(block > 1 ? block : 2, p->members) * p->members;
  s->reduction_unroll = 1;
  return true;
}
