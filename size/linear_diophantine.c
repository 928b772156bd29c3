/* Solves systems of equations over the integers.  Main entry points:
 * dim_system_add and dim_system_next.
 *
 * Each monomial is an unknown: a variable, but also a product or a quotient.
 * Solutions of earlier equations are substituted into a new equation.  Then it
 * is divided by the gcd of its coefficients; its constant must be a multiple of
 * the gcd.  If an unknown has coefficient 1, the equation is solved for it.
 * Otherwise, as in the Omega test (Pugh, 1991), a parameter replaces the
 * unknown with the smallest coefficient.  For 2*x + 3*y == 7 the parameter is t
 * == x + y, which leaves 2*t + y == 7.  So all solutions are linear in
 * parameters and in the remaining unknowns, and a system without integer
 * solutions is detected.
 *
 * Treating nonlinear monomials as unknowns can only add solutions, never remove
 * one.  An equation whose coefficients overflow, or for which there is no
 * space, is left out. */
#include "solver.h"
#include "support/arena.h"
#include "support/int_math.h"

#include <string.h>

enum { MAX_UNKNOWNS = 96, MAX_SOLUTION_TERMS = 16, MAX_SYSTEM_COEF = 1 << 30 };

typedef struct SolvedUnknown { /* an unknown in terms of other columns */
  uint32_t column;
  int64_t *equation;  /* row that is 0; the coefficient of column is -1 */
  uint64_t equations; /* bits of the equations it was derived from */
} SolvedUnknown;

struct DimSystem {
  DimCtx *cx;
  uint32_t column_count, solved_count, equation_count;
  const Monomial *columns[MAX_UNKNOWNS]; /* NULL for a parameter */
  SolvedUnknown solved[MAX_UNKNOWNS];
  uint64_t unsat_core; /* equations that contradict each other */
};

DimSystem *dim_system_new(DimCtx *cx) {
  DimSystem *s = NEW(cx->arena, DimSystem);
  s->cx = cx;
  return s;
}

uint64_t dim_system_unsat_core(const DimSystem *s) {
  return s->unsat_core;
}

/* ---- rows ---- */

static uint32_t column_new(DimSystem *s, const Monomial *mono) {
  if (s->column_count == MAX_UNKNOWNS)
    return UINT32_MAX;
  s->columns[s->column_count] = mono;
  return s->column_count++;
}

static uint32_t column_of(DimSystem *s, const Monomial *mono) {
  for (uint32_t i = 0; i < s->column_count; i++)
    if (s->columns[i] && !dim_monomial_cmp(s->columns[i], mono))
      return i;
  return column_new(s, mono);
}

static bool fits(int64_t n) {
  return n > -MAX_SYSTEM_COEF && n < MAX_SYSTEM_COEF;
}

static bool row_of_poly(DimSystem *s, const Dim *d, int64_t *row) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    BigInt n = d->terms[i].coef;
    const Monomial *mono = d->terms[i].mono;
    uint32_t at =
        mono->power_count ? column_of(s, mono) : (uint32_t)MAX_UNKNOWNS;
    if (at == UINT32_MAX || n.limbs || !fits(n.small))
      return false;
    row[at] = n.small;
  }
  return true;
}

/* Returns false if a coefficient becomes too large. */
static bool row_substitute(int64_t *row, const SolvedUnknown *one) {
  if (!row_eliminate(row, one->equation, one->column, MAX_UNKNOWNS))
    return false;
  for (uint32_t i = 0; i <= MAX_UNKNOWNS; i++)
    if (!fits(row[i]))
      return false;
  return true;
}

/* ---- which unknown an equation is solved for ---- */

static const DimVar *unsolved_meta(const Monomial *mono) {
  const DimVar *v = mono->degree == 1 ? mono->powers[0].atom->var : NULL;
  return v && v->kind == DV_META && !v->solution && !v->unknown ? v : NULL;
}

/* Parameters come first, so that few solutions contain any.  Then the newest
   unsolved size, then opaque monomials. */
static uint64_t pivot_priority(const DimSystem *s, uint32_t column) {
  const Monomial *mono = s->columns[column];
  if (!mono)
    return UINT64_MAX;
  const DimVar *v = unsolved_meta(mono);
  bool var = mono->degree == 1 && mono->powers[0].atom->kind == ATOM_VAR;
  return v ? (uint64_t)v->id + 3 : var ? 1 : 2;
}

static uint32_t unit_pivot(const DimSystem *s, const int64_t *row) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < s->column_count; i++)
    if (int_magnitude(row[i]) == 1 &&
        (best == UINT32_MAX || pivot_priority(s, i) > pivot_priority(s, best)))
      best = i;
  return best;
}

static uint32_t smallest_coef_pivot(const DimSystem *s, const int64_t *row) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < s->column_count; i++)
    if (row[i] && (best == UINT32_MAX ||
                   int_magnitude(row[i]) < int_magnitude(row[best])))
      best = i;
  return best;
}

/* ---- solving ---- */

static int64_t *row_new(DimSystem *s) {
  return NEW_ARRAY(s->cx->arena, int64_t, MAX_UNKNOWNS + 1);
}

/* Solves the unknown of a column by an equation, and substitutes it into all
   earlier solutions. */
static bool add_solution(DimSystem *s, uint32_t column, int64_t *equation,
                         uint64_t from) {
  SolvedUnknown one = {column, equation, from};
  for (uint32_t i = 0; i < s->solved_count; i++) {
    SolvedUnknown *old = &s->solved[i];
    if (old->equation[column])
      old->equations |= from;
    if (!row_substitute(old->equation, &one))
      return false;
  }
  s->solved[s->solved_count++] = one;
  return true;
}

static void row_negate(int64_t *row) {
  for (uint32_t i = 0; i <= MAX_UNKNOWNS; i++)
    row[i] = -row[i];
}

/* Solves row == 0 for the column, whose coefficient is 1 or -1. */
static bool solve_by_unit_pivot(DimSystem *s, int64_t *row, uint32_t column,
                                uint64_t from) {
  if (row[column] > 0)
    row_negate(row);
  return add_solution(s, column, row, from);
}

/* Introduces a parameter for the column: t == x + sum of (row[i] /
   row[x])*i. */
static bool introduce_parameter(DimSystem *s, int64_t *row, uint32_t column) {
  uint32_t t = column_new(s, NULL);
  int64_t *at = row_new(s);
  if (t == UINT32_MAX)
    return false;
  if (row[column] < 0)
    row_negate(row);
  int64_t by = row[column];
  for (uint32_t i = 0; i <= MAX_UNKNOWNS; i++) {
    at[i] = -int_floor_div(row[i], by);
    row[i] += by * at[i];
  }
  at[column] = -1;
  at[t] = 1;
  row[column] = 0;
  row[t] = by;
  return add_solution(s, column, at, 0);
}

/* Discards all equations. */
static bool discard_system(DimSystem *s) {
  s->solved_count = s->column_count = 0;
  return true;
}

bool dim_system_add(DimSystem *s, Dim *d) {
  uint64_t from = (uint64_t)1 << (s->equation_count++ % 64);
  uint32_t columns = s->column_count;
  int64_t *row = row_new(s);
  if (!row_of_poly(s, d, row)) {
    s->column_count = columns;
    return true;
  }
  for (uint32_t i = 0; i < s->solved_count; i++) {
    if (row[s->solved[i].column])
      from |= s->solved[i].equations;
    if (!row_substitute(row, &s->solved[i]))
      return true;
  }
  for (;;) {
    if (!row_normalize_equation(row, MAX_UNKNOWNS)) {
      s->unsat_core = from;
      return false;
    }
    uint32_t unit = unit_pivot(s, row), smallest = smallest_coef_pivot(s, row);
    if (smallest == UINT32_MAX)
      return true; /* 0 == 0 */
    if (unit != UINT32_MAX)
      return solve_by_unit_pivot(s, row, unit, from) ? true : discard_system(s);
    if (!introduce_parameter(s, row, smallest))
      return discard_system(s);
  }
}

/* ---- what was found ---- */

/* Returns NULL if the solution contains a parameter or is too long to be
   useful. */
static Dim *solution_value(const DimSystem *s, const SolvedUnknown *one) {
  DimCtx *cx = s->cx;
  uint32_t terms = 0;
  for (uint32_t i = 0; i < s->column_count; i++)
    if (i != one->column && one->equation[i] &&
        (!s->columns[i] || ++terms > MAX_SOLUTION_TERMS))
      return NULL;
  Dim *sum = dim_int(cx, one->equation[MAX_UNKNOWNS]);
  for (uint32_t i = 0; i < s->column_count; i++)
    if (i != one->column && one->equation[i])
      sum = dim_add(
          cx, sum, dim_of_term(cx, bigint_of(one->equation[i]), s->columns[i]));
  return sum;
}

bool dim_system_next(const DimSystem *s, uint32_t *at, DimSolution *out) {
  while (*at < s->solved_count) {
    const SolvedUnknown *one = &s->solved[(*at)++];
    const Monomial *mono = s->columns[one->column];
    if (!mono || !unsolved_meta(mono))
      continue;
    *out = (DimSolution){mono->powers[0].atom->var, solution_value(s, one),
                         one->equations};
    if (out->value && !dim_mentions(s->cx, out->value, out->var))
      return true;
  }
  return false;
}
