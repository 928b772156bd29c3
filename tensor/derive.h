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

#include "primitives/map.def"

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
