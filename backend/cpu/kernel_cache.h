/* backend/cpu: cache of compiled kernels. */
#ifndef AXON_CPU_KERNEL_CACHE_H
#define AXON_CPU_KERNEL_CACHE_H

#include "backend/cpu/cpu.h"
#include "runtime/artifact.h"

/* All that a call of a kernel needs except its tensors.  Kernels that differ
 * only in their tensors share one.  Immutable once created. */
typedef struct CompiledKernel {
  JitObject *object; /* NULL: the kernel cannot be emitted */
  const int64_t *ints;
  const double *floats;
  const KeyParam *key_params; /* positions of key words among the integers */
  const PrepackedOperand *prepacked;
  uint32_t int_count, float_count, key_param_count, output_count,
      prepacked_count;
  uint32_t output_nodes[MAX_KERNEL_POINTERS]; /* nodes of the fusion group that
                                                 are outputs */
  /* For each output: inputs whose memory it may reuse
   * (kernel_inplace_inputs). */
  uint64_t inplace_inputs[MAX_KERNEL_POINTERS];
  bool splits_reduction; /* computes partial results of chunks, which are then
                            combined */
  bool is_arg_reduction; /* argmax or argmin: partial results are positions and
                            values */
  bool shares_packing;   /* consecutive tasks pack the same operand */
  int64_t tasks, reduction_chunks;
  Dtype accumulator_dtype;
  size_t scratch_bytes;
  double operations; /* number of scalar operations */
  bool checks;       /* tests indices or divisors */
  bool exact;        /* the reference backend computes the same bits */
} CompiledKernel;

/* Finds a kernel by the hash of all that it depends on; NULL: it is not
 * cached. */
const CompiledKernel *kernel_cache_find(ArtifactKey key);
/* Inserts a copy; NULL: the cache is full or out of memory. */
const CompiledKernel *kernel_cache_insert(ArtifactKey key,
                                          const CompiledKernel *p);

/* Returns true if the reference backend executes the kernel this time.  Then
 * the compilation is not finished, the kernel is small, and the results have
 * the same bits.  All other kernels wait for the compiler, so that results do
 * not depend on the state of the cache. */
bool compiled_kernel_is_interpreted(const Graph *g, const CompiledKernel *p);

/* The kernel of the group, whose compilation starts now if necessary; NULL: it
 * cannot be emitted.  If the cache is full, it is allocated in the kernel's
 * arena, and group->transient is set. */
const CompiledKernel *kernel_cache_get(FusionGroup *group);

#endif
