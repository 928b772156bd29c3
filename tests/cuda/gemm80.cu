/* A product as sm_80 does it, by hand: c = a * b, bf16, f32 sums.  cp.async in
 * stages, shared memory swizzled by 16 bytes, ldmatrix, mma; edges of any size
 * that 8 divides along k and n.  Blocks of 64 x 64, four warps of 32 x 32. */
struct gemm80_args {
  const uint16_t *a, *b; /* m x k, k x n */
  float *c;              /* m x n */
  int m, n, k;
};
enum {
  TILE_M = 64,
  TILE_N = 64,
  TILE_K = 32,
  STAGES = 3,
  A_BYTES = TILE_M * TILE_K * 2,
  B_BYTES = TILE_K * TILE_N * 2,
  STAGE_BYTES = A_BYTES + B_BYTES
};

/* Where 16 bytes lie: rows of four in A, of eight in B. */
AX_DEVICE unsigned place_a(int row, int chunk) {
  return (unsigned)(row * 64 + (chunk ^ (row >> 1 & 3)) * 16);
}
AX_DEVICE unsigned place_b(int row, int chunk) {
  return (unsigned)(row * 128 + (chunk ^ (row & 7)) * 16);
}

/* Bytes of 16 that lie before the end. */
AX_DEVICE unsigned within(int at, int end, bool row) {
  return row && at < end ? 16 : 0;
}

AX_DEVICE void load(const gemm80_args &a, unsigned stage, int from_m,
                    int from_n, int from_k) {
  int thread = (int)threadIdx.x;
#pragma unroll
  for (int j = 0; j < 2; j++) {
    int row = thread / 4 + j * 32, chunk = thread % 4;
    int m = from_m + row, k = from_k + chunk * 8;
    unsigned bytes = within(k, a.k, m < a.m);
    ax_copy_16(stage + place_a(row, chunk),
               bytes ? a.a + (int64_t)m * a.k + k : a.a, bytes);
  }
#pragma unroll
  for (int j = 0; j < 2; j++) {
    int row = thread / 8 + j * 16, chunk = thread % 8;
    int k = from_k + row, n = from_n + chunk * 8;
    unsigned bytes = within(n, a.n, k < a.k);
    ax_copy_16(stage + A_BYTES + place_b(row, chunk),
               bytes ? a.b + (int64_t)k * a.n + n : a.b, bytes);
  }
}

extern "C" __global__ void __launch_bounds__(128)
    gemm80(const __grid_constant__ gemm80_args a) {
  const unsigned memory = ax_shared_address(ax_shared());
  const int from_m = (int)blockIdx.y * TILE_M;
  const int from_n = (int)blockIdx.x * TILE_N;
  const int warp = (int)ax_warp(), lane = (int)ax_lane();
  const int warp_m = warp / 2 * 32, warp_n = warp % 2 * 32;
  const int turns = (a.k + TILE_K - 1) / TILE_K;
  float d[2][4][4];
#pragma unroll
  for (int i = 0; i < 32; i++)
    d[i / 16][i / 4 % 4][i % 4] = 0;
#pragma unroll
  for (int j = 0; j < STAGES - 1; j++) {
    if (j < turns)
      load(a, memory + j * STAGE_BYTES, from_m, from_n, j * TILE_K);
    ax_copy_commit();
  }
  for (int turn = 0; turn < turns; turn++) {
    ax_copy_wait<STAGES - 2>();
    ax_sync();
    int next = turn + STAGES - 1;
    if (next < turns)
      load(a, memory + next % STAGES * STAGE_BYTES, from_m, from_n,
           next * TILE_K);
    ax_copy_commit();
    const unsigned stage_a = memory + turn % STAGES * STAGE_BYTES;
    const unsigned stage_b = stage_a + A_BYTES;
#pragma unroll
    for (int k = 0; k < TILE_K / 16; k++) {
      unsigned x[2][4], y[2][4];
#pragma unroll
      for (int i = 0; i < 2; i++)
        ax_ldmatrix_4(x[i], stage_a + place_a(warp_m + i * 16 + lane % 16,
                                              k * 2 + lane / 16));
#pragma unroll
      for (int i = 0; i < 2; i++)
        ax_ldmatrix_4_trans(y[i],
                            stage_b + place_b(k * 16 + lane % 16,
                                              warp_n / 8 + i * 2 + lane / 16));
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          ax_mma_m16n8k16_bf16(d[i][j], x[i], &y[j / 2][j % 2 * 2]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int m = from_m + warp_m + i * 16 + lane / 4 + e / 2 * 8;
        int n = from_n + warp_n + j * 8 + lane % 4 * 2 + e % 2;
        if (m < a.m && n < a.n)
          a.c[(int64_t)m * a.n + n] = d[i][j][e];
      }
}
