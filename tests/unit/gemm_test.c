/* Tests contractions on GPUs: schedules are parsed as they are printed, chosen
 * schedules fit the GPU, and their sources compile for each architecture
 * without spilling a register. */
#include "tests/unit/gemm_cases.h"

#include "tests/unit/cuda_compile.h"

/* ---- schedules as text ---- */

static void test_record(void **state) {
  (void)state;
  GemmSchedule s = {.mma_kind = MMA_KIND_MMA_SYNC,
                    .copy = COPY_CP_ASYNC,
                    .m = 128,
                    .stages = 3};
  GemmSchedule back = {0};
  Buffer text = {0}, why = {0};
  gemm_schedule_print(&text, &s);
  assert_string_equal(text.text, "way=mma copy=async m=128 stages=3");
  assert_true(gemm_schedule_parse(&back, text.text, &why));
  assert_memory_equal(&s, &back, sizeof s);
  assert_true(gemm_schedule_parse(&back, " stages=4\n n=64 ", &why));
  assert_true(back.stages == 4 && back.n == 64 && back.m == 128);
  static const char *const wrong[][2] = {
      {"m=64 height=3", "height is not a field of a schedule"},
      {"way=fast", "way=fast: invalid value of way"},
      {"m=-1", "m=-1: invalid value of m"},
      {"m=", "m=: invalid value of m"},
      {"m", "m: invalid value of m"},
      {"m=3x", "m=3x: invalid value of m"},
      {"copy=1", "copy=1: invalid value of copy"},
  };
  for (size_t j = 0; j < ARRAY_LEN(wrong); j++) {
    why.len = 0;
    assert_false(gemm_schedule_parse(&back, wrong[j][0], &why));
    assert_string_equal(why.text, wrong[j][1]);
    assert_true(back.m == 128);
  }
  buffer_free(&text);
  buffer_free(&why);
}

typedef struct Refusal {
  const char *fields, *why;
} Refusal;

/* Each of the schedules is refused for its reason, and *s is unchanged. */
static void check_refused(const GemmShape *shape, const char *arch,
                          const GemmSchedule *s, size_t count,
                          const Refusal *refused) {
  GpuSpec gpu;
  assert_true(gpu_spec(arch, &gpu));
  for (size_t j = 0; j < count; j++) {
    GemmSchedule to = *s;
    Buffer why = {0};
    assert_false(gemm_override(shape, &gpu, refused[j].fields, &to, &why));
    assert_string_equal(why.text, refused[j].why);
    assert_memory_equal(&to, s, sizeof to);
    buffer_free(&why);
  }
}

/* A schedule that a person writes is used if there is such a kernel. */
static void test_change(void **state) {
  (void)state;
  GemmCase c = {.in = DT_BF16, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 4096, 4096, 4096, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  Buffer why = {0};
  assert_true(gpu_spec("sm_90a", &gpu));
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(gemm_override(&shape, &gpu, "way=mma m=64 n=128", &s, &why));
  assert_true(s.mma_kind == MMA_KIND_MMA_SYNC && s.n == 128 &&
              s.copy == COPY_CP_ASYNC);
  assert_true(
      gemm_override(&shape, &gpu, "way=wgmma n=256 flight=1", &s, &why));
  assert_true(s.mma_kind == MMA_KIND_WGMMA && s.stages_in_flight == 1 &&
              s.copy_a == 16);
  static const Refusal refused[] = {
      {"n=100", "n=100: n must be a multiple of 32"},
      {"m=96", "m=96 warps_m=2: warps_m must be 1 to 3 groups, each with a "
               "multiple of 64 rows"},
      {"m=128 n=128 pingpong=0 stages=9 store=shared",
       "m=128 n=128 k=64 stages=9: a block uses 316416 bytes of shared "
       "memory, and it can use 232448: write stages=6"},
      {"m=256 n=256 pingpong=0 store=shared",
       "m=256 n=256 k=64 stages=3: a thread uses some 316 registers, and it "
       "can use 232: write n=160"},
      {"persistent=0 stream=1", "stream=1 and pingpong=1 need persistent=1"},
      {"warps_m=0 pingpong=0",
       "m=128 warps_m=0: warps_m must be 1 to 3 groups, each with a multiple "
       "of 64 rows"},
      {"flight=0", "flight=0: it must be from 1 to stages=3"},
      {"split=2", "split=2: to split sums, use stream=1, not split"},
      {"way=fma", "way=fma needs operands of the accumulator type"},
      {"way=mma k=128", "k=128: with way=mma, k must be 32 or 64"},
      {"way=mma m=48", "m=48 n=128 warps_m=2 warps_n=2: m / warps_m and n / "
                       "warps_n, the rows and columns of a warp, must be "
                       "powers of two, at least 16"},
      {"way=mma m=256 n=256 warps_m=16 warps_n=16 stages=2",
       "m=256 n=256 k=64 stages=2: a block has 8192 threads, and it can have "
       "32 to 1024: change m, n, or their parts"},
      {"way=mma m=256 n=256 warps_m=1 warps_n=1",
       "m=256 n=256 k=64 stages=3: a thread uses some 2606 registers, and it "
       "can use 255: write smaller m and n"},
      {"raster=0", "raster=0 split=1: raster and split must be at least 1, "
                   "split at most 32"},
      {"way=tcgen05", "way=tcgen05 needs the architecture sm_100a"},
      {"cluster_m=3", "cluster_m=3 cluster_n=1: they must be powers of two, "
                      "at most 8 blocks together"},
      {"n=32 cluster_m=8",
       "n=32 k=64 cluster_m=8 cluster_n=1: n / cluster_m, k / cluster_m and "
       "k / cluster_n must be at least 8"},
      {"store=direct",
       "way=wgmma and way=tcgen05 need copy=engine, and store=shared or "
       "store=engine"},
      {"store=engine waiting=5",
       "waiting=5: with store=engine, it must be 1 to 4"},
      {"store=shared waiting=2", "waiting=2 needs store=engine: leave waiting "
                                 "out, or write store=engine"},
      {"m=512", "m=512 n=256: m and n must be from 1 to 256"},
      {"k=32", "k=32: for operands of this type k must be 64, the 128 bytes "
               "of a stage"},
      /* fields that others determine */
      {"copy_b=8", "copy_b=8: with these fields it is copy_b=16; copy_b "
                   "follows from the others, so leave it out"},
      {"way=mma blocks=7", "blocks=7: with these fields it is blocks=2; "
                           "blocks follows from the others, so leave it out"},
      {"swizzle_a=0", "swizzle_a=0: with these fields it is swizzle_a=343; "
                      "swizzle_a follows from the others, so leave it out"},
      /* fields of other kernels */
      {"way=mma stream=1", "stream needs way=wgmma or way=tcgen05"},
      {"way=mma persistent=1", "persistent needs way=wgmma or way=tcgen05"},
      {"way=mma pair=1", "pair needs way=tcgen05"},
      {"way=mma cluster_m=2", "cluster_m needs way=wgmma or way=tcgen05"},
      {"way=mma cluster_m=0", "cluster_m needs way=wgmma or way=tcgen05"},
      {"accumulators=2", "accumulators needs way=tcgen05"},
      {"warps_n=2", "warps_n needs way=mma"},
      {"thread_m=8", "thread_m needs way=fma"},
  };
  check_refused(&shape, "sm_90a", &s, ARRAY_LEN(refused), refused);
  shape.im2col = true;
  assert_true(gemm_override(&shape, &gpu, "cluster_m=2 cluster_n=1", &s, &why));
  check_refused(&shape, "sm_90a", &s, 1,
                &(Refusal){"cluster_n=2",
                           "cluster_n=2: blocks share no pixels, so "
                           "cluster_n must be 1"});
  shape.tma_storable = false;
  check_refused(
      &shape, "sm_90a", &s, 1,
      &(Refusal){"store=engine waiting=1",
                 "TMA cannot store these results: write store=shared"});
  buffer_free(&why);
}

/* The reasons why an instruction cannot multiply some operands. */
static void test_operands_refused(void **state) {
  (void)state;
  static const char *const tf32 =
      "tensor cores round f32 operands to tf32, which needs AXON_TF32=1";
  static const char *const types =
      "tensor cores of this GPU do not multiply operands of these types";
  const struct {
    Dtype in, sum;
    bool tf32, mn_major, computed_a, computed_b, uncopyable;
    const char *arch;
    Refusal refusal;
  } cases[] = {
      {DT_F32, DT_F32, .arch = "sm_90a", .refusal = {"way=mma", tf32}},
      {DT_F32, DT_F32, .arch = "sm_90a", .refusal = {"way=wgmma", tf32}},
      {DT_F64, DT_F64, .arch = "sm_90a", .refusal = {"way=mma", types}},
      {DT_F64, DT_F64, .arch = "sm_90a", .refusal = {"way=wgmma", types}},
      {DT_F32, DT_F32, .tf32 = true, .mn_major = true, .arch = "sm_90a",
       .refusal = {"way=wgmma",
                   "the reduction axis of f32 operands must be contiguous"}},
      {DT_BF16, DT_F32, .uncopyable = true, .arch = "sm_90a",
       .refusal = {"way=wgmma", "TMA cannot copy an operand: use way=mma"}},
      {DT_BF16, DT_F32, .computed_a = true, .computed_b = true,
       .arch = "sm_90a",
       .refusal = {"way=wgmma",
                   "way=wgmma cannot compute both operands: use way=mma"}},
      {DT_BF16, DT_F32, .computed_a = true, .arch = "sm_100a",
       .refusal = {"way=tcgen05",
                   "way=tcgen05 cannot compute an operand: use way=mma"}},
      {DT_BF16, DT_F32, .uncopyable = true, .arch = "sm_100a",
       .refusal = {"way=tcgen05", "TMA cannot copy an operand: use way=mma"}},
      {DT_BF16, DT_F32, .arch = "sm_80",
       .refusal = {"way=wgmma", "way=wgmma needs the architecture sm_90a"}},
  };
  for (size_t j = 0; j < ARRAY_LEN(cases); j++) {
    GemmCase c = {.in = cases[j].in,
                  .sum = cases[j].sum,
                  .out = cases[j].sum,
                  .align = 16};
    GemmShape shape = gemm_case_shape(&c, 512, 512, 512, 1);
    shape.allow_tf32 = cases[j].tf32;
    shape.b.mn_major |= cases[j].mn_major;
    shape.a.computed = cases[j].computed_a;
    shape.b.computed = cases[j].computed_b;
    if (cases[j].uncopyable)
      shape.a.tma_copyable = false;
    GemmSchedule s = {.mma_kind = MMA_KIND_NONE};
    check_refused(&shape, cases[j].arch, &s, 1, &cases[j].refusal);
  }
}

/* Schedules of tcgen05, on sm_100a alone. */
static void test_change_tensor(void **state) {
  (void)state;
  GemmCase c = {.in = DT_BF16, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 4096, 4096, 4096, 1);
  GpuSpec gpu;
  GemmSchedule s, back = {0};
  double seconds;
  Buffer why = {0}, text = {0};
  assert_true(gpu_spec("sm_100a", &gpu));
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(gemm_override(&shape, &gpu, "way=mma m=64", &s, &why));
  assert_true(s.mma_kind == MMA_KIND_MMA_SYNC && !s.accumulators);
  assert_true(gemm_override(&shape, &gpu, "way=tcgen05 n=256", &s, &why));
  assert_true(s.mma_kind == MMA_KIND_TCGEN05 && s.m == 128 && s.n == 256 &&
              s.accumulators == 2 && s.persistent && s.copy_a == 16);
  gemm_schedule_print(&text, &s);
  assert_non_null(strstr(text.text, "way=tcgen05 copy=engine store=shared "));
  assert_non_null(strstr(text.text, " accumulators=2 persistent=1 "));
  assert_true(gemm_schedule_parse(&back, text.text, &why));
  assert_memory_equal(&s, &back, sizeof s);
  const Refusal refused[] = {
      {"m=256", "m=256 warps_m=1: way=tcgen05 needs m=64 or m=128, and "
                "warps_m=1"},
      {"warps_m=2", "m=128 warps_m=2: way=tcgen05 needs m=64 or m=128, and "
                    "warps_m=1"},
      {"n=48", "n=48: n must be a multiple of 32"},
      {"accumulators=3", "accumulators=3: it must be 1 or 2"},
      {"accumulators=0", "accumulators=0: it must be 1 or 2"},
      {"persistent=0", "way=tcgen05 needs persistent=1"},
      {"pair=2", "pair=2: it must be 0 or 1"},
      {"pair=1 m=64 cluster_m=2 cluster_n=1",
       "m=64 n=256: pair=1 needs m=128, and n a multiple of 64"},
      {"pair=1 n=96 cluster_m=2 cluster_n=1",
       "m=128 n=96: pair=1 needs m=128, and n a multiple of 64"},
      {"pair=1 cluster_m=1 cluster_n=2",
       "cluster_m=1 cluster_n=2: pair=1 needs cluster_m=2 cluster_n=1"},
      {"pair=1 cluster_m=2 cluster_n=1 stream=1", "pair=1 needs stream=0"},
      {"stages=9", "m=128 n=256 k=64 stages=9: a block uses 453632 bytes of "
                   "shared memory, and it can use 232448: write stages=4"},
      {"way=wgmma", "way=wgmma needs the architecture sm_90a"},
      /* fields of other kernels */
      {"split=2", "split needs way=fma or way=mma"},
      {"flight=2", "flight needs way=wgmma"},
      {"pingpong=1", "pingpong needs way=wgmma"},
      {"warps_n=1", "warps_n needs way=mma"},
      {"thread_n=4", "thread_n needs way=fma"},
  };
  check_refused(&shape, "sm_100a", &s, ARRAY_LEN(refused), refused);
  buffer_free(&why);
  buffer_free(&text);
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
                      .a_transposed = x % 3 == 0,
                      .b_transposed = x % 4 == 0};
        double m = sizes[x % 5], n = sizes[x / 5 % 5], k = sizes[x / 25];
        GemmShape shape = gemm_case_shape(&c, m, n, k, 1);
        GpuSpec gpu;
        GemmSchedule s;
        double seconds;
        assert_true(gpu_spec(cuda_archs[g], &gpu));
        if (!gemm_choose(&shape, &gpu, &s, &seconds)) {
          /* sm_75 has no bf16: the load converts it to f32 */
          assert_true(c.in == DT_BF16 && gpu.arch == 75);
          continue;
        }
        assert_true(gemm_fits(&shape, &gpu, &s));
        assert_true(gemm_schedule_check_fields(&s, false, NULL));
        assert_true(gemm_shared_bytes(&shape, &s) <= gpu.block_shared_bytes);
        assert_true(seconds == gemm_seconds(&shape, &gpu, &s));
        /* at most the peak rate */
        double most = c.in == DT_F64                   ? gpu.f64_fma_rate
                      : c.in == DT_F32                 ? gpu.f32_fma_rate
                      : s.mma_kind == MMA_KIND_WGMMA   ? gpu.f16_wgmma_rate
                      : s.mma_kind == MMA_KIND_TCGEN05 ? gpu.f16_tcgen05_rate
                                                       : gpu.f16_mma_rate;
        assert_true(seconds * gpu.clock_hz * gpu.sms * most >= 2 * m * n * k);
        assert_true(seconds * gpu.dram_bandwidth >=
                    (m + n) * k * dtype_info[c.in].bytes);
      }
  GpuSpec gpu;
  assert_false(gpu_spec("sm_70", &gpu));
  assert_false(gpu_spec("sm_110a", &gpu));
  assert_true(gpu_spec("sm_87", &gpu) && gpu.arch == 86);
  assert_true(gpu_spec("sm_103a", &gpu) && gpu.arch == 100);
  assert_true(gpu_spec("sm_121", &gpu) && gpu.arch == 120);
  assert_false(gpu_spec("x", &gpu));
}

/* Large tiles if there are many; split sums if there are too few tiles for the
 * GPU. */
static void test_chosen(void **state) {
  (void)state;
  GemmCase c = {.in = DT_BF16, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 4096, 4096, 4096, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds, least;
  assert_true(gpu_spec("sm_80", &gpu));
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.m * s.n >= 128 * 128 && s.split == 1);
  least =
      2.0 * 4096 * 4096 * 4096 / (gpu.sms * gpu.f16_mma_rate * gpu.clock_hz);
  assert_true(seconds < 1.4 * least);
  shape = gemm_case_shape(&c, 64, 64, 65536, 1);
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.split > 1);
  shape.symbolic_tile_count = true;
  assert_true(gemm_choose(&shape, &gpu, &s, &least));
  assert_true(s.split == 1 && least > seconds);
  shape.symbolic_tile_count = false;
  shape.no_split_k = true;
  assert_true(gemm_choose(&shape, &gpu, &s, &least));
  assert_true(s.split == 1 && least > seconds);
}

/* sm_100a multiplies into tensor memory if TMA copies both operands. */
static void test_chosen_tensor(void **state) {
  (void)state;
  static const struct {
    Dtype in;
    double rate; /* times that of f16 */
  } kinds[] = {{DT_BF16, 1}, {DT_F16, 1}, {DT_F32, 0.5}, {DT_F8_E4M3, 2}};
  for (size_t j = 0; j < ARRAY_LEN(kinds); j++) {
    GemmCase c = {.in = kinds[j].in,
                  .sum = DT_F32,
                  .out = DT_BF16,
                  .tf32 = true,
                  .align = 16};
    GemmShape shape = gemm_case_shape(&c, 8192, 8192, 8192, 1);
    GpuSpec gpu;
    GemmSchedule s;
    double seconds, other;
    assert_true(gpu_spec("sm_100a", &gpu));
    assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
    assert_true(s.mma_kind == MMA_KIND_TCGEN05 && s.m == 128 && s.n == 256 &&
                s.accumulators == 2);
    double peak = gpu.sms * gpu.f16_tcgen05_rate * gpu.clock_hz * kinds[j].rate;
    assert_true(seconds * peak >= 2.0 * 8192 * 8192 * 8192);
    shape.b.tma_copyable = false;
    assert_true(gemm_choose(&shape, &gpu, &s, &other));
    assert_true(s.mma_kind == MMA_KIND_MMA_SYNC && other > 2 * seconds);
  }
}

/* Scales need columns of tensor memory, so that wide tiles have fewer stages,
 * or one accumulator. */
static void test_chosen_scales(void **state) {
  (void)state;
  GemmCase c = {.in = DT_F4_E2M1, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 8192, 8192, 4096, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  shape.a.computed = shape.b.computed = true;
  shape.scale_block = 16;
  assert_true(gpu_spec("sm_100a", &gpu));
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.mma_kind == MMA_KIND_TCGEN05 && s.m == 128 && s.n >= 192);
}

/* With a symbolic number of tiles, warpgroups share the remaining tiles
 * (Stream-K). */
static void test_chosen_open(void **state) {
  (void)state;
  GemmCase c = {.in = DT_BF16, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 64, 64, 65536, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  assert_true(gpu_spec("sm_90a", &gpu));
  shape.symbolic_tile_count = true;
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.mma_kind == MMA_KIND_WGMMA && s.stream && s.split == 1);
}

/* Two blocks share operands, and TMA stores results.  Exceptions: expensive
 * epilogues, and layouts that TMA does not support. */
static void test_chosen_group(void **state) {
  (void)state;
  GemmCase c = {.in = DT_BF16, .sum = DT_F32, .out = DT_BF16, .align = 16};
  GemmShape shape = gemm_case_shape(&c, 4096, 4096, 4096, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds, other;
  assert_true(gpu_spec("sm_90a", &gpu));
  assert_true(gemm_choose(&shape, &gpu, &s, &seconds));
  assert_true(s.mma_kind == MMA_KIND_WGMMA && s.store == STORE_TMA);
  /* Measured: 0.1688 ms; with clusters of two 0.1693 ms; with stream-K
   * 0.1787 ms (bench/results/2026-11-28-gpu-sweep.txt). */
  assert_int_equal(gemm_cluster_size(&s), 1);
  assert_int_equal(s.stream, 0);
  GemmSchedule pairs = s;
  pairs.cluster_m = 2;
  assert_int_equal(gemm_max_grid_blocks(&pairs, &gpu) % 2, 0);
  shape.epilogue_ops = 100;
  assert_true(gemm_choose(&shape, &gpu, &s, &other));
  assert_true(s.store == STORE_SHARED && other > seconds);
  shape.epilogue_ops = 1;
  shape.tma_storable = false;
  assert_true(gemm_choose(&shape, &gpu, &s, &other));
  assert_true(s.store == STORE_SHARED && other > seconds);
  shape.im2col = true;
  assert_true(gemm_choose(&shape, &gpu, &s, &other));
  assert_int_equal(s.cluster_n, 1);
  shape.allow_tf32 = true; /* TF32 needs K-major operands */
  shape.a.dtype = shape.b.dtype = DT_F32;
  assert_null(gemm_wgmma_refusal(&shape, &gpu));
  shape.b.mn_major = true;
  assert_non_null(gemm_wgmma_refusal(&shape, &gpu));
}

/* ---- compiled ---- */

static void compile(const Nvrtc *n, const GemmCase *c, const char *arch,
                    double size, const char *fields) {
  GemmShape shape = gemm_case_shape(c, size, size, size, 1);
  GpuSpec gpu;
  GemmSchedule s;
  double seconds;
  Buffer text = {0}, what = {0};
  assert_true(gpu_spec(arch, &gpu));
  if (!gemm_choose(&shape, &gpu, &s, &seconds))
    return;
  if (!gemm_override(&shape, &gpu, fields, &s, &what))
    fail_msg("%s: %s", fields, what.text);
  gemm_schedule_print(&what, &s);
  buffer_puts(&text, gemm_arguments);
  gemm_case_text(c, &shape, &s, "gemm", &text);
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
                    .a_transposed = (g + j) % 3 == 0,
                    .b_transposed = (g + j) % 5 < 2,
                    .tf32 = j == 0,
                    .computed = j == 3};
      compile(n, &c, cuda_archs[g], j == 2 ? 200 : 4096, "");
    }
}

#define PAIR "pair=1 cluster_m=2 cluster_n=1 stream=0"

/* Products into tensor memory of each type, with the largest tiles. */
static void test_compile_tensor(void **state) {
  (void)state;
  const Nvrtc *n = cuda_compiler();
  static const struct {
    GemmCase c;
    const char *fields;
  } cases[] = {
      {{DT_BF16, DT_F32, DT_BF16, .bias = true, .shift = true, .align = 16},
       "way=tcgen05 m=128 n=256 store=engine waiting=2 stages=4"},
      {{DT_F16, DT_F32, DT_F16, .a_transposed = true, .b_transposed = true,
        .bias = true, .align = 16},
       "way=tcgen05 m=128 n=256 store=shared waiting=0 stages=4"},
      {{DT_F32, DT_F32, DT_F32, .tf32 = true, .align = 16},
       "way=tcgen05 m=64 n=256 accumulators=1 cluster_m=2"},
      {{DT_F8_E4M3, DT_F32, DT_BF16, .align = 16},
       "way=tcgen05 m=128 n=192 cluster_n=2"},
      {{DT_F8_E5M2, DT_F32, DT_F32, .bias = true, .align = 16},
       "way=tcgen05 m=128 n=96"},
      {{DT_BF16, DT_F32, DT_BF16, .bias = true, .align = 16},
       "way=tcgen05 m=128 n=256 stream=1 store=engine waiting=1 stages=4"},
      {{DT_F16, DT_F32, DT_F32, .align = 16},
       "way=tcgen05 m=64 n=96 stream=1 store=shared waiting=0 cluster_m=2"},
      {{DT_BF16, DT_F32, DT_BF16, .bias = true, .align = 16},
       "way=tcgen05 m=128 n=256 store=engine waiting=2 stages=5 " PAIR},
      {{DT_F16, DT_F32, DT_F32, .a_transposed = true, .b_transposed = true,
        .align = 16},
       "way=tcgen05 m=128 n=128 store=shared waiting=0 " PAIR},
      {{DT_F8_E4M3, DT_F32, DT_BF16, .align = 16},
       "way=tcgen05 m=128 n=192 accumulators=1 " PAIR},
  };
  for (size_t j = 0; j < ARRAY_LEN(cases); j++)
    compile(n, &cases[j].c, "sm_100a", 4096, cases[j].fields);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_record),
      cmocka_unit_test(test_change),
      cmocka_unit_test(test_choose),
      cmocka_unit_test(test_chosen),
      cmocka_unit_test(test_operands_refused),
      cmocka_unit_test(test_change_tensor),
      cmocka_unit_test(test_chosen_tensor),
      cmocka_unit_test(test_chosen_scales),
      cmocka_unit_test(test_chosen_open),
      cmocka_unit_test(test_chosen_group),
      cmocka_unit_test(test_compile),
      cmocka_unit_test(test_compile_tensor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
