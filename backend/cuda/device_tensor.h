/* backend/cuda: tensors in device memory.
 *
 * The data of a tensor are on the host.  If a kernel reads the tensor, it gets
 * a *copy* on the device.  The copy lives as long as the tensor, or until the
 * allocator evicts it.
 *
 * The output of a kernel exists first only on the device.  Its host memory is
 * allocated, but filled only when the host reads it: at the end of graph_force
 * at the latest.  Tensors that are freed earlier are never downloaded.  So a
 * chain of kernels causes no transfers.
 *
 * All functions require the lock of the device (device.h). */
#ifndef AXON_CUDA_DEVICE_TENSOR_H
#define AXON_CUDA_DEVICE_TENSOR_H

#include "backend/cuda/caching_allocator.h"

/* Copies used from now until the next call are not evicted. */
void device_tensor_begin_use(void);
/* Returns the device address in *at.  Copies the data if necessary.  False with
 * a fault. */
bool device_tensor_upload(DeviceAllocator *m, CudaContext *gpu, Tensor *t,
                          CuDevicePtr *at, Fault *fault);
/* Allocates device memory for an output.  The host data become stale. */
bool device_tensor_new(DeviceAllocator *m, CudaContext *gpu, Tensor *t,
                       CuDevicePtr *at, Fault *fault);
/* Copies the tensor to the host if the host data are stale. */
bool device_tensor_download(CudaContext *gpu, Tensor *t, Fault *fault);
/* Copies all stale tensors to the host. */
bool device_tensor_download_all(CudaContext *gpu, Fault *fault);
/* Allocates memory that belongs to no tensor.  Evicts copies of tensors if
 * necessary. */
DeviceBuffer *device_alloc_evicting(DeviceAllocator *m, size_t bytes,
                                    const AllocationLabel *label, Fault *fault);

#endif
