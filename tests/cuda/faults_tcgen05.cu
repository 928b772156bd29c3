/* Kernels with tcgen05 that are right beside kernels that are not.  This text
 * follows that of faults.cu, whose macros it uses. */

/* The matrices of wgmma; an mbarrier, and the address of 32 columns.  The
 * product has 64 rows and 8 columns of f32 from bf16. */
#define TENSOR_BAR (at + 4096)
#define TENSOR_PLACE (at + 4104)
#define TENSOR_BF16 0x4020490u
#define TENSOR_MATRICES()                                  \
  unsigned at = ax_shared_address(ax_shared());            \
  uint16_t *h = (uint16_t *)ax_shared();                   \
  for (int i = T; i < 1024 + 128; i += blockDim.x)         \
    h[i] = ax_f32_to_bf16(i < 1024 ? (float)(i % 7) : 1);  \
  float d[4] = {0, 0, 0, 0};                               \
  unsigned long long x = ax_tcgen05_descriptor(at, 1024, 128, 0), \
                     y = ax_tcgen05_descriptor(at + 2048, 128, 128, 0); \
  if (T == 0) {                                            \
    ax_mbarrier_init(TENSOR_BAR, 1);                       \
    ax_fence_mbarrier_init();                              \
  }
#define TENSOR_ALLOC(columns)            \
  TENSOR_MATRICES();                     \
  if (ax_warp() == 0) {                  \
    ax_tmem_alloc(TENSOR_PLACE, columns); \
    ax_tmem_permit();                    \
  }
#define TENSOR_SYNC()        \
  ax_tcgen05_fence_before(); \
  ax_sync();                 \
  ax_tcgen05_fence_after()
#define TENSOR_ADDRESS() const unsigned to = ((const unsigned *)h)[1026]
#define TENSOR_BEGIN()  \
  TENSOR_ALLOC(32);     \
  ax_fence_async();     \
  TENSOR_SYNC();        \
  TENSOR_ADDRESS()
#define TENSOR_CLUSTER_BEGIN()         \
  TENSOR_MATRICES();                   \
  (void)d;                             \
  if (ax_warp() == 0)                  \
    ax_tmem_alloc(TENSOR_PLACE, 32);   \
  ax_fence_async();                    \
  ax_tcgen05_fence_before();           \
  ax_cluster_sync();                   \
  ax_tcgen05_fence_after();            \
  TENSOR_ADDRESS()
#define TENSOR_MULTIPLY()                             \
  if (T == 0) {                                       \
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false); \
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, true);  \
    ax_tcgen05_commit(TENSOR_BAR);                    \
  }
#define TENSOR_WAIT()              \
  ax_mbarrier_wait(TENSOR_BAR, 0); \
  ax_tcgen05_fence_after()
#define TENSOR_LOAD() ax_tmem_load_x1(d, to + (ax_warp() * 32 << 16))
#define TENSOR_READ()  \
  TENSOR_LOAD();       \
  ax_tmem_wait_load(); \
  ax_hold(d);          \
  STORE(d[0])
#define TENSOR_FREE()     \
  if (ax_warp() == 0)     \
  ax_tmem_free(to, 32)
#define TENSOR_END() \
  TENSOR_SYNC();     \
  TENSOR_FREE()
KERNEL(tensor) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_READ();
  TENSOR_END();
}
KERNEL(tensor_no_wait) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_READ();
  TENSOR_END();
}
KERNEL(tensor_no_commit) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false);
  TENSOR_WAIT();
  TENSOR_END();
}
KERNEL(tensor_no_fence_after) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  ax_mbarrier_wait(TENSOR_BAR, 0);
  TENSOR_READ();
  TENSOR_END();
}
KERNEL(tensor_no_first_fence) {
  TENSOR_ALLOC(32);
  ax_fence_async();
  ax_sync();
  TENSOR_ADDRESS();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_END();
}
KERNEL(tensor_no_load_wait) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_LOAD();
  STORE(d[0]);
  TENSOR_END();
}
KERNEL(tensor_no_hold) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_LOAD();
  ax_tmem_wait_load();
  STORE(d[0]);
  TENSOR_END();
}
KERNEL(tensor_unfenced_memory) {
  TENSOR_ALLOC(32);
  TENSOR_SYNC();
  TENSOR_ADDRESS();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_END();
}
KERNEL(tensor_memory_reused) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  ax_sync();
  h[T] = 0;
  TENSOR_WAIT();
  TENSOR_END();
}
KERNEL(tensor_unfreed) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_READ();
}
KERNEL(tensor_freed_early) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_READ();
  TENSOR_FREE();
}
KERNEL(tensor_freed_in_part) {
  TENSOR_ALLOC(64);
  TENSOR_SYNC();
  TENSOR_ADDRESS();
  TENSOR_FREE();
}
/* The loads of the first product, before the second one overwrites it. */
#define TENSOR_TWICE(before)                          \
  TENSOR_BEGIN();                                     \
  TENSOR_MULTIPLY();                                  \
  TENSOR_WAIT();                                      \
  TENSOR_READ();                                      \
  before;                                             \
  ax_sync();                                          \
  ax_tcgen05_fence_after();                           \
  if (T == 0) {                                       \
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false); \
    ax_tcgen05_commit(TENSOR_BAR);                    \
  }                                                   \
  ax_mbarrier_wait(TENSOR_BAR, 1);                    \
  ax_tcgen05_fence_after();                           \
  TENSOR_END()
KERNEL(tensor_twice) {
  TENSOR_TWICE(ax_tcgen05_fence_before());
}
KERNEL(tensor_no_fence_before) {
  TENSOR_TWICE();
}
KERNEL(tensor_beyond) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to + 32, x, y, TENSOR_BF16, false);
  TENSOR_END();
}
KERNEL(tensor_odd) {
  TENSOR_ALLOC(48);
  TENSOR_SYNC();
}
KERNEL(tensor_too_many) {
  TENSOR_MATRICES();
  if (ax_warp() == 0) {
    ax_tmem_alloc(TENSOR_PLACE, 512);
    ax_tmem_alloc(TENSOR_PLACE, 32);
  }
}
KERNEL(tensor_no_permit) {
  TENSOR_ALLOC(32);
  if (ax_warp() == 0)
    ax_tmem_alloc(TENSOR_PLACE, 32);
}
KERNEL(tensor_permit_first) {
  TENSOR_MATRICES();
  if (ax_warp() == 0) {
    ax_tmem_permit();
    ax_tmem_alloc(TENSOR_PLACE, 32);
  }
}
KERNEL(tensor_unwritten) {
  TENSOR_BEGIN();
  TENSOR_READ();
  TENSOR_END();
}
KERNEL(tensor_adds_to_nothing) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, true);
  TENSOR_END();
}
KERNEL(tensor_other_lanes) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  ax_tmem_load_x1(d, to);
  TENSOR_END();
}
KERNEL(tensor_instruction) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16 | 8, false);
  TENSOR_END();
}
KERNEL(tensor_types) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_tf32(to, x, y, TENSOR_BF16, false);
  TENSOR_END();
}
KERNEL(tensor_size) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16 + (4 << 24), false);
  TENSOR_END();
}
KERNEL(tensor_descriptor) {
  TENSOR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y & ~(1ull << 46), TENSOR_BF16, false);
  TENSOR_END();
}
/* Operand A is stored to tensor memory: element k of row i is i + k.  The sums
 * are doubled there. */
#define PAIRS_BF16 0x8040490u /* 128 rows and 16 columns */
#define PAIRS_LANES(half) ((ax_warp() * 32 + (half) * 16) << 16)
#define PAIRS_STORE()                                          \
  for (int half = 0; half < 2; half++) {                       \
    unsigned p[4];                                             \
    for (int i = 0; i < 4; i++) {                              \
      const int row = T / 32 * 32 + half * 16 + i % 2 * 8 + T % 32 / 4, \
                k = i / 2 * 8 + T % 4 * 2;                     \
      p[i] = ax_pack_bf16((float)(row + k), (float)(row + k + 1)); \
    }                                                          \
    ax_tmem_store_pairs_x2(p, to + PAIRS_LANES(half));         \
  }
#define PAIRS_PRODUCT(from, instruction)                      \
  ax_tcgen05_mma_f16_ta(to + 16, from,                        \
                        ax_tcgen05_descriptor(at + 2048, 128, 0, 0), \
                        instruction, false)
#define PAIRS_MULTIPLY(instruction)  \
  if (T == 0) {                      \
    PAIRS_PRODUCT(to, instruction);  \
    ax_tcgen05_commit(TENSOR_BAR);   \
  }                                  \
  TENSOR_WAIT()
#define PAIRS_READ(load_wait, store_wait)           \
  ax_tmem_load_x1(d, to + 16 + PAIRS_LANES(0));     \
  load_wait;                                        \
  ax_hold(d);                                       \
  for (int i = 0; i < 4; i++)                       \
    d[i] *= 2;                                      \
  ax_tmem_store_x1(d, to + 16 + PAIRS_LANES(0));    \
  store_wait;                                       \
  ax_tmem_load_x1(d, to + 16 + PAIRS_LANES(0));     \
  ax_tmem_wait_load();                              \
  ax_hold(d);                                       \
  STORE(d[0])
#define PAIRS(before, load_wait, store_wait) \
  TENSOR_BEGIN();                            \
  (void)x, (void)y;                          \
  PAIRS_STORE();                             \
  before;                                    \
  ax_sync();                                 \
  ax_tcgen05_fence_after();                  \
  PAIRS_MULTIPLY(PAIRS_BF16);                \
  PAIRS_READ(load_wait, store_wait);         \
  TENSOR_END()
#define PAIRS_DONE() ax_tmem_wait_store(), ax_tcgen05_fence_before()
KERNEL(tensor_stored) {
  PAIRS(PAIRS_DONE(), ax_tmem_wait_load(), ax_tmem_wait_store());
}
KERNEL(tensor_stored_no_wait) {
  PAIRS(ax_tcgen05_fence_before(), ax_tmem_wait_load(), ax_tmem_wait_store());
}
KERNEL(tensor_stored_no_fence) {
  PAIRS(ax_tmem_wait_store(), ax_tmem_wait_load(), ax_tmem_wait_store());
}
KERNEL(tensor_stored_unloaded) {
  PAIRS(PAIRS_DONE(), , ax_tmem_wait_store());
}
KERNEL(tensor_loaded_unstored) {
  PAIRS(PAIRS_DONE(), ax_tmem_wait_load(), );
}
/* The product reads the operand while the warps replace it. */
KERNEL(tensor_stored_early) {
  TENSOR_BEGIN();
  (void)x, (void)y;
  PAIRS_STORE();
  PAIRS_DONE();
  ax_sync();
  ax_tcgen05_fence_after();
  if (T == 0)
    PAIRS_PRODUCT(to, PAIRS_BF16);
  ax_sync();
  PAIRS_STORE();
  PAIRS_DONE();
  ax_sync();
  PAIRS_MULTIPLY(PAIRS_BF16);
  TENSOR_END();
}
KERNEL(tensor_pairs_unwritten) {
  TENSOR_BEGIN();
  (void)x, (void)y;
  PAIRS_MULTIPLY(PAIRS_BF16);
  TENSOR_END();
}
KERNEL(tensor_pairs_rows) {
  TENSOR_BEGIN();
  (void)x, (void)y;
  PAIRS_MULTIPLY(TENSOR_BF16);
  TENSOR_END();
}
KERNEL(tensor_pairs_lanes) {
  TENSOR_BEGIN();
  (void)x, (void)y;
  if (T == 0)
    PAIRS_PRODUCT(to + (16 << 16), PAIRS_BF16);
  TENSOR_END();
}
KERNEL(tensor_stored_other_lanes) {
  TENSOR_BEGIN();
  (void)x, (void)y;
  ax_tmem_store_x1(d, to);
  TENSOR_END();
}
/* Products arrive at the mbarriers of both blocks. */
KERNEL(tensor_cast) {
  TENSOR_CLUSTER_BEGIN();
  if (T == 0 && ax_cluster_rank() == 1) {
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false);
    ax_tcgen05_commit_cast(TENSOR_BAR, 3);
  }
  TENSOR_WAIT();
  h[T] = 0;
  TENSOR_FREE();
  ax_cluster_sync();
}
/* Two warps load the same lanes.  The product sees only those of its own. */
KERNEL(three_tensor_readers) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  const unsigned lanes = ax_warp() % 4 * 32 << 16;
  if (ax_warp() % 4 == 0 && ax_warp() < 8) {
    ax_tmem_load_x1(d, to + lanes);
    ax_tmem_wait_load();
    ax_hold(d);
  }
  ax_sync();
  ax_tcgen05_fence_after();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false);
  TENSOR_END();
}
/* The other block does not wait for the commit. */
KERNEL(tensor_cast_unseen) {
  TENSOR_CLUSTER_BEGIN();
  if (ax_cluster_rank() == 1) {
    if (T == 0) {
      ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false);
      ax_tcgen05_commit_cast(TENSOR_BAR, 3);
    }
    TENSOR_WAIT();
  }
  ax_cluster_sync();
  TENSOR_FREE();
}
/* Nothing waits for the commit. */
KERNEL(tensor_commit_unseen) {
  TENSOR_BEGIN();
  TENSOR_MULTIPLY();
  TENSOR_WAIT();
  TENSOR_READ();
  if (T == 0)
    ax_tcgen05_commit(TENSOR_BAR);
  TENSOR_END();
}
#define PAIR_BF16 0x10020490u /* 256 rows */
#define PAIR_BEGIN()                        \
  TENSOR_MATRICES();                        \
  (void)d;                                  \
  if (ax_warp() == 0)                       \
    ax_tmem_pair_alloc(TENSOR_PLACE, 32);   \
  ax_fence_async();                         \
  ax_tcgen05_fence_before();                \
  ax_cluster_sync();                        \
  ax_tcgen05_fence_after();                 \
  TENSOR_ADDRESS()
KERNEL(pair_second) {
  PAIR_BEGIN();
  if (T == 0 && ax_cluster_rank() == 1)
    ax_tcgen05_pair_mma_f16(to, x, y, PAIR_BF16, false);
}
KERNEL(pair_rows) {
  PAIR_BEGIN();
  if (T == 0 && ax_cluster_rank() == 0)
    ax_tcgen05_pair_mma_f16(to, x, y, TENSOR_BF16, false);
}
KERNEL(pair_mixed) {
  PAIR_BEGIN();
  if (T == 0)
    ax_tcgen05_mma_f16(to, x, y, TENSOR_BF16, false);
}
KERNEL(pair_alone) {
  TENSOR_MATRICES();
  (void)d, (void)x, (void)y;
  if (ax_warp() == 0)
    ax_tmem_pair_alloc(TENSOR_PLACE, 32);
}
/* The second block has no columns of its own. */
KERNEL(pair_half_allocated) {
  TENSOR_MATRICES();
  (void)d, (void)x, (void)y;
  if (ax_warp() == 0 && ax_cluster_rank() == 0) {
    ax_tmem_pair_alloc(TENSOR_PLACE, 32);
    ax_sync_warp();
    ax_tcgen05_fence_after();
    TENSOR_ADDRESS();
    ax_tmem_pair_free(to, 32);
  }
  ax_cluster_sync();
}

/* ---- registers ---- */

KERNEL(registers) {
  ax_registers_less<40>();
  ax_registers_more<232>();
}
KERNEL(three_registers) { /* 3 * 168 = 24 + 240 + 240 */
  if (ax_warp() < 4)
    ax_registers_less<24>();
  else
    ax_registers_more<240>();
}
KERNEL(three_registers_more) {
  if (ax_warp() < 4)
    ax_registers_less<32>();
  else
    ax_registers_more<240>();
}
KERNEL(registers_fewer) {
  ax_registers_less<256>();
}
KERNEL(descriptor) {
  a.out[T] = (float)ax_wgmma_descriptor(8, 16, 16, 0);
}
KERNEL(parity) {
  BEGIN(128);
  ax_mbarrier_wait(BAR, 3);
}
KERNEL(array_of_matrix) {
  unsigned x[2][4];
  ax_ldmatrix_1(x[a.n / 64], ax_shared_address(ax_shared()) + 16 * (T % 8));
  a.out[T] = (float)x[0][0];
}
KERNEL(array_of_product) {
  float d[1][4] = {};
  unsigned x[2][4] = {};
  ax_mma_m16n8k16_f16(d[a.n / 128], x[0], x[1]);
  a.out[T] = d[0][0];
}
KERNEL(array) {
  float s[4] = {1, 2, 3, 4};
  a.out[T] = s[a.n / 32];
}
KERNEL(shifts) {
  a.out[T] = (float)(1u << a.n);
}
KERNEL(divides) {
  a.out[T] = (float)(a.n / (a.n - 128));
}
KERNEL(registers_odd) {
  ax_registers_more<100>();
}

/* ---- the grid ---- */

KERNEL(spins) { /* blocks that run at a time may wait for each other */
  unsigned *count = (unsigned *)a.out;
  if (T == 0) {
    atomicAdd(count, 1u);
    while (atomicAdd(count, 0u) < gridDim.x)
      __nanosleep(20);
  }
}
KERNEL(last_sums) { /* the last block adds what all have written */
  unsigned *count = (unsigned *)(a.out + 256);
  unsigned *last = (unsigned *)ax_shared();
  if (T < 2)
    a.out[blockIdx.x * 2 + T] = (float)T;
  __threadfence();
  ax_sync();
  if (T == 0)
    *last = atomicAdd(count, 1u);
  ax_sync();
  if (*last == gridDim.x - 1) {
    __threadfence();
    a.out[128 + T] = a.out[0] + a.out[1] + a.out[2];
  }
}
KERNEL(last_sums_one) { /* one thread of each block writes */
  unsigned *count = (unsigned *)(a.out + 256);
  unsigned *last = (unsigned *)ax_shared();
  if (T == 0) {
    a.out[blockIdx.x] = (float)blockIdx.x;
    __threadfence();
    *last = atomicAdd(count, 1u);
    __threadfence();
  }
  ax_sync();
  if (*last == gridDim.x - 1)
    a.out[128 + T] = a.out[0] + a.out[1] + a.out[2];
}
KERNEL(last_cached) { /* L1 may have an old value */
  unsigned *count = (unsigned *)(a.out + 256);
  if (T == 0) {
    a.out[blockIdx.x] = (float)blockIdx.x;
    __threadfence();
    if (atomicAdd(count, 1u) == gridDim.x - 1)
      a.out[128 + T] = a.out[0] + a.out[1] + a.out[2];
  }
}
KERNEL(last_unfenced) {
  unsigned *count = (unsigned *)(a.out + 256);
  if (T == 0) {
    a.out[blockIdx.x] = (float)blockIdx.x;
    if (atomicAdd(count, 1u) == gridDim.x - 1)
      a.out[128 + T] = a.out[0] + a.out[1] + a.out[2];
  }
}
KERNEL(blocks_write_one) {
  a.out[T] = a.in[T];
}
KERNEL(threads_write_one) {
  a.out[T / 2] = a.in[T];
}
KERNEL(once_written) {
  a.out[T] = a.in[T];
  a.out[T + 128] = __uint_as_float(ax_load_4_once(a.out + T));
}
KERNEL(endless) {
  while (atomicAdd((unsigned *)a.out, 0u) != 5)
    ;
}
KERNEL(traps) {
  if (T == 7)
    __trap();
}
/* Products of 4-bit floats with scales: 128 rows of 64 ones, and 8 columns.  The
 * scale of row i is 2^(i % 3), that of a column is 1. */
#define SCALED_MX 0x8820480u
#define SCALED_NV 0x8020480u
#define SCALED_MATRICES(one)                                                \
  const unsigned at = ax_shared_address(ax_shared());                       \
  unsigned char *const h = (unsigned char *)ax_shared();                    \
  for (int i = T; i < 4096; i += blockDim.x)                                \
    h[i] = 0x22;                                                            \
  for (int i = T; i < 256; i += blockDim.x)                                 \
    h[4352 + i] = 0x22;                                                     \
  for (int i = T; i < 512; i += blockDim.x) {                               \
    h[4608 + i] = (unsigned char)((one) + (i % 16 / 4 * 32 + i / 16) % 3 *  \
                                              ((one) == 127 ? 1 : 8));      \
    h[5120 + i] = (one);                                                    \
  }                                                                         \
  float d[4] = {0, 0, 0, 0};                                                \
  const unsigned long long x = ax_tcgen05_descriptor(at, 2048, 128, 0),     \
                           y = ax_tcgen05_descriptor(at + 4352, 128, 128, 0), \
                           rows = ax_tcgen05_descriptor(at + 4608, 0, 128, 0), \
                           columns =                                        \
                               ax_tcgen05_descriptor(at + 5120, 0, 128, 0); \
  if (T == 0) {                                                             \
    ax_mbarrier_init(TENSOR_BAR, 1);                                        \
    ax_fence_mbarrier_init();                                               \
  }                                                                         \
  if (ax_warp() == 0) {                                                     \
    ax_tmem_alloc(TENSOR_PLACE, 32);                                        \
    ax_tmem_permit();                                                       \
  }
#define SCALED_BEGIN(one)  \
  SCALED_MATRICES(one);    \
  ax_fence_async();        \
  TENSOR_SYNC();           \
  const unsigned to = ((const unsigned *)h)[1026]
#define SCALED_COPY()                       \
  ax_tcgen05_copy_scales(to + 8, rows);     \
  ax_tcgen05_copy_scales(to + 12, columns)
#define SCALED_MULTIPLY(kind, what)                                        \
  ax_tcgen05_mma_##kind(to, x, y, what, to + 8, to + 12, false)
#define SCALED_READ()  \
  TENSOR_WAIT();       \
  TENSOR_READ();       \
  TENSOR_END()
#define SCALED(one, kind, what, before, after) \
  SCALED_BEGIN(one);                           \
  if (T == 0) {                                \
    before;                                    \
    SCALED_MULTIPLY(kind, what);               \
    after;                                     \
    ax_tcgen05_commit(TENSOR_BAR);             \
  }                                            \
  SCALED_READ()
KERNEL(scaled) {
  SCALED(127, mxf4, SCALED_MX, SCALED_COPY(), );
}
KERNEL(scaled_second) {
  SCALED(127, mxf4, SCALED_MX | 2u << 29 | 2u << 4, SCALED_COPY(), );
}
KERNEL(scaled_nv) {
  SCALED(0x38, nvf4, SCALED_NV, SCALED_COPY(), );
}
KERNEL(scaled_no_copy) {
  SCALED(127, mxf4, SCALED_MX, , SCALED_COPY());
}
KERNEL(scaled_half_copied) {
  SCALED(127, mxf4, SCALED_MX, ax_tcgen05_copy_scales(to + 8, rows), );
}
KERNEL(scaled_overwritten) {
  SCALED(127, mxf4, SCALED_MX, SCALED_COPY(), SCALED_COPY());
}
KERNEL(scaled_type) {
  SCALED(127, mxf4, SCALED_NV, SCALED_COPY(), );
}
KERNEL(scaled_type_nv) {
  SCALED(0x38, nvf4, SCALED_MX, SCALED_COPY(), );
}
KERNEL(scaled_negative) {
  SCALED(0xb8, nvf4, SCALED_NV, SCALED_COPY(), );
}
KERNEL(scaled_byte) {
  SCALED(127, mxf4, SCALED_MX | 1u << 29, SCALED_COPY(), );
}
KERNEL(scaled_byte_nv) {
  SCALED(0x38, nvf4, SCALED_NV | 2u << 4, SCALED_COPY(), );
}
KERNEL(scaled_instruction) {
  SCALED(127, mxf4, SCALED_MX | 1u << 15, SCALED_COPY(), );
}
KERNEL(scaled_size) {
  SCALED(127, mxf4, SCALED_MX ^ 3u << 27, SCALED_COPY(), );
}
KERNEL(scaled_swizzled) {
  SCALED(127, mxf4, SCALED_MX, ax_tcgen05_copy_scales(to + 8, rows | 2ull << 61),
         );
}
KERNEL(scaled_lanes) {
  SCALED(127, mxf4, SCALED_MX,
         ax_tcgen05_copy_scales(to + 8 + (32 << 16), rows), );
}
KERNEL(scaled_beyond) {
  SCALED(127, mxf4, SCALED_MX, ax_tcgen05_copy_scales(to + 30, rows), );
}
/* The producer did not fence what it wrote. */
KERNEL(scaled_unfenced) {
  SCALED_MATRICES(127);
  TENSOR_SYNC();
  const unsigned to = ((const unsigned *)h)[1026];
  if (T == 0) {
    SCALED_COPY();
    SCALED_MULTIPLY(mxf4, SCALED_MX);
    ax_tcgen05_commit(TENSOR_BAR);
  }
  SCALED_READ();
}
/* The scales are overwritten before they are copied. */
KERNEL(scaled_reused) {
  SCALED_BEGIN(127);
  if (T == 0) {
    SCALED_COPY();
    SCALED_MULTIPLY(mxf4, SCALED_MX);
    ax_tcgen05_commit(TENSOR_BAR);
  }
  ax_sync();
  h[4608 + T] = 0;
  SCALED_READ();
}
/* Another thread copies, and nothing orders the product after it. */
KERNEL(scaled_other_thread) {
  SCALED_BEGIN(127);
  if (T == 32) {
    SCALED_COPY();
    ax_tcgen05_commit(TENSOR_BAR);
  }
  ax_sync();
  ax_tcgen05_fence_after();
  if (T == 0)
    SCALED_MULTIPLY(mxf4, SCALED_MX);
  TENSOR_END();
}
/* New scales follow a commit of the product that read the old ones. */
KERNEL(scaled_twice) {
  SCALED_BEGIN(127);
  if (T == 0) {
    SCALED_COPY();
    SCALED_MULTIPLY(mxf4, SCALED_MX);
    ax_tcgen05_commit(TENSOR_BAR);
  }
  TENSOR_WAIT();
  ax_sync();
  if (T == 0) {
    SCALED_COPY();
    SCALED_MULTIPLY(mxf4, SCALED_MX);
    ax_tcgen05_commit(TENSOR_BAR);
  }
  ax_mbarrier_wait(TENSOR_BAR, 1);
  ax_tcgen05_fence_after();
  TENSOR_READ();
  TENSOR_END();
}
