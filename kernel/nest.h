/* Loop nests as a schedule arranges them.
 *
 * A LoopNest (kernel/kernel.h) says what is computed: it is a pure definition
 * over axes.  A Nest says how its iterations run: a chain of loops, outermost
 * first, each over a *piece* of an axis.  At first there is one serial loop for
 * each axis.  *Steps* transform a nest.  Each step is checked, and each prefix
 * of a schedule is a complete nest that can be verified, printed and compiled.
 *
 * A tile of `n` splits the innermost piece of an axis: the outer piece then
 * advances by n iterations of the inner piece.  Piece 0 is the innermost one.
 * In text, piece 1 of axis i3 is i3.1.
 *
 * Accumulators of reductions live inside of the loops that precede the first
 * loop of a reduced axis.  Each iteration of a later loop over a spatial piece,
 * and of a loop over parts, has its own accumulator. */
#ifndef AXON_NEST_H
#define AXON_NEST_H

#include "kernel/kernel.h"
#include "support/compiler.h"

typedef struct Buffer Buffer;

enum {
  MAX_NEST_LOOPS = MAX_KERNEL_AXES + 8,
  MAX_AXIS_PIECES = 6,
  MAX_INTERLEAVED = 4, /* vectors that are stored together */
  MAX_FLATTENED = 2,
  MAX_NEST_AXES = MAX_KERNEL_AXES + MAX_FLATTENED,
  NO_LOOP = UINT32_MAX
};

typedef enum NestRun {
  NEST_SERIAL,
  NEST_TASK,   /* one iteration is, or is in, one task */
  NEST_STRIP,  /* one iteration is a strip, which several loop nests share */
  NEST_UNROLL, /* a constant number of iterations, unrolled */
  NEST_LANES,  /* the lanes of a vector */
  NEST_BLOCK,  /* one iteration is, or is in, one thread block */
  NEST_THREAD, /* the threads of a block */
  NEST_ATOM,   /* rows, columns or terms of a register tile */
} NestRun;

/* An operand of a product: the left one has the rows of its register tiles, the
 * right one has their columns. */
typedef enum NestOperand {
  NEST_LEFT,
  NEST_RIGHT,
  NEST_OPERAND_COUNT
} NestOperand;

extern const char *const nest_operand_words[NEST_OPERAND_COUNT];

/* What happens if the iterations do not fill the last tile. */
typedef enum NestTail {
  TAIL_LESS,   /* the inner loop has fewer iterations */
  TAIL_PEEL,   /* a second loop runs the rest, one inner iteration at a time */
  TAIL_IF,     /* each tile tests whether it is full */
  TAIL_MASK,   /* the lanes behind the end are masked */
  TAIL_CLAMP,  /* the last iteration is repeated */
  TAIL_SHIFT,  /* the last tile begins earlier, so that it is full */
  TAIL_SPREAD, /* the last tiles have one iteration less each, if that fills
                  all tiles; otherwise as TAIL_LESS */
  NEST_TAIL_COUNT
} NestTail;

typedef struct NestLoop {
  uint32_t axis;
  int64_t step;  /* indices of the axis from one iteration to the next */
  int64_t count; /* iterations of an inner piece in a full tile; 0: outermost */
  NestRun run;
  NestTail tail;         /* of an outer piece; of lanes: LESS or MASK */
  bool is_argument;      /* the step is an argument of the function, so that
                            code is the same for all steps */
  bool has_accumulators; /* a reduced piece: each iteration has its own */
  bool is_run; /* after each iteration, f32 sums are added to f64 sums, on GPUs
                  to other f32 sums */
  bool polls;  /* each iteration tests for an interrupt first */
  bool packs[NEST_OPERAND_COUNT]; /* each iteration first runs the nest that
                                     packs this operand for the loops inside */
  bool finishes;  /* after each iteration, the next loop nests run on its
                     results, if their sums are complete */
  bool shuffles;  /* each iteration loads its operands as vectors, and the lanes
                     of the flattened loop are shuffled from them */
  bool is_held;   /* elements of its iterations stay in registers, for the next
                     loop nests */
  bool is_online; /* the sum is computed after each iteration of the loop nest
                     that finds the maximum of the row */
} NestLoop;

/* Rows whose windows overlap read the same input rows.  The axis of the input
 * rows replaces the axis of terms: input row =
 * row_stride * row + term_stride * term.  Row and term axes are NO_LOOP if
 * there is none. */
typedef struct NestStream {
  uint32_t row_axis, term_axis, input_axis;
  int64_t row_stride, term_stride;
} NestStream;

/* Loops that became one loop, whose axis counts their iterations.  The first
 * one may be a tile of its axis, which a loop outside repeats. */
typedef struct NestFlattened {
  uint32_t axis;                   /* the new axis; NO_LOOP: none */
  uint32_t count;                  /* outermost first */
  NestLoop loops[MAX_KERNEL_AXES]; /* pieces of their axes */
} NestFlattened;

typedef struct Nest {
  Arena *arena;
  LoopNest *spec;
  /* The numbers of axes in text, such as 3 for i3.  Schedules reorder the
   * parallel axes of a kernel, and their numbers stay. */
  uint8_t names[MAX_NEST_AXES];
  uint32_t loop_count;
  NestLoop loops[MAX_NEST_LOOPS];
  NestStream stream;
  NestFlattened flat[MAX_FLATTENED]; /* the first ones are used */
  uint32_t shared_axis; /* blocks load operands that are contiguous along it
                           through shared memory; NO_LOOP: none */
  uint32_t interleaved_axis; /* the vectors of its iterations are stored
                                together, interleaved; NO_LOOP: none */
  uint32_t transposed_axis;  /* the vectors of its iterations are transposed
                                before they are stored; NO_LOOP: none */
  bool loads_broadcasts;     /* uniform operands are loaded before the loops */
  bool loads_masked;         /* input rows are loaded once, with their masks */
  bool fuses_products;       /* each product is fused with its addition */
  bool has_epilogue; /* the next loop nest runs at the end of each sum */
  VEC(struct NestStep) steps; /* the schedule */
  uint32_t task_steps; /* the first steps: those that the tasks of the kernel
                          determine */
} Nest;

/* ---- nest.c ---- */

/* One serial loop for each axis, in the order of their names.  names: a
 * permutation of their numbers; NULL: each axis has its own. */
Nest *nest_new(Arena *arena, LoopNest *spec, const uint8_t *names);
/* The nest after the first steps of its schedule; those that the tasks
 * determine do not count. */
Nest *nest_after(const Nest *n, uint32_t steps);
/* Index of a piece of an axis, or NO_LOOP. */
uint32_t nest_find(const Nest *n, uint32_t axis, uint32_t piece);
/* Number of the piece of loop `at`. */
uint32_t nest_piece(const Nest *n, uint32_t at);
/* "i3.1 REASON" for loop `at`, in the arena of the nest. */
const char *nest_loop_reason(const Nest *n, uint32_t at, const char *reason);
/* The number of iterations of loop `at` in a full tile, if it is a number in
 * the code; otherwise 0. */
int64_t nest_fixed_count(const Nest *n, uint32_t at);
/* The next loop of the same axis inside of loop `at`, or NO_LOOP. */
uint32_t nest_inner(const Nest *n, uint32_t at);
/* The unrolled loop that repeats its last iteration, or NO_LOOP. */
uint32_t nest_clamped(const Nest *n);
/* Number of iterations of that loop, which share loads; 0: there is none. */
uint32_t nest_jammed_rows(const Nest *n);
/* The first loop of the register tile, whose rows, columns and terms are the
 * innermost loops, in this order; NO_LOOP: there is none. */
uint32_t nest_atom(const Nest *n);
/* The loop over lanes, or NO_LOOP. */
uint32_t nest_lanes(const Nest *n);
/* The loop whose vectors are stored interleaved, or NO_LOOP. */
uint32_t nest_interleaved(const Nest *n);
/* The loop whose vectors are transposed, or NO_LOOP. */
uint32_t nest_transposed(const Nest *n);
/* The loop that loads operands, whose lanes are shuffled, or NO_LOOP. */
uint32_t nest_shuffled(const Nest *n);
/* The number of indices of an axis, or of a flattened loop, if it is constant
 * and not 0; otherwise 0. */
int64_t nest_constant_extent(const Nest *n, uint32_t axis);
bool nest_axis_is_reduced(const Nest *n, uint32_t axis);
/* Returns true if a flattened loop is over the axis or a piece of it. */
bool nest_axis_is_flattened(const Nest *n, uint32_t axis);
/* Returns true if loop `at` is one of the kernel: over tasks or strips. */
bool nest_runs_outside(const Nest *n, uint32_t at);
/* The loops that became one loop over an axis; NULL: none did. */
const NestFlattened *nest_flattened(const Nest *n, uint32_t axis);
/* The flattened piece of an axis; NULL: there is none. */
const NestLoop *nest_flattened_loop(const Nest *n, uint32_t axis);
/* Returns true if the vectors of a row, or of a tile of it, are unrolled and
 * masked, so that its code is for few lengths of rows. */
bool nest_unrolls_rows(const Nest *n);
/* Index of the first loop inside of the accumulators' scope; loop_count if
 * nothing is reduced. */
uint32_t nest_accumulator_depth(const Nest *n);
/* Returns true if loop `at` is inside of that scope, and each of its iterations
 * has its own accumulator. */
bool nest_indexes_accumulators(const Nest *n, uint32_t at);
/* Number of accumulators of an output. */
int64_t nest_accumulators(const Nest *n);
/* Number of input rows that `rows` rows read. */
int64_t stream_input_rows(const LoopNest *spec, const NestStream *s,
                          int64_t rows);

/* ---- nest_steps.c ---- */

typedef enum NestStepKind {
#define STEP(name, text, help) STEP_##name,
#include "kernel/steps.def"
#undef STEP
  NEST_STEP_COUNT
} NestStepKind;

typedef struct NestPiece {
  uint32_t axis, piece;
} NestPiece;

/* One step of a schedule. */
typedef struct NestStep {
  NestStepKind kind;
  uint32_t piece_count;
  NestPiece pieces[MAX_NEST_LOOPS]; /* the loops that it names */
  int64_t number;                   /* TILE: iterations; PACK: NestOperand */
  NestTail tail;                    /* TILE, LANES */
  bool is_argument;                 /* TILE: the number is an argument */
} NestStep;

void nest_step_add(NestStep *s, uint32_t axis, uint32_t piece);
/* Applies a step and appends it to the schedule.  Returns NULL, or the reason
 * for which the step does not apply, in the arena of the nest; then the nest is
 * unchanged. */
const char *nest_apply(Nest *n, const NestStep *step);
/* Finds how rows share input rows.  Returns false if their windows do not
 * overlap along the terms. */
bool nest_find_stream(const LoopNest *spec, uint32_t row_axis,
                      uint32_t term_axis, NestStream *s);
/* Returns true if the only output sums products that have no other use. */
bool nest_sums_products(const LoopNest *spec);

/* ---- nest_build.c ---- */

/* A schedule while it is chosen. */
typedef struct NestBuilder {
  Nest *nest;
  const char *refusal; /* of the first step that was refused; or NULL */
} NestBuilder;

/* Applies a step to one loop, without loops, or to all loops that it names,
 * unless it orders loops that are in this order. */
void nest_build_step(NestBuilder *b, NestStepKind kind, uint32_t axis,
                     uint32_t piece, int64_t number, NestTail tail);
void nest_build_flag(NestBuilder *b, NestStepKind kind);
void nest_build_order(NestBuilder *b, const NestStep *order);
/* Orders loops, and makes the first `tasks` of them tasks. */
void nest_build_tasks(NestBuilder *b, const NestStep *order, uint32_t tasks);

/* ---- nest_verify.c ---- */

/* Returns NULL, or what is wrong with the nest. */
const char *nest_verify(const Nest *n);
/* If AXON_VERIFY is set: aborts if a step was refused, if the nest is wrong, or
 * if its schedule, printed and read again, makes another nest.  refusal: the
 * reason, or NULL. */
void nest_verify_chosen(const Nest *n, const char *refusal);

/* ---- nest_text.c ---- */

/* Prints the steps of the schedule from number `from` on, separated by "; ". */
void nest_print_schedule(Buffer *out, const Nest *n, uint32_t from);
/* Prints one loop, such as "for i1 times 8 lanes less". */
void nest_print_loop(Buffer *out, const Nest *n, uint32_t at);
/* Prints the nest, a line for each loop. */
void nest_print(Buffer *out, const Nest *n);
/* Applies the steps of a schedule in text to a new nest, up to the end of the
 * text.  Returns NULL, or the error; *at is then its position in the text. */
const char *nest_parse_schedule(Nest *n, const char *text, uint32_t *at);
/* The place of an error in an item that begins at `begin`: that of the wrong
 * token, or of the item if a token is missing at the end of its line. */
uint32_t schedule_error_place(const char *text, uint32_t begin, uint32_t token);

#endif
