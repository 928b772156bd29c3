// backend/cuda/sim: the part of CUDA C++ that kernels use, and the intrinsics,
// for a C++ compiler of the host.  It precedes the source of a kernel.  The
// kernel is compiled with -fsanitize=thread: before each memory access, it
// calls __tsan_read4 and similar functions, which are defined in hooks.cc.
#ifndef AXON_CUDA_KERNEL_HH
#define AXON_CUDA_KERNEL_HH

#include "backend/cuda/sim/abi.h"

extern "C" const AxTable *ax_sim_table __attribute__((visibility("default")));

#define AX_SIM \
  static inline __attribute__((no_sanitize("thread", "undefined"), unused))
#define AX_AT int line = __builtin_LINE()

// ---- language ----

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// Always inlined: if a call returned a struct, the compiler would store it to
// memory without instrumentation.
#define AX_DEVICE static inline __attribute__((always_inline, unused))
typedef unsigned long ax_size;

AX_SIM const AxSelf *ax_sim_self() {
  return ax_sim_table->self;
}
AX_SIM AxIndex ax_sim_block_dim() {
  return ax_sim_table->block_dim;
}
AX_SIM AxIndex ax_sim_grid_dim() {
  return ax_sim_table->grid_dim;
}
AX_SIM AxIndex ax_sim_thread() {
  return ax_sim_self()->thread;
}
AX_SIM AxIndex ax_sim_block() {
  return ax_sim_self()->block;
}
#define threadIdx (ax_sim_thread())
#define blockIdx (ax_sim_block())
#define blockDim (ax_sim_block_dim())
#define gridDim (ax_sim_grid_dim())
#define warpSize 32

#define AX_VECTORS(T, name)                                       \
  struct __align__(2 * sizeof(T)) name##2 {                       \
    T x, y;                                                       \
  };                                                              \
  struct name##3 {                                                \
    T x, y, z;                                                    \
  };                                                              \
  struct __align__(sizeof(T) == 8 ? 16 : 4 * sizeof(T)) name##4 { \
    T x, y, z, w;                                                 \
  };                                                              \
  AX_DEVICE name##2 make_##name##2(T x, T y) {                    \
    return {x, y};                                                \
  }                                                               \
  AX_DEVICE name##3 make_##name##3(T x, T y, T z) {               \
    return {x, y, z};                                             \
  }                                                               \
  AX_DEVICE name##4 make_##name##4(T x, T y, T z, T w) {          \
    return {x, y, z, w};                                          \
  }
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef long long longlong;
typedef unsigned long long ulonglong;
AX_VECTORS(signed char, char)
AX_VECTORS(unsigned char, uchar)
AX_VECTORS(short, short)
AX_VECTORS(unsigned short, ushort)
AX_VECTORS(int, int)
AX_VECTORS(unsigned, uint)
AX_VECTORS(long long, longlong)
AX_VECTORS(unsigned long long, ulonglong)
AX_VECTORS(float, float)
AX_VECTORS(double, double)
#undef AX_VECTORS

// ---- functions ----

#define AX_MATH1(name)         \
  extern "C" {                 \
  float name##f(float);        \
  double name(double);         \
  }                            \
  AX_SIM float name(float x) { \
    return name##f(x);         \
  }
#define AX_MATH2(name)                  \
  extern "C" {                          \
  float name##f(float, float);          \
  double name(double, double);          \
  }                                     \
  AX_SIM float name(float x, float y) { \
    return name##f(x, y);               \
  }
AX_MATH1(exp)
AX_MATH1(exp2)
AX_MATH1(expm1)
AX_MATH1(log)
AX_MATH1(log2)
AX_MATH1(log10)
AX_MATH1(log1p)
AX_MATH1(sin)
AX_MATH1(cos)
AX_MATH1(tan)
AX_MATH1(asin)
AX_MATH1(acos)
AX_MATH1(atan)
AX_MATH1(sinh)
AX_MATH1(cosh)
AX_MATH1(tanh)
AX_MATH1(asinh)
AX_MATH1(acosh)
AX_MATH1(atanh)
AX_MATH1(sqrt)
AX_MATH1(cbrt)
AX_MATH1(erf)
AX_MATH1(erfc)
AX_MATH1(tgamma)
AX_MATH1(lgamma)
AX_MATH1(floor)
AX_MATH1(ceil)
AX_MATH1(trunc)
AX_MATH1(round)
AX_MATH1(rint)
AX_MATH1(nearbyint)
AX_MATH1(fabs)
AX_MATH2(pow)
AX_MATH2(atan2)
AX_MATH2(hypot)
AX_MATH2(fmod)
AX_MATH2(fmin)
AX_MATH2(fmax)
AX_MATH2(copysign)
AX_MATH2(remainder)
AX_MATH2(nextafter)
AX_MATH2(fdim)
#undef AX_MATH1
#undef AX_MATH2
extern "C" {
float fmaf(float, float, float);
double fma(double, double, double);
float ldexpf(float, int);
double ldexp(double, int);
double frexp(double, int *);
long long llrintf(float);
long long llrint(double);
}
AX_SIM float fma(float x, float y, float z) {
  return fmaf(x, y, z);
}
AX_SIM float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
AX_SIM double rsqrt(double x) {
  return 1.0 / sqrt(x);
}
AX_SIM float __expf(float x) {
  return expf(x);
}
AX_SIM float __logf(float x) {
  return logf(x);
}
AX_SIM float __fdividef(float x, float y) {
  return x / y;
}
#define AX_ROUNDED(name, T, expression) \
  AX_SIM T name(T x, T y) {             \
    return expression;                  \
  }
AX_ROUNDED(__fadd_rn, float, x + y)
AX_ROUNDED(__fsub_rn, float, x - y)
AX_ROUNDED(__fmul_rn, float, x *y)
AX_ROUNDED(__fdiv_rn, float, x / y)
AX_ROUNDED(__dadd_rn, double, x + y)
AX_ROUNDED(__dsub_rn, double, x - y)
AX_ROUNDED(__dmul_rn, double, x *y)
AX_ROUNDED(__ddiv_rn, double, x / y)
#undef AX_ROUNDED
AX_SIM float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
}
AX_SIM double __fma_rn(double x, double y, double z) {
  return fma(x, y, z);
}
AX_SIM float __fsqrt_rn(float x) {
  return sqrtf(x);
}
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

#define AX_ORDERED(T)      \
  AX_SIM T min(T x, T y) { \
    return y < x ? y : x;  \
  }                        \
  AX_SIM T max(T x, T y) { \
    return x < y ? y : x;  \
  }
AX_ORDERED(int)
AX_ORDERED(unsigned)
AX_ORDERED(long)
AX_ORDERED(unsigned long)
AX_ORDERED(long long)
AX_ORDERED(unsigned long long)
#undef AX_ORDERED
AX_SIM float min(float x, float y) {
  return fminf(x, y);
}
AX_SIM float max(float x, float y) {
  return fmaxf(x, y);
}
AX_SIM double min(double x, double y) {
  return fmin(x, y);
}
AX_SIM double max(double x, double y) {
  return fmax(x, y);
}
AX_SIM int abs(int x) {
  return x < 0 ? -x : x;
}
AX_SIM long long llabs(long long x) {
  return x < 0 ? -x : x;
}

template <typename To, typename From> AX_SIM To ax_sim_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}
#define AX_BITS(name, To, From)      \
  AX_SIM To name(From x) {           \
    return ax_sim_bits<To, From>(x); \
  }
AX_BITS(__float_as_int, int, float)
AX_BITS(__float_as_uint, unsigned, float)
AX_BITS(__int_as_float, float, int)
AX_BITS(__uint_as_float, float, unsigned)
AX_BITS(__double_as_longlong, long long, double)
AX_BITS(__longlong_as_double, double, long long)
#undef AX_BITS
AX_SIM int __popc(unsigned x) {
  return __builtin_popcount(x);
}
AX_SIM int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
AX_SIM int __ffs(int x) {
  return __builtin_ffs(x);
}
AX_SIM int __clz(int x) {
  return x ? __builtin_clz((unsigned)x) : 32;
}
AX_SIM int __clzll(long long x) {
  return x ? __builtin_clzll((unsigned long long)x) : 64;
}
AX_SIM unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; i++)
    y |= (x >> i & 1) << (31 - i);
  return y;
}
AX_SIM int __mulhi(int x, int y) {
  return (int)((long long)x * y >> 32);
}
AX_SIM unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)((unsigned long long)x * y >> 32);
}
AX_SIM long long __mul64hi(long long x, long long y) {
  return (long long)((__int128)x * y >> 64);
}
AX_SIM unsigned long long __umul64hi(unsigned long long x,
                                     unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}

// ---- calls of the simulator ----

AX_SIM uint64_t ax_sim_call(int op, AxCall c) {
  ax_sim_table->call(op, &c);
  return c.result;
}
AX_SIM AxCall ax_sim_args(int line, uint64_t a = 0, uint64_t b = 0,
                          uint64_t c = 0, uint64_t d = 0) {
  AxCall call = {line, {a, b, c, d}, {}, 0};
  return call;
}
AX_SIM uint64_t ax_sim_do(int op, int line, uint64_t a = 0, uint64_t b = 0,
                          uint64_t c = 0, uint64_t d = 0) {
  return ax_sim_call(op, ax_sim_args(line, a, b, c, d));
}
AX_SIM uint64_t ax_sim_at(int op, int line, const void *p, uint64_t a = 0,
                          uint64_t b = 0, uint64_t c = 0) {
  AxCall call = ax_sim_args(line, a, b, c);
  call.p[0] = p;
  return ax_sim_call(op, call);
}

AX_SIM void __threadfence(AX_AT) {
  ax_sim_do(AX_YIELD, line, 1);
}
AX_SIM void __threadfence_block(AX_AT) {
  ax_sim_do(AX_YIELD, line);
}
AX_SIM void __nanosleep(unsigned, AX_AT) {
  ax_sim_do(AX_YIELD, line);
}
AX_SIM void __trap(AX_AT) {
  ax_sim_do(AX_TRAP, line);
}
template <typename T> AX_DEVICE T __ldg(const T *p, AX_AT) {
  ax_sim_at(AX_LOAD, line, p, sizeof(T));
  return *p;
}

#define AX_ATOMIC_OP(name, expression)                                    \
  template <typename T, typename U> AX_SIM T name(T *p, U value, AX_AT) { \
    ax_sim_at(AX_ATOMIC, line, p, sizeof(T));                             \
    T old = *p, v = (T)value;                                             \
    *p = (T)(expression);                                                 \
    return old;                                                           \
  }
AX_ATOMIC_OP(atomicAdd, old + v)
AX_ATOMIC_OP(atomicSub, old - v)
AX_ATOMIC_OP(atomicMin, v < old ? v : old)
AX_ATOMIC_OP(atomicMax, old < v ? v : old)
AX_ATOMIC_OP(atomicAnd, old &v)
AX_ATOMIC_OP(atomicOr, old | v)
AX_ATOMIC_OP(atomicXor, old ^ v)
AX_ATOMIC_OP(atomicExch, v)
AX_ATOMIC_OP(atomicInc, old >= v ? 0 : old + 1)
#undef AX_ATOMIC_OP
template <typename T, typename U, typename V>
AX_SIM T atomicCAS(T *p, U wanted, V value, AX_AT) {
  ax_sim_at(AX_ATOMIC, line, p, sizeof(T));
  T old = *p;
  if (old == (T)wanted)
    *p = (T)value;
  return old;
}

// ---- intrinsics: device/base.cuh, device/warp.cuh ----

AX_SIM unsigned char *ax_shared(AX_AT) {
  return (unsigned char *)ax_sim_do(AX_SHARED, line);
}
AX_SIM unsigned ax_shared_address(const void *p, AX_AT) {
  return (unsigned)ax_sim_at(AX_SHARED_ADDRESS, line, p);
}
AX_SIM void ax_sync(AX_AT) {
  ax_sim_do(AX_SYNC, line);
}
AX_SIM bool ax_sync_or(bool p, AX_AT) {
  return ax_sim_do(AX_SYNC, line, AX_VOTE_OR, p);
}
AX_SIM bool ax_sync_and(bool p, AX_AT) {
  return ax_sim_do(AX_SYNC, line, AX_VOTE_AND, p);
}
AX_SIM int ax_sync_count(bool p, AX_AT) {
  return (int)ax_sim_do(AX_SYNC, line, AX_VOTE_COUNT, p);
}
AX_SIM void ax_barrier_sync(unsigned id, unsigned count, AX_AT) {
  ax_sim_do(AX_BARRIER, line, id, count);
}
AX_SIM void ax_barrier_arrive(unsigned id, unsigned count, AX_AT) {
  ax_sim_do(AX_BARRIER, line, id, count, 1);
}
AX_SIM void ax_sync_warp(AX_AT) {
  ax_sim_do(AX_SYNC_WARP, line);
}
AX_SIM unsigned ax_lane() {
  return ax_sim_self()->lane.x;
}
AX_SIM unsigned ax_warp() {
  return ax_sim_self()->lane.y;
}
template <typename T>
AX_SIM T ax_sim_shuffle(T v, int kind, unsigned operand, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = ax_sim_do(AX_SHUFFLE, line, bits, (uint64_t)kind, operand);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
template <typename T> AX_SIM T ax_shuffle(T v, int lane, AX_AT) {
  return ax_sim_shuffle(v, AX_SHUFFLE_LANE, (unsigned)lane, line);
}
template <typename T> AX_SIM T ax_shuffle_xor(T v, int mask, AX_AT) {
  return ax_sim_shuffle(v, AX_SHUFFLE_XOR, (unsigned)mask, line);
}
template <typename T> AX_SIM T ax_shuffle_up(T v, unsigned by, AX_AT) {
  return ax_sim_shuffle(v, AX_SHUFFLE_UP, by, line);
}
template <typename T> AX_SIM T ax_shuffle_down(T v, unsigned by, AX_AT) {
  return ax_sim_shuffle(v, AX_SHUFFLE_DOWN, by, line);
}
AX_SIM unsigned ax_ballot(bool p, AX_AT) {
  return (unsigned)ax_sim_do(AX_VOTE, line, AX_VOTE_BITS, p);
}
AX_SIM bool ax_any(bool p, AX_AT) {
  return ax_sim_do(AX_VOTE, line, AX_VOTE_OR, p);
}
AX_SIM bool ax_all(bool p, AX_AT) {
  return ax_sim_do(AX_VOTE, line, AX_VOTE_AND, p);
}
AX_SIM bool ax_elect(AX_AT) {
  return ax_sim_do(AX_ELECT, line);
}
template <int N> AX_SIM void ax_registers_more(AX_AT) {
  ax_sim_do(AX_REGISTERS, line, N, 1);
}
template <int N> AX_SIM void ax_registers_less(AX_AT) {
  ax_sim_do(AX_REGISTERS, line, N, 0);
}
AX_SIM void ax_grid_wait() {}
AX_SIM void ax_grid_launch() {}

// ---- device/memory.cuh ----

#define AX_WIDTH(T, bytes)                                               \
  AX_DEVICE T ax_load_##bytes(const void *p, AX_AT) {                    \
    ax_sim_at(AX_LOAD, line, p, bytes);                                  \
    return *(const T *)p;                                                \
  }                                                                      \
  AX_DEVICE T ax_load_##bytes##_once(const void *p, AX_AT) {             \
    ax_sim_at(AX_LOAD, line, p, bytes, 1);                               \
    return *(const T *)p;                                                \
  }                                                                      \
  AX_SIM void ax_store_##bytes(void *p, T v, AX_AT) {                    \
    ax_sim_at(AX_STORE, line, p, bytes);                                 \
    *(T *)p = v;                                                         \
  }                                                                      \
  AX_SIM void ax_store_##bytes##_once(void *p, T v, AX_AT) {             \
    ax_store_##bytes(p, v, line);                                        \
  }                                                                      \
  AX_SIM void ax_copy_##bytes(unsigned to, const void *from, unsigned n, \
                              AX_AT) {                                   \
    AxCall c = ax_sim_args(line, to, n, bytes);                          \
    c.p[0] = from;                                                       \
    ax_sim_call(AX_COPY, c);                                             \
  }
AX_WIDTH(uint4, 16)
AX_WIDTH(uint2, 8)
AX_WIDTH(unsigned, 4)
#undef AX_WIDTH
AX_SIM void ax_copy_commit(AX_AT) {
  ax_sim_do(AX_COPY_COMMIT, line);
}
template <int N> AX_SIM void ax_copy_wait(AX_AT) {
  ax_sim_do(AX_COPY_WAIT, line, N);
}

// ---- device/matrix.cuh ----

#define AX_MATRICES(count)                                                    \
  AX_SIM void ax_ldmatrix_##count(unsigned *r, unsigned row, AX_AT) {         \
    ax_sim_at(AX_LDMATRIX, line, r, row, count, 0);                           \
  }                                                                           \
  AX_SIM void ax_ldmatrix_##count##_trans(unsigned *r, unsigned row, AX_AT) { \
    ax_sim_at(AX_LDMATRIX, line, r, row, count, 1);                           \
  }                                                                           \
  AX_SIM void ax_stmatrix_##count(unsigned row, const unsigned *r, AX_AT) {   \
    ax_sim_at(AX_STMATRIX, line, r, row, count, 0);                           \
  }                                                                           \
  AX_SIM void ax_stmatrix_##count##_trans(unsigned row, const unsigned *r,    \
                                          AX_AT) {                            \
    ax_sim_at(AX_STMATRIX, line, r, row, count, 1);                           \
  }
AX_MATRICES(1)
AX_MATRICES(2)
AX_MATRICES(4)
#undef AX_MATRICES
#define AX_MMA_OP(name, type, k)                                            \
  AX_SIM void ax_mma_##name(float *d, const unsigned *a, const unsigned *b, \
                            AX_AT) {                                        \
    AxCall c = ax_sim_args(line, type, k);                                  \
    c.p[0] = d;                                                             \
    c.p[1] = a;                                                             \
    c.p[2] = b;                                                             \
    ax_sim_call(AX_MMA, c);                                                 \
  }
AX_MMA_OP(m16n8k16_f16, AX_F16, 16)
AX_MMA_OP(m16n8k16_bf16, AX_BF16, 16)
AX_MMA_OP(m16n8k32_e4m3, AX_E4M3, 32)
AX_MMA_OP(m16n8k32_e5m2, AX_E5M2, 32)
AX_MMA_OP(m16n8k8_f16, AX_F16, 8)
AX_MMA_OP(m16n8k8_tf32, AX_TF32, 8)
#undef AX_MMA_OP

// ---- device/convert.cuh ----

AX_SIM float ax_f16_to_f32(uint16_t h) {
  return (float)ax_sim_table->from_f16(h);
}
AX_SIM uint16_t ax_f32_to_f16(float x) {
  return ax_sim_table->to_f16(x);
}
AX_SIM float ax_bf16_to_f32(uint16_t h) {
  return __uint_as_float((unsigned)h << 16);
}
AX_SIM uint16_t ax_f32_to_bf16(float x) {
  unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// 8-bit floats: M fraction bits, the smallest power of a normal number, the
// bits of infinity or of the greatest number, and those of NaN.
template <int M, int LEAST, int TOP, int NOT_A_NUMBER>
AX_SIM float ax_sim_from_f8(uint8_t h) {
  const int size = h & 0x7f, e = size >> M, m = size & ((1 << M) - 1);
  if (size > TOP)
    return __uint_as_float(0x7fc00000u);
  float x = e ? ldexpf((float)((1 << M) + m), e - 1 + LEAST - M)
              : ldexpf((float)m, LEAST - M);
  if (size == TOP && !m)
    x = __uint_as_float(0x7f800000u);
  return h & 0x80 ? -x : x;
}
template <int M, int LEAST, int TOP, int NOT_A_NUMBER>
AX_SIM uint8_t ax_sim_to_f8(float x) {
  const int sign = (int)(__float_as_uint(x) >> 24 & 0x80);
  const float size = fabsf(x);
  int e, at = TOP;
  if (x != x)
    return NOT_A_NUMBER;
  if (size < 1e6f) {
    __builtin_frexpf(size, &e);
    e = size > 0 && e - 1 > LEAST ? e - 1 : LEAST;
    at = ((e - LEAST) << M) + (int)nearbyintf(ldexpf(size, M - e));
  }
  return (uint8_t)((at < TOP ? at : TOP) | sign);
}
AX_SIM float ax_f8_e4m3_to_f32(uint8_t h) {
  return ax_sim_from_f8<3, -6, 0x7e, 0x7f>(h);
}
AX_SIM uint8_t ax_f32_to_f8_e4m3(float x) {
  return ax_sim_to_f8<3, -6, 0x7e, 0x7f>(x);
}
AX_SIM float ax_f8_e5m2_to_f32(uint8_t h) {
  return ax_sim_from_f8<2, -14, 0x7c, 0x7e>(h);
}
AX_SIM uint8_t ax_f32_to_f8_e5m2(float x) {
  return ax_sim_to_f8<2, -14, 0x7c, 0x7e>(x);
}
AX_SIM float ax_f4_e2m1_to_f32(uint8_t h) {
  const int size = h & 7;
  const float x = size < 4 ? (float)size / 2 : (float)(size < 7 ? size - 2 : 6);
  return h & 8 ? -x : x;
}
AX_SIM uint8_t ax_f32_to_f4_e2m1(float x) {
  const float size = fabsf(x);
  const int at = size <= 2   ? (int)nearbyintf(2 * size)
                 : size <= 4 ? 2 + (int)nearbyintf(size)
                             : 4 + (int)nearbyintf(fminf(size, 6) / 2);
  return (uint8_t)(x == x ? at | (int)(__float_as_uint(x) >> 28 & 8) : 7);
}
AX_SIM unsigned ax_pack_f4_e2m1(uint2 codes) {
  unsigned to = 0;
  for (int i = 0; i < 8; i++) {
    const unsigned code = (i < 4 ? codes.x : codes.y) >> i % 4 * 8 & 0xf;
    to |= code << 4 * i;
  }
  return to;
}
AX_SIM float ax_f8_e8m0_to_f32(uint8_t h) {
  return h == 255 ? __uint_as_float(0x7fc00000u) : ldexpf(1, h - 127);
}
AX_SIM uint8_t ax_f32_to_f8_e8m0(float x) {
  int e;
  if (x != x)
    return 255;
  if (x <= 0x1p-127f || x >= 0x1p127f)
    return x <= 0x1p-127f ? 0 : 254;
  const float m = __builtin_frexpf(x, &e);
  return (uint8_t)(e + 126 + (m >= 0.75f));
}
AX_SIM unsigned ax_pack_f16(float low, float high) {
  return (unsigned)ax_f32_to_f16(high) << 16 | ax_f32_to_f16(low);
}
AX_SIM unsigned ax_pack_bf16(float low, float high) {
  return (unsigned)ax_f32_to_bf16(high) << 16 | ax_f32_to_bf16(low);
}
AX_SIM uint16_t ax_low(unsigned v) {
  return (uint16_t)v;
}
AX_SIM uint16_t ax_high(unsigned v) {
  return (uint16_t)(v >> 16);
}
AX_SIM unsigned ax_tf32(float x) {
  unsigned bits = __float_as_uint(x);
  return (bits & 0x7fffffff) >= 0x7f800000 ? bits & 0xffffe000
                                           : (bits + 0x1000) & 0xffffe000;
}
AX_SIM float ax_exp2(float x) {
  return exp2f(x);
}
AX_SIM float ax_log2(float x) {
  return log2f(x);
}
AX_SIM float ax_reciprocal(float x) {
  return 1.0f / x;
}
AX_SIM float ax_rsqrt(float x) {
  return 1.0f / sqrtf(x);
}
AX_SIM float ax_tanh(float x) {
  return tanhf(x);
}

// ---- device/async.cuh ----

AX_SIM void ax_fence_async(AX_AT) {
  ax_sim_do(AX_FENCE_ASYNC, line);
}
AX_SIM void ax_fence_mbarrier_init(AX_AT) {
  ax_sim_do(AX_FENCE_INIT, line);
}
AX_SIM void ax_mbarrier_init(unsigned bar, unsigned count, AX_AT) {
  ax_sim_do(AX_MBARRIER_INIT, line, bar, count);
}
AX_SIM void ax_mbarrier_arrive(unsigned bar, AX_AT) {
  ax_sim_do(AX_MBARRIER_ARRIVE, line, bar);
}
AX_SIM void ax_mbarrier_expect(unsigned bar, unsigned bytes, AX_AT) {
  ax_sim_do(AX_MBARRIER_ARRIVE, line, bar, bytes);
}
AX_SIM void ax_mbarrier_arrive_at(unsigned bar, unsigned rank, AX_AT) {
  ax_sim_do(AX_MBARRIER_ARRIVE, line, bar, 0, rank, 1);
}
AX_SIM bool ax_mbarrier_try(unsigned bar, unsigned parity, AX_AT) {
  return ax_sim_do(AX_MBARRIER_TRY, line, bar, parity);
}
AX_SIM void ax_mbarrier_wait(unsigned bar, unsigned parity, AX_AT) {
  ax_sim_do(AX_MBARRIER_WAIT, line, bar, parity);
}
AX_SIM unsigned ax_cluster_rank(AX_AT) {
  return (unsigned)ax_sim_do(AX_CLUSTER_RANK, line);
}
AX_SIM unsigned ax_cluster_blocks(AX_AT) {
  return (unsigned)ax_sim_do(AX_CLUSTER_BLOCKS, line);
}
AX_SIM void ax_cluster_arrive(AX_AT) {
  ax_sim_do(AX_CLUSTER_ARRIVE, line);
}
AX_SIM void ax_cluster_wait(AX_AT) {
  ax_sim_do(AX_CLUSTER_WAIT, line);
}
AX_SIM void ax_cluster_sync(AX_AT) {
  ax_sim_do(AX_CLUSTER_ARRIVE, line);
  ax_sim_do(AX_CLUSTER_WAIT, line);
}
AX_SIM void ax_cluster_begin(AX_AT) {
  ax_sim_do(AX_CLUSTER_ARRIVE, line, 1);
  ax_sim_do(AX_CLUSTER_WAIT, line);
}
AX_SIM unsigned ax_cluster_load_4(unsigned address, unsigned rank, AX_AT) {
  return (unsigned)ax_sim_do(AX_CLUSTER_LOAD, line, address, rank);
}
AX_SIM void ax_bulk_load(unsigned to, const void *from, unsigned bytes,
                         unsigned bar, AX_AT) {
  ax_sim_at(AX_BULK_LOAD, line, from, to, bytes, bar);
}
AX_SIM void ax_bulk_store(void *to, unsigned from, unsigned bytes, AX_AT) {
  ax_sim_at(AX_BULK_STORE, line, to, from, bytes);
}

// ---- device/tma.cuh ----

struct __align__(64) ax_tensor_map {
  unsigned long long opaque[16];
};
AX_SIM void ax_tma_prefetch(const ax_tensor_map *map, AX_AT) {
  ax_sim_at(AX_TMA_PREFETCH, line, map);
}
template <int D
> AX_SIM void ax_sim_box(int op, unsigned at, const ax_tensor_map *map,
                         unsigned bar, unsigned blocks, const int (&c)[D],
                         int line, bool pair = false) {
  AxCall call = ax_sim_args(line, at, bar, blocks, D);
  call.n[5] = pair;
  call.p[0] = map;
  call.p[1] = c;
  ax_sim_call(op, call);
}
#define AX_IS(...) __VA_ARGS__
#define AX_TMA(D, COORDINATES, NAMES)                                     \
  AX_SIM void ax_tma_load_##D(unsigned to, const ax_tensor_map *map,      \
                              unsigned bar, AX_IS COORDINATES, AX_AT)     \
  { ax_sim_box(AX_TMA_LOAD, to, map, bar, 0, {AX_IS NAMES}, line); }      \
  AX_SIM void ax_tma_pair_##D(unsigned to, const ax_tensor_map *map,      \
                              unsigned bar, AX_IS COORDINATES, AX_AT)     \
  { ax_sim_box(AX_TMA_LOAD, to, map, bar, 0, {AX_IS NAMES}, line, true); } \
  AX_SIM void ax_tma_cast_##D(unsigned to, const ax_tensor_map *map,      \
                              unsigned bar, unsigned blocks,              \
                              AX_IS COORDINATES, AX_AT)                   \
  { ax_sim_box(AX_TMA_LOAD, to, map, bar, blocks, {AX_IS NAMES}, line); } \
  AX_SIM void ax_tma_store_##D(const ax_tensor_map *map, unsigned from,   \
                               AX_IS COORDINATES, AX_AT)                  \
  { ax_sim_box(AX_TMA_STORE, from, map, 0, 0, {AX_IS NAMES}, line); }
AX_TMA(1d, (int a), (a))
AX_TMA(2d, (int a, int b), (a, b))
AX_TMA(3d, (int a, int b, int c), (a, b, c))
AX_TMA(4d, (int a, int b, int c, int d), (a, b, c, d))
AX_TMA(5d, (int a, int b, int c, int d, int e), (a, b, c, d, e))
#undef AX_TMA
#define AX_PIXELS(D, COORDINATES, NAMES)                                     \
  AX_SIM void ax_tma_pixels_##D##d(unsigned to, const ax_tensor_map *map,    \
                                   unsigned bar, AX_IS COORDINATES, AX_AT) { \
    const int at[] = {AX_IS NAMES};                                          \
    AxCall call = ax_sim_args(line, to, bar, 0, D);                          \
    call.n[4] = 1;                                                           \
    call.p[0] = map;                                                         \
    call.p[1] = at;                                                          \
    ax_sim_call(AX_TMA_LOAD, call);                                          \
  }
AX_PIXELS(3, (int c, int w, int n, int x), (c, w, n, x))
AX_PIXELS(4, (int c, int w, int h, int n, int x, int y), (c, w, h, n, x, y))
AX_PIXELS(5, (int c, int w, int h, int d, int n, int x, int y, int z),
          (c, w, h, d, n, x, y, z))
#undef AX_PIXELS
#undef AX_IS
AX_SIM void ax_tma_commit(AX_AT) {
  ax_sim_do(AX_TMA_COMMIT, line);
}
template <int N> AX_SIM void ax_tma_wait_read(AX_AT) {
  ax_sim_do(AX_TMA_WAIT, line, N, 1);
}
template <int N> AX_SIM void ax_tma_wait(AX_AT) {
  ax_sim_do(AX_TMA_WAIT, line, N, 0);
}

// ---- device/wgmma.cuh, and wgmma functions ----

AX_SIM unsigned long long ax_wgmma_descriptor(unsigned address,
                                              unsigned leading, unsigned stride,
                                              unsigned swizzle, AX_AT) {
  if ((address | leading | stride) & 15 || swizzle > 3)
    ax_sim_at(AX_TRAP, line, "a descriptor of what is no multiple of 16");
  return (unsigned long long)(address >> 4 & 0x3fff) |
         (unsigned long long)(leading >> 4 & 0x3fff) << 16 |
         (unsigned long long)(stride >> 4 & 0x3fff) << 32 |
         (unsigned long long)swizzle << 62;
}
template <int R> AX_SIM void ax_hold(float (&d)[R], AX_AT) {
  ax_sim_at(AX_HOLD, line, d, R);
}
AX_SIM void ax_wgmma_fence(AX_AT) {
  ax_sim_do(AX_WGMMA_FENCE, line);
}
AX_SIM void ax_wgmma_commit(AX_AT) {
  ax_sim_do(AX_WGMMA_COMMIT, line);
}
template <int N> AX_SIM void ax_wgmma_wait(AX_AT) {
  ax_sim_do(AX_WGMMA_WAIT, line, N);
}
AX_SIM void ax_sim_product(int type, int columns, float *d, uint64_t a,
                           const unsigned *registers, uint64_t b, bool add,
                           int turned_a, int turned_b, int line) {
  AxCall c = {line,
              {(uint64_t)type, (uint64_t)columns, a, b, add, (uint64_t)turned_a,
               (uint64_t)turned_b},
              {d, registers},
              0};
  ax_sim_call(AX_WGMMA, c);
}
#define AX_PRODUCT_16(n, name, type)                                      \
  template <int TRANS_A, int TRANS_B>                                     \
  AX_SIM void ax_wgmma_m64n##n##k16_##name(float(&d)[n / 2], uint64_t a,  \
                                           uint64_t b, bool add, AX_AT) { \
    static_assert(TRANS_A >> 1 == 0 && TRANS_B >> 1 == 0, "0 or 1");      \
    ax_sim_product(type, n, d, a, 0, b, add, TRANS_A, TRANS_B, line);     \
  }                                                                       \
  template <int TRANS_B>                                                  \
  AX_SIM void ax_wgmma_m64n##n##k16_##name##_ra(                          \
      float(&d)[n / 2], const unsigned *a, uint64_t b, bool add, AX_AT) { \
    static_assert(TRANS_B >> 1 == 0, "0 or 1");                           \
    ax_sim_product(type, n, d, 0, a, b, add, 0, TRANS_B, line);           \
  }
#define AX_PRODUCTS(n)                                                    \
  AX_PRODUCT_16(n, f16, AX_F16)                                           \
  AX_PRODUCT_16(n, bf16, AX_BF16)                                         \
  AX_PRODUCT_32(n, e4m3, AX_E4M3)                                         \
  AX_PRODUCT_32(n, e5m2, AX_E5M2)                                         \
  AX_SIM void ax_wgmma_m64n##n##k8_tf32(float(&d)[n / 2], uint64_t a,     \
                                        uint64_t b, bool add, AX_AT) {    \
    ax_sim_product(AX_TF32, n, d, a, 0, b, add, 0, 0, line);              \
  }                                                                       \
  AX_SIM void ax_wgmma_m64n##n##k8_tf32_ra(                               \
      float(&d)[n / 2], const unsigned *a, uint64_t b, bool add, AX_AT) { \
    ax_sim_product(AX_TF32, n, d, 0, a, b, add, 0, 0, line);              \
  }
#define AX_PRODUCT_32(n, name, type)                                    \
  AX_SIM void ax_wgmma_m64n##n##k32_##name(float(&d)[n / 2], uint64_t a, \
                                           uint64_t b, bool add, AX_AT) { \
    ax_sim_product(type, n, d, a, 0, b, add, 0, 0, line);                 \
  }
#define AX_PRODUCTS_4(a, b, c, d) \
  AX_PRODUCTS(a) AX_PRODUCTS(b) AX_PRODUCTS(c) AX_PRODUCTS(d)
AX_PRODUCTS_4(8, 16, 24, 32)
AX_PRODUCTS_4(40, 48, 56, 64)
AX_PRODUCTS_4(72, 80, 88, 96)
AX_PRODUCTS_4(104, 112, 120, 128)
AX_PRODUCTS_4(136, 144, 152, 160)
AX_PRODUCTS_4(168, 176, 184, 192)
AX_PRODUCTS_4(200, 208, 216, 224)
AX_PRODUCTS_4(232, 240, 248, 256)
#undef AX_PRODUCTS_4
#undef AX_PRODUCT_32
#undef AX_PRODUCTS
#undef AX_PRODUCT_16

// ---- device/tcgen05.cuh ----

AX_SIM void ax_tmem_alloc(unsigned to, unsigned columns, AX_AT) {
  ax_sim_do(AX_TMEM_ALLOC, line, to, columns);
}
AX_SIM void ax_tmem_permit(AX_AT) {
  ax_sim_do(AX_TMEM_PERMIT, line);
}
AX_SIM void ax_tmem_free(unsigned address, unsigned columns, AX_AT) {
  ax_sim_do(AX_TMEM_FREE, line, address, columns);
}
AX_SIM void ax_tmem_pair_alloc(unsigned to, unsigned columns, AX_AT) {
  ax_sim_do(AX_TMEM_ALLOC, line, to, columns, 1);
}
AX_SIM void ax_tmem_pair_permit(AX_AT) {
  ax_sim_do(AX_TMEM_PERMIT, line, 1);
}
AX_SIM void ax_tmem_pair_free(unsigned address, unsigned columns, AX_AT) {
  ax_sim_do(AX_TMEM_FREE, line, address, columns, 1);
}
AX_SIM void ax_tcgen05_fence_before(AX_AT) {
  ax_sim_do(AX_TCGEN05_FENCE, line, 0);
}
AX_SIM void ax_tcgen05_fence_after(AX_AT) {
  ax_sim_do(AX_TCGEN05_FENCE, line, 1);
}
AX_SIM unsigned long long ax_tcgen05_descriptor(unsigned address,
                                                unsigned leading,
                                                unsigned stride,
                                                unsigned swizzle, AX_AT) {
  if ((address | leading | stride) & 15 || swizzle > 7)
    ax_sim_at(AX_TRAP, line, "a descriptor of what is no multiple of 16");
  return (unsigned long long)(address >> 4 & 0x3fff) |
         (unsigned long long)(leading >> 4 & 0x3fff) << 16 |
         (unsigned long long)(stride >> 4 & 0x3fff) << 32 | 1ull << 46 |
         (unsigned long long)swizzle << 61;
}
#define AX_TCGEN05_MMA_OF(name, kind, pair)                                 \
  AX_SIM void ax_tcgen05_##name(unsigned d, uint64_t a, uint64_t b,         \
                                unsigned instruction, bool add, AX_AT) {    \
    AxCall c = {line, {kind, d, a, b, instruction, add, pair}, {}, 0};      \
    ax_sim_call(AX_TCGEN05_MMA, c);                                         \
  }
AX_TCGEN05_MMA_OF(mma_f16, AX_KIND_F16, 0)
AX_TCGEN05_MMA_OF(mma_tf32, AX_KIND_TF32, 0)
AX_TCGEN05_MMA_OF(mma_f8, AX_KIND_F8, 0)
AX_TCGEN05_MMA_OF(pair_mma_f16, AX_KIND_F16, 1)
AX_TCGEN05_MMA_OF(pair_mma_tf32, AX_KIND_TF32, 1)
AX_TCGEN05_MMA_OF(pair_mma_f8, AX_KIND_F8, 1)
#undef AX_TCGEN05_MMA_OF
#define AX_TCGEN05_SCALED_MMA_OF(name, kind)                                   \
  AX_SIM void ax_tcgen05_mma_##name(                                           \
      unsigned d, uint64_t a, uint64_t b, unsigned instruction,                \
      unsigned scales_a, unsigned scales_b, bool add, AX_AT) {                 \
    AxCall c = {line,                                                          \
                {kind, d, a, b, instruction, add, 0,                           \
                 scales_a | (uint64_t)scales_b << 32},                         \
                {},                                                            \
                0};                                                            \
    ax_sim_call(AX_TCGEN05_MMA, c);                                            \
  }
AX_TCGEN05_SCALED_MMA_OF(mxf4, AX_KIND_MXF4)
AX_TCGEN05_SCALED_MMA_OF(nvf4, AX_KIND_NVF4)
#undef AX_TCGEN05_SCALED_MMA_OF
AX_SIM void ax_tcgen05_copy_scales(unsigned to, uint64_t from, AX_AT) {
  ax_sim_do(AX_TCGEN05_COPY, line, to, from);
}
AX_SIM void ax_tcgen05_mma_f16_ta(unsigned d, unsigned a, uint64_t b,
                                  unsigned instruction, bool add, AX_AT) {
  AxCall c = {line, {AX_KIND_F16, d, a, b, instruction, add, 0, 1}, {}, 0};
  ax_sim_call(AX_TCGEN05_MMA, c);
}
AX_SIM void ax_tcgen05_commit(unsigned bar, AX_AT) {
  ax_sim_do(AX_TCGEN05_COMMIT, line, bar);
}
AX_SIM void ax_tcgen05_commit_cast(unsigned bar, unsigned blocks, AX_AT) {
  ax_sim_do(AX_TCGEN05_COMMIT, line, bar, blocks & 0xffff);
}
AX_SIM void ax_tcgen05_pair_commit(unsigned bar, unsigned blocks, AX_AT) {
  ax_sim_do(AX_TCGEN05_COMMIT, line, bar, blocks & 0xffff, 1);
}
#define AX_TMEM_ACCESSES(times)                                            \
  AX_SIM void ax_tmem_load_x##times(float *d, unsigned address, AX_AT) {    \
    ax_sim_at(AX_TMEM_LOAD, line, d, address, 8 * times);                   \
  }                                                                         \
  AX_SIM void ax_tmem_store_x##times(const float *d, unsigned address,      \
                                     AX_AT) {                               \
    ax_sim_at(AX_TMEM_STORE, line, d, address, 8 * times);                  \
  }                                                                         \
  AX_SIM void ax_tmem_store_pairs_x##times(const unsigned *d,               \
                                           unsigned address, AX_AT) {       \
    ax_sim_at(AX_TMEM_STORE, line, d, address, 4 * times, 1);               \
  }
AX_TMEM_ACCESSES(1)
AX_TMEM_ACCESSES(2)
AX_TMEM_ACCESSES(4)
AX_TMEM_ACCESSES(8)
AX_TMEM_ACCESSES(16)
#undef AX_TMEM_ACCESSES
AX_SIM void ax_tmem_wait_load(AX_AT) {
  ax_sim_do(AX_TMEM_WAIT, line, 0);
}
AX_SIM void ax_tmem_wait_store(AX_AT) {
  ax_sim_do(AX_TMEM_WAIT, line, 1);
}

// ---- register arrays passed by address ----

// Reads the last register of an array, so that the compiler checks the size of
// the array.
template <typename T> AX_SIM void ax_sim_touch(T) {}
#define AX_SIM_HAS(r, count) ax_sim_touch((r)[(count) - 1])
#define AX_SIM_LOAD(name, count, r, ...) \
  (AX_SIM_HAS(r, count), name(r, __VA_ARGS__))
#define ax_ldmatrix_1(...) AX_SIM_LOAD(ax_ldmatrix_1, 1, __VA_ARGS__)
#define ax_ldmatrix_2(...) AX_SIM_LOAD(ax_ldmatrix_2, 2, __VA_ARGS__)
#define ax_ldmatrix_4(...) AX_SIM_LOAD(ax_ldmatrix_4, 4, __VA_ARGS__)
#define ax_ldmatrix_1_trans(...) \
  AX_SIM_LOAD(ax_ldmatrix_1_trans, 1, __VA_ARGS__)
#define ax_ldmatrix_2_trans(...) \
  AX_SIM_LOAD(ax_ldmatrix_2_trans, 2, __VA_ARGS__)
#define ax_ldmatrix_4_trans(...) \
  AX_SIM_LOAD(ax_ldmatrix_4_trans, 4, __VA_ARGS__)
#define AX_SIM_MMA(name, of_a, of_b, d, a, b)                         \
  (AX_SIM_HAS(d, 4), AX_SIM_HAS(a, of_a), AX_SIM_HAS(b, of_b), \
   name(d, a, b))
#define ax_mma_m16n8k16_f16(d, a, b) \
  AX_SIM_MMA(ax_mma_m16n8k16_f16, 4, 2, d, a, b)
#define ax_mma_m16n8k16_bf16(d, a, b) \
  AX_SIM_MMA(ax_mma_m16n8k16_bf16, 4, 2, d, a, b)
#define ax_mma_m16n8k32_e4m3(d, a, b) \
  AX_SIM_MMA(ax_mma_m16n8k32_e4m3, 4, 2, d, a, b)
#define ax_mma_m16n8k32_e5m2(d, a, b) \
  AX_SIM_MMA(ax_mma_m16n8k32_e5m2, 4, 2, d, a, b)
#define ax_mma_m16n8k8_f16(d, a, b) \
  AX_SIM_MMA(ax_mma_m16n8k8_f16, 2, 1, d, a, b)
#define ax_mma_m16n8k8_tf32(d, a, b) \
  AX_SIM_MMA(ax_mma_m16n8k8_tf32, 4, 2, d, a, b)
#define ax_tmem_load_x1(...) AX_SIM_LOAD(ax_tmem_load_x1, 4, __VA_ARGS__)
#define ax_tmem_load_x2(...) AX_SIM_LOAD(ax_tmem_load_x2, 8, __VA_ARGS__)
#define ax_tmem_load_x4(...) AX_SIM_LOAD(ax_tmem_load_x4, 16, __VA_ARGS__)
#define ax_tmem_load_x8(...) AX_SIM_LOAD(ax_tmem_load_x8, 32, __VA_ARGS__)
#define ax_tmem_load_x16(...) AX_SIM_LOAD(ax_tmem_load_x16, 64, __VA_ARGS__)
#define ax_tmem_store_x1(...) AX_SIM_LOAD(ax_tmem_store_x1, 4, __VA_ARGS__)
#define ax_tmem_store_x2(...) AX_SIM_LOAD(ax_tmem_store_x2, 8, __VA_ARGS__)
#define ax_tmem_store_x4(...) AX_SIM_LOAD(ax_tmem_store_x4, 16, __VA_ARGS__)
#define ax_tmem_store_x8(...) AX_SIM_LOAD(ax_tmem_store_x8, 32, __VA_ARGS__)
#define ax_tmem_store_x16(...) AX_SIM_LOAD(ax_tmem_store_x16, 64, __VA_ARGS__)
#define ax_tmem_store_pairs_x1(...) \
  AX_SIM_LOAD(ax_tmem_store_pairs_x1, 2, __VA_ARGS__)
#define ax_tmem_store_pairs_x2(...) \
  AX_SIM_LOAD(ax_tmem_store_pairs_x2, 4, __VA_ARGS__)
#define ax_tmem_store_pairs_x4(...) \
  AX_SIM_LOAD(ax_tmem_store_pairs_x4, 8, __VA_ARGS__)
#define ax_tmem_store_pairs_x8(...) \
  AX_SIM_LOAD(ax_tmem_store_pairs_x8, 16, __VA_ARGS__)
#define ax_tmem_store_pairs_x16(...) \
  AX_SIM_LOAD(ax_tmem_store_pairs_x16, 32, __VA_ARGS__)

template <typename A>
AX_SIM void ax_sim_kernel(void (*kernel)(A), const void *args) {
  kernel(*(const A *)args);
}

#endif
