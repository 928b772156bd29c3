/* Detection of the target `cuda`. */
#include "backend/cuda/cuda.h"

#include "backend/cuda/code_cache.h"
#include "backend/cuda/device.h"

#include <string.h>

/* ---- detection ---- */

static void read_driver_version(char out[64]) {
  FILE *f = fopen("/sys/module/nvidia/version", "re");
  *out = 0;
  if (!f)
    return;
  if (!fgets(out, 64, f))
    *out = 0;
  out[strcspn(out, "\n")] = 0;
  fclose(f);
}

static void check_first_device(CudaState *s) {
  const CudaDeviceInfo *d = &s->devices[0];
  if (10 * d->major + d->minor < CUDA_MIN_ARCH) {
    fault_set(&s->device_fault,
              "%s has compute capability %d.%d; at least 7.5 is required",
              d->name, d->major, d->minor);
    fault_set_help(&s->device_fault,
                   "it takes a GPU of 2018 (Turing) or later");
  } else if (s->nvrtc && !nvrtc_compiles(s->nvrtc, d->arch)) {
    fault_set(&s->device_fault,
              "NVRTC %d.%d does not compile for %s, which is "
              "%s",
              s->nvrtc->major, s->nvrtc->minor, d->name, d->arch);
    fault_set_help(&s->device_fault,
                   "set AXON_NVRTC to a newer one, or update the CUDA toolkit");
  }
}

static void probe_devices(CudaState *s) {
  Fault *fault = &s->device_fault;
  if (!cuda_version(s->api, &s->version, fault) ||
      !cuda_device_count(s->api, &s->count, fault))
    return;
  if (!s->count) {
    fault_set(fault, "the driver finds no device");
    fault_set_help(
        fault,
        "nvidia-smi -L lists the devices; CUDA_VISIBLE_DEVICES may hide one");
  }
  for (int k = 0; k < s->count && k < CUDA_MAX_DEVICES; k++)
    if (!cuda_device_info(s->api, k, &s->devices[k], fault))
      return;
  if (s->count)
    check_first_device(s);
}

void cuda_probe(CudaState *out) {
  *out = (CudaState){0};
  out->api = cuda_api(&out->driver_fault);
  out->nvrtc = nvrtc(&out->nvrtc_fault);
  read_driver_version(out->driver);
  if (out->api)
    probe_devices(out);
}

/* ---- self-test ---- */

enum { TEST_ELEMENTS = 1000, TEST_BLOCK_THREADS = 128 };

static const char test_source[] =
    "extern \"C\" __global__ void axon_trial(float *x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n)\n"
    "    x[i] = 2.0f * x[i] + (float)i;\n"
    "}\n";

static bool run_test_kernel(CudaContext *gpu, CuFunction function,
                            CuDevicePtr at, float *x, Fault *fault) {
  int n = TEST_ELEMENTS;
  void *arguments[] = {&at, &n};
  const CudaLaunch launch = {
      .function = function,
      .name = "axon_trial",
      .grid = {TEST_ELEMENTS / TEST_BLOCK_THREADS + 1, 1, 1},
      .block = {TEST_BLOCK_THREADS, 1, 1},
      .args = arguments};
  for (int k = 0; k < TEST_ELEMENTS; k++)
    x[k] = (float)(k % 7);
  if (!cuda_memcpy_h2d(gpu, at, x, TEST_ELEMENTS * sizeof *x, fault) ||
      !cuda_launch(gpu, &launch, fault) ||
      !cuda_memcpy_d2h(gpu, x, at, TEST_ELEMENTS * sizeof *x, fault) ||
      !cuda_synchronize(gpu, fault))
    return false;
  for (int k = 0; k < TEST_ELEMENTS; k++)
    if (x[k] != (float)(2 * (k % 7) + k)) {
      fault_set(fault, "the GPU: a test kernel returned %g; expected %d",
                (double)x[k], 2 * (k % 7) + k);
      return false;
    }
  return true;
}

static bool test_code(CudaContext *gpu, const CompiledCode *code,
                      Fault *fault) {
  float x[TEST_ELEMENTS];
  CuModule module;
  CuFunction function;
  CuDevicePtr at = 0;
  if (!cuda_load_module(gpu, code->bytes, &module, fault))
    return false;
  bool good =
      cuda_get_function(gpu, module, "axon_trial", 0, &function, fault) &&
      cuda_check(gpu->api, gpu->api->mem_alloc(&at, sizeof x), fault,
                 "allocating %zu bytes of GPU memory", sizeof x) &&
      run_test_kernel(gpu, function, at, x, fault);
  if (at)
    gpu->api->mem_free(at);
  cuda_unload_module(gpu, module);
  return good;
}

bool cuda_self_test(const CudaState *state, Fault *fault) {
  CudaContext gpu;
  CompiledCode code;
  bool found;
  const KernelSource text = {.source = test_source,
                             .name = "trial.cu",
                             .arch = state->devices[0].arch};
  if (!cuda_context_open(state->api, 0, &gpu, fault))
    return false;
  bool good = code_cache_compile(state->nvrtc, &text, &code, &found, fault) &&
              test_code(&gpu, &code, fault);
  compiled_code_free(&code);
  cuda_context_close(&gpu);
  return good;
}

/* ---- target ---- */

void cuda_plan_for(const char *arch) {
  device_use_virtual(arch);
}

/* One message lists everything missing.  The help is for the first problem;
 * `axon doctor` shows the rest. */
bool cuda_is_usable(Fault *fault) {
  CudaState s;
  if (device_is_virtual())
    return true;
  cuda_probe(&s);
  const Fault *first = s.api ? &s.device_fault : &s.driver_fault;
  const Fault *second = &s.nvrtc_fault;
  if (!*first->message && !*second->message)
    return true;
  const char *help = *first->message ? first->help : second->help;
  fault_set(fault, "the target cuda is not available: %.200s%s%.180s",
            first->message, *first->message && *second->message ? "; " : "",
            second->message);
  fault_set_help(
      fault, "%.200s%s", help,
      *first->message && *second->message ? "; run axon doctor for help" : "");
  fault->kind = FAULT_TARGET_UNAVAILABLE;
  return false;
}
