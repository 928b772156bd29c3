/* Checks figures, and writes them to files.  Main entry points: figure_check,
 * figure_save. */
#define _GNU_SOURCE
#include "figure/internal.h"
#include "runtime/replace.h"
#include "support/file_open.h"
#include "support/trap.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

enum {
  DEFAULT_WIDTH = 800,
  DEFAULT_HEIGHT = 500,
  MIN_SIZE = 100,
  MAX_SIZE = 10000, /* px, and pixels of a PNG file */
};

static bool check_layer(const Figure *f, const FigureLayer *layer,
                        Fault *fault) {
  if (layer->kind != LAYER_HEATMAP)
    return true;
  if (!f->x.is_log && !f->y.is_log)
    return true;
  fault_set(fault, "a heat map needs linear axes");
  fault_set_help(fault, "draw the logarithm of the coordinates");
  return false;
}

static bool check_axis(const FigureAxis *axis, const char *name, Fault *fault) {
  double from = axis->from, to = axis->to;
  bool is_good = from != to || !isfinite(from);
  if (axis->is_log)
    is_good &= (from > 0 || !isfinite(from)) && (to > 0 || !isfinite(to));
  if (is_good)
    return true;
  fault_set(fault, "the limits of the %s axis cannot be %g and %g", name, from,
            to);
  fault_set_help(fault, axis->is_log
                            ? "the limits of a logarithmic axis must be "
                              "positive and different"
                            : "the limits must be different");
  return false;
}

bool figure_check(const Figure *f, Fault *fault) {
  if (!check_axis(&f->x, "x", fault) || !check_axis(&f->y, "y", fault))
    return false;
  for (size_t i = 0; i < f->layer_count; i++)
    if (!check_layer(f, &f->layers[i], fault))
      return false;
  return true;
}

bool figure_complete_size(FigureSize *size, Fault *fault) {
  size->width = size->width ? size->width : DEFAULT_WIDTH;
  size->height = size->height ? size->height : DEFAULT_HEIGHT;
  size->scale = size->scale != 0 ? size->scale : 1;
  double w = (double)size->width, h = (double)size->height;
  double largest = fmax(w, h), smallest = fmin(w, h);
  if (smallest >= MIN_SIZE && largest <= MAX_SIZE && size->scale > 0 &&
      smallest * size->scale >= 1 && largest * size->scale <= MAX_SIZE)
    return true;
  fault_set(fault, "a figure cannot have %lld by %lld px at the scale %g",
            (long long)size->width, (long long)size->height, size->scale);
  fault_set_help(fault,
                 "width and height are from %d to %d px; at the scale, at most "
                 "%d pixels",
                 MIN_SIZE, MAX_SIZE, MAX_SIZE);
  return false;
}

/* ---- files ---- */

static bool write_bytes(const char *path, const void *at, size_t len,
                        Fault *fault) {
  if (replace_file(path, 0666, at, len))
    return true;
  fault_set(fault, "cannot write \"%.200s\": %s", path, file_open_error(errno));
  return false;
}

static bool save_png(const Figure *f, const char *path, FigureSize size,
                     Fault *fault) {
  void *bytes;
  size_t len;
  if (!figure_png(f, size, &bytes, &len, fault))
    return false;
  bool ok = write_bytes(path, bytes, len, fault);
  mem_free(bytes);
  return ok;
}

static bool save_svg(const Figure *f, const char *path, FigureSize size,
                     Fault *fault) {
  Buffer text = {0};
  volatile bool ok = false;
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    ok = figure_svg(&text, f, size, fault) &&
         write_bytes(path, text.text, text.len, fault);
    trap_end(&trap);
  }
  buffer_free(&text);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  return ok;
}

bool figure_save(const Figure *f, const char *path, FigureSize size,
                 Fault *fault) {
  const char *slash = strrchr(path, '/');
  const char *dot = strrchr(slash ? slash : path, '.');
  if (dot && strcasecmp(dot, ".png") == 0)
    return save_png(f, path, size, fault);
  if (dot && strcasecmp(dot, ".svg") == 0)
    return save_svg(f, path, size, fault);
  fault_set(fault, "a figure cannot be saved as \"%.400s\"", path);
  fault_set_help(fault, "the extension must be .png or .svg");
  return false;
}
