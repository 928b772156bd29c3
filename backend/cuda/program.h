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
  double seconds; /* that compiling took, in this process; 0: it was found */
} CudaProgram;

/* The cluster's, of a kernel or a routine; NULL: nothing is emitted for it.
 * Lives in the kernel's arena,
 * and cluster->passing is set, where there are too many.  With the lock. */
CudaProgram *cuda_program_of(Cluster *cluster, const Device *d);
/* Compiles and loads it where it is not there yet. */
bool cuda_program_ready(CudaProgram *p, Device *d, Fault *fault);
/* AXON_CC_DEBUG=/folder: leaves its text there. */
void cuda_program_keep(const CudaProgram *p);
/* Its code, compiled or found: the caller's to free. */
bool cuda_program_code(CudaProgram *p, Device *d, CudaCode *out, Fault *fault);

/* describe.c: see Backend. */
bool cuda_describe(const Cluster *c, Arena *arena, const char *const *notes,
                   KernelAbout *about);

#endif
