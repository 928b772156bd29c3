/* Schedules of GPU kernels as text. */
#include "backend/cuda/schedule_text.h"

#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/gemm_pass.h"
#include "backend/cuda/nest.h"
#include "backend/cuda/threads.h"
#include "plan/kernel_key.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static const char *const kind_names[CUDA_KERNEL_KINDS] = {
    [CUDA_ROW] = "rows", [CUDA_GEMM] = "gemm", [CUDA_ATTENTION] = "attention"};

/* ---- errors ---- */

static void refuse_at(KernelText *t, uint32_t at, const char *reason) {
  schedule_entry_fail(t->group, t->entry, at, reason);
  t->has_failed = true;
}

void kernel_text_refuse(KernelText *t, const PassText *pass,
                        const char *reason) {
  refuse_at(t, pass->at, reason);
}

/* ---- steps ---- */

/* Reports the first error in steps at a place of the entry. */
typedef struct StepsError {
  const char *reason; /* NULL: none */
  uint32_t at;        /* in the entry */
} StepsError;

static StepsError no_steps(const PassText *text, const char *reason) {
  return (StepsError){reason, text->at};
}

/* A wrong step is reported at its place, a wrong nest at the first step. */
static StepsError parse_steps(Nest *n, const StepsText *steps) {
  uint32_t at = 0;
  const char *reason = nest_parse_schedule(n, steps->text, &at);
  return (StepsError){reason, steps->at + at};
}

static StepsError apply_nest(const PassText *text, CudaPass *p,
                             const CudaTarget *target) {
  Nest *n = cuda_nest_new(p);
  const StepsText *steps = &text->steps.at[0];
  if (text->steps.len > 1 || steps->loop)
    return no_steps(text, "all loop nests of this pass run in the same loops: "
                          "write one line with the number of the pass");
  StepsError error = parse_steps(n, steps);
  if (!error.reason)
    error = (StepsError){cuda_nest_refusal(p, n, target), steps->at};
  if (!error.reason)
    cuda_nest_use(&p->s, n);
  return error;
}

/* The steps of a loop nest: its own, or those of all; NULL: none. */
static const StepsText *steps_of(const PassText *text, uint32_t loop) {
  const StepsText *found = NULL;
  for (uint32_t j = 0; j < text->steps.len; j++) {
    const StepsText *s = &text->steps.at[j];
    if (s->loop == loop || (!s->loop && !found))
      found = s;
  }
  return found;
}

/* An error in the steps of a loop nest. */
static StepsError loop_error(const PassText *text, uint32_t loop,
                             const char *reason) {
  return (StepsError){reason, reason ? steps_of(text, loop + 1)->at : 0};
}

/* Reads the nests of all loop nests. */
static StepsError read_nests(const PassText *text, CudaPass *p, Nest **nests,
                             const CudaTarget *target) {
  StepsError error = {NULL, 0};
  for (uint32_t j = 0; !error.reason && j < p->k->loops.len; j++) {
    const StepsText *steps = steps_of(text, j + 1);
    if (!steps)
      return no_steps(text, arena_printf(p->k->arena,
                                         "loop nest %u of this pass has no "
                                         "steps: it needs a line of its own, "
                                         "or one for all",
                                         j + 1));
    nests[j] = nest_new(p->k->arena, p->k->loops.at[j], p->k->axis_names);
    error = parse_steps(nests[j], steps);
  }
  for (uint32_t j = 0; !error.reason && j < text->steps.len; j++)
    if (text->steps.at[j].loop > p->k->loops.len)
      error = (StepsError){arena_printf(p->k->arena,
                                        "this pass has %u loop "
                                        "nest%s",
                                        p->k->loops.len,
                                        p->k->loops.len == 1 ? "" : "s"),
                           text->steps.at[j].at};
  if (error.reason)
    return error;
  uint32_t loop = 0;
  const char *reason = cuda_rows_use(p, nests, target, &loop);
  return loop_error(text, loop, reason);
}

/* Brings axes of points in an order. */
static void order_axes(Kernel *k, uint32_t count, const uint8_t *names) {
  for (uint32_t j = 0; j < count; j++) {
    uint32_t v = 0;
    while (k->axis_names[v] != names[j])
      v++;
    kernel_move_axis_last(k, v);
  }
}

/* Brings the points in the order in which their loop counts them. */
static void order_points(CudaPass *p, const Nest *n) {
  const NestFlattened *f = nest_flattened(n, p->s.rows[0].point_axis);
  uint8_t names[MAX_KERNEL_AXES];
  for (uint32_t j = 0; f && j < f->count; j++)
    names[j] = n->names[f->loops[j].axis];
  order_axes(p->whole, f ? f->count : 0, names);
}

static StepsError apply_rows(const PassText *text, CudaPass *p,
                             const CudaTarget *target) {
  p->k = p->whole;
  Nest **nests = NEW_ARRAY(p->k->arena, Nest *, p->k->loops.len);
  StepsError error = read_nests(text, p, nests, target);
  if (error.reason)
    return error;
  uint8_t names[MAX_KERNEL_AXES];
  memcpy(names, p->whole->axis_names, sizeof names);
  order_points(p, nests[0]);
  cuda_choose_kept_rows(p, target);
  error = read_nests(text, p, nests, target);
  uint32_t loop = 0;
  if (!error.reason) {
    const char *reason = cuda_rows_refusal(p, p->s.rows, &loop);
    error = loop_error(text, loop, reason);
  }
  if (error.reason)
    order_axes(p->whole, p->whole->parallel_axes, names);
  return error;
}

static StepsError apply_steps(const PassText *text, CudaPass *p,
                              const CudaTarget *target) {
  if (text->kind != CUDA_ROW)
    return p->s.kind == CUDA_NEST ? apply_nest(text, p, target)
                                  : apply_rows(text, p, target);
  if (p->s.kind != CUDA_ROW)
    return no_steps(text, "this pass has no sums: it has steps, such as "
                          "`tile i0 256`");
  return no_steps(text, *text->fields ? "rows have no fields: write steps in "
                                        "place of `by rows`, or leave out the "
                                        "fields, and Axon chooses the steps"
                                      : NULL);
}

bool pass_text_apply(KernelText *t, const PassText *text, CudaPass *p,
                     const CudaTarget *target) {
  StepsError error;
  if (text->kind == CUDA_GEMM || text->kind == CUDA_ATTENTION)
    error = no_steps(text,
                     arena_printf(t->arena, "this pass is no %s",
                                  text->kind == CUDA_GEMM ? "matrix product"
                                                          : "fused attention"));
  else
    error = apply_steps(text, p, target);
  if (error.reason)
    refuse_at(t, error.at, error.reason);
  return !error.reason;
}

/* ---- printing ---- */

/* One line, if all loop nests have the same steps; otherwise one for each. */
static void print_nests(Buffer *out, const CudaPass *p, uint32_t number) {
  uint32_t count = p->s.rows ? p->k->loops.len : 1;
  Buffer *steps = NEW_ARRAY(p->k->arena, Buffer, count);
  bool differ = false;
  for (uint32_t j = 0; j < count; j++) {
    steps[j].arena = p->k->arena;
    nest_print_schedule(&steps[j], p->s.nests[j], 0);
    buffer_puts(&steps[j], "\n");
    differ |= strcmp(steps[j].text, steps[0].text) != 0;
  }
  for (uint32_t j = 0; j < (differ ? count : 1); j++) {
    buffer_printf(out, "  %u", number);
    if (differ)
      buffer_printf(out, ".%u", j + 1);
    buffer_printf(out, ": %s", steps[j].text);
  }
}

static void print_pass(Buffer *out, const CudaPass *p, uint32_t number) {
  const GemmSchedule *gemm = p->s.gemm        ? &p->s.gemm->s
                             : p->s.attention ? &p->s.attention->s
                                              : NULL;
  if (!gemm) {
    print_nests(out, p, number);
    return;
  }
  buffer_printf(out, "  %u: by %s {", number, kind_names[p->s.kind]);
  gemm_schedule_print(out, gemm);
  buffer_puts(out, "}\n");
}

void kernel_text_print(Buffer *out, const FusionGroup *c, const CudaKernel *k,
                       const char *arch) {
  ArtifactKey key = kernel_schedule_key(c);
  buffer_printf(out, "kernel %016" PRIx64 " on %s\n", key.word[0], arch);
  for (uint32_t j = 0; j < k->passes.len; j++)
    print_pass(out, k->passes.at[j], j + 1);
}

/* ---- reading ---- */

typedef struct TextReader {
  Arena *arena;
  const char *text, *at, *token;
} TextReader;

static void skip_blanks(TextReader *r) {
  r->at += strspn(r->at, " \t\r\n;");
  r->token = r->at;
}

static bool take(TextReader *r, const char *word) {
  skip_blanks(r);
  size_t len = strlen(word);
  bool found = strncmp(r->at, word, len) == 0;
  r->at += found ? len : 0;
  return found;
}

/* Takes fields in braces; without braces there are none. */
static const char *take_fields(TextReader *r, const char **fields) {
  *fields = "";
  if (!take(r, "{"))
    return NULL;
  size_t len = strcspn(r->at, "{}");
  if (r->at[len] != '}')
    return "missing } after the fields";
  *fields = arena_strndup(r->arena, r->at, len);
  r->at += len + 1;
  return NULL;
}

static CudaKernelKind kind_named(const char *word, size_t len) {
  CudaKernelKind kind = 0;
  while (kind < CUDA_KERNEL_KINDS &&
         (!kind_names[kind] || strlen(kind_names[kind]) != len ||
          memcmp(kind_names[kind], word, len) != 0))
    kind++;
  return kind;
}

/* The length of the steps: they end before the number of the next pass. */
static size_t steps_length(const char *steps) {
  size_t len = strcspn(steps, ":");
  bool ends = !steps[len];
  while (!ends && len &&
         (isdigit((unsigned char)steps[len - 1]) || steps[len - 1] == '.'))
    len--;
  return len;
}

static uint32_t take_count(TextReader *r, uint32_t max) {
  uint32_t number = 0;
  while (isdigit((unsigned char)*r->at) && number <= max)
    number = number * 10 + (uint32_t)(*r->at++ - '0');
  return number;
}

static const char *read_routine(TextReader *r, PassText *pass) {
  skip_blanks(r);
  size_t len = strcspn(r->at, " \t\r\n{;");
  pass->kind = kind_named(r->at, len);
  if (pass->kind == CUDA_KERNEL_KINDS)
    return "a pass runs by rows, gemm or attention, or it has steps, such as "
           "`tile i0 256`";
  r->at += len;
  return take_fields(r, &pass->fields);
}

static bool has_line(const PassText *pass, uint32_t loop) {
  for (uint32_t j = 0; j < pass->steps.len; j++)
    if (pass->steps.at[j].loop == loop)
      return true;
  return pass->fields && !pass->steps.len;
}

static const char *read_pass(TextReader *r, KernelText *t) {
  uint32_t loop = 0;
  skip_blanks(r);
  const char *begin = r->at;
  uint32_t number = take_count(r, MAX_PASS_TEXTS);
  bool has_loop = *r->at == '.';
  if (has_loop) {
    r->at++;
    loop = take_count(r, MAX_KERNEL_LOOPS);
  }
  if (!number || number > MAX_PASS_TEXTS || has_loop != (loop > 0) ||
      loop > MAX_KERNEL_LOOPS || *r->at++ != ':')
    return "expected a pass, such as `1: tile i0 256`, or a loop nest of a "
           "pass, such as `1.2:`";
  PassText *pass = &t->passes[number - 1];
  if (has_line(pass, loop))
    return "this pass has a line already";
  t->count = number > t->count ? number : t->count;
  if (!pass->fields)
    pass->at = (uint32_t)(begin - r->text);
  if (take(r, "by "))
    return pass->fields ? "this pass has a line already"
           : has_loop   ? "a routine runs all loop nests of a pass: write `1: "
                          "by` and its name"
                        : read_routine(r, pass);
  size_t len = steps_length(r->at);
  StepsText steps = {.loop = loop,
                     .at = (uint32_t)((len ? r->at : begin) - r->text),
                     .text = arena_strndup(r->arena, r->at, len)};
  VEC_PUSH(r->arena, pass->steps, steps);
  pass->kind = CUDA_NEST;
  pass->fields = "";
  r->at += len;
  return NULL;
}

KernelText *kernel_text_find(Arena *arena, const FusionGroup *c,
                             const char *arch) {
  ScheduleEntry *e = arch ? schedule_find(c, arch) : NULL;
  if (!e)
    return NULL;
  KernelText *t = NEW(arena, KernelText);
  *t = (KernelText){.arena = arena, .group = c, .entry = e};
  TextReader r = {.arena = arena, .text = e->text, .at = e->text};
  for (skip_blanks(&r); *r.at; skip_blanks(&r)) {
    const char *error = read_pass(&r, t);
    if (error) {
      schedule_entry_fail(c, e, (uint32_t)(r.token - r.text), error);
      return NULL;
    }
  }
  return t;
}

const PassText *kernel_text_pass(const KernelText *t, uint32_t at) {
  return t && at < t->count && t->passes[at].fields ? &t->passes[at] : NULL;
}

const PassText *kernel_text_kind(const KernelText *t, CudaKernelKind kind) {
  for (uint32_t j = 0; t && j < t->count; j++)
    if (t->passes[j].fields && t->passes[j].kind == kind)
      return &t->passes[j];
  return NULL;
}

void kernel_text_finish(KernelText *t, uint32_t passes) {
  if (t->count > passes && t->passes[t->count - 1].fields)
    kernel_text_refuse(t, &t->passes[t->count - 1],
                       arena_printf(t->arena, "the kernel has %u pass%s",
                                    passes, passes == 1 ? "" : "es"));
  if (!t->has_failed)
    schedule_entry_report(t->entry, NULL);
}

/* ---- checks of the file ---- */

const char *rule_fields(const ScheduleEntry *e, Arena *arena) {
  TextReader r = {.arena = arena, .text = e->text, .at = e->text};
  const char *fields, *error = take_fields(&r, &fields);
  skip_blanks(&r);
  return error || *r.at ? NULL : fields;
}

static const char *check_entry(const ScheduleEntry *e, Arena *arena) {
  GpuSpec gpu;
  GemmSchedule ignored = {0};
  Buffer why = {.arena = arena};
  const char *same_number = cuda_arch_of_number(e->arch);
  if (*e->arch && same_number && strcmp(same_number, e->arch) != 0)
    return arena_printf(arena,
                        "`%s` is not an architecture; did you mean `%s`?",
                        e->arch, same_number);
  if (*e->arch && strcmp(e->arch, "*") != 0 && !gpu_spec(e->arch, &gpu))
    return arena_printf(arena, "`%s` is not an architecture", e->arch);
  if (e->kind == SCHEDULE_KERNEL)
    return NULL;
  const char *fields = rule_fields(e, arena), *micro;
  if (!fields)
    return "expected fields in braces, such as {m=128 n=256 stages=4}";
  if (e->kind == SCHEDULE_GEMM) {
    static const MicroKernel named;
    fields = gemm_schedule_take_micro(arena, fields, &micro);
    ignored.micro = micro ? &named : NULL;
  }
  return gemm_schedule_parse(&ignored, fields, &why) ? NULL : why.text;
}

bool cuda_schedules_check(Fault *fault) {
  static bool is_checked; /* under the lock of the device */
  if (!schedule_check_env(fault))
    return false;
  if (is_checked)
    return true;
  Arena *arena = arena_new();
  const char *error = NULL;
  for (uint32_t j = 0; !error && j < schedule_file_count(); j++) {
    error = check_entry(schedule_file_entry(j), arena);
    if (error)
      schedule_entry_fault(schedule_file_entry(j), error, fault);
  }
  arena_free(arena);
  is_checked = !error;
  return !error;
}
