/* axon_dlpack.h: tensors as libraries hand them to one another.
 *
 * The structs of DLPack 1.1 (https://dmlc.github.io/dlpack/latest/), written
 * anew: their layout and the names of their tags are the specification's.
 * Include dlpack.h of DLPack itself before this header, or instead of it: then
 * this one defines nothing. */
#ifndef AXON_DLPACK_H
#define AXON_DLPACK_H
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

/* A reader must not touch the struct of another major number but for its
 * version, deleter and manager_ctx. */
typedef struct {
  uint32_t major, minor;
} DLPackVersion;

typedef enum DLDeviceType { /* those that Axon knows by name */
                            kDLCPU = 1,
                            kDLCUDA = 2,
                            kDLCUDAHost = 3,
} DLDeviceType;

typedef struct {
  int32_t device_type; /* a DLDeviceType, or a later number */
  int32_t device_id;
} DLDevice;

typedef enum { /* of DLDataType.code */
               kDLInt = 0,
               kDLUInt = 1,
               kDLFloat = 2,
               kDLOpaqueHandle = 3,
               kDLBfloat = 4,
               kDLComplex = 5,
               kDLBool = 6,
} DLDataTypeCode;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes; /* 1, but for vectors */
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;     /* in elements; NULL: row-major, without gaps */
  uint64_t byte_offset; /* from data to the first element */
} DLTensor;

/* The struct of before version 1; "dltensor" is its capsule in Python. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;                             /* the deleter's */
  void (*deleter)(struct DLManagedTensor *self); /* or NULL */
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1)

/* "dltensor_versioned" is its capsule in Python. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;                                      /* the deleter's */
  void (*deleter)(struct DLManagedTensorVersioned *self); /* or NULL */
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

#endif
#endif
