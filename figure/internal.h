/* Declarations shared by the files of figure/. */
#ifndef AXON_FIGURE_INTERNAL_H
#define AXON_FIGURE_INTERNAL_H

#include "figure/figure.h"
#include "runtime/runtime.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/mem.h"

/* ---- axes.c: limits, ticks ---- */

enum { MAX_TICKS = 64, TICK_TEXT_BYTES = 40, MAX_MINOR_TICKS = 256 };

typedef struct Tick {
  double part; /* position on the axis, from 0 to 1 */
  char text[TICK_TEXT_BYTES];
} Tick;

/* An axis with limits.  Values of a logarithmic axis are log10 of those of the
 * data. */
typedef struct Axis {
  bool is_log;
  double from, to; /* finite and different */
  Tick ticks[MAX_TICKS];
  uint32_t tick_count;
  double minor[MAX_MINOR_TICKS]; /* parts, of a logarithmic axis */
  uint32_t minor_count;
} Axis;

typedef struct Axes {
  Axis x, y;
  bool has_colours; /* true if there is a heat map */
  Axis colours;     /* of the elements of heat maps */
} Axes;

/* Chooses limits that contain all data.  `margin` is the free part at each end
 * of an axis that needs no exact limits. */
void axes_fit(Axes *axes, const Figure *f, double margin);
/* Chooses about `max` ticks at round numbers. */
void axis_choose_ticks(Axis *axis, const FigureAxis *description, uint32_t max,
                       bool is_ascii);
/* The position of a value, 0 at `from` and 1 at `to`; NaN if it has none. */
double axis_part(const Axis *axis, double value);
/* The base of bars: 0, or the lower limit of a logarithmic axis. */
double axis_base_part(const Axis *axis);

/* ---- colour.c ---- */

enum { SERIES_COLOURS = 8 };
Rgb colour_of_series(size_t i);
/* The number of the series of a layer.  Areas count apart, so that a line and
 * the area around it have one colour. */
size_t series_of_layer(const Figure *f, size_t layer);
/* The colour of an element of a heat map, from its part of the range; NaN:
 * grey. */
Rgb colour_of_part(double part);

/* ---- shape.c: layers as geometry, on a grid of any resolution ---- */

/* True for lines and points, which are drawn above all other layers. */
bool layer_is_above(LayerKind kind);

typedef struct Point {
  double x, y; /* from the top left corner; NaN: not drawn */
} Point;

typedef struct Points {
  Point *at;
  size_t count, capacity;
} Points;

void points_add(Points *p, double x, double y);
void points_free(Points *p);

typedef struct Area { /* the area of the data */
  const Axes *axes;
  double left, top, width, height;
} Area;

Point area_point(const Area *a, double x, double y);
/* The vertices of a line or a step.  Of the vertices in one column of width 1,
 * it keeps the first, the lowest, the highest and the last. */
void shape_line(const Area *a, const FigureLayer *layer, Points *out);
/* The outline of a part of an area layer without gaps, which starts at *i.
 * Returns false after the last part. */
bool shape_area(const Area *a, const FigureLayer *layer, size_t *i,
                Points *out);
/* The points of a scatter layer, without those that share a cell of this size
 * with an earlier one. */
void shape_scatter(const Area *a, const FigureLayer *layer, double cell,
                   Points *out);
/* Two corners of a bar; false if it is not drawn. */
bool shape_bar(const Area *a, const FigureLayer *layer, size_t i,
               Point corners[2]);
/* The mean of the finite elements in ranges of rows and columns; NaN if there
 * are none. */
double heatmap_mean(const FigureLayer *layer, const size_t rows[2],
                    const size_t columns[2]);
/* The value at a point: of one element, or the mean over a unit square that
 * contains several.  Returns false outside of the heat map. */
bool heatmap_value_at(const Area *a, const FigureLayer *layer, double x,
                      double y, double *value);

/* ---- draw.c: the layout of files ---- */

typedef enum TextAnchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } TextAnchor;

typedef struct Text {
  double x, y, size; /* the base line; size of the font in px */
  TextAnchor anchor;
  bool is_vertical; /* from bottom to top */
  const char *text;
} Text;

typedef struct Canvas Canvas;
typedef struct CanvasFunctions {
  double min_cell; /* size of the smallest cells of heat maps, in px */
  /* Everything until end_clip is drawn only inside the rectangle. */
  void (*begin_clip)(Canvas *c, double x, double y, double w, double h);
  void (*end_clip)(Canvas *c);
  /* NaN separates lines. */
  void (*lines)(Canvas *c, const Points *p, double width, Rgb colour);
  void (*polygon)(Canvas *c, const Points *p, double opacity, Rgb colour);
  void (*rectangle)(Canvas *c, double x, double y, double w, double h,
                    double opacity, Rgb colour);
  void (*dots)(Canvas *c, const Points *p, double diameter, Rgb colour);
  void (*text)(Canvas *c, const Text *text, Rgb colour);
} CanvasFunctions;
struct Canvas { /* the first member of a larger struct */
  const CanvasFunctions *functions;
};

void figure_draw(Canvas *c, const Figure *f, double width, double height);
/* Replaces 0 by the defaults.  Returns false with a fault if the size is out of
 * range. */
bool figure_complete_size(FigureSize *size, Fault *fault);

#endif
