/* Atomic replacement: a new file takes the place of an old one when it is
 * complete. */
#define _GNU_SOURCE
#include "runtime/replace.h"
#include "support/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { LINKS_MOST = 40, RIGHTS = 07777 };

static const char acl[] = "system.posix_acl_access";

static void *room(size_t size) {
  errno = ENOMEM;
  return mem_try_alloc(size);
}

static int folder_len(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (int)(slash - path) + 1 : 0;
}

/* ---- the old file ---- */

/* Resolves a symbolic link, relative to the current directory. */
static bool follow(const char *link, char to[PATH_MAX]) {
  char said[PATH_MAX];
  ssize_t len = readlink(link, said, sizeof said - 1);
  if (len < 0)
    return false;
  said[len] = 0;
  int folder = said[0] == '/' ? 0 : folder_len(link);
  if (snprintf(to, PATH_MAX, "%.*s%s", folder, link, said) < PATH_MAX)
    return true;
  errno = ENAMETOOLONG;
  return false;
}

/* The path of a file, or the path it would have: a link may lead to a file that
 * does not exist. */
static char *find_target(const char *path) {
  char at[PATH_MAX], to[PATH_MAX];
  char *real = realpath(path, NULL);
  if (real || errno != ENOENT)
    return real;
  if (snprintf(at, sizeof at, "%s", path) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  for (int links = 0; links < LINKS_MOST; links++) {
    struct stat info;
    if (lstat(at, &info) != 0 || !S_ISLNK(info.st_mode)) {
      char *copy = room(strlen(at) + 1);
      return copy ? strcpy(copy, at) : NULL;
    }
    if (!follow(at, to))
      return NULL;
    strcpy(at, to);
  }
  errno = ELOOP;
  return NULL;
}

/* Returns 0 if there is none, and -1 if it must not be replaced. */
static int look(const char *target, mode_t mode, struct stat *old) {
  if (stat(target, old) != 0)
    return errno == ENOENT ? 0 : -1;
  if (!S_ISREG(old->st_mode)) {
    errno = S_ISDIR(old->st_mode) ? EISDIR : EINVAL;
    return -1;
  }
  if (mode & 0222 && faccessat(AT_FDCWD, target, W_OK, AT_EACCESS) != 0)
    return -1;
  return 1;
}

/* ---- the new file ---- */

static bool open_beside(Replacement *r, mode_t mode) {
  static _Atomic uint32_t serial;
  size_t size = strlen(r->target) + 64;
  r->temp = room(size);
  do {
    if (!r->temp)
      return false;
    snprintf(r->temp, size, "%.*s.axon-%ld-%u.tmp", folder_len(r->target),
             r->target, (long)getpid(), atomic_fetch_add(&serial, 1) + 1);
    r->fd = open(r->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  } while (r->fd < 0 && errno == EEXIST);
  return r->fd >= 0;
}

/* Until it is in place, only its owner can access the file.  If there is no old
 * file, it has its final rights from the start. */
bool replace_begin(Replacement *r, const char *path, mode_t mode) {
  *r = (Replacement){.fd = -1, .mode = mode, .target = find_target(path)};
  int there = r->target ? look(r->target, mode, &r->old) : -1;
  r->there = there > 0;
  if (there >= 0 && open_beside(r, there ? 0600 : mode))
    return true;
  replace_drop(r);
  return false;
}

bool replace_write(Replacement *r, const void *at, size_t len) {
  const char *from = at;
  while (len > 0) {
    ssize_t n = write(r->fd, from, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    from += n;
    len -= (size_t)n;
  }
  return true;
}

/* ---- permissions ---- */

/* Returns NULL if there is no such attribute, or no memory.  `len` is -1 for
 * the first try. */
static void *attribute(const char *path, const char *name, ssize_t *len) {
  *len = getxattr(path, name, NULL, 0);
  void *value = *len < 0 ? NULL : room((size_t)*len + 1);
  if (value)
    *len = getxattr(path, name, value, (size_t)*len);
  if (value && *len >= 0)
    return value;
  mem_free(value);
  return NULL;
}

static bool copy_attribute(const Replacement *r, const char *name) {
  ssize_t len;
  void *value = attribute(r->target, name, &len);
  bool good =
      len < 0 || (value && fsetxattr(r->fd, name, value, (size_t)len, 0) == 0);
  mem_free(value);
  return good;
}

/* Copies user attributes.  Other attributes belong to the system and describe
 * the old contents. */
static void copy_attributes(const Replacement *r) {
  ssize_t size = listxattr(r->target, NULL, 0);
  char *names = size > 0 ? room((size_t)size) : NULL;
  size = names ? listxattr(r->target, names, (size_t)size) : 0;
  for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
    if (strncmp(names + at, "user.", 5) == 0)
      copy_attribute(r, names + at);
  mem_free(names);
}

/* Reduces the rights of the group to those of others. */
static mode_t without_group(mode_t mode) {
  mode_t others = (mode & 07) << 3;
  return (mode & ~(mode_t)0070) | (mode & others);
}

/* The order guarantees that nobody ever has more rights than in the end.
 * Changing the owner drops mode bits, and the bits of the group limit an access
 * control list. */
static bool take_rights(const Replacement *r) {
  const struct stat *old = &r->old;
  struct stat is;
  mode_t mode = old->st_mode & RIGHTS;
  mode |= r->mode & 0111 ? (mode & 0444) >> 2 & r->mode : 0;
  if (fstat(r->fd, &is) != 0)
    return false;
  bool owner = is.st_uid == old->st_uid, group = is.st_gid == old->st_gid;
  if (!owner || !group)
    owner = group = fchown(r->fd, old->st_uid, old->st_gid) == 0;
  if (!group)
    group =
        is.st_gid == old->st_gid || fchown(r->fd, (uid_t)-1, old->st_gid) == 0;
  if (!owner || !group)
    mode &= 0777;
  copy_attributes(r);
  /* The default list that a folder gives to new files. */
  fremovexattr(r->fd, acl);
  if (!group || !copy_attribute(r, acl))
    mode = without_group(mode);
  return fchmod(r->fd, mode) == 0;
}

/* A library may have put a file of its own in the place of the new file. */
static bool open_again(Replacement *r) {
  struct stat is;
  if (fstat(r->fd, &is) != 0)
    return false;
  if (is.st_nlink)
    return true;
  int fd = open(r->temp, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return false;
  close(r->fd);
  r->fd = fd;
  return true;
}

/* ---- completion ---- */

/* All data are on the disk before the new name is. */
bool replace_finish(Replacement *r) {
  struct stat now;
  int there = look(r->target, r->mode, &now);
  if (there > 0) {
    r->old = now;
    r->there = true;
  }
  bool good = there >= 0 && open_again(r) && (!r->there || take_rights(r)) &&
              fsync(r->fd) == 0;
  if (good) {
    good = close(r->fd) == 0;
    r->fd = -1;
  }
  good = good && rename(r->temp, r->target) == 0;
  if (good) {
    mem_free(r->temp);
    r->temp = NULL;
  }
  replace_drop(r);
  return good;
}

void replace_drop(Replacement *r) {
  int error = errno;
  bool made = r->fd >= 0;
  if (made)
    close(r->fd);
  if (r->temp)
    unlink(r->temp);
  mem_free(r->temp);
  mem_free(r->target);
  *r = (Replacement){.fd = -1};
  errno = error;
}

bool replace_file(const char *path, mode_t mode, const void *at, size_t len) {
  Replacement r;
  if (!replace_begin(&r, path, mode))
    return false;
  if (replace_write(&r, at, len))
    return replace_finish(&r);
  replace_drop(&r);
  return false;
}
