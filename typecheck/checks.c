/* Conditions that only the running program can tell become CORE_CHECKs.
 *
 * A constraint belongs to the innermost expression that has brought it about:
 * that expression claims it when it has been inferred.  Which constraints stay
 * open is known later, so the tests are put in at the end, before it is
 * collected what a function needs to be told.  Those of an operation come
 * after its operands and before it is run; others (an annotation, a branch)
 * come after the value is there. */
#include "typecheck/internal.h"

/* What a value is made by, without the names for its sizes. */
static Core *made_by(Core *core) {
  while (core->kind == CORE_OPEN)
    core = core->items[0];
  return core;
}

static bool is_lazy(const Core *core) { /* && and ||: no need of both sides */
  return core->items[0]->kind == CORE_PRIM && !core->flag &&
         (core->items[0]->prim == PRIM_AND || core->items[0]->prim == PRIM_OR);
}

static bool has_operands(const Core *core) {
  return (core->kind == CORE_APP && !is_lazy(core)) ||
         core->kind == CORE_INDEX || core->kind == CORE_TENSOR ||
         core->kind == CORE_LIST;
}

/* Functions, and names that stand for them, are not yet at work. */
static bool can_claim(const Core *core) {
  return core->kind != CORE_VAR && core->kind != CORE_PRIM &&
         core->kind != CORE_TAPP && core->kind != CORE_LAM &&
         core->kind != CORE_TLAM && core->kind != CORE_ABSENT &&
         core->kind != CORE_AXIS_ALL && core->kind != CORE_ERROR;
}

static bool in_chain(const Fact *chain, const Fact *fact) {
  while (chain && chain != fact)
    chain = chain->outer;
  return chain != NULL;
}

static uint32_t claim_of(Checker *c, Constraint *const *at, uint32_t n,
                         Core *site, uint32_t mark, bool after) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < n; i++) {
    Constraint *k = at[i];
    if (k->site)
      continue;
    if (k->serial <= mark) {
      left++;
      continue;
    }
    k->site = site;
    k->after = after;
    k->scope = k->facts;
    while (k->scope && !in_chain(c->facts, k->scope))
      k->scope = k->scope->outer;
  }
  return left;
}

void checks_claim(Checker *c, Core *core, uint32_t mark, bool after) {
  if (!c->unclaimed || !can_claim(core))
    return;
  Core *site = after ? core : made_by(core);
  if (!after && !has_operands(site))
    site = core, after = true;
  c->unclaimed =
      claim_of(c, c->pending.at, c->pending.len, site, mark, after) +
      claim_of(c, c->stuck.at, c->stuck.len, site, mark, after);
}

/* ---- putting them in ---- */

static bool has_top(Checker *c, Dim *d) {
  return dim_has_top(dim_resolve(c->dims, d));
}

/* The message that it would have had; NULL when there is none. */
static const Diag *message_of(Checker *c, Constraint *k) {
  Diags quiet, *saved = c->diags;
  diags_init(&quiet, c->arena);
  c->diags = &quiet;
  report_dims(c, k);
  c->diags = saved;
  return quiet.all.len ? quiet.all.at[0] : NULL;
}

static CheckKind kind_of_check(ConstraintKind kind) {
  return kind == CN_DIM_EQ   ? CHECK_EQ
         : kind == CN_DIM_LE ? CHECK_LE
                             : CHECK_NE;
}

/* An implication holds wherever its conditions do not. */
static void add_conditions(Checker *c, CoreCheck *check, const Constraint *k) {
  uint32_t n = 0;
  for (const Fact *f = k->facts; f && f != k->scope; f = f->outer)
    n++;
  check->conds = NEW_ARRAY(c->arena, CoreCond, n);
  for (const Fact *f = k->facts; f && f != k->scope; f = f->outer)
    check->conds[check->cond_count++] =
        (CoreCond){.kind = f->eq ? CHECK_EQ : f->ne ? CHECK_NE : CHECK_LE,
                   .left = dim_int(c->dims, 0),
                   .right = dim_resolve(c->dims, f->dim)};
}

static bool add_check(Checker *c, Core *to, Constraint *k) {
  k->placed = true;
  if (k->enough)
    return false; /* each access is seen to where it is run */
  if (k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE && k->kind != CN_DIM_NE)
    return false; /* the operation itself will see */
  if (has_top(c, k->left) || has_top(c, k->right))
    return false;
  for (const Fact *f = k->facts; f && f != k->scope; f = f->outer)
    if (has_top(c, f->dim))
      return false;
  CoreCheck check = {.kind = kind_of_check(k->kind),
                     .left = dim_resolve(c->dims, k->left),
                     .right = dim_resolve(c->dims, k->right),
                     .diag = message_of(c, k)};
  if (!check.diag)
    return false;
  add_conditions(c, &check, k);
  to->checks[to->check_count++] = check;
  return true;
}

static Core *check_of(Checker *c, Core *site, bool after, uint32_t from) {
  Core *check = core_new(c, CORE_CHECK, site->span);
  uint32_t n = c->stuck.len;
  check->checks = NEW_ARRAY(c->arena, CoreCheck, n - from);
  for (uint32_t i = from; i < n; i++) {
    Constraint *k = c->stuck.at[i];
    if (k->site == site && k->after == after && !k->placed)
      add_check(c, check, k);
  }
  check->items = NEW(c->arena, Core *);
  check->item_count = 1;
  return check->check_count ? check : NULL;
}

typedef struct Operands { /* what is run before the tests, in order */
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

static Core *operands_first(Checker *c, Core *op, Core *check) {
  uint32_t most = op->item_count + 2 * op->slice_count;
  Operands all = {NEW_ARRAY(c->arena, Var *, most),
                  NEW_ARRAY(c->arena, Core *, most), 0};
  for (uint32_t i = op->kind == CORE_APP; i < op->item_count; i++)
    name_operand(c, &all, &op->items[i]);
  for (uint32_t i = 0; i < op->slice_count; i++) {
    name_operand(c, &all, &op->slices[i].from);
    name_operand(c, &all, &op->slices[i].to);
  }
  check->items[0] = op;
  Core *whole = check;
  while (all.count--)
    whole = core_let(c, all.vars[all.count], all.values[all.count], whole);
  return whole;
}

static Core *value_first(Checker *c, Core *value, Core *check) {
  Var *v = var_new(c, NULL, value->span, false);
  check->items[0] = core_var(c, v, value->span);
  return core_let(c, v, value, check);
}

/* The expression stays at its address: others refer to it. */
static void place_at(Checker *c, Core *site, uint32_t from) {
  Core *before = check_of(c, site, false, from);
  Core *after = check_of(c, site, true, from);
  if (!before && !after)
    return;
  Core *whole = core_new(c, site->kind, site->span);
  *whole = *site;
  if (before)
    whole = has_operands(whole) ? operands_first(c, whole, before)
                                : value_first(c, whole, before);
  if (after)
    whole = value_first(c, whole, after);
  *site = *whole;
}

void checks_place(Checker *c) {
  for (uint32_t i = 0; i < c->stuck.len; i++) {
    Constraint *k = c->stuck.at[i];
    if (k->site && !k->placed)
      place_at(c, k->site, i);
  }
}
