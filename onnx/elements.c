/* Operators on elements and indices, and losses. */
#include "onnx/ops.h"

#include <string.h>

Loop loop_over(Importer *im, const Shape *shape) {
  Loop loop = {0};
  Buffer b = {.arena = im->arena};
  for (uint32_t k = 0; k < shape->rank; k++) {
    loop.names[k] = index_name(im, text(im, "i%u", k));
    buffer_printf(&b, "%s%s < %s", k ? ", " : "", loop.names[k],
                  extent_atom(im, shape->dims[k]));
  }
  loop.binders = b.text;
  return loop;
}

const char *join_names(Importer *im, const char *const *names, uint32_t from,
                       uint32_t to) {
  Buffer b = {.arena = im->arena};
  for (uint32_t k = from; k < to; k++)
    buffer_printf(&b, k > from ? ", %s" : "%s", names[k]);
  return b.text ? b.text : "";
}

static const char *wrapped(Importer *im, Dim *size, const char *index) {
  use_helper(im, HELPER_WRAP);
  return text(im, "wrap %s %s", extent_atom(im, size), index);
}

void onnx_gather_elements(Importer *im, const char *how) {
  Value *x = input(im, 0), *at = input(im, 1);
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 0), x->shape.rank);
  Loop loop = loop_over(im, &at->shape);
  (void)how;
  if (at->shape.rank != x->shape.rank)
    import_fail(im, NULL, "its operands have different ranks");
  const char *index = text(im, "%s.[%s]", ref(im, at),
                           join_names(im, loop.names, 0, at->shape.rank));
  loop.names[axis] = wrapped(im, x->shape.dims[axis], index);
  define(im, 0, x->dtype, &at->shape, "for %s => %s.[%s]", loop.binders,
         ref(im, x), join_names(im, loop.names, 0, x->shape.rank));
}

void onnx_gather_nd(Importer *im, const char *how) {
  Value *x = input(im, 0), *at = input(im, 1);
  int64_t batch = attr_int(im, "batch_dims", 0);
  uint32_t rank = at->shape.rank;
  (void)how;
  if (rank == 0 || batch < 0 || batch >= rank)
    import_fail(im, NULL, "`batch_dims` does not fit its operands");
  int64_t depth = dim_number(im, at->shape.dims[rank - 1], "the indices");
  if (depth < 1 || depth + batch > x->shape.rank)
    import_fail(im, NULL, "the indices do not fit the operand");
  uint32_t used = (uint32_t)(depth + batch);
  Shape shape = {.rank = rank - 1 + x->shape.rank - used};
  for (uint32_t k = 0; k < shape.rank; k++)
    shape.dims[k] =
        k < rank - 1 ? at->shape.dims[k] : x->shape.dims[k - (rank - 1) + used];
  Loop loop = loop_over(im, &shape);
  const char *items[2 * MAX_RANK];
  uint32_t n = 0;
  for (uint32_t k = 0; k < batch; k++)
    items[n++] = loop.names[k];
  for (uint32_t k = 0; k < depth; k++) {
    const char *outer = join_names(im, loop.names, 0, rank - 1);
    items[n++] = wrapped(
        im, x->shape.dims[batch + k],
        text(im, "%s.[%s%s%u]", ref(im, at), outer, *outer ? ", " : "", k));
  }
  for (uint32_t k = rank - 1; k < shape.rank; k++)
    items[n++] = loop.names[k];
  const char *item =
      text(im, "%s.[%s]", ref(im, x), join_names(im, items, 0, n));
  if (shape.rank == 0)
    define(im, 0, x->dtype, &shape, "%s", item);
  else
    define(im, 0, x->dtype, &shape, "for %s => %s", loop.binders, item);
}

void onnx_trilu(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count, rank = x->shape.rank;
  int64_t *k = const_operand(im, 1, NULL, &count);
  int64_t shift = count ? k[0] : 0;
  bool upper = attr_int(im, "upper", 1);
  (void)how;
  if (rank < 2)
    import_fail(im, NULL, "its input has fewer than two axes");
  if (shift == 0 && x->dtype != DT_BOOL) {
    define(im, 0, x->dtype, &x->shape, "%s %s", upper ? "triu" : "tril",
           ref(im, x));
    return;
  }
  Loop loop = loop_over(im, &x->shape);
  const char *zero = x->dtype == DT_BOOL ? "false" : "0";
  define(im, 0, x->dtype, &x->shape,
         "for %s => if %s + (%lld) %s %s then %s.[%s] else %s", loop.binders,
         loop.names[rank - 2], (long long)shift,
         upper ? "<=" : ">=", loop.names[rank - 1], ref(im, x),
         join_names(im, loop.names, 0, rank), zero);
}

void onnx_eye_like(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  int64_t type = attr_int(im, "dtype", 0), k = attr_int(im, "k", 0);
  Dtype dtype = type ? dtype_of_onnx((int32_t)type) : x->dtype;
  (void)how;
  if (x->shape.rank != 2 || !dtype)
    import_fail(im, NULL, "its input or its element type is not supported");
  Loop loop = loop_over(im, &x->shape);
  define(im, 0, dtype, &x->shape, "for %s => %s (%s == %s + (%lld))",
         loop.binders, dtype_info[dtype].name, loop.names[1], loop.names[0],
         (long long)k);
}

/* Blocks of channels move to pixels, or the other way round. */
static void move_blocks(Importer *im, const char *order, const Shape *middle,
                        const Shape *shape) {
  Value *x = input(im, 0);
  define(im, 0, x->dtype, shape,
         "%s |> reshape %s |> permute \"%s\" |> reshape %s", ref(im, x),
         sizes_text(im, middle), order, sizes_text(im, shape));
}

static Dim *quotient(Importer *im, Dim *d, int64_t n) {
  if (dim_is_const(d) && !dim_exact_quotient(&im->dims, d, num(im, n)))
    import_fail(im, NULL, "its blocks of %lld do not divide %s", (long long)n,
                extent_source(im, d));
  return dim_div(&im->dims, d, num(im, n));
}

static int64_t block_size(Importer *im, const Value *x) {
  int64_t s = attr_int(im, "blocksize", 0);
  if (x->shape.rank != 4 || s < 1 || s > 65536)
    import_fail(im, NULL, "it needs four axes and a block size");
  return s;
}

void onnx_depth_to_space(Importer *im, const char *how) {
  Value *x = input(im, 0);
  int64_t s = block_size(im, x);
  Dim *const *d = x->shape.dims, *n = num(im, s);
  Dim *c = quotient(im, d[1], s * s);
  bool is_dcr = strcmp(attr_string(im, "mode", "DCR"), "DCR") == 0;
  Shape dcr = {6, 0, {d[0], n, n, c, d[2], d[3]}};
  Shape crd = {6, 0, {d[0], c, n, n, d[2], d[3]}};
  Shape shape = {
      4,
      0,
      {d[0], c, dim_mul(&im->dims, d[2], n), dim_mul(&im->dims, d[3], n)}};
  (void)how;
  move_blocks(
      im, is_dcr ? "n a b c h w -> n c h a w b" : "n c a b h w -> n c h a w b",
      is_dcr ? &dcr : &crd, &shape);
}

void onnx_space_to_depth(Importer *im, const char *how) {
  Value *x = input(im, 0);
  int64_t s = block_size(im, x);
  Dim *const *d = x->shape.dims, *n = num(im, s);
  Dim *h = quotient(im, d[2], s), *w = quotient(im, d[3], s);
  Shape middle = {6, 0, {d[0], d[1], h, n, w, n}};
  Shape shape = {4, 0, {d[0], dim_mul(&im->dims, d[1], num(im, s * s)), h, w}};
  bool is_dcr = strcmp(attr_string(im, "mode", "DCR"), "DCR") == 0;
  (void)how;
  move_blocks(
      im, is_dcr ? "n c h a w b -> n a b c h w" : "n c h a w b -> n c a b h w",
      &middle, &shape);
}

void onnx_topk(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t count, rank = x->shape.rank;
  Dim **k = size_operand(im, 1, "k", &count);
  uint32_t axis = normal_axis(im, attr_int(im, "axis", -1), rank);
  Shape shape = x->shape;
  (void)how;
  if (count != 1)
    import_fail(im, NULL, "`k` is not one number");
  Dim *rest = dim_sub(&im->dims, shape.dims[axis], k[0]);
  if ((dim_is_const(rest) && dim_sign(rest) < 0) ||
      (dim_is_const(k[0]) && dim_sign(k[0]) < 0))
    import_fail(im, NULL, "it takes %s elements of the %s at axis %u",
                extent_source(im, k[0]), extent_source(im, shape.dims[axis]),
                axis);
  shape.dims[axis] = k[0];
  const char *key = ref(im, x), *n = extent_source(im, k[0]);
  if (attr_int(im, "largest", 1))
    key = text(im, "(-%s)", key);
  if (x->dtype == DT_U8)
    import_fail(im, NULL, "the element type uint8 is not supported here");
  Buffer items = {.arena = im->arena};
  for (uint32_t i = 0; i < rank; i++)
    buffer_printf(&items, i ? ", %s" : "%s",
                  i == axis ? text(im, ":%s", n) : ":");
  const char *order =
      local(im, "order",
            text(im, "(argsort ~axis:%u %s).[%s]", axis, key, items.text));
  define(im, 0, x->dtype, &shape, "take_along_axis ~axis:%u %s %s", axis, order,
         ref(im, x));
  define(im, 1, DT_I64, &shape, "%s", order);
}

void onnx_one_hot(Importer *im, const char *how) {
  Value *at = input(im, 0), *values = input(im, 2);
  uint32_t count, rank = at->shape.rank + 1, next = 0;
  Value *size = raw_input(im, 1);
  Dim **depth = MAKE_ARRAY(im->arena, Dim *, 1);
  if (size->tensor && size->tensor->count == 1) { /* of any type of number */
    Scalar n = scalar_load(size->dtype, size->tensor->data);
    depth[0] = num(im, scalar_convert(n, DT_I64).i);
    count = 1;
  } else
    depth = size_operand(im, 1, NULL, &count);
  uint32_t axis = normal_axis(im, attr_int(im, "axis", -1), rank);
  Shape shape = {.rank = rank};
  (void)how;
  if (rank > MAX_RANK || count != 1)
    import_fail(im, NULL, "its operands do not fit");
  for (uint32_t k = 0; k < rank; k++)
    shape.dims[k] = k == axis ? depth[0] : at->shape.dims[next++];
  if (dim_is_const(depth[0]) && dim_sign(depth[0]) < 0)
    import_fail(im, NULL, "its depth is %s", extent_source(im, depth[0]));
  Loop loop = loop_over(im, &shape);
  const char *names[MAX_RANK];
  next = 0;
  for (uint32_t k = 0; k < rank; k++)
    if (k != axis)
      names[next++] = loop.names[k];
  const char *v = ref(im, values);
  const char *index = text(im, "i64 %s", ref(im, at));
  index = local(im, "index", wrapped(im, depth[0], text(im, "(%s)", index)));
  define(im, 0, values->dtype, &shape,
         "for %s => select (%s%s%s%s == %s) %s.[1] %s.[0]", loop.binders, index,
         next ? ".[" : "", join_names(im, names, 0, next), next ? "]" : "",
         loop.names[axis], v, v);
}

void onnx_group_norm(Importer *im, const char *how) {
  Value *x = input(im, 0);
  int64_t groups = attr_int(im, "num_groups", 1);
  uint32_t rank = x->shape.rank;
  const char *eps = float_text(im, attr_float(im, "epsilon", 1e-5f));
  (void)how;
  if (rank < 2 || groups < 1 || im->opset < 21)
    import_fail(im, NULL, "it needs opset 21 and an axis of channels");
  if (dim_is_const(x->shape.dims[1]) &&
      !dim_exact_quotient(&im->dims, x->shape.dims[1], num(im, groups)))
    import_fail(im, NULL, "%lld groups do not divide the %s channels",
                (long long)groups, extent_source(im, x->shape.dims[1]));
  Shape grouped = {3,
                   0,
                   {x->shape.dims[0], num(im, groups),
                    dim_div(&im->dims, dims_product(im, &x->shape, 1, rank),
                            num(im, groups))}};
  const char *g =
      local(im, "groups",
            text(im, "reshape %s %s", sizes_text(im, &grouped), ref(im, x)));
  const char *d =
      local(im, "centered", text(im, "%s - mean ~axis:2 ~keep:true %s", g, g));
  Buffer stars = {.arena = im->arena};
  for (uint32_t k = 2; k < rank; k++)
    buffer_puts(&stars, ", *");
  const char *items = stars.text ? text(im, ".[:%s]", stars.text) : "";
  const char *scale = ref(im, input(im, 1)), *bias = ref(im, input(im, 2));
  define(im, 0, x->dtype, &x->shape,
         "reshape %s (%s * rsqrt (mean ~axis:2 ~keep:true (square %s) + %s)) "
         "* %s%s + %s%s",
         sizes_text(im, &x->shape), d, d, eps, scale, items, bias, items);
}

/* x divided by a power of the mean square of neighbouring channels. */
void onnx_lrn(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  int64_t size = attr_int(im, "size", 1);
  (void)how;
  if (rank < 2)
    import_fail(im, NULL, "its input has no axis of channels");
  if (size < 1 || size > INT32_MAX)
    import_fail(im, NULL, "`size` is %lld: it sums no channels",
                (long long)size);
  const char *squares =
      local(im, "squares",
            text(im, "square %s |> pad ~axis:1 ~before:%lld ~after:%lld",
                 ref(im, x), (long long)(size - 1) / 2, (long long)size / 2));
  Loop loop = loop_over(im, &x->shape);
  const char *k = index_name(im, "k");
  loop.names[1] = text(im, "%s + %s", loop.names[1], k);
  const char *sums = local(im, "sums",
                           text(im, "for %s => sum (for %s < %lld => %s.[%s])",
                                loop.binders, k, (long long)size, squares,
                                join_names(im, loop.names, 0, rank)));
  define(im, 0, x->dtype, &x->shape, "%s / pow (%s + %s * %s) %s", ref(im, x),
         float_text(im, attr_float(im, "bias", 1)),
         float_text(im, attr_float(im, "alpha", 1e-4f) / (double)size), sums,
         float_text(im, attr_float(im, "beta", 0.75f)));
}

/* The first elements of each sequence, as many as its length, backwards. */
void onnx_reverse_sequence(Importer *im, const char *how) {
  Value *x = input(im, 0), *lengths = input(im, 1);
  int64_t batch = attr_int(im, "batch_axis", 1);
  int64_t time = attr_int(im, "time_axis", 0);
  (void)how;
  if (batch + time != 1 || batch * time != 0 || x->shape.rank < 2)
    import_fail(im, NULL, "its axes are not supported");
  Loop loop = loop_over(im, &x->shape);
  const char *t = loop.names[time];
  const char *length = text(im, "%s.[%s]", ref(im, lengths), loop.names[batch]);
  loop.names[time] = wrapped(im, x->shape.dims[time],
                             text(im, "(if %s < %s then %s - 1 - %s else %s)",
                                  t, length, length, t, t));
  define(im, 0, x->dtype, &x->shape, "for %s => %s.[%s]", loop.binders,
         ref(im, x), join_names(im, loop.names, 0, x->shape.rank));
}

/* ---- losses ---- */

/* The loss of each element, from log probabilities x[n, c, ...] and classes. */
static void define_loss(Importer *im, const char *x, Dtype dtype,
                        const Shape *classes) {
  Value *at = input(im, 1);
  Loop loop = loop_over(im, &at->shape);
  uint32_t rank = at->shape.rank;
  const char *all = join_names(im, loop.names, 0, rank);
  const char *index = text(im, "%s.[%s]", ref(im, at), all);
  const char *tail = join_names(im, loop.names, 1, rank);
  const Attribute *ignored = find_attribute(im, "ignore_index");
  const char *reduction = attr_string(im, "reduction", "mean");
  const char *safe = index, *weight = "1.0";
  if (ignored)
    safe = text(im, "select (%s == (%lld)) 0 %s", index, (long long)ignored->i,
                index);
  if (has_input(im, 2))
    weight = text(im, "%s.[%s]", ref(im, input(im, 2)), safe);
  if (ignored)
    weight = text(im, "(if %s == (%lld) then 0.0 else %s)", index,
                  (long long)ignored->i, weight);
  const char *weights =
      local(im, "weights",
            text(im, "(for %s => %s : %s%s)", loop.binders, weight,
                 dtype_info[dtype].name, sizes_text(im, &at->shape)));
  const char *losses = local(im, "losses",
                             text(im, "for %s => -%s.[%s] * %s.[%s, %s%s%s]",
                                  loop.binders, weights, all, x, loop.names[0],
                                  safe, *tail ? ", " : "", tail));
  Shape scalar = scalar_shape();
  (void)classes;
  if (strcmp(reduction, "none") == 0)
    define(im, 0, dtype, &at->shape, "%s", losses);
  else if (strcmp(reduction, "sum") == 0)
    define(im, 0, dtype, &scalar, "sum %s", losses);
  else
    define(im, 0, dtype, &scalar, "sum %s / sum %s", losses, weights);
}

void onnx_nll_loss(Importer *im, const char *how) {
  Value *x = input(im, 0);
  (void)how;
  define_loss(im, ref(im, x), x->dtype, &x->shape);
}

void onnx_cross_entropy(Importer *im, const char *how) {
  Value *x = input(im, 0);
  const char *p =
      local(im, "log_p", text(im, "log_softmax ~axis:1 %s", ref(im, x)));
  (void)how;
  define_loss(im, p, x->dtype, &x->shape);
  define(im, 1, x->dtype, &x->shape, "%s", p);
}
