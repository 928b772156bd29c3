/* Inversion of index maps.
 *
 * The index of each axis is a linear form over the axes of the comprehension,
 * plus quotients and remainders by constants.  The equations `form = target`
 * are solved for the axes:
 *
 *   - One unknown is computed.  Its range becomes a condition, unless the
 *     ranges of the others imply it.
 *   - A sum with mixed radices, such as 12*i + 3*j + k with j < 4 and k < 3, is
 *     decomposed into its digits.
 *   - In an overlapping sum with a stride, such as 2*y + i with i < 5, i is
 *     split into 2*t + u.  Then u is the remainder of the target by 2, and y is
 *     its quotient minus t.
 *   - Otherwise the longest axis with factor 1 is computed from the others.
 *   - f / c = q means f = c*q + t with t < c.  f % c = t means the same with an
 *     unknown q.
 *
 * An axis in no equation becomes a summed axis of the new body.  A second
 * equation for a known axis becomes a condition. */
#include "tensor/invert.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TERMS = MAX_RANK, MAX_DIVISIONS = 16 };
#define NO_VALUE UINT32_MAX

/* The sum of factor * variable, plus a constant size. */
typedef struct Form {
  uint32_t count;
  uint32_t vars[MAX_TERMS];
  int64_t factors[MAX_TERMS];
  int64_t constant; /* may be symbolic */
} Form;

/* dividend == divisor * quotient + remainder, 0 <= remainder < divisor. */
typedef struct Division {
  Form dividend;
  int64_t divisor;
  uint32_t quotient, remainder; /* variables */
  /* 1 + the division (f / a*b) with this quotient, if the dividend is f / a and
   * the divisor is b. */
  uint32_t whole;
  bool is_used; /* its equation was solved */
} Division;

typedef struct Equation {
  Form form;
  uint32_t target;
  bool is_solved;
} Equation;

typedef struct Solver {
  Inversion *x;
  BodyBuilder *b;
  Graph *g;
  Division divisions[MAX_DIVISIONS];
  uint32_t division_count;
  Equation equations[MAX_RANK + MAX_DIVISIONS];
  uint32_t equation_count;
  bool has_failed; /* too many axes */
} Solver;

/* The axes of a node whose body is parsed; NULL: those of the comprehension. */
typedef struct FormScope {
  const Node *node;
  const Form *axes;
} FormScope;

/* ---- ranges of ops of the new body ---- */

typedef struct Range {
  int64_t low, high; /* inclusive */
  bool is_known;
} Range;

static Range range_of_op(const Solver *s, uint32_t op);

static Range combine_ranges(PrimId op, Range x, Range y) {
  Range r = {0, 0, x.is_known && y.is_known};
  if (!r.is_known)
    return r;
  bool is_constant = y.low == y.high && y.low > 0;
  bool overflow = false;
  if (op == PRIM_ADD) {
    overflow = __builtin_add_overflow(x.low, y.low, &r.low) ||
               __builtin_add_overflow(x.high, y.high, &r.high);
  } else if (op == PRIM_SUB) {
    overflow = __builtin_sub_overflow(x.low, y.high, &r.low) ||
               __builtin_sub_overflow(x.high, y.low, &r.high);
  } else if (op == PRIM_MUL && is_constant) {
    overflow = __builtin_mul_overflow(x.low, y.low, &r.low) ||
               __builtin_mul_overflow(x.high, y.low, &r.high);
  } else if (op == PRIM_DIV && is_constant) {
    r.low = int_floor_div(x.low, y.low);
    r.high = int_floor_div(x.high, y.low);
  } else if (op == PRIM_MOD && is_constant) {
    r.high = y.low - 1;
  } else {
    overflow = true;
  }
  r.is_known = !overflow;
  return r;
}

static Range range_of_op(const Solver *s, uint32_t op) {
  const BodyOp *c = &s->b->ops[op];
  Range unknown = {0, 0, false};
  if (c->kind == BODY_CONST && !dtype_is_float(c->dtype))
    return (Range){c->value.i, c->value.i, true};
  if (c->kind == BODY_AXIS) {
    const NodeSpec *spec = s->b->spec;
    uint32_t k = c->axis;
    int64_t extent =
        k < spec->free_count ? spec->free_vars[k]->extent
        : k < spec->free_count + spec->rank
            ? spec->own_extents[k - spec->free_count]
            : spec->reduced_extents[k - spec->free_count - spec->rank];
    return extent_is_static(s->g, extent) ? (Range){0, extent - 1, true}
                                          : unknown;
  }
  if (c->kind == BODY_OP && c->arg_count == 2)
    return combine_ranges(c->op, range_of_op(s, c->args[0]),
                          range_of_op(s, c->args[1]));
  return unknown;
}

/* True if the op is surely an index of an axis of this extent. */
static bool op_in_range(const Solver *s, uint32_t op, int64_t extent) {
  const BodyOp *c = &s->b->ops[op];
  const NodeSpec *spec = s->b->spec;
  if (c->kind == BODY_AXIS && c->axis < spec->free_count + spec->rank) {
    int64_t own = c->axis < spec->free_count
                      ? spec->free_vars[c->axis]->extent
                      : spec->own_extents[c->axis - spec->free_count];
    if (extent_proved(s->g, EXTENT_LE, own, extent))
      return true;
  }
  Range r = range_of_op(s, op);
  return r.is_known && r.low >= 0 &&
         (extent_is_static(s->g, extent)
              ? r.high < extent
              : extent_proved(s->g, EXTENT_LE, r.high + 1, extent));
}

/* ---- quotients and remainders of ops of the new body ---- */

/* The op as a sum of factor * axis of the new body, plus a constant. */
typedef struct AxisSum {
  uint32_t count;
  uint32_t axes[4];
  int64_t factors[4];
  int64_t constant;
} AxisSum;

static bool add_axis_sum(AxisSum *sum, const AxisSum *y, int64_t factor) {
  for (uint32_t k = 0; k < y->count; k++) {
    uint32_t at = 0;
    while (at < sum->count && sum->axes[at] != y->axes[k])
      at++;
    if (at == ARRAY_LEN(sum->axes))
      return false;
    if (at == sum->count) {
      sum->axes[sum->count] = y->axes[k];
      sum->factors[sum->count++] = 0;
    }
    sum->factors[at] += factor * y->factors[k];
  }
  sum->constant += factor * y->constant;
  return true;
}

static bool axis_sum_of(const Solver *s, uint32_t op, AxisSum *out) {
  const BodyOp *c = &s->b->ops[op];
  AxisSum x, y;
  *out = (AxisSum){.count = 0};
  if (c->kind == BODY_CONST) {
    out->constant = c->value.i;
    return llabs(c->value.i) < 1 << 30;
  }
  if (c->kind == BODY_AXIS) {
    out->count = 1;
    out->axes[0] = c->axis;
    out->factors[0] = 1;
    return true;
  }
  if (c->kind != BODY_OP || c->arg_count != 2 ||
      !axis_sum_of(s, c->args[0], &x) || !axis_sum_of(s, c->args[1], &y))
    return false;
  if (c->op == PRIM_ADD || c->op == PRIM_SUB)
    return add_axis_sum(out, &x, 1) &&
           add_axis_sum(out, &y, c->op == PRIM_ADD ? 1 : -1);
  return c->op == PRIM_MUL && y.count == 0 && add_axis_sum(out, &x, y.constant);
}

static uint32_t op_of_axis_sum(Solver *s, const AxisSum *sum) {
  BodyBuilder *b = s->b;
  uint32_t total = UINT32_MAX;
  for (uint32_t k = 0; k < sum->count; k++) {
    if (sum->factors[k] == 0)
      continue;
    uint32_t axis = body_free_axis(b, sum->axes[k]); /* axes of all kinds */
    uint32_t part = body_mul_int(b, axis, sum->factors[k]);
    total =
        total == UINT32_MAX ? part : body_op2(b, PRIM_ADD, DT_I64, total, part);
  }
  return total == UINT32_MAX ? body_int(b, sum->constant)
                             : body_add_int(b, total, sum->constant);
}

/* Notes that the elements of an own axis differ by their indices modulo n. */
static void note_stride(Solver *s, const AxisSum *sum, int64_t n) {
  const NodeSpec *spec = s->b->spec;
  if (sum->count != 1 || sum->factors[0] != 1 ||
      sum->axes[0] < spec->free_count ||
      sum->axes[0] >= spec->free_count + spec->rank)
    return;
  int64_t *stride = &s->x->strides[sum->axes[0] - spec->free_count];
  *stride = *stride > n ? *stride : n;
}

/* The quotient and the remainder of an op by n > 0.  has_stride: some
 * remainders do not occur. */
static void divide_op(Solver *s, uint32_t op, int64_t n, bool has_stride,
                      uint32_t *quotient, uint32_t *remainder) {
  BodyBuilder *b = s->b;
  AxisSum sum, part = {.count = 0};
  bool is_exact = extent_is_static(s->g, n) && axis_sum_of(s, op, &sum);
  if (is_exact && has_stride)
    note_stride(s, &sum, n);
  for (uint32_t k = 0; is_exact && k < sum.count; k++)
    is_exact = sum.factors[k] % n == 0;
  if (!is_exact) {
    *quotient = body_floor_div_int(b, op, n);
    *remainder = body_floor_mod_int(b, op, n);
    return;
  }
  part = sum;
  part.constant = int_floor_div(sum.constant, n);
  for (uint32_t k = 0; k < sum.count; k++)
    part.factors[k] = sum.factors[k] / n;
  *quotient = op_of_axis_sum(s, &part);
  *remainder = body_int(b, int_floor_mod(sum.constant, n));
}

/* ---- values ---- */

static uint32_t add(Solver *s, uint32_t x, uint32_t y) {
  return body_op2(s->b, PRIM_ADD, DT_I64, x, y);
}

void invert_require(Inversion *x, uint32_t condition) {
  x->condition = x->condition == NO_VALUE ? condition
                                          : body_op2(x->b, PRIM_AND, DT_BOOL,
                                                     x->condition, condition);
}

static void require_in_range(Solver *s, uint32_t op, int64_t extent) {
  BodyBuilder *b = s->b;
  Range r = range_of_op(s, op);
  if (!r.is_known || r.low < 0) {
    uint32_t zero = body_int(b, 0);
    invert_require(s->x, body_op2(b, PRIM_GE, DT_BOOL, op, zero));
  }
  if (!r.is_known || !extent_is_static(s->g, extent) || r.high >= extent) {
    uint32_t end = body_int(b, extent);
    invert_require(s->x, body_op2(b, PRIM_LT, DT_BOOL, op, end));
  }
}

static void assign(Solver *s, uint32_t var, uint32_t value, bool is_bounded) {
  InvertVar *v = &s->x->vars[var];
  v->value = value;
  v->is_bounded = is_bounded;
  if (op_in_range(s, value, v->extent))
    return;
  require_in_range(s, value, v->extent);
  v->is_bounded = true;
}

static void make_summed(Solver *s, uint32_t var) {
  InvertVar *v = &s->x->vars[var];
  NodeSpec *spec = s->x->spec;
  v->is_summed = true;
  if (spec->reduce_count == MAX_RANK) {
    s->has_failed = true;
    v->value = body_int(s->b, 0);
    return;
  }
  spec->reduced_extents[spec->reduce_count] = v->extent;
  v->value = body_reduced_axis(s->b, spec->reduce_count++);
}

static bool new_var(Solver *s, int64_t extent, uint32_t *out) {
  Inversion *x = s->x;
  if (x->var_count == MAX_INVERT_VARS)
    return false;
  x->vars[x->var_count] = (InvertVar){.extent = extent, .value = NO_VALUE};
  *out = x->var_count++;
  return true;
}

static bool is_known(const Solver *s, uint32_t var) {
  return s->x->vars[var].value != NO_VALUE;
}

/* ---- forms ---- */

static bool form_add_term(Form *f, uint32_t var, int64_t factor) {
  for (uint32_t k = 0; k < f->count; k++)
    if (f->vars[k] == var) {
      if (__builtin_add_overflow(f->factors[k], factor, &f->factors[k]))
        return false;
      if (f->factors[k] == 0) {
        f->count--;
        f->vars[k] = f->vars[f->count];
        f->factors[k] = f->factors[f->count];
      }
      return true;
    }
  if (f->count == MAX_TERMS)
    return false;
  f->vars[f->count] = var;
  f->factors[f->count++] = factor;
  return true;
}

/* f += factor * y */
static bool form_add(Solver *s, Form *f, const Form *y, int64_t factor) {
  int64_t part;
  for (uint32_t k = 0; k < y->count; k++)
    if (__builtin_mul_overflow(y->factors[k], factor, &part) ||
        !form_add_term(f, y->vars[k], part))
      return false;
  return extent_mul(s->g, y->constant, factor, &part) &&
         extent_add(s->g, f->constant, part, &f->constant);
}

static bool form_equal(const Form *x, const Form *y) {
  if (x->count != y->count || x->constant != y->constant)
    return false;
  for (uint32_t k = 0; k < x->count; k++) {
    bool found = false;
    for (uint32_t j = 0; j < y->count; j++)
      found |= x->vars[k] == y->vars[j] && x->factors[k] == y->factors[j];
    if (!found)
      return false;
  }
  return true;
}

static void form_of_var(Form *f, uint32_t var) {
  f->count = 1;
  f->vars[0] = var;
  f->factors[0] = 1;
  f->constant = 0;
}

/* The number of values of a form from 0 on; its factors are positive. */
static bool form_value_count(Solver *s, const Form *f, int64_t *out) {
  *out = 1;
  int64_t part = 0;
  for (uint32_t k = 0; k < f->count; k++) {
    int64_t extent = s->x->vars[f->vars[k]].extent;
    int64_t last = extent_sub_saturating(s->g, extent, 1);
    if (extent == 0) { /* static: no values */
      *out = 0;
      return true;
    }
    if (f->factors[k] < 0)
      continue;
    if (!extent_mul(s->g, last, f->factors[k], &part) ||
        !extent_add(s->g, *out, part, out))
      return false;
  }
  return extent_add(s->g, *out, f->constant, out);
}

static Division *find_division(Solver *s, const Form *f, int64_t divisor) {
  for (uint32_t k = 0; k < s->division_count; k++)
    if (s->divisions[k].divisor == divisor &&
        form_equal(&s->divisions[k].dividend, f))
      return &s->divisions[k];
  return NULL;
}

/* If f is the quotient of another division: (f / a) / b == f / (a * b). */
static const Division *inner_division(const Solver *s, const Form *f) {
  if (f->count != 1 || f->factors[0] != 1 || f->constant != 0)
    return NULL;
  for (uint32_t k = 0; k < s->division_count; k++)
    if (s->divisions[k].quotient == f->vars[0])
      return &s->divisions[k];
  return NULL;
}

/* The least value of a form.  Returns false if it is not known. */
static bool form_low(const Solver *s, const Form *f, int64_t *out) {
  int64_t part;
  *out = f->constant;
  if (!extent_is_static(s->g, f->constant)) {
    if (!extent_proved(s->g, EXTENT_LE, 0, f->constant))
      return false;
    *out = 0;
  }
  for (uint32_t k = 0; k < f->count; k++) {
    int64_t extent = s->x->vars[f->vars[k]].extent;
    if (f->factors[k] > 0 || extent == 0)
      continue;
    if (!extent_is_static(s->g, extent) ||
        __builtin_mul_overflow(extent - 1, f->factors[k], &part) ||
        __builtin_add_overflow(*out, part, out))
      return false;
  }
  return true;
}

/* Adds shift * divisor to f, so that it is at least 0. */
static bool make_nonnegative(Solver *s, Form *f, int64_t divisor,
                             int64_t *shift) {
  int64_t low, added;
  if (!form_low(s, f, &low))
    return false;
  *shift = low >= 0                          ? 0
           : extent_is_static(s->g, divisor) ? -int_floor_div(low, divisor)
                                             : -low; /* the divisor is >= 1 */
  return *shift == 0 || (extent_mul(s->g, divisor, *shift, &added) &&
                         extent_add(s->g, f->constant, added, &f->constant));
}

static bool is_rotation(const Solver *s, const Form *f, int64_t divisor) {
  return f->count == 1 && f->factors[0] == 1 &&
         s->x->vars[f->vars[0]].extent == divisor;
}

static Division *division_of(Solver *s, const Form *f, int64_t divisor) {
  Division *found = find_division(s, f, divisor);
  if (found)
    return found;
  const Division *inner = inner_division(s, f);
  uint32_t quotient = NO_VALUE, whole_number = 0;
  int64_t count, product;
  if (inner && extent_mul(s->g, inner->divisor, divisor, &product)) {
    Form dividend = inner->dividend;
    Division *whole = division_of(s, &dividend, product);
    if (!whole)
      return NULL;
    quotient = whole->quotient;
    whole_number = (uint32_t)(whole - s->divisions) + 1;
  }
  if (s->division_count == MAX_DIVISIONS || !form_value_count(s, f, &count) ||
      !extent_ceil_div(s->g, count, divisor, &count))
    return NULL;
  Division *d = &s->divisions[s->division_count];
  *d = (Division){.dividend = *f,
                  .divisor = divisor,
                  .quotient = quotient,
                  .whole = whole_number};
  if ((quotient == NO_VALUE && !new_var(s, count, &d->quotient)) ||
      !new_var(s, divisor, &d->remainder))
    return NULL;
  s->division_count++;
  return d;
}

/* ---- parsing ---- */

static bool parse_op(Solver *s, const FormScope *scope, uint32_t op, Form *out,
                     uint32_t depth);

static bool is_positive(const Solver *s, int64_t x) {
  return extent_is_static(s->g, x) ? x > 0
                                   : extent_proved(s->g, EXTENT_LE, 1, x);
}

static bool parse_arithmetic(Solver *s, const FormScope *scope, const BodyOp *c,
                             Form *out, uint32_t depth) {
  Form y;
  if (!parse_op(s, scope, c->args[0], out, depth))
    return false;
  if (c->op == PRIM_NEG) {
    Form x = *out;
    *out = (Form){.constant = 0};
    return form_add(s, out, &x, -1);
  }
  if (c->arg_count != 2 || !parse_op(s, scope, c->args[1], &y, depth))
    return false;
  if (c->op == PRIM_ADD || c->op == PRIM_SUB)
    return form_add(s, out, &y, c->op == PRIM_ADD ? 1 : -1);
  if (c->op == PRIM_MUL && out->count == 0) {
    Form x = *out;
    *out = y;
    y = x;
  }
  if (y.count || !is_positive(s, y.constant))
    return false;
  if (c->op == PRIM_MUL) {
    Form x = *out;
    *out = (Form){.constant = 0};
    return extent_is_static(s->g, y.constant) &&
           form_add(s, out, &x, y.constant);
  }
  if (c->op != PRIM_DIV && c->op != PRIM_MOD)
    return false;
  int64_t shift = 0;
  if (!(c->op == PRIM_MOD && is_rotation(s, out, y.constant)) &&
      !make_nonnegative(s, out, y.constant, &shift))
    return false;
  Division *d = division_of(s, out, y.constant);
  if (!d)
    return false;
  form_of_var(out, c->op == PRIM_DIV ? d->quotient : d->remainder);
  if (c->op == PRIM_DIV)
    out->constant = -shift;
  return true;
}

enum { MAX_INDEX_NODES = 8 }; /* nesting depth of integer nodes */

/* An index that another node computes from indices. */
static bool parse_read(Solver *s, const FormScope *scope, const BodyOp *c,
                       Form *out, uint32_t depth) {
  const Node *n = c->node;
  Form axes[MAX_RANK];
  if (n->kind != NODE_COMP || n->data || n->own_body || n->guard ||
      n->reduce != PRIM_NONE || !dtype_is_int(n->dtype) ||
      depth == MAX_INDEX_NODES || c->arg_count > 8)
    return false;
  for (uint32_t k = 0; k < c->arg_count; k++)
    if (!parse_op(s, scope, c->args[k], &axes[k], depth + 1))
      return false;
  FormScope inner = {n, axes};
  return parse_op(s, &inner, n->body_op_count - 1, out, depth + 1);
}

static bool parse_op(Solver *s, const FormScope *scope, uint32_t op, Form *out,
                     uint32_t depth) {
  const BodyOp *c = &scope->node->body_ops[op];
  *out = (Form){.constant = 0};
  switch (c->kind) {
  case BODY_CONST:
    out->constant = c->value.i;
    return !dtype_is_float(c->dtype) && c->value.i < FIRST_EXTENT_HANDLE;
  case BODY_EXTENT:
    out->constant = c->extent;
    return true;
  case BODY_AXIS:
    if (scope->axes)
      *out = scope->axes[c->axis];
    else
      form_of_var(out, c->axis);
    return true;
  case BODY_READ:
    return parse_read(s, scope, c, out, depth);
  case BODY_CONVERT:
    return dtype_is_int(c->dtype) &&
           dtype_is_int(scope->node->body_ops[c->args[0]].dtype) &&
           parse_op(s, scope, c->args[0], out, depth);
  case BODY_OP:
    return dtype_is_int(c->dtype) && parse_arithmetic(s, scope, c, out, depth);
  case BODY_SELECT:
  case BODY_RANDOM:
    return false;
  }
  return false;
}

/* ---- solving ---- */

/* target - the known part of the form; the unknown terms go to `rest`. */
static uint32_t subtract_known(Solver *s, const Form *f, uint32_t target,
                               Form *rest, bool *is_bounded) {
  BodyBuilder *b = s->b;
  *rest = (Form){.constant = 0};
  *is_bounded = false;
  if (f->constant != 0)
    target = body_op2(b, PRIM_SUB, DT_I64, target, body_int(b, f->constant));
  for (uint32_t k = 0; k < f->count; k++) {
    const InvertVar *v = &s->x->vars[f->vars[k]];
    if (v->value == NO_VALUE) {
      rest->vars[rest->count] = f->vars[k];
      rest->factors[rest->count++] = f->factors[k];
      continue;
    }
    bool negative = f->factors[k] < 0;
    uint32_t part =
        body_mul_int(b, v->value, negative ? -f->factors[k] : f->factors[k]);
    target = body_op2(b, negative ? PRIM_ADD : PRIM_SUB, DT_I64, target, part);
    *is_bounded |= v->is_bounded;
  }
  return target;
}

static uint32_t exact_quotient(Solver *s, uint32_t target, int64_t divisor) {
  BodyBuilder *b = s->b;
  if (divisor == 1)
    return target;
  uint32_t quotient, remainder;
  divide_op(s, target, divisor, true, &quotient, &remainder);
  const BodyOp *c = &b->ops[remainder];
  if (c->kind != BODY_CONST || c->value.i != 0) {
    uint32_t zero = body_int(b, 0);
    invert_require(s->x, body_op2(b, PRIM_EQ, DT_BOOL, remainder, zero));
  }
  return quotient;
}

/* factor * var == target */
static void solve_one(Solver *s, uint32_t var, int64_t factor, uint32_t target,
                      bool is_bounded) {
  BodyBuilder *b = s->b;
  if (factor < 0) {
    target = body_op2(b, PRIM_SUB, DT_I64, body_int(b, 0), target);
    factor = -factor;
  }
  assign(s, var, exact_quotient(s, target, factor), is_bounded || factor != 1);
}

/* The sum of the variables is the target: computes the longest from the
 * others. */
static void solve_plain_sum(Solver *s, uint32_t count, const uint32_t *vars,
                            const int64_t *factors, uint32_t target,
                            bool is_bounded) {
  uint32_t best = NO_VALUE;
  for (uint32_t k = 0; k < count; k++) {
    if (factors[k] != 1 && factors[k] != -1)
      continue;
    double size = extent_hint(s->g, s->x->vars[vars[k]].extent);
    if (best == NO_VALUE ||
        size > (double)extent_hint(s->g, s->x->vars[vars[best]].extent))
      best = k;
  }
  Form f = {.constant = 0}, rest;
  for (uint32_t k = 0; k < count; k++) {
    f.vars[f.count] = vars[k];
    f.factors[f.count++] = factors[k];
    if (k != (best == NO_VALUE ? 0 : best))
      make_summed(s, vars[k]);
  }
  bool bounded;
  target = subtract_known(s, &f, target, &rest, &bounded);
  solve_one(s, rest.vars[0], rest.factors[0], target, is_bounded || bounded);
}

typedef struct SumTerms { /* terms with positive factors, largest first */
  uint32_t count;
  uint32_t vars[MAX_TERMS];
  int64_t factors[MAX_TERMS];
} SumTerms;

static void sort_terms(SumTerms *t) {
  for (uint32_t k = 1; k < t->count; k++)
    for (uint32_t j = k; j > 0 && t->factors[j - 1] < t->factors[j]; j--) {
      uint32_t v = t->vars[j];
      int64_t f = t->factors[j];
      t->vars[j] = t->vars[j - 1], t->factors[j] = t->factors[j - 1];
      t->vars[j - 1] = v, t->factors[j - 1] = f;
    }
}

/* var == radix * digits[0] + digits[1], for variables that were split. */
typedef struct Split {
  uint32_t var, high, low;
  int64_t radix;
} Split;

/* The largest value of the terms from `first` on; -1 if unknown. */
static int64_t largest_sum(const Solver *s, const SumTerms *t, uint32_t first) {
  int64_t sum = 0, part;
  for (uint32_t k = first; k < t->count; k++) {
    int64_t extent = s->x->vars[t->vars[k]].extent;
    if (!extent_is_static(s->g, extent) ||
        __builtin_mul_overflow(extent - 1, t->factors[k], &part) ||
        __builtin_add_overflow(sum, part, &sum))
      return -1;
  }
  return sum;
}

/* True if the terms from `first` on have each value from 0 to radix - 1 once,
 * as the digits of a number do. */
static bool are_digits(const Solver *s, const SumTerms *t, uint32_t first) {
  int64_t next = 1;
  for (uint32_t k = t->count; k-- > first;)
    if (t->factors[k] != next ||
        !extent_mul(s->g, next, s->x->vars[t->vars[k]].extent, &next))
      return false;
  return next == t->factors[0];
}

/* Splits the low terms that overlap with the largest factor.  Returns false
 * if some cannot be split. */
static bool split_low_terms(Solver *s, SumTerms *t, uint32_t high_count,
                            Split *splits, uint32_t *split_count) {
  int64_t radix = t->factors[0];
  uint32_t count = t->count;
  for (uint32_t k = high_count; k < count; k++) {
    int64_t extent = s->x->vars[t->vars[k]].extent;
    int64_t digits = radix / t->factors[k];
    if (radix % t->factors[k] || !extent_is_static(s->g, extent))
      return false;
    if (extent <= digits)
      continue;
    Split p = {.var = t->vars[k], .radix = digits};
    if (t->count == MAX_TERMS || *split_count == MAX_TERMS ||
        !new_var(s, (extent + digits - 1) / digits, &p.high) ||
        !new_var(s, digits, &p.low))
      return false;
    t->vars[k] = p.low;
    t->vars[t->count] = p.high;
    t->factors[t->count++] = radix;
    splits[(*split_count)++] = p;
  }
  sort_terms(t);
  return true;
}

/* If the low digit is known, the high digit has fewer values. */
static void narrow_splits(Solver *s, uint32_t count, const Split *splits) {
  for (uint32_t k = 0; k < count; k++) {
    const Split *p = &splits[k];
    const BodyOp *low = &s->b->ops[s->x->vars[p->low].value];
    int64_t extent = s->x->vars[p->var].extent;
    if (low->kind == BODY_CONST && low->value.i < extent)
      s->x->vars[p->high].extent =
          (extent - low->value.i + p->radix - 1) / p->radix;
  }
}

static uint32_t count_high(const SumTerms *t) {
  uint32_t n = 0;
  while (n < t->count && t->factors[n] == t->factors[0])
    n++;
  return n;
}

static void solve_terms(Solver *s, SumTerms *t, uint32_t target,
                        bool is_bounded) {
  BodyBuilder *b = s->b;
  Split splits[MAX_TERMS];
  uint32_t split_count = 0, high = count_high(t);
  int64_t radix = t->factors[0];
  if (high < t->count) {
    int64_t low = largest_sum(s, t, high);
    SumTerms whole = *t;
    if (low < 0 || low >= radix) {
      if (low < 0 || !split_low_terms(s, t, high, splits, &split_count) ||
          largest_sum(s, t, high = count_high(t)) >= radix) {
        solve_plain_sum(s, whole.count, whole.vars, whole.factors, target,
                        is_bounded);
        return;
      }
    }
    SumTerms rest = {.count = t->count - high};
    memcpy(rest.vars, t->vars + high, rest.count * sizeof *rest.vars);
    memcpy(rest.factors, t->factors + high, rest.count * sizeof *rest.factors);
    uint32_t remainder;
    divide_op(s, target, radix, !are_digits(s, t, high), &target, &remainder);
    solve_terms(s, &rest, remainder, is_bounded);
    narrow_splits(s, split_count, splits);
  } else {
    target = exact_quotient(s, target, radix);
    is_bounded |= radix != 1;
  }
  if (high == 1) {
    assign(s, t->vars[0], target, is_bounded);
  } else {
    int64_t ones[MAX_TERMS];
    for (uint32_t k = 0; k < high; k++)
      ones[k] = 1;
    solve_plain_sum(s, high, t->vars, ones, target, is_bounded);
  }
  for (uint32_t k = 0; k < split_count; k++) {
    const Split *p = &splits[k];
    uint32_t scaled = body_mul_int(b, s->x->vars[p->high].value, p->radix);
    assign(s, p->var, add(s, scaled, s->x->vars[p->low].value),
           s->x->vars[p->high].is_bounded || s->x->vars[p->low].is_bounded);
  }
}

static void solve_sum(Solver *s, const Form *rest, uint32_t target,
                      bool is_bounded) {
  SumTerms t = {.count = rest->count};
  bool all_positive = true;
  for (uint32_t k = 0; k < rest->count; k++) {
    t.vars[k] = rest->vars[k];
    t.factors[k] = rest->factors[k];
    all_positive &= rest->factors[k] > 0;
  }
  if (!all_positive) {
    solve_plain_sum(s, t.count, t.vars, t.factors, target, is_bounded);
    return;
  }
  sort_terms(&t);
  solve_terms(s, &t, target, is_bounded);
}

/* Solves an equation if at most `max_unknown` variables are unknown. */
static bool solve_equation(Solver *s, Equation *e, uint32_t max_unknown) {
  uint32_t unknown = 0;
  for (uint32_t k = 0; k < e->form.count; k++)
    unknown += !is_known(s, e->form.vars[k]);
  if (unknown > max_unknown)
    return false;
  e->is_solved = true;
  if (unknown == 0 && e->form.count == 0) {
    Range r = range_of_op(s, e->target);
    if (r.is_known && r.low == r.high &&
        extent_is_static(s->g, e->form.constant) && r.low == e->form.constant)
      return true;
  }
  Form rest;
  bool is_bounded;
  uint32_t target = subtract_known(s, &e->form, e->target, &rest, &is_bounded);
  if (unknown == 0) {
    uint32_t zero = body_int(s->b, 0);
    invert_require(s->x, body_op2(s->b, PRIM_EQ, DT_BOOL, target, zero));
  } else if (unknown == 1) {
    solve_one(s, rest.vars[0], rest.factors[0], target, is_bounded);
  } else {
    solve_sum(s, &rest, target, is_bounded);
  }
  return true;
}

/* (v + k) % n with v < n is a rotation. */
static bool solve_rotation(Solver *s, const Division *d) {
  const Form *f = &d->dividend;
  if (!is_rotation(s, f, d->divisor) || is_known(s, f->vars[0]))
    return false;
  BodyBuilder *b = s->b;
  uint32_t value = s->x->vars[d->remainder].value;
  if (f->constant != 0) {
    value = body_op2(b, PRIM_SUB, DT_I64, value, body_int(b, f->constant));
    value = body_floor_mod_int(b, value, d->divisor);
  }
  InvertVar *v = &s->x->vars[f->vars[0]];
  v->value = value;
  v->is_bounded = s->x->vars[d->remainder].is_bounded;
  return true;
}

static bool form_is_known(const Solver *s, const Form *f) {
  for (uint32_t k = 0; k < f->count; k++)
    if (!is_known(s, f->vars[k]))
      return false;
  return true;
}

static bool form_has(const Form *f, uint32_t var) {
  for (uint32_t k = 0; k < f->count; k++)
    if (f->vars[k] == var)
      return true;
  return false;
}

/* True if the variable is in something that is not solved yet. */
static bool is_needed(const Solver *s, uint32_t var) {
  for (uint32_t k = 0; k < s->equation_count; k++)
    if (!s->equations[k].is_solved && form_has(&s->equations[k].form, var))
      return true;
  for (uint32_t k = 0; k < s->division_count; k++)
    if (!s->divisions[k].is_used && form_has(&s->divisions[k].dividend, var))
      return true;
  return false;
}

/* The dividend is known.  A known quotient or remainder becomes a condition;
 * the other one is computed if something needs it. */
static void solve_known_dividend(Solver *s, const Division *d) {
  BodyBuilder *b = s->b;
  uint32_t parts[2] = {d->quotient, d->remainder};
  uint32_t dividend = body_int(b, d->dividend.constant);
  bool is_bounded = false;
  for (uint32_t k = 0; k < d->dividend.count; k++) {
    uint32_t factor = body_int(b, d->dividend.factors[k]);
    const InvertVar *v = &s->x->vars[d->dividend.vars[k]];
    is_bounded |= v->is_bounded;
    dividend =
        add(s, dividend, body_op2(b, PRIM_MUL, DT_I64, v->value, factor));
  }
  for (uint32_t k = 0; k < 2; k++) {
    if (!is_known(s, parts[k]) && !is_needed(s, parts[k]))
      continue;
    uint32_t value = k ? body_floor_mod_int(b, dividend, d->divisor)
                       : body_floor_div_int(b, dividend, d->divisor);
    InvertVar *v = &s->x->vars[parts[k]];
    if (is_known(s, parts[k])) {
      invert_require(s->x, body_op2(b, PRIM_EQ, DT_BOOL, value, v->value));
    } else {
      v->value = value;
      v->is_bounded = is_bounded;
    }
  }
}

/* Solves for the dividend once the quotient or the remainder is known, or for
 * these once the dividend is known.  `both`: only if both are known. */
static bool solve_division(Solver *s, Division *d, bool both) {
  bool quotient = is_known(s, d->quotient),
       remainder = is_known(s, d->remainder);
  bool dividend = !both && form_is_known(s, &d->dividend);
  if (d->is_used)
    return false;
  if (!(both ? quotient && remainder : quotient || remainder) &&
      !(dividend && (is_needed(s, d->quotient) || is_needed(s, d->remainder))))
    return false;
  d->is_used = true;
  if (both && d->whole) /* implied by this one and the inner one */
    s->divisions[d->whole - 1].is_used = true;
  if (dividend) {
    solve_known_dividend(s, d);
    return true;
  }
  if (!quotient && solve_rotation(s, d))
    return true;
  if (!quotient)
    make_summed(s, d->quotient);
  if (!remainder)
    make_summed(s, d->remainder);
  const InvertVar *q = &s->x->vars[d->quotient], *r = &s->x->vars[d->remainder];
  uint32_t scaled = body_mul_int(s->b, q->value, d->divisor);
  s->equations[s->equation_count++] =
      (Equation){.form = d->dividend, .target = add(s, scaled, r->value)};
  return true;
}

/* One step, from the cheapest kind on. */
static bool solve_step(Solver *s) {
  for (uint32_t pass = 0; pass < 5; pass++) {
    for (uint32_t k = 0; pass != 1 && pass != 3 && k < s->equation_count; k++)
      if (!s->equations[k].is_solved && solve_equation(s, &s->equations[k],
                                                       pass == 0   ? 1
                                                       : pass == 2 ? 1
                                                                   : MAX_TERMS))
        return true;
    for (uint32_t k = 0; (pass == 1 || pass == 3) && k < s->division_count; k++)
      if (solve_division(s, &s->divisions[k], pass == 1))
        return true;
  }
  return false;
}

static bool data_index_is_summed(const Inversion *x, uint32_t op) {
  const BodyOp *c = &x->n->body_ops[op];
  if (c->kind == BODY_AXIS)
    return x->vars[c->axis].is_summed;
  for (uint32_t k = 0; k < c->arg_count; k++)
    if (data_index_is_summed(x, c->args[k]))
      return true;
  return false;
}

/* Notes the interval of the values of a form without negative factors, as an
 * index of own axis k, and subtracts the offset of this axis. */
static void note_interval(Solver *s, Form *f, uint32_t k, int64_t extent) {
  Inversion *x = s->x;
  int64_t low = f->constant, high;
  bool all_positive = true;
  x->lows[k] = 0, x->counts[k] = extent;
  for (uint32_t j = 0; j < f->count; j++)
    all_positive &= f->factors[j] > 0;
  if (!all_positive || !form_value_count(s, f, &high))
    return;
  if (extent_is_static(s->g, low) && low < 0)
    low = 0;
  if (extent_proved(s->g, EXTENT_LE, extent, high))
    high = extent;
  if (extent_proved(s->g, EXTENT_LE, 0, low) &&
      extent_proved(s->g, EXTENT_LE, low, high) &&
      extent_proved(s->g, EXTENT_LE, high, extent) &&
      extent_sub(s->g, high, low, &x->counts[k]))
    x->lows[k] = low;
  s->has_failed |= x->offsets[k] &&
                   !extent_sub(s->g, f->constant, x->offsets[k], &f->constant);
}

bool invert_read(Inversion *x, const BodyOp *read, const uint32_t *targets) {
  const Node *n = x->n;
  Solver *s = &(Solver){.x = x, .b = x->b, .g = x->b->graph};
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  FormScope scope = {n, NULL};
  x->condition = NO_VALUE;
  x->data_count = 0;
  x->data_is_summed = false;
  memset(x->strides, 0, sizeof x->strides);
  x->var_count = axes;
  for (uint32_t k = 0; k < axes; k++)
    x->vars[k] =
        (InvertVar){.extent = n->extents[k],
                    .value = k < n->free_count ? x->kept_axes[k] : NO_VALUE};
  for (uint32_t k = 0; k < read->arg_count; k++) {
    Equation *e = &s->equations[s->equation_count];
    *e = (Equation){.target = targets[k]};
    uint32_t own = k - read->node->free_count; /* or huge */
    bool is_own = k >= read->node->free_count;
    int64_t extent = read->node->extents[k];
    if (is_own)
      x->lows[own] = 0, x->counts[own] = extent;
    if (parse_op(s, &scope, read->args[k], &e->form, 0)) {
      s->equation_count++;
      if (is_own)
        note_interval(s, &e->form, own, extent);
    } else {
      x->data_ops[x->data_count] = read->args[k];
      x->data_targets[x->data_count++] = targets[k];
    }
  }
  while (solve_step(s))
    ;
  for (uint32_t k = 0; k < axes; k++)
    if (!is_known(s, k) && n->extents[k] == 1)
      x->vars[k].value = body_int(x->b, 0);
    else if (!is_known(s, k))
      make_summed(s, k);
  for (uint32_t k = 0; k < x->data_count; k++)
    x->data_is_summed |= data_index_is_summed(x, x->data_ops[k]);
  return !s->has_failed &&
         x->spec->free_count + x->spec->rank + x->spec->reduce_count <=
             MAX_RANK;
}
