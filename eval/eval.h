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
  Flag *interrupt;
} EvalHost;

/* A value held across runs; NULL on failure. */
typedef struct ValueHandle ValueHandle;

Eval *eval_new(Arena *session, DimCtx *dims, Interner *interner,
               const EvalHost *host); /* host is borrowed */
void eval_free(Eval *eval);
/* With these, errors inside library sources point at the user's call. */
void eval_set_sources(Eval *eval, const Sources *sources);
/* Objects now alive, for tests: runs leave no more than their results. */
uint64_t eval_live_objects(const Eval *eval);

/* Runs one declaration.  Errors become diagnostics (place, message, the
 * chain of calls as steps) and false.  For CD_EXPR *result (if wanted) gets
 * the value.  A failed declaration leaves earlier globals as they were.
 * exit() in the program sets eval_exited. */
bool eval_run(Eval *eval, const CoreDec *dec, Diags *diags,
              ValueHandle **result);
/* Library definitions are handed over when the checker first meets them, and
 * run when first used. */
bool eval_define_lazy(Eval *eval, const CoreDec *dec);

void value_handle_free(Eval *eval, ValueHandle *handle);
/* The current value of a global variable; NULL if it has none. */
ValueHandle *eval_global_handle(Eval *eval, const Var *var);
/* The value as `print` shows it; forces what it needs. */
bool eval_print(Eval *eval, ValueHandle *handle, Buffer *out, Diags *diags);
/* A tensor value, forced; NULL if it is not a tensor (no diagnostic then). */
Tensor *eval_tensor(Eval *eval, ValueHandle *handle, Diags *diags);

/* ---- aot_trace.c: calls from outside ---- */

typedef enum EvalArgKind {
  EVAL_ARG_UNIT,
  EVAL_ARG_ABSENT, /* an optional argument that is left out */
  EVAL_ARG_TENSOR, /* node */
  EVAL_ARG_SIZE,   /* size */
  EVAL_ARG_SHAPE,  /* shape, count, stars */
  EVAL_ARG_TUPLE,  /* parts, count */
  EVAL_ARG_RECORD, /* parts, labels, count */
} EvalArgKind;
typedef struct EvalArg { /* an argument; borrowed */
  EvalArgKind kind;
  Node *node;
  int64_t size;
  const int64_t *shape;
  uint64_t broadcast_mask;
  const struct EvalArg *parts;
  Sym *const *labels;
  uint32_t count;
} EvalArg;
/* Applies the function of that name to its hidden arguments and the others.
 * NULL after an error. */
ValueHandle *eval_apply(Eval *eval, const Var *fn, uint32_t count,
                        const EvalArg *args, Diags *diags);
/* From now on sizes may be such as are no numbers yet (tensor/extent.h), and
 * NODE_ARG stands for arguments: nothing that needs them is run, and where the
 * program needs to know one of them there is an error.  NULL: no more. */
void eval_set_aot_tracing(Eval *eval, ExtentTable *sizes);
Graph *eval_graph(Eval *eval);
/* Calls f for each tensor in records and tuples, "p.w", "0"; "": all of it.
 * False where there is something else. */
typedef void LeafFn(void *arg, const char *path, Node *node);
bool eval_each_leaf(Eval *eval, ValueHandle *handle, LeafFn *f, void *arg);

bool eval_exited(const Eval *eval, int *status);

/* From now on `watch` (plan/observer.h), which is borrowed, is told of what the
 * graph runs; NULL: nobody is. */
void eval_set_observer(Eval *eval, const struct PlanObserver *observer);

/* ---- values outside: host_value.c, host_call.c ---- */

/* A value that does not need its Eval: a tree of at most MAX_HOST_VALUE_DEPTH
 * levels, counted (atomically), not changed once others have it. */
typedef enum HostValueKind {
  HOST_VALUE_NONE,
  HOST_VALUE_UNIT,
  HOST_VALUE_NUMBER, /* number */
  HOST_VALUE_TENSOR, /* tensor, whose data may be lent: see tensor_borrow */
  HOST_VALUE_STRING, /* text */
  HOST_VALUE_TUPLE,  /* items; also a shape */
  HOST_VALUE_RECORD, /* items, names */
  HOST_VALUE_LIST,   /* items */
  HOST_VALUE_CONSTRUCTOR, /* text is its name; one item, or none */
  HOST_VALUE_KEY,         /* key */
  HOST_VALUE_OTHER,       /* text: as it is printed; a function */
  HOST_VALUE_COUNT
} HostValueKind;
enum { MAX_HOST_VALUE_DEPTH = 200 };

typedef struct HostValue {
  HostValueKind kind;
  uint32_t ref_count, len, depth;
  bool is_shared; /* others have its tensor, too: its data are not to be changed
                   */
  bool is_weakly_typed; /* a number of no type yet: it takes the one that is
                           asked for */
  union {
    Scalar number;
    PrngKey key;
  };
  Tensor *tensor;
  void (*release)(void *owner); /* what the tensor lies over; or NULL */
  void *owner;
  uint64_t bits; /* the number as it lies in memory */
  char *text;    /* NUL-ended */
  size_t text_len;
  struct HostValue **items; /* owned; NULL until they are put in */
  char **names;
} HostValue;

/* One block of memory; NULL: there is none. */
HostValue *host_value_new(HostValueKind kind, uint32_t len, const char *text,
                          size_t text_len, const char *const *names);
/* weak: a float is as exact as f64, though its type is f32. */
HostValue *host_value_number(Scalar x, bool weak);
Scalar host_value_promote(const HostValue *d,
                          Dtype dtype); /* DT_NONE: by itself */
HostValue *host_value_retain(HostValue *d);
void host_value_release(HostValue *d); /* may be NULL */

/* A function that is called from outside, made of a declaration of one that
 * takes `count` arguments (CD_FUNS): lives as long as the Eval. */
typedef struct HostEntry HostEntry;
HostEntry *eval_host_entry_new(Eval *eval, const CoreDec *dec, uint32_t count);
/* Runs it; *result is the caller's.  weak[i]: type of the numbers in argument
 * i that have none; DT_NONE: as they are.  Whatever keeps hold of lent data has
 * a copy of them afterwards.  Errors as for eval_run. */
bool eval_call_host_entry(Eval *eval, const HostEntry *entry,
                          const HostValue *const *args, const Dtype *weak,
                          Diags *diags, HostValue **result);
/* A held value, with all that it needs run. */
bool eval_to_host_value(Eval *eval, ValueHandle *handle, Diags *diags,
                        HostValue **result);
/* ---- again and again, for timing ---- */

/* What globals hold is computed, where it still waits for that; `unseen`: but
 * for what was computed inside of what reads it. */
bool eval_force_globals(Eval *eval, bool skip_inlined, Diags *diags);
/* A declaration `val name = e` that can be run many times, as long as the Eval
 * lives; NULL after an error. */
typedef struct PreparedDec PreparedDec;
PreparedDec *eval_prepare_dec(Eval *eval, const CoreDec *dec, Diags *diags);
/* Runs it, computes all of its value, and forgets that. */
bool eval_run_prepared(Eval *eval, const PreparedDec *prepared, Diags *diags);

#endif
