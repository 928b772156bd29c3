#include "backend/cuda/module.h"

#include "backend/cpu/versions.h"
#include "backend/cuda/arch.h"
#include "backend/cuda/attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Stands for a kernel's number while it is not known if its text is there. */
#define MARK "\1"

/* What tiles of large products are chosen for. */
enum { LARGE_GUESS = 4096 };

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

/* What stays goes on to other tiles, and is as much as the GPU runs at once. */
static void put_most(Adding *a, const CudaPass *p) {
  const GemmSchedule *s = p->s.tile ? &p->s.tile->s : NULL;
  if (s && s->persistent)
    buffer_printf(a->out, "stay(x, %u, %u, ", s->blocks, gemm_cluster(s));
  put_size(a, p->grid_most ? p->grid_most : INT32_MAX);
  buffer_puts(a->out, s && s->persistent ? ")" : "");
}

/* map: the number of its first one. */
static void put_pass(Adding *a, const CudaKernel *k, const CudaPass *p,
                     uint32_t number, uint32_t map) {
  Buffer *out = a->out;
  buffer_puts(out, "{\n");
  if (p->counters) {
    buffer_puts(out, "clear(x, s, ");
    put_size(a, p->counters_at);
    buffer_puts(out, ", ");
    put_size(a, p->counters);
    buffer_puts(out, ");\n");
  }
  for (uint32_t j = 0; j < p->narrow.len; j++) {
    buffer_puts(out, "narrow(x, ");
    put_size(a, p->narrow.at[j]);
    buffer_puts(out, ");\n");
  }
  put_arguments(a, k, p);
  buffer_printf(out, "launch(x, %u, ", number);
  put_size(a, p->blocks);
  buffer_puts(out, ", ");
  put_most(a, p);
  buffer_printf(out, ", %u, &a, sizeof a, ", p->s.threads);
  if (p->maps.len)
    buffer_printf(out, "made + %u, %u);\n}\n", map, p->maps.len);
  else
    buffer_puts(out, "NULL, 0);\n}\n");
}

static void put_passes(Adding *a, const CudaKernel *k, uint32_t first) {
  Buffer *out = a->out;
  uint32_t map = 0;
  buffer_puts(out, k->scratch ? "void *const s = room(x, " : "");
  if (k->scratch)
    put_size(a, k->scratch);
  buffer_puts(out, k->scratch ? ", 1, 0);\n" : "void *const s = NULL;\n");
  for (uint32_t j = 0; j < k->passes.len; j++) {
    put_pass(a, k, k->passes.at[j], first + j, map);
    map += k->passes.at[j]->maps.len;
  }
  buffer_puts(out, k->scratch ? "give(x, s);\n" : "");
}

/* boxed: calls of what does it where tensors are as TMA takes them; or NULL. */
static void put_run(Adding *a, const CudaKernel *k, const char *name,
                    uint32_t first, const char *boxed) {
  buffer_printf(a->out,
                "static void %s(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n(void)z, (void)q, (void)flag;\n",
                name);
  if (boxed)
    buffer_printf(a->out, "if (%s)\nreturn;\n", boxed);
  put_passes(a, k, first);
  buffer_puts(a->out, "}\n");
}

/* ---- tensor maps ---- */

static void put_list(Adding *a, uint32_t count, const int64_t *of) {
  buffer_puts(a->out, ",\n{");
  for (uint32_t j = 0; j < count; j++) {
    buffer_puts(a->out, j ? ", " : "");
    put_size(a, of[j]);
  }
  buffer_puts(a->out, count ? "}" : "0}");
}

/* As the host's struct has it. */
static void put_map(Adding *a, const CudaMap *m) {
  uint32_t inner = m->pixels ? m->rank - 2 : 0;
  int64_t box[MAP_AXES];
  for (uint32_t j = 0; j < m->rank; j++)
    box[j] = m->box[j];
  buffer_printf(a->out, "{place(q[%u]) + (uint64_t)(", m->pointer);
  put_size(a, m->at);
  buffer_printf(a->out, "), %d, %u, %d, %d", cuda_map_type(m), m->rank,
                cuda_map_swizzle(m), m->pixels);
  put_list(a, m->rank, box);
  put_list(a, m->rank, m->extent);
  put_list(a, m->rank, m->stride);
  put_list(a, inner, m->lower);
  put_list(a, inner, m->upper);
  put_list(a, inner, m->step);
  buffer_puts(a->out, "}");
}

static uint32_t map_count(const CudaKernel *k) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < k->passes.len; j++)
    count += k->passes.at[j]->maps.len;
  return count;
}

/* Only where most of the GPU has a tile, and tiles are no padding mostly. */
static void put_occupies(Adding *a, const CudaPass *p) {
  const GemmSchedule *s = &p->s.tile->s;
  buffer_puts(a->out, "if (!occupies(x, ");
  put_size(a, p->tiles);
  buffer_puts(a->out, ") || ");
  put_size(a, p->rows);
  buffer_printf(a->out, " <= %u || ", s->m * s->cluster_m / 2);
  put_size(a, p->columns);
  buffer_printf(a->out, " <= %u)\nreturn 0;\n", s->n * s->cluster_n / 2);
}

/* wide: a pass whose tiles have to be for so much (put_occupies); or NULL. */
static void put_boxed(Adding *a, const CudaKernel *k, const char *name,
                      uint32_t first, const CudaPass *wide) {
  uint32_t count = map_count(k);
  buffer_printf(a->out,
                "static int %s(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n(void)z, (void)flag;\n",
                name);
  if (wide)
    put_occupies(a, wide);
  buffer_puts(a->out, "const Map maps[] = {\n");
  for (uint32_t j = 0, at = 0; j < k->passes.len; j++)
    for (uint32_t i = 0; i < k->passes.at[j]->maps.len; i++, at++) {
      buffer_puts(a->out, at ? ",\n" : "");
      put_map(a, &k->passes.at[j]->maps.at[i]);
    }
  buffer_printf(a->out,
                "};\nMade made[%u];\nif (!make_maps(maps, %u, made))\n"
                "return 0;\n",
                count, count);
  put_passes(a, k, first);
  buffer_puts(a->out, "return 1;\n}\n");
}

/* ---- what its checks found ---- */

typedef VEC(uint32_t) Codes;

/* Of its checks, in the order of their bits. */
static Codes codes_of(const Adding *a, const CudaKernel *k) {
  Codes codes = {0};
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const Call *call = &k->passes.at[j]->emitted.call;
    for (uint32_t i = 0; i < call->checks.len; i++)
      VEC_PUSH(a->m->arena, codes,
               a->caller->code(a->caller->owner, call->checks.at[i]));
  }
  return codes;
}

static bool same_codes(const Codes *x, const Codes *y) {
  bool same = x->len == y->len;
  for (uint32_t j = 0; same && j < x->len; j++)
    same = x->at[j] == y->at[j];
  return same;
}

static void put_codes(Adding *a, const Codes *codes, uint32_t number) {
  buffer_printf(a->out, "static MAY_GO int code%u_%u(uint32_t bad) {\nreturn ",
                number, a->arch);
  for (uint32_t j = 0; j < codes->len; j++)
    buffer_printf(a->out, "bad & %uu ? %u\n: ", cuda_check_bit(j),
                  codes->at[j]);
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
    has = cuda_keeps_no_rows(k, &target);
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

/* Bytes of shared memory are asked for where code is loaded, and arguments are
 * the driver's. */
static bool can_start(const Graph *g, const CudaKernel *k) {
  for (uint32_t j = 0; j < k->passes.len; j++)
    if (!size_is_number(g, k->passes.at[j]->shared) ||
        cuda_is_far(k, k->passes.at[j]))
      return false;
  return true;
}

static bool emit(const CudaModule *m, const Kernel *k, uint32_t arch, bool maps,
                 CudaKernel *out) {
  CudaTarget target = target_of(m, arch);
  target.maps = maps;
  return cuda_emit(kernel_copy(k), &target, NULL, out) &&
         can_start(k->graph, out);
}

static void guess_large(void *sizes, DimVar *var) {
  if (!var->value)
    sizes_guess(sizes, var, LARGE_GUESS);
}

static void guess_middling(void *sizes, DimVar *var) {
  sizes_guess(sizes, var, 0);
}

static void guess_all(const Kernel *k, void (*guess)(void *, DimVar *)) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t v = 0; v < k->loops.at[j]->axes; v++)
      size_each_var(k->graph, k->loops.at[j]->extents[v], guess,
                    k->graph->sizes);
}

/* Its product by warpgroups; NULL: there is none. */
static const CudaPass *group_pass(const CudaKernel *k) {
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const CudaPass *p = k->passes.at[j];
    if (p->s.tile && p->s.tile->s.way == GEMM_WGMMA)
      return p;
  }
  return NULL;
}

/* By TMA, as one for large sizes is. */
static bool emit_large(const CudaModule *m, const Kernel *k, uint32_t arch,
                       const CudaKernel *middling, CudaKernel *out) {
  if (!group_pass(middling))
    return false;
  guess_all(k, guess_large);
  bool good = emit(m, k, arch, true, out) && group_pass(out);
  guess_all(k, guess_middling);
  return good && (out->text.len != middling->text.len ||
                  memcmp(out->text.text, middling->text.text, out->text.len));
}

/* Where it may be done by TMA: "run1_0_large(..) || run1_0_boxed(..)", which
 * say whether they did it; or NULL. */
static const char *add_boxed(Adding *a, const Kernel *k, const char *name,
                             const CudaKernel *boxed, const Codes *codes,
                             CudaAdded *added) {
  CudaKernel large = {0};
  Buffer calls = {.arena = k->arena};
  bool both = emit_large(a->m, k, a->arch, boxed, &large);
  for (uint32_t j = both ? 0 : 1; j < 2; j++) {
    const CudaKernel *of = j ? boxed : &large;
    const char *way =
        arena_printf(k->arena, "%s_%s", name, j ? "boxed" : "large");
    Codes same = codes_of(a, of);
    if (!map_count(of) || !same_codes(codes, &same))
      continue;
    put_boxed(a, of, way, add_text(a, of), j ? NULL : group_pass(of));
    added->lines |= of->lines;
    buffer_printf(&calls, "%s%s(x, z, q, flag)", calls.len ? " || " : "", way);
  }
  return calls.len ? calls.text : NULL;
}

/* One text; or, where what TMA takes is not known before a call, several. */
static bool add_for(CudaModule *m, const Kernel *k, const ModuleCaller *caller,
                    uint32_t arch, CudaAdded *added) {
  Adding a = {m, caller, k->graph, &m->host, arch, false};
  CudaKernel best = {0}, plain = {0};
  const char *name = arena_printf(k->arena, "run%u_%u", m->count, arch);
  const char *boxed = NULL;
  bool has = emit(m, k, arch, true, &best), maps = has && map_count(&best);
  plain = best;
  if ((!has || maps) && !emit(m, k, arch, false, &plain))
    return false;
  Codes codes = codes_of(&a, &plain);
  if (maps)
    boxed = add_boxed(&a, k, name, &best, &codes, added);
  put_run(&a, &plain, name, add_text(&a, &plain), boxed);
  added->checks |= codes.len > 0;
  added->lines |= plain.lines;
  put_codes(&a, &codes, m->count);
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
