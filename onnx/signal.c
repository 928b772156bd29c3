/* Fourier transforms, and the windows that signals are multiplied by. */
#include "onnx/ops.h"

#include <math.h>

/* A signal without its last axis, which has one part or two. */
typedef struct Signal {
  const char *re, *im; /* im: NULL if it is real */
  Dtype dtype;
  Shape shape;
} Signal;

static Signal read_signal(Importer *im, Value *x) {
  Signal s = {.dtype = x->dtype, .shape = x->shape};
  if (s.shape.rank < 2 || !dtype_is_float(x->dtype))
    import_fail(im, NULL, "its input is not supported");
  int64_t parts = dim_number(im, s.shape.dims[--s.shape.rank], "its last axis");
  if (parts != 1 && parts != 2)
    import_fail(im, NULL, "its last axis has %lld elements, not 1 or 2",
                (long long)parts);
  s.re = local(im, "re", text(im, "%s.[..., 0]", ref(im, x)));
  if (parts == 2)
    s.im = local(im, "im", text(im, "%s.[..., 1]", ref(im, x)));
  return s;
}

static const char *fit_part(Importer *im, const char *x, uint32_t axis,
                            int64_t from, int64_t to) {
  Buffer b = {.arena = im->arena};
  if (!x || from == to)
    return x;
  if (from < to)
    return local(im, "longer",
                 text(im, "pad ~axis:%u ~after:%lld %s", axis,
                      (long long)(to - from), x));
  buffer_printf(&b, "%s.[", x);
  for (uint32_t k = 0; k < axis; k++)
    buffer_puts(&b, ":, ");
  buffer_printf(&b, "0:%lld, ...]", (long long)to);
  return local(im, "shorter", b.text);
}

/* Adds zeros at the end of an axis, or removes elements there. */
static void fit_signal(Importer *im, Signal *s, uint32_t axis, Dim *size) {
  Dim *before = s->shape.dims[axis];
  if (dim_equal(before, size))
    return;
  int64_t from = dim_number(im, before, "a size");
  int64_t to = dim_number(im, size, "a size");
  s->re = fit_part(im, s->re, axis, from, to);
  s->im = fit_part(im, s->im, axis, from, to);
  s->shape.dims[axis] = size;
}

static const char *imaginary(Importer *im, const Signal *s) {
  const char *sizes = sizes_text(im, &s->shape);
  return s->im ? s->im
               : text(im, "(zeros %s : %s%s)", sizes, dtype_info[s->dtype].name,
                      sizes);
}

/* Defines the output: the parts of y, on axis 0, become the last axis. */
static void define_parts(Importer *im, const Signal *s, const char *y) {
  Shape shape = s->shape;
  y = local(im, "spectrum", y);
  shape.dims[shape.rank++] = num(im, 2);
  define(im, 0, s->dtype, &shape, "%s",
         move_axis(im, y, shape.rank, 0, shape.rank - 1));
}

static Dim *half(Importer *im, Dim *n) {
  return dim_add(&im->dims, dim_div(&im->dims, n, num(im, 2)), num(im, 1));
}

static void forward(Importer *im, Signal *s, uint32_t axis, bool onesided) {
  const char *y = text(im, "real_dft ~axis:%u %s", axis, s->re);
  if (onesided && s->im)
    import_fail(im, NULL, "half of the spectrum of a complex signal");
  if (onesided)
    s->shape.dims[axis] = half(im, s->shape.dims[axis]);
  else
    y = text(im, "dft ~axis:%u %s %s", axis, s->re, imaginary(im, s));
  define_parts(im, s, y);
}

static void inverse(Importer *im, Signal *s, uint32_t axis) {
  define_parts(im, s,
               text(im, "dft ~axis:%u ~inverse:true %s %s / %s %s", axis, s->re,
                    imaginary(im, s), dtype_info[s->dtype].name,
                    extent_atom(im, s->shape.dims[axis])));
}

/* A real signal of n elements, from half of its spectrum. */
static void inverse_real(Importer *im, Signal *s, uint32_t axis, Dim *n) {
  const char *size = extent_atom(im, n);
  fit_signal(im, s, axis, half(im, n));
  const char *y =
      local(im, "signal",
            text(im, "inverse_real_dft ~axis:%u %s %s %s / %s %s", axis, size,
                 s->re, imaginary(im, s), dtype_info[s->dtype].name, size));
  Shape shape = s->shape;
  shape.dims[axis] = n;
  shape.dims[shape.rank++] = num(im, 1);
  define(im, 0, s->dtype, &shape, "%s.[..., *]", y);
}

void onnx_dft(Importer *im, const char *how) {
  uint32_t count;
  Value *x = input(im, 0);
  Signal s = read_signal(im, x);
  bool is_inverse = attr_int(im, "inverse", 0);
  bool onesided = attr_int(im, "onesided", 0);
  int64_t place = im->opset < 20 ? attr_int(im, "axis", 1) : -2;
  (void)how;
  if (has_input(im, 2))
    place = dim_number(im, int_operand(im, 2, NULL, &count)[0], "the axis");
  uint32_t axis = normal_axis(im, place, x->shape.rank);
  if (axis >= s.shape.rank)
    import_fail(im, NULL, "the axis of its parts cannot be transformed");
  Dim *n = s.shape.dims[axis];
  if (is_inverse && onesided)
    n = dim_mul(&im->dims, num(im, 2), dim_sub(&im->dims, n, num(im, 1)));
  if (has_input(im, 1))
    n = int_operand(im, 1, NULL, &count)[0];
  if (dim_is_const(n) && dim_sign(n) <= 0)
    import_fail(im, NULL, "the length of the transform is %s",
                extent_source(im, n));
  if (is_inverse && onesided) {
    inverse_real(im, &s, axis, n);
    return;
  }
  fit_signal(im, &s, axis, n);
  if (is_inverse)
    inverse(im, &s, axis);
  else
    forward(im, &s, axis, onesided);
}

/* Frame f of a part begins at element f * step. */
static const char *frames(Importer *im, const char *x, const Shape *shape,
                          const char *step, const char *window) {
  const char *b = index_name(im, "b"), *f = index_name(im, "f"),
             *k = index_name(im, "k");
  if (!x)
    return NULL;
  return local(
      im, "frames",
      text(im, "for %s < %s, %s < %s, %s < %s => %s.[%s, %s * %s + %s]%s", b,
           extent_atom(im, shape->dims[0]), f, extent_atom(im, shape->dims[1]),
           k, extent_atom(im, shape->dims[2]), x, b, f, step, k,
           window ? text(im, " * %s.[%s]", window, k) : ""));
}

void onnx_stft(Importer *im, const char *how) {
  enum { IN_STEP = 1, IN_WINDOW, IN_LENGTH };
  uint32_t count;
  Value *x = input(im, 0);
  Value *window = has_input(im, IN_WINDOW) ? input(im, IN_WINDOW) : NULL;
  Signal s = read_signal(im, x);
  Dim *step = int_operand(im, IN_STEP, NULL, &count)[0];
  Dim *length = has_input(im, IN_LENGTH)
                    ? int_operand(im, IN_LENGTH, NULL, &count)[0]
                : window ? window->shape.dims[0]
                         : NULL;
  (void)how;
  if (s.shape.rank != 2 || !length)
    import_fail(im, NULL, "its operands are not supported");
  if (dim_number(im, step, "the step") < 1)
    import_fail(im, NULL, "the step is %s", extent_source(im, step));
  if (dim_is_const(length) && dim_sign(length) <= 0)
    import_fail(im, NULL, "a frame has %s elements", extent_source(im, length));
  Dim *last = dim_sub(&im->dims, s.shape.dims[1], length);
  if (dim_is_const(last) && dim_sign(last) < 0)
    import_fail(im, NULL, "a frame has %s elements, the signal only %s",
                extent_source(im, length), extent_source(im, s.shape.dims[1]));
  if (window && dims_differ(window->shape.dims[0], length))
    import_fail(im, NULL, "a frame has %s elements, the window %s",
                extent_source(im, length),
                extent_source(im, window->shape.dims[0]));
  s.shape.dims[1] =
      dim_add(&im->dims, dim_div(&im->dims, last, step), num(im, 1));
  s.shape.dims[s.shape.rank++] = length;
  const char *w = window ? ref(im, window) : NULL;
  s.re = frames(im, s.re, &s.shape, extent_atom(im, step), w);
  s.im = frames(im, s.im, &s.shape, extent_atom(im, step), w);
  forward(im, &s, 2, attr_int(im, "onesided", 1));
}

/* how: the window at the angle $0, which goes once around. */
void onnx_window(Importer *im, const char *how) {
  uint32_t count;
  Shape shape = {.rank = 1, .dims = {int_operand(im, 0, NULL, &count)[0]}};
  Dtype dtype = require_dtype(im, (int32_t)attr_int(im, "output_datatype", 1),
                              "output", im->node->output[0]);
  if (dim_is_const(shape.dims[0]) && dim_sign(shape.dims[0]) < 0)
    import_fail(im, NULL, "the window has %s elements",
                extent_source(im, shape.dims[0]));
  const char *size = extent_atom(im, shape.dims[0]);
  const char *whole =
      attr_int(im, "periodic", 1) ? size : text(im, "(%s - 1)", size);
  const char *type = dtype == DT_F64 ? "f64" : "f32";
  const char *i = index_name(im, "i");
  const char *angle =
      local(im, "angle",
            text(im, "for %s < %s => 6.283185307179586 * %s %s / %s %s", i,
                 size, type, i, type, whole));
  if (!dtype_is_float(dtype))
    import_fail(im, NULL, "a window of integers is not supported");
  const char *all = fill_template(im, how, &angle, 1);
  if (dtype_is_narrow_float(dtype))
    all = text(im, "%s (%s)", dtype_info[dtype].name, all);
  define(im, 0, dtype, &shape, "%s", all);
}

/* ---- MelWeightMatrix ---- */

typedef struct MelFilters {
  int64_t bins, spectrum;   /* columns and rows of the matrix */
  int64_t length, rate;     /* of the transform; samples in a second */
  double low_mel, mel_step; /* where the filters begin, and their distance */
} MelFilters;

static double mel_of_hertz(double x) {
  return 2595 * log10(1 + x / 700);
}

static double float_operand(Importer *im, uint32_t i) {
  Value *v = raw_input(im, i);
  if (!v->tensor || v->tensor->count != 1 || !dtype_is_float(v->dtype))
    import_fail(im, NULL, "its input %u is not a known number", i);
  return scalar_load(v->dtype, v->tensor->data).f;
}

static MelFilters read_mel_filters(Importer *im) {
  enum { IN_BINS, IN_LENGTH, IN_RATE, IN_LOW, IN_HIGH, MOST = 1 << 20 };
  uint32_t count;
  MelFilters m = {0};
  m.bins = *const_operand(im, IN_BINS, NULL, &count);
  m.length = *const_operand(im, IN_LENGTH, NULL, &count);
  m.rate = *const_operand(im, IN_RATE, NULL, &count);
  m.low_mel = mel_of_hertz(float_operand(im, IN_LOW));
  double high = float_operand(im, IN_HIGH);
  m.spectrum = m.length / 2 + 1;
  if (m.bins < 1 || m.length < 1 || m.rate < 1 || m.length > MOST ||
      m.bins > MOST / m.spectrum)
    import_fail(im, NULL, "its matrix is empty or too large");
  m.mel_step = (mel_of_hertz(high) - m.low_mel) / (double)(m.bins + 2);
  if (!(m.low_mel >= 0 && m.mel_step >= 0 && 2 * high <= (double)m.rate))
    import_fail(im, NULL,
                "its frequencies do not lie between 0 and half of the rate");
  return m;
}

/* The row of the matrix where filter i begins. */
static int64_t mel_row(const MelFilters *m, int64_t i) {
  double mel = m->low_mel + m->mel_step * (double)i;
  double hertz = 700 * (pow(10, mel / 2595) - 1);
  return (int64_t)floor((double)(m->length + 1) * hertz / (double)m->rate);
}

/* A triangle in each column, from mel_row i to mel_row (i + 2). */
static double mel_weight(const MelFilters *m, int64_t row, int64_t i) {
  int64_t low = mel_row(m, i), peak = mel_row(m, i + 1),
          high = mel_row(m, i + 2);
  if (row < low || row > peak)
    return row > peak && row < high
               ? (double)(high - row) / (double)(high - peak)
               : 0;
  return low == peak ? 1 : (double)(row - low) / (double)(peak - low);
}

void onnx_mel_matrix(Importer *im, const char *how) {
  MelFilters m = read_mel_filters(im);
  int64_t sizes[] = {m.spectrum, m.bins};
  const char *name = im->node->output[0];
  Dtype dtype = require_dtype(im, (int32_t)attr_int(im, "output_datatype", 1),
                              "output", name);
  Tensor *t = constant_tensor(im, dtype, 2, sizes);
  (void)how;
  for (int64_t k = 0; k < t->count; k++) {
    double x = mel_weight(&m, k / m.bins, k % m.bins);
    scalar_store(scalar_convert((Scalar){.dtype = DT_F64, .f = x}, dtype),
                 tensor_at(t, k));
  }
  define_alias(im, 0, constant_value(im, name, t));
}
