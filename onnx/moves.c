/* Operators that move elements, and those on shapes. */
#include "onnx/ops.h"

#include <string.h>

static void reshape_to(Importer *im, Value *x, const Shape *shape) {
  Dim *from = dims_product(im, &x->shape, 0, x->shape.rank);
  Dim *to = dims_product(im, shape, 0, shape->rank);
  if (dims_differ(from, to))
    import_fail(im, NULL, "%s has %s elements, but %s has %s",
                sizes_text(im, &x->shape), extent_source(im, from),
                sizes_text(im, shape), extent_source(im, to));
  if (known_ints(im, x)) {
    define_ints(im, 0, x->dtype, shape, x->ints);
    return;
  }
  if (shapes_equal(&x->shape, shape) && !x->shape.stars) {
    define_alias(im, 0, x);
    return;
  }
  define(im, 0, x->dtype, shape, "reshape %s %s", sizes_text(im, shape),
         ref(im, x));
}

/* A size that may be 0, -1 or a number in the target of Reshape. */
static Dim *reshape_size(Importer *im, Value *x, Dim *d, uint32_t k,
                         bool zero_is_zero, bool *is_hole) {
  int64_t n;
  *is_hole = dim_is_int(d, &n) && n == -1;
  if (!dim_is_int(d, &n) || n > 0)
    return d;
  if (*is_hole)
    return num(im, 1);
  if (n < -1 || (n == 0 && !zero_is_zero && k >= x->shape.rank))
    import_fail(im, NULL, "%lld is no size", (long long)n);
  return n == 0 && !zero_is_zero ? x->shape.dims[k] : d;
}

void onnx_reshape(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  uint32_t count, hole = MAX_RANK;
  (void)how;
  Dim **target = int_operand(im, 1, "shape", &count);
  if (count > MAX_RANK)
    import_fail(im, NULL, "more than %d axes", MAX_RANK);
  Shape shape = {.rank = count};
  for (uint32_t k = 0; k < count; k++) {
    bool is_hole;
    shape.dims[k] = reshape_size(im, x, target[k], k,
                                 attr_int(im, "allowzero", 0), &is_hole);
    if (is_hole)
      hole = k;
  }
  if (hole < count) {
    Dim *all = dims_product(im, &x->shape, 0, x->shape.rank);
    Dim *rest = dims_product(im, &shape, 0, count);
    Dim *exact = dim_exact_quotient(&im->dims, all, rest);
    int64_t n;
    if (!exact && dim_is_int(rest, &n) && n <= 0)
      import_fail(im, NULL, "-1 stands for no size, as others are 0");
    if (!exact && dim_is_const(all) && dim_is_const(rest))
      import_fail(im, NULL,
                  "-1 stands for no size: %s has %s elements, which "
                  "%s does not divide",
                  sizes_text(im, &x->shape), extent_source(im, all),
                  extent_source(im, rest));
    shape.dims[hole] = exact ? exact : dim_div(&im->dims, all, rest);
  }
  reshape_to(im, x, &shape);
}

void onnx_flatten(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  int64_t axis = attr_int(im, "axis", 1);
  uint32_t rank = x->shape.rank;
  uint32_t k = axis == rank ? rank : normal_axis(im, axis, rank ? rank : 1);
  Shape shape = {.rank = 2};
  (void)how;
  shape.dims[0] = dims_product(im, &x->shape, 0, k);
  shape.dims[1] = dims_product(im, &x->shape, k, rank);
  reshape_to(im, x, &shape);
}

/* The axes as a set; all of size 1 if none are given and `ones`. */
static uint32_t axes_mask(Importer *im, uint32_t input, uint32_t rank,
                          bool *given) {
  uint32_t count, mask = 0;
  int64_t *axes = const_operand(im, input, "axes", &count);
  *given = axes != NULL;
  for (uint32_t i = 0; i < count; i++)
    mask |= 1u << normal_axis(im, axes[i], rank);
  return mask;
}

void onnx_squeeze(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  bool given;
  uint32_t mask = axes_mask(im, 1, x->shape.rank, &given);
  Shape shape = {0};
  (void)how;
  for (uint32_t k = 0; k < x->shape.rank; k++) {
    bool one = is_one(x->shape.dims[k]);
    if (given && mask >> k & 1 && !one)
      import_fail(im, "give a size its number, as in --set n=1",
                  "axis %u has the size %s, not 1", k,
                  extent_source(im, x->shape.dims[k]));
    if (given ? mask >> k & 1 : one)
      continue;
    shape.dims[shape.rank++] = x->shape.dims[k];
  }
  reshape_to(im, x, &shape);
}

void onnx_unsqueeze(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  uint32_t count, next = 0;
  (void)how;
  int64_t *axes = const_operand(im, 1, "axes", &count);
  Shape shape = {.rank = x->shape.rank + count};
  if (shape.rank > MAX_RANK)
    import_fail(im, NULL, "more than %d axes", MAX_RANK);
  uint32_t mask = 0;
  for (uint32_t i = 0; i < count; i++)
    mask |= 1u << normal_axis(im, axes[i], shape.rank);
  if (__builtin_popcount(mask) != (int)count)
    import_fail(im, NULL, "an axis is given twice");
  for (uint32_t k = 0; k < shape.rank; k++)
    shape.dims[k] = mask >> k & 1 ? num(im, 1) : x->shape.dims[next++];
  reshape_to(im, x, &shape);
}

static const char *axis_letters(Importer *im, uint32_t rank,
                                const uint32_t *order) {
  Buffer b = {.arena = im->arena};
  for (uint32_t k = 0; k < rank; k++)
    buffer_printf(&b, k ? " %c" : "%c", 'a' + (int)(order ? order[k] : k));
  return b.text ? b.text : "";
}

/* The known element of x at first + the sum of steps[k] * (index k). */
static void define_moved_ints(Importer *im, Value *x, const Shape *shape,
                              int64_t first, const int64_t *steps) {
  int64_t sizes[MAX_RANK], count = 1;
  for (uint32_t k = 0; k < shape->rank; k++) {
    sizes[k] = dim_number(im, shape->dims[k], "a size");
    count *= sizes[k];
  }
  Dim **out = MAKE_ARRAY(im->arena, Dim *, count + 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, at = first;
    for (uint32_t k = shape->rank; k-- > 0;) {
      at += rest % sizes[k] * steps[k];
      rest /= sizes[k];
    }
    out[i] = x->ints[at];
  }
  define_ints(im, 0, x->dtype, shape, out);
}

static void transpose_ints(Importer *im, Value *x, const Shape *shape,
                           const uint32_t *order) {
  int64_t strides[MAX_RANK], steps[MAX_RANK], stride = 1;
  for (uint32_t k = shape->rank; k-- > 0;) {
    strides[k] = stride;
    stride *= dim_number(im, x->shape.dims[k], "a size");
  }
  for (uint32_t k = 0; k < shape->rank; k++)
    steps[k] = strides[order[k]];
  define_moved_ints(im, x, shape, 0, steps);
}

void onnx_transpose(Importer *im, const char *how) {
  Value *x = input(im, 0);
  const int64_t *perm;
  uint32_t rank = x->shape.rank, count = attr_ints(im, "perm", &perm);
  uint32_t order[MAX_RANK], mask = 0;
  Shape shape = {.rank = rank};
  (void)how;
  if ((count && count != rank) || rank > 26)
    import_fail(im, NULL, "`perm` does not fit %u axes", rank);
  for (uint32_t k = 0; k < rank; k++) {
    order[k] = count ? normal_axis(im, perm[k], rank) : rank - 1 - k;
    mask |= 1u << order[k];
    shape.dims[k] = x->shape.dims[order[k]];
  }
  if (__builtin_popcount(mask) != (int)rank)
    import_fail(im, NULL, "`perm` has an axis twice");
  if (known_ints(im, x)) {
    transpose_ints(im, x, &shape, order);
    return;
  }
  bool swaps_last = rank >= 2;
  for (uint32_t k = 0; k < rank; k++)
    swaps_last &= order[k] == (k + 2 < rank ? k : 2 * rank - 3 - k);
  if (rank < 2)
    define_alias(im, 0, x);
  else if (swaps_last)
    define(im, 0, x->dtype, &shape, "transpose %s", ref(im, x));
  else
    define(im, 0, x->dtype, &shape, "permute \"%s -> %s\" %s",
           axis_letters(im, rank, NULL), axis_letters(im, rank, order),
           ref(im, x));
}

/* ---- shapes as values ---- */

static int64_t clamp_axis(int64_t axis, uint32_t rank) {
  if (axis < 0)
    axis += rank;
  return axis < 0 ? 0 : axis > rank ? rank : axis;
}

void onnx_shape(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  uint32_t rank = x->shape.rank;
  int64_t from = clamp_axis(attr_int(im, "start", 0), rank);
  int64_t to = clamp_axis(attr_int(im, "end", rank), rank);
  Shape shape = {.rank = 1};
  Dim **ints = MAKE_ARRAY(im->arena, Dim *, rank + 1);
  int64_t n = 0;
  (void)how;
  for (int64_t k = from; k < to; k++)
    ints[n++] = x->shape.dims[k];
  shape.dims[0] = num(im, n);
  define_ints(im, 0, DT_I64, &shape, ints);
}

void onnx_size(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  Shape shape = scalar_shape();
  Dim **ints = MAKE_ARRAY(im->arena, Dim *, 1);
  (void)how;
  ints[0] = dims_product(im, &x->shape, 0, x->shape.rank);
  define_ints(im, 0, DT_I64, &shape, ints);
}

void onnx_constant(Importer *im, const char *how) {
  const Attribute *a = im->node->n_attribute ? im->node->attribute[0] : NULL;
  const char *name = has_output(im, 0) ? im->node->output[0] : "";
  (void)how;
  if (!a || !a->name)
    import_fail(im, NULL, "a constant without a value");
  if (a->t) {
    define_alias(im, 0, constant_value(im, name, read_tensor(im, a->t, name)));
    return;
  }
  bool is_float = strstr(a->name, "float") != NULL;
  bool is_list = strcmp(a->name, "value_ints") == 0 ||
                 strcmp(a->name, "value_floats") == 0;
  int64_t count = !is_list ? 1 : (int64_t)(is_float ? a->n_floats : a->n_ints);
  if (strstr(a->name, "string") || strstr(a->name, "sparse"))
    import_fail(im, NULL, "constants of this kind are not supported");
  Tensor *t = constant_tensor(im, is_float ? DT_F32 : DT_I64, is_list, &count);
  if (count > 0)
    memcpy(t->data,
           is_float ? (is_list ? (const void *)a->floats : &a->f)
                    : (is_list ? (const void *)a->ints : &a->i),
           (size_t)count * dtype_info[t->dtype].bytes);
  define_alias(im, 0, constant_value(im, name, t));
}

static Shape shape_operand(Importer *im, uint32_t i) {
  uint32_t count;
  Dim **dims = size_operand(im, i, NULL, &count);
  if (count > MAX_RANK)
    import_fail(im, NULL, "more than %d axes", MAX_RANK);
  Shape shape = {.rank = count};
  for (uint32_t k = 0; k < count; k++)
    shape.dims[k] = dims[k];
  return shape;
}

void onnx_constant_of_shape(Importer *im, const char *how) {
  Shape shape = shape_operand(im, 0);
  const Attribute *a = find_attribute(im, "value");
  Value *v =
      a && a->t ? constant_value(im, "", read_tensor(im, a->t, "value")) : NULL;
  (void)how;
  if (v && v->tensor->count != 1)
    import_fail(im, NULL, "`value` must have one element");
  if (v)
    v->shape = scalar_shape();
  Dtype dtype = v ? v->dtype : DT_F32;
  int64_t n;
  Dim *count = dims_product(im, &shape, 0, shape.rank);
  if (shape.rank <= 1 && !dtype_is_float(dtype) && dim_is_int(count, &n) &&
      n <= 256) {
    Dim **ints = MAKE_ARRAY(im->arena, Dim *, n + 1);
    for (int64_t i = 0; i < n; i++)
      ints[i] = known_ints(im, v)[0];
    define_ints(im, 0, dtype, &shape, ints);
    return;
  }
  define(im, 0, dtype, &shape, "broadcast %s %s", sizes_text(im, &shape),
         v ? literal(im, v, true) : "0.0");
}

/* The number of elements if all operands are constants, or NULL. */
static Dim *constant_range(Importer *im, Value *const *v) {
  double x[3];
  for (int i = 0; i < 3; i++) {
    if (!v[i]->tensor || v[i]->tensor->count != 1)
      return NULL;
    x[i] = scalar_load(v[i]->dtype, v[i]->tensor->data).f;
  }
  double n = (x[1] - x[0]) / x[2];
  if (!(n < 1e9))
    import_fail(im, NULL, "the range is too long");
  return num(im, n > 0 ? (int64_t)n + ((double)(int64_t)n < n) : 0);
}

static void float_range(Importer *im, Value *const *v) {
  const char *p[3];
  Shape shape = {.rank = 1, .dims = {constant_range(im, v)}};
  for (int i = 0; i < 3; i++)
    p[i] = scalar_text(im, v[i]);
  if (!shape.dims[0])
    shape.dims[0] =
        data_size(im, "count",
                  text(im, "i64 (maximum 0.0 (ceil ((%s - %s) / %s)))", p[1],
                       p[0], p[2]));
  define(im, 0, v[0]->dtype, &shape, "%s + %s * iota %s", p[0], p[2],
         extent_atom(im, shape.dims[0]));
}

void onnx_range(Importer *im, const char *how) {
  Value *v[3];
  for (uint32_t i = 0; i < 3; i++)
    v[i] = raw_input(im, i);
  Dtype dtype = v[0]->dtype;
  Shape shape = {.rank = 1};
  (void)how;
  if (dtype_is_float(dtype)) {
    float_range(im, v);
    return;
  }
  Dim *ends[3];
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t count;
    Dim **end = size_operand(im, i, NULL, &count);
    if (count != 1)
      import_fail(im, NULL, "an operand is not one number");
    ends[i] = end[0];
  }
  int64_t step = dim_number(im, ends[2], "the step");
  if (step == 0)
    import_fail(im, NULL, "the step is 0");
  Dim *length = dim_sub(&im->dims, ends[1], ends[0]);
  if (step < 0)
    length = dim_neg(&im->dims, length);
  int64_t size = step < 0 ? -step : step;
  if (step == INT64_MIN)
    import_fail(im, NULL, "the step is too large");
  length = dim_div(&im->dims, dim_add(&im->dims, length, num(im, size - 1)),
                   num(im, size));
  if (dim_is_const(length) && dim_sign(length) < 0)
    length = num(im, 0);
  shape.dims[0] = length;
  int64_t n;
  if (dim_is_int(length, &n) && n <= 256) {
    Dim **ints = MAKE_ARRAY(im->arena, Dim *, n + 1);
    for (int64_t i = 0; i < n; i++)
      ints[i] = dim_add(&im->dims, ends[0], num(im, i * step));
    define_ints(im, 0, dtype, &shape, ints);
    return;
  }
  const char *i = text(im, "iota %s", extent_atom(im, length));
  if (step != 1)
    i = text(im, "%lld * %s", (long long)step, i);
  int64_t start;
  if (!dim_is_int(ends[0], &start) || start != 0)
    i = text(im, "%s + %s", extent_atom(im, ends[0]), i);
  define(im, 0, dtype, &shape, dtype == DT_I64 ? "(%s : i64%s)" : "%s",
         dtype == DT_I64 ? i : text(im, "%s (%s)", dtype_info[dtype].name, i),
         sizes_text(im, &shape));
}

void onnx_expand(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  Shape target = shape_operand(im, 1);
  (void)how;
  Shape shapes[] = {x->shape, target};
  Shape shape = broadcast_shapes(im, 2, shapes);
  shape.stars = 0;
  uint32_t mask = 0;
  for (uint32_t k = 0; k < x->shape.rank; k++)
    if (!(x->shape.stars >> k & 1) && is_one(x->shape.dims[k]) &&
        !is_one(shape.dims[shape.rank - x->shape.rank + k]))
      mask |= 1u << k;
  if (shapes_equal(&shape, &x->shape)) {
    define_alias(im, 0, x);
    return;
  }
  const char *operand = ref(im, x);
  if (mask)
    operand = star_axes(im, operand, x->shape.rank, mask, "*");
  define(im, 0, x->dtype, &shape, "broadcast %s %s", sizes_text(im, &shape),
         operand);
}

void onnx_tile(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count;
  Dim **repeats = size_operand(im, 1, NULL, &count);
  Shape shape = x->shape;
  const char *all = ref(im, x);
  (void)how;
  if (count != shape.rank)
    import_fail(im, NULL, "`repeats` does not fit the rank");
  for (uint32_t k = 0; k < count; k++) {
    if (is_one(repeats[k]))
      continue;
    shape.dims[k] = dim_mul(&im->dims, shape.dims[k], repeats[k]);
    all =
        text(im, "%s |> tile ~axis:%u %s", all, k, extent_atom(im, repeats[k]));
  }
  define(im, 0, x->dtype, &shape, "%s", all);
}

/* ---- concatenation and pieces ---- */

static bool concat_ints(Importer *im, uint32_t count) {
  int64_t n = 0;
  for (uint32_t i = 0; i < count; i++) {
    Value *v = raw_input(im, i);
    if (!known_ints(im, v) || v->shape.rank != 1)
      return false;
    n += value_count(im, v);
  }
  Dim **out = MAKE_ARRAY(im->arena, Dim *, n + 1);
  Shape shape = {.rank = 1};
  n = 0;
  for (uint32_t i = 0; i < count; i++) {
    Value *v = raw_input(im, i);
    for (int64_t k = 0; k < value_count(im, v); k++)
      out[n++] = v->ints[k];
  }
  shape.dims[0] = num(im, n);
  define_ints(im, 0, raw_input(im, 0)->dtype, &shape, out);
  return true;
}

/* A piece of a concatenation must fit the first one. */
static void check_piece(Importer *im, const Value *first, const Value *v,
                        uint32_t axis) {
  const char *both = text(im, "%s and %s", sizes_text(im, &first->shape),
                          sizes_text(im, &v->shape));
  if (v->dtype != first->dtype)
    import_fail(im, "insert a Cast", "its operands are %s and %s",
                dtype_info[first->dtype].name, dtype_info[v->dtype].name);
  if (v->shape.rank != first->shape.rank)
    import_fail(im, NULL, "its operands have different ranks: %s", both);
  for (uint32_t k = 0; k < v->shape.rank; k++)
    if (k != axis && dims_differ(v->shape.dims[k], first->shape.dims[k]))
      import_fail(im, NULL,
                  "its operands %s differ at axis %u, but are joined along "
                  "axis %u",
                  both, k, axis);
}

void onnx_concat(Importer *im, const char *how) {
  uint32_t count = input_count(im);
  Value *first = input(im, 0);
  Shape shape = first->shape;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 0), shape.rank);
  Buffer b = {.arena = im->arena};
  (void)how;
  if (concat_ints(im, count))
    return;
  for (uint32_t i = 0; i < count; i++) {
    Value *v = input(im, i);
    check_piece(im, first, v, axis);
    if (i > 0)
      shape.dims[axis] =
          dim_add(&im->dims, shape.dims[axis], v->shape.dims[axis]);
    buffer_printf(&b, i ? ", %s" : "%s", ref(im, v));
  }
  if (count == 1)
    define_alias(im, 0, first);
  else
    define(im, 0, first->dtype, &shape, "concat ~axis:%u (%s)", axis, b.text);
}

/* The sizes of the pieces. */
static Dim **piece_sizes(Importer *im, Dim *whole, uint32_t *count) {
  Dim **sizes = int_operand(im, 1, "split", count);
  if (sizes) {
    Dim *all = num(im, 0);
    for (uint32_t i = 0; i < *count; i++)
      all = dim_add(&im->dims, all, sizes[i]);
    if (dims_differ(all, whole))
      import_fail(im, NULL, "its pieces have %s elements together, the axis %s",
                  extent_source(im, all), extent_source(im, whole));
    return sizes;
  }
  *count = (uint32_t)im->node->n_output;
  int64_t pieces = attr_int(im, "num_outputs", *count);
  if (pieces < 1 || pieces > *count)
    pieces = *count;
  sizes = MAKE_ARRAY(im->arena, Dim *, *count);
  Dim *size = dim_div(&im->dims, dim_add(&im->dims, whole, num(im, pieces - 1)),
                      num(im, pieces));
  Dim *exact = dim_exact_quotient(&im->dims, whole, num(im, pieces));
  Dim *rest = whole;
  for (uint32_t i = 0; i < *count; i++) {
    sizes[i] = i + 1 == *count ? rest : exact ? exact : size;
    rest = dim_sub(&im->dims, rest, sizes[i]);
  }
  return sizes;
}

const char *item_at(Importer *im, const char *x, uint32_t axis, uint32_t rank,
                    const char *item) {
  Buffer b = {.arena = im->arena};
  buffer_printf(&b, "%s.[", x);
  for (uint32_t k = 0; k < axis; k++)
    buffer_puts(&b, ":, ");
  buffer_puts(&b, item);
  if (rank - axis == 2)
    buffer_puts(&b, ", :");
  else if (rank - axis > 2)
    buffer_puts(&b, ", ...");
  buffer_putc(&b, ']');
  return b.text;
}

/* Pieces of a list of known integers. */
static bool split_ints(Importer *im, Value *x, uint32_t count, Dim **sizes) {
  int64_t from = 0, n, whole = value_count(im, x);
  if (!known_ints(im, x) || x->shape.rank != 1)
    return false;
  for (uint32_t i = 0; i < count && i < im->node->n_output; i++) {
    Shape shape = {.rank = 1, .dims = {sizes[i]}};
    if (!dim_is_int(sizes[i], &n) || n < 0 || n > whole - from)
      import_fail(im, NULL, "its pieces do not fit %lld elements",
                  (long long)whole);
    define_ints(im, i, x->dtype, &shape, x->ints + from);
    from += n;
  }
  return true;
}

void onnx_split(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 0), x->shape.rank);
  uint32_t count;
  Dim **sizes = piece_sizes(im, x->shape.dims[axis], &count);
  Dim *from = num(im, 0);
  (void)how;
  if (split_ints(im, x, count, sizes))
    return;
  for (uint32_t i = 0; i < count && i < im->node->n_output; i++) {
    Shape shape = x->shape;
    Dim *to = dim_add(&im->dims, from, sizes[i]);
    shape.dims[axis] = sizes[i];
    bool is_first = i == 0, is_last = dim_equal(to, x->shape.dims[axis]);
    const char *item =
        text(im, "%s:%s", is_first ? "" : extent_source(im, from),
             is_last ? "" : extent_source(im, to));
    define(im, i, x->dtype, &shape, "%s",
           item_at(im, ref(im, x), axis, x->shape.rank, item));
    from = to;
  }
}

typedef struct Range { /* of Slice along an axis */
  Dim *start, *count;
  int64_t step;
} Range;

/* The bound of a slice: negative numbers count from the end, and all are cut
   off at the ends of the axis. */
static Dim *slice_bound(Importer *im, Dim *d, Dim *size, int64_t low,
                        int64_t above) {
  int64_t n, s;
  DimCtx *cx = &im->dims;
  if (!dim_is_int(d, &n))
    return d;
  if (dim_is_int(size, &s)) {
    n = n < 0 ? n + s : n;
    return num(im, n < low ? low : n > s + above ? s + above : n);
  }
  if (n <= INT32_MIN)
    return num(im, low);
  if (n >= INT32_MAX)
    return above ? dim_add(cx, size, num(im, above)) : size;
  return n < 0 ? dim_add(cx, size, d) : d;
}

static Range slice_range(Importer *im, Dim *start, Dim *end, int64_t step,
                         Dim *size) {
  Range r = {.step = step};
  DimCtx *cx = &im->dims;
  int64_t n, k = step < 0 ? -step : step;
  if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
    k = step < 0 ? INT32_MAX : 1;
  bool back = step < 0;
  r.start = slice_bound(im, start, size, 0, back ? -1 : 0);
  end = slice_bound(im, end, size, back ? -1 : 0, back ? -1 : 0);
  Dim *length = back ? dim_sub(cx, r.start, end) : dim_sub(cx, end, r.start);
  r.count = dim_div(cx, dim_add(cx, length, num(im, k - 1)), num(im, k));
  if (dim_is_int(r.count, &n) && n < 0)
    r.count = num(im, 0);
  return r;
}

static const char *slice_item(Importer *im, const Range *r, Dim *size) {
  int64_t start = -1, n;
  Dim *end = dim_add(&im->dims, r->start, r->count);
  if (dim_is_int(r->count, &n) && n == 0)
    return ":0";
  if (r->step == 1) {
    bool from_start = dim_is_int(r->start, &start) && start == 0;
    return text(im, "%s:%s", from_start ? "" : extent_source(im, r->start),
                dim_equal(end, size) ? "" : extent_source(im, end));
  }
  return NULL;
}

/* Slices with other steps: a comprehension over all axes. */
static const char *strided_slice(Importer *im, Value *x, const Range *r,
                                 const Shape *shape) {
  Buffer binders = {.arena = im->arena}, items = {.arena = im->arena};
  for (uint32_t k = 0; k < shape->rank; k++) {
    const char *i = index_name(im, text(im, "i%u", k));
    buffer_printf(&binders, "%s%s < %s", k ? ", " : "", i,
                  extent_atom(im, shape->dims[k]));
    if (k > 0)
      buffer_puts(&items, ", ");
    if (r[k].step == 1 && dim_sign(r[k].start) == 0)
      buffer_puts(&items, i);
    else
      buffer_printf(&items, "%s %c %lld * %s", extent_source(im, r[k].start),
                    r[k].step < 0 ? '-' : '+',
                    (long long)(r[k].step < 0 ? -r[k].step : r[k].step), i);
  }
  return text(im, "for %s => %s.[%s]", binders.text, ref(im, x), items.text);
}

static bool are_numbers(const Range *r, uint32_t rank) {
  bool all = true;
  for (uint32_t k = 0; k < rank; k++)
    all &= dim_is_const(r[k].start) && dim_is_const(r[k].count);
  return all;
}

static void slice_ints(Importer *im, Value *x, const Range *r,
                       const Shape *shape) {
  int64_t steps[MAX_RANK], stride = 1, first = 0;
  for (uint32_t k = x->shape.rank; k-- > 0;) {
    steps[k] = stride * r[k].step;
    first += stride * dim_number(im, r[k].start, "the start");
    stride *= dim_number(im, x->shape.dims[k], "a size");
  }
  define_moved_ints(im, x, shape, first, steps);
}

void onnx_slice(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count, ends, axis_count, step_count, rank = x->shape.rank;
  Dim **start = int_operand(im, 1, "starts", &count);
  Dim **end = int_operand(im, 2, "ends", &ends);
  int64_t *axes = const_operand(im, 3, "axes", &axis_count);
  int64_t *steps = const_operand(im, 4, "steps", &step_count);
  Range ranges[MAX_RANK];
  Shape shape = x->shape;
  bool strided = false;
  (void)how;
  if (count != ends || count > rank || (axes && axis_count != count) ||
      (steps && step_count != count))
    import_fail(im, NULL, "its operands have different lengths");
  for (uint32_t k = 0; k < rank; k++)
    ranges[k] = (Range){num(im, 0), shape.dims[k], 1};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = normal_axis(im, axes ? axes[i] : i, rank);
    ranges[k] = slice_range(im, start[i], end[i], steps ? steps[i] : 1,
                            x->shape.dims[k]);
    shape.dims[k] = ranges[k].count;
    strided |= ranges[k].step != 1 &&
               !(dim_is_const(shape.dims[k]) && dim_sign(shape.dims[k]) == 0);
  }
  if (known_ints(im, x) && (rank == 1 || are_numbers(ranges, rank))) {
    slice_ints(im, x, ranges, &shape);
    return;
  }
  if (shapes_equal(&shape, &x->shape) && !strided) {
    define_alias(im, 0, x);
    return;
  }
  Buffer items = {.arena = im->arena};
  for (uint32_t k = 0; k < rank && !strided; k++)
    buffer_printf(&items, k ? ", %s" : "%s",
                  slice_item(im, &ranges[k], x->shape.dims[k]));
  define(im, 0, x->dtype, &shape, "%s",
         strided ? strided_slice(im, x, ranges, &shape)
                 : text(im, "%s.[%s]", ref(im, x), items.text));
}

void onnx_gather(Importer *im, const char *how) {
  Value *x = input(im, 0), *at = input(im, 1);
  uint32_t rank = x->shape.rank;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 0), rank);
  Shape shape = {.rank = rank - 1 + at->shape.rank};
  (void)how;
  if (shape.rank > MAX_RANK)
    import_fail(im, NULL, "more than %d axes", MAX_RANK);
  for (uint32_t k = 0; k < shape.rank; k++)
    shape.dims[k] = k < axis ? x->shape.dims[k]
                    : k < axis + at->shape.rank
                        ? at->shape.dims[k - axis]
                        : x->shape.dims[k + 1 - at->shape.rank];
  Dim **index = known_ints(im, at);
  int64_t count = value_count(im, at), size = -1, n;
  dim_is_int(x->shape.dims[axis], &size);
  Dim **ints = index ? MAKE_ARRAY(im->arena, Dim *, count + 1) : NULL;
  for (int64_t i = 0; ints && i < count; i++) {
    ints[i] = index[i];
    if (!dim_is_int(ints[i], &n))
      continue;
    if (n < 0)
      ints[i] = dim_add(&im->dims, x->shape.dims[axis], ints[i]);
    if (size >= 0 && (n >= size || n < -size))
      import_fail(im, NULL, "index %lld of an axis of size %lld", (long long)n,
                  (long long)size);
  }
  if (ints && known_ints(im, x) && rank == 1) {
    for (int64_t i = 0; i < count; i++)
      ints[i] = x->ints[dim_number(im, ints[i], "an index")];
    define_ints(im, 0, x->dtype, &shape, ints);
    return;
  }
  const char *item;
  if (ints) {
    Value known = {.dtype = DT_I64, .shape = at->shape, .ints = ints};
    item = literal(im, &known, false);
  } else {
    use_helper(im, HELPER_WRAP);
    item = text(im, "wrap %s %s", extent_atom(im, x->shape.dims[axis]),
                ref(im, at));
  }
  define(im, 0, x->dtype, &shape, "%s",
         item_at(im, ref(im, x), axis, rank, item));
}

/* The part of x in front of it, or behind it, that another mode of Pad adds. */
static const char *extension(Importer *im, const char *x, const Shape *shape,
                             uint32_t axis, const char *mode, int64_t n,
                             bool is_before) {
  Dim *size = shape->dims[axis];
  long long count = (long long)n;
  uint32_t rank = shape->rank;
  if (strcmp(mode, "reflect") == 0) {
    const char *item =
        is_before
            ? text(im, "1:%lld", count + 1)
            : text(im, "%s:%s",
                   extent_source(im, dim_sub(&im->dims, size, num(im, n + 1))),
                   extent_source(im, dim_sub(&im->dims, size, num(im, 1))));
    return text(im, "reverse ~axis:%u %s", axis,
                item_at(im, x, axis, rank, item));
  }
  const char *last = extent_source(im, dim_sub(&im->dims, size, num(im, 1)));
  if (strcmp(mode, "edge") == 0)
    return text(
        im, "tile ~axis:%u %lld %s", axis, count,
        item_at(im, x, axis, rank, is_before ? ":1" : text(im, "%s:", last)));
  if (strcmp(mode, "wrap") != 0)
    import_fail(im, NULL, "the mode `%s` is not supported", mode);
  return item_at(
      im, x, axis, rank,
      is_before
          ? text(im,
                 "%s:", extent_source(im, dim_sub(&im->dims, size, num(im, n))))
          : text(im, ":%lld", count));
}

/* x with more elements at both ends of an axis.  `shape` is that of the result,
   except for other axes. */
static const char *extended(Importer *im, const char *x, const Shape *shape,
                            uint32_t axis, const char *mode, int64_t before,
                            int64_t after) {
  Shape old = *shape;
  int64_t size;
  if (before == 0 && after == 0)
    return x;
  old.dims[axis] =
      dim_sub(&im->dims, shape->dims[axis], num(im, before + after));
  int64_t least = strcmp(mode, "reflect") == 0;
  int64_t most = before > after ? before : after;
  if (strcmp(mode, "edge") != 0 && dim_is_int(old.dims[axis], &size) &&
      size < most + least)
    import_fail(im, NULL, "its operand is shorter than what is added");
  x = strchr(x, ' ') ? local(im, "inner", x) : x;
  const char *front =
      before
          ? text(im, "%s, ", extension(im, x, &old, axis, mode, before, true))
          : "";
  const char *back =
      after ? text(im, ", %s", extension(im, x, &old, axis, mode, after, false))
            : "";
  return text(im, "concat ~axis:%u (%s%s%s)", axis, front, x, back);
}

void onnx_pad(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank, count, axis_count;
  int64_t *pads = const_operand(im, 1, "pads", &count);
  int64_t *axes = const_operand(im, 3, "axes", &axis_count);
  const char *mode = attr_string(im, "mode", "constant");
  Shape shape = x->shape;
  const char *all = ref(im, x), *value = "";
  (void)how;
  if (count != 2 * (axes ? axis_count : rank))
    import_fail(im, NULL, "`pads` does not fit the rank");
  if (has_input(im, 2)) {
    Value *v = raw_input(im, 2);
    value = text(im, " ~value:%s",
                 v->tensor && v->tensor->count == 1
                     ? (v->shape = scalar_shape(), literal(im, v, false))
                     : ref(im, v));
  } else if (attr_float(im, "value", 0) != 0)
    value = text(im, " ~value:%s", float_text(im, attr_float(im, "value", 0)));
  bool is_constant = strcmp(mode, "constant") == 0;
  for (uint32_t i = 0; i < count / 2; i++) {
    uint32_t k = axes ? normal_axis(im, axes[i], rank) : i;
    int64_t before = pads[i], after = pads[i + count / 2];
    if (before == 0 && after == 0)
      continue;
    Dim *size = dim_add(&im->dims, shape.dims[k], num(im, before + after));
    if (dim_is_const(size) && dim_sign(size) < 0)
      import_fail(im, NULL, "it removes %lld elements of the %s at axis %u",
                  (long long)-(before + after),
                  extent_source(im, shape.dims[k]), k);
    shape.dims[k] = size;
    if (before < 0 || after < 0)
      all = item_at(
          im, strchr(all, ' ') ? text(im, "(%s)", all) : all, k, rank,
          text(im, "%lld:%s", (long long)(before < 0 ? -before : 0),
               after < 0
                   ? extent_source(
                         im, dim_add(&im->dims, size,
                                     num(im, before < 0 ? -before : -before)))
                   : ""));
    if (!is_constant)
      all = extended(im, all, &shape, k, mode, before > 0 ? before : 0,
                     after > 0 ? after : 0);
    else if (before > 0 || after > 0)
      all = text(im, "%s |> pad ~axis:%u%s%s%s", all, k,
                 before > 0 ? text(im, " ~before:%lld", (long long)before) : "",
                 after > 0 ? text(im, " ~after:%lld", (long long)after) : "",
                 value);
  }
  define(im, 0, x->dtype, &shape, "%s", all);
}
