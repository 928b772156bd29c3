/* figure: draws plots.  A Figure describes axes and layers, such as lines and
 * bars.  It becomes text for a terminal, SVG, or a PNG file.
 *
 * Ownership: a Figure borrows its arrays and texts.  Texts are valid UTF-8.
 * Functions with a Buffer may unwind when out of memory. */
#ifndef AXON_FIGURE_H
#define AXON_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Buffer Buffer;
typedef struct Fault Fault;

typedef enum LayerKind {
  LAYER_NONE,
  LAYER_LINE,    /* x, y */
  LAYER_STEP,    /* x, y: the value y[i] from x[i] to x[i + 1] */
  LAYER_SCATTER, /* x, y */
  LAYER_AREA,    /* x, y, y2: between y and y2 */
  LAYER_BARS,    /* x, x2, y: from 0 to y, between x and x2 */
  LAYER_HEATMAP, /* z; x: left and right edge, y: bottom and top edge */
  LAYER_KIND_COUNT
} LayerKind;

typedef struct FigureLayer {
  LayerKind kind;
  const char *label; /* in the legend; "" or NULL: none */
  size_t count;      /* number of elements of x, x2, y, y2 */
  const double *x, *x2, *y, *y2;
  const double *z; /* rows * columns, the first row at the top edge */
  size_t rows, columns;
} FigureLayer;

/* Elements that are NaN or infinite, or not positive on a logarithmic axis, are
 * not drawn. */
typedef struct FigureAxis {
  const char *label; /* "" or NULL: none */
  bool is_log;
  /* Limits; not finite: fitted to the data.  from > to reverses the axis. */
  double from, to;
  const char *const *names; /* labels of the positions 0, 1, ... */
  size_t name_count;        /* 0: numbers */
} FigureAxis;

typedef struct Figure {
  const char *title; /* "" or NULL: none */
  FigureAxis x, y;
  const FigureLayer *layers;
  size_t layer_count;
} Figure;

/* Returns false with a fault if axes or layers are not valid. */
bool figure_check(const Figure *f, Fault *fault);

/* ---- print.c: on a terminal ---- */

typedef enum ColourDepth {
  COLOURS_NONE,
  COLOURS_256,
  COLOURS_RGB,
  COLOUR_DEPTH_COUNT
} ColourDepth;

typedef struct FigureStyle {
  int columns; /* width of the terminal */
  int rows;    /* height of the area of the data; 0: by the width */
  ColourDepth colours;
  bool is_ascii;
} FigureStyle;

/* Appends lines, each with its newline. */
void figure_print(Buffer *out, const Figure *f, const FigureStyle *style);

/* ---- svg.c, png.c: files ---- */

/* In px.  A PNG file has `scale` pixels per px.  0: the default. */
typedef struct FigureSize {
  int64_t width, height;
  double scale;
} FigureSize;

/* Makes the bytes of a PNG file, by the library cairo.  On success, *bytes is
 * to be freed by mem_free.  Returns false with a fault if the library is
 * missing, or a size is out of range. */
bool figure_png(const Figure *f, FigureSize size, void **bytes, size_t *len,
                Fault *fault);
/* Appends an SVG document. */
bool figure_svg(Buffer *out, const Figure *f, FigureSize size, Fault *fault);
/* Writes a file atomically: .png or .svg. */
bool figure_save(const Figure *f, const char *path, FigureSize size,
                 Fault *fault);

/* ---- colour.c ---- */

typedef struct Rgb {
  uint8_t r, g, b;
} Rgb;

/* Appends the escape sequence of a colour.  The depth is not COLOURS_NONE. */
void colour_put(Buffer *out, ColourDepth depth, Rgb c, bool is_background);

#endif
