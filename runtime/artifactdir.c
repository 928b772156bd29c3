/* The folder of artifacts: found or made, private, bounded, shown. */
#define _GNU_SOURCE
#include "runtime/artifactdir.h"

#include "runtime/trust.h"

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

static bool is_folder(const char *path) {
  struct stat is;
  return stat(path, &is) == 0 && S_ISDIR(is.st_mode);
}

/* Its path; a home that is not there is not made. */
static bool find_path(char path[ARTIFACT_PATH], const char **why) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int len;
  path[0] = 0;
  if (cache && *cache == '/') {
    len = snprintf(path, ARTIFACT_PATH, "%s/axon", cache);
  } else if (!home || *home != '/') {
    *why = "neither HOME nor XDG_CACHE_HOME is set";
    return false;
  } else if (!is_folder(home)) {
    *why = "the folder that HOME names is not there";
    return false;
  } else {
    len = snprintf(path, ARTIFACT_PATH, "%s/.cache/axon", home);
  }
  if (len < ARTIFACT_PATH - 128)
    return true;
  *why = "its path is too long";
  path[0] = 0;
  return false;
}

/* What cannot be trusted is told; what is not there is no news. */
static void tell(const Distrust *out) {
  trust_tell(out, "what is compiled is not kept, as others could change it",
             "let XDG_CACHE_HOME name a folder of your own, in folders that "
             "only you and root can write to");
}

int artifact_folder(char path[ARTIFACT_PATH], bool make) {
  const char *why;
  Distrust out;
  if (!find_path(path, &why))
    return -1;
  int root = trust_open_own(path, make, &out);
  if (root < 0)
    tell(&out);
  return root;
}

int artifactdir_kind(int root, const char *folder, bool make) {
  const char *why;
  Distrust out = {.distrusted = true};
  int kind = trust_open_in(root, folder, make, &why);
  if (kind >= 0 || !why || !find_path(out.path, &out.why))
    return kind;
  size_t len = strlen(out.path);
  snprintf(out.path + len, sizeof out.path - len, "/%s", folder);
  out.why = why;
  tell(&out);
  return -1;
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

typedef struct File {
  int folder; /* of its kind */
  const char *kind, *name;
  struct stat is;
} File;

typedef void Visit(void *arg, const File *file);

static DIR *open_list(int folder) {
  DIR *list = folder < 0 ? NULL : fdopendir(folder);
  if (!list && folder >= 0)
    close(folder);
  return list;
}

static void visit_kind(int root, const char *kind, Visit *visit, void *arg) {
  const char *why;
  DIR *list = open_list(trust_open_in(root, kind, false, &why));
  for (struct dirent *file; list && (file = readdir(list));) {
    File f = {.folder = dirfd(list), .kind = kind, .name = file->d_name};
    if (fstatat(f.folder, f.name, &f.is, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(f.is.st_mode))
      visit(arg, &f);
  }
  if (list)
    closedir(list);
}

/* All files of all kinds. */
static void visit_all(int root, Visit *visit, void *arg) {
  DIR *kinds = open_list(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
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
  char *path; /* in the folder of all kinds */
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

static void remove_stale(const File *file) {
  if (file->is.st_mtim.tv_sec + STALE_SECONDS < time(NULL))
    unlinkat(file->folder, file->name, 0);
}

static void collect(void *arg, const File *file) {
  Entries *all = arg;
  uint64_t size = (uint64_t)file->is.st_size;
  if (is_part(file->name))
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
  all->at[all->count++] = (Entry){file->is.st_mtim, size, path};
}

static int by_use(const void *a, const void *b) {
  const struct timespec *x = &((const Entry *)a)->used,
                        *y = &((const Entry *)b)->used;
  if (x->tv_sec != y->tv_sec)
    return x->tv_sec < y->tv_sec ? -1 : 1;
  return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* To a good part below the limit, so that it is not reached again at once. */
static void remove_oldest(int root, Entries *all, uint64_t limit) {
  qsort(all->at, all->count, sizeof *all->at, by_use);
  for (size_t k = 0; k < all->count && all->bytes > limit - limit / 8; k++)
    if (unlinkat(root, all->at[k].path, 0) == 0 || errno == ENOENT)
      all->bytes -= all->at[k].size;
}

/* Held while one process removes: the others need not. */
static int lock_folder(int root) {
  int file =
      openat(root, "lock", O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return -1;
  }
  return file;
}

uint64_t artifactdir_shrink(int root, uint64_t limit) {
  Entries all = {0};
  visit_all(root, collect, &all);
  int lock = all.bytes > limit ? lock_folder(root) : -1;
  if (lock >= 0) {
    remove_oldest(root, &all, limit);
    close(lock);
  }
  for (size_t k = 0; k < all.count; k++)
    mem_free(all.at[k].path);
  mem_free(all.at);
  return all.bytes;
}

/* ---- counts ---- */

static int open_counts(int root, int flags) {
  return openat(root, "counts", flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void read_counts(int file, uint64_t *found, uint64_t *made) {
  char text[64] = "";
  unsigned long long f = 0, m = 0;
  ssize_t n = pread(file, text, sizeof text - 1, 0);
  if (n > 0 && sscanf(text, "%llu %llu", &f, &m) == 2)
    *found = f, *made = m;
}

void artifactdir_count(int root, uint64_t found, uint64_t made) {
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

static void survey_one(void *arg, const File *file) {
  Survey *s = arg;
  bool artifact = is_artifact(file->name);
  if (artifact) {
    s->totals->entries++;
    s->totals->bytes += (uint64_t)file->is.st_size;
  }
  if (artifact && s->verify && !artifact_is_whole(file->folder, file->name)) {
    s->totals->broken++;
    s->left |= unlinkat(file->folder, file->name, 0) != 0;
  }
  if (s->clear && (artifact || is_part(file->name)))
    s->left |= unlinkat(file->folder, file->name, 0) != 0 && errno != ENOENT;
}

/* A folder that is not there yet is no reason. */
static int open_survey(ArtifactTotals *out) {
  const char *why = "";
  Distrust distrust;
  struct stat is;
  if (!find_path(out->path, &why)) {
    snprintf(out->unused, sizeof out->unused, "%s", why);
    return -1;
  }
  int root = trust_open_own(out->path, false, &distrust);
  if (root >= 0 || (!distrust.distrusted && lstat(out->path, &is) != 0))
    return root;
  bool own = strcmp(distrust.path, out->path) == 0;
  snprintf(out->unused, sizeof out->unused, "%.160s%s%s",
           own ? "" : distrust.path, own ? "" : ": ", distrust.why);
  return -1;
}

static bool survey(ArtifactTotals *out, bool verify, bool clear) {
  *out = (ArtifactTotals){0};
  Survey s = {out, verify, clear, false};
  int root = open_survey(out);
  if (root < 0)
    return true;
  visit_all(root, survey_one, &s);
  int file = open_counts(root, O_RDWR);
  close(root);
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
