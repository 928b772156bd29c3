/* The microbenchmarks for each vector width that this program may meet. */
#include "machine/internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VECTOR_REGISTER(x) "v"(x)

#define VECTOR_BYTES 16
#define TARGET_ATTRIBUTE
#define VECTOR __m128
#define ZERO() _mm_setzero_ps()
#define SPLAT(x) _mm_set1_ps(x)
#define FMA(x, y, z) _mm_add_ps(_mm_mul_ps(x, y), z)
#define ADD(x, y) _mm_add_ps(x, y)
#define LOAD(p) _mm_loadu_ps((const float *)(p))
#define STORE(p, x) _mm_storeu_ps((float *)(p), x)
#define NONTEMPORAL_STORE(p, x) _mm_stream_ps((float *)(p), x)
#define VECTOR_F64 __m128d
#define SPLAT_F64(x) _mm_set1_pd(x)
#define FMA_F64(x, y, z) _mm_add_pd(_mm_mul_pd(x, y), z)
#define STORE_F64(p, x) _mm_storeu_pd(p, x)
#include "machine/microbenchmarks.def"

#define VECTOR_BYTES 32
#define TARGET_ATTRIBUTE __attribute__((target("avx2,fma")))
#define VECTOR __m256
#define ZERO() _mm256_setzero_ps()
#define SPLAT(x) _mm256_set1_ps(x)
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#define ADD(x, y) _mm256_add_ps(x, y)
#define LOAD(p) _mm256_loadu_ps((const float *)(p))
#define STORE(p, x) _mm256_storeu_ps((float *)(p), x)
#define NONTEMPORAL_STORE(p, x) _mm256_stream_ps((float *)(p), x)
#define VECTOR_F64 __m256d
#define SPLAT_F64(x) _mm256_set1_pd(x)
#define FMA_F64(x, y, z) _mm256_fmadd_pd(x, y, z)
#define STORE_F64(p, x) _mm256_storeu_pd(p, x)
#include "machine/microbenchmarks.def"

#define VECTOR_BYTES 64
#define TARGET_ATTRIBUTE __attribute__((target("avx512f")))
#define VECTOR __m512
#define ZERO() _mm512_setzero_ps()
#define SPLAT(x) _mm512_set1_ps(x)
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define ADD(x, y) _mm512_add_ps(x, y)
#define LOAD(p) _mm512_loadu_ps((const void *)(p))
#define STORE(p, x) _mm512_storeu_ps((void *)(p), x)
#define NONTEMPORAL_STORE(p, x) _mm512_stream_ps((void *)(p), x)
#define VECTOR_F64 __m512d
#define SPLAT_F64(x) _mm512_set1_pd(x)
#define FMA_F64(x, y, z) _mm512_fmadd_pd(x, y, z)
#define STORE_F64(p, x) _mm512_storeu_pd(p, x)
#include "machine/microbenchmarks.def"

/* Products of bf16 pairs: 24 accumulators, 64 operations each per round. */
// clang-format off
#define FOR_EACH_ACCUMULATOR(M) \
  M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) \
  M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23)
// clang-format on
#define DECLARE_ACCUMULATOR(k) __m512 sum##k = _mm512_set1_ps(seed);
#define ACCUMULATE(k) sum##k = _mm512_dpbf16_ps(sum##k, x, y);
#define COMBINE_ACCUMULATOR(k) all = _mm512_add_ps(all, sum##k);
__attribute__((target("avx512f,avx512bw,avx512bf16"))) static float
dot_bf16(int64_t rounds) {
  volatile float seed = 1;
  __m512 one = _mm512_set1_ps(1e-3f), all = _mm512_setzero_ps();
  __m512bh x = _mm512_cvtne2ps_pbh(one, one), y = x;
  FOR_EACH_ACCUMULATOR(DECLARE_ACCUMULATOR)
  for (int64_t i = 0; i < rounds; i++) {
    FOR_EACH_ACCUMULATOR(ACCUMULATE)
    __asm__ volatile("" : : : "memory");
  }
  FOR_EACH_ACCUMULATOR(COMBINE_ACCUMULATOR)
  return _mm512_reduce_add_ps(all);
}

static const Microbenchmarks by_width[] = {
    {64, 24 * 32, multiply_64, read_64, copy_64, stream_64, 0, NULL,
     multiply_f64_64, dependent_64, load_64, load_elements_64, store_64},
    {32, 12 * 16, multiply_32, read_32, copy_32, stream_32, 0, NULL,
     multiply_f64_32, dependent_32, load_32, load_elements_32, store_32},
    {16, 12 * 8, multiply_16, read_16, copy_16, stream_16, 0, NULL,
     multiply_f64_16, dependent_16, load_16, load_elements_16, store_16},
};

Microbenchmarks machine_microbenchmarks(uint32_t vector_bytes) {
  Microbenchmarks k = by_width[vector_bytes == 64   ? 0
                               : vector_bytes == 32 ? 1
                                                    : 2];
  if (vector_bytes == 64 && __builtin_cpu_supports("avx512bf16")) {
    k.dot_bf16 = dot_bf16;
    k.bf16_flops_per_round = 24 * 64;
  }
  return k;
}

#else

/* Vector types of GNU C, as in generated code. */
typedef float Lanes __attribute__((vector_size(16), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(16), aligned(8), may_alias));

#define VECTOR_BYTES 16
#define TARGET_ATTRIBUTE
#define VECTOR Lanes
#define ZERO() ((Lanes){0})
#define SPLAT(x) ((Lanes){x, x, x, x})
#if defined(__aarch64__)
#include <arm_neon.h>
#define FMA(x, y, z) \
  ((Lanes)vfmaq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y)))
#define FMA_F64(x, y, z) \
  ((Doubles)vfmaq_f64((float64x2_t)(z), (float64x2_t)(x), (float64x2_t)(y)))
#define VECTOR_REGISTER(x) "w"(x)
#else
#define FMA(x, y, z) ((x) * (y) + (z))
#define FMA_F64(x, y, z) ((x) * (y) + (z))
#define VECTOR_REGISTER(x) "m"(x)
#endif
#define ADD(x, y) ((x) + (y))
#define LOAD(p) (*(const Lanes *)(p))
#define STORE(p, x) (*(Lanes *)(p) = (x))
#define NONTEMPORAL_STORE(p, x) STORE(p, x)
#define VECTOR_F64 Doubles
#define SPLAT_F64(x) ((Doubles){x, x})
#define STORE_F64(p, x) (*(Doubles *)(p) = (x))
#include "machine/microbenchmarks.def"

Microbenchmarks machine_microbenchmarks(uint32_t vector_bytes) {
  (void)vector_bytes;
  return (Microbenchmarks){
      16,      12 * 8, multiply_16,     read_16,      copy_16, stream_16,
      0,       NULL,   multiply_f64_16, dependent_16, load_16, load_elements_16,
      store_16};
}

#endif
