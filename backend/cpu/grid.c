/* How the tiles of a product are shared out: columns and rows of a unit.
 *
 * Each unit copies what it needs of an operand, so that wide units copy the
 * left side seldom and high ones the right side; all threads should have as
 * much to do, and there should be more units than threads, since a core may be
 * busy with something else.  No sum depends on any of it. */
#include "backend/cpu/tiling.h"
#include "runtime/pool.h"

#include <math.h>

enum {
  BLOCK_MOST = 1024,     /* columns of a unit, */
  PANEL_BYTES = 4 << 20, /* and bytes of these, copied, */
  PANELS = 4,            /* but so many panels at least may be one */
  OPEN_THREADS = 8,      /* for sizes that are not known */
};

/* Cycles, measured: */
static const double COPIED = 0.5; /* of an element, */
static const double READ = 0.03;  /* or of one that is used as it lies */
static const double BEGUN = 2000; /* of a unit */
static const double ALONE = 0.04; /* part of the work, where each thread has but
                                     one unit: to wait for the last */

static double copying(OperandForm form) {
  return form == OPERAND_PLAIN ? READ : COPIED;
}

static double time_of(const Grid *g, const Tile *t, int64_t height,
                      int64_t block) {
  double rows = (double)height, columns = (double)block;
  double depth = (double)g->depth;
  double units = g->others * (double)divide_up(g->m, height) *
                 (double)divide_up(g->n, block);
  double each = BEGUN + depth * (rows * columns / (2 * g->width) +
                                 columns * copying(t->b.form) +
                                 rows * copying(t->a.form));
  return ceil(units / g->threads) * each * (1 + ALONE * g->threads / units);
}

void grid_choose(Grid *g, const Tile *t, bool open) {
  int64_t columns = (int64_t)(t->vectors * g->width);
  int64_t most = PANEL_BYTES / (t->pack_k * g->bytes) / columns;
  most = most < PANELS ? PANELS : most;
  most = most * columns > BLOCK_MOST ? BLOCK_MOST / columns : most;
  g->threads = open ? OPEN_THREADS : pool_threads();
  double least = -1;
  for (int64_t bands = 1; bands <= divide_up(g->m, t->rows); bands *= 2)
    for (int64_t panels = 1; panels <= most; panels++) {
      int64_t height = round_up(divide_up(g->m, bands), t->rows);
      double time = time_of(g, t, height, panels * columns);
      if (least >= 0 && time >= least)
        continue;
      least = time;
      g->height = height;
      g->block = panels * columns;
    }
}
