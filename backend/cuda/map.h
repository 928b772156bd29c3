/* backend/cuda: tensor maps, which tell TMA of a tensor and of the boxes that
 * are moved of it.
 *
 * A pass that moves boxes has maps at the end of its arguments, `ax_tensor_map
 * m[..]`.  How one is written:
 *
 *     const char *map = cuda_add_map(w, &(CudaMap){...});    "&a.m[0]"
 *
 * What the tensor is like is a size each; the driver makes the map of it when
 * the pass is started (cuda_put_maps; module.c where sizes are open), as it
 * holds an address.  What the driver takes is what cuda_map_fits says of
 * numbers: so ask that, and have another way where it says no.  A module has
 * both ways, and looks at the numbers of each call.  A tensor without elements
 * has a map that nobody loads by; boxes that reach beyond the tensor are 0
 * there, and store nothing.  A convolution's operand is a tensor of pixels
 * (im2col). */
#ifndef AXON_CUDA_MAP_H
#define AXON_CUDA_MAP_H

#include "backend/cuda/driver.h"
#include "runtime/runtime.h"

enum { MAP_AXES = 5, MAP_BYTES = 128, MAP_LINE = 16 };

typedef struct CudaMap {
  uint32_t pointer; /* that tensor's, by its number among the arguments' */
  int64_t at;       /* bytes to its first element */
  Dtype dtype;      /* of 16 or 32 bits */
  bool tf32;        /* f32 that is rounded to it on the way */
  uint32_t rank;
  /* by axis, that of neighbours in memory first: elements, and bytes from one
   * to the next; stride[0] is that of the type */
  int64_t extent[MAP_AXES], stride[MAP_AXES];
  uint32_t box[MAP_AXES];
  uint32_t swizzle; /* its number: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 */
  /* Of pixels (im2col): channels, the axes of an image, images.  box[0]
     channels of box[1] pixels are moved, as they are counted from a lower to an
     upper corner, which are relative to the image's, by steps. */
  bool pixels;
  int64_t lower[MAP_AXES - 2], upper[MAP_AXES - 2], step[MAP_AXES - 2];
} CudaMap;

/* Would the driver take it, at an address that is a multiple of 16 bytes? */
bool cuda_map_fits(const CudaMap *map);
/* The driver's numbers of its type and its swizzle. */
int cuda_map_type(const CudaMap *map);
int cuda_map_swizzle(const CudaMap *map);
/* Into 128 bytes, aligned to 64, of a tensor that begins there. */
bool cuda_map_put(CudaGpu *gpu, const CudaMap *map, CuAddress tensor, void *to,
                  Fault *fault);

#endif
