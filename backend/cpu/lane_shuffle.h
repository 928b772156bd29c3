/* backend/cpu: lanes of a flattened loop whose operands are loaded as vectors
 * and shuffled. */
#ifndef AXON_CPU_LANE_SHUFFLE_H
#define AXON_CPU_LANE_SHUFFLE_H

#include "backend/cpu/cpu.h"
#include "kernel/nest.h"

/* vectors that one shuffle reads */
enum { MAX_SHUFFLE_SOURCES = 2 };

/* Lane l of the flattened loop is iteration l of the loops over some axes, of
 * which the last one is the innermost. */
typedef struct LaneShuffle {
  const LoopNest *loop;
  uint32_t width, axis_count;
  uint32_t axes[MAX_KERNEL_AXES];
  int64_t extents[MAX_KERNEL_AXES];
} LaneShuffle;

/* The flattened loop of a nest. */
LaneShuffle lane_shuffle_of(const Nest *n, uint32_t width);
/* Number of lanes; of `count` iterations of the outermost axis: less. */
int64_t lane_shuffle_lanes(const LaneShuffle *f);
/* Number of elements from the first that a load reads to the last, in all
 * lanes and terms. */
int64_t lane_shuffle_span(const LaneShuffle *f, const KernelOp *load);
/* The element that a lane loads, relative to the first one; offset: that of the
 * term.  -1: there are fewer lanes. */
int64_t lane_shuffle_element(const LaneShuffle *f, const KernelOp *load,
                             int64_t offset, int64_t lane);
/* Finds the vectors that contain the elements of the lanes from number `first`
 * on.  Returns false if they are more than MAX_SHUFFLE_SOURCES. */
bool lane_shuffle_sources(const LaneShuffle *f, const KernelOp *load,
                          int64_t offset, int64_t first,
                          int64_t sources[MAX_SHUFFLE_SOURCES]);
/* Returns NULL, or the reason for which lanes cannot be shuffled. */
const char *lane_shuffle_refusal(const LaneShuffle *f);

#endif
