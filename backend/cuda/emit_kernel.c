/* Generates CUDA C++ for the passes of a kernel. */
#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/gemm_micro.h"
#include "backend/cuda/gemm_row_reduction.h"
#include "backend/cuda/intrinsics.h"
#include "backend/cuda/schedule_text.h"
#include "backend/emit/prelude.h"
#include "support/arena.h"
#include "support/code_indent.h"
#include "support/trap.h"

#include <math.h>
#include <string.h>

extern const char device_prelude_text[];

/* ---- locals ---- */

/* Index of the pass's j-th loop in the original kernel. */
static uint32_t loop_number(const CudaPass *p, uint32_t j) {
  return p->first_loop + j;
}

static const char *pass_note(const CudaWriter *w, const CudaPass *p, uint32_t j,
                             const char *const *notes) {
  return notes[w->row_reduction ? w->row_reduction->loop_index[j]
                                : loop_number(p, j)];
}

/* Declares the pointer to a local value in point scratch memory, which other
 * passes access. */
static void put_point_local(CudaWriter *w, const CudaLocal *l, Dtype t) {
  Emitter *e = &w->e;
  buffer_printf(&w->head, "%s *const l%u = (%s *)(scratch + %s);\n",
                memory_type(t), l->name, memory_type(t),
                emit_int(e, l->scratch_offset));
}

/* ---- passes ---- */

static void put_tensor_pointers(CudaWriter *w, Buffer *out,
                                const Kernel *original) {
  uint32_t outs = w->out->outputs.len, ins = original->inputs.len;
  for (uint32_t j = 0; j < outs; j++) {
    const char *t = memory_type(w->out->outputs.at[j]->dtype);
    buffer_printf(out, "%s *__restrict__ const o%u = (%s *)a.p[%u];\n", t, j, t,
                  j);
  }
  for (uint32_t j = 0; j < ins; j++) {
    const char *t = memory_type(original->inputs.at[j]->dtype);
    buffer_printf(out,
                  "const %s *__restrict__ const p%u = (const %s *)a.p[%u];\n",
                  t, j, t, outs + j);
  }
  buffer_printf(out, "char *const scratch = (char *)a.p[%u];\n", outs + ins);
}

static void put_param_names(const CudaWriter *w, Buffer *out) {
  const CudaPass *p = w->pass;
  if (p->emitted.call.ints.len)
    buffer_printf(out, "const %s *const n = a.n;\n", w->dialect.index_type);
  if (p->divisors.len)
    buffer_printf(out, "const %s *const d = a.d;\n",
                  w->out->int32_indices ? "ax_divisor" : "ax_wide_divisor");
  if (p->emitted.call.floats.len)
    buffer_puts(out, "const ax_number *const c = a.c;\n");
}

static void put_args_struct(const CudaWriter *w, Buffer *out,
                            const Kernel *original) {
  const CudaPass *p = w->pass;
  buffer_printf(out, "struct %s_args {\nvoid *p[%u];\n", p->name,
                w->out->outputs.len + original->inputs.len + 2);
  if (p->emitted.call.ints.len)
    buffer_printf(out, "%s n[%u];\n", w->dialect.index_type,
                  p->emitted.call.ints.len);
  if (p->divisors.len)
    buffer_printf(out, "%s d[%u];\n",
                  w->out->int32_indices ? "ax_divisor" : "ax_wide_divisor",
                  p->divisors.len);
  if (p->emitted.call.floats.len)
    buffer_printf(out, "ax_number c[%u];\n", p->emitted.call.floats.len);
  if (p->tensor_maps.len)
    buffer_printf(out, "ax_tensor_map m[%u];\n", p->tensor_maps.len);
  buffer_puts(out, "};\n");
}

/* All checks from MAX_CHECKS on share the last bit. */
uint32_t cuda_check_bit(uint32_t number) {
  return 1u << (number < MAX_CHECKS ? number : MAX_CHECKS);
}

static void put_checks(CudaWriter *w, Buffer *head, Buffer *end,
                       const Kernel *original) {
  uint32_t count = w->pass->emitted.call.checks.len;
  if (!count)
    return;
  for (uint32_t j = 0; j < count; j++) {
    buffer_printf(head, "vi bad%u = 0;\n", j);
    buffer_printf(end, "if (bad%u)\natomicOr((int32_t *)a.p[%u], %u);\n", j,
                  w->out->outputs.len + original->inputs.len + 1,
                  cuda_check_bit(w->out->check_count + j));
  }
  w->out->check_count += count;
}

/* WGMMA kernels use setmaxnreg to move registers between warps. ptxas requires
 * a fixed register budget for that: one block per SM.  Kernels with tensor
 * memory also run one block per SM.  For other kernels, ptxas
 * chooses better: with the maximal budget, it spills some of them. */
static bool needs_all_registers(const CudaSchedule *s) {
  return (s->kind == CUDA_ATTENTION && gemm_has_producer(&s->attention->s)) ||
         (s->kind == CUDA_GEMM && gemm_has_producer(&s->gemm->s));
}

static const char *kernel_parameter(CudaWriter *w) {
  return emit_format(&w->e,
                     cuda_has_indirect_args(w->out, w->pass)
                         ? "const %s_args *__restrict__ const far"
                         : "const __grid_constant__ %s_args a",
                     w->pass->name);
}

/* Blocks with consecutive indices form a cluster. */
static const char *cluster_attribute(CudaWriter *w) {
  uint32_t blocks = w->s->gemm ? gemm_cluster_size(&w->s->gemm->s) : 1;
  return blocks > 1 ? emit_format(&w->e, " __cluster_dims__(%u)", blocks) : "";
}

/* Writes the function of a pass around its body. */
static void put_pass(CudaWriter *w, const Kernel *original) {
  Buffer *out = &w->out->source;
  Buffer end = {.arena = w->e.arena}, head = end, schedule = end;
  put_checks(w, &head, &end, original);
  cuda_schedule_print(&schedule, w->s);
  put_args_struct(w, out, original);
  buffer_printf(
      out,
      "/* %s */\nextern \"C\" __global__ void __launch_bounds__(%u%s)%s\n"
      "%s(%s) {\n%s",
      schedule.text, w->s->block_threads,
      needs_all_registers(w->s) ? ", 1" : " AX_BLOCKS", cluster_attribute(w),
      w->pass->name, kernel_parameter(w),
      cuda_has_indirect_args(w->out, w->pass) ? "const auto &a = *far;\n" : "");
  put_tensor_pointers(w, out, original);
  put_param_names(w, out);
  emit_append(out, &head);
  emit_append(out, &w->head);
  emit_append(out, &w->e.function.head);
  emit_append(out, &w->body);
  emit_append(out, &end);
  buffer_puts(out, "}\n");
}

/* ---- loop fission: one pass per loop, intermediates in scratch memory ---- */

/* Adds the strides of the outer axes to the index of a value. */
static void add_outer_strides(CudaWriter *w, const LoopNest *loop,
                              uint32_t outer, AffineExpr *q, int64_t size) {
  for (uint32_t v = outer; v-- > 0;) {
    q->coef[v] = emit_extent_add(&w->e, q->coef[v], size);
    size = emit_extent_mul(&w->e, size, loop->extents[v]);
  }
}

static void set_fissioned_kernel(CudaWriter *w, Kernel *k, uint32_t at,
                                 CudaPass *p) {
  const LoopNest *from = k->loops.at[at];
  LoopNest *loop = loop_clone(k->arena, from);
  Kernel *one = NEW(k->arena, Kernel);
  *one = *k;
  one->loops = (typeof(one->loops)){0};
  VEC_PUSH(k->arena, one->loops, loop);
  for (uint32_t i = 0; i < loop->ops.len; i++) {
    KernelOp *s = &loop->ops.at[i];
    if (s->kind == KOP_LOAD_LOCAL)
      add_outer_strides(w, loop, k->parallel_axes, s->address,
                        k->loops.at[s->source_loop]
                            ->outputs.at[s->source_output]
                            .local_elements);
  }
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    LoopOutput *r = &loop->outputs.at[i];
    if (r->local_index)
      add_outer_strides(w, loop, k->parallel_axes, r->local_index,
                        r->local_elements);
  }
  one->parallel_axes = loop->parallel_axes = loop->spatial_axes;
  p->k = one;
  p->first_loop = at;
  p->is_fissioned = true;
}

/* ---- split reductions ---- */

/* A kernel that combines the partial results. */
static Kernel *combine_kernel(CudaWriter *w, const Kernel *k, int64_t parts) {
  const LoopNest *loop = k->loops.at[0];
  Kernel *combine = NEW(k->arena, Kernel);
  LoopNest *over = NEW(k->arena, LoopNest);
  *combine = *k;
  combine->loops = (typeof(combine->loops)){0};
  *over = (LoopNest){.graph = loop->graph,
                     .parallel_axes = loop->parallel_axes,
                     .spatial_axes = loop->spatial_axes,
                     .axis_count = loop->spatial_axes + 1};
  memcpy(over->extents, loop->extents,
         loop->spatial_axes * sizeof *loop->extents);
  over->extents[loop->spatial_axes] = parts;
  KernelOp read = cuda_partial_load(w, w->partials_in, affine_new(k->arena, 0));
  read.span = loop->ops.at[loop->outputs.at[0].value_op].span;
  add_outer_strides(w, loop, loop->spatial_axes, read.address, 1);
  read.address->coef[loop->spatial_axes] = w->point_count;
  LoopOutput r = loop->outputs.at[0];
  r.value_op = 0;
  r.global_index = affine_copy(k->arena, r.global_index);
  r.local_index = affine_copy(k->arena, r.local_index);
  VEC_PUSH(k->arena, over->ops, read);
  VEC_PUSH(k->arena, over->outputs, r);
  VEC_PUSH(k->arena, combine->loops, over);
  return combine;
}

/* ---- kernels ---- */

static CudaPass *new_pass(CudaKernel *out, Arena *arena,
                          const CudaTarget *target) {
  CudaPass *p = NEW(arena, CudaPass);
  snprintf(p->name, sizeof p->name, "%s_%u",
           target->name_prefix ? target->name_prefix : "axon", out->passes.len);
  p->emitted.source.arena = arena;
  VEC_PUSH(arena, out->passes, p);
  return p;
}

static void begin_pass(CudaWriter *w, CudaPass *p) {
  Arena *arena = w->e.arena;
  w->pass = p;
  w->s = &p->s;
  w->k = p->k;
  w->e.kernel = p->k;
  w->e.emitted = &p->emitted;
  w->e.function.head = w->body = w->head = (Buffer){.arena = arena};
  w->point_count = 1;
  for (uint32_t v = 0; v < p->k->parallel_axes; v++)
    w->point_count =
        emit_extent_mul(&w->e, w->point_count, p->k->loops.at[0]->extents[v]);
  p->shared_bytes = 0;
}

static void put_notes(CudaWriter *w, const CudaPass *p,
                      const char *const *notes) {
  for (uint32_t j = 0; notes && j < p->k->loops.len; j++)
    buffer_printf(&w->out->source, "/* %s */\n", pass_note(w, p, j, notes));
}

static void put_body(CudaWriter *w) {
  switch (w->s->kind) {
  case CUDA_NEST:
    cuda_put_nest(w);
    break;
  case CUDA_ROW:
    if (w->s->rows)
      cuda_put_row_kernel(w);
    else
      w->e.failed = true;
    break;
  case CUDA_GEMM:
    gemm_pass_put(w, &w->out->source);
    break;
  case CUDA_ATTENTION:
    attention_pass_put(w, &w->out->source);
    break;
  case CUDA_LIBRARY:
  case CUDA_KERNEL_KINDS:
    break;
  }
}

/* Declares pointers to the values that earlier passes leave, and that this pass
 * leaves for later ones. */
static void put_point_locals(CudaWriter *w, const Kernel *original,
                             const CudaPass *p) {
  bool used[MAX_KERNEL_LOOPS][MAX_LOOP_OUTPUTS] = {{false}};
  for (uint32_t j = 0; j < p->k->loops.len; j++) {
    const LoopNest *loop = p->k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD_LOCAL)
        used[loop->ops.at[i].source_loop][loop->ops.at[i].source_output] = true;
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      used[loop_number(p, j)][i] |= loop->outputs.at[i].local_index != NULL;
  }
  for (uint32_t j = 0; j < original->loops.len; j++)
    for (uint32_t i = 0; i < original->loops.at[j]->outputs.len; i++)
      if (used[j][i] && w->locals[j][i].storage == STORAGE_POINT_SCRATCH)
        put_point_local(w, &w->locals[j][i],
                        original->loops.at[j]->outputs.at[i].dtype);
}

static void emit_pass(CudaWriter *w, CudaPass *p, const Kernel *original,
                      const char *const *notes) {
  begin_pass(w, p);
  put_notes(w, p, notes);
  put_point_locals(w, original, p);
  cuda_put_partial_pointers(w);
  put_body(w);
  if (!w->e.failed)
    put_pass(w, original);
}

/* The text of the last pass; NULL: there is none. */
static const PassText *pass_text(const CudaWriter *w) {
  return kernel_text_pass(w->text, w->out->passes.len - 1);
}

/* Schedules the last pass, which is no matrix product. */
static void schedule_pass(CudaWriter *w, CudaPass *p, bool no_split) {
  const PassText *text = pass_text(w);
  cuda_schedule(p, w->target, no_split);
  if (text && !pass_text_apply(w->text, text, p, w->target)) {
    cuda_schedule(p, w->target, no_split);
  }
}

/* The last pass as a matrix product; NULL: it is none, or its text says that it
 * runs as something else. */
static GemmPass *match_gemm_pass(CudaWriter *w, CudaPass *p) {
  const PassText *text = pass_text(w);
  if (text && text->kind != CUDA_GEMM)
    return NULL;
  GemmPass *t = gemm_pass_match(p->k, w->target, text ? text->fields : NULL);
  const char *refusal = !text ? NULL
                        : !t  ? "this pass is no matrix product"
                              : t->refusal;
  if (refusal)
    kernel_text_refuse(w->text, text, refusal);
  return t;
}

/* Emits a pass that reduces chunks, and a pass that combines the partial
 * results. */
static void emit_split_reduction(CudaWriter *w, CudaPass *p,
                                 const Kernel *original,
                                 const char *const *notes) {
  const LoopNest *loop = p->k->loops.at[0];
  int64_t row = 1;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    row = emit_extent_mul(&w->e, row, loop->extents[v]);
  begin_pass(w, p);
  w->part_count = extent_max(
      p->k->graph, emit_extent_ceil_div(&w->e, row, p->s.reduction_chunk), 1);
  int64_t values = emit_extent_mul(&w->e, w->part_count, w->point_count),
          parts = w->part_count;
  w->partial_out = cuda_alloc_partials(w, loop, &loop->outputs.at[0], values);
  emit_pass(w, p, original, notes);
  w->part_count = 0;
  w->partials_in = &w->partial_out;
  w->partials_in_count = 1;
  CudaPass *combine = new_pass(w->out, original->arena, w->target);
  combine->k = combine_kernel(w, p->k, parts);
  combine->first_loop = p->first_loop;
  combine->is_fissioned = p->is_fissioned;
  schedule_pass(w, combine, true);
  emit_pass(w, combine, original, NULL);
  w->partials_in = NULL;
  w->partials_in_count = 0;
}

static void plan_pass(CudaWriter *w, CudaPass *p, const Kernel *original,
                      const char *const *notes) {
  GemmPass *tile = match_gemm_pass(w, p);
  if (tile)
    p->s = (CudaSchedule){.kind = CUDA_GEMM,
                          .block_threads = gemm_threads(&tile->s),
                          .gemm = tile};
  else
    schedule_pass(w, p, false);
  if (p->s.reduction_chunk)
    emit_split_reduction(w, p, original, notes);
  else
    emit_pass(w, p, original, notes);
}

/* fissioned: locals are in scratch memory, because other passes read them. */
static void find_locals(CudaWriter *w, const Kernel *k, uint32_t j,
                        bool fissioned) {
  const LoopNest *loop = k->loops.at[j];
  int64_t points = 1;
  for (uint32_t v = 0; v < k->parallel_axes; v++)
    points = emit_extent_mul(&w->e, points, loop->extents[v]);
  w->locals[j] = NEW_ARRAY(k->arena, CudaLocal, loop->outputs.len);
  w->e.function.locals[j] = NEW_ARRAY(k->arena, LocalBuffer, loop->outputs.len);
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    const LoopOutput *r = &loop->outputs.at[i];
    CudaLocal *l = &w->locals[j][i];
    l->name = w->e.function.locals[j][i].id = w->e.next_id++;
    w->e.function.locals[j][i].is_row_sum = r->reduce == PRIM_SUM;
    if (!r->local_index || !fissioned)
      continue;
    l->storage = STORAGE_POINT_SCRATCH;
    l->scratch_offset = cuda_alloc_scratch(
        w, emit_extent_mul(&w->e, points, r->local_elements), r->dtype);
  }
}

/* Fused attention is one pass.  If skipped blocks could hide non-finite values,
 * another pass before it checks the values. */
static void plan_attention(CudaWriter *w, Kernel *k, AttentionPass *t,
                           const char *const *notes) {
  if (t->finite_check) {
    CudaPass *check = new_pass(w->out, k->arena, w->target);
    Kernel *extended = NEW(k->arena, Kernel);
    *extended = *k;
    extended->loops = (typeof(extended->loops)){0};
    for (uint32_t j = 0; j < k->loops.len; j++)
      VEC_PUSH(k->arena, extended->loops, k->loops.at[j]);
    VEC_PUSH(k->arena, extended->loops, t->finite_check);
    find_locals(w, extended, k->loops.len, true);
    set_fissioned_kernel(w, extended, k->loops.len, check);
    plan_pass(w, check, extended, NULL);
  }
  CudaPass *p = new_pass(w->out, k->arena, w->target);
  p->k = k;
  p->s = (CudaSchedule){.kind = CUDA_ATTENTION,
                        .block_threads = gemm_threads(&t->s),
                        .attention = t};
  emit_pass(w, p, k, notes);
}

/* A matmul with a row reduction in its epilogue, and a second pass. */
static void plan_gemm_row_reduction(CudaWriter *w, Kernel *k,
                                    GemmRowReduction *t,
                                    const char *const *notes) {
  CudaPass *p = new_pass(w->out, k->arena, w->target);
  p->k = t->gemm_kernel;
  p->s = (CudaSchedule){.kind = CUDA_GEMM,
                        .block_threads = gemm_threads(&t->gemm->s),
                        .gemm = t->gemm};
  begin_pass(w, p);
  w->row_reduction = t;
  gemm_row_reduction_begin(w);
  emit_pass(w, p, k, notes);
  w->row_reduction = NULL;
  w->partials_in = t->partials;
  w->partials_in_count = t->partial_count;
  CudaPass *rest = new_pass(w->out, k->arena, w->target);
  rest->k = gemm_row_reduction_second_pass(w, t, k);
  rest->first_loop = t->second_pass_loop;
  schedule_pass(w, rest, true);
  emit_pass(w, rest, k, notes);
  w->partials_in = NULL;
  w->partials_in_count = 0;
}

/* True if the value and all its partial sums fit in 32 bits. */
static bool affine_fits_int32(const LoopNest *loop, const AffineExpr *q) {
  double max = fabs((double)q->constant);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    max += fabs((double)q->coef[v]) * (double)loop->extents[v];
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    max += fabs((double)q->coef[MAX_KERNEL_AXES + j]) *
           fmax(fabs((double)loop->floor_divs[j].low),
                fabs((double)loop->floor_divs[j].high) + 1);
  return max < INT32_MAX;
}

static bool loop_fits_int32(const LoopNest *loop) {
  bool fits_int32 = true;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    fits_int32 &= affine_fits_int32(loop, &loop->floor_divs[j].dividend) &&
                  loop->floor_divs[j].divisor < INT32_MAX;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_AFFINE)
      fits_int32 &= affine_fits_int32(loop, s->affine);
    if (s->kind == KOP_LOAD_LOCAL || s->kind == KOP_LOAD)
      fits_int32 &= affine_fits_int32(loop, s->address);
    if (s->kind == KOP_LOAD)
      fits_int32 &= node_element_count(s->node) < INT32_MAX;
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    fits_int32 &=
        (!r->global_index || affine_fits_int32(loop, r->global_index)) &&
        (!r->local_index || affine_fits_int32(loop, r->local_index));
  }
  return fits_int32;
}

static bool kernel_fits_int32(const Kernel *k) {
  bool fits_int32 = !k->graph->extent_table;
  double points = 1;
  for (uint32_t j = 0; fits_int32 && j < k->loops.len; j++) {
    fits_int32 = loop_fits_int32(k->loops.at[j]) &&
                 loop_iterations_hint(k->loops.at[j], 0,
                                      k->loops.at[j]->axis_count) < INT32_MAX;
    points = loop_iterations_hint(k->loops.at[j], 0, k->parallel_axes);
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      fits_int32 &=
          points * (double)k->loops.at[j]->outputs.at[i].local_elements <
          INT32_MAX;
  }
  return fits_int32;
}

/* A block of attention uses row and term indices, but no linear index over all
 * of them.  So only these must fit in 32 bits. */
static bool attention_fits_int32(const Kernel *k, const AttentionPass *t) {
  bool fits_int32 = !k->graph->extent_table && loop_fits_int32(t->score) &&
                    loop_fits_int32(t->weight_factors);
  for (uint32_t j = 0; j < t->operand_count; j++)
    fits_int32 &= loop_fits_int32(t->side[j]);
  for (uint32_t j = t->pattern.pv_loop; j < k->loops.len; j++)
    fits_int32 &= loop_fits_int32(k->loops.at[j]);
  if (t->finite_check)
    fits_int32 &= loop_fits_int32(t->finite_check) &&
                  loop_iterations_hint(t->finite_check, 0,
                                       t->finite_check->axis_count) < INT32_MAX;
  return fits_int32 &&
         loop_iterations_hint(k->loops.at[0], 0, k->parallel_axes) < INT32_MAX;
}

static bool params_fit_int32(const CudaKernel *out) {
  for (uint32_t j = 0; j < out->passes.len; j++) {
    const CudaPass *p = out->passes.at[j];
    if (p->emitted.call.key_params.len)
      return false;
    for (uint32_t i = 0; i < p->emitted.call.ints.len; i++) {
      int64_t x = p->emitted.call.ints.at[i];
      if (x < -INT32_MAX || x > INT32_MAX)
        return false;
    }
  }
  return true;
}

/* The fused pattern of a kernel.  All NULL: one pass, or one pass per loop. */
typedef struct FusedPattern {
  AttentionPass *attention;
  GemmRowReduction *row_reduction;
} FusedPattern;

/* The micro-kernels of all passes. */
static void put_micro_texts(const CudaKernel *k, Buffer *out) {
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const GemmPass *gemm = k->passes.at[j]->s.gemm;
    if (gemm && gemm->s.micro)
      cuda_micro_put_text(out, gemm->s.micro, false);
  }
}

static bool emit_with(Kernel *k, const CudaTarget *target,
                      const FusedPattern *found, bool fits_int32,
                      KernelText *text, const char *const *notes,
                      CudaKernel *out) {
  CudaWriter *w = NEW(k->arena, CudaWriter);
  *out =
      (CudaKernel){.source = {.arena = k->arena}, .int32_indices = fits_int32};
  w->dialect = (Dialect){.index_type = fits_int32 ? "int32_t" : "int64_t",
                         .narrow_ints = fits_int32,
                         .scalars_only = true,
                         .is_cuda = true,
                         .emit_divisor = cuda_divisor};
  w->out = out;
  w->target = target;
  w->text = text;
  w->e = (Emitter){.arena = k->arena, .kernel = k, .width = 1, .suffix = ""};
  w->e.dialect = &w->dialect;
  EmittedKernel unused = {0};
  w->e.emitted = &unused;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (k->loops.at[j]->outputs.at[i].global_index)
        VEC_PUSH(k->arena, out->outputs, &k->loops.at[j]->outputs.at[i]);
  out->pointer_count = out->outputs.len + k->inputs.len + 2;
  bool fused = found->attention || found->row_reduction;
  bool fissioned =
      !fused &&
      (cuda_needs_fission(k, target) ||
       (!gemm_pass_match(k, target, NULL) && gemm_pass_needs_fission(k)));
  for (uint32_t j = 0; j < k->loops.len; j++)
    find_locals(w, k, j, fissioned);
  if (found->attention)
    plan_attention(w, k, found->attention, notes);
  else if (found->row_reduction)
    plan_gemm_row_reduction(w, k, found->row_reduction, notes);
  for (uint32_t j = 0; j < (fused ? 0 : fissioned ? k->loops.len : 1); j++) {
    CudaPass *p = new_pass(out, k->arena, target);
    p->k = k;
    if (fissioned)
      set_fissioned_kernel(w, k, j, p);
    plan_pass(w, p, k, notes);
  }
  for (uint32_t j = 0; j < out->passes.len; j++)
    w->e.failed |= cuda_has_indirect_args(out, out->passes.at[j]) &&
                   out->passes.at[j]->tensor_maps.len;
  Buffer indented = {.arena = k->arena};
  code_indent(out->source.text, &indented);
  put_micro_texts(out, &indented);
  out->source = indented;
  return !w->e.failed;
}

static bool is_emittable(const Kernel *k) {
  bool fits = k->loops.len <= MAX_KERNEL_LOOPS && !k->trim_check;
  for (uint32_t j = 0; fits && j < k->loops.len; j++)
    fits = k->loops.at[j]->outputs.len <= MAX_LOOP_OUTPUTS;
  return fits;
}

bool cuda_fuses_product_rows(const Kernel *k, const CudaTarget *target) {
  return attention_pass_match(k, target, NULL) ||
         gemm_row_reduction_match(k, target, NULL);
}

/* Finds the fused pattern with its schedule. */
static FusedPattern find_pattern(const Kernel *k, const CudaTarget *target,
                                 KernelText *text) {
  const PassText *fused = kernel_text_kind(text, CUDA_ATTENTION),
                 *first = kernel_text_pass(text, 0);
  FusedPattern found = {.attention = attention_pass_match(
                            k, target, fused ? fused->fields : NULL)};
  const char *refusal =
      found.attention && fused ? found.attention->refusal : NULL;
  if (found.attention && text && text->count && !fused) {
    fused = first ? first : &text->passes[text->count - 1];
    refusal = "this kernel is fused attention: write `by attention`";
  }
  if (!found.attention && (!first || first->kind == CUDA_GEMM)) {
    found.row_reduction =
        gemm_row_reduction_match(k, target, first ? first->fields : NULL);
    fused = first;
    refusal = found.row_reduction && first ? found.row_reduction->gemm->refusal
                                           : NULL;
  }
  if (refusal)
    kernel_text_refuse(text, fused, refusal);
  return found;
}

bool cuda_emit(Kernel *k, const CudaTarget *target, KernelText *text,
               const char *const *notes, CudaKernel *out) {
  if (!is_emittable(k))
    return false;
  FusedPattern found = find_pattern(k, target, text);
  bool fits_int32 = found.attention ? attention_fits_int32(k, found.attention)
                                    : kernel_fits_int32(k);
  bool good = emit_with(k, target, &found, fits_int32, text, notes, out) &&
              (!fits_int32 || params_fit_int32(out) ||
               emit_with(k, target, &found, false, text, notes, out));
  if (good && text)
    kernel_text_finish(text, out->passes.len);
  return good;
}

bool cuda_full_source(const Buffer *source, Buffer *out) {
  Arena *volatile arena = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    return false;
  }
  arena = arena_new();
  Buffer kernel = {.arena = arena};
  prelude_write_overlay(&kernel, arena, device_prelude_text, source->text,
                        source->len);
  buffer_add(&kernel, source->text, source->len);
  bool good = intrinsics_write(out, kernel.text);
  trap_end(&trap);
  arena_free(arena);
  return good;
}
