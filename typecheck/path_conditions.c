/* Path conditions: what the condition of an `if` says about sizes, where it
   holds and where it does not. */
#include "typecheck/internal.h"
#include "support/intern.h"

#include <string.h>

/* d != 0 becomes an inequality if d is known to have one sign. */
static void assume_ne(Checker *c, Dim *d) {
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1);
  if (assumption_check_le(c, zero, d) == ENTAILED) {
    assumption_add(c, dim_sub(c->dims, d, one), false);
  } else if (assumption_check_le(c, d, zero) == ENTAILED) {
    assumption_add(c, dim_neg(c->dims, dim_add(c->dims, d, one)), false);
  } else {
    assumption_add(c, d, false);
    c->facts.assumptions->relation = ASSUME_NE;
  }
}

void assumption_add_comparison(Checker *c, BinOp op, Dim *a, Dim *b,
                               bool holds) {
  Dim *one = dim_int(c->dims, 1);
  if (!holds) {
    static const BinOp opposite[BIN_COUNT] = {
        [BIN_EQ] = BIN_NE, [BIN_NE] = BIN_EQ, [BIN_LT] = BIN_GE,
        [BIN_LE] = BIN_GT, [BIN_GT] = BIN_LE, [BIN_GE] = BIN_LT};
    op = opposite[op];
  }
  Dim *d = dim_sub(c->dims, b, a);
  switch (op) {
  case BIN_EQ:
    assumption_add(c, d, true);
    break;
  case BIN_NE:
    assume_ne(c, d);
    break;
  case BIN_LE:
    assumption_add(c, d, false);
    break;
  case BIN_GE:
    assumption_add(c, dim_neg(c->dims, d), false);
    break;
  case BIN_LT:
    assumption_add(c, dim_sub(c->dims, d, one), false);
    break;
  case BIN_GT:
    assumption_add(c, dim_sub(c->dims, dim_neg(c->dims, d), one), false);
    break;
  default:
    break;
  }
}

/* Replaces the name of a condition by its bound expression. */
static Expr *resolve_condition(Expr *cond) {
  while (cond->kind == EX_ID && cond->binding && binding_expr(cond->binding))
    cond = cond->binding->value.expr;
  return cond;
}

/* True if the condition compares sizes or indices. */
static bool condition_on_sizes(Checker *c, Expr *cond) {
  cond = resolve_condition(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1)
    return condition_on_sizes(c, cond->args[0].expr);
  if (cond->kind != EX_BIN)
    return false;
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    return condition_on_sizes(c, cond->arg[0]) ||
           condition_on_sizes(c, cond->arg[1]);
  return map_get(&c->facts.compared_sizes, cond) != NULL;
}

void assumption_add_inexpressible(Checker *c) {
  assumption_add(c, dim_int(c->dims, 0), true);
  c->facts.assumptions->role = ROLE_INEXPRESSIBLE;
}

static void assume_inexpressible(Checker *c, Expr *cond) {
  if (condition_on_sizes(c, cond))
    assumption_add_inexpressible(c);
}

/* Assumes a disjunction: if one side is impossible, the other is assumed. */
static void assume_either(Checker *c, Expr *cond, Core *core, bool holds) {
  Assumption *saved = c->facts.assumptions;
  condition_assume(c, cond->arg[0], core, holds);
  bool first = !assumption_inconsistent(c, c->facts.assumptions);
  Assumption *known = c->facts.assumptions;
  c->facts.assumptions = saved;
  condition_assume(c, cond->arg[1], core, holds);
  bool second = !assumption_inconsistent(c, c->facts.assumptions);
  if (second && first)
    c->facts.assumptions = saved;
  else if (first)
    c->facts.assumptions = known;
  if (second && first)
    assume_inexpressible(c, cond);
}

void condition_assume(Checker *c, Expr *cond, Core *core, bool holds) {
  cond = resolve_condition(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1 &&
      cond->arg[0]->kind == EX_ID &&
      strcmp(cond->arg[0]->id->text, "not") == 0) {
    condition_assume(c, cond->args[0].expr, core, !holds);
    return;
  }
  if (cond->kind != EX_BIN)
    return;
  if (cond->op == (holds ? BIN_AND : BIN_OR)) {
    condition_assume(c, cond->arg[0], core, holds);
    condition_assume(c, cond->arg[1], core, holds);
    return;
  }
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    assume_either(c, cond, core, holds);
  ComparedSizes *t = map_get(&c->facts.compared_sizes, cond);
  if (t)
    assumption_add_comparison(c, cond->op, t->left, t->right, holds);
}

bool condition_on_index(Checker *c, Expr *cond) {
  cond = resolve_condition(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1)
    return condition_on_index(c, cond->args[0].expr);
  if (cond->kind != EX_BIN)
    return false;
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    return condition_on_index(c, cond->arg[0]) ||
           condition_on_index(c, cond->arg[1]);
  ComparedSizes *t = map_get(&c->facts.compared_sizes, cond);
  return t && (mentions_index(c, t->left) || mentions_index(c, t->right));
}
