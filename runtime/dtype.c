/* Element types: bit-exact conversions, and shortest decimal text. */
#include "runtime/internal.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const DtypeInfo dtype_info[DT_COUNT] = {
    [DT_NONE] = {"none", 0, 0},
#define CLASS_b 'b'
#define CLASS_u 'u'
#define CLASS_i 'i'
#define CLASS_f 'f'
#define D(id, name, bytes, class, memory, compute) \
  [DT_##id] = {name, bytes, CLASS_##class},
#include "primitives/dtypes.def"
#undef D
};

Dtype dtype_by_name(const char *name) {
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    if (strcmp(dtype_info[t].name, name) == 0)
      return t;
  return DT_NONE;
}

/* ---- floats narrower than f32 ---- */

enum { F64_MANTISSA_BITS = 52 };

typedef struct NarrowFormat {
  int mantissa_bits, exponent_bits;
  bool has_infinity;
  uint32_t top; /* the bits of infinity, or else of the greatest number */
  uint32_t nan; /* the bits of each NaN; 0: a NaN keeps its sign and payload */
} NarrowFormat;

static const NarrowFormat f16 = {10, 5, true, 0x7c00, 0},
                          bf16 = {7, 8, true, 0x7f80, 0},
                          f8_e4m3 = {3, 4, false, 0x7e, 0x7f},
                          f8_e5m2 = {2, 5, true, 0x7c, 0x7e},
                          f4_e2m1 = {1, 2, false, 7, 7};

static int exponent_bias(const NarrowFormat *t) {
  return (1 << (t->exponent_bits - 1)) - 1;
}

static uint32_t nan_bits(const NarrowFormat *t, uint32_t sign,
                         uint64_t mantissa) {
  if (t->nan)
    return t->nan;
  int shift = F64_MANTISSA_BITS - t->mantissa_bits;
  uint32_t quiet = 1u << (t->mantissa_bits - 1);
  return sign | t->top | (uint32_t)(mantissa >> shift) | quiet;
}

/* Rounds once, from all 53 bits.  Going through float would round twice. */
static uint32_t narrow_from_double(const NarrowFormat *t, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t sign = (uint32_t)(bits >> 63)
                  << (t->exponent_bits + t->mantissa_bits);
  int exponent = (int)(bits >> F64_MANTISSA_BITS & 0x7ff);
  uint64_t mantissa = bits & (((uint64_t)1 << F64_MANTISSA_BITS) - 1);
  int shift = F64_MANTISSA_BITS - t->mantissa_bits;
  if (exponent == 0x7ff)
    return mantissa ? nan_bits(t, sign, mantissa) : sign | t->top;
  if (exponent == 0) /* zero, or far below the smallest subnormal number */
    return sign;
  mantissa |= (uint64_t)1 << F64_MANTISSA_BITS;
  exponent += exponent_bias(t) - 1023;
  if (exponent <= 0) { /* becomes subnormal: more bits are rounded off */
    shift += 1 - exponent;
    exponent = 1;
  }
  if (shift > F64_MANTISSA_BITS + 1)
    return sign;
  uint64_t rounded = mantissa >> shift, half = (uint64_t)1 << (shift - 1);
  uint64_t discarded_bits = mantissa & (2 * half - 1);
  rounded += discarded_bits > half || (discarded_bits == half && (rounded & 1));
  /* The hidden bit of `rounded`, and a carry, are added to the exponent. */
  uint64_t all = ((uint64_t)(exponent - 1) << t->mantissa_bits) + rounded;
  return sign | (all < t->top ? (uint32_t)all : t->top);
}

static double narrow_to_double(const NarrowFormat *t, uint32_t h) {
  int width = t->exponent_bits + t->mantissa_bits;
  uint64_t sign = (uint64_t)(h >> width) << 63;
  uint32_t magnitude = h & ((1u << width) - 1);
  int bias = exponent_bias(t), exponent = (int)(magnitude >> t->mantissa_bits);
  uint64_t mantissa = magnitude & ((1u << t->mantissa_bits) - 1);
  int shift = F64_MANTISSA_BITS - t->mantissa_bits;
  uint64_t bits;
  if (magnitude > t->top && t->nan)
    return NAN;
  if (t->has_infinity && magnitude >= t->top) {
    bits = (uint64_t)0x7ff << F64_MANTISSA_BITS | mantissa << shift;
  } else if (exponent) {
    bits = (uint64_t)(exponent - bias + 1023) << F64_MANTISSA_BITS |
           mantissa << shift;
  } else {
    double min_subnormal = 1; /* 2^(1 - bias - fraction), a normal double */
    uint64_t power = (uint64_t)(1 - bias - t->mantissa_bits + 1023)
                     << F64_MANTISSA_BITS;
    memcpy(&min_subnormal, &power, sizeof min_subnormal);
    min_subnormal *= (double)mantissa;
    memcpy(&bits, &min_subnormal, sizeof bits);
  }
  bits |= sign;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

enum { E8M0_BIAS = 127, E8M0_TOP = 254, E8M0_NAN = 255 };

/* The nearest power of two.  Halfway between two is the greater one. */
uint8_t f8_e8m0_from_double(double x) {
  if (isnan(x))
    return E8M0_NAN;
  int exponent;
  double fraction = isfinite(x) ? frexp(x, &exponent) : x;
  if (x <= ldexp(1, -E8M0_BIAS))
    return 0;
  if (x >= ldexp(1, E8M0_TOP - E8M0_BIAS))
    return E8M0_TOP;
  return (uint8_t)(exponent - 1 + E8M0_BIAS + (fraction >= 0.75));
}

double f8_e8m0_to_double(uint8_t h) {
  return h == E8M0_NAN ? NAN : ldexp(1, h - E8M0_BIAS);
}

#define NARROW_CONVERSIONS(name, memory)         \
  memory name##_from_double(double x) {          \
    return (memory)narrow_from_double(&name, x); \
  }                                              \
  double name##_to_double(memory h) {            \
    return narrow_to_double(&name, h);           \
  }
NARROW_CONVERSIONS(f16, uint16_t)
NARROW_CONVERSIONS(bf16, uint16_t)
NARROW_CONVERSIONS(f8_e4m3, uint8_t)
NARROW_CONVERSIONS(f8_e5m2, uint8_t)
NARROW_CONVERSIONS(f4_e2m1, uint8_t)

void f4_unpack(uint8_t *to, const uint8_t *packed, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = i % 2 ? packed[i / 2] >> 4 : packed[i / 2] & 15;
}

/* Of a float with mantissa; else NULL. */
static const NarrowFormat *narrow_format(Dtype t) {
  return t == DT_F16       ? &f16
         : t == DT_BF16    ? &bf16
         : t == DT_F8_E4M3 ? &f8_e4m3
         : t == DT_F8_E5M2 ? &f8_e5m2
         : t == DT_F4_E2M1 ? &f4_e2m1
                           : NULL;
}

double dtype_round(Dtype dtype, double x) {
  const NarrowFormat *t = narrow_format(dtype);
  if (t)
    return narrow_to_double(t, narrow_from_double(t, x));
  if (dtype == DT_F8_E8M0)
    return f8_e8m0_to_double(f8_e8m0_from_double(x));
  return dtype == DT_F32 ? (float)x : x;
}

double dtype_greatest(Dtype dtype) {
  const NarrowFormat *t = narrow_format(dtype);
  if (t)
    return narrow_to_double(t, t->top - t->has_infinity);
  if (dtype == DT_F8_E8M0)
    return f8_e8m0_to_double(E8M0_TOP);
  return dtype == DT_F32 ? (double)FLT_MAX : DBL_MAX;
}

/* ---- conversions ---- */

int64_t dtype_wrap(Dtype dtype, int64_t x) {
  if (dtype == DT_BOOL)
    return x != 0;
  if (dtype == DT_U8)
    return (uint8_t)x;
  if (dtype == DT_I8)
    return (int8_t)(uint8_t)x;
  if (dtype == DT_I32)
    return (int32_t)(uint32_t)x;
  return x;
}

static int64_t saturate(Dtype to, double x) {
  if (isnan(x))
    return 0;
  if (to == DT_I64) {
    if (x >= 0x1p63)
      return INT64_MAX;
    return x < -0x1p63 ? INT64_MIN : (int64_t)x;
  }
  int64_t min = to == DT_U8 ? 0 : to == DT_I8 ? INT8_MIN : INT32_MIN;
  int64_t max = to == DT_U8 ? UINT8_MAX : to == DT_I8 ? INT8_MAX : INT32_MAX;
  if (x <= (double)min)
    return min;
  return x >= (double)max ? max : (int64_t)x;
}

/* Rounds once.  A 64-bit integer may not fit into a double.  On the way to a
 * narrower float, the bits that do not fit are kept as one sticky bit. */
static double int_to_float(Dtype to, int64_t i) {
  uint64_t magnitude = i < 0 ? -(uint64_t)i : (uint64_t)i;
  if (to == DT_F64 || magnitude >> 53 == 0)
    return dtype_round(to, (double)i);
  uint64_t rounded = magnitude >> 11 | ((magnitude & 0x7ff) != 0);
  double x = (double)rounded * 2048.0;
  return dtype_round(to, i < 0 ? -x : x);
}

Scalar scalar_convert(Scalar x, Dtype to) {
  Scalar out = {.dtype = to};
  bool from_float = dtype_is_float(x.dtype);
  if (dtype_is_float(to))
    out.f = from_float ? dtype_round(to, x.f) : int_to_float(to, x.i);
  else if (to == DT_BOOL)
    out.i = from_float ? x.f != 0 : x.i != 0;
  else
    out.i = from_float ? saturate(to, x.f) : dtype_wrap(to, x.i);
  return out;
}

#define LOAD(type)                      \
  ({                                    \
    type value_;                        \
    memcpy(&value_, at, sizeof value_); \
    value_;                             \
  })

Scalar scalar_load(Dtype dtype, const void *at) {
  Scalar x = {.dtype = dtype};
  switch (dtype) {
  case DT_BOOL:
    x.i = LOAD(uint8_t) != 0;
    break;
  case DT_U8:
    x.i = LOAD(uint8_t);
    break;
  case DT_I8:
    x.i = LOAD(int8_t);
    break;
  case DT_I32:
    x.i = LOAD(int32_t);
    break;
  case DT_I64:
    x.i = LOAD(int64_t);
    break;
  case DT_F16:
    x.f = f16_to_double(LOAD(uint16_t));
    break;
  case DT_BF16:
    x.f = bf16_to_double(LOAD(uint16_t));
    break;
  case DT_F32:
    x.f = LOAD(float);
    break;
  case DT_F64:
    x.f = LOAD(double);
    break;
  case DT_F8_E4M3:
    x.f = f8_e4m3_to_double(LOAD(uint8_t));
    break;
  case DT_F8_E5M2:
    x.f = f8_e5m2_to_double(LOAD(uint8_t));
    break;
  case DT_F4_E2M1:
    x.f = f4_e2m1_to_double(LOAD(uint8_t));
    break;
  case DT_F8_E8M0:
    x.f = f8_e8m0_to_double(LOAD(uint8_t));
    break;
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return x;
}

#define STORE(type, value)              \
  do {                                  \
    type value_ = (type)(value);        \
    memcpy(at, &value_, sizeof value_); \
  } while (0)

void scalar_store(Scalar x, void *at) {
  switch (x.dtype) {
  case DT_BOOL:
    STORE(uint8_t, x.i != 0);
    break;
  case DT_U8:
    STORE(uint8_t, x.i);
    break;
  case DT_I8:
    STORE(int8_t, x.i);
    break;
  case DT_I32:
    STORE(int32_t, x.i);
    break;
  case DT_I64:
    STORE(int64_t, x.i);
    break;
  case DT_F16:
    STORE(uint16_t, f16_from_double(x.f));
    break;
  case DT_BF16:
    STORE(uint16_t, bf16_from_double(x.f));
    break;
  case DT_F32:
    STORE(float, x.f);
    break;
  case DT_F64:
    STORE(double, x.f);
    break;
  case DT_F8_E4M3:
    STORE(uint8_t, f8_e4m3_from_double(x.f));
    break;
  case DT_F8_E5M2:
    STORE(uint8_t, f8_e5m2_from_double(x.f));
    break;
  case DT_F4_E2M1:
    STORE(uint8_t, f4_e2m1_from_double(x.f));
    break;
  case DT_F8_E8M0:
    STORE(uint8_t, f8_e8m0_from_double(x.f));
    break;
  case DT_NONE:
  case DT_COUNT:
    break;
  }
}

/* ---- text ---- */

/* True if x is next to a tie of the dtype.  Then a double that is off by less
 * than its last bit may round to a different number than the exact value. */
static bool is_near_tie(Dtype dtype, double x) {
  if (dtype == DT_F64 || x == 0 || !isfinite(x))
    return false;
  return dtype_round(dtype, nextafter(x, INFINITY)) !=
         dtype_round(dtype, nextafter(x, -INFINITY));
}

/* strtod rounds to a double, and a second rounding can be wrong.  "Round to
 * odd" in the first step makes the second step correct. */
double dtype_parse(Dtype dtype, const char *text, char **end) {
  double x = strtod(text, end);
  if (is_near_tie(dtype, x)) {
    int rounding_mode = fegetround();
    fesetround(FE_DOWNWARD);
    double rounded_down = strtod(text, NULL);
    fesetround(FE_UPWARD);
    double rounded_up = strtod(text, NULL);
    fesetround(rounding_mode);
    uint64_t bits;
    memcpy(&bits, &rounded_down, sizeof bits);
    /* Equal if the text is exact. */
    x = bits & 1 ? rounded_down : rounded_up;
  }
  return dtype_round(dtype, x);
}

static const struct FloatDigits {
  int fewest; /* decimal digits that survive a round trip; at least 1 */
  int most;   /* digits that always distinguish two numbers */
  double min_normal;
} float_digits[DT_COUNT] = {
    [DT_F16] = {3, 5, 0x1p-14},    [DT_BF16] = {2, 4, 0x1p-126},
    [DT_F32] = {6, 9, 0x1p-126},   [DT_F64] = {15, 17, 0x1p-1022},
    [DT_F8_E4M3] = {1, 3, 0x1p-6}, [DT_F8_E5M2] = {1, 2, 0x1p-14},
    [DT_F4_E2M1] = {2, 2, 0},      [DT_F8_E8M0] = {9, 9, 0},
};

static bool float_is_power_of_two(double x) {
  int exponent;
  return frexp(x, &exponent) == 0.5;
}

/* Formats x > 0 as "d.ddde+xx" with n digits.  Returns true if it reads back as
 * x. */
static bool round_trips_with_digits(Dtype dtype, double x, int n,
                                    char text[40]) {
  snprintf(text, 40, "%.*e", n - 1, x);
  if (dtype_parse(dtype, text, NULL) == x)
    return true;
  /* Numbers below a power of two are closer than above.  So the nearest text
   * need not be the best. */
  if (!float_is_power_of_two(x))
    return false;
  int rounding_mode = fegetround();
  fesetround(FE_UPWARD);
  snprintf(text, 40, "%.*e", n - 1, x);
  fesetround(rounding_mode);
  return dtype_parse(dtype, text, NULL) == x;
}

/* If the fewest digits suffice, trailing zeros are dropped.  Otherwise more
 * digits are needed.  Subnormal numbers keep fewer digits. */
int shortest_digits(Dtype dtype, double x, char digits[20], int *exponent) {
  char text[40];
  const struct FloatDigits *d = &float_digits[dtype];
  int n = x < d->min_normal ? 1 : d->fewest;
  while (!round_trips_with_digits(dtype, x, n, text) && n < d->most)
    n++;
  int len = 0;
  for (const char *p = text; *p != 'e'; p++)
    if (*p != '.')
      digits[len++] = *p;
  while (len > 1 && digits[len - 1] == '0')
    len--;
  digits[len] = 0;
  *exponent = atoi(strchr(text, 'e') + 1);
  return len;
}

static void print_digits(Buffer *out, const char *digits, int len,
                         int exponent) {
  if (exponent < -4 || exponent >= 16) {
    buffer_putc(out, digits[0]);
    if (len > 1)
      buffer_printf(out, ".%s", digits + 1);
    buffer_printf(out, "e%d", exponent);
    return;
  }
  if (exponent < 0) {
    buffer_puts(out, "0.");
    for (int i = -1; i > exponent; i--)
      buffer_putc(out, '0');
    buffer_puts(out, digits);
    return;
  }
  for (int i = 0; i <= exponent || i < len; i++) {
    if (i == exponent + 1)
      buffer_putc(out, '.');
    buffer_putc(out, i < len ? digits[i] : '0');
  }
  if (len <= exponent + 1)
    buffer_puts(out, ".0");
}

void scalar_print(Buffer *out, Scalar x) {
  if (x.dtype == DT_BOOL) {
    buffer_puts(out, x.i ? "true" : "false");
  } else if (!dtype_is_float(x.dtype)) {
    buffer_printf(out, "%lld", (long long)x.i);
  } else if (isnan(x.f)) {
    buffer_puts(out, "nan");
  } else {
    if (signbit(x.f))
      buffer_putc(out, '-');
    if (isinf(x.f)) {
      buffer_puts(out, "inf");
    } else if (x.f == 0) {
      buffer_puts(out, "0.0");
    } else {
      char digits[20];
      int exponent,
          len = shortest_digits(x.dtype, fabs(x.f), digits, &exponent);
      print_digits(out, digits, len, exponent);
    }
  }
}

static int float_order(double x, double y, bool is_total) {
  if (x != x || y != y)
    return is_total ? (x != x) - (y != y) : 1;
  return (x > y) - (x < y);
}

int scalar_order(Scalar x, Scalar y, bool is_total) {
  return dtype_is_float(x.dtype) ? float_order(x.f, y.f, is_total)
                                 : (x.i > y.i) - (x.i < y.i);
}
