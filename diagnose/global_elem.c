/* Messages about element types of global values, which their uses determine.
   Main entry point: error_global_elem. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

/* The global value whose element type is e, or NULL.  *last is the variable
   that was determined. */
static const Binding *global_of(const ElemVar *e, const ElemVar **last) {
  const Binding *value = NULL;
  for (; e; e = e->link)
    if (e->global) {
      value = value ? value : e->global;
      *last = e;
    }
  return value;
}

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
  const ElemVar *last = NULL;
  const Binding *value = global_of(t->tensor.elem, &last);
  ElemVar *wanted = elem_root(other->tensor.elem);
  Dtype is = elem_root(t->tensor.elem)->dtype;
  if (!value || is == DT_NONE)
    return;
  if (span_equal(last->decided, last->global->span)) {
    diag_add_label(
        c->arena, d, value->span,
        arena_printf(c->arena, "%s by default", dtype_info[is].name));
    if (wanted->dtype != DT_NONE && (wanted->classes & last->classes))
      d->help = arena_printf(c->arena, "%s, or declare %s", d->help,
                             annotated_value(c, value, wanted->dtype));
    return;
  }
  if (!last->decided.file)
    return;
  diag_add_label(c->arena, d, value->span,
                 "its first use determines its element type");
  diag_add_label(
      c->arena, d, last->decided,
      arena_printf(c->arena, "the first use: %s", dtype_info[is].name));
}
