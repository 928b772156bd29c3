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

static bool map_at(const Loop *loop, const Quasi *at, Dtype t,
                   const CudaAxes axes[3], CudaMap *to) {
  int64_t stride[2], extent[2];
  *to = (CudaMap){.dtype = t};
  if (loop->graph->sizes ||
      __builtin_mul_overflow(at->constant, (int64_t)dtype_info[t].bytes,
                             &to->at) ||
      to->at < 0)
    return false;
  for (uint32_t j = 0; j < 2; j++)
    if (!is_one_axis(loop, at, axes[j].count, axes[j].axes, &stride[j],
                     &extent[j]) ||
        (j == 0 && stride[0] != 1 && extent[0] != 1) ||
        !add_axis(to, j ? stride[1] : 1, extent[j]))
      return false;
  for (uint32_t j = axes[2].count; j-- > 0;) {
    uint32_t v = axes[2].axes[j];
    if (at->times[v] && !add_axis(to, at->times[v], loop->extents[v]))
      return false;
  }
  to->box[0] = MAP_LINE / dtype_info[to->dtype].bytes;
  return cuda_map_fits(to);
}

bool cuda_map_of(const Loop *loop, const Step *read, const CudaAxes axes[3],
                 CudaMap *to) {
  return read && map_at(loop, read->address, read->dtype, axes, to);
}

bool cuda_result_map(const CudaTile *t, const Loop *loop, const Result *r,
                     CudaMap *to) {
  const CudaAxes axes[] = {
      {t->ns, t->n}, {t->ms, t->m}, {t->batches, t->batch}};
  return map_at(loop, r->out, r->dtype, axes, to);
}

bool cuda_tile_map(const CudaTile *t, const Loop *loop, bool b, CudaMap *to) {
  bool turned = b ? t->shape.b.turned : t->shape.a.turned;
  CudaAxes terms = {t->ks, t->k}, batch = {t->batches, t->batch};
  CudaAxes rows = {b ? t->ns : t->ms, b ? t->n : t->m};
  const CudaAxes axes[] = {turned ? rows : terms, turned ? terms : rows, batch};
  return cuda_map_of(loop, b ? t->copy_b : t->copy_a, axes, to);
}

void cuda_tile_box(const CudaTile *t, bool b, CudaMap *map) {
  uint32_t box[2];
  gemm_box(&t->shape, &t->s, b, box, &map->swizzle);
  map->box[0] = box[0];
  map->box[1] = box[1];
}

void cuda_result_box(const CudaTile *t, CudaMap *map) {
  uint32_t box[2];
  gemm_store_box(&t->shape, &t->s, map->dtype, box, &map->swizzle);
  map->box[0] = box[0];
  map->box[1] = box[1];
}
