/* backend/cuda: tensor maps, which tell TMA of a tensor and of the boxes that
 * are moved of it.
 *
 * A pass that moves boxes has maps at the end of its arguments, `ax_tensor_map
 * m[..]`.  How one is written:
 *
 *     const char *map = cuda_add_tensor_map(w, &(TensorMap){...});    "&a.m[0]"
 *
 * What the tensor is like is a size each; the driver makes the map of it when
 * the pass is started (cuda_encode_tensor_maps; aot_module.c where sizes are
 * open), as it holds an address.  What the driver takes is what
 * tensor_map_is_encodable says of numbers: so ask that, and have another way
 * where it says no.  A module has both ways, and looks at the numbers of each
 * call.  A tensor without elements has a map that nobody loads by; boxes that
 * reach beyond the tensor are 0 there, and store nothing.  A convolution's
 * operand is a tensor of pixels (im2col). */
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
  uint32_t
      pointer_index;    /* that tensor's, by its number among the arguments' */
  int64_t offset_bytes; /* bytes to its first element */
  Dtype dtype;          /* of 16 or 32 bits */
  bool round_tf32;      /* f32 that is rounded to it on the way */
  uint32_t rank;
  /* by axis, that of neighbours in memory first: elements, and bytes from one
   * to the next; stride[0] is that of the type */
  int64_t extent[TENSOR_MAP_MAX_RANK], stride[TENSOR_MAP_MAX_RANK];
  uint32_t box[TENSOR_MAP_MAX_RANK];
  uint32_t swizzle; /* its number: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 */
  /* Of pixels (im2col): channels, the axes of an image, images.  box[0]
     channels of box[1] pixels are moved, as they are counted from a lower to an
     upper corner, which are relative to the image's, by steps. */
  bool im2col;
  int64_t lower_corner[TENSOR_MAP_MAX_RANK - 2],
      upper_corner[TENSOR_MAP_MAX_RANK - 2],
      traversal_stride[TENSOR_MAP_MAX_RANK - 2];
} TensorMap;

/* Would the driver take it, at an address that is a multiple of 16 bytes? */
bool tensor_map_is_encodable(const TensorMap *map);
/* The driver's numbers of its type and its swizzle. */
int tensor_map_data_type(const TensorMap *map);
int tensor_map_swizzle(const TensorMap *map);
/* Into 128 bytes, aligned to 64, of a tensor that begins there. */
bool tensor_map_encode(CudaContext *gpu, const TensorMap *map,
                       CuDevicePtr tensor, void *to, Fault *fault);

#endif
