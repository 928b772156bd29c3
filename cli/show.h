/* Shared by the files of `show`. */
#ifndef AXON_CLI_SHOW_H
#define AXON_CLI_SHOW_H

#include "cli/cli.h"

/* ---- terminal_image.c ---- */

typedef struct Image { /* values from 0 to 1, row-major, 1 or 3 channels */
  uint32_t width, height, channels;
  float *at; /* allocated by mem_alloc */
} Image;

/* `size` columns wide; 0: as wide as fits. */
void image_print(const Image *p, int64_t size);
bool image_save(const Image *p, const char *path, int64_t size, Fault *fault);

/* ---- plot.c ---- */

typedef struct Buffer Buffer;

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
/* Draws curves in common axes, as lines of text.  colours: ANSI colours of the
   curves; NULL: none. */
void plot_render(Buffer *out, const Plot *curves, uint32_t count, int rows,
                 int width, const int *colours);
void plot_print(const Plot *plot, int64_t size);

/* ---- plot_png.c ---- */

bool plot_save(const Plot *plot, const char *path, int64_t size, Fault *fault);

#endif
