/* The folder of artifacts: found or made, private, bounded, shown. */
#define _GNU_SOURCE
#include "runtime/artifactdir.h"

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

enum { KEY_DIGITS = 32, STALE_SECONDS = 3600 };

/* ---- where it is ---- */

/* mkdir -p, private. */
static bool make_folders(char *path) {
  for (char *p = path + 1;; p++) {
    if (*p && *p != '/')
      continue;
    char kept = *p;
    *p = '\0';
    bool good = mkdir(path, 0700) == 0 || errno == EEXIST || errno == EROFS;
    *p = kept;
    if (!good || !kept)
      return good;
  }
}

static bool is_folder(const char *path) {
  struct stat is;
  return stat(path, &is) == 0 && S_ISDIR(is.st_mode);
}

/* The folder that holds ours; a home that is not there is not made. */
static bool base_folder(char path[ARTIFACT_PATH], bool make, const char **why) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int len;
  *why = "";
  if (cache && *cache == '/') {
    len = snprintf(path, ARTIFACT_PATH, "%s", cache);
  } else if (!home || *home != '/') {
    *why = "neither HOME nor XDG_CACHE_HOME is set";
    return false;
  } else if (!is_folder(home)) {
    *why = "the folder that HOME names is not there";
    return false;
  } else {
    len = snprintf(path, ARTIFACT_PATH, "%s/.cache", home);
  }
  if (len >= ARTIFACT_PATH - 128) {
    *why = "its path is too long";
    return false;
  }
  if (make)
    make_folders(path);
  return true;
}

/* Ours alone: what others could have put there might be run. */
static bool is_private(const char *path, const char **why) {
  struct stat is;
  if (lstat(path, &is) != 0) {
    *why = strerror(errno);
    return false;
  }
  if (S_ISLNK(is.st_mode) && stat(path, &is) != 0) {
    *why = strerror(errno);
    return false;
  }
  if (!S_ISDIR(is.st_mode))
    *why = "it is no folder";
  else if (is.st_uid != geteuid())
    *why = "it belongs to another user";
  else if ((is.st_mode & 077) && chmod(path, 0700) != 0)
    *why = "others may write there";
  else
    return true;
  return false;
}

/* What is made with the rights of root in another's home would be in the way
 * of its owner. */
static bool may_make_in(const char *base) {
  struct stat is;
  return geteuid() != 0 || stat(base, &is) != 0 || is.st_uid == 0;
}

static bool find_root(char path[ARTIFACT_PATH], bool make, const char **why) {
  path[0] = 0;
  if (!base_folder(path, make, why))
    return false;
  size_t len = strlen(path);
  bool allowed = may_make_in(path);
  memcpy(path + len, "/axon", sizeof "/axon");
  if (make && allowed)
    mkdir(path, 0700);
  return is_private(path, why);
}

bool artifactdir_root(char path[ARTIFACT_PATH], bool make) {
  const char *why;
  return find_root(path, make, &why);
}

static bool folder_path(char path[ARTIFACT_PATH], const char *root,
                        const char *name) {
  return snprintf(path, ARTIFACT_PATH, "%s/%s", root, name) < ARTIFACT_PATH;
}

bool artifactdir_kind(const char *root, const char *folder) {
  char path[ARTIFACT_PATH];
  const char *why;
  if (!folder_path(path, root, folder))
    return false;
  mkdir(path, 0700);
  return is_private(path, &why);
}

/* ---- what is in it ---- */

static bool is_artifact(const char *name) {
  for (int k = 0; k < KEY_DIGITS; k++)
    if (!isxdigit((unsigned char)name[k]))
      return false;
  return name[KEY_DIGITS] == '.';
}

static bool is_part(const char *name) {
  size_t len = strlen(name), end = sizeof ARTIFACT_PART - 1;
  return name[0] == '.' && len > end &&
         strcmp(name + len - end, ARTIFACT_PART) == 0;
}

typedef void Visit(void *arg, const char *path, const char *name,
                   const struct stat *is);

static void visit_kind(const char *root, const char *folder, Visit *visit,
                       void *arg) {
  char path[ARTIFACT_PATH];
  if (!folder_path(path, root, folder))
    return;
  size_t len = strlen(path);
  DIR *kind = opendir(path);
  for (struct dirent *file; kind && (file = readdir(kind));) {
    struct stat is;
    if (len + strlen(file->d_name) + 2 > ARTIFACT_PATH)
      continue;
    path[len] = '/';
    memcpy(path + len + 1, file->d_name, strlen(file->d_name) + 1);
    if (lstat(path, &is) == 0 && S_ISREG(is.st_mode))
      visit(arg, path, file->d_name, &is);
  }
  if (kind)
    closedir(kind);
}

/* All files of all kinds. */
static void visit_all(const char *root, Visit *visit, void *arg) {
  DIR *kinds = opendir(root);
  for (struct dirent *kind; kinds && (kind = readdir(kinds));)
    if (kind->d_name[0] != '.' && kind->d_type != DT_REG)
      visit_kind(root, kind->d_name, visit, arg);
  if (kinds)
    closedir(kinds);
}

/* ---- the limit ---- */

typedef struct Entry {
  struct timespec used;
  uint64_t size;
  char *path;
} Entry;

typedef struct Entries {
  Entry *at;
  size_t count, cap;
  uint64_t bytes;
  bool failed; /* for want of memory */
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

static void remove_stale(const char *path, const struct stat *is) {
  if (is->st_mtim.tv_sec + STALE_SECONDS < time(NULL))
    unlink(path);
}

static void collect(void *arg, const char *path, const char *name,
                    const struct stat *is) {
  Entries *all = arg;
  if (is_part(name))
    remove_stale(path, is);
  if (!is_artifact(name))
    return;
  all->bytes += (uint64_t)is->st_size;
  size_t len = strlen(path) + 1;
  char *copy = mem_try_alloc(len);
  if (!copy || (all->count == all->cap && !grow(all))) {
    mem_free(copy);
    all->failed = true;
    return;
  }
  memcpy(copy, path, len);
  all->at[all->count++] = (Entry){is->st_mtim, (uint64_t)is->st_size, copy};
}

static int by_use(const void *a, const void *b) {
  const struct timespec *x = &((const Entry *)a)->used,
                        *y = &((const Entry *)b)->used;
  if (x->tv_sec != y->tv_sec)
    return x->tv_sec < y->tv_sec ? -1 : 1;
  return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* To a good part below the limit, so that it is not reached again at once. */
static void remove_oldest(Entries *all, uint64_t limit) {
  qsort(all->at, all->count, sizeof *all->at, by_use);
  for (size_t k = 0; k < all->count && all->bytes > limit - limit / 8; k++)
    if (unlink(all->at[k].path) == 0 || errno == ENOENT)
      all->bytes -= all->at[k].size;
}

/* Held while one process removes: the others need not. */
static int lock_folder(const char *root) {
  char path[ARTIFACT_PATH];
  if (!folder_path(path, root, "lock"))
    return -1;
  int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return -1;
  }
  return file;
}

uint64_t artifactdir_shrink(const char *root, uint64_t limit) {
  Entries all = {0};
  visit_all(root, collect, &all);
  int lock = all.bytes > limit ? lock_folder(root) : -1;
  if (lock >= 0) {
    remove_oldest(&all, limit);
    close(lock);
  }
  for (size_t k = 0; k < all.count; k++)
    mem_free(all.at[k].path);
  mem_free(all.at);
  return all.bytes;
}

/* ---- counts ---- */

static int open_counts(const char *root, int flags) {
  char path[ARTIFACT_PATH];
  if (!folder_path(path, root, "counts"))
    return -1;
  return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void read_counts(int file, uint64_t *found, uint64_t *made) {
  char text[64] = "";
  unsigned long long f = 0, m = 0;
  ssize_t n = pread(file, text, sizeof text - 1, 0);
  if (n > 0 && sscanf(text, "%llu %llu", &f, &m) == 2)
    *found = f, *made = m;
}

void artifactdir_count(const char *root, uint64_t found, uint64_t made) {
  int file = open_counts(root, O_CREAT | O_RDWR);
  if (file < 0)
    return;
  int tries = 0; /* others hold it for microseconds */
  while (flock(file, LOCK_EX | LOCK_NB) != 0 && ++tries < 50)
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  uint64_t f = 0, m = 0;
  char text[64];
  read_counts(file, &f, &m);
  int len =
      snprintf(text, sizeof text, "%llu %llu\n",
               (unsigned long long)(f + found), (unsigned long long)(m + made));
  ssize_t written = 0; /* where the disk is full the old counts stay */
  if (tries < 50)
    written = pwrite(file, text, (size_t)len, 0);
  (void)written;
  close(file);
}

/* ---- shown, verified, cleared ---- */

typedef struct Survey {
  ArtifactTotals *totals;
  bool verify, clear, left;
} Survey;

static void survey_one(void *arg, const char *path, const char *name,
                       const struct stat *is) {
  Survey *s = arg;
  bool artifact = is_artifact(name);
  if (artifact) {
    s->totals->entries++;
    s->totals->bytes += (uint64_t)is->st_size;
  }
  if (artifact && s->verify && !artifact_path_whole(path)) {
    s->totals->broken++;
    s->left |= unlink(path) != 0;
  }
  if (s->clear && (artifact || is_part(name)))
    s->left |= unlink(path) != 0 && errno != ENOENT;
}

static bool survey(ArtifactTotals *out, bool verify, bool clear) {
  *out = (ArtifactTotals){0};
  const char *why = "";
  Survey s = {out, verify, clear, false};
  if (!find_root(out->path, false, &why)) {
    if (access(out->path, F_OK) == 0 || !out->path[0])
      snprintf(out->unused, sizeof out->unused, "%s", why);
    return true;
  }
  visit_all(out->path, survey_one, &s);
  int file = open_counts(out->path, O_RDWR);
  if (file < 0)
    return !s.left;
  read_counts(file, &out->found, &out->made);
  if (clear)
    s.left |= ftruncate(file, 0) != 0;
  close(file);
  return !s.left;
}

void artifact_totals(ArtifactTotals *out) {
  survey(out, false, false);
}

void artifact_verify(ArtifactTotals *out) {
  survey(out, true, false);
}

bool artifact_clear(ArtifactTotals *out) {
  return survey(out, false, true);
}
