/* backend/cpu: kernels as parts of a stand-alone C source (axon build).
 *
 * The source contains each kernel once per vector ISA.  Preprocessor
 * conditions select the ISA of the compiler's target.  Kernels have symbolic
 * sizes (tensor/extent.h): a function run1 of kernel 1 computes the kernel's
 * parameters from those of the function that is being built. */
#ifndef AXON_CPU_AOT_MODULE_H
#define AXON_CPU_AOT_MODULE_H

#include "backend/emit/aot_caller.h"
#include "plan/fusion_group.h"
#include "support/buffer.h"
#include "support/vec.h"

typedef struct Arena Arena;

enum { AOT_ISA_COUNT = 4 };

typedef struct AotEntry { /* the call of a kernel, by ISA */
  Buffer by_isa[AOT_ISA_COUNT];
} AotEntry;

typedef struct AotModule {
  Arena *arena;
  int only_isa;                     /* index of the only ISA; -1: all of them */
  Buffer kernels[AOT_ISA_COUNT][2]; /* by ISA: kernels with vectors of 4-byte
                                       and of 8-byte lanes */
  Buffer dispatchers[AOT_ISA_COUNT]; /* by ISA: functions run1 and so on, which
                                        select a version by sizes */
  const char *schedule; /* of the last kernel, in text, for this machine; NULL:
                           it is not a target */
  const char *version_summary; /* conditions of the last kernel's versions, for
                                  the widest ISA: "n <= 1; others" */
  VEC(AotKernelSource) sources;
  VEC(AotEntry) entries;
} AotModule;

/* native_only: only for this machine. */
void aot_module_begin(AotModule *m, Arena *arena, bool native_only);
/* Adds the kernel of a group unless an equal one exists.  Returns its number k.
 * The call `run<k>(z, p)` returns 0 or an error code. p points to the outputs
 * in the order of `results`, then to the kernel's inputs.  Returns UINT32_MAX
 * if the kernel cannot be emitted. */
uint32_t aot_module_add(AotModule *m, const FusionGroup *c,
                        const AotCaller *caller, NodeList *results);
/* Writes all kernels. */
void aot_module_write(const AotModule *m, Buffer *out);
/* Writes plain C with the functions of the scalar prelude that it uses. */
void aot_module_write_scalar(Arena *arena, const Buffer *source, Buffer *out);

#endif
