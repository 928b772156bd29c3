/* cost: what a kernel has to do, and how long that takes at best.
 *
 * Inputs are counted once and results once, as caches and registers would have
 * it if they were perfect; what a kernel leaves for itself is counted apart.
 * A prediction is the longest of what memory, arithmetic and scratch memory
 * take at the machine's limits, and what it takes to start (a roofline:
 * Williams, Waterman, Patterson, 2009). */
#ifndef AXON_KERNEL_ROOFLINE_H
#define AXON_KERNEL_ROOFLINE_H

#include "kernel/kernel.h"
#include "machine/machine.h"

typedef struct Cost {
  double bytes_read, bytes_written; /* bytes */
  double scratch_bytes;     /* bytes written to scratch memory and read again */
  double contraction_flops; /* operations of sums of products, */
  double bf16_flops;        /* of these, such whose factors are bf16, */
  double other_ops;         /* and all others */
  double widest_bytes;      /* bytes of the widest number computed with */
  double parallel_iterations; /* of the outer axes */
} Cost;
Cost kernel_cost(const Kernel *k);

typedef enum RooflineBound {
  ROOFLINE_L1, /* bytes, from the level of memory that holds them all */
  ROOFLINE_L2,
  ROOFLINE_L3,
  ROOFLINE_MEMORY,
  ROOFLINE_COMPUTE,
  ROOFLINE_SCRATCH,
} RooflineBound;

typedef struct Prediction {
  RooflineBound bound;
  double bound_seconds; /* seconds that the bound takes */
  double seconds;       /* with what it takes to start */
} Prediction;
/* pieces: that can be done apart; scratch: bytes, of one of them. */
Prediction roofline_predict(const Cost *cost, int64_t tasks,
                            double scratch_bytes, const Machine *m,
                            const PeakRates *limits);

#endif
