/* Quantized values: integers of 8 and 32 bits, with scales and zero points. */
#include "onnx/ops.h"

#include <string.h>

enum { IN_SCALE = 1, IN_ZERO };

/* A number for each block of an axis. */
static const char *along_blocks(Importer *im, Value *v, uint32_t axis,
                                const Shape *x) {
  int64_t block = attr_int(im, "block_size", 0);
  const char *s = ref(im, v);
  if (block < 1 || v->shape.rank != x->rank)
    import_fail(im, NULL, "its scales %s do not fit %s",
                sizes_text(im, &v->shape), sizes_text(im, x));
  Dim *covered = dim_mul(&im->dims, v->shape.dims[axis], num(im, block));
  s = text(im, "(repeat ~axis:%u %lld %s)", axis, (long long)block, s);
  if (!dim_equal(covered, x->dims[axis]))
    s = item_at(im, s, axis, x->rank,
                text(im, ":%s", extent_source(im, x->dims[axis])));
  return s;
}

/* Numbers that broadcast against a tensor of the same rank. */
static const char *along_all(Importer *im, Value *v, const Shape *x) {
  uint32_t mask = 0;
  for (uint32_t k = 0; k < v->shape.rank; k++) {
    bool stretches = is_one(v->shape.dims[k]);
    if (v->shape.rank != x->rank ||
        (!stretches && dims_differ(v->shape.dims[k], x->dims[k])))
      import_fail(im, NULL, "its scales or zero points %s do not fit %s",
                  sizes_text(im, &v->shape), sizes_text(im, x));
    if (stretches && !is_one(x->dims[k]))
      mask |= 1u << k;
  }
  const char *s = ref(im, v);
  return mask ? star_axes(im, s, v->shape.rank, mask, "*") : s;
}

/* A number for the whole tensor, or one for each index of an axis. */
static const char *along(Importer *im, Value *v, uint32_t axis,
                         const Shape *x) {
  uint32_t rank = x->rank;
  const char *s = ref(im, v);
  Buffer stars = {.arena = im->arena};
  if (v->shape.rank == 0)
    return s;
  if (v->shape.rank > 1)
    return along_all(im, v, x);
  if (is_one(v->shape.dims[0]))
    return text(im, "%s.[0]", s);
  if (axis >= rank || dims_differ(v->shape.dims[0], x->dims[axis]))
    import_fail(im, NULL, "its scales or zero points %s do not fit %s",
                sizes_text(im, &v->shape), sizes_text(im, x));
  for (uint32_t k = axis + 1; k < rank; k++)
    buffer_puts(&stars, ", *");
  return stars.text ? text(im, "%s.[:%s]", s, stars.text) : s;
}

static const char *along_axis(Importer *im, Value *v, const Shape *x) {
  bool is_number =
      v->shape.rank == 0 || (v->shape.rank == 1 && is_one(v->shape.dims[0]));
  uint32_t axis =
      is_number ? 0 : normal_axis(im, attr_int(im, "axis", 1), x->rank);
  return v->shape.rank > 1 ? along_blocks(im, v, axis, x)
                           : along(im, v, axis, x);
}

/* A number as an integer of 8 bits; the nearest if it is out of range. */
static const char *saturated(Importer *im, Dtype dtype, const char *x) {
  return text(im, "%s (clamp %s (%s))", dtype_info[dtype].name,
              dtype == DT_U8 ? "0.0 255.0" : "(-128.0) 127.0", x);
}

void onnx_dequantize(Importer *im, const char *how) {
  Value *x = input(im, 0), *scale = input(im, IN_SCALE);
  const char *type = dtype_info[scale->dtype].name;
  const char *all = text(im, "%s %s", type, ref(im, x));
  (void)how;
  if (has_input(im, IN_ZERO))
    all = text(im, "%s - %s %s", all, type,
               along_axis(im, input(im, IN_ZERO), &x->shape));
  define(im, 0, scale->dtype, &x->shape, "(%s) * %s", all,
         along_axis(im, scale, &x->shape));
}

void onnx_quantize(Importer *im, const char *how) {
  Value *x = input(im, 0), *scale = input(im, IN_SCALE);
  int64_t type = attr_int(im, "output_dtype", 0);
  Dtype dtype = has_input(im, IN_ZERO) ? input(im, IN_ZERO)->dtype
                : type                 ? dtype_of_onnx((int32_t)type)
                                       : DT_U8;
  (void)how;
  if (dtype != DT_U8 && dtype != DT_I8)
    import_fail(im, NULL, "this kind of quantization is not supported");
  const char *own = dtype_info[scale->dtype].name;
  const char *whole = ref(im, x);
  const char *all = text(im, "round (%s %s / %s)", own, whole,
                         along_axis(im, scale, &x->shape));
  if (has_input(im, IN_ZERO))
    all = text(im, "%s + %s %s", all, own,
               along_axis(im, input(im, IN_ZERO), &x->shape));
  define(im, 0, dtype, &x->shape, "%s", saturated(im, dtype, all));
}

/* The range of the input, which contains 0, as 0 to 255. */
void onnx_dynamic_quantize(Importer *im, const char *how) {
  Value *x = input(im, 0);
  Shape scalar = scalar_shape();
  const char *in = ref(im, x);
  (void)how;
  const char *least = local(im, "least", text(im, "minimum 0.0 (min %s)", in));
  const char *range =
      local(im, "range", text(im, "maximum 0.0 (max %s) - %s", in, least));
  const char *scale =
      local(im, "scale",
            text(im, "if %s == 0.0 then 1.0 else %s / 255.0", range, range));
  const char *zero = local(
      im, "zero", text(im, "clamp 0.0 255.0 (round (-%s / %s))", least, scale));
  define(im, 1, x->dtype, &scalar, "%s", scale);
  define(im, 2, DT_U8, &scalar, "u8 %s", zero);
  define(
      im, 0, DT_U8, &x->shape, "%s",
      saturated(im, DT_U8, text(im, "round (%s / %s) + %s", in, scale, zero)));
}

/* ---- products of integers ---- */

/* Input i minus the input `zero`, as i32. */
static Value *centered(Importer *im, uint32_t i, uint32_t zero, uint32_t axis) {
  Value *x = input(im, i), *out = MAKE(im->arena, Value);
  const char *all = text(im, "i32 %s", ref(im, x));
  if (has_input(im, zero))
    all = text(im, "%s - i32 %s", all,
               along(im, input(im, zero), axis, &x->shape));
  *out = (Value){
      .dtype = DT_I32, .shape = x->shape, .text = local(im, "integers", all)};
  return out;
}

/* The product of the inputs a and b, whose zero points are at_zero inputs
 * further: one for each row of a, and for each column of b. */
static const char *integer_matmul(Importer *im, uint32_t a, uint32_t b,
                                  uint32_t at_zero, Shape *shape) {
  uint32_t rows = input(im, a)->shape.rank - 2;
  uint32_t columns = input(im, b)->shape.rank - 1;
  Value *left = centered(im, a, a + at_zero, rows);
  Value *right = centered(im, b, b + at_zero, columns);
  return matmul_text(im, left, right, shape);
}

void onnx_matmul_integer(Importer *im, const char *how) {
  Shape shape;
  const char *product = integer_matmul(im, 0, 1, 2, &shape);
  (void)how;
  define(im, 0, DT_I32, &shape, "%s", product);
}

void onnx_conv_integer(Importer *im, const char *how) {
  Shape shape;
  Value *x = centered(im, 0, 2, 1), *weight = centered(im, 1, 3, 0);
  const char *all = conv_text(im, x, weight, NULL, &shape);
  (void)how;
  define(im, 0, DT_I32, &shape, "%s", all);
}

/* The inputs of QLinearMatMul and QLinearConv. */
enum {
  Q_X,
  Q_X_SCALE,
  Q_X_ZERO,
  Q_W,
  Q_W_SCALE,
  Q_W_ZERO,
  Q_SCALE,
  Q_ZERO,
  Q_BIAS
};

/* An i32 product with the scale and the zero point of the result. */
static void define_quantized(Importer *im, const char *product,
                             const Shape *shape, uint32_t rows,
                             uint32_t columns) {
  uint32_t rank = shape->rank;
  Dtype dtype = input(im, Q_ZERO)->dtype;
  const char *sum = local(im, "sum", product);
  const char *x_scale = along(im, input(im, Q_X_SCALE), rows, shape);
  const char *w_scale = along(im, input(im, Q_W_SCALE), columns, shape);
  const char *scale = text(im, "f32 %s * f32 %s / f32 %s", x_scale, w_scale,
                           along(im, input(im, Q_SCALE), rank, shape));
  if (dtype != DT_U8 && dtype != DT_I8)
    import_fail(im, NULL, "this kind of quantization is not supported");
  define(im, 0, dtype, shape, "%s",
         saturated(im, dtype,
                   text(im, "round (f32 %s * (%s)) + f32 %s", sum, scale,
                        along(im, input(im, Q_ZERO), rank, shape))));
}

void onnx_qlinear_matmul(Importer *im, const char *how) {
  Shape shape;
  const char *product = integer_matmul(im, Q_X, Q_W, Q_X_ZERO, &shape);
  (void)how;
  define_quantized(im, product, &shape, shape.rank - 2, shape.rank - 1);
}

void onnx_qlinear_conv(Importer *im, const char *how) {
  Shape shape;
  Value *x = centered(im, Q_X, Q_X_ZERO, 1);
  Value *weight = centered(im, Q_W, Q_W_ZERO, 0);
  Value *bias = has_input(im, Q_BIAS) ? input(im, Q_BIAS) : NULL;
  const char *all = conv_text(im, x, weight, bias, &shape);
  (void)how;
  define_quantized(im, all, &shape, shape.rank, 1);
}
