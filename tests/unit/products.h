/* Runs the hand-written matrix products of tests/cuda in the simulator, and
 * checks their results.  The numbers are small, so that sums are exact. */
#ifndef AXON_TEST_PRODUCTS_H
#define AXON_TEST_PRODUCTS_H

#include "backend/cuda/sim/sim.h"
#include "runtime/runtime.h"
#include "support/buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Gemm {
  uint32_t m, n, k;
  uint16_t *a, *b;
  float *c, *expected;
} Gemm;

/* Reads a file of tests/cuda; the caller frees the text. */
static inline char *read_file(const char *name) {
  const char *source = getenv("AXON_SOURCE");
  char path[1024], chunk[4096];
  snprintf(path, sizeof path, "%s/tests/cuda/%s", source ? source : SIM_SOURCE,
           name);
  FILE *f = fopen(path, "r");
  Buffer b = {0};
  for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
    buffer_add(&b, chunk, n);
  if (f)
    fclose(f);
  return b.text;
}

static inline char *read_kernel(const char *name) {
  char file[80];
  snprintf(file, sizeof file, "%s.cu", name);
  return read_file(file);
}

/* Puts the signatures of the kernels into the source, without moving lines. */
static inline char *with_kernel_signatures(const char *args, char *text) {
  Buffer b = {0};
  const char *at = text;
  for (const char *next; (next = strstr(at, "\nKERNEL("));) {
    const char *name = next + strlen("\nKERNEL("), *end = strchr(name, ')');
    buffer_add(&b, at, (size_t)(next - at));
    buffer_printf(&b,
                  "\nextern \"C\" __global__ void __launch_bounds__(256) "
                  "%.*s(const __grid_constant__ %s a)",
                  (int)(end - name), name, args);
    at = end + 1;
  }
  buffer_puts(&b, at);
  free(text);
  return b.text;
}

static inline void *aligned(size_t bytes) {
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static inline Gemm gemm_new(uint32_t m, uint32_t n, uint32_t k) {
  Gemm g = {m,
            n,
            k,
            aligned(m * k * 2),
            aligned(k * n * 2),
            aligned(m * n * 4),
            aligned(m * n * 4)};
  for (uint32_t i = 0; i < m * k; i++)
    g.a[i] = bf16_from_double((double)((i * 7 + i / k) % 9) - 4);
  for (uint32_t i = 0; i < k * n; i++)
    g.b[i] = bf16_from_double((double)((i * 5 + i / n * 3) % 11) - 5);
  for (uint32_t i = 0; i < m; i++)
    for (uint32_t j = 0; j < n; j++) {
      double sum = 0;
      for (uint32_t l = 0; l < k; l++)
        sum += bf16_to_double(g.a[i * k + l]) * bf16_to_double(g.b[l * n + j]);
      g.expected[i * n + j] = (float)sum;
      g.c[i * n + j] = NAN;
    }
  return g;
}

static inline void gemm_free(Gemm *g) {
  free(g->a);
  free(g->b);
  free(g->c);
  free(g->expected);
}

static inline bool gemm_run(Sim *s, Gemm *g, SimLaunch l, Buffer *error) {
  const SimMemory memory[] = {{g->a, g->m * g->k * 2, false, "a"},
                              {g->b, g->k * g->n * 2, false, "b"},
                              {g->c, g->m * g->n * 4, true, "c"}};
  l.memory = memory;
  l.memory_count = 3;
  if (!sim_launch(s, &l, error))
    return false;
  for (uint32_t i = 0; i < g->m * g->n; i++)
    if (g->c[i] != g->expected[i]) {
      buffer_printf(error, "%s: c[%u, %u] is %g, not %g", l.kernel, i / g->n,
                    i % g->n, (double)g->c[i], (double)g->expected[i]);
      return false;
    }
  return true;
}

typedef struct Gemm80Args {
  const uint16_t *a, *b;
  float *c;
  int m, n, k;
} Gemm80Args;

static inline bool gemm80(Sim *s, uint32_t m, uint32_t n, uint32_t k,
                          uint64_t seed, Buffer *error) {
  Gemm g = gemm_new(m, n, k);
  const Gemm80Args args = {g.a, g.b, g.c, (int)m, (int)n, (int)k};
  const SimLaunch l = {.kernel = "gemm80",
                       .grid = {(n + 63) / 64, (m + 63) / 64, 1},
                       .block = {128, 1, 1},
                       .shared_bytes = 3 * (64 * 32 + 32 * 64) * 2,
                       .args = &args,
                       .args_bytes = sizeof args,
                       .seed = seed};
  bool good = gemm_run(s, &g, l, error);
  gemm_free(&g);
  return good;
}

typedef struct Gemm90Args {
  int m, n, k;
  _Alignas(64) unsigned char a[128];
  _Alignas(64) unsigned char b[128];
  _Alignas(64) unsigned char c[128];
} Gemm90Args;

static inline bool gemm90(Sim *s, uint32_t m, uint32_t n, uint32_t k,
                          uint32_t blocks, uint64_t seed, Buffer *error) {
  Gemm g = gemm_new(m, n, k);
  Gemm90Args args = {.m = (int)m, .n = (int)n, .k = (int)k};
  const SimTensorMap a = {.rank = 2,
                          .element_bytes = 2,
                          .address = g.a,
                          .extent = {k, m},
                          .stride = {2, k * 2},
                          .box = {64, 128},
                          .swizzle = 128};
  const SimTensorMap b = {.rank = 2,
                          .element_bytes = 2,
                          .address = g.b,
                          .extent = {n, k},
                          .stride = {2, n * 2},
                          .box = {64, 64},
                          .swizzle = 128};
  const SimTensorMap c = {.rank = 2,
                          .element_bytes = 4,
                          .address = g.c,
                          .extent = {n, m},
                          .stride = {4, n * 4},
                          .box = {32, 64}};
  const SimLaunch l = {.kernel = "gemm90",
                       .grid = {blocks, 1, 1},
                       .block = {384, 1, 1},
                       .shared_bytes = 3 * 32768 + 2 * 32768 + 48,
                       .args = &args,
                       .args_bytes = sizeof args,
                       .seed = seed};
  bool good = sim_tensor_map_encode(args.a, &a, error) &&
              sim_tensor_map_encode(args.b, &b, error) &&
              sim_tensor_map_encode(args.c, &c, error) &&
              gemm_run(s, &g, l, error);
  gemm_free(&g);
  return good;
}

#endif
