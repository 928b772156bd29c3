/* Sizes as canonical polynomials: constructors, arithmetic and floor division.
 * min_max.c contains minimum and maximum, substitute.c walks over sizes.
 *
 * Two Dims are equal iff their term lists are: terms are sorted, atoms are
 * interned, and every operation below produces the same normal form.  The
 * division a/b is normalized in three steps.  First, division with remainder: a
 * single divisor is a Groebner basis of its ideal, so the remainder under a
 * monomial order is unique; over the integers a coefficient c leaves c mod
 * lc(b) in [0, |lc(b)|).  Then common factors cancel.  Then nested divisions by
 * constants merge. */
#include "internal.h"
#include "support/arena.h"
#include "support/trap.h"

#include <stdlib.h>
#include <string.h>

enum {
  MIN_CACHED_INT = -16,
  MAX_CACHED_INT = 255,
  MIN_BUFFER_TERMS = 32,
};

void dim_limit_exceeded(DimCtx *cx) {
  if (cx->limit_exceeded)
    cx->limit_exceeded(cx->owner);
  trap_raise(FAIL_LIMIT);
}

static uint32_t hash_mix(uint32_t h, uint32_t x) {
  h = (h ^ x) * 0x9E3779B1u;
  return h ^ h >> 15;
}

/* ---- monomials ---- */

static Monomial *monomial_new(DimCtx *cx, uint32_t max) {
  return arena_alloc(cx->arena, sizeof(Monomial) + max * sizeof(Power));
}

/* Compares monomials of equal degree. */
int dim_monomial_cmp_long(const Monomial *a, const Monomial *b) {
  for (uint32_t i = 0; i < a->power_count && i < b->power_count; i++) {
    const Power *p = &a->powers[i], *q = &b->powers[i];
    if (p->atom != q->atom)
      return p->atom->key < q->atom->key ? -1 : 1;
    if (p->exp != q->exp)
      return p->exp > q->exp ? -1 : 1;
  }
  return 0; /* equal degrees: neither is a proper prefix of the other */
}

static const Monomial *monomial_mul(DimCtx *cx, const Monomial *a,
                                    const Monomial *b) {
  if (!a->power_count)
    return b;
  if (!b->power_count)
    return a;
  Monomial *out = monomial_new(cx, a->power_count + b->power_count);
  uint32_t i = 0, j = 0;
  while (i < a->power_count || j < b->power_count) {
    Power *p = &out->powers[out->power_count++];
    if (j == b->power_count ||
        (i < a->power_count &&
         a->powers[i].atom->key < b->powers[j].atom->key)) {
      *p = a->powers[i++];
    } else if (i == a->power_count || a->powers[i].atom != b->powers[j].atom) {
      *p = b->powers[j++];
    } else {
      *p = (Power){a->powers[i].atom, a->powers[i].exp + b->powers[j].exp};
      i++, j++;
    }
    if (p->exp > DIM_MAX_EXPONENT)
      dim_limit_exceeded(cx);
  }
  out->degree = a->degree + b->degree;
  return out;
}

/* a / b, or NULL. */
static const Monomial *monomial_quotient(DimCtx *cx, const Monomial *a,
                                         const Monomial *b) {
  if (!b->power_count)
    return a;
  if (a->degree < b->degree)
    return NULL;
  uint32_t j = 0;
  for (uint32_t i = 0; i < a->power_count && j < b->power_count; i++)
    if (a->powers[i].atom == b->powers[j].atom &&
        a->powers[i].exp >= b->powers[j].exp)
      j++;
  if (j < b->power_count)
    return NULL;
  Monomial *out = monomial_new(cx, a->power_count);
  j = 0;
  for (uint32_t i = 0; i < a->power_count; i++) {
    uint32_t exp = a->powers[i].exp;
    if (j < b->power_count && a->powers[i].atom == b->powers[j].atom)
      exp -= b->powers[j++].exp;
    if (exp)
      out->powers[out->power_count++] = (Power){a->powers[i].atom, exp};
  }
  out->degree = a->degree - b->degree;
  return out;
}

static const Monomial *monomial_gcd(DimCtx *cx, const Monomial *a,
                                    const Monomial *b) {
  if (!a->power_count || !b->power_count)
    return cx->atom_table->unit_monomial;
  Monomial *out = monomial_new(cx, a->power_count);
  for (uint32_t i = 0, j = 0; i < a->power_count && j < b->power_count;) {
    if (a->powers[i].atom == b->powers[j].atom) {
      Power p = {a->powers[i].atom, a->powers[i].exp < b->powers[j].exp
                                        ? a->powers[i].exp
                                        : b->powers[j].exp};
      out->powers[out->power_count++] = p;
      out->degree += p.exp;
      i++, j++;
    } else if (a->powers[i].atom->key < b->powers[j].atom->key) {
      i++;
    } else {
      j++;
    }
  }
  return out;
}

/* ---- term lists ---- */

Term *dim_term_buffer(DimCtx *cx, uint32_t count) {
  struct DimAtomTable *atoms = dim_atom_table(cx);
  if (count > atoms->term_buffer_cap) {
    uint32_t twice = atoms->term_buffer_cap * 2;
    uint32_t cap = twice < MIN_BUFFER_TERMS ? MIN_BUFFER_TERMS : twice;
    atoms->term_buffer_cap = cap < count ? count : cap;
    atoms->term_buffer = NEW_ARRAY(cx->arena, Term, atoms->term_buffer_cap);
  }
  return atoms->term_buffer;
}

static inline uint32_t monomial_hash(const Monomial *mono) {
  uint32_t h = 0;
  for (uint32_t i = 0; i < mono->power_count; i++)
    h += mono->powers[i].atom->hash * mono->powers[i].exp;
  return h;
}

uint32_t dim_monomial_hash(const Monomial *mono) {
  return monomial_hash(mono);
}

static uint32_t saturate_weight(uint64_t n) {
  return n > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)n;
}

static void compute_metadata(Dim *d) {
  uint64_t weight = d->term_count;
  uint32_t depth = 0;
  bool has_meta = false, has_product = false, has_unguarded = false;
  bool is_sum = true;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    weight += bigint_limb_count(d->terms[i].coef) / 4;
    is_sum &= mono->degree <= 1;
    for (uint32_t j = 0; j < mono->power_count; j++) {
      const Atom *atom = mono->powers[j].atom;
      weight += (uint64_t)atom->weight * mono->powers[j].exp;
      has_meta |= atom->has_meta;
      has_product |= atom->has_product;
      has_unguarded |= atom->has_unguarded;
      is_sum &= atom->kind == ATOM_VAR;
      depth = atom->depth > depth ? atom->depth : depth;
    }
  }
  d->weight = saturate_weight(weight);
  d->depth = (uint16_t)depth;
  d->has_meta = has_meta;
  d->has_product = has_product;
  d->has_unguarded = has_unguarded;
  d->is_sum_of_vars = is_sum;
}

static Dim *dim_alloc(DimCtx *cx, const Term *at, uint32_t count) {
  if (count > DIM_MAX_TERMS)
    dim_limit_exceeded(cx);
  Dim *d = arena_alloc(cx->arena, sizeof(Dim) + count * sizeof(Term));
  d->term_count = count;
  if (count)
    memcpy(d->terms, at, count * sizeof(Term));
  compute_metadata(d);
  if (d->weight > DIM_MAX_WEIGHT)
    dim_limit_exceeded(cx);
  return d;
}

Dim *dim_of_terms(DimCtx *cx, const Term *at, uint32_t count) {
  if (!count)
    return dim_atom_table(cx)->zero;
  if (count == 1 && !at->coef.limbs) {
    if (!at->mono->power_count)
      return dim_int(cx, at->coef.small);
    if (at->mono->degree == 1 && at->coef.small == 1)
      return at->mono->powers[0].atom->dim;
  }
  return dim_alloc(cx, at, count);
}

struct DimAtomTable *dim_atom_table(DimCtx *cx) {
  if (cx->atom_table)
    return cx->atom_table;
  struct DimAtomTable *atoms = NEW(cx->arena, struct DimAtomTable);
  atoms->cap = 64;
  atoms->slots = NEW_ARRAY(cx->arena, Atom *, atoms->cap);
  atoms->unit_monomial = monomial_new(cx, 0);
  atoms->zero = dim_alloc(cx, NULL, 0);
  cx->atom_table = atoms;
  return atoms;
}

Dim *dim_of_bigint(DimCtx *cx, BigInt n) {
  struct DimAtomTable *atoms = dim_atom_table(cx);
  if (bigint_is(n, 0))
    return atoms->zero;
  bool cached =
      !n.limbs && n.small >= MIN_CACHED_INT && n.small <= MAX_CACHED_INT;
  if (cached && atoms->cached_ints[n.small - MIN_CACHED_INT])
    return atoms->cached_ints[n.small - MIN_CACHED_INT];
  Term term = {n, atoms->unit_monomial};
  Dim *d = dim_alloc(cx, &term, 1);
  if (cached)
    atoms->cached_ints[n.small - MIN_CACHED_INT] = d;
  return d;
}

Dim *dim_of_term(DimCtx *cx, BigInt coef, const Monomial *mono) {
  if (bigint_is(coef, 0))
    return dim_atom_table(cx)->zero;
  Term term = {coef, mono};
  return dim_of_terms(cx, &term, 1);
}

Dim *dim_int(DimCtx *cx, int64_t n) {
  return dim_of_bigint(cx, bigint_of(n));
}

Dim *dim_parse(DimCtx *cx, const char *digits) {
  return dim_of_bigint(cx, bigint_parse(cx, digits));
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

static Atom **atom_slot(struct DimAtomTable *atoms, const Atom *key) {
  uint32_t i = key->hash & (atoms->cap - 1);
  while (atoms->slots[i] && !atoms_equal(atoms->slots[i], key))
    i = (i + 1) & (atoms->cap - 1);
  return &atoms->slots[i];
}

static void atoms_grow(DimCtx *cx, struct DimAtomTable *atoms) {
  Atom **old = atoms->slots;
  uint32_t cap = atoms->cap;
  atoms->slots = NEW_ARRAY(cx->arena, Atom *, cap * 2);
  atoms->cap = cap * 2;
  for (uint32_t i = 0; i < cap; i++)
    if (old[i])
      *atom_slot(atoms, old[i]) = old[i];
}

/* Creates the Dim of an atom, and properties derived from its operands. */
static Atom *atom_new(DimCtx *cx, const Atom *key) {
  struct DimAtomTable *atoms = dim_atom_table(cx);
  Atom *atom = NEW(cx->arena, Atom);
  *atom = *key;
  atom->table = atoms;
  uint64_t weight = 1;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    const Dim *arg = atom->args[i];
    weight += arg->weight;
    atom->has_meta |= arg->has_meta;
    atom->has_product |= arg->has_product;
    atom->has_unguarded |= arg->has_unguarded;
    if (arg->depth >= atom->depth)
      atom->depth = (uint16_t)(arg->depth + 1);
  }
  atom->weight = saturate_weight(weight);
  if (atom->depth > DIM_MAX_DEPTH || weight > DIM_MAX_WEIGHT)
    dim_limit_exceeded(cx);
  Monomial *mono = monomial_new(cx, 1);
  mono->power_count = mono->degree = 1;
  mono->powers[0] = (Power){atom, 1};
  Term term = {bigint_of(1), mono};
  atom->dim = dim_alloc(cx, &term, 1);
  return atom;
}

static bool args_make_nonneg(const Atom *atom) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < atom->arg_count; i++)
    count += dim_obviously_nonneg(atom->args[i]);
  return atom->kind == ATOM_MAX ? count > 0 : count == atom->arg_count;
}

Dim *dim_atom_intern(DimCtx *cx, Atom *key) {
  struct DimAtomTable *atoms = dim_atom_table(cx);
  key->hash = hash_mix((uint32_t)key->kind + 7, 0);
  if (key->shape)
    key->hash = hash_mix(key->hash, (uint32_t)((uintptr_t)key->shape >> 4));
  for (uint32_t i = 0; i < key->arg_count; i++)
    key->hash = hash_mix(key->hash, dim_hash(key->args[i]));
  Atom **slot = atom_slot(atoms, key);
  if (*slot)
    return (*slot)->dim;
  key->key = (uint64_t)key->kind << 40;
  key->key += key->shape && cx->shape_id ? cx->shape_id(cx->owner, key->shape)
                                         : atoms->next_key++;
  Dim **args = NEW_ARRAY(cx->arena, Dim *, key->arg_count + 1);
  for (uint32_t i = 0; i < key->arg_count; i++)
    args[i] = key->args[i];
  key->args = args;
  key->nonneg = key->shape || args_make_nonneg(key);
  Atom *atom = atom_new(cx, key);
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
  if (!var->as_dim) {
    Atom key = {.kind = ATOM_VAR, .var = var, .key = var->id, .weight = 1};
    key.hash = hash_mix(var->id, 0x51u);
    key.has_meta = var->kind == DV_META;
    var->as_dim = atom_new(cx, &key)->dim;
  }
  return var->as_dim;
}

Dim *dim_of_prod(DimCtx *cx, ShapeVar *var) {
  Atom key = {
      .kind = ATOM_PROD, .shape = var, .has_meta = true, .has_product = true};
  return dim_atom_intern(cx, &key);
}

bool dim_atom_nonneg(const Atom *atom) {
  return atom->kind == ATOM_VAR ? !atom->var->is_integer : atom->nonneg;
}

bool dim_monomial_nonneg(const Monomial *mono) {
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (mono->powers[i].exp % 2 && !dim_atom_nonneg(mono->powers[i].atom))
      return false;
  return true;
}

bool dim_obviously_nonneg(const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++)
    if (bigint_sign(d->terms[i].coef) < 0 ||
        !dim_monomial_nonneg(d->terms[i].mono))
      return false;
  return true;
}

/* ---- questions ---- */

bool dim_equal(const Dim *a, const Dim *b) {
  if (a == b)
    return true;
  if (a->term_count != b->term_count ||
      (a->has_hash && b->has_hash && a->hash != b->hash))
    return false;
  for (uint32_t i = 0; i < a->term_count; i++)
    if (bigint_cmp(a->terms[i].coef, b->terms[i].coef) ||
        dim_monomial_cmp(a->terms[i].mono, b->terms[i].mono))
      return false;
  return true;
}

uint32_t dim_hash(const Dim *d) {
  if (d->has_hash)
    return d->hash;
  uint32_t hash = 0;
  for (uint32_t i = 0; i < d->term_count; i++)
    hash = hash_mix(hash + monomial_hash(d->terms[i].mono),
                    bigint_hash(d->terms[i].coef));
  Dim *cache = (Dim *)d;
  cache->hash = hash;
  cache->has_hash = true;
  return hash;
}

bool dim_equal_up_to_sign(DimCtx *cx, Dim *a, Dim *b) {
  return dim_equal(a, b) || dim_equal(a, dim_neg(cx, b));
}

int dim_canonical_cmp(const Dim *a, const Dim *b) {
  for (uint32_t i = 0; i < a->term_count && i < b->term_count; i++) {
    int order = dim_monomial_cmp(a->terms[i].mono, b->terms[i].mono);
    if (!order)
      order = -bigint_cmp(a->terms[i].coef, b->terms[i].coef);
    if (order)
      return order;
  }
  return (a->term_count < b->term_count) - (a->term_count > b->term_count);
}

bool dim_is_const(const Dim *d) {
  return !d->term_count ||
         (d->term_count == 1 && !d->terms[0].mono->power_count);
}

bool dim_is_int(const Dim *d, int64_t *value) {
  if (!dim_is_const(d) || (d->term_count && d->terms[0].coef.limbs))
    return false;
  if (value)
    *value = d->term_count ? d->terms[0].coef.small : 0;
  return true;
}

int64_t dim_offset(const Dim *d) {
  BigInt constant = dim_constant_term(d);
  return constant.limbs ? 0 : constant.small;
}

int64_t dim_content(DimCtx *cx, const Dim *d) {
  BigInt g = {0};
  for (uint32_t i = 0; i < d->term_count; i++)
    if (d->terms[i].mono->power_count)
      g = bigint_gcd(cx, g, d->terms[i].coef);
  return g.limbs ? 0 : g.small;
}

bool dim_has_metas(const Dim *d) {
  return d->has_meta;
}

bool dim_has_products(const Dim *d) {
  return d->has_product;
}

bool dim_is_linear(const Dim *d) {
  return !d->term_count || d->terms[0].mono->degree <= 1;
}

int dim_sign(const Dim *d) {
  return d->term_count ? bigint_sign(d->terms[0].coef) : 0;
}

DimVar *dim_as_var(const Dim *d) {
  if (d->term_count != 1 || d->terms[0].mono->degree != 1 ||
      !bigint_is(d->terms[0].coef, 1))
    return NULL;
  return d->terms[0].mono->powers[0].atom->var;
}

BigInt dim_coef_of(const Dim *d, const Monomial *mono) {
  uint32_t low = 0, high = d->term_count;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    int order = dim_monomial_cmp(d->terms[mid].mono, mono);
    if (!order)
      return d->terms[mid].coef;
    if (order < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return bigint_of(0);
}

BigInt dim_constant_term(const Dim *d) {
  if (!d->term_count || d->terms[d->term_count - 1].mono->power_count)
    return bigint_of(0);
  return d->terms[d->term_count - 1].coef;
}

/* ---- ring operations ---- */

static Dim *div_atom(DimCtx *cx, Dim *a, Dim *b);

/* The quotient by a small constant that is this term's only factor, or NULL. */
static const Atom *small_quotient(const Term *term, int64_t *by) {
  const Monomial *m = term->mono;
  if (m->degree != 1 || m->powers[0].atom->kind != ATOM_DIV ||
      !dim_is_int(m->powers[0].atom->args[1], by) || *by < 2 || *by > 16)
    return NULL;
  return m->powers[0].atom;
}

static Dim *add_scaled(DimCtx *cx, Dim *a, Dim *b, BigInt by);

/* True if d contains the quotients (x + r)/by for all r below by, each *k
   times. */
static bool find_hermite_quotients(DimCtx *cx, const Dim *d, Dim *x, Dim *den,
                                   int64_t by, const Monomial **parts,
                                   BigInt *k) {
  for (int64_t r = 0; r < by; r++) {
    parts[r] = div_atom(cx, dim_add(cx, x, dim_int(cx, r)), den)->terms[0].mono;
    BigInt there = dim_coef_of(d, parts[r]);
    if (!bigint_sign(there) || (r && bigint_sign(there) != bigint_sign(*k)))
      return false;
    if (!r || bigint_cmp(bigint_abs(cx, there), bigint_abs(cx, *k)) < 0)
      *k = there;
  }
  return true;
}

static int64_t count_quotients_by(const Dim *d, int64_t by) {
  int64_t count = 0, other;
  for (uint32_t i = 0; i < d->term_count; i++)
    count += small_quotient(&d->terms[i], &other) && other == by;
  return count;
}

/* Hermite's identity: x/2 + (x + 1)/2 is x, and so on for other divisors. */
static Dim *apply_hermite_identity(DimCtx *cx, Dim *d) {
  enum { MAX_HERMITE_DIVISOR = 16 };
  const Monomial *parts[MAX_HERMITE_DIVISOR];
  BigInt k;
  for (uint32_t i = 0; i < d->term_count; i++) {
    int64_t by;
    const Atom *q = small_quotient(&d->terms[i], &by);
    if (!q || count_quotients_by(d, by) < by)
      continue;
    Dim *num = q->args[0];
    Dim *x = dim_sub(cx, num, dim_of_bigint(cx, dim_constant_term(num)));
    if (!find_hermite_quotients(cx, d, x, q->args[1], by, parts, &k))
      continue;
    Term *out = NEW_ARRAY(cx->arena, Term, d->term_count);
    uint32_t n = 0;
    for (uint32_t j = 0; j < d->term_count; j++) {
      Term t = d->terms[j];
      for (int64_t r = 0; r < by; r++)
        if (dim_monomial_cmp(parts[r], t.mono) == 0)
          t.coef = bigint_sub(cx, t.coef, k);
      if (bigint_sign(t.coef))
        out[n++] = t;
    }
    return add_scaled(cx, dim_of_terms(cx, out, n), x, k);
  }
  return d;
}

Dim *dim_of_sum_terms(DimCtx *cx, const Term *at, uint32_t count) {
  Dim *sum = dim_of_terms(cx, at, count);
  int64_t any;
  for (uint32_t i = 0; !sum->is_sum_of_vars && i < count; i++)
    if (small_quotient(&at[i], &any))
      return apply_hermite_identity(cx, sum);
  return sum;
}

/* a + by*b */
static Dim *add_scaled(DimCtx *cx, Dim *a, Dim *b, BigInt by) {
  uint32_t n = 0, i = 0, j = 0;
  Term *out = dim_term_buffer(cx, a->term_count + b->term_count);
  while (i < a->term_count || j < b->term_count) {
    int order = i == a->term_count ? 1
                : j == b->term_count
                    ? -1
                    : dim_monomial_cmp(a->terms[i].mono, b->terms[j].mono);
    if (order < 0) {
      out[n++] = a->terms[i++];
      continue;
    }
    BigInt coef = bigint_mul(cx, b->terms[j].coef, by);
    if (!order)
      coef = bigint_add(cx, a->terms[i++].coef, coef);
    if (bigint_sign(coef))
      out[n++] = (Term){coef, b->terms[j].mono};
    j++;
  }
  return dim_of_sum_terms(cx, out, n);
}

Dim *dim_add(DimCtx *cx, Dim *a, Dim *b) {
  if (!a->term_count)
    return b;
  return b->term_count ? add_scaled(cx, a, b, bigint_of(1)) : a;
}

Dim *dim_sub(DimCtx *cx, Dim *a, Dim *b) {
  if (!b->term_count)
    return a;
  if (a == b)
    return dim_atom_table(cx)->zero;
  return add_scaled(cx, a, b, bigint_of(-1));
}

/* d * coef * mono.  Keeps the order of terms. */
static Dim *mul_term(DimCtx *cx, Dim *d, BigInt coef, const Monomial *mono) {
  if (bigint_is(coef, 1) && !mono->power_count)
    return d;
  if (!bigint_sign(coef))
    return dim_atom_table(cx)->zero;
  Term *out = dim_term_buffer(cx, d->term_count);
  for (uint32_t i = 0; i < d->term_count; i++)
    out[i] = (Term){bigint_mul(cx, d->terms[i].coef, coef),
                    monomial_mul(cx, d->terms[i].mono, mono)};
  return dim_of_terms(cx, out, d->term_count);
}

Dim *dim_scale(DimCtx *cx, Dim *d, BigInt by) {
  return mul_term(cx, d, by, dim_atom_table(cx)->unit_monomial);
}

Dim *dim_neg(DimCtx *cx, Dim *a) {
  return dim_scale(cx, a, bigint_of(-1));
}

static int term_cmp(const void *a, const void *b) {
  return dim_monomial_cmp(((const Term *)a)->mono, ((const Term *)b)->mono);
}

/* Sorts n terms, of which the first `sorted` are in order.  Most lists are
   short. */
static void sort_terms(Term *at, uint32_t sorted, uint32_t n) {
  enum { MAX_INSERTIONS = 32 };
  if (n - sorted > MAX_INSERTIONS) {
    qsort(at, n, sizeof *at, term_cmp);
    return;
  }
  for (; sorted < n; sorted++) {
    Term term = at[sorted];
    uint32_t i = sorted;
    for (; i && dim_monomial_cmp(at[i - 1].mono, term.mono) > 0; i--)
      at[i] = at[i - 1];
    at[i] = term;
  }
}

Dim *dim_of_unsorted_terms(DimCtx *cx, Term *at, uint32_t count) {
  uint32_t n = 1;
  while (n < count && dim_monomial_cmp(at[n - 1].mono, at[n].mono) < 0)
    n++;
  if (n < count)
    sort_terms(at, n, count);
  n = 0;
  for (uint32_t i = 0; i < count;) {
    Term sum = at[i++];
    for (; i < count && !dim_monomial_cmp(at[i].mono, sum.mono); i++)
      sum.coef = bigint_add(cx, sum.coef, at[i].coef);
    if (bigint_sign(sum.coef))
      at[n++] = sum;
  }
  return dim_of_sum_terms(cx, at, n);
}

Dim *dim_mul(DimCtx *cx, Dim *a, Dim *b) {
  if (!a->term_count || !b->term_count)
    return dim_atom_table(cx)->zero;
  if (b->term_count == 1)
    return mul_term(cx, a, b->terms[0].coef, b->terms[0].mono);
  if (a->term_count == 1)
    return mul_term(cx, b, a->terms[0].coef, a->terms[0].mono);
  uint64_t count = (uint64_t)a->term_count * b->term_count;
  if (count > DIM_MAX_PRODUCTS)
    dim_limit_exceeded(cx);
  Term *out = dim_term_buffer(cx, (uint32_t)count);
  for (uint32_t i = 0; i < a->term_count; i++)
    for (uint32_t j = 0; j < b->term_count; j++)
      out[i * b->term_count + j] =
          (Term){bigint_mul(cx, a->terms[i].coef, b->terms[j].coef),
                 monomial_mul(cx, a->terms[i].mono, b->terms[j].mono)};
  return dim_of_unsorted_terms(cx, out, (uint32_t)count);
}

/* ---- floor division ---- */

BigInt dim_coefficient_gcd(DimCtx *cx, const Dim *d, BigInt g, bool constants) {
  for (uint32_t i = 0; i < d->term_count && !bigint_is(g, 1); i++)
    if (constants || d->terms[i].mono->power_count)
      g = bigint_gcd(cx, g, d->terms[i].coef);
  return g;
}

/* The monomial common to all terms. */
static const Monomial *common_monomial(DimCtx *cx, const Dim *d,
                                       const Monomial *with) {
  for (uint32_t i = 0; i < d->term_count; i++)
    with = with ? monomial_gcd(cx, with, d->terms[i].mono) : d->terms[i].mono;
  return with ? with : dim_atom_table(cx)->unit_monomial;
}

/* The factors of mono that are sizes, and so not negative. */
static const Monomial *size_factors(DimCtx *cx, const Monomial *mono) {
  Monomial *out = monomial_new(cx, mono->power_count);
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (dim_atom_nonneg(mono->powers[i].atom)) {
      out->powers[out->power_count++] = mono->powers[i];
      out->degree += mono->powers[i].exp;
    }
  return out;
}

Dim *dim_divide_out(DimCtx *cx, Dim *d, BigInt by, const Monomial *mono) {
  Term *out = dim_term_buffer(cx, d->term_count);
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->term_count; i++) {
    BigInt q, r;
    bigint_divide(cx, d->terms[i].coef, by, &q, &r);
    if (bigint_sign(q))
      out[n++] = (Term){q, monomial_quotient(cx, d->terms[i].mono, mono)};
  }
  return dim_of_terms(cx, out, n);
}

/* a = q*b + r with r in normal form: the leading term of b reduces no term of
   r. */
static void reduce_by_leading_term(DimCtx *cx, Dim *a, Dim *b, Dim **q,
                                   Dim **r) {
  const Term *lead = &b->terms[0];
  *q = dim_atom_table(cx)->zero;
  *r = a;
  uint32_t steps = 0;
  for (uint32_t i = 0; i < (*r)->term_count;) {
    const Term *term = &(*r)->terms[i];
    const Monomial *mono = monomial_quotient(cx, term->mono, lead->mono);
    BigInt coef, rest;
    if (mono)
      bigint_divide(cx, term->coef, lead->coef, &coef, &rest);
    if (!mono || !bigint_sign(coef)) {
      i++;
      continue;
    }
    if (++steps > DIM_MAX_TERMS)
      dim_limit_exceeded(cx);
    Dim *part = dim_of_term(cx, coef, mono);
    *q = dim_add(cx, *q, part);
    *r = dim_sub(cx, *r, dim_mul(cx, part, b));
    i += bigint_sign(rest) != 0; /* only smaller terms may have changed */
  }
}

Dim *dim_exact_quotient(DimCtx *cx, Dim *a, Dim *b) {
  Dim *q, *r;
  if (!b->term_count)
    return NULL;
  reduce_by_leading_term(cx, a, b, &q, &r);
  return r->term_count ? NULL : q;
}

static Dim *div_atom(DimCtx *cx, Dim *a, Dim *b) {
  Dim *args[2] = {a, b};
  Atom key = {.kind = ATOM_DIV, .arg_count = 2, .args = args};
  return dim_atom_intern(cx, &key);
}

/* The only division in d, if d is linear in it with coefficient 1 and its
   divisor is a positive constant. */
static Atom *sole_division(const Dim *d) {
  Atom *found = NULL;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    for (uint32_t j = 0; j < mono->power_count; j++) {
      Atom *atom = mono->powers[j].atom;
      if (atom->kind != ATOM_DIV)
        continue;
      if (found || mono->degree != 1 || !bigint_is(d->terms[i].coef, 1) ||
          !dim_is_const(atom->args[1]) || dim_sign(atom->args[1]) <= 0)
        return NULL;
      found = atom;
    }
  }
  return found;
}

static Dim *div_atom_of(DimCtx *cx, Dim *a, Dim *b, bool unguarded) {
  Dim *d = div_atom(cx, a, b);
  if (unguarded) {
    Atom *atom = d->terms[0].mono->powers[0].atom;
    atom->unguarded = atom->has_unguarded = d->has_unguarded = true;
  }
  return d;
}

static Dim *divide(DimCtx *cx, Dim *a, Dim *b, bool unguarded);

/* r/b, where r is already reduced. */
static Dim *div_reduced(DimCtx *cx, Dim *r, Dim *b, bool unguarded) {
  const Monomial *unit = dim_atom_table(cx)->unit_monomial;
  BigInt by = dim_coefficient_gcd(
      cx, b, dim_coefficient_gcd(cx, r, bigint_of(0), false), true);
  const Monomial *mono =
      size_factors(cx, common_monomial(cx, b, common_monomial(cx, r, NULL)));
  if (!bigint_is(by, 1) || mono->power_count) {
    /* floor((g*x + c)/(g*y)) = floor((x + floor(c/g))/y) */
    r = dim_divide_out(cx, r, by, mono);
    return divide(cx, r, dim_divide_out(cx, b, by, mono), unguarded);
  }
  Atom *inner = dim_is_const(b) ? sole_division(r) : NULL;
  if (inner) {
    /* floor((floor(x/c) + y)/b) = floor((x + c*y)/(c*b)) for c, b >= 1 */
    BigInt c = inner->args[1]->terms[0].coef;
    Dim *rest = dim_scale(cx, dim_sub(cx, r, inner->dim), c);
    return divide(cx, dim_add(cx, inner->args[0], rest),
                  mul_term(cx, b, c, unit), unguarded);
  }
  return div_atom_of(cx, r, b, unguarded);
}

static Dim *divide(DimCtx *cx, Dim *a, Dim *b, bool unguarded) {
  if (dim_is_const(b) && dim_sign(b) <= 0)
    return div_atom_of(cx, a, b,
                       unguarded); /* an error that the caller detects */
  if (dim_is_const(b) && bigint_is(b->terms[0].coef, 1))
    return a;
  Dim *q, *r;
  reduce_by_leading_term(cx, a, b, &q, &r);
  if (!r->term_count || (dim_is_const(b) && dim_is_const(r)))
    return q;
  return dim_add(cx, q, div_reduced(cx, r, b, unguarded));
}

Dim *dim_div(DimCtx *cx, Dim *a, Dim *b) {
  return divide(cx, a, b, false);
}

Dim *dim_div_unguarded(DimCtx *cx, Dim *a, Dim *b) {
  if (dim_is_const(b) && dim_sign(b) < 0)
    return dim_div(cx, dim_neg(cx, a), dim_neg(cx, b));
  return divide(cx, a, b, true);
}

bool dim_has_unguarded_div(const Dim *d) {
  return d->has_unguarded;
}

Dim *dim_mod(DimCtx *cx, Dim *a, Dim *b) {
  return dim_sub(cx, a, dim_mul(cx, b, dim_div(cx, a, b)));
}

/* ---- equations ---- */

Dim *dim_common_factor(DimCtx *cx, Dim *d) {
  if (!d->term_count || dim_is_const(d))
    return dim_int(cx, 1);
  const Monomial *mono = dim_atom_table(cx)->unit_monomial;
  if (d->term_count > 1) /* n*m == 0 is not a contradiction */
    mono = size_factors(cx, common_monomial(cx, d, NULL));
  return dim_of_term(cx, dim_coefficient_gcd(cx, d, bigint_of(0), true), mono);
}

Dim *dim_cancel_common_factor(DimCtx *cx, Dim *d) {
  Dim *by = dim_common_factor(cx, d);
  const Term *term = &by->terms[0];
  return bigint_is(term->coef, 1) && !term->mono->power_count
             ? d
             : dim_divide_out(cx, d, term->coef, term->mono);
}

bool dim_common_factor_may_vanish(DimCtx *cx, Dim *d) {
  const Monomial *mono = dim_common_factor(cx, d)->terms[0].mono;
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (mono->powers[i].atom->arg_count)
      return true;
  return false;
}

bool dim_is_cancellable_factor(DimCtx *cx, const Dim *d) {
  return d->term_count == 1 &&
         size_factors(cx, d->terms[0].mono)->degree == d->terms[0].mono->degree;
}

/* Returns v if term i of d is +-v for a meta v that may be solved and does not
   occur in the other terms. */
static DimVar *solvable_meta(DimCtx *cx, Dim *d, uint32_t i,
                             bool (*can)(void *, DimVar *), void *arg) {
  const Term *term = &d->terms[i];
  if (term->mono->degree != 1 ||
      (!bigint_is(term->coef, 1) && !bigint_is(term->coef, -1)))
    return NULL;
  DimVar *var = term->mono->powers[0].atom->var;
  if (!var || var->kind != DV_META || var->unknown || var->solution ||
      (can && !can(arg, var)))
    return NULL;
  Dim *rest = dim_sub(cx, d, dim_of_term(cx, term->coef, term->mono));
  return dim_mentions(cx, rest, var) ? NULL : var;
}

bool dim_solve_for_meta(DimCtx *cx, Dim *d, bool (*can)(void *, DimVar *),
                        void *arg, DimVar **var, Dim **value) {
  d = dim_resolve(cx, d);
  if (!d->has_meta)
    return false;
  uint32_t best = 0;
  DimVar *found = NULL;
  for (uint32_t i = 0; i < d->term_count; i++) {
    DimVar *one = solvable_meta(cx, d, i, can, arg);
    if (one && (!found || one->id > found->id)) {
      found = one;
      best = i;
    }
  }
  if (!found)
    return false;
  Dim *rest =
      dim_sub(cx, d, dim_of_term(cx, d->terms[best].coef, d->terms[best].mono));
  *var = found;
  *value = bigint_is(d->terms[best].coef, 1) ? dim_neg(cx, rest) : rest;
  return true;
}
