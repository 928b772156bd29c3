/* backend/cpu, emitting C: interface between the files that write loops. */
#ifndef AXON_CPU_EMITTER_H
#define AXON_CPU_EMITTER_H

#include "backend/cpu/cpu.h"
#include "support/buffer.h"

typedef struct Arena Arena;

/* CPU-specific state of an Emitter. */
typedef struct CpuEmitter {
  const Schedule *schedule;
  const char *const *comments; /* comment for each loop, or NULL */
  CpuKernel *out;
  const char
      *hoisted_panels[MAX_KERNEL_LOOPS]; /* scratch offsets of panels that are
                                            packed before the loop over rows */
  LoopNest *epilogue[MAX_KERNEL_LOOPS]; /* by loop: the next loop, which runs as
                                           the epilogue of a short reduction;
                                           NULL: none */
  Buffer
      pack_functions;   /* functions that pack operands for the prepack cache */
  bool has_nontemporal; /* some outputs use non-temporal stores */
  uint32_t jammed_rows; /* iterations that are jammed; 0: none */
  const struct LoopPart *part; /* of the vector axis; NULL: all of it */
} CpuEmitter;

/* ---- dialect.c ---- */

extern const Dialect c_dialect;

/* ---- prefetch.c ---- */

/* For a load with the same indices in all lanes: the address of the row that is
 * loaded a prefetch distance later; NULL: prefetching does not pay. */
const char *emit_gather_prefetch(Emitter *e, const KernelOp *s);
/* For the last load of an iteration's row: code that prefetches the row of the
 * next iteration; NULL: prefetching does not pay. */
const char *emit_next_row_prefetch(Emitter *e, const KernelOp *s);

/* ---- loop_nest.c ---- */

/* The parameters of a function that runs tasks begin .. end - 1. */
#define TASK_PARAMETERS                  \
  "(void *const *p, const int64_t *n,\n" \
  "const double *c, int64_t begin, int64_t end, char *room) {\n"

/* Opens a loop over i%u, the index of an axis. */
void emit_open_axis(Buffer *out, uint32_t axis, const char *begin,
                    const char *end);
/* Opens loops over axes first .. last - 1.  Returns their number. */
uint32_t emit_open_axes(Emitter *e, Buffer *out, const LoopNest *loop,
                        uint32_t first, uint32_t last);
void emit_close(Buffer *out, uint32_t loops);
/* Emits one loop nest of the kernel. */
void emit_loop_nest(Emitter *e, Buffer *out, uint32_t loop);

/* ---- trim_bounds.c ---- */

/* For each trimmed axis: declares from%u and to%u, by loop, for one iteration
 * or a block of rows. */
void emit_trim_bounds(Emitter *e, Buffer *out);
/* Returns true if speculative trim bounds may fail, so that the kernel runs
 * again untrimmed. */
bool kernel_may_run_untrimmed(const Kernel *k);
bool loop_is_trimmed(const LoopNest *loop, uint32_t v);
/* Opens the loop over the strips, and declares the part of each loop. */
void emit_strips_begin(Emitter *e, Buffer *out);
/* flag |= each output of a check, in the current block */
void emit_loop_check(Emitter *e, Buffer *out, const LoopNest *check,
                     const char *flag);

/* ---- arg_reduction.c ---- */

/* A chunk of a long arg reduction.  It stores the position that it found and,
 * behind the positions of all chunks, the value there. */
typedef struct ArgReductionPart {
  char class;
  uint32_t accumulator_id;
  bool wide_index;
  const char *accumulator_index; /* subscript of the accumulator among several
                                    rows: "" or "[0]" */
  const char *best_index, *address;
  const char *row; /* the address of the row that was searched; NULL: the value
                      is in an accumulator */
  Dtype dtype;     /* of the row */
} ArgReductionPart;
void emit_arg_row_partial(Buffer *out, const ArgReductionPart *p);
/* Stores the values and positions of each lane of a block of columns.  `stride`
 * is the distance of chunks in the result, in elements. */
void emit_arg_column_partials(Emitter *e, Buffer *out,
                              const ArgReductionPart *p, int64_t stride);
/* Emits the function that combines chunks. */
void emit_arg_combine(Emitter *e, Buffer *out);

/* ---- gemm.c ---- */

/* Emits the functions that the matmuls of a kernel call. */
void emit_gemm_functions(Emitter *e, Buffer *out);
/* The texts of micro-kernels, behind all other code. */
void emit_micro_kernel_texts(Emitter *e, Buffer *out);
/* Packs the operand that all rows of a task share, before the loop over
 * rows. */
void emit_hoisted_packing(Emitter *e, Buffer *out, uint32_t loop);
/* Sets the results that accumulate along the rows of a task to zero. */
void emit_accumulator_zeros(Emitter *e, Buffer *out);
/* Declares `odd`, which is true if a matmul would skip an inf or a NaN. */
void emit_nonfinite_check(Emitter *e, Buffer *out);
/* Emits the matmul of a loop. epilogue: code that runs for each finished block
 * of the result. */
void emit_gemm(Emitter *e, Buffer *out, uint32_t loop, const Buffer *epilogue);

#endif
