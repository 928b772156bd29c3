/* session, for its own files: a traced function as C.
 *
 * What a function does is a list of *pieces*: tests of what it requires,
 * kernels (backend/cpu/aot_module.h), loops around such lists, and what is no
 * kernel, in plain C.  This is the function that calls them one after the
 * other: its *driver*. */
#ifndef AXON_AOT_HOST_CODE_H
#define AXON_AOT_HOST_CODE_H

#include "aot/c_module.h"
#include "aot/trace.h"
#include "backend/cpu/aot_module.h"
#include "backend/cuda/aot_module.h"
#include "session/state.h"

/* Where the elements of a node are. */
typedef struct Allocation {
  const char *name;  /* a pointer */
  bool is_owned;     /* it was allocated, and is freed after its last use */
  uint32_t last_use; /* the piece of that */
} Allocation;

/* A size that is computed at the top. */
typedef struct ExtentDecl {
  const char *name, *expr;
  int64_t extent;
} ExtentDecl;

typedef struct CParam {                  /* of a C function */
  const char *type, *name, *header_name; /* plain: as in the header */
  const char *tensor_type;               /* "f32[n, m]"; NULL: a size */
  const char *strides_name; /* what these are called in the header */
  bool by_value, is_result;
  bool is_stream; /* the first one of a function for GPUs, and no size */
  Dtype dtype;
  uint32_t arg_index, rank; /* its number among those of the trace, and axes */
  const char **extents;     /* of an array, as C */
  const TraceSize *stride;  /* a size that is one; NULL: it is none */
} CParam;

typedef VEC(CParam) CParams;

/* What is stored, for the manifest. */
typedef struct ManifestKernel {
  const char *type, *versions; /* versions: NULL where it is no kernel */
  uint32_t line;               /* 0: of the library */
} ManifestKernel;

/* As it was written. */
typedef struct CFunction {
  const char *name,
      *scalar_size_decls;     /* of C; sizes that arguments are, as C */
  const char *overflow_check; /* a test that sizes do not wrap around */
  CParams params;
  uint64_t dense_args; /* arguments that are taken row-major only: a set, of
                          which the last one stands for all that follow */
} CFunction;

/* A product of sizes that cannot be too large. */
typedef struct CheckedProduct {
  double factor;
  int64_t *extents;
  uint32_t extent_count;
} CheckedProduct;

/* Data in the text. */
typedef struct ConstantArray {
  const char *type, *text, *name;
  size_t len;
} ConstantArray;

typedef struct CModule {
  Session *session;
  const char *name;
  AotModule kernels;
  BuildTarget target;
  CudaAotModule cuda; /* BUILD_CUDA */
  Buffer source, header, manifest;
  Buffer command_code, command_table; /* BUILD_EXECUTABLE: what calls each
                                         function, and the table of these */
  uint32_t command_count;
  bool has_library_ops,
      has_strided_entries; /* there is plain C in the source; views */
  VEC(ConstantArray) constants;
  VEC(const char *) messages; /* of codes, from 1 */
  Map reserved_names;         /* names of C: Sym */
  CFunction dense_function,
      row_strided_function; /* the last one, and its other form */
} CModule;

typedef struct HostEmitter {
  CModule *module;
  Session *session;
  Arena *arena;
  Trace *trace;
  Graph *graph;
  const char *name;  /* of the C function */
  Buffer *statement; /* the piece at hand */
  VEC(Buffer *) statements;
  VEC(ManifestKernel) manifest_kernels;
  VEC(ExtentDecl) extent_decls;
  Map allocations, extent_names; /* of Node; the name of each size */
  VEC(Allocation *) owned_allocations;
  VEC(CheckedProduct *) checked_products;
  VEC(Node *) retained_nodes;     /* references */
  VEC(const char *) declarations; /* with their types, at the top */
  const char **arg_names, **size_vars, **out_names; /* of the trace's */
  uint64_t dense_args;                              /* see CFunction */
  uint32_t next_id, depth;
  VEC(uint32_t) checking_kernels; /* BUILD_CUDA: kernels that check something */
  bool is_cuda;
  bool is_row_strided; /* the form of it whose arguments have rows apart */
  bool needs_unfused; /* there is something that only without fusion is a kernel
                       */
} HostEmitter;

/* ---- host_text.c ---- */

void host_emit_line(HostEmitter *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *host_emit_format(HostEmitter *e, const char *format, ...)
    PRINTF_LIKE(2, 3);
const char *host_emit_fresh_name(HostEmitter *e, const char *prefix);
void host_emit_open_block(HostEmitter *e, const char *head);
void host_emit_close_block(HostEmitter *e);
/* "float": of memory */
const char *host_emit_c_type(Dtype t);
const char *host_emit_literal(HostEmitter *e, Scalar x);
const char *host_emit_extent(HostEmitter *e, int64_t size);
/* A condition under which it does not wrap around. */
const char *host_emit_overflow_check(HostEmitter *e, int64_t size);
/* How many elements, as C. */
const char *host_emit_element_count(HostEmitter *e, uint32_t axes,
                                    const int64_t *extents);
/* The code of a message. */
uint32_t host_emit_error_code(HostEmitter *e, Span span, const char *message);
/* "{ code = 3; goto done; }" */
const char *host_emit_fail(HostEmitter *e, Span span, const char *message);
/* Tests that a product is not too large for arithmetic on addresses. */
void host_emit_size_limit(HostEmitter *e, uint32_t axes, const int64_t *extents,
                          size_t bytes, Span span, const char *message);
/* what: "f32[n, m]" */
void host_emit_array_limit(HostEmitter *e, Dtype dtype, uint32_t axes,
                           const int64_t *extents, Span span, const char *what);
void host_emit_unsupported(HostEmitter *e, Span span, const char *what);
/* Tests that results are not too large. */
void host_emit_result_limits(HostEmitter *e);
/* "f32[n, m]", of sizes */
const char *host_emit_tensor_type(HostEmitter *e, Dtype dtype, uint32_t rank,
                                  const int64_t *shape,
                                  uint32_t broadcast_mask);
/* "(int64_t n, const float *x)"; definition: with the names that it uses */
void host_emit_params(Buffer *out, const CParams *params, bool is_definition);
/* NAME_call, or NAME_strided_call: the same function with arrays of its
 * arguments as parameters. */
void host_emit_array_wrapper(Buffer *out, const char *name,
                             const CParams *params, bool is_strided);
/* An expression of the parameters that are sizes. */
const char *host_emit_extent_expr(HostEmitter *e, int64_t size);
/* A variable of z, which has the sizes. */
const char *host_emit_extent_var(void *driver, const DimVar *v);

/* ---- buffer_assignment.c ---- */

void host_emit_begin(HostEmitter *e);
void host_emit_end(HostEmitter *e);
/* All pieces, with what is freed behind them. */
Buffer host_emit_body(HostEmitter *e);

/* Where a node is that is used now, one element behind the other; what a
 * kernel reads, which knows of strides. */
const char *host_emit_dense_pointer(HostEmitter *e, const Node *n);
const char *host_emit_input_pointer(HostEmitter *e, const Node *n);
/* What it is to be called; own: freed after its last use. */
Allocation *host_emit_assign_buffer(HostEmitter *e, Node *n, const char *name,
                                    bool is_owned);
/* The same, allocated, unless it has a name. */
const char *host_emit_allocate(HostEmitter *e, Node *n, bool zeroed);
const char *host_emit_malloc(HostEmitter *e, Dtype t, const char *count,
                             bool zeroed);
/* to = from, all of it */
void host_emit_copy(HostEmitter *e, const Node *like, const char *to,
                    const char *from);
void host_emit_end_statement(HostEmitter *e);

/* Statements that a driver begins and ends with, for GPUs. */
void host_emit_cuda_prologue(HostEmitter *e);
void host_emit_cuda_epilogue(HostEmitter *e, Buffer *out);
/* "free(p);" */
const char *host_emit_free(HostEmitter *e, const char *name);

/* ---- library_ops.c ---- */
void host_emit_library_op(HostEmitter *e, const Node *n, const char *to);

/* ---- host_code.c ---- */
/* Everything that the function does.  Raises after an error. */
void host_emit_function(HostEmitter *e);

/* ---- strided_entry.c ---- */

/* The function that takes strides: the last one of the module, with its other
 * form if it has one. */
void strided_entry_add(CModule *m, bool has_rows);

/* ---- executable.c ---- */

/* A command that calls the function. */
void executable_add_command(HostEmitter *e);
/* Of a program without entries: `main`, if that is one of them.  An error
 * where the program does something at top level, which it then would not. */
SessionStatus executable_select_entry(Session *s, EntryNames *names);
/* All of them, and main. */
void executable_write(const CModule *m, Buffer *out);

/* ---- cuda_host_code.c ---- */

/* The module's files. */
void cuda_host_begin(CModule *m, uint32_t count, const char *const *archs);
void cuda_host_header(CModule *m);
void cuda_host_manifest(CModule *m);
void cuda_host_finish(CModule *m, BuildFiles *out);

/* ---- the C that every module contains, or those that need it ---- */

/* host_text.c, library_ops.c */
extern const char host_runtime_source[], library_ops_source[];
/* runtime_sources.c, generated from the .inc files */
extern const char executable_source[], strided_entry_source[],
    parallel_for_source[], cpu_quota_source[], cuda_runtime_source[];

#endif
