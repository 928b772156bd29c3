/* artifact: compiled objects kept on disk between processes.
 *
 * An artifact is a file `KIND/KEY SUFFIX` in $XDG_CACHE_HOME/axon, or in
 * ~/.cache/axon: the stored bytes and a trailer that detects truncation and
 * changes.  The key is a hash of all inputs, so a file is never out of date.
 * Any number of processes and threads may use the folder: a file gets its name
 * only when it is complete.  Problems (no home, no space) mean that artifacts
 * are not found or not stored.  They are never errors.
 *
 * Stored code is executed.  Therefore the folder is used only if nobody else
 * can change it or its parents (runtime/trusted_dir.h).  Otherwise the process
 * warns once.  A file is verified and used through one descriptor. */
#ifndef AXON_ARTIFACT_H
#define AXON_ARTIFACT_H

#include "runtime/runtime.h"

enum { ARTIFACT_PATH_BYTES = 4096 };

typedef struct ArtifactKind {
  const char *subdir, *suffix; /* such as "cpu", ".so" */
} ArtifactKind;

typedef struct ArtifactKey {
  uint64_t word[2];
} ArtifactKey;

/* Makes a key from parts.  The lengths of the parts are included. */
typedef struct ArtifactPart {
  const void *at;
  size_t len;
} ArtifactPart;
ArtifactKey artifact_key(uint32_t count, const ArtifactPart *parts);

enum { ARTIFACT_NAME_BYTES = 64 };

typedef struct Artifact {
  int fd;      /* the verified file; close it with artifact_close */
  size_t size; /* bytes stored, from the start of the file */
  const ArtifactKind *kind;
  char name[ARTIFACT_NAME_BYTES]; /* name in the folder of the kind */
} Artifact;

/* Returns false if the artifact is not there.  A damaged file is removed. */
bool artifact_lookup(const ArtifactKind *kind, ArtifactKey key, Artifact *out);
/* The same, but it does not count as a hit: another artifact refers to it. */
bool artifact_open(const ArtifactKind *kind, ArtifactKey key, Artifact *out);
void artifact_close(Artifact *artifact);
/* Returns false if the artifact could not be stored.  If the total exceeds
 * artifact_limit(), the least recently used files are removed. */
bool artifact_store(const ArtifactKind *kind, ArtifactKey key, const void *at,
                    size_t len);
/* Removes an undamaged artifact that cannot be used. */
void artifact_delete(const Artifact *artifact);

/* Opens the root folder, for other files that are kept there.  Returns a
 * descriptor, or -1. create: makes a missing folder. */
int artifact_open_root(char path[ARTIFACT_PATH_BYTES], bool create);

/* For a child process that stores artifacts: starts new counters, and adds them
 * to the totals.  Otherwise the end of a process adds them. */
void artifact_stats_begin(void);
void artifact_stats_flush(void);

/* Maximum bytes of all artifacts: AXON_CACHE_LIMIT, such as `512M`. */
uint64_t artifact_limit(void);
/* Sets a fault if AXON_CACHE_LIMIT is not a size. */
bool artifact_check_env(Fault *fault);

/* ---- for `axon cache` ---- */

typedef struct ArtifactStats {
  char path[ARTIFACT_PATH_BYTES]; /* path of the root folder; "" without a home
                                   */
  char unusable_reason[256]; /* why nothing is stored there; "" if it is usable
                              */
  uint32_t entries, corrupt; /* corrupt: counted only by artifact_verify */
  uint64_t bytes;
  uint64_t hits, misses; /* totals of finished processes since the last clear */
} ArtifactStats;
void artifact_stats(ArtifactStats *out);
/* Reads every artifact and removes damaged ones. */
void artifact_verify(ArtifactStats *out);
/* Removes all artifacts. `out` describes what was there.  Returns false if some
 * could not be removed. */
bool artifact_clear(ArtifactStats *out);

#endif
