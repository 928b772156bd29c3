/* session: definitions and everything behind them; the pipeline on one screen
 * (session.c).  A text is parsed, checked declaration by declaration, and what
 * it comes to waits; running is a second step, so that a program with an error
 * runs nothing.
 *
 * Ownership: a Session owns all that its functions hand out.  Nothing here
 * exits or prints.  axon.h is the part of this that others link. */
#ifndef AXON_SESSION_H
#define AXON_SESSION_H

#include "eval/eval.h"
#include "typecheck/typecheck.h"

typedef struct Session Session;

typedef enum SessionStatus {
  SESSION_OK,
  SESSION_ERROR,       /* diagnostics say what */
  SESSION_INCOMPLETE,  /* the text ended where more was needed */
  SESSION_INTERRUPTED, /* Ctrl-C */
  SESSION_EXITED,      /* by `exit`: session_exit_status */
} SessionStatus;

/* What a declaration came to, once it was run. */
typedef struct DeclResult {
  Binding *const *bindings;
  uint32_t binding_count;
  bool is_bare_expression; /* a bare expression: bindings[0] is `it` */
  bool is_main; /* of the text itself, not of a file that it imports */
} DeclResult;

typedef struct SessionHost {
  EvalHost eval; /* its `interrupt` is the session's own */
  /* After each declaration that was run; may be NULL.  Uses eval.owner.  When
   * session_binding_text fails in it, nothing more is run. */
  void (*on_executed)(void *owner, Session *session, const DeclResult *result);
  /* After each declaration that was checked; may be NULL. */
  void (*on_checked)(void *owner, Session *session, const DeclResult *result);
} SessionHost;

/* The host is copied.  NULL when there is no memory. */
Session *session_open(const SessionHost *host);
void session_close(Session *session);

/* ---- checking, then running ---- */

/* Bytes of a text.  Spans could hold more, but a device, or a file that is no
 * program, may give bytes without end. */
enum { MAX_SOURCE_BYTES = 1 << 28 };

/* Texts that were only ever checked are in a module of their own each; the
 * text of the program and of the REPL are in the session's main one. */
typedef struct SourceInput {
  const char *name; /* as messages call it; imports are relative to it */
  const char *text; /* NULL: read the file `name` */
  size_t len;
  bool allow_bare_expressions; /* bare expressions are allowed */
  bool is_separate_module;
  bool is_complete; /* session_input: no more is to come, so that a text that
                       ends too early is an error */
} SourceInput;

SessionStatus session_check(Session *session, const SourceInput *text);
SessionStatus session_run(Session *session); /* what waits */
void session_discard_pending(Session *session);
/* How values are printed and where output goes; may be changed. */
EvalHost *session_eval_host(Session *session);
/* One input of the REPL: each declaration is run before the next is checked. */
SessionStatus session_input(Session *session, const SourceInput *text);
/* Declarations that an error or an interrupt in the last input kept from being
 * run. */
uint32_t session_unrun_dec_count(const Session *session);
int session_exit_status(const Session *session);

/* `-D n=64` */
void session_define_size(Session *session, const char *name, int64_t value);
bool session_used_size(const Session *session, const char *name);
/* Files imported before are read again when next imported. */
void session_forget_imports(Session *session);
void session_interrupt(Session *session); /* from signal handlers too */
bool session_interrupted(const Session *session);
/* Forgets an interrupt that nothing was running for. */
void session_clear_interrupt(Session *session);

/* ---- asking ---- */

/* The type of an expression that is not run; NULL after an error. */
const char *session_expr_type(Session *session, const char *text, size_t len);
/* The tensors in it, or in what the function that it is comes to; false after
 * an error. */
bool session_type_leaves(Session *session, const char *text, size_t len,
                         TypeLeaves *out);
Binding *session_find_binding(Session *session, const char *name);
const char *session_binding_type(Session *session, Binding *binding);
/* How the type came about (see checker_explain_type); NULL when there is
 * none. */
const Diag *session_explain_type(Session *session, Binding *binding);
/* The value as printed; false after an error, or when there is none. */
bool session_binding_text(Session *session, Binding *binding, Buffer *out);
/* Every name that a program could use here: own ones, the library's, the
 * primitives; qualified ones as "nn.linear", modules as "nn.". */
void session_each_name(Session *session, void (*f)(void *, const char *name),
                       void *arg);
/* Own names, in order of definition. */
void session_each_binding(Session *session, void (*f)(void *, Binding *),
                          void *arg);
void session_each_field(Session *session, Binding *binding,
                        void (*f)(void *, const char *name), void *arg);
CheckStats session_stats(const Session *session);
/* Makes an error of each constraint that was left to the running program. */
void session_reject_unproved(Session *session);
/* NULL and none where there is no memory to list them. */
const UnprovedConstraint *session_unproved_constraints(Session *session,
                                                       uint32_t *count);

/* False, with a fault, where a variable of the environment, as AXON_THREADS,
 * has a value that it cannot have: nothing is run then. */
bool session_check_settings(Fault *fault);

/* From now on `watch` (plan/observer.h), which is borrowed, is told of what is
 * run; NULL: nobody is. */
void session_set_observer(Session *session,
                          const struct PlanObserver *observer);
/* What computes from now on (backend/target.h).  False: this machine lacks
 * something for it, and `fault` says what; or there is none of this name. */
bool session_set_target(Session *session, const char *target, Fault *fault);
const char *session_target_name(Session *session);
/* Computes what the program's names stand for, where it still waits; `unseen`:
 * but for what was computed inside of what reads it. */
SessionStatus session_force_globals(Session *session, bool skip_inlined);

/* ---- host_function.c: calls from a host ---- */

typedef struct HostFunction HostFunction;
typedef struct HostArg {
  const char *label; /* or NULL */
  const HostValue *value;
} HostArg;
/* Of what a name stands for, now and after it is defined anew; the session's.
 * NULL after an error. */
HostFunction *session_find_function(Session *session, const char *name);
const Signature *session_signature(const HostFunction *f);
/* *result is the caller's.  No arguments: `f ()`. */
SessionStatus session_call(Session *session, HostFunction *f, uint32_t count,
                           const HostArg *args, HostValue **result);
/* The value of a name at top level. */
SessionStatus session_global_value(Session *session, const char *name,
                                   HostValue **result);

/* ---- timing ---- */

/* One expression, checked, to be computed many times.  What the program has
 * defined is computed first, so that its time is not among them. */
typedef struct Benchmark Benchmark;
/* NULL: *status says why. */
Benchmark *session_benchmark_new(Session *session, const SourceInput *text,
                                 SessionStatus *status);
/* Computes it, whole, and forgets what it comes to. */
SessionStatus session_benchmark_run(Session *session, Benchmark *benchmark);

/* ---- texts and symbol references for editor/ ---- */

/* Who knows the text of a file that is other than on disk, as in an editor;
 * it says false where it is not. */
typedef bool UnsavedFileFn(void *owner, const char *path, const char **text,
                           size_t *len);
void session_set_unsaved_files(Session *session, UnsavedFileFn *f, void *owner);
/* From the next text on.  All that is handed out lives as long as the
 * session; offsets are of bytes. */
void session_record_refs(Session *session);
uint32_t session_current_file(const Session *session); /* of that text, */
const Program *session_current_program(const Session *session); /* its tree */
/* Checks another file, which may import that text, for its places: to know all
 * uses of a name. */
void session_check_importer(Session *session, const char *path);

/* ---- examples in doc comments: `>>> expression`, then what it prints ---- */

typedef struct DocTest {
  Span span;            /* from its line to the end of the doc comment */
  const char *name;     /* of what is documented; or NULL */
  const char *text;     /* the expression */
  const char *expected; /* NULL: it must be true */
} DocTest;
/* Those of the text last checked, in order. */
const DocTest *session_doc_tests(Session *session, uint32_t *count);

/* ---- diagnostics since session_clear_diags ---- */

const Diags *session_diags(const Session *session);
void session_clear_diags(Session *session);
const Sources *session_sources(const Session *session);
PRINTF_LIKE(4, 5)
Diag *session_error(Session *session, uint16_t code, Span span,
                    const char *format, ...);

/* ---- formatting ---- */

/* Formats a source text; false after an error. */
bool session_format(Session *session, const SourceInput *text, Buffer *out);
/* The same, and no word of errors. */
bool session_format_without_diags(Session *session, const SourceInput *text,
                                  Buffer *out);

#endif
