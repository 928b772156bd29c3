/* backend/cuda: contractions among the loops of kernels, as tiles (gemm.h). */
#ifndef AXON_CUDA_TILE_H
#define AXON_CUDA_TILE_H

#include "backend/cuda/gemm.h"
#include "backend/cuda/kernel.h"

/* Forms that are to be at least 0, and less than an extent. */
typedef struct CudaGuards {
  uint32_t count;
  Quasi of[GEMM_GUARDS];
  int64_t extent[GEMM_GUARDS];
} CudaGuards;

/* The left side of a convolution as pixels: its map; by axis of images (that of
 * neighbours first) the axes of rows and of k that walk over it, and how far.
 */
typedef struct CudaPixels {
  CudaMap map;
  uint32_t count, guards;
  uint32_t m[GEMM_PIXEL_AXES], k[GEMM_PIXEL_AXES];
  int64_t step[GEMM_PIXEL_AXES], move[GEMM_PIXEL_AXES];
  bool images; /* the first axis of rows: there are several */
} CudaPixels;

/* A pass that is one: what its loops are to it. */
typedef struct CudaTile {
  const char *arch; /* that its text is for */
  GemmGpu gpu;
  bool maps;   /* those who start it make its tensor maps, */
  bool counts; /* and have counters for parts of sums */
  GemmShape shape;
  GemmSchedule s;
  uint32_t batch[KERNEL_AXES], m[KERNEL_AXES], n[KERNEL_AXES], k[KERNEL_AXES];
  uint32_t batches, ms, ns, ks; /* how many axes of each there are */
  const Loop *a, *b; /* loops over the same axes, whose results are elements */
  const Step *copy_a,
      *copy_b; /* the reads that they are nothing but; or NULL */
  CudaGuards guards_a, guards_b; /* where they are, and 0 elsewhere */
  CudaMap map_a, map_b;          /* where TMA can copy them */
  CudaPixels pixels;
  const char *unused; /* why a schedule of a file is not used; or NULL */
} CudaTile;

/* NULL: the pass is none, or what there would be to choose does not fit. */
CudaTile *cuda_tile_find(Kernel *k, const CudaTarget *target);
/* Has it, beside other loops, a product that is better off in a pass of its
 * own? */
bool cuda_tile_apart(const Kernel *k);
/* The body of the pass, and what is to stand before it. */
void cuda_put_tile(CudaWriter *w, Buffer *before);

/* A size that is open, which texts have in 32 bits. */
void cuda_note_narrow(CudaWriter *w, int64_t size);

typedef struct CudaAxes {
  uint32_t count;
  const uint32_t *axes;
} CudaAxes;

/* ---- boxes.c ---- */

/* The tensor that a read is to TMA, without boxes: along axes of which
 * neighbours lie next to each other, others, and those of a batch.  False: it
 * is none that it takes. */
bool cuda_map_of(const Loop *loop, const Step *read, const CudaAxes axes[3],
                 CudaMap *to);
/* Likewise the operands of a tile: says of its shape how they come. */
void cuda_tile_maps(CudaTile *t, const Loop *loop);
/* Of the summed axis of a convolution, how many terms are of one pixel, where
 * they should be an axis of their own; 0: it is none such. */
int64_t cuda_channels(const Loop *loop);
/* And a result. */
bool cuda_result_map(const CudaTile *t, const Loop *loop, const Result *r,
                     CudaMap *to);
void cuda_result_box(const CudaTile *t, CudaMap *map);
/* Gives it the boxes of the tile's schedule. */
void cuda_tile_box(const CudaTile *t, bool b, CudaMap *map);

/* ---- of operands ---- */

/* What a value of 16 bits is that is but widened; or NULL. */
const Step *cuda_narrow_of(const Loop *side);
/* The read that the side is, of the type that its tile has; or NULL. */
const Step *cuda_copied_read(const Loop *side, Dtype t);
/* window.c: the same of a read within bounds, where it is 0 beyond these. */
const Step *cuda_guarded_read(Arena *arena, const Loop *side, Dtype t,
                              CudaGuards *to);
/* Which axis of a group is the last one, if elements along it are next to each
 * other, and copies of them do not go on to another one's. */
bool cuda_is_dense_group(const Loop *loop, const Quasi *at, uint32_t count,
                         const uint32_t *axes, uint32_t *align, uint32_t bytes);
/* Bytes that all parts of an address but one are multiples of. */
uint32_t cuda_align_of(const Loop *loop, const Quasi *at, uint32_t bytes,
                       uint32_t dense);
/* The same of all results. */
uint32_t cuda_store_align(const Kernel *k, uint32_t dense);
/* Are copies or stores of more than an element at once? */
bool cuda_wants_lines(const GemmSide *sides, uint32_t count,
                      uint32_t store_align);

/* ---- finish.c: what is done with sums ---- */

/* Statements of the loops from a product on, whose value is x; the axes have
 * their values.  to: of gemm's results.  given: the values of what earlier
 * loops left; or NULL, there are none. */
void cuda_put_loops(CudaWriter *w, Buffer *out, uint32_t first, const char *x,
                    const char *const to[GEMM_RESULTS],
                    const char *(*given)(CudaWriter *w, const Step *s));
/* One loop's; of the product, whose value is x, no steps.  to: or NULL, nothing
 * is stored. */
void cuda_put_loop(CudaWriter *w, Buffer *out, uint32_t at, const char *x,
                   const char *const to[GEMM_RESULTS],
                   const char *(*given)(CudaWriter *w, const Step *s));
/* How gemm's results are stored: may it be by TMA; what the loops behind the
 * product do. */
void cuda_finish_shape(const Kernel *k, CudaTile *t);
/* Does it neither read memory nor fault, wherever it is asked for? */
bool cuda_touches_nothing(const Step *s);
/* Does it read and write nothing but what gemm's results are? */
bool cuda_is_anywhere(const CudaWriter *w);
/* Those results that gemmstore.c stores; how many there are.  axes: of the
 * batch, rows, columns. */
uint32_t cuda_give_results(CudaWriter *w, const CudaAxes axes[3],
                           GemmResult to[GEMM_RESULTS]);

#endif
