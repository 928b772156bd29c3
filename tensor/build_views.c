/* Constructors of views: other shapes and orders of the same elements, as index
 * maps. */
#include "tensor/internal.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

static bool check_axis_number(const Graph *g, const Node *x, uint32_t axis,
                              const char *what, Fault *fault) {
  if (axis < x->rank)
    return node_axis_sized(g, x, axis, what, fault);
  fault_set(fault, "%s along axis %u, but %s has %u", what, axis,
            node_type_text(g, x).text, x->rank);
  return false;
}

static void own_axis_indices(BodyBuilder *b, uint32_t count, uint32_t *own) {
  for (uint32_t k = 0; k < count; k++)
    own[k] = body_own_axis(b, k);
}

static void resize_axis(NodeSpec *spec, uint32_t axis, int64_t extent) {
  spec->own_extents[axis] = extent;
  spec->broadcast_mask &= ~((uint32_t)1 << axis);
}

/* ---- reshape ---- */

/* Saturates on overflow. */
static int64_t shape_product(Graph *g, uint32_t count, const int64_t *extents) {
  int64_t product;
  return extent_product(g, count, extents, &product) ? product : INT64_MAX;
}

/* Solves for the extent of the axis -1. */
static bool infer_axis(Graph *g, const Node *x, int64_t count, int64_t known,
                       int64_t *out, Fault *fault) {
  int64_t remainder = 0;
  bool fits_i64 = extent_holds_trivially(g, EXTENT_LE, 1, known) &&
                  extent_floor_mod(g, count, known, &remainder);
  if (!fits_i64 || remainder) {
    fault_set(fault, "reshape: %s elements of %s are not a multiple of %s",
              extent_text(g, count).text, node_type_text(g, x).text,
              extent_text(g, known).text);
    Fault saved = *fault;
    if (!extent_require(g, EXTENT_LE, 1, known, fault))
      return false;
    *fault = saved;
    if (!extent_floor_mod(g, count, known, &remainder) ||
        !extent_require(g, EXTENT_EQ, remainder, 0, fault))
      return false;
  }
  return extent_floor_div(g, count, known, out);
}

static bool infer_shape(Graph *g, const Node *x, uint32_t rank, int64_t *shape,
                        uint32_t broadcast_mask, Fault *fault) {
  int64_t count, known;
  uint32_t inferred_axis = UINT32_MAX;
  for (uint32_t k = 0; k < rank; k++) {
    if (extent_is_static(g, shape[k]) && shape[k] >= 0)
      continue;
    if (shape[k] == -1 && inferred_axis == UINT32_MAX) {
      inferred_axis = k;
      continue;
    }
    fault_set(fault, "reshape to %s: a size is negative",
              tensor_type_text(g, x->dtype, rank, shape, broadcast_mask).text);
    if (!extent_require(g, EXTENT_LE, 0, shape[k], fault))
      return false;
  }
  if (inferred_axis < rank)
    shape[inferred_axis] = 1;
  count = shape_product(g, x->rank, node_own_extents(x));
  known = shape_product(g, rank, shape);
  if (inferred_axis < rank)
    return infer_axis(g, x, count, known, &shape[inferred_axis], fault);
  if (known == count)
    return true;
  fault_set(fault, "reshape from %s to %s: %s elements are not %s",
            node_type_text(g, x).text,
            tensor_type_text(g, x->dtype, rank, shape, broadcast_mask).text,
            extent_text(g, count).text, extent_text(g, known).text);
  return extent_require(g, EXTENT_EQ, known, count, fault);
}

/* Axes in[i0..i1) of x and out[j0..j1) of the result hold the same elements.
 * Computes the linear index from the result axes, and from it the index of each
 * axis of x. */
static void reshape_group(BodyBuilder *b, const int64_t *in, uint32_t i0,
                          uint32_t i1, const int64_t *out, uint32_t j0,
                          uint32_t j1, uint32_t *own) {
  uint32_t linear_index = UINT32_MAX;
  int64_t stride = 1;
  for (uint32_t j = j1; j-- > j0;) {
    if (out[j] == 1)
      continue;
    uint32_t part = body_mul_int(b, body_own_axis(b, j), stride);
    linear_index = linear_index == UINT32_MAX
                       ? part
                       : body_op2(b, PRIM_ADD, DT_I64, part, linear_index);
    extent_mul(b->graph, stride, out[j], &stride);
  }
  stride = 1;
  for (uint32_t i = i1; i-- > i0;) {
    if (in[i] == 1 || linear_index == UINT32_MAX) {
      own[i] = body_int(b, 0);
      continue;
    }
    own[i] = body_floor_div_int(b, linear_index, stride);
    bool first = true; /* true if this is the outermost axis of the group */
    for (uint32_t k = i0; k < i; k++)
      first &= in[k] == 1;
    if (!first)
      own[i] = body_floor_mod_int(b, own[i], in[i]);
    extent_mul(b->graph, stride, in[i], &stride);
  }
}

/* Finds the next group: as few axes as possible that hold the same elements.
 * Symbolic sizes are compared by their products only. */
static void next_reshape_group(Graph *g, const Node *x, const NodeSpec *spec,
                               uint32_t *i, uint32_t *j) {
  uint32_t max_steps = x->rank - *i + spec->rank - *j;
  for (uint32_t steps = 1; steps < max_steps; steps++)
    for (uint32_t k = 0; k <= steps; k++) {
      uint32_t to_i = *i + k, to_j = *j + steps - k;
      if (to_i <= x->rank && to_j <= spec->rank &&
          shape_product(g, k, node_own_extents(x) + *i) ==
              shape_product(g, steps - k, spec->own_extents + *j)) {
        *i = to_i;
        *j = to_j;
        return;
      }
    }
  *i = x->rank;
  *j = spec->rank;
}

static void reshape_symbolic(BodyBuilder *b, const Node *x,
                             const NodeSpec *spec, uint32_t *own) {
  uint32_t i = 0, j = 0;
  while (i < x->rank || j < spec->rank) {
    uint32_t i0 = i, j0 = j;
    next_reshape_group(b->graph, x, spec, &i, &j);
    reshape_group(b, node_own_extents(x), i0, i, spec->own_extents, j0, j, own);
  }
}

static void reshape_axes(BodyBuilder *b, const Node *x, const NodeSpec *spec,
                         uint32_t *own) {
  const int64_t *in = node_own_extents(x), *out = spec->own_extents;
  uint32_t i = 0, j = 0;
  while (i < x->rank || j < spec->rank) {
    uint32_t i0 = i, j0 = j;
    int64_t pi = i < x->rank ? in[i++] : 1;
    int64_t pj = j < spec->rank ? out[j++] : 1;
    while (pi != pj)
      if (pi < pj)
        pi *= in[i++];
      else
        pj *= out[j++];
    reshape_group(b, in, i0, i, out, j0, j, own);
  }
}

Node *node_reshape(Graph *g, Node *x, uint32_t rank, const int64_t *shape,
                   uint32_t broadcast_mask, Fault *fault) {
  if (rank > MAX_RANK) {
    fault_set(fault, "more than %d axes", MAX_RANK);
    return NULL;
  }
  NodeSpec spec = node_spec_like(x);
  spec.rank = rank;
  spec.broadcast_mask = broadcast_mask;
  memcpy(spec.own_extents, shape, rank * sizeof *shape);
  if (!infer_shape(g, x, rank, spec.own_extents, broadcast_mask, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  if (shape_product(g, rank, spec.own_extents) == 0)
    for (uint32_t k = 0; k < x->rank; k++)
      own[k] = body_int(&b, 0);
  else if (g->extent_table)
    reshape_symbolic(&b, x, &spec, own);
  else
    reshape_axes(&b, x, &spec, own);
  return body_finish_read(&b, g, x, own, fault);
}

/* ---- other shapes ---- */

Node *node_permute(Graph *g, Node *x, const uint32_t *order, Fault *fault) {
  NodeSpec spec = node_spec_like(x);
  uint32_t seen = 0;
  spec.broadcast_mask = 0;
  for (uint32_t k = 0; k < x->rank; k++) {
    if (order[k] >= x->rank || (seen >> order[k] & 1)) {
      fault_set(fault, "permute needs each of the %u axes of %s exactly once",
                x->rank, node_type_text(g, x).text);
      return NULL;
    }
    seen |= (uint32_t)1 << order[k];
    spec.own_extents[k] = node_own_extents(x)[order[k]];
    spec.broadcast_mask |= (uint32_t)node_is_broadcast_axis(x, order[k]) << k;
  }
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    own[order[k]] = body_own_axis(&b, k);
  return body_finish_read(&b, g, x, own, fault);
}

static bool check_broadcast(Graph *g, const Node *x, uint32_t rank,
                            const int64_t *shape, uint32_t broadcast_mask,
                            Fault *fault) {
  bool fits = rank >= x->rank;
  for (uint32_t at = 0; fits && at < rank; at++) {
    uint32_t k = at - (rank - x->rank);
    bool there = at >= rank - x->rank && !node_is_broadcast_axis(x, k);
    int64_t own = there ? node_own_extents(x)[k] : 0;
    ExtentRelation relation = there ? EXTENT_EQ : EXTENT_LE;
    if (extent_holds_trivially(g, relation, own, shape[at]) &&
        !(there && broadcast_mask >> at & 1))
      continue;
    fits = !(there && broadcast_mask >> at & 1);
    fault_set(fault, "%s does not broadcast to %s", node_type_text(g, x).text,
              tensor_type_text(g, x->dtype, rank, shape, broadcast_mask).text);
    if (!fits || !extent_require(g, relation, own, shape[at], fault))
      return false;
  }
  if (!fits)
    fault_set(fault, "%s does not broadcast to %s", node_type_text(g, x).text,
              tensor_type_text(g, x->dtype, rank, shape, broadcast_mask).text);
  return fits;
}

Node *node_broadcast(Graph *g, Node *x, uint32_t rank, const int64_t *shape,
                     uint32_t broadcast_mask, Fault *fault) {
  if (rank > MAX_RANK) {
    fault_set(fault, "more than %d axes", MAX_RANK);
    return NULL;
  }
  if (!check_broadcast(g, x, rank, shape, broadcast_mask, fault))
    return NULL;
  NodeSpec spec = node_spec_like(x);
  spec.rank = rank;
  spec.broadcast_mask = broadcast_mask;
  memcpy(spec.own_extents, shape, rank * sizeof *shape);
  BodyBuilder b;
  body_init(&b, g, &spec);
  body_read_broadcast(&b, x, rank - x->rank);
  return body_finish(&b, g, fault);
}

Node *node_squeeze(Graph *g, Node *x, uint32_t first, uint32_t count,
                   Fault *fault) {
  if (first > x->rank || count > x->rank - first) {
    fault_set(fault, "cannot squeeze axes %u to %u: %s has %u", first,
              first + count - 1, node_type_text(g, x).text, x->rank);
    return NULL;
  }
  for (uint32_t k = first; k < first + count; k++)
    if (node_own_extents(x)[k] != 1) {
      fault_set(fault,
                "squeeze removes axes of size 1, but axis %u of %s has "
                "%s",
                k, node_type_text(g, x).text,
                extent_text(g, node_own_extents(x)[k]).text);
      if (!extent_require(g, EXTENT_EQ, node_own_extents(x)[k], 1, fault))
        return NULL;
    }
  NodeSpec spec = node_spec_like(x);
  spec.rank = 0;
  spec.broadcast_mask = 0;
  for (uint32_t k = 0; k < x->rank; k++) {
    if (k >= first && k < first + count)
      continue;
    spec.broadcast_mask |= (uint32_t)node_is_broadcast_axis(x, k) << spec.rank;
    spec.own_extents[spec.rank++] = node_own_extents(x)[k];
  }
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    if (k >= first && k < first + count)
      own[k] = body_int(&b, 0);
    else
      own[k] = body_own_axis(&b, k < first ? k : k - count);
  return body_finish_read(&b, g, x, own, fault);
}

/* ---- along one axis ---- */

Node *node_reverse(Graph *g, Node *x, uint32_t axis, Fault *fault) {
  if (!check_axis_number(g, x, axis, "reverse", fault))
    return NULL;
  NodeSpec spec = node_spec_like(x);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  own_axis_indices(&b, x->rank, own);
  uint32_t max_steps =
      body_int(&b, extent_sub_saturating(g, spec.own_extents[axis], 1));
  own[axis] = body_op2(&b, PRIM_SUB, DT_I64, max_steps, own[axis]);
  return body_finish_read(&b, g, x, own, fault);
}

Node *node_roll(Graph *g, Node *x, uint32_t axis, int64_t by, Fault *fault) {
  if (!check_axis_number(g, x, axis, "roll", fault))
    return NULL;
  NodeSpec spec = node_spec_like(x);
  int64_t n = spec.own_extents[axis];
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  own_axis_indices(&b, x->rank, own);
  if (!extent_is_static(g, n) || !extent_is_static(g, by)) {
    own[axis] = body_add_int(&b, own[axis], extent_sub_saturating(g, 0, by));
    own[axis] = body_floor_mod_int(&b, own[axis], n);
  } else if (n > 1 && int_floor_mod(by, n) != 0) {
    own[axis] = body_add_int(&b, own[axis], n - int_floor_mod(by, n));
    own[axis] = body_floor_mod_int(&b, own[axis], n);
  }
  return body_finish_read(&b, g, x, own, fault);
}

Node *node_tile(Graph *g, Node *x, uint32_t axis, int64_t repeats,
                bool repeat_elements, Fault *fault) {
  if (!check_axis_number(g, x, axis, repeat_elements ? "repeat" : "tile",
                         fault))
    return NULL;
  NodeSpec spec = node_spec_like(x);
  int64_t n = spec.own_extents[axis], size;
  bool fits_i64 = extent_mul(g, n, repeats, &size);
  if (!fits_i64 || !extent_holds_trivially(g, EXTENT_LE, 0, repeats)) {
    fault_set(fault, "%s %s times of axis %u of %s",
              repeat_elements ? "repeat" : "tile", extent_text(g, repeats).text,
              axis, node_type_text(g, x).text);
    if (!fits_i64 || !extent_require(g, EXTENT_LE, 0, repeats, fault))
      return NULL;
  }
  resize_axis(&spec, axis, size);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  own_axis_indices(&b, x->rank, own);
  if (size == 0)
    own[axis] = body_int(&b, 0);
  else
    own[axis] = repeat_elements ? body_floor_div_int(&b, own[axis], repeats)
                                : body_floor_mod_int(&b, own[axis], n);
  return body_finish_read(&b, g, x, own, fault);
}

static bool check_pad(Graph *g, const Node *x, int64_t before, int64_t after,
                      Dtype value, bool fits, Fault *fault) {
  if (fits && extent_holds_trivially(g, EXTENT_LE, 0, before) &&
      extent_holds_trivially(g, EXTENT_LE, 0, after))
    return true;
  fault_set(fault, "pad of %s by %s before and %s after with %s",
            node_type_text(g, x).text, extent_text(g, before).text,
            extent_text(g, after).text, dtype_info[value].name);
  fault_set_help(fault, "both numbers must be at least 0");
  Fault saved = *fault;
  if (!fits || !extent_require(g, EXTENT_LE, 0, before, fault))
    return false;
  *fault = saved;
  return extent_require(g, EXTENT_LE, 0, after, fault);
}

Node *node_pad(Graph *g, Node *x, uint32_t axis, int64_t before, int64_t after,
               Scalar value, Fault *fault) {
  if (!check_axis_number(g, x, axis, "pad", fault))
    return NULL;
  NodeSpec spec = node_spec_like(x);
  int64_t n = spec.own_extents[axis], end, size;
  bool fits = value.dtype == x->dtype && extent_add(g, n, before, &end) &&
              extent_add(g, end, after, &size);
  if (!check_pad(g, x, before, after, value.dtype, fits, fault))
    return NULL;
  if (before == 0 && after == 0)
    return node_retain(x);
  resize_axis(&spec, axis, size);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  own_axis_indices(&b, x->rank, own);
  uint32_t at = own[axis];
  uint32_t low = body_op2(&b, PRIM_GE, DT_BOOL, at, body_int(&b, before));
  uint32_t high = body_op2(&b, PRIM_LT, DT_BOOL, at, body_int(&b, end));
  uint32_t inside = body_op2(&b, PRIM_AND, DT_BOOL, low, high);
  own[axis] = body_add_int(&b, at, extent_sub_saturating(g, 0, before));
  uint32_t element = body_read(&b, x, own);
  body_select(&b, inside, element, body_const(&b, value));
  return body_finish(&b, g, fault);
}

Node *node_triangle(Graph *g, Node *x, bool lower, Fault *fault) {
  if (x->rank < 2) {
    fault_set(fault, "%s needs a matrix; found %s", lower ? "tril" : "triu",
              node_type_text(g, x).text);
    return NULL;
  }
  NodeSpec spec = node_spec_like(x);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  own_axis_indices(&b, x->rank, own);
  uint32_t row = own[x->rank - 2], column = own[x->rank - 1];
  uint32_t kept = body_op2(&b, lower ? PRIM_LE : PRIM_GE, DT_BOOL, column, row);
  uint32_t element = body_read(&b, x, own);
  body_select(&b, kept, element, body_const(&b, (Scalar){.dtype = x->dtype}));
  return body_finish(&b, g, fault);
}

/* ---- concatenation and stacking ---- */

/* Returns the piece of pieces[low..high) that contains index `at`; piece k ends
 * before ends[k].  Emits a tree of selects, so that many pieces stay fast. */
static uint32_t select_piece(BodyBuilder *b, uint32_t at,
                             const uint32_t *pieces, const int64_t *ends,
                             uint32_t low, uint32_t high) {
  if (high - low == 1)
    return pieces[low];
  uint32_t middle = low + (high - low) / 2;
  uint32_t x = select_piece(b, at, pieces, ends, low, middle);
  uint32_t y = select_piece(b, at, pieces, ends, middle, high);
  uint32_t before =
      body_op2(b, PRIM_LT, DT_BOOL, at, body_int(b, ends[middle - 1]));
  return body_select(b, before, x, y);
}

static bool pieces_same_extent(Graph *g, const char *what, const Node *x,
                               const Node *y, uint32_t axis, Fault *fault) {
  fault_set(fault, "%s of different shapes: %s and %s", what,
            node_type_text(g, x).text, node_type_text(g, y).text);
  return extent_require(g, EXTENT_EQ, node_own_extents(x)[axis],
                        node_own_extents(y)[axis], fault);
}

static bool check_pieces(Graph *g, uint32_t axis, uint32_t count,
                         Node *const *xs, bool stacking, Fault *fault) {
  const char *what = stacking ? "stack" : "concat";
  if (count == 0) {
    fault_set(fault, "%s needs at least one tensor", what);
    return false;
  }
  const Node *x = xs[0];
  for (uint32_t k = 0; k < count; k++) {
    const Node *y = xs[k];
    bool same = y->rank == x->rank && y->dtype == x->dtype;
    for (uint32_t j = 0; same && j < x->rank; j++)
      same = j == axis || node_own_extents(x)[j] == node_own_extents(y)[j] ||
             pieces_same_extent(g, what, x, y, j, fault);
    if (!same) {
      fault_set(fault, "%s of different shapes: %s and %s", what,
                node_type_text(g, x).text, node_type_text(g, y).text);
      return false;
    }
  }
  return stacking || check_axis_number(g, x, axis, what, fault);
}

static uint32_t common_broadcast_mask(uint32_t count, Node *const *xs) {
  uint32_t broadcast_mask = UINT32_MAX;
  for (uint32_t k = 0; k < count; k++)
    broadcast_mask &= xs[k]->broadcast_mask;
  return broadcast_mask;
}

/* Scratch memory for `count` pieces.  It is freed on a raise or fault. */
typedef struct ConcatPieces {
  uint32_t *reads;
  int64_t *ends;
} ConcatPieces;

static ConcatPieces pieces_new(uint32_t count) {
  ConcatPieces p;
  p.ends = mem_alloc(count * (sizeof *p.ends + sizeof *p.reads));
  p.reads = (uint32_t *)(p.ends + count);
  return p;
}

static void concat_body(BodyBuilder *b, uint32_t axis, uint32_t count,
                        Node *const *xs, ConcatPieces p) {
  uint32_t own[MAX_RANK];
  own_axis_indices(b, xs[0]->rank, own);
  uint32_t at = own[axis];
  for (uint32_t k = 0; k < count; k++) {
    own[axis] = body_add_int(
        b, at, k ? extent_sub_saturating(b->graph, 0, p.ends[k - 1]) : 0);
    p.reads[k] = body_read(b, xs[k], own);
  }
  select_piece(b, at, p.reads, p.ends, 0, count);
}

Node *node_concat(Graph *g, uint32_t axis, uint32_t count, Node *const *xs,
                  Fault *fault) {
  if (!check_pieces(g, axis, count, xs, false, fault))
    return NULL;
  if (count == 1)
    return node_retain(xs[0]);
  NodeSpec spec = node_spec_like(xs[0]);
  spec.broadcast_mask &= common_broadcast_mask(count, xs);
  resize_axis(&spec, axis, 0);
  if (!node_spec_add_free_of(&spec, count, xs, fault))
    return NULL;
  ConcatPieces p = pieces_new(count);
  int64_t size = 0;
  for (uint32_t k = 0; k < count; k++) {
    if (!extent_add(g, size, node_own_extents(xs[k])[axis], &size))
      size = INT64_MAX; /* too large: materialization will fail */
    p.ends[k] = size;
  }
  spec.own_extents[axis] = size;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    mem_free(p.ends);
    trap_raise(trap.kind);
  }
  BodyBuilder b;
  body_init(&b, g, &spec);
  concat_body(&b, axis, count, xs, p);
  Node *n = body_finish(&b, g, fault);
  trap_end(&trap);
  mem_free(p.ends);
  return n;
}

/* Known scalars become data immediately: [1, 2, 3]. */
static Node *stack_constants(Graph *g, uint32_t count, Node *const *xs,
                             Fault *fault) {
  Scalar x;
  for (uint32_t k = 0; k < count; k++)
    if (!node_known(xs[k], &x))
      return NULL;
  int64_t shape = count;
  Tensor *t = tensor_new(xs[0]->dtype, 1, &shape, false, fault);
  if (!t)
    return NULL;
  for (uint32_t k = 0; k < count; k++)
    if (node_known(xs[k], &x))
      scalar_store(x, tensor_at(t, k));
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    tensor_release(t);
    trap_raise(trap.kind);
  }
  Node *n = node_data(g, t);
  trap_end(&trap);
  tensor_release(t);
  return n;
}

Node *node_stack(Graph *g, uint32_t count, Node *const *xs, Fault *fault) {
  if (!check_pieces(g, UINT32_MAX, count, xs, true, fault))
    return NULL;
  Node *known = xs[0]->rank ? NULL : stack_constants(g, count, xs, fault);
  if (known)
    return known;
  NodeSpec spec = {.dtype = xs[0]->dtype, .rank = xs[0]->rank + 1};
  if (spec.rank > MAX_RANK) {
    fault_set(fault, "more than %d axes", MAX_RANK);
    return NULL;
  }
  spec.broadcast_mask = common_broadcast_mask(count, xs) << 1;
  spec.own_extents[0] = count;
  memcpy(spec.own_extents + 1, node_own_extents(xs[0]),
         xs[0]->rank * sizeof spec.own_extents[0]);
  if (!node_spec_add_free_of(&spec, count, xs, fault))
    return NULL;
  ConcatPieces p = pieces_new(count);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    mem_free(p.ends);
    trap_raise(trap.kind);
  }
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  own_axis_indices(&b, spec.rank, own);
  for (uint32_t k = 0; k < count; k++) {
    p.ends[k] = k + 1;
    p.reads[k] = body_read(&b, xs[k], own + 1);
  }
  select_piece(&b, own[0], p.reads, p.ends, 0, count);
  Node *n = body_finish(&b, g, fault);
  trap_end(&trap);
  mem_free(p.ends);
  return n;
}

/* ---- broadcasting to a shape ---- */

bool node_has_shape(const Node *x, const NodeShape *s) {
  bool same = x->free_count == s->free_count && x->rank == s->rank;
  for (uint32_t k = 0; same && k < s->free_count; k++)
    same = x->free_vars[k] == s->free_vars[k];
  return same && (!s->rank || memcmp(x->extents + x->free_count, s->own_extents,
                                     s->rank * sizeof *s->own_extents) == 0);
}

Node *node_broadcast_to_shape(Graph *g, Node *x, const NodeShape *s,
                              Fault *fault) {
  NodeSpec spec = {.dtype = x->dtype, .broadcast_mask = s->broadcast_mask};
  spec.free_count = s->free_count;
  spec.rank = s->rank;
  uint32_t own[MAX_RANK];
  if (s->free_count)
    memcpy(spec.free_vars, s->free_vars, s->free_count * sizeof *s->free_vars);
  if (s->rank)
    memcpy(spec.own_extents, s->own_extents, s->rank * sizeof *s->own_extents);
  BodyBuilder b;
  body_init(&b, g, &spec);
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] =
        x->broadcast_mask >> k & 1 ? body_int(&b, 0) : body_own_axis(&b, k);
  body_read(&b, x, own);
  return body_finish(&b, g, fault);
}
