/* Main entry points: file_open_regular, file_open_stream. */
#include "support/file_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int close_for(int fd, int error) {
  close(fd);
  errno = error;
  return -1;
}

/* The flag O_NONBLOCK is only for the opening: readers of streams wait. */
static int open_file(const char *path, bool takes_streams, struct stat *info) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return -1;
  if (fstat(fd, info) != 0)
    return close_for(fd, errno);
  if (S_ISREG(info->st_mode))
    return fd;
  if (S_ISDIR(info->st_mode))
    return close_for(fd, EISDIR);
  if (!takes_streams)
    return close_for(fd, EINVAL);
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
    return close_for(fd, errno);
  return fd;
}

int file_open_regular(const char *path, size_t *size) {
  struct stat info;
  int fd = open_file(path, false, &info);
  if (fd >= 0 && size)
    *size = (size_t)info.st_size;
  return fd;
}

int file_open_stream(const char *path) {
  struct stat info;
  bool is_system =
      strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
  return open_file(path, is_system, &info);
}

const char *file_open_error(int error) {
  return error == EINVAL   ? "it is not a regular file"
         : error == EISDIR ? "it is a directory"
                           : strerror(error);
}
