/* Values by the names in the file, and the error at a node. */
#include "onnx/internal.h"

#include <stdarg.h>
#include <string.h>

const char *node_label(Importer *im, const Node *node) {
  const char *name = node->name && node->name[0] ? node->name
                     : node->n_output            ? node->output[0]
                                                 : "";
  return arena_printf(im->arena, "the node `%.120s` (%.40s)", name,
                      node->op_type ? node->op_type : "no operator");
}

void import_fail(Importer *im, const char *help, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *message = arena_vprintf(im->arena, format, args);
  va_end(args);
  if (im->node)
    fault_set(im->fault, "%.190s: %.300s", node_label(im, im->node), message);
  else
    fault_set(im->fault, "%.480s", message);
  if (help)
    fault_set_help(im->fault, "%.240s", help);
  longjmp(im->failed, 1);
}

Value *find_value(Importer *im, const char *name) {
  return map_get(&im->values, intern_string(im->interner, name));
}

void bind_value(Importer *im, const char *name, Value *v) {
  map_put(&im->values, intern_string(im->interner, name), v);
}
