/* axon_dlpack.h: the structs of DLPack, by which libraries exchange tensors.
 *
 * The structs of DLPack 1.1 (https://dmlc.github.io/dlpack/latest/), written
 * independently: their layout and the names of their tags follow the
 * specification.  If the dlpack.h of DLPack itself is included before this
 * header, this header defines nothing. */
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

/* If the major version is unknown, a reader may only use the version, deleter
   and manager_ctx of a struct. */
typedef struct {
  uint32_t major, minor;
} DLPackVersion;

typedef enum DLDeviceType { /* devices that Axon knows by name */
                            kDLCPU = 1,
                            kDLCUDA = 2,
                            kDLCUDAHost = 3,
} DLDeviceType;

typedef struct {
  int32_t device_type; /* a DLDeviceType, or a later number */
  int32_t device_id;
} DLDevice;

typedef enum { /* values of DLDataType.code */
               kDLInt = 0,
               kDLUInt = 1,
               kDLFloat = 2,
               kDLOpaqueHandle = 3,
               kDLBfloat = 4,
               kDLComplex = 5,
               kDLBool = 6,
               kDLFloat8_e4m3fn = 10,
               kDLFloat8_e5m2 = 12,
               kDLFloat8_e8m0fnu = 14,
               kDLFloat4_e2m1fn = 17,
} DLDataTypeCode;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes; /* 1, except for vectors */
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

/* The struct before DLPack 1.0; its capsule in Python is "dltensor". */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;                             /* private to the deleter */
  void (*deleter)(struct DLManagedTensor *self); /* or NULL */
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1)
/* Each element narrower than a byte has its own; otherwise they are packed. */
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2)

/* Its capsule in Python is "dltensor_versioned". */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx; /* private to the deleter */
  void (*deleter)(struct DLManagedTensorVersioned *self); /* or NULL */
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

#endif
#endif
