/* Declarations shared by the files of tensor/: node specs and body builders. */
#ifndef AXON_TENSOR_INTERNAL_H
#define AXON_TENSOR_INTERNAL_H

#include "support/span.h"
#include "tensor/extent.h"
#include "tensor/node.h"
#include "tensor/scalar_ops.h"

/* ---- node.c ---- */

/* Specification of a node before it is made: everything but its body.  It lives
 * on the stack and borrows what it points to. */
typedef struct NodeSpec {
  Dtype dtype;
  uint32_t free_count, rank, reduce_count, broadcast_mask;
  PrimId reduce;
  IndexVar *free_vars[MAX_RANK];
  int64_t own_extents[MAX_RANK], reduced_extents[MAX_RANK];
} NodeSpec;

/* A scalar without free indices.  It leaves the arrays as they are: clearing
 * them takes longer than the rest of a small node. */
static inline void node_spec_init(NodeSpec *spec, Dtype dtype) {
  spec->dtype = dtype;
  spec->free_count = spec->rank = spec->reduce_count = 0;
  spec->broadcast_mask = 0;
  spec->reduce = PRIM_NONE;
}
/* The axes and the element type of x, without a reduction. */
NodeSpec node_spec_like(const Node *x);
/* Sets the free indices to the union of those of the nodes, ascending. */
bool node_spec_add_free_of(NodeSpec *spec, uint32_t count, Node *const *nodes,
                           Fault *fault);
void node_spec_add_free(NodeSpec *spec, IndexVar *v);
/* The axis number of a free index in the spec; UINT32_MAX if it has none. */
uint32_t node_spec_free_axis(const NodeSpec *spec, const IndexVar *v);

/* True if v is a free index of x. */
bool node_has_free(const Node *x, const IndexVar *v);
Node *node_alloc(Graph *g, NodeKind kind, const NodeSpec *spec);
Node *node_try_alloc(Graph *g, NodeKind kind, const NodeSpec *spec);
void node_add_pending(Graph *g, const Node *n);
bool node_is_broadcast_axis(const Node *n, uint32_t axis);
/* guard.c: the guard that a node with these free indices records, or NULL.  A
 * speculatable node needs no guard that depends on other indices. */
Node *guard_for(Graph *g, const NodeSpec *spec, bool safe);
/* Sets the guard of a new node.  Releases the node if that raises. */
void node_set_guard(Graph *g, Node *n, const NodeSpec *spec);

/* ---- extent.c ---- */

/* Adds r and takes its guard.  Returns false, and takes nothing, if r exists
 * already. */
bool extent_table_require(ExtentTable *table, Requirement r);
/* Returns the size for an integer argument.  Returns false if it is not a
 * registered argument. */
bool extent_of_arg(Graph *g, uint32_t arg, Span span, int64_t *out);

/* Marks n as dependent on a leaf of the tape, unless it depends on an outer
 * one. */
void node_set_tape(Node *n, Tape *tape);

/* Call this if n reads x. */
static inline void node_propagate_flags(Node *n, const Node *x) {
  if (x->tape && x->tape->recording)
    node_set_tape(n, x->tape);
  n->symbolic |= x->symbolic;
  n->loop_depth = x->loop_depth > n->loop_depth ? x->loop_depth : n->loop_depth;
}

/* a type such as "f32[3, 4]", in a buffer of the caller */
typedef struct TypeText {
  char text[400];
} TypeText;
TypeText tensor_type_text(const Graph *g, Dtype dtype, uint32_t rank,
                          const int64_t *extents, uint32_t broadcast_mask);
TypeText node_type_text(const Graph *g, const Node *n);

/* ---- fourier.c ---- */

/* The axes of a transform.  Sets all but the free indices. */
bool fourier_spec(Graph *g, NodeSpec *spec, PrimId op, uint32_t count,
                  Node *const *inputs, const int64_t params[4], Fault *fault);

/* ---- body_builder.c ---- */

enum { INLINE_BODY_OPS = 40, INLINE_BODY_ARGS = 160 };

typedef struct BodyBuilder {
  Graph *graph;
  const NodeSpec *spec;
  Span span;
  BodyOp *ops;
  uint32_t *args;
  uint32_t op_count, op_capacity, arg_count, arg_capacity;
  /* The op of an axis, if it has one.  Nothing clears `axis_ops`, since most
   * bodies have few axes. */
  uint32_t axis_has_op[3], axis_ops[3 * MAX_RANK];
  BodyOp inline_ops[INLINE_BODY_OPS];
  uint32_t inline_args[INLINE_BODY_ARGS];
} BodyBuilder;

/* No references are taken before body_finish.  Until then body_drop suffices to
 * drop a body. */
void body_init(BodyBuilder *b, Graph *g, const NodeSpec *spec);
void body_drop(BodyBuilder *b);
/* Returns the node.  Drops the body. */
Node *body_finish(BodyBuilder *b, Graph *g, Fault *fault);

uint32_t body_const(BodyBuilder *b, Scalar x);
uint32_t body_int(BodyBuilder *b, int64_t x); /* x may be symbolic */
/* Axis of the k-th free index. */
uint32_t body_free_axis(BodyBuilder *b, uint32_t k);
uint32_t body_own_axis(BodyBuilder *b, uint32_t k);
uint32_t body_reduced_axis(BodyBuilder *b, uint32_t k);
uint32_t body_op(BodyBuilder *b, PrimId op, Dtype result, uint32_t count,
                 const uint32_t *args);
uint32_t body_op2(BodyBuilder *b, PrimId op, Dtype result, uint32_t x,
                  uint32_t y);
/* i64 arithmetic with a size.  Adds no op for x + 0, x * 1 and so on. */
uint32_t body_add_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_mul_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_floor_div_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_floor_mod_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_select(BodyBuilder *b, uint32_t c, uint32_t x, uint32_t y);
/* Makes an op the value of the body, and drops the ops after it. */
void body_set_result(BodyBuilder *b, uint32_t op);
uint32_t body_convert(BodyBuilder *b, uint32_t x, Dtype to);
/* Reads x at one index per own axis.  Free indices are looked up in the spec.
 * A known scalar becomes a constant. */
uint32_t body_read(BodyBuilder *b, Node *x, const uint32_t *own_indices);
/* The same, but free index v is bound to an op. */
typedef struct IndexBinding {
  const IndexVar *var;
  uint32_t value;
} IndexBinding;
uint32_t body_read_with_bindings(BodyBuilder *b, Node *x,
                                 const uint32_t *own_indices,
                                 uint32_t binding_count,
                                 const IndexBinding *bindings);
/* Reads x at own axes first .. first + x->rank - 1 of the spec.  Broadcast axes
 * of x are read at 0. */
uint32_t body_read_broadcast(BodyBuilder *b, Node *x, uint32_t first_axis);
uint32_t body_random(BodyBuilder *b, PrimId op, PrngKey key, Dtype dtype,
                     uint32_t n);

/* A node that reads x at indices `own`. */
Node *body_finish_read(BodyBuilder *b, Graph *g, Node *x,
                       const uint32_t *own_indices, Fault *fault);

/* ---- contraction_order.c ---- */

enum { MAX_CONTRACTION_OPERANDS = 16 };

/* A sum over axes of a product of operands. */
typedef struct ContractionOperands {
  uint32_t count, axis_count;
  const double *extents; /* extents of the axes */
  /* For each operand: bit k is set if it depends on axis k. */
  const uint64_t *operand_axes;
  uint64_t summed_axes;
} ContractionOperands;

/* Operands to multiply, and the axes to sum over afterwards. */
typedef struct ContractionStep {
  uint64_t operands, summed_axes;
} ContractionStep;

/* Returns false if there is nothing to gain. */
bool contraction_order_step(const ContractionOperands *f,
                            ContractionStep *best);
/* The extent of an axis; a hint if it is unknown. */
double contraction_order_extent(const Graph *g, int64_t size);
/* The sum of x over `count` own axes, if x is a product that is better summed
 * step by step.  Otherwise NULL without a fault. */
Node *sum_factorized(Graph *g, const Node *x, uint32_t first_axis,
                     uint32_t count, bool *factorized, Fault *fault);
/* Returns what a sum of x should add up.  If x is a pending product of 16-bit
 * floats, that is the product in f32, as in a matmul; the caller releases it.
 * Otherwise it is x. */
Node *sum_widened(Graph *g, Node *x, Fault *fault);

/* ---- opaque.c ---- */

/* A FOLD or a SCAN. */
typedef struct FoldLoop {
  int64_t trip_count;
  uint32_t carry_count, output_index;
  uint64_t scanned_inputs;
  uint32_t body_op_count;
  BodyOp *body_ops; /* taken by node_recurrence */
} FoldLoop;
/* is_scan: the result is the stacked output.  shape: the shape of the carry. */
Node *node_recurrence(Graph *g, const FoldLoop *fold_loop, bool is_scan,
                      const Node *carry_shape, uint32_t count,
                      Node *const *inputs, Dtype dtype, Fault *fault);

/* ---- moments.c: variances and similar sums in one pass ---- */

/* The sum of x over `count` own axes.  NULL: the general case applies. */
Node *moments_sum(Graph *g, Node *x, uint32_t first_axis, uint32_t count,
                  bool keepdims, const NodeSpec *spec, Fault *fault);

#endif
