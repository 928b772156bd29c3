/* backend/cpu: kernels as parts of a C text that stands alone (axon build).
 *
 * The text has each kernel once for each kind of vectors that a compiler may
 * have, and takes the ones that its own target has.  Kernels are of sizes that
 * are no numbers yet (tensor/size.h): a function run1 of kernel 1 computes the
 * kernel's parameters from those of the function that is being built. */
#ifndef AXON_CPU_MODULE_H
#define AXON_CPU_MODULE_H

#include "tensor/kernel.h"

enum { MODULE_TARGETS = 4 };

typedef struct ModuleText { /* of a kernel, that others may be too */
  const Buffer *part;
  const char *text; /* with a mark for its number */
  size_t len;
  uint32_t number;
} ModuleText;

typedef struct ModuleRun { /* how one is called, likewise */
  Buffer text[MODULE_TARGETS];
} ModuleRun;

typedef struct AotModule {
  Arena *arena;
  int only;                       /* the one target; -1: all of them */
  Buffer text[MODULE_TARGETS][2]; /* of these: lanes of 4 and of 8 bytes */
  Buffer choices[MODULE_TARGETS]; /* of versions, by sizes: run1 and so on */
  const char *about; /* of the last one: "n <= 1; others", for which sizes there
                        are versions; of the widest vectors */
  VEC(ModuleText) known;
  VEC(ModuleRun) runs;
} AotModule;

/* What a kernel wants to know of the function that it is part of. */
typedef struct ModuleCaller {
  void *owner;
  const char *(*size)(void *owner, const DimVar *v); /* "z[2]" */
  const char *(*name)(void *owner, const DimVar *v); /* "n", for people */
  uint32_t (*code)(void *owner, const Step *s); /* where a check of it fails */
} ModuleCaller;

typedef VEC(const Node *) NodeList;

/* here: only for this machine. */
void module_begin(AotModule *m, Arena *arena, bool here);
/* Adds the kernel, unless there is one that is called in just that way:
 * `run%u(z, p)` with the number that it gives, where p points to `results`, in
 * order, and the kernel's inputs, gives 0 or a code.
 * UINT32_MAX: there is something in it that cannot be emitted. */
uint32_t module_add(AotModule *m, const Kernel *k, const ModuleCaller *caller,
                    NodeList *results);
/* All that there is of kernels. */
void module_write(const AotModule *m, Buffer *out);
/* Plain C with the functions that it uses of the prelude. */
void module_write_plain(Arena *arena, const Buffer *text, Buffer *out);

#endif
