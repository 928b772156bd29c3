/* Kernels to programs, kept under a hash of the kernel with all its numbers;
 * code for a text is kept per process under the text's hash, as one text serves
 * many sizes, and on disk (image.c). */
#include "backend/cuda/program.h"

#include "backend/cuda/image.h"
#include "backend/cuda/routines.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUCKETS = 1024, PROGRAMS_MOST = 8192 };

typedef struct Entry {
  struct Entry *next;
  ArtifactKey key;
  Arena *arena;
  CudaProgram program;
} Entry;

/* Code that is loaded. */
typedef struct Loaded {
  struct Loaded *next;
  ArtifactKey key; /* of the text */
  CuModule module;
} Loaded;

static Entry *entries[BUCKETS];
static Loaded *loaded[BUCKETS];
static uint32_t entry_count;

/* ---- making one ---- */

#define COPY(arena, v)                                              \
  do {                                                              \
    void *copy_ = NEW_ARRAY(arena, char, (v).len * sizeof *(v).at); \
    if ((v).len)                                                    \
      memcpy(copy_, (v).at, (v).len * sizeof *(v).at);              \
    (v).at = copy_;                                                 \
  } while (0)

/* All that a call needs of what was emitted. */
static void keep_kernel(Arena *arena, const CudaKernel *from, CudaKernel *to) {
  *to = *from;
  to->text = (Buffer){0};
  memset(&to->outs, 0, sizeof to->outs);
  COPY(arena, to->passes);
  for (uint32_t j = 0; j < to->passes.len; j++) {
    CudaPass *p = NEW(arena, CudaPass);
    *p = *from->passes.at[j];
    p->k = NULL;
    p->s.tile = NULL;
    p->s.attend = NULL;
    p->emitted.text = (Buffer){0};
    Call *call = &p->emitted.call;
    COPY(arena, call->ints);
    COPY(arena, call->floats);
    COPY(arena, call->keys);
    COPY(arena, p->divisors);
    COPY(arena, p->maps);
    memset(&call->outs, 0, sizeof call->outs);
    memset(&call->checks, 0, sizeof call->checks);
    to->passes.at[j] = p;
  }
}

static uint32_t place_of(const Cluster *c, const Node *n) {
  uint32_t k = 0;
  while (c->nodes.at[k] != n)
    k++;
  return k;
}

static bool emit(const Cluster *c, const Device *d, Arena *arena,
                 CudaProgram *p, CudaKernel *out) {
  Kernel *k = c->kernel;
  p->out_count = 1;
  if (c->routine)
    return cuda_routine(c->nodes.at[0], &d->target, arena, out);
  p->work = kernel_work(k);
  if (!cuda_emit(k, &d->target, NULL, out) ||
      k->inputs.len + out->outs.len > POINTERS)
    return false;
  for (uint32_t j = 0; j < out->outs.len; j++)
    p->outs[j] = place_of(c, out->outs.at[j]->node);
  p->out_count = out->outs.len;
  return true;
}

static void make(const Cluster *c, const Device *d, Arena *arena,
                 CudaProgram *p) {
  CudaKernel emitted;
  Buffer text = {.arena = arena};
  if (!emit(c, d, arena, p, &emitted) || !cuda_whole_text(&emitted.text, &text))
    return;
  keep_kernel(arena, &emitted, &p->kernel);
  p->functions = NEW_ARRAY(arena, CuFunction, emitted.passes.len);
  p->text = text.text;
  p->emitted = true;
}

static Entry *find(ArtifactKey key) {
  for (Entry *e = entries[key.word[0] % BUCKETS]; e; e = e->next)
    if (memcmp(&e->key, &key, sizeof key) == 0)
      return e;
  return NULL;
}

CudaProgram *cuda_program_of(Cluster *c, const Device *d) {
  ArtifactKey key =
      c->routine ? cuda_routine_key(c->nodes.at[0]) : kernel_key(c);
  Entry *e = find(key);
  if (!e) {
    bool kept = entry_count < PROGRAMS_MOST;
    if (!kept && c->routine)
      return NULL;
    Arena *arena = kept ? arena_new() : c->kernel->arena;
    e = NEW(arena, Entry);
    e->key = key;
    e->arena = arena;
    make(c, d, arena, &e->program);
    if (kept) {
      e->next = entries[key.word[0] % BUCKETS];
      entries[key.word[0] % BUCKETS] = e;
      entry_count++;
    } else {
      c->passing = true;
    }
  }
  return e->program.emitted ? &e->program : NULL;
}

/* ---- code ---- */

static Loaded *find_loaded(ArtifactKey key) {
  for (Loaded *l = loaded[key.word[0] % BUCKETS]; l; l = l->next)
    if (memcmp(&l->key, &key, sizeof key) == 0)
      return l;
  return NULL;
}

/* AXON_CC_DEBUG: a folder where texts are kept. */
void cuda_program_keep(const CudaProgram *p) {
  const char *folder = getenv("AXON_CC_DEBUG");
  char path[ARTIFACT_PATH];
  if (!folder || *folder != '/')
    return;
  ArtifactKey key = artifact_key(1, &(ArtifactPart){p->text, strlen(p->text)});
  snprintf(path, sizeof path, "%s/%016llx.cu", folder,
           (unsigned long long)key.word[0]);
  FILE *f = fopen(path, "we");
  if (!f)
    return;
  fputs(p->text, f);
  fclose(f);
}

bool cuda_program_code(CudaProgram *p, Device *d, CudaCode *out, Fault *fault) {
  const CudaText text = {
      .text = p->text, .name = "kernel.cu", .arch = d->gpu.about.arch};
  bool found;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  bool good = cuda_image(d->nvrtc, &text, out, &found, fault);
  clock_gettime(CLOCK_MONOTONIC, &to);
  if (good && !found)
    p->seconds = (double)(to.tv_sec - from.tv_sec) +
                 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  return good;
}

static bool load(CudaProgram *p, Device *d, CuModule *module, Fault *fault) {
  CudaCode code;
  bool good = cuda_program_code(p, d, &code, fault) &&
              cuda_load(&d->gpu, code.bytes, module, fault);
  cuda_code_free(&code);
  return good;
}

static bool load_once(CudaProgram *p, Device *d, Fault *fault) {
  ArtifactKey key = artifact_key(1, &(ArtifactPart){p->text, strlen(p->text)});
  Loaded *l = find_loaded(key);
  if (!l) {
    CuModule module;
    cuda_program_keep(p);
    if (!load(p, d, &module, fault))
      return false;
    l = mem_try_alloc(sizeof *l);
    if (!l) {
      cuda_unload(&d->gpu, module);
      fault_set_kind(fault, FAULT_MEMORY, "out of memory");
      return false;
    }
    *l = (Loaded){loaded[key.word[0] % BUCKETS], key, module};
    loaded[key.word[0] % BUCKETS] = l;
  }
  p->module = l->module;
  return true;
}

bool cuda_program_ready(CudaProgram *p, Device *d, Fault *fault) {
  if (p->module)
    return true;
  if (!load_once(p, d, fault))
    return false;
  for (uint32_t j = 0; j < p->kernel.passes.len; j++) {
    const CudaPass *pass = p->kernel.passes.at[j];
    if (!cuda_function(&d->gpu, p->module, pass->name, (unsigned)pass->shared,
                       &p->functions[j], fault)) {
      p->module = NULL;
      return false;
    }
  }
  return true;
}
