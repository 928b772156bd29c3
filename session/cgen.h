/* session, for its own files: a traced function as C that any compiler takes.
 *
 * A function is a list of statements: stored nodes, each a nest of loops, and
 * loops around such lists (cgenplan.c).  What is not stored is written into
 * the nests that read it (cgencells.c). */
#ifndef AXON_SESSION_CGEN_H
#define AXON_SESSION_CGEN_H

#include "session/build.h"
#include "session/internal.h"
#include "session/trace.h"
#include "tensor/scalar.h"

enum { LIN_AXES = RANK_MAX };

/* An index as constant + sum of times * axis of the nest: sizes. */
typedef struct Lin {
  int64_t constant, times[LIN_AXES];
} Lin;

typedef struct Val {
  const char *text; /* NULL: there is none */
  const Lin *lin;   /* i64: or NULL */
  bool bounded;     /* i64: low <= it <= high, which are sizes */
  int64_t low, high;
} Val;

typedef struct Context { /* a node whose body is written here */
  const Node *node;
  const Val *axes;
  Val *memo; /* of its cells */
} Context;

typedef struct NodeInfo {
  bool stored, placed; /* its statement is in a list */
  bool seen;
  uint32_t uses, cost, size;
  const char *name;  /* of its memory */
  const char *value; /* a number of C: an argument, the number of a turn, */
  int64_t turns;     /* and how many of these there are, or 0 */
  bool temporary;    /* its memory is malloc's, and freed when it is done */
  uint32_t last;     /* statement of its list that needs it last */
  const struct Stmts *home;
} NodeInfo;

typedef struct Stmt {
  Node *node;           /* stored */
  Turns *loop;
  struct Stmts *tests, *turn; /* of the loop: what `more` needs, and the rest */
  VEC(Node *) outputs;  /* of the loop: NODE_LOOPs */
  const char *go;       /* of the loop: is there another turn? */
  const char **next;    /* of the loop: memory of states after the turn */
  struct Stmt *ends;    /* or: the end of a turn of that loop, */
  struct Stmt *asks;    /* or of what its `more` needs */
  const Requirement *required; /* or that is to be tested */
  Node *copy;           /* or: what is copied */
  const char *to;       /* to there */
  VEC(Node *) uses;     /* stored nodes that it reads */
} Stmt;

typedef struct Stmts {
  VEC(Stmt *) at;
} Stmts;

typedef struct SizeLine { /* a size that is computed at the top */
  const char *name, *text;
} SizeLine;

typedef struct BuildModule {
  Session *s;
  const char *name;
  Buffer source, header, manifest;
  VEC(const char *) messages; /* of codes, from 1 */
  Map taken;  /* names of C: Sym */
} BuildModule;

typedef struct Cgen {
  BuildModule *m;
  Session *s;
  Arena *arena;
  Trace *t;
  Graph *g;
  const char *name; /* of the C function */
  Buffer body, data;
  VEC(SizeLine) size_lines;
  const char *axis[LIN_AXES]; /* the nest at hand: names and extents */
  int64_t extent[LIN_AXES];
  uint32_t axis_count;
  Map infos, size_names; /* Node; the name of each size */
  VEC(Context *) contexts;
  VEC(Val *) trail; /* memo that the innermost scopes have filled */
  VEC(NodeInfo *) temporaries;
  VEC(const char *) declared; /* with their types, at the top */
  const char **arg_names, **size_vars, **out_names; /* of the trace's */
  uint32_t next, depth;
  bool fails; /* `goto done` occurs */
} Cgen;

/* ---- cgencells.c ---- */

void cgen_line(Cgen *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *cgen_format(Cgen *e, const char *format, ...) PRINTF_LIKE(2, 3);
const char *cgen_fresh(Cgen *e, const char *prefix);
/* "float": of memory, and what it is computed in. */
const char *cgen_type(Dtype t);
const char *cgen_held(Dtype t);
const char *cgen_const(Cgen *e, Scalar x);
const char *cgen_size(Cgen *e, int64_t size);
/* "code = 3; goto done;" */
const char *cgen_fail(Cgen *e, Span span, const char *message);
NodeInfo *cgen_info(Cgen *e, const Node *n);

uint32_t cgen_scope(Cgen *e);
void cgen_leave(Cgen *e, uint32_t scope); /* what was computed there is gone */
Val cgen_axis(Cgen *e, uint32_t k);
Val cgen_number(Cgen *e, int64_t size);
/* An element of x; checked: where indices are not known to be in bounds. */
Val cgen_read(Cgen *e, const Node *x, const Val *args, bool checked, Span span);
/* The value of a body whose axes are these. */
Val cgen_body(Cgen *e, const Node *n, const Val *axes);
/* x[...] as an address, at these indices */
const char *cgen_address(Cgen *e, const Node *x, const char *const *args);
const char *cgen_store(Cgen *e, Dtype t, const char *value);
/* Of held value x */
const char *cgen_convert(Cgen *e, Dtype from, Dtype to, const char *x);
const char *cgen_load(Cgen *e, Dtype t, const char *address);

/* ---- cgenops.c ---- */
/* Of values in type t. */
const char *cgen_op(Cgen *e, PrimId op, Dtype t, const char *const *x);
bool op_is_dear(PrimId op); /* too dear to be done twice */
bool op_fails(PrimId op, Dtype t); /* where its second argument is wrong */

/* ---- cgennests.c ---- */
typedef struct Nest {
  uint32_t depth, scope, mark;
} Nest;
void cgen_open(Cgen *e, const char *head);
void cgen_close(Cgen *e);
Nest cgen_begin(Cgen *e);
void cgen_finish(Cgen *e, Nest nest);
void cgen_axis_loop(Cgen *e, int64_t extent);
/* Loops over the free axes of n; its guard is tested. */
void cgen_free_axes(Cgen *e, const Node *n);
void cgen_comp(Cgen *e, const Node *n, const char *to);
/* to[free..., own...] = x there; at: an index in front of the own ones, of so
 * many; or NULL */
void cgen_copy(Cgen *e, const Node *to, const Node *x, const char *name,
               const char *at, int64_t count);
Val cgen_at(Cgen *e, const Node *n, const Node *x, uint32_t first);
void cgen_test(Cgen *e, const Requirement *r);
/* go = more */
void cgen_ask(Cgen *e, const char *go, const Node *more);

/* ---- cgenopaque.c ---- */
void cgen_opaque(Cgen *e, const Node *n, const char *to);

/* ---- cgenplan.c ---- */
/* Everything that the function does.  Raises after an error. */
void cgen_function(Cgen *e);

extern const char cgen_runtime[];

#endif
