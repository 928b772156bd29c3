/* Selects the function that writes a message or a suggestion.  Main entry
   point: diagnose_refuted. */
#include "diagnose/internal.h"

void diagnose_refuted(Checker *c, const Refutation *r) {
  switch (r->kind) {
  case REFUTED_CONSTRAINT:
    diagnose_constraint(c, r->constraint);
    break;
  case REFUTED_TYPES:
    diagnose_types(c, r->types.actual, r->types.expected, r->types.origin);
    break;
  case REFUTED_RANGE:
    diagnose_range(c, r->range.scope, r->range.expr, r->range.first_access);
    break;
  }
}

void diagnose_suggest(Checker *c, Diag *d, const Suggestion *s) {
  switch (s->kind) {
  case SUGGEST_NAME:
    suggest_name(c, d, s->span, s->name);
    break;
  case SUGGEST_MEMBER:
    suggest_member(c, d, s->span, s->module, s->name);
    break;
  case SUGGEST_CON:
    suggest_con(c, d, s->span, s->name);
    break;
  case SUGGEST_TYPE:
    suggest_type(c, d, s->span, s->name);
    break;
  case SUGGEST_FIELD:
    suggest_field(c, d, s->span, s->type, s->name);
    break;
  case SUGGEST_LABEL:
    suggest_label(c, d, s->args, s->type);
    break;
  case SUGGEST_FOREIGN:
    suggest_foreign(c, d, s->span, s->word);
    break;
  case SUGGEST_TEXT:
    fixit_replace(c, d, s->span, s->text);
    break;
  case SUGGEST_TUPLE:
    fixit_tuple(c, d, s->args, s->arg_count);
    break;
  case SUGGEST_LABELS_FIRST:
    fixit_labels(c, d, s->args, s->arg_count, s->first);
    break;
  }
}
