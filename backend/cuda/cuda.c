/* What the target `cuda` finds here, and what is missing. */
#include "backend/cuda/cuda.h"

#include "backend/cuda/device.h"
#include "backend/cuda/image.h"

#include <string.h>

/* ---- looking ---- */

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

static void check_first(CudaState *s) {
  const CudaDevice *d = &s->devices[0];
  if (10 * d->major + d->minor < CUDA_ARCH_LEAST) {
    fault_set(&s->device_fault,
              "%s is of compute capability %d.%d: 7.5 is the "
              "least",
              d->name, d->major, d->minor);
    fault_help(&s->device_fault, "it takes a GPU of 2018 (Turing) or later");
  } else if (s->nvrtc && !nvrtc_compiles(s->nvrtc, d->arch)) {
    fault_set(&s->device_fault,
              "NVRTC %d.%d does not compile for %s, which is "
              "%s",
              s->nvrtc->major, s->nvrtc->minor, d->name, d->arch);
    fault_help(&s->device_fault, "let AXON_NVRTC name a newer one, or update "
                                 "CUDA's toolkit");
  }
}

static void look_at_devices(CudaState *s) {
  Fault *fault = &s->device_fault;
  if (!cuda_version(s->api, &s->version, fault) ||
      !cuda_count(s->api, &s->count, fault))
    return;
  if (!s->count) {
    fault_set(fault, "the driver has no device");
    fault_help(fault, "nvidia-smi -L lists what it sees; CUDA_VISIBLE_DEVICES "
                      "may hide it");
  }
  for (int k = 0; k < s->count && k < CUDA_DEVICES; k++)
    if (!cuda_device(s->api, k, &s->devices[k], fault))
      return;
  if (s->count)
    check_first(s);
}

void cuda_look(CudaState *out) {
  *out = (CudaState){0};
  out->api = cuda_api(&out->driver_fault);
  out->nvrtc = nvrtc(&out->nvrtc_fault);
  read_driver_version(out->driver);
  if (out->api)
    look_at_devices(out);
}

/* ---- trying ---- */

enum { TRIAL = 1000, TRIAL_BLOCK = 128 };

static const char trial_text[] =
    "extern \"C\" __global__ void axon_trial(float *x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n)\n"
    "    x[i] = 2.0f * x[i] + (float)i;\n"
    "}\n";

static bool run_trial(CudaGpu *gpu, CuFunction function, CuAddress at, float *x,
                      Fault *fault) {
  int n = TRIAL;
  void *arguments[] = {&at, &n};
  const CudaLaunch launch = {.function = function,
                             .name = "axon_trial",
                             .grid = {TRIAL / TRIAL_BLOCK + 1, 1, 1},
                             .block = {TRIAL_BLOCK, 1, 1},
                             .arguments = arguments};
  for (int k = 0; k < TRIAL; k++)
    x[k] = (float)(k % 7);
  if (!cuda_copy_in(gpu, at, x, TRIAL * sizeof *x, fault) ||
      !cuda_launch(gpu, &launch, fault) ||
      !cuda_copy_out(gpu, x, at, TRIAL * sizeof *x, fault) ||
      !cuda_wait(gpu, fault))
    return false;
  for (int k = 0; k < TRIAL; k++)
    if (x[k] != (float)(2 * (k % 7) + k)) {
      fault_set(fault, "the GPU: a kernel gave %g in the place of %d",
                (double)x[k], 2 * (k % 7) + k);
      return false;
    }
  return true;
}

static bool try_image(CudaGpu *gpu, const CudaCode *code, Fault *fault) {
  float x[TRIAL];
  CuModule module;
  CuFunction function;
  CuAddress at = 0;
  if (!cuda_load(gpu, code->bytes, &module, fault))
    return false;
  bool good = cuda_function(gpu, module, "axon_trial", 0, &function, fault) &&
              cuda_good(gpu->api, gpu->api->memory_take(&at, sizeof x), fault,
                        "taking %zu bytes of its memory", sizeof x) &&
              run_trial(gpu, function, at, x, fault);
  if (at)
    gpu->api->memory_give(at);
  cuda_unload(gpu, module);
  return good;
}

bool cuda_try(const CudaState *state, Fault *fault) {
  CudaGpu gpu;
  CudaCode code;
  bool found;
  const CudaText text = {
      .text = trial_text, .name = "trial.cu", .arch = state->devices[0].arch};
  if (!cuda_open(state->api, 0, &gpu, fault))
    return false;
  bool good = cuda_image(state->nvrtc, &text, &code, &found, fault) &&
              try_image(&gpu, &code, fault);
  cuda_code_free(&code);
  cuda_close(&gpu);
  return good;
}

/* ---- the target ---- */

void cuda_plan_for(const char *arch) {
  device_on_paper(arch);
}

/* All that is missing is told in one message; how to get it of the first, as
 * `axon doctor` says the rest. */
bool cuda_usable(Fault *fault) {
  CudaState s;
  if (device_is_paper())
    return true;
  cuda_look(&s);
  const Fault *first = s.api ? &s.device_fault : &s.driver_fault;
  const Fault *second = &s.nvrtc_fault;
  if (!*first->message && !*second->message)
    return true;
  const char *help = *first->message ? first->help : second->help;
  fault_set(fault, "nothing runs on the target cuda: %.200s%s%.180s",
            first->message, *first->message && *second->message ? "; " : "",
            second->message);
  fault_help(fault, "%.200s%s", help,
             *first->message && *second->message
                 ? "; axon doctor has the way to the rest"
                 : "");
  fault->kind = FAULT_MACHINE;
  return false;
}
