/* What the CPU cannot run of nests that are valid (kernel/nest_verify.c). */
#include "backend/cpu/lane_shuffle.h"
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_parts.h"
#include "backend/cpu/vector_axis.h"
#include "machine/limits/cpu.h"
#include "support/arena_text.h"

typedef struct NestCheck {
  const Kernel *kernel;
  const Schedule *schedule;
  uint32_t at; /* the loop nest */
  const Nest *nest;
} NestCheck;

static const char *refuse(const NestCheck *c, uint32_t loop,
                          const char *reason) {
  return nest_loop_reason(c->nest, loop, reason);
}

/* ---- steps for GPUs ---- */

static const char *check_target(const NestCheck *c) {
  const Nest *n = c->nest;
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].run == NEST_BLOCK || n->loops[j].run == NEST_THREAD)
      return refuse(c, j,
                    "cannot be blocks or threads: only GPUs have them: use "
                    "tasks and lanes");
  if (nest_transposed(n) != NO_LOOP)
    return refuse(c, nest_transposed(n),
                  "cannot be transposed: only packed operands of products are: "
                  "write `transpose` beside the tasks");
  if (nest_atom(n) != NO_LOOP)
    return refuse(c, nest_atom(n),
                  "is in a register tile: write `by gemm` in place of all "
                  "steps");
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].is_held || n->loops[j].is_online)
      return refuse(c, j,
                    n->loops[j].is_online
                        ? "cannot be online: CPUs sum in strips: leave it out"
                        : "cannot stay in registers: only GPUs keep rows so");
  if (n->flat[1].axis != NO_LOOP)
    return "flatten: only one loop of a CPU is flattened";
  if (n->flat->axis != NO_LOOP && nest_shuffled(n) == NO_LOOP)
    return "flatten: CPUs run flattened loops as shuffled lanes only: write "
           "`shuffle A` with a loop outside";
  return n->shared_axis == NO_LOOP ? NULL
                                   : "shared: only GPUs have shared memory";
}

/* ---- size of the code ---- */

enum {
  MAX_SUMS = 1024, /* on the stack, as vectors */
  MAX_UNROLLED = 4096,
};

static const char *check_size(const NestCheck *c) {
  const Nest *n = c->nest;
  double sums = 1, unrolled = 1;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    double count = (double)n->loops[j].count;
    sums *= nest_indexes_accumulators(n, j) ? count : 1;
    unrolled *= n->loops[j].run == NEST_UNROLL ? count : 1;
  }
  if (sums > MAX_SUMS)
    return arena_printf(n->arena,
                        "this loop nest would have %.0f sums at a time, and at "
                        "most %d fit",
                        sums, MAX_SUMS);
  if (unrolled > MAX_UNROLLED)
    return arena_printf(n->arena,
                        "this loop nest would have %.0f unrolled iterations, "
                        "and at most %d are",
                        unrolled, MAX_UNROLLED);
  return NULL;
}

/* A trimmed axis begins at a bound, and ends at another one.  A loop of a
 * number of iterations would begin there, and end behind the axis. */
static const char *check_trimmed(const NestCheck *c) {
  const Nest *n = c->nest;
  uint64_t seen = 0;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    bool is_whole = !(seen >> l->axis & 1);
    seen |= (uint64_t)1 << l->axis;
    if (is_whole && l->count && loop_is_trimmed(n->spec, l->axis))
      return refuse(c, j,
                    "runs over the part of its axis that is not masked, whose "
                    "size is no number: tile it, and use the tile");
  }
  return NULL;
}

/* ---- vectors ---- */

static bool has_locals(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL)
      return true;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (loop->outputs.at[j].local_index)
      return true;
  return false;
}

/* Returns true if an axis that is in each task has a reduction for each
 * index. */
static bool is_inner_reduction(const LoopNest *loop, uint32_t axis) {
  PrimId op = loop->outputs.at[0].reduce;
  return loop->outputs.len == 1 && op != PRIM_NONE &&
         !prim_is_arg_reduction(op) && !loop_has_states(loop) &&
         axis >= loop->parallel_axes && axis < loop->spatial_axes &&
         !has_locals(loop);
}

static const char *check_lanes(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n);
  if (lanes == NO_LOOP)
    return NULL;
  if (n->loops[lanes].tail == TAIL_MASK && nest_shuffled(n) == NO_LOOP &&
      !short_reduction_is_unrolled(c->schedule, n->spec,
                                   n->loops[lanes].axis) &&
      !is_inner_reduction(n->spec, n->loops[lanes].axis))
    return refuse(c, lanes,
                  "cannot have tail mask: only short sums for each "
                  "lane, and sums along an axis in a task, can: use less or "
                  "peel");
  if (n->loops[lanes].count == c->schedule->width)
    return NULL;
  return refuse(c, lanes,
                arena_printf(n->arena,
                             "has %lld lanes, and the vectors of this kernel "
                             "have %u: write `width`",
                             (long long)n->loops[lanes].count,
                             c->schedule->width));
}

/* Local values of a block are rows along the last parallel axis. */
static const char *check_locals(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n), outer = n->spec->parallel_axes;
  bool has_blocks = c->schedule->task_kind == TASK_COLUMNS ||
                    c->schedule->task_kind == TASK_TILE;
  if (!has_blocks || !has_locals(n->spec) || n->spec->staging)
    return NULL;
  if (c->schedule->task_kind == TASK_TILE && n->spec->spatial_axes > outer)
    return "tasks: a loop nest with an axis of its own, which is not summed, "
           "keeps values for its tasks, so blocks have one axis only";
  if (lanes != NO_LOOP && n->loops[lanes].axis != outer - 1)
    return refuse(c, lanes,
                  "cannot be lanes: a block keeps values in rows "
                  "along the last parallel axis");
  return NULL;
}

static const char *check_tails(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n), clamped = nest_clamped(n);
  for (uint32_t j = 0; j < n->loop_count; j++) {
    uint32_t inner = nest_inner(n, j);
    NestTail tail = n->loops[j].tail;
    if (inner != NO_LOOP && tail == TAIL_MASK && inner != lanes)
      return refuse(c, j,
                    "has tail mask, which only vectors can have: use "
                    "less, peel or if");
    if (inner != NO_LOOP && tail == TAIL_SHIFT &&
        (inner == lanes || loop_is_trimmed(n->spec, n->loops[j].axis)))
      return refuse(c, j,
                    "has tail shift, which neither vectors nor trimmed loops "
                    "can have: use less or peel");
    if (tail == TAIL_SPREAD && n->loops[j].axis == n->stream.row_axis)
      return refuse(c, j,
                    "has tail spread, which rows that share input rows cannot "
                    "have: use less or peel");
    if (inner != NO_LOOP && tail == TAIL_CLAMP &&
        (inner != clamped || n->loops[j].run != NEST_TASK ||
         n->loops[inner].run != NEST_UNROLL || nest_inner(n, inner) != NO_LOOP))
      return refuse(c, j,
                    "has tail clamp, which only the last task can have, "
                    "with unrolled iterations that are not tiled");
  }
  return clamped != NO_LOOP &&
                 !unroll_and_jam_is_valid(c->kernel, c->schedule, c->at)
             ? "clamp: iterations of this task cannot share loads"
             : NULL;
}

/* ---- f32 sums ---- */

/* Returns the loop whose iterations are runs, or NO_LOOP. */
static uint32_t run_loop(const Nest *n) {
  for (uint32_t j = n->loop_count; j-- > 0;)
    if (n->loops[j].is_run)
      return j;
  return NO_LOOP;
}

/* The terms that an accumulator adds in one iteration of a loop. */
static double terms_inside(const Nest *n, uint32_t at) {
  double terms = 1;
  for (uint32_t j = at + 1; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    if (nest_axis_is_reduced(n, l->axis) && l->run != NEST_LANES &&
        !l->has_accumulators)
      terms *= l->count ? (double)l->count : loop_extent_hint(n->spec, l->axis);
  }
  return terms;
}

static const char *check_runs(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t run = run_loop(n);
  /* Windows have few terms, if more than a run. */
  if (!nest_needs_runs(n->spec, c->schedule, c->schedule->vector_axes[c->at]) ||
      (run == NO_LOOP && short_reduction_applies(n->spec)))
    return NULL;
  if (run == NO_LOOP)
    return "an f32 sum of this many terms needs `run`, to keep its digits: "
           "tile the terms, and run the outer piece";
  if (terms_inside(n, run) > F32_RUN_VECTORS)
    return refuse(c, run,
                  arena_printf(n->arena,
                               "adds %.0f terms in a run of f32, and at most "
                               "%d keep their digits",
                               terms_inside(n, run), F32_RUN_VECTORS));
  return NULL;
}

/* ---- rows that share input rows ---- */

/* Rows, then their unrolled vectors, are the innermost loops. */
static const char *check_stream(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n), count = n->loop_count;
  if (n->stream.row_axis == NO_LOOP)
    return NULL;
  bool has_vectors =
      lanes != NO_LOOP && count >= 4 &&
      n->loops[lanes].axis < n->spec->spatial_axes &&
      n->loops[lanes].tail == TAIL_MASK &&
      n->loops[count - 2].axis == n->loops[lanes].axis &&
      n->loops[count - 2].run == NEST_UNROLL &&
      nest_find(n, n->loops[lanes].axis, 2) < nest_accumulator_depth(n);
  bool has_rows = has_vectors &&
                  n->loops[count - 3].axis == n->stream.row_axis &&
                  nest_piece(n, count - 3) == 0;
  if (!has_rows)
    return "stream: the innermost loops must be the rows, then vectors in "
           "groups that are unrolled, with tail mask";
  return NULL;
}

static const char *check_epilogue(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n);
  if (!n->has_epilogue)
    return NULL;
  if (lanes == NO_LOOP || nest_axis_is_reduced(n, n->loops[lanes].axis) ||
      run_loop(n) != NO_LOOP)
    return "epilogue: needs vectors along an axis that is not summed, and no "
           "runs";
  return short_reduction_epilogue(c->kernel, c->schedule, c->kernel->arena,
                                  c->at)
             ? NULL
             : "epilogue: the next loop nest cannot run on these sums";
}

/* ---- interleaved stores ---- */

/* The vectors of all iterations are contiguous in memory. */
static const char *check_interleaved(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t at = nest_interleaved(n), lanes = nest_lanes(n);
  if (at == NO_LOOP)
    return NULL;
  if (c->schedule->width == 1 || schedule_has_byte_lanes(c->schedule))
    return refuse(c, at,
                  "cannot be interleaved: it needs vectors of lanes of "
                  "32 or 64 bits: write another `width`");
  if (n->has_epilogue || n->stream.row_axis != NO_LOOP ||
      c->schedule->reduction_chunk)
    return refuse(c, at,
                  "cannot be interleaved with epilogue, stream or "
                  "chunk: leave one of them out");
  for (uint32_t j = 0; j < n->spec->outputs.len; j++) {
    const LoopOutput *r = &n->spec->outputs.at[j];
    if (!r->global_index || r->local_index)
      return refuse(c, at,
                    "cannot be interleaved: a later loop nest reads the "
                    "result");
    if (r->global_index->coef[n->interleaved_axis] != 1 ||
        r->global_index->coef[n->loops[lanes].axis] != n->loops[at].count)
      return refuse(c, at,
                    "cannot be interleaved: its elements and the lanes "
                    "are not the last two axes of the result");
  }
  return NULL;
}

/* ---- shuffled lanes ---- */

static const char *check_shuffle(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t at = nest_shuffled(n);
  if (at == NO_LOOP)
    return NULL;
  if (c->schedule->width == 1 || schedule_has_byte_lanes(c->schedule))
    return refuse(c, at,
                  "cannot load shuffled operands: it needs vectors of lanes of "
                  "32 or 64 bits: write another `width`");
  if (n->spec->trim_bounds)
    return refuse(c, at,
                  "cannot load shuffled operands: a condition leaves out "
                  "iterations of a loop");
  LaneShuffle f = lane_shuffle_of(n, c->schedule->width);
  const char *reason = lane_shuffle_refusal(&f);
  return reason ? refuse(c, at, reason) : NULL;
}

/* ---- tiles that are transposed in registers ---- */

/* Loops that copy strided data, or that are transposed, have one form. */
static const char *check_transposed(const NestCheck *c) {
  const LoopNest *loop = c->nest->spec;
  uint32_t lanes = nest_lanes(c->nest);
  uint32_t axis = loop->staging == STAGE_OUT ? loop->contiguous_axis
                                             : loop->parallel_axes - 1;
  if (!loop->staging && !c->schedule->transpose)
    return NULL;
  const Nest *chosen = NULL;
  if (lanes != NO_LOOP && c->nest->loops[lanes].axis == axis)
    chosen = nest_choose(c->kernel, c->schedule, c->at);
  Buffer one = {.arena = c->kernel->arena}, other = one;
  nest_print(&one, c->nest);
  if (chosen)
    nest_print(&other, chosen);
  return buffer_equal(&one, &other)
             ? NULL
             : "this loop nest transposes data in registers, and its steps "
               "cannot be changed: leave them out";
}

/* ---- parts of the vector axis ---- */

static const char *check_parts(const NestCheck *c) {
  LoopPart parts[MAX_LOOP_PARTS];
  uint32_t lanes = nest_lanes(c->nest);
  return lanes == NO_LOOP ||
                 !vector_axis_needs_parts(c->schedule, c->nest->spec,
                                          c->nest->loops[lanes].axis) ||
                 nest_parts(c->kernel, c->schedule, c->nest, parts)
             ? NULL
             : refuse(c, lanes,
                      "cannot be lanes of 8 bits: conditions on its index need "
                      "a serial `tile ... peel` of them: write that, or "
                      "another `width`");
}

/* ---- entry point ---- */

const char *nest_refusal(const Kernel *k, const Schedule *s, uint32_t at,
                         const Nest *n) {
  NestCheck c = {k, s, at, n};
  const char *error = check_target(&c);
  error = error ? error : check_size(&c);
  error = error ? error : check_trimmed(&c);
  error = error ? error : check_interleaved(&c);
  error = error ? error : check_shuffle(&c);
  error = error ? error : check_lanes(&c);
  error = error ? error : check_locals(&c);
  error = error ? error : check_tails(&c);
  error = error ? error : check_runs(&c);
  error = error ? error : check_stream(&c);
  error = error ? error : check_epilogue(&c);
  error = error ? error : check_parts(&c);
  return error ? error : check_transposed(&c);
}
