/* show: draws a tensor as a picture, for `show`.  A host displays the picture,
   or it becomes pixels, for example of a PNG file.  Main entry point:
   show_tensor. */
#ifndef AXON_SHOW_SHOW_H
#define AXON_SHOW_SHOW_H

#include "runtime/runtime.h"

/* ---- image.c ---- */

typedef struct Image { /* values from 0 to 1, row-major, 1 or 3 channels */
  uint32_t width, height, channels;
  float *at; /* allocated by mem_alloc */
} Image;

/* Averages when shrinking, repeats when growing. */
Image image_resize(const Image *p, uint32_t width, uint32_t height);
/* The height that keeps the proportions at this width; at least 1. */
uint32_t image_height_at(const Image *p, uint32_t width);
/* u8[height, width] or u8[height, width, 3]; `width` pixels wide, 0: as wide as
   the image.  NULL with a fault if there is no memory. */
Tensor *image_pixels(const Image *p, int64_t width, Fault *fault);

/* ---- show.c ---- */

/* Displays what `show` draws without a file.  size: columns or pixels; 0: the
   host chooses.  The function returns false and sets a fault on failure. */
typedef struct ShowDisplay {
  void *owner;
  bool (*image)(void *owner, const Image *image, int64_t size, Fault *fault);
} ShowDisplay;

/* file: NULL to display it.  display: NULL if there is none.  Returns false and
   sets a fault on failure. */
bool show_tensor(const ShowDisplay *display, const Tensor *t, const char *file,
                 int64_t size, Fault *fault);

#endif
