/* The fields of a session, for session/ and the modules that extend it: aot/,
   editor/ and repl/. */
#ifndef AXON_SESSION_STATE_H
#define AXON_SESSION_STATE_H

#include "session/session.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/flag.h"
#include "support/interrupt.h"
#include "support/map.h"
#include "support/source.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;
typedef struct Interner Interner;
typedef struct Sym Sym;

typedef struct Import { /* an imported file */
  const char *path;     /* absolute path; each file is read once */
  Module *module; /* NULL while it is being checked, or if it is unreadable */
  uint32_t file;
  bool is_in_progress;
} Import;

typedef struct PendingDecl { /* a declaration to run */
  CoreDec *core;
  DeclResult result; /* reported after the run; bindings is NULL for a part of a
                        declaration */
  const struct Assumption *facts; /* those before it (checker_facts) */
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
  /* preallocated diagnostic for lack of memory (session.c) */
  Diag oom_diag, *oom_diags;
  Program current_program;      /* last checked text */
  uint32_t current_file;        /* its number */
  Module *current_module;       /* its module */
  UnsavedFileFn *unsaved_files; /* or NULL */
  void *unsaved_files_owner;
  struct RefIndex *ref_index; /* owned by editor/; NULL if not built */
  VEC(Dec *) main_decs; /* of the main texts so far, for their schedules */
  VEC(PendingDecl) pending;
  VEC(Import) imports;
  uint32_t import_depth;
  /* worst status of session_binding_text in host callbacks */
  SessionStatus print_status;
  uint32_t unrun_decs;     /* declarations of an input after the current one */
  bool has_unfinished_dec; /* the last declaration of an input failed, or may
                              still fail */
  bool has_missing_import; /* the current file imports a missing file */
  /* source number per library file; 0: not read yet */
  uint32_t *stdlib_sources;
  Map stdlib_decs; /* maps StdlibName to Dec */
  Map functions;   /* maps Sym to HostFunction, for functions that a host has
                      requested */
  Buffer call_key; /* buffer for the key of the current call */
  uint32_t source_count; /* number of sources read */
  /* number of errors of host calls that were explained */
  uint32_t explained_errors;
  Flag interrupt;
  InterruptDeferral deferral;
  int exit_status;
};

/* ---- session.c ---- */

/* Adds a source text; 0 after an error. */
uint32_t session_add_source(Session *s, const SourceInput *text, Span importer);
/* Parses and checks a source text, and appends its declarations to `pending`.
   Returns false after an error. */
bool session_check_source(Session *s, uint32_t file, Module *module, bool bare,
                          bool main);
/* Calls f.  Converts errors that f raises, lack of memory and Ctrl-C to
   statuses. */
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
