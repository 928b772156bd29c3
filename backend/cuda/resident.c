#include "backend/cuda/resident.h"
#include "backend/cuda/device.h"

typedef struct Copy {
  Tensor *of;
  CudaMemory *memory;
  CudaBlock *block;
  bool ahead;    /* the host's data are old */
  uint64_t used; /* when: stamps */
  struct Copy *next, *prev;
} Copy;

static Copy *all;
static uint64_t stamp;

void resident_begin(void) {
  stamp++;
}

/* ---- a copy's life ---- */

static void drop(Copy *c) {
  *(c->prev ? &c->prev->next : &all) = c->next;
  if (c->next)
    c->next->prev = c->prev;
  cuda_memory_give(c->memory, c->block);
  mem_free(c);
}

/* The tensor goes: from any thread. */
static void end_copy(void *device) {
  device_lock();
  drop(device);
  device_unlock();
}

/* The copy that was not used for the longest time, and that the host has; not
 * one of those in use. */
static Copy *least_used(void) {
  Copy *found = NULL;
  for (Copy *c = all; c; c = c->next)
    if (!c->ahead && c->used != stamp && (!found || c->used < found->used))
      found = c;
  return found;
}

CudaBlock *resident_take(CudaMemory *m, size_t bytes, const CudaUse *use,
                         Fault *fault) {
  for (;;) {
    CudaBlock *b = cuda_memory_take(m, bytes ? bytes : 1, use, fault);
    Copy *c = b || fault->kind != FAULT_MEMORY ? NULL : least_used();
    if (!c)
      return b;
    c->of->device = NULL;
    drop(c);
    *fault = (Fault){0};
  }
}

static Copy *new_copy(CudaMemory *m, Tensor *t, Fault *fault) {
  const CudaUse use = {.dtype = t->dtype, .rank = t->rank, .shape = t->shape};
  Copy *c = mem_try_alloc(sizeof *c);
  if (!c) {
    fault_set_kind(fault, FAULT_MEMORY, "out of memory");
    return NULL;
  }
  *c = (Copy){.of = t, .memory = m, .used = stamp};
  c->block = resident_take(m, (size_t)t->count * dtype_info[t->dtype].bytes,
                           &use, fault);
  if (!c->block) {
    mem_free(c);
    return NULL;
  }
  c->next = all;
  if (all)
    all->prev = c;
  all = c;
  tensor_device_end = end_copy;
  t->device = c;
  return c;
}

/* ---- in and out ---- */

bool resident_in(CudaMemory *m, CudaGpu *gpu, Tensor *t, CuAddress *at,
                 Fault *fault) {
  Copy *c = t->device;
  if (!c) {
    c = new_copy(m, t, fault);
    if (!c)
      return false;
    if (!cuda_copy_in(gpu, c->block->at, t->data,
                      (size_t)t->count * dtype_info[t->dtype].bytes, fault)) {
      t->device = NULL;
      drop(c);
      return false;
    }
  }
  c->used = stamp;
  *at = c->block->at;
  return true;
}

bool resident_new(CudaMemory *m, CudaGpu *gpu, Tensor *t, CuAddress *at,
                  Fault *fault) {
  (void)gpu;
  Copy *c = new_copy(m, t, fault);
  if (!c)
    return false;
  c->ahead = true;
  *at = c->block->at;
  return true;
}

static bool copy_out(CudaGpu *gpu, Copy *c, Fault *fault) {
  const Tensor *t = c->of;
  return cuda_copy_out(gpu, t->data, c->block->at,
                       (size_t)t->count * dtype_info[t->dtype].bytes, fault);
}

bool resident_out(CudaGpu *gpu, Tensor *t, Fault *fault) {
  Copy *c = t->device;
  if (!c || !c->ahead)
    return true;
  if (!copy_out(gpu, c, fault) || !cuda_wait(gpu, fault))
    return false;
  c->ahead = false;
  return true;
}

bool resident_all_out(CudaGpu *gpu, Fault *fault) {
  bool any = false;
  for (Copy *c = all; c; c = c->next) {
    if (c->ahead && !copy_out(gpu, c, fault))
      return false;
    any |= c->ahead;
  }
  if (!any)
    return true;
  if (!cuda_wait(gpu, fault))
    return false;
  for (Copy *c = all; c; c = c->next)
    c->ahead = false;
  return true;
}
