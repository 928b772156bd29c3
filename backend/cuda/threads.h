/* backend/cuda: the threads of a block, on all architectures. */
#ifndef AXON_CUDA_THREADS_H
#define AXON_CUDA_THREADS_H

#include <stdbool.h>
#include <stdint.h>

enum { WARP = 32, MAX_BLOCK_THREADS = 1024 };

static inline bool is_power_of_two(int64_t x) {
  return x > 0 && !(x & (x - 1));
}

#endif
