/* backend/cpu, emitting C: shared by scalar_ops.c, backend/cpu/loop_writer.c
 * and kernel/match_contraction.c. */
#ifndef AXON_EMIT_H
#define AXON_EMIT_H

#include "backend/cpu/cpu.h"

enum {
  OUTER_LEVEL = 1,
  MAX_LEVELS = MAX_KERNEL_AXES + 3,
  NO_AXIS = MAX_KERNEL_VARS - 1, /* a variable that is nowhere */
  NO_KERNEL_OP = INT32_MAX,
};

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

/* Where kernels are not C for this machine: CUDA C++, of one lane. */
typedef struct Dialect {
  const char *index_type; /* the type of indices and addresses */
  bool narrow_ints;       /* integers that fit are of 32 bits */
  /* what divides an index */
  const char *(*emit_divisor)(Emitter *e, int64_t divisor);
  /* the function of quotients of f32 by a sum of an earlier loop; or NULL */
  const char *divide_by_row_sum;
} Dialect;

/* What a function is written with: one for the kernel's loops, one for each
 * loop that packs an operand. */
struct Emitter {
  Arena *arena;
  const Kernel *kernel;
  const Schedule *schedule;
  const char *const *comments; /* of loops, as comments; or NULL */
  const char *suffix;          /* of the kernel; "": there are no others */
  const Dialect *dialect;      /* NULL: C */
  EmittedKernel *emitted;
  uint32_t next_id;
  uint32_t first_int, first_float;       /* of the call: this function's own */
  LocalBuffer *locals[MAX_KERNEL_LOOPS]; /* by loop and result */
  const char
      *hoisted_panels[MAX_KERNEL_LOOPS]; /* where copies made ahead lie */
  LoopNest
      *epilogue[MAX_KERNEL_LOOPS]; /* of sums of few terms: the next loop, which
                                      finishes each of them; NULL: none does */
  Buffer function_head;            /* of the function */
  Buffer pack_functions;           /* functions of what may be kept */
  bool failed;
  bool has_nontemporal;      /* some results go past the caches */
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
  uint32_t jammed_rows;   /* points whose sums are made at once; 0: of one */
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
/* An accumulator and an element combined by a reduction, or two accumulators:
 * numbers or vectors of a class. */
const char *emit_combine(Emitter *e, PrimId op, char class, bool is_vector,
                         const char *acc, const char *x);
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

/* ---- prefetch.c ---- */

/* Of a read whose indices are the same in all lanes: where the row begins that
 * is wanted some indices later; NULL: that is not worth asking for. */
const char *emit_gather_prefetch(Emitter *e, const KernelOp *s);
/* Of a read that is the last one of a point's row: what asks for the next
 * point's; NULL: likewise. */
const char *emit_next_row_prefetch(Emitter *e, const KernelOp *s);

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

/* ---- backend/cpu/loop_writer.c: loops as C ---- */

/* Makes the loop the one at hand, and places its for-loops.  order:
 * its `loops` for-loops around the lanes, in order; all other axes have their
 * values already. */
void emit_begin_loop(Emitter *e, const LoopNest *loop, uint32_t vector_axis,
                     uint32_t loops, const uint32_t *order);
/* One loop of the kernel, complete. */
void emit_loop_nest(Emitter *e, Buffer *out, uint32_t loop,
                    uint32_t vector_axis);
/* What an accumulator of elements of a type begins with. */
const char *emit_identity(PrimId op, Dtype t);
/* For the axes that limits cut: from%u and to%u, by loop, at a point or at
 * some rows; all of them where `whole` says so. */
void emit_trim_bounds(Emitter *e, Buffer *out);
/* May limits turn out to be wrong? */
bool kernel_may_run_untrimmed(const Kernel *k);
bool loop_is_trimmed(const LoopNest *loop, uint32_t v);
/* missed |= what the kernel's guard says. */
void emit_trim_check(Emitter *e, Buffer *out);
/* A lane's block twice, between the macros that it is written in. */
void emit_vector_loop(Emitter *e, Buffer *out, const char *stride,
                      const Buffer *full, const Buffer *tail);
void emit_append(Buffer *out, const Buffer *text);
/* What blocks are written between: of whole vectors, of parts of one. */
extern const char full_vector_macros[], tail_macros[], undef_macros[];

/* ---- backend/cpu/unroll_and_jam.c ---- */

/* Of how many points the sums of a loop are made at once; 0: of one. */
uint32_t unroll_and_jam_points(const Kernel *k, const Schedule *s,
                               uint32_t loop);

/* ---- backend/cpu/unrolled_reduction.c ---- */

/* The loop after the given one, over its axes, if that has sums of few terms
 * for this loop alone, which it reads where they come to be; NULL: it is not
 * so. */
LoopNest *unrolled_reduction_epilogue(const Kernel *k, const Schedule *s,
                                      Arena *arena, uint32_t at);

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

/* ---- backend/cpu/online_reduction.c ---- */

/* Loops from .. to - 1 of the kernel. */
typedef void EmitLoops(Emitter *e, Buffer *out, uint32_t from, uint32_t to);
/* All loops of it, those that go in portions so. */
void emit_online_reduction(Emitter *e, Buffer *out, EmitLoops *loops);
/* x, of this portion, is taken into what is carried at `to`. */
void emit_online_update(Emitter *e, Buffer *out, const LoopOutput *r,
                        const char *to, const char *x);
/* What the loop's extremes scale is scaled: they may have changed. */
void emit_online_rescale(Emitter *e, Buffer *out, uint32_t loop);

/* ---- backend/cpu/arg_reduction.c ---- */

/* A part of a long row: the place that it found and, behind the places of all
 * parts, the value there.  best: the accumulator and its places, of a class;
 * place: the best one of these; to: where the place goes. */
typedef struct ArgReductionPart {
  char class;
  uint32_t accumulator_id;
  bool wide_index;
  const char *accumulator_index; /* of rows: which of the accumulators it is, ""
                                    or "[0]" */
  const char *best_index, *address;
} ArgReductionPart;
void emit_arg_row_partial(Emitter *e, Buffer *out, const ArgReductionPart *p);
/* The values in each lane's accumulator of a block of columns, `step` elements
 * apart in the result. */
void emit_arg_column_partials(Emitter *e, Buffer *out,
                              const ArgReductionPart *p, int64_t stride);
/* The function that puts parts together. */
void emit_arg_combine(Emitter *e, Buffer *out);

/* ---- backend/cpu/batched_small_gemm.c ---- */

/* The function that a kernel of small products calls, and the call. */
void emit_batched_gemm_function(Emitter *e, Buffer *out);
void emit_batched_gemm_call(Emitter *e, Buffer *out);

/* ---- backend/cpu/gemm.c ---- */

/* Functions that the products of a kernel call. */
void emit_gemm_functions(Emitter *e, Buffer *out);
/* What the rows of a unit share of a product, before these are gone through.
 */
void emit_hoisted_packing(Emitter *e, Buffer *out, uint32_t loop);
/* Declares `odd`: is something not finite that a product may leave out? */
void emit_nonfinite_check(Emitter *e, Buffer *out);
/* The product that a loop is; rest: what is done with each part of the result
 * as soon as it is there. */
void emit_gemm(Emitter *e, Buffer *out, uint32_t loop, const Buffer *epilogue);

#endif
