/* What a GPU cannot run of nests that are valid (kernel/nest_verify.c). */
#include "backend/cuda/nest.h"
#include "backend/cuda/threads.h"
#include "machine/limits/cuda.h"
#include "support/int_math.h"
#include "support/arena_text.h"

#include <math.h>

enum { MAX_UNROLLED = 64 };

typedef struct NestCheck {
  const CudaPass *pass;
  const Nest *nest;
  const CudaTarget *target;
} NestCheck;

static const char *refuse(const NestCheck *c, uint32_t loop,
                          const char *reason) {
  return nest_loop_reason(c->nest, loop, reason);
}

/* ---- loops ---- */

static const char *check_stores(const Nest *n) {
  if (nest_interleaved(n) != NO_LOOP)
    return nest_loop_reason(n, nest_interleaved(n),
                            "cannot be interleaved: only CPUs store vectors "
                            "so: use lanes along the last axis");
  if (nest_transposed(n) != NO_LOOP)
    return nest_loop_reason(n, nest_transposed(n),
                            "cannot be transposed in registers: use `shared`");
  return NULL;
}

static const char *check_cpu_sums(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].has_accumulators)
      return nest_loop_reason(n, j,
                              "cannot be parts: on GPUs each thread has its "
                              "own sum: use `threads`");
  if (n->fuses_products)
    return "fma: the compiler of a GPU fuses products: leave it out";
  return n->has_epilogue ? "epilogue: on GPUs the loop nests of a pass share "
                           "their threads: leave it out"
                         : NULL;
}

const char *cuda_nest_loops_refusal(const Nest *n) {
  if (nest_shuffled(n) != NO_LOOP)
    return nest_loop_reason(n, nest_shuffled(n),
                            "cannot load shuffled operands: only CPUs shuffle "
                            "lanes: leave out `shuffle`");
  if (nest_atom(n) != NO_LOOP)
    return nest_loop_reason(n, nest_atom(n),
                            "is in a register tile: write `by gemm` in place "
                            "of all steps");
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    if (l->run == NEST_TASK)
      return nest_loop_reason(n, j, "cannot be tasks: use blocks and threads");
    if (l->is_argument)
      return nest_loop_reason(n, j,
                              "has a tile whose size is an argument: on GPUs "
                              "it is a number");
    if (l->tail != TAIL_LESS && l->run != NEST_LANES)
      return nest_loop_reason(n, j,
                              "has another tail than less: each thread tests "
                              "its indices");
  }
  const char *error = check_stores(n);
  return error ? error : check_cpu_sums(n);
}

static const char *check_flattened(const NestCheck *c) {
  const Nest *n = c->nest;
  if (n->flat[1].count)
    return arena_printf(n->arena,
                        "i%u is a second flattened loop, and this pass has "
                        "one",
                        n->names[n->flat[1].axis]);
  if (n->flat->count && n->flat->loops[0].count)
    return arena_printf(n->arena,
                        "i%u is inside of a loop of the same axis: flatten "
                        "outermost pieces",
                        n->names[n->flat->loops[0].axis]);
  return NULL;
}

/* A tile in a tile fills it. */
static const char *check_tiles(const NestCheck *c) {
  const Nest *n = c->nest;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    uint32_t inner = nest_inner(n, j);
    if (inner != NO_LOOP &&
        n->loops[j].step != n->loops[inner].step * n->loops[inner].count)
      return refuse(
          c, j,
          arena_printf(n->arena,
                       "has tiles of %lld, and tiles of %lld in them, "
                       "which do not fill them",
                       (long long)n->loops[j].step,
                       (long long)n->loops[inner].step));
  }
  return NULL;
}

static const char *check_unrolled(const NestCheck *c) {
  const Nest *n = c->nest;
  double unrolled = 1;
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].run == NEST_UNROLL || n->loops[j].run == NEST_LANES)
      unrolled *= (double)n->loops[j].count;
  if (unrolled > MAX_UNROLLED)
    return arena_printf(n->arena,
                        "a thread would have %.0f unrolled iterations, and at "
                        "most %d are",
                        unrolled, MAX_UNROLLED);
  return NULL;
}

/* ---- threads and blocks ---- */

const char *cuda_threads_refusal(Arena *arena, double threads) {
  if (threads >= WARP && threads <= MAX_BLOCK_THREADS &&
      (uint32_t)threads % WARP == 0)
    return NULL;
  return arena_printf(arena,
                      "a block would have %.0f threads, and it has a multiple "
                      "of %d, at most %d: tile a loop, and write `threads`",
                      threads, WARP, MAX_BLOCK_THREADS);
}

static const char *check_threads(const NestCheck *c) {
  const Nest *n = c->nest;
  double threads = 1;
  for (uint32_t j = 0; j < n->loop_count; j++)
    threads *= n->loops[j].run == NEST_THREAD ? (double)n->loops[j].count : 1;
  return n->loop_count ? cuda_threads_refusal(n->arena, threads) : NULL;
}

static double index_count(const Nest *n, uint32_t axis) {
  double count = 1;
  if (axis != n->flat->axis)
    return (double)loop_extent_hint(n->spec, axis);
  for (uint32_t j = 0; j < n->flat->count; j++)
    count *= ceil((double)loop_extent_hint(n->spec, n->flat->loops[j].axis) /
                  (double)n->flat->loops[j].step);
  return count;
}

/* Indices of the last tile, and the numbers of blocks, have 32 bits. */
static const char *check_sizes(const NestCheck *c) {
  const Nest *n = c->nest;
  double blocks = 1;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    double count = index_count(n, l->axis), step = (double)l->step;
    if (step > 2 * count && step > MAX_BLOCK_THREADS * MAX_UNROLLED)
      return refuse(c, j,
                    arena_printf(n->arena,
                                 "has tiles of %.0f, and its axis has %.0f "
                                 "iterations",
                                 step, count));
    if (l->run == NEST_BLOCK)
      blocks *= l->count ? (double)l->count : count / step;
  }
  if (blocks > INT32_MAX)
    return arena_printf(n->arena,
                        "there would be %.0f thread blocks, and at most %d "
                        "run: tile the loops",
                        blocks, INT32_MAX);
  return NULL;
}

/* ---- vectors ---- */

static const char *check_lanes(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n), max = cuda_max_vector(c->pass->k);
  if (lanes == NO_LOOP)
    return NULL;
  int64_t count = n->loops[lanes].count;
  if (n->loops[lanes].tail != TAIL_MASK)
    return refuse(c, lanes, "has lanes behind the end: write `mask`");
  if (count > max || !int_is_power_of_two(count))
    return refuse(c, lanes,
                  arena_printf(n->arena,
                               "has %lld lanes, and vectors have a power of "
                               "two, here at most %u",
                               (long long)count, max));
  return NULL;
}

/* ---- tiles in shared memory ---- */

static const char *check_tile_loops(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t last = n->loop_count - 1, near = n->shared_axis, first = 0;
  if (n->loop_count < 4 || n->loops[last].run != NEST_THREAD ||
      n->loops[last - 1].run != NEST_THREAD ||
      n->loops[last - 1].axis != near || n->loops[last].axis == near ||
      nest_piece(n, last - 1) || n->loops[last].step != 1)
    return arena_printf(n->arena,
                        "shared i%u: the innermost loops must be threads of "
                        "i%u, then threads of another axis",
                        n->names[near], n->names[near]);
  while (n->loops[first].run == NEST_BLOCK)
    first++;
  for (uint32_t j = first; j < last - 1; j++)
    if (n->loops[j].axis != near || n->loops[j].run == NEST_THREAD)
      return refuse(c, j,
                    "is inside of the tiles in shared memory: use blocks");
  return NULL;
}

static const char *check_tile_sides(const NestCheck *c) {
  const Nest *n = c->nest;
  uint32_t last = n->loop_count - 1, near = n->shared_axis;
  int64_t steps[2] = {0, 0}, side = n->loops[last].count;
  for (uint32_t j = last; j-- > 0;)
    if (n->loops[j].run == NEST_BLOCK && n->loops[j].axis == near)
      steps[0] = n->loops[j].step;
    else if (n->loops[j].run == NEST_BLOCK &&
             n->loops[j].axis == n->loops[last].axis)
      steps[1] = n->loops[j].step;
  for (int j = 0; j < 2; j++) {
    uint32_t name = n->names[j ? n->loops[last].axis : near];
    if (!steps[j])
      return arena_printf(n->arena,
                          "shared i%u: no loop over i%u runs as blocks: tile "
                          "it by %lld, and write `blocks`",
                          n->names[near], name, (long long)side);
  }
  if (steps[0] != side || steps[1] != side)
    return arena_printf(n->arena,
                        "shared i%u: the tile of a block has %lld x %lld "
                        "elements and %lld threads in a row: all three must "
                        "be equal",
                        n->names[near], (long long)steps[0],
                        (long long)steps[1], (long long)side);
  return NULL;
}

static const char *check_tile_bytes(const NestCheck *c) {
  const Kernel *k = c->pass->k;
  const Nest *n = c->nest;
  int64_t bytes = 0, max = c->target->optin_shared_bytes;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (cuda_nest_shares(n, loop, &loop->ops.at[i]))
        bytes += cuda_nest_tile_bytes(n, loop->ops.at[i].dtype);
  }
  if (!bytes)
    return arena_printf(n->arena,
                        "shared i%u: no operand is contiguous along this axis "
                        "and strided along i%u",
                        n->names[n->shared_axis],
                        n->names[n->loops[n->loop_count - 1].axis]);
  if (bytes > max)
    return arena_printf(n->arena,
                        "shared i%u: the tiles have %lld bytes, and a block "
                        "has %lld of shared memory",
                        n->names[n->shared_axis], (long long)bytes,
                        (long long)max);
  return NULL;
}

static const char *check_shared(const NestCheck *c) {
  if (c->nest->shared_axis == NO_LOOP)
    return NULL;
  const char *error = check_tile_loops(c);
  error = error ? error : check_tile_sides(c);
  return error ? error : check_tile_bytes(c);
}

/* ---- entry point ---- */

const char *cuda_nest_refusal(const CudaPass *p, const Nest *n,
                              const CudaTarget *target) {
  NestCheck c = {p, n, target};
  const char *error = cuda_nest_loops_refusal(n);
  error = error ? error : check_flattened(&c);
  error = error ? error : check_tiles(&c);
  error = error ? error : check_threads(&c);
  error = error ? error : check_sizes(&c);
  error = error ? error : check_lanes(&c);
  error = error ? error : check_unrolled(&c);
  return error ? error : check_shared(&c);
}
