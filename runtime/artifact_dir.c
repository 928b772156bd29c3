/* The folder of artifacts: finds or creates it, keeps it private, limits its
 * size, and reports its contents. */
#define _GNU_SOURCE
#include "runtime/artifact_dir.h"

#include "runtime/trusted_dir.h"
#include "support/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_HEX_DIGITS = 32, MIN_STALE_SECONDS = 3600 };

/* ---- location ---- */

static bool is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Its path.  A home directory that does not exist is not created. */
static bool cache_path(char path[ARTIFACT_PATH_BYTES], const char **why) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int len;
  path[0] = 0;
  if (cache && *cache == '/') {
    len = snprintf(path, ARTIFACT_PATH_BYTES, "%s/axon", cache);
  } else if (!home || *home != '/') {
    *why = "neither HOME nor XDG_CACHE_HOME is set";
    return false;
  } else if (!is_directory(home)) {
    *why = "the folder in HOME does not exist";
    return false;
  } else {
    len = snprintf(path, ARTIFACT_PATH_BYTES, "%s/.cache/axon", home);
  }
  if (len < ARTIFACT_PATH_BYTES - 128)
    return true;
  *why = "its path is too long";
  path[0] = 0;
  return false;
}

/* Warns about a folder that cannot be trusted, but not about a missing one. */
static void warn_untrusted(const TrustFailure *out) {
  trust_failure_warn(
      out, "compiled kernels are not cached: other users could change them",
      "set XDG_CACHE_HOME to your own folder; only you and root may write to "
      "its parent folders");
}

int artifact_open_root(char path[ARTIFACT_PATH_BYTES], bool create) {
  const char *why;
  TrustFailure out;
  if (!cache_path(path, &why))
    return -1;
  int root_fd = trusted_dir_open_private(path, create, &out);
  if (root_fd < 0)
    warn_untrusted(&out);
  return root_fd;
}

int artifact_dir_open_kind(int root_fd, const char *folder, bool create) {
  const char *why;
  TrustFailure out = {.is_untrusted = true};
  int kind = trusted_dir_open_private_at(root_fd, folder, create, &why);
  if (kind >= 0 || !why || !cache_path(out.path, &out.reason))
    return kind;
  size_t len = strlen(out.path);
  snprintf(out.path + len, sizeof out.path - len, "/%s", folder);
  out.reason = why;
  warn_untrusted(&out);
  return -1;
}

/* ---- contents ---- */

static bool is_artifact(const char *name) {
  for (int k = 0; k < KEY_HEX_DIGITS; k++)
    if (!isxdigit((unsigned char)name[k]))
      return false;
  return name[KEY_HEX_DIGITS] == '.';
}

static bool is_temp_file(const char *name) {
  size_t len = strlen(name), end = sizeof ARTIFACT_TEMP_SUFFIX - 1;
  return name[0] == '.' && len > end &&
         strcmp(name + len - end, ARTIFACT_TEMP_SUFFIX) == 0;
}

typedef struct DirEntry {
  int dir_fd; /* folder of the kind */
  const char *kind, *name;
  struct stat info;
} DirEntry;

typedef void Visit(void *arg, const DirEntry *file);

static DIR *open_list(int folder) {
  DIR *list = folder < 0 ? NULL : fdopendir(folder);
  if (!list && folder >= 0)
    close(folder);
  return list;
}

static void visit_kind(int root_fd, const char *kind, Visit *visit, void *arg) {
  const char *why;
  DIR *list =
      open_list(trusted_dir_open_private_at(root_fd, kind, false, &why));
  for (struct dirent *file; list && (file = readdir(list));) {
    DirEntry f = {.dir_fd = dirfd(list), .kind = kind, .name = file->d_name};
    if (fstatat(f.dir_fd, f.name, &f.info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(f.info.st_mode))
      visit(arg, &f);
  }
  if (list)
    closedir(list);
}

/* Visits all files of all kinds. */
static void visit_all(int root_fd, Visit *visit, void *arg) {
  DIR *kinds =
      open_list(openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (struct dirent *kind; kinds && (kind = readdir(kinds));)
    if (kind->d_name[0] != '.' && kind->d_type != DT_REG)
      visit_kind(root_fd, kind->d_name, visit, arg);
  if (kinds)
    closedir(kinds);
}

/* ---- the limit ---- */

typedef struct Entry {
  struct timespec last_use;
  uint64_t size;
  char *path; /* relative to the folder of all kinds */
} Entry;

typedef struct Entries {
  Entry *at;
  size_t count, cap;
  uint64_t bytes;
  bool failed; /* there was no memory */
} Entries;

static bool grow(Entries *all) {
  size_t cap = all->cap ? 2 * all->cap : 256;
  Entry *at = mem_try_alloc(cap * sizeof *at);
  if (!at)
    return false;
  if (all->count)
    memcpy(at, all->at, all->count * sizeof *at);
  mem_free(all->at);
  all->at = at;
  all->cap = cap;
  return true;
}

static void remove_stale(const DirEntry *file) {
  if (file->info.st_mtim.tv_sec + MIN_STALE_SECONDS < time(NULL))
    unlinkat(file->dir_fd, file->name, 0);
}

static void collect(void *arg, const DirEntry *file) {
  Entries *all = arg;
  uint64_t size = (uint64_t)file->info.st_size;
  if (is_temp_file(file->name))
    remove_stale(file);
  if (!is_artifact(file->name))
    return;
  all->bytes += size;
  size_t len = strlen(file->kind) + strlen(file->name) + 2;
  char *path = mem_try_alloc(len);
  if (!path || (all->count == all->cap && !grow(all))) {
    mem_free(path);
    all->failed = true;
    return;
  }
  snprintf(path, len, "%s/%s", file->kind, file->name);
  all->at[all->count++] = (Entry){file->info.st_mtim, size, path};
}

static int compare_last_use(const void *a, const void *b) {
  const struct timespec *x = &((const Entry *)a)->last_use,
                        *y = &((const Entry *)b)->last_use;
  if (x->tv_sec != y->tv_sec)
    return x->tv_sec < y->tv_sec ? -1 : 1;
  return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Evicts well below the limit, so that the limit is not reached again
 * immediately. */
static void evict_lru(int root_fd, Entries *all, uint64_t limit) {
  qsort(all->at, all->count, sizeof *all->at, compare_last_use);
  for (size_t k = 0; k < all->count && all->bytes > limit - limit / 8; k++)
    if (unlinkat(root_fd, all->at[k].path, 0) == 0 || errno == ENOENT)
      all->bytes -= all->at[k].size;
}

/* Only one process evicts at a time; others skip it. */
static int lock_directory(int root_fd) {
  int file =
      openat(root_fd, "lock", O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return -1;
  }
  return file;
}

uint64_t artifact_dir_evict(int root_fd, uint64_t limit) {
  Entries all = {0};
  visit_all(root_fd, collect, &all);
  int lock = all.bytes > limit ? lock_directory(root_fd) : -1;
  if (lock >= 0) {
    evict_lru(root_fd, &all, limit);
    close(lock);
  }
  for (size_t k = 0; k < all.count; k++)
    mem_free(all.at[k].path);
  mem_free(all.at);
  return all.bytes;
}

/* ---- counts ---- */

static int open_counts(int root_fd, int flags) {
  return openat(root_fd, "counts", flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void read_counts(int file, uint64_t *hits, uint64_t *misses) {
  char text[64] = "";
  unsigned long long f = 0, m = 0;
  ssize_t n = pread(file, text, sizeof text - 1, 0);
  if (n > 0 && sscanf(text, "%llu %llu", &f, &m) == 2)
    *hits = f, *misses = m;
}

void artifact_dir_add_stats(int root_fd, uint64_t hits, uint64_t misses) {
  int file = open_counts(root_fd, O_CREAT | O_RDWR);
  if (file < 0)
    return;
  int tries = 0; /* others hold the lock for microseconds */
  while (flock(file, LOCK_EX | LOCK_NB) != 0 && ++tries < 50)
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  uint64_t f = 0, m = 0;
  char text[64];
  read_counts(file, &f, &m);
  int len =
      snprintf(text, sizeof text, "%llu %llu\n", (unsigned long long)(f + hits),
               (unsigned long long)(m + misses));
  ssize_t written = 0; /* if the disk is full, the old counts stay */
  if (tries < 50)
    written = pwrite(file, text, (size_t)len, 0);
  (void)written;
  close(file);
}

/* ---- report, verify, clear ---- */

typedef struct WalkOptions {
  ArtifactStats *totals;
  bool verify, clear, failed;
} WalkOptions;

static void inspect_entry(void *arg, const DirEntry *file) {
  WalkOptions *options = arg;
  bool artifact = is_artifact(file->name);
  if (artifact) {
    options->totals->entries++;
    options->totals->bytes += (uint64_t)file->info.st_size;
  }
  if (artifact && options->verify &&
      !artifact_is_valid(file->dir_fd, file->name)) {
    options->totals->corrupt++;
    options->failed |= unlinkat(file->dir_fd, file->name, 0) != 0;
  }
  if (options->clear && (artifact || is_temp_file(file->name)))
    options->failed |=
        unlinkat(file->dir_fd, file->name, 0) != 0 && errno != ENOENT;
}

/* A folder that does not exist yet is no error. */
static int open_for_inspection(ArtifactStats *out) {
  const char *why = "";
  TrustFailure distrust;
  struct stat info;
  if (!cache_path(out->path, &why)) {
    snprintf(out->unusable_reason, sizeof out->unusable_reason, "%s", why);
    return -1;
  }
  int root_fd = trusted_dir_open_private(out->path, false, &distrust);
  if (root_fd >= 0 || (!distrust.is_untrusted && lstat(out->path, &info) != 0))
    return root_fd;
  bool own = strcmp(distrust.path, out->path) == 0;
  snprintf(out->unusable_reason, sizeof out->unusable_reason, "%.160s%s%s",
           own ? "" : distrust.path, own ? "" : ": ", distrust.reason);
  return -1;
}

static bool inspect_cache(ArtifactStats *out, bool verify, bool clear) {
  *out = (ArtifactStats){0};
  WalkOptions options = {out, verify, clear, false};
  int root_fd = open_for_inspection(out);
  if (root_fd < 0)
    return true;
  visit_all(root_fd, inspect_entry, &options);
  int file = open_counts(root_fd, O_RDWR);
  close(root_fd);
  if (file < 0)
    return !options.failed;
  read_counts(file, &out->hits, &out->misses);
  if (clear)
    options.failed |= ftruncate(file, 0) != 0;
  close(file);
  return !options.failed;
}

void artifact_stats(ArtifactStats *out) {
  inspect_cache(out, false, false);
}

void artifact_verify(ArtifactStats *out) {
  inspect_cache(out, true, false);
}

bool artifact_clear(ArtifactStats *out) {
  return inspect_cache(out, false, true);
}
