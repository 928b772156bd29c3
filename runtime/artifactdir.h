/* The folder of artifacts, for the files artifact*.c alone. */
#ifndef AXON_ARTIFACTDIR_H
#define AXON_ARTIFACTDIR_H

#include "runtime/artifact.h"

/* How a file that is being written ends. */
#define ARTIFACT_PART ".part"

/* The folder of all kinds: false where there is none that can be trusted, and
 * none can be made (or may be: `make`). */
bool artifactdir_root(char path[ARTIFACT_PATH], bool make);
/* Makes sure of the folder of a kind. */
bool artifactdir_kind(const char *root, const char *folder);
/* Adds to what `axon cache` tells. */
void artifactdir_count(const char *root, uint64_t found, uint64_t made);
/* Removes what was not used for longest, where there is more than the limit,
 * and what writers left that were killed.  Returns the bytes that stay. */
uint64_t artifactdir_shrink(const char *root, uint64_t limit);
/* Of artifact.c: whether a file has a seal that fits. */
bool artifact_path_whole(const char *path);

#endif
