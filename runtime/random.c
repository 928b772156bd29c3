/* Counter-based random numbers: a number depends only on a key and an index.
 * So every backend computes the same numbers, in any order.
 *
 * A key has 128 bits.  Its first word is the key of Philox4x32-10.  Its second
 * word is the upper half of the counter.  The lower half of the counter numbers
 * the blocks of a stream; a block has four 32-bit words.  Blocks whose lower
 * half has the top bit set are reserved for prng_key_split, so child streams
 * never overlap the parent stream.
 *
 * Normal numbers use only + - * / and sqrt, which IEEE 754 defines to the bit,
 * and no libm.  A backend that does the same steps in double, without
 * contraction to fused multiply-adds, gets the same bits. */
#include "runtime/internal.h"

#include <math.h>
#include <string.h>

enum { PHILOX_ROUNDS = 10 };

void philox4x32(const uint32_t counter[4], const uint32_t key[2],
                uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    uint64_t a = (uint64_t)c0 * 0xd2511f53u, b = (uint64_t)c2 * 0xcd9e8d57u;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void philox_block(PrngKey key, uint64_t block_index, uint32_t out[4]) {
  uint32_t counter[4] = {(uint32_t)block_index, (uint32_t)(block_index >> 32),
                         (uint32_t)key.word[1], (uint32_t)(key.word[1] >> 32)};
  uint32_t philox_key[2] = {(uint32_t)key.word[0],
                            (uint32_t)(key.word[0] >> 32)};
  philox4x32(counter, philox_key, out);
}

static PrngKey key_from_words(const uint32_t words[4]) {
  return (PrngKey){{(uint64_t)words[1] << 32 | words[0],
                    (uint64_t)words[3] << 32 | words[2]}};
}

/* Philox permutes its counters, so different seeds give different keys. */
PrngKey prng_key_from_seed(int64_t seed) {
  uint32_t out[4];
  philox_block((PrngKey){{0x6e6f7861u, 0}}, (uint64_t)seed, out); /* "axon" */
  return key_from_words(out);
}

PrngKey prng_key_split(PrngKey key, uint64_t index) {
  uint32_t out[4];
  philox_block(key, index | (uint64_t)1 << 63, out);
  return key_from_words(out);
}

uint32_t prng_bits32(PrngKey key, uint64_t index) {
  uint32_t out[4];
  philox_block(key, index / 4, out);
  return out[index % 4];
}

uint64_t prng_bits64(PrngKey key, uint64_t index) {
  uint32_t out[4];
  philox_block(key, index / 2, out);
  return index % 2 ? (uint64_t)out[3] << 32 | out[2]
                   : (uint64_t)out[1] << 32 | out[0];
}

/* Blocks side by side, so that compilers vectorize these loops. */
void prng_batch64(PrngKey key, uint64_t block_index,
                  uint64_t to[PRNG_BATCH_WORDS]) {
  enum { N = PRNG_BATCH_WORDS / 2 };
  uint32_t c0[N], c1[N], c2[N], c3[N];
  uint32_t k0 = (uint32_t)key.word[0], k1 = (uint32_t)(key.word[0] >> 32);
  for (int j = 0; j < N; j++) {
    uint64_t n = block_index * N + (uint64_t)j;
    c0[j] = (uint32_t)n, c1[j] = (uint32_t)(n >> 32);
    c2[j] = (uint32_t)key.word[1], c3[j] = (uint32_t)(key.word[1] >> 32);
  }
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    for (int j = 0; j < N; j++) {
      uint64_t a = (uint64_t)c0[j] * 0xd2511f53u;
      uint64_t b = (uint64_t)c2[j] * 0xcd9e8d57u;
      c0[j] = (uint32_t)(b >> 32) ^ c1[j] ^ k0;
      c2[j] = (uint32_t)(a >> 32) ^ c3[j] ^ k1;
      c1[j] = (uint32_t)b;
      c3[j] = (uint32_t)a;
    }
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  for (int j = 0; j < N; j++) {
    to[2 * j] = (uint64_t)c1[j] << 32 | c0[j];
    to[2 * j + 1] = (uint64_t)c3[j] << 32 | c2[j];
  }
}

/* Uses as many bits as the fraction has.  So all values are equally likely, and
 * rounding never gives 1. */
double prng_uniform(PrngKey key, uint64_t index, Dtype dtype) {
  if (dtype == DT_F64)
    return (double)(prng_bits64(key, index) >> 11) * 0x1p-53;
  uint32_t bits = prng_bits32(key, index);
  if (dtype == DT_F16)
    return (bits >> 21) * 0x1p-11;
  if (dtype == DT_BF16)
    return (bits >> 24) * 0x1p-8;
  if (dtype == DT_F8_E4M3)
    return (bits >> 28) * 0x1p-4;
  if (dtype == DT_F8_E5M2)
    return (bits >> 29) * 0x1p-3;
  if (dtype == DT_F4_E2M1)
    return (bits >> 31) * 0x1p-1;
  if (dtype == DT_F8_E8M0) /* its least number takes the place of 0 */
    return bits >> 31 ? 0x1p-1 : 0x1p-127;
  return (bits >> 8) * 0x1p-24;
}

/* -log(p) for 0 < p < 1, accurate to about 1e-16.  p = m * 2^e with m near 1,
 * and log m = 2 atanh((m - 1) / (m + 1)) as a series. */
static double neg_log(double p) {
  uint64_t bits;
  memcpy(&bits, &p, sizeof bits);
  int e = (int)(bits >> 52) - 1022;
  bits = (bits & 0xfffffffffffffu) | (uint64_t)1022 << 52;
  double m;
  memcpy(&m, &bits, sizeof m); /* 0.5 <= m < 1 */
  if (m < 0.70710678118654752) {
    m = m * 2;
    e--;
  }
  double s = (m - 1) / (m + 1), z = s * s, sum = 0;
  for (int k = 21; k >= 1; k -= 2)
    sum = sum * z + 1.0 / k;
  return -(e * 0.69314718055994531 + 2 * s * sum);
}

static double horner(const double at[8], double x) {
  double sum = at[7];
  for (int i = 6; i >= 0; i--)
    sum = sum * x + at[i];
  return sum;
}

/* The inverse of the normal distribution, accurate to about 1e-16: Wichura,
 * Algorithm AS 241 (PPND16), Applied Statistics 37 (1988), pages 477 to 484. */
static double normal_quantile(double p) {
  static const double a[8] = {
      3.3871328727963666080e0,  1.3314166789178437745e+2,
      1.9715909503065514427e+3, 1.3731693765509461125e+4,
      4.5921953931549871457e+4, 6.7265770927008700853e+4,
      3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static const double b[8] = {1.0,
                              4.2313330701600911252e+1,
                              6.8718700749205790830e+2,
                              5.3941960214247511077e+3,
                              2.1213794301586595867e+4,
                              3.9307895800092710610e+4,
                              2.8729085735721942674e+4,
                              5.2264952788528545610e+3};
  static const double c[8] = {
      1.42343711074968357734e0,  4.63033784615654529590e0,
      5.76949722146069140550e0,  3.64784832476320460504e0,
      1.27045825245236838258e0,  2.41780725177450611770e-1,
      2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double d[8] = {1.0,
                              2.05319162663775882187e0,
                              1.67638483018380384940e0,
                              6.89767334985100004550e-1,
                              1.48103976427480074590e-1,
                              1.51986665636164571966e-2,
                              5.47593808499534494600e-4,
                              1.05075007164441684324e-9};
  static const double e[8] = {
      6.65790464350110377720e0,  5.46378491116411436990e0,
      1.78482653991729133580e0,  2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3,
      2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static const double f[8] = {1.0,
                              5.99832206555887937690e-1,
                              1.36929880922735805310e-1,
                              1.48753612908506148525e-2,
                              7.86869131145613259100e-4,
                              1.84631831751005468180e-5,
                              1.42151175831644588870e-7,
                              2.04426310338993978564e-15};
  double q = p - 0.5;
  if (fabs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    return q * horner(a, r) / horner(b, r);
  }
  double r = sqrt(neg_log(q < 0 ? p : 1 - p)), x;
  if (r <= 5)
    x = horner(c, r - 1.6) / horner(d, r - 1.6);
  else
    x = horner(e, r - 5) / horner(f, r - 5);
  return q < 0 ? -x : x;
}

/* One number per index.  The uniform number behind it is never 0 or 1. */
double prng_normal(PrngKey key, uint64_t index, Dtype dtype) {
  double p;
  if (dtype == DT_F64)
    p = ((double)(prng_bits64(key, index) >> 12) + 0.5) * 0x1p-52;
  else
    p = (prng_bits32(key, index) + 0.5) * 0x1p-32;
  return dtype_round(dtype, normal_quantile(p));
}
