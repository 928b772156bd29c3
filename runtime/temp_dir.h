/* tempdir: folders for temporary files, each held by who made it.
 *
 * A folder is `axon-KIND-XXXXXX` in one that others cannot change
 * (runtime/trusted_dir.h), and locked as long as it is held.  What a process
 * left that was killed is not locked: whoever makes the next one there removes
 * it.
 */
#ifndef AXON_TEMP_DIR_H
#define AXON_TEMP_DIR_H

#include "runtime/trusted_dir.h"

enum { TEMP_DIR_PATH_BYTES = 256 };

typedef struct TempDir {
  int lock_fd; /* the descriptor that has the lock; -1: none was made */
  bool persistent;
  char path[TEMP_DIR_PATH_BYTES];
} TempDir;

/* False, and why: none can be made in `base`.  A kept one is never removed,
 * neither by temp_dir_remove nor by others. */
bool temp_dir_create(TempDir *out, const char *base, const char *kind,
                     bool persistent, TrustFailure *why);
/* Removes it with the files in it. */
void temp_dir_remove(TempDir *dir);
/* Lets it be, for another process that has it from fork. */
void temp_dir_disown(TempDir *dir);

#endif
