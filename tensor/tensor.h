/* tensor: the graph of deferred tensors.
 *
 * One kind of node carries nearly everything, an indexed comprehension
 *
 *     T[f0 < F0, ..., i0 < d0, ...] = reduce(op)[r0 < e0, ...] body
 *
 * whose body is a scalar expression over constants, the axes, and reads
 * U[index expressions] of other nodes.  The first `free_count` axes are those
 * of the `for` (or map) indices that the node mentions: inside the body of
 * `for i j => ...` a value of rank r that mentions i is a node with free = {i}
 * and r axes of its own; storing it stores one more leading axis; a value
 * that does not mention i is computed once.  Closing the `for` turns free axes
 * into own ones.  Fusion is substitution of one body into another.
 * (What a comprehension is: Axon, arXiv:2210.02374; index sets of bodies as in
 * Halide and the polyhedral literature.)
 *
 * Ownership: nodes are reference counted, single-threaded per graph; a
 * function that returns a Node gives the caller a reference, one that takes a
 * Node borrows it.  Errors of building (shapes that do not fit: checks that
 * were left open by the type checker) return NULL with *fault filled in. */
#ifndef AXON_TENSOR_H
#define AXON_TENSOR_H

#include "primitives/primitives.h"
#include "runtime/runtime.h"
#include "support/support.h"

typedef struct Node Node;
typedef struct ExtentTable ExtentTable; /* extent.h */

/* An index of a `for` or `map` that is being run symbolically. */
typedef struct IndexVar {
  uint32_t id;    /* unique, ascending in order of nesting */
  int64_t extent; /* 0 <= index < extent */
  uint32_t refs;
} IndexVar;
IndexVar *index_var_new(int64_t extent);
IndexVar *index_var_retain(IndexVar *v);
void index_var_release(IndexVar *v);

/* ---- bodies: scalar expressions in a node's own arena-free array ---- */

typedef enum BodyOpKind {
  BODY_CONST,   /* value */
  BODY_EXTENT,  /* size: one that is no number yet (extent.h), as an i64 */
  BODY_AXIS,    /* axis: position among free, own, then reduced axes (i64) */
  BODY_READ,    /* node[args...]: one i64 index per free and own axis */
  BODY_OP,      /* op over args; a PC_MAP primitive; result dtype in dtype */
  BODY_SELECT,  /* args[0] ? args[1] : args[2]; only the chosen one is run */
  BODY_CONVERT, /* args[0] to dtype */
  BODY_RANDOM,  /* op UNIFORM or NORMAL, key, args[0] the element's number */
} BodyOpKind;

typedef struct BodyOp { /* one operation of a body; args point to earlier cells
                         */
  BodyOpKind kind;
  Dtype dtype;
  PrimId op;
  uint32_t arg_count;
  uint32_t *args; /* indices of cells; owned by the node */
  Span span;      /* what in the program made it: faults point here */
  bool
      proved_safe; /* where its value is looked at, index or divisor is right */
  union {
    Scalar value;   /* BODY_CONST */
    int64_t extent; /* BODY_EXTENT */
    uint32_t axis;  /* BODY_AXIS */
    Node *node;     /* BODY_READ; a counted reference */
    PrngKey key;    /* BODY_RANDOM */
  };
} BodyOp;

typedef enum NodeKind {
  NODE_DATA,         /* data: already there */
  NODE_ARG,          /* an argument of a function that is being compiled: arg */
  NODE_COMP,         /* a comprehension */
  NODE_LOOP_CARRIED, /* what a turn of a loop begins with, or its number */
  NODE_LOOP,         /* what a loop comes to: loop over inputs; see output */
  NODE_OPAQUE, /* op over inputs: sort, scatter, cumsum, ...; see opaque */
} NodeKind;

/* A loop that turns as often as only the compiled function knows: one turn, as
 * nodes that read turn and states.  Counted references. */
typedef struct LoopBody {
  uint32_t refs;
  int64_t trip_count; /* of turns; where there is no `more` */
  Node *condition;    /* bool: another turn, from these states?  or NULL */
  Node *iteration; /* NODE_LOOP_CARRIED: the number of the turn, from 0; i64 */
  uint32_t carry_count, stacked_count;
  Node **carry_in; /* NODE_LOOP_CARRIED: what the turn begins with; at first the
                      inputs of the NODE_LOOPs */
  Node **results;  /* carry_count: what it ends with; stacked_count: of those
                      each  turn's stays */
  uint32_t capture_count; /* of a plan: what is outside and the turns read; */
  Node **captures;        /* borrowed */
} LoopBody;

struct Node {
  NodeKind kind;
  uint32_t refs;
  uint32_t id; /* in order of making */
  Dtype dtype;
  uint32_t free_count, rank; /* rank: own axes, without the free ones */
  uint32_t broadcast_mask;   /* bit k: own axis k is a stretching one */
  int64_t *extents;          /* free_count + rank + reduce_count of them */
  IndexVar **free_vars;      /* ascending ids */
  Span span;                 /* what in the program made it */
  Tensor *data; /* shape: free extents, then own; set once it was run */

  uint32_t arg_index;     /* NODE_ARG: its number, */
  const int64_t *strides; /* and how far apart elements lie along each axis;
                             borrowed; NULL: they lie side by side */

  /* NODE_COMP */
  PrimId reduce; /* of class REDUCE, or PRIM_NONE */
  uint32_t reduce_count;
  BodyOp *body_ops; /* the last one is the body's value */
  uint32_t body_op_count;
  Node *guard; /* a bool scalar over a subset of the free indices: the node is
                  only ever read where it is true, and not run elsewhere
                  (there it holds zeros); or NULL.  A node that can fail has
                  one even where it shares no index with g->guard */

  /* NODE_OPAQUE */
  PrimId op;
  uint32_t input_count;
  Node **inputs;
  int64_t params[4]; /* axis, k, ... as the op says in opaque.c */
  PrngKey key;
  uint32_t output_index; /* which of several outputs (topk); NODE_LOOP: of the
                            states after the last turn, then of what the turns
                            have made, along a leading axis */
  LoopBody *loop_body;   /* NODE_LOOP */
  uint32_t
      loop_depth; /* how deep in loops is the state that it needs; 0: none */

  bool
      materialized; /* its elements are in memory when what is planned now runs:
                       of a function that is compiled, or others in each turn */
  bool symbolic;    /* it needs arguments, or sizes that are no numbers yet */
  bool speculatable;  /* running it cannot fail, wherever its free indices stand
                       */
  bool inlined;       /* a kernel has computed it for its readers alone */
  void *backend_data; /* the backend's own notes during a run */
  uint32_t mark;      /* graph_force's own: number in its plan, or 0 */
};

/* How graph_force decides between storing a node and inlining it. */
typedef enum FuseMode {
  FUSE_COST, /* by what is cheaper */
  FUSE_NONE, /* store every node: for tests */
  FUSE_ALL,  /* inline whatever may be inlined: for tests */
} FuseMode;

enum { MAX_CACHED_GUARDS = 4 };
/* elements: then it is time to run.  Most of them are never stored, and the
 * more is known, the more can be fused: the scores of attention, with all that
 * is done with them, are to fit. */
#define MAX_PENDING_ELEMENTS ((int64_t)1 << 37)
#define MAX_COUNTED_ELEMENTS \
  ((int64_t)1 << 34) /* of a node that does not count */

typedef struct Graph { /* what a session's deferred work hangs on */
  uint32_t next_node_id, next_index;
  int64_t pending_elements; /* elements of nodes made and not yet run, but for
                               those that are larger than MAX_COUNTED_ELEMENTS:
                               what reads them may need none of them stored */
  int64_t max_tensor_bytes; /* refuse to store more than this; 0: physical */
  int64_t
      jit_threshold; /* operations below which no kernel is made for a plan */
  Flag *interrupt;   /* set by Ctrl-C; polled between rows */
  Span span;         /* given to nodes made from now on */
  Node *guard;       /* the condition under which code now runs */
  const struct Backend *backend; /* runs it; set before anything runs */
  FuseMode fuse_mode;
  const struct PlanObserver *observer; /* plan/observer.h; NULL: nobody asks */
  Arena *plan_arena; /* of the plan that runs; private to plan/execute.c */
  struct PlanCache
      *plan_cache;   /* plans that are kept; private to plan/plan_cache.c */
  bool hot;          /* what is planned is run often: a little work is much */
  bool keeps_inputs; /* what runs may yet be undone: nothing is written over */
  uint32_t loop_depth;       /* of the loops of which a turn is being traced */
  ExtentTable *extent_table; /* of a function that is being traced; NULL: all
                                extents are numbers */
  uint64_t executed_nodes;   /* nodes run so far: for tests and `axon plan` */
  uint64_t plan_cache_hits;  /* plans that were there already: for tests */
  /* private to guard.c: parts of guards, lately made */
  struct GuardProjection {
    Node *guard, *projection;
    uint32_t shared_mask;
  } guard_projections[MAX_CACHED_GUARDS];
  uint32_t next_projection;
} Graph;

/* Has its elements without a plan that computes them. */
static inline bool node_is_materialized(const Node *n) {
  return n->data || n->materialized || n->kind == NODE_ARG ||
         n->kind == NODE_LOOP_CARRIED;
}

/* Elements that a stored node has, free axes included; saturates. */
int64_t node_element_count(const Node *n);
/* True if every backend computes the same bits for a comprehension: none of
 * its operations on floats is marked PRIM_APPROXIMATE. */
bool node_is_exact(const Node *n);
/* "f32[3, *, 4]": the own axes. */
void node_print_type(const Graph *g, Buffer *out, const Node *n);

Node *node_retain(Node *n);
void node_release(Node *n); /* iterative: long chains do not recurse */

/* ---- build_compute.c: building nodes ---- */

Node *node_data(Graph *g, Tensor *t);
/* An argument of a function that is being compiled. */
Node *node_arg(Graph *g, uint32_t number, Dtype dtype, uint32_t rank,
               const int64_t *shape, uint32_t broadcast_mask);
Node *node_scalar(Graph *g, Scalar x);
Node *node_index(Graph *g, IndexVar *v); /* i64 scalar with free = {v} */

/* Does the row's scheme say that its elements are bool, whatever those of the
 * arguments are? */
bool prim_gives_bool(PrimId op);

/* A MAP primitive: arguments of equal dtype (SELECT: bool first) broadcast as
 * the language says: per axis absent < * < a size, two sizes equal.  ADD, SUB,
 * MUL, DIV, MOD of integer *scalars* that are known stay constants.
 * result: DT_NONE, or the dtype that CONVERT goes to. */
Node *node_map(Graph *g, PrimId op, uint32_t count, Node *const *args,
               Dtype result, Fault *fault);
/* A REDUCE primitive over own axes first .. first + count - 1; keep puts a *
 * in the place of each. */
Node *node_reduce(Graph *g, PrimId op, Node *x, uint32_t first, uint32_t count,
                  bool keepdims, Fault *fault);
/* op @, with f16/bf16 accumulated in f32 and rounded once. */
Node *node_matmul(Graph *g, Node *a, Node *b, Fault *fault);
Node *node_dot(Graph *g, Node *a, Node *b, Fault *fault);
Node *node_outer(Graph *g, Node *a, Node *b, Fault *fault);
/* labels[k]: for each own axis of args[k] a small number; out: those of the
 * result, in order; all others are summed over.  (`...` was expanded.) */
Node *node_einsum(Graph *g, uint32_t count, Node *const *args,
                  const uint8_t *const *labels, uint32_t out_rank,
                  const uint8_t *out, Fault *fault);

/* `shape` may hold one -1, to be solved for. */
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
Node *node_tile(Graph *g, Node *x, uint32_t axis, int64_t repeats,
                bool repeat_elements, Fault *fault); /* each: repeat */
Node *node_squeeze(Graph *g, Node *x, uint32_t first, uint32_t count,
                   Fault *fault);
Node *node_triangle(Graph *g, Node *x, bool lower, Fault *fault);

/* x.[items]: as many items as axes (the evaluator has expanded `...`). */
typedef enum SubscriptKind {
  SUBSCRIPT_INDEX, /* index: a node of integer dtype.  A constant or an affine
                      function of for-indices is an exact index (negative
                      constants were resolved by the evaluator); other data is a
                      gather: an index tensor of rank k puts its own axes there
                    */
  SUBSCRIPT_SLICE, /* from .. to (exclusive) */
  SUBSCRIPT_NEW_AXIS,           /* a new axis of 1 */
  SUBSCRIPT_NEW_BROADCAST_AXIS, /* a new stretching axis */
} SubscriptKind;
typedef struct Subscript {
  SubscriptKind kind;
  Node *index;
  int64_t start, stop;
  bool sized; /* SUBSCRIPT_SLICE: a bound is written, so that a * becomes a size
               */
} Subscript;
/* False, and a fault: that axis is a *, where `what` wants a size. */
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

/* Turns the free axes of `vars` (some may not occur in x: then x is repeated)
 * into leading own axes, in the order given: the end of a `for`. */
Node *node_close(Graph *g, Node *x, uint32_t count, IndexVar *const *vars,
                 Fault *fault);
/* Picks one value of free index v: x with v := value (host loops). */
/* if c then a else b on scalars that are not known yet: only the chosen side
 * is run (BODY_SELECT). */
Node *node_select_lazy(Graph *g, Node *c, Node *a, Node *b, Fault *fault);

/* SORT, ARGSORT, CUMSUM (axis), SCATTER (x, index, y), PERMUTATION (n),
 * TOPK (k; output 0 values, 1 indices): nodes of static extents.  With free
 * indices they act on each slice. */
Node *node_opaque(Graph *g, PrimId op, uint32_t count, Node *const *inputs,
                  const int64_t params[4], PrngKey key, uint32_t output_index,
                  Fault *fault);

/* ---- loop_node.c: loops that are compiled as such ---- */

/* For a turn of a loop at g->loop_depth, which stands inside of these indices;
 * what it begins with may have fewer. */
Node *node_loop_carried(Graph *g, const Node *like, uint32_t free_count,
                        IndexVar *const *free_vars);
/* results: carry_count of them, then stacked_count; of the states' shapes.
 * more: or NULL. */
LoopBody *loop_body_new(int64_t count, Node *condition, Node *iteration,
                        uint32_t carry_count, Node *const *carry_in,
                        uint32_t stacked_count, Node *const *results);
void loop_body_release(LoopBody *loop);
/* The loop is borrowed, as are the states that it begins with. */
Node *node_loop(Graph *g, LoopBody *loop, Node *const *initial,
                uint32_t output_index, Fault *fault);

/* ---- recurrence.c: loops in order over formulas ---- */

/* One turn of a fold or a scan, as nodes. */
typedef struct FoldIteration {
  IndexVar *index; /* the number of the turn */
  uint32_t carry_count, stacked_count;
  Node *const *initial;  /* what it begins with */
  Node *const *carry_in; /* NODE_LOOP_CARRIED: what a turn begins with */
  Node *const *results;  /* what it ends with; then what is kept of each turn */
  Node *
      condition; /* bool: is there another turn?  NULL: as often as `at` says */
  bool associative; /* its function is associative */
} FoldIteration;
/* Result `output`: a state after the last turn, or what is kept of all turns,
 * along a leading axis.  NULL, perhaps without a fault: the turn is no formula
 * of the same element of states and of what is there before. */
Node *node_fold(Graph *g, const FoldIteration *iteration, uint32_t output_index,
                Fault *fault);

/* ---- what is known of nodes ---- */

/* Is the value known without running anything?  Constants and what folds. */
bool node_known(const Node *n, Scalar *out);

/* The graph in readable form: one line a node (axon dump, tests). */
void graph_print(const Graph *g, Buffer *out, uint32_t count,
                 Node *const *roots);
/* Numbers its nodes in the order in which they are printed. */
void graph_renumber(uint32_t count, Node *const *roots);
/* Checks every invariant stated above; false with a message: run after every
 * pass in tests (AXON_VERIFY=1). */
bool graph_verify(uint32_t count, Node *const *roots, Buffer *message);

#endif
