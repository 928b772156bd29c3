/* kernel: a stored node in the form that compilers want.
 *
 * The axes of a node are cut where a body divides by a part of them, and put
 * together where every access walks over two as if they were one; sums and
 * multiples of indices are gone into *quasi-affine* forms,
 *
 *     constant + sum of times[v] * variable v,
 *
 * whose variables are the axes and quotients of such forms by a number.  So
 * what reshape, transpose and slices did is an address, and nothing else.
 * (Quasi-affine accesses: the polyhedral literature, as in arXiv:2006.12645.)
 *
 * What remains is a list of steps, each of them after its arguments.  A kernel
 * holds no sizes by structure: extents, strides and constants are numbers
 * beside it, so that one program text serves all sizes. */
#ifndef AXON_TENSOR_KERNEL_H
#define AXON_TENSOR_KERNEL_H

#include "tensor/tensor.h"

enum { KERNEL_VARS = 64, KERNEL_AXES = 40 };

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
  STEP_OP,      /* op over args */
  STEP_SELECT,  /* args[0] ? args[1] : args[2]; reads may hold on one side
                   only */
  STEP_CONVERT, /* args[0] to dtype */
  STEP_RANDOM,  /* op, key, args[0] the element's number */
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
  uint32_t cell; /* of the node, for its place in the source */
  uint32_t arg_count;
  uint32_t args[3];
  int64_t low, high; /* bounds of an i64; INT64_MIN, INT64_MAX: none known */
  union {
    Scalar value;
    Quasi *index;
    Key key;
    struct {
      uint32_t input;
      Quasi *address; /* in elements */
      uint32_t index_count;
      ReadIndex *indices;
    };
  };
} Step;

typedef struct Kernel {
  Arena *arena;
  const Node *node;
  uint32_t outer, axes; /* axes of the result; with the reduced ones */
  int64_t extents[KERNEL_AXES];
  uint32_t quotient_count; /* variable KERNEL_AXES + k is quotients[k] */
  Quotient quotients[KERNEL_VARS - KERNEL_AXES - 1];
  PrimId reduce;
  Dtype dtype;     /* of the result */
  Quasi *out;      /* where an element of the result goes */
  VEC(Step) steps; /* the last one is the body's value */
  VEC(const Node *) inputs;
} Kernel;

/* NULL: the body is one that is left to the reference backend (too many axes
 * or quotients).  Lives in the arena; borrows the node, whose inputs have
 * their data. */
Kernel *kernel_new(Arena *arena, const Node *n);
/* For axon dump and tests. */
void kernel_print(Buffer *out, const Kernel *k);

#endif
