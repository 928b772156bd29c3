/* Divisibility errors: "60 is not a multiple of 8", if only that makes two
   sizes differ.  Main entry points: divisibility_failure and
   hint_divisibility. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool set_non_multiple(Checker *c, int64_t num, int64_t den,
                             NonMultiple *out) {
  const char *text = arena_printf(c->arena, "%lld is not a multiple of %lld",
                                  (long long)num, (long long)den);
  *out = (NonMultiple){text, num, den};
  return true;
}

/* For example of 60 and 8*n. */
bool divisibility_failure(Checker *c, const Constraint *k, NonMultiple *out) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  if (dim_is_const(y)) {
    Dim *z = x;
    x = y, y = z;
  }
  int64_t n, factor = dim_content(c->dims, y);
  return dim_is_int(x, &n) && factor > 1 && n % factor &&
         dim_exact_quotient(c->dims, y, dim_int(c->dims, factor)) &&
         set_non_multiple(c, n, factor, out);
}

/* ---- sizes as they were computed ---- */

/* A value computed twice: with divisions rounded down, and exactly. */
typedef struct TracedValue {
  int64_t floor;
  double exact;
  bool is_affine_of_named; /* it is base/scale + offset, where base is a size
                              that the user knows */
  int64_t base, scale, offset;
} TracedValue;

typedef struct InexactDivision { /* the first division that is not exact */
  bool found, named;
  int64_t num, den;
  Expr *from;            /* expression with this size, or NULL */
  uint32_t lookup_count; /* number of sizes looked up */
} InexactDivision;

static TracedValue traced_value(int64_t floor, double exact) {
  return (TracedValue){.floor = floor, .exact = exact};
}

/* A size plus a number, such as n - k, still counts as that size. */
static TracedValue traced_sum(TracedValue x, TracedValue y, int sign) {
  TracedValue r =
      traced_value(x.floor + sign * y.floor, x.exact + sign * y.exact);
  bool swapped = !x.is_affine_of_named && y.is_affine_of_named && sign > 0;
  TracedValue size = swapped ? y : x, added = swapped ? x : y;
  if (!size.is_affine_of_named || (double)added.floor != added.exact)
    return r;
  r.is_affine_of_named = true;
  r.base = size.base, r.scale = size.scale;
  r.offset = size.offset + sign * added.floor;
  return r;
}

static bool traced_quotient(TracedValue x, TracedValue y, TracedValue *out,
                            InexactDivision *u) {
  int64_t den = y.floor;
  if (den < 1 || x.floor < 0)
    return false;
  bool named = x.is_affine_of_named && x.offset % den == 0;
  if (!u->found && x.floor % den) {
    u->found = true, u->named = named;
    u->num = x.base, u->den = x.scale * den;
  }
  *out = traced_value(x.floor / den, x.exact / y.exact);
  if (named && x.floor % den == 0) {
    out->is_affine_of_named = true;
    out->base = x.base, out->scale = x.scale * den;
    out->offset = x.offset / den;
  }
  return true;
}

static bool apply_op(DimOpKind kind, TracedValue x, TracedValue y,
                     TracedValue *out, InexactDivision *u) {
  switch (kind) {
  case DOP_ADD:
    *out = traced_sum(x, y, 1);
    break;
  case DOP_SUB:
    *out = traced_sum(x, y, -1);
    break;
  case DOP_MUL:
    *out = traced_value(x.floor * y.floor, x.exact * y.exact);
    break;
  case DOP_DIV:
    if (!traced_quotient(x, y, out, u))
      return false;
    break;
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
  case DOP_MIN:
  case DOP_MAX:
    return false;
  }
  const int64_t limit = (int64_t)1 << 31; /* bounds factors */
  return out->floor < limit && out->floor > -limit;
}

static bool evaluate(Checker *c, Dim *d, uint32_t depth, TracedValue *out,
                     InexactDivision *u);

/* A variable has the value of its solution, or is a named size. */
static bool evaluate_var(Checker *c, DimVar *v, uint32_t depth,
                         TracedValue *out, InexactDivision *u) {
  enum { MAX_EVALUATION_DEPTH = 24, MAX_LOOKUPS = 32 };
  int64_t n;
  if (!dim_is_int(dim_resolve(c->dims, dim_of_var(c->dims, v)), &n))
    return false;
  while (v->solution && dim_as_var(v->solution))
    v = dim_as_var(v->solution);
  if (depth < MAX_EVALUATION_DEPTH && v->solution && !dim_is_const(v->solution))
    return evaluate(c, v->solution, depth + 1, out, u);
  Dim *computed = u->from && n > 0 && u->lookup_count++ < MAX_LOOKUPS
                      ? provenance_computed_dim(c, u->from, n)
                      : NULL;
  if (computed)
    return evaluate(c, computed, depth + 1, out, u);
  *out = (TracedValue){n, (double)n, true, n, 1, 0};
  return true;
}

/* Evaluates d in the form before its variables were solved.  Returns false if
   some variable is unknown. */
static bool evaluate(Checker *c, Dim *d, uint32_t depth, TracedValue *out,
                     InexactDivision *u) {
  enum { MAX_STACK = 32 };
  TracedValue stack[MAX_STACK];
  uint32_t count, top = 0;
  DimOp *ops = dim_postfix(c->dims, d, &count);
  for (uint32_t i = 0; ops && i < count; i++) {
    DimOp *op = &ops[i];
    if (op->kind == DOP_INT || op->kind == DOP_VAR) {
      if (top == MAX_STACK)
        return false;
      stack[top] = traced_value(op->num, (double)op->num);
      if (op->kind == DOP_VAR &&
          !evaluate_var(c, op->var, depth, &stack[top], u))
        return false;
      top++;
    } else if (top < 2 || !apply_op(op->kind, stack[top - 2], stack[top - 1],
                                    &stack[top - 2], u)) {
      return false;
    } else {
      top--;
    }
  }
  *out = stack[0];
  return ops && top == 1;
}

static Dim *computed_form(Checker *c, Dim *d, Expr *from) {
  int64_t n;
  Dim *computed = from && dim_is_int(d, &n) && n > 0
                      ? provenance_computed_dim(c, from, n)
                      : NULL;
  return computed ? computed : d;
}

/* Finds an inexact division on one side.  With inexact divisions on both sides,
   the cause is unclear. a and b are expressions with these sizes. */
static bool find_inexact_division(Checker *c, Dim *left, Expr *a, Dim *right,
                                  Expr *b, NonMultiple *out) {
  InexactDivision u = {.from = a};
  TracedValue x, y;
  left = computed_form(c, left, a), right = computed_form(c, right, b);
  if (!evaluate(c, left, 0, &x, &u))
    return false;
  u.from = b;
  return evaluate(c, right, 0, &y, &u) && u.named &&
         fabs(x.exact - y.exact) <= 1e-9 * fabs(x.exact) &&
         (x.exact <= (double)x.floor || y.exact <= (double)y.floor) &&
         set_non_multiple(c, u.num, u.den, out);
}

bool divisibility_inexact_division(Checker *c, Dim *left, Dim *right,
                                   NonMultiple *out) {
  return find_inexact_division(c, left, NULL, right, NULL, out);
}

/* Finds an axis of odd size that was halved, doubled and then added to the
   original. */
static bool find_inexact_operands(Checker *c, const Origin *o,
                                  NonMultiple *out) {
  Type *types[2] = {ty_root(o->actual), ty_root(o->expected)};
  ShapeAxis *items[2][MAX_RANK];
  uint32_t count[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    if (types[i]->tag != TY_TENSOR)
      return false;
    provenance_axes(types[i]->tensor.shape, items[i], &count[i]);
  }
  for (uint32_t i = 1; i <= count[0] && i <= count[1]; i++) {
    ShapeAxis *x = items[0][count[0] - i], *y = items[1][count[1] - i];
    if (x->tag == SHAPE_DIM && y->tag == SHAPE_DIM &&
        !dim_equal(dim_resolve(c->dims, x->dim), dim_resolve(c->dims, y->dim)))
      return o->kind == ORIGIN_ELEMENT /* report the first one */
                 ? find_inexact_division(c, x->dim, o->operands.right, y->dim,
                                         o->operands.left, out)
                 : find_inexact_division(c, x->dim, o->operands.left, y->dim,
                                         o->operands.right, out);
  }
  return false;
}

/* ---- ways out ---- */

static bool is_number(const Expr *e, int64_t n) {
  return e->kind == EX_NUM && !e->is_float && strtoll(e->num, NULL, 0) == n;
}

/* True if n is an argument, or an element of one, as of a shape. */
static bool is_argument(const Origin *o, int64_t n) {
  for (uint32_t i = 0; i < origin_arg_count(o); i++) {
    const Expr *e = o->arg.args[i].expr;
    if (is_number(e, n))
      return true;
    for (uint32_t k = 0; e->kind == EX_BRACKET && k < e->item_count; k++)
      if (is_number(e->items[k], n))
        return true;
  }
  return false;
}

/* The nearest possible values: for a number of heads, divisors of the width;
   for a size, its multiples. */
static const char *nearest_multiples(Checker *c, const Origin *o,
                                     NonMultiple m) {
  const int64_t max_divisor = 1 << 16;
  int64_t low = m.num / m.den * m.den, high;
  if (!is_argument(o, m.den)) {
    if (__builtin_add_overflow(low, m.den, &high))
      return NULL;
    return low > 0 ? arena_printf(c->arena,
                                  "the nearest multiples are %lld "
                                  "and %lld",
                                  (long long)low, (long long)high)
                   : arena_printf(c->arena, "the smallest multiple is %lld",
                                  (long long)high);
  }
  if (m.den >= max_divisor)
    return NULL;
  low = m.den - 1, high = m.den + 1;
  while (low > 1 && m.num % low)
    low--;
  while (high < m.num && high < max_divisor && m.num % high)
    high++;
  return low > 1 && high < m.num && m.num % high == 0
             ? arena_printf(c->arena, "it is a multiple of %lld and of %lld",
                            (long long)low, (long long)high)
             : NULL;
}

static bool find_non_multiple(Checker *c, const Constraint *k,
                              NonMultiple *out) {
  const Origin *o = k->origin;
  int64_t num, den;
  if (k->divisor && dim_is_int(dim_resolve(c->dims, k->left), &num) &&
      dim_is_int(dim_resolve(c->dims, k->divisor), &den) && den > 1 && num > 0)
    return num % den && set_non_multiple(c, num, den, out);
  if (((o->kind == ORIGIN_OPERATOR && !o->number) ||
       o->kind == ORIGIN_ELEMENT) &&
      o->actual && o->expected)
    return find_inexact_operands(c, o, out);
  return divisibility_inexact_division(c, k->left, k->right, out) ||
         divisibility_failure(c, k, out);
}

void hint_divisibility(Checker *c, const Constraint *k) {
  NonMultiple m;
  Diag *d = error_find_at(c, k->origin->span);
  if (!d || d->help || k->kind != CN_DIM_EQ || !find_non_multiple(c, k, &m))
    return;
  const char *hint = nearest_multiples(c, k->origin, m);
  bool said =
      strstr(d->message, m.text) || (d->note && strstr(d->note, m.text));
  if (hint)
    d->help = said ? hint : arena_printf(c->arena, "%s: %s", m.text, hint);
}
