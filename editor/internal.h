/* Functions that the files of editor/ share. */
#ifndef AXON_EDITOR_INTERNAL_H
#define AXON_EDITOR_INTERNAL_H

#include "editor/editor.h"
#include "session/state.h"

/* ---- symbol_queries.c ---- */

/* The state that checking another text replaces. */
typedef struct CheckedState {
  Program program;
  uint32_t file, pending_count;
  Module *module;
  Diags diags;
  SymbolRefs *refs;
} CheckedState;
/* Another text may be checked after the state was saved, and before it is
 * restored. */
CheckedState checked_state_save(Session *s);
void checked_state_restore(Session *s, const CheckedState *saved);

#endif
