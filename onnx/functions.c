/* Functions of a model (FunctionProto).  A call is replaced by the nodes of the
 * function: the names of its inputs and outputs become those of the call, other
 * names get a prefix, and references to attributes the attributes. */
#include "onnx/internal.h"

#include <string.h>

/* Functions that call each other often would fill the memory. */
enum { MAX_COPIED = 2000000, MAX_NAME_BYTES = 4096 };

typedef Onnx__FunctionProto Function;

typedef struct Call {
  Importer *im;
  const Node *node;
  const Function *function;
  const char *prefix; /* of names inside */
} Call;

static bool same_text(const char *x, const char *y) {
  return strcmp(x ? x : "", y ? y : "") == 0;
}

static const Function *find_function(const Importer *im, const Node *node) {
  for (size_t i = 0; i < im->model->n_functions; i++) {
    const Function *f = im->model->functions[i];
    if (same_text(f->name, node->op_type) &&
        same_text(f->domain, node->domain) &&
        same_text(f->overload, node->overload))
      return f;
  }
  return NULL;
}

/* ---- copies of messages ---- */

static char *rename_value(const Call *c, const char *name) {
  const Function *f = c->function;
  if (!name || !name[0])
    return "";
  for (size_t i = 0; i < f->n_input; i++)
    if (same_text(f->input[i], name))
      return i < c->node->n_input ? c->node->input[i] : "";
  for (size_t i = 0; i < f->n_output; i++)
    if (same_text(f->output[i], name) && i < c->node->n_output &&
        c->node->output[i][0])
      return c->node->output[i];
  return arena_printf(c->im->arena, "%s%s", c->prefix, name);
}

static char **rename_values(const Call *c, size_t count, char *const *names) {
  char **out = MAKE_ARRAY(c->im->arena, char *, count + 1);
  for (size_t i = 0; i < count; i++)
    out[i] = rename_value(c, names[i]);
  return out;
}

static const Attribute *attribute_named(size_t count, Attribute *const *all,
                                        const char *name) {
  for (size_t i = 0; i < count; i++)
    if (same_text(all[i]->name, name))
      return all[i];
  return NULL;
}

static Graph *copy_graph(const Call *c, const Graph *from);

/* NULL: the call gives no value to the attribute that it refers to. */
static Attribute *copy_attribute(const Call *c, const Attribute *from) {
  const Attribute *value = from;
  Attribute *out = MAKE(c->im->arena, Attribute);
  if (from->ref_attr_name && from->ref_attr_name[0]) {
    value = attribute_named(c->node->n_attribute, c->node->attribute,
                            from->ref_attr_name);
    if (!value)
      value =
          attribute_named(c->function->n_attribute_proto,
                          c->function->attribute_proto, from->ref_attr_name);
    if (!value)
      return NULL;
  }
  *out = *value;
  out->name = from->name;
  if (value == from && from->g)
    out->g = copy_graph(c, from->g);
  return out;
}

static void count_copied(const Call *c, size_t parts) {
  c->im->copied_parts += parts;
  if (c->im->copied_parts > MAX_COPIED)
    import_fail(c->im, NULL, "functions call each other too often");
}

static Node *copy_node(const Call *c, const Node *from) {
  count_copied(c, 1 + from->n_input + from->n_output + from->n_attribute);
  Node *out = MAKE(c->im->arena, Node);
  *out = *from;
  out->input = rename_values(c, from->n_input, from->input);
  out->output = rename_values(c, from->n_output, from->output);
  out->attribute = MAKE_ARRAY(c->im->arena, Attribute *, from->n_attribute + 1);
  out->n_attribute = 0;
  for (size_t i = 0; i < from->n_attribute; i++) {
    Attribute *a = copy_attribute(c, from->attribute[i]);
    if (a)
      out->attribute[out->n_attribute++] = a;
  }
  return out;
}

static Node **copy_nodes(const Call *c, size_t count, Node *const *nodes) {
  Node **out = MAKE_ARRAY(c->im->arena, Node *, count + 1);
  for (size_t i = 0; i < count; i++)
    out[i] = copy_node(c, nodes[i]);
  return out;
}

static ValueInfo **copy_infos(const Call *c, size_t count,
                              ValueInfo *const *infos) {
  ValueInfo **out = MAKE_ARRAY(c->im->arena, ValueInfo *, count + 1);
  for (size_t i = 0; i < count; i++) {
    out[i] = MAKE(c->im->arena, ValueInfo);
    *out[i] = *infos[i];
    out[i]->name = rename_value(c, infos[i]->name);
  }
  return out;
}

static Graph *copy_graph(const Call *c, const Graph *from) {
  count_copied(c, from->n_initializer + from->n_input + from->n_output);
  Graph *out = MAKE(c->im->arena, Graph);
  *out = *from;
  out->node = copy_nodes(c, from->n_node, from->node);
  out->input = copy_infos(c, from->n_input, from->input);
  out->output = copy_infos(c, from->n_output, from->output);
  out->initializer =
      MAKE_ARRAY(c->im->arena, TensorMessage *, from->n_initializer + 1);
  for (size_t i = 0; i < from->n_initializer; i++) {
    out->initializer[i] = MAKE(c->im->arena, TensorMessage);
    *out->initializer[i] = *from->initializer[i];
    out->initializer[i]->name = rename_value(c, from->initializer[i]->name);
  }
  return out;
}

/* ---- calls ---- */

static void check_call(const Call *c) {
  const Function *f = c->function;
  if (c->node->n_input > f->n_input || c->node->n_output > f->n_output)
    import_fail(c->im, NULL, "the function has %zu inputs and %zu outputs",
                f->n_input, f->n_output);
  for (size_t i = 0; i < c->node->n_input; i++)
    if (strlen(c->node->input[i]) > MAX_NAME_BYTES)
      import_fail(c->im, NULL, "a name is too long");
}

/* An output that is an input of the function has no node. */
static void bind_passed(const Call *c) {
  const Function *f = c->function;
  for (size_t i = 0; i < c->node->n_output; i++)
    for (size_t k = 0; k < f->n_input && k < c->node->n_input; k++) {
      Value *v = find_value(c->im, c->node->input[k]);
      if (v && c->node->output[i][0] && same_text(f->output[i], f->input[k]))
        bind_value(c->im, c->node->output[i], v);
    }
}

bool import_call(Importer *im, const Node *node) {
  Call c = {im, node, node->op_type ? find_function(im, node) : NULL, NULL};
  if (!c.function)
    return false;
  check_call(&c);
  const char *name = node->name && node->name[0] ? node->name : node->op_type;
  c.prefix = arena_printf(im->arena, "%.80s.%zu/", name, im->copied_parts);
  Graph graph = {.n_node = c.function->n_node};
  graph.node = copy_nodes(&c, c.function->n_node, c.function->node);
  int64_t outer = im->opset;
  if (c.function->n_opset_import)
    im->opset =
        find_opset(c.function->n_opset_import, c.function->opset_import);
  import_nodes(im, &graph);
  im->opset = outer;
  bind_passed(&c);
  return true;
}
