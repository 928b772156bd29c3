/* backend/cuda: contractions,
 *
 *     c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, n, k],
 *
 * as kernels for tensor cores, or for multiply-adds where these will not do.
 *
 * A contraction has four groups of axes: of the rows (m), which b lacks, of the
 * columns (n), which a lacks, of the terms (k), which are summed, and of the
 * batch, which both have.  Operands are copied as they lie in memory, at an
 * address that is a sum over the axes and within bounds (a convolution is one
 * such); or each of their elements is a value that some text computes.  What is
 * done with a result is a text likewise.  Sizes are parameters of the kernel:
 * what its text depends on is the schedule, the axes and what divides what. */
#ifndef AXON_CUDA_GEMM_H
#define AXON_CUDA_GEMM_H

#include "backend/cuda/layout.h"
#include "runtime/runtime.h"

typedef enum MmaKind {
  MMA_KIND_NONE,
  MMA_KIND_FMA,
  MMA_KIND_MMA_SYNC,
  MMA_KIND_WGMMA
} MmaKind;
typedef enum CopyMethod {
  COPY_VIA_NONE,
  COPY_VIA_REGISTERS, /* loads, then stores to shared memory */
  COPY_CP_ASYNC,      /* cp.has_cp_async */
  COPY_TMA,           /* TMA */
} CopyMethod;
typedef enum GemmStore {
  STORE_NONE,
  STORE_DIRECT, /* as the registers have them */
  STORE_SHARED, /* through shared memory, row by row */
  STORE_TMA,    /* as TMA takes them, from shared memory */
} GemmStore;

/* ---- gemm_schedule_text.c: schedules as text ---- */

typedef struct GemmSchedule {
#define GEMM_FIELD(field, key, about) uint32_t field;
#include "backend/cuda/gemm.def"
} GemmSchedule;

/* "mma copy=async m=128 n=128 ...": what is 0 is left out. */
void gemm_schedule_print(Buffer *out, const GemmSchedule *s);
/* What the text says is changed, the rest stays.  False: `why` says what it
 * cannot be. */
bool gemm_schedule_parse(GemmSchedule *s, const char *text, Buffer *why);

/* ---- gemm_cost_model.c: choosing one ---- */

typedef struct GpuSpec {
  uint32_t arch; /* 90 */
  uint32_t sms, sm_threads, sm_shared_bytes, block_shared_bytes;
  bool has_cp_async, has_tma;
  double f16_mma_rate, tf32_mma_rate, f16_wgmma_rate, f32_fma_rate,
      f64_fma_rate;                    /* operations per clock of one */
  double clock_hz, dram_bandwidth;     /* per second */
  double l2_bytes, l2_bytes_per_clock; /* bytes; bytes per clock of all */
} GpuSpec;

/* One that is not known is like the last before it of its generation: what that
 * has, it has, but for wgmma, which sm_90a alone has.  False: there is none. */
bool gpu_spec(const char *arch, GpuSpec *out);

typedef struct GemmSide {
  Dtype dtype;   /* of elements in shared memory: f16, bf16, f32, f64 */
  bool mn_major; /* rows (of m or n) lie next to each other, and not terms */
  bool computed; /* it is not copied */
  bool tma_copyable;      /* TMA can copy it */
  double tensor_elements; /* of the tensor that is copied; 0: as many as are
                             used */
  uint32_t align_bytes; /* bytes that addresses, strides and extents along which
                          it is dense are multiples of */
} GemmSide;

typedef struct GemmShape {
  GemmSide a, b;
  Dtype accumulator_dtype; /* f32 or f64 */
  bool allow_tf32;         /* may f32 be rounded to it? */
  double m, n, k, batch;   /* what they may be like */
  double inner_k; /* 0, or: TMA goes along the last axis of k alone, which
                     may be like this, for each point of the others */
  bool im2col;    /* the left side is one of a convolution to it */
  double epilogue_bytes;      /* bytes of results and of what is read with them,
                                 for each element */
  uint32_t store_align_bytes; /* bytes; of rows of results */
  bool no_split_k;            /* no split sums: results are no sums of these */
  bool symbolic_tile_count; /* how many tiles there are is not known: no sums in
                               so many parts */
  bool tma_storable;        /* TMA can store all results, */
  uint32_t output_count;    /* which are so many, */
  uint32_t max_output_bytes; /* of so many bytes at most */
  double epilogue_ops;       /* what is done for each element, as `cost` in
                                primitives/map.def */
} GemmShape;

/* The one that should be fastest, and its seconds.  False: there is none; for
 * multiply-adds operands are of the type of the sums, which they become on
 * their way. */
bool gemm_choose(const GemmShape *shape, const GpuSpec *gpu, GemmSchedule *s,
                 double *seconds);
/* May it be run?  Bytes of shared memory, registers of a thread about. */
bool gemm_fits(const GemmShape *shape, const GpuSpec *gpu,
               const GemmSchedule *s);
double gemm_seconds(const GemmShape *shape, const GpuSpec *gpu,
                    const GemmSchedule *s);
uint32_t gemm_shared_bytes(const GemmShape *shape, const GemmSchedule *s);
/* How it is copied, and lies there: such that loads of h wait least.  turned:
 * rows of the tile are columns of h. */
void gemm_choose_operand_layout(const GemmShape *shape, GemmSchedule *s, bool b,
                                const FragmentLayout *h, bool transposed);
/* That of both sides, of a schedule whose tile was changed. */
void gemm_choose_layouts(const GemmShape *shape, GemmSchedule *s);
/* What follows from a schedule's other fields: copies, layouts, blocks. */
void gemm_complete_schedule(const GemmShape *shape, const GpuSpec *gpu,
                            GemmSchedule *s);
bool gemm_can_use_mma(const GemmShape *shape, const GpuSpec *gpu);
bool gemm_can_use_wgmma(const GemmShape *shape, const GpuSpec *gpu);
bool gemm_can_store_tma(const GemmShape *shape); /* by TMA */
/* gemm_validate.c: changes one as the text says; if there is no such kernel,
 * `why` says what does not hold, and it stays. */
bool gemm_override(const GemmShape *shape, const GpuSpec *gpu, const char *text,
                   GemmSchedule *s, Buffer *why);

/* ---- gemm_block.c: what it makes of a block ---- */

uint32_t gemm_threads(const GemmSchedule *s);
uint32_t
gemm_loader_threads(const GemmSchedule *s); /* those that bring operands */
/* The tile of an operand in shared memory, of one stage. */
SmemTile gemm_operand_tile(const GemmShape *shape, const GemmSchedule *s,
                           bool b);
/* Terms of one instruction. */
uint32_t gemm_instruction_k(const GemmShape *shape, const GemmSchedule *s);
/* Blocks that share operands, of consecutive numbers. */
uint32_t gemm_cluster_size(const GemmSchedule *s);

/* ---- gemm_mainloop.c: as text ---- */

enum { GEMM_MAX_AXES = 8, GEMM_MAX_PREDICATES = 8 };

/* Strides and extents are C text of 64-bit integers; NULL: 0. */
typedef struct GemmAxis {
  const char *name; /* of the variable that it has in bodies */
  const char *extent;
  const char *stride_a, *stride_b; /* elements */
  const char *predicate_stride_a[GEMM_MAX_PREDICATES],
      *predicate_stride_b[GEMM_MAX_PREDICATES];
} GemmAxis;

typedef struct GemmAxisGroup { /* the last axis is the fastest */
  uint32_t count;
  GemmAxis axes[GEMM_MAX_AXES];
} GemmAxisGroup;

/* An element is there if for each guard
 *     0 <= first + sum of guards * indices < extent; else it is 0. */
typedef struct GemmPredicate {
  const char *base, *extent;
} GemmPredicate;

/* Where the pixel of the tile's first row is, by axis (of width, height,
 * depth), which image it is of, and how far the axes of k move it: ints. */
enum { GEMM_MAX_SPATIAL_AXES = 3 };
typedef struct GemmIm2col {
  uint32_t spatial_axes;
  const char *coord[GEMM_MAX_SPATIAL_AXES], *offset[GEMM_MAX_SPATIAL_AXES],
      *batch_coord;
} GemmIm2col;

typedef struct GemmOperand {
  const char *pointer; /* to the operand's first element */
  uint32_t predicate_count;
  GemmPredicate predicates[GEMM_MAX_PREDICATES];
  /* Of one that is computed: statements that give `to`, a float (double), its
   * value where the axes' variables say. */
  void (*put_value)(void *owner, Buffer *out, const char *to);
  const char *tensor_map; /* the TMA map, by address: of terms or rows, as they
                             are dense, then the others, then the batch */
  GemmIm2col im2col;      /* count 0: it is none of them */
} GemmOperand;

typedef struct GemmOutput {
  const char *pointer;
  Dtype dtype;
  const char *strides[4 * GEMM_MAX_AXES]; /* by axis: batch, m, n */
  const char
      *tensor_map; /* the TMA map, by address: of columns, rows, the batch */
} GemmOutput;

enum { GEMM_MAX_OUTPUTS = 4 };

/* What rows come to: their elements are gone through, level by level, a warp's
 * part of a tile at a time, and what is found is left as a part of the row.
 * All of them are statements. */
typedef struct RowReductionCallbacks {
  uint32_t level_count;    /* 0: rows come to nothing */
  bool out_of_bounds_safe; /* elements that are not there may be looked at, too
                            */
  /* before a row's elements; of each, whose sum is x, where the axes' variables
   * say, if the bool `there` is true; behind them, where so many neighbouring
   * lanes have found something */
  void (*put_init)(void *owner, Buffer *out, uint32_t level);
  void (*put_update)(void *owner, Buffer *out, uint32_t level, const char *x);
  void (*put_combine)(void *owner, Buffer *out, uint32_t level, uint32_t lanes);
  /* one of the lanes leaves it: int64_t `part` of the row `point` */
  void (*put_store_partial)(void *owner, Buffer *out, uint32_t level);
} RowReductionCallbacks;

typedef struct GemmKernelSpec {
  const GemmShape *shape;
  const GemmSchedule *schedule;
  const char *name; /* of the kernel */
  GemmAxisGroup batch, m, n, k;
  GemmOperand a, b;
  uint32_t output_count;
  GemmOutput outputs[GEMM_MAX_OUTPUTS];
  /* Statements that give to[r] their values where the axes' variables say, x
   * being the sum. */
  void (*put_epilogue)(void *owner, Buffer *out, const char *x,
                       const char *const to[GEMM_MAX_OUTPUTS]);
  void *owner;
  RowReductionCallbacks row_reduction;
  bool out_of_bounds_safe; /* epilogue: is right of elements that are not there,
                              too */
  const char *row_prologue; /* statements before the epilogues of some elements
                               of row i; or NULL */
  const char
      *workspace; /* split sums: memory of gemm_workspace_floats floats; and
                     counters, one of each tile (streams: of each block that is
                     started at most), all 0 before and after */
  const char *counters;
} GemmKernelSpec;

/* What is to stand before the kernel, and what in it. */
void gemm_put_kernel(Buffer *before, Buffer *body, const GemmKernelSpec *t);
/* How TMA maps an operand: boxes of so many elements and rows, and the number
 * of their swizzle.  Axes: of what lies next to each other (terms, or rows of
 * one that is turned), of the others, of the batch from its last one on. */
void gemm_tma_box(const GemmShape *shape, const GemmSchedule *s, bool b,
                  uint32_t box[2], uint32_t *swizzle);
/* Likewise results: rows of a warp, so many columns next to each other. */
uint32_t gemm_tma_store_columns(const GemmShape *shape, const GemmSchedule *s);
void gemm_tma_store_box(const GemmShape *shape, const GemmSchedule *s, Dtype t,
                        uint32_t box[2], uint32_t *swizzle);
/* At most so many blocks are started, which go on to other tiles; 0: all. */
uint32_t gemm_max_grid_blocks(const GemmSchedule *s, const GpuSpec *gpu);
/* Parts of a row that a tile leaves; can it? */
uint32_t gemm_row_partials(const GemmSchedule *s);
bool gemm_can_reduce_rows(const GemmSchedule *s);
/* What parts of sums need, of so many tiles. */
int64_t gemm_workspace_floats(const GemmSchedule *s, const GpuSpec *gpu,
                              int64_t tiles);

#endif
