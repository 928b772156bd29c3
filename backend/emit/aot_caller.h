/* backend/emit: kernels of a stand-alone module (axon build), for aot_module.h
 * of both backends. */
#ifndef AXON_EMIT_AOT_CALLER_H
#define AXON_EMIT_AOT_CALLER_H

#include "kernel/kernel.h"
#include "support/vec.h"

typedef struct Buffer Buffer;

typedef struct AotKernelSource { /* source of a kernel, which several kernels
                                    may share */
  const Buffer *section;
  const char *source; /* with a placeholder for its number */
  size_t len;
  uint32_t number;
} AotKernelSource;

/* Information about the function that contains the kernel. */
typedef struct AotCaller {
  void *context;
  const char *(*emit_size)(void *owner,
                           const DimVar *v); /* for example "z[2]" */
  const char *(*display_name)(
      void *owner, const DimVar *v); /* for messages, for example "n" */
  uint32_t (*error_code)(void *owner,
                         const KernelOp *s); /* of a failed check */
} AotCaller;

typedef VEC(const Node *) NodeList;

/* params.c: a number as C of the host. */
void emit_float_literal(Buffer *out, double x);

#endif
