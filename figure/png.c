/* A canvas that draws with cairo, which is loaded at the first use, and makes a
 * PNG file.  Only the functions used here are declared, so that building needs
 * no headers of cairo.  Main entry point: figure_png. */
#include "figure/internal.h"
#include "support/trap.h"

#include <math.h>
#include <string.h>

/* ---- cairo's interface (its ABI is stable since version 1.2) ---- */

typedef struct CairoSurface CairoSurface;
typedef struct Cairo Cairo;
typedef struct CairoTextExtents {
  double x_bearing, y_bearing, width, height, x_advance, y_advance;
} CairoTextExtents;
typedef int CairoWriter(void *owner, const unsigned char *at, unsigned len);

enum {
  CAIRO_FORMAT_RGB24 = 1,
  CAIRO_STATUS_SUCCESS = 0,
  CAIRO_STATUS_NO_MEMORY = 1,
  CAIRO_ROUND = 1, /* of line caps and joins */
  CAIRO_ANTIALIAS_DEFAULT = 0,
  CAIRO_ANTIALIAS_NONE = 1
};

CairoSurface *cairo_image_surface_create(int format, int width, int height);
int cairo_surface_status(CairoSurface *s);
int cairo_surface_write_to_png_stream(CairoSurface *s, CairoWriter *write,
                                      void *owner);
void cairo_surface_destroy(CairoSurface *s);
Cairo *cairo_create(CairoSurface *s);
int cairo_status(Cairo *c);
void cairo_destroy(Cairo *c);
void cairo_scale(Cairo *c, double x, double y);
void cairo_translate(Cairo *c, double x, double y);
void cairo_rotate(Cairo *c, double angle);
void cairo_save(Cairo *c);
void cairo_restore(Cairo *c);
void cairo_clip(Cairo *c);
void cairo_rectangle(Cairo *c, double x, double y, double w, double h);
void cairo_move_to(Cairo *c, double x, double y);
void cairo_line_to(Cairo *c, double x, double y);
void cairo_fill(Cairo *c);
void cairo_stroke(Cairo *c);
void cairo_set_antialias(Cairo *c, int antialias);
void cairo_set_line_cap(Cairo *c, int cap);
void cairo_set_line_join(Cairo *c, int join);
void cairo_set_line_width(Cairo *c, double width);
void cairo_set_source_rgba(Cairo *c, double r, double g, double b, double a);
void cairo_select_font_face(Cairo *c, const char *family, int slant,
                            int weight);
void cairo_set_font_size(Cairo *c, double size);
void cairo_text_extents(Cairo *c, const char *text, CairoTextExtents *out);
void cairo_show_text(Cairo *c, const char *text);

#define FUNCTIONS(F)                   \
  F(cairo_image_surface_create)        \
  F(cairo_surface_status)              \
  F(cairo_surface_write_to_png_stream) \
  F(cairo_surface_destroy)             \
  F(cairo_create)                      \
  F(cairo_status)                      \
  F(cairo_destroy)                     \
  F(cairo_scale)                       \
  F(cairo_translate)                   \
  F(cairo_rotate)                      \
  F(cairo_save)                        \
  F(cairo_restore)                     \
  F(cairo_clip)                        \
  F(cairo_rectangle)                   \
  F(cairo_move_to)                     \
  F(cairo_line_to)                     \
  F(cairo_fill)                        \
  F(cairo_stroke)                      \
  F(cairo_set_antialias)               \
  F(cairo_set_line_cap)                \
  F(cairo_set_line_join)               \
  F(cairo_set_line_width)              \
  F(cairo_set_source_rgba)             \
  F(cairo_select_font_face)            \
  F(cairo_set_font_size)               \
  F(cairo_text_extents)                \
  F(cairo_show_text)

static DYNLIB_TABLE(FUNCTIONS) lib;
static const DynLib library =
    DYNLIB("libcairo.so.2", "libcairo2", FUNCTIONS, lib);

/* ---- the canvas ---- */

typedef struct CairoCanvas {
  Canvas base;
  Cairo *cairo;
} CairoCanvas;

static Cairo *cairo_of(Canvas *c) {
  return ((CairoCanvas *)c)->cairo;
}

static void set_colour(Cairo *c, Rgb colour, double opacity) {
  lib.cairo_set_source_rgba(c, colour.r / 255.0, colour.g / 255.0,
                            colour.b / 255.0, opacity);
}

static void begin_clip(Canvas *canvas, double x, double y, double w, double h) {
  Cairo *c = cairo_of(canvas);
  lib.cairo_save(c);
  lib.cairo_rectangle(c, x, y, w, h);
  lib.cairo_clip(c);
}

static void end_clip(Canvas *canvas) {
  lib.cairo_restore(cairo_of(canvas));
}

/* A point alone is a line to itself, whose round cap is a dot. */
static void add_path(Cairo *c, const Points *p) {
  bool is_new = true;
  for (size_t i = 0; i < p->count; i++) {
    if (isnan(p->at[i].x)) {
      is_new = true;
      continue;
    }
    if (is_new)
      lib.cairo_move_to(c, p->at[i].x, p->at[i].y);
    if (!is_new || i + 1 == p->count || isnan(p->at[i + 1].x))
      lib.cairo_line_to(c, p->at[i].x, p->at[i].y);
    is_new = false;
  }
}

static void lines(Canvas *canvas, const Points *p, double width, Rgb colour) {
  Cairo *c = cairo_of(canvas);
  set_colour(c, colour, 1);
  lib.cairo_set_line_width(c, width);
  add_path(c, p);
  lib.cairo_stroke(c);
}

static void dots(Canvas *canvas, const Points *p, double diameter, Rgb colour) {
  Cairo *c = cairo_of(canvas);
  set_colour(c, colour, 1);
  lib.cairo_set_line_width(c, diameter);
  for (size_t i = 0; i < p->count; i++) {
    lib.cairo_move_to(c, p->at[i].x, p->at[i].y);
    lib.cairo_line_to(c, p->at[i].x, p->at[i].y);
    lib.cairo_stroke(c); /* a path of many dots takes quadratic time */
  }
}

static void polygon(Canvas *canvas, const Points *p, double opacity,
                    Rgb colour) {
  Cairo *c = cairo_of(canvas);
  set_colour(c, colour, opacity);
  add_path(c, p);
  lib.cairo_fill(c);
}

/* Without antialiasing, there are no seams between rectangles. */
static void rectangle(Canvas *canvas, double x, double y, double w, double h,
                      double opacity, Rgb colour) {
  Cairo *c = cairo_of(canvas);
  set_colour(c, colour, opacity);
  lib.cairo_set_antialias(c, CAIRO_ANTIALIAS_NONE);
  lib.cairo_rectangle(c, x, y, w, h);
  lib.cairo_fill(c);
  lib.cairo_set_antialias(c, CAIRO_ANTIALIAS_DEFAULT);
}

static void put_text(Canvas *canvas, const Text *text, Rgb colour) {
  Cairo *c = cairo_of(canvas);
  CairoTextExtents extents;
  set_colour(c, colour, 1);
  lib.cairo_save(c);
  lib.cairo_translate(c, text->x, text->y);
  if (text->is_vertical)
    lib.cairo_rotate(c, -acos(0));
  lib.cairo_set_font_size(c, text->size);
  lib.cairo_text_extents(c, text->text, &extents);
  double part = text->anchor == ANCHOR_START    ? 0
                : text->anchor == ANCHOR_MIDDLE ? 0.5
                                                : 1;
  lib.cairo_move_to(c, -part * extents.x_advance, 0);
  lib.cairo_show_text(c, text->text);
  lib.cairo_restore(c);
}

/* ---- the file ---- */

typedef struct Bytes {
  uint8_t *at;
  size_t len, capacity;
} Bytes;

/* Called by cairo, through which nothing may unwind. */
static int add_bytes(void *owner, const unsigned char *at, unsigned len) {
  Bytes *b = owner;
  if (b->capacity - b->len < len) {
    size_t capacity = 2 * (b->len + len);
    uint8_t *larger = mem_try_alloc(capacity);
    if (!larger)
      return CAIRO_STATUS_NO_MEMORY;
    if (b->len)
      memcpy(larger, b->at, b->len);
    mem_free(b->at);
    b->at = larger, b->capacity = capacity;
  }
  memcpy(b->at + b->len, at, len);
  b->len += len;
  return CAIRO_STATUS_SUCCESS;
}

static void draw(Cairo *c, const Figure *f, FigureSize size) {
  static const CanvasFunctions functions = {.min_cell = 1,
                                            .begin_clip = begin_clip,
                                            .end_clip = end_clip,
                                            .lines = lines,
                                            .polygon = polygon,
                                            .rectangle = rectangle,
                                            .dots = dots,
                                            .text = put_text};
  CairoCanvas canvas = {.base.functions = &functions, .cairo = c};
  lib.cairo_scale(c, size.scale, size.scale);
  lib.cairo_set_line_cap(c, CAIRO_ROUND);
  lib.cairo_set_line_join(c, CAIRO_ROUND);
  lib.cairo_select_font_face(c, "DejaVu Sans", 0, 0);
  figure_draw(&canvas.base, f, (double)size.width, (double)size.height);
}

bool figure_png(const Figure *f, FigureSize size, void **bytes, size_t *len,
                Fault *fault) {
  if (!figure_complete_size(&size, fault) || !figure_check(f, fault) ||
      !dynlib_load(&library, fault))
    return false;
  CairoSurface *surface = lib.cairo_image_surface_create(
      CAIRO_FORMAT_RGB24, (int)lround((double)size.width * size.scale),
      (int)lround((double)size.height * size.scale));
  Cairo *c = lib.cairo_create(surface);
  Bytes out = {0};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    draw(c, f, size);
    trap_end(&trap);
  }
  bool ok = trap.kind == FAIL_NONE &&
            lib.cairo_status(c) == CAIRO_STATUS_SUCCESS &&
            lib.cairo_surface_write_to_png_stream(surface, add_bytes, &out) ==
                CAIRO_STATUS_SUCCESS;
  lib.cairo_destroy(c);
  lib.cairo_surface_destroy(surface);
  if (ok) {
    *bytes = out.at, *len = out.len;
    return true;
  }
  mem_free(out.at);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  fault_set(fault, "cairo cannot draw the figure; is there enough memory?");
  return false;
}
