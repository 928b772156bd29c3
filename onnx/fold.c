/* Operators whose operands are small constants are computed when the model is
   imported.  Exporters compute sizes and scales in floats this way. */
#include "onnx/ops.h"

#include <math.h>
#include <string.h>

enum { MAX_FOLDED = 16 };

typedef struct Numbers { /* a constant */
  Value *value;
  int64_t count;
  double at[MAX_FOLDED];
} Numbers;

static bool read_numbers(Importer *im, uint32_t i, Numbers *out) {
  if (!has_input(im, i))
    return false;
  Value *v = find_value(im, im->node->input[i]);
  out->value = v;
  out->count = v ? value_count(im, v) : -1;
  if (out->count < 0 || out->count > MAX_FOLDED || v->shape.stars)
    return false;
  Dim **ints = known_ints(im, v);
  for (int64_t k = 0; k < out->count; k++) {
    int64_t n = 0;
    if (ints && !dim_is_int(ints[k], &n))
      return false;
    if (!ints && !v->tensor)
      return false;
    out->at[k] =
        ints ? (double)n : scalar_load(v->dtype, tensor_at(v->tensor, k)).f;
  }
  return true;
}

static void define_numbers(Importer *im, Dtype dtype, const Shape *shape,
                           int64_t count, const double *x) {
  int64_t sizes[MAX_RANK];
  for (uint32_t k = 0; k < shape->rank; k++)
    sizes[k] = dim_number(im, shape->dims[k], "a size");
  Tensor *t = constant_tensor(im, dtype, shape->rank, sizes);
  for (int64_t k = 0; k < count; k++) {
    Scalar s = {.dtype = DT_F64, .f = x[k]};
    scalar_store(scalar_convert(s, dtype), tensor_at(t, k));
  }
  const char *name = has_output(im, 0) ? im->node->output[0] : "";
  define_alias(im, 0, constant_value(im, name, t));
}

typedef double Unary(double x);
typedef double Binary(double x, double y);

static double negated(double x) {
  return -x;
}
static double above_zero(double x) {
  return x > 0 ? x : 0;
}
static double sum(double x, double y) {
  return x + y;
}
static double difference(double x, double y) {
  return x - y;
}
static double product(double x, double y) {
  return x * y;
}
static double quotient(double x, double y) {
  return x / y;
}

static const struct {
  const char *name;
  Unary *unary;
  Binary *binary;
} folded[] = {
    {"Abs", fabs, NULL},        {"Ceil", ceil, NULL},
    {"Floor", floor, NULL},     {"Neg", negated, NULL},
    {"Relu", above_zero, NULL}, {"Round", nearbyint, NULL},
    {"Sqrt", sqrt, NULL},       {"Add", NULL, sum},
    {"Sub", NULL, difference},  {"Mul", NULL, product},
    {"Div", NULL, quotient},    {"Max", NULL, fmax},
    {"Min", NULL, fmin},
};

/* Float operators, whose results are those of the element type: rounding a
   result in double once more gives the same number for f32 and narrower. */
static bool fold_floats(Importer *im) {
  Numbers x, y;
  for (size_t i = 0; i < ARRAY_LEN(folded); i++) {
    Binary *binary = folded[i].binary;
    if (strcmp(folded[i].name, im->node->op_type) != 0)
      continue;
    if (input_count(im) != (binary ? 2 : 1) || !read_numbers(im, 0, &x) ||
        !dtype_is_float(x.value->dtype) || (binary && !read_numbers(im, 1, &y)))
      return false;
    if (!binary) {
      for (int64_t k = 0; k < x.count; k++)
        x.at[k] = folded[i].unary(x.at[k]);
      define_numbers(im, x.value->dtype, &x.value->shape, x.count, x.at);
      return true;
    }
    Value *longer =
        x.value->shape.rank >= y.value->shape.rank ? x.value : y.value;
    int64_t count = value_count(im, longer);
    if (x.value->dtype != y.value->dtype ||
        (x.count != count && x.count != 1) ||
        (y.count != count && y.count != 1) ||
        (x.count == count && y.count == count &&
         !shapes_equal(&x.value->shape, &y.value->shape) && count != 1))
      return false;
    double out[MAX_FOLDED];
    for (int64_t k = 0; k < count; k++)
      out[k] = binary(x.at[x.count == 1 ? 0 : k], y.at[y.count == 1 ? 0 : k]);
    define_numbers(im, x.value->dtype, &longer->shape, count, out);
    return true;
  }
  return false;
}

/* Casts between integers are known integers without this. */
static bool fold_cast(Importer *im) {
  Dtype to = dtype_of_onnx((int32_t)attr_int(im, "to", 1));
  Numbers x;
  if (!to || (dtype_info[to].bytes == 1 && to != DT_BOOL) ||
      !read_numbers(im, 0, &x) ||
      (!dtype_is_float(to) && !dtype_is_float(x.value->dtype)))
    return false;
  define_numbers(im, to, &x.value->shape, x.count, x.at);
  return true;
}

bool fold_constants(Importer *im) {
  return strcmp(im->node->op_type, "Cast") == 0 ? fold_cast(im)
                                                : fold_floats(im);
}
