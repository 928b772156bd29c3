/* Parts of an axis in which conditions on its index are known. */
#ifndef AXON_KERNEL_LOOP_PARTS_H
#define AXON_KERNEL_LOOP_PARTS_H

#include "kernel/trim_no_ops.h"

enum { MAX_LOOP_PARTS = 6, MAX_PART_OPS = 48 };

/* What a loop computes at the indices from .. to - 1 of an axis. */
typedef struct LoopPart {
  int64_t from, to;
  LoopNest *loop;
} LoopPart;

/* The parts of an axis of a loop without sums, in order.  Returns their number,
 * or 0 if there are fewer than two, or more than MAX_LOOP_PARTS. */
uint32_t loop_parts(Arena *arena, const LoopNest *loop, uint32_t axis,
                    LoopPart *parts);

/* ---- collapse_rows.c ---- */

/* The same loop with its last two axes collapsed, of which only conditions and
 * quotients tell the first one.  NULL: they cannot be collapsed. */
LoopNest *loop_collapse_rows(Arena *arena, const LoopNest *loop);

#endif
