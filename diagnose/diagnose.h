/* diagnose: messages about what the checker has refuted, with labels, notes and
 * fix-its.  The checker calls these through its CheckHost; they read its state
 * (typecheck/view.h) and add to its diagnostics. */
#ifndef AXON_DIAGNOSE_H
#define AXON_DIAGNOSE_H

#include "typecheck/typecheck.h"

void diagnose_refuted(Checker *checker, const Refutation *refutation);
void diagnose_suggest(Checker *checker, Diag *message,
                      const Suggestion *way_out);

/* How the type of a name came about: a note with the shapes on the way and
 * their arithmetic, and marks where sizes were made equal and conditions arose.
 * NULL: it has no type. */
const Diag *checker_explain_type(Checker *checker, Binding *binding,
                                 Diags *diags);

#endif
