/* kernel: what one compiled function computes, in the form that compilers want.
 *
 * A kernel is a cluster of stored nodes that share *outer* axes: at each point
 * of these, one after the other, they read nothing of each other that another
 * point computes.  So points can be computed apart, in any order, and what
 * only the cluster itself reads is *local*: it is kept for the points at hand
 * and never becomes a tensor.  A single node is the simplest cluster; a row
 * softmax, a product with what is done to it afterwards, and attention are
 * others.
 *
 * Each node is a *loop* over the outer axes, the axes of its result that are
 * not shared, and those that it reduces; loops over the same axes become one
 * with several results.  The axes of a node are cut where a body divides by a
 * part of them, and put together where every access walks over two as if they
 * were one; sums and multiples of indices are gone into *quasi-affine* forms,
 *
 *     constant + sum of times[v] * variable v,
 *
 * whose variables are the axes and quotients of such forms by a number.  So
 * what reshape, transpose and slices did is an address, and nothing else.
 * (Quasi-affine accesses: the polyhedral literature, as in arXiv:2006.12645.)
 *
 * What remains is a list of steps, each of them after its arguments.  A kernel
 * holds no sizes by structure: extents, strides and constants are numbers
 * beside it, so that one program text serves all sizes.  Of a function that is
 * compiled for all sizes they are sizes (size.h), and what is decided by them
 * is decided by what they may be like (size_guess): it is right for all.
 *
 * All of it lives in the arena of a plan, and borrows the nodes. */
#ifndef AXON_TENSOR_KERNEL_H
#define AXON_TENSOR_KERNEL_H

#include "tensor/size.h"

enum {
  KERNEL_VARS = 64,
  KERNEL_AXES = 40,
  QUOTIENTS = KERNEL_VARS - KERNEL_AXES - 1
};

/* Stands for a float that is not known: a number that is none, and its number
 * among the parameters. */
#define PARAM_BITS UINT64_C(0x7ff8a40e00000000)
static inline Scalar param_mark(uint32_t k) {
  return (Scalar){.dtype = DT_F64, .i = (int64_t)(PARAM_BITS | k)};
}
static inline bool is_param(Scalar x) {
  return dtype_is_float(x.dtype) &&
         ((uint64_t)x.i & ~(uint64_t)UINT32_MAX) == PARAM_BITS;
}
/* x, or what stands in its place. */
static inline Scalar param_value(Scalar x, const double *params) {
  if (params && is_param(x))
    x.f = params[(uint32_t)x.i];
  return x;
}

/* The same for keys of random numbers: all of a plan that is to be kept. */
#define KEY_BITS UINT64_C(0x6b65790000000000)
static inline Key key_mark(uint32_t k) {
  return (Key){{KEY_BITS, k}};
}
static inline bool is_key_mark(Key key) {
  return key.word[0] == KEY_BITS;
}
static inline Key key_value(Key key, const Key *keys) {
  return keys && is_key_mark(key) ? keys[key.word[1]] : key;
}

typedef struct Quasi {
  int64_t constant;
  int64_t times[KERNEL_VARS];
} Quasi;

typedef struct Quotient { /* floor(of / by): a variable */
  Quasi of;
  int64_t by, low, high;
} Quotient;

typedef enum StepKind {
  STEP_CONST,   /* value */
  STEP_INDEX,   /* index, an i64 */
  STEP_READ,    /* inputs[input] at address, further indices added to it */
  STEP_LOCAL,   /* what loops[loop].results[result] computed for this point of
                   the outer axes, at address among its inner axes */
  STEP_OP,      /* op over args */
  STEP_SELECT,  /* args[0] ? args[1] : args[2]; reads may hold on one side
                   only */
  STEP_CONVERT, /* args[0] to dtype */
  STEP_RANDOM,  /* op, key, args[0] the element's number */
  STEP_PAIR,    /* args[0] and args[1], both of them values of bf16, in the
                   halves of one i32; a backend's own */
} StepKind;

/* An index of a read that is not an address yet: to be checked against the
 * extent, then multiplied and added. */
typedef struct ReadIndex {
  uint32_t step;
  int64_t stride, extent;
} ReadIndex;

typedef struct Step {
  StepKind kind;
  Dtype dtype;
  PrimId op;
  Span span; /* its place in the source */
  uint32_t arg_count;
  uint32_t args[3];
  int64_t low, high; /* bounds of an i64; INT64_MIN, INT64_MAX: none known */
  int64_t least, most; /* likewise, which may be sizes that are no numbers */
  bool sure;         /* nobody looks at it where an index or divisor is wrong */
  union {
    Scalar value;
    Quasi *index;
    Key key;
    struct {
      const Node *node;     /* READ */
      Quasi **at;           /* READ: by axis of the node; NULL: in indices */
      uint32_t input;       /* READ */
      uint32_t loop;        /* LOCAL */
      uint32_t result;      /* LOCAL */
      Quasi *address;       /* in elements */
      bool pairs;           /* two elements of 16 bits as one of 32, */
      int64_t terms;        /* of so many; 0: of an even number */
      uint32_t index_count; /* READ */
      ReadIndex *indices;
    };
  };
} Step;

typedef struct Result {
  Node *node;
  PrimId reduce; /* PRIM_NONE: kept is all of the loop's axes */
  Dtype dtype;
  uint32_t step;      /* whose value it is, or reduces */
  Quasi *out;         /* where an element goes in memory; NULL: nowhere */
  Quasi *local;       /* where among those of one outer point, for later loops;
                         NULL: none reads it */
  int64_t local_size; /* elements of one outer point */
  /* of loops that go in portions: it goes on from one to the next; a sum, times
     exp (slope * by how much this result has changed) */
  bool carried, scaled;
  uint32_t scale_loop, scale_result;
  double slope;
} Result;

/* An inner axis at least, or at most, floor(of / by): limit.c. */
typedef struct Limit {
  Quasi of; /* of outer axes */
  int64_t by;
  bool least;
  int64_t most, exact; /* only if `most`, a size, is less; 0: always */
} Limit;

enum { LIMITS_MOST = 32 };

/* A loop that only moves numbers between memory and local values. */
typedef enum CopyKind { COPY_NONE, COPY_IN, COPY_OUT } CopyKind;

typedef struct Loop {
  Graph *graph;               /* whose sizes it has */
  uint32_t outer, kept, axes; /* the shared axes; with those of the results;
                                 with the reduced ones */
  int64_t extents[KERNEL_AXES];
  uint32_t quotient_count; /* variable KERNEL_AXES + k is quotients[k] */
  Quotient quotients[QUOTIENTS];
  VEC(Step) steps;
  VEC(Result) results; /* of axes that are all reduced, or all kept */
  uint32_t limited;    /* an axis, */
  uint32_t limits; /* and the kernel's limits within which it may stay, a set;
                      0: it is gone through wholly */
  double part;     /* of that axis, on average */
  bool finite;     /* a product: if its factors along the columns are finite */
  bool portioned;  /* goes along that axis in portions: portion.c */
  CopyKind copy;   /* apart.c, */
  uint32_t next;   /* of neighbours in memory along this inner axis */
} Loop;

typedef struct Kernel {
  Arena *arena;
  Graph *graph;
  uint32_t outer;
  VEC(Loop *) loops; /* in the order in which they run */
  VEC(const Node *) inputs;
  VEC(Limit) limits;
  Loop *guard; /* of a point, behind the loops: results that are true where
                  limits were wrong; NULL: they never are */
  uint32_t portion_from, portion_to; /* loops that go in portions */
  bool large;  /* of open sizes: what it reads and writes, no cache holds */
  bool window; /* of open sizes: products may be read through windows */
  bool small;  /* of open sizes: products of a batch are */
  bool here;   /* of open sizes: it is for no other machine than this */
  bool across; /* lanes lie along the last outer axis: kernel_copy_apart */
} Kernel;

/* What is run at once: nodes in order, and their kernel. */
struct Cluster {
  VEC(Node *) nodes;
  Kernel *kernel; /* NULL: of nodes that have no loop form (opaque ones, too
                     many axes) */
  void *backend;  /* what a backend noted when it prepared it */
  bool passing;   /* that is gone with the plan */
  bool routine;   /* of a node that is no loop: a backend has one of its own */
  const char *interpreted; /* why it is left to the reference backend; NULL: it
                              is not */
  struct ClusterNotes *notes; /* watch.h; NULL: nobody asks */
  const Node *same;     /* whose data is that of the one node; NULL: none */
  const bool *dying;    /* of the kernel's inputs: nothing reads it later, and
                           its memory may be that of a result; or NULL */
  const double *params; /* marks among the kernel's floats stand for these, */
  const Key *keys;      /* and among its keys for these */
  bool backward; /* it is better gone over memory from its end */
  const struct Bound *bound; /* recipe.c: where the fused bodies are; NULL: the
                                nodes have them */
};
/* Gives the nodes their fused bodies: before they are interpreted. */
void cluster_bodies(const Cluster *c);

/* ---- stage.c: a node as a loop ---- */

typedef struct Cuts { /* of the axes of a node: extents of inner parts */
  int64_t by[RANK_MAX][8];
  uint32_t count[RANK_MAX];
} Cuts;
/* Adds a cut of an axis. */
void cuts_add(const Graph *g, Cuts *cuts, uint32_t axis, int64_t by);

typedef struct Stage {
  Loop *loop; /* no axis is outer yet */
  /* kept axis k of the node: variables first .. first + parts - 1 */
  uint32_t first[RANK_MAX], parts[RANK_MAX];
} Stage;
/* NULL: the body is one that is left to the reference backend (too many axes
 * or quotients).  cuts: those that others want; grows by the body's own. */
Stage *stage_new(Arena *arena, Graph *g, Node *n, Cuts *cuts);

Quasi *quasi_new(Arena *arena, int64_t constant);
/* x + factor * y; false: an overflow */
bool quasi_add(Graph *g, Quasi *x, int64_t factor, const Quasi *y);
/* x = by * over + rest, which are 0; rest: the terms that by does not divide.
 * False: an overflow. */
bool quasi_divide(Graph *g, const Quasi *x, int64_t by, Quasi *over,
                  Quasi *rest);
/* x = by * upper + lower: the terms that `by` divides, over it, and the rest,
 * which is to lie in 0 .. by - 1; false: it does not. */
bool quasi_split(Arena *arena, const Quasi *x, int64_t by, const Loop *loop,
                 Quasi **upper, Quasi **lower);
bool quasi_equal(const Quasi *x, const Quasi *y);
Quasi *quasi_copy(Arena *arena, const Quasi *from); /* of NULL: NULL */
/* Do two steps of loops with the same axes and quotients do the same with their
 * arguments?  Of what other loops left: with the same result. */
bool step_does_same(const Step *x, const Step *y);
/* A loop over the same axes, without steps and results; and one with copies of
 * them, whose forms can be changed. */
Loop *loop_like(Arena *arena, const Loop *loop);
Loop *loop_copy(Arena *arena, const Loop *from);
/* False: they do not fit. */
bool quasi_bounds(const Loop *loop, const Quasi *q, int64_t *low,
                  int64_t *high);

/* ---- product.c: sums of products ---- */

enum { FACTORS_MOST = 8 };

/* sum over the reduced axes of the product of factors, times and over others
 * that do not depend on these. */
typedef struct Product {
  const uint64_t *depends; /* of each step: the set of variables */
  uint32_t factors[FACTORS_MOST], count;
  uint32_t outside[FACTORS_MOST], outside_count;
  bool over[FACTORS_MOST]; /* outside[k] divides */
} Product;
/* False: it is none, or none with an axis of the result that only some of the
 * factors have and another one that only others have. */
bool product_find(Arena *arena, const Loop *loop, Product *p);
/* Likewise, however small; the other is for those worth copies of factors. */
bool product_find_any(Arena *arena, const Loop *loop, Product *p);
bool loop_is_product(const Loop *loop);
/* Of a product: are all factors values of bf16? */
bool product_of_halves(const Loop *loop);
/* Of a product: which factors have n; m: the largest axis that those do not
 * have, and the others do.  False: there is none. */
bool product_sides(const Loop *loop, const Product *p, uint32_t n, uint32_t *m,
                   uint32_t *with_n);
/* Which variables each step depends on. */
uint64_t *loop_depends(Arena *arena, const Loop *loop);
/* Is what a read has along the axis one element after the other, in all of its
 * range? */
bool loop_reads_line(const Loop *loop, const uint64_t *depends, const Step *s,
                     uint32_t v);
/* A step of one loop, with all that it needs, as a step of another one over
 * the same axes.  place: for each step of `from` 1 + what it became, or 0. */
uint32_t loop_take_step(Arena *arena, const Loop *from, Loop *to,
                        uint32_t *place, uint32_t at);
/* The product of those factors that are in `which`, of type t, as a loop over
 * the same axes. */
Loop *product_side(Arena *arena, const Loop *loop, const Product *p,
                   uint32_t which, Dtype t);
/* Takes the factors outside of the sum away from a product, or from a sum of
 * quotients that is not alone: the loop that follows it and does the rest,
 * reading loop LOOP_BEFORE; NULL: there are none. */
enum { LOOP_BEFORE = INT32_MAX };
Loop *product_hoist(Arena *arena, Loop *loop, bool alone);

/* ---- between.c: two products with weights of rows between them ---- */

typedef struct Between {
  uint32_t last; /* the loop of the second product, the first one being 0 */
  Product first, second;
  uint32_t with_n, with_e; /* factors that have the row's axis in the first,
                              and the columns in the second product */
  /* What is between them, over the outer axes and the row's: its STEP_LOCALs
     are the first product's values, and what is left of whole rows. */
  Loop *row;
  uint32_t core;  /* the weight, but for its factors; */
  uint32_t score; /* exp (score - the largest of the row), or the same */
  bool relative;  /* it is that */
  bool total;     /* the sum of these is wanted */
  uint32_t factor[FACTORS_MOST], factors; /* the same all along the row */
  bool over[FACTORS_MOST];                /* factor[k] divides */
  Dtype weight; /* that a weight has before it is multiplied */
} Between;
/* False: the kernel is none of that. */
bool kernel_between(const Kernel *k, Between *out);

/* ---- limit.c: parts of loops that change nothing ---- */

/* Finds the kernel's limits, and what loops they are of.  tiled: products are
 * tiles, whose columns are the last axis that is kept. */
void kernel_limit(Kernel *k, bool tiled);

/* Is it kept all along the axis? */
bool loop_keeps(const Loop *loop, const Result *r, uint32_t axis);
/* The last axis as two, the inner one of so many, which divide it, both of them
 * numbers; there is room for one more axis.  And as it was. */
void loop_cut(Arena *arena, Loop *loop, int64_t by);
void loop_uncut(Arena *arena, Loop *loop);
/* Which axis of the reader alone walks over an axis of a local value that it
 * reads at the address; UINT32_MAX: none does. */
uint32_t loop_reading_axis(const Loop *reader, const Quasi *address,
                           const Loop *loop, const Result *r, uint32_t axis);

/* ---- portion.c: rows too long for a cache ---- */

/* Can loops, from a product on, go along its last axis in portions?  *length:
 * of that; NULL: nobody asks. */
bool kernel_has_portions(const Kernel *k, int64_t *length);
/* Has them do so; false: they cannot. */
bool kernel_portion(Kernel *k);

/* ---- apart.c: reads whose lanes would be apart ---- */

/* Does it walk in steps of more than one element along the outer axis, and over
 * neighbours along an inner one, some or often?  *numbers: how many of one
 * outer point. */
bool loop_reads_apart(const Loop *loop, const Step *s, uint32_t lane,
                      double *numbers);
/* The same of a result that is stored. */
bool loop_stores_apart(const Loop *loop, const Result *r, uint32_t lane);
/* Has loops of their own move what such reads read to local values, and such
 * results from there, so that lanes along the outer axis are next to each
 * other. */
void kernel_copy_apart(Kernel *k, uint32_t lane);

/* ---- assemble.c: the loops of a cluster as a kernel ---- */

typedef struct Member {
  Stage *stage;
  Node *node;
  bool kept;                    /* somebody outside of the cluster reads it */
  uint32_t shared[KERNEL_AXES]; /* its variable of each shared axis */
} Member;

/* Local values of a loop, laid out by their inner axes in their order; *size:
 * of one outer point. */
Quasi *loop_layout(Arena *arena, const Loop *loop, int64_t *size);
/* NULL: it does not fit into the tables. */
Kernel *kernel_assemble(Arena *arena, uint32_t count, Member *members,
                        uint32_t outer);
/* The loop keeps its (one) result local, in the type in which it is computed,
 * and a new loop after it stores that. */
void kernel_part_result(Kernel *k, uint32_t loop);
/* Makes the outer axis v the last one of them. */
void kernel_move_last(Kernel *k, uint32_t v);
/* x's variables as forms in a reader's variables: part k of axis `axis` of x;
 * false where they do not separate. */
bool stage_split(Arena *arena, const Stage *x, uint32_t axis, const Quasi *at,
                 const Loop *reader, Quasi **parts);

/* Bytes of local values at one point; one_each: of those too that are just one
 * number. */
/* Are there sizes in it that are no numbers? */
bool loop_is_open(const Loop *loop);
bool kernel_is_open(const Kernel *k);
/* What an extent may be like, and the product of some. */
double loop_points(const Loop *loop, uint32_t from, uint32_t to);
int64_t loop_guess(const Loop *loop, uint32_t v);
double kernel_local_bytes(const Kernel *k, bool one_each);
/* Operations, each step of a loop at each of its points being one. */
double kernel_work(const Kernel *k);
/* True if every backend computes the same bits for the nodes. */
bool cluster_is_exact(const Cluster *c);
/* For axon dump and tests. */
void kernel_print(Buffer *out, const Kernel *k);

#endif
