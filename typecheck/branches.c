/* Branches: `if` and `case`, and the type that theirs have in common. */
#include "typecheck/internal.h"

typedef struct Branch {
  Core *core;
  Type *type;
  Fact *facts;
  bool dead;
} Branch;

static Branch infer_branch(Checker *c, Expr *e, Type *want, Origin *o) {
  Branch b = {.facts = c->facts, .dead = facts_exclude(c, c->facts)};
  uint32_t mark = c->dims->next_id;
  uint32_t errors = c->diags->errors, kept = c->diags->all.len;
  uint32_t open = c->open.len, part = part_begin(c);
  if (want && want->tag != TY_VAR && !b.dead) {
    b.core = check(c, e, want, o);
    b.type = want;
  } else {
    b.core = infer(c, e, &b.type);
    b.type = ty_leave(c, b.type, mark, LEAVE_NEW);
  }
  part_end(c, part);
  if (b.dead) { /* its facts exclude each other: it never runs */
    c->diags->errors = errors;
    c->diags->all.len = kept;
    c->stats.open -= c->open.len - open;
    c->open.len = open;
  }
  return b;
}

Core *infer_if(Checker *c, Expr *e, Type *want, Type **type, Origin *o) {
  Origin *oc = origin_new(c, OR_ARG, e->arg[0]->span);
  oc->what = "if";
  oc->expr = e->arg[0];
  Core *cond = check(c, e->arg[0], ty_scalar(c, DT_BOOL, NULL), oc);
  bool on_index = condition_on_index(c, e->arg[0]);
  c->conditional += on_index;
  Fact *saved = c->facts;
  condition_facts(c, e->arg[0], cond, true);
  Branch yes = infer_branch(c, e->arg[1], want, o);
  c->facts = saved;
  condition_facts(c, e->arg[0], cond, false);
  Branch no = infer_branch(c, e->arg[2], want, o);
  c->conditional -= on_index;
  if (yes.dead || no.dead) {
    *type = yes.dead ? no.type : yes.type;
  } else if (want && want->tag != TY_VAR) {
    *type = want;
  } else {
    Origin *oj = origin_new(c, OR_BRANCH, e->arg[2]->span);
    oj->other = e->arg[1]->span;
    oj->expr = e->arg[2];
    bool equation = yes.facts != saved && yes.facts && yes.facts->eq;
    c->facts = equation ? yes.facts : no.facts;
    *type = equation ? ty_join(c, no.type, yes.type, oj)
                     : ty_join(c, yes.type, no.type, oj);
  }
  c->facts = saved;
  Core *core = core_items(c, CORE_IF, e->span, 3, cond, yes.core, no.core);
  if (!want || want->tag == TY_VAR)
    *type = ty_open_data(c, *type, &core);
  return core;
}

/* ---- case ---- */

/* What a pattern says of sizes: that each of these is that number, or that a
 * condition holds.  It may say more, of what is no size. */
typedef struct Says {
  VEC(Terms) equal;
  bool condition, holds;
} Says;

static void pattern_says(Checker *c, const Pat *p, Type *t, Says *out);

/* From the left up to a splice, and from the right. */
static void shape_says(Checker *c, const Pat *p, Type *t, Says *out) {
  if (t->tag != TY_SHAPE)
    return;
  Shape *s = shape_norm(c, t->shape);
  bool whole = shape_known_rank(s) && s->len == p->arg_count;
  for (uint32_t i = 0; whole && i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      pattern_says(c, p->args[i], ty_int(c, s->at[i].dim), out);
}

static void pattern_says(Checker *c, const Pat *p, Type *t, Says *out) {
  t = ty_norm(c, t);
  Dim *term = p->kind == PAT_NUM && !p->is_float ? term_of(c, t) : NULL;
  if (term)
    VEC_PUSH(c->arena, out->equal,
             ((Terms){term, dim_text(c->dims, p->num)}));
  else if (p->kind == PAT_CON && !p->name.module &&
           (p->name.id == c->sym_true || p->name.id == c->sym_false))
    out->condition = true, out->holds = p->name.id == c->sym_true;
  else if (p->kind == PAT_AS || p->kind == PAT_ASCRIBE)
    pattern_says(c, p->args[0], t, out);
  else if (p->kind == PAT_SHAPE)
    shape_says(c, p, t, out);
  else if (p->kind == PAT_TUPLE && t->tag == TY_TUPLE &&
           t->count == p->arg_count)
    for (uint32_t i = 0; i < t->count; i++)
      if (p->args[i]->kind == PAT_NUM)
        pattern_says(c, p->args[i], t->args[i], out);
}

/* What is known where it matches, and where it does not: of several sizes then
 * no more than that one of them differs. */
static void says_facts(Checker *c, const Says *s, Expr *subject, Core *core,
                       bool match) {
  if (s->condition)
    condition_facts(c, subject, core, s->holds == match);
  for (uint32_t i = 0; i < s->equal.len && (match || s->equal.len == 1); i++)
    fact_compare(c, BIN_EQ, s->equal.at[i].left, s->equal.at[i].right, match);
  if (!match && s->equal.len > 1)
    fact_unsaid(c);
}

/* The rule's own facts; what is known when it does not match stays. */
static Branch infer_rule(Checker *c, Expr *e, uint32_t i, Core *core,
                         Type *subject, Type *want, Origin *o) {
  Clause *rule = &e->clauses[i];
  CoreRule *out = &core->rules[i];
  Scope *saved = c->scope;
  Fact *facts = c->facts;
  Says says = {0};
  unique_pattern(c, rule->params[0].pat);
  out->pat = pattern(c, rule->params[0].pat, subject, false);
  pattern_says(c, rule->params[0].pat, subject, &says);
  says_facts(c, &says, e->arg[0], core->items[0], true);
  Branch b = infer_branch(c, rule->body, want, o);
  out->body = open_bound(c, c->scope, saved, b.core);
  c->scope = saved;
  c->facts = facts;
  says_facts(c, &says, e->arg[0], core->items[0], false);
  return b;
}

/* The type that all have: each agrees with it under its own facts.  One that
 * an equation does not narrow comes first. */
static Type *join_branches(Checker *c, const Branch *at, const Expr *e) {
  const Branch *base = NULL;
  for (uint32_t i = 0; i < e->clause_count; i++)
    if (!at[i].dead &&
        (!base || (base->facts && base->facts->eq && at[i].facts &&
                   !at[i].facts->eq)))
      base = &at[i];
  if (!base)
    return ty_meta(c);
  Type *t = base->type;
  for (uint32_t i = 0; i < e->clause_count; i++) {
    if (&at[i] == base || at[i].dead)
      continue;
    Origin *o = origin_new(c, OR_BRANCH, e->clauses[i].body->span);
    o->other = e->clauses[base - at].body->span;
    o->expr = e->clauses[i].body;
    c->facts = at[i].facts;
    t = ty_join(c, t, at[i].type, o);
  }
  return t;
}

Core *infer_case(Checker *c, Expr *e, Type *want, Type **type,
                 Origin *o) {
  Type *subject;
  uint32_t n = e->clause_count;
  Core *core = core_new(c, CORE_CASE, e->span);
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  core->items[0] = infer(c, e->arg[0], &subject);
  core->rules = NEW_ARRAY(c->arena, CoreRule, n);
  core->rule_count = n;
  Branch *branches = NEW_ARRAY(c->arena, Branch, n);
  Fact *saved = c->facts;
  for (uint32_t i = 0; i < n; i++)
    branches[i] = infer_rule(c, e, i, core, subject, want, o);
  CorePat **pats = NEW_ARRAY(c->arena, CorePat *, n);
  for (uint32_t i = 0; i < n; i++)
    pats[i] = core->rules[i].pat;
  match_check(c, n, pats, subject, e->span);
  bool given = want && want->tag != TY_VAR;
  *type = given ? want : join_branches(c, branches, e);
  c->facts = saved;
  if (!given)
    *type = ty_open_data(c, *type, &core);
  return core;
}
