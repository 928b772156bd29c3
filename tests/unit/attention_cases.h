/* Attention cases for tests: the source of a kernel whose arguments are in one
 * struct, which the test fills in. */
#ifndef AXON_TESTS_ATTENTION_CASES_H
#define AXON_TESTS_ATTENTION_CASES_H

#include "backend/cuda/attention.h"
#include "support/buffer.h"

#include <string.h>

/* `heads` heads; `groups` heads share keys and values.  Strides are in
 * elements, and 1 along k and e. */
static const char attention_arguments[] =
    "#define NEVER __int_as_float(0xff800000)\n"
    "struct Arguments {\n"
    "const void *a, *b, *v;\nvoid *c;\n"
    "int64_t batch, heads, groups, m, n, k, e;\n"
    "int64_t a_batch, a_head, a_m, b_batch, b_head, b_n;\n"
    "int64_t v_batch, v_head, v_n, c_batch, c_head, c_m;\n"
    "float scale;\nunsigned *counters;\nax_tensor_map map_a, map_b, "
    "map_v, map_c;\n};\n";

typedef enum AttentionKind {
  ATTENTION_PLAIN,
  ATTENTION_CAUSAL,
  ATTENTION_WINDOW,  /* masks all but the last 100 keys, and adds a bias by
                        distance */
  ATTENTION_CAPPED,  /* 20 tanh(s / 20) */
  ATTENTION_SIGMOID, /* a sigmoid in place of the softmax */
} AttentionKind;

typedef struct AttentionCase {
  Dtype in, out;
  AttentionKind kind;
  uint32_t k, e, align;
  bool computed; /* v is scaled when it is loaded */
  bool counts;   /* the blocks count sums that are not finite */
} AttentionCase;

static void attention_case_score(void *owner, Buffer *out, const char *x,
                                 const char *to, bool whole) {
  const AttentionCase *c = owner;
  switch (c->kind) {
  case ATTENTION_PLAIN:
    buffer_printf(out, "%s = %s * args.scale;\n", to, x);
    break;
  case ATTENTION_CAUSAL:
    buffer_printf(out, "%s = %s ? %s * args.scale : NEVER;\n", to,
                  whole ? "true" : "in <= im", x);
    break;
  case ATTENTION_WINDOW:
    buffer_printf(out,
                  "%s = %s ? %s * args.scale + 0.125f * (float)(in - im) * "
                  "(float)(ih * args.groups + ig + 1) : NEVER;\n",
                  to, whole ? "true" : "in <= im && in + 100 > im", x);
    break;
  case ATTENTION_CAPPED:
    buffer_printf(out, "%s = 20.0f * tanhf(%s * args.scale / 20.0f);\n", to, x);
    break;
  case ATTENTION_SIGMOID:
    buffer_printf(out, "%s = 1.0f / (1.0f + expf(-%s * args.scale));\n", to, x);
    break;
  }
}

static void attention_case_limits(void *owner, Buffer *out, const char *first,
                                  const char *last) {
  const AttentionCase *c = owner;
  buffer_printf(out, "high = (int)%s + 1;\n", last);
  if (c->kind == ATTENTION_WINDOW)
    buffer_printf(out, "low = (int)%s - 99;\n", first);
  else
    buffer_printf(out, "(void)%s;\n", first);
}

static void attention_case_inside(void *owner, Buffer *out, const char *first,
                                  const char *last) {
  const AttentionCase *c = owner;
  buffer_printf(out, "whole_high = min(whole_high, (int)%s + 1);\n", first);
  if (c->kind == ATTENTION_WINDOW)
    buffer_printf(out, "whole_low = (int)%s - 99;\n", last);
  else
    buffer_printf(out, "(void)%s;\n", last);
}

static void attention_case_value(void *owner, Buffer *out, const char *to) {
  const AttentionCase *c = owner;
  buffer_printf(out,
                "%s = 0.5f * ax_%s_to_f32(((const uint16_t *)args.v)[iz * "
                "args.v_batch + ih * args.v_head + in * args.v_n + ie]);\n",
                to, dtype_info[c->in].name);
}

static void attention_case_store(void *owner, Buffer *out, const char *x,
                                 const char *const to[GEMM_MAX_OUTPUTS]) {
  const AttentionCase *c = owner;
  buffer_printf(
      out, c->kind == ATTENTION_SIGMOID ? "%s = %s;\n" : "%s = %s / total;\n",
      to[0], x);
}

static AttentionShape attention_case_shape(const AttentionCase *c, double m,
                                           double n, double batch) {
  GemmSide side = {
      .dtype = c->in, .align_bytes = c->align, .tma_copyable = true};
  AttentionShape s = {
      .query = side, .key = side, .value = side, .m = m, .n = n};
  s.value.computed = c->computed;
  s.batch = batch;
  s.head_dim = c->k;
  s.value_dim = c->e;
  s.visited_fraction = c->kind == ATTENTION_CAUSAL ? 0.5 : 1;
  s.subtract_max = s.needs_row_sum = c->kind != ATTENTION_SIGMOID;
  s.score_ops = 3;
  s.epilogue_bytes = dtype_info[c->out].bytes;
  s.store_align_bytes = c->align;
  s.tma_storable = c->align >= 16;
  s.output_count = 1;
  s.max_output_bytes = dtype_info[c->out].bytes;
  return s;
}

static GemmAxis attention_axis(const char *name, const char *extent,
                               const char *a, const char *b) {
  return (GemmAxis){
      .name = name, .extent = extent, .stride_a = a, .stride_b = b};
}

/* Writes the source of the kernel with this name, after the struct of its
 * arguments. */
static void attention_case_text(const AttentionCase *c,
                                const AttentionShape *shape,
                                const GemmSchedule *s, const char *name,
                                Buffer *out) {
  AttentionKernelSpec t = {.shape = shape,
                           .schedule = s,
                           .name = name,
                           .put_score = attention_case_score,
                           .put_epilogue = attention_case_store,
                           .owner = (void *)(uintptr_t)c,
                           .output_count = 1};
  if (c->kind == ATTENTION_CAUSAL || c->kind == ATTENTION_WINDOW) {
    t.put_bounds = attention_case_limits;
    t.put_unmasked_bounds = attention_case_inside;
  }
  if (c->counts && s->mma_kind == MMA_KIND_WGMMA)
    t.counters = "args.counters";
  t.first.batch.count = t.first.kv_batch.count = 3;
  t.first.batch.axes[0] =
      attention_axis("iz", "args.batch", "args.a_batch", NULL);
  t.first.batch.axes[1] =
      attention_axis("ih", "args.heads", "args.a_head * args.groups", NULL);
  t.first.batch.axes[2] =
      attention_axis("ig", "args.groups", "args.a_head", NULL);
  t.first.kv_batch.axes[0] =
      attention_axis("iz", "args.batch", "args.b_batch", "args.v_batch");
  t.first.kv_batch.axes[1] =
      attention_axis("ih", "args.heads", "args.b_head", "args.v_head");
  t.first.kv_batch.axes[2] = attention_axis("ig", "args.groups", NULL, NULL);
  t.first.m =
      (GemmAxisGroup){1, {attention_axis("im", "args.m", "args.a_m", NULL)}};
  t.first.k = (GemmAxisGroup){1, {attention_axis("ik", "args.k", "1", NULL)}};
  t.first.n = (GemmAxisGroup){
      1, {attention_axis("in", "args.n", "args.b_n", "args.v_n")}};
  t.first.kv_k =
      (GemmAxisGroup){1, {attention_axis("ik", "args.k", "1", NULL)}};
  t.e = (GemmAxisGroup){1, {attention_axis("ie", "args.e", NULL, "1")}};
  t.first.query =
      (GemmOperand){.pointer = "args.a", .tensor_map = "&args.map_a"};
  t.first.key = (GemmOperand){.pointer = "args.b", .tensor_map = "&args.map_b"};
  t.value =
      (GemmOperand){.pointer = "args.v",
                    .tensor_map = "&args.map_v",
                    .put_value = c->computed ? attention_case_value : NULL};
  t.outputs[0] = (GemmOutput){
      .pointer = "args.c", .dtype = c->out, .tensor_map = "&args.map_c"};
  t.epilogue_out_of_bounds_safe = c->kind == ATTENTION_PLAIN;
  t.outputs[0].strides[0] = "args.c_batch";
  t.outputs[0].strides[1] = "args.c_head * args.groups";
  t.outputs[0].strides[2] = "args.c_head";
  t.outputs[0].strides[3] = "args.c_m";
  t.outputs[0].strides[4] = "1";
  Buffer before = {0}, body = {0};
  attention_put_kernel(&before, &body, &t);
  buffer_printf(out,
                "%.*sextern \"C\" __global__ void __launch_bounds__(%u, %u)\n"
                "%s(const __grid_constant__ Arguments args) {\n%s}\n",
                (int)before.len, before.len ? before.text : "", gemm_threads(s),
                s->blocks, name, body.text);
  buffer_free(&before);
  buffer_free(&body);
}

#endif
