/* Folders on the way to one, each looked at through its descriptor. */
#define _GNU_SOURCE
#include "runtime/trust.h"

#include "runtime/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MOST = 40 };

static const char foreign[] = "it belongs to another user",
                  open_to_all[] = "others may write there",
                  open_to_group[] = "its group may write there",
                  no_folder[] = "it is no folder";

/* ---- whom we trust ---- */

/* Where users are mapped, as in a container without the rights of root, root's
 * files seem to be somebody's.  Who owns "/" could change all we run. */
static bool is_trusted(uid_t user) {
  struct stat top;
  return user == geteuid() || user == 0 ||
         (stat("/", &top) == 0 && user == top.st_uid);
}

/* A user's own group, as many systems make one for each: of the same number,
 * and without other members. */
static bool is_private_group(const struct stat *is) {
  char text[1024];
  struct group group, *found = NULL;
  if (is->st_gid != is->st_uid ||
      getgrgid_r(is->st_gid, &group, text, sizeof text, &found) != 0 || !found)
    return false;
  for (char **member = found->gr_mem; *member; member++)
    if (strcmp(*member, found->gr_name) != 0)
      return false;
  return true;
}

/* NULL: nobody else can change what is ours there. */
static const char *fault_of(const struct stat *is) {
  if (!S_ISDIR(is->st_mode))
    return no_folder;
  if (!is_trusted(is->st_uid))
    return foreign;
  if (!(is->st_mode & 022) || (is->st_mode & S_ISVTX))
    return NULL;
  if (is->st_mode & 002)
    return open_to_all;
  return is_private_group(is) ? NULL : open_to_group;
}

/* ---- the way ---- */

typedef struct Walk {
  int at;                /* of the folder that was reached (O_PATH) */
  char rest[TRUST_PATH]; /* what is still to be gone */
  int links;
  bool make;
  Distrust *out; /* its path is where we are */
} Walk;

static bool fail(Walk *w, const char *why) {
  w->out->distrusted =
      why == foreign || why == open_to_all || why == open_to_group;
  w->out->why = why;
  return false;
}

/* The name goes behind the path, "..", takes the last one away. */
static bool note_name(Walk *w, const char *name) {
  char *path = w->out->path;
  size_t len = strlen(path);
  if (strcmp(name, "..") == 0) {
    char *slash = strrchr(path, '/');
    if (slash)
      *slash = 0;
    return true;
  }
  if (len + strlen(name) + 2 > TRUST_PATH)
    return fail(w, strerror(ENAMETOOLONG));
  path[len] = '/';
  memcpy(path + len + 1, name, strlen(name) + 1);
  return true;
}

static bool enter(Walk *w, int folder) {
  struct stat is;
  if (w->at >= 0)
    close(w->at);
  w->at = folder;
  if (folder < 0 || fstat(folder, &is) != 0)
    return fail(w, strerror(errno));
  const char *why = fault_of(&is);
  return !why || fail(w, why);
}

static bool enter_top(Walk *w) {
  w->out->path[0] = 0;
  return enter(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* What the link says comes before the rest. */
static bool follow(Walk *w, int link, const struct stat *is) {
  char to[TRUST_PATH];
  if (!is_trusted(is->st_uid))
    return fail(w, foreign);
  if (++w->links > LINKS_MOST)
    return fail(w, strerror(ELOOP));
  ssize_t len = readlinkat(link, "", to, sizeof to);
  if (len <= 0 || (size_t)len + strlen(w->rest) + 2 > sizeof to)
    return fail(w, strerror(len < 0 ? errno : ENAMETOOLONG));
  to[len++] = '/';
  memcpy(to + len, w->rest, strlen(w->rest) + 1);
  memcpy(w->rest, to, strlen(to) + 1);
  note_name(w, "..");
  return to[0] != '/' || enter_top(w);
}

/* O_DIRECTORY makes what is mounted on demand be there; a link is no folder to
 * it. */
static int open_name(const Walk *w, const char *name) {
  enum { HOW = O_PATH | O_NOFOLLOW | O_CLOEXEC };
  int file = openat(w->at, name, HOW | O_DIRECTORY);
  if (file < 0 && errno == ENOENT && w->make) {
    if (mkdirat(w->at, name, 0700) != 0 && errno != EEXIST)
      return -1;
    file = openat(w->at, name, HOW | O_DIRECTORY);
  }
  return file < 0 && errno == ENOTDIR ? openat(w->at, name, HOW) : file;
}

static bool step(Walk *w, const char *name) {
  struct stat is;
  int file = open_name(w, name);
  int error = errno;
  if (!note_name(w, name)) {
    if (file >= 0)
      close(file);
    return false;
  }
  if (file < 0)
    return fail(w, strerror(error));
  if (fstat(file, &is) != 0 || !S_ISLNK(is.st_mode))
    return enter(w, file);
  bool good = follow(w, file, &is);
  close(file);
  return good;
}

/* Takes the next name off the rest; false: there is none. */
static bool next_name(Walk *w, char name[TRUST_PATH]) {
  const char *from = w->rest + strspn(w->rest, "/");
  size_t len = strcspn(from, "/");
  memcpy(name, from, len);
  name[len] = 0;
  memmove(w->rest, from + len, strlen(from + len) + 1);
  return len > 0;
}

int trust_open(const char *path, bool make, Distrust *out) {
  Walk w = {.at = -1, .make = make, .out = out};
  char name[TRUST_PATH];
  *out = (Distrust){0};
  if (*path != '/' || strlen(path) >= sizeof w.rest) {
    snprintf(out->path, sizeof out->path, "%s", path);
    fail(&w, *path == '/' ? strerror(ENAMETOOLONG) : "it is no whole path");
    return -1;
  }
  memcpy(w.rest, path, strlen(path) + 1);
  bool good = enter_top(&w);
  while (good && next_name(&w, name))
    good = strcmp(name, ".") == 0 || step(&w, name);
  int folder = -1;
  if (good) {
    folder = openat(w.at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
      fail(&w, strerror(errno));
  }
  if (w.at >= 0)
    close(w.at);
  if (!out->path[0])
    strcpy(out->path, "/");
  return folder;
}

/* ---- one that is ours ---- */

/* Closes it, or makes sure that it is for this user alone. */
static int own(int folder, const char **why) {
  struct stat is;
  if (fstat(folder, &is) != 0)
    *why = strerror(errno);
  else if (!S_ISDIR(is.st_mode))
    *why = no_folder;
  else if (is.st_uid != geteuid())
    *why = foreign;
  else if ((is.st_mode & 077) && fchmod(folder, 0700) != 0)
    *why = open_to_all;
  else
    return folder;
  close(folder);
  return -1;
}

int trust_open_own(const char *path, bool make, Distrust *out) {
  int folder = trust_open(path, make, out);
  if (folder < 0 || (folder = own(folder, &out->why)) >= 0)
    return folder;
  out->distrusted = out->why == foreign || out->why == open_to_all;
  return -1;
}

int trust_open_in(int folder, const char *name, bool make, const char **why) {
  enum { HOW = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
  *why = NULL;
  int in = openat(folder, name, HOW);
  if (in < 0 && errno == ENOENT && make) {
    mkdirat(folder, name, 0700);
    in = openat(folder, name, HOW);
  }
  return in < 0 ? -1 : own(in, why);
}

/* ---- told ---- */

void trust_tell(const Distrust *why, const char *what, const char *help) {
  Notice n = {.code = 515};
  if (!why->distrusted)
    return;
  snprintf(n.message, sizeof n.message, "%s", what);
  snprintf(n.note, sizeof n.note, "%.400s: %s", why->path, why->why);
  snprintf(n.help, sizeof n.help, "%s", help);
  notice_add(&n);
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

bool trust_replace(int folder, const char *name, mode_t mode, const void *at,
                   size_t len) {
  char made[TRUST_PATH];
  int size = snprintf(made, sizeof made, ".%s.%ld", name, (long)getpid());
  if (folder < 0 || size >= TRUST_PATH)
    return false;
  unlinkat(folder, made, 0); /* left by a process of this number */
  int file =
      openat(folder, made, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
  if (file < 0)
    return false;
  bool good = trust_write(file, at, len);
  good = close(file) == 0 && good && renameat(folder, made, folder, name) == 0;
  if (!good)
    unlinkat(folder, made, 0);
  return good;
}
