/* Pictures and plots on a terminal. */
#ifndef AXON_CLI_TERMINAL_DRAW_H
#define AXON_CLI_TERMINAL_DRAW_H

#include "show/show.h"

typedef struct Buffer Buffer;

/* ---- terminal_image.c ---- */

/* `size` columns wide; 0: as wide as fits. */
void image_print(const Image *p, int64_t size);

/* ---- terminal_plot.c ---- */

/* Draws curves in common axes, as lines of text.  colours: ANSI colours of the
   curves; NULL: none. */
void plot_render(Buffer *out, const Plot *curves, uint32_t count, int rows,
                 int width, const int *colours);
void plot_print(const Plot *plot, int64_t size);

#endif
