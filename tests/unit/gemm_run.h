/* Runs contractions of gemm_cases.h in the simulator, and compares them with
 * sums in double precision. */
#ifndef AXON_TESTS_GEMM_RUN_H
#define AXON_TESTS_GEMM_RUN_H

#include "backend/cuda/sim/sim.h"
#include "support/buffer.h"
#include "tests/unit/gemm_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum {
  MAP_BYTES = 128,
  ALIGN_BYTES = 256,
  PAGE_BYTES = 65536 /* a page, or a multiple of one */
};

/* ---- numbers ---- */

static void store_number(void *at, int64_t i, Dtype t, double x) {
  if (t == DT_F64)
    ((double *)at)[i] = x;
  else if (t == DT_F32)
    ((float *)at)[i] = (float)x;
  else if (t == DT_F8_E4M3)
    ((uint8_t *)at)[i] = f8_e4m3_from_double(x);
  else if (t == DT_F8_E5M2)
    ((uint8_t *)at)[i] = f8_e5m2_from_double(x);
  else
    ((uint16_t *)at)[i] =
        t == DT_BF16 ? bf16_from_double(x) : f16_from_double(x);
}

static double load_number(const void *at, int64_t i, Dtype t) {
  if (t == DT_F64)
    return ((const double *)at)[i];
  if (t == DT_F32)
    return (double)((const float *)at)[i];
  if (t == DT_F8_E4M3)
    return f8_e4m3_to_double(((const uint8_t *)at)[i]);
  if (t == DT_F8_E5M2)
    return f8_e5m2_to_double(((const uint8_t *)at)[i]);
  uint16_t u = ((const uint16_t *)at)[i];
  return t == DT_BF16 ? bf16_to_double(u) : f16_to_double(u);
}

static uint32_t random_state = 1;

/* A small multiple of 1/4: exact in all types. */
static double random_quarter(void) {
  random_state = random_state * 1664525 + 1013904223;
  return ((double)(random_state >> 27) - 16) / 4;
}

/* Allocates `count` elements, all NaN, and registers the range in the
 * simulator. */
static void *alloc_nan(int64_t count, Dtype t, bool writable, const char *name,
                       SimMemory *range) {
  size_t bytes = (size_t)(count + 1) * dtype_info[t].bytes;
  char *at = aligned_alloc(ALIGN_BYTES, (bytes + ALIGN_BYTES - 1) /
                                            ALIGN_BYTES * ALIGN_BYTES);
  assert_non_null(at);
  memset(at, 0xff, bytes);
  *range = (SimMemory){at, bytes, writable, name};
  return at;
}

static int64_t round_up_to(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}

/* Allocates data that the simulator does not check, such as the operands of an
 * epilogue.  An access beyond the end hits the guard page behind it. */
static float *alloc_before_guard_page(int64_t count, const char *name,
                                      SimMemory *range) {
  size_t bytes = (size_t)count * sizeof(float);
  size_t mapped_bytes = (size_t)round_up_to((int64_t)bytes, PAGE_BYTES);
  char *at = mmap(NULL, mapped_bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(at != MAP_FAILED);
  assert_int_equal(mprotect(at + mapped_bytes, PAGE_BYTES, PROT_NONE), 0);
  *range = (SimMemory){at + mapped_bytes - bytes, bytes, false, name};
  float *numbers = (float *)(at + mapped_bytes - bytes);
  for (int64_t j = 0; j < count; j++)
    numbers[j] = (float)random_quarter();
  return numbers;
}

static void free_before_guard_page(const SimMemory *range) {
  size_t mapped_bytes = (size_t)round_up_to((int64_t)range->bytes, PAGE_BYTES);
  munmap((char *)(uintptr_t)range->address + range->bytes - mapped_bytes,
         mapped_bytes + PAGE_BYTES);
}

/* ---- contractions ---- */

typedef struct GemmArguments {
  const void *a, *b;
  void *c;
  const float *bias, *shift;
  void *scratch, *counters;
  int64_t m, n, k, batch;
  int64_t a_m, a_k, a_batch, b_n, b_k, b_batch, c_m, c_n, c_batch;
  float scale;
  _Alignas(64) char map_a[MAP_BYTES];
  char map_b[MAP_BYTES], map_c[MAP_BYTES];
} GemmArguments;

typedef struct GemmRun {
  const char *arch;
  GemmCase c;
  const char *schedule; /* changes of the chosen schedule, in parts with `;`
                           between them */
  bool plain;           /* TMA cannot copy it */
} GemmRun;

/* The kind of kernels whose operands TMA copies. */
static MmaKind producer_kind(const GemmRun *kind) {
  return strcmp(kind->arch, "sm_100a") == 0 ? MMA_KIND_TCGEN05 : MMA_KIND_WGMMA;
}

typedef struct ChosenGemm {
  GemmShape shape;
  GemmSchedule s;
} ChosenGemm;

/* Later parts may change the fields of earlier ones. */
static void change_schedule(GemmSchedule *s, const char *parts) {
  for (const char *at = parts; *at; at += strcspn(at, ";"), at += *at == ';') {
    char part[200];
    Buffer why = {0};
    snprintf(part, sizeof part, "%.*s", (int)strcspn(at, ";"), at);
    if (!gemm_schedule_parse(s, part, &why))
      fail_msg("%s", why.text);
  }
}

static void choose(const GemmRun *kind, ChosenGemm *made) {
  GpuSpec gpu;
  double seconds;
  Buffer why = {0};
  assert_true(gpu_spec(kind->arch, &gpu));
  made->shape = gemm_case_shape(&kind->c, 512, 512, 512, 1);
  made->shape.a.tma_copyable = !kind->plain;
  assert_true(gemm_choose(&made->shape, &gpu, &made->s, &seconds));
  MmaKind wanted = producer_kind(kind);
  const char *way = wanted == MMA_KIND_WGMMA ? "way=wgmma" : "way=tcgen05";
  if (!kind->plain && made->s.mma_kind != wanted &&
      !gemm_override(&made->shape, &gpu, way, &made->s, &why))
    fail_msg("%s", why.text);
  change_schedule(&made->s, kind->schedule);
  gemm_choose_layouts(&made->shape, &made->s);
  assert_true((made->s.mma_kind == wanted) == !kind->plain);
}

static void map_operand(const GemmArguments *g, const ChosenGemm *m, bool b,
                        void *to) {
  uint32_t box[2], number;
  Buffer error = {0};
  gemm_tma_box(&m->shape, &m->s, b, box, &number);
  bool transposed = b ? m->shape.b.mn_major : m->shape.a.mn_major;
  int64_t rows = b ? g->n : g->m, of_row = b ? g->b_n : g->a_m;
  int64_t of_term = b ? g->b_k : g->a_k;
  uint32_t bytes = dtype_info[m->shape.a.dtype].bytes;
  SimTensorMap map = {.rank = 3,
                      .element_bytes = bytes,
                      .address = b ? g->b : g->a,
                      .round_tf32 = bytes == 4};
  map.extent[0] = (uint64_t)(transposed ? rows : g->k);
  map.extent[1] = (uint64_t)(transposed ? g->k : rows);
  map.extent[2] = (uint64_t)g->batch;
  map.stride[0] = bytes;
  map.stride[1] = bytes * (uint64_t)(transposed ? of_term : of_row);
  map.stride[2] = bytes * (uint64_t)(b ? g->b_batch : g->a_batch);
  for (int j = 0; j < 3; j++) /* operands without elements are not read */
    map.extent[j] = map.extent[j] ? map.extent[j] : 1;
  map.box[0] = box[0];
  map.box[1] = box[1];
  map.box[2] = 1;
  map.swizzle = number ? 256u >> number : 0;
  if (!sim_tensor_map_encode(to, &map, &error))
    fail_msg("%s", error.text);
}

static void map_result(const GemmArguments *g, const GemmRun *kind,
                       const ChosenGemm *m, void *to) {
  uint32_t box[2], number;
  Buffer error = {0};
  uint32_t bytes = dtype_info[kind->c.out].bytes;
  gemm_tma_store_box(&m->shape, &m->s, kind->c.out, box, &number);
  SimTensorMap map = {
      .rank = 3,
      .element_bytes = bytes,
      .address = g->c,
      .extent = {(uint64_t)g->n, (uint64_t)g->m, (uint64_t)g->batch},
      .stride = {bytes, bytes * (uint64_t)g->c_m, bytes * (uint64_t)g->c_batch},
      .box = {box[0], box[1], 1},
      .swizzle = number ? 256u >> number : 0};
  if (!sim_tensor_map_encode(to, &map, &error))
    fail_msg("%s", error.text);
}

typedef struct Sizes {
  int64_t m, n, k, batch;
} Sizes;

static double factor(const void *p, int64_t at, const GemmCase *c, bool a) {
  return load_number(p, at, c->in) * (a && c->computed ? 0.5 : 1);
}

static bool check_gemm(const GemmArguments *g, const GemmCase *c, Buffer *why) {
  for (int64_t z = 0; z < g->batch; z++)
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->c_m; j++) {
        double sum = 0, all = 0;
        double got = load_number(g->c, z * g->c_batch + i * g->c_m + j, c->out);
        if (j >= g->n) { /* padding between rows stays NaN */
          if (!isnan(got)) {
            buffer_puts(why, "it wrote between rows");
            return false;
          }
          continue;
        }
        for (int64_t x = 0; x < g->k; x++) {
          double p =
              factor(g->a, z * g->a_batch + i * g->a_m + x * g->a_k, c, true) *
              factor(g->b, z * g->b_batch + j * g->b_n + x * g->b_k, c, false);
          sum += p;
          all += fabs(p);
        }
        if (c->bias)
          sum = fmax(sum + (double)g->bias[j] +
                         (c->shift ? (double)g->shift[i] : 0),
                     0);
        double unit = c->out == DT_BF16  ? 0x1p-7
                      : c->out == DT_F16 ? 0x1p-10
                                         : 0x1p-22;
        if (!(fabs(got - sum) <= unit * (fabs(sum) + all * 1e-3))) {
          buffer_printf(why, "at %lld, %lld, %lld: %g, not %g", (long long)z,
                        (long long)i, (long long)j, got, sum);
          return false;
        }
      }
  return true;
}

static void fill(void *p, Dtype t, int64_t batches, int64_t of_batch,
                 int64_t rows, int64_t of_row, int64_t terms, int64_t of_term) {
  for (int64_t z = 0; z < batches; z++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < terms; j++)
        store_number(p, z * of_batch + i * of_row + j * of_term, t,
                     random_quarter());
}

/* Returns false if the result is wrong; `why` describes the error. */
static bool run_gemm(Sim *sim, const char *name, const GemmRun *kind,
                     const ChosenGemm *made_, Sizes z, uint64_t seed,
                     Buffer *why) {
  const GemmCase *c = &kind->c;
  const GemmSchedule *s = &made_->s;
  int64_t pad = c->align / dtype_info[c->in].bytes;
  GemmArguments g = {
      .m = z.m, .n = z.n, .k = z.k, .batch = z.batch, .scale = 0.5f};
  g.a_m = c->a_transposed ? 1 : round_up_to(z.k, pad);
  g.a_k = c->a_transposed ? round_up_to(z.m, pad) : 1;
  g.b_n = c->b_transposed ? 1 : round_up_to(z.k, pad);
  g.b_k = c->b_transposed ? round_up_to(z.n, pad) : 1;
  g.a_batch = (c->a_transposed ? g.a_k * z.k : g.a_m * z.m) + pad;
  g.b_batch = (c->b_transposed ? g.b_k * z.k : g.b_n * z.n) + pad;
  g.c_m = round_up_to(z.n, 16);
  g.c_n = 1;
  g.c_batch = g.c_m * z.m;
  SimMemory memory[7];
  void *a = alloc_nan(g.a_batch * z.batch, c->in, false, "a", &memory[0]);
  void *b = alloc_nan(g.b_batch * z.batch, c->in, false, "b", &memory[1]);
  g.c = alloc_nan(g.c_batch * z.batch, c->out, true, "c", &memory[2]);
  int64_t tiles = round_up_to(z.m, s->m * s->cluster_m) / s->m *
                  (round_up_to(z.n, s->n * s->cluster_n) / s->n) * z.batch;
  uint32_t grid = s->persistent ? 3 : (uint32_t)(tiles * s->split);
  if (gemm_cluster_size(s) > 1)
    grid = 3 * gemm_cluster_size(s);
  int64_t parts = tiles * s->split > 2 * grid ? tiles * s->split : 2 * grid;
  g.scratch = alloc_nan(parts * s->m * s->n, DT_F32, true, "room", &memory[3]);
  g.counters = alloc_nan(tiles, DT_I32, true, "counters", &memory[4]);
  memset(g.counters, 0, memory[4].bytes);
  fill(a, c->in, z.batch, g.a_batch, z.m, g.a_m, z.k, g.a_k);
  fill(b, c->in, z.batch, g.b_batch, z.n, g.b_n, z.k, g.b_k);
  g.a = a;
  g.b = b;
  g.bias = alloc_before_guard_page(z.n, "bias", &memory[5]);
  g.shift = alloc_before_guard_page(z.m, "shift", &memory[6]);
  if (gemm_has_producer(s) && tiles) {
    map_operand(&g, made_, false, g.map_a);
    map_operand(&g, made_, true, g.map_b);
    if (s->store == STORE_TMA)
      map_result(&g, kind, made_, g.map_c);
  }
  SimLaunch l = {.kernel = name,
                 .grid = {grid, 1, 1},
                 .block = {gemm_threads(s), 1, 1},
                 .shared_bytes = gemm_shared_bytes(&made_->shape, s),
                 .args = &g,
                 .args_bytes = sizeof g,
                 .memory = memory,
                 .memory_count = 7,
                 .seed = seed};
  bool good = (!tiles || sim_launch(sim, &l, why)) && check_gemm(&g, c, why);
  for (int64_t j = 0; good && j < tiles; j++)
    if (((int32_t *)g.counters)[j] != 0) {
      buffer_puts(why, "a counter is left");
      good = false;
    }
  for (int j = 0; j < 5; j++)
    free((void *)(uintptr_t)memory[j].address);
  free_before_guard_page(&memory[5]);
  free_before_guard_page(&memory[6]);
  return good;
}

#endif
