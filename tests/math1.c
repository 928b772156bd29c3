/* The prelude for kernels of one lane, as plain C11 (tests/check_math.sh): what
 * is more than a name for libm.  Given the library, random numbers too. */
#include <stdio.h>

static int failed;
#define CHECK(what, c)               \
  do {                               \
    if (!(c)) {                      \
      printf("%s is wrong\n", what); \
      failed = 1;                    \
    }                                \
  } while (0)

static double value_of(uint32_t h, int fraction, int bias) {
  int e = (int)(h & 0x7fff) >> fraction, m = (int)h & ((1 << fraction) - 1);
  double x = e ? ldexp((1 << fraction) + m, e - bias - fraction)
               : ldexp(m, 1 - bias - fraction);
  return h & 0x8000 ? -x : x;
}

static void halves(void) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    uint16_t x = (uint16_t)h;
    int f16 = (h & 0x7c00) != 0x7c00, bf16 = (h & 0x7f80) != 0x7f80;
    CHECK("from_f16", !f16 || from_f16(x) == value_of(h, 10, 15));
    CHECK("from_bf16", !bf16 || from_bf16(x) == value_of(h, 7, 127));
    CHECK("to_f16", isnan(from_f16(x)) || to_f16(from_f16(x)) == h);
    CHECK("to_bf16", isnan(from_bf16(x)) || to_bf16(from_bf16(x)) == h);
    if (!f16 || (h & 0x3ff) == 0x3ff)
      continue;
    float middle = (from_f16(x) + from_f16((uint16_t)(h + 1))) / 2;
    CHECK("to_f16, halfway", to_f16(middle) == (h & 1 ? h + 1 : h));
  }
  CHECK("to_f16 of NaN", isnan(from_f16(to_f16(nanf("")))));
  CHECK("to_f16, large", to_f16(65520) == 0x7c00 && to_f16(65519) == 0x7bff);
}

static void integers(void) {
  CHECK("div_i", div_i(-7, 2) == -4 && div_i(7, -2) == -4);
  CHECK("mod_l", mod_l(-1, 5) == 4 && mod_l(INT64_MIN, -1) == 0);
  CHECK("to_i32_f", to_i32_f(3e9f) == INT32_MAX);
  CHECK("to_i32_f", to_i32_f(-3e9f) == INT32_MIN);
  CHECK("to_u8_d", to_u8_d(-1) == 0 && to_u8_d(300) == 255);
  CHECK("to_i64_d", to_i64_d(1e300) == INT64_MAX && to_i64_d(nan("")) == 0);
}

static void masks(void) {
  vi m = test_f(splat_f(1) < splat_f(2));
  CHECK("masks", m == ALL && any_lane(m) && !any_lane(~m));
  CHECK("sel_f", sel_f(m, 1.0f, 2.0f) == 1 && sel_f(~m, 1.0f, 2.0f) == 2);
  uint8_t room[2] = {7, 7};
  stp_bool(room, m, 0);
  CHECK("stp_bool", room[0] == 7);
  st_bool(room, m);
  CHECK("st_bool", room[0] == 1 && room[1] == 7 && ld_bool(room) == ALL);
}

#ifdef REFERENCE
#include "runtime/runtime.h"

static void random_numbers(void) {
  for (int64_t n = 0; n < 50000; n++) {
    PrngKey key = prng_key_from_seed(n % 100);
    uint64_t a = key.word[0], b = key.word[1], i = (uint64_t)n;
    CHECK("uniform_f", uniform_f(a, b, n) == prng_uniform(key, i, DT_F32));
    CHECK("uniform_d", uniform_d(a, b, n) == prng_uniform(key, i, DT_F64));
    CHECK("normal_f", normal_f(a, b, n) == (float)prng_normal(key, i, DT_F32));
    CHECK("normal_d", normal_d(a, b, n) == prng_normal(key, i, DT_F64));
  }
}
#endif

int main(void) {
  halves();
  integers();
  masks();
#ifdef REFERENCE
  random_numbers();
#endif
  return failed;
}
