/* Factors polynomials.  Sizes multiply where axes are flattened, and the normal
 * form, a sum, hides that.  Main entry points: dim_factor,
 * dim_exact_divisions.
 *
 * A polynomial q*x + r that is linear in x factors as gcd(q, r) times a part
 * that does not factor.  The factors of q, which has fewer variables, are tried
 * on r. */
#include "internal.h"

enum { MAX_FACTORED_TERMS = 64 };

typedef struct FactorList {
  DimCtx *cx;
  Dim **at;
  uint32_t count;
} FactorList;

/* The largest power of an atom in any term. */
static uint32_t degree_in(const Dim *d, const Atom *atom) {
  uint32_t max = 0;
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++)
      if (d->terms[i].mono->powers[j].atom == atom &&
          d->terms[i].mono->powers[j].exp > max)
        max = d->terms[i].mono->powers[j].exp;
  return max;
}

/* Prefers a quotient to a variable, since the rest usually results from it. */
static Atom *linear_atom(const Dim *d) {
  Atom *found = NULL;
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      Atom *atom = d->terms[i].mono->powers[j].atom;
      bool better =
          !found || (found->kind != ATOM_DIV && atom->kind == ATOM_DIV);
      if (better && degree_in(d, atom) == 1)
        found = atom;
    }
  return found;
}

/* The coefficient of an atom in a linear sum that contains it. */
static BigInt linear_coef(const Dim *d, const Atom *atom) {
  uint32_t i = 0;
  while (d->terms[i].mono->powers[0].atom != atom)
    i++;
  return d->terms[i].coef;
}

/* d == q*atom + r */
static void split_by_atom(DimCtx *cx, Dim *d, const Atom *atom, Dim **q,
                          Dim **r) {
  Dim *with = dim_int(cx, 0);
  for (uint32_t i = 0; i < d->term_count; i++) {
    Dim *term = dim_of_term(cx, d->terms[i].coef, d->terms[i].mono);
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++)
      if (d->terms[i].mono->powers[j].atom == atom)
        with = dim_add(cx, with, term);
  }
  *q = dim_exact_quotient(cx, with, atom->dim);
  *r = dim_sub(cx, d, with);
}

bool dim_split_linear(DimCtx *cx, Dim *d, DimVar *v, Dim **slope, Dim **rest) {
  const Atom *atom = dim_of_var(cx, v)->terms[0].mono->powers[0].atom;
  if (degree_in(d, atom) > 1)
    return false;
  split_by_atom(cx, d, atom, slope, rest);
  return !dim_mentions(cx, *slope, v) && !dim_mentions(cx, *rest, v);
}

bool dim_has_divisor(const Dim *d, const Dim *divisor) {
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      const Atom *atom = d->terms[i].mono->powers[j].atom;
      if (atom->kind == ATOM_DIV && dim_equal(atom->args[1], divisor))
        return true;
      for (uint32_t k = 0; k < atom->arg_count; k++)
        if (dim_has_divisor(atom->args[k], divisor))
          return true;
    }
  return false;
}

/* True if d or -d is num - den*q. */
static bool is_remainder_of(DimCtx *cx, Dim *d, Dim *num, Dim *den,
                            const Atom *q) {
  Dim *mod = dim_sub(cx, num, dim_mul(cx, den, q->dim));
  return dim_equal_up_to_sign(cx, d, mod);
}

/* Returns x/b if d contains it and the atom x/(b*c), which equals (x/b)/c.
   Otherwise NULL. */
static Dim *coarser_quotient(DimCtx *cx, const Dim *d, const Atom *atom) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    const Atom *q = mono->degree == 1 ? mono->powers[0].atom : NULL;
    if (q && q != atom && q->kind == ATOM_DIV &&
        dim_equal(q->args[0], atom->args[0]) &&
        dim_exact_quotient(cx, atom->args[1], q->args[1]))
      return q->dim;
  }
  return NULL;
}

bool dim_is_remainder(DimCtx *cx, Dim *d, Dim **num, Dim **den) {
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      const Atom *atom = d->terms[i].mono->powers[j].atom;
      if (atom->kind != ATOM_DIV)
        continue;
      *num = atom->args[0], *den = atom->args[1];
      if (is_remainder_of(cx, d, *num, *den, atom))
        return true;
      Dim *less = coarser_quotient(cx, d, atom);
      if (!less)
        continue;
      *num = less;
      *den = dim_exact_quotient(cx, *den,
                                less->terms[0].mono->powers[0].atom->args[1]);
      if (*den && is_remainder_of(cx, d, *num, *den, atom))
        return true;
    }
  return false;
}

/* Finds a quotient that occurs in *b together with its divisor and whose
   dividend occurs in *a.  Removes both. */
static bool match_exact_division(DimCtx *cx, Dim **a, Dim **b,
                                 FloorDivision *out) {
  for (uint32_t i = 0; (*b)->term_count && i < (*b)->terms[0].mono->power_count;
       i++) {
    const Atom *atom = (*b)->terms[0].mono->powers[i].atom;
    if (atom->kind != ATOM_DIV)
      continue;
    *out = (FloorDivision){.num = atom->args[0], .den = atom->args[1]};
    Dim *x = dim_exact_quotient(cx, *a, out->num);
    Dim *y = dim_exact_quotient(cx, *b, dim_mul(cx, out->den, atom->dim));
    if (!x || !y)
      continue;
    *a = x, *b = y;
    return true;
  }
  return false;
}

/* A sum of products of sizes is 0 only if some sizes are 0. */
static bool is_nonneg_sum(DimCtx *cx, const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++)
    if (bigint_sign(d->terms[i].coef) < 0 ||
        !dim_is_cancellable_factor(
            cx, dim_of_term(cx, d->terms[i].coef, d->terms[i].mono)))
      return false;
  return d->term_count;
}

bool dim_vanishes_only_at_zero(const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    bool sizes =
        mono->power_count && bigint_sign(d->terms[i].coef) == dim_sign(d);
    for (uint32_t j = 0; j < mono->power_count && sizes; j++) {
      const Atom *atom = mono->powers[j].atom;
      sizes =
          atom->kind == ATOM_PROD ||
          (atom->kind == ATOM_VAR && dim_atom_nonneg(atom) &&
           atom->var->kind != DV_EXISTENTIAL && atom->var->kind != DV_INDEX);
    }
    if (!sizes)
      return false;
  }
  return d->term_count;
}

uint32_t dim_exact_divisions(DimCtx *cx, Dim *a, Dim *b,
                             FloorDivision out[DIM_MAX_FACTORS]) {
  uint32_t n = 0;
  while (n < DIM_MAX_FACTORS && match_exact_division(cx, &a, &b, &out[n]) &&
         is_nonneg_sum(cx, out[n].num))
    n++;
  return dim_equal(a, b) && is_nonneg_sum(cx, a) ? n : 0;
}

/* Replaces a product in d by an equal term. */
static Dim *replace_product(DimCtx *cx, Dim *d, Dim *product,
                            Dim *replacement) {
  const Monomial *mono = product->terms[0].mono;
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (!degree_in(d, mono->powers[i].atom))
      return d;
  for (uint32_t i = 0, steps = 0;
       i < d->term_count && steps < DIM_MAX_FACTORS;) {
    Dim *term = dim_of_term(cx, d->terms[i].coef, d->terms[i].mono);
    Dim *rest = dim_exact_quotient(cx, term, product);
    if (!rest) {
      i++;
      continue;
    }
    d = dim_add(cx, dim_sub(cx, d, term), dim_mul(cx, rest, replacement));
    i = 0, steps++;
  }
  return d;
}

static bool has_division(const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++)
      if (d->terms[i].mono->powers[j].atom->kind == ATOM_DIV)
        return true;
  return false;
}

Dim *dim_cancel_exact_division(DimCtx *cx, Dim *d, Dim *num, Dim *den) {
  if (!has_division(d))
    return d;
  Dim *product = dim_mul(cx, den, dim_div(cx, num, den));
  if (product->term_count != 1 || dim_equal(product, num))
    return d;
  return replace_product(cx, d, product, num);
}

Dim *dim_reduce_modulo(DimCtx *cx, Dim *d, Dim *eq, uint32_t n) {
  if (n >= eq->term_count)
    return NULL;
  const Term *term = &eq->terms[n];
  if (term->mono->degree < 2 ||
      (!bigint_is(term->coef, 1) && !bigint_is(term->coef, -1)))
    return d;
  Dim *product = dim_of_term(cx, bigint_of(1), term->mono);
  Dim *replacement = bigint_is(term->coef, 1) ? dim_sub(cx, product, eq)
                                              : dim_add(cx, product, eq);
  return replace_product(cx, d, product, replacement);
}

bool dim_as_quotient(const Dim *d, Dim **num, Dim **den) {
  if (d->term_count != 1 || d->terms[0].mono->degree != 1 ||
      !bigint_is(d->terms[0].coef, 1) ||
      d->terms[0].mono->powers[0].atom->kind != ATOM_DIV)
    return false;
  const Atom *atom = d->terms[0].mono->powers[0].atom;
  *num = atom->args[0], *den = atom->args[1];
  return true;
}

Dim *dim_eliminate_exact_division(DimCtx *cx, Dim *d, Dim *num, Dim *den) {
  enum { MAX_POWERS = 3 };
  if (!has_division(d))
    return d;
  Dim *q = dim_div(cx, num, den), *out = d, *n, *m;
  if (!dim_as_quotient(q, &n, &m))
    return d;
  const Atom *atom = q->terms[0].mono->powers[0].atom;
  out = dim_cancel_exact_division(cx, out, num, den);
  for (int i = 0; i < MAX_POWERS && degree_in(out, atom); i++)
    out = dim_cancel_exact_division(cx, dim_mul(cx, out, den), num, den);
  return degree_in(out, atom) ? d : out;
}

bool dim_split_division(DimCtx *cx, Dim *d, DimVar *v, FloorDivision *out) {
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      const Atom *atom = d->terms[i].mono->powers[j].atom;
      if (atom->kind != ATOM_DIV || degree_in(d, atom) != 1 ||
          !dim_mentions(cx, atom->dim, v))
        continue;
      *out = (FloorDivision){.num = atom->args[0], .den = atom->args[1]};
      split_by_atom(cx, d, atom, &out->coef, &out->rest);
      return true;
    }
  return false;
}

static void add_factor(FactorList *f, Dim *d) {
  int64_t one;
  if (dim_is_int(d, &one) && one == 1)
    return;
  if (f->count < DIM_MAX_FACTORS)
    f->at[f->count++] = d;
  else
    f->at[f->count - 1] = dim_mul(f->cx, f->at[f->count - 1], d);
}

static void factor_term(FactorList *f, const Term *term) {
  add_factor(f, dim_of_bigint(f->cx, term->coef));
  for (uint32_t i = 0; i < term->mono->power_count; i++)
    for (uint32_t e = 0; e < term->mono->powers[i].exp; e++)
      add_factor(f, term->mono->powers[i].atom->dim);
}

static void factor_into(FactorList *f, Dim *d) {
  DimCtx *cx = f->cx;
  if (d->term_count == 1) {
    factor_term(f, &d->terms[0]);
    return;
  }
  BigInt replacement = bigint_of(0);
  for (uint32_t i = 0; i < d->term_count; i++)
    replacement = bigint_gcd(cx, replacement, d->terms[i].coef);
  if (bigint_cmp(replacement, bigint_of(1)) > 0) {
    add_factor(f, dim_of_bigint(cx, replacement));
    d = dim_exact_quotient(cx, d, dim_of_bigint(cx, replacement));
  }
  Atom *atom = d->term_count > 1 && d->term_count <= MAX_FACTORED_TERMS
                   ? linear_atom(d)
                   : NULL;
  if (!atom) {
    add_factor(f, d);
    return;
  }
  if (dim_is_linear(d)) { /* no constant divides it: it does not factor */
    bool negative = bigint_sign(linear_coef(d, atom)) < 0;
    if (negative)
      add_factor(f, dim_int(cx, -1));
    add_factor(f, negative ? dim_neg(cx, d) : d);
    return;
  }
  Dim *q, *r, *at[DIM_MAX_FACTORS];
  split_by_atom(cx, d, atom, &q, &r);
  FactorList of_q = {cx, at, 0};
  factor_into(&of_q, q);
  for (uint32_t i = 0; i < of_q.count; i++) {
    Dim *less = dim_exact_quotient(cx, r, at[i]);
    if (!less)
      continue;
    add_factor(f, at[i]);
    r = less;
    q = dim_exact_quotient(cx, q, at[i]);
  }
  Dim *last = dim_add(cx, dim_mul(cx, q, atom->dim), r);
  if (dim_is_const(q) && dim_sign(q) < 0) {
    add_factor(f, dim_int(cx, -1));
    last = dim_neg(cx, last);
  }
  add_factor(f, last);
}

uint32_t dim_factor(DimCtx *cx, Dim *d, Dim *out[DIM_MAX_FACTORS]) {
  FactorList f = {cx, out, 0};
  factor_into(&f, d);
  if (!f.count)
    out[f.count++] = d;
  return f.count;
}
