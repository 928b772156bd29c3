/* backend/cuda: kernels that are two products with the weights of rows between
 * them (tensor/between.c) as passes that keep no rows (attention.h). */
#ifndef AXON_CUDA_ATTEND_H
#define AXON_CUDA_ATTEND_H

#include "backend/cuda/attention.h"
#include "backend/cuda/tile.h"

/* The left and right side of the first product, and the right side of the
 * second one. */
enum { ATTEND_A, ATTEND_B, ATTEND_V, ATTEND_SIDES };

typedef struct CudaAttend {
  const char *arch; /* that its text is for */
  AttentionShape shape;
  GemmSchedule s;
  double seconds; /* that it takes, as far as is known */
  const char *unused; /* as a CudaTile's */
  Between between;
  uint32_t batch[KERNEL_AXES], m[KERNEL_AXES], k[KERNEL_AXES], e[KERNEL_AXES];
  uint32_t batches, ms, ks, es;
  const Loop *side[ATTEND_SIDES]; /* whose results are its elements */
  const Step *copy[ATTEND_SIDES]; /* the read that it is nothing but; or NULL */
  CudaMap map[ATTEND_SIDES];      /* where TMA can copy it */
  Loop *score;                    /* between's, no more steps than it needs, */
  Loop *whole;    /* and of tiles that limits do not cut, */
  Loop *divisors; /* where such numbers have reciprocals; or NULL */
  Loop *factors;                  /* likewise; a result each */
  /* With limits on the row (limit.c), or NULL: then `finite` is a loop that
   * looks whether what is left out would have been zero whatever it is weighed
   * by, */
  const Kernel *limited;
  uint32_t limits;
  bool sure; /* and they are never wrong: see attention.h */
  Loop *finite;
} CudaAttend;

/* NULL: it is none, or what there would be to choose does not fit. */
CudaAttend *cuda_attend_find(const Kernel *k, const CudaTarget *target);
/* The body of the pass, and what is to stand before it. */
void cuda_put_attend(CudaWriter *w, Buffer *before);

#endif
