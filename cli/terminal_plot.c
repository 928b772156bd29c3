/* Plots on a terminal: the grid of dots as braille characters of eight dots
   each.  Main entry points: plot_render and plot_print. */
#include "cli/cli.h"
#include "cli/terminal_draw.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PLOT_ROWS = 16, MAX_COLUMNS = 100, MAX_CURVES = 4 };

typedef struct BrailleCells {
  int columns, rows;
  uint8_t *at; /* dots of each character, numbered as in Unicode */
} BrailleCells;

static void set_dot(void *owner, int x, int y) {
  static const uint8_t bits[4][2] = {
      {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  BrailleCells *c = owner;
  if (x >= 0 && y >= 0 && x < 2 * c->columns && y < 4 * c->rows)
    c->at[(y / 4) * c->columns + x / 2] |= bits[y % 4][x % 2];
}

/* The curves in one grid of characters.  A later curve covers the colour of an
   earlier one. */
static void put_row(Buffer *out, const BrailleCells *curves, uint32_t count,
                    int row, const int *colours) {
  int columns = curves[0].columns, blanks = 0;
  for (int x = 0; x < columns; x++) {
    uint8_t dots = 0;
    int colour = 0;
    for (uint32_t k = 0; k < count; k++) {
      uint8_t own = curves[k].at[row * columns + x];
      dots |= own;
      colour = own && colours ? colours[k] : colour;
    }
    if (!dots) {
      blanks++;
      continue;
    }
    buffer_printf(out, "%*s", blanks, "");
    blanks = 0;
    if (colour)
      buffer_printf(out, "\033[%dm", colour);
    buffer_printf(out, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
    if (colour)
      buffer_puts(out, "\033[0m");
  }
  buffer_putc(out, '\n');
}

/* The tick in a row of characters, or NULL. */
static const char *tick_in_row(const Plot *p, const Ticks *ticks, int row,
                               int rows) {
  for (uint32_t i = 0; i < ticks->count; i++) {
    double fraction = (p->top - ticks->at[i]) / (p->top - p->bottom);
    if ((int)lround(fraction * (4 * rows - 1)) / 4 == row)
      return ticks->text[i];
  }
  return NULL;
}

static int tick_column(const Plot *p, double at, int columns) {
  double fraction = (at - p->left) / (p->right - p->left);
  return (int)lround(fraction * (2 * columns - 1)) / 2;
}

/* The x axis, and its numbers where there is space. */
static void put_x_axis(Buffer *out, const Plot *p, const Ticks *ticks,
                       int margin, int columns) {
  char line[MAX_COLUMNS + 32];
  memset(line, ' ', sizeof line);
  int used = -1, end = 0;
  buffer_printf(out, "%*s └", margin, "");
  for (int x = 0; x < columns; x++) {
    bool tick = false;
    for (uint32_t i = 0; i < ticks->count; i++)
      tick |= tick_column(p, ticks->at[i], columns) == x;
    buffer_puts(out, tick ? "┬" : "─");
  }
  buffer_putc(out, '\n');
  for (uint32_t i = 0; i < ticks->count; i++) {
    int len = (int)strlen(ticks->text[i]);
    int start = tick_column(p, ticks->at[i], columns) - len / 2;
    if (start + len > columns)
      start = columns - len;
    if (start < 0)
      start = 0;
    if (start < used + 1)
      continue;
    memcpy(line + start, ticks->text[i], (size_t)len);
    used = end = start + len;
  }
  buffer_printf(out, "%*s  %.*s\n", margin, "", end, line);
}

/* The union of the axes of all curves. */
static Plot common_axes(const Plot *curves, uint32_t count) {
  Plot frame = curves[0];
  for (uint32_t k = 1; k < count; k++) {
    frame.left = fmin(frame.left, curves[k].left);
    frame.right = fmax(frame.right, curves[k].right);
    frame.bottom = fmin(frame.bottom, curves[k].bottom);
    frame.top = fmax(frame.top, curves[k].top);
  }
  return frame;
}

void plot_render(Buffer *out, const Plot *curves, uint32_t count, int rows,
                 int width, const int *colours) {
  Plot frame = common_axes(curves, count);
  Ticks y_ticks, x_ticks;
  plot_y_ticks(&frame, rows < 10 ? 4 : 6, &y_ticks);
  int margin = 0;
  for (uint32_t i = 0; i < y_ticks.count; i++)
    if ((int)strlen(y_ticks.text[i]) > margin)
      margin = (int)strlen(y_ticks.text[i]);
  width = width > MAX_COLUMNS ? MAX_COLUMNS : width;
  int columns = width - margin - 2 < 8 ? 8 : width - margin - 2;
  uint32_t max = (uint32_t)columns / 8;
  plot_x_ticks(&frame, max < 8 ? max : 8, &x_ticks);
  count = count > MAX_CURVES ? MAX_CURVES : count;
  size_t size = (size_t)columns * (size_t)rows;
  uint8_t *dots = mem_alloc(count * size);
  BrailleCells cells[MAX_CURVES];
  for (uint32_t k = 0; k < count; k++) {
    cells[k] =
        (BrailleCells){.rows = rows, .columns = columns, .at = dots + k * size};
    Plot curve = frame;
    curve.kind = curves[k].kind, curve.count = curves[k].count;
    curve.x = curves[k].x, curve.y = curves[k].y;
    plot_draw(&curve, 2 * columns, 4 * rows, set_dot, &cells[k]);
  }
  for (int row = 0; row < rows; row++) {
    const char *tick = tick_in_row(&frame, &y_ticks, row, rows);
    buffer_printf(out, "%*s %s", margin, tick ? tick : "", tick ? "┤" : "│");
    put_row(out, cells, count, row, colours);
  }
  put_x_axis(out, &frame, &x_ticks, margin, columns);
  mem_free(dots);
}

void plot_print(const Plot *p, int64_t size) {
  Buffer out = {0};
  int width = terminal_width();
  if (size > 0 && size < width)
    width = (int)size;
  plot_render(&out, p, 1, PLOT_ROWS, width, NULL);
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}
