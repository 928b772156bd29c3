/* Schedules from a file. */
#include "backend/cpu/schedule_file.h"

#include "backend/cpu/schedule_text.h"
#include "plan/kernel_key.h"
#include "support/arena_text.h"
#include "support/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 4 << 20 };

typedef struct FileEntry {
  uint64_t key;
  const char *text; /* the schedule */
  uint32_t at;      /* where it begins in the file */
  bool is_used;
} FileEntry;

static struct {
  pthread_mutex_t lock;
  const char *path;
  Buffer text; /* comments are blanks */
  uint32_t count;
  FileEntry *entries;
  ScheduleSource *source;
  bool has_failed;
  Fault fault; /* of the first schedule that could not be applied */
} file = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- reading ---- */

static void set_fault(Fault *fault, uint32_t at, const char *error) {
  uint32_t line = 1, column = 1;
  for (uint32_t j = 0; file.path && j < at; j++) {
    column = file.text.text[j] == '\n' ? 1 : column + 1;
    line += file.text.text[j] == '\n';
  }
  fault_set(fault, "%.200s:%u:%u: %.250s", file.path ? file.path : "schedule",
            line, column, error);
  fault->kind = FAULT_SCHEDULE;
}

/* Replaces comments by blanks.  Returns the position of one without an end, or
 * SIZE_MAX. */
static size_t blank_comments(char *text) {
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

/* Finds the word `kernel` at the beginning of an entry. */
static char *find_entry(char *from) {
  for (char *p = from; (p = strstr(p, "kernel")); p += 6)
    if ((p == file.text.text || isspace((unsigned char)p[-1])) &&
        isspace((unsigned char)p[6]))
      return p;
  return NULL;
}

static const char *read_entry(char *at, FileEntry *e) {
  int end = 0;
  at += strlen("kernel");
  if (sscanf(at, " %16" SCNx64 "%n", &e->key, &end) != 1 ||
      !isspace((unsigned char)at[end]))
    return "expected `kernel` and its number, such as 5b1d0c2f9a3e4471; `axon "
           "plan --schedule` prints it";
  e->text = at + end;
  e->at = (uint32_t)(e->text - file.text.text);
  for (uint32_t j = 0; j < file.count; j++)
    if (file.entries[j].key == e->key)
      return "this kernel has a schedule already";
  return NULL;
}

static bool read_entries(Fault *fault) {
  char *text = file.text.text;
  size_t open = blank_comments(text);
  if (open != SIZE_MAX) {
    set_fault(fault, (uint32_t)open, "this comment has no end: write *)");
    return false;
  }
  char *at = find_entry(text);
  size_t blanks = strspn(text, " \t\r\n");
  if (text[blanks] && text + blanks != at) {
    set_fault(fault, (uint32_t)blanks, "expected `kernel`");
    return false;
  }
  while (at) {
    FileEntry e = {0};
    const char *error = read_entry(at, &e);
    if (error) {
      set_fault(fault, (uint32_t)(at - text), error);
      return false;
    }
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
  FILE *f = fopen(path, "re");
  for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0 &&
                 file.text.len < MAX_FILE_BYTES;)
    buffer_add(&file.text, part, n);
  int error = !f || ferror(f) ? errno : 0;
  if (f)
    fclose(f);
  if (error) {
    fault_set(fault, "cannot read \"%.200s\": %s", path, strerror(error));
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

uint32_t schedule_file_unused(Buffer *first) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < file.count; j++)
    if (!__atomic_load_n(&file.entries[j].is_used, __ATOMIC_RELAXED) &&
        count++ == 0)
      buffer_printf(first, "%016" PRIx64, file.entries[j].key);
  return count;
}

bool schedule_file_has_failed(Fault *fault) {
  if (!__atomic_load_n(&file.has_failed, __ATOMIC_ACQUIRE))
    return false;
  *fault = file.fault;
  return true;
}

/* ---- use ---- */

void schedule_set_source(ScheduleSource *source) {
  file.source = source;
}

static FileEntry *find(const FusionGroup *c) {
  ArtifactKey key = {{0}};
  if (file.count)
    key = kernel_schedule_key(c);
  for (uint32_t j = 0; j < file.count; j++)
    if (file.entries[j].key == key.word[0])
      return &file.entries[j];
  return NULL;
}

static void fail(uint32_t at, const char *error) {
  pthread_mutex_lock(&file.lock);
  if (!file.has_failed)
    set_fault(&file.fault, at, error);
  __atomic_store_n(&file.has_failed, true, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&file.lock);
}

bool schedule_make(const FusionGroup *c, Kernel *k, Schedule *s) {
  FileEntry *e = find(c);
  const char *text = e ? e->text : file.source ? file.source(k) : NULL;
  uint32_t at;
  if (!text) {
    schedule_choose(k, cpu_vector_bytes(), true, s);
    return true;
  }
  const char *error = schedule_read(k, cpu_vector_bytes(), text, &at, s);
  if (error)
    fail(e ? e->at + at : 0, error);
  else if (e)
    __atomic_store_n(&e->is_used, true, __ATOMIC_RELAXED);
  return !error;
}

void schedule_has_no_code(const FusionGroup *c) {
  const FileEntry *e = find(c);
  if (e || file.source)
    fail(e ? e->at : 0, "there is no C code for this schedule");
}

const char *schedule_entry(Arena *arena, const FusionGroup *c, const Kernel *k,
                           const Schedule *s) {
  Buffer out = {.arena = arena};
  ArtifactKey key = kernel_schedule_key(c);
  buffer_printf(&out, "kernel %016" PRIx64 "\n", key.word[0]);
  schedule_print(&out, k, s);
  return out.text;
}
