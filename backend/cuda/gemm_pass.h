/* backend/cuda: matches contractions in kernels, and emits them as matmul
 * passes (gemm.h). */
#ifndef AXON_CUDA_GEMM_PASS_H
#define AXON_CUDA_GEMM_PASS_H

#include "backend/cuda/gemm.h"
#include "backend/cuda/kernel.h"

typedef struct Arena Arena;

/* Conditions 0 <= index < extent. */
typedef struct BoundsPredicates {
  uint32_t count;
  AffineExpr index[GEMM_MAX_PREDICATES];
  int64_t extent[GEMM_MAX_PREDICATES];
} BoundsPredicates;

/* The left operand of a convolution for TMA's im2col mode.  For each spatial
 * axis (the contiguous one first): the row axis and the k axis that move along
 * it, with their stride and dilation. */
typedef struct Im2colOperand {
  TensorMap tensor_map;
  uint32_t spatial_axes, predicate_count;
  uint32_t m[GEMM_MAX_SPATIAL_AXES], k[GEMM_MAX_SPATIAL_AXES];
  int64_t stride[GEMM_MAX_SPATIAL_AXES], dilation[GEMM_MAX_SPATIAL_AXES];
  bool is_batched; /* the first row axis is the image */
} Im2colOperand;

/* The loads of an operand of 4-bit floats with scales. */
typedef struct ScaledOperand {
  const KernelOp *element, *scale;
} ScaledOperand;

/* A pass that is a matmul. */
typedef struct GemmPass {
  const char *arch; /* target architecture */
  GpuSpec gpu;
  bool has_tensor_maps; /* the launcher encodes tensor maps */
  bool has_counters;    /* the launcher provides split-K counters */
  GemmShape shape;
  GemmSchedule s;
  uint32_t batch[MAX_KERNEL_AXES], m[MAX_KERNEL_AXES], n[MAX_KERNEL_AXES],
      k[MAX_KERNEL_AXES];
  uint32_t batch_count, m_count, n_count, k_count;
  /* Loop nests whose results are the operand elements. */
  const LoopNest *a, *b;
  /* The load, if the operand is nothing else; or NULL. */
  const KernelOp *load_a, *load_b;
  /* In-bounds conditions; the operand is 0 elsewhere. */
  BoundsPredicates predicates_a, predicates_b;
  TensorMap tensor_map_a, tensor_map_b; /* For operands that TMA can copy. */
  Im2colOperand im2col;
  ScaledOperand scaled_a, scaled_b; /* if shape.scale_block */
  double seconds;                   /* predicted */
  const char *fields;         /* that a user wrote, or of a rule; or NULL */
  Dtype rule_dtype;           /* of the operands in rules */
  struct ScheduleEntry *rule; /* the rule; or NULL */
  /* Why the schedule that a user wrote is not used; or NULL. */
  const char *refusal;
} GemmPass;

/* ---- gemm_match.c ---- */

/* NULL: the first loop is not a supported contraction, or no schedule fits.
 * fields: those that replace fields of the chosen schedule; NULL: those of a
 * rule (plan/schedule_file.h), if there is one. */
GemmPass *gemm_pass_match(Kernel *k, const CudaTarget *target,
                          const char *fields);
/* True if the kernel has a matmul besides other loops, and the matmul should
 * have its own pass. */
bool gemm_pass_needs_fission(const Kernel *k);
/* ---- gemm_pass.c ---- */

/* Emits the body of the pass, and the functions before it. */
void gemm_pass_put(CudaWriter *w, Buffer *before);
/* The number of iterations of axes together. */
int64_t gemm_axes_extent(CudaWriter *w, uint32_t count, const uint32_t *axes);

typedef struct AxisList {
  uint32_t count;
  const uint32_t *axes;
} AxisList;

/* ---- tma_operand.c ---- */

/* The TMA tensor map of a load, without box.  axes: the contiguous ones, the
 * strided ones, the batch.  False: TMA does not support the load. */
bool tensor_map_of_load(const LoopNest *loop, const KernelOp *read,
                        const AxisList axes[3], TensorMap *to);
/* Finds the tensor maps of both operands and records the result in t->shape. */
void gemm_pass_find_tensor_maps(GemmPass *t, const LoopNest *loop);
/* Channels of a convolution whose k axis should be split into filter taps and
 * channels; 0: no such convolution. */
int64_t gemm_pass_conv_channels(const LoopNest *loop);
/* The tensor map of an output, without box; axes as above. */
bool tensor_map_of_output(const LoopNest *loop, const LoopOutput *r,
                          const AxisList axes[3], TensorMap *to);
bool gemm_pass_output_map(const GemmPass *t, const LoopNest *loop,
                          const LoopOutput *r, TensorMap *to);
void tensor_map_set_output_box(const GemmShape *shape, const GemmSchedule *s,
                               TensorMap *map);
/* Sets the box of an operand from the schedule. */
void gemm_pass_set_box(const GemmPass *t, bool b, TensorMap *map);

/* ---- scaled_operand.c ---- */

/* Finds 4-bit floats with scales of blocks in both operands, and records them
 * in t and in its shape.  The instruction scales sums of products, not
 * elements: if an element times its scale is beyond the range of f32, the
 * result differs from that of the reference backend. */
bool gemm_pass_find_scales(GemmPass *t);

/* ---- operand_access.c ---- */

/* The 8-bit or 16-bit float, if the result is nothing but its conversion to a
 * wider type; or NULL. */
const KernelOp *cuda_widened_narrow(const LoopNest *side);
/* The same for 16-bit floats only. */
const KernelOp *cuda_widened_half(const LoopNest *side);
/* The load of type t, if the result of the loop is nothing else; or NULL. */
const KernelOp *cuda_plain_load(const LoopNest *side, Dtype t);
/* predicated_operand.c: the same for a load with bounds conditions, whose
 * value is 0 if they fail. */
const KernelOp *cuda_predicated_load(Arena *arena, const LoopNest *side,
                                     Dtype t, BoundsPredicates *to);
/* True if elements along the last axis of the group are contiguous, and vector
 * accesses do not cross the end of the axis.  Reduces *align to the alignment
 * of vector accesses. */
bool cuda_is_contiguous_group(const LoopNest *loop, const AffineExpr *at,
                              uint32_t count, const uint32_t *axes,
                              uint32_t *align, uint32_t bytes);
/* A divisor, in bytes, of all terms of an address except that of axis
 * `dense`. */
uint32_t cuda_alignment_of(const LoopNest *loop, const AffineExpr *at,
                           uint32_t bytes, uint32_t dense);
/* The same for all outputs. */
uint32_t cuda_store_alignment(const Kernel *k, uint32_t dense);
/* True if copies or stores access more than one element. */
bool cuda_requires_align16(const GemmSide *sides, uint32_t count,
                           uint32_t store_align);

/* ---- epilogue.c ---- */

/* For each operation of a loop: all results that depend on it keep its relative
 * error, and are rounded to 16-bit or 8-bit floats.  narrow_results: all
 * results of the loop are rounded so later. */
const bool *cuda_approximable_ops(Arena *arena, const LoopNest *loop,
                                  bool narrow_results);
/* Emits the loops from `first` on; x is the value of the first loop, the
 * contraction.  The axis variables are declared.  to: variables for the
 * outputs.  precomputed: values of earlier loops; NULL: there are none. */
void cuda_put_epilogue_loops(CudaWriter *w, Buffer *out, uint32_t first,
                             const char *x,
                             const char *const to[GEMM_MAX_OUTPUTS],
                             const char *(*precomputed)(CudaWriter *w,
                                                        const KernelOp *s));
/* Emits one loop.  If x is not NULL it is the value of the loop, whose
 * operations are not emitted.  to: NULL: nothing is stored. */
void cuda_put_epilogue_loop(CudaWriter *w, Buffer *out, uint32_t at,
                            const char *x,
                            const char *const to[GEMM_MAX_OUTPUTS],
                            const char *(*precomputed)(CudaWriter *w,
                                                       const KernelOp *s));
/* Fills in the epilogue of t->shape: outputs, their sizes, operations, and
 * whether TMA can store them. */
void cuda_epilogue_shape(const Kernel *k, GemmPass *t);
/* True if the operation neither loads nor faults, for any operands. */
bool cuda_is_speculatable(const KernelOp *s);
/* True if the epilogue is valid for elements out of bounds: it only computes
 * the outputs of the matmul kernel. */
bool cuda_epilogue_is_bounds_safe(const CudaWriter *w);
/* Finds the loads of the epilogue that may be loaded in pairs of columns, and
 * sets w->pairs.  column: the axis of the columns.  Returns their number. */
uint32_t cuda_find_pair_loads(CudaWriter *w, uint32_t column, AxisList rows,
                              GemmPairLoad to[MAX_PAIR_LOADS]);
/* Collects the outputs that the matmul kernel stores, and returns their
 * number.  axes: batch, rows, columns. */
uint32_t cuda_fill_gemm_outputs(CudaWriter *w, const AxisList axes[3],
                                GemmOutput to[GEMM_MAX_OUTPUTS]);

#endif
