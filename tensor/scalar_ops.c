/* Constant folding: applies any MAP primitive to known scalars. */
#include "tensor/scalar_ops.h"

#include <math.h>

#define REF_NONE(id) case PRIM_##id:
#define REF_MAP(id) \
  case PRIM_##id:   \
    return ref_##id(kind, out, r[0], r[1], r[2]);
#define REF_REDUCE REF_NONE
#define REF_MOVE REF_NONE
#define REF_MAKE REF_NONE
#define REF_OPAQUE REF_NONE
#define REF_CONTROL REF_NONE
#define REF_HOST REF_NONE

static Scalar lowest_value(Dtype t) {
  if (dtype_is_float(t))
    return (Scalar){.dtype = t, .f = dtype_round(t, -INFINITY)};
  int64_t x = t == DT_I64   ? INT64_MIN
              : t == DT_I32 ? INT32_MIN
              : t == DT_I8  ? INT8_MIN
                            : 0;
  return (Scalar){.dtype = t, .i = x};
}

static Scalar highest_value(Dtype t) {
  if (dtype_is_float(t))
    return (Scalar){.dtype = t, .f = dtype_round(t, INFINITY)};
  int64_t x = t == DT_I64   ? INT64_MAX
              : t == DT_I32 ? INT32_MAX
              : t == DT_I8  ? INT8_MAX
                            : UINT8_MAX;
  return (Scalar){.dtype = t, .i = x};
}

Scalar scalar_worst(ReduceOrder order, Dtype t) {
  return order == ORDER_MAX ? lowest_value(t) : highest_value(t);
}

Scalar reduce_identity(PrimId op, Dtype of) {
  const ReduceInfo *row = &reduce_info[op];
  ReduceIdentity identity = of == DT_BOOL        ? row->of_bool
                            : dtype_is_float(of) ? row->of_float
                                                 : row->of_int;
  switch (identity) {
  case IDENTITY_NONE:
  case IDENTITY_ZERO:
    break;
  case IDENTITY_ONE:
    return scalar_convert((Scalar){.dtype = DT_I64, .i = 1}, of);
  case IDENTITY_LOWEST:
    return lowest_value(of);
  case IDENTITY_HIGHEST:
    return highest_value(of);
  }
  return (Scalar){.dtype = of};
}

static ArithStatus apply_op(PrimId op, ComputeKind kind, Reg *out,
                            const Reg r[3]) {
  switch (op) { /* the others are no elementwise operations */
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  REF_##class(id)
#include "primitives/primitives.def"
#undef P
  case PRIM_NONE:
  case PRIM_COUNT:
    break;
  }
  return ARITH_OK;
}

ArithStatus scalar_apply(PrimId op, uint32_t count, const Scalar *args,
                         Dtype result, Scalar *out) {
  if (op == PRIM_CONVERT) {
    *out = scalar_convert(args[0], result);
    return ARITH_OK;
  }
  Reg r[3] = {{.i = 0}, {.i = 0}, {.i = 0}}, value = {.i = 0};
  for (uint32_t k = 0; k < count && k < 3; k++)
    r[k] = reg_from_scalar(args[k]);
  ComputeKind kind = compute_kind(args[op == PRIM_SELECT ? 1 : 0].dtype);
  ArithStatus status = apply_op(op, kind, &value, r);
  if (status == ARITH_OK)
    *out = scalar_from_reg(result, reg_round_or_wrap(result, value));
  return status;
}
