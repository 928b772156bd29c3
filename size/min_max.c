/* Minimum and maximum of sizes, in normal form. */
#include "internal.h"
#include "support/arena.h"

#include <stdlib.h>

enum { MAX_FLATTENED_ARGS = 16 };

typedef struct MinMaxArgs {
  AtomKind kind;
  uint32_t count;
  Dim *at[DIM_MAX_ARGS];
} MinMaxArgs;

/* Adds d unless an existing argument makes it redundant.  Drops arguments that
   d makes redundant. */
static void min_max_add(DimCtx *cx, MinMaxArgs *args, Dim *d) {
  bool min = args->kind == ATOM_MIN;
  uint32_t n = 0;
  for (uint32_t i = 0; i < args->count; i++) {
    Dim *above = dim_sub(cx, args->at[i], d); /* old - new */
    if (!min)
      above = dim_neg(cx, above);
    if (dim_obviously_nonneg(above) && above->term_count)
      continue; /* the new argument is at least as strong */
    if (dim_obviously_nonneg(dim_neg(cx, above)))
      return; /* nothing was dropped, since the comparison is transitive */
    args->at[n++] = args->at[i];
  }
  args->count = n;
  if (n == DIM_MAX_ARGS)
    dim_limit_exceeded(cx);
  args->at[args->count++] = d;
}

/* A term of d that is an atom of this kind times a positive constant. */
static const Term *nested_min_max(const Dim *d, AtomKind kind) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    if (mono->degree == 1 && mono->powers[0].atom->kind == kind &&
        bigint_sign(d->terms[i].coef) > 0)
      return &d->terms[i];
  }
  return NULL;
}

/* Distributes addition and scaling: min(n, m) + 1 becomes min(n + 1, m + 1),
   and 2*min(n, m) becomes min(2*n, 2*m).  Adds the resulting arguments; with
   several such atoms one argument per combination, up to a limit. */
static void min_max_flatten(DimCtx *cx, MinMaxArgs *args, Dim *d) {
  const Term *found = nested_min_max(d, args->kind);
  if (!found || args->count > MAX_FLATTENED_ARGS) {
    min_max_add(cx, args, d);
    return;
  }
  Dim *rest = dim_sub(cx, d, dim_of_term(cx, found->coef, found->mono));
  const Atom *atom = found->mono->powers[0].atom;
  for (uint32_t i = 0; i < atom->arg_count; i++)
    min_max_flatten(
        cx, args, dim_add(cx, dim_scale(cx, atom->args[i], found->coef), rest));
}

/* For each monomial the smaller coefficient; an absent one is 0. */
static Dim *coefwise_min(DimCtx *cx, const Dim *a, const Dim *b) {
  Term *out = dim_term_buffer(cx, a->term_count + b->term_count);
  uint32_t n = 0, i = 0, j = 0;
  while (i < a->term_count || j < b->term_count) {
    int order = i == a->term_count ? 1
                : j == b->term_count
                    ? -1
                    : dim_monomial_cmp(a->terms[i].mono, b->terms[j].mono);
    Term x = order <= 0 ? a->terms[i] : (Term){bigint_of(0), b->terms[j].mono};
    BigInt y = order >= 0 ? b->terms[j].coef : bigint_of(0);
    if (bigint_cmp(y, x.coef) < 0)
      x.coef = y;
    if (bigint_sign(x.coef))
      out[n++] = x;
    i += order <= 0;
    j += order >= 0;
  }
  return dim_of_terms(cx, out, n);
}

static int arg_cmp(const void *a, const void *b) {
  return dim_canonical_cmp(*(Dim *const *)a, *(Dim *const *)b);
}

/* Extracts what all arguments have in common: an added term and a positive
   constant factor. */
static void min_max_extract_common(DimCtx *cx, MinMaxArgs *args, Dim **shift,
                                   BigInt *by) {
  *shift = args->at[0];
  for (uint32_t i = 1; i < args->count; i++)
    *shift = coefwise_min(cx, *shift, args->at[i]);
  *by = bigint_of(0);
  for (uint32_t i = 0; i < args->count; i++) {
    args->at[i] = dim_sub(cx, args->at[i], *shift);
    *by = dim_coefficient_gcd(cx, args->at[i], *by, true);
  }
  for (uint32_t i = 0; i < args->count; i++)
    args->at[i] =
        dim_divide_out(cx, args->at[i], *by, dim_atom_table(cx)->unit_monomial);
}

static Dim *min_max_of(DimCtx *cx, AtomKind kind, Dim *const *at,
                       uint32_t count) {
  MinMaxArgs *args = NEW(cx->arena, MinMaxArgs);
  args->kind = kind;
  for (uint32_t i = 0; i < count; i++)
    min_max_flatten(cx, args, at[i]);
  if (args->count == 1)
    return args->at[0];
  Dim *shift, *d;
  BigInt by;
  min_max_extract_common(cx, args, &shift, &by);
  /* A shift by a subtracted minimum or maximum adds it to the other arguments.
     Afterwards nothing is subtracted, so this happens once. */
  bool nested = false;
  for (uint32_t i = 0; i < args->count; i++)
    nested |=
        args->count <= MAX_FLATTENED_ARGS && nested_min_max(args->at[i], kind);
  if (nested) {
    d = min_max_of(cx, kind, args->at, args->count);
  } else {
    qsort(args->at, args->count, sizeof *args->at, arg_cmp);
    Atom key = {.kind = kind, .arg_count = args->count, .args = args->at};
    d = dim_atom_intern(cx, &key);
  }
  return dim_add(cx, dim_scale(cx, d, by), shift);
}

static Dim *min_max(DimCtx *cx, AtomKind kind, Dim *a, Dim *b) {
  Dim *both[2] = {a, b};
  return dim_equal(a, b) ? a : min_max_of(cx, kind, both, 2);
}

Dim *dim_min(DimCtx *cx, Dim *a, Dim *b) {
  return min_max(cx, ATOM_MIN, a, b);
}
Dim *dim_max(DimCtx *cx, Dim *a, Dim *b) {
  return min_max(cx, ATOM_MAX, a, b);
}
