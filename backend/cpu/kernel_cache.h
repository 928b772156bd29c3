/* backend/cpu: kernels as they are run, kept for the next time. */
#ifndef AXON_CPU_KERNEL_CACHE_H
#define AXON_CPU_KERNEL_CACHE_H

#include "backend/cpu/cpu.h"
#include "runtime/artifact.h"

/* All that a call of a kernel wants beside its tensors.  Where two kernels are
 * the same but for these, so are their programs: it is made once in a process,
 * and not changed afterwards. */
typedef struct CompiledKernel {
  JitObject *object; /* NULL: the kernel cannot be emitted */
  const int64_t *ints;
  const double *floats;
  const KeyParam *key_params; /* of the integers */
  const PrepackedOperand *prepacked;
  uint32_t int_count, float_count, key_param_count, output_count,
      prepacked_count;
  uint32_t output_nodes[MAX_KERNEL_POINTERS]; /* results that go to memory:
                                                 nodes of the cluster */
  bool splits_reduction;   /* sums of chunks, which are then added up */
  bool is_arg_reduction;   /* or the best of each, with their values */
  uint64_t inplace_inputs; /* inputs whose place the one result may take
                              (kernel_inplace_inputs) */
  bool shares_packing;     /* units that follow one another copy the same */
  int64_t tasks, reduction_chunks;
  Dtype accumulator_dtype;
  size_t scratch_bytes;
  double operations; /* simple operations */
  bool exact;        /* the reference backend computes the same bits */
} CompiledKernel;

/* What is kept under a hash of all that it depends on; NULL: nothing. */
const CompiledKernel *kernel_cache_find(ArtifactKey key);
/* Keeps a copy; NULL: there are too many. */
const CompiledKernel *kernel_cache_insert(ArtifactKey key,
                                          const CompiledKernel *p);

/* True if the reference backend runs the kernel this time: the compiler is not
 * done, little is to be computed, and the results have the same bits.  Any
 * other kernel waits for the compiler, so that results do not depend on what
 * the cache holds. */
bool compiled_kernel_is_interpreted(const Graph *g, const CompiledKernel *p);

/* The cluster's kernel, being compiled from now on; NULL: it cannot be
 * emitted.  Where there are too many it lives in the kernel's arena, and
 * cluster->transient is set. */
const CompiledKernel *kernel_cache_get(FusionGroup *cluster);

#endif
