/* Contractions: schedules are read as they are printed; the ones that are
 * chosen fit the GPU; their texts compile for each architecture, and no
 * register is spilt. */
#include "tests/unit/gemm_cases.h"

#include "tests/unit/cuda_compile.h"

/* ---- schedules as text ---- */

static void test_record(void **state) {
  (void)state;
  GemmSchedule s = {.way = GEMM_MMA, .copy = COPY_ASYNC, .m = 128, .stages = 3};
  GemmSchedule back = {0};
  Buffer text = {0}, why = {0};
  gemm_print(&text, &s);
  assert_string_equal(text.text, "way=mma copy=async m=128 stages=3");
  assert_true(gemm_parse(&back, text.text, &why));
  assert_memory_equal(&s, &back, sizeof s);
  assert_true(gemm_parse(&back, " stages=4\n n=64 ", &why));
  assert_true(back.stages == 4 && back.n == 64 && back.m == 128);
  static const char *const wrong[][2] = {
      {"m=64 height=3", "height is no field of a schedule"},
      {"way=fast", "way=fast: that is no value of way"},
      {"m=-1", "m=-1: that is no value of m"},
      {"m=", "m=: that is no value of m"},
      {"m", "m: that is no value of m"},
      {"m=3x", "m=3x: that is no value of m"},
      {"copy=1", "copy=1: that is no value of copy"},
  };
  for (size_t j = 0; j < ARRAY_LEN(wrong); j++) {
    why.len = 0;
    assert_false(gemm_parse(&back, wrong[j][0], &why));
    assert_string_equal(why.text, wrong[j][1]);
    assert_true(back.m == 128);
  }
  buffer_free(&text);
  buffer_free(&why);
}

/* ---- choosing ---- */

static const Dtype types[][3] = {{DT_BF16, DT_F32, DT_BF16},
                                 {DT_F16, DT_F32, DT_F16},
                                 {DT_F32, DT_F32, DT_F32},
                                 {DT_F64, DT_F64, DT_F64}};

static void test_choose(void **state) {
  (void)state;
  static const double sizes[] = {1, 17, 128, 1000, 8192};
  for (size_t g = 0; g < ARRAY_LEN(cuda_archs); g++)
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
      for (size_t x = (g + t) % 4; x < 125; x += 4) {
        GemmCase c = {.in = types[t][0],
                      .sum = types[t][1],
                      .out = types[t][2],
                      .align = x % 2 ? 16 : 2,
                      .a_turned = x % 3 == 0,
                      .b_turned = x % 4 == 0};
        double m = sizes[x % 5], n = sizes[x / 5 % 5], k = sizes[x / 25];
        GemmShape shape = gemm_case_shape(&c, m, n, k, 1);
        GemmGpu gpu;
        GemmSchedule s;
        double seconds;
        assert_true(gemm_gpu(cuda_archs[g], &gpu));
        if (!gemm_choose(&shape, &gpu, &s, &seconds)) {
          /* bf16 is none of sm_75's: it becomes f32 on its way */
          assert_true(c.in == DT_BF16 && gpu.arch == 75);
          continue;
        }
        assert_true(gemm_fits(&shape, &gpu, &s));
        assert_true(gemm_shared(&shape, &s) <= gpu.block);
        assert_true(seconds == gemm_seconds(&shape, &gpu, &s));
        /* no faster than the machine */
        double most = c.in == DT_F64        ? gpu.twice
                      : c.in == DT_F32      ? gpu.single
                      : s.way == GEMM_WGMMA ? gpu.group
                                            : gpu.half;
        assert_true(seconds * gpu.clock * gpu.sms * most >= 2 * m * n * k);
        assert_true(seconds * gpu.memory >=
                    (m + n) * k * dtype_info[c.in].bytes);
      }
  GemmGpu gpu;
  assert_false(gemm_gpu("sm_70", &gpu));
  assert_false(gemm_gpu("x", &gpu));
}

/* Large tiles where there are many, and sums that are cut where there are too
 * few for the machine. */
static void test_chosen(void **state) {
  (void)state;
  GemmCase c = {.in = DT_BF16, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 4096, 4096, 4096, 1);
  GemmGpu gpu;
  GemmSchedule s;
  double seconds, least;
  assert_true(gemm_gpu("sm_80", &gpu));
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.m * s.n >= 128 * 128 && s.split == 1);
  least = 2.0 * 4096 * 4096 * 4096 / (gpu.sms * gpu.half * gpu.clock);
  assert_true(seconds < 1.4 * least);
  shape = gemm_case_shape(&c, 64, 64, 65536, 1);
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.split > 1);
  shape.alone = true;
  assert_true(gemm_choose(&shape, &gpu, &s, &least));
  assert_true(s.split == 1 && least > seconds);
}

/* ---- compiled ---- */

static void compile(const Nvrtc *n, const GemmCase *c, const char *arch,
                    double size) {
  GemmShape shape = gemm_case_shape(c, size, size, size, 1);
  GemmGpu gpu;
  GemmSchedule s;
  double seconds;
  Buffer text = {0}, what = {0};
  assert_true(gemm_gpu(arch, &gpu));
  if (!gemm_choose(&shape, &gpu, &s, &seconds))
    return;
  gemm_print(&what, &s);
  gemm_case_text(c, &shape, &s, &text);
  cuda_compiles(n, "gemm", text.text, arch, what.text);
  buffer_free(&text);
  buffer_free(&what);
}

static void test_compile(void **state) {
  (void)state;
  const Nvrtc *n = cuda_compiler();
  static const uint32_t aligns[] = {16, 2, 8};
  for (size_t g = 0; g < ARRAY_LEN(cuda_archs); g++)
    for (size_t j = 0; j < 4; j++) {
      size_t t = (g + j) % 4;
      GemmCase c = {.in = types[t][0],
                    .sum = types[t][1],
                    .out = types[t][2],
                    .align = aligns[j % 3],
                    .bias = j % 2,
                    .a_turned = (g + j) % 3 == 0,
                    .b_turned = (g + j) % 5 < 2,
                    .tf32 = j == 0,
                    .computed = j == 3};
      compile(n, &c, cuda_archs[g], j == 2 ? 200 : 4096);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_record),
      cmocka_unit_test(test_choose),
      cmocka_unit_test(test_chosen),
      cmocka_unit_test(test_compile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
