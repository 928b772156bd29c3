/* Tests attention on GPUs: chosen schedules fit the GPU, and their sources
 * compile for each architecture without spilling a register. */
#include "tests/unit/attention_cases.h"

#include "tests/unit/cuda_compile.h"

static const uint32_t dims[][2] = {{64, 64}, {128, 128}, {40, 72}, {256, 256}};

static void test_choose(void **state) {
  (void)state;
  for (size_t g = 0; g < ARRAY_LEN(cuda_archs); g++)
    for (size_t x = 0; x < 4 * 2 * 2; x++) {
      AttentionCase c = {.in = x % 2 ? DT_F16 : DT_BF16,
                         .k = dims[x / 4][0],
                         .e = dims[x / 4][1],
                         .align = x / 2 % 2 ? 16 : 2};
      for (double n = 1; n < 1e5; n *= 17) {
        AttentionShape shape = attention_case_shape(&c, n, n, 4);
        GpuSpec gpu;
        GemmSchedule s;
        double seconds;
        assert_true(gpu_spec(cuda_archs[g], &gpu));
        if (!attention_choose(&shape, &gpu, &s, &seconds)) {
          /* not for sm_75; or too many elements for shared memory, or for
           * registers if they are loaded one by one */
          assert_true(gpu.arch == 75 || (c.align < 4 && c.k == 256));
          continue;
        }
        assert_true(attention_fits(&shape, &gpu, &s));
        assert_true(attention_shared_bytes(&shape, &s) <=
                    gpu.block_shared_bytes);
        double work = 2 * n * n * 4 * (c.k + c.e);
        double most = s.mma_kind == MMA_KIND_WGMMA ? gpu.f16_wgmma_rate
                                                   : gpu.f16_mma_rate;
        assert_true(seconds * gpu.clock_hz * gpu.sms * most >= work);
        assert_int_equal(attention_blocks(&s, (int64_t)n, 4),
                         4 * (((int64_t)n + s.m - 1) / s.m));
      }
    }
  AttentionCase wide = {.in = DT_BF16, .k = 257, .e = 64, .align = 16};
  AttentionShape shape = attention_case_shape(&wide, 100, 100, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  assert_true(gpu_spec("sm_80", &gpu));
  assert_false(attention_choose(&shape, &gpu, &s, &seconds));
  shape.head_dim = 64;
  assert_true(attention_choose(&shape, &gpu, &s, &seconds));
  shape.key.dtype = DT_F16;
  assert_false(attention_choose(&shape, &gpu, &s, &seconds));
}

/* One warp that loads elements one by one has no registers for another round
 * (ptxas spilled).  Two warps load half as many each. */
static void test_again(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_F16, .k = 43, .e = 64, .align = 2};
  AttentionShape shape = attention_case_shape(&c, 60, 60, 4);
  shape.value.align_bytes = 16;
  GpuSpec gpu;
  GemmSchedule s = {.mma_kind = MMA_KIND_MMA_SYNC,
                    .copy = COPY_CP_ASYNC,
                    .store = STORE_SHARED,
                    .m = 16,
                    .n = 16,
                    .k = 48,
                    .warps_m = 1,
                    .warps_n = 1,
                    .stages = 2,
                    .split = 1,
                    .cluster_m = 1,
                    .cluster_n = 1};
  assert_true(gpu_spec("sm_120", &gpu));
  assert_true(attention_fits(&shape, &gpu, &s));
  shape.may_retry = true;
  assert_false(attention_fits(&shape, &gpu, &s));
  s.m = 32;
  s.warps_m = 2;
  assert_true(attention_fits(&shape, &gpu, &s));
}

/* Scores that are computed from 64-bit values leave no registers for tiles of
 * 128 terms that two warps load (ptxas spilled).  With more warps, each loads
 * less. */
static void test_wide(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_BF16, .k = 16, .e = 32, .align = 16};
  AttentionShape shape = attention_case_shape(&c, 100, 100, 4);
  shape.score_loads = 1;
  GpuSpec gpu;
  GemmSchedule s = {.mma_kind = MMA_KIND_MMA_SYNC,
                    .copy = COPY_CP_ASYNC,
                    .store = STORE_SHARED,
                    .m = 32,
                    .n = 128,
                    .k = 16,
                    .warps_m = 2,
                    .warps_n = 1,
                    .stages = 2,
                    .split = 1,
                    .cluster_m = 1,
                    .cluster_n = 1};
  assert_true(gpu_spec("sm_80", &gpu));
  assert_true(attention_fits(&shape, &gpu, &s));
  shape.score_converts_64_bits = true;
  assert_false(attention_fits(&shape, &gpu, &s));
  s.m = 64;
  s.warps_m = 4;
  assert_true(attention_fits(&shape, &gpu, &s));
}

/* Attention has no fields of matmuls. */
static void test_fields(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_BF16, .k = 64, .e = 64, .align = 16};
  AttentionShape shape = attention_case_shape(&c, 500, 500, 4);
  GpuSpec gpu;
  GemmSchedule s, to;
  double seconds;
  Buffer text = {0}, why = {0};
  assert_true(gpu_spec("sm_90a", &gpu));
  assert_true(attention_choose(&shape, &gpu, &s, &seconds));
  gemm_schedule_print(&text, &s);
  to = s;
  assert_true(attention_override(&shape, &gpu, text.text, &to, &why));
  assert_memory_equal(&to, &s, sizeof s);
  static const char *const fields[][2] = {
      {"flight=1", "attention has no field flight"},
      {"raster=8", "attention has no field raster"},
      {"cluster_m=2", "attention has no field cluster_m"},
      {"split=2", "attention has no field split"},
      {"k=32", "there is no such kernel, or it does not fit"},
      {"store=engine", "there is no such kernel, or it does not fit"}};
  for (size_t j = 0; j < ARRAY_LEN(fields); j++) {
    why.len = 0;
    assert_false(attention_override(&shape, &gpu, fields[j][0], &to, &why));
    assert_string_equal(why.text, fields[j][1]);
  }
  buffer_free(&text);
  buffer_free(&why);
}

static void compile(const Nvrtc *n, const AttentionCase *c, const char *arch,
                    double size) {
  AttentionShape shape = attention_case_shape(c, size, size, 32);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  Buffer text = {0}, what = {0};
  assert_true(gpu_spec(arch, &gpu));
  if (!attention_choose(&shape, &gpu, &s, &seconds))
    return;
  gemm_schedule_print(&what, &s);
  buffer_puts(&text, attention_arguments);
  attention_case_text(c, &shape, &s, "attention", &text);
  cuda_compiles(n, "attention", text.text, arch, what.text);
  buffer_free(&text);
  buffer_free(&what);
}

static void test_compile(void **state) {
  (void)state;
  const Nvrtc *n = cuda_compiler();
  static const AttentionKind kinds[] = {ATTENTION_CAUSAL, ATTENTION_PLAIN,
                                        ATTENTION_WINDOW, ATTENTION_SIGMOID,
                                        ATTENTION_CAPPED};
  for (size_t g = 0; g < ARRAY_LEN(cuda_archs); g++)
    for (size_t j = 0; j < 1 + g % 2; j++) {
      size_t d = (g + 3 * j) % 4;
      AttentionCase c = {.in = g ? DT_BF16 : DT_F16,
                         .out = DT_F16,
                         .k = dims[d][0],
                         .e = dims[d][1],
                         .kind = kinds[(g + j) % 5],
                         .align = g % 3 == 2 && j ? 4 : 16,
                         .computed = g % 3 == 1 && j};
      compile(n, &c, cuda_archs[g], j ? 300 : 4096);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choose),  cmocka_unit_test(test_again),
      cmocka_unit_test(test_wide),    cmocka_unit_test(test_fields),
      cmocka_unit_test(test_compile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
