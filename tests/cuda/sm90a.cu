/* Wrappers of sm_90a alone; those of products are named by the test. */
struct sm90a_args {
  float *out;
};
extern "C" __global__ void __launch_bounds__(128)
    sm90a(const __grid_constant__ sm90a_args a) {
  unsigned long long where =
      ax_wgmma_descriptor(ax_shared_address(ax_shared()), 16, 1024, 1);
  unsigned r[4] = {threadIdx.x, 1, 2, 3};
  float sum = 0;
  ax_registers_more<232>();
#define PRODUCT(name, count, ...)              \
  {                                            \
    float d[count];                            \
    for (int i = 0; i < count; i++)            \
      d[i] = 0;                                \
    ax_wgmma_fence();                          \
    name(d, __VA_ARGS__, where, threadIdx.x);  \
    ax_wgmma_commit();                         \
    ax_wgmma_wait<0>();                        \
    ax_hold(d);                                \
    for (int i = 0; i < count; i++)            \
      sum += d[i];                             \
  }
  PRODUCTS
  ax_registers_less<40>();
  a.out[threadIdx.x] = sum + __uint_as_float(r[0]);
}
