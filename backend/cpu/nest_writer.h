/* backend/cpu: nests as C (nest_emit.c). */
#ifndef AXON_CPU_NEST_WRITER_H
#define AXON_CPU_NEST_WRITER_H

#include "backend/cpu/lane_shuffle.h"
#include "backend/cpu/loop_writer.h"
#include "kernel/nest.h"

/* Loop-invariant code of one loop nest, by level. */
typedef struct NestCode {
  bool is_used;
  Buffer levels[MAX_LEVELS];
  uint32_t level_of[MAX_KERNEL_VARS]; /* by axis */
  uint32_t vector;                    /* level of the vectors */
  Buffer check;
  Buffer text[2]; /* of an iteration; [1]: lanes may be masked */
} NestCode;

typedef enum NestCodeKind {
  NEST_BROADCASTS, /* operands that are loaded before the loops */
  NEST_SHARED,     /* vectors of an input row, which several rows share */
  NEST_STATES,     /* the first values of states */
  NEST_BODY,       /* the terms or the stored values */
  NEST_RESULTS,    /* of finished accumulators, if it is not in the body */
  NEST_CODE_COUNT
} NestCodeKind;

/* What happens to the elements of an operand of a product.  Lines are the rows
 * of the left operand, or the columns of the right one. */
typedef enum OperandUse {
  OPERAND_TO_ROWS,    /* the terms of a line are contiguous */
  OPERAND_TO_COLUMNS, /* the lines are contiguous in each term */
  OPERAND_TO_PANELS,  /* the same in each panel, a piece of the lines */
  OPERAND_TO_WINDOW,  /* the terms of a line are contiguous, and `to` is the
                         address of a line, an expression of its indices */
  OPERAND_TESTED,     /* `odds` becomes true in lanes with inf or NaN */
} OperandUse;

/* The part of an operand that a nest copies: terms from .. to - 1 of the lines
 * begin .. end - 1.  If the terms have several axes, their loops follow each
 * other, and terms are numbered in the order of these loops. */
typedef struct OperandCopy {
  OperandUse use;
  Dtype dtype;    /* of packed elements */
  const char *to; /* address of the first packed element; NULL: none */
  int64_t pitch;  /* elements from one line or term to the next */
  uint32_t axis;  /* of the lines */
  const char *begin, *end;
  uint32_t first_term, term_axes; /* the axes of the terms */
  const char *from, *until;
  Buffer *task_code;    /* for what no loop of the nest changes */
  const char *line_end; /* code after each line; NULL: none */
  HoistedMasks *masks;  /* of the vectors of a line; NULL: loads have their own
                           masks */
} OperandCopy;

/* The code of a nest with a register tile.  Iterations of loop %u are
 * begin%u .. end%u - 1; those of the last loop outside of the tile are
 * size%u. */
typedef struct TileCode {
  /* The part of each axis that the nest runs over. */
  const char *begin[MAX_KERNEL_AXES + 1], *end[MAX_KERNEL_AXES + 1];
  bool may_be_empty; /* without terms, loops over them run once */
  Buffer before[MAX_NEST_LOOPS], after[MAX_NEST_LOOPS]; /* by loop: code of each
                                                           iteration */
  Buffer tile;                                          /* one register tile */
} TileCode;

/* An operand that is loaded as vectors x%u_0, x%u_1, …, and shuffled to y%u. */
typedef struct ShuffledLoad {
  uint32_t op, id;
  const char *address; /* of the first element */
} ShuffledLoad;

typedef struct NestWriter {
  Emitter *e;
  const Nest *nest;
  const OperandCopy *copy; /* NULL: the nest is a loop nest of the kernel */
  const TileCode *tiles;   /* NULL: the nest has no register tile */
  Buffer *out;
  uint32_t loop_index;
  uint32_t sums_depth; /* nest_accumulator_depth */
  uint32_t clamped;    /* the unrolled loop whose last iteration is repeated */
  NestCode codes[NEST_CODE_COUNT];
  Buffer partials;      /* chunks of argmax and argmin */
  const char *searched; /* the row of an argmax or argmin that a function
                           searches; NULL: there is none */
  bool is_maskable;     /* all loads of the body may mask all lanes */
  const char *guard;    /* without it, no term counts; NULL: there is none */
  uint32_t guard_depth; /* of the loop in which it is invariant */
  Accumulator *outputs;
  uint32_t count;
  uint32_t row_count, part_count; /* accumulators: rows × parts */
  const char *row_index, *part_index;
  /* Streams of input rows (nest_stream.c). */
  const char **precomputed; /* by op: the variable that has its value */
  uint32_t outer_loops;     /* loops around the rows */
  Buffer broadcasts;        /* loops that load them */
  Buffer shared_loads;
  HoistedMasks masks;
  /* Shuffled lanes (nest_shuffle.c). */
  uint32_t shuffled; /* nest_shuffled */
  LaneShuffle shuffle;
  LoopNest *lanes_spec; /* nest_index_by_lanes */
  VEC(ShuffledLoad) shuffled_loads;
} NestWriter;

/* The indices that a loop runs over: begin .. end - 1. */
typedef struct AxisRange {
  const char *begin, *end;
  bool is_full;    /* fills the tile: inner loops have constant counts */
  uint32_t single; /* the loop that has one iteration here; NO_LOOP: none */
  bool is_counted; /* n%u is the number of this iteration */
  int64_t at;      /* begin, if the iterations are written out */
  uint32_t group;  /* part%u has the numbers of valid lanes of the vectors of
                      this loop; 0: they are not known before */
} AxisRange;

typedef struct NestState {
  AxisRange axes[MAX_KERNEL_AXES + 1];
  bool in_sums;      /* inside of the accumulators' scope */
  NestCodeKind code; /* the code of an iteration: states, body or results */
  const char *tiles; /* the number of iterations of the flattened tile in the
                        last block; NULL: all */
} NestState;

/* ---- nest_emit.c ---- */

/* Emits a nest.  epilogue: the loop nest that runs on finished sums; NULL:
 * none. */
void emit_nest(Emitter *e, Buffer *out, uint32_t loop_index, const Nest *n,
               const LoopNest *epilogue);
/* Keeps the code of the current loop nest. */
void nest_capture(NestWriter *w, NestCodeKind kind);
/* Writes the loops from `depth` on. */
void nest_write_loops(NestWriter *w, uint32_t depth, const NestState *s);
/* Writes one iteration of a loop, whose first index is `begin`.  is_full: the
 * inner pieces of its axis run completely. */
void nest_enter(NestWriter *w, uint32_t depth, const NestState *s,
                const char *begin, bool is_full);
/* Appends the code that an index of the axis makes invariant. */
void nest_append_level(const NestWriter *w, const NestState *s, uint32_t axis);

/* Without code, for the whole of each axis. */
TileCode *tile_code_new(Emitter *e, const Nest *n);
/* Declares names for the range of loop `at`. */
void tile_code_name(TileCode *c, uint32_t at, const char *begin,
                    const char *end);
/* Emits a nest with a register tile. */
void emit_tiles(Emitter *e, Buffer *out, const Nest *n, const TileCode *code);
/* Emits the nest that packs or tests an operand of a product. */
void emit_operand_copy(Emitter *e, Buffer *out, const Nest *n,
                       const OperandCopy *copy);

/* ---- nest_operand.c ---- */

/* The code of an iteration: stores or tests a vector. */
void nest_copy_vector(NestWriter *w);
/* The masks of a line have the number of the vector as index. */
void nest_begin_masks(NestWriter *w);
/* Writes the masks, and sets the ranges of the part that is copied. */
void nest_begin_copy(NestWriter *w, NestState *s);
/* Declares the address from which on the loops from `depth` on store. */
void nest_declare_place(NestWriter *w, uint32_t depth);
/* Writes the loops over the axes of the terms, of which loop `depth` is the
 * first, and what is inside. */
void nest_write_terms(NestWriter *w, uint32_t depth, const NestState *s);
/* Writes a block of vectors, which are transposed before they are stored. */
void nest_write_transposed(NestWriter *w, uint32_t depth, const NestState *s);

/* ---- nest_sums.c ---- */

/* Numbers the accumulators. */
void nest_index_sums(NestWriter *w);
void nest_declare_sums(NestWriter *w);
/* At the end of a run: adds f32 sums to f64 sums. */
void nest_flush_run(NestWriter *w);
/* Joins the parts of each sum, unless runs did. */
void nest_join_parts(NestWriter *w);
/* Returns true if the lanes and the parts of the terms are those of the
 * functions that search a row for argmax and argmin (arg_reduction.c). */
bool nest_has_search_form(const NestWriter *w);
/* Sets `searched`, after the operations are placed. */
void nest_set_searched(NestWriter *w);
/* The code that adds a vector of terms, and the code that stores the sum. */
void nest_accumulate(NestWriter *w, Buffer *out, const Accumulator *f,
                     bool is_masked);
void nest_store_sum(NestWriter *w, Buffer *out, const Accumulator *f,
                    bool is_full);
/* The code that sets a state. */
void nest_set_state(NestWriter *w, Buffer *out, const Accumulator *f,
                    uint32_t value_op);
/* Stores a vector of an output, or its first `rest` lanes.  Full vectors of an
 * interleaved loop are kept until its last iteration, which stores them. */
void nest_store_vector(NestWriter *w, Buffer *out, const Accumulator *f,
                       const char *x, bool is_full);
/* Declares the vectors that are kept. */
void nest_declare_interleaved(const NestWriter *w);
/* The accumulator of the current iteration. */
const char *nest_sum_name(NestWriter *w, const Accumulator *f);

/* ---- nest_shuffle.c ---- */

/* The loop with the lanes of the flattened loop along its last axis.  Loads are
 * those of the first lane and term. */
LoopNest *nest_index_by_lanes(const Nest *n);
/* Names the shuffled operands.  Call before operations are placed. */
void nest_begin_shuffle(NestWriter *w);
/* Writes the blocks of a loop that loads shuffled operands. */
void nest_write_blocks(NestWriter *w, uint32_t depth, const NestState *s);
/* Loads the operands of an iteration. */
void nest_load_shuffled(NestWriter *w, NestState *s);
/* Writes out the iterations of an unrolled loop. */
void nest_write_out(NestWriter *w, uint32_t depth, const NestState *s);
/* The operands of a vector. */
void nest_shuffle_lanes(NestWriter *w, const NestState *s);

/* ---- nest_stream.c ---- */

/* Makes these operations the outputs of the loop. */
void nest_set_outputs(Arena *arena, LoopNest *loop, const uint32_t *ops,
                      uint32_t count);

/* Loads of operands that rows share.  Call before the body. */
void nest_begin_stream(NestWriter *w, const LoopNest *spec, uint32_t count,
                       const uint32_t *order);
void nest_write_input_rows(NestWriter *w, uint32_t depth, const NestState *s);
void nest_write_output_rows(NestWriter *w, uint32_t depth, const NestState *s);
/* Code before the loop over rows. */
void nest_begin_rows(NestWriter *w, const NestState *s);
/* Declares `inside`: no input row is padding. */
void nest_write_inside(NestWriter *w, bool inside);
/* A version for blocks of rows without padding, and one for all others. */
void nest_write_padded_rows(NestWriter *w, uint32_t depth, const NestState *s,
                            const char *at);

#endif
