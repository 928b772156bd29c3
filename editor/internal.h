/* Functions that the files of editor/ share. */
#ifndef AXON_EDITOR_INTERNAL_H
#define AXON_EDITOR_INTERNAL_H

#include "editor/editor.h"
#include "session/state.h"
#include "support/diag.h"

/* ---- symbol_queries.c ---- */

/* The state that is replaced if another text is checked. */
typedef struct CheckedState {
  Program program;
  uint32_t file, pending_count;
  Module *module;
  Diags diags;
  SymbolRefs *refs;
} CheckedState;
/* Saves the state before another text is checked, and restores it
   afterwards. */
CheckedState checked_state_save(Session *s);
void checked_state_restore(Session *s, const CheckedState *saved);

#endif
