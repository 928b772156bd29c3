/* Interface to diagnose/, which writes the messages: refuted constraints and
   type errors, and suggested corrections. */
#ifndef AXON_TYPECHECK_REFUTATION_H
#define AXON_TYPECHECK_REFUTATION_H

#include "support/span.h"
#include "typecheck/state.h"

typedef struct Sym Sym;

typedef enum RefutationKind {
  REFUTED_CONSTRAINT, /* constraint, with its origin */
  REFUTED_TYPES,      /* types: the actual type does not fit the expected one */
  REFUTED_RANGE,      /* range: the range of a `for` index is unknown */
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
      uint32_t first_access; /* accesses from this index on are in its body */
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
  SUGGEST_TUPLE,        /* puts args, which are in order, into one tuple */
  SUGGEST_LABELS_FIRST, /* moves args from `first` on before the others */
} SuggestionKind;

struct Suggestion { /* a suggested correction, added to a message as help and
                       fix-it */
  SuggestionKind kind;
  Span span; /* the name, or the text to replace */
  Sym *module, *name;
  Type *type;
  const ForeignWord *word;
  const char *text;
  const Arg *args;
  uint32_t arg_count, first;
};

#endif
