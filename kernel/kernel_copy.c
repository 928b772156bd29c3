/* Copies of kernels, for schedules that reorder axes. */
#include "kernel/kernel.h"
#include "support/arena.h"

#include <string.h>

Kernel *kernel_copy(const Kernel *from) {
  Kernel *to = NEW(from->arena, Kernel);
  *to = *from;
  memset(&to->loops, 0, sizeof to->loops);
  for (uint32_t j = 0; j < from->loops.len; j++)
    VEC_PUSH(to->arena, to->loops, loop_clone(to->arena, from->loops.at[j]));
  if (from->trim_check)
    to->trim_check = loop_clone(to->arena, from->trim_check);
  if (from->retry_check)
    to->retry_check = loop_clone(to->arena, from->retry_check);
  return to;
}
