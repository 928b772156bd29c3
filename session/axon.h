/* axon.h: Axon as a library.
 *
 * A session holds definitions; texts of the language are checked and run in it.
 * Nothing here exits, aborts or prints: errors are diagnostics to be asked for,
 * output goes to a function of yours.
 *
 * Threads: a session is used from one thread at a time; several sessions may be
 * used from several threads.  axn_interrupt alone may be called from anywhere,
 * also from a signal handler.
 *
 * Ownership: strings handed out live until the session is freed, those of
 * diagnostics until the next text is run or checked. */
#ifndef AXON_H
#define AXON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AXN_API __attribute__((visibility("default")))

typedef struct AxnSession AxnSession;

typedef enum AxnStatus {
  AXN_OK = 0,
  AXN_ERROR = 1,       /* diagnostics say what is wrong */
  AXN_INCOMPLETE = 2,  /* the text ended where more was needed */
  AXN_INTERRUPTED = 3, /* axn_interrupt was called */
  AXN_EXITED = 4,      /* the program called exit: axn_exit_status */
} AxnStatus;

typedef enum AxnSeverity {
  AXN_SEVERITY_ERROR = 1,
  AXN_SEVERITY_WARNING = 2,
  AXN_SEVERITY_NOTE = 3,
} AxnSeverity;

typedef struct AxnPlace { /* lines and columns count from 1 */
  const char *file;       /* NULL: no place */
  uint32_t line, column, end_line, end_column; /* columns count bytes */
  uint32_t start, end;    /* in bytes of the whole text, from 0 */
} AxnPlace;

/* A link of the chain by which two sizes came to differ. */
typedef struct AxnStep {
  AxnPlace place;
  const char *expression; /* what stands there, on one line; or NULL */
  const char *shape;      /* its type: "f32[b, 32, 26, 26]" */
  const char *arithmetic; /* how that came to be: "28 - 3 + 1 = 26"; or NULL */
} AxnStep;

/* A place that has to do with it. */
typedef struct AxnMark {
  AxnPlace place;
  const char *label; /* "the annotation"; or NULL */
} AxnMark;

/* `text` in the place of what stands there, which may be nothing. */
typedef struct AxnEdit {
  AxnPlace place;
  const char *text;
} AxnEdit;

/* A change that does what the help line says.  Its edits are in order and do
 * not overlap; their places are those of the text as it was. */
typedef struct AxnFix {
  const char *title; /* "write `softmax`" */
  const AxnEdit *edits;
  size_t edit_count;
} AxnFix;

/* All that is known of a mistake.  Later versions may add fields at the end of
 * this struct; those that it points to stay as they are. */
typedef struct AxnDiag {
  AxnSeverity severity;
  uint32_t code;       /* 301 is E0301, or W0301 for a warning */
  const char *message; /* one line */
  AxnPlace place;      /* where a person would mend it */
  const char *label;   /* what is wrong there; the texts may be NULL: none */
  const char *note, *help;
  const char *witness; /* sizes for which it fails: "fails at h = 350: 20 meets
                        * 21", where sizes are symbolic */
  const char *found, *expected; /* the types, or sizes, that met */
  int32_t axis;                 /* of the one found along which they differ,
                                 * from 0; -1: none, or several */
  const AxnStep *steps;         /* the chain, in order of the program */
  size_t step_count;
  const AxnMark *marks;
  size_t mark_count;
  const AxnFix *fixes; /* the best first */
  size_t fix_count;
} AxnDiag;

/* "0.1.0" */
AXN_API const char *axn_version(void);

/* NULL when there is no memory. */
AXN_API AxnSession *axn_session_new(void);
AXN_API void axn_session_free(AxnSession *session);

/* Where `print` writes.  Until this is called, output is thrown away. */
AXN_API void axn_session_output(AxnSession *session,
                                void (*write)(void *owner, const char *text,
                                              size_t len),
                                void *owner);

/* Checks declarations and adds what they define; runs nothing.  `name` is what
 * messages call the text. */
AXN_API AxnStatus axn_session_check(AxnSession *session, const char *name,
                                    const char *text, size_t len);
/* Checks all of it, then runs it.  Bare expressions are allowed; the value of
 * the last one is called `it`. */
AXN_API AxnStatus axn_session_run(AxnSession *session, const char *name,
                                  const char *text, size_t len);
AXN_API int axn_exit_status(const AxnSession *session);

/* The type of a name, as printed ("'a[...s, n] -> ..."); NULL if unknown. */
AXN_API const char *axn_session_type(AxnSession *session, const char *name);
/* A tensor in a type: the field of a record that it is in, "conv.w"; its type,
 * "f32[64, 3, 7, 7]"; how many elements it has, "9408" or "64*n".  What is no
 * tensor has no count, NULL. */
typedef struct AxnLeaf {
  const char *path, *type, *count;
} AxnLeaf;
/* Those of the type of an expression that is not run; if it is a function, of
 * what it comes to when it has all its arguments.  Puts the first `most` of
 * them into `out` and returns how many there are, 0 after an error; `total`,
 * unless NULL, becomes the number of elements of all. */
AXN_API size_t axn_session_leaves(AxnSession *session, const char *expression,
                                  AxnLeaf *out, size_t most,
                                  const char **total);
/* The value of a top-level name as `print` shows it; NULL if it has none. */
AXN_API const char *axn_session_print(AxnSession *session, const char *name);

/* What became of the constraints on sizes and shapes of all texts so far. */
typedef struct AxnCounts {
  uint64_t proved;
  uint64_t carried; /* part of a type: each call has to meet them */
  uint64_t open;    /* checked when the program runs */
} AxnCounts;
AXN_API AxnCounts axn_session_counts(const AxnSession *session);

/* ---- what stands where, for editors and other tools ----
 *
 * Of the text that axn_session_check or axn_session_run was given last, if
 * axn_session_keep_places was called before.  Offsets are of bytes, from 0; a
 * text with errors is known as far as it could be understood. */

AXN_API void axn_session_keep_places(AxnSession *session);
/* The type of the name, or of the innermost expression, at an offset; NULL:
 * there is none.  place: what it is the type of; may be NULL. */
AXN_API const char *axn_type_at(AxnSession *session, size_t offset,
                                AxnPlace *place);
/* Where the name at an offset is bound; false: there is no name, or it is
 * built in.  A name of the library is bound in a file of its own, as
 * "nn.axn". */
AXN_API bool axn_definition_at(AxnSession *session, size_t offset,
                               AxnPlace *out);
/* Calls f with each place of the name at an offset, that where it is bound
 * included, in the text and what it imports; returns how many there are. */
AXN_API size_t axn_uses_at(AxnSession *session, size_t offset,
                           void (*f)(void *owner, const AxnPlace *place),
                           void *owner);
/* What was inferred and is not written: types of names and parameters, and
 * the shape behind each line of a pipeline. */
typedef struct AxnShape {
  AxnPlace place;   /* behind which it belongs: it is empty */
  const char *type; /* "f32[b, 784]" */
  bool stage;       /* of a pipeline; else of a name */
} AxnShape;
AXN_API void axn_each_shape(AxnSession *session,
                            void (*f)(void *owner, const AxnShape *shape),
                            void *owner);

/* Diagnostics of the last text. */
AXN_API size_t axn_diag_count(const AxnSession *session);
/* NULL: there are not so many, or there is no memory. */
AXN_API const AxnDiag *axn_diag_get(AxnSession *session, size_t index);
/* As a person reads it, with the lines of source. */
AXN_API const char *axn_diag_text(AxnSession *session, size_t index);

/* Stops what the session runs, soon. */
AXN_API void axn_interrupt(AxnSession *session);

#ifdef __cplusplus
}
#endif

#endif
