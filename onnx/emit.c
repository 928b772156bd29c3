/* Operators and constants of a model. */
#include "onnx/emit.h"
#include "session/state.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* AttributeProto.AttributeType */
enum { TYPE_INT = 2, TYPE_STRING = 3, TYPE_GRAPH = 5, TYPE_INTS = 7 };

void export_fail(Exporter *x, const char *help, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(x->arena, format, args);
  va_end(args);
  Span span = x->span.file ? x->span : x->trace->span;
  Diag *d = session_error(x->session, 616, span, "%s cannot be exported: %s",
                          x->trace->name, message);
  d->help = help;
  longjmp(x->failed, 1);
}

static char *own_text(Exporter *x, const char *text) {
  return arena_strndup(x->arena, text, strlen(text));
}

/* ---- operators ---- */

OpMessage *op_new(Exporter *x, const char *op_type) {
  OpMessage *op = MAKE(x->arena, OpMessage);
  onnx__node_proto__init(op);
  op->op_type = own_text(x, op_type);
  return op;
}

void op_input(Exporter *x, OpMessage *op, const char *name) {
  char **inputs = MAKE_ARRAY(x->arena, char *, op->n_input + 1);
  if (op->n_input)
    memcpy(inputs, op->input, op->n_input * sizeof *inputs);
  inputs[op->n_input++] = own_text(x, name);
  op->input = inputs;
}

static Onnx__AttributeProto *add_attribute(Exporter *x, OpMessage *op,
                                           const char *name, int32_t type) {
  Onnx__AttributeProto *a = MAKE(x->arena, Onnx__AttributeProto);
  onnx__attribute_proto__init(a);
  a->name = own_text(x, name);
  a->has_type = true;
  a->type = type;
  Onnx__AttributeProto **all =
      MAKE_ARRAY(x->arena, Onnx__AttributeProto *, op->n_attribute + 1);
  if (op->n_attribute)
    memcpy(all, op->attribute, op->n_attribute * sizeof *all);
  all[op->n_attribute++] = a;
  op->attribute = all;
  return a;
}

void op_int(Exporter *x, OpMessage *op, const char *name, int64_t value) {
  Onnx__AttributeProto *a = add_attribute(x, op, name, TYPE_INT);
  a->has_i = true;
  a->i = value;
}

void op_ints(Exporter *x, OpMessage *op, const char *name, uint32_t count,
             const int64_t *values) {
  Onnx__AttributeProto *a = add_attribute(x, op, name, TYPE_INTS);
  a->n_ints = count;
  a->ints = MAKE_ARRAY(x->arena, int64_t, count + 1);
  memcpy(a->ints, values, count * sizeof *values);
}

void op_string(Exporter *x, OpMessage *op, const char *name,
               const char *value) {
  Onnx__AttributeProto *a = add_attribute(x, op, name, TYPE_STRING);
  a->has_s = true;
  a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)own_text(x, value)};
}

void op_graph(Exporter *x, OpMessage *op, const char *name,
              Onnx__GraphProto *graph) {
  add_attribute(x, op, name, TYPE_GRAPH)->g = graph;
}

static bool is_placed(const Exporter *x, const OpMessage *op) {
  const ModelGraph *g = x->scope->graph;
  return g->ops.len && g->ops.at[g->ops.len - 1] == op;
}

const char *op_output(Exporter *x, OpMessage *op) {
  if (!is_placed(x, op))
    VEC_PUSH(x->arena, x->scope->graph->ops, op);
  char *name = arena_printf(x->arena, "%s_%u", op->op_type, ++x->name_count);
  char **outputs = MAKE_ARRAY(x->arena, char *, op->n_output + 1);
  if (op->n_output)
    memcpy(outputs, op->output, op->n_output * sizeof *outputs);
  outputs[op->n_output++] = name;
  op->output = outputs;
  if (!op->name)
    op->name = name;
  return name;
}

const char *put_op(Exporter *x, const char *op_type, const char *a,
                   const char *b, const char *c) {
  OpMessage *op = op_new(x, op_type);
  if (a)
    op_input(x, op, a);
  if (b)
    op_input(x, op, b);
  if (c)
    op_input(x, op, c);
  return op_output(x, op);
}

typedef struct Transposed {
  const char *from;
  int64_t perm[2 * MAX_RANK];
} Transposed;

const char *put_transpose(Exporter *x, const char *name, uint32_t count,
                          const int64_t *perm) {
  const Transposed *before =
      map_get(&x->transposes, intern_string(x->interner, name));
  Transposed *t = MAKE(x->arena, Transposed);
  bool is_same = true;
  t->from = before ? before->from : name;
  for (uint32_t k = 0; k < count; k++) {
    t->perm[k] = before ? before->perm[perm[k]] : perm[k];
    is_same &= t->perm[k] == k;
  }
  if (is_same)
    return t->from;
  OpMessage *op = op_new(x, "Transpose");
  op_input(x, op, t->from);
  op_ints(x, op, "perm", count, t->perm);
  const char *output = op_output(x, op);
  map_put(&x->transposes, intern_string(x->interner, output), t);
  return output;
}

const char *put_cast(Exporter *x, const char *value, Dtype to) {
  OpMessage *op = op_new(x, "Cast");
  op_input(x, op, value);
  op_int(x, op, "to", onnx_type_of(x, to));
  if (to == DT_F8_E5M2) /* beyond the greatest number is infinity */
    op_int(x, op, "saturate", 0);
  return op_output(x, op);
}

const char *put_unsigned(Exporter *x, const char *value, Dtype dtype) {
  enum { UINT8 = 2, UINT32 = 12, UINT64 };
  uint32_t bytes = dtype_info[dtype].bytes;
  OpMessage *op = op_new(x, "Cast");
  op_input(x, op, value);
  op_int(x, op, "to", bytes == 1 ? UINT8 : bytes == 4 ? UINT32 : UINT64);
  return op_output(x, op);
}

/* ---- constants ---- */

int32_t onnx_type_of(Exporter *x, Dtype dtype) {
  static const int32_t types[DT_COUNT] = {
      [DT_F32] = 1,   [DT_U8] = 2,       [DT_I8] = 3,       [DT_I32] = 6,
      [DT_I64] = 7,   [DT_BOOL] = 9,     [DT_F16] = 10,     [DT_F64] = 11,
      [DT_BF16] = 16, [DT_F8_E4M3] = 17, [DT_F8_E5M2] = 19,
  };
  if (!types[dtype])
    export_fail(x, "convert it, for example to f8_e4m3 or f32",
                "models of opset %d have no element type %s",
                ONNX_OPSET_WITH_F8, dtype_info[dtype].name);
  if (dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2)
    x->opset = ONNX_OPSET_WITH_F8;
  return types[dtype];
}

const char *put_tensor(Exporter *x, Tensor *t) {
  Onnx__TensorProto *m = MAKE(x->arena, Onnx__TensorProto);
  onnx__tensor_proto__init(m);
  m->n_dims = t->rank;
  m->dims = t->shape;
  m->has_data_type = true;
  m->data_type = onnx_type_of(x, t->dtype);
  m->has_raw_data = true;
  m->raw_data.len = (size_t)t->count * dtype_info[t->dtype].bytes;
  m->raw_data.data = t->data;
  m->name = arena_printf(x->arena, "Constant_%u", ++x->name_count);
  VEC_PUSH(x->arena, x->tensors, t);
  tensor_retain(t);
  VEC_PUSH(x->arena, x->initializers, m);
  return m->name;
}

static const char *new_constant(Exporter *x, Dtype dtype, uint32_t rank,
                                int64_t count, const Scalar *values) {
  Fault fault = {0};
  Tensor *t = tensor_new(dtype, rank, &count, false, &fault);
  if (!t)
    export_fail(x, NULL, "%s", fault.message);
  for (int64_t i = 0; i < count; i++)
    scalar_store(values[i], tensor_at(t, i));
  const char *name = put_tensor(x, t);
  tensor_release(t);
  return name;
}

/* One constant for each value. */
static const char **constant_slot(Exporter *x, const char *key) {
  Sym *sym = intern_string(x->interner, key);
  const char **slot = map_get(&x->constants, sym);
  if (!slot) {
    slot = MAKE(x->arena, const char *);
    map_put(&x->constants, sym, slot);
  }
  return slot;
}

const char *put_scalar(Exporter *x, Scalar v) {
  uint64_t bits;
  memcpy(&bits, dtype_is_float(v.dtype) ? (void *)&v.f : (void *)&v.i,
         sizeof bits);
  const char **slot =
      constant_slot(x, arena_printf(x->arena, "scalar %d %llx", (int)v.dtype,
                                    (unsigned long long)bits));
  if (!*slot)
    *slot = new_constant(x, v.dtype, 0, 1, &v);
  return *slot;
}

const char *put_int(Exporter *x, int64_t value) {
  return put_scalar(x, (Scalar){.dtype = DT_I64, .i = value});
}

const char *put_list(Exporter *x, uint32_t count, const int64_t *values) {
  Buffer key = {.arena = x->arena};
  Scalar *scalars = MAKE_ARRAY(x->arena, Scalar, count + 1);
  buffer_puts(&key, "list");
  for (uint32_t k = 0; k < count; k++) {
    buffer_printf(&key, " %lld", (long long)values[k]);
    scalars[k] = (Scalar){.dtype = DT_I64, .i = values[k]};
  }
  const char **slot = constant_slot(x, key.text);
  if (!*slot)
    *slot = new_constant(x, DT_I64, 1, count, scalars);
  return *slot;
}

/* ---- graphs ---- */

/* A symbolic size is named as Axon prints it: n, or n + 1. */
Onnx__ValueInfoProto *value_info(Exporter *x, const char *name, Dtype dtype,
                                 uint32_t rank, const int64_t *extents) {
  Onnx__ValueInfoProto *info = MAKE(x->arena, Onnx__ValueInfoProto);
  Onnx__TypeProto *type = MAKE(x->arena, Onnx__TypeProto);
  Onnx__TypeProtoTensor *tensor = MAKE(x->arena, Onnx__TypeProtoTensor);
  Onnx__TensorShapeProto *shape = MAKE(x->arena, Onnx__TensorShapeProto);
  onnx__value_info_proto__init(info);
  onnx__type_proto__init(type);
  onnx__type_proto_tensor__init(tensor);
  onnx__tensor_shape_proto__init(shape);
  info->name = own_text(x, name);
  info->type = type;
  type->tensor_type = tensor;
  tensor->has_elem_type = true;
  tensor->elem_type = onnx_type_of(x, dtype);
  tensor->shape = shape;
  shape->n_dim = rank;
  shape->dim = MAKE_ARRAY(x->arena, Onnx__Dimension *, rank + 1);
  for (uint32_t k = 0; k < rank; k++) {
    Onnx__Dimension *d = shape->dim[k] = MAKE(x->arena, Onnx__Dimension);
    onnx__dimension__init(d);
    int64_t n = known_extent(x, extents[k]);
    d->has_dim_value = n >= 0;
    d->dim_value = n;
    if (n < 0)
      d->dim_param = own_text(x, extent_text(x->graph, extents[k]).text);
  }
  return info;
}

static void note_uses(Exporter *x, Map *used, const OpMessage *op) {
  for (size_t k = 0; k < op->n_input; k++)
    map_put(used, intern_string(x->interner, op->input[k]), used);
  for (size_t k = 0; k < op->n_attribute; k++) {
    const Onnx__GraphProto *body = op->attribute[k]->g;
    for (size_t i = 0; body && i < body->n_node; i++)
      note_uses(x, used, body->node[i]);
    for (size_t i = 0; body && i < body->n_output; i++)
      map_put(used, intern_string(x->interner, body->output[i]->name), used);
  }
}

static bool has_use(Exporter *x, const Map *used, const OpMessage *op) {
  for (size_t k = 0; k < op->n_output; k++)
    if (map_get(used, intern_string(x->interner, op->output[k])))
      return true;
  return false;
}

void graph_drop_unused(Exporter *x, Onnx__GraphProto *g) {
  Map used;
  size_t kept = g->n_node;
  map_init(&used, x->arena);
  for (size_t k = 0; k < g->n_output; k++)
    map_put(&used, intern_string(x->interner, g->output[k]->name), g);
  for (size_t k = g->n_node; k-- > 0;)
    if (has_use(x, &used, g->node[k])) {
      note_uses(x, &used, g->node[k]);
      g->node[--kept] = g->node[k];
    }
  g->node += kept;
  g->n_node -= kept;
}

Onnx__GraphProto *graph_message(Exporter *x, const ModelGraph *graph,
                                const char *name) {
  Onnx__GraphProto *g = MAKE(x->arena, Onnx__GraphProto);
  onnx__graph_proto__init(g);
  g->name = own_text(x, name);
  g->n_node = graph->ops.len;
  g->node = graph->ops.at;
  return g;
}
