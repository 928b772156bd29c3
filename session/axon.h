/* axon.h: Axon as a library.  Main entry points: axn_session_new,
 * axn_session_run and axn_call.
 *
 * A session holds definitions.  It checks and runs texts of the language, and
 * calls functions on data in the caller's memory.  Nothing here exits, aborts
 * or prints: errors are diagnostics to query, and output goes to a callback.
 * doc/embedding.md is the guide.
 *
 * Threads: one thread at a time may use a session.  Different sessions may be
 * used from different threads at the same time.  Only axn_interrupt may be
 * called from anywhere, also from a signal handler.
 *
 * Ownership: returned strings live until the session is freed.  Strings of
 * diagnostics live until the next text is checked or run, or the next call.  An
 * AxnValue belongs to the caller until axn_value_free; it may outlive its
 * session. */
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
  AXN_ERROR = 1,       /* see the diagnostics */
  AXN_INCOMPLETE = 2,  /* the text is incomplete */
  AXN_INTERRUPTED = 3, /* axn_interrupt was called */
  AXN_EXITED = 4,      /* the program called exit; see axn_exit_status */
  AXN_BUSY = 5, /* the session is running, and its output callback made another
                   request; there is no diagnostic */
} AxnStatus;

typedef enum AxnSeverity {
  AXN_SEVERITY_ERROR = 1,
  AXN_SEVERITY_WARNING = 2,
  AXN_SEVERITY_NOTE = 3,
} AxnSeverity;

typedef struct AxnPlace { /* lines and columns count from 1 */
  const char *file;       /* NULL if there is no place */
  uint32_t line, column, end_line, end_column; /* columns count bytes */
  uint32_t start, end; /* byte offsets in the whole text, from 0 */
} AxnPlace;

/* A step of the provenance trace of a shape. */
typedef struct AxnStep {
  AxnPlace place;
  const char *expression; /* expression on one line, or NULL */
  const char *shape;      /* its type: "f32[b, 32, 26, 26]" */
  /* arithmetic of the type: "28 - 3 + 1 = 26"; or NULL */
  const char *arithmetic;
} AxnStep;

/* A related place. */
typedef struct AxnMark {
  AxnPlace place;
  const char *label; /* "the annotation"; or NULL */
} AxnMark;

/* Replaces the text of a place, which may be empty, by `text`. */
typedef struct AxnEdit {
  AxnPlace place;
  const char *text;
} AxnEdit;

/* A fix-it: a change that implements the help line.  Its edits are in order and
   do not overlap.  Their places refer to the original text. */
typedef struct AxnFix {
  const char *title; /* "write `softmax`" */
  const AxnEdit *edits;
  size_t edit_count;
} AxnFix;

/* A diagnostic.  Later versions may add fields at the end of this struct.  The
   structs that it points to do not change. */
typedef struct AxnDiag {
  AxnSeverity severity;
  uint32_t code;       /* 301 is E0301, or W0301 for a warning */
  const char *message; /* one line */
  AxnPlace place;      /* primary place */
  const char *label;   /* label of the primary place; this and the following
                          strings may be NULL */
  const char *note, *help;
  const char *witness; /* counterexample for symbolic sizes: "fails at h = 350:
                          20 meets 21" */
  const char *found, *expected; /* types or sizes that differ */
  int32_t axis; /* axis of `found` along which they differ, from 0; -1: none or
                   several */
  const AxnStep *steps; /* provenance trace, in program order */
  size_t step_count;
  const AxnMark *marks;
  size_t mark_count;
  const AxnFix *fixes; /* best first */
  size_t fix_count;
} AxnDiag;

/* "0.1.0": version of the loaded library, which may be newer than this
   header. */
AXN_API const char *axn_version(void);
/* ABI version of this header.  Within a version, functions may be added, but
   none is changed. */
#define AXN_ABI 1
AXN_API int axn_abi(void); /* that of the loaded library */

/* Returns NULL if there is no memory. */
AXN_API AxnSession *axn_session_new(void);
AXN_API void axn_session_free(AxnSession *session);

/* Sets the callback for the output of `print`.  Without one, output is
   discarded. */
AXN_API void axn_session_output(AxnSession *session,
                                void (*write)(void *owner, const char *text,
                                              size_t len),
                                void *owner);

/* Checks declarations and adds their definitions, but runs nothing.  `name` is
   the name of the text in messages. */
AXN_API AxnStatus axn_session_check(AxnSession *session, const char *name,
                                    const char *text, size_t len);
/* Checks the complete text, then runs it.  Bare expressions are allowed; `it`
   is the value of the last one. */
AXN_API AxnStatus axn_session_run(AxnSession *session, const char *name,
                                  const char *text, size_t len);
AXN_API int axn_exit_status(const AxnSession *session);

/* ---- a prompt or a notebook: inputs as in `axon repl` ---- */

struct AxnTensor;

/* How inputs are displayed.  Functions may be NULL. */
typedef struct AxnDisplay {
  /* A definition or the value of a bare expression, whose name is "it", as
     `axon repl` shows it: "val x : i64 = 3\n".  The function may call
     axn_session_png.  NULL: the text goes to the output. */
  void (*result)(void *owner, const char *name, const char *text, size_t len);
  /* What `show` draws: u8[height, width] in grey, or u8[height, width, 3].
     The pixels are valid during the call.  NULL: `show` needs a file. */
  void (*picture)(void *owner, const struct AxnTensor *pixels);
  int32_t columns; /* of a line; 0: 80 */
  bool colours;    /* texts contain ANSI escape sequences, also axn_diag_text */
} AxnDisplay;
AXN_API AxnStatus axn_session_display(AxnSession *session,
                                      const AxnDisplay *display, void *owner);
/* Runs an input as `axon repl` does: declarations, bare expressions, and
   commands such as ":type x" on lines that begin with a colon.  Runs each
   declaration before it checks the next one.  After an error, what ran before
   it stays. */
AXN_API AxnStatus axn_session_input(AxnSession *session, const char *name,
                                    const char *text, size_t len);
/* AXN_INCOMPLETE if such an input needs more lines; AXN_ERROR after a syntax
   error.  Runs nothing and keeps the diagnostics. */
AXN_API AxnStatus axn_input_status(AxnSession *session, const char *text,
                                   size_t len);
/* Calls f with each completion of the word that ends at an offset of an input.
   Returns the offset where the word begins. */
AXN_API size_t axn_complete(AxnSession *session, const char *text, size_t len,
                            size_t offset,
                            void (*f)(void *owner, const char *word),
                            void *owner);
/* Type, documentation and example of the name at an offset of an input, as
   ":doc NAME" shows them.  If no name is there: of the name before it in the
   line.  NULL if nothing is known. */
AXN_API const char *axn_describe(AxnSession *session, const char *text,
                                 size_t len, size_t offset);

/* The type of a name as printed ("'a[...s, n] -> ...").  NULL if unknown. */
AXN_API const char *axn_session_type(AxnSession *session, const char *name);
/* A leaf of a type: its path of fields, "conv.w"; its type, "f32[64, 3, 7, 7]";
   its number of elements, "9408" or "64*n". count is NULL if it is not a
   tensor. */
typedef struct AxnLeaf {
  const char *path, *type, *count;
} AxnLeaf;
/* The leaves of the type of an expression, which is not run.  For a function,
   the leaves of its final result.  Stores up to `most` leaves in `out`. Returns
   their number, or 0 after an error.  `total` is set to the number of all
   elements unless it is NULL. */
AXN_API size_t axn_session_leaves(AxnSession *session, const char *expression,
                                  AxnLeaf *out, size_t most,
                                  const char **total);
/* The value of a global name as `print` shows it.  NULL if it has none. */
AXN_API const char *axn_session_print(AxnSession *session, const char *name);
/* The bytes of a PNG file, if the value of a global name is a figure of the
   module plot; *len is set to their number.  They stay valid until the next
   call for this session.  NULL if there is no such figure, or after an error,
   such as a missing library: then there are diagnostics. */
AXN_API const void *axn_session_png(AxnSession *session, const char *name,
                                    size_t *len);

/* Counts of the constraints on sizes and shapes in all texts so far. */
typedef struct AxnCounts {
  uint64_t proved;
  /* part of a type (deferred): each call has to satisfy them */
  uint64_t carried;
  uint64_t open; /* checked at run time */
} AxnCounts;
AXN_API AxnCounts axn_session_counts(const AxnSession *session);

/* ---- references to names, for editors and other tools ----
 *
 * For the text last given to axn_session_check or axn_session_run, if
 * axn_session_keep_places was called before.  Offsets are in bytes, from 0.  If
 * the text has errors, the parts that were understood are available. */

AXN_API void axn_session_keep_places(AxnSession *session);
/* The type of the name or of the innermost expression at an offset, or NULL.
   place: set to its place; may be NULL. */
AXN_API const char *axn_type_at(AxnSession *session, size_t offset,
                                AxnPlace *place);
/* Finds the definition of the name at an offset.  Returns false if there is no
   name, or if it is built in.  Names of the library are defined in files such
   as "nn.axn". */
AXN_API bool axn_definition_at(AxnSession *session, size_t offset,
                               AxnPlace *out);
/* Calls f with each reference of the name at an offset, its definition
   included, in the text and its imports.  Returns their number. */
AXN_API size_t axn_uses_at(AxnSession *session, size_t offset,
                           void (*f)(void *owner, const AxnPlace *place),
                           void *owner);
/* Inferred types that the text does not state: of names and parameters, and of
   each line of a pipeline. */
typedef struct AxnShape {
  AxnPlace place;   /* empty place after which to show it */
  const char *type; /* "f32[b, 784]" */
  bool stage;       /* of a line of a pipeline; otherwise of a name */
} AxnShape;
AXN_API void axn_each_shape(AxnSession *session,
                            void (*f)(void *owner, const AxnShape *shape),
                            void *owner);

/* Diagnostics of the last text. */
AXN_API size_t axn_diag_count(const AxnSession *session);
/* NULL if index is too large or there is no memory. */
AXN_API const AxnDiag *axn_diag_get(AxnSession *session, size_t index);
/* The diagnostic as text, with source lines. */
AXN_API const char *axn_diag_text(AxnSession *session, size_t index);

/* All diagnostics as a JSON array of the objects of doc/diagnostics.md. */
AXN_API const char *axn_diag_json(AxnSession *session);

/* Stops what the session is running as soon as possible.  If it runs nothing,
   stops what it runs next. */
AXN_API void axn_interrupt(AxnSession *session);
/* From now on this signal interrupts the session while it runs something; then
   the previous handler is called.  0 disables that.  Signals belong to the
   process, so call this only where nothing else changes handlers at the same
   time. */
AXN_API void axn_session_signal(AxnSession *session, int signal);

/* ---- values ---- */

typedef enum AxnDtype {
  AXN_NONE = 0,
  AXN_BOOL = 1, /* a byte, 0 or 1 */
  AXN_U8 = 2,
  AXN_I8 = 3,
  AXN_I32 = 4,
  AXN_I64 = 5,
  AXN_F16 = 6,
  AXN_BF16 = 7,
  AXN_F32 = 8,
  AXN_F64 = 9,
  AXN_F8_E4M3 = 10, /* OCP 8-bit floats */
  AXN_F8_E5M2 = 11,
  AXN_F4_E2M1 = 12, /* in the low half of a byte */
  AXN_F8_E8M0 = 13,
} AxnDtype;
AXN_API const char *axn_dtype_name(AxnDtype dtype); /* "f32" */
AXN_API size_t axn_dtype_size(AxnDtype dtype);      /* in bytes */

#define AXN_RANK_MAX 32

/* A tensor in the memory of this machine. */
typedef struct AxnTensor {
  AxnDtype dtype;
  int32_t rank;
  const int64_t *shape;   /* rank extents; NULL if rank is 0 */
  const int64_t *strides; /* in elements; NULL: row-major and contiguous */
  void *data;             /* address of the element with all indices 0 */
  bool readonly;          /* of results: others use the same data */
} AxnTensor;

/* An argument or a result.  It is immutable and reference-counted; any thread
   may hold it. */
typedef struct AxnValue AxnValue;

typedef enum AxnKind {
  AXN_UNIT = 1,
  AXN_NUMBER = 2, /* a tensor of rank 0 */
  AXN_TENSOR = 3,
  AXN_STRING = 4,
  AXN_TUPLE = 5,
  AXN_RECORD = 6,
  AXN_LIST = 7,
  AXN_CON = 8, /* a constructor: text is its name; its argument, if any, is the
                  only item */
  AXN_KEY = 9, /* a random number key */
  AXN_OTHER = 10, /* a function: only its printed text */
} AxnKind;

/* Functions that create values take the session in order to report errors.
 * They return NULL after an error.
 *
 * axn_value_tensor borrows the caller's memory, which must not change until the
 * value is freed.  The data are copied if they are not row-major, if their
 * address is not aligned for the element type, or if they contain a bool other
 * than 0 and 1. release, unless NULL, is called with `owner` once the data are
 * no longer needed, by the thread that frees the value last.  It is not called
 * after an error. */
AXN_API AxnValue *axn_value_tensor(AxnSession *session, const AxnTensor *tensor,
                                   void (*release)(void *owner), void *owner);
/* Numbers that take the expected type, like literals in a program.  Without an
   expected type, they are i64 and f32.  For a number of a certain type, use a
   tensor of rank 0. */
AXN_API AxnValue *axn_value_int(AxnSession *session, int64_t x);
AXN_API AxnValue *axn_value_float(AxnSession *session, double x);
AXN_API AxnValue *axn_value_bool(AxnSession *session, bool x);
AXN_API AxnValue *axn_value_string(AxnSession *session, const char *text,
                                   size_t len); /* copied; UTF-8 */
AXN_API AxnValue *axn_value_unit(AxnSession *session);
/* The caller keeps its references to the items. */
AXN_API AxnValue *axn_value_tuple(AxnSession *session, size_t count,
                                  AxnValue *const *items);
AXN_API AxnValue *axn_value_list(AxnSession *session, size_t count,
                                 AxnValue *const *items);
AXN_API AxnValue *axn_value_record(AxnSession *session, size_t count,
                                   const char *const *names,
                                   AxnValue *const *items);

AXN_API AxnValue *axn_value_retain(AxnValue *value); /* adds a reference */
AXN_API void axn_value_free(AxnValue *value);        /* NULL is ignored */

/* Results live as long as the value. */
AXN_API AxnKind axn_value_kind(const AxnValue *value);
AXN_API size_t axn_value_count(const AxnValue *value); /* number of items */
AXN_API AxnValue *axn_value_item(const AxnValue *value, size_t index);
/* For a record: the name of an item, and the item with a name.  NULL if there
   is none. */
AXN_API const char *axn_value_name(const AxnValue *value, size_t index);
AXN_API AxnValue *axn_value_field(const AxnValue *value, const char *name);
/* For AXN_STRING, AXN_CON and AXN_OTHER; otherwise NULL. len may be NULL. */
AXN_API const char *axn_value_text(const AxnValue *value, size_t *len);
/* For AXN_TENSOR and AXN_NUMBER; otherwise returns false.  The tensor is always
   row-major, with strides NULL.  Data of a result are aligned to 64 bytes,
   except for numbers.  The caller may write to the data if it is not readonly
   and nobody reads the value at the same time. */
AXN_API bool axn_value_get(const AxnValue *value, AxnTensor *out);
/* For AXN_NUMBER.  Returns false for other kinds, or if the number does not
   fit. */
AXN_API bool axn_value_as_int(const AxnValue *value, int64_t *out);
AXN_API bool axn_value_as_float(const AxnValue *value, double *out);

/* ---- DLPack: axon_dlpack.h or the dlpack.h of DLPack has the structs ----
 *
 * Exchange of CPU tensors with other libraries.  Import: takes the struct over,
 * and calls its deleter when the value is freed.  After an error the caller
 * keeps it.  Export: without a copy; call the struct's deleter once.  The older
 * struct has no read-only flag, so read-only data are copied for it.  NULL
 * after an error. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
AXN_API AxnValue *
axn_value_from_dlpack(AxnSession *session,
                      struct DLManagedTensorVersioned *tensor);
AXN_API AxnValue *axn_value_from_dlpack_old(AxnSession *session,
                                            struct DLManagedTensor *tensor);
AXN_API struct DLManagedTensorVersioned *
axn_value_to_dlpack(AxnSession *session, AxnValue *value);
AXN_API struct DLManagedTensor *axn_value_to_dlpack_old(AxnSession *session,
                                                        AxnValue *value);

/* ---- functions ---- */

/* A callable name.  The handle stays valid if the name is redefined. */
typedef struct AxnFunction AxnFunction;

/* Finds a function: "forward", "nn.relu".  NULL if there is no such name.  The
   session owns the result. */
AXN_API AxnFunction *axn_function(AxnSession *session, const char *name);

typedef struct AxnParam {
  const char *name;  /* name in the definition, or NULL */
  const char *label; /* label as in `~eps:x`; NULL: positional */
  bool optional;
  const char *type; /* "f32[n, 784]" */
  AxnDtype dtype;   /* of a tensor, if determined; otherwise AXN_NONE */
  int32_t rank;     /* of a tensor; -1: any rank, or not a tensor */
} AxnParam;
/* Stores up to `most` parameters in `out`, and the result in `result`, unless
   these are NULL.  Returns the number of parameters. */
AXN_API size_t axn_function_params(AxnFunction *function, AxnParam *out,
                                   size_t most, AxnParam *result);
/* The doc comment of a definition, or NULL. */
AXN_API const char *axn_session_doc(AxnSession *session, const char *name);
/* Calls f with each name that the session's own texts define. */
AXN_API void axn_each_name(AxnSession *session,
                           void (*f)(void *owner, const char *name),
                           void *owner);

typedef struct AxnArg {
  const AxnValue *value;
  const char *label; /* NULL: positional */
} AxnArg;

/* Checks the call, once per list of types; then runs it and everything that its
   result needs. *result belongs to the caller; it is NULL unless AXN_OK.
   Without arguments it is `f ()`.  Arguments are read while it runs: a result
   never overlaps them. */
AXN_API AxnStatus axn_call(AxnSession *session, AxnFunction *function,
                           const AxnArg *args, size_t count, AxnValue **result);
/* The value of a global name. */
AXN_API AxnStatus axn_session_value(AxnSession *session, const char *name,
                                    AxnValue **result);

#ifdef __cplusplus
}
#endif

#endif
