/* session, for its own files: a traced function as C.
 *
 * What a function does is a list of *pieces*: tests of what it requires,
 * kernels (backend/cpu/module.h), loops around such lists, and what is no
 * kernel, in plain C.  This is the function that calls them one after the
 * other: its *driver*. */
#ifndef AXON_SESSION_DRIVER_H
#define AXON_SESSION_DRIVER_H

#include "backend/cpu/module.h"
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
} SizeLine;

typedef struct BuildModule {
  Session *s;
  const char *name;
  Module kernels;
  BuildTarget target;
  Buffer source, header, manifest;
  Buffer program, commands; /* BUILD_PROGRAM: what calls each function, and the
                               table of these */
  uint32_t command_count;
  bool opaque;                /* there is plain C in the source */
  VEC(const char *) messages; /* of codes, from 1 */
  Map taken;                  /* names of C: Sym */
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
  Buffer data;
  VEC(SizeLine) size_lines;
  Map memory, size_names; /* of Node; the name of each size */
  VEC(Memory *) owned;
  VEC(Node *) kept;           /* references */
  VEC(const char *) declared; /* with their types, at the top */
  const char **arg_names, **size_vars, **out_names; /* of the trace's */
  uint32_t next, depth;
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
/* How many elements, as C. */
const char *driver_count(Driver *e, uint32_t axes, const int64_t *extents);
/* The code of a message. */
uint32_t driver_code(Driver *e, Span span, const char *message);
/* "{ code = 3; goto done; }" */
const char *driver_fail(Driver *e, Span span, const char *message);
void driver_refuse(Driver *e, Span span, const char *what);
/* A variable of z, which has the sizes. */
const char *driver_size_var(void *driver, const DimVar *v);

/* ---- drivermemory.c ---- */

void driver_begin(Driver *e);
void driver_end(Driver *e);
/* All pieces, with what is freed behind them. */
Buffer driver_body(Driver *e);

/* Where a node is that is used now. */
const char *driver_place(Driver *e, const Node *n);
/* What it is to be called; own: freed after its last use. */
Memory *driver_name(Driver *e, Node *n, const char *name, bool own);
/* The same, allocated, unless it has a name. */
const char *driver_allocate(Driver *e, Node *n, bool clear);
const char *driver_room(Driver *e, Dtype t, const char *count, bool clear);
/* to = from, all of it */
void driver_copy(Driver *e, const Node *like, const char *to, const char *from);
void driver_end_piece(Driver *e);

/* ---- driveropaque.c ---- */
void driver_opaque(Driver *e, const Node *n, const char *to);

/* ---- driverplan.c ---- */
/* Everything that the function does.  Raises after an error. */
void driver_function(Driver *e);

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

extern const char driver_runtime[], work_runtime[], opaque_runtime[];

#endif
