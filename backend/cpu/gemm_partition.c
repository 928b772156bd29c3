/* Partition of a matmul among threads: the rows and columns of one task.
 *
 * Each task packs its part of the operands.  Wide tasks pack the left operand
 * seldom, and tall tasks the right operand.  All threads should get the same
 * work.  There should be more tasks than threads, because another process may
 * occupy a core.  The partition changes no sum. */
#include "backend/cpu/gemm_tiling.h"
#include "machine/limits/cpu.h"
#include "runtime/thread_pool.h"

#include <math.h>

static double packing_cycles(OperandPacking packing) {
  return packing == OPERAND_UNPACKED ? UNPACKED_CYCLES : PACK_CYCLES;
}

static double estimate_cycles(const GemmPartition *g, const GemmTiling *t,
                              int64_t task_height, int64_t task_columns) {
  double rows = (double)task_height * g->sharing,
         columns = (double)task_columns;
  double depth = (double)g->depth;
  double tasks = g->batch / g->sharing * (double)ceil_div(g->m, task_height) *
                 (double)ceil_div(g->n, task_columns);
  double cycles_per_task =
      TASK_CYCLES + depth * (rows * columns / (2 * g->vector_lanes) +
                             columns * packing_cycles(t->b.packing) +
                             rows * packing_cycles(t->a.packing));
  return ceil(tasks / g->threads) * cycles_per_task *
         (1 + SINGLE_TASK_IMBALANCE * g->threads / tasks);
}

void gemm_partition_choose_rows(GemmPartition *g, const GemmTiling *t,
                                bool symbolic) {
  g->threads = symbolic ? ASSUMED_THREADS : thread_pool_size();
  g->task_columns = g->n;
  double min_cycles = HUGE_VAL;
  for (int64_t tasks = 1; tasks <= ceil_div(g->m, t->mr); tasks++) {
    int64_t task_height = ceil_div(g->m, tasks);
    double cycles = estimate_cycles(g, t, task_height, g->n);
    if (cycles >= min_cycles)
      continue;
    min_cycles = cycles;
    g->task_height = task_height;
  }
}

void gemm_partition_choose(GemmPartition *g, const GemmTiling *t,
                           bool symbolic) {
  int64_t columns = (int64_t)(t->nr_vectors * g->vector_lanes);
  int64_t max_panels =
      MAX_TASK_PACKED_BYTES / (t->pack_kc * g->element_bytes) / columns;
  max_panels = max_panels < MIN_TASK_PANELS ? MIN_TASK_PANELS : max_panels;
  max_panels = max_panels * columns > MAX_TASK_COLUMNS
                   ? MAX_TASK_COLUMNS / columns
                   : max_panels;
  g->threads = symbolic ? ASSUMED_THREADS : thread_pool_size();
  double min_cycles = -1;
  for (int64_t row_tasks = 1; row_tasks <= ceil_div(g->m, t->mr);
       row_tasks *= 2)
    for (int64_t panels = 1; panels <= max_panels; panels++) {
      int64_t task_height = round_up(ceil_div(g->m, row_tasks), t->mr),
              task_columns = panels * columns;
      if (g->set_height)
        task_height = g->set_height;
      if (g->set_columns)
        task_columns = g->set_columns;
      double cycles = estimate_cycles(g, t, task_height, task_columns);
      if (min_cycles >= 0 && cycles >= min_cycles)
        continue;
      min_cycles = cycles;
      g->task_height = task_height;
      g->task_columns = task_columns;
    }
}
