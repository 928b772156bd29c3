/* backend/cuda: micro-kernels of matmuls, which a program defines in CUDA C++
 * (plan/schedule_file.h).
 *
 * A micro-kernel replaces the innermost loops of kernels of kind fma and mma.
 * Its function gets views of the operands in shared memory:
 * - fma, the tile of a thread: a(i, k) and b(k, j) are elements, for rows i,
 *   columns j and terms k of the tile.  The elements of 16 bytes along i or j
 *   are adjacent, and aligned to 16 bytes.
 * - mma, the tile of a warp: also a.load(x, i, k) and b.load(y, k, j), which
 *   load the fragments of 16 rows or columns and 32 bytes of terms into
 *   unsigned x[4]. */
#ifndef AXON_CUDA_GEMM_MICRO_H
#define AXON_CUDA_GEMM_MICRO_H

#include "backend/cuda/gemm_emit.h"
#include "plan/schedule_file.h"

/* The kind of kernels that a micro-kernel is for. */
MmaKind cuda_micro_kind(const MicroKernel *m);
/* The function that a micro-kernel must define. */
const char *cuda_micro_signature(Arena *arena, const MicroKernel *m);
/* Emits the types of the views and declares the function, before a kernel. */
void gemm_put_micro_views(Buffer *before, const GemmKernelSpec *t,
                          const GemmTiledCopy *a, const GemmTiledCopy *b);
/* Emits the call for stage `read`. */
void gemm_put_micro_call(Buffer *out, const void *owner, const StageCopies *s);
/* Emits the text of a micro-kernel.  It is at the end of a source.
 * has_lines: with the lines of the program, for messages. */
void cuda_micro_put_text(Buffer *out, const MicroKernel *m, bool has_lines);

/* ---- micro_kernel.c ---- */

/* Compiles a matmul with this schedule and micro-kernel, and compares its
 * results with their definition, in the simulator.  Operands are computed and
 * stored as in `shape`.  The verdict is kept.  Returns NULL, or the reason for
 * which the micro-kernel cannot be used. */
const char *cuda_micro_kernel_refusal(Arena *arena, const GemmShape *shape,
                                      const GemmSchedule *s, const char *arch);

#endif
