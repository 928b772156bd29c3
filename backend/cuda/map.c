/* Tensor maps, as the driver's manual has them: chapter "Tensor Map Object
 * Management". */
#include "backend/cuda/map.h"

enum {
  BOX_MOST = 256,
  STEP_MOST = 8,
  AXIS_BITS = 32,
  STRIDE_BITS = 40,
  /* CU_TENSOR_MAP_DATA_TYPE_: bits are moved, whatever they stand for */
  TYPE_16 = 1,    /* UINT16 */
  TYPE_32 = 2,    /* UINT32 */
  TYPE_TF32 = 11, /* TFLOAT32: but for these, which are rounded */
  INTERLEAVE_NONE = 0,
  PROMOTION_256 = 3, /* of L2: what is near is fetched with it */
  FILL_ZERO = 0,
};

static uint32_t swizzle_bytes(uint32_t number) {
  return number ? 256u >> number : 0;
}

int cuda_map_type(const CudaMap *m) {
  return m->tf32                           ? TYPE_TF32
         : dtype_info[m->dtype].bytes == 2 ? TYPE_16
                                           : TYPE_32;
}

int cuda_map_swizzle(const CudaMap *m) {
  return (int)(m->swizzle ? 4 - m->swizzle : 0);
}

/* What the instruction has bits for: corners of as many axes, and steps.  An
 * image without pixels is none: around it there is something to be read. */
static bool pixels_fit(const CudaMap *m) {
  static const int64_t most[] = {0, 0, 0, 32768, 128, 16};
  bool fits = m->rank >= 3;
  for (uint32_t j = 0; fits && j + 2 < m->rank; j++) {
    int64_t by = most[m->rank];
    fits = m->lower[j] >= -by && m->lower[j] < by && m->upper[j] >= -by &&
           m->upper[j] < by && m->step[j] >= 1 && m->step[j] <= STEP_MOST &&
           m->extent[j + 1] >= 1 &&
           m->extent[j + 1] + m->upper[j] > m->lower[j];
  }
  return fits;
}

bool cuda_map_fits(const CudaMap *m) {
  uint32_t bytes = dtype_info[m->dtype].bytes, row = m->box[0] * bytes;
  bool fits = m->rank && m->rank <= MAP_AXES && (bytes == 2 || bytes == 4) &&
              m->at % MAP_LINE == 0 && row % MAP_LINE == 0 && m->swizzle < 4 &&
              (!m->swizzle || row <= swizzle_bytes(m->swizzle)) &&
              (!m->pixels || pixels_fit(m));
  for (uint32_t j = 0; fits && j < m->rank; j++) {
    fits = m->box[j] >= 1 && m->box[j] <= BOX_MOST && m->extent[j] >= 0 &&
           m->extent[j] <= (int64_t)1 << AXIS_BITS;
    if (j)
      fits &= m->stride[j] > 0 && m->stride[j] % MAP_LINE == 0 &&
              m->stride[j] < (int64_t)1 << STRIDE_BITS;
  }
  return fits;
}

static CuResult put_pixels(CudaGpu *gpu, const CudaMap *m, CuAddress at,
                           const uint64_t *extent, const uint64_t *stride,
                           void *to) {
  int lower[MAP_AXES] = {0}, upper[MAP_AXES] = {0};
  uint32_t step[MAP_AXES];
  for (uint32_t j = 0; j < m->rank; j++) {
    bool inner = j && j + 1 < m->rank;
    step[j] = inner ? (uint32_t)m->step[j - 1] : 1;
    if (inner) {
      lower[j - 1] = (int)m->lower[j - 1];
      upper[j - 1] = (int)m->upper[j - 1];
    }
  }
  return gpu->api->tensor_pixels(to, cuda_map_type(m), m->rank, at, extent,
                                 stride, lower, upper, m->box[0], m->box[1],
                                 step, INTERLEAVE_NONE, cuda_map_swizzle(m),
                                 PROMOTION_256, FILL_ZERO);
}

/* What has no elements is given one, which is not read. */
bool cuda_map_put(CudaGpu *gpu, const CudaMap *m, CuAddress tensor, void *to,
                  Fault *fault) {
  uint64_t extent[MAP_AXES], stride[MAP_AXES];
  uint32_t step[MAP_AXES];
  for (uint32_t j = 0; j < m->rank; j++) {
    extent[j] = m->extent[j] ? (uint64_t)m->extent[j] : 1;
    stride[j] = (uint64_t)m->stride[j];
    step[j] = 1;
  }
  if (!cuda_enter(gpu, fault))
    return false;
  CuAddress at = tensor + (uint64_t)m->at;
  CuResult result =
      m->pixels
          ? put_pixels(gpu, m, at, extent, stride + 1, to)
          : gpu->api->tensor_map(to, cuda_map_type(m), m->rank, at, extent,
                                 stride + 1, m->box, step, INTERLEAVE_NONE,
                                 cuda_map_swizzle(m), PROMOTION_256, FILL_ZERO);
  return cuda_good(gpu->api, result, fault, "describing a tensor to it");
}
