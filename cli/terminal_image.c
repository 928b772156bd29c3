/* Pictures on a terminal: half-block characters of two pixels each, one above
   the other, in the colours of the terminal.  Main entry point: image_print. */
#include "cli/cli.h"
#include "show/show.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <stdio.h>
#include <unistd.h>

enum { MIN_COLUMNS = 32, MAX_COLUMNS = 120 };

/* ---- sizes ---- */

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
  Image small = image_resize(p, width, image_height_at(p, width));
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
