/* Temporary directories: created, locked, removed.  Abandoned directories of
 * other processes are removed, too.
 *
 * flock belongs to the open file.  So a child of fork that continues to use a
 * directory holds the lock after its parent has ended.  A process number would
 * not do, since it means little in another container. */
#define _GNU_SOURCE
#include "runtime/temp_dir.h"
#include "support/compiler.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  RANDOM_LETTERS = 6, /* of mkdtemp */
  /* Seconds for the creator to lock it, and for its compiler. */
  MIN_STALE_SECONDS = 60,
  MAX_SCANNED_NAMES = 20000, /* directory entries that a sweep reads */
};

static const char prefix[] = "axon-", persistent_prefix[] = "axon-kept-";
static const char *const kinds[] = {"job-", "build-"};

/* ---- abandoned directories ---- */

static bool is_temp_dir_name(const char *name) {
  if (strncmp(name, prefix, sizeof prefix - 1) != 0)
    return false;
  name += sizeof prefix - 1;
  for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
    size_t len = strlen(kinds[k]);
    if (strncmp(name, kinds[k], len) != 0 ||
        strlen(name) != len + RANDOM_LETTERS)
      continue;
    for (name += len; isalnum((unsigned char)*name);)
      name++;
    return !*name;
  }
  return false;
}

static void remove_files(int dir_fd) {
  int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = list_fd < 0 ? NULL : fdopendir(list_fd);
  if (!list && list_fd >= 0)
    close(list_fd);
  for (struct dirent *file; list && (file = readdir(list));)
    unlinkat(dir_fd, file->d_name, 0);
  if (list)
    closedir(list);
}

static bool is_abandoned(int dir_fd) {
  struct stat info;
  return fstat(dir_fd, &info) == 0 && info.st_uid == geteuid() &&
         info.st_mtim.tv_sec + MIN_STALE_SECONDS < time(NULL) &&
         flock(dir_fd, LOCK_EX | LOCK_NB) == 0;
}

static void sweep_entry(int base, const char *name) {
  int dir_fd = openat(
      base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (dir_fd < 0)
    return;
  if (is_abandoned(dir_fd)) {
    remove_files(dir_fd);
    unlinkat(base, name, AT_REMOVEDIR);
  }
  close(dir_fd);
}

static void sweep_folder(int base) {
  int list_fd = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = list_fd < 0 ? NULL : fdopendir(list_fd);
  if (!list && list_fd >= 0)
    close(list_fd);
  struct dirent *entry;
  for (int n = 0; list && n < MAX_SCANNED_NAMES && (entry = readdir(list)); n++)
    if (is_temp_dir_name(entry->d_name))
      sweep_entry(base, entry->d_name);
  if (list)
    closedir(list);
}

typedef enum SweepState {
  SWEEP_UNKNOWN, /* no directory was created */
  SWEEP_SETTING, /* a thread writes the path */
  SWEEP_PENDING,
  SWEEP_DONE,
} SweepState;

/* The folder of the first temporary directory, which is swept once.  There is
 * no lock, which a child of fork could find locked. */
static struct {
  _Atomic int state; /* a SweepState */
  char path[TEMP_DIR_PATH_BYTES];
  pid_t process; /* that created the directory */
} swept;

static bool advance_sweep(SweepState from, SweepState to) {
  int expected = from;
  return atomic_compare_exchange_strong(&swept.state, &expected, to);
}

static void remember_folder(const char *base) {
  if (!advance_sweep(SWEEP_UNKNOWN, SWEEP_SETTING))
    return;
  swept.process = getpid();
  int len = snprintf(swept.path, sizeof swept.path, "%s", base);
  advance_sweep(SWEEP_SETTING,
                len < (int)sizeof swept.path ? SWEEP_PENDING : SWEEP_UNKNOWN);
}

void temp_dir_sweep(void) {
  TrustFailure ignored;
  int base = advance_sweep(SWEEP_PENDING, SWEEP_DONE)
                 ? trusted_dir_open(swept.path, false, &ignored)
                 : -1;
  if (base < 0)
    return;
  sweep_folder(base);
  close(base);
}

/* Children of fork leave it to the process itself. */
__attribute__((destructor)) static void sweep_at_exit(void) {
  if (swept.process == getpid())
    temp_dir_sweep();
}

/* ---- one directory ---- */

static bool create_in(TempDir *out, const char *base, const char *kind) {
  int len = snprintf(out->path, sizeof out->path, "%s/%s%s%sXXXXXX", base,
                     out->persistent ? persistent_prefix : prefix,
                     out->persistent ? "" : kind, out->persistent ? "" : "-");
  if (len >= TEMP_DIR_PATH_BYTES) {
    errno = ENAMETOOLONG;
    return false;
  }
  if (!mkdtemp(out->path))
    return false;
  out->lock_fd = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (out->lock_fd >= 0) {
    flock(out->lock_fd, LOCK_EX | LOCK_NB);
    return true;
  }
  int error = errno;
  rmdir(out->path);
  errno = error;
  return false;
}

bool temp_dir_create(TempDir *out, const char *base, const char *kind,
                     bool persistent, TrustFailure *failure) {
  *out = (TempDir){.lock_fd = -1, .persistent = persistent};
  int dir_fd = trusted_dir_open(base, false, failure);
  if (dir_fd < 0)
    return false;
  bool good = create_in(out, base, kind);
  if (good)
    remember_folder(base);
  else
    failure->reason = strerror(errno);
  close(dir_fd);
  return good;
}

void temp_dir_remove(TempDir *dir) {
  if (dir->lock_fd < 0)
    return;
  if (!dir->persistent) {
    remove_files(dir->lock_fd);
    rmdir(dir->path);
  }
  temp_dir_disown(dir);
}

void temp_dir_disown(TempDir *dir) {
  if (dir->lock_fd >= 0)
    close(dir->lock_fd);
  dir->lock_fd = -1;
}
