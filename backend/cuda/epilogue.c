/* Epilogues of matmuls: the elementwise loops after the contraction. */
#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/gemm_row_reduction.h"
#include "kernel/roofline.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

/* True for outputs that gemm_epilogue.c stores: floats at an affine address. */
static bool is_direct_output(const LoopOutput *r) {
  return r->global_index && dtype_is_float(r->dtype) &&
         !affine_has_floor_divs(r->global_index) && !r->global_index->constant;
}

/* The index of the output among these, from loop `first` on; UINT32_MAX: it is
 * not one of them. */
static uint32_t direct_output_from(const Kernel *k, uint32_t first,
                                   const LoopOutput *which) {
  uint32_t count = 0;
  for (uint32_t j = first; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      if (!is_direct_output(r) || count == GEMM_MAX_OUTPUTS)
        continue;
      if (r == which)
        return count;
      count++;
    }
  return UINT32_MAX;
}

/* The loops of attention before the epilogue store row statistics. */
static uint32_t direct_output_index(const CudaWriter *w,
                                    const LoopOutput *which) {
  const AttentionPass *t = w->s->attention;
  return direct_output_from(w->k, t ? t->pattern.pv_loop : 0, which);
}

static void put_result(CudaWriter *w, Buffer *out, const LoopOutput *r,
                       const CudaLocal *l, const char *x, const char *stored,
                       const char *const to[GEMM_MAX_OUTPUTS]) {
  Emitter *e = &w->e;
  uint32_t number = direct_output_index(w, r);
  if (r->local_index && l->storage == STORAGE_POINT_SCRATCH)
    cuda_put_store_at(out, r->dtype, format(e, "l%u", l->name),
                      emit_affine(e, r->local_index), x);
  else if (r->local_index)
    buffer_printf(out, "const %s l%u = %s;\n%s",
                  scalar_type(value_class(r->dtype)), l->name,
                  cuda_round_to_dtype(e, r->dtype, x),
                  w->row_reduction ? format(e, "(void)l%u;\n", l->name) : "");
  if (!to)
    return;
  if (number != UINT32_MAX)
    buffer_printf(out, "%s = %s;\n", to[number], stored);
  else if (r->global_index)
    cuda_put_store(w, out, r, stored);
}

/* True for outputs of a row reduction of the matmul. */
static bool is_row_reduced(const CudaWriter *w, const LoopOutput *r) {
  return w->row_reduction && r->reduce != PRIM_NONE;
}

/* ---- loads of pairs ---- */

/* True for a load that has neighbouring columns in neighbouring elements, the
 * even column at a multiple of two elements. */
static bool is_pair_load(const LoopNest *loop, const KernelOp *s,
                         uint32_t column) {
  return s->kind == KOP_LOAD && !s->packed_pairs && !s->checked_index_count &&
         (s->dtype == DT_BF16 || s->dtype == DT_F16 || s->dtype == DT_F32) &&
         cuda_is_vectorizable(loop, s->address, column, 2);
}

/* True if a load may be masked. */
static bool has_select(const LoopNest *loop) {
  for (uint32_t i = 0; i < loop->ops.len; i++) {
    const KernelOp *s = &loop->ops.at[i];
    if (s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT))
      return true;
  }
  return false;
}

uint32_t cuda_find_pair_loads(CudaWriter *w, uint32_t column, AxisList rows,
                              GemmPairLoad to[MAX_PAIR_LOADS]) {
  PairLoads *pairs = NEW(w->e.arena, PairLoads);
  for (uint32_t j = 1; j < w->k->loops.len; j++) {
    const LoopNest *loop = w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len && !has_select(loop); i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (pairs->count == MAX_PAIR_LOADS || !is_pair_load(loop, s, column))
        continue;
      GemmPairLoad *load = &to[pairs->count];
      load->type = s->dtype == DT_F32 ? "float2" : "unsigned";
      load->element =
          format(&w->e, "*(const %s *)(p%u + (%s))", load->type, s->input,
                 cuda_address_at(w, s->address, loop->parallel_axes));
      load->row_invariant = true;
      for (uint32_t v = 0; v < rows.count; v++)
        load->row_invariant &= s->address->coef[rows.axes[v]] == 0;
      pairs->op[pairs->count++] = s;
    }
  }
  w->pairs = pairs;
  return pairs->count;
}

/* The value of a load of the epilogue at column v of a pair, or NULL. */
static const char *paired_element(CudaWriter *w, const KernelOp *s) {
  for (uint32_t r = 0; w->uses_pairs && r < w->pairs->count; r++)
    if (w->pairs->op[r] == s)
      return s->dtype == DT_F32
                 ? format(&w->e, "(v ? pair%u.y : pair%u.x)", r, r)
                 : format(&w->e,
                          "from_%s((uint16_t)(v ? pair%u >> 16 : pair%u))",
                          dtype_info[s->dtype].name, r, r);
  return NULL;
}

void cuda_put_epilogue_loop(CudaWriter *w, Buffer *out, uint32_t at,
                            const char *x,
                            const char *const to[GEMM_MAX_OUTPUTS],
                            const char *(*precomputed_of)(CudaWriter *w,
                                                          const KernelOp *s)) {
  Emitter *e = &w->e;
  /* the emitter counts its operations later */
  LoopNest *loop = NEW(e->arena, LoopNest);
  *loop = *w->k->loops.at[at];
  const char **precomputed = NEW_ARRAY(e->arena, const char *, loop->ops.len);
  Buffer results = {.arena = e->arena};
  for (uint32_t i = 0; i < loop->ops.len; i++) {
    const KernelOp *s = &loop->ops.at[i];
    precomputed[i] = paired_element(w, s);
    if (s->kind != KOP_LOAD_LOCAL)
      continue;
    precomputed[i] = precomputed_of ? precomputed_of(w, s) : NULL;
    if (!precomputed[i] &&
        w->locals[s->source_loop][s->source_output].storage !=
            STORAGE_POINT_SCRATCH)
      precomputed[i] =
          format(e, "l%u", w->locals[s->source_loop][s->source_output].name);
  }
  if (x)
    memset(&loop->ops, 0, sizeof loop->ops);
  emit_begin_loop(e, loop, NO_AXIS, 0, NULL);
  e->ops.precomputed = precomputed;
  emit_ops(e);
  e->ops.precomputed = NULL;
  for (uint32_t i = 0; i < loop->outputs.len && !e->failed; i++) {
    const LoopOutput *r = &w->k->loops.at[at]->outputs.at[i];
    if (at && is_row_reduced(w, r)) {
      buffer_puts(&results, "if (there) {\n");
      cuda_accumulator_update(w, &w->row_reduction->accumulators[at][i],
                              &results);
      buffer_puts(&results, "}\n");
      continue;
    }
    if (!r->global_index && !r->local_index)
      continue;
    put_result(w, &results, r, &w->locals[w->pass->first_loop + at][i],
               x ? x : emit_scalar(e, r->value_op),
               x ? x : emit_store_value(e, r->value_op, r->dtype), to);
  }
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  emit_append(out, &e->check_code);
  emit_append(out, &results);
}

/* ---- precision ---- */

/* The result of the operation keeps the relative error of this argument. */
static bool keeps_relative_error(const KernelOp *s, uint32_t arg) {
  bool is_map = s->kind == KOP_MAP;
  return (s->kind == KOP_CONVERT && dtype_is_float(s->dtype)) ||
         (s->kind == KOP_SELECT && arg > 0) ||
         (is_map && s->op == PRIM_SELECT && arg > 0) ||
         (is_map && (s->op == PRIM_MUL || s->op == PRIM_DIV ||
                     s->op == PRIM_NEG || s->op == PRIM_ABS));
}

const bool *cuda_approximable_ops(Arena *arena, const LoopNest *loop,
                                  bool narrow_results) {
  bool *may = NEW_ARRAY(arena, bool, loop->ops.len + 1);
  memset(may, true, loop->ops.len);
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    const LoopOutput *r = &loop->outputs.at[i];
    if (!narrow_results &&
        (r->reduce != PRIM_NONE || !dtype_is_narrow_float(r->dtype)))
      may[r->value_op] = false;
  }
  for (uint32_t i = loop->ops.len; i-- > 0;) {
    const KernelOp *s = &loop->ops.at[i];
    bool is_narrow = dtype_is_narrow_float(s->dtype);
    for (uint32_t j = 0; j < s->arg_count; j++)
      may[s->args[j]] &= keeps_relative_error(s, j) && (is_narrow || may[i]);
  }
  return may;
}

void cuda_put_epilogue_loops(CudaWriter *w, Buffer *out, uint32_t first,
                             const char *x,
                             const char *const to[GEMM_MAX_OUTPUTS],
                             const char *(*precomputed)(CudaWriter *w,
                                                        const KernelOp *s)) {
  uint32_t last =
      w->row_reduction ? w->row_reduction->first_reduction : w->k->loops.len;
  for (uint32_t j = first; j < last; j++) {
    w->dialect.approximates_sigmoid =
        cuda_approximable_ops(w->e.arena, w->k->loops.at[j], false);
    cuda_put_epilogue_loop(w, out, j, j == first ? x : NULL, to, precomputed);
  }
  w->dialect.approximates_sigmoid = NULL;
}

/* ---- TMA stores ---- */

void cuda_epilogue_shape(const Kernel *k, GemmPass *t) {
  GemmShape *s = &t->shape;
  TensorMap map;
  s->tma_storable = t->has_tensor_maps;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      if (!r->global_index)
        continue;
      uint32_t bytes = dtype_info[r->dtype].bytes;
      s->output_count++;
      s->max_output_bytes =
          bytes > s->max_output_bytes ? bytes : s->max_output_bytes;
      s->tma_storable &= dtype_info[r->dtype].bytes > 1 &&
                         direct_output_from(k, 0, r) != UINT32_MAX &&
                         gemm_pass_output_map(t, loop, r, &map);
    }
    for (uint32_t i = 0; j && i < loop->ops.len; i++) {
      const KernelOp *step = &loop->ops.at[i];
      s->epilogue_ops += step->kind == KOP_MAP    ? map_info[step->op].cost
                         : step->kind == KOP_LOAD ? 2
                                                  : 0.5;
    }
  }
  s->tma_storable &= s->output_count > 0;
}

/* Row statistics are not stored by TMA. */
void cuda_attention_stores(AttentionPass *t, const Kernel *k) {
  AttentionShape *s = &t->shape;
  TensorMap map;
  s->tma_storable = true;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      uint32_t bytes = dtype_info[r->dtype].bytes;
      if (!r->global_index)
        continue;
      s->output_count++;
      s->max_output_bytes =
          bytes > s->max_output_bytes ? bytes : s->max_output_bytes;
      s->tma_storable &=
          j >= t->pattern.pv_loop && (bytes == 2 || bytes == 4) &&
          direct_output_from(k, t->pattern.pv_loop, r) != UINT32_MAX &&
          attention_output_map(t, k->loops.at[j], r, &map);
    }
  s->tma_storable &= s->output_count > 0;
}

bool cuda_is_speculatable(const KernelOp *s) {
  switch (s->kind) {
  case KOP_CONST:
  case KOP_AFFINE:
  case KOP_LOAD_LOCAL:
  case KOP_SELECT:
  case KOP_CONVERT:
    return true;
  case KOP_MAP: /* an integer division by 0 may fault */
    return dtype_is_float(s->dtype) || s->dtype == DT_BOOL;
  case KOP_LOAD:
  case KOP_RANDOM:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    break;
  }
  return false;
}

bool cuda_epilogue_is_bounds_safe(const CudaWriter *w) {
  const Kernel *k = w->k;
  const uint32_t first = w->s->attention ? w->s->attention->pattern.pv_loop : 0;
  for (uint32_t j = first; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; j > first && i < loop->ops.len; i++)
      if (!cuda_is_speculatable(&loop->ops.at[i]))
        return false;
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      if (j && is_row_reduced(w, r))
        continue;
      if ((r->local_index && w->locals[w->pass->first_loop + j][i].storage ==
                                 STORAGE_POINT_SCRATCH) ||
          (r->global_index && direct_output_index(w, r) == UINT32_MAX))
        return false;
    }
  }
  return true;
}

static const char *output_tensor_map(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r) {
  const GemmPass *t = w->s->gemm;
  const AttentionPass *attention = w->s->attention;
  TensorMap map;
  if (t && t->s.store == STORE_TMA && gemm_pass_output_map(t, loop, r, &map))
    tensor_map_set_output_box(&t->shape, &t->s, &map);
  else if (attention && attention->s.store == STORE_TMA &&
           attention_output_map(attention, loop, r, &map))
    attention_set_output_box(attention, &map);
  else
    return NULL;
  map.pointer_index = cuda_output_index(w, r);
  return cuda_add_tensor_map(w, &map);
}

uint32_t cuda_fill_gemm_outputs(CudaWriter *w, const AxisList axes[3],
                                GemmOutput to[GEMM_MAX_OUTPUTS]) {
  Emitter *e = &w->e;
  const Kernel *k = w->k;
  uint32_t count = 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      uint32_t at = 0;
      if (direct_output_index(w, r) == UINT32_MAX)
        continue;
      GemmOutput *output = &to[count++];
      output->pointer = format(e, "o%u", cuda_output_index(w, r));
      output->dtype = r->dtype;
      output->tensor_map = output_tensor_map(w, k->loops.at[j], r);
      for (uint32_t x = 0; x < 3; x++)
        for (uint32_t v = 0; v < axes[x].count; v++) {
          int64_t times = r->global_index->coef[axes[x].axes[v]];
          output->strides[at++] = times == 1 ? "1"
                                  : times    ? emit_int(e, times)
                                             : NULL;
        }
    }
  return count;
}
