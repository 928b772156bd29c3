/* A figure as text for a terminal.  The area of the data is a grid of
 * characters.  A braille character has two by four dots.  Without colours,
 * several series have different symbols instead.  Main entry point:
 * figure_print. */
#include "figure/internal.h"
#include "support/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MIN_COLUMNS = 8, /* of the area of the data */
  MIN_ROWS = 10,
  MAX_ROWS = 24,
  COLUMNS_PER_ROW = 5,
  X_TICK_COLUMNS = 8,
  MAX_X_TICKS = 10,
  TERMINAL_COLOURS = 8,
};

typedef struct Cell {
  uint8_t dots;      /* of a braille character, numbered as in Unicode */
  uint8_t series;    /* number + 1 of the last layer drawn here; 0: none */
  char symbol;       /* of this layer */
  bool is_above;     /* this layer is drawn above others: layer_is_above */
  bool is_filled[2]; /* has a colour in the upper and the lower half */
  double part[2];    /* colours: see colour_of_part */
} Cell;

typedef struct Screen {
  Buffer *out;
  const Figure *figure;
  FigureStyle style;
  bool has_symbols; /* series differ by symbols, not by colours */
  Axes axes;
  Area area; /* in dots */
  int columns, rows, margin;
  int colour_labels; /* columns of the numbers of the colour bar */
  Cell *cells;
} Screen;

static bool has_text(const char *text) {
  return text && *text;
}

static int columns_of(const char *text) {
  return (int)utf8_columns(text, strlen(text));
}

/* ---- symbols and colours ---- */

static char symbol_of(LayerKind kind, size_t series) {
  static const char symbols[] = {'*', '+', 'o', 'x', '#', '@', '%', '&'};
  switch (kind) {
  case LAYER_AREA:
    return ':';
  case LAYER_BARS:
    return '#';
  case LAYER_NONE:
  case LAYER_LINE:
  case LAYER_STEP:
  case LAYER_SCATTER:
  case LAYER_HEATMAP:
  case LAYER_KIND_COUNT:
    return symbols[series % sizeof symbols];
  }
  return '*';
}

/* SGR codes of foreground colours. */
static int terminal_colour(size_t series) {
  static const int codes[TERMINAL_COLOURS] = {36, 33, 35, 32, 31, 34, 96, 93};
  return codes[series % TERMINAL_COLOURS];
}

static void put_in_colour(const Screen *s, size_t series, const char *text) {
  bool has_colours = s->style.colours != COLOURS_NONE;
  if (has_colours)
    buffer_printf(s->out, "\033[%dm", terminal_colour(series));
  buffer_puts(s->out, text);
  if (has_colours)
    buffer_puts(s->out, "\033[0m");
}

/* ---- drawing on the grid ---- */

typedef struct Pen {
  Screen *screen;
  uint8_t series;
  char symbol;
  bool is_above;
} Pen;

static void put_dot(const Pen *pen, int x, int y) {
  static const uint8_t bits[4][2] = {
      {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  const Screen *s = pen->screen;
  if (x < 0 || y < 0 || x >= 2 * s->columns || y >= 4 * s->rows)
    return;
  Cell *c = &s->cells[(y / 4) * s->columns + x / 2];
  if (pen->is_above && !c->is_above)
    c->dots = 0; /* otherwise a bar would hide a line */
  c->dots |= bits[y % 4][x % 2];
  c->is_above = pen->is_above;
  c->series = pen->series;
  c->symbol = pen->symbol;
}

static int round_dot(double v) {
  return (int)lround(fmin(fmax(v, -2), 1e6));
}

/* The part of a segment inside of [0, size], by Liang and Barsky. */
static bool clip(double from, double to, double size, double *t0, double *t1) {
  double d = to - from;
  if (d == 0)
    return from >= 0 && from <= size;
  double a = -from / d, b = (size - from) / d;
  *t0 = fmax(*t0, fmin(a, b));
  *t1 = fmin(*t1, fmax(a, b));
  return *t0 <= *t1;
}

/* Bresenham's line algorithm. */
static void put_segment(const Pen *pen, Point from, Point to) {
  const Screen *s = pen->screen;
  double t0 = 0, t1 = 1;
  if (!clip(from.x, to.x, s->area.width, &t0, &t1) ||
      !clip(from.y, to.y, s->area.height, &t0, &t1))
    return;
  double w = to.x - from.x, h = to.y - from.y;
  int x0 = round_dot(from.x + t0 * w), y0 = round_dot(from.y + t0 * h);
  int x1 = round_dot(from.x + t1 * w), y1 = round_dot(from.y + t1 * h);
  int dx = abs(x1 - x0), dy = -abs(y1 - y0), error = dx + dy;
  int sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1;
  for (;;) {
    put_dot(pen, x0, y0);
    if (x0 == x1 && y0 == y1)
      return;
    int twice = 2 * error;
    if (twice >= dy)
      error += dy, x0 += sx;
    if (twice <= dx)
      error += dx, y0 += sy;
  }
}

static void draw_lines(const Pen *pen, const FigureLayer *layer) {
  Points p = {0};
  shape_line(&pen->screen->area, layer, &p);
  for (size_t i = 0; i < p.count; i++) {
    bool is_last = i + 1 == p.count || isnan(p.at[i + 1].x);
    if (!isnan(p.at[i].x))
      put_segment(pen, p.at[i], is_last ? p.at[i] : p.at[i + 1]);
  }
  points_free(&p);
}

static void draw_points(const Pen *pen, const FigureLayer *layer) {
  Points p = {0};
  shape_scatter(&pen->screen->area, layer, 0.5, &p);
  for (size_t i = 0; i < p.count; i++)
    put_dot(pen, round_dot(p.at[i].x), round_dot(p.at[i].y));
  points_free(&p);
}

static void draw_bars(const Pen *pen, const FigureLayer *layer) {
  for (size_t i = 0; i < layer->count; i++) {
    Point c[2];
    if (layer->y[i] == 0 || !shape_bar(&pen->screen->area, layer, i, c))
      continue;
    int x0 = round_dot(c[0].x), x1 = round_dot(c[1].x);
    int y0 = round_dot(fmax(c[0].y, 0));
    int y1 = round_dot(fmin(c[1].y, pen->screen->area.height));
    for (int x = x0; x <= (x1 > x0 ? x1 - 1 : x0); x++)
      for (int y = y0; y <= y1; y++)
        put_dot(pen, x, y);
  }
}

/* Between two vertices of an area: every second dot, in columns. */
static void draw_area_part(const Pen *pen, const FigureLayer *l, size_t i) {
  const Area *a = &pen->screen->area;
  Point p = area_point(a, l->x[i], l->y[i]);
  Point p2 = area_point(a, l->x[i], l->y2[i]);
  Point q = area_point(a, l->x[i + 1], l->y[i + 1]);
  Point q2 = area_point(a, l->x[i + 1], l->y2[i + 1]);
  if (isnan(p.x) || isnan(p2.x) || isnan(q.x) || isnan(q2.x))
    return;
  int from = round_dot(fmax(fmin(p.x, q.x), 0));
  int to = round_dot(fmin(fmax(p.x, q.x), a->width));
  for (int x = from; x <= to; x++) {
    double t = q.x == p.x ? 0 : fmin(fmax((x - p.x) / (q.x - p.x), 0), 1);
    double y = p.y + t * (q.y - p.y), y2 = p2.y + t * (q2.y - p2.y);
    int low = round_dot(fmax(fmin(y, y2), 0));
    int high = round_dot(fmin(fmax(y, y2), a->height));
    for (int k = low; k <= high; k++)
      if ((x + k) % 2 == 0)
        put_dot(pen, x, k);
  }
}

static void draw_heatmap(const Screen *s, const FigureLayer *layer) {
  for (int y = 0; y < 2 * s->rows; y++)
    for (int x = 0; x < s->columns; x++) {
      Cell *c = &s->cells[(y / 2) * s->columns + x];
      Area halves = s->area; /* a unit is half a character */
      halves.width = s->columns, halves.height = 2 * s->rows;
      double z;
      if (!heatmap_value_at(&halves, layer, x + 0.5, y + 0.5, &z))
        continue;
      c->is_filled[y % 2] = true;
      c->part[y % 2] = axis_part(&s->axes.colours, z);
    }
}

static void draw_layer(Screen *s, size_t i) {
  const FigureLayer *layer = &s->figure->layers[i];
  size_t series = series_of_layer(s->figure, i);
  Pen pen = {s, (uint8_t)(series % TERMINAL_COLOURS + 1),
             symbol_of(layer->kind, series), layer_is_above(layer->kind)};
  switch (layer->kind) {
  case LAYER_LINE:
  case LAYER_STEP:
    draw_lines(&pen, layer);
    break;
  case LAYER_SCATTER:
    draw_points(&pen, layer);
    break;
  case LAYER_AREA:
    for (size_t k = 0; k + 1 < layer->count; k++)
      draw_area_part(&pen, layer, k);
    break;
  case LAYER_BARS:
    draw_bars(&pen, layer);
    break;
  case LAYER_HEATMAP:
    if (layer->count == 2)
      draw_heatmap(s, layer);
    break;
  case LAYER_NONE:
  case LAYER_KIND_COUNT:
    break;
  }
}

/* ---- rows of characters ---- */

static bool is_same_cell(const Cell *a, const Cell *b) {
  return a->series == b->series && !a->is_filled[0] && !a->is_filled[1] &&
         !b->is_filled[0] && !b->is_filled[1];
}

static const char *shade(const Screen *s, double part) {
  static const char *const ascii[] = {".", ":", "-", "=", "+",
                                      "*", "#", "%", "@"};
  static const char *const blocks[] = {"·", "░", "▒", "▓", "█"};
  if (isnan(part))
    return " ";
  int count = s->style.is_ascii ? ARRAY_LEN(ascii) : ARRAY_LEN(blocks);
  int k = (int)(fmin(fmax(part, 0), 1) * count);
  k = k == count ? count - 1 : k;
  return s->style.is_ascii ? ascii[k] : blocks[k];
}

static void put_glyph(const Screen *s, const Cell *c) {
  if (c->dots && s->has_symbols)
    buffer_putc(s->out, c->symbol);
  else if (c->dots)
    buffer_printf(s->out, "\xe2%c%c", 0xa0 | c->dots >> 6,
                  0x80 | (c->dots & 0x3f));
  else
    buffer_putc(s->out, ' ');
}

/* Two colours, one above the other. */
static void put_halves(const Screen *s, const Cell *c) {
  if (s->style.colours == COLOURS_NONE) {
    bool both = c->is_filled[0] && c->is_filled[1] && !isnan(c->part[0]) &&
                !isnan(c->part[1]);
    int half = c->is_filled[0] && !isnan(c->part[0]) ? 0 : 1;
    buffer_puts(s->out,
                shade(s, both ? (c->part[0] + c->part[1]) / 2 : c->part[half]));
    return;
  }
  int first = c->is_filled[0] ? 0 : 1;
  colour_put(s->out, s->style.colours, colour_of_part(c->part[first]), false);
  if (c->is_filled[0] && c->is_filled[1])
    colour_put(s->out, s->style.colours, colour_of_part(c->part[1]), true);
  buffer_puts(s->out, s->style.is_ascii ? "#" : first ? "▄" : "▀");
}

static void put_cell(const Screen *s, const Cell *c) {
  if (!c->dots && (c->is_filled[0] || c->is_filled[1])) {
    put_halves(s, c);
    return;
  }
  if (s->style.colours != COLOURS_NONE && c->is_filled[0])
    colour_put(s->out, s->style.colours, colour_of_part(c->part[0]), true);
  if (s->style.colours != COLOURS_NONE && c->series)
    buffer_printf(s->out, "\033[%dm",
                  c->is_filled[0] ? 97 : terminal_colour(c->series - 1u));
  put_glyph(s, c);
}

static bool is_blank(const Cell *c) {
  return !c->dots && !c->is_filled[0] && !c->is_filled[1];
}

/* Changes the colour only where it differs, and leaves out blanks at the end
 * unless `is_padded`. */
static void put_row(const Screen *s, int row, bool is_padded) {
  const Cell *cells = s->cells + row * s->columns, *last = NULL;
  int blanks = 0;
  bool has_colours = s->style.colours != COLOURS_NONE;
  for (int x = 0; x < s->columns; x++) {
    const Cell *c = &cells[x];
    if (is_blank(c)) {
      blanks++;
      continue;
    }
    bool continues = last && !blanks && is_same_cell(last, c);
    if (last && !continues && has_colours)
      buffer_puts(s->out, "\033[0m");
    buffer_printf(s->out, "%*s", blanks, "");
    blanks = 0;
    if (continues)
      put_glyph(s, c);
    else
      put_cell(s, c);
    last = c;
  }
  if (last && has_colours)
    buffer_puts(s->out, "\033[0m");
  if (is_padded)
    buffer_printf(s->out, "%*s", blanks, "");
}

/* ---- axes and texts ---- */

/* Bytes of the longest prefix that fits. */
static size_t fitting_prefix(const char *text, int columns) {
  size_t len = 0;
  while (text[len]) {
    size_t next = len + 1;
    while ((text[next] & 0xc0) == 0x80)
      next++;
    if ((int)utf8_columns(text, next) > columns)
      break;
    len = next;
  }
  return len;
}

/* Puts `?` for what the terminal cannot show, and a blank for a control
 * character. */
static void put_fitted(const Screen *s, const char *text, int columns) {
  size_t len = fitting_prefix(text, columns);
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < 0x80 || !s->style.is_ascii)
      buffer_putc(s->out, c < ' ' ? ' ' : (char)c);
    else if (c >= 0xc0)
      buffer_putc(s->out, '?');
  }
}

static void put_centred(const Screen *s, const char *text) {
  int used = s->margin + 2, wide = columns_of(text);
  int blanks = used + (s->columns - wide) / 2;
  buffer_printf(s->out, "%*s", blanks < 0 ? 0 : blanks, "");
  put_fitted(s, text, s->style.columns);
  buffer_putc(s->out, '\n');
}

/* What stands for a layer in the legend.  `symbol` has space for its symbol. */
static const char *sample_of(const Screen *s, size_t layer, char symbol[2]) {
  LayerKind kind = s->figure->layers[layer].kind;
  if (s->has_symbols) {
    symbol[0] = symbol_of(kind, series_of_layer(s->figure, layer));
    symbol[1] = 0;
    return symbol;
  }
  return kind == LAYER_SCATTER ? "•"
         : kind == LAYER_AREA  ? "░░"
         : kind == LAYER_BARS  ? "██"
                               : "──";
}

static void put_legend(const Screen *s) {
  const Figure *f = s->figure;
  int used = 0;
  for (size_t i = 0; i < f->layer_count; i++) {
    const char *label = f->layers[i].label;
    if (!has_text(label) || f->layers[i].kind == LAYER_HEATMAP)
      continue;
    char symbol[2];
    const char *sample = sample_of(s, i, symbol);
    int wide = columns_of(sample) + 1 + columns_of(label);
    if (used && used + 3 + wide > s->style.columns) {
      buffer_putc(s->out, '\n');
      used = 0;
    }
    buffer_printf(s->out, "%*s", used ? 3 : s->margin + 2, "");
    used += wide + (used ? 3 : s->margin + 2);
    put_in_colour(s, series_of_layer(f, i), sample);
    buffer_putc(s->out, ' ');
    put_fitted(s, label, s->style.columns - s->margin - 6);
  }
  if (used)
    buffer_putc(s->out, '\n');
}

/* The tick in a row of characters, or NULL. */
static const char *tick_in_row(const Screen *s, const Axis *axis, int row) {
  for (uint32_t i = 0; i < axis->tick_count; i++) {
    double y = (1 - axis->ticks[i].part) * s->area.height;
    if (round_dot(y) / 4 == row)
      return axis->ticks[i].text;
  }
  return NULL;
}

static int tick_column(const Screen *s, uint32_t i) {
  return round_dot(s->axes.x.ticks[i].part * s->area.width) / 2;
}

/* The numbers below the x axis, where there is space. */
static void put_x_numbers(const Screen *s) {
  const Axis *x = &s->axes.x;
  bool is_reversed = x->from > x->to;
  int used = -1;
  buffer_printf(s->out, "%*s", s->margin + 2, "");
  for (uint32_t k = 0; k < x->tick_count; k++) {
    uint32_t i = is_reversed ? x->tick_count - 1 - k : k;
    const char *text = x->ticks[i].text;
    int wide = columns_of(text);
    int start = tick_column(s, i) - wide / 2;
    if (start + wide > s->columns)
      start = s->columns - wide;
    if (start < 0)
      start = 0;
    if (start < used + 1 || start + wide > s->columns)
      continue;
    buffer_printf(s->out, "%*s", used < 0 ? start : start - used, "");
    put_fitted(s, text, s->columns);
    used = start + wide;
  }
  buffer_putc(s->out, '\n');
}

static void put_x_axis(const Screen *s) {
  bool ascii = s->style.is_ascii;
  buffer_printf(s->out, "%*s %s", s->margin, "", ascii ? "+" : "└");
  for (int x = 0; x < s->columns; x++) {
    bool tick = false;
    for (uint32_t i = 0; i < s->axes.x.tick_count; i++)
      tick |= tick_column(s, i) == x;
    buffer_puts(s->out, ascii ? tick ? "+" : "-" : tick ? "┬" : "─");
  }
  buffer_putc(s->out, '\n');
  put_x_numbers(s);
}

static void put_y_axis(const Screen *s, int row) {
  const char *tick = tick_in_row(s, &s->axes.y, row);
  size_t len = tick ? fitting_prefix(tick, s->margin) : 0;
  int wide = tick ? (int)utf8_columns(tick, len) : 0;
  buffer_printf(s->out, "%*s", s->margin - wide, "");
  put_fitted(s, tick ? tick : "", s->margin);
  bool ascii = s->style.is_ascii;
  buffer_puts(s->out, ascii ? tick ? " +" : " |" : tick ? " ┤" : " │");
}

static void put_colour_bar(const Screen *s, int row) {
  Cell c = {.is_filled = {true, true},
            .part = {1 - (2 * row + 0.5) / (2 * s->rows),
                     1 - (2 * row + 1.5) / (2 * s->rows)}};
  buffer_puts(s->out, "  ");
  put_halves(s, &c);
  put_halves(s, &c);
  if (s->style.colours != COLOURS_NONE)
    buffer_puts(s->out, "\033[0m");
  const char *tick = tick_in_row(s, &s->axes.colours, row);
  if (!tick)
    return;
  buffer_putc(s->out, ' ');
  put_fitted(s, tick, s->colour_labels);
}

/* ---- layout ---- */

static int widest_tick(const Axis *axis) {
  int widest = 0;
  for (uint32_t i = 0; i < axis->tick_count; i++) {
    int wide = columns_of(axis->ticks[i].text);
    widest = wide > widest ? wide : widest;
  }
  return widest;
}

static uint32_t max_x_ticks(const Screen *s) {
  const FigureAxis *x = &s->figure->x;
  int wide = X_TICK_COLUMNS;
  for (size_t i = 0; i < x->name_count; i++)
    if (!i || columns_of(x->names[i]) + 1 > wide)
      wide = columns_of(x->names[i]) + 1;
  int max = s->columns / wide;
  if (!x->name_count && max > MAX_X_TICKS)
    max = MAX_X_TICKS;
  return max < 1 ? 1 : (uint32_t)max;
}

static void lay_out(Screen *s) {
  const Figure *f = s->figure;
  const FigureAxis numbers = {0};
  int width = s->style.columns;
  s->rows = s->style.rows;
  if (!s->rows) {
    s->rows = width / COLUMNS_PER_ROW;
    s->rows = s->rows < MIN_ROWS   ? MIN_ROWS
              : s->rows > MAX_ROWS ? MAX_ROWS
                                   : s->rows;
  }
  uint32_t y_ticks = s->rows < 10 ? 4 : (uint32_t)s->rows / 3 + 1;
  axes_fit(&s->axes, f, 0);
  axis_choose_ticks(&s->axes.y, &f->y,
                    f->y.name_count ? (uint32_t)s->rows : y_ticks,
                    s->style.is_ascii);
  axis_choose_ticks(&s->axes.colours, &numbers, y_ticks, s->style.is_ascii);
  s->margin = widest_tick(&s->axes.y);
  s->margin = s->margin > width / 3 ? width / 3 : s->margin;
  s->colour_labels = widest_tick(&s->axes.colours);
  if (s->colour_labels > width / 4)
    s->colour_labels = width / 4;
  int right = s->axes.has_colours ? 5 + s->colour_labels : 0;
  s->columns = width - s->margin - 2 - right;
  if (s->columns < MIN_COLUMNS)
    s->columns = MIN_COLUMNS;
  axis_choose_ticks(&s->axes.x, &f->x, max_x_ticks(s), s->style.is_ascii);
  s->area = (Area){&s->axes, 0, 0, 2 * s->columns - 1, 4 * s->rows - 1};
}

static bool needs_symbols(const Figure *f, const FigureStyle *style) {
  size_t series = 0;
  for (size_t i = 0; i < f->layer_count; i++)
    series += f->layers[i].kind != LAYER_HEATMAP;
  return style->is_ascii || (style->colours == COLOURS_NONE && series > 1);
}

void figure_print(Buffer *out, const Figure *f, const FigureStyle *style) {
  Screen s = {.out = out, .figure = f, .style = *style};
  s.has_symbols = needs_symbols(f, style);
  lay_out(&s);
  s.cells = mem_alloc((size_t)s.columns * (size_t)s.rows * sizeof *s.cells);
  for (int above = 0; above < 2; above++)
    for (size_t i = 0; i < f->layer_count; i++)
      if (layer_is_above(f->layers[i].kind) == above)
        draw_layer(&s, i);
  if (has_text(f->title))
    put_centred(&s, f->title);
  put_legend(&s);
  if (has_text(f->y.label)) {
    put_fitted(&s, f->y.label, style->columns);
    buffer_putc(out, '\n');
  }
  for (int row = 0; row < s.rows; row++) {
    put_y_axis(&s, row);
    put_row(&s, row, s.axes.has_colours);
    if (s.axes.has_colours)
      put_colour_bar(&s, row);
    buffer_putc(out, '\n');
  }
  put_x_axis(&s);
  if (has_text(f->x.label))
    put_centred(&s, f->x.label);
  mem_free(s.cells);
}
