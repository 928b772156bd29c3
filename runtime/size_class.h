/* Size classes of memory: eight between two powers of two.  Nearly equal sizes
 * share blocks, and at most an eighth is wasted.  The first class has 1 <<
 * min_bits bytes; min_bits is at least 3. */
#ifndef AXON_SIZE_CLASS_H
#define AXON_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum { SIZE_CLASSES_PER_DOUBLING = 8 };

/* Number of classes up to 1 << 62 bytes. */
#define SIZE_CLASS_COUNT_UP_FROM(smallest) \
  ((62 - (smallest)) * SIZE_CLASSES_PER_DOUBLING)

/* The smallest class that holds this number of bytes. */
static inline uint32_t size_class_of(size_t bytes, uint32_t min_bits) {
  if (bytes <= (size_t)1 << min_bits)
    return 0;
  uint32_t bits = 63 - (uint32_t)__builtin_clzll(bytes - 1);
  uint32_t step =
      (uint32_t)((bytes - 1) >> (bits - 3)) & (SIZE_CLASSES_PER_DOUBLING - 1);
  return (bits - min_bits) * SIZE_CLASSES_PER_DOUBLING + step + 1;
}

static inline size_t size_class_bytes(uint32_t class, uint32_t min_bits) {
  size_t base = (size_t)1 << (min_bits + class / SIZE_CLASSES_PER_DOUBLING);
  return base +
         base / SIZE_CLASSES_PER_DOUBLING * (class % SIZE_CLASSES_PER_DOUBLING);
}

#endif
