/* Reverse mode: shared by the files that build adjoints. */
#ifndef AXON_TENSOR_ADJOINT_H
#define AXON_TENSOR_ADJOINT_H

#include "support/map.h"
#include "support/vec.h"
#include "tensor/internal.h"

typedef struct Arena Arena;

/* One reverse pass. */
struct ReversePass {
  Graph *graph;
  const Tape *tape; /* of the leaves */
  Arena *arena;
  Map dependents; /* nodes on the way from a leaf to an output -> Dependent */
  VEC(struct Dependent *) order; /* ascending ids */
  VEC(Node *) owned;             /* nodes that the pass made; counted */
  uint32_t left;                 /* number of entries of `order` to visit */
  uint32_t leaf_count;
  struct Dependent **leaves; /* NULL: no output depends on the leaf */
  VjpRule *rule;  /* the rule that waits for its contributions; or NULL */
  Fault *fault;   /* of the current call */
  uint32_t outer; /* Graph.reverse_of before the pass */
  bool has_ended;
};

typedef struct Dependent {
  Node *node;
  bool depends; /* on a leaf */
  bool is_leaf;
  Node *cotangent; /* the sum so far, with the axes of the node; or NULL */
  /* The comprehension that made the only contribution so far, its cotangent,
   * and the op of its body that reads the node; or NULL. */
  Node *only_reader, *reader_cotangent;
  uint32_t only_read;
} Dependent;

/* True if x depends on a leaf of the pass. */
bool reverse_depends(const ReversePass *p, const Node *x);
/* Adds to the cotangent of x.  Takes the contribution.  Returns false with a
 * fault if the contribution is NULL. */
bool reverse_contribute(ReversePass *p, Node *x, Node *contribution);
/* True if each value of the index has its own leaves: contributions are not
 * summed over it. */
bool reverse_is_enclosing(const ReversePass *p, const IndexVar *v);
/* Keeps a node until the end of the pass; takes it.  Returns it. */
Node *reverse_own(ReversePass *p, Node *n);

/* ---- adjoint_comprehension.c ---- */

/* Adds the contributions of a comprehension n with cotangent g. */
bool adjoint_comprehension(ReversePass *p, Node *n, Node *g);

/* ---- adjoint_quotient.c ---- */

/* A node y / x, where op `divisor` of n reads x, whose contribution to x is
 * that of n.  Its cotangent is that of y, the only reader of n.  Sets *read to
 * its op that reads x.  NULL: there is none. */
Node *adjoint_quotient(ReversePass *p, const Node *n, uint32_t divisor,
                       uint32_t *read);

/* ---- adjoint_rules.c ---- */

/* The sum of a contribution over free indices; it is repeated along those that
 * it does not have.  Takes the contribution, which may be NULL. */
Node *reverse_sum_over(ReversePass *p, Node *contribution, uint32_t count,
                       IndexVar *const *vars);

/* Adds the contributions of an opaque node n with cotangent g. */
bool adjoint_opaque(ReversePass *p, Node *n, Node *g);

/* ---- adjoint_fourier.c ---- */

bool adjoint_DFT(ReversePass *p, Node *n, Node *g);
bool adjoint_REAL_DFT(ReversePass *p, Node *n, Node *g);
bool adjoint_INVERSE_REAL_DFT(ReversePass *p, Node *n, Node *g);

#endif
