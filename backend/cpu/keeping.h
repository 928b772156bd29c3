/* backend/cpu: copies of a product's operand that outlive a call
 * (runtime/kept.h): what a tensor that lives on is copied or turned into. */
#ifndef AXON_CPU_KEEPING_H
#define AXON_CPU_KEEPING_H

#include "backend/cpu/emit.h"
#include "backend/cpu/tiling.h"

/* Is the operand, whose columns lie along the axis n, a form of one tensor and
 * nothing else? */
bool keeping_may(const Loop *loop, uint32_t n);

/* ---- as C ---- */

/* Whether what is copied may be there already: then `kept%u`, its number in the
 * call, is where, or NULL.  There is a function copy%u for what is not, and one
 * keep%u that makes all of it: panels begin .. end - 1, each of all terms. */
bool keeping_begin(Emitter *e, const Tile *t, const Operand *o, uint32_t n,
                   uint32_t loop, uint32_t *number);
/* The call of copy%u that puts terms from .. to - 1 of columns n0 .. n1 - 1 at
 * b. */
void keeping_copy(Emitter *e, uint32_t number, Buffer *out);
/* Of one that is marked: whether the terms from .. to - 1 of the panel `first`
 * have what is not finite, as a number that is 0 where not. */
const char *keeping_mark(Emitter *e, uint32_t number);
/* The functions keep%u, when it is known which pointers there are. */
void emit_keepings(Emitter *e, Buffer *out);

#endif
