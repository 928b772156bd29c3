/* backend/cpu: along which axis the lanes of a kernel's vectors lie. */
#ifndef AXON_CPU_LANES_H
#define AXON_CPU_LANES_H

#include "backend/cpu/cpu.h"

/* Are there numbers of eight bytes to compute with?  Indices are such only
 * where they differ from lane to lane: lanes of each loop, or NULL. */
bool lanes_wide(const Kernel *k, const uint32_t *lanes);
/* Does the loop look for a place: is it an argmax or argmin? */
bool lanes_where(const Loop *loop);
/* The best of the loop's inner axes; NO_LANE: there are none. */
uint32_t lanes_inner(Arena *arena, const Loop *loop, uint32_t width,
                     double *cost);
/* The outer axis along which lanes are best put; NO_LANE: along inner ones. */
uint32_t lanes_best(const Kernel *k, uint32_t width);
/* Are reads whose lanes are apart along the outer axis to be copied, so that
 * they are not (kernel_copy_apart)?  Where the axis is long and what is copied
 * of a few vectors stays in the nearest cache. */
bool lanes_copied(const Kernel *k, uint32_t v, uint32_t width);
/* So many lanes a unit has at least then: the rows that they leave for each
 * other are to stay in a cache. */
double lanes_least(const Kernel *k, uint32_t v, uint32_t width);
/* An outer axis along which lanes are better than tiles of the kernel's
 * products, which have few columns at each point; NO_LANE: there is none. */
uint32_t lanes_across(const Kernel *k, uint32_t width);

#endif
