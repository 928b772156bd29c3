/* Texts of kernels to functions: compiled by the system's C compiler into a
 * shared object, kept on disk under a hash of all that it depends on. */
#define _GNU_SOURCE
#include "backend/cpu/cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

extern char **environ;
extern const char prelude_text[];

enum { PATH_LEN = 4096, TABLE_FIRST = 64 };

typedef struct Loaded {
  XXH128_hash_t key;
  void *library;
  Compiled functions;
  double seconds; /* that its compiler took; 0: it was there */
} Loaded;

static struct {
  Loaded *at;
  uint32_t count, cap;
} table;

static const char *const flags[] = {
    "-O2",     "-march=native",   "-shared",           "-fPIC",
    "-w",      "-std=gnu11",      "-ffp-contract=off", "-fno-math-errno",
    "-fwrapv", "-ftree-vectorize"};

static const char *compiler(void) {
  const char *wanted = getenv("AXON_CC");
  return wanted && *wanted ? wanted : "cc";
}

static XXH128_hash_t key_of(const char *text, size_t len) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, AXON_VERSION, sizeof AXON_VERSION);
  XXH3_128bits_update(&state, prelude_text, strlen(prelude_text));
  XXH3_128bits_update(&state, compiler(), strlen(compiler()) + 1);
  for (uint32_t k = 0; k < ARRAY_LEN(flags); k++)
    XXH3_128bits_update(&state, flags[k], strlen(flags[k]) + 1);
  XXH3_128bits_update(&state, text, len);
  return XXH3_128bits_digest(&state);
}

/* ---- files ---- */

static bool make_folder(char *path) {
  for (char *p = path + 1;; p++) {
    if (*p && *p != '/')
      continue;
    char kept = *p;
    *p = '\0';
    bool good = mkdir(path, 0700) == 0 || errno == EEXIST;
    *p = kept;
    if (!good)
      return false;
    if (!kept)
      return true;
  }
}

static bool cache_folder(char path[PATH_LEN]) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int len;
  if (base && *base == '/')
    len = snprintf(path, PATH_LEN, "%s/axon/cpu", base);
  else if (home && *home)
    len = snprintf(path, PATH_LEN, "%s/.cache/axon/cpu", home);
  else
    return false;
  return len < PATH_LEN - 64 && make_folder(path);
}

static bool write_source(int file, const char *text, size_t len) {
  /* the text's first line says how wide vectors are; then comes '@' */
  const char *at = memchr(text, '@', len);
  size_t head = (size_t)(at - text), rest = len - head - 1;
  return write(file, text, head) == (ssize_t)head &&
         write(file, prelude_text, strlen(prelude_text)) ==
             (ssize_t)strlen(prelude_text) &&
         write(file, at + 1, rest) == (ssize_t)rest;
}

static bool run_compiler(const char *source, const char *object) {
  const char *argv[ARRAY_LEN(flags) + 8];
  uint32_t n = 0;
  argv[n++] = compiler();
  for (uint32_t k = 0; k < ARRAY_LEN(flags); k++)
    argv[n++] = flags[k];
  argv[n++] = "-o";
  argv[n++] = object;
  argv[n++] = source;
  argv[n++] = "-lm";
  argv[n] = NULL;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!getenv("AXON_CC_DEBUG"))
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid;
  int status = -1;
  int error =
      posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    return false;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Compiles into a file of its own, and gives it the name at the end. */
static bool build(const char *text, size_t len, const char *object) {
  char source[PATH_LEN], made[PATH_LEN];
  if (snprintf(source, PATH_LEN, "%s.%d.c", object, (int)getpid()) >= PATH_LEN)
    return false;
  snprintf(made, PATH_LEN, "%.4000s.%d.tmp", object, (int)getpid());
  int file = open(source, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  bool good = write_source(file, text, len);
  good &= close(file) == 0;
  good = good && run_compiler(source, made) && rename(made, object) == 0;
  if (!getenv("AXON_CC_DEBUG"))
    unlink(source);
  if (!good)
    unlink(made);
  return good;
}

static KernelFunction *function(const Loaded *l, const char *name) {
  return (KernelFunction *)dlsym(l->library, name);
}

static bool load(Loaded *l, const char *object) {
  l->library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
  if (!l->library)
    return false;
  l->functions = (Compiled){function(l, "kernel"), function(l, "fold")};
  return l->functions.kernel != NULL;
}

static const Loaded *find(XXH128_hash_t key) {
  for (uint32_t k = 0; k < table.count; k++)
    if (XXH128_isEqual(table.at[k].key, key))
      return &table.at[k];
  return NULL;
}

static const Loaded *keep(const Loaded *l) {
  if (table.count == table.cap) {
    uint32_t cap = table.cap ? 2 * table.cap : TABLE_FIRST;
    table.at = mem_realloc(table.at, table.cap * sizeof *table.at,
                           cap * sizeof *table.at);
    table.cap = cap;
  }
  table.at[table.count] = *l;
  return &table.at[table.count++];
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool compiler_seen(const char *text, size_t len, double *seconds) {
  const Loaded *found = find(key_of(text, len));
  *seconds = found ? found->seconds : 0;
  return found && found->functions.kernel;
}

const Compiled *compiler_get(const char *text, size_t len) {
  XXH128_hash_t key = key_of(text, len);
  const Loaded *found = find(key);
  if (!found) {
    Loaded l = {.key = key};
    char object[PATH_LEN];
    if (cache_folder(object)) {
      size_t at = strlen(object);
      snprintf(object + at, PATH_LEN - at, "/%016llx%016llx.so",
               (unsigned long long)key.high64, (unsigned long long)key.low64);
      double start = now();
      if (!load(&l, object) && build(text, len, object) && load(&l, object))
        l.seconds = now() - start;
    }
    found = keep(&l); /* also where it failed: it is not tried again */
  }
  return found->functions.kernel ? &found->functions : NULL;
}
