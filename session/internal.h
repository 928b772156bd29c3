/* Shared by the files of session/. */
#ifndef AXON_SESSION_INTERNAL_H
#define AXON_SESSION_INTERNAL_H

#include "session/state.h"
#include "support/span.h"

typedef struct Sym Sym;

/* ---- session.c ---- */

/* Runs the pending declarations. */
SessionStatus session_run_pending(Session *s);

/* ---- schedule_declaration.c ---- */

/* Adds the schedules that `dec` of the program declares to the graph.  Returns
   false after an error. */
bool schedule_declaration_read(Session *s, const Program *program,
                               const Dec *dec);

/* ---- kernel_declaration.c ---- */

/* Adds the micro-kernel that `dec` declares to the graph.  Returns false after
   an error. */
bool kernel_declaration_read(Session *s, const Dec *dec);

/* ---- stdlib_lookup.c: callbacks of the checker ---- */

Dec *stdlib_find_dec(void *owner, Sym *module, Sym *name);
bool stdlib_has_module(void *owner, Sym *module);

/* ---- import.c ---- */

/* Reads a file into the arena.  Returns false after an error at `span`. */
bool session_read_file(Session *s, const char *path, Span span,
                       const char **text, size_t *len);
/* Checks an imported file before the checker reaches the declaration that
   imports it, since the checker handles one declaration at a time. */
void import_eagerly(Session *s, const Dec *dec);
/* A callback of the checker. */
Module *import_module(void *owner, uint32_t from, Span span, const char *path,
                      Sym *id);

#endif
