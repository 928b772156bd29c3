/* A plot as a PNG file: drawn at twice the size and averaged, so that edges are
 * smooth. */
#include "cli/show.h"

#include <string.h>

enum { FINE = 2, WIDTH = 800, MARGIN = 24, LABEL = 14, GLYPH_W = 5,
       GLYPH_H = 7 };

typedef struct Ink {
  uint8_t r, g, b;
} Ink;

static const Ink paper = {255, 255, 255}, rule = {228, 228, 228},
                 frame = {70, 70, 70}, data = {31, 119, 180};

typedef struct Sheet {
  int width, height;
  Ink *at;
} Sheet;

/* Coordinates are of the fine grid. */
static void fill(Sheet *s, int x0, int y0, int x1, int y1, Ink ink) {
  x0 = x0 < 0 ? 0 : x0, y0 = y0 < 0 ? 0 : y0;
  x1 = x1 > s->width ? s->width : x1, y1 = y1 > s->height ? s->height : y1;
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++)
      s->at[(size_t)y * (size_t)s->width + (size_t)x] = ink;
}

/* ---- numbers: glyphs of 5 by 7, a row each, the left pixel highest ---- */

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

enum { DOT = FINE * 3 / 2, ADVANCE = (GLYPH_W + 1) * DOT };

static void put_glyph(Sheet *s, int x, int y, char c) {
  for (size_t i = 0; i < ARRAY_LEN(glyphs); i++)
    for (int row = 0; glyphs[i].c == c && row < GLYPH_H; row++)
      for (int col = 0; col < GLYPH_W; col++)
        if (glyphs[i].rows[row] >> (GLYPH_W - 1 - col) & 1)
          fill(s, x + col * DOT, y + row * DOT, x + (col + 1) * DOT,
               y + (row + 1) * DOT, frame);
}

static int text_width(const char *text) { return (int)strlen(text) * ADVANCE; }

static void put_text(Sheet *s, int x, int y, const char *text) {
  for (; *text; text++, x += ADVANCE)
    put_glyph(s, x, y, *text);
}

/* ---- the drawing ---- */

typedef struct Area { /* of the data, in fine pixels */
  Sheet *sheet;
  int left, top, width, height, pen;
} Area;

static void put_dot(void *owner, int x, int y) {
  Area *a = owner;
  if (x < -1 || y < -1 || x > a->width || y > a->height)
    return;
  x += a->left, y += a->top;
  fill(a->sheet, x - a->pen, y - a->pen, x + a->pen, y + a->pen, data);
}

static void put_axes(const Plot *p, Area *a, const Ticks *up,
                     const Ticks *along) {
  Sheet *s = a->sheet;
  int bottom = a->top + a->height, right = a->left + a->width;
  for (uint32_t i = 0; i < up->count; i++) {
    double part = (p->top - up->at[i]) / (p->top - p->bottom);
    int y = a->top + (int)(part * (a->height - 1));
    fill(s, a->left, y, right, y + FINE, rule);
    put_text(s, a->left - text_width(up->text[i]) - 4 * FINE,
             y - GLYPH_H * DOT / 2, up->text[i]);
  }
  int used = -ADVANCE; /* numbers do not run into one another */
  for (uint32_t i = 0; i < along->count; i++) {
    double part = (along->at[i] - p->left) / (p->right - p->left);
    int x = a->left + (int)(part * (a->width - 1));
    int wide = text_width(along->text[i]), start = x - wide / 2;
    fill(s, x, a->top, x + FINE, bottom, rule);
    if (start < used + ADVANCE)
      continue;
    put_text(s, start, bottom + 5 * FINE, along->text[i]);
    used = start + wide;
  }
  fill(s, a->left, a->top, a->left + FINE, bottom, frame);
  fill(s, a->left, bottom - FINE, right, bottom, frame);
}

static void draw(const Plot *p, Sheet *s) {
  Ticks up, along;
  plot_ticks_up(p, 8, &up);
  plot_ticks_along(p, (uint32_t)s->width / (FINE * 75), &along);
  int label = 0;
  for (uint32_t i = 0; i < up.count; i++)
    if (text_width(up.text[i]) > label)
      label = text_width(up.text[i]);
  Area a = {.sheet = s, .left = label + MARGIN * FINE, .top = MARGIN * FINE};
  a.width = s->width - a.left - MARGIN * FINE;
  a.height = s->height - a.top - (MARGIN + LABEL) * FINE;
  a.pen = p->kind == PLOT_SCATTER ? 2 * FINE : p->kind == PLOT_BAR ? 1 : FINE;
  fill(s, 0, 0, s->width, s->height, paper);
  put_axes(p, &a, &up, &along);
  plot_draw(p, a.width, a.height, put_dot, &a);
}

static void average(const Sheet *s, Tensor *out) {
  uint8_t *to = out->data;
  for (int y = 0; y < s->height; y += FINE)
    for (int x = 0; x < s->width; x += FINE) {
      unsigned r = 0, g = 0, b = 0;
      for (int k = 0; k < FINE * FINE; k++) {
        int row = y + k / FINE, column = x + k % FINE;
        Ink ink = s->at[(size_t)row * (size_t)s->width + (size_t)column];
        r += ink.r, g += ink.g, b += ink.b;
      }
      *to++ = (uint8_t)(r / (FINE * FINE));
      *to++ = (uint8_t)(g / (FINE * FINE));
      *to++ = (uint8_t)(b / (FINE * FINE));
    }
}

bool plot_save(const Plot *plot, const char *path, int64_t size,
               Fault *fault) {
  int width = size >= 200 && size <= 8000 ? (int)size : WIDTH;
  int height = width * 5 / 8;
  int64_t shape[] = {height, width, 3};
  Tensor *out = tensor_new(DT_U8, 3, shape, false, fault);
  if (!out)
    return false;
  Sheet s = {.width = width * FINE, .height = height * FINE};
  s.at = mem_alloc((size_t)s.width * (size_t)s.height * sizeof *s.at);
  draw(plot, &s);
  average(&s, out);
  mem_free(s.at);
  bool ok = file_save(path, 1, NULL, &out, fault);
  tensor_release(out);
  return ok;
}
