/* Errors and warnings of the checker.  Messages that need more than their text
   are written by diagnose/, which the host supplies as callbacks. */
#include "typecheck/types.h"
#include "support/arena_text.h"
#include "support/diag.h"

static Diag *add_diag(Checker *c, bool error, uint16_t code, Span span,
                      const char *format, va_list args) {
  const char *text = arena_vprintf(c->arena, format, args);
  return error ? diag_error(c->diags, code, span, "%s", text)
               : diag_warning(c->diags, code, span, "%s", text);
}

Diag *error_at(Checker *c, uint16_t code, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  Diag *d = add_diag(c, true, code, span, format, args);
  va_end(args);
  return d;
}

Diag *warning_at(Checker *c, uint16_t code, Span span, const char *format,
                 ...) {
  va_list args;
  va_start(args, format);
  Diag *d = add_diag(c, false, code, span, format, args);
  va_end(args);
  return d;
}

void report_constraint(Checker *c, Constraint *k) {
  c->host->refuted(c,
                   &(Refutation){.kind = REFUTED_CONSTRAINT, .constraint = k});
}

void report_shapes(Checker *c, Shape *a, Shape *b, Origin *o) {
  report_constraint(
      c, &(Constraint){.kind = CN_SHAPE_EQ, .origin = o, .a = a, .b = b});
}

void report_type_mismatch(Checker *c, Type *actual, Type *expected, Origin *o) {
  c->host->refuted(
      c, &(Refutation){.kind = REFUTED_TYPES, .types = {actual, expected, o}});
}

void report_for_range(Checker *c, const ForScope *scope, const Expr *e,
                      uint32_t first_access) {
  c->host->refuted(c, &(Refutation){.kind = REFUTED_RANGE,
                                    .range = {scope, e, first_access}});
}

void suggest(Checker *c, Diag *d, Suggestion s) {
  c->host->suggest(c, d, &s);
}
