/* backend/cpu: micro-kernels that a program defines (plan/schedule_file.h). */
#ifndef AXON_CPU_MICRO_KERNEL_H
#define AXON_CPU_MICRO_KERNEL_H

#include "plan/schedule_file.h"

/* Compiles the micro-kernel and compares it with its definition: for several
 * numbers of terms, for contiguous rows and contiguous columns of a, in memory
 * whose neighbouring pages cannot be accessed.  Runs it in another process.
 * The verdict is kept, in memory and as an artifact.  Returns NULL, or the
 * reason for which it cannot be used, in the arena. */
const char *micro_kernel_refusal(Arena *arena, const MicroKernel *m);
/* Its function in generated code. */
const char *micro_kernel_function(Arena *arena, const MicroKernel *m);
/* Declares the function, static. */
void micro_kernel_declare(Buffer *out, const MicroKernel *m);
/* Its text, which comes behind all other code, so that its macros change
 * nothing else. */
void micro_kernel_put_text(Buffer *out, const MicroKernel *m);

#endif
