/* show: draws a tensor as a picture or a plot, for `show`.  A host displays
   what is drawn, or it becomes pixels, for example of a PNG file.  Main entry
   point: show_tensor. */
#ifndef AXON_SHOW_SHOW_H
#define AXON_SHOW_SHOW_H

#include "runtime/runtime.h"

/* ---- image.c ---- */

typedef struct Image { /* values from 0 to 1, row-major, 1 or 3 channels */
  uint32_t width, height, channels;
  float *at; /* allocated by mem_alloc */
} Image;

/* Averages when shrinking, repeats when growing. */
Image image_resize(const Image *p, uint32_t width, uint32_t height);
/* The height that keeps the proportions at this width; at least 1. */
uint32_t image_height_at(const Image *p, uint32_t width);
/* u8[height, width] or u8[height, width, 3]; `width` pixels wide, 0: as wide as
   the image.  NULL with a fault if there is no memory. */
Tensor *image_pixels(const Image *p, int64_t width, Fault *fault);

/* ---- plot.c ---- */

typedef enum PlotKind { PLOT_LINE, PLOT_SCATTER, PLOT_BAR } PlotKind;

typedef struct Plot {
  PlotKind kind;
  const double *x, *y;
  uint32_t count;
  double left, right, bottom, top; /* limits of the axes: see plot_fit */
} Plot;

enum { MAX_TICKS = 16 };
typedef struct Ticks {
  double at[MAX_TICKS];
  char text[MAX_TICKS][16];
  uint32_t count;
} Ticks;

void plot_fit(Plot *plot); /* chooses axes that contain all points */
/* About `max` ticks at most, at round numbers. */
void plot_y_ticks(const Plot *plot, uint32_t max, Ticks *out);
void plot_x_ticks(const Plot *plot, uint32_t max, Ticks *out);
/* Draws the data on a grid of width by height dots, row 0 at the top.  `dot`
   may be called with positions outside of the grid. */
void plot_draw(const Plot *plot, int width, int height,
               void (*dot)(void *owner, int x, int y), void *owner);

/* ---- plot_pixels.c ---- */

/* u8[height, width, 3]; `width` pixels wide, 0: 800. */
Tensor *plot_pixels(const Plot *plot, int64_t width, Fault *fault);

/* ---- show.c ---- */

/* Displays what `show` draws without a file.  size: columns or pixels; 0: the
   host chooses.  A function returns false and sets a fault on failure. */
typedef struct ShowDisplay {
  void *owner;
  bool (*image)(void *owner, const Image *image, int64_t size, Fault *fault);
  bool (*plot)(void *owner, const Plot *plot, int64_t size, Fault *fault);
} ShowDisplay;

/* kind: "line", "scatter", "bar", "image"; NULL: by the shape.  file: NULL to
   display it.  display: NULL if there is none.  Returns false and sets a fault
   on failure. */
bool show_tensor(const ShowDisplay *display, const Tensor *t, const char *kind,
                 const char *file, int64_t size, Fault *fault);

#endif
