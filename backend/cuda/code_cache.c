/* Layout of an artifact: the log, a NUL byte, the code. */
#define _GNU_SOURCE
#include "backend/cuda/code_cache.h"
#include "support/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const ArtifactKind kind = {"cuda", ".image"};

/* ---- key ---- */

/* Distinguishes patch releases of one version. */
typedef struct FileIdentity {
  uint64_t size, seconds, nanoseconds;
} FileIdentity;

static FileIdentity identity_of(const char *path) {
  struct stat is;
  if (stat(path, &is) != 0)
    return (FileIdentity){0};
  return (FileIdentity){(uint64_t)is.st_size, (uint64_t)is.st_mtim.tv_sec,
                        (uint64_t)is.st_mtim.tv_nsec};
}

static ArtifactKey cache_key(const Nvrtc *n, const KernelSource *source) {
  FileIdentity library = identity_of(n->path);
  const int numbers[] = {n->major, n->minor, source->want_ptx,
                         source->needs_headers};
  ArtifactPart parts[8 + NVRTC_MAX_OPTIONS] = {
      {AXON_VERSION, sizeof AXON_VERSION},
      {n->path, strlen(n->path)},
      {&library, sizeof library},
      {numbers, sizeof numbers},
      {n->headers, strlen(n->headers)},
      {source->arch, strlen(source->arch)},
      {source->name, strlen(source->name)},
      {source->source, strlen(source->source)},
  };
  uint32_t count = 8;
  for (uint32_t k = 0; k < source->option_count; k++)
    parts[count++] =
        (ArtifactPart){source->options[k], strlen(source->options[k])};
  return artifact_key(count, parts);
}

/* ---- lookup ---- */

static bool read_bytes(int file, char *at, size_t len) {
  while (len > 0) {
    ssize_t n = read(file, at, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += n;
    len -= (size_t)n;
  }
  return true;
}

static char *read_artifact(Artifact *a) {
  char *bytes = mem_try_alloc(a->size + 1);
  if (bytes && !read_bytes(a->fd, bytes, a->size)) {
    mem_free(bytes);
    bytes = NULL;
  }
  artifact_close(a);
  return bytes;
}

static bool cache_find(ArtifactKey key, CompiledCode *out) {
  Artifact a;
  char *artifact = artifact_lookup(&kind, key, &a) ? read_artifact(&a) : NULL;
  if (!artifact)
    return false;
  size_t log = strlen(artifact) + 1;
  char *bytes = log < a.size ? mem_try_alloc(a.size - log) : NULL;
  if (!bytes) {
    mem_free(artifact);
    return false;
  }
  memcpy(bytes, artifact + log, a.size - log);
  *out = (CompiledCode){.bytes = bytes, .size = a.size - log, .log = artifact};
  return true;
}

/* ---- store ---- */

static void cache_store(ArtifactKey key, const CompiledCode *code) {
  const char *log = code->log ? code->log : "";
  size_t len = strlen(log) + 1;
  char *artifact = mem_try_alloc(len + code->size);
  if (!artifact)
    return;
  memcpy(artifact, log, len);
  memcpy(artifact + len, code->bytes, code->size);
  artifact_store(&kind, key, artifact, len + code->size);
  mem_free(artifact);
}

bool code_cache_compile(const Nvrtc *n, const KernelSource *source,
                        CompiledCode *out, bool *found, Fault *fault) {
  ArtifactKey key = cache_key(n, source);
  *found = cache_find(key, out);
  if (*found)
    return true;
  if (!nvrtc_compile(n, source, out, fault))
    return false;
  cache_store(key, out);
  return true;
}
