/* Nests as CUDA C++.
 *
 * Loops over thread blocks and threads become indices.  Other loops are loops
 * of each thread.  A loop whose range is known runs over the indices of its
 * axis: the threads inside begin at different ones, and its step is the
 * elements of all.  Other loops count their iterations.  An index is complete
 * at the innermost loop of its axis.  There it is compared with the end, unless
 * a loop over the range was.
 *
 * All loop nests of a pass without sums run in the same loops.  In other
 * passes, row_kernel.c prints the points, and each loop nest has its own loops:
 * its sums begin before the first loop over terms, and end after it.
 *
 * The variables are b%u, t%u and n%u, the iteration of the blocks, threads or
 * loop %u; e%u, the end of its iteration; t, the iteration of a loop whose
 * elements stay in registers; g, the index of flattened loops, or of threads
 * along one axis; lane, the thread of a group; i%u, the index of axis %u; and
 * v, the lane. */
#include "backend/cuda/row_kernel.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#define format emit_format

/* ---- levels ---- */

static bool is_point(const NestWriter *p, uint32_t axis) {
  return p->row && axis == p->row->point_axis;
}

/* Returns true if code in a loop is in another scope than code before it: tiles
 * are loaded before the first loop in the blocks. */
static bool opens_scope(const NestWriter *p, uint32_t at) {
  const Nest *n = p->nest;
  NestRun run = n->loops[at].run;
  bool is_first = at == 0 || n->loops[at - 1].run == NEST_BLOCK;
  return run == NEST_SERIAL || run == NEST_UNROLL || run == NEST_LANES ||
         (run == NEST_THREAD &&
          (p->row || (n->shared_axis != NO_LOOP && is_first)));
}

/* The level of each axis: the scope in which its index is complete. */
static void find_levels(NestWriter *p) {
  const Nest *n = p->nest;
  uint32_t level = OUTER_LEVEL;
  bool is_open = false;
  for (uint32_t v = 0; v < MAX_NEST_AXES; v++)
    p->level_of[v] = OUTER_LEVEL;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    uint32_t axis = n->loops[j].axis;
    const NestFlattened *f = nest_flattened(n, axis);
    p->level_after[j] = level;
    if (is_point(p, axis))
      continue;
    is_open |= opens_scope(p, j);
    if (nest_inner(n, j) == NO_LOOP && is_open) {
      level++;
      is_open = false;
    }
    p->level_after[j] = p->level_of[axis] = level;
    for (uint32_t i = 0; f && i < f->count; i++)
      if (nest_find(n, f->loops[i].axis, 0) == NO_LOOP)
        p->level_of[f->loops[i].axis] = level;
  }
  p->innermost = level;
}

/* Prints the code of a level whose indices are complete. */
static void put_level(const NestWriter *p, NestPlace *place, Buffer *out) {
  if (place->is_pending)
    emit_append(out, &p->levels[place->level]);
  place->is_pending = false;
}

static void enter(const NestWriter *p, uint32_t at, NestPlace *place) {
  place->is_pending |= p->level_after[at] != place->level;
  place->level = p->level_after[at];
}

/* ---- loops ---- */

/* The threads of all blocks along one axis. */
static void put_linear(NestWriter *p, NestPlace place, Buffer *out) {
  Emitter *e = &p->w->e;
  const NestLoop *threads = &p->nest->loops[1];
  uint32_t axis = threads->axis;
  int64_t all = nest_outermost_count(p, axis, threads->step);
  buffer_printf(out,
                "const int64_t g = (int64_t)blockIdx.x * %lld + threadIdx.x;\n"
                "if (g < %s) {\n",
                (long long)threads->count, emit_int(e, all));
  nest_add_index(p, &place, axis, format(e, "(%s)g", p->w->dialect.index_type),
                 threads->step);
  place.is_range[axis] = true;
  if (nest_inner(p->nest, 1) == NO_LOOP)
    nest_put_index(p, &place, axis, out);
  nest_put(p, 2, place, out);
  buffer_puts(out, "}\n");
  p->w->pass->grid_blocks = emit_extent_ceil_div(e, all, threads->count);
}

/* b%u of all loops over blocks. */
static void put_blocks(const NestWriter *p, Buffer *out) {
  Emitter *e = &p->w->e;
  const char *names[MAX_NEST_LOOPS];
  int64_t counts[MAX_NEST_LOOPS], all = 1;
  uint32_t count = 0;
  for (; count < p->nest->loop_count && p->nest->loops[count].run == NEST_BLOCK;
       count++) {
    counts[count] = nest_loop_count(p, count);
    names[count] = format(e, "b%u", count);
    all = emit_extent_mul(e, all, counts[count]);
  }
  cuda_put_unravel_names(p->w, out, count, names, counts,
                         format(e, "(%s)blockIdx.x", p->w->dialect.index_type));
  p->w->pass->grid_blocks = all;
}

/* t%u of all loops over threads. */
static void put_threads(const NestWriter *p, Buffer *out) {
  int64_t inner = 1;
  for (uint32_t j = p->nest->loop_count; j-- > 0;) {
    const NestLoop *l = &p->nest->loops[j];
    if (l->run != NEST_THREAD)
      continue;
    buffer_printf(out, "const int t%u = threadIdx.x", j);
    if (inner > 1)
      buffer_printf(out, " / %lld", (long long)inner);
    inner *= l->count;
    if (inner < p->w->s->block_threads)
      buffer_printf(out, " %% %lld", (long long)l->count);
    buffer_puts(out, ";\n");
  }
}

/* The thread of a loop that threads run, or their block. */
static void add_bound(const NestWriter *p, uint32_t at, NestPlace *place) {
  const NestLoop *l = &p->nest->loops[at];
  if (p->row && l->run == NEST_BLOCK) { /* of a part of the terms */
    place->indices[l->axis] = "from";
    place->ends[l->axis] = "to";
  } else {
    nest_add_index(
        p, place, l->axis,
        p->row ? "lane"
               : format(&p->w->e, l->run == NEST_BLOCK ? "b%u" : "t%u", at),
        nest_index_step(p, at));
  }
}

/* The points of a thread group are declared before its loops. */
static void put_bound(NestWriter *p, uint32_t at, NestPlace place,
                      Buffer *out) {
  uint32_t axis = p->nest->loops[at].axis;
  bool has_test = false;
  if (!is_point(p, axis)) {
    if (!place.is_range[axis])
      add_bound(p, at, &place);
    if (nest_inner(p->nest, at) == NO_LOOP)
      has_test = nest_put_index(p, &place, axis, out);
    enter(p, at, &place);
  }
  nest_put(p, at + 1, place, out);
  if (has_test)
    buffer_puts(out, "}\n");
}

/* Returns true if a loop is over all indices of its axis, or of a part: each
 * loop inside is one too, or has threads or lanes. */
static bool is_range(const NestWriter *p, uint32_t at, const NestPlace *place) {
  const Nest *n = p->nest;
  const NestLoop *l = &n->loops[at];
  for (uint32_t j = nest_inner(n, at); j != NO_LOOP; j = nest_inner(n, j))
    if (n->loops[j].run == NEST_UNROLL)
      return false;
  return l->run == NEST_SERIAL && (!l->count || place->ends[l->axis]);
}

/* How often a loop over terms is unrolled: 0: the compiler decides.  Scalar
 * loops are unrolled more.  Full blocks have few registers per thread, so loops
 * with several loads are unrolled less.  Long loop bodies are not unrolled. */
static int unroll_factor(const NestWriter *p, uint32_t at) {
  const LoopNest *loop = p->spec;
  uint32_t axis = p->nest->loops[at].axis, reads = 0, width = p->vectors.width;
  if (p->kind == ROW_PARTIAL_REDUCE)
    return axis + 1 == loop->axis_count ? VECTOR_UNROLL : 0;
  if (p->kind != ROW_REDUCE || !p->row)
    return 0;
  if (loop->ops.len > MAX_UNROLLED_OPS)
    return 1;
  bool full_block =
      p->w->s->block_threads >= MAX_BLOCK_THREADS && loop->ops.len > 2;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    reads += loop->ops.at[j].kind == KOP_LOAD;
  if (full_block && width > 1 && reads >= MIN_PENDING_LOADS)
    return VECTOR_UNROLL / 2;
  return width > 1 || full_block ? VECTOR_UNROLL : SCALAR_UNROLL;
}

/* A loop over the indices of an axis.  An index after the last run, or after
 * the last iteration of a pass without sums, may not fit in 32 bits. */
static void put_range(NestWriter *p, uint32_t at, NestPlace place,
                      Buffer *out) {
  const Nest *n = p->nest;
  uint32_t axis = n->loops[at].axis;
  bool has_runs = nest_has_runs(n, at), has_test = false;
  const char *type = p->w->dialect.index_type,
             *end = nest_end_of(p, &place, axis);
  long long step = (long long)nest_index_step(p, at);
  for (uint32_t j = nest_inner(n, at); j != NO_LOOP; j = nest_inner(n, j))
    if (n->loops[j].run == NEST_THREAD && !place.is_range[axis])
      add_bound(p, j, &place);
  int factor = has_runs ? 0 : unroll_factor(p, at);
  if (factor)
    buffer_printf(out, "#pragma unroll %d\n", factor);
  bool is_wide = has_runs || !p->row;
  buffer_printf(out, "for (%s n%u = %s; n%u < %s; n%u += %lld) {\n",
                is_wide ? "int64_t" : type, at, nest_index_of(&place, axis), at,
                end, at, step);
  place.indices[axis] = is_wide && !has_runs
                            ? format(&p->w->e, "(%s)n%u", type, at)
                            : format(&p->w->e, "n%u", at);
  place.is_range[axis] = true;
  if (has_runs) {
    buffer_printf(out, "const %s e%u = %s - n%u < %lld ? %s : n%u + %lld;\n",
                  type, at, end, at, step, end, at, step);
    place.ends[axis] = format(&p->w->e, "e%u", at);
    emit_append(out, &p->begin_run);
  } else if (nest_inner(n, at) == NO_LOOP) {
    has_test = nest_put_index(p, &place, axis, out);
  }
  enter(p, at, &place);
  nest_put(p, at + 1, place, out);
  if (has_runs)
    emit_append(out, &p->end_run);
  buffer_puts(out, has_test ? "}\n}\n" : "}\n");
}

/* A loop that counts its iterations. */
static void put_counted(NestWriter *p, uint32_t at, NestPlace place,
                        Buffer *out) {
  Emitter *e = &p->w->e;
  const NestLoop *l = &p->nest->loops[at];
  const char *name = l->is_held ? "t" : format(e, "n%u", at);
  bool has_test = false;
  buffer_printf(out, "%sfor (%s %s = 0; %s < %s; %s++) {\n",
                l->run == NEST_UNROLL ? "#pragma unroll\n" : "",
                l->count ? "int" : p->w->dialect.index_type, name, name,
                l->count ? format(e, "%lld", (long long)l->count)
                         : emit_int(e, nest_loop_count(p, at)),
                name);
  nest_add_index(p, &place, l->axis, name, nest_index_step(p, at));
  if (nest_inner(p->nest, at) == NO_LOOP)
    has_test = nest_put_index(p, &place, l->axis, out);
  enter(p, at, &place);
  nest_put(p, at + 1, place, out);
  buffer_puts(out, has_test ? "}\n}\n" : "}\n");
}

/* The loop over the elements of a row in registers, after the loads that are in
 * flight together. */
static void put_register_row(NestWriter *p, uint32_t at, NestPlace place,
                             Buffer *out) {
  const EarlyLoads *early = &p->early;
  if (early->aligned.len && !place.early) {
    NestPlace loads = place;
    buffer_printf(out, "if (%s) {\n", early->aligned.text);
    loads.early = &early->vectors;
    put_counted(p, at, loads, out);
    buffer_puts(out, "} else {\n");
    loads.early = &early->scalars;
    put_counted(p, at, loads, out);
    buffer_puts(out, "}\n");
  }
  put_counted(p, at, place, out);
}

static void put_serial(NestWriter *p, uint32_t at, NestPlace place,
                       Buffer *out) {
  const NestLoop *l = &p->nest->loops[at];
  put_level(p, &place, out);
  if (is_range(p, at, &place)) {
    put_range(p, at, place, out);
  } else if (!l->count && nest_inner(p->nest, at) != NO_LOOP &&
             nest_loop_count(p, at) <= 1) { /* one iteration, or none */
    place.is_full[l->axis] =
        nest_index_step(p, at) == nest_index_count(p, l->axis);
    nest_put(p, at + 1, place, out);
  } else if (l->is_held) {
    put_register_row(p, at, place, out);
  } else {
    put_counted(p, at, place, out);
  }
}

/* A vector: `first` is its index, and `left` elements remain. */
static void put_lanes(NestWriter *p, uint32_t at, NestPlace place,
                      Buffer *out) {
  Emitter *e = &p->w->e;
  VectorAccess *v = &p->vectors;
  const char *type = p->w->dialect.index_type;
  bool has_test = nest_needs_test(p, &place, v->axis, 2);
  const char *end =
      has_test || v->is_masked ? nest_end_of(p, &place, v->axis) : NULL;
  buffer_printf(out, "const %s first = %s", type,
                nest_index_of(&place, v->axis));
  if (v->is_masked)
    buffer_printf(out, ", left = %s - first", end);
  buffer_puts(out, ";\n");
  if (has_test)
    buffer_printf(out, "if (%s) {\n",
                  v->is_masked ? "left > 0" : format(e, "first < %s", end));
  if (v->is_masked)
    buffer_printf(out, "const bool full = left >= %u;\n", v->width);
  put_level(p, &place, out);
  if (place.early) {
    emit_append(out, place.early);
  } else {
    emit_append(out, &v->loads);
    vector_open(v, out);
    enter(p, at, &place);
    nest_put(p, at + 1, place, out);
    buffer_puts(out, "}\n");
    emit_append(out, &v->stores);
  }
  if (has_test)
    buffer_puts(out, "}\n");
}

/* Before the first loop in the blocks. */
static void put_tiles(const NestWriter *p, uint32_t at, NestPlace *place,
                      Buffer *out) {
  const Nest *n = p->nest;
  if (n->shared_axis == NO_LOOP || n->loops[at].run == NEST_BLOCK ||
      (at && n->loops[at - 1].run != NEST_BLOCK))
    return;
  put_level(p, place, out);
  emit_append(out, &p->tiles);
  buffer_puts(out, "ax_sync();\n");
}

static void put_loop(NestWriter *p, uint32_t at, NestPlace place, Buffer *out) {
  put_tiles(p, at, &place, out);
  switch (p->nest->loops[at].run) {
  case NEST_BLOCK:
  case NEST_THREAD:
    put_bound(p, at, place, out);
    break;
  case NEST_SERIAL:
  case NEST_UNROLL:
    put_serial(p, at, place, out);
    break;
  case NEST_LANES:
    put_lanes(p, at, place, out);
    break;
  case NEST_TASK:
  case NEST_STRIP:
  case NEST_ATOM:
    break;
  }
}

void nest_put(NestWriter *p, uint32_t at, NestPlace place, Buffer *out) {
  const Nest *n = p->nest;
  if (at == n->loop_count) {
    put_level(p, &place, out);
    return;
  }
  bool has_sums = p->has_sums && at == nest_accumulator_depth(n);
  if (has_sums) {
    put_level(p, &place, out);
    emit_append(out, &p->begin_sums);
  }
  put_loop(p, at, place, out);
  if (has_sums)
    emit_append(out, &p->end_sums);
}

NestPlace nest_place(void) {
  return (NestPlace){.level = OUTER_LEVEL, .is_pending = true};
}

NestPlace nest_run_place(const NestWriter *p, uint32_t at) {
  NestPlace place = {.level = OUTER_LEVEL};
  uint32_t axis = p->row->axis;
  place.indices[axis] = format(&p->w->e, "n%u", at);
  place.ends[axis] = format(&p->w->e, "e%u", at);
  place.is_range[axis] = true;
  return place;
}

/* ---- operations ---- */

void nest_begin(NestWriter *p, CudaWriter *w, const Nest *nest,
                const LoopNest *spec, const RowNest *row) {
  Buffer none = {.arena = w->e.arena};
  uint32_t lanes = nest_lanes(nest);
  *p = (NestWriter){.w = w, .nest = nest, .spec = spec, .row = row};
  p->vectors =
      (VectorAccess){.w = w, .width = 1, .loads = none, .stores = none};
  if (row && row->axis_count)
    p->vectors.axis = row->axes[row->axis_count - 1];
  if (lanes != NO_LOOP) {
    p->vectors.axis = nest->loops[lanes].axis;
    p->vectors.width = (uint32_t)nest->loops[lanes].count;
    p->vectors.is_masked = nest->loops[lanes].tail == TAIL_MASK;
  }
  p->tiles = p->begin_sums = p->end_sums = p->begin_run = p->end_run = none;
  p->early = (EarlyLoads){.vectors = none, .scalars = none, .aligned = none};
  for (uint32_t j = 0; j < MAX_LEVELS; j++)
    p->levels[j] = none;
  find_levels(p);
}

void nest_put_ops(NestWriter *p, const LoopNest *loop, const char *first) {
  Emitter *e = &p->w->e;
  const char **precomputed = NEW_ARRAY(e->arena, const char *, loop->ops.len);
  uint32_t order[MAX_KERNEL_AXES], count = 0;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (p->level_of[v] > OUTER_LEVEL)
      order[count++] = v;
  emit_begin_loop(e, loop, NO_AXIS, count, order);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    e->levels.of[v] = p->level_of[v];
  e->levels.vector = p->innermost;
  p->vectors.loop = loop;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    precomputed[j] = nest_bind_operand(p, loop, &loop->ops.at[j]);
  if (first)
    precomputed[0] = first;
  e->ops.precomputed = precomputed;
  emit_ops(e);
  e->ops.precomputed = NULL;
}

void nest_end_ops(NestWriter *p, const Buffer *results) {
  Emitter *e = &p->w->e;
  emit_append(&e->function.head, &e->levels.code[0]);
  for (uint32_t j = OUTER_LEVEL; j <= p->innermost; j++)
    emit_append(&p->levels[j], &e->levels.code[j]);
  emit_append(&p->levels[p->innermost], &e->check_code);
  emit_append(&p->levels[p->innermost], results);
}

/* ---- passes without sums ---- */

static void put_loop_nest(NestWriter *p, uint32_t at) {
  CudaWriter *w = p->w;
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[at];
  Buffer results = {.arena = e->arena};
  nest_put_ops(p, loop, NULL);
  for (uint32_t j = 0; j < loop->outputs.len && !e->failed; j++)
    cuda_put_output(&p->vectors, &results, j, cuda_value(w, at, j), NULL,
                    emit_scalar(e, loop->outputs.at[j].value_op));
  nest_end_ops(p, &results);
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
  Buffer *out = &w->body;
  nest_begin(p, w, n, w->k->loops.at[0], NULL);
  cuda_put_homes(w, out);
  for (uint32_t j = 0; j < w->k->loops.len && !w->e.failed; j++)
    put_loop_nest(p, j);
  if (is_linear(n)) {
    put_linear(p, nest_place(), out);
  } else if (n->loop_count) {
    put_blocks(p, out);
    put_threads(p, out);
    nest_put(p, 0, nest_place(), out);
  } else {
    w->pass->grid_blocks = 1;
    buffer_puts(out, "if (blockIdx.x == 0 && threadIdx.x == 0) {\n");
    nest_put(p, 0, nest_place(), out);
    buffer_puts(out, "}\n");
  }
  w->pass->shared_bytes = p->shared_bytes;
}
