/* Opaque nodes, which are no comprehensions.  Their parameters:
 *
 *   SORT, ARGSORT, CUMSUM   inputs x            params axis
 *   SCATTER                 inputs x, index, y
 *   PERMUTATION             key                 params n
 *   TOPK                    inputs x            params k; outputs values (0)
 *                                               and indices (1)
 *   GETRF ... GEEV          inputs a, or a and b; params: TRTRS lower
 *   DFT ...                 see fourier.c
 *   FOLD, SCAN              inputs carry, others
 *                                               params trip count, number of
 *                                               carry values, set of scanned
 *                                               inputs, output
 *
 * A fold has body ops, which compute one iteration for one element of its
 * carry.  BODY_AXIS k is input k; an input without axes is the same for all
 * elements.  The last ops are the next value of each carry, then the stacked
 * output of a scan.
 *
 * With free indices, each slice is processed separately (a permutation has
 * none).  The inputs are always materialized. */
#include "tensor/internal.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

static void copy_shape(NodeSpec *spec, const Node *x) {
  spec->dtype = x->dtype;
  spec->rank = x->rank;
  spec->broadcast_mask = x->broadcast_mask;
  memcpy(spec->own_extents, node_own_extents(x),
         x->rank * sizeof spec->own_extents[0]);
}

static bool axis_op_spec(const Graph *g, NodeSpec *spec, PrimId op,
                         const Node *x, int64_t axis, Fault *fault) {
  if (axis < 0 || axis >= x->rank) {
    fault_set(fault, "%s along axis %lld, but %s has %u", prim_info[op].name,
              (long long)axis, node_type_text(g, x).text, x->rank);
    return false;
  }
  if (!node_axis_sized(g, x, (uint32_t)axis, prim_info[op].name, fault))
    return false;
  copy_shape(spec, x);
  if (op == PRIM_ARGSORT)
    spec->dtype = DT_I64;
  return true;
}

static bool scatter_spec(Graph *g, NodeSpec *spec, const Node *x,
                         const Node *index, const Node *y, Fault *fault) {
  if (!dtype_is_int(index->dtype) || x->dtype != y->dtype) {
    fault_set(
        fault,
        "scatter needs integer indices and one element type; found %s, %s, %s",
        node_type_text(g, x).text, node_type_text(g, index).text,
        node_type_text(g, y).text);
    return false;
  }
  bool fits = index->rank == 1 && x->rank >= 1 && x->rank == y->rank;
  for (uint32_t k = 0; k == 0 || (fits && k < x->rank); k++) {
    int64_t rows = fits ? node_own_extents(k ? x : index)[k] : 0;
    if (fits && rows == node_own_extents(y)[k])
      continue;
    fault_set(fault,
              "scatter needs rows of equal shape and one index per row; found "
              "%s, %s, %s",
              node_type_text(g, x).text, node_type_text(g, index).text,
              node_type_text(g, y).text);
    if (!fits ||
        !extent_require(g, EXTENT_EQ, rows, node_own_extents(y)[k], fault))
      return false;
  }
  copy_shape(spec, x);
  return true;
}

static bool topk_spec(Graph *g, NodeSpec *spec, const Node *x, int64_t k,
                      uint32_t output_index, Fault *fault) {
  int64_t ends[] = {0, k, x->rank ? node_own_extents(x)[x->rank - 1] : 0};
  for (uint32_t at = 0; at < 2; at++) {
    if (x->rank && extent_holds_trivially(g, EXTENT_LE, ends[at], ends[at + 1]))
      continue;
    fault_set(fault, "topk cannot take %s elements from %s",
              extent_text(g, k).text, node_type_text(g, x).text);
    if (!x->rank ||
        !extent_require(g, EXTENT_LE, ends[at], ends[at + 1], fault))
      return false;
  }
  copy_shape(spec, x);
  spec->own_extents[x->rank - 1] = k;
  spec->broadcast_mask &= ~((uint32_t)1 << (x->rank - 1));
  if (output_index)
    spec->dtype = DT_I64;
  return true;
}

static bool permutation_spec(Graph *g, NodeSpec *spec, int64_t n,
                             Fault *fault) {
  if (!extent_holds_trivially(g, EXTENT_LE, 0, n)) {
    fault_set(fault, "a size cannot be negative; found %s",
              extent_text(g, n).text);
    if (!extent_require(g, EXTENT_LE, 0, n, fault))
      return false;
  }
  spec->dtype = DT_I64;
  spec->rank = 1;
  spec->own_extents[0] = n;
  return true;
}

/* ---- linear algebra ---- */

LapackOp node_lapack_op(PrimId op, const int64_t params[4]) {
  static const LapackOp ops[PRIM_COUNT] = {
      [PRIM_GETRF] = LAPACK_GETRF,       [PRIM_GESV] = LAPACK_GESV,
      [PRIM_TRTRS] = LAPACK_TRTRS_UPPER, [PRIM_POTRF] = LAPACK_POTRF,
      [PRIM_GEQRF] = LAPACK_GEQRF,       [PRIM_GESDD] = LAPACK_GESDD,
      [PRIM_SYEVD] = LAPACK_SYEVD,       [PRIM_GEEV] = LAPACK_GEEV,
  };
  return op == PRIM_TRTRS && params[0] ? LAPACK_TRTRS_LOWER : ops[op];
}

/* a[..., n, n] and b[..., n, m] with equal leading axes. */
static bool lapack_inputs_fit(Graph *g, uint32_t count, Node *const *inputs,
                              bool is_square, Fault *fault) {
  const Node *a = inputs[0], *b = inputs[count - 1];
  const int64_t *rows = node_own_extents(a), *others = node_own_extents(b);
  bool fits = dtype_is_float(a->dtype) && a->rank >= 2 && a->rank == b->rank &&
              a->dtype == b->dtype;
  for (uint32_t k = 0; k == 0 || (fits && k < a->rank); k++) {
    bool is_last = fits && k == a->rank - 1u;
    int64_t x = fits ? rows[k] : 0, y = fits ? others[k] : 0;
    if (is_last)
      y = is_square ? rows[k - 1] : x;
    if (fits && x == y)
      continue;
    fault_set(fault, "these matrices do not fit: %s, %s",
              node_type_text(g, a).text, node_type_text(g, b).text);
    if (!fits || !extent_require(g, EXTENT_EQ, x, y, fault))
      return false;
  }
  return true;
}

/* The number of elements of the outputs for one matrix. */
static bool lapack_output_count(Graph *g, LapackOp op, int64_t n, int64_t m,
                                int64_t *count) {
  int64_t k = extent_min(g, n, m), sum, square;
  switch (op) {
  case LAPACK_GETRF:
    *count = 3;
    return true;
  case LAPACK_GEQRF:
    return extent_add(g, n, m, &sum) && extent_mul(g, sum, k, count);
  case LAPACK_GESDD:
    return extent_add(g, n, m, &sum) && extent_add(g, sum, 1, &sum) &&
           extent_mul(g, sum, k, count);
  case LAPACK_SYEVD:
    return extent_mul(g, n, n, &square) && extent_add(g, square, n, count);
  case LAPACK_GEEV:
    return extent_mul(g, n, n, &square) && extent_mul(g, 4, square, &square) &&
           extent_mul(g, 2, n, &sum) && extent_add(g, square, sum, count);
  case LAPACK_GESV:
  case LAPACK_TRTRS_UPPER:
  case LAPACK_TRTRS_LOWER:
  case LAPACK_POTRF:
  case LAPACK_NONE:
    break;
  }
  return false;
}

static bool lapack_spec(Graph *g, NodeSpec *spec, LapackOp op, uint32_t count,
                        Node *const *inputs, Fault *fault) {
  bool is_square = op != LAPACK_GEQRF && op != LAPACK_GESDD;
  if (!lapack_inputs_fit(g, count, inputs, is_square, fault))
    return false;
  const Node *a = inputs[0];
  const int64_t *axes = node_own_extents(a) + a->rank - 2;
  if (count == 2 || op == LAPACK_POTRF) {
    copy_shape(spec, inputs[count - 1]);
    return true;
  }
  copy_shape(spec, a);
  spec->rank -= 2;
  spec->broadcast_mask &= ((uint32_t)1 << spec->rank) - 1;
  if (!lapack_output_count(g, op, axes[0], axes[1],
                           &spec->own_extents[spec->rank])) {
    fault_set(fault, "the result of %s is too large for any memory",
              node_type_text(g, a).text);
    return false;
  }
  spec->rank++;
  return true;
}

static bool opaque_spec(Graph *g, NodeSpec *spec, PrimId op, uint32_t count,
                        Node *const *inputs, const int64_t params[4],
                        uint32_t output_index, Fault *fault) {
  if (op == PRIM_PERMUTATION && count == 0)
    return permutation_spec(g, spec, params[0], fault);
  if (op == PRIM_SCATTER && count == 3)
    return scatter_spec(g, spec, inputs[0], inputs[1], inputs[2], fault);
  if (op == PRIM_TOPK && count == 1)
    return topk_spec(g, spec, inputs[0], params[0], output_index, fault);
  if ((op == PRIM_SORT || op == PRIM_ARGSORT || op == PRIM_CUMSUM) &&
      count == 1)
    return axis_op_spec(g, spec, op, inputs[0], params[0], fault);
  LapackOp lapack = node_lapack_op(op, params);
  if (lapack && (count == 1 || count == 2))
    return lapack_spec(g, spec, lapack, count, inputs, fault);
  if (((op == PRIM_DFT || op == PRIM_INVERSE_REAL_DFT) && count == 2) ||
      (op == PRIM_REAL_DFT && count == 1))
    return fourier_spec(g, spec, op, count, inputs, params, fault);
  fault_set(fault, "%s is not an operation on %u tensors", prim_info[op].name,
            count);
  return false;
}

static void set_inputs(Graph *g, Node *n, uint32_t count, Node *const *inputs,
                       const NodeSpec *spec) {
  n->inputs = mem_try_alloc(count * sizeof *n->inputs);
  if (!n->inputs) {
    node_release(n);
    trap_raise(FAIL_MEMORY);
  }
  n->input_count = count;
  for (uint32_t k = 0; k < count; k++) {
    n->inputs[k] = node_retain(inputs[k]);
    node_propagate_flags(n, inputs[k]);
  }
  node_set_guard(g, n, spec);
  node_add_pending(g, n);
}

Node *node_opaque(Graph *g, PrimId op, uint32_t count, Node *const *inputs,
                  const int64_t params[4], PrngKey key, uint32_t output_index,
                  Fault *fault) {
  NodeSpec spec = {0};
  if (!opaque_spec(g, &spec, op, count, inputs, params, output_index, fault) ||
      !node_spec_add_free_of(&spec, count, inputs, fault))
    return NULL;
  if (spec.free_count + spec.rank > MAX_RANK) {
    fault_set(fault, "more than %d axes and indices together", MAX_RANK);
    return NULL;
  }
  Node *n = node_alloc(g, NODE_OPAQUE, &spec);
  n->op = op;
  n->key = key;
  n->output_index = output_index;
  memcpy(n->params, params, sizeof n->params);
  set_inputs(g, n, count, inputs, &spec);
  return n;
}

Node *node_recurrence(Graph *g, const FoldLoop *fold_loop, bool is_scan,
                      const Node *carry_shape, uint32_t count,
                      Node *const *inputs, Dtype dtype, Fault *fault) {
  NodeSpec spec = {.dtype = dtype,
                   .rank = carry_shape->rank + is_scan,
                   .broadcast_mask = carry_shape->broadcast_mask << is_scan};
  spec.own_extents[0] = fold_loop->trip_count;
  memcpy(spec.own_extents + is_scan, node_own_extents(carry_shape),
         carry_shape->rank * sizeof spec.own_extents[0]);
  bool fits = node_spec_add_free_of(&spec, count, inputs, fault) &&
              spec.free_count + spec.rank <= MAX_RANK;
  Node *n = fits ? node_try_alloc(g, NODE_OPAQUE, &spec) : NULL;
  if (!n) {
    mem_free(fold_loop->body_ops);
    return NULL;
  }
  n->op = is_scan ? PRIM_SCAN : PRIM_FOLD;
  n->body_ops = fold_loop->body_ops;
  n->body_op_count = fold_loop->body_op_count;
  n->params[0] = fold_loop->trip_count;
  n->params[1] = fold_loop->carry_count;
  n->params[2] = (int64_t)fold_loop->scanned_inputs;
  n->params[3] = fold_loop->output_index;
  set_inputs(g, n, count, inputs, &spec);
  return n;
}
