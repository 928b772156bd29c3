/* Which products are read through a window, and how large that is. */
#include "backend/cpu/window.h"

#include "backend/cpu/emit.h"
#include "machine/machine.h"

#include <math.h>
#include <string.h>

static int64_t gcd(int64_t x, int64_t y) {
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x < 0 ? -x : x;
}

/* ---- forms ---- */

static Quasi *form_of(const Step *s) {
  return s->kind == STEP_INDEX                           ? s->index
         : s->kind == STEP_READ || s->kind == STEP_LOCAL ? s->address
                                                         : NULL;
}

static bool is_in_quotient(const Loop *loop, uint32_t v) {
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    if (loop->quotients[j].of.times[v])
      return true;
  return false;
}

/* Are the multiples of v and k in the same ratio everywhere?  That of the first
 * form that has them. */
static bool go_together(const Loop *loop, uint32_t v, uint32_t k, int64_t *of_v,
                        int64_t *of_k) {
  *of_v = *of_k = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Quasi *q = form_of(&loop->steps.at[j]);
    if (!q || (!q->times[v] && !q->times[k]))
      continue;
    if (!q->times[v] || !q->times[k])
      return false;
    if (!*of_v) {
      int64_t by = gcd(q->times[v], q->times[k]);
      *of_v = q->times[v] / by;
      *of_k = q->times[k] / by;
    }
    int64_t x, y;
    if (__builtin_mul_overflow(q->times[k], *of_v, &x) ||
        __builtin_mul_overflow(q->times[v], *of_k, &y) || x != y)
      return false;
  }
  if (*of_v < 0) {
    *of_v = -*of_v;
    *of_k = -*of_k;
  }
  return *of_v > 0;
}

/* Does k move the window by as much as one step of the axis, at least, and less
 * than the axis is long?  Else it is at other places altogether. */
static bool overlaps(const Loop *loop, uint32_t v, uint32_t k, int64_t of_v,
                     int64_t of_k) {
  int64_t far, range;
  return !__builtin_mul_overflow(of_k < 0 ? -of_k : of_k, loop->extents[k] - 1,
                                 &far) &&
         !__builtin_mul_overflow(of_v, loop->extents[v], &range) &&
         far >= of_v && far < range;
}

bool window_slides(const Reach *r) {
  for (uint32_t k = 0; k < KERNEL_AXES; k++)
    if (r->by[k])
      return true;
  return false;
}

bool window_reach(const Loop *b, uint32_t axis, Reach *r) {
  int64_t steps[KERNEL_AXES] = {0};
  *r = (Reach){.step = 1};
  if (is_in_quotient(b, axis))
    return false;
  for (uint32_t k = b->kept; k < b->axes; k++) {
    int64_t of_k;
    if (is_in_quotient(b, k))
      return false;
    if (!go_together(b, axis, k, &steps[k], &of_k) ||
        !overlaps(b, axis, k, steps[k], of_k))
      continue;
    r->by[k] = of_k;
    if (__builtin_mul_overflow(r->step / gcd(r->step, steps[k]), steps[k],
                               &r->step))
      return false;
  }
  for (uint32_t k = b->kept; k < b->axes; k++) {
    if (!r->by[k])
      continue;
    r->by[k] *= r->step / steps[k];
    int64_t end = r->by[k] * (b->extents[k] - 1);
    r->low += end < 0 ? end : 0;
    r->span += end < 0 ? -end : end;
  }
  return true;
}

/* A term that both coordinates could have: that in which it is the larger part.
 */
static void part_terms(const Loop *b, Reach *row, Reach *column) {
  for (uint32_t k = b->kept; k < b->axes; k++) {
    if (!row->by[k] || !column->by[k])
      continue;
    int64_t x = row->by[k] < 0 ? -row->by[k] : row->by[k];
    int64_t y = column->by[k] < 0 ? -column->by[k] : column->by[k];
    Reach *less =
        (double)x * (double)column->step > (double)y * (double)row->step
            ? column
            : row;
    int64_t end = less->by[k] * (b->extents[k] - 1);
    less->low -= end < 0 ? end : 0;
    less->span -= end < 0 ? -end : end;
    less->by[k] = 0;
  }
}

/* ---- the loop of the copy ---- */

/* The form with summed axes replaced: free ones numbered anew, and the others
 * by the coordinates, which begin at the lowest place that is read. */
static Quasi *moved(Arena *arena, const Loop *b, const Window *w,
                    const uint32_t *place, const Quasi *from,
                    const uint32_t *axes) {
  Quasi *q = quasi_copy(arena, from);
  for (uint32_t k = b->kept; k < b->axes; k++)
    q->times[k] = 0;
  for (uint32_t k = b->kept; k < b->axes; k++)
    if (place[k] != UINT32_MAX)
      q->times[place[k]] = from->times[k];
  for (uint32_t c = w->rows ? 0 : 1; c < 2; c++) {
    const Reach *r = c ? &w->column : &w->row;
    int64_t unit = from->times[axes[c]] / r->step;
    q->times[w->loop->axes - 2 + c] = unit;
    q->constant += unit * r->low;
  }
  return q;
}

static void take_steps(Arena *arena, const Loop *b, Window *w,
                       const uint32_t *place, const uint32_t *axes) {
  for (uint32_t j = 0; j < b->steps.len; j++) {
    Step s = b->steps.at[j];
    if (s.kind == STEP_INDEX)
      s.index = moved(arena, b, w, place, s.index, axes);
    else if (s.kind == STEP_READ || s.kind == STEP_LOCAL)
      s.address = moved(arena, b, w, place, s.address, axes);
    VEC_PUSH(arena, w->loop->steps, s);
  }
}

/* Multiples by place in the sum, not by variable. */
static void by_place(const Loop *b, Reach *r) {
  int64_t by[KERNEL_AXES] = {0};
  memcpy(by, r->by + b->kept, (b->axes - b->kept) * sizeof *by);
  memcpy(r->by, by, sizeof by);
}

Window *window_new(Arena *arena, const Loop *b, uint32_t row, uint32_t column) {
  Window *w = NEW(arena, Window);
  uint32_t place[KERNEL_AXES], axes[2] = {row, column};
  w->rows = row != NO_LANE;
  if (!window_reach(b, column, &w->column) ||
      (w->rows && !window_reach(b, row, &w->row)))
    return NULL;
  if (w->rows)
    part_terms(b, &w->row, &w->column);
  w->loop = NEW(arena, Loop);
  *w->loop = *b;
  memset(&w->loop->steps, 0, sizeof w->loop->steps);
  w->loop->axes = b->kept;
  w->planes = 1;
  for (uint32_t k = b->kept; k < b->axes; k++) {
    w->extents[w->terms] = b->extents[k];
    w->free[w->terms] = !w->row.by[k] && !w->column.by[k];
    place[k] = w->free[w->terms] ? w->loop->axes : UINT32_MAX;
    if (w->free[w->terms++]) {
      w->loop->extents[w->loop->axes++] = b->extents[k];
      w->planes *= b->extents[k];
    }
  }
  by_place(b, &w->row);
  by_place(b, &w->column);
  w->planes *= w->column.step * (w->rows ? w->row.step : 1);
  w->loop->axes += 2;
  if (w->loop->axes > KERNEL_AXES)
    return NULL;
  take_steps(arena, b, w, place, axes);
  return w;
}

/* ---- sizes ---- */

static int64_t pitch_of(const Window *w, int64_t columns) {
  return columns + w->column.span / w->column.step;
}

int64_t window_positions(const Window *w, int64_t rows, int64_t columns) {
  return (rows - 1) * pitch_of(w, columns) + columns;
}

void window_size(Window *w, int64_t rows, int64_t columns, uint32_t width) {
  w->pitch = pitch_of(w, columns);
  w->lines = w->rows ? rows + w->row.span / w->row.step : 1;
  w->plane = w->lines * w->pitch + width;
  uint32_t last = w->loop->axes - 1;
  w->loop->extents[last] = (columns - 1) * w->column.step + w->column.span + 1;
  w->loop->extents[last - 1] =
      w->rows ? (rows - 1) * w->row.step + w->row.span + 1 : 1;
}

/* ---- what a unit costs ---- */

enum {
  CACHE_BYTES = 768 << 10, /* of a unit, so that they stay in a cache */
  FILL_CYCLES = 8,         /* of a vector of the window, */
  LINE_CYCLES = 12,        /* and of each line */
  TURN_CYCLES = 6,         /* of a vector that is turned, with others */
};

/* Of a term of a tile: two products or two loads at a time, and sums that wait
 * for themselves. */
static double tile_cycles(uint32_t rows, uint32_t vectors) {
  double products = rows * vectors / 2.0, loads = (rows + vectors) / 2.0;
  double cycles = (products > loads ? products : loads) + loads / 10;
  return cycles > 4 ? cycles : 4;
}

static double fill_cycles(const Window *w, const WindowWork *work,
                          int64_t lines, int64_t columns) {
  const Loop *loop = w->loop;
  int64_t filled = (columns - 1) * w->column.step + w->column.span + 1;
  double vectors = (double)divide_up(filled, work->width);
  double cycles = LINE_CYCLES + FILL_CYCLES * vectors;
  for (uint32_t v = loop->kept; v + 2 < loop->axes; v++)
    cycles *= (double)loop->extents[v];
  return w->rows
             ? cycles * (double)((lines - 1) * w->row.step + w->row.span + 1)
             : cycles;
}

typedef struct Size { /* of a unit */
  int64_t height, lines, columns;
} Size;

static double along_cycles(const Window *w, const WindowWork *work,
                           const WindowUnit *u, Size s) {
  int64_t vectors =
      divide_up(window_positions(w, s.lines, s.columns), work->width);
  uint32_t each = u->tile.vectors, left = (uint32_t)(vectors % each);
  double panels = (double)(vectors / each), depth = (double)work->depth;
  double term = panels * tile_cycles(u->tile.rows, each) +
                (left ? tile_cycles(u->tile.rows, left) : 0);
  double copies = depth * (panels + (left > 0)) * (2 * each + 2);
  double results = (double)s.height * (double)vectors *
                   (2 * depth / (double)work->block_k + 2);
  double rows = (double)divide_up(s.height, u->tile.rows);
  return rows * depth * term + copies + results;
}

static double across_cycles(const WindowWork *work, const WindowUnit *u,
                            Size s) {
  int64_t lanes = (int64_t)u->tile.vectors * work->width;
  double panels = (double)divide_up(s.height, lanes);
  double runs = (double)s.lines * (double)divide_up(s.columns, u->tile.rows);
  double depth = (double)work->depth;
  double vectors = (double)s.height / work->width;
  double tiles = panels * runs;
  double results = tiles * u->tile.rows * u->tile.vectors *
                   (2 * depth / (double)work->block_k + TURN_CYCLES);
  return tiles * depth * tile_cycles(u->tile.rows, u->tile.vectors) + results +
         depth * vectors * (work->turned ? TURN_CYCLES : 2);
}

static double unit_bytes(const Window *w, const WindowWork *work,
                         const WindowUnit *u, Size s) {
  double places = (double)window_positions(w, s.lines, s.columns);
  double panel = (double)u->tile.vectors * work->width;
  double elements = (double)w->planes * (double)w->plane +
                    (double)s.height * places + (double)work->block_k * panel;
  return (double)work->bytes * (elements + (u->across ? places * panel : 0));
}

static double unit_cycles(const Window *w, const WindowWork *work,
                          const WindowUnit *u, Size s) {
  double slow = unit_bytes(w, work, u, s) > CACHE_BYTES ? 1.2 : 1;
  double cycles =
      u->across ? across_cycles(work, u, s) : along_cycles(w, work, u, s);
  return (cycles + fill_cycles(w, work, s.lines, s.columns)) * slow;
}

/* What threads wait for each other at the end: of units that take as long as
 * each other, and a little in any case. */
static double waiting(double units) {
  double cores = machine()->cores;
  return ceil(units / cores) * cores / units + 0.02 * cores / units;
}

double window_cost(const Window *from, const WindowWork *work,
                   const WindowUnit *u) {
  Window w = *from;
  Loop loop = *from->loop;
  w.loop = &loop;
  window_size(&w, u->strip, u->block, work->width);
  if ((double)w.planes * (double)w.plane * (double)work->bytes > WINDOW_BYTES)
    return HUGE_VAL;
  const int64_t sizes[3][2] = {{work->rows, u->height},
                               {work->lines, u->strip},
                               {work->columns, u->block}};
  double cycles = 0, units = 0;
  for (uint32_t which = 0; which < 8; which++) { /* whole ones, and the rests */
    int64_t size[3];
    double count = 1;
    for (uint32_t k = 0; k < 3; k++) {
      bool rest = which >> k & 1;
      size[k] = rest ? sizes[k][0] % sizes[k][1] : sizes[k][1];
      count *= rest ? size[k] != 0 : (double)(sizes[k][0] / sizes[k][1]);
    }
    if (count > 0)
      cycles +=
          count * unit_cycles(&w, work, u, (Size){size[0], size[1], size[2]});
    units += count;
  }
  return cycles * waiting(units * work->others);
}
