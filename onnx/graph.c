/* Walks the graph and puts the program together.  Main entry point:
   onnx_import. */
#include "onnx/ops.h"
#include "support/trap.h"

#include <stdio.h>
#include <string.h>

enum { MAX_GRAPH_DEPTH = 16, MAX_NAME = 200 };

static ImportSetting *find_setting(Importer *im, const char *name) {
  for (uint32_t i = 0; i < im->request->setting_count; i++)
    if (strcmp(im->request->settings[i].name, name) == 0)
      return &im->request->settings[i];
  return NULL;
}

/* The size of a name in the file: a number if --set gives it. */
static Dim *named_size(Importer *im, const char *name) {
  Sym *sym = intern_string(im->interner, name);
  Dim *d = map_get(&im->sizes, sym);
  ImportSetting *setting = find_setting(im, name);
  if (!d && setting && !setting->is_list) {
    setting->used = true;
    d = num(im, setting->values[0]);
  }
  if (!d)
    d = new_size(im, name);
  map_put(&im->sizes, sym, d);
  return d;
}

static Dim *input_size(Importer *im, const char *input, uint32_t axis,
                       const Onnx__Dimension *d) {
  if (d->has_dim_value && d->dim_value < 0)
    import_fail(im, NULL, "the input `%.80s` has a negative size", input);
  if (d->has_dim_value)
    return num(im, d->dim_value);
  if (d->dim_param && d->dim_param[0])
    return named_size(im, d->dim_param);
  Dim *size =
      named_size(im, text(im, "%s_%s%u", input, axis ? "size" : "batch", axis));
  VEC_PUSH(im->arena, im->undetermined,
           text(im, "the input `%.80s` has no size at axis %u: %s here", input,
                axis, extent_source(im, size)));
  return size;
}

static Value *input_value(Importer *im, const ValueInfo *info) {
  const char *name = info->name ? info->name : "";
  const Onnx__TypeProtoTensor *type =
      info->type ? info->type->tensor_type : NULL;
  if (!type)
    import_fail(im, NULL, "the input `%.80s` is no tensor", name);
  Dtype dtype = require_dtype(im, type->elem_type, "input", name);
  if (!type->shape)
    import_fail(im, "the model must state its rank",
                "the input `%.80s` has no shape", name);
  Value *v = MAKE(im->arena, Value);
  v->onnx_name = name;
  v->dtype = dtype;
  if (type->shape->n_dim > MAX_RANK)
    import_fail(im, NULL, "the input `%.80s` has too many axes", name);
  v->shape.rank = (uint32_t)type->shape->n_dim;
  for (uint32_t k = 0; k < v->shape.rank; k++)
    v->shape.dims[k] = input_size(im, name, k, type->shape->dim[k]);
  return v;
}

/* An input that --set makes a constant. */
static Value *set_input(Importer *im, const ImportSetting *s, Value *v) {
  if (s->is_list ? v->shape.rank != 1 : v->shape.rank > 1)
    import_fail(im,
                "a list such as 1,2 is for an input with one axis; "
                "brackets make a list of one number: [1]",
                "--set %s=... does not have the rank of this input", s->name);
  Shape shape = {.rank = v->shape.rank};
  int64_t sizes[1] = {s->count};
  if (shape.rank)
    shape.dims[0] = num(im, s->count);
  Tensor *t = constant_tensor(im, v->dtype, shape.rank, sizes);
  for (uint32_t i = 0; i < s->count; i++)
    scalar_store(
        scalar_convert((Scalar){.dtype = DT_I64, .i = s->values[i]}, v->dtype),
        tensor_at(t, i));
  return constant_value(im, v->onnx_name, t);
}

/* ---- nodes ---- */

static bool is_core_domain(const Node *node) {
  return !node->domain || !node->domain[0] ||
         strcmp(node->domain, "ai.onnx") == 0;
}

static void check_node(Importer *im, const Node *node) {
  for (size_t i = 0; i < node->n_input; i++)
    if (strlen(node->input[i]) > 4096)
      import_fail(im, NULL, "a name is too long");
  if (!node->op_type)
    import_fail(im, NULL, "it has no operator");
  if (node->n_output == 0)
    import_fail(im, NULL, "it has no outputs");
  if (!is_core_domain(node))
    import_fail(im, NULL, "operators of the domain `%.60s` are not supported",
                node->domain);
}

static void import_node(Importer *im, const Node *node) {
  im->node = node;
  if (import_call(im, node))
    return;
  check_node(im, node);
  const Op *op = op_by_name(node->op_type);
  if (!op)
    import_fail(im,
                "export the model without it, or replace the node by other "
                "operators (doc/onnx.md lists those that are supported)",
                "this operator is not supported");
  if (im->opset < op->since)
    import_fail(im, "convert the model with onnx.version_converter",
                "its meaning before opset %d is not supported", op->since);
  uint32_t from = im->statements.len;
  if (!fold_constants(im))
    op->emit(im, op->how);
  for (uint32_t i = from; i < im->statements.len; i++)
    if (!im->statements.at[i].node)
      im->statements.at[i].node = node;
}

void import_nodes(Importer *im, const Graph *graph) {
  const Node *outer = im->node;
  if (++im->depth > MAX_GRAPH_DEPTH)
    import_fail(im, NULL, "graphs are nested too deeply");
  for (size_t i = 0; i < graph->n_initializer; i++) {
    const TensorMessage *m = graph->initializer[i];
    const char *name = m->name ? m->name : "";
    bind_value(im, name, constant_value(im, name, read_tensor(im, m, name)));
  }
  for (size_t i = 0; i < graph->n_node; i++)
    import_node(im, graph->node[i]);
  im->node = outer;
  im->depth--;
}

/* ---- what the file says about results ---- */

/* A size that the file states as a number; of an output of the model, also one
   that it states by the name of a size of the inputs. */
static Dim *stated_size(Importer *im, const Onnx__Dimension *d,
                        bool is_output) {
  if (d->has_dim_value)
    return num(im, d->dim_value);
  if (!is_output || !d->dim_param)
    return NULL;
  return map_get(&im->sizes, intern_string(im->interner, d->dim_param));
}

static void check_result(Importer *im, const ValueInfo *info, bool is_output) {
  const char *name = info->name ? info->name : "";
  const Onnx__TypeProtoTensor *type =
      info->type ? info->type->tensor_type : NULL;
  Value *v = find_value(im, name);
  if (!v || !type)
    return;
  Dtype dtype = dtype_of_onnx(type->elem_type);
  if (dtype && dtype != v->dtype)
    import_fail(im, NULL, "the file says that `%.80s` is %s, but it is %s",
                name, dtype_info[dtype].name, dtype_info[v->dtype].name);
  if (!type->shape)
    return;
  if (type->shape->n_dim != v->shape.rank)
    import_fail(im, NULL,
                "the file says that `%.80s` has %zu axes, but it has %u", name,
                type->shape->n_dim, v->shape.rank);
  for (uint32_t k = 0; k < v->shape.rank; k++) {
    Dim *size = v->shape.dims[k];
    Dim *stated = stated_size(im, type->shape->dim[k], is_output);
    if (stated && !dim_equal(stated, size) && (is_output || dim_is_const(size)))
      import_fail(im, NULL,
                  "the file says that `%.80s` has the size %s at axis %u, but "
                  "it has %s",
                  name, extent_source(im, stated), k, extent_source(im, size));
  }
}

static void check_results(Importer *im, const Graph *graph) {
  for (size_t i = 0; i < graph->n_value_info; i++)
    check_result(im, graph->value_info[i], false);
  for (size_t i = 0; i < graph->n_output; i++)
    check_result(im, graph->output[i], true);
}

/* ---- the program ---- */

/* One that decides sizes has no type: its type then names its value, so what
   must hold for it stands in the type of `model`. */
static void put_parameter(Importer *im, Buffer *out, const Value *v) {
  const char *type = dtype_info[v->dtype].name;
  if (v->is_size)
    buffer_printf(out, " %s", v->text);
  else
    buffer_printf(out, " (%s : %s%s)", v->text, type,
                  v->shape.rank ? sizes_text(im, &v->shape) : "[]");
}

static const char *parameters_text(Importer *im) {
  Buffer out = {.arena = im->arena};
  if (im->seed)
    buffer_printf(&out, " ~%s:(%s = 0)", im->seed, im->seed);
  for (uint32_t i = 0; i < im->parameters.len; i++)
    put_parameter(im, &out, im->parameters.at[i]);
  if (!im->parameters.len)
    buffer_puts(&out, " ()");
  return out.text;
}

static void bind_inputs(Importer *im, const Graph *graph) {
  for (size_t i = 0; i < graph->n_input; i++) {
    const char *name = graph->input[i]->name ? graph->input[i]->name : "";
    if (find_value(im, name))
      continue; /* an initializer */
    Value *v = input_value(im, graph->input[i]);
    ImportSetting *setting = find_setting(im, name);
    if (setting) {
      setting->used = true;
      bind_value(im, name, set_input(im, setting, v));
      continue;
    }
    v->text = make_identifier(im, name, "x", 30);
    VEC_PUSH(im->arena, im->parameters, v);
    bind_value(im, name, v);
  }
}

static const char *result_text(Importer *im, const Graph *graph) {
  Buffer out = {.arena = im->arena};
  for (size_t i = 0; i < graph->n_output; i++) {
    const char *name = graph->output[i]->name ? graph->output[i]->name : "";
    Value *v = find_value(im, name);
    if (!v)
      import_fail(im, NULL, "no node computes the output `%.80s`", name);
    if (i > 0)
      buffer_puts(&out, ", ");
    buffer_puts(&out, ref(im, plain(im, v)));
  }
  if (graph->n_output == 1)
    return out.text;
  return text(im, "(%s)", out.len ? out.text : "");
}

static void put_statements(Buffer *out, const Statement *at, uint32_t count,
                           const char *indent) {
  for (uint32_t i = 0; i < count; i++)
    if (at[i].name)
      buffer_printf(out, "%sval %s = %s\n", indent, at[i].name, at[i].text);
}

static const char *const helpers[] = {
#define H(name, function, text) [HELPER_##name] = text,
#include "onnx/helpers.def"
#undef H
};

void use_helper(Importer *im, enum Helper helper) {
  im->helpers |= 1u << helper;
}

/* Where the statements of `model` begin, from `start` on. */
static void locate_statements(Importer *im, size_t start, const char *indent,
                              ImportedModel *out) {
  ImportedStatement *all =
      MAKE_ARRAY(im->arena, ImportedStatement, im->statements.len + 1);
  out->statements = all;
  for (uint32_t i = 0; i < im->statements.len; i++) {
    const Statement *s = &im->statements.at[i];
    if (!s->name)
      continue;
    all[out->statement_count].start = (uint32_t)start;
    all[out->statement_count++].node = s->node ? node_label(im, s->node) : NULL;
    start += strlen(indent) + strlen("val  = \n") + strlen(s->name) +
             strlen(s->text);
  }
}

static void put_program(Importer *im, const char *result,
                        ImportedModel *model) {
  Buffer out = {.arena = im->arena};
  buffer_printf(&out, "(* from %.*s, by axon import *)\n\n", MAX_NAME,
                im->request->model_name);
  if (im->uses_linalg)
    buffer_puts(&out, "import linalg\n");
  if (im->uses_nn)
    buffer_puts(&out, "import nn\n");
  if (im->uses_random)
    buffer_puts(&out, "import random\n");
  if (im->uses_linalg || im->uses_nn || im->uses_random)
    buffer_putc(&out, '\n');
  put_statements(&out, im->loads.at, im->loads.len, "");
  put_statements(&out, im->records.at, im->records.len, "");
  if (im->loads.len)
    buffer_putc(&out, '\n');
  for (size_t i = 0; i < ARRAY_LEN(helpers); i++)
    if (im->helpers >> i & 1)
      buffer_puts(&out, helpers[i]);
  if (im->functions.len)
    buffer_puts(&out, im->functions.text);
  buffer_printf(&out, "fun model%s =\n", parameters_text(im));
  if (im->statements.len) {
    buffer_puts(&out, "  let\n");
    if (im->request->is_check)
      locate_statements(im, out.len, "    ", model);
    put_statements(&out, im->statements.at, im->statements.len, "    ");
    buffer_printf(&out, "  in\n    %s\n  end\n", result);
  } else
    buffer_printf(&out, "  %s\n", result);
  model->program = out.text;
}

/* ---- entry ---- */

int64_t find_opset(size_t count, Onnx__OperatorSetIdProto *const *sets) {
  int64_t opset = 1;
  for (size_t i = 0; i < count; i++) {
    const char *domain = sets[i]->domain;
    if (!domain || !domain[0] || strcmp(domain, "ai.onnx") == 0)
      opset = sets[i]->version;
  }
  return opset;
}

static void import_model(Importer *im, const Model *model, ImportedModel *out) {
  const Graph *graph = model->graph;
  im->model = model;
  im->opset = find_opset(model->n_opset_import, model->opset_import);
  for (size_t i = 0; i < graph->n_initializer; i++) {
    const TensorMessage *m = graph->initializer[i];
    const char *name = m->name ? m->name : "";
    bind_value(im, name, constant_value(im, name, read_tensor(im, m, name)));
  }
  bind_inputs(im, graph);
  Graph nodes = *graph;
  nodes.n_initializer = 0;
  import_nodes(im, &nodes);
  im->node = NULL;
  if (im->request->checks_results)
    check_results(im, graph);
  const char *result = result_text(im, graph);
  for (uint32_t i = 0; i < im->request->setting_count; i++)
    if (!im->request->settings[i].used)
      import_fail(im, NULL, "--set %s: the model has no such input or size",
                  im->request->settings[i].name);
  if (!im->request->is_check)
    make_blocks(im, result);
  put_program(im, result, out);
  out->weight_names = im->weight_names.at;
  out->weights = im->weights.at;
  out->weight_count = im->weights.len;
  out->undetermined = im->undetermined.at;
  out->undetermined_count = im->undetermined.len;
}

static void release_tensors(Importer *im, const ImportedModel *kept) {
  for (uint32_t i = 0; i < kept->weight_count; i++)
    tensor_retain(kept->weights[i]);
  for (uint32_t i = 0; i < im->tensors.len; i++)
    tensor_release(im->tensors.at[i]);
}

typedef struct ImportCall {
  Arena *arena;
  const void *bytes;
  size_t len;
  const ImportRequest *request;
  ImportedModel *out;
  Fault *fault;
  Importer *importer; /* NULL until the model was read */
  bool ok;
} ImportCall;

static bool run_import(ImportCall *call) {
  Model *model = model_read(call->arena, call->bytes, call->len, call->fault);
  if (!model)
    return false;
  Importer *im = MAKE(call->arena, Importer);
  im->arena = call->arena;
  im->request = call->request;
  im->dims.arena = call->arena;
  im->interner = interner_new(call->arena);
  im->fault = call->fault;
  im->functions.arena = call->arena;
  map_init(&im->values, call->arena);
  map_init(&im->sizes, call->arena);
  map_init(&im->used_names, call->arena);
  map_init(&im->lists, call->arena);
  call->importer = im;
  if (setjmp(im->failed) != 0)
    return false;
  import_model(im, model, call->out);
  return true;
}

/* Too long polynomials and lack of memory unwind to here. */
bool onnx_import(Arena *arena, const void *bytes, size_t len,
                 const ImportRequest *request, ImportedModel *out,
                 Fault *fault) {
  ImportCall call = {arena, bytes, len, request, out, fault, NULL, false};
  Trap trap;
  *out = (ImportedModel){0};
  fault->help[0] = 0;
  if (TRAP_SET(trap) == FAIL_NONE) {
    call.ok = run_import(&call);
    trap_end(&trap);
  } else {
    fault_set(fault, trap.kind == FAIL_MEMORY
                         ? "the model does not fit into memory"
                         : "the sizes in the model are too complicated");
  }
  if (!call.ok)
    *out = (ImportedModel){0};
  if (call.importer)
    release_tensors(call.importer, out);
  return call.ok;
}
