/* What the files of session/ share. */
#ifndef AXON_SESSION_INTERNAL_H
#define AXON_SESSION_INTERNAL_H

#include "session/session.h"

typedef struct Import { /* a file that was imported */
  const char *path;     /* absolute: one file is read once */
  Module *module;       /* NULL while it is being checked, or if unreadable */
  uint32_t file;
  bool busy;
} Import;

typedef struct Waiting { /* a declaration to be run */
  CoreDec *core;
  Ran ran; /* told after it was run; bindings NULL for a part of one */
} Waiting;

typedef struct PlaceIndex { /* of the places that were kept when it was made */
  const Place *all;
  uint32_t count;
  Map last;         /* file and start -> number of the last one, from 1 */
  uint32_t *before; /* of each, the number of the one before it there; or 0 */
} PlaceIndex;

struct Session {
  Arena *arena;
  Sources sources;
  Interner *interner;
  DimCtx dims;
  CheckHost check_host;
  SessionHost host;
  Checker *checker;
  Eval *eval;
  Module *module;
  Diags diags;
  Diag spare, *spare_at; /* for want of memory, see session.c */
  Program program; /* the last text that was checked, */
  uint32_t file;   /* and its number, */
  Module *checked; /* and module */
  Unsaved *unsaved; /* or NULL */
  void *unsaved_owner;
  PlaceIndex index;
  VEC(Waiting) waiting;
  VEC(Import) imports;
  uint32_t import_depth;
  SessionStatus shown; /* worst of session_binding_text in host.ran */
  uint32_t rest;      /* declarations of an input behind the one at hand */
  bool unfinished;    /* the last declaration of an input failed, or yet may */
  bool names_missing; /* a file that the one at hand imports is not there */
  uint32_t *library_sources; /* by number of the library file; 0: not yet */
  Map library_decs;          /* StdlibName -> Dec */
  Map functions;        /* Sym -> Function: that a host has asked for */
  Buffer call_key;      /* room for that of the call at hand */
  uint32_t texts;       /* that were read */
  uint32_t explained;   /* errors of calls from a host */
  Flag interrupt;
  int exit_status;
};

/* ---- session.c ---- */
/* Adds a text; 0 after an error. */
uint32_t session_add_text(Session *s, const SessionText *text, Span importer);
/* Runs the declarations that wait. */
SessionStatus session_run_waiting(Session *s);
/* Parses and checks a source; what it comes to waits.  False after an error. */
bool session_check_source(Session *s, uint32_t file, Module *module, bool bare,
                          bool main);
/* Calls f where running out of memory and Ctrl-C end up as statuses. */
SessionStatus session_guard(Session *s,
                            SessionStatus (*f)(Session *, void *), void *arg);

/* ---- library.c ---- */
Dec *library_dec(void *owner, Sym *module, Sym *name);
bool library_module(void *owner, Sym *module);
/* The source of a module of the library. */
uint32_t library_file(Session *s, const Sym *module);
void library_each_name(void (*f)(void *, const char *name), void *arg);

/* ---- places.c ---- */
const Place *all_places(const Session *s, uint32_t *count);
/* What a session knows of the text last checked. */
typedef struct Known {
  Program program;
  uint32_t file, waiting;
  Module *checked;
  Diags diags;
  Places *places;
} Known;
/* Another text is checked, and then what was known is put back. */
Known known_aside(Session *s);
void known_back(Session *s, const Known *known);

/* ---- import.c ---- */
/* Reads a whole file into the arena; false with an error at `span`. */
bool read_source(Session *s, const char *path, Span span, const char **text,
                 size_t *len);
/* Checks a file before the checker meets the declaration that imports it, as
 * it checks one declaration at a time. */
void import_before(Session *s, const Dec *dec);
Module *import_module(void *owner, uint32_t from, Span span, const char *path,
                      Sym *id);

#endif
