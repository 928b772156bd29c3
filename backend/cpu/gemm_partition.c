/* Partition of a matmul among threads: the rows and columns of one task.
 *
 * Each task packs its part of the operands.  Wide tasks pack the left operand
 * seldom, and tall tasks the right operand.  All threads should get the same
 * work.  There should be more tasks than threads, because another process may
 * occupy a core.  The partition changes no sum. */
#include "backend/cpu/cost.h"
#include "machine/limits/cpu.h"
#include "runtime/thread_pool.h"

#include <math.h>

typedef struct PartitionSearch {
  const GemmTiling *tiling;
  const CoreRates *rates;
  double threads;
  double least;
  int64_t task_height, task_columns; /* of the best partition */
} PartitionSearch;

static PartitionSearch begin_search(const GemmTiling *t, bool symbolic) {
  return (PartitionSearch){
      .tiling = t,
      .rates = symbolic ? machine_reference_rates() : machine_core_rates(),
      .threads = symbolic ? ASSUMED_THREADS : thread_pool_size(),
      .least = HUGE_VAL};
}

static void try_partition(PartitionSearch *s, const GemmProblem *g) {
  GemmTiling t = *s->tiling;
  t.mc = ceil_div(g->task_height, ceil_div(g->task_height, MAX_MC));
  t.mc = round_up(t.mc, t.mr);
  CostCounts counts = {.type = core_type_of(t.element_dtype),
                       .tasks = gemm_task_count(g)};
  cost_add_gemm(&counts, &t, g, s->rates);
  double cost = cost_of_counts(&counts, s->rates, s->threads).total;
  if (cost >= s->least)
    return;
  s->least = cost;
  s->task_height = g->task_height;
  s->task_columns = g->task_columns;
}

void gemm_partition_choose_rows(GemmProblem *g, const GemmTiling *t,
                                bool symbolic) {
  PartitionSearch s = begin_search(t, symbolic);
  int64_t m = (int64_t)g->m, max = ceil_div(m, t->mr);
  g->task_columns = (int64_t)g->n;
  for (int64_t tasks = 1; tasks <= max; tasks += 1 + tasks / 64) {
    g->task_height = ceil_div(m, tasks);
    try_partition(&s, g);
  }
  g->task_height = s.task_height;
}

void gemm_partition_choose(GemmProblem *g, const GemmTiling *t, bool symbolic) {
  PartitionSearch s = begin_search(t, symbolic);
  int64_t width = (int64_t)((double)t->nr_vectors * g->lanes),
          set_height = g->task_height, set_columns = g->task_columns;
  int64_t max =
      MAX_TASK_PACKED_BYTES / (t->pack_kc * (int64_t)g->element_bytes) / width;
  max = max < MIN_TASK_PANELS ? MIN_TASK_PANELS : max;
  max = max * width > MAX_TASK_COLUMNS ? MAX_TASK_COLUMNS / width : max;
  int64_t m = (int64_t)g->m, rows = ceil_div(m, t->mr);
  for (int64_t parts = 1; parts <= rows; parts *= 2)
    for (int64_t panels = 1; panels <= max; panels++) {
      g->task_height =
          set_height ? set_height : round_up(ceil_div(m, parts), t->mr);
      g->task_columns = set_columns ? set_columns : panels * width;
      try_partition(&s, g);
      if (set_columns || panels * width >= (int64_t)g->n)
        break; /* wider tasks are the same */
    }
  g->task_height = s.task_height;
  g->task_columns = s.task_columns;
}
