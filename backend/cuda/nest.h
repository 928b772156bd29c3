/* backend/cuda: nests of passes (kernel/nest.h).  All loop nests of a pass
 * without sums have the same axes, and run in the loops of one nest.  In other
 * passes, each loop nest has its own nest: a thread group shares its row. */
#ifndef AXON_CUDA_NEST_H
#define AXON_CUDA_NEST_H

#include "backend/cuda/kernel.h"
#include "backend/cuda/match_exp_sum.h"
#include "kernel/nest.h"

/* ---- nest_choose.c ---- */

/* The nest of a pass without steps. */
Nest *cuda_nest_new(const CudaPass *p);
/* Makes the nest the schedule of the pass. */
void cuda_nest_use(CudaSchedule *s, Nest *n);
/* Adjacent threads compute adjacent vectors along an axis. */
void cuda_nest_choose_points(CudaPass *p, uint32_t last, uint32_t vector,
                             uint32_t threads);
/* Blocks transpose tiles of an axis that is contiguous in operands, and of the
 * last one, which is contiguous in results. */
void cuda_nest_choose_tiles(CudaPass *p, uint32_t along, uint32_t last,
                            uint32_t side, uint32_t threads);
/* The threads of a block. */
int64_t cuda_nest_threads(const Nest *n);
/* The iterations of a tile in shared memory along each of its axes. */
uint32_t cuda_nest_tile_side(const Nest *n);
/* Elements per row of a tile in shared memory, with a padding that places the
 * elements of a column in different banks; and bytes of the tile. */
uint32_t cuda_nest_tile_pitch(const Nest *n, Dtype t);
int64_t cuda_nest_tile_bytes(const Nest *n, Dtype t);
/* Returns true if a load goes through shared memory. */
bool cuda_nest_shares(const Nest *n, const LoopNest *loop, const KernelOp *s);
void cuda_nest_describe(Buffer *out, const Nest *n);

/* ---- rows ---- */

enum {
  /* Floats that are summed before they are added to a second accumulator. */
  SUM_BLOCK_TERMS = 128,
  REDUCTION_SLOT_BYTES = 16,
};

typedef enum RowLoopKind {
  ROW_SCALAR, /* no inner axes: all threads of the group compute the same */
  ROW_MAP,    /* results for each element of the row */
  ROW_REDUCE, /* reduces the row to one value */
  /* Reduces each part of the row; may also store elements. */
  ROW_PARTIAL_REDUCE,
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

/* Returns true if the elements of a row are in the same threads as those of
 * other loop nests. */
static inline bool row_shares_elements(const LoopNest *loop) {
  RowLoopKind kind = row_loop_kind(loop);
  return kind == ROW_MAP || kind == ROW_REDUCE;
}

static inline bool is_output_used(const LoopOutput *r) {
  return r->global_index || r->local_index;
}

static inline bool row_output_is_reduction(const LoopOutput *r) {
  return is_output_used(r) && r->reduce != PRIM_NONE;
}

/* What the nest of a loop nest says. */
typedef struct RowNest {
  const Nest *nest;
  uint32_t point_axis, axis;                  /* of the loops; NO_LOOP: none */
  uint32_t axes[MAX_KERNEL_AXES], axis_count; /* of the row, outermost first */
  uint32_t points;                            /* of a block */
  uint32_t group_threads;                     /* of a point */
  bool is_across; /* adjacent threads have adjacent points */
  uint32_t vector_width, vectors_in_registers;
  int64_t run_elements; /* of the row, or terms of an element; 0: none */
  uint32_t run_loop;    /* whose iterations are runs */
  bool has_runs;        /* float sums are added to others after each run */
  bool is_online;
  int64_t chunk; /* terms of a sum in a block; 0: all */
} RowNest;

/* ---- row_nest.c ---- */

/* Returns true if the iterations of a loop are runs: it is serial, and so is
 * the next loop of its axis. */
bool nest_has_runs(const Nest *n, uint32_t at);

/* Returns NULL, or the reason for which the loops are none of a thread
 * group. */
const char *cuda_row_nest_read(const Nest *n, RowNest *r);
/* Returns NULL, or the reason for which a GPU cannot run the nests of a pass.
 * *loop is then the loop nest. */
const char *cuda_rows_refusal(const CudaPass *p, const RowNest *rows,
                              uint32_t *loop);

/* ---- row_choose.c ---- */

/* The axes of the row that a thread group shares. */
void cuda_row_axes(const LoopNest *loop, uint32_t *first, uint32_t *end);
/* Returns true if two loop nests have the same elements in the same threads. */
bool row_nests_match(const RowNest *x, const RowNest *y);
/* Chooses which rows are kept between loop nests: sets p->k. */
void cuda_choose_kept_rows(CudaPass *p, const CudaTarget *target);
/* Chooses the nests of a pass from the numbers of its schedule. */
void cuda_choose_row_nests(CudaPass *p, const CudaTarget *target,
                           bool may_be_online);
/* Makes the nests, one for each loop nest, the schedule of the pass.  Returns
 * NULL, or the reason for which they are none; *loop is then the loop nest. */
const char *cuda_rows_use(CudaPass *p, Nest **nests, const CudaTarget *target,
                          uint32_t *loop);

/* ---- nest_values.c ---- */

/* Where a value between loop nests lives.  offset: in the memory of its
 * point. */
typedef struct ValueHome {
  CudaStorage storage;
  int64_t offset;
} ValueHome;

/* By loop nest and output; and memory of a point, bytes; symbolic sizes. */
typedef struct ValueHomes {
  ValueHome *of[MAX_KERNEL_LOOPS];
  int64_t shared_bytes, scratch_bytes;
} ValueHomes;

/* Chooses where the values of a pass with sums live.  Returns NULL, or the
 * reason for which they have no place. */
const char *cuda_choose_homes(CudaPass *p, const CudaTarget *target);
/* Takes the homes of the schedule.  registers: declarations. */
void cuda_put_homes(CudaWriter *w, Buffer *registers);
/* Declares pointers to values in shared memory and in scratch memory. */
void cuda_put_value_pointers(CudaWriter *w);
/* Where an output of a loop nest of the pass lives. */
const CudaLocal *cuda_value(const CudaWriter *w, uint32_t at, uint32_t result);
/* Returns true if other threads read values of the loop nest in memory. */
bool cuda_stores_in_memory(const CudaWriter *w, uint32_t at);
/* The value that an op loads from a register; NULL: it is in memory.  width:
 * lanes. */
const char *cuda_load_value(CudaWriter *w, const KernelOp *s, uint32_t width);
/* Stores x as an output of v->loop: for later loop nests, and in the result of
 * the kernel.  live: the condition for stores in global memory; or NULL. */
void cuda_put_output(VectorAccess *v, Buffer *out, uint32_t result,
                     const CudaLocal *l, const char *live, const char *x);

/* ---- match_exp_sum.c ---- */

/* Finds the loop nest that computes the maximum for a sum of exponentials in
 * the same threads. */
bool cuda_match_online(const Kernel *k, const RowNest *rows, uint32_t at,
                       ExpSumPattern *sum);

/* ---- nest_refusal.c ---- */

/* Returns NULL, or the reason for which a block cannot have this number of
 * threads. */
const char *cuda_threads_refusal(Arena *arena, double threads);
/* Returns NULL, or the reason for which no loops of a GPU run so. */
const char *cuda_nest_loops_refusal(const Nest *n);
/* Returns NULL, or the reason for which a GPU cannot run the nest of the
 * pass. */
const char *cuda_nest_refusal(const CudaPass *p, const Nest *n,
                              const CudaTarget *target);

#endif
