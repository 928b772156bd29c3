/* backend/cpu: packed operands of matmuls that are cached between calls, by
 * tensor (runtime/derived_cache.h). */
#ifndef AXON_CPU_PREPACK_H
#define AXON_CPU_PREPACK_H

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/cpu_emitter.h"

/* Returns true if the operand, whose columns lie along n_axis, depends only on
 * one tensor. */
bool prepack_is_possible(const LoopNest *loop, uint32_t n_axis);
/* Returns true if the operand o of the matmul t of `loop` may be prepacked. */
bool prepack_may_keep(const LoopNest *loop, const GemmTiling *t,
                      const Operand *o, uint32_t n_axis);
/* Returns true if packing an operand of `elements` elements again for each
 * `rows` rows takes long enough to keep the packed operand. */
bool prepack_pays(const Operand *o, double elements, double lanes, double rows);

/* ---- C source ---- */

/* Returns true if the operand may be prepacked.  Then the kernel has the
 * pointer `kept%u`, or NULL if it is not cached, with the number
 * *prepacked_index.  The function copy%u packs a part of it; keep%u packs
 * panels begin .. end - 1 with all terms. */
bool prepack_begin(Emitter *e, const GemmTiling *t, const Operand *o,
                   uint32_t n_axis, uint32_t loop_index,
                   uint32_t *prepacked_index);
/* Calls copy%u for terms from .. to - 1 of columns n0 .. n1 - 1, to be stored
 * at b. */
void prepack_emit_call(Emitter *e, uint32_t prepacked_index, Buffer *out);
/* An expression that is not 0 if the terms from .. to - 1 of the panel `first`
 * contain inf or NaN. */
const char *prepack_nonfinite_flag(Emitter *e, uint32_t prepacked_index);
/* Emits the functions keep%u, after all pointers are known. */
void emit_prepack_functions(Emitter *e, Buffer *out);

#endif
