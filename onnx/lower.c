/* Nodes as operators.  Main entry point: node_value. */
#include "onnx/emit.h"
#include "session/state.h"
#include "support/arena_text.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OPERATOR_NAME = 32, MAX_OPERANDS = 3 };

/* ---- expressions of primitives/map.def ---- */

typedef struct Expression {
  Exporter *x;
  const char *at;
  Dtype dtype; /* of numbers */
  const Labeled *args;
} Expression;

static Labeled parse_expression(Expression *e);

static Labeled parse_call(Expression *e) {
  char name[MAX_OPERATOR_NAME];
  size_t len = strcspn(e->at, "(");
  Labeled operands[MAX_OPERANDS] = {{NULL, 0}};
  const char *names[MAX_OPERANDS] = {NULL};
  uint32_t count = 0;
  memcpy(name, e->at, len);
  name[len] = 0;
  for (e->at += len; *e->at != ')';) {
    e->at += strspn(e->at, "(, ");
    operands[count++] = parse_expression(e);
  }
  e->at++;
  uint32_t axes = align_axes(e->x, count, operands, names);
  return (Labeled){put_op(e->x, name, names[0], names[1], names[2]), axes};
}

static Labeled parse_expression(Expression *e) {
  if (*e->at == '$') {
    char letter = e->at[1];
    e->at += 2;
    return e->args[letter - 'x'];
  }
  if ((*e->at >= 'A' && *e->at <= 'Z'))
    return parse_call(e);
  char *end;
  double number = strtod(e->at, &end);
  Scalar value = {.dtype = e->dtype};
  e->at = end;
  if (dtype_is_float(e->dtype))
    value.f = dtype_round(e->dtype, number);
  else
    value.i = (int64_t)number;
  return (Labeled){put_scalar(e->x, value), 0};
}

Labeled put_expression(Exporter *x, const char *text, Dtype dtype,
                       uint32_t count, const Labeled *args) {
  Expression e = {x, text, dtype, args};
  (void)count;
  return parse_expression(&e);
}

/* ---- formulas ---- */

/* ---- shifts, which ONNX has for unsigned integers ---- */

static const char *put_number(Exporter *x, Dtype dtype, int64_t n) {
  return put_scalar(x, (Scalar){.dtype = dtype, .i = n});
}

static const char *put_shift(Exporter *x, const char *direction, Dtype dtype,
                             const char *value, const char *by) {
  const char *bits = put_unsigned(x, value, dtype);
  const char *count = put_unsigned(x, by, dtype);
  OpMessage *op = op_new(x, "BitShift");
  op_input(x, op, bits);
  op_input(x, op, count);
  op_string(x, op, "direction", direction);
  return put_cast(x, op_output(x, op), dtype);
}

/* Bits that leave the type are lost; x / 2^k rounds down: of a negative x, it
   is ~(~x / 2^k). */
static Labeled lower_shift(Exporter *x, Dtype dtype, bool is_left,
                           const Labeled *args) {
  const char *names[2];
  uint32_t axes = align_axes(x, 2, args, names);
  const char *value = names[0], *by = names[1];
  int64_t bits = 8 * (int64_t)dtype_info[dtype].bytes;
  if (is_left || dtype == DT_U8) {
    const char *shifted =
        put_shift(x, is_left ? "LEFT" : "RIGHT", dtype, value, by);
    const char *fits = put_op(x, "Less", by, put_number(x, dtype, bits), NULL);
    const char *zero = put_number(x, dtype, 0);
    return (Labeled){put_op(x, "Where", fits, shifted, zero), axes};
  }
  const char *negative =
      put_op(x, "Less", value, put_number(x, dtype, 0), NULL);
  const char *other = put_op(x, "BitwiseNot", value, NULL, NULL);
  value = put_op(x, "Where", negative, other, value);
  by = put_op(x, "Min", by, put_number(x, dtype, bits - 1), NULL);
  value = put_shift(x, "RIGHT", dtype, value, by);
  other = put_op(x, "BitwiseNot", value, NULL, NULL);
  return (Labeled){put_op(x, "Where", negative, other, value), axes};
}

static Labeled lower_op(Exporter *x, const AxisSizes *a, Formula *f) {
  Labeled args[MAX_OPERANDS];
  Dtype dtype = f->args[f->arg_count - 1]->dtype;
  const OnnxText *row = &map_info[f->op].onnx;
  const char *text = dtype_is_float(dtype) ? row->floats : row->integer;
  bool is_shift = f->op == PRIM_SHIFT_LEFT || f->op == PRIM_SHIFT_RIGHT;
  if (!text && !is_shift) {
    x->span = f->span.file ? f->span : x->span;
    export_fail(x, NULL, "ONNX has no operator for `%s` of %s",
                prim_info[f->op].name, dtype_info[dtype].name);
  }
  for (uint32_t k = 0; k < f->arg_count; k++)
    args[k] = lower_formula(x, a, f->args[k]);
  if (is_shift)
    return lower_shift(x, dtype, f->op == PRIM_SHIFT_LEFT, args);
  return put_expression(x, text, dtype, f->arg_count, args);
}

static Labeled lower_new(Exporter *x, const AxisSizes *a, Formula *f) {
  if (f->dim && f->dtype == DT_I64)
    return put_dim(x, a, f->dim);
  switch (f->kind) {
  case BODY_CONST:
    return (Labeled){put_scalar(x, f->value), 0};
  case BODY_READ:
    return lower_read(x, a, f);
  case BODY_OP:
    if (f->op == PRIM_SELECT)
      return lower_select(x, a, f);
    return lower_op(x, a, f);
  case BODY_SELECT:
    return lower_select(x, a, f);
  case BODY_CONVERT: {
    Labeled v = lower_formula(x, a, f->args[0]);
    v.name = put_cast(x, v.name, f->dtype);
    return v;
  }
  case BODY_EXTENT:
  case BODY_AXIS:
  case BODY_RANDOM:
    break;
  }
  export_fail(x, NULL, "an operation is unknown");
}

Labeled lower_formula(Exporter *x, const AxisSizes *a, Formula *f) {
  if (!f->has_result) {
    f->result = lower_new(x, a, f);
    f->has_result = true;
  }
  return f->result;
}

/* ---- reductions ---- */

static uint32_t axes_below(uint32_t count) {
  return count >= MAX_RANK ? ~0u : (1u << count) - 1;
}

static const char *put_reduction(Exporter *x, const char *op_type,
                                 const char *name, uint32_t axes,
                                 uint32_t reduced) {
  int64_t places[MAX_RANK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if (reduced >> k & 1)
      places[count++] = lower_axes(axes, k);
  OpMessage *op = op_new(x, op_type);
  op_input(x, op, name);
  op_input(x, op, put_list(x, count, places));
  op_int(x, op, "keepdims", 0);
  return op_output(x, op);
}

/* The index of an extreme; several axes become one. */
static Labeled reduce_place(Exporter *x, const AxisSizes *a, const Node *n,
                            Labeled v, uint32_t reduced) {
  uint32_t axes = v.axes | reduced;
  const char *name = expand_to(x, a, v, axes);
  if (n->reduce_count > 1) {
    int64_t sizes[MAX_RANK + 1], all = 1;
    uint32_t rank = 0;
    for (uint32_t k = 0; k < a->count; k++)
      if ((axes & ~reduced) >> k & 1)
        sizes[rank++] = a->extents[k];
      else if (reduced >> k & 1 &&
               !extent_mul(x->graph, all, a->extents[k], &all))
        export_fail(x, NULL, "a size is too large");
    sizes[rank++] = all;
    name = put_op(x, "Reshape", name, put_shape(x, rank, sizes), NULL);
  }
  OpMessage *op = op_new(x, reduce_info[n->reduce].onnx);
  op_input(x, op, name);
  op_int(x, op, "axis", -1);
  op_int(x, op, "keepdims", 0);
  return (Labeled){op_output(x, op), axes & ~reduced};
}

static Labeled lower_reduction(Exporter *x, const Node *n) {
  AxisSizes a = node_axes(n);
  const ReduceInfo *row = &reduce_info[n->reduce];
  uint32_t own = axes_below(n->free_count + n->rank);
  uint32_t reduced = axes_below(a.count) & ~own;
  Labeled v;
  if (!row->onnx)
    export_fail(x, NULL, "ONNX has no operator for `%s`",
                prim_info[n->reduce].name);
  Formula *f = node_formula(x, n, is_contraction(n));
  if (is_contraction(n) && lower_contraction(x, &a, own, f, &v))
    return v;
  v = lower_formula(x, &a, f);
  if (prim_is_arg_reduction(n->reduce))
    return reduce_place(x, &a, n, v, reduced);
  if (!(row->flags & REDUCE_IDEMPOTENT)) {
    v.name = expand_to(x, &a, v, v.axes | reduced);
    v.axes |= reduced;
  }
  reduced &= v.axes;
  if (!reduced)
    return v;
  bool is_bool = f->dtype == DT_BOOL;
  const char *name = is_bool ? put_cast(x, v.name, DT_I32) : v.name;
  name = put_reduction(x, row->onnx, name, v.axes, reduced);
  if (row->combine == PRIM_NE) /* true if the sum is odd */
    name = put_op(x, "Mod", name,
                  put_scalar(x, (Scalar){.dtype = DT_I32, .i = 2}), NULL);
  return (Labeled){is_bool ? put_cast(x, name, DT_BOOL) : name,
                   v.axes & ~reduced};
}

/* ---- nodes ---- */

AxisSizes node_axes(const Node *n) {
  AxisSizes a = {.count =
                     n->free_count + n->rank +
                     (n->kind == NODE_COMP && !n->data ? n->reduce_count : 0),
                 .is_guarded = n->guard != NULL};
  memcpy(a.extents, n->extents, a.count * sizeof a.extents[0]);
  return a;
}

static Labeled lower_comprehension(Exporter *x, const Node *n) {
  Labeled v;
  Dtype dtype;
  if (n->reduce != PRIM_NONE) {
    v = lower_reduction(x, n);
    dtype = prim_is_arg_reduction(n->reduce)
                ? DT_I64
                : n->body_ops[n->body_op_count - 1].dtype;
  } else {
    AxisSizes a = node_axes(n);
    Formula *f = node_formula(x, n, false);
    v = lower_formula(x, &a, f);
    dtype = f->dtype;
  }
  if (dtype != n->dtype)
    v.name = put_cast(x, v.name, n->dtype);
  return v;
}

static Labeled lower_node(Exporter *x, Node *n) {
  uint32_t all = axes_below(n->free_count + n->rank);
  if (n->data)
    return n->data->count == 1 && n->data->rank == 0
               ? (Labeled){put_scalar(x, scalar_load(n->dtype, n->data->data)),
                           0}
               : (Labeled){put_tensor(x, n->data), all};
  switch (n->kind) {
  case NODE_ARG:
    return (Labeled){x->trace->args[n->arg_index].name, all};
  case NODE_COMP:
    return lower_comprehension(x, n);
  case NODE_OPAQUE:
    return lower_opaque(x, n);
  case NODE_LOOP:
    return lower_loop(x, n);
  case NODE_DATA:
  case NODE_LOOP_CARRIED:
    break;
  }
  export_fail(x, NULL, "a loop reads a value of another loop");
}

Labeled node_value(Exporter *x, Node *n) {
  Scope *scope = x->scope;
  Span span = x->span;
  while (x->scope->parent && x->scope->depth > n->loop_depth)
    x->scope = x->scope->parent;
  Labeled *known = map_get(&x->scope->values, n);
  if (!known) {
    if (n->span.file)
      x->span = n->span;
    known = MAKE(x->arena, Labeled);
    *known = lower_node(x, n);
    map_put(&x->scope->values, n, known);
  }
  x->scope = scope;
  x->span = span;
  return *known;
}

const char *node_whole(Exporter *x, Node *n) {
  AxisSizes a = node_axes(n);
  uint32_t all = axes_below(n->free_count + n->rank);
  return expand_to(x, &a, node_value(x, n), all);
}
