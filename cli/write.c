/* Files that are whole, or as they were. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, const char *text, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, text, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    text += n, len -= (size_t)n;
  }
  return true;
}

/* Those of the file that is there, or what a new one gets. */
static mode_t rights_of(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0)
    return info.st_mode & 07777;
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

/* A device or a pipe is nothing that another file could be put in place of. */
static bool write_through(const char *path, const Buffer *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool ok = fd >= 0 && write_all(fd, text->text ? text->text : "", text->len);
  int why = errno;
  if (fd >= 0 && close(fd) != 0 && ok)
    return false;
  errno = why;
  return ok;
}

bool host_write(const char *path, const Buffer *text) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return write_through(path, text);
  char *real = realpath(path, NULL);
  if (!real && errno != ENOENT)
    return false;
  const char *target = real ? real : path;
  Buffer temp = {0};
  buffer_printf(&temp, "%s.XXXXXX", target);
  int fd = mkstemp(temp.text);
  bool ok = fd >= 0 && write_all(fd, text->text ? text->text : "", text->len) &&
            fchmod(fd, rights_of(target)) == 0 && fsync(fd) == 0;
  if (fd >= 0 && close(fd) != 0)
    ok = false;
  ok = ok && rename(temp.text, target) == 0;
  int why = errno;
  if (!ok && fd >= 0)
    unlink(temp.text);
  buffer_free(&temp);
  free(real);
  errno = why;
  return ok;
}
