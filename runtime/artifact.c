/* Finding and keeping artifacts; artifactdir.c has the folder.
 *
 * A file is written under a name of its own and renamed, so that nobody ever
 * sees half of one; two processes that make the same one write the same bytes,
 * and the later rename wins.  Nothing is flushed to the disk: what a crash of
 * the machine cut off has no seal.  A file is read whole before it is used,
 * because mapping one that is too short would be a SIGBUS. */
#define _GNU_SOURCE
#include "runtime/artifactdir.h"
#include "runtime/trust.h"

#include "runtime/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct Seal { /* behind the bytes */
  char magic[8];
  uint64_t size;
  ArtifactKey key;
  uint64_t hash[2];
} Seal;

static const char magic[8] = "axon\1\r\n";

#define LIMIT_DEFAULT ((uint64_t)512 << 20)

/* Of this process: see add_counts. */
static _Atomic uint64_t found_count, made_count, kept_bytes;
static _Atomic pid_t counting;

/* ---- keys ---- */

ArtifactKey artifact_key(uint32_t count, const ArtifactPart *parts) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (uint32_t k = 0; k < count; k++) {
    uint64_t len = parts[k].len;
    XXH3_128bits_update(&state, &len, sizeof len);
    XXH3_128bits_update(&state, parts[k].at, parts[k].len);
  }
  XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return (ArtifactKey){{hash.high64, hash.low64}};
}

static bool name_of(const ArtifactKind *kind, ArtifactKey key,
                    char name[ARTIFACT_NAME]) {
  return snprintf(name, ARTIFACT_NAME, "%016llx%016llx%s",
                  (unsigned long long)key.word[0],
                  (unsigned long long)key.word[1],
                  kind->suffix) < ARTIFACT_NAME;
}

static int open_kind(const ArtifactKind *kind) {
  char path[ARTIFACT_PATH];
  int root = artifact_folder(path, false);
  int folder = root < 0 ? -1 : artifactdir_kind(root, kind->folder, false);
  if (root >= 0)
    close(root);
  return folder;
}

/* ---- the limit ---- */

static const char *limit_wanted(void) {
  const char *wanted = getenv("AXON_CACHE_LIMIT");
  return wanted && *wanted ? wanted : NULL;
}

uint64_t artifact_limit(void) {
  const char *wanted = limit_wanted();
  uint64_t limit;
  return wanted && size_parse(wanted, &limit) ? limit : LIMIT_DEFAULT;
}

bool artifact_check(Fault *fault) {
  const char *wanted = limit_wanted();
  uint64_t limit;
  if (!wanted || size_parse(wanted, &limit))
    return true;
  fault_set(fault, "AXON_CACHE_LIMIT=%s is no size", wanted);
  fault_help(fault, "write bytes, or a number with K, M, G or T, as 512M; 0 "
                    "keeps nothing");
  return false;
}

/* ---- counting ---- */

static void count(_Atomic uint64_t *counter) {
  pid_t none = 0;
  atomic_compare_exchange_strong(&counting, &none, getpid());
  atomic_fetch_add(counter, 1);
}

void artifact_counts_begin(void) {
  atomic_store(&found_count, 0);
  atomic_store(&made_count, 0);
  atomic_store(&counting, getpid());
}

/* A child of fork has the counts of its parent, and lets them be, unless it
 * began its own. */
__attribute__((destructor)) void artifact_counts_add(void) {
  uint64_t found = atomic_load(&found_count), made = atomic_load(&made_count);
  char path[ARTIFACT_PATH];
  if ((!found && !made) || atomic_load(&counting) != getpid())
    return;
  int root = artifact_folder(path, false);
  if (root < 0)
    return;
  artifactdir_count(root, found, made);
  close(root);
}

/* ---- one file ---- */

/* Reads all of it but the seal. */
static bool hash_file(int file, uint64_t size, uint64_t hash[2]) {
  char part[64 * 1024];
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  while (size > 0) {
    size_t want = size < sizeof part ? (size_t)size : sizeof part;
    ssize_t n = read(file, part, want);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    XXH3_128bits_update(&state, part, (size_t)n);
    size -= (uint64_t)n;
  }
  XXH128_hash_t is = XXH3_128bits_digest(&state);
  hash[0] = is.high64;
  hash[1] = is.low64;
  return true;
}

/* Whole, and put there by this user: no other may give us code to run. */
static bool is_whole(int file, const ArtifactKey *key, size_t *size) {
  struct stat is;
  Seal seal;
  uint64_t hash[2];
  if (fstat(file, &is) != 0 || !S_ISREG(is.st_mode) || is.st_uid != geteuid() ||
      (is.st_mode & 022) || is.st_size < (off_t)sizeof seal)
    return false;
  *size = (size_t)is.st_size - sizeof seal;
  return pread(file, &seal, sizeof seal, (off_t)*size) == sizeof seal &&
         memcmp(seal.magic, magic, sizeof magic) == 0 && seal.size == *size &&
         (!key || memcmp(&seal.key, key, sizeof *key) == 0) &&
         hash_file(file, *size, hash) &&
         memcmp(hash, seal.hash, sizeof hash) == 0;
}

static int open_one(int folder, const char *name) {
  return openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

bool artifact_is_whole(int folder, const char *name) {
  size_t size;
  int file = open_one(folder, name);
  bool whole = file >= 0 && is_whole(file, NULL, &size);
  if (file >= 0)
    close(file);
  return whole;
}

bool artifact_find(const ArtifactKind *kind, ArtifactKey key, Artifact *out) {
  *out = (Artifact){.file = -1, .kind = kind};
  int folder = name_of(kind, key, out->name) ? open_kind(kind) : -1;
  if (folder < 0)
    return false;
  out->file = open_one(folder, out->name);
  bool there = out->file >= 0;
  bool whole = there && is_whole(out->file, &key, &out->size) &&
               lseek(out->file, 0, SEEK_SET) == 0;
  if (whole) {
    futimens(out->file, NULL); /* used now: it goes last */
    count(&found_count);
  } else if (there) {
    unlinkat(folder, out->name, 0);
  }
  if (!whole)
    artifact_close(out);
  close(folder);
  return whole;
}

void artifact_close(Artifact *artifact) {
  if (artifact->file >= 0)
    close(artifact->file);
  artifact->file = -1;
}

static bool write_sealed(int folder, const char *name, ArtifactKey key,
                         const void *at, size_t len) {
  Seal seal = {.size = len, .key = key};
  memcpy(seal.magic, magic, sizeof magic);
  XXH128_hash_t hash = XXH3_128bits(at, len);
  seal.hash[0] = hash.high64;
  seal.hash[1] = hash.low64;
  int file =
      openat(folder, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  bool good = trust_write(file, at, len) &&
              trust_write(file, &seal, sizeof seal);
  return close(file) == 0 && good;
}

/* The first look tells what others have kept; from then on it is counted. */
static void make_room(int root, uint64_t more, uint64_t limit) {
  uint64_t before = atomic_fetch_add(&kept_bytes, more);
  if (before && before + more <= limit)
    return;
  atomic_store(&kept_bytes, artifactdir_shrink(root, limit));
}

static bool write_one(int folder, const char *name, ArtifactKey key,
                      const void *at, size_t len) {
  static _Atomic uint32_t number;
  char made[ARTIFACT_NAME];
  snprintf(made, sizeof made, ".%d-%u" ARTIFACT_PART, (int)getpid(),
           atomic_fetch_add(&number, 1));
  if (write_sealed(folder, made, key, at, len) &&
      renameat(folder, made, folder, name) == 0)
    return true;
  unlinkat(folder, made, 0);
  return false;
}

bool artifact_keep(const ArtifactKind *kind, ArtifactKey key, const void *at,
                   size_t len) {
  char path[ARTIFACT_PATH], name[ARTIFACT_NAME];
  uint64_t limit = artifact_limit();
  count(&made_count);
  if (len + sizeof(Seal) > limit || !name_of(kind, key, name))
    return false;
  int root = artifact_folder(path, true);
  int folder = root < 0 ? -1 : artifactdir_kind(root, kind->folder, true);
  bool kept = folder >= 0 && write_one(folder, name, key, at, len);
  if (folder >= 0)
    close(folder);
  if (kept)
    make_room(root, len + sizeof(Seal), limit);
  if (root >= 0)
    close(root);
  return kept;
}

void artifact_drop(const Artifact *artifact) {
  int folder = open_kind(artifact->kind);
  if (folder < 0)
    return;
  unlinkat(folder, artifact->name, 0);
  close(folder);
}
