/* backend/cpu: a few schedules of a kernel whose sizes are open.
 *
 * A kernel is right for all sizes, but its schedule is chosen for some.  So it
 * is there in several versions, and the sizes choose when it runs.  The last
 * one, for sizes of some hundreds, serves all; before it there may be such for
 * one variable that is 1, or small (a batch of one, a few classes, the 3 of an
 * image), for all of them below a hundred or so, for rows that go in portions,
 * and for what no cache holds: sums in parts, stores past the caches.  A
 * convolution is there for windows that are not large, with many rows of
 * weights and with few, and without a window for others. */
#ifndef AXON_CPU_VERSIONS_H
#define AXON_CPU_VERSIONS_H

#include "backend/cpu/cpu.h"

enum {
  VERSION_VARS = 3, /* of which each gets versions of its own */
  VERSIONS_MOST = 2 * VERSION_VARS + 4,
  WINDOW_ROOM = 16 << 20, /* bytes of scratch memory for a window */
};

typedef struct Version {
  const DimVar *var; /* NULL: all */
  int64_t most;      /* where it is at most that; 0: anything, */
  int64_t from;      /* and at least that */
  int64_t guess;     /* what it is taken for */
  bool window;       /* where the scratch memory is of this size, at most */
  double least;      /* of points of the first loop; 0: any number */
  Kernel *kernel;
  Schedule schedule;
  Emitted emitted;
  uint32_t named_from, named_to; /* sizes that its parameters are made of */
} Version;

typedef struct Versions {
  const DimVar *vars[16]; /* of the kernel */
  uint32_t var_count, count;
  bool here;                 /* they are for this machine alone */
  uint32_t slides;           /* which of them say how long windows are */
  Version at[VERSIONS_MOST]; /* in the order in which they are tried */
} Versions;

/* Whose axes may be put into another order. */
Kernel *kernel_copy(const Kernel *from);
/* Each of them scheduled and written, for registers of so many bytes; those
 * that do not pay are left out.  False: there is something in the kernel that
 * cannot be emitted. */
bool versions_write(const Kernel *k, uint32_t vector_bytes, bool here,
                    const char *number, Versions *out);

#endif
