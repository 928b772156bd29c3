/* Colours of series and of heat maps.  Main entry points: colour_of_series,
 * colour_of_part. */
#include "figure/internal.h"

#include <math.h>

/* The first eight of Tableau 10, the default of matplotlib. */
Rgb colour_of_series(size_t i) {
  static const Rgb colours[SERIES_COLOURS] = {
      {31, 119, 180},  {255, 127, 14}, {44, 160, 44},   {214, 39, 40},
      {148, 103, 189}, {140, 86, 75},  {227, 119, 194}, {127, 127, 127}};
  return colours[i % SERIES_COLOURS];
}

size_t series_of_layer(const Figure *f, size_t layer) {
  bool is_area = f->layers[layer].kind == LAYER_AREA;
  size_t n = 0;
  for (size_t i = 0; i < layer; i++)
    n += f->layers[i].kind != LAYER_HEATMAP &&
         (f->layers[i].kind == LAYER_AREA) == is_area;
  return n;
}

/* Viridis (S. van der Walt and N. Smith, CC0), at ten equidistant points. */
Rgb colour_of_part(double part) {
  static const uint8_t stops[][3] = {
      {68, 1, 84},    {72, 40, 120},  {62, 73, 137},  {49, 104, 142},
      {38, 130, 142}, {31, 158, 137}, {53, 183, 121}, {110, 206, 88},
      {181, 222, 43}, {253, 231, 37}};
  enum { LAST = ARRAY_LEN(stops) - 1 };
  if (isnan(part))
    return (Rgb){190, 190, 190};
  double at = fmin(fmax(part, 0), 1) * LAST;
  int k = at >= LAST ? LAST - 1 : (int)at;
  uint8_t mixed[3];
  for (int c = 0; c < 3; c++)
    mixed[c] = (uint8_t)lround(stops[k][c] +
                               (at - k) * (stops[k + 1][c] - stops[k][c]));
  return (Rgb){mixed[0], mixed[1], mixed[2]};
}

/* ---- terminals ---- */

/* Index in the 256-colour palette: the ramp of 24 greys, or the 6 * 6 * 6
 * cube. */
static int index_256(Rgb c) {
  if (c.r == c.g && c.g == c.b) {
    int grey = (c.r * 25 + 127) / 255;
    return grey == 0 ? 16 : grey == 25 ? 231 : 231 + grey;
  }
  return 16 + 36 * ((c.r * 5 + 127) / 255) + 6 * ((c.g * 5 + 127) / 255) +
         (c.b * 5 + 127) / 255;
}

void colour_put(Buffer *out, ColourDepth depth, Rgb c, bool is_background) {
  int code = is_background ? 48 : 38; /* of SGR */
  if (depth == COLOURS_RGB)
    buffer_printf(out, "\033[%d;2;%d;%d;%dm", code, c.r, c.g, c.b);
  else
    buffer_printf(out, "\033[%d;5;%dm", code, index_256(c));
}
