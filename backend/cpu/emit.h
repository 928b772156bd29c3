/* backend/cpu, emitting C: shared by steps.c, nests.c and product.c. */
#ifndef AXON_CPU_EMIT_H
#define AXON_CPU_EMIT_H

#include "backend/cpu/cpu.h"

enum {
  ROW_LEVEL = 1,
  LEVELS = KERNEL_AXES + 3,
  NO_LANE = KERNEL_VARS - 1, /* a variable that is nowhere */
  NO_STEP = INT32_MAX,
};

/* Where the values of a result lie while a unit is worked on. */
typedef struct Local {
  uint32_t name;     /* l%u */
  const char *size;  /* elements of one point */
  const char *block; /* points along the last outer axis; NULL: one */
  bool portioned;    /* lies at r%u, and l%u is that of the portion at hand, */
  bool together;     /* or of the point */
  bool sum; /* of a row, for a dialect that divides by such in its own way */
} Local;

typedef struct Emitter Emitter;

/* Lanes that a choice loads, found out before the lines that have the same. */
typedef struct Spans {
  Buffer text;
  uint32_t vectors, line; /* of a row; the axis of the lines */
  const char *vector;     /* which one it is, as C */
  const char *when;       /* what has to hold of a line, so that it has any
                             lanes; NULL: nothing.  Where `inside` is not 0, it
                             is known to hold */
  bool known;             /* with the line, and where it holds for two of them
                             it does for those between */
} Spans;

/* Where kernels are not C for this machine: CUDA C++, of one lane. */
typedef struct Dialect {
  const char *index; /* the type of indices and addresses */
  bool narrow;       /* integers that fit are of 32 bits */
  /* what divides an index */
  const char *(*divisor)(Emitter *e, int64_t by);
  /* the function of quotients of f32 by a sum of an earlier loop; or NULL */
  const char *over;
} Dialect;

/* What a function is written with: one for the kernel's loops, one for each
 * loop that packs an operand. */
struct Emitter {
  Arena *arena;
  const Kernel *k;
  const Schedule *s;
  const char *const *notes; /* of loops, as comments; or NULL */
  const char *number;       /* of the kernel; "": there are no others */
  const Dialect *dialect;   /* NULL: C */
  Emitted *out;
  uint32_t names;
  uint32_t ints_from, floats_from; /* of the call: this function's own */
  Local *locals[KERNEL_LOOPS];     /* by loop and result */
  const char *ahead[KERNEL_LOOPS]; /* where copies made ahead lie */
  Loop *finish[KERNEL_LOOPS];      /* of sums of few terms: the next loop, which
                                      finishes each of them; NULL: none does */
  Buffer head;                     /* of the function */
  Buffer copies;                   /* functions of what may be kept */
  bool failed;
  bool streams;  /* some results go past the caches */
  char turns[8]; /* classes of vectors that are turned */

  /* of the loop at hand */
  const Loop *loop;
  uint32_t at;        /* its number */
  uint32_t lane;      /* the variable along which lanes lie */
  uint32_t first;     /* number of its first step's name */
  uint32_t quotients; /* and of its first quotient's */
  uint32_t order[KERNEL_AXES], level_of[KERNEL_VARS]; /* of for-loops */
  uint32_t loops, lane_level;
  bool lane_quotients[QUOTIENTS]; /* differ from lane to lane: vectors */
  Buffer blocks[LEVELS];
  Buffer checks;
  uint32_t rows; /* the axis along which vectors are read that are turned;
                    NO_LANE: none are */
  Buffer turned, turned_names; /* what reads them; their declarations */
  uint32_t fetched; /* what masked loads read at its next point is fetched
                       ahead: an axis, or NO_LANE */
  uint32_t *levels; /* of steps */
  bool *varies;     /* with the lane */
  uint32_t together; /* points whose sums are made at once; 0: of one */
  bool *rounds;     /* there before they are rounded, too */
  bool few; /* terms: they are written out, and lanes behind the last are gone
               through like others */
  char *classes; /* f d i l b: of steps, as lanes */
  const char **need;
  uint32_t fused; /* a step that is a part of its one reader, and has no name;
                     NO_STEP: there is none */
  Spans *spans;   /* NULL: each load finds out which lanes it has */
  const char **given; /* of steps: the value, that is there already, or NULL;
                         NULL: all are computed */
};

/* ---- params.c ---- */

const char *emit_format(Emitter *e, const char *text, ...) PRINTF_LIKE(2, 3);
const char *emit_int(Emitter *e, int64_t x); /* a parameter */
/* One that is no size. */
const char *emit_number(Emitter *e, int64_t x);
/* A word of a key, or of what a mark will stand for. */
const char *emit_key(Emitter *e, Key key, uint32_t word);
const char *emit_float(Emitter *e, double x);
/* Arithmetic on sizes; what overflows is not emitted. */
int64_t emit_times(Emitter *e, int64_t x, int64_t y);
int64_t emit_plus(Emitter *e, int64_t x, int64_t y);
int64_t emit_over(Emitter *e, int64_t x, int64_t y); /* rounded up */
/* Scratch memory: the parameter that says where it begins. */
const char *emit_room(Emitter *e, int64_t elements, Dtype t);
char class_of(Dtype t);
char vector_letter(char class);
const char *scalar_type(char class);
const char *memory_type(Dtype t);

/* ---- forms.c ---- */

/* Is it an i64 of which it is known that an i32 holds it, in lanes too? */
bool emit_fits_narrow(const Step *s);

/* Of what may have no elements. */
const char *emit_divisor(Emitter *e, int64_t by);
/* The form without the lane's term, as a name or a number. */
const char *emit_quasi(Emitter *e, const Quasi *q);
/* The level of the block where it is known. */
uint32_t emit_level(const Emitter *e, const Quasi *q);

/* ---- reads.c ---- */

/* Where the value of a result at the form lies among the local ones, without
 * the lane's term. */
const char *emit_local(Emitter *e, const Local *l, const Quasi *q);
/* Are the read's lanes so near to each other that whole vectors are loaded, or
 * parts that may be empty? */
bool emit_is_near(const Emitter *e, const Step *s);

/* ---- steps.c ---- */

/* A step's value as lanes of a class; as a scalar, where it is one. */
const char *emit_lanes(Emitter *e, uint32_t step, char class);
const char *emit_stored(Emitter *e, uint32_t step, Dtype t); /* for a store */
const char *emit_scalar(Emitter *e, uint32_t step);
bool is_float_class(char class);
/* The larger or smaller of two; NaN wins. */
const char *emit_extreme(Emitter *e, bool most, char class, bool lanes,
                         const char *x, const char *y);
/* x / by rounded down, of lanes that are integers of 32 bits, by a positive
 * number: where a product of 31 bits says it, that and a shift, else compilers
 * know how. */
const char *emit_divided(Emitter *e, const char *x, const Step *of, int by);
/* Everything but loops: the steps, in their blocks. */
void emit_steps(Emitter *e);
/* The same in two parts: after the first it is known which steps vary with the
 * lane, and what the loop's results are may still change. */
void emit_placed(Emitter *e);
void emit_needed(Emitter *e);
/* Does anything need the step's value? */
bool emit_is_needed(const Emitter *e, uint32_t step);

/* ---- fetch.c ---- */

/* Of a read whose indices are the same in all lanes: where the row begins that
 * is wanted some indices later; NULL: that is not worth asking for. */
const char *emit_foreseen(Emitter *e, const Step *s);
/* Of a read that is the last one of a point's row: what asks for the next
 * point's; NULL: likewise. */
const char *emit_next_row(Emitter *e, const Step *s);

/* ---- masked.c ---- */

/* Is the step a choice that loads the lanes that it chooses, and no others? */
bool emit_is_masked(const Emitter *e, uint32_t step);
/* Is what it chooses else more than the zeros that are there anyway? */
bool emit_masked_else(const Emitter *e, uint32_t step);
const char *emit_masked(Emitter *e, uint32_t step);
/* Are those the lanes from one to another?  Then the condition has no value of
 * its own, only parts of it that are the same in all lanes. */
bool emit_is_ranged(const Emitter *e, uint32_t step);
typedef void EmitStep(void *context, uint32_t step);
void emit_each_scalar(const Emitter *e, uint32_t condition, EmitStep *found,
                      void *context);

/* ---- nests.c: loops as C ---- */

/* Makes the loop the one at hand, and places its for-loops.  order:
 * its `loops` for-loops around the lanes, in order; all other axes have their
 * values already. */
void emit_begin_loop(Emitter *e, const Loop *loop, uint32_t lane,
                     uint32_t loops, const uint32_t *order);
/* One loop of the kernel, complete. */
void emit_nest(Emitter *e, Buffer *out, uint32_t loop, uint32_t lane);
/* One number taken into another by a reduction, and what it begins with. */
const char *emit_combined(Emitter *e, PrimId op, char class, const char *acc,
                          const char *x);
const char *emit_identity(PrimId op, Dtype t);
/* For the axes that limits cut: from%u and to%u, by loop, at a point or at
 * some rows; all of them where `whole` says so. */
void emit_limits(Emitter *e, Buffer *out);
/* May limits turn out to be wrong? */
bool may_be_whole(const Kernel *k);
bool is_limited(const Loop *loop, uint32_t v);
/* missed |= what the kernel's guard says. */
void emit_guard(Emitter *e, Buffer *out);
/* A lane's block twice, between the macros that it is written in. */
void emit_lane_loop(Emitter *e, Buffer *out, const char *step,
                    const Buffer *whole, const Buffer *part);
void emit_put(Buffer *out, const Buffer *text);
/* What blocks are written between: of whole vectors, of parts of one. */
extern const char whole_macros[], part_macros[], no_macros[];

/* ---- together.c ---- */

/* Of how many points the sums of a loop are made at once; 0: of one. */
uint32_t together_points(const Kernel *k, const Schedule *s, uint32_t loop);

/* ---- few.c ---- */

/* The loop after the given one, over its axes, if that has sums of few terms
 * for this loop alone, which it reads where they come to be; NULL: it is not
 * so. */
Loop *few_finish(const Kernel *k, const Schedule *s, Arena *arena, uint32_t at);

/* ---- turned.c ---- */

/* A function that turns W vectors of so many lanes. */
void emit_turn(Emitter *e, Buffer *out, char letter);
/* Those that the kernel calls. */
void emit_turns(Emitter *e, Buffer *out);
/* Is a read one of vectors that are turned? */
bool is_turned(const Emitter *e, const Step *s);
/* The value in a lane's block of lanes of a class, which are `step` apart from
 * an address on. */
const char *emit_turned_read(Emitter *e, Dtype t, char class, const char *from,
                             const char *step);
/* The loops over rows from .. to - 1 and lanes start .. end - 1 of a square,
 * around a lane's block and what is done with it: of whole vectors, and of
 * parts. */
void emit_turned(Emitter *e, Buffer *out, const char *from, const char *to,
                 const Buffer *whole, const Buffer *part);

/* ---- portions.c ---- */

/* Loops from .. to - 1 of the kernel. */
typedef void EmitLoops(Emitter *e, Buffer *out, uint32_t from, uint32_t to);
/* All loops of it, those that go in portions so. */
void emit_portions(Emitter *e, Buffer *out, EmitLoops *loops);
/* x, of this portion, is taken into what is carried at `to`. */
void emit_carried(Emitter *e, Buffer *out, const Result *r, const char *to,
                  const char *x);
/* What the loop's extremes scale is scaled: they may have changed. */
void emit_rescaled(Emitter *e, Buffer *out, uint32_t loop);

/* ---- places.c ---- */

/* A part of a long row: the place that it found and, behind the places of all
 * parts, the value there.  best: the accumulator and its places, of a class;
 * place: the best one of these; to: where the place goes. */
typedef struct BestPart {
  char class;
  uint32_t name;
  bool far;
  const char *first; /* of rows: which of the accumulators it is, "" or "[0]" */
  const char *place, *to;
} BestPart;
void emit_best_row(Emitter *e, Buffer *out, const BestPart *p);
/* The values in each lane's accumulator of a block of columns, `step` elements
 * apart in the result. */
void emit_best_columns(Emitter *e, Buffer *out, const BestPart *p,
                       int64_t step);
/* The function that puts parts together. */
void emit_best_fold(Emitter *e, Buffer *out);

/* ---- members.c ---- */

/* The function that a kernel of small products calls, and the call. */
void emit_member_function(Emitter *e, Buffer *out);
void emit_members(Emitter *e, Buffer *out);

/* ---- products.c ---- */

/* Functions that the products of a kernel call. */
void emit_tiles(Emitter *e, Buffer *out);
/* What the rows of a unit share of a product, before these are gone through.
 */
void emit_ahead(Emitter *e, Buffer *out, uint32_t loop);
/* Declares `odd`: is something not finite that a product may leave out? */
void emit_odd(Emitter *e, Buffer *out);
/* The product that a loop is; rest: what is done with each part of the result
 * as soon as it is there. */
void emit_product(Emitter *e, Buffer *out, uint32_t loop, const Buffer *rest);

#endif
