/* Plots: fits the axes, chooses ticks at round numbers, and draws on a grid of
   dots.  A terminal shows the grid as braille characters of eight dots each.
   Main entry points: plot_fit, plot_draw and plot_render. */
#include "cli/show.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- axes ---- */

static void extend_range(double *low, double *high, double v) {
  if (isfinite(v)) {
    *low = fmin(*low, v);
    *high = fmax(*high, v);
  }
}

static void ensure_nonempty(double *low, double *high) {
  if (*low > *high)
    *low = 0, *high = 1;
  if (*low == *high) {
    double half = *low == 0 ? 1 : fabs(*low) / 2;
    *low -= half, *high += half;
  }
}

void plot_fit(Plot *p) {
  p->left = p->bottom = INFINITY;
  p->right = p->top = -INFINITY;
  for (uint32_t i = 0; i < p->count; i++) {
    extend_range(&p->left, &p->right, p->x[i]);
    extend_range(&p->bottom, &p->top, p->y[i]);
  }
  if (p->kind == PLOT_BAR) {
    extend_range(&p->bottom, &p->top, 0);
    p->left -= 0.5, p->right += 0.5;
  }
  ensure_nonempty(&p->left, &p->right);
  ensure_nonempty(&p->bottom, &p->top);
}

/* The smallest of 1, 2, 5 times a power of ten that gives at most `max`
   steps. */
static double round_step(double range, uint32_t max) {
  double power = pow(10, floor(log10(range / max)));
  static const double factors[] = {1, 2, 5, 10, 20};
  for (size_t i = 0; i < ARRAY_LEN(factors); i++)
    if (range / (factors[i] * power) <= max)
      return factors[i] * power;
  return 50 * power;
}

static void ticks(double low, double high, double step, Ticks *out) {
  int digits = (int)fmax(0, -floor(log10(step) + 1e-9));
  double largest = fmax(fabs(low), fabs(high));
  bool plain = digits <= 6 && largest < 1e7;
  out->count = 0;
  for (double k = ceil(low / step - 1e-9);
       k * step <= high + 1e-9 * step && out->count < MAX_TICKS; k++) {
    double v = k == 0 ? 0 : k * step;
    char *text = out->text[out->count];
    if (plain)
      snprintf(text, sizeof out->text[0], "%.*f", digits, v);
    else
      snprintf(text, sizeof out->text[0], "%.3g", v);
    out->at[out->count++] = v;
  }
}

void plot_y_ticks(const Plot *p, uint32_t max, Ticks *out) {
  ticks(p->bottom, p->top, round_step(p->top - p->bottom, max), out);
}

/* Ticks of bars are at integers. */
void plot_x_ticks(const Plot *p, uint32_t max, Ticks *out) {
  double step = round_step(p->right - p->left, max ? max : 1);
  ticks(p->left, p->right, p->kind == PLOT_BAR ? fmax(1, step) : step, out);
}

/* ---- drawing ---- */

typedef struct Grid {
  const Plot *plot;
  int width, height;
  void (*dot)(void *owner, int x, int y);
  void *owner;
} Grid;

static int clamp_round(double v, int max) {
  return v < -1 ? -1 : v > max + 1 ? max + 1 : (int)lround(v);
}

static int grid_x(const Grid *g, double x) {
  const Plot *p = g->plot;
  return clamp_round((x - p->left) / (p->right - p->left) * (g->width - 1),
                     g->width);
}

static int grid_y(const Grid *g, double y) {
  const Plot *p = g->plot;
  return clamp_round((p->top - y) / (p->top - p->bottom) * (g->height - 1),
                     g->height);
}

/* Bresenham's line algorithm. */
static void draw_segment(const Grid *g, int x0, int y0, int x1, int y1) {
  int dx = abs(x1 - x0), dy = -abs(y1 - y0), error = dx + dy;
  int sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1;
  for (;;) {
    g->dot(g->owner, x0, y0);
    if (x0 == x1 && y0 == y1)
      return;
    int twice = 2 * error;
    if (twice >= dy)
      error += dy, x0 += sx;
    if (twice <= dx)
      error += dx, y0 += sy;
  }
}

static bool finite_at(const Plot *p, uint32_t i) {
  return isfinite(p->x[i]) && isfinite(p->y[i]);
}

/* NaN leaves a gap. */
static void draw_line(const Grid *g) {
  const Plot *p = g->plot;
  for (uint32_t i = 0; i < p->count; i++) {
    if (!finite_at(p, i))
      continue;
    int x = grid_x(g, p->x[i]), y = grid_y(g, p->y[i]);
    if (i + 1 < p->count && finite_at(p, i + 1))
      draw_segment(g, x, y, grid_x(g, p->x[i + 1]), grid_y(g, p->y[i + 1]));
    else
      g->dot(g->owner, x, y);
  }
}

static void draw_bars(const Grid *g) {
  const Plot *p = g->plot;
  int base = grid_y(g, 0);
  for (uint32_t i = 0; i < p->count; i++) {
    if (!finite_at(p, i))
      continue;
    int from = grid_x(g, p->x[i] - 0.4), to = grid_x(g, p->x[i] + 0.4);
    int y = grid_y(g, p->y[i]);
    for (int x = from; x <= (to > from ? to - 1 : to); x++)
      draw_segment(g, x, y, x, base);
  }
}

void plot_draw(const Plot *plot, int width, int height,
               void (*dot)(void *owner, int x, int y), void *owner) {
  Grid g = {plot, width, height, dot, owner};
  switch (plot->kind) {
  case PLOT_LINE:
    draw_line(&g);
    break;
  case PLOT_BAR:
    draw_bars(&g);
    break;
  case PLOT_SCATTER:
    for (uint32_t i = 0; i < plot->count; i++)
      if (finite_at(plot, i))
        dot(owner, grid_x(&g, plot->x[i]), grid_y(&g, plot->y[i]));
    break;
  }
}

/* ---- on a terminal ---- */

enum { PLOT_ROWS = 16, MAX_COLUMNS = 100, MAX_CURVES = 4 };

typedef struct BrailleCells {
  int columns, rows;
  uint8_t *at; /* dots of each character, numbered as in Unicode */
} BrailleCells;

static void set_dot(void *owner, int x, int y) {
  static const uint8_t bits[4][2] = {
      {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  BrailleCells *c = owner;
  if (x >= 0 && y >= 0 && x < 2 * c->columns && y < 4 * c->rows)
    c->at[(y / 4) * c->columns + x / 2] |= bits[y % 4][x % 2];
}

/* The curves in one grid of characters.  A later curve covers the colour of an
   earlier one. */
static void put_row(Buffer *out, const BrailleCells *curves, uint32_t count,
                    int row, const int *colours) {
  int columns = curves[0].columns, blanks = 0;
  for (int x = 0; x < columns; x++) {
    uint8_t dots = 0;
    int colour = 0;
    for (uint32_t k = 0; k < count; k++) {
      uint8_t own = curves[k].at[row * columns + x];
      dots |= own;
      colour = own && colours ? colours[k] : colour;
    }
    if (!dots) {
      blanks++;
      continue;
    }
    buffer_printf(out, "%*s", blanks, "");
    blanks = 0;
    if (colour)
      buffer_printf(out, "\033[%dm", colour);
    buffer_printf(out, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
    if (colour)
      buffer_puts(out, "\033[0m");
  }
  buffer_putc(out, '\n');
}

/* The tick in a row of characters, or NULL. */
static const char *tick_in_row(const Plot *p, const Ticks *ticks, int row,
                               int rows) {
  for (uint32_t i = 0; i < ticks->count; i++) {
    double fraction = (p->top - ticks->at[i]) / (p->top - p->bottom);
    if ((int)lround(fraction * (4 * rows - 1)) / 4 == row)
      return ticks->text[i];
  }
  return NULL;
}

static int tick_column(const Plot *p, double at, int columns) {
  double fraction = (at - p->left) / (p->right - p->left);
  return (int)lround(fraction * (2 * columns - 1)) / 2;
}

/* The x axis, and its numbers where there is space. */
static void put_x_axis(Buffer *out, const Plot *p, const Ticks *ticks,
                       int margin, int columns) {
  char line[MAX_COLUMNS + 32];
  memset(line, ' ', sizeof line);
  int used = -1, end = 0;
  buffer_printf(out, "%*s └", margin, "");
  for (int x = 0; x < columns; x++) {
    bool tick = false;
    for (uint32_t i = 0; i < ticks->count; i++)
      tick |= tick_column(p, ticks->at[i], columns) == x;
    buffer_puts(out, tick ? "┬" : "─");
  }
  buffer_putc(out, '\n');
  for (uint32_t i = 0; i < ticks->count; i++) {
    int len = (int)strlen(ticks->text[i]);
    int start = tick_column(p, ticks->at[i], columns) - len / 2;
    if (start + len > columns)
      start = columns - len;
    if (start < 0)
      start = 0;
    if (start < used + 1)
      continue;
    memcpy(line + start, ticks->text[i], (size_t)len);
    used = end = start + len;
  }
  buffer_printf(out, "%*s  %.*s\n", margin, "", end, line);
}

/* The union of the axes of all curves. */
static Plot common_axes(const Plot *curves, uint32_t count) {
  Plot frame = curves[0];
  for (uint32_t k = 1; k < count; k++) {
    frame.left = fmin(frame.left, curves[k].left);
    frame.right = fmax(frame.right, curves[k].right);
    frame.bottom = fmin(frame.bottom, curves[k].bottom);
    frame.top = fmax(frame.top, curves[k].top);
  }
  return frame;
}

void plot_render(Buffer *out, const Plot *curves, uint32_t count, int rows,
                 int width, const int *colours) {
  Plot frame = common_axes(curves, count);
  Ticks y_ticks, x_ticks;
  plot_y_ticks(&frame, rows < 10 ? 4 : 6, &y_ticks);
  int margin = 0;
  for (uint32_t i = 0; i < y_ticks.count; i++)
    if ((int)strlen(y_ticks.text[i]) > margin)
      margin = (int)strlen(y_ticks.text[i]);
  width = width > MAX_COLUMNS ? MAX_COLUMNS : width;
  int columns = width - margin - 2 < 8 ? 8 : width - margin - 2;
  uint32_t max = (uint32_t)columns / 8;
  plot_x_ticks(&frame, max < 8 ? max : 8, &x_ticks);
  count = count > MAX_CURVES ? MAX_CURVES : count;
  size_t size = (size_t)columns * (size_t)rows;
  uint8_t *dots = mem_alloc(count * size);
  BrailleCells cells[MAX_CURVES];
  for (uint32_t k = 0; k < count; k++) {
    cells[k] =
        (BrailleCells){.rows = rows, .columns = columns, .at = dots + k * size};
    Plot curve = frame;
    curve.kind = curves[k].kind, curve.count = curves[k].count;
    curve.x = curves[k].x, curve.y = curves[k].y;
    plot_draw(&curve, 2 * columns, 4 * rows, set_dot, &cells[k]);
  }
  for (int row = 0; row < rows; row++) {
    const char *tick = tick_in_row(&frame, &y_ticks, row, rows);
    buffer_printf(out, "%*s %s", margin, tick ? tick : "", tick ? "┤" : "│");
    put_row(out, cells, count, row, colours);
  }
  put_x_axis(out, &frame, &x_ticks, margin, columns);
  mem_free(dots);
}

void plot_print(const Plot *p, int64_t size) {
  Buffer out = {0};
  int width = terminal_width();
  if (size > 0 && size < width)
    width = (int)size;
  plot_render(&out, p, 1, PLOT_ROWS, width, NULL);
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}
