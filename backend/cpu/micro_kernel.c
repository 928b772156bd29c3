/* Checks the micro-kernels of a program before their first use.
 *
 * Operands lie at the begin and at the end of pages whose neighbours cannot be
 * accessed.  Gaps between their rows are NaN.  So a wrong access ends the
 * process or changes the result.  The error bound is that of a sum in any order
 * (Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 4). */
#define _GNU_SOURCE
#include "backend/cpu/micro_kernel.h"

#include "backend/cpu/compile_process.h"
#include "backend/cpu/cpu.h"
#include "backend/emit/micro_check.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/json_writer.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void MicroFunction(const void *a, long a_row, long a_term,
                           const void *b, long b_term, long terms, void *c,
                           long c_row, int add);

/* ---- source ---- */

static const char *element_type(const MicroKernel *m) {
  return m->dtype == DT_F64 ? "double" : "float";
}

static void put_head(Buffer *out, const MicroKernel *m, const char *name) {
  const char *type = element_type(m);
  buffer_printf(out,
                "void %s(const %s *a, long a_row, long a_term, const %s *b, "
                "long b_term,\nlong terms, %s *c, long c_row, int add)",
                name, type, type, type);
}

const char *micro_kernel_function(Arena *arena, const MicroKernel *m) {
  return arena_printf(arena, "axn_micro_%s", m->name);
}

void micro_kernel_declare(Buffer *out, const MicroKernel *m) {
  buffer_puts(out, "static ");
  put_head(out, m, micro_kernel_function(out->arena, m));
  buffer_puts(out, ";\n");
}

void micro_kernel_put_text(Buffer *out, const MicroKernel *m) {
  buffer_printf(out, "#define %s %s\n%s\n", m->name,
                micro_kernel_function(out->arena, m), m->text);
}

/* Names of a generated kernel that the prelude does not have.  A text that
 * defines one of them, or a name of the prelude, does not compile. */
static const char generated_names[] =
    "struct axn_micro_taken;\n"
    "int kernel(struct axn_micro_taken *), fold(struct axn_micro_taken *),\n"
    "tile0(struct axn_micro_taken *), edge0(struct axn_micro_taken *),\n"
    "short0(struct axn_micro_taken *), rolled0(struct axn_micro_taken *);\n";

static void put_source(Buffer *out, const MicroKernel *m) {
  uint32_t width = cpu_vector_bytes() / dtype_info[m->dtype].bytes;
  buffer_printf(out, " #define W %u\n", width); /* not that of a kernel */
  buffer_puts(out, cpu_prelude(width));
  buffer_puts(out, generated_names);
  micro_kernel_declare(out, m);
  put_head(out, m, "axn_micro_check");
  buffer_puts(out, ";\n");
  put_head(out, m, "axn_micro_check");
  buffer_printf(out,
                " {\n%s(a, a_row, a_term, b, b_term, terms, c, c_row, add);\n}"
                "\n#define %s %s\n#line %u ",
                micro_kernel_function(out->arena, m), m->name,
                micro_kernel_function(out->arena, m), m->line);
  json_quote(out, m->path); /* a path in C has the same escapes */
  buffer_printf(out, "\n%s\n", m->text);
}

/* ---- one case ---- */

typedef struct MicroCase {
  long terms, a_row, a_term, b_term, c_row;
  bool adds, at_end, has_nan; /* at_end: operands end at the end of a page */
} MicroCase;

typedef struct Operands {
  const MicroKernel *m;
  char *a, *b, *c;
  double *start; /* c before the call */
  uint64_t random;
} Operands;

static double get(const MicroKernel *m, const void *at, long index) {
  return m->dtype == DT_F64 ? ((const double *)at)[index]
                            : (double)((const float *)at)[index];
}

static void set(const MicroKernel *m, void *at, long index, double value) {
  if (m->dtype == DT_F64)
    ((double *)at)[index] = value;
  else
    ((float *)at)[index] = (float)value;
}

static double random_number(Operands *o) {
  o->random = o->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(o->random >> 40) / (double)(1 << 23) - 1;
}

/* Memory of `elements` elements between two pages without access.  NULL: there
 * is no memory. */
static char *guarded(const MicroKernel *m, long elements, bool at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE),
         bytes = (size_t)elements * dtype_info[m->dtype].bytes,
         inner = (bytes + page) / page * page;
  char *all = mmap(NULL, inner + 2 * page, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED ||
      mprotect(all + page, inner, PROT_READ | PROT_WRITE) != 0)
    return NULL;
  char *at = all + page + (at_end ? inner - bytes : 0);
  for (long j = 0; j < elements; j++)
    set(m, at, j, NAN);
  return at;
}

/* Number of elements of an operand of rows x columns with strides. */
static long extent_of(long rows, long row, long columns, long column) {
  return rows && columns ? (rows - 1) * row + (columns - 1) * column + 1 : 0;
}

static bool make_operands(Operands *o, const MicroCase *t) {
  const MicroKernel *m = o->m;
  long rows = m->rows, columns = m->columns;
  o->a = guarded(m, extent_of(rows, t->a_row, t->terms, t->a_term), t->at_end);
  o->b = guarded(m, extent_of(t->terms, t->b_term, columns, 1), t->at_end);
  o->c = guarded(m, extent_of(rows, t->c_row, columns, 1), t->at_end);
  o->start = mmap(NULL, (size_t)(rows * columns) * sizeof(double),
                  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!o->a || !o->b || !o->c || o->start == MAP_FAILED)
    return false;
  for (long k = 0; k < t->terms; k++) {
    for (long i = 0; i < rows; i++)
      set(m, o->a, i * t->a_row + k * t->a_term, random_number(o));
    for (long j = 0; j < columns; j++)
      set(m, o->b, k * t->b_term + j, random_number(o));
  }
  if (t->has_nan && t->terms)
    set(m, o->a, 0, NAN);
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < columns; j++) {
      if (t->adds)
        set(m, o->c, i * t->c_row + j, random_number(o));
      o->start[i * columns + j] = get(m, o->c, i * t->c_row + j);
    }
  return true;
}

/* True if an element of the result is within the error of any order. */
static bool is_right(const Operands *o, const MicroCase *t, long i, long j) {
  double epsilon = o->m->dtype == DT_F64 ? DBL_EPSILON : FLT_EPSILON;
  long double sum = t->adds ? (long double)o->start[i * o->m->columns + j] : 0;
  long double size = fabsl(sum);
  for (long k = 0; k < t->terms; k++) {
    long double x = get(o->m, o->a, i * t->a_row + k * t->a_term),
                y = get(o->m, o->b, k * t->b_term + j);
    sum += x * y;
    size += fabsl(x * y);
  }
  long double got = get(o->m, o->c, i * t->c_row + j);
  return isnan(sum)
             ? isnan(got)
             : fabsl(got - sum) <= (long double)(t->terms + 2) * epsilon * size;
}

static bool is_unchanged_between_rows(const Operands *o, const MicroCase *t) {
  for (long i = 0; i + 1 < (long)o->m->rows; i++)
    for (long j = o->m->columns; j < t->c_row; j++)
      if (!isnan(get(o->m, o->c, i * t->c_row + j)))
        return false;
  return true;
}

/* ---- the process ---- */

typedef struct MicroCheck {
  bool is_done;
  MicroCase running;
  char text[200];
} MicroCheck;

static bool check_case(MicroCheck *v, MicroFunction *function, Operands *o,
                       const MicroCase *t) {
  v->running = *t;
  if (!make_operands(o, t)) {
    snprintf(v->text, sizeof v->text, "there is no memory to check it");
    return false;
  }
  function(o->a, t->a_row, t->a_term, o->b, t->b_term, t->terms, o->c, t->c_row,
           t->adds);
  for (long i = 0; i < (long)o->m->rows; i++)
    for (long j = 0; j < (long)o->m->columns; j++)
      if (!is_right(o, t, i, j)) {
        snprintf(v->text, sizeof v->text,
                 "with terms=%ld, a_row=%ld, a_term=%ld, add=%d it computes "
                 "another c[%ld, %ld]",
                 t->terms, t->a_row, t->a_term, t->adds, i, j);
        return false;
      }
  if (is_unchanged_between_rows(o, t))
    return true;
  snprintf(v->text, sizeof v->text,
           "with terms=%ld it writes behind the columns of c", t->terms);
  return false;
}

static void check_all(MicroCheck *v, MicroFunction *function,
                      const MicroKernel *m) {
  static const long terms[] = {0, 1, 2, 3, 4, 7, 8, 33, 256, 257};
  Operands o = {.m = m, .random = 1};
  for (size_t k = 0; k < ARRAY_LEN(terms); k++)
    for (int bits = 0; bits < 16; bits++) {
      bool by_rows = bits & 1;
      long gap = bits & 2 ? 5 : 0;
      MicroCase t = {.terms = terms[k],
                     .a_row = by_rows ? terms[k] + gap : 1,
                     .a_term = by_rows ? 1 : (long)m->rows + gap,
                     .b_term = (long)m->columns + gap,
                     .c_row = (long)m->columns + gap,
                     .adds = bits & 4,
                     .at_end = bits & 8,
                     .has_nan = bits == 15};
      if (!check_case(v, function, &o, &t))
        return;
    }
  v->is_done = true;
}

static const char *describe_end(Arena *arena, const MicroCheck *v,
                                const MicroProcessEnd *end) {
  const MicroCase *t = &v->running;
  if (v->is_done)
    return NULL;
  if (*v->text)
    return arena_strndup(arena, v->text, strlen(v->text));
  int number = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
  if (end->was_killed)
    return micro_killed;
  if (end->timed_out)
    return arena_printf(arena, "with terms=%ld it does not end", t->terms);
  if (number == SIGSEGV || number == SIGBUS)
    return arena_printf(arena,
                        "with terms=%ld, a_row=%ld, a_term=%ld it accesses "
                        "memory outside of its operands, or needs them aligned",
                        t->terms, t->a_row, t->a_term);
  return arena_printf(arena, "with terms=%ld it ends the process", t->terms);
}

typedef struct CheckRun {
  MicroCheck *v;
  MicroFunction *function;
  const MicroKernel *m;
} CheckRun;

static void check_in_process(void *owner) {
  const CheckRun *r = owner;
  check_all(r->v, r->function, r->m);
}

static const char *run_checks(Arena *arena, MicroFunction *function,
                              const MicroKernel *m) {
  MicroCheck *v = micro_shared_memory(sizeof *v);
  if (!v)
    return "there is no memory to check it";
  MicroProcessEnd end;
  bool has_run = micro_process_run(MICRO_KERNEL_SECONDS, check_in_process,
                                   &(CheckRun){v, function, m}, &end);
  const char *refusal = has_run ? describe_end(arena, v, &end)
                                : "there is no process to check it";
  munmap(v, sizeof *v);
  return refusal;
}

/* ---- compiling ---- */

static const char *check_object(Arena *arena, const char *path,
                                const MicroKernel *m) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *function = library ? dlsym(library, "axn_micro_check") : NULL;
  const char *refusal =
      function ? run_checks(arena, (MicroFunction *)function, m)
               : arena_printf(arena, "it cannot be loaded: %.150s", dlerror());
  if (library)
    dlclose(library);
  return refusal;
}

static const char *compile_and_check(Arena *arena, const MicroKernel *m) {
  Buffer source = {.arena = arena};
  const char *why;
  char reason[200];
  if (!toolchain()->found)
    return "there is no C compiler";
  put_source(&source, m);
  CompileProcess *process =
      compile_process_start(toolchain(), COMPILE_OPTIMIZED, WITH_LIBRARIES,
                            source.text, source.len, &why);
  if (!process)
    return why;
  const char *refusal =
      compile_process_wait(process, reason, sizeof reason)
          ? check_object(arena, compile_process_object_path(process), m)
          : arena_printf(arena, "%s", reason);
  compile_process_free(process);
  return refusal;
}

/* ---- verdict ---- */

/* Change it if the check becomes stricter: verdicts of earlier ones are not
 * used. */
enum { CHECK_VERSION = 2 };

static const char *check(Arena *arena, const MicroKernel *m,
                         const void *owner) {
  (void)owner;
  return compile_and_check(arena, m);
}

const char *micro_kernel_refusal(Arena *arena, const MicroKernel *m) {
  const uint32_t version = CHECK_VERSION;
  const ArtifactPart parts[] = {{&toolchain()->key, sizeof(ArtifactKey)},
                                {&version, sizeof version}};
  return micro_verdict(arena, m, ARRAY_LEN(parts), parts, check, NULL);
}
