/* "60 is not a multiple of 8": where only that makes two sizes differ. */
#include "errors.h"

#include <math.h>

/* "60 is not a multiple of 8", of 60 and 8*n; NULL: no such thing. */
const char *multiple_of(Checker *c, Constraint *k) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  if (dim_is_const(y)) {
    Dim *z = x;
    x = y, y = z;
  }
  int64_t n, factor = dim_content(c->dims, y);
  Dim *rest = NULL;
  if (dim_is_int(x, &n) && factor > 1)
    rest = dim_quotient(c->dims, y, dim_int(c->dims, factor));
  return rest && n % factor
             ? arena_printf(c->arena, "%lld is not a multiple of %lld",
                            (long long)n, (long long)factor)
             : NULL;
}

/* A term computed twice: rounding down, and exactly. */
typedef struct Value {
  int64_t floor;
  double exact;
  bool named; /* a size that somebody knows, not an interim result */
} Value;

typedef struct Uneven { /* the first division that is not exact */
  bool found, named;
  int64_t num, den;
} Uneven;

static bool apply_op(DimOpKind kind, Value x, Value y, Value *out, Uneven *u) {
  switch (kind) {
  case DOP_ADD:
    *out = (Value){x.floor + y.floor, x.exact + y.exact, false};
    break;
  case DOP_SUB:
    *out = (Value){x.floor - y.floor, x.exact - y.exact, false};
    break;
  case DOP_MUL:
    *out = (Value){x.floor * y.floor, x.exact * y.exact, false};
    break;
  case DOP_DIV:
    if (y.floor < 1 || x.floor < 0)
      return false;
    if (!u->found && x.floor % y.floor)
      *u = (Uneven){true, x.named, x.floor, y.floor};
    *out = (Value){x.floor / y.floor, x.exact / y.exact, false};
    break;
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
  case DOP_MIN:
  case DOP_MAX: return false;
  }
  const int64_t limit = (int64_t)1 << 31; /* of what is multiplied */
  return out->floor < limit && out->floor > -limit;
}

/* The value of d, in which all is known by now, in the form that it had before
 * it was; false: it is not so. */
static bool value_of(Checker *c, Dim *d, Value *out, Uneven *u) {
  enum { DEEP = 32 };
  Value stack[DEEP];
  uint32_t count, top = 0;
  DimOp *ops = dim_postfix(c->dims, d, &count);
  for (uint32_t i = 0; ops && i < count; i++) {
    DimOp *op = &ops[i];
    int64_t n = op->num;
    if (op->kind == DOP_INT || op->kind == DOP_VAR) {
      if (top == DEEP ||
          (op->kind == DOP_VAR &&
           !dim_is_int(dim_resolve(c->dims, dim_of_var(c->dims, op->var)),
                       &n)))
        return false;
      stack[top++] = (Value){n, (double)n, op->kind == DOP_VAR};
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

/* "15 is not a multiple of 2", where nothing but that makes two sizes differ;
 * or NULL.  Where both sides are rounded there is no telling. */
const char *multiple_uneven(Checker *c, const Constraint *k) {
  Uneven u = {0};
  Value x, y;
  if (!value_of(c, k->left, &x, &u) || !value_of(c, k->right, &y, &u) ||
      !u.named || fabs(x.exact - y.exact) > 1e-9 * fabs(x.exact) ||
      (x.exact > (double)x.floor && y.exact > (double)y.floor))
    return NULL;
  return arena_printf(c->arena, "%lld is not a multiple of %lld",
                      (long long)u.num, (long long)u.den);
}
