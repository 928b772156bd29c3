/* backend/cpu: a few schedules of a kernel whose sizes are open.
 *
 * A kernel is right for all sizes, but its schedule is chosen for some.  So it
 * is there in several versions, and the sizes choose when it runs.  The last
 * one, for sizes of some hundreds, serves all; before it there may be such for
 * one variable that is 1, or small (a batch of one, a few classes, the 3 of an
 * image), for sums of few terms, batches of small products, for all of them
 * below a hundred or so, for rows that go in portions, and for what no cache
 * holds: sums in parts, stores past the caches.  All but the last one take
 * indices that are values for numbers of 32 bits.  A convolution is there for
 * windows that are not large, with many rows of weights and with few, and
 * without a window for others. */
#ifndef AXON_CPU_MULTIVERSION_H
#define AXON_CPU_MULTIVERSION_H

#include "backend/cpu/cpu.h"

enum {
  MAX_VERSIONED_VARS = 3, /* of which each gets versions of its own */
  MAX_VERSIONS = 2 * MAX_VERSIONED_VARS + 7,
  MAX_WINDOW_SCRATCH_BYTES = 16
                             << 20, /* bytes of scratch memory for a window */
};

typedef struct KernelVersion {
  uint32_t var_set;      /* a set of those of the kernel, each of which */
  int64_t max_value;     /* is at most that; 0: anything, */
  int64_t min_value;     /* and at least that, */
  int64_t assumed_value; /* and is taken for that */
  bool window;           /* where the scratch memory is of this size, at most */
  bool batched_gemm;     /* a product of a batch is so */
  double min_points;     /* of points of the first loop; 0: any number */
  bool index_32bit;      /* 31 bits hold its indices */
  uint32_t unrolled_loops; /* loops with sums that are written out */
  Kernel *kernel;
  Schedule schedule;
  CpuKernel emitted;
  uint32_t alias_begin, alias_end; /* sizes that its parameters are made of */
} KernelVersion;

typedef struct KernelVersions {
  const DimVar *vars[16]; /* of the kernel */
  uint32_t var_count, count;
  bool native_only; /* they are for this machine alone */
  /* of indices that are values: the least and the most that they may be */
  VEC(int64_t) index_minima, index_maxima;
  uint32_t window_vars; /* a set: those that say how long windows are */
  KernelVersion
      versions[MAX_VERSIONS]; /* in the order in which they are tried */
} KernelVersions;

/* Each of them scheduled and written, for registers of so many bytes; those
 * that do not pay are left out.  False: there is something in the kernel that
 * cannot be emitted. */
bool multiversion_emit(const Kernel *k, uint32_t vector_bytes, bool native_only,
                       const char *suffix, KernelVersions *out);

#endif
