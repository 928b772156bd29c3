/* backend/cuda: cache of compiled kernels. */
#ifndef AXON_CUDA_KERNEL_CACHE_H
#define AXON_CUDA_KERNEL_CACHE_H

#include "backend/cuda/device.h"
#include "plan/backend.h"

typedef struct Arena Arena;

typedef struct CachedKernel {
  bool has_source;   /* false: the kernel has no CUDA code */
  char *source;      /* complete, with the prelude */
  CuModule module;   /* NULL: not loaded yet */
  CudaKernel kernel; /* a copy without its source */
  CuFunction *functions;
  uint32_t output_count;
  /* The nodes of the fusion group that are outputs. */
  uint32_t output_nodes[MAX_KERNEL_POINTERS];
  double work;
  double compile_seconds; /* of this process; 0: found in the code cache */
} CachedKernel;

/* The cached kernel of a fusion group: a kernel or a library operation.  NULL:
 * no CUDA code.  If the cache is full, the entry lives in the arena of the
 * kernel, and group->transient is set.  Requires the lock. */
CachedKernel *cuda_kernel_cache_get(FusionGroup *cluster, const Device *d);
/* Compiles and loads the kernel unless it is loaded. */
bool cached_kernel_load(CachedKernel *p, Device *d, Fault *fault);
/* If AXON_CC_DEBUG=/folder: writes the source there. */
void cached_kernel_dump_source(const CachedKernel *p);
/* Compiles the kernel or finds it in the code cache.  The caller frees the
 * code. */
bool cached_kernel_compile(CachedKernel *p, Device *d, CompiledCode *out,
                           Fault *fault);

/* describe.c; see Backend. */
bool cuda_describe(const FusionGroup *c, Arena *arena, const char *const *notes,
                   KernelInfo *about);

#endif
