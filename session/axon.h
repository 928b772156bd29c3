/* axon.h: Axon as a library.
 *
 * A session holds definitions; texts of the language are checked and run in it,
 * and functions called with what lies in your memory.  Nothing here exits,
 * aborts or prints: errors are diagnostics to be asked for, output goes to a
 * function of yours.  doc/embedding.md is the guide.
 *
 * Threads: a session is used from one thread at a time; several sessions may be
 * used from several threads.  axn_interrupt alone may be called from anywhere,
 * also from a signal handler.
 *
 * Ownership: strings handed out live until the session is freed, those of
 * diagnostics until the next text is run or checked, or function called.  An
 * AxnValue is yours until axn_value_free, and does not need its session. */
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
  AXN_BUSY = 5,        /* the session is running, and its output function has
                        * called for more: there is no diagnostic */
} AxnStatus;

typedef enum AxnSeverity {
  AXN_SEVERITY_ERROR = 1,
  AXN_SEVERITY_WARNING = 2,
  AXN_SEVERITY_NOTE = 3,
} AxnSeverity;

typedef struct AxnPlace { /* lines and columns count from 1 */
  const char *file;       /* NULL: no place */
  uint32_t line, column, end_line, end_column; /* columns count bytes */
  uint32_t start, end; /* in bytes of the whole text, from 0 */
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

/* "0.1.0": of the library that runs, which may be newer than this header. */
AXN_API const char *axn_version(void);
/* Of this header; functions are added within a number, none is changed. */
#define AXN_ABI 1
AXN_API int axn_abi(void); /* that of the library */

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

/* All of them as a JSON array of the objects of doc/diagnostics.md. */
AXN_API const char *axn_diag_json(AxnSession *session);

/* Stops what the session runs, soon; if it runs nothing, what it runs next. */
AXN_API void axn_interrupt(AxnSession *session);
/* From now on this signal interrupts the session while it runs something, and
 * is then given to whoever handled it before; 0: none does.  Signals belong to
 * the process: ask for this where nothing else changes them meanwhile. */
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
} AxnDtype;
AXN_API const char *axn_dtype_name(AxnDtype dtype); /* "f32" */
AXN_API size_t axn_dtype_size(AxnDtype dtype);      /* in bytes */

#define AXN_RANK_MAX 32

/* Numbers in the memory of this machine. */
typedef struct AxnTensor {
  AxnDtype dtype;
  int32_t rank;
  const int64_t *shape;   /* rank of them; NULL if rank is 0 */
  const int64_t *strides; /* in elements; NULL: row-major, without gaps */
  void *data;             /* of the element at 0, 0, ... */
  bool readonly;          /* out of Axon: somebody else sees these data, too */
} AxnTensor;

/* A value that goes into a function or came out of one.  It is never changed,
 * and counted: any thread may hold it. */
typedef struct AxnValue AxnValue;

typedef enum AxnKind {
  AXN_UNIT = 1,
  AXN_NUMBER = 2, /* a tensor of rank 0 */
  AXN_TENSOR = 3,
  AXN_STRING = 4,
  AXN_TUPLE = 5,
  AXN_RECORD = 6,
  AXN_LIST = 7,
  AXN_CON = 8,    /* what a constructor made: its name is the text, and what it
                   * was applied to, if anything, the one item */
  AXN_KEY = 9,    /* of random numbers */
  AXN_OTHER = 10, /* a function: only its text, as it is printed */
} AxnKind;

/* Those that make a value take the session to tell it of an error; they return
 * NULL then.
 *
 * A tensor over your memory, which must stay as it is until the value is
 * freed: it is not copied, unless it is strided otherwise than row-major, lies
 * at an address that its elements cannot have, or has a bool that is neither 0
 * nor 1.  release, unless NULL, is called with `owner` when the data are no
 * longer needed, in whatever thread frees the value last; after an error it is
 * not called. */
AXN_API AxnValue *axn_value_tensor(AxnSession *session, const AxnTensor *tensor,
                                   void (*release)(void *owner), void *owner);
/* Numbers that take the type that is asked for, as literals in a program do;
 * where none is, they are i64 and f32.  One of a certain type is a tensor of
 * rank 0. */
AXN_API AxnValue *axn_value_int(AxnSession *session, int64_t x);
AXN_API AxnValue *axn_value_float(AxnSession *session, double x);
AXN_API AxnValue *axn_value_bool(AxnSession *session, bool x);
AXN_API AxnValue *axn_value_string(AxnSession *session, const char *text,
                                   size_t len); /* copied; UTF-8 */
AXN_API AxnValue *axn_value_unit(AxnSession *session);
/* The items stay yours. */
AXN_API AxnValue *axn_value_tuple(AxnSession *session, size_t count,
                                  AxnValue *const *items);
AXN_API AxnValue *axn_value_list(AxnSession *session, size_t count,
                                 AxnValue *const *items);
AXN_API AxnValue *axn_value_record(AxnSession *session, size_t count,
                                   const char *const *names,
                                   AxnValue *const *items);

AXN_API AxnValue *axn_value_retain(AxnValue *value); /* for one free more */
AXN_API void axn_value_free(AxnValue *value);        /* NULL: nothing */

/* What these hand out lives as long as the value. */
AXN_API AxnKind axn_value_kind(const AxnValue *value);
AXN_API size_t axn_value_count(const AxnValue *value); /* of items */
AXN_API AxnValue *axn_value_item(const AxnValue *value, size_t index);
/* Of a record: the name of an item, and the item of a name.  NULL: none. */
AXN_API const char *axn_value_name(const AxnValue *value, size_t index);
AXN_API AxnValue *axn_value_field(const AxnValue *value, const char *name);
/* AXN_STRING, AXN_CON, AXN_OTHER; else NULL.  len may be NULL. */
AXN_API const char *axn_value_text(const AxnValue *value, size_t *len);
/* AXN_TENSOR, AXN_NUMBER; else false.  Always row-major, strides NULL; data of
 * a result are aligned to 64 bytes if it is no number.  Writing to data is
 * allowed where it is not readonly, and nobody reads the value meanwhile. */
AXN_API bool axn_value_get(const AxnValue *value, AxnTensor *out);
/* AXN_NUMBER; else, or where it is no such number, false. */
AXN_API bool axn_value_as_int(const AxnValue *value, int64_t *out);
AXN_API bool axn_value_as_float(const AxnValue *value, double *out);

/* ---- DLPack: axon_dlpack.h has the structs, dlpack.h of others as well ----
 *
 * Tensors of other libraries, of the CPU.  In: the struct is taken over, and
 * its deleter called when the value is freed; after an error it is yours still.
 * Out: without a copy; the struct's deleter is to be called once.  The older
 * struct cannot say that data are not to be written to: what is readonly is
 * copied for it.  NULL after an error. */
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

/* What a name stands for when it is called, as long as there is something. */
typedef struct AxnFunction AxnFunction;

/* "forward", "nn.relu"; NULL: no such name.  The session's. */
AXN_API AxnFunction *axn_function(AxnSession *session, const char *name);

typedef struct AxnParam {
  const char *name;  /* in the definition, where it has one there; or NULL */
  const char *label; /* as in `~eps:x`; or NULL: it goes by its place */
  bool optional;
  const char *type; /* "f32[n, 784]" */
  AxnDtype dtype;   /* of a tensor, if it is settled; else AXN_NONE */
  int32_t rank;     /* of a tensor; -1: it may be any, or it is no tensor */
} AxnParam;
/* Puts the first `most` parameters into `out`, that which it comes to into
 * `result`, unless they are NULL; returns how many there are. */
AXN_API size_t axn_function_params(AxnFunction *function, AxnParam *out,
                                   size_t most, AxnParam *result);
/* The comment before a definition; NULL: there is none. */
AXN_API const char *axn_session_doc(AxnSession *session, const char *name);
/* Calls f with each name defined in the session's own texts. */
AXN_API void axn_each_name(AxnSession *session,
                           void (*f)(void *owner, const char *name),
                           void *owner);

typedef struct AxnArg {
  const AxnValue *value;
  const char *label; /* or NULL: by its place */
} AxnArg;

/* Checks the call, once for each list of types; then runs it, and all that its
 * result needs.  *result is yours, NULL unless AXN_OK.  Without arguments it is
 * `f ()`.  Data of arguments are read while it runs: a result never lies over
 * them. */
AXN_API AxnStatus axn_call(AxnSession *session, AxnFunction *function,
                           const AxnArg *args, size_t count, AxnValue **result);
/* The value of a name at top level. */
AXN_API AxnStatus axn_session_value(AxnSession *session, const char *name,
                                    AxnValue **result);

#ifdef __cplusplus
}
#endif

#endif
