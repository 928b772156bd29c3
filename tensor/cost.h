/* cost: what a kernel has to do, and how long that takes at best.
 *
 * Inputs are counted once and results once, as caches and registers would have
 * it if they were perfect; what a kernel leaves for itself is counted apart.
 * A prediction is the longest of what memory, arithmetic and scratch memory
 * take at the machine's limits, and what it takes to start (a roofline:
 * Williams, Waterman, Patterson, 2009). */
#ifndef AXON_TENSOR_COST_H
#define AXON_TENSOR_COST_H

#include "machine/machine.h"
#include "tensor/kernel.h"

/* In simple operations on one element: an addition is one. */
double prim_cost(PrimId op);
enum { RANDOM_COST = 25 };

typedef struct Cost {
  double read, written; /* bytes */
  double scratch;       /* bytes written to scratch memory and read again */
  double products;      /* operations of sums of products, */
  double halves;        /* of these, such whose factors are bf16, */
  double others;        /* and all others */
  double wide;          /* bytes of the widest number computed with */
  double points;        /* of the outer axes */
} Cost;
Cost cost_of(const Kernel *k);

typedef enum CostBound {
  COST_LEVEL_1, /* bytes, from the level of memory that holds them all */
  COST_LEVEL_2,
  COST_LEVEL_3,
  COST_MEMORY,
  COST_ARITHMETIC,
  COST_SCRATCH,
} CostBound;

typedef struct Prediction {
  CostBound bound;
  double limit;   /* seconds that the bound takes */
  double seconds; /* with what it takes to start */
} Prediction;
/* pieces: that can be done apart; scratch: bytes, of one of them. */
Prediction cost_predict(const Cost *cost, int64_t pieces, double scratch,
                        const Machine *m, const MachineLimits *limits);

#endif
