/* backend/cuda: shared by the files that emit matmul kernels.
 *
 * Variables of the generated code:
 * - thread, lane, warp
 * - memory, shared: shared memory as a pointer and as a 32-bit address
 * - m_all, n_all, k_all: sizes
 * - m0, n0: first row and column of the tile
 * - batch: linear batch index
 * - from, to: range of k */
#ifndef AXON_CUDA_GEMM_EMIT_H
#define AXON_CUDA_GEMM_EMIT_H

#include "backend/cuda/gemm.h"

typedef struct Buffer Buffer;

/* The copy of an operand tile to shared memory. */
typedef struct GemmTiledCopy {
  const GemmKernelSpec *spec;
  bool b;
  char letter;      /* of its variables */
  char axis_letter; /* of its rows or columns: m or n */
  const GemmSide *side;
  const GemmOperand *operand;
  const GemmAxisGroup *mn_axes; /* m or n */
  SmemTile tile;
  bool mn_major;           /* rows of the tile are along k */
  uint32_t copy_bytes;     /* 0: element by element */
  uint32_t vector_width;   /* elements of a copy or a store */
  uint32_t copies_per_row; /* copies per row of the tile */
  uint32_t iterations;
  bool is_even;       /* every thread copies in every iteration */
  bool k_interleaved; /* neighbouring threads differ in k */
  bool via_registers;
  uint32_t stage_bytes; /* of this operand */
  const char *k_end;    /* expression for the end of k */
} GemmTiledCopy;

GemmTiledCopy gemm_tiled_copy(const GemmKernelSpec *t, bool b);
/* Declares the axis variables (int64_t) of the element with linear index
 * `index`. */
void gemm_put_unravel(Buffer *out, const GemmAxisGroup *g, const char *index);
/* Declares `name` (int64_t): the sum of index * stride over the axes of the
 * group. */
void gemm_put_offset(Buffer *out, const GemmAxisGroup *g, const char *name,
                     bool b);
/* NULL: the operand does not depend on the axis. */
static inline const char *gemm_stride(const GemmAxis *a, bool b) {
  return b ? a->stride_b : a->stride_a;
}
/* Declares `name` (int): the number of elements of the group. */
void gemm_put_extent(Buffer *out, const GemmAxisGroup *g, const char *name);
const char *gemm_compute_type(Dtype t); /* of values, e.g. "float" */
const char *gemm_storage_type(Dtype t); /* in memory, e.g. "uint16_t" */
/* Conversion from the bits in memory to a value, and back. */
void gemm_put_widened(Buffer *out, Dtype t, const char *x);
void gemm_put_narrowed(Buffer *out, Dtype t, const char *x);

/* Emits the function that gives the shared memory offset of a tile element. */
void gemm_put_smem_offset(Buffer *out, const GemmTiledCopy *s);
/* Emits what a thread computes before the first stage: the loop-invariant part
 * of addresses and predicates. */
void gemm_put_copy_setup(Buffer *out, const GemmTiledCopy *s);
/* Emits the copies of a stage to `at` in shared memory, from k index `first_k`
 * on.  Copies through registers only load here. */
void gemm_put_copy(Buffer *out, const GemmTiledCopy *s, const char *at,
                   const char *first_k);
/* Emits the shared stores of the loaded registers. */
void gemm_put_registers_to_shared(Buffer *out, const GemmTiledCopy *s,
                                  const char *at);
/* Iterations of a thread whose loads are in flight at the same time. */
uint32_t gemm_loads_in_flight(uint32_t passes);
void gemm_put_computed(Buffer *out, const GemmTiledCopy *s, const char *at,
                       const char *first_k);

/* ---- gemm_block.c ---- */

enum {
  SM_REGISTERS = 65536, /* per SM */
  MAX_THREAD_REGISTERS = 255,
  WARPGROUP_THREADS = 128,
  PRODUCER_THREADS = 128,
  SMEM_ALIGN_BYTES = 1024,
  STORE_BOX_ROWS = 16, /* rows of an MMA, per warp */
};
uint32_t gemm_element_bytes(const GemmShape *shape);
/* Width of a panel: `columns` elements of `bytes` bytes; at most `max`
 * bytes. */
uint32_t gemm_panel_bytes(uint32_t columns, uint32_t bytes, uint32_t max);
/* Columns of a tile that a warp has in the epilogue. */
uint32_t gemm_warp_columns(const GemmSchedule *s);
uint32_t gemm_epilogue_tile_columns(const GemmSchedule *s);
uint32_t gemm_epilogue_tile_pitch(const GemmSchedule *s); /* in floats */
/* Bytes of a TMA store of one output, and of all outputs. */
uint32_t gemm_tma_box_bytes(const GemmShape *shape, const GemmSchedule *s);
uint32_t gemm_store_stage_bytes(const GemmShape *shape, const GemmSchedule *s);
/* Shared memory of a warp for its epilogue, in wgmma kernels. */
uint32_t gemm_warp_epilogue_bytes(const GemmShape *shape,
                                  const GemmSchedule *s);

/* ---- gemm_preamble.c ---- */

/* Emit the common variables, the problem size, and the coordinates of the
 * tile. */
void gemm_put_preamble(Buffer *out);
void gemm_put_problem_size(Buffer *out, const GemmKernelSpec *t);
void gemm_put_tile_coords(Buffer *out, const GemmKernelSpec *t);

/* ---- gemm_epilogue.c ---- */

/* Emits the epilogue of x[0] to x[count - 1] in row i, columns j, j + 1, ....
 * The column extent is checked. */
void gemm_put_epilogue_row(Buffer *out, const GemmKernelSpec *t,
                           uint32_t count);
/* Emits the epilogue of 16 rows of an MMA accumulator, `sums`, through the
 * warp's shared memory `slab`.  row, column: position in the tile. */
void gemm_put_epilogue_via_shared(Buffer *out, const GemmKernelSpec *t,
                                  const char *sums, const char *row,
                                  const char *column);
/* Emits the split-K fixup: the last block of a tile adds the partial sums.  It
 * opens a block for the epilogue, which the caller closes.  A thread has
 * `count` accumulators, in rows of `lane_width`. */
void gemm_put_split_k_fixup(Buffer *out, const GemmKernelSpec *t,
                            uint32_t count, uint32_t lane_width);

/* ---- gemm_epilogue_reduce.c ---- */

/* Emit the row reductions, if there are any.  Partial result `part` comes from
 * the accumulators `sums` of an MMA; the second function is for fma kernels,
 * whose threads have groups of vector_m rows and vector_n columns. */
void gemm_put_row_reduction(Buffer *out, const GemmKernelSpec *t,
                            const char *sums, const char *row,
                            const char *column, const char *part);
void gemm_put_row_reduction_fma(Buffer *out, const GemmKernelSpec *t,
                                uint32_t vector_m, uint32_t vector_n);

/* ---- gemm_epilogue_tma.c ---- */

/* Emits the epilogue with TMA stores of a warp's accumulators.  `sets` is the
 * address of its store buffers, `stored` counts its stores. */
void gemm_put_epilogue_tma(Buffer *out, const GemmKernelSpec *t,
                           const char *sums, const char *row);

/* ---- gemm_mainloop.c ---- */

enum { MAX_TILED_COPIES = 3 };

/* The operand tiles of a stage, in their order in shared memory. */
typedef struct StageCopies {
  uint32_t count;
  const GemmTiledCopy *copies[MAX_TILED_COPIES];
} StageCopies;

uint32_t gemm_stage_bytes(const StageCopies *s);
/* Emits the MMAs of stage `read`. */
typedef void GemmPutMma(Buffer *out, const void *owner, const StageCopies *s);
/* Emits the loop over the stages; `k` terms belong to a stage. */
void gemm_put_mainloop(Buffer *out, const GemmSchedule *schedule, uint32_t k,
                       const StageCopies *s, GemmPutMma *product,
                       const void *owner);
typedef struct FragmentLoad {
  /* Name of the array; address of the tile in shared memory. */
  const char *name, *smem_tile;
  const char *first_row, *first_k;
  uint32_t count;
  bool b; /* Operand b of mma instead of a. */
  bool transposed;
} FragmentLoad;
void gemm_put_fragment_load(Buffer *out, const GemmTiledCopy *s,
                            const FragmentLoad *f);
/* Emits d += a * b as mma: 16 rows, 8 columns, 32 bytes of k. */
void gemm_put_mma(Buffer *out, Dtype t, const GemmSchedule *s, const char *d,
                  const char *a, const char *b);

/* ---- gemm_tma_pipeline.c ---- */

typedef struct TmaPipeline {
  GemmTiledCopy a, b;
  uint32_t consumer_groups, stages, stage_bytes;
  /* Offsets in shared memory. */
  uint32_t epilogue_offset, barriers_offset, counts_offset;
  uint32_t group_rows;    /* rows of a warpgroup's tile */
  bool producer_computes; /* an operand is computed by all producer threads */
} TmaPipeline;

TmaPipeline gemm_tma_pipeline(const GemmKernelSpec *t);
/* Converts a cluster-level number (of a tile or a partial sum) to the block's
 * number. */
const char *gemm_block_number(const GemmKernelSpec *t, const char *number,
                              char to[80]);
/* Emit the sizes of the work, its state, and the loop over segments, which
 * stays open.  tile: number of the tile, and `whole` with stream-K.  from, to:
 * range of k stages. */
void gemm_put_work_sizes(Buffer *out, const GemmKernelSpec *t);
void gemm_put_work_init(Buffer *out, const GemmKernelSpec *t);
void gemm_put_work_loop(Buffer *out, const GemmKernelSpec *t);
const char *gemm_has_work_expr(const GemmKernelSpec *t);
/* Declares `full` and `empty`, the mbarriers of the stages, and initializes
 * them in a block for thread 0, which stays open.  releases: arrivals after
 * which a stage is empty. */
/* ---- gemm_stream_k.c ---- */
/* The threads that share a tile with those of other blocks, and their sums:
 * float sums0[values], sums1[values], ... */
typedef struct StreamK {
  uint32_t arrays, values, threads;
  const char *member; /* number of the thread: an expression */
  char sync[60];      /* the barrier of these threads: a statement */
  /* Expression: offset in shared memory of a count. */
  char count_offset[40];
  /* Emits the declaration and the load of array x; NULL: they are loaded. */
  void (*put_load)(Buffer *out, const GemmSchedule *s, uint32_t x);
} StreamK;
/* Stores partial sums.  Declares `last`: this block runs the epilogue. */
void gemm_put_stream_k_begin(Buffer *out, const GemmKernelSpec *t,
                             const StreamK *k);
/* Adds the partial sums of other blocks to array x. */
void gemm_put_stream_k_sums(Buffer *out, const GemmKernelSpec *t,
                            const StreamK *k, uint32_t x);
/* ---- gemm_tma_pipeline.c ---- */
void gemm_put_stage_barriers(Buffer *out, const TmaPipeline *r,
                             uint32_t releases);
void gemm_put_producer(Buffer *out, const GemmKernelSpec *t,
                       const TmaPipeline *r);
/* Offset of a row or column in the tile of an operand, or of a k index. */
uint32_t gemm_mn_offset(const GemmTiledCopy *s, uint32_t at);
uint32_t gemm_k_offset(const GemmTiledCopy *s, uint32_t at);

typedef struct TmaLoad {
  const SmemTile *tile;
  const GemmAxisGroup *batch;
  bool b;    /* uses stride_b */
  bool pair; /* the bytes complete in the first block of the pair */
  const char *smem_address, *tensor_map, *barrier;
  /* Multicast: the tile rows have this many parts, and the block loads part
   * multicast_part for the blocks of multicast_mask.  0: no multicast. */
  uint32_t multicast_parts;
  const char *multicast_part, *multicast_mask;
  /* Coordinates of the first element, as int expressions. */
  const char *contiguous_coord, *strided_coord;
} TmaLoad;
void gemm_put_tma_load(Buffer *out, const TmaLoad *b);
uint32_t gemm_unswizzled_offset(const SmemTile *t, uint32_t row,
                                uint32_t column);

/* ---- gemm_wgmma.c ---- */

/* setmaxnreg: registers of a producer thread, and of a consumer thread if a
 * producer thread has `producer` registers. */
uint32_t gemm_producer_registers(const GemmSchedule *s);
uint32_t gemm_consumer_registers(uint32_t groups, uint32_t producer);

/* transposed: rows of the tile are along k. */
void gemm_put_smem_descriptor(Buffer *out, const SmemTile *tile,
                              bool transposed, const char *name,
                              const char *at);
void gemm_put_wgmma_kernel(Buffer *before, Buffer *out,
                           const GemmKernelSpec *t);

/* ---- gemm_scaled.c: shape.scale_block ---- */

/* Shared memory of the scales of a stage; columns of tensor memory of the
 * scales of all stages. */
uint32_t gemm_scale_bytes(const GemmShape *shape, const GemmSchedule *s);
uint32_t gemm_scale_columns(const GemmShape *shape, const GemmSchedule *s);
/* Fills a stage with elements and scales, by the threads of a warpgroup of its
 * own. */
void gemm_put_scaled_stage(Buffer *out, const GemmKernelSpec *t,
                           const TmaPipeline *r);
/* Emits the copies of the scales of a stage, and its products. */
void gemm_put_scaled_products(Buffer *out, const GemmKernelSpec *t,
                              const TmaPipeline *r);

/* ---- gemm_tcgen05.c ---- */

enum {
  TMEM_LANE_SHIFT = 16, /* of the lane in an address of tensor memory */
  TMEM_WARP_LANES = 32, /* lanes that a warp can access */
};

/* Columns of tensor memory of a block, as they are allocated; more than
 * TENSOR_MEMORY_COLUMNS: they do not fit. */
uint32_t gemm_tmem_columns(const GemmShape *shape, const GemmSchedule *s);
/* The least number that can be allocated. */
uint32_t gemm_tmem_allocation(uint32_t columns);
/* PTX ISA 9.7.16, "Instruction descriptor": f32 sums, types, storage, sizes. */
uint32_t gemm_tcgen05_instruction(Dtype dtype, uint32_t m, uint32_t n,
                                  bool a_mn_major, bool b_mn_major);
/* As gemm_put_smem_descriptor, at an offset in shared memory.  The swizzles
 * have other numbers: 2 for 128 bytes, 4 for 64 and 6 for 32. */
void gemm_put_tcgen05_descriptor(Buffer *out, const SmemTile *tile,
                                 bool transposed, const char *name,
                                 uint32_t offset);
/* Columns and registers of each part of 16 lanes that a load or store accesses.
 * An instruction has a power of two of them. */
typedef struct TmemGroups {
  uint32_t columns, registers, count;
} TmemGroups;
enum { TMEM_GROUP_COLUMNS = 8, TMEM_GROUP_REGISTERS = 4 }; /* of f32 */
/* access: ax_tmem_..._x1 without prefix and number. */
void gemm_put_tmem_access(Buffer *out, const char *access, const char *array,
                          const char *place, const TmemGroups *g);
void gemm_put_tcgen05_kernel(Buffer *before, Buffer *out,
                             const GemmKernelSpec *t);

#endif
