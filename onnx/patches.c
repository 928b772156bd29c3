/* Operators that move windows back to an image, or away from their places. */
#include "onnx/windows.h"

#include <string.h>

/* ---- Col2Im ---- */

/* The numbers of an input, one for each spatial axis. */
static void read_sizes(Importer *im, uint32_t i, uint32_t axes, int64_t *out) {
  uint32_t count;
  int64_t *list = const_operand(im, i, NULL, &count);
  if (count != axes)
    import_fail(im, NULL, "input %u has %u numbers for %u axes", i, count,
                axes);
  for (uint32_t k = 0; k < axes; k++) {
    out[k] = list[k];
    if (out[k] < 1 || out[k] > INT32_MAX)
      import_fail(im, NULL, "input %u has the number %lld", i,
                  (long long)out[k]);
  }
}

/* The number of windows along an axis. */
static int64_t window_count(Importer *im, const Windows *w, uint32_t k,
                            int64_t size) {
  int64_t room = size + w->before[k] + w->after[k] -
                 ((w->kernel[k] - 1) * w->dilation[k] + 1);
  if (room < 0)
    import_fail(im, NULL, "the window is larger than its image");
  return room / w->stride[k] + 1;
}

typedef struct Patches { /* texts for all spatial axes */
  Buffer window;         /* indices in the window, with ranges */
  Buffer inside;         /* a condition: the pixel is in such a window */
  const char *element;   /* of the window */
  const char *patch;     /* the number of the window */
} Patches;

/* Which element of which window a pixel is. */
static void add_axis(Importer *im, Patches *p, const Windows *w, uint32_t k,
                     const char *pixel, int64_t count) {
  const char *i = index_name(im, text(im, "k%u", k));
  const char *at =
      window_place(im, 1, pixel, "-", w->dilation[k], i, w->before[k]);
  buffer_printf(&p->window, "%s%s < %lld", k ? ", " : "", i,
                (long long)w->kernel[k]);
  if (w->stride[k] > 1) {
    buffer_printf(&p->inside, "%s%s %% %lld == 0", k ? " && " : "", at,
                  (long long)w->stride[k]);
    at = text(im, "%s / %lld", at, (long long)w->stride[k]);
  }
  buffer_printf(&p->inside, "%s0 <= %s && %s < %lld",
                p->inside.len ? " && " : "", at, at, (long long)count);
  p->element =
      k ? text(im, "(%s) * %lld + %s", p->element, (long long)w->kernel[k], i)
        : i;
  p->patch =
      k ? text(im, "(%s) * %lld + %s", p->patch, (long long)count, at) : at;
}

void onnx_col2im(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count;
  Windows w = {0};
  int64_t image[MAX_SPATIAL], elements = 1, patches = 1;
  (void)how;
  const_operand(im, 1, NULL, &count);
  if (x->shape.rank != 3 || count < 1 || count > MAX_SPATIAL)
    import_fail(im, NULL, "its operands do not fit");
  w.axes = count;
  read_sizes(im, 1, count, image);
  read_sizes(im, 2, count, w.kernel);
  read_window_list(im, "strides", count, 1, w.stride);
  read_window_list(im, "dilations", count, 1, w.dilation);
  read_window_pads(im, &w);
  for (uint32_t k = 0; k < count; k++)
    elements *= w.kernel[k];
  Dim *channels =
      dim_exact_quotient(&im->dims, x->shape.dims[1], num(im, elements));
  if (!channels)
    import_fail(im, NULL, "%lld elements of a window do not divide %s",
                (long long)elements, extent_source(im, x->shape.dims[1]));
  Shape shape = {2 + count, 0, {x->shape.dims[0], channels}};
  for (uint32_t k = 0; k < count; k++)
    shape.dims[k + 2] = num(im, image[k]);
  Loop loop = loop_over(im, &shape);
  Patches p = {.window = {.arena = im->arena}, .inside = {.arena = im->arena}};
  for (uint32_t k = 0; k < count; k++) {
    int64_t n = window_count(im, &w, k, image[k]);
    add_axis(im, &p, &w, k, loop.names[k + 2], n);
    patches *= n;
  }
  if (!dim_equal(x->shape.dims[2], num(im, patches)))
    import_fail(im, NULL, "the image has %lld windows, its input %s",
                (long long)patches, extent_source(im, x->shape.dims[2]));
  define(im, 0, x->dtype, &shape,
         "for %s => sum (for %s => if %s then %s.[%s, %s * %lld + %s, %s] else "
         "0)",
         loop.binders, p.window.text, p.inside.text, ref(im, x), loop.names[0],
         loop.names[1], (long long)elements, p.element, p.patch);
}

/* ---- MaxUnpool ---- */

/* The elements at their indices in a flat tensor of zeros. */
void onnx_max_unpool(Importer *im, const char *how) {
  Value *x = input(im, 0), *at = input(im, 1);
  Windows w = {.axes = x->shape.rank - 2};
  (void)how;
  if (x->shape.rank < 3 || w.axes > MAX_SPATIAL ||
      !shapes_equal(&x->shape, &at->shape))
    import_fail(im, NULL, "its operands do not fit: %s and %s",
                sizes_text(im, &x->shape), sizes_text(im, &at->shape));
  Shape shape = x->shape;
  read_window_list(im, "kernel_shape", w.axes, 1, w.kernel);
  read_window_list(im, "strides", w.axes, 1, w.stride);
  read_window_pads(im, &w);
  for (uint32_t k = 0; k < w.axes; k++) {
    Dim *steps = dim_sub(&im->dims, x->shape.dims[k + 2], num(im, 1));
    shape.dims[k + 2] =
        dim_add(&im->dims, dim_mul(&im->dims, steps, num(im, w.stride[k])),
                num(im, w.kernel[k] - w.before[k] - w.after[k]));
  }
  Dim *from = dims_product(im, &x->shape, 0, x->shape.rank);
  Dim *to = dims_product(im, &shape, 0, shape.rank);
  const char *flat = extent_source(im, from);
  const char *values = ref(im, x), *places = ref(im, at);
  const char *all = text(
      im, "reshape %s (put (reshape [%s] %s) (reshape [%s] %s) (zeros [%s]))",
      sizes_text(im, &shape), flat, places, flat, values,
      extent_source(im, to));
  if (has_input(im, 2)) {
    uint32_t count;
    Dim **whole = int_operand(im, 2, NULL, &count);
    if (count != shape.rank)
      import_fail(im, NULL, "`output_shape` does not fit the rank");
    for (uint32_t k = 0; k < count; k++) {
      Dim *more = dim_sub(&im->dims, whole[k], shape.dims[k]);
      if (dim_is_const(more) && dim_sign(more) < 0)
        import_fail(im, NULL, "`output_shape` has %s, less than %s",
                    extent_source(im, whole[k]),
                    extent_source(im, shape.dims[k]));
      shape.dims[k] = whole[k];
      if (!dim_is_const(more) || dim_sign(more))
        all = text(im, "%s |> pad ~axis:%u ~after:%s", all, k,
                   extent_atom(im, more));
    }
  }
  define(im, 0, x->dtype, &shape, "%s", all);
}

/* ---- DeformConv ---- */

enum { IN_OFFSET = 2, IN_BIAS, IN_MASK };

typedef struct Deformed {
  Value *x, *weight, *offset;
  int64_t kernel[2], stride[2], dilation[2], before[2];
  int64_t ins, outs;  /* channels of a group */
  int64_t per_offset; /* channels that share offsets */
} Deformed;

static Deformed read_deformed(Importer *im) {
  Deformed d = {.x = input(im, 0)};
  d.weight = input(im, 1);
  d.offset = input(im, IN_OFFSET);
  int64_t groups = attr_int(im, "group", 1);
  int64_t offsets = attr_int(im, "offset_group", 1);
  if (d.x->shape.rank != 4 || d.weight->shape.rank != 4 ||
      d.offset->shape.rank != 4)
    import_fail(im, NULL, "only images with two spatial axes are supported");
  int64_t channels = dim_number(im, d.x->shape.dims[1], "the channels");
  int64_t outs = dim_number(im, d.weight->shape.dims[0], "the channels");
  d.ins = dim_number(im, d.weight->shape.dims[1], "the channels");
  if (groups < 1 || offsets < 1 || outs % groups || channels % offsets ||
      d.ins * groups != channels)
    import_fail(im, NULL, "its groups do not fit its channels");
  d.outs = outs / groups;
  d.per_offset = channels / offsets;
  Windows w = {.axes = 2};
  read_window_list(im, "strides", 2, 1, w.stride);
  read_window_list(im, "dilations", 2, 1, w.dilation);
  read_window_pads(im, &w);
  for (uint32_t k = 0; k < 2; k++) {
    w.kernel[k] = dim_number(im, d.weight->shape.dims[k + 2], "the kernel");
    int64_t size = dim_number(im, d.x->shape.dims[k + 2], "a size");
    Dim *out = num(im, window_count(im, &w, k, size));
    if (!dim_equal(d.offset->shape.dims[k + 2], out))
      import_fail(im, NULL,
                  "the result has the size %s at axis %u, `offset` "
                  "%s",
                  extent_source(im, out), k + 2,
                  extent_source(im, d.offset->shape.dims[k + 2]));
  }
  memcpy(d.kernel, w.kernel, sizeof d.kernel);
  memcpy(d.stride, w.stride, sizeof d.stride);
  memcpy(d.dilation, w.dilation, sizeof d.dilation);
  memcpy(d.before, w.before, sizeof d.before);
  Dim *needed = num(im, 2 * offsets * d.kernel[0] * d.kernel[1]);
  if (!dim_equal(d.offset->shape.dims[1], needed))
    import_fail(im, NULL, "`offset` has the size %s at axis 1, not %s",
                extent_source(im, d.offset->shape.dims[1]),
                extent_source(im, needed));
  return d;
}

/* A convolution whose pixels have moved by fractions of a pixel. */
void onnx_deform_conv(Importer *im, const char *how) {
  Deformed d = read_deformed(im);
  Shape shape = {4,
                 0,
                 {d.x->shape.dims[0], d.weight->shape.dims[0],
                  d.offset->shape.dims[2], d.offset->shape.dims[3]}};
  Loop loop = loop_over(im, &shape);
  const char *const *at = loop.names;
  const char *c = index_name(im, "c"), *i = index_name(im, "i");
  const char *j = index_name(im, "j"), *type = dtype_info[d.x->dtype].name;
  const char *image = ref(im, d.x), *weight = ref(im, d.weight);
  const char *moved = ref(im, d.offset), *place_of[2];
  (void)how;
  use_helper(im, HELPER_BILINEAR);
  const char *channel = d.outs * d.ins == 1 && d.per_offset == 1
                            ? at[1]
                            : text(im, "(%s / %lld * %lld + %s)", at[1],
                                   (long long)d.outs, (long long)d.ins, c);
  const char *tap =
      text(im, "(%s / %lld * %lld + %s * %lld + %s)", channel,
           (long long)d.per_offset, (long long)(d.kernel[0] * d.kernel[1]), i,
           (long long)d.kernel[1], j);
  for (uint32_t k = 0; k < 2; k++)
    place_of[k] = text(im, "(%s %s + %s.[%s, 2 * %s + %u, %s, %s])", type,
                       window_place(im, d.stride[k], at[k + 2], "+",
                                    d.dilation[k], k ? j : i, -d.before[k]),
                       moved, at[0], tap, k, at[2], at[3]);
  const char *term =
      text(im, "%s.[%s, %s, %s, %s] * bilinear %s.[%s, %s, ...] %s %s", weight,
           at[1], c, i, j, image, at[0], channel, place_of[0], place_of[1]);
  if (has_input(im, IN_MASK))
    term = text(im, "%s * %s.[%s, %s, %s, %s]", term,
                ref(im, input(im, IN_MASK)), at[0], tap, at[2], at[3]);
  const char *sum = text(im, "sum (for %s < %lld, %s < %lld, %s < %lld => %s)",
                         c, (long long)d.ins, i, (long long)d.kernel[0], j,
                         (long long)d.kernel[1], term);
  if (has_input(im, IN_BIAS))
    sum = text(im, "%s + %s.[%s]", sum, ref(im, input(im, IN_BIAS)), at[1]);
  define(im, 0, d.x->dtype, &shape, "for %s => %s", loop.binders, sum);
}
