/* Pictures on a terminal: half-block characters of two pixels each, one above
   the other, in the colours of the terminal.  Main entry point: image_print. */
#include "cli/cli.h"
#include "cli/terminal_draw.h"
#include "support/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIN_COLUMNS = 32, MAX_COLUMNS = 120 };

/* ---- sizes ---- */

/* Small pictures grow by an integer factor; large ones shrink to the
   terminal. */
static uint32_t width_in_columns(const Image *p, int64_t size) {
  uint32_t max = (uint32_t)terminal_width();
  if (max > MAX_COLUMNS)
    max = MAX_COLUMNS;
  if (size > 0)
    return size < (int64_t)max ? (uint32_t)size : max;
  if (p->width >= MIN_COLUMNS)
    return p->width < max ? p->width : max;
  return p->width * (MIN_COLUMNS / p->width);
}

/* ---- colours ---- */

typedef enum ColourDepth { DEPTH_NONE, DEPTH_256, DEPTH_FULL } ColourDepth;

static ColourDepth colour_depth(void) {
  const char *truecolor = getenv("COLORTERM");
  if (!terminal_colours_stdout())
    return DEPTH_NONE;
  return truecolor && (!strcmp(truecolor, "truecolor") ||
                       !strcmp(truecolor, "24bit"))
             ? DEPTH_FULL
             : DEPTH_256;
}

typedef struct Colour {
  int r, g, b;
} Colour;

/* Pixels below the last row are black. */
static Colour pixel(const Image *p, uint32_t x, uint32_t y) {
  if (y >= p->height)
    return (Colour){0, 0, 0};
  const float *at = p->at + ((size_t)y * p->width + x) * p->channels;
  bool grey = p->channels == 1;
  return (Colour){(int)(at[0] * 255 + 0.5f), (int)(at[!grey] * 255 + 0.5f),
                  (int)(at[grey ? 0 : 2] * 255 + 0.5f)};
}

/* Index in the 256-colour palette: the ramp of 24 greys, or the 6 * 6 * 6
   cube. */
static int colour_256(Colour c) {
  if (c.r == c.g && c.g == c.b) {
    int grey = (c.r * 25 + 127) / 255;
    return grey == 0 ? 16 : grey == 25 ? 231 : 231 + grey;
  }
  return 16 + 36 * ((c.r * 5 + 127) / 255) + 6 * ((c.g * 5 + 127) / 255) +
         (c.b * 5 + 127) / 255;
}

static void put_colour(ColourDepth d, Colour c,
                       int sgr_code) { /* 38 foreground, 48 background */
  if (d == DEPTH_FULL)
    printf("\033[%d;2;%d;%d;%dm", sgr_code, c.r, c.g, c.b);
  else
    printf("\033[%d;5;%dm", sgr_code, colour_256(c));
}

static void put_plain(Colour top, Colour bottom) {
  static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
  int light = 299 * (top.r + bottom.r) + 587 * (top.g + bottom.g) +
              114 * (top.b + bottom.b);
  fputs(shades[light * 5 / (2 * 255 * 1000 + 1)], stdout);
}

void image_print(const Image *p, int64_t size) {
  uint32_t width = width_in_columns(p, size);
  Image small = image_resize(p, width, image_height_at(p, width));
  ColourDepth d = colour_depth();
  for (uint32_t y = 0; y < small.height; y += 2) {
    for (uint32_t x = 0; x < small.width; x++) {
      Colour top = pixel(&small, x, y), bottom = pixel(&small, x, y + 1);
      if (y + 1 == small.height && d == DEPTH_NONE)
        bottom = top;
      if (d == DEPTH_NONE) {
        put_plain(top, bottom);
        continue;
      }
      put_colour(d, top, 38);
      put_colour(d, bottom, 48);
      fputs("▀", stdout);
    }
    puts(d == DEPTH_NONE ? "" : "\033[0m");
  }
  mem_free(small.at);
}
