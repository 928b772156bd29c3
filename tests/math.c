/* The functions of backend/cpu/prelude/ against libm, rounded from a wider
 * type: the largest error of each in units in the last place, and whether it
 * is more than is promised.  Built by tests/math.sh, which defines W and STEP
 * and has included the prelude. */
#include "math_errors.h"

#include <float.h>
#include <stdbool.h>
#include <stdlib.h>

static double error_d(double got, long double wanted) {
  double near = (double)wanted;
  if (isnan(near) || isnan(got))
    return isnan(near) && isnan(got) ? 0 : INFINITY;
  if (isinf(got) || isinf(near) || (got == 0 && near == 0))
    return got == near && signbit(got) == signbit(near) ? 0 : INFINITY;
  int e;
  frexp(near, &e);
  return (double)(fabsl(got - wanted) / ldexpl(1, e < -1021 ? -1074 : e - 53));
}

static double double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Every STEP-th float. */
static void floats(const char *name, vf (*f)(vf), double (*wanted)(double),
                   double most) {
  double worst = -1;
  float at = 0;
  for (uint64_t i = 0; i < (uint64_t)1 << 32; i += (uint64_t)STEP * W) {
    vf x = {0};
    for (int l = 0; l < W; l++)
      x[l] = float_of((uint32_t)(i + (uint64_t)l * STEP));
    vf y = f(x);
    for (int l = 0; l < W; l++) {
      double e = error_f(y[l], wanted(x[l]));
      if (e > worst) {
        worst = e;
        at = x[l];
      }
    }
  }
  report(name, worst, most, at, 0);
}

static uint64_t state = 1;
static uint64_t next_bits(void) { /* splitmix64 */
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static const double special[] = {
    0.0,       -0.0,    1.0,      -1.0,     2.0,       -2.0,      3.0,
    -3.0,      0.5,     -0.5,     INFINITY, -INFINITY, NAN,       0x1p-149,
    -0x1p-149, 0x1p127, 0x1p-126, 1e30,     -1e30,     0x1p-1074, 0x1p-1022,
    0x1p1023,  -745.2,  709.79,   88.73,    -103.98,   0.25,      16777217.0,
    FLT_MAX,   DBL_MAX, -DBL_MAX};
enum { SPECIALS = sizeof special / sizeof *special };

/* Pairs: of special values, of any bits, and of numbers near 1. */
static float pick_float(uint64_t n, int second) {
  if (n < SPECIALS * SPECIALS)
    return (float)special[second ? n / SPECIALS : n % SPECIALS];
  uint64_t bits = next_bits();
  if (n % 2)
    return float_of((uint32_t)bits);
  float x = (float)((double)(int64_t)bits * 0x1p-63);
  return n % 4 ? x * 16 : second ? x * 200 : 1 + x * 0.9f;
}

static void pairs(const char *name, vf (*f)(vf, vf),
                  double (*wanted)(double, double), double most) {
  double worst = -1;
  float at_x = 0, at_y = 0;
  uint64_t count = (uint64_t)3e9 / STEP + 100000;
  for (uint64_t i = 0; i < count; i += W) {
    vf x = {0}, y = {0};
    for (int l = 0; l < W; l++) {
      x[l] = pick_float(i + (uint64_t)l, 0);
      y[l] = pick_float(i + (uint64_t)l, 1);
    }
    vf r = f(x, y);
    for (int l = 0; l < W; l++) {
      double e = error_f(r[l], wanted(x[l], y[l]));
      if (e > worst) {
        worst = e;
        at_x = x[l];
        at_y = y[l];
      }
    }
  }
  report(name, worst, most, at_x, at_y);
}

/* Special values, any bits, and numbers where the function is not flat. */
static double pick_double(uint64_t n) {
  if (n < SPECIALS)
    return special[n];
  uint64_t bits = next_bits();
  if (n % 3 == 0)
    return double_of(bits);
  double x = (double)(int64_t)bits * 0x1p-63;
  return n % 3 == 1 ? 1000 * x * x * x : x * 2;
}

static void doubles(const char *name, vd (*f)(vd),
                    long double (*wanted)(long double), double most) {
  double worst = -1, at = 0;
  uint64_t count = (uint64_t)2e9 / STEP + 100000;
  for (uint64_t i = 0; i < count; i += W) {
    vd x = {0};
    for (int l = 0; l < W; l++)
      x[l] = pick_double(i + (uint64_t)l);
    vd y = f(x);
    for (int l = 0; l < W; l++) {
      double e = error_d(y[l], wanted(x[l]));
      if (e > worst) {
        worst = e;
        at = x[l];
      }
    }
  }
  report(name, worst, most, at, 0);
}

/* Any pair, equal ones up to some bits, and such of near exponents. */
static void double_pairs(const char *name, vd (*f)(vd, vd),
                         long double (*wanted)(long double, long double),
                         double most) {
  double worst = -1, at_x = 0, at_y = 0;
  uint64_t count = (uint64_t)1e9 / STEP + 300000;
  for (uint64_t i = 0; i < count; i += W) {
    vd x = {0}, y = {0};
    for (int l = 0; l < W; l++) {
      uint64_t n = i + (uint64_t)l;
      bool is_special = n < SPECIALS * SPECIALS;
      x[l] = is_special ? special[n % SPECIALS] : pick_double(n);
      y[l] = is_special ? special[n / SPECIALS] : pick_double(n / 3);
      if (!is_special && n % 2)
        y[l] = x[l] * (2 + (double)(int64_t)next_bits() * 0x1p-63);
    }
    vd r = f(x, y);
    for (int l = 0; l < W; l++) {
      double e = error_d(r[l], wanted(x[l], y[l]));
      if (e > worst)
        worst = e, at_x = x[l], at_y = y[l];
    }
  }
  report(name, worst, most, at_x, at_y);
}

/* Powers of doubles: of special values, of any bits, of what is near 1, and
 * such whose result is finite. */
static void double_powers(void) {
  double worst = -1, at_x = 0, at_y = 0;
  uint64_t count = (uint64_t)3e8 / STEP + 300000;
  for (uint64_t i = 0; i < count; i += W) {
    vd x = {0}, y = {0};
    for (int l = 0; l < W; l++) {
      uint64_t n = i + (uint64_t)l;
      x[l] = n % 4 == 2 ? double_of(next_bits() >> 1) : pick_double(n);
      y[l] = n < SPECIALS * SPECIALS ? special[n / SPECIALS] : pick_double(n);
      if (n < SPECIALS * SPECIALS)
        x[l] = special[n % SPECIALS];
      else if (n % 4 == 3)
        x[l] = 1 + y[l] * 0x1p-12;
      if (n % 4 > 1 && n >= SPECIALS * SPECIALS)
        y[l] = (double)(int64_t)next_bits() * 0x1p-63 * 745 / log(fabs(x[l]));
      if (x[l] != x[l]) /* libm has one that signals to 0 be one */
        x[l] = NAN;
    }
    vd r = pow_d(x, y);
    for (int l = 0; l < W; l++) {
      double e = error_d(r[l], powl(x[l], y[l]));
      if (e > worst)
        worst = e, at_x = x[l], at_y = y[l];
    }
  }
  report("pow_d", worst, 0.9, at_x, at_y);
}

/* Powers that are the same in all lanes. */
static void even_powers(void) {
  double worst = -1, worst_d = -1, at = 0, at_d = 0, y = 0, y_d = 0;
  for (int n = 0; n < 3000000 / W; n++) {
    static const double some[] = {0.5, 1, 2, 3, -1, 2.3, 0, -7.5};
    double by = n % 3 ? (n % 29 - 14) * 0.5 : some[n % 8];
    vf x = {0};
    vd d = {0};
    for (int l = 0; l < W; l++) {
      x[l] = pick_float((uint64_t)n * W + (uint64_t)l, 0);
      d[l] = pick_double((uint64_t)n * W + (uint64_t)l);
      if (d[l] != d[l]) /* libm has one that signals to 0 be one */
        d[l] = NAN;
    }
    vf r = pow_by_f(x, (float)by);
    vd s = pow_by_d(d, by);
    for (int l = 0; l < W; l++) {
      double e = error_f(r[l], pow(x[l], (float)by));
      double f = error_d(s[l], powl(d[l], by));
      if (e > worst)
        worst = e, at = x[l], y = by;
      if (f > worst_d)
        worst_d = f, at_d = d[l], y_d = by;
    }
  }
  report("pow_by", worst, 0.51, at, y);
  report("pow_by_d", worst_d, 1.5, at_d, y_d);
}

/* ---- memory: the first k lanes and nothing else ---- */

#define CHECK(what, c)               \
  do {                               \
    if (!(c)) {                      \
      printf("%s is wrong\n", what); \
      failed = 1;                    \
      return;                        \
    }                                \
  } while (0)
#define PARTS(name, T, V)                                                \
  static void parts_##name(void) {                                       \
    T from[3 * W + 8], to[W + 8];                                        \
    for (int l = 0; l < 3 * W + 8; l++)                                  \
      from[l] = (T)(l % 2);                                              \
    for (int k = 0; k <= W; k++) {                                       \
      V x = ldp_##name(from + 1, k), y = ld_##name(from + 1);            \
      for (int l = 0; l < W; l++)                                        \
        CHECK("ldp_" #name, x[l] == (l < k ? y[l] : 0));                 \
      memset(to, 77, sizeof to);                                         \
      T untouched = to[0];                                               \
      stp_##name(to + 3, y, k);                                          \
      for (int l = 0; l < W + 8; l++)                                    \
        CHECK("stp_" #name,                                              \
              to[l] == (l >= 3 && l < k + 3 ? from[l - 2] : untouched)); \
      if (!k)                                                            \
        continue;                                                        \
      V s = lds_##name(from, 3, k);                                      \
      V t = ldx_##name(from, 3 * wide(lanes()), k);                      \
      for (int l = 0; l < k; l++)                                        \
        CHECK("lds_" #name,                                              \
              s[l] == t[l] && s[l] == ld_##name(from + 3 * l)[0]);       \
    }                                                                    \
  }
PARTS(f32, float, vf)
PARTS(f64, double, vd)
PARTS(i32, int32_t, vi)
PARTS(i64, int64_t, vl)
PARTS(u8, uint8_t, vi)
PARTS(i8, int8_t, vi)
PARTS(f16, uint16_t, vf)
PARTS(bf16, uint16_t, vf)

/* ---- 16-bit floats: every one, and floats to the nearest of them ---- */

static double half_value(uint32_t h, int fraction, int bias) {
  int e = (int)(h & 0x7fff) >> fraction, top = (0x7fff >> fraction);
  int m = (int)h & ((1 << fraction) - 1);
  double x = e == top ? (m ? NAN : INFINITY)
             : e      ? ldexp((1 << fraction) + m, e - bias - fraction)
                      : ldexp(m, 1 - bias - fraction);
  return h & 0x8000 ? -x : x;
}

static void halves(const char *name, vf (*from)(v_u16), v_u16 (*to)(vf),
                   int fraction, int bias) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    vf x = from((v_u16){(uint16_t)h});
    double wanted = half_value(h, fraction, bias);
    CHECK(name, error_f(x[0], wanted) == 0);
    CHECK(name, isnan(x[0]) || to((vf){x[0]})[0] == h);
    uint32_t next = h + 1; /* halfway to it: the even one; else the nearer */
    if (isnan(wanted) || isinf(wanted) || (next & 0x7fff) == 0)
      continue;
    double more = half_value(next, fraction, bias);
    if (isinf(more))
      more = 2 * wanted - half_value(h - 1, fraction, bias);
    float middle = (float)((wanted + more) / 2);
    CHECK(name, to((vf){middle})[0] == (h & 1 ? next : h));
    CHECK(name, to((vf){nextafterf(middle, (float)wanted)})[0] == h);
    CHECK(name, to((vf){nextafterf(middle, (float)more)})[0] == next);
  }
}
static vf all_from_f16(v_u16 x) {
  return from_f16(x);
}
static v_u16 all_to_f16(vf x) {
  return to_f16(x);
}
static vf all_from_bf16(v_u16 x) {
  return from_bf16(x);
}
static v_u16 all_to_bf16(vf x) {
  return to_bf16(x);
}

/* ---- integers ---- */

static int64_t div_down(int64_t x, int64_t y) {
  int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}
static int64_t some_int(int bits) {
  int64_t x = (int64_t)next_bits() >> (64 - bits);
  x >>= next_bits() % (uint64_t)bits;
  return x ? x : 1;
}
static void integers(void) {
  for (int n = 0; n < 100000; n++) {
    vi x = {0}, y = {0};
    vl z = {0}, t = {0};
    for (int l = 0; l < W; l++) {
      y[l] = (int32_t)some_int(32);
      x[l] = n % 3 ? (int32_t)some_int(32)
                   : (int32_t)((uint32_t)y[l] * (uint32_t)some_int(16)) - n % 2;
      t[l] = some_int(n % 8 ? 51 : 63);
      z[l] = some_int(n % 8 ? 51 : 63);
    }
    vi q = div_i(x, y), r = mod_i(x, y);
    vl s = div_l(z, t), u = mod_l(z, t);
    for (int l = 0; l < W; l++) {
      int32_t wanted = (int32_t)div_down(x[l], y[l]);
      CHECK("div_i", q[l] == wanted);
      CHECK("mod_i", r[l] == (int32_t)(x[l] - (int64_t)wanted * y[l]));
      CHECK("div_l", s[l] == div_down(z[l], t[l]));
      CHECK("mod_l", u[l] == z[l] - s[l] * t[l]);
    }
  }
}

/* remainders, which are exact */
static void remainders(void) {
  for (uint64_t n = 0; n < (uint64_t)3e8 / STEP + 1000000; n += W) {
    vf x = {0}, y = {0};
    vd d = {0}, e = {0};
    for (int l = 0; l < W; l++) {
      x[l] = pick_float(n + (uint64_t)l, 0);
      y[l] = pick_float(n + (uint64_t)l, 1);
      if (n % 5 == 0) /* next to a multiple */
        x[l] = nextafterf(y[l] * (float)(n % 999), n % 3 ? INFINITY : 0);
      d[l] = pick_double(n + (uint64_t)l), e[l] = pick_double(3 * n / 2);
      if (n % 5 == 1)
        d[l] = nextafter(e[l] * (double)(n % 999), n % 3 ? INFINITY : 0);
    }
    vf r = mod_f(x, y);
    vd s = mod_d(d, e);
    for (int l = 0; l < W; l++) {
      float wanted = mod_float(x[l], y[l]);
      double wanted_d = mod_double(d[l], e[l]);
      CHECK("mod_f", (wanted != wanted && r[l] != r[l]) ||
                         (wanted == r[l] && signbit(wanted) == signbit(r[l])));
      CHECK("mod_d",
            (wanted_d != wanted_d && s[l] != s[l]) ||
                (wanted_d == s[l] && signbit(wanted_d) == signbit(s[l])));
    }
  }
}

/* lanes as the scalar functions have it */
static void saturating(void) {
  for (uint64_t n = 0; n < 1000000; n++) {
    double x = pick_double(n);
    if (n % 2)
      x *= 0x1p31;
    vd d = splat_d(x);
    vf f = splat_f((float)x);
    CHECK("to_i32_d", to_i32_d(d)[0] == to_i32(x));
    CHECK("to_i8_d", to_i8_d(d)[0] == to_i8(x));
    CHECK("to_u8_d", to_u8_d(d)[0] == to_u8(x));
    CHECK("to_i64_d", to_i64_d(d)[0] == to_i64(x));
    CHECK("to_i32_f", to_i32_f(f)[0] == to_i32((float)x));
    CHECK("to_i8_f", to_i8_f(f)[0] == to_i8((float)x));
    CHECK("to_u8_f", to_u8_f(f)[0] == to_u8((float)x));
    CHECK("to_i64_f", to_i64_f(f)[0] == to_i64((float)x));
  }
}

#ifdef REFERENCE
/* ---- random numbers: those of the library, to the bit ---- */
#include "runtime/runtime.h"

static void random_numbers(void) {
  for (int n = 0; n < 200000; n++) {
    PrngKey key = {{next_bits(), next_bits()}};
    uint64_t a = key.word[0], b = key.word[1];
    vl at = (int64_t)(next_bits() >> (n % 60 + 3)) + wide(lanes());
    vf u = uniform_f(a, b, at), h = uniform_f16(a, b, at);
    vf g = uniform_bf16(a, b, at), z = normal_f(a, b, at);
    vd v = uniform_d(a, b, at), w = normal_d(a, b, at);
    for (int l = 0; l < W; l++) {
      uint64_t i = (uint64_t)at[l];
      CHECK("uniform_f", u[l] == prng_uniform(key, i, DT_F32));
      CHECK("uniform_f16", h[l] == prng_uniform(key, i, DT_F16));
      CHECK("uniform_bf16", g[l] == prng_uniform(key, i, DT_BF16));
      CHECK("uniform_d", v[l] == prng_uniform(key, i, DT_F64));
      CHECK("normal_f", z[l] == (float)prng_normal(key, i, DT_F32));
      CHECK("normal_d", w[l] == prng_normal(key, i, DT_F64));
    }
  }
}
#endif

#define ONE_F(name)            \
  static vf name##_one(vf x) { \
    return name##_f(x);        \
  }
#define TWO_F(name)                  \
  static vf name##_two(vf x, vf y) { \
    return name##_f(x, y);           \
  }
#define ONE_D(name)              \
  static vd name##_one_d(vd x) { \
    return name##_d(x);          \
  }
#define TWO_D(name)                    \
  static vd name##_two_d(vd x, vd y) { \
    return name##_d(x, y);             \
  }
#define RUN_F(name)     \
  if (is_wanted(#name)) \
    floats(#name, name##_one, name, 2);
#define RUN_TWO(name, most) \
  if (is_wanted(#name))     \
    pairs(#name, name##_two, name, most);
#define RUN_D(name)          \
  if (is_wanted(#name "_d")) \
    doubles(#name "_d", name##_one_d, name##l, 2);
#define RUN_TWO_D(name)      \
  if (is_wanted(#name "_d")) \
    double_pairs(#name "_d", name##_two_d, name##l, 2);
// clang-format off
#define OF_F(F) \
  F(exp) F(expm1) F(log) F(log2) F(log1p) F(tan) F(asin) F(acos) F(atan) \
  F(sinh) F(cosh) F(tanh) F(erf) F(sin) F(cos) F(sqrt) F(floor) F(ceil) \
  F(nearbyint) F(trunc) F(asinh) F(acosh) F(atanh) F(log10) F(cbrt)
#define OF_D(F) \
  F(exp) F(expm1) F(log) F(log1p) F(tanh) F(erf) F(sin) F(cos) F(tan) \
  F(sinh) F(cosh) F(asin) F(acos) F(atan) F(asinh) F(acosh) F(atanh) \
  F(log2) F(log10) F(cbrt) F(sqrt) F(floor) F(ceil) F(nearbyint) F(trunc)
// clang-format on
OF_F(ONE_F)
TWO_F(pow)
TWO_F(atan2)
TWO_F(hypot)
OF_D(ONE_D)
TWO_D(atan2)
TWO_D(hypot)

static const char *only; /* NULL: all */
static int is_wanted(const char *name) {
  return !only || !strcmp(only, name);
}

int main(void) {
  only = getenv("ONLY");
  parts_f32(), parts_f64(), parts_i32(), parts_i64();
  parts_u8(), parts_i8(), parts_f16(), parts_bf16();
  halves("f16", all_from_f16, all_to_f16, 10, 15);
  halves("bf16", all_from_bf16, all_to_bf16, 7, 127);
  integers(), saturating();
#ifdef REFERENCE
  random_numbers();
#endif
  OF_F(RUN_F)
  RUN_TWO(pow, 0.51)
  if (is_wanted("pow_d"))
    double_powers();
  if (is_wanted("pow_by"))
    even_powers();
  if (is_wanted("mod"))
    remainders();
  RUN_TWO(atan2, 2)
  RUN_TWO(hypot, 0.51)
  OF_D(RUN_D)
  RUN_TWO_D(atan2)
  RUN_TWO_D(hypot)
  return failed;
}
