/* What a condition says of sizes, where it holds and where it does not. */
#include "typecheck/internal.h"

#include <string.h>

/* d != 0: at one end of what d can be, it is an inequality. */
static void fact_differ(Checker *c, Dim *d) {
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1);
  if (facts_le(c, zero, d) == PROVED) {
    fact_add(c, dim_sub(c->dims, d, one), false);
  } else if (facts_le(c, d, zero) == PROVED) {
    fact_add(c, dim_neg(c->dims, dim_add(c->dims, d, one)), false);
  } else {
    fact_add(c, d, false);
    c->facts->ne = true;
  }
}

void fact_compare(Checker *c, BinOp op, Dim *a, Dim *b, bool holds) {
  Dim *one = dim_int(c->dims, 1);
  if (!holds) {
    static const BinOp opposite[BIN_COUNT] = {
        [BIN_EQ] = BIN_NE, [BIN_NE] = BIN_EQ, [BIN_LT] = BIN_GE,
        [BIN_LE] = BIN_GT, [BIN_GT] = BIN_LE, [BIN_GE] = BIN_LT};
    op = opposite[op];
  }
  Dim *d = dim_sub(c->dims, b, a);
  switch (op) {
  case BIN_EQ: fact_add(c, d, true); break;
  case BIN_NE: fact_differ(c, d); break;
  case BIN_LE: fact_add(c, d, false); break;
  case BIN_GE: fact_add(c, dim_neg(c->dims, d), false); break;
  case BIN_LT: fact_add(c, dim_sub(c->dims, d, one), false); break;
  case BIN_GT:
    fact_add(c, dim_sub(c->dims, dim_neg(c->dims, d), one), false);
    break;
  default: break;
  }
}

/* The name of a condition says what it was bound to. */
static Expr *condition_meant(Expr *cond) {
  while (cond->kind == EX_ID && cond->means && cond->means->value)
    cond = cond->means->value;
  return cond;
}

/* Does it compare sizes, or indices? */
static bool condition_on_sizes(Checker *c, Expr *cond) {
  cond = condition_meant(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1)
    return condition_on_sizes(c, cond->args[0].expr);
  if (cond->kind != EX_BIN)
    return false;
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    return condition_on_sizes(c, cond->arg[0]) ||
           condition_on_sizes(c, cond->arg[1]);
  return map_get(&c->terms, cond) != NULL;
}

void fact_unsaid(Checker *c) {
  fact_add(c, dim_int(c->dims, 0), true);
  c->facts->unsaid = true;
}

static void condition_unsaid(Checker *c, Expr *cond) {
  if (condition_on_sizes(c, cond))
    fact_unsaid(c);
}

/* One of two: where the first cannot be, the second is a fact. */
static void either_facts(Checker *c, Expr *cond, Core *core, bool holds) {
  Fact *saved = c->facts;
  condition_facts(c, cond->arg[0], core, holds);
  bool first = !facts_exclude(c, c->facts);
  Fact *known = c->facts;
  c->facts = saved;
  condition_facts(c, cond->arg[1], core, holds);
  bool second = !facts_exclude(c, c->facts);
  if (second && first)
    c->facts = saved;
  else if (first)
    c->facts = known;
  if (second && first)
    condition_unsaid(c, cond);
}

void condition_facts(Checker *c, Expr *cond, Core *core, bool holds) {
  cond = condition_meant(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1 &&
      cond->arg[0]->kind == EX_ID &&
      strcmp(cond->arg[0]->id->text, "not") == 0) {
    condition_facts(c, cond->args[0].expr, core, !holds);
    return;
  }
  if (cond->kind != EX_BIN)
    return;
  if (cond->op == (holds ? BIN_AND : BIN_OR)) {
    condition_facts(c, cond->arg[0], core, holds);
    condition_facts(c, cond->arg[1], core, holds);
    return;
  }
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    either_facts(c, cond, core, holds);
  Terms *t = map_get(&c->terms, cond);
  if (t)
    fact_compare(c, cond->op, t->left, t->right, holds);
}

bool condition_on_index(Checker *c, Expr *cond) {
  cond = condition_meant(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1)
    return condition_on_index(c, cond->args[0].expr);
  if (cond->kind != EX_BIN)
    return false;
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    return condition_on_index(c, cond->arg[0]) ||
           condition_on_index(c, cond->arg[1]);
  Terms *t = map_get(&c->terms, cond);
  return t && (mentions_index(c, t->left) || mentions_index(c, t->right));
}
