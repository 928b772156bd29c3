/* backend/cuda/sim: threads of the GPU as fibers of one thread of the host. */
#ifndef AXON_CUDA_FIBER_H
#define AXON_CUDA_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIBER_STACK_BYTES = 96 << 10 };

typedef struct Fiber {
  void *saved_stack; /* where it goes on */
  char *stack; /* FIBER_STACK_BYTES bytes above a page that nobody may touch */
  void *sanitizer; /* its false stack, while it does not run */
} Fiber;

/* Some stacks, of this process for good: later calls give the same ones.
 * False: no memory. */
bool fiber_stacks(char ***stacks, size_t count);

/* It begins with start(), on its stack, when it is first resumed. */
void fiber_begin(Fiber *f, char *stack, void (*start)(void));
/* From the host's thread into the fiber, until it pauses. */
void fiber_resume(Fiber *f);
/* From the fiber back; last: for good. */
void fiber_pause(Fiber *f, bool last);

#endif
