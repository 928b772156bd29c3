/* Every wrapper of sm_80 on. */
struct sm80_args {
  const void *in;
  float *out;
};
extern "C" __global__ void __launch_bounds__(128)
    sm80(const __grid_constant__ sm80_args a) {
  unsigned at = ax_shared_address(ax_shared()) + threadIdx.x * 16;
  const char *in = (const char *)a.in + threadIdx.x * 16;
  ax_copy_16(at, in, 16);
  ax_copy_8(at, in, 5);
  ax_copy_4(at, in, 0);
  ax_copy_commit();
  ax_copy_wait<1>();
  ax_copy_wait<0>();
  ax_sync();
  const unsigned *r = (const unsigned *)ax_shared() + threadIdx.x;
  unsigned x[4] = {r[0], ax_tf32(__uint_as_float(r[1])), r[2], r[3]};
  float d[4] = {0, 0, 0, 0};
  ax_mma_m16n8k16_f16(d, x, x + 2);
  ax_mma_m16n8k16_bf16(d, x, x + 1);
  ax_mma_m16n8k8_tf32(d, x, x);
  a.out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
