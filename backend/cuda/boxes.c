/* Operands of contractions that TMA copies: as tensors of few axes, which it
 * takes boxes of. */
#include "backend/cuda/tile.h"

/* Does the address walk over the axes as if they were one?  Its stride, and its
 * extent. */
static bool is_one_axis(const Loop *loop, const Quasi *at, uint32_t count,
                        const uint32_t *axes, int64_t *stride,
                        int64_t *extent) {
  bool any = false;
  *stride = 0;
  *extent = 1;
  for (uint32_t j = count; j-- > 0;) {
    int64_t times = at->times[axes[j]], next;
    if (loop->extents[axes[j]] == 1)
      continue;
    if (!any)
      *stride = times;
    else if (__builtin_mul_overflow(*stride, *extent, &next) || times != next)
      return false;
    any = true;
    if (__builtin_mul_overflow(*extent, loop->extents[axes[j]], extent))
      return false;
  }
  return true;
}

static bool add_axis(CudaMap *m, int64_t stride, int64_t extent) {
  uint32_t j = m->rank;
  if (j == MAP_AXES ||
      __builtin_mul_overflow(stride, (int64_t)dtype_info[m->dtype].bytes,
                             &m->stride[j]))
    return false;
  if (j && extent == 1) /* nobody takes a step */
    m->stride[j] = MAP_LINE;
  m->extent[j] = extent;
  m->box[j] = 1;
  m->rank++;
  return true;
}

bool cuda_tile_map(const CudaTile *t, const Loop *loop, bool b, CudaMap *to) {
  const Step *read = b ? t->copy_b : t->copy_a;
  bool turned = b ? t->shape.b.turned : t->shape.a.turned;
  uint32_t rows = b ? t->ns : t->ms;
  const uint32_t *row = b ? t->n : t->m;
  int64_t stride[2], extent[2]; /* of terms, of rows */
  if (!read || loop->graph->sizes)
    return false;
  const Quasi *at = read->address;
  *to = (CudaMap){.dtype = read->dtype};
  if (__builtin_mul_overflow(at->constant,
                             (int64_t)dtype_info[read->dtype].bytes, &to->at) ||
      to->at < 0 ||
      !is_one_axis(loop, at, t->ks, t->k, &stride[0], &extent[0]) ||
      !is_one_axis(loop, at, rows, row, &stride[1], &extent[1]) ||
      (stride[turned] != 1 && extent[turned] != 1) ||
      !add_axis(to, 1, extent[turned]) ||
      !add_axis(to, stride[!turned], extent[!turned]))
    return false;
  for (uint32_t j = t->batches; j-- > 0;)
    if (at->times[t->batch[j]] &&
        !add_axis(to, at->times[t->batch[j]], loop->extents[t->batch[j]]))
      return false;
  to->box[0] = MAP_LINE / dtype_info[to->dtype].bytes;
  return cuda_map_fits(to);
}

void cuda_tile_box(const CudaTile *t, bool b, CudaMap *map) {
  uint32_t box[2];
  gemm_box(&t->shape, &t->s, b, box, &map->swizzle);
  map->box[0] = box[0];
  map->box[1] = box[1];
}
