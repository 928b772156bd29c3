/* What wrappers give: each kernel writes numbers that tests/unit/sim_test.c
 * knows.  Where elements lie is written here once more, as the manual's figures
 * have it. */
struct wrapped_args {
  const float *in;
  float *out;
  int n;
  ax_tensor_map map;
};
#define T ((int)threadIdx.x)
#define AT(row, column) ((row) * 7 % 5 + (column) * 3 % 4 - 2)

/* ---- memory ---- */

KERNEL(accesses) {
  ax_store_16(a.out + T * 4, ax_load_16(a.in + T * 4));
  ax_store_16_once(a.out + 512 + T * 4, ax_load_16_once(a.in + T * 4));
  ax_store_8(a.out + 1024 + T * 2, ax_load_8(a.in + T * 2));
  ax_store_8_once(a.out + 1280 + T * 2, ax_load_8_once(a.in + T * 2));
  ax_store_4(a.out + 1536 + T, ax_load_4(a.in + T));
  ax_store_4_once(a.out + 1664 + T, ax_load_4_once(a.in + T));
}
KERNEL(copied) { /* the first bytes, then zeros */
  unsigned char *s = ax_shared();
  unsigned at = ax_shared_address(s);
  ax_copy_16(at + T * 16, a.in + T * 4, (unsigned)T % 17);
  ax_copy_8(at + 2048 + T * 8, a.in + T * 2, (unsigned)T % 9);
  ax_copy_4(at + 3072 + T * 4, a.in + T, (unsigned)T % 5);
  ax_copy_commit();
  ax_copy_wait<0>();
  for (int i = 0; i < 16; i++)
    a.out[T * 16 + i] = s[T * 16 + i];
  for (int i = 0; i < 8; i++)
    a.out[2048 + T * 8 + i] = s[2048 + T * 8 + i];
  for (int i = 0; i < 4; i++)
    a.out[3072 + T * 4 + i] = s[3072 + T * 4 + i];
}
KERNEL(converted) {
  unsigned x = __float_as_uint(a.in[T]);
  float v = a.in[T];
  a.out[T] = ax_f16_to_f32(ax_f32_to_f16(v));
  a.out[128 + T] = ax_bf16_to_f32(ax_f32_to_bf16(v));
  a.out[256 + T] = ax_f16_to_f32(ax_low(ax_pack_f16(v, 1)));
  a.out[384 + T] = ax_bf16_to_f32(ax_high(ax_pack_bf16(1, v)));
  a.out[512 + T] = __uint_as_float(ax_tf32(v));
  a.out[640 + T] = ax_exp2((float)(T % 20 - 10));
  a.out[768 + T] = ax_log2(ax_exp2((float)(T % 20)));
  a.out[896 + T] = ax_reciprocal((float)(1 << T % 9));
  a.out[1024 + T] = ax_rsqrt((float)(1 << T % 5 * 2));
  a.out[1152 + T] = ax_tanh(0) + (float)(x * 0);
  a.out[1280 + T] = ax_f8_e4m3_to_f32(ax_f32_to_f8_e4m3(v));
  a.out[1408 + T] = ax_f8_e5m2_to_f32(ax_f32_to_f8_e5m2(v));
  a.out[1536 + T] = (float)ax_f32_to_f8_e4m3(v);
  a.out[1664 + T] = (float)ax_f32_to_f8_e5m2(v);
  a.out[1792 + T] = ax_f4_e2m1_to_f32(ax_f32_to_f4_e2m1(v));
  a.out[1920 + T] = ax_f8_e8m0_to_f32(ax_f32_to_f8_e8m0(v));
  a.out[2048 + T] = (float)ax_f32_to_f4_e2m1(v);
  a.out[2176 + T] = (float)ax_f32_to_f8_e8m0(v);
  a.out[2304 + T] = (float)ax_pack_f4_e2m1(
      make_uint2(0x5f6070a0u | (unsigned)T % 16,
                 0x9000b0c0u | (unsigned)T / 16 << 8));
}

/* ---- matrices of a warp ---- */

/* Figure 104 of ldmatrix: of each row of 8 a lane has two. */
KERNEL(stored) {
  uint16_t *s = (uint16_t *)ax_shared() + ax_warp() * 1024;
  unsigned at = ax_shared_address(s), r[4], q[4];
  int lane = (int)ax_lane();
  for (int k = 0; k < 4; k++) {
    int first = k * 64 + lane / 4 * 8 + lane % 4 * 2;
    r[k] = (unsigned)first | (unsigned)(first + 1) << 16;
  }
  ax_stmatrix_4(at + lane * 16, r);
  ax_stmatrix_4_trans(at + 512 + lane * 16, r);
  ax_stmatrix_2(at + 1024 + lane % 16 * 16, r + 1);
  ax_stmatrix_2_trans(at + 1280 + lane % 16 * 16, r + 2);
  ax_stmatrix_1(at + 1536 + lane % 8 * 16, r + 3);
  ax_stmatrix_1_trans(at + 1664 + lane % 8 * 16, r + 3);
  ax_sync_warp();
  bool good = true;
  for (int i = lane; i < 256; i += 32) {
    int turned = i / 64 * 64 + i % 8 * 8 + i / 8 % 8;
    good &= s[i] == i && s[256 + i] == turned;
    if (i < 128)
      good &= s[512 + i] == i + 64 && s[640 + i] == turned + 128;
    if (i < 64)
      good &= s[768 + i] == i + 192 && s[832 + i] == turned + 192;
  }
  ax_ldmatrix_4(q, at + lane * 16);
  good &= q[0] == r[0] && q[1] == r[1] && q[2] == r[2] && q[3] == r[3];
  ax_ldmatrix_4_trans(q, at + 512 + lane * 16);
  good &= q[0] == r[0] && q[1] == r[1] && q[2] == r[2] && q[3] == r[3];
  ax_ldmatrix_2(q, at + 1024 + lane % 16 * 16);
  good &= q[0] == r[1] && q[1] == r[2];
  ax_ldmatrix_2_trans(q, at + 1280 + lane % 16 * 16);
  good &= q[0] == r[2] && q[1] == r[3];
  ax_ldmatrix_1(q, at + 1536 + lane % 8 * 16);
  good &= q[0] == r[3];
  ax_ldmatrix_1_trans(q, at + 1664 + lane % 8 * 16);
  good &= q[0] == r[3];
  a.out[T] = good;
}

AX_DEVICE unsigned pair(bool bf16, int row, int column, int down) {
  float x = (float)AT(row, column);
  float y = (float)(down ? AT(row + 1, column) : AT(row, column + 1));
  return bf16 ? ax_pack_bf16(x, y) : ax_pack_f16(x, y);
}

/* Warps: f16 of k 16, bf16, f16 of k 8, tf32; 16 x 8 results each, to which 1
 * is added. */
KERNEL(multiplied) {
  int lane = (int)ax_lane(), g = lane / 4, t = lane % 4, warp = (int)ax_warp();
  float d[4] = {1, 1, 1, 1};
  if (warp < 2) {
    bool bf16 = warp == 1;
    unsigned x[4] = {pair(bf16, g, t * 2, 0), pair(bf16, g + 8, t * 2, 0),
                     pair(bf16, g, t * 2 + 8, 0),
                     pair(bf16, g + 8, t * 2 + 8, 0)};
    unsigned y[2] = {pair(bf16, t * 2, g, 1), pair(bf16, t * 2 + 8, g, 1)};
    if (bf16)
      ax_mma_m16n8k16_bf16(d, x, y);
    else
      ax_mma_m16n8k16_f16(d, x, y);
  } else if (warp == 2) {
    unsigned x[2] = {pair(false, g, t * 2, 0), pair(false, g + 8, t * 2, 0)};
    unsigned y[1] = {pair(false, t * 2, g, 1)};
    ax_mma_m16n8k8_f16(d, x, y);
  } else {
    unsigned x[4] = {ax_tf32((float)AT(g, t)), ax_tf32((float)AT(g + 8, t)),
                     ax_tf32((float)AT(g, t + 4)),
                     ax_tf32((float)AT(g + 8, t + 4))};
    unsigned y[2] = {ax_tf32((float)AT(t, g)), ax_tf32((float)AT(t + 4, g))};
    ax_mma_m16n8k8_tf32(d, x, y);
  }
  float *out = a.out + warp * 128;
  out[g * 8 + t * 2] = d[0];
  out[g * 8 + t * 2 + 1] = d[1];
  out[(g + 8) * 8 + t * 2] = d[2];
  out[(g + 8) * 8 + t * 2 + 1] = d[3];
}

/* Four 8-bit floats from element (row, column) on. */
AX_DEVICE unsigned octets(bool e5m2, int row, int column, int down) {
  unsigned word = 0;
  for (int i = 0; i < 4; i++) {
    float x = (float)(down ? AT(row + i, column) : AT(row, column + i));
    word |= (unsigned)(e5m2 ? ax_f32_to_f8_e5m2(x) : ax_f32_to_f8_e4m3(x))
            << 8 * i;
  }
  return word;
}

/* Warps of even and odd numbers: e4m3 and e5m2; the same results, of k 32. */
KERNEL(multiplied_octets) {
  int lane = (int)ax_lane(), g = lane / 4, t = lane % 4, warp = (int)ax_warp();
  bool e5m2 = warp % 2 == 1;
  float d[4] = {1, 1, 1, 1};
  unsigned x[4] = {octets(e5m2, g, t * 4, 0), octets(e5m2, g + 8, t * 4, 0),
                   octets(e5m2, g, t * 4 + 16, 0),
                   octets(e5m2, g + 8, t * 4 + 16, 0)};
  unsigned y[2] = {octets(e5m2, t * 4, g, 1), octets(e5m2, t * 4 + 16, g, 1)};
  if (e5m2)
    ax_mma_m16n8k32_e5m2(d, x, y);
  else
    ax_mma_m16n8k32_e4m3(d, x, y);
  float *out = a.out + warp * 128;
  out[g * 8 + t * 2] = d[0];
  out[g * 8 + t * 2 + 1] = d[1];
  out[(g + 8) * 8 + t * 2] = d[2];
  out[(g + 8) * 8 + t * 2 + 1] = d[3];
}

/* ---- products of a warpgroup ---- */

/* Of the address of a byte bits 4 to 6 change by bits 7 to 9, as many as the
 * swizzle has. */
AX_DEVICE int swizzled(int at, int bytes) {
  return at ^ ((at >> 7 & (bytes / 16 - 1)) << 4);
}

/* Rows of `bytes`, 8 of them together: element (mn, k) of K-major operands. */
template <typename E>
AX_DEVICE void write_rows(unsigned char *s, int rows, int bytes) {
  int count = bytes / (int)sizeof(E);
  for (int i = T; i < rows * count; i += 128) {
    int row = i / count, k = i % count;
    E *e = (E *)(s + swizzled(row * bytes + k * (int)sizeof(E), bytes));
    if (sizeof(E) == 2)
      *e = (E)ax_f32_to_bf16((float)AT(row, k));
    else
      *e = (E)__float_as_uint((float)AT(row, k));
  }
}

AX_DEVICE void write_octets(unsigned char *s, int rows, bool e5m2) {
  for (int i = T; i < rows * 128; i += 128) {
    float x = (float)AT(i / 128, i % 128);
    s[swizzled(i, 128)] = e5m2 ? ax_f32_to_f8_e5m2(x) : ax_f32_to_f8_e4m3(x);
  }
}

/* Row g or g + 8 of the 16 of the warp, columns 8j + 2t and the next. */
template <int R>
AX_DEVICE void write_sums(float *out, float (&d)[R]) {
  int lane = T % 32;
  for (int i = 0; i < R; i++) {
    int row = T / 32 * 16 + lane / 4 + i / 2 % 2 * 8;
    out[row * (R * 2) + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

template <int BYTES>
AX_DEVICE void by_rows(const wrapped_args &a, unsigned number) {
  unsigned at = ax_shared_address(ax_shared());
  float d[12];
  write_rows<uint16_t>(ax_shared(), 64, BYTES);
  write_rows<uint16_t>(ax_shared() + 8192, 24, BYTES);
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  for (int k = 0; k < BYTES / 32; k++)
    ax_wgmma_m64n24k16_bf16<0, 0>(
        d, ax_wgmma_descriptor(at + k * 32, 16, BYTES * 8, number),
        ax_wgmma_descriptor(at + 8192 + k * 32, 16, BYTES * 8, number), k > 0);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  ax_hold(d);
  write_sums(a.out, d);
}
KERNEL(rows_32) {
  by_rows<32>(a, 3);
}
KERNEL(rows_64) {
  by_rows<64>(a, 2);
}
KERNEL(rows_128) {
  by_rows<128>(a, 1);
}
KERNEL(rows_tf32) { /* 32 elements of k in 128 bytes, 8 at a time */
  unsigned at = ax_shared_address(ax_shared());
  float d[12];
  write_rows<uint32_t>(ax_shared(), 64, 128);
  write_rows<uint32_t>(ax_shared() + 8192, 24, 128);
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  for (int k = 0; k < 4; k++)
    ax_wgmma_m64n24k8_tf32(
        d, ax_wgmma_descriptor(at + k * 32, 16, 1024, 1),
        ax_wgmma_descriptor(at + 8192 + k * 32, 16, 1024, 1), k > 0);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  ax_hold(d);
  write_sums(a.out, d);
}
/* 8-bit floats: 128 elements of k in 128 bytes, 32 at a time. */
template <bool E5M2> AX_DEVICE void octet_rows(const wrapped_args &a) {
  unsigned at = ax_shared_address(ax_shared());
  float d[12];
  write_octets(ax_shared(), 64, E5M2);
  write_octets(ax_shared() + 8192, 24, E5M2);
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  for (int k = 0; k < 4; k++) {
    uint64_t x = ax_wgmma_descriptor(at + k * 32, 16, 1024, 1);
    uint64_t y = ax_wgmma_descriptor(at + 8192 + k * 32, 16, 1024, 1);
    if (E5M2)
      ax_wgmma_m64n24k32_e5m2(d, x, y, k > 0);
    else
      ax_wgmma_m64n24k32_e4m3(d, x, y, k > 0);
  }
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  ax_hold(d);
  write_sums(a.out, d);
}
KERNEL(rows_e4m3) {
  octet_rows<false>(a);
}
KERNEL(rows_e5m2) {
  octet_rows<true>(a);
}

/* MN-major operands: 64 of mn in 128 bytes, for each k; 8 of k together, the
 * next 64 of mn after all of them. */
AX_DEVICE void write_columns(unsigned char *s, int count) {
  for (int i = T; i < count * 16; i += 128) {
    int mn = i % count, k = i / count;
    int at = mn / 64 * 2048 + k * 128 + mn % 64 * 2;
    *(uint16_t *)(s + swizzled(at, 128)) = ax_f32_to_bf16((float)AT(mn, k));
  }
}
KERNEL(columns) {
  unsigned at = ax_shared_address(ax_shared());
  float d[64];
  write_columns(ax_shared(), 64);
  write_columns(ax_shared() + 2048, 128);
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n128k16_bf16<1, 1>(
      d, ax_wgmma_descriptor(at, 2048, 1024, 1),
      ax_wgmma_descriptor(at + 2048, 2048, 1024, 1), false);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  ax_hold(d);
  write_sums(a.out, d);
}
KERNEL(from_registers) { /* A, 64 x 16, in registers, bf16 */
  unsigned at = ax_shared_address(ax_shared());
  int row = T / 32 * 16 + T % 32 / 4, t = T % 4;
  unsigned x[4] = {pair(true, row, t * 2, 0), pair(true, row + 8, t * 2, 0),
                   pair(true, row, t * 2 + 8, 0),
                   pair(true, row + 8, t * 2 + 8, 0)};
  float d[12];
  write_rows<uint16_t>(ax_shared(), 24, 32);
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n24k16_bf16_ra<0>(d, x, ax_wgmma_descriptor(at, 16, 256, 3),
                                false);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  ax_hold(d);
  write_sums(a.out, d);
}

/* ---- boxes ---- */

#define BAR (ax_shared_address(ax_shared()) + 8192)
#define BOX(load, bytes)                              \
  unsigned at = ax_shared_address(ax_shared());       \
  if (T == 0) {                                       \
    ax_mbarrier_init(BAR, 1);                         \
    ax_fence_mbarrier_init();                         \
    ax_tma_prefetch(&a.map);                          \
    ax_mbarrier_expect(BAR, bytes);                   \
    load;                                             \
  }                                                   \
  ax_sync();                                          \
  ax_mbarrier_wait(BAR, 0);                           \
  for (int i = T; i < bytes / 4; i += 128)            \
    a.out[i] = ((const float *)ax_shared())[i]
KERNEL(box_1d) {
  BOX(ax_tma_load_1d(at, &a.map, BAR, -5), 128);
}
KERNEL(box_2d) {
  BOX(ax_tma_load_2d(at, &a.map, BAR, 8, 6), 1024);
}
KERNEL(box_3d) {
  BOX(ax_tma_load_3d(at, &a.map, BAR, 4, -1, 2), 384);
}
KERNEL(box_5d) {
  BOX(ax_tma_load_5d(at, &a.map, BAR, 0, 1, 0, -1, 1), 1024);
}
KERNEL(box_stored) {
  float *s = (float *)ax_shared();
  s[T] = (float)T;
  ax_fence_async();
  ax_sync();
  if (T == 0) {
    ax_tma_store_3d(&a.map, ax_shared_address(s), 4, -1, 2);
    ax_tma_commit();
    ax_tma_wait<0>();
  }
}
KERNEL(box_cast) { /* each block of two loads half for both */
  unsigned at = ax_shared_address(ax_shared()), rank = ax_cluster_rank();
  if (T == 0) {
    ax_mbarrier_init(BAR, 1);
    ax_fence_mbarrier_init();
    ax_mbarrier_expect(BAR, 1024);
  }
  ax_cluster_sync();
  if (T == 0)
    ax_tma_cast_2d(at + rank * 512, &a.map, BAR, 3, 0, (int)rank * 4);
  ax_mbarrier_wait(BAR, 0);
  for (int i = T; i < 256; i += 128)
    a.out[rank * 256 + i] = ((const float *)ax_shared())[i];
  ax_cluster_sync();
}
