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
        double most = s.mma_kind == MMA_KIND_WGMMA     ? gpu.f16_wgmma_rate
                      : s.mma_kind == MMA_KIND_TCGEN05 ? gpu.f16_tcgen05_rate
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

/* Three warpgroups that may repeat rows have no registers for tiles of 112 keys
 * (ptxas spilled). */
static void test_counting(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_F16, .k = 64, .e = 64, .align = 16};
  AttentionShape shape = attention_case_shape(&c, 4096, 4096, 16);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  Buffer why = {0};
  assert_true(gpu_spec("sm_90a", &gpu));
  assert_true(attention_choose(&shape, &gpu, &s, &seconds));
  assert_true(
      attention_override(&shape, &gpu, "m=192 warps_m=3 n=112", &s, &why));
  shape.may_count = true;
  assert_false(attention_fits(&shape, &gpu, &s));
  s.n = 96;
  assert_true(attention_fits(&shape, &gpu, &s));
  buffer_free(&why);
}

typedef struct Refusal {
  const char *fields, *why;
} Refusal;

static void check_refused(const AttentionShape *shape, const char *arch,
                          size_t count, const Refusal *refused) {
  GpuSpec gpu;
  GemmSchedule s, to;
  double seconds;
  assert_true(gpu_spec(arch, &gpu));
  assert_true(attention_choose(shape, &gpu, &s, &seconds));
  for (size_t j = 0; j < count; j++) {
    Buffer why = {0};
    to = s;
    assert_false(attention_override(shape, &gpu, refused[j].fields, &to, &why));
    assert_string_equal(why.text, refused[j].why);
    assert_memory_equal(&to, &s, sizeof s);
    buffer_free(&why);
  }
}

/* A refusal names the field, its value, the limit, and a way out. */
static void test_fields(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_BF16, .k = 50, .e = 64, .align = 16};
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
  /* fields that a new way, or a new kind of stores, does not have */
  to.persistent = to.store_stages = 1;
  to.store = STORE_TMA;
  GemmSchedule engine = to;
  assert_true(attention_override(&shape, &gpu, "store=shared", &to, &why));
  assert_true(to.store == STORE_SHARED && !to.store_stages && to.persistent);
  to = engine;
  assert_true(attention_override(
      &shape, &gpu, "way=mma copy=async m=64 warps_m=4 n=32", &to, &why));
  assert_true(to.store == STORE_SHARED && !to.store_stages && !to.persistent);
  static const Refusal refused[] = {
      {"flight=1", "attention has no field flight"},
      {"raster=8", "attention has no field raster"},
      {"cluster_m=2", "attention has no field cluster_m"},
      {"split=2", "attention has no field split"},
      {"way=fma", "attention has way=mma, way=wgmma and way=tcgen05 only"},
      {"way=tcgen05",
       "way=tcgen05 needs the architecture sm_100a: use way=mma"},
      {"k=32", "k=32: a tile has the whole head dimension, 50, as a multiple "
               "of 16: write k=64"},
      {"store=direct", "attention stores its results through shared memory or "
                       "by TMA: write store=shared"},
      {"way=mma copy=async warps_m=4 m=64 store=engine waiting=1",
       "store=engine needs way=wgmma or way=tcgen05: write store=shared"},
      {"store=shared waiting=1", "waiting=1 needs store=engine: leave waiting "
                                 "out, or write waiting=0"},
      {"store=engine waiting=5",
       "waiting=5: with store=engine, it must be 1 to 4"},
      {"warps_n=2", "warps_n=2: attention has warps along the rows only, so "
                    "warps_n must be 1"},
      {"warps_m=4", "warps_m=4: with way=wgmma, it must be 1 to 3"},
      {"warps_m=2 m=100", "m=100 warps_m=2: with way=wgmma, m must be 64 x "
                          "warps_m, here 128"},
      {"way=mma copy=async warps_m=9",
       "warps_m=9: with way=mma, it must be 1 to 8"},
      {"way=mma copy=async warps_m=4 m=128",
       "m=128 warps_m=4: with way=mma, m must be 16 x warps_m, here 64"},
      {"way=mma warps_m=4 m=64", "way=mma needs copy=async on this GPU"},
      {"copy=async", "way=wgmma needs copy=engine on this GPU"},
      {"n=16", "n=16: the keys of a tile must be a multiple of 16 from 32 to "
               "256"},
      {"n=72", "n=72: the keys of a tile must be a multiple of 16 from 32 to "
               "256"},
      {"n=272", "n=272: the keys of a tile must be a multiple of 16 from 32 "
                "to 256"},
      {"stages=1", "stages=1: it must be from 2 to 8"},
      {"stages=9", "stages=9: it must be from 2 to 8"},
      {"m=64 warps_m=1 n=192 stages=8",
       "m=64 n=192 k=64 stages=8: a block uses 401680 bytes of shared memory, "
       "and it can use 232448: write stages=4"},
      {"m=192 warps_m=3 n=256 stages=2",
       "m=192 n=256 k=64 stages=2: a thread uses some 256 registers, and it "
       "can use 160: write n=128"},
      {"persistent=2", "persistent=2: it must be 0 or 1"},
      {"way=mma copy=async warps_m=4 m=64 persistent=1",
       "persistent=1 needs way=wgmma or way=tcgen05: write persistent=0"},
      {"blocks=2", "blocks=2: with these fields it is blocks=1; blocks follows "
                   "from the others, so leave it out"},
  };
  check_refused(&shape, "sm_90a", ARRAY_LEN(refused), refused);
  buffer_free(&text);
  buffer_free(&why);
}

/* Operands and architectures without warpgroups. */
static void test_wgmma_refused(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_F16, .k = 64, .e = 64, .align = 16};
  const AttentionShape shape = attention_case_shape(&c, 500, 500, 4);
  AttentionShape query = shape, key = shape, value = shape, two = shape;
  query.query.computed = true;
  key.key.tma_copyable = false;
  value.value.align_bytes = 8;
  two.query2 = two.query;
  two.key2 = two.key;
  two.head_dim2 = 64;
  check_refused(&shape, "sm_80", 1,
                &(Refusal){"way=wgmma", "way=wgmma needs the architecture "
                                        "sm_90a: use way=mma"});
  check_refused(
      &shape, "sm_75", 1,
      &(Refusal){"stages=3", "stages=3: with copy=registers it must be 2"});
  check_refused(&query, "sm_90a", 1,
                &(Refusal){"way=wgmma", "the query is computed, and TMA only "
                                        "copies: use way=mma"});
  check_refused(
      &key, "sm_90a", 1,
      &(Refusal){"way=wgmma", "TMA cannot copy the keys: use way=mma"});
  check_refused(
      &value, "sm_90a", 1,
      &(Refusal){"way=wgmma", "TMA cannot copy the values: use way=mma"});
  check_refused(&two, "sm_90a", 1,
                &(Refusal){"way=wgmma",
                           "these scores are computed from two products: use "
                           "way=mma"});
}

/* Schedules of sm_100a. */
static void test_tcgen05(void **state) {
  (void)state;
  AttentionCase c = {.in = DT_BF16, .k = 128, .e = 128, .align = 16};
  AttentionShape shape = attention_case_shape(&c, 4096, 4096, 32);
  GpuSpec gpu;
  GemmSchedule s, to;
  double seconds;
  Buffer why = {0};
  assert_true(gpu_spec("sm_100a", &gpu));
  assert_true(attention_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.mma_kind == MMA_KIND_TCGEN05 && s.persistent && s.m == 256 &&
              s.n == 128 && s.store == STORE_TMA);
  assert_int_equal(attention_tmem_columns(&shape, &s), 512);
  assert_int_equal(gemm_threads(&s), 128 * (1 + s.warps_m));
  to = s;
  assert_true(
      attention_override(&shape, &gpu, "m=128 warps_m=1 n=64", &to, &why));
  assert_int_equal(attention_tmem_columns(&shape, &to), 192);
  to = s;
  assert_true(attention_override(
      &shape, &gpu, "way=mma copy=async m=64 warps_m=4 n=32", &to, &why));
  assert_true(attention_override(
      &shape, &gpu, "way=tcgen05 copy=engine m=128 warps_m=1", &to, &why));
  assert_true(to.persistent && to.store == STORE_SHARED);
  static const Refusal refused[] = {
      {"persistent=0", "way=tcgen05 needs persistent=1"},
      {"m=384 warps_m=3", "warps_m=3: with way=tcgen05, it must be 1 to 2"},
      {"m=128", "m=128 warps_m=2: with way=tcgen05, m must be 128 x warps_m, "
                "here 256"},
      {"n=24", "n=24: the keys of a tile must be a multiple of 16 from 32 to "
               "256"},
      {"n=160", "m=256 n=160: a block uses 576 columns of tensor memory, and "
                "there are 512: write n=128"},
      {"way=wgmma", "way=wgmma needs the architecture sm_90a: use way=mma"},
      {"m=128 warps_m=1 n=256 stages=2",
       "m=128 n=256 k=128 stages=2: a block uses 295024 bytes of shared "
       "memory, and it can use 232448: write n=192"},
      {"copy=async", "way=tcgen05 needs copy=engine on this GPU"},
      {"accumulators=2", "attention has no field accumulators"},
  };
  check_refused(&shape, "sm_100a", ARRAY_LEN(refused), refused);
  shape.value_dim = 256;
  static const Refusal wide[] = {
      {"m=256 warps_m=2 n=32",
       "m=256 n=32: a block uses 576 columns of tensor memory, and there are "
       "512: write m=128 warps_m=1"}};
  check_refused(&shape, "sm_100a", 1, wide);
  buffer_free(&why);
}

/* fields: in place of the chosen ones; or "". */
static void compile(const Nvrtc *n, const AttentionCase *c, const char *arch,
                    double size, const char *fields) {
  AttentionShape shape = attention_case_shape(c, size, size, 32);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  Buffer text = {0}, what = {0};
  assert_true(gpu_spec(arch, &gpu));
  if (!attention_choose(&shape, &gpu, &s, &seconds))
    return;
  if (!attention_override(&shape, &gpu, fields, &s, &what))
    fail_msg("%s: %s", fields, what.text);
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
                         .computed = g % 3 == 1 && j,
                         .counts = kinds[(g + j) % 5] == ATTENTION_CAUSAL};
      compile(n, &c, cuda_archs[g], j ? 300 : 4096, "");
    }
}

/* Tiles that use nearly all registers, or all shared memory. */
static void test_compile_persistent(void **state) {
  (void)state;
  static const struct {
    AttentionCase c;
    const char *fields;
  } cases[] = {
      {{DT_BF16, DT_BF16, ATTENTION_CAUSAL, 128, 128, 16, .counts = true},
       "way=wgmma m=128 warps_m=2 n=128 persistent=1 store=engine waiting=1"},
      {{DT_BF16, DT_F32, ATTENTION_CAUSAL, 64, 64, 16, .counts = true},
       "way=wgmma m=192 warps_m=3 n=96 persistent=1 store=shared"},
      {{DT_F16, DT_F16, ATTENTION_PLAIN, 64, 64, 16, .counts = false},
       "way=wgmma m=192 warps_m=3 n=112 persistent=1 store=engine waiting=2"},
      {{DT_F16, DT_F16, ATTENTION_PLAIN, 64, 64, 16, .counts = false},
       "way=wgmma m=192 warps_m=3 n=128 persistent=0 store=engine waiting=2"},
      {{DT_BF16, DT_BF16, ATTENTION_PLAIN, 128, 128, 16, .counts = false},
       "way=wgmma m=128 warps_m=2 n=176 stages=2 persistent=0 store=engine "
       "waiting=1"},
  };
  const Nvrtc *n = cuda_compiler();
  for (size_t j = 0; j < ARRAY_LEN(cases); j++)
    compile(n, &cases[j].c, "sm_90a", 4096, cases[j].fields);
}

static void test_compile_tcgen05(void **state) {
  (void)state;
  static const struct {
    AttentionCase c;
    const char *fields;
  } cases[] = {
      {{DT_BF16, DT_BF16, ATTENTION_CAUSAL, 128, 128, 16, .counts = false},
       "m=256 warps_m=2 n=128 stages=2 store=engine waiting=1"},
      {{DT_F16, DT_F32, ATTENTION_WINDOW, 64, 64, 16, .counts = false},
       "m=256 warps_m=2 n=128 store=shared"},
      {{DT_F16, DT_F16, ATTENTION_PLAIN, 256, 256, 16, .counts = false}, ""},
  };
  const Nvrtc *n = cuda_compiler();
  for (size_t j = 0; j < ARRAY_LEN(cases); j++)
    compile(n, &cases[j].c, "sm_100a", 4096, cases[j].fields);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choose),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_wide),
      cmocka_unit_test(test_tcgen05),
      cmocka_unit_test(test_fields),
      cmocka_unit_test(test_counting),
      cmocka_unit_test(test_wgmma_refused),
      cmocka_unit_test(test_compile),
      cmocka_unit_test(test_compile_persistent),
      cmocka_unit_test(test_compile_tcgen05),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
