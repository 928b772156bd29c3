/* backend/cpu: batches of small matmuls, without packing. */
#ifndef AXON_CPU_SMALL_PRODUCT_H
#define AXON_CPU_SMALL_PRODUCT_H

#include "backend/cpu/nest_choose.h"

/* The layout of an operand's or the result's matrices. */
typedef struct MatrixRef {
  int64_t row_stride, column_stride; /* in elements */
  int64_t span; /* elements from the first to behind the last of one matrix */
  int64_t batch_stride; /* elements from one matrix to the next */
} MatrixRef;

/* result[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
 *
 * If rows are shorter than a vector, the lanes of a vector are neighbouring
 * elements of the result, of several rows and perhaps of several matrices.
 * Longer rows use register tiles of several rows.  With symbolic sizes, a
 * version of the kernel has a constant number of vectors in a row. */
typedef struct SmallProduct {
  uint32_t m_axis, n_axis, batch_axis;
  int64_t rows, columns, depth;
  int64_t members;          /* matrices of a block of shuffled lanes */
  uint32_t mr, row_vectors; /* of a tile; 0: lanes are shuffled */
  bool symbolic;            /* rows, columns or depth are symbolic */
  MatrixRef a, b, c;
} SmallProduct;

/* Returns true if the kernel is only a batch of small matmuls.  Its batch axis
 * becomes the last axis of tasks, and rows and columns become loops in a task.
 * Symbolic sizes require k->small_product_vectors. */
bool small_product_choose(Kernel *k, Schedule *s);
/* The symbolic extents of one matmul: rows, columns, depth.  Returns the
 * maximal number of vectors of a row; 0: the kernel is no batch of matmuls. */
uint32_t small_product_symbolic_sizes(const Kernel *k, uint32_t width,
                                      int64_t sizes[3]);

/* ---- small_product_nest.c ---- */

/* The steps of its loop nest. */
void small_product_nest(NestChoice *c, const SmallProduct *p);

#endif
