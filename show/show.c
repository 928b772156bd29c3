/* Draws a tensor as a picture, displayed or in a PNG file.  Main entry point:
   show_tensor. */
#include "show/show.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <math.h>
#include <string.h>

static double value(const Tensor *t, int64_t i) {
  Scalar x = scalar_load(t->dtype, tensor_at(t, i));
  return dtype_is_float(t->dtype) ? x.f : (double)x.i;
}

/* u8 ranges from 0 to 255.  Other values are used directly if all are from 0 to
   1; otherwise they are scaled to that range. */
static void value_range(const Tensor *t, double *low, double *high) {
  *low = 0, *high = t->dtype == DT_U8 ? 255 : 1;
  if (t->dtype == DT_U8 || t->dtype == DT_BOOL)
    return;
  double min = INFINITY, max = -INFINITY;
  for (int64_t i = 0; i < t->count; i++) {
    double v = value(t, i);
    if (isfinite(v)) {
      min = fmin(min, v);
      max = fmax(max, v);
    }
  }
  if (min < 0 || max > 1)
    *low = min, *high = max > min ? max : min + 1;
}

static Image image_of(const Tensor *t) {
  double low, high;
  value_range(t, &low, &high);
  uint32_t depth = t->rank == 3 ? (uint32_t)t->shape[2] : 1;
  Image p = {.height = (uint32_t)t->shape[0], .width = (uint32_t)t->shape[1]};
  p.channels = depth >= 3 ? 3 : 1;
  size_t pixels = (size_t)p.width * p.height;
  p.at = mem_alloc(pixels * p.channels * sizeof *p.at);
  for (size_t i = 0; i < pixels; i++)
    for (uint32_t c = 0; c < p.channels; c++) {
      double v = value(t, (int64_t)(i * depth + c));
      v = (v - low) / (high - low);
      p.at[i * p.channels + c] = v > 0 ? v < 1 ? (float)v : 1 : 0;
    }
  return p;
}

static bool is_image_shape(const Tensor *t) {
  if (t->rank != 3)
    return t->rank == 2;
  return t->shape[2] == 1 || t->shape[2] == 3 || t->shape[2] == 4;
}

/* Takes over the pixels, which are NULL after a fault. */
static bool save(const char *file, Tensor *pixels, Fault *fault) {
  bool ok = pixels && file_save(file, 1, NULL, &pixels, fault);
  if (pixels)
    tensor_release(pixels);
  return ok;
}

static bool show_image(const ShowDisplay *display, const Tensor *t,
                       const char *file, int64_t size, Fault *fault) {
  Image p = image_of(t);
  bool ok = file ? save(file, image_pixels(&p, size, fault), fault)
                 : display->image(display->owner, &p, size, fault);
  mem_free(p.at);
  return ok;
}

bool show_tensor(const ShowDisplay *display, const Tensor *t, const char *file,
                 int64_t size, Fault *fault) {
  if (!display && !file) {
    fault_set(fault, "no terminal to show this on");
    fault_set_help(fault, "write it to a file: `show ~file:\"picture.png\"`");
    return false;
  }
  if (is_image_shape(t) && t->count > 0 && t->count <= INT32_MAX)
    return show_image(display, t, file, size, fault);
  Buffer type = {0};
  tensor_print_type(&type, t);
  fault_set(fault, "show cannot draw a picture of %s", type.text);
  fault_set_help(
      fault, t->rank == 1
                 ? "for a plot of the elements, print (plot.sequence x)"
                 : "a picture needs the shape [height, width], or [height, "
                   "width, channels] with 1, 3 or 4 channels, and elements");
  buffer_free(&type);
  return false;
}
