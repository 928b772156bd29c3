/* Branches: `if` and `case`, and the join of the types of their branches. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/diag.h"

static bool is_equation(const Assumption *f) {
  return f->relation == ASSUME_EQ && f->role == ROLE_CONDITION;
}

/* True if an equation of sizes holds in the branch, but not around it.  The
   type of the other branch is then the more general one. */
static bool has_equation(const Branch *b, const Assumption *around) {
  for (const Assumption *f = b->assumptions; f && f != around; f = f->outer)
    if (is_equation(f))
      return true;
  return false;
}

/* True if an equation of sizes that annotations do not name holds where the
   condition does, or where it does not. */
static bool condition_has_equation(Checker *c, Expr *cond, Core *core) {
  Assumption *around = c->facts.assumptions;
  bool any = false;
  for (int holds = 0; holds < 2; holds++) {
    condition_assume(c, cond, core, holds);
    for (const Assumption *f = c->facts.assumptions; f != around; f = f->outer)
      any |= is_equation(f) && dim_has_metas(dim_resolve(c->dims, f->dim));
    c->facts.assumptions = around;
  }
  return any;
}

typedef struct ExpectedSizes {
  bool fixed;
  bool open; /* some are `?`, or a function determines them */
} ExpectedSizes;

static void note_expected_sizes(Checker *c, Type *t, ExpectedSizes *out) {
  t = ty_norm(c, t);
  out->open |= t->tag == TY_FUN;
  if (t->tag == TY_TENSOR) {
    const Shape *s = shape_norm(c, t->tensor.shape);
    out->fixed |= s->len || t->tensor.singleton;
    for (uint32_t i = 0; i < s->len; i++)
      out->open |=
          s->axes[i].tag == SHAPE_DIM && dim_has_unknown(s->axes[i].dim);
  }
  for (uint32_t i = 0; ty_has_args(t) && i < t->count; i++)
    note_expected_sizes(c, t->args[i], out);
}

/* True if branches that compare sizes must not be checked against the type: it
   fixes sizes, and the branch of an equation would give them to parameters. */
static bool fixes_all_sizes(Checker *c, Type *expected) {
  ExpectedSizes sizes = {0};
  if (expected)
    note_expected_sizes(c, expected, &sizes);
  return sizes.fixed && !sizes.open;
}

static Branch infer_branch(Checker *c, Expr *e, Type *expected, Origin *o) {
  Branch b = {.assumptions = c->facts.assumptions,
              .unreachable = assumption_inconsistent(c, c->facts.assumptions)};
  uint32_t mark = c->dims->next_id;
  uint32_t errors = c->diags->errors, kept = c->diags->all.len;
  uint32_t unproved_count = c->notes.unproved.len,
           part = control_region_begin(c);
  if (expected && expected->tag != TY_VAR && !b.unreachable) {
    b.core = check(c, e, expected, o);
    b.type = expected;
  } else {
    b.core = infer(c, e, &b.type);
    b.type = ty_forget_local_sizes(c, b.type, mark, FORGET_NEW);
  }
  control_region_end(c, part);
  if (b.unreachable) { /* contradictory assumptions: it never runs */
    c->diags->errors = errors;
    c->diags->all.len = kept;
    c->notes.stats.runtime -= c->notes.unproved.len - unproved_count;
    c->notes.unproved.len = unproved_count;
  }
  return b;
}

Core *infer_if(Checker *c, Expr *e, Type *expected, Type **type, Origin *o) {
  Origin *oc = origin_new(c, ORIGIN_ARG, e->arg[0]->span);
  oc->subject = "if";
  oc->expr = e->arg[0];
  Core *cond = check(c, e->arg[0], ty_scalar(c, DT_BOOL, NULL), oc);
  bool on_index = condition_on_index(c, e->arg[0]);
  c->loops.index_condition_depth += on_index;
  Assumption *saved = c->facts.assumptions;
  if (fixes_all_sizes(c, expected) &&
      condition_has_equation(c, e->arg[0], cond))
    expected = NULL; /* the other branch gives the type, for any sizes */
  condition_assume(c, e->arg[0], cond, true);
  Branch yes = infer_branch(c, e->arg[1], expected, o);
  c->facts.assumptions = saved;
  condition_assume(c, e->arg[0], cond, false);
  Branch no = infer_branch(c, e->arg[2], expected, o);
  c->loops.index_condition_depth -= on_index;
  if (yes.unreachable || no.unreachable) {
    *type = yes.unreachable ? no.type : yes.type;
  } else if (expected && expected->tag != TY_VAR) {
    *type = expected;
  } else {
    Origin *oj = origin_new(c, ORIGIN_BRANCH, e->arg[2]->span);
    oj->other_span = e->arg[1]->span;
    oj->expr = e->arg[2];
    bool equation = has_equation(&yes, saved);
    c->facts.assumptions = equation ? yes.assumptions : no.assumptions;
    *type = equation ? ty_join(c, no.type, yes.type, oj)
                     : ty_join(c, yes.type, no.type, oj);
  }
  c->facts.assumptions = saved;
  Core *core = core_items(c, CORE_IF, e->span, 3, cond, yes.core, no.core);
  if (!expected || expected->tag == TY_VAR)
    *type = ty_unpack(c, *type, &core);
  return core;
}

/* ---- case ---- */

/* What a pattern says about sizes: equations with numbers, or that a condition
   holds.  It may also say more, about values that are not sizes. */
typedef struct PatternAssumptions {
  VEC(ComparedSizes) equal;
  bool is_condition, holds;
  bool says_more; /* it can fail for another reason */
} PatternAssumptions;

static void pattern_assumptions(Checker *c, const Pat *p, Type *t,
                                PatternAssumptions *out);

static bool may_fail(const Pat *p) {
  if (p->kind != PAT_TUPLE && p->kind != PAT_RECORD && p->kind != PAT_AS &&
      p->kind != PAT_ASCRIBE)
    return p->kind != PAT_VAR && p->kind != PAT_WILD;
  bool may = false;
  for (uint32_t i = 0; i < p->arg_count && !may; i++)
    may = may_fail(p->args[i]);
  for (uint32_t i = 0; i < p->field_count && !may; i++)
    may = p->fields[i].pat && may_fail(p->fields[i].pat);
  return may;
}

/* The same for one component of several. */
static void part_assumptions(Checker *c, const Pat *p, Type *t,
                             PatternAssumptions *out) {
  while (p->kind == PAT_AS || p->kind == PAT_ASCRIBE)
    p = p->args[0];
  if (p->kind == PAT_NUM)
    pattern_assumptions(c, p, t, out);
  else
    out->says_more |= may_fail(p);
}

/* Reads items from the left up to a splice, and from the right. */
static void shape_pattern_assumptions(Checker *c, const Pat *p, Type *t,
                                      PatternAssumptions *out) {
  Shape *s = t->tag == TY_SHAPE ? shape_norm(c, t->shape) : NULL;
  bool whole = s && shape_has_known_rank(s) && s->len == p->arg_count;
  out->says_more |= !whole;
  for (uint32_t i = 0; whole && i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      part_assumptions(c, p->args[i], ty_int(c, s->axes[i].dim), out);
    else
      out->says_more |= may_fail(p->args[i]);
}

static void pattern_assumptions(Checker *c, const Pat *p, Type *t,
                                PatternAssumptions *out) {
  t = ty_norm(c, t);
  Dim *singleton =
      p->kind == PAT_NUM && !p->is_float ? ty_singleton(c, t) : NULL;
  if (singleton)
    VEC_PUSH(c->arena, out->equal,
             ((ComparedSizes){singleton, dim_parse(c->dims, p->num)}));
  else if (p->kind == PAT_CON && !p->name.module &&
           (p->name.id == c->builtins.sym_true ||
            p->name.id == c->builtins.sym_false))
    out->is_condition = true, out->holds = p->name.id == c->builtins.sym_true;
  else if (p->kind == PAT_AS || p->kind == PAT_ASCRIBE)
    pattern_assumptions(c, p->args[0], t, out);
  else if (p->kind == PAT_SHAPE)
    shape_pattern_assumptions(c, p, t, out);
  else if (p->kind == PAT_TUPLE && t->tag == TY_TUPLE &&
           t->count == p->arg_count)
    for (uint32_t i = 0; i < t->count; i++)
      part_assumptions(c, p->args[i], t->args[i], out);
  else
    out->says_more |= may_fail(p);
}

/* Adds assumptions for a match, or for a failed match.  If a failed match
   compares several sizes, or other values, nothing is known except that one
   differs. */
static void assume_pattern(Checker *c, const PatternAssumptions *s,
                           Expr *subject, Core *core, bool match) {
  bool one = s->equal.len == 1 && !s->says_more;
  if (s->is_condition)
    condition_assume(c, subject, core, s->holds == match);
  for (uint32_t i = 0; i < s->equal.len && (match || one); i++)
    assumption_add_comparison(c, BIN_EQ, s->equal.at[i].left,
                              s->equal.at[i].right, match);
  if (!match && s->equal.len && !one)
    assumption_add_inexpressible(c);
}

/* The assumptions of the rule itself are removed at its end.  Those of the
   failed match stay. */
static Branch infer_rule(Checker *c, Expr *e, uint32_t i, Core *core,
                         Type *subject, Type *expected, Origin *o) {
  Clause *rule = &e->clauses[i];
  CoreRule *out = &core->rules[i];
  Scope *saved = c->names.scope;
  Assumption *assumptions = c->facts.assumptions;
  PatternAssumptions says = {0};
  check_unique_pattern(c, rule->params[0].pat);
  out->pat = infer_pattern(c, rule->params[0].pat, subject, false);
  pattern_assumptions(c, rule->params[0].pat, subject, &says);
  assume_pattern(c, &says, e->arg[0], core->items[0], true);
  Branch b = infer_branch(c, rule->body, expected, o);
  out->body = unpack_scope(c, c->names.scope, saved, b.core);
  c->names.scope = saved;
  c->facts.assumptions = assumptions;
  assume_pattern(c, &says, e->arg[0], core->items[0], false);
  return b;
}

void clause_assume(Checker *c, const Clause *k, Type *const *types,
                   bool match) {
  PatternAssumptions says = {0};
  for (uint32_t i = 0; i < k->param_count; i++) {
    PatternAssumptions one = {0};
    pattern_assumptions(c, k->params[i].pat, types[i], &one);
    says.says_more |= one.says_more || one.is_condition;
    for (uint32_t j = 0; j < one.equal.len; j++)
      VEC_PUSH(c->arena, says.equal, one.equal.at[j]);
  }
  assume_pattern(c, &says, NULL, NULL, match);
}

Type *join_branches(Checker *c, const Branch *at, const Clause *clauses,
                    uint32_t count, const Assumption *around) {
  const Branch *base = NULL;
  for (uint32_t i = 0; i < count; i++)
    if (!at[i].unreachable && (!base || (has_equation(base, around) &&
                                         !has_equation(&at[i], around))))
      base = &at[i];
  if (!base)
    return ty_meta(c);
  Type *t = base->type;
  for (uint32_t i = 0; i < count; i++) {
    if (&at[i] == base || at[i].unreachable)
      continue;
    Origin *o = origin_new(c, ORIGIN_BRANCH, clauses[i].body->span);
    o->other_span = clauses[base - at].body->span;
    o->expr = clauses[i].body;
    c->facts.assumptions = at[i].assumptions;
    t = ty_join(c, t, at[i].type, o);
  }
  return t;
}

/* True if the pattern may compare sizes that annotations do not name.  The type
   is NULL if it is unknown. */
static bool may_have_equation(Checker *c, const Pat *p, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  bool unknown = !t || t->tag == TY_VAR;
  if (p->kind == PAT_NUM) {
    Dim *size = unknown || p->is_float ? NULL : ty_singleton(c, t);
    return !p->is_float && (unknown || (size && dim_has_metas(size)));
  }
  if (p->kind == PAT_AS || p->kind == PAT_ASCRIBE)
    return may_have_equation(c, p->args[0], t);
  if (p->kind != PAT_TUPLE && p->kind != PAT_SHAPE)
    return false;
  bool any = false;
  for (uint32_t i = 0; i < p->arg_count && !any; i++)
    any = may_have_equation(
        c, p->args[i],
        !unknown && t->tag == TY_TUPLE && i < t->count ? t->args[i] : NULL);
  return any;
}

static bool rules_may_have_equation(Checker *c, const Expr *e, Type *subject) {
  bool any = false;
  for (uint32_t i = 0; i < e->clause_count && !any; i++)
    any = may_have_equation(c, e->clauses[i].params[0].pat, subject);
  return any;
}

Core *infer_case(Checker *c, Expr *e, Type *expected, Type **type, Origin *o) {
  Type *subject;
  uint32_t n = e->clause_count;
  Core *core = core_new(c, CORE_CASE, e->span);
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  core->items[0] = infer(c, e->arg[0], &subject);
  core->rules = NEW_ARRAY(c->arena, CoreRule, n);
  core->rule_count = n;
  if (fixes_all_sizes(c, expected) && rules_may_have_equation(c, e, subject))
    expected = NULL; /* as in infer_if */
  Branch *branches = NEW_ARRAY(c->arena, Branch, n);
  Assumption *saved = c->facts.assumptions;
  for (uint32_t i = 0; i < n; i++)
    branches[i] = infer_rule(c, e, i, core, subject, expected, o);
  CorePat **pats = NEW_ARRAY(c->arena, CorePat *, n);
  for (uint32_t i = 0; i < n; i++)
    pats[i] = core->rules[i].pat;
  check_exhaustiveness(c, n, pats, subject, e->span);
  bool given = expected && expected->tag != TY_VAR;
  *type = given ? expected : join_branches(c, branches, e->clauses, n, saved);
  c->facts.assumptions = saved;
  if (!given)
    *type = ty_unpack(c, *type, &core);
  return core;
}
