/* Reductions: accumulators, combination across threads, and partial results for
 * another pass. */
#include "backend/cuda/kernel.h"

#define format emit_format

static bool needs_int64_index(const LoopNest *loop) {
  return loop->graph->extent_table ||
         loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count) >
             INT32_MAX;
}

/* The linear position of the current element in its row. */
static const char *row_position(Emitter *e, const LoopNest *loop) {
  AffineExpr *q = affine_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t v = loop->axis_count; v-- > loop->spatial_axes;) {
    q->coef[v] = stride;
    stride = emit_extent_mul(e, stride, loop->extents[v]);
  }
  return emit_affine(e, q);
}

/* ---- partial results ---- */

static Dtype partial_dtype(const LoopNest *loop, const LoopOutput *r) {
  char class = value_class(loop->ops.at[r->value_op].dtype);
  return class == 'f'   ? DT_F32
         : class == 'd' ? DT_F64
         : class == 'l' ? DT_I64
         : class == 'b' ? DT_BOOL
                        : DT_I32;
}

PartialReduction cuda_alloc_partials(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r, int64_t count) {
  PartialReduction p = {.dtype = partial_dtype(loop, r)};
  p.offset = cuda_alloc_scratch(w, count, p.dtype);
  p.is_arg_reduction = prim_is_arg_reduction(r->reduce);
  if (p.is_arg_reduction)
    p.index_offset = cuda_alloc_scratch(w, count, DT_I64);
  return p;
}

KernelOp cuda_partial_load(const CudaWriter *w, const PartialReduction *p,
                           AffineExpr *address) {
  return (KernelOp){.kind = KOP_LOAD,
                    .dtype = p->dtype,
                    .low = INT64_MIN,
                    .high = INT64_MAX,
                    .input = w->k->inputs.len + (uint32_t)(p - w->partials_in),
                    .address = address};
}

void cuda_put_partial_pointers(CudaWriter *w) {
  for (uint32_t j = 0; j < w->partials_in_count; j++) {
    const char *type = memory_type(w->partials_in[j].dtype);
    buffer_printf(
        &w->head, "const %s *const p%u = (const %s *)(scratch + %s);\n", type,
        w->k->inputs.len + j, type, emit_int(&w->e, w->partials_in[j].offset));
  }
}

/* The partial result that an op loads; NULL: none. */
static const PartialReduction *partial_of(const CudaWriter *w,
                                          const KernelOp *s) {
  return s->kind == KOP_LOAD && s->input >= w->k->inputs.len
             ? &w->partials_in[s->input - w->k->inputs.len]
             : NULL;
}

/* The row position that the earlier pass stored with a partial argmax. */
static const char *partial_index_expr(CudaWriter *w, const KernelOp *s,
                                      const PartialReduction *p) {
  Emitter *e = &w->e;
  const char *offset = emit_int(e, p->index_offset);
  return format(e, "((const int64_t *)(scratch + %s))[%s]", offset,
                emit_affine(e, s->address));
}

/* ---- accumulators ---- */

bool cuda_sums_runs(const LoopNest *loop, const LoopOutput *r) {
  return reduce_info[r->reduce].accumulator == ACCUMULATOR_RUNS &&
         value_class(loop->ops.at[r->value_op].dtype) == 'f';
}

CudaAccumulator cuda_accumulator_new(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r) {
  Emitter *e = &w->e;
  Dtype t = loop->ops.at[r->value_op].dtype;
  CudaAccumulator s = {.r = r, .name = e->next_id++, .class = value_class(t)};
  s.type = scalar_type(s.class);
  s.identity = emit_identity(r->reduce, t);
  if (!prim_is_arg_reduction(r->reduce))
    return s;
  const KernelOp *of = &loop->ops.at[r->value_op];
  const PartialReduction *part = partial_of(w, of);
  s.index_expr = part               ? partial_index_expr(w, of, part)
                 : w->row_reduction ? "column"
                                    : row_position(e, loop);
  bool narrow = s.class == 'f' || s.class == 'i' || s.class == 'b';
  s.index_type = narrow && !part && !w->part_count && !needs_int64_index(loop)
                     ? "int32_t"
                     : "int64_t";
  return s;
}

void cuda_accumulator_declare(const CudaAccumulator *s, Buffer *out) {
  if (s->index_expr)
    buffer_printf(out, "ax_place<%s, %s> acc%u = {0, -1};\n", s->type,
                  s->index_type, s->name);
  else
    buffer_printf(out, "%s acc%u = %s;\n", s->type, s->name, s->identity);
  if (s->blocked_sum)
    buffer_printf(out, "%s sum%u = 0;\n", s->type, s->name);
}

void cuda_accumulator_end_run(const CudaAccumulator *s, Buffer *out) {
  if (s->blocked_sum)
    buffer_printf(out, "sum%u += acc%u;\nacc%u = 0;\n", s->name, s->name,
                  s->name);
}

void cuda_accumulator_end(const CudaAccumulator *s, Buffer *out) {
  if (s->blocked_sum)
    buffer_printf(out, "acc%u += sum%u;\n", s->name, s->name);
}

void cuda_accumulator_update(CudaWriter *w, const CudaAccumulator *s,
                             Buffer *out) {
  Emitter *e = &w->e;
  const char *x = emit_scalar(e, s->r->value_op),
             *acc = format(e, "acc%u", s->name);
  if (s->index_expr)
    buffer_printf(out, "%s(&%s, {%s, (%s)(%s)});\n",
                  order_info[reduce_info[s->r->reduce].order].cuda_place, acc,
                  x, s->index_type, s->index_expr);
  else
    buffer_printf(out, "%s = %s;\n", acc,
                  emit_combine(e, s->r->reduce, s->class, false, acc, x));
}

void cuda_accumulator_combine(CudaWriter *w, const CudaAccumulator *s,
                              Buffer *out, const char *fold,
                              const char *scratch) {
  Emitter *e = &w->e;
  const char *type = s->index_expr
                         ? format(e, "ax_place<%s, %s>", s->type, s->index_type)
                         : s->type;
  buffer_printf(out, "acc%u = %s(acc%u, %s, [](%s x, %s y) {\n", s->name, fold,
                s->name, scratch, type, type);
  if (s->index_expr)
    buffer_printf(out, "%s(&x, y);\nreturn x;\n});\n",
                  order_info[reduce_info[s->r->reduce].order].cuda_place);
  else
    buffer_printf(out, "return (%s)(%s);\n});\n", type,
                  emit_combine(e, s->r->reduce, s->class, false, "x", "y"));
}

const char *cuda_accumulator_value(Emitter *e, const CudaAccumulator *s) {
  return format(e, s->index_expr ? "acc%u.at" : "acc%u", s->name);
}

void cuda_accumulator_store_partial(CudaWriter *w, const CudaAccumulator *s,
                                    const PartialReduction *p, const char *at,
                                    Buffer *out) {
  Emitter *e = &w->e;
  const char *type = memory_type(p->dtype);
  uint32_t name = e->next_id++;
  buffer_printf(&w->head, "%s *const parts%u = (%s *)(scratch + %s);\n", type,
                name, type, emit_int(e, p->offset));
  cuda_put_store_at(out, p->dtype, format(e, "parts%u", name), at,
                    format(e, s->index_expr ? "acc%u.best" : "acc%u", s->name));
  if (s->index_expr)
    buffer_printf(out, "((int64_t *)(scratch + %s))[%s] = acc%u.at;\n",
                  emit_int(e, p->index_offset), at, s->name);
}
