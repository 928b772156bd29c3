/* How the tiles of a product are shared out: columns and rows of a unit.
 *
 * Each unit copies what it needs of an operand, so that wide units copy the
 * left side seldom and high ones the right side; all threads should have as
 * much to do, and there should be more units than threads, since a core may be
 * busy with something else.  No sum depends on any of it. */
#include "backend/cpu/gemm_tiling.h"
#include "runtime/thread_pool.h"

#include <math.h>

enum {
  MAX_TASK_COLUMNS = 1024,    /* columns of a unit, */
  MAX_PACKED_BYTES = 4 << 20, /* and bytes of these, copied, */
  ALWAYS_ALLOWED_PANELS = 4,  /* but so many panels at least may be one */
  ASSUMED_THREADS = 8,        /* for sizes that are not known */
};

/* Cycles, measured: */
static const double PACK_CYCLES = 0.5; /* of an element, */
static const double UNPACKED_CYCLES =
    0.03;                               /* or of one that is used as it lies */
static const double TASK_CYCLES = 2000; /* of a unit */
static const double SINGLE_TASK_IMBALANCE =
    0.04; /* part of the work, where each thread has but
             one unit: to wait for the last */

static double packing_cycles(OperandPacking packing) {
  return packing == OPERAND_UNPACKED ? UNPACKED_CYCLES : PACK_CYCLES;
}

static double estimate_cycles(const GemmPartition *g, const GemmTiling *t,
                              int64_t task_height, int64_t task_columns) {
  double rows = (double)task_height, columns = (double)task_columns;
  double depth = (double)g->depth;
  double tasks = g->batch * (double)ceil_div(g->m, task_height) *
                 (double)ceil_div(g->n, task_columns);
  double cycles_per_task =
      TASK_CYCLES + depth * (rows * columns / (2 * g->vector_lanes) +
                             columns * packing_cycles(t->b.packing) +
                             rows * packing_cycles(t->a.packing));
  return ceil(tasks / g->threads) * cycles_per_task *
         (1 + SINGLE_TASK_IMBALANCE * g->threads / tasks);
}

void gemm_partition_choose(GemmPartition *g, const GemmTiling *t,
                           bool symbolic) {
  int64_t columns = (int64_t)(t->nr_vectors * g->vector_lanes);
  int64_t max_panels =
      MAX_PACKED_BYTES / (t->pack_kc * g->element_bytes) / columns;
  max_panels =
      max_panels < ALWAYS_ALLOWED_PANELS ? ALWAYS_ALLOWED_PANELS : max_panels;
  max_panels = max_panels * columns > MAX_TASK_COLUMNS
                   ? MAX_TASK_COLUMNS / columns
                   : max_panels;
  g->threads = symbolic ? ASSUMED_THREADS : thread_pool_size();
  double min_cycles = -1;
  for (int64_t row_tasks = 1; row_tasks <= ceil_div(g->m, t->mr);
       row_tasks *= 2)
    for (int64_t panels = 1; panels <= max_panels; panels++) {
      int64_t task_height = round_up(ceil_div(g->m, row_tasks), t->mr);
      double cycles = estimate_cycles(g, t, task_height, panels * columns);
      if (min_cycles >= 0 && cycles >= min_cycles)
        continue;
      min_cycles = cycles;
      g->task_height = task_height;
      g->task_columns = panels * columns;
    }
}
