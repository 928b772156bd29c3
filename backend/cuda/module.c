#include "backend/cuda/module.h"

#include "backend/cpu/versions.h"
#include "backend/cuda/arch.h"
#include "backend/cuda/attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Stands for a kernel's number while it is not known if its text is there. */
#define MARK "\1"

typedef struct Adding {
  CudaModule *m;
  const ModuleCaller *caller;
  Graph *graph;
  Buffer *out;
  uint32_t arch;
  bool failed;
} Adding;

static void put_size(Adding *a, int64_t x) {
  a->failed |=
      !size_emit(a->graph, a->out, x, a->caller->size, a->caller->owner);
}

static const char *named_size(Adding *a, int64_t x) {
  Buffer text = {.arena = a->m->arena};
  a->failed |=
      !size_emit(a->graph, &text, x, a->caller->name, a->caller->owner);
  return text.text;
}

/* ---- texts ---- */

static void put_numbered(Buffer *out, const char *text, size_t len,
                         uint32_t number) {
  for (size_t k = 0; k < len; k++)
    if (text[k] == *MARK)
      buffer_printf(out, "k%u", number);
    else
      buffer_putc(out, text[k]);
}

static const char *numbered(Arena *arena, const char *text, uint32_t number) {
  Buffer out = {.arena = arena};
  put_numbered(&out, text, strlen(text), number);
  return out.text;
}

static void note_pass(Adding *a, const CudaPass *p, uint32_t number) {
  Buffer schedule = {.arena = a->m->arena};
  cuda_schedule_put(&schedule, &p->s);
  VEC_PUSH(a->m->arena, a->m->built,
           ((CudaBuilt){a->arch, numbered(a->m->arena, p->name, number),
                        schedule.text, p->s.threads, p->shared,
                        named_size(a, p->blocks)}));
}

/* The first pass of a text, which is there from now on: sizes are parameters,
 * so that many kernels are one. */
static uint32_t add_text(Adding *a, const CudaKernel *k) {
  CudaModule *m = a->m;
  Buffer *part = &m->text[a->arch];
  for (uint32_t j = 0; j < m->known.len; j++) {
    const ModuleText *t = &m->known.at[j];
    if (t->part == part && t->len == k->text.len &&
        memcmp(t->text, k->text.text, t->len) == 0)
      return m->first.at[j];
  }
  uint32_t number = m->known.len + 1, first = m->passes[a->arch];
  put_numbered(part, k->text.text, k->text.len, number);
  for (uint32_t j = 0; j < k->passes.len; j++)
    note_pass(a, k->passes.at[j], number);
  m->passes[a->arch] += k->passes.len;
  VEC_PUSH(m->arena, m->known,
           ((ModuleText){part, k->text.text, k->text.len, number}));
  VEC_PUSH(m->arena, m->first, first);
  return first;
}

/* ---- how it is started ---- */

static void put_float(Buffer *out, double x) {
  if (isnan(x))
    buffer_puts(out, "NAN");
  else if (isinf(x))
    buffer_puts(out, x < 0 ? "-INFINITY" : "INFINITY");
  else
    buffer_printf(out, "%a", x);
}

/* As arguments.c lays them out, with indices of 64 bits. */
static void put_arguments(Adding *a, const CudaKernel *k, const CudaPass *p) {
  const Call *call = &p->emitted.call;
  Buffer *out = a->out;
  buffer_printf(out, "struct {\nuint64_t p[%u];\n", k->pointers);
  if (call->ints.len)
    buffer_printf(out, "int64_t n[%u];\n", call->ints.len);
  if (p->divisors.len)
    buffer_printf(out, "int64_t d[%u];\n", p->divisors.len);
  if (call->floats.len)
    buffer_printf(out, "struct {\ndouble wide;\nfloat narrow;\n} c[%u];\n",
                  call->floats.len);
  buffer_puts(out, "} a = {{");
  for (uint32_t j = 0; j + 2 < k->pointers; j++)
    buffer_printf(out, "place(q[%u]), ", j);
  buffer_puts(out, "place(s), flag}");
  for (uint32_t list = 0; list < 2; list++) {
    uint32_t len = list ? p->divisors.len : call->ints.len;
    for (uint32_t j = 0; j < len; j++) {
      buffer_puts(out, j ? ",\n" : ",\n{");
      put_size(a, list ? p->divisors.at[j] : call->ints.at[j]);
    }
    buffer_puts(out, len ? "}" : "");
  }
  for (uint32_t j = 0; j < call->floats.len; j++) {
    buffer_puts(out, j ? ", {" : ",\n{{");
    put_float(out, call->floats.at[j]);
    buffer_puts(out, ", (float)");
    put_float(out, call->floats.at[j]);
    buffer_puts(out, "}");
  }
  buffer_puts(out, call->floats.len ? "}};\n" : "};\n");
}

static void put_pass(Adding *a, const CudaKernel *k, const CudaPass *p,
                     uint32_t number) {
  Buffer *out = a->out;
  buffer_puts(out, "{\n");
  put_arguments(a, k, p);
  buffer_printf(out, "launch(x, %u, ", number);
  put_size(a, p->blocks);
  buffer_puts(out, ", ");
  put_size(a, p->grid_most ? p->grid_most : INT32_MAX);
  buffer_printf(out, ", %u, &a, sizeof a);\n}\n", p->s.threads);
}

static void put_run(Adding *a, const CudaKernel *k, const char *name,
                    uint32_t first) {
  Buffer *out = a->out;
  buffer_printf(out,
                "static void %s(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n(void)z, (void)q, (void)flag;\n",
                name);
  buffer_puts(out, k->scratch ? "void *const s = room(x, " : "");
  if (k->scratch)
    put_size(a, k->scratch);
  buffer_puts(out, k->scratch ? ", 1, 0);\n" : "void *const s = NULL;\n");
  for (uint32_t j = 0; j < k->passes.len; j++)
    put_pass(a, k, k->passes.at[j], first + j);
  buffer_puts(out, k->scratch ? "give(x, s);\n}\n" : "}\n");
}

/* ---- what its checks found ---- */

static void put_codes(Adding *a, const CudaKernel *k, uint32_t number) {
  uint32_t bit = 0;
  buffer_printf(a->out, "static MAY_GO int code%u_%u(uint32_t bad) {\nreturn ",
                number, a->arch);
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const Call *call = &k->passes.at[j]->emitted.call;
    for (uint32_t i = 0; i < call->checks.len; i++, bit++)
      buffer_printf(a->out, "bad & %uu ? %u\n: ", cuda_check_bit(bit),
                    a->caller->code(a->caller->owner, call->checks.at[i]));
  }
  buffer_puts(a->out, "0;\n}\n");
}

static void put_choice(const CudaModule *m, Buffer *out, bool checks) {
  buffer_printf(out,
                "static void run%u(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n",
                m->count);
  for (uint32_t a = 0; a < m->arch_count; a++)
    buffer_printf(out, "if (x->m->arch == %u)\nrun%u_%u(x, z, q, flag);\n", a,
                  m->count, a);
  buffer_puts(out, "}\n");
  if (!checks)
    return;
  buffer_printf(out, "static int code%u(const Run *x, uint32_t bad) {\nreturn ",
                m->count);
  for (uint32_t a = 0; a < m->arch_count; a++)
    buffer_printf(out, "x->m->arch == %u ? code%u_%u(bad)\n: ", a, m->count, a);
  buffer_puts(out, "0;\n}\n");
}

/* ---- the whole ---- */

static CudaTarget target_of(const CudaModule *m, uint32_t arch) {
  CudaTarget target = cuda_arch_target(m->archs[arch]);
  target.prefix = MARK;
  return target;
}

/* On one of the architectures.  Where others have no such kernel, what is
 * between the products is in memory there (cuda_tile_apart). */
static bool has_rows(const Kernel *k) {
  const CudaModule *m = (const CudaModule *)k->graph->backend;
  bool has = false;
  for (uint32_t a = 0; a < m->arch_count && !has; a++) {
    const CudaTarget target = target_of(m, a);
    has = cuda_attend_find(k, &target);
  }
  return has;
}

void cuda_module_begin(CudaModule *m, Arena *arena, uint32_t count,
                       const char *const *archs) {
  *m = (CudaModule){.arena = arena, .arch_count = count};
  m->backend = backend_cuda;
  m->backend.has_rows = has_rows;
  m->host.arena = arena;
  for (uint32_t a = 0; a < count; a++) {
    m->archs[a] = archs[a];
    m->text[a].arena = arena;
  }
}

/* Bytes of shared memory are asked for where code is loaded. */
static bool has_numbers(const Graph *g, const CudaKernel *k) {
  for (uint32_t j = 0; j < k->passes.len; j++)
    if (!size_is_number(g, k->passes.at[j]->shared))
      return false;
  return true;
}

static bool add_for(CudaModule *m, const Kernel *k, const ModuleCaller *caller,
                    uint32_t arch, CudaAdded *added) {
  Adding a = {m, caller, k->graph, &m->host, arch, false};
  CudaKernel emitted;
  CudaTarget target = target_of(m, arch);
  Buffer name = {.arena = k->arena};
  if (!cuda_emit(kernel_copy(k), &target, NULL, &emitted) ||
      !has_numbers(k->graph, &emitted))
    return false;
  buffer_printf(&name, "run%u_%u", m->count, arch);
  put_run(&a, &emitted, name.text, add_text(&a, &emitted));
  added->checks |= emitted.checks > 0;
  added->lines |= emitted.lines;
  put_codes(&a, &emitted, m->count);
  return !a.failed;
}

uint32_t cuda_module_add(CudaModule *m, const Kernel *k,
                         const ModuleCaller *caller, CudaAdded *added) {
  *added = (CudaAdded){.checks = false};
  m->count++;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      if (k->loops.at[j]->results.at[i].out)
        VEC_PUSH(k->arena, added->results, k->loops.at[j]->results.at[i].node);
  for (uint32_t a = 0; a < m->arch_count; a++)
    if (!add_for(m, k, caller, a, added))
      return UINT32_MAX;
  put_choice(m, &m->host, added->checks);
  return m->count;
}

bool cuda_module_text(const CudaModule *m, uint32_t arch, Buffer *out) {
  return cuda_whole_text(&m->text[arch], out);
}

static void put_table(const CudaModule *m, Buffer *out, uint32_t arch) {
  buffer_printf(out, "static const Pass passes%u[] = {", arch);
  for (uint32_t j = 0; j < m->built.len; j++)
    if (m->built.at[j].arch == arch)
      buffer_printf(out, "\n{\"%s\", %lld},", m->built.at[j].name,
                    (long long)m->built.at[j].shared);
  buffer_puts(out, "\n{NULL, 0}};\n");
}

void cuda_module_tables(const CudaModule *m, Buffer *out) {
  for (uint32_t a = 0; a < m->arch_count; a++)
    put_table(m, out, a);
  buffer_puts(out, "static const Arch archs[] = {\n");
  for (uint32_t a = 0; a < m->arch_count; a++) {
    const char *arch = m->archs[a];
    long number = strtol(arch + strlen("sm_"), NULL, 10);
    buffer_printf(out, "{\"%s\", %ld, %ld, %d, %u, passes%u},\n", arch,
                  number / 10, number % 10, arch[strlen(arch) - 1] == 'a',
                  m->passes[a], a);
  }
  buffer_printf(out, "};\nenum { ARCHS = %u, PASSES = %u };\n", m->arch_count,
                m->built.len ? m->built.len : 1);
}
