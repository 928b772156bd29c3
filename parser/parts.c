/* What an expression consists of, for those who look through all of a text. */
#include "parser/internal.h"

typedef struct Each {
  void (*f)(void *, Expr *);
  void *arg;
} Each;

static void one(const Each *each, Expr *e) {
  if (e)
    each->f(each->arg, e);
}

static void each_of_clause(const Each *each, const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    one(each, k->params[i].preset);
  one(each, k->body);
}

void dec_each_expr(const Dec *dec, void (*f)(void *, Expr *), void *arg) {
  Each each = {f, arg};
  one(&each, dec->expr);
  for (uint32_t i = 0; i < dec->fun_count; i++)
    for (uint32_t k = 0; k < dec->funs[i].clause_count; k++)
      each_of_clause(&each, &dec->funs[i].clauses[k]);
}

void expr_each_part(const Expr *e, void (*f)(void *, Expr *), void *arg) {
  Each each = {f, arg};
  for (size_t i = 0; i < ARRAY_LEN(e->arg); i++)
    one(&each, e->arg[i]);
  for (uint32_t i = 0; i < e->dec_count; i++)
    dec_each_expr(e->decs[i], f, arg);
  for (uint32_t i = 0; i < e->item_count; i++)
    one(&each, e->items[i]);
  for (uint32_t i = 0; i < e->arg_count; i++)
    one(&each, e->args[i].expr);
  for (uint32_t i = 0; i < e->field_count; i++)
    one(&each, e->fields[i].expr);
  for (uint32_t i = 0; i < e->binder_count; i++)
    one(&each, e->binders[i].range);
  for (uint32_t i = 0; i < e->slice_count; i++) {
    one(&each, e->slices[i].from);
    one(&each, e->slices[i].to);
  }
  for (uint32_t i = 0; i < e->clause_count; i++)
    each_of_clause(&each, &e->clauses[i]);
}
