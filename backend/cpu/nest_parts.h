/* backend/cpu: nests whose vector axis has parts (nest_parts.c). */
#ifndef AXON_CPU_NEST_PARTS_H
#define AXON_CPU_NEST_PARTS_H

#include "backend/cpu/cpu_emitter.h"
#include "kernel/loop_parts.h"

/* The parts in which the conditions on the index of vector axis v are known.
 * Returns 0 if there are none, or vectors of whole rows pay more. */
uint32_t vector_axis_parts(const Kernel *k, const LoopNest *loop, uint32_t v,
                           uint32_t vector_bytes, LoopPart *parts);
/* The same for a nest; 0 also if its loops cannot run part after part. */
uint32_t nest_parts(const Kernel *k, const Schedule *s, const Nest *n,
                    LoopPart *parts);
/* Collapses the last axes of a kernel while the collapsed axis has parts, as
 * for concatenated rows. */
void kernel_collapse_rows(Kernel *k, uint32_t vector_bytes);
/* Emits a nest once for each part. */
void emit_nest_parts(Emitter *e, Buffer *out, uint32_t at, const Nest *n,
                     const LoopPart *parts, uint32_t count);

#endif
