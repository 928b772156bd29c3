/* An artifact is the log, ended by NUL, and behind it the code. */
#define _GNU_SOURCE
#include "backend/cuda/image.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const ArtifactKind kind = {"cuda", ".image"};

/* ---- the key ---- */

typedef struct Identity { /* a version does not tell apart its corrections */
  uint64_t size, seconds, nanoseconds;
} Identity;

static Identity identity_of(const char *path) {
  struct stat is;
  if (stat(path, &is) != 0)
    return (Identity){0};
  return (Identity){(uint64_t)is.st_size, (uint64_t)is.st_mtim.tv_sec,
                    (uint64_t)is.st_mtim.tv_nsec};
}

static ArtifactKey key_of(const Nvrtc *n, const CudaText *text) {
  Identity library = identity_of(n->path);
  const int numbers[] = {n->major, n->minor, text->ptx, text->headers};
  ArtifactPart parts[8 + NVRTC_OPTIONS] = {
      {AXON_VERSION, sizeof AXON_VERSION}, {n->path, strlen(n->path)},
      {&library, sizeof library},          {numbers, sizeof numbers},
      {n->headers, strlen(n->headers)},    {text->arch, strlen(text->arch)},
      {text->name, strlen(text->name)},    {text->text, strlen(text->text)},
  };
  uint32_t count = 8;
  for (uint32_t k = 0; k < text->option_count; k++)
    parts[count++] = (ArtifactPart){text->options[k], strlen(text->options[k])};
  return artifact_key(count, parts);
}

/* ---- found ---- */

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
  if (bytes && !read_bytes(a->file, bytes, a->size)) {
    mem_free(bytes);
    bytes = NULL;
  }
  artifact_close(a);
  return bytes;
}

static bool find(ArtifactKey key, CudaCode *out) {
  Artifact a;
  char *all = artifact_find(&kind, key, &a) ? read_artifact(&a) : NULL;
  if (!all)
    return false;
  size_t log = strlen(all) + 1;
  char *bytes = log < a.size ? mem_try_alloc(a.size - log) : NULL;
  if (!bytes) {
    mem_free(all);
    return false;
  }
  memcpy(bytes, all + log, a.size - log);
  *out = (CudaCode){.bytes = bytes, .size = a.size - log, .log = all};
  return true;
}

/* ---- made ---- */

static void keep(ArtifactKey key, const CudaCode *code) {
  const char *log = code->log ? code->log : "";
  size_t len = strlen(log) + 1;
  char *all = mem_try_alloc(len + code->size);
  if (!all)
    return;
  memcpy(all, log, len);
  memcpy(all + len, code->bytes, code->size);
  artifact_keep(&kind, key, all, len + code->size);
  mem_free(all);
}

bool cuda_image(const Nvrtc *n, const CudaText *text, CudaCode *out,
                bool *found, Fault *fault) {
  ArtifactKey key = key_of(n, text);
  *found = find(key, out);
  if (*found)
    return true;
  if (!nvrtc_compile(n, text, out, fault))
    return false;
  keep(key, out);
  return true;
}
