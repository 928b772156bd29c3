/* Checks of kernels between passes. */
#ifndef AXON_KERNEL_VERIFY_H
#define AXON_KERNEL_VERIFY_H

#include "kernel/kernel.h"

/* Checks the structure of a kernel: arguments of an op come before it, axes
 * and loops that are named exist, a loop writes local values before another
 * one reads them, and results lie within their tensors.  False with a message
 * that names the loop and what is wrong in it. */
bool kernel_verify(const Kernel *k, Buffer *message);
/* The same of one loop before it is part of a kernel. */
bool loop_verify(const LoopNest *loop, Buffer *message);

/* If AXON_VERIFY is set and the kernel is wrong: prints it and the name of the
 * pass that made it, and aborts. */
void kernel_verify_after(const Kernel *k, const char *pass);
void loop_verify_after(const LoopNest *loop, const char *pass);

#endif
