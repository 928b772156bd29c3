/* backend/cpu: copies of a product's operand that outlive a call
 * (runtime/derived_cache.h): what a tensor that lives on is copied or turned
 * into. */
#ifndef AXON_CPU_PREPACK_H
#define AXON_CPU_PREPACK_H

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/cpu_emitter.h"

/* Is the operand, whose columns lie along the axis n, a form of one tensor and
 * nothing else? */
bool prepack_is_possible(const LoopNest *loop_index, uint32_t n_axis);

/* ---- as C ---- */

/* Whether what is copied may be there already: then `kept%u`, its number in the
 * call, is where, or NULL.  There is a function copy%u for what is not, and one
 * keep%u that makes all of it: panels begin .. end - 1, each of all terms. */
bool prepack_begin(Emitter *e, const GemmTiling *t, const Operand *o,
                   uint32_t n_axis, uint32_t loop_index,
                   uint32_t *prepacked_index);
/* The call of copy%u that puts terms from .. to - 1 of columns n0 .. n1 - 1 at
 * b. */
void prepack_emit_call(Emitter *e, uint32_t prepacked_index, Buffer *out);
/* Of one that is marked: whether the terms from .. to - 1 of the panel `first`
 * have what is not finite, as a number that is 0 where not. */
const char *prepack_nonfinite_flag(Emitter *e, uint32_t prepacked_index);
/* The functions keep%u, when it is known which pointers there are. */
void emit_prepack_functions(Emitter *e, Buffer *out);

#endif
