//@ ax_pack_f16
/* 9.7.9.21, cvt: packs two numbers into a register; `low` is in the low
 * half. */
AX_DEVICE unsigned ax_pack_f16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned v;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
#else
  unsigned short a, b;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(low));
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(high));
  return (unsigned)b << 16 | a;
#endif
}

//@ ax_f8_e4m3_to_f32 ax_f32_to_f8_e4m3
/* 9.7.9.21, cvt: from sm_89 on, pairs of 8-bit floats.  The instruction keeps
 * infinity and numbers beyond 448 at 448.  NaN becomes 0x7f. */
AX_DEVICE float ax_f8_e4m3_to_f32(unsigned char h) {
#if __CUDA_ARCH__ >= 890
  unsigned pair;
  float v;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)h));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)pair));
  return v;
#else
  const unsigned size = h & 0x7fu, sign = (h & 0x80u) << 24;
  const float tiny = (float)size * 0x1p-9f;
  const unsigned rest = size < 8   ? __float_as_uint(tiny)
                        : size < 127 ? (size << 20) + (120u << 23)
                                     : 0x7fc00000u;
  return __uint_as_float(size < 127 ? rest | sign : rest);
#endif
}
AX_DEVICE unsigned char ax_f32_to_f8_e4m3(float x) {
#if __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(pair)
      : "f"(0.0f), "f"(x));
  return x == x ? (unsigned char)pair : 0x7f;
#else
  const unsigned u = __float_as_uint(x), a = u & 0x7fffffffu;
  const float sum = __uint_as_float(a) + 0x1p14f;
  const unsigned size =
      a >= 0x43e00000u ? 0x7e
      : a < 121u << 23 ? __float_as_uint(sum) - (141u << 23)
                       : (a - (120u << 23) + 0x7ffff + (a >> 20 & 1)) >> 20;
  return x == x ? (unsigned char)(size | (u >> 24 & 0x80)) : 0x7f;
#endif
}

//@ ax_f8_e5m2_to_f32 ax_f32_to_f8_e5m2
/* The instruction keeps infinity at the greatest number, which is not wanted:
 * from 61440 on, halfway to the next power of two, numbers become infinity.
 * NaN becomes 0x7e. */
AX_DEVICE float ax_f8_e5m2_to_f32(unsigned char h) {
  const unsigned short bits = (unsigned short)(h << 8); /* as f16 */
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
AX_DEVICE unsigned char ax_f32_to_f8_e5m2(float x) {
  const unsigned u = __float_as_uint(x), a = u & 0x7fffffffu;
#if __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
      : "=h"(pair)
      : "f"(0.0f), "f"(x));
  const unsigned size = pair & 0x7fu;
#else
  const float sum = __uint_as_float(a) + 0x1p7f;
  const unsigned size = a < 113u << 23
                            ? __float_as_uint(sum) - (134u << 23)
                            : (a - (112u << 23) + 0xfffff + (a >> 21 & 1)) >> 21;
#endif
  const unsigned near = a < 0x47700000u ? size : 0x7c;
  return x == x ? (unsigned char)(near | (u >> 24 & 0x80)) : 0x7e;
}

//@ ax_f4_e2m1_to_f32 ax_f32_to_f4_e2m1
/* 9.7.9.21, cvt: from sm_100a on, pairs of 4-bit floats in a byte.  The
 * instruction keeps infinity and numbers beyond 6 at 6; NaN becomes 6. */
AX_DEVICE float ax_f4_e2m1_to_f32(unsigned char h) {
  const unsigned size = h & 7u, sign = (h & 8u) << 28;
  const unsigned rest = size > 1 ? (size << 22) + (126u << 23)
                                 : size * (126u << 23);
  return __uint_as_float(rest | sign);
}
AX_DEVICE unsigned char ax_f32_to_f4_e2m1(float x) {
#if defined __CUDA_ARCH_FEAT_SM100_ALL
  unsigned pair;
  asm("{\n.reg .b8 pair;\n"
      "cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2;\n"
      "cvt.u32.u8 %0, pair;\n}"
      : "=r"(pair)
      : "f"(0.0f), "f"(x));
  return (unsigned char)(pair & 15u);
#else
  const unsigned u = __float_as_uint(x), a = u & 0x7fffffffu;
  const float sum = __uint_as_float(a) + 0x1p22f;
  const unsigned size =
      a >= 0x40c00000u ? 7
      : a < 127u << 23 ? __float_as_uint(sum) - (149u << 23)
                       : (a - (126u << 23) + 0x1fffff + (a >> 22 & 1)) >> 22;
  return x == x ? (unsigned char)(size | (u >> 28 & 8)) : 7;
#endif
}

//@ ax_pack_f4_e2m1
/* Eight 4-bit floats, one in the low half of each byte, as 32 bits. */
AX_DEVICE unsigned ax_pack_f4_e2m1(uint2 codes) {
  const unsigned x = codes.x & 0x0f0f0f0fu, y = codes.y & 0x0f0f0f0fu;
  const unsigned low = x | x >> 4, high = y | y >> 4;
  return (low & 0xffu) | (low >> 8 & 0xff00u) | (high & 0xffu) << 16 |
         (high << 8 & 0xff000000u);
}

//@ ax_f8_e8m0_to_f32 ax_f32_to_f8_e8m0
/* Powers of two.  The instructions do not round to nearest. */
AX_DEVICE float ax_f8_e8m0_to_f32(unsigned char h) {
  return __uint_as_float(h == 0     ? 0x400000u
                         : h == 255 ? 0x7fc00000u
                                    : (unsigned)h << 23);
}
AX_DEVICE unsigned char ax_f32_to_f8_e8m0(float x) {
  const unsigned a = x > 0 ? __float_as_uint(x) : 0;
  const unsigned power = a >= 254u << 23 ? 254
                         : a < 1u << 23  ? a >= 0x600000u
                                         : (a + 0x400000u) >> 23;
  return x == x ? (unsigned char)power : 255;
}

//@ ax_f16_to_f32 ax_f32_to_f16
AX_DEVICE float ax_f16_to_f32(unsigned short h) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
}
AX_DEVICE unsigned short ax_f32_to_f16(float x) {
  unsigned short v;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(x));
  return v;
}

//@ ax_bf16_to_f32 ax_f32_to_bf16
/* sm_75 has no conversion to bf16; it is emulated: round to nearest, ties to
 * even.  From sm_80 on, one number is converted as a pair: ptxas maps the
 * conversion of one number to an instruction with a quarter of the
 * throughput. */
AX_DEVICE float ax_bf16_to_f32(unsigned short h) {
  return __uint_as_float((unsigned)h << 16);
}
AX_DEVICE unsigned short ax_f32_to_bf16(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(0.0f), "f"(x));
  return (unsigned short)v;
#else
  unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fff
                : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

//@ ax_pack_bf16
AX_DEVICE unsigned ax_pack_bf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
#else
  return (unsigned)ax_f32_to_bf16(high) << 16 | ax_f32_to_bf16(low);
#endif
}

//@ ax_low ax_high
/* The halves of a packed register. */
AX_DEVICE unsigned short ax_low(unsigned v) {
  return (unsigned short)v;
}
AX_DEVICE unsigned short ax_high(unsigned v) {
  return (unsigned short)(v >> 16);
}

//@ ax_tf32
/* Rounds to the nearest tf32, ties away from 0; the result has the format of
 * f32. */
#if __CUDA_ARCH__ < 800
#error "ax_tf32: tf32 is of sm_80 on"
#endif
AX_DEVICE unsigned ax_tf32(float x) {
  unsigned v;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v) : "f"(x));
  return v;
}

//@ ax_exp2 ax_log2 ax_reciprocal ax_rsqrt
/* 9.7.3: approximations by the special function unit.  The error is about 2
 * ulp (ax_log2: less near 1).  Subnormals are flushed to 0. */
AX_DEVICE float ax_exp2(float x) {
  float v;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}
AX_DEVICE float ax_log2(float x) {
  float v;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}
AX_DEVICE float ax_reciprocal(float x) {
  float v;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}
AX_DEVICE float ax_rsqrt(float x) {
  float v;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

//@ ax_tanh
/* 9.7.4.9, tanh.approx: the relative error is about 2^-11. */
AX_DEVICE float ax_tanh(float x) {
  float v;
  asm("tanh.approx.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}
