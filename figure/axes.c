/* Axes: limits, positions and ticks.  Main entry points: axes_fit,
 * axis_choose_ticks, axis_part. */
#include "figure/internal.h"
#include "support/utf8.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Differences between numbers closer than this part of their size are lost in
 * rounding. */
static const double MIN_RELATIVE_RANGE = 1e-12;
/* Smaller ranges have no round step that is a normal number. */
static const double MIN_RANGE = 1e-300, MAX_STEP = 1e308;

/* Digits after the point of a number with an exponent.  Numbers that need more
 * have no exponent. */
enum { MAX_EXPONENT_DIGITS = 4 };

/* ---- positions ---- */

static double to_axis(const Axis *axis, double value) {
  if (!isfinite(value) || (axis->is_log && value <= 0))
    return NAN;
  return axis->is_log ? log10(value) : value;
}

/* Halves, because a difference can overflow. */
static double part_of(const Axis *axis, double at) {
  return (at / 2 - axis->from / 2) / (axis->to / 2 - axis->from / 2);
}

double axis_part(const Axis *axis, double value) {
  return part_of(axis, to_axis(axis, value));
}

static bool is_reversed(const Axis *axis) {
  return axis->from > axis->to;
}

double axis_base_part(const Axis *axis) {
  return axis->is_log ? is_reversed(axis) : axis_part(axis, 0);
}

/* ---- limits ---- */

typedef struct Range {
  double low, high;
  bool is_low_exact, is_high_exact; /* without a margin */
} Range;

static void extend(Range *r, const Axis *axis, const double *values,
                   size_t count) {
  for (size_t i = 0; values && i < count; i++) {
    double at = to_axis(axis, values[i]);
    if (at < r->low)
      r->low = at, r->is_low_exact = false;
    if (at > r->high)
      r->high = at, r->is_high_exact = false;
  }
}

static void extend_to_exactly(Range *r, double at) {
  if (!(at > r->low))
    r->low = at, r->is_low_exact = true;
  if (!(at < r->high))
    r->high = at, r->is_high_exact = true;
}

static void ensure_nonempty(Range *r) {
  if (r->low > r->high)
    *r = (Range){0, 1, true, true};
  double size = fmax(fabs(r->low), fabs(r->high));
  double range = r->high - r->low;
  if (range >= size * MIN_RELATIVE_RANGE && range >= MIN_RANGE)
    return;
  double half = size < MIN_RANGE ? 1 : size / 2;
  r->low = fmax(r->low - half, -DBL_MAX);
  r->high = fmin(r->high + half, DBL_MAX);
  r->is_low_exact = r->is_high_exact = true;
}

static void set_limits(Axis *axis, const FigureAxis *given, Range r,
                       double margin) {
  ensure_nonempty(&r);
  double width = r.high * margin - r.low * margin;
  if (isfinite(r.low - width) && isfinite(r.high + width)) {
    r.low -= r.is_low_exact ? 0 : width;
    r.high += r.is_high_exact ? 0 : width;
  }
  axis->from = r.low, axis->to = r.high;
  double from = to_axis(axis, given->from), to = to_axis(axis, given->to);
  if (isfinite(from))
    axis->from = from;
  if (isfinite(to))
    axis->to = to;
  if (axis->from != axis->to)
    return;
  r = (Range){axis->from, axis->to, true, true};
  ensure_nonempty(&r);
  axis->from = r.low, axis->to = r.high;
}

/* A heat map fills its area.  Bars stand on 0. */
static void extend_by_layer(Range *x, Range *y, const Axes *axes,
                            const FigureLayer *layer) {
  bool is_heatmap = layer->kind == LAYER_HEATMAP;
  for (size_t i = 0; is_heatmap && i < layer->count; i++) {
    double at = to_axis(&axes->x, layer->x[i]);
    if (isfinite(at))
      extend_to_exactly(x, at);
    at = to_axis(&axes->y, layer->y[i]);
    if (isfinite(at))
      extend_to_exactly(y, at);
  }
  if (is_heatmap)
    return;
  extend(x, &axes->x, layer->x, layer->count);
  extend(x, &axes->x, layer->x2, layer->count);
  extend(y, &axes->y, layer->y, layer->count);
  extend(y, &axes->y, layer->y2, layer->count);
  if (layer->kind == LAYER_BARS && !axes->y.is_log && layer->count)
    extend_to_exactly(y, 0);
}

void axes_fit(Axes *axes, const Figure *f, double margin) {
  *axes = (Axes){.x.is_log = f->x.is_log, .y.is_log = f->y.is_log};
  const Range none = {INFINITY, -INFINITY, false, false};
  Range x = none, y = none, z = none;
  bool is_reversed_y = false;
  for (size_t i = 0; i < f->layer_count; i++) {
    const FigureLayer *layer = &f->layers[i];
    extend_by_layer(&x, &y, axes, layer);
    if (layer->kind != LAYER_HEATMAP)
      continue;
    axes->has_colours = true;
    extend(&z, &axes->colours, layer->z, layer->rows * layer->columns);
    is_reversed_y |= layer->count == 2 && layer->y[0] > layer->y[1];
  }
  const FigureAxis fitted = {.from = INFINITY, .to = INFINITY};
  set_limits(&axes->x, &f->x, x, margin);
  set_limits(&axes->y, &f->y, y, margin);
  set_limits(&axes->colours, &fitted, z, 0);
  bool is_given = isfinite(f->y.from) || isfinite(f->y.to);
  if (is_reversed_y && !is_given) {
    double from = axes->y.from;
    axes->y.from = axes->y.to, axes->y.to = from;
  }
}

/* ---- ticks ---- */

static void add_tick(Axis *axis, double at, const char *text) {
  double part = part_of(axis, at);
  if (axis->tick_count == MAX_TICKS || !(part > -1e-9 && part < 1 + 1e-9))
    return;
  Tick *t = &axis->ticks[axis->tick_count++];
  t->part = fmin(fmax(part, 0), 1);
  snprintf(t->text, sizeof t->text, "%s", text);
}

/* The smallest of 1, 2, 5 times a power of ten that gives at most `max` steps,
 * within the range of normal numbers. */
static double round_step(double low, double high, uint32_t max) {
  double step = fmin(fmax(high / max - low / max, MIN_RANGE), MAX_STEP);
  double power = pow(10, floor(log10(step)));
  static const double factors[] = {1, 2, 5, 10, 20};
  for (size_t i = 0; i < ARRAY_LEN(factors); i++)
    if (factors[i] * power >= step * (1 - 1e-9))
      return factors[i] * power;
  return 50 * power;
}

/* Removes zeros at the end of the fraction: 1.50e+09 becomes 1.5e9. */
static void shorten_exponential(char text[TICK_TEXT_BYTES]) {
  char *e = strchr(text, 'e'), *end = e;
  int exponent = 0;
  sscanf(e + 1, "%d", &exponent);
  if (memchr(text, '.', (size_t)(e - text))) {
    while (end[-1] == '0')
      end--;
    if (end[-1] == '.')
      end--;
  }
  snprintf(end, (size_t)(text + TICK_TEXT_BYTES - end), "e%d", exponent);
}

/* As few digits as distinguish the ticks: 0.25, 3, 1.5e9. */
static void format_number(char text[TICK_TEXT_BYTES], double v, double step,
                          double largest) {
  int step_exponent = (int)floor(log10(step) + 1e-9);
  int digits = step_exponent < 0 ? -step_exponent : 0;
  int precision = (int)floor(log10(largest) + 1e-9) - step_exponent;
  bool is_short = digits <= 5 && largest < (digits ? 1e6 : 1e7);
  bool is_too_precise =
      precision > MAX_EXPONENT_DIGITS && digits <= 2 && largest < 1e15;
  if (is_short || is_too_precise) {
    snprintf(text, TICK_TEXT_BYTES, "%.*f", digits, v);
    return;
  }
  if (v == 0) {
    snprintf(text, TICK_TEXT_BYTES, "0");
    return;
  }
  precision = precision < 0 ? 0 : precision > 16 ? 16 : precision;
  snprintf(text, TICK_TEXT_BYTES, "%.*e", precision, v);
  shorten_exponential(text);
}

static void add_linear_ticks(Axis *axis, uint32_t max) {
  double low = fmin(axis->from, axis->to), high = fmax(axis->from, axis->to);
  double step = round_step(low, high, max);
  double largest = fmax(fabs(low), fabs(high));
  double first = ceil(low / step - 1e-9), last = floor(high / step + 1e-9);
  for (double k = first; k <= last && axis->tick_count < MAX_TICKS; k++) {
    char text[TICK_TEXT_BYTES];
    double v = k == 0 ? 0 : k * step;
    format_number(text, v, step, largest);
    add_tick(axis, v, text);
  }
}

/* "1e-3", or in superscripts: 10⁻³. */
static void format_power(char text[TICK_TEXT_BYTES], int exponent,
                         bool is_ascii) {
  static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴",
                                       "⁵", "⁶", "⁷", "⁸", "⁹"};
  char number[16];
  snprintf(number, sizeof number, "%d", exponent);
  snprintf(text, TICK_TEXT_BYTES, is_ascii ? "1e" : "10");
  for (const char *p = number; *p; p++) {
    size_t len = strlen(text);
    if (is_ascii)
      snprintf(text + len, TICK_TEXT_BYTES - len, "%c", *p);
    else
      snprintf(text + len, TICK_TEXT_BYTES - len, "%s",
               *p == '-' ? "⁻" : digits[*p - '0']);
  }
}

static void add_minor_ticks(Axis *axis, int low, int high) {
  for (int k = low; k <= high; k++)
    for (int m = 2; m < 10 && axis->minor_count < MAX_MINOR_TICKS; m++) {
      double part = part_of(axis, k + log10(m));
      if (part > 0 && part < 1)
        axis->minor[axis->minor_count++] = part;
    }
}

/* 1, 2, 5 times powers of ten; or multiples of a round step, if the range is
 * less than that. */
static void add_narrow_log_ticks(Axis *axis, int low, int high, uint32_t max) {
  for (int k = low; k <= high; k++)
    for (int m = 1; m <= 5; m += m == 1 ? 1 : 3) {
      char text[TICK_TEXT_BYTES];
      snprintf(text, sizeof text, "%.6g", m * pow(10, k));
      add_tick(axis, k + log10(m), text);
    }
  double values[] = {pow(10, fmin(axis->from, axis->to)),
                     pow(10, fmax(axis->from, axis->to))};
  if (axis->tick_count >= 3 || !(values[0] > 0 && values[1] < INFINITY))
    return;
  axis->tick_count = 0;
  double step = round_step(values[0], values[1], max);
  double first = ceil(values[0] / step - 1e-9);
  double last = floor(values[1] / step + 1e-9);
  for (double k = first; k <= last && axis->tick_count < MAX_TICKS; k++) {
    char text[TICK_TEXT_BYTES];
    format_number(text, k * step, step, values[1]);
    if (k > 0)
      add_tick(axis, log10(k * step), text);
  }
}

static void add_log_ticks(Axis *axis, uint32_t max, bool is_ascii) {
  double from = fmin(axis->from, axis->to), to = fmax(axis->from, axis->to);
  int low = (int)floor(from + 1e-9), high = (int)ceil(to - 1e-9);
  if (to - from < 2) {
    add_narrow_log_ticks(axis, low, high, max);
    return;
  }
  int stride = (int)ceil((to - from) / max);
  for (int k = (int)ceil((double)low / stride) * stride; k <= high;
       k += stride) {
    char text[TICK_TEXT_BYTES];
    format_power(text, k, is_ascii);
    add_tick(axis, k, text);
  }
  if (stride == 1)
    add_minor_ticks(axis, low, high);
}

static void add_names(Axis *axis, const FigureAxis *d, uint32_t max) {
  size_t stride = (d->name_count + max - 1) / max;
  for (size_t i = 0; i < d->name_count; i += stride)
    add_tick(axis, to_axis(axis, (double)i), d->names[i]);
}

void axis_choose_ticks(Axis *axis, const FigureAxis *description, uint32_t max,
                       bool is_ascii) {
  axis->tick_count = axis->minor_count = 0;
  max = max < 1 ? 1 : max > MAX_TICKS ? MAX_TICKS : max;
  if (description->name_count)
    add_names(axis, description, max);
  else if (axis->is_log)
    add_log_ticks(axis, max, is_ascii);
  else
    add_linear_ticks(axis, max);
}
