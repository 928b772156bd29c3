/* Host code of a traced function, in C.  Private to aot/.
 *
 * A function consists of *statements*: checks of requirements, kernels
 * (backend/cpu/aot_module.h), loops over statements, and library operations in
 * plain C.  The host code runs them in order. */
#ifndef AXON_AOT_HOST_CODE_H
#define AXON_AOT_HOST_CODE_H

#include "aot/c_module.h"
#include "aot/trace.h"
#include "backend/cpu/aot_module.h"
#include "backend/cuda/aot_module.h"
#include "session/state.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/map.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;

/* The storage of a node. */
typedef struct Allocation {
  const char *name; /* C expression of a pointer */
  /* Allocated by the function, and freed after the last use. */
  bool is_owned;
  uint32_t last_use; /* index of the last statement that uses it */
} Allocation;

/* A size that is computed at the start of the function. */
typedef struct ExtentDecl {
  const char *name, *expr;
  int64_t extent;
} ExtentDecl;

/* A parameter of a C function. */
typedef struct CParam {
  const char *type, *name, *header_name; /* header_name: as in the header */
  const char *tensor_type;               /* "f32[n, m]"; NULL: a size */
  const char *strides_name;              /* name of the strides in the header */
  bool by_value, is_result;
  bool is_stream; /* the first parameter of a GPU function: a stream */
  Dtype dtype;
  uint32_t arg_index, rank; /* arg_index: in the trace; rank: axes */
  const char **extents;     /* of an array, as C expressions */
  const TraceSize *stride;  /* if the parameter is a stride; otherwise NULL */
} CParam;

typedef VEC(CParam) CParams;

/* A stored result, for the manifest. */
typedef struct ManifestKernel {
  const char *type, *versions; /* versions: NULL if it is not a kernel */
  uint32_t line;               /* 0: in the standard library */
} ManifestKernel;

/* A generated function. */
typedef struct CFunction {
  const char *name;
  /* C declarations of the sizes that are values of arguments. */
  const char *scalar_size_decls;
  const char *overflow_check; /* check that sizes do not overflow */
  CParams params;
  /* Set of arguments that must be row-major.  The last bit stands for all
   * arguments from there on. */
  uint64_t dense_args;
} CFunction;

/* A product of sizes that was checked against the size limit. */
typedef struct CheckedProduct {
  double factor;
  int64_t *extents;
  uint32_t extent_count;
} CheckedProduct;

/* Constant data in the source. */
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
  Buffer source, header, manifest, schedules;
  /* BUILD_EXECUTABLE: a command for each function, and their table. */
  Buffer command_code, command_table;
  uint32_t command_count;
  /* The source needs library operations, or views. */
  bool has_library_ops, has_lapack, has_fourier, has_strided_entries;
  VEC(ConstantArray) constants;
  VEC(const char *) messages; /* of error codes, from 1 */
  Map reserved_names;         /* C names; keys are Sym */
  /* The last function, and its variant for strided rows. */
  CFunction dense_function, row_strided_function;
} CModule;

typedef struct HostEmitter {
  CModule *module;
  Session *session;
  Arena *arena;
  Trace *trace;
  Graph *graph;
  const char *name;  /* of the C function */
  Buffer *statement; /* the current statement */
  VEC(Buffer *) statements;
  VEC(ManifestKernel) manifest_kernels;
  VEC(ExtentDecl) extent_decls;
  Map allocations, extent_names; /* of nodes; name of each size */
  VEC(Allocation *) owned_allocations;
  VEC(CheckedProduct *) checked_products;
  VEC(Node *) retained_nodes; /* retained by this emitter */
  /* With their types, at the start of the function. */
  VEC(const char *) declarations;
  const char **arg_names, **size_vars, **out_names; /* of the trace */
  uint64_t dense_args;                              /* see CFunction */
  uint32_t next_id, depth;
  VEC(uint32_t) checking_kernels; /* BUILD_CUDA: kernels with run-time checks */
  bool is_cuda;
  bool is_row_strided; /* emits the variant for strided rows */
  bool needs_unfused;  /* an operation becomes a kernel only without fusion */
} HostEmitter;

/* ---- host_text.c ---- */

void host_emit_line(HostEmitter *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *host_emit_format(HostEmitter *e, const char *format, ...)
    PRINTF_LIKE(2, 3);
const char *host_emit_fresh_name(HostEmitter *e, const char *prefix);
void host_emit_open_block(HostEmitter *e, const char *head);
void host_emit_close_block(HostEmitter *e);
/* The memory type of elements, such as "float". */
const char *host_emit_c_type(Dtype t);
const char *host_emit_literal(HostEmitter *e, Scalar x);
const char *host_emit_extent(HostEmitter *e, int64_t size);
/* A condition under which the size does not overflow. */
const char *host_emit_overflow_check(HostEmitter *e, int64_t size);
/* The number of elements, as C. */
const char *host_emit_element_count(HostEmitter *e, uint32_t axes,
                                    const int64_t *extents);
/* The error code of a message. */
uint32_t host_emit_error_code(HostEmitter *e, Span span, const char *message);
/* Writes "{ code = 3; goto done; }". */
const char *host_emit_fail(HostEmitter *e, Span span, const char *message);
/* Checks that a product of sizes is small enough for address arithmetic. */
void host_emit_size_limit(HostEmitter *e, uint32_t axes, const int64_t *extents,
                          size_t bytes, Span span, const char *message);
/* what: such as "f32[n, m]". */
void host_emit_array_limit(HostEmitter *e, Dtype dtype, uint32_t axes,
                           const int64_t *extents, Span span, const char *what);
void host_emit_unsupported(HostEmitter *e, Span span, const char *what);
/* Checks that results are not too large. */
void host_emit_result_limits(HostEmitter *e);
/* Writes "f32[n, m]", with symbolic sizes. */
const char *host_emit_tensor_type(HostEmitter *e, Dtype dtype, uint32_t rank,
                                  const int64_t *shape,
                                  uint32_t broadcast_mask);
/* Writes "(int64_t n, const float *x)".  is_definition: with the internal
 * names. */
void host_emit_params(Buffer *out, const CParams *params, bool is_definition);
/* Writes NAME_call or NAME_strided_call: the function with arrays of arguments
 * as parameters. */
void host_emit_array_wrapper(Buffer *out, const char *name,
                             const CParams *params, bool is_strided);
/* A C expression of the size parameters. */
const char *host_emit_extent_expr(HostEmitter *e, int64_t size);
/* The element of z, the array of sizes, for a size variable. */
const char *host_emit_extent_var(void *driver, const DimVar *v);

/* ---- buffer_assignment.c ---- */

void host_emit_begin(HostEmitter *e);
void host_emit_end(HostEmitter *e);
/* All statements, with frees after the last uses. */
Buffer host_emit_body(HostEmitter *e);

/* The pointer to a node that is used now.  host_emit_dense_pointer: row-major;
 * host_emit_input_pointer: for a kernel, which handles strides. */
const char *host_emit_dense_pointer(HostEmitter *e, const Node *n);
const char *host_emit_input_pointer(HostEmitter *e, const Node *n);
/* Assigns a name to the storage of a node.  is_owned: freed after the last
 * use. */
Allocation *host_emit_assign_buffer(HostEmitter *e, Node *n, const char *name,
                                    bool is_owned);
/* The same, with allocation, unless the node has storage already. */
const char *host_emit_allocate(HostEmitter *e, Node *n, bool zeroed);
const char *host_emit_malloc(HostEmitter *e, Dtype t, const char *count,
                             bool zeroed);
/* Copies all elements. */
void host_emit_copy(HostEmitter *e, const Node *like, const char *to,
                    const char *from);
void host_emit_end_statement(HostEmitter *e);

/* GPU functions: statements at the start and end. */
void host_emit_cuda_prologue(HostEmitter *e);
void host_emit_cuda_epilogue(HostEmitter *e, Buffer *out);
/* Writes "free(p);". */
const char *host_emit_free(HostEmitter *e, const char *name);

/* ---- library_ops.c ---- */
void host_emit_library_op(HostEmitter *e, const Node *n, const char *to);

/* ---- host_code.c ---- */
/* Emits the function.  Raises after an error. */
void host_emit_function(HostEmitter *e);

/* ---- strided_entry.c ---- */

/* Adds the function that takes strides, for the last function of the module.
 * has_rows: it has a variant for strided rows. */
void strided_entry_add(CModule *m, bool has_rows);

/* ---- executable.c ---- */

/* Adds a command that calls the function. */
void executable_add_command(HostEmitter *e);
/* If the program requests no entries: selects `main` if it exists.  An error if
 * the program has effects at top level, because the executable would not run
 * them. */
SessionStatus executable_select_entry(Session *s, EntryNames *names);
/* Writes all commands and main. */
void executable_write(const CModule *m, Buffer *out);

/* ---- cuda_host_code.c ---- */

/* Writes the files of a GPU module. */
void cuda_host_begin(CModule *m, uint32_t count, const char *const *archs);
void cuda_host_header(CModule *m);
void cuda_host_manifest(CModule *m);
void cuda_host_finish(CModule *m, BuildFiles *out);

/* ---- runtime sources that modules contain ---- */

/* host_text.c, library_ops.c */
extern const char host_runtime_source[], library_ops_source[];
/* runtime_sources.c, generated from the .inc files */
extern const char executable_source[], strided_entry_source[], lapack_source[],
    parallel_for_source[], cpu_quota_source[], fourier_source[],
    cuda_runtime_source[];

#endif
