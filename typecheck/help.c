/* Ways out of shapes that do not fit: given only where they are right. */
#include "errors.h"

static bool is_unit(const ShapeIt *it) {
  int64_t n;
  return it->tag == IT_DIM && dim_is_int(it->dim, &n) && n == 1;
}

/* ---- ranks ---- */

static bool is_free(Dim *d) {
  DimVar *v = dim_as_var(d);
  return v && v->kind == DV_META;
}

/* Are the axes of a from `at` on those of b, as far as they are known, and some
 * are? */
static bool agree(const Shape *a, uint32_t at, const Shape *b) {
  bool some = false;
  for (uint32_t i = 0; i < b->len; i++) {
    const ShapeIt *x = &a->at[at + i], *y = &b->at[i];
    if (x->tag != IT_DIM || y->tag != IT_DIM)
      return false;
    if (is_free(x->dim) || is_free(y->dim))
      continue;
    if (!dim_equal(x->dim, y->dim))
      return false;
    some = true;
  }
  return some;
}

const char *help_rank(const Shape *have, const Shape *want) {
  if (!shape_known_rank(have) || !shape_known_rank(want))
    return NULL;
  if (want->len == have->len + 1 && agree(want, 1, have))
    return "a leading axis, as of a batch of one, is made by x.[new, ...]";
  if (want->len == have->len + 1 && is_unit(&want->at[have->len]) &&
      agree(want, 0, have))
    return "a last axis of 1 is made by x.[..., new]";
  if (have->len == want->len + 1 && is_unit(&have->at[want->len]) &&
      agree(have, 0, want))
    return "its last axis just is 1: take it off, x.[..., 0]";
  return NULL;
}

/* ---- sizes ---- */

/* Do the two shapes hold the same sizes in another order? */
bool help_swapped(Checker *c, Origin *o) {
  if (!o->got || !o->want || !error_is_tensor(o->got) ||
      !error_is_tensor(o->want))
    return false;
  Shape *a = shape_norm(c, ty_norm(c, o->got)->shape);
  Shape *b = shape_norm(c, ty_norm(c, o->want)->shape);
  if (a->len != b->len || a->len < 2 || shape_same(c, a, b))
    return false;
  uint64_t used = 0;
  for (uint32_t i = 0; i < a->len; i++) {
    bool found = false;
    for (uint32_t j = 0; j < b->len && !found; j++)
      if (!(used >> j & 1) && a->at[i].tag == IT_DIM &&
          b->at[j].tag == IT_DIM && dim_equal(a->at[i].dim, b->at[j].dim)) {
        used |= (uint64_t)1 << j;
        found = true;
      }
    if (!found)
      return false;
  }
  return true;
}

static bool same_axis(const ShapeIt *a, const ShapeIt *b) {
  return a->tag == IT_DIM && b->tag == IT_DIM && dim_equal(a->dim, b->dim);
}

/* How the two operands would broadcast. */
const char *help_join(Checker *c, const Origin *o) {
  static const char usual[] = "only a missing leading axis and a stretching "
                              "one (x.[:, *], ~keep:true) stretch";
  if (!error_is_tensor(o->got) || !error_is_tensor(o->want))
    return usual;
  Shape *x = shape_norm(c, ty_norm(c, o->got)->shape);
  Shape *y = shape_norm(c, ty_norm(c, o->want)->shape);
  if (!shape_known_rank(x) || !shape_known_rank(y))
    return usual;
  Shape *small = x->len < y->len ? x : y, *large = x->len < y->len ? y : x;
  uint32_t same = 0; /* axes in front that are equal */
  while (same < small->len && same_axis(&small->at[same], &large->at[same]))
    same++;
  if (same == small->len && large->len == same + 1 &&
      is_unit(&large->at[same]))
    return arena_printf(c->arena, "the last axis of %s just is 1: take it off, "
                                  "x.[..., 0]",
                        shape_text(c, large));
  if (same && same == small->len && large->len > same) {
    Buffer stars = {.arena = c->arena};
    for (uint32_t i = same; i < large->len; i++)
      buffer_puts(&stars, ", *");
    return arena_printf(c->arena,
                        "axes line up at the right: %s lacks %s behind its "
                        "own, made by x.[...%s], or by ~keep:true in a "
                        "reduction",
                        shape_text(c, small),
                        large->len == same + 1 ? "a stretching axis"
                                               : "stretching axes",
                        stars.text);
  }
  bool units = x->len == y->len;
  for (uint32_t i = 0; i < x->len && units; i++)
    units = same_axis(&x->at[i], &y->at[i]) || is_unit(&x->at[i]) ||
            is_unit(&y->at[i]);
  return units ? "an axis that just is 1 does not stretch: take it off by an "
                 "index 0, and make one that does, as in x.[:, *]"
               : usual;
}
