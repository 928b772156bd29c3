/* How thread groups run loop nests: what the steps of their nests say, and what
 * a GPU cannot run of them. */
#include "backend/cuda/nest.h"
#include "backend/cuda/threads.h"
#include "machine/limits/cuda.h"
#include "support/arena_text.h"
#include "support/int_math.h"

/* Where a loop of a row is: places from outside to inside. */
typedef enum RowRole {
  ROLE_CHUNKS,
  ROLE_BLOCKS,
  ROLE_POINTS, /* threads of several points, whose groups are adjacent */
  ROLE_SERIAL,
  ROLE_HELD,
  ROLE_GROUP,
  ROLE_ACROSS, /* threads of several points, which are adjacent */
  ROLE_LANES,
  ROLE_INNER, /* terms of each element, one after the other */
  ROW_ROLES
} RowRole;

/* The axis that one loop counts the iterations of; NO_LOOP: they are several
 * loops. */
static uint32_t joined_axis(const Nest *n, uint32_t count,
                            const uint32_t *axes) {
  if (count == 1)
    return nest_flattened_loop(n, axes[0]) ? NO_LOOP : axes[0];
  for (uint32_t j = 0; j < MAX_FLATTENED; j++) {
    uint64_t all = 0;
    const NestFlattened *f = &n->flat[j];
    for (uint32_t i = 0; i < f->count; i++)
      all |= (uint64_t)1 << f->loops[i].axis;
    for (uint32_t i = 0; i < count; i++)
      all &= ~((uint64_t)1 << axes[i]);
    if (f->count == count && !all)
      return f->axis;
  }
  return NO_LOOP;
}

static bool is_row(const RowNest *r, const NestLoop *l) {
  return r->axis_count && l->axis == r->axis;
}

static bool is_vector(const RowNest *r, const NestLoop *l) {
  return r->axis_count && l->axis == r->axes[r->axis_count - 1];
}

/* Returns true if an element of the row has its own sum over the axis. */
static bool is_inner(const LoopNest *loop, uint32_t axis) {
  return row_loop_kind(loop) == ROW_PARTIAL_REDUCE &&
         axis >= loop->spatial_axes && axis < loop->axis_count;
}

/* The role of a loop after loops at `last`; ROW_ROLES: it has none. */
static RowRole role_of(const RowNest *r, const NestLoop *l, RowRole last) {
  bool is_point = l->axis == r->point_axis;
  switch (l->run) {
  case NEST_SERIAL:
    return is_row(r, l)                       ? ROLE_SERIAL
           : is_inner(r->nest->spec, l->axis) ? ROLE_INNER
                                              : ROW_ROLES;
  case NEST_UNROLL:
    return is_row(r, l) ? ROLE_HELD : ROW_ROLES;
  case NEST_LANES:
    return is_vector(r, l) ? ROLE_LANES : ROW_ROLES;
  case NEST_BLOCK:
    return is_row(r, l) ? ROLE_CHUNKS : is_point ? ROLE_BLOCKS : ROW_ROLES;
  case NEST_THREAD:
    return is_row(r, l)          ? ROLE_GROUP
           : !is_point           ? ROW_ROLES
           : last <= ROLE_POINTS ? ROLE_POINTS
                                 : ROLE_ACROSS;
  case NEST_TASK:
  case NEST_STRIP:
  case NEST_ATOM:
    break;
  }
  return ROW_ROLES;
}

/* The terms of an element: whole axes in their order, and runs of the last. */
static const char *take_inner(RowNest *r, uint32_t at, uint32_t *next_axis) {
  const Nest *n = r->nest;
  const NestLoop *l = &n->loops[at];
  bool is_whole = nest_find(n, l->axis, nest_piece(n, at) + 1) == NO_LOOP;
  bool is_last = l->axis + 1 == n->spec->axis_count;
  if (is_whole && l->axis != (*next_axis)++)
    return nest_loop_reason(n, at,
                            "is a loop of each element of the row, and these "
                            "are in the order of their axes");
  if (nest_piece(n, at) > is_last)
    return nest_loop_reason(n, at,
                            "is tiled: of the loops of each element of the "
                            "row, only the last one has a tile, for `run`");
  if (nest_piece(n, at))
    r->run_elements = l->step;
  return NULL;
}

/* The elements of the row from one iteration to the next.  A flattened loop
 * counts vectors. */
static int64_t element_step(const RowNest *r, const NestLoop *l) {
  return r->axis_count > 1
             ? l->step *
                   nest_flattened_loop(r->nest, r->axes[r->axis_count - 1])
                       ->step
             : l->step;
}

bool nest_has_runs(const Nest *n, uint32_t at) {
  uint32_t inner = nest_inner(n, at);
  return n->loops[at].run == NEST_SERIAL && inner != NO_LOOP &&
         n->loops[inner].run == NEST_SERIAL;
}

static const char *take_loop(RowNest *r, uint32_t at, RowRole role,
                             uint32_t *seen) {
  const Nest *n = r->nest;
  const NestLoop *l = &n->loops[at];
  uint32_t most = 1;
  switch (role) {
  case ROLE_CHUNKS:
    r->chunk = element_step(r, l);
    break;
  case ROLE_ACROSS:
  case ROLE_POINTS:
    r->is_across |= role == ROLE_ACROSS;
    r->points = (uint32_t)l->count;
    break;
  case ROLE_SERIAL:
    if (nest_has_runs(n, at))
      r->run_elements = element_step(r, l);
    most = row_loop_kind(n->spec) == ROW_REDUCE ? 2 : 1;
    break;
  case ROLE_HELD:
    if (!l->is_held)
      return nest_loop_reason(n, at,
                              "is unrolled, and an unrolled row stays in "
                              "registers: write `registers`, or leave it "
                              "serial");
    r->vectors_in_registers = (uint32_t)l->count;
    break;
  case ROLE_GROUP:
    r->group_threads = (uint32_t)l->count;
    break;
  case ROLE_LANES:
    r->vector_width = (uint32_t)l->count;
    break;
  case ROLE_BLOCKS:
  case ROLE_INNER:
  case ROW_ROLES:
    break;
  }
  return ++*seen > most
             ? nest_loop_reason(n, at,
                                role == ROLE_SERIAL
                                    ? "is one serial loop of the row too many: "
                                      "a sum has two, with runs, and others "
                                      "have one"
                                    : "runs as another loop of its axis does")
             : NULL;
}

static const char *read_loops(RowNest *r) {
  static const char *const wanted =
      "is not where the loops of a thread group are: blocks of terms, blocks "
      "and threads of points, then serial loops, threads and lanes of the row";
  const Nest *n = r->nest;
  uint32_t seen[ROW_ROLES] = {0};
  RowRole last = ROLE_CHUNKS;
  uint32_t next_axis = n->spec->spatial_axes;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    RowRole role = role_of(r, &n->loops[j], last);
    if (role == ROW_ROLES || role < last)
      return nest_loop_reason(n, j, wanted);
    const char *error = role == ROLE_INNER ? take_inner(r, j, &next_axis)
                                           : take_loop(r, j, role, &seen[role]);
    if (error)
      return error;
    if ((n->loops[j].is_run || n->loops[j].is_online) && !nest_has_runs(n, j))
      return nest_loop_reason(n, j,
                              "has no serial loop of its axis inside, and "
                              "`run` and `online` need one: tile it again");
    r->has_runs |= n->loops[j].is_run;
    r->is_online |= n->loops[j].is_online;
    r->run_loop = nest_has_runs(n, j) ? j : r->run_loop;
    last = role;
  }
  if (r->point_axis != NO_LOOP && !seen[ROLE_BLOCKS])
    return nest_loop_reason(n, nest_find(n, r->point_axis, 0),
                            "has no thread blocks: write `blocks`");
  if (seen[ROLE_POINTS] && seen[ROLE_ACROSS])
    return nest_loop_reason(n, nest_find(n, r->point_axis, 0),
                            "runs as threads twice");
  return NULL;
}

static const char *check_shared(const Nest *n) {
  return n->shared_axis == NO_LOOP
             ? NULL
             : arena_printf(n->arena,
                            "shared i%u: a pass with sums loads no tiles: "
                            "leave it out",
                            n->names[n->shared_axis]);
}

const char *cuda_row_nest_read(const Nest *n, RowNest *r) {
  uint32_t points[MAX_KERNEL_AXES], first, end;
  const LoopNest *loop = n->spec;
  *r = (RowNest){.nest = n,
                 .point_axis = NO_LOOP,
                 .axis = NO_LOOP,
                 .points = 1,
                 .group_threads = 1,
                 .vector_width = 1};
  const char *error = cuda_nest_loops_refusal(n);
  error = error ? error : check_shared(n);
  if (error)
    return error;
  for (uint32_t v = 0; v < loop->parallel_axes; v++)
    points[v] = v;
  if (loop->parallel_axes)
    r->point_axis = joined_axis(n, loop->parallel_axes, points);
  if (loop->parallel_axes && r->point_axis == NO_LOOP)
    return "the axes of the points are several loops, and thread groups have "
           "one: write `flatten`";
  cuda_row_axes(loop, &first, &end);
  for (uint32_t v = first; v < end; v++)
    r->axes[r->axis_count++] = v;
  if (!r->axis_count)
    return read_loops(r);
  r->axis = joined_axis(n, r->axis_count, r->axes);
  if (r->axis == NO_LOOP)
    return "the axes of the row are several loops, and thread groups share "
           "one: write `flatten`";
  const NestFlattened *f = nest_flattened(n, r->axis);
  for (uint32_t j = 0; f && j < f->count; j++)
    r->axes[j] = f->loops[j].axis;
  return read_loops(r);
}

/* ---- what a GPU cannot run ---- */

typedef struct RowCheck {
  const CudaPass *pass;
  const RowNest *rows; /* by loop nest */
  uint32_t at;         /* loop nest */
} RowCheck;

static const char *refuse(const RowCheck *c, const char *reason) {
  const RowNest *r = &c->rows[c->at];
  const Nest *n = r->nest;
  return nest_loop_reason(
      n, nest_find(n, r->axis_count ? r->axis : r->point_axis, 0), reason);
}

static const char *check_vector(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at];
  uint32_t lanes = nest_lanes(r->nest), max = cuda_max_vector(c->pass->k);
  int64_t left = 1, count = r->vector_width;
  if (lanes == NO_LOOP)
    return NULL;
  if (!int_is_power_of_two(count) || count > max)
    return nest_loop_reason(
        r->nest, lanes,
        arena_printf(r->nest->arena,
                     "has %lld lanes, and vectors have a power of two, here "
                     "at most %u",
                     (long long)count, max));
  if (r->nest->loops[lanes].tail != TAIL_LESS)
    return nest_loop_reason(r->nest, lanes,
                            "has masked lanes, and those of a row divide it: "
                            "leave out `mask`");
  if (row_loop_kind(r->nest->spec) == ROW_PARTIAL_REDUCE)
    return nest_loop_reason(r->nest, lanes,
                            "cannot be lanes: each element of the row has its "
                            "own sum");
  const LoopNest *loop = r->nest->spec;
  if (!extent_floor_mod(loop->graph, loop->extents[r->nest->loops[lanes].axis],
                        count, &left) ||
      left)
    return nest_loop_reason(r->nest, lanes,
                            arena_printf(r->nest->arena,
                                         "has lanes behind the end: %lld does "
                                         "not divide the axis",
                                         (long long)count));
  return NULL;
}

/* Returns true if the loops of the points count them in the same order. */
static bool has_same_points(const RowNest *x, const RowNest *y) {
  const NestFlattened *a = nest_flattened(x->nest, x->point_axis),
                      *b = nest_flattened(y->nest, y->point_axis);
  for (uint32_t j = 0; a && b && j < a->count; j++)
    if (a->loops[j].axis != b->loops[j].axis)
      return false;
  return true;
}

/* All loop nests of a pass have the same threads. */
static const char *check_same(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at], *first = NULL, *vector = NULL;
  for (uint32_t j = 0; j < c->at; j++) {
    first = first || !c->rows[j].axis_count ? first : &c->rows[j];
    vector = vector || !row_shares_elements(c->rows[j].nest->spec)
                 ? vector
                 : &c->rows[j];
  }
  if (r->points != c->rows[0].points)
    return refuse(c, "runs in blocks of another number of points than the "
                     "first loop nest");
  if (!has_same_points(r, &c->rows[0]))
    return nest_loop_reason(r->nest, nest_find(r->nest, r->point_axis, 0),
                            "has the points in another order than the first "
                            "loop nest: flatten the same axes in the same "
                            "order");
  if (!r->axis_count || !first)
    return NULL;
  if (r->is_across != first->is_across)
    return refuse(c, r->is_across
                         ? "has adjacent threads at adjacent points, unlike "
                           "the loop nests before it: order the threads of "
                           "the row innermost"
                         : "has adjacent threads in the row, unlike the loop "
                           "nests before it: order the threads of the points "
                           "innermost");
  if (r->group_threads != first->group_threads)
    return refuse(c, arena_printf(r->nest->arena,
                                  "has groups of other threads than the loop "
                                  "nests before it: %u, not %u",
                                  r->group_threads, first->group_threads));
  if (vector && row_shares_elements(r->nest->spec) &&
      (r->vector_width != vector->vector_width ||
       r->vectors_in_registers != vector->vectors_in_registers))
    return refuse(c, "has other lanes or registers than the loop nests before "
                     "it");
  return NULL;
}

static const char *check_group(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at];
  if (!int_is_power_of_two(r->group_threads))
    return refuse(c, arena_printf(r->nest->arena,
                                  "has groups of %u threads, and their number "
                                  "is a power of two",
                                  r->group_threads));
  if (!int_is_power_of_two(r->points))
    return refuse(c, arena_printf(r->nest->arena,
                                  "has blocks of %u points, and their number "
                                  "is a power of two",
                                  r->points));
  if (r->is_across &&
      (r->group_threads > WARP || r->points % WARP || r->vector_width > 1))
    return refuse(c, "has adjacent threads at adjacent points: these need a "
                     "multiple of 32 points in a block, at most 32 threads "
                     "each, and no lanes");
  return NULL;
}

static const char *check_held(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at];
  if (!r->vectors_in_registers)
    return NULL;
  if (r->is_across || !cuda_can_keep_rows(c->pass->k))
    return refuse(c, "cannot stay in registers: this needs several loop nests "
                     "over rows of constant length");
  uint64_t elements = (uint64_t)r->vectors_in_registers * r->vector_width;
  if (elements > 2 * MAX_ROW_REGISTERS)
    return refuse(c, arena_printf(r->nest->arena,
                                  "has %llu elements per thread, and at most "
                                  "%u stay in registers",
                                  (unsigned long long)elements,
                                  2 * MAX_ROW_REGISTERS));
  double row = loop_axes_hint(r->nest->spec, r->axis_count, r->axes);
  if ((double)elements * r->group_threads < row)
    return refuse(c, arena_printf(r->nest->arena,
                                  "has %.0f elements, and %.0f stay in the "
                                  "registers of its threads",
                                  row, (double)elements * r->group_threads));
  return NULL;
}

/* Returns true if the pass combines partial results of the pass before it. */
static bool reads_partials(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++)
      if (k->loops.at[j]->ops.at[i].kind == KOP_LOAD &&
          k->loops.at[j]->ops.at[i].input >= k->inputs.len)
        return true;
  return false;
}

static bool is_online(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at];
  ExpSumPattern sum;
  return !r->vectors_in_registers && !r->is_across &&
         !reads_partials(c->pass->k) &&
         cuda_match_online(c->pass->k, c->rows, c->at, &sum) &&
         c->rows[sum.max_loop].run_elements == r->run_elements;
}

/* Returns true if the sum of a later loop nest is computed in the runs of this
 * one. */
static bool has_online_sum(const RowCheck *c) {
  ExpSumPattern sum;
  for (uint32_t j = c->at + 1; j < c->pass->k->loops.len; j++)
    if (c->rows[j].is_online &&
        cuda_match_online(c->pass->k, c->rows, j, &sum) &&
        sum.max_loop == c->at)
      return true;
  return false;
}

/* Runs and chunks have whole iterations of the group. */
static const char *check_tiles(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at];
  int64_t each = (int64_t)r->group_threads * r->vector_width;
  if (r->vectors_in_registers && r->run_elements)
    return refuse(c, "stays in registers, and has two serial loops outside: "
                     "leave out a tile");
  if (row_loop_kind(r->nest->spec) == ROW_PARTIAL_REDUCE)
    return NULL;
  if (r->run_elements > INT32_MAX || r->chunk > INT32_MAX)
    return refuse(c, "has tiles of more than 2147483647 elements");
  if (r->run_elements % each || r->chunk % each)
    return refuse(
        c,
        arena_printf(r->nest->arena,
                     "has tiles of %lld elements, and a group loads %lld at "
                     "a time, which do not fill them",
                     (long long)(r->chunk % each ? r->chunk : r->run_elements),
                     (long long)each));
  return NULL;
}

static const char *check_sums(const RowCheck *c) {
  const RowNest *r = &c->rows[c->at];
  if (r->chunk && reads_partials(c->pass->k))
    return refuse(c, "cannot be thread blocks: this pass combines the parts of "
                     "a sum, and has no parts itself");
  if (r->chunk && !cuda_can_split_reduction(c->pass->k))
    return refuse(c, "cannot be thread blocks: only the terms of the only sum "
                     "of a pass can");
  if (r->is_online && !is_online(c))
    return refuse(c, "cannot be summed online: it needs a sum of exponentials "
                     "that are not stored, and before it the maximum of the "
                     "same row in the same loops, without registers");
  if (r->run_elements && !r->has_runs && !r->is_online && !has_online_sum(c))
    return refuse(c, "has two serial loops, and neither a run nor an online "
                     "sum: leave out a tile");
  return NULL;
}

const char *cuda_rows_refusal(const CudaPass *p, const RowNest *rows,
                              uint32_t *loop) {
  const char *error = NULL;
  for (uint32_t j = 0; !error && j < p->k->loops.len; j++) {
    RowCheck c = {p, rows, j};
    *loop = j;
    error = check_vector(&c);
    error = error ? error : check_group(&c);
    error = error ? error : check_same(&c);
    error = error ? error : check_held(&c);
    error = error ? error : check_tiles(&c);
    error = error ? error : check_sums(&c);
  }
  return error;
}
