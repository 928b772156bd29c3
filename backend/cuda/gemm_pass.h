/* backend/cuda: contractions among the loops of kernels, as tiles (gemm.h). */
#ifndef AXON_CUDA_GEMM_PASS_H
#define AXON_CUDA_GEMM_PASS_H

#include "backend/cuda/gemm.h"
#include "backend/cuda/kernel.h"

/* Forms that are to be at least 0, and less than an extent. */
typedef struct BoundsPredicates {
  uint32_t count;
  AffineExpr index[GEMM_MAX_PREDICATES];
  int64_t extent[GEMM_MAX_PREDICATES];
} BoundsPredicates;

/* The left side of a convolution as pixels: its map; by axis of images (that of
 * neighbours first) the axes of rows and of k that walk over it, and how far.
 */
typedef struct Im2colOperand {
  TensorMap tensor_map;
  uint32_t spatial_axes, predicate_count;
  uint32_t m[GEMM_MAX_SPATIAL_AXES], k[GEMM_MAX_SPATIAL_AXES];
  int64_t stride[GEMM_MAX_SPATIAL_AXES], dilation[GEMM_MAX_SPATIAL_AXES];
  bool is_batched; /* the first axis of rows: there are several */
} Im2colOperand;

/* A pass that is one: what its loops are to it. */
typedef struct GemmPass {
  const char *arch; /* that its text is for */
  GpuSpec gpu;
  bool has_tensor_maps; /* those who start it make its tensor maps, */
  bool has_counters;    /* and have counters for parts of sums */
  GemmShape shape;
  GemmSchedule s;
  uint32_t batch[MAX_KERNEL_AXES], m[MAX_KERNEL_AXES], n[MAX_KERNEL_AXES],
      k[MAX_KERNEL_AXES];
  uint32_t batch_count, m_count, n_count,
      k_count; /* how many axes of each there are */
  const LoopNest *a,
      *b; /* loops over the same axes, whose results are elements */
  const KernelOp *load_a,
      *load_b; /* the reads that they are nothing but; or NULL */
  BoundsPredicates predicates_a,
      predicates_b;                     /* where they are, and 0 elsewhere */
  TensorMap tensor_map_a, tensor_map_b; /* where TMA can copy them */
  Im2colOperand im2col;
  const char
      *override_error; /* why a schedule of a file is not used; or NULL */
} GemmPass;

/* ---- gemm_match.c ---- */

/* NULL: the pass is none, or what there would be to choose does not fit. */
GemmPass *gemm_pass_match(Kernel *k, const CudaTarget *target);
/* Has it, beside other loops, a product that is better off in a pass of its
 * own? */
bool gemm_pass_needs_fission(const Kernel *k);
/* ---- gemm_pass.c ---- */

/* The body of the pass, and what is to stand before it. */
void gemm_pass_put(CudaWriter *w, Buffer *before);

typedef struct AxisList {
  uint32_t count;
  const uint32_t *axes;
} AxisList;

/* ---- tma_operand.c ---- */

/* The tensor that a read is to TMA, without boxes: along axes of which
 * neighbours lie next to each other, others, and those of a batch.  False: it
 * is none that it takes. */
bool tensor_map_of_load(const LoopNest *loop, const KernelOp *read,
                        const AxisList axes[3], TensorMap *to);
/* Likewise the operands of a tile: says of its shape how they come. */
void gemm_pass_find_tensor_maps(GemmPass *t, const LoopNest *loop);
/* Of the summed axis of a convolution, how many terms are of one pixel, where
 * they should be an axis of their own; 0: it is none such. */
int64_t gemm_pass_conv_channels(const LoopNest *loop);
/* And a result. */
bool gemm_pass_output_map(const GemmPass *t, const LoopNest *loop,
                          const LoopOutput *r, TensorMap *to);
void gemm_pass_set_output_box(const GemmPass *t, TensorMap *map);
/* Gives it the boxes of the tile's schedule. */
void gemm_pass_set_box(const GemmPass *t, bool b, TensorMap *map);

/* ---- operand_access.c ---- */

/* What a value of 16 bits is that is but widened; or NULL. */
const KernelOp *cuda_widened_half(const LoopNest *side);
/* The read that the side is, of the type that its tile has; or NULL. */
const KernelOp *cuda_plain_load(const LoopNest *side, Dtype t);
/* predicated_operand.c: the same of a read within bounds, where it is 0 beyond
 * these. */
const KernelOp *cuda_predicated_load(Arena *arena, const LoopNest *side,
                                     Dtype t, BoundsPredicates *to);
/* Which axis of a group is the last one, if elements along it are next to each
 * other, and copies of them do not go on to another one's. */
bool cuda_is_contiguous_group(const LoopNest *loop, const AffineExpr *at,
                              uint32_t count, const uint32_t *axes,
                              uint32_t *align, uint32_t bytes);
/* Bytes that all parts of an address but one are multiples of. */
uint32_t cuda_alignment_of(const LoopNest *loop, const AffineExpr *at,
                           uint32_t bytes, uint32_t dense);
/* The same of all results. */
uint32_t cuda_store_alignment(const Kernel *k, uint32_t dense);
/* Are copies or stores of more than an element at once? */
bool cuda_requires_align16(const GemmSide *sides, uint32_t count,
                           uint32_t store_align);

/* ---- epilogue.c: what is done with sums ---- */

/* Statements of the loops from a product on, whose value is x; the axes have
 * their values.  to: of gemm's results.  given: the values of what earlier
 * loops left; or NULL, there are none. */
void cuda_put_epilogue_loops(CudaWriter *w, Buffer *out, uint32_t first,
                             const char *x,
                             const char *const to[GEMM_MAX_OUTPUTS],
                             const char *(*precomputed)(CudaWriter *w,
                                                        const KernelOp *s));
/* One loop's; of the product, whose value is x, no steps.  to: or NULL, nothing
 * is stored. */
void cuda_put_epilogue_loop(CudaWriter *w, Buffer *out, uint32_t at,
                            const char *x,
                            const char *const to[GEMM_MAX_OUTPUTS],
                            const char *(*precomputed)(CudaWriter *w,
                                                       const KernelOp *s));
/* How gemm's results are stored: may it be by TMA; what the loops behind the
 * product do. */
void cuda_epilogue_shape(const Kernel *k, GemmPass *t);
/* Does it neither read memory nor fault, wherever it is asked for? */
bool cuda_is_speculatable(const KernelOp *s);
/* Does it read and write nothing but what gemm's results are? */
bool cuda_epilogue_is_bounds_safe(const CudaWriter *w);
/* Those results that gemm_epilogue.c stores; how many there are.  axes: of the
 * batch, rows, columns. */
uint32_t cuda_fill_gemm_outputs(CudaWriter *w, const AxisList axes[3],
                                GemmOutput to[GEMM_MAX_OUTPUTS]);

#endif
