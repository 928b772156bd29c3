/* Products: sizes multiply where axes are flattened, and a normal form that is
 * a sum hides it.
 *
 * A polynomial q*x + r that is linear in x factors as gcd(q, r) times a part
 * that does not factor.  The factors of q, which has fewer variables, are tried
 * on r. */
#include "diminternal.h"

enum { MOST_TERMS = 64 };

typedef struct Factors {
  DimCtx *cx;
  Dim **at;
  uint32_t count;
} Factors;

/* How often an atom occurs in all terms at most. */
static uint32_t degree_in(const Dim *d, const Atom *atom) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < d->count; i++)
    for (uint32_t j = 0; j < d->at[i].mono->count; j++)
      if (d->at[i].mono->at[j].atom == atom && d->at[i].mono->at[j].exp > most)
        most = d->at[i].mono->at[j].exp;
  return most;
}

/* A quotient rather than a variable: it is what the rest was made for. */
static Atom *linear_atom(const Dim *d) {
  Atom *found = NULL;
  for (uint32_t i = 0; i < d->count; i++)
    for (uint32_t j = 0; j < d->at[i].mono->count; j++) {
      Atom *atom = d->at[i].mono->at[j].atom;
      bool better = !found || (found->kind != AT_DIV && atom->kind == AT_DIV);
      if (better && degree_in(d, atom) == 1)
        found = atom;
    }
  return found;
}

/* d == q*atom + r */
static void split(DimCtx *cx, Dim *d, const Atom *atom, Dim **q, Dim **r) {
  Dim *with = dim_int(cx, 0);
  for (uint32_t i = 0; i < d->count; i++) {
    Dim *term = dim_of_term(cx, d->at[i].coef, d->at[i].mono);
    for (uint32_t j = 0; j < d->at[i].mono->count; j++)
      if (d->at[i].mono->at[j].atom == atom)
        with = dim_add(cx, with, term);
  }
  *q = dim_quotient(cx, with, atom->dim);
  *r = dim_sub(cx, d, with);
}

bool dim_linear(DimCtx *cx, Dim *d, DimVar *v, Dim **slope, Dim **rest) {
  const Atom *atom = dim_of_var(cx, v)->at[0].mono->at[0].atom;
  if (degree_in(d, atom) > 1)
    return false;
  split(cx, d, atom, slope, rest);
  return !dim_mentions(cx, *slope, v) && !dim_mentions(cx, *rest, v);
}

bool dim_divides_by(const Dim *d, const Dim *divisor) {
  for (uint32_t i = 0; i < d->count; i++)
    for (uint32_t j = 0; j < d->at[i].mono->count; j++) {
      const Atom *atom = d->at[i].mono->at[j].atom;
      if (atom->kind == AT_DIV && dim_equal(atom->args[1], divisor))
        return true;
      for (uint32_t k = 0; k < atom->arg_count; k++)
        if (dim_divides_by(atom->args[k], divisor))
          return true;
    }
  return false;
}

/* Is d, or -d, num - den*q? */
static bool leaves(DimCtx *cx, Dim *d, Dim *num, Dim *den, const Atom *q) {
  Dim *mod = dim_sub(cx, num, dim_mul(cx, den, q->dim));
  return dim_equal(d, mod) || dim_equal(d, dim_neg(cx, mod));
}

/* x/b, where d has this and the atom x/(b*c), which is (x/b)/c; or NULL. */
static Dim *coarser(DimCtx *cx, const Dim *d, const Atom *atom) {
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    const Atom *q = mono->degree == 1 ? mono->at[0].atom : NULL;
    if (q && q != atom && q->kind == AT_DIV &&
        dim_equal(q->args[0], atom->args[0]) &&
        dim_quotient(cx, atom->args[1], q->args[1]))
      return q->dim;
  }
  return NULL;
}

bool dim_is_remainder(DimCtx *cx, Dim *d, Dim **num, Dim **den) {
  for (uint32_t i = 0; i < d->count; i++)
    for (uint32_t j = 0; j < d->at[i].mono->count; j++) {
      const Atom *atom = d->at[i].mono->at[j].atom;
      if (atom->kind != AT_DIV)
        continue;
      *num = atom->args[0], *den = atom->args[1];
      if (leaves(cx, d, *num, *den, atom))
        return true;
      Dim *less = coarser(cx, d, atom);
      if (!less)
        continue;
      *num = less;
      *den = dim_quotient(cx, *den, less->at[0].mono->at[0].atom->args[1]);
      if (*den && leaves(cx, d, *num, *den, atom))
        return true;
    }
  return false;
}

/* A quotient in *b that stands there with its divisor, and whose dividend is
 * in *a: both are taken out. */
static bool take_division(DimCtx *cx, Dim **a, Dim **b, Division *out) {
  for (uint32_t i = 0; (*b)->count && i < (*b)->at[0].mono->count; i++) {
    const Atom *atom = (*b)->at[0].mono->at[i].atom;
    if (atom->kind != AT_DIV)
      continue;
    *out = (Division){.num = atom->args[0], .den = atom->args[1]};
    Dim *x = dim_quotient(cx, *a, out->num);
    Dim *y = dim_quotient(cx, *b, dim_mul(cx, out->den, atom->dim));
    if (!x || !y)
      continue;
    *a = x, *b = y;
    return true;
  }
  return false;
}

/* A sum of products of sizes is 0 only where sizes are. */
static bool is_size(DimCtx *cx, const Dim *d) {
  for (uint32_t i = 0; i < d->count; i++)
    if (num_sign(d->at[i].coef) < 0 ||
        !dim_cancels(cx, dim_of_term(cx, d->at[i].coef, d->at[i].mono)))
      return false;
  return d->count;
}

bool dim_only_zero(const Dim *d) {
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    bool sizes = mono->count && num_sign(d->at[i].coef) == dim_sign(d);
    for (uint32_t j = 0; j < mono->count && sizes; j++) {
      const Atom *atom = mono->at[j].atom;
      sizes = atom->kind == AT_PROD ||
              (atom->kind == AT_VAR && dim_atom_nonneg(atom) &&
               atom->var->kind != DV_DATA && atom->var->kind != DV_INDEX);
    }
    if (!sizes)
      return false;
  }
  return d->count;
}

uint32_t dim_divisions(DimCtx *cx, Dim *a, Dim *b, Division out[DIM_FACTORS]) {
  uint32_t n = 0;
  while (n < DIM_FACTORS && take_division(cx, &a, &b, &out[n]) &&
         is_size(cx, out[n].num))
    n++;
  return dim_equal(a, b) && is_size(cx, a) ? n : 0;
}

/* d with a product replaced by what it is equal to. */
static Dim *put_for(DimCtx *cx, Dim *d, Dim *product, Dim *by) {
  const Mono *mono = product->at[0].mono;
  for (uint32_t i = 0; i < mono->count; i++)
    if (!degree_in(d, mono->at[i].atom))
      return d;
  for (uint32_t i = 0, steps = 0; i < d->count && steps < DIM_FACTORS;) {
    Dim *term = dim_of_term(cx, d->at[i].coef, d->at[i].mono);
    Dim *rest = dim_quotient(cx, term, product);
    if (!rest) {
      i++;
      continue;
    }
    d = dim_add(cx, dim_sub(cx, d, term), dim_mul(cx, rest, by));
    i = 0, steps++;
  }
  return d;
}

Dim *dim_rejoin(DimCtx *cx, Dim *d, Dim *num, Dim *den) {
  Dim *product = dim_mul(cx, den, dim_div(cx, num, den));
  if (product->count != 1 || dim_equal(product, num))
    return d;
  return put_for(cx, d, product, num);
}

Dim *dim_reduce_by(DimCtx *cx, Dim *d, Dim *eq, uint32_t n) {
  if (n >= eq->count)
    return NULL;
  const Term *term = &eq->at[n];
  if (term->mono->degree < 2 ||
      (!num_is(term->coef, 1) && !num_is(term->coef, -1)))
    return d;
  Dim *product = dim_of_term(cx, num_of(1), term->mono);
  Dim *by = num_is(term->coef, 1) ? dim_sub(cx, product, eq)
                                  : dim_add(cx, product, eq);
  return put_for(cx, d, product, by);
}

bool dim_as_quotient(const Dim *d, Dim **num, Dim **den) {
  if (d->count != 1 || d->at[0].mono->degree != 1 ||
      !num_is(d->at[0].coef, 1) || d->at[0].mono->at[0].atom->kind != AT_DIV)
    return false;
  const Atom *atom = d->at[0].mono->at[0].atom;
  *num = atom->args[0], *den = atom->args[1];
  return true;
}

Dim *dim_exact(DimCtx *cx, Dim *d, Dim *num, Dim *den) {
  enum { MOST_POWERS = 3 };
  Dim *q = dim_div(cx, num, den), *out = d, *n, *m;
  if (!dim_as_quotient(q, &n, &m))
    return d;
  const Atom *atom = q->at[0].mono->at[0].atom;
  out = dim_rejoin(cx, out, num, den);
  for (int i = 0; i < MOST_POWERS && degree_in(out, atom); i++)
    out = dim_rejoin(cx, dim_mul(cx, out, den), num, den);
  return degree_in(out, atom) ? d : out;
}

bool dim_division(DimCtx *cx, Dim *d, DimVar *v, Division *out) {
  for (uint32_t i = 0; i < d->count; i++)
    for (uint32_t j = 0; j < d->at[i].mono->count; j++) {
      const Atom *atom = d->at[i].mono->at[j].atom;
      if (atom->kind != AT_DIV || degree_in(d, atom) != 1 ||
          !dim_mentions(cx, atom->dim, v))
        continue;
      *out = (Division){.num = atom->args[0], .den = atom->args[1]};
      split(cx, d, atom, &out->slope, &out->rest);
      return true;
    }
  return false;
}

static void keep(Factors *f, Dim *d) {
  int64_t one;
  if (dim_is_int(d, &one) && one == 1)
    return;
  if (f->count < DIM_FACTORS)
    f->at[f->count++] = d;
  else
    f->at[f->count - 1] = dim_mul(f->cx, f->at[f->count - 1], d);
}

static void factor_term(Factors *f, const Term *term) {
  keep(f, dim_of_num(f->cx, term->coef));
  for (uint32_t i = 0; i < term->mono->count; i++)
    for (uint32_t e = 0; e < term->mono->at[i].exp; e++)
      keep(f, term->mono->at[i].atom->dim);
}

static void factor(Factors *f, Dim *d) {
  DimCtx *cx = f->cx;
  if (d->count == 1) {
    factor_term(f, &d->at[0]);
    return;
  }
  Num by = num_of(0);
  for (uint32_t i = 0; i < d->count; i++)
    by = num_gcd(cx, by, d->at[i].coef);
  if (num_cmp(by, num_of(1)) > 0) {
    keep(f, dim_of_num(cx, by));
    d = dim_quotient(cx, d, dim_of_num(cx, by));
  }
  Atom *atom = d->count > 1 && d->count <= MOST_TERMS ? linear_atom(d) : NULL;
  if (!atom) {
    keep(f, d);
    return;
  }
  Dim *q, *r, *at[DIM_FACTORS];
  split(cx, d, atom, &q, &r);
  Factors of_q = {cx, at, 0};
  factor(&of_q, q);
  for (uint32_t i = 0; i < of_q.count; i++) {
    Dim *less = dim_quotient(cx, r, at[i]);
    if (!less)
      continue;
    keep(f, at[i]);
    r = less;
    q = dim_quotient(cx, q, at[i]);
  }
  Dim *last = dim_add(cx, dim_mul(cx, q, atom->dim), r);
  if (dim_is_const(q) && dim_sign(q) < 0) {
    keep(f, dim_int(cx, -1));
    last = dim_neg(cx, last);
  }
  keep(f, last);
}

uint32_t dim_factor(DimCtx *cx, Dim *d, Dim *out[DIM_FACTORS]) {
  Factors f = {cx, out, 0};
  factor(&f, d);
  if (!f.count)
    out[f.count++] = d;
  return f.count;
}
