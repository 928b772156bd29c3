/* A product as sm_90a does it, by hand: c = a * b, bf16, f32 sums.  One warp
 * loads boxes by TMA, two warpgroups multiply them by wgmma, rings of mbarriers
 * between; blocks stay and take tile after tile of 128 x 128; results go by TMA
 * through shared memory.  b lies k x n: its operand is MN-major. */
struct gemm90_args {
  int m, n, k;
  ax_tensor_map a; /* boxes of 64 along k, 128 along m; swizzle 128 */
  ax_tensor_map b; /* 64 along n, 64 along k; swizzle 128 */
  ax_tensor_map c; /* 32 along n, 64 along m; none */
};
enum {
  TILE_M = 128,
  TILE_N = 128,
  TILE_K = 64,
  STAGES = 3,
  A_BYTES = TILE_M * TILE_K * 2,
  B_BYTES = TILE_K * TILE_N * 2,
  STAGE_BYTES = A_BYTES + B_BYTES,
  GROUP_BYTES = 64 * TILE_N * 4, /* of the results of a warpgroup */
  RESULTS = STAGES * STAGE_BYTES,
  FULL = RESULTS + 2 * GROUP_BYTES,
  EMPTY = FULL + 8 * STAGES,
  BOX_BYTES = 64 * 32 * 4
};

AX_DEVICE void produce(const gemm90_args &a, unsigned memory, int tiles_n,
                       int tiles) {
  int turns = (a.k + TILE_K - 1) / TILE_K;
  unsigned stage = 0, phase = 0;
  for (int tile = (int)blockIdx.x; tile < tiles; tile += (int)gridDim.x) {
    int m = tile / tiles_n * TILE_M, n = tile % tiles_n * TILE_N;
    for (int turn = 0; turn < turns; turn++) {
      unsigned full = memory + FULL + stage * 8;
      unsigned at = memory + stage * STAGE_BYTES;
      ax_mbarrier_wait(memory + EMPTY + stage * 8, phase ^ 1);
      ax_mbarrier_expect(full, STAGE_BYTES);
      ax_tma_load_2d(at, &a.a, full, turn * TILE_K, m);
      ax_tma_load_2d(at + A_BYTES, &a.b, full, n, turn * TILE_K);
      ax_tma_load_2d(at + A_BYTES + B_BYTES / 2, &a.b, full, n + 64,
                     turn * TILE_K);
      if (++stage == STAGES) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
}

AX_DEVICE void multiply(unsigned at, int group, float (&d)[64], bool add) {
#pragma unroll
  for (int k = 0; k < TILE_K / 16; k++)
    ax_wgmma_m64n128k16_bf16<0, 1>(
        d, ax_wgmma_descriptor(at + group * 8192 + k * 32, 16, 1024, 1),
        ax_wgmma_descriptor(at + A_BYTES + k * 2048, 8192, 1024, 1),
        add || k > 0);
}

/* The results of a warpgroup, 64 x 128, in four boxes of 32 columns. */
AX_DEVICE void store(const gemm90_args &a, float (&d)[64], unsigned char *to,
                     int group, int m, int n) {
  int thread = (int)threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  unsigned barrier = (unsigned)group + 1;
  if (thread == 0)
    ax_tma_wait_read<0>(); /* of the tile before */
  ax_barrier_sync(barrier, 128);
#pragma unroll
  for (int i = 0; i < 64; i += 2) {
    int row = warp * 16 + lane / 4 + i / 2 % 2 * 8;
    int column = i / 4 * 8 + lane % 4 * 2;
    float2 v = make_float2(d[i], d[i + 1]);
    *(float2 *)(to + column / 32 * BOX_BYTES + row * 128 + column % 32 * 4) = v;
  }
  ax_fence_async();
  ax_barrier_sync(barrier, 128);
  if (thread == 0) {
    for (int box = 0; box < 4; box++)
      if (m + group * 64 < a.m && n + box * 32 < a.n)
        ax_tma_store_2d(&a.c, ax_shared_address(to) + box * BOX_BYTES,
                        n + box * 32, m + group * 64);
    ax_tma_commit();
  }
}

AX_DEVICE void consume(const gemm90_args &a, unsigned memory, int tiles_n,
                       int tiles, int group) {
  int turns = (a.k + TILE_K - 1) / TILE_K;
  bool signals = threadIdx.x % 128 == 0;
  unsigned stage = 0, phase = 0;
  for (int tile = (int)blockIdx.x; tile < tiles; tile += (int)gridDim.x) {
    float d[64];
    unsigned before = 0;
    for (int turn = 0; turn < turns; turn++) {
      ax_mbarrier_wait(memory + FULL + stage * 8, phase);
      ax_wgmma_fence();
      multiply(memory + stage * STAGE_BYTES, group, d, turn > 0);
      ax_wgmma_commit();
      ax_wgmma_wait<1>(); /* the turn before has ended */
      if (turn > 0 && signals)
        ax_mbarrier_arrive(before);
      before = memory + EMPTY + stage * 8;
      if (++stage == STAGES) {
        stage = 0;
        phase ^= 1;
      }
    }
    ax_wgmma_wait<0>();
    ax_hold(d);
    if (signals)
      ax_mbarrier_arrive(before);
    store(a, d, ax_shared() + RESULTS + group * GROUP_BYTES, group,
          tile / tiles_n * TILE_M, tile % tiles_n * TILE_N);
  }
  if (signals)
    ax_tma_wait_read<0>();
}

extern "C" __global__ void __launch_bounds__(384)
    gemm90(const __grid_constant__ gemm90_args a) {
  const unsigned memory = ax_shared_address(ax_shared());
  const int tiles_n = (a.n + TILE_N - 1) / TILE_N;
  const int tiles = (a.m + TILE_M - 1) / TILE_M * tiles_n;
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < STAGES; stage++) {
      ax_mbarrier_init(memory + FULL + stage * 8, 1);
      ax_mbarrier_init(memory + EMPTY + stage * 8, 2);
    }
    ax_fence_mbarrier_init();
  }
  ax_sync();
  const int group = (int)ax_warp() / 4;
  if (group == 0) {
    ax_registers_less<40>();
    if (ax_warp() == 0 && ax_elect())
      produce(a, memory, tiles_n, tiles);
  } else {
    ax_registers_more<232>();
    consume(a, memory, tiles_n, tiles, group - 1);
  }
}
