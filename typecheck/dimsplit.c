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

/* a/b + r >= 0 is a + b*r >= 0, exactly (b is at least 1). */
Dim *dim_clear_division(DimCtx *cx, Dim *d) {
  for (int round = 0; round < 8; round++) {
    const Term *found = NULL;
    for (uint32_t i = 0; i < d->count; i++) {
      const Mono *m = d->at[i].mono;
      if (m->degree == 1 && m->at[0].atom->kind == AT_DIV &&
          num_is(d->at[i].coef, 1))
        found = &d->at[i];
    }
    if (!found)
      return d;
    Atom *q = found->mono->at[0].atom;
    Dim *rest = dim_sub(cx, d, q->dim);
    d = dim_add(cx, q->args[0], dim_mul(cx, q->args[1], rest));
  }
  return d;
}
