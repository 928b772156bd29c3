/* Polynomials as linear constraints: each distinct monomial is an unknown.
 * Main entry points: linearization_new and linearization_refutes.
 *
 * Linearization loses information.  Rows that can matter add it again: the
 * bounds of the atoms that occur, the signs of monomials of sizes, and products
 * of an assumption and a monomial (f >= 0 and y >= 0 give f*y >= 0) that
 * contain a monomial of the query.  Each such row holds in every model, so
 * adding or leaving out any is sound.  A minimum equals one of its operands.
 * If its bounds do not decide, all cases are tried (case split). */
#include "solver.h"
#include "support/arena.h"

#include <string.h>

enum {
  MAX_ROWS = 420,
  MAX_PRODUCT_SOURCES = 200,
  MAX_CASE_SPLITS = 8,
  MAX_PRODUCT_ROUNDS = 3,   /* rounds of multiplying assumptions */
  MAX_RESIDUE_CASES = 8,    /* largest divisor with a case per remainder */
  MAX_MONOMIAL_POWERS = 24, /* powers of a monomial created here */
  MAX_ROW_COEF_BITS = 62,
  COLUMN_SLOTS = 4 * MAX_QUERY_MONOMIALS,
};

/* Exhaustive cases.  For a minimum or maximum, rows[first..first + count) are
   the differences from its operands, and one of them is 0.  For a remainder by
   a small constant, rows[first] is 0, 1, ..., or count - 1. */
typedef struct CaseSplit {
  uint32_t first, count;
  bool residue;
} CaseSplit;

typedef struct DerivedProduct {
  uint32_t source;
  const Monomial *factor;
} DerivedProduct;

struct Linearization {
  DimCtx *cx;
  Scratch *scratch;
  bool (*nonneg)(void *, Dim *);
  void *arg;
  uint32_t column_count, bounded_column_count, row_count, source_count,
      bounded_atom_count;
  uint32_t nonneg_atom_count, split_count, product_count, at_least_one_count;
  uint32_t rows_before_products; /* rows before any products */
  uint32_t max_product_degree;   /* largest degree of a product */
  /* maps the hash of a monomial to 1 + its column; 0 is empty */
  uint8_t column_slots[COLUMN_SLOTS];
  const Monomial *columns[MAX_QUERY_MONOMIALS];
  uint32_t hashes[MAX_QUERY_MONOMIALS];
  const SparseRow *rows[MAX_ROWS];
  PolyConstraint product_sources[MAX_PRODUCT_SOURCES]; /* rows as polynomials */
  const Atom *bounded_atoms[MAX_QUERY_MONOMIALS];      /* atoms whose bounds are
                                                          already rows */
  const Atom *nonneg_atoms[MAX_QUERY_MONOMIALS]; /* proved to be non-negative */
  CaseSplit splits[MAX_CASE_SPLITS];
  Dim *at_least_one[MAX_QUERY_MONOMIALS]; /* conditions that hold under
                                             at_least_one */
  DerivedProduct products[MAX_DERIVED_PRODUCTS];
};

/* ---- columns ---- */

/* The column that the monomial, a single atom, had last.  Another linearization
   may have given it another one. */
static bool is_last_column(const Linearization *lin, const Monomial *mono) {
  uint32_t i = mono->powers[0].atom->column_index;
  return i < lin->column_count && lin->columns[i]->degree == 1 &&
         lin->columns[i]->powers[0].atom == mono->powers[0].atom;
}

static uint32_t find_column(Linearization *lin, const Monomial *mono,
                            bool make) {
  uint32_t hash = dim_monomial_hash(mono), slot = hash % COLUMN_SLOTS;
  for (; lin->column_slots[slot]; slot = (slot + 1) % COLUMN_SLOTS) {
    uint32_t i = lin->column_slots[slot] - 1u;
    if (lin->hashes[i] == hash && !dim_monomial_cmp(lin->columns[i], mono))
      return i;
  }
  if (!make || lin->column_count == MAX_QUERY_MONOMIALS)
    return UINT32_MAX;
  lin->hashes[lin->column_count] = hash;
  lin->columns[lin->column_count] = mono;
  lin->column_slots[slot] = (uint8_t)(lin->column_count + 1);
  return lin->column_count++;
}

/* Returns UINT32_MAX if there are too many columns. */
static uint32_t column_of(Linearization *lin, const Monomial *mono, bool make) {
  if (mono->degree != 1)
    return find_column(lin, mono, make);
  Atom *atom = mono->powers[0].atom;
  if (!is_last_column(lin, mono))
    atom->column_index = find_column(lin, mono, make);
  return atom->column_index;
}

static Monomial *monomial_scratch(Linearization *lin, uint32_t max) {
  Monomial *out =
      scratch_alloc(lin->scratch, sizeof *out + max * sizeof(Power));
  out->power_count = out->degree = 0;
  return out;
}

/* a*b; NULL if the result is too long. */
static const Monomial *monomial_product(Linearization *lin, const Monomial *a,
                                        const Monomial *b) {
  if (!b || !b->power_count)
    return a;
  if (!a->power_count)
    return b;
  if (a->power_count + b->power_count > MAX_MONOMIAL_POWERS ||
      a->degree > DIM_MAX_EXPONENT)
    return NULL;
  Monomial *out = monomial_scratch(lin, a->power_count + b->power_count);
  for (uint32_t i = 0, j = 0; i < a->power_count || j < b->power_count;) {
    const Power *p = i < a->power_count ? &a->powers[i] : NULL;
    const Power *q = j < b->power_count ? &b->powers[j] : NULL;
    if (p && q && p->atom == q->atom) {
      out->powers[out->power_count++] = (Power){p->atom, p->exp + q->exp};
      i++, j++;
    } else if (p && (!q || p->atom->key < q->atom->key)) {
      out->powers[out->power_count++] = a->powers[i++];
    } else {
      out->powers[out->power_count++] = b->powers[j++];
    }
  }
  out->degree = a->degree + b->degree;
  return out;
}

/* a/b; NULL if b does not divide a. */
static const Monomial *monomial_exact_quotient(Linearization *lin,
                                               const Monomial *a,
                                               const Monomial *b) {
  if (a->degree < b->degree || a->power_count > MAX_MONOMIAL_POWERS)
    return NULL;
  Monomial *out = monomial_scratch(lin, a->power_count);
  uint32_t j = 0;
  for (uint32_t i = 0; i < a->power_count; i++) {
    Power p = a->powers[i];
    if (j < b->power_count && b->powers[j].atom == p.atom) {
      if (b->powers[j].exp > p.exp)
        return NULL;
      p.exp -= b->powers[j++].exp;
    }
    if (p.exp)
      out->powers[out->power_count++] = p;
  }
  out->degree = a->degree - b->degree;
  return j == b->power_count ? out : NULL;
}

static bool atom_known_nonneg(const Linearization *lin, const Atom *atom) {
  if (dim_atom_nonneg(atom))
    return true;
  for (uint32_t i = 0; i < lin->nonneg_atom_count; i++)
    if (lin->nonneg_atoms[i] == atom)
      return true;
  return false;
}

static bool monomial_known_nonneg(const Linearization *lin,
                                  const Monomial *mono) {
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (mono->powers[i].exp % 2 &&
        !atom_known_nonneg(lin, mono->powers[i].atom))
      return false;
  return true;
}

/* ---- rows ---- */

static bool fits(BigInt n, int64_t *value) {
  int64_t max = (int64_t)1 << MAX_ROW_COEF_BITS;
  *value = n.small;
  return !n.limbs && n.small < max && n.small > -max;
}

/* The row of sign*d*factor; factor may be NULL.  Returns NULL if the row does
   not fit or needs more than max_new_columns new columns. */
static SparseRow *row_new(Linearization *lin, const Dim *d,
                          const Monomial *factor, int sign, bool eq,
                          uint32_t max_new_columns) {
  SparseRow *row = scratch_alloc(
      lin->scratch, sizeof *row + d->term_count * sizeof(RowEntry));
  *row = (SparseRow){.eq = eq};
  const Monomial **missing = /* of the entries without a column */
      scratch_alloc(lin->scratch, sizeof *missing * (d->term_count + 1));
  uint32_t left = MAX_QUERY_MONOMIALS - lin->column_count;
  if (left < max_new_columns)
    max_new_columns = left;
  for (uint32_t i = 0; i < d->term_count; i++) {
    int64_t coef;
    const Monomial *mono = monomial_product(lin, d->terms[i].mono, factor);
    if (!mono || !fits(d->terms[i].coef, &coef))
      return NULL;
    if (!mono->power_count) {
      row->constant = sign * coef;
      continue;
    }
    uint32_t column = column_of(lin, mono, false);
    if (column == UINT32_MAX && !max_new_columns--)
      return NULL;
    missing[row->count] = mono;
    row->entries[row->count++] = (RowEntry){column, sign * coef};
  }
  for (uint32_t i = 0; i < row->count; i++)
    if (row->entries[i].column == UINT32_MAX)
      row->entries[i].column = column_of(lin, missing[i], true);
  return row;
}

static bool add_row(Linearization *lin, const SparseRow *row) {
  if (!row || lin->row_count == MAX_ROWS)
    return false;
  lin->rows[lin->row_count++] = row;
  return true;
}

/* Adds d >= 0 or d == 0 as a row and as a source of products. */
static bool add_poly(Linearization *lin, Dim *d, bool eq) {
  if (!add_row(lin, row_new(lin, d, NULL, 1, eq, UINT32_MAX)))
    return false;
  if (lin->source_count < MAX_PRODUCT_SOURCES)
    lin->product_sources[lin->source_count++] = (PolyConstraint){d, eq};
  return true;
}

/* ---- what holds of atoms ---- */

/* Computes bounds once per atom.  A division has the bounds a - b*q and b - 1 -
   (a - b*q).  A symbolic divisor adds b - 1, and a - q, which holds if q >=
   0. */
static void atom_bounds(DimCtx *cx, Atom *atom) {
  if (atom->bounds || !atom->arg_count)
    return;
  Dim **bounds = NEW_ARRAY(cx->arena, Dim *, atom->arg_count + 4);
  uint32_t n = 0;
  Dim *a = atom->args[0], *b = atom->args[1], *one = dim_int(cx, 1);
  if (atom->kind != ATOM_DIV) {
    for (; n < atom->arg_count; n++)
      bounds[n] = atom->kind == ATOM_MIN
                      ? dim_sub(cx, atom->args[n], atom->dim)
                      : dim_sub(cx, atom->dim, atom->args[n]);
  } else if (!dim_is_const(b) || dim_sign(b) > 0) {
    Dim *rest = dim_sub(cx, a, dim_mul(cx, b, atom->dim));
    Dim *max = dim_sub(cx, b, one);
    bounds[n++] = rest;
    bounds[n++] = dim_sub(cx, max, rest);
    if (!dim_is_const(b)) {
      bounds[n++] = max;
      bounds[n++] = dim_sub(cx, a, atom->dim);
    }
  }
  atom->bounds = bounds;
  atom->bound_count = n;
}

/* Division by a symbolic divisor: the sign of q follows from the sign of a, but
   not linearly. */
static void bound_quotient_sign(Linearization *lin, Atom *atom) {
  Dim *a = atom->args[0], *b = atom->args[1];
  bool nonneg = atom_known_nonneg(lin, atom);
  if (!nonneg && lin->nonneg && lin->nonneg(lin->arg, a) &&
      lin->nonneg_atom_count < MAX_QUERY_MONOMIALS) {
    lin->nonneg_atoms[lin->nonneg_atom_count++] = atom;
    nonneg = true;
  }
  if (nonneg) {
    add_poly(lin, atom->dim, false);
    add_poly(lin, atom->bounds[3], false);
  }
  Dim *less = dim_sub(lin->cx, dim_sub(lin->cx, b, a), dim_int(lin->cx, 1));
  if (lin->nonneg && lin->nonneg(lin->arg, less))
    add_poly(lin, dim_neg(lin->cx, atom->dim), false);
}

/* Several divisions with one divisor: splits cases on the remainder.  For
   example, n/3 + (n + 1)/3 + (n + 2)/3 == n needs the cases of n % 3. */
static void add_residue_split(Linearization *lin, const Atom *atom,
                              uint32_t row) {
  int64_t factor;
  if (!dim_is_int(atom->args[1], &factor) || factor > MAX_RESIDUE_CASES ||
      lin->split_count == MAX_CASE_SPLITS)
    return;
  for (uint32_t i = 0; i + 1 < lin->bounded_atom_count; i++)
    if (lin->bounded_atoms[i]->kind == ATOM_DIV &&
        dim_equal(lin->bounded_atoms[i]->args[1], atom->args[1])) {
      lin->splits[lin->split_count++] =
          (CaseSplit){row, (uint32_t)factor, true};
      return;
    }
}

static void add_atom_bounds(Linearization *lin, Atom *atom) {
  if (!atom->arg_count || lin->bounded_atom_count == MAX_QUERY_MONOMIALS)
    return;
  for (uint32_t i = 0; i < lin->bounded_atom_count; i++)
    if (lin->bounded_atoms[i] == atom)
      return;
  lin->bounded_atoms[lin->bounded_atom_count++] = atom;
  atom_bounds(lin->cx, atom);
  bool symbolic = atom->kind == ATOM_DIV && atom->bound_count > 2;
  uint32_t first = lin->row_count, count = symbolic ? 3 : atom->bound_count;
  bool all = true;
  for (uint32_t i = 0; i < count; i++)
    all &= add_poly(lin, atom->bounds[i], false);
  if (symbolic)
    bound_quotient_sign(lin, atom);
  if (atom->kind != ATOM_DIV && all && lin->split_count < MAX_CASE_SPLITS)
    lin->splits[lin->split_count++] = (CaseSplit){first, count, false};
  if (atom->kind == ATOM_DIV && !symbolic && count)
    add_residue_split(lin, atom, first);
}

/* Adds x^e*y >= x^(e - 1)*y, if y >= 0 and either x >= 0 or e is even. */
static void add_square_bound(Linearization *lin, const Monomial *mono,
                             const Power *power) {
  Monomial *one = monomial_scratch(lin, 1);
  one->power_count = one->degree = 1;
  one->powers[0] = (Power){power->atom, 1};
  const Monomial *less = monomial_exact_quotient(lin, mono, one);
  if (!less || (power->exp % 2 && !atom_known_nonneg(lin, power->atom)))
    return;
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (mono->powers[i].atom != power->atom && mono->powers[i].exp % 2 &&
        !atom_known_nonneg(lin, mono->powers[i].atom))
      return;
  SparseRow *row =
      scratch_alloc(lin->scratch, sizeof *row + 2 * sizeof(RowEntry));
  *row = (SparseRow){.count = 2};
  row->entries[0] = (RowEntry){column_of(lin, mono, true), 1};
  row->entries[1] = (RowEntry){column_of(lin, less, true), -1};
  if (row->entries[1].column != UINT32_MAX)
    add_row(lin, row);
}

static void add_column_bounds(Linearization *lin, uint32_t column) {
  const Monomial *mono = lin->columns[column];
  for (uint32_t i = 0; i < mono->power_count; i++)
    add_atom_bounds(lin, mono->powers[i].atom);
  if (monomial_known_nonneg(lin, mono)) {
    SparseRow *row =
        scratch_alloc(lin->scratch, sizeof *row + sizeof(RowEntry));
    *row = (SparseRow){.count = 1};
    row->entries[0] = (RowEntry){column, 1};
    add_row(lin, row);
  }
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (mono->powers[i].exp > 1)
      add_square_bound(lin, mono, &mono->powers[i]);
}

static void add_all_column_bounds(Linearization *lin) {
  while (lin->bounded_column_count < lin->column_count)
    add_column_bounds(lin, lin->bounded_column_count++);
}

/* ---- products of facts ---- */

static bool product_done(Linearization *lin, uint32_t source,
                         const Monomial *factor) {
  for (uint32_t i = 0; i < lin->product_count; i++)
    if (lin->products[i].source == source &&
        !dim_monomial_cmp(lin->products[i].factor, factor))
      return true;
  return false;
}

/* Multiplies a source by a monomial that maps one of its terms to the
   column. */
static void try_product(Linearization *lin, uint32_t source,
                        const Monomial *column) {
  const PolyConstraint *poly = &lin->product_sources[source];
  if (poly->d->term_count == 0)
    return;
  for (uint32_t i = 0; i < poly->d->term_count; i++) {
    const Monomial *mono = poly->d->terms[i].mono;
    if (!mono->power_count || mono->degree >= column->degree)
      continue;
    if (lin->product_count == MAX_DERIVED_PRODUCTS ||
        !scratch_spend_effort(lin->scratch, 20))
      return;
    const Monomial *factor = monomial_exact_quotient(lin, column, mono);
    if (!factor ||
        poly->d->terms[0].mono->degree + factor->degree >
            lin->max_product_degree ||
        (!poly->eq && !monomial_known_nonneg(lin, factor)) ||
        product_done(lin, source, factor))
      continue;
    lin->products[lin->product_count++] = (DerivedProduct){source, factor};
    add_row(lin, row_new(lin, poly->d, factor, 1, poly->eq, 2));
  }
}

/* Products may create new columns, so this takes several rounds. */
static void add_derived_products(Linearization *lin) {
  uint32_t from = 0;
  for (uint32_t c = 0; c < lin->column_count; c++)
    if (lin->columns[c]->degree >= lin->max_product_degree)
      lin->max_product_degree = lin->columns[c]->degree + 1;
  for (uint32_t round = 0; round < MAX_PRODUCT_ROUNDS; round++) {
    uint32_t columns = lin->column_count, sources = lin->source_count;
    for (uint32_t c = from; c < columns; c++)
      if (lin->columns[c]->degree > 1)
        for (uint32_t s = 0; s < sources; s++)
          try_product(lin, s, lin->columns[c]);
    add_all_column_bounds(lin);
    from = columns;
  }
}

/* ---- systems ---- */

Linearization *linearization_new(DimCtx *cx, Scratch *scratch,
                                 const PolyConstraint *polys, uint32_t count,
                                 Dim *goal, bool (*nonneg)(void *, Dim *),
                                 void *arg) {
  Linearization *lin = scratch_alloc(scratch, sizeof *lin);
  memset(lin, 0, offsetof(Linearization, columns));
  lin->cx = cx;
  lin->scratch = scratch;
  lin->nonneg = nonneg;
  lin->arg = arg;
  if (goal) /* its columns come first */
    row_new(lin, goal, NULL, 1, false, UINT32_MAX);
  for (uint32_t i = 0; i < count; i++)
    add_poly(lin, polys[i].d, polys[i].eq);
  add_all_column_bounds(lin);
  lin->rows_before_products = lin->row_count;
  add_derived_products(lin);
  return lin;
}

void linearization_add_at_least_one(Linearization *lin, Dim *d) {
  if (lin->at_least_one_count < MAX_QUERY_MONOMIALS)
    lin->at_least_one[lin->at_least_one_count++] = d;
}

/* True if the monomial consists of sizes that are at least 1 under
   at_least_one.  Existential sizes do not count: they may be 0. */
static bool is_monomial_of_sizes(const Monomial *mono) {
  for (uint32_t i = 0; i < mono->power_count; i++) {
    const DimVar *var = mono->powers[i].atom->var;
    if (!var || var->is_integer || var->kind == DV_INDEX ||
        var->kind == DV_EXISTENTIAL)
      return false;
  }
  return true;
}

/* Adds rows that hold if each size is at least 1: n*m >= 1, and n*m >= n. */
static void add_at_least_one_rows(Linearization *lin) {
  for (uint32_t i = 0; i < lin->at_least_one_count; i++)
    add_row(lin,
            row_new(lin, lin->at_least_one[i], NULL, 1, false, UINT32_MAX));
  for (uint32_t c = 0; c < lin->column_count; c++) {
    if (!is_monomial_of_sizes(lin->columns[c]))
      continue;
    SparseRow *row =
        scratch_alloc(lin->scratch, sizeof *row + sizeof(RowEntry));
    *row = (SparseRow){.count = 1, .constant = -1};
    row->entries[0] = (RowEntry){c, 1};
    add_row(lin, row);
    for (uint32_t e = 0; e < lin->column_count; e++) {
      if (e == c || !is_monomial_of_sizes(lin->columns[e]) ||
          !monomial_exact_quotient(lin, lin->columns[c], lin->columns[e]))
        continue;
      row = scratch_alloc(lin->scratch, sizeof *row + 2 * sizeof(RowEntry));
      *row = (SparseRow){.count = 2};
      row->entries[0] = (RowEntry){c, 1};
      row->entries[1] = (RowEntry){e, -1};
      add_row(lin, row);
    }
  }
}

/* True if every case of the splits from `split` on is infeasible. */
static bool refute_by_cases(Linearization *lin, uint32_t split,
                            uint32_t *budget) {
  if (!*budget)
    return false;
  --*budget;
  if (fm_infeasible(lin->scratch, lin->column_count, lin->rows, lin->row_count))
    return true;
  if (split == lin->split_count)
    return false;
  const CaseSplit *s = &lin->splits[split];
  uint32_t keep = lin->row_count;
  for (uint32_t i = 0; i < s->count; i++) {
    const SparseRow *bound = lin->rows[s->first + (s->residue ? 0 : i)];
    size_t size = sizeof *bound + bound->count * sizeof(RowEntry);
    SparseRow *tight = scratch_alloc(lin->scratch, size);
    memcpy(tight, bound, size);
    tight->eq = true;
    tight->constant -= s->residue ? i : 0;
    bool refuted =
        add_row(lin, tight) && refute_by_cases(lin, split + 1, budget);
    lin->row_count = keep;
    if (!refuted)
      return false;
  }
  return true;
}

/* Multiplies the goal too: i < c*h contradicts h <= i/c, multiplied by c. */
static void add_goal_products(Linearization *lin, Dim *d, bool eq) {
  uint32_t columns = lin->column_count, source = lin->source_count;
  if (source == MAX_PRODUCT_SOURCES)
    return;
  lin->product_sources[lin->source_count++] = (PolyConstraint){d, eq};
  for (uint32_t c = 0; c < columns; c++)
    if (lin->columns[c]->degree > 1)
      try_product(lin, source, lin->columns[c]);
  add_all_column_bounds(lin);
}

/* Tries without the products of assumptions, which are many and rarely needed.
   Uses only rows before them and the rows from `from` on. */
static bool refute_without_products(Linearization *lin, uint32_t from) {
  if (lin->rows_before_products == from)
    return false;
  const SparseRow **rows =
      scratch_alloc(lin->scratch, sizeof *rows * (lin->row_count + 1));
  uint32_t n = lin->rows_before_products;
  memcpy(rows, lin->rows, sizeof *rows * n);
  for (; from < lin->row_count; from++)
    rows[n++] = lin->rows[from];
  return fm_infeasible(lin->scratch, lin->column_count, rows, n);
}

bool linearization_refutes(Linearization *lin, Dim *d, bool eq,
                           bool at_least_one) {
  /* saved counts, restored afterwards */
  char counts[offsetof(Linearization, columns)];
  uint32_t budget = MAX_CASES_PER_QUERY;
  ScratchMark mark = scratch_mark(lin->scratch);
  memcpy(counts, lin, sizeof counts);
  SparseRow *row = row_new(lin, d, NULL, 1, eq, UINT32_MAX);
  bool refuted = false;
  uint32_t from = lin->row_count;
  if (add_row(lin, row)) {
    add_goal_products(lin, d, eq);
    if (at_least_one)
      add_at_least_one_rows(lin);
    refuted =
        refute_without_products(lin, from) || refute_by_cases(lin, 0, &budget);
  }
  memcpy(lin, counts, sizeof counts);
  scratch_release(lin->scratch, mark);
  return refuted;
}
