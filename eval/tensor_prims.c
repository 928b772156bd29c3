/* Primitives that create graph nodes.  Each converts its arguments to nodes and
 * resolves axes and shapes. */
#include "eval/internal.h"
#include "runtime/fourier.h"

#include <string.h>

#define DECLARE_FAULT Fault fault = {0}
#define VALUE_OF(node) vm_value_of_node(vm, (node), &fault)

void vm_shape_of(Eval *vm, Value v, uint32_t *rank, int64_t *shape,
                 uint32_t *broadcast_mask) {
  *rank = 0;
  *broadcast_mask = 0;
  if (value_is_num(v))
    return;
  const Node *n = vm_to_node(vm, v);
  *rank = n->rank;
  *broadcast_mask = n->broadcast_mask;
  for (uint32_t k = 0; k < n->rank; k++)
    shape[k] = node_size(n, k);
}

static uint32_t normalize_axis(Eval *vm, Value axis, uint32_t rank) {
  int64_t k = vm_int(vm, axis), at = k < 0 ? k + rank : k;
  if (at < 0 || at >= rank)
    vm_fail(vm, 507, "axis %lld of a tensor with %u axes", (long long)k, rank);
  return (uint32_t)at;
}

void vm_axis_range(Eval *vm, Value axis, uint32_t rank, uint32_t *first,
                   uint32_t *count) {
  *first = 0;
  *count = rank;
  if (axis.tag == V_ALL_AXES || axis.tag == V_ABSENT || axis.tag == V_UNIT)
    return;
  if (axis.tag != V_TUPLE) {
    *first = normalize_axis(vm, axis, rank);
    *count = 1;
    return;
  }
  const Value *at = AS_ARRAY(axis)->at;
  uint32_t last = normalize_axis(vm, at[0], rank);
  *first = last;
  *count = axis.obj->len;
  for (uint32_t i = 1; i < axis.obj->len; i++) {
    uint32_t next = normalize_axis(vm, at[i], rank);
    if (next != last + 1)
      vm_fail(vm, 507, "the axes of a tuple must be adjacent and ascending");
    last = next;
  }
}

/* An optional axis argument; the default is the last axis. */
static uint32_t axis_or_last(Eval *vm, Value axis, uint32_t rank) {
  if (!rank)
    vm_fail(vm, 507, "a scalar has no axis");
  uint32_t first, count;
  if (axis.tag == V_ABSENT)
    return rank - 1;
  vm_axis_range(vm, axis, rank, &first, &count);
  if (count != 1)
    vm_fail(vm, 507, "expected one axis");
  return first;
}

static bool optional_bool(Eval *vm, Value v) {
  return v.tag != V_ABSENT && vm_bool(vm, v);
}

/* The axes in a shape argument. */
static const ShapeObj *shape_of(Eval *vm, Value v) {
  if (v.tag != V_SHAPE)
    vm_fail(vm, 599, "internal error in eval: expected a shape");
  const ShapeObj *s = AS_SHAPE(v);
  if (s->obj.len > MAX_RANK)
    vm_fail(vm, 507, "a tensor with %u axes; at most %d are possible",
            s->obj.len, MAX_RANK);
  return s;
}

static const ShapeObj *concrete_shape_of(Eval *vm, Value v) {
  const ShapeObj *s = shape_of(vm, v);
  for (uint32_t i = 0; i < s->obj.len; i++)
    if (s->extents[i] < 0)
      vm_fail(vm, 507, "an axis cannot have size %lld",
              (long long)s->extents[i]);
  return s;
}

static Dtype dtype_or_f32(const PrimSite *site) {
  return site->elem == DT_NONE ? DT_F32 : site->elem;
}

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

/* ---- reductions and products ---- */

PRIM(prim_reduce) {
  UNUSED;
  DECLARE_FAULT;
  bool is_arg_reduction = prim_is_arg_reduction(site->prim);
  if (value_is_num(args[2]) && !is_arg_reduction)
    return args[2];
  Node *x = vm_to_ragged_node(vm, args[2]);
  uint32_t first, count;
  if (is_arg_reduction) {
    first = axis_or_last(vm, args[0], x->rank);
    count = 1;
  } else {
    vm_axis_range(vm, args[0], x->rank, &first, &count);
  }
  if (!count && !is_arg_reduction)
    return value_retain(args[2]);
  vm_require_reducible_rows(vm, site->prim, x, first, count);
  return VALUE_OF(node_reduce_ragged(&vm->graph, site->prim, x, first, count,
                                     optional_bool(vm, args[1]), &fault));
}

PRIM(prim_matmul) {
  UNUSED;
  DECLARE_FAULT;
  Node *nodes[2];
  vm_factors_of_product(vm, args, nodes);
  return VALUE_OF(node_matmul(&vm->graph, nodes[0], nodes[1], &fault));
}

PRIM(prim_dot) {
  UNUSED;
  DECLARE_FAULT;
  Node *nodes[2];
  vm_factors_of_product(vm, args, nodes);
  return VALUE_OF(node_dot(&vm->graph, nodes[0], nodes[1], &fault));
}

PRIM(prim_outer) {
  UNUSED;
  DECLARE_FAULT;
  return VALUE_OF(node_outer(&vm->graph, vm_to_node(vm, args[0]),
                             vm_to_node(vm, args[1]), &fault));
}

/* ---- einsum and permute: named axes ---- */

enum {
  ELLIPSIS_LABEL = 64,
  MAX_EINSUM_LABELS = 64
}; /* ELLIPSIS_LABEL + k is axis k of `...`, counted from the right */

typedef struct EinsumLabels {
  const char *name[MAX_EINSUM_LABELS];
  size_t len[MAX_EINSUM_LABELS];
  uint32_t count;
} EinsumLabels;

static uint8_t label_number(Eval *vm, EinsumLabels *labels, const char *name,
                            size_t len) {
  for (uint32_t i = 0; i < labels->count; i++)
    if (labels->len[i] == len && !memcmp(labels->name[i], name, len))
      return (uint8_t)i;
  if (labels->count == MAX_EINSUM_LABELS)
    vm_fail(vm, 507, "more than %d axis names", MAX_EINSUM_LABELS);
  labels->name[labels->count] = name;
  labels->len[labels->count] = len;
  return (uint8_t)labels->count++;
}

/* Parses the names of one operand, up to `,`, `->` or the end. */
static const char *parse_labels(Eval *vm, EinsumLabels *labels, const char *at,
                                uint32_t rank, uint32_t *ellipsis_rank,
                                uint8_t *out, uint32_t *count) {
  uint32_t ellipsis_at = UINT32_MAX;
  *count = 0;
  for (;;) {
    at += strspn(at, " \t\n");
    if (!*at || *at == ',' || !strncmp(at, "->", 2))
      break;
    if (!strncmp(at, "...", 3)) {
      ellipsis_at = *count;
      at += 3;
      continue;
    }
    size_t len = strcspn(at, " \t\n,-.");
    if (!len || *count == MAX_RANK)
      vm_fail(vm, 507, "invalid axis names at: %.20s", at);
    out[(*count)++] = label_number(vm, labels, at, len);
    at += len;
  }
  if (ellipsis_at != UINT32_MAX) {
    uint32_t ellipsis_axes =
        rank != UINT32_MAX && rank > *count ? rank - *count : 0;
    if (rank == UINT32_MAX)
      ellipsis_axes = *ellipsis_rank;
    else if (ellipsis_axes > *ellipsis_rank)
      *ellipsis_rank = ellipsis_axes;
    if (*count + ellipsis_axes > MAX_RANK)
      vm_fail(vm, 507, "a tensor of more than %d axes", MAX_RANK);
    memmove(out + ellipsis_at + ellipsis_axes, out + ellipsis_at,
            *count - ellipsis_at);
    for (uint32_t k = 0; k < ellipsis_axes; k++)
      out[ellipsis_at + k] = (uint8_t)(ELLIPSIS_LABEL + ellipsis_axes - 1 - k);
    *count += ellipsis_axes;
  }
  if (rank != UINT32_MAX && *count != rank)
    vm_fail(vm, 507, "%u axis names for a tensor with %u axes", *count, rank);
  return at;
}

/* The pattern is the literal.  It may also be one of the arguments. */
static const char *take_pattern(const PrimSite *site, Value **args, uint32_t *n,
                                uint32_t tensors) {
  const char *text = site->literal;
  if (*n == tensors + 1 || !text) {
    text = AS_STRING((*args)[0])->text;
    ++*args;
    --*n;
  }
  return text;
}

static const char *skip_token(Eval *vm, const char *at, const char *what) {
  if (strncmp(at, what, strlen(what)))
    vm_fail(vm, 507, "the axis names do not contain `%s`", what);
  return at + strlen(what);
}

PRIM(prim_einsum) {
  DECLARE_FAULT;
  uint32_t tensors = 1;
  for (const char *c = site->literal ? site->literal : ""; *c; c++)
    tensors += *c == ',';
  const char *at = take_pattern(site, &args, &n, tensors);
  EinsumLabels labels = {.count = 0};
  uint8_t(*names)[MAX_RANK] = vm_scratch(vm, (n + 1) * sizeof *names);
  const uint8_t **list = vm_scratch(vm, n * sizeof *list);
  Node **nodes = vm_scratch(vm, n * sizeof *nodes);
  uint32_t ellipsis_rank = 0, count;
  for (uint32_t i = 0; i < n; i++) {
    nodes[i] = vm_to_node(vm, args[i]);
    if (i)
      at = skip_token(vm, at, ",");
    at = parse_labels(vm, &labels, at, nodes[i]->rank, &ellipsis_rank, names[i],
                      &count);
    list[i] = names[i];
  }
  at = skip_token(vm, at, "->");
  parse_labels(vm, &labels, at, UINT32_MAX, &ellipsis_rank, names[n], &count);
  return VALUE_OF(
      node_einsum(&vm->graph, n, nodes, list, count, names[n], &fault));
}

PRIM(prim_permute) {
  DECLARE_FAULT;
  const char *at = take_pattern(site, &args, &n, 1);
  EinsumLabels labels = {.count = 0};
  Node *x = vm_to_node(vm, args[0]);
  uint8_t from[MAX_RANK], to[MAX_RANK];
  uint32_t ellipsis_rank = 0, count, order[MAX_RANK];
  at = parse_labels(vm, &labels, at, x->rank, &ellipsis_rank, from, &count);
  at = skip_token(vm, at, "->");
  parse_labels(vm, &labels, at, UINT32_MAX, &ellipsis_rank, to, &count);
  if (count != x->rank)
    vm_fail(vm, 507, "permute needs all %u axes; found %u", x->rank, count);
  for (uint32_t k = 0; k < count; k++) {
    uint32_t j = 0;
    while (j < count && from[j] != to[k])
      j++;
    if (j == count)
      vm_fail(vm, 507, "permute names an axis that does not exist");
    order[k] = j;
  }
  return VALUE_OF(node_permute(&vm->graph, x, order, &fault));
}

/* ---- sizes ---- */

PRIM(prim_dim) {
  UNUSED;
  uint32_t rank, broadcast_mask, first, count;
  int64_t shape[MAX_RANK];
  if (vm_is_ragged(args[1])) {
    const Node *x = args[1].node;
    vm_axis_range(vm, args[0], x->rank, &first, &count);
    return vm_ragged_size(vm, x, first, count);
  }
  vm_shape_of(vm, args[1], &rank, shape, &broadcast_mask);
  vm_axis_range(vm, args[0], rank, &first, &count);
  return vm_product(vm, count, shape + first);
}

PRIM(prim_shape) {
  UNUSED;
  uint32_t rank, broadcast_mask;
  int64_t shape[MAX_RANK];
  vm_shape_of(vm, args[0], &rank, shape, &broadcast_mask);
  return value_shape(&vm->heap, rank, shape, broadcast_mask);
}

PRIM(prim_prod_of) {
  UNUSED;
  const ShapeObj *s = shape_of(vm, args[0]);
  return vm_product(vm, s->obj.len, s->extents);
}

PRIM(prim_rank) {
  UNUSED;
  uint32_t rank, broadcast_mask;
  int64_t shape[MAX_RANK];
  vm_shape_of(vm, args[0], &rank, shape, &broadcast_mask);
  return value_int(rank);
}

/* ---- movement of elements ---- */

PRIM(prim_reshape) {
  UNUSED;
  DECLARE_FAULT;
  const ShapeObj *s = shape_of(vm, args[0]);
  return VALUE_OF(node_reshape(&vm->graph, vm_to_node(vm, args[1]), s->obj.len,
                               s->extents, (uint32_t)s->broadcast_mask,
                               &fault));
}

PRIM(prim_flatten) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[0]);
  if (!x->rank)
    vm_fail(vm, 507, "flatten of a scalar");
  if (!node_axis_sized(&vm->graph, x, 0, "flatten", &fault))
    vm_fault(vm, &fault);
  Value rest = vm_product(vm, x->rank - 1, &x->extents[x->free_count + 1]);
  vm_push_temp(vm, rest);
  int64_t shape[2] = {node_size(x, 0), vm_size(vm, rest)};
  return VALUE_OF(
      node_reshape(&vm->graph, x, 2, shape, x->broadcast_mask & 1, &fault));
}

PRIM(prim_transpose) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[0]);
  uint32_t order[MAX_RANK];
  if (x->rank < 2)
    vm_fail(vm, 507, "transpose of a tensor with %u axes", x->rank);
  for (uint32_t k = 0; k < x->rank; k++)
    order[k] = k;
  order[x->rank - 2] = x->rank - 1;
  order[x->rank - 1] = x->rank - 2;
  return VALUE_OF(node_permute(&vm->graph, x, order, &fault));
}

PRIM(prim_concat) {
  UNUSED;
  DECLARE_FAULT;
  const Value *at = &args[1];
  uint32_t count = 1;
  if (args[1].tag == V_TUPLE) {
    at = AS_ARRAY(args[1])->at;
    count = args[1].obj->len;
  }
  Node **nodes = vm_scratch(vm, count * sizeof *nodes);
  for (uint32_t i = 0; i < count; i++)
    nodes[i] = vm_to_node(vm, at[i]);
  uint32_t axis = axis_or_last(vm, args[0], nodes[0]->rank);
  return VALUE_OF(node_concat(&vm->graph, axis, count, nodes, &fault));
}

PRIM(prim_stack) {
  UNUSED;
  uint32_t count = 0;
  for (Value v = args[0]; v.tag == V_CONS; v = AS_CONS(v)->tail)
    count++;
  if (!count)
    vm_fail(vm, 507, "stack of an empty list: the element shape is not known");
  Value items = vm_new_tuple(vm, count);
  count = 0;
  for (Value v = args[0]; v.tag == V_CONS; v = AS_CONS(v)->tail)
    AS_ARRAY(items)->at[count++] = value_retain(AS_CONS(v)->head);
  return vm_stack_items(vm, count, AS_ARRAY(items)->at);
}

PRIM(prim_unstack) {
  UNUSED;
  Value list = {.tag = V_NIL};
  for (int64_t i = vm_static_trip_count(vm, vm_leading_size(vm, args[0])) - 1;
       i >= 0; i--) {
    vm_push_temp(vm, list);
    Value row = vm_slice(vm, args[0], value_int(i));
    vm_push_temp(vm, row);
    Value cell = value_cons(&vm->heap, row, list);
    vm->temp_count -= 2;
    list = cell;
  }
  return list;
}

static Node *slice_axis(Eval *vm, Node *x, uint32_t axis, int64_t from,
                        int64_t to, Fault *fault) {
  Subscript items[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    items[k] = (Subscript){.kind = SUBSCRIPT_SLICE, .stop = node_size(x, k)};
  items[axis].start = from;
  items[axis].stop = to;
  return node_subscript(&vm->graph, x, x->rank, items, fault);
}

PRIM(prim_split) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[2]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  const ShapeObj *s = AS_SHAPE(args[1]);
  Graph *g = &vm->graph;
  if (!node_axis_sized(g, x, axis, "split", &fault))
    vm_fault(vm, &fault);
  int64_t axis_size = node_size(x, axis), known_size = 0;
  uint32_t holes = 0, count = s->obj.len;
  bool ok = true;
  for (uint32_t i = 0; i < count; i++) {
    if (s->extents[i] >= 0)
      ok = ok && extent_add(g, known_size, s->extents[i], &known_size);
    else
      holes++;
  }
  ExtentRelation relation = holes ? EXTENT_LE : EXTENT_EQ;
  if (!ok || holes > 1 ||
      !extent_holds_trivially(g, relation, known_size, axis_size)) {
    fault_set(&fault, "split of %s into parts of total size %s",
              extent_text(g, axis_size).text, extent_text(g, known_size).text);
    if (!ok || holes > 1 ||
        !extent_require(g, relation, known_size, axis_size, &fault))
      vm_fault(vm, &fault);
  }
  Value r = vm_new_tuple(vm, count);
  int64_t from = 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t size = s->extents[i] >= 0
                       ? s->extents[i]
                       : extent_sub_saturating(g, axis_size, known_size),
            to;
    if (!extent_add(g, from, size, &to))
      vm_fail(vm, 506, "a size does not fit in 64 bits");
    AS_ARRAY(r)->at[i] = VALUE_OF(slice_axis(vm, x, axis, from, to, &fault));
    from = to;
  }
  return value_retain(r);
}

/* A new node as a temporary. */
static Node *temporary(Eval *vm, Node *n, const Fault *fault) {
  if (!n)
    vm_fault(vm, fault);
  return vm_temp_node(vm, n);
}

/* Pads with a value that has a derivative: selects between it and x. */
static Value pad_with_node(Eval *vm, Node *x, uint32_t axis, int64_t before,
                           int64_t after, Node *value) {
  DECLARE_FAULT;
  Graph *g = &vm->graph;
  Scalar zero = {.dtype = x->dtype}, outside = {.dtype = DT_BOOL};
  Scalar inside = {.dtype = DT_BOOL, .i = 1};
  Node *mask =
      temporary(vm,
                node_full(g, inside, x->rank, x->extents + x->free_count,
                          x->broadcast_mask, &fault),
                &fault);
  mask = temporary(vm, node_pad(g, mask, axis, before, after, outside, &fault),
                   &fault);
  x = temporary(vm, node_pad(g, x, axis, before, after, zero, &fault), &fault);
  return VALUE_OF(
      node_map(g, PRIM_SELECT, 3, (Node *[]){mask, x, value}, DT_NONE, &fault));
}

PRIM(prim_pad) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[4]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  int64_t before = args[1].tag == V_ABSENT ? 0 : vm_size(vm, args[1]);
  int64_t after = args[2].tag == V_ABSENT ? 0 : vm_size(vm, args[2]);
  if (args[3].tag == V_NODE && args[3].node->tape)
    return pad_with_node(vm, x, axis, before, after, args[3].node);
  Scalar zero = scalar_convert((Scalar){DT_I64, {.i = 0}}, x->dtype);
  Scalar value = args[3].tag == V_ABSENT
                     ? zero
                     : value_to_scalar(vm_concrete_scalar(vm, args[3]));
  return VALUE_OF(node_pad(&vm->graph, x, axis, before, after, value, &fault));
}

PRIM(prim_reverse) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[1]);
  return VALUE_OF(
      node_reverse(&vm->graph, x, axis_or_last(vm, args[0], x->rank), &fault));
}

PRIM(prim_roll) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[2]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  int64_t shift = vm_size_maybe_wrapped(vm, args[1]);
  return VALUE_OF(node_roll(&vm->graph, x, axis, shift, &fault));
}

PRIM(prim_tile) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[2]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  return VALUE_OF(node_tile(&vm->graph, x, axis, vm_size(vm, args[1]),
                            site->prim == PRIM_REPEAT, &fault));
}

PRIM(prim_squeeze) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[1]);
  uint32_t first, count;
  vm_axis_range(vm, args[0], x->rank, &first, &count);
  return VALUE_OF(node_squeeze(&vm->graph, x, first, count, &fault));
}

PRIM(prim_broadcast) {
  UNUSED;
  DECLARE_FAULT;
  const ShapeObj *s = concrete_shape_of(vm, args[0]);
  return VALUE_OF(node_broadcast(&vm->graph, vm_to_node(vm, args[1]),
                                 s->obj.len, s->extents,
                                 (uint32_t)s->broadcast_mask, &fault));
}

PRIM(prim_forget) {
  UNUSED;
  (void)vm;
  return value_retain(args[0]);
}

PRIM(prim_triangle) {
  UNUSED;
  DECLARE_FAULT;
  return VALUE_OF(node_triangle(&vm->graph, vm_to_node(vm, args[0]),
                                site->prim == PRIM_TRIL, &fault));
}

/* ---- gathering and ordering ---- */

static const PrngKey zero_key;

PRIM(prim_gather) {
  UNUSED;
  DECLARE_FAULT;
  return VALUE_OF(node_gather(&vm->graph, vm_to_node(vm, args[0]),
                              vm_to_node(vm, args[1]), &fault));
}

/* Implements SCATTER, and linear algebra except TRTRS: all arguments are
 * tensors. */
PRIM(prim_opaque) {
  DECLARE_FAULT;
  Node *nodes[3];
  int64_t params[4] = {0};
  for (uint32_t i = 0; i < n; i++)
    nodes[i] = vm_to_node(vm, args[i]);
  return VALUE_OF(node_opaque(&vm->graph, site->prim, n, nodes, params,
                              zero_key, 0, &fault));
}

PRIM(prim_trtrs) {
  UNUSED;
  DECLARE_FAULT;
  int64_t params[4] = {vm_bool(vm, args[0])};
  Node *nodes[] = {vm_to_node(vm, args[1]), vm_to_node(vm, args[2])};
  return VALUE_OF(node_opaque(&vm->graph, site->prim, 2, nodes, params,
                              zero_key, 0, &fault));
}

PRIM(prim_one_hot) {
  UNUSED;
  DECLARE_FAULT;
  return VALUE_OF(node_one_hot(&vm->graph, vm_size(vm, args[0]),
                               vm_to_node(vm, args[1]), dtype_or_f32(site),
                               &fault));
}

/* Implements SORT, ARGSORT and CUMSUM. */
PRIM(prim_sort) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[1]);
  int64_t params[4] = {axis_or_last(vm, args[0], x->rank)};
  return VALUE_OF(
      node_opaque(&vm->graph, site->prim, 1, &x, params, zero_key, 0, &fault));
}

PRIM(prim_topk) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[1]);
  int64_t params[4] = {vm_size(vm, args[0])};
  Value r = vm_new_tuple(vm, 2);
  for (uint32_t i = 0; i < 2; i++)
    AS_ARRAY(r)->at[i] = VALUE_OF(
        node_opaque(&vm->graph, PRIM_TOPK, 1, &x, params, zero_key, i, &fault));
  return value_retain(r);
}

/* ---- Fourier transforms ---- */

/* A library computes them: without it, the error has the place of the call. */
static Value fourier(Eval *vm, PrimId op, uint32_t count, Value *parts,
                     const int64_t params[4]) {
  DECLARE_FAULT;
  Node *inputs[2];
  for (uint32_t i = 0; i < count; i++)
    inputs[i] = vm_to_node(vm, parts[i]);
  Dtype dtype = inputs[0]->dtype;
  Dtype wide = dtype == DT_F64 ? DT_F64 : DT_F32;
  if (!vm_is_aot_tracing(vm) && !fourier_load_library(wide, &fault))
    return VALUE_OF((Node *)NULL);
  for (uint32_t i = 0; i < count && dtype != wide; i++)
    inputs[i] = vm_to_node(vm, VALUE_OF(node_map(&vm->graph, PRIM_CONVERT, 1,
                                                 &inputs[i], wide, &fault)));
  Value r =
      VALUE_OF(node_fourier(&vm->graph, op, count, inputs, params, &fault));
  if (dtype == wide)
    return r;
  Node *result = vm_temp_node(vm, r.node);
  return VALUE_OF(
      node_map(&vm->graph, PRIM_CONVERT, 1, &result, dtype, &fault));
}

PRIM(prim_dft) {
  UNUSED;
  uint32_t first, count;
  vm_axis_range(vm, args[0], vm_to_node(vm, args[2])->rank, &first, &count);
  return fourier(vm, PRIM_DFT, 2, args + 2,
                 (int64_t[4]){first, count, optional_bool(vm, args[1])});
}

PRIM(prim_real_dft) {
  UNUSED;
  uint32_t axis = axis_or_last(vm, args[0], vm_to_node(vm, args[1])->rank);
  return fourier(vm, PRIM_REAL_DFT, 1, args + 1, (int64_t[4]){axis});
}

PRIM(prim_inverse_real_dft) {
  UNUSED;
  uint32_t axis = axis_or_last(vm, args[0], vm_to_node(vm, args[2])->rank);
  return fourier(vm, PRIM_INVERSE_REAL_DFT, 2, args + 2,
                 (int64_t[4]){axis, vm_size(vm, args[1])});
}

PRIM(prim_nonzero) {
  UNUSED;
  DECLARE_FAULT;
  const Tensor *x = vm_tensor(vm, args[0]);
  Value r = vm_value_of_tensor(vm, tensor_nonzero(x, &fault), &fault);
  vm_check_file(vm, x);
  return r;
}

PRIM(prim_unique) {
  UNUSED;
  DECLARE_FAULT;
  Node *x = vm_to_node(vm, args[0]);
  int64_t params[4] = {0};
  Value sorted = VALUE_OF(
      node_opaque(&vm->graph, PRIM_SORT, 1, &x, params, zero_key, 0, &fault));
  vm_temp_node(vm, sorted.node);
  Tensor *starts = tensor_run_starts(vm_tensor(vm, sorted), &fault);
  return vm_take_rows(vm, sorted.node, starts, &fault);
}

/* ---- constants and ranges ---- */

/* Implements ZEROS, ONES and FULL. */
PRIM(prim_full) {
  UNUSED;
  DECLARE_FAULT;
  const ShapeObj *s = concrete_shape_of(vm, args[0]);
  Value value = site->prim == PRIM_FULL
                    ? args[1]
                    : value_scalar(scalar_convert(
                          (Scalar){DT_I64, {.i = site->prim == PRIM_ONES}},
                          dtype_or_f32(site)));
  if (value_is_num(value))
    return VALUE_OF(node_full(&vm->graph, value_to_scalar(value), s->obj.len,
                              s->extents, (uint32_t)s->broadcast_mask, &fault));
  return VALUE_OF(node_broadcast(&vm->graph, vm_to_node(vm, value), s->obj.len,
                                 s->extents, (uint32_t)s->broadcast_mask,
                                 &fault));
}

/* Implements IOTA and EYE. */
PRIM(prim_iota) {
  UNUSED;
  DECLARE_FAULT;
  int64_t size = vm_size(vm, args[0]);
  if (size < 0)
    vm_fail(vm, 507, "%s of %lld", prim_info[site->prim].name, (long long)size);
  return VALUE_OF(site->prim == PRIM_IOTA
                      ? node_iota(&vm->graph, dtype_or_f32(site), size, &fault)
                      : node_eye(&vm->graph, dtype_or_f32(site), size, &fault));
}

static PrngKey key_of(Eval *vm, Value v) {
  if (v.tag != V_KEY)
    vm_fail(vm, 599, "internal error in eval: expected a key");
  return AS_KEY(v)->key;
}

/* A seed must be a known number: keys are constants in the source of a
 * kernel. */
static int64_t static_seed(Eval *vm, Value v) {
  if (vm_is_aot_tracing(vm) && v.tag == V_NODE && v.node->symbolic)
    vm_fail_at(vm, (Span){0}, 612,
               "pass the random numbers as an argument, or use a literal seed",
               "a compiled function needs literal seeds for random numbers; "
               "this seed is known only at run time");
  return vm_int(vm, v);
}

PRIM(prim_key) {
  UNUSED;
  return value_key(&vm->heap, prng_key_from_seed(static_seed(vm, args[0])));
}

PRIM(prim_split_key) {
  UNUSED;
  PrngKey key = key_of(vm, args[0]);
  Value r = vm_new_tuple(vm, 2);
  for (uint32_t i = 0; i < 2; i++)
    AS_ARRAY(r)->at[i] = value_key(&vm->heap, prng_key_split(key, i));
  return value_retain(r);
}

PRIM(prim_fold_key) {
  UNUSED;
  uint64_t index = (uint64_t)static_seed(vm, args[1]);
  return value_key(&vm->heap, prng_key_split(key_of(vm, args[0]), index));
}

PRIM(prim_random) {
  UNUSED;
  DECLARE_FAULT;
  const ShapeObj *s = concrete_shape_of(vm, args[1]);
  return VALUE_OF(node_random(&vm->graph, site->prim, key_of(vm, args[0]),
                              dtype_or_f32(site), s->obj.len, s->extents,
                              (uint32_t)s->broadcast_mask, &fault));
}

PRIM(prim_permutation) {
  UNUSED;
  DECLARE_FAULT;
  int64_t params[4] = {vm_size(vm, args[1])};
  return VALUE_OF(node_opaque(&vm->graph, site->prim, 0, NULL, params,
                              key_of(vm, args[0]), 0, &fault));
}
