/* Tests element types, tensors, their text, and random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "support/mem_inject.h"

/* ---- floats of 16 bits ---- */

typedef struct Half {
  Dtype dtype;
  int fraction, bias;
  uint16_t (*from)(double);
  double (*to)(uint16_t);
} Half;

static const Half halves[] = {
    {DT_F16, 10, 15, f16_from_double, f16_to_double},
    {DT_BF16, 7, 127, bf16_from_double, bf16_to_double}};

/* By the definition, with ldexp. */
static double meaning(const Half *k, uint16_t h) {
  int exponent = (h & 0x7fff) >> k->fraction;
  int rest = h & ((1 << k->fraction) - 1);
  double x;
  if (exponent == 2 * k->bias + 1)
    x = rest ? NAN : INFINITY;
  else if (exponent)
    x = ldexp((1 << k->fraction) + rest, exponent - k->bias - k->fraction);
  else
    x = ldexp(rest, 1 - k->bias - k->fraction);
  return h >> 15 ? -x : x;
}

static void test_half_all(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
    const Half *k = &halves[i];
    for (uint32_t h = 0; h < 0x10000; h++) {
      double x = k->to((uint16_t)h), want = meaning(k, (uint16_t)h);
      if (isnan(want)) {
        assert_true(isnan(x) && isnan(k->to(k->from(x))));
        assert_int_equal(k->from(x), h | 1u << (k->fraction - 1));
        continue;
      }
      assert_memory_equal(&x, &want, sizeof x);
      assert_int_equal(k->from(x), h);
    }
  }
}

/* Between any two neighbours, the midpoint rounds to even, and the smallest
 * step off the midpoint decides.  Double rounding fails here. */
static void test_half_ties(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
    const Half *k = &halves[i];
    uint16_t infinity = (uint16_t)((2 * k->bias + 1) << k->fraction);
    for (uint16_t h = 0; h < infinity; h++) {
      double low = meaning(k, h), high = meaning(k, h + 1);
      if (h + 1 == infinity) /* the value that a larger exponent would have */
        high = ldexp(1, k->bias + 1);
      double middle = low + (high - low) / 2;
      uint16_t even = h & 1 ? h + 1 : h;
      assert_int_equal(k->from(middle), even);
      assert_int_equal(k->from(-middle), even | 0x8000);
      assert_int_equal(k->from(nextafter(middle, 0)), h);
      assert_int_equal(k->from(nextafter(middle, INFINITY)), h + 1);
    }
    assert_int_equal(k->from(INFINITY), infinity);
    assert_int_equal(k->from(DBL_MAX), infinity);
    assert_int_equal(k->from(-DBL_MAX), infinity | 0x8000);
    assert_int_equal(k->from(0x1p-1074), 0);
    assert_int_equal(k->from(-0.0), 0x8000);
  }
}

/* ---- floats of scaled blocks ---- */

static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 8};

static void test_e2m1_all(void **state) {
  (void)state;
  for (uint8_t h = 0; h < 8; h++) {
    double x = e2m1[h], minus = -x, middle = (x + e2m1[h + 1]) / 2;
    double loaded = f4_e2m1_to_double(h | 8);
    uint8_t above = h < 7 ? h + 1 : 7, even = h & 1 ? above : h;
    assert_true(f4_e2m1_to_double(h) == x);
    assert_memory_equal(&loaded, &minus, sizeof minus);
    assert_true(f4_e2m1_to_double(h | 0xf0) == x);
    assert_int_equal(f4_e2m1_from_double(x), h);
    assert_int_equal(f4_e2m1_from_double(minus), h | 8);
    assert_int_equal(f4_e2m1_from_double(middle), even);
    assert_int_equal(f4_e2m1_from_double(-middle), even | 8);
    assert_int_equal(f4_e2m1_from_double(nextafter(middle, 0)), h);
    assert_int_equal(f4_e2m1_from_double(nextafter(middle, 9)), above);
  }
  assert_int_equal(f4_e2m1_from_double(INFINITY), 7);
  assert_int_equal(f4_e2m1_from_double(-DBL_MAX), 15);
  assert_int_equal(f4_e2m1_from_double(NAN), 7);
  assert_true(dtype_greatest(DT_F4_E2M1) == 6);
  uint8_t bytes[3];
  f4_unpack(bytes, (const uint8_t[]){0x21, 0xf3}, 3);
  assert_memory_equal(bytes, ((uint8_t[]){1, 2, 3}), 3);
}

static void test_e8m0_all(void **state) {
  (void)state;
  for (int h = 0; h < 255; h++) {
    double x = ldexp(1, h - 127), middle = 1.5 * x;
    int above = h < 254 ? h + 1 : 254;
    assert_true(f8_e8m0_to_double((uint8_t)h) == x);
    assert_int_equal(f8_e8m0_from_double(x), h);
    assert_int_equal(f8_e8m0_from_double(middle), above);
    assert_int_equal(f8_e8m0_from_double(nextafter(middle, 0)), h);
  }
  assert_true(isnan(f8_e8m0_to_double(255)));
  assert_int_equal(f8_e8m0_from_double(NAN), 255);
  assert_int_equal(f8_e8m0_from_double(INFINITY), 254);
  assert_int_equal(f8_e8m0_from_double(DBL_MAX), 254);
  assert_int_equal(f8_e8m0_from_double(0), 0);
  assert_int_equal(f8_e8m0_from_double(-1), 0);
  assert_int_equal(f8_e8m0_from_double(-INFINITY), 0);
  assert_true(dtype_greatest(DT_F8_E8M0) == 0x1p127);
}

/* ---- floats of 8 bits ---- */

typedef struct Octet {
  Dtype dtype;
  int fraction, bias;
  uint8_t top, nan; /* infinity, or the greatest number; NaN */
  uint8_t (*from)(double);
  double (*to)(uint8_t);
} Octet;

static const Octet octets[] = {
    {DT_F8_E4M3, 3, 7, 0x7e, 0x7f, f8_e4m3_from_double, f8_e4m3_to_double},
    {DT_F8_E5M2, 2, 15, 0x7c, 0x7e, f8_e5m2_from_double, f8_e5m2_to_double}};

static double number_of_octet(const Octet *k, int size) {
  int exponent = size >> k->fraction, rest = size & ((1 << k->fraction) - 1);
  int hidden = exponent ? 1 << k->fraction : 0;
  return ldexp(hidden + rest,
               (exponent ? exponent : 1) - k->bias - k->fraction);
}

static double meaning_of_octet(const Octet *k, uint8_t h) {
  int size = h & 0x7f;
  double x = size > k->top ? NAN
             : size == k->top && k->dtype == DT_F8_E5M2
                 ? INFINITY
                 : number_of_octet(k, size);
  return h >> 7 ? -x : x;
}

static void test_octet_all(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(octets); i++) {
    const Octet *k = &octets[i];
    for (int h = 0; h < 256; h++) {
      double x = k->to((uint8_t)h), want = meaning_of_octet(k, (uint8_t)h);
      assert_true(isnan(x) == isnan(want));
      assert_int_equal(k->from(x), isnan(want) ? k->nan : h);
      if (!isnan(want))
        assert_memory_equal(&x, &want, sizeof x);
      Scalar loaded = scalar_load(k->dtype, &(uint8_t){(uint8_t)h});
      uint8_t stored = 0;
      scalar_store(loaded, &stored);
      assert_int_equal(stored, isnan(want) ? k->nan : h);
    }
    assert_int_equal(k->from(-NAN), k->nan);
  }
  assert_true(dtype_greatest(DT_F8_E4M3) == 448);
  assert_true(dtype_greatest(DT_F8_E5M2) == 57344);
}

/* As for 16 bits: midpoints round to even.  Beyond the top is the top. */
static void test_octet_ties(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(octets); i++) {
    const Octet *k = &octets[i];
    for (uint8_t h = 0; h < k->top; h++) {
      double low = number_of_octet(k, h), high = number_of_octet(k, h + 1);
      double middle = low + (high - low) / 2;
      uint8_t even = h & 1 ? h + 1 : h;
      assert_int_equal(k->from(middle), even);
      assert_int_equal(k->from(-middle), even | 0x80);
      assert_int_equal(k->from(nextafter(middle, 0)), h);
      assert_int_equal(k->from(nextafter(middle, INFINITY)), h + 1);
    }
    assert_int_equal(k->from(INFINITY), k->top);
    assert_int_equal(k->from(-INFINITY), k->top | 0x80);
    assert_int_equal(k->from(DBL_MAX), k->top);
    assert_int_equal(k->from(-1e6), k->top | 0x80);
    assert_int_equal(k->from(0x1p-1074), 0);
    assert_int_equal(k->from(-0.0), 0x80);
  }
}

/* ---- conversions ---- */

static Scalar flt(Dtype t, double x) {
  return (Scalar){.dtype = t, .f = x};
}
static Scalar itg(Dtype t, int64_t x) {
  return (Scalar){.dtype = t, .i = x};
}

static void test_convert(void **state) {
  (void)state;
  static const struct {
    double x;
    Dtype to;
    int64_t want;
  } ints[] = {
      {2.9, DT_I32, 2},
      {-2.9, DT_I32, -2},
      {300, DT_U8, 255},
      {-1, DT_U8, 0},
      {255.9, DT_U8, 255},
      {-0.9, DT_U8, 0},
      {128, DT_I8, 127},
      {-129, DT_I8, -128},
      {1e10, DT_I32, INT32_MAX},
      {-1e10, DT_I32, INT32_MIN},
      {1e30, DT_I64, INT64_MAX},
      {-1e30, DT_I64, INT64_MIN},
      {NAN, DT_I64, 0},
      {NAN, DT_U8, 0},
      {INFINITY, DT_I8, 127},
      {-INFINITY, DT_I64, INT64_MIN},
      {0x1p62, DT_I64, 1LL << 62},
      {-0x1p63, DT_I64, INT64_MIN},
      {0.5, DT_BOOL, 1},
      {0.0, DT_BOOL, 0},
      {-0.0, DT_BOOL, 0},
      {NAN, DT_BOOL, 1},
  };
  for (size_t i = 0; i < ARRAY_LEN(ints); i++)
    assert_int_equal(scalar_convert(flt(DT_F64, ints[i].x), ints[i].to).i,
                     ints[i].want);
  assert_int_equal(scalar_convert(itg(DT_I64, 300), DT_U8).i, 44);
  assert_int_equal(scalar_convert(itg(DT_I64, 200), DT_I8).i, -56);
  assert_int_equal(scalar_convert(itg(DT_I64, 1LL << 31), DT_I32).i, INT32_MIN);
  assert_int_equal(scalar_convert(itg(DT_I64, 256), DT_BOOL).i, 1);
  assert_int_equal(scalar_convert(itg(DT_I8, -1), DT_U8).i, 255);
  assert_int_equal(dtype_wrap(DT_I64, INT64_MIN), INT64_MIN);
  assert_true(scalar_convert(itg(DT_I64, 16777217), DT_F32).f == 16777216);
  /* 2^62 + 2^38 is a tie of f32; the last bit breaks it. */
  int64_t tie = (1LL << 62) + (1LL << 38);
  assert_true(scalar_convert(itg(DT_I64, tie), DT_F32).f == 0x1p62);
  assert_true(scalar_convert(itg(DT_I64, tie + 1), DT_F32).f ==
              0x1p62 + 0x1p39);
  assert_true(scalar_convert(itg(DT_I64, -tie - 1), DT_F32).f ==
              -0x1p62 - 0x1p39);
  assert_true(scalar_convert(itg(DT_I64, INT64_MIN), DT_BF16).f == -0x1p63);
  assert_true(isinf(scalar_convert(flt(DT_F64, 1e30), DT_F16).f));
}

static void test_load_store(void **state) {
  (void)state;
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++) {
    char bytes[9] = {0};
    Scalar x = t == DT_F8_E8M0     ? flt(t, 0.125)
               : dtype_is_float(t) ? flt(t, -1.5)
                                   : itg(t, t == DT_BOOL ? 1 : 77);
    bytes[dtype_info[t].bytes] = 0x55;
    scalar_store(x, bytes);
    assert_int_equal(bytes[dtype_info[t].bytes], 0x55);
    Scalar y = scalar_load(t, bytes);
    assert_int_equal(y.dtype, t);
    assert_int_equal(y.i, x.i);
    assert_int_equal(dtype_by_name(dtype_info[t].name), t);
  }
  assert_int_equal(dtype_by_name("f128"), DT_NONE);
}

/* ---- text of numbers ---- */

static void check_text(Scalar x, const char *want) {
  Buffer b = {0};
  scalar_print(&b, x);
  assert_string_equal(b.text, want);
  buffer_free(&b);
}

static void test_scalar_text(void **state) {
  (void)state;
  check_text(flt(DT_F32, (float)0.1), "0.1");
  check_text(flt(DT_F16, dtype_round(DT_F16, 0.1)), "0.1");
  check_text(flt(DT_BF16, dtype_round(DT_BF16, 0.1)), "0.1");
  check_text(flt(DT_F8_E4M3, dtype_round(DT_F8_E4M3, 0.1)), "0.1");
  check_text(flt(DT_F8_E4M3, 0x1p-9), "0.002");
  check_text(flt(DT_F8_E5M2, 57344), "60000.0");
  check_text(flt(DT_F4_E2M1, -1.5), "-1.5");
  check_text(flt(DT_F8_E8M0, 1024), "1024.0");
  check_text(flt(DT_F64, 0.1), "0.1");
  check_text(flt(DT_F64, (float)0.1), "0.10000000149011612");
  check_text(flt(DT_F64, 0.1 + 0.2), "0.30000000000000004");
  check_text(flt(DT_F64, 1), "1.0");
  check_text(flt(DT_F64, -0.0), "-0.0");
  check_text(flt(DT_F64, 100), "100.0");
  check_text(flt(DT_F64, 123456789), "123456789.0");
  check_text(flt(DT_F64, 1e15), "1000000000000000.0");
  check_text(flt(DT_F64, 1e16), "1e16");
  check_text(flt(DT_F64, 1.25e22), "1.25e22");
  check_text(flt(DT_F64, 1e-4), "0.0001");
  check_text(flt(DT_F64, 1.5e-5), "1.5e-5");
  check_text(flt(DT_F64, 0x1p-1074), "5e-324");
  check_text(flt(DT_F64, DBL_MAX), "1.7976931348623157e308");
  check_text(flt(DT_F64, 0x1p-1022), "2.2250738585072014e-308");
  check_text(flt(DT_F64, 0x1p53), "9007199254740992.0");
  check_text(flt(DT_F32, 16777216), "16777216.0");
  check_text(flt(DT_F32, FLT_MAX), "3.4028235e38");
  check_text(flt(DT_F32, 0x1p-149), "1e-45");
  check_text(flt(DT_F16, 65504), "65500.0");
  check_text(flt(DT_F64, INFINITY), "inf");
  check_text(flt(DT_F32, -INFINITY), "-inf");
  check_text(flt(DT_F64, NAN), "nan");
  check_text(flt(DT_F64, -NAN), "nan");
  check_text(itg(DT_I64, INT64_MIN), "-9223372036854775808");
  check_text(itg(DT_U8, 255), "255");
  check_text(itg(DT_BOOL, 1), "true");
  check_text(itg(DT_BOOL, 0), "false");
}

/* The text reads back, and no shorter text does. */
static void check_shortest(Dtype t, double x) {
  Buffer b = {0};
  scalar_print(&b, flt(t, x));
  char *end, digits[20], text[40];
  assert_true(dtype_parse(t, b.text, &end) == x && *end == 0);
  buffer_free(&b);
  int exponent, n = shortest_digits(t, x, digits, &exponent);
  if (n == 1)
    return;
  double step = pow(10, exponent - (n - 2));
  for (int k = -1; k <= 1; k++) {
    snprintf(text, sizeof text, "%.*e", n - 2, x + k * step);
    assert_true(dtype_parse(t, text, NULL) != x);
  }
}

static void test_shortest(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(halves); i++)
    for (uint16_t h = 1; isfinite(halves[i].to(h)); h++)
      check_shortest(halves[i].dtype, halves[i].to(h));
  PrngKey key = prng_key_from_seed(1);
  for (uint64_t i = 0; i < 20000; i++) {
    uint32_t bits = prng_bits32(key, i) & 0x7fffffff;
    float f;
    memcpy(&f, &bits, sizeof f);
    if (isfinite(f) && f != 0)
      check_shortest(DT_F32, f);
    uint64_t wide = prng_bits64(key, i) >> 1;
    double d;
    memcpy(&d, &wide, sizeof d);
    if (isfinite(d) && d != 0)
      check_shortest(DT_F64, d);
  }
  for (int e = -149; e < 128; e++)
    check_shortest(DT_F32, ldexp(1, e));
  for (int e = -1074; e < 1024; e++)
    check_shortest(DT_F64, ldexp(1, e));
}

static void test_parse(void **state) {
  (void)state;
  /* Just above the middle of 1 and the next f32, too near for a double. */
  const char *above = "1.00000005960464477539062500000000000000000001";
  const char *below = "1.00000005960464477539062499999999999999999999";
  const char *middle = "1.000000059604644775390625";
  assert_true(dtype_parse(DT_F32, above, NULL) == 1 + 0x1p-23);
  assert_true(dtype_parse(DT_F32, below, NULL) == 1);
  assert_true(dtype_parse(DT_F32, middle, NULL) == 1);
  assert_true(dtype_parse(DT_F32, "-1.0000000596046448", NULL) == -1 - 0x1p-23);
  assert_true(dtype_parse(DT_F16, "65519.99999999999999999999", NULL) == 65504);
  assert_true(isinf(dtype_parse(DT_F16, "65520", NULL)));
  assert_true(isinf(dtype_parse(DT_F64, "1e999", NULL)));
  assert_true(dtype_parse(DT_BF16, "0.1", NULL) == dtype_round(DT_BF16, 0.1));
}

/* ---- tensors ---- */

static Tensor *tensor(Dtype dtype, uint32_t rank, const int64_t *shape,
                      const double *values, size_t count) {
  Fault fault;
  Tensor *t = tensor_new(dtype, rank, shape, true, &fault);
  assert_non_null(t);
  for (int64_t i = 0; i < t->count; i++) {
    double x = count ? values[(size_t)i % count] : (double)i;
    scalar_store(scalar_convert(flt(DT_F64, x), dtype), tensor_at(t, i));
  }
  return t;
}

static void test_tensor(void **state) {
  (void)state;
  Fault fault = {0};
  Tensor *t = tensor_new(DT_F32, 2, (int64_t[]){3, 5}, true, &fault);
  assert_int_equal(t->count, 15);
  assert_int_equal((uintptr_t)t->data % 64, 0);
  for (int i = 0; i < 15; i++)
    assert_true(((float *)t->data)[i] == 0);
  assert_ptr_equal(tensor_retain(t), t);
  tensor_release(t);
  t->broadcast_mask = 2;
  Buffer b = {0};
  tensor_print_type(&b, t);
  assert_string_equal(b.text, "f32[3, *]");
  buffer_free(&b);
  tensor_release(t);
  tensor_release(NULL);
  t = tensor_new(DT_I64, 1, (int64_t[]){0}, false, &fault);
  assert_int_equal(t->count, 0);
  assert_int_equal((uintptr_t)t->data % 64, 0);
  tensor_release(t);
  t = tensor_scalar(flt(DT_F16, 1.5));
  assert_int_equal(t->count, 1);
  assert_true(scalar_load(DT_F16, t->data).f == 1.5);
  tensor_release(t);
}

static void check_refused(uint32_t rank, const int64_t *shape,
                          const char *message) {
  Fault fault = {0};
  assert_null(tensor_new(DT_F32, rank, shape, false, &fault));
  assert_non_null(strstr(fault.message, message));
}

static void test_tensor_refused(void **state) {
  (void)state;
  check_refused(2, (int64_t[]){10000000, 10000000},
                "f32[10000000, 10000000] needs 363.8 TiB of memory");
  check_refused(2, (int64_t[]){1LL << 40, 1LL << 40},
                "too large for any memory");
  check_refused(3, (int64_t[]){0, 1LL << 62, 4}, "too large for any memory");
  check_refused(1, (int64_t[]){INT64_MAX}, "too large for any memory");
  check_refused(1, (int64_t[]){-1}, "too large for any memory");
  check_refused(33, (int64_t[33]){0}, "rank 33");
  Fault fault;
  const int64_t large[] = {300000}; /* blocks of this size are not cached */
  mem_inject_failure_at(1);
  assert_null(tensor_new(DT_F32, 1, large, true, &fault));
  mem_inject_failures_from(2);
  assert_null(tensor_new(DT_F32, 1, large, true, &fault));
  assert_string_equal(fault.message, "f32[300000] needs 1.1 MiB of memory");
  mem_inject_failure_at(0);
}

static void test_fault_text(void **state) {
  (void)state;
  Fault fault;
  fault_set(&fault, "a\033[31m\tb\xff\xc3 \xc3\xa9 \xc2\x9b.");
  assert_string_equal(fault.message, "a?[31m?b?? \xc3\xa9 ??.");
  assert_string_equal(fault.help, "");
  char text[600];
  memset(text, 'x', sizeof text);
  memcpy(text + 510, "\xc3\xa9", 2);
  text[599] = 0;
  fault_set(&fault, "%s", text);
  assert_int_equal(strlen(fault.message), sizeof fault.message - 1);
  assert_int_equal(fault.message[510], '?');
}

/* ---- text of tensors ---- */

static void check_print(Tensor *t, int64_t limit, int width, const char *want) {
  Buffer b = {0};
  tensor_print(&b, t, limit, width);
  assert_string_equal(b.text, want);
  buffer_free(&b);
  tensor_release(t);
}

#define SHAPE(...)                                     \
  ARRAY_LEN(((int64_t[]){__VA_ARGS__})), (int64_t[]) { \
    __VA_ARGS__                                        \
  }
#define VALUES(...) \
  (double[]){__VA_ARGS__}, ARRAY_LEN(((double[]){__VA_ARGS__}))
#define COUNTING NULL, 0
#define ROW(dtype, want, ...)                                            \
  check_print(tensor(dtype, SHAPE(ARRAY_LEN(((double[]){__VA_ARGS__}))), \
                     VALUES(__VA_ARGS__)),                               \
              1000, 80, want)

static void test_print_numbers(void **state) {
  (void)state;
  ROW(DT_I64, "[1, 2, 3]", 1, 2, 3);
  ROW(DT_I32, "[  -1,    2, 1000]", -1, 2, 1000);
  ROW(DT_BOOL, "[ true, false]", 1, 0);
  ROW(DT_F32, "[1.0, 2.0, 3.0]", 1, 2, 3);
  ROW(DT_F32, "[0.10, 0.25, 2.00]", 0.1, 0.25, 2);
  ROW(DT_F32, "[0.0900, 0.2447, 0.6652]", 0.09003057, 0.24472847, 0.66524094);
  ROW(DT_F64, "[-0.5, 10.0]", -0.5, 10);
  ROW(DT_F64, "[ nan,  inf, -inf,  1.0]", NAN, INFINITY, -INFINITY, 1);
  ROW(DT_F64, "[nan, nan]", NAN, NAN);
  ROW(DT_F64, "[0.0, 0.0]", 0, 0);
  ROW(DT_F64, "[0.001235, 0.003457]", 0.00123456789, 0.00345678);
  ROW(DT_F64, "[0.00001, 0.00100]", 1e-5, 1e-3);
  ROW(DT_F64, "[1e-6,  1e0]", 1e-6, 1);
  ROW(DT_F64, "[1.0000e-6, 1.2346e-5]", 1e-6, 1.23456789e-5);
  ROW(DT_F64, "[-1.5e10,   0.0e0]", -1.5e10, 0);
  ROW(DT_F64, "[12345.679,     0.500]", 12345.6789, 0.5);
  ROW(DT_F64, "[16777216.0,        1.0]", 16777216, 1);
  ROW(DT_F64, "[1e8, 1e0]", 1e8, 1);
  ROW(DT_F32, "[0.1, 0.2]", 0.1, 0.2);
  ROW(DT_F16, "[0.1, 0.2]", 0.1, 0.2);
  ROW(DT_F64, "[ 1e300, 1e-300]", 1e300, 1e-300);
}

static void test_print_shapes(void **state) {
  (void)state;
  check_print(tensor(DT_I64, SHAPE(2, 2), COUNTING), 1000, 80,
              "[[0, 1],\n [2, 3]]");
  check_print(tensor(DT_I64, SHAPE(2, 2, 2), COUNTING), 1000, 80,
              "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
  check_print(tensor(DT_F64, 0, NULL, VALUES(2.5)), 1000, 80, "2.5");
  check_print(tensor(DT_F64, SHAPE(0), COUNTING), 1000, 80, "[]");
  check_print(tensor(DT_F64, SHAPE(3, 0), COUNTING), 1000, 80, "[]");
  check_print(tensor(DT_I64, SHAPE(1001), COUNTING), 1000, 80,
              "[   0,    1,    2, ...,  998,  999, 1000]");
  check_print(tensor(DT_I64, SHAPE(9, 2), COUNTING), 10, 80,
              "[[ 0,  1],\n [ 2,  3],\n [ 4,  5],\n ...,\n"
              " [12, 13],\n [14, 15],\n [16, 17]]");
  check_print(tensor(DT_I64, SHAPE(6, 2), COUNTING), 10, 80,
              "[[ 0,  1],\n [ 2,  3],\n [ 4,  5],\n [ 6,  7],\n"
              " [ 8,  9],\n [10, 11]]");
  check_print(tensor(DT_I64, SHAPE(8), COUNTING), 1000, 12,
              "[0, 1, 2, 3,\n 4, 5, 6, 7]");
  check_print(tensor(DT_I64, SHAPE(8), COUNTING), 1000, 11,
              "[0, 1, 2,\n 3, 4, 5,\n 6, 7]");
  check_print(tensor(DT_I64, SHAPE(3), COUNTING), 1000, 1, "[0,\n 1,\n 2]");
}

/* ---- random numbers ---- */

/* tests/kat_vectors of Random123, "philox4x32 10". */
static void test_philox(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], want[4];
  } known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < ARRAY_LEN(known); i++) {
    uint32_t out[4];
    philox4x32(known[i].counter, known[i].key, out);
    assert_memory_equal(out, known[i].want, sizeof out);
  }
}

static void test_keys(void **state) {
  (void)state;
  PrngKey a = prng_key_from_seed(0), b = prng_key_from_seed(1),
          c = prng_key_from_seed(-1);
  assert_memory_not_equal(&a, &b, sizeof a);
  assert_memory_not_equal(&b, &c, sizeof a);
  PrngKey a0 = prng_key_split(a, 0), a1 = prng_key_split(a, 1),
          b0 = prng_key_split(b, 0);
  assert_memory_not_equal(&a0, &a1, sizeof a);
  assert_memory_not_equal(&a0, &b0, sizeof a);
  /* The key of a child is not a block of its parent's stream. */
  uint32_t child[4] = {(uint32_t)a0.word[0], (uint32_t)(a0.word[0] >> 32),
                       (uint32_t)a0.word[1], (uint32_t)(a0.word[1] >> 32)};
  for (uint64_t i = 0; i < 10000; i += 4) {
    uint32_t words[4];
    for (uint64_t k = 0; k < 4; k++)
      words[k] = prng_bits32(a, i + k);
    assert_memory_not_equal(words, child, sizeof words);
  }
  uint64_t low = prng_bits32(a, 4), high = prng_bits32(a, 5);
  assert_true(prng_bits64(a, 2) == (high << 32 | low));
  (void)prng_bits32(a, UINT64_MAX), (void)prng_bits64(a, UINT64_MAX);
}

static void test_uniform(void **state) {
  (void)state;
  static const Dtype types[] = {DT_F16,     DT_BF16,    DT_F32,     DT_F64,
                                DT_F8_E4M3, DT_F8_E5M2, DT_F4_E2M1, DT_F8_E8M0};
  PrngKey key = prng_key_from_seed(7);
  for (size_t i = 0; i < ARRAY_LEN(types); i++) {
    double sum = 0, least = 1, most = 0;
    int n = 100000;
    for (int k = 0; k < n; k++) {
      double x = prng_uniform(key, (uint64_t)k, types[i]);
      assert_true(x >= 0 && x < 1 && dtype_round(types[i], x) == x);
      sum += x;
      least = fmin(least, x), most = fmax(most, x);
    }
    double step = types[i] == DT_BF16      ? 0x1p-8
                  : types[i] == DT_F16     ? 0x1p-11
                  : types[i] == DT_F8_E4M3 ? 0x1p-4
                  : types[i] == DT_F8_E5M2 ? 0x1p-3
                  : types[i] == DT_F4_E2M1 ? 0x1p-1
                  : types[i] == DT_F8_E8M0 ? 0x1p-1
                                           : 0;
    assert_true(fabs(sum / n + step / 2 - 0.5) < 0.005);
    assert_true(least < 0.001 && most >= 0.999 - step);
  }
}

static void test_normal(void **state) {
  (void)state;
  PrngKey key = prng_key_from_seed(7);
  double sums[5] = {0};
  int n = 200000;
  for (int i = 0; i < n; i++) {
    double x = prng_normal(key, (uint64_t)i, DT_F64), power = 1;
    for (int k = 0; k < 5; k++, power *= x)
      sums[k] += power / n;
    /* The quantile inverts the distribution. */
    double u = ((double)(prng_bits64(key, (uint64_t)i) >> 12) + 0.5) * 0x1p-52;
    double tail = u < 0.5 ? u : 1 - u;
    assert_true(fabs(0.5 * erfc(fabs(x) * 0.70710678118654752440) - tail) <=
                4e-15 * (1 + x * x) * tail);
  }
  assert_true(fabs(sums[1]) < 0.01 && fabs(sums[2] - 1) < 0.02);
  assert_true(fabs(sums[3]) < 0.05 && fabs(sums[4] - 3) < 0.1);
  for (uint64_t i = 0; i < 1000; i++) {
    double x = prng_normal(key, i, DT_BF16);
    assert_true(x == dtype_round(DT_BF16, x) && fabs(x) < 7);
  }
}

/* These never change: programs rely on them. */
static void test_random_fixed(void **state) {
  (void)state;
  PrngKey key = prng_key_from_seed(42);
  assert_true(key.word[0] == 0x8db4b8ce1fd0671e &&
              key.word[1] == 0x3b3e57828e436121);
  PrngKey child = prng_key_split(key, 3);
  assert_true(child.word[0] == 0xf30db089337175a4 &&
              child.word[1] == 0x8efa1567e39eb5c0);
  assert_true(prng_bits32(key, 5) == 0xc1bd7461);
  assert_true(prng_bits64(key, 5) == 0x86434f10e1dea888);
  assert_true(prng_uniform(key, 5, DT_F32) == 0x1.837ae8p-1);
  assert_true(prng_normal(key, 5, DT_F32) == 0x1.645eeep-1);
  assert_true(prng_normal(key, 5, DT_F64) == 0x1.f6ad7d108ddfep-5);
  assert_true(prng_normal(key, 46, DT_F64) == 0x1.1672a128883bdp-4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_half_all),
      cmocka_unit_test(test_half_ties),
      cmocka_unit_test(test_e2m1_all),
      cmocka_unit_test(test_e8m0_all),
      cmocka_unit_test(test_octet_all),
      cmocka_unit_test(test_octet_ties),
      cmocka_unit_test(test_convert),
      cmocka_unit_test(test_load_store),
      cmocka_unit_test(test_scalar_text),
      cmocka_unit_test(test_shortest),
      cmocka_unit_test(test_parse),
      cmocka_unit_test(test_tensor),
      cmocka_unit_test(test_tensor_refused),
      cmocka_unit_test(test_fault_text),
      cmocka_unit_test(test_print_numbers),
      cmocka_unit_test(test_print_shapes),
      cmocka_unit_test(test_philox),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_uniform),
      cmocka_unit_test(test_normal),
      cmocka_unit_test(test_random_fixed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
