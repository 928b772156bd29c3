/* backend/cuda: kernels of a module that stands alone (axon build).
 *
 * As backend/cpu/aot_module.h, for GPUs: kernels are of sizes that are no
 * numbers yet, and there is a text of them for each architecture, as schedules
 * differ. Beside it is C for the host, for aot/cuda_runtime.inc to stand on:
 * run1 of kernel 1 computes its grids and arguments from the sizes, takes
 * scratch memory and starts its passes. */
#ifndef AXON_CUDA_AOT_MODULE_H
#define AXON_CUDA_AOT_MODULE_H

#include "backend/emit/aot_caller.h"
#include "plan/backend.h"

enum { CUDA_AOT_MAX_ARCHS = 7 };

typedef struct AotPass {   /* a pass, as the host starts it */
  uint32_t arch;           /* its number in the module */
  const char *name;        /* "k3_0" */
  const char *schedule;    /* in words */
  uint32_t block_threads;  /* of a block */
  int64_t shared_bytes;    /* bytes of a block */
  const char *grid_blocks; /* how many, of sizes as they are called */
} AotPass;

typedef struct CudaAotModule {
  Backend backend; /* of graphs whose kernels it gets; first: has_rows */
  Arena *arena;
  uint32_t arch_count;
  const char *archs[CUDA_AOT_MAX_ARCHS];
  uint32_t kernel_count;                   /* of kernels */
  uint32_t pass_count[CUDA_AOT_MAX_ARCHS]; /* of each text */
  Buffer source[CUDA_AOT_MAX_ARCHS];       /* kernels */
  Buffer host_code;
  VEC(AotPass) aot_passes; /* in the order of each text's passes */
  VEC(AotKernelSource) sources;
  VEC(uint32_t) first_pass; /* of each known one: its first pass */
} CudaAotModule;

typedef struct AotKernelInfo { /* a kernel, on all architectures */
  NodeList outputs;
  bool has_checks;       /* are there any? */
  bool requires_align16; /* what q points to begins at multiples of 16 bytes */
} AotKernelInfo;

void cuda_aot_module_begin(CudaAotModule *m, Arena *arena, uint32_t count,
                           const char *const *archs);
/* Adds the kernel: `run%u(x, z, q, flag)` with the number that it gives, where
 * q points to `results`, in order, and the kernel's inputs, and, where there
 * are checks, `code%u(x, bad)` of what these found.  UINT32_MAX: there is
 * something in it that is not emitted. */
uint32_t cuda_aot_module_add(CudaAotModule *m, const Kernel *k,
                             const AotCaller *caller, AotKernelInfo *added);
/* The kernels for one of the architectures, with all that they stand on. */
bool cuda_aot_module_source(const CudaAotModule *m, uint32_t arch, Buffer *out);
/* What the host knows of them: architectures, names, bytes. */
void cuda_aot_module_tables(const CudaAotModule *m, Buffer *out);

#endif
