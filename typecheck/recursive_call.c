/* After an error about a recursive call with another shape: drops the errors
   that follow from it.  Main entry point: drop_errors_of_recursion. */
#include "typecheck/internal.h"
#include "parser/parser.h"
#include "support/diag.h"

enum { SIZES_DIFFER = 302, NO_BROADCAST = 303 };

typedef struct ClosedSearch {
  Span dec, at;   /* the declaration, and the place of an error */
  bool uses_own;  /* the expression uses a name of the declaration */
  bool is_closed; /* the error is in an expression without such names */
} ClosedSearch;

static void note_own_name(void *arg, Expr *e) {
  ClosedSearch *s = arg;
  if (e->kind == EX_ID)
    s->uses_own |= !e->binding || span_is_within(e->binding->span, s->dec);
  expr_visit_children(e, note_own_name, s);
}

static bool has_error(const ClosedSearch *s, const Expr *e) {
  bool found = span_equal(e->span, s->at);
  if (e->kind == EX_BIN)
    found |= span_equal(e->op_span, s->at) ||
             span_equal(e->arg[0]->span, s->at) ||
             span_equal(e->arg[1]->span, s->at);
  for (uint32_t i = 0; i < e->arg_count; i++)
    found |= span_equal(e->args[i].expr->span, s->at);
  return found;
}

static void search_closed(void *arg, Expr *e) {
  ClosedSearch *s = arg;
  if (!span_is_within(s->at, e->span))
    return;
  if (!has_error(s, e)) {
    expr_visit_children(e, search_closed, s);
    return;
  }
  note_own_name(s, e);
  s->is_closed = !s->uses_own;
}

bool error_is_closed(const Dec *dec, Span at) {
  ClosedSearch s = {.dec = dec->span, .at = at};
  dec_visit_exprs(dec, search_closed, &s);
  return s.is_closed;
}

/* A recursive call with another shape makes all sizes of its function differ.
   Errors in expressions that use no name of the function do not follow. */
void drop_errors_of_recursion(Checker *c, const Dec *dec, Diags *diags,
                              uint32_t from) {
  uint32_t kept = from;
  bool is_reported = false;
  for (uint32_t i = from; i < diags->all.len; i++)
    is_reported |= diags->all.at[i] == c->inference.recursive_call;
  for (uint32_t i = from; i < diags->all.len && is_reported; i++) {
    Diag *d = diags->all.at[i];
    bool follows = d->severity == SEV_ERROR &&
                   d != c->inference.recursive_call &&
                   (d->code == SIZES_DIFFER || d->code == NO_BROADCAST);
    if (follows && !error_is_closed(dec, d->span))
      diags->errors--;
    else
      diags->all.at[kept++] = d;
  }
  if (is_reported)
    diags->all.len = kept;
}
