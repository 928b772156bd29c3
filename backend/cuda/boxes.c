/* Operands of contractions that TMA copies: as tensors of few axes, which it
 * takes boxes of. */
#include "backend/cuda/tile.h"

enum { PIXEL_MOVE = 31 /* that every rank has bits for */ };

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

/* taps: the terms are the last axis of k, and the others are as a batch. */
static bool tile_map(const CudaTile *t, const Loop *loop, bool b, bool taps,
                     CudaMap *to) {
  bool turned = b ? t->shape.b.turned : t->shape.a.turned;
  uint32_t beside[2 * KERNEL_AXES], count = 0;
  for (uint32_t j = 0; j < t->batches; j++)
    beside[count++] = t->batch[j];
  for (uint32_t j = 0; taps && j + 1 < t->ks; j++)
    beside[count++] = t->k[j];
  CudaAxes terms = {taps ? 1 : t->ks, taps ? t->k + t->ks - 1 : t->k};
  CudaAxes rows = {b ? t->ns : t->ms, b ? t->n : t->m}, batch = {count, beside};
  const CudaAxes axes[] = {turned ? rows : terms, turned ? terms : rows, batch};
  if ((b ? &t->guards_b : &t->guards_a)->count)
    return false;
  return cuda_map_of(loop, b ? t->copy_b : t->copy_a, axes, to);
}

/* ---- convolutions ---- */

/* One axis of an image: that of the rows walks over it, that of k beside it,
 * and one guard at most says how far it goes. */
static bool pixel_axis(const CudaTile *t, const Loop *loop, uint32_t m,
                       uint32_t k, CudaPixels *to) {
  const Quasi *at = t->copy_a->address;
  uint32_t j = to->count;
  int64_t step = at->times[m], move = at->times[k], by, end;
  CudaMap *map = &to->map;
  const Quasi *guard = NULL;
  for (uint32_t i = 0; i < t->guards_a.count; i++)
    if (t->guards_a.of[i].times[m] || t->guards_a.of[i].times[k]) {
      if (guard)
        return false;
      guard = &t->guards_a.of[i];
      map->extent[j + 1] = t->guards_a.extent[i];
      to->guards++;
    }
  if (step < 1 || move < 1)
    return false;
  if (guard) { /* steps of memory are those of the guard, times a pixel */
    by = guard->times[m] > 0 ? step / guard->times[m] : 0;
    for (uint32_t v = 0; v < KERNEL_VARS; v++)
      if (v == m || v == k ? guard->times[v] * by != at->times[v]
                           : guard->times[v] != 0)
        return false;
  } else {
    by = step;
    for (int64_t rest = move, next; rest; rest = next) { /* what divides both */
      next = by % rest;
      by = rest;
    }
  }
  to->step[j] = map->step[j] = step / by;
  to->move[j] = move / by;
  map->lower[j] = guard ? guard->constant : 0;
  end = map->lower[j] + (loop->extents[m] - 1) * to->step[j];
  if (!guard)
    map->extent[j + 1] = end + (loop->extents[k] - 1) * to->move[j] + 1;
  map->upper[j] = end - (map->extent[j + 1] - 1);
  map->stride[j + 1] = by * dtype_info[map->dtype].bytes;
  map->at -= map->lower[j] * map->stride[j + 1];
  to->m[j] = m;
  to->k[j] = k;
  to->count++;
  return (loop->extents[k] - 1) * to->move[j] <= PIXEL_MOVE &&
         map->extent[j + 1] < INT32_MAX;
}

/* The left side as a tensor of channels, images' axes and images, where rows
 * are pixels: the last axes of rows, with those of k before the last. */
static bool pixels_map(CudaTile *t, const Loop *loop) {
  CudaPixels *p = &t->pixels;
  const Step *read = t->copy_a;
  int64_t stride, extent;
  uint32_t count = t->ks - 1;
  *p = (CudaPixels){0};
  if (!read || loop->graph->sizes || t->shape.a.turned || t->batches ||
      !count || count > GEMM_PIXEL_AXES || t->ms < count || t->ms > count + 1 ||
      read->address->times[t->k[count]] != 1)
    return false;
  CudaMap *map = &p->map;
  *map = (CudaMap){.dtype = read->dtype, .pixels = true};
  map->at = read->address->constant * dtype_info[read->dtype].bytes;
  map->stride[0] = dtype_info[read->dtype].bytes;
  map->extent[0] = loop->extents[t->k[count]];
  for (uint32_t j = 0; j < count; j++)
    if (!pixel_axis(t, loop, t->m[t->ms - 1 - j], t->k[count - 1 - j], p))
      return false;
  p->images = t->ms > count;
  stride = p->images ? read->address->times[t->m[0]] : 0;
  extent = p->images ? loop->extents[t->m[0]] : 1;
  map->rank = count + 2;
  map->extent[count + 1] = extent;
  map->stride[count + 1] =
      extent == 1 ? MAP_LINE : stride * dtype_info[read->dtype].bytes;
  map->box[0] = MAP_LINE / dtype_info[read->dtype].bytes;
  for (uint32_t j = 1; j < map->rank; j++)
    map->box[j] = 1;
  return p->guards == t->guards_a.count && map->at >= 0 && cuda_map_fits(map);
}

/* What is computed needs none. */
void cuda_tile_maps(CudaTile *t, const Loop *loop) {
  GemmShape *s = &t->shape;
  bool may = false;
  for (uint32_t taps = 0; taps < 2 && !may; taps++) {
    if (taps && t->ks < 2)
      return;
    bool b = !t->copy_b || tile_map(t, loop, true, taps, &t->map_b);
    bool a = b && (!t->copy_a || tile_map(t, loop, false, taps, &t->map_a));
    s->pixels = b && !a && taps && pixels_map(t, loop);
    if (s->pixels)
      t->map_a = t->pixels.map;
    may = a || s->pixels;
    s->a.boxes = may && t->copy_a;
    s->b.boxes = may && t->copy_b;
    if (taps && may) {
      int64_t inner = loop->extents[t->k[t->ks - 1]];
      s->inner = inner > 0 ? (double)inner : 1;
    }
  }
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
