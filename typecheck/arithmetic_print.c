/* Prints how the value of a size results from numbers: 64 * 13 * 13 = 10816. */
#include "typecheck/types.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <string.h>

/* A number that is printed unevaluated: 3 * 3, not 9. */
static Dim *unevaluated_number(Checker *c, int64_t n) {
  DimVar *v = dim_new_var(c->dims, DV_SKOLEM, NULL, (Span){0});
  v->printed_name = arena_printf(c->arena, "%lld", (long long)n);
  return dim_of_var(c->dims, v);
}

/* Replaces solved variables by numbers; 0 and 1 disappear. */
static Dim *solved_as_number(void *arg, DimVar *v) {
  Checker *c = arg;
  if (v->kind != DV_META || !v->solution || v->unknown)
    return NULL;
  Dim *d = dim_resolve(c->dims, dim_of_var(c->dims, v));
  int64_t n;
  if (!dim_is_int(d, &n) || n == 0 || n == 1)
    return d;
  return unevaluated_number(c, n);
}

static const char *factor_text(Checker *c, Dim *d) {
  d = dim_resolve(c->dims, d);
  const char *text = dim_to_text(c, d);
  return dim_as_var(d) || dim_is_const(d)
             ? text
             : arena_printf(c->arena, "(%s)", text);
}

static Dim *shape_as_numbers(void *arg, ShapeVar *v) {
  Checker *c = arg;
  if (!v->solution)
    return NULL;
  Shape *s = shape_norm(c, v->solution);
  Dim *product = dim_int(c->dims, 1);
  for (uint32_t i = 0; i < s->len; i++) {
    DimVar *number = dim_new_var(c->dims, DV_SKOLEM, NULL, (Span){0});
    number->printed_name =
        s->axes[i].tag == SHAPE_DIM ? factor_text(c, s->axes[i].dim) : "1";
    product = dim_mul(c->dims, product, dim_of_var(c->dims, number));
  }
  return product;
}

static Dim *with_numbers(Checker *c, Dim *d) {
  return dim_subst(c->dims, d, solved_as_number, shape_as_numbers, c);
}

/* Prints the value of each factor of a product: 64 * 13 * 13. */
static Dim *product_with_numbers(Checker *c, Dim *d) {
  Dim *factors[DIM_MAX_FACTORS], *whole = dim_int(c->dims, 1);
  if (!dim_is_const(dim_resolve(c->dims, d)))
    return with_numbers(c, d);
  uint32_t count = dim_factor(c->dims, d, factors);
  if (count < 2)
    return with_numbers(c, d);
  for (uint32_t i = 0; i < count; i++) {
    int64_t n;
    bool computed = !dim_as_var(factors[i]) && !dim_is_const(factors[i]) &&
                    dim_is_int(dim_resolve(c->dims, factors[i]), &n) && n > 1;
    whole = dim_mul(c->dims, whole,
                    computed ? unevaluated_number(c, n)
                             : with_numbers(c, factors[i]));
  }
  return whole;
}

/* Prints a <= b with unevaluated numbers and without common terms. k*d + 1 <= l
   + d with k = 10 and l = d = 1 prints "10" and "1". */
void inequality_text(Checker *c, Dim *a, Dim *b, const char **x,
                     const char **y) {
  dims_text(c, a, b, x, y);
  if (!dim_is_const(dim_resolve(c->dims, a)) ||
      !dim_is_const(dim_resolve(c->dims, b)))
    return;
  Dim *pos, *neg, *d = dim_sub(c->dims, b, a);
  d = dim_subst(c->dims, d, solved_as_number, shape_as_numbers, c);
  if (dim_is_const(d))
    return;
  dim_split_signs(c->dims, d, &pos, &neg);
  Buffer text = {.arena = c->arena};
  dim_print(c->dims, &text, neg);
  size_t len = text.len;
  dim_print(c->dims, &text, pos);
  *x = arena_strndup(c->arena, text.text, len);
  *y = arena_strndup(c->arena, text.text + len, text.len - len);
}

const char *dim_arithmetic(Checker *c, Dim *d) {
  if (dim_as_var(d) || dim_is_const(d))
    return NULL;
  Dim *shown = product_with_numbers(c, d);
  if (dim_as_var(shown) || dim_is_const(shown))
    return NULL;
  Buffer text = {.arena = c->arena};
  dim_print(c->dims, &text, shown);
  const char *result = dim_to_text(c, d);
  return strcmp(text.text, result) == 0
             ? NULL
             : arena_printf(c->arena, "%s = %s", text.text, result);
}
