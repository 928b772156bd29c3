/* Schedules of GPU kernels as text. */
#include "backend/cuda/schedule_text.h"

#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/gemm_pass.h"
#include "backend/cuda/nest.h"
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

/* ---- fields of rows ---- */

typedef enum FieldName {
  FIELD_THREADS,
  FIELD_GROUP,
  FIELD_ACROSS,
  FIELD_VECTOR,
  FIELD_REGISTERS,
  FIELD_CHUNK,
  FIELD_LAST, /* an axis */
  FIELD_COUNT
} FieldName;

static const char *const field_keys[FIELD_COUNT] = {
    [FIELD_THREADS] = "threads",     [FIELD_GROUP] = "group",
    [FIELD_ACROSS] = "across",       [FIELD_VECTOR] = "vector",
    [FIELD_REGISTERS] = "registers", [FIELD_CHUNK] = "chunk",
    [FIELD_LAST] = "last",
};

typedef int64_t FieldValues[FIELD_COUNT]; /* of an axis: its name, or -1 */

static void get_fields(const CudaPass *p, FieldValues values) {
  const CudaSchedule *s = &p->s;
  const Kernel *k = p->k;
  values[FIELD_THREADS] = s->block_threads;
  values[FIELD_GROUP] = s->group_threads;
  values[FIELD_ACROSS] = s->coalesce_outer;
  values[FIELD_VECTOR] = s->vector_width;
  values[FIELD_REGISTERS] = s->vectors_in_registers;
  values[FIELD_CHUNK] = s->reduction_chunk;
  values[FIELD_LAST] =
      k->parallel_axes > 1 ? k->axis_names[k->parallel_axes - 1] : -1;
}

static uint32_t axis_named(const Kernel *k, int64_t name) {
  for (uint32_t v = 0; v < k->parallel_axes; v++)
    if (k->axis_names[v] == name)
      return v;
  return NO_AXIS;
}

static void set_fields(CudaPass *p, const FieldValues values) {
  CudaSchedule *s = &p->s;
  s->block_threads = (uint32_t)values[FIELD_THREADS];
  s->group_threads = (uint32_t)values[FIELD_GROUP];
  s->coalesce_outer = values[FIELD_ACROSS] != 0;
  s->vector_width = (uint32_t)values[FIELD_VECTOR];
  s->vectors_in_registers = (uint32_t)values[FIELD_REGISTERS];
  s->reduction_chunk = values[FIELD_CHUNK];
  if (values[FIELD_LAST] >= 0)
    kernel_move_axis_last(p->k, axis_named(p->k, values[FIELD_LAST]));
}

static void print_fields(Buffer *out, const CudaPass *p) {
  FieldValues values;
  const char *separator = "";
  get_fields(p, values);
  for (int j = 0; j < FIELD_COUNT; j++) {
    bool is_axis = j == FIELD_LAST;
    if (is_axis ? values[j] < 0 : values[j] == 0)
      continue;
    buffer_printf(out, "%s%s=%s%" PRId64, separator, field_keys[j],
                  is_axis ? "i" : "", values[j]);
    separator = " ";
  }
}

/* Reads `key=value`.  Returns NULL, or an error. */
static const char *read_field(const char *text, size_t len, const CudaPass *p,
                              FieldValues values, bool *is_set, Arena *arena) {
  size_t name = strcspn(text, "= \t\r\n");
  int j = 0;
  while (j < FIELD_COUNT && (strlen(field_keys[j]) != name ||
                             memcmp(field_keys[j], text, name) != 0))
    j++;
  if (j == FIELD_COUNT)
    return arena_printf(arena, "%.*s is not a field of rows", (int)name, text);
  if (is_set[j])
    return arena_printf(arena, "%s is set twice", field_keys[j]);
  is_set[j] = true;
  const char *value = text + name + (name < len), *end = text + len;
  bool is_axis = j == FIELD_LAST;
  int64_t number = 0;
  value += is_axis && *value == 'i';
  bool has_digits = value < end;
  for (; value < end && isdigit((unsigned char)*value) && number < INT32_MAX;
       value++)
    number = number * 10 + (*value - '0');
  if (!has_digits || value < end || number > INT32_MAX ||
      (is_axis && axis_named(p->k, number) == NO_AXIS))
    return arena_printf(arena, "%.*s: invalid value of %s", (int)len, text,
                        field_keys[j]);
  values[j] = number;
  return NULL;
}

static const char *apply_fields(const PassText *text, CudaPass *p,
                                Arena *arena) {
  FieldValues values;
  bool is_set[FIELD_COUNT] = {false};
  get_fields(p, values);
  for (const char *at = text->fields; *(at += strspn(at, " \t\r\n"));) {
    size_t len = strcspn(at, " \t\r\n");
    const char *error = read_field(at, len, p, values, is_set, arena);
    if (error)
      return error;
    at += len;
  }
  set_fields(p, values);
  return cuda_schedule_refusal(p);
}

/* ---- steps ---- */

static const char *apply_steps(const PassText *text, CudaPass *p,
                               const CudaTarget *target, uint32_t *at) {
  Nest *n = cuda_nest_new(p);
  const char *error = nest_parse_schedule(n, text->fields, at);
  if (!error) {
    *at = 0;
    error = cuda_nest_refusal(p, n, target);
  }
  if (!error)
    cuda_nest_use(&p->s, n);
  return error;
}

bool pass_text_apply(KernelText *t, const PassText *text, CudaPass *p,
                     const CudaTarget *target) {
  const char *error = NULL;
  uint32_t at = 0;
  bool has_steps = text->kind == CUDA_NEST;
  if (text->kind != p->s.kind)
    error = p->s.kind == CUDA_NEST
                ? "this pass has no sums: it has steps, such as `tile i0 256`"
                : arena_printf(t->arena, "this pass runs `by %s`",
                               kind_names[p->s.kind]);
  else
    error = has_steps ? apply_steps(text, p, target, &at)
                      : apply_fields(text, p, t->arena);
  if (error)
    refuse_at(t, has_steps ? text->steps_at + at : text->at, error);
  return !error;
}

/* ---- printing ---- */

static void print_pass(Buffer *out, const CudaPass *p, uint32_t number) {
  const GemmSchedule *gemm = p->s.gemm        ? &p->s.gemm->s
                             : p->s.attention ? &p->s.attention->s
                                              : NULL;
  buffer_printf(out, "  %u: ", number);
  if (p->s.kind == CUDA_NEST) {
    nest_print_schedule(out, p->s.nest, 0);
    buffer_puts(out, "\n");
    return;
  }
  buffer_printf(out, "by %s {", kind_names[p->s.kind]);
  if (gemm)
    gemm_schedule_print(out, gemm);
  else
    print_fields(out, p);
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
  while (!ends && len && isdigit((unsigned char)steps[len - 1]))
    len--;
  return len;
}

static const char *read_pass(TextReader *r, KernelText *t) {
  uint32_t number = 0;
  skip_blanks(r);
  const char *begin = r->at;
  while (isdigit((unsigned char)*r->at) && number <= MAX_PASS_TEXTS)
    number = number * 10 + (uint32_t)(*r->at++ - '0');
  if (!number || number > MAX_PASS_TEXTS || *r->at++ != ':')
    return "expected a pass, such as `1: by rows {threads=256}`";
  PassText *pass = &t->passes[number - 1];
  if (pass->fields)
    return "this pass has a line already";
  const char *error = NULL;
  pass->at = (uint32_t)(begin - r->text);
  if (take(r, "by ")) {
    skip_blanks(r);
    size_t len = strcspn(r->at, " \t\r\n{;");
    pass->kind = kind_named(r->at, len);
    if (pass->kind == CUDA_KERNEL_KINDS)
      return "a pass runs by rows, gemm or attention, or it has steps, such as "
             "`tile i0 256`";
    r->at += len;
    error = take_fields(r, &pass->fields);
  } else {
    size_t len = steps_length(r->at);
    pass->kind = CUDA_NEST;
    pass->steps_at = len ? (uint32_t)(r->at - r->text) : pass->at;
    pass->fields = arena_strndup(r->arena, r->at, len);
    r->at += len;
  }
  t->count = number > t->count ? number : t->count;
  return error;
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
  if (e->kind == SCHEDULE_GEMM)
    fields = gemm_schedule_take_micro(arena, fields, &micro);
  return gemm_schedule_parse(&ignored, fields, &why) ? NULL : why.text;
}

bool cuda_schedules_check(Fault *fault) {
  static bool is_checked; /* under the lock of the device */
  if (!schedule_check(NULL, NULL, fault))
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
