/* backend/cuda: row kernels.  A thread group runs the loops of a kernel at one
 * point of the outer axes. */
#ifndef AXON_CUDA_ROW_KERNEL_H
#define AXON_CUDA_ROW_KERNEL_H

#include "backend/cuda/nest_emit.h"
#include "backend/cuda/threads.h"
#include "support/buffer.h"
#include "support/vec.h"

/* Elements of an input that a thread keeps in registers for all loops. */
typedef struct RegisterRow {
  const RowNest *nest;
  const KernelOp *load;
  const char *name;
} RegisterRow;

/* A sum of exponentials that is computed in the loop that finds the maximum of
 * the row (online softmax).  Each block of terms is relative to the maximum so
 * far. */
typedef struct OnlineSum {
  ExpSumPattern pattern;
  /* acc%u; its value before a block is before%u, and the maximum of this thread
   * is own%u */
  uint32_t max_name;
  CudaAccumulator block_sum, running_sum;
} OnlineSum;

typedef struct ThreadGroup {
  CudaWriter *w;
  Buffer body;
  OnlineSum online_sums[MAX_KERNEL_LOOPS]; /* by loop */
  VEC(RegisterRow) register_rows;
  /* Reductions of the group through shared memory: in total, and emitted so
   * far. */
  uint32_t reduction_count, reductions_done;
  bool has_arg_reduction, needs_barrier; /* other uses of shared memory */
} ThreadGroup;

/* ---- row_kernel.c ---- */

/* Begins a loop nest: emits its ops, but no stores.  first: replaces the value
 * of the first op; NULL: no replacement. */
void row_loop_begin(ThreadGroup *t, NestWriter *p, const LoopNest *loop,
                    uint32_t at, const char *first);
/* Combines the accumulators of all threads, and stores the sum: the group has
 * it once. */
void thread_group_end_sum(ThreadGroup *t, NestWriter *p, uint32_t j,
                          Buffer *out);

/* ---- online_softmax.c ---- */

void online_match(ThreadGroup *t);
/* The parts of loop `at` that computes the maximum: declarations before the
 * loop, code at the start of each block, code after each block (empty if no sum
 * depends on the maximum), and code after the loop. */
void online_declare(const ThreadGroup *t, uint32_t at, Buffer *out);
void online_begin(const ThreadGroup *t, uint32_t at, Buffer *out);
Buffer online_put_blocks(ThreadGroup *t, uint32_t at);
void online_end(const ThreadGroup *t, uint32_t at, Buffer *out);
/* Emitted in place of the loop of the sum: rescales the sums of the threads to
 * the final maximum and combines them. */
void online_put_rescale(ThreadGroup *t, uint32_t at);

#endif
