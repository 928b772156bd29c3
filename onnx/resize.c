/* Resize: one matrix of interpolation weights for each axis that changes. */
#include "onnx/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum Filter { NEAREST, LINEAR, CUBIC } Filter;

typedef struct Resampling { /* of one axis */
  int64_t in, out;
  double scale;
  Filter filter;
  const char *coordinates, *nearest;
  bool antialias, exclude_outside;
  double cubic; /* its coefficient */
  bool crops;   /* tf_crop_and_resize: the part of the input from `start` to */
  double start, end; /* `end`, as fractions; places outside have `outside` */
  double outside;
} Resampling;

enum { MAX_AXIS = 1 << 16 };
static const int64_t MAX_WEIGHTS = (int64_t)1 << 26;

/* The place in the input of element i of the output. */
static double source_place(const Resampling *r, int64_t i) {
  double x = (double)i;
  double length = r->scale * (double)r->in;
  double last = (double)(r->in - 1);
  if (r->crops && r->out > 1)
    return (r->start + x * (r->end - r->start) / (double)(r->out - 1)) * last;
  if (r->crops)
    return (r->start + r->end) / 2 * last;
  if (strcmp(r->coordinates, "asymmetric") == 0)
    return x / r->scale;
  if (strcmp(r->coordinates, "align_corners") == 0)
    return r->out == 1 ? 0 : x * (double)(r->in - 1) / (length - 1);
  if (strcmp(r->coordinates, "pytorch_half_pixel") == 0)
    return r->out > 1 ? (x + 0.5) / r->scale - 0.5 : 0;
  double place = (x + 0.5) / r->scale - 0.5;
  if (strcmp(r->coordinates, "half_pixel_symmetric") == 0)
    place += (double)r->in / 2 * (1 - (double)r->out / length);
  return place;
}

static int64_t nearest_index(const Resampling *r, double place) {
  double x = round(place);
  if (strcmp(r->nearest, "floor") == 0)
    x = floor(place);
  else if (strcmp(r->nearest, "ceil") == 0)
    x = ceil(place);
  else if (strcmp(r->nearest, "round_prefer_ceil") == 0)
    x = floor(place + 0.5);
  else
    x = ceil(place - 0.5);
  return x < 0 ? 0 : x > (double)(r->in - 1) ? r->in - 1 : (int64_t)x;
}

static double kernel(const Resampling *r, double x) {
  double a = r->cubic;
  x = fabs(x);
  if (r->filter == LINEAR)
    return x < 1 ? 1 - x : 0;
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* A row of the matrix; elements outside are those of the border. */
static void fill_row(const Resampling *r, int64_t i, double *row) {
  double place = source_place(r, i);
  memset(row, 0, sizeof *row * (size_t)r->in);
  if (r->crops && !(place >= 0 && place <= (double)(r->in - 1)))
    return;
  if (r->filter == NEAREST) {
    row[nearest_index(r, place)] = 1;
    return;
  }
  double stretch = r->antialias && r->scale < 1 ? r->scale : 1, total = 0;
  double reach = (r->filter == LINEAR ? 1 : 2) / stretch;
  int64_t first = (int64_t)ceil(place - reach);
  int64_t last = (int64_t)floor(place + reach);
  for (int64_t k = first; k <= last; k++) {
    double w = kernel(r, (place - (double)k) * stretch);
    bool outside = k < 0 || k >= r->in;
    if (outside && r->exclude_outside)
      continue;
    row[k < 0 ? 0 : k >= r->in ? r->in - 1 : k] += w;
    total += w;
  }
  for (int64_t k = 0; k < r->in && total != 0; k++)
    row[k] /= total;
}

static Value *matrix(Importer *im, const Resampling *r, Dtype dtype,
                     uint32_t axis) {
  int64_t sizes[] = {r->out, r->in};
  if (r->in < 1 || r->out < 0 || r->in > MAX_AXIS || r->out > MAX_AXIS ||
      r->in * r->out > MAX_WEIGHTS)
    import_fail(im, NULL, "the sizes %lld and %lld are not supported",
                (long long)r->in, (long long)r->out);
  Tensor *t = constant_tensor(im, dtype, 2, sizes);
  double *row = MAKE_ARRAY(im->arena, double, r->in);
  for (int64_t i = 0; i < r->out; i++) {
    fill_row(r, i, row);
    for (int64_t k = 0; k < r->in; k++)
      scalar_store((Scalar){.dtype = dtype, .f = dtype_round(dtype, row[k])},
                   tensor_at(t, i * r->in + k));
  }
  return constant_value(im, text(im, "%s.weights%u", im->node->output[0], axis),
                        t);
}

/* What the node says about one axis. */
typedef struct Target {
  uint32_t axis;
  double scale; /* 0: it depends on sizes that are names */
  Dim *out;
} Target;

static int64_t input_size(Importer *im, Value *x, const Target *t) {
  return dim_number(im, x->shape.dims[t->axis], "a size");
}

static void set_size(Importer *im, Value *x, Target *t, Dim *size) {
  Dim *in = x->shape.dims[t->axis];
  Dim *ratio = dim_exact_quotient(&im->dims, size, in);
  int64_t n, m;
  t->out = size;
  if (dim_equal(size, in))
    t->scale = 1;
  else if (dim_is_int(size, &n) && dim_is_int(in, &m))
    t->scale = (double)n / (double)m;
  else if (ratio && dim_is_int(ratio, &n))
    t->scale = (double)n;
}

/* A size that is computed in floats. */
static Dim *computed_size(Importer *im, double size) {
  if (!(size >= 0 && size < 0x1p53))
    import_fail(im, NULL, "its scales give the size %g", size);
  return num(im, (int64_t)size);
}

static void set_scale(Importer *im, Value *x, Target *t, double scale) {
  Dim *in = x->shape.dims[t->axis];
  int64_t n;
  if (!(scale > 0 && scale < MAX_AXIS))
    import_fail(im, NULL, "a scale is invalid");
  t->scale = scale;
  if (dim_is_int(in, &n))
    t->out = computed_size(im, scale * (double)n);
  else if (floor(scale) == scale)
    t->out = dim_mul(&im->dims, in, num(im, (int64_t)scale));
  else if (1 / scale < MAX_AXIS && floor(1 / scale) == 1 / scale)
    t->out = dim_div(&im->dims, in, num(im, (int64_t)(1 / scale)));
  else
    input_size(im, x, t);
}

/* Reads the sizes or scales of the axes. */
static void read_targets(Importer *im, Value *x, uint32_t count, Target *all) {
  uint32_t sizes_input = im->opset < 11 ? 9 : 3;
  uint32_t scales_input = im->opset < 11 ? 1 : 2;
  const Attribute *a = find_attribute(im, "scales");
  uint32_t n = 0;
  if (has_input(im, sizes_input)) {
    Dim **sizes = int_operand(im, sizes_input, NULL, &n);
    for (uint32_t i = 0; i < n && i < count; i++)
      set_size(im, x, &all[i], sizes[i]);
  } else {
    Value *v = a ? NULL : raw_input(im, scales_input);
    if (v && (!v->tensor || v->dtype != DT_F32))
      import_fail(im, NULL, "its scales must be constants");
    n = a ? (uint32_t)a->n_floats : (uint32_t)v->tensor->count;
    for (uint32_t i = 0; i < n && i < count; i++)
      set_scale(im, x, &all[i],
                a ? a->floats[i] : ((float *)v->tensor->data)[i]);
  }
  if (n != count)
    import_fail(im, NULL, "it has %u sizes for %u axes", n, count);
}

static Resampling read_mode(Importer *im) {
  const char *mode = attr_string(im, "mode", "nearest");
  Resampling r = {
      .coordinates = attr_string(im, "coordinate_transformation_mode",
                                 im->opset < 11 ? "asymmetric" : "half_pixel"),
      .nearest = attr_string(im, "nearest_mode",
                             im->opset < 11 ? "floor" : "round_prefer_floor"),
      .antialias = attr_int(im, "antialias", 0),
      .exclude_outside = attr_int(im, "exclude_outside", 0),
      .cubic = attr_float(im, "cubic_coeff_a", -0.75f)};
  r.filter = strcmp(mode, "nearest") == 0 ? NEAREST
             : strcmp(mode, "cubic") == 0 ? CUBIC
                                          : LINEAR;
  r.crops = strcmp(r.coordinates, "tf_crop_and_resize") == 0;
  r.outside = r.crops ? attr_float(im, "extrapolation_value", 0) : 0;
  return r;
}

/* All axes keep the proportions of the input. */
static void keep_aspect(Importer *im, Value *x, uint32_t count, Target *all) {
  const char *policy = attr_string(im, "keep_aspect_ratio_policy", "stretch");
  if (strcmp(policy, "stretch") == 0 || count == 0)
    return;
  for (uint32_t i = 0; i < count; i++)
    all[i].scale = (double)dim_number(im, all[i].out, "a size") /
                   (double)input_size(im, x, &all[i]);
  double scale = all[0].scale;
  for (uint32_t i = 1; i < count; i++)
    scale = strcmp(policy, "not_larger") == 0 ? fmin(scale, all[i].scale)
                                              : fmax(scale, all[i].scale);
  for (uint32_t i = 0; i < count; i++) {
    double size = scale * (double)input_size(im, x, &all[i]);
    all[i].scale = scale;
    all[i].out = computed_size(im, size + 0.5);
  }
}

/* ---- sizes that are names ---- */

/* Repeats each element, as the nearest one does for a whole scale. */
static const char *repeat_axis(Importer *im, const char *all,
                               const Resampling *r, const Target *t) {
  bool from_start = strcmp(r->coordinates, "asymmetric") == 0 &&
                    strcmp(r->nearest, "floor") == 0;
  bool from_half = strcmp(r->coordinates, "half_pixel") == 0 &&
                   strncmp(r->nearest, "round", 5) == 0;
  if (r->filter != NEAREST || t->scale < 1 || floor(t->scale) != t->scale ||
      (!from_start && !from_half))
    return NULL;
  return text(im, "repeat ~axis:%u %lld %s", t->axis, (long long)t->scale, all);
}

/* The place in the input of element i of the output, as an expression. */
static const char *place_text(Importer *im, const Resampling *r,
                              const Target *t, const char *type, const char *in,
                              const char *i) {
  const char *out = extent_atom(im, t->out);
  const char *scale = t->scale != 0
                          ? float_text(im, t->scale)
                          : text(im, "(%s %s / %s %s)", type, out, type, in);
  if (strcmp(r->coordinates, "asymmetric") == 0)
    return text(im, "%s %s / %s", type, i, scale);
  if (strcmp(r->coordinates, "align_corners") == 0 && t->scale != 0)
    return text(im, "%s (%s * (%s - 1)) / maximum 1.0 (%s * %s %s - 1.0)", type,
                i, in, scale, type, in);
  if (strcmp(r->coordinates, "align_corners") == 0)
    return text(im, "%s (%s * (%s - 1)) / %s (maximum 1 (%s - 1))", type, i, in,
                type, out);
  if (strcmp(r->coordinates, "half_pixel") == 0)
    return text(im, "(%s %s + 0.5) / %s - 0.5", type, i, scale);
  if (strcmp(r->coordinates, "pytorch_half_pixel") == 0)
    return text(im, "(if %s > 1 then (%s %s + 0.5) / %s - 0.5 else 0.0)", out,
                type, i, scale);
  return NULL;
}

/* The matrix of linear interpolation, as an expression; or NULL. */
static const char *linear_matrix(Importer *im, const Resampling *r,
                                 const Target *t, Dim *size, Dtype dtype) {
  const char *type = dtype == DT_F64 ? "f64" : "f32";
  const char *in = extent_atom(im, size), *i = index_name(im, "i");
  const char *k = index_name(im, "k");
  const char *place = place_text(im, r, t, type, in, i);
  bool shrinks = r->antialias && !(t->scale >= 1);
  if (r->filter != LINEAR || shrinks || !place)
    return NULL;
  const char *weight =
      text(im, "maximum 0.0 (1.0 - abs (clamp 0.0 (%s (%s - 1)) (%s) - %s %s))",
           type, in, place, type, k);
  if (dtype_is_narrow_float(dtype))
    weight = text(im, "%s (%s)", dtype_info[dtype].name, weight);
  return local(im, "weights",
               text(im, "for %s < %s, %s < %s => %s", i,
                    extent_atom(im, t->out), k, in, weight));
}

/* The part of each axis that is resized, from input 1. */
static const double *read_parts(Importer *im, uint32_t count) {
  Value *v = raw_input(im, 1);
  if (!v->tensor || !dtype_is_float(v->dtype) ||
      v->tensor->count != 2 * (int64_t)count)
    import_fail(im, "give the region as a constant in the model",
                "`roi` must be a constant of %u numbers", 2 * count);
  double *out = MAKE_ARRAY(im->arena, double, 2 * count + 1);
  for (uint32_t k = 0; k < 2 * count; k++)
    out[k] = scalar_load(v->dtype, tensor_at(v->tensor, k)).f;
  return out;
}

/* x resized along one axis. */
static const char *resize_axis(Importer *im, Value *x, const char *all,
                               Resampling r, const Target *t) {
  uint32_t k = t->axis;
  Dim *in = x->shape.dims[k];
  const char *weights = NULL;
  if (!r.crops && (!dim_is_const(in) || !dim_is_const(t->out))) {
    const char *repeated = repeat_axis(im, all, &r, t);
    if (repeated)
      return local(im, "resized", repeated);
    weights = linear_matrix(im, &r, t, in, x->dtype);
  }
  if (!weights) {
    r.in = input_size(im, x, t);
    r.out = dim_number(im, t->out, "a size");
    r.scale = t->scale;
    weights = ref(im, matrix(im, &r, x->dtype, k));
  }
  Buffer from = {.arena = im->arena}, to = {.arena = im->arena};
  for (uint32_t a = 0; a < x->shape.rank; a++) {
    buffer_printf(&from, "%s%c", a ? " " : "", 'a' + (int)a);
    buffer_printf(&to, "%s%c", a ? " " : "", a == k ? 'z' : 'a' + (int)a);
  }
  return local(im, "resized",
               text(im, "einsum \"%s, z %c -> %s\" %s %s", from.text,
                    'a' + (int)k, to.text, all, weights));
}

void onnx_resize(Importer *im, const char *how) {
  Value *x = input(im, 0);
  const int64_t *list;
  uint32_t count = attr_ints(im, "axes", &list);
  Target targets[MAX_RANK] = {0};
  Shape shape = x->shape;
  Resampling r = read_mode(im);
  bool named = count > 0;
  (void)how;
  if (count > shape.rank || !dtype_is_float(x->dtype) || shape.rank > 24)
    import_fail(im, NULL, "its input is not supported");
  count = named ? count : shape.rank;
  for (uint32_t i = 0; i < count; i++)
    targets[i].axis = named ? normal_axis(im, list[i], shape.rank) : i;
  read_targets(im, x, count, targets);
  keep_aspect(im, x, count, targets);
  const char *all = ref(im, x), *outside = float_text(im, r.outside);
  const double *parts = r.crops ? read_parts(im, count) : NULL;
  if (r.outside != 0) /* rows of zeros for the places outside */
    all = local(im, "shifted", text(im, "%s - %s", all, outside));
  for (uint32_t i = 0; i < count; i++) {
    if (parts) {
      r.start = parts[i];
      r.end = parts[i + count];
    }
    if (targets[i].scale == 1 && !(r.crops && (r.start != 0 || r.end != 1)))
      continue;
    all = resize_axis(im, x, all, r, &targets[i]);
    shape.dims[targets[i].axis] = targets[i].out;
  }
  if (r.outside != 0)
    all = text(im, "%s + %s", all, outside);
  define(im, 0, x->dtype, &shape, "%s", all);
}
