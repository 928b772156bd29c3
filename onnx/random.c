/* Operators that draw random numbers.  The program draws them from keys that
   come from an optional parameter ~seed of `model`.  The attribute `seed` has
   no effect: generators differ in the numbers of a seed anyway. */
#include "onnx/ops.h"

/* A key of its own, as an atomic expression. */
static const char *own_key(Importer *im) {
  if (im->nested)
    import_fail(im, NULL,
                "random numbers in a loop or in a branch are not supported");
  if (!im->seed) {
    im->seed = make_identifier(im, "seed", "seed", 30);
    im->keys = text(im, "(key %s)", im->seed);
  }
  const char *own = make_identifier(im, "draw", "draw", 30);
  const char *rest = make_identifier(im, "keys", "keys", 30);
  Statement s = {.name = text(im, "(%s, %s)", own, rest),
                 .text = text(im, "split_key %s", im->keys)};
  VEC_PUSH(im->arena, im->statements, s);
  im->keys = rest;
  return own;
}

/* (uniform key [2, n] : f32[2, n]) */
static const char *draw(Importer *im, const char *function, Dtype dtype,
                        const Shape *shape) {
  const char *sizes = sizes_text(im, shape), *key = own_key(im);
  if (!dtype_is_float(dtype))
    import_fail(im, NULL, "random numbers of the type %s are not supported",
                dtype_info[dtype].name);
  return text(im, "(%s %s %s : %s%s)", function, key, sizes,
              dtype_info[dtype].name, sizes);
}

static Dtype result_dtype(Importer *im, Dtype otherwise) {
  int32_t type = (int32_t)attr_int(im, "dtype", 0);
  return type ? require_dtype(im, type, "output", im->node->output[0])
              : otherwise;
}

/* x * factor + shift, without what changes nothing. */
static const char *scaled(Importer *im, const char *x, double factor,
                          double shift) {
  if (factor != 1)
    x = text(im, "%s * %s", x, float_text(im, factor));
  return shift == 0 ? x : text(im, "%s + %s", x, float_text(im, shift));
}

static void define_draw(Importer *im, const char *function, Dtype dtype,
                        const Shape *shape) {
  bool is_normal = function[0] == 'n';
  double low = attr_float(im, "low", 0), high = attr_float(im, "high", 1);
  double factor = is_normal ? (double)attr_float(im, "scale", 1) : high - low;
  double shift = is_normal ? (double)attr_float(im, "mean", 0) : low;
  define(im, 0, dtype, shape, "%s",
         scaled(im, draw(im, function, dtype, shape), factor, shift));
}

/* how: the primitive that draws */
void onnx_random(Importer *im, const char *how) {
  const int64_t *sizes;
  Shape shape = {.rank = attr_ints(im, "shape", &sizes)};
  if (shape.rank > MAX_RANK)
    import_fail(im, NULL, "a result has more than %d axes", MAX_RANK);
  for (uint32_t k = 0; k < shape.rank; k++)
    shape.dims[k] = num(im, sizes[k]);
  define_draw(im, how, result_dtype(im, DT_F32), &shape);
}

void onnx_random_like(Importer *im, const char *how) {
  Value *x = input(im, 0);
  define_draw(im, how, result_dtype(im, x->dtype), &x->shape);
}

void onnx_bernoulli(Importer *im, const char *how) {
  Value *x = input(im, 0);
  Dtype dtype = result_dtype(im, x->dtype);
  const char *u = draw(im, how, x->dtype, &x->shape);
  const char *drawn = text(im, "%s < %s", u, ref(im, x));
  if (dtype != DT_BOOL)
    drawn = text(im, "%s (%s)", dtype_info[dtype].name, drawn);
  define(im, 0, dtype, &x->shape, "%s", drawn);
}

void onnx_multinomial(Importer *im, const char *how) {
  Value *x = input(im, 0);
  Dim *samples = num(im, attr_int(im, "sample_size", 1));
  Dtype dtype = result_dtype(im, DT_I32);
  if (x->shape.rank != 2 || (dtype != DT_I32 && dtype != DT_I64))
    import_fail(im, NULL, "its input or its element type is not supported");
  Shape shape = {.rank = 2, .dims = {x->shape.dims[0], samples}};
  const char *b = index_name(im, "b"), *i = index_name(im, "i"),
             *c = index_name(im, "c"), *own = own_key(im);
  const char *drawn =
      text(im, "%s %s (for %s < %s, %s < %s, %s < %s => %s.[%s, %s])", how, own,
           b, extent_atom(im, shape.dims[0]), i, extent_atom(im, samples), c,
           extent_atom(im, x->shape.dims[1]), ref(im, x), b, c);
  im->uses_random = true;
  define(im, 0, dtype, &shape, dtype == DT_I64 ? "%s" : "i32 (%s)", drawn);
}

/* ---- Dropout ---- */

/* True if its ratio is the number 0. */
static bool drops_nothing(const Value *ratio) {
  return ratio && ratio->tensor && ratio->tensor->count == 1 &&
         scalar_load(ratio->dtype, ratio->tensor->data).f == 0;
}

static bool is_training(Importer *im) {
  if (!has_input(im, 2))
    return false;
  Value *training = raw_input(im, 2);
  Dim **ints = known_ints(im, training);
  if (!ints || value_count(im, training) != 1)
    import_fail(im, "export the model for inference, or --set this input",
                "data decide if it drops elements as in training");
  return is_one(ints[0]);
}

static void define_dropped(Importer *im, Value *ratio) {
  Value *x = input(im, 0);
  const char *p = ratio ? scalar_text(im, ratio) : "0.5";
  if (ratio && ratio->dtype != x->dtype)
    p = text(im, "(%s %s)", dtype_info[x->dtype].name, p);
  const char *u = draw(im, "uniform", x->dtype, &x->shape);
  const char *kept = local(im, "kept", text(im, "%s >= %s", u, p));
  define(im, 1, DT_BOOL, &x->shape, "%s", kept);
  define(im, 0, x->dtype, &x->shape, "select %s (%s / (1.0 - %s)) 0.0", kept,
         ref(im, x), p);
}

void onnx_dropout(Importer *im, const char *how) {
  Value *x = raw_input(im, 0);
  Value *ratio = has_input(im, 1) ? raw_input(im, 1) : NULL;
  (void)how;
  if (is_training(im) && !drops_nothing(ratio)) {
    define_dropped(im, ratio);
    return;
  }
  define_alias(im, 0, x);
  define(im, 1, DT_BOOL, &x->shape, "broadcast %s true",
         sizes_text(im, &x->shape));
}
