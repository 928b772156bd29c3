/* Constructors of core trees. */
#include "typecheck/types.h"
#include "support/arena.h"

#include <stdarg.h>

Core *core_new(Checker *c, CoreKind kind, Span span) {
  Core *core = NEW(c->arena, Core);
  core->kind = kind;
  core->span = span;
  return core;
}

Var *var_new(Checker *c, Sym *name, Span span, bool global) {
  Var *v = NEW(c->arena, Var);
  v->name = name;
  v->span = span;
  v->global = global;
  return v;
}

Core *core_var(Checker *c, Var *v, Span span) {
  Core *core = core_new(c, CORE_VAR, span);
  core->var = v;
  return core;
}

Core *core_items(Checker *c, CoreKind kind, Span span, uint32_t n, ...) {
  Core *core = core_new(c, kind, span);
  core->items = NEW_ARRAY(c->arena, Core *, n);
  core->item_count = n;
  va_list args;
  va_start(args, n);
  for (uint32_t i = 0; i < n; i++)
    core->items[i] = va_arg(args, Core *);
  va_end(args);
  return core;
}

Core *core_let(Checker *c, Var *v, Core *value, Core *body) {
  Core *core = core_items(c, CORE_LET, value->span, 2, value, body);
  core->var = v;
  return core;
}

/* After an error. */
Core *core_error(Checker *c, Span span, Type **type) {
  c->inference.meets_error = true;
  *type = ty_meta(c);
  return core_new(c, CORE_ERROR, span);
}
