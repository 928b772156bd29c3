/* A GPU context: stream, modules, launches, copies, events.
 *
 * The context is the primary context of the device, which other libraries of
 * the process share.  Each call makes it current first, because any thread may
 * call. */
#include "backend/cuda/launch_graph.h"

enum {
  /* CU_STREAM_NON_BLOCKING: no implicit synchronization with the default
   * stream. */
  STREAM_NON_BLOCKING = 1,
  EVENT_DEFAULT = 0, /* CU_EVENT_DEFAULT: records timing */
  /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
  FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8,
  /* Shared memory of a kernel without the attribute, bytes. */
  DEFAULT_SHARED_BYTES = 48 << 10,
};

bool cuda_context_make_current(CudaContext *gpu, Fault *fault) {
  return cuda_check(gpu->api, gpu->api->context_set(gpu->context), fault,
                    "selecting it");
}

/* Also launches the recorded graph, so that new work on the stream follows
 * it. */
static bool make_current_and_flush(CudaContext *gpu, Fault *fault) {
  return launch_graph_flush(gpu, fault) &&
         cuda_context_make_current(gpu, fault);
}

/* ---- open and close ---- */

bool cuda_context_open(const CudaApi *api, int ordinal, CudaContext *out,
                       Fault *fault) {
  *out = (CudaContext){.api = api};
  if (!cuda_device_info(api, ordinal, &out->info, fault) ||
      !cuda_check(api, api->device_get(&out->device, ordinal), fault,
                  "opening device %d", ordinal) ||
      !cuda_check(api, api->context_retain(&out->context, out->device), fault,
                  "opening %s", out->info.name))
    return false;
  if (cuda_context_make_current(out, fault) &&
      cuda_check(api, api->stream_create(&out->stream, STREAM_NON_BLOCKING),
                 fault, "creating a stream"))
    return true;
  api->context_release(out->device);
  return false;
}

/* Ignores errors: the context closes anyway. */
void cuda_context_close(CudaContext *gpu) {
  Fault ignored;
  launch_graph_flush(gpu, &ignored);
  launch_graph_free(gpu);
  if (cuda_context_make_current(gpu, &ignored))
    gpu->api->stream_destroy(gpu->stream);
  gpu->api->context_release(gpu->device);
  *gpu = (CudaContext){0};
}

bool cuda_synchronize(CudaContext *gpu, Fault *fault) {
  return make_current_and_flush(gpu, fault) &&
         cuda_check(gpu->api, gpu->api->stream_synchronize(gpu->stream), fault,
                    "waiting for kernels");
}

bool cuda_memory_info(CudaContext *gpu, uint64_t *unused, uint64_t *total,
                      Fault *fault) {
  size_t sizes[2] = {0};
  bool good = cuda_context_make_current(gpu, fault) &&
              cuda_check(gpu->api, gpu->api->mem_info(&sizes[0], &sizes[1]),
                         fault, "querying free memory");
  *unused = sizes[0];
  *total = sizes[1];
  return good;
}

/* ---- kernels ---- */

bool cuda_load_module(CudaContext *gpu, const void *image, CuModule *out,
                      Fault *fault) {
  *out = NULL;
  return cuda_context_make_current(gpu, fault) &&
         cuda_check(gpu->api, gpu->api->module_load(out, image), fault,
                    "loading code for %s", gpu->info.arch);
}

void cuda_unload_module(CudaContext *gpu, CuModule module) {
  Fault ignored;
  if (make_current_and_flush(gpu, &ignored))
    gpu->api->module_unload(module);
}

bool cuda_get_function(CudaContext *gpu, CuModule module, const char *name,
                       unsigned shared, CuFunction *out, Fault *fault) {
  const CudaApi *api = gpu->api;
  *out = NULL;
  if (!cuda_context_make_current(gpu, fault) ||
      !cuda_check(api, api->module_get_function(out, module, name), fault,
                  "finding the kernel %.100s", name))
    return false;
  return shared <= DEFAULT_SHARED_BYTES ||
         cuda_check(
             api,
             api->function_set_attribute(
                 *out, FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED, (int)shared),
             fault,
             "allocating for the kernel %.100s %u bytes of shared memory", name,
             shared);
}

bool cuda_launch(CudaContext *gpu, const CudaLaunch *l, Fault *fault) {
  bool good;
  if (launch_graph_add(gpu, l, fault, &good))
    return good;
  return make_current_and_flush(gpu, fault) &&
         cuda_check(gpu->api,
                    gpu->api->launch(l->function, l->grid[0], l->grid[1],
                                     l->grid[2], l->block[0], l->block[1],
                                     l->block[2], l->shared_bytes, gpu->stream,
                                     l->args, NULL),
                    fault,
                    "starting the kernel %.100s, %u x %u x %u blocks of %u x "
                    "%u x %u threads",
                    l->name, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                    l->block[1], l->block[2]);
}

/* ---- copies ---- */

bool cuda_memcpy_h2d(CudaContext *gpu, CuDevicePtr to, const void *from,
                     size_t bytes, Fault *fault) {
  return !bytes ||
         (make_current_and_flush(gpu, fault) &&
          cuda_check(gpu->api,
                     gpu->api->memcpy_h2d(to, from, bytes, gpu->stream), fault,
                     "copying %zu bytes to it", bytes));
}

bool cuda_memcpy_d2h(CudaContext *gpu, void *to, CuDevicePtr from, size_t bytes,
                     Fault *fault) {
  return !bytes ||
         (make_current_and_flush(gpu, fault) &&
          cuda_check(gpu->api,
                     gpu->api->memcpy_d2h(to, from, bytes, gpu->stream), fault,
                     "copying %zu bytes from it", bytes));
}

bool cuda_memcpy_d2d(CudaContext *gpu, CuDevicePtr to, CuDevicePtr from,
                     size_t bytes, Fault *fault) {
  return !bytes ||
         (make_current_and_flush(gpu, fault) &&
          cuda_check(gpu->api,
                     gpu->api->memcpy_d2d(to, from, bytes, gpu->stream), fault,
                     "copying %zu bytes on it", bytes));
}

bool cuda_memset(CudaContext *gpu, CuDevicePtr at, uint8_t value, size_t bytes,
                 Fault *fault) {
  return !bytes ||
         (make_current_and_flush(gpu, fault) &&
          cuda_check(gpu->api, gpu->api->memset(at, value, bytes, gpu->stream),
                     fault, "filling %zu bytes on it", bytes));
}

void *cuda_host_alloc(CudaContext *gpu, size_t bytes, Fault *fault) {
  void *at = NULL;
  bool good =
      cuda_context_make_current(gpu, fault) &&
      cuda_check(gpu->api, gpu->api->host_alloc(&at, bytes, 0), fault,
                 "allocating %zu bytes of host memory for copies", bytes);
  if (!good && fault->kind == FAULT_MEMORY)
    fault_set_help(fault, "this amount of host memory cannot be pinned");
  return good ? at : NULL;
}

void cuda_host_free(CudaContext *gpu, void *at) {
  Fault ignored;
  if (at && cuda_context_make_current(gpu, &ignored))
    gpu->api->host_free(at);
}

/* ---- events ---- */

bool cuda_event_create(CudaContext *gpu, CuEvent *out, Fault *fault) {
  *out = NULL;
  return cuda_context_make_current(gpu, fault) &&
         cuda_check(gpu->api, gpu->api->event_create(out, EVENT_DEFAULT), fault,
                    "creating an event");
}

void cuda_event_destroy(CudaContext *gpu, CuEvent event) {
  Fault ignored;
  if (cuda_context_make_current(gpu, &ignored))
    gpu->api->event_destroy(event);
}

bool cuda_event_record(CudaContext *gpu, CuEvent event, Fault *fault) {
  return make_current_and_flush(gpu, fault) &&
         cuda_check(gpu->api, gpu->api->event_record(event, gpu->stream), fault,
                    "recording an event");
}

bool cuda_event_elapsed(CudaContext *gpu, CuEvent first, CuEvent last,
                        double *seconds, Fault *fault) {
  float ms = 0;
  bool good = cuda_context_make_current(gpu, fault) &&
              cuda_check(gpu->api, gpu->api->event_synchronize(last), fault,
                         "waiting for an event") &&
              cuda_check(gpu->api, gpu->api->event_elapsed(&ms, first, last),
                         fault, "querying the time between events");
  *seconds = 1e-3 * (double)ms;
  return good;
}
