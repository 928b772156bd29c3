/* trust: folders that nobody else can change, nor put another in the place of.
 *
 * A folder can be trusted when it and each folder on the way to it belong to
 * this user or to root, and nobody else may write to them.  Others may write
 * to one on the way where it has the sticky bit, as /tmp has: what is ours
 * there stays ours.  A link on the way is followed where this user or root
 * made it.  The way is gone from descriptor to descriptor, so that what was
 * looked at is what is used. */
#ifndef AXON_TRUST_H
#define AXON_TRUST_H

#include "support/support.h"

#include <sys/stat.h>

enum { TRUST_PATH = 4096 };

typedef struct Distrust { /* why there is no folder */
  bool distrusted; /* it, or one on the way, is one that others can change */
  char path[TRUST_PATH]; /* the one that is at fault */
  const char *why;       /* "its group may write there" */
} Distrust;

/* A descriptor of the folder, -1 where there is none.  `make`: with those on
 * the way that are missing, which are made private.  The last one may be one
 * with the sticky bit. */
int trust_open(const char *path, bool make, Distrust *out);
/* The same for a folder that belongs to this user; where others may do
 * anything there they may not any more. */
int trust_open_own(const char *path, bool make, Distrust *out);
/* The same for a folder in one that is such: `name` is no link. */
int trust_open_in(int folder, const char *name, bool make, const char **why);

/* Writes all bytes, also after an interrupted write. */
bool trust_write(int file, const void *at, size_t len);
/* Replaces the file `name` of a trusted folder, at once or not at all. */
bool trust_replace(int folder, const char *name, mode_t mode, const void *at,
                   size_t len);

/* Tells once (W0515) that something is not used: "kernels are not kept". */
void trust_tell(const Distrust *why, const char *what, const char *help);

#endif
