/* Writes a function as an ONNX model.  Main entry point: onnx_export. */
#include "onnx/export.h"
#include "onnx/emit.h"
#include "onnx/pack.h"
#include "session/state.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

/* Operators are used as of this version. */
enum { IR_VERSION = 8, ALIGNMENT = 64 };
/* Larger weights are external: a message has at most 2 GB. */
static const size_t MAX_MESSAGE_WEIGHTS = (size_t)3 << 29;

/* ---- weights ---- */

static Onnx__StringStringEntryProto *entry(Exporter *x, const char *key,
                                           const char *value) {
  Onnx__StringStringEntryProto *e =
      MAKE(x->arena, Onnx__StringStringEntryProto);
  onnx__string_string_entry_proto__init(e);
  e->key = arena_strndup(x->arena, key, strlen(key));
  e->value = arena_strndup(x->arena, value, strlen(value));
  return e;
}

static void move_to_file(Exporter *x, Onnx__TensorProto *t, Buffer *data) {
  while (data->len % ALIGNMENT)
    buffer_putc(data, 0);
  t->n_external_data = 3;
  t->external_data = MAKE_ARRAY(x->arena, Onnx__StringStringEntryProto *, 3);
  t->external_data[0] = entry(x, "location", x->request->data_name);
  t->external_data[1] =
      entry(x, "offset", arena_printf(x->arena, "%zu", data->len));
  t->external_data[2] =
      entry(x, "length", arena_printf(x->arena, "%zu", t->raw_data.len));
  t->has_data_location = true;
  t->data_location = 1;
  buffer_add(data, (const char *)t->raw_data.data, t->raw_data.len);
  t->has_raw_data = false;
  t->raw_data = (ProtobufCBinaryData){0};
}

static void place_weights(Exporter *x, Buffer *data) {
  enum { MIN_EXTERNAL = 1024 };
  size_t bytes = 0;
  for (uint32_t k = 0; k < x->initializers.len; k++)
    bytes += x->initializers.at[k]->raw_data.len;
  if (!x->request->has_external_data && bytes <= MAX_MESSAGE_WEIGHTS)
    return;
  for (uint32_t k = 0; k < x->initializers.len; k++)
    if (x->initializers.at[k]->raw_data.len >= MIN_EXTERNAL)
      move_to_file(x, x->initializers.at[k], data);
}

/* ---- the graph ---- */

static Onnx__GraphProto *write_graph(Exporter *x) {
  Trace *t = x->trace;
  Onnx__ValueInfoProto **outputs =
      MAKE_ARRAY(x->arena, Onnx__ValueInfoProto *, t->result_count + 1);
  Onnx__ValueInfoProto **inputs =
      MAKE_ARRAY(x->arena, Onnx__ValueInfoProto *, t->arg_count + 1);
  for (uint32_t k = 0; k < t->arg_count; k++)
    inputs[k] = value_info(x, t->args[k].name, t->args[k].dtype,
                           t->args[k].rank, t->args[k].shape);
  for (uint32_t k = 0; k < t->result_count; k++) {
    Node *n = settled_node(x, t->results[k].node);
    OpMessage *op = op_new(x, "Identity");
    op_input(x, op, node_whole(x, n));
    op_output(x, op);
    const char *name = t->results[k].name;
    op->output[0] = *name ? arena_printf(x->arena, "out.%s", name)
                          : arena_printf(x->arena, "out");
    outputs[k] = value_info(x, op->output[0], n->dtype, n->rank, n->extents);
  }
  Onnx__GraphProto *g = graph_message(x, x->main.graph, t->name);
  g->n_input = t->arg_count;
  g->input = inputs;
  g->n_output = t->result_count;
  g->output = outputs;
  g->n_initializer = x->initializers.len;
  g->initializer = x->initializers.at;
  graph_drop_unused(x, g);
  return g;
}

static void write_model(Exporter *x, Buffer *model, Buffer *data) {
  Onnx__OperatorSetIdProto opset, *opsets[] = {&opset};
  Onnx__ModelProto m;
  Fault fault = {0};
  onnx__operator_set_id_proto__init(&opset);
  opset.domain = arena_printf(x->arena, "%s", "");
  opset.has_version = true;
  onnx__model_proto__init(&m);
  m.has_ir_version = true;
  m.producer_name = arena_printf(x->arena, "axon");
  m.graph = write_graph(x);
  opset.version = x->opset;
  m.ir_version = IR_VERSION + x->opset - ONNX_OPSET;
  m.n_opset_import = 1;
  m.opset_import = opsets;
  place_weights(x, data);
  if (!onnx_pack(&m, model, &fault))
    export_fail(x, fault.help, "%s", fault.message);
}

static void begin_export(Exporter *x, ModelGraph *graph) {
  map_init(&x->constants, x->arena);
  map_init(&x->transposes, x->arena);
  map_init(&x->main.values, x->arena);
  map_init(&x->main.sizes, x->arena);
  map_init(&x->main.loops, x->arena);
  x->main.graph = graph;
  x->opset = ONNX_OPSET;
  x->scope = &x->main;
  for (uint32_t k = 0; k < MAX_RANK; k++)
    x->axis_vars[k] = dim_new_var(x->dims, DV_INDEX, NULL, (Span){0});
}

static void end_export(Exporter *x) {
  for (uint32_t k = 0; k < x->tensors.len; k++)
    tensor_release(x->tensors.at[k]);
  for (uint32_t k = 0; k < x->nodes.len; k++)
    node_release(x->nodes.at[k]);
}

/* ---- entry ---- */

typedef struct ExportCall {
  const SourceInput *text;
  const ExportRequest *request;
  Buffer *model, *data;
} ExportCall;

static SessionStatus write_trace(Session *s, const ExportCall *call,
                                 Trace *trace) {
  Exporter *x = MAKE(s->arena, Exporter);
  ModelGraph graph = {0};
  x->session = s;
  x->arena = s->arena;
  x->request = call->request;
  x->trace = trace;
  x->graph = &trace->graph;
  x->dims = &s->dims;
  x->interner = s->interner;
  begin_export(x, &graph);
  bool ok = setjmp(x->failed) == 0;
  if (ok)
    write_model(x, call->model, call->data);
  end_export(x);
  return ok ? SESSION_OK : SESSION_ERROR;
}

static SessionStatus export_entry(Session *s, const ExportCall *call) {
  const char *entry = call->request->entry;
  EntryNames names = trace_entry_names(s, entry ? 1 : 0, &entry);
  if (names.names.len != 1) {
    Buffer list = {.arena = s->arena};
    for (uint32_t k = 0; k < names.names.len; k++)
      buffer_printf(&list, k ? ", %s" : "%s", names.names.at[k]);
    session_error(s, 610, (Span){0},
                  names.names.len ? "give the function: --entry NAME"
                                  : "no function can be exported: give "
                                    "one and its type with --entry")
        ->note =
        list.len ? arena_printf(s->arena, "functions: %s", list.text) : NULL;
    return SESSION_ERROR;
  }
  Trace trace;
  SessionStatus status = trace_function(s, names.names.at[0], &trace);
  if (status != SESSION_OK)
    return status;
  status = write_trace(s, call, &trace);
  trace_free(s, &trace);
  return status;
}

static SessionStatus export_protected(Session *s, void *arg) {
  const ExportCall *call = arg;
  SessionStatus status = session_check(s, call->text);
  if (status == SESSION_OK)
    status = export_entry(s, call);
  session_discard_pending(s);
  return status;
}

SessionStatus onnx_export(Session *s, const SourceInput *text,
                          const ExportRequest *request, Buffer *model,
                          Buffer *data) {
  ExportCall call = {text, request, model, data};
  return session_protected_call(s, export_protected, &call);
}
