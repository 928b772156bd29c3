/* Identities of reductions, and how they accumulate a value. */
#include "backend/emit/scalar_ops.h"

static const char *extreme_literal(Dtype t, bool is_max) {
  switch (t) {
  case DT_U8:
    return is_max ? "0" : "255";
  case DT_I8:
    return is_max ? "-128" : "127";
  case DT_I32:
    return is_max ? "(-0x7fffffff - 1)" : "0x7fffffff";
  case DT_I64:
    return is_max ? "(-0x7fffffffffffffff - 1)" : "0x7fffffffffffffff";
  case DT_F16:
  case DT_BF16:
  case DT_F32:
  case DT_F64:
  case DT_F8_E5M2:
    return is_max ? "-__builtin_inff()" : "__builtin_inff()";
  case DT_F8_E4M3:
    return is_max ? "-448" : "448";
  case DT_F4_E2M1:
    return is_max ? "-6" : "6";
  case DT_F8_E8M0:
    return is_max ? "0x1p-127f" : "0x1p127f";
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return "0";
}

const char *emit_identity(PrimId op, Dtype t) {
  const ReduceInfo *row = &reduce_info[op];
  switch (t == DT_BOOL        ? row->of_bool
          : dtype_is_float(t) ? row->of_float
                              : row->of_int) {
  case IDENTITY_LOWEST:
    return extreme_literal(t, true);
  case IDENTITY_HIGHEST:
    return extreme_literal(t, false);
  case IDENTITY_ONE:
    return "1";
  case IDENTITY_ZERO:
  case IDENTITY_NONE:
    break;
  }
  return "0";
}

const char *emit_combine(Emitter *e, PrimId op, char class, bool is_vector,
                         const char *acc, const char *x) {
  const ReduceInfo *row = &reduce_info[op];
  const PrimText *text = is_float_class(class) ? &row->floats : &row->integer;
  const char *args[] = {acc, x, NULL};
  if (!text->scalar)
    return emit_map(e, row->combine, class, is_vector, args);
  return emit_template(e, is_vector ? text->vector : text->scalar, class, args);
}
