/* Schedules from a file.  The file is read once, at the first use of CUDA. */
#include "backend/cuda/schedule_override.h"

#include "backend/cuda/cuda.h"
#include "support/buffer.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE_BYTES = 400, MAX_LINES = 256 };

static struct {
  pthread_once_t once;
  bool good;
  Fault fault;
  const char *path;
  uint32_t count;
  OverrideLine lines[MAX_LINES];
  pthread_mutex_t lock; /* protects the messages of lines */
} file = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- parser ---- */

static char *next_word(char **at) {
  char *word = *at + strspn(*at, " \t");
  *at = word + strcspn(word, " \t");
  if (**at)
    *(*at)++ = 0;
  return word;
}

static bool read_dtype(const char *word, Dtype *to) {
  static const Dtype types[] = {DT_F16, DT_BF16, DT_F32, DT_F64};
  *to = DT_NONE;
  if (strcmp(word, "*") == 0)
    return true;
  for (size_t j = 0; j < ARRAY_LEN(types); j++)
    if (strcmp(word, dtype_info[types[j]].name) == 0)
      *to = types[j];
  return *to != DT_NONE;
}

static bool read_sizes(const char *word, OverrideLine *to) {
  double *sizes[] = {&to->m, &to->n, &to->k};
  for (int j = 0; j < 3; j++) {
    char *end = (char *)(uintptr_t)word + 1;
    if (*word == '*')
      *sizes[j] = -1;
    else if (*word >= '0' && *word <= '9')
      *sizes[j] = (double)strtoll(word, &end, 10);
    else
      return false;
    if (*end != (j < 2 ? 'x' : 0))
      return false;
    word = end + 1;
  }
  return true;
}

bool override_read_line(char *text, OverrideLine *to, Buffer *why) {
  GemmSchedule ignored = {0};
  char *colon = strchr(text, ':');
  *to = (OverrideLine){.schedule = ""};
  if (!colon) {
    buffer_puts(why, "missing `:` before the schedule");
    return false;
  }
  *colon = 0;
  to->schedule = colon + 1;
  GpuSpec gpu;
  char *arch = next_word(&text);
  to->is_attention = strcmp(arch, "rows") == 0;
  if (to->is_attention)
    arch = next_word(&text);
  char *type = next_word(&text), *sizes = next_word(&text);
  snprintf(to->arch, sizeof to->arch, "%s", arch);
  const char *same_number = cuda_arch_of_number(arch);
  if (same_number && strcmp(same_number, arch) != 0)
    buffer_printf(why, "`%.40s` is not an architecture; did you mean `%s`?",
                  arch, same_number);
  else if (strcmp(arch, "*") != 0 && !gpu_spec(arch, &gpu))
    buffer_printf(why, "`%.40s` is not an architecture", arch);
  else if (!read_dtype(type, &to->dtype))
    buffer_printf(why, "`%.40s` is not f16, bf16, f32, f64 or *", type);
  else if (!read_sizes(sizes, to) || *next_word(&text))
    buffer_printf(why, "`%.40s` is not ROWSxCOLUMNSxTERMS", sizes);
  else
    return gemm_schedule_parse(&ignored, to->schedule, why);
  return false;
}

static void fault_line(uint32_t number, const char *why) {
  file.good = false;
  if (number)
    fault_set(&file.fault, "%.200s:%u: %.200s", file.path, number, why);
  else
    fault_set(&file.fault, "cannot read AXON_SCHEDULES=%.200s: %.200s",
              file.path, why);
  file.fault.kind = FAULT_TARGET_UNAVAILABLE;
  fault_set_help(&file.fault,
                 "write a line like `sm_90a bf16 4096x4096x*: m=128 n=256 "
                 "stages=4`; axon plan prints schedules in this form");
}

static void add_line(char *text, uint32_t number) {
  Buffer why = {0};
  text[strcspn(text, "#\r\n")] = 0;
  if (!text[strspn(text, " \t")])
    return;
  OverrideLine *to = &file.lines[file.count];
  char *copy = strdup(text);
  if (file.count == MAX_LINES)
    fault_line(number, "the file has too many lines");
  else if (!copy || !override_read_line(copy, to, &why))
    fault_line(number, copy ? why.text : "out of memory");
  if (!file.good) {
    free(copy);
  } else {
    to->line_number = number;
    file.count++;
  }
  buffer_free(&why);
}

static void read_file(void) {
  char line[MAX_LINE_BYTES];
  file.path = getenv("AXON_SCHEDULES");
  file.good = true;
  if (!file.path || !*file.path)
    return;
  FILE *f = fopen(file.path, "re");
  if (!f)
    fault_line(0, strerror(errno));
  for (uint32_t n = 1; f && file.good && fgets(line, sizeof line, f); n++)
    if (strlen(line) + 1 == sizeof line)
      fault_line(n, "the line is too long");
    else
      add_line(line, n);
  if (f && ferror(f))
    fault_line(0, strerror(errno));
  if (f)
    fclose(f);
}

bool override_check(Fault *fault) {
  pthread_once(&file.once, read_file);
  if (!file.good)
    *fault = file.fault;
  return file.good;
}

/* ---- application ---- */

static bool matches_size(double wanted, double size) {
  return wanted < 0 || fabs(wanted - size) < 0.5;
}

static OverrideLine *find_line(const char *arch, bool is_attention, Dtype dtype,
                               double m, double n, double k) {
  Fault ignored;
  if (!override_check(&ignored))
    return NULL;
  for (uint32_t j = 0; j < file.count; j++) {
    OverrideLine *l = &file.lines[j];
    if (l->is_attention == is_attention &&
        (strcmp(l->arch, "*") == 0 || strcmp(l->arch, arch) == 0) &&
        (l->dtype == DT_NONE || l->dtype == dtype) && matches_size(l->m, m) &&
        matches_size(l->n, n) && matches_size(l->k, k))
      return l;
  }
  return NULL;
}

static const char *set_message(OverrideLine *l, Buffer *why) {
  pthread_mutex_lock(&file.lock);
  snprintf(l->message, sizeof l->message, "%.60s:%u is not used: %.60s",
           file.path, l->line_number, why->text);
  pthread_mutex_unlock(&file.lock);
  buffer_free(why);
  return l->message;
}

const char *override_apply(const char *arch, const GemmShape *shape,
                           const GpuSpec *gpu, GemmSchedule *s) {
  Buffer why = {0};
  OverrideLine *l =
      find_line(arch, false, shape->a.dtype, shape->m, shape->n, shape->k);
  return !l || gemm_override(shape, gpu, l->schedule, s, &why)
             ? NULL
             : set_message(l, &why);
}

const char *override_apply_attention(const char *arch,
                                     const AttentionShape *shape,
                                     const GpuSpec *gpu, GemmSchedule *s) {
  Buffer why = {0};
  OverrideLine *l = find_line(arch, true, shape->query.dtype, shape->m,
                              shape->n, shape->head_dim);
  return !l || attention_override(shape, gpu, l->schedule, s, &why)
             ? NULL
             : set_message(l, &why);
}
