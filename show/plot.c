/* Plots: fits the axes, chooses ticks at round numbers, and draws on a grid of
   dots.  Main entry points: plot_fit and plot_draw. */
#include "show/show.h"
#include "support/compiler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
