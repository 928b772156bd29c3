#include "backend/cuda/aot_module.h"

#include "backend/cuda/arch.h"
#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/schedule_text.h"
#include "backend/target.h"
#include "machine/limits/cuda.h"
#include "support/arena_text.h"

#include <stdlib.h>
#include <string.h>

/* Placeholder for the number of a kernel.  The number is known only after a
 * search for an identical source. */
#define NUMBER_PLACEHOLDER "\1"

typedef struct AotKernelWriter {
  CudaAotModule *m;
  const AotCaller *caller;
  Graph *graph;
  Buffer *out;
  uint32_t arch;
  bool failed;
} AotKernelWriter;

static void put_size(AotKernelWriter *a, int64_t x) {
  a->failed |= !extent_emit_c(a->graph, a->out, x, a->caller->emit_size,
                              a->caller->context);
}

static const char *size_by_name(AotKernelWriter *a, int64_t x) {
  Buffer text = {.arena = a->m->arena};
  a->failed |= !extent_emit_c(a->graph, &text, x, a->caller->display_name,
                              a->caller->context);
  return text.text;
}

/* ---- sources ---- */

static void put_numbered(Buffer *out, const char *text, size_t len,
                         uint32_t number) {
  for (size_t k = 0; k < len; k++)
    if (text[k] == *NUMBER_PLACEHOLDER)
      buffer_printf(out, "k%u", number);
    else
      buffer_putc(out, text[k]);
}

static const char *with_number(Arena *arena, const char *text,
                               uint32_t number) {
  Buffer out = {.arena = arena};
  put_numbered(&out, text, strlen(text), number);
  return out.text;
}

static void note_pass(AotKernelWriter *a, const CudaPass *p, uint32_t number) {
  Buffer schedule = {.arena = a->m->arena};
  cuda_schedule_print(&schedule, &p->s);
  VEC_PUSH(a->m->arena, a->m->aot_passes,
           ((AotPass){a->arch, with_number(a->m->arena, p->name, number),
                      schedule.text, p->s.block_threads, p->shared_bytes,
                      size_by_name(a, p->grid_blocks)}));
}

/* The first pass of a source.  Adds the source unless an identical one exists.
 * Sizes are parameters, so that many kernels share one source. */
static uint32_t add_source(AotKernelWriter *a, const CudaKernel *k) {
  CudaAotModule *m = a->m;
  Buffer *part = &m->source[a->arch];
  for (uint32_t j = 0; j < m->sources.len; j++) {
    const AotKernelSource *t = &m->sources.at[j];
    if (t->section == part && t->len == k->source.len &&
        memcmp(t->source, k->source.text, t->len) == 0)
      return m->first_pass.at[j];
  }
  uint32_t number = m->sources.len + 1, first = m->pass_count[a->arch];
  put_numbered(part, k->source.text, k->source.len, number);
  for (uint32_t j = 0; j < k->passes.len; j++)
    note_pass(a, k->passes.at[j], number);
  m->pass_count[a->arch] += k->passes.len;
  VEC_PUSH(m->arena, m->sources,
           ((AotKernelSource){part, k->source.text, k->source.len, number}));
  VEC_PUSH(m->arena, m->first_pass, first);
  return first;
}

/* ---- launches ---- */

/* The same layout as in kernel_args.c, with 64-bit indices. */
static void put_args(AotKernelWriter *a, const CudaKernel *k,
                     const CudaPass *p) {
  const Call *call = &p->emitted.call;
  Buffer *out = a->out;
  buffer_printf(out, "struct {\nuint64_t p[%u];\n", k->pointer_count);
  if (call->ints.len)
    buffer_printf(out, "int64_t n[%u];\n", call->ints.len);
  if (p->divisors.len)
    buffer_printf(out, "int64_t d[%u];\n", p->divisors.len);
  if (call->floats.len)
    buffer_printf(out, "struct {\ndouble f64;\nfloat f32;\n} c[%u];\n",
                  call->floats.len);
  buffer_puts(out, "} a = {{");
  for (uint32_t j = 0; j + 2 < k->pointer_count; j++)
    buffer_printf(out, "device_pointer(q[%u]), ", j);
  buffer_puts(out, "device_pointer(s), flag}");
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
    emit_float_literal(out, call->floats.at[j]);
    buffer_puts(out, ", (float)");
    emit_float_literal(out, call->floats.at[j]);
    buffer_puts(out, "}");
  }
  buffer_puts(out, call->floats.len ? "}};\n" : "};\n");
}

/* The largest grid.  A persistent kernel launches only the blocks that are
 * resident at once; each block computes several tiles. */
static void put_max_blocks(AotKernelWriter *a, const CudaPass *p) {
  const GemmSchedule *s = p->s.gemm        ? &p->s.gemm->s
                          : p->s.attention ? &p->s.attention->s
                                           : NULL;
  if (s && s->persistent)
    buffer_printf(a->out, "occupancy_limit(x, %u, %u, ", s->blocks,
                  gemm_cluster_size(s));
  put_size(a, p->max_grid_blocks ? p->max_grid_blocks : INT32_MAX);
  buffer_puts(a->out, s && s->persistent ? ")" : "");
}

/* map: index of the first tensor map of the pass. */
static void put_pass(AotKernelWriter *a, const CudaKernel *k, const CudaPass *p,
                     uint32_t number, uint32_t map) {
  Buffer *out = a->out;
  buffer_puts(out, "{\n");
  if (p->counter_count) {
    buffer_puts(out, "clear_counters(x, s, ");
    put_size(a, p->counters_offset);
    buffer_puts(out, ", ");
    put_size(a, p->counter_count);
    buffer_puts(out, ");\n");
  }
  for (uint32_t j = 0; j < p->int32_sizes.len; j++) {
    buffer_puts(out, "check_fits_int32(x, ");
    put_size(a, p->int32_sizes.at[j]);
    buffer_puts(out, ");\n");
  }
  put_args(a, k, p);
  buffer_printf(out, "launch(x, %u, ", number);
  put_size(a, p->grid_blocks);
  buffer_puts(out, ", ");
  put_max_blocks(a, p);
  buffer_printf(out, ", %u, &a, sizeof a, ", p->s.block_threads);
  if (p->tensor_maps.len)
    buffer_printf(out, "tensor_maps + %u, %u);\n}\n", map, p->tensor_maps.len);
  else
    buffer_puts(out, "NULL, 0);\n}\n");
}

static void put_passes(AotKernelWriter *a, const CudaKernel *k,
                       uint32_t first) {
  Buffer *out = a->out;
  uint32_t map = 0;
  buffer_puts(out, k->scratch_bytes ? "void *const s = allocate(x, " : "");
  if (k->scratch_bytes)
    put_size(a, k->scratch_bytes);
  buffer_puts(out, k->scratch_bytes ? ", 1, 0);\n" : "void *const s = NULL;\n");
  for (uint32_t j = 0; j < k->passes.len; j++) {
    put_pass(a, k, k->passes.at[j], first + j, map);
    map += k->passes.at[j]->tensor_maps.len;
  }
  buffer_puts(out, k->scratch_bytes ? "release(x, s);\n" : "");
}

/* tma: expression that tries the TMA variants first; NULL: there are none. */
static void put_run(AotKernelWriter *a, const CudaKernel *k, const char *name,
                    uint32_t first, const char *tma) {
  buffer_printf(a->out,
                "static void %s(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n(void)z, (void)q, (void)flag;\n",
                name);
  if (tma)
    buffer_printf(a->out, "if (%s)\nreturn;\n", tma);
  put_passes(a, k, first);
  buffer_puts(a->out, "}\n");
}

static void put_list(AotKernelWriter *a, uint32_t count, const int64_t *of) {
  buffer_puts(a->out, ",\n{");
  for (uint32_t j = 0; j < count; j++) {
    buffer_puts(a->out, j ? ", " : "");
    put_size(a, of[j]);
  }
  buffer_puts(a->out, count ? "}" : "0}");
}

/* Initializer of a TensorMapSpec. */
static void put_tensor_map(AotKernelWriter *a, const TensorMap *m) {
  uint32_t inner = m->im2col ? m->rank - 2 : 0;
  int64_t box[TENSOR_MAP_MAX_RANK];
  for (uint32_t j = 0; j < m->rank; j++)
    box[j] = m->box[j];
  buffer_printf(a->out, "{device_pointer(q[%u]) + (uint64_t)(",
                m->pointer_index);
  put_size(a, m->offset_bytes);
  buffer_printf(a->out, "), %d, %u, %d, %d", tensor_map_data_type(m), m->rank,
                tensor_map_swizzle(m), m->im2col);
  put_list(a, m->rank, box);
  put_list(a, m->rank, m->extent);
  put_list(a, m->rank, m->stride);
  put_list(a, inner, m->lower_corner);
  put_list(a, inner, m->upper_corner);
  put_list(a, inner, m->traversal_stride);
  buffer_puts(a->out, "}");
}

static uint32_t tensor_map_count(const CudaKernel *k) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < k->passes.len; j++)
    count += k->passes.at[j]->tensor_maps.len;
  return count;
}

/* Rejects this variant unless its tiles fill most of the GPU, and unless most
 * rows and columns of a tile are in bounds. */
static void put_occupancy_check(AotKernelWriter *a, const CudaPass *p) {
  const GemmSchedule *s = &p->s.gemm->s;
  buffer_puts(a->out, "if (!fills_gpu(x, ");
  put_size(a, p->tiles);
  buffer_puts(a->out, ") || ");
  put_size(a, p->rows);
  buffer_printf(a->out, " <= %u || ", s->m * s->cluster_m / 2);
  put_size(a, p->columns);
  buffer_printf(a->out, " <= %u)\nreturn 0;\n", s->n * s->cluster_n / 2);
}

/* occupancy_pass: the pass that must fill the GPU (put_occupancy_check); NULL:
 * no condition. */
static void put_tma_run(AotKernelWriter *a, const CudaKernel *k,
                        const char *name, uint32_t first,
                        const CudaPass *occupancy_pass) {
  uint32_t count = tensor_map_count(k);
  buffer_printf(a->out,
                "static int %s(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n(void)z, (void)flag;\n",
                name);
  if (occupancy_pass)
    put_occupancy_check(a, occupancy_pass);
  buffer_puts(a->out, "const TensorMapSpec maps[] = {\n");
  for (uint32_t j = 0, at = 0; j < k->passes.len; j++)
    for (uint32_t i = 0; i < k->passes.at[j]->tensor_maps.len; i++, at++) {
      buffer_puts(a->out, at ? ",\n" : "");
      put_tensor_map(a, &k->passes.at[j]->tensor_maps.at[i]);
    }
  buffer_printf(a->out,
                "};\nEncodedTensorMap tensor_maps[%u];\nif "
                "(!encode_tensor_maps(maps, %u, tensor_maps))\n"
                "return 0;\n",
                count, count);
  put_passes(a, k, first);
  buffer_puts(a->out, "return 1;\n}\n");
}

/* ---- error codes of checks ---- */

typedef VEC(uint32_t) Codes;

/* The error codes of all checks, in the order of their bits. */
static Codes codes_of(const AotKernelWriter *a, const CudaKernel *k) {
  Codes codes = {0};
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const Call *call = &k->passes.at[j]->emitted.call;
    for (uint32_t i = 0; i < call->checks.len; i++)
      VEC_PUSH(a->m->arena, codes,
               a->caller->error_code(a->caller->context, call->checks.at[i]));
  }
  return codes;
}

static bool codes_equal(const Codes *x, const Codes *y) {
  bool same = x->len == y->len;
  for (uint32_t j = 0; same && j < x->len; j++)
    same = x->at[j] == y->at[j];
  return same;
}

static void put_codes(AotKernelWriter *a, const Codes *codes, uint32_t number) {
  buffer_printf(a->out,
                "static MAYBE_UNUSED int code%u_%u(uint32_t flags) {\nreturn ",
                number, a->arch);
  for (uint32_t j = 0; j < codes->len; j++)
    buffer_printf(a->out, "flags & %uu ? %u\n: ", cuda_check_bit(j),
                  codes->at[j]);
  buffer_puts(a->out, "0;\n}\n");
}

static void put_arch_dispatch(const CudaAotModule *m, Buffer *out,
                              bool checks) {
  buffer_printf(out,
                "static void run%u(Run *x, const int64_t *z, void *const *q,\n"
                "uint64_t flag) {\n",
                m->kernel_count);
  for (uint32_t a = 0; a < m->arch_count; a++)
    buffer_printf(out, "if (x->m->arch == %u)\nrun%u_%u(x, z, q, flag);\n", a,
                  m->kernel_count, a);
  buffer_puts(out, "}\n");
  if (!checks)
    return;
  buffer_printf(out,
                "static int code%u(const Run *x, uint32_t flags) {\nreturn ",
                m->kernel_count);
  for (uint32_t a = 0; a < m->arch_count; a++)
    buffer_printf(out, "x->m->arch == %u ? code%u_%u(flags)\n: ", a,
                  m->kernel_count, a);
  buffer_puts(out, "0;\n}\n");
}

/* ---- kernels ---- */

static CudaTarget target_of(const CudaAotModule *m, uint32_t arch) {
  CudaTarget target = cuda_arch_target(m->archs[arch]);
  target.name_prefix = NUMBER_PLACEHOLDER;
  return target;
}

/* True if at least one architecture has a fused kernel.  On the others, the
 * intermediate between the matmuls is stored (gemm_pass_needs_fission). */
static bool fuses_rows(const Kernel *k) {
  const CudaAotModule *m = (const CudaAotModule *)k->graph->backend;
  bool has = false;
  for (uint32_t a = 0; a < m->arch_count && !has; a++) {
    const CudaTarget target = target_of(m, a);
    has = cuda_fuses_product_rows(k, &target);
  }
  return has;
}

void cuda_aot_module_begin(CudaAotModule *m, Arena *arena, uint32_t count,
                           const char *const *archs) {
  *m = (CudaAotModule){.arena = arena, .arch_count = count};
  m->backend = backend_cuda;
  m->backend.has_fused_attention = fuses_rows;
  m->host_code.arena = arena;
  for (uint32_t a = 0; a < count; a++) {
    m->archs[a] = archs[a];
    m->source[a].arena = arena;
  }
}

/* The size of shared memory must be a constant, because it is set at module
 * load.  Arguments must fit into a launch. */
static bool is_launchable(const Graph *g, const CudaKernel *k) {
  for (uint32_t j = 0; j < k->passes.len; j++)
    if (!extent_is_static(g, k->passes.at[j]->shared_bytes) ||
        cuda_has_indirect_args(k, k->passes.at[j]))
      return false;
  return true;
}

/* A schedule that a user wrote is that of the variant with tensor maps. */
static bool emit(const CudaAotModule *m, const FusionGroup *c, uint32_t arch,
                 bool maps, CudaKernel *out) {
  Kernel *k = kernel_copy(c->kernel);
  CudaTarget target = target_of(m, arch);
  target.has_tensor_maps = maps;
  KernelText *text = maps ? kernel_text_find(k->arena, c, target.arch) : NULL;
  return cuda_emit(k, &target, text, NULL, out) && is_launchable(k->graph, out);
}

static void hint_large(void *sizes, DimVar *var) {
  if (!var->is_integer)
    extent_table_set_hint(sizes, var, LARGE_EXTENT_HINT);
}

static void hint_default(void *sizes, DimVar *var) {
  extent_table_set_hint(sizes, var, 0);
}

static void set_extent_hints(const Kernel *k, void (*guess)(void *, DimVar *)) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t v = 0; v < k->loops.at[j]->axis_count; v++)
      extent_each_var(k->graph, k->loops.at[j]->extents[v], guess,
                      k->graph->extent_table);
}

/* The matmul pass whose producer loads by TMA; NULL: none. */
static const CudaPass *producer_pass(const CudaKernel *k) {
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const CudaPass *p = k->passes.at[j];
    if (p->s.gemm && gemm_has_producer(&p->s.gemm->s))
      return p;
  }
  return NULL;
}

/* A TMA variant with the schedule for large sizes.  False if it equals the
 * default. */
static bool emit_large(const CudaAotModule *m, const FusionGroup *c,
                       uint32_t arch, const CudaKernel *default_kernel,
                       CudaKernel *out) {
  const Kernel *k = c->kernel;
  if (!producer_pass(default_kernel))
    return false;
  set_extent_hints(k, hint_large);
  bool good = emit(m, c, arch, true, out) && producer_pass(out);
  set_extent_hints(k, hint_default);
  return good && (out->source.len != default_kernel->source.len ||
                  memcmp(out->source.text, default_kernel->source.text,
                         out->source.len));
}

/* Calls of the TMA variants: "run1_0_large(..) || run1_0_boxed(..)".  A variant
 * returns 0 if it cannot run.  NULL: there are no variants. */
static const char *add_tma_variants(AotKernelWriter *a, const FusionGroup *c,
                                    const char *name, const CudaKernel *tma,
                                    const Codes *codes, AotKernelInfo *added) {
  const Kernel *k = c->kernel;
  CudaKernel large = {0};
  Buffer calls = {.arena = k->arena};
  bool has_large = emit_large(a->m, c, a->arch, tma, &large);
  for (uint32_t j = has_large ? 0 : 1; j < 2; j++) {
    const CudaKernel *of = j ? tma : &large;
    const char *variant =
        arena_printf(k->arena, "%s_%s", name, j ? "boxed" : "large");
    Codes tma_codes = codes_of(a, of);
    if (!tensor_map_count(of) || !codes_equal(codes, &tma_codes))
      continue;
    put_tma_run(a, of, variant, add_source(a, of),
                j ? NULL : producer_pass(of));
    added->requires_align16 |= of->requires_align16;
    buffer_printf(&calls, "%s%s(x, z, q, flag)", calls.len ? " || " : "",
                  variant);
  }
  return calls.len ? calls.text : NULL;
}

/* Adds one source, or several variants if only the call decides whether TMA is
 * possible. */
static bool add_for_arch(CudaAotModule *m, const FusionGroup *c,
                         const AotCaller *caller, uint32_t arch,
                         AotKernelInfo *added) {
  const Kernel *k = c->kernel;
  AotKernelWriter a = {m, caller, k->graph, &m->host_code, arch, false};
  CudaKernel with_tma = {0}, without_tma = {0};
  const char *name = arena_printf(k->arena, "run%u_%u", m->kernel_count, arch);
  const char *tma = NULL;
  bool has = emit(m, c, arch, true, &with_tma),
       maps = has && tensor_map_count(&with_tma);
  if (has)
    kernel_text_print(&m->schedules, c, &with_tma, m->archs[arch]);
  without_tma = with_tma;
  if ((!has || maps) && !emit(m, c, arch, false, &without_tma))
    return false;
  Codes codes = codes_of(&a, &without_tma);
  if (maps)
    tma = add_tma_variants(&a, c, name, &with_tma, &codes, added);
  put_run(&a, &without_tma, name, add_source(&a, &without_tma), tma);
  added->has_checks |= codes.len > 0;
  added->requires_align16 |= without_tma.requires_align16;
  put_codes(&a, &codes, m->kernel_count);
  return !a.failed;
}

uint32_t cuda_aot_module_add(CudaAotModule *m, const FusionGroup *c,
                             const AotCaller *caller, AotKernelInfo *added) {
  const Kernel *k = c->kernel;
  *added = (AotKernelInfo){.has_checks = false};
  m->schedules = (Buffer){.arena = m->arena};
  m->kernel_count++;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (k->loops.at[j]->outputs.at[i].global_index)
        VEC_PUSH(k->arena, added->outputs, k->loops.at[j]->outputs.at[i].node);
  for (uint32_t a = 0; a < m->arch_count; a++)
    if (!add_for_arch(m, c, caller, a, added))
      return UINT32_MAX;
  put_arch_dispatch(m, &m->host_code, added->has_checks);
  return m->kernel_count;
}

bool cuda_aot_module_source(const CudaAotModule *m, uint32_t arch,
                            Buffer *out) {
  return cuda_full_source(&m->source[arch], out);
}

static void put_table(const CudaAotModule *m, Buffer *out, uint32_t arch) {
  buffer_printf(out, "static const KernelPass passes%u[] = {", arch);
  for (uint32_t j = 0; j < m->aot_passes.len; j++)
    if (m->aot_passes.at[j].arch == arch)
      buffer_printf(out, "\n{\"%s\", %lld},", m->aot_passes.at[j].name,
                    (long long)m->aot_passes.at[j].shared_bytes);
  buffer_puts(out, "\n{NULL, 0}};\n");
}

void cuda_aot_module_tables(const CudaAotModule *m, Buffer *out) {
  for (uint32_t a = 0; a < m->arch_count; a++)
    put_table(m, out, a);
  buffer_puts(out, "static const Arch archs[] = {\n");
  for (uint32_t a = 0; a < m->arch_count; a++) {
    const char *arch = m->archs[a];
    long number = strtol(arch + strlen("sm_"), NULL, 10);
    buffer_printf(out, "{\"%s\", %ld, %ld, %d, %u, passes%u},\n", arch,
                  number / 10, number % 10, arch[strlen(arch) - 1] == 'a',
                  m->pass_count[a], a);
  }
  buffer_printf(out, "};\nenum { ARCHS = %u, PASSES = %u };\n", m->arch_count,
                m->aot_passes.len ? m->aot_passes.len : 1);
}
