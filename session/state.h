/* The fields of a session, for the rooms that extend it: session/, aot/ and
 * editor/. */
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
  struct RefIndex *ref_index; /* of editor/; NULL: none was made */
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

/* Adds a source text; 0 after an error. */
uint32_t session_add_source(Session *s, const SourceInput *text, Span importer);
/* Parses and checks a source text, and adds its declarations to `pending`.
 * False after an error. */
bool session_check_source(Session *s, uint32_t file, Module *module, bool bare,
                          bool main);
/* Calls f.  Errors that f raises, a lack of memory and Ctrl-C become
 * statuses. */
SessionStatus session_protected_call(Session *s,
                                     SessionStatus (*f)(Session *, void *),
                                     void *arg);
/* The symbol references recorded since session_record_refs. */
const SymbolRef *session_refs(const Session *s, uint32_t *count);

/* ---- stdlib_lookup.c ---- */

/* The source of a module of the library. */
uint32_t stdlib_module_source(Session *s, const Sym *module);
void stdlib_each_name(void (*f)(void *, const char *name), void *arg);

#endif
