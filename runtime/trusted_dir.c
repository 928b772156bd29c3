/* Checks a path for trust: each folder on the way is opened and checked through
 * its descriptor. */
#define _GNU_SOURCE
#include "runtime/trusted_dir.h"

#include "runtime/warn_once.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SYMLINK_HOPS = 40 };

static const char other_owner[] = "it belongs to another user",
                  world_writable[] = "other users can write to it",
                  group_writable[] = "its group can write to it",
                  not_a_directory[] = "it is not a folder";

/* ---- trusted users ---- */

/* If users are mapped, as in a container without root, files of root seem to
 * belong to somebody else.  We trust the owner of "/", who could change all
 * programs anyway. */
static bool is_trusted_owner(uid_t user) {
  struct stat top;
  return user == geteuid() || user == 0 ||
         (stat("/", &top) == 0 && user == top.st_uid);
}

/* A private group of the user, as many systems create: it has the number of the
 * user and no other members. */
static bool is_private_group(const struct stat *info) {
  char text[1024];
  struct group group, *found = NULL;
  if (info->st_gid != info->st_uid ||
      getgrgid_r(info->st_gid, &group, text, sizeof text, &found) != 0 ||
      !found)
    return false;
  for (char **member = found->gr_mem; *member; member++)
    if (strcmp(*member, found->gr_name) != 0)
      return false;
  return true;
}

/* Returns NULL if nobody else can change our files in the folder. */
static const char *distrust_reason(const struct stat *info) {
  if (!S_ISDIR(info->st_mode))
    return not_a_directory;
  if (!is_trusted_owner(info->st_uid))
    return other_owner;
  if (!(info->st_mode & 022) || (info->st_mode & S_ISVTX))
    return NULL;
  if (info->st_mode & 002)
    return world_writable;
  return is_private_group(info) ? NULL : group_writable;
}

/* ---- the path ---- */

typedef struct PathWalk {
  int dir_fd;                         /* the folder reached so far (O_PATH) */
  char remaining[TRUSTED_PATH_BYTES]; /* the rest of the path */
  int symlink_hops;
  bool create;
  TrustFailure *out; /* its path is that of dir_fd */
} PathWalk;

static bool fail(PathWalk *w, const char *why) {
  w->out->is_untrusted =
      why == other_owner || why == world_writable || why == group_writable;
  w->out->reason = why;
  return false;
}

/* Appends the name to the path; ".." removes the last name. */
static bool append_component(PathWalk *w, const char *name) {
  char *path = w->out->path;
  size_t len = strlen(path);
  if (strcmp(name, "..") == 0) {
    char *slash = strrchr(path, '/');
    if (slash)
      *slash = 0;
    return true;
  }
  if (len + strlen(name) + 2 > TRUSTED_PATH_BYTES)
    return fail(w, strerror(ENAMETOOLONG));
  path[len] = '/';
  memcpy(path + len + 1, name, strlen(name) + 1);
  return true;
}

static bool enter_directory(PathWalk *w, int dir_fd) {
  struct stat info;
  if (w->dir_fd >= 0)
    close(w->dir_fd);
  w->dir_fd = dir_fd;
  if (dir_fd < 0 || fstat(dir_fd, &info) != 0)
    return fail(w, strerror(errno));
  const char *why = distrust_reason(&info);
  return !why || fail(w, why);
}

static bool enter_root(PathWalk *w) {
  w->out->path[0] = 0;
  return enter_directory(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* The target of the link is put before the rest of the path. */
static bool follow_symlink(PathWalk *w, int link, const struct stat *info) {
  char to[TRUSTED_PATH_BYTES];
  if (!is_trusted_owner(info->st_uid))
    return fail(w, other_owner);
  if (++w->symlink_hops > MAX_SYMLINK_HOPS)
    return fail(w, strerror(ELOOP));
  ssize_t len = readlinkat(link, "", to, sizeof to);
  if (len <= 0 || (size_t)len + strlen(w->remaining) + 2 > sizeof to)
    return fail(w, strerror(len < 0 ? errno : ENAMETOOLONG));
  to[len++] = '/';
  memcpy(to + len, w->remaining, strlen(w->remaining) + 1);
  memcpy(w->remaining, to, strlen(to) + 1);
  append_component(w, "..");
  return to[0] != '/' || enter_root(w);
}

/* O_DIRECTORY triggers automounts.  A symbolic link does not count as a
 * folder. */
static int open_component(const PathWalk *w, const char *name) {
  enum { HOW = O_PATH | O_NOFOLLOW | O_CLOEXEC };
  int file = openat(w->dir_fd, name, HOW | O_DIRECTORY);
  if (file < 0 && errno == ENOENT && w->create) {
    if (mkdirat(w->dir_fd, name, 0700) != 0 && errno != EEXIST)
      return -1;
    file = openat(w->dir_fd, name, HOW | O_DIRECTORY);
  }
  return file < 0 && errno == ENOTDIR ? openat(w->dir_fd, name, HOW) : file;
}

static bool walk_component(PathWalk *w, const char *name) {
  struct stat info;
  int file = open_component(w, name);
  int error = errno;
  if (!append_component(w, name)) {
    if (file >= 0)
      close(file);
    return false;
  }
  if (file < 0)
    return fail(w, strerror(error));
  if (fstat(file, &info) != 0 || !S_ISLNK(info.st_mode))
    return enter_directory(w, file);
  bool good = follow_symlink(w, file, &info);
  close(file);
  return good;
}

/* Takes the next name off the rest.  Returns false if there is none. */
static bool next_component(PathWalk *w, char name[TRUSTED_PATH_BYTES]) {
  const char *from = w->remaining + strspn(w->remaining, "/");
  size_t len = strcspn(from, "/");
  memcpy(name, from, len);
  name[len] = 0;
  memmove(w->remaining, from + len, strlen(from + len) + 1);
  return len > 0;
}

int trusted_dir_open(const char *path, bool create, TrustFailure *out) {
  PathWalk w = {.dir_fd = -1, .create = create, .out = out};
  char name[TRUSTED_PATH_BYTES];
  *out = (TrustFailure){0};
  if (*path != '/' || strlen(path) >= sizeof w.remaining) {
    snprintf(out->path, sizeof out->path, "%s", path);
    fail(&w,
         *path == '/' ? strerror(ENAMETOOLONG) : "it is not an absolute path");
    return -1;
  }
  memcpy(w.remaining, path, strlen(path) + 1);
  bool good = enter_root(&w);
  while (good && next_component(&w, name))
    good = strcmp(name, ".") == 0 || walk_component(&w, name);
  int dir_fd = -1;
  if (good) {
    dir_fd = openat(w.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
      fail(&w, strerror(errno));
  }
  if (w.dir_fd >= 0)
    close(w.dir_fd);
  if (!out->path[0])
    strcpy(out->path, "/");
  return dir_fd;
}

/* ---- the final folder ---- */

/* Makes the folder accessible for this user only, or closes it. */
static int restrict_to_owner(int dir_fd, const char **why) {
  struct stat info;
  if (fstat(dir_fd, &info) != 0)
    *why = strerror(errno);
  else if (!S_ISDIR(info.st_mode))
    *why = not_a_directory;
  else if (info.st_uid != geteuid())
    *why = other_owner;
  else if ((info.st_mode & 077) && fchmod(dir_fd, 0700) != 0)
    *why = world_writable;
  else
    return dir_fd;
  close(dir_fd);
  return -1;
}

int trusted_dir_open_private(const char *path, bool create, TrustFailure *out) {
  int dir_fd = trusted_dir_open(path, create, out);
  if (dir_fd < 0 || (dir_fd = restrict_to_owner(dir_fd, &out->reason)) >= 0)
    return dir_fd;
  out->is_untrusted =
      out->reason == other_owner || out->reason == world_writable;
  return -1;
}

int trusted_dir_open_private_at(int dir_fd, const char *name, bool create,
                                const char **why) {
  enum { HOW = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
  *why = NULL;
  int in = openat(dir_fd, name, HOW);
  if (in < 0 && errno == ENOENT && create) {
    mkdirat(dir_fd, name, 0700);
    in = openat(dir_fd, name, HOW);
  }
  return in < 0 ? -1 : restrict_to_owner(in, why);
}

/* ---- warnings ---- */

void trust_failure_warn(const TrustFailure *why, const char *what,
                        const char *help) {
  OnceWarning n = {.code = 515};
  if (!why->is_untrusted)
    return;
  snprintf(n.message, sizeof n.message, "%s", what);
  snprintf(n.note, sizeof n.note, "%.400s: %s", why->path, why->reason);
  snprintf(n.help, sizeof n.help, "%s", help);
  warn_once(&n);
}

/* ---- files ---- */

bool trust_write(int file, const void *at, size_t len) {
  for (const char *p = at; len > 0;) {
    ssize_t n = write(file, p, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    p += n;
    len -= (size_t)n;
  }
  return true;
}

bool trust_replace(int dir_fd, const char *name, mode_t mode, const void *at,
                   size_t len) {
  char made[TRUSTED_PATH_BYTES];
  int size = snprintf(made, sizeof made, ".%s.%ld", name, (long)getpid());
  if (dir_fd < 0 || size >= TRUSTED_PATH_BYTES)
    return false;
  /* Left by an earlier process with the same number. */
  unlinkat(dir_fd, made, 0);
  int file =
      openat(dir_fd, made, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
  if (file < 0)
    return false;
  bool good = trust_write(file, at, len);
  good = close(file) == 0 && good && renameat(dir_fd, made, dir_fd, name) == 0;
  if (!good)
    unlinkat(dir_fd, made, 0);
  return good;
}
