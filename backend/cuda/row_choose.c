/* The steps of passes in which thread groups share rows. */
#include "backend/cuda/nest.h"
#include "kernel/verify.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#include <string.h>

void cuda_row_axes(const LoopNest *loop, uint32_t *first, uint32_t *end) {
  bool has_kept = loop->spatial_axes > loop->parallel_axes;
  *first = has_kept ? loop->parallel_axes : loop->spatial_axes;
  *end = has_kept ? loop->spatial_axes : loop->axis_count;
}

bool row_nests_match(const RowNest *x, const RowNest *y) {
  const LoopNest *a = x->nest->spec, *b = y->nest->spec;
  return row_shares_elements(a) && row_shares_elements(b) &&
         a->axis_count == b->axis_count &&
         memcmp(a->extents, b->extents, a->axis_count * sizeof *a->extents) ==
             0 &&
         x->axis_count == y->axis_count &&
         memcmp(x->axes, y->axes, x->axis_count * sizeof *x->axes) == 0;
}

/* ---- steps of a loop nest ---- */

typedef struct RowChoice {
  const CudaSchedule *s;
  LoopNest *loop;
  RowLoopKind kind;
  uint32_t axes[MAX_KERNEL_AXES], axis_count; /* the contiguous one last */
  uint32_t vector_width, registers;
  uint32_t run; /* iterations of a run; 0: no tile */
  bool has_runs, is_online;
  NestBuilder b;
  uint32_t point_axis, point_pieces, row_axis, row_pieces;
  uint32_t chunk_piece, group_piece, inner_pieces;
} RowChoice;

static void add_pieces(NestStep *order, uint32_t axis, uint32_t from,
                       uint32_t to) {
  for (uint32_t k = from; k-- > to;)
    nest_step_add(order, axis, k);
}

static void order_axes(RowChoice *c) {
  NestStep order = {.kind = STEP_ORDER};
  const LoopNest *loop = c->loop;
  for (uint32_t v = 0; v < loop->parallel_axes; v++)
    nest_step_add(&order, v, 0);
  for (uint32_t j = 0; j < c->axis_count; j++)
    nest_step_add(&order, c->axes[j], 0);
  if (c->kind == ROW_PARTIAL_REDUCE)
    for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
      nest_step_add(&order, v, 0);
  nest_build_order(&c->b, &order);
}

static void step(RowChoice *c, NestStepKind kind, uint32_t axis, uint32_t piece,
                 int64_t number) {
  nest_build_step(&c->b, kind, axis, piece, number, TAIL_LESS);
}

/* Makes one loop of several; the last one may be vectors.  NO_LOOP: a step was
 * refused. */
static uint32_t join_axes(RowChoice *c, uint32_t count, const uint32_t *axes,
                          uint32_t last_piece) {
  NestStep flatten = {.kind = STEP_FLATTEN};
  if (count == 1)
    return axes[0];
  for (uint32_t j = 0; j < count; j++)
    nest_step_add(&flatten, axes[j], j + 1 == count ? last_piece : 0);
  nest_build_order(&c->b, &flatten);
  const NestFlattened *f = c->b.nest->flat;
  return c->b.refusal ? NO_LOOP : f[1].axis == NO_LOOP ? f[0].axis : f[1].axis;
}

static void join_loops(RowChoice *c) {
  uint32_t points[MAX_KERNEL_AXES], count = c->loop->parallel_axes;
  bool has_lanes = c->vector_width > 1;
  if (has_lanes) {
    uint32_t last = c->axes[c->axis_count - 1];
    step(c, STEP_TILE, last, 0, c->vector_width);
    step(c, STEP_LANES, last, 0, 0);
  }
  for (uint32_t v = 0; v < count; v++)
    points[v] = v;
  c->point_axis = count ? join_axes(c, count, points, 0) : NO_LOOP;
  c->row_axis =
      c->axis_count ? join_axes(c, c->axis_count, c->axes, has_lanes) : NO_LOOP;
}

static void tile_loops(RowChoice *c) {
  const CudaSchedule *s = c->s;
  uint32_t width = s->block_threads / s->group_threads, axis = c->row_axis,
           piece = c->vector_width > 1 && c->axis_count == 1;
  c->point_pieces = 1;
  if (width > 1 && c->point_axis != NO_LOOP) {
    step(c, STEP_TILE, c->point_axis, 0, width);
    c->point_pieces = 2;
  }
  if (axis == NO_LOOP)
    return;
  c->group_piece = piece;
  if (s->group_threads > 1)
    step(c, STEP_TILE, axis, piece++, s->group_threads);
  if (s->reduction_chunk)
    step(c, STEP_TILE, axis, piece,
         s->reduction_chunk / (s->group_threads * c->vector_width));
  uint32_t inner = c->kind == ROW_PARTIAL_REDUCE ? c->run : 0;
  uint32_t tile = c->registers ? c->registers : inner ? 0 : c->run;
  if (tile)
    step(c, STEP_TILE, axis, piece, tile);
  c->row_pieces = piece + 1 + (tile > 0) + (s->reduction_chunk > 0);
  c->chunk_piece = c->row_pieces - 1;
  c->inner_pieces = 1;
  if (inner) {
    step(c, STEP_TILE, c->loop->axis_count - 1, 0, inner);
    c->inner_pieces = 2;
  }
}

static void order_loops(RowChoice *c) {
  NestStep order = {.kind = STEP_ORDER};
  const LoopNest *loop = c->loop;
  bool has_chunks = c->s->reduction_chunk > 0, has_points = loop->parallel_axes;
  bool is_across = c->s->coalesce_outer && c->axis_count;
  bool has_threads = has_points && c->point_pieces > 1;
  if (has_points)
    nest_step_add(&order, c->point_axis, c->point_pieces - 1);
  if (has_chunks)
    nest_step_add(&order, c->row_axis, c->chunk_piece);
  if (has_threads && !is_across)
    nest_step_add(&order, c->point_axis, 0);
  if (c->axis_count)
    add_pieces(&order, c->row_axis, c->row_pieces - has_chunks, 0);
  if (c->vector_width > 1 && c->axis_count > 1)
    nest_step_add(&order, c->axes[c->axis_count - 1], 0);
  if (has_threads && is_across)
    nest_step_add(&order, c->point_axis, 0);
  if (c->kind == ROW_PARTIAL_REDUCE)
    for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
      add_pieces(&order, v, v + 1 == loop->axis_count ? c->inner_pieces : 1, 0);
  nest_build_order(&c->b, &order);
}

static void bind_loops(RowChoice *c) {
  const CudaSchedule *s = c->s;
  if (c->point_axis != NO_LOOP)
    step(c, STEP_BLOCKS, c->point_axis, c->point_pieces - 1, 0);
  if (s->reduction_chunk)
    step(c, STEP_BLOCKS, c->row_axis, c->chunk_piece, 0);
  if (s->reduction_chunk && c->point_axis != NO_LOOP) {
    NestStep order = {.kind = STEP_ORDER}; /* neighbours have one chunk */
    nest_step_add(&order, c->row_axis, c->chunk_piece);
    nest_step_add(&order, c->point_axis, c->point_pieces - 1);
    nest_build_order(&c->b, &order);
  }
  if (c->point_axis != NO_LOOP && c->point_pieces > 1)
    step(c, STEP_THREADS, c->point_axis, 0, 0);
  if (!c->axis_count)
    return;
  if (s->group_threads > 1)
    step(c, STEP_THREADS, c->row_axis, c->group_piece, 0);
  uint32_t serial = c->group_piece + (s->group_threads > 1);
  if (c->registers) {
    step(c, STEP_UNROLL, c->row_axis, serial, 0);
    step(c, STEP_REGISTERS, c->row_axis, serial, 0);
  }
  if (c->has_runs && c->kind == ROW_PARTIAL_REDUCE)
    step(c, STEP_RUN, c->loop->axis_count - 1, 1, 0);
  else if (c->has_runs)
    step(c, STEP_RUN, c->row_axis, serial + 1, 0);
  if (c->is_online)
    step(c, STEP_ONLINE, c->row_axis, serial + 1, 0);
}

/* ---- a pass ---- */

/* Terms of a sum that one thread adds. */
static double thread_terms(const RowChoice *c) {
  const LoopNest *loop = c->loop;
  double terms =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  if (loop->graph->extent_table)
    return 1e9;
  if (c->s->reduction_chunk) /* a run has vectors, and a chunk several runs */
    terms = (double)c->s->reduction_chunk / c->vector_width;
  return terms / (c->kind == ROW_REDUCE ? c->s->group_threads : 1);
}

static bool has_long_sums(const RowChoice *c) {
  bool has_sums = false;
  for (uint32_t j = 0; j < c->loop->outputs.len; j++)
    has_sums |= row_output_is_reduction(&c->loop->outputs.at[j]) &&
                cuda_sums_runs(c->loop, &c->loop->outputs.at[j]);
  return has_sums && !c->registers && thread_terms(c) > SUM_BLOCK_TERMS;
}

/* The nests of a pass while they are chosen. */
typedef struct NestsChoice {
  CudaPass *pass;
  /* keeps_order: the axes of rows stay in their own order; otherwise the
   * contiguous one is last.  has_moved: this is another order. */
  bool keeps_order, has_moved;
  Nest **nests;        /* by loop nest */
  const char *refusal; /* of the first step that was refused; or NULL */
} NestsChoice;

static void take_row_axes(NestsChoice *n, RowChoice *c) {
  uint32_t first, end;
  cuda_row_axes(c->loop, &first, &end);
  c->axis_count = cuda_distributed_axes(c->loop, &n->pass->s, c->axes);
  for (uint32_t v = first; v < end; v++) {
    n->has_moved |= c->axes[v - first] != v;
    c->axes[v - first] = n->keeps_order ? v : c->axes[v - first];
  }
}

/* online: the sum of this loop nest, or of one that follows this one, is
 * computed after each run. */
static void choose_nest(NestsChoice *n, uint32_t at, bool is_online,
                        bool has_online) {
  static void (*const parts[])(RowChoice * c) = {
      order_axes, join_loops, tile_loops, order_loops, bind_loops};
  const CudaPass *p = n->pass;
  LoopNest *loop = p->k->loops.at[at];
  RowChoice c = {.s = &p->s,
                 .loop = loop,
                 .kind = row_loop_kind(loop),
                 .vector_width = 1,
                 .is_online = is_online,
                 .b.nest = nest_new(p->k->arena, loop, p->k->axis_names)};
  if (c.kind != ROW_SCALAR)
    take_row_axes(n, &c);
  if (row_shares_elements(loop)) {
    c.vector_width = p->s.vector_width;
    c.registers = p->s.vectors_in_registers;
  }
  c.has_runs = has_long_sums(&c) && !is_online;
  c.run = is_online || has_online ? ONLINE_BLOCK_VECTORS
          : c.has_runs            ? SUM_BLOCK_TERMS
                                  : 0;
  for (uint32_t j = 0; j < ARRAY_LEN(parts) && !c.b.refusal; j++)
    parts[j](&c);
  if (!c.b.refusal)
    nest_verify_chosen(c.b.nest, NULL);
  n->nests[at] = c.b.nest;
  n->refusal = n->refusal ? n->refusal : c.b.refusal;
}

/* Returns true if the rows between loop nests fit in shared memory. */
static bool rows_fit(const CudaPass *p, const CudaTarget *target) {
  double bytes = 0;
  const Kernel *k = p->whole;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      if (!r->local_index || row_loop_kind(k->loops.at[j]) == ROW_SCALAR)
        continue;
      if (!extent_is_static(k->graph, r->local_elements))
        return false;
      bytes += (double)extent_hint(k->graph, r->local_elements) *
               dtype_info[r->dtype].bytes;
    }
  double points = p->s.block_threads / p->s.group_threads;
  return bytes * points + p->s.block_threads * REDUCTION_SLOT_BYTES <=
         target->default_shared_bytes;
}

void cuda_choose_kept_rows(CudaPass *p, const CudaTarget *target) {
  const CudaSchedule *s = &p->s;
  bool recomputes = p->whole->loops.len > 1 && !s->vectors_in_registers &&
                    !s->coalesce_outer && !p->first_loop &&
                    !rows_fit(p, target);
  p->k = recomputes ? cuda_rematerialize(p->whole) : p->whole;
}

const char *cuda_rows_use(CudaPass *p, Nest **nests, const CudaTarget *target,
                          uint32_t *loop) {
  const Kernel *k = p->k;
  RowNest *rows = NEW_ARRAY(k->arena, RowNest, k->loops.len);
  CudaSchedule s = {.kind = CUDA_ROW,
                    .nests = nests,
                    .rows = rows,
                    .group_threads = 1,
                    .vector_width = 1};
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const char *error = cuda_row_nest_read(nests[j], &rows[j]);
    *loop = j;
    if (error)
      return error;
    const RowNest *r = &rows[j];
    if (r->axis_count) {
      s.group_threads = r->group_threads;
      s.coalesce_outer = r->is_across;
    }
    if (row_shares_elements(nests[j]->spec)) {
      s.vector_width = r->vector_width;
      s.vectors_in_registers = r->vectors_in_registers;
    }
    s.reduction_chunk = r->chunk ? r->chunk : s.reduction_chunk;
    s.online_softmax |= r->is_online;
  }
  double threads = (double)rows[0].points * s.group_threads;
  if (!k->parallel_axes && threads < DEFAULT_BLOCK_THREADS)
    threads = DEFAULT_BLOCK_THREADS;
  const char *error = cuda_threads_refusal(k->arena, threads);
  *loop = 0;
  if (error)
    return error;
  s.block_threads = (uint32_t)threads;
  p->s = s;
  return cuda_choose_homes(p, target);
}

/* Chooses online sums, and their nests. */
static void choose_online(NestsChoice *n) {
  const Kernel *k = n->pass->k;
  bool is_online[MAX_KERNEL_LOOPS] = {false},
       has_online[MAX_KERNEL_LOOPS] = {false};
  RowNest *rows = NEW_ARRAY(k->arena, RowNest, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len && !n->refusal; j++)
    n->refusal = cuda_row_nest_read(n->nests[j], &rows[j]);
  for (uint32_t j = 1; j < k->loops.len && !n->refusal; j++) {
    ExpSumPattern sum;
    is_online[j] = cuda_match_online(k, rows, j, &sum);
    if (is_online[j])
      has_online[sum.max_loop] = true;
  }
  for (uint32_t j = 0; j < k->loops.len && !n->refusal; j++)
    if (is_online[j] || has_online[j])
      choose_nest(n, j, is_online[j], has_online[j]);
}

static void choose_nests(NestsChoice *n, const CudaTarget *target,
                         bool may_be_online) {
  CudaPass *p = n->pass;
  uint32_t loop;
  n->refusal = NULL;
  cuda_choose_kept_rows(p, target);
  n->nests = NEW_ARRAY(p->k->arena, Nest *, p->k->loops.len);
  for (uint32_t j = 0; j < p->k->loops.len; j++)
    choose_nest(n, j, false, false);
  if (may_be_online && !p->s.vectors_in_registers && !p->s.coalesce_outer &&
      !p->s.reduction_chunk)
    choose_online(n);
  if (!n->refusal)
    n->refusal = cuda_rows_use(p, n->nests, target, &loop);
}

void cuda_choose_row_nests(CudaPass *p, const CudaTarget *target,
                           bool may_be_online) {
  NestsChoice n = {.pass = p};
  uint32_t loop;
  choose_nests(&n, target, may_be_online);
  if (n.refusal && n.has_moved) {
    n.keeps_order = true;
    p->s.vector_width = 1;
    p->s.vectors_in_registers = 0;
    choose_nests(&n, target, may_be_online);
  }
  if (!n.refusal && kernel_verify_is_on())
    n.refusal = cuda_rows_refusal(p, p->s.rows, &loop);
  nest_verify_chosen(n.nests[0], n.refusal);
}
