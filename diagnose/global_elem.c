/* Messages about element types of global values, which their uses determine.
   Main entry point: error_global_elem. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

/* True if the declaration is `val p = e`. */
static bool is_whole_pattern(Checker *c, const Binding *value) {
  const char *after =
      sources_get(c->sources, value->span.file)->text + value->span.end;
  return after[strspn(after, " \t\r\n")] == '=';
}

/* `val p = (0.5 : f64)`, for a short value that is a tensor. */
static const char *annotated_value(Checker *c, const Binding *value,
                                   Dtype dtype) {
  Expr *e = binding_expr(value);
  const char *text = e ? error_source_text(c, e->span) : NULL;
  Type *t = ty_norm(c, value->scheme->type);
  if (!text || t->tag != TY_TENSOR || !is_whole_pattern(c, value))
    return arena_printf(c->arena, "`%s` with an annotation", value->name->text);
  const char *axes = strchr(ty_text(c, t), '[');
  return arena_printf(c->arena, "`val %s = (%s : %s%s)`", value->name->text,
                      text, dtype_info[dtype].name, axes ? axes : "");
}

void error_global_elem(Checker *c, Diag *d, Type *t, Type *other) {
  if (!error_is_tensor(t) || !error_is_tensor(other) ||
      !elems_differ(t->tensor.elem, other->tensor.elem))
    return;
  GlobalElem global = global_elem_of(t->tensor.elem);
  ElemVar *wanted = elem_root(other->tensor.elem);
  global_elem_label(c, d, &global);
  if (!global.by_default || wanted->dtype == DT_NONE ||
      !(wanted->classes & global.determined->classes))
    return;
  const char *way = arena_printf(
      c->arena, "declare %s", annotated_value(c, global.value, wanted->dtype));
  d->help = d->help ? arena_printf(c->arena, "%s, or %s", d->help, way) : way;
}
