/* Loop nests as a schedule arranges them: queries. */
#include "kernel/nest.h"
#include "support/arena.h"
#include "support/arena_text.h"

Nest *nest_new(Arena *arena, LoopNest *spec, const uint8_t *names) {
  Nest *n = NEW(arena, Nest);
  n->arena = arena;
  n->spec = spec;
  n->stream = (NestStream){NO_LOOP, NO_LOOP, NO_LOOP, 0, 0};
  n->shared_axis = n->interleaved_axis = NO_LOOP;
  for (uint32_t j = 0; j < MAX_FLATTENED; j++)
    n->flat[j].axis = NO_LOOP;
  n->transposed_axis = NO_LOOP;
  n->loop_count = spec->axis_count;
  for (uint32_t v = 0; v < MAX_NEST_AXES; v++)
    n->names[v] = (uint8_t)(names && v < spec->axis_count ? names[v] : v);
  for (uint32_t v = 0; v < spec->axis_count; v++)
    n->loops[n->names[v]] = (NestLoop){.axis = v, .step = 1};
  return n;
}

Nest *nest_after(const Nest *n, uint32_t steps) {
  Nest *to = nest_new(n->arena, n->spec, n->names);
  for (uint32_t j = 0; j < n->steps.len && j < n->task_steps + steps; j++)
    nest_apply(to, &n->steps.at[j]);
  return to;
}

uint32_t nest_inner(const Nest *n, uint32_t at) {
  for (uint32_t j = at + 1; j < n->loop_count; j++)
    if (n->loops[j].axis == n->loops[at].axis)
      return j;
  return NO_LOOP;
}

uint32_t nest_piece(const Nest *n, uint32_t at) {
  uint32_t piece = 0;
  while ((at = nest_inner(n, at)) != NO_LOOP)
    piece++;
  return piece;
}

const char *nest_loop_reason(const Nest *n, uint32_t at, const char *reason) {
  uint32_t piece = nest_piece(n, at), name = n->names[n->loops[at].axis];
  return piece ? arena_printf(n->arena, "i%u.%u %s", name, piece, reason)
               : arena_printf(n->arena, "i%u %s", name, reason);
}

uint32_t nest_find(const Nest *n, uint32_t axis, uint32_t piece) {
  for (uint32_t j = n->loop_count; j-- > 0;)
    if (n->loops[j].axis == axis && piece-- == 0)
      return j;
  return NO_LOOP;
}

int64_t nest_fixed_count(const Nest *n, uint32_t at) {
  uint32_t outer = nest_find(n, n->loops[at].axis, nest_piece(n, at) + 1);
  return outer != NO_LOOP && n->loops[outer].is_argument ? 0
                                                         : n->loops[at].count;
}

uint32_t nest_lanes(const Nest *n) {
  for (uint32_t j = n->loop_count; j-- > 0;)
    if (n->loops[j].run == NEST_LANES)
      return j;
  return NO_LOOP;
}

uint32_t nest_atom(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].run == NEST_ATOM)
      return j;
  return NO_LOOP;
}

uint32_t nest_shuffled(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].shuffles)
      return j;
  return NO_LOOP;
}

uint32_t nest_interleaved(const Nest *n) {
  return n->interleaved_axis == NO_LOOP ? NO_LOOP
                                        : nest_find(n, n->interleaved_axis, 0);
}

uint32_t nest_transposed(const Nest *n) {
  return n->transposed_axis == NO_LOOP ? NO_LOOP
                                       : nest_find(n, n->transposed_axis, 0);
}

bool nest_axis_is_reduced(const Nest *n, uint32_t axis) {
  const NestFlattened *f = nest_flattened(n, axis);
  return (f ? f->loops[0].axis : axis) >= n->spec->spatial_axes;
}

const NestFlattened *nest_flattened(const Nest *n, uint32_t axis) {
  for (uint32_t j = 0; j < MAX_FLATTENED; j++)
    if (axis != NO_LOOP && n->flat[j].axis == axis)
      return &n->flat[j];
  return NULL;
}

const NestLoop *nest_flattened_loop(const Nest *n, uint32_t axis) {
  for (uint32_t j = 0; j < MAX_FLATTENED; j++)
    for (uint32_t i = 0; i < n->flat[j].count; i++)
      if (n->flat[j].loops[i].axis == axis)
        return &n->flat[j].loops[i];
  return NULL;
}

bool nest_axis_is_flattened(const Nest *n, uint32_t axis) {
  return nest_flattened_loop(n, axis) != NULL;
}

/* The number of iterations of a flattened loop, if it is a number in the code;
 * otherwise 0. */
static int64_t flattened_count(const Nest *n, const NestLoop *l) {
  uint32_t outer = nest_find(n, l->axis, 0);
  if (l->count)
    return outer != NO_LOOP && n->loops[outer].is_argument ? 0 : l->count;
  return l->step == 1 ? nest_constant_extent(n, l->axis) : 0;
}

int64_t nest_constant_extent(const Nest *n, uint32_t axis) {
  int64_t all = 1;
  if (axis < n->spec->axis_count)
    return extent_is_static(n->spec->graph, n->spec->extents[axis])
               ? n->spec->extents[axis]
               : 0;
  const NestFlattened *f = nest_flattened(n, axis);
  for (uint32_t j = 0; f && j < f->count; j++) {
    int64_t count = flattened_count(n, &f->loops[j]);
    if (count > INT32_MAX / all)
      return 0;
    all *= count;
    if (!all)
      return 0;
  }
  return f ? all : 0;
}

static bool reduces(const LoopNest *spec) {
  for (uint32_t j = 0; j < spec->outputs.len; j++)
    if (spec->outputs.at[j].reduce != PRIM_NONE)
      return true;
  return false;
}

bool nest_runs_outside(const Nest *n, uint32_t at) {
  NestRun run = n->loops[at].run;
  return run == NEST_TASK || run == NEST_STRIP;
}

/* Returns true if the masked vectors of loop `at` are a row, or tiles of it of
 * which only the last one has masks. */
static bool unrolls_row(const Nest *n, uint32_t at) {
  const NestLoop *l = &n->loops[at];
  uint32_t outer = nest_find(n, l->axis, nest_piece(n, at) + 1);
  return l->run == NEST_UNROLL && l->tail == TAIL_MASK &&
         nest_inner(n, at) != NO_LOOP &&
         (outer == NO_LOOP ||
          (n->loops[outer].run == NEST_SERIAL &&
           n->loops[outer].tail == TAIL_LESS && n->stream.row_axis == NO_LOOP));
}

bool nest_unrolls_rows(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (unrolls_row(n, j))
      return true;
  return false;
}

uint32_t nest_accumulator_depth(const Nest *n) {
  uint32_t depth = 0;
  if (!reduces(n->spec) || nest_atom(n) != NO_LOOP) /* the atom has the sums */
    return n->loop_count;
  while (depth < n->loop_count &&
         (nest_runs_outside(n, depth) || n->loops[depth].run == NEST_BLOCK ||
          !nest_axis_is_reduced(n, n->loops[depth].axis)))
    depth++;
  return depth;
}

bool nest_indexes_accumulators(const Nest *n, uint32_t at) {
  const NestLoop *l = &n->loops[at];
  return at >= nest_accumulator_depth(n) && l->run != NEST_LANES &&
         l->run != NEST_THREAD &&
         (l->has_accumulators || !nest_axis_is_reduced(n, l->axis));
}

int64_t nest_accumulators(const Nest *n) {
  int64_t count = 1;
  for (uint32_t j = nest_accumulator_depth(n); j < n->loop_count; j++)
    if (nest_indexes_accumulators(n, j))
      count *= n->loops[j].count;
  return count;
}

int64_t stream_input_rows(const LoopNest *spec, const NestStream *s,
                          int64_t rows) {
  int64_t stride = s->term_stride < 0 ? -s->term_stride : s->term_stride;
  return s->row_stride * (rows - 1) +
         stride * (spec->extents[s->term_axis] - 1) + 1;
}

uint32_t nest_clamped(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].tail == TAIL_CLAMP)
      return nest_inner(n, j);
  return NO_LOOP;
}

uint32_t nest_jammed_rows(const Nest *n) {
  uint32_t clamped = nest_clamped(n);
  return clamped == NO_LOOP ? 0 : (uint32_t)n->loops[clamped].count;
}
