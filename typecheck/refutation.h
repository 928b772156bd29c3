/* What the checker hands to diagnose/, which writes the messages: what is
 * refuted, and what may have been meant. */
#ifndef AXON_TYPECHECK_REFUTATION_H
#define AXON_TYPECHECK_REFUTATION_H

#include "typecheck/state.h"

typedef enum RefutationKind {
  REFUTED_CONSTRAINT, /* constraint, with its origin */
  REFUTED_TYPES,      /* types: one does not fit where the other is expected */
  REFUTED_RANGE,      /* range: the indices of a `for` have no known range */
} RefutationKind;

struct Refutation {
  RefutationKind kind;
  union {
    Constraint *constraint;
    struct {
      Type *actual, *expected;
      Origin *origin;
    } types;
    struct {
      const ForScope *scope;
      const Expr *expr;      /* the `for` */
      uint32_t first_access; /* accesses from this one on are in its body */
    } range;
  };
};

typedef enum SuggestionKind {
  SUGGEST_NAME,         /* name */
  SUGGEST_MEMBER,       /* module, name */
  SUGGEST_CON,          /* name */
  SUGGEST_TYPE,         /* name */
  SUGGEST_FIELD,        /* name; type: the record */
  SUGGEST_LABEL,        /* args: the argument; type: the function */
  SUGGEST_FOREIGN,      /* word: of another language */
  SUGGEST_TEXT,         /* text instead of the span */
  SUGGEST_TUPLE,        /* of the args, which stand in order, one tuple */
  SUGGEST_LABELS_FIRST, /* args since `first` before the others */
} SuggestionKind;

struct Suggestion { /* a way out, added to a message as help and fix-it */
  SuggestionKind kind;
  Span span; /* of the name alone, or of what the text replaces */
  Sym *module, *name;
  Type *type;
  const ForeignWord *word;
  const char *text;
  const Arg *args;
  uint32_t arg_count, first;
};

#endif
