/* Functions that passes of all kinds share. */
#include "backend/cuda/kernel.h"

#define format emit_format

enum { SCRATCH_ALIGN_BYTES = 256 };

const char *cuda_divisor(Emitter *e, int64_t by) {
  CudaWriter *w = (CudaWriter *)e; /* the Emitter is the first field */
  VEC_PUSH(e->arena, w->pass->divisors, by);
  return format(e, "d[%u]", w->pass->divisors.len - 1);
}

const char *cuda_device_counters(CudaWriter *w) {
  return format(&w->e, "((unsigned *)a.p[%u] + %d)", w->out->pointer_count - 1,
                CUDA_COUNTERS_OFFSET / 4);
}

const char *cuda_add_tensor_map(CudaWriter *w, const TensorMap *map) {
  VEC_PUSH(w->e.arena, w->pass->tensor_maps, *map);
  return format(&w->e, "&a.m[%u]", w->pass->tensor_maps.len - 1);
}

const char *cuda_address_without(Emitter *e, const AffineExpr *q,
                                 uint32_t without) {
  AffineExpr *rest = affine_copy(e->arena, q);
  if (without < MAX_KERNEL_AXES)
    rest->coef[without] = 0;
  return emit_affine(e, rest);
}

const char *cuda_address_at(CudaWriter *w, const AffineExpr *q,
                            uint32_t axis_count) {
  Emitter *e = &w->e;
  const char *at = format(e, "%s", emit_int(e, q->constant));
  for (uint32_t v = 0; v < axis_count; v++)
    if (q->coef[v])
      at = format(e, "%s + i%u * (int64_t)%s", at, v, emit_int(e, q->coef[v]));
  return at;
}

void cuda_put_unravel_names(CudaWriter *w, Buffer *out, uint32_t count,
                            const char *const *names, const int64_t *sizes,
                            const char *number) {
  Emitter *e = &w->e;
  const char *type = w->dialect.index_type, *rest = number;
  for (uint32_t k = count; k-- > 1;) {
    uint32_t name = e->next_id++;
    buffer_printf(out,
                  "const %s u%u = floor_div(%s, %s);\n"
                  "const %s %s = %s - u%u * %s;\n",
                  type, name, rest, emit_divisor(e, sizes[k]), type, names[k],
                  rest, name, emit_int(e, sizes[k]));
    rest = format(e, "u%u", name);
  }
  if (count)
    buffer_printf(out, "const %s %s = %s;\n", type, names[0], rest);
}

void cuda_put_unravel(CudaWriter *w, Buffer *out, const LoopNest *loop,
                      uint32_t count, const uint32_t *axes,
                      const char *number) {
  const char *names[MAX_KERNEL_AXES];
  int64_t sizes[MAX_KERNEL_AXES];
  for (uint32_t k = 0; k < count; k++) {
    names[k] = format(&w->e, "i%u", axes[k]);
    sizes[k] = loop->extents[axes[k]];
  }
  cuda_put_unravel_names(w, out, count, names, sizes, number);
}

void cuda_put_unravel_outer(CudaWriter *w, Buffer *out, uint32_t count,
                            const char *number) {
  uint32_t axes[MAX_KERNEL_AXES];
  for (uint32_t v = 0; v < count; v++)
    axes[v] = v;
  cuda_put_unravel(w, out, w->k->loops.at[0], count, axes, number);
}

const char *cuda_round_to_dtype(Emitter *e, Dtype t, const char *x) {
  switch (t) {
  case DT_F16:
  case DT_BF16:
  case DT_F8_E4M3:
  case DT_F8_E5M2:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
    return format(e, "round_%s(%s)", dtype_info[t].name, x);
  case DT_BOOL:
    return format(e, "(%s) != 0", x);
  case DT_U8:
  case DT_I8:
  case DT_I32:
  case DT_I64:
  case DT_F32:
  case DT_F64:
    return format(e, "(%s)(%s)", memory_type(t), x);
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return x;
}

uint32_t cuda_output_index(const CudaWriter *w, const LoopOutput *r) {
  uint32_t j = 0;
  while (j < w->out->outputs.len && w->out->outputs.at[j]->node != r->node)
    j++;
  return j;
}

/* Stores `*(p + at) = x` in a memory type. */
void cuda_put_store_at(Buffer *out, Dtype t, const char *p, const char *at,
                       const char *x) {
  if (dtype_is_narrow_float(t))
    buffer_printf(out, "put_%s(%s + %s, %s);\n", dtype_info[t].name, p, at, x);
  else
    buffer_printf(out, "%s[%s] = (%s)(%s);\n", p, at, memory_type(t), x);
}

void cuda_put_store(CudaWriter *w, Buffer *out, const LoopOutput *r,
                    const char *x) {
  Emitter *e = &w->e;
  cuda_put_store_at(out, r->dtype, format(e, "o%u", cuda_output_index(w, r)),
                    emit_affine(e, r->global_index), x);
}

void cuda_put_ops(CudaWriter *w, Buffer *out, const LoopNest *loop,
                  const char **precomputed) {
  Emitter *e = &w->e;
  emit_begin_loop(e, loop, NO_AXIS, 0, NULL);
  e->ops.precomputed = precomputed;
  emit_ops(e);
  e->ops.precomputed = NULL;
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  emit_append(out, &e->check_code);
}

static int64_t round_up_bytes(CudaWriter *w, int64_t bytes, int64_t line) {
  return emit_extent_mul(&w->e, emit_extent_ceil_div(&w->e, bytes, line), line);
}

int64_t cuda_alloc_scratch_bytes(CudaWriter *w, int64_t bytes) {
  int64_t at = w->out->scratch_next;
  w->out->scratch_bytes = emit_extent_add(&w->e, at, bytes);
  w->out->scratch_next =
      emit_extent_add(&w->e, at, round_up_bytes(w, bytes, SCRATCH_ALIGN_BYTES));
  return at;
}

int64_t cuda_alloc_scratch(CudaWriter *w, int64_t count, Dtype t) {
  return cuda_alloc_scratch_bytes(
      w, emit_extent_mul(&w->e, count, dtype_info[t].bytes));
}

void cuda_note_int32_size(CudaWriter *w, int64_t size) {
  if (!extent_is_static(w->k->graph, size))
    VEC_PUSH(w->e.arena, w->pass->int32_sizes, size);
}
