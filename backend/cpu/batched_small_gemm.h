/* backend/cpu: batches of small matmuls, without packing. */
#ifndef AXON_CPU_BATCHED_SMALL_GEMM_H
#define AXON_CPU_BATCHED_SMALL_GEMM_H

#include "backend/cpu/cpu.h"

/* The layout of an operand's or the result's matrices. */
typedef struct MatrixRef {
  const KernelOp *load;              /* the load of an operand */
  int64_t row_stride, column_stride; /* in elements */
  int64_t span; /* elements from the first to behind the last of one matrix */
  int64_t batch_stride; /* elements from one matrix to the next */
} MatrixRef;

/* result[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
 *
 * With short rows, m, n, k and the layout are constants of the code, of which
 * there are at most some hundreds of variants.  With longer rows, only the
 * shape of the tile is constant, and whether its last vector is full.  With
 * symbolic sizes, there is a tile for each number of vectors. */
typedef struct BatchedGemm {
  uint32_t m_axis, n_axis, batch_axis; /* parallel axes */
  int64_t rows, columns, depth;
  int64_t per_register;    /* contiguous matrices that one register holds */
  uint32_t mr, nr_vectors; /* of a tile; 0: whole matrices are in registers */
  bool symbolic; /* rows, columns and depth are symbolic; nr_vectors is the
                    maximum */
  MatrixRef a, b, c;
  Dtype dtype;
} BatchedGemm;

/* Returns true if the kernel is only a batch of small matmuls.  Symbolic sizes
 * require small_batched_gemm. */
bool batched_gemm_choose(Kernel *k, Schedule *s);
/* The symbolic extents of one matmul.  Returns the maximum of a small one; 0:
 * the kernel is no batch of matmuls. */
int64_t batched_gemm_symbolic_sizes(const Kernel *k, uint32_t width,
                                    int64_t sizes[3]);
/* Index of the operand's element that a lane of register v of the result
 * multiplies with; -1: the lane is idle. */
int64_t batched_gemm_factor_element(const BatchedGemm *p,
                                    const MatrixRef *operand, int64_t v,
                                    uint32_t width, int64_t lane_index,
                                    int64_t term, int64_t members);
/* registers that one shuffle reads */
enum { MAX_SHUFFLE_SOURCES = 2 };
/* Finds the operand registers that contain the factors.  Returns false if there
 * are more than MAX_SHUFFLE_SOURCES. */
bool batched_gemm_shuffle_sources(const BatchedGemm *p,
                                  const MatrixRef *operand, int64_t v,
                                  uint32_t width, int64_t term, int64_t members,
                                  int64_t sources[MAX_SHUFFLE_SOURCES]);
/* Number of elements that `members` matrices span. */
int64_t batched_gemm_members_span(const MatrixRef *b, int64_t members);
/* Rows of a tile of `vectors` vectors. */
uint32_t batched_gemm_max_mr(uint32_t vectors, uint32_t vector_bytes);
/* Returns true if the result uses non-temporal stores. */
bool batched_gemm_is_nontemporal(const Schedule *s, const Graph *g,
                                 const LoopOutput *r);

#endif
