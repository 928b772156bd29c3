/* Which products are read through a window, and how large that is. */
#include "backend/cpu/window.h"

#include "backend/cpu/emit.h"
#include "machine/machine.h"

#include <math.h>
#include <string.h>

enum { STEP_MOST = 8 }; /* of a window, where strides are open */

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

bool window_has_ratio(Graph *g, int64_t x, int64_t y, int64_t of_x,
                      int64_t of_y) {
  int64_t one, other;
  return size_mul(g, y, of_x, &one) && size_mul(g, x, of_y, &other) &&
         one == other;
}

bool window_ratio(Graph *g, int64_t x, int64_t y, int64_t *of_x,
                  int64_t *of_y) {
  *of_x = *of_y = 1;
  if (size_is_number(g, x) && size_is_number(g, y)) {
    int64_t by = gcd(x, y);
    *of_x = x / by;
    *of_y = y / by;
    return true;
  }
  for (int64_t n = -STEP_MOST; n <= STEP_MOST; n++) {
    if (n && window_has_ratio(g, x, y, n, 1))
      *of_x = n;
    else if (n && window_has_ratio(g, x, y, 1, n))
      *of_y = n;
    else
      continue;
    return true;
  }
  return false;
}

/* Are the multiples of v and k in the same ratio everywhere?  That of a form
 * that has them, of numbers if there is one. */
static bool go_together(const Loop *loop, uint32_t v, uint32_t k, int64_t *of_v,
                        int64_t *of_k) {
  Graph *g = loop->graph;
  *of_v = *of_k = 0;
  for (uint32_t numbers = 2; numbers-- > 0;)
    for (uint32_t j = 0; j < loop->steps.len && !*of_v; j++) {
      const Quasi *q = form_of(&loop->steps.at[j]);
      bool number =
          q && size_is_number(g, q->times[v]) && size_is_number(g, q->times[k]);
      if (q && q->times[v] && q->times[k] && number == (numbers > 0) &&
          !window_ratio(g, q->times[v], q->times[k], of_v, of_k))
        return false;
    }
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Quasi *q = form_of(&loop->steps.at[j]);
    if (!q || (!q->times[v] && !q->times[k]))
      continue;
    if (!q->times[v] || !q->times[k] ||
        !window_has_ratio(g, q->times[v], q->times[k], *of_v, *of_k))
      return false;
  }
  if (*of_v < 0) {
    *of_v = -*of_v;
    *of_k = -*of_k;
  }
  return *of_v > 0;
}

static int64_t number_or(const Loop *loop, uint32_t v, int64_t other) {
  int64_t x = loop->extents[v];
  return size_is_number(loop->graph, x) ? x : other;
}

/* Does k move the window by as much as one step of the axis, at least, and less
 * than the axis is long?  Else it is at other places altogether.  Where sizes
 * are open, windows are taken for short, and axes for long. */
static bool overlaps(const Loop *loop, uint32_t v, uint32_t k, int64_t of_v,
                     int64_t of_k) {
  int64_t far, range;
  return !__builtin_mul_overflow(of_k < 0 ? -of_k : of_k,
                                 number_or(loop, k, WINDOW_GUESS) - 1, &far) &&
         !__builtin_mul_overflow(of_v, number_or(loop, v, SIZE_MIDDLING),
                                 &range) &&
         far >= of_v && far < range;
}

bool window_slides(const Reach *r) {
  for (uint32_t k = 0; k < KERNEL_AXES; k++)
    if (r->by[k])
      return true;
  return false;
}

/* What the term adds to where the window lies; sign: -1, and it is taken away.
 */
static bool add_reach(const Loop *b, uint32_t k, Reach *r, int64_t sign) {
  Graph *g = b->graph;
  bool back = r->by[k] < 0;
  int64_t end, by = back ? -r->by[k] : r->by[k];
  return size_sub(g, b->extents[k], 1, &end) &&
         size_mul(g, end, by * sign, &end) &&
         size_add(g, r->span, end, &r->span) &&
         (!back || size_sub(g, r->low, end, &r->low));
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
    if (!add_reach(b, k, r, 1))
      return false;
  }
  return true;
}

/* A term that both coordinates could have: that in which it is the larger part.
 */
static bool part_terms(const Loop *b, Reach *row, Reach *column) {
  for (uint32_t k = b->kept; k < b->axes; k++) {
    if (!row->by[k] || !column->by[k])
      continue;
    int64_t x = row->by[k] < 0 ? -row->by[k] : row->by[k];
    int64_t y = column->by[k] < 0 ? -column->by[k] : column->by[k];
    Reach *less =
        (double)x * (double)column->step > (double)y * (double)row->step
            ? column
            : row;
    if (!add_reach(b, k, less, -1))
      return false;
    less->by[k] = 0;
  }
  return true;
}

/* ---- the loop of the copy ---- */

/* What a step of the coordinate is in a form; false: it is not told. */
static bool unit_of(const Loop *b, const Reach *r, int64_t times,
                    int64_t *unit) {
  int64_t back;
  return size_div(b->graph, times, r->step, unit) &&
         size_mul(b->graph, *unit, r->step, &back) && back == times;
}

/* The form with summed axes replaced: free ones numbered anew, and the others
 * by the coordinates, which begin at the lowest place that is read.  NULL: it
 * cannot be told. */
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
    int64_t unit, low;
    if (!unit_of(b, r, from->times[axes[c]], &unit) ||
        !size_mul(b->graph, unit, r->low, &low) ||
        !size_add(b->graph, q->constant, low, &q->constant))
      return NULL;
    q->times[w->loop->axes - 2 + c] = unit;
  }
  return q;
}

static bool take_steps(Arena *arena, const Loop *b, Window *w,
                       const uint32_t *place, const uint32_t *axes) {
  for (uint32_t j = 0; j < b->steps.len; j++) {
    Step s = b->steps.at[j];
    Quasi **form = s.kind == STEP_INDEX                          ? &s.index
                   : s.kind == STEP_READ || s.kind == STEP_LOCAL ? &s.address
                                                                 : NULL;
    if (form && !(*form = moved(arena, b, w, place, *form, axes)))
      return false;
    VEC_PUSH(arena, w->loop->steps, s);
  }
  return true;
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
  if (w->rows && !part_terms(b, &w->row, &w->column))
    return NULL;
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
      if (!size_mul(b->graph, w->planes, b->extents[k], &w->planes))
        return NULL;
    }
  }
  by_place(b, &w->row);
  by_place(b, &w->column);
  w->loop->axes += 2;
  if (w->loop->axes > KERNEL_AXES ||
      !size_mul(b->graph, w->planes, window_phases(w), &w->planes) ||
      !take_steps(arena, b, w, place, axes))
    return NULL;
  rims_bound(w, row, column);
  return w;
}

/* ---- sizes ---- */

int64_t window_phases(const Window *w) {
  return w->column.step * (w->rows ? w->row.step : 1);
}

/* Points of a coordinate that so many points of the axis take. */
static bool reached(Graph *g, const Reach *r, int64_t count, int64_t *out) {
  return size_sub(g, count, 1, out) && size_mul(g, *out, r->step, out) &&
         size_add(g, *out, r->span, out) && size_add(g, *out, 1, out);
}

/* Points that lie r->step apart. */
static bool stepped(Graph *g, const Reach *r, int64_t count, int64_t *out) {
  return size_div(g, r->span, r->step, out) && size_add(g, *out, count, out);
}

bool window_positions(const Window *w, int64_t rows, int64_t columns,
                      int64_t *out) {
  Graph *g = w->loop->graph;
  int64_t before, pitch;
  return stepped(g, &w->column, columns, &pitch) &&
         size_sub(g, rows, 1, &before) && size_mul(g, before, pitch, out) &&
         size_add(g, *out, columns, out);
}

bool window_size(Window *w, int64_t rows, int64_t columns, uint32_t width) {
  Graph *g = w->loop->graph;
  uint32_t last = w->loop->axes - 1;
  w->lines = w->loop->extents[last - 1] = 1;
  return stepped(g, &w->column, columns, &w->pitch) &&
         (!w->rows ||
          (stepped(g, &w->row, rows, &w->lines) &&
           reached(g, &w->row, rows, &w->loop->extents[last - 1]))) &&
         size_mul(g, w->lines, w->pitch, &w->plane) &&
         size_add(g, w->plane, width, &w->plane) &&
         reached(g, &w->column, columns, &w->loop->extents[last]);
}

/* ---- what a unit costs ---- */

enum {
  CACHE_BYTES = 768 << 10, /* of a unit, so that they stay in a cache */
  FILL_CYCLES = 8,         /* of a vector of the window, */
  LINE_CYCLES = 12,        /* and of each line */
  TURN_CYCLES = 6,         /* of a vector that is turned, with others */
  NEAR_BYTES = 32 << 10,   /* of the first cache; and from beyond it */
};

static const double FAR_CYCLES = 0.5; /* a vector more in each term */

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

/* Of numbers, which fit: the search is among small units. */
static int64_t positions(const Window *w, Size s) {
  int64_t out = 0;
  return window_positions(w, s.lines, s.columns, &out) ? out : INT64_MAX;
}

/* Of a term, whose vectors are those of a panel that this cache may not hold.
 */
static double term_cycles(const WindowWork *work, uint32_t rows,
                          uint32_t vectors) {
  double panel = (double)work->block_k * (double)work->bytes * vectors *
                 (double)work->width;
  return tile_cycles(rows, vectors) +
         (panel > NEAR_BYTES ? FAR_CYCLES * vectors : 0);
}

static double along_cycles(const Window *w, const WindowWork *work,
                           const WindowUnit *u, Size s) {
  int64_t vectors = divide_up(positions(w, s), work->width);
  uint32_t each = u->tile.vectors, left = (uint32_t)(vectors % each);
  double panels = (double)(vectors / each), depth = (double)work->depth;
  double term = panels * term_cycles(work, u->tile.rows, each) +
                (left ? term_cycles(work, u->tile.rows, left) : 0);
  double copies = depth * (panels + (left > 0)) * (2 * each + 2);
  double results = (double)s.height * (double)vectors *
                   (2 * depth / (double)work->block_k + 2);
  double rows = (double)divide_up(s.height, u->tile.rows);
  return rows * depth * term + copies + results;
}

/* Of a term in all tiles of a line.  Where the last one's rows are written out,
 * it has those alone that there are. */
static double line_cycles(const Window *w, const WindowWork *work,
                          const WindowUnit *u, int64_t columns) {
  uint32_t rows = u->tile.rows, vectors = u->tile.vectors;
  double whole = term_cycles(work, rows, vectors);
  uint32_t left = (uint32_t)(columns % rows);
  if (work->open)
    return (double)columns / rows * whole;
  if (left && w->rims.written)
    return (double)(columns / rows) * whole + term_cycles(work, left, vectors);
  return (double)divide_up(columns, rows) * whole;
}

static double across_cycles(const Window *w, const WindowWork *work,
                            const WindowUnit *u, Size s) {
  int64_t lanes = (int64_t)u->tile.vectors * work->width;
  double panels = (double)divide_up(s.height, lanes);
  double runs = (double)s.lines *
                (work->open ? (double)s.columns / u->tile.rows
                            : (double)divide_up(s.columns, u->tile.rows));
  double depth = (double)work->depth;
  double vectors = (double)s.height / work->width;
  double results = panels * runs * u->tile.rows * u->tile.vectors *
                   (2 * depth / (double)work->block_k + TURN_CYCLES);
  double tiles = panels * (double)s.lines * line_cycles(w, work, u, s.columns);
  return tiles * depth * w->rims.share + results +
         depth * vectors * (work->turned ? TURN_CYCLES : 2);
}

static double unit_bytes(const Window *w, const WindowWork *work,
                         const WindowUnit *u, Size s) {
  double places = (double)positions(w, s);
  double panel = (double)u->tile.vectors * work->width;
  double elements = (double)w->planes * (double)w->plane +
                    (double)s.height * places + (double)work->block_k * panel;
  return (double)work->bytes * (elements + (u->across ? places * panel : 0));
}

static double unit_cycles(const Window *w, const WindowWork *work,
                          const WindowUnit *u, Size s) {
  double slow = unit_bytes(w, work, u, s) > CACHE_BYTES ? 1.2 : 1;
  double cycles =
      u->across ? across_cycles(w, work, u, s) : along_cycles(w, work, u, s);
  return (cycles + fill_cycles(w, work, s.lines, s.columns)) * slow;
}

/* What threads wait for each other at the end: of units that take as long as
 * each other, and a little in any case. */
static double waiting(double units) {
  double cores = machine()->cores;
  return ceil(units / cores) * cores / units + 0.02 * cores / units;
}

/* The window where sizes are what they may be like. */
static Window guessed(const Window *from, Loop *loop) {
  const Graph *g = from->loop->graph;
  Window w = *from;
  *loop = *from->loop;
  w.loop = loop;
  for (uint32_t v = 0; v < loop->axes; v++)
    loop->extents[v] = size_guess(g, loop->extents[v]);
  w.row.span = size_guess(g, w.row.span);
  w.column.span = size_guess(g, w.column.span);
  w.planes = size_guess(g, w.planes);
  return w;
}

double window_cost(const Window *from, const WindowWork *work,
                   const WindowUnit *u) {
  Loop loop;
  Window w = guessed(from, &loop);
  if (!window_size(&w, u->strip, u->block, work->width))
    return HUGE_VAL;
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
