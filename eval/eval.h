/* eval: runs typed declarations.  The functional part runs at once on a
 * bytecode machine; an operation on tensors adds a node to the graph
 * (tensor/), which is run when a value is needed.  No tensor arithmetic here.
 *
 * Ownership: an Eval belongs to its session and keeps the values of globals;
 * Values are counted references. */
#ifndef AXON_EVAL_H
#define AXON_EVAL_H

#include "support/support.h"
#include "tensor/tensor.h"
#include "typecheck/core.h"

typedef struct Eval Eval;

/* What the outside gives: all output goes through here. */
typedef struct EvalHost {
  void *owner;
  void (*write)(void *owner, const char *text, size_t len); /* print, write */
  void (*trace)(void *owner, const char *text, size_t len); /* trace: stderr */
  /* progress: called with done from 0 to total; a bar on a terminal. */
  void (*progress)(void *owner, int64_t done, int64_t total);
  /* show: draws a tensor; false with a fault.  kind, file may be NULL. */
  bool (*show)(void *owner, const Tensor *t, const char *kind, const char *file,
               int64_t size, Fault *fault);
  int arg_count; /* of the program, for args () */
  const char *const *args;
  int print_width;     /* columns */
  int64_t print_limit; /* elements before `...` */
  volatile bool *interrupt;
} EvalHost;

/* A value held across runs; NULL on failure. */
typedef struct Held Held;

Eval *eval_new(Arena *session, DimCtx *dims, Interner *interner,
               const EvalHost *host); /* host is borrowed */
void eval_free(Eval *eval);
/* With these, errors inside library sources point at the user's call. */
void eval_use_sources(Eval *eval, const Sources *sources);
/* Objects now alive, for tests: runs leave no more than their results. */
uint64_t eval_live(const Eval *eval);

/* Runs one declaration.  Errors become diagnostics (place, message, the
 * chain of calls as steps) and false.  For CD_EXPR *result (if wanted) gets
 * the value.  A failed declaration leaves earlier globals as they were.
 * exit() in the program sets eval_exited. */
bool eval_run(Eval *eval, const CoreDec *dec, Diags *diags, Held **result);
/* Library definitions are handed over when the checker first meets them, and
 * run when first used. */
bool eval_define_lazy(Eval *eval, const CoreDec *dec);

void held_free(Eval *eval, Held *held);
/* The current value of a global variable; NULL if it has none. */
Held *eval_global(Eval *eval, const Var *var);
/* The value as `print` shows it; forces what it needs. */
bool eval_print(Eval *eval, Held *held, Buffer *out, Diags *diags);
/* A tensor value, forced; NULL if it is not a tensor (no diagnostic then). */
Tensor *eval_tensor(Eval *eval, Held *held, Diags *diags);
bool eval_exited(const Eval *eval, int *status);

/* From now on `watch` (tensor/watch.h), which is borrowed, is told of what the
 * graph runs; NULL: nobody is. */
void eval_watch(Eval *eval, const struct PlanWatch *watch);

/* ---- again and again, for timing ---- */

/* What globals hold is computed, where it still waits for that. */
bool eval_settle(Eval *eval, Diags *diags);
/* A declaration `val name = e` that can be run many times, as long as the Eval
 * lives; NULL after an error. */
typedef struct Rerun Rerun;
Rerun *eval_rerun_new(Eval *eval, const CoreDec *dec, Diags *diags);
/* Runs it, computes all of its value, and forgets that. */
bool eval_rerun(Eval *eval, const Rerun *rerun, Diags *diags);

#endif
