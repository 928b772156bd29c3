/* Layers as geometry.  Main entry points: shape_line, shape_scatter,
 * shape_area, shape_bar, heatmap_value_at. */
#include "figure/internal.h"

#include <math.h>

void points_add(Points *p, double x, double y) {
  if (p->count == p->capacity) {
    size_t capacity = p->capacity ? 2 * p->capacity : 64;
    p->at = mem_realloc(p->at, p->capacity * sizeof *p->at,
                        capacity * sizeof *p->at);
    p->capacity = capacity;
  }
  p->at[p->count++] = (Point){x, y};
}

void points_free(Points *p) {
  mem_free(p->at);
  *p = (Points){0};
}

bool layer_is_above(LayerKind kind) {
  switch (kind) {
  case LAYER_LINE:
  case LAYER_STEP:
  case LAYER_SCATTER:
    return true;
  case LAYER_NONE:
  case LAYER_AREA:
  case LAYER_BARS:
  case LAYER_HEATMAP:
  case LAYER_KIND_COUNT:
    return false;
  }
  return false;
}

/* Positions far outside of the area are moved nearer: cairo has 24 bits for
 * them. */
static double position(double part, double start, double size) {
  return start + fmin(fmax(part, -1000), 1000) * size;
}

Point area_point(const Area *a, double x, double y) {
  double px = axis_part(&a->axes->x, x), py = axis_part(&a->axes->y, y);
  if (isnan(px) || isnan(py))
    return (Point){NAN, NAN};
  return (Point){position(px, a->left, a->width),
                 position(1 - py, a->top, a->height)};
}

/* ---- lines ---- */

typedef struct LineColumn { /* adjacent vertices in one column */
  double number;
  Point first, low, high, last;
  bool is_low_first;
  size_t count;
} LineColumn;

static bool is_same(Point a, Point b) {
  return a.x == b.x && a.y == b.y;
}

static void add_vertex(Points *out, Point p) {
  if (!out->count || !is_same(out->at[out->count - 1], p))
    points_add(out, p.x, p.y);
}

static void end_column(LineColumn *c, Points *out) {
  if (c->count) {
    add_vertex(out, c->first);
    add_vertex(out, c->is_low_first ? c->low : c->high);
    add_vertex(out, c->is_low_first ? c->high : c->low);
    add_vertex(out, c->last);
  }
  c->count = 0;
}

static void put_vertex(LineColumn *c, Points *out, Point p) {
  if (isnan(p.x)) {
    end_column(c, out);
    if (out->count && !isnan(out->at[out->count - 1].x))
      points_add(out, NAN, NAN);
    return;
  }
  if (c->count && c->number != floor(p.x))
    end_column(c, out);
  if (!c->count++)
    *c = (LineColumn){floor(p.x), p, p, p, p, true, 1};
  if (p.y < c->low.y)
    c->low = p, c->is_low_first = false;
  if (p.y > c->high.y)
    c->high = p, c->is_low_first = true;
  c->last = p;
}

void shape_line(const Area *a, const FigureLayer *layer, Points *out) {
  LineColumn c = {0};
  out->count = 0;
  for (size_t i = 0; i < layer->count; i++) {
    Point p = area_point(a, layer->x[i], layer->y[i]);
    put_vertex(&c, out, p);
    if (layer->kind == LAYER_STEP && i + 1 < layer->count && !isnan(p.x)) {
      p.x = area_point(a, layer->x[i + 1], layer->y[i]).x;
      put_vertex(&c, out, p);
    }
  }
  end_column(&c, out);
}

/* ---- areas ---- */

static bool is_area_at(const Area *a, const FigureLayer *l, size_t i) {
  return !isnan(area_point(a, l->x[i], l->y[i]).x) &&
         !isnan(area_point(a, l->x[i], l->y2[i]).x);
}

bool shape_area(const Area *a, const FigureLayer *layer, size_t *i,
                Points *out) {
  out->count = 0;
  while (*i < layer->count && !is_area_at(a, layer, *i))
    ++*i;
  size_t begin = *i;
  while (*i < layer->count && is_area_at(a, layer, *i))
    ++*i;
  LineColumn c = {0};
  for (size_t k = begin; k < *i; k++)
    put_vertex(&c, out, area_point(a, layer->x[k], layer->y[k]));
  end_column(&c, out);
  for (size_t k = *i; k-- > begin;)
    put_vertex(&c, out, area_point(a, layer->x[k], layer->y2[k]));
  end_column(&c, out);
  return begin < *i;
}

/* ---- points, bars, heat maps ---- */

void shape_scatter(const Area *a, const FigureLayer *layer, double cell,
                   Points *out) {
  size_t columns = (size_t)(a->width / cell) + 2;
  size_t rows = (size_t)(a->height / cell) + 2;
  uint8_t *is_taken = mem_alloc(columns * rows);
  out->count = 0;
  for (size_t i = 0; i < layer->count; i++) {
    Point p = area_point(a, layer->x[i], layer->y[i]);
    double column = floor((p.x - a->left) / cell);
    double row = floor((p.y - a->top) / cell);
    if (!(column >= 0 && column < (double)columns && row >= 0 &&
          row < (double)rows))
      continue;
    uint8_t *taken = &is_taken[(size_t)row * columns + (size_t)column];
    if (!*taken)
      points_add(out, p.x, p.y);
    *taken = 1;
  }
  mem_free(is_taken);
}

bool shape_bar(const Area *a, const FigureLayer *layer, size_t i,
               Point corners[2]) {
  Point from = area_point(a, layer->x[i], layer->y[i]);
  Point to = area_point(a, layer->x2[i], layer->y[i]);
  if (isnan(from.x) || isnan(to.x))
    return false;
  double base = axis_base_part(&a->axes->y);
  to.y = position(1 - base, a->top, a->height);
  corners[0] = (Point){fmin(from.x, to.x), fmin(from.y, to.y)};
  corners[1] = (Point){fmax(from.x, to.x), fmax(from.y, to.y)};
  return true;
}

double heatmap_mean(const FigureLayer *layer, const size_t rows[2],
                    const size_t columns[2]) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = rows[0]; i < rows[1]; i++)
    for (size_t j = columns[0]; j < columns[1]; j++) {
      double z = layer->z[i * layer->columns + j];
      sum += isfinite(z) ? z : 0;
      count += isfinite(z);
    }
  return count ? sum / (double)count : NAN;
}

/* The elements in a unit interval around `at`, or the one at its centre. */
static bool elements_at(double at, double from, double to, size_t count,
                        size_t range[2]) {
  double unit = (double)count / (to - from), centre = (at - from) * unit;
  if (!(centre >= 0 && centre < (double)count))
    return false;
  double half = fabs(unit) > 1 ? fabs(unit) / 2 : 0;
  range[0] = (size_t)fmax(0, floor(centre - half));
  range[1] = (size_t)fmin((double)count,
                          half > 0 ? ceil(centre + half) : floor(centre) + 1);
  return true;
}

bool heatmap_value_at(const Area *a, const FigureLayer *layer, double x,
                      double y, double *value) {
  Point low = area_point(a, layer->x[0], layer->y[0]);
  Point high = area_point(a, layer->x[1], layer->y[1]);
  size_t rows[2], columns[2];
  if (!elements_at(x, low.x, high.x, layer->columns, columns) ||
      !elements_at(y, high.y, low.y, layer->rows, rows))
    return false;
  *value = heatmap_mean(layer, rows, columns);
  return true;
}
