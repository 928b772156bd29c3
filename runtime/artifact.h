/* artifact: what compilers made, kept on disk from one process to the next.
 *
 * An artifact is a file `KIND/KEY SUFFIX` in $XDG_CACHE_HOME/axon (else
 * ~/.cache/axon): the bytes that were kept, and behind them a seal, by which a
 * file that was cut off or changed is found out.  The key is a hash of all
 * that the bytes depend on, so that a file is never out of date.  Any number
 * of processes and threads may use it: a file has its name only when it is
 * whole.  What goes wrong (no home, no space) makes artifacts not be found or
 * not be kept, and never is an error.
 *
 * Code that is found is run.  So the folder is used only where nobody else can
 * change it or what leads to it (runtime/trusted_dir.h); where somebody can,
 * that is told once.  A file is checked and used through one descriptor. */
#ifndef AXON_ARTIFACT_H
#define AXON_ARTIFACT_H

#include "runtime/runtime.h"

enum { ARTIFACT_PATH_BYTES = 4096 };

typedef struct ArtifactKind {
  const char *subdir, *suffix; /* "cpu", ".so" */
} ArtifactKind;

typedef struct ArtifactKey {
  uint64_t word[2];
} ArtifactKey;

/* A key from parts, whose lengths take part. */
typedef struct ArtifactPart {
  const void *at;
  size_t len;
} ArtifactPart;
ArtifactKey artifact_key(uint32_t count, const ArtifactPart *parts);

enum { ARTIFACT_NAME_BYTES = 64 };

typedef struct Artifact {
  int fd;      /* what was checked, at its beginning: for artifact_close */
  size_t size; /* of what was kept, from the beginning of the file */
  const ArtifactKind *kind;
  char name[ARTIFACT_NAME_BYTES]; /* in the kind's folder */
} Artifact;

/* False: it is not there, or was not whole, and then it is removed. */
bool artifact_lookup(const ArtifactKind *kind, ArtifactKey key, Artifact *out);
void artifact_close(Artifact *artifact);
/* False: it could not be kept.  Others go, those not used for longest, where
 * there is more than artifact_limit(). */
bool artifact_store(const ArtifactKind *kind, ArtifactKey key, const void *at,
                    size_t len);
/* Removes one that is whole and yet cannot be used. */
void artifact_delete(const Artifact *artifact);

/* The folder of all, for other files that are kept there: a descriptor, or -1.
 * `make`: made where it is missing. */
int artifact_open_root(char path[ARTIFACT_PATH_BYTES], bool create);

/* Of a child of fork that keeps artifacts: it counts them, and adds the counts
 * to the totals, which else the end of a process does. */
void artifact_stats_begin(void);
void artifact_stats_flush(void);

/* Bytes that are kept at most: AXON_CACHE_LIMIT, as `512M`. */
uint64_t artifact_limit(void);
/* A fault where AXON_CACHE_LIMIT is no size. */
bool artifact_check_env(Fault *fault);

/* ---- for `axon cache` ---- */

typedef struct ArtifactStats {
  char path[ARTIFACT_PATH_BYTES]; /* of all; "" where there is no home */
  char unusable_reason[256];      /* why nothing is kept there; or "" */
  uint32_t entries, corrupt;      /* broken: counted by artifact_verify alone */
  uint64_t bytes;
  uint64_t hits, misses; /* since it was cleared, of processes that ended */
} ArtifactStats;
void artifact_stats(ArtifactStats *out);
/* Reads each, and removes those that are not whole. */
void artifact_verify(ArtifactStats *out);
/* Removes all; `out` says what there was.  False where some could not be. */
bool artifact_clear(ArtifactStats *out);

#endif
