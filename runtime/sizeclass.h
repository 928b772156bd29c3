/* Classes of the sizes of memory: eight between two powers of two, so that
 * nearly equal ones share blocks, and at most an eighth is wasted.  The first
 * one has 1 << smallest bytes; smallest is 3 or more. */
#ifndef AXON_SIZECLASS_H
#define AXON_SIZECLASS_H

#include <stddef.h>
#include <stdint.h>

enum { SIZECLASS_STEPS = 8 };

/* How many there are, up to 1 << 62 bytes. */
#define SIZECLASS_COUNT(smallest) ((62 - (smallest)) * SIZECLASS_STEPS)

/* The class of the least size that holds these bytes. */
static inline uint32_t sizeclass_of(size_t bytes, uint32_t smallest) {
  if (bytes <= (size_t)1 << smallest)
    return 0;
  uint32_t bits = 63 - (uint32_t)__builtin_clzll(bytes - 1);
  uint32_t step = (uint32_t)((bytes - 1) >> (bits - 3)) & (SIZECLASS_STEPS - 1);
  return (bits - smallest) * SIZECLASS_STEPS + step + 1;
}

static inline size_t sizeclass_size(uint32_t class, uint32_t smallest) {
  size_t base = (size_t)1 << (smallest + class / SIZECLASS_STEPS);
  return base + base / SIZECLASS_STEPS * (class % SIZECLASS_STEPS);
}

#endif
