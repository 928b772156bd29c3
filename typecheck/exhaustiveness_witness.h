/* Witness patterns: values that no rule of a match matches. */
#ifndef AXON_TYPECHECK_EXHAUSTIVENESS_WITNESS_H
#define AXON_TYPECHECK_EXHAUSTIVENESS_WITNESS_H

#include "typecheck/internal.h"

typedef struct WitnessPattern { /* CP_WILD: anything */
  CorePatKind kind;
  bool has_more; /* CP_BOOL: false; CP_RECORD, CP_SHAPE: further parts exist */
  const char *text; /* text of a number or string, or name of a constructor */
  Sym **labels;
  uint32_t count, front; /* front: items before the rest */
  struct WitnessPattern **parts;
} WitnessPattern;

/* Prints the witness as a pattern.  curried: its parts are the parameters of a
   function. */
void witness_print(Buffer *b, const WitnessPattern *h, bool curried);

#endif
