/* Counterexamples for error messages: small sizes that satisfy the assumptions
 * and falsify a claim.  Main entry point: dim_counterexample.
 *
 * Variables that an equation defines are computed.  The others take values from
 * a list of candidates, small ones first.  Every assumption is evaluated
 * exactly, so a counterexample is never wrong.  The search is incomplete. */
#include "solver.h"
#include "support/arena.h"
#include "support/buffer.h"

#include <stdlib.h>

enum {
  MAX_SEARCH_VARIABLES = 16,
  MAX_CANDIDATES = 96,
  MAX_ORDERED_TUPLES = 14000, /* tuples tried in order; later ones are random */
  MAX_RANDOM_TUPLES = 6000,
};

typedef struct SearchVariable {
  Atom *atom;
  bool defined;
  uint32_t candidate_count;
  int64_t candidates[MAX_CANDIDATES];
  int64_t saved_model_value; /* Atom.model_value before the search */
} SearchVariable;

typedef struct Search {
  DimCtx *cx;
  Query query;
  SearchVariable variables[MAX_SEARCH_VARIABLES];
  uint32_t variable_count,
      shown_count; /* number of variables of the claim; they come first */
  uint32_t free[MAX_SEARCH_VARIABLES], free_count;
  bool overflow, eq;
  Evaluation evaluation;
  Dim *goal;
  Atom **def_atoms; /* by definition: the atom of its variable */
} Search;

/* ---- evaluation ---- */

static void add_variable(void *arg, Atom *atom) {
  Search *search = arg;
  for (uint32_t i = 0; i < search->variable_count; i++)
    if (search->variables[i].atom == atom)
      return;
  if (search->variable_count == MAX_SEARCH_VARIABLES) {
    search->overflow = true;
    return;
  }
  search->variables[search->variable_count++] =
      (SearchVariable){.atom = atom, .saved_model_value = atom->model_value};
}

static void add_variables_of(Search *search, const Dim *d) {
  dim_each_leaf(d, dim_next_visit_epoch(search->cx), add_variable, search);
}

static SearchVariable *find_variable(Search *search, const DimVar *var) {
  uint32_t i = 0;
  while (search->variables[i].atom->var != var)
    i++;
  return &search->variables[i];
}

/* The leaves have changed. */
static void start_evaluation(Search *search) {
  search->evaluation =
      (Evaluation){dim_next_visit_epoch(search->cx), UINT32_MAX};
}

/* Computes the defined variables.  False if one is no size. */
static bool compute_defined(Search *search) {
  const Query *query = &search->query;
  Evaluation *e = &search->evaluation;
  int64_t value;
  for (uint32_t i = query->def_count; i-- > 0;) {
    start_evaluation(search);
    if (!dim_evaluate(e, query->defs[i].value, &value) ||
        (value < 0 && !query->defs[i].var->is_integer))
      return false;
    search->def_atoms[i]->model_value = value;
  }
  return true;
}

/* True if the values of the free slots satisfy the assumptions and falsify the
   claim. */
static bool falsifies(Search *search) {
  const Query *query = &search->query;
  Evaluation *e = &search->evaluation;
  int64_t value;
  if (!compute_defined(search))
    return false;
  start_evaluation(search);
  if (!dim_evaluate(e, search->goal, &value) ||
      (search->eq ? value == 0 : value >= 0))
    return false;
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (!dim_evaluate(e, query->polys[i].d, &value) || value < 0 ||
        (query->polys[i].eq && value))
      return false;
  return true;
}

/* ---- choices ---- */

static void add_candidate(SearchVariable *variable, int64_t value) {
  const DimVar *var = variable->atom->var;
  if (value < 0 && (!var || !var->is_integer))
    return;
  for (uint32_t i = 0; i < variable->candidate_count; i++)
    if (variable->candidates[i] == value)
      return;
  if (variable->candidate_count < MAX_CANDIDATES)
    variable->candidates[variable->candidate_count++] = value;
}

/* Adds the constants of d, at any depth of divisions and minima. */
static void add_constant_candidates(SearchVariable *variable, const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    int64_t c = d->terms[i].coef.small;
    if (!d->terms[i].coef.limbs && c > -1000000000 && c < 1000000000) {
      add_candidate(variable, c < 0 ? -c : c);
      add_candidate(variable, (c < 0 ? -c : c) + 1);
      add_candidate(variable, (c < 0 ? -c : c) - 1);
    }
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      const Atom *atom = d->terms[i].mono->powers[j].atom;
      for (uint32_t k = 0; k < atom->arg_count; k++)
        add_constant_candidates(variable, atom->args[k]);
    }
  }
}

static void collect_candidates(Search *search, SearchVariable *variable) {
  static const int16_t typical_values[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,
                                           10, 11, 12, 13, 14, 15, 16, 17, 20,
                                           24, 28, 31, 32, 33, 50, 64, 100};
  const DimVar *var = variable->atom->var;
  if (var && (var->kind == DV_INDEX || var->is_integer))
    add_candidate(variable, 0);
  for (uint32_t i = 0; i < ARRAY_LEN(typical_values); i++) {
    add_candidate(variable, typical_values[i]);
    if (typical_values[i] < 10)
      add_candidate(variable, -typical_values[i]);
  }
  add_constant_candidates(variable, search->query.goal);
  for (uint32_t i = 0; i < search->query.poly_count; i++)
    add_constant_candidates(variable, search->query.polys[i].d);
  add_candidate(variable, 127);
  add_candidate(variable, 128);
  add_candidate(variable, 1000);
  add_candidate(variable, 0); /* a size of 0 is rarely the cause of an error */
}

/* ---- the search ---- */

static uint32_t assign_candidate(Search *search, uint32_t i, uint32_t index) {
  SearchVariable *variable = &search->variables[search->free[i]];
  if (index >= variable->candidate_count)
    index = variable->candidate_count - 1;
  variable->atom->model_value = variable->candidates[index];
  return index;
}

/* Tries all tuples whose largest index is `level`.  Decrements *budget. */
static bool search_tuples_at(Search *search, uint32_t level, uint32_t *budget) {
  uint32_t index[MAX_SEARCH_VARIABLES] = {0};
  for (; *budget; --*budget) {
    bool reached = !level;
    for (uint32_t i = 0; i < search->free_count; i++) {
      assign_candidate(search, i, index[i]);
      reached |= index[i] == level;
    }
    if (reached && falsifies(search))
      return true;
    uint32_t i = 0;
    while (i < search->free_count && index[i] == level)
      index[i++] = 0;
    if (i == search->free_count)
      return false;
    index[i]++;
  }
  return false;
}

static bool search_random(Search *search) {
  /* fixed seed, for reproducible results */
  uint64_t state = 0x2545F4914F6CDD1Du;
  for (uint32_t n = 0; n < MAX_RANDOM_TUPLES; n++) {
    for (uint32_t i = 0; i < search->free_count; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const SearchVariable *variable = &search->variables[search->free[i]];
      assign_candidate(search, i,
                       (uint32_t)(state >> 33) % variable->candidate_count);
    }
    if (falsifies(search))
      return true;
  }
  return false;
}

/* Replaces values of free slots by earlier candidates, one slot at a time. */
static void prefer_small(Search *search) {
  for (uint32_t i = 0; i < search->free_count; i++) {
    Atom *atom = search->variables[search->free[i]].atom;
    int64_t found = atom->model_value;
    for (uint32_t k = 0; k < MAX_CANDIDATES; k++) {
      assign_candidate(search, i, k);
      if (atom->model_value == found || falsifies(search))
        break;
    }
  }
  compute_defined(search);
}

static bool search_run(Search *search) {
  uint32_t budget = MAX_ORDERED_TUPLES, max = 1;
  for (uint32_t i = 0; i < search->free_count; i++) {
    const SearchVariable *variable = &search->variables[search->free[i]];
    if (variable->candidate_count > max)
      max = variable->candidate_count;
  }
  for (uint32_t level = 0; level < max && budget; level++)
    if (search_tuples_at(search, level, &budget))
      return true;
  if (!search->free_count || !search_random(search))
    return false;
  prefer_small(search);
  return true;
}

/* ---- setting up and showing ---- */

static bool search_collect(Search *search, Dim *d) {
  DimCtx *cx = search->cx;
  Query *query = &search->query;
  search->goal = d;
  search->def_atoms = NEW_ARRAY(cx->arena, Atom *, query->def_count + 1);
  add_variables_of(search, d);
  search->shown_count = search->variable_count;
  for (uint32_t i = 0; i < query->poly_count; i++)
    add_variables_of(search, query->polys[i].d);
  for (uint32_t i = 0; i < query->def_count; i++) {
    add_variables_of(search, query->defs[i].value);
    add_variables_of(search, dim_of_var(cx, query->defs[i].var));
  }
  if (search->overflow)
    return false;
  for (uint32_t i = 0; i < query->def_count; i++) {
    SearchVariable *defined = find_variable(search, query->defs[i].var);
    defined->defined = true;
    search->def_atoms[i] = defined->atom;
  }
  return true;
}

/* The model search begins with the last model (model_search.c). */
static void restore_model_values(Search *search) {
  for (uint32_t i = 0; i < search->variable_count; i++)
    search->variables[i].atom->model_value =
        search->variables[i].saved_model_value;
}

static int variable_cmp(const void *a, const void *b) {
  uint64_t x = ((const SearchVariable *)a)->atom->key,
           y = ((const SearchVariable *)b)->atom->key;
  return (x > y) - (x < y);
}

typedef struct ShownValues {
  int64_t at[MAX_SEARCH_VARIABLES];
} ShownValues;

static bool shown_are(const Search *search, const ShownValues *values) {
  for (uint32_t i = 0; i < search->shown_count; i++)
    if (search->variables[i].atom->model_value != values->at[i])
      return false;
  return true;
}

/* True if the claim holds, or an assumption fails, at some other small value of
   the variable, and the same values of the shown variables. */
static bool is_needed(Search *search, const SearchVariable *variable) {
  if (variable->defined)
    return false;
  ShownValues shown;
  for (uint32_t i = 0; i < search->shown_count; i++)
    shown.at[i] = search->variables[i].atom->model_value;
  int64_t value = variable->atom->model_value;
  bool needed = false;
  for (int64_t other = 1; other <= 3 && !needed; other++) {
    variable->atom->model_value = other;
    needed = compute_defined(search) && shown_are(search, &shown) &&
             !falsifies(search);
  }
  variable->atom->model_value = value;
  compute_defined(search);
  return needed;
}

/* Prints the variables of the claim, and those that conditions limit.  Also
   prints other variables that are 0, since a reader would not expect that. */
static void print_assignment(Search *search, Buffer *out) {
  for (uint32_t i = search->shown_count; i < search->variable_count; i++)
    if (!search->variables[i].atom->model_value ||
        is_needed(search, &search->variables[i])) {
      SearchVariable other = search->variables[i];
      search->variables[i] = search->variables[search->shown_count];
      search->variables[search->shown_count++] = other;
    }
  qsort(search->variables, search->shown_count, sizeof *search->variables,
        variable_cmp);
  for (uint32_t i = 0; i < search->shown_count; i++) {
    buffer_puts(out, i ? ", " : "");
    dim_print(search->cx, out, search->variables[i].atom->dim);
    buffer_printf(out, " = %lld",
                  (long long)search->variables[i].atom->model_value);
  }
}

typedef struct ForcedZeros {
  Search *search;
  Assumptions *facts;
  Buffer *out;
} ForcedZeros;

static void print_forced_zero(void *arg, Atom *atom) {
  ForcedZeros *z = arg;
  Search *search = z->search;
  uint32_t seen = search->variable_count;
  add_variable(search, atom);
  if (search->variable_count == seen)
    return; /* already shown, or too many */
  Dim *none = dim_neg(search->cx, atom->dim);
  if (dim_check_ge0(z->facts, none, false) != ENTAILED)
    return;
  buffer_puts(z->out, ", ");
  dim_print(search->cx, z->out, atom->dim);
  buffer_puts(z->out, " = 0");
}

/* Also prints sizes that must be 0 but share no assumption with the claim. */
static void print_forced_zeros(Search *search, Assumptions *assumptions,
                               Buffer *out) {
  ForcedZeros z = {search, assumptions, out};
  assumptions_each_leaf(assumptions, print_forced_zero, &z);
}

bool dim_counterexample(Assumptions *assumptions, Dim *d, bool eq,
                        Buffer *out) {
  DimCtx *cx = assumptions_cx(assumptions);
  Search *search = NEW(cx->arena, Search);
  search->cx = cx;
  search->eq = eq;
  d = dim_resolve(cx, d);
  ScratchMark mark = scratch_mark(assumptions_scratch(assumptions));
  query_init(&search->query, assumptions, d, UINT32_MAX);
  bool found = !search->query.contradiction && !search->query.incomplete &&
               search->query.poly_count < MAX_RELEVANT_ASSUMPTIONS &&
               search_collect(search, d) && search->shown_count;
  for (uint32_t i = 0; found && i < search->variable_count; i++)
    if (!search->variables[i].defined) {
      collect_candidates(search, &search->variables[i]);
      search->free[search->free_count++] = i;
    }
  found = found && search_run(search);
  scratch_release(assumptions_scratch(assumptions), mark);
  if (found)
    print_assignment(search, out);
  restore_model_values(search);
  if (found)
    print_forced_zeros(search, assumptions, out);
  return found;
}
