/* backend/cuda: what there is for GPUs on this machine, and what is missing. */
#ifndef AXON_CUDA_H
#define AXON_CUDA_H

#include "backend/cuda/driver.h"
#include "backend/cuda/nvrtc.h"

enum { CUDA_MAX_DEVICES = 8, CUDA_MIN_ARCH = 75, CUDA_ARCH_COUNT = 7 };

/* Architectures that there are kernels for, the one that is assumed first. */
extern const char *const cuda_archs[CUDA_ARCH_COUNT];
/* What NAME of `cuda:NAME` is, as one of these; NULL with a fault. */
const char *cuda_arch_named(const char *name, Fault *fault);
/* The one of this number; or NULL.  sm_90 has not what sm_90a has, and its code
 * is not for GPUs that come after. */
const char *cuda_arch_of_number(const char *name);
/* From now on kernels are planned for a usual GPU of it, and nothing is run. */
void cuda_plan_for(const char *arch);

typedef struct CudaState {
  const CudaApi *api; /* NULL: driver_fault says why */
  const Nvrtc *nvrtc; /* NULL: nvrtc_fault */
  Fault driver_fault, nvrtc_fault;
  int version;     /* of CUDA, that the driver knows: 13000 */
  char driver[64]; /* its own version, "580.95.05"; or "" */
  int count;       /* of devices; of these CUDA_MAX_DEVICES are told */
  CudaDeviceInfo devices[CUDA_MAX_DEVICES];
  Fault device_fault; /* why there is none that can be used; or "" */
} CudaState;

/* Looks; loads both libraries. */
void cuda_probe(CudaState *out);
/* Compiles a small kernel and runs it on the first device, from end to end. */
bool cuda_self_test(const CudaState *state, Fault *fault);

/* The time of kernels, as the device takes it, from the first one that is
 * started between these two to the last one; 0: there was none.  Before it
 * begins, all else is done, and what its second cache held is gone. */
bool cuda_timer_begin(Fault *fault);
bool cuda_timer_end(double *seconds, Fault *fault);

/* For the table of targets: false with all that is missing, unless kernels are
 * but planned (device.h). */
bool cuda_is_usable(Fault *fault);

#endif
