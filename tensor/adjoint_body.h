/* The body of a contribution to the cotangent of a node. */
#ifndef AXON_TENSOR_ADJOINT_BODY_H
#define AXON_TENSOR_ADJOINT_BODY_H

#include "tensor/adjoint.h"
#include "tensor/invert.h"

#define NO_OP UINT32_MAX

/* The body of one contribution. */
typedef struct AdjointBody {
  ReversePass *pass;
  Node *n, *g;
  Node *result; /* its elements are the values of n's body; usually n */
  /* MAX, MIN: the number of elements that are the extreme.  PROD: the number of
   * zeros, and the product of the others.  Otherwise NULL. */
  Node *count, *product;
  NodeSpec spec;
  BodyBuilder b;
  Inversion x;
  uint32_t condition;          /* under which the element exists, or NO_OP */
  bool guards_all;             /* all reads need the condition */
  bool has_guarded;            /* a read has the condition */
  uint32_t *copies, *adjoints; /* by op of n's body; NO_OP: none */
  uint8_t *on_path;            /* by op: it depends on the read */
  uint32_t op;                 /* whose partial is being built */
} AdjointBody;

/* A copy of op k of n's body, with the values of a->x as its axes. */
uint32_t adjoint_body_copy(AdjointBody *a, uint32_t k);
/* Call this if the values of a->x change. */
void adjoint_body_forget_copies(AdjointBody *a);
uint32_t adjoint_body_zero(AdjointBody *a, Dtype dtype);
/* Reads x, which has the axes of n, or fewer free ones; 0 where the element
 * does not exist. */
uint32_t adjoint_body_read_like(AdjointBody *a, Node *x);
/* The axis of the new body that is free axis k of x. */
uint32_t adjoint_body_free_axis(AdjointBody *a, const Node *x, uint32_t k);
/* True for a reduction that multiplies. */
bool adjoint_reduces_product(PrimId reduce);
/* Builds the cotangent of the read.  Returns false if it is zero. */
bool adjoint_body_build(AdjointBody *a, uint32_t read);

/* ---- adjoint_split.c ---- */

/* Finishes the body as a sum over its reduced axes: in two steps, if the first
 * one can compute a large operand again instead of storing it. */
Node *adjoint_finish_sum(AdjointBody *a);

#endif
