/* Encodes tensor maps: CUDA Driver API, "Tensor Map Object Management". */
#include "backend/cuda/tensor_map.h"

enum {
  MAX_BOX_EXTENT = 256,
  MAX_TRAVERSAL_STRIDE = 8,
  EXTENT_BITS = 32,
  STRIDE_BITS = 40,
  /* CU_TENSOR_MAP_DATA_TYPE_*.  Only the element size matters, since TMA
   * copies bits. */
  DATA_TYPE_UINT8 = 0,
  DATA_TYPE_UINT16 = 1,
  DATA_TYPE_UINT32 = 2,
  DATA_TYPE_TFLOAT32 = 11, /* rounds f32 to tf32 */
  INTERLEAVE_NONE = 0,
  L2_PROMOTION_256B = 3, /* CU_TENSOR_MAP_L2_PROMOTION_L2_256B */
  OOB_FILL_ZERO = 0,
};

static uint32_t swizzle_bytes(uint32_t number) {
  return number ? 256u >> number : 0;
}

int tensor_map_data_type(const TensorMap *m) {
  return m->round_tf32                     ? DATA_TYPE_TFLOAT32
         : dtype_info[m->dtype].bytes == 1 ? DATA_TYPE_UINT8
         : dtype_info[m->dtype].bytes == 2 ? DATA_TYPE_UINT16
                                           : DATA_TYPE_UINT32;
}

int tensor_map_swizzle(const TensorMap *m) {
  return (int)(m->swizzle ? 4 - m->swizzle : 0);
}

/* Checks the limits of the instruction on corners and strides, by rank.  An
 * image without pixels cannot be encoded, since the padding around it would
 * still be read. */
static bool im2col_is_encodable(const TensorMap *m) {
  static const int64_t max[] = {0, 0, 0, 32768, 128, 16};
  bool fits = m->rank >= 3;
  for (uint32_t j = 0; fits && j + 2 < m->rank; j++) {
    int64_t by = max[m->rank];
    fits = m->lower_corner[j] >= -by && m->lower_corner[j] < by &&
           m->upper_corner[j] >= -by && m->upper_corner[j] < by &&
           m->traversal_stride[j] >= 1 &&
           m->traversal_stride[j] <= MAX_TRAVERSAL_STRIDE &&
           m->extent[j + 1] >= 1 &&
           m->extent[j + 1] + m->upper_corner[j] > m->lower_corner[j];
  }
  return fits;
}

bool tensor_map_is_encodable(const TensorMap *m) {
  uint32_t bytes = dtype_info[m->dtype].bytes, row = m->box[0] * bytes;
  bool fits = m->rank && m->rank <= TENSOR_MAP_MAX_RANK && bytes <= 4 &&
              m->offset_bytes % TENSOR_MAP_ALIGN_BYTES == 0 &&
              row % TENSOR_MAP_ALIGN_BYTES == 0 && m->swizzle < 4 &&
              (!m->swizzle || row <= swizzle_bytes(m->swizzle)) &&
              (!m->im2col || im2col_is_encodable(m));
  for (uint32_t j = 0; fits && j < m->rank; j++) {
    fits = m->box[j] >= 1 && m->box[j] <= MAX_BOX_EXTENT && m->extent[j] >= 0 &&
           m->extent[j] <= (int64_t)1 << EXTENT_BITS;
    if (j)
      fits &= m->stride[j] > 0 && m->stride[j] % TENSOR_MAP_ALIGN_BYTES == 0 &&
              m->stride[j] < (int64_t)1 << STRIDE_BITS;
  }
  return fits;
}

static CuResult encode_im2col(CudaContext *gpu, const TensorMap *m,
                              CuDevicePtr at, const uint64_t *extent,
                              const uint64_t *stride, void *to) {
  int lower[TENSOR_MAP_MAX_RANK] = {0}, upper[TENSOR_MAP_MAX_RANK] = {0};
  uint32_t step[TENSOR_MAP_MAX_RANK];
  for (uint32_t j = 0; j < m->rank; j++) {
    bool inner = j && j + 1 < m->rank;
    step[j] = inner ? (uint32_t)m->traversal_stride[j - 1] : 1;
    if (inner) {
      lower[j - 1] = (int)m->lower_corner[j - 1];
      upper[j - 1] = (int)m->upper_corner[j - 1];
    }
  }
  return gpu->api->tensor_map_encode_im2col(
      to, tensor_map_data_type(m), m->rank, at, extent, stride, lower, upper,
      m->box[0], m->box[1], step, INTERLEAVE_NONE, tensor_map_swizzle(m),
      L2_PROMOTION_256B, OOB_FILL_ZERO);
}

/* Encodes an empty extent as 1; no box of it is loaded. */
bool tensor_map_encode(CudaContext *gpu, const TensorMap *m, CuDevicePtr tensor,
                       void *to, Fault *fault) {
  uint64_t extent[TENSOR_MAP_MAX_RANK], stride[TENSOR_MAP_MAX_RANK];
  uint32_t step[TENSOR_MAP_MAX_RANK];
  for (uint32_t j = 0; j < m->rank; j++) {
    extent[j] = m->extent[j] ? (uint64_t)m->extent[j] : 1;
    stride[j] = (uint64_t)m->stride[j];
    step[j] = 1;
  }
  if (!cuda_context_make_current(gpu, fault))
    return false;
  CuDevicePtr at = tensor + (uint64_t)m->offset_bytes;
  CuResult result =
      m->im2col ? encode_im2col(gpu, m, at, extent, stride + 1, to)
                : gpu->api->tensor_map_encode_tiled(
                      to, tensor_map_data_type(m), m->rank, at, extent,
                      stride + 1, m->box, step, INTERLEAVE_NONE,
                      tensor_map_swizzle(m), L2_PROMOTION_256B, OOB_FILL_ZERO);
  return cuda_check(gpu->api, result, fault, "describing a tensor to it");
}
