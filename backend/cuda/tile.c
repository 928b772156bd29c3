/* Which passes are contractions, and these as text: operands that are read as
 * they lie are copied, others computed on their way; the loops that follow the
 * product are done with its sums. */
#include "backend/cuda/override.h"
#include "backend/cuda/reduce.h"

#include <string.h>

#define format emit_format

enum { LINE = 16, APART_BYTES = 512 << 20 };

/* ---- finding one ---- */

static uint64_t side_depends(const Product *p, uint32_t which) {
  uint64_t set = 0;
  for (uint32_t j = 0; j < p->count; j++)
    if (which >> j & 1)
      set |= p->depends[p->factors[j]];
  return set;
}

/* Where results lie next to each other along an axis, columns do: stores are
 * then whole. */
static bool is_dense(const Kernel *k, uint32_t axis) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *r = &k->loops.at[j]->results.at[i];
      const Quasi *to = r->out ? r->out : r->local;
      if (to && to->times[axis] == 1)
        return true;
    }
  return false;
}

/* Are its rows reduced, along all axes but the outer ones? */
static bool has_reduced(const Kernel *k) {
  for (uint32_t j = 1; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      if (k->loops.at[j]->results.at[i].reduce != PRIM_NONE)
        return true;
  return false;
}

static bool are_columns_inner(const CudaTile *t, const Kernel *k) {
  for (uint32_t j = 0; j < t->ns; j++)
    if (t->n[j] < k->outer)
      return false;
  return t->ns == k->loops.at[0]->kept - k->outer;
}

/* The axis that splits the factors best; NO_LANE: none does. */
static uint32_t choose_columns(const Kernel *k, const Product *p,
                               uint32_t *which) {
  const Loop *loop = k->loops.at[0];
  uint32_t best = NO_LANE, m, with;
  double most = 0;
  for (uint32_t v = has_reduced(k) ? k->outer : 0; v < loop->kept; v++) {
    if (!product_sides(loop, p, v, &m, &with) || !with)
      continue;
    double extent = (double)loop_guess(loop, v) * (is_dense(k, v) ? 1e6 : 1);
    if (best == NO_LANE || extent > most) {
      best = v;
      most = extent;
      *which = with;
    }
  }
  return best;
}

static bool group_axes(CudaTile *t, const Loop *loop, uint64_t a, uint64_t b) {
  for (uint32_t v = 0; v < loop->axes; v++) {
    bool in_a = a >> v & 1, in_b = b >> v & 1;
    if (v >= loop->kept)
      t->k[t->ks++] = v;
    else if (in_a == in_b)
      t->batch[t->batches++] = v;
    else if (in_a)
      t->m[t->ms++] = v;
    else
      t->n[t->ns++] = v;
  }
  return t->ms && t->ns && t->batches <= GEMM_AXES && t->ms <= GEMM_AXES &&
         t->ns <= GEMM_AXES && t->ks <= GEMM_AXES;
}

static bool reads_same_point(const Kernel *k, const Step *s, uint32_t loop) {
  return s->loop < loop &&
         quasi_equal(s->address,
                     k->loops.at[s->loop]->results.at[s->result].local);
}

/* Are all loops behind the product over its results, each point for itself? */
static bool is_followed(const Kernel *k) {
  const Loop *first = k->loops.at[0];
  const Result *sum = &first->results.at[0];
  if ((sum->out && !cuda_is_affine(sum->out)) ||
      (sum->local && !cuda_is_affine(sum->local)))
    return false;
  for (uint32_t j = 1; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    if (loop->axes != first->kept || loop->kept != first->kept)
      return false;
    for (uint32_t i = 0; i < loop->steps.len; i++)
      if (loop->steps.at[i].kind == STEP_LOCAL &&
          !reads_same_point(k, &loop->steps.at[i], j))
        return false;
  }
  for (uint32_t i = 0; k->loops.len > 1 && i < first->steps.len; i++)
    if (first->steps.at[i].kind == STEP_LOCAL)
      return false;
  return true;
}

/* ---- operands ---- */

/* What a value of 16 bits is that is but widened; or NULL. */
const Step *cuda_narrow_of(const Loop *side) {
  const Step *s = &side->steps.at[side->results.at[0].step];
  if (s->kind != STEP_CONVERT)
    return NULL;
  const Step *of = &side->steps.at[s->args[0]];
  return of->dtype == DT_F16 || of->dtype == DT_BF16 ? of : NULL;
}

/* The read that the side is, of the type that its tile has; or NULL. */
const Step *cuda_copied_read(const Loop *side, Dtype t) {
  const Step *s = cuda_narrow_of(side);
  if (!s)
    s = &side->steps.at[side->results.at[0].step];
  return s->kind == STEP_READ && s->dtype == t && !s->index_count &&
                 cuda_is_affine(s->address)
             ? s
             : NULL;
}

/* The largest part of `align` that so many elements are a multiple of, whatever
 * open sizes are; no less than one. */
static uint32_t align_of(const Loop *loop, int64_t count, uint32_t bytes,
                         uint32_t align) {
  int64_t size, left;
  while (align > bytes && (!size_mul(loop->graph, count, bytes, &size) ||
                           !size_mod(loop->graph, size, align, &left) || left))
    align /= 2;
  return align;
}

/* Bytes that all parts of an address but one are multiples of. */
uint32_t cuda_align_of(const Loop *loop, const Quasi *at, uint32_t bytes,
                       uint32_t dense) {
  uint32_t align = align_of(loop, at->constant, bytes, LINE);
  for (uint32_t v = 0; v < loop->axes; v++)
    if (v != dense)
      align = align_of(loop, at->times[v], bytes, align);
  return align;
}

/* Which axis of a group is the last one, if elements along it are next to each
 * other, and copies of them do not go on to another one's. */
bool cuda_is_dense_group(const Loop *loop, const Quasi *at, uint32_t count,
                         const uint32_t *axes, uint32_t *align,
                         uint32_t bytes) {
  if (!count || at->times[axes[count - 1]] != 1)
    return false;
  uint32_t dense = axes[count - 1];
  *align = cuda_align_of(loop, at, bytes, dense);
  if (count > 1)
    *align = align_of(loop, loop->extents[dense], bytes, *align);
  return true;
}

/* Of what is computed: do neighbours in memory differ in their row, and not in
 * their term?  What all rows or all terms share does not count. */
static bool is_read_turned(const CudaTile *t, const Loop *side, bool b) {
  const uint32_t *rows = b ? t->n : t->m, count = b ? t->ns : t->ms;
  bool turned = false;
  for (uint32_t j = 0; j < side->steps.len; j++) {
    const Step *s = &side->steps.at[j];
    if (s->kind != STEP_READ)
      continue;
    if (s->address->times[t->k[t->ks - 1]] == 1)
      return false;
    bool terms = false;
    for (uint32_t v = 0; v < t->ks; v++)
      terms |= s->address->times[t->k[v]] != 0;
    turned |= terms && s->address->times[rows[count - 1]] == 1;
  }
  return turned;
}

static GemmSide side_of(CudaTile *t, const Loop *loop, bool b, Dtype dtype) {
  const Step *read = b ? t->copy_b : t->copy_a;
  GemmSide side = {.dtype = dtype};
  uint32_t bytes = dtype_info[dtype].bytes;
  side.align = bytes;
  side.computed = !read;
  side.turned = !read && bytes == 2 && is_read_turned(t, b ? t->b : t->a, b);
  if (!read)
    return side;
  if (read->node && !loop->graph->sizes)
    side.elements = (double)node_count(read->node);
  if (!cuda_is_dense_group(loop, read->address, t->ks, t->k, &side.align,
                           bytes))
    side.turned = cuda_is_dense_group(loop, read->address, b ? t->ns : t->ms,
                                      b ? t->n : t->m, &side.align, bytes);
  const CudaGuards *g = b ? &t->guards_b : &t->guards_a;
  for (uint32_t j = 0; j < g->count; j++)
    for (uint32_t v = 0; v < loop->axes; v++)
      if (g->of[j].times[v] && read->address->times[v] == 1)
        side.align = bytes; /* of neighbours some may not be there */
  return side;
}

static double points(const Loop *loop, uint32_t count, const uint32_t *axes) {
  double all = 1;
  for (uint32_t j = 0; j < count; j++)
    all *= (double)loop_guess(loop, axes[j]);
  return all;
}

/* Bytes of results, and of what is read with them, for each. */
static double stored_bytes(const Kernel *k) {
  double bytes = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++)
      if (loop->results.at[i].out || k->loops.len == 1)
        bytes += dtype_info[loop->results.at[i].dtype].bytes;
    for (uint32_t i = 0; j && i < loop->steps.len; i++)
      if (loop->steps.at[i].kind == STEP_READ)
        bytes += dtype_info[loop->steps.at[i].dtype].bytes;
  }
  return bytes;
}

uint32_t cuda_store_align(const Kernel *k, uint32_t dense) {
  uint32_t align = LINE;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *r = &k->loops.at[j]->results.at[i];
      uint32_t bytes = dtype_info[r->dtype].bytes, each;
      each =
          r->out ? cuda_align_of(k->loops.at[j], r->out, bytes, dense) : LINE;
      align = each < align ? each : align;
    }
  return align;
}

bool cuda_wants_lines(const GemmSide *sides, uint32_t count,
                      uint32_t store_align) {
  bool wants = store_align == LINE;
  for (uint32_t j = 0; j < count; j++)
    wants |=
        !sides[j].computed && sides[j].align > dtype_info[sides[j].dtype].bytes;
  return wants;
}

/* Operands of 16 bits for the tensor cores; else both are of the type of the
 * sum. */
static Dtype tile_dtype(const Loop *a, const Loop *b, const GemmGpu *gpu,
                        Dtype sum) {
  const Step *x = cuda_narrow_of(a), *y = cuda_narrow_of(b);
  bool good = x && y && x->dtype == y->dtype && sum == DT_F32 &&
              (x->dtype == DT_F16 || gpu->arch >= 80);
  return good ? x->dtype : sum;
}

/* What memory parts of sums need is told by numbers. */
static bool has_known_tiles(const Loop *loop) {
  bool known = true;
  for (uint32_t v = 0; v < loop->kept; v++)
    known &= size_is_number(loop->graph, loop->extents[v]);
  return known;
}

static bool choose(CudaTile *t, const Kernel *k) {
  const Loop *loop = k->loops.at[0];
  const GemmGpu *gpu = &t->gpu;
  double seconds;
  t->shape.m = points(loop, t->ms, t->m);
  t->shape.n = points(loop, t->ns, t->n);
  t->shape.k = points(loop, t->ks, t->k);
  t->shape.batch = points(loop, t->batches, t->batch);
  t->shape.stored = stored_bytes(k);
  t->shape.store_align = cuda_store_align(k, t->n[t->ns - 1]);
  cuda_finish_shape(k, t);
  t->shape.alone = !t->counts;
  t->shape.open = !has_known_tiles(loop);
  return t->shape.m * t->shape.batch < INT32_MAX && t->shape.n < INT32_MAX &&
         t->shape.k < INT32_MAX && gemm_choose(&t->shape, gpu, &t->s, &seconds);
}

static CudaTile *find(Kernel *k, const CudaTarget *target) {
  Loop *loop = k->loops.at[0];
  Product p;
  uint32_t which = 0;
  GemmGpu gpu;
  if (!target->arch || !gemm_gpu(target->arch, &gpu) ||
      !product_find(k->arena, loop, &p) || p.outside_count || !is_followed(k) ||
      choose_columns(k, &p, &which) == NO_LANE)
    return NULL;
  uint32_t all = (1u << p.count) - 1;
  CudaTile *t = NEW(k->arena, CudaTile);
  t->arch = target->arch;
  t->maps = target->maps;
  t->counts = target->maps || loop->graph->sizes;
  t->shape.tf32 = target->tf32;
  if (!group_axes(t, loop, side_depends(&p, all & ~which),
                  side_depends(&p, which)) ||
      (has_reduced(k) && !are_columns_inner(t, k)))
    return NULL;
  Dtype sum = loop->steps.at[loop->results.at[0].step].dtype;
  t->a = product_side(k->arena, loop, &p, all & ~which, sum);
  t->b = product_side(k->arena, loop, &p, which, sum);
  Dtype dtype = tile_dtype(t->a, t->b, &gpu, sum);
  t->copy_a = cuda_guarded_read(k->arena, t->a, dtype, &t->guards_a);
  t->copy_b = cuda_guarded_read(k->arena, t->b, dtype, &t->guards_b);
  t->shape.a = side_of(t, loop, false, dtype);
  t->shape.b = side_of(t, loop, true, dtype);
  t->shape.sum = sum;
  gpu.sms = (uint32_t)target->processors;
  gpu.block = target->shared_most;
  t->gpu = gpu;
  if (target->maps)
    cuda_tile_maps(t, loop);
  if (!choose(t, k))
    return NULL;
  t->unused = override_apply(t->arch, &t->shape, &t->gpu, &t->s);
  return t;
}

CudaTile *cuda_tile_find(Kernel *k, const CudaTarget *target) {
  Loop *loop = k->loops.at[0];
  int64_t each = target->maps ? cuda_channels(loop) : 0;
  if (each) {
    loop_cut(k->arena, loop, each);
    CudaTile *t = find(k, target);
    if (t && t->shape.pixels && t->s.way == GEMM_WGMMA)
      return t;
    loop_uncut(k->arena, loop);
  }
  return find(k, target);
}

/* Sums, and values of their terms beside them, are not left by one pass. */
static bool has_both(const Loop *loop) {
  bool sums = false, values = false;
  for (uint32_t j = 0; loop->axes > loop->kept && j < loop->results.len; j++) {
    sums |= loop->results.at[j].reduce != PRIM_NONE;
    values |= loop->results.at[j].reduce == PRIM_NONE;
  }
  return sums && values;
}

bool cuda_tile_apart(const Kernel *k) {
  double bytes =
      kernel_local_bytes(k, true) * loop_points(k->loops.at[0], 0, k->outer);
  bool product = false;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    product |= loop_is_product(k->loops.at[j]);
    if (has_both(k->loops.at[j]))
      return false;
  }
  return product && k->loops.len > 1 && bytes <= APART_BYTES;
}

void cuda_tile_print(Buffer *out, const CudaTile *t) {
  buffer_printf(out, "a tile for %s: ", t->arch);
  gemm_print(out, &t->s);
  if (t->shape.a.dtype == DT_F32 && t->s.way != GEMM_FMA)
    buffer_puts(out, ", f32 rounded to tf32");
  if (t->unused)
    buffer_printf(out, " (%s)", t->unused);
}

/* ---- as text ---- */

static GemmGroup group_of(CudaWriter *w, const CudaTile *t, uint32_t count,
                          const uint32_t *axes) {
  Emitter *e = &w->e;
  const Loop *loop = w->k->loops.at[0];
  GemmGroup g = {.count = count};
  for (uint32_t j = 0; j < count; j++) {
    uint32_t v = axes[j];
    GemmAxis *a = &g.axes[j];
    a->name = format(e, "i%u", v);
    a->extent = format(e, "%s", emit_int(e, loop->extents[v]));
    for (int b = 0; b < 2; b++) {
      const Step *read = b ? t->copy_b : t->copy_a;
      int64_t times = read ? read->address->times[v] : 0;
      const char *text = times == 1 ? "1"
                         : times ? format(e, "(int64_t)%s", emit_int(e, times))
                                 : NULL;
      *(b ? &a->stride_b : &a->stride_a) = text;
      const CudaGuards *guards = b ? &t->guards_b : &t->guards_a;
      for (uint32_t i = 0; read && i < guards->count; i++)
        if (guards->of[i].times[v])
          *(b ? &a->guard_b[i] : &a->guard_a[i]) =
              emit_int(e, guards->of[i].times[v]);
    }
  }
  return g;
}

/* Guards are of 32 bits: what is beyond these, an open size, cuts nothing. */
static const char *guard_extent(CudaWriter *w, int64_t extent) {
  return emit_int(&w->e, size_min(w->k->graph, extent, INT32_MAX));
}

static GemmOperand operand_of(CudaWriter *w, const Step *read,
                              const CudaGuards *guards) {
  GemmOperand o = {.pointer = "0"};
  if (!read)
    return o;
  Emitter *e = &w->e;
  o.pointer = format(e, "p%u", read->input);
  if (read->address->constant)
    o.pointer =
        format(e, "(%s + %s)", o.pointer, emit_int(e, read->address->constant));
  for (; o.guards < guards->count; o.guards++)
    o.guard[o.guards] = (GemmGuard){emit_int(e, guards->of[o.guards].constant),
                                    guard_extent(w, guards->extent[o.guards])};
  return o;
}

static void put_value(void *owner, Buffer *out, const char *to, bool b) {
  CudaWriter *w = owner;
  const CudaTile *t = w->s->tile;
  const Loop *side = b ? t->b : t->a;
  cuda_put_steps(w, out, side, NULL);
  buffer_printf(out, "%s = %s;\n", to,
                emit_scalar(&w->e, side->results.at[0].step));
}

static void put_value_a(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, false);
}

static void put_value_b(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, true);
}

/* ---- the whole ---- */

/* The axes have their values. */
static void put_epilogue(void *owner, Buffer *out, const char *x,
                         const char *const to[GEMM_RESULTS]) {
  cuda_put_loops(owner, out, 0, x, to, NULL);
}

static int64_t count_of(CudaWriter *w, uint32_t count, const uint32_t *axes) {
  int64_t all = 1;
  for (uint32_t j = 0; j < count; j++)
    all = emit_times(&w->e, all, w->k->loops.at[0]->extents[axes[j]]);
  return all;
}

/* Counters of a module are of each call, as several may run at a time. */
static const char *counters_of(CudaWriter *w, int64_t tiles) {
  Emitter *e = &w->e;
  CudaPass *p = w->pass;
  if (!w->k->graph->sizes)
    return format(e, "((unsigned *)a.p[%u] + %d)", w->out->pointers - 1,
                  CUDA_COUNTERS_AT / 4);
  p->counters = p->grid_most ? p->grid_most : tiles;
  p->counters_at = cuda_take_scratch(w, p->counters, DT_I32);
  return format(e, "((unsigned *)(scratch + %s))", emit_int(e, p->counters_at));
}

/* Blocks and memory, as sizes. */
static void size_grid(CudaWriter *w, const CudaTile *t, GemmText *g) {
  Emitter *e = &w->e;
  const GemmSchedule *s = &t->s;
  int64_t rows = count_of(w, t->ms, t->m), columns = count_of(w, t->ns, t->n);
  int64_t high = emit_over(e, rows, s->m * s->cluster_m);
  int64_t wide = emit_over(e, columns, s->n * s->cluster_n);
  int64_t tiles = emit_times(e, emit_times(e, high, wide),
                             count_of(w, t->batches, t->batch));
  int64_t parts = s->split;
  const uint32_t *last = t->k + t->ks - 1;
  if (s->stream) {
    bool taps = t->shape.inner > 0;
    parts =
        emit_over(e, count_of(w, taps ? 1 : t->ks, taps ? last : t->k), s->k);
    if (taps)
      parts = emit_times(e, parts, count_of(w, t->ks - 1, t->k));
    parts = size_max(w->k->graph, parts, 1);
  }
  tiles = emit_times(e, tiles, gemm_cluster(s));
  w->pass->rows = rows;
  w->pass->columns = columns;
  w->pass->tiles = tiles;
  w->pass->blocks = emit_times(e, tiles, parts);
  w->pass->grid_most = gemm_grid_most(s, &t->gpu);
  w->pass->shared = gemm_shared(&t->shape, s);
  if (s->split == 1 && !s->stream)
    return;
  int64_t room = gemm_room(s, &t->gpu, tiles);
  g->room = format(e, "(scratch + (int64_t)%s)",
                   emit_int(e, cuda_take_scratch(w, room, DT_F32)));
  g->counters = counters_of(w, tiles);
}

static const char *map_of(CudaWriter *w, const CudaTile *t, bool b) {
  CudaMap map = b ? t->map_b : t->map_a;
  map.pointer = w->out->outs.len + (b ? t->copy_b : t->copy_a)->input;
  map.tf32 = t->shape.a.dtype == DT_F32; /* wgmma would cut it */
  cuda_tile_box(t, b, &map);
  return cuda_add_map(w, &map);
}

/* Of one image the tiles of clusters that are beyond it are of another one,
 * which is not there. */
static GemmPixels pixels_of(CudaWriter *w, const CudaTile *t) {
  Emitter *e = &w->e;
  const CudaPixels *p = &t->pixels;
  GemmPixels to = {.count = p->count};
  const char *first = emit_int(e, w->k->loops.at[0]->extents[t->m[0]]);
  for (uint32_t j = 0; j < p->count; j++) {
    const char *at = format(e, "i%u", p->m[j]);
    if (!p->images && j + 1 == p->count)
      at = format(e, "i%u %% %s", p->m[j], first);
    to.at[j] = format(e, "%s * %s + %s", at, emit_int(e, p->step[j]),
                      emit_int(e, p->map.lower[j]));
    to.move[j] = p->k[j] == NO_LANE
                     ? "0"
                     : format(e, "i%u * %s", p->k[j], emit_int(e, p->move[j]));
  }
  to.image = p->images ? format(e, "i%u", t->m[0])
                       : format(e, "i%u / %s", t->m[0], first);
  return to;
}

void cuda_note_narrow(CudaWriter *w, int64_t size) {
  if (!size_is_number(w->k->graph, size))
    VEC_PUSH(w->e.arena, w->pass->narrow, size);
}

/* Rows, columns, terms, tiles, and where guards begin and end. */
static void note_sizes(CudaWriter *w, const CudaTile *t) {
  const CudaGuards *guards[] = {&t->guards_a, &t->guards_b};
  Graph *g = w->k->graph;
  int64_t low, high;
  cuda_note_narrow(w, count_of(w, t->batches, t->batch));
  cuda_note_narrow(w, count_of(w, t->ms, t->m));
  cuda_note_narrow(w, count_of(w, t->ns, t->n));
  cuda_note_narrow(w, count_of(w, t->ks, t->k));
  cuda_note_narrow(w, w->pass->blocks);
  for (uint32_t b = 0; b < 2; b++)
    for (uint32_t j = 0; j < guards[b]->count; j++)
      if (quasi_bounds(w->k->loops.at[0], &guards[b]->of[j], &low, &high)) {
        cuda_note_narrow(w, size_less(g, 0, low));
        cuda_note_narrow(w, high);
      }
}

void cuda_put_tile(CudaWriter *w, Buffer *before) {
  const CudaTile *t = w->s->tile;
  GemmText g = {.shape = &t->shape,
                .schedule = &t->s,
                .name = w->pass->name,
                .batch = group_of(w, t, t->batches, t->batch),
                .m = group_of(w, t, t->ms, t->m),
                .n = group_of(w, t, t->ns, t->n),
                .k = group_of(w, t, t->ks, t->k),
                .a = operand_of(w, t->copy_a, &t->guards_a),
                .b = operand_of(w, t->copy_b, &t->guards_b),
                .epilogue = put_epilogue,
                .owner = w};
  const CudaAxes axes[] = {
      {t->batches, t->batch}, {t->ms, t->m}, {t->ns, t->n}};
  if (!t->copy_a)
    g.a.value = put_value_a;
  if (!t->copy_b)
    g.b.value = put_value_b;
  if (t->s.copy == BY_ENGINE) {
    if (t->copy_a)
      g.a.map = map_of(w, t, false);
    if (t->copy_b)
      g.b.map = map_of(w, t, true);
    if (t->shape.pixels)
      g.a.pixels = pixels_of(w, t);
  }
  const GemmSide sides[] = {t->shape.a, t->shape.b};
  w->out->lines |= cuda_wants_lines(sides, 2, t->shape.store_align);
  g.results = cuda_give_results(w, axes, g.result);
  g.anywhere = cuda_is_anywhere(w);
  cuda_reduce_rows(w, &g.rows);
  size_grid(w, t, &g);
  note_sizes(w, t);
  gemm_put(before, &w->body, &g);
}
