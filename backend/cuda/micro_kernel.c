/* Checks the micro-kernels of a program before their first use.
 *
 * The simulator runs a matmul kernel with the schedule of the product that uses
 * it.  Operands have exactly the elements that the kernel may read, and the
 * result is NaN before.  So a race, a wrong access or another result is found.
 * The error bound is that of a sum in any order (Higham, Accuracy and Stability
 * of Numerical Algorithms, 2002, chapter 4). */
#define _GNU_SOURCE
#include "backend/cuda/gemm_micro.h"

#include "backend/cuda/intrinsics.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/ptxas_report.h"
#include "backend/cuda/sim/sim.h"
#include "backend/emit/micro_check.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN_BYTES = 256, SEEDS = 3, COLUMN_PADDING = 3 };

/* Lines of the kernel around the micro-kernel begin here. */
#define FIRST_KERNEL_LINE "1000000"

typedef struct MicroProduct {
  const MicroKernel *m;
  const char *arch;
  GemmShape shape;
  GemmSchedule s;
} MicroProduct;

/* ---- source ---- */

static const char arguments[] =
    "struct Arguments {\nconst void *a, *b;\nvoid *c;\nint64_t m, n, k;\n"
    "int64_t a_m, a_k, b_n, b_k, c_m;\n};\n";

typedef struct MicroArguments {
  const void *a, *b;
  void *c;
  int64_t m, n, k, a_m, a_k, b_n, b_k, c_m;
} MicroArguments;

static void put_result(void *owner, Buffer *out, const char *x,
                       const char *const to[GEMM_MAX_OUTPUTS]) {
  (void)owner;
  buffer_printf(out, "%s = %s;\n", to[0], x);
}

static void put_operand_value(void *owner, Buffer *out, const char *to,
                              const char *element) {
  const MicroProduct *p = owner;
  char x[200];
  snprintf(x, sizeof x, "((const %s *)args.%s]", gemm_storage_type(p->m->dtype),
           element);
  buffer_printf(out, "%s = ", to);
  gemm_put_widened(out, p->m->dtype, x);
  buffer_puts(out, ";\n");
}

static void put_value_a(void *owner, Buffer *out, const char *to) {
  put_operand_value(owner, out, to, "a)[im * args.a_m + ik * args.a_k");
}

static void put_value_b(void *owner, Buffer *out, const char *to) {
  put_operand_value(owner, out, to, "b)[in * args.b_n + ik * args.b_k");
}

static GemmAxisGroup one_axis(const char *name, const char *extent,
                              const char *a, const char *b) {
  GemmAxisGroup g = {.count = 1};
  g.axes[0] =
      (GemmAxis){.name = name, .extent = extent, .stride_a = a, .stride_b = b};
  return g;
}

/* in_simulator: with the lines of the program, and checks of indices. */
static void put_source(Buffer *out, const MicroProduct *p, bool in_simulator) {
  const GemmShape *shape = &p->shape;
  bool a_along = shape->a.mn_major, b_along = shape->b.mn_major;
  GemmKernelSpec t = {.shape = shape,
                      .schedule = &p->s,
                      .name = "product",
                      .put_epilogue = put_result,
                      .owner = (void *)(uintptr_t)p,
                      .output_count = 1,
                      .checks_micro = in_simulator};
  t.m = one_axis("im", "args.m", a_along ? "1" : "args.a_m", NULL);
  t.n = one_axis("in", "args.n", NULL, b_along ? "1" : "args.b_n");
  t.k = one_axis("ik", "args.k", a_along ? "args.a_k" : "1",
                 b_along ? "args.b_k" : "1");
  t.a = (GemmOperand){.pointer = "args.a",
                      .put_value = shape->a.computed ? put_value_a : NULL};
  t.b = (GemmOperand){.pointer = "args.b",
                      .put_value = shape->b.computed ? put_value_b : NULL};
  t.outputs[0] = (GemmOutput){.pointer = "args.c",
                              .dtype = shape->accumulator_dtype,
                              .strides = {"args.c_m", "1"}};
  Buffer before = {.arena = out->arena}, body = {.arena = out->arena};
  gemm_put_kernel(&before, &body, &t);
  buffer_printf(out,
                "%s%s%sextern \"C\" __global__ void __launch_bounds__(%u)\n"
                "product(const __grid_constant__ Arguments args) {\n%s}\n",
                in_simulator ? "#line " FIRST_KERNEL_LINE "\n" : "", arguments,
                before.text, gemm_threads(&p->s), body.text);
  cuda_micro_put_text(out, p->m, true);
}

/* ---- operands ---- */

typedef struct MicroCase {
  int64_t m, n, k;
  bool has_nan;
} MicroCase;

typedef struct Operand {
  char *at;
  int64_t count; /* of its elements */
  Dtype dtype;
} Operand;

static double get(const Operand *o, int64_t index) {
  const void *at = o->at + index * (int64_t)dtype_info[o->dtype].bytes;
  Dtype t = o->dtype;
  return t == DT_F64       ? *(const double *)at
         : t == DT_F32     ? (double)*(const float *)at
         : t == DT_F16     ? f16_to_double(*(const uint16_t *)at)
         : t == DT_BF16    ? bf16_to_double(*(const uint16_t *)at)
         : t == DT_F8_E4M3 ? f8_e4m3_to_double(*(const uint8_t *)at)
                           : f8_e5m2_to_double(*(const uint8_t *)at);
}

static void set(const Operand *o, int64_t index, double x) {
  void *at = o->at + index * (int64_t)dtype_info[o->dtype].bytes;
  if (o->dtype == DT_F64)
    *(double *)at = x;
  else if (o->dtype == DT_F32)
    *(float *)at = (float)x;
  else if (o->dtype == DT_F8_E4M3)
    *(uint8_t *)at = f8_e4m3_from_double(x);
  else if (o->dtype == DT_F8_E5M2)
    *(uint8_t *)at = f8_e5m2_from_double(x);
  else
    *(uint16_t *)at =
        o->dtype == DT_BF16 ? bf16_from_double(x) : f16_from_double(x);
}

static double random_number(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 40) / (double)(1 << 23) - 1;
}

/* Elements that are NaN. */
static bool make_operand(Operand *o, int64_t count, Dtype dtype) {
  size_t bytes = (size_t)count * dtype_info[dtype].bytes + 1;
  *o = (Operand){.count = count, .dtype = dtype};
  o->at = aligned_alloc(ALIGN_BYTES,
                        (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES);
  for (int64_t j = 0; o->at && j < count; j++)
    set(o, j, NAN);
  return o->at != NULL;
}

static int64_t extent_of(int64_t rows, int64_t row, int64_t columns,
                         int64_t column) {
  return rows && columns ? (rows - 1) * row + (columns - 1) * column + 1 : 0;
}

/* The distance of rows that have this many elements, for copies of the size
 * that the schedule has. */
static int64_t pitch(const GemmSide *side, int64_t elements) {
  int64_t bytes = (int64_t)dtype_info[side->dtype].bytes,
          each = side->align_bytes > 16 ? 16 : (int64_t)side->align_bytes;
  int64_t align = each > bytes ? each / bytes : 1;
  return (elements + align - 1) / align * align + align;
}

/* ---- one case ---- */

typedef struct MicroCheck {
  bool is_done;
  MicroCase running;
  char text[500];
} MicroCheck;

typedef struct CheckRun {
  MicroCheck *v;
  Sim *sim;
  const MicroProduct *p;
  Operand a, b, c;
  MicroArguments args;
  uint64_t random;
} CheckRun;

static bool make_operands(CheckRun *r, const MicroCase *t) {
  const GemmSide *a = &r->p->shape.a, *b = &r->p->shape.b;
  MicroArguments *g = &r->args;
  *g = (MicroArguments){.m = t->m, .n = t->n, .k = t->k};
  g->a_m = a->mn_major ? 1 : pitch(a, t->k);
  g->a_k = a->mn_major ? pitch(a, t->m) : 1;
  g->b_n = b->mn_major ? 1 : pitch(b, t->k);
  g->b_k = b->mn_major ? pitch(b, t->n) : 1;
  g->c_m = t->n + COLUMN_PADDING;
  if (!make_operand(&r->a, extent_of(t->m, g->a_m, t->k, g->a_k), a->dtype) ||
      !make_operand(&r->b, extent_of(t->n, g->b_n, t->k, g->b_k), b->dtype) ||
      !make_operand(&r->c, t->m * g->c_m, r->p->shape.accumulator_dtype))
    return false;
  for (int64_t k = 0; k < t->k; k++) {
    for (int64_t i = 0; i < t->m; i++)
      set(&r->a, i * g->a_m + k * g->a_k, random_number(&r->random));
    for (int64_t j = 0; j < t->n; j++)
      set(&r->b, j * g->b_n + k * g->b_k, random_number(&r->random));
  }
  if (t->has_nan) { /* the product of NaN and 0 is NaN */
    set(&r->a, 0, NAN);
    set(&r->b, 0, 0);
  }
  g->a = r->a.at;
  g->b = r->b.at;
  g->c = r->c.at;
  return true;
}

static bool is_right(CheckRun *r, const MicroCase *t, int64_t i, int64_t j) {
  const MicroArguments *g = &r->args;
  double epsilon = r->c.dtype == DT_F64 ? DBL_EPSILON : FLT_EPSILON;
  long double sum = 0, size = 0;
  for (int64_t k = 0; k < t->k; k++) {
    long double x = get(&r->a, i * g->a_m + k * g->a_k),
                y = get(&r->b, j * g->b_n + k * g->b_k);
    sum += x * y;
    size += fabsl(x * y);
  }
  double got = get(&r->c, i * g->c_m + j);
  if (isnan(sum) ? isnan(got) : fabsl(got - sum) <= (t->k + 2) * epsilon * size)
    return true;
  snprintf(r->v->text, sizeof r->v->text,
           "for %" PRId64 " rows, %" PRId64 " columns and %" PRId64
           " terms it computes another c[%" PRId64 ", %" PRId64
           "]: %g, not %Lg",
           t->m, t->n, t->k, i, j, got, sum);
  return false;
}

static bool check_results(CheckRun *r, const MicroCase *t) {
  for (int64_t i = 0; i < t->m; i++)
    for (int64_t j = 0; j < t->n; j++)
      if (!is_right(r, t, i, j))
        return false;
  return true;
}

/* The message of the simulator, without the name of the kernel, and with words
 * for its lines. */
static void note_simulator(MicroCheck *v, const MicroProduct *p,
                           const char *message) {
  static const char kernel[] = "product: ";
  const char *file = strrchr(p->m->path, '/');
  file = file ? file + 1 : p->m->path;
  message += strncmp(message, kernel, strlen(kernel)) ? 0 : strlen(kernel);
  char *line = NULL;
  snprintf(v->text, sizeof v->text, "in the simulator: %.400s", message);
  if (!(line = strstr(v->text, ":1000")) || strspn(line + 1, "0123456789") != 7)
    return;
  size_t len = strlen(file);
  if ((size_t)(line - v->text) < len || memcmp(line - len, file, len) != 0)
    return;
  char rest[400];
  snprintf(rest, sizeof rest, "%s", line + 8);
  snprintf(line - len, sizeof v->text - (size_t)(line - len - v->text),
           "in a wrapper or the kernel around it%s", rest);
}

static bool check_case(CheckRun *r, const MicroCase *t, uint64_t seed) {
  const GemmSchedule *s = &r->p->s;
  r->v->running = *t;
  if (!make_operands(r, t)) {
    snprintf(r->v->text, sizeof r->v->text, "there is no memory to check it");
    return false;
  }
  const SimMemory memory[] = {
      {r->a.at, (size_t)r->a.count * dtype_info[r->a.dtype].bytes, false, "a"},
      {r->b.at, (size_t)r->b.count * dtype_info[r->b.dtype].bytes, false, "b"},
      {r->c.at, (size_t)r->c.count * dtype_info[r->c.dtype].bytes, true, "c"}};
  Buffer error = {0};
  int64_t tiles = (t->m + s->m - 1) / s->m * ((t->n + s->n - 1) / s->n);
  const SimLaunch launch = {.kernel = "product",
                            .grid = {(uint32_t)tiles, 1, 1},
                            .block = {gemm_threads(s), 1, 1},
                            .shared_bytes = gemm_shared_bytes(&r->p->shape, s),
                            .args = &r->args,
                            .args_bytes = sizeof r->args,
                            .memory = memory,
                            .memory_count = ARRAY_LEN(memory),
                            .seed = seed};
  bool good = sim_launch(r->sim, &launch, &error);
  if (!good)
    note_simulator(r->v, r->p, error.text);
  good = good && check_results(r, t);
  buffer_free(&error);
  free(r->a.at);
  free(r->b.at);
  free(r->c.at);
  return good;
}

/* Sizes of 1, without terms, of tiles, beyond their edges, and random ones. */
static void check_all(void *owner) {
  CheckRun *r = owner;
  int64_t m = r->p->s.m, n = r->p->s.n, k = r->p->s.k, stages = r->p->s.stages;
  r->random = 1;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    const MicroCase cases[] = {{1, 1, 0, false},
                               {1, 1, 1, false},
                               {m, n, k, false},
                               {m + 1, n - 1, k * stages + 1, true},
                               {1 + (int64_t)(seed * 7919) % m,
                                1 + (int64_t)(seed * 6101) % n,
                                1 + (int64_t)(seed * 4073) % (3 * k), false}};
    for (size_t j = 0; j < ARRAY_LEN(cases); j++)
      if (!check_case(r, &cases[j], seed))
        return;
  }
  r->v->is_done = true;
}

static const char *describe_end(Arena *arena, const MicroCheck *v,
                                const MicroProcessEnd *end) {
  if (v->is_done)
    return NULL;
  if (*v->text)
    return arena_strndup(arena, v->text, strlen(v->text));
  if (end->was_killed)
    return micro_killed;
  return end->timed_out
             ? arena_printf(arena, "with %" PRId64 " terms it does not end",
                            v->running.k)
             : arena_printf(arena,
                            "with %" PRId64 " terms it ends the simulator: it "
                            "accesses memory that is not there",
                            v->running.k);
}

static const char *run_checks(Arena *arena, Sim *sim, const MicroProduct *p) {
  MicroCheck *v = micro_shared_memory(sizeof *v);
  MicroProcessEnd end;
  if (!v)
    return "there is no memory to check it";
  CheckRun r = {.v = v, .sim = sim, .p = p};
  const char *refusal =
      micro_process_run(CUDA_MICRO_SECONDS, check_all, &r, &end)
          ? describe_end(arena, v, &end)
          : "there is no process to check it";
  munmap(v, sizeof *v);
  return refusal;
}

/* ---- compiling ---- */

/* The first error in the output of g++, clang++ or NVRTC. */
static const char *find_error(const char *log) {
  static const char *const marks[] = {": error", "fatal error: "};
  const char *first = NULL;
  for (size_t j = 0; j < ARRAY_LEN(marks); j++) {
    const char *at = strstr(log, marks[j]);
    first = at && (!first || at < first) ? at : first;
  }
  return first;
}

/* An error at the line of the declaration is that of the call. */
static const char *compiler_error(Arena *arena, const MicroKernel *m,
                                  const char *log) {
  const char *at = find_error(log);
  while (at && at > log && at[-1] != '\n')
    at--;
  if (!at)
    return arena_printf(arena, "it does not compile: %.300s", log);
  size_t len = strcspn(at, "\n"), path = strlen(m->path);
  uint32_t line = 0;
  if (len > path && strncmp(at, m->path, path) == 0 &&
      (at[path] == ':' || at[path] == '('))
    line = (uint32_t)strtoul(at + path + 1, NULL, 10);
  if (line == m->first_line)
    return arena_printf(arena, "it does not define this function: %s",
                        cuda_micro_signature(arena, m));
  return arena_printf(arena, "it does not compile: %.*s",
                      len < 400 ? (int)len : 400, at);
}

/* With the wrappers, and without the lines of the program. */
static bool put_device_source(Buffer *out, const MicroProduct *p) {
  Buffer source = {.arena = out->arena};
  put_source(&source, p, false);
  return intrinsics_write(out, source.text);
}

/* With NVRTC, if it is there and has the architecture. */
static const char *check_device(Arena *arena, const MicroProduct *p) {
  Fault fault = {0};
  const Nvrtc *n = nvrtc(&fault);
  Buffer full = {.arena = arena};
  CompiledCode code = {0};
  const char *refusal = NULL;
  if (!n || !nvrtc_compiles(n, p->arch))
    return NULL;
  if (!put_device_source(&full, p))
    return "there is no memory to check it";
  KernelSource of = {.source = full.text, .name = "kernel.cu", .arch = p->arch};
  if (!nvrtc_compile(n, &of, &code, &fault))
    refusal = compiler_error(arena, p->m,
                             code.log && *code.log ? code.log : fault.message);
  else if (ptxas_report_spilled(code.log))
    fprintf(stderr,
            "axon: micro=%s: for %s the compiler spills %u bytes of registers: "
            "a smaller tile may be faster\n",
            p->m->name, p->arch, ptxas_report_spilled(code.log));
  compiled_code_free(&code);
  return refusal;
}

static const char *compile_and_check(Arena *arena, const MicroKernel *m,
                                     const void *owner) {
  const MicroProduct *p = owner;
  const char *file = strrchr(m->path, '/'), *refusal;
  Buffer source = {.arena = arena}, error = {0};
  if (!sim_is_available())
    return "there is no C++ compiler to check it: install g++, or name a "
           "compiler in AXON_SIM_CXX";
  put_source(&source, p, true);
  Sim *sim = sim_compile(source.text, file ? file + 1 : m->path, &error);
  if (!sim)
    refusal = compiler_error(arena, m, error.text);
  else
    refusal = run_checks(arena, sim, p);
  sim_free(sim);
  buffer_free(&error);
  return refusal ? refusal : check_device(arena, p);
}

/* ---- verdict ---- */

/* Change it if the cases of the check change. */
enum { CASES_VERSION = 1 };

/* A verdict without NVRTC is not one with it. */
static const char *find_verdict(Arena *arena, const MicroProduct *p) {
  Fault fault = {0};
  const Nvrtc *n = nvrtc(&fault);
  Buffer full = {.arena = arena};
  if (!put_device_source(&full, p))
    return "there is no memory to check it";
  ArtifactKey runtime = sim_runtime_key(), compiler = sim_compiler_key();
  const uint32_t numbers[] = {
      CASES_VERSION, p->shape.a.align_bytes, /* of its rows */
      p->shape.b.align_bytes, n ? (uint32_t)n->major : 0,
      n ? (uint32_t)n->minor : 0};
  const ArtifactPart parts[] = {{numbers, sizeof numbers},
                                {p->arch, strlen(p->arch)},
                                {full.text, full.len},
                                {&runtime, sizeof runtime},
                                {&compiler, sizeof compiler}};
  return micro_verdict(arena, p->m, ARRAY_LEN(parts), parts, compile_and_check,
                       p);
}

const char *cuda_micro_kernel_refusal(Arena *arena, const GemmShape *shape,
                                      const GemmSchedule *s, const char *arch) {
  MicroProduct p = {.m = s->micro, .arch = arch, .s = *s};
  p.shape = (GemmShape){.a = shape->a,
                        .b = shape->b,
                        .accumulator_dtype = shape->accumulator_dtype,
                        .m = shape->m,
                        .n = shape->n,
                        .k = shape->k,
                        .batch = 1,
                        .output_count = 1};
  p.s.split = 1;
  return find_verdict(arena, &p);
}
