/* eval: runs typed declarations.
 *
 * A bytecode machine runs the functional part immediately.  An operation on
 * tensors adds a node to the graph (tensor/).  The graph runs when a value is
 * needed (lazy evaluation).  eval/ does no tensor arithmetic.
 *
 * Ownership: an Eval belongs to its session and keeps the values of globals.
 * Values are reference-counted. */
#ifndef AXON_EVAL_H
#define AXON_EVAL_H

#include "figure/figure.h"
#include "support/flag.h"
#include "support/interrupt.h"
#include "tensor/tensor.h"
#include "typecheck/core.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Diags Diags;
typedef struct Eval Eval;
typedef struct Interner Interner;
typedef struct Sources Sources;
typedef struct Sym Sym;

/* A step of a server of language models: tokens of several texts.  The host
 * owns the arrays, until it is called again. */
typedef struct ServeStep {
  int64_t tokens, pages, texts, cleared, seen; /* extents */
  const int64_t *at_token; /* [tokens, 3]: number, position, place */
  const int64_t *tables;   /* [tokens, pages] of the text of each token */
  const int64_t *last;     /* [texts]: which tokens are followed by another */
  const int64_t *pages_cleared; /* [cleared] */
  const float *choices;         /* [texts, 5]: temperature, top_k, ... */
  const int64_t *at_text;       /* [texts, 3]: seed, length, end in `seen` */
  const int64_t *tokens_seen;   /* [seen] */
} ServeStep;

/* Texts whose embeddings are wanted: the program computes some of them, from
 * the first one on.  The host owns the arrays, until it is called again. */
typedef struct ServeTexts {
  int64_t tokens, texts; /* extents */
  const int64_t *ids;    /* [tokens] */
  const int64_t *spans;  /* [texts, 2]: the start and length of each text in
                            `ids`; the lengths, at least 1, ascend */
} ServeTexts;

/* Callbacks and settings of the host.  All output goes through the
 * callbacks. */
typedef struct EvalHost {
  void *owner;
  /* For print and write. */
  void (*write)(void *owner, const char *text, size_t len);
  /* For trace: writes to stderr. */
  void (*trace)(void *owner, const char *text, size_t len);
  /* For progress: `done` goes from 0 to `total`.  A terminal shows a bar. */
  void (*progress)(void *owner, int64_t done, int64_t total);
  /* For track: a point of the curve of this name.  NULL: the numbers are not
   * computed for it. */
  void (*track)(void *owner, const char *name, double x, double y);
  /* For show: draws a tensor.  Returns false and sets a fault on failure.
   * `file` may be NULL. */
  bool (*show)(void *owner, const Tensor *t, const char *file, int64_t size,
               Fault *fault);
  /* For serve.next: takes the chosen tokens and waits for the next step.
   * Without tokens, it is the last one.  NULL: the host is no server. */
  void (*next_step)(void *owner, const int64_t *chosen, int64_t count,
                    ServeStep *step);
  /* For serve.next_texts: takes the embeddings of the first `count` texts that
   * it gave before, rows of `width` numbers, and waits for others.  Without
   * texts, it is the end.  NULL: the host is no server. */
  void (*next_texts)(void *owner, const float *rows, int64_t count,
                     int64_t width, ServeTexts *texts);
  int arg_count; /* arguments of the program, for args () */
  const char *const *args;
  int print_width;            /* columns of output */
  ColourDepth figure_colours; /* of printed figures */
  bool is_ascii;              /* figures are printed in ASCII */
  int64_t print_limit;        /* elements that print shows before `...` */
  Flag *interrupt;
  InterruptDeferral *deferral; /* of interrupts; NULL if none is set */
} EvalHost;

/* A value that a caller holds across runs.  Functions that return a handle
 * return NULL on failure. */
typedef struct ValueHandle ValueHandle;

/* Borrows host. */
Eval *eval_new(Arena *session, DimCtx *dims, Interner *interner,
               const EvalHost *host);
void eval_free(Eval *eval);
/* Sets the sources.  With sources, an error inside the library points at the
 * user's call. */
void eval_set_sources(Eval *eval, const Sources *sources);
/* Number of live objects, for tests: a run leaves only its results. */
uint64_t eval_live_objects(const Eval *eval);

/* Runs one declaration.  On an error it appends a diagnostic and returns false.
 * The diagnostic has the source span, the message, and the calls that led
 * there.  For CD_EXPR, *result (unless `result` is NULL) gets the value.  A
 * failed declaration leaves earlier globals unchanged.  If the program calls
 * exit(), eval_exited returns true. */
bool eval_run(Eval *eval, const CoreDec *dec, Diags *diags,
              ValueHandle **result);
/* Registers a library definition.  The checker calls this when it first meets
 * the name.  The definition runs at its first use. */
bool eval_define_lazy(Eval *eval, const CoreDec *dec);

void value_handle_free(Eval *eval, ValueHandle *handle);
/* Returns the current value of a global variable; NULL if it has none. */
ValueHandle *eval_global_handle(Eval *eval, const Var *var);
/* Formats the value as `print` does.  Forces the parts that it needs. */
bool eval_print(Eval *eval, ValueHandle *handle, Buffer *out, Diags *diags);
/* Returns a tensor value, forced; NULL, without a diagnostic, if the value is
 * not a tensor. */
Tensor *eval_tensor(Eval *eval, ValueHandle *handle, Diags *diags);

/* ---- aot_trace.c: calls with symbolic arguments ---- */

typedef enum EvalArgKind {
  EVAL_ARG_UNIT,
  EVAL_ARG_ABSENT, /* an omitted optional argument */
  EVAL_ARG_TENSOR, /* uses node */
  EVAL_ARG_SIZE,   /* uses size */
  EVAL_ARG_SHAPE,  /* uses shape, count, broadcast_mask */
  EVAL_ARG_TUPLE,  /* uses parts, count */
  EVAL_ARG_RECORD, /* uses parts, labels, count */
} EvalArgKind;
typedef struct EvalArg { /* an argument; borrows what it points to */
  EvalArgKind kind;
  Node *node;
  int64_t size;
  const int64_t *shape;
  uint64_t broadcast_mask;
  const struct EvalArg *parts;
  Sym *const *labels;
  uint32_t count;
} EvalArg;
/* Applies function fn to its implicit arguments and its arguments.  Returns
 * NULL after an error. */
ValueHandle *eval_apply(Eval *eval, const Var *fn, uint32_t count,
                        const EvalArg *args, Diags *diags);
/* Starts AOT tracing with `sizes`; NULL ends it.  During tracing, sizes may be
 * symbolic (tensor/extent.h), and NODE_ARG nodes stand for arguments.  No node
 * that depends on them runs.  If the program needs the value of such a node,
 * this is an error. */
void eval_set_aot_tracing(Eval *eval, ExtentTable *sizes);
Graph *eval_graph(Eval *eval);
/* Calls f for each tensor in records and tuples.  `path` is, for example, "p.w"
 * or "0"; "" is the value itself.  Returns false if the value contains anything
 * else. */
typedef void LeafFn(void *arg, const char *path, Node *node);
bool eval_each_leaf(Eval *eval, ValueHandle *handle, LeafFn *f, void *arg);

/* Makes the bytes of a PNG file of a figure of module plot.  On success, *bytes
 * is to be freed by mem_free.  Returns false if the value is not a figure, or
 * with a diagnostic if it cannot be drawn. */
bool eval_figure_png(Eval *eval, ValueHandle *handle, FigureSize size,
                     void **bytes, size_t *len, Diags *diags);

bool eval_exited(const Eval *eval, int *status);

/* Sets the observer (plan/observer.h) of graph runs; NULL removes it.  `watch`
 * is borrowed. */
void eval_set_observer(Eval *eval, const struct PlanObserver *observer);

/* ---- values of host programs: host_value.c, host_call.c ---- */

/* A value that does not depend on an Eval.  It is a tree of at most
 * MAX_HOST_VALUE_DEPTH levels with an atomic reference count.  It is immutable
 * once it is shared. */
typedef enum HostValueKind {
  HOST_VALUE_NONE,
  HOST_VALUE_UNIT,
  HOST_VALUE_NUMBER, /* uses number */
  /* Uses tensor, whose data may be borrowed (tensor_borrow) */
  HOST_VALUE_TENSOR,
  HOST_VALUE_STRING,      /* uses text */
  HOST_VALUE_TUPLE,       /* uses items; also represents a shape */
  HOST_VALUE_RECORD,      /* uses items and names */
  HOST_VALUE_LIST,        /* uses items */
  HOST_VALUE_CONSTRUCTOR, /* text is its name; at most one item */
  HOST_VALUE_KEY,         /* uses key */
  HOST_VALUE_OTHER,       /* a function; text is its printed form */
  HOST_VALUE_COUNT
} HostValueKind;
enum { MAX_HOST_VALUE_DEPTH = 200 };

typedef struct HostValue {
  HostValueKind kind;
  uint32_t ref_count, len, depth;
  /* Others hold the tensor too, so nobody may change its data. */
  bool is_shared;
  bool is_weakly_typed; /* a number without a type of its own: it takes the type
                           that is expected */
  union {
    Scalar number;
    PrngKey key;
  };
  Tensor *tensor;
  void (*release)(void *owner); /* owner of the memory of the tensor; or NULL */
  void *owner;
  uint64_t bits; /* the bits of the number in memory */
  char *text;    /* NUL-terminated */
  size_t text_len;
  struct HostValue **items; /* owned; each item is NULL until it is set */
  char **names;
} HostValue;

/* Allocates one block of memory.  Returns NULL if there is no memory. */
HostValue *host_value_new(HostValueKind kind, uint32_t len, const char *text,
                          size_t text_len, const char *const *names);
/* weak: the number has no type of its own.  A weak float is stored with the
 * precision of f64, although its type is f32. */
HostValue *host_value_number(Scalar x, bool weak);
/* DT_NONE: the type of the number itself. */
Scalar host_value_promote(const HostValue *d, Dtype dtype);
HostValue *host_value_retain(HostValue *d);
void host_value_release(HostValue *d); /* d may be NULL */

/* A function that a host program can call.  It is made from a declaration
 * (CD_FUNS) of a function of `count` arguments.  It lives as long as the
 * Eval. */
typedef struct HostEntry HostEntry;
HostEntry *eval_host_entry_new(Eval *eval, const CoreDec *dec, uint32_t count);
/* Runs the function.  The caller owns *result.  weak[i] is the type of weak
 * numbers in argument i; DT_NONE: each number's own type.  If a value still
 * refers to borrowed data after the call, the data are copied.  Reports errors
 * as eval_run does. */
bool eval_call_host_entry(Eval *eval, const HostEntry *entry,
                          const HostValue *const *args, const Dtype *weak,
                          Diags *diags, HostValue **result);
/* Converts a held value.  Forces all of it. */
bool eval_to_host_value(Eval *eval, ValueHandle *handle, Diags *diags,
                        HostValue **result);
/* ---- repeated runs, for benchmarks ---- */

/* Computes the deferred values of all globals.  With skip_inlined, skips nodes
 * that were computed inside the kernel of a consumer. */
bool eval_force_globals(Eval *eval, bool skip_inlined, Diags *diags);
/* A declaration `val name = e` that can run many times.  It lives as long as
 * the Eval.  NULL after an error. */
typedef struct PreparedDec PreparedDec;
PreparedDec *eval_prepare_dec(Eval *eval, const CoreDec *dec, Diags *diags);
/* Runs the declaration, computes its whole value, and drops the value. */
bool eval_run_prepared(Eval *eval, const PreparedDec *prepared, Diags *diags);

#endif
