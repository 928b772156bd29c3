/* temp_dir: folders for temporary files.
 *
 * A folder is named `axon-KIND-XXXXXX` and lies in a trusted folder
 * (runtime/trusted_dir.h).  It is locked while in use.  The folder of a killed
 * process is not locked; another process that creates one there removes it. */
#ifndef AXON_TEMP_DIR_H
#define AXON_TEMP_DIR_H

#include "runtime/trusted_dir.h"

enum { TEMP_DIR_PATH_BYTES = 256 };

typedef struct TempDir {
  int lock_fd; /* descriptor that holds the lock; -1: no folder */
  bool persistent;
  char path[TEMP_DIR_PATH_BYTES];
} TempDir;

/* Returns false with the reason if no folder can be made in `base`.  A kept
 * folder is never removed, neither by temp_dir_remove nor by others. */
bool temp_dir_create(TempDir *out, const char *base, const char *kind,
                     bool persistent, TrustFailure *why);
/* Removes the folder and its files. */
void temp_dir_remove(TempDir *dir);
/* Removes the folders of killed processes beside the first one that this
 * process created.  It reads all names there, which takes long in a large
 * folder.  So call it while there is nothing else to do.  Only the first call
 * has an effect; the end of the process calls it. */
void temp_dir_sweep(void);
/* Keeps the folder for another process that got it by fork. */
void temp_dir_disown(TempDir *dir);

#endif
