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
#ifndef AXON_CPU_VERSIONS_H
#define AXON_CPU_VERSIONS_H

#include "backend/cpu/cpu.h"

enum {
  VERSION_VARS = 3, /* of which each gets versions of its own */
  VERSIONS_MOST = 2 * VERSION_VARS + 7,
  WINDOW_ROOM = 16 << 20, /* bytes of scratch memory for a window */
};

typedef struct Version {
  uint32_t vars; /* a set of those of the kernel, each of which */
  int64_t most;  /* is at most that; 0: anything, */
  int64_t from;  /* and at least that, */
  int64_t guess; /* and is taken for that */
  bool window;   /* where the scratch memory is of this size, at most */
  bool small;    /* a product of a batch is so */
  double least;  /* of points of the first loop; 0: any number */
  bool narrow;   /* 31 bits hold its indices */
  Kernel *kernel;
  Schedule schedule;
  Emitted emitted;
  uint32_t named_from, named_to; /* sizes that its parameters are made of */
} Version;

typedef struct Versions {
  const DimVar *vars[16]; /* of the kernel */
  uint32_t var_count, count;
  bool here;                 /* they are for this machine alone */
  /* of indices that are values: the least and the most that they may be */
  VEC(int64_t) lows, highs;
  uint32_t slides;           /* a set: those that say how long windows are */
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
