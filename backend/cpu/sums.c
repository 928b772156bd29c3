/* Sums, or maxima, of few terms: windows of poolings and stencils.  The terms
 * are written out, and what is summed up stays in registers.  To find out which
 * unit it is takes as long as to work on a row, so a unit has several; so it
 * does where nothing is summed up, but rows are short. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/window.h"

enum {
  FEW_TERMS = 32,         /* at most; */
  WINDOW_TERMS = 256,     /* of windows that overlap: they go in loops */
  UNITS = 64,             /* that are wanted at least, */
  ROWS_LEAST = 4,         /* of so many rows, */
  COLUMNS_MOST = 1024,    /* and of so many columns at most */
  COLUMNS_SHORT = 512,    /* of a row without sums */
  LOCAL_BYTES = 16 << 10, /* what they leave for each other */
};

/* Rows that data name are asked for ahead (fetch.c), term by term. */
static bool is_gathered(const Loop *loop) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    for (uint32_t i = 0; s->kind == STEP_READ && i < s->index_count; i++)
      if (loop->steps.at[s->indices[i].step].kind != STEP_INDEX)
        return true;
  }
  return false;
}

/* Does an operand slide along an axis of the result, so that neighbours read
 * the same? */
static bool slides(const Loop *loop, uint32_t axis, uint32_t term) {
  int64_t step, by;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    bool reads = s->kind == STEP_READ || s->kind == STEP_LOCAL;
    const Quasi *q = s->kind == STEP_INDEX ? s->index : s->address;
    if ((s->kind != STEP_INDEX && !reads) || !q->times[axis] ||
        !q->times[term] ||
        !window_ratio(loop->graph, q->times[axis], q->times[term], &step, &by))
      continue;
    step = step < 0 ? -step : step;
    by = by < 0 ? -by : by;
    if (by * (loop_guess(loop, term) - 1) >= step &&
        by < step * loop_guess(loop, axis))
      return true;
  }
  return false;
}

static bool is_window(const Loop *loop) {
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    for (uint32_t axis = 0; axis < loop->kept; axis++)
      if (slides(loop, axis, v))
        return true;
  return false;
}

bool sums_are_short(const Loop *loop) {
  double terms = loop_points(loop, loop->kept, loop->axes);
  for (uint32_t j = 0; j < loop->results.len; j++) {
    PrimId op = loop->results.at[j].reduce;
    if (op == PRIM_NONE || op == PRIM_ARGMAX || op == PRIM_ARGMIN)
      return false;
  }
  return loop->axes > loop->kept && terms >= 1 &&
         (terms <= FEW_TERMS || (terms <= WINDOW_TERMS && is_window(loop))) &&
         !is_gathered(loop);
}

bool sums_choose(const Kernel *k, Schedule *s) {
  bool any = false;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    bool sums = sums_are_short(loop);
    if (loop->kept > loop->outer || (!sums && loop->axes > loop->outer))
      return false;
    any |= sums;
  }
  if (k->outer < 2)
    return false;
  const Loop *loop = k->loops.at[0];
  int64_t columns = loop_guess(loop, k->outer - 1);
  if (!any && columns > COLUMNS_SHORT)
    return false;
  int64_t rows = loop_guess(loop, k->outer - 2);
  double others = loop_points(loop, 0, k->outer - 2);
  int64_t block = columns < COLUMNS_MOST ? columns : COLUMNS_MOST;
  block = divide_up(block, s->width) * s->width;
  double local = kernel_local_bytes(k, true) * (double)block;
  double units = others * (double)divide_up(columns, block);
  int64_t height = rows;
  while (height > ROWS_LEAST &&
         (units * (double)divide_up(rows, height) < UNITS ||
          local * (double)height > LOCAL_BYTES))
    height = divide_up(height, 2);
  s->shape = UNIT_TILE;
  s->block = block;
  s->height = height;
  return true;
}
