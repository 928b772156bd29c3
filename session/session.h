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
typedef struct Ran {
  Binding *const *bindings;
  uint32_t binding_count;
  bool bare; /* a bare expression: bindings[0] is `it` */
  bool main; /* of the text itself, not of a file that it imports */
} Ran;

typedef struct SessionHost {
  EvalHost eval; /* its `interrupt` is the session's own */
  /* After each declaration that was run; may be NULL.  Uses eval.owner.  When
   * session_binding_text fails in it, nothing more is run. */
  void (*ran)(void *owner, Session *session, const Ran *ran);
  /* After each declaration that was checked; may be NULL. */
  void (*checked)(void *owner, Session *session, const Ran *ran);
} SessionHost;

/* The host is copied.  NULL when there is no memory. */
Session *session_open(const SessionHost *host);
void session_close(Session *session);

/* ---- checking, then running ---- */

/* Bytes of a text.  Spans could hold more, but a device, or a file that is no
 * program, may give bytes without end. */
enum { SESSION_TEXT_MOST = 1 << 28 };

/* Texts that were only ever checked are in a module of their own each; the
 * text of the program and of the REPL are in the session's main one. */
typedef struct SessionText {
  const char *name; /* as messages call it; imports are relative to it */
  const char *text; /* NULL: read the file `name` */
  size_t len;
  bool bare;       /* bare expressions are allowed */
  bool own_module;
  bool final;      /* session_input: no more is to come, so that a text that
                      ends too early is an error */
} SessionText;

SessionStatus session_check(Session *session, const SessionText *text);
SessionStatus session_run(Session *session); /* what waits */
void session_drop_waiting(Session *session);
/* How values are printed and where output goes; may be changed. */
EvalHost *session_eval_host(Session *session);
/* One input of the REPL: each declaration is run before the next is checked. */
SessionStatus session_input(Session *session, const SessionText *text);
/* Declarations that an error or an interrupt in the last input kept from being
 * run. */
uint32_t session_input_rest(const Session *session);
int session_exit_status(const Session *session);

/* `-D n=64` */
void session_define_size(Session *session, const char *name, int64_t value);
bool session_met_size(const Session *session, const char *name);
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
bool session_leaves(Session *session, const char *text, size_t len,
                    Leaves *out);
Binding *session_find(Session *session, const char *name);
const char *session_binding_type(Session *session, Binding *binding);
/* How the type came about (see checker_why); NULL when there is none. */
const Diag *session_why(Session *session, Binding *binding);
/* The value as printed; false after an error, or when there is none. */
bool session_binding_text(Session *session, Binding *binding, Buffer *out);
/* Every name that a program could use here: own ones, the library's, the
 * primitives; qualified ones as "nn.linear", modules as "nn.". */
void session_each_name(Session *session, void (*f)(void *, const char *name),
                       void *arg);
/* Own names, in order of definition. */
void session_each_own(Session *session, void (*f)(void *, Binding *),
                      void *arg);
void session_fields(Session *session, Binding *binding,
                    void (*f)(void *, const char *name), void *arg);
CheckStats session_stats(const Session *session);
/* Makes an error of each constraint that was left to the running program. */
void session_refuse_open(Session *session);
/* NULL and none where there is no memory to list them. */
const OpenConstraint *session_open_constraints(Session *session,
                                               uint32_t *count);

/* False, with a fault, where a variable of the environment, as AXON_THREADS,
 * has a value that it cannot have: nothing is run then. */
bool session_settings(Fault *fault);

/* From now on `watch` (tensor/watch.h), which is borrowed, is told of what is
 * run; NULL: nobody is. */
void session_watch(Session *session, const struct PlanWatch *watch);
/* What computes from now on (backend/target.h).  False: this machine lacks
 * something for it, and `fault` says what; or there is none of this name. */
bool session_run_on(Session *session, const char *target, Fault *fault);
const char *session_runs_on(Session *session);
/* Computes what the program's names stand for, where it still waits; `unseen`:
 * but for what was computed inside of what reads it. */
SessionStatus session_settle(Session *session, bool unseen);

/* ---- function.c: calls from a host ---- */

typedef struct Function Function;
typedef struct HostArg {
  const char *label; /* or NULL */
  const Datum *value;
} HostArg;
/* Of what a name stands for, now and after it is defined anew; the session's.
 * NULL after an error. */
Function *session_function(Session *session, const char *name);
const Signature *session_signature(const Function *f);
/* *result is the caller's.  No arguments: `f ()`. */
SessionStatus session_call(Session *session, Function *f, uint32_t count,
                           const HostArg *args, Datum **result);
/* The value of a name at top level. */
SessionStatus session_value(Session *session, const char *name,
                            Datum **result);

/* ---- timing ---- */

/* One expression, checked, to be computed many times.  What the program has
 * defined is computed first, so that its time is not among them. */
typedef struct Repeated Repeated;
/* NULL: *status says why. */
Repeated *session_repeatable(Session *session, const SessionText *text,
                             SessionStatus *status);
/* Computes it, whole, and forgets what it comes to. */
SessionStatus session_repeat(Session *session, Repeated *repeated);

/* ---- places: what an editor asks of the text last checked ---- */

/* Who knows the text of a file that is other than on disk, as in an editor;
 * it says false where it is not. */
typedef bool Unsaved(void *owner, const char *path, const char **text,
                     size_t *len);
void session_on_unsaved(Session *session, Unsaved *f, void *owner);
/* From the next text on.  All that is handed out lives as long as the
 * session; offsets are of bytes. */
void session_keep_places(Session *session);
uint32_t session_file(const Session *session); /* of that text, */
const Program *session_program(const Session *session); /* its tree */
/* Checks another file, which may import that text, for its places: to know all
 * uses of a name. */
void session_check_beside(Session *session, const char *path);
/* The name at an offset, or ending there; NULL: there is none. */
const Place *session_name_at(Session *session, uint32_t file, uint32_t offset);
/* The innermost expression of that text, or NULL. */
const Place *session_expr_at(Session *session, uint32_t offset);
const char *session_place_type(Session *session, const Place *place);
/* Each place of the same name, once, in order of the text. */
void session_each_use(Session *session, const Place *of,
                      void (*f)(void *, const Place *), void *arg);
/* Parameters with labels of the function that a PLACE_LABEL is for. */
void session_labels(Session *session, const Place *place,
                    void (*f)(void *, Sym *name, bool optional,
                              const char *type),
                    void *arg);
/* Where a name is bound, or a module begins; file 0: nowhere. */
Span session_definition(Session *session, const Place *place);
const char *session_doc(Session *session, const Place *place); /* or NULL */
/* A place of that kind exactly there; or NULL. */
const Place *session_place(Session *session, PlaceKind kind, Span span);

/* Why a name cannot be renamed at all; NULL: it can. */
const char *session_rename_refused(Session *session, const Place *of);
/* The edits, in order of file and place, that call `of` by another name in
 * `text`, the one last checked, and in what it imports; or why not. */
const char *session_rename(Session *session, const SessionText *text,
                           const Place *of, const char *name,
                           void (*f)(void *, const DiagEdit *), void *arg);

/* What was inferred and is not written: behind `at` of the text it is shown,
 * and there it can be written by what is put before and behind. */
typedef struct Hint {
  enum { HINT_TYPE, HINT_STAGE } kind;
  uint32_t at;
  const char *type;
  uint32_t before_at, behind_at;
  const char *before, *behind; /* "(", " : f32[n])"; NULL: it cannot be */
} Hint;
/* Those that touch a part of the text; with what writes them if that is asked
 * for, of the first few, where there is such a thing. */
void session_each_hint(Session *session, uint32_t start, uint32_t end,
                       bool write, void (*f)(void *, const Hint *),
                       void *arg);

/* What can be written at a place of the text last checked, or is called there.
 * It is checked with a name put there, to the end of that declaration; what was
 * asked before stays as it was. */
typedef struct Offer {
  enum {
    OFFER_VALUE, OFFER_FUNCTION, OFFER_CONSTRUCTOR, OFFER_SIZE, OFFER_MODULE,
    OFFER_FIELD, OFFER_LABEL, OFFER_TYPE, OFFER_KEYWORD,
  } kind;
  const char *name;
  const char *type, *doc; /* or NULL */
} Offer;
/* Those names that begin like what stands before the offset. */
void session_complete(Session *session, const SessionText *text,
                      uint32_t offset, void (*f)(void *, const Offer *),
                      void *arg);
typedef struct Called {
  const char *name, *type, *doc;
  const char *label; /* of the argument at hand; or NULL: */
  uint32_t number;   /* of it among those without one, from 0 */
} Called;
/* False: nothing is called there. */
bool session_called(Session *session, const SessionText *text,
                    uint32_t offset, Called *out);

/* ---- examples in doc comments: `>>> expression`, then what it prints ---- */

typedef struct Example {
  Span span;            /* from its line to the end of the doc comment */
  const char *name;     /* of what is documented; or NULL */
  const char *text;     /* the expression */
  const char *expected; /* NULL: it must be true */
} Example;
/* Those of the text last checked, in order. */
const Example *session_examples(Session *session, uint32_t *count);

/* ---- diagnostics since session_clear_diags ---- */

const Diags *session_diags(const Session *session);
void session_clear_diags(Session *session);
const Sources *session_sources(const Session *session);
PRINTF_LIKE(4, 5)
Diag *session_error(Session *session, uint16_t code, Span span,
                    const char *format, ...);

/* ---- for those who work on Axon ---- */

typedef enum DumpStage {
  DUMP_NONE,
  DUMP_TREE, /* what was parsed, as s-expressions */
  DUMP_CORE, /* what the checker made of it */
  DUMP_GRAPH, /* of functions, for all sizes (session/trace.h) */
  DUMP_COUNT,
} DumpStage;

DumpStage dump_stage(const char *name); /* DUMP_NONE: there is no such one */
/* Appends what the stage makes of a text; nothing is run.  entries: functions
 * for DUMP_GRAPH; none: those whose types are settled. */
SessionStatus session_dump(Session *session, const SessionText *text,
                           DumpStage stage, uint32_t entry_count,
                           const char *const *entries, Buffer *out);

/* Formats a source text; false after an error. */
bool session_format(Session *session, const SessionText *text, Buffer *out);
/* The same, and no word of errors. */
bool session_format_quietly(Session *session, const SessionText *text,
                            Buffer *out);

#endif
