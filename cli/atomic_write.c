/* Atomic writes: a file is written completely, or stays unchanged.  Main entry
   point: atomic_write. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "runtime/replace.h"
#include "support/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes to a device or a pipe, which cannot be replaced by a file. */
static bool write_in_place(const char *path, const void *at, size_t len) {
  Replacement to = {.fd = open(path, O_WRONLY | O_CLOEXEC)};
  bool ok = to.fd >= 0 && replace_write(&to, at, len);
  int saved_errno = errno;
  if (to.fd >= 0 && close(to.fd) != 0 && ok)
    return false;
  errno = saved_errno;
  return ok;
}

bool atomic_write(const char *path, const Buffer *text) {
  struct stat info;
  const char *at = text->text ? text->text : "";
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return write_in_place(path, at, text->len);
  return replace_file(path, 0666, at, text->len);
}

bool host_move(const char *from, const char *path) {
  char some[1 << 16];
  struct stat info;
  Replacement r;
  int fd = open(from, O_RDONLY | O_CLOEXEC);
  ssize_t n = 0;
  bool ok = fd >= 0 && fstat(fd, &info) == 0 &&
            replace_begin(&r, path, 0666 | (info.st_mode & 0111));
  if (ok) {
    while ((n = read(fd, some, sizeof some)) > 0 &&
           replace_write(&r, some, (size_t)n))
      ;
    ok = n == 0 && replace_finish(&r);
    replace_drop(&r);
  }
  int saved_errno = errno;
  if (fd >= 0)
    close(fd);
  errno = saved_errno;
  return ok;
}
