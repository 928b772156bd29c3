/* Describes the kernel of a fusion group. */
#include "backend/cuda/arch.h"
#include "backend/cuda/gemm_pass.h"
#include "backend/cuda/kernel_cache.h"
#include "backend/cuda/library_kernels.h"
#include "backend/cuda/ptxas_report.h"
#include "backend/cuda/schedule_text.h"
#include "plan/observer.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/trap.h"

#include <string.h>

static const char *passes_text(const CudaKernel *k, Arena *arena) {
  Buffer out = {.arena = arena};
  for (uint32_t j = 0; j < k->passes.len; j++) {
    buffer_puts(&out, j ? "; then " : "");
    cuda_schedule_print(&out, &k->passes.at[j]->s);
  }
  return out.text;
}

static void put_report(Buffer *out, const CudaPass *pass,
                       const PtxasReport *r) {
  buffer_printf(out, "%s%u registers of %u threads, %lld bytes shared",
                out->len ? "; then " : "", r->registers, pass->s.block_threads,
                (long long)r->shared_bytes + (long long)pass->shared_bytes);
  if (r->spill_stores || r->spill_loads)
    buffer_printf(out, ", %u bytes spilled",
                  r->spill_stores > r->spill_loads ? r->spill_stores
                                                   : r->spill_loads);
}

/* The ptxas report of each pass; empty without a report. */
static const char *report_text(CachedKernel *p, Device *d, const CudaKernel *k,
                               Arena *arena) {
  Buffer out = {.arena = arena};
  CompiledCode code;
  PtxasReport r;
  Fault fault = {0};
  cached_kernel_dump_source(p);
  if (!d->nvrtc)
    return "not known: no NVRTC on this machine compiles for it";
  bool good = cached_kernel_compile(p, d, &code, &fault);
  for (uint32_t j = 0; good && j < k->passes.len; j++)
    if (ptxas_report(code.log, k->passes.at[j]->name, &r))
      put_report(&out, k->passes.at[j], &r);
  compiled_code_free(&code);
  return good ? out.text : arena_printf(arena, "%s", fault.message);
}

/* Output tiles, or chunks of split reductions.  Stream-K distributes tiles
 * dynamically, so its blocks are not the tasks. */
static int64_t task_count(const CudaPass *pass) {
  const GemmPass *gemm = pass->s.gemm;
  return gemm && gemm->s.stream ? pass->tiles : pass->grid_blocks;
}

/* The nests of all loop nests of a kernel; NULL: some of its passes have none.
 * A pass that combines partial results has the loop nest of the pass before it.
 */
static struct Nest *const *all_nests(const FusionGroup *c, Arena *arena,
                                     const CudaKernel *k) {
  struct Nest **nests =
      NEW_ARRAY(arena, struct Nest *, c->kernel->loops.len + 1);
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const CudaPass *p = k->passes.at[j];
    if (!p->s.nests)
      return NULL;
    for (uint32_t i = 0; i < p->k->loops.len; i++)
      if (!nests[p->first_loop + i])
        nests[p->first_loop + i] = p->s.nests[p->s.rows ? i : 0];
  }
  return nests;
}

static void fill_info(const FusionGroup *c, Device *d, Arena *arena,
                      const char *const *notes, const CudaKernel *k,
                      KernelInfo *about) {
  CachedKernel *p = c->backend_data;
  Cost cost = kernel_cost(c->kernel);
  about->has_prediction = true;
  about->prediction = cuda_predict(&cost, k, &d->target);
  about->compiler_report = p ? report_text(p, d, k, arena) : NULL;
  about->tasks = task_count(k->passes.at[0]);
  about->vector_lanes = k->passes.at[0]->s.block_threads;
  about->task_shape = passes_text(k, arena);
  about->specialized_for =
      arena_printf(arena, "%s, indices of %d bits", d->context.info.arch,
                   k->int32_indices ? 32 : 64);
  about->code_id = p;
  about->compiled = p && (p->module || d->is_virtual);
  about->compile_seconds = p ? p->compile_seconds : 0;
  CudaKernel noted;
  KernelText *text = kernel_text_find(arena, c, d->target.arch);
  Buffer entry = {.arena = arena};
  kernel_text_print(&entry, c, k, d->target.arch);
  about->schedule = entry.text;
  about->is_declared = schedule_is_declared(c, d->target.arch);
  about->nests = all_nests(c, arena, k);
  if (notes && cuda_emit(c->kernel, &d->target, text, notes, &noted))
    about->source = noted.source.text;
}

static bool describe_locked(const FusionGroup *c, Arena *arena,
                            const char *const *notes, KernelInfo *about) {
  Fault ignored = {0};
  CudaKernel k;
  Device *d = device_get(&ignored);
  CachedKernel *p = c->backend_data;
  if (!d ||
      !cuda_emit(c->kernel, &d->target,
                 kernel_text_find(arena, c, d->target.arch), NULL, &k) ||
      !k.passes.len)
    return false;
  if (p && !d->is_virtual && !cached_kernel_load(p, d, &ignored))
    return false;
  fill_info(c, d, arena, notes, &k, about);
  return true;
}

/* Lists each kind of pass once, and the number of passes. */
static const char *routine_text(const CudaKernel *k, Arena *arena) {
  Buffer out = {.arena = arena};
  for (uint32_t j = 0; j < k->passes.len; j++) {
    uint32_t same = 0;
    while (strcmp(k->passes.at[same]->s.description,
                  k->passes.at[j]->s.description) != 0)
      same++;
    if (same == j)
      buffer_printf(&out, "%s%s", j ? ", " : "",
                    k->passes.at[j]->s.description);
  }
  buffer_printf(&out, "; %u pass%s", k->passes.len,
                k->passes.len == 1 ? "" : "es");
  return out.text;
}

static bool describe_routine(const FusionGroup *c, Arena *arena, bool code,
                             KernelInfo *about) {
  Fault ignored = {0};
  CudaKernel k;
  Device *d = device_get(&ignored);
  CachedKernel *p = c->backend_data;
  about->task_shape = "on the CPU: its inputs are copied to the CPU";
  if (!p)
    return true;
  if (!d || !library_kernel_emit(c->nodes.at[0], &d->target, arena, &k) ||
      (!d->is_virtual && !cached_kernel_load(p, d, &ignored)))
    return false;
  about->tasks = k.passes.at[0]->grid_blocks;
  about->vector_lanes = k.passes.at[0]->s.block_threads;
  about->task_shape = routine_text(&k, arena);
  about->specialized_for = d->context.info.arch;
  about->code_id = p;
  about->compiled = p->module || d->is_virtual;
  about->compile_seconds = p->compile_seconds;
  about->source = code ? k.source.text : NULL;
  return true;
}

bool cuda_describe(const FusionGroup *c, Arena *arena, const char *const *notes,
                   KernelInfo *about) {
  *about = (KernelInfo){.tasks = 1};
  if ((!c->kernel && !c->library_op) || c->fallback_reason)
    return false;
  device_lock();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  bool good = c->library_op ? describe_routine(c, arena, notes != NULL, about)
                            : describe_locked(c, arena, notes, about);
  trap_end(&trap);
  device_unlock();
  return good;
}
