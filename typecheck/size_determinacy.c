/* Checks that the arguments of a function determine the sizes that its
   annotations name.  Main entry point: check_sizes_determined. */
#include "typecheck/internal.h"
#include "support/diag.h"
#include "support/intern.h"

void check_sizes_determined(Checker *c, uint32_t n, Type *const *params,
                            const Scope *from, const Scope *until) {
  bool any = false;
  for (const Scope *s = from; s && s != until; s = s->outer)
    any |= s->dim != NULL;
  if (!any)
    return;
  KnownSizes f = {.c = c, .kind = DV_SKOLEM};
  map_init(&f.known, c->arena);
  /* names of surrounding functions */
  for (const Scope *s = until; s; s = s->outer) {
    DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
    if (v)
      map_put(&f.known, v, v);
  }
  for (uint32_t i = 0; i < n; i++)
    known_sizes_add_axes(&f, params[i]);
  known_sizes_solve(&f);
  for (const Scope *s = from; s && s != until; s = s->outer) {
    DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
    if (!v || v->kind != DV_SKOLEM || map_get(&f.known, v))
      continue;
    error_at(c, 363, v->origin, "the arguments do not determine the size `%s`",
             v->name->text)
        ->help = "give it an axis of its own, as in f32[n]: a term determines "
                 "at most one name, and not inside / or %";
    map_put(&f.known, v, v); /* with an axis of its own */
    known_sizes_solve(&f);
  }
}
