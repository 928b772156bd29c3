/* backend/cpu: small products of a batch, nothing of them copied. */
#ifndef AXON_CPU_BATCHED_SMALL_GEMM_H
#define AXON_CPU_BATCHED_SMALL_GEMM_H

#include "backend/cpu/cpu.h"

/* A block of an operand or of the result, m by n or so: one batch member's. */
typedef struct MatrixRef {
  const KernelOp *load; /* of an operand */
  int64_t row_stride,
      column_stride;    /* elements from row to row; from column to column */
  int64_t span;         /* from the first to behind the last */
  int64_t batch_stride; /* from member to member */
} MatrixRef;

/* result[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
 *
 * Where rows are short, m, n, k and how blocks lie are constants of the code;
 * there are some hundreds of such codes, not more.  Where they are longer, the
 * shape of a tile is one, and whether its last column of registers is full.
 * Where sizes are open there are tiles of each number of registers side by
 * side. */
typedef struct BatchedGemm {
  uint32_t m_axis, n_axis, batch_axis; /* outer axes */
  int64_t rows, columns, depth;
  int64_t
      per_register; /* members that are next to each other in each register */
  uint32_t mr, nr_vectors; /* of a tile; 0: whole blocks lie in registers */
  bool symbolic; /* the most vectors: rows, columns and depth are sizes */
  MatrixRef a, b, c;
  Dtype dtype;
} BatchedGemm;

/* Is the kernel such a product, and nothing else?  Of open sizes where it is
 * said to be `small` alone. */
bool batched_gemm_choose(Kernel *k, Schedule *s);
/* Of open sizes: those of a member, which small ones are at most so large; 0:
 * it is no such product. */
int64_t batched_gemm_symbolic_sizes(const Kernel *k, uint32_t width,
                                    int64_t sizes[3]);
/* Where a lane of register v of the result has its factor: an element of the
 * operand's block; -1: behind the last. */
int64_t batched_gemm_factor_element(const BatchedGemm *p,
                                    const MatrixRef *operand, int64_t v,
                                    uint32_t width, int64_t lane_index,
                                    int64_t term, int64_t members);
/* Registers that lanes are taken from at a time. */
enum { MAX_SHUFFLE_SOURCES = 2 };
/* The registers of an operand that its factors come from; false: too many. */
bool batched_gemm_shuffle_sources(const BatchedGemm *p,
                                  const MatrixRef *operand, int64_t v,
                                  uint32_t width, int64_t term, int64_t members,
                                  int64_t sources[MAX_SHUFFLE_SOURCES]);
/* The number of elements that `members` members span. */
int64_t batched_gemm_members_span(const MatrixRef *b, int64_t members);
/* Rows of a tile that is `vectors` vectors wide. */
uint32_t batched_gemm_max_mr(uint32_t vectors, uint32_t vector_bytes);
/* Does its result go past the caches? */
bool batched_gemm_is_nontemporal(const Schedule *s, const Graph *g,
                                 const LoopOutput *r);

#endif
