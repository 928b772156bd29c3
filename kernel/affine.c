/* Quasi-affine expressions: sums, division, bounds. */
#include "kernel/kernel.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "support/int_math.h"

#include <string.h>

AffineExpr *affine_new(Arena *arena, int64_t constant) {
  AffineExpr *q = NEW(arena, AffineExpr);
  q->constant = constant;
  return q;
}

static bool add_scaled(Graph *g, int64_t *x, int64_t factor, int64_t y) {
  int64_t part;
  return y == 0 ||
         (extent_mul(g, y, factor, &part) && extent_add(g, *x, part, x));
}

bool affine_add(Graph *g, AffineExpr *x, int64_t factor, const AffineExpr *y) {
  bool fits_i64 = add_scaled(g, &x->constant, factor, y->constant);
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    fits_i64 &= add_scaled(g, &x->coef[v], factor, y->coef[v]);
  return fits_i64;
}

AffineExpr *affine_copy(Arena *arena, const AffineExpr *from) {
  if (!from)
    return NULL;
  AffineExpr *to = NEW(arena, AffineExpr);
  *to = *from;
  return to;
}

bool affine_equal(const AffineExpr *x, const AffineExpr *y) {
  return memcmp(x, y, sizeof *x) == 0;
}

bool affine_has_floor_divs(const AffineExpr *q) {
  for (uint32_t v = MAX_KERNEL_AXES; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v])
      return true;
  return false;
}

static void var_range(const LoopNest *k, uint32_t v, int64_t *low,
                      int64_t *high) {
  *low = v < MAX_KERNEL_AXES ? 0 : k->floor_divs[v - MAX_KERNEL_AXES].low;
  *high = v < MAX_KERNEL_AXES
              ? extent_sub_saturating(k->graph, k->extents[v], 1)
              : k->floor_divs[v - MAX_KERNEL_AXES].high;
}

bool affine_bounds(const LoopNest *k, const AffineExpr *q, int64_t *low,
                   int64_t *high) {
  Graph *g = k->graph;
  *low = *high = q->constant;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    int64_t t = q->coef[v], a, b;
    if (t == 0)
      continue;
    var_range(k, v, &a, &b);
    bool nonnegative = extent_proved(g, EXTENT_LE, 0, t);
    if (!nonnegative && !extent_proved(g, EXTENT_LE, t, 0))
      return false;
    if (!add_scaled(g, low, t, nonnegative ? a : b) ||
        !add_scaled(g, high, t, nonnegative ? b : a))
      return false;
  }
  return true;
}

/* ---- division ---- */

/* Sets x = divisor * *quotient + *remainder.  If x and the divisor are static,
 * the remainder is in 0 .. divisor - 1.  Otherwise it is 0 or x. */
static void divide_term(Graph *g, int64_t x, int64_t divisor, int64_t *quotient,
                        int64_t *remainder) {
  bool numbers = extent_is_static(g, x) && extent_is_static(g, divisor);
  if (!extent_floor_mod(g, x, divisor, remainder) ||
      (*remainder != 0 && !numbers) ||
      !extent_floor_div(g, x, divisor, quotient)) {
    *quotient = 0;
    *remainder = x;
  }
}

bool affine_divide(Graph *g, const AffineExpr *x, int64_t divisor,
                   AffineExpr *quotient, AffineExpr *remainder) {
  divide_term(g, x->constant, divisor, &quotient->constant,
              &remainder->constant);
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    int64_t left;
    bool whole = x->coef[v] == 0 ||
                 (extent_floor_mod(g, x->coef[v], divisor, &left) && left == 0);
    if (!whole)
      remainder->coef[v] = x->coef[v];
    else if (x->coef[v] &&
             !extent_floor_div(g, x->coef[v], divisor, &quotient->coef[v]))
      return false;
  }
  return true;
}

bool affine_div_rem(Arena *arena, const AffineExpr *x, int64_t by,
                    const LoopNest *loop, AffineExpr **quotient,
                    AffineExpr **remainder) {
  Graph *g = loop->graph;
  AffineExpr *up = affine_new(arena, 0), *low = affine_new(arena, 0);
  int64_t min, max;
  if (!affine_divide(g, x, by, up, low))
    return false;
  *quotient = up;
  *remainder = low;
  return affine_bounds(loop, low, &min, &max) &&
         extent_proved(g, EXTENT_LE, 0, min) && extent_proved_less(g, max, by);
}

bool affine_has_coef_ratio(Graph *g, int64_t x, int64_t y, int64_t x_ratio,
                           int64_t y_ratio) {
  int64_t one, other;
  return extent_mul(g, y, x_ratio, &one) && extent_mul(g, x, y_ratio, &other) &&
         one == other;
}

bool affine_coef_ratio(Graph *g, int64_t x, int64_t y, int64_t *x_ratio,
                       int64_t *y_ratio) {
  *x_ratio = *y_ratio = 1;
  if (extent_is_static(g, x) && extent_is_static(g, y)) {
    int64_t by = int_gcd(x, y);
    *x_ratio = x / by;
    *y_ratio = y / by;
    return true;
  }
  for (int64_t n = -MAX_SYMBOLIC_STRIDE; n <= MAX_SYMBOLIC_STRIDE; n++) {
    if (n && affine_has_coef_ratio(g, x, y, n, 1))
      *x_ratio = n;
    else if (n && affine_has_coef_ratio(g, x, y, 1, n))
      *y_ratio = n;
    else
      continue;
    return true;
  }
  return false;
}
