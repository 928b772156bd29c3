/* backend/cpu: outputs of a loop nest as C. */
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
  uint32_t id; /* the accumulator is acc%u */
  PrimId op;
  char class;           /* class of the accumulator */
  bool sums_bytes;      /* its lanes, of class s, each add eight lanes */
  const char *position; /* argmax and argmin: index of the first lane, as a
                           vector; otherwise NULL */
  bool widens_to_f64;   /* the sum continues in f64 after each run */
  bool tracks_nan; /* NaN is recorded in a second accumulator: tracks_nan */
  bool wide_index; /* positions may exceed int32_t */
  const char
      *identity; /* identity of the reduction, as a scalar of the class */
  const char *out_address;   /* address of the output in memory, or NULL */
  const char *local_address; /* address in the local buffer, or NULL */
} Accumulator;

/* ---- loop_writer.c ---- */

/* The number of an output of the kernel.  Adds it if it is new. */
uint32_t emit_output_number(Emitter *e, LoopOutput *r);
/* First index of an axis, and the index after the last. */
const char *emit_axis_begin(Emitter *e, uint32_t v);
const char *emit_axis_end(Emitter *e, uint32_t v);
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

/* ---- arg_reduction.c ---- */

/* Returns true if the elements that an argmax or argmin reads are contiguous,
 * and nothing is computed of them: a function may search the row. */
bool emit_can_search(const Emitter *e);
/* The address of the row that an argmax or argmin reads, if its elements are
 * contiguous and nothing is computed of them; otherwise NULL. */
const char *emit_arg_search_row(Emitter *e, const Accumulator *f);
/* The position in the row, from start to end - 1. */
const char *emit_arg_search(Emitter *e, const Accumulator *f, const char *row);

/* ---- unroll_and_jam.c ---- */

/* Open and close a block of code that runs once for all jammed iterations. */
void unroll_and_jam_begin(Emitter *e, Buffer *out);
void unroll_and_jam_end(Buffer *out);
/* Declares the local buffers of the current iteration. inside: of a jammed
 * iteration; otherwise of the task. */
void unroll_and_jam_bind_locals(Emitter *e, Buffer *out, bool inside);

#endif
