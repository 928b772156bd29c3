/* Exact evaluation of sizes at integers.  The searches for models and for
 * counterexamples use it.  Main entry point: dim_evaluate. */
#include "solver.h"

static bool evaluate_compound(Evaluation *e, Atom *atom, int64_t *value) {
  if (atom->visit_epoch == e->epoch) {
    *value = atom->model_value;
    return true;
  }
  int64_t best = 0;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    int64_t x;
    if (!dim_evaluate(e, atom->args[i], &x))
      return false;
    if (!i)
      best = x;
    else if (atom->kind == ATOM_DIV && x < 1)
      return false;
    else if (atom->kind == ATOM_DIV)
      best = best / x - (best % x < 0);
    else if (atom->kind == ATOM_MIN ? x < best : x > best)
      best = x;
  }
  atom->visit_epoch = e->epoch;
  *value = atom->model_value = best;
  return true;
}

bool dim_evaluate(Evaluation *e, const Dim *d, int64_t *value) {
  *value = 0;
  for (uint32_t i = 0; i < d->term_count; i++) {
    if (!e->effort-- || d->terms[i].coef.limbs) {
      e->effort = 0;
      return false;
    }
    const Monomial *mono = d->terms[i].mono;
    int64_t x, term = d->terms[i].coef.small;
    if (mono->degree == 1 && !mono->powers[0].atom->arg_count) {
      if (__builtin_mul_overflow(term, mono->powers[0].atom->model_value,
                                 &term) ||
          __builtin_add_overflow(*value, term, value))
        return false;
      continue;
    }
    for (uint32_t j = 0; j < mono->power_count; j++) {
      Atom *atom = mono->powers[j].atom;
      if (!atom->arg_count)
        x = atom->model_value;
      else if (!evaluate_compound(e, atom, &x))
        return false;
      for (uint32_t k = 0; k < mono->powers[j].exp; k++)
        if (__builtin_mul_overflow(term, x, &term))
          return false;
    }
    if (__builtin_add_overflow(*value, term, value))
      return false;
  }
  return true;
}
