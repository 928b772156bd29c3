#include "backend/cuda/device.h"

#include <pthread.h>

enum { SHARED_PLAIN = 48 << 10 }; /* bytes that every block may have */

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  Device device;
} state = {.once = PTHREAD_ONCE_INIT};

static void make_lock(void) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&state.lock, &kind);
  pthread_mutexattr_destroy(&kind);
}

void device_lock(void) {
  pthread_once(&state.once, make_lock);
  pthread_mutex_lock(&state.lock);
}

void device_unlock(void) {
  pthread_mutex_unlock(&state.lock);
}

static bool open_device(Device *d, Fault *fault) {
  static const CudaUse word = {.dtype = DT_I32};
  const CudaApi *api = cuda_api(fault);
  d->nvrtc = api ? nvrtc(fault) : NULL;
  if (!d->nvrtc || !cuda_open(api, 0, &d->gpu, fault))
    return false;
  d->memory = cuda_memory_new(&d->gpu, d->gpu.about.memory / 2);
  d->bad =
      d->memory ? cuda_memory_take(d->memory, CUDA_WORDS, &word, fault) : NULL;
  if (!d->bad || !cuda_fill(&d->gpu, d->bad->at, 0, CUDA_WORDS, fault)) {
    cuda_memory_free(d->memory);
    cuda_close(&d->gpu);
    return false;
  }
  d->target = (CudaTarget){.arch = d->gpu.about.arch,
                           .processors = d->gpu.about.multiprocessors,
                           .shared = SHARED_PLAIN,
                           .shared_most = (uint32_t)d->gpu.about.block_shared,
                           .maps = true};
  d->open = true;
  return true;
}

Device *device_get(Fault *fault) {
  Device *d = &state.device;
  return d->open || open_device(d, fault) ? d : NULL;
}
