/* What the files of machine/ share. */
#ifndef AXON_MACHINE_INTERNAL_H
#define AXON_MACHINE_INTERNAL_H

#include "machine/machine.h"

/* microbenchmarks.c: loops to be timed.  Sizes are multiples of 256 bytes, and
 * places of 64. */
typedef struct Microbenchmarks {
  uint32_t vector_bytes;    /* bytes */
  uint32_t flops_per_round; /* of a round of multiply */
  float (*multiply_add)(int64_t rounds);
  float (*read)(const char *from, size_t bytes);
  void (*copy)(char *to, const char *from, size_t bytes);
  void (*nontemporal_copy)(char *to, const char *from, size_t bytes);
  uint32_t bf16_flops_per_round;
  float (*dot_bf16)(int64_t rounds); /* NULL: no such instructions */
} Microbenchmarks;
Microbenchmarks machine_microbenchmarks(uint32_t vector_bytes);

#endif
