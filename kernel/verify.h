/* Checks of kernels between passes. */
#ifndef AXON_KERNEL_VERIFY_H
#define AXON_KERNEL_VERIFY_H

#include "kernel/kernel.h"

typedef struct Buffer Buffer;

/* Checks the structure of a kernel.  Arguments of an op precede it.  Axes and
 * loops exist.  A loop writes local values before another one reads them.
 * Outputs are in bounds of their tensors.  Returns false with a message that
 * names the loop and the error. */
bool kernel_verify(const Kernel *k, Buffer *message);

/* AXON_VERIFY is set. */
bool kernel_verify_is_on(void);
/* If AXON_VERIFY is set and the kernel is wrong: prints the kernel and the name
 * of the last pass, and aborts. */
void kernel_verify_after(const Kernel *k, const char *pass);
void loop_verify_after(const LoopNest *loop, const char *pass);

#endif
