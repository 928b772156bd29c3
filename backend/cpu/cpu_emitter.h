/* backend/cpu, emitting C: what the printers of loops know of each other. */
#ifndef AXON_CPU_EMITTER_H
#define AXON_CPU_EMITTER_H

#include "backend/cpu/cpu.h"

/* What a function in C is written with, beside Emitter. */
typedef struct CpuEmitter {
  const Schedule *schedule;
  const char *const *comments; /* of loops, as comments; or NULL */
  CpuKernel *out;
  const char
      *hoisted_panels[MAX_KERNEL_LOOPS]; /* where copies made ahead lie */
  LoopNest
      *epilogue[MAX_KERNEL_LOOPS]; /* of sums of few terms: the next loop, which
                                      finishes each of them; NULL: none does */
  Buffer pack_functions;           /* functions of what may be kept */
  bool has_nontemporal;            /* some results go past the caches */
  uint32_t jammed_rows; /* points whose sums are made at once; 0: of one */
} CpuEmitter;

/* ---- dialect.c ---- */

extern const Dialect c_dialect;

/* ---- prefetch.c ---- */

/* Of a read whose indices are the same in all lanes: where the row begins that
 * is wanted some indices later; NULL: that is not worth asking for. */
const char *emit_gather_prefetch(Emitter *e, const KernelOp *s);
/* Of a read that is the last one of a point's row: what asks for the next
 * point's; NULL: likewise. */
const char *emit_next_row_prefetch(Emitter *e, const KernelOp *s);

/* ---- loop_nest.c ---- */

/* One loop of the kernel, complete. */
void emit_loop_nest(Emitter *e, Buffer *out, uint32_t loop,
                    uint32_t vector_axis);

/* ---- loop_writer.c ---- */

/* A lane's block twice, between the macros that it is written in. */
void emit_vector_loop(Emitter *e, Buffer *out, const char *stride,
                      const Buffer *full, const Buffer *tail);

/* ---- trim_bounds.c ---- */

/* For the axes that limits cut: from%u and to%u, by loop, at a point or at
 * some rows; all of them where `whole` says so. */
void emit_trim_bounds(Emitter *e, Buffer *out);
/* May limits turn out to be wrong? */
bool kernel_may_run_untrimmed(const Kernel *k);
bool loop_is_trimmed(const LoopNest *loop, uint32_t v);
/* missed |= what the kernel's guard says. */
void emit_trim_check(Emitter *e, Buffer *out);

/* ---- unroll_and_jam.c ---- */

/* Of how many points the sums of a loop are made at once; 0: of one. */
uint32_t unroll_and_jam_points(const Kernel *k, const Schedule *s,
                               uint32_t loop);

/* ---- unrolled_reduction.c ---- */

/* The loop after the given one, over its axes, if that has sums of few terms
 * for this loop alone, which it reads where they come to be; NULL: it is not
 * so. */
LoopNest *unrolled_reduction_epilogue(const Kernel *k, const Schedule *s,
                                      Arena *arena, uint32_t at);

/* ---- online_reduction.c ---- */

/* Loops from .. to - 1 of the kernel. */
typedef void EmitLoops(Emitter *e, Buffer *out, uint32_t from, uint32_t to);
/* All loops of it, those that go in portions so. */
void emit_online_reduction(Emitter *e, Buffer *out, EmitLoops *loops);
/* x, of this portion, is taken into what is carried at `to`. */
void emit_online_update(Emitter *e, Buffer *out, const LoopOutput *r,
                        const char *to, const char *x);
/* What the loop's extremes scale is scaled: they may have changed. */
void emit_online_rescale(Emitter *e, Buffer *out, uint32_t loop);

/* ---- arg_reduction.c ---- */

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

/* ---- batched_small_gemm.c ---- */

/* The function that a kernel of small products calls, and the call. */
void emit_batched_gemm_function(Emitter *e, Buffer *out);
void emit_batched_gemm_call(Emitter *e, Buffer *out);

/* ---- gemm.c ---- */

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
