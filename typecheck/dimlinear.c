/* Polynomials as linear constraints: each distinct monomial is an unknown.
 *
 * What linearising forgets is put back where it can matter: the bounds of the
 * atoms that occur, monomials of sizes being non-negative, and facts times a
 * monomial (f >= 0 and y >= 0 give f*y >= 0) where that meets a product which
 * occurs.  Each such row holds in every model, so adding or leaving out any is
 * sound.  A minimum is one of its operands: where its bounds do not decide,
 * the cases are tried. */
#include "dimsolver.h"

#include <string.h>

enum {
  MAX_ROWS = 420,
  MAX_SOURCES = 200,
  MAX_SPLITS = 8,
  MAX_ROUNDS = 3,      /* of multiplying facts */
  MAX_RESIDUES = 8,    /* the largest divisor whose remainders are cases */
  MAX_POWERS = 24,     /* in a monomial made here */
  MAX_ROW_COEF_BITS = 62,
};

/* Exhaustive cases.  Of a minimum or maximum: rows[first..first + count) are
 * the differences from its operands, and one of them is 0.  Of a remainder by
 * a small constant: rows[first] is 0, 1, ..., or count - 1. */
typedef struct Split {
  uint32_t first, count;
  bool residue;
} Split;

typedef struct Product {
  uint32_t source;
  const Mono *by;
} Product;

struct Linear {
  DimCtx *cx;
  Scratch *scratch;
  bool (*nonneg)(void *, Dim *);
  void *arg;
  uint32_t column_count, bounded, row_count, source_count, seen_count;
  uint32_t known_count, split_count, product_count, least_count;
  uint32_t plain_count; /* rows before any products */
  uint32_t most_degree; /* of products */
  const Mono *columns[SOLVER_COLUMNS];
  uint32_t hashes[SOLVER_COLUMNS];
  const Row *rows[MAX_ROWS];
  Poly sources[MAX_SOURCES]; /* polynomial forms of rows */
  const Atom *seen[SOLVER_COLUMNS];  /* their bounds are rows */
  const Atom *known[SOLVER_COLUMNS]; /* proved to be non-negative */
  Split splits[MAX_SPLITS];
  Dim *least[SOLVER_COLUMNS]; /* hold under at_least_one */
  Product products[SOLVER_PRODUCTS];
};

/* ---- columns ---- */

/* UINT32_MAX when there are too many. */
static uint32_t column_of(Linear *lin, const Mono *mono, bool make) {
  uint32_t hash = dim_mono_hash(mono);
  for (uint32_t i = 0; i < lin->column_count; i++)
    if (lin->hashes[i] == hash && !dim_mono_cmp(lin->columns[i], mono))
      return i;
  if (!make || lin->column_count == SOLVER_COLUMNS)
    return UINT32_MAX;
  lin->hashes[lin->column_count] = hash;
  lin->columns[lin->column_count] = mono;
  return lin->column_count++;
}

static Mono *mono_scratch(Linear *lin, uint32_t most) {
  Mono *out = scratch_alloc(lin->scratch, sizeof *out + most * sizeof(Power));
  out->count = out->degree = 0;
  return out;
}

/* a*b; NULL when that is too long. */
static const Mono *mono_times(Linear *lin, const Mono *a, const Mono *b) {
  if (!b || !b->count)
    return a;
  if (!a->count)
    return b;
  if (a->count + b->count > MAX_POWERS || a->degree > DIM_MAX_EXPONENT)
    return NULL;
  Mono *out = mono_scratch(lin, a->count + b->count);
  for (uint32_t i = 0, j = 0; i < a->count || j < b->count;) {
    const Power *p = i < a->count ? &a->at[i] : NULL;
    const Power *q = j < b->count ? &b->at[j] : NULL;
    if (p && q && p->atom == q->atom) {
      out->at[out->count++] = (Power){p->atom, p->exp + q->exp};
      i++, j++;
    } else if (p && (!q || p->atom->key < q->atom->key)) {
      out->at[out->count++] = a->at[i++];
    } else {
      out->at[out->count++] = b->at[j++];
    }
  }
  out->degree = a->degree + b->degree;
  return out;
}

/* a/b; NULL unless b divides a. */
static const Mono *mono_over(Linear *lin, const Mono *a, const Mono *b) {
  if (a->degree < b->degree || a->count > MAX_POWERS)
    return NULL;
  Mono *out = mono_scratch(lin, a->count);
  uint32_t j = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    Power p = a->at[i];
    if (j < b->count && b->at[j].atom == p.atom) {
      if (b->at[j].exp > p.exp)
        return NULL;
      p.exp -= b->at[j++].exp;
    }
    if (p.exp)
      out->at[out->count++] = p;
  }
  out->degree = a->degree - b->degree;
  return j == b->count ? out : NULL;
}

static bool atom_nonneg(const Linear *lin, const Atom *atom) {
  if (dim_atom_nonneg(atom))
    return true;
  for (uint32_t i = 0; i < lin->known_count; i++)
    if (lin->known[i] == atom)
      return true;
  return false;
}

static bool mono_nonneg(const Linear *lin, const Mono *mono) {
  for (uint32_t i = 0; i < mono->count; i++)
    if (mono->at[i].exp % 2 && !atom_nonneg(lin, mono->at[i].atom))
      return false;
  return true;
}

/* ---- rows ---- */

static bool fits(Num n, int64_t *value) {
  int64_t most = (int64_t)1 << MAX_ROW_COEF_BITS;
  *value = n.small;
  return !n.limbs && n.small < most && n.small > -most;
}

/* The row of sign*d*by (by may be NULL); NULL when it does not fit, or would
 * need more than most_new columns that do not exist. */
static Row *row_new(Linear *lin, const Dim *d, const Mono *by, int sign,
                    bool eq, uint32_t most_new) {
  Row *row =
      scratch_alloc(lin->scratch, sizeof *row + d->count * sizeof(Cell));
  *row = (Row){.eq = eq};
  const Mono **monos =
      scratch_alloc(lin->scratch, sizeof *monos * (d->count + 1));
  for (uint32_t i = 0; i < d->count; i++) {
    int64_t coef;
    monos[i] = mono_times(lin, d->at[i].mono, by);
    if (!monos[i] || !fits(d->at[i].coef, &coef))
      return NULL;
    if (monos[i]->count && column_of(lin, monos[i], false) == UINT32_MAX &&
        !most_new--)
      return NULL;
  }
  for (uint32_t i = 0; i < d->count; i++) {
    int64_t coef = sign * d->at[i].coef.small;
    if (!monos[i]->count) {
      row->constant = coef;
      continue;
    }
    uint32_t column = column_of(lin, monos[i], true);
    if (column == UINT32_MAX)
      return NULL;
    row->at[row->count++] = (Cell){column, coef};
  }
  return row;
}

static bool row_keep(Linear *lin, const Row *row) {
  if (!row || lin->row_count == MAX_ROWS)
    return false;
  lin->rows[lin->row_count++] = row;
  return true;
}

/* A polynomial that is never negative (or 0): a row, and a source of
 * products. */
static bool poly_keep(Linear *lin, Dim *d, bool eq) {
  if (!row_keep(lin, row_new(lin, d, NULL, 1, eq, UINT32_MAX)))
    return false;
  if (lin->source_count < MAX_SOURCES)
    lin->sources[lin->source_count++] = (Poly){d, eq};
  return true;
}

/* ---- what holds of atoms ---- */

/* Computed once per atom.  A division: a - b*q, b - 1 - (a - b*q), and for a
 * symbolic divisor b - 1, and a - q which holds where q >= 0. */
static void atom_bounds(DimCtx *cx, Atom *atom) {
  if (atom->bounds || !atom->arg_count)
    return;
  Dim **bounds = NEW_ARRAY(cx->arena, Dim *, atom->arg_count + 4);
  uint32_t n = 0;
  Dim *a = atom->args[0], *b = atom->args[1], *one = dim_int(cx, 1);
  if (atom->kind != AT_DIV) {
    for (; n < atom->arg_count; n++)
      bounds[n] = atom->kind == AT_MIN
                      ? dim_sub(cx, atom->args[n], atom->dim)
                      : dim_sub(cx, atom->dim, atom->args[n]);
  } else if (!dim_is_const(b) || dim_sign(b) > 0) {
    Dim *rest = dim_sub(cx, a, dim_mul(cx, b, atom->dim));
    Dim *most = dim_sub(cx, b, one);
    bounds[n++] = rest;
    bounds[n++] = dim_sub(cx, most, rest);
    if (!dim_is_const(b)) {
      bounds[n++] = most;
      bounds[n++] = dim_sub(cx, a, atom->dim);
    }
  }
  atom->bounds = bounds;
  atom->bound_count = n;
}

/* Divisions by what is not constant: the sign of q follows from that of a, but
 * not linearly. */
static void sign_of_quotient(Linear *lin, Atom *atom) {
  Dim *a = atom->args[0], *b = atom->args[1];
  bool nonneg = atom_nonneg(lin, atom);
  if (!nonneg && lin->nonneg && lin->nonneg(lin->arg, a) &&
      lin->known_count < SOLVER_COLUMNS) {
    lin->known[lin->known_count++] = atom;
    nonneg = true;
  }
  if (nonneg) {
    poly_keep(lin, atom->dim, false);
    poly_keep(lin, atom->bounds[3], false);
  }
  Dim *less = dim_sub(lin->cx, dim_sub(lin->cx, b, a), dim_int(lin->cx, 1));
  if (lin->nonneg && lin->nonneg(lin->arg, less))
    poly_keep(lin, dim_neg(lin->cx, atom->dim), false);
}

/* n/3 + (n + 1)/3 + (n + 2)/3 == n needs the cases of n % 3: where several
 * divisions have one divisor, their remainders are cases. */
static void residue_split(Linear *lin, const Atom *atom, uint32_t row) {
  int64_t by;
  if (!dim_is_int(atom->args[1], &by) || by > MAX_RESIDUES ||
      lin->split_count == MAX_SPLITS)
    return;
  for (uint32_t i = 0; i + 1 < lin->seen_count; i++)
    if (lin->seen[i]->kind == AT_DIV &&
        dim_equal(lin->seen[i]->args[1], atom->args[1])) {
      lin->splits[lin->split_count++] = (Split){row, (uint32_t)by, true};
      return;
    }
}

static void bound_atom(Linear *lin, Atom *atom) {
  if (!atom->arg_count || lin->seen_count == SOLVER_COLUMNS)
    return;
  for (uint32_t i = 0; i < lin->seen_count; i++)
    if (lin->seen[i] == atom)
      return;
  lin->seen[lin->seen_count++] = atom;
  atom_bounds(lin->cx, atom);
  bool symbolic = atom->kind == AT_DIV && atom->bound_count > 2;
  uint32_t first = lin->row_count, count = symbolic ? 3 : atom->bound_count;
  bool all = true;
  for (uint32_t i = 0; i < count; i++)
    all &= poly_keep(lin, atom->bounds[i], false);
  if (symbolic)
    sign_of_quotient(lin, atom);
  if (atom->kind != AT_DIV && all && lin->split_count < MAX_SPLITS)
    lin->splits[lin->split_count++] = (Split){first, count, false};
  if (atom->kind == AT_DIV && !symbolic && count)
    residue_split(lin, atom, first);
}

/* x^e*y >= x^(e - 1)*y where y >= 0, and x >= 0 or e is even. */
static void bound_square(Linear *lin, const Mono *mono, const Power *power) {
  Mono *one = mono_scratch(lin, 1);
  one->count = one->degree = 1;
  one->at[0] = (Power){power->atom, 1};
  const Mono *less = mono_over(lin, mono, one);
  if (!less || (power->exp % 2 && !atom_nonneg(lin, power->atom)))
    return;
  for (uint32_t i = 0; i < mono->count; i++)
    if (mono->at[i].atom != power->atom && mono->at[i].exp % 2 &&
        !atom_nonneg(lin, mono->at[i].atom))
      return;
  Row *row = scratch_alloc(lin->scratch, sizeof *row + 2 * sizeof(Cell));
  *row = (Row){.count = 2};
  row->at[0] = (Cell){column_of(lin, mono, true), 1};
  row->at[1] = (Cell){column_of(lin, less, true), -1};
  if (row->at[1].column != UINT32_MAX)
    row_keep(lin, row);
}

static void bound_column(Linear *lin, uint32_t column) {
  const Mono *mono = lin->columns[column];
  for (uint32_t i = 0; i < mono->count; i++)
    bound_atom(lin, mono->at[i].atom);
  if (mono_nonneg(lin, mono)) {
    Row *row = scratch_alloc(lin->scratch, sizeof *row + sizeof(Cell));
    *row = (Row){.count = 1};
    row->at[0] = (Cell){column, 1};
    row_keep(lin, row);
  }
  for (uint32_t i = 0; i < mono->count; i++)
    if (mono->at[i].exp > 1)
      bound_square(lin, mono, &mono->at[i]);
}

static void bound_columns(Linear *lin) {
  while (lin->bounded < lin->column_count)
    bound_column(lin, lin->bounded++);
}

/* ---- products of facts ---- */

static bool product_done(Linear *lin, uint32_t source, const Mono *by) {
  for (uint32_t i = 0; i < lin->product_count; i++)
    if (lin->products[i].source == source &&
        !dim_mono_cmp(lin->products[i].by, by))
      return true;
  return false;
}

/* Multiplies a source by what takes one of its terms to the column. */
static void product_try(Linear *lin, uint32_t source, const Mono *column) {
  const Poly *poly = &lin->sources[source];
  if (poly->d->count == 0)
    return;
  for (uint32_t i = 0; i < poly->d->count; i++) {
    const Mono *mono = poly->d->at[i].mono;
    if (!mono->count || mono->degree >= column->degree)
      continue;
    if (lin->product_count == SOLVER_PRODUCTS ||
        !scratch_effort(lin->scratch, 20))
      return;
    const Mono *by = mono_over(lin, column, mono);
    if (!by || poly->d->at[0].mono->degree + by->degree > lin->most_degree ||
        (!poly->eq && !mono_nonneg(lin, by)) ||
        product_done(lin, source, by))
      continue;
    lin->products[lin->product_count++] = (Product){source, by};
    row_keep(lin, row_new(lin, poly->d, by, 1, poly->eq, 2));
  }
}

/* Products may meet new columns, so this goes round a few times. */
static void products(Linear *lin) {
  uint32_t from = 0;
  for (uint32_t c = 0; c < lin->column_count; c++)
    if (lin->columns[c]->degree >= lin->most_degree)
      lin->most_degree = lin->columns[c]->degree + 1;
  for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
    uint32_t columns = lin->column_count, sources = lin->source_count;
    for (uint32_t c = from; c < columns; c++)
      if (lin->columns[c]->degree > 1)
        for (uint32_t s = 0; s < sources; s++)
          product_try(lin, s, lin->columns[c]);
    bound_columns(lin);
    from = columns;
  }
}

/* ---- systems ---- */

Linear *linear_new(DimCtx *cx, Scratch *scratch, const Poly *polys,
                   uint32_t count, Dim *goal, bool (*nonneg)(void *, Dim *),
                   void *arg) {
  Linear *lin = scratch_alloc(scratch, sizeof *lin);
  memset(lin, 0, offsetof(Linear, columns));
  lin->cx = cx;
  lin->scratch = scratch;
  lin->nonneg = nonneg;
  lin->arg = arg;
  if (goal) /* its columns first: they count */
    row_new(lin, goal, NULL, 1, false, UINT32_MAX);
  for (uint32_t i = 0; i < count; i++)
    poly_keep(lin, polys[i].d, polys[i].eq);
  bound_columns(lin);
  lin->plain_count = lin->row_count;
  products(lin);
  return lin;
}

void linear_at_least(Linear *lin, Dim *d) {
  if (lin->least_count < SOLVER_COLUMNS)
    lin->least[lin->least_count++] = d;
}

/* Only sizes, so at least 1 where each size is.  What data decides may well be
 * 0. */
static bool mono_of_sizes(const Mono *mono) {
  for (uint32_t i = 0; i < mono->count; i++) {
    const DimVar *var = mono->at[i].atom->var;
    if (!var || var->value || var->kind == DV_INDEX || var->kind == DV_DATA)
      return false;
  }
  return true;
}

/* Where each size is at least 1: n*m >= 1, and n*m >= n. */
static void at_least_one_rows(Linear *lin) {
  for (uint32_t i = 0; i < lin->least_count; i++)
    row_keep(lin, row_new(lin, lin->least[i], NULL, 1, false, UINT32_MAX));
  for (uint32_t c = 0; c < lin->column_count; c++) {
    if (!mono_of_sizes(lin->columns[c]))
      continue;
    Row *row = scratch_alloc(lin->scratch, sizeof *row + sizeof(Cell));
    *row = (Row){.count = 1, .constant = -1};
    row->at[0] = (Cell){c, 1};
    row_keep(lin, row);
    for (uint32_t e = 0; e < lin->column_count; e++) {
      if (e == c || !mono_of_sizes(lin->columns[e]) ||
          !mono_over(lin, lin->columns[c], lin->columns[e]))
        continue;
      row = scratch_alloc(lin->scratch, sizeof *row + 2 * sizeof(Cell));
      *row = (Row){.count = 2};
      row->at[0] = (Cell){c, 1};
      row->at[1] = (Cell){e, -1};
      row_keep(lin, row);
    }
  }
}

/* Infeasible in every case of the splits from `split` on. */
static bool cases(Linear *lin, uint32_t split, uint32_t *budget) {
  if (!*budget)
    return false;
  --*budget;
  if (fm_infeasible(lin->scratch, lin->column_count, lin->rows,
                    lin->row_count))
    return true;
  if (split == lin->split_count)
    return false;
  const Split *s = &lin->splits[split];
  uint32_t keep = lin->row_count;
  for (uint32_t i = 0; i < s->count; i++) {
    const Row *bound = lin->rows[s->first + (s->residue ? 0 : i)];
    size_t size = sizeof *bound + bound->count * sizeof(Cell);
    Row *tight = scratch_alloc(lin->scratch, size);
    memcpy(tight, bound, size);
    tight->eq = true;
    tight->constant -= s->residue ? i : 0;
    bool refuted = row_keep(lin, tight) && cases(lin, split + 1, budget);
    lin->row_count = keep;
    if (!refuted)
      return false;
  }
  return true;
}

/* The goal is a fact too: i < c*h refutes h <= i/c, times c. */
static void goal_products(Linear *lin, Dim *d, bool eq) {
  uint32_t columns = lin->column_count, source = lin->source_count;
  if (source == MAX_SOURCES)
    return;
  lin->sources[lin->source_count++] = (Poly){d, eq};
  for (uint32_t c = 0; c < columns; c++)
    if (lin->columns[c]->degree > 1)
      product_try(lin, source, lin->columns[c]);
  bound_columns(lin);
}

/* Without the products of facts, which are many and rarely needed: with what
 * was added from row `from` on alone. */
static bool plainly(Linear *lin, uint32_t from) {
  if (lin->plain_count == from)
    return false;
  const Row **rows =
      scratch_alloc(lin->scratch, sizeof *rows * (lin->row_count + 1));
  uint32_t n = lin->plain_count;
  memcpy(rows, lin->rows, sizeof *rows * n);
  for (; from < lin->row_count; from++)
    rows[n++] = lin->rows[from];
  return fm_infeasible(lin->scratch, lin->column_count, rows, n);
}

bool linear_refutes(Linear *lin, Dim *d, bool eq, bool at_least_one) {
  char counts[offsetof(Linear, columns)]; /* back to these afterwards */
  uint32_t budget = SOLVER_CASES;
  ScratchMark mark = scratch_mark(lin->scratch);
  memcpy(counts, lin, sizeof counts);
  Row *row = row_new(lin, d, NULL, 1, eq, UINT32_MAX);
  bool refuted = false;
  uint32_t from = lin->row_count;
  if (row_keep(lin, row)) {
    goal_products(lin, d, eq);
    if (at_least_one)
      at_least_one_rows(lin);
    refuted = plainly(lin, from) || cases(lin, 0, &budget);
  }
  memcpy(lin, counts, sizeof counts);
  scratch_release(lin->scratch, mark);
  return refuted;
}
