/* Solves systems of equations that no single equation decides: 2*n + 3*m == 16
   and 3*n + 2*m == 14 give n == 2 and m == 4.  Runs when a function is
   generalized, and at the end of a declaration.  Main entry point:
   solve_equation_systems. */
#include "typecheck/solver.h"
#include "support/arena_text.h"
#include "support/diag.h"

enum {
  MAX_BISECTED_SIZE = 1 << 30,
  MAX_TRIED_VALUES = 1000,
  MAX_EQUATIONS = 64
};

typedef VEC(Constraint *) UnsolvedEquations;

/* True if the equation holds in every branch. */
static bool is_unconditional_eq(const Constraint *k) {
  return k->kind == CN_DIM_EQ && !k->solved && !k->is_given &&
         !k->is_implication && !k->sufficient_only && !k->at_run_time &&
         !assumption_has_condition(k->assumptions);
}

static Dim *difference(Checker *c, const Constraint *k) {
  return dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
}

static bool is_unsolved(const DimVar *v) {
  return v->kind == DV_META && !v->solution && !v->unknown;
}

static bool bind_value(Checker *c, DimVar *v, Dim *value, Constraint *k) {
  return bind_solution(c, k, v, dim_resolve(c->dims, value)) == ENTAILED;
}

/* ---- linear systems ---- */

/* Reports an equation that contradicts the others, with their spans. */
static void report_inconsistent_system(Checker *c, const UnsolvedEquations *all,
                                       uint64_t unsat_core) {
  Constraint *last = NULL;
  for (uint32_t i = 0; i < all->len; i++)
    if (unsat_core >> i & 1)
      last = all->at[i];
  last->solved = true;
  uint32_t before = c->diags->all.len;
  VarNames *names = var_names_share(c);
  report_constraint(c, last);
  for (uint32_t i = 0; c->diags->all.len > before && i < all->len; i++) {
    const Constraint *k = all->at[i];
    const char *x, *y;
    if (!(unsat_core >> i & 1) || k == last)
      continue;
    dims_text(c, k->left, k->right, &x, &y);
    diag_add_label(c->arena, c->diags->all.at[before], k->origin->span,
                   arena_printf(c->arena, "where %s == %s", x, y));
  }
  c->notes.message_names = names;
}

/* False for a solution of a single equation: that equation waits for another
   reason. */
static bool is_useful_solution(const DimSolution *found) {
  return dim_is_const(found->value) ||
         ((found->equations & (found->equations - 1)) &&
          !dim_has_reshape_hole(found->value) && !found->var->reshape_hole);
}

/* The last of the equations from which the solution is derived. */
static Constraint *last_source_equation(const UnsolvedEquations *all,
                                        const DimSolution *found) {
  uint32_t last = 0;
  while (found->equations >> last > 1)
    last++;
  return all->at[last];
}

static bool solve_linear_system(Checker *c, const UnsolvedEquations *all) {
  DimSystem *s = dim_system_new(c->dims);
  for (uint32_t i = 0; i < all->len; i++)
    if (!dim_system_add(s, difference(c, all->at[i]))) {
      report_inconsistent_system(c, all, dim_system_unsat_core(s));
      return true;
    }
  DimSolution found;
  bool any = false;
  for (uint32_t at = 0; dim_system_next(s, &at, &found);) {
    Dim *value = dim_resolve(c->dims, found.value);
    if (!is_useful_solution(&found) || dim_mentions(c->dims, value, found.var))
      continue;
    Constraint *k = last_source_equation(all, &found);
    Verdict v = bind_solution(c, k, found.var, value);
    if (v == CONTRADICTED) {
      k->solved = true;
      report_constraint(c, k);
    }
    any |= v != UNDECIDED;
  }
  return any;
}

/* ---- one equation simplified by another one ---- */

static bool is_bindable(void *arg, DimVar *v) {
  (void)arg;
  return is_unsolved(v);
}

static bool bind_from_reduced(Checker *c, Dim *reduced, Dim *d, Constraint *k) {
  DimVar *v;
  Dim *value;
  if (dim_equal(reduced, d))
    return false;
  reduced = dim_cancel_common_factor(c->dims, reduced);
  return !dim_has_reshape_hole(reduced) &&
         dim_solve_for_meta(c->dims, reduced, is_bindable, NULL, &v, &value) &&
         bind_value(c, v, value, k);
}

/* If h divides n and m, then n/h == m/h gives n == m. */
static bool bind_by_exact_division(Checker *c, const UnsolvedEquations *all,
                                   Constraint *k, Dim *d) {
  Dim *reduced = d;
  for (uint32_t i = 0; i < all->len; i++) {
    const Constraint *o = all->at[i];
    if (o != k && o->divisibility)
      reduced = dim_eliminate_exact_division(c->dims, reduced,
                                             dim_resolve(c->dims, o->left),
                                             dim_resolve(c->dims, o->divisor));
  }
  return bind_from_reduced(c, reduced, d, k);
}

/* h == g*r turns h*e == h*d into g*r*e == h*d, which gives d == e. */
static bool bind_by_product(Checker *c, Dim *d, Dim *by, Constraint *k) {
  Dim *reduced;
  for (uint32_t i = 0; (reduced = dim_reduce_modulo(c->dims, d, by, i)); i++)
    if (bind_from_reduced(c, reduced, d, k))
      return true;
  return false;
}

static bool solve_by_substitution(Checker *c, const UnsolvedEquations *all) {
  Dim *at[MAX_EQUATIONS];
  for (uint32_t i = 0; i < all->len; i++) {
    constraint_as_divisibility(c, all->at[i], NULL);
    at[i] = difference(c, all->at[i]);
  }
  for (uint32_t i = 0; i < all->len; i++) {
    if (bind_by_exact_division(c, all, all->at[i], at[i]))
      return true;
    for (uint32_t j = 0; j < all->len; j++)
      if (i != j && bind_by_product(c, at[i], at[j], all->at[i]))
        return true;
  }
  return false;
}

/* ---- the only number that satisfies all equations ---- */

static bool at_most(Checker *c, DimVar *v, int64_t n) {
  Dim *d = dim_sub(c->dims, dim_int(c->dims, n), dim_of_var(c->dims, v));
  return dim_check_ge0(c->facts.loaded, dim_resolve(c->dims, d), false) ==
         ENTAILED;
}

static bool below(Checker *c, DimVar *v, int64_t n) {
  Dim *d = dim_sub(c->dims, dim_of_var(c->dims, v), dim_int(c->dims, n));
  return dim_check_ge0(c->facts.loaded, dim_resolve(c->dims, d), false) !=
         ENTAILED;
}

/* The smallest number from 0 to n for which `holds` is true.  It must be true
   for n. */
static int64_t bisect_min(Checker *c, DimVar *v, int64_t n,
                          bool (*holds)(Checker *, DimVar *, int64_t)) {
  int64_t low = 0;
  while (low < n) {
    int64_t mid = low + (n - low) / 2;
    if (holds(c, v, mid))
      n = mid;
    else
      low = mid + 1;
  }
  return low;
}

typedef struct TrialValue {
  DimVar *var;
  Dim *value;
} TrialValue;

static Dim *substitute_trial(void *arg, DimVar *v) {
  const TrialValue *t = arg;
  return v == t->var ? t->value : NULL;
}

static bool satisfies(Checker *c, const UnsolvedEquations *all, DimVar *v,
                      int64_t n) {
  TrialValue t = {v, dim_int(c->dims, n)};
  for (uint32_t i = 0; i < all->len; i++) {
    Dim *d = dim_subst(c->dims, difference(c, all->at[i]), substitute_trial,
                       NULL, &t);
    if (dim_is_const(d) && dim_sign(d))
      return false;
  }
  return true;
}

static bool bind_only_solution(Checker *c, const UnsolvedEquations *all,
                               DimVar *v) {
  assumption_load(c, c->facts.assumptions);
  for (uint32_t i = 0; i < all->len; i++)
    assumptions_add_eq(c->facts.loaded, difference(c, all->at[i]));
  if (v->is_integer || !at_most(c, v, MAX_BISECTED_SIZE) ||
      assumptions_inconsistent(c->facts.loaded))
    return false;
  int64_t high = bisect_min(c, v, MAX_BISECTED_SIZE, at_most);
  int64_t low = bisect_min(c, v, high + 1, below) - 1, found = -1;
  low = low < 0 ? 0 : low;
  if (high - low > MAX_TRIED_VALUES)
    return false;
  for (int64_t n = low; n <= high; n++) {
    if (!satisfies(c, all, v, n))
      continue;
    if (found >= 0)
      return false;
    found = n;
  }
  /* without a solution, any value shows the contradiction */
  return bind_value(c, v, dim_int(c->dims, found < 0 ? high : found),
                    all->at[0]);
}

static void find_unsolved(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (is_unsolved(v) && (!*out || v->id > (*out)->id))
    *out = v;
}

static DimVar *unsolved_in(Checker *c, const Constraint *k) {
  DimVar *v = NULL;
  dim_each_var(difference(c, k), find_unsolved, NULL, &v);
  return v;
}

static bool bind_any_only_solution(Checker *c, const UnsolvedEquations *all) {
  for (uint32_t i = 0; i < all->len; i++) {
    DimVar *v = unsolved_in(c, all->at[i]);
    if (v && bind_only_solution(c, all, v))
      return true;
  }
  return false;
}

/* ---- one size that sizes of data determine ---- */

static void note_other_unsolved(void *arg, DimVar *v) {
  DimVar **one = arg;
  if (is_unsolved(v) && v != one[0])
    one[1] = v;
}

/* n == 2*e gives e == n/2; whether 2 divides n is then checked. */
static bool bind_any_by_division(Checker *c, const UnsolvedEquations *all) {
  for (uint32_t i = 0; i < all->len; i++) {
    DimVar *one[2] = {unsolved_in(c, all->at[i]), NULL};
    dim_each_var(difference(c, all->at[i]), note_other_unsolved, NULL, one);
    if (one[0] && !one[1] && !one[0]->is_integer &&
        solve_by_division(c, all->at[i], one[0])) {
      add_size_le(c, dim_int(c->dims, 0), dim_of_var(c->dims, one[0]),
                  all->at[i]->origin);
      return true;
    }
  }
  return false;
}

/* ---- a size that is a term of itself ---- */

/* The newest size whose solution is the term d, or NULL. */
static DimVar *size_solved_by(Checker *c, const Dim *d) {
  for (uint32_t i = c->solver.solved_by_terms.len; i-- > 0;) {
    DimVar *v = c->solver.solved_by_terms.at[i].size;
    if (v->solution && !v->unknown &&
        dim_equal(dim_resolve(c->dims, dim_of_var(c->dims, v)), d))
      return v;
  }
  return NULL;
}

typedef struct NamedSize {
  Dim *name, *term; /* equal */
} NamedSize;

static Dim *name_of_size(TypeMapper *copy, Dim *d) {
  const NamedSize *size = copy->arg;
  return dim_equal(d, size->term) ? size->name : d;
}

/* Replaces the term in the constraints on shapes. */
static void name_in_shapes(Checker *c, uint32_t mark, NamedSize *size) {
  TypeMapper copy = {.c = c, .size = name_of_size, .arg = size};
  for (uint32_t i = mark; i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (k->solved || constraint_is_size(k))
      continue;
    const Constraint *named = constraint_copy(&copy, k);
    k->a = named->a, k->b = named->b;
    k->broadcast_args = named->broadcast_args;
  }
}

typedef struct TermSearch {
  const Dim *term;
  bool found;
} TermSearch;

static Dim *match_term(TypeMapper *copy, Dim *d) {
  TermSearch *s = copy->arg;
  s->found |= dim_equal(d, s->term);
  return d;
}

static bool is_in_parameter(Checker *c, const Dim *term) {
  TermSearch s = {term, false};
  TypeMapper copy = {.c = c, .size = match_term, .arg = &s};
  for (uint32_t i = 0; !s.found && i < c->inference.params.len; i++)
    ty_copy(&copy, c->inference.params.at[i].type);
  return s.found;
}

/* True for n % 2 == 1: other sizes do not keep the quotient (scheme.c). */
static bool is_remainder_equation(Checker *c, Dim *d) {
  Dim *num, *den, *offset = dim_int(c->dims, dim_offset(d));
  return dim_is_remainder(c->dims, dim_sub(c->dims, d, offset), &num, &den);
}

/* m was solved by a term of n, and an equation says that n == m.  Then m is n,
   which callers can read, and the equation says that n is the term. */
static bool name_any_term(Checker *c, uint32_t mark,
                          const UnsolvedEquations *all) {
  for (uint32_t i = 0; i < all->len; i++) {
    Dim *a = dim_resolve(c->dims, all->at[i]->left);
    Dim *b = dim_resolve(c->dims, all->at[i]->right);
    Dim *name = dim_as_var(a) ? a : b, *term = name == a ? b : a;
    DimVar *n = dim_as_var(name), *m = NULL;
    if (n && is_unsolved(n) && !n->is_integer && dim_mentions(c->dims, term, n))
      m = size_solved_by(c, term);
    if (!m || !(is_in_parameter(c, term) ||
                is_remainder_equation(c, dim_sub(c->dims, term, name))))
      continue;
    all->at[i]->left = term, all->at[i]->right = name;
    dim_replace_solution(c->dims, m, name);
    name_in_shapes(c, mark, &(NamedSize){name, term});
    wakeup_all(c);
    return true;
  }
  return false;
}

static UnsolvedEquations unsolved_equations(Checker *c, uint32_t mark) {
  UnsolvedEquations all = {0};
  for (uint32_t i = mark; i < c->solver.pending.len && all.len < MAX_EQUATIONS;
       i++) {
    Constraint *k = c->solver.pending.at[i];
    if (is_unconditional_eq(k) && !dim_has_unknown(difference(c, k)) &&
        unsolved_in(c, k) &&
        !forced_zero_size(c, dim_resolve(c->dims, k->left),
                          dim_resolve(c->dims, k->right)))
      VEC_PUSH(c->arena, all, k);
  }
  return all;
}

void solve_equation_systems(Checker *c, uint32_t mark, bool last) {
  for (bool more = true; more;) {
    UnsolvedEquations all = unsolved_equations(c, mark);
    more = name_any_term(c, mark, &all) ||
           (all.len > 1 &&
            (solve_linear_system(c, &all) || solve_by_substitution(c, &all))) ||
           (last && all.len &&
            (bind_any_only_solution(c, &all) || bind_any_by_division(c, &all)));
    if (more) {
      c->solver.progress = true;
      solve_pending(c);
      if (last)
        solve_reshape_holes(c, mark);
    }
  }
}
