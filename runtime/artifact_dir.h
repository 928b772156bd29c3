/* The folder of artifacts, for the files artifact*.c alone. */
#ifndef AXON_ARTIFACT_DIR_H
#define AXON_ARTIFACT_DIR_H

#include "runtime/artifact.h"

/* How a file that is being written ends. */
#define ARTIFACT_TEMP_SUFFIX ".part"

/* The folder of a kind: a descriptor, -1 where there is none that can be
 * trusted. */
int artifact_dir_open_kind(int root_fd, const char *folder, bool create);
/* Adds to what `axon cache` tells. */
void artifact_dir_add_stats(int root_fd, uint64_t hits, uint64_t misses);
/* Removes what was not used for longest, where there is more than the limit,
 * and what writers left that were killed.  Returns the bytes that stay. */
uint64_t artifact_dir_evict(int root_fd, uint64_t limit);
/* Of artifact.c: whether a file has a seal that fits. */
bool artifact_is_valid(int folder, const char *name);

#endif
