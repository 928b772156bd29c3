/* Schedules from a file, and those that a program declares. */
#include "plan/schedule_file.h"

#include "plan/kernel_key.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/file_open.h"
#include "support/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 4 << 20 };

static struct {
  pthread_mutex_t lock; /* protects messages */
  pthread_once_t once;
  const char *path;
  Buffer text; /* comments are blanks */
  uint32_t count;
  ScheduleEntry *entries;
  bool is_invalid;    /* the file of the environment has an error */
  bool has_failed;    /* a schedule could not be applied */
  Fault fault;        /* of the first error */
  bool plans_for_gpu; /* kernels for a GPU were looked up */
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* ---- reading ---- */

/* Advances a place by the first `len` bytes of the text. */
static void advance(const char *text, size_t len, uint32_t *line,
                    uint32_t *column) {
  for (size_t j = 0; j < len; j++) {
    *column = text[j] == '\n' ? 1 : *column + 1;
    *line += text[j] == '\n';
  }
}

/* e: NULL for a schedule without a place. */
static void set_fault(Fault *fault, const ScheduleEntry *e, uint32_t at,
                      const char *error) {
  uint32_t line = e ? e->line : 1, column = e ? e->column : 1;
  if (e)
    advance(e->text, at, &line, &column);
  fault_set(fault, "%.200s:%u:%u: %.250s", e ? e->path : "schedule", line,
            column, error);
  fault->kind = FAULT_SCHEDULE;
}

size_t schedule_blank_comments(char *text) {
  size_t begin = 0;
  uint32_t depth = 0;
  for (char *p = text; *p; p++) {
    bool opens = p[0] == '(' && p[1] == '*',
         closes = depth && p[0] == '*' && p[1] == ')';
    begin = opens && !depth ? (size_t)(p - text) : begin;
    depth += opens;
    if (depth && *p != '\n')
      *p = ' ';
    if (opens || closes)
      *++p = ' ';
    depth -= closes;
  }
  return depth ? begin : SIZE_MAX;
}

void schedule_put_comment(Buffer *out, const char *text) {
  for (const char *p = text; *p; p++) {
    buffer_putc(out, *p);
    if ((p[0] == '(' && p[1] == '*') || (p[0] == '*' && p[1] == ')'))
      buffer_putc(out, ' ');
  }
}

static const struct {
  const char *word;
  ScheduleEntryKind kind;
} words[] = {{"kernel", SCHEDULE_KERNEL},
             {"gemm", SCHEDULE_GEMM},
             {"attention", SCHEDULE_ATTENTION}};

/* The length of the word that begins an entry at p, or 0. */
static size_t entry_word(const char *p, ScheduleEntryKind *kind) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++) {
    size_t len = strlen(words[j].word);
    if (strncmp(p, words[j].word, len) == 0 && isspace((unsigned char)p[len])) {
      *kind = words[j].kind;
      return len;
    }
  }
  return 0;
}

/* Finds the next entry: its word is the first one of a line. */
static char *find_entry(char *from) {
  ScheduleEntryKind kind;
  for (char *p = from; *p; p++) {
    bool begins = p == file.text.text || p[-1] == '\n';
    char *word = p + (begins ? strspn(p, " \t\r") : 0);
    if (begins && entry_word(word, &kind))
      return word;
  }
  return NULL;
}

/* Reads a word and the blanks before it. */
static const char *next_word(char **at, char *word, size_t size) {
  *at += strspn(*at, " \t");
  size_t len = strcspn(*at, " \t\r\n{");
  snprintf(word, size, "%.*s", (int)len, *at);
  *at += len;
  return word;
}

static const char *read_key(char **at, ScheduleEntry *e) {
  int end = 0;
  char word[16];
  if (sscanf(*at, " %16" SCNx64 "%n", &e->key, &end) != 1 ||
      !isspace((unsigned char)(*at)[end]))
    return "expected `kernel` and its number, such as 5b1d0c2f9a3e4471; `axon "
           "plan --schedule` prints it";
  *at += end;
  char *after = *at;
  if (strcmp(next_word(&after, word, sizeof word), "on") == 0) {
    next_word(&after, word, sizeof word);
    snprintf(e->arch, sizeof e->arch, "%s",
             strcmp(word, "cuda") == 0 ? "*" : word);
    *at = after;
  }
  for (uint32_t j = 0; j < file.count; j++)
    if (file.entries[j].kind == SCHEDULE_KERNEL &&
        file.entries[j].key == e->key &&
        strcmp(file.entries[j].arch, e->arch) == 0)
      return "this kernel has a schedule already";
  return NULL;
}

static bool read_dtype(const char *word, Dtype *to) {
  static const Dtype types[] = {DT_F16,     DT_BF16,    DT_F32,    DT_F64,
                                DT_F8_E4M3, DT_F8_E5M2, DT_F4_E2M1};
  *to = DT_NONE;
  for (size_t j = 0; j < ARRAY_LEN(types); j++)
    if (strcmp(word, dtype_info[types[j]].name) == 0)
      *to = types[j];
  return *to != DT_NONE || strcmp(word, "*") == 0;
}

static bool read_sizes(const char *word, double *sizes) {
  for (int j = 0; j < 3; j++) {
    char *end = (char *)(uintptr_t)word + 1;
    if (*word == '*')
      sizes[j] = -1;
    else if (isdigit((unsigned char)*word))
      sizes[j] = (double)strtoll(word, &end, 10);
    else
      return false;
    if (*end != (j < 2 ? 'x' : 0))
      return false;
    word = end + 1;
  }
  return true;
}

static const char *read_rule(char **at, ScheduleEntry *e) {
  char word[64];
  next_word(at, e->arch, sizeof e->arch);
  if (!read_dtype(next_word(at, word, sizeof word), &e->dtype))
    return "expected the type of the operands: f16, bf16, f32, f64, f8_e4m3, "
           "f8_e5m2, f4_e2m1 or *";
  if (!read_sizes(next_word(at, word, sizeof word), e->sizes))
    return "expected ROWSxCOLUMNSxTERMS, such as 4096x4096x*";
  return NULL;
}

static const char *read_entry(char *at, ScheduleEntry *e) {
  at += entry_word(at, &e->kind);
  const char *error =
      e->kind == SCHEDULE_KERNEL ? read_key(&at, e) : read_rule(&at, e);
  e->text = at;
  e->path = file.path;
  e->line = e->column = 1;
  advance(file.text.text, (size_t)(at - file.text.text), &e->line, &e->column);
  return error;
}

/* An error at a position of the file. */
static bool fail_reading(Fault *fault, size_t at, const char *error) {
  const ScheduleEntry whole = {
      .path = file.path, .text = file.text.text, .line = 1, .column = 1};
  set_fault(fault, &whole, (uint32_t)at, error);
  return false;
}

static bool read_entries(Fault *fault) {
  char *text = file.text.text;
  size_t open = schedule_blank_comments(text);
  if (open != SIZE_MAX)
    return fail_reading(fault, open, "this comment has no end: write *)");
  char *at = find_entry(text);
  size_t blanks = strspn(text, " \t\r\n");
  if (text[blanks] && text + blanks != at)
    return fail_reading(fault, blanks,
                        "expected `kernel`, `gemm` or `attention`");
  while (at) {
    ScheduleEntry e = {0};
    const char *error = read_entry(at, &e);
    if (error)
      return fail_reading(fault, (size_t)(at - text), error);
    file.entries = mem_realloc(file.entries, file.count * sizeof e,
                               (file.count + 1) * sizeof e);
    file.entries[file.count++] = e;
    at = find_entry((char *)(uintptr_t)e.text);
  }
  for (uint32_t j = 1; j < file.count; j++) /* ends of the texts */
    find_entry((char *)(uintptr_t)file.entries[j - 1].text)[0] = 0;
  return true;
}

bool schedule_file_read(const char *path, Fault *fault) {
  char part[4096];
  if (file.path) {
    fault_set(fault, "`--schedules` was given twice: put the schedules into "
                     "one file");
    fault->kind = FAULT_SCHEDULE;
    return false;
  }
  file.path = path;
  errno = 0;
  int fd = file_open_stream(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
  for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0 &&
                 file.text.len < MAX_FILE_BYTES;)
    buffer_add(&file.text, part, n);
  int error = !f || ferror(f) ? errno : 0;
  if (f)
    fclose(f);
  if (error) {
    fault_set(fault, "cannot read \"%.200s\": %s", path,
              file_open_error(error));
    fault->kind = FAULT_FILE;
    return false;
  }
  buffer_puts(&file.text, "");
  if (file.text.len >= MAX_FILE_BYTES ||
      strlen(file.text.text) < file.text.len) {
    fault_set(fault, "\"%.200s\" is no text, or has more than %d bytes", path,
              MAX_FILE_BYTES);
    fault->kind = FAULT_SCHEDULE;
    return false;
  }
  return read_entries(fault);
}

/* ---- errors ---- */

static void read_environment(void) {
  const char *path = getenv("AXON_SCHEDULES");
  if (!file.path && path && *path)
    file.is_invalid = !schedule_file_read(path, &file.fault);
}

bool schedule_check_env(Fault *fault) {
  pthread_once(&file.once, read_environment);
  if (file.is_invalid)
    *fault = file.fault;
  return !file.is_invalid;
}

static bool table_has_failed(const ScheduleTable *t) {
  return t && __atomic_load_n(&t->has_failed, __ATOMIC_ACQUIRE);
}

bool schedule_has_failed(const Graph *g) {
  return __atomic_load_n(&file.has_failed, __ATOMIC_ACQUIRE) ||
         table_has_failed(g ? g->schedules : NULL);
}

bool schedule_check(const Graph *g, Span *where, Fault *fault) {
  ScheduleTable *t = g ? g->schedules : NULL;
  if (!schedule_check_env(fault))
    return false;
  if (!schedule_has_failed(g))
    return true;
  pthread_mutex_lock(&file.lock);
  bool is_of_file = file.has_failed,
       is_of_table = !is_of_file && table_has_failed(t);
  if (is_of_file)
    *fault = file.fault;
  else if (is_of_table)
    *fault = t->fault, *where = t->where;
  if (is_of_file || is_of_table)
    __atomic_store_n(is_of_file ? &file.has_failed : &t->has_failed, false,
                     __ATOMIC_RELAXED);
  pthread_mutex_unlock(&file.lock);
  return !is_of_file && !is_of_table;
}

void schedule_entry_fault(const ScheduleEntry *e, const char *error,
                          Fault *fault) {
  set_fault(fault, e, 0, error);
}

void schedule_entry_fail(const FusionGroup *c, const ScheduleEntry *e,
                         uint32_t at, const char *error) {
  bool is_declared = e && e->kind == SCHEDULE_DECLARED;
  ScheduleTable *t = is_declared ? c->kernel->graph->schedules : NULL;
  pthread_mutex_lock(&file.lock);
  bool *has_failed = t ? &t->has_failed : &file.has_failed;
  if (!*has_failed && t) {
    uint32_t start = e->text_span.start + at;
    t->where = (Span){e->text_span.file, start,
                      start + (uint32_t)strcspn(e->text + at, ";\n")};
    fault_set(&t->fault, "%.400s", error);
    t->fault.kind = FAULT_SCHEDULE;
  } else if (!*has_failed) {
    set_fault(&file.fault, e, at, error);
  }
  __atomic_store_n(has_failed, true, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&file.lock);
}

void schedule_entry_report(ScheduleEntry *e, const char *refusal) {
  if (!e)
    return;
  if (!refusal)
    __atomic_store_n(&e->is_used, true, __ATOMIC_RELAXED);
  pthread_mutex_lock(&file.lock);
  if (refusal)
    snprintf(e->refusal, sizeof e->refusal, "%s", refusal);
  pthread_mutex_unlock(&file.lock);
}

static bool is_storage(const ScheduleEntry *e) {
  return e->kind == SCHEDULE_STORE || e->kind == SCHEDULE_CUT;
}

static bool plans_for_gpu(void) {
  return __atomic_load_n(&file.plans_for_gpu, __ATOMIC_RELAXED);
}

static bool is_declared_for_cpu(const ScheduleEntry *e) {
  return e->kind == SCHEDULE_DECLARED && !*e->arch;
}

static void put_unused(Buffer *out, const ScheduleEntry *e) {
  Fault where = {0};
  set_fault(&where, e, 0,
            *e->refusal ? e->refusal
            : is_declared_for_cpu(e) && plans_for_gpu()
                ? "it is for the CPU: for GPUs, write `on cuda` after the "
                  "expression"
            : e->kind == SCHEDULE_DECLARED
                ? "no compiled kernel stores the value of its expression"
            : is_storage(e)
                ? "the value of its expression is not computed"
                : "no kernel has this architecture, type and sizes");
  buffer_printf(out, "axon: a schedule was not used: %s\n", where.message);
}

/* Schedules for GPUs count only if kernels for GPUs were planned. */
static bool is_unused(const ScheduleEntry *e) {
  return !__atomic_load_n(&e->is_used, __ATOMIC_RELAXED) &&
         (!*e->arch || plans_for_gpu());
}

/* Returns true if the entry is for the CPU, and the program has another one for
 * GPUs, which run the kernel. */
static bool is_for_other_target(const ScheduleTable *t,
                                const ScheduleEntry *e) {
  bool has_gpu = false;
  for (uint32_t j = 0; j < t->entries.len; j++) {
    const ScheduleEntry *x = t->entries.at[j];
    has_gpu |= *x->arch && x->span.file == e->span.file &&
               x->span.start == e->span.start && x->span.end == e->span.end;
  }
  return is_declared_for_cpu(e) && plans_for_gpu() && has_gpu;
}

/* True if the text has micro=NAME. */
static bool names_micro_kernel(const char *text, const char *name) {
  static const char key[] = "micro=";
  size_t len = strlen(name);
  while (text && (text = strstr(text, key))) {
    text += strlen(key);
    if (strncmp(text, name, len) == 0 && !is_c_identifier_char(text[len]))
      return true;
  }
  return false;
}

static bool is_micro_kernel_used(const ScheduleTable *t, const char *name) {
  bool used = false;
  for (uint32_t j = 0; j < t->entries.len; j++)
    used |= names_micro_kernel(t->entries.at[j]->text, name);
  for (uint32_t j = 0; j < file.count; j++)
    used |= names_micro_kernel(file.entries[j].text, name);
  return used;
}

static void put_unused_micro_kernels(const ScheduleTable *t, Buffer *out) {
  for (uint32_t j = 0; j < t->micro_kernels.len; j++) {
    const MicroKernel *m = t->micro_kernels.at[j];
    if (!is_micro_kernel_used(t, m->name))
      buffer_printf(out,
                    "axon: a micro-kernel was not used: %s:%u: write `by gemm "
                    "{micro=%s}` in a schedule\n",
                    m->path, m->first_line, m->name);
  }
}

void schedule_put_unused(const Graph *g, Buffer *out) {
  const ScheduleTable *t = g->schedules;
  for (uint32_t j = 0; t && j < t->entries.len; j++)
    if (is_unused(t->entries.at[j]) &&
        !is_for_other_target(t, t->entries.at[j]))
      put_unused(out, t->entries.at[j]);
  if (t)
    put_unused_micro_kernels(t, out);
}

void schedule_file_put_unused(Buffer *out) {
  uint32_t count = 0;
  const ScheduleEntry *first = NULL;
  for (uint32_t j = 0; j < file.count; j++) {
    const ScheduleEntry *e = &file.entries[j];
    if (!is_unused(e))
      continue;
    if (e->kind != SCHEDULE_KERNEL)
      put_unused(out, e);
    else if (count++ == 0)
      first = e;
  }
  if (!count)
    return;
  buffer_printf(out,
                "axon: a schedule was not used: %.200s:%u:%u: no kernel of "
                "this run has the number %016" PRIx64,
                first->path, first->line, first->column, first->key);
  if (count > 1)
    buffer_printf(out, ", nor %s of %u other%s", count > 2 ? "those" : "that",
                  count - 1, count > 2 ? "s" : "");
  buffer_puts(out, "\n");
}

/* ---- use ---- */

uint32_t schedule_file_count(void) {
  return file.count;
}

const ScheduleEntry *schedule_file_entry(uint32_t at) {
  return &file.entries[at];
}

/* arch: NULL for the CPU. */
static bool matches_arch(const ScheduleEntry *e, const char *arch) {
  return arch ? strcmp(e->arch, "*") == 0 || strcmp(e->arch, arch) == 0
              : !*e->arch;
}

static bool has_span(const Node *n, Span span) {
  return n->span.file == span.file && n->span.start == span.start &&
         n->span.end == span.end && !n->reverse_of;
}

static ScheduleTable *declared_schedules(Graph *g, Arena *arena) {
  if (!g->schedules) {
    g->schedules = NEW(arena, ScheduleTable);
    *g->schedules = (ScheduleTable){0};
  }
  g->schedules->has_failed = false;
  return g->schedules;
}

void schedule_declare(Graph *g, Arena *arena, ScheduleEntry *e) {
  VEC_PUSH(arena, declared_schedules(g, arena)->entries, e);
}

void schedule_declare_micro_kernel(Graph *g, Arena *arena,
                                   const MicroKernel *m) {
  VEC_PUSH(arena, declared_schedules(g, arena)->micro_kernels, m);
}

const MicroKernel *schedule_micro_kernel(const Graph *g, const char *name) {
  const ScheduleTable *t = g->schedules;
  for (uint32_t j = t ? t->micro_kernels.len : 0; j-- > 0;)
    if (strcmp(t->micro_kernels.at[j]->name, name) == 0)
      return t->micro_kernels.at[j];
  return NULL;
}

/* The last entry of a node, of its kernel or of its storage; or NULL. */
static ScheduleEntry *last_entry(const ScheduleTable *t, const Node *n,
                                 bool of_storage) {
  for (uint32_t j = t ? t->entries.len : 0; j-- > 0;)
    if (is_storage(t->entries.at[j]) == of_storage &&
        has_span(n, t->entries.at[j]->span))
      return t->entries.at[j];
  return NULL;
}

ScheduleEntry *schedule_find_storage(const Graph *g, const Node *n) {
  return last_entry(g->schedules, n, true);
}

uint32_t schedule_number(const Graph *g, const Node *n) {
  const ScheduleTable *t = g->schedules;
  uint32_t number = t ? t->entries.len : 0;
  while (number && !has_span(n, t->entries.at[number - 1]->span))
    number--;
  return t ? number + t->micro_kernels.len * (t->entries.len + 1) : 0;
}

void schedule_put_declared(const Graph *g, const Node *n, Buffer *out) {
  const ScheduleTable *t = g->schedules;
  const ScheduleEntry *e = last_entry(t, n, false);
  if (e)
    buffer_puts(out, e->text);
  buffer_putc(out, 0);
  for (uint32_t j = 0; t && j < t->micro_kernels.len; j++) {
    buffer_puts(out, t->micro_kernels.at[j]->name);
    buffer_puts(out, t->micro_kernels.at[j]->text);
    buffer_putc(out, 0);
  }
}

static ScheduleEntry *find_declared(const FusionGroup *c, const char *arch) {
  const ScheduleTable *t = c->kernel->graph->schedules;
  for (uint32_t j = t ? t->entries.len : 0; j-- > 0;) {
    ScheduleEntry *e = t->entries.at[j];
    for (uint32_t i = 0; i < c->nodes.len && !is_storage(e); i++)
      if (has_span(c->nodes.at[i], e->span) &&
          fusion_group_stores(c, c->nodes.at[i]) && matches_arch(e, arch))
        return e;
  }
  return NULL;
}

ScheduleEntry *schedule_find(const FusionGroup *c, const char *arch) {
  ArtifactKey key = {{0}};
  pthread_once(&file.once, read_environment);
  if (arch)
    __atomic_store_n(&file.plans_for_gpu, true, __ATOMIC_RELAXED);
  ScheduleEntry *declared = find_declared(c, arch);
  if (file.count && !declared)
    key = kernel_schedule_key(c);
  for (uint32_t j = 0; !declared && j < file.count; j++) {
    ScheduleEntry *e = &file.entries[j];
    if (e->kind == SCHEDULE_KERNEL && e->key == key.word[0] &&
        matches_arch(e, arch))
      return e;
  }
  return declared;
}

bool schedule_is_declared(const FusionGroup *c, const char *arch) {
  return find_declared(c, arch) != NULL;
}

static bool matches_sizes(const ScheduleEntry *e, double m, double n,
                          double k) {
  const double sizes[] = {m, n, k};
  for (int j = 0; j < 3; j++)
    if (e->sizes[j] >= 0 && fabs(e->sizes[j] - sizes[j]) >= 0.5)
      return false;
  return true;
}

ScheduleEntry *schedule_file_find_rule(ScheduleEntryKind kind, const char *arch,
                                       Dtype dtype, double m, double n,
                                       double k) {
  pthread_once(&file.once, read_environment);
  for (uint32_t j = 0; j < file.count; j++) {
    ScheduleEntry *e = &file.entries[j];
    if (e->kind == kind && matches_arch(e, arch) &&
        (e->dtype == DT_NONE || e->dtype == dtype) && matches_sizes(e, m, n, k))
      return e;
  }
  return NULL;
}
