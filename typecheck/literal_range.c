/* The numbers of a program, and the element types that they fit.
 *
 * A number in a generic function has the element type of the caller.  The
 * element variable therefore lists the numbers that some element types cannot
 * hold; unification merges the lists.  A use of the function with such an
 * element type is an error. */
#include "typecheck/internal.h"
#include "runtime/runtime.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The greatest number of the element type with the least range, f4_e2m1. */
enum { FITS_EVERYWHERE = 6 };

/* Halfway between 448, the greatest number of f8_e4m3, and 480: rounds to even,
 * which is 448. */
static const double E4M3_LAST_TIE = 464;

/* Halfway between 6, the greatest number of f4_e2m1, and 8, to which it would
 * round. */
static const double E2M1_FIRST_TIE = 7;

static bool is_signed_int(Dtype t) {
  return dtype_info[t].class == 'i';
}

static int64_t int_max(Dtype t) {
  int bits = dtype_info[t].bytes * 8 - is_signed_int(t);
  return bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

static int64_t int_min(Dtype t) {
  return is_signed_int(t) ? -int_max(t) - 1 : 0;
}

/* False if num rounds to infinity, or would if the type had one. */
static bool fits_float(const char *num, Dtype t) {
  if (t == DT_F8_E4M3)
    return fabs(dtype_parse(DT_F64, num, NULL)) <= E4M3_LAST_TIE;
  if (t == DT_F4_E2M1)
    return fabs(dtype_parse(DT_F64, num, NULL)) < E2M1_FIRST_TIE;
  if (t == DT_F8_E8M0) /* to nearest, as casts do */
    return dtype_parse(DT_F64, num, NULL) < 1.5 * dtype_greatest(t);
  return isfinite(dtype_parse(t, num, NULL));
}

static bool fits(Checker *c, const char *num, Dtype t) {
  int64_t n;
  if (dtype_is_float(t))
    return fits_float(num, t);
  return dim_is_int(dim_parse(c->dims, num), &n) && n >= int_min(t) &&
         n <= int_max(t);
}

/* The element types that num does not fit: a set of bits.  Floats are not
   converted to integers. */
static uint32_t unfit_dtypes(Checker *c, const char *num, bool is_float) {
  if (num[0] >= '0' && num[0] <= '0' + FITS_EVERYWHERE && !num[1])
    return 0; /* most numbers */
  double x = strtod(num, NULL);
  uint32_t unfit = 0;
  bool is_small = x >= 0 && x <= FITS_EVERYWHERE;
  bool is_name = strpbrk(num, "in"); /* inf, nan */
  for (Dtype t = DT_NONE + 1; t < DT_COUNT && !is_small && !is_name; t++)
    if ((dtype_is_float(t) || (dtype_is_int(t) && !is_float)) &&
        !fits(c, num, t))
      unfit |= 1u << t;
  return unfit;
}

void literal_note(Checker *c, ElemVar *e, const char *num, bool is_float) {
  uint32_t dtypes = unfit_dtypes(c, num, is_float);
  if (dtypes)
    literal_merge(c, e, &(UnfitNumber){.num = num, .dtypes = dtypes});
}

void literal_merge(Checker *c, ElemVar *e, const UnfitNumber *list) {
  for (; list; list = list->next) {
    const UnfitNumber *known = e->unfit;
    while (known && (known->dtypes & list->dtypes) != list->dtypes)
      known = known->next;
    if (known)
      continue;
    UnfitNumber *cell = NEW(c->arena, UnfitNumber);
    *cell = *list;
    cell->next = e->unfit;
    e->unfit = cell;
  }
}

static bool has_infinity(Dtype t) {
  return isinf(dtype_round(t, INFINITY));
}

static void add_help(Checker *c, Diag *d, Dtype t) {
  d->help =
      dtype_is_float(t)
          ? arena_printf(c->arena, "its greatest number is %.*g%s",
                         t == DT_F64 ? 17 : 8, dtype_greatest(t),
                         has_infinity(t) ? "; write inf for infinity" : "")
          : arena_printf(c->arena, "its range is %lld to %lld",
                         (long long)int_min(t), (long long)int_max(t));
}

Diag *literal_check(Checker *c, const char *num, bool is_float, Dtype t,
                    Span span) {
  if (t == DT_NONE || !(unfit_dtypes(c, num, is_float) & 1u << t))
    return NULL;
  Diag *d =
      error_at(c, 361, span, "%s does not fit in %s", num, dtype_info[t].name);
  add_help(c, d, t);
  return d;
}

Diag *literal_check_use(Checker *c, const ElemVar *generic, Dtype t,
                        const Core *use) {
  for (const UnfitNumber *n = generic->unfit; n && t; n = n->next)
    if (n->dtypes & 1u << t) {
      Diag *d = error_at(c, 361, use->span,
                         "%s uses the number %s, which does not fit in %s",
                         use->var ? use->var->name->text : "this function",
                         n->num, dtype_info[t].name);
      add_help(c, d, t);
      return d;
    }
  return NULL;
}
