/* backend/cuda: kernels of the tensor language as CUDA C++.
 *
 * A kernel becomes one text with some functions, its *passes*, which run one
 * after the other.  In a pass the points of the kernel's outer axes are shared
 * out over blocks; a point is worked on by a *team* of threads: one, some of a
 * warp, or a block.  What loops leave for later ones at a point lies in
 * registers, shared memory, or scratch memory, and what one pass leaves for the
 * next in scratch memory.
 *
 * Statements come from backend/cpu/steps.c, as of one lane: so what an
 * operation means is written once.  Texts hold no sizes: these are parameters,
 * and what a text does depend on is in its schedules.  Nothing of it says asm:
 * beyond CUDA C++ there are only the ax_ functions of prelude/ and device/. */
#ifndef AXON_CUDA_KERNEL_H
#define AXON_CUDA_KERNEL_H

#include "backend/cpu/emit.h"
#include "backend/cuda/map.h"

typedef enum CudaShape {
  CUDA_POINTS,  /* a thread has some points that are next to each other */
  CUDA_TURNED,  /* squares, of which some operands are read along the other side
                   and turned in shared memory */
  CUDA_TEAM,    /* a team has a point */
  CUDA_TILE,    /* a block has a tile of a contraction: tile.h */
  CUDA_ATTEND,  /* or rows of one of two with weights between: attend.h */
  CUDA_ROUTINE, /* what routines.c says */
  CUDA_SHAPES,
} CudaShape;

/* How a pass is run; chosen by schedule.c. */
typedef struct CudaSchedule {
  CudaShape shape;
  uint32_t threads;          /* of a block */
  struct CudaTile *tile;     /* TILE */
  struct CudaAttend *attend; /* ATTEND */
  const char *what;          /* ROUTINE: in words */
  uint32_t team;             /* TEAM: of a point */
  bool across;     /* TEAM: neighbours are of other points, next to each other;
                      and not: of one team */
  uint32_t vector; /* elements next to each other that a thread has at once */
  uint32_t held;   /* TEAM: so many times a vector of a row lie in the registers
                      of a thread; 0: rows are gone through as often as there
                      are loops */
  bool online;     /* TEAM: sums go on with the largest of a row (online.c) */
  uint32_t turned; /* TURNED: the axis that such operands are read along, */
  uint32_t side;   /* and elements of a square's side */
  int64_t chunk;   /* 0, or: terms of its one sum that a block takes; another
                      pass adds up what came of them */
} CudaSchedule;

/* Blocks of a grid whose teams have scratch memory of their own, at most. */
enum { CUDA_GRID_SLOTS = 1024 };

/* What the last of the pointers points to: a word for what checks find, and
 * counters of blocks that are done, from COUNTERS_AT on.  All of it is 0 before
 * a pass, and the counters are after it.  (Of a module, the word alone.) */
enum {
  CUDA_COUNTERS = 4096,
  CUDA_COUNTERS_AT = 256,
  CUDA_WORDS = CUDA_COUNTERS_AT + 4 * CUDA_COUNTERS, /* bytes */
};

/* A pass as it is started.  Its arguments are one struct: pointers (all of the
 * kernel's: results, inputs, scratch memory, the word for checks), indices,
 * divisors, numbers, tensor maps; cuda_arguments fills it in. */
typedef struct CudaPass {
  CudaSchedule s;
  Kernel *k; /* what it does, as a kernel; its loops are, in the whole one, */
  uint32_t first; /* these from here on; UINT32_MAX: it adds up chunks */
  char name[16];
  Emitted emitted;       /* its call's numbers */
  VEC(int64_t) divisors; /* sizes */
  VEC(CudaMap) maps;
  VEC(int64_t) narrow;           /* open sizes that its text has in 32 bits */
  int64_t counters, counters_at; /* of a module's: so many lie there in scratch
                                    memory, and are 0 before; sizes */
  int64_t rows, columns, tiles;  /* of a product, sizes */
  int64_t blocks;    /* of a grid that has all there is to do: a size; */
  int64_t grid_most; /* at most so many are started; 0: all */
  int64_t shared;    /* bytes of a block's shared memory: a size */
  uint32_t key;      /* 1 + which two of its indices are the words of the node's
                        random key; or 0 */
} CudaPass;

typedef struct CudaKernel {
  Buffer text;
  VEC(CudaPass *) passes;
  VEC(Result *) outs;
  uint32_t pointers; /* of each pass's arguments */
  int64_t scratch;   /* bytes of scratch memory: a size; it ends where its last
                        part does, so that what is read beyond that is seen */
  int64_t scratch_next; /* where another part would begin */
  bool narrow;       /* indices are of 32 bits */
  uint32_t checks;   /* how many there are in all passes */
  bool lines;        /* tensors are to begin at multiples of 16 bytes */
} CudaKernel;

/* What is known of the device. */
typedef struct CudaTarget {
  const char *arch; /* "sm_90a"; NULL: it is not known */
  int processors;
  uint32_t shared;      /* bytes that a block may have; */
  uint32_t shared_most; /* that has to ask for them */
  bool tf32;            /* products of f32 may round their factors to it */
  bool maps;            /* who starts passes makes their tensor maps */
  const char *prefix;   /* of its passes' names; NULL: "axon" */
} CudaTarget;

/* False: there is something in it that is not emitted.  notes: as for
 * emit_kernel.  May put the kernel's axes into another order. */
bool cuda_emit(Kernel *k, const CudaTarget *target, const char *const *notes,
               CudaKernel *out);
/* Is it one that has rows of a product, and leaves none in memory? */
bool cuda_keeps_no_rows(const Kernel *k, const CudaTarget *target);
/* What the check of this number sets, counted over all passes. */
uint32_t cuda_check_bit(uint32_t number);
/* With all that it stands on: what NVRTC takes.  False: there is no memory. */
bool cuda_whole_text(const Buffer *text, Buffer *out);

/* Bytes of a pass's arguments, and these: pointers in the order above; floats:
 * the pass's own, with their values; keys: what marks of them stand for. */
size_t cuda_argument_bytes(const CudaKernel *k, const CudaPass *p);
void cuda_arguments(const CudaKernel *k, const CudaPass *p,
                    const uint64_t *pointers, const double *floats,
                    const Key *keys, void *to);
/* The tensor maps among them, of tensors at these places. */
bool cuda_put_maps(const CudaKernel *k, const CudaPass *p, CudaGpu *gpu,
                   const uint64_t *pointers, void *to, Fault *fault);
enum { ARGUMENTS_MOST = 4096, ARGUMENTS_LINE = 64 /* they are aligned to */ };
/* Are there more than the driver takes?  Then they lie in memory of the device,
 * and the one argument is where. */
bool cuda_is_far(const CudaKernel *k, const CudaPass *p);

/* "team of 32, 4 elements, 8 times in registers" */
void cuda_schedule_put(Buffer *out, const CudaSchedule *s);

/* ---- schedule.c ---- */

/* Is it run loop by loop, since a team for each of its points is too little? */
bool cuda_is_apart(const Kernel *k, const CudaTarget *target);
/* Gives a pass its schedule; may put its axes into another order.  whole: it is
 * not to leave sums of chunks. */
void cuda_schedule(CudaPass *p, const CudaTarget *target, bool whole);
/* The axes that a team shares out, that of neighbours last; their number. */
uint32_t cuda_shared_axes(const Loop *loop, const CudaSchedule *s,
                          uint32_t axes[KERNEL_AXES]);

/* ---- recompute.c ---- */

/* The kernel of a pass that is the first one, with little left along rows for
 * later loops. */
Kernel *cuda_recompute(const Kernel *k);

/* ---- emit.c: what the kinds of passes share ---- */

/* Where a local value lies. */
typedef enum CudaPlace {
  PLACE_NONE,
  PLACE_VALUE,  /* one number in a register, l%u, the same in all of a team */
  PLACE_HELD,   /* l%u[t * vector + v] of the thread that has the element */
  PLACE_SHARED, /* a pointer, l%u */
  PLACE_SLOT,   /* likewise, into scratch memory that a team has for itself */
  PLACE_POINT,  /* and into what each point has: for passes that follow */
} CudaPlace;

typedef struct CudaLocal {
  CudaPlace place;
  uint32_t name;
  int64_t at; /* PLACE_POINT: bytes into the scratch memory, a size */
} CudaLocal;

/* Where in scratch memory parts of a reduction lie, and of an argmax, behind
 * their values, their places in the row: sizes. */
typedef struct CudaPart {
  Dtype dtype;
  int64_t at, places;
  bool where;
} CudaPart;

/* What a pass is written with. */
typedef struct CudaWriter {
  Emitter e;
  Dialect dialect;
  CudaKernel *out;
  CudaPass *pass;
  CudaSchedule *s;
  const CudaTarget *target;
  const Kernel *k;
  CudaLocal *locals[KERNEL_LOOPS]; /* by the whole kernel's loop and result */
  Buffer head, body;               /* of the pass */
  int64_t points;                  /* of its outer axes: a size */
  int64_t parts;                   /* of chunks: how many of a sum, a size, */
  CudaPart left;                   /* which are left there */
  const CudaPart *given; /* those that the pass at hand reads, as inputs behind
                            the kernel's; their number */
  uint32_t givens;
  struct CudaReduce *reduce; /* of the pass at hand; or NULL */
} CudaWriter;

/* A loop's steps as statements, where each of its axes v has the C name i%u,
 * already declared where they will stand.  given: of each step, a C expression
 * that is its value, of the scalar type of its class, or NULL; or NULL.  What
 * depends on no axis goes to the kernel's head; all else to `out`, in order.
 * Afterwards emit_scalar(&w->e, step) is what a step's value is called.
 *
 * This is how a tile's epilogue is written: given[the step that is the
 * product's STEP_LOCAL] is the accumulator.  And its prologue: the factor's
 * loop, and emit_scalar of the factor's step. */
void cuda_put_steps(CudaWriter *w, Buffer *out, const Loop *loop,
                    const char **given);
/* The statement that stores a result of the loop at hand. */
void cuda_put_store(CudaWriter *w, Buffer *out, const Result *r, const char *x);
/* `p[at] = x` in memory of a type. */
void cuda_put_at(Buffer *out, Dtype t, const char *p, const char *at,
                 const char *x);
/* The expression x as a value of the type would be read from memory. */
const char *cuda_kept(Emitter *e, Dtype t, const char *x);
uint32_t cuda_out_number(const CudaWriter *w, const Result *r);
/* Statements that declare i%u of some axes from their number in row-major
 * order; of the first outer ones. */
void cuda_put_axes(CudaWriter *w, Buffer *out, const Loop *loop, uint32_t count,
                   const uint32_t *axes, const char *number);
void cuda_put_outer(CudaWriter *w, Buffer *out, uint32_t count,
                    const char *number);
const char *cuda_divisor(Emitter *e, int64_t by);
/* Scratch memory, for so many values; where it begins, a size. */
int64_t cuda_take_bytes(CudaWriter *w, int64_t bytes);
int64_t cuda_take_scratch(CudaWriter *w, int64_t count, Dtype t);
/* The address of a tensor map that the pass has from now on. */
const char *cuda_add_map(CudaWriter *w, const CudaMap *map);
/* The address without an axis's term. */
const char *cuda_address(Emitter *e, const Quasi *q, uint32_t without);

/* ---- sums.c: reductions ---- */

/* What a result is accumulated in. */
typedef struct CudaSum {
  const Result *r;
  uint32_t name; /* acc%u; of runs, which rows.c has: sum%u, too */
  char class;
  const char *type, *identity,
      *where; /* where: of argmax and argmin, or NULL */
  const char *place_type;
  bool runs;
} CudaSum;

/* Is it the place of a value that is wanted? */
bool cuda_is_where(PrimId reduce);
/* Of the loop at hand: statements that declare it, take in the element at hand,
 * put together what some threads have by `fold` of the prelude. */
CudaSum cuda_sum_new(CudaWriter *w, const Loop *loop, const Result *r);
void cuda_sum_declare(const CudaSum *s, Buffer *out);
void cuda_sum_take(CudaWriter *w, const CudaSum *s, Buffer *out);
void cuda_sum_join(CudaWriter *w, const CudaSum *s, Buffer *out,
                   const char *fold, const char *room);
const char *cuda_sum_value(Emitter *e, const CudaSum *s);

/* Scratch memory for so many parts; */
CudaPart cuda_take_part(CudaWriter *w, const Loop *loop, const Result *r,
                        int64_t count);
/* a statement that leaves the sum as the part `at`; */
void cuda_sum_leave(CudaWriter *w, const CudaSum *s, const CudaPart *p,
                    const char *at, Buffer *out);
/* one of w->given as a step of another pass, and where all of these are. */
Step cuda_part_step(const CudaWriter *w, const CudaPart *p, Quasi *address);
void cuda_put_parts(CudaWriter *w);

/* ---- vectors.c: accesses of several elements ---- */

/* Is it a sum over the axes? */
bool cuda_is_affine(const Quasi *q);
/* Is the element at the form, along the axis, one of `vector` that lie next to
 * each other in memory and begin at a multiple of that? */
bool cuda_is_vector(const Loop *loop, const Quasi *at, uint32_t axis,
                    uint32_t vector);
/* Is the read the same all along the axis? */
bool cuda_is_even(const Loop *loop, const Quasi *at, uint32_t axis);
/* Element `at` of an array of values in memory's type, as a value. */
const char *cuda_element(Emitter *e, Dtype t, const char *array,
                         const char *at);
bool cuda_depends(const Loop *loop, const Quasi *at, uint32_t axis);
/* A vector's access as a statement: of `first` and those behind it on the axis.
 * full: "" or a test that all of them are there, with an "&& "; left: how many
 * are. */
void cuda_put_load(CudaWriter *w, Buffer *out, const Step *s, uint32_t axis,
                   const char *to, const char *first, const char *full,
                   const char *left);
void cuda_put_vector(CudaWriter *w, Buffer *out, const Result *r, uint32_t axis,
                     const char *from, const char *first, const char *full,
                     const char *left);

/* ---- points.c, rows.c, tile.c, attend.c: the kinds ---- */

void cuda_put_points(CudaWriter *w);
void cuda_put_turned(CudaWriter *w);
void cuda_put_team(CudaWriter *w);
void cuda_tile_print(Buffer *out, const struct CudaTile *t);
void cuda_attend_print(Buffer *out, const struct CudaAttend *t);

#endif
