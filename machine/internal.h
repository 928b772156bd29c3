/* Declarations shared by the files of machine/. */
#ifndef AXON_MACHINE_INTERNAL_H
#define AXON_MACHINE_INTERNAL_H

#include "machine/machine.h"

/* Loops for timing, for one vector width (microbenchmarks.c).  Sizes are
 * multiples of 256 bytes; addresses are multiples of 64 bytes. */
typedef struct Microbenchmarks {
  uint32_t vector_bytes; /* bytes of a vector */
  uint32_t
      flops_per_round; /* floating-point operations per round of multiply */
  float (*multiply_add)(int64_t rounds);
  float (*read)(const char *from, size_t bytes);
  void (*copy)(char *to, const char *from, size_t bytes);
  void (*nontemporal_copy)(char *to, const char *from, size_t bytes);
  uint32_t bf16_flops_per_round;
  float (*dot_bf16)(
      int64_t rounds); /* NULL if the CPU lacks these instructions */
} Microbenchmarks;
Microbenchmarks machine_microbenchmarks(uint32_t vector_bytes);

#endif
