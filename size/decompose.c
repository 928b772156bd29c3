/* Decomposes polynomials and relations: by the signs of terms, into equivalent
   simpler conditions, and into conjuncts. */
#include "size/internal.h"
#include "support/arena.h"

/* The sum of the terms with this sign, without it. */
static Dim *terms_with_sign(DimCtx *cx, const Dim *d, int sign) {
  Term *out = dim_term_buffer(cx, d->term_count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->term_count; i++)
    if (bigint_sign(d->terms[i].coef) == sign)
      out[n++] = (Term){bigint_abs(cx, d->terms[i].coef), d->terms[i].mono};
  return dim_of_sum_terms(cx, out, n);
}

void dim_split_signs(DimCtx *cx, Dim *d, Dim **pos, Dim **neg) {
  *pos = terms_with_sign(cx, d, 1);
  *neg = terms_with_sign(cx, d, -1);
}

/* Rewrites g*a + k >= 0 to a + k/g >= 0. */
static Dim *tighten_ge(DimCtx *cx, Dim *d) {
  BigInt g = bigint_of(0);
  for (uint32_t i = 0; i < d->term_count && !bigint_is(g, 1); i++)
    if (d->terms[i].mono->power_count)
      g = bigint_gcd(cx, g, d->terms[i].coef);
  if (bigint_cmp(g, bigint_of(1)) <= 0)
    return d;
  Term *out = dim_term_buffer(cx, d->term_count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->term_count; i++) {
    BigInt rest, q;
    bigint_divide(cx, d->terms[i].coef, g, &q, &rest);
    if (bigint_sign(q))
      out[n++] = (Term){q, d->terms[i].mono};
  }
  return dim_of_terms(cx, out, n);
}

/* Multiplies out a division that stands alone.  This is exact since b is at
   least 1. a/b + r >= 0 becomes a + b*r >= 0. r - a/b >= 0 becomes b*r + b - 1
   - a >= 0. */
Dim *dim_simplify_ge(DimCtx *cx, Dim *d) {
  for (int round = 0; round < 8; round++) {
    const Term *found = NULL;
    d = tighten_ge(cx, d);
    for (uint32_t i = 0; i < d->term_count; i++) {
      const Monomial *m = d->terms[i].mono;
      if (m->degree == 1 && m->powers[0].atom->kind == ATOM_DIV &&
          (bigint_is(d->terms[i].coef, 1) || bigint_is(d->terms[i].coef, -1)))
        found = &d->terms[i];
    }
    if (!found)
      return d;
    Atom *q = found->mono->powers[0].atom;
    Dim *num = q->args[0], *den = q->args[1], *one = dim_int(cx, 1);
    if (bigint_is(found->coef, 1))
      d = dim_add(cx, num, dim_mul(cx, den, dim_sub(cx, d, q->dim)));
    else
      d = dim_sub(cx,
                  dim_mul(cx, den, dim_add(cx, dim_add(cx, d, q->dim), one)),
                  dim_add(cx, num, one));
  }
  return tighten_ge(cx, d);
}

/* Splits rest + min(a, b) >= 0 or rest - max(a, b) >= 0. */
static uint32_t min_max_conjuncts(DimCtx *cx, Dim *d,
                                  Dim *out[DIM_MAX_FACTORS]) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Term *term = &d->terms[i];
    const Atom *atom =
        term->mono->degree == 1 ? term->mono->powers[0].atom : NULL;
    AtomKind kind = bigint_sign(term->coef) > 0 ? ATOM_MIN : ATOM_MAX;
    if (!atom || atom->kind != kind || atom->arg_count > DIM_MAX_FACTORS)
      continue;
    Dim *rest = dim_sub(cx, d, dim_of_term(cx, term->coef, term->mono));
    for (uint32_t j = 0; j < atom->arg_count; j++)
      out[j] = dim_add(cx, rest, dim_scale(cx, atom->args[j], term->coef));
    return atom->arg_count;
  }
  return 1;
}

/* A product of non-negative factors is at least 1 iff each factor is. */
static uint32_t product_conjuncts(DimCtx *cx, Dim *d,
                                  bool (*nonneg)(void *, Dim *), void *arg,
                                  Dim *out[DIM_MAX_FACTORS]) {
  Dim *one = dim_int(cx, 1);
  if (d->term_count != 2 || d->terms[0].mono->degree < 2 ||
      !bigint_is(d->terms[0].coef, 1) || !bigint_is(dim_constant_term(d), -1))
    return 1;
  const Monomial *mono = d->terms[0].mono;
  for (uint32_t i = 0; i < mono->power_count; i++) {
    Atom *atom = mono->powers[i].atom;
    if ((!dim_atom_nonneg(atom) && !nonneg(arg, atom->dim)) ||
        i == DIM_MAX_FACTORS)
      return 1;
  }
  for (uint32_t i = 0; i < mono->power_count; i++)
    out[i] = dim_sub(cx, mono->powers[i].atom->dim, one);
  return mono->power_count;
}

uint32_t dim_ge_conjuncts(DimCtx *cx, Dim *d, bool (*nonneg)(void *, Dim *),
                          void *arg, Dim *out[DIM_MAX_FACTORS]) {
  out[0] = d;
  uint32_t count = product_conjuncts(cx, d, nonneg, arg, out);
  return count > 1 || out[0] != d ? count : min_max_conjuncts(cx, d, out);
}

bool dim_share_monomial(const Dim *a, const Dim *b) {
  for (uint32_t i = 0; i < a->term_count; i++)
    if (bigint_sign(dim_coef_of(b, a->terms[i].mono)))
      return true;
  return false;
}
