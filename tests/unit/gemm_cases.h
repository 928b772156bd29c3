/* Contraction cases for tests: sources of kernels whose arguments are in one
 * struct, which the test fills in. */
#ifndef AXON_TESTS_GEMM_CASES_H
#define AXON_TESTS_GEMM_CASES_H

#include "backend/cuda/gemm.h"
#include "support/buffer.h"

#include <string.h>

/* c[batch, m, n] = f(scale * sum over k of a * b + bias[n] + shift[m]), with
 * optional bias, and shift only with bias.  Strides are in elements. */
static const char gemm_arguments[] =
    "struct Arguments {\n"
    "const void *a, *b;\nvoid *c;\nconst float *bias, *shift;\n"
    "void *room, *counters;\n"
    "int64_t m, n, k, batch;\n"
    "int64_t a_m, a_k, a_batch, b_n, b_k, b_batch, c_m, c_n, c_batch;\n"
    "float scale;\nax_tensor_map map_a, map_b, map_c;\n};\n";

typedef struct GemmCase {
  Dtype in, sum, out;
  bool a_transposed, b_transposed; /* the operand is stored MN-major */
  bool computed; /* the left side is scaled when it is loaded */
  bool bias, shift;
  bool tf32;
  uint32_t align;
} GemmCase;

static void gemm_case_value(void *owner, Buffer *out, const char *to) {
  const GemmCase *c = owner;
  const char *name = c->in == DT_F16    ? "ax_f16_to_f32"
                     : c->in == DT_BF16 ? "ax_bf16_to_f32"
                                        : "";
  const char *type = c->in == DT_F64   ? "double"
                     : c->in == DT_F32 ? "float"
                                       : "uint16_t";
  buffer_printf(out,
                "%s = args.scale * %s(((const %s *)args.a)[iz * args.a_batch + "
                "im * args.a_m + ik * args.a_k]);\n",
                to, name, type);
}

static void gemm_case_store(void *owner, Buffer *out, const char *x,
                            const char *const to[GEMM_MAX_OUTPUTS]) {
  const GemmCase *c = owner;
  if (c->bias)
    buffer_printf(out, "%s = fmaxf(%s + args.bias[in]%s, 0.0f);\n", to[0], x,
                  c->shift ? " + args.shift[im]" : "");
  else
    buffer_printf(out, "%s = %s;\n", to[0], x);
}

static GemmAxisGroup gemm_one(const char *name, const char *extent,
                              const char *a, const char *b) {
  GemmAxisGroup g = {.count = 1};
  g.axes[0] =
      (GemmAxis){.name = name, .extent = extent, .stride_a = a, .stride_b = b};
  return g;
}

static GemmShape gemm_case_shape(const GemmCase *c, double m, double n,
                                 double k, double batch) {
  GemmSide side = {
      .dtype = c->in, .align_bytes = c->align, .tma_copyable = c->align >= 16};
  GemmShape s = {
      .a = side, .b = side, .accumulator_dtype = c->sum, .allow_tf32 = c->tf32};
  s.a.mn_major = c->a_transposed;
  s.b.mn_major = c->b_transposed;
  s.a.computed = c->computed;
  s.m = m;
  s.n = n;
  s.k = k;
  s.batch = batch;
  s.epilogue_bytes = dtype_info[c->out].bytes;
  s.store_align_bytes = c->align;
  s.tma_storable = c->align >= 16;
  s.output_count = 1;
  s.max_output_bytes = dtype_info[c->out].bytes;
  s.epilogue_ops = c->bias ? 4 : 1;
  return s;
}

/* Writes the source of the kernel with this name, after the struct of its
 * arguments. */
static void gemm_case_text(const GemmCase *c, const GemmShape *shape,
                           const GemmSchedule *s, const char *name,
                           Buffer *out) {
  GemmKernelSpec t = {.shape = shape,
                      .schedule = s,
                      .name = name,
                      .put_epilogue = gemm_case_store,
                      .owner = (void *)(uintptr_t)c,
                      .workspace = "args.room",
                      .counters = "args.counters",
                      .output_count = 1};
  t.batch = gemm_one("iz", "args.batch", "args.a_batch", "args.b_batch");
  t.m = gemm_one("im", "args.m", c->a_transposed ? "1" : "args.a_m", NULL);
  t.n = gemm_one("in", "args.n", NULL, c->b_transposed ? "1" : "args.b_n");
  t.k = gemm_one("ik", "args.k", c->a_transposed ? "args.a_k" : "1",
                 c->b_transposed ? "args.b_k" : "1");
  t.a = (GemmOperand){.pointer = "args.a",
                      .tensor_map = "&args.map_a",
                      .put_value = c->computed ? gemm_case_value : NULL};
  t.b = (GemmOperand){.pointer = "args.b", .tensor_map = "&args.map_b"};
  t.out_of_bounds_safe = !c->bias;
  t.outputs[0] = (GemmOutput){
      .pointer = "args.c", .dtype = c->out, .tensor_map = "&args.map_c"};
  t.outputs[0].strides[0] = "args.c_batch";
  t.outputs[0].strides[1] = "args.c_m";
  t.outputs[0].strides[2] = "1";
  Buffer before = {0}, body = {0};
  gemm_put_kernel(&before, &body, &t);
  char cluster[40] = "";
  if (gemm_cluster_size(s) > 1)
    snprintf(cluster, sizeof cluster, " __cluster_dims__(%u)",
             gemm_cluster_size(s));
  buffer_printf(out,
                "%.*sextern \"C\" __global__ void __launch_bounds__(%u, %u)%s\n"
                "%s(const __grid_constant__ Arguments args) {\n%s}\n",
                (int)before.len, before.len ? before.text : "", gemm_threads(s),
                s->blocks, cluster, name, body.text);
  buffer_free(&before);
  buffer_free(&body);
}

#endif
