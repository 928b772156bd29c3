/* Pointwise primitives.  Known scalars are computed immediately; other operands
 * make nodes. */
#include "eval/internal.h"
#include "tensor/scalar_ops.h"

#include <string.h>

static bool values_equal_list(Value a, Value b) {
  while (a.tag == V_CONS && b.tag == V_CONS) {
    if (!values_equal(AS_CONS(a)->head, AS_CONS(b)->head))
      return false;
    a = AS_CONS(a)->tail;
    b = AS_CONS(b)->tail;
  }
  return a.tag == b.tag;
}

static bool all_equal(const Value *a, const Value *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!values_equal(a[i], b[i]))
      return false;
  return true;
}

bool values_equal(Value a, Value b) {
  if (a.tag != b.tag)
    return false;
  if (value_is_num(a))
    return dtype_is_float((Dtype)a.tag) ? a.f == b.f : a.i == b.i;
  switch ((ValueTag)a.tag) {
  case V_STRING:
    return a.obj->len == b.obj->len &&
           !memcmp(AS_STRING(a)->text, AS_STRING(b)->text, a.obj->len);
  case V_SHAPE:
    return a.obj->len == b.obj->len &&
           AS_SHAPE(a)->broadcast_mask == AS_SHAPE(b)->broadcast_mask &&
           !memcmp(AS_SHAPE(a)->extents, AS_SHAPE(b)->extents,
                   a.obj->len * sizeof(int64_t));
  case V_TUPLE:
  case V_KEYS:
    return a.obj->len == b.obj->len &&
           all_equal(AS_ARRAY(a)->at, AS_ARRAY(b)->at, a.obj->len);
  case V_RECORD:
    return AS_RECORD(a)->layout == AS_RECORD(b)->layout &&
           all_equal(AS_RECORD(a)->at, AS_RECORD(b)->at, a.obj->len);
  case V_CONS:
  case V_NIL:
    return values_equal_list(a, b);
  case V_CON:
    return AS_CON(a)->con->tag == AS_CON(b)->con->tag &&
           values_equal(AS_CON(a)->arg, AS_CON(b)->arg);
  case V_NULLARY_CON:
    return a.con->tag == b.con->tag;
  case V_KEY:
    return !memcmp(&AS_KEY(a)->key, &AS_KEY(b)->key, sizeof(PrngKey));
  case V_UNIT:
  case V_ABSENT:
  case V_ALL_AXES:
    return true;
  default: /* functions are never compared; numbers are handled above */
    return a.i == b.i;
  }
}

static Value map_nodes(Eval *vm, PrimId op, Dtype to, const Value *args,
                       uint32_t n) {
  Fault fault = {0};
  Node *nodes[3];
  ConstantOperand constants[3];
  for (uint32_t i = 0; i < n; i++)
    nodes[i] = value_is_num(args[i])
                   ? constant_operand(&constants[i], value_to_scalar(args[i]))
                   : vm_to_ragged_node(vm, args[i]);
  Node *r = node_map(&vm->graph, op, n, nodes, to, &fault);
  return vm_value_of_node(vm, vm_broadcast_row_lengths(vm, n, nodes, r),
                          &fault);
}

static Dtype result_dtype(PrimId op, const Scalar *args) {
  return prim_result_dtype(op, args[op == PRIM_SELECT].dtype);
}

/* True if an i64 wrapped around in the computation of this result.  Quotients
 * and remainders of wrapped numbers count as ordinary numbers, since hash
 * functions compute such. */
static bool has_wrapped(PrimId op, const Value *args) {
  int64_t r, x = args[0].i;
  switch ((int)op) {
  case PRIM_ADD:
    return args[0].aux || args[1].aux ||
           __builtin_add_overflow(x, args[1].i, &r);
  case PRIM_SUB:
    return args[0].aux || args[1].aux ||
           __builtin_sub_overflow(x, args[1].i, &r);
  case PRIM_MUL:
    return args[0].aux || args[1].aux ||
           __builtin_mul_overflow(x, args[1].i, &r);
  case PRIM_MAXIMUM:
  case PRIM_MINIMUM:
    return args[0].aux || args[1].aux;
  case PRIM_NEG:
  case PRIM_ABS:
    return args[0].aux || x == INT64_MIN;
  }
  return false;
}

/* tensor/ defines the meaning of a pointwise primitive on scalars. */
static Value map_scalars(Eval *vm, PrimId op, Dtype to, const Value *args,
                         uint32_t n) {
  Scalar xs[3], r;
  for (uint32_t i = 0; i < n; i++)
    xs[i] = value_to_scalar(args[i]);
  if (op != PRIM_CONVERT)
    to = result_dtype(op, xs);
  ArithStatus arith = scalar_apply(op, n, xs, to, &r);
  if (arith != ARITH_OK)
    vm_fail(vm, 506, "%s", arith_message(arith));
  Value v = value_scalar(r);
  if (to == DT_I64 && xs[0].dtype == DT_I64)
    v.aux = has_wrapped(op, args);
  return v;
}

/* The equality of symbolic sizes may be known only to the caller of the
 * compiled function. */
static bool shapes_equal_or_fail(Eval *vm, Value a, Value b) {
  if (!vm_is_aot_tracing(vm) || a.tag != V_SHAPE || b.tag != V_SHAPE ||
      a.obj->len != b.obj->len ||
      AS_SHAPE(a)->broadcast_mask != AS_SHAPE(b)->broadcast_mask)
    return values_equal(a, b);
  bool same = true, is_undecided = false;
  for (uint32_t k = 0; same && k < a.obj->len; k++) {
    Verdict v = extent_decide(&vm->graph, EXTENT_EQ, AS_SHAPE(a)->extents[k],
                              AS_SHAPE(b)->extents[k]);
    same = v != CONTRADICTED;
    is_undecided = is_undecided || v == UNDECIDED;
  }
  if (same && is_undecided)
    vm_fail(vm, 612, "equality of these shapes is known only at run time");
  return same;
}

/* Returns the number of a tensor without axes, if it was computed after the
 * node was made.  The carry of a loop is such a tensor. */
static Value materialized_scalar(Eval *vm, Value v) {
  return v.tag == V_NODE && !v.node->rank && v.node->data &&
                 !v.node->free_count && !node_is_recorded(v.node) &&
                 !vm_must_defer(vm)
             ? value_scalar(scalar_load(v.node->dtype, v.node->data->data))
             : v;
}

static Value map_values(Eval *vm, PrimId op, Dtype to, const Value *operands,
                        uint32_t n) {
  bool all_scalars = true;
  Value args[3];
  for (uint32_t i = 0; i < n; i++) {
    args[i] = materialized_scalar(vm, operands[i]);
    if (!value_is_tensor(args[i])) {
      if (op == PRIM_EQ || op == PRIM_NE)
        return value_bool(shapes_equal_or_fail(vm, operands[0], operands[1]) ==
                          (op == PRIM_EQ));
      vm_fail(vm, 599,
              "internal error in eval: an operand of %s is not a number",
              prim_info[op].name);
    }
    all_scalars = all_scalars && value_is_num(args[i]);
  }
  return all_scalars ? map_scalars(vm, op, to, args, n)
                     : map_nodes(vm, op, to, args, n);
}

/* The most frequent operations of scalar loops.  map_values does the others. */
#define FLOAT_FAST_PATH(t, x, y, make) \
  switch ((int)op) {                   \
  case PRIM_ADD:                       \
    return make((x) + (y));            \
  case PRIM_SUB:                       \
    return make((x) - (y));            \
  case PRIM_MUL:                       \
    return make((x) * (y));            \
  case PRIM_DIV:                       \
    return make((x) / (y));            \
  case PRIM_LT:                        \
    return value_bool((x) < (y));      \
  case PRIM_LE:                        \
    return value_bool((x) <= (y));     \
  case PRIM_GT:                        \
    return value_bool((x) > (y));      \
  case PRIM_GE:                        \
    return value_bool((x) >= (y));     \
  case PRIM_EQ:                        \
    return value_bool((x) == (y));     \
  case PRIM_NE:                        \
    return value_bool((x) != (y));     \
  }

#define MAKE_F32(v) ((Value){.tag = DT_F32, .f = (double)(float)(v)})
#define MAKE_F64(v) ((Value){.tag = DT_F64, .f = (v)})

Value vm_binary(Eval *vm, PrimId op, Value a, Value b) {
  if (a.tag == DT_F32 && b.tag == DT_F32)
    FLOAT_FAST_PATH(float, (float)a.f, (float)b.f, MAKE_F32)
  else if (a.tag == DT_F64 && b.tag == DT_F64)
    FLOAT_FAST_PATH(double, a.f, b.f, MAKE_F64)
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  Value args[2] = {a, b};
  Value r = map_values(vm, op, DT_NONE, args, 2);
  vm_drop_temps(vm, mark);
  return r;
}

Value prim_map(Eval *vm, const PrimSite *site, Value *args, uint32_t n) {
  if (n > 3)
    vm_fail(vm, 599, "internal error in eval: %s of %u arguments",
            prim_info[site->prim].name, n);
  Dtype to = site->prim == PRIM_CONVERT ? site->elem : DT_NONE;
  if (site->prim == PRIM_CONVERT && to == DT_NONE)
    to = DT_F32;
  return map_values(vm, site->prim, to, args, n);
}

/* ---- sizes: integers whose overflow is an error ---- */

static const char *const dim_op_name[] = {
    [DOP_ADD] = "+", [DOP_SUB] = "-",   [DOP_MUL] = "*",
    [DOP_DIV] = "/", [DOP_MIN] = "min", [DOP_MAX] = "max"};

static int64_t floor_div(int64_t x, int64_t y) {
  if (y == -1)
    return (int64_t) - (uint64_t)x;
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

/* The same for symbolic sizes.  Returns false if neither is symbolic. */
static bool dim_op_symbolic(Eval *vm, DimOpKind kind, Value a, Value b,
                            Value *out) {
  Graph *g = &vm->graph;
  int64_t x = a.i, y = b.i, r = 0;
  if ((a.tag != DT_I64 &&
       (a.tag != V_NODE || !node_to_extent(g, a.node, &x))) ||
      (b.tag != DT_I64 && (b.tag != V_NODE || !node_to_extent(g, b.node, &y))))
    return false;
  Fault fault = {0};
  bool ok = true;
  switch (kind) {
  case DOP_ADD:
    ok = extent_add(g, x, y, &r);
    break;
  case DOP_SUB:
    ok = extent_sub(g, x, y, &r);
    break;
  case DOP_MUL:
    ok = extent_mul(g, x, y, &r);
    break;
  case DOP_DIV:
    fault_set_kind(&fault, FAULT_ARITHMETIC, "a size is divided by zero");
    ok = extent_require(g, EXTENT_LE, 1, y, &fault) &&
         extent_floor_div(g, x, y, &r);
    break;
  case DOP_MIN:
    r = extent_min(g, x, y);
    break;
  case DOP_MAX:
    r = extent_max(g, x, y);
    break;
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
    break;
  }
  if (!ok)
    vm_fail(vm, 506, "a size cannot be computed: %s %s %s",
            extent_text(g, x).text, dim_op_name[kind], extent_text(g, y).text);
  *out = vm_value_of_size(vm, r);
  return true;
}

Value vm_dim_op(Eval *vm, DimOpKind kind, Value a, Value b) {
  static const PrimId prims[] = {
      [DOP_ADD] = PRIM_ADD, [DOP_SUB] = PRIM_SUB,     [DOP_MUL] = PRIM_MUL,
      [DOP_DIV] = PRIM_DIV, [DOP_MIN] = PRIM_MINIMUM, [DOP_MAX] = PRIM_MAXIMUM};
  Value symbolic;
  if (vm_is_aot_tracing(vm) && dim_op_symbolic(vm, kind, a, b, &symbolic))
    return symbolic;
  if (a.tag == V_NODE && !a.node->free_count)
    a = vm_concrete_scalar(vm, a);
  if (b.tag == V_NODE && !b.node->free_count)
    b = vm_concrete_scalar(vm, b);
  if (a.tag == V_NODE || b.tag == V_NODE)
    return vm_binary(vm, prims[kind], a, b);
  if (a.tag == V_UNIT || b.tag == V_UNIT)
    return value_unit(); /* a size that nothing determines */
  int64_t r = 0;
  bool overflows = false;
  switch (kind) {
  case DOP_ADD:
    overflows = __builtin_add_overflow(a.i, b.i, &r);
    break;
  case DOP_SUB:
    overflows = __builtin_sub_overflow(a.i, b.i, &r);
    break;
  case DOP_MUL:
    overflows = __builtin_mul_overflow(a.i, b.i, &r);
    break;
  case DOP_DIV:
    if (b.i == 0)
      vm_fail(vm, 506, "a size is divided by zero: %lld / 0", (long long)a.i);
    r = floor_div(a.i, b.i);
    break;
  case DOP_MIN:
    r = a.i < b.i ? a.i : b.i;
    break;
  case DOP_MAX:
    r = a.i > b.i ? a.i : b.i;
    break;
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
    break;
  }
  if (overflows)
    vm_fail(vm, 506, "a size does not fit in 64 bits: %lld %s %lld",
            (long long)a.i, dim_op_name[kind], (long long)b.i);
  return value_int(r);
}
