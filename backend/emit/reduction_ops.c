/* What reductions begin with, and how they take in a value. */
#include "backend/emit/emit.h"

#define format emit_format

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
    return is_max ? "-__builtin_inff()" : "__builtin_inff()";
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return "0";
}

const char *emit_identity(PrimId op, Dtype t) {
  if (op == PRIM_MAX || op == PRIM_MIN)
    return extreme_literal(t, op == PRIM_MAX);
  return op == PRIM_PROD || op == PRIM_ALL ? "1" : "0";
}

const char *emit_combine(Emitter *e, PrimId op, char class, bool is_vector,
                         const char *acc, const char *x) {
  switch ((int)op) {
  case PRIM_SUM:
  case PRIM_PROD: {
    const char *sign = op == PRIM_SUM ? "+" : "*";
    if (is_vector || is_float_class(class))
      return format(e, "%s %s %s", acc, sign, x);
    const char *u = class == 'l' ? "uint64_t" : "uint32_t";
    return format(e, "(%s)((%s)%s %s (%s)%s)", scalar_type(class), u, acc, sign,
                  u, x);
  }
  case PRIM_MAX:
  case PRIM_MIN:
    return emit_min_max(e, op == PRIM_MAX, class, is_vector, acc, x);
  case PRIM_ANY:
    return format(e, "%s | %s", acc, x);
  case PRIM_ALL:
    return format(e, "%s & %s", acc, x);
  }
  e->failed = true;
  return acc;
}
