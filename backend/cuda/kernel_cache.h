/* backend/cuda: kernels as they are run, kept for the next time. */
#ifndef AXON_CUDA_KERNEL_CACHE_H
#define AXON_CUDA_KERNEL_CACHE_H

#include "backend/cuda/device.h"
#include "plan/backend.h"

typedef struct CachedKernel {
  bool has_source;   /* there is a text for it */
  char *source;      /* whole */
  CuModule module;   /* NULL: it is not loaded yet */
  CudaKernel kernel; /* without its text; in memory of its own */
  CuFunction *functions;
  uint32_t output_count;
  uint32_t
      output_nodes[MAX_KERNEL_POINTERS]; /* results: nodes of the cluster */
  double work;
  double compile_seconds; /* that compiling took, in this process; 0: it was
                             found */
} CachedKernel;

/* The cluster's, of a kernel or a routine; NULL: nothing is emitted for it.
 * Lives in the kernel's arena,
 * and cluster->transient is set, where there are too many.  With the lock. */
CachedKernel *cuda_kernel_cache_get(FusionGroup *cluster, const Device *d);
/* Compiles and loads it where it is not there yet. */
bool cached_kernel_load(CachedKernel *p, Device *d, Fault *fault);
/* AXON_CC_DEBUG=/folder: leaves its text there. */
void cached_kernel_dump_source(const CachedKernel *p);
/* Its code, compiled or found: the caller's to free. */
bool cached_kernel_compile(CachedKernel *p, Device *d, CompiledCode *out,
                           Fault *fault);

/* describe.c: see Backend. */
bool cuda_describe(const FusionGroup *c, Arena *arena, const char *const *notes,
                   KernelInfo *about);

#endif
