/* backend/cuda: tensors in the memory of the GPU.
 *
 * A tensor's data are on the host; what a kernel reads of it gets a *copy* on
 * the device, which stays there as long as the tensor or until its memory is
 * needed.  What a kernel writes is new on the device alone: the host's memory
 * is there, and filled in when the host is to look at it, which is at the end
 * of graph_force at the latest; what was let go of until then never is.  So a
 * chain of kernels moves nothing over the bus.
 *
 * All of it with the lock of the device (device.h). */
#ifndef AXON_CUDA_DEVICE_TENSOR_H
#define AXON_CUDA_DEVICE_TENSOR_H

#include "backend/cuda/caching_allocator.h"

/* What is used from now on stays until the next call. */
void device_tensor_begin_use(void);
/* Where the tensor is on the device; copies it there.  False with a fault. */
bool device_tensor_upload(DeviceAllocator *m, CudaContext *gpu, Tensor *t,
                          CuDevicePtr *at, Fault *fault);
/* A place for it, whose data the device is about to write. */
bool device_tensor_new(DeviceAllocator *m, CudaContext *gpu, Tensor *t,
                       CuDevicePtr *at, Fault *fault);
/* Gives the host what the device wrote of the tensor. */
bool device_tensor_download(CudaContext *gpu, Tensor *t, Fault *fault);
/* Gives the host all that the device wrote. */
bool device_tensor_download_all(CudaContext *gpu, Fault *fault);
/* Memory that is no tensor's; others' copies make room. */
DeviceBuffer *device_alloc_evicting(DeviceAllocator *m, size_t bytes,
                                    const AllocationLabel *label, Fault *fault);

#endif
