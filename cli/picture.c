/* Pictures on a terminal: half blocks, so that a character holds two pixels,
 * one above the other, in as many colours as the terminal has. */
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_COLUMNS = 32, MOST_COLUMNS = 120 };

/* ---- sizes ---- */

static float mean_of(const Picture *p, uint32_t c, uint32_t x0, uint32_t x1,
                     uint32_t y0, uint32_t y1) {
  double sum = 0;
  for (uint32_t y = y0; y < y1; y++)
    for (uint32_t x = x0; x < x1; x++)
      sum += (double)p->at[((size_t)y * p->width + x) * p->channels + c];
  return (float)(sum / ((double)(x1 - x0) * (y1 - y0)));
}

/* Where pixel i of `to` pixels begins in `from` pixels. */
static uint32_t begins(uint32_t i, uint32_t from, uint32_t to) {
  return (uint32_t)((uint64_t)i * from / to);
}

static uint32_t ends(uint32_t i, uint32_t from, uint32_t to) {
  uint32_t start = begins(i, from, to), end = begins(i + 1, from, to);
  return end > start ? end : start + 1;
}

/* Averages where it gets smaller, repeats where it gets larger. */
static Picture resize(const Picture *p, uint32_t width, uint32_t height) {
  Picture out = {width, height, p->channels, NULL};
  out.at = mem_alloc((size_t)width * height * p->channels * sizeof *out.at);
  float *at = out.at;
  for (uint32_t y = 0; y < height; y++)
    for (uint32_t x = 0; x < width; x++)
      for (uint32_t c = 0; c < p->channels; c++)
        *at++ = mean_of(p, c, begins(x, p->width, width),
                        ends(x, p->width, width), begins(y, p->height, height),
                        ends(y, p->height, height));
  return out;
}

/* Small pictures grow by a whole factor, large ones shrink to the terminal. */
static uint32_t columns(const Picture *p, int64_t size) {
  uint32_t most = (uint32_t)host_width();
  if (most > MOST_COLUMNS)
    most = MOST_COLUMNS;
  if (size > 0)
    return size < (int64_t)most ? (uint32_t)size : most;
  if (p->width >= LEAST_COLUMNS)
    return p->width < most ? p->width : most;
  return p->width * (LEAST_COLUMNS / p->width);
}

static uint32_t rows(const Picture *p, uint32_t width) {
  uint64_t height = ((uint64_t)p->height * width + p->width / 2) / p->width;
  return height < 1 ? 1 : height > 2000 ? 2000 : (uint32_t)height;
}

/* ---- colours ---- */

typedef enum Depth { DEPTH_NONE, DEPTH_256, DEPTH_FULL } Depth;

static Depth depth(void) {
  const char *truecolor = getenv("COLORTERM");
  if (!host_colour_out())
    return DEPTH_NONE;
  return truecolor && (!strcmp(truecolor, "truecolor") ||
                       !strcmp(truecolor, "24bit"))
             ? DEPTH_FULL
             : DEPTH_256;
}

typedef struct Colour {
  int r, g, b;
} Colour;

/* Below the last row there is black. */
static Colour pixel(const Picture *p, uint32_t x, uint32_t y) {
  if (y >= p->height)
    return (Colour){0, 0, 0};
  const float *at = p->at + ((size_t)y * p->width + x) * p->channels;
  bool grey = p->channels == 1;
  return (Colour){(int)(at[0] * 255 + 0.5f), (int)(at[!grey] * 255 + 0.5f),
                  (int)(at[grey ? 0 : 2] * 255 + 0.5f)};
}

/* Of the 256 colours: the ramp of 24 greys, or the cube of 6 * 6 * 6. */
static int colour_256(Colour c) {
  if (c.r == c.g && c.g == c.b) {
    int grey = (c.r * 25 + 127) / 255;
    return grey == 0 ? 16 : grey == 25 ? 231 : 231 + grey;
  }
  return 16 + 36 * ((c.r * 5 + 127) / 255) + 6 * ((c.g * 5 + 127) / 255) +
         (c.b * 5 + 127) / 255;
}

static void put_colour(Depth d, Colour c, int ground) { /* 38 fore, 48 back */
  if (d == DEPTH_FULL)
    printf("\033[%d;2;%d;%d;%dm", ground, c.r, c.g, c.b);
  else
    printf("\033[%d;5;%dm", ground, colour_256(c));
}

static void put_plain(Colour top, Colour bottom) {
  static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
  int light = 299 * (top.r + bottom.r) + 587 * (top.g + bottom.g) +
              114 * (top.b + bottom.b);
  fputs(shades[light * 5 / (2 * 255 * 1000 + 1)], stdout);
}

void picture_print(const Picture *p, int64_t size) {
  uint32_t width = columns(p, size);
  Picture small = resize(p, width, rows(p, width));
  Depth d = depth();
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

bool picture_save(const Picture *p, const char *path, int64_t size,
                  Fault *fault) {
  uint32_t width = size > 0 && size < 20000 ? (uint32_t)size : p->width;
  Picture out = resize(p, width,
                       width == p->width ? p->height : rows(p, width));
  int64_t shape[] = {out.height, out.width, out.channels};
  Tensor *t = tensor_new(DT_U8, out.channels == 1 ? 2 : 3, shape, false, fault);
  for (int64_t i = 0; t && i < t->count; i++)
    ((uint8_t *)t->data)[i] = (uint8_t)(out.at[i] * 255 + 0.5f);
  bool ok = t && file_save(path, 1, NULL, &t, fault);
  if (t)
    tensor_release(t);
  mem_free(out.at);
  return ok;
}
