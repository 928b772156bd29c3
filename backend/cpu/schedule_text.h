/* backend/cpu: schedules of kernels as text, which programs override.
 *
 *     tasks i1, i0 64; width 8
 *       1: tile i2 8 peel; lanes i2
 *       2: by gemm
 *
 * The head says what the loop nests of a kernel share.  Each loop nest then has
 * the steps of its nest (kernel/steps.def).  A loop nest that is not mentioned
 * has the steps that the chooser takes. */
#ifndef AXON_CPU_SCHEDULE_TEXT_H
#define AXON_CPU_SCHEDULE_TEXT_H

#include "backend/cpu/cpu.h"

/* Prints the schedule of a kernel, a line for the head and for each nest. */
void schedule_print(Buffer *out, const Kernel *k, const Schedule *s);
/* Makes the schedule that the text describes.  Like schedule_choose, changes
 * the kernel.  Returns NULL, or the error, in the arena of the kernel; *at is
 * then its position in the text. */
const char *schedule_read(Kernel *k, uint32_t vector_bytes, const char *text,
                          uint32_t *at, Schedule *s);

#endif
