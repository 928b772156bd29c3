/* backend/cuda, for the files that write kernels with rows: a team of threads
 * goes through a kernel's loops at a point of its outer axes. */
#ifndef AXON_CUDA_ROW_KERNEL_H
#define AXON_CUDA_ROW_KERNEL_H

#include "backend/cuda/match_exp_sum.h"

typedef enum RowLoopKind {
  ROW_SCALAR,         /* no inner axes: all threads of a team do the same */
  ROW_MAP,            /* results all along the row */
  ROW_REDUCE,         /* one number comes of a row, */
  ROW_PARTIAL_REDUCE, /* or of each part of one; and perhaps there are results
                         of each element beside it */
  ROW_LOOP_KINDS,
} RowLoopKind;

static inline RowLoopKind row_loop_kind(const LoopNest *loop) {
  if (loop->axis_count == loop->parallel_axes)
    return ROW_SCALAR;
  if (loop->spatial_axes == loop->axis_count)
    return ROW_MAP;
  return loop->spatial_axes == loop->parallel_axes ? ROW_REDUCE
                                                   : ROW_PARTIAL_REDUCE;
}

/* An input's elements that a thread keeps for all loops. */
typedef struct RegisterRow {
  const LoopNest *loop;
  const KernelOp *load;
  const char *name;
} RegisterRow;

/* A sum of exponents that goes on while the largest of the row is found, by a
 * loop before it: of each portion relative to the largest so far. */
typedef struct OnlineSum {
  ExpSumPattern pattern;
  uint32_t max_name; /* acc%u; what it was before a portion: before%u, and what
                        a thread has found in all of its: own%u */
  CudaAccumulator block_sum, running_sum;
} OnlineSum;

typedef struct ThreadGroup {
  CudaWriter *w;
  Buffer body;
  OnlineSum online_sums[MAX_KERNEL_LOOPS]; /* by loop */
  VEC(RegisterRow) register_rows;
  uint32_t reduction_count,
      reductions_done; /* sums of a team in shared memory: all, so far */
  bool has_arg_reduction,
      needs_barrier;     /* what else shared memory is used for */
  int64_t shared_bytes;  /* bytes of local values of one point, a size */
  int64_t scratch_bytes; /* bytes of scratch memory of one team, a size */
} ThreadGroup;

/* A loop as it is written. */
typedef struct RowLoop {
  const LoopNest *loop;
  uint32_t loop_index; /* its number in the pass */
  RowLoopKind kind;
  uint32_t distributed_axes[MAX_KERNEL_AXES],
      distributed_count; /* shared out; the last is of neighbours */
  uint32_t vector_width, vectors_in_registers;
  int64_t row_length; /* elements that are shared out: a size */
  CudaAccumulator accumulators[MAX_LOOP_OUTPUTS];
  Buffer loads, stores;
  /* Vector loads of all of a thread's elements, before the loop: so that they
   * are in flight together.  `early_aligned` is a condition under which
   * `early_loads` are right; `early_scalar_loads` always are. */
  Buffer early_loads, early_scalar_loads, early_aligned;
  uint32_t early_elements;
} RowLoop;

/* ---- row_loop.c ---- */

enum {
  SUM_BLOCK_TERMS = 128, /* of floats, that are added up in floats */
  VECTOR_UNROLL = 4,     /* vectors in a turn */
  WARP = 32,
};

static inline bool is_output_used(const LoopOutput *r) {
  return r->global_index || r->local_index;
}
bool row_output_is_reduction(const LoopOutput *r);
const CudaLocal *row_output_local(const CudaWriter *w, uint32_t loop,
                                  uint32_t result);
/* Slots of shared memory between which a group's reductions alternate, and
 * bytes of each.
 */
uint32_t row_reduction_slots(const ThreadGroup *t);
uint32_t row_reduction_slot_bytes(const ThreadGroup *t);
/* Do two loops share out the same row in the same way? */
bool row_loops_match(const CudaWriter *w, const LoopNest *x, const LoopNest *y);
/* A loop's steps, but for what stores them.  first: what its first step is; or
 * NULL, as it says. */
void row_loop_begin(ThreadGroup *t, RowLoop *n, const LoopNest *loop,
                    uint32_t at, const char *first);
/* The loop over a row from `from` to `to`, of which `takes` is done with each
 * element. */
void row_loop_put_for(ThreadGroup *t, const RowLoop *n, Buffer *out,
                      const Buffer *update, const char *from, const char *to);
/* for (j ...) { its axes; what vectors are loaded; for (v ...) {, and the end
 * of these. */
void row_open(CudaWriter *w, const RowLoop *n, Buffer *out, const char *from,
              const char *to);
void row_close(const RowLoop *n, Buffer *out);
/* All that a team's threads have of a sum in one, for all of it; a result that
 * is one number of the team. */
void thread_group_put_reduction(ThreadGroup *t, const CudaAccumulator *s,
                                Buffer *out);
void thread_group_put_scalar(ThreadGroup *t, const RowLoop *n, uint32_t j,
                             const char *x, Buffer *out);

/* ---- online_softmax.c: sums that go on with the largest of a row ---- */

void online_match(ThreadGroup *t);
/* Of the loop `at` that has the largest: what is declared before its walk, what
 * stands at the beginning of each portion, what is done behind one (nothing:
 * no sum goes on with it), and what stands behind all of them. */
void online_declare(const ThreadGroup *t, uint32_t at, Buffer *out);
void online_begin(const ThreadGroup *t, uint32_t at, Buffer *out);
Buffer online_put_blocks(ThreadGroup *t, uint32_t at);
void online_end(const ThreadGroup *t, uint32_t at, Buffer *out);
/* Where such a sum's own loop is: what threads have is scaled to v, and put
 * together. */
void online_put_rescale(ThreadGroup *t, uint32_t at);

#endif
