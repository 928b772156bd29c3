/* The monotonic clock. */
#ifndef AXON_SUPPORT_CLOCK_H
#define AXON_SUPPORT_CLOCK_H

#include <time.h>

/* Seconds since some fixed moment.  The clock never goes back. */
static inline double clock_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
