/* Images: scaling, and conversion to pixels. */
#include "show/show.h"
#include "support/mem.h"

enum { MAX_HEIGHT = 2000, MAX_WIDTH = 20000 };

static float mean_of(const Image *p, uint32_t c, uint32_t x0, uint32_t x1,
                     uint32_t y0, uint32_t y1) {
  double sum = 0;
  for (uint32_t y = y0; y < y1; y++)
    for (uint32_t x = x0; x < x1; x++)
      sum += (double)p->at[((size_t)y * p->width + x) * p->channels + c];
  return (float)(sum / ((double)(x1 - x0) * (y1 - y0)));
}

/* The start of pixel i when `from` pixels are scaled to `to` pixels. */
static uint32_t box_start(uint32_t i, uint32_t from, uint32_t to) {
  return (uint32_t)((uint64_t)i * from / to);
}

static uint32_t box_end(uint32_t i, uint32_t from, uint32_t to) {
  uint32_t start = box_start(i, from, to), end = box_start(i + 1, from, to);
  return end > start ? end : start + 1;
}

Image image_resize(const Image *p, uint32_t width, uint32_t height) {
  Image out = {width, height, p->channels, NULL};
  out.at = mem_alloc((size_t)width * height * p->channels * sizeof *out.at);
  float *at = out.at;
  for (uint32_t y = 0; y < height; y++)
    for (uint32_t x = 0; x < width; x++)
      for (uint32_t c = 0; c < p->channels; c++)
        *at++ = mean_of(
            p, c, box_start(x, p->width, width), box_end(x, p->width, width),
            box_start(y, p->height, height), box_end(y, p->height, height));
  return out;
}

uint32_t image_height_at(const Image *p, uint32_t width) {
  uint64_t height = ((uint64_t)p->height * width + p->width / 2) / p->width;
  return height < 1 ? 1 : height > MAX_HEIGHT ? MAX_HEIGHT : (uint32_t)height;
}

Tensor *image_pixels(const Image *p, int64_t size, Fault *fault) {
  uint32_t width = size > 0 && size < MAX_WIDTH ? (uint32_t)size : p->width;
  Image out = image_resize(
      p, width, width == p->width ? p->height : image_height_at(p, width));
  int64_t shape[] = {out.height, out.width, out.channels};
  Tensor *t = tensor_new(DT_U8, out.channels == 1 ? 2 : 3, shape, false, fault);
  for (int64_t i = 0; t && i < t->count; i++)
    ((uint8_t *)t->data)[i] = (uint8_t)(out.at[i] * 255 + 0.5f);
  mem_free(out.at);
  return t;
}
