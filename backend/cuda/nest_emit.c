/* Nests as CUDA C++.
 *
 * Loops over thread blocks and threads become indices.  Other loops are loops
 * of each thread.  An index is complete at the innermost loop of its axis.
 * There it is compared with the extent, unless all tiles of the axis are full.
 * All loop nests of a pass run in the same loops.
 *
 * The variables are b%u, t%u and n%u, the iteration of the blocks, threads or
 * loop %u; g, the index of flattened loops, or of threads along one axis; i%u,
 * the index of axis %u; and v, the lane.
 *
 * If operands are contiguous along another axis than the results, a block loads
 * square tiles of them in their memory order, and transposes them in shared
 * memory. */
#include "backend/cuda/nest.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

typedef struct NestWriter {
  CudaWriter *w;
  const Nest *nest;
  const LoopNest *spec;
  bool is_linear; /* the outermost loops are the blocks and the threads of one
                     axis */
  const char *indices[MAX_NEST_AXES];   /* by axis, so far; NULL: none */
  uint32_t level_of[MAX_NEST_AXES];     /* by axis */
  uint32_t level_after[MAX_NEST_LOOPS]; /* by loop */
  uint32_t innermost;                   /* level */
  Buffer blocks, threads;               /* declarations of indices */
  Buffer before[MAX_NEST_LOOPS]; /* by loop: before the code of its level */
  Buffer after[MAX_NEST_LOOPS];  /* by loop: opens it */
  Buffer levels[MAX_LEVELS];     /* code of all loop nests */
  VectorAccess vectors;
  Buffer tiles;
  int64_t grid_blocks, shared_bytes;
} NestWriter;

/* ---- levels ---- */

/* Returns true if code in a loop is in another scope than code before it: tiles
 * are loaded before the first loop in the blocks. */
static bool opens_scope(const Nest *n, uint32_t at) {
  NestRun run = n->loops[at].run;
  bool is_first = at == 0 || n->loops[at - 1].run == NEST_BLOCK;
  return run == NEST_SERIAL || run == NEST_UNROLL || run == NEST_LANES ||
         (run == NEST_THREAD && n->shared_axis != NO_LOOP && is_first);
}

/* The level of each axis: the scope in which its index is complete. */
static void find_levels(NestWriter *p) {
  const Nest *n = p->nest;
  uint32_t level = OUTER_LEVEL;
  bool is_open = false;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    uint32_t axis = n->loops[j].axis;
    is_open |= opens_scope(n, j);
    if (nest_inner(n, j) == NO_LOOP && is_open) {
      level++;
      is_open = false;
    }
    p->level_after[j] = p->level_of[axis] = level;
    for (uint32_t i = 0; axis == n->flat->axis && i < n->flat->count; i++)
      if (nest_find(n, n->flat->loops[i].axis, 0) == NO_LOOP)
        p->level_of[n->flat->loops[i].axis] = level;
  }
  p->innermost = level;
}

static void begin_loop_nest(const NestWriter *p, const LoopNest *loop) {
  Emitter *e = &p->w->e;
  uint32_t order[MAX_KERNEL_AXES], count = 0;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (p->level_of[v] > OUTER_LEVEL)
      order[count++] = v;
  emit_begin_loop(e, loop, NO_AXIS, count, order);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    e->levels.of[v] = p->level_of[v];
  e->levels.vector = p->innermost;
}

/* ---- indices ---- */

/* The iterations of the outermost loop over an axis that has this step. */
static int64_t outermost_count(NestWriter *p, uint32_t axis, int64_t step) {
  Emitter *e = &p->w->e;
  const NestFlattened *f = p->nest->flat;
  int64_t all = 1;
  if (axis != f->axis)
    return emit_extent_ceil_div(e, p->spec->extents[axis], step);
  for (uint32_t j = f->count; j-- > 0;)
    all = emit_extent_mul(
        e, all, outermost_count(p, f->loops[j].axis, f->loops[j].step));
  return emit_extent_ceil_div(e, all, step);
}

static int64_t loop_count(NestWriter *p, uint32_t at) {
  const NestLoop *l = &p->nest->loops[at];
  return l->count ? l->count : outermost_count(p, l->axis, l->step);
}

static void add_index(NestWriter *p, uint32_t axis, const char *name,
                      int64_t step) {
  Emitter *e = &p->w->e;
  const char *term =
      step == 1 ? name : format(e, "%s * %lld", name, (long long)step);
  p->indices[axis] =
      p->indices[axis] ? format(e, "%s + %s", p->indices[axis], term) : term;
}

/* Loops over the axis, flattened ones included. */
static uint32_t piece_count(const NestWriter *p, uint32_t axis) {
  const Nest *n = p->nest;
  uint32_t count = nest_axis_is_flattened(n, axis);
  for (uint32_t j = p->is_linear; j < n->loop_count; j++)
    count += n->loops[j].axis == axis;
  return count;
}

/* An index whose innermost loop was reached. */
static void declare_index(NestWriter *p, Buffer *out, uint32_t axis) {
  Emitter *e = &p->w->e;
  buffer_printf(out, "const %s i%u = %s;\n", p->w->dialect.index_type, axis,
                p->indices[axis]);
  if (piece_count(p, axis) > 1)
    buffer_printf(out, "if (i%u < %s) {\n", axis,
                  emit_int(e, p->spec->extents[axis]));
}

/* The flattened loops from their index g.  The last one is x, all others are
 * y. */
static void put_flattened(NestWriter *p, Buffer *out) {
  const NestFlattened *f = p->nest->flat;
  Emitter *e = &p->w->e;
  const char *type = p->w->dialect.index_type, *names[MAX_KERNEL_AXES];
  int64_t counts[MAX_KERNEL_AXES];
  uint32_t last = f->count - 1;
  for (uint32_t j = 0; j < f->count; j++) {
    bool is_whole = nest_find(p->nest, f->loops[j].axis, 0) == NO_LOOP;
    counts[j] = outermost_count(p, f->loops[j].axis, f->loops[j].step);
    names[j] = is_whole ? format(e, "i%u", f->loops[j].axis)
                        : format(e, "f%u", f->loops[j].axis);
    if (!is_whole)
      add_index(p, f->loops[j].axis, j == last ? "x" : names[j],
                f->loops[j].step);
  }
  buffer_printf(out,
                "const %s y = floor_div((%s)g, %s);\n"
                "const %s x = (%s)g - y * %s;\n",
                type, type, emit_divisor(e, counts[last]), type, type,
                emit_int(e, counts[last]));
  cuda_put_unravel_names(p->w, out, last, names, counts, "y");
  if (nest_find(p->nest, f->loops[last].axis, 0) == NO_LOOP)
    buffer_printf(out, "const %s %s = x;\n", type, names[last]);
}

/* The threads of all blocks along one axis. */
static void put_linear_index(NestWriter *p) {
  Emitter *e = &p->w->e;
  const NestLoop *threads = &p->nest->loops[1];
  Buffer *out = &p->after[1];
  const char *type = p->w->dialect.index_type;
  int64_t all = outermost_count(p, threads->axis, threads->step);
  buffer_printf(out,
                "const int64_t g = (int64_t)blockIdx.x * %lld + threadIdx.x;\n"
                "if (g < %s) {\n",
                (long long)threads->count, emit_int(e, all));
  if (threads->axis == p->nest->flat->axis) {
    put_flattened(p, out);
  } else {
    buffer_printf(out, "const %s x = (%s)g;\n", type, type);
    add_index(p, threads->axis, "x", threads->step);
    if (nest_inner(p->nest, 1) == NO_LOOP)
      declare_index(p, out, threads->axis);
  }
  p->grid_blocks = emit_extent_ceil_div(e, all, threads->count);
}

/* b%u of all loops over blocks. */
static void put_blocks(NestWriter *p) {
  Emitter *e = &p->w->e;
  const char *type = p->w->dialect.index_type, *names[MAX_NEST_LOOPS];
  int64_t counts[MAX_NEST_LOOPS];
  uint32_t count = 0;
  for (; count < p->nest->loop_count && p->nest->loops[count].run == NEST_BLOCK;
       count++) {
    const NestLoop *l = &p->nest->loops[count];
    counts[count] = loop_count(p, count);
    names[count] = format(e, "b%u", count);
    p->grid_blocks = emit_extent_mul(e, p->grid_blocks, counts[count]);
    add_index(p, l->axis, names[count], l->step);
  }
  cuda_put_unravel_names(p->w, &p->blocks, count, names, counts,
                         format(e, "(%s)blockIdx.x", type));
}

/* t%u of all loops over threads. */
static void put_threads(NestWriter *p) {
  int64_t inner = 1;
  for (uint32_t j = p->nest->loop_count; j-- > 0;) {
    const NestLoop *l = &p->nest->loops[j];
    if (l->run != NEST_THREAD)
      continue;
    buffer_printf(&p->threads, "const int t%u = threadIdx.x", j);
    if (inner > 1)
      buffer_printf(&p->threads, " / %lld", (long long)inner);
    inner *= l->count;
    if (inner < p->w->s->block_threads)
      buffer_printf(&p->threads, " %% %lld", (long long)l->count);
    buffer_puts(&p->threads, ";\n");
  }
}

/* ---- loops ---- */

static void open_loop(NestWriter *p, uint32_t at) {
  Emitter *e = &p->w->e;
  const NestLoop *l = &p->nest->loops[at];
  Buffer *out = &p->after[at];
  if (l->run == NEST_UNROLL)
    buffer_puts(out, "#pragma unroll\n");
  if (l->count)
    buffer_printf(out, "for (int n%u = 0; n%u < %lld; n%u++) {\n", at, at,
                  (long long)l->count, at);
  else
    buffer_printf(out, "for (%s n%u = 0; n%u < %s; n%u++) {\n",
                  p->w->dialect.index_type, at, at,
                  emit_int(e, loop_count(p, at)), at);
  add_index(p, l->axis, format(e, "n%u", at), l->step);
}

/* A vector: `first` is its index, and `left` elements remain. */
static void open_lanes(NestWriter *p, uint32_t at) {
  Emitter *e = &p->w->e;
  const NestLoop *l = &p->nest->loops[at];
  const char *type = p->w->dialect.index_type;
  Buffer *out = &p->before[at];
  buffer_printf(out, "const %s first = %s, left = %s - first;\n", type,
                p->indices[l->axis] ? p->indices[l->axis] : "0",
                emit_int(e, p->spec->extents[l->axis]));
  if (piece_count(p, l->axis) > 2)
    buffer_puts(out, "if (left > 0) {\n");
  buffer_printf(out, "const bool full = left >= %lld;\n", (long long)l->count);
  vector_open(&p->vectors, &p->after[at]);
}

/* Prepares the text of all loops. */
static void put_indices(NestWriter *p) {
  const Nest *n = p->nest;
  Emitter *e = &p->w->e;
  if (p->is_linear) {
    put_linear_index(p);
  } else {
    put_blocks(p);
    put_threads(p);
  }
  for (uint32_t j = p->is_linear ? 2 : 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    bool is_flat = l->axis == n->flat->axis;
    if (l->run == NEST_LANES) {
      open_lanes(p, j);
      continue;
    }
    if (l->run == NEST_THREAD)
      add_index(p, l->axis, format(e, "t%u", j), l->step);
    else if (l->run != NEST_BLOCK)
      open_loop(p, j);
    if (nest_inner(n, j) != NO_LOOP)
      continue;
    if (!is_flat) {
      declare_index(p, &p->after[j], l->axis);
      continue;
    }
    buffer_printf(&p->after[j], "const int64_t g = (int64_t)%s;\n",
                  p->indices[l->axis]);
    if (piece_count(p, l->axis) > 1)
      buffer_printf(&p->after[j], "if (g < %s) {\n",
                    emit_int(e, outermost_count(p, l->axis, 1)));
    put_flattened(p, &p->after[j]);
  }
}

/* ---- tiles in shared memory ---- */

/* The index of a tile along an axis.  The outermost loop of the axis is over
 * blocks. */
static const char *tile_begin(const NestWriter *p, uint32_t axis) {
  uint32_t j = 0;
  while (p->nest->loops[j].axis != axis)
    j++;
  return format(&p->w->e, "b%u * %lld", j, (long long)p->nest->loops[j].step);
}

/* Loads the tile of an operand in its memory order, so that accesses are
 * coalesced: adjacent threads load along the contiguous axis.  A thread issues
 * all its loads before the first store.  Returns the element of a thread. */
static const char *put_tile(NestWriter *p, const LoopNest *loop,
                            const KernelOp *s) {
  CudaWriter *w = p->w;
  Emitter *e = &w->e;
  const Nest *n = p->nest;
  uint32_t last = n->loop_count - 1, far = n->loops[last].axis,
           near = n->shared_axis, side = cuda_nest_tile_side(n),
           rows = (uint32_t)n->loops[last - 1].count,
           pitch = cuda_nest_tile_pitch(n, s->dtype);
  const char *name = format(e, "r%u", e->next_id++), *t = memory_type(s->dtype),
             *far0 = tile_begin(p, far), *near0 = tile_begin(p, near);
  AffineExpr rest = *s->address;
  rest.coef[near] = rest.coef[far] = 0;
  const char *far_extent = emit_int(e, loop->extents[far]);
  const char *near_extent = emit_int(e, loop->extents[near]);
  const char *base = emit_affine(e, &rest);
  const char *far_stride = emit_int(e, s->address->coef[far]);
  buffer_printf(&p->tiles,
                "%s *const %s = (%s *)(ax_shared() + %lld);\n"
                "{\n%s parts[%u];\n"
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++) {\n"
                "const int r = t%u + q * %u;\n"
                "parts[q] = %s + r < %s && %s + t%u < %s\n"
                "? p%u[%s + %s * (%s + r) + %s + t%u] : %s(0);\n}\n",
                t, name, t, (long long)p->shared_bytes, t, side / rows,
                side / rows, last - 1, rows, far0, far_extent, near0, last,
                near_extent, s->input, base, far_stride, far0, near0, last, t);
  buffer_printf(&p->tiles,
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++)\n"
                "%s[(t%u + q * %u) * %u + t%u] = parts[q];\n}\n",
                side / rows, name, last - 1, rows, pitch, last);
  p->shared_bytes += cuda_nest_tile_bytes(n, s->dtype);
  return cuda_load_element(
      e, s->dtype, name,
      format(e, "t%u * %u + i%u - %s", last, pitch, near, near0));
}

/* ---- operations ---- */

/* Operands in tiles or vectors, and values that earlier loop nests of the pass
 * computed for this point. */
static const char *bind_operand(NestWriter *p, const LoopNest *loop,
                                const KernelOp *s) {
  CudaWriter *w = p->w;
  if (s->kind == KOP_LOAD && !s->checked_index_count) {
    if (cuda_nest_shares(p->nest, loop, s))
      return put_tile(p, loop, s);
    return vector_fits(&p->vectors, s->address) ? vector_load(&p->vectors, s)
                                                : NULL;
  }
  return s->kind == KOP_LOAD_LOCAL ? cuda_load_value(w, s, 1) : NULL;
}

static void put_loop_nest(NestWriter *p, uint32_t at) {
  CudaWriter *w = p->w;
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[at];
  const char **precomputed = NEW_ARRAY(e->arena, const char *, loop->ops.len);
  Buffer results = {.arena = e->arena};
  begin_loop_nest(p, loop);
  p->vectors.loop = loop;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    precomputed[j] = bind_operand(p, loop, &loop->ops.at[j]);
  e->ops.precomputed = precomputed;
  emit_ops(e);
  e->ops.precomputed = NULL;
  for (uint32_t j = 0; j < loop->outputs.len && !e->failed; j++)
    cuda_put_output(&p->vectors, &results, j, cuda_value(w, at, j), NULL,
                    emit_scalar(e, loop->outputs.at[j].value_op));
  emit_append(&e->function.head, &e->levels.code[0]);
  for (uint32_t j = OUTER_LEVEL; j <= p->innermost; j++)
    emit_append(&p->levels[j], &e->levels.code[j]);
  emit_append(&p->levels[p->innermost], &e->check_code);
  emit_append(&p->levels[p->innermost], &results);
}

/* ---- entry point ---- */

/* Appends the code of a level that is complete, once. */
static void put_level(NestWriter *p, Buffer *out, uint32_t level) {
  if (level == p->innermost)
    return;
  emit_append(out, &p->levels[level]);
  p->levels[level].len = 0;
}

static uint32_t count_open(const Buffer *out) {
  uint32_t open = 0;
  for (size_t j = 0; j < out->len; j++)
    open += out->text[j] == '{';
  return open;
}

static void put_loops(NestWriter *p, Buffer *out) {
  const Nest *n = p->nest;
  uint32_t open = 0, level = OUTER_LEVEL;
  bool in_block = true;
  emit_append(out, &p->blocks);
  emit_append(out, &p->threads);
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    emit_append(out, &p->before[j]);
    if (opens_scope(n, j))
      put_level(p, out, level);
    if (in_block && l->run != NEST_BLOCK && n->shared_axis != NO_LOOP) {
      emit_append(out, &p->tiles);
      buffer_puts(out, "ax_sync();\n");
    }
    in_block &= l->run == NEST_BLOCK;
    if (l->run == NEST_LANES)
      emit_append(out, &p->vectors.loads);
    emit_append(out, &p->after[j]);
    level = p->level_after[j];
    open += count_open(&p->before[j]) + count_open(&p->after[j]);
  }
  if (!n->loop_count) {
    buffer_puts(out, "if (blockIdx.x == 0 && threadIdx.x == 0) {\n");
    open++;
  }
  emit_append(out, &p->levels[p->innermost]);
  for (; open > 0; open--) {
    buffer_puts(out, "}\n");
    emit_append(out, &p->vectors.stores);
    p->vectors.stores.len = 0;
  }
}

static bool is_linear(const Nest *n) {
  const NestLoop *l = n->loops;
  return n->loop_count >= 2 && l[0].run == NEST_BLOCK &&
         l[1].run == NEST_THREAD && l[0].axis == l[1].axis &&
         n->shared_axis == NO_LOOP && cuda_nest_threads(n) == l[1].count;
}

void cuda_put_nest(CudaWriter *w) {
  const Nest *n = w->s->nests[0];
  NestWriter *p = NEW(w->e.arena, NestWriter);
  Buffer none = {.arena = w->e.arena};
  uint32_t lanes = nest_lanes(n);
  *p = (NestWriter){.w = w,
                    .nest = n,
                    .spec = w->k->loops.at[0],
                    .is_linear = is_linear(n),
                    .grid_blocks = 1};
  p->vectors = (VectorAccess){.w = w, .width = 1};
  if (lanes != NO_LOOP) {
    p->vectors.axis = n->loops[lanes].axis;
    p->vectors.width = (uint32_t)n->loops[lanes].count;
    p->vectors.is_masked = n->loops[lanes].tail == TAIL_MASK;
  }
  p->vectors.loads = p->vectors.stores = none;
  p->blocks = p->threads = p->tiles = none;
  for (uint32_t j = 0; j < MAX_NEST_LOOPS; j++)
    p->before[j] = p->after[j] = none;
  for (uint32_t j = 0; j < MAX_LEVELS; j++)
    p->levels[j] = none;
  cuda_choose_values(w, &w->body);
  find_levels(p);
  put_indices(p);
  for (uint32_t j = 0; j < w->k->loops.len && !w->e.failed; j++)
    put_loop_nest(p, j);
  put_loops(p, &w->body);
  w->pass->grid_blocks = p->grid_blocks;
  w->pass->shared_bytes = p->shared_bytes;
}
