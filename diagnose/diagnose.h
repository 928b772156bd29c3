/* diagnose: messages about contradicted constraints and type errors, with
   labels, notes and fix-its.  Main entry point: diagnose_refuted.  The checker
   calls this module through its CheckHost.  Functions here read the checker's
   state (typecheck/view.h) and add to its diagnostics. */
#ifndef AXON_DIAGNOSE_H
#define AXON_DIAGNOSE_H

#include "typecheck/typecheck.h"

typedef struct Diag Diag;
typedef struct Diags Diags;

void diagnose_refuted(Checker *checker, const Refutation *refutation);
void diagnose_suggest(Checker *checker, Diag *message,
                      const Suggestion *way_out);

/* Explains the type of a name as a note: the provenance trace of shapes with
   their arithmetic, and labels where sizes were unified and constraints arose.
   Returns NULL if it has no type. */
const Diag *checker_explain_type(Checker *checker, Binding *binding,
                                 Diags *diags);

#endif
