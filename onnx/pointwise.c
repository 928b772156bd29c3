/* Pointwise operators.  A row of ops.def has the expression: $0, $1, ... are
   operands, {alpha:0.01} is an attribute with its default value. */
#include "onnx/ops.h"

#include <stdlib.h>
#include <string.h>

/* Appends the attribute in braces at `at`.  Returns the end of it. */
static const char *put_attribute(Importer *im, Buffer *out, const char *at) {
  const char *colon = strchr(at, ':'), *end = strchr(at, '}');
  const char *name = arena_strndup(im->arena, at + 1, (size_t)(colon - at) - 1);
  double otherwise = strtod(colon + 1, NULL);
  buffer_puts(out, float_text(im, attr_float(im, name, (float)otherwise)));
  return end;
}

const char *fill_template(Importer *im, const char *how,
                          const char *const *operands, uint32_t count) {
  Buffer out = {.arena = im->arena};
  for (const char *c = how; *c; c++) {
    uint32_t i = (uint32_t)(c[1] - '0');
    if (*c == '$' && i < count)
      buffer_puts(&out, operands[i]), c++;
    else if (*c == '{')
      c = put_attribute(im, &out, c);
    else
      buffer_putc(&out, *c);
  }
  if (strstr(how, "nn."))
    im->uses_nn = true;
  return out.text;
}

static uint32_t operand_count(const char *how) {
  uint32_t count = 0;
  for (const char *c = how; (c = strchr(c, '$')) != NULL; c++)
    if ((uint32_t)(c[1] - '0') + 1 > count)
      count = (uint32_t)(c[1] - '0') + 1;
  return count;
}

/* Operands aligned to one shape. */
static Shape operands(Importer *im, uint32_t count, const char **texts) {
  Value **v = MAKE_ARRAY(im->arena, Value *, count + 1);
  for (uint32_t i = 0; i < count; i++)
    v[i] = raw_input(im, i);
  return align(im, count, v, texts);
}

/* ---- integers that are known ---- */

/* True if one is a size, and the other a negative number. */
static bool differs_by_sign(Dim *a, Dim *b) {
  Dim *constant = dim_is_const(a) ? a : b, *other = constant == a ? b : a;
  return dim_is_const(constant) && dim_sign(constant) < 0 &&
         !dim_is_const(other) && dim_vanishes_only_at_zero(other);
}

static Dim *fold_pair(Importer *im, const char *op, Dim *a, Dim *b) {
  int64_t x, y;
  bool known = dim_is_int(a, &x) && dim_is_int(b, &y);
  if (strcmp(op, "Add") == 0)
    return dim_add(&im->dims, a, b);
  if (strcmp(op, "Sub") == 0)
    return dim_sub(&im->dims, a, b);
  if (strcmp(op, "Mul") == 0)
    return dim_mul(&im->dims, a, b);
  if (strcmp(op, "Div") == 0 && dim_is_int(b, &y) && y > 0)
    return dim_div(&im->dims, a, b);
  if (strcmp(op, "Mod") == 0 && dim_is_int(b, &y) && y > 0)
    return dim_mod(&im->dims, a, b);
  if (strcmp(op, "Mod") == 0 && dim_is_int(a, &x) && x == -1 &&
      dim_vanishes_only_at_zero(b))
    return dim_add(&im->dims, b, a); /* the last index, as in roll */
  if (strcmp(op, "Min") == 0 || strcmp(op, "Max") == 0)
    return extreme_size(im, a, b, op[1] == 'i');
  if (strcmp(op, "Equal") == 0 && dim_equal(a, b))
    return num(im, 1);
  if (strcmp(op, "Equal") == 0 && differs_by_sign(a, b))
    return num(im, 0);
  if (!known)
    return NULL;
  static const char *const names[] = {
      "Equal",          "Less", "Greater", "LessOrEqual",
      "GreaterOrEqual", "And",  "Or",      "Xor"};
  bool results[] = {
      x == y,           x<y, x> y,           x <= y, x >= y, x != 0 && y != 0,
      x != 0 || y != 0, (x != 0) != (y != 0)};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    if (strcmp(op, names[i]) == 0)
      return num(im, results[i]);
  return NULL;
}

static bool fold_negation(Importer *im, Dtype dtype) {
  Value *v = raw_input(im, 0);
  Dim **x = strcmp(im->node->op_type, "Neg") == 0 ? known_ints(im, v) : NULL;
  if (!x)
    return false;
  int64_t count = value_count(im, v);
  Dim **out = MAKE_ARRAY(im->arena, Dim *, count + 1);
  for (int64_t i = 0; i < count; i++)
    out[i] = dim_neg(&im->dims, x[i]);
  define_ints(im, 0, dtype, &v->shape, out);
  return true;
}

/* Folds Neg, and a binary operator on tensors of at most one axis. */
static bool fold(Importer *im, Dtype dtype) {
  if (input_count(im) == 1)
    return fold_negation(im, dtype);
  if (input_count(im) != 2)
    return false;
  Value *a = raw_input(im, 0), *b = raw_input(im, 1);
  Dim **x = known_ints(im, a), **y = known_ints(im, b);
  if (!x || !y || a->shape.rank > 1 || b->shape.rank > 1)
    return false;
  int64_t n = value_count(im, a), m = value_count(im, b);
  if (n != m && n != 1 && m != 1)
    return false;
  int64_t count = n == 1 ? m : n;
  Dim **out = MAKE_ARRAY(im->arena, Dim *, count + 1);
  for (int64_t i = 0; i < count; i++) {
    out[i] =
        fold_pair(im, im->node->op_type, x[n == 1 ? 0 : i], y[m == 1 ? 0 : i]);
    if (!out[i])
      return false;
  }
  Shape shape = {.rank = a->shape.rank > b->shape.rank ? a->shape.rank
                                                       : b->shape.rank};
  if (shape.rank)
    shape.dims[0] = num(im, count);
  define_ints(im, 0, dtype, &shape, out);
  return true;
}

/* ---- emitters ---- */

static void check_dtype(Importer *im, Dtype a, Dtype b) {
  if (a != b)
    import_fail(im, "insert a Cast", "its operands are %s and %s",
                dtype_info[a].name, dtype_info[b].name);
}

static void define_pointwise(Importer *im, const char *how, Dtype dtype) {
  const char *texts[8] = {0};
  uint32_t count = operand_count(how);
  bool is_where = strcmp(im->node->op_type, "Where") == 0;
  Dtype first = raw_input(im, is_where)->dtype;
  for (uint32_t i = is_where ? 2 : 1; i < count; i++)
    check_dtype(im, first, raw_input(im, i)->dtype);
  Shape shape = operands(im, count, texts);
  define(im, 0, dtype, &shape, "%s", fill_template(im, how, texts, count));
}

void onnx_pointwise(Importer *im, const char *how) {
  Dtype dtype = raw_input(im, 0)->dtype;
  if (!fold(im, dtype))
    define_pointwise(im, how, dtype);
}

void onnx_test(Importer *im, const char *how) {
  if (!fold(im, DT_BOOL))
    define_pointwise(im, how, DT_BOOL);
}

/* Equal of bool: Axon compares all element types. */
void onnx_not(Importer *im, const char *how) {
  Value *v = raw_input(im, 0);
  Dim **ints = known_ints(im, v);
  if (!ints) {
    define_pointwise(im, how, DT_BOOL);
    return;
  }
  int64_t count = value_count(im, v);
  Dim **out = MAKE_ARRAY(im->arena, Dim *, count + 1);
  for (int64_t i = 0; i < count; i++)
    out[i] = num(im, !is_one(ints[i]));
  define_ints(im, 0, DT_BOOL, &v->shape, out);
}

/* Sum, Max, Min, Mean: any number of operands, combined two by two. */
void onnx_variadic(Importer *im, const char *how) {
  uint32_t count = input_count(im);
  Dtype dtype = raw_input(im, 0)->dtype;
  if (count == 1)
    define_alias(im, 0, raw_input(im, 0));
  if (count < 2 || fold(im, dtype))
    return;
  const char **texts = MAKE_ARRAY(im->arena, const char *, count);
  Shape shape = operands(im, count, texts);
  bool is_mean = strcmp(im->node->op_type, "Mean") == 0;
  const char *all = texts[0];
  for (uint32_t i = 1; i < count; i++) {
    const char *pair[] = {all, texts[i]};
    all = fill_template(im, how, pair, 2);
    if (i + 1 < count || is_mean)
      all = text(im, "(%s)", all);
  }
  define(im, 0, dtype, &shape, is_mean ? "%s / %u.0" : "%s", all, count);
}

/* Integers: towards zero in ONNX, down in Axon. */
void onnx_div(Importer *im, const char *how) {
  Dtype dtype = raw_input(im, 0)->dtype;
  bool is_signed = dtype_info[dtype].class == 'i';
  if (!is_signed)
    define_pointwise(im, how, dtype);
  else if (!fold(im, dtype))
    define_pointwise(im, "sign $0 * sign $1 * (abs $0 / abs $1)", dtype);
}

void onnx_mod(Importer *im, const char *how) {
  Dtype dtype = raw_input(im, 0)->dtype;
  if (attr_int(im, "fmod", 0) && dtype != DT_U8)
    define_pointwise(im, "sign $0 * (abs $0 % abs $1)", dtype);
  else if (!fold(im, dtype))
    define_pointwise(im, how, dtype);
}

void onnx_bool(Importer *im, const char *how) {
  const char *texts[2] = {0};
  if (fold(im, DT_BOOL))
    return;
  Shape shape = operands(im, 2, texts);
  define(im, 0, DT_BOOL, &shape, "%s", fill_template(im, how, texts, 2));
}

/* The exponent may have another element type. */
void onnx_pow(Importer *im, const char *how) {
  Value *v[2] = {raw_input(im, 0)};
  v[1] = raw_input(im, 1);
  const char *texts[2] = {0};
  Dtype base = v[0]->dtype, exponent = v[1]->dtype;
  Shape shape = align(im, 2, v, texts);
  if (base == exponent) {
    define(im, 0, base, &shape, "%s", fill_template(im, how, texts, 2));
    return;
  }
  bool through_float = !dtype_is_float(base) && dtype_is_float(exponent);
  const char *middle = dtype_info[through_float ? exponent : base].name;
  if (!through_float && !dtype_is_float(base))
    middle = "f64";
  const char *result =
      text(im, "pow (%s %s) (%s %s)", middle, texts[0], middle, texts[1]);
  if (strcmp(middle, dtype_info[base].name) != 0)
    result = text(im, "%s (%s)", dtype_info[base].name, result);
  define(im, 0, base, &shape, "%s", result);
}

void onnx_clip(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  Shape shape = x->shape;
  const char *result = ref(im, x);
  const char *names[] = {"min", "max"}, *functions[] = {"maximum", "minimum"};
  (void)how;
  for (uint32_t i = 0; i < 2; i++) {
    const Attribute *a = find_attribute(im, names[i]);
    const char *bound = a ? float_text(im, a->f) : NULL;
    if (has_input(im, i + 1)) {
      Value *v[] = {x, raw_input(im, i + 1)};
      const char *texts[2] = {0};
      align(im, 2, v, texts);
      bound = texts[1];
    }
    if (bound)
      result = text(im, "%s %s %s", functions[i], bound,
                    strchr(result, ' ') ? text(im, "(%s)", result) : result);
  }
  define(im, 0, x->dtype, &shape, "%s", result);
}

void onnx_where(Importer *im, const char *how) {
  Dtype dtype = raw_input(im, 1)->dtype;
  Value *v[3];
  Dim **ints[3];
  for (uint32_t i = 0; i < 3; i++) {
    v[i] = raw_input(im, i);
    ints[i] = known_ints(im, v[i]);
  }
  int64_t n = value_count(im, v[0]);
  if (ints[0] && ints[1] && ints[2] && v[0]->shape.rank == 1 &&
      value_count(im, v[1]) == n && value_count(im, v[2]) == n) {
    Dim **out = MAKE_ARRAY(im->arena, Dim *, n + 1);
    for (int64_t i = 0; i < n; i++)
      out[i] = is_one(ints[0][i]) ? ints[1][i] : ints[2][i];
    define_ints(im, 0, dtype, &v[0]->shape, out);
    return;
  }
  define_pointwise(im, how, dtype);
}

/* ---- element types ---- */

/* Known integers as known truth values, if all are numbers. */
static bool define_truths(Importer *im, const Value *v, Dim **ints) {
  int64_t count = value_count(im, v), n;
  Dim **out = MAKE_ARRAY(im->arena, Dim *, count + 1);
  for (int64_t i = 0; i < count; i++) {
    if (!dim_is_int(ints[i], &n))
      return false;
    out[i] = num(im, n != 0);
  }
  define_ints(im, 0, DT_BOOL, &v->shape, out);
  return true;
}

static void convert(Importer *im, Value *v, Dtype to) {
  Dim **ints = known_ints(im, v);
  if (v->dtype == to) {
    define_alias(im, 0, v);
    return;
  }
  if (ints && (to == DT_I64 || to == DT_I32)) {
    define_ints(im, 0, to, &v->shape, ints);
    return;
  }
  if (ints && to == DT_BOOL && define_truths(im, v, ints))
    return;
  define(im, 0, to, &v->shape, "%s %s", dtype_info[to].name, ref(im, v));
}

/* Converts to an 8-bit float as ONNX says.  Axon saturates in f8_e4m3, and
 * rounds to infinity in f8_e5m2. */
static void convert_to_f8(Importer *im, Value *v, Dtype to) {
  bool saturates = attr_int(im, "saturate", 1);
  if (to == DT_F8_E4M3 && !saturates)
    import_fail(im, "cast with saturate = 1",
                "a cast to float8e4m3fn gives NaN for numbers beyond 448, "
                "but Axon gives 448");
  if (to == DT_F8_E5M2 && saturates)
    define(im, 0, to, &v->shape, "clamp (-57344.0) 57344.0 (f8_e5m2 %s)",
           ref(im, v));
  else
    convert(im, v, to);
}

/* Converts to powers of two.  Axon rounds to nearest, and saturates. */
static void convert_to_e8m0(Importer *im, Value *v) {
  const char *mode = attr_string(im, "round_mode", "up");
  if (strcmp(mode, "nearest") != 0 || !attr_int(im, "saturate", 1))
    import_fail(im, "cast with round_mode = nearest and saturate = 1",
                "a cast to float8e8m0 does not round as in Axon");
  convert(im, v, DT_F8_E8M0);
}

static void convert_by_cast(Importer *im, Value *v, Dtype to) {
  if ((to == DT_F8_E4M3 || to == DT_F8_E5M2) && v->dtype != to)
    convert_to_f8(im, v, to);
  else if (to == DT_F8_E8M0 && v->dtype != to)
    convert_to_e8m0(im, v);
  else
    convert(im, v, to);
}

void onnx_cast(Importer *im, const char *how) {
  int64_t type = attr_int(im, "to", 1);
  Dtype to = dtype_of_onnx((int32_t)type);
  (void)how;
  if (!to)
    import_fail(im, NULL, "Axon has no element type %s",
                onnx_type_name((int32_t)type));
  convert_by_cast(im, raw_input(im, 0), to);
}

void onnx_cast_like(Importer *im, const char *how) {
  (void)how;
  Dtype to = raw_input(im, 1)->dtype;
  convert_by_cast(im, raw_input(im, 0), to);
}

void onnx_identity(Importer *im, const char *how) {
  (void)how;
  define_alias(im, 0, raw_input(im, 0));
}

/* The primitive that keeps the bits, or NULL. */
static const char *bit_cast_name(Dtype from, Dtype to) {
  return from == DT_F32 && to == DT_I32   ? "bits_of_f32"
         : from == DT_F64 && to == DT_I64 ? "bits_of_f64"
         : from == DT_I32 && to == DT_F32 ? "f32_of_bits"
         : from == DT_I64 && to == DT_F64 ? "f64_of_bits"
                                          : NULL;
}

/* Integers of one size have the same bits modulo 2^n. */
void onnx_bit_cast(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  int64_t type = attr_int(im, "to", 0);
  Dtype to = dtype_of_onnx((int32_t)type);
  (void)how;
  const char *primitive = to ? bit_cast_name(x->dtype, to) : NULL;
  if (primitive) {
    define(im, 0, to, &x->shape, "%s %s", primitive, ref(im, x));
    return;
  }
  if (!to || dtype_info[to].bytes != dtype_info[x->dtype].bytes ||
      (to != x->dtype &&
       (dtype_is_float(to) || dtype_is_float(x->dtype) || to == DT_BOOL)))
    import_fail(im, NULL, "the bits of %s as %s are not supported",
                dtype_info[x->dtype].name, onnx_type_name((int32_t)type));
  convert(im, x, to);
}

/* A value that is no optional is there. */
void onnx_has_element(Importer *im, const char *how) {
  Shape shape = scalar_shape();
  Dim **out = MAKE_ARRAY(im->arena, Dim *, 1);
  (void)how;
  out[0] = num(im, has_input(im, 0));
  define_ints(im, 0, DT_BOOL, &shape, out);
}

void onnx_gelu(Importer *im, const char *how) {
  bool is_tanh = strcmp(attr_string(im, "approximate", "none"), "tanh") == 0;
  define_pointwise(im, is_tanh ? "nn.gelu_tanh $0" : how,
                   raw_input(im, 0)->dtype);
}

void onnx_isinf(Importer *im, const char *how) {
  bool negative = attr_int(im, "detect_negative", 1),
       positive = attr_int(im, "detect_positive", 1);
  define_pointwise(im,
                   negative && positive ? how
                   : negative           ? "$0 == -inf"
                   : positive           ? "$0 == inf"
                                        : "$0 != $0 && $0 == $0",
                   DT_BOOL);
}

/* A negative number of bits moves all bits out. */
void onnx_shift(Importer *im, const char *how) {
  bool is_left = strcmp(attr_string(im, "direction", ""), "LEFT") == 0;
  Value *x = raw_input(im, 0), *by = raw_input(im, 1);
  bool may_be_negative = by->dtype != DT_U8 && !by->tensor;
  const char *bits = may_be_negative ? "(select ($1 < 0) 64 $1)" : "$1";
  (void)how;
  define_pointwise(im,
                   text(im, "shift_%s $0 %s", is_left ? "left" : "right", bits),
                   x->dtype);
}

void onnx_prelu(Importer *im, const char *how) {
  define_pointwise(im, how, raw_input(im, 0)->dtype);
}
