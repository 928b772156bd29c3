/* Partial derivatives of the MAP primitives with PARTIALS in primitives.def.
 *
 * derive_<ID> builds, from the arguments x, y and z, the result r and its
 * cotangent ct, the contribution to the cotangent of one argument.  A missing
 * function is a compile error (adjoint_body.c).
 *
 * A partial that may be infinite or NaN is multiplied by NO_NAN: the product is
 * 0 where the cotangent is 0.  So a branch that `select` did not take adds
 * nothing, whatever its value.  (JAX issue 8128 has the "double where" that
 * this avoids.) */
#ifndef AXON_TENSOR_DERIVE_H
#define AXON_TENSOR_DERIVE_H

#include "tensor/internal.h"

/* An operand is built when a rule uses it: an unused read would keep its node
 * alive. */
typedef struct Derive {
  BodyBuilder *b;
  Dtype dtype;       /* of the result, a float type */
  uint32_t ct;       /* op of the cotangent of the result */
  uint32_t argument; /* which argument: 0, 1 or 2 */
  bool absorbs;      /* MUL: the partial may be infinite or NaN */
  void *owner;
  uint32_t (*operand)(void *owner, uint32_t k); /* op of an argument */
  uint32_t (*result)(void *owner);              /* op of the result */
} Derive;

static inline uint32_t derive_const(const Derive *d, double value) {
  Scalar x = {.dtype = d->dtype};
  x.f = dtype_round(d->dtype, value);
  return body_const(d->b, x);
}
static inline uint32_t derive_op1(const Derive *d, PrimId op, uint32_t x) {
  return body_op(d->b, op, d->dtype, 1, &x);
}
static inline uint32_t derive_op2(const Derive *d, PrimId op, uint32_t x,
                                  uint32_t y) {
  return body_op2(d->b, op, d->dtype, x, y);
}
static inline uint32_t derive_compare(const Derive *d, PrimId op, uint32_t x,
                                      uint32_t y) {
  return body_op2(d->b, op, DT_BOOL, x, y);
}
static inline uint32_t derive_select(const Derive *d, uint32_t c, uint32_t x,
                                     uint32_t y) {
  return body_op(d->b, PRIM_SELECT, d->dtype, 3, (uint32_t[]){c, x, y});
}

#define DERIVE(id) static inline uint32_t derive_##id(const Derive *d)
#define K(value) derive_const(d, value)
#define F(op, x) derive_op1(d, PRIM_##op, x)
#define ADD(x, y) derive_op2(d, PRIM_ADD, x, y)
#define SUB(x, y) derive_op2(d, PRIM_SUB, x, y)
#define MUL(x, y) derive_op2(d, PRIM_MUL, x, y)
#define DIV(x, y) derive_op2(d, PRIM_DIV, x, y)
#define POW(x, y) derive_op2(d, PRIM_POW, x, y)
#define NEG(x) derive_op1(d, PRIM_NEG, x)
#define TEST(op, x, y) derive_compare(d, PRIM_##op, x, y)
#define IF(c, x, y) derive_select(d, c, x, y)
#define NO_NAN(partial) derive_op2(d, PRIM_MUL_NO_NAN, partial, d->ct)
#define X d->operand(d->owner, 0)
#define Y d->operand(d->owner, 1)
#define R d->result(d->owner)
#define CT d->ct

/* clang-format off: one rule per line */
DERIVE(ADD) {
  return CT;
}
DERIVE(SUB) {
  return d->argument == 0 ? CT : NEG(CT);
}
DERIVE(MUL) {
  uint32_t partial = d->argument == 0 ? Y : X;
  return d->absorbs ? NO_NAN(partial) : MUL(CT, partial);
}
DERIVE(DIV) {
  return d->argument == 0 ? NO_NAN(DIV(K(1), Y)) : NO_NAN(NEG(DIV(R, Y)));
}
DERIVE(MOD) {
  return d->argument == 0 ? CT : NO_NAN(NEG(F(FLOOR, DIV(X, Y))));
}
DERIVE(NEG) {
  return NEG(CT);
}
DERIVE(MUL_NO_NAN) {
  return d->argument == 0 ? derive_op2(d, PRIM_MUL_NO_NAN, CT, Y) : NO_NAN(X);
}
DERIVE(SQRT) {
  return NO_NAN(DIV(K(0.5), R));
}
DERIVE(RSQRT) {
  return NO_NAN(DIV(MUL(K(-0.5), R), X));
}
DERIVE(EXP) {
  return NO_NAN(R);
}
DERIVE(EXPM1) {
  return NO_NAN(ADD(R, K(1)));
}
DERIVE(LOG) {
  return NO_NAN(DIV(K(1), X));
}
DERIVE(LOG1P) {
  return NO_NAN(DIV(K(1), ADD(K(1), X)));
}
DERIVE(SIN) {
  return NO_NAN(F(COS, X));
}
DERIVE(COS) {
  return NO_NAN(NEG(F(SIN, X)));
}
DERIVE(TAN) {
  return NO_NAN(ADD(K(1), MUL(R, R)));
}
DERIVE(SINH) {
  return NO_NAN(F(COSH, X));
}
DERIVE(COSH) {
  return NO_NAN(F(SINH, X));
}
DERIVE(TANH) {
  return MUL(CT, SUB(K(1), MUL(R, R)));
}
DERIVE(ERF) {
  return NO_NAN(MUL(K(1.1283791670955126), F(EXP, NEG(MUL(X, X)))));
}
DERIVE(ABS) {
  return MUL(CT, F(SIGN, X));
} /* 0 at 0 */
/* clang-format on */

/* Equal arguments share the cotangent evenly. */
static inline uint32_t derive_extreme(const Derive *d, PrimId better) {
  uint32_t a = d->argument == 0 ? X : Y, b = d->argument == 0 ? Y : X;
  uint32_t share = IF(TEST(EQ, a, b), K(0.5),
                      IF(body_op2(d->b, better, DT_BOOL, a, b), K(1),
                         IF(TEST(NE, a, a), K(1), K(0)))); /* NaN wins */
  return MUL(CT, share);
}
DERIVE(MAXIMUM) {
  return derive_extreme(d, PRIM_GT);
}
DERIVE(MINIMUM) {
  return derive_extreme(d, PRIM_LT);
}

DERIVE(POW) {
  if (d->argument == 0) { /* y * x^(y - 1), and 0 for y = 0 */
    uint32_t partial = MUL(Y, POW(X, SUB(Y, K(1))));
    return NO_NAN(IF(TEST(EQ, Y, K(0)), K(0), partial));
  }
  /* x^y * log x, and 0 for x = 0 */
  uint32_t is_zero = TEST(EQ, X, K(0));
  return NO_NAN(IF(is_zero, K(0), MUL(R, F(LOG, IF(is_zero, K(1), X)))));
}

DERIVE(ATAN2) {
  uint32_t norm = ADD(MUL(X, X), MUL(Y, Y));
  return NO_NAN(d->argument == 0 ? DIV(Y, norm) : NEG(DIV(X, norm)));
}

DERIVE(SOFTSIGN) {
  uint32_t sum = ADD(K(1), F(ABS, X));
  return NO_NAN(DIV(K(1), MUL(sum, sum)));
}

DERIVE(SELECT) {
  return d->argument == 1 ? IF(X, CT, K(0)) : IF(X, K(0), CT);
}

#undef DERIVE
#undef K
#undef F
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef POW
#undef NEG
#undef TEST
#undef IF
#undef NO_NAN
#undef X
#undef Y
#undef R
#undef CT

#endif
