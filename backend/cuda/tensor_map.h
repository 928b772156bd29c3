/* backend/cuda: tensor maps, which describe a tensor and its boxes to TMA.
 *
 * A pass that uses TMA has its tensor maps at the end of its arguments, as
 * `ax_tensor_map m[..]`.  To emit one:
 *
 *     const char *map = cuda_add_tensor_map(w, &(TensorMap){...});    "&a.m[0]"
 *
 * Offset, extents and strides are symbolic sizes.  A tensor map contains an
 * address, so the driver encodes it at launch (cuda_encode_tensor_maps;
 * aot_module.c for symbolic sizes).
 *
 * tensor_map_is_encodable gives the driver's limits.  A pass needs a fallback
 * for sizes outside of them.  An AOT module has both kernels, and checks the
 * sizes of each call.
 *
 * The map of a tensor without elements is never used.  Elements of a box out
 * of bounds are loaded as 0 and not stored.  The operand of a convolution is a
 * tensor of pixels (im2col). */
#ifndef AXON_CUDA_TENSOR_MAP_H
#define AXON_CUDA_TENSOR_MAP_H

#include "backend/cuda/driver.h"
#include "runtime/runtime.h"

enum {
  TENSOR_MAP_MAX_RANK = 5,
  TENSOR_MAP_BYTES = 128,
  TENSOR_MAP_ALIGN_BYTES = 16
};

typedef struct TensorMap {
  /* Index of the tensor's pointer in the arguments. */
  uint32_t pointer_index;
  int64_t offset_bytes; /* offset of the first element */
  Dtype dtype;          /* 16 or 32 bits */
  bool round_tf32;      /* f32 elements are rounded to tf32 when loaded */
  uint32_t rank;
  /* Per axis, the contiguous axis first: elements, and bytes between elements.
   * stride[0] is the size of an element. */
  int64_t extent[TENSOR_MAP_MAX_RANK], stride[TENSOR_MAP_MAX_RANK];
  uint32_t box[TENSOR_MAP_MAX_RANK];
  /* Number of the swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes. */
  uint32_t swizzle;
  /* im2col mode.  Axes: channels, spatial axes, images.  A box has box[0]
   * channels of box[1] pixels.  The corners, relative to the image, bound the
   * pixels; traversal_stride is their distance. */
  bool im2col;
  int64_t lower_corner[TENSOR_MAP_MAX_RANK - 2],
      upper_corner[TENSOR_MAP_MAX_RANK - 2],
      traversal_stride[TENSOR_MAP_MAX_RANK - 2];
} TensorMap;

/* True if the driver can encode the map for an address that is a multiple of
 * 16 bytes. */
bool tensor_map_is_encodable(const TensorMap *map);
/* The driver's numbers of the data type and the swizzle. */
int tensor_map_data_type(const TensorMap *map);
int tensor_map_swizzle(const TensorMap *map);
/* Encodes the map of a tensor at this address to 128 bytes, aligned to 64. */
bool tensor_map_encode(CudaContext *gpu, const TensorMap *map,
                       CuDevicePtr tensor, void *to, Fault *fault);

#endif
