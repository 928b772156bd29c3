/* backend/cpu, the loops of a kernel as C: loop_nest.c has the ways of writing
 * one, which stand on loop_writer.c. */
#ifndef AXON_CPU_LOOP_WRITER_H
#define AXON_CPU_LOOP_WRITER_H

#include "backend/cpu/cpu_emitter.h"

enum {
  F32_RUN_VECTORS = 128, /* vectors of floats that are summed up in floats */
  INTERLEAVE_COUNT = 4,  /* vectors at a time, each with a sum of its own */
};

typedef struct Accumulator { /* what is done with a result */
  const LoopOutput *output;
  uint32_t id; /* of the accumulator: acc%u */
  const char
      *row_subscript; /* which of those of several points: "[y]"; or "" */
  PrimId op;
  char class;                /* of the accumulator */
  const char *position;      /* of argmax and argmin: how many come before, as
                                lanes; else NULL */
  bool widens_to_f64;        /* it goes on in doubles: sum_widens_to_f64 */
  bool tracks_nan;           /* what is no number is noted beside: tracks_nan */
  bool wide_index;           /* that may be more than an int32_t holds */
  const char *identity;      /* as a scalar of the class */
  const char *out_address;   /* where the result begins in memory, or NULL */
  const char *local_address; /* and among local values, or NULL */
} Accumulator;

typedef struct LoopWriter { /* a loop being written */
  Buffer *out;
  Accumulator accumulators[MAX_LOOP_OUTPUTS];
  uint32_t count;
  uint32_t
      spatial_loops; /* how many of the for-loops go over axes that are kept */
  uint32_t open_loops;
} LoopWriter;

/* ---- loop_writer.c ---- */

/* Do lanes lie along the last outer axis? */
bool emit_vector_axis_is_outer(const Emitter *e);
/* Where an axis begins and ends. */
const char *emit_axis_begin(Emitter *e, uint32_t v);
const char *emit_axis_end(Emitter *e, uint32_t v);
/* Declares `start` and `end` of the lanes. */
void emit_vector_range(Emitter *e, Buffer *out, bool declare);
/* The next for-loop; all up to `to`; closes those after it. */
void loop_writer_open_one(Emitter *e, LoopWriter *n, const char *from,
                          const char *to);
void loop_writer_open(Emitter *e, LoopWriter *n, uint32_t to);
void loop_writer_close(LoopWriter *n, uint32_t to);
/* One more vector of values for an accumulator. */
void emit_accumulate(Emitter *e, Buffer *out, const Accumulator *f,
                     const char *subscript, bool masked);
/* x to where the result goes: a whole vector, or its first `rest` lanes. */
void emit_output_store(Emitter *e, Buffer *out, const Accumulator *f,
                       const char *x, bool full);
/* The class of a sum that is complete, and the type in which it is stored. */
char accumulator_final_class(const Accumulator *f);
Dtype accumulator_stored_dtype(const Emitter *e, const Accumulator *f);

/* A result of the loop at hand; and where it goes, before the blocks are
 * written, since that adds to them. */
Accumulator accumulator_new(Emitter *e, uint32_t result);
void accumulator_set_addresses(Emitter *e, uint32_t loop, uint32_t result,
                               Accumulator *f);

/* Is its result stored past the caches, in whole vectors? */
bool accumulator_is_nontemporal(const Emitter *e, const Accumulator *f);
/* Of an extreme or its place: what its functions are called. */
const OrderInfo *accumulator_order(const Accumulator *f);
/* Of argmax and argmin: the function that takes in a vector. */
const char *accumulator_arg_function(Emitter *e, const Accumulator *f);
/* A scalar to where the result goes. */
void emit_scalar_output(Emitter *e, Buffer *out, const Accumulator *f,
                        const char *x);
/* As emit_vector_loop, but first what is before `to`, a place in memory at j,
 * is where whole vectors may be streamed. */
void emit_nontemporal_loop(Emitter *e, Buffer *out, const char *to,
                           const Buffer *full, const Buffer *tail);

/* ---- row_reduction.c: lanes along an axis that is reduced, or stored ---- */

void emit_row_nest(Emitter *e, LoopWriter *n);
/* The same for several points at once. */
void emit_jammed_nest(Emitter *e, const LoopWriter *n);

/* ---- unroll_and_jam.c: sums of several points at once ---- */

/* Around what is done once for some points. */
void unroll_and_jam_begin(Emitter *e, Buffer *out);
void unroll_and_jam_end(Buffer *out);
/* Opens a loop over these, with what is known of each, or without. */
void unroll_and_jam_each_point(Emitter *e, Buffer *out, bool with_invariants);
/* Where the local values of the point at hand are: of one of these, or, behind
 * all that, of the unit's. */
void unroll_and_jam_bind_locals(Emitter *e, Buffer *out, bool inside);

/* ---- unrolled_reduction.c ---- */

/* Is it a sum (or the like) over so few terms that they are better written out,
 * and its lanes stay in registers: windows that slide along the lanes? */
bool unrolled_reduction_applies(const Schedule *s, const LoopNest *loop,
                                uint32_t vector_axis);
/* The loop, with `loops` for-loops around its lanes, in order. */
void emit_unrolled_reduction(Emitter *e, Buffer *out, uint32_t subscript,
                             uint32_t vector_axis, uint32_t loops,
                             const uint32_t *order);

/* ---- column_reduction.c: lanes along an axis that is kept ---- */

void emit_column_reduction(Emitter *e, LoopWriter *n);

#endif
