/* Tests contractions and attention in the simulator, which detects races,
 * missing waits and out-of-bounds accesses.  Each kind of kernel runs at sizes
 * around those of its tiles, primes, 1 and 0, with several orders of events.
 * Results are compared with sums in double precision. */
#include "backend/cuda/attention_emit.h"
#include "tests/unit/attention_cases.h"
#include "tests/unit/gemm_run.h"

#define SMALL "m=32 n=32 k=32 warps_m=2 warps_n=1 stages=3; "
#define GROUPS "m=128 n=32 k=64 warps_m=2 stages=3; "
#define TENSOR "n=32 k=64 warps_m=1 stages=3; "
#define PAIR "pair=1 cluster_m=2 cluster_n=1 stream=0"

static const GemmRun kinds[] = {
    {"sm_80", {DT_BF16, DT_F32, DT_BF16, .align = 16, .bias = true}, SMALL, 1},
    {"sm_80",
     {DT_F16, DT_F32, DT_F16, .a_transposed = 1, .b_transposed = 1, .align = 8},
     SMALL "split=2",
     1},
    {"sm_80",
     {DT_F32, DT_F32, DT_F32, .b_transposed = 1, .tf32 = 1, .align = 4},
     SMALL "k=16",
     1},
    {"sm_86",
     {DT_BF16, DT_F32, DT_F32, .b_transposed = 1, .computed = 1, .align = 2},
     SMALL "stages=2",
     1},
    {"sm_75",
     {DT_F16, DT_F32, DT_F16, .b_transposed = 1, .align = 16},
     SMALL "stages=2",
     1},
    {"sm_89",
     {DT_F32, DT_F32, DT_F32, .a_transposed = 1, .align = 16},
     "m=32 n=32 k=8 thread_m=4 thread_n=4 stages=3 split=2",
     1},
    {"sm_75",
     {DT_F64, DT_F64, DT_F64, .align = 8, .bias = false},
     "m=32 n=32 k=8 thread_m=4 thread_n=4 stages=2",
     1},
    {"sm_90a",
     {DT_BF16, DT_F32, DT_BF16, .align = 16, .bias = true},
     GROUPS "stream=1 pingpong=0 flight=3 store=shared cluster_m=1 cluster_n=1",
     0},
    {"sm_90a",
     {DT_F16, DT_F32, DT_F16, .a_transposed = 1, .b_transposed = 1,
      .align = 16},
     GROUPS "m=64 stream=0 pingpong=1 flight=1 store=engine waiting=1 "
            "cluster_m=1 cluster_n=2",
     0},
    {"sm_90a",
     {DT_BF16, DT_F32, DT_F32, .b_transposed = 1, .align = 16, .bias = true},
     GROUPS "n=96 stream=1 pingpong=0 store=engine waiting=2 cluster_m=2 "
            "cluster_n=1 flight=2",
     0},
    {"sm_90a",
     {DT_F32, DT_F32, DT_F16, .tf32 = 1, .align = 16},
     GROUPS "n=64 k=32 stream=0 pingpong=0 store=engine waiting=1 cluster_m=1 "
            "cluster_n=1 flight=2",
     0},
    {"sm_90a",
     {DT_BF16, DT_F32, DT_BF16, .align = 16},
     GROUPS "n=64 stream=0 pingpong=0 store=engine waiting=2 cluster_m=2 "
            "cluster_n=2 flight=2",
     0},
    {"sm_90a",
     {DT_BF16, DT_F32, DT_BF16, .computed = 1, .align = 16, .bias = true},
     GROUPS "stream=1 pingpong=0 store=shared cluster_m=1 cluster_n=1 flight=2",
     0},
    {"sm_90a",
     {DT_F16, DT_F32, DT_F16, .a_transposed = 1, .computed = 1, .align = 16},
     GROUPS "m=64 stream=0 pingpong=1 store=engine waiting=1 cluster_m=2 "
            "cluster_n=1 flight=2",
     0},
    {"sm_100a",
     {DT_BF16, DT_F32, DT_BF16, .align = 16, .bias = true},
     TENSOR "m=128 store=shared accumulators=2 cluster_m=1 cluster_n=1",
     0},
    {"sm_100a",
     {DT_BF16, DT_F32, DT_BF16, .align = 16, .bias = true},
     TENSOR "m=128 n=64 stream=1 store=engine waiting=2 accumulators=2 "
            "cluster_m=1 cluster_n=1",
     0},
    {"sm_100a",
     {DT_F16, DT_F32, DT_F32, .align = 16},
     TENSOR "m=64 n=96 stream=1 store=shared accumulators=1 cluster_m=2 "
            "cluster_n=1",
     0},
    {"sm_100a",
     {DT_F16, DT_F32, DT_F16, .a_transposed = 1, .b_transposed = 1,
      .align = 16},
     TENSOR "m=64 n=64 store=engine waiting=1 accumulators=1 cluster_m=1 "
            "cluster_n=2",
     0},
    {"sm_100a",
     {DT_BF16, DT_F32, DT_F32, .a_transposed = 1, .b_transposed = 1,
      .align = 16, .bias = true},
     TENSOR "m=128 n=96 store=engine waiting=2 accumulators=2 cluster_m=2 "
            "cluster_n=1",
     0},
    {"sm_100a",
     {DT_F32, DT_F32, DT_F16, .tf32 = 1, .align = 16},
     TENSOR "m=64 n=96 k=32 store=shared accumulators=2 cluster_m=1 "
            "cluster_n=1",
     0},
    {"sm_100a",
     {DT_F8_E4M3, DT_F32, DT_BF16, .align = 16, .bias = true},
     TENSOR "m=128 n=64 k=128 store=engine waiting=2 accumulators=2 "
            "cluster_m=2 cluster_n=2",
     0},
    {"sm_100a",
     {DT_F8_E5M2, DT_F32, DT_F32, .align = 16},
     TENSOR "m=128 k=128 store=shared accumulators=1 cluster_m=1 cluster_n=1",
     0},
    {"sm_100a",
     {DT_BF16, DT_F32, DT_BF16, .align = 16, .bias = true},
     TENSOR "m=128 n=64 store=engine waiting=2 accumulators=2 " PAIR,
     0},
    {"sm_100a",
     {DT_F16, DT_F32, DT_F32, .a_transposed = 1, .b_transposed = 1,
      .align = 16},
     TENSOR "m=128 n=128 store=shared accumulators=1 " PAIR,
     0},
    {"sm_100a",
     {DT_F32, DT_F32, DT_F16, .tf32 = 1, .align = 16},
     TENSOR "m=128 n=64 k=32 store=shared accumulators=2 " PAIR,
     0},
    {"sm_100a",
     {DT_F8_E4M3, DT_F32, DT_BF16, .align = 16},
     TENSOR "m=128 n=128 k=128 store=engine waiting=1 accumulators=1 " PAIR,
     0},
};

static const Sizes sizes[] = {
    {1, 1, 1, 1},     {17, 33, 31, 2},  {32, 32, 64, 1},
    {129, 31, 65, 1}, {63, 97, 193, 1}, {5, 3, 0, 1},
};

static Sim *compiled(const char *text) {
  Buffer error = {0};
  Sim *sim = sim_compile(text, "kernels.cu", &error);
  if (!sim)
    fail_msg("%s", error.text);
  return sim;
}

static void test_gemm(void **unused) {
  (void)unused;
  ChosenGemm all[ARRAY_LEN(kinds)];
  Buffer text = {0};
  if (!sim_is_available())
    skip();
  buffer_puts(&text, gemm_arguments);
  for (size_t j = 0; j < ARRAY_LEN(kinds); j++) {
    char name[16];
    snprintf(name, sizeof name, "gemm%zu", j);
    choose(&kinds[j], &all[j]);
    gemm_case_text(&kinds[j].c, &all[j].shape, &all[j].s, name, &text);
  }
  Sim *sim = compiled(text.text);
  for (size_t j = 0; j < ARRAY_LEN(kinds); j++)
    for (size_t x = 0; x < ARRAY_LEN(sizes); x++) {
      char name[16];
      snprintf(name, sizeof name, "gemm%zu", j);
      text.len = 0;
      if (!run_gemm(sim, name, &kinds[j], &all[j], sizes[x], 10 * j + x, &text))
        fail_msg("%s, %lld x %lld x %lld: %s", name, (long long)sizes[x].m,
                 (long long)sizes[x].n, (long long)sizes[x].k, text.text);
    }
  sim_free(sim);
  buffer_free(&text);
}

/* ---- attention ---- */

typedef struct AttentionArguments {
  const void *a, *b, *v;
  void *c;
  int64_t batch, heads, groups, m, n, k, e;
  int64_t a_batch, a_head, a_m, b_batch, b_head, b_n;
  int64_t v_batch, v_head, v_n, c_batch, c_head, c_m;
  float scale;
  unsigned *counters;
  _Alignas(64) char map_a[MAP_BYTES];
  char map_b[MAP_BYTES], map_v[MAP_BYTES], map_c[MAP_BYTES];
} AttentionArguments;

typedef struct AttentionKindOf {
  const char *arch;
  AttentionCase c;
  const char *schedule;
  bool plain;
} AttentionKindOf;

static const AttentionKindOf attentions[] = {
    {"sm_80",
     {DT_BF16, DT_BF16, ATTENTION_CAUSAL, 32, 48, 16, false, false},
     "m=32 warps_m=2 n=32 stages=2",
     1},
    {"sm_89",
     {DT_F16, DT_F16, ATTENTION_WINDOW, 20, 9, 2, true, false},
     "m=16 warps_m=1 n=16 stages=3",
     1},
    {"sm_75",
     {DT_F16, DT_F16, ATTENTION_SIGMOID, 16, 32, 8, false, false},
     "m=32 warps_m=2 n=32 stages=2",
     1},
    {"sm_90a",
     {DT_BF16, DT_BF16, ATTENTION_CAUSAL, 64, 32, 16, false, false},
     "m=128 warps_m=2 n=32 stages=2",
     0},
    {"sm_90a",
     {DT_F16, DT_F16, ATTENTION_CAPPED, 24, 64, 16, false, false},
     "m=64 warps_m=1 n=64 stages=2",
     0},
};

/* Two blocks compute all tiles of the persistent ones. */
static const AttentionKindOf persistent_attentions[] = {
    {"sm_90a",
     {DT_BF16, DT_BF16, ATTENTION_CAUSAL, 64, 32, 16, .counts = true},
     "m=64 warps_m=1 n=32 stages=2 persistent=1",
     0},
    {"sm_90a",
     {DT_F16, DT_F16, ATTENTION_WINDOW, 16, 32, 16, .counts = true},
     "m=128 warps_m=2 n=32 stages=3 persistent=1",
     0},
    {"sm_90a",
     {DT_BF16, DT_BF16, ATTENTION_PLAIN, 32, 64, 16, .counts = false},
     "m=128 warps_m=2 n=64 stages=2 persistent=1",
     0},
    {"sm_90a",
     {DT_F16, DT_F16, ATTENTION_CAUSAL, 64, 32, 16, .counts = false},
     "m=192 warps_m=3 n=32 stages=2 persistent=1",
     0},
    {"sm_90a",
     {DT_BF16, DT_BF16, ATTENTION_CAUSAL, 32, 72, 16, .counts = true},
     "m=128 warps_m=2 n=32 stages=2 persistent=1 store=engine waiting=2",
     0},
    {"sm_90a",
     {DT_F16, DT_F32, ATTENTION_PLAIN, 16, 32, 16, .counts = false},
     "m=64 warps_m=1 n=64 stages=2 persistent=1 store=engine waiting=1",
     0},
    {"sm_90a",
     {DT_BF16, DT_BF16, ATTENTION_CAUSAL, 64, 40, 16, .counts = true},
     "m=128 warps_m=2 n=32 stages=2 store=engine waiting=1",
     0},
};

/* Scores and sums in tensor memory, two blocks. */
static const AttentionKindOf tensor_attentions[] = {
    {"sm_100a",
     {DT_BF16, DT_BF16, ATTENTION_PLAIN, 64, 64, 16, .counts = false},
     "m=256 warps_m=2 n=64 stages=2",
     0},
    {"sm_100a",
     {DT_F16, DT_F16, ATTENTION_CAUSAL, 16, 32, 16, .counts = false},
     "m=128 warps_m=1 n=32 stages=3",
     0},
    {"sm_100a",
     {DT_F16, DT_F32, ATTENTION_CAPPED, 24, 40, 16, .counts = false},
     "m=256 warps_m=2 n=48 stages=2 store=engine waiting=1",
     0},
    {"sm_100a",
     {DT_BF16, DT_BF16, ATTENTION_WINDOW, 128, 128, 16, .counts = false},
     "m=256 warps_m=2 n=32 stages=2 store=engine waiting=2",
     0},
    {"sm_100a",
     {DT_F16, DT_F16, ATTENTION_SIGMOID, 16, 16, 16, .counts = false},
     "m=256 warps_m=2 n=32 stages=2",
     0},
};

/* The blocks of a head find values that are not finite. */
static const AttentionKindOf counting_attentions[] = {
    {"sm_90a",
     {DT_BF16, DT_BF16, ATTENTION_CAUSAL, 64, 32, 16, .counts = true},
     "m=64 warps_m=1 n=32 stages=2",
     0},
    {"sm_90a",
     {DT_F16, DT_F16, ATTENTION_WINDOW, 16, 32, 16, .counts = true},
     "m=128 warps_m=2 n=32 stages=3",
     0},
};

enum { PERSISTENT_BLOCKS = 2 };

typedef struct AttentionMade {
  AttentionShape shape;
  GemmSchedule s;
} AttentionMade;

static void choose_attention(const AttentionKindOf *kind, AttentionMade *to) {
  GpuSpec gpu;
  double seconds;
  Buffer why = {0};
  assert_true(gpu_spec(kind->arch, &gpu));
  to->shape = attention_case_shape(&kind->c, 512, 512, 4);
  to->shape.query.tma_copyable = !kind->plain;
  assert_true(attention_choose(&to->shape, &gpu, &to->s, &seconds));
  if (!kind->plain) {
    bool tcgen05 = strcmp(kind->arch, "sm_100a") == 0;
    to->s.mma_kind = tcgen05 ? MMA_KIND_TCGEN05 : MMA_KIND_WGMMA;
    to->s.persistent = tcgen05;
    to->s.copy = COPY_TMA;
    to->s.store = STORE_SHARED;
    to->s.store_stages = 0;
  }
  if (!gemm_schedule_parse(&to->s, kind->schedule, &why))
    fail_msg("%s", why.text);
}

/* The score of a dot product for row i, term j and a head, as defined by
 * the source of the case. */
static double score(const AttentionCase *c, double x, double scale, int64_t i,
                    int64_t j, int64_t head) {
  x *= scale;
  switch (c->kind) {
  case ATTENTION_PLAIN:
    break;
  case ATTENTION_CAUSAL:
    return j <= i ? x : -INFINITY;
  case ATTENTION_WINDOW:
    return j <= i && j + 100 > i
               ? x + 0.125 * (double)(j - i) * (double)(head + 1)
               : -INFINITY;
  case ATTENTION_CAPPED:
    return 20 * tanh(x / 20);
  case ATTENTION_SIGMOID:
    return 1 / (1 + exp(-x));
  }
  return x;
}

/* The row's weights in w; their total. */
static double weigh(const AttentionArguments *g, const AttentionCase *c,
                    int64_t z, int64_t head, int64_t i, double *w) {
  double most = -INFINITY, total = 0;
  int64_t a = z * g->a_batch + head * g->a_head + i * g->a_m;
  int64_t b = z * g->b_batch + head / g->groups * g->b_head;
  for (int64_t j = 0; j < g->n; j++) {
    double sum = 0;
    for (int64_t x = 0; x < g->k; x++)
      sum += load_number(g->a, a + x, c->in) *
             load_number(g->b, b + j * g->b_n + x, c->in);
    w[j] = score(c, sum, (double)g->scale, i, j, head);
    most = fmax(most, w[j]);
  }
  if (c->kind == ATTENTION_SIGMOID)
    return 1;
  for (int64_t j = 0; j < g->n; j++)
    total += w[j] = exp(w[j] - most);
  return total;
}

static void check_row(const AttentionArguments *g, const AttentionCase *c,
                      int64_t z, int64_t head, int64_t i) {
  double *w = calloc((size_t)g->n + 1, sizeof *w);
  assert_non_null(w);
  double total = weigh(g, c, z, head, i, w);
  int64_t v = z * g->v_batch + head / g->groups * g->v_head;
  int64_t at = z * g->c_batch + head * g->c_head + i * g->c_m;
  for (int64_t e = 0; e < g->c_m; e++) {
    double sum = 0, all = 0, got = load_number(g->c, at + e, c->out);
    for (int64_t j = 0; e < g->e && j < g->n; j++) {
      double x = w[j] * load_number(g->v, v + j * g->v_n + e, c->in) *
                 (c->computed ? 0.5 : 1);
      sum += x / total;
      all += fabs(x / total);
    }
    bool wrong = e >= g->e || g->n == 0 ? !isnan(got)
                 : !isfinite(sum)       ? isfinite(got)
                                  : !(fabs(got - sum) <= 0.02 * all + 1e-6);
    if (c->kind == ATTENTION_SIGMOID && g->n == 0 && e < g->e)
      wrong = got != 0;
    if (wrong)
      fail_msg("%lld, %lld, %lld, %lld: %g, not %g", (long long)z,
               (long long)head, (long long)i, (long long)e, got, sum);
  }
  free(w);
}

static void map_one(void *to, const void *at, uint32_t bytes,
                    const uint32_t box[2], uint32_t number, uint32_t rank,
                    const int64_t *size_, const int64_t *stride) {
  SimTensorMap map = {.rank = rank, .element_bytes = bytes, .address = at};
  Buffer error = {0};
  for (uint32_t j = 0; j < rank; j++) {
    map.extent[j] = size_[j] ? (uint64_t)size_[j] : 1;
    map.stride[j] = bytes * (uint64_t)stride[j];
    map.box[j] = j < 2 ? box[j] : 1;
  }
  map.swizzle = number ? 256u >> number : 0;
  if (!sim_tensor_map_encode(to, &map, &error))
    fail_msg("%s", error.text);
}

static void map_results(AttentionArguments *g, const AttentionMade *m,
                        Dtype out) {
  AttentionGemms p;
  uint32_t box[2], number;
  attention_gemm_schedules(&m->shape, &m->s, &p);
  gemm_tma_store_box(&p.first.kv_shape, &p.first.kv_schedule, out, box,
                     &number);
  map_one(g->map_c, g->c, dtype_info[out].bytes, box, number, 5,
          (int64_t[]){g->e, g->m, g->groups, g->heads, g->batch},
          (int64_t[]){1, g->c_m, g->c_head, g->c_head * g->groups, g->c_batch});
}

static void map_attention(AttentionArguments *g, const AttentionMade *m) {
  AttentionGemms p;
  uint32_t box[2], number;
  attention_gemm_schedules(&m->shape, &m->s, &p);
  gemm_tma_box(&p.first.q_shape, &p.first.q_schedule, false, box, &number);
  map_one(g->map_a, g->a, 2, box, number, 5,
          (int64_t[]){g->k, g->m, g->groups, g->heads, g->batch},
          (int64_t[]){1, g->a_m, g->a_head, g->a_head * g->groups, g->a_batch});
  gemm_tma_box(&p.first.kv_shape, &p.first.kv_schedule, false, box, &number);
  map_one(g->map_b, g->b, 2, box, number, 4,
          (int64_t[]){g->k, g->n, g->heads, g->batch},
          (int64_t[]){1, g->b_n, g->b_head, g->b_batch});
  gemm_tma_box(&p.first.kv_shape, &p.first.kv_schedule, true, box, &number);
  map_one(g->map_v, g->v, 2, box, number, 4,
          (int64_t[]){g->e, g->n, g->heads, g->batch},
          (int64_t[]){1, g->v_n, g->v_head, g->v_batch});
}

typedef struct AttentionSizes {
  int64_t m, n, batch, heads, groups;
  int64_t odd; /* 1 + a term whose value in the last head is infinite */
} AttentionSizes;

static void run_attention(Sim *sim, const char *name,
                          const AttentionKindOf *kind, const AttentionMade *m,
                          AttentionSizes z, uint64_t seed) {
  const AttentionCase *c = &kind->c;
  int64_t pad = c->align / 2, all = z.heads * z.groups;
  AttentionArguments g = {.batch = z.batch,
                          .heads = z.heads,
                          .groups = z.groups,
                          .m = z.m,
                          .n = z.n,
                          .k = c->k,
                          .e = c->e};
  g.scale = 0.25f;
  g.a_m = round_up_to(g.k, pad) + pad;
  g.a_head = g.a_m * g.m + pad;
  g.a_batch = g.a_head * all;
  g.b_n = round_up_to(g.k, pad);
  g.b_head = g.b_n * g.n + pad;
  g.b_batch = g.b_head * g.heads;
  g.v_n = round_up_to(g.e, pad);
  g.v_head = g.v_n * g.n + pad;
  g.v_batch = g.v_head * g.heads;
  g.c_m = round_up_to(g.e, 8);
  g.c_head = g.c_m * g.m;
  g.c_batch = g.c_head * all;
  SimMemory memory[5];
  void *a = alloc_nan(g.a_batch * g.batch, c->in, false, "a", &memory[0]);
  void *b = alloc_nan(g.b_batch * g.batch, c->in, false, "b", &memory[1]);
  void *v = alloc_nan(g.v_batch * g.batch, c->in, false, "v", &memory[2]);
  g.c = alloc_nan(g.c_batch * g.batch, c->out, true, "c", &memory[3]);
  for (int64_t h = 0; h < g.batch * all; h++)
    fill((uint16_t *)a + h * g.a_head, c->in, 1, 0, g.m, g.a_m, g.k, 1);
  for (int64_t h = 0; h < g.batch * g.heads; h++) {
    fill((uint16_t *)b + h * g.b_head, c->in, 1, 0, g.n, g.b_n, g.k, 1);
    fill((uint16_t *)v + h * g.v_head, c->in, 1, 0, g.n, g.v_n, g.e, 1);
  }
  g.a = a;
  g.b = b;
  g.v = v;
  if (z.odd)
    ((uint16_t *)v)[(g.batch - 1) * g.v_batch + (g.heads - 1) * g.v_head +
                    (z.odd - 1) * g.v_n + 3] =
        c->in == DT_F16 ? 0x7c00 : 0x7f80;
  unsigned counters[ATTENTION_COUNTERS * 8] = {0};
  g.counters = counters;
  memory[4] = (SimMemory){.name = "counters",
                          .address = counters,
                          .bytes = sizeof counters,
                          .writable = true};
  assert_true(g.batch * all <= 8);
  if (gemm_has_producer(&m->s))
    map_attention(&g, m);
  if (m->s.store == STORE_TMA)
    map_results(&g, m, c->out);
  int64_t blocks = attention_blocks(&m->s, g.m, g.batch * all);
  if (m->s.persistent && blocks > PERSISTENT_BLOCKS)
    blocks = PERSISTENT_BLOCKS;
  SimLaunch l = {.kernel = name,
                 .grid = {(uint32_t)blocks, 1, 1},
                 .block = {gemm_threads(&m->s), 1, 1},
                 .shared_bytes = attention_shared_bytes(&m->shape, &m->s),
                 .args = &g,
                 .args_bytes = sizeof g,
                 .memory = memory,
                 .memory_count = 5,
                 .seed = seed};
  Buffer error = {0};
  if (blocks && !sim_launch(sim, &l, &error))
    fail_msg("%s: %lld x %lld: %s", name, (long long)g.m, (long long)g.n,
             error.text);
  for (int64_t h = 0; h < g.batch * all; h++)
    for (int64_t i = 0; i < g.m; i++)
      check_row(&g, c, h / all, h % all, i);
  for (size_t j = 0; j < ARRAY_LEN(counters); j++)
    assert_int_equal(counters[j], 0);
  for (int j = 0; j < 4; j++)
    free((void *)(uintptr_t)memory[j].address);
  buffer_free(&error);
}

static const AttentionSizes attention_sizes[] = {
    {1, 1, 1, 1, 1, 0},    {17, 31, 1, 1, 1, 0}, {64, 64, 1, 1, 1, 0},
    {65, 129, 1, 1, 1, 0}, {33, 33, 2, 1, 2, 0}, {3, 0, 1, 1, 1, 0},
};

/* Runs each kind with each of the sizes. */
static void run_attentions(size_t kinds, const AttentionKindOf *kind,
                           size_t sizes, const AttentionSizes *z) {
  AttentionMade all[ARRAY_LEN(persistent_attentions)];
  Buffer text = {0};
  char name[20];
  if (!sim_is_available())
    skip();
  buffer_puts(&text, attention_arguments);
  for (size_t j = 0; j < kinds; j++) {
    snprintf(name, sizeof name, "attention%zu", j);
    choose_attention(&kind[j], &all[j]);
    attention_case_text(&kind[j].c, &all[j].shape, &all[j].s, name, &text);
  }
  Sim *sim = compiled(text.text);
  for (size_t j = 0; j < kinds; j++)
    for (size_t x = 0; x < sizes; x++) {
      snprintf(name, sizeof name, "attention%zu", j);
      run_attention(sim, name, &kind[j], &all[j], z[x], 10 * j + x);
    }
  sim_free(sim);
  buffer_free(&text);
}

static void test_attention(void **unused) {
  (void)unused;
  run_attentions(ARRAY_LEN(attentions), attentions, ARRAY_LEN(attention_sizes),
                 attention_sizes);
}

static void test_persistent(void **unused) {
  (void)unused;
  static const AttentionSizes sizes[] = {
      {1, 1, 1, 1, 1, 0},     {200, 200, 1, 1, 3, 0}, {65, 129, 2, 2, 1, 0},
      {3, 0, 2, 1, 2, 0},     {450, 70, 1, 1, 1, 0},  {290, 290, 2, 1, 1, 0},
      {200, 200, 2, 2, 1, 0},
  };
  run_attentions(ARRAY_LEN(persistent_attentions), persistent_attentions,
                 ARRAY_LEN(sizes), sizes);
}

static void test_tensor_attention(void **unused) {
  (void)unused;
  static const AttentionSizes sizes[] = {
      {1, 1, 1, 1, 1, 0},    {3, 0, 2, 1, 2, 0},    {140, 130, 1, 1, 1, 0},
      {300, 70, 1, 2, 1, 0}, {300, 20, 1, 2, 1, 0},
  };
  run_attentions(ARRAY_LEN(tensor_attentions), tensor_attentions,
                 ARRAY_LEN(sizes), sizes);
}

/* A block repeats no batch, one, or several. */
static void test_persistent_infinite(void **unused) {
  (void)unused;
  static const AttentionSizes sizes[] = {
      {200, 200, 1, 1, 2, 1},   {200, 200, 2, 1, 1, 200},
      {290, 290, 1, 2, 1, 9},   {64, 64, 1, 1, 1, 64},
      {290, 290, 1, 1, 1, 290}, {130, 130, 1, 1, 4, 5},
      {130, 130, 1, 1, 8, 130}, {130, 130, 1, 1, 8, 1},
  };
  run_attentions(2, persistent_attentions, ARRAY_LEN(sizes), sizes);
  run_attentions(1, &persistent_attentions[4], ARRAY_LEN(sizes), sizes);
  run_attentions(1, &persistent_attentions[6], ARRAY_LEN(sizes), sizes);
}

static void test_infinite_values(void **unused) {
  (void)unused;
  static const AttentionSizes sizes[] = {
      {200, 200, 1, 1, 2, 0},   {200, 200, 1, 1, 2, 1},
      {200, 200, 2, 1, 1, 200}, {290, 290, 1, 2, 1, 140},
      {64, 64, 1, 1, 1, 64},    {290, 290, 1, 1, 1, 290},
      {130, 130, 1, 1, 1, 130}, {130, 130, 1, 1, 1, 130},
      {130, 130, 1, 1, 1, 130}, {130, 130, 1, 1, 1, 130},
  };
  run_attentions(ARRAY_LEN(counting_attentions), counting_attentions,
                 ARRAY_LEN(sizes), sizes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_infinite_values),
      cmocka_unit_test(test_persistent),
      cmocka_unit_test(test_persistent_infinite),
      cmocka_unit_test(test_tensor_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
