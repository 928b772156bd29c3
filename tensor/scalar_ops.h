/* The semantics of every MAP primitive on one element.
 *
 * There is one function ref_<ID> for each MAP row of primitives.def and each
 * compute kind.  Constant folding and the reference backend use these
 * functions.  A row without its function is a compile error.
 *
 * Compute kinds: KIND_I holds bool and all integers in 64 bits (the caller
 * wraps to the width).  KIND_F holds f32 and narrower floats (the caller
 * rounds).  KIND_D holds f64. */
#ifndef AXON_TENSOR_SCALAR_OPS_H
#define AXON_TENSOR_SCALAR_OPS_H

#include "primitives/primitives.h"
#include "runtime/runtime.h"

#include <math.h>

typedef union Reg {
  int64_t i; /* KIND_I */
  float f;   /* KIND_F */
  double d;  /* KIND_D */
} Reg;

typedef enum ComputeKind { KIND_I, KIND_F, KIND_D, KIND_COUNT } ComputeKind;

static inline ComputeKind compute_kind(Dtype t) {
  return !dtype_is_float(t) ? KIND_I : t == DT_F64 ? KIND_D : KIND_F;
}

static inline const char *arith_message(ArithStatus a) {
  return a == ARITH_DIVIDE_BY_ZERO   ? "integer division by zero"
         : a == ARITH_NEGATIVE_POWER ? "an integer to a negative power"
                                     : "a shift by a negative number of bits";
}

static inline Reg reg_from_scalar(Scalar x) {
  Reg r = {.i = 0};
  ComputeKind kind = compute_kind(x.dtype);
  if (kind == KIND_I)
    r.i = x.i;
  else if (kind == KIND_F)
    r.f = (float)x.f;
  else
    r.d = x.f;
  return r;
}

static inline Scalar scalar_from_reg(Dtype dtype, Reg r) {
  Scalar x = {.dtype = dtype};
  ComputeKind kind = compute_kind(dtype);
  if (kind == KIND_I)
    x.i = r.i;
  else
    x.f = kind == KIND_F ? r.f : r.d;
  return x;
}

#define REF_FN(id)                             \
  static inline __attribute__((always_inline)) \
  ArithStatus ref_##id(ComputeKind kind, Reg *out, Reg a, Reg b, Reg c)

/* x, y, z are the arguments.  `i`, `f`, `d` are the expressions in each kind.
 * `to` is the member of the result that is set; default: that of the
 * arguments. */
#define REF_IN(member, type, to, value)            \
  {                                                \
    type x = a.member, y = b.member, z = c.member; \
    (void)x, (void)y, (void)z;                     \
    out->to = (value);                             \
  }
#define REF_TO(id, i_, f_, d_, ti, tf, td) \
  REF_FN(id) {                             \
    if (kind == KIND_I)                    \
      REF_IN(i, int64_t, ti, i_)           \
    else if (kind == KIND_F)               \
      REF_IN(f, float, tf, f_)             \
    else                                   \
      REF_IN(d, double, td, d_)            \
    return ARITH_OK;                       \
  }
#define REF_NUM(id, i_, f_, d_) REF_TO(id, i_, f_, d_, i, f, d)
#define REF_FLOAT(id, fn) REF_NUM(id, x, fn##f(x), fn(x))
#define REF_TEST(id, op) REF_TO(id, x op y, x op y, x op y, i, i, i)
#define REF_BOOL(id, value)   \
  REF_FN(id) {                \
    (void)kind, (void)c;      \
    int64_t x = a.i, y = b.i; \
    (void)y;                  \
    out->i = (value);         \
    return ARITH_OK;          \
  }
#define REF_BITS(id, from, of, to, out_of) \
  REF_FN(id) {                             \
    (void)kind, (void)b, (void)c;          \
    union {                                \
      from before;                         \
      to after;                            \
    } bits = {.before = (from)a.of};       \
    out->out_of = bits.after;              \
    return ARITH_OK;                       \
  }
#define WRAP2(op) ((int64_t)((uint64_t)x op(uint64_t) y))

#include "primitives/map.def"

REF_FN(SELECT) { /* a is bool; b and c have the kind */
  (void)kind;
  *out = a.i ? b : c;
  return ARITH_OK;
}

REF_FN(CONVERT) { /* bodies use BODY_CONVERT instead: scalar_convert */
  (void)kind, (void)b, (void)c;
  *out = a;
  return ARITH_OK;
}

/* Rounds down: -7 / 2 == -4.  INT64_MIN / -1 wraps. */
static inline int64_t int_floor_div(int64_t x, int64_t y) {
  if (y == -1)
    return (int64_t) - (uint64_t)x;
  int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}

/* Has the sign of y: -1 % 5 == 4. */
static inline int64_t int_floor_mod(int64_t x, int64_t y) {
  if (y == -1)
    return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

REF_FN(DIV) {
  (void)c;
  if (kind == KIND_I) {
    if (b.i == 0)
      return ARITH_DIVIDE_BY_ZERO;
    out->i = int_floor_div(a.i, b.i);
  } else if (kind == KIND_F) {
    out->f = a.f / b.f;
  } else {
    out->d = a.d / b.d;
  }
  return ARITH_OK;
}

/* As in Python: the exact remainder, moved to the sign of y. */
#define FLOAT_MOD(type, fn, x, y)    \
  ({                                 \
    type y_ = (y), r_ = fn((x), y_); \
    if (y_ != 0) {                   \
      if (r_ == 0)                   \
        r_ = (type)copysign(0, y_);  \
      else if ((y_ < 0) != (r_ < 0)) \
        r_ += y_;                    \
    }                                \
    r_;                              \
  })

REF_FN(MOD) {
  (void)c;
  if (kind == KIND_I) {
    if (b.i == 0)
      return ARITH_DIVIDE_BY_ZERO;
    out->i = int_floor_mod(a.i, b.i);
  } else if (kind == KIND_F) {
    out->f = FLOAT_MOD(float, fmodf, a.f, b.f);
  } else {
    out->d = FLOAT_MOD(double, fmod, a.d, b.d);
  }
  return ARITH_OK;
}

static inline int64_t int_pow(int64_t x, int64_t y) {
  uint64_t base = (uint64_t)x, result = 1;
  for (; y; y >>= 1, base *= base)
    if (y & 1)
      result *= base;
  return (int64_t)result;
}

REF_FN(POW) {
  (void)c;
  if (kind == KIND_I) {
    if (b.i < 0)
      return ARITH_NEGATIVE_POWER;
    out->i = int_pow(a.i, b.i);
  } else if (kind == KIND_F) {
    out->f = powf(a.f, b.f);
  } else {
    out->d = pow(a.d, b.d);
  }
  return ARITH_OK;
}

/* Counts beyond the width move all bits out. */
REF_FN(SHIFT_LEFT) {
  (void)kind, (void)c;
  if (b.i < 0)
    return ARITH_NEGATIVE_SHIFT;
  out->i = b.i > 63 ? 0 : (int64_t)((uint64_t)a.i << b.i);
  return ARITH_OK;
}

REF_FN(SHIFT_RIGHT) {
  (void)kind, (void)c;
  if (b.i < 0)
    return ARITH_NEGATIVE_SHIFT;
  out->i = a.i >> (b.i > 63 ? 63 : b.i);
  return ARITH_OK;
}

#undef REF_FN
#undef REF_IN
#undef REF_TO
#undef REF_NUM
#undef REF_FLOAT
#undef REF_TEST
#undef REF_BOOL
#undef WRAP2

/* Rounds or wraps a result to `dtype`. */
static inline Reg reg_round_or_wrap(Dtype dtype, Reg r) {
  if (dtype_is_narrow_float(dtype))
    r.f = (float)dtype_round(dtype, r.f);
  else if (compute_kind(dtype) == KIND_I)
    r.i = dtype_wrap(dtype, r.i);
  return r;
}

/* The value that an extreme of this order never prefers to another one. */
Scalar scalar_worst(ReduceOrder order, Dtype t);
/* The result of a reduction of no elements, in the type of the elements.  A
 * reduction that rejects no elements has zero. */
Scalar reduce_identity(PrimId op, Dtype of);

/* scalar_ops.c: applies a MAP primitive to known scalars.  CONVERT converts to
 * `result`. */
ArithStatus scalar_apply(PrimId op, uint32_t count, const Scalar *args,
                         Dtype result, Scalar *out);

#endif
