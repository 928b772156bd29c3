/* Run-time checks: constraints that only the running program can decide become
 * CORE_CHECKs.  Main entry points: runtime_checks_claim and
 * runtime_checks_insert.
 *
 * A constraint belongs to the innermost expression that caused it; that
 * expression claims it once it is inferred.  Which constraints stay undecided
 * is known later.  So the checks are inserted at the end, before implicit
 * parameters are collected.  Checks of an operation run after its operands and
 * before the operation.  Others (of an annotation or a branch) run after the
 * value is computed. */
#include "typecheck/solver.h"
#include "support/arena.h"
#include "support/diag.h"

/* The expression without unpacking of its sizes. */
static Core *strip_unpacks(Core *core) {
  while (core->kind == CORE_UNPACK)
    core = core->items[0];
  return core;
}

static bool
is_short_circuit(const Core *core) { /* && and ||: the right side may not run */
  return core->items[0]->kind == CORE_PRIM && !core->flag &&
         (core->items[0]->prim == PRIM_AND || core->items[0]->prim == PRIM_OR);
}

static bool has_operands(const Core *core) {
  return (core->kind == CORE_APP && !is_short_circuit(core)) ||
         core->kind == CORE_INDEX || core->kind == CORE_TENSOR ||
         core->kind == CORE_LIST;
}

/* False for functions and names, which do not execute anything yet. */
static bool can_claim(const Core *core) {
  return core->kind != CORE_VAR && core->kind != CORE_PRIM &&
         core->kind != CORE_TAPP && core->kind != CORE_LAM &&
         core->kind != CORE_TLAM && core->kind != CORE_ABSENT &&
         core->kind != CORE_ALL_AXES && core->kind != CORE_ERROR;
}

static bool is_in_chain(const Assumption *chain, const Assumption *fact) {
  while (chain && chain != fact)
    chain = chain->outer;
  return chain != NULL;
}

static uint32_t claim_constraints(Checker *c, Constraint *const *at, uint32_t n,
                                  Core *site, uint32_t mark, bool after) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < n; i++) {
    Constraint *k = at[i];
    if (k->check.site)
      continue;
    if (k->serial <= mark) {
      left++;
      continue;
    }
    k->check.site = site;
    k->check.after_site = after;
    k->check.assumptions = k->assumptions;
    while (k->check.assumptions &&
           !is_in_chain(c->facts.assumptions, k->check.assumptions))
      k->check.assumptions = k->check.assumptions->outer;
  }
  return left;
}

void runtime_checks_claim(Checker *c, Core *core, uint32_t mark, bool after) {
  if (!c->solver.max_unclaimed || !can_claim(core))
    return;
  Core *site = after ? core : strip_unpacks(core);
  if (!after && !has_operands(site))
    site = core, after = true;
  c->solver.max_unclaimed =
      claim_constraints(c, c->solver.pending.at, c->solver.pending.len, site,
                        mark, after) +
      claim_constraints(c, c->solver.residual.at, c->solver.residual.len, site,
                        mark, after);
}

/* ---- putting them in ---- */

static bool has_unknown(Checker *c, Dim *d) {
  return dim_has_unknown(dim_resolve(c->dims, d));
}

const Diag *runtime_check_diagnostic(Checker *c, Constraint *k) {
  Diags quiet, *saved = c->diags;
  diags_init(&quiet, c->arena);
  c->diags = &quiet;
  report_constraint(c, k);
  c->diags = saved;
  return quiet.all.len ? quiet.all.at[0] : NULL;
}

static CheckKind check_kind_of(ConstraintKind kind) {
  return kind == CN_DIM_EQ ? CHECK_EQ : kind == CN_DIM_LE ? CHECK_LE : CHECK_NE;
}

/* Adds the conditions of an implication: the check applies only if they
   hold. */
static void add_conditions(Checker *c, CoreCheck *check, const Constraint *k) {
  uint32_t n = 0;
  for (const Assumption *f = k->assumptions; f && f != k->check.assumptions;
       f = f->outer)
    n++;
  check->conditions = NEW_ARRAY(c->arena, CoreCondition, n);
  for (const Assumption *f = k->assumptions; f && f != k->check.assumptions;
       f = f->outer)
    check->conditions[check->condition_count++] =
        (CoreCondition){.kind = f->relation == ASSUME_EQ   ? CHECK_EQ
                                : f->relation == ASSUME_NE ? CHECK_NE
                                                           : CHECK_LE,
                        .left = dim_int(c->dims, 0),
                        .right = dim_resolve(c->dims, f->dim)};
}

static bool checks_itself(const Core *site) {
  return site->kind == CORE_INDEX ||
         (site->kind == CORE_APP && site->items[0]->kind == CORE_PRIM &&
          site->items[0]->prim == PRIM_RESHAPE);
}

static bool add_check(Checker *c, Core *to, Constraint *k) {
  k->check.inserted = true;
  if (k->is_dependent)
    return false; /* the callee checks it */
  if (k->sufficient_only)
    return false; /* accesses are checked when they run */
  if (!constraint_is_size(k))
    return false; /* the operation checks it itself */
  if (has_unknown(c, k->left) || has_unknown(c, k->right))
    return false;
  for (const Assumption *f = k->assumptions; f && f != k->check.assumptions;
       f = f->outer)
    if (has_unknown(c, f->dim))
      return false;
  CoreCheck check = {.kind = check_kind_of(k->kind),
                     .left = dim_resolve(c->dims, k->left),
                     .right = dim_resolve(c->dims, k->right),
                     .is_repeated = checks_itself(k->check.site),
                     .bounds_range = k->origin->kind == ORIGIN_RANGE,
                     .diag = runtime_check_diagnostic(c, k)};
  if (!check.diag)
    return false;
  add_conditions(c, &check, k);
  to->checks[to->check_count++] = check;
  return true;
}

static Core *build_check(Checker *c, Core *site, bool after, uint32_t from) {
  Core *check = core_new(c, CORE_CHECK, site->span);
  uint32_t n = c->solver.residual.len;
  check->checks = NEW_ARRAY(c->arena, CoreCheck, n - from);
  for (uint32_t i = from; i < n; i++) {
    Constraint *k = c->solver.residual.at[i];
    if (k->check.site == site && k->check.after_site == after &&
        !k->check.inserted)
      add_check(c, check, k);
  }
  check->items = NEW(c->arena, Core *);
  check->item_count = 1;
  return check->check_count ? check : NULL;
}

typedef struct Operands { /* evaluated before the checks, in order */
  Var **vars;
  Core **values;
  uint32_t count;
} Operands;

static void name_operand(Checker *c, Operands *all, Core **at) {
  Core *value = *at;
  if (!value || value->kind == CORE_ABSENT)
    return;
  Var *v = var_new(c, NULL, value->span, false);
  all->vars[all->count] = v;
  all->values[all->count++] = value;
  *at = core_var(c, v, value->span);
}

static Core *check_after_operands(Checker *c, Core *op, Core *check) {
  uint32_t max_operands = op->item_count + 3 * op->slice_count;
  Operands all = {NEW_ARRAY(c->arena, Var *, max_operands),
                  NEW_ARRAY(c->arena, Core *, max_operands), 0};
  for (uint32_t i = op->kind == CORE_APP; i < op->item_count; i++)
    name_operand(c, &all, &op->items[i]);
  for (uint32_t i = 0; i < op->slice_count; i++) {
    name_operand(c, &all, &op->slices[i].from);
    name_operand(c, &all, &op->slices[i].to);
    name_operand(c, &all, &op->slices[i].step);
  }
  check->items[0] = op;
  Core *whole = check;
  while (all.count--)
    whole = core_let(c, all.vars[all.count], all.values[all.count], whole);
  return whole;
}

Core *runtime_check_after_value(Checker *c, Core *value, Core *check) {
  Var *v = var_new(c, NULL, value->span, false);
  check->items[0] = core_var(c, v, value->span);
  return core_let(c, v, value, check);
}

/* The expression keeps its address, since others refer to it. */
static void insert_checks_at(Checker *c, Core *site, uint32_t from) {
  Core *before = build_check(c, site, false, from);
  Core *after = build_check(c, site, true, from);
  if (!before && !after)
    return;
  Core *whole = core_new(c, site->kind, site->span);
  *whole = *site;
  if (before)
    whole = has_operands(whole) ? check_after_operands(c, whole, before)
                                : runtime_check_after_value(c, whole, before);
  if (after)
    whole = runtime_check_after_value(c, whole, after);
  *site = *whole;
}

void runtime_checks_insert(Checker *c) {
  for (uint32_t i = 0; i < c->solver.residual.len; i++) {
    Constraint *k = c->solver.residual.at[i];
    if (k->check.site && !k->check.inserted)
      insert_checks_at(c, k->check.site, i);
  }
}
