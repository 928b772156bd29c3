/* tempdir: folders for temporary files, each held by who made it.
 *
 * A folder is `axon-KIND-XXXXXX` in one that others cannot change
 * (runtime/trust.h), and locked as long as it is held.  What a process left
 * that was killed is not locked: whoever makes the next one there removes it.
 */
#ifndef AXON_TEMPDIR_H
#define AXON_TEMPDIR_H

#include "runtime/trust.h"

enum { TEMPDIR_PATH = 256 };

typedef struct TempDir {
  int folder; /* the descriptor that has the lock; -1: none was made */
  bool kept;
  char path[TEMPDIR_PATH];
} TempDir;

/* False, and why: none can be made in `base`.  A kept one is never removed,
 * neither by tempdir_remove nor by others. */
bool tempdir_make(TempDir *out, const char *base, const char *kind, bool kept,
                  Distrust *why);
/* Removes it with the files in it. */
void tempdir_remove(TempDir *dir);
/* Lets it be, for another process that has it from fork. */
void tempdir_disown(TempDir *dir);

#endif
