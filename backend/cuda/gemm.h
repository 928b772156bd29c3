/* backend/cuda: matrix multiplications (contractions)
 *
 *     c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, n, k]
 *
 * as kernels for tensor cores, or for fused multiply-adds (FMA) if the
 * operands or the GPU do not support tensor cores.
 *
 * A contraction has four groups of axes.  m: the row axes, which b does not
 * have.  n: the column axes, which a does not have.  k: the reduction axes.
 * batch: axes that both operands have.
 *
 * An operand is either copied or computed.  A copied operand has an affine
 * address and bounds predicates; a convolution is an example.  A computed
 * operand is given by generated code for one element.  The epilogue is
 * generated code, too.
 *
 * Sizes are kernel parameters.  The kernel source depends only on the
 * schedule, the axes, and the known divisors of sizes and strides. */
#ifndef AXON_CUDA_GEMM_H
#define AXON_CUDA_GEMM_H

#include "backend/cuda/layout.h"
#include "runtime/runtime.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;

typedef enum MmaKind {
  MMA_KIND_NONE,
  MMA_KIND_FMA,
  MMA_KIND_MMA_SYNC,
  MMA_KIND_WGMMA,
  MMA_KIND_TCGEN05, /* sums in tensor memory */
} MmaKind;
typedef enum CopyMethod {
  COPY_VIA_NONE,
  COPY_VIA_REGISTERS, /* global loads, then shared stores */
  COPY_CP_ASYNC,      /* cp.async */
  COPY_TMA,
} CopyMethod;
typedef enum GemmStore {
  STORE_NONE,
  STORE_DIRECT, /* from registers */
  STORE_SHARED, /* through shared memory, coalesced */
  STORE_TMA,    /* from shared memory, by TMA */
} GemmStore;

/* ---- gemm_schedule_text.c: schedule text ---- */

typedef struct GemmSchedule {
#define GEMM_FIELD(field, key, users, unused, about) uint32_t field;
#include "backend/cuda/gemm.def"
  const struct MicroKernel *micro; /* computes tiles of threads or warps */
} GemmSchedule;

/* Prints fields as "way=mma copy=async m=128 n=128 ...", without fields that
 * are 0. */
void gemm_schedule_print(Buffer *out, const GemmSchedule *s);
/* Takes `micro=NAME` out of the text.  Returns the rest in the arena; *name is
 * NULL if there is none. */
const char *gemm_schedule_take_micro(Arena *arena, const char *text,
                                     const char **name);
/* Applies the fields in `text`; other fields keep their values.  False:
 * invalid text; `why` describes the error. */
bool gemm_schedule_parse(GemmSchedule *s, const char *text, Buffer *why);
/* False: a field has a value, but a kernel of this way does not use it; `why`
 * says which kernels do. */
bool gemm_schedule_check_fields(const GemmSchedule *s, bool attention,
                                Buffer *why);
/* False: `text` states another value of a field that the other fields of `s`
 * determine. */
bool gemm_schedule_check_derived(const GemmSchedule *s, const char *text,
                                 Buffer *why);

/* ---- gemm_cost_model.c: schedule selection ---- */

typedef struct GpuSpec {
  uint32_t arch; /* compute capability, e.g. 90 */
  uint32_t sms, sm_threads, sm_shared_bytes, block_shared_bytes;
  bool has_cp_async, has_tma;
  /* Operations per clock per SM. */
  double f16_mma_rate, tf32_mma_rate, f16_wgmma_rate, f16_tcgen05_rate,
      f32_fma_rate, f64_fma_rate;
  double clock_hz, dram_bandwidth; /* Hz; bytes per second. */
  /* Bytes; bytes per clock that L2 delivers to all SMs. */
  double l2_bytes, l2_bytes_per_clock;
} GpuSpec;

/* Finds the GPU of an architecture such as "sm_90a".  An architecture without
 * an entry in gemm.def gets the last earlier entry of its generation.  False:
 * there is none. */
bool gpu_spec(const char *arch, GpuSpec *out);

enum { FIRST_F8_MMA_ARCH = 89 };        /* m16n8k32 of 8-bit floats */
enum { GEMM_PACKED_TERMS = 2 };         /* of a byte, with 4-bit floats */
enum { WGMMA_M = 64, TCGEN05_M = 128 }; /* rows of an instruction */

typedef struct GemmSide {
  Dtype dtype;       /* in shared memory: a float */
  bool mn_major;     /* m or n is contiguous, not k */
  bool computed;     /* by generated code, not copied */
  bool tma_copyable; /* TMA can copy it */
  /* Elements of the tensor that is copied; 0: each element is used once. */
  double tensor_elements;
  /* A divisor of the addresses and the strides, and of the extents of the
   * contiguous axes, in bytes. */
  uint32_t align_bytes;
} GemmSide;

typedef struct GemmShape {
  GemmSide a, b;
  Dtype accumulator_dtype; /* f32 or f64 */
  bool allow_tf32;         /* f32 operands may be rounded to tf32 */
  double m, n, k, batch;   /* Sizes, or size hints if they are symbolic. */
  /* 0, or the size hint of the last axis of k.  TMA then iterates over this
   * axis for each index of the other k axes. */
  double inner_k;
  bool im2col; /* TMA loads the left operand in im2col mode */
  /* Operands of 4-bit floats with scales: terms with the same scale, 16 or 32;
   * 0: others.  An element of such an operand is a byte with two terms, which
   * `k` and schedules count as one. */
  uint32_t scale_block;
  /* Bytes that the epilogue reads and writes per element of c. */
  double epilogue_bytes;
  uint32_t store_align_bytes; /* Alignment of the rows of outputs, in bytes. */
  bool no_split_k;            /* The reduction must not be split. */
  bool symbolic_tile_count;   /* The number of tiles is symbolic: no split-K. */
  bool tma_storable;          /* TMA can store all outputs */
  uint32_t output_count;
  uint32_t max_output_bytes; /* largest element size of outputs */
  /* Epilogue operations per element, in units of `cost` in
   * primitives/map.def. */
  double epilogue_ops;
} GemmShape;

/* Chooses the schedule with the shortest predicted time, `seconds`.  False: no
 * schedule fits.  Schedules of kind fma need operands of the accumulator
 * type. */
bool gemm_choose(const GemmShape *shape, const GpuSpec *gpu, GemmSchedule *s,
                 double *seconds);
/* What a thread block uses, and the limits. */
typedef struct BlockUse {
  uint32_t threads, shared_bytes, max_shared_bytes;
  uint32_t registers, max_registers; /* of a thread */
  uint32_t blocks;                   /* that run on an SM at the same time */
} BlockUse;
BlockUse gemm_block_use(const GemmShape *shape, const GpuSpec *gpu,
                        const GemmSchedule *s);
bool block_use_fits(const BlockUse *u);
/* True if shared memory, registers and threads of a block are within the
 * limits of the GPU. */
bool gemm_fits(const GemmShape *shape, const GpuSpec *gpu,
               const GemmSchedule *s);
/* With operands that have scales: true if the instruction has this size, and
 * tensor memory has room for the sums and scales. */
bool gemm_scales_fit(const GemmShape *shape, const GemmSchedule *s);
double gemm_seconds(const GemmShape *shape, const GpuSpec *gpu,
                    const GemmSchedule *s);
uint32_t gemm_shared_bytes(const GemmShape *shape, const GemmSchedule *s);
/* Chooses the copy size, the panel width and the swizzle of an operand: those
 * with the fewest bank conflicts for fragment loads of layout h.  mn_major:
 * rows of the tile are columns of h. */
void gemm_choose_operand_layout(const GemmShape *shape, GemmSchedule *s, bool b,
                                const FragmentLayout *h, bool mn_major);
/* Chooses the layouts of both operands, e.g. after the tile size changed. */
void gemm_choose_layouts(const GemmShape *shape, GemmSchedule *s);
/* Derives copy sizes, layouts and occupancy from the other fields. */
void gemm_complete_schedule(const GemmShape *shape, const GpuSpec *gpu,
                            GemmSchedule *s);
bool gemm_can_store_tma(const GemmShape *shape);

/* ---- gemm_validate.c ---- */

/* NULL, or why the instruction cannot multiply these operands. */
const char *gemm_mma_refusal(const GemmShape *shape, const GpuSpec *gpu);
const char *gemm_wgmma_refusal(const GemmShape *shape, const GpuSpec *gpu);
const char *gemm_tcgen05_refusal(const GemmShape *shape, const GpuSpec *gpu);
/* Applies the schedule text.  s->micro, if it is not NULL, determines the way
 * and the tile.  False: there is no such kernel; `why` says which condition
 * fails, and *s is unchanged. */
bool gemm_override(const GemmShape *shape, const GpuSpec *gpu, const char *text,
                   GemmSchedule *s, Buffer *why);
/* Appends the reason to `why` unless it is NULL, and returns false. */
bool gemm_refuse(Buffer *why, const char *format, ...) PRINTF_LIKE(2, 3);
/* Checks a schedule of `shape`, a GemmShape or an AttentionShape, and fills in
 * its derived fields. */
typedef bool ScheduleCheck(const void *shape, const GpuSpec *gpu,
                           GemmSchedule *s, Buffer *why);
/* Names the limit that `u` exceeds, and a change that `check` accepts. */
bool gemm_refuse_use(const BlockUse *u, ScheduleCheck *check, const void *shape,
                     const GpuSpec *gpu, const GemmSchedule *s, Buffer *why);

/* ---- gemm_block.c: resources of a thread block ---- */

uint32_t gemm_threads(const GemmSchedule *s);
/* True if a producer fills the stages and other warps multiply: wgmma and
 * tcgen05. */
bool gemm_has_producer(const GemmSchedule *s);
/* Threads that load operands. */
uint32_t gemm_loader_threads(const GemmSchedule *s);
/* Rows or columns of an operand that a block has in a stage: with pairs, half
 * of the columns. */
uint32_t gemm_tile_side(const GemmSchedule *s, bool b);
/* The shared memory tile of an operand in one stage. */
SmemTile gemm_operand_tile(const GemmShape *shape, const GemmSchedule *s,
                           bool b);
/* Reduction terms that shapes and schedules count as one: those of an element
 * in shared memory. */
uint32_t gemm_terms_per_k(const GemmShape *shape);
/* Depth of one instruction: reduction terms. */
uint32_t gemm_instruction_k(const GemmShape *shape, const GemmSchedule *s);
/* Blocks of a cluster; they have consecutive block indices. */
uint32_t gemm_cluster_size(const GemmSchedule *s);

/* ---- gemm_mainloop.c: kernel source ---- */

enum { GEMM_MAX_AXES = 8, GEMM_MAX_PREDICATES = 8 };

/* Strides and extents are C expressions of type int64_t; NULL: 0. */
typedef struct GemmAxis {
  const char *name; /* name of its index variable */
  const char *extent;
  const char *stride_a, *stride_b; /* in elements */
  const char *predicate_stride_a[GEMM_MAX_PREDICATES],
      *predicate_stride_b[GEMM_MAX_PREDICATES];
} GemmAxis;

typedef struct GemmAxisGroup { /* the last axis varies fastest */
  uint32_t count;
  GemmAxis axes[GEMM_MAX_AXES];
} GemmAxisGroup;

/* An element is in bounds if each of its predicates holds:
 *
 *     0 <= base + sum of predicate_stride * index < extent
 *
 * Elements out of bounds are 0. */
typedef struct GemmPredicate {
  const char *base, *extent;
} GemmPredicate;

/* Coordinates of TMA's im2col mode, as int expressions by axis (width, height,
 * depth).  coord, batch_coord: pixel and image of the first row of the tile.
 * offset: offset of the filter tap, from the k axes. */
enum { GEMM_MAX_SPATIAL_AXES = 3 };
typedef struct GemmIm2col {
  uint32_t spatial_axes;
  const char *coord[GEMM_MAX_SPATIAL_AXES], *offset[GEMM_MAX_SPATIAL_AXES],
      *batch_coord;
} GemmIm2col;

typedef struct GemmOperand {
  const char *pointer; /* to its first element */
  uint32_t predicate_count;
  GemmPredicate predicates[GEMM_MAX_PREDICATES];
  /* Computed operand: emits statements that assign the element at the axis
   * variables to `to`, a float or double. */
  void (*put_value)(void *owner, Buffer *out, const char *to);
  /* An operand with scales: declares `codes`, a pointer to the first element of
   * the row at the axis variables, or `scales`, one to its first scale.  A
   * scale is that of scale_terms terms; scale_stride: between scales, a C
   * expression. */
  void (*put_scaled_row)(void *owner, Buffer *out, bool scales);
  uint32_t scale_terms;
  const char *scale_stride;
  /* Address of the TMA tensor map.  Its axes: the contiguous one (k or rows),
   * the strided one, then the batch axes. */
  const char *tensor_map;
  GemmIm2col im2col; /* spatial_axes 0: not in im2col mode */
} GemmOperand;

typedef struct GemmOutput {
  const char *pointer;
  Dtype dtype;
  const char *strides[4 * GEMM_MAX_AXES]; /* axes of batch, m, n */
  /* Address of the TMA tensor map.  Its axes: columns, rows, batch. */
  const char *tensor_map;
} GemmOutput;

enum { GEMM_MAX_OUTPUTS = 4 };

/* Row reductions in the epilogue.  Each level iterates over the columns of a
 * row that a warp holds, and stores one partial result per row.  The callbacks
 * emit statements. */
typedef struct RowReductionCallbacks {
  uint32_t level_count;    /* 0: no row reduction */
  bool out_of_bounds_safe; /* elements out of bounds may be read */
  /* put_init: before the elements of a row.  put_update: accumulates the
   * element x at the axis variables if the bool `there` is true.  put_combine:
   * combines the results of `lanes` neighbouring lanes. */
  void (*put_init)(void *owner, Buffer *out, uint32_t level);
  void (*put_update)(void *owner, Buffer *out, uint32_t level, const char *x);
  void (*put_combine)(void *owner, Buffer *out, uint32_t level, uint32_t lanes);
  /* One lane stores partial result `part` (int64_t) of row `point`. */
  void (*put_store_partial)(void *owner, Buffer *out, uint32_t level);
} RowReductionCallbacks;

/* An operand of the epilogue that is loaded for two neighbouring columns at
 * once: `element` is a C expression of the pair at the axis variables.  If
 * row_invariant, it is the same in all rows. */
typedef struct GemmPairLoad {
  const char *type, *element;
  bool row_invariant;
} GemmPairLoad;

typedef struct GemmKernelSpec {
  const GemmShape *shape;
  const GemmSchedule *schedule;
  const char *name;
  GemmAxisGroup batch, m, n, k;
  GemmOperand a, b;
  uint32_t output_count;
  GemmOutput outputs[GEMM_MAX_OUTPUTS];
  /* Emits statements that assign the outputs at the axis variables to to[r]; x
   * is the accumulator. */
  void (*put_epilogue)(void *owner, Buffer *out, const char *x,
                       const char *const to[GEMM_MAX_OUTPUTS]);
  void *owner;
  /* Only for tiles in bounds.  put_paired_epilogue: as put_epilogue, where the
   * value of load r at column v, 0 or 1, is that element of pair%r. */
  uint32_t pair_count;
  const GemmPairLoad *pairs;
  void (*put_paired_epilogue)(void *owner, Buffer *out, const char *x,
                              const char *const to[GEMM_MAX_OUTPUTS]);
  RowReductionCallbacks row_reduction;
  /* The epilogue is valid for elements out of bounds. */
  bool out_of_bounds_safe;
  /* Statements before the epilogue of elements of row i; or NULL. */
  const char *row_prologue;
  /* Split-K and stream-K: workspace of gemm_workspace_floats floats. */
  const char *workspace;
  /* Indices of the views of a micro-kernel are checked, in the simulator. */
  bool checks_micro;
  /* Split-K: a counter per tile; stream-K: one per block.  All are 0 before
   * and after the kernel. */
  const char *counters;
} GemmKernelSpec;

/* Emits the functions before the kernel, and the body of the kernel. */
void gemm_put_kernel(Buffer *before, Buffer *body, const GemmKernelSpec *t);
/* The TMA box of an operand, in elements and rows, and the number of its
 * swizzle.  Axes of the tensor map: the contiguous axis (k, or rows if
 * mn_major), the strided one, then the batch axes from the last one on. */
void gemm_tma_box(const GemmShape *shape, const GemmSchedule *s, bool b,
                  uint32_t box[2], uint32_t *swizzle);
/* The same for outputs: a box has the rows of a warp and
 * gemm_tma_store_columns contiguous columns. */
uint32_t gemm_tma_store_columns(const GemmShape *shape, const GemmSchedule *s);
void gemm_tma_store_box(const GemmShape *shape, const GemmSchedule *s, Dtype t,
                        uint32_t box[2], uint32_t *swizzle);
/* Largest grid of a persistent kernel; 0: one block per tile. */
uint32_t gemm_max_grid_blocks(const GemmSchedule *s, const GpuSpec *gpu);
/* Partial results per row and tile that row reductions store. */
uint32_t gemm_row_partials(const GemmSchedule *s);
bool gemm_can_reduce_rows(const GemmSchedule *s);
/* Floats of workspace for the partial sums of `tiles` tiles. */
int64_t gemm_workspace_floats(const GemmSchedule *s, const GpuSpec *gpu,
                              int64_t tiles);

#endif
