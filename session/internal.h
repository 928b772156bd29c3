/* Functions that the files of session/ share. */
#ifndef AXON_SESSION_INTERNAL_H
#define AXON_SESSION_INTERNAL_H

#include "session/state.h"

/* ---- session.c ---- */

/* Runs the pending declarations. */
SessionStatus session_run_pending(Session *s);

/* ---- stdlib_lookup.c: functions of the checker's host ---- */

Dec *stdlib_find_dec(void *owner, Sym *module, Sym *name);
bool stdlib_has_module(void *owner, Sym *module);

/* ---- import.c ---- */

/* Reads a whole file into the arena; false with an error at `span`. */
bool session_read_file(Session *s, const char *path, Span span,
                       const char **text, size_t *len);
/* Checks an imported file before the checker meets the declaration that
 * imports it: the checker handles one declaration at a time. */
void import_eagerly(Session *s, const Dec *dec);
/* A function of the checker's host. */
Module *import_module(void *owner, uint32_t from, Span span, const char *path,
                      Sym *id);

#endif
