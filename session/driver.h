/* session, for its own files: a traced function as C.
 *
 * What a function does is a list of *pieces*: tests of what it requires,
 * kernels (backend/cpu/module.h), loops around such lists, and what is no
 * kernel, in plain C.  This is the function that calls them one after the
 * other: its *driver*. */
#ifndef AXON_SESSION_DRIVER_H
#define AXON_SESSION_DRIVER_H

#include "backend/cpu/module.h"
#include "backend/cuda/module.h"
#include "session/build.h"
#include "session/internal.h"
#include "session/trace.h"

typedef struct Memory { /* where the elements of a node are */
  const char *name;     /* a pointer */
  bool own;             /* it was allocated, and is freed after its last use */
  uint32_t last;        /* the piece of that */
} Memory;

typedef struct SizeLine { /* a size that is computed at the top */
  const char *name, *text;
  int64_t size;
} SizeLine;

typedef struct CParam { /* of a C function */
  const char *type, *name, *plain; /* plain: as in the header */
  const char *what;                /* "f32[n, m]"; NULL: a size */
  const char *strides;             /* what these are called in the header */
  bool value, result;
  bool stream; /* the first one of a function for GPUs, and no size */
  Dtype dtype;
  uint32_t arg, rank;   /* its number among those of the trace, and axes */
  const char **extents; /* of an array, as C */
  const TraceSize *stride; /* a size that is one; NULL: it is none */
} CParam;

typedef VEC(CParam) CParams;

typedef struct KernelNote { /* what is stored, for the manifest */
  const char *type, *versions; /* versions: NULL where it is no kernel */
  uint32_t line;               /* 0: of the library */
} KernelNote;

typedef struct CFunction { /* as it was written */
  const char *name, *values; /* of C; sizes that arguments are, as C */
  const char *fits;          /* a test that sizes do not wrap around */
  CParams params;
  uint64_t dense; /* arguments that are taken row-major only: a set, of which
                     the last one stands for all that follow */
} CFunction;

typedef struct Bounded { /* a product of sizes that cannot be too large */
  double factor;
  int64_t *extents;
  uint32_t axes;
} Bounded;

typedef struct Constant { /* data in the text */
  const char *type, *text, *name;
  size_t len;
} Constant;

typedef struct BuildModule {
  Session *s;
  const char *name;
  AotModule kernels;
  BuildTarget target;
  CudaModule cuda; /* BUILD_CUDA */
  Buffer source, header, manifest;
  Buffer program, commands; /* BUILD_PROGRAM: what calls each function, and the
                               table of these */
  uint32_t command_count;
  bool opaque, strided;       /* there is plain C in the source; views */
  VEC(Constant) constants;
  VEC(const char *) messages; /* of codes, from 1 */
  Map taken;                  /* names of C: Sym */
  CFunction plain, rows; /* the last one, and its other form */
} BuildModule;

typedef struct Driver {
  BuildModule *m;
  Session *s;
  Arena *arena;
  Trace *t;
  Graph *g;
  const char *name; /* of the C function */
  Buffer *out;      /* the piece at hand */
  VEC(Buffer *) pieces;
  VEC(KernelNote) kernels;
  VEC(SizeLine) size_lines;
  Map memory, size_names; /* of Node; the name of each size */
  VEC(Memory *) owned;
  VEC(Bounded *) bounded;
  VEC(Node *) kept;           /* references */
  VEC(const char *) declared; /* with their types, at the top */
  const char **arg_names, **size_vars, **out_names; /* of the trace's */
  uint64_t dense; /* see CFunction */
  uint32_t next, depth;
  VEC(uint32_t) flags; /* BUILD_CUDA: kernels that check something */
  bool cuda;
  bool rows;    /* the form of it whose arguments have rows apart */
  bool refused; /* there is something that only without fusion is a kernel */
} Driver;

/* ---- drivertext.c ---- */

void driver_line(Driver *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *driver_format(Driver *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *driver_fresh(Driver *e, const char *prefix);
void driver_open(Driver *e, const char *head);
void driver_close(Driver *e);
/* "float": of memory */
const char *driver_type(Dtype t);
const char *driver_const(Driver *e, Scalar x);
const char *driver_size(Driver *e, int64_t size);
/* A condition under which it does not wrap around. */
const char *driver_fits(Driver *e, int64_t size);
/* How many elements, as C. */
const char *driver_count(Driver *e, uint32_t axes, const int64_t *extents);
/* The code of a message. */
uint32_t driver_code(Driver *e, Span span, const char *message);
/* "{ code = 3; goto done; }" */
const char *driver_fail(Driver *e, Span span, const char *message);
/* Tests that a product is not too large for arithmetic on addresses. */
void driver_bound(Driver *e, uint32_t axes, const int64_t *extents,
                  size_t bytes, Span span, const char *message);
/* what: "f32[n, m]" */
void driver_bound_array(Driver *e, Dtype dtype, uint32_t axes,
                        const int64_t *extents, Span span, const char *what);
void driver_refuse(Driver *e, Span span, const char *what);
/* A variable of z, which has the sizes. */
const char *driver_size_var(void *driver, const DimVar *v);

/* ---- drivermemory.c ---- */

void driver_begin(Driver *e);
void driver_end(Driver *e);
/* All pieces, with what is freed behind them. */
Buffer driver_body(Driver *e);

/* Where a node is that is used now, one element behind the other; what a
 * kernel reads, which knows of strides. */
const char *driver_place(Driver *e, const Node *n);
const char *driver_input(Driver *e, const Node *n);
/* What it is to be called; own: freed after its last use. */
Memory *driver_name(Driver *e, Node *n, const char *name, bool own);
/* The same, allocated, unless it has a name. */
const char *driver_allocate(Driver *e, Node *n, bool clear);
const char *driver_room(Driver *e, Dtype t, const char *count, bool clear);
/* to = from, all of it */
void driver_copy(Driver *e, const Node *like, const char *to, const char *from);
void driver_end_piece(Driver *e);

/* Statements that a driver begins and ends with, for GPUs. */
void driver_begin_cuda(Driver *e);
void driver_end_cuda(Driver *e, Buffer *out);
/* "free(p);" */
const char *driver_free(Driver *e, const char *name);

/* ---- driveropaque.c ---- */
void driver_opaque(Driver *e, const Node *n, const char *to);

/* ---- driverplan.c ---- */
/* Everything that the function does.  Raises after an error. */
void driver_function(Driver *e);

/* ---- strided.c ---- */

/* The function that takes strides: the last one of the module, with its other
 * form if it has one. */
void strided_add(BuildModule *m, bool has_rows);
extern const char strided_text[];

/* ---- program.c ---- */

/* A command that calls the function. */
void program_add(Driver *e);
/* Of a program without entries: `main`, if that is one of them.  An error
 * where the program does something at top level, which it then would not. */
SessionStatus program_entry(Session *s, EntryNames *names);
/* All of them, and main. */
void program_write(const BuildModule *m, Buffer *out);

/* "f32[n, m]", of sizes */
const char *driver_shape(Driver *e, Dtype dtype, uint32_t rank,
                         const int64_t *shape, uint32_t stars);

/* "(int64_t n, const float *x)"; definition: with the names that it uses */
void driver_params(Buffer *out, const CParams *params, bool definition);
/* The same function on arrays of its parameters. */
void driver_call(Buffer *out, const char *name, const CParams *params,
                 bool strided);
/* An expression of the parameters that are sizes. */
const char *driver_formula(Driver *e, int64_t size);

/* Tests that results are not too large. */
void driver_bound_results(Driver *e);

/* ---- cudabuild.c ---- */

/* The module's files. */
void cuda_begin(BuildModule *m, uint32_t count, const char *const *archs);
void cuda_header(BuildModule *m);
void cuda_manifest(BuildModule *m);
void cuda_finish(BuildModule *m, BuildFiles *out);

extern const char driver_runtime[], cores_text[], work_text[], opaque_runtime[],
    cuda_text[];

#endif
