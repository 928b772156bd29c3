/* replace: atomic replacement of a file.
 *
 * The data are first written to a temporary file beside the target.  Its name
 * begins with a dot.  Only those who may read the target may read it.  The new
 * file gets the mode, access control list and user attributes of the old one,
 * and its owner and group if permitted.  If there is no old file, the umask
 * applies.  A symbolic link stays; its target is replaced, even if missing. */
#ifndef AXON_REPLACE_H
#define AXON_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

typedef struct Replacement {
  int fd;       /* the temporary file; replace_finish closes it */
  char *temp;   /* name of the temporary file */
  char *target; /* name of the target, which is not a link */
  mode_t mode;
  bool there; /* true if the target exists; then `old` is its status */
  struct stat old;
} Replacement;

/* These functions return false with errno on failure. `mode` is the mode of a
 * new file, as for open.  If it has execute bits, a replaced file may keep its
 * own.  Refused are folders (EISDIR), other targets that are not regular files
 * (EINVAL), and files that the process may not write, unless the mode says that
 * nobody may. */
bool replace_begin(Replacement *r, const char *path, mode_t mode);
bool replace_write(Replacement *r, const void *at, size_t len);
/* On success the new file is complete, on disk and in place.  On failure
 * nothing has changed. */
bool replace_finish(Replacement *r);
/* Keeps the old file; preserves errno. */
void replace_drop(Replacement *r);

/* Replaces the content of the file by these bytes. */
bool replace_file(const char *path, mode_t mode, const void *at, size_t len);

#endif
