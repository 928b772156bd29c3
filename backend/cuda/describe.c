/* What a cluster is compiled as for the GPU, for who asks. */
#include "backend/cuda/arch.h"
#include "backend/cuda/program.h"
#include "backend/cuda/report.h"
#include "backend/cuda/routines.h"
#include "backend/cuda/tile.h"
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

static void put_report(Buffer *out, const CudaPass *pass, const CudaReport *r) {
  buffer_printf(out, "%s%u registers of %u threads, %lld bytes shared",
                out->len ? "; then " : "", r->registers, pass->s.threads,
                (long long)r->shared + (long long)pass->shared);
  if (r->spill_stores || r->spill_loads)
    buffer_printf(out, ", %u bytes spilled",
                  r->spill_stores > r->spill_loads ? r->spill_stores
                                                   : r->spill_loads);
}

/* What the compiler says of each pass; without one, nothing. */
static const char *report_text(CudaProgram *p, Device *d, const CudaKernel *k,
                               Arena *arena) {
  Buffer out = {.arena = arena};
  CudaCode code;
  CudaReport r;
  Fault fault = {0};
  cuda_program_keep(p);
  if (!d->nvrtc)
    return "not known: there is no NVRTC here that compiles for it";
  bool good = cuda_program_code(p, d, &code, &fault);
  for (uint32_t j = 0; good && j < k->passes.len; j++)
    if (cuda_report(code.log, k->passes.at[j]->name, &r))
      put_report(&out, k->passes.at[j], &r);
  cuda_code_free(&code);
  return good ? out.text : arena_printf(arena, "%s", fault.message);
}

/* Tiles, or parts of sums; a stream of parts is shared out as it comes. */
static int64_t pieces_of(const CudaPass *pass) {
  const CudaTile *tile = pass->s.tile;
  return tile && tile->s.stream ? pass->tiles : pass->blocks;
}

static void fill(const Cluster *c, Device *d, Arena *arena,
                 const char *const *notes, const CudaKernel *k,
                 KernelAbout *about) {
  CudaProgram *p = c->backend;
  Cost cost = cost_of(c->kernel);
  about->predicts = true;
  about->predicted = cuda_predict(&cost, k, &d->target);
  about->report = p ? report_text(p, d, k, arena) : NULL;
  about->units = pieces_of(k->passes.at[0]);
  about->lanes = k->passes.at[0]->s.threads;
  about->shape = passes_text(k, arena);
  about->fixed = arena_printf(arena, "%s, indices of %d bits",
                              d->gpu.about.arch, k->narrow ? 32 : 64);
  about->object = p;
  about->compiled = p && (p->module || d->paper);
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
  if (p && !d->paper && !cuda_program_ready(p, d, &ignored))
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
  about->shape = "the CPU's, to which what it reads is copied";
  if (!p)
    return true;
  if (!d || !cuda_routine(c->nodes.at[0], &d->target, arena, &k) ||
      (!d->paper && !cuda_program_ready(p, d, &ignored)))
    return false;
  about->units = k.passes.at[0]->blocks;
  about->lanes = k.passes.at[0]->s.threads;
  about->shape = routine_text(&k, arena);
  about->fixed = d->gpu.about.arch;
  about->object = p;
  about->compiled = p->module || d->paper;
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
