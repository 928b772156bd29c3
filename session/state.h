/* What the files of session/ share. */
#ifndef AXON_SESSION_STATE_H
#define AXON_SESSION_STATE_H

#include "session/session.h"

typedef struct Import { /* a file that was imported */
  const char *path;     /* absolute: one file is read once */
  Module *module;       /* NULL while it is being checked, or if unreadable */
  uint32_t file;
  bool is_in_progress;
} Import;

typedef struct PendingDecl { /* a declaration to be run */
  CoreDec *core;
  DeclResult
      result; /* told after it was run; bindings NULL for a part of one */
} PendingDecl;

typedef struct RefIndex { /* of the places that were kept when it was made */
  const SymbolRef *refs;
  uint32_t count;
  Map last_at_start; /* file and start -> number of the last one, from 1 */
  uint32_t *previous_at_start; /* of each, the number of the one before it
                                  there; or 0 */
} RefIndex;

struct Session {
  Arena *arena;
  Sources sources;
  Interner *interner;
  DimCtx dims;
  CheckHost check_host;
  SessionHost host;
  Checker *checker;
  Eval *eval;
  Module *main_module;
  Diags diags;
  Diag oom_diag, *oom_diags;    /* for want of memory, see session.c */
  Program current_program;      /* the last text that was checked, */
  uint32_t current_file;        /* and its number, */
  Module *current_module;       /* and module */
  UnsavedFileFn *unsaved_files; /* or NULL */
  void *unsaved_files_owner;
  RefIndex ref_index;
  VEC(PendingDecl) pending;
  VEC(Import) imports;
  uint32_t import_depth;
  SessionStatus print_status; /* worst of session_binding_text in host.result */
  uint32_t unrun_decs;     /* declarations of an input behind the one at hand */
  bool has_unfinished_dec; /* the last declaration of an input failed, or yet
                              may */
  bool
      has_missing_import; /* a file that the one at hand imports is not there */
  uint32_t *stdlib_sources;  /* by number of the library file; 0: not yet */
  Map stdlib_decs;           /* StdlibName -> Dec */
  Map functions;             /* Sym -> Function: that a host has asked for */
  Buffer call_key;           /* room for that of the call at hand */
  uint32_t source_count;     /* that were read */
  uint32_t explained_errors; /* errors of calls from a host */
  Flag interrupt;
  int exit_status;
};

/* ---- session.c ---- */
/* Adds a text; 0 after an error. */
uint32_t session_add_source(Session *s, const SourceInput *text, Span importer);
/* Runs the declarations that wait. */
SessionStatus session_run_pending(Session *s);
/* Parses and checks a source; what it comes to waits.  False after an error. */
bool session_check_source(Session *s, uint32_t file, Module *module, bool bare,
                          bool main);
/* Calls f where running out of memory and Ctrl-C end up as statuses. */
SessionStatus session_protected_call(Session *s,
                                     SessionStatus (*f)(Session *, void *),
                                     void *arg);

/* ---- stdlib_lookup.c ---- */
Dec *stdlib_find_dec(void *owner, Sym *module, Sym *name);
bool stdlib_has_module(void *owner, Sym *module);
/* The source of a module of the library. */
uint32_t stdlib_module_source(Session *s, const Sym *module);
void stdlib_each_name(void (*f)(void *, const char *name), void *arg);

/* ---- editor/symbol_queries.c ---- */
const SymbolRef *session_refs(const Session *s, uint32_t *count);
/* What a session knows of the text last checked. */
typedef struct CheckedState {
  Program program;
  uint32_t file, pending_count;
  Module *module;
  Diags diags;
  SymbolRefs *refs;
} CheckedState;
/* Another text is checked, and then what was known is put back. */
CheckedState checked_state_save(Session *s);
void checked_state_restore(Session *s, const CheckedState *saved);

/* ---- import.c ---- */
/* Reads a whole file into the arena; false with an error at `span`. */
bool session_read_file(Session *s, const char *path, Span span,
                       const char **text, size_t *len);
/* Checks a file before the checker meets the declaration that imports it, as
 * it checks one declaration at a time. */
void import_eagerly(Session *s, const Dec *dec);
Module *import_module(void *owner, uint32_t from, Span span, const char *path,
                      Sym *id);

#endif
