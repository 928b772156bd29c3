/* Kernels that are right beside kernels that are not; tests/unit/sim_test.c has
 * what the simulator is to say of each, and writes their heads. */
struct fault_args {
  const float *in;
  float *out;
  int n;
};
#define T ((int)threadIdx.x)

/* ---- plain accesses ---- */

KERNEL(copies) {
  a.out[T] = a.in[T] + 1;
}
KERNEL(reads_beyond) {
  a.out[T] = a.in[T + 1];
}
KERNEL(reads_before) {
  a.out[T] = a.in[T - 1];
}
KERNEL(reads_nothing) {
  a.out[T] = *(const float *)4096;
}
KERNEL(writes_input) {
  ((float *)a.in)[T] = 0;
}
KERNEL(writes_beyond) {
  a.out[T + a.n] = 0;
}
KERNEL(misaligned) {
  a.out[T] = *(const float *)((const char *)a.in + 2);
}
KERNEL(misaligned_struct) {
  float4 *out = (float4 *)(a.out + 2);
  out[0] = *(const float4 *)a.in;
}
KERNEL(misaligned_load) {
  ax_store_16(a.out, ax_load_16(a.in + 1));
}
KERNEL(load_beyond) {
  uint4 v = ax_load_16_once(a.in + T * 4);
  if (v.x == 1)
    ax_store_16(a.out, v);
}
KERNEL(table) {
  static __device__ const float values[4] = {1, 2, 3, 4};
  a.out[T] = values[T % 4];
}

/* ---- shared memory ---- */

KERNEL(rotates) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync();
  a.out[T] = s[(T + 1) % 128];
}
KERNEL(rotates_race) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  a.out[T] = s[(T + 1) % 128];
}
KERNEL(rotates_early) { /* the second write comes too early */
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync();
  a.out[T] = s[(T + 1) % 128];
  s[T] = 0;
}
KERNEL(writes_twice) {
  float *s = (float *)ax_shared();
  s[0] = a.in[T];
}
KERNEL(uninitialised) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync();
  a.out[T] = s[T + 1];
}
/* Arrays in registers are not memory that anybody wrote: what was not set is
 * no number, which stays so times 0. */
KERNEL(unset) {
  float two[2], many[16];
  for (int i = 1; i < 16; i++)
    two[i / 8] = many[i] = 0;
  for (int i = 0; i < 16; i++)
    two[i / 8] += many[i] *= 0;
  a.out[T] = isnan(two[0]) && isnan(many[0]) && two[1] == 0;
}
KERNEL(unset_one) {
  float two[2];
  two[T % 2] = 0;
  float x = two[0] * 0, y = two[1] * 0;
  a.out[T] = isnan(x) + isnan(y);
}
AX_DEVICE float4 four(float x) {
  return make_float4(x, x, x, x);
}
KERNEL(structs_race) {
  float4 *s = (float4 *)ax_shared();
  s[T] = four(a.in[T]);
  float4 v = s[T ^ 1];
  a.out[T] = v.x;
}
KERNEL(structs_beyond) {
  uint4 *s = (uint4 *)ax_shared();
  s[T + 400] = ax_load_16(a.in);
}
KERNEL(shared_beyond) {
  float *s = (float *)ax_shared();
  s[T + 8192 / 4 - 127] = 0;
}
KERNEL(warp_rotates) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync_warp();
  a.out[T] = s[T ^ 1];
}
KERNEL(warp_rotates_far) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync_warp();
  a.out[T] = s[T ^ 32];
}
KERNEL(shuffle_orders_not) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  a.out[T] = ax_shuffle_xor(1.0f, 1);
  a.out[T] = s[T ^ 1];
}
KERNEL(bytes) { /* neighbours, each its own byte */
  unsigned char *s = ax_shared();
  s[T] = (unsigned char)T;
  ax_sync();
  a.out[T] = s[127 - T];
}
KERNEL(bytes_unset) { /* one byte of a word */
  unsigned char *s = ax_shared();
  for (int j = 0; j < 3; j++)
    s[4 * T + j] = (unsigned char)T;
  a.out[T] = ((unsigned *)s)[T];
}
KERNEL(counts) {
  int *s = (int *)ax_shared();
  if (T == 0)
    s[0] = 0;
  ax_sync();
  atomicAdd(&s[0], T);
  ax_sync();
  a.out[T] = (float)s[0];
}
KERNEL(counts_race) {
  int *s = (int *)ax_shared();
  if (T == 0)
    s[0] = 0;
  ax_sync();
  atomicAdd(&s[0], T);
  a.out[T] = (float)s[0];
}

/* ---- barriers ---- */

KERNEL(named) { /* the second half of the block hears of the first */
  float *s = (float *)ax_shared();
  if (T < 64) {
    s[T] = a.in[T];
    ax_barrier_arrive(1, 128);
    a.out[T] = 0;
  } else {
    ax_barrier_sync(1, 128);
    a.out[T] = s[T - 64];
  }
}
KERNEL(named_other) { /* and not where it waits for another */
  float *s = (float *)ax_shared();
  if (T < 64) {
    s[T] = a.in[T];
    ax_barrier_arrive(1, 128);
  } else {
    ax_barrier_sync(2, 64);
    a.out[T] = s[T - 64];
  }
}
KERNEL(named_count) {
  if (T < 64)
    ax_barrier_sync(1, 128);
  else
    ax_barrier_sync(1, 96);
}
KERNEL(named_alone) {
  if (T < 64)
    ax_barrier_sync(3, 96);
}
KERNEL(sync_missed) {
  if (T < 64)
    ax_sync();
  else
    ax_barrier_sync(1, 128);
}
KERNEL(sync_left) { /* those who have ended are not waited for */
  if (T >= 64)
    return;
  ax_sync();
  a.out[T] = (float)ax_sync_count(T < 3);
}
KERNEL(sync_diverges) {
  if (T & 1)
    ax_sync();
  else
    ax_sync();
}

/* ---- warps ---- */

KERNEL(values) {
  int lane = (int)ax_lane();
  bool good = ax_shuffle(lane, 5) == 5 &&
              ax_shuffle_xor(lane, 3) == (lane ^ 3) &&
              ax_shuffle_up(lane, 2) == (lane < 2 ? lane : lane - 2) &&
              ax_shuffle_down(lane, 1) == (lane == 31 ? 31 : lane + 1) &&
              ax_shuffle((double)lane, 7) == 7.0 &&
              ax_ballot(lane < 3) == 7 && ax_any(lane == 9) &&
              !ax_any(lane > 40) && ax_all(lane < 32) && !ax_all(lane) &&
              ax_warp() == (unsigned)T / 32 && lane == T % 32 &&
              ax_sync_or(T == 77) && !ax_sync_or(T > 200) &&
              ax_sync_and(T >= 0) && !ax_sync_and(T != 3) &&
              ax_sync_count(T < 10) == 10;
  int elected = ax_elect();
  for (int d = 16; d; d /= 2)
    elected += ax_shuffle_xor(elected, d);
  a.out[T] = good && elected == 1;
}
KERNEL(shuffle_diverges) {
  int v = 0;
  if (ax_lane() < 16)
    v = ax_shuffle(T, 0);
  else
    v = ax_shuffle(T, 1);
  a.out[T] = (float)v;
}
KERNEL(shuffle_left) {
  if (ax_lane() == 3)
    return;
  a.out[T] = (float)ax_shuffle(T, 0);
}
KERNEL(shuffle_mixed) {
  if (ax_lane() < 16)
    a.out[T] = (float)ax_shuffle(T, 0);
  else
    a.out[T] = ax_any(T == 3);
}

/* ---- cp.async ---- */

KERNEL(async_copies) {
  float *s = (float *)ax_shared();
  unsigned at = ax_shared_address(s);
  ax_copy_4(at + T * 4, a.in + T, T % 4 == 3 ? 0 : 4);
  ax_copy_commit();
  ax_copy_wait<0>();
  ax_sync();
  a.out[T] = s[127 - T];
}
KERNEL(async_no_wait) {
  float *s = (float *)ax_shared();
  ax_copy_4(ax_shared_address(s) + T * 4, a.in + T, 4);
  ax_copy_commit();
  ax_sync();
  a.out[T] = s[127 - T];
}
KERNEL(async_no_commit) {
  float *s = (float *)ax_shared();
  ax_copy_4(ax_shared_address(s) + T * 4, a.in + T, 4);
  ax_copy_wait<0>();
  ax_sync();
  a.out[T] = s[127 - T];
}
KERNEL(async_no_sync) {
  float *s = (float *)ax_shared();
  ax_copy_4(ax_shared_address(s) + T * 4, a.in + T, 4);
  ax_copy_commit();
  ax_copy_wait<0>();
  a.out[T] = s[127 - T];
}
KERNEL(async_too_few) { /* of two groups the first is done */
  float *s = (float *)ax_shared();
  unsigned at = ax_shared_address(s) + T * 4;
  ax_copy_4(at, a.in + T, 4);
  ax_copy_commit();
  ax_copy_4(at + 512, a.in + T, 4);
  ax_copy_commit();
  ax_copy_wait<1>();
  a.out[T] = s[T] + s[T + 128];
}
KERNEL(async_early_reuse) {
  float *s = (float *)ax_shared();
  s[T] = 1;
  ax_sync();
  a.out[T] = s[127 - T];
  ax_copy_4(ax_shared_address(s) + T * 4, a.in + T, 4);
  ax_copy_commit();
  ax_copy_wait<0>();
}
KERNEL(async_beyond) {
  ax_copy_16(ax_shared_address(ax_shared()) + T * 96, a.in + T % 8 * 4, 16);
}
KERNEL(async_misaligned) {
  ax_copy_16(ax_shared_address(ax_shared()) + T * 16 + 8, a.in, 16);
}

/* ---- matrices ---- */

KERNEL(matrix_race) {
  unsigned r[4], at = ax_shared_address(ax_shared());
  uint4 v = {1, 2, 3, 4};
  ((uint4 *)ax_shared())[T] = v;
  ax_ldmatrix_4(r, at + (ax_lane() + 1) % 32 * 16);
  a.out[T] = (float)r[0];
}
KERNEL(matrix_misaligned) {
  unsigned r[4], at = ax_shared_address(ax_shared());
  ((float *)ax_shared())[T] = 0;
  ax_sync();
  ax_ldmatrix_4(r, at + ax_lane() * 8);
}
KERNEL(matrix_beyond) {
  unsigned r[4], at = ax_shared_address(ax_shared());
  ax_stmatrix_4(at + 8192 - 16 * 31 + ax_lane() * 16, r);
}

/* ---- mbarriers ---- */

#define BAR (ax_shared_address(ax_shared()) + 4096)
#define BEGIN(count)            \
  if (T == 0) {                 \
    ax_mbarrier_init(BAR, count); \
    ax_fence_mbarrier_init();   \
  }                             \
  ax_sync()
KERNEL(phases) { /* half of the threads hand numbers to the others */
  float *s = (float *)ax_shared();
  unsigned full = BAR, empty = BAR + 8;
  if (T == 0) {
    ax_mbarrier_init(full, 64);
    ax_mbarrier_init(empty, 64);
    ax_fence_mbarrier_init();
  }
  ax_sync();
  float sum = 0;
  for (unsigned i = 0; i < 4; i++)
    if (T < 64) {
      ax_mbarrier_wait(empty, (i & 1) ^ 1);
      s[T] = a.in[T] * (float)(i + 1);
      ax_mbarrier_arrive(full);
    } else {
      ax_mbarrier_wait(full, i & 1);
      sum += s[127 - T];
      ax_mbarrier_arrive(empty);
    }
  a.out[T] = sum;
}
KERNEL(phase_wrong) { /* of the buffer that is not yet empty */
  float *s = (float *)ax_shared();
  unsigned full = BAR, empty = BAR + 8;
  if (T == 0) {
    ax_mbarrier_init(full, 64);
    ax_mbarrier_init(empty, 64);
    ax_fence_mbarrier_init();
  }
  ax_sync();
  for (unsigned i = 0; i < 4; i++)
    if (T < 64) {
      ax_mbarrier_wait(empty, 1);
      s[T] = a.in[T];
      ax_mbarrier_arrive(full);
    } else {
      ax_mbarrier_wait(full, i & 1);
      a.out[T] = s[127 - T];
      ax_mbarrier_arrive(empty);
    }
}
KERNEL(phase_never) {
  BEGIN(128);
  ax_mbarrier_arrive(BAR);
  ax_mbarrier_wait(BAR, 1);
  ax_mbarrier_wait(BAR, 1);
}
KERNEL(barrier_unordered) {
  if (T == 0)
    ax_mbarrier_init(BAR, 128);
  ax_mbarrier_arrive(BAR);
}
KERNEL(barrier_none) {
  BEGIN(128);
  ax_mbarrier_arrive(BAR + 8);
}
KERNEL(barrier_overwritten) {
  BEGIN(128);
  ((int *)ax_shared())[1024] = 0;
}
KERNEL(arrivals_too_many) {
  BEGIN(64);
  ax_mbarrier_expect(BAR, 16);
}
KERNEL(tries) {
  BEGIN(128);
  ax_mbarrier_arrive(BAR);
  while (!ax_mbarrier_try(BAR, 0))
    ;
  a.out[T] = 1;
}

/* ---- bulk copies ---- */

KERNEL(bulk) {
  float *s = (float *)ax_shared();
  unsigned at = ax_shared_address(s);
  BEGIN(1);
  if (T == 0) {
    ax_mbarrier_expect(BAR, 512);
    ax_bulk_load(at, a.in, 512, BAR);
  }
  ax_mbarrier_wait(BAR, 0);
  s[T + 128] = s[T] * 2;
  ax_fence_async();
  ax_sync();
  if (T == 0) {
    ax_bulk_store(a.out, at + 512, 512);
    ax_tma_commit();
    ax_tma_wait_read<0>();
  }
}
KERNEL(bulk_no_wait) {
  float *s = (float *)ax_shared();
  BEGIN(1);
  if (T == 0) {
    ax_mbarrier_expect(BAR, 512);
    ax_bulk_load(ax_shared_address(s), a.in, 512, BAR);
  }
  a.out[T] = s[T];
}
KERNEL(bulk_one_waits) {
  float *s = (float *)ax_shared();
  BEGIN(1);
  if (T == 0) {
    ax_mbarrier_expect(BAR, 512);
    ax_bulk_load(ax_shared_address(s), a.in, 512, BAR);
    ax_mbarrier_wait(BAR, 0);
  }
  a.out[T] = s[T];
}
KERNEL(bulk_expects_less) {
  float *s = (float *)ax_shared();
  BEGIN(1);
  if (T == 0) {
    ax_mbarrier_expect(BAR, 256);
    ax_bulk_load(ax_shared_address(s), a.in, 256, BAR);
    ax_bulk_load(ax_shared_address(s) + 256, a.in, 256, BAR);
  }
  ax_mbarrier_wait(BAR, 0);
  a.out[T] = s[T];
}
KERNEL(bulk_expects_more) {
  float *s = (float *)ax_shared();
  BEGIN(1);
  if (T == 0) {
    ax_mbarrier_expect(BAR, 512);
    ax_bulk_load(ax_shared_address(s), a.in, 256, BAR);
  }
  ax_mbarrier_wait(BAR, 0);
}
KERNEL(bulk_unfenced_barrier) {
  if (T == 0)
    ax_mbarrier_init(BAR, 1);
  ax_sync();
  if (T == 0)
    ax_bulk_load(ax_shared_address(ax_shared()), a.in, 256, BAR);
}
KERNEL(bulk_store_unfenced) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync();
  if (T == 0) {
    ax_bulk_store(a.out, ax_shared_address(s), 512);
    ax_tma_commit();
    ax_tma_wait<0>();
  }
}
KERNEL(bulk_store_unsynced) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_fence_async();
  if (T == 0) {
    ax_bulk_store(a.out, ax_shared_address(s), 512);
    ax_tma_commit();
    ax_tma_wait<0>();
  }
}
KERNEL(bulk_store_late) { /* it is read when the block has ended */
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_fence_async();
  ax_sync();
  if (T == 0) {
    ax_bulk_store(a.out, ax_shared_address(s), 512);
    ax_tma_commit();
  }
}
KERNEL(bulk_store_reused) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_fence_async();
  ax_sync();
  if (T == 0) {
    ax_bulk_store(a.out, ax_shared_address(s), 512);
    ax_tma_commit();
    s[0] = 1;
    ax_tma_wait<0>();
  }
}
KERNEL(bulk_odd) {
  BEGIN(1);
  if (T == 0)
    ax_bulk_load(ax_shared_address(ax_shared()), a.in, 20, BAR);
}
KERNEL(bulk_never_waited) {
  BEGIN(1);
  if (T == 0) {
    ax_mbarrier_expect(BAR, 512);
    ax_bulk_load(ax_shared_address(ax_shared()), a.in, 512, BAR);
  }
}

/* ---- clusters of two ---- */

KERNEL(neighbours) {
  float *s = (float *)ax_shared();
  unsigned rank = ax_cluster_rank();
  s[T] = a.in[T] + (float)rank;
  ax_cluster_sync();
  a.out[blockIdx.x * 128 + T] = __uint_as_float(
      ax_cluster_load_4(ax_shared_address(s) + T * 4, rank ^ 1));
  ax_cluster_sync();
}
KERNEL(neighbours_race) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_sync();
  a.out[T] = __uint_as_float(ax_cluster_load_4(ax_shared_address(s) + T * 4,
                                               ax_cluster_rank() ^ 1));
  ax_cluster_sync();
}
KERNEL(neighbours_left) {
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  ax_cluster_sync();
  if (ax_cluster_rank())
    return;
  for (int i = 0; i < 20; i++)
    __nanosleep(1);
  a.out[T] = __uint_as_float(ax_cluster_load_4(ax_shared_address(s), 1));
}
#define BEGIN_CLUSTER(count)      \
  if (T == 0) {                   \
    ax_mbarrier_init(BAR, count); \
    ax_fence_mbarrier_init();     \
  }                               \
  ax_cluster_sync()
KERNEL(neighbours_arrive) {
  unsigned rank = ax_cluster_rank();
  float *s = (float *)ax_shared();
  s[T] = a.in[T] + (float)rank;
  BEGIN_CLUSTER(128);
  ax_mbarrier_arrive_at(BAR, rank ^ 1);
  ax_mbarrier_wait(BAR, 0);
  a.out[blockIdx.x * 128 + T] = __uint_as_float(
      ax_cluster_load_4(ax_shared_address(s) + T * 4, rank ^ 1));
  ax_cluster_sync();
}
KERNEL(neighbours_handed) {
  unsigned rank = ax_cluster_rank();
  float *s = (float *)ax_shared();
  BEGIN_CLUSTER(128);
  s[T] = a.in[T] + (float)rank;
  ax_mbarrier_arrive_at(BAR, rank ^ 1);
  ax_mbarrier_wait(BAR, 0);
  a.out[blockIdx.x * 128 + T] = __uint_as_float(
      ax_cluster_load_4(ax_shared_address(s) + T * 4, rank ^ 1));
  ax_cluster_sync();
}
KERNEL(neighbours_told) { /* who waits is still there */
  BEGIN_CLUSTER(128);
  ax_mbarrier_arrive_at(BAR, ax_cluster_rank() ^ 1);
  ax_mbarrier_wait(BAR, 0);
}
KERNEL(neighbours_gone) {
  BEGIN_CLUSTER(128);
  ax_mbarrier_arrive_at(BAR, ax_cluster_rank() ^ 1);
}
#define BEGIN_RELAXED(count)      \
  if (T == 0) {                   \
    ax_mbarrier_init(BAR, count); \
    ax_fence_mbarrier_init();     \
  }                               \
  ax_cluster_begin()
KERNEL(neighbours_begun) {
  BEGIN_RELAXED(128);
  ax_mbarrier_arrive_at(BAR, ax_cluster_rank() ^ 1);
  ax_mbarrier_wait(BAR, 0);
}
KERNEL(neighbours_unfenced) {
  if (T == 0)
    ax_mbarrier_init(BAR, 128);
  ax_cluster_begin();
  ax_mbarrier_arrive_at(BAR, ax_cluster_rank() ^ 1);
  ax_mbarrier_wait(BAR, 0);
}
KERNEL(neighbours_relaxed) { /* orders no plain writes */
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  BEGIN_RELAXED(1);
  a.out[T] = __uint_as_float(ax_cluster_load_4(ax_shared_address(s) + T * 4,
                                               ax_cluster_rank() ^ 1));
  ax_cluster_sync();
}
KERNEL(neighbours_block) { /* nor those of the block */
  float *s = (float *)ax_shared();
  s[T] = a.in[T];
  BEGIN_RELAXED(1);
  a.out[T] = s[T ^ 1];
  ax_cluster_sync();
}
KERNEL(cluster_alone) {
  if (ax_cluster_rank())
    ax_cluster_arrive();
  else
    ax_cluster_sync();
}

/* ---- wgmma ---- */

/* A matrix of 64 x 16 and one of 8 x 16 bf16, K-major, no swizzle: rows of 8
 * elements lie together, 8 of them in 128 bytes. */
#define MATRICES()                                         \
  unsigned at = ax_shared_address(ax_shared());            \
  uint16_t *h = (uint16_t *)ax_shared();                   \
  for (int i = T; i < 1024 + 128; i += 128)                \
    h[i] = ax_f32_to_bf16(i < 1024 ? (float)(i % 7) : 1);  \
  float d[4] = {0, 0, 0, 0};                               \
  unsigned long long x = ax_wgmma_descriptor(at, 1024, 128, 0), \
                     y = ax_wgmma_descriptor(at + 2048, 128, 128, 0)
#define STORE(sum) a.out[T] = (sum)
KERNEL(product) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, true);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  ax_hold(d);
  STORE(d[0]);
}
KERNEL(product_no_hold) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  STORE(d[0]);
}
KERNEL(product_no_wait) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_commit();
  STORE(d[0]);
}
KERNEL(product_one_too_few) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_commit();
  ax_wgmma_wait<1>();
  ax_hold(d);
}
KERNEL(product_no_commit) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_wait<0>();
  STORE(d[0]);
}
KERNEL(product_no_fence) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
}
KERNEL(product_no_second_fence) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_commit();
  ax_wgmma_wait<0>();
  d[1] = a.in[T];
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, true);
}
KERNEL(product_unfenced_memory) {
  MATRICES();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
}
KERNEL(product_unsynced_memory) {
  MATRICES();
  ax_fence_async();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
}
KERNEL(product_memory_reused) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16<0, 0>(d, x, y, false);
  ax_wgmma_commit();
  ax_sync();
  h[T] = 0;
  ax_wgmma_wait<0>();
}
KERNEL(product_registers_reused) {
  MATRICES();
  unsigned r[4] = {1, 2, 3, (unsigned)T};
  ax_fence_async();
  ax_sync();
  ax_wgmma_fence();
  ax_wgmma_m64n8k16_bf16_ra<0>(d, r, y, false);
  ax_wgmma_commit();
  r[1] = (unsigned)a.n;
  ax_wgmma_wait<0>();
  STORE(d[0] + (float)r[1]);
}
KERNEL(product_half) {
  MATRICES();
  ax_fence_async();
  ax_sync();
  if (T < 64)
    ax_wgmma_fence();
}
