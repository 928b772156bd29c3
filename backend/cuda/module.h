/* backend/cuda: kernels of a module that stands alone (axon build).
 *
 * As backend/cpu/module.h, for GPUs: kernels are of sizes that are no numbers
 * yet, and there is a text of them for each architecture, as schedules differ.
 * Beside it is C for the host, for session/cudahost.inc to stand on: run1 of
 * kernel 1 computes its grids and arguments from the sizes, takes scratch
 * memory and starts its passes. */
#ifndef AXON_CUDA_MODULE_H
#define AXON_CUDA_MODULE_H

#include "backend/cpu/module.h"

enum { CUDA_MODULE_ARCHS = 7 };

typedef struct CudaBuilt { /* a pass, as the host starts it */
  uint32_t arch;           /* its number in the module */
  const char *name;        /* "k3_0" */
  const char *schedule;    /* in words */
  uint32_t threads;        /* of a block */
  int64_t shared;          /* bytes of a block */
  const char *blocks;      /* how many, of sizes as they are called */
} CudaBuilt;

typedef struct CudaModule {
  Backend backend; /* of graphs whose kernels it gets; first: has_rows */
  Arena *arena;
  uint32_t arch_count;
  const char *archs[CUDA_MODULE_ARCHS];
  uint32_t count;                     /* of kernels */
  uint32_t passes[CUDA_MODULE_ARCHS]; /* of each text */
  Buffer text[CUDA_MODULE_ARCHS];     /* kernels */
  Buffer host;
  VEC(CudaBuilt) built; /* in the order of each text's passes */
  VEC(ModuleText) known;
  VEC(uint32_t) first; /* of each known one: its first pass */
} CudaModule;

typedef struct CudaAdded { /* a kernel, on all architectures */
  NodeList results;
  bool checks; /* are there any? */
  bool lines;  /* what q points to begins at multiples of 16 bytes */
} CudaAdded;

void cuda_module_begin(CudaModule *m, Arena *arena, uint32_t count,
                       const char *const *archs);
/* Adds the kernel: `run%u(x, z, q, flag)` with the number that it gives, where
 * q points to `results`, in order, and the kernel's inputs, and, where there
 * are checks, `code%u(x, bad)` of what these found.  UINT32_MAX: there is
 * something in it that is not emitted. */
uint32_t cuda_module_add(CudaModule *m, const Kernel *k,
                         const ModuleCaller *caller, CudaAdded *added);
/* The kernels for one of the architectures, with all that they stand on. */
bool cuda_module_text(const CudaModule *m, uint32_t arch, Buffer *out);
/* What the host knows of them: architectures, names, bytes. */
void cuda_module_tables(const CudaModule *m, Buffer *out);

#endif
