/* Draws a plot as pixels, with supersampling for smooth edges. */
#include "show/show.h"
#include "support/compiler.h"
#include "support/mem.h"

#include <string.h>

enum {
  SUPERSAMPLE = 2,
  DEFAULT_WIDTH = 800,
  MARGIN_PIXELS = 24,
  LABEL_PIXELS = 14,
  GLYPH_W = 5,
  GLYPH_H = 7
};

typedef struct Rgb {
  uint8_t r, g, b;
} Rgb;

static const Rgb background = {255, 255, 255}, grid_colour = {228, 228, 228},
                 axis_colour = {70, 70, 70}, data_colour = {31, 119, 180};

typedef struct Canvas {
  int width, height;
  Rgb *at;
} Canvas;

/* Coordinates refer to the supersampled grid. */
static void fill(Canvas *s, int x0, int y0, int x1, int y1, Rgb colour) {
  x0 = x0 < 0 ? 0 : x0, y0 = y0 < 0 ? 0 : y0;
  x1 = x1 > s->width ? s->width : x1, y1 = y1 > s->height ? s->height : y1;
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++)
      s->at[(size_t)y * (size_t)s->width + (size_t)x] = colour;
}

/* ---- digits: glyphs of 5 by 7 pixels, one row each; the left pixel is the
   highest bit ---- */

static const struct Glyph {
  char c;
  uint8_t rows[GLYPH_H];
} glyphs[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
    {'2', {14, 17, 1, 2, 4, 8, 31}},     {'3', {31, 2, 4, 2, 1, 17, 14}},
    {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},
    {'8', {14, 17, 17, 14, 17, 17, 14}}, {'9', {14, 17, 17, 15, 1, 2, 12}},
    {'.', {0, 0, 0, 0, 0, 12, 12}},      {'-', {0, 0, 0, 31, 0, 0, 0}},
    {'+', {0, 4, 4, 31, 4, 4, 0}},       {'e', {0, 0, 14, 17, 31, 16, 14}},
};

enum { DOT = SUPERSAMPLE * 3 / 2, ADVANCE = (GLYPH_W + 1) * DOT };

static void put_glyph(Canvas *s, int x, int y, char c) {
  for (size_t i = 0; i < ARRAY_LEN(glyphs); i++)
    for (int row = 0; glyphs[i].c == c && row < GLYPH_H; row++)
      for (int col = 0; col < GLYPH_W; col++)
        if (glyphs[i].rows[row] >> (GLYPH_W - 1 - col) & 1)
          fill(s, x + col * DOT, y + row * DOT, x + (col + 1) * DOT,
               y + (row + 1) * DOT, axis_colour);
}

static int text_width(const char *text) {
  return (int)strlen(text) * ADVANCE;
}

static void put_text(Canvas *s, int x, int y, const char *text) {
  for (; *text; text++, x += ADVANCE)
    put_glyph(s, x, y, *text);
}

/* ---- the drawing ---- */

typedef struct Area { /* area of the data, in supersampled pixels */
  Canvas *canvas;
  int left, top, width, height, pen_radius;
} Area;

static void put_dot(void *owner, int x, int y) {
  Area *a = owner;
  if (x < -1 || y < -1 || x > a->width || y > a->height)
    return;
  x += a->left, y += a->top;
  fill(a->canvas, x - a->pen_radius, y - a->pen_radius, x + a->pen_radius,
       y + a->pen_radius, data_colour);
}

static void put_axes(const Plot *p, Area *a, const Ticks *y_ticks,
                     const Ticks *x_ticks) {
  Canvas *s = a->canvas;
  int bottom = a->top + a->height, right = a->left + a->width;
  for (uint32_t i = 0; i < y_ticks->count; i++) {
    double fraction = (p->top - y_ticks->at[i]) / (p->top - p->bottom);
    int y = a->top + (int)(fraction * (a->height - 1));
    fill(s, a->left, y, right, y + SUPERSAMPLE, grid_colour);
    put_text(s, a->left - text_width(y_ticks->text[i]) - 4 * SUPERSAMPLE,
             y - GLYPH_H * DOT / 2, y_ticks->text[i]);
  }
  int used = -ADVANCE; /* keeps numbers apart */
  for (uint32_t i = 0; i < x_ticks->count; i++) {
    double fraction = (x_ticks->at[i] - p->left) / (p->right - p->left);
    int x = a->left + (int)(fraction * (a->width - 1));
    int wide = text_width(x_ticks->text[i]), start = x - wide / 2;
    fill(s, x, a->top, x + SUPERSAMPLE, bottom, grid_colour);
    if (start < used + ADVANCE)
      continue;
    put_text(s, start, bottom + 5 * SUPERSAMPLE, x_ticks->text[i]);
    used = start + wide;
  }
  fill(s, a->left, a->top, a->left + SUPERSAMPLE, bottom, axis_colour);
  fill(s, a->left, bottom - SUPERSAMPLE, right, bottom, axis_colour);
}

static void draw(const Plot *p, Canvas *s) {
  Ticks y_ticks, x_ticks;
  plot_y_ticks(p, 8, &y_ticks);
  plot_x_ticks(p, (uint32_t)s->width / (SUPERSAMPLE * 75), &x_ticks);
  int label = 0;
  for (uint32_t i = 0; i < y_ticks.count; i++)
    if (text_width(y_ticks.text[i]) > label)
      label = text_width(y_ticks.text[i]);
  Area a = {.canvas = s,
            .left = label + MARGIN_PIXELS * SUPERSAMPLE,
            .top = MARGIN_PIXELS * SUPERSAMPLE};
  a.width = s->width - a.left - MARGIN_PIXELS * SUPERSAMPLE;
  a.height = s->height - a.top - (MARGIN_PIXELS + LABEL_PIXELS) * SUPERSAMPLE;
  a.pen_radius = p->kind == PLOT_SCATTER ? 2 * SUPERSAMPLE
                 : p->kind == PLOT_BAR   ? 1
                                         : SUPERSAMPLE;
  fill(s, 0, 0, s->width, s->height, background);
  put_axes(p, &a, &y_ticks, &x_ticks);
  plot_draw(p, a.width, a.height, put_dot, &a);
}

static void downsample(const Canvas *s, Tensor *out) {
  uint8_t *to = out->data;
  for (int y = 0; y < s->height; y += SUPERSAMPLE)
    for (int x = 0; x < s->width; x += SUPERSAMPLE) {
      unsigned r = 0, g = 0, b = 0;
      for (int k = 0; k < SUPERSAMPLE * SUPERSAMPLE; k++) {
        int row = y + k / SUPERSAMPLE, column = x + k % SUPERSAMPLE;
        Rgb colour = s->at[(size_t)row * (size_t)s->width + (size_t)column];
        r += colour.r, g += colour.g, b += colour.b;
      }
      *to++ = (uint8_t)(r / (SUPERSAMPLE * SUPERSAMPLE));
      *to++ = (uint8_t)(g / (SUPERSAMPLE * SUPERSAMPLE));
      *to++ = (uint8_t)(b / (SUPERSAMPLE * SUPERSAMPLE));
    }
}

Tensor *plot_pixels(const Plot *plot, int64_t size, Fault *fault) {
  int width = size >= 200 && size <= 8000 ? (int)size : DEFAULT_WIDTH;
  int height = width * 5 / 8;
  int64_t shape[] = {height, width, 3};
  Tensor *out = tensor_new(DT_U8, 3, shape, false, fault);
  if (!out)
    return NULL;
  Canvas s = {.width = width * SUPERSAMPLE, .height = height * SUPERSAMPLE};
  s.at = mem_alloc((size_t)s.width * (size_t)s.height * sizeof *s.at);
  draw(plot, &s);
  downsample(&s, out);
  mem_free(s.at);
  return out;
}
