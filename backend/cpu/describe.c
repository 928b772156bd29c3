/* Describes the compiled kernel of a fusion group. */
#include "backend/cpu/cost.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/schedule_make.h"
#include "backend/cpu/small_product.h"
#include "kernel/nest.h"
#include "plan/observer.h"
#include "plan/schedule_file.h"
#include "runtime/thread_pool.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <string.h>

static const char *describe_tasks(const Kernel *k, const Schedule *s,
                                  Arena *arena) {
  long long block = s->last_axis_block, height = s->task_height;
  switch (s->task_kind) {
  case TASK_POINT:
    break;
  case TASK_ROWS:
    if (s->strip_length)
      return arena_printf(arena, "%lld rows, %lld at a time, strips of %lld",
                          (long long)s->last_axis_span, block,
                          (long long)s->strip_length);
    return arena_printf(arena, "%lld rows, %lld at a time",
                        (long long)s->last_axis_span, block);
  case TASK_COLUMNS:
    if (s->small_product)
      return arena_printf(arena, "%lld matrices of %lld × %lld", block,
                          (long long)s->small_product->rows,
                          (long long)s->small_product->columns);
    return arena_printf(arena, "%lld columns", block);
  case TASK_TILE:
    if (s->task_image_rows)
      return arena_printf(arena, "%lld × %lld × %lld", height,
                          (long long)s->task_image_rows, block);
    return arena_printf(arena, "%lld × %lld", height, block);
  }
  return k->parallel_axes && !s->reduction_chunk
             ? "a row"
             : arena_printf(arena, "%lld terms of a sum",
                            (long long)s->reduction_chunk);
}

static const char *describe_packing(const Operand *o) {
  switch (o->packing) {
  case OPERAND_UNPACKED:
    return o->prepack_pays ? "unpacked, then prepacked" : "unpacked";
  case OPERAND_UNPACKED_COLUMNS:
    return "unpacked";
  case OPERAND_PACK_A_ROWS:
    return "packed by rows";
  case OPERAND_PACK_A_COLUMNS:
    return "packed by columns";
  case OPERAND_PACK_B:
    return o->packs_once     ? "panels packed once"
           : o->prepack_pays ? "prepacked panels"
                             : "packed panels";
  case OPERAND_PACK_B_TRANSPOSED:
    return o->packs_once     ? "transposed, panels packed once"
           : o->prepack_pays ? "transposed, prepacked panels"
                             : "transposed, packed panels";
  case OPERAND_PACK_B_IM2COL:
    return "im2col panels";
  }
  return "";
}

static const char *describe_gemm_tiles(const Kernel *k, const Schedule *s,
                                       Arena *arena) {
  Buffer out = {.arena = arena};
  const SmallProduct *p = s->small_product;
  if (p && p->row_vectors)
    return arena_printf(arena, "%u × %u in registers, all unpacked", p->mr,
                        p->row_vectors * s->width);
  if (p)
    return arena_printf(
        arena, "%lld × %lld by %lld terms, %lld per vector, shuffled lanes",
        (long long)p->rows, (long long)p->columns, (long long)p->depth,
        (long long)p->members);
  for (uint32_t j = 0; s->gemm_tilings && j < k->loops.len; j++) {
    const GemmTiling *t = &s->gemm_tilings->by_loop[j];
    if (!t->is_gemm)
      continue;
    bool vectorize_channels = gemm_is_along_channels(t);
    buffer_printf(&out, "%s%u × %u in registers%s%s, left %s, right %s",
                  out.len ? "; " : "", t->mr, t->nr_vectors * s->width,
                  t->element_dtype == DT_I32 ? " with bf16 pairs"
                  : t->micro                 ? " by "
                                             : "",
                  t->micro ? t->micro->name : "",
                  vectorize_channels ? "a convolution window"
                                     : describe_packing(&t->a),
                  describe_packing(vectorize_channels ? &t->a : &t->b));
  }
  return out.text;
}

static bool has_reduction(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->axis_count > k->loops.at[j]->spatial_axes)
      return true;
  return false;
}

static bool has_nontemporal_store(const Kernel *k, const Schedule *s) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      if (r->global_index && schedule_is_nontemporal_along(s, k->loops.at[j], r,
                                                           s->vector_axes[j]))
        return true;
    }
  return false;
}

static const char *describe_vectors(const Kernel *k, const Schedule *s,
                                    Arena *arena) {
  const char *nontemporal =
      has_nontemporal_store(k, s) ? ", non-temporal stores" : "";
  if (!s->small_product && s->task_kind == TASK_COLUMNS && has_reduction(k))
    return arena_printf(arena, "%u lanes, sums of at most %lld columns%s",
                        s->width, (long long)s->last_axis_block, nontemporal);
  return arena_printf(arena, "%u lanes%s", s->width, nontemporal);
}

static bool is_gather(const uint64_t *depends, const KernelOp *s,
                      uint32_t vector_axis) {
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    if (depends[s->checked_indices[j].index_op] >> vector_axis & 1)
      return true;
  return false;
}

static bool is_strided(const AffineExpr *q, uint32_t vector_axis) {
  return q && q->coef[vector_axis] != 0 && q->coef[vector_axis] != 1;
}

/* Returns true if a small stride is deinterleaved. */
static bool has_small_stride(const AffineExpr *q, uint32_t vector_axis) {
  return q->coef[vector_axis] > 1 && q->coef[vector_axis] <= MAX_DEINTERLEAVE;
}

/* transposed: contiguous along another axis. */
static void count_strided_accesses(const LoopNest *loop, uint32_t vector_axis,
                                   bool transposed, Arena *arena,
                                   KernelInfo *about) {
  const uint64_t *depends = loop_op_vars(arena, loop);
  double numbers;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD && is_gather(depends, s, vector_axis))
      about->indirect_accesses++;
    else if (s->kind == KOP_LOAD &&
             !(transposed &&
               loop_load_is_strided(loop, s, vector_axis, &numbers)))
      about->strided_accesses +=
          is_strided(s->address, vector_axis) &&
          s->address->coef[vector_axis] != -1 && /* lanes are reversed */
          !has_small_stride(s->address, vector_axis);
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    about->strided_accesses +=
        is_strided(loop->outputs.at[j].global_index, vector_axis) &&
        !has_small_stride(loop->outputs.at[j].global_index, vector_axis);
}

static void count_all_accesses(const Kernel *k, const Schedule *s, Arena *arena,
                               KernelInfo *about) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (!(s->gemm_tilings && s->gemm_tilings->by_loop[j].is_gemm) &&
        s->vector_axes[j] < MAX_KERNEL_AXES)
      count_strided_accesses(k->loops.at[j], s->vector_axes[j],
                             k->vectorize_outer, arena, about);
}

static GemmNests *gemm_nests(const Kernel *k, const Schedule *s, Arena *arena) {
  GemmNests *to = NEW_ARRAY(arena, GemmNests, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const GemmTiling *t = s->gemm_tilings ? &s->gemm_tilings->by_loop[j] : NULL;
    to[j] = t && t->is_gemm ? (GemmNests){t->nest, t->a.nest, t->b.nest}
                            : (GemmNests){NULL, NULL, NULL};
  }
  return to;
}

static const char *steps_of(const Nest *n, Arena *arena) {
  Buffer out = {.arena = arena};
  nest_print_schedule(&out, n, n->task_steps);
  return out.text ? out.text : "";
}

/* Candidates of the loop nests that have several.  Of those with the same
 * steps, the first one counts as chosen. */
static void describe_candidates(const Kernel *k, const Schedule *s,
                                Arena *arena, KernelInfo *about) {
  ScheduleCandidate *to =
      NEW_ARRAY(arena, ScheduleCandidate, k->loops.len * MAX_NEST_CANDIDATES);
  about->candidates = to;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    NestTrial trials[MAX_NEST_CANDIDATES];
    uint32_t count = s->nests[j] ? nest_try(k, s, j, trials) : 0;
    const char *chosen = count > 1 ? steps_of(s->nests[j], arena) : "";
    bool was_chosen = false;
    for (uint32_t i = 0; count > 1 && i < count; i++) {
      const char *text = steps_of(trials[i].nest, arena);
      bool is_chosen = !was_chosen && strcmp(text, chosen) == 0;
      was_chosen |= is_chosen;
      to[about->candidate_count++] =
          (ScheduleCandidate){j, text, trials[i].cycles, is_chosen};
    }
  }
}

/* Schedules and emits the kernel again. tests/check_plan.sh verifies that the
 * source is equal: its object is then found, not compiled. */
bool cpu_describe(const FusionGroup *c, Arena *arena,
                  const char *const *comments, KernelInfo *about) {
  Schedule s;
  CpuKernel e;
  *about = (KernelInfo){.tasks = 1};
  if (!c->kernel || c->fallback_reason)
    return false;
  Kernel *k = kernel_copy(c->kernel);
  if (!schedule_make(c, k, cpu_vector_bytes(), true, &s) ||
      !emit_kernel(k, &s, NULL, "", &e))
    return false;
  about->vector_lanes = s.width;
  about->tasks = e.tasks;
  about->scratch_bytes = e.code.call.scratch_bytes;
  about->task_shape = describe_tasks(k, &s, arena);
  about->specialized_for = describe_vectors(k, &s, arena);
  about->has_constant_sizes = s.small_product != NULL;
  about->tiling = describe_gemm_tiles(k, &s, arena);
  about->kernel = k;
  about->nests = s.nests;
  about->gemms = gemm_nests(k, &s, arena);
  about->schedule = schedule_entry(arena, c, k, &s);
  about->is_declared = schedule_is_declared(c, NULL);
  count_all_accesses(k, &s, arena, about);
  cost_count(k, &s, machine_core_rates(), &about->counts);
  about->terms =
      cost_of_counts(&about->counts, machine_core_rates(), thread_pool_size());
  about->has_terms = about->counts.body_count > 0;
  if (!schedule_is_given(c, cpu_vector_bytes()))
    describe_candidates(k, &s, arena, about);
  JitObject *o = c->backend_data
                     ? jit_request(e.code.source.text, e.code.source.len,
                                   kernel_operation_count(k))
                     : NULL;
  about->code_id = o;
  about->compiled = o && jit_kernel(o);
  about->compile_seconds = about->compiled ? jit_compile_seconds(o) : 0;
  if (comments && emit_kernel(k, &s, comments, "", &e)) {
    about->source = e.code.source.text;
    about->lowered = e.code.lowered;
  }
  return true;
}
