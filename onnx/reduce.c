/* Reductions, normalizations and products. */
#include "onnx/ops.h"

#include <string.h>

typedef struct Axes {
  uint32_t mask; /* the axes that are reduced */
  bool keep;
} Axes;

/* ~axis:(1, 2): a run of adjacent axes */
static const char *axis_run(Importer *im, uint32_t from, uint32_t to) {
  Buffer b = {.arena = im->arena};
  for (uint32_t k = from; k < to; k++)
    buffer_printf(&b, k > from ? ", %u" : "%u", k);
  return to - from == 1 ? b.text : text(im, "(%s)", b.text);
}

/* The reduction as text; a function takes adjacent axes, from the last ones. */
static const char *reduce_text(Importer *im, const char *function,
                               const char *x, uint32_t rank, Axes axes) {
  const char *keep = axes.keep ? " ~keep:true" : "";
  const char *all = x;
  if (axes.mask == (1u << rank) - 1 && !axes.keep && rank > 0)
    return text(im, "%s %s", function, x);
  for (uint32_t to = rank; to > 0; to--) {
    if (!(axes.mask >> (to - 1) & 1))
      continue;
    uint32_t from = to;
    while (from > 0 && axes.mask >> (from - 1) & 1)
      from--;
    all = text(im, "%s ~axis:%s%s %s", function, axis_run(im, from, to), keep,
               strcmp(all, x) == 0 ? x : text(im, "(%s)", all));
    to = from + 1;
  }
  return all;
}

static Shape reduced_shape(Importer *im, const Shape *x, Axes axes) {
  Shape out = {0};
  for (uint32_t k = 0; k < x->rank; k++) {
    bool reduced = axes.mask >> k & 1;
    if (reduced && !axes.keep)
      continue;
    if (reduced || x->stars >> k & 1)
      out.stars |= 1u << out.rank;
    out.dims[out.rank++] = reduced ? num(im, 1) : x->dims[k];
  }
  return out;
}

static Axes reduced_axes(Importer *im, uint32_t rank, bool *nothing) {
  Axes axes = {.keep = attr_int(im, "keepdims", 1)};
  uint32_t count;
  int64_t *list = const_operand(im, 1, "axes", &count);
  for (uint32_t i = 0; i < count; i++)
    axes.mask |= 1u << normal_axis(im, list[i], rank);
  *nothing = count == 0 && attr_int(im, "noop_with_empty_axes", 0);
  if (count == 0)
    axes.mask = rank == 0 ? 0 : (uint32_t)(((uint64_t)1 << rank) - 1);
  return axes;
}

/* how: "function", or "before|function|after" with $ for the operand. */
void onnx_reduce(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  bool nothing;
  Axes axes = reduced_axes(im, x->shape.rank, &nothing);
  char parts[3][64] = {"$", "", "$"};
  if (strchr(how, '|'))
    sscanf(how, "%63[^|]|%63[^|]|%63[^|]", parts[0], parts[1], parts[2]);
  else
    snprintf(parts[1], sizeof parts[1], "%s", how);
  const char *all = ref(im, x);
  for (int i = 0; i < 3; i++) {
    const char *hole = strchr(parts[i], '$');
    if (i == 1 && (nothing || axes.mask == 0))
      continue;
    const char *atom = strchr(all, ' ') ? text(im, "(%s)", all) : all;
    if (i == 1)
      all = reduce_text(im, parts[1], atom, x->shape.rank, axes);
    else if (hole && parts[i][1])
      all = text(im, "%.*s%s%s", (int)(hole - parts[i]), parts[i], atom,
                 hole + 1);
  }
  Shape shape = nothing ? x->shape : reduced_shape(im, &x->shape, axes);
  define(im, 0, x->dtype, &shape, "%s", all);
}

/* Minimum and maximum of booleans are `all` and `any`. */
void onnx_reduce_extreme(Importer *im, const char *how) {
  bool is_bool = raw_input(im, 0)->dtype == DT_BOOL;
  onnx_reduce(im, !is_bool ? how : strcmp(how, "max") == 0 ? "any" : "all");
}

void onnx_arg(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 0), rank);
  Axes axes = {1u << axis, attr_int(im, "keepdims", 1)};
  Shape shape = reduced_shape(im, &x->shape, axes);
  const char *keep = axes.keep ? " ~keep:true" : "";
  if (!attr_int(im, "select_last_index", 0))
    define(im, 0, DT_I64, &shape, "%s ~axis:%u%s %s", how, axis, keep,
           ref(im, x));
  else
    define(im, 0, DT_I64, &shape,
           "%s - 1 - %s ~axis:%u%s (reverse ~axis:%u %s)",
           extent_source(im, x->shape.dims[axis]), how, axis, keep, axis,
           ref(im, x));
}

/* Before opset 13, all axes from `axis` on are one. */
void onnx_softmax(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  bool is_old = im->opset < 13;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", is_old ? 1 : -1), rank);
  const char *axes = axis_run(im, axis, is_old ? rank : axis + 1);
  if (axis + 1 == rank)
    define(im, 0, x->dtype, &x->shape, "%s %s", how, ref(im, x));
  else
    define(im, 0, x->dtype, &x->shape, "%s ~axis:%s %s", how, axes, ref(im, x));
}

void onnx_hardmax(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", -1), rank);
  Buffer items = {.arena = im->arena};
  (void)how;
  for (uint32_t k = axis + 1; k < rank; k++)
    buffer_puts(&items, ", *");
  define(im, 0, x->dtype, &x->shape,
         "%s ((iota %s).[:%s] == argmax ~axis:%u ~keep:true %s)",
         dtype_info[x->dtype].name, extent_atom(im, x->shape.dims[axis]),
         items.text ? items.text : "", axis, ref(im, x));
}

void onnx_cumsum(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count, rank = x->shape.rank;
  int64_t *axes = const_operand(im, 1, NULL, &count);
  uint32_t axis = normal_axis(im, count ? axes[0] : 0, rank);
  bool reverse = attr_int(im, "reverse", 0);
  const char *all = ref(im, x);
  if (reverse)
    all = text(im, "(reverse ~axis:%u %s)", axis, all);
  const char *sums = text(im, "%s ~axis:%u %s", how, axis, all);
  if (attr_int(im, "exclusive", 0))
    sums = text(im, "%s - %s", sums, all);
  if (reverse)
    sums = text(im, "reverse ~axis:%u (%s)", axis, sums);
  define(im, 0, x->dtype, &x->shape, "%s", sums);
}

/* A scan along the first axis, from ones. */
void onnx_cumprod(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count, rank = x->shape.rank;
  int64_t *axes = const_operand(im, 1, NULL, &count);
  uint32_t axis = normal_axis(im, count ? axes[0] : 0, rank);
  bool reverse = attr_int(im, "reverse", 0);
  const char *y = index_name(im, "y"), *z = index_name(im, "z");
  const char *all = move_axis(im, ref(im, x), rank, axis, 0);
  Shape row = {.rank = rank - 1};
  (void)how;
  for (uint32_t k = 0; k < row.rank; k++)
    row.dims[k] = x->shape.dims[k + (k >= axis)];
  const char *type = dtype_info[x->dtype].name;
  const char *ones = text(im, "(1 : %s)", type);
  if (row.rank)
    ones = text(im, "(ones %s : %s%s)", sizes_text(im, &row), type,
                sizes_text(im, &row));
  if (reverse)
    all = text(im, "(reverse ~axis:0 %s)", all);
  const char *result =
      attr_int(im, "exclusive", 0) ? y : text(im, "%s * %s", y, z);
  all = text(im, "snd (scan (fn %s %s => (%s * %s, %s)) %s %s)", y, z, y, z,
             result, ones, all);
  if (reverse)
    all = text(im, "reverse ~axis:0 (%s)", all);
  if (axis > 0)
    all = move_axis(im, text(im, "(%s)", all), rank, 0, axis);
  define(im, 0, x->dtype, &x->shape, "%s", all);
}

/* ---- products ---- */

static void check_batch(Importer *im, const Shape *x, const Shape *y) {
  for (uint32_t k = 3; k <= x->rank && k <= y->rank; k++) {
    Dim *a = x->dims[x->rank - k], *b = y->dims[y->rank - k];
    if (dims_differ(a, b) && !is_one(a) && !is_one(b))
      import_fail(im, NULL,
                  "batch axes of a matrix product differ: %s and %s, of %s and "
                  "%s",
                  extent_source(im, a), extent_source(im, b), sizes_text(im, x),
                  sizes_text(im, y));
  }
}

static Shape matmul_batch(Importer *im, Value **v, const char **texts) {
  Shape shapes[2];
  for (int i = 0; i < 2; i++) {
    shapes[i] = v[i]->shape;
    shapes[i].rank -= 2;
    texts[i] = ref(im, v[i]);
  }
  Shape out = broadcast_shapes(im, 2, shapes);
  for (int i = 0; i < 2; i++) {
    uint32_t mask = 0;
    for (uint32_t k = 0; k < shapes[i].rank; k++)
      if (is_one(shapes[i].dims[k]) &&
          !is_one(out.dims[out.rank - shapes[i].rank + k]))
        mask |= 1u << k;
    if (mask)
      texts[i] = star_axes(im, texts[i], v[i]->shape.rank, mask, "*");
  }
  return out;
}

const char *matmul_text(Importer *im, Value *left, Value *right, Shape *shape) {
  Value *v[] = {left, right};
  uint32_t a = left->shape.rank, b = right->shape.rank;
  if (!a || !b)
    import_fail(im, NULL, "an operand of a matrix product has no axes");
  Dim *x = left->shape.dims[a - 1], *y = right->shape.dims[b > 1 ? b - 2 : 0];
  if (dims_differ(x, y))
    import_fail(im, NULL,
                "inner dimensions of a matrix product differ: %s and %s, of %s "
                "and %s",
                extent_source(im, x), extent_source(im, y),
                sizes_text(im, &left->shape), sizes_text(im, &right->shape));
  if (a == 1 || b == 1) {
    const char *first = ref(im, left), *second = ref(im, right);
    *shape = b == 1 ? left->shape : right->shape;
    shape->rank--;
    if (b == 1)
      return text(im, "dot %s %s", first, second);
    shape->dims[b - 2] = right->shape.dims[b - 1];
    return text(im, "dot (transpose %s) %s", second, first);
  }
  const char *texts[2];
  check_batch(im, &left->shape, &right->shape);
  *shape = matmul_batch(im, v, texts);
  shape->dims[shape->rank++] = left->shape.dims[a - 2];
  shape->dims[shape->rank++] = right->shape.dims[b - 1];
  shape->stars = 0;
  return text(im, "%s @ %s", texts[0], texts[1]);
}

void onnx_matmul(Importer *im, const char *how) {
  Value *a = input(im, 0);
  Shape shape;
  const char *product = matmul_text(im, a, input(im, 1), &shape);
  (void)how;
  define(im, 0, a->dtype, &shape, "%s", product);
}

void onnx_gemm(Importer *im, const char *how) {
  Value *a = input(im, 0), *b = input(im, 1);
  bool ta = attr_int(im, "transA", 0), tb = attr_int(im, "transB", 0);
  float alpha = attr_float(im, "alpha", 1), beta = attr_float(im, "beta", 1);
  (void)how;
  if (a->shape.rank != 2 || b->shape.rank != 2)
    import_fail(im, "flatten the operand, or use MatMul",
                "its operands must have two axes: %s and %s",
                sizes_text(im, &a->shape), sizes_text(im, &b->shape));
  Dim *inner = a->shape.dims[!ta], *other = b->shape.dims[tb];
  if (dims_differ(inner, other))
    import_fail(im,
                dim_equal(inner, b->shape.dims[!tb])
                    ? text(im, "with `transB` = %d, they are equal", !tb)
                    : NULL,
                "inner dimensions of a matrix product differ: %s and %s, of "
                "%s%s and %s%s",
                extent_source(im, inner), extent_source(im, other),
                sizes_text(im, &a->shape), ta ? " (transposed)" : "",
                sizes_text(im, &b->shape), tb ? " (transposed)" : "");
  Shape shape = {.rank = 2, .dims = {a->shape.dims[ta], b->shape.dims[!tb]}};
  const char *all = text(im, ta ? "transpose %s @ " : "%s @ ", ref(im, a));
  all = text(im, tb ? "%stranspose %s" : "%s%s", all, ref(im, b));
  if (alpha != 1)
    all = text(im, "%s * (%s)", float_text(im, alpha), all);
  if (has_input(im, 2)) {
    Value product = {.dtype = a->dtype, .shape = shape, .text = "x"};
    Value *v[] = {&product, raw_input(im, 2)};
    const char *texts[2] = {0};
    align(im, 2, v, texts);
    all = beta == 1
              ? text(im, "%s + %s", all, texts[1])
              : text(im, "%s + %s * %s", all, float_text(im, beta), texts[1]);
  }
  define(im, 0, a->dtype, &shape, "%s", all);
}

/* ---- normalization ---- */

static const char *tail_axes(Importer *im, uint32_t axis, uint32_t rank) {
  return axis_run(im, axis, rank);
}

void onnx_layernorm(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", -1), rank);
  const char *eps = float_text(im, attr_float(im, "epsilon", 1e-5f));
  const char *axes = tail_axes(im, axis, rank), *scale, *d = ref(im, x);
  Shape kept = reduced_shape(
      im, &x->shape, (Axes){((1u << rank) - 1) & ~((1u << axis) - 1), true});
  bool is_rms = strcmp(how, "rms") == 0;
  const char *mean = NULL;
  if (!is_rms) {
    mean = local(im, "mean_", text(im, "mean ~axis:%s ~keep:true %s", axes, d));
    d = local(im, "centered", text(im, "%s - %s", d, mean));
  }
  scale = local(im, "inverse_std",
                text(im, "rsqrt (mean ~axis:%s ~keep:true (square %s) + %s)",
                     axes, d, eps));
  Value normed = {.dtype = x->dtype,
                  .shape = x->shape,
                  .text = text(im, "(%s * %s)", d, scale)};
  Value *v[3] = {&normed, raw_input(im, 1)};
  v[2] = has_input(im, 2) ? raw_input(im, 2) : NULL;
  const char *texts[3] = {0};
  align(im, v[2] ? 3 : 2, v, texts);
  const char *all = text(im, "%s * %s * %s", d, scale, texts[1]);
  if (v[2])
    all = text(im, "%s + %s", all, texts[2]);
  define(im, 0, x->dtype, &x->shape, "%s", all);
  if (mean)
    define(im, 1, x->dtype, &kept, "%s", mean);
  define(im, 2, x->dtype, &kept, "%s", scale);
}

/* A vector of channels, beside a tensor with this many axes after them. */
static const char *channel_items(Importer *im, const char *s, uint32_t rank) {
  Buffer b = {.arena = im->arena};
  for (uint32_t k = 2; k < rank; k++)
    buffer_puts(&b, ", *");
  return rank > 2 ? text(im, "%s.[:%s]", s, b.text) : s;
}

/* Input i has a number for each channel of x. */
static const char *per_channel(Importer *im, uint32_t i, const Value *x) {
  Value *v = input(im, i);
  if (v->shape.rank != 1 || dims_differ(v->shape.dims[0], x->shape.dims[1]))
    import_fail(im, NULL, "input %u is %s, but its data %s have %s channels", i,
                sizes_text(im, &v->shape), sizes_text(im, &x->shape),
                extent_source(im, x->shape.dims[1]));
  return channel_items(im, ref(im, v), x->shape.rank);
}

/* The mean and the variance of a batch instead of the inputs 3 and 4, with
   which they are mixed into outputs 1 and 2. */
static void batch_statistics(Importer *im, Value *x, const char **mean,
                             const char **variance) {
  uint32_t rank = x->shape.rank;
  Shape channels = {1, 0, {x->shape.dims[1]}};
  const char *old[2];
  for (uint32_t i = 0; i < 2; i++)
    old[i] = ref(im, input(im, 3 + i));
  double keep = attr_float(im, "momentum", 0.9f);
  const char *rows =
      local(im, "channels",
            text(im, "reshape [%s, %s] %s", extent_source(im, channels.dims[0]),
                 extent_source(im, dim_exact_quotient(
                                       &im->dims,
                                       dims_product(im, &x->shape, 0, rank),
                                       channels.dims[0])),
                 move_axis(im, ref(im, x), rank, 1, 0)));
  const char *parts[2];
  parts[0] = local(im, "average", text(im, "mean ~axis:1 %s", rows));
  parts[1] =
      local(im, "variance",
            text(im, "mean ~axis:1 (square (%s - %s.[:, *]))", rows, parts[0]));
  for (uint32_t i = 0; i < 2; i++)
    define(im, i + 1, x->dtype, &channels, "%s * %s + %s * %s",
           float_text(im, keep), old[i], float_text(im, 1 - keep), parts[i]);
  *mean = channel_items(im, parts[0], rank);
  *variance = channel_items(im, parts[1], rank);
}

void onnx_det(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  Shape shape = x->shape;
  (void)how;
  if (rank < 2 || !dim_equal(shape.dims[rank - 1], shape.dims[rank - 2]))
    import_fail(im, NULL, "%s is no square matrix", sizes_text(im, &x->shape));
  shape.rank -= 2;
  im->uses_linalg = true;
  define(im, 0, x->dtype, &shape, "linalg.det %s", ref(im, x));
}

void onnx_batchnorm(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  const char *eps = float_text(im, attr_float(im, "epsilon", 1e-5f));
  const char *p[5];
  (void)how;
  if (rank < 2)
    import_fail(im, NULL, "its input has no axis of channels");
  for (uint32_t i = 1; i < 5; i++)
    p[i] = per_channel(im, i, x);
  if (!attr_int(im, "spatial", 1))
    import_fail(im, NULL, "statistics for each pixel are not supported");
  bool is_test = im->opset >= 7 || attr_int(im, "is_test", 0);
  if (attr_int(im, "training_mode", 0) || (!is_test && has_output(im, 1)))
    batch_statistics(im, x, &p[3], &p[4]);
  define(im, 0, x->dtype, &x->shape, "(%s - %s) * (%s * rsqrt (%s + %s)) + %s",
         ref(im, x), p[3], p[1], p[4], eps, p[2]);
}

void onnx_instancenorm(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  const char *eps = float_text(im, attr_float(im, "epsilon", 1e-5f));
  (void)how;
  if (rank < 3)
    import_fail(im, NULL, "its input has too few axes");
  const char *axes = axis_run(im, 2, rank);
  const char *d = local(im, "centered",
                        text(im, "%s - mean ~axis:%s ~keep:true %s", ref(im, x),
                             axes, ref(im, x)));
  const char *scale = per_channel(im, 1, x);
  const char *bias = per_channel(im, 2, x);
  define(im, 0, x->dtype, &x->shape,
         "%s * rsqrt (mean ~axis:%s ~keep:true (square %s) + %s) * %s + %s", d,
         axes, d, eps, scale, bias);
}

/* Mean 0 and variance 1 along the axes of an attribute. */
void onnx_mvn(Importer *im, const char *how) {
  Value *x = input(im, 0);
  const int64_t *list, usual[] = {0, 2, 3};
  uint32_t count = attr_ints(im, "axes", &list), rank = x->shape.rank;
  Axes axes = {.keep = true};
  (void)how;
  for (uint32_t k = 0; k < (count ? count : 3); k++)
    axes.mask |= 1u << normal_axis(im, count ? list[k] : usual[k], rank);
  const char *mean = reduce_text(im, "mean", ref(im, x), rank, axes);
  const char *d = local(im, "centered", text(im, "%s - %s", ref(im, x), mean));
  const char *squares = local(im, "squares", text(im, "square %s", d));
  define(im, 0, x->dtype, &x->shape, "%s / (sqrt (%s) + 1e-9)", d,
         reduce_text(im, "mean", squares, rank, axes));
}

void onnx_lpnorm(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t axis = normal_axis(im, attr_int(im, "axis", -1), x->shape.rank);
  const char *s = ref(im, x);
  (void)how;
  const char *norm =
      attr_int(im, "p", 2) == 1
          ? text(im, "sum ~axis:%u ~keep:true (abs %s)", axis, s)
          : text(im, "sqrt (sum ~axis:%u ~keep:true (square %s))", axis, s);
  norm = local(im, "norm_", norm);
  define(im, 0, x->dtype, &x->shape, "select (%s == 0.0) 0.0 (%s / %s)", norm,
         s, norm);
}

/* The letters of operand i: up to the next comma, or the arrow. */
static size_t count_letters(const char *term) {
  size_t n = 0;
  for (; *term && *term != ',' && *term != '-'; term++)
    n += *term != ' ' && *term != '.';
  return n;
}

static const char *free_letters(Importer *im, const char *equation) {
  Buffer b = {.arena = im->arena};
  buffer_puts(&b, "");
  for (char c = 'Z'; c >= 'A'; c--)
    if (!strchr(equation, c))
      buffer_putc(&b, c);
  return b.text;
}

/* The letters that occur once, in order: the result without an arrow. */
static void put_single_letters(Buffer *b, const char *equation) {
  for (char c = 'A'; c <= 'z'; c++) {
    const char *first = strchr(equation, c);
    if (first && !strchr(first + 1, c))
      buffer_putc(b, c);
  }
}

/* The equation with an arrow, and with letters in place of dots.  Dots stand
 * for the same axes, from the right, in each operand. */
static const char *explicit_equation(Importer *im, const char *equation) {
  const char *spare = free_letters(im, equation), *term = equation;
  Buffer b = {.arena = im->arena};
  size_t most = 0, operand = 0;
  for (const char *c = equation; *c; c++) {
    if (c == equation || c[-1] == ',' || c[-1] == '>')
      term = c;
    operand += *c == ',';
    if (strncmp(c, "...", 3) != 0) {
      buffer_putc(&b, *c);
      continue;
    }
    bool is_output = strchr(equation, '>') && c > strchr(equation, '>');
    size_t axes = most;
    if (!is_output) {
      uint32_t rank = input(im, (uint32_t)operand)->shape.rank;
      size_t letters = count_letters(term);
      axes = rank > letters ? rank - letters : 0;
      most = axes > most ? axes : most;
    }
    if (axes > strlen(spare))
      import_fail(im, NULL, "the equation `%.60s` has too many axes", equation);
    for (size_t k = axes; k-- > 0;)
      buffer_putc(&b, spare[k]);
    c += 2;
  }
  if (strchr(equation, '>'))
    return b.text ? b.text : "";
  buffer_puts(&b, "->");
  for (size_t k = most; k-- > 0;)
    buffer_putc(&b, spare[k]);
  put_single_letters(&b, equation);
  return b.text;
}

void onnx_einsum(Importer *im, const char *how) {
  const char *equation = explicit_equation(im, attr_string(im, "equation", ""));
  Buffer b = {.arena = im->arena}, args = {.arena = im->arena};
  Dim *sizes[128] = {0};
  uint32_t k = 0, i = 0;
  Shape shape = {0};
  bool is_output = false;
  (void)how;
  for (const char *c = equation; *c; c++) {
    if (*c == ',' || *c == '-') {
      is_output = *c == '-';
      c += is_output;
      buffer_puts(&b, is_output ? " -> " : ", ");
      i++, k = 0;
    } else if (*c >= 'A' && *c <= 'z' && !is_output) {
      Value *v = input(im, i);
      if (k >= v->shape.rank)
        import_fail(im, NULL, "the equation does not fit its operands");
      sizes[(int)*c] = v->shape.dims[k];
      buffer_printf(&b, k++ ? " %c" : "%c", *c);
    } else if (*c >= 'A' && *c <= 'z') {
      if (!sizes[(int)*c] || shape.rank == MAX_RANK)
        import_fail(im, NULL, "the equation is wrong");
      shape.dims[shape.rank++] = sizes[(int)*c];
      buffer_printf(&b, shape.rank > 1 ? " %c" : "%c", *c);
    } else if (*c != ' ')
      import_fail(im, NULL, "the equation is wrong");
  }
  for (uint32_t j = 0; j < input_count(im); j++)
    buffer_printf(&args, " %s", ref(im, input(im, j)));
  define(im, 0, input(im, 0)->dtype, &shape, "einsum \"%s\"%s", b.text,
         args.text);
}
