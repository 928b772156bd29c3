/* Artifacts: compiled objects on disk, found by a hash of everything on which
 * they depend.  artifact_dir.c manages the folder.
 *
 * A file is written under a temporary name and renamed, so nobody sees half of
 * a file.  Two processes that make the same artifact write equal bytes; the
 * later rename wins.  Nothing is flushed to the disk: a file that a crash cut
 * off has no valid trailer.  A file is read completely before its use, since
 * mapping a file that is too short would cause SIGBUS. */
#define _GNU_SOURCE
#include "runtime/artifact_dir.h"
#include "runtime/trusted_dir.h"

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

typedef struct Trailer { /* at the end of each file */
  char magic[8];
  uint64_t size;
  ArtifactKey key;
  uint64_t hash[2];
} Trailer;

static const char magic[8] = "axon\1\r\n";

#define DEFAULT_CACHE_LIMIT_BYTES ((uint64_t)512 << 20)

/* Counts of this process; see count_event. */
static _Atomic uint64_t hit_count, miss_count, cached_bytes;
static _Atomic pid_t counting_pid;

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

static bool artifact_file_name(const ArtifactKind *kind, ArtifactKey key,
                               char name[ARTIFACT_NAME_BYTES]) {
  return snprintf(name, ARTIFACT_NAME_BYTES, "%016llx%016llx%s",
                  (unsigned long long)key.word[0],
                  (unsigned long long)key.word[1],
                  kind->suffix) < ARTIFACT_NAME_BYTES;
}

static int open_kind_dir(const ArtifactKind *kind) {
  char path[ARTIFACT_PATH_BYTES];
  int root_fd = artifact_open_root(path, false);
  int dir_fd =
      root_fd < 0 ? -1 : artifact_dir_open_kind(root_fd, kind->subdir, false);
  if (root_fd >= 0)
    close(root_fd);
  return dir_fd;
}

/* ---- the limit ---- */

static const char *limit_from_env(void) {
  const char *setting = getenv("AXON_CACHE_LIMIT");
  return setting && *setting ? setting : NULL;
}

uint64_t artifact_limit(void) {
  const char *setting = limit_from_env();
  uint64_t limit;
  return setting && parse_byte_size(setting, &limit)
             ? limit
             : DEFAULT_CACHE_LIMIT_BYTES;
}

bool artifact_check_env(Fault *fault) {
  const char *setting = limit_from_env();
  uint64_t limit;
  if (!setting || parse_byte_size(setting, &limit))
    return true;
  fault_set(fault, "AXON_CACHE_LIMIT=%s is no size", setting);
  fault_set_help(fault, "use a number of bytes, or a number with K, M, G or T, "
                        "as 512M; 0 disables the cache");
  return false;
}

/* ---- counting ---- */

static void count_event(_Atomic uint64_t *counter) {
  pid_t none = 0;
  atomic_compare_exchange_strong(&counting_pid, &none, getpid());
  atomic_fetch_add(counter, 1);
}

void artifact_stats_begin(void) {
  atomic_store(&hit_count, 0);
  atomic_store(&miss_count, 0);
  atomic_store(&counting_pid, getpid());
}

/* A child of fork inherits the counts of its parent, and does not write them,
 * unless it has started counts of its own. */
__attribute__((destructor)) void artifact_stats_flush(void) {
  uint64_t found = atomic_load(&hit_count), made = atomic_load(&miss_count);
  char path[ARTIFACT_PATH_BYTES];
  if ((!found && !made) || atomic_load(&counting_pid) != getpid())
    return;
  int root_fd = artifact_open_root(path, false);
  if (root_fd < 0)
    return;
  artifact_dir_add_stats(root_fd, found, made);
  close(root_fd);
}

/* ---- one file ---- */

/* Hashes the file without its trailer. */
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

/* The file must be complete, and must belong to this user: nobody else may
 * provide code that we run. */
static bool is_valid_file(int file, const ArtifactKey *key, size_t *size) {
  struct stat is;
  Trailer trailer;
  uint64_t hash[2];
  if (fstat(file, &is) != 0 || !S_ISREG(is.st_mode) || is.st_uid != geteuid() ||
      (is.st_mode & 022) || is.st_size < (off_t)sizeof trailer)
    return false;
  *size = (size_t)is.st_size - sizeof trailer;
  return pread(file, &trailer, sizeof trailer, (off_t)*size) ==
             sizeof trailer &&
         memcmp(trailer.magic, magic, sizeof magic) == 0 &&
         trailer.size == *size &&
         (!key || memcmp(&trailer.key, key, sizeof *key) == 0) &&
         hash_file(file, *size, hash) &&
         memcmp(hash, trailer.hash, sizeof hash) == 0;
}

static int open_artifact(int dir_fd, const char *name) {
  return openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

bool artifact_is_valid(int dir_fd, const char *name) {
  size_t size;
  int file = open_artifact(dir_fd, name);
  bool is_valid = file >= 0 && is_valid_file(file, NULL, &size);
  if (file >= 0)
    close(file);
  return is_valid;
}

bool artifact_lookup(const ArtifactKind *kind, ArtifactKey key, Artifact *out) {
  bool found = artifact_open(kind, key, out);
  if (found)
    count_event(&hit_count);
  return found;
}

bool artifact_open(const ArtifactKind *kind, ArtifactKey key, Artifact *out) {
  *out = (Artifact){.fd = -1, .kind = kind};
  int dir_fd =
      artifact_file_name(kind, key, out->name) ? open_kind_dir(kind) : -1;
  if (dir_fd < 0)
    return false;
  out->fd = open_artifact(dir_fd, out->name);
  bool exists = out->fd >= 0;
  bool is_valid = exists && is_valid_file(out->fd, &key, &out->size) &&
                  lseek(out->fd, 0, SEEK_SET) == 0;
  if (is_valid) {
    futimens(out->fd, NULL); /* marks it as used most recently */
  } else if (exists) {
    unlinkat(dir_fd, out->name, 0);
  }
  if (!is_valid)
    artifact_close(out);
  close(dir_fd);
  return is_valid;
}

void artifact_close(Artifact *artifact) {
  if (artifact->fd >= 0)
    close(artifact->fd);
  artifact->fd = -1;
}

static bool write_with_trailer(int dir_fd, const char *name, ArtifactKey key,
                               const void *at, size_t len) {
  Trailer trailer = {.size = len, .key = key};
  memcpy(trailer.magic, magic, sizeof magic);
  XXH128_hash_t hash = XXH3_128bits(at, len);
  trailer.hash[0] = hash.high64;
  trailer.hash[1] = hash.low64;
  int file =
      openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  bool good =
      trust_write(file, at, len) && trust_write(file, &trailer, sizeof trailer);
  return close(file) == 0 && good;
}

/* The first call measures the folder.  Later calls count. */
static void evict_if_full(int root_fd, uint64_t more, uint64_t limit) {
  uint64_t before = atomic_fetch_add(&cached_bytes, more);
  if (before && before + more <= limit)
    return;
  atomic_store(&cached_bytes, artifact_dir_evict(root_fd, limit));
}

static bool write_atomically(int dir_fd, const char *name, ArtifactKey key,
                             const void *at, size_t len) {
  static _Atomic uint32_t number;
  char made[ARTIFACT_NAME_BYTES];
  snprintf(made, sizeof made, ".%d-%u" ARTIFACT_TEMP_SUFFIX, (int)getpid(),
           atomic_fetch_add(&number, 1));
  if (write_with_trailer(dir_fd, made, key, at, len) &&
      renameat(dir_fd, made, dir_fd, name) == 0)
    return true;
  unlinkat(dir_fd, made, 0);
  return false;
}

bool artifact_store(const ArtifactKind *kind, ArtifactKey key, const void *at,
                    size_t len) {
  char path[ARTIFACT_PATH_BYTES], name[ARTIFACT_NAME_BYTES];
  uint64_t limit = artifact_limit();
  count_event(&miss_count);
  if (len + sizeof(Trailer) > limit || !artifact_file_name(kind, key, name))
    return false;
  int root_fd = artifact_open_root(path, true);
  int dir_fd =
      root_fd < 0 ? -1 : artifact_dir_open_kind(root_fd, kind->subdir, true);
  bool kept = dir_fd >= 0 && write_atomically(dir_fd, name, key, at, len);
  if (dir_fd >= 0)
    close(dir_fd);
  if (kept)
    evict_if_full(root_fd, len + sizeof(Trailer), limit);
  if (root_fd >= 0)
    close(root_fd);
  return kept;
}

void artifact_delete(const Artifact *artifact) {
  int dir_fd = open_kind_dir(artifact->kind);
  if (dir_fd < 0)
    return;
  unlinkat(dir_fd, artifact->name, 0);
  close(dir_fd);
}
