/* backend/cpu: multiversioning of kernels with symbolic sizes.
 *
 * A kernel is correct for all sizes, but its schedule is chosen for some.  So
 * a kernel has several versions, and a run-time dispatch on the sizes selects
 * one.  The last version is scheduled for sizes of some hundreds and accepts
 * all sizes.  The versions before it are specialized:
 *
 * - one variable is 1 or tiny (a batch of one, a few classes, 3 color
 * channels);
 *
 * - short reductions; batches of small matmuls; all variables are small;
 *
 * - rows so long that they are strip-mined;
 *
 * - data that exceeds the caches: split reductions, non-temporal stores.
 *
 * All versions but the last use 32-bit index values.  A convolution has
 * versions for small windows, with many and with few output channels, and one
 * without a window. */
#ifndef AXON_CPU_MULTIVERSION_H
#define AXON_CPU_MULTIVERSION_H

#include "backend/cpu/cpu.h"
#include "machine/limits/cpu.h"
#include "support/vec.h"

enum {
  MAX_VERSIONS = 2 * MAX_VERSIONED_VARS + 10,
};

typedef struct KernelVersion {
  uint32_t var_set;      /* set of variables to which the limits apply */
  int64_t max_value;     /* at most; 0: no limit */
  int64_t min_value;     /* at least */
  int64_t assumed_value; /* the value that the schedule assumes */
  bool window;           /* only if the window's scratch memory is at most
                            MAX_WINDOW_SCRATCH_BYTES */
  /* batch of small matmuls: the number of vectors of a row, and the set of the
   * variable that is its length, at most max_row; row_vectors 0: other */
  uint32_t row_vectors, row_set;
  int64_t max_row;
  double min_points; /* iterations of the first loop, at least; 0: no limit */
  bool index_32bit;  /* index values fit in 31 bits */
  uint32_t unrolled_loops; /* number of short reductions */
  Kernel *kernel;
  Schedule schedule;
  CpuKernel emitted;
  uint32_t alias_begin, alias_end; /* extent aliases that its parameters use */
} KernelVersion;

typedef struct KernelVersions {
  const DimVar *vars[16]; /* variables of the kernel */
  uint32_t var_count, count;
  const FusionGroup *group;
  bool native_only; /* all versions are for this machine only */
  /* bounds of index values */
  VEC(int64_t) index_minima, index_maxima;
  uint32_t
      window_vars; /* set of variables that determine the sizes of windows */
  KernelVersion versions[MAX_VERSIONS]; /* in the order of the dispatch */
} KernelVersions;

/* Schedules and emits the versions of the kernel of a group for vectors of
 * `vector_bytes` bytes.  Omits versions that are not faster; a schedule that a
 * user wrote has one version.  Returns false if the kernel cannot be
 * emitted. */
bool multiversion_emit(const FusionGroup *c, uint32_t vector_bytes,
                       bool native_only, const char *suffix,
                       KernelVersions *out);

#endif
