/* Polynomials and relations taken apart: by signs, by what a relation asks of
 * its parts. */
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

/* rest + min(a, b) >= 0, or rest - max(a, b) >= 0. */
static uint32_t choice_parts(DimCtx *cx, Dim *d, Dim *out[DIM_FACTORS]) {
  for (uint32_t i = 0; i < d->count; i++) {
    const Term *term = &d->at[i];
    const Atom *atom = term->mono->degree == 1 ? term->mono->at[0].atom : NULL;
    AtomKind kind = num_sign(term->coef) > 0 ? AT_MIN : AT_MAX;
    if (!atom || atom->kind != kind || atom->arg_count > DIM_FACTORS)
      continue;
    Dim *rest = dim_sub(cx, d, dim_of_term(cx, term->coef, term->mono));
    for (uint32_t j = 0; j < atom->arg_count; j++)
      out[j] = dim_add(cx, rest, dim_scale(cx, atom->args[j], term->coef));
    return atom->arg_count;
  }
  return 1;
}

/* Of what is not negative, a product is at least 1 where each factor is. */
static uint32_t factor_parts(DimCtx *cx, Dim *d, bool (*nonneg)(void *, Dim *),
                             void *arg, Dim *out[DIM_FACTORS]) {
  Dim *one = dim_int(cx, 1);
  if (d->count != 2 || d->at[0].mono->degree < 2 ||
      !num_is(d->at[0].coef, 1) || !num_is(dim_constant(d), -1))
    return 1;
  const Mono *mono = d->at[0].mono;
  for (uint32_t i = 0; i < mono->count; i++) {
    Atom *atom = mono->at[i].atom;
    if ((!dim_atom_nonneg(atom) && !nonneg(arg, atom->dim)) ||
        i == DIM_FACTORS)
      return 1;
  }
  for (uint32_t i = 0; i < mono->count; i++)
    out[i] = dim_sub(cx, mono->at[i].atom->dim, one);
  return mono->count;
}

uint32_t dim_ge_parts(DimCtx *cx, Dim *d, bool (*nonneg)(void *, Dim *),
                      void *arg, Dim *out[DIM_FACTORS]) {
  out[0] = d;
  uint32_t many = factor_parts(cx, d, nonneg, arg, out);
  return many > 1 || out[0] != d ? many : choice_parts(cx, d, out);
}

bool dim_share_term(const Dim *a, const Dim *b) {
  for (uint32_t i = 0; i < a->count; i++)
    if (num_sign(dim_coef(b, a->at[i].mono)))
      return true;
  return false;
}
