/* Contributions that are summed in two steps.
 *
 * If heads of attention share keys, the gradient of the keys is a sum over the
 * rows of the scores and over the heads.  One sum over both needs the scores of
 * all heads, which no kernel computes by tiles.  So each head gets a sum of its
 * own, in f32, and a second sum adds the heads:
 *
 *     dK[j, d] = sum[h] (sum[i] dS[h, i, j] * Q[h, i, d])
 *
 * The first sum has the axes of the scores and one reduced axis, like the
 * gradient of attention without shared keys (plan/recomputation.c). */
#include "machine/limits/planner.h"
#include "tensor/adjoint_body.h"

/* The axes of the sum over rows. */
typedef struct RowSum {
  uint32_t axes[MAX_RANK]; /* own axes of the row sum, by number */
  uint32_t count, row;     /* the reduced axis of the row sum */
} RowSum;

static bool is_half(Dtype t) {
  return dtype_is_narrow_float(t);
}

static double elements(const Graph *g, uint32_t count, const int64_t *extents) {
  return extent_hint_product(g, count, extents);
}

/* True if x is computed element by element from a pending sum with as many
 * elements, such as scores. */
static bool is_computed_from_sum(const Graph *g, const Node *x, double count,
                                 uint32_t *visited) {
  if (x->kind != NODE_COMP || x->data || ++*visited > MAX_SCORE_SEARCH_NODES ||
      elements(g, x->free_count + x->rank, x->extents) < count)
    return false;
  if (x->reduce != PRIM_NONE)
    return x->reduce == PRIM_SUM;
  for (uint32_t k = 0; k < x->body_op_count; k++)
    if (x->body_ops[k].kind == BODY_READ &&
        is_computed_from_sum(g, x->body_ops[k].node, count, visited))
      return true;
  return false;
}

static bool has_axis(const RowSum *s, uint32_t axis) {
  for (uint32_t k = 0; k < s->count; k++)
    if (s->axes[k] == axis)
      return true;
  return false;
}

static int64_t extent_of(const AdjointBody *a, uint32_t axis) {
  const NodeSpec *spec = &a->spec;
  uint32_t own = axis - spec->free_count;
  return own < spec->rank ? spec->own_extents[own]
                          : spec->reduced_extents[own - spec->rank];
}

/* Sets the axes of the row sum: those that index the matrix, except for the
 * last reduced one, then the others.  Returns false if the matrix has not each
 * reduced axis. */
static bool find_axes(const AdjointBody *a, const BodyOp *matrix, RowSum *s) {
  const BodyOp *ops = a->b.ops;
  uint32_t free = a->spec.free_count, first_reduced = free + a->spec.rank;
  uint32_t reduced = 0, all = first_reduced + a->spec.reduce_count;
  *s = (RowSum){.row = NO_OP};
  if (all > MAX_RANK)
    return false;
  for (uint32_t k = 0; k < matrix->arg_count; k++) {
    const BodyOp *index = &ops[matrix->args[k]];
    if (index->kind != BODY_AXIS)
      return false;
    if (index->axis >= first_reduced)
      s->row = index->axis;
  }
  for (uint32_t k = 0; k < matrix->arg_count; k++) {
    uint32_t axis = ops[matrix->args[k]].axis;
    if (has_axis(s, axis))
      return false;
    reduced += axis >= first_reduced;
    if (axis >= free && axis != s->row)
      s->axes[s->count++] = axis;
  }
  for (uint32_t axis = free; axis < first_reduced; axis++)
    if (!has_axis(s, axis))
      s->axes[s->count++] = axis;
  return reduced == a->spec.reduce_count;
}

/* True if the row sums are much smaller than the matrix. */
static bool is_matrix(const AdjointBody *a, const BodyOp *read, RowSum *s) {
  const Graph *g = a->pass->graph;
  uint32_t visited = 0;
  if (read->kind != BODY_READ || !find_axes(a, read, s))
    return false;
  const Node *x = read->node;
  double count = elements(g, x->free_count + x->rank, x->extents), sums = 1;
  for (uint32_t k = 0; k < s->count; k++)
    sums *= (double)extent_hint(g, extent_of(a, s->axes[k]));
  return MIN_RECOMPUTED_RATIO * sums <= count &&
         is_computed_from_sum(g, x, count, &visited);
}

/* The backend accumulates sums of wider floats in the kernel that computes the
 * matrix (plan/accumulation.c). */
static bool sums_rows_of_matrix(const AdjointBody *a, RowSum *s) {
  const BodyBuilder *b = &a->b;
  if (a->spec.reduce_count < 2 || !is_half(a->spec.dtype) ||
      b->ops[b->op_count - 1].dtype != DT_F32)
    return false;
  for (uint32_t k = 0; k < b->op_count; k++)
    if (is_matrix(a, &b->ops[k], s))
      return true;
  return false;
}

/* Finishes the body as the row sum. */
static Node *finish_row_sum(AdjointBody *a, const RowSum *s) {
  NodeSpec spec = a->spec;
  uint32_t number[MAX_RANK], free = spec.free_count;
  spec.dtype = DT_F32;
  spec.reduce = PRIM_SUM;
  spec.broadcast_mask = 0;
  spec.rank = s->count;
  spec.reduce_count = 1;
  spec.reduced_extents[0] = extent_of(a, s->row);
  for (uint32_t k = 0; k < s->count; k++) {
    spec.own_extents[k] = extent_of(a, s->axes[k]);
    number[s->axes[k]] = free + k;
  }
  number[s->row] = free + s->count;
  for (uint32_t k = 0; k < a->b.op_count; k++) {
    BodyOp *c = &a->b.ops[k];
    if (c->kind == BODY_AXIS && c->axis >= free)
      c->axis = number[c->axis];
  }
  a->b.spec = &spec;
  return reverse_own(a->pass,
                     body_finish(&a->b, a->pass->graph, a->pass->fault));
}

/* The sum of the row sums, with the axes of the contribution. */
static Node *sum_rows(AdjointBody *a, const RowSum *s, Node *rows) {
  NodeSpec *spec = &a->spec;
  BodyBuilder *b = &a->b;
  uint32_t own[MAX_RANK], first_reduced = spec->free_count + spec->rank;
  int64_t reduced[MAX_RANK];
  spec->reduce_count = 0;
  body_init(b, a->pass->graph, spec);
  for (uint32_t k = 0; k < s->count; k++) {
    uint32_t axis = s->axes[k];
    if (axis < first_reduced) {
      own[k] = body_own_axis(b, axis - spec->free_count);
    } else {
      reduced[spec->reduce_count] = rows->extents[rows->free_count + k];
      own[k] = body_reduced_axis(b, spec->reduce_count++);
    }
  }
  for (uint32_t k = 0; k < spec->reduce_count; k++)
    spec->reduced_extents[k] = reduced[k];
  body_set_result(b, body_read(b, rows, own));
  return body_finish(b, a->pass->graph, a->pass->fault);
}

Node *adjoint_finish_sum(AdjointBody *a) {
  RowSum s;
  a->spec.reduce = a->spec.reduce_count ? PRIM_SUM : PRIM_NONE;
  if (!sums_rows_of_matrix(a, &s))
    return body_finish(&a->b, a->pass->graph, a->pass->fault);
  Node *rows = finish_row_sum(a, &s);
  return rows ? sum_rows(a, &s, rows) : NULL;
}
