/* A GPU in use: context, stream, modules, launches, copies, times.
 *
 * The context is the device's primary one, which other libraries of the
 * process use, too.  It is made current whenever something is asked, as any
 * thread may ask. */
#include "backend/cuda/tape.h"

enum {
  STREAM_NON_BLOCKING = 1, /* CU_STREAM_NON_BLOCKING: waits for no other one */
  EVENT_DEFAULT = 0,       /* CU_EVENT_DEFAULT: its time is taken */
  /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  FUNCTION_DYNAMIC_SHARED = 8,
  SHARED_UNASKED = 48 << 10, /* bytes that a kernel has without that */
};

bool cuda_enter(CudaGpu *gpu, Fault *fault) {
  return cuda_good(gpu->api, gpu->api->context_set(gpu->context), fault,
                   "choosing it");
}

/* The same, for what is put on the stream: behind all that was started. */
static bool reach(CudaGpu *gpu, Fault *fault) {
  return cuda_tape_flush(gpu, fault) && cuda_enter(gpu, fault);
}

/* ---- opening ---- */

bool cuda_open(const CudaApi *api, int ordinal, CudaGpu *out, Fault *fault) {
  *out = (CudaGpu){.api = api};
  if (!cuda_device(api, ordinal, &out->about, fault) ||
      !cuda_good(api, api->device_get(&out->device, ordinal), fault,
                 "taking device %d", ordinal) ||
      !cuda_good(api, api->context_retain(&out->context, out->device), fault,
                 "opening %s", out->about.name))
    return false;
  if (cuda_enter(out, fault) &&
      cuda_good(api, api->stream_create(&out->stream, STREAM_NON_BLOCKING),
                fault, "making a stream"))
    return true;
  api->context_release(out->device);
  return false;
}

/* What these calls say is of no use any more. */
void cuda_close(CudaGpu *gpu) {
  Fault ignored;
  cuda_tape_flush(gpu, &ignored);
  cuda_tape_free(gpu);
  if (cuda_enter(gpu, &ignored))
    gpu->api->stream_destroy(gpu->stream);
  gpu->api->context_release(gpu->device);
  *gpu = (CudaGpu){0};
}

bool cuda_wait(CudaGpu *gpu, Fault *fault) {
  return reach(gpu, fault) &&
         cuda_good(gpu->api, gpu->api->stream_wait(gpu->stream), fault,
                   "waiting for what runs there");
}

bool cuda_memory(CudaGpu *gpu, uint64_t *unused, uint64_t *total,
                 Fault *fault) {
  size_t sizes[2] = {0};
  bool good = cuda_enter(gpu, fault) &&
              cuda_good(gpu->api, gpu->api->memory_info(&sizes[0], &sizes[1]),
                        fault, "asking how much memory is free");
  *unused = sizes[0];
  *total = sizes[1];
  return good;
}

/* ---- kernels ---- */

bool cuda_load(CudaGpu *gpu, const void *image, CuModule *out, Fault *fault) {
  *out = NULL;
  return cuda_enter(gpu, fault) &&
         cuda_good(gpu->api, gpu->api->module_load(out, image), fault,
                   "loading code for %s", gpu->about.arch);
}

void cuda_unload(CudaGpu *gpu, CuModule module) {
  Fault ignored;
  if (reach(gpu, &ignored))
    gpu->api->module_unload(module);
}

bool cuda_function(CudaGpu *gpu, CuModule module, const char *name,
                   unsigned shared, CuFunction *out, Fault *fault) {
  const CudaApi *api = gpu->api;
  *out = NULL;
  if (!cuda_enter(gpu, fault) ||
      !cuda_good(api, api->module_function(out, module, name), fault,
                 "finding the kernel %.100s", name))
    return false;
  return shared <= SHARED_UNASKED ||
         cuda_good(
             api, api->function_set(*out, FUNCTION_DYNAMIC_SHARED, (int)shared),
             fault, "giving the kernel %.100s %u bytes of shared memory", name,
             shared);
}

bool cuda_launch(CudaGpu *gpu, const CudaLaunch *l, Fault *fault) {
  bool good;
  if (cuda_tape_add(gpu, l, fault, &good))
    return good;
  return reach(gpu, fault) &&
         cuda_good(gpu->api,
                   gpu->api->launch(l->function, l->grid[0], l->grid[1],
                                    l->grid[2], l->block[0], l->block[1],
                                    l->block[2], l->shared, gpu->stream,
                                    l->arguments, NULL),
                   fault,
                   "starting the kernel %.100s, %u x %u x %u blocks of %u x "
                   "%u x %u threads",
                   l->name, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                   l->block[1], l->block[2]);
}

/* ---- copies ---- */

bool cuda_copy_in(CudaGpu *gpu, CuAddress to, const void *from, size_t bytes,
                  Fault *fault) {
  return !bytes ||
         (reach(gpu, fault) &&
          cuda_good(gpu->api, gpu->api->copy_in(to, from, bytes, gpu->stream),
                    fault, "copying %zu bytes to it", bytes));
}

bool cuda_copy_out(CudaGpu *gpu, void *to, CuAddress from, size_t bytes,
                   Fault *fault) {
  return !bytes ||
         (reach(gpu, fault) &&
          cuda_good(gpu->api, gpu->api->copy_out(to, from, bytes, gpu->stream),
                    fault, "copying %zu bytes from it", bytes));
}

bool cuda_copy(CudaGpu *gpu, CuAddress to, CuAddress from, size_t bytes,
               Fault *fault) {
  return !bytes ||
         (reach(gpu, fault) &&
          cuda_good(gpu->api, gpu->api->copy(to, from, bytes, gpu->stream),
                    fault, "copying %zu bytes on it", bytes));
}

bool cuda_fill(CudaGpu *gpu, CuAddress at, uint8_t value, size_t bytes,
               Fault *fault) {
  return !bytes ||
         (reach(gpu, fault) &&
          cuda_good(gpu->api, gpu->api->fill(at, value, bytes, gpu->stream),
                    fault, "filling %zu bytes on it", bytes));
}

void *cuda_host_take(CudaGpu *gpu, size_t bytes, Fault *fault) {
  void *at = NULL;
  bool good =
      cuda_enter(gpu, fault) &&
      cuda_good(gpu->api, gpu->api->host_take(&at, bytes, 0), fault,
                "taking %zu bytes of the host's memory for copies", bytes);
  if (!good && fault->kind == FAULT_MEMORY)
    fault_help(fault, "so much of it cannot be kept from being swapped out");
  return good ? at : NULL;
}

void cuda_host_give(CudaGpu *gpu, void *at) {
  Fault ignored;
  if (at && cuda_enter(gpu, &ignored))
    gpu->api->host_give(at);
}

/* ---- times ---- */

bool cuda_event(CudaGpu *gpu, CuEvent *out, Fault *fault) {
  *out = NULL;
  return cuda_enter(gpu, fault) &&
         cuda_good(gpu->api, gpu->api->event_create(out, EVENT_DEFAULT), fault,
                   "making an event");
}

void cuda_event_end(CudaGpu *gpu, CuEvent event) {
  Fault ignored;
  if (cuda_enter(gpu, &ignored))
    gpu->api->event_destroy(event);
}

bool cuda_record(CudaGpu *gpu, CuEvent event, Fault *fault) {
  return reach(gpu, fault) &&
         cuda_good(gpu->api, gpu->api->event_record(event, gpu->stream), fault,
                   "recording an event");
}

bool cuda_seconds(CudaGpu *gpu, CuEvent first, CuEvent last, double *seconds,
                  Fault *fault) {
  float ms = 0;
  bool good = cuda_enter(gpu, fault) &&
              cuda_good(gpu->api, gpu->api->event_wait(last), fault,
                        "waiting for an event") &&
              cuda_good(gpu->api, gpu->api->event_elapsed(&ms, first, last),
                        fault, "asking for the time between events");
  *seconds = 1e-3 * (double)ms;
  return good;
}
