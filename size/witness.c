/* Witnesses that an assumption does not follow from the others.  Main entry
 * points: witness_new and witness_refutes.
 *
 * Two models of all assumptions are built once: in one the sizes are small, in
 * the other those that may grow are large.  A claim does not follow if a move
 * of one leaf violates it, but no assumption.  This answers most questions
 * about many assumptions without a search for a model of each. */
#include "solver.h"
#include "support/arena.h"
#include "support/vec.h"

enum {
  SMALL,
  LARGE,
  MODEL_COUNT,
  GROWTH = 1000,           /* of leaves in the model LARGE */
  MAX_WITNESS_ROUNDS = 32, /* of repairs, over all rows */
  MAX_WITNESS_STEPS = 16,  /* steps of a leaf that is not linear */
  MAX_CLAIM_LEAVES = 32,
  LONG_STEP = 64, /* over which a claim that is not linear is extrapolated */
  MAX_WITNESS_ABS = 1 << 20 /* limit of values and coefficients */
};

typedef struct Place { /* where a leaf occurs */
  uint32_t row;
  int64_t coef; /* 0 if the leaf does not only occur as a linear term */
} Place;

typedef struct WitnessLeaf {
  Atom *atom;
  VEC(Place) places;
  int64_t values[MODEL_COUNT];
  int64_t old_value; /* Atom.model_value before the search */
} WitnessLeaf;

typedef struct WitnessRow {
  PolyConstraint poly;
  bool disabled;
  int64_t values[MODEL_COUNT];
} WitnessRow;

struct Witness {
  DimCtx *cx;
  WitnessRow *rows;
  uint32_t row_count;
  VEC(WitnessLeaf) leaves;
  Evaluation evaluation;
};

/* ---- leaves and rows ---- */

static WitnessLeaf *leaf_find(const Witness *w, const Atom *atom) {
  uint32_t i = atom->witness_index;
  return i < w->leaves.len && w->leaves.at[i].atom == atom ? &w->leaves.at[i]
                                                           : NULL;
}

static Atom *term_leaf(const Term *term) {
  Atom *atom = term->mono->degree == 1 ? term->mono->powers[0].atom : NULL;
  return atom && !atom->arg_count ? atom : NULL;
}

static bool is_small(int64_t n) {
  return n > -MAX_WITNESS_ABS && n < MAX_WITNESS_ABS;
}

typedef struct LeafCollection {
  Witness *witness;
  uint32_t row;
} LeafCollection;

static void note_place(LeafCollection *to, Atom *atom, int64_t coef) {
  Witness *w = to->witness;
  WitnessLeaf *leaf = leaf_find(w, atom);
  if (!leaf) {
    atom->witness_index = w->leaves.len;
    WitnessLeaf new = {.atom = atom, .old_value = atom->model_value};
    VEC_PUSH(w->cx->arena, w->leaves, new);
    leaf = &w->leaves.at[w->leaves.len - 1];
  }
  if (leaf->places.len &&
      leaf->places.at[leaf->places.len - 1].row == to->row) {
    leaf->places.at[leaf->places.len - 1].coef = 0;
    return;
  }
  Place place = {to->row, coef};
  VEC_PUSH(w->cx->arena, leaf->places, place);
}

static void note_nonlinear(void *arg, Atom *atom) {
  note_place(arg, atom, 0);
}

static void collect_row(Witness *w, uint32_t row) {
  LeafCollection to = {w, row};
  const Dim *d = w->rows[row].poly.d;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Term *term = &d->terms[i];
    Atom *leaf = term_leaf(term);
    if (leaf) {
      bool fits = !term->coef.limbs && is_small(term->coef.small);
      note_place(&to, leaf, fits ? term->coef.small : 0);
      continue;
    }
    uint64_t epoch = dim_next_visit_epoch(w->cx);
    for (uint32_t j = 0; j < term->mono->power_count; j++)
      dim_each_leaf(term->mono->powers[j].atom->dim, epoch, note_nonlinear,
                    &to);
  }
}

/* ---- a model ---- */

static bool row_holds(const PolyConstraint *poly, int64_t value) {
  return poly->eq ? value == 0 : value >= 0;
}

static bool row_evaluate(Witness *w, WitnessRow *row) {
  w->evaluation.epoch = dim_next_visit_epoch(w->cx);
  return dim_evaluate(&w->evaluation, row->poly.d, &row->values[SMALL]);
}

/* True if a larger value never violates a row. */
static bool may_grow(const Witness *w, const WitnessLeaf *leaf) {
  for (uint32_t i = 0; i < leaf->places.len; i++)
    if (leaf->places.at[i].coef <= 0 || w->rows[leaf->places.at[i].row].poly.eq)
      return false;
  return true;
}

/* Raises a leaf of an inequality until the row holds. */
static bool raise_linear_leaf(Witness *w, WitnessRow *row) {
  const Dim *d = row->poly.d;
  const Term *best = NULL;
  for (uint32_t i = 0; i < d->term_count && !row->poly.eq; i++) {
    const Atom *atom = term_leaf(&d->terms[i]);
    if (!atom || bigint_sign(d->terms[i].coef) < 0 || d->terms[i].coef.limbs)
      continue;
    if (!best || may_grow(w, leaf_find(w, atom)))
      best = &d->terms[i];
  }
  if (!best || row->values[SMALL] <= -MAX_WITNESS_ABS)
    return false;
  int64_t coef = best->coef.small;
  Atom *atom = term_leaf(best);
  atom->model_value += (-row->values[SMALL] + coef - 1) / coef;
  return is_small(atom->model_value);
}

/* Raises one leaf by small steps until the row holds. */
static bool step_leaf(Witness *w, WitnessRow *row) {
  for (uint32_t i = w->leaves.len; i-- > 0;) {
    const WitnessLeaf *leaf = &w->leaves.at[i];
    bool here = false;
    for (uint32_t k = 0; k < leaf->places.len && !here; k++)
      here = &w->rows[leaf->places.at[k].row] == row;
    int64_t from = leaf->atom->model_value;
    for (int step = 0; here && step < MAX_WITNESS_STEPS; step++) {
      leaf->atom->model_value++;
      if (row_evaluate(w, row) && row_holds(&row->poly, row->values[SMALL]))
        return true;
    }
    leaf->atom->model_value = from;
  }
  return false;
}

/* Raises leaves until all rows hold. */
static bool find_small_model(Witness *w) {
  for (int round = 0; round < MAX_WITNESS_ROUNDS; round++) {
    bool all = true;
    for (uint32_t i = 0; i < w->row_count; i++) {
      WitnessRow *row = &w->rows[i];
      if (!row_evaluate(w, row))
        return false;
      if (row_holds(&row->poly, row->values[SMALL]))
        continue;
      all = false;
      if (!raise_linear_leaf(w, row) && !step_leaf(w, row))
        return false;
    }
    if (all)
      return true;
  }
  return false;
}

static void make_large_model(Witness *w) {
  for (uint32_t i = 0; i < w->row_count; i++)
    w->rows[i].values[LARGE] = w->rows[i].values[SMALL];
  for (uint32_t i = 0; i < w->leaves.len; i++) {
    WitnessLeaf *leaf = &w->leaves.at[i];
    leaf->values[LARGE] = leaf->values[SMALL];
    if (!may_grow(w, leaf))
      continue;
    leaf->values[LARGE] += GROWTH;
    for (uint32_t k = 0; k < leaf->places.len; k++)
      w->rows[leaf->places.at[k].row].values[LARGE] +=
          GROWTH * leaf->places.at[k].coef;
  }
}

Witness *witness_new(DimCtx *cx, const PolyConstraint *at, uint32_t count) {
  Witness *w = NEW(cx->arena, Witness);
  w->cx = cx;
  w->evaluation.effort = MAX_MODEL_SEARCH_EFFORT;
  w->rows = NEW_ARRAY(cx->arena, WitnessRow, count);
  w->row_count = count;
  for (uint32_t i = 0; i < count; i++) {
    w->rows[i].poly = at[i];
    collect_row(w, i);
  }
  for (uint32_t i = 0; i < w->leaves.len; i++)
    w->leaves.at[i].atom->model_value = 1;
  bool found = find_small_model(w);
  for (uint32_t i = 0; i < w->leaves.len; i++) {
    WitnessLeaf *leaf = &w->leaves.at[i];
    leaf->values[SMALL] = leaf->atom->model_value;
    leaf->atom->model_value = leaf->old_value;
  }
  if (!found)
    return NULL;
  make_large_model(w);
  return w;
}

void witness_set_disabled(Witness *w, uint32_t row, bool disabled) {
  w->rows[row].disabled = disabled;
}

/* ---- moves ---- */

/* True if the value is a sum of multiples of leaves and a constant. */
static bool is_linear_in_leaves(const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++)
    if (d->terms[i].coef.limbs ||
        (d->terms[i].mono->power_count && !term_leaf(&d->terms[i])))
      return false;
  return true;
}

static bool claim_evaluate(Witness *w, const Dim *d, int64_t *value) {
  w->evaluation.epoch = dim_next_visit_epoch(w->cx);
  return dim_evaluate(&w->evaluation, d, value);
}

/* True if no enabled row is violated after the leaf has moved by delta.  Linear
   ones are compared first. */
static bool allows_move(Witness *w, const WitnessLeaf *leaf, int model,
                        int64_t delta) {
  bool all_linear = true;
  for (uint32_t i = 0; i < leaf->places.len; i++) {
    Place place = leaf->places.at[i];
    const WitnessRow *row = &w->rows[place.row];
    all_linear &= place.coef || row->disabled;
    if (place.coef && !row->disabled &&
        !row_holds(&row->poly, row->values[model] + place.coef * delta))
      return false;
  }
  for (uint32_t i = 0; !all_linear && i < leaf->places.len; i++) {
    const WitnessRow *row = &w->rows[leaf->places.at[i].row];
    int64_t value;
    if (!leaf->places.at[i].coef && !row->disabled &&
        (!claim_evaluate(w, row->poly.d, &value) ||
         !row_holds(&row->poly, value)))
      return false;
  }
  return true;
}

/* True if the claim does not hold after a move of the leaf, and all rows do. */
static bool move_refutes(Witness *w, const WitnessLeaf *leaf, int model,
                         int64_t delta, const PolyConstraint *claim) {
  const DimVar *var = leaf->atom->var;
  int64_t from = leaf->atom->model_value, to = from + delta, value;
  if (!is_small(to) || (to < 0 && !(var && var->is_integer)))
    return false;
  leaf->atom->model_value = to;
  bool refutes = allows_move(w, leaf, model, delta) &&
                 claim_evaluate(w, claim->d, &value) &&
                 !row_holds(claim, value);
  leaf->atom->model_value = from;
  return refutes;
}

/* Tries a move of the leaf that makes the claim false, if the claim changes by
   `change` within `step`. */
static bool slope_refutes(Witness *w, const WitnessLeaf *leaf, int model,
                          int64_t step, int64_t change,
                          const PolyConstraint *claim, int64_t value) {
  if (!change || !is_small(value) || !is_small(change))
    return false;
  if (claim->eq)
    return move_refutes(w, leaf, model, 1, claim) ||
           move_refutes(w, leaf, model, -1, claim);
  int64_t slope = change > 0 ? change : -change;
  int64_t distance = ((value + 1) * step + slope - 1) / slope;
  return move_refutes(w, leaf, model, change > 0 ? -distance : distance, claim);
}

/* The same for a claim that is not linear: it is extrapolated. */
static bool leaf_refutes(Witness *w, const WitnessLeaf *leaf, int model,
                         const PolyConstraint *claim, int64_t value) {
  for (int64_t step = 1; step <= LONG_STEP; step *= LONG_STEP) {
    int64_t there;
    leaf->atom->model_value += step;
    bool known = claim_evaluate(w, claim->d, &there);
    leaf->atom->model_value -= step;
    if (known && is_small(there) && is_small(value) &&
        slope_refutes(w, leaf, model, step, there - value, claim, value))
      return true;
  }
  return false;
}

typedef struct ClaimLeaves {
  const Witness *witness;
  uint32_t count;
  bool unknown; /* some leaf occurs in no row */
  const WitnessLeaf *at[MAX_CLAIM_LEAVES];
} ClaimLeaves;

static void collect_claim_leaf(void *arg, Atom *atom) {
  ClaimLeaves *to = arg;
  const WitnessLeaf *leaf = leaf_find(to->witness, atom);
  to->unknown |= !leaf;
  if (leaf && to->count < MAX_CLAIM_LEAVES)
    to->at[to->count++] = leaf;
}

static void assign(Witness *w, int model) {
  for (uint32_t i = 0; i < w->leaves.len; i++) {
    WitnessLeaf *leaf = &w->leaves.at[i];
    leaf->old_value = leaf->atom->model_value;
    leaf->atom->model_value = leaf->values[model];
  }
}

static void unassign(Witness *w) {
  for (uint32_t i = 0; i < w->leaves.len; i++)
    w->leaves.at[i].atom->model_value = w->leaves.at[i].old_value;
}

static bool model_refutes(Witness *w, int model, const PolyConstraint *claim,
                          const ClaimLeaves *leaves) {
  const Dim *d = claim->d;
  int64_t value;
  if (!claim_evaluate(w, d, &value))
    return false;
  bool refutes = !row_holds(claim, value);
  if (is_linear_in_leaves(d)) {
    for (uint32_t i = 0; i < d->term_count && !refutes; i++) {
      const Atom *atom = term_leaf(&d->terms[i]);
      refutes = atom && slope_refutes(w, leaf_find(w, atom), model, 1,
                                      d->terms[i].coef.small, claim, value);
    }
    return refutes;
  }
  for (uint32_t i = 0; i < leaves->count && !refutes; i++)
    refutes = leaf_refutes(w, leaves->at[i], model, claim, value);
  return refutes;
}

bool witness_refutes(Witness *w, Dim *d, bool eq) {
  d = dim_resolve(w->cx, d);
  PolyConstraint claim = {d, eq};
  ClaimLeaves leaves = {.witness = w};
  dim_each_leaf(d, dim_next_visit_epoch(w->cx), collect_claim_leaf, &leaves);
  bool refutes = false;
  for (int model = MODEL_COUNT; model-- && !refutes && !leaves.unknown;) {
    w->evaluation.effort = MODEL_SEARCH_EFFORT;
    assign(w, model);
    refutes = model_refutes(w, model, &claim, &leaves);
    unassign(w);
  }
  return refutes;
}
