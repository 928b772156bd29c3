/* backend/cpu: selects the vectorized axis of each loop. */
#ifndef AXON_CPU_VECTOR_AXIS_H
#define AXON_CPU_VECTOR_AXIS_H

#include "backend/cpu/cpu.h"

typedef struct Arena Arena;

/* Returns true if the kernel computes with 64-bit elements.  Integer indices
 * count only if they differ between lanes. vector_axes: of each loop, or
 * NULL. */
bool vector_axis_needs_64bit(const Kernel *k, const uint32_t *vector_axes);
/* Returns true if the kernel computes 8-bit integers and bool only, and its
 * vectors are contiguous and full. */
bool vector_axis_fits_bytes(const Kernel *k, const Schedule *s, uint32_t width);
/* Returns true if the operation converts a byte to a term of integer sums only.
 * Lanes of 8 bits add eight of these at once. */
bool loop_op_is_byte_term(const LoopNest *loop, uint32_t at);
/* Returns true if lanes of 8 bits fit only in parts of the axis (nest_parts.h).
 */
bool vector_axis_needs_parts(const Schedule *s, const LoopNest *loop,
                             uint32_t v);
/* Returns true for argmax and argmin. */
bool loop_is_arg_reduction(const LoopNest *loop);
/* The best inner axis of the loop; NO_AXIS: it has none. */
uint32_t vector_axis_best_inner(Arena *arena, const LoopNest *loop,
                                uint32_t width, double *cost);
/* The best parallel axis for vectors; NO_AXIS: vectors along inner axes are
 * better. */
uint32_t vector_axis_best_outer(const Kernel *k, uint32_t width);
/* Returns true if strided accesses along parallel axis v should be staged
 * (kernel_stage_strided).  The axis must be long, and the staged data of a few
 * vectors must fit in the L1 cache. */
bool vector_axis_staging_pays(const Kernel *k, uint32_t v, uint32_t width);
/* Lanes of a task, at least, such that its intermediates stay in the L2
 * cache. */
double vector_axis_min_task_lanes(const Kernel *k, uint32_t v, uint32_t width);
/* The parallel axis for which vectors are better than register tiles of the
 * kernel's matmuls, which have few columns; NO_AXIS: there is none. */
uint32_t vector_axis_beats_gemm(const Kernel *k, uint32_t width);

#endif
