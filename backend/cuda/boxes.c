/* Operands of contractions that TMA copies: as tensors of few axes, which it
 * takes boxes of. */
#include "backend/cuda/tile.h"

enum { PIXEL_MOVE = 31 /* that every rank has bits for */ };

/* ---- sizes: what overflows is INT64_MAX, which no map has ---- */

static int64_t product_of(const Loop *loop, int64_t x, int64_t y) {
  int64_t out;
  return size_mul(loop->graph, x, y, &out) ? out : INT64_MAX;
}

static int64_t sum_of(const Loop *loop, int64_t x, int64_t y) {
  int64_t out;
  return size_add(loop->graph, x, y, &out) ? out : INT64_MAX;
}

/* 0: y does not divide x, for all that is known. */
static int64_t quotient_of(const Loop *loop, int64_t x, int64_t y) {
  int64_t out;
  return size_div(loop->graph, x, y, &out) && product_of(loop, out, y) == x
             ? out
             : 0;
}

/* Bytes of so many elements. */
static int64_t bytes_of(const Loop *loop, Dtype t, int64_t count) {
  return product_of(loop, count, dtype_info[t].bytes);
}

/* Would the driver take it?  Where sizes are open: as they may be like, and
 * whoever starts the pass looks at those of the call. */
static bool may_fit(const Loop *loop, CudaMap map) {
  const Graph *g = loop->graph;
  map.at = size_guess(g, map.at);
  for (uint32_t j = 0; j < map.rank; j++) {
    map.extent[j] = size_guess(g, map.extent[j]);
    map.stride[j] = size_guess(g, map.stride[j]);
  }
  for (uint32_t j = 0; map.pixels && j + 2 < map.rank; j++) {
    map.lower[j] = size_guess(g, map.lower[j]);
    map.upper[j] = size_guess(g, map.upper[j]);
    map.step[j] = size_guess(g, map.step[j]);
  }
  return cuda_map_fits(&map);
}

/* ---- boxes of rows and columns ---- */

/* Does the address walk over the axes as if they were one?  Its stride, and its
 * extent. */
static bool is_one_axis(const Loop *loop, const Quasi *at, uint32_t count,
                        const uint32_t *axes, int64_t *stride,
                        int64_t *extent) {
  bool any = false;
  *stride = 0;
  *extent = 1;
  for (uint32_t j = count; j-- > 0;) {
    int64_t times = at->times[axes[j]];
    if (loop->extents[axes[j]] == 1)
      continue;
    if (!any)
      *stride = times;
    else if (times != product_of(loop, *stride, *extent))
      return false;
    any = true;
    *extent = product_of(loop, *extent, loop->extents[axes[j]]);
  }
  return *extent != INT64_MAX;
}

static bool add_axis(const Loop *loop, CudaMap *m, int64_t stride,
                     int64_t extent) {
  uint32_t j = m->rank;
  if (j == MAP_AXES)
    return false;
  m->stride[j] = bytes_of(loop, m->dtype, stride);
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
  *to = (CudaMap){.dtype = t, .at = bytes_of(loop, t, at->constant)};
  if (to->at < 0)
    return false;
  for (uint32_t j = 0; j < 2; j++)
    if (!is_one_axis(loop, at, axes[j].count, axes[j].axes, &stride[j],
                     &extent[j]) ||
        (j == 0 && stride[0] != 1 && extent[0] != 1) ||
        !add_axis(loop, to, j ? stride[1] : 1, extent[j]))
      return false;
  for (uint32_t j = axes[2].count; j-- > 0;) {
    uint32_t v = axes[2].axes[j];
    if (at->times[v] && !add_axis(loop, to, at->times[v], loop->extents[v]))
      return false;
  }
  to->box[0] = MAP_LINE / dtype_info[to->dtype].bytes;
  return may_fit(loop, *to);
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

static int64_t divisor_of(int64_t x, int64_t y) {
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

/* A divisor of both; of numbers, the greatest. */
static int64_t common_of(const Loop *loop, int64_t x, int64_t y) {
  const Graph *g = loop->graph;
  if (size_is_number(g, x) && size_is_number(g, y))
    return divisor_of(x, y);
  return !y || quotient_of(loop, y, x) ? x : quotient_of(loop, x, y) ? y : 1;
}

static bool is_along(const Quasi *q, uint32_t m, uint32_t k) {
  return q->times[m] || (k != NO_LANE && q->times[k]);
}

/* The guard of rows and terms along an axis of the image; NULL: there is none.
 * False: there are several. */
static bool guard_of(const CudaTile *t, uint32_t m, uint32_t k,
                     const Quasi **guard, int64_t *extent) {
  *guard = NULL;
  for (uint32_t i = 0; i < t->guards_a.count; i++)
    if (is_along(&t->guards_a.of[i], m, k)) {
      if (*guard)
        return false;
      *guard = &t->guards_a.of[i];
      *extent = t->guards_a.extent[i];
    }
  return true;
}

/* Steps of memory are those of the guard, times a pixel: how far that is; 0:
 * they are not. */
static int64_t guarded_pixel(const CudaTile *t, const Loop *loop,
                             const Quasi *guard, uint32_t m, uint32_t k) {
  const Quasi *at = t->copy_a->address;
  int64_t by = guard->times[m] > 0
                   ? quotient_of(loop, at->times[m], guard->times[m])
                   : 0;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (v == m || v == k ? product_of(loop, guard->times[v], by) != at->times[v]
                         : guard->times[v] != 0)
      return 0;
  return by;
}

/* One axis of an image: that of the rows walks over it, that of k (NO_LANE:
 * there is none) beside it, and one guard at most says how far it goes. */
static bool pixel_axis(const CudaTile *t, const Loop *loop, uint32_t m,
                       uint32_t k, CudaPixels *to) {
  const Quasi *at = t->copy_a->address, *guard;
  uint32_t j = to->count;
  bool tap = k != NO_LANE;
  int64_t step = at->times[m], move = tap ? at->times[k] : 0, by, end;
  CudaMap *map = &to->map;
  int64_t *extent = &map->extent[j + 1];
  if (step < 1 || (tap && move < 1) || !guard_of(t, m, k, &guard, extent) ||
      (tap && !size_is_number(loop->graph, loop->extents[k])))
    return false;
  by =
      guard ? guarded_pixel(t, loop, guard, m, k) : common_of(loop, step, move);
  if (!by)
    return false;
  int64_t moves = tap ? loop->extents[k] - 1 : 0;
  to->step[j] = map->step[j] = quotient_of(loop, step, by);
  to->move[j] = quotient_of(loop, move, by);
  if (to->move[j] > PIXEL_MOVE)
    return false;
  map->lower[j] = guard ? guard->constant : 0;
  end = size_less(loop->graph, loop->extents[m], 1);
  end = sum_of(loop, map->lower[j], product_of(loop, end, to->step[j]));
  if (!guard) {
    *extent = sum_of(loop, end, product_of(loop, moves, to->move[j]));
    *extent = sum_of(loop, *extent, 1);
  }
  map->upper[j] =
      size_less(loop->graph, end, size_less(loop->graph, *extent, 1));
  map->stride[j + 1] = bytes_of(loop, map->dtype, by);
  map->at = size_less(loop->graph, map->at,
                      product_of(loop, map->lower[j], map->stride[j + 1]));
  to->m[j] = m;
  to->k[j] = k;
  to->guards += guard != NULL;
  to->count++;
  return product_of(loop, moves, to->move[j]) <= PIXEL_MOVE &&
         (!size_is_number(loop->graph, *extent) || *extent < INT32_MAX);
}

/* The same with the last of so many axes of k that fits; false: none does. */
static bool pixel_axis_of(const CudaTile *t, const Loop *loop, uint32_t m,
                          uint32_t *taps, CudaPixels *to) {
  CudaPixels before = *to;
  if (*taps && pixel_axis(t, loop, m, t->k[*taps - 1], to)) {
    --*taps;
    return true;
  }
  *to = before;
  return pixel_axis(t, loop, m, NO_LANE, to);
}

/* The left side as a tensor of channels, images' axes and images, where rows
 * are pixels: the last axes of rows, some with those of k before the last. */
static bool pixels_map(CudaTile *t, const Loop *loop) {
  CudaPixels *p = &t->pixels;
  const Step *read = t->copy_a;
  int64_t stride, extent;
  uint32_t taps = t->ks - 1, count = taps == t->ms ? taps : t->ms - 1;
  *p = (CudaPixels){0};
  if (!read || t->shape.a.turned || t->batches || !count ||
      count > GEMM_PIXEL_AXES || read->address->times[t->k[taps]] != 1)
    return false;
  CudaMap *map = &p->map;
  *map = (CudaMap){.dtype = read->dtype, .pixels = true};
  map->at = bytes_of(loop, read->dtype, read->address->constant);
  map->stride[0] = dtype_info[read->dtype].bytes;
  map->extent[0] = loop->extents[t->k[taps]];
  for (uint32_t j = 0; j < count; j++)
    if (!pixel_axis_of(t, loop, t->m[t->ms - 1 - j], &taps, p))
      return false;
  p->images = t->ms > count;
  stride = p->images ? read->address->times[t->m[0]] : 0;
  extent = p->images ? loop->extents[t->m[0]] : 1;
  map->rank = count + 2;
  map->extent[count + 1] = extent;
  map->stride[count + 1] =
      extent == 1 ? MAP_LINE : bytes_of(loop, read->dtype, stride);
  map->box[0] = MAP_LINE / dtype_info[read->dtype].bytes;
  for (uint32_t j = 1; j < map->rank; j++)
    map->box[j] = 1;
  return !taps && p->guards == t->guards_a.count && map->at >= 0 &&
         may_fit(loop, *map);
}

/* Without a border a pixel's channels and those of the next ones that the sum
 * goes over are one axis: how many are a pixel's; 0: it is not so. */
static int64_t channels_of(const Loop *loop, const Step *s) {
  uint32_t last = loop->axes - 1;
  int64_t extent = loop->extents[last];
  if (s->kind != STEP_READ || s->index_count || !cuda_is_affine(s->address) ||
      s->address->times[last] != 1 || !size_is_number(loop->graph, extent))
    return 0;
  for (uint32_t v = 0; v < loop->kept; v++) {
    int64_t step = s->address->times[v], each = divisor_of(extent, step);
    if (step > 1 && step < extent && each < extent &&
        each * dtype_info[s->dtype].bytes % MAP_LINE == 0)
      return each;
  }
  return 0;
}

int64_t cuda_channels(const Loop *loop) {
  int64_t each = 0;
  if (loop->limits || loop->axes == loop->kept || loop->axes == KERNEL_AXES)
    return 0;
  for (uint32_t j = 0; j < loop->steps.len && !each; j++)
    each = channels_of(loop, &loop->steps.at[j]);
  return each;
}

/* What is computed needs none. */
void cuda_tile_maps(CudaTile *t, const Loop *loop) {
  GemmShape *s = &t->shape;
  bool may = false;
  for (uint32_t taps = 0; taps < 2 && !may; taps++) {
    if (taps && t->ks < 2 && t->ms < 2)
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
      int64_t inner = loop_guess(loop, t->k[t->ks - 1]);
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
