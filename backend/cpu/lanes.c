/* Along which axis the lanes of vectors lie: what each would cost. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/emit.h"

#include <math.h>

static bool is_wide(const Step *s) {
  return s->dtype == DT_F64 || (s->dtype == DT_I64 && s->kind != STEP_INDEX &&
                                s->kind != STEP_CONST && !emit_fits_narrow(s));
}

/* Is it nothing but an index of reads? */
static bool is_index_alone(const Loop *loop, uint32_t at) {
  if (loop->steps.at[at].kind != STEP_READ)
    return false;
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (loop->results.at[j].step == at)
      return false;
  for (uint32_t j = at + 1; j < loop->steps.len; j++)
    for (uint32_t a = 0; a < loop->steps.at[j].arg_count; a++)
      if (loop->steps.at[j].args[a] == at)
        return false;
  return true;
}

bool lanes_wide(const Kernel *k, const uint32_t *lanes) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    const uint64_t *depends = lanes ? loop_depends(k->arena, loop) : NULL;
    for (uint32_t i = 0; i < loop->steps.len; i++)
      if (is_wide(&loop->steps.at[i]) &&
          (lanes ? depends[i] >> lanes[j] & 1 : !is_index_alone(loop, i)))
        return true;
  }
  return false;
}

/* ---- what lanes along an axis cost ---- */

static bool reduces(const Loop *loop) {
  return loop->axes > loop->kept;
}

enum {
  APART_STORED = 2,        /* lanes apart that are stored, beside read ones */
  MASKED_WIDTH = 16,       /* lanes of which any may be stored */
  WAIT_COST = 40,          /* of lanes put together for a place, or for what
                              waits for it, */
  SUM_COST = 12,           /* or for memory: in loads of a vector */
  TURN_COST = 5,           /* of a vector of a square that is turned, */
  EDGE_COST = 12,          /* and of a row of a tile that is not whole */
  COPIED_LEAST = 4,        /* vectors of a unit whose reads are copied, in */
  COPIED_BYTES = 32 << 10, /* so many bytes of the nearest cache, */
  COPIED_UNITS = 16,       /* of at least so many units; */
  ROWS_BYTES = 512 << 10,  /* so many bytes of rows that lanes leave for each
                              other, of another cache, */
  ROWS_MOST = 8 << 20,     /* or so many of memory, at a time */
  FAR_COST = 6,            /* of a vector of these */
  EVEN_LANES = 4, /* vectors of a quotient's value, of which one is not even */
  TURNED_COST = 2,   /* of a vector whose lanes are turned round, */
  QUOTIENT_COST = 3, /* in loads of a vector */
};

static double access_cost(int64_t step, double width) {
  return step == 0 ? 0.5 : step == 1 ? 1 : width;
}

/* Lanes near to each other are loaded with what lies between them, and turned
 * round where they go down. */
static double load_cost(int64_t step, double width) {
  if (step == -1)
    return fmin(TURNED_COST, width);
  return step > 1 && step <= NEAR_STEPS && step < width
             ? (double)step
             : access_cost(step, width);
}

/* Lanes near to each other are stored by parts of a vector, where there are
 * masks for that. */
static double store_cost(int64_t step, double width) {
  return step > 1 && step <= NEAR_STEPS && width >= MASKED_WIDTH
             ? (double)step
             : access_cost(step, APART_STORED * width);
}

/* Quotients that differ along v: mostly they are the same in all lanes, and
 * that is tested, or else lanes are read one by one. */
static double quotient_cost(const Loop *loop, const Quasi *q, uint32_t v,
                            double width) {
  double cost = 0;
  for (uint32_t j = 0; j < loop->quotient_count; j++) {
    const Quotient *part = &loop->quotients[j];
    if (!q->times[KERNEL_AXES + j])
      continue;
    for (uint32_t i = 0; i < j; i++)
      if (part->of.times[KERNEL_AXES + i] && loop->quotients[i].of.times[v])
        return width;
    const Graph *g = loop->graph;
    double times = fabs((double)size_guess(g, part->of.times[v]));
    if (times > 0 &&
        (double)size_guess(g, part->by) < EVEN_LANES * width * times)
      return width;
    cost += times > 0 ? QUOTIENT_COST : 0;
  }
  return cost;
}

/* An index that data decides is a lane by lane one; one that is computed goes
 * along with the lanes. */
static double read_cost(const Loop *loop, const uint64_t *depends,
                        const Step *s, uint32_t v, double width) {
  int64_t step = s->address->times[v];
  double quotients = quotient_cost(loop, s->address, v, width);
  if (quotients >= width)
    return quotients;
  for (uint32_t j = 0; j < s->index_count; j++) {
    const Step *index = &loop->steps.at[s->indices[j].step];
    if (!(depends[s->indices[j].step] >> v & 1))
      continue;
    if (index->kind != STEP_INDEX)
      return width;
    int64_t more;
    if (!size_mul(loop->graph, index->index->times[v], s->indices[j].stride,
                  &more) ||
        !size_add(loop->graph, step, more, &step))
      return width;
  }
  return load_cost(step, width) + quotients;
}

bool lanes_where(const Loop *loop) {
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (loop->results.at[j].reduce == PRIM_ARGMAX ||
        loop->results.at[j].reduce == PRIM_ARGMIN)
      return true;
  return false;
}

static bool is_awaited(const Loop *loop) {
  bool local = false;
  for (uint32_t j = 0; j < loop->results.len; j++)
    local |= loop->results.at[j].local != NULL;
  return local || lanes_where(loop);
}

/* Of one vector that is copied so that lanes are next to each other. */
static double copy_cost(const Loop *loop, const Quasi *q, double width) {
  double next = 1;
  for (uint32_t v = loop->outer; v < loop->axes; v++)
    if (q->times[v] == 1)
      next = (double)loop_guess(loop, v);
  double turned = TURN_COST * width / fmin(next, width);
  return 1 + fmin(turned, 1.5 * width);
}

/* Of a read of lanes that are apart, or of a copy of it that many points of the
 * loop share. */
static double apart_cost(const Loop *loop, const Step *s, uint32_t v,
                         double width, double cost) {
  double numbers;
  if (v >= loop->outer || !loop_reads_apart(loop, s, v, &numbers))
    return cost;
  double points = loop_points(loop, loop->outer, loop->axes);
  double copied = 1 + copy_cost(loop, s->address, width) * numbers / points;
  return s->address->times[v] <= NEAR_STEPS ? fmin(cost, copied) : copied;
}

/* Of one point of the loop's axes, in loads of a whole vector.  copies: what is
 * apart may be copied. */
static double lane_cost(const Loop *loop, const uint64_t *depends, uint32_t v,
                        uint32_t width, bool copies) {
  double cost = 1, extent = (double)loop_guess(loop, v), w = width;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_READ) {
      double read = read_cost(loop, depends, s, v, w);
      cost += copies ? apart_cost(loop, s, v, w, read) : read;
    }
    if (s->kind == STEP_LOCAL)
      cost += v < loop->outer ? 1 : load_cost(s->address->times[v], w);
  }
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if (copies && v < loop->outer && loop_stores_apart(loop, r, v))
      cost += 1 + copy_cost(loop, r->out, w);
    else if (r->out && v < loop->kept && !reduces(loop))
      cost += store_cost(r->out->times[v], w);
  }
  double vectors = (double)divide_up(loop_guess(loop, v), width);
  cost *= vectors * w / extent;
  if (reduces(loop) && v < loop->kept)
    cost += 1;
  else if (reduces(loop))
    cost += (is_awaited(loop) ? WAIT_COST : SUM_COST) * w / extent;
  return cost;
}

/* ---- copies ---- */

typedef struct Apart { /* reads of a kernel whose lanes are apart */
  uint32_t count;      /* of different ones */
  bool stores;         /* results that are stored, too */
  uint32_t inputs[KERNEL_VARS];
  double bytes, numbers[KERNEL_VARS]; /* of one outer point */
} Apart;

static void add_apart(Apart *a, const Step *s, double numbers) {
  for (uint32_t j = 0; j < a->count; j++)
    if (a->inputs[j] == s->input && a->numbers[j] == numbers)
      return;
  if (a->count < KERNEL_VARS) {
    a->inputs[a->count] = s->input;
    a->numbers[a->count++] = numbers;
  }
  a->bytes += numbers * dtype_info[s->dtype].bytes;
}

static void add_stored(Apart *a, const Loop *loop, const Result *r,
                       uint32_t v) {
  if (!loop_stores_apart(loop, r, v))
    return;
  a->stores = true;
  if (!r->local)
    a->bytes +=
        loop_points(loop, loop->outer, loop->kept) * dtype_info[r->dtype].bytes;
}

static bool has_products(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->kept > k->outer && loop_is_product(k->loops.at[j]))
      return true;
  return false;
}

double lanes_least(const Kernel *k, uint32_t v, uint32_t width) {
  double least = COPIED_LEAST * (double)width;
  return kernel_local_bytes(k, true) * least <= ROWS_BYTES &&
                 loop_points(k->loops.at[0], v, v + 1) >= COPIED_UNITS * least
             ? least
             : width;
}

bool lanes_copied(const Kernel *k, uint32_t v, uint32_t width) {
  Apart a = {0};
  double numbers;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++)
      if (loop_reads_apart(loop, &loop->steps.at[i], v, &numbers))
        add_apart(&a, &loop->steps.at[i], numbers);
    for (uint32_t i = 0; i < loop->results.len; i++)
      add_stored(&a, loop, &loop->results.at[i], v);
  }
  double points = loop_points(k->loops.at[0], v, v + 1);
  double least = lanes_least(k, v, width), rows = kernel_local_bytes(k, true);
  if (width == 1 || (a.count == 0 && !a.stores) ||
      points < COPIED_UNITS * least)
    return false;
  return has_products(k)
             ? least > width && (a.bytes + rows) * least <= COPIED_BYTES
             : a.bytes * least <= COPIED_BYTES && rows * least <= ROWS_MOST;
}

/* ---- the best ---- */

uint32_t lanes_inner(Arena *arena, const Loop *loop, uint32_t width,
                     double *cost) {
  const uint64_t *depends = loop_depends(arena, loop);
  uint32_t best = NO_LANE;
  *cost = width;
  for (uint32_t v = loop->outer; v < loop->axes; v++) {
    double c = lane_cost(loop, depends, v, width, false);
    if (lanes_where(loop) && reduces(loop) && v + 1 < loop->axes)
      continue; /* the first of equals is to be found */
    if (best == NO_LANE || c <= *cost) {
      *cost = c;
      best = v;
    }
  }
  return best;
}

static double work_of(const Loop *loop) {
  return loop_points(loop, 0, loop->axes);
}

static double inner_cost(const Kernel *k, uint32_t width) {
  double all = 0, cost;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    lanes_inner(k->arena, k->loops.at[j], width, &cost);
    all += cost * work_of(k->loops.at[j]);
  }
  return all;
}

static double outer_cost(const Kernel *k, uint32_t v, uint32_t width) {
  bool copies = lanes_copied(k, v, width);
  bool far = copies && kernel_local_bytes(k, true) * width > ROWS_BYTES;
  double all = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    all += work_of(loop) *
           lane_cost(loop, loop_depends(k->arena, loop), v, width, copies);
    for (uint32_t i = 0; i < loop->results.len && far; i++)
      if (loop->results.at[i].local)
        all += FAR_COST * loop_points(loop, 0, loop->kept);
  }
  return all;
}

uint32_t lanes_best(const Kernel *k, uint32_t width) {
  bool inner = k->outer == 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    inner |= k->loops.at[j]->axes > k->outer;
  double best = inner ? inner_cost(k, width) : 0;
  uint32_t lane = NO_LANE;
  for (uint32_t v = k->outer; v-- > 0;) {
    double cost = outer_cost(k, v, width);
    if ((lane == NO_LANE && !inner) || cost < best) {
      best = cost;
      lane = v;
    }
  }
  return lane;
}

/* ---- products of few columns ---- */

/* Terms of tiles, whose last columns may not be whole, */
static double tile_cost(const Loop *loop, double width) {
  double columns = (double)loop_guess(loop, loop->kept - 1);
  double vectors = ceil(columns / width);
  double terms = loop_points(loop, loop->kept, loop->axes);
  bool whole = vectors * width == columns;
  return work_of(loop) / (columns * terms) * vectors * width *
         (1.2 * terms + (whole ? 0 : EDGE_COST));
}

/* and of lanes along an outer axis: each is a load, a product and a sum. */
static double column_cost(const Loop *loop, uint32_t v, double width) {
  double cost = 1.5, points = loop_points(loop, loop->outer, loop->axes);
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    double numbers;
    const Step *s = &loop->steps.at[j];
    if (loop_reads_apart(loop, s, v, &numbers))
      cost += copy_cost(loop, s->address, width) * numbers / points;
  }
  return cost * work_of(loop);
}

static double tiles_cost(const Kernel *k, uint32_t width) {
  double all = 0, cost;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    lanes_inner(k->arena, loop, width, &cost);
    all +=
        loop_is_product(loop) ? tile_cost(loop, width) : cost * work_of(loop);
  }
  return all;
}

static double columns_cost(const Kernel *k, uint32_t v, uint32_t width) {
  double all = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    const uint64_t *depends = loop_depends(k->arena, loop);
    all += loop_is_product(loop)
               ? column_cost(loop, v, width)
               : lane_cost(loop, depends, v, width, true) * work_of(loop);
  }
  return all;
}

uint32_t lanes_across(const Kernel *k, uint32_t width) {
  if (k->across || !has_products(k))
    return k->across ? k->outer - 1 : NO_LANE;
  double best = tiles_cost(k, width);
  uint32_t lane = NO_LANE;
  for (uint32_t v = k->outer; v-- > 0;) {
    double cost = lanes_copied(k, v, width) ? columns_cost(k, v, width) : best;
    if (cost < best) {
      best = cost;
      lane = v;
    }
  }
  return lane;
}
