/* backend/emit: kernels of a module that stands alone (axon build), for both
 * backends' aot_module.h. */
#ifndef AXON_EMIT_AOT_CALLER_H
#define AXON_EMIT_AOT_CALLER_H

#include "kernel/kernel.h"

typedef struct AotKernelSource { /* of a kernel, that others may be too */
  const Buffer *section;
  const char *source; /* with a mark for its number */
  size_t len;
  uint32_t number;
} AotKernelSource;

/* What a kernel wants to know of the function that it is part of. */
typedef struct AotCaller {
  void *context;
  const char *(*emit_size)(void *owner, const DimVar *v); /* "z[2]" */
  const char *(*display_name)(void *owner,
                              const DimVar *v); /* "n", for people */
  uint32_t (*error_code)(void *owner,
                         const KernelOp *s); /* where a check of it fails */
} AotCaller;

typedef VEC(const Node *) NodeList;

#endif
