/* backend/cuda: kernels as they are run, kept for the next time. */
#ifndef AXON_CUDA_PROGRAM_H
#define AXON_CUDA_PROGRAM_H

#include "backend/cpu/program.h"
#include "backend/cuda/device.h"

typedef struct CudaProgram {
  bool emitted;      /* there is a text for it */
  char *text;        /* whole */
  CuModule module;   /* NULL: it is not loaded yet */
  CudaKernel kernel; /* without its text; in memory of its own */
  CuFunction *functions;
  uint32_t out_count;
  uint32_t outs[POINTERS]; /* results: nodes of the cluster */
  double work;
} CudaProgram;

/* The cluster's; NULL: nothing is emitted for it.  Lives in the kernel's arena,
 * and cluster->passing is set, where there are too many.  With the lock. */
CudaProgram *cuda_program_of(Cluster *cluster, const Device *d);
/* Compiles and loads it where it is not there yet. */
bool cuda_program_ready(CudaProgram *p, Device *d, Fault *fault);

#endif
