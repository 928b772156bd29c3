/* Constructors of nodes that compute: pointwise operations, reductions,
 * selects, the end of a `for`, and tensors made from sizes. */
#include "tensor/internal.h"
#include "support/trap.h"

#include <stdatomic.h>
#include <string.h>

/* ---- scalars ---- */

Node *node_scalar(Graph *g, Scalar x) {
  NodeSpec spec;
  BodyBuilder b;
  node_spec_init(&spec, x.dtype);
  body_init(&b, g, &spec);
  body_const(&b, x);
  return body_finish(&b, g, NULL);
}

Node *constant_operand(ConstantOperand *at, Scalar x) {
  *at = (ConstantOperand){
      .node = {.kind = NODE_COMP,
               .dtype = x.dtype,
               .extents = at->extents,
               .free_vars = at->free_vars,
               .body_ops = &at->op,
               .body_op_count = 1,
               .speculatable = true},
      .op = {.kind = BODY_CONST, .dtype = x.dtype, .value = x}};
  return &at->node;
}

Node *node_index(Graph *g, IndexVar *v) {
  NodeSpec spec;
  BodyBuilder b;
  node_spec_init(&spec, DT_I64);
  node_spec_add_free(&spec, v);
  body_init(&b, g, &spec);
  body_free_axis(&b, 0);
  return body_finish(&b, g, NULL);
}

/* ---- broadcasting ---- */

/* Broadcasts the node spec with the axes of x, aligned at the right.  by[k] is
 * the node that determined own axis k. */
static bool broadcast_axes(Graph *g, NodeSpec *spec,
                           const Node *extent_source[MAX_RANK], const Node *x,
                           Fault *fault) {
  uint32_t axis_offset = spec->rank - x->rank;
  const int64_t *own = node_own_extents(x);
  for (uint32_t k = 0; k < x->rank; k++) {
    uint32_t at = axis_offset + k;
    bool is_broadcast = spec->broadcast_mask >> at & 1;
    if (!extent_source[at] || (is_broadcast && !node_is_broadcast_axis(x, k))) {
      extent_source[at] = x;
      spec->own_extents[at] = own[k];
      spec->broadcast_mask &= ~(uint32_t)(1u << at);
      spec->broadcast_mask |= (uint32_t)node_is_broadcast_axis(x, k) << at;
    } else if (!node_is_broadcast_axis(x, k) &&
               own[k] != spec->own_extents[at]) {
      fault_set(fault, "shapes %s and %s do not broadcast: %s and %s differ",
                node_type_text(g, extent_source[at]).text,
                node_type_text(g, x).text,
                extent_text(g, spec->own_extents[at]).text,
                extent_text(g, own[k]).text);
      fault->kind = FAULT_BROADCAST;
      if (own[k] == 1 || spec->own_extents[at] == 1)
        fault_set_help(fault, "an axis of size 1 does not broadcast: write * "
                              "for that axis, as in x.[:, *]");
      if (!extent_require(g, EXTENT_EQ, spec->own_extents[at], own[k], fault))
        return false;
    }
  }
  return true;
}

static bool broadcast_spec(Graph *g, NodeSpec *spec, uint32_t count,
                           Node *const *args, Fault *fault) {
  const Node *extent_source[MAX_RANK];
  for (uint32_t k = 0; k < count; k++)
    if (args[k]->rank > spec->rank)
      spec->rank = args[k]->rank;
  for (uint32_t k = 0; k < spec->rank; k++)
    extent_source[k] = NULL;
  for (uint32_t k = 0; k < count; k++)
    if (!broadcast_axes(g, spec, extent_source, args[k], fault))
      return false;
  return node_spec_add_free_of(spec, count, args, fault);
}

/* ---- pointwise ---- */

/* The scheme of an operation: the class of the element types of its arguments,
 * and above it their type and that of the result, if the scheme names them. */
enum {
  SCHEME_PARSED = 1,
  SCHEME_FLOATS = 2,
  SCHEME_NUMBERS = 4,
  SCHEME_INTEGERS = 8,
  SCHEME_ARGUMENT_SHIFT = 8,
  SCHEME_RESULT_SHIFT = 16,
  SCHEME_DTYPE_MASK = 255
};

/* The element type that starts a type; DT_NONE: it is a variable. */
static uint32_t leading_dtype(const char *type) {
  size_t length = strcspn(type, "[");
  for (Dtype t = DT_BOOL; t < DT_COUNT; t++)
    if (strlen(dtype_info[t].name) == length &&
        memcmp(type, dtype_info[t].name, length) == 0)
      return t;
  return DT_NONE;
}

static uint32_t parse_scheme(const char *scheme) {
  const char *result = scheme;
  for (const char *at = scheme; (at = strstr(at, "-> "));)
    result = at += strlen("-> ");
  return SCHEME_PARSED | (strstr(scheme, "'a : float") ? SCHEME_FLOATS : 0) |
         (strstr(scheme, "'a : num") ? SCHEME_NUMBERS : 0) |
         (strstr(scheme, "'a : int") ? SCHEME_INTEGERS : 0) |
         leading_dtype(scheme) << SCHEME_ARGUMENT_SHIFT |
         leading_dtype(result) << SCHEME_RESULT_SHIFT;
}

static uint32_t scheme_bits(PrimId op) {
  static _Atomic uint32_t known[PRIM_COUNT];
  uint32_t bits = atomic_load_explicit(&known[op], memory_order_relaxed);
  if (!bits) {
    bits = parse_scheme(prim_info[op].scheme);
    atomic_store_explicit(&known[op], bits, memory_order_relaxed);
  }
  return bits;
}

static Dtype scheme_dtype(PrimId op, uint32_t shift) {
  return (Dtype)(scheme_bits(op) >> shift & SCHEME_DTYPE_MASK);
}

Dtype prim_result_dtype(PrimId op, Dtype of) {
  Dtype named = scheme_dtype(op, SCHEME_RESULT_SHIFT);
  return named ? named : of;
}

/* True if the scheme of the row admits the element type. */
static bool dtype_fits_scheme(PrimId op, Dtype t) {
  uint32_t bits = scheme_bits(op);
  Dtype named = scheme_dtype(op, SCHEME_ARGUMENT_SHIFT);
  if (named)
    return t == named;
  if (bits & SCHEME_FLOATS)
    return dtype_is_float(t);
  if (bits & SCHEME_INTEGERS)
    return dtype_is_int(t);
  return t != DT_BOOL || !(bits & SCHEME_NUMBERS);
}

static bool check_map_types(PrimId op, uint32_t count, Node *const *args,
                            Fault *fault) {
  const char *name = prim_info[op].name;
  if (prim_info[op].class != PC_MAP || count == 0 || count > 3) {
    fault_set(fault, "%s is not an elementwise operation", name);
    return false;
  }
  uint32_t first = op == PRIM_SELECT;
  if (first && (count != 3 || args[0]->dtype != DT_BOOL)) {
    fault_set(fault, "the condition of select must be bool, not %s",
              dtype_info[args[0]->dtype].name);
    return false;
  }
  Dtype t = args[first]->dtype;
  for (uint32_t k = first; k < count; k++)
    if (args[k]->dtype != t) {
      fault_set(fault, "element types differ: %s and %s", dtype_info[t].name,
                dtype_info[args[k]->dtype].name);
      return false;
    }
  if (op == PRIM_SELECT || op == PRIM_CONVERT || dtype_fits_scheme(op, t))
    return true;
  fault_set(fault, "%s does not take elements of type %s", name,
            dtype_info[t].name);
  return false;
}

typedef enum FoldStatus { FOLD_NONE, FOLD_DONE, FOLD_FAULT } FoldStatus;

/* If the operands are sizes, the result is a size, or a comparison that is
 * decided. */
static Node *fold_extent_op(Graph *g, Node *made) {
  int64_t extent;
  ExtentConstraint constraint;
  Node *known = NULL;
  if (made->rank || made->free_count)
    return made;
  for (uint32_t k = 0; k < made->body_op_count; k++)
    if (made->body_ops[k].kind == BODY_READ)
      return made;
  if (made->dtype == DT_I64 && node_to_extent(g, made, &extent))
    known = node_extent_scalar(g, extent);
  else if (made->dtype == DT_BOOL && node_to_constraint(g, made, &constraint)) {
    Verdict v =
        extent_decide(g, constraint.relation, constraint.x, constraint.y);
    if (v != UNDECIDED)
      known = node_scalar(g, (Scalar){DT_BOOL, {.i = v == ENTAILED}});
  }
  if (!known)
    return made;
  node_release(made);
  return known;
}

static FoldStatus fold_constants(Graph *g, PrimId op, uint32_t count,
                                 Node *const *args, Dtype result, Scalar *value,
                                 Fault *fault) {
  Scalar x[3];
  for (uint32_t k = 0; k < count; k++)
    if (!node_known(args[k], &x[k]))
      return FOLD_NONE;
  ArithStatus status = scalar_apply(op, count, x, result, value);
  if (status == ARITH_OK)
    return FOLD_DONE;
  if (g->guard) /* this code may never run */
    return FOLD_NONE;
  fault_set_kind(fault, FAULT_ARITHMETIC, arith_message(status));
  return FOLD_FAULT;
}

Node *node_map(Graph *g, PrimId op, uint32_t count, Node *const *args,
               Dtype result, Fault *fault) {
  if (!check_map_types(op, count, args, fault))
    return NULL;
  if (op != PRIM_CONVERT)
    result = prim_result_dtype(op, args[op == PRIM_SELECT]->dtype);
  else if (args[0]->dtype == result)
    return node_retain(args[0]);
  Scalar value;
  FoldStatus folded = fold_constants(g, op, count, args, result, &value, fault);
  if (folded == FOLD_DONE)
    return node_scalar(g, value);
  NodeSpec spec;
  node_spec_init(&spec, result);
  if (folded == FOLD_FAULT || !broadcast_spec(g, &spec, count, args, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t operands[3];
  for (uint32_t k = 0; k < count; k++)
    operands[k] = body_read_broadcast(&b, args[k], spec.rank - args[k]->rank);
  if (op == PRIM_CONVERT)
    body_convert(&b, operands[0], result);
  else
    body_op(&b, op, result, count, operands);
  Node *made = body_finish(&b, g, fault);
  return made && g->extent_table ? fold_extent_op(g, made) : made;
}

/* ---- selects ---- */

static bool branches_same_shape(Graph *g, const Node *a, const Node *b,
                                Fault *fault) {
  bool same = a->rank == b->rank;
  for (uint32_t k = 0; k == 0 || (same && k < a->rank); k++) {
    if (same && (!a->rank || node_own_extents(a)[k] == node_own_extents(b)[k]))
      continue;
    fault_set(fault, "the branches of `if` have different shapes: %s and %s",
              node_type_text(g, a).text, node_type_text(g, b).text);
    same = same && extent_require(g, EXTENT_EQ, node_own_extents(a)[k],
                                  node_own_extents(b)[k], fault);
  }
  return same;
}

Node *node_select_lazy(Graph *g, Node *c, Node *a, Node *b, Fault *fault) {
  Scalar known;
  if (c->dtype != DT_BOOL || c->rank || a->dtype != b->dtype) {
    fault_set(fault,
              "`if` needs a bool and two values of one type; found %s, %s, %s",
              node_type_text(g, c).text, node_type_text(g, a).text,
              node_type_text(g, b).text);
    return NULL;
  }
  if (!branches_same_shape(g, a, b, fault))
    return NULL;
  if (node_known(c, &known))
    return node_retain(known.i ? a : b);
  NodeSpec spec = {.dtype = a->dtype,
                   .rank = a->rank,
                   .broadcast_mask = a->broadcast_mask & b->broadcast_mask};
  memcpy(spec.own_extents, node_own_extents(a),
         a->rank * sizeof spec.own_extents[0]);
  if (!node_spec_add_free_of(&spec, 3, (Node *[]){c, a, b}, fault))
    return NULL;
  BodyBuilder body;
  body_init(&body, g, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < spec.rank; k++)
    own[k] = body_own_axis(&body, k);
  uint32_t test = body_read(&body, c, own), x = body_read(&body, a, own);
  uint32_t y = body_read(&body, b, own);
  body_select(&body, test, x, y);
  return body_finish(&body, g, fault);
}

/* ---- reductions ---- */

static bool check_reduce(Graph *g, PrimId op, const Node *x, uint32_t first,
                         uint32_t count, Fault *fault) {
  const char *name = prim_info[op].name;
  if (prim_info[op].class != PC_REDUCE || !dtype_fits_scheme(op, x->dtype)) {
    fault_set(fault, "%s does not take elements of type %s", name,
              dtype_info[x->dtype].name);
    return false;
  }
  if (first > x->rank || count > x->rank - first) {
    fault_set(fault, "%s over axes %u to %u, but %s has %u", name, first,
              first + count - 1, node_type_text(g, x).text, x->rank);
    return false;
  }
  bool arg = prim_is_arg_reduction(op);
  for (uint32_t k = first; arg && k < first + count; k++) {
    if (!node_axis_sized(g, x, k, name, fault))
      return false;
    if (extent_is_static(g, node_own_extents(x)[k]) &&
        node_own_extents(x)[k] > 0)
      continue;
    fault_set(fault, "%s of an empty axis of %s", name,
              node_type_text(g, x).text);
    if (!extent_require(g, EXTENT_LE, 1, node_own_extents(x)[k], fault))
      return false;
  }
  return true;
}

static void reduce_spec(NodeSpec *spec, const Node *x, uint32_t first,
                        uint32_t count, bool keepdims) {
  const int64_t *own = node_own_extents(x);
  for (uint32_t k = 0; k < x->rank; k++) {
    bool is_reduced = k >= first && k < first + count;
    if (is_reduced)
      spec->reduced_extents[spec->reduce_count++] = own[k];
    if (is_reduced && !keepdims)
      continue;
    spec->broadcast_mask |=
        (uint32_t)(is_reduced || node_is_broadcast_axis(x, k)) << spec->rank;
    spec->own_extents[spec->rank++] = is_reduced ? 1 : own[k];
  }
}

static Node *reduce_node(Graph *g, const NodeSpec *spec, Node *x,
                         uint32_t first, uint32_t count, bool keepdims,
                         Fault *fault) {
  BodyBuilder b;
  body_init(&b, g, spec);
  uint32_t own[MAX_RANK], kept_axes = keepdims ? count : 0;
  for (uint32_t k = 0; k < x->rank; k++)
    if (k >= first && k < first + count)
      own[k] = body_reduced_axis(&b, k - first);
    else
      own[k] = body_own_axis(&b, k < first ? k : k - count + kept_axes);
  return body_finish_read(&b, g, x, own, fault);
}

Node *node_reduce(Graph *g, PrimId op, Node *x, uint32_t first, uint32_t count,
                  bool keepdims, Fault *fault) {
  if (!check_reduce(g, op, x, first, count, fault))
    return NULL;
  bool arg = prim_is_arg_reduction(op);
  if (count == 0 && !arg)
    return node_retain(x);
  bool factorized = false;
  Node *sum = op == PRIM_SUM && !keepdims
                  ? sum_factorized(g, x, first, count, &factorized, fault)
                  : NULL;
  if (factorized)
    return sum;
  NodeSpec spec = {.dtype = arg ? DT_I64 : x->dtype, .reduce = op};
  node_spec_add_free_of(&spec, 1, &x, fault);
  reduce_spec(&spec, x, first, count, keepdims);
  sum = op == PRIM_SUM ? moments_sum(g, x, first, count, keepdims, &spec, fault)
                       : NULL;
  if (sum)
    return sum;
  Node *wide = op == PRIM_SUM ? sum_widened(g, x, fault) : x;
  if (!wide || wide == x)
    return wide ? reduce_node(g, &spec, x, first, count, keepdims, fault)
                : NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(wide);
    trap_raise(trap.kind);
  }
  sum = reduce_node(g, &spec, wide, first, count, keepdims, fault);
  trap_end(&trap);
  node_release(wide);
  return sum;
}

/* ---- the end of a `for` ---- */

/* Adds the free indices of x, except those that are closed. */
static void add_open_indices(NodeSpec *spec, const Node *x, uint32_t count,
                             IndexVar *const *closed) {
  for (uint32_t k = 0; k < x->free_count; k++) {
    bool is_closed = false;
    for (uint32_t j = 0; j < count; j++)
      is_closed |= closed[j] == x->free_vars[k];
    if (!is_closed)
      node_spec_add_free(spec, x->free_vars[k]);
  }
}

/* Tests whether the indices are less than the row lengths.  Returns false if no
 * axis is ragged. */
static bool test_rows(BodyBuilder *b, uint32_t count,
                      const IndexBinding *bindings, uint32_t *inside) {
  bool is_ragged = false;
  for (uint32_t k = 0; k < count; k++) {
    Node *length = bindings[k].var->row_length;
    if (!length)
      continue;
    uint32_t test =
        body_op2(b, PRIM_LT, DT_BOOL, bindings[k].value,
                 body_read_with_bindings(b, length, NULL, count, bindings));
    *inside = is_ragged ? body_op2(b, PRIM_AND, DT_BOOL, *inside, test) : test;
    is_ragged = true;
  }
  return is_ragged;
}

Node *node_close(Graph *g, Node *x, uint32_t count, IndexVar *const *vars,
                 Fault *fault) {
  if (count + x->rank > MAX_RANK) {
    fault_set(fault, "more than %d axes", MAX_RANK);
    return NULL;
  }
  NodeSpec spec;
  node_spec_init(&spec, x->dtype);
  spec.rank = count + x->rank;
  spec.broadcast_mask = count < 32 ? x->broadcast_mask << count : 0;
  add_open_indices(&spec, x, count, vars);
  for (uint32_t k = 0; k < count; k++) {
    spec.own_extents[k] = vars[k]->extent;
    if (vars[k]->row_length)
      add_open_indices(&spec, vars[k]->row_length, count, vars);
  }
  memcpy(spec.own_extents + count, node_own_extents(x),
         x->rank * sizeof spec.own_extents[0]);
  BodyBuilder b;
  body_init(&b, g, &spec);
  IndexBinding bindings[MAX_RANK];
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < count; k++)
    bindings[k] = (IndexBinding){vars[k], body_own_axis(&b, k)};
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, count + k);
  uint32_t inside;
  bool is_ragged = test_rows(&b, count, bindings, &inside);
  uint32_t element = body_read_with_bindings(&b, x, own, count, bindings);
  if (is_ragged)
    body_select(&b, inside, element,
                body_const(&b, (Scalar){.dtype = x->dtype}));
  Node *r = body_finish(&b, g, fault);
  for (uint32_t k = 0; r && k < r->rank; k++)
    node_set_row_length(
        r, k, k < count ? vars[k]->row_length : node_row_length(x, k - count));
  return r;
}

/* ---- tensors made from sizes ---- */

static bool shape_spec(Graph *g, NodeSpec *spec, uint32_t rank,
                       const int64_t *shape, uint32_t broadcast_mask,
                       Fault *fault) {
  if (rank > MAX_RANK) {
    fault_set(fault, "more than %d axes", MAX_RANK);
    return false;
  }
  spec->rank = rank;
  spec->broadcast_mask = broadcast_mask;
  for (uint32_t k = 0; k < rank; k++) {
    spec->own_extents[k] = shape[k];
    if (extent_is_static(g, shape[k]) && shape[k] >= 0)
      continue;
    fault_set(fault, "a size cannot be negative; found %s",
              extent_text(g, shape[k]).text);
    if (!extent_require(g, EXTENT_LE, 0, shape[k], fault))
      return false;
  }
  return true;
}

Node *node_full(Graph *g, Scalar x, uint32_t rank, const int64_t *shape,
                uint32_t broadcast_mask, Fault *fault) {
  NodeSpec spec = {.dtype = x.dtype};
  if (!shape_spec(g, &spec, rank, shape, broadcast_mask, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  body_const(&b, x);
  return body_finish(&b, g, fault);
}

Node *node_iota(Graph *g, Dtype dtype, int64_t n, Fault *fault) {
  NodeSpec spec = {.dtype = dtype};
  if (!shape_spec(g, &spec, 1, &n, 0, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  body_convert(&b, body_own_axis(&b, 0), dtype);
  return body_finish(&b, g, fault);
}

Node *node_eye(Graph *g, Dtype dtype, int64_t n, Fault *fault) {
  NodeSpec spec = {.dtype = dtype};
  if (!shape_spec(g, &spec, 2, (int64_t[]){n, n}, 0, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t row = body_own_axis(&b, 0), column = body_own_axis(&b, 1);
  uint32_t same = body_op2(&b, PRIM_EQ, DT_BOOL, row, column);
  body_convert(&b, same, dtype);
  return body_finish(&b, g, fault);
}

Node *node_random(Graph *g, PrimId op, PrngKey key, Dtype dtype, uint32_t rank,
                  const int64_t *shape, uint32_t broadcast_mask, Fault *fault) {
  NodeSpec spec = {.dtype = dtype};
  if (!shape_spec(g, &spec, rank, shape, broadcast_mask, fault))
    return NULL;
  if (!dtype_is_float(dtype)) {
    fault_set(fault, "random numbers must be floats; found %s",
              dtype_info[dtype].name);
    return NULL;
  }
  int64_t count;
  if (!extent_product(g, rank, shape, &count)) {
    fault_set(fault, "%s has too many elements",
              tensor_type_text(g, dtype, rank, shape, broadcast_mask).text);
    return NULL;
  }
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t linear_index = UINT32_MAX;
  int64_t stride = 1;
  for (uint32_t k = rank; k-- > 0;) {
    uint32_t part = body_mul_int(&b, body_own_axis(&b, k), stride);
    extent_mul(g, stride, spec.own_extents[k] ? spec.own_extents[k] : 1,
               &stride);
    linear_index = linear_index == UINT32_MAX
                       ? part
                       : body_op2(&b, PRIM_ADD, DT_I64, linear_index, part);
  }
  if (linear_index == UINT32_MAX)
    linear_index = body_int(&b, 0);
  body_random(&b, op, key, dtype, linear_index);
  return body_finish(&b, g, fault);
}

Node *node_one_hot(Graph *g, int64_t k, Node *index, Dtype dtype,
                   Fault *fault) {
  NodeSpec spec = {.dtype = dtype};
  if (!dtype_is_int(index->dtype)) {
    fault_set(fault, "indices must be integers; found %s",
              dtype_info[index->dtype].name);
    return NULL;
  }
  uint32_t rank = index->rank;
  int64_t shape[MAX_RANK + 1];
  memcpy(shape, node_own_extents(index), rank * sizeof shape[0]);
  shape[rank] = k;
  if (!shape_spec(g, &spec, rank + 1, shape, index->broadcast_mask, fault) ||
      !node_spec_add_free_of(&spec, 1, &index, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t at = body_convert(&b, body_read_broadcast(&b, index, 0), DT_I64);
  uint32_t own = body_own_axis(&b, rank);
  body_convert(&b, body_op2(&b, PRIM_EQ, DT_BOOL, at, own), dtype);
  return body_finish(&b, g, fault);
}
