/* The folder of artifacts; only for the files artifact*.c. */
#ifndef AXON_ARTIFACT_DIR_H
#define AXON_ARTIFACT_DIR_H

#include "runtime/artifact.h"

/* Suffix of a file that is being written. */
#define ARTIFACT_TEMP_SUFFIX ".part"

/* Opens the folder of a kind.  Returns -1 if there is none that can be
 * trusted. */
int artifact_dir_open_kind(int root_fd, const char *folder, bool create);
/* Adds to the counts that `axon cache` shows. */
void artifact_dir_add_stats(int root_fd, uint64_t hits, uint64_t misses);
/* If the total exceeds the limit, removes the least recently used files.  Also
 * removes files of killed writers.  Returns the remaining bytes. */
uint64_t artifact_dir_evict(int root_fd, uint64_t limit);
/* True if the trailer of the file is valid (artifact.c). */
bool artifact_is_valid(int folder, const char *name);

#endif
