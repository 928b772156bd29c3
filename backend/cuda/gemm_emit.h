/* backend/cuda, for the files that write contractions.
 *
 * Names in the text: thread, lane and warp; memory and shared, the block's
 * shared memory as a pointer and as a number; m_all, n_all, k_all, how many
 * rows, columns and terms there are; m0, n0, where the tile begins; batch;
 * from, to, the terms that the block sums. */
#ifndef AXON_CUDA_GEMM_EMIT_H
#define AXON_CUDA_GEMM_EMIT_H

#include "backend/cuda/gemm.h"

/* An operand of the block's tile. */
typedef struct GemmTiledCopy {
  const GemmKernelSpec *spec;
  bool b;
  char letter; /* 'a' or 'b' */
  const GemmSide *side;
  const GemmOperand *operand;
  const GemmAxisGroup *mn_axes; /* the group of its rows: m or n */
  SmemTile tile;
  bool mn_major;         /* rows of the tile are terms */
  uint32_t copy_bytes;   /* bytes; 0: element by element */
  uint32_t vector_width; /* elements of a copy, or of what is stored at once */
  uint32_t copies_per_row; /* copies of a row of the tile */
  uint32_t iterations;
  bool is_even;         /* each thread has a copy in each pass */
  bool k_interleaved;   /* neighbouring threads have terms, and not columns */
  bool via_registers;   /* it goes through registers */
  uint32_t stage_bytes; /* of a stage */
  const char *k_end;    /* where terms end, in the text */
} GemmTiledCopy;

GemmTiledCopy gemm_tiled_copy(const GemmKernelSpec *t, bool b);
/* Expressions of 64 bits: where an axis's part of an address is. */
void gemm_put_unravel(Buffer *out, const GemmAxisGroup *g, const char *index);
/* `const int64_t name = ` the sum of index * stride over the group's axes. */
void gemm_put_offset(Buffer *out, const GemmAxisGroup *g, const char *name,
                     bool b);
/* NULL: the operand is the same all along the axis. */
static inline const char *gemm_stride(const GemmAxis *a, bool b) {
  return b ? a->stride_b : a->stride_a;
}
/* The number of elements of a group, an int. */
void gemm_put_extent(Buffer *out, const GemmAxisGroup *g, const char *name);
const char *gemm_compute_type(Dtype t); /* "float": of values */
const char *gemm_storage_type(Dtype t); /* "uint16_t": in memory */
/* An element's bits as its value, and a value as these. */
void gemm_put_widened(Buffer *out, Dtype t, const char *x);
void gemm_put_narrowed(Buffer *out, Dtype t, const char *x);

/* Functions before the kernel: where an element of a tile lies. */
void gemm_put_smem_offset(Buffer *out, const GemmTiledCopy *s);
/* What a thread knows of its copies before the first stage. */
void gemm_put_copy_setup(Buffer *out, const GemmTiledCopy *s);
/* Copies of a stage begin: to shared memory at `at`, of terms from `term` on;
 * or, of one that goes through registers, loads. */
void gemm_put_copy(Buffer *out, const GemmTiledCopy *s, const char *at,
                   const char *first_k);
/* Stores of what was loaded. */
void gemm_put_registers_to_shared(Buffer *out, const GemmTiledCopy *s,
                                  const char *at);
/* Elements of a stage are computed and stored, some at a time: so many of a
 * thread's passes, so that reads do not wait for each other. */
uint32_t gemm_loads_in_flight(uint32_t passes);
void gemm_put_computed(Buffer *out, const GemmTiledCopy *s, const char *at,
                       const char *first_k);

/* ---- gemm_block.c ---- */

enum {
  SM_REGISTERS = 65536,       /* of a multiprocessor */
  MAX_THREAD_REGISTERS = 255, /* of a thread */
  WARPGROUP_THREADS = 128, /* threads that do one wgmma, or things each clock */
  PRODUCER_THREADS = 128,
  SMEM_ALIGN_BYTES = 1024,
  STORE_BOX_ROWS = 16, /* of a warp, that TMA stores */
};
uint32_t gemm_element_bytes(const GemmShape *shape);
/* Bytes of a panel of an operand's tile. */
uint32_t gemm_panel_bytes(uint32_t columns, uint32_t bytes, uint32_t max);
uint32_t gemm_epilogue_tile_columns(const GemmSchedule *s);
uint32_t gemm_epilogue_tile_pitch(const GemmSchedule *s); /* of floats */
/* What TMA stores of a result, and of all results, at a time: bytes. */
uint32_t gemm_tma_box_bytes(const GemmShape *shape, const GemmSchedule *s);
uint32_t gemm_store_stage_bytes(const GemmShape *shape, const GemmSchedule *s);
/* Bytes of a warp for its epilogue, of warpgroups. */
uint32_t gemm_warp_epilogue_bytes(const GemmShape *shape,
                                  const GemmSchedule *s);

/* ---- gemm_preamble.c ---- */

/* Names that all texts begin with; sizes; which tile it is. */
void gemm_put_preamble(Buffer *out);
void gemm_put_problem_size(Buffer *out, const GemmKernelSpec *t);
void gemm_put_tile_coords(Buffer *out, const GemmKernelSpec *t);

/* ---- gemm_epilogue.c ---- */

/* What is done with `count` sums x[0] .. of row i and columns j, j + 1, ...;
 * guarded by the extents. */
void gemm_put_epilogue_row(Buffer *out, const GemmKernelSpec *t,
                           uint32_t count);
/* Sums of 16 rows of mma's (or a warpgroup's) result, as threads have them in
 * the array `sums`, through the warp's `slab`; the first is at this row and
 * column of the tile. */
void gemm_put_epilogue_via_shared(Buffer *out, const GemmKernelSpec *t,
                                  const char *sums, const char *row,
                                  const char *column);
/* Parts of a sum that blocks have made are added up by the last of them, which
 * goes on in a block that stays open.  The array c has `count` of a thread, in
 * rows of `each`. */
void gemm_put_split_k_fixup(Buffer *out, const GemmKernelSpec *t,
                            uint32_t count, uint32_t each);

/* ---- gemm_epilogue_reduce.c ---- */

/* What rows come to, if anything: of the sums that gemm_put_epilogue_via_shared
 * has, part so much of the tile's row; or of multiply-adds, a thread's rows and
 * columns in groups of these. */
void gemm_put_row_reduction(Buffer *out, const GemmKernelSpec *t,
                            const char *sums, const char *row,
                            const char *column, const char *part);
void gemm_put_row_reduction_fma(Buffer *out, const GemmKernelSpec *t,
                                uint32_t vector_m, uint32_t vector_n);

/* ---- gemm_epilogue_tma.c ---- */

/* The same by TMA, the sums of a warp of a group: `sets` is where its memory
 * begins, `stored` counts what it has stored. */
void gemm_put_epilogue_tma(Buffer *out, const GemmKernelSpec *t,
                           const char *sums, const char *row);

/* ---- gemm_mainloop.c ---- */

/* What is done with a stage, number `read` of the ring: the step's product. */
typedef void GemmPutMma(Buffer *out, const void *owner, const GemmTiledCopy *a,
                        const GemmTiledCopy *b);
void gemm_put_mainloop(Buffer *out, const GemmKernelSpec *t,
                       const GemmTiledCopy *a, const GemmTiledCopy *b,
                       GemmPutMma *product, const void *owner);
typedef struct FragmentLoad {
  const char *name, *smem_tile; /* the array; where the tile is, an address */
  const char *first_row, *first_k;
  uint32_t count;
  bool b; /* 16 rows of mma's second operand, and not of its first one */
  bool transposed;
} FragmentLoad;
void gemm_put_fragment_load(Buffer *out, const GemmTiledCopy *s,
                            const FragmentLoad *f);
/* d += a * b by mma, of 16 rows, 8 columns and 32 bytes of terms. */
void gemm_put_mma(Buffer *out, Dtype t, const GemmSchedule *s, const char *d,
                  const char *a, const char *b);

/* ---- gemm_wgmma.c ---- */

/* Of a thread of the group that has TMA copy, or computes operands, too; and
 * of the others. */
uint32_t gemm_producer_registers(const GemmSchedule *s);
uint32_t gemm_consumer_registers(uint32_t groups, uint32_t producer);

typedef struct TmaLoad {
  const SmemTile *tile;
  const GemmAxisGroup *batch;
  bool b; /* whose strides it has */
  const char *smem_address, *tensor_map, *barrier;
  uint32_t
      multicast_parts; /* 0, or: of so many parts of its rows this block has
                          the one of this number copied to some blocks */
  const char *multicast_part, *multicast_mask;
  const char *contiguous_coord, *strided_coord; /* where it begins, ints */
} TmaLoad;
void gemm_put_tma_load(Buffer *out, const TmaLoad *b);
uint32_t gemm_unswizzled_offset(const SmemTile *t, uint32_t row,
                                uint32_t column);
/* turned: its rows are terms. */
void gemm_put_smem_descriptor(Buffer *out, const SmemTile *tile,
                              bool transposed, const char *name,
                              const char *at);
void gemm_put_wgmma_kernel(Buffer *before, Buffer *out,
                           const GemmKernelSpec *t);

#endif
