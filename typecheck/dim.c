/* Sizes as canonical polynomials: constructors, arithmetic, floor division,
 * minimum and maximum.  Walks over them are in dimwalk.c.
 *
 * Two Dims are equal iff their term lists are: terms are sorted, atoms are
 * interned, and every operation below ends in one normal form.  The division
 * a/b is normalised by division with remainder (one divisor is a Groebner
 * basis of its ideal, so the remainder under a monomial order is unique; over
 * the integers a coefficient c leaves c mod lc(b) in [0, |lc(b)|)), then
 * common factors cancel, then nested divisions by constants merge. */
#include "diminternal.h"

#include <stdlib.h>
#include <string.h>

enum { INTS_FROM = -16, INTS_TO = 255, LOCAL_TERMS = 12, FLATTEN_MOST = 16 };

void dim_too_big(DimCtx *cx) {
  if (cx->too_big)
    cx->too_big(cx->owner);
  trap_raise(FAIL_LIMIT);
}

static uint32_t mix(uint32_t h, uint32_t x) {
  h = (h ^ x) * 0x9E3779B1u;
  return h ^ h >> 15;
}

/* ---- monomials ---- */

static Mono *mono_new(DimCtx *cx, uint32_t most) {
  return arena_alloc(cx->arena, sizeof(Mono) + most * sizeof(Power));
}

int dim_mono_cmp(const Mono *a, const Mono *b) {
  if (a == b)
    return 0;
  if (a->degree != b->degree)
    return a->degree > b->degree ? -1 : 1;
  for (uint32_t i = 0; i < a->count && i < b->count; i++) {
    const Power *p = &a->at[i], *q = &b->at[i];
    if (p->atom != q->atom)
      return p->atom->key < q->atom->key ? -1 : 1;
    if (p->exp != q->exp)
      return p->exp > q->exp ? -1 : 1;
  }
  return 0; /* of one degree, neither can be a proper prefix */
}

static const Mono *mono_mul(DimCtx *cx, const Mono *a, const Mono *b) {
  if (!a->count)
    return b;
  if (!b->count)
    return a;
  Mono *out = mono_new(cx, a->count + b->count);
  uint32_t i = 0, j = 0;
  while (i < a->count || j < b->count) {
    Power *p = &out->at[out->count++];
    if (j == b->count ||
        (i < a->count && a->at[i].atom->key < b->at[j].atom->key)) {
      *p = a->at[i++];
    } else if (i == a->count || a->at[i].atom != b->at[j].atom) {
      *p = b->at[j++];
    } else {
      *p = (Power){a->at[i].atom, a->at[i].exp + b->at[j].exp};
      i++, j++;
    }
    if (p->exp > DIM_MAX_EXPONENT)
      dim_too_big(cx);
  }
  out->degree = a->degree + b->degree;
  return out;
}

/* a / b, or NULL. */
static const Mono *mono_quotient(DimCtx *cx, const Mono *a, const Mono *b) {
  if (!b->count)
    return a;
  if (a->degree < b->degree)
    return NULL;
  uint32_t j = 0;
  for (uint32_t i = 0; i < a->count && j < b->count; i++)
    if (a->at[i].atom == b->at[j].atom && a->at[i].exp >= b->at[j].exp)
      j++;
  if (j < b->count)
    return NULL;
  Mono *out = mono_new(cx, a->count);
  j = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t exp = a->at[i].exp;
    if (j < b->count && a->at[i].atom == b->at[j].atom)
      exp -= b->at[j++].exp;
    if (exp)
      out->at[out->count++] = (Power){a->at[i].atom, exp};
  }
  out->degree = a->degree - b->degree;
  return out;
}

static const Mono *mono_gcd(DimCtx *cx, const Mono *a, const Mono *b) {
  if (!a->count || !b->count)
    return cx->atoms->unit;
  Mono *out = mono_new(cx, a->count);
  for (uint32_t i = 0, j = 0; i < a->count && j < b->count;) {
    if (a->at[i].atom == b->at[j].atom) {
      Power p = {a->at[i].atom, a->at[i].exp < b->at[j].exp ? a->at[i].exp
                                                            : b->at[j].exp};
      out->at[out->count++] = p;
      out->degree += p.exp;
      i++, j++;
    } else if (a->at[i].atom->key < b->at[j].atom->key) {
      i++;
    } else {
      j++;
    }
  }
  return out;
}

/* ---- term lists ---- */

uint32_t dim_mono_hash(const Mono *mono) {
  uint32_t h = mono->degree;
  for (uint32_t i = 0; i < mono->count; i++)
    h = mix(mix(h, mono->at[i].atom->hash), mono->at[i].exp);
  return h;
}

static uint32_t capped(uint64_t n) {
  return n > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)n;
}

static void measure(Dim *d) {
  uint64_t weight = 0;
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    weight += 1 + d->at[i].coef.len / 4;
    for (uint32_t j = 0; j < mono->count; j++) {
      const Atom *atom = mono->at[j].atom;
      weight += (uint64_t)atom->weight * mono->at[j].exp;
      d->has_meta |= atom->has_meta;
      d->has_soft |= atom->has_soft;
      if (atom->depth > d->depth)
        d->depth = atom->depth;
    }
    d->hash = mix(mix(d->hash, num_hash(d->at[i].coef)), dim_mono_hash(mono));
  }
  d->weight = capped(weight);
}

static Dim *dim_fresh(DimCtx *cx, const Term *at, uint32_t count) {
  if (count > DIM_MAX_TERMS)
    dim_too_big(cx);
  Dim *d = arena_alloc(cx->arena, sizeof(Dim) + count * sizeof(Term));
  d->count = count;
  if (count)
    memcpy(d->at, at, count * sizeof(Term));
  measure(d);
  if (d->weight > DIM_MAX_WEIGHT)
    dim_too_big(cx);
  return d;
}

Dim *dim_make(DimCtx *cx, const Term *at, uint32_t count) {
  if (!count)
    return dim_atoms(cx)->zero;
  if (count == 1 && !at->coef.limbs) {
    if (!at->mono->count)
      return dim_int(cx, at->coef.small);
    if (at->mono->degree == 1 && at->coef.small == 1)
      return at->mono->at[0].atom->dim;
  }
  return dim_fresh(cx, at, count);
}

struct DimAtoms *dim_atoms(DimCtx *cx) {
  if (cx->atoms)
    return cx->atoms;
  struct DimAtoms *atoms = NEW(cx->arena, struct DimAtoms);
  atoms->cap = 64;
  atoms->slots = NEW_ARRAY(cx->arena, Atom *, atoms->cap);
  atoms->unit = mono_new(cx, 0);
  atoms->zero = dim_fresh(cx, NULL, 0);
  cx->atoms = atoms;
  return atoms;
}

Dim *dim_of_num(DimCtx *cx, Num n) {
  struct DimAtoms *atoms = dim_atoms(cx);
  if (num_is(n, 0))
    return atoms->zero;
  bool cached = !n.limbs && n.small >= INTS_FROM && n.small <= INTS_TO;
  if (cached && atoms->ints[n.small - INTS_FROM])
    return atoms->ints[n.small - INTS_FROM];
  Term term = {n, atoms->unit};
  Dim *d = dim_fresh(cx, &term, 1);
  if (cached)
    atoms->ints[n.small - INTS_FROM] = d;
  return d;
}

Dim *dim_of_term(DimCtx *cx, Num coef, const Mono *mono) {
  if (num_is(coef, 0))
    return dim_atoms(cx)->zero;
  Term term = {coef, mono};
  return dim_make(cx, &term, 1);
}

Dim *dim_int(DimCtx *cx, int64_t n) { return dim_of_num(cx, num_of(n)); }

Dim *dim_text(DimCtx *cx, const char *digits) {
  return dim_of_num(cx, num_parse(cx, digits));
}

/* ---- atoms ---- */

static bool atoms_equal(const Atom *a, const Atom *b) {
  if (a->hash != b->hash || a->kind != b->kind || a->shape != b->shape ||
      a->arg_count != b->arg_count)
    return false;
  for (uint32_t i = 0; i < a->arg_count; i++)
    if (!dim_equal(a->args[i], b->args[i]))
      return false;
  return true;
}

static Atom **atom_slot(struct DimAtoms *atoms, const Atom *key) {
  uint32_t i = key->hash & (atoms->cap - 1);
  while (atoms->slots[i] && !atoms_equal(atoms->slots[i], key))
    i = (i + 1) & (atoms->cap - 1);
  return &atoms->slots[i];
}

static void atoms_grow(DimCtx *cx, struct DimAtoms *atoms) {
  Atom **old = atoms->slots;
  uint32_t cap = atoms->cap;
  atoms->slots = NEW_ARRAY(cx->arena, Atom *, cap * 2);
  atoms->cap = cap * 2;
  for (uint32_t i = 0; i < cap; i++)
    if (old[i])
      *atom_slot(atoms, old[i]) = old[i];
}

/* Gives an atom the Dim that it is, and what is derived from operands. */
static Atom *atom_finish(DimCtx *cx, const Atom *key) {
  struct DimAtoms *atoms = dim_atoms(cx);
  Atom *atom = NEW(cx->arena, Atom);
  *atom = *key;
  atom->home = atoms;
  uint64_t weight = 1;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    const Dim *arg = atom->args[i];
    weight += arg->weight;
    atom->has_meta |= arg->has_meta;
    atom->has_soft |= arg->has_soft;
    if (arg->depth >= atom->depth)
      atom->depth = (uint16_t)(arg->depth + 1);
  }
  atom->weight = capped(weight);
  if (atom->depth > DIM_MAX_DEPTH || weight > DIM_MAX_WEIGHT)
    dim_too_big(cx);
  Mono *mono = mono_new(cx, 1);
  mono->count = mono->degree = 1;
  mono->at[0] = (Power){atom, 1};
  Term term = {num_of(1), mono};
  atom->dim = dim_fresh(cx, &term, 1);
  return atom;
}

static bool args_nonneg(const Atom *atom) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < atom->arg_count; i++)
    count += dim_obviously_nonneg(atom->args[i]);
  return atom->kind == AT_MAX ? count > 0 : count == atom->arg_count;
}

/* The one atom equal to key. */
static Dim *atom_intern(DimCtx *cx, Atom *key) {
  struct DimAtoms *atoms = dim_atoms(cx);
  key->hash = mix((uint32_t)key->kind + 7, 0);
  if (key->shape)
    key->hash = mix(key->hash, (uint32_t)((uintptr_t)key->shape >> 4));
  for (uint32_t i = 0; i < key->arg_count; i++)
    key->hash = mix(key->hash, key->args[i]->hash);
  Atom **slot = atom_slot(atoms, key);
  if (*slot)
    return (*slot)->dim;
  key->key = (uint64_t)key->kind << 40;
  key->key += key->shape && cx->shape_id ? cx->shape_id(cx->owner, key->shape)
                                         : atoms->next++;
  Dim **args = NEW_ARRAY(cx->arena, Dim *, key->arg_count + 1);
  for (uint32_t i = 0; i < key->arg_count; i++)
    args[i] = key->args[i];
  key->args = args;
  key->nonneg = key->shape || args_nonneg(key);
  Atom *atom = atom_finish(cx, key);
  *slot = atom;
  if (++atoms->len * 2 > atoms->cap)
    atoms_grow(cx, atoms);
  return atom->dim;
}

DimVar *dim_new_var(DimCtx *cx, DimVarKind kind, Sym *name, Span origin) {
  DimVar *var = NEW(cx->arena, DimVar);
  var->kind = kind;
  var->id = cx->next_id++;
  var->name = name;
  var->origin = origin;
  return var;
}

Dim *dim_of_var(DimCtx *cx, DimVar *var) {
  if (!var->self) {
    Atom key = {.kind = AT_VAR, .var = var, .key = var->id, .weight = 1};
    key.hash = mix(var->id, 0x51u);
    key.has_meta = var->kind == DV_META;
    var->self = atom_finish(cx, &key)->dim;
  }
  return var->self;
}

Dim *dim_of_prod(DimCtx *cx, ShapeVar *var) {
  Atom key = {.kind = AT_PROD, .shape = var, .has_meta = true};
  return atom_intern(cx, &key);
}

bool dim_atom_nonneg(const Atom *atom) {
  return atom->kind == AT_VAR ? !atom->var->value : atom->nonneg;
}

bool dim_mono_nonneg(const Mono *mono) {
  for (uint32_t i = 0; i < mono->count; i++)
    if (mono->at[i].exp % 2 && !dim_atom_nonneg(mono->at[i].atom))
      return false;
  return true;
}

bool dim_obviously_nonneg(const Dim *d) {
  for (uint32_t i = 0; i < d->count; i++)
    if (num_sign(d->at[i].coef) < 0 || !dim_mono_nonneg(d->at[i].mono))
      return false;
  return true;
}

/* ---- questions ---- */

bool dim_equal(const Dim *a, const Dim *b) {
  if (a == b)
    return true;
  if (a->count != b->count || a->hash != b->hash)
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (num_cmp(a->at[i].coef, b->at[i].coef) ||
        dim_mono_cmp(a->at[i].mono, b->at[i].mono))
      return false;
  return true;
}

/* A total order, for canonical lists of operands. */
static int canonical_order(const Dim *a, const Dim *b) {
  for (uint32_t i = 0; i < a->count && i < b->count; i++) {
    int order = dim_mono_cmp(a->at[i].mono, b->at[i].mono);
    if (!order)
      order = -num_cmp(a->at[i].coef, b->at[i].coef);
    if (order)
      return order;
  }
  return (a->count < b->count) - (a->count > b->count);
}

bool dim_is_const(const Dim *d) {
  return !d->count || (d->count == 1 && !d->at[0].mono->count);
}

bool dim_is_int(const Dim *d, int64_t *value) {
  if (!dim_is_const(d) || (d->count && d->at[0].coef.limbs))
    return false;
  if (value)
    *value = d->count ? d->at[0].coef.small : 0;
  return true;
}

int64_t dim_content(DimCtx *cx, const Dim *d) {
  Num g = {0};
  for (uint32_t i = 0; i < d->count; i++)
    if (d->at[i].mono->count)
      g = num_gcd(cx, g, d->at[i].coef);
  return g.limbs ? 0 : g.small;
}

bool dim_may_change(const Dim *d) { return d->has_meta; }

bool dim_is_linear(const Dim *d) {
  return !d->count || d->at[0].mono->degree <= 1;
}

int dim_sign(const Dim *d) { return d->count ? num_sign(d->at[0].coef) : 0; }

DimVar *dim_as_var(const Dim *d) {
  if (d->count != 1 || d->at[0].mono->degree != 1 || !num_is(d->at[0].coef, 1))
    return NULL;
  return d->at[0].mono->at[0].atom->var;
}

Num dim_coef(const Dim *d, const Mono *mono) {
  uint32_t low = 0, high = d->count;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    int order = dim_mono_cmp(d->at[mid].mono, mono);
    if (!order)
      return d->at[mid].coef;
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return num_of(0);
}

Num dim_constant(const Dim *d) {
  if (!d->count || d->at[d->count - 1].mono->count)
    return num_of(0);
  return d->at[d->count - 1].coef;
}

/* ---- ring operations ---- */

static Dim *div_atom(DimCtx *cx, Dim *a, Dim *b);

/* A quotient by a small constant that stands alone, or NULL. */
static const Atom *small_quotient(const Term *term, int64_t *by) {
  const Mono *m = term->mono;
  if (m->degree != 1 || m->at[0].atom->kind != AT_DIV ||
      !dim_is_int(m->at[0].atom->args[1], by) || *by < 2 || *by > 16)
    return NULL;
  return m->at[0].atom;
}

static Dim *add_scaled(DimCtx *cx, Dim *a, Dim *b, Num by);

/* The quotients (x + r)/by that stand in d, for all r below by: *k of each. */
static bool all_quotients(DimCtx *cx, const Dim *d, Dim *x, Dim *den,
                          int64_t by, const Mono **parts, Num *k) {
  for (int64_t r = 0; r < by; r++) {
    parts[r] = div_atom(cx, dim_add(cx, x, dim_int(cx, r)), den)->at[0].mono;
    Num there = dim_coef(d, parts[r]);
    if (!num_sign(there) || (r && num_sign(there) != num_sign(*k)))
      return false;
    if (!r || num_cmp(num_abs(cx, there), num_abs(cx, *k)) < 0)
      *k = there;
  }
  return true;
}

/* Hermite's identity: x/2 + (x + 1)/2 is x, and so on for other divisors. */
static Dim *join_quotients(DimCtx *cx, Dim *d) {
  enum { MOST = 16 };
  const Mono *parts[MOST];
  Num k;
  for (uint32_t i = 0; i < d->count; i++) {
    int64_t by;
    const Atom *q = small_quotient(&d->at[i], &by);
    if (!q || by > d->count)
      continue;
    Dim *num = q->args[0];
    Dim *x = dim_sub(cx, num, dim_of_num(cx, dim_constant(num)));
    if (!all_quotients(cx, d, x, q->args[1], by, parts, &k))
      continue;
    Term *out = NEW_ARRAY(cx->arena, Term, d->count);
    uint32_t n = 0;
    for (uint32_t j = 0; j < d->count; j++) {
      Term t = d->at[j];
      for (int64_t r = 0; r < by; r++)
        if (dim_mono_cmp(parts[r], t.mono) == 0)
          t.coef = num_sub(cx, t.coef, k);
      if (num_sign(t.coef))
        out[n++] = t;
    }
    return add_scaled(cx, dim_make(cx, out, n), x, k);
  }
  return d;
}

/* Of sorted terms, each monomial once. */
static Dim *make_sum(DimCtx *cx, const Term *at, uint32_t count) {
  Dim *sum = dim_make(cx, at, count);
  int64_t any;
  for (uint32_t i = 0; i < count; i++)
    if (small_quotient(&at[i], &any))
      return join_quotients(cx, sum);
  return sum;
}

/* a + by*b */
static Dim *add_scaled(DimCtx *cx, Dim *a, Dim *b, Num by) {
  Term local[LOCAL_TERMS];
  uint32_t most = a->count + b->count, n = 0, i = 0, j = 0;
  Term *out =
      most <= LOCAL_TERMS ? local : NEW_ARRAY(cx->arena, Term, most);
  while (i < a->count || j < b->count) {
    int order = i == a->count   ? 1
                : j == b->count ? -1
                                : dim_mono_cmp(a->at[i].mono, b->at[j].mono);
    if (order < 0) {
      out[n++] = a->at[i++];
      continue;
    }
    Num coef = num_mul(cx, b->at[j].coef, by);
    if (!order)
      coef = num_add(cx, a->at[i++].coef, coef);
    if (num_sign(coef))
      out[n++] = (Term){coef, b->at[j].mono};
    j++;
  }
  return make_sum(cx, out, n);
}

Dim *dim_add(DimCtx *cx, Dim *a, Dim *b) {
  if (!a->count)
    return b;
  return b->count ? add_scaled(cx, a, b, num_of(1)) : a;
}

Dim *dim_sub(DimCtx *cx, Dim *a, Dim *b) {
  if (!b->count)
    return a;
  if (a == b)
    return dim_atoms(cx)->zero;
  return add_scaled(cx, a, b, num_of(-1));
}

/* d * coef * mono: keeps the order of terms. */
static Dim *mul_term(DimCtx *cx, Dim *d, Num coef, const Mono *mono) {
  if (num_is(coef, 1) && !mono->count)
    return d;
  if (!num_sign(coef))
    return dim_atoms(cx)->zero;
  Term local[LOCAL_TERMS];
  Term *out = d->count <= LOCAL_TERMS ? local
                                      : NEW_ARRAY(cx->arena, Term, d->count);
  for (uint32_t i = 0; i < d->count; i++)
    out[i] = (Term){num_mul(cx, d->at[i].coef, coef),
                    mono_mul(cx, d->at[i].mono, mono)};
  return dim_make(cx, out, d->count);
}

Dim *dim_scale(DimCtx *cx, Dim *d, Num by) {
  return mul_term(cx, d, by, dim_atoms(cx)->unit);
}

Dim *dim_neg(DimCtx *cx, Dim *a) { return dim_scale(cx, a, num_of(-1)); }

static int term_order(const void *a, const void *b) {
  return dim_mono_cmp(((const Term *)a)->mono, ((const Term *)b)->mono);
}

Dim *dim_collect(DimCtx *cx, Term *at, uint32_t count) {
  uint32_t n = 1;
  while (n < count && dim_mono_cmp(at[n - 1].mono, at[n].mono) < 0)
    n++;
  if (n < count)
    qsort(at, count, sizeof *at, term_order);
  n = 0;
  for (uint32_t i = 0; i < count;) {
    Term sum = at[i++];
    for (; i < count && !dim_mono_cmp(at[i].mono, sum.mono); i++)
      sum.coef = num_add(cx, sum.coef, at[i].coef);
    if (num_sign(sum.coef))
      at[n++] = sum;
  }
  return make_sum(cx, at, n);
}

Dim *dim_mul(DimCtx *cx, Dim *a, Dim *b) {
  if (!a->count || !b->count)
    return dim_atoms(cx)->zero;
  if (b->count == 1)
    return mul_term(cx, a, b->at[0].coef, b->at[0].mono);
  if (a->count == 1)
    return mul_term(cx, b, a->at[0].coef, a->at[0].mono);
  uint64_t count = (uint64_t)a->count * b->count;
  if (count > DIM_MAX_PRODUCTS)
    dim_too_big(cx);
  Term *out = NEW_ARRAY(cx->arena, Term, count);
  for (uint32_t i = 0; i < a->count; i++)
    for (uint32_t j = 0; j < b->count; j++)
      out[i * b->count + j] =
          (Term){num_mul(cx, a->at[i].coef, b->at[j].coef),
                 mono_mul(cx, a->at[i].mono, b->at[j].mono)};
  return dim_collect(cx, out, (uint32_t)count);
}

/* ---- floor division ---- */

/* The greatest common divisor of coefficients, of constants too if asked. */
static Num content(DimCtx *cx, const Dim *d, Num g, bool constants) {
  for (uint32_t i = 0; i < d->count && !num_is(g, 1); i++)
    if (constants || d->at[i].mono->count)
      g = num_gcd(cx, g, d->at[i].coef);
  return g;
}

/* The monomial common to all terms. */
static const Mono *common_mono(DimCtx *cx, const Dim *d, const Mono *with) {
  for (uint32_t i = 0; i < d->count; i++)
    with = with ? mono_gcd(cx, with, d->at[i].mono) : d->at[i].mono;
  return with ? with : dim_atoms(cx)->unit;
}

/* The factors of mono that are sizes, so not negative. */
static const Mono *size_factors(DimCtx *cx, const Mono *mono) {
  Mono *out = mono_new(cx, mono->count);
  for (uint32_t i = 0; i < mono->count; i++)
    if (dim_atom_nonneg(mono->at[i].atom)) {
      out->at[out->count++] = mono->at[i];
      out->degree += mono->at[i].exp;
    }
  return out;
}

/* Each coefficient / by rounded down (only a constant term can be inexact),
 * each monomial / mono exactly. */
static Dim *divide_out(DimCtx *cx, Dim *d, Num by, const Mono *mono) {
  Term *out = NEW_ARRAY(cx->arena, Term, d->count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->count; i++) {
    Num q, r;
    num_divide(cx, d->at[i].coef, by, &q, &r);
    if (num_sign(q))
      out[n++] = (Term){q, mono_quotient(cx, d->at[i].mono, mono)};
  }
  return dim_make(cx, out, n);
}

/* a = q*b + r with r in normal form: no term of r can be reduced by the
 * leading term of b. */
static void reduce(DimCtx *cx, Dim *a, Dim *b, Dim **q, Dim **r) {
  const Term *lead = &b->at[0];
  *q = dim_atoms(cx)->zero;
  *r = a;
  uint32_t steps = 0;
  for (uint32_t i = 0; i < (*r)->count;) {
    const Term *term = &(*r)->at[i];
    const Mono *mono = mono_quotient(cx, term->mono, lead->mono);
    Num coef, rest;
    if (mono)
      num_divide(cx, term->coef, lead->coef, &coef, &rest);
    if (!mono || !num_sign(coef)) {
      i++;
      continue;
    }
    if (++steps > DIM_MAX_TERMS)
      dim_too_big(cx);
    Dim *part = dim_of_term(cx, coef, mono);
    *q = dim_add(cx, *q, part);
    *r = dim_sub(cx, *r, dim_mul(cx, part, b));
    i += num_sign(rest) != 0; /* smaller terms may have changed, not larger */
  }
}

Dim *dim_quotient(DimCtx *cx, Dim *a, Dim *b) {
  Dim *q, *r;
  if (!b->count)
    return NULL;
  reduce(cx, a, b, &q, &r);
  return r->count ? NULL : q;
}

static Dim *div_atom(DimCtx *cx, Dim *a, Dim *b) {
  Dim *args[2] = {a, b};
  Atom key = {.kind = AT_DIV, .arg_count = 2, .args = args};
  return atom_intern(cx, &key);
}

/* The only division in d, if it is linear with coefficient 1 and its divisor a
 * positive constant. */
static Atom *lone_division(const Dim *d) {
  Atom *found = NULL;
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    for (uint32_t j = 0; j < mono->count; j++) {
      Atom *atom = mono->at[j].atom;
      if (atom->kind != AT_DIV)
        continue;
      if (found || mono->degree != 1 || !num_is(d->at[i].coef, 1) ||
          !dim_is_const(atom->args[1]) || dim_sign(atom->args[1]) <= 0)
        return NULL;
      found = atom;
    }
  }
  return found;
}

static Dim *div_of(DimCtx *cx, Dim *a, Dim *b, bool soft) {
  Dim *d = div_atom(cx, a, b);
  if (soft) {
    Atom *atom = d->at[0].mono->at[0].atom;
    atom->soft = atom->has_soft = d->has_soft = true;
  }
  return d;
}

static Dim *divide(DimCtx *cx, Dim *a, Dim *b, bool soft);

/* r/b where r is reduced. */
static Dim *div_reduced(DimCtx *cx, Dim *r, Dim *b, bool soft) {
  const Mono *unit = dim_atoms(cx)->unit;
  Num by = content(cx, b, content(cx, r, num_of(0), false), true);
  const Mono *mono =
      size_factors(cx, common_mono(cx, b, common_mono(cx, r, NULL)));
  if (!num_is(by, 1) || mono->count) {
    /* floor((g*x + c)/(g*y)) = floor((x + floor(c/g))/y) */
    r = divide_out(cx, r, by, mono);
    return divide(cx, r, divide_out(cx, b, by, mono), soft);
  }
  Atom *inner = dim_is_const(b) ? lone_division(r) : NULL;
  if (inner) {
    /* floor((floor(x/c) + y)/b) = floor((x + c*y)/(c*b)) for c, b >= 1 */
    Num c = inner->args[1]->at[0].coef;
    Dim *rest = dim_scale(cx, dim_sub(cx, r, inner->dim), c);
    return divide(cx, dim_add(cx, inner->args[0], rest),
                  mul_term(cx, b, c, unit), soft);
  }
  return div_of(cx, r, b, soft);
}

static Dim *divide(DimCtx *cx, Dim *a, Dim *b, bool soft) {
  if (dim_is_const(b) && dim_sign(b) <= 0)
    return div_of(cx, a, b, soft); /* an error that the caller finds */
  if (dim_is_const(b) && num_is(b->at[0].coef, 1))
    return a;
  Dim *q, *r;
  reduce(cx, a, b, &q, &r);
  if (!r->count || (dim_is_const(b) && dim_is_const(r)))
    return q;
  return dim_add(cx, q, div_reduced(cx, r, b, soft));
}

Dim *dim_div(DimCtx *cx, Dim *a, Dim *b) { return divide(cx, a, b, false); }

Dim *dim_div_soft(DimCtx *cx, Dim *a, Dim *b) {
  if (dim_is_const(b) && dim_sign(b) < 0)
    return dim_div(cx, dim_neg(cx, a), dim_neg(cx, b));
  return divide(cx, a, b, true);
}

bool dim_is_soft(const Dim *d) { return d->has_soft; }

Dim *dim_mod(DimCtx *cx, Dim *a, Dim *b) {
  return dim_sub(cx, a, dim_mul(cx, b, dim_div(cx, a, b)));
}

/* ---- minimum and maximum ---- */

typedef struct Args {
  AtomKind kind;
  uint32_t count;
  Dim *at[DIM_MAX_ARGS];
} Args;

/* Adds d unless an argument makes it useless; drops those that it makes so. */
static void args_add(DimCtx *cx, Args *args, Dim *d) {
  bool min = args->kind == AT_MIN;
  uint32_t n = 0;
  for (uint32_t i = 0; i < args->count; i++) {
    Dim *above = dim_sub(cx, args->at[i], d); /* old - new */
    if (!min)
      above = dim_neg(cx, above);
    if (dim_obviously_nonneg(above) && above->count)
      continue; /* the new one decides */
    if (dim_obviously_nonneg(dim_neg(cx, above)))
      return; /* none was dropped: obviousness is transitive */
    args->at[n++] = args->at[i];
  }
  args->count = n;
  if (n == DIM_MAX_ARGS)
    dim_too_big(cx);
  args->at[args->count++] = d;
}

/* A term of d that is an atom of the kind times a positive constant. */
static const Term *inner_choice(const Dim *d, AtomKind kind) {
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    if (mono->degree == 1 && mono->at[0].atom->kind == kind &&
        num_sign(d->at[i].coef) > 0)
      return &d->at[i];
  }
  return NULL;
}

/* min(n, m) + 1 is min(n + 1, m + 1), 2*min(n, m) is min(2*n, 2*m): adds the
 * arguments of d where it is such a sum; one for each choice if there are
 * several, unless that gets out of hand. */
static void args_flatten(DimCtx *cx, Args *args, Dim *d) {
  const Term *found = inner_choice(d, args->kind);
  if (!found || args->count > FLATTEN_MOST) {
    args_add(cx, args, d);
    return;
  }
  Dim *rest = dim_sub(cx, d, dim_of_term(cx, found->coef, found->mono));
  const Atom *atom = found->mono->at[0].atom;
  for (uint32_t i = 0; i < atom->arg_count; i++)
    args_flatten(cx, args,
                 dim_add(cx, dim_scale(cx, atom->args[i], found->coef), rest));
}

/* For each monomial the smaller coefficient, an absent one being 0. */
static Dim *least_terms(DimCtx *cx, const Dim *a, const Dim *b) {
  Term *out = NEW_ARRAY(cx->arena, Term, a->count + b->count);
  uint32_t n = 0, i = 0, j = 0;
  while (i < a->count || j < b->count) {
    int order = i == a->count   ? 1
                : j == b->count ? -1
                                : dim_mono_cmp(a->at[i].mono, b->at[j].mono);
    Term x = order <= 0 ? a->at[i] : (Term){num_of(0), b->at[j].mono};
    Num y = order >= 0 ? b->at[j].coef : num_of(0);
    if (num_cmp(y, x.coef) < 0)
      x.coef = y;
    if (num_sign(x.coef))
      out[n++] = x;
    i += order <= 0;
    j += order >= 0;
  }
  return dim_make(cx, out, n);
}

static int args_order(const void *a, const void *b) {
  return canonical_order(*(Dim *const *)a, *(Dim *const *)b);
}

/* Takes out what all arguments have in common, by addition and by a positive
 * constant factor. */
static void args_shift(DimCtx *cx, Args *args, Dim **shift, Num *by) {
  *shift = args->at[0];
  for (uint32_t i = 1; i < args->count; i++)
    *shift = least_terms(cx, *shift, args->at[i]);
  *by = num_of(0);
  for (uint32_t i = 0; i < args->count; i++) {
    args->at[i] = dim_sub(cx, args->at[i], *shift);
    *by = content(cx, args->at[i], *by, true);
  }
  for (uint32_t i = 0; i < args->count; i++)
    args->at[i] = divide_out(cx, args->at[i], *by, dim_atoms(cx)->unit);
}

static Dim *choose_of(DimCtx *cx, AtomKind kind, Dim *const *at,
                      uint32_t count) {
  Args *args = NEW(cx->arena, Args);
  args->kind = kind;
  for (uint32_t i = 0; i < count; i++)
    args_flatten(cx, args, at[i]);
  if (args->count == 1)
    return args->at[0];
  Dim *shift, *d;
  Num by;
  args_shift(cx, args, &shift, &by);
  /* A shift by a subtracted choice adds it to the others.  Afterwards nothing
   * is subtracted any more, so this happens once. */
  bool nested = false;
  for (uint32_t i = 0; i < args->count; i++)
    nested |= args->count <= FLATTEN_MOST && inner_choice(args->at[i], kind);
  if (nested) {
    d = choose_of(cx, kind, args->at, args->count);
  } else {
    qsort(args->at, args->count, sizeof *args->at, args_order);
    Atom key = {.kind = kind, .arg_count = args->count, .args = args->at};
    d = atom_intern(cx, &key);
  }
  return dim_add(cx, dim_scale(cx, d, by), shift);
}

static Dim *choose(DimCtx *cx, AtomKind kind, Dim *a, Dim *b) {
  Dim *both[2] = {a, b};
  return dim_equal(a, b) ? a : choose_of(cx, kind, both, 2);
}

Dim *dim_min(DimCtx *cx, Dim *a, Dim *b) { return choose(cx, AT_MIN, a, b); }
Dim *dim_max(DimCtx *cx, Dim *a, Dim *b) { return choose(cx, AT_MAX, a, b); }

/* ---- equations ---- */

Dim *dim_common(DimCtx *cx, Dim *d) {
  if (!d->count || dim_is_const(d))
    return dim_int(cx, 1);
  const Mono *mono = dim_atoms(cx)->unit;
  if (d->count > 1) /* n*m == 0 is no contradiction */
    mono = size_factors(cx, common_mono(cx, d, NULL));
  return dim_of_term(cx, content(cx, d, num_of(0), true), mono);
}

Dim *dim_cancel(DimCtx *cx, Dim *d) {
  Dim *by = dim_common(cx, d);
  const Term *term = &by->at[0];
  return num_is(term->coef, 1) && !term->mono->count
             ? d
             : divide_out(cx, d, term->coef, term->mono);
}

bool dim_may_vanish(DimCtx *cx, Dim *d) {
  const Mono *mono = dim_common(cx, d)->at[0].mono;
  for (uint32_t i = 0; i < mono->count; i++)
    if (mono->at[i].atom->arg_count)
      return true;
  return false;
}

bool dim_cancels(DimCtx *cx, const Dim *d) {
  return d->count == 1 &&
         size_factors(cx, d->at[0].mono)->degree == d->at[0].mono->degree;
}

/* Whether term i of d is +-v for a meta v that may be solved and does not
 * occur in the others. */
static DimVar *solvable(DimCtx *cx, Dim *d, uint32_t i,
                        bool (*can)(void *, DimVar *), void *arg) {
  const Term *term = &d->at[i];
  if (term->mono->degree != 1 ||
      (!num_is(term->coef, 1) && !num_is(term->coef, -1)))
    return NULL;
  DimVar *var = term->mono->at[0].atom->var;
  if (!var || var->kind != DV_META || var->top || var->bound ||
      (can && !can(arg, var)))
    return NULL;
  Dim *rest = dim_sub(cx, d, dim_of_term(cx, term->coef, term->mono));
  return dim_mentions(cx, rest, var) ? NULL : var;
}

bool dim_solve(DimCtx *cx, Dim *d, bool (*can)(void *, DimVar *), void *arg,
               DimVar **var, Dim **value) {
  d = dim_resolve(cx, d);
  if (!d->has_meta)
    return false;
  uint32_t best = 0;
  DimVar *found = NULL;
  for (uint32_t i = 0; i < d->count; i++) {
    DimVar *one = solvable(cx, d, i, can, arg);
    if (one && (!found || one->id > found->id)) {
      found = one;
      best = i;
    }
  }
  if (!found)
    return false;
  Dim *rest = dim_sub(cx, d, dim_of_term(cx, d->at[best].coef,
                                         d->at[best].mono));
  *var = found;
  *value = num_is(d->at[best].coef, 1) ? dim_neg(cx, rest) : rest;
  return true;
}
