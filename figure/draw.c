/* The layout of a figure in a file: axes, layers, legend and colour bar, drawn
 * on a canvas.  Main entry point: figure_draw. */
#include "figure/internal.h"

#include <math.h>
#include <string.h>

/* In px. */
enum {
  TICK_FONT = 12,
  LABEL_FONT = 13,
  TITLE_FONT = 15,
  PADDING = 12,
  TICK_LENGTH = 4,
  X_TICK_DISTANCE = 80,
  Y_TICK_DISTANCE = 45,
  LEGEND_ROW = 18,
  LEGEND_SAMPLE = 22,
  BAR_WIDTH = 16, /* of the colour bar */
  BAR_STEPS = 100,
  MAX_VOTES = 2000, /* points of a layer that place the legend */
};
static const double MARGIN = 0.04; /* part of an axis */

static const Rgb white = {255, 255, 255}, black = {30, 30, 30},
                 grid_colour = {232, 232, 232}, frame_colour = {70, 70, 70},
                 legend_colour = {200, 200, 200};

typedef struct Drawing {
  Canvas *canvas;
  const Figure *figure;
  Axes axes;
  Area area;
  double colour_labels; /* width of the numbers of the colour bar */
} Drawing;

/* ---- text ---- */

/* An estimate from the widths of DejaVu Sans, so that the layout does not
 * depend on the installed fonts. */
static double text_width(const char *text, double size) {
  double em = 0;
  for (const char *p = text; *p; p++)
    if ((*p & 0xc0) != 0x80)
      em += strchr(" .,:;'|!()[]ijlftI-", *p) ? 0.37
            : strchr("mwMW@%", *p)            ? 0.95
            : *p & 0x80                       ? 0.6
                                              : 0.63;
  return em * size;
}

static bool has_text(const char *text) {
  return text && *text;
}

static void put_text(const Drawing *d, double x, double y, double size,
                     TextAnchor anchor, const char *text) {
  Text t = {.x = x, .y = y, .size = size, .anchor = anchor, .text = text};
  d->canvas->functions->text(d->canvas, &t, black);
}

static double widest_tick(const Axis *axis) {
  double widest = 0;
  for (uint32_t i = 0; i < axis->tick_count; i++)
    widest = fmax(widest, text_width(axis->ticks[i].text, TICK_FONT));
  return widest;
}

static double widest_name(const FigureAxis *axis) {
  double widest = 0;
  for (size_t i = 0; i < axis->name_count; i++)
    widest = fmax(widest, text_width(axis->names[i], TICK_FONT));
  return widest;
}

/* ---- layout ---- */

static uint32_t tick_limit(double length, double distance) {
  double n = length / distance;
  return n < 2 ? 2 : n > MAX_TICKS ? MAX_TICKS : (uint32_t)n;
}

/* The areas below and above are of fixed height; the width of the numbers
 * beside the y axis depends on its ticks. */
static void lay_out(Drawing *d, double width, double height) {
  const Figure *f = d->figure;
  const FigureAxis numbers = {0};
  Area *a = &d->area;
  a->axes = &d->axes;
  a->top = has_text(f->title) ? PADDING + TITLE_FONT + 12 : PADDING;
  double below = PADDING + TICK_FONT + TICK_LENGTH + 4;
  below += has_text(f->x.label) ? LABEL_FONT + 6 : 0;
  a->height = fmax(1, height - a->top - below);
  axis_choose_ticks(
      &d->axes.y, &f->y,
      tick_limit(a->height, f->y.name_count ? TICK_FONT + 2 : Y_TICK_DISTANCE),
      false);
  axis_choose_ticks(&d->axes.colours, &numbers,
                    tick_limit(a->height, Y_TICK_DISTANCE), false);
  d->colour_labels = widest_tick(&d->axes.colours);
  a->left = PADDING + TICK_LENGTH + 4;
  a->left += fmin(widest_tick(&d->axes.y), width / 3);
  a->left += has_text(f->y.label) ? LABEL_FONT + 6 : 0;
  double right = PADDING + 6;
  if (d->axes.has_colours)
    right += BAR_WIDTH + PADDING + TICK_LENGTH + d->colour_labels;
  a->width = fmax(1, width - a->left - right);
  double distance =
      f->x.name_count ? widest_name(&f->x) + PADDING : X_TICK_DISTANCE;
  axis_choose_ticks(&d->axes.x, &f->x, tick_limit(a->width, distance), false);
}

/* ---- axes ---- */

static void put_line(const Drawing *d, double x0, double y0, double x1,
                     double y1, Rgb colour) {
  Point at[] = {{x0, y0}, {x1, y1}};
  Points p = {at, 2, 2};
  d->canvas->functions->lines(d->canvas, &p, 1, colour);
}

/* The centre of a pixel, so that thin lines are sharp. */
static double sharp(double v) {
  return floor(v) + 0.5;
}

static void put_grid(const Drawing *d) {
  const Area *a = &d->area;
  for (uint32_t i = 0; i < d->axes.x.tick_count; i++) {
    double x = sharp(a->left + d->axes.x.ticks[i].part * a->width);
    put_line(d, x, a->top, x, a->top + a->height, grid_colour);
  }
  for (uint32_t i = 0; i < d->axes.y.tick_count; i++) {
    double y = sharp(a->top + (1 - d->axes.y.ticks[i].part) * a->height);
    put_line(d, a->left, y, a->left + a->width, y, grid_colour);
  }
}

static void put_frame(const Drawing *d, double left, double top, double width,
                      double height, Rgb colour) {
  double x0 = sharp(left), y0 = sharp(top);
  double x1 = sharp(left + width), y1 = sharp(top + height);
  Point at[] = {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}, {x0, y0}};
  Points p = {at, ARRAY_LEN(at), ARRAY_LEN(at)};
  d->canvas->functions->lines(d->canvas, &p, 1, colour);
}

static void put_x_ticks(const Drawing *d) {
  const Area *a = &d->area;
  const Axis *axis = &d->axes.x;
  double y = a->top + a->height;
  for (uint32_t i = 0; i < axis->tick_count; i++) {
    double x = sharp(a->left + axis->ticks[i].part * a->width);
    put_line(d, x, y, x, y + TICK_LENGTH, frame_colour);
    put_text(d, x, y + TICK_LENGTH + TICK_FONT + 1, TICK_FONT, ANCHOR_MIDDLE,
             axis->ticks[i].text);
  }
  for (uint32_t i = 0; i < axis->minor_count; i++) {
    double x = sharp(a->left + axis->minor[i] * a->width);
    put_line(d, x, y, x, y + TICK_LENGTH / 2, frame_colour);
  }
}

/* Ticks to one side of a vertical axis at x: -1 left, 1 right. */
static void put_y_ticks(const Drawing *d, const Axis *axis, double x,
                        int side) {
  const Area *a = &d->area;
  for (uint32_t i = 0; i < axis->tick_count; i++) {
    double y = sharp(a->top + (1 - axis->ticks[i].part) * a->height);
    put_line(d, x, y, x + side * TICK_LENGTH, y, frame_colour);
    put_text(d, x + side * (TICK_LENGTH + 3), y + TICK_FONT * 0.35, TICK_FONT,
             side < 0 ? ANCHOR_END : ANCHOR_START, axis->ticks[i].text);
  }
  for (uint32_t i = 0; i < axis->minor_count; i++) {
    double y = sharp(a->top + (1 - axis->minor[i]) * a->height);
    put_line(d, x, y, x + side * (TICK_LENGTH / 2), y, frame_colour);
  }
}

static void put_labels(const Drawing *d, double height) {
  const Area *a = &d->area;
  const Figure *f = d->figure;
  double centre = a->left + a->width / 2;
  if (has_text(f->title))
    put_text(d, centre, PADDING + TITLE_FONT * 0.8, TITLE_FONT, ANCHOR_MIDDLE,
             f->title);
  if (has_text(f->x.label))
    put_text(d, centre, height - PADDING + 2, LABEL_FONT, ANCHOR_MIDDLE,
             f->x.label);
  if (!has_text(f->y.label))
    return;
  Text t = {.x = PADDING + LABEL_FONT * 0.7,
            .y = a->top + a->height / 2,
            .size = LABEL_FONT,
            .anchor = ANCHOR_MIDDLE,
            .is_vertical = true,
            .text = f->y.label};
  d->canvas->functions->text(d->canvas, &t, black);
}

/* ---- layers ---- */

static void put_bars(const Drawing *d, const FigureLayer *layer, Rgb colour) {
  for (size_t i = 0; i < layer->count; i++) {
    Point c[2];
    if (shape_bar(&d->area, layer, i, c))
      d->canvas->functions->rectangle(d->canvas, c[0].x, c[0].y,
                                      fmax(c[1].x - c[0].x, 0.5),
                                      c[1].y - c[0].y, 0.85, colour);
  }
}

static bool is_same_colour(Rgb a, Rgb b) {
  return a.r == b.r && a.g == b.g && a.b == b.b;
}

/* One row of a heat map: adjacent cells of one colour are one rectangle. */
static void put_heatmap_row(const Drawing *d, const FigureLayer *layer,
                            size_t count, const size_t rows[2], Point from,
                            Point to) {
  size_t begin = 0;
  Rgb colour = white;
  for (size_t j = 0; j <= count; j++) {
    size_t columns[2] = {j * layer->columns / count,
                         (j + 1) * layer->columns / count};
    Rgb own = white;
    if (j < count)
      own = colour_of_part(
          axis_part(&d->axes.colours, heatmap_mean(layer, rows, columns)));
    if (j && j < count && is_same_colour(own, colour))
      continue;
    double unit = (to.x - from.x) / (double)count;
    double x0 = from.x + unit * (double)begin, x1 = from.x + unit * (double)j;
    if (j)
      d->canvas->functions->rectangle(d->canvas, fmin(x0, x1),
                                      fmin(from.y, to.y), fabs(x1 - x0),
                                      fabs(to.y - from.y), 1, colour);
    begin = j, colour = own;
  }
}

static void put_heatmap(const Drawing *d, const FigureLayer *layer) {
  Point low = area_point(&d->area, layer->x[0], layer->y[0]);
  Point high = area_point(&d->area, layer->x[1], layer->y[1]);
  if (isnan(low.x) || isnan(high.x) || !layer->rows || !layer->columns)
    return;
  double cell = d->canvas->functions->min_cell;
  size_t rows = (size_t)fmin((double)layer->rows, ceil(d->area.height / cell));
  size_t columns =
      (size_t)fmin((double)layer->columns, ceil(d->area.width / cell));
  for (size_t i = 0; i < rows; i++) {
    size_t range[2] = {i * layer->rows / rows, (i + 1) * layer->rows / rows};
    double unit = (low.y - high.y) / (double)rows;
    put_heatmap_row(d, layer, columns, range,
                    (Point){low.x, high.y + unit * (double)i},
                    (Point){high.x, high.y + unit * (double)(i + 1)});
  }
}

static void put_layer(const Drawing *d, size_t i, Points *scratch) {
  const FigureLayer *layer = &d->figure->layers[i];
  const CanvasFunctions *canvas = d->canvas->functions;
  Rgb colour = colour_of_series(series_of_layer(d->figure, i));
  size_t at = 0;
  switch (layer->kind) {
  case LAYER_LINE:
  case LAYER_STEP:
    shape_line(&d->area, layer, scratch);
    canvas->lines(d->canvas, scratch, 1.8, colour);
    break;
  case LAYER_SCATTER:
    shape_scatter(&d->area, layer, 1, scratch);
    canvas->dots(d->canvas, scratch, layer->count > 2000 ? 3 : 5, colour);
    break;
  case LAYER_AREA:
    while (shape_area(&d->area, layer, &at, scratch))
      canvas->polygon(d->canvas, scratch, 0.25, colour);
    break;
  case LAYER_BARS:
    put_bars(d, layer, colour);
    break;
  case LAYER_HEATMAP:
    put_heatmap(d, layer);
    break;
  case LAYER_NONE:
  case LAYER_KIND_COUNT:
    break;
  }
}

static void put_colour_bar(const Drawing *d) {
  const Area *a = &d->area;
  double left = floor(a->left + a->width + PADDING);
  for (int i = 0; i < BAR_STEPS; i++)
    d->canvas->functions->rectangle(d->canvas, left,
                                    a->top + a->height * i / BAR_STEPS,
                                    BAR_WIDTH, a->height / BAR_STEPS + 0.5, 1,
                                    colour_of_part(1 - (i + 0.5) / BAR_STEPS));
  put_frame(d, left, a->top, BAR_WIDTH, a->height, frame_colour);
  put_y_ticks(d, &d->axes.colours, left + BAR_WIDTH, 1);
}

/* ---- legend ---- */

typedef struct Legend {
  double left, top, width, height;
  size_t count; /* of entries */
} Legend;

static bool covers(const Legend *l, Point low, Point high) {
  return high.x >= l->left - 4 && low.x <= l->left + l->width + 4 &&
         high.y >= l->top - 4 && low.y <= l->top + l->height + 4;
}

/* The part of a layer that the legend would cover: of bars, or of points of
 * lines. */
static double covered_part(const Area *a, const FigureLayer *layer,
                           const Legend *at) {
  size_t stride = layer->count / MAX_VOTES + 1, votes = 0;
  Point before = {NAN, NAN};
  for (size_t i = 0; i < layer->count; i += stride) {
    Point p = area_point(a, layer->x[i], layer->y[i]), bar[2];
    if (layer->kind == LAYER_BARS) {
      votes +=
          shape_bar(a, layer, i, bar) && covers(at, bar[0], bar[1]) ? 8 : 0;
      continue;
    }
    bool is_alone = isnan(before.x) || layer->kind == LAYER_SCATTER;
    for (int k = 1; k <= 8; k++) {
      double part = k / 8.0;
      Point q = {before.x + (p.x - before.x) * part,
                 before.y + (p.y - before.y) * part};
      votes += is_alone ? covers(at, p, p) : covers(at, q, q);
    }
    before = p;
  }
  return (double)votes / (double)(layer->count / stride + 1);
}

/* Chooses the place at the top or bottom that covers the least. */
static void place_legend(const Drawing *d, Legend *l) {
  static const struct {
    double x, y;
  } places[] = {{1, 0}, {0, 0}, {1, 1}, {0, 1}, {0.5, 0}, {0.5, 1}};
  const Area *a = &d->area;
  double best = INFINITY;
  for (size_t k = 0; k < ARRAY_LEN(places); k++) {
    Legend at = *l;
    at.left = a->left + 8 + places[k].x * (a->width - 16 - l->width);
    at.top = a->top + 8 + places[k].y * (a->height - 16 - l->height);
    double covered = 0;
    for (size_t i = 0; i < d->figure->layer_count; i++)
      covered += covered_part(a, &d->figure->layers[i], &at);
    if (covered < best)
      best = covered, *l = at;
  }
}

static void put_sample(const Drawing *d, size_t layer, double x, double y) {
  const CanvasFunctions *canvas = d->canvas->functions;
  Rgb colour = colour_of_series(series_of_layer(d->figure, layer));
  Point at[] = {{x, y}, {x + LEGEND_SAMPLE, y}};
  Points ends = {at, 2, 2}, dot = {at, 1, 1};
  switch (d->figure->layers[layer].kind) {
  case LAYER_LINE:
  case LAYER_STEP:
    canvas->lines(d->canvas, &ends, 1.8, colour);
    break;
  case LAYER_SCATTER:
    at[0].x += LEGEND_SAMPLE / 2.0;
    canvas->dots(d->canvas, &dot, 5, colour);
    break;
  case LAYER_AREA:
  case LAYER_BARS:
    canvas->rectangle(d->canvas, x, y - 5, LEGEND_SAMPLE, 10,
                      d->figure->layers[layer].kind == LAYER_AREA ? 0.25 : 0.85,
                      colour);
    break;
  case LAYER_NONE:
  case LAYER_HEATMAP:
  case LAYER_KIND_COUNT:
    break;
  }
}

static void put_legend(const Drawing *d) {
  Legend l = {0};
  const Figure *f = d->figure;
  size_t max = (size_t)fmax(1, (d->area.height - 24) / LEGEND_ROW);
  for (size_t i = 0; i < f->layer_count; i++)
    if (has_text(f->layers[i].label)) {
      l.count++;
      l.width = fmax(l.width, text_width(f->layers[i].label, TICK_FONT));
    }
  if (!l.count)
    return;
  size_t shown = l.count <= max ? l.count : max - 1;
  l.width = fmin(l.width + LEGEND_SAMPLE + 22, d->area.width - 16);
  l.height = LEGEND_ROW * (double)(shown < l.count ? shown + 1 : shown) + 8;
  place_legend(d, &l);
  d->canvas->functions->rectangle(d->canvas, l.left, l.top, l.width, l.height,
                                  0.8, white);
  put_frame(d, l.left, l.top, l.width, l.height, legend_colour);
  double y = l.top + 4 + LEGEND_ROW / 2.0;
  size_t n = 0;
  for (size_t i = 0; i < f->layer_count && n < shown; i++)
    if (has_text(f->layers[i].label)) {
      put_sample(d, i, l.left + 8, y);
      put_text(d, l.left + LEGEND_SAMPLE + 14, y + TICK_FONT * 0.35, TICK_FONT,
               ANCHOR_START, f->layers[i].label);
      y += LEGEND_ROW;
      n++;
    }
  char rest[40];
  snprintf(rest, sizeof rest, "and %zu more", l.count - shown);
  if (shown < l.count)
    put_text(d, l.left + LEGEND_SAMPLE + 14, y + TICK_FONT * 0.35, TICK_FONT,
             ANCHOR_START, rest);
}

void figure_draw(Canvas *c, const Figure *f, double width, double height) {
  Drawing d = {.canvas = c, .figure = f};
  axes_fit(&d.axes, f, MARGIN);
  lay_out(&d, width, height);
  const Area *a = &d.area;
  c->functions->rectangle(c, 0, 0, width, height, 1, white);
  if (!d.axes.has_colours)
    put_grid(&d);
  c->functions->begin_clip(c, a->left, a->top, a->width, a->height);
  Points scratch = {0};
  for (int above = 0; above < 2; above++)
    for (size_t i = 0; i < f->layer_count; i++)
      if (layer_is_above(f->layers[i].kind) == above)
        put_layer(&d, i, &scratch);
  points_free(&scratch);
  c->functions->end_clip(c);
  put_frame(&d, a->left, a->top, a->width, a->height, frame_colour);
  put_x_ticks(&d);
  put_y_ticks(&d, &d.axes.y, a->left, -1);
  put_labels(&d, height);
  if (d.axes.has_colours)
    put_colour_bar(&d);
  put_legend(&d);
}
