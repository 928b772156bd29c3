/* A polynomial as the difference of two without negative coefficients. */
#include "typecheck/diminternal.h"

void dim_split_signs(DimCtx *cx, Dim *d, Dim **pos, Dim **neg) {
  *pos = *neg = dim_int(cx, 0);
  for (uint32_t i = 0; i < d->count; i++) {
    Dim *term = dim_of_term(cx, num_abs(cx, d->at[i].coef), d->at[i].mono);
    Dim **into = num_sign(d->at[i].coef) > 0 ? pos : neg;
    *into = dim_add(cx, *into, term);
  }
}

/* g*a + k >= 0 is a + k/g >= 0. */
static Dim *tighten(DimCtx *cx, Dim *d) {
  Num g = num_of(0);
  for (uint32_t i = 0; i < d->count; i++)
    if (d->at[i].mono->count)
      g = num_gcd(cx, g, d->at[i].coef);
  if (num_cmp(g, num_of(1)) <= 0)
    return d;
  Term *out = NEW_ARRAY(cx->arena, Term, d->count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->count; i++) {
    Num rest, q;
    num_divide(cx, d->at[i].coef, g, &q, &rest);
    if (num_sign(q))
      out[n++] = (Term){q, d->at[i].mono};
  }
  return dim_make(cx, out, n);
}

/* A division that stands alone is multiplied out, exactly, as b is at least 1:
 * a/b + r >= 0 is a + b*r >= 0, and r - a/b >= 0 is b*r + b - 1 - a >= 0. */
Dim *dim_simplify_ge(DimCtx *cx, Dim *d) {
  for (int round = 0; round < 8; round++) {
    const Term *found = NULL;
    d = tighten(cx, d);
    for (uint32_t i = 0; i < d->count; i++) {
      const Mono *m = d->at[i].mono;
      if (m->degree == 1 && m->at[0].atom->kind == AT_DIV &&
          (num_is(d->at[i].coef, 1) || num_is(d->at[i].coef, -1)))
        found = &d->at[i];
    }
    if (!found)
      return d;
    Atom *q = found->mono->at[0].atom;
    Dim *num = q->args[0], *den = q->args[1], *one = dim_int(cx, 1);
    if (num_is(found->coef, 1))
      d = dim_add(cx, num, dim_mul(cx, den, dim_sub(cx, d, q->dim)));
    else
      d = dim_sub(cx,
                  dim_mul(cx, den, dim_add(cx, dim_add(cx, d, q->dim), one)),
                  dim_add(cx, num, one));
  }
  return tighten(cx, d);
}
