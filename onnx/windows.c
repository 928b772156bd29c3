/* Convolution and pooling, as comprehensions. */
#include "onnx/windows.h"

#include <string.h>

void read_window_list(Importer *im, const char *name, uint32_t axes,
                      int64_t otherwise, int64_t *out) {
  const int64_t *list;
  uint32_t count = attr_ints(im, name, &list);
  if (count && count != axes)
    import_fail(im, NULL, "`%s` has %u numbers for %u axes", name, count, axes);
  for (uint32_t k = 0; k < axes; k++) {
    out[k] = count ? list[k] : otherwise;
    if (out[k] < 1 || out[k] > INT32_MAX)
      import_fail(im, NULL, "`%s` has the number %lld", name,
                  (long long)out[k]);
  }
}

void read_window_pads(Importer *im, Windows *w) {
  const int64_t *list;
  uint32_t count = attr_ints(im, "pads", &list);
  if (count && count != 2 * w->axes)
    import_fail(im, NULL, "`pads` does not fit %u axes", w->axes);
  for (uint32_t k = 0; k < w->axes; k++) {
    w->before[k] = count ? list[k] : 0;
    w->after[k] = count ? list[k + w->axes] : 0;
    if (w->before[k] < 0 || w->after[k] < 0 || w->before[k] > INT32_MAX ||
        w->after[k] > INT32_MAX)
      import_fail(im, NULL,
                  "`pads` has a number that is negative or too large");
  }
}

/* auto_pad: the result has size / stride elements, rounded up. */
static void same_pads(Importer *im, Windows *w, const Shape *x, bool lower) {
  for (uint32_t k = 0; k < w->axes; k++) {
    int64_t size = dim_number(im, x->dims[k + 2], "the padding");
    int64_t out = (size + w->stride[k] - 1) / w->stride[k];
    int64_t window = (w->kernel[k] - 1) * w->dilation[k] + 1;
    int64_t pad = (out - 1) * w->stride[k] + window - size;
    pad = pad < 0 ? 0 : pad;
    w->before[k] = lower ? (pad + 1) / 2 : pad / 2;
    w->after[k] = pad - w->before[k];
  }
}

static void out_size(Importer *im, Windows *w, uint32_t k, Dim *size) {
  DimCtx *cx = &im->dims;
  int64_t window = (w->kernel[k] - 1) * w->dilation[k] + 1, n, total;
  Dim *room = dim_add(cx, size, num(im, w->before[k] + w->after[k] - window));
  if (w->ceil_mode) {
    int64_t s = dim_number(im, size, "ceil_mode");
    total = s + w->before[k] + w->after[k];
    n = total < window ? 0 : (total - window + w->stride[k] - 1) / w->stride[k];
    if (n * w->stride[k] >= s + w->before[k])
      n--; /* the last window would begin in the padding */
    w->out[k] = num(im, n + 1);
    int64_t needed = n * w->stride[k] + window;
    w->beyond[k] = needed > total ? needed - total : 0;
    w->after[k] += w->beyond[k];
    return;
  }
  w->out[k] = dim_add(cx, dim_div(cx, room, num(im, w->stride[k])), num(im, 1));
  if (dim_is_int(w->out[k], &n) && n < 1)
    import_fail(
        im, NULL,
        "the window has %lld elements at axis %u, its padded input %s",
        (long long)window, k + 2,
        extent_source(im,
                      dim_add(cx, size, num(im, w->before[k] + w->after[k]))));
}

static void read_windows(Importer *im, Windows *w, const Shape *x) {
  const char *pad = attr_string(im, "auto_pad", "NOTSET");
  read_window_list(im, "strides", w->axes, 1, w->stride);
  read_window_list(im, "dilations", w->axes, 1, w->dilation);
  read_window_pads(im, w);
  if (strncmp(pad, "SAME", 4) == 0)
    same_pads(im, w, x, strcmp(pad, "SAME_LOWER") == 0);
  for (uint32_t k = 0; k < w->axes; k++)
    out_size(im, w, k, x->dims[k + 2]);
}

static const char *padded(Importer *im, const Windows *w, const char *x,
                          const char *value) {
  const char *all = x;
  for (uint32_t k = 0; k < w->axes; k++) {
    const char *before = "", *after = "";
    if (w->before[k])
      before = text(im, " ~before:%lld", (long long)w->before[k]);
    if (w->after[k])
      after = text(im, " ~after:%lld", (long long)w->after[k]);
    if (w->before[k] || w->after[k])
      all = text(im, "%s |> pad ~axis:%u%s%s%s", all, k + 2, before, after,
                 value);
  }
  return strcmp(all, x) == 0 ? x : local(im, "padded", all);
}

/* The names of indices: outer ones y0 y1, and of the window k0 k1. */
typedef struct Indices {
  const char *outer, *window; /* bound, with ranges */
  const char *at;             /* in the padded input: 2 * y0 + k0, y1 + k1 */
  const char *weight;         /* k0, k1 */
  const char *images;         /* b, c, with ranges: images and channels */
} Indices;

static Indices indices(Importer *im, const Windows *w) {
  Buffer outer = {.arena = im->arena}, window = {.arena = im->arena};
  Buffer at = {.arena = im->arena}, weight = {.arena = im->arena};
  static const char *const ys[] = {"y", "z", "u", "v", "p", "q"};
  static const char *const ks[] = {"i", "j", "k", "l", "m", "o"};
  for (uint32_t a = 0; a < w->axes; a++) {
    const char *y = index_name(im, ys[a]), *k = index_name(im, ks[a]);
    buffer_printf(&outer, a ? ", %s < %s" : "%s < %s", y,
                  extent_atom(im, w->out[a]));
    buffer_printf(&window, a ? ", %s < %lld" : "%s < %lld", k,
                  (long long)w->kernel[a]);
    buffer_puts(&at, a ? ", " : "");
    if (w->stride[a] != 1)
      buffer_printf(&at, "%lld * ", (long long)w->stride[a]);
    buffer_printf(&at, "%s + ", y);
    if (w->dilation[a] != 1)
      buffer_printf(&at, "%lld * ", (long long)w->dilation[a]);
    buffer_puts(&at, k);
    buffer_printf(&weight, a ? ", %s" : "%s", k);
  }
  return (Indices){outer.text, window.text, at.text, weight.text, NULL};
}

static void check_spatial(Importer *im, const Shape *x) {
  if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
    import_fail(im, x->rank < 3 ? "an axis of the batch may be missing" : NULL,
                "its input %s has %u axes: it needs a batch, channels and 1 to "
                "%d spatial axes",
                sizes_text(im, x), x->rank, MAX_SPATIAL);
}

/* The number of groups of a convolution. */
static int64_t read_groups(Importer *im, const Shape *x, const Shape *weight) {
  int64_t groups = attr_int(im, "group", 1);
  check_spatial(im, x);
  if (groups < 1)
    import_fail(im, NULL, "`group` is %lld", (long long)groups);
  if (weight->rank != x->rank)
    import_fail(
        im,
        weight->rank == x->rank + 1 ? "an axis of the batch may be missing"
                                    : NULL,
        "its weight %s has %u axes, its input %s has %u",
        sizes_text(im, weight), weight->rank, sizes_text(im, x), x->rank);
  return groups;
}

/* Channels, bias and the attribute `kernel_shape` fit the weight. */
static void check_conv(Importer *im, const Windows *w, const Shape *x,
                       const Shape *weight, const Value *bias, int64_t groups) {
  const int64_t *kernel;
  uint32_t count = attr_ints(im, "kernel_shape", &kernel);
  int64_t outs;
  Dim *ins = dim_mul(&im->dims, weight->dims[1], num(im, groups));
  if (dims_differ(ins, x->dims[1]))
    import_fail(im, NULL,
                "its weight %s needs an input with %s channels, but %s has %s",
                sizes_text(im, weight), extent_source(im, ins),
                sizes_text(im, x), extent_source(im, x->dims[1]));
  if (dim_is_int(weight->dims[0], &outs) && outs % groups)
    import_fail(im, NULL,
                "`group` = %lld does not divide the %lld channels of "
                "its result",
                (long long)groups, (long long)outs);
  if (bias && (bias->shape.rank != 1 ||
               dims_differ(bias->shape.dims[0], weight->dims[0])))
    import_fail(im, NULL, "its bias %s does not fit its weight %s",
                sizes_text(im, &bias->shape), sizes_text(im, weight));
  for (uint32_t k = 0; k < count && k < w->axes; k++)
    if (kernel[k] != w->kernel[k])
      import_fail(im, NULL, "`kernel_shape` has %lld at axis %u, its weight %s",
                  (long long)kernel[k], k, sizes_text(im, weight));
}

/* The amount of padding on all sides, or -1. */
static int64_t even_padding(const Windows *w) {
  for (uint32_t k = 0; k < w->axes; k++)
    if (w->before[k] != w->before[0] || w->after[k] != w->before[0])
      return -1;
  return w->before[0];
}

/* The function of the module nn for a convolution of known sizes, or NULL. */
static const char *conv_function(const Windows *w, const Shape *x,
                                 const Shape *weight, int64_t groups) {
  int64_t outs, ins, channels, n;
  if (w->axes > 2 || !dim_is_int(weight->dims[0], &outs) ||
      !dim_is_int(weight->dims[1], &ins) || !dim_is_int(x->dims[1], &channels))
    return NULL;
  for (uint32_t k = 0; k < w->axes; k++)
    if (w->stride[k] != w->stride[0] || w->dilation[k] != w->dilation[0] ||
        !dim_is_int(x->dims[k + 2], &n))
      return NULL;
  if (groups == 1)
    return w->axes == 1 ? "conv1d" : "conv2d";
  bool is_depthwise = w->axes == 2 && ins == 1 && outs == groups &&
                      channels == groups && w->dilation[0] == 1;
  return is_depthwise ? "depthwise_conv2d" : NULL;
}

/* nn.conv2d ~stride:2 {w = ..., b = ...} x */
static const char *conv_call(Importer *im, const Windows *w, Value *x,
                             Value *weight, Value *bias, const char *function) {
  Buffer options = {.arena = im->arena};
  int64_t padding = even_padding(w);
  bool is_depthwise = strcmp(function, "depthwise_conv2d") == 0;
  const char *in = ref(im, x), *kernel = ref(im, weight);
  if (w->stride[0] != 1)
    buffer_printf(&options, " ~stride:%lld", (long long)w->stride[0]);
  if (padding > 0)
    buffer_printf(&options, " ~padding:%lld", (long long)padding);
  if (w->dilation[0] != 1)
    buffer_printf(&options, " ~dilation:%lld", (long long)w->dilation[0]);
  if (padding < 0)
    in = padded(im, w, in, "");
  if (is_depthwise)
    kernel = text(im, "%s.[:, 0, :, :]", kernel);
  if (bias)
    kernel = text(im, "{w = %s, b = %s}", kernel, ref(im, bias));
  im->uses_nn = true;
  return text(im, "nn.%s%s%s %s %s", bias ? "" : "unbiased_", function,
              options.text ? options.text : "", kernel, in);
}

const char *conv_text(Importer *im, Value *x, Value *weight, Value *bias,
                      Shape *shape) {
  Windows w = {.axes = x->shape.rank - 2};
  int64_t groups = read_groups(im, &x->shape, &weight->shape);
  *shape = x->shape;
  for (uint32_t k = 0; k < w.axes; k++)
    w.kernel[k] = dim_number(im, weight->shape.dims[k + 2], "the kernel");
  check_conv(im, &w, &x->shape, &weight->shape, bias, groups);
  read_windows(im, &w, &x->shape);
  shape->dims[1] = weight->shape.dims[0];
  for (uint32_t k = 0; k < w.axes; k++)
    shape->dims[k + 2] = w.out[k];
  const char *function = conv_function(&w, &x->shape, &weight->shape, groups);
  if (function && (w.axes == 2 || bias))
    return conv_call(im, &w, x, weight, bias, function);
  Indices i = indices(im, &w);
  const char *in = padded(im, &w, ref(im, x), "");
  const char *b = index_name(im, "b"), *o = index_name(im, "o'"),
             *c = index_name(im, "c");
  int64_t outs = dim_number(im, shape->dims[1], "the number of channels");
  int64_t ins = dim_number(im, weight->shape.dims[1], "the channels");
  int64_t per_group = outs / groups;
  const char *channel = c;
  if (groups > 1 && ins == 1)
    channel =
        per_group == 1 ? o : text(im, "%s / %lld", o, (long long)per_group);
  else if (groups > 1)
    channel = text(im, "%s / %lld * %lld + %s", o, (long long)per_group,
                   (long long)ins, c);
  const char *sum =
      ins == 1 && groups > 1
          ? text(im, "sum (for %s => %s.[%s, 0, %s] * %s.[%s, %s, %s])",
                 i.window, ref(im, weight), o, i.weight, in, b, channel, i.at)
          : text(im,
                 "sum (for %s < %lld, %s => %s.[%s, %s, %s] * %s.[%s, %s, %s])",
                 c, (long long)ins, i.window, ref(im, weight), o, c, i.weight,
                 in, b, channel, i.at);
  if (bias)
    sum = text(im, "%s + %s.[%s]", sum, ref(im, bias), o);
  return text(im, "for %s < %s, %s < %lld, %s => %s", b,
              extent_atom(im, shape->dims[0]), o, (long long)outs, i.outer,
              sum);
}

void onnx_conv(Importer *im, const char *how) {
  Value *x = input(im, 0), *weight = input(im, 1);
  Value *bias = has_input(im, 2) ? input(im, 2) : NULL;
  Shape shape;
  const char *all = conv_text(im, x, weight, bias, &shape);
  (void)how;
  define(im, 0, x->dtype, &shape, "%s", all);
}

const char *window_place(Importer *im, int64_t stride, const char *index,
                         const char *sign, int64_t dilation, const char *tap,
                         int64_t shift) {
  const char *all = index;
  if (stride != 1)
    all = text(im, "%lld * %s", (long long)stride, index);
  all = dilation == 1
            ? text(im, "%s %s %s", all, sign, tap)
            : text(im, "%s %s %lld * %s", all, sign, (long long)dilation, tap);
  return shift == 0 ? text(im, "(%s)", all)
                    : text(im, "(%s %c %lld)", all, shift < 0 ? '-' : '+',
                           (long long)(shift < 0 ? -shift : shift));
}

/* Output 1: the index of each maximum in the flat input. */
static void define_maxima(Importer *im, const Windows *w, const Indices *i,
                          const Shape *x, const Shape *shape,
                          const char *item) {
  bool columns_first = attr_int(im, "storage_order", 0);
  Loop loop = loop_over(im, shape);
  int64_t elements = 1;
  for (uint32_t k = 0; k < w->axes; k++)
    elements *= w->kernel[k];
  const char *first =
      local(im, "first",
            text(im, "for %s, %s => argmax (reshape [%lld] (for %s => %s))",
                 i->images, i->outer, (long long)elements, i->window, item));
  const char *at =
      text(im, "%s.[%s]", first, join_names(im, loop.names, 0, shape->rank));
  const char *all = text(im, "%s * %s + %s", loop.names[0],
                         extent_atom(im, x->dims[1]), loop.names[1]);
  Dim *plane = dims_product(im, x, 2, x->rank);
  all = text(im, "(%s) * %s", all, extent_atom(im, plane));
  int64_t inner = elements;
  for (uint32_t k = 0; k < w->axes; k++) {
    inner /= w->kernel[k];
    const char *tap =
        inner == 1 ? at : text(im, "%s / %lld", at, (long long)inner);
    tap = text(im, "(%s %% %lld)", tap, (long long)w->kernel[k]);
    const char *pixel = window_place(im, w->stride[k], loop.names[k + 2], "+",
                                     w->dilation[k], tap, -w->before[k]);
    Dim *step = columns_first ? dims_product(im, x, 2, k + 2)
                              : dims_product(im, x, k + 3, x->rank);
    all = is_one(step)
              ? text(im, "%s + %s", all, pixel)
              : text(im, "%s + %s * %s", all, pixel, extent_atom(im, step));
  }
  define(im, 1, DT_I64, shape, "for %s => %s", loop.binders, all);
}

/* how: max, mean or norm */
void onnx_pool(Importer *im, const char *how) {
  Value *x = input(im, 0);
  Windows w = {.axes = x->shape.rank - 2,
               .ceil_mode = attr_int(im, "ceil_mode", 0)};
  Shape shape = x->shape;
  check_spatial(im, &x->shape);
  read_window_list(im, "kernel_shape", w.axes, 1, w.kernel);
  read_windows(im, &w, &x->shape);
  for (uint32_t k = 0; k < w.axes; k++)
    shape.dims[k + 2] = w.out[k];
  bool is_max = strcmp(how, "max") == 0, is_mean = strcmp(how, "mean") == 0;
  const char *lowest = dtype_is_float(x->dtype) ? " ~value:(-inf)"
                       : x->dtype == DT_I8      ? " ~value:(-128)"
                                                : "";
  Indices i = indices(im, &w);
  const char *in = padded(im, &w, ref(im, x), is_max ? lowest : "");
  const char *b = index_name(im, "b"), *c = index_name(im, "c");
  const char *item = text(im, "%s.[%s, %s, %s]", in, b, c, i.at);
  const char *images = extent_atom(im, shape.dims[0]);
  i.images = text(im, "%s < %s, %s < %s", b, images, c,
                  extent_atom(im, shape.dims[1]));
  const char *all = text(im, "%s (for %s => %s)", how, i.window, item);
  int64_t p = attr_int(im, "p", 2);
  if (is_max && has_output(im, 1))
    define_maxima(im, &w, &i, &x->shape, &shape, item);
  if (strcmp(how, "norm") == 0)
    all = p == 1 ? text(im, "sum (for %s => abs %s)", i.window, item)
          : p == 2
              ? text(im, "sqrt (sum (for %s => square %s))", i.window, item)
              : text(im,
                     "pow (sum (for %s => pow (abs %s) %lld.0)) (1.0 / %lld.0)",
                     i.window, item, (long long)p, (long long)p);
  bool pads = strcmp(in, ref(im, x)) != 0;
  if (is_mean && pads) {
    Buffer sizes = {.arena = im->arena};
    Windows inner = w;
    bool counts_pads = attr_int(im, "count_include_pad", 0);
    for (uint32_t k = 0; k < w.axes; k++) {
      Dim *size = x->shape.dims[k + 2];
      if (counts_pads) {
        int64_t pads = w.before[k] + w.after[k] - w.beyond[k];
        size = dim_add(&im->dims, size, num(im, pads));
        inner.before[k] = 0;
        inner.after[k] = w.beyond[k];
      }
      buffer_printf(&sizes, k ? ", %s" : "1, 1, %s", extent_source(im, size));
    }
    const char *ones = padded(im, &inner,
                              text(im, "(ones [%s] : %s[%s])", sizes.text,
                                   dtype_info[x->dtype].name, sizes.text),
                              "");
    all = text(im, "sum (for %s => %s) / sum (for %s => %s.[0, 0, %s])",
               i.window, item, i.window, ones, i.at);
  }
  define(im, 0, x->dtype, &shape, "for %s, %s => %s", i.images, i.outer, all);
}

/* how: max, mean or norm, over all spatial axes */
void onnx_global_pool(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  Shape shape = x->shape;
  Buffer axes = {.arena = im->arena};
  check_spatial(im, &x->shape);
  for (uint32_t k = 2; k < shape.rank; k++) {
    shape.dims[k] = num(im, 1);
    shape.stars |= 1u << k;
    buffer_printf(&axes, k > 2 ? ", %u" : "%u", k);
  }
  const char *operand = ref(im, x);
  bool is_norm = strcmp(how, "norm") == 0;
  double p = (double)attr_int(im, "p", 2);
  if (is_norm)
    operand = text(im, "(pow (abs %s) %s)", operand, float_text(im, p));
  const char *all = text(im,
                         shape.rank == 3 ? "%s ~axis:%s ~keep:true %s"
                                         : "%s ~axis:(%s) ~keep:true %s",
                         is_norm ? "sum" : how, axes.text, operand);
  if (is_norm)
    all = text(im, "pow (%s) %s", all, float_text(im, 1 / p));
  define(im, 0, x->dtype, &shape, "%s", all);
}

/* ---- transposed convolution ---- */

static void read_output_pads(Importer *im, Windows *w, const Shape *x) {
  const int64_t *shape, *extra;
  uint32_t n = attr_ints(im, "output_shape", &shape);
  uint32_t m = attr_ints(im, "output_padding", &extra);
  const char *pad = attr_string(im, "auto_pad", "NOTSET");
  bool same = strncmp(pad, "SAME", 4) == 0;
  if ((n && n != w->axes) || (m && m != w->axes))
    import_fail(im, NULL, "its lists do not fit %u axes", w->axes);
  for (uint32_t k = 0; k < w->axes; k++) {
    int64_t more = m ? extra[k] : 0, s = w->stride[k];
    int64_t size = dim_number(im, x->dims[k + 2], "the output");
    int64_t window = (w->kernel[k] - 1) * w->dilation[k] + 1;
    int64_t whole = s * (size - 1) + more + window;
    if (n || same) {
      int64_t total = whole - (n ? shape[k] : size * s);
      w->before[k] =
          strcmp(pad, "SAME_UPPER") == 0 ? total >> 1 : total - (total >> 1);
      w->after[k] = total - w->before[k];
    }
    int64_t out = whole - w->before[k] - w->after[k];
    w->out[k] = num(im, out);
    w->before[k] = window - 1 - w->before[k];
    w->after[k] = window - 1 - w->after[k] + more;
    if (out < 0 || w->before[k] < 0 || w->after[k] < 0)
      import_fail(im, NULL, "such padding is not supported");
  }
}

/* Zeros between the elements of the spatial axes. */
static const char *spread(Importer *im, const Windows *w, const Shape *x,
                          const char *in) {
  Buffer binders = {.arena = im->arena}, items = {.arena = im->arena};
  Buffer condition = {.arena = im->arena};
  for (uint32_t a = 0; a < x->rank; a++) {
    int64_t s = a < 2 ? 1 : w->stride[a - 2];
    const char *i = index_name(im, text(im, "i%u", a));
    const char *size = extent_atom(im, x->dims[a]), *comma = a ? ", " : "";
    if (s == 1) {
      buffer_printf(&binders, "%s%s < %s", comma, i, size);
      buffer_printf(&items, "%s%s", comma, i);
      continue;
    }
    int64_t n = dim_number(im, x->dims[a], "a size");
    buffer_printf(&binders, "%s%s < %lld", comma, i,
                  (long long)(s * (n - 1) + 1));
    buffer_printf(&items, "%s%s / %lld", comma, i, (long long)s);
    buffer_printf(&condition, "%s%s %% %lld == 0", condition.len ? " && " : "",
                  i, (long long)s);
  }
  if (!condition.len)
    return in;
  return local(im, "spread",
               text(im, "for %s => if %s then %s.[%s] else 0.0", binders.text,
                    condition.text, in, items.text));
}

/* The convolution with the reversed kernel, of the input with zeros between. */
void onnx_conv_transpose(Importer *im, const char *how) {
  Value *x = input(im, 0), *weight = input(im, 1);
  Windows w = {.axes = x->shape.rank - 2};
  Shape shape = x->shape;
  int64_t groups = read_groups(im, &x->shape, &weight->shape);
  (void)how;
  int64_t ins = dim_number(im, weight->shape.dims[0], "the channels");
  if (dims_differ(weight->shape.dims[0], x->shape.dims[1]) || ins % groups)
    import_fail(im, NULL,
                "its weight %s needs an input with %lld channels in %lld "
                "groups, but %s has %s",
                sizes_text(im, &weight->shape), (long long)ins,
                (long long)groups, sizes_text(im, &x->shape),
                extent_source(im, x->shape.dims[1]));
  int64_t outs = dim_number(im, weight->shape.dims[1], "the channels");
  for (uint32_t k = 0; k < w.axes; k++)
    w.kernel[k] = dim_number(im, weight->shape.dims[k + 2], "the kernel");
  read_window_list(im, "strides", w.axes, 1, w.stride);
  read_window_list(im, "dilations", w.axes, 1, w.dilation);
  read_window_pads(im, &w);
  read_output_pads(im, &w, &x->shape);
  const char *in = padded(im, &w, spread(im, &w, &x->shape, ref(im, x)), "");
  const char *kernel = ref(im, weight);
  for (uint32_t k = 0; k < w.axes; k++) {
    shape.dims[k + 2] = w.out[k];
    kernel = text(im, "%s |> reverse ~axis:%u", kernel, k + 2);
    w.stride[k] = 1;
  }
  kernel = local(im, "reversed", kernel);
  Indices i = indices(im, &w);
  const char *b = index_name(im, "b"), *o = index_name(im, "o'"),
             *c = index_name(im, "c");
  int64_t per_group = ins / groups;
  const char *channel = c, *out = o;
  if (groups > 1) {
    channel = text(im, "%s / %lld * %lld + %s", o, (long long)outs,
                   (long long)per_group, c);
    out = text(im, "%s %% %lld", o, (long long)outs);
  }
  const char *sum =
      text(im, "sum (for %s < %lld, %s => %s.[%s, %s, %s] * %s.[%s, %s, %s])",
           c, (long long)per_group, i.window, kernel, channel, out, i.weight,
           in, b, channel, i.at);
  if (has_input(im, 2))
    sum = text(im, "%s + %s.[%s]", sum, ref(im, input(im, 2)), o);
  shape.dims[1] = num(im, outs * groups);
  define(im, 0, x->dtype, &shape, "for %s < %s, %s < %lld, %s => %s", b,
         extent_atom(im, shape.dims[0]), o, (long long)(outs * groups), i.outer,
         sum);
}
