/* GridSample: interpolation between pixels at places that the grid gives. */
#include "onnx/ops.h"

#include <string.h>

enum { MAX_SPATIAL = 3 };

typedef enum Padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION } Padding;

typedef struct Sampling {
  Importer *im;
  Value *x, *grid;
  uint32_t axes; /* spatial ones */
  int64_t taps;  /* pixels along each axis: 1, 2 or 4 */
  bool aligned;  /* -1 and 1 are the centers of the outer pixels */
  Padding padding;
  const char *outer; /* indices of a place: n, o0, o1 */
  const char *taps_names[MAX_SPATIAL];
} Sampling;

static const char *type_name(const Sampling *s) {
  return dtype_info[s->x->dtype].name;
}

/* reflect LOW HIGH VALUE, for the borders of an axis */
static const char *reflected(const Sampling *s, int64_t size,
                             const char *value) {
  use_helper(s->im, HELPER_REFLECT);
  return s->aligned ? text(s->im, "reflect 0.0 %lld.0 (%s)",
                           (long long)size - 1, value)
                    : text(s->im, "reflect (-0.5) %lld.5 (%s)",
                           (long long)size - 1, value);
}

/* The places along an axis, in pixels. */
static const char *places(const Sampling *s, uint32_t axis, int64_t size) {
  Importer *im = s->im;
  const char *g =
      text(im, "%s.[..., %u]", ref(im, s->grid), s->axes - 1 - axis);
  const char *p =
      s->aligned
          ? text(im, "(%s + 1.0) / 2.0 * %lld.0", g, (long long)size - 1)
          : text(im, "((%s + 1.0) * %lld.0 - 1.0) / 2.0", g, (long long)size);
  if (s->taps == 1)
    p = text(im, "round (%s)", p);
  if (s->padding == PAD_BORDER)
    p = text(im, "clamp 0.0 %lld.0 (%s)", (long long)size - 1, p);
  if (s->padding == PAD_REFLECTION)
    p = reflected(s, size, p);
  return local(im, "place", p);
}

typedef struct AxisTaps { /* texts for tap k of a place */
  const char *weight, *index, *condition;
} AxisTaps;

static AxisTaps axis_taps(const Sampling *s, uint32_t axis) {
  Importer *im = s->im;
  int64_t size = dim_number(im, s->x->shape.dims[axis + 2], "a size");
  const char *p = places(s, axis, size), *k = s->taps_names[axis];
  if (size < 1)
    import_fail(im, NULL, "its input has no pixels");
  const char *floor_ =
      local(im, "pixel", text(im, s->taps == 1 ? "round %s" : "floor %s", p));
  const char *offset = local(im, "offset", text(im, "%s - %s", p, floor_));
  const char *first = local(
      im, "pixel", text(im, s->taps == 4 ? "i64 %s - 1" : "i64 %s", floor_));
  const char *i = text(im, "%s.[%s]", first, s->outer);
  AxisTaps t = {.weight = NULL};
  if (s->taps > 1)
    i = text(im, "%s + %s", i, k);
  if (s->taps == 2)
    t.weight = text(im, "(1.0 - abs (%s.[%s] - %s %s))", offset, s->outer,
                    type_name(s), k);
  if (s->taps == 4) {
    use_helper(im, HELPER_CUBIC);
    t.weight = text(im, "cubic_weight (%s.[%s] + 1.0 - %s %s)", offset,
                    s->outer, type_name(s), k);
  }
  if (s->padding == PAD_ZEROS)
    t.condition = text(im, "0 <= %s && %s < %lld", i, i, (long long)size);
  if (s->padding == PAD_REFLECTION)
    i = text(im, "i64 (%s)",
             reflected(s, size, text(im, "%s (%s)", type_name(s), i)));
  t.index = t.condition ? i
                        : text(im, "maximum 0 (minimum %lld (%s))",
                               (long long)size - 1, i);
  return t;
}

static Sampling read_sampling(Importer *im) {
  Sampling s = {.im = im, .x = input(im, 0)};
  s.grid = input(im, 1);
  const char *mode = attr_string(im, "mode", "linear");
  const char *padding = attr_string(im, "padding_mode", "zeros");
  s.axes = s.x->shape.rank - 2;
  if (s.x->shape.rank < 3 || s.axes > MAX_SPATIAL ||
      s.grid->shape.rank != s.axes + 2 || !dtype_is_float(s.x->dtype))
    import_fail(im, NULL, "its operands do not fit");
  s.taps = strcmp(mode, "nearest") == 0 ? 1 : strstr(mode, "cubic") ? 4 : 2;
  s.aligned = attr_int(im, "align_corners", 0);
  s.padding = strcmp(padding, "border") == 0       ? PAD_BORDER
              : strcmp(padding, "reflection") == 0 ? PAD_REFLECTION
                                                   : PAD_ZEROS;
  return s;
}

void onnx_grid_sample(Importer *im, const char *how) {
  Sampling s = read_sampling(im);
  const char *n = index_name(im, "n"), *c = index_name(im, "c");
  Shape shape = s.x->shape;
  Buffer outer = {.arena = im->arena}, binders = {.arena = im->arena};
  Buffer taps = {.arena = im->arena}, weights = {.arena = im->arena};
  Buffer items = {.arena = im->arena}, condition = {.arena = im->arena};
  (void)how;
  buffer_puts(&outer, n);
  for (uint32_t k = 0; k < s.axes; k++) {
    const char *o = index_name(im, text(im, "o%u", k));
    s.taps_names[k] = index_name(im, text(im, "k%u", k));
    shape.dims[k + 2] = s.grid->shape.dims[k + 1];
    buffer_printf(&outer, ", %s", o);
    buffer_printf(&binders, ", %s < %s", o, extent_atom(im, shape.dims[k + 2]));
    buffer_printf(&taps, "%s%s < %lld", k ? ", " : "", s.taps_names[k],
                  (long long)s.taps);
  }
  s.outer = outer.text;
  for (uint32_t k = 0; k < s.axes; k++) {
    AxisTaps t = axis_taps(&s, k);
    if (t.weight)
      buffer_printf(&weights, "%s * ", t.weight);
    buffer_printf(&items, ", %s", t.index);
    if (t.condition)
      buffer_printf(&condition, "%s%s", k ? " && " : "", t.condition);
  }
  const char *pixel = text(im, "%s.[%s, %s%s]", ref(im, s.x), n, c, items.text);
  if (condition.len)
    pixel = text(im, "(if %s then %s else 0.0)", condition.text, pixel);
  if (s.taps > 1)
    pixel = text(im, "sum (for %s => %s%s)", taps.text, weights.text, pixel);
  define(im, 0, s.x->dtype, &shape, "for %s < %s, %s < %s%s => %s", n,
         extent_atom(im, shape.dims[0]), c, extent_atom(im, shape.dims[1]),
         binders.text, pixel);
}
