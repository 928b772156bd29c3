/* trusted_dir: folders that no other user can change or replace.
 *
 * A folder can be trusted if it and all its parents belong to this user or to
 * root, and nobody else may write to them.  A parent with the sticky bit, such
 * as /tmp, may be writable: there our files stay ours.  Symbolic links are
 * followed if this user or root made them.  Each step uses the descriptor of
 * the previous folder, so that the checked folder is the one that is used. */
#ifndef AXON_TRUSTED_DIR_H
#define AXON_TRUSTED_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum { TRUSTED_PATH_BYTES = 4096 };

typedef struct TrustFailure {    /* Why there is no folder. */
  bool is_untrusted;             /* others can change the folder or a parent */
  char path[TRUSTED_PATH_BYTES]; /* the folder at fault */
  const char *reason;            /* such as "its group may write there" */
} TrustFailure;

/* Opens the folder.  Returns a descriptor, or -1. create: makes it and missing
 * parents, private to the user.  The last folder may have the sticky bit. */
int trusted_dir_open(const char *path, bool create, TrustFailure *out);
/* The same for a folder that belongs to this user.  Removes write permissions
 * of others. */
int trusted_dir_open_private(const char *path, bool create, TrustFailure *out);
/* The same for a folder in such a folder. `name` is not a link. */
int trusted_dir_open_private_at(int dir_fd, const char *name, bool create,
                                const char **why);

/* Writes all bytes, also after an interrupted write. */
bool trust_write(int file, const void *at, size_t len);
/* Replaces the file `name` of a trusted folder atomically. */
bool trust_replace(int dir_fd, const char *name, mode_t mode, const void *at,
                   size_t len);

/* Warns once (W0515) that something is not used: "kernels are not kept". */
void trust_failure_warn(const TrustFailure *why, const char *what,
                        const char *help);

#endif
