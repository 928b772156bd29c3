#include "backend/cuda/device_tensor.h"
#include "backend/cuda/device.h"

typedef struct DeviceCopy {
  Tensor *tensor;
  DeviceAllocator *allocator;
  DeviceBuffer *buffer;
  bool host_stale;   /* only the device has the current data */
  uint64_t last_use; /* value of use_clock at the last use */
  struct DeviceCopy *next, *prev;
} DeviceCopy;

static DeviceCopy *copies;
static uint64_t use_clock;

void device_tensor_begin_use(void) {
  use_clock++;
}

/* ---- lifetime of a copy ---- */

static void free_copy(DeviceCopy *c) {
  *(c->prev ? &c->prev->next : &copies) = c->next;
  if (c->next)
    c->next->prev = c->prev;
  device_allocator_release(c->allocator, c->buffer);
  mem_free(c);
}

/* Called when a tensor is freed, by any thread. */
static void on_tensor_free(void *device) {
  device_lock();
  free_copy(device);
  device_unlock();
}

/* The least recently used copy whose host data are current and that is not in
 * use. */
static DeviceCopy *find_evictable(void) {
  DeviceCopy *found = NULL;
  for (DeviceCopy *c = copies; c; c = c->next)
    if (!c->host_stale && c->last_use != use_clock &&
        (!found || c->last_use < found->last_use))
      found = c;
  return found;
}

DeviceBuffer *device_alloc_evicting(DeviceAllocator *m, size_t bytes,
                                    const AllocationLabel *label,
                                    Fault *fault) {
  for (;;) {
    DeviceBuffer *b =
        device_allocator_alloc(m, bytes ? bytes : 1, label, fault);
    DeviceCopy *c = b || fault->kind != FAULT_MEMORY ? NULL : find_evictable();
    if (!c)
      return b;
    c->tensor->device_copy = NULL;
    free_copy(c);
    *fault = (Fault){0};
  }
}

static DeviceCopy *new_copy(DeviceAllocator *m, Tensor *t, Fault *fault) {
  const AllocationLabel label = {
      .dtype = t->dtype, .rank = t->rank, .shape = t->shape};
  DeviceCopy *c = mem_try_alloc(sizeof *c);
  if (!c) {
    fault_set_kind(fault, FAULT_MEMORY, "out of memory");
    return NULL;
  }
  *c = (DeviceCopy){.tensor = t, .allocator = m, .last_use = use_clock};
  c->buffer = device_alloc_evicting(
      m, (size_t)t->count * dtype_info[t->dtype].bytes, &label, fault);
  if (!c->buffer) {
    mem_free(c);
    return NULL;
  }
  c->next = copies;
  if (copies)
    copies->prev = c;
  copies = c;
  tensor_device_release = on_tensor_free;
  t->device_copy = c;
  return c;
}

/* ---- transfers ---- */

bool device_tensor_upload(DeviceAllocator *m, CudaContext *gpu, Tensor *t,
                          CuDevicePtr *at, Fault *fault) {
  DeviceCopy *c = t->device_copy;
  if (!c) {
    c = new_copy(m, t, fault);
    if (!c)
      return false;
    if (!cuda_memcpy_h2d(gpu, c->buffer->address, t->data,
                         (size_t)t->count * dtype_info[t->dtype].bytes,
                         fault)) {
      t->device_copy = NULL;
      free_copy(c);
      return false;
    }
  }
  c->last_use = use_clock;
  *at = c->buffer->address;
  return true;
}

bool device_tensor_new(DeviceAllocator *m, CudaContext *gpu, Tensor *t,
                       CuDevicePtr *at, Fault *fault) {
  (void)gpu;
  DeviceCopy *c = new_copy(m, t, fault);
  if (!c)
    return false;
  c->host_stale = true;
  *at = c->buffer->address;
  return true;
}

static bool download(CudaContext *gpu, DeviceCopy *c, Fault *fault) {
  const Tensor *t = c->tensor;
  return cuda_memcpy_d2h(gpu, t->data, c->buffer->address,
                         (size_t)t->count * dtype_info[t->dtype].bytes, fault);
}

bool device_tensor_download(CudaContext *gpu, Tensor *t, Fault *fault) {
  DeviceCopy *c = t->device_copy;
  if (!c || !c->host_stale)
    return true;
  if (!download(gpu, c, fault) || !cuda_synchronize(gpu, fault))
    return false;
  c->host_stale = false;
  return true;
}

bool device_tensor_download_all(CudaContext *gpu, Fault *fault) {
  bool any = false;
  for (DeviceCopy *c = copies; c; c = c->next) {
    if (c->host_stale && !download(gpu, c, fault))
      return false;
    any |= c->host_stale;
  }
  if (!any)
    return true;
  if (!cuda_synchronize(gpu, fault))
    return false;
  for (DeviceCopy *c = copies; c; c = c->next)
    c->host_stale = false;
  return true;
}
