/* backend/cpu: loop nests as C. loop_nest.c selects a strategy; all strategies
 * use loop_writer.c. */
#ifndef AXON_CPU_LOOP_WRITER_H
#define AXON_CPU_LOOP_WRITER_H

#include "backend/cpu/cpu_emitter.h"
#include "machine/limits/cpu.h"

enum {
  F32_RUN_VECTORS = 128, /* vectors that are summed in f32 before the sum is
                            added to an f64 accumulator */
};

typedef struct Accumulator { /* how an output is accumulated and stored */
  const LoopOutput *output;
  uint32_t id;               /* the accumulator is acc%u */
  const char *row_subscript; /* subscript among jammed rows: "[y]", or "" */
  PrimId op;
  char class;           /* class of the accumulator */
  const char *position; /* argmax and argmin: index of the first lane, as a
                           vector; otherwise NULL */
  bool widens_to_f64;   /* the sum continues in f64: sum_widens_to_f64 */
  bool tracks_nan; /* NaN is recorded in a second accumulator: tracks_nan */
  bool wide_index; /* positions may exceed int32_t */
  const char
      *identity; /* identity of the reduction, as a scalar of the class */
  const char *out_address;   /* address of the output in memory, or NULL */
  const char *local_address; /* address in the local buffer, or NULL */
} Accumulator;

typedef struct LoopWriter { /* state of a loop nest that is being written */
  Buffer *out;
  Accumulator accumulators[MAX_LOOP_OUTPUTS];
  uint32_t count;
  uint32_t spatial_loops; /* number of loops over spatial axes */
  uint32_t open_loops;
} LoopWriter;

/* ---- loop_writer.c ---- */

/* Returns true if vectors lie along the last parallel axis. */
bool emit_vector_axis_is_outer(const Emitter *e);
/* First index of an axis, and the index after the last. */
const char *emit_axis_begin(Emitter *e, uint32_t v);
const char *emit_axis_end(Emitter *e, uint32_t v);
/* Declares `start` and `end` of the vector axis. */
void emit_vector_range(Emitter *e, Buffer *out, bool declare);
/* Opens the next loop; opens all loops before index `to`; closes the loops from
 * index `to` on. */
void loop_writer_open_one(Emitter *e, LoopWriter *n, const char *from,
                          const char *to);
void loop_writer_open(Emitter *e, LoopWriter *n, uint32_t to);
void loop_writer_close(LoopWriter *n, uint32_t to);
/* Adds one vector to an accumulator. */
void emit_accumulate(Emitter *e, Buffer *out, const Accumulator *f,
                     const char *subscript, bool masked);
/* Stores x to the output: a full vector, or its first `rest` lanes. */
void emit_output_store(Emitter *e, Buffer *out, const Accumulator *f,
                       const char *x, bool full);
/* Class of a finished sum, and the type in which it is stored. */
char accumulator_final_class(const Accumulator *f);
Dtype accumulator_stored_dtype(const Emitter *e, const Accumulator *f);

/* The accumulator of an output of the current loop. accumulator_set_addresses
 * adds its addresses; call it before the blocks are written, since it adds code
 * to them. */
Accumulator accumulator_new(Emitter *e, uint32_t result);
void accumulator_set_addresses(Emitter *e, uint32_t loop, uint32_t result,
                               Accumulator *f);

/* Returns true if the output is stored in full vectors with non-temporal
 * stores. */
bool accumulator_is_nontemporal(const Emitter *e, const Accumulator *f);
/* Minimum, maximum, argmin, argmax: the comparison and the names of its
 * functions. */
const OrderInfo *accumulator_order(const Accumulator *f);
/* argmax and argmin: the function that accumulates one vector. */
const char *accumulator_arg_function(Emitter *e, const Accumulator *f);
/* Stores a scalar to the output. */
void emit_scalar_output(Emitter *e, Buffer *out, const Accumulator *f,
                        const char *x);
/* Like emit_vector_loop, but first emits scalar iterations until `to`, the
 * address of element j, is aligned for non-temporal stores. */
void emit_nontemporal_loop(Emitter *e, Buffer *out, const char *to,
                           const Buffer *full, const Buffer *tail);

/* ---- row_reduction.c: vectors along a reduced or stored axis ---- */

void emit_row_nest(Emitter *e, LoopWriter *n);
/* The same for several jammed iterations. */
void emit_jammed_nest(Emitter *e, const LoopWriter *n);

/* ---- unroll_and_jam.c ---- */

/* Open and close a block of code that runs once for all jammed iterations. */
void unroll_and_jam_begin(Emitter *e, Buffer *out);
void unroll_and_jam_end(Buffer *out);
/* Opens a loop over the jammed iterations, with or without the loop-invariant
 * code of each. */
void unroll_and_jam_each_point(Emitter *e, Buffer *out, bool with_invariants);
/* Declares the local buffers of the current iteration. inside: of a jammed
 * iteration; otherwise of the task. */
void unroll_and_jam_bind_locals(Emitter *e, Buffer *out, bool inside);

/* ---- unrolled_reduction.c ---- */

/* Returns true if a reduction is so short that its terms are unrolled while the
 * accumulators stay in registers.  Windows that slide along the vectors are
 * such reductions. */
bool unrolled_reduction_applies(const Schedule *s, const LoopNest *loop,
                                uint32_t vector_axis);
/* Emits the loop with `loops` loops around its vectors, in the given order. */
void emit_unrolled_reduction(Emitter *e, Buffer *out, uint32_t loop_index,
                             uint32_t vector_axis, uint32_t loops,
                             const uint32_t *order);

/* ---- column_reduction.c: vectors along a spatial axis ---- */

void emit_column_reduction(Emitter *e, LoopWriter *n);

#endif
