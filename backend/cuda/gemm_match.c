/* Matches contractions among the loops of a kernel, and chooses their
 * schedules. */
#include "backend/cuda/gemm_micro.h"
#include "backend/cuda/gemm_pass.h"
#include "backend/cuda/schedule_text.h"
#include "machine/limits/cuda.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <string.h>

static uint64_t operand_depends(const ContractionPattern *p,
                                uint32_t n_factors) {
  uint64_t set = 0;
  for (uint32_t j = 0; j < p->factor_count; j++)
    if (n_factors >> j & 1)
      set |= p->op_vars[p->factors[j]];
  return set;
}

/* True if an output is contiguous along the axis.  The axis should then be a
 * column axis: stores are coalesced. */
static bool is_contiguous(const Kernel *k, uint32_t axis) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      const AffineExpr *to = r->global_index ? r->global_index : r->local_index;
      if (to && to->coef[axis] == 1)
        return true;
    }
  return false;
}

/* True if a later loop reduces the result.  The column axes are then the inner
 * axes. */
static bool has_row_reduction(const Kernel *k) {
  for (uint32_t j = 1; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (k->loops.at[j]->outputs.at[i].reduce != PRIM_NONE)
        return true;
  return false;
}

static bool are_columns_inner(const GemmPass *t, const Kernel *k) {
  for (uint32_t j = 0; j < t->n_count; j++)
    if (t->n[j] < k->parallel_axes)
      return false;
  return t->n_count == k->loops.at[0]->spatial_axes - k->parallel_axes;
}

/* Chooses the column axis that splits the factors into operands; NO_AXIS:
 * there is none. */
static uint32_t choose_n_axis(const Kernel *k, const ContractionPattern *p,
                              uint32_t *n_factors) {
  const LoopNest *loop = k->loops.at[0];
  uint32_t best = NO_AXIS, m, with;
  double max = 0;
  for (uint32_t v = has_row_reduction(k) ? k->parallel_axes : 0;
       v < loop->spatial_axes; v++) {
    if (!contraction_operand_sides(loop, p, v, &m, &with) || !with)
      continue;
    double extent =
        (double)loop_extent_hint(loop, v) * (is_contiguous(k, v) ? 1e6 : 1);
    if (best == NO_AXIS || extent > max) {
      best = v;
      max = extent;
      *n_factors = with;
    }
  }
  return best;
}

static bool classify_axes(GemmPass *t, const LoopNest *loop, uint64_t a,
                          uint64_t b) {
  for (uint32_t v = 0; v < loop->axis_count; v++) {
    bool in_a = a >> v & 1, in_b = b >> v & 1;
    if (v >= loop->spatial_axes)
      t->k[t->k_count++] = v;
    else if (in_a == in_b)
      t->batch[t->batch_count++] = v;
    else if (in_a)
      t->m[t->m_count++] = v;
    else
      t->n[t->n_count++] = v;
  }
  return t->m_count && t->n_count && t->batch_count <= GEMM_MAX_AXES &&
         t->m_count <= GEMM_MAX_AXES && t->n_count <= GEMM_MAX_AXES &&
         t->k_count <= GEMM_MAX_AXES;
}

static bool reads_same_point(const Kernel *k, const KernelOp *s,
                             uint32_t loop) {
  return s->source_loop < loop &&
         affine_equal(s->address, k->loops.at[s->source_loop]
                                      ->outputs.at[s->source_output]
                                      .local_index);
}

/* True if all later loops are elementwise over the result. */
static bool has_pointwise_epilogue(const Kernel *k) {
  const LoopNest *first = k->loops.at[0];
  const LoopOutput *sum = &first->outputs.at[0];
  if ((sum->global_index && affine_has_floor_divs(sum->global_index)) ||
      (sum->local_index && affine_has_floor_divs(sum->local_index)))
    return false;
  for (uint32_t j = 1; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (loop->axis_count != first->spatial_axes ||
        loop->spatial_axes != first->spatial_axes)
      return false;
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD_LOCAL &&
          !reads_same_point(k, &loop->ops.at[i], j))
        return false;
  }
  for (uint32_t i = 0; k->loops.len > 1 && i < first->ops.len; i++)
    if (first->ops.at[i].kind == KOP_LOAD_LOCAL)
      return false;
  return true;
}

/* True if a computed operand is MN-major: its loads are contiguous along the
 * row axis and not along k.  Loads that do not depend on k do not count. */
static bool is_computed_mn_major(const GemmPass *t, const LoopNest *side,
                                 bool b) {
  const uint32_t *rows = b ? t->n : t->m, count = b ? t->n_count : t->m_count;
  bool transposed = false;
  for (uint32_t j = 0; j < side->ops.len; j++) {
    const KernelOp *s = &side->ops.at[j];
    if (s->kind != KOP_LOAD)
      continue;
    if (s->address->coef[t->k[t->k_count - 1]] == 1)
      return false;
    bool terms = false;
    for (uint32_t v = 0; v < t->k_count; v++)
      terms |= s->address->coef[t->k[v]] != 0;
    transposed |= terms && s->address->coef[rows[count - 1]] == 1;
  }
  return transposed;
}

static GemmSide gemm_side(GemmPass *t, const LoopNest *loop, bool b,
                          Dtype dtype) {
  const KernelOp *read = b ? t->load_b : t->load_a;
  GemmSide side = {.dtype = dtype};
  uint32_t bytes = dtype_info[dtype].bytes;
  side.align_bytes = bytes;
  side.computed = !read;
  side.mn_major =
      !read && bytes == 2 && is_computed_mn_major(t, b ? t->b : t->a, b);
  if (!read)
    return side;
  if (read->node && !loop->graph->extent_table)
    side.tensor_elements = (double)node_element_count(read->node);
  bool k_major = cuda_is_contiguous_group(loop, read->address, t->k_count, t->k,
                                          &side.align_bytes, bytes);
  if (!k_major && bytes > 1) /* ldmatrix transposes no bytes */
    side.mn_major = cuda_is_contiguous_group(
        loop, read->address, b ? t->n_count : t->m_count, b ? t->n : t->m,
        &side.align_bytes, bytes);
  const BoundsPredicates *g = b ? &t->predicates_b : &t->predicates_a;
  /* a vector may be partly out of bounds */
  for (uint32_t j = 0; j < g->count; j++)
    for (uint32_t v = 0; v < loop->axis_count; v++)
      if (g->index[j].coef[v] && read->address->coef[v] == 1)
        side.align_bytes = bytes;
  return side;
}

/* Bytes of outputs and of loads in the epilogue, per element. */
static double epilogue_bytes(const Kernel *k) {
  double bytes = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].global_index || k->loops.len == 1)
        bytes += dtype_info[loop->outputs.at[i].dtype].bytes;
    for (uint32_t i = 0; j && i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD)
        bytes += dtype_info[loop->ops.at[i].dtype].bytes;
  }
  return bytes;
}

static uint32_t first_arch_with_mma(Dtype t) {
  return t == DT_F16                          ? 75
         : t == DT_BF16                       ? 80
         : t == DT_F8_E4M3 || t == DT_F8_E5M2 ? FIRST_F8_MMA_ARCH
                                              : UINT32_MAX;
}

/* The float of at most 8 bits whose conversion op `at` is, or DT_NONE. */
static Dtype widened_byte(const LoopNest *side, uint32_t at) {
  const KernelOp *s = &side->ops.at[at];
  Dtype t = s->kind == KOP_CONVERT ? side->ops.at[s->args[0]].dtype : DT_NONE;
  return dtype_is_narrow_float(t) && dtype_info[t].bytes == 1 ? t : DT_NONE;
}

/* True if the elements are bf16: a number of at most 8 bits of significand, or
 * the product of one of a scaled block and its scale.  Products of f4_e2m1 and
 * a scale are exact in bf16.  Those of 8-bit floats and f8_e8m0 scales are
 * rounded to multiples of 2^-133, the least bf16, if they are below 2^-126. */
static bool is_bf16_operand(const LoopNest *side) {
  uint32_t value = side->outputs.at[0].value_op;
  const KernelOp *s = &side->ops.at[value], *read = cuda_widened_narrow(side);
  if (read)
    return read->dtype != DT_F16;
  return s->kind == KOP_MAP && s->op == PRIM_MUL && s->dtype == DT_F32 &&
         widened_byte(side, s->args[0]) != DT_NONE &&
         widened_byte(side, s->args[1]) != DT_NONE;
}

/* 8-bit and 16-bit operands for tensor cores; otherwise both operands have the
 * accumulator type. */
static Dtype operand_dtype(const LoopNest *a, const LoopNest *b,
                           const GpuSpec *gpu, Dtype sum) {
  const KernelOp *x = cuda_widened_narrow(a), *y = cuda_widened_narrow(b);
  if (sum != DT_F32)
    return sum;
  if (x && y && x->dtype == y->dtype &&
      gpu->arch >= first_arch_with_mma(x->dtype))
    return x->dtype;
  return gpu->arch >= first_arch_with_mma(DT_BF16) && is_bf16_operand(a) &&
                 is_bf16_operand(b)
             ? DT_BF16
             : sum;
}

/* True if the number of tiles is static; the workspace size of split-K depends
 * on it. */
static bool has_known_tile_count(const LoopNest *loop) {
  bool known = true;
  for (uint32_t v = 0; v < loop->spatial_axes; v++)
    known &= extent_is_static(loop->graph, loop->extents[v]);
  return known;
}

static bool choose_schedule(GemmPass *t, const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  const GpuSpec *gpu = &t->gpu;
  t->shape.m = loop_axes_hint(loop, t->m_count, t->m);
  t->shape.n = loop_axes_hint(loop, t->n_count, t->n);
  double terms = loop_axes_hint(loop, t->k_count, t->k);
  t->shape.k = terms / gemm_terms_per_k(&t->shape);
  t->shape.batch = loop_axes_hint(loop, t->batch_count, t->batch);
  t->shape.epilogue_bytes = epilogue_bytes(k);
  t->shape.store_align_bytes = cuda_store_alignment(k, t->n[t->n_count - 1]);
  cuda_epilogue_shape(k, t);
  t->shape.no_split_k = !t->has_counters;
  t->shape.symbolic_tile_count = !has_known_tile_count(loop);
  return t->shape.m * t->shape.batch < INT32_MAX && t->shape.n < INT32_MAX &&
         terms < INT32_MAX && gemm_choose(&t->shape, gpu, &t->s, &t->seconds);
}

/* Takes the name of a micro-kernel out of the fields.  Returns NULL, or why
 * there is no such one. */
static const char *take_micro(GemmPass *t, const Graph *g, Arena *arena,
                              const char **fields) {
  const char *name;
  *fields = gemm_schedule_take_micro(arena, *fields, &name);
  if (!name)
    return NULL;
  if (!*name)
    return "micro needs the name of a micro-kernel: write micro=NAME";
  const MicroKernel *m = schedule_micro_kernel(g, name);
  if (!m)
    return arena_printf(arena,
                        "no micro-kernel of the program is named %s: write "
                        "`kernel %s : f32[M, k] @ f32[k, N] = cuda` and its "
                        "code",
                        name, name);
  if (!m->is_cuda)
    return arena_printf(arena,
                        "micro=%s is a micro-kernel in C, for the CPU: write "
                        "it in CUDA C++, after `= cuda`",
                        name);
  t->s.micro = m;
  return NULL;
}

/* Applies the fields that a user wrote for the kernel, or those of a rule.
 * Returns NULL, or why they are not used. */
static const char *apply_fields(GemmPass *t, const Graph *g, Arena *arena,
                                const char *fields) {
  Buffer why = {.arena = arena};
  const GemmSchedule chosen = t->s;
  double terms = t->shape.k * gemm_terms_per_k(&t->shape);
  if (!fields)
    t->rule = schedule_file_find_rule(SCHEDULE_GEMM, t->arch, t->rule_dtype,
                                      t->shape.m, t->shape.n, terms);
  fields = t->rule ? rule_fields(t->rule, arena) : fields;
  t->fields = fields;
  const char *refusal = fields ? take_micro(t, g, arena, &fields) : NULL;
  if (!refusal && fields &&
      !gemm_override(&t->shape, &t->gpu, fields, &t->s, &why))
    refusal = why.text;
  if (!refusal && t->s.micro)
    refusal = cuda_micro_kernel_refusal(arena, &t->shape, &t->s, t->arch);
  if (refusal)
    t->s = chosen;
  return refusal;
}

/* Finds how the elements of the operands are loaded or computed. */
static void find_operands(GemmPass *t, const Kernel *k, Dtype sum) {
  const LoopNest *loop = k->loops.at[0];
  Dtype dtype = operand_dtype(t->a, t->b, &t->gpu, sum);
  t->load_a = cuda_predicated_load(k->arena, t->a, dtype, &t->predicates_a);
  t->load_b = cuda_predicated_load(k->arena, t->b, dtype, &t->predicates_b);
  t->shape.a = gemm_side(t, loop, false, dtype);
  t->shape.b = gemm_side(t, loop, true, dtype);
  if (t->has_tensor_maps)
    gemm_pass_find_tensor_maps(t, loop);
}

/* scaled: only a product of 4-bit floats with scales, by instructions that have
 * them. */
static GemmPass *match_gemm(Kernel *k, const CudaTarget *target,
                            const char *fields, bool scaled) {
  LoopNest *loop = k->loops.at[0];
  ContractionPattern p;
  uint32_t n_factors = 0;
  GpuSpec gpu;
  if (!target->arch || !gpu_spec(target->arch, &gpu) ||
      !contraction_match(k->arena, loop, &p) || p.hoisted_count ||
      !has_pointwise_epilogue(k) || choose_n_axis(k, &p, &n_factors) == NO_AXIS)
    return NULL;
  uint32_t all = (1u << p.factor_count) - 1;
  GemmPass *t = NEW(k->arena, GemmPass);
  t->arch = target->arch;
  t->has_tensor_maps = target->has_tensor_maps;
  t->has_counters = target->has_tensor_maps || loop->graph->extent_table;
  t->shape.allow_tf32 = target->allow_tf32;
  if (!classify_axes(t, loop, operand_depends(&p, all & ~n_factors),
                     operand_depends(&p, n_factors)) ||
      (has_row_reduction(k) && !are_columns_inner(t, k)))
    return NULL;
  Dtype sum = loop->ops.at[loop->outputs.at[0].value_op].dtype;
  t->a = contraction_operand_loop(k->arena, loop, &p, all & ~n_factors, sum);
  t->b = contraction_operand_loop(k->arena, loop, &p, n_factors, sum);
  t->shape.accumulator_dtype = sum;
  gpu.sms = (uint32_t)target->sm_count;
  gpu.block_shared_bytes = target->optin_shared_bytes;
  t->gpu = gpu;
  GemmPass with_scales = *t;
  bool has_scales = sum == DT_F32 && gemm_pass_find_scales(&with_scales);
  if (scaled && (!has_scales || !t->has_tensor_maps))
    return NULL;
  if (scaled)
    *t = with_scales;
  else
    find_operands(t, k, sum);
  t->rule_dtype = has_scales ? DT_F4_E2M1 : t->shape.a.dtype;
  if (!choose_schedule(t, k))
    return NULL;
  t->refusal = apply_fields(t, k->graph, k->arena, fields);
  return t;
}

/* Operands with scales are multiplied as such, or as bf16: by the way that the
 * user wants, or by that which takes less time. */
static GemmPass *match_any(Kernel *k, const CudaTarget *target,
                           const char *fields) {
  GemmPass *scaled = match_gemm(k, target, fields, true);
  GemmPass *t = match_gemm(k, target, fields, false);
  if (!scaled || !t)
    return scaled ? scaled : t;
  const char *way = scaled->fields ? strstr(scaled->fields, "way=") : NULL;
  bool wanted = way ? strncmp(way, "way=tcgen05", 11) == 0
                    : !t->s.micro && scaled->seconds <= t->seconds;
  return wanted ? scaled : t;
}

/* The matmul as a convolution by TMA, or as any other. */
static GemmPass *match_image(Kernel *k, const CudaTarget *target,
                             const char *fields) {
  LoopNest *loop = k->loops.at[0];
  int64_t channels =
      target->has_tensor_maps ? gemm_pass_conv_channels(loop) : 0;
  if (channels) {
    loop_split_last_axis(k->arena, loop, channels);
    GemmPass *t = match_gemm(k, target, fields, false);
    if (t && !t->refusal && t->shape.im2col && gemm_has_producer(&t->s))
      return t;
    loop_collapse_last_axes(k->arena, loop);
  }
  return match_any(k, target, fields);
}

GemmPass *gemm_pass_match(Kernel *k, const CudaTarget *target,
                          const char *fields) {
  GemmPass *t = match_image(k, target, fields);
  if (t)
    schedule_entry_report(t->rule, t->refusal);
  return t;
}

/* True if the loop has both reduction results and elementwise results: such a
 * loop is not split across passes. */
static bool has_partial_outputs(const LoopNest *loop) {
  bool sums = false, values = false;
  for (uint32_t j = 0;
       loop->axis_count > loop->spatial_axes && j < loop->outputs.len; j++) {
    sums |= loop->outputs.at[j].reduce != PRIM_NONE;
    values |= loop->outputs.at[j].reduce == PRIM_NONE;
  }
  return sums && values;
}

bool gemm_pass_needs_fission(const Kernel *k) {
  double bytes = kernel_local_bytes(k, true) *
                 loop_iterations_hint(k->loops.at[0], 0, k->parallel_axes);
  bool product = false;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    product |= loop_is_contraction(k->loops.at[j]);
    if (has_partial_outputs(k->loops.at[j]))
      return false;
  }
  return product && k->loops.len > 1 && bytes <= MAX_FISSION_BYTES;
}

void gemm_pass_print(Buffer *out, const GemmPass *t) {
  buffer_printf(out, "tile for %s: ", t->arch);
  gemm_schedule_print(out, &t->s);
  if (t->shape.a.dtype == DT_F32 && t->s.mma_kind != MMA_KIND_FMA)
    buffer_puts(out, ", f32 rounded to tf32");
  if (t->refusal)
    buffer_printf(out, " (not used: %s)", t->refusal);
}
