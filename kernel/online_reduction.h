/* Online reductions, between the files that build them. */
#ifndef AXON_ONLINE_REDUCTION_H
#define AXON_ONLINE_REDUCTION_H

#include "kernel/kernel.h"

/* A reduction along the strips: its value after a strip continues in the next
 * one. */
typedef struct OnlineState {
  uint32_t loop, output;
  bool is_scaled; /* a sum that is a multiple of exp (slope * extreme) */
  double slope;
} OnlineState;

typedef struct OnlineStates {
  /* Loops strip_begin .. strip_end - 1 of the kernel run strip by strip. */
  uint32_t strip_begin, strip_end;
  uint32_t extreme_loop, extreme_output; /* of the scaled states */
  VEC(OnlineState) states;
} OnlineStates;

/* Adds the loops that keep the states: they set their first values, rescale
 * them, and check them. */
void kernel_add_online_states(Kernel *k, const OnlineStates *states);

#endif
