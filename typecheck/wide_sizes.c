/* Sizes of 2^63 or more, which the running program cannot compute.  Main entry
   point: check_sizes_fit. */
#include "typecheck/internal.h"
#include "parser/parser.h"
#include "support/diag.h"

typedef struct WideSearch {
  Checker *c;
  bool found; /* in a part of the current expression */
} WideSearch;

static bool is_wide(const Dim *d) {
  return dim_is_const(d) && !dim_is_int(d, NULL);
}

static Dim *wide_axis(Checker *c, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  if (!t || t->tag != TY_TENSOR)
    return NULL;
  const Shape *s = shape_norm(c, t->tensor.shape);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM && is_wide(s->axes[i].dim))
      return s->axes[i].dim;
  return NULL;
}

/* Reports the innermost expressions whose type has such a size. */
static void find_wide(void *arg, Expr *e) {
  WideSearch *outer = arg, inner = {outer->c, false};
  expr_visit_children(e, find_wide, &inner);
  Dim *d = inner.found ? NULL : wide_axis(outer->c, e->inferred_type);
  if (d)
    error_at(outer->c, 361, e->span, "the size %s does not fit in 64 bits",
             dim_to_text(outer->c, d));
  outer->found |= d || inner.found;
}

void check_sizes_fit(Checker *c, const Dec *dec) {
  WideSearch s = {c, false};
  if (c->dims->has_wide_numbers)
    dec_visit_exprs(dec, find_wide, &s);
}
