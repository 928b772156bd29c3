/* How a kernel is to be run, from what it reads and how. */
#include "backend/cpu/emit.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/members.h"
#include "backend/cpu/tiling.h"
#include "tensor/cost.h"

#include <math.h>
#include <stdlib.h>

enum {
  SPLIT_UNITS = 16,         /* fewer pieces than that, of */
  SPLIT_WORK = 1 << 17,     /* more work than that: sums are cut */
  CHUNK_WORK = 1 << 15,     /* into parts of at least so many terms, */
  TERMS_LEAST = 64,         /* columns: of so many rows, */
  CHUNKS_MOST = 64,         /* at most so many, */
  UNIT_WORK_MOST = 1 << 24, /* but of no more: Ctrl-C waits for a part */
  FEW_TERMS = 512,          /* of a sum that stays in registers */
  FAR_BYTES = 4096,         /* terms so far apart, a page, are read */
  FAR_TERMS = 4,            /* so many at a time, */
  FAR_VECTORS = 512,        /* in rows of so many vectors */
  COLUMN_VECTORS = 64,      /* accumulators of a unit of columns */
  LOCAL_BYTES = 256 << 10,  /* local values of a unit of columns, */
  NEAR_BYTES = 32 << 10,    /* and where some are copies of what it reads */
  SHARED_BYTES = 1 << 20,   /* of a tensor whose rows points share */
  BLOCKS = 64,              /* of a map with few rows, */
  TURNED_STEP = 8,          /* elements between lanes that are far apart */
  TURNED_SIDE = 64,         /* of a square that is turned */
  BLOCK_LEAST = 2048,       /* each at least so long */
};

uint32_t target_vector_bytes(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 64;
  return __builtin_cpu_supports("avx2") ? 32 : 16;
#else
  return 16;
#endif
}

uint32_t schedule_held(uint32_t vector_bytes) {
  return vector_bytes == 64 ? 16 : 8;
}

/* ---- sizes of units ---- */

static double points_of(const Kernel *k) {
  return loop_points(k->loops.at[0], 0, k->outer);
}

static bool reduces(const Loop *loop) {
  return loop->axes > loop->kept;
}

static double work_of(const Loop *loop) {
  return loop_points(loop, 0, loop->axes);
}

/* Can the sums be cut into parts? */
static bool may_be_chunked(const Kernel *k) {
  const Loop *loop = k->loops.at[0];
  return k->loops.len == 1 && loop->results.len == 1 && reduces(loop) &&
         loop->kept == loop->outer && loop->results.at[0].out;
}

/* Do the terms of long sums lie in memory page by page? */
static bool terms_are_far(const Kernel *k) {
  const Loop *loop = k->loops.at[0];
  if (!may_be_chunked(k) || work_of(loop) < SPLIT_WORK)
    return false;
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (loop->steps.at[j].kind == STEP_READ && loop->steps.at[j].index_count)
      return false;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    for (uint32_t v = loop->kept; s->kind == STEP_READ && v < loop->axes; v++)
      if (size_guess(loop->graph, s->address->times[v]) >=
          FAR_BYTES / dtype_info[s->dtype].bytes)
        return true;
  }
  return false;
}

static int64_t column_block(const Kernel *k, const Schedule *s) {
  uint32_t width = s->width;
  int64_t extent = loop_guess(k->loops.at[0], k->outer - 1), block;
  double rows = points_of(k) / (double)extent,
         local = kernel_local_bytes(k, true);
  bool sums = false;
  double terms = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    double each = work_of(k->loops.at[j]) / points_of(k);
    sums |= reduces(k->loops.at[j]);
    terms = each > terms ? each : terms;
  }
  block = extent;
  if (terms_are_far(k)) {
    int64_t most = FAR_VECTORS * width;
    return extent < most ? divide_up(extent, width) * width : most;
  }
  if (rows < BLOCKS) {
    block = divide_up((int64_t)((double)extent * rows), BLOCKS);
    block = block < BLOCK_LEAST && !sums ? BLOCK_LEAST : block;
  }
  int64_t most = terms <= FEW_TERMS || k->across
                     ? schedule_held(s->bytes) * width
                     : COLUMN_VECTORS * width;
  double bytes = k->across ? NEAR_BYTES : LOCAL_BYTES;
  if ((sums || k->across) && block > most)
    block = most;
  if (local * (double)block > bytes)
    block = (int64_t)(bytes / local) / width * width;
  int64_t least = 4 * width;
  if (k->across)
    least = (int64_t)lanes_least(k, k->outer - 1, width);
  block = block < least ? least : block;
  return divide_up(block < extent ? block : extent, width) * width;
}

static void choose_chunk(const Kernel *k, Schedule *s) {
  const Loop *loop = k->loops.at[0];
  if (!may_be_chunked(k))
    return;
  double units = points_of(k), work = work_of(loop);
  if (s->shape == UNIT_COLUMNS)
    units /= (double)s->block;
  if (units >= SPLIT_UNITS || work < SPLIT_WORK)
    return;
  int64_t extent = loop_guess(loop, loop->kept);
  double each = work / points_of(k) / (double)extent;
  if (s->shape == UNIT_COLUMNS)
    each *= (double)s->block;
  int64_t chunk = (int64_t)(CHUNK_WORK / each) + 1;
  int64_t least = divide_up(extent, CHUNKS_MOST);
  if (s->shape == UNIT_COLUMNS && least < TERMS_LEAST)
    least = TERMS_LEAST;
  chunk = chunk > least ? chunk : least;
  int64_t most = (int64_t)(UNIT_WORK_MOST / each) + 1;
  s->chunk = chunk < most ? chunk : most;
}

/* The outer axis along which a read lies next to each other that lanes take
 * apart; NO_LANE: there is none, or more to do than to move. */
static uint32_t turned_axis(const Kernel *k, uint32_t lane) {
  uint32_t found = NO_LANE;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    if (loop->axes > k->outer)
      return NO_LANE;
    const uint64_t *depends = loop_depends(k->arena, loop);
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *s = &loop->steps.at[i];
      if (s->kind != STEP_READ || s->address->times[lane] < TURNED_STEP)
        continue;
      for (uint32_t v = 0; v < k->outer; v++)
        if (v != lane && loop_reads_line(loop, depends, s, v) &&
            loop_guess(loop, v) >= 8)
          found = v;
    }
  }
  return found;
}

/* ---- points that read the same ---- */

typedef struct Reads { /* of a kernel */
  const Step *far;     /* of the largest tensor, */
  double most, rest;   /* bytes of that, and of all others */
} Reads;

static Reads reads_of(const Kernel *k) {
  Reads r = {0};
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      const Step *s = &k->loops.at[j]->steps.at[i];
      if (s->kind != STEP_READ || (r.far && s->node == r.far->node))
        continue;
      double bytes = node_guess(k->graph, s->node) * dtype_info[s->dtype].bytes;
      bool more = bytes > r.most;
      r.rest += more ? r.most : bytes;
      r.most = more ? bytes : r.most;
      r.far = more ? s : r.far;
    }
  return r;
}

/* Has neighbours read the same row of a tensor that caches of a core do not
 * hold, where they hold all else: each row is there once, and not again when
 * others have been read. */
static void share_rows(Kernel *k) {
  Reads r = reads_of(k);
  if (k->outer < 2 || r.most <= SHARED_BYTES || r.rest > SHARED_BYTES / 2 ||
      r.far->index_count)
    return;
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (r.far->address->times[v])
      return;
  for (uint32_t v = k->outer; v-- > 0;)
    if (!r.far->address->times[v]) {
      kernel_move_last(k, v);
      return;
    }
}

/* ---- results past the caches ---- */

/* How much a kernel may read and write, in last caches, before its results go
 * past them.  To store them there saves that their lines are read first, and
 * what else is in the caches; but what reads them next has to wait for memory,
 * and memory is slower than a cache that has a part of it: a copy of half as
 * much again as the last cache takes three quarters of the time, one of three
 * times as much a fifth more.  Where arithmetic takes longer than memory, that
 * gains nothing, and to wait for lines to be read is a loss. */
static double caches_kept(const Cost *cost) {
  double bytes = cost->read + cost->written;
  bool waits = cost->products + cost->others < 1.5 * bytes;
  return waits ? 2 : 0.75;
}

/* Bytes from which a result is stored past the caches.  Short rows are not:
 * each end of one is a part of a line.  (Tests ask for all.) */
static double choose_streamed(const Kernel *k) {
  if (kernel_is_open(k) && !k->large)
    return INFINITY; /* nobody knows */
  const char *asked = getenv("AXON_STREAM");
  if (asked && *asked)
    return strtod(asked, NULL);
  /* it is shared with others */
  double cache = k->large ? SCHEDULE_LARGE : (double)machine()->cache[2];
  Cost cost = cost_of(k);
  bool far = cost.read + cost.written > caches_kept(&cost) * cache;
  return cache > 0 && far ? cache / 4 : INFINITY;
}

bool schedule_streams(const Schedule *s, const Graph *g, const Result *r) {
  double bytes = node_guess(g, r->node) * dtype_info[r->dtype].bytes;
  return s->width > 1 && bytes > s->streamed;
}

bool schedule_streams_along(const Schedule *s, const Loop *loop,
                            const Result *r, uint32_t lane) {
  double each = dtype_info[r->dtype].bytes;
  return schedule_streams(s, loop->graph, r) && lane < loop->axes &&
         r->out->times[lane] == 1 &&
         (s->streamed == 0 ||
          (double)loop_guess(loop, lane) * each >= SCHEDULE_STREAM_ROW);
}

static void choose_plain(Kernel *k, Schedule *s, uint32_t lane) {
  uint32_t turned = lane == NO_LANE ? NO_LANE : turned_axis(k, lane);
  if (turned != NO_LANE) { /* by squares, whose lines stay in the cache */
    kernel_move_last(k, turned);
    kernel_move_last(k, lane - (lane > turned));
    s->shape = UNIT_TILE;
    s->block = TURNED_SIDE;
    s->height = TURNED_SIDE;
    s->turned = true;
  } else if (lane != NO_LANE) {
    kernel_move_last(k, lane);
    if (!lanes_copied(k, k->outer - 1, s->width) && sums_choose(k, s))
      return;
    s->shape = UNIT_COLUMNS;
    s->block = column_block(k, s);
    s->terms = terms_are_far(k) ? FAR_TERMS : 1;
  }
  choose_chunk(k, s);
  if (s->shape != UNIT_POINT || s->chunk)
    return;
  share_rows(k);
  kernel_limit(k, false);
}

static uint32_t lane_of(const Kernel *k, const Loop *loop, const Schedule *s) {
  double cost;
  if (loop->copy == COPY_OUT)
    return loop->next;
  return s->shape == UNIT_COLUMNS || s->shape == UNIT_TILE
             ? k->outer - 1
             : lanes_inner(k->arena, loop, s->width, &cost);
}

static void place_lanes(const Kernel *k, Schedule *s) {
  s->lanes = NEW_ARRAY(k->arena, uint32_t, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    s->lanes[j] = lane_of(k, k->loops.at[j], s);
}

static void choose(Kernel *k, uint32_t bytes, Schedule *s, uint32_t width) {
  *s = (Schedule){.bytes = bytes, .shape = UNIT_POINT, .block = 1};
  s->width = width ? width : 1;
  s->height = 1;
  s->streamed = choose_streamed(k);
  uint32_t across = lanes_across(k, s->width);
  if (across != NO_LANE)
    choose_plain(k, s, across);
  else if (!members_choose(k, s) && !tiling_choose(k, s))
    choose_plain(k, s, lanes_best(k, s->width));
  place_lanes(k, s);
}

/* Has what lanes would read far apart copied first. */
static void choose_copies(Kernel *k, Schedule *s) {
  if (s->shape != UNIT_COLUMNS || s->chunk || k->across ||
      !lanes_copied(k, k->outer - 1, s->width))
    return;
  kernel_copy_apart(k, k->outer - 1);
  s->block = column_block(k, s);
  s->terms = 1;
  s->streamed = choose_streamed(k);
  place_lanes(k, s);
}

void schedule_choose(Kernel *k, uint32_t bytes, Schedule *s) {
  bool wide = lanes_wide(k, NULL);
  choose(k, bytes, s, wide ? bytes / 8 : bytes / 4);
  if (!wide && !s->tiling && lanes_wide(k, s->lanes))
    choose(k, bytes, s, bytes / 8);
  choose_copies(k, s);
}
