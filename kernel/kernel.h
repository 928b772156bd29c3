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
 * compiled for all sizes they are sizes (tensor/extent.h), and what is decided
 * by them is decided by what they may be like (extent_hint): it is right for
 * all.
 *
 * All of it lives in the arena of a plan, and borrows the nodes. */
#ifndef AXON_KERNEL_H
#define AXON_KERNEL_H

#include "tensor/extent.h"

enum {
  MAX_KERNEL_VARS = 64,
  MAX_KERNEL_AXES = 40,
  MAX_FLOOR_DIVS = MAX_KERNEL_VARS - MAX_KERNEL_AXES - 1
};

/* Stands for a float that is not known: a number that is none, and its number
 * among the parameters. */
#define PARAM_NAN_TAG UINT64_C(0x7ff8a40e00000000)
static inline Scalar param_nan_box(uint32_t k) {
  return (Scalar){.dtype = DT_F64, .i = (int64_t)(PARAM_NAN_TAG | k)};
}
static inline bool scalar_is_param(Scalar x) {
  return dtype_is_float(x.dtype) &&
         ((uint64_t)x.i & ~(uint64_t)UINT32_MAX) == PARAM_NAN_TAG;
}
/* x, or what stands in its place. */
static inline Scalar param_resolve(Scalar x, const double *params) {
  if (params && scalar_is_param(x))
    x.f = params[(uint32_t)x.i];
  return x;
}

/* The same for keys of random numbers: all of a plan that is to be kept. */
#define KEY_PLACEHOLDER_TAG UINT64_C(0x6b65790000000000)
static inline PrngKey key_placeholder(uint32_t k) {
  return (PrngKey){{KEY_PLACEHOLDER_TAG, k}};
}
static inline bool key_is_placeholder(PrngKey key) {
  return key.word[0] == KEY_PLACEHOLDER_TAG;
}
static inline PrngKey key_resolve(PrngKey key, const PrngKey *keys) {
  return keys && key_is_placeholder(key) ? keys[key.word[1]] : key;
}

typedef struct AffineExpr {
  int64_t constant;
  int64_t coef[MAX_KERNEL_VARS];
} AffineExpr;

typedef struct FloorDiv { /* floor(of / by): a variable */
  AffineExpr dividend;
  int64_t divisor, low, high;
} FloorDiv;

typedef enum KernelOpKind {
  KOP_CONST,      /* value */
  KOP_AFFINE,     /* index, an i64 */
  KOP_LOAD,       /* inputs[input] at address, further indices added to it */
  KOP_LOAD_LOCAL, /* what loops[loop].results[result] computed for this point of
                     the outer axes, at address among its inner axes */
  KOP_OP,         /* op over args */
  KOP_SELECT,     /* args[0] ? args[1] : args[2]; reads may hold on one side
                     only */
  KOP_CONVERT,    /* args[0] to dtype */
  KOP_RANDOM,     /* op, key, args[0] the element's number */
  KOP_PACK_BF16X2, /* args[0] and args[1], both of them values of bf16, in the
                      halves of one i32; a backend's own */
} KernelOpKind;

/* An index of a read that is not an address yet: to be checked against the
 * extent, then multiplied and added. */
typedef struct CheckedIndex {
  uint32_t index_op;
  int64_t stride, extent;
} CheckedIndex;

typedef struct KernelOp {
  KernelOpKind kind;
  Dtype dtype;
  PrimId op;
  Span span; /* its place in the source */
  uint32_t arg_count;
  uint32_t args[3];
  int64_t low, high; /* bounds of an i64; INT64_MIN, INT64_MAX: none known */
  int64_t symbolic_min,
      symbolic_max; /* likewise, which may be sizes that are no numbers */
  bool proved_safe; /* nobody looks at it where an index or divisor is wrong */
  union {
    Scalar value;
    AffineExpr *affine;
    PrngKey key;
    struct {
      const Node *node; /* READ */
      AffineExpr *
          *index_exprs;        /* READ: by axis of the node; NULL: in indices */
      uint32_t input;          /* READ */
      uint32_t source_loop;    /* LOCAL */
      uint32_t source_output;  /* LOCAL */
      AffineExpr *address;     /* in elements */
      bool packed_pairs;       /* two elements of 16 bits as one of 32, */
      int64_t packed_elements; /* of so many; 0: of an even number */
      uint32_t checked_index_count; /* READ */
      CheckedIndex *checked_indices;
    };
  };
} KernelOp;

typedef struct LoopOutput {
  Node *node;
  PrimId reduce; /* PRIM_NONE: kept is all of the loop's axes */
  Dtype dtype;
  uint32_t value_op;        /* whose value it is, or reduces */
  AffineExpr *global_index; /* where an element goes in memory; NULL: nowhere */
  AffineExpr *local_index;  /* where among those of one outer point, for later
                               loops;  NULL: none reads it */
  int64_t local_elements;   /* elements of one outer point */
  /* of loops that go in portions: it goes on from one to the next; a sum, times
     exp (slope * by how much this result has changed) */
  bool loop_carried, rescaled;
  uint32_t rescale_loop, rescale_output;
  double slope;
} LoopOutput;

/* An inner axis at least, or at most, floor(of / by): trim_no_ops.c. */
typedef struct TrimBound {
  AffineExpr dividend; /* of outer axes */
  int64_t divisor;
  bool is_lower;
  int64_t largest_index,
      exact_limit; /* only if `most`, a size, is less; 0: always */
} TrimBound;

enum { MAX_TRIM_BOUNDS = 32 };

/* A loop that only moves numbers between memory and local values. */
typedef enum StageKind { STAGE_NONE, STAGE_IN, STAGE_OUT } StageKind;

typedef struct LoopNest {
  Graph *graph; /* whose sizes it has */
  uint32_t parallel_axes, spatial_axes,
      axis_count; /* the shared axes; with those of the results;
                     with the reduced ones */
  int64_t extents[MAX_KERNEL_AXES];
  uint32_t floor_div_count; /* variable MAX_KERNEL_AXES + k is quotients[k] */
  FloorDiv floor_divs[MAX_FLOOR_DIVS];
  VEC(KernelOp) ops;
  VEC(LoopOutput) outputs; /* of axes that are all reduced, or all kept */
  uint32_t trimmed_axis;   /* an axis, */
  uint32_t trim_bounds; /* and the kernel's limits within which it may stay, a
                           set; 0: it is gone through wholly */
  double trip_fraction; /* of that axis, on average */
  bool requires_finite; /* a product: if its factors along the columns are
                           finite */
  bool strip_mined;  /* goes along that axis in portions: online_reduction.c */
  StageKind staging; /* stage_strided.c, */
  uint32_t contiguous_axis; /* of neighbours in memory along this inner axis */
} LoopNest;

typedef struct Kernel {
  Arena *arena;
  Graph *graph;
  uint32_t parallel_axes;
  VEC(LoopNest *) loops; /* in the order in which they run */
  VEC(const Node *) inputs;
  VEC(TrimBound) trim_bounds;
  LoopNest *trim_check; /* of a point, behind the loops: results that are true
                           where limits were wrong; NULL: they never are */
  uint32_t strip_begin, strip_end; /* loops that go in portions */
  bool exceeds_caches;     /* of open sizes: what it reads and writes, no cache
                              holds */
  bool allow_conv_windows; /* of open sizes: products may be read through
                              windows */
  bool small_batched_gemm; /* of open sizes: products of a batch are */
  bool native_only; /* of open sizes: it is for no other machine than this */
  bool vectorize_outer; /* lanes lie along the last outer axis:
                           kernel_stage_strided */
} Kernel;

/* ---- affine.c ---- */

AffineExpr *affine_new(Arena *arena, int64_t constant);
/* x + factor * y; false: an overflow */
bool affine_add(Graph *g, AffineExpr *x, int64_t factor, const AffineExpr *y);
/* x = by * over + rest, which are 0; rest: the terms that by does not divide.
 * False: an overflow. */
bool affine_divide(Graph *g, const AffineExpr *x, int64_t divisor,
                   AffineExpr *quotient, AffineExpr *remainder);
/* x = by * upper + lower: the terms that `by` divides, over it, and the rest,
 * which is to lie in 0 .. by - 1; false: it does not. */
bool affine_div_rem(Arena *arena, const AffineExpr *x, int64_t divisor,
                    const LoopNest *loop, AffineExpr **quotient,
                    AffineExpr **remainder);
bool affine_equal(const AffineExpr *x, const AffineExpr *y);
AffineExpr *affine_copy(Arena *arena,
                        const AffineExpr *from); /* of NULL: NULL */
/* False: they do not fit. */
bool affine_bounds(const LoopNest *loop, const AffineExpr *q, int64_t *low,
                   int64_t *high);

/* ---- loop_nest.c ---- */

/* Do two steps of loops with the same axes and quotients do the same with their
 * arguments?  Of what other loops left: with the same result. */
bool kernel_op_equivalent(const KernelOp *x, const KernelOp *y);
/* A loop over the same axes, without steps and results; and one with copies of
 * them, whose forms can be changed. */
LoopNest *loop_clone_empty(Arena *arena, const LoopNest *loop);
LoopNest *loop_clone(Arena *arena, const LoopNest *from);
/* A copy whose axes may be put into another order (kernel_copy.c). */
Kernel *kernel_copy(const Kernel *from);
/* Are there sizes in it that are no numbers? */
bool loop_is_symbolic(const LoopNest *loop);
bool kernel_is_symbolic(const Kernel *k);
/* What an extent may be like, and the product of some. */
double loop_iterations_hint(const LoopNest *loop, uint32_t from, uint32_t to);
int64_t loop_extent_hint(const LoopNest *loop, uint32_t v);
/* The product of the hints of `count` axes. */
double loop_axes_hint(const LoopNest *loop, uint32_t count,
                      const uint32_t *axes);
/* Bytes of local values at one point; include_scalars: of those too that are
 * just one number. */
double kernel_local_bytes(const Kernel *k, bool include_scalars);
/* Operations, each step of a loop at each of its points being one. */
double kernel_operation_count(const Kernel *k);

/* ---- lower.c: a node as a loop ---- */

typedef struct AxisSplits { /* of the axes of a node: extents of inner parts */
  int64_t inner_extents[MAX_RANK][8];
  uint32_t split_count[MAX_RANK];
} AxisSplits;
/* Adds a cut of an axis. */
void axis_splits_add(const Graph *g, AxisSplits *splits, uint32_t axis,
                     int64_t divisor);

typedef struct LoweredNode {
  LoopNest *loop; /* no axis is outer yet */
  /* kept axis k of the node: variables first .. first + parts - 1 */
  uint32_t first_var[MAX_RANK], var_count[MAX_RANK];
} LoweredNode;
/* NULL: the body is one that is left to the reference backend (too many axes
 * or quotients).  cuts: those that others want; grows by the body's own. */
LoweredNode *lower_node(Arena *arena, Graph *g, Node *n, AxisSplits *splits);

/* ---- match_contraction.c: sums of products ---- */

enum { MAX_FACTORS = 8 };

/* sum over the reduced axes of the product of factors, times and over others
 * that do not depend on these. */
typedef struct ContractionPattern {
  const uint64_t *op_vars; /* of each step: the set of variables */
  uint32_t factors[MAX_FACTORS], factor_count;
  uint32_t hoisted[MAX_FACTORS], hoisted_count;
  bool hoisted_divides[MAX_FACTORS]; /* outside[k] divides */
} ContractionPattern;
/* False: it is none, or none with an axis of the result that only some of the
 * factors have and another one that only others have. */
bool contraction_match(Arena *arena, const LoopNest *loop,
                       ContractionPattern *p);
/* Likewise, however small; the other is for those worth copies of factors. */
bool contraction_match_any_size(Arena *arena, const LoopNest *loop,
                                ContractionPattern *p);
bool loop_is_contraction(const LoopNest *loop);
/* Of a product: are all factors values of bf16? */
bool contraction_is_bf16(const LoopNest *loop);
/* Of a product: which factors have n; m: the largest axis that those do not
 * have, and the others do.  False: there is none. */
bool contraction_operand_sides(const LoopNest *loop,
                               const ContractionPattern *p, uint32_t n,
                               uint32_t *m, uint32_t *n_factors);
/* Which variables each step depends on. */
uint64_t *loop_op_vars(Arena *arena, const LoopNest *loop);
/* Is what a read has along the axis one element after the other, in all of its
 * range? */
bool loop_load_is_contiguous(const LoopNest *loop, const uint64_t *op_vars,
                             const KernelOp *s, uint32_t v);
/* A step of one loop, with all that it needs, as a step of another one over
 * the same axes.  place: for each step of `from` 1 + what it became, or 0. */
uint32_t loop_clone_op(Arena *arena, const LoopNest *from, LoopNest *to,
                       uint32_t *op_map, uint32_t at);
/* The product of those factors that are in `which`, of type t, as a loop over
 * the same axes. */
LoopNest *contraction_operand_loop(Arena *arena, const LoopNest *loop,
                                   const ContractionPattern *p,
                                   uint32_t factor_set, Dtype t);
/* Takes the factors outside of the sum away from a product, or from a sum of
 * quotients that is not alone: the loop that follows it and does the rest,
 * reading loop PREVIOUS_LOOP; NULL: there are none. */
enum { PREVIOUS_LOOP = INT32_MAX };
LoopNest *contraction_hoist_factors(Arena *arena, LoopNest *loop,
                                    bool single_loop);

/* ---- match_attention.c: two products with weights of rows between them
 * ---- */

typedef struct AttentionPattern {
  uint32_t pv_loop; /* the loop of the second product, the first one being 0 */
  ContractionPattern qk, pv;
  uint32_t qk_column_factors,
      pv_column_factors; /* factors that have the row's axis in the first,
                            and the columns in the second product */
  /* What is between them, over the outer axes and the row's: its
     KOP_LOAD_LOCALs are the first product's values, and what is left of whole
     rows. */
  LoopNest *row_loop;
  uint32_t unnormalized_weight; /* the weight, but for its factors; */
  uint32_t score;     /* exp (score - the largest of the row), or the same */
  bool subtract_max;  /* it is that */
  bool needs_row_sum; /* the sum of these is wanted */
  uint32_t row_factors[MAX_FACTORS],
      row_factor_count;                 /* the same all along the row */
  bool row_factor_divides[MAX_FACTORS]; /* factor[k] divides */
  Dtype weight_dtype; /* that a weight has before it is multiplied */
} AttentionPattern;
/* False: the kernel is none of that. */
bool kernel_match_attention(const Kernel *k, AttentionPattern *out);

/* ---- trim_no_ops.c: parts of loops that change nothing ---- */

/* Finds the kernel's limits, and what loops they are of.  tiled: products are
 * tiles, whose columns are the last axis that is kept. */
void kernel_trim(Kernel *k, bool tiled);

/* Is it kept all along the axis? */
bool loop_output_has_axis(const LoopNest *loop, const LoopOutput *r,
                          uint32_t axis);
/* The last axis as two, the inner one of so many, which divide it, both of them
 * numbers; there is room for one more axis.  And as it was. */
void loop_split_last_axis(Arena *arena, LoopNest *loop, int64_t divisor);
void loop_collapse_last_axes(Arena *arena, LoopNest *loop);
/* Which axis of the reader alone walks over an axis of a local value that it
 * reads at the address; UINT32_MAX: none does. */
uint32_t loop_matching_axis(const LoopNest *reader, const AffineExpr *address,
                            const LoopNest *loop, const LoopOutput *r,
                            uint32_t axis);

/* ---- online_reduction.c: rows too long for a cache ---- */

/* Can loops, from a product on, go along its last axis in portions?  *length:
 * of that; NULL: nobody asks. */
bool kernel_can_strip_mine(const Kernel *k, int64_t *length);
/* Has them do so; false: they cannot. */
bool kernel_strip_mine(Kernel *k);

/* ---- stage_strided.c: reads whose lanes would be apart ---- */

/* Does it walk in steps of more than one element along the outer axis, and over
 * neighbours along an inner one, some or often?  *numbers: how many of one
 * outer point. */
bool loop_load_is_strided(const LoopNest *loop, const KernelOp *s,
                          uint32_t vector_axis, double *elements);
/* The same of a result that is stored. */
bool loop_store_is_strided(const LoopNest *loop, const LoopOutput *r,
                           uint32_t vector_axis);
/* Has loops of their own move what such reads read to local values, and such
 * results from there, so that lanes along the outer axis are next to each
 * other. */
void kernel_stage_strided(Kernel *k, uint32_t vector_axis);

/* ---- fuse_loops.c: the loops of a cluster as a kernel ---- */

typedef struct FusedNode {
  LoweredNode *lowered;
  Node *node;
  bool live_out; /* somebody outside of the cluster reads it */
  uint32_t
      parallel_vars[MAX_KERNEL_AXES]; /* its variable of each shared axis */
} FusedNode;

/* Local values of a loop, laid out by their inner axes in their order; *size:
 * of one outer point. */
AffineExpr *loop_local_layout(Arena *arena, const LoopNest *loop,
                              int64_t *size);
/* NULL: it does not fit into the tables. */
Kernel *kernel_fuse_loops(Arena *arena, uint32_t count, FusedNode *nodes,
                          uint32_t parallel_axes);
/* The loop keeps its (one) result local, in the type in which it is computed,
 * and a new loop after it stores that. */
void kernel_split_store_loop(Kernel *k, uint32_t loop);
/* Makes the outer axis v the last one of them. */
void kernel_move_axis_last(Kernel *k, uint32_t v);
/* x's variables as forms in a reader's variables: part k of axis `axis` of x;
 * false where they do not separate. */
bool lowered_node_delinearize(Arena *arena, const LoweredNode *x, uint32_t axis,
                              const AffineExpr *at, const LoopNest *reader,
                              AffineExpr **parts);

/* ---- print.c ---- */

/* For axon dump and tests. */
void kernel_print(Buffer *out, const Kernel *k);

#endif
