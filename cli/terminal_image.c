/* Pictures on a terminal: half-block characters of two pixels each, one above
   the other, in the colours of the terminal.  Main entry point: image_print. */
#include "cli/show.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <unistd.h>

enum { MIN_COLUMNS = 32, MAX_COLUMNS = 120 };

/* ---- sizes ---- */

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

/* Averages when shrinking, repeats when growing. */
static Image resize(const Image *p, uint32_t width, uint32_t height) {
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

/* Small pictures grow by an integer factor; large ones shrink to the
   terminal. */
static uint32_t width_in_columns(const Image *p, int64_t size) {
  uint32_t max = (uint32_t)terminal_width();
  if (max > MAX_COLUMNS)
    max = MAX_COLUMNS;
  if (size > 0)
    return size < (int64_t)max ? (uint32_t)size : max;
  if (p->width >= MIN_COLUMNS)
    return p->width < max ? p->width : max;
  return p->width * (MIN_COLUMNS / p->width);
}

static uint32_t height_in_rows(const Image *p, uint32_t width) {
  uint64_t height = ((uint64_t)p->height * width + p->width / 2) / p->width;
  return height < 1 ? 1 : height > 2000 ? 2000 : (uint32_t)height;
}

/* ---- drawing ---- */

/* Pixels below the last row are black. */
static Rgb pixel(const Image *p, uint32_t x, uint32_t y) {
  if (y >= p->height)
    return (Rgb){0, 0, 0};
  const float *at = p->at + ((size_t)y * p->width + x) * p->channels;
  bool grey = p->channels == 1;
  return (Rgb){(uint8_t)(at[0] * 255 + 0.5f), (uint8_t)(at[!grey] * 255 + 0.5f),
               (uint8_t)(at[grey ? 0 : 2] * 255 + 0.5f)};
}

static void put_plain(Buffer *out, Rgb top, Rgb bottom) {
  static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
  static const char *const ascii[] = {" ", ".", "+", "#", "@"};
  int light = 299 * (top.r + bottom.r) + 587 * (top.g + bottom.g) +
              114 * (top.b + bottom.b);
  int k = light * 5 / (2 * 255 * 1000 + 1);
  buffer_puts(out, terminal_is_ascii() ? ascii[k] : shades[k]);
}

void image_print(const Image *p, int64_t size) {
  uint32_t width = width_in_columns(p, size);
  Image small = resize(p, width, height_in_rows(p, width));
  ColourDepth d = terminal_colour_depth(STDOUT_FILENO);
  if (terminal_is_ascii())
    d = COLOURS_NONE;
  Buffer out = {0};
  for (uint32_t y = 0; y < small.height; y += 2) {
    for (uint32_t x = 0; x < small.width; x++) {
      Rgb top = pixel(&small, x, y), bottom = pixel(&small, x, y + 1);
      if (y + 1 == small.height && d == COLOURS_NONE)
        bottom = top;
      if (d == COLOURS_NONE) {
        put_plain(&out, top, bottom);
        continue;
      }
      colour_put(&out, d, top, false);
      colour_put(&out, d, bottom, true);
      buffer_puts(&out, "▀");
    }
    buffer_puts(&out, d == COLOURS_NONE ? "\n" : "\033[0m\n");
  }
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
  mem_free(small.at);
}

bool image_save(const Image *p, const char *path, int64_t size, Fault *fault) {
  uint32_t width = size > 0 && size < 20000 ? (uint32_t)size : p->width;
  Image out = resize(p, width,
                     width == p->width ? p->height : height_in_rows(p, width));
  int64_t shape[] = {out.height, out.width, out.channels};
  Tensor *t = tensor_new(DT_U8, out.channels == 1 ? 2 : 3, shape, false, fault);
  for (int64_t i = 0; t && i < t->count; i++)
    ((uint8_t *)t->data)[i] = (uint8_t)(out.at[i] * 255 + 0.5f);
  bool ok = t && file_save(path, 1, NULL, &t, fault);
  if (t)
    tensor_release(t);
  mem_free(out.at);
  return ok;
}
