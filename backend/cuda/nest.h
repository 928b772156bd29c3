/* backend/cuda: nests of passes without sums (kernel/nest.h).  All loop nests
 * of such a pass have the same axes, and run in the loops of one nest. */
#ifndef AXON_CUDA_NEST_H
#define AXON_CUDA_NEST_H

#include "backend/cuda/kernel.h"
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

/* ---- nest_refusal.c ---- */

/* Returns NULL, or the reason for which a GPU cannot run the nest of the
 * pass. */
const char *cuda_nest_refusal(const CudaPass *p, const Nest *n,
                              const CudaTarget *target);

#endif
