#include "backend/cuda/device.h"

#include "backend/cuda/arch.h"
#include "backend/cuda/override.h"
#include "backend/cuda/tape.h"

#include <pthread.h>
#include <stdlib.h>

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
  d->gpu.tape = cuda_tape_new();
  const char *pool = getenv("AXON_POOL");
  d->memory =
      cuda_memory_new(&d->gpu, pool && *pool ? strtoull(pool, NULL, 10)
                                             : d->gpu.about.memory / 2);
  d->bad =
      d->memory ? cuda_memory_take(d->memory, CUDA_WORDS, &word, fault) : NULL;
  if (!d->bad || !cuda_fill(&d->gpu, d->bad->at, 0, CUDA_WORDS, fault)) {
    cuda_memory_free(d->memory);
    cuda_close(&d->gpu);
    return false;
  }
  d->target = cuda_arch_target(d->gpu.about.arch);
  d->target.processors = d->gpu.about.multiprocessors;
  d->target.shared_most = (uint32_t)d->gpu.about.block_shared;
  d->target.maps = true;
  d->open = true;
  return true;
}

void device_on_paper(const char *arch) {
  Device *d = &state.device;
  Fault ignored = {0};
  device_lock();
  *d = (Device){.paper = true, .target = cuda_arch_target(arch)};
  d->target.maps = true;
  d->nvrtc = nvrtc(&ignored);
  if (d->nvrtc && !nvrtc_compiles(d->nvrtc, arch))
    d->nvrtc = NULL;
  snprintf(d->gpu.about.arch, sizeof d->gpu.about.arch, "%s", arch);
  device_unlock();
}

bool device_is_paper(void) {
  return state.device.paper;
}

Device *device_get(Fault *fault) {
  Device *d = &state.device;
  if (!override_good(fault))
    return NULL;
  if (d->paper)
    return d;
  return d->open || open_device(d, fault) ? d : NULL;
}
