/* A canvas that writes SVG.  Text stays text, so that files are small, and
 * other programs can search and edit it.  Main entry point: figure_svg. */
#include "figure/internal.h"

#include <math.h>
#include <string.h>

typedef struct SvgCanvas {
  Canvas base;
  Buffer *out;
} SvgCanvas;

static Buffer *out_of(Canvas *c) {
  return ((SvgCanvas *)c)->out;
}

/* At most two decimals, without zeros at the end. */
static void put_number(Buffer *out, double v) {
  char text[40];
  int len = snprintf(text, sizeof text, "%.2f", v);
  while (text[len - 1] == '0')
    len--;
  if (text[len - 1] == '.')
    len--;
  bool is_zero = len == 2 && text[0] == '-' && text[1] == '0';
  buffer_add(out, is_zero ? "0" : text, is_zero ? 1 : (size_t)len);
}

static void put_attribute(Buffer *out, const char *name, double v) {
  buffer_printf(out, " %s=\"", name);
  put_number(out, v);
  buffer_putc(out, '"');
}

static void put_colour(Buffer *out, const char *name, Rgb c) {
  buffer_printf(out, " %s=\"#%02x%02x%02x\"", name, c.r, c.g, c.b);
}

static void put_box(Buffer *out, double x, double y, double w, double h) {
  put_attribute(out, "x", x);
  put_attribute(out, "y", y);
  put_attribute(out, "width", w);
  put_attribute(out, "height", h);
}

static void begin_clip(Canvas *c, double x, double y, double w, double h) {
  Buffer *out = out_of(c);
  char id[80]; /* equal ids in one HTML document are equal areas */
  snprintf(id, sizeof id, "area-%.0f-%.0f-%.0f-%.0f", 100 * x, 100 * y, 100 * w,
           100 * h);
  buffer_printf(out, "<clipPath id=\"%s\"><rect", id);
  put_box(out, x, y, w, h);
  buffer_printf(out, "/></clipPath>\n<g clip-path=\"url(#%s)\">\n", id);
}

static void end_clip(Canvas *c) {
  buffer_puts(out_of(c), "</g>\n");
}

static void put_path(Buffer *out, const Points *p) {
  bool is_new = true;
  buffer_puts(out, " d=\"");
  for (size_t i = 0; i < p->count; i++) {
    if (isnan(p->at[i].x)) {
      is_new = true;
      continue;
    }
    bool is_alone = is_new && (i + 1 == p->count || isnan(p->at[i + 1].x));
    buffer_putc(out, is_new ? 'M' : 'L');
    put_number(out, p->at[i].x);
    buffer_putc(out, ' ');
    put_number(out, p->at[i].y);
    if (is_alone) /* a round cap is a dot */
      buffer_puts(out, "h0");
    is_new = false;
  }
  buffer_putc(out, '"');
}

static void put_stroke(Buffer *out, double width, Rgb colour) {
  buffer_puts(out, " fill=\"none\"");
  put_colour(out, "stroke", colour);
  put_attribute(out, "stroke-width", width);
  buffer_puts(out, "/>\n");
}

static void lines(Canvas *c, const Points *p, double width, Rgb colour) {
  Buffer *out = out_of(c);
  if (!p->count)
    return;
  buffer_puts(out, "<path");
  put_path(out, p);
  put_stroke(out, width, colour);
}

static void dots(Canvas *c, const Points *p, double diameter, Rgb colour) {
  Buffer *out = out_of(c);
  if (!p->count)
    return;
  buffer_puts(out, "<path d=\"");
  for (size_t i = 0; i < p->count; i++) {
    buffer_putc(out, 'M');
    put_number(out, p->at[i].x);
    buffer_putc(out, ' ');
    put_number(out, p->at[i].y);
    buffer_puts(out, "h0");
  }
  buffer_putc(out, '"');
  put_stroke(out, diameter, colour);
}

static void put_fill(Buffer *out, double opacity, Rgb colour) {
  put_colour(out, "fill", colour);
  if (opacity < 1)
    put_attribute(out, "fill-opacity", opacity);
  buffer_puts(out, "/>\n");
}

static void polygon(Canvas *c, const Points *p, double opacity, Rgb colour) {
  Buffer *out = out_of(c);
  buffer_puts(out, "<path");
  put_path(out, p);
  put_fill(out, opacity, colour);
}

static void rectangle(Canvas *c, double x, double y, double w, double h,
                      double opacity, Rgb colour) {
  Buffer *out = out_of(c);
  buffer_puts(out, "<path class=\"axon\" d=\"M");
  put_number(out, x);
  buffer_putc(out, ' ');
  put_number(out, y);
  buffer_putc(out, 'h');
  put_number(out, w);
  buffer_putc(out, 'v');
  put_number(out, h);
  buffer_putc(out, 'h');
  put_number(out, -w);
  buffer_puts(out, "z\"");
  put_fill(out, opacity, colour);
}

/* Control characters are not permitted in XML. */
static void put_escaped(Buffer *out, const char *text) {
  for (const char *p = text; *p; p++)
    if (*p == '&')
      buffer_puts(out, "&amp;");
    else if (*p == '<')
      buffer_puts(out, "&lt;");
    else if (*p == '>')
      buffer_puts(out, "&gt;");
    else
      buffer_putc(out, (unsigned char)*p < ' ' ? ' ' : *p);
}

static void put_text(Canvas *c, const Text *text, Rgb colour) {
  static const char *const anchors[] = {[ANCHOR_START] = "start",
                                        [ANCHOR_MIDDLE] = "middle",
                                        [ANCHOR_END] = "end"};
  Buffer *out = out_of(c);
  buffer_puts(out, "<text");
  if (text->is_vertical) {
    buffer_puts(out, " transform=\"translate(");
    put_number(out, text->x);
    buffer_putc(out, ' ');
    put_number(out, text->y);
    buffer_puts(out, ") rotate(-90)\"");
  } else {
    put_attribute(out, "x", text->x);
    put_attribute(out, "y", text->y);
  }
  put_attribute(out, "font-size", text->size);
  buffer_printf(out, " text-anchor=\"%s\"", anchors[text->anchor]);
  put_colour(out, "fill", colour);
  buffer_putc(out, '>');
  put_escaped(out, text->text);
  buffer_puts(out, "</text>\n");
}

bool figure_svg(Buffer *out, const Figure *f, FigureSize size, Fault *fault) {
  static const CanvasFunctions functions = {.min_cell = 2,
                                            .begin_clip = begin_clip,
                                            .end_clip = end_clip,
                                            .lines = lines,
                                            .polygon = polygon,
                                            .rectangle = rectangle,
                                            .dots = dots,
                                            .text = put_text};
  if (!figure_complete_size(&size, fault) || !figure_check(f, fault))
    return false;
  SvgCanvas c = {.base.functions = &functions, .out = out};
  long long w = size.width, h = size.height;
  buffer_printf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" "
                "height=\"%lld\" viewBox=\"0 0 %lld %lld\" "
                "stroke-linecap=\"round\" stroke-linejoin=\"round\" "
                "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
                "<style>.axon{shape-rendering:crispEdges}</style>\n",
                w, h, w, h);
  figure_draw(&c.base, f, (double)w, (double)h);
  buffer_puts(out, "</svg>\n");
  return true;
}
