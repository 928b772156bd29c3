/* What the files of tensor/ share: node specs and bodies under construction. */
#ifndef AXON_TENSOR_INTERNAL_H
#define AXON_TENSOR_INTERNAL_H

#include "tensor/extent.h"
#include "tensor/node.h"
#include "tensor/scalar_ops.h"

/* ---- node.c ---- */

/* What a node is to be, before it is made: everything but its body.  Lives on
 * the stack and borrows what it points to. */
typedef struct NodeSpec {
  Dtype dtype;
  uint32_t free_count, rank, reduce_count, broadcast_mask;
  PrimId reduce;
  IndexVar *free_vars[MAX_RANK];
  int64_t own_extents[MAX_RANK], reduced_extents[MAX_RANK];
} NodeSpec;

/* Makes free the union of the free indices of the nodes, ascending. */
bool node_spec_add_free_of(NodeSpec *spec, uint32_t count, Node *const *nodes,
                           Fault *fault);
void node_spec_add_free(NodeSpec *spec, IndexVar *v);
/* The axis number of a free index in the form; UINT32_MAX: not there. */
uint32_t node_spec_free_axis(const NodeSpec *spec, const IndexVar *v);

Node *node_alloc(Graph *g, NodeKind kind, const NodeSpec *spec);
Node *node_try_alloc(Graph *g, NodeKind kind, const NodeSpec *spec);
void node_add_pending(Graph *g, const Node *n);
bool node_is_broadcast_axis(const Node *n, uint32_t axis);
/* guard.c: what a node with these free indices has to record, or NULL; one
 * that is safe does without where the guard speaks of other indices too. */
Node *guard_for(Graph *g, const NodeSpec *spec, bool safe);
/* Records it in a new node, which it releases if that raises. */
void node_set_guard(Graph *g, Node *n, const NodeSpec *spec);

/* ---- extent.c ---- */

/* Adds r, which takes over its guard; false: the same one was there. */
bool extent_table_require(ExtentTable *table, Requirement r);
/* The size that an integer argument is; false: it is not one of them. */
bool extent_of_arg(Graph *g, uint32_t arg, Span span, int64_t *out);

/* n reads x. */
static inline void node_propagate_flags(Node *n, const Node *x) {
  n->symbolic |= x->symbolic;
  n->loop_depth = x->loop_depth > n->loop_depth ? x->loop_depth : n->loop_depth;
}

/* "f32[3, 4]" in a buffer of the caller's */
typedef struct TypeText {
  char text[400];
} TypeText;
TypeText tensor_type_text(const Graph *g, Dtype dtype, uint32_t rank,
                          const int64_t *extents, uint32_t broadcast_mask);
TypeText node_type_text(const Graph *g, const Node *n);

/* ---- body_builder.c: a body under construction ---- */

enum { INLINE_BODY_OPS = 40, INLINE_BODY_ARGS = 160 };

typedef struct BodyBuilder {
  Graph *graph;
  const NodeSpec *spec;
  Span span;
  BodyOp *ops;
  uint32_t *args;
  uint32_t op_count, op_capacity, arg_count, arg_capacity;
  uint32_t axis_ops[3 * MAX_RANK]; /* 1 + the cell of an axis, or 0 */
  BodyOp inline_ops[INLINE_BODY_OPS];
  uint32_t inline_args[INLINE_BODY_ARGS];
} BodyBuilder;

/* No reference is taken before body_finish: up to there a body can be dropped
 * by body_drop alone. */
void body_init(BodyBuilder *b, Graph *g, const NodeSpec *spec);
void body_drop(BodyBuilder *b);
/* The node; drops the body. */
Node *body_finish(BodyBuilder *b, Graph *g, Fault *fault);

uint32_t body_const(BodyBuilder *b, Scalar x);
uint32_t body_int(BodyBuilder *b, int64_t x); /* or a size */
uint32_t body_free_axis(BodyBuilder *b,
                        uint32_t k); /* axis: the k-th free one */
uint32_t body_own_axis(BodyBuilder *b, uint32_t k);
uint32_t body_reduced_axis(BodyBuilder *b, uint32_t k);
uint32_t body_op(BodyBuilder *b, PrimId op, Dtype result, uint32_t count,
                 const uint32_t *args);
uint32_t body_op2(BodyBuilder *b, PrimId op, Dtype result, uint32_t x,
                  uint32_t y);
/* i64 arithmetic with a size; nothing is made where nothing is to do */
uint32_t body_add_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_mul_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_floor_div_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_floor_mod_int(BodyBuilder *b, uint32_t x, int64_t k);
uint32_t body_select(BodyBuilder *b, uint32_t c, uint32_t x, uint32_t y);
uint32_t body_convert(BodyBuilder *b, uint32_t x, Dtype to);
/* args: one per own axis; free indices are found in the form.  A known scalar
 * becomes a constant. */
uint32_t body_read(BodyBuilder *b, Node *x, const uint32_t *own_indices);
/* The same where free index v is to stand for another cell. */
typedef struct IndexBinding {
  const IndexVar *var;
  uint32_t value;
} IndexBinding;
uint32_t body_read_with_bindings(BodyBuilder *b, Node *x,
                                 const uint32_t *own_indices,
                                 uint32_t binding_count,
                                 const IndexBinding *bindings);
/* x at the own axes first .. first + x->rank - 1 of the form, where stars of x
 * stretch */
uint32_t body_read_broadcast(BodyBuilder *b, Node *x, uint32_t first_axis);
uint32_t body_random(BodyBuilder *b, PrimId op, PrngKey key, Dtype dtype,
                     uint32_t n);

/* A node that is x read at `own` for each element of the form. */
Node *body_finish_read(BodyBuilder *b, Graph *g, Node *x,
                       const uint32_t *own_indices, Fault *fault);

/* ---- contraction_order.c: products that are summed, a part of them first
 * ---- */

enum { MAX_CONTRACTION_OPERANDS = 16 };

/* A sum over axes of a product of factors. */
typedef struct ContractionOperands {
  uint32_t count, axis_count;
  const double *extents;        /* of the axes */
  const uint64_t *operand_axes; /* of each factor: bit k: on axis k */
  uint64_t summed_axes;
} ContractionOperands;

/* Factors to be multiplied, and the axes that are to be summed then. */
typedef struct ContractionStep {
  uint64_t operands, summed_axes;
} ContractionStep;

/* False: there is nothing to gain. */
bool contraction_order_step(const ContractionOperands *f,
                            ContractionStep *best);
/* The size of an axis, where it is not known yet a guess. */
double contraction_order_extent(const Graph *g, int64_t size);
/* The sum of x over `count` own axes; *apart: where x is a product that is
 * better summed in parts.  Otherwise NULL without a fault. */
Node *sum_factorized(Graph *g, const Node *x, uint32_t first_axis,
                     uint32_t count, bool *factorized, Fault *fault);
/* What a sum of x adds up: where x is a product of 16-bit floats that is not
 * computed yet, the product in f32, as that of matrices is, which the caller
 * lets go of; or x. */
Node *sum_widened(Graph *g, Node *x, Fault *fault);

/* ---- opaque.c ---- */

/* A FOLD or a SCAN, as its node has it. */
typedef struct FoldLoop {
  int64_t trip_count;
  uint32_t carry_count, output_index;
  uint64_t scanned_inputs;
  uint32_t body_op_count;
  BodyOp *body_ops; /* taken */
} FoldLoop;
/* all: a SCAN, of what is kept of all turns.  shape: of a state. */
Node *node_recurrence(Graph *g, const FoldLoop *fold_loop, bool is_scan,
                      const Node *carry_shape, uint32_t count,
                      Node *const *inputs, Dtype dtype, Fault *fault);

/* ---- moments.c: variances and the like in one pass ---- */

/* The sum of x over `count` own axes, of the form; NULL: as any other. */
Node *moments_sum(Graph *g, Node *x, uint32_t first_axis, uint32_t count,
                  bool keepdims, const NodeSpec *spec, Fault *fault);

#endif
