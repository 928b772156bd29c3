/* session: a function as a graph with symbolic sizes, for `axon build`.
 *
 * trace_function runs a function of the program on arguments that stand for
 * all there may be: tensors without data, whose axes are the sizes of its
 * type.  What comes out is a graph whose extents and indices are polynomials
 * (tensor/extent.h), and what has to hold of sizes when the function is called.
 *
 * Ownership: a Trace owns its nodes and sizes until trace_free; names live as
 * long as the session. */
#ifndef AXON_AOT_TRACE_H
#define AXON_AOT_TRACE_H

#include "session/session.h"
#include "tensor/extent.h"

/* Each axis that is no * has to have the size that it says here: all of them
 * are to be tested, but for those that define a TraceSize. */
/* NODE_ARG: by number. */
typedef struct TraceArg {
  const char *name; /* "x", "p.layer.w", "q.0" */
  Dtype dtype;
  uint32_t rank, broadcast_mask;
  const int64_t *shape; /* sizes; 1 where bit k of stars is set */
  int64_t size;         /* is_size: the integer that the function gets */
  bool is_size;         /* a scalar that no node reads: sizes are made of it */
  const int64_t *strides; /* trace_function_row_strided; NULL: dense */
} TraceArg;

/* A size variable and where it shows: the caller's number there, less `rest`
 * and divided by `slope`, without a remainder; where slope is 0 it is 0.  Both
 * are of variables before it.  arg is TRACE_INACCESSIBLE where no argument
 * shows it: then it is one of its own. */
enum { TRACE_INACCESSIBLE = -1, TRACE_SCALAR_VALUE = -1 };
typedef struct TraceSize {
  DimVar *var;
  const char *name;
  int arg,
      axis; /* axis TRACE_SCALAR_VALUE: the number is the argument itself */
  int64_t coef, offset;
  bool is_stride; /* of the argument along the axis; it shows nowhere */
} TraceSize;

typedef struct TraceResult {
  const char *name; /* "" if it is the only one */
  Node *node;
} TraceResult;

typedef struct Trace {
  const char *name, *type, *doc; /* doc may be NULL */
  Span span;
  Graph graph; /* for functions that want one: knows the sizes, runs nothing */
  TraceArg *args;
  uint32_t arg_count;
  TraceSize *sizes;
  uint32_t size_count;
  TraceResult *results;
  uint32_t result_count;
  const Requirement
      *requirements; /* in the order in which they are to be tested */
  uint32_t requirement_count;
  Node **roots; /* guards of requirements, then results: all of the graph */
  uint32_t root_count;
  EntryPoint entry;
  ValueHandle *result_handle;
} Trace;

/* Is a size one that the caller gives beside the arguments?  Others are the
 * value of one. */
static inline bool trace_size_is_param(const Trace *t, uint32_t k) {
  const TraceSize *s = &t->sizes[k];
  return s->arg < 0 || s->axis != TRACE_SCALAR_VALUE || t->args[s->arg].is_size;
}

/* The program was checked, and is not run: values of top level are computed
 * where the function needs them.  entry: a name, or with its type,
 * "f : f32[n, k] -> f32[k, m] -> _". */
SessionStatus trace_function(Session *session, const char *entry, Trace *out);
/* The same of arguments whose last axes lie side by side, and rows of them
 * anywhere: how far apart are sizes, behind the others. */
SessionStatus trace_function_row_strided(Session *session, const char *entry,
                                         Trace *out);
typedef struct EntryNames {
  Arena *arena;
  VEC(const char *) names;
  VEC(const char *) omitted; /* out, with their types: "f : 'a -> 'a" */
} EntryNames;
/* Those asked for; where none is, each function of the text last checked whose
 * type settles all that has to be settled, and that computes tensors and does
 * nothing else; others are left out. */
EntryNames trace_entry_names(Session *session, uint32_t count,
                             const char *const *requested);
void trace_free(Session *session, Trace *trace);

/* The same function applied to tensors: for each leaf of its arguments one
 * (integers that are sizes too), and the sizes that nothing shows.  NULL after
 * an error. */
ValueHandle *trace_apply(Session *session, const EntryPoint *entry,
                         Node *const *leaves,
                         int64_t (*size)(void *, const DimVar *), void *arg);

/* As text: arguments, sizes, requirements, nodes. */
void trace_print(const Trace *trace, Buffer *out);

/* ---- entry_spec.c ---- */

/* What is asked for, as above.  False after an error, which is told of what was
 * asked. */
bool entry_spec_resolve(Session *session, const char *entry, EntryPoint *out);

#endif
