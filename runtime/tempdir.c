/* Made, locked, removed; and what others left.
 *
 * flock is of the open file: a child of fork that goes on with a folder holds
 * the lock after its parent has ended, and no other number, as that of a
 * process, has to be asked about, which means little from one container to the
 * next. */
#define _GNU_SOURCE
#include "runtime/tempdir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  LETTERS = 6,        /* of mkdtemp */
  STALE_SECONDS = 60, /* for who made one to lock it, and for its compiler */
  LOOK_MOST = 20000,  /* names that are looked at */
};

static const char prefix[] = "axon-", kept_prefix[] = "axon-kept-";
static const char *const kinds[] = {"job-", "build-"};

/* ---- what others left ---- */

static bool is_ours(const char *name) {
  if (strncmp(name, prefix, sizeof prefix - 1) != 0)
    return false;
  name += sizeof prefix - 1;
  for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
    size_t len = strlen(kinds[k]);
    if (strncmp(name, kinds[k], len) != 0 || strlen(name) != len + LETTERS)
      continue;
    for (name += len; isalnum((unsigned char)*name);)
      name++;
    return !*name;
  }
  return false;
}

static void remove_files(int folder) {
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  if (!list && copy >= 0)
    close(copy);
  for (struct dirent *file; list && (file = readdir(list));)
    unlinkat(folder, file->d_name, 0);
  if (list)
    closedir(list);
}

static bool is_abandoned(int folder) {
  struct stat is;
  return fstat(folder, &is) == 0 && is.st_uid == geteuid() &&
         is.st_mtim.tv_sec + STALE_SECONDS < time(NULL) &&
         flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static void sweep_one(int base, const char *name) {
  int folder = openat(
      base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (folder < 0)
    return;
  if (is_abandoned(folder)) {
    remove_files(folder);
    unlinkat(base, name, AT_REMOVEDIR);
  }
  close(folder);
}

/* Once in a process, and beside the start of a compiler that takes longer. */
static void sweep(int base) {
  static atomic_flag done = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&done))
    return;
  int copy = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  if (!list && copy >= 0)
    close(copy);
  struct dirent *entry;
  for (int n = 0; list && n < LOOK_MOST && (entry = readdir(list)); n++)
    if (is_ours(entry->d_name))
      sweep_one(base, entry->d_name);
  if (list)
    closedir(list);
}

/* ---- one ---- */

static bool make_in(TempDir *out, const char *base, const char *kind) {
  int len = snprintf(out->path, sizeof out->path, "%s/%s%s%sXXXXXX", base,
                     out->kept ? kept_prefix : prefix, out->kept ? "" : kind,
                     out->kept ? "" : "-");
  if (len >= TEMPDIR_PATH) {
    errno = ENAMETOOLONG;
    return false;
  }
  if (!mkdtemp(out->path))
    return false;
  out->folder = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (out->folder >= 0) {
    flock(out->folder, LOCK_EX | LOCK_NB);
    return true;
  }
  int error = errno;
  rmdir(out->path);
  errno = error;
  return false;
}

bool tempdir_make(TempDir *out, const char *base, const char *kind, bool kept,
                  Distrust *why) {
  *out = (TempDir){.folder = -1, .kept = kept};
  int folder = trust_open(base, false, why);
  if (folder < 0)
    return false;
  bool good = make_in(out, base, kind);
  if (good)
    sweep(folder);
  else
    why->why = strerror(errno);
  close(folder);
  return good;
}

void tempdir_remove(TempDir *dir) {
  if (dir->folder < 0)
    return;
  if (!dir->kept) {
    remove_files(dir->folder);
    rmdir(dir->path);
  }
  tempdir_disown(dir);
}

void tempdir_disown(TempDir *dir) {
  if (dir->folder >= 0)
    close(dir->folder);
  dir->folder = -1;
}
