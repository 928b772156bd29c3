/* Checks of nests. */
#include "kernel/nest.h"
#include "kernel/verify.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every axis has a loop, is flattened, or is the terms axis of a stream. */
static const char *check_axes(const Nest *n) {
  for (uint32_t v = 0; v < n->spec->axis_count; v++)
    if (nest_find(n, v, 0) == NO_LOOP && v != n->stream.term_axis &&
        !nest_axis_is_flattened(n, v))
      return arena_printf(n->arena, "axis i%u has no loop", n->names[v]);
  return NULL;
}

/* The pieces of an axis: each step is that of the next piece times its count,
 * and the innermost one is 1.  The last iteration of the next piece may be
 * partial if the outer one runs less. */
static const char *check_pieces(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    uint32_t inner = nest_inner(n, j);
    const NestLoop *next =
        inner == NO_LOOP ? nest_flattened_loop(n, l->axis) : &n->loops[inner];
    bool has_part = next && (inner != NO_LOOP || next->count);
    int64_t part = has_part ? next->step : 1;
    int64_t step = has_part ? part * next->count : 1;
    if (l->step > step ||
        (l->tail == TAIL_LESS ? l->step + part <= step : l->step != step))
      return arena_printf(n->arena, "loop %u: step %lld, not %lld", j,
                          (long long)l->step, (long long)step);
  }
  return NULL;
}

/* Each iteration of a flattened loop runs all inner pieces of its axis.  A tile
 * has none. */
static const char *check_flattened(const Nest *n, const NestFlattened *f) {
  for (uint32_t j = 0; j < f->count; j++) {
    const NestLoop *l = &f->loops[j];
    uint32_t inner = 0;
    while (inner < n->loop_count && n->loops[inner].axis != l->axis)
      inner++;
    int64_t step = inner == n->loop_count || l->count
                       ? 1
                       : n->loops[inner].step * n->loops[inner].count;
    if (l->step != step)
      return arena_printf(n->arena, "flattened i%u: step %lld, not %lld",
                          n->names[l->axis], (long long)l->step,
                          (long long)step);
  }
  return NULL;
}

/* The sums of a strip continue in the next one. */
static const char *check_strips(const Nest *n) {
  const LoopNest *spec = n->spec;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    if (n->loops[j].run != NEST_STRIP)
      continue;
    if (!spec->strip_mined || spec->trimmed_axis != n->loops[j].axis)
      return arena_printf(n->arena, "loop %u: strips of an axis without them",
                          j);
    if (j && n->loops[j - 1].run != NEST_TASK)
      return arena_printf(n->arena, "loop %u: strips inside of a loop", j);
    for (uint32_t i = 0; i < spec->outputs.len; i++)
      if (nest_axis_is_reduced(n, n->loops[j].axis) &&
          spec->outputs.at[i].reduce != PRIM_NONE &&
          !spec->outputs.at[i].updates)
        return arena_printf(
            n->arena, "loop %u: output %u has no state for its strips", j, i);
  }
  return NULL;
}

/* Inside of the loop that loads shuffled operands, all iterations are written
 * out, and the lanes are those of the flattened loop. */
static const char *check_shuffled(const Nest *n) {
  uint32_t at = nest_shuffled(n), lanes = nest_lanes(n);
  if (at == NO_LOOP)
    return NULL;
  const NestLoop *l = &n->loops[at];
  if (n->flat->axis == NO_LOOP || lanes == NO_LOOP ||
      n->loops[lanes].axis != n->flat->axis ||
      nest_axis_is_reduced(n, n->flat->axis) ||
      !nest_constant_extent(n, n->flat->axis))
    return nest_loop_reason(n, at,
                            "cannot load shuffled operands: flatten loops of "
                            "constant numbers of iterations, and make the "
                            "lanes of the flattened loop");
  if (l->run != NEST_SERIAL || nest_axis_is_reduced(n, l->axis) ||
      nest_inner(n, at) != NO_LOOP || l->axis == n->flat->axis)
    return nest_loop_reason(n, at,
                            "cannot load shuffled operands: it must be serial, "
                            "and neither tiled nor summed nor flattened");
  for (uint32_t j = at + 1; j < lanes; j++)
    if (n->loops[j].run != NEST_UNROLL)
      return nest_loop_reason(n, j,
                              "must be unrolled: it is inside of the loop that "
                              "loads shuffled operands");
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (j < at && (n->loops[j].axis == n->flat->axis ||
                   nest_axis_is_reduced(n, n->loops[j].axis)))
      return nest_loop_reason(n, at,
                              "cannot load shuffled operands: order it outside "
                              "of the terms and of the flattened loop");
  return NULL;
}

/* A tile begins earlier within its axis: no loop outside has a part of it. */
static const char *check_shifted(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    bool is_outermost = nest_find(n, l->axis, nest_piece(n, j) + 1) == NO_LOOP;
    if (nest_inner(n, j) != NO_LOOP && l->tail == TAIL_SHIFT &&
        (!is_outermost || l->run != NEST_SERIAL))
      return nest_loop_reason(n, j,
                              "has tail shift: it must be serial, and the "
                              "outermost loop of its axis");
  }
  return NULL;
}

/* The inner piece of tiles of two sizes has single iterations. */
static const char *check_spread(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    uint32_t inner = nest_inner(n, j);
    bool has_iterations = inner != NO_LOOP && nest_inner(n, inner) == NO_LOOP &&
                          n->loops[inner].run != NEST_LANES;
    if (l->tail == TAIL_SPREAD && (l->run != NEST_SERIAL || !has_iterations))
      return nest_loop_reason(n, j,
                              "has tail spread: it must be serial, and its "
                              "inner piece neither tiled nor lanes nor "
                              "flattened");
  }
  return NULL;
}

/* The axes of the operands of a product.  Returns false if the columns `n_axis`
 * belong to no operand, or to all. */
static bool find_operand_axes(const Nest *n, uint32_t n_axis,
                              uint64_t axes[NEST_OPERAND_COUNT]) {
  ContractionPattern p;
  uint32_t m, with_n;
  if (n_axis >= n->spec->spatial_axes ||
      !contraction_match_any_size(n->arena, n->spec, &p) ||
      !contraction_operand_sides(n->spec, &p, n_axis, &m, &with_n) || !with_n)
    return false;
  axes[NEST_LEFT] = axes[NEST_RIGHT] = 0;
  for (uint32_t j = 0; j < p.factor_count; j++)
    axes[with_n >> j & 1 ? NEST_RIGHT : NEST_LEFT] |= p.op_vars[p.factors[j]];
  return true;
}

/* An operand is packed for the rows or columns and the terms of the loops
 * inside, and for one index of each other axis that it has. */
static const char *check_packed(const Nest *n, uint32_t at, uint64_t axes) {
  for (uint32_t j = at + 1; j < nest_atom(n); j++) {
    uint32_t v = n->loops[j].axis;
    bool is_of_tile = false;
    for (uint32_t i = nest_atom(n); i < n->loop_count; i++)
      is_of_tile |= n->loops[i].axis == v;
    if (!is_of_tile && axes >> v & 1)
      return nest_loop_reason(n, j,
                              "is inside of the loop that packs an operand, "
                              "which has one index of it: order it outside");
  }
  return NULL;
}

/* Returns true if the rows of a register tile belong to the left operand only.
 * They may be a flattened loop. */
static bool has_rows(const Nest *n, uint32_t at, uint64_t right) {
  uint32_t v = n->loops[at].axis;
  bool has = !(right >> v & 1);
  for (uint32_t j = 0; v == n->flat->axis && j < n->flat->count; j++)
    has &= !(right >> n->flat->loops[j].axis & 1);
  return has;
}

static const char *check_atom(const Nest *n) {
  uint32_t at = nest_atom(n);
  uint64_t axes[NEST_OPERAND_COUNT];
  if (at != NO_LOOP && (n->loop_count - at != 3 ||
                        !nest_axis_is_reduced(n, n->loops[at + 2].axis)))
    return nest_loop_reason(n, at,
                            "is in a register tile: order rows, columns and "
                            "terms innermost, in this order");
  if (at != NO_LOOP && !find_operand_axes(n, n->loops[at + 1].axis, axes))
    return nest_loop_reason(n, at + 1,
                            "is not the axis of the columns of a product");
  if (at != NO_LOOP && !has_rows(n, at, axes[NEST_RIGHT]))
    return nest_loop_reason(n, at, "is not the axis of the rows of a product");
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    bool packs = l->packs[NEST_LEFT] || l->packs[NEST_RIGHT];
    if ((packs || l->finishes) && (at == NO_LOOP || j >= at))
      return nest_loop_reason(n, j,
                              "packs or finishes what no register tile inside "
                              "of it has: write `atom A, B, K` first");
    for (uint32_t i = 0; i < NEST_OPERAND_COUNT; i++) {
      const char *error = l->packs[i] ? check_packed(n, j, axes[i]) : NULL;
      if (error)
        return error;
    }
  }
  return NULL;
}

static const char *check_runs(const Nest *n) {
  bool in_task = true, in_block = true;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    bool reduced = nest_axis_is_reduced(n, l->axis);
    if (l->run == NEST_TASK && !in_task)
      return arena_printf(n->arena, "loop %u: a task inside of a loop", j);
    if (l->run == NEST_BLOCK && !in_block)
      return arena_printf(n->arena, "loop %u: a block inside of a loop", j);
    in_task &= l->run == NEST_TASK;
    in_block &= l->run == NEST_BLOCK;
    if (l->run != NEST_SERIAL && l->run != NEST_BLOCK &&
        !(l->run == NEST_ATOM && reduced) && !nest_runs_outside(n, j) &&
        !nest_fixed_count(n, j))
      return arena_printf(n->arena, "loop %u: not a number of iterations", j);
    if (l->run == NEST_LANES && j + 1 != n->loop_count)
      return arena_printf(n->arena, "loop %u: lanes that are not innermost", j);
    if ((l->has_accumulators || l->is_run) && !reduced)
      return arena_printf(n->arena, "loop %u: parts of an axis that is kept",
                          j);
    if (l->is_held && l->run != NEST_UNROLL)
      return arena_printf(n->arena, "loop %u: registers without unroll", j);
    if ((l->is_run || l->polls || l->is_online) &&
        (l->run != NEST_SERIAL || l->tail != TAIL_LESS ||
         nest_inner(n, j) == NO_LOOP))
      return arena_printf(n->arena,
                          "loop %u: a %s that is no serial loop with the "
                          "tail `less`",
                          j,
                          l->is_run  ? "run"
                          : l->polls ? "poll"
                                     : "loop of online sums");
    if (nest_indexes_accumulators(n, j) && !nest_fixed_count(n, j))
      return arena_printf(n->arena,
                          "i%u would have an unknown number of sums: tile it",
                          n->names[l->axis]);
  }
  return NULL;
}

/* All vectors of the interleaved loop are known at the end of its last
 * iteration: inside of it are the lanes of an axis of the results, and terms.
 */
static const char *check_interleaved(const Nest *n) {
  uint32_t at = nest_interleaved(n), lanes = nest_lanes(n);
  if (at == NO_LOOP)
    return NULL;
  if (lanes == NO_LOOP || nest_axis_is_reduced(n, n->loops[lanes].axis))
    return nest_loop_reason(n, at,
                            "cannot be interleaved: there are no lanes "
                            "along an axis of the results");
  for (uint32_t j = at + 1; j < lanes; j++)
    if (!nest_axis_is_reduced(n, n->loops[j].axis))
      return nest_loop_reason(n, at,
                              "cannot be interleaved: order it just "
                              "outside of the lanes");
  return NULL;
}

/* A block of vectors is square, and nothing else is inside of its loop. */
static const char *check_transposed(const Nest *n) {
  uint32_t at = nest_transposed(n), lanes = nest_lanes(n);
  if (at == NO_LOOP)
    return NULL;
  if (lanes != at + 1)
    return nest_loop_reason(n, at,
                            "cannot be transposed: order it just outside of "
                            "the lanes");
  if (n->loops[at].count != n->loops[lanes].count)
    return nest_loop_reason(
        n, at,
        arena_printf(
            n->arena,
            "has %lld iterations, and can be transposed if it has %lld, "
            "like the lanes",
            (long long)n->loops[at].count, (long long)n->loops[lanes].count));
  return NULL;
}

const char *nest_verify(const Nest *n) {
  const char *error = check_axes(n);
  error = error ? error : check_pieces(n);
  for (uint32_t j = 0; !error && j < MAX_FLATTENED; j++)
    error = check_flattened(n, &n->flat[j]);
  error = error ? error : check_interleaved(n);
  error = error ? error : check_transposed(n);
  error = error ? error : check_strips(n);
  error = error ? error : check_shifted(n);
  error = error ? error : check_spread(n);
  error = error ? error : check_atom(n);
  error = error ? error : check_shuffled(n);
  return error ? error : check_runs(n);
}

/* Returns the first difference between a nest and what its schedule, printed
 * and read again, makes. */
static const char *read_again(const Nest *n) {
  uint32_t at = 0;
  Buffer text = {.arena = n->arena};
  Nest *copy = nest_new(n->arena, n->spec, n->names);
  nest_print_schedule(&text, n, 0);
  const char *error = nest_parse_schedule(copy, text.len ? text.text : "", &at);
  if (error)
    return error;
  Buffer one = {.arena = n->arena}, other = one;
  nest_print(&one, n);
  nest_print(&other, copy);
  return strcmp(one.text, other.text) ? "its schedule, read again, differs"
                                      : NULL;
}

void nest_verify_chosen(const Nest *n, const char *refusal) {
  if (!kernel_verify_is_on())
    return;
  const char *error = refusal ? refusal : nest_verify(n);
  error = error ? error : read_again(n);
  if (!error)
    return;
  Buffer text = {.arena = n->arena};
  nest_print(&text, n);
  nest_print_schedule(&text, n, 0);
  fprintf(stderr, "nest: %s\n%s\n", error, text.text);
  abort();
}
