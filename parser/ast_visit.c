/* Visits the direct subexpressions of an expression or a declaration.  Main
   entry point: expr_visit_children. */
#include "parser/internal.h"

typedef struct ExprVisitor {
  void (*f)(void *, Expr *);
  void *arg;
} ExprVisitor;

static void visit_expr(const ExprVisitor *visitor, Expr *e) {
  if (e)
    visitor->f(visitor->arg, e);
}

static void visit_clause(const ExprVisitor *visitor, const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    visit_expr(visitor, k->params[i].default_value);
  visit_expr(visitor, k->body);
}

void dec_visit_exprs(const Dec *dec, void (*f)(void *, Expr *), void *arg) {
  ExprVisitor visitor = {f, arg};
  visit_expr(&visitor, dec->expr);
  for (uint32_t i = 0; i < dec->fun_count; i++)
    for (uint32_t k = 0; k < dec->funs[i].clause_count; k++)
      visit_clause(&visitor, &dec->funs[i].clauses[k]);
}

void expr_visit_children(const Expr *e, void (*f)(void *, Expr *), void *arg) {
  ExprVisitor visitor = {f, arg};
  for (size_t i = 0; i < ARRAY_LEN(e->arg); i++)
    visit_expr(&visitor, e->arg[i]);
  for (uint32_t i = 0; i < e->dec_count; i++)
    dec_visit_exprs(e->decs[i], f, arg);
  for (uint32_t i = 0; i < e->item_count; i++)
    visit_expr(&visitor, e->items[i]);
  for (uint32_t i = 0; i < e->arg_count; i++)
    visit_expr(&visitor, e->args[i].expr);
  for (uint32_t i = 0; i < e->field_count; i++)
    visit_expr(&visitor, e->fields[i].expr);
  for (uint32_t i = 0; i < e->binder_count; i++)
    visit_expr(&visitor, e->binders[i].range);
  for (uint32_t i = 0; i < e->slice_count; i++) {
    visit_expr(&visitor, e->slices[i].from);
    visit_expr(&visitor, e->slices[i].to);
    visit_expr(&visitor, e->slices[i].step);
  }
  for (uint32_t i = 0; i < e->clause_count; i++)
    visit_clause(&visitor, &e->clauses[i]);
}
