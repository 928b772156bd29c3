/* Kernels: what one compiled function computes, in a form for code generation.
 *
 * A kernel is a fusion group: materialized nodes that share *parallel axes*.
 * Along these axes, an iteration never reads the result of another iteration.
 * So iterations may run in any order and in parallel.  A value that only the
 * group reads is *local*: it is stored for the current iteration and never
 * becomes a tensor.  The smallest group is a single node.  Other examples are a
 * row softmax, a matmul with its epilogue, and attention.
 *
 * Along the last parallel axes, the *accumulated* axes, some loops may sum
 * their values in memory.  Then one task runs all iterations of these axes, in
 * order. An example is the backward pass of attention: the rows of a head add
 * to the gradients of its keys and values.
 *
 * Each node is a *loop nest*.  Its axes are the parallel axes, the other axes
 * of its result (with the parallel axes, the *spatial* axes), and the reduced
 * axes. Loops over the same axes are fused into one loop with several outputs.
 * An axis is split if a body divides its index by a divisor of its extent.  Two
 * axes are collapsed if every access addresses them like one axis.  Indices are
 * *quasi-affine expressions*,
 *
 *     constant + sum of coef[v] * variable v,
 *
 * whose variables are the axes and floor divisions of such expressions.  So
 * reshape, transpose and slices are address arithmetic only.  (The term is from
 * the polyhedral literature, for example arXiv:2006.12645.)
 *
 * The rest of a body is a list of ops, each of them after its arguments.  The
 * structure of a kernel contains no sizes: extents, strides and constants are
 * parameters, so that the same code serves all sizes.  In a function that is
 * compiled for all sizes, extents are symbolic (tensor/extent.h).  Decisions
 * then use hints (extent_hint), and the code is correct for all sizes.
 *
 * A kernel lives in the arena of its plan and borrows the nodes. */
#ifndef AXON_KERNEL_H
#define AXON_KERNEL_H

#include "support/span.h"
#include "support/vec.h"
#include "tensor/extent.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;

enum {
  MAX_KERNEL_VARS = 64,
  MAX_KERNEL_AXES = 40,
  MAX_FLOOR_DIVS = MAX_KERNEL_VARS - MAX_KERNEL_AXES - 1,
  NO_OP = UINT32_MAX
};

/* A float parameter is a NaN with its number in the low 32 bits. */
#define PARAM_NAN_TAG UINT64_C(0x7ff8a40e00000000)
static inline Scalar param_nan_box(uint32_t k) {
  return (Scalar){.dtype = DT_F64, .i = (int64_t)(PARAM_NAN_TAG | k)};
}
static inline bool scalar_is_param(Scalar x) {
  return dtype_is_float(x.dtype) &&
         ((uint64_t)x.i & ~(uint64_t)UINT32_MAX) == PARAM_NAN_TAG;
}
/* The value of x: that of the parameter, if x is one. */
static inline Scalar param_resolve(Scalar x, const double *params) {
  if (params && scalar_is_param(x))
    x.f = params[(uint32_t)x.i];
  return x;
}

/* A placeholder for a key of random numbers, in plans that are cached. */
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

typedef struct FloorDiv { /* a variable: floor(dividend / divisor) */
  AffineExpr dividend;
  int64_t divisor;
  int64_t low, high; /* bounds of the quotient */
} FloorDiv;

typedef enum KernelOpKind {
  KOP_CONST,      /* value */
  KOP_AFFINE,     /* affine, an i64 */
  KOP_LOAD,       /* inputs[input] at address, plus the checked indices */
  KOP_LOAD_LOCAL, /* output source_output of loop source_loop in this iteration
                     of the parallel axes, at address among its local values.
                     Of its own loop: a state, before this iteration; the
                     address is the number of the iteration */
  KOP_MAP,        /* op of args */
  KOP_SELECT,  /* args[0] ? args[1] : args[2]; the loads of the other side may
                  be out of bounds */
  KOP_CONVERT, /* args[0] to dtype */
  KOP_RANDOM,  /* random number of kind op and key; args[0] is the number of
                  the element */
  KOP_PACK_BF16X2, /* args[0] and args[1], two bf16 values, in the halves of one
                      i32; only backends create it */
  /* The sum of four products of the unsigned bytes of args[0] and the signed
   * ones of args[1], an i32; only backends create it. */
  KOP_DOT_BYTES,
} KernelOpKind;

/* An index of a load with a bounds check.  Generated code checks it against the
 * extent and adds it, times the stride, to the address. */
typedef struct CheckedIndex {
  uint32_t index_op;
  int64_t stride, extent;
} CheckedIndex;

typedef struct KernelOp {
  KernelOpKind kind;
  Dtype dtype;
  PrimId op;
  Span span; /* in the source file */
  uint32_t arg_count;
  uint32_t args[3];
  /* Static bounds of an i64; INT64_MIN, INT64_MAX: unknown. */
  int64_t low, high;
  int64_t symbolic_min, symbolic_max; /* bounds that may be symbolic sizes */
  bool proved_safe; /* its result is unused if an index or divisor is invalid */
  union {
    Scalar value;
    AffineExpr *affine;
    PrngKey key;
    struct {
      const Node *node; /* KOP_LOAD */
      /* KOP_LOAD: for each axis of the node; NULL: a checked index. */
      AffineExpr **index_exprs;
      uint32_t input;         /* KOP_LOAD */
      uint32_t source_loop;   /* KOP_LOAD_LOCAL */
      uint32_t source_output; /* KOP_LOAD_LOCAL */
      AffineExpr *address;    /* elements */
      bool packed_pairs;      /* loads two 16-bit elements as one of 32 bits */
      bool packed_bytes;      /* loads four bytes as one element of 32 bits; the
                                 address counts those */
      /* Elements of a row that is loaded in pairs; 0: the number is even. */
      int64_t packed_elements;
      uint32_t checked_index_count; /* KOP_LOAD */
      CheckedIndex *checked_indices;
    };
  };
} KernelOp;

/* The affine expression of an operation: its value or its address; NULL: it has
 * none. */
static inline AffineExpr *kernel_op_affine(const KernelOp *s) {
  return s->kind == KOP_AFFINE                              ? s->affine
         : s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL ? s->address
                                                            : NULL;
}

typedef struct LoopOutput {
  Node *node;
  /* PRIM_NONE: one value per iteration of all axes.  PRIM_FOLD: a state, whose
   * first value is initial_op, and which each iteration of the reduced axes, in
   * order, replaces by value_op. */
  PrimId reduce;
  Dtype dtype;
  uint32_t value_op;        /* the op that is stored or reduced */
  uint32_t initial_op;      /* PRIM_FOLD */
  AffineExpr *global_index; /* element of the node's tensor; NULL: not stored */
  /* Element among the local values of one iteration of the parallel axes; NULL:
   * no later loop reads the output. */
  AffineExpr *local_index;
  int64_t local_elements; /* local elements of one such iteration */
  /* The local values are those of the earlier output state_output of loop
   * state_loop: a reduction is combined with them, and other values replace
   * them. */
  bool updates;
  uint32_t state_loop, state_output;
} LoopOutput;

/* A bound of an inner axis: at least (is_lower) or at most
 * floor((dividend + load_coef * load) / divisor).  See trim_no_ops.c. */
typedef struct TrimBound {
  AffineExpr dividend; /* of parallel axes */
  /* An i64 load whose address has parallel axes only, such as the row length of
   * a ragged axis; NULL: none. */
  const KernelOp *load;
  int64_t load_coef;
  int64_t divisor;
  bool is_lower;
  /* The bound is valid only if largest_index, a size, is less than exact_limit.
   * exact_limit 0: it is always valid. */
  int64_t largest_index, exact_limit;
} TrimBound;

enum { MAX_TRIM_BOUNDS = 32 };

/* A loop that only copies between memory and local values: into local values
 * (IN), or to memory (OUT). */
typedef enum StageKind { STAGE_NONE, STAGE_IN, STAGE_OUT } StageKind;

typedef struct LoopNest {
  Graph *graph; /* owner of symbolic extents */
  /* Axes 0 .. parallel_axes - 1 are parallel, those before spatial_axes are
   * spatial, and the others are reduced. */
  uint32_t parallel_axes, spatial_axes, axis_count;
  /* The last parallel axes, along which the output is summed in memory; 0:
   * none.  Otherwise, the accumulated axes of the kernel. */
  uint32_t accumulated_axes;
  int64_t extents[MAX_KERNEL_AXES];
  uint32_t floor_div_count; /* variable MAX_KERNEL_AXES + k is floor_divs[k] */
  FloorDiv floor_divs[MAX_FLOOR_DIVS];
  VEC(KernelOp) ops;
  VEC(LoopOutput) outputs;
  uint32_t trimmed_axis; /* the axis that is trimmed or strip-mined */
  /* Set of bounds of the kernel that trim this axis; 0: it is not trimmed. */
  uint32_t trim_bounds;
  /* Average fraction of the iterations of the trimmed axis that run. */
  double trip_fraction;
  /* A contraction that is trimmed only if its operand with the columns is
   * finite. */
  bool requires_finite;
  bool strip_mined;         /* online_reduction.c */
  bool keeps_states;        /* online_states.c: only sets, rescales or checks
                               states */
  StageKind staging;        /* stage_strided.c */
  uint32_t contiguous_axis; /* of a staging loop: contiguous in memory */
} LoopNest;

typedef struct Kernel {
  Arena *arena;
  Graph *graph;
  uint32_t parallel_axes;
  /* The number that each axis had before schedules reordered the parallel
   * ones. */
  uint8_t axis_names[MAX_KERNEL_AXES];
  /* The last parallel axes, which one task runs in order, since some loops
   * accumulate along them; 0: none. */
  uint32_t accumulated_axes;
  /* It computes the operand of a matmul again, because it is too large to be
   * stored. */
  bool recomputes;
  VEC(LoopNest *) loops; /* in the order in which they run */
  VEC(const Node *) inputs;
  VEC(TrimBound) trim_bounds;
  /* Runs after the loops, for each iteration of the parallel axes.  An output
   * is true if trimming skipped iterations that count.  NULL: never. */
  LoopNest *trim_check;
  uint32_t strip_begin, strip_end; /* strip-mined loops: begin .. end - 1 */
  /* Loops retry_begin .. retry_end - 1, which include the strips, run again if
   * an output of retry_check is true.  NULL: never. */
  uint32_t retry_begin, retry_end;
  LoopNest *retry_check;
  bool exceeds_caches; /* with symbolic sizes: its data exceed all caches */
  /* The schedule made the batch axes of its only matmul inner axes. */
  bool shares_panels;
  /* With symbolic sizes: matmul operands may be convolution windows. */
  bool allow_conv_windows;
  /* With symbolic sizes: a batch of small matmuls, whose rows have at most this
   * number of vectors; 0: other. */
  uint32_t small_product_vectors;
  bool native_only; /* with symbolic sizes: runs on this machine only */
  /* Vectors lie along the last parallel axis (kernel_stage_strided). */
  bool vectorize_outer;
} Kernel;

/* ---- affine.c ---- */

AffineExpr *affine_new(Arena *arena, int64_t constant);
/* x += factor * y.  Returns false on overflow. */
bool affine_add(Graph *g, AffineExpr *x, int64_t factor, const AffineExpr *y);
/* Splits x = divisor * quotient + remainder.  Each term of x that the divisor
 * does not divide goes to the remainder.  The results must be 0 at the call.
 * Returns false on overflow. */
bool affine_divide(Graph *g, const AffineExpr *x, int64_t divisor,
                   AffineExpr *quotient, AffineExpr *remainder);
/* The same, with a remainder that lies in 0 .. divisor - 1.  Returns false if
 * it does not. */
bool affine_div_rem(Arena *arena, const AffineExpr *x, int64_t divisor,
                    const LoopNest *loop, AffineExpr **quotient,
                    AffineExpr **remainder);
bool affine_equal(const AffineExpr *x, const AffineExpr *y);
bool affine_has_floor_divs(const AffineExpr *q);
/* Returns NULL for NULL. */
AffineExpr *affine_copy(Arena *arena, const AffineExpr *from);
/* Bounds of q over all iterations.  Returns false if they are unknown or
 * overflow. */
bool affine_bounds(const LoopNest *loop, const AffineExpr *q, int64_t *low,
                   int64_t *high);

/* Finds the ratio of two coefficients of a coordinate: constants, or symbolic
 * sizes of which one is a small multiple of the other.  Returns false if there
 * is none. */
bool affine_coef_ratio(Graph *g, int64_t x, int64_t y, int64_t *x_ratio,
                       int64_t *y_ratio);
bool affine_has_coef_ratio(Graph *g, int64_t x, int64_t y, int64_t x_ratio,
                           int64_t y_ratio);

/* ---- loop_nest.c ---- */

/* True if two ops compute the same function of their arguments.  Their loops
 * must have the same axes and floor divisions.  Local loads are equivalent if
 * they read the same output. */
bool kernel_op_equivalent(const KernelOp *x, const KernelOp *y);
/* A loop over the same axes, without ops and outputs. */
LoopNest *loop_clone_empty(Arena *arena, const LoopNest *loop);
/* A copy with its own ops, outputs and expressions. */
LoopNest *loop_clone(Arena *arena, const LoopNest *from);
/* A copy whose axes can be reordered (kernel_copy.c). */
Kernel *kernel_copy(const Kernel *from);
/* True if it contains symbolic sizes. */
bool loop_is_symbolic(const LoopNest *loop);
bool kernel_is_symbolic(const Kernel *k);
/* True if an input has no elements.  Compiled code replaces an invalid index by
 * 0, so that a kernel that checks indices must not run then: element 0 does not
 * exist. */
bool kernel_has_empty_input(const Kernel *k);
/* Product of the hints of axes from .. to - 1. */
double loop_iterations_hint(const LoopNest *loop, uint32_t from, uint32_t to);
int64_t loop_extent_hint(const LoopNest *loop, uint32_t v);
/* True if an output is a state. */
bool loop_has_states(const LoopNest *loop);
/* The product of the hints of `count` axes. */
double loop_axes_hint(const LoopNest *loop, uint32_t count,
                      const uint32_t *axes);
/* Bytes of local values of one iteration.  include_scalars: includes outputs of
 * one element. */
double kernel_local_bytes(const Kernel *k, bool include_scalars);
/* Number of ops that run: for each loop, its ops times its iterations. */
double kernel_operation_count(const Kernel *k);

/* ---- lower.c ---- */

/* For each axis of a node: the extents of its inner parts, ascending. */
typedef struct AxisSplits {
  int64_t inner_extents[MAX_RANK][8];
  uint32_t split_count[MAX_RANK];
} AxisSplits;
/* Adds a split of an axis. */
void axis_splits_add(const Graph *g, AxisSplits *splits, uint32_t axis,
                     int64_t divisor);

typedef struct LoweredNode {
  LoopNest *loop; /* without parallel axes */
  /* The variables of result axis k of the node are first_var[k] ..
   * first_var[k] + var_count[k] - 1. */
  uint32_t first_var[MAX_RANK], var_count[MAX_RANK];
} LoweredNode;
/* Returns NULL if the body has too many axes or floor divisions.  The reference
 * backend then runs it.  `splits` has the splits of other nodes; the body adds
 * its own. */
LoweredNode *lower_node(Arena *arena, Graph *g, Node *n, AxisSplits *splits);

/* ---- match_contraction.c ---- */

enum { MAX_FACTORS = 8 };

/* A sum of products.  Hoisted factors do not depend on the reduced axes: they
 * multiply or divide the sum.  A loop that accumulates has none: all factors
 * are applied to the operands. */
typedef struct ContractionPattern {
  const uint64_t *op_vars; /* for each op: the set of variables it depends on */
  uint32_t factors[MAX_FACTORS], factor_count;
  bool factor_divides[MAX_FACTORS]; /* factors[k] divides */
  uint32_t hoisted[MAX_FACTORS], hoisted_count;
  bool hoisted_divides[MAX_FACTORS]; /* hoisted[k] divides */
} ContractionPattern;
/* Matches a contraction: a sum of products with two operands.  One operand
 * lacks a result axis that the other one has, and vice versa.  It must be large
 * enough for packing to pay. */
bool contraction_match(Arena *arena, const LoopNest *loop,
                       ContractionPattern *p);
/* The axis of the terms of a sum with one such axis: the last accumulated axis,
 * or the first reduced axis. */
static inline uint32_t loop_term_axis(const LoopNest *loop) {
  return loop->accumulated_axes ? loop->parallel_axes - 1 : loop->spatial_axes;
}
/* The same for all sizes. */
bool contraction_match_any_size(Arena *arena, const LoopNest *loop,
                                ContractionPattern *p);
bool loop_is_contraction(const LoopNest *loop);
/* True if all factors of the contraction are bf16 values. */
bool contraction_is_bf16(const LoopNest *loop);
/* The operands of a contraction for result axis n: the set of spatial axes on
 * which only other factors depend than those that depend on n, *n_factors. */
uint64_t contraction_row_axes(const LoopNest *loop, const ContractionPattern *p,
                              uint32_t n, uint32_t *n_factors);
/* The first of the largest axes in a set.  UINT32_MAX: the set is empty. */
uint32_t loop_largest_axis(const LoopNest *loop, uint64_t axes);
/* *m is the largest of these axes.  Returns false if there is none. */
bool contraction_operand_sides(const LoopNest *loop,
                               const ContractionPattern *p, uint32_t n,
                               uint32_t *m, uint32_t *n_factors);
/* For each op: the set of variables on which it depends. */
uint64_t *loop_op_vars(Arena *arena, const LoopNest *loop);
/* The affine part of an index: the op itself, or an operand of a sum.  *rest is
 * the other operand, or NO_OP.  NULL: there is no affine part. */
const KernelOp *loop_index_affine(const LoopNest *loop, uint32_t index_op,
                                  uint32_t *rest);
/* True if a load has stride 1 along axis v, and v occurs in no floor division
 * or checked index of its address. */
bool loop_load_is_contiguous(const LoopNest *loop, const uint64_t *op_vars,
                             const KernelOp *s, uint32_t v);
/* Copies op `at` and its arguments to another loop over the same axes.  op_map:
 * for each op of `from`, 1 + its copy, or 0. */
uint32_t loop_clone_op(Arena *arena, const LoopNest *from, LoopNest *to,
                       uint32_t *op_map, uint32_t at);
/* A loop over the same axes that computes the product, of type t, of the
 * factors in factor_set. */
LoopNest *contraction_operand_loop(Arena *arena, const LoopNest *loop,
                                   const ContractionPattern *p,
                                   uint32_t factor_set, Dtype t);
/* Stands for the preceding loop in the result of contraction_hoist_factors. */
enum { PREVIOUS_LOOP = INT32_MAX };
/* Moves the hoisted factors of a contraction to a new loop that follows it.
 * Unless single_loop, also those of other sums of products with divisors.
 * Returns the new loop, or NULL if there are no such factors. */
LoopNest *contraction_hoist_factors(Arena *arena, LoopNest *loop,
                                    bool single_loop);

/* ---- byte_dot.c ---- */

/* Replaces sums of products of unsigned and signed bytes, of which four
 * neighbouring ones are terms, by sums of dot products. */
void kernel_pack_bytes(Kernel *k);

/* ---- match_attention.c ---- */

/* A contraction whose result is a row of scores. */
typedef struct ScoreProduct {
  uint32_t loop;
  ContractionPattern pattern;
  uint32_t column_factors; /* factors that depend on the row axis */
} ScoreProduct;

enum { MAX_SCORE_PRODUCTS = 2 };

typedef struct AttentionPattern {
  /* The first one is loop 0.  The gradient of attention has two: the scores,
   * and the derivatives of the weights. */
  ScoreProduct products[MAX_SCORE_PRODUCTS];
  uint32_t product_count;
  uint32_t pv_loop; /* the loop of the contraction that reads the weights */
  ContractionPattern pv;
  uint32_t pv_column_factors; /* factors of pv that depend on its columns */
  /* The ops between the contractions, over the parallel axes and the row axis.
   * Its local loads are scores and row statistics (maximum and sum). */
  LoopNest *row_loop;
  uint32_t unnormalized_weight; /* op: the weight without its row factors */
  /* Op: x if the unnormalized weight is exp (x - row maximum of x); otherwise
   * the unnormalized weight. */
  uint32_t score;
  bool subtract_max;  /* the unnormalized weight is exp (score - maximum) */
  bool needs_row_sum; /* the row sum of unnormalized weights is used */
  /* Factors of a weight that are constant along the row. */
  uint32_t row_factors[MAX_FACTORS], row_factor_count;
  bool row_factor_divides[MAX_FACTORS]; /* row_factors[k] divides */
  Dtype weight_dtype; /* of a weight before its conversion for pv */
} AttentionPattern;
/* Returns false if the kernel is not attention. */
bool kernel_match_attention(const Kernel *k, AttentionPattern *out);

/* ---- trim_no_ops.c ---- */

typedef enum TrimMode {
  TRIM_ROWS, /* each iteration of the parallel axes has its own bounds */
  /* Contractions run as tiles, whose columns are the last spatial axis. */
  TRIM_TILES,
  /* A range of the last parallel axis has common bounds.  Only those with loads
   * trim loops. */
  TRIM_COLUMNS
} TrimMode;
/* Finds bounds that trim loops. */
void kernel_trim(Kernel *k, TrimMode mode);

/* True if a bound contains a load, so that the loop may have no iteration.
 * Other trimmed loops run at least one. */
bool loop_may_be_empty(const Kernel *k, const LoopNest *loop);

/* True if the output has one value per index of the axis. */
bool loop_output_has_axis(const LoopNest *loop, const LoopOutput *r,
                          uint32_t axis);
/* Splits the last axis; the divisor becomes the inner extent.  Both must be
 * static, the divisor must divide the extent, and the loop must have fewer than
 * MAX_KERNEL_AXES axes. */
void loop_split_last_axis(Arena *arena, LoopNest *loop, int64_t divisor);
/* Undoes loop_split_last_axis. */
void loop_collapse_last_axes(Arena *arena, LoopNest *loop);
/* The axis of the reader that indexes axis `axis` of an output which it loads
 * at `address`.  Returns UINT32_MAX if no single axis does. */
uint32_t loop_matching_axis(const LoopNest *reader, const AffineExpr *address,
                            const LoopNest *loop, const LoopOutput *r,
                            uint32_t axis);

/* ---- online_reduction.c ---- */

/* True if loops, from a contraction on, can be strip-mined along its last
 * spatial axis.  Sets *length to the extent of the axis, unless `length` is
 * NULL. */
bool kernel_can_strip_mine(const Kernel *k, int64_t *length);
/* Strip-mines these loops.  Returns false if they cannot be. */
bool kernel_strip_mine(Kernel *k);

/* ---- stage_strided.c ---- */

/* True if a load is strided along the vector axis but contiguous along an inner
 * axis, so that staging pays.  *elements: elements that one iteration of the
 * parallel axes loads. */
bool loop_load_is_strided(const LoopNest *loop, const KernelOp *s,
                          uint32_t vector_axis, double *elements);
/* The same for an output that is stored. */
bool loop_store_is_strided(const LoopNest *loop, const LoopOutput *r,
                           uint32_t vector_axis);
/* Adds loops that copy the data of such loads to local values, and such outputs
 * from local values to memory.  Then accesses along the vector axis are
 * contiguous. */
void kernel_stage_strided(Kernel *k, uint32_t vector_axis);

/* ---- fuse_loops.c ---- */

typedef struct FusedNode {
  LoweredNode *lowered;
  Node *node;
  bool live_out; /* read outside of the fusion group */
  /* For each parallel axis: its variable. */
  uint32_t parallel_vars[MAX_KERNEL_AXES];
} FusedNode;

/* The row-major layout of a loop's local values over its inner spatial axes.
 * *size: elements of one iteration of the parallel axes. */
AffineExpr *loop_local_layout(Arena *arena, const LoopNest *loop,
                              int64_t *size);
/* Returns NULL if a load cannot be delinearized. */
Kernel *kernel_fuse_loops(Arena *arena, uint32_t count, FusedNode *nodes,
                          uint32_t parallel_axes);
/* Makes the only output of the loop local, in the type in which it is computed.
 * A new loop after it stores the output. */
void kernel_split_store_loop(Kernel *k, uint32_t loop);
/* Makes parallel axis v the last parallel axis. */
void kernel_move_axis_last(Kernel *k, uint32_t v);
/* Makes the parallel axes from number `count` on inner axes, which are loops in
 * a task. */
void kernel_make_axes_inner(Kernel *k, uint32_t count);
/* Expresses the variables of an axis of x in the reader's variables: parts[k]
 * is the value of part k if the index is `at`.  Returns false if the index
 * cannot be delinearized. */
bool lowered_node_delinearize(Arena *arena, const LoweredNode *x, uint32_t axis,
                              const AffineExpr *at, const LoopNest *reader,
                              AffineExpr **parts);

/* ---- print.c ---- */

/* Prints a kernel, for axon dump and tests. */
void kernel_print(Buffer *out, const Kernel *k);
/* Print one operation, and one output.  names: Kernel.axis_names. */
void kernel_print_op(Buffer *out, const LoopNest *loop, uint32_t at,
                     const uint8_t *names);
void kernel_print_output(Buffer *out, const LoopOutput *r,
                         const uint8_t *names);
void kernel_print_affine(Buffer *out, const AffineExpr *q,
                         const uint8_t *names);

/* ---- kernel_facts.c ---- */

/* Prints what is known of the loop nests of a kernel before a schedule is
 * chosen: products, reductions, accesses, bounds, and what can be strip-mined.
 */
void kernel_print_facts(Buffer *out, const Kernel *k);

#endif
