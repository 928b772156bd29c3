/* Costs of kernels, and a lower bound of their run time.
 *
 * Each input and each output counts once, as if caches and registers were
 * perfect.  Local values count separately.  The prediction is the maximum of
 * the times for memory traffic, arithmetic and scratch memory at the peak rates
 * of the machine, plus the time to start the kernel (the roofline model:
 * Williams, Waterman, Patterson, 2009). */
#ifndef AXON_KERNEL_ROOFLINE_H
#define AXON_KERNEL_ROOFLINE_H

#include "kernel/kernel.h"
#include "machine/machine.h"

typedef struct Cost {
  double bytes_read, bytes_written;
  double scratch_bytes;     /* bytes written to scratch memory and read again */
  double contraction_flops; /* of contractions, including bf16_flops */
  double bf16_flops;        /* of contractions of bf16 operands */
  double other_ops;         /* all other operations */
  double widest_bytes;      /* bytes of the widest type of an operation */
  double parallel_iterations; /* iterations of the parallel axes */
} Cost;
Cost kernel_cost(const Kernel *k);

typedef enum RooflineBound {
  ROOFLINE_L1, /* traffic of the smallest level that holds all data */
  ROOFLINE_L2,
  ROOFLINE_L3,
  ROOFLINE_MEMORY,
  ROOFLINE_COMPUTE,
  ROOFLINE_SCRATCH,
} RooflineBound;

typedef struct Prediction {
  RooflineBound bound;
  double bound_seconds; /* seconds that the bound takes */
  double seconds;       /* bound_seconds, plus the time to start */
} Prediction;
/* tasks: number of tasks that can run in parallel.  scratch_bytes: scratch
 * memory of one task. */
Prediction roofline_predict(const Cost *cost, int64_t tasks,
                            double scratch_bytes, const Machine *m,
                            const PeakRates *limits);

#endif
