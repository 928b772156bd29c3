/* backend/emit: loop nests of a kernel as statements that C and CUDA C++ share.
 * Dialect contains the differences. */
#ifndef AXON_EMIT_H
#define AXON_EMIT_H

#include "kernel/kernel.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/vec.h"

typedef struct Arena Arena;
typedef struct Nest Nest;

enum {
  MAX_KERNEL_LOOPS =
      64, /* kernels with more loops run on the reference backend */
  MAX_LOOP_OUTPUTS = 16,    /* the same, for the outputs of one loop */
  MAX_KERNEL_POINTERS = 96, /* outputs and inputs of a kernel */
  OUTER_LEVEL = 1,
  MAX_LEVELS = MAX_KERNEL_AXES + 3,
  NO_AXIS = MAX_KERNEL_VARS - 1, /* a variable that no loop uses */
  NO_KERNEL_OP = INT32_MAX,
};

/* Largest stride of lanes that are loaded as contiguous vectors and then
 * deinterleaved. */
enum { MAX_DEINTERLEAVE = 4 };

/* The arguments of a generated function: pointers (outputs, then inputs),
 * integers and scalars.  Integers are extents (tensor/extent.h); they are
 * constants if the kernel's extents are. */
typedef struct KeyParam { /* an integer argument that is a word of a random key
                           */
  uint32_t int_index, key_index, word_index;
} KeyParam;

typedef struct Call {
  VEC(int64_t) ints;
  VEC(KeyParam) key_params; /* key placeholders, which each call replaces */
  VEC(double) floats;
  VEC(LoopOutput *) outputs;
  int64_t scratch_bytes; /* bytes of scratch memory of a call */
  VEC(const KernelOp *) checks;
} Call;

/* Checks of indices and divisors.  Check k sets bit k of the kernel's result if
 * it fails.  All checks after the last bit share it. */
enum { MAX_CHECKS = 30 };

typedef struct EmittedKernel {
  Buffer source; /* source of the kernel, in the arena */
  Call call;     /* arguments of this kernel */
  /* By loop nest: its text after lowering (lowered.c), or NULL; NULL: no text
   * is wanted. */
  const char **lowered;
} EmittedKernel;

/* The buffer of a local value during a task. */
typedef struct LocalBuffer {
  uint32_t id;                /* the variable is l%u */
  const char *point_elements; /* elements of one iteration, as C */
  const char *row_elements;   /* iterations along the last parallel axis, as C;
                                 NULL: one */
  bool strip_mined; /* the buffer is r%u, and l%u is its part for the current
                       strip */
  bool jammed;      /* the buffer is r%u, and l%u is its part for the current
                       iteration */
  bool is_row_sum;  /* sum of a row, for a dialect with its own division by such
                       sums */
} LocalBuffer;

typedef struct Emitter Emitter;

/* Masks of a masked load that are computed before the loop over lines. */
typedef struct HoistedMasks {
  Buffer source;
  uint32_t vector_count, line_axis; /* vectors of a row; axis of the lines */
  const char *vector_index;         /* index of the vector, as C */
  const char
      *line_condition; /* condition without which the mask of a line is empty,
                          as C; NULL: none.  `inside` != 0: it is true */
  bool condition_is_interval; /* if it holds for two lines, it holds for all
                                 lines between */
} HoistedMasks;

/* Differences between C and CUDA C++. */
typedef struct Dialect {
  const char *index_type; /* type of indices and addresses */
  bool narrow_ints;       /* integers that fit have 32 bits */
  bool scalars_only;      /* there are no vectors */
  bool is_cuda; /* a primitive uses the text MapInfo.cuda if it has one */
  /* the divisor of an index */
  const char *(*emit_divisor)(Emitter *e, int64_t divisor);
  /* function that divides f32 by the sum of an earlier loop, or NULL */
  const char *divide_by_row_sum;
  /* CUDA: a tanh of f32 that may have an absolute error of 2^-21, or NULL. */
  const KernelOp *approximated_tanh;
  /* CUDA: the operations of the loop of which 1 + tanh x and 1 / (1 + e^x) may
   * have the relative error of ax_exp_rounded; NULL: none. */
  const bool *approximates_sigmoid;
  /* Offset of an output in its local buffer at an affine index, without the
   * term of the lane.  NULL: the index itself. */
  const char *(*emit_local_offset)(Emitter *e, const LocalBuffer *l,
                                   const AffineExpr *q);
  /* For a load with the same indices in all lanes: the address of the row that
   * is loaded a prefetch distance later.  The function or its result is NULL:
   * prefetching does not pay. */
  const char *(*emit_gather_prefetch)(Emitter *e, const KernelOp *s);
  /* For the last load of an iteration's row: code that prefetches the row of
   * the next iteration.  NULL: prefetching does not pay. */
  const char *(*emit_next_row_prefetch)(Emitter *e, const KernelOp *s);
} Dialect;

/* State of an emitted function: one for the kernel's loops, and one for each
 * loop that packs an operand. */
typedef struct FunctionState {
  uint32_t first_int, first_float; /* first argument in the call */
  bool locals_by_point; /* a task has several iterations, one after the other,
                           whose local values are strided (TASK_ROWS) */
  bool has_lane_begin;  /* the vectors along the last parallel axis begin at
                           `lo` */
  LocalBuffer *locals[MAX_KERNEL_LOOPS]; /* by loop and output */
  Buffer head;                           /* code at the beginning */
  char transpose_classes[8]; /* classes of vectors that are transposed */
} FunctionState;

/* The loops around the operations of the current loop nest.  Level OUTER_LEVEL
 * is outside of all of them. */
typedef struct LoopLevels {
  uint32_t count;                  /* loops around the vectors */
  uint32_t order[MAX_KERNEL_AXES]; /* their variables, outermost first */
  uint32_t of[MAX_KERNEL_VARS];    /* by variable: level of its loop */
  uint32_t vector;                 /* level of the loop over vectors */
  Buffer code[MAX_LEVELS];
} LoopLevels;

/* The operations of the current loop nest.  The arrays are indexed by
 * operation. */
typedef struct OpStates {
  uint32_t first_name; /* number of the first operation's name */
  uint32_t *levels;    /* loop level */
  bool *varies;        /* differs between lanes */
  bool *has_unrounded; /* the unrounded value is also available */
  char *classes;       /* class of the vector: f, d, i, l, b */
  /* The lanes in which the value is used, a C expression; NULL: the expression
   * is too long; not_demanded in scalar_ops.c: the value is unused. */
  const char **demanded_lanes;
  const char **precomputed; /* a value that exists already, or NULL; the array
                               is NULL if there are none */
  uint32_t contracted; /* an operation that its only user contains, without a
                          name; NO_KERNEL_OP: none */
} OpStates;

/* The quotients of indices in the current loop nest. */
typedef struct FloorDivStates {
  uint32_t first_name;         /* number of the first quotient's name */
  bool varies[MAX_FLOOR_DIVS]; /* differs between lanes */
} FloorDivStates;

/* Vectors that are loaded along one axis and then transposed in registers. */
typedef struct VectorTranspose {
  uint32_t axis; /* NO_AXIS: none */
  Buffer loads, decls;
} VectorTranspose;

struct Emitter {
  Arena *arena;
  const Kernel *kernel;
  const char
      *suffix; /* suffix of the kernel's names; "": it is the only kernel */
  const Dialect *dialect;
  struct CpuEmitter *cpu; /* state of backend/cpu; NULL: the dialect is CUDA */
  EmittedKernel *emitted;
  uint32_t width;      /* lanes of a vector */
  bool has_byte_lanes; /* of 8 bits: schedule_has_byte_lanes */
  uint32_t next_id;
  bool failed;
  FunctionState function;

  /* The current loop nest: */
  const LoopNest *loop;
  uint32_t loop_index;  /* its index in the kernel */
  uint32_t vector_axis; /* axis of the vectors */
  LoopLevels levels;
  OpStates ops;
  FloorDivStates floor_divs;
  VectorTranspose transpose;
  Buffer check_code;
  HoistedMasks *hoisted_masks; /* NULL: each load computes its mask */
  bool may_search; /* a function may read the row, instead of the code of terms,
                      some of whose names are unused then */
  uint32_t prefetch_axis; /* axis along which masked loads prefetch their next
                             iteration, or NO_AXIS */
  bool reads_past_tail; /* the terms are unrolled, and loads ignore the tail */
  /* Sizes of loops in a task, and strides of their axes and of the last
   * parallel axis, are numbers in the code or variables of the function. */
  bool keeps_sizes;
};

/* ---- emitter.c ---- */

/* Makes `loop` the current loop. order: its `loops` loops around the vectors.
 * Other axes have constant indices. */
void emit_begin_loop(Emitter *e, const LoopNest *loop, uint32_t vector_axis,
                     uint32_t loops, const uint32_t *order);
void emit_append(Buffer *out, const Buffer *text);
/* Macro definitions around the code of full vectors and of tails. */
extern const char full_vector_macros[], tail_macros[], undef_macros[];

/* ---- params.c ---- */

const char *emit_format(Emitter *e, const char *text, ...) PRINTF_LIKE(2, 3);
const char *emit_int(Emitter *e, int64_t x); /* a parameter */
/* A number if the extent is constant; otherwise a parameter that is read once.
 */
const char *emit_kept_int(Emitter *e, int64_t x);
/* A parameter that is not an extent. */
const char *emit_plain_int(Emitter *e, int64_t x);
/* A word of a key, or of the key that replaces a placeholder. */
const char *emit_key(Emitter *e, PrngKey key, uint32_t word);
const char *emit_float(Emitter *e, double x);
/* Arithmetic on extents; an overflow sets `failed`. */
int64_t emit_extent_mul(Emitter *e, int64_t x, int64_t y);
int64_t emit_extent_add(Emitter *e, int64_t x, int64_t y);
int64_t emit_extent_ceil_div(Emitter *e, int64_t x, int64_t y);
/* Allocates scratch memory; returns the parameter with its offset. */
const char *emit_scratch(Emitter *e, int64_t elements, Dtype t);
char value_class(Dtype t);
/* The same, but 'u' for u8 in a kernel with lanes of 8 bits. */
char emit_class(const Emitter *e, Dtype t);
char vector_type_letter(char class);
const char *scalar_type(char class);
const char *memory_type(Dtype t);

/* ---- affine.c ---- */

/* Returns true if an i64 value is known to fit in an i32. */
bool emit_fits_i32(const KernelOp *s);

/* The divisor of an axis that may be empty. */
const char *emit_divisor(Emitter *e, int64_t divisor);
/* An affine expression without the term of the lane, as a name or a number. */
const char *emit_affine(Emitter *e, const AffineExpr *q);
/* The loop level at which it is known. */
uint32_t emit_affine_level(const Emitter *e, const AffineExpr *q);
/* Returns true if no floor division in it differs between lanes. */
bool emit_floor_divs_are_uniform(const Emitter *e, const AffineExpr *q);

/* ---- load.c ---- */

/* How a load reads the lanes of a vector. */
typedef enum LoadForm {
  LOAD_UNIFORM,    /* one element, which all lanes share */
  LOAD_CONTIGUOUS, /* a vector in memory */
  LOAD_STRIDED,
  LOAD_TRANSPOSED, /* vectors along another axis, transposed in registers */
  LOAD_PAIRS,      /* two 16-bit elements in each lane */
  LOAD_CHECKED,    /* contiguous; lanes out of bounds are not loaded */
  LOAD_ROW_PART,   /* the same for part of a row whose begin is data */
  LOAD_GATHER,     /* an address for each lane */
} LoadForm;
LoadForm emit_load_form(const Emitter *e, uint32_t op_index);
/* Offset of an output in its local buffer at an affine index, without the term
 * of the lane. */
const char *emit_local_offset(Emitter *e, const LocalBuffer *l,
                              const AffineExpr *q);
/* Returns true if the load reads contiguous vectors, or small strides, of which
 * a tail may be empty. */
bool emit_is_vector_load(const Emitter *e, const KernelOp *s);

/* ---- scalar_ops.c ---- */

/* The value of an operation as a vector of a class; emit_scalar: as a scalar,
 * if it is uniform. */
const char *emit_vector(Emitter *e, uint32_t op_index, char class);
const char *emit_store_value(Emitter *e, uint32_t op_index,
                             Dtype t); /* for a store */
const char *emit_scalar(Emitter *e, uint32_t op_index);
bool is_float_class(char class);
/* x / divisor, rounded down, for 32-bit lanes and a positive constant.  It is a
 * multiplication and a shift if a 31-bit product is exact.  Otherwise the
 * compiler expands a division. */
const char *emit_divide_by_constant(Emitter *e, const char *x,
                                    const KernelOp *dividend, int divisor);
/* Emits all operations of the loop, each at its loop level. */
void emit_ops(Emitter *e);
/* The same in two steps.  After the first, it is known which operations differ
 * between lanes, and the outputs of the loop may still change. */
void emit_place_ops(Emitter *e);
void emit_demanded_ops(Emitter *e);
/* Returns true if some operation or output uses the value. */
bool emit_is_demanded(const Emitter *e, uint32_t op_index);

/* ---- masked_load.c ---- */

/* Returns true if the operation is a select that becomes a masked load. */
bool emit_is_masked_load(const Emitter *e, uint32_t op_index);
/* Returns true if other lanes are not zero. */
bool emit_has_passthru(const Emitter *e, uint32_t op_index);
const char *emit_masked_load(Emitter *e, uint32_t op_index);
/* Returns true if the mask is an interval of lanes.  Then the condition has no
 * value; only its uniform parts do. */
bool emit_has_interval_mask(const Emitter *e, uint32_t op_index);
typedef void EmitOpVisitor(void *context, uint32_t op_index);
void emit_each_uniform_condition(const Emitter *e, uint32_t condition,
                                 EmitOpVisitor *found, void *context);

/* ---- register_transpose.c ---- */

/* A function that transposes W vectors of W lanes. */
void emit_transpose_function(Emitter *e, Buffer *out, char letter);
/* All transpose functions that the kernel calls. */
void emit_transpose_functions(Emitter *e, Buffer *out);
/* Returns true if the load reads vectors that are transposed. */
bool emit_is_transposed_read(const Emitter *e, const KernelOp *s);
/* The value in the current lanes. from: address of the first element; stride:
 * distance of the lanes. */
const char *emit_transposed_read(Emitter *e, Dtype t, char class,
                                 const char *from, const char *stride);
/* Emits loops over tiles of rows from .. to - 1 and lanes start .. end - 1,
 * with the code for full vectors and for tails. */
void emit_transposed_tiles(Emitter *e, Buffer *out, const char *from,
                           const char *to, const Buffer *full,
                           const Buffer *tail);

/* ---- lowered.c ---- */

/* The text of the current loop nest after lowering: at which loop each
 * operation is computed, and how each load and store runs.  Call when its
 * operations are emitted.  is_searched: a function searches the row of an
 * argmax. */
const char *emit_lowered_text(const Emitter *e, const Nest *n,
                              bool is_searched);

/* ---- reduction_ops.c ---- */

/* Combines an accumulator with an element or another accumulator, as scalars or
 * vectors of a class; emit_identity: the initial value of an accumulator. */
const char *emit_combine(Emitter *e, PrimId op, char class, bool is_vector,
                         const char *acc, const char *x);
const char *emit_identity(PrimId op, Dtype t);

#endif
