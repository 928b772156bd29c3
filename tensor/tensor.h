/* tensor: the graph of deferred tensors.
 *
 * Almost every node is an indexed comprehension:
 *
 *     T[f0 < F0, ..., i0 < d0, ...] = reduce(op)[r0 < e0, ...] body
 *
 * Its body is a scalar expression over constants, axes, and reads U[index
 * expressions] of other nodes.
 *
 * The first `free_count` axes are free axes: indices of `for` (or map) on which
 * the node depends.  Example: inside `for i j => ...`, a value of rank r that
 * depends on i is a node with free = {i} and r own axes.  If it is stored, it
 * has one more leading axis.  A value that does not depend on i is computed
 * once.  At the end of the `for`, free axes become own axes.  Fusion
 * substitutes one body into another.  (Comprehensions: Axon, arXiv:2210.02374.
 * Index sets of bodies: as in Halide and the polyhedral literature.)
 *
 * Ownership: nodes are reference-counted; a graph belongs to one thread.  A
 * function that returns a Node gives the caller a reference.  A function with a
 * Node parameter borrows it.  If construction fails, because shapes do not
 * match and the type checker left the check open, it returns NULL and sets
 * *fault. */
#ifndef AXON_TENSOR_H
#define AXON_TENSOR_H

#include "primitives/primitives.h"
#include "runtime/lapack.h"
#include "runtime/runtime.h"
#include "support/flag.h"
#include "support/span.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Node Node;
typedef struct Tape Tape;               /* gradient_tape.c */
typedef struct VjpRule VjpRule;         /* gradient_tape.c */
typedef struct ExtentTable ExtentTable; /* extent.h */

/* An index of a `for` or `map` in a symbolic run. */
typedef struct IndexVar {
  uint32_t id;    /* unique; ascends with the nesting depth */
  int64_t extent; /* 0 <= index < extent */
  /* Of a ragged axis (ragged.c): the row length, an i64 scalar that depends on
   * outer indices; index < row_length <= extent.  Counted; or NULL. */
  Node *row_length;
  uint32_t refs;
} IndexVar;
/* row_length: retained; NULL: none. */
IndexVar *index_var_new(int64_t extent, Node *row_length);
IndexVar *index_var_retain(IndexVar *v);
void index_var_release(IndexVar *v);

/* ---- bodies: scalar expressions in an array that the node owns ---- */

typedef enum BodyOpKind {
  BODY_CONST,  /* uses value */
  BODY_EXTENT, /* uses extent: a symbolic size (extent.h), as an i64 */
  /* Uses axis: position among free, own, then reduced axes; an i64. */
  BODY_AXIS,
  BODY_READ, /* node[args...]: one i64 index per free and own axis */
  BODY_OP,   /* op over args: a PC_MAP primitive; dtype is that of the result */
  BODY_SELECT,  /* args[0] ? args[1] : args[2]; only the selected one runs */
  BODY_CONVERT, /* converts args[0] to dtype */
  BODY_RANDOM,  /* op is UNIFORM or NORMAL; uses key; args[0] is the number of
                   the element */
} BodyOpKind;

/* One operation of a body; args are earlier operations. */
typedef struct BodyOp {
  BodyOpKind kind;
  Dtype dtype;
  PrimId op;
  uint32_t arg_count;
  uint32_t *args; /* indices of ops; owned by the node */
  Span span;      /* source of the operation, for faults */
  /* The index or divisor is valid whenever the value is used. */
  bool proved_safe;
  union {
    Scalar value;   /* BODY_CONST */
    int64_t extent; /* BODY_EXTENT */
    uint32_t axis;  /* BODY_AXIS */
    Node *node;     /* BODY_READ; counted reference */
    PrngKey key;    /* BODY_RANDOM */
  };
} BodyOp;

typedef enum NodeKind {
  NODE_DATA, /* has data */
  NODE_ARG,  /* argument of a function that is compiled ahead of time; uses
                arg_index */
  NODE_COMP, /* a comprehension */
  NODE_LOOP_CARRIED, /* carry of a loop at the start of an iteration, or the
                        iteration number */
  NODE_LOOP,   /* output of a loop; uses loop_body, inputs, output_index */
  NODE_OPAQUE, /* op over inputs: sort, scatter, cumsum and so on (opaque.c) */
} NodeKind;

/* A loop whose trip count is known only to the compiled function.  It is one
 * iteration, as nodes that read the iteration number and the carry.  Holds
 * counted references. */
typedef struct LoopBody {
  uint32_t refs;
  int64_t trip_count; /* valid if `condition` is NULL */
  /* bool: run another iteration with this carry?  May be NULL. */
  Node *condition;
  Node *iteration; /* NODE_LOOP_CARRIED: the iteration number, from 0; i64 */
  uint32_t carry_count, stacked_count;
  /* NODE_LOOP_CARRIED: the carry at the start of an iteration.  Its initial
   * values are the inputs of the NODE_LOOP nodes. */
  Node **carry_in;
  /* carry_count next values of the carry; then stacked_count values that each
   * iteration leaves. */
  Node **results;
  /* For a plan: nodes outside the loop that iterations read; borrowed. */
  uint32_t capture_count;
  Node **captures;
} LoopBody;

/* What the planner reads of every node comes first, in two cache lines. */
struct Node {
  NodeKind kind;
  uint32_t refs;
  uint32_t id; /* ascends in order of creation */
  /* A reverse pass made it: id of the first node of the differentiated call.
   * 0: no reverse pass made it. */
  uint32_t reverse_of;
  Dtype dtype;
  uint32_t free_count, rank; /* rank: number of own axes, without free ones */
  uint32_t broadcast_mask;   /* bit k: own axis k is a broadcast axis (*) */
  int64_t *extents;          /* free_count + rank + reduce_count extents */
  IndexVar **free_vars;      /* with ascending ids */
  /* shape: free extents, then own extents; set after the node ran. */
  Tensor *data;

  /* NODE_COMP */
  BodyOp *body_ops; /* the last op is the value of the body */
  uint32_t body_op_count;
  PrimId reduce; /* a primitive of class REDUCE, or PRIM_NONE */
  uint32_t reduce_count;
  /* A bool scalar over a subset of the free indices, or NULL.  The node is read
   * only where the guard is true.  Elsewhere it does not run, and holds zeros.
   * A node that can fail has a guard even if it shares no index with
   * g->guard. */
  Node *guard;
  uint32_t input_count; /* NODE_OPAQUE */
  uint32_t mark;        /* used by the planner: its number in the plan, or 0 */
  /* Its elements are in memory when the current plan runs, but not in `data`:
   * it belongs to a compiled function, or its data change in each iteration. */
  bool materialized;
  bool symbolic;     /* depends on arguments or symbolic sizes */
  bool speculatable; /* running it cannot fail, for any values of its free
                        indices */
  bool inlined;      /* a kernel computed it for its consumers only */
  bool is_forced;    /* in a traced loop: each iteration stores it */

  /* For each own axis: its row length if it is ragged (ragged.c), or NULL.
   * NULL: no axis is ragged.  Counted references. */
  Node **row_lengths;
  Span span; /* source of the node */

  uint32_t arg_index; /* NODE_ARG: number of the argument */
  /* NODE_ARG: distance of elements along each axis, in elements; borrowed;
   * NULL: contiguous. */
  const int64_t *strides;

  /* NODE_OPAQUE */
  PrimId op;
  Node **inputs;
  int64_t params[4]; /* axis, k and so on; see opaque.c */
  PrngKey key;
  uint32_t output_index; /* which of several outputs.  NODE_LOOP: final values
                            of the carry first, then stacked outputs */
  LoopBody *loop_body;   /* NODE_LOOP */
  /* Depth of the loop whose carry it needs; 0: none. */
  uint32_t loop_depth;
  /* The outermost recording tape on whose leaves it depends; counted; or
   * NULL. */
  Tape *tape;
  /* Derivatives of the node follow this rule instead of its operands; counted;
   * or NULL.  `output_index` is its number among the outputs of the rule. */
  VjpRule *rule;
  /* Its own body, while the planner has replaced it and the tape still needs
   * it; NULL: the body above. */
  struct OwnBody *own_body;

  void *backend_data; /* used by the backend during a run */
  /* Memory in which a backend may store the result; borrowed; or NULL. */
  Tensor *place;
};

/* How the planner decides between materializing and inlining a node. */
typedef enum FuseMode {
  FUSE_COST, /* by estimated cost */
  FUSE_NONE, /* materialize every node; for tests */
  FUSE_ALL,  /* inline every node that may be inlined; for tests */
} FuseMode;

enum { MAX_CACHED_GUARDS = 4 };

typedef struct Graph { /* the deferred work of a session */
  uint32_t next_node_id, next_index;
  /* Elements of nodes that have not run.  Nodes of more than
   * MAX_COUNTED_ELEMENTS do not count, since their consumers may need none of
   * them stored. */
  int64_t pending_elements;
  /* Limit of bytes of one tensor; 0: physical memory. */
  int64_t max_tensor_bytes;
  /* Operations of a plan below which it is not compiled. */
  int64_t jit_threshold;
  Flag *interrupt; /* set by Ctrl-C; polled between rows */
  Span span;       /* source span of new nodes */
  Node *guard;     /* condition under which the current code runs */
  /* Runs the graph; set it before the first run. */
  const struct Backend *backend;
  FuseMode fuse_mode;
  /* Those that the program declares: plan/schedule_file.h; or NULL. */
  struct ScheduleTable *schedules;
  /* See plan/observer.h; NULL: no observer. */
  const struct PlanObserver *observer;
  Arena *plan_arena; /* arena of the running plan; private to plan/execute.c */
  Arena *interpreter_arena; /* private to backend/reference/reference.c */
  /* Private to plan/plan_cache.c. */
  struct PlanCache *plan_cache;
  bool compiles_all;   /* no kernel runs in the interpreter, however little
                          its work is: the results do not depend on the number
                          of earlier runs */
  bool hot;            /* the plans run often, so that even little work is worth
                          compilation */
  bool keeps_inputs;   /* a run may be undone later, or a reverse pass may read
                          the inputs: none may be overwritten */
  uint32_t loop_depth; /* depth of loops that are being traced */
  uint32_t recording_count; /* number of tapes that record */
  uint32_t reverse_of;      /* of new nodes, while a reverse pass runs; or 0 */
  /* Number of derivatives, and of branches on recorded values, so far.  If one
     is in a differentiated function, a gradient of 0 needs no warning. */
  uint32_t zero_reason_count;
  /* Set during AOT tracing; NULL: all extents are numbers. */
  ExtentTable *extent_table;
  /* Number of nodes that ran; for tests and `axon plan`. */
  uint64_t executed_nodes;
  uint64_t plan_cache_hits, plan_cache_misses; /* for tests */
  uint64_t compiled_bodies; /* bodies made bytecode; for tests */
  /* private to guard.c: recent projections of guards */
  struct GuardProjection {
    Node *guard, *projection;
    uint32_t shared_mask;
  } guard_projections[MAX_CACHED_GUARDS];
  uint32_t next_projection;
} Graph;

/* True if its elements exist without a plan that computes them. */
static inline bool node_is_materialized(const Node *n) {
  return n->data || n->materialized || n->kind == NODE_ARG ||
         n->kind == NODE_LOOP_CARRIED;
}

/* Number of elements of a stored node, free axes included.  Saturates. */
int64_t node_element_count(const Node *n);
/* True if every backend computes the same bits for a comprehension: none of
 * its operations on floats is marked PRIM_APPROXIMATE. */
bool node_is_exact(const Node *n);
/* Prints the type of the own axes, such as "f32[3, *, 4]". */
void node_print_type(const Graph *g, Buffer *out, const Node *n);

Node *node_retain(Node *n);
/* iterative, so that long chains do not overflow the C stack. */
void node_release(Node *n);

/* ---- build_compute.c: constructors ---- */

Node *node_data(Graph *g, Tensor *t);
/* An argument of a function that is compiled ahead of time. */
Node *node_arg(Graph *g, uint32_t number, Dtype dtype, uint32_t rank,
               const int64_t *shape, uint32_t broadcast_mask);
Node *node_scalar(Graph *g, Scalar x);
/* A known scalar on the caller's stack, as an operand of node_map. */
typedef struct ConstantOperand {
  Node node;
  BodyOp op;
  int64_t extents[1]; /* it has no axes: nothing reads them */
  IndexVar *free_vars[1];
} ConstantOperand;
Node *constant_operand(ConstantOperand *at, Scalar x);
Node *node_index(Graph *g, IndexVar *v); /* i64 scalar with free = {v} */

/* The element type of the result, if the arguments have the type `of`. */
Dtype prim_result_dtype(PrimId op, Dtype of);

/* A MAP primitive.  The arguments have equal dtypes (SELECT: bool first).  They
 * broadcast as in the language: an absent axis takes any axis, * takes any
 * size, two sizes must be equal.  ADD, SUB, MUL, DIV and MOD of known integer
 * *scalars* are folded.  result: the dtype for CONVERT, otherwise DT_NONE. */
Node *node_map(Graph *g, PrimId op, uint32_t count, Node *const *args,
               Dtype result, Fault *fault);
/* A REDUCE primitive over own axes first .. first + count - 1.  With keepdims,
 * each of them becomes a *. */
Node *node_reduce(Graph *g, PrimId op, Node *x, uint32_t first, uint32_t count,
                  bool keepdims, Fault *fault);
/* ---- ragged.c: axes whose size differs from row to row ---- */

/* In `for i => sum (for k < n.[i] => ...)`, the inner `for` is a node that
 * depends on i.  Its axis is *ragged*: its extent is the largest n.[i], and its
 * row length is n.[i].  Elements beyond the row length are padding; any
 * reduction over the axis masks them. */

/* The row length of own axis k, or NULL; borrowed. */
static inline Node *node_row_length(const Node *n, uint32_t axis) {
  return n->row_lengths ? n->row_lengths[axis] : NULL;
}
/* Makes an own axis of a new node ragged.  Retains the row length; NULL: does
 * nothing.  Releases the node if it raises FAIL_MEMORY. */
void node_set_row_length(Node *n, uint32_t axis, Node *row_length);
/* Replaces the padding along own axes first .. first + count - 1 by a value of
 * the dtype of x. */
Node *node_mask_padding(Graph *g, Node *x, uint32_t first, uint32_t count,
                        Scalar value, Fault *fault);
/* node_reduce for axes that may be ragged. */
Node *node_reduce_ragged(Graph *g, PrimId op, Node *x, uint32_t first,
                         uint32_t count, bool keepdims, Fault *fault);

/* The operator @.  f16 and bf16 are accumulated in f32 and rounded once. */
Node *node_matmul(Graph *g, Node *a, Node *b, Fault *fault);
Node *node_dot(Graph *g, Node *a, Node *b, Fault *fault);
Node *node_outer(Graph *g, Node *a, Node *b, Fault *fault);
/* labels[k] has a small number for each own axis of args[k].  `out` has the
 * labels of the result, in order.  All other labels are summed.  The evaluator
 * has expanded `...`. */
Node *node_einsum(Graph *g, uint32_t count, Node *const *args,
                  const uint8_t *const *labels, uint32_t out_rank,
                  const uint8_t *out, Fault *fault);

/* `shape` may contain one -1, which is solved for. */
Node *node_reshape(Graph *g, Node *x, uint32_t rank, const int64_t *shape,
                   uint32_t broadcast_mask, Fault *fault);
Node *node_permute(Graph *g, Node *x, const uint32_t *order, Fault *fault);
Node *node_broadcast(Graph *g, Node *x, uint32_t rank, const int64_t *shape,
                     uint32_t broadcast_mask, Fault *fault);
Node *node_concat(Graph *g, uint32_t axis, uint32_t count, Node *const *xs,
                  Fault *fault);
Node *node_stack(Graph *g, uint32_t count, Node *const *xs, Fault *fault);
Node *node_pad(Graph *g, Node *x, uint32_t axis, int64_t before, int64_t after,
               Scalar value, Fault *fault);
Node *node_reverse(Graph *g, Node *x, uint32_t axis, Fault *fault);
Node *node_roll(Graph *g, Node *x, uint32_t axis, int64_t by, Fault *fault);
/* repeat_elements: repeats each element, not the whole. */
Node *node_tile(Graph *g, Node *x, uint32_t axis, int64_t repeats,
                bool repeat_elements, Fault *fault);
Node *node_squeeze(Graph *g, Node *x, uint32_t first, uint32_t count,
                   Fault *fault);
Node *node_triangle(Graph *g, Node *x, bool lower, Fault *fault);

/* x.[subscripts]: one subscript per axis.  The evaluator has expanded `...`. */
typedef enum SubscriptKind {
  SUBSCRIPT_INDEX, /* index: a node of integer dtype.  A constant or an affine
                      function of `for` indices is an exact index; the evaluator
                      has resolved negative constants.  Other data are a gather:
                      an index tensor of rank k contributes its k axes */
  SUBSCRIPT_SLICE, /* from start to stop (exclusive); step 0 is 1 */
  SUBSCRIPT_NEW_AXIS,           /* a new axis of extent 1 */
  SUBSCRIPT_NEW_BROADCAST_AXIS, /* a new broadcast axis */
} SubscriptKind;
typedef struct Subscript {
  SubscriptKind kind;
  Node *index;
  int64_t start, stop;
  int64_t step; /* every step-th element; negative: backwards from the last */
  /* SUBSCRIPT_SLICE: a bound is written, so that a * becomes a size. */
  bool sized;
} Subscript;
/* Returns false, with a fault, if the axis is a * but `what` needs a size. */
bool node_axis_sized(const Graph *g, const Node *x, uint32_t axis,
                     const char *what, Fault *fault);
Node *node_subscript(Graph *g, Node *x, uint32_t count,
                     const Subscript *subscripts, Fault *fault);
Node *node_gather(Graph *g, Node *x, Node *index, Fault *fault);
Node *node_one_hot(Graph *g, int64_t k, Node *index, Dtype dtype, Fault *fault);

Node *node_full(Graph *g, Scalar x, uint32_t rank, const int64_t *shape,
                uint32_t broadcast_mask, Fault *fault);
Node *node_iota(Graph *g, Dtype dtype, int64_t n, Fault *fault);
Node *node_eye(Graph *g, Dtype dtype, int64_t n, Fault *fault);
Node *node_random(Graph *g, PrimId op, PrngKey key, Dtype dtype, uint32_t rank,
                  const int64_t *shape, uint32_t broadcast_mask, Fault *fault);

/* The end of a `for`: turns the free axes `vars` into leading own axes, in this
 * order.  If x does not depend on one of them, x is repeated. */
Node *node_close(Graph *g, Node *x, uint32_t count, IndexVar *const *vars,
                 Fault *fault);
/* if c then a else b, on scalars that are not known yet.  Only the selected
 * side runs (BODY_SELECT). */
Node *node_select_lazy(Graph *g, Node *c, Node *a, Node *b, Fault *fault);

/* SORT, ARGSORT, CUMSUM (axis), SCATTER (x, index, y), PERMUTATION (n), TOPK
 * (k; output 0 is the values, 1 the indices).  Extents are static.  With free
 * indices, each slice is processed separately. */
/* The operation of LAPACK that an opaque node runs; LAPACK_NONE: another. */
LapackOp node_lapack_op(PrimId op, const int64_t params[4]);
Node *node_opaque(Graph *g, PrimId op, uint32_t count, Node *const *inputs,
                  const int64_t params[4], PrngKey key, uint32_t output_index,
                  Fault *fault);

/* DFT, REAL_DFT and INVERSE_REAL_DFT of f32 or f64 (fourier.c).  The inputs may
 * have different free indices. */
Node *node_fourier(Graph *g, PrimId op, uint32_t count, Node *const *inputs,
                   const int64_t params[4], Fault *fault);

/* ---- loop_node.c: loops of compiled functions ---- */

/* The carry of a loop at g->loop_depth, inside loops over these indices.  The
 * initial value may depend on fewer of them. */
Node *node_loop_carried(Graph *g, const Node *like, uint32_t free_count,
                        IndexVar *const *free_vars);
/* results: carry_count next values of the carry, with its shapes; then
 * stacked_count outputs.  condition may be NULL. */
LoopBody *loop_body_new(int64_t count, Node *condition, Node *iteration,
                        uint32_t carry_count, Node *const *carry_in,
                        uint32_t stacked_count, Node *const *results);
void loop_body_release(LoopBody *loop);
/* Borrows the loop body and the initial carry. */
Node *node_loop(Graph *g, LoopBody *loop, Node *const *initial,
                uint32_t output_index, Fault *fault);

/* ---- recurrence.c: loops whose body is a formula ---- */

/* One iteration of a fold or a scan, as nodes. */
typedef struct FoldIteration {
  IndexVar *index; /* the iteration number */
  uint32_t carry_count, stacked_count;
  Node *const *initial; /* initial values of the carry */
  /* NODE_LOOP_CARRIED: the carry at the start of an iteration. */
  Node *const *carry_in;
  /* Next values of the carry; then the stacked outputs. */
  Node *const *results;
  /* bool: run another iteration?  NULL: the extent of `index` is the trip
   * count. */
  Node *condition;
  bool associative; /* the function is associative */
  /* Terms that iterations add to a value of the carry may be added in another
   * order. */
  bool reorders_sums;
} FoldIteration;
/* Builds output `output_index`: a final value of the carry, or a stacked output
 * with a leading axis.  Returns NULL, perhaps without a fault, if the iteration
 * is no elementwise formula of the carry and of values that exist before the
 * loop. */
Node *node_fold(Graph *g, const FoldIteration *iteration, uint32_t output_index,
                Fault *fault);

/* ---- gradient_tape.c, adjoint.c: derivatives ---- */

/* The record of one differentiated call.  The graph itself is the tape: a node
 * that depends on a leaf keeps its operands, even after it ran, until the tape
 * is closed.  While a tape records, such a node counts as unknown, so that no
 * constant folding cuts it from the leaf.  Recordings are nested.  Counted by
 * its nodes. */
struct Tape {
  Graph *graph;
  uint32_t refs;
  uint32_t id;                /* ascends in order of creation */
  uint32_t first_node;        /* nodes of the call have at least this id; > 0 */
  uint32_t zero_reason_count; /* of the graph, when this tape began */
  bool recording;             /* the differentiated function runs */
  /* the gradient may be 0 by intent: see zero_reason_count */
  bool may_be_zero;
  bool open;      /* its operands are still needed */
  Node **settled; /* nodes that ran and kept their operands; counted */
  uint32_t settled_count, settled_capacity;
  /* The indices of the comprehensions in whose body the call is; counted.  Each
   * of their iterations has its own leaves. */
  IndexVar **enclosing;
  uint32_t enclosing_count;
};
Tape *tape_new(Graph *g); /* recording and open */
void tape_set_enclosing(Tape *tape, uint32_t count, IndexVar *const *indices);
void tape_stop_recording(Tape *tape);
/* Its nodes that ran release their operands.  Takes the reference of
 * tape_new. */
void tape_close(Tape *tape);
Tape *tape_retain(Tape *tape);
void tape_release(Tape *tape); /* the reference of a node; may be NULL */

/* A leaf of the tape, equal to x. */
Node *node_leaf(Graph *g, Node *x, Tape *tape);
/* Equal to x, and constant for every tape. */
Node *node_stop_gradient(Graph *g, Node *x);
/* True if n depends on a leaf of a tape that records. */
static inline bool node_is_recorded(const Node *n) {
  return n->tape && n->tape->recording;
}

/* The derivative of a function call, as the evaluator defines it: the reverse
 * pass does not look at the nodes between the inputs and the outputs.  The ids
 * of the outputs follow each other. */
struct VjpRule {
  uint32_t refs;
  uint32_t input_count, output_count;
  Node **inputs; /* counted */
  /* The outputs get these free indices.  A contribution to an input that does
   * not have them is summed over them.  Counted. */
  uint32_t index_count;
  IndexVar *indices[MAX_RANK];
  void (*release)(VjpRule *rule); /* frees it, but not what is named above */
};
/* Equal to y, with the rule.  Each recorded input passes its tape on. */
Node *node_with_rule(Graph *g, Node *y, VjpRule *rule, uint32_t output_index);
void vjp_rule_release(VjpRule *rule);

/* A vector-Jacobian product, for the leaves of a tape.  cotangents[k] belongs
 * to outputs[k] and has its shape.  NULL: zero.  Nodes without floats have no
 * cotangents.  The pass borrows the tape, the outputs and the leaves. */
typedef struct ReversePass ReversePass;
ReversePass *reverse_pass_new(Graph *g, const Tape *tape, uint32_t output_count,
                              Node *const *outputs, Node *const *cotangents,
                              uint32_t leaf_count, Node *const *leaves);
typedef enum ReverseStatus {
  REVERSE_DONE,
  /* The caller computes what a rule contributes, and calls
   * reverse_pass_contribute. */
  REVERSE_AT_RULE,
  REVERSE_FAILED, /* with a fault */
} ReverseStatus;
/* Runs the pass up to the next rule.  *rule is borrowed.  *cotangents has one
 * borrowed node, or NULL, per output of the rule. */
ReverseStatus reverse_pass_run(ReversePass *p, VjpRule **rule,
                               Node *const **cotangents, Fault *fault);
/* contributions: one node, or NULL, per input of the rule. */
bool reverse_pass_contribute(ReversePass *p, Node *const *contributions,
                             Fault *fault);
/* The cotangent of a leaf, with its type; borrowed.  NULL: zero. */
Node *reverse_pass_cotangent(const ReversePass *p, uint32_t leaf);
void reverse_pass_free(ReversePass *p);

/* ---- inspection ---- */

/* True if the value is known without a run: a constant, or folded. */
bool node_known(const Node *n, Scalar *out);

/* Prints the graph, one line per node, for axon dump and tests. */
void graph_print(const Graph *g, Buffer *out, uint32_t count,
                 Node *const *roots);
/* Numbers the nodes in the order in which they are printed. */
void graph_renumber(uint32_t count, Node *const *roots);
/* Checks all invariants above.  Returns false and a message if one is violated.
 * Tests run it after every pass (AXON_VERIFY=1). */
bool graph_verify(uint32_t count, Node *const *roots, Buffer *message);

#endif
