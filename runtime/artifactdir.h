/* The folder of artifacts, for the files artifact*.c alone. */
#ifndef AXON_ARTIFACTDIR_H
#define AXON_ARTIFACTDIR_H

#include "runtime/artifact.h"

/* How a file that is being written ends. */
#define ARTIFACT_PART ".part"

/* The folder of a kind: a descriptor, -1 where there is none that can be
 * trusted. */
int artifactdir_kind(int root, const char *folder, bool make);
/* Adds to what `axon cache` tells. */
void artifactdir_count(int root, uint64_t found, uint64_t made);
/* Removes what was not used for longest, where there is more than the limit,
 * and what writers left that were killed.  Returns the bytes that stay. */
uint64_t artifactdir_shrink(int root, uint64_t limit);
/* Of artifact.c: whether a file has a seal that fits. */
bool artifact_is_whole(int folder, const char *name);

#endif
