/* backend/cuda: kernels of a standalone module (axon build).
 *
 * Like backend/cpu/aot_module.h, for GPUs.  Sizes are symbolic.  Each
 * architecture has its own source, because schedules differ.
 *
 * The module also contains host C code, which uses aot/cuda_runtime.inc.
 * Function run1 of kernel 1 computes grids and arguments from the sizes,
 * allocates scratch memory, and launches the passes. */
#ifndef AXON_CUDA_AOT_MODULE_H
#define AXON_CUDA_AOT_MODULE_H

#include "backend/emit/aot_caller.h"
#include "plan/backend.h"
#include "support/buffer.h"
#include "support/vec.h"

typedef struct Arena Arena;

enum { CUDA_AOT_MAX_ARCHS = 7 };

typedef struct AotPass {  /* one pass, as the host launches it */
  uint32_t arch;          /* index of the architecture in the module */
  const char *name;       /* "k3_0" */
  const char *schedule;   /* description of the schedule */
  uint32_t block_threads; /* threads per block */
  int64_t shared_bytes;   /* dynamic shared memory per block, bytes */
  /* Blocks of the grid, as an expression of named sizes. */
  const char *grid_blocks;
} AotPass;

typedef struct CudaAotModule {
  /* The backend of the traced graphs; must be the first field. */
  Backend backend;
  Arena *arena;
  uint32_t arch_count;
  const char *archs[CUDA_AOT_MAX_ARCHS];
  uint32_t kernel_count;                   /* kernels added so far */
  uint32_t pass_count[CUDA_AOT_MAX_ARCHS]; /* passes in each source */
  Buffer source[CUDA_AOT_MAX_ARCHS];       /* CUDA source per architecture */
  Buffer host_code;
  Buffer schedules;        /* of the last kernel, in text */
  VEC(AotPass) aot_passes; /* sorted as the passes of each source */
  VEC(AotKernelSource) sources;
  VEC(uint32_t) first_pass; /* first pass of each entry of `sources` */
} CudaAotModule;

/* A kernel, for all architectures. */
typedef struct AotKernelInfo {
  NodeList outputs;
  bool has_checks;       /* the kernel has run-time checks */
  bool requires_align16; /* the pointers in q must be 16-byte aligned */
} AotKernelInfo;

void cuda_aot_module_begin(CudaAotModule *m, Arena *arena, uint32_t count,
                           const char *const *archs);
/* Adds the kernel of a group and returns its index K, or UINT32_MAX if it
 * contains an operation that has no CUDA code.
 *
 * The host code has `runK(x, z, q, flag)`. q points to the outputs in the order
 * of `added->outputs`, followed by the inputs of the kernel.  If the kernel has
 * checks, `codeK(x, bad)` returns the error code of the check bits that it
 * set. */
uint32_t cuda_aot_module_add(CudaAotModule *m, const FusionGroup *c,
                             const AotCaller *caller, AotKernelInfo *added);
/* The complete CUDA source for one architecture, with the prelude. */
bool cuda_aot_module_source(const CudaAotModule *m, uint32_t arch, Buffer *out);
/* Tables for the host: architectures, names of passes, shared memory. */
void cuda_aot_module_tables(const CudaAotModule *m, Buffer *out);

#endif
