/* Linear algebra by LAPACK, which is loaded at first use: OpenBLAS, or the
 * reference implementation.  Modules of `axon build` contain this header and
 * lapack.inc as text, so both are plain C without other headers of Axon.
 *
 * All operations compute in double, one matrix at a time, in one thread.  So
 * results do not depend on the number of threads. */
#ifndef AXON_RUNTIME_LAPACK_H
#define AXON_RUNTIME_LAPACK_H

#include <stdint.h>

#ifndef LAPACK_LINKAGE /* static in modules */
#define LAPACK_LINKAGE
#endif

/* The input a has n rows, and m columns if m is given; otherwise n.  All
 * matrices are row-major.  Outputs follow one another. */
typedef enum LapackOp {
  LAPACK_NONE,
  LAPACK_GETRF,       /* sign and log of |det a|, and det a */
  LAPACK_GESV,        /* x with a x = b; b: n by m */
  LAPACK_TRTRS_UPPER, /* the same for the upper triangle of a */
  LAPACK_TRTRS_LOWER,
  LAPACK_POTRF, /* lower Cholesky factor */
  LAPACK_GEQRF, /* k = min(n, m): q, n by k; r, k by m */
  LAPACK_GESDD, /* u, n by k; k singular values; transposed v, k by m */
  LAPACK_SYEVD, /* n eigenvalues, ascending; n by n eigenvectors, in columns */
  LAPACK_GEEV,  /* n real and n imaginary parts of eigenvalues; real and
                   imaginary parts of left, then of right eigenvectors */
} LapackOp;

typedef enum LapackStatus {
  LAPACK_OK,
  LAPACK_SINGULAR,
  LAPACK_NOT_POSITIVE,
  LAPACK_NOT_FINITE,
  LAPACK_NO_CONVERGENCE,
  LAPACK_TOO_LARGE,
  LAPACK_NO_MEMORY,
  LAPACK_NO_LIBRARY,
  LAPACK_STATUS_COUNT
} LapackStatus;

/* Runs an operation on one matrix.  b: or NULL. */
LAPACK_LINKAGE LapackStatus lapack_run(LapackOp op, int64_t n, int64_t m,
                                       const double *a, const double *b,
                                       double *out);
/* What is wrong with the matrix, such as "is singular", or with the library. */
LAPACK_LINKAGE const char *lapack_status_text(LapackStatus status);

#endif
