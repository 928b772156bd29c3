/* backend/cuda, for the files that write contractions.
 *
 * Names in the text: thread, lane and warp; memory and shared, the block's
 * shared memory as a pointer and as a number; m_all, n_all, k_all, how many
 * rows, columns and terms there are; m0, n0, where the tile begins; batch;
 * from, to, the terms that the block sums. */
#ifndef AXON_CUDA_GEMMEMIT_H
#define AXON_CUDA_GEMMEMIT_H

#include "backend/cuda/gemm.h"

/* An operand of the block's tile. */
typedef struct GemmSource {
  const GemmText *t;
  bool b;
  char letter; /* 'a' or 'b' */
  const GemmSide *side;
  const GemmOperand *operand;
  const GemmGroup *along; /* the group of its rows: m or n */
  SharedTile tile;
  bool turned;     /* rows of the tile are terms */
  uint32_t copy;   /* bytes; 0: element by element */
  uint32_t vector; /* elements of a copy, or of what is stored at once */
  uint32_t across; /* copies of a row of the tile */
  uint32_t passes;
  bool whole;      /* each thread has a copy in each pass */
  bool spread;     /* neighbouring threads have terms, and not columns */
  bool held;       /* it goes through registers */
  uint32_t bytes;  /* of a stage */
  const char *end; /* where terms end, in the text */
} GemmSource;

GemmSource gemm_source(const GemmText *t, bool b);
/* Expressions of 64 bits: where an axis's part of an address is. */
void gemm_put_axes(Buffer *out, const GemmGroup *g, const char *index);
/* `const int64_t name = ` the sum of index * stride over the group's axes. */
void gemm_put_offset(Buffer *out, const GemmGroup *g, const char *name, bool b);
/* NULL: the operand is the same all along the axis. */
static inline const char *gemm_stride(const GemmAxis *a, bool b) {
  return b ? a->stride_b : a->stride_a;
}
/* The number of elements of a group, an int. */
void gemm_put_extent(Buffer *out, const GemmGroup *g, const char *name);
const char *gemm_scalar(Dtype t); /* "float": of values */
const char *gemm_stored(Dtype t); /* "uint16_t": in memory */
/* An element's bits as its value, and a value as these. */
void gemm_put_widened(Buffer *out, Dtype t, const char *x);
void gemm_put_narrowed(Buffer *out, Dtype t, const char *x);

/* Functions before the kernel: where an element of a tile lies. */
void gemm_put_places(Buffer *out, const GemmSource *s);
/* What a thread knows of its copies before the first stage. */
void gemm_put_begin(Buffer *out, const GemmSource *s);
/* Copies of a stage begin: to shared memory at `at`, of terms from `term` on;
 * or, of one that goes through registers, loads. */
void gemm_put_load(Buffer *out, const GemmSource *s, const char *at,
                   const char *term);
/* Stores of what was loaded. */
void gemm_put_held(Buffer *out, const GemmSource *s, const char *at);
/* Elements of a stage are computed and stored, some at a time: so many of a
 * thread's passes, so that reads do not wait for each other. */
uint32_t gemm_ahead(uint32_t passes);
void gemm_put_computed(Buffer *out, const GemmSource *s, const char *at,
                       const char *term);

/* ---- gemmstore.c ---- */

/* What is done with `count` sums x[0] .. of row i and columns j, j + 1, ...;
 * guarded by the extents. */
void gemm_put_row(Buffer *out, const GemmText *t, uint32_t count);
/* Sums of 16 rows of mma's (or a warpgroup's) result, as threads have them in
 * the array `sums`, through the warp's `slab`; the first is at this row and
 * column of the tile. */
void gemm_put_slab(Buffer *out, const GemmText *t, const char *sums,
                   const char *row, const char *column);
uint32_t gemm_slab_columns(const GemmSchedule *s);
uint32_t gemm_slab_pitch(const GemmSchedule *s); /* of floats */
/* Parts of a sum that blocks have made are added up by the last of them, which
 * goes on in a block that stays open.  The array c has `count` of a thread, in
 * rows of `each`. */
void gemm_put_split(Buffer *out, const GemmText *t, uint32_t count,
                    uint32_t each);

/* ---- gemmreduce.c ---- */

/* What rows come to, if anything: of the sums that gemm_put_slab has, part so
 * much of the tile's row; or of multiply-adds, a thread's rows and columns in
 * groups of these. */
void gemm_put_rows(Buffer *out, const GemmText *t, const char *sums,
                   const char *row, const char *column, const char *part);
void gemm_put_rows_fma(Buffer *out, const GemmText *t, uint32_t gm,
                       uint32_t gn);

/* ---- gemmbox.c ---- */

/* The same by TMA, the sums of a warp of a group: `sets` is where its memory
 * begins, `stored` counts what it has stored. */
void gemm_put_sets(Buffer *out, const GemmText *t, const char *sums,
                   const char *row);
uint32_t gemm_set_bytes(const GemmShape *shape, const GemmSchedule *s);
/* Bytes of a warp for it, of warpgroups. */
uint32_t gemm_out_bytes(const GemmShape *shape, const GemmSchedule *s);

/* ---- gemmtext.c ---- */

/* Names that all texts begin with; sizes; which tile it is. */
/* What is done with a stage, number `read` of the ring: the step's product. */
typedef void GemmProduct(Buffer *out, const void *owner, const GemmSource *a,
                         const GemmSource *b);
void gemm_put_stages(Buffer *out, const GemmText *t, const GemmSource *a,
                     const GemmSource *b, GemmProduct *product,
                     const void *owner);
typedef struct GemmFragments {
  const char *name, *at; /* the array; where the tile is, an address */
  const char *first, *term;
  uint32_t count;
  bool b; /* 16 rows of mma's second operand, and not of its first one */
  bool turned;
} GemmFragments;
void gemm_put_fragments(Buffer *out, const GemmSource *s,
                        const GemmFragments *f);
/* d += a * b by mma, of 16 rows, 8 columns and 32 bytes of terms. */
void gemm_put_product(Buffer *out, Dtype t, const GemmSchedule *s,
                      const char *d, const char *a, const char *b);
void gemm_put_start(Buffer *out);
void gemm_put_sizes(Buffer *out, const GemmText *t);
void gemm_put_tile(Buffer *out, const GemmText *t);

/* ---- gemmgroup.c ---- */

/* Of a thread of the group that has TMA copy, or computes operands, too; and
 * of the others. */
enum { GEMM_PRODUCER_REGISTERS = 40, GEMM_COMPUTER_REGISTERS = 104 };
uint32_t gemm_producer_registers(const GemmSchedule *s);
uint32_t gemm_group_registers(uint32_t groups, uint32_t producer);

typedef struct GemmBoxes {
  const SharedTile *tile;
  const GemmGroup *batch;
  bool b; /* whose strides it has */
  const char *at, *map, *barrier;
  uint32_t share; /* 0, or: of so many parts of its rows this block has
                     the one of this number copied to some blocks */
  const char *part, *blocks;
  const char *dense, *other; /* where it begins, ints */
} GemmBoxes;
void gemm_put_boxes(Buffer *out, const GemmBoxes *b);
uint32_t gemm_tile_at(const SharedTile *t, uint32_t row, uint32_t column);
/* turned: its rows are terms. */
void gemm_put_descriptor(Buffer *out, const SharedTile *tile, bool turned,
                         const char *name, const char *at);
void gemm_group_put(Buffer *before, Buffer *out, const GemmText *t);

#endif
