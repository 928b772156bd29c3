/* Operations on elements as C, and what C has no word for. */
#include "session/cgen.h"

#include <string.h>

/* Beside what is taken from backend/cpu/prelude/scalar.inc.  Sizes divide as
 * in the language; by 0, which a requirement refuses, it is 0. */
const char cgen_runtime[] =
    "typedef struct Keyed { /* an element as an integer of the same order */\n"
    "  uint64_t order;\n"
    "  int64_t index;\n"
    "} Keyed;\n"
    "INLINE int64_t size_div(int64_t x, int64_t y) {\n"
    "  return y ? x / y - (x % y != 0 && (x < 0) != (y < 0)) : 0;\n"
    "}\n"
    "INLINE int64_t size_min(int64_t x, int64_t y) { return x < y ? x : y; }\n"
    "INLINE int64_t size_max(int64_t x, int64_t y) { return x > y ? x : y; }\n"
    "/* -1: more than there can be */\n"
    "INLINE int64_t times(int64_t x, int64_t y) {\n"
    "  if (x < 0 || y <= 0 || x == 0)\n"
    "    return x < 0 ? -1 : 0;\n"
    "  return x > INT64_MAX / 16 / y ? -1 : x * y;\n"
    "}\n"
    "INLINE void *room(int64_t count, size_t bytes, int clear) {\n"
    "  if (count < 0 || (uint64_t)count > SIZE_MAX / bytes)\n"
    "    return NULL;\n"
    "  size_t n = count ? (size_t)count : 1;\n"
    "  return clear ? calloc(n, bytes) : malloc(n * bytes);\n"
    "}\n"
    "INLINE float max_f(float x, float y) { return x > y || x != x ? x : y; }\n"
    "INLINE float min_f(float x, float y) { return x < y || x != x ? x : y; }\n"
    "INLINE double max_d(double x, double y) {\n"
    "  return x > y || x != x ? x : y;\n"
    "}\n"
    "INLINE double min_d(double x, double y) {\n"
    "  return x < y || x != x ? x : y;\n"
    "}\n"
    "INLINE int64_t max_i(int64_t x, int64_t y) { return x > y ? x : y; }\n"
    "INLINE int64_t min_i(int64_t x, int64_t y) { return x < y ? x : y; }\n"
    "INLINE float sign_f(float x) {\n"
    "  return x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? 0.0f : x;\n"
    "}\n"
    "INLINE double sign_d(double x) {\n"
    "  return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x;\n"
    "}\n"
    "INLINE int64_t add_i(int64_t x, int64_t y) {\n"
    "  return (int64_t)((uint64_t)x + (uint64_t)y);\n"
    "}\n"
    "INLINE int64_t sub_i(int64_t x, int64_t y) {\n"
    "  return (int64_t)((uint64_t)x - (uint64_t)y);\n"
    "}\n"
    "INLINE int64_t mul_i(int64_t x, int64_t y) {\n"
    "  return (int64_t)((uint64_t)x * (uint64_t)y);\n"
    "}\n"
    "INLINE uint64_t order_i(int64_t x) {\n"
    "  return (uint64_t)x ^ (uint64_t)1 << 63;\n"
    "}\n"
    "INLINE uint64_t order_d(double x) { /* NaN last */\n"
    "  double y = x == 0 ? 0 : x;\n"
    "  uint64_t bits;\n"
    "  memcpy(&bits, &y, sizeof bits);\n"
    "  if (x != x)\n"
    "    return UINT64_MAX;\n"
    "  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;\n"
    "}\n"
    "/* Stable; items has room for as many again. */\n"
    "INLINE void sort_keyed(Keyed *items, int64_t n) {\n"
    "  Keyed *from = items, *to = items + n;\n"
    "  for (int64_t width = 1; width < n; width *= 2) {\n"
    "    for (int64_t low = 0; low < n; low += 2 * width) {\n"
    "      int64_t middle = size_min(low + width, n), i = low, j = middle;\n"
    "      int64_t high = size_min(low + 2 * width, n);\n"
    "      for (int64_t k = low; k < high; k++)\n"
    "        if (i < middle &&\n"
    "            (j == high || from[i].order <= from[j].order))\n"
    "          to[k] = from[i++];\n"
    "        else\n"
    "          to[k] = from[j++];\n"
    "    }\n"
    "    Keyed *other = from;\n"
    "    from = to;\n"
    "    to = other;\n"
    "  }\n"
    "  if (from != items && n > 0)\n"
    "    memcpy(items, from, (size_t)n * sizeof *items);\n"
    "}\n";

static const char *infix(PrimId op) {
  switch ((int)op) {
  case PRIM_ADD: return "+";
  case PRIM_SUB: return "-";
  case PRIM_MUL: return "*";
  case PRIM_DIV: return "/";
  case PRIM_EQ: return "==";
  case PRIM_NE: return "!=";
  case PRIM_LT: return "<";
  case PRIM_LE: return "<=";
  case PRIM_GT: return ">";
  case PRIM_GE: return ">=";
  case PRIM_AND: return "&&";
  case PRIM_OR: return "||";
  }
  return NULL;
}

/* In the types of math.h, and with prelude/scalar.inc. */
static const char *function_of(PrimId op) {
  switch ((int)op) {
  case PRIM_ABS: return "fabs";
  case PRIM_FLOOR: return "floor";
  case PRIM_CEIL: return "ceil";
  case PRIM_ROUND: return "nearbyint";
  case PRIM_TRUNC: return "trunc";
  case PRIM_SQRT: return "sqrt";
  case PRIM_EXP: return "exp";
  case PRIM_EXPM1: return "expm1";
  case PRIM_LOG: return "log";
  case PRIM_LOG1P: return "log1p";
  case PRIM_SIN: return "sin";
  case PRIM_COS: return "cos";
  case PRIM_TAN: return "tan";
  case PRIM_SINH: return "sinh";
  case PRIM_COSH: return "cosh";
  case PRIM_TANH: return "tanh";
  case PRIM_ERF: return "erf";
  case PRIM_POW: return "pow";
  case PRIM_ATAN2: return "atan2";
  }
  return NULL;
}

bool op_is_dear(PrimId op) {
  return function_of(op) || op == PRIM_RSQRT || op == PRIM_DIV ||
         op == PRIM_MOD;
}

bool op_fails(PrimId op, Dtype t) {
  return !dtype_is_float(t) &&
         (op == PRIM_DIV || op == PRIM_MOD || op == PRIM_POW);
}

static const char *float_op(Cgen *e, PrimId op, bool d, const char *const *x) {
  const char *f = function_of(op), *end = d ? "" : "f", *kind = d ? "d" : "f";
  if (f && (op == PRIM_POW || op == PRIM_ATAN2))
    return cgen_format(e, "%s%s(%s, %s)", f, end, x[0], x[1]);
  if (f)
    return cgen_format(e, "%s%s(%s)", f, end, x[0]);
  switch ((int)op) {
  case PRIM_NEG:
    return cgen_format(e, "-%s", x[0]);
  case PRIM_MAXIMUM:
    return cgen_format(e, "max_%s(%s, %s)", kind, x[0], x[1]);
  case PRIM_MINIMUM:
    return cgen_format(e, "min_%s(%s, %s)", kind, x[0], x[1]);
  case PRIM_MOD:
    return cgen_format(e, "mod_%s(%s, %s)", kind, x[0], x[1]);
  case PRIM_SIGN:
    return cgen_format(e, "sign_%s(%s)", kind, x[0]);
  case PRIM_RSQRT:
    return cgen_format(e, d ? "1.0 / sqrt(%s)" : "1.0f / sqrtf(%s)", x[0]);
  case PRIM_ISNAN:
    return cgen_format(e, "isnan(%s) != 0", x[0]);
  }
  return cgen_format(e, "%s %s %s", x[0], infix(op), x[1]);
}

static const char *int_op(Cgen *e, PrimId op, const char *const *x) {
  switch ((int)op) {
  case PRIM_ADD:
    return cgen_format(e, "add_i(%s, %s)", x[0], x[1]);
  case PRIM_SUB:
    return cgen_format(e, "sub_i(%s, %s)", x[0], x[1]);
  case PRIM_MUL:
    return cgen_format(e, "mul_i(%s, %s)", x[0], x[1]);
  case PRIM_NEG:
    return cgen_format(e, "sub_i(0, %s)", x[0]);
  case PRIM_MAXIMUM:
    return cgen_format(e, "max_i(%s, %s)", x[0], x[1]);
  case PRIM_MINIMUM:
    return cgen_format(e, "min_i(%s, %s)", x[0], x[1]);
  case PRIM_ABS:
    return cgen_format(e, "(%s < 0 ? sub_i(0, %s) : %s)", x[0], x[0], x[0]);
  case PRIM_SIGN:
    return cgen_format(e, "(%s > 0) - (%s < 0)", x[0], x[0]);
  case PRIM_DIV:
    return cgen_format(e, "div_int(%s, %s)", x[0], x[1]);
  case PRIM_MOD:
    return cgen_format(e, "mod_int(%s, %s)", x[0], x[1]);
  case PRIM_POW:
    return cgen_format(e, "pow_int(%s, %s)", x[0], x[1]);
  case PRIM_NOT:
    return cgen_format(e, "!%s", x[0]);
  case PRIM_ISNAN:
    return "0";
  }
  if (infix(op))
    return cgen_format(e, "%s %s %s", x[0], infix(op), x[1]);
  return x[0]; /* rounding an integer */
}

static bool gives_bool(PrimId op) {
  const char *sign = infix(op);
  return op == PRIM_NOT || op == PRIM_ISNAN ||
         (sign && strchr("=!<>&|", *sign));
}

const char *cgen_op(Cgen *e, PrimId op, Dtype t, const char *const *x) {
  if (op == PRIM_SELECT)
    return cgen_format(e, "%s ? %s : %s", x[0], x[1], x[2]);
  if (dtype_is_float(t)) {
    const char *text = float_op(e, op, t == DT_F64, x);
    bool narrow = t == DT_F16 || t == DT_BF16;
    return narrow && !gives_bool(op)
               ? cgen_format(e, "round_%s(%s)", dtype_info[t].name, text)
               : text;
  }
  const char *text = int_op(e, op, x);
  if (gives_bool(op) || t == DT_I64 || t == DT_BOOL)
    return text;
  return cgen_convert(e, DT_I64, t, cgen_format(e, "(%s)", text));
}
