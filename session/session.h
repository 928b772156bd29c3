/* session: definitions, and the pipeline that checks and runs them (session.c).
 * Main entry points: session_open, session_check and session_run.
 *
 * A text is parsed and checked declaration by declaration; the results are
 * pending.  Running is a second step, so a program with an error runs
 * nothing.
 *
 * Ownership: a Session owns all results of its functions.  Nothing here exits
 * or prints. axon.h is the part that other programs link. */
#ifndef AXON_SESSION_H
#define AXON_SESSION_H

#include "eval/eval.h"
#include "support/compiler.h"
#include "support/span.h"
#include "typecheck/typecheck.h"

typedef struct Buffer Buffer;
typedef struct Diag Diag;
typedef struct Diags Diags;
typedef struct Session Session;
typedef struct Sources Sources;

typedef enum SessionStatus {
  SESSION_OK,
  SESSION_ERROR,       /* see the diagnostics */
  SESSION_INCOMPLETE,  /* the text is incomplete */
  SESSION_INTERRUPTED, /* Ctrl-C */
  SESSION_EXITED,      /* the program called `exit`; see session_exit_status */
} SessionStatus;

/* Result of a declaration that was run. */
typedef struct DeclResult {
  Binding *const *bindings;
  uint32_t binding_count;
  bool is_bare_expression; /* a bare expression: bindings[0] is `it` */
  bool is_main;            /* in the text itself, not in an imported file */
} DeclResult;

typedef struct SessionHost {
  EvalHost eval; /* the session supplies its `interrupt` */
  /* Called after each declaration was run; may be NULL.  Its owner is
     eval.owner.  If session_binding_text fails in it, no more declarations
     run. */
  void (*on_executed)(void *owner, Session *session, const DeclResult *result);
  /* Called after each declaration was checked; may be NULL. */
  void (*on_checked)(void *owner, Session *session, const DeclResult *result);
} SessionHost;

/* Copies the host.  Returns NULL if there is no memory. */
Session *session_open(const SessionHost *host);
void session_close(Session *session);

/* ---- checking, then running ---- */

/* Maximum bytes of a text.  Spans could hold more, but devices and other files
   may yield unlimited data. */
enum { MAX_SOURCE_BYTES = 1 << 28 };

/* A text that is only checked has a module of its own.  The text of the program
   and of the REPL are in the session's main module. */
typedef struct SourceInput {
  const char *name; /* name in messages; imports are relative to it */
  const char *text; /* NULL: read the file `name` */
  size_t len;
  bool allow_bare_expressions; /* allows bare expressions */
  bool is_separate_module;
  bool is_complete; /* session_input: nothing follows, so an incomplete text is
                       an error */
} SourceInput;

SessionStatus session_check(Session *session, const SourceInput *text);
SessionStatus session_run(Session *session); /* runs pending declarations */
void session_discard_pending(Session *session);
/* Settings for printing and output; may be changed. */
EvalHost *session_eval_host(Session *session);
/* One input of the REPL: runs each declaration before checking the next. */
SessionStatus session_input(Session *session, const SourceInput *text);
/* SESSION_INCOMPLETE if such an input needs more lines; SESSION_ERROR after a
   syntax error; otherwise SESSION_OK.  Runs nothing and adds no diagnostics. */
SessionStatus session_input_status(Session *session, const SourceInput *text);
/* Number of declarations of the last input that did not run because of an error
   or an interrupt. */
uint32_t session_unrun_dec_count(const Session *session);
int session_exit_status(const Session *session);

/* `-D n=64` */
void session_define_size(Session *session, const char *name, int64_t value);
bool session_used_size(const Session *session, const char *name);
/* Imported files are read again at their next import. */
void session_forget_imports(Session *session);
void session_interrupt(Session *session); /* callable from signal handlers */
bool session_interrupted(const Session *session);
/* Discards an interrupt that arrived while nothing was running. */
void session_clear_interrupt(Session *session);

/* ---- asking ---- */

/* The type of an expression, without running it.  NULL after an error. */
const char *session_expr_type(Session *session, const char *text, size_t len);
/* The tensors in the type, or in the final result of a function.  Returns false
   after an error. */
bool session_type_leaves(Session *session, const char *text, size_t len,
                         TypeLeaves *out);
Binding *session_find_binding(Session *session, const char *name);
const char *session_binding_type(Session *session, Binding *binding);
/* Explains the type (see checker_explain_type); NULL if there is none. */
const Diag *session_explain_type(Session *session, Binding *binding);
/* Prints the value.  Returns false after an error, or if there is no value. */
bool session_binding_text(Session *session, Binding *binding, Buffer *out);
/* Makes the bytes of a PNG file of a figure, to be freed by mem_free.  Returns
   false after an error, or if the value is not a figure. */
bool session_binding_png(Session *session, Binding *binding, void **bytes,
                         size_t *len);
/* Calls f for every visible name: names of the program, the library and
   primitives; qualified names as "nn.linear", modules as "nn.". */
void session_each_name(Session *session, void (*f)(void *, const char *name),
                       void *arg);
/* Calls f for the program's own names, in order of definition. */
void session_each_binding(Session *session, void (*f)(void *, Binding *),
                          void *arg);
void session_each_field(Session *session, Binding *binding,
                        void (*f)(void *, const char *name), void *arg);
CheckStats session_stats(const Session *session);
/* Reports each constraint that would be checked at run time as an error, unless
   there are errors already. */
void session_reject_unproved(Session *session);
/* Returns NULL and count 0 if there is no memory. */
const UnprovedConstraint *session_unproved_constraints(Session *session,
                                                       uint32_t *count);

/* Returns false with a fault if an environment variable such as AXON_THREADS
   has an invalid value.  Nothing is run then. */
bool session_check_settings(Fault *fault);

/* Sets an observer (plan/observer.h), which is borrowed, of everything that
   runs.  NULL removes it. */
void session_set_observer(Session *session,
                          const struct PlanObserver *observer);
/* Sets the target (backend/target.h).  Returns false with a fault if it does
   not exist or is not available on this machine. */
bool session_set_target(Session *session, const char *target, Fault *fault);
const char *session_target_name(Session *session);
/* Computes the deferred values of the program's names. skip_inlined: except
   those that were computed as a part of their users. */
SessionStatus session_force_globals(Session *session, bool skip_inlined);

/* ---- host_function.c: calls from a host ---- */

typedef struct HostFunction HostFunction;
typedef struct HostArg {
  const char *label; /* or NULL */
  const HostValue *value;
} HostArg;
/* The function with this name, also after it is redefined.  The session owns
   it.  NULL after an error. */
HostFunction *session_find_function(Session *session, const char *name);
const Signature *session_signature(const HostFunction *f);
/* *result belongs to the caller.  Without arguments, calls `f ()`. */
SessionStatus session_call(Session *session, HostFunction *f, uint32_t count,
                           const HostArg *args, HostValue **result);
/* The value of a global name. */
SessionStatus session_global_value(Session *session, const char *name,
                                   HostValue **result);

/* ---- timing ---- */

/* An expression, checked, to be computed many times.  Values that the program
   has defined are computed before, so their time is not included. */
typedef struct Benchmark Benchmark;
/* Returns NULL after an error; *status says why. */
Benchmark *session_benchmark_new(Session *session, const SourceInput *text,
                                 SessionStatus *status);
/* Computes the complete value and discards it. */
SessionStatus session_benchmark_run(Session *session, Benchmark *benchmark);

/* ---- texts and symbol references for editor/ ---- */

/* Supplies the unsaved text of a file, as in an editor.  Returns false if the
   file on disk is current. */
typedef bool UnsavedFileFn(void *owner, const char *path, const char **text,
                           size_t *len);
void session_set_unsaved_files(Session *session, UnsavedFileFn *f, void *owner);
/* Enables recording from the next text on.  Results live as long as the
   session.  Offsets are in bytes. */
void session_record_refs(Session *session);
uint32_t session_current_file(const Session *session); /* that text */
/* tree of that text */
const Program *session_current_program(const Session *session);
/* Checks another file, which may import that text, to find all references of a
   name. */
void session_check_importer(Session *session, const char *path);

/* ---- doctests in doc comments: `>>> expression`, then its output ---- */

typedef struct DocTest {
  Span span;            /* from its line to the end of the doc comment */
  const char *name;     /* documented name, or NULL */
  const char *text;     /* the expression */
  const char *expected; /* expected output; NULL: it must be true */
} DocTest;
/* The doctests of the text last checked, in order. */
const DocTest *session_doc_tests(Session *session, uint32_t *count);

/* ---- diagnostics since session_clear_diags ---- */

const Diags *session_diags(const Session *session);
void session_clear_diags(Session *session);
const Sources *session_sources(const Session *session);
PRINTF_LIKE(4, 5)
Diag *session_error(Session *session, uint16_t code, Span span,
                    const char *format, ...);

/* ---- formatting ---- */

/* Formats a source text.  Returns false after an error. */
bool session_format(Session *session, const SourceInput *text, Buffer *out);
/* The same, without diagnostics. */
bool session_format_without_diags(Session *session, const SourceInput *text,
                                  Buffer *out);

/* ---- schedule_declaration.c ---- */

/* Appends messages about declared schedules that no kernel used. */
void session_put_unused_schedules(Session *s, Buffer *out);
/* Reports a schedule that could not be applied, if no kernel ran that would
   have reported it. */
void session_check_schedules(Session *s);

#endif
