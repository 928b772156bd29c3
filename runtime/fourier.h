/* Discrete Fourier transforms by FFTW 3, which is loaded at first use. */
#ifndef AXON_RUNTIME_FOURIER_H
#define AXON_RUNTIME_FOURIER_H

#include "primitives/primitives.h"
#include "runtime/runtime.h"

/* The lines along an axis of row-major tensors, as in fourier.inc.  The inputs
 * and results of slice k follow those of slice k - 1. */
typedef struct FourierLines {
  PrimId op;                            /* DFT, REAL_DFT or INVERSE_REAL_DFT */
  bool is_inverse;                      /* of DFT */
  Dtype dtype;                          /* F32 or F64 */
  int64_t slices, outer, length, inner; /* length: points of a transform */
  /* Inputs; im: NULL for REAL_DFT.  re NULL: the DFT runs in place. */
  const void *re, *im;
  void *to; /* real part and imaginary part of each slice; or real results */
} FourierLines;

/* Loads the library for an element type.  Returns false with a fault that names
 * the package. */
bool fourier_load_library(Dtype dtype, Fault *fault);

/* Number of independent tasks. */
int64_t fourier_task_count(const FourierLines *l);
/* Runs tasks begin .. end - 1.  Returns 0, or another number if there is no
 * library, no memory, or the length exceeds 2^31 - 1. */
int fourier_run(const FourierLines *l, int64_t begin, int64_t end);

#endif
