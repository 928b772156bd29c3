/* backend/cuda: detects GPUs on this machine, and explains what is missing. */
#ifndef AXON_CUDA_H
#define AXON_CUDA_H

#include "backend/cuda/driver.h"
#include "backend/cuda/nvrtc.h"

enum { CUDA_MAX_DEVICES = 8, CUDA_MIN_ARCH = 75, CUDA_ARCH_COUNT = 7 };

/* The supported architectures.  The first is the default. */
extern const char *const cuda_archs[CUDA_ARCH_COUNT];
/* The architecture NAME of `cuda:NAME`, as an entry of cuda_archs; NULL with a
 * fault. */
const char *cuda_arch_named(const char *name, Fault *fault);
/* The architecture with this number; or NULL.  sm_90a extends sm_90, and its
 * code does not run on later GPUs. */
const char *cuda_arch_of_number(const char *name);
/* From now on, kernels are planned for a typical GPU of the architecture, and
 * nothing runs. */
void cuda_plan_for(const char *arch);

typedef struct CudaState {
  const CudaApi *api; /* NULL: see driver_fault */
  const Nvrtc *nvrtc; /* NULL: see nvrtc_fault */
  Fault driver_fault, nvrtc_fault;
  int version;     /* CUDA version that the driver supports: 13000 is 13.0 */
  char driver[64]; /* driver version, "580.95.05"; "" if unknown */
  int count; /* all devices; `devices` has at most CUDA_MAX_DEVICES of them */
  CudaDeviceInfo devices[CUDA_MAX_DEVICES];
  Fault device_fault; /* why no device is usable; or "" */
} CudaState;

/* Loads the driver and NVRTC, and queries the devices. */
void cuda_probe(CudaState *out);
/* Compiles a small kernel, runs it on the first device, and checks the
 * result. */
bool cuda_self_test(const CudaState *state, Fault *fault);

/* Measures kernel time with device events, from the first launch between the
 * two calls to the end of the last kernel. 0 if no kernel was launched.
 * cuda_timer_begin synchronizes; the L2 cache is flushed before the first
 * kernel. */
bool cuda_timer_begin(Fault *fault);
bool cuda_timer_end(double *seconds, Fault *fault);

/* For the table of targets.  False with a fault that lists everything missing.
 * Always true if kernels are only planned (device.h). */
bool cuda_is_usable(Fault *fault);

#endif
