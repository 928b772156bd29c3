/* Blocks by classes of sizes, and by the time when they were given back. */
#include "backend/cuda/memory.h"

#include "runtime/sizeclass.h"

#include <pthread.h>

enum {
  SMALLEST_BITS = 9,
  CLASSES = SIZECLASS_COUNT(SMALLEST_BITS),
  NEAR = 2, /* classes above its own in which a block is looked for */
};
/* The driver maps pages of so many bytes; rounding larger blocks to more would
 * waste gigabytes of the largest. */
#define PAGE ((size_t)2 << 20)
#define ROUNDED_MOST ((size_t)256 << 20)
#define SIZE_MOST ((size_t)1 << 60)

struct CudaMemory {
  CudaGpu *gpu;
  pthread_mutex_t lock;
  CudaBlock *classes[CLASSES];
  CudaBlock *newest, *oldest;
  uint64_t kept_most;
  CudaMemoryCounts counts;
};

/* ---- sizes ---- */

/* Where nothing is kept a block is as large as what it is for, so that whoever
 * watches the driver's memory sees what is read beyond that. */
static size_t rounded(const CudaMemory *m, size_t bytes) {
  if (m->kept_most == 0)
    return bytes ? bytes : 1;
  if (bytes > ROUNDED_MOST)
    return (bytes + PAGE - 1) / PAGE * PAGE;
  return sizeclass_size(sizeclass_of(bytes, SMALLEST_BITS), SMALLEST_BITS);
}

/* The last class whose size a block of these bytes has: not all blocks have
 * the size of a class. */
static uint32_t class_below(size_t size) {
  uint32_t class = sizeclass_of(size, SMALLEST_BITS);
  return class && sizeclass_size(class, SMALLEST_BITS) > size ? class - 1
                                                              : class;
}

/* ---- what is kept: all with the lock ---- */

static void take_out(CudaMemory *m, CudaBlock *b) {
  *(b->prev ? &b->prev->next : &m->classes[class_below(b->size)]) = b->next;
  if (b->next)
    b->next->prev = b->prev;
  *(b->newer ? &b->newer->older : &m->newest) = b->older;
  *(b->older ? &b->older->newer : &m->oldest) = b->newer;
  m->counts.kept -= b->size;
}

static void put_in(CudaMemory *m, CudaBlock *b) {
  CudaBlock **class = &m->classes[class_below(b->size)];
  b->prev = b->newer = NULL;
  b->next = *class;
  b->older = m->newest;
  if (b->next)
    b->next->prev = b;
  *class = b;
  *(b->older ? &b->older->newer : &m->oldest) = b;
  m->newest = b;
  m->counts.kept += b->size;
}

static CudaBlock *find(const CudaMemory *m, size_t size) {
  uint32_t class = class_below(size);
  for (uint32_t k = class; k <= class + NEAR && k < CLASSES; k++)
    for (CudaBlock *b = m->classes[k]; b; b = b->next)
      if (b->size >= size)
        return b;
  return NULL;
}

/* What ran may still read what was given back: the driver does not promise to
 * wait for that.  Of an error, there or here, whoever asks next is told. */
static void trim(CudaMemory *m, uint64_t keep) {
  Fault ignored;
  if (m->counts.kept <= keep)
    return;
  cuda_wait(m->gpu, &ignored);
  while (m->counts.kept > keep) {
    CudaBlock *b = m->oldest;
    take_out(m, b);
    m->gpu->api->memory_give(b->at);
    mem_free(b);
  }
}

/* ---- when there is not enough ---- */

static void size_text(char out[32], uint64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double n = (double)bytes;
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
    n /= 1024;
  snprintf(out, 32, "%.*f %s", unit ? 1 : 0, n, units[unit]);
}

/* "f32[2, 3]"; nothing is allocated for it. */
static void use_text(char *out, size_t size, const CudaUse *use) {
  size_t len = (size_t)snprintf(out, size, "%s", dtype_info[use->dtype].name);
  for (uint32_t k = 0; k < use->rank && len < size; k++)
    len += (size_t)snprintf(out + len, size - len, "%s%lld", k ? ", " : "[",
                            (long long)use->shape[k]);
  if (use->rank && len < size)
    snprintf(out + len, size - len, "]");
}

static void tell_full(CudaMemory *m, size_t bytes, const CudaUse *use,
                      Fault *fault) {
  Fault ignored;
  char type[200], need[32], live[32], text[2][32];
  uint64_t unused, total = m->gpu->about.memory;
  use_text(type, sizeof type, use);
  size_text(need, bytes);
  fault_set(fault, "%.100s%s%s needs %s of the GPU's memory",
            use->name ? use->name : "", use->name ? " : " : "", type, need);
  fault->kind = FAULT_MEMORY;
  size_text(live, cuda_memory_counts(m).live);
  size_text(text[0], total);
  if (bytes > total) {
    fault_help(fault,
               "it has %s: work on it in parts, or reduce it before it "
               "is stored",
               text[0]);
  } else if (cuda_memory(m->gpu, &unused, &total, &ignored)) {
    size_text(text[1], unused);
    fault_help(fault,
               "of %s %s are free, and this program holds %s: work on "
               "it in parts, or end others that use the GPU",
               text[0], text[1], live);
  } else {
    fault_help(fault,
               "it has %s, of which this program holds %s: work on it "
               "in parts",
               text[0], live);
  }
}

/* ---- the door ---- */

CudaMemory *cuda_memory_new(CudaGpu *gpu, uint64_t kept_most) {
  CudaMemory *m = mem_try_alloc(sizeof *m);
  if (!m)
    return NULL;
  m->gpu = gpu;
  m->kept_most = kept_most;
  pthread_mutex_init(&m->lock, NULL);
  return m;
}

void cuda_memory_free(CudaMemory *m) {
  if (!m)
    return;
  trim(m, 0);
  pthread_mutex_destroy(&m->lock);
  mem_free(m);
}

static CuResult ask_driver(CudaMemory *m, CudaBlock *b) {
  return mem_denied() ? CU_OUT_OF_MEMORY
                      : m->gpu->api->memory_take(&b->at, b->size);
}

/* With the lock.  What would never fit costs the others nothing. */
static CuResult take_fresh(CudaMemory *m, size_t bytes, CudaBlock *b) {
  if (bytes > m->gpu->about.memory)
    return CU_OUT_OF_MEMORY;
  CuResult result = ask_driver(m, b);
  if (result != CU_OUT_OF_MEMORY)
    return result;
  trim(m, 0);
  return ask_driver(m, b);
}

static CudaBlock *take_kept(CudaMemory *m, size_t size) {
  pthread_mutex_lock(&m->lock);
  CudaBlock *b = find(m, size);
  if (b) {
    take_out(m, b);
    m->counts.reused++;
    m->counts.live += b->size;
  }
  pthread_mutex_unlock(&m->lock);
  return b;
}

static bool fill_block(CudaMemory *m, size_t bytes, CudaBlock *b,
                       const CudaUse *use, Fault *fault) {
  if (!cuda_enter(m->gpu, fault))
    return false;
  pthread_mutex_lock(&m->lock);
  CuResult result = take_fresh(m, bytes, b);
  m->counts.fresh += result == 0;
  m->counts.live += result == 0 ? b->size : 0;
  pthread_mutex_unlock(&m->lock);
  if (result == CU_OUT_OF_MEMORY)
    tell_full(m, bytes, use, fault);
  else
    cuda_good(m->gpu->api, result, fault, "taking %zu bytes of its memory",
              bytes);
  return result == 0;
}

CudaBlock *cuda_memory_take(CudaMemory *m, size_t bytes, const CudaUse *use,
                            Fault *fault) {
  if (bytes > SIZE_MOST) {
    tell_full(m, bytes, use, fault);
    return NULL;
  }
  CudaBlock *b = take_kept(m, rounded(m, bytes));
  if (b)
    return b;
  b = mem_try_alloc(sizeof *b);
  if (!b) {
    fault_set_kind(fault, FAULT_MEMORY, "out of memory");
    return NULL;
  }
  b->size = rounded(m, bytes);
  if (fill_block(m, bytes, b, use, fault))
    return b;
  mem_free(b);
  return NULL;
}

void cuda_memory_give(CudaMemory *m, CudaBlock *block) {
  if (!block)
    return;
  pthread_mutex_lock(&m->lock);
  m->counts.live -= block->size;
  put_in(m, block);
  trim(m, m->kept_most);
  pthread_mutex_unlock(&m->lock);
}

void cuda_memory_trim(CudaMemory *m, uint64_t keep) {
  pthread_mutex_lock(&m->lock);
  trim(m, keep);
  pthread_mutex_unlock(&m->lock);
}

CudaMemoryCounts cuda_memory_counts(CudaMemory *m) {
  pthread_mutex_lock(&m->lock);
  CudaMemoryCounts counts = m->counts;
  pthread_mutex_unlock(&m->lock);
  return counts;
}
