/* How kernels are run on a GPU, from what they read and how.
 *
 * Neighbours in a warp should have neighbours in memory, whole lines of it; a
 * thread should have several of them at once, so that few instructions move
 * many bytes; and there should be enough threads to wait for memory together.
 * So neighbours lie along the axis that most accesses go along: an outer one,
 * or that of a row which a team shares out. */
#include "backend/cuda/kernel.h"

#include <math.h>
#include <stdlib.h>

enum {
  WARP = 32,
  THREADS = 128,       /* of a block, where nothing else decides */
  THREADS_MOST = 1024, /* likewise, at most */
  FULL = 1024,         /* threads that a processor is better off with */
  ACCESS_BYTES = 16,   /* that a thread can move at once */
  VECTOR_MOST = 8,
  HELD_MOST = 64, /* elements of a row in registers; rather no more than */
  HELD_GOOD = 32,
  HELD_OTHERS = 40,  /* registers for all else */
  REGISTERS = 65536, /* of a processor: CUDA C++ Programming Guide, table of
                        technical specifications by compute capability */
  LOOP_OTHERS = 24,  /* of a thread, beside what it reads and adds up, */
  LOOP_TURNS = 5,    /* so many times */
  FAR_COST = 8,      /* of a neighbour that is in another line of memory */
  ITEMS_LEAST = 4,   /* vectors of a row for each thread of more than a warp */
  TERMS_LEAST = 16,  /* terms of a sum down columns for each thread */
  LONG_ROW = 16384,  /* elements: for more than a block */
  CHUNKS_MOST = 1024,
  SQUARE = 32, /* of what is turned */
};

/* ---- what neighbours along an axis cost ---- */

static int64_t guess(const Loop *loop, int64_t x) {
  return size_guess(loop->graph, x);
}

static double step_cost(const Loop *loop, int64_t times) {
  int64_t step = llabs(guess(loop, times));
  return step == 0 ? 0.1 : step == 1 ? 1 : FAR_COST;
}

/* Does it change along the axis otherwise than by steps? */
static bool has_quotient_of(const Loop *loop, const Quasi *at, uint32_t v) {
  Quasi rest = *at;
  rest.times[v] = 0;
  return cuda_depends(loop, &rest, v);
}

static double read_cost(const Loop *loop, const uint64_t *depends,
                        const Step *s, uint32_t v) {
  int64_t step = s->address->times[v], more;
  for (uint32_t j = 0; j < s->index_count; j++) {
    const Step *index = &loop->steps.at[s->indices[j].step];
    if (!(depends[s->indices[j].step] >> v & 1))
      continue;
    if (index->kind != STEP_INDEX ||
        !size_mul(loop->graph, index->index->times[v], s->indices[j].stride,
                  &more) ||
        !size_add(loop->graph, step, more, &step))
      return FAR_COST;
  }
  return step_cost(loop, step) +
         (has_quotient_of(loop, s->address, v) ? 0.5 : 0);
}

static double axis_cost(Arena *arena, const Loop *loop, uint32_t v) {
  const uint64_t *depends = loop_depends(arena, loop);
  double cost = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (loop->steps.at[j].kind == STEP_READ)
      cost += read_cost(loop, depends, &loop->steps.at[j], v);
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (loop->results.at[j].out &&
        (v < loop->kept || loop->results.at[j].reduce == PRIM_NONE))
      cost += 1.5 * step_cost(loop, loop->results.at[j].out->times[v]);
  double extent = (double)loop_guess(loop, v);
  return cost * (extent < WARP ? sqrt(WARP / fmax(extent, 1)) : 1);
}

/* ---- rows that a team shares out ---- */

static uint32_t first_shared(const Loop *loop) {
  return loop->kept > loop->outer ? loop->outer : loop->kept;
}
static uint32_t end_shared(const Loop *loop) {
  return loop->kept > loop->outer ? loop->kept : loop->axes;
}

static uint32_t best_inner(Arena *arena, const Loop *loop, double *cost) {
  uint32_t best = NO_LANE;
  *cost = 0;
  for (uint32_t v = first_shared(loop); v < end_shared(loop); v++) {
    double c = axis_cost(arena, loop, v);
    if (best == NO_LANE || c <= *cost) {
      *cost = c;
      best = v;
    }
  }
  return best;
}

uint32_t cuda_shared_axes(const Loop *loop, const CudaSchedule *s,
                          uint32_t axes[KERNEL_AXES]) {
  Arena *arena = arena_new();
  double cost;
  uint32_t count = 0,
           last = s->across ? NO_LANE : best_inner(arena, loop, &cost);
  for (uint32_t v = first_shared(loop); v < end_shared(loop); v++)
    if (v != last)
      axes[count++] = v;
  if (last != NO_LANE)
    axes[count++] = last;
  arena_free(arena);
  return count;
}

static double row_of(const Loop *loop) {
  return loop_points(loop, first_shared(loop), end_shared(loop));
}

static double points_of(const Kernel *k) {
  return loop_points(k->loops.at[0], 0, k->outer);
}

static double longest_row(const Kernel *k) {
  double most = 1;
  for (uint32_t j = 0; j < k->loops.len; j++)
    most = fmax(most, row_of(k->loops.at[j]));
  return most;
}

static bool has_inner(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->axes > k->outer)
      return true;
  return false;
}

bool cuda_is_apart(const Kernel *k, const CudaTarget *target) {
  return has_inner(k) && longest_row(k) >= LONG_ROW &&
         points_of(k) * 2 < target->processors;
}

/* The outer axis along which neighbours are best; NO_LANE: along rows. */
static uint32_t best_outer(const Kernel *k, bool inner) {
  double rows = 0, least = 0, cost;
  uint32_t best = NO_LANE;
  for (uint32_t j = 0; inner && j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    best_inner(k->arena, loop, &cost);
    rows += cost * loop_points(loop, 0, loop->axes);
  }
  for (uint32_t v = k->outer; v-- > 0;) {
    double all = 0;
    if (loop_guess(k->loops.at[0], v) == 1 && (v || best != NO_LANE))
      continue; /* there are no neighbours */
    for (uint32_t j = 0; j < k->loops.len; j++) {
      const Loop *loop = k->loops.at[j];
      all += axis_cost(k->arena, loop, v) * loop_points(loop, 0, loop->axes);
    }
    if (best == NO_LANE || all < least) {
      least = all;
      best = v;
    }
  }
  return inner && (best == NO_LANE || rows <= least) ? NO_LANE : best;
}

/* ---- vectors ---- */

typedef struct Accesses {
  uint32_t vectors, others; /* accesses that go along the axis */
} Accesses;

static void count_accesses(const Loop *loop, uint32_t v, uint32_t vector,
                           Accesses *a) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind != STEP_READ ||
        (!s->index_count && cuda_is_even(loop, s->address, v)))
      continue;
    if (!s->index_count && cuda_is_vector(loop, s->address, v, vector))
      a->vectors++;
    else
      a->others++;
  }
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if (!r->out || (r->reduce != PRIM_NONE && v >= loop->outer))
      continue;
    if (cuda_is_vector(loop, r->out, v, vector))
      a->vectors += 2;
    else
      a->others += 2;
  }
}

/* Of the elements that are read and stored. */
static void bytes_of(const Kernel *k, uint32_t *least, uint32_t *most) {
  *least = 8, *most = 1;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len + loop->results.len; i++) {
      bool read = i < loop->steps.len;
      const Step *s = read ? &loop->steps.at[i] : NULL;
      const Result *r = read ? NULL : &loop->results.at[i - loop->steps.len];
      if (read ? s->kind != STEP_READ : !r->out)
        continue;
      uint32_t bytes = dtype_info[read ? s->dtype : r->dtype].bytes;
      *least = bytes < *least ? bytes : *least;
      *most = bytes > *most ? bytes : *most;
    }
  }
}
static uint32_t least_bytes(const Kernel *k) {
  uint32_t least, most;
  bytes_of(k, &least, &most);
  return least;
}
static uint32_t most_bytes(const Kernel *k) {
  uint32_t least, most;
  bytes_of(k, &least, &most);
  return most;
}

/* items: elements that there are along all such axes, for all of `threads`. */
static uint32_t choose_vector(const Kernel *k, const uint32_t *axes,
                              double items, double threads) {
  uint32_t vector = ACCESS_BYTES / least_bytes(k);
  vector = vector > VECTOR_MOST ? VECTOR_MOST : vector;
  for (; vector > 1; vector /= 2) {
    Accesses a = {0};
    bool fits = items / vector >= threads;
    for (uint32_t j = 0; fits && j < k->loops.len; j++) {
      const Loop *loop = k->loops.at[j];
      if (axes[j] == NO_LANE)
        continue;
      int64_t left = 1;
      bool alone = k->outer == 1 && loop->axes == 1;
      fits = alone ||
             (size_mod(loop->graph, loop->extents[axes[j]], vector, &left) &&
              left == 0);
      count_accesses(loop, axes[j], vector, &a);
    }
    if (fits && a.vectors > a.others)
      return vector;
  }
  return 1;
}

/* ---- points ---- */

static uint32_t turned_axis(const Kernel *k) {
  uint32_t last = k->outer - 1, found = NO_LANE;
  const Loop *first = k->loops.at[0];
  if (k->outer < 2 || loop_guess(first, last) < SQUARE / 2)
    return NO_LANE;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *s = &loop->steps.at[i];
      if (s->kind != STEP_READ || s->index_count ||
          step_cost(loop, s->address->times[last]) < FAR_COST ||
          has_quotient_of(loop, s->address, last))
        continue;
      for (uint32_t v = 0; v < last; v++)
        if (s->address->times[v] == 1 && loop_guess(loop, v) >= SQUARE / 2 &&
            !has_quotient_of(loop, s->address, v))
          found = v;
    }
  }
  return found;
}

static void choose_points(Kernel *k, const CudaTarget *target,
                          CudaSchedule *s) {
  s->shape = CUDA_POINTS;
  s->threads = THREADS;
  if (!k->outer)
    return;
  kernel_move_last(k, best_outer(k, false));
  s->turned = turned_axis(k);
  if (s->turned != NO_LANE) {
    s->shape = CUDA_TURNED;
    s->threads = 2 * THREADS;
    s->side = most_bytes(k) <= 2 ? 2 * SQUARE : SQUARE;
    return;
  }
  uint32_t axes[KERNEL_LOOPS];
  for (uint32_t j = 0; j < k->loops.len; j++)
    axes[j] = k->outer - 1;
  s->vector =
      choose_vector(k, axes, points_of(k), (double)target->processors * FULL);
}

/* ---- teams ---- */

static bool may_be_chunked(const Kernel *k) {
  const Loop *loop = k->loops.at[0];
  const Result *r = &loop->results.at[0];
  return k->loops.len == 1 && loop->results.len == 1 &&
         loop->axes > loop->kept && loop->kept == loop->outer &&
         r->reduce != PRIM_NONE && (r->out || r->local);
}

/* Teams that do not fill the device: sums are cut. */
static void choose_chunk(const Kernel *k, const CudaTarget *target,
                         CudaSchedule *s) {
  double width = (double)s->threads / s->team;
  double blocks = ceil(points_of(k) / width), row = row_of(k->loops.at[0]);
  double wanted = 4.0 * target->processors / blocks;
  double most = row / (s->team * s->vector * 2.0 * ITEMS_LEAST);
  double parts = fmin(fmin(wanted, most), CHUNKS_MOST);
  if (wanted < 4 || parts < 2)
    return;
  int64_t unit = (int64_t)s->team * s->vector;
  s->chunk = (int64_t)ceil(row / parts / (double)unit) * unit;
}

static uint32_t power_up(double x) {
  uint32_t p = 1;
  while (p < x && p < THREADS_MOST)
    p *= 2;
  return p;
}

/* A guess: of a thread, whose turns of a loop are some at a time. */
static uint32_t loop_registers(const Kernel *k) {
  uint32_t most = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    uint32_t words = loop->results.len;
    for (uint32_t i = 0; i < loop->steps.len; i++)
      words += loop->steps.at[i].kind == STEP_READ;
    most = words > most ? words : most;
  }
  return LOOP_OTHERS + LOOP_TURNS * most;
}

/* Has a block of teams that are twice as large registers enough? */
static bool may_double(const CudaSchedule *s, uint32_t width,
                       uint32_t registers) {
  return s->team < THREADS_MOST && 2 * s->team * width * registers <= REGISTERS;
}

static void choose_across(const Kernel *k, const CudaTarget *target,
                          CudaSchedule *s) {
  double points = points_of(k), row = longest_row(k);
  double full = (double)target->processors * FULL;
  uint32_t registers = loop_registers(k);
  s->across = true;
  while (s->team < WARP && may_double(s, WARP, registers) &&
         points * s->team < full && row >= 2.0 * TERMS_LEAST * s->team)
    s->team *= 2;
  s->threads = s->team * WARP < THREADS ? THREADS : s->team * WARP;
}

static uint32_t words_of(Dtype t) {
  return dtype_info[t].bytes == 8 ? 2 : 1;
}

static bool has_read(const Kernel *k, uint32_t from, uint32_t to,
                     const Step *s) {
  for (uint32_t j = from; j < to; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      const Step *x = &k->loops.at[j]->steps.at[i];
      if (x->kind == STEP_READ && x->input == s->input &&
          quasi_equal(x->address, s->address))
        return true;
    }
  return false;
}

static bool has_local(const Kernel *k, uint32_t from, uint32_t loop,
                      uint32_t result) {
  for (uint32_t j = from; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      const Step *s = &k->loops.at[j]->steps.at[i];
      if (s->kind == STEP_LOCAL && s->loop == loop && s->result == result)
        return true;
    }
  return false;
}

/* Registers for each element of a row that a thread keeps behind a loop, which
 * is the pass's `first` and that many: inputs that were read and will be again,
 * and results that later loops read. */
static uint32_t words_behind(const Kernel *k, uint32_t first, uint32_t at) {
  uint32_t words = 0;
  for (uint32_t j = 0; j <= at; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *s = &loop->steps.at[i];
      if (s->kind == STEP_READ && !s->index_count && !has_read(k, 0, j, s) &&
          has_read(k, at + 1, k->loops.len, s))
        words += words_of(s->dtype);
    }
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      if (r->local && r->local_size != 1 && has_local(k, at + 1, first + j, i))
        words += words_of(r->dtype);
    }
  }
  return words;
}

static uint32_t kept_registers(const Kernel *k, uint32_t first) {
  uint32_t most = 1;
  for (uint32_t j = 0; j + 1 < k->loops.len; j++) {
    uint32_t words = words_behind(k, first, j);
    most = words > most ? words : most;
  }
  return most;
}

static bool is_simple_row(const Loop *loop) {
  return loop->axes == loop->outer || loop->kept == loop->outer ||
         loop->kept == loop->axes;
}

/* So many times a vector of a row, for sizes that are like each other alike. */
static uint32_t times_of(double row, const CudaSchedule *s) {
  uint32_t times = (uint32_t)ceil(row / ((double)s->team * s->vector));
  return times <= 4 ? power_up(times) : (times + 1) / 2 * 2;
}

static bool may_hold(const CudaPass *p, double row, const CudaSchedule *s) {
  double room = REGISTERS / s->threads - HELD_OTHERS;
  if (ceil(row / ((double)s->team * s->vector)) * s->vector > HELD_MOST)
    return false;
  return times_of(row, s) * s->vector * kept_registers(p->k, p->first) <=
         fmin(HELD_MOST * 2.0, room);
}

static bool has_open_rows(const Kernel *k) {
  bool open = false;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t v = k->outer; v < k->loops.at[j]->axes; v++)
      open |= !size_is_number(k->graph, k->loops.at[j]->extents[v]);
  return open;
}

/* Rows that many threads have too few registers for may do for fewer. */
static void choose_held(const CudaPass *p, double row, CudaSchedule *s) {
  const Kernel *k = p->k;
  CudaSchedule half = *s;
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (!is_simple_row(k->loops.at[j]))
      return;
  if (k->loops.len < 2 || has_open_rows(k))
    return;
  half.team = half.threads = s->threads / 2;
  if (!may_hold(p, row, s) && s->team == THREADS_MOST &&
      may_hold(p, row, &half))
    *s = half;
  if (may_hold(p, row, s))
    s->held = times_of(row, s);
}

static void choose_rows(const CudaPass *p, const CudaTarget *target,
                        CudaSchedule *s) {
  const Kernel *k = p->k;
  uint32_t axes[KERNEL_LOOPS], registers = loop_registers(k);
  double row = longest_row(k), points = points_of(k), cost;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    bool apart = loop->kept > loop->outer && loop->axes > loop->kept;
    axes[j] = apart ? NO_LANE : best_inner(k->arena, loop, &cost);
  }
  s->vector = choose_vector(k, axes, row, 1);
  double items = ceil(row / s->vector);
  s->team = items <= WARP ? power_up(items) : WARP;
  if (items > 2 * ITEMS_LEAST * WARP)
    s->team = THREADS;
  while (s->team >= WARP && may_double(s, 1, registers) &&
         (items > 2.0 * ITEMS_LEAST * s->team ||
          (points * s->team < (double)target->processors * FULL / 2 &&
           items >= 2.0 * s->team)))
    s->team *= 2;
  while (k->loops.len > 1 && s->team >= WARP && may_double(s, 1, registers) &&
         items * s->vector > (double)HELD_GOOD * s->team)
    s->team *= 2;
  s->threads = s->team > THREADS ? s->team : THREADS;
  choose_held(p, row, s);
}

void cuda_schedule(CudaPass *p, const CudaTarget *target, bool whole) {
  Kernel *k = p->k;
  CudaSchedule *s = &p->s;
  *s = (CudaSchedule){.team = 1, .vector = 1, .turned = NO_LANE};
  if (!has_inner(k)) {
    choose_points(k, target, s);
    return;
  }
  s->shape = CUDA_TEAM;
  uint32_t lane = best_outer(k, true);
  if (lane != NO_LANE) {
    kernel_move_last(k, lane);
    choose_across(k, target, s);
  } else {
    choose_rows(p, target, s);
  }
  if (!whole && may_be_chunked(k))
    choose_chunk(k, target, s);
}

/* ---- as text ---- */

void cuda_schedule_put(Buffer *out, const CudaSchedule *s) {
  switch (s->shape) {
  case CUDA_POINTS:
    buffer_printf(out, "points");
    break;
  case CUDA_TURNED:
    buffer_printf(out, "squares of %u turned along i%u", s->side, s->turned);
    break;
  case CUDA_TEAM:
    buffer_printf(out, "teams of %u%s", s->team,
                  s->across ? " across points" : "");
    break;
  case CUDA_TILE:
    cuda_tile_print(out, s->tile);
    return;
  case CUDA_ATTEND:
    cuda_attend_print(out, s->attend);
    return;
  case CUDA_ROUTINE:
    buffer_printf(out, "%s", s->what);
    break;
  case CUDA_SHAPES:
    break;
  }
  buffer_printf(out, ", blocks of %u", s->threads);
  if (s->vector > 1)
    buffer_printf(out, ", %u elements at once", s->vector);
  if (s->held)
    buffer_printf(out, ", rows in registers, %u each", s->held * s->vector);
  if (s->online)
    buffer_puts(out, ", sums online");
  if (s->chunk)
    buffer_printf(out, ", sums of %lld terms", (long long)s->chunk);
}
