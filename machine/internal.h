/* What the files of machine/ share. */
#ifndef AXON_MACHINE_INTERNAL_H
#define AXON_MACHINE_INTERNAL_H

#include "machine/machine.h"

/* kernels.c: loops to be timed.  Sizes are multiples of 256 bytes, and places
 * of 64. */
typedef struct MachineKernels {
  uint32_t vector;     /* bytes */
  uint32_t operations; /* of a round of multiply */
  float (*multiply)(int64_t rounds);
  float (*read)(const char *from, size_t bytes);
  void (*copy)(char *to, const char *from, size_t bytes);
  void (*stream)(char *to, const char *from, size_t bytes);
  uint32_t operations_bf16;
  float (*multiply_bf16)(int64_t rounds); /* NULL: no such instructions */
} MachineKernels;
MachineKernels machine_kernels(uint32_t vector);

#endif
