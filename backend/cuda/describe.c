/* What a cluster is compiled as for the GPU, for who asks. */
#include "backend/cuda/program.h"
#include "backend/cuda/routines.h"
#include "tensor/watch.h"

#include <string.h>

static const char *passes_text(const CudaKernel *k, Arena *arena) {
  Buffer out = {.arena = arena};
  for (uint32_t j = 0; j < k->passes.len; j++) {
    buffer_puts(&out, j ? "; then " : "");
    cuda_schedule_put(&out, &k->passes.at[j]->s);
  }
  return out.text;
}

static void fill(const Cluster *c, const Device *d, Arena *arena,
                 const char *const *notes, const CudaKernel *k,
                 KernelAbout *about) {
  const CudaProgram *p = c->backend;
  about->units = k->passes.at[0]->blocks;
  about->lanes = k->passes.at[0]->s.threads;
  about->shape = passes_text(k, arena);
  about->fixed = arena_printf(arena, "%s, indices of %d bits",
                              d->gpu.about.arch, k->narrow ? 32 : 64);
  about->object = p;
  about->compiled = p && p->module;
  about->compile_seconds = p ? p->seconds : 0;
  CudaKernel noted;
  if (notes && cuda_emit(c->kernel, &d->target, notes, &noted))
    about->code = noted.text.text;
}

static bool describe_locked(const Cluster *c, Arena *arena,
                            const char *const *notes, KernelAbout *about) {
  Fault ignored = {0};
  CudaKernel k;
  Device *d = device_get(&ignored);
  CudaProgram *p = c->backend;
  if (!d || !cuda_emit(c->kernel, &d->target, NULL, &k) || !k.passes.len)
    return false;
  if (p && !cuda_program_ready(p, d, &ignored))
    return false;
  fill(c, d, arena, notes, &k, about);
  return true;
}

/* Each kind of pass once; how many passes there are. */
static const char *routine_text(const CudaKernel *k, Arena *arena) {
  Buffer out = {.arena = arena};
  for (uint32_t j = 0; j < k->passes.len; j++) {
    uint32_t same = 0;
    while (strcmp(k->passes.at[same]->s.what, k->passes.at[j]->s.what) != 0)
      same++;
    if (same == j)
      buffer_printf(&out, "%s%s", j ? ", " : "", k->passes.at[j]->s.what);
  }
  buffer_printf(&out, "; %u pass%s", k->passes.len,
                k->passes.len == 1 ? "" : "es");
  return out.text;
}

static bool describe_routine(const Cluster *c, Arena *arena, bool code,
                             KernelAbout *about) {
  Fault ignored = {0};
  CudaKernel k;
  Device *d = device_get(&ignored);
  CudaProgram *p = c->backend;
  about->shape = "the CPU's, for so little work, or under a condition";
  if (!p)
    return true;
  if (!d || !cuda_routine(c->nodes.at[0], &d->target, arena, &k) ||
      !cuda_program_ready(p, d, &ignored))
    return false;
  about->units = k.passes.at[0]->blocks;
  about->lanes = k.passes.at[0]->s.threads;
  about->shape = routine_text(&k, arena);
  about->fixed = d->gpu.about.arch;
  about->object = p;
  about->compiled = p->module;
  about->compile_seconds = p->seconds;
  about->code = code ? k.text.text : NULL;
  return true;
}

bool cuda_describe(const Cluster *c, Arena *arena, const char *const *notes,
                   KernelAbout *about) {
  *about = (KernelAbout){.units = 1};
  if ((!c->kernel && !c->routine) || c->interpreted)
    return false;
  device_lock();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  bool good = c->routine ? describe_routine(c, arena, notes != NULL, about)
                         : describe_locked(c, arena, notes, about);
  trap_end(&trap);
  device_unlock();
  return good;
}
