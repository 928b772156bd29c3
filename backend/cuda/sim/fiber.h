/* backend/cuda/sim: GPU threads as fibers of one host thread. */
#ifndef AXON_CUDA_FIBER_H
#define AXON_CUDA_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIBER_STACK_BYTES = 96 << 10 };

typedef struct Fiber {
  void *saved_stack; /* stack pointer while suspended */
  char *stack;       /* FIBER_STACK_BYTES bytes above a guard page */
  void *sanitizer;   /* the fake stack of AddressSanitizer while suspended */
} Fiber;

/* Returns stacks that the process keeps: later calls return the same ones.
 * False if memory is exhausted. */
bool fiber_stacks(char ***stacks, size_t count);

/* Prepares a fiber that runs start() on its stack at the first resume. */
void fiber_begin(Fiber *f, char *stack, void (*start)(void));
/* Switches from the host thread to the fiber, until it pauses. */
void fiber_resume(Fiber *f);
/* Switches from the fiber to the host thread.  last: the fiber has ended. */
void fiber_pause(Fiber *f, bool last);

#endif
