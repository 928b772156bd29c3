/* Tracing: a function as a graph with symbolic sizes, for `axon build`.
 *
 * trace_function runs a function on placeholder arguments: tensors without data
 * whose extents are the sizes in its type.  The result is a graph whose extents
 * and indices are polynomials (tensor/extent.h), and the requirements on sizes
 * that a call must check.
 *
 * Ownership: a Trace owns its nodes and sizes until trace_free.  Names live as
 * long as the session. */
#ifndef AXON_AOT_TRACE_H
#define AXON_AOT_TRACE_H

#include "session/session.h"
#include "support/span.h"
#include "support/vec.h"
#include "tensor/extent.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;

/* An argument; NODE_ARG nodes have its index.  A call must check the size of
 * each axis, except broadcast axes and axes that define a TraceSize. */
typedef struct TraceArg {
  const char *name; /* "x", "p.layer.w", "q.0" */
  Dtype dtype;
  uint32_t rank, broadcast_mask;
  const int64_t *shape;   /* sizes; 1 if bit k of broadcast_mask is set */
  int64_t size;           /* is_size: the integer that the function receives */
  bool is_size;           /* a scalar that only sizes depend on, and no node */
  const int64_t *strides; /* trace_function_row_strided; NULL: row-major */
} TraceArg;

/* A size variable and the argument axis that determines it: variable = (extent
 * - offset) / coef, without remainder; 0 if coef is 0. offset and coef depend
 * only on earlier variables.  If arg is TRACE_INACCESSIBLE, no argument
 * determines it: the caller passes the size separately. */
enum { TRACE_INACCESSIBLE = -1, TRACE_SCALAR_VALUE = -1 };
typedef struct TraceSize {
  DimVar *var;
  const char *name;
  /* Axis TRACE_SCALAR_VALUE: the argument itself is the number. */
  int arg, axis;
  int64_t coef, offset;
  /* Stride of an axis of the argument; no extent determines it. */
  bool is_stride;
} TraceSize;

typedef struct TraceResult {
  const char *name; /* "" if it is the only one */
  Node *node;
} TraceResult;

typedef struct Trace {
  const char *name, *type, *doc; /* doc: may be NULL */
  Span span;
  /* For functions that need a graph: has the sizes, runs nothing. */
  Graph graph;
  TraceArg *args;
  uint32_t arg_count;
  TraceSize *sizes;
  uint32_t size_count;
  TraceResult *results;
  uint32_t result_count;
  /* In the order in which they must be checked. */
  const Requirement *requirements;
  uint32_t requirement_count;
  Node **roots; /* guards of requirements, then results: the whole graph */
  uint32_t root_count;
  EntryPoint entry;
  ValueHandle *result_handle;
} Trace;

/* True if the caller passes the size as a separate parameter.  Other sizes are
 * values of arguments. */
static inline bool trace_size_is_param(const Trace *t, uint32_t k) {
  const TraceSize *s = &t->sizes[k];
  return s->arg < 0 || s->axis != TRACE_SCALAR_VALUE || t->args[s->arg].is_size;
}

/* Traces a function.  The program was checked but does not run: top-level
 * values are computed only if the function needs them.  entry: a name,
 * optionally with a type, "f : f32[n, k] -> f32[k, m] -> _". */
SessionStatus trace_function(Session *session, const char *entry, Trace *out);
/* The same for arguments whose last axis is contiguous and whose other axes
 * have arbitrary strides.  The strides are additional sizes. */
SessionStatus trace_function_row_strided(Session *session, const char *entry,
                                         Trace *out);
typedef struct EntryNames {
  Arena *arena;
  VEC(const char *) names;
  /* Skipped functions with their types: "f : 'a -> 'a". */
  VEC(const char *) omitted;
} EntryNames;
/* The requested functions.  If none are requested: each function of the checked
 * text whose type determines everything, and that computes tensors without
 * other effects. */
EntryNames trace_entry_names(Session *session, uint32_t count,
                             const char *const *requested);
void trace_free(Session *session, Trace *trace);

/* Applies the function to tensors, one per leaf of its arguments (including
 * integers that are sizes).  `size` gives the sizes that no argument
 * determines.  NULL after an error. */
ValueHandle *trace_apply(Session *session, const EntryPoint *entry,
                         Node *const *leaves,
                         int64_t (*size)(void *, const DimVar *), void *arg);

/* Prints arguments, sizes, requirements and nodes. */
void trace_print(const Trace *trace, Buffer *out);

/* ---- entry_spec.c ---- */

/* Resolves an entry specification, as for trace_function.  False after an
 * error, whose position is in the specification. */
bool entry_spec_resolve(Session *session, const char *entry, EntryPoint *out);

#endif
