#include "backend/cuda/device.h"

#include "backend/cuda/arch.h"
#include "backend/cuda/launch_graph.h"
#include "backend/cuda/schedule_text.h"

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
  static const AllocationLabel word = {.dtype = DT_I32};
  const CudaApi *api = cuda_api(fault);
  d->nvrtc = api ? nvrtc(fault) : NULL;
  if (!d->nvrtc || !cuda_context_open(api, 0, &d->context, fault))
    return false;
  d->context.launch_graph = launch_graph_new();
  const char *pool = getenv("AXON_POOL");
  d->allocator = device_allocator_new(
      &d->context, pool && *pool ? strtoull(pool, NULL, 10)
                                 : d->context.info.memory_bytes / 2);
  d->status = d->allocator ? device_allocator_alloc(
                                 d->allocator, CUDA_STATUS_BYTES, &word, fault)
                           : NULL;
  if (!d->status || !cuda_memset(&d->context, d->status->address, 0,
                                 CUDA_STATUS_BYTES, fault)) {
    device_allocator_free(d->allocator);
    cuda_context_close(&d->context);
    return false;
  }
  d->target = cuda_arch_target(d->context.info.arch);
  d->target.sm_count = d->context.info.sm_count;
  d->target.optin_shared_bytes = (uint32_t)d->context.info.block_shared_bytes;
  d->target.has_tensor_maps = true;
  d->is_open = true;
  return true;
}

void device_use_virtual(const char *arch) {
  Device *d = &state.device;
  Fault ignored = {0};
  device_lock();
  *d = (Device){.is_virtual = true, .target = cuda_arch_target(arch)};
  d->target.has_tensor_maps = true;
  d->nvrtc = nvrtc(&ignored);
  if (d->nvrtc && !nvrtc_compiles(d->nvrtc, arch))
    d->nvrtc = NULL;
  snprintf(d->context.info.arch, sizeof d->context.info.arch, "%s", arch);
  device_unlock();
}

bool device_is_virtual(void) {
  return state.device.is_virtual;
}

Device *device_get(Fault *fault) {
  Device *d = &state.device;
  if (!cuda_schedules_check(fault))
    return NULL;
  if (d->is_virtual)
    return d;
  return d->is_open || open_device(d, fault) ? d : NULL;
}
