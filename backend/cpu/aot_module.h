/* backend/cpu: kernels as parts of a C text that stands alone (axon build).
 *
 * The text has each kernel once for each kind of vectors that a compiler may
 * have, and takes the ones that its own target has.  Kernels are of sizes that
 * are no numbers yet (tensor/extent.h): a function run1 of kernel 1 computes
 * the kernel's parameters from those of the function that is being built. */
#ifndef AXON_CPU_AOT_MODULE_H
#define AXON_CPU_AOT_MODULE_H

#include "backend/emit/aot_caller.h"

enum { AOT_ISA_COUNT = 4 };

typedef struct AotEntry { /* how one is called, likewise */
  Buffer by_isa[AOT_ISA_COUNT];
} AotEntry;

typedef struct AotModule {
  Arena *arena;
  int only_isa;                      /* the one target; -1: all of them */
  Buffer kernels[AOT_ISA_COUNT][2];  /* of these: lanes of 4 and of 8 bytes */
  Buffer dispatchers[AOT_ISA_COUNT]; /* of versions, by sizes: run1 and so on */
  const char
      *version_summary; /* of the last one: "n <= 1; others", for which sizes
                           there are versions; of the widest vectors */
  VEC(AotKernelSource) sources;
  VEC(AotEntry) entries;
} AotModule;

/* here: only for this machine. */
void aot_module_begin(AotModule *m, Arena *arena, bool native_only);
/* Adds the kernel, unless there is one that is called in just that way:
 * `run%u(z, p)` with the number that it gives, where p points to `results`, in
 * order, and the kernel's inputs, gives 0 or a code.
 * UINT32_MAX: there is something in it that cannot be emitted. */
uint32_t aot_module_add(AotModule *m, const Kernel *k, const AotCaller *caller,
                        NodeList *results);
/* All that there is of kernels. */
void aot_module_write(const AotModule *m, Buffer *out);
/* Plain C with the functions that it uses of the prelude. */
void aot_module_write_scalar(Arena *arena, const Buffer *source, Buffer *out);

#endif
