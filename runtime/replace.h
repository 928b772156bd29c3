/* replace: a file that takes another's place when it is whole.
 *
 * What is written is beside it meanwhile, under a name that begins with a dot,
 * and can be read by nobody who cannot read the file itself.  The new file has
 * the mode of the old one, its owner and group where we may give them away, its
 * access control list and the attributes that users gave it.  A new one has
 * what the umask leaves.  A symbolic link stays; what it leads to is replaced,
 * be it there or not. */
#ifndef AXON_REPLACE_H
#define AXON_REPLACE_H

#include "support/support.h"

#include <sys/stat.h>

typedef struct Replacement {
  int fd;       /* of the file that is written; replace_finish closes it */
  char *temp;   /* its name */
  char *target; /* what it is to replace, which is no link */
  mode_t mode;
  bool there; /* what is to be replaced: old */
  struct stat old;
} Replacement;

/* All of these are false with errno.  `mode` is what open takes for a new file;
 * one that is replaced may be executed if a new one might be.  What is there
 * and no regular file is refused (EINVAL), and so is what we may not write to,
 * unless the mode says that nobody may. */
bool replace_begin(Replacement *r, const char *path, mode_t mode);
bool replace_write(Replacement *r, const void *at, size_t len);
/* Either it is in its place, on the disk and whole, or nothing has changed. */
bool replace_finish(Replacement *r);
/* Leaves what was there; errno stays. */
void replace_drop(Replacement *r);

/* All of it: these bytes. */
bool replace_file(const char *path, mode_t mode, const void *at, size_t len);

#endif
