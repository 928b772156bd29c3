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

typedef enum GemmWay { GEMM_NONE, GEMM_FMA, GEMM_MMA, GEMM_WGMMA } GemmWay;
typedef enum GemmCopy {
  BY_NONE,
  BY_REGISTERS, /* loads, then stores to shared memory */
  BY_ASYNC,     /* cp.async */
  BY_ENGINE,    /* TMA */
} GemmCopy;
typedef enum GemmStore {
  STORE_NONE,
  STORE_DIRECT, /* as the registers have them */
  STORE_SHARED, /* through shared memory, row by row */
  STORE_ENGINE, /* as TMA takes them, from shared memory */
} GemmStore;

/* ---- gemmrecord.c: schedules as text ---- */

typedef struct GemmSchedule {
#define GEMM_FIELD(field, about) uint32_t field;
#include "backend/cuda/gemm.def"
} GemmSchedule;

/* "mma copy=async m=128 n=128 ...": what is 0 is left out. */
void gemm_print(Buffer *out, const GemmSchedule *s);
/* What the text says is changed, the rest stays.  False: `why` says what it
 * cannot be. */
bool gemm_parse(GemmSchedule *s, const char *text, Buffer *why);

/* ---- gemmcost.c: choosing one ---- */

typedef struct GemmGpu {
  uint32_t arch; /* 90 */
  uint32_t sms, threads, shared, block;
  bool async, engine;
  double half, wide, group, single, twice; /* operations per clock of one */
  double clock, memory;                    /* per second */
  double l2, l2_rate;                      /* bytes; bytes per clock of all */
} GemmGpu;

/* One that is not known is like the last before it of its generation: what that
 * has, it has, but for wgmma, which sm_90a alone has.  False: there is none. */
bool gemm_gpu(const char *arch, GemmGpu *out);

typedef struct GemmSide {
  Dtype dtype;     /* of elements in shared memory: f16, bf16, f32, f64 */
  bool turned;     /* rows (of m or n) lie next to each other, and not terms */
  bool computed;   /* it is not copied */
  bool boxes;      /* TMA can copy it */
  double elements; /* of the tensor that is copied; 0: as many as are used */
  uint32_t align;  /* bytes that addresses, strides and extents along which it
                     is dense are multiples of */
} GemmSide;

typedef struct GemmShape {
  GemmSide a, b;
  Dtype sum;             /* f32 or f64 */
  bool tf32;             /* may f32 be rounded to it? */
  double m, n, k, batch; /* what they may be like */
  double inner;         /* 0, or: TMA goes along the last axis of k alone, which
                           may be like this, for each point of the others */
  bool pixels;          /* the left side is one of a convolution to it */
  double stored;        /* bytes of results and of what is read with them,
                           for each element */
  uint32_t store_align; /* bytes; of rows of results */
  bool alone;           /* no split sums: results are no sums of these */
  bool open;            /* how many tiles there are is not known: no sums in so
                           many parts */
  bool boxes;           /* TMA can store all results, */
  uint32_t results;     /* which are so many, */
  uint32_t widest;      /* of so many bytes at most */
  double finish;        /* what is done for each element, as prim_cost counts */
} GemmShape;

/* The one that should be fastest, and its seconds.  False: there is none; for
 * multiply-adds operands are of the type of the sums, which they become on
 * their way. */
bool gemm_choose(const GemmShape *shape, const GemmGpu *gpu, GemmSchedule *s,
                 double *seconds);
/* May it be run?  Bytes of shared memory, registers of a thread about. */
bool gemm_fits(const GemmShape *shape, const GemmGpu *gpu,
               const GemmSchedule *s);
double gemm_seconds(const GemmShape *shape, const GemmGpu *gpu,
                    const GemmSchedule *s);
uint32_t gemm_threads(const GemmSchedule *s);
uint32_t gemm_loaders(const GemmSchedule *s); /* those that bring operands */
uint32_t gemm_shared(const GemmShape *shape, const GemmSchedule *s);
/* The tile of an operand in shared memory, of one stage. */
SharedTile gemm_tile(const GemmShape *shape, const GemmSchedule *s, bool b);
/* How it is copied, and lies there: such that loads of h wait least.  turned:
 * rows of the tile are columns of h. */
void gemm_lay(const GemmShape *shape, GemmSchedule *s, bool b, const Held *h,
              bool turned);
/* That of both sides, of a schedule whose tile was changed. */
void gemm_lay_out(const GemmShape *shape, GemmSchedule *s);
/* What follows from a schedule's other fields: copies, layouts, blocks. */
void gemm_settle(const GemmShape *shape, const GemmGpu *gpu, GemmSchedule *s);
bool gemm_may_tensor(const GemmShape *shape, const GemmGpu *gpu);
bool gemm_may_group(const GemmShape *shape, const GemmGpu *gpu);
bool gemm_may_store(const GemmShape *shape); /* by TMA */
/* gemmcheck.c: changes one as the text says; if there is no such kernel, `why`
 * says what does not hold, and it stays. */
bool gemm_change(const GemmShape *shape, const GemmGpu *gpu, const char *text,
                 GemmSchedule *s, Buffer *why);
/* Terms of one instruction. */
uint32_t gemm_depth(const GemmShape *shape, const GemmSchedule *s);

/* ---- gemmtext.c: as text ---- */

enum { GEMM_AXES = 8, GEMM_GUARDS = 8 };

/* Strides and extents are C text of 64-bit integers; NULL: 0. */
typedef struct GemmAxis {
  const char *name; /* of the variable that it has in bodies */
  const char *extent;
  const char *stride_a, *stride_b; /* elements */
  const char *guard_a[GEMM_GUARDS], *guard_b[GEMM_GUARDS];
} GemmAxis;

typedef struct GemmGroup { /* the last axis is the fastest */
  uint32_t count;
  GemmAxis axes[GEMM_AXES];
} GemmGroup;

/* An element is there if for each guard
 *     0 <= first + sum of guards * indices < extent; else it is 0. */
typedef struct GemmGuard {
  const char *first, *extent;
} GemmGuard;

/* Where the pixel of the tile's first row is, by axis (of width, height,
 * depth), which image it is of, and how far the axes of k move it: ints. */
enum { GEMM_PIXEL_AXES = 3 };
typedef struct GemmPixels {
  uint32_t count;
  const char *at[GEMM_PIXEL_AXES], *move[GEMM_PIXEL_AXES], *image;
} GemmPixels;

typedef struct GemmOperand {
  const char *pointer; /* to the operand's first element */
  uint32_t guards;
  GemmGuard guard[GEMM_GUARDS];
  /* Of one that is computed: statements that give `to`, a float (double), its
   * value where the axes' variables say. */
  void (*value)(void *owner, Buffer *out, const char *to);
  const char *map;   /* the TMA map, by address: of terms or rows, as they are
                        dense, then the others, then the batch */
  GemmPixels pixels; /* count 0: it is none of them */
} GemmOperand;

typedef struct GemmResult {
  const char *pointer;
  Dtype dtype;
  const char *strides[4 * GEMM_AXES]; /* by axis: batch, m, n */
  const char *map; /* the TMA map, by address: of columns, rows, the batch */
} GemmResult;

enum { GEMM_RESULTS = 4 };

/* What rows come to: their elements are gone through, level by level, a warp's
 * part of a tile at a time, and what is found is left as a part of the row.
 * All of them are statements. */
typedef struct GemmRows {
  uint32_t levels; /* 0: rows come to nothing */
  bool anywhere;   /* elements that are not there may be looked at, too */
  /* before a row's elements; of each, whose sum is x, where the axes' variables
   * say, if the bool `there` is true; behind them, where so many neighbouring
   * lanes have found something */
  void (*begin)(void *owner, Buffer *out, uint32_t level);
  void (*take)(void *owner, Buffer *out, uint32_t level, const char *x);
  void (*join)(void *owner, Buffer *out, uint32_t level, uint32_t lanes);
  /* one of the lanes leaves it: int64_t `part` of the row `point` */
  void (*leave)(void *owner, Buffer *out, uint32_t level);
} GemmRows;

typedef struct GemmText {
  const GemmShape *shape;
  const GemmSchedule *schedule;
  const char *name; /* of the kernel */
  GemmGroup batch, m, n, k;
  GemmOperand a, b;
  uint32_t results;
  GemmResult result[GEMM_RESULTS];
  /* Statements that give to[r] their values where the axes' variables say, x
   * being the sum. */
  void (*epilogue)(void *owner, Buffer *out, const char *x,
                   const char *const to[GEMM_RESULTS]);
  void *owner;
  GemmRows rows;
  bool anywhere; /* epilogue: is right of elements that are not there, too */
  const char *of_row; /* statements before the epilogues of some elements of row
                         i; or NULL */
  const char *room; /* split sums: memory of gemm_room floats; and counters, one
                       of each tile (streams: of each block that is started
                       at most), all 0 before and after */
  const char *counters;
} GemmText;

/* What is to stand before the kernel, and what in it. */
void gemm_put(Buffer *before, Buffer *body, const GemmText *t);
/* How TMA maps an operand: boxes of so many elements and rows, and the number
 * of their swizzle.  Axes: of what lies next to each other (terms, or rows of
 * one that is turned), of the others, of the batch from its last one on. */
void gemm_box(const GemmShape *shape, const GemmSchedule *s, bool b,
              uint32_t box[2], uint32_t *swizzle);
/* Likewise results: rows of a warp, so many columns next to each other. */
uint32_t gemm_store_columns(const GemmShape *shape, const GemmSchedule *s);
void gemm_store_box(const GemmShape *shape, const GemmSchedule *s, Dtype t,
                    uint32_t box[2], uint32_t *swizzle);
/* Blocks that share operands, of consecutive numbers. */
uint32_t gemm_cluster(const GemmSchedule *s);
/* At most so many blocks are started, which go on to other tiles; 0: all. */
uint32_t gemm_grid_most(const GemmSchedule *s, const GemmGpu *gpu);
/* Parts of a row that a tile leaves; can it? */
uint32_t gemm_row_parts(const GemmSchedule *s);
bool gemm_may_reduce(const GemmSchedule *s);
/* What parts of sums need, of so many tiles. */
int64_t gemm_room(const GemmSchedule *s, const GemmGpu *gpu, int64_t tiles);

#endif
