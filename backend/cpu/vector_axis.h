/* backend/cpu: along which axis the lanes of a kernel's vectors lie. */
#ifndef AXON_CPU_VECTOR_AXIS_H
#define AXON_CPU_VECTOR_AXIS_H

#include "backend/cpu/cpu.h"

/* Are there numbers of eight bytes to compute with?  Indices are such only
 * where they differ from lane to lane: lanes of each loop, or NULL. */
bool vector_axis_needs_64bit(const Kernel *k, const uint32_t *vector_axes);
/* Does the loop look for a place: is it an argmax or argmin? */
bool loop_is_arg_reduction(const LoopNest *loop);
/* The best of the loop's inner axes; NO_AXIS: there are none. */
uint32_t vector_axis_best_inner(Arena *arena, const LoopNest *loop,
                                uint32_t width, double *cost);
/* The outer axis along which lanes are best put; NO_AXIS: along inner ones. */
uint32_t vector_axis_best_outer(const Kernel *k, uint32_t width);
/* Are reads whose lanes are apart along the outer axis to be copied, so that
 * they are not (kernel_stage_strided)?  Where the axis is long and what is
 * copied of a few vectors stays in the nearest cache. */
bool vector_axis_wants_staging(const Kernel *k, uint32_t v, uint32_t width);
/* So many lanes a unit has at least then: the rows that they leave for each
 * other are to stay in a cache. */
double vector_axis_min_task_lanes(const Kernel *k, uint32_t v, uint32_t width);
/* An outer axis along which lanes are better than tiles of the kernel's
 * products, which have few columns at each point; NO_AXIS: there is none. */
uint32_t vector_axis_beats_gemm(const Kernel *k, uint32_t width);

#endif
