/* backend/cuda: shared by the files that emit attention kernels.
 *
 * Variables of the generated code, besides those of gemm_emit.h:
 * - rows, terms: sizes of m and n
 * - row0: first row of the block
 * - s: scores, then weights, in the layout of an MMA accumulator
 * - second_s: the second product, in this layout
 * - sums: accumulators of the second matmul
 * - most, total: maximum and sum of the two rows of a thread
 * - done: steps of earlier tiles, or of earlier attempts
 * - attempt, again: with counters: 0, or 1 + the band of rows that the block
 *   repeats; whether it repeats
 * - turn, queries, odd: in a persistent kernel: the number of the block's tile;
 *   how many earlier ones have keys; with counters: 1 + the batch that the
 *   block repeats, or 0 */
#ifndef AXON_CUDA_ATTENTION_EMIT_H
#define AXON_CUDA_ATTENTION_EMIT_H

#include "backend/cuda/attention.h"
#include "backend/cuda/gemm_emit.h"
#include "machine/limits/cuda.h"

typedef struct Buffer Buffer;

/* The tiles of query and key of a score product, as operands of matmuls. */
typedef struct ProductGemms {
  char name[48]; /* of the query */
  GemmSchedule q_schedule, kv_schedule;
  GemmShape q_shape, kv_shape;
  GemmKernelSpec q_spec, kv_spec;
  GemmTiledCopy q_copy, k_copy;
} ProductGemms;

/* The schedule, shape and spec of the first product's key are also those of
 * the value. */
typedef struct AttentionGemms {
  ProductGemms first, second;
  GemmSchedule epilogue_schedule;
  GemmKernelSpec epilogue_spec;
  GemmTiledCopy v_copy;
} AttentionGemms;

/* Schedules of the query tile, and of the key and value tiles. */
void attention_gemm_schedules(const AttentionShape *shape,
                              const GemmSchedule *s, AttentionGemms *p);
void attention_gemms(const AttentionKernelSpec *t, AttentionGemms *p);
/* ---- attention_smem.c ---- */
/* Offsets in shared memory.  The stages are at offset 0.  state: maximum and
 * sum of the rows, which have state_pitch bytes per row; in a kernel that is
 * not persistent, they replace the query. */
typedef struct AttentionSmem {
  uint32_t query_offset, stage_bytes, v_offset, epilogue_offset, state_offset,
      state_pitch, warp_epilogue_bytes, barriers_offset, repeat_offset,
      total_bytes;
} AttentionSmem;
AttentionSmem attention_smem(const AttentionGemms *p, const GemmSchedule *s);
/* Declares the addresses of the mbarriers of queries (full_a), and of each
 * stage: full_b and empty_b of keys, full_v and empty_v of values. */
void attention_put_barrier_addresses(Buffer *out, const AttentionKernelSpec *t,
                                     const AttentionSmem *r);
/* ---- attention_softmax.c ---- */
/* Emit the sizes, the tile of a block, and the range of n that the rows of a
 * tile need.  scores: the scores are computed, too. */
void attention_put_sizes(Buffer *out, const AttentionKernelSpec *t);
void attention_put_block_tile(Buffer *out, const AttentionKernelSpec *t);
void attention_put_tile_bounds(Buffer *out, const AttentionKernelSpec *t,
                               bool scores);
/* Computes the scores of a tile; unmasked tiles have their own code path. */
void attention_put_scores(Buffer *out, const AttentionKernelSpec *t,
                          const char *row, const char *term);
void attention_put_online_softmax(Buffer *out, const AttentionKernelSpec *t);
/* Packs the weights s to p, the left operand of the second matmul. */
void attention_put_pack_all(Buffer *out, const AttentionKernelSpec *t);
/* Rescales accumulators and sums to the row maximum, in tcgen05 kernels. */
void attention_put_exact_maximum(Buffer *out, const AttentionKernelSpec *t,
                                 const AttentionGemms *p);
/* True if the row sums are needed. */
bool attention_has_row_sums(const AttentionKernelSpec *t);
void attention_put_pack_weights(Buffer *out, const AttentionKernelSpec *t,
                                const char *at);
void attention_put_accumulators(Buffer *out, const AttentionKernelSpec *t,
                                const AttentionGemms *p);
void attention_put_init(Buffer *out, const AttentionKernelSpec *t,
                        const AttentionGemms *p);
void attention_put_row_sums(Buffer *out, const AttentionKernelSpec *t,
                            const AttentionGemms *p);
void attention_put_trim_check(Buffer *out, const AttentionKernelSpec *t);
void attention_put_row_state(Buffer *out, const AttentionKernelSpec *t,
                             const char *address);
/* Appends the declarations of the row's maximum and sum for the epilogue, and
 * the stores of row statistics. */
void attention_put_row_prologue(Buffer *out, const AttentionKernelSpec *t);
/* The same for an epilogue in registers: copies of the two rows of a thread,
 * and the declarations for row `h`. */
void attention_put_register_rows(Buffer *out, const AttentionKernelSpec *t,
                                 Buffer *row_prologue);
/* ---- attention_wgmma.c ---- */
void attention_put_wgmma_kernel(Buffer *out, const AttentionKernelSpec *t,
                                AttentionGemms *p);
/* For all kernels with a producer: the beginning of a kernel; the loads of the
 * query, the keys and the values; where a warp stores its results (store
 * buffers, or a slab); the epilogue of `sums`, for the 16 rows from `row` on.
 */
void attention_put_begin(Buffer *out, const AttentionKernelSpec *t);
void attention_put_producer_loads(Buffer *out, const AttentionKernelSpec *t,
                                  AttentionGemms *p, const AttentionSmem *r);
void attention_put_epilogue_memory(Buffer *out, const AttentionKernelSpec *t,
                                   const AttentionSmem *r, const char *warp);
void attention_put_epilogue(Buffer *out, const AttentionKernelSpec *t,
                            AttentionGemms *p, const AttentionSmem *r);
/* ---- attention_tcgen05.c ---- */
void attention_put_tcgen05_kernel(Buffer *out, const AttentionKernelSpec *t,
                                  AttentionGemms *p);
/* ---- attention_persistent.c ---- */
/* Named barriers that blocks with counters share: the sums are counted, and the
 * results are stored. */
enum {
  ATTENTION_SUMS_BARRIER = ATTENTION_MAX_ORDERED_GROUPS + 1,
  ATTENTION_ATTEMPT_BARRIER,
  ATTENTION_NEXT_BARRIER, /* the results of all blocks are stored */
};
/* Threads of the consumers and of the first warp of the producer. */
uint32_t attention_attempt_threads(const AttentionKernelSpec *t);
/* Emits the wait of a warp for its stores by TMA: other blocks may then store
 * at the same place. */
void attention_put_stores_done(Buffer *out, const AttentionKernelSpec *t);
/* Emits the number of tiles and their order. */
void attention_put_tiles(Buffer *out, const AttentionKernelSpec *t);
/* Opens the loop over the tiles of the block, and emits the range of n of a
 * tile. */
void attention_put_tile_loop(Buffer *out, const AttentionKernelSpec *t,
                             bool producer);
/* Closes the loop. */
void attention_put_tile_end(Buffer *out);

#endif
