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
