/* Shapes: broadcasting with explicit stretching axes. */
#include "onnx/internal.h"

#include <string.h>

Dim *num(Importer *im, int64_t n) {
  return dim_int(&im->dims, n);
}

Shape scalar_shape(void) {
  return (Shape){0};
}

bool is_one(const Dim *d) {
  int64_t n;
  return dim_is_int(d, &n) && n == 1;
}

bool dims_differ(const Dim *a, const Dim *b) {
  return dim_is_const(a) && dim_is_const(b) && !dim_equal(a, b);
}

bool shapes_equal(const Shape *a, const Shape *b) {
  if (a->rank != b->rank)
    return false;
  for (uint32_t k = 0; k < a->rank; k++)
    if (!dim_equal(a->dims[k], b->dims[k]))
      return false;
  return true;
}

Dim *dims_product(Importer *im, const Shape *s, uint32_t from, uint32_t to) {
  Dim *product = num(im, 1);
  for (uint32_t k = from; k < to; k++)
    product = dim_mul(&im->dims, product, s->dims[k]);
  return product;
}

/* The axis of s that is the k-th from the right of a shape of this rank. */
static bool aligned_axis(const Shape *s, uint32_t rank, uint32_t k,
                         uint32_t *axis) {
  *axis = k + s->rank - rank;
  return k + s->rank >= rank;
}

/* "[n, 8] and [3]" */
static const char *shape_list(Importer *im, uint32_t count,
                              const Shape *shapes) {
  Buffer b = {.arena = im->arena};
  for (uint32_t i = 0; i < count; i++)
    buffer_printf(&b, "%s%s",
                  !i              ? ""
                  : i + 1 < count ? ", "
                                  : " and ",
                  sizes_text(im, &shapes[i]));
  return b.text;
}

/* A list beside a tensor that has as many elements at another axis. */
static const char *view_help(Importer *im, uint32_t count,
                             const Shape *shapes) {
  if (count != 2)
    return NULL;
  const Shape *list = &shapes[shapes[1].rank != 1 ? 0 : 1];
  const Shape *other = &shapes[list == shapes];
  for (uint32_t k = 0; list->rank == 1 && k + 1 < other->rank; k++)
    if (dim_equal(other->dims[k], list->dims[0])) {
      Shape view = {.rank = other->rank - k, .dims = {list->dims[0]}};
      for (uint32_t a = 1; a < view.rank; a++)
        view.dims[a] = num(im, 1);
      return text(im,
                  "for one number at each index of axis %u, give it the "
                  "shape %s",
                  k, sizes_text(im, &view));
    }
  return NULL;
}

static void join_axis(Importer *im, Shape *out, uint32_t k, uint32_t count,
                      const Shape *shapes, uint32_t i, uint32_t axis,
                      bool *is_plain) {
  const Shape *s = &shapes[i];
  Dim *d = s->dims[axis];
  if (s->stars >> axis & 1)
    return;
  *is_plain = true;
  if (is_one(d) || dim_equal(d, out->dims[k]))
    return;
  if (is_one(out->dims[k])) {
    out->dims[k] = d;
    return;
  }
  if (dims_differ(d, out->dims[k]))
    import_fail(im, view_help(im, count, shapes),
                "the shapes %s do not broadcast: at axis %u, the sizes %s and "
                "%s differ",
                shape_list(im, count, shapes), k,
                extent_source(im, out->dims[k]), extent_source(im, d));
  import_fail(im,
              "give a size its number, as in --set n=16, if one of them is 1; "
              "or give both the same name in the model",
              "operands have the sizes %s and %s at axis %u: they may be "
              "equal, or one may be 1 and stretch",
              extent_source(im, out->dims[k]), extent_source(im, d), k);
}

Shape broadcast_shapes(Importer *im, uint32_t count, const Shape *shapes) {
  Shape out = {0};
  for (uint32_t i = 0; i < count; i++)
    if (shapes[i].rank > out.rank)
      out.rank = shapes[i].rank;
  for (uint32_t k = 0; k < out.rank; k++) {
    bool is_plain = false;
    uint32_t axis;
    out.dims[k] = num(im, 1);
    for (uint32_t i = 0; i < count; i++)
      if (aligned_axis(&shapes[i], out.rank, k, &axis))
        join_axis(im, &out, k, count, shapes, i, axis, &is_plain);
    if (!is_plain)
      out.stars |= 1u << k;
  }
  return out;
}

const char *star_axes(Importer *im, const char *x, uint32_t rank, uint32_t mask,
                      const char *kind) {
  Buffer b = {.arena = im->arena};
  uint32_t last = 0;
  for (uint32_t k = 0; k < rank; k++)
    if (mask >> k & 1)
      last = k;
  buffer_printf(&b, "%s.[", x);
  for (uint32_t k = 0; k < rank; k++) {
    if (k > 0)
      buffer_puts(&b, ", ");
    if (k > last && rank - k > 1) {
      buffer_puts(&b, "...");
      break;
    }
    if (mask >> k & 1)
      buffer_printf(&b, "0, %s", kind);
    else
      buffer_puts(&b, ":");
  }
  buffer_putc(&b, ']');
  return b.text;
}

/* A constant with one element is written as a number, which has no axes, if
   another operand has at least as many. */
static bool is_number_beside(Value **v, uint32_t count, uint32_t i) {
  if (!v[i]->tensor || v[i]->tensor->count != 1)
    return false;
  for (uint32_t j = 0; j < count; j++)
    if (j != i && v[j]->shape.rank >= v[i]->shape.rank &&
        !(v[j]->tensor && v[j]->tensor->count == 1))
      return true;
  return false;
}

/* True if another operand gives a number its element type. */
static bool is_typed_beside(Value **v, uint32_t count, uint32_t i) {
  for (uint32_t j = 0; j < count; j++)
    if (j != i && v[j]->dtype == v[i]->dtype && !is_small_constant(v[j]) &&
        !v[j]->ints)
      return true;
  return false;
}

Shape align(Importer *im, uint32_t count, Value **v, const char **texts) {
  Shape *shapes = MAKE_ARRAY(im->arena, Shape, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    if (!is_number_beside(v, count, i)) {
      shapes[i] = v[i]->shape;
      continue;
    }
    Value *scalar = MAKE(im->arena, Value);
    *scalar = *v[i];
    scalar->shape = scalar_shape();
    texts[i] = literal(im, scalar, !is_typed_beside(v, count, i));
  }
  Shape out = broadcast_shapes(im, count, shapes);
  for (uint32_t i = 0; i < count; i++) {
    if (texts[i])
      continue;
    const Shape *s = &v[i]->shape;
    uint32_t mask = 0;
    for (uint32_t axis = 0; axis < s->rank; axis++)
      if (!(s->stars >> axis & 1) && is_one(s->dims[axis]) &&
          !is_one(out.dims[out.rank - s->rank + axis]))
        mask |= 1u << axis;
    texts[i] = is_small_constant(v[i]) && !mask && is_typed_beside(v, count, i)
                   ? literal(im, v[i], false)
                   : ref(im, v[i]);
    if (mask)
      texts[i] = star_axes(im, texts[i], s->rank, mask, "*");
  }
  return out;
}

const char *move_axis(Importer *im, const char *x, uint32_t rank, uint32_t from,
                      uint32_t to) {
  Buffer before = {.arena = im->arena}, after = {.arena = im->arena};
  if (from == to)
    return x;
  uint32_t next = 0;
  for (uint32_t k = 0; k < rank; k++) {
    next += next == from;
    buffer_printf(&before, k ? " %c" : "%c", 'a' + (int)k);
    buffer_printf(&after, k ? " %c" : "%c",
                  'a' + (int)(k == to ? from : next++));
  }
  return text(im, "(permute \"%s -> %s\" %s)", before.text, after.text, x);
}
