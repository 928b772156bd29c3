/* backend/emit: the loops of a kernel as statements, which C and CUDA C++ have
 * in common.  What they do not is in Dialect. */
#ifndef AXON_EMIT_H
#define AXON_EMIT_H

#include "kernel/kernel.h"

enum {
  MAX_KERNEL_LOOPS = 64, /* more than these are left to the reference backend */
  MAX_LOOP_OUTPUTS = 16, /* likewise, of one loop */
  MAX_KERNEL_POINTERS = 96, /* of a kernel: results and inputs */
  OUTER_LEVEL = 1,
  MAX_LEVELS = MAX_KERNEL_AXES + 3,
  NO_AXIS = MAX_KERNEL_VARS - 1, /* a variable that is nowhere */
  NO_KERNEL_OP = INT32_MAX,
};

/* Lanes that many elements apart, at most, are loaded next to each other, and
 * then taken apart. */
enum { MAX_DEINTERLEAVE = 4 };

/* The arguments of a generated function: pointers (results, then inputs),
 * integers, scalars.  Integers are sizes (tensor/extent.h): numbers where the
 * kernel's extents are. */
typedef struct KeyParam { /* an integer that is part of a key */
  uint32_t int_index, key_index, word_index;
} KeyParam;

typedef struct Call {
  VEC(int64_t) ints;
  VEC(KeyParam) key_params; /* of marks: what they stand for is put there */
  VEC(double) floats;
  VEC(LoopOutput *) outputs;
  int64_t scratch_bytes; /* bytes of scratch memory that a call needs */
  VEC(const KernelOp *) checks;
} Call;

/* What a kernel looks at before it uses an element: k, and it gives bit k of
 * its result where that is wrong (the last bit is that of all that follow). */
enum { MAX_CHECKS = 30 };

typedef struct EmittedKernel {
  Buffer source; /* of the kernel, in the arena */
  Call call;     /* what this one wants */
} EmittedKernel;

/* Where the values of a result lie while a unit is worked on. */
typedef struct LocalBuffer {
  uint32_t id;                /* l%u */
  const char *point_elements; /* elements of one point */
  const char *row_elements;   /* points along the last outer axis; NULL: one */
  bool strip_mined; /* lies at r%u, and l%u is that of the portion at hand, */
  bool jammed;      /* or of the point */
  bool is_row_sum;  /* of a row, for a dialect that divides by such in its own
                       way */
} LocalBuffer;

typedef struct Emitter Emitter;

/* Lanes that a choice loads, found out before the lines that have the same. */
typedef struct HoistedMasks {
  Buffer source;
  uint32_t vector_count, line_axis; /* of a row; the axis of the lines */
  const char *vector_index;         /* which one it is, as C */
  const char *line_condition; /* what has to hold of a line, so that it has any
                                 lanes; NULL: nothing.  Where `inside` is not 0,
                                 it is known to hold */
  bool condition_is_interval; /* with the line, and where it holds for two of
                                 them it does for those between */
} HoistedMasks;

/* How C and CUDA C++ differ. */
typedef struct Dialect {
  const char *index_type; /* the type of indices and addresses */
  bool narrow_ints;       /* integers that fit are of 32 bits */
  bool scalars_only;      /* there are no vectors */
  bool is_cuda; /* a primitive has MapInfo.cuda as its text, if there is one */
  /* what divides an index */
  const char *(*emit_divisor)(Emitter *e, int64_t divisor);
  /* the function of quotients of f32 by a sum of an earlier loop; or NULL */
  const char *divide_by_row_sum;
  /* Where the value of a result at the form lies among the local ones, without
   * the lane's term; NULL: at the form. */
  const char *(*emit_local_offset)(Emitter *e, const LocalBuffer *l,
                                   const AffineExpr *q);
  /* Of a read whose indices are the same in all lanes: where the row begins
   * that is wanted some indices later.  It or its result is NULL: that is not
   * worth asking for. */
  const char *(*emit_gather_prefetch)(Emitter *e, const KernelOp *s);
  /* Of a read that is the last one of a point's row: what asks for the next
   * point's; NULL: likewise. */
  const char *(*emit_next_row_prefetch)(Emitter *e, const KernelOp *s);
} Dialect;

/* What a function is written with: one for the kernel's loops, one for each
 * loop that packs an operand. */
struct Emitter {
  Arena *arena;
  const Kernel *kernel;
  const char *suffix; /* of the kernel; "": there are no others */
  const Dialect *dialect;
  struct CpuEmitter *cpu; /* what only backend/cpu knows; NULL: it is CUDA */
  EmittedKernel *emitted;
  uint32_t width;       /* lanes of a vector */
  bool locals_by_point; /* a task has some points, one after the other, whose
                           local values are strided (TASK_ROWS) */
  bool has_lane_begin;  /* lanes along the last outer axis begin at `lo` */
  uint32_t next_id;
  uint32_t first_int, first_float;       /* of the call: this function's own */
  LocalBuffer *locals[MAX_KERNEL_LOOPS]; /* by loop and result */
  Buffer function_head;                  /* of the function */
  bool failed;
  char transpose_classes[8]; /* classes of vectors that are turned */

  /* of the loop at hand */
  const LoopNest *loop;
  uint32_t loop_index;      /* its number */
  uint32_t vector_axis;     /* the variable along which lanes lie */
  uint32_t first_op;        /* number of its first step's name */
  uint32_t first_floor_div; /* and of its first quotient's */
  uint32_t loop_order[MAX_KERNEL_AXES],
      level_of[MAX_KERNEL_VARS]; /* of for-loops */
  uint32_t loop_count, vector_level;
  bool floor_div_varies[MAX_FLOOR_DIVS]; /* differ from lane to lane: vectors */
  Buffer level_code[MAX_LEVELS];
  Buffer check_code;
  uint32_t transpose_axis; /* the axis along which vectors are read that are
                              turned; NO_AXIS: none are */
  Buffer transpose_loads,
      transpose_decls;    /* what reads them; their declarations */
  uint32_t prefetch_axis; /* what masked loads read at its next point is fetched
                             ahead: an axis, or NO_AXIS */
  uint32_t *op_levels;    /* of steps */
  bool *varies;           /* with the lane */
  bool *has_unrounded;    /* there before they are rounded, too */
  bool reads_past_tail;   /* terms: they are written out, and lanes behind the
                             last are gone through like others */
  char *classes;          /* f d i l b: of steps, as lanes */
  const char **demanded_lanes;
  uint32_t contracted_op; /* a step that is a part of its one reader, and has no
                             name; NO_KERNEL_OP: there is none */
  HoistedMasks
      *hoisted_masks;       /* NULL: each load finds out which lanes it has */
  const char **precomputed; /* of steps: the value, that is there already, or
                               NULL; NULL: all are computed */
};

/* ---- emitter.c ---- */

/* Makes the loop the one at hand, and places its for-loops.  order:
 * its `loops` for-loops around the lanes, in order; all other axes have their
 * values already. */
void emit_begin_loop(Emitter *e, const LoopNest *loop, uint32_t vector_axis,
                     uint32_t loops, const uint32_t *order);
void emit_append(Buffer *out, const Buffer *text);
/* What blocks are written between: of whole vectors, of parts of one. */
extern const char full_vector_macros[], tail_macros[], undef_macros[];

/* ---- params.c ---- */

const char *emit_format(Emitter *e, const char *text, ...) PRINTF_LIKE(2, 3);
const char *emit_int(Emitter *e, int64_t x); /* a parameter */
/* One that is no size. */
const char *emit_plain_int(Emitter *e, int64_t x);
/* A word of a key, or of what a mark will stand for. */
const char *emit_key(Emitter *e, PrngKey key, uint32_t word);
const char *emit_float(Emitter *e, double x);
/* Arithmetic on sizes; what overflows is not emitted. */
int64_t emit_extent_mul(Emitter *e, int64_t x, int64_t y);
int64_t emit_extent_add(Emitter *e, int64_t x, int64_t y);
int64_t emit_extent_ceil_div(Emitter *e, int64_t x, int64_t y); /* rounded up */
/* Scratch memory: the parameter that says where it begins. */
const char *emit_scratch(Emitter *e, int64_t elements, Dtype t);
char value_class(Dtype t);
char vector_type_letter(char class);
const char *scalar_type(char class);
const char *memory_type(Dtype t);

/* ---- affine.c ---- */

/* Is it an i64 of which it is known that an i32 holds it, in lanes too? */
bool emit_fits_i32(const KernelOp *s);

/* Of what may have no elements. */
const char *emit_divisor(Emitter *e, int64_t divisor);
/* The form without the lane's term, as a name or a number. */
const char *emit_affine(Emitter *e, const AffineExpr *q);
/* The level of the block where it is known. */
uint32_t emit_affine_level(const Emitter *e, const AffineExpr *q);

/* ---- load.c ---- */

/* Where the value of a result at the form lies among the local ones, without
 * the lane's term. */
const char *emit_local_offset(Emitter *e, const LocalBuffer *l,
                              const AffineExpr *q);
/* Are the read's lanes so near to each other that whole vectors are loaded, or
 * parts that may be empty? */
bool emit_is_vector_load(const Emitter *e, const KernelOp *s);

/* ---- scalar_ops.c ---- */

/* A step's value as lanes of a class; as a scalar, where it is one. */
const char *emit_vector(Emitter *e, uint32_t stride, char class);
const char *emit_store_value(Emitter *e, uint32_t stride,
                             Dtype t); /* for a store */
const char *emit_scalar(Emitter *e, uint32_t stride);
bool is_float_class(char class);
/* x / by rounded down, of lanes that are integers of 32 bits, by a positive
 * number: where a product of 31 bits says it, that and a shift, else compilers
 * know how. */
const char *emit_divide_by_constant(Emitter *e, const char *x,
                                    const KernelOp *dividend, int divisor);
/* Everything but loops: the steps, in their blocks. */
void emit_ops(Emitter *e);
/* The same in two parts: after the first it is known which steps vary with the
 * lane, and what the loop's results are may still change. */
void emit_place_ops(Emitter *e);
void emit_demanded_ops(Emitter *e);
/* Does anything need the step's value? */
bool emit_is_demanded(const Emitter *e, uint32_t stride);

/* ---- masked_load.c ---- */

/* Is the step a choice that loads the lanes that it chooses, and no others? */
bool emit_is_masked_load(const Emitter *e, uint32_t stride);
/* Is what it chooses else more than the zeros that are there anyway? */
bool emit_has_passthru(const Emitter *e, uint32_t stride);
const char *emit_masked_load(Emitter *e, uint32_t stride);
/* Are those the lanes from one to another?  Then the condition has no value of
 * its own, only parts of it that are the same in all lanes. */
bool emit_has_interval_mask(const Emitter *e, uint32_t stride);
typedef void EmitOpVisitor(void *context, uint32_t stride);
void emit_each_uniform_condition(const Emitter *e, uint32_t condition,
                                 EmitOpVisitor *found, void *context);

/* ---- register_transpose.c ---- */

/* A function that turns W vectors of so many lanes. */
void emit_transpose_function(Emitter *e, Buffer *out, char letter);
/* Those that the kernel calls. */
void emit_transpose_functions(Emitter *e, Buffer *out);
/* Is a read one of vectors that are turned? */
bool emit_is_transposed_read(const Emitter *e, const KernelOp *s);
/* The value in a lane's block of lanes of a class, which are `step` apart from
 * an address on. */
const char *emit_transposed_read(Emitter *e, Dtype t, char class,
                                 const char *from, const char *stride);
/* The loops over rows from .. to - 1 and lanes start .. end - 1 of a square,
 * around a lane's block and what is done with it: of whole vectors, and of
 * parts. */
void emit_transposed_tiles(Emitter *e, Buffer *out, const char *from,
                           const char *to, const Buffer *full,
                           const Buffer *tail);

/* ---- reduction_ops.c ---- */

/* An accumulator and an element combined by a reduction, or two accumulators:
 * numbers or vectors of a class; and what an accumulator of elements of a type
 * begins with. */
const char *emit_combine(Emitter *e, PrimId op, char class, bool is_vector,
                         const char *acc, const char *x);
const char *emit_identity(PrimId op, Dtype t);

#endif
