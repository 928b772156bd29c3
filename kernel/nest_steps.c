/* The steps of a schedule.  Each step is checked before it changes a nest: a
 * kernel is pure, so a step is valid if it is a bijection of the iterations
 * that keeps the order of the terms of each sum, or if it changes this order
 * for an associative reduction in a way that does not depend on the number of
 * threads. */
#include "kernel/nest.h"
#include "support/arena_text.h"

#include <string.h>

typedef struct StepContext {
  Nest *n;
  const NestStep *step;
  uint32_t at; /* the first named loop */
} StepContext;

static const char *refuse(const StepContext *c, const char *reason) {
  return nest_loop_reason(c->n, c->at, reason);
}

static void insert_loop(Nest *n, uint32_t at, NestLoop loop) {
  memmove(&n->loops[at + 1], &n->loops[at],
          (n->loop_count - at) * sizeof *n->loops);
  n->loops[at] = loop;
  n->loop_count++;
}

/* ---- tile ---- */

static const char *tile(StepContext *c) {
  Nest *n = c->n;
  NestLoop *l = &n->loops[c->at];
  int64_t by = c->step->number;
  bool is_jammed = l->run == NEST_TASK && c->step->tail == TAIL_CLAMP;
  if (l->run != NEST_SERIAL && !is_jammed)
    return refuse(c, "is not serial: tile it before it is bound or unrolled");
  if (l->is_run && c->step->tail != TAIL_LESS)
    return refuse(c, "is a run: tile it with `less`");
  if (is_jammed && c->at + 1 < n->loop_count &&
      n->loops[c->at + 1].run == NEST_TASK)
    return refuse(c, "has a task inside: only the last task can be tiled");
  if (c->step->is_argument && c->step->tail != TAIL_LESS)
    return refuse(c, "has a tile whose size is an argument: its tail is less");
  if (by < 1)
    return refuse(c, "needs a tile of at least one iteration");
  if (by > INT32_MAX / l->step)
    return refuse(c, "would have more than 2147483647 iterations in a tile");
  if (n->loop_count == MAX_NEST_LOOPS ||
      nest_find(n, l->axis, MAX_AXIS_PIECES - 1) != NO_LOOP)
    return refuse(c, "has too many pieces already");
  uint32_t outer = nest_find(n, l->axis, nest_piece(n, c->at) + 1);
  bool is_bound = outer == NO_LOOP ? !nest_axis_is_flattened(n, l->axis)
                                   : n->loops[outer].tail == TAIL_LESS;
  if (!is_bound && l->count % by != 0)
    return refuse(c, arena_printf(n->arena,
                                  "has %lld iterations: %lld does not divide "
                                  "them",
                                  (long long)l->count, (long long)by));
  if (c->step->tail == TAIL_CLAMP && nest_axis_is_reduced(n, l->axis))
    return refuse(c, "is summed: clamp would add its last term twice");
  if (c->step->tail == TAIL_SHIFT && nest_axis_is_reduced(n, l->axis))
    return refuse(c, "is summed: shift would add terms twice");
  if (c->step->tail == TAIL_SHIFT &&
      nest_constant_extent(n, l->axis) < by * l->step)
    return refuse(c, "has fewer iterations than a tile, or their number is not "
                     "constant: shift needs a full tile: use less or peel");
  if (c->step->tail == TAIL_SPREAD && by < 2)
    return refuse(c, "needs a tile of at least two iterations: spread takes "
                     "one from the last tiles");
  NestLoop inner = {.axis = l->axis,
                    .step = l->step,
                    .count = by,
                    .tail = l->tail,
                    .is_argument = l->is_argument};
  l->step *= by;
  l->count = (l->count + by - 1) / by;
  l->tail = c->step->tail;
  l->is_argument |= c->step->is_argument;
  insert_loop(n, c->at + 1, inner);
  return NULL;
}

/* ---- order ---- */

static bool is_ordered_term(const Nest *n, uint32_t at) {
  return nest_axis_is_reduced(n, n->loops[at].axis) &&
         !n->loops[at].has_accumulators;
}

static bool is_associative_output(const LoopOutput *r) {
  return r->reduce != PRIM_NONE && r->reduce != PRIM_FOLD;
}

/* Returns true if the terms of all outputs may be taken in another order. */
static bool may_reorder(const LoopNest *spec) {
  for (uint32_t j = 0; j < spec->outputs.len; j++) {
    PrimId reduce = spec->outputs.at[j].reduce;
    if (reduce == PRIM_FOLD || prim_is_arg_reduction(reduce))
      return false;
  }
  return true;
}

/* Returns the reason for which loop x must stay outside of loop y. */
static const char *must_precede(const Nest *n, uint32_t x, uint32_t y) {
  const NestLoop *outer = &n->loops[x], *inner = &n->loops[y];
  if (outer->axis == inner->axis)
    return "is a piece of the same axis, and must stay inside";
  if (outer->run == NEST_TASK)
    return "cannot move outside of tasks";
  if (outer->run == NEST_BLOCK && inner->run != NEST_BLOCK)
    return "cannot move outside of thread blocks";
  if (inner->run == NEST_LANES)
    return "are lanes, which are innermost";
  if (is_ordered_term(n, x) && is_ordered_term(n, y) && !may_reorder(n->spec))
    return "is summed: the order of the terms would change";
  return NULL;
}

static const char *order(StepContext *c) {
  Nest *n = c->n;
  const NestStep *s = c->step;
  uint32_t from[MAX_NEST_LOOPS], to[MAX_NEST_LOOPS], count = 0;
  NestLoop loops[MAX_NEST_LOOPS];
  for (uint32_t j = 0; j < s->piece_count; j++) {
    from[j] = nest_find(n, s->pieces[j].axis, s->pieces[j].piece);
    for (uint32_t i = 0; i < j; i++)
      if (from[i] == from[j]) {
        c->at = from[j];
        return refuse(c, "is named twice");
      }
  }
  for (uint32_t j = 0; j < n->loop_count; j++)
    for (uint32_t i = 0; i < s->piece_count; i++)
      if (from[i] == j)
        to[count++] = j;
  memcpy(loops, n->loops, sizeof loops);
  uint32_t place[MAX_NEST_LOOPS];
  for (uint32_t j = 0; j < n->loop_count; j++)
    place[j] = j;
  for (uint32_t j = 0; j < count; j++)
    place[from[j]] = to[j];
  for (uint32_t x = 0; x < n->loop_count; x++)
    for (uint32_t y = x + 1; y < n->loop_count; y++) {
      const char *reason = place[x] > place[y] ? must_precede(n, x, y) : NULL;
      if (reason) {
        c->at = y;
        return refuse(c, reason);
      }
    }
  for (uint32_t j = 0; j < n->loop_count; j++)
    n->loops[place[j]] = loops[j];
  return NULL;
}

/* ---- how a loop runs ---- */

/* The number of iterations of a loop, if it is constant; otherwise 0.  A
 * vector behind the end of the axis is masked. */
static int64_t constant_count(const Nest *n, uint32_t at) {
  const NestLoop *l = &n->loops[at];
  int64_t extent = nest_constant_extent(n, l->axis);
  if (l->count || (nest_piece(n, at) && l->tail != TAIL_MASK))
    return nest_fixed_count(n, at);
  return (extent + l->step - 1) / l->step;
}

static const char *unroll(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  int64_t count = constant_count(c->n, c->at);
  if (l->run != NEST_SERIAL)
    return refuse(c, "is not serial");
  if (l->is_run)
    return refuse(c, "is a run, which stays serial");
  if (!count)
    return refuse(c, "has no constant number of iterations: tile it");
  l->count = count;
  l->run = NEST_UNROLL;
  return NULL;
}

/* Returns true if the terms of all outputs may be added in another order. */
static bool is_associative(const LoopNest *spec) {
  for (uint32_t j = 0; j < spec->outputs.len; j++)
    if (!is_associative_output(&spec->outputs.at[j]))
      return false;
  return true;
}

static const char *tasks(StepContext *c) {
  Nest *n = c->n;
  NestLoop *l = &n->loops[c->at];
  if (l->run != NEST_SERIAL)
    return refuse(c, "is not serial");
  if (l->is_run)
    return refuse(c, "is a run, which stays serial");
  for (uint32_t j = 0; j < c->at; j++)
    if (n->loops[j].run != NEST_TASK)
      return refuse(c, "is inside of a loop that is no task");
  if (nest_axis_is_reduced(n, l->axis) &&
      (!nest_piece(n, c->at) || !is_associative(n->spec)))
    return refuse(c, "is summed: tasks may have parts of it, after a tile, if "
                     "the reduction is associative");
  l->run = NEST_TASK;
  return NULL;
}

/* The reductions along strips must have states, so that they continue. */
static const char *strips(StepContext *c) {
  Nest *n = c->n;
  NestLoop *l = &n->loops[c->at];
  if (l->run != NEST_SERIAL || !nest_piece(n, c->at))
    return refuse(c, "is no serial loop over tiles: tile it first");
  if (!n->spec->strip_mined || n->spec->trimmed_axis != l->axis)
    return refuse(c, "is not the axis that the loop nests of this kernel share "
                     "in an online reduction");
  for (uint32_t j = 0; j < c->at; j++)
    if (n->loops[j].run != NEST_TASK)
      return refuse(c, "is inside of a loop that is no task");
  l->run = NEST_STRIP;
  return NULL;
}

static const char *lanes(StepContext *c) {
  Nest *n = c->n;
  NestLoop *l = &n->loops[c->at];
  if (l->run != NEST_SERIAL || !nest_fixed_count(n, c->at) ||
      nest_piece(n, c->at))
    return refuse(c, "has no constant number of lanes: tile it, and bind the "
                     "innermost piece");
  if (c->step->tail != TAIL_LESS && c->step->tail != TAIL_MASK)
    return refuse(c, "are lanes, whose tail is less or mask");
  if (nest_lanes(n) != NO_LOOP)
    return refuse(c, "cannot be lanes: another loop is");
  if (loop_has_states(n->spec) && nest_axis_is_reduced(n, l->axis))
    return refuse(c, "cannot be lanes: each iteration needs the state before");
  if (c->at + 1 != n->loop_count)
    return refuse(c, "is not the innermost loop: order it first");
  l->run = NEST_LANES;
  l->tail = c->step->tail;
  return NULL;
}

/* ---- threads of GPUs ---- */

static const char *blocks(StepContext *c) {
  Nest *n = c->n;
  NestLoop *l = &n->loops[c->at];
  if (l->run != NEST_SERIAL)
    return refuse(c, "is not serial");
  for (uint32_t j = 0; j < c->at; j++)
    if (n->loops[j].run != NEST_BLOCK)
      return refuse(c, "is inside of a loop that is no thread block");
  if (nest_axis_is_reduced(n, l->axis) &&
      (!nest_piece(n, c->at) || !is_associative(n->spec)))
    return refuse(c, "is summed: thread blocks may have parts of it, after a "
                     "tile, if the reduction is associative");
  l->run = NEST_BLOCK;
  return NULL;
}

static const char *threads(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  int64_t count = constant_count(c->n, c->at);
  if (l->run != NEST_SERIAL)
    return refuse(c, "is not serial");
  if (!count)
    return refuse(c, "has no constant number of threads: tile it");
  if (nest_axis_is_reduced(c->n, l->axis) && loop_has_states(c->n->spec))
    return refuse(c,
                  "cannot be threads: each iteration needs the state before");
  l->count = count;
  l->run = NEST_THREAD;
  return NULL;
}

/* Returns the reason for which a loop cannot be flattened after loop `before`;
 * NO_LOOP: it is the first one. */
static const char *cannot_flatten(const Nest *n, uint32_t at, uint32_t before) {
  const NestLoop *l = &n->loops[at];
  if (l->run != NEST_SERIAL)
    return "is not serial";
  if (nest_flattened(n, l->axis))
    return "cannot be flattened: a step has made an axis already";
  if (before != NO_LOOP && nest_axis_is_reduced(n, l->axis) !=
                               nest_axis_is_reduced(n, n->loops[before].axis))
    return "is summed, and the loop before it is not";
  bool is_inner = nest_find(n, l->axis, nest_piece(n, at) + 1) != NO_LOOP;
  if (is_inner && (before != NO_LOOP || nest_piece(n, at)))
    return "is inside of a loop of the same axis: flatten outermost pieces";
  if (before != NO_LOOP && at != before + 1)
    return "does not follow the loop that is named before it: order them "
           "first";
  return NULL;
}

static const char *flatten(StepContext *c) {
  Nest *n = c->n;
  const NestStep *s = c->step;
  uint32_t first = c->at, last = NO_LOOP, at = 0;
  while (at < MAX_FLATTENED && n->flat[at].axis != NO_LOOP)
    at++;
  NestFlattened f = {.axis = n->spec->axis_count + at};
  if (at == MAX_FLATTENED || n->stream.row_axis != NO_LOOP)
    return refuse(c, "cannot be flattened: a step has made an axis already");
  if (s->piece_count == 1)
    return refuse(c, "is one loop: name several");
  for (uint32_t j = 0; j < s->piece_count; j++) {
    c->at = nest_find(n, s->pieces[j].axis, s->pieces[j].piece);
    const char *reason = cannot_flatten(n, c->at, last);
    if (reason)
      return refuse(c, reason);
    last = c->at;
    f.loops[f.count++] = n->loops[last];
  }
  n->loops[first] = (NestLoop){.axis = f.axis, .step = 1};
  memmove(&n->loops[first + 1], &n->loops[last + 1],
          (n->loop_count - last - 1) * sizeof *n->loops);
  n->loop_count -= last - first;
  n->flat[at] = f;
  return NULL;
}

static const char *shuffle(StepContext *c) {
  Nest *n = c->n;
  if (nest_shuffled(n) != NO_LOOP)
    return refuse(c, "cannot load shuffled operands: another loop does, or it "
                     "does already");
  n->loops[c->at].shuffles = true;
  return NULL;
}

static const char *shared(StepContext *c) {
  Nest *n = c->n;
  if (n->shared_axis != NO_LOOP)
    return refuse(c, "cannot have tiles in shared memory: another axis has");
  if (n->loops[c->at].axis >= n->spec->spatial_axes)
    return refuse(c, "is no axis of the results");
  n->shared_axis = n->loops[c->at].axis;
  return NULL;
}

/* ---- stores ---- */

static const char *interleave(StepContext *c) {
  Nest *n = c->n;
  const NestLoop *l = &n->loops[c->at];
  if (n->interleaved_axis != NO_LOOP)
    return refuse(c,
                  "cannot be interleaved: another loop is, or it is already");
  if (nest_axis_is_reduced(n, l->axis))
    return refuse(c, "is summed: only iterations that store elements can be "
                     "interleaved");
  if (l->run != NEST_UNROLL || nest_piece(n, c->at) ||
      n->spec->extents[l->axis] != l->count)
    return refuse(c, "is not a whole axis that is unrolled: unroll all its "
                     "iterations");
  if (l->count < 2 || l->count > MAX_INTERLEAVED)
    return refuse(c, arena_printf(n->arena,
                                  "has %lld iterations, and 2 to %d can be "
                                  "interleaved",
                                  (long long)l->count, MAX_INTERLEAVED));
  n->interleaved_axis = l->axis;
  return NULL;
}

static const char *transpose(StepContext *c) {
  Nest *n = c->n;
  const NestLoop *l = &n->loops[c->at];
  if (n->transposed_axis != NO_LOOP)
    return refuse(c, "cannot be transposed: another loop is, or it is already");
  if (nest_accumulator_depth(n) < n->loop_count)
    return refuse(c, "cannot be transposed: this loop nest has sums, and only "
                     "vectors that are stored can be");
  if (l->run != NEST_UNROLL || nest_piece(n, c->at))
    return refuse(c, "is not unrolled, or is tiled: transpose the innermost "
                     "piece, and unroll it first");
  n->transposed_axis = l->axis;
  return NULL;
}

/* ---- products ---- */

static const char *atom(StepContext *c) {
  Nest *n = c->n;
  if (c->step->piece_count != 3)
    return refuse(c, "belongs to no register tile: name three loops: rows, "
                     "columns and terms");
  for (uint32_t j = 0; j < 3; j++) {
    c->at = nest_find(n, c->step->pieces[j].axis, c->step->pieces[j].piece);
    NestLoop *l = &n->loops[c->at];
    if (l->run != NEST_SERIAL)
      return refuse(c, "is not serial");
    if (nest_axis_is_reduced(n, l->axis) != (j == 2))
      return refuse(c, j == 2 ? "is not summed: name rows, columns and terms"
                              : "is summed: name rows, columns and terms");
    int64_t count = constant_count(n, c->at);
    if (!count && j < 2)
      return refuse(c, "has no constant number of iterations: tile it");
    l->count = j < 2 ? count : l->count;
    l->run = NEST_ATOM;
  }
  return NULL;
}

static const char *pack(StepContext *c) {
  Nest *n = c->n;
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].packs[c->step->number])
      return refuse(c, "cannot pack this operand: another loop does, or it "
                       "does already");
  n->loops[c->at].packs[c->step->number] = true;
  return NULL;
}

static const char *finish(StepContext *c) {
  Nest *n = c->n;
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].finishes)
      return refuse(c, "cannot finish results: another loop does, or it does "
                       "already");
  n->loops[c->at].finishes = true;
  return NULL;
}

/* ---- sums ---- */

static const char *parts(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  if (!nest_axis_is_reduced(c->n, l->axis))
    return refuse(c, "is not summed");
  if (!nest_fixed_count(c->n, c->at) || l->run == NEST_TASK ||
      l->run == NEST_LANES)
    return refuse(c, "has no constant number of iterations: tile it");
  if (!is_associative(c->n->spec))
    return refuse(c, "belongs to a loop that also stores each element");
  l->has_accumulators = true;
  return NULL;
}

static const char *run(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  if (!nest_axis_is_reduced(c->n, l->axis))
    return refuse(c, "is not summed");
  if (l->run != NEST_SERIAL)
    return refuse(c, "is not serial");
  if (nest_inner(c->n, c->at) == NO_LOOP || l->tail != TAIL_LESS)
    return refuse(c, "is not a piece with shorter last iterations: write "
                     "`tile A n less` first");
  l->is_run = true;
  return NULL;
}

/* The rest of the row is in the same registers of the same threads for all loop
 * nests. */
static const char *registers(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  if (l->run != NEST_UNROLL)
    return refuse(c, "is not unrolled, and only elements of unrolled "
                     "iterations can be in registers");
  l->is_held = true;
  return NULL;
}

static const char *online(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  if (!nest_axis_is_reduced(c->n, l->axis) || l->run != NEST_SERIAL ||
      nest_inner(c->n, c->at) == NO_LOOP)
    return refuse(c, "is no serial loop over tiles of a sum: tile it first");
  l->is_online = true;
  return NULL;
}

static const char *poll(StepContext *c) {
  NestLoop *l = &c->n->loops[c->at];
  if (!loop_has_states(c->n->spec) || !nest_axis_is_reduced(c->n, l->axis))
    return refuse(c, "is no loop over the iterations of a recurrence");
  if (l->run != NEST_SERIAL || nest_inner(c->n, c->at) == NO_LOOP ||
      l->tail != TAIL_LESS)
    return refuse(c, "would test for an interrupt in each iteration: write "
                     "`tile A n less` first, and poll the outer piece");
  l->polls = true;
  return NULL;
}

/* ---- windows ---- */

/* Finds the ratio of the coefficients of two axes, which must be the same in
 * all expressions with both.  Returns false if there is none. */
static bool find_stride_ratio(const LoopNest *spec, NestStream *s) {
  for (uint32_t j = 0; j < spec->floor_div_count; j++)
    if (spec->floor_divs[j].dividend.coef[s->row_axis] ||
        spec->floor_divs[j].dividend.coef[s->term_axis])
      return false;
  for (uint32_t j = 0; j < spec->ops.len; j++) {
    const AffineExpr *q = kernel_op_affine(&spec->ops.at[j]);
    if (!q || !q->coef[s->row_axis] || !q->coef[s->term_axis])
      continue;
    int64_t x = q->coef[s->row_axis], y = q->coef[s->term_axis];
    if (s->row_stride ? !affine_has_coef_ratio(spec->graph, x, y, s->row_stride,
                                               s->term_stride)
                      : !affine_coef_ratio(spec->graph, x, y, &s->row_stride,
                                           &s->term_stride))
      return false;
  }
  if (s->row_stride < 0) { /* the row has a positive coefficient */
    s->row_stride = -s->row_stride;
    s->term_stride = -s->term_stride;
  }
  return s->row_stride != 0;
}

bool nest_find_stream(const LoopNest *spec, uint32_t row_axis,
                      uint32_t term_axis, NestStream *s) {
  *s = (NestStream){row_axis, term_axis, spec->axis_count, 0, 0};
  if (spec->axis_count == MAX_KERNEL_AXES ||
      !extent_is_static(spec->graph, spec->extents[term_axis]) ||
      !find_stride_ratio(spec, s))
    return false;
  int64_t stride = s->term_stride < 0 ? -s->term_stride : s->term_stride;
  return stride * (spec->extents[term_axis] - 1) >= s->row_stride;
}

static const char *stream(StepContext *c) {
  Nest *n = c->n;
  NestLoop *rows = &n->loops[c->at];
  uint32_t second = nest_find(n, c->step->pieces[1].axis, 0);
  NestStream s;
  if (n->stream.row_axis != NO_LOOP)
    return refuse(c, "cannot share input rows: another loop does");
  if (n->flat->axis != NO_LOOP)
    return refuse(c, "cannot share input rows: there are flattened loops");
  if (second < c->at || rows->run != NEST_UNROLL ||
      nest_axis_is_reduced(n, rows->axis))
    return refuse(c, "must be rows that are unrolled, outside of the terms");
  if (nest_piece(n, second) ||
      nest_find(n, n->loops[second].axis, 1) != NO_LOOP)
    return refuse(c, "needs terms that are not tiled");
  if (!nest_find_stream(n->spec, rows->axis, n->loops[second].axis, &s))
    return refuse(c, "reads no windows that overlap along the terms");
  n->stream = s;
  n->loops[second] =
      (NestLoop){.axis = s.input_axis,
                 .step = 1,
                 .count = stream_input_rows(n->spec, &s, rows->count),
                 .run = NEST_UNROLL};
  /* The rows are inside of their input rows. */
  NestLoop moved = *rows;
  uint32_t last = second;
  while (last + 1 < n->loop_count &&
         nest_axis_is_reduced(n, n->loops[last + 1].axis))
    last++;
  memmove(&n->loops[c->at], &n->loops[c->at + 1],
          (last - c->at) * sizeof moved);
  n->loops[last] = moved;
  return NULL;
}

static const char *set_flag(StepContext *c) {
  Nest *n = c->n;
  switch (c->step->kind) {
  case STEP_BROADCAST:
    n->loads_broadcasts = true;
    return n->stream.row_axis == NO_LOOP
               ? "broadcast: no rows share their terms: stream comes first"
               : NULL;
  case STEP_MASKED:
    n->loads_masked = true;
    return n->stream.row_axis == NO_LOOP
               ? "masked: no rows share input rows: stream comes first"
               : NULL;
  case STEP_FMA:
    n->fuses_products = true;
    return nest_sums_products(n->spec)
               ? NULL
               : "fma: the sum is no sum of products of f32 or f64";
  case STEP_EPILOGUE:
    n->has_epilogue = true;
    return nest_accumulator_depth(n) == n->loop_count
               ? "epilogue: nothing is reduced"
               : NULL;
  case STEP_TILE:
  case STEP_ORDER:
  case STEP_UNROLL:
  case STEP_TASKS:
  case STEP_STRIPS:
  case STEP_LANES:
  case STEP_PARTS:
  case STEP_RUN:
  case STEP_POLL:
  case STEP_STREAM:
  case STEP_FLATTEN:
  case STEP_BLOCKS:
  case STEP_THREADS:
  case STEP_SHARED:
  case STEP_INTERLEAVE:
  case STEP_SHUFFLE:
  case STEP_TRANSPOSE:
  case STEP_ATOM:
  case STEP_PACK:
  case STEP_FINISH:
  case STEP_REGISTERS:
  case STEP_ONLINE:
  case NEST_STEP_COUNT:
    break;
  }
  return NULL;
}

bool nest_sums_products(const LoopNest *spec) {
  const LoopOutput *r = &spec->outputs.at[0];
  const KernelOp *s = &spec->ops.at[r->value_op];
  if (spec->outputs.len != 1 || r->reduce != PRIM_SUM || s->kind != KOP_MAP ||
      s->op != PRIM_MUL || (s->dtype != DT_F32 && s->dtype != DT_F64))
    return false;
  for (uint32_t j = 0; j < spec->ops.len; j++)
    for (uint32_t a = 0; a < spec->ops.at[j].arg_count; a++)
      if (spec->ops.at[j].args[a] == r->value_op)
        return false;
  return true;
}

/* ---- application ---- */

void nest_step_add(NestStep *s, uint32_t axis, uint32_t piece) {
  s->pieces[s->piece_count++] = (NestPiece){axis, piece};
}

typedef const char *StepFunction(StepContext *c);

static StepFunction *const functions[NEST_STEP_COUNT] = {
    [STEP_TILE] = tile,
    [STEP_ORDER] = order,
    [STEP_UNROLL] = unroll,
    [STEP_TASKS] = tasks,
    [STEP_STRIPS] = strips,
    [STEP_LANES] = lanes,
    [STEP_PARTS] = parts,
    [STEP_RUN] = run,
    [STEP_POLL] = poll,
    [STEP_STREAM] = stream,
    [STEP_BROADCAST] = set_flag,
    [STEP_MASKED] = set_flag,
    [STEP_FMA] = set_flag,
    [STEP_EPILOGUE] = set_flag,
    [STEP_FLATTEN] = flatten,
    [STEP_BLOCKS] = blocks,
    [STEP_THREADS] = threads,
    [STEP_SHARED] = shared,
    [STEP_INTERLEAVE] = interleave,
    [STEP_SHUFFLE] = shuffle,
    [STEP_TRANSPOSE] = transpose,
    [STEP_ATOM] = atom,
    [STEP_PACK] = pack,
    [STEP_FINISH] = finish,
    [STEP_REGISTERS] = registers,
    [STEP_ONLINE] = online,
};

const char *nest_apply(Nest *n, const NestStep *step) {
  StepContext c = {n, step, 0};
  for (uint32_t j = step->piece_count; j-- > 0;) {
    const NestPiece *p = &step->pieces[j];
    if (p->axis >= MAX_NEST_AXES)
      return "a step names no axis";
    c.at = nest_find(n, p->axis, p->piece);
    if (c.at == NO_LOOP)
      return arena_printf(n->arena,
                          nest_axis_is_flattened(n, p->axis)
                              ? "i%u.%u does not exist: its loop was flattened"
                              : "i%u.%u does not exist",
                          n->names[p->axis], p->piece);
  }
  Nest before = *n;
  const char *reason = functions[step->kind](&c);
  if (!reason)
    reason = nest_verify(n);
  if (reason)
    *n = before;
  else
    VEC_PUSH(n->arena, n->steps, *step);
  return reason;
}
