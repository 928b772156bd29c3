/* Every wrapper that each architecture has, once: tests/unit/wrappers_test.c
 * compiles it, and tests/unit/sim_test.c has a look at what some of them do. */
struct any_args {
  const void *in;
  float *out;
  int n;
};
extern "C" __global__ void __launch_bounds__(128)
    any(const __grid_constant__ any_args a) {
  unsigned char *memory = ax_shared();
  unsigned at = ax_shared_address(memory), r[4];
  const char *in = (const char *)a.in + threadIdx.x * 16;
  int i = (int)threadIdx.x;
  bool p = i < a.n;
  uint4 v = ax_load_16(in), w = ax_load_16_once(in);
  uint2 v2 = ax_load_8(in), w2 = ax_load_8_once(in);
  float sum = __uint_as_float(ax_load_4(in) + ax_load_4_once(in));
  ((uint4 *)memory)[i] = v;
  ax_sync();
  sum += (float)(ax_sync_or(p) + ax_sync_and(p) + ax_sync_count(p));
  ax_barrier_arrive(1, 256);
  ax_barrier_sync(2, 128);
  ax_sync_warp();
  sum += (float)(ax_lane() + ax_warp());
  sum += ax_shuffle(sum, 3) + ax_shuffle_xor(sum, 1) + ax_shuffle_up(sum, 2) +
         ax_shuffle_down(sum, 4);
  sum += (float)ax_shuffle(1.0 * i, 3);
  sum += (float)(ax_ballot(p) + ax_any(p) + ax_all(p));
  ax_ldmatrix_4(r, at + ax_lane() * 16);
  sum += (float)(r[0] + r[1] + r[2] + r[3]);
  ax_ldmatrix_2(r, at + ax_lane() % 16 * 16);
  sum += (float)(r[0] + r[1]);
  ax_ldmatrix_1(r, at + ax_lane() % 8 * 16);
  sum += (float)r[0];
  ax_ldmatrix_4_trans(r, at + ax_lane() * 16);
  sum += (float)(r[0] + r[1] + r[2] + r[3]);
  ax_ldmatrix_2_trans(r, at + ax_lane() % 16 * 16);
  sum += (float)(r[0] + r[1]);
  ax_ldmatrix_1_trans(r, at + ax_lane() % 8 * 16);
  sum += (float)r[0];
  float d[4] = {sum, 0, 0, 0};
  ax_mma_m16n8k8_f16(d, &v.x, &v.z);
  sum = d[0] + d[1] + d[2] + d[3];
  v.x += ax_pack_f16(sum, 1) + ax_pack_bf16(sum, 2);
  sum += ax_f16_to_f32(ax_low(v.x)) + ax_bf16_to_f32(ax_high(v.x));
  v.y += ax_f32_to_f16(sum) + ax_f32_to_bf16(sum);
  sum = ax_exp2(sum) + ax_log2(sum) + ax_reciprocal(sum) + ax_rsqrt(sum) +
        ax_tanh(sum);
  sum += ax_f4_e2m1_to_f32(ax_f32_to_f4_e2m1(sum)) +
         ax_f8_e8m0_to_f32(ax_f32_to_f8_e8m0(sum));
  ax_store_16(a.out + i * 4, v);
  ax_store_8(a.out + i * 4, v2);
  ax_store_4(a.out + i * 4, __float_as_uint(sum));
  ax_store_16_once(a.out + i * 4, w);
  ax_store_8_once(a.out + i * 4, w2);
  ax_store_4_once(a.out + i * 4, 1);
}
