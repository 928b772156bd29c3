/* Zeros around what a window is read from, as padding puts them there: terms
 * that would multiply nothing but these are left out.
 *
 * A line near the top or the bottom of an image goes without those terms that
 * lie above or below it, a few times in a row in each *group* of terms.  The
 * first and the last tile of a line are functions of their own: in these the
 * terms of a column are written out, each with the rows that it reaches the
 * image from. */
#include "backend/cpu/window.h"

#include "backend/cpu/tiling.h"
#include "tensor/limit.h"

/* ---- where the zeros are ---- */

/* The condition under which the value is other than zero; false: none is
 * known. */
static bool condition_of(const Loop *loop, uint32_t at, uint32_t *condition) {
  const Step *s = &loop->steps.at[at];
  while (s->kind == STEP_CONVERT)
    s = &loop->steps.at[s->args[0]];
  if (s->kind != STEP_SELECT)
    return false;
  const Step *other = &loop->steps.at[s->args[2]];
  *condition = s->args[0];
  if (other->kind == STEP_INDEX)
    return other->low == 0 && other->high == 0;
  return other->kind == STEP_CONST &&
         (dtype_is_float(other->dtype) ? other->value.f == 0
                                       : other->value.i == 0);
}

static int64_t floor_of(int64_t x, int64_t by) {
  return x / by - (x % by < 0);
}

/* What `form >= 0` says of the coordinate that an outer axis and the loop's own
 * make up. */
static void bound(const Quasi *form, uint32_t axis, uint32_t own, Reach *r) {
  int64_t step = form->times[own], whole;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (form->times[v] && v != axis && v != own)
      return;
  if (!step || step <= INT32_MIN || form->constant <= INT32_MIN ||
      form->constant > INT32_MAX ||
      __builtin_mul_overflow(step, r->step, &whole) ||
      form->times[axis] != whole)
    return;
  int64_t from = -floor_of(form->constant, step > 0 ? step : -step);
  int64_t to = step > 0 ? 0 : floor_of(form->constant, -step) + 1;
  if (step > 0 && from > r->from)
    r->from = from;
  if (step < 0 && to < r->to)
    r->to = to;
}

/* All that has to hold.  Recursion is as deep as a body, which the planner
 * bounds. */
static void bound_all(const Loop *loop, uint32_t at, uint32_t axis,
                      uint32_t own, Reach *r) {
  const Step *s = &loop->steps.at[at];
  Quasi forms[2];
  if (s->kind == STEP_OP && s->op == PRIM_AND) {
    bound_all(loop, s->args[0], axis, own, r);
    bound_all(loop, s->args[1], axis, own, r);
    return;
  }
  uint32_t count = limit_forms(loop, s, true, forms);
  for (uint32_t j = 0; j < count; j++)
    bound(&forms[j], axis, own, r);
}

/* The one term that moves the coordinate, forwards; false: none or others. */
static bool moving_term(const Window *w, Reach *r) {
  uint32_t found = 0;
  for (uint32_t k = 0; k < w->terms; k++)
    if (r->by[k]) {
      r->term = k;
      found++;
    }
  return found == 1 && r->by[r->term] > 0;
}

void rims_bound(Window *w, uint32_t row, uint32_t column) {
  const Loop *loop = w->loop;
  uint32_t condition, last = loop->axes - 1;
  if (loop_is_open(loop) ||
      !condition_of(loop, loop->results.at[0].step, &condition))
    return;
  for (uint32_t c = w->rows ? 0 : 1; c < 2; c++) {
    Reach *r = c ? &w->column : &w->row;
    r->from = INT32_MIN;
    r->to = INT32_MAX;
    bound_all(loop, condition, c ? column : row, last - 1 + c, r);
    r->rimmed = r->from < r->to && moving_term(w, r);
  }
}

/* ---- what is left out ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* Of `count` points from one on: those where term k is within the rim. */
static void reach_inside(const Reach *r, int64_t k, int64_t point,
                         int64_t count, int64_t *from, int64_t *to) {
  int64_t at = r->step * point + r->by[r->term] * k - r->low;
  *from = clamp(-floor_of(at - r->from, r->step), 0, count);
  *to = clamp(-floor_of(at - r->to, r->step), *from, count);
}

/* How many of all terms of the coordinate are within. */
static double share_of(const Window *w, const Reach *r, int64_t points) {
  int64_t terms = w->extents[r->term], inside = 0, from, to;
  for (int64_t k = 0; k < terms; k++) {
    reach_inside(r, k, 0, points, &from, &to);
    inside += to - from;
  }
  return (double)inside / ((double)points * (double)terms);
}

static int64_t terms_from(const Window *w, uint32_t first) {
  int64_t terms = 1;
  for (uint32_t k = first; k < w->terms; k++)
    if (__builtin_mul_overflow(terms, w->extents[k], &terms))
      return INT64_MAX;
  return terms;
}

void rims_find(Window *w, int64_t lines, int64_t columns) {
  const Reach *row = &w->row, *column = &w->column;
  Rims *to = &w->rims;
  *to = (Rims){.share = 1};
  double share = row->rimmed ? share_of(w, row, lines) : 1;
  int64_t group = row->rimmed ? terms_from(w, row->term) : INT64_MAX;
  if (share < 1 && group <= BLOCK_K_MOST) {
    to->group = group;
    to->row = terms_from(w, row->term + 1);
    to->share = share;
  }
  share = column->rimmed ? share_of(w, column, columns) : 1;
  if (share < 1 && column->term + 1 == w->terms &&
      w->extents[column->term] <= RIM_TERMS) {
    to->written = (uint32_t)w->extents[column->term];
    to->group = to->group ? to->group : to->written;
    to->share *= share;
  }
}

/* A tile of so many rows from a column on. */
static void add_end(Window *w, int64_t at, int64_t rows, int64_t columns) {
  Rims *r = &w->rims;
  LineEnd *end = &r->ends[r->end_count];
  int64_t there = columns - at < rows ? columns - at : rows, from, to, all = 0;
  end->at = at;
  for (uint32_t k = 0; k < r->written; k++) {
    reach_inside(&w->column, k, at, there, &from, &to);
    end->from[k] = (uint8_t)from;
    end->to[k] = (uint8_t)to;
    all += to - from;
  }
  r->end_count += all < rows * r->written;
}

void rims_choose_ends(Window *w, int64_t columns, int64_t block, int64_t rows) {
  int64_t before = (columns - 1) / block * block;
  int64_t last = before + (columns - 1 - before) / rows * rows;
  w->rims.end_count = 0;
  if (!w->rims.written)
    return;
  add_end(w, 0, rows, columns);
  if (last > 0)
    add_end(w, last, rows, columns);
}
