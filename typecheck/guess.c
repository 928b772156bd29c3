/* Guesses about values whose type is not known yet: an index is one integer,
   the sides of a comparison are tensors.  Main entry point: guess_assume.

   If a declaration with guesses has an error, it is checked once more with all
   guesses reversed, also those that only this pass makes, and then with those
   reversed that this showed to be wrong.  So `fun pick x rows = unstack
   x.[rows, ...]` takes a tensor of indices, and `fun find names x = ... n == x
   ... "no " ^ x` compares strings. */
#include "typecheck/internal.h"
#include "support/arena.h"

bool guess_assume(Checker *c, Expr *e, const Expr *value) {
  VEC_PUSH(c->arena, c->inference.guesses, ((Guess){e, value}));
  e->is_guess = !map_get(&c->inference.reversed_guesses, e);
  return e->is_guess;
}

/* True if a pass with the reverse showed that the guess was wrong: the index
   is a tensor with an axis, or the compared value is no tensor. */
static bool is_wrong(Checker *c, const Guess *g) {
  Type *t =
      g->value->inferred_type ? ty_norm(c, g->value->inferred_type) : NULL;
  if (!t)
    return false;
  if (g->expr == g->value)
    return t->tag == TY_TENSOR &&
           shape_min_rank(shape_norm(c, t->tensor.shape)) > 0;
  return t->tag != TY_TENSOR && t->tag != TY_VAR && t->tag != TY_LIFT &&
         t->tag != TY_CAST;
}

bool guesses_reverse_all(Checker *c) {
  uint32_t known = c->inference.reversed_guesses.len;
  for (uint32_t i = 0; i < c->inference.guesses.len; i++)
    map_put(&c->inference.reversed_guesses, c->inference.guesses.at[i].expr, c);
  return c->inference.reversed_guesses.len > known;
}

bool guesses_reverse_wrong(Checker *c, const Diag *error) {
  map_init(&c->inference.reversed_guesses, c->arena);
  for (uint32_t i = 0; i < c->inference.guesses.len; i++) {
    Guess *g = &c->inference.guesses.at[i];
    if (!is_wrong(c, g))
      continue;
    map_put(&c->inference.reversed_guesses, g->expr, c);
    g->expr->guess_error = error;
  }
  return c->inference.reversed_guesses.len > 0;
}
