/* Counts what a scheduled loop nest does: instructions by body, and the data
 * that its loops move between caches. */
#include "backend/cpu/cost.h"

#include "kernel/nest.h"
#include "machine/limits/planner.h"
#include "support/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  LOOP_INSTRUCTIONS = 3, /* step, comparison and branch */
  LINE_BYTES = 64,
  MAX_ACCESSES = 64,
  PREDICTED_TRIPS = 16,   /* iterations of a loop whose end is predicted */
  MAX_STREAMS = 64,       /* rows that the core can continue */
  REORDER_WINDOW = 224,   /* instructions that a core has in flight */
  MASK_INSTRUCTIONS = 13, /* that make the mask of a load or store */
  FORWARD_TERMS = 2, /* latency of a load of what was stored, in additions */
};
/* The start of a loop whose end is predicted, in calls. */
static const double PREDICTED_COST = 0.1;

typedef struct Access { /* of a tensor or a local buffer */
  const void *of;       /* identifies it */
  const AffineExpr *address;
  double element_bytes, transfers; /* a store is read and written */
  bool is_gather;
} Access;

typedef struct NestCount {
  const Kernel *kernel;
  const Schedule *schedule;
  const Nest *nest;
  const LoopNest *spec;
  const uint64_t *depends; /* axes, by op */
  uint32_t lanes;          /* the loop over lanes, or NO_LOOP */
  double trips[MAX_NEST_LOOPS];
  /* by loop: indices of its axis that the loop and those inside cover */
  double covered[MAX_NEST_LOOPS];
  double bodies; /* iterations of all loops that are not unrolled */
  uint32_t access_count;
  Access accesses[MAX_ACCESSES];
} NestCount;

/* ---- iterations ---- */

/* An axis that `stream` or `flatten` makes counts as one iteration. */
static void find_trips(NestCount *c) {
  double left[MAX_NEST_AXES];
  for (uint32_t v = 0; v < MAX_NEST_AXES; v++)
    left[v] = 1;
  for (uint32_t v = 0; v < c->spec->axis_count; v++)
    left[v] = (double)loop_extent_hint(c->spec, v) *
              (c->spec->trim_bounds && v == c->spec->trimmed_axis
                   ? c->spec->trip_fraction
                   : 1);
  c->bodies = 1;
  for (uint32_t j = 0; j < c->nest->loop_count; j++) {
    const NestLoop *l = &c->nest->loops[j];
    double step = (double)l->step, all = fmax(left[l->axis], 1);
    bool is_whole =
        l->tail == TAIL_MASK || l->tail == TAIL_CLAMP || l->tail == TAIL_SHIFT;
    c->covered[j] = all;
    c->trips[j] = is_whole ? ceil(all / step) : fmax(1, all / step);
    left[l->axis] = fmin(all, step);
    if (l->run != NEST_UNROLL && j != c->lanes)
      c->bodies *= c->trips[j];
  }
}

static bool depends_on(uint64_t axes, const NestLoop *l) {
  return axes >> l->axis & 1;
}

/* How often code with these axes runs.  It is outside of loops over other axes,
 * and the copies of an unrolled loop share it. */
static double executions(const NestCount *c, uint64_t axes) {
  double count = 1;
  bool is_inside = false, is_shared = true;
  for (uint32_t j = c->nest->loop_count; j-- > 0;) {
    const NestLoop *l = &c->nest->loops[j];
    bool depends = depends_on(axes, l);
    is_inside |= depends;
    is_shared &= l->run == NEST_UNROLL || j == c->lanes;
    if (!is_inside || j == c->lanes || (is_shared && !depends))
      continue;
    count *= c->trips[j];
  }
  return count;
}

/* Rows that overlap load each input row once. */
static double streamed_share(const NestCount *c, uint64_t axes) {
  const NestStream *s = &c->nest->stream;
  if (s->row_axis == NO_LOOP || !(axes >> s->row_axis & 1) ||
      !(axes >> s->term_axis & 1))
    return 1;
  uint32_t row = nest_find(c->nest, s->row_axis, 0);
  if (row == NO_LOOP || c->nest->loops[row].run != NEST_UNROLL)
    return 1;
  double rows = c->trips[row],
         terms = (double)loop_extent_hint(c->spec, s->term_axis);
  return (double)stream_input_rows(c->spec, s, (int64_t)rows) / (rows * terms);
}

/* ---- instructions ---- */

/* Instructions that load or store one vector with a stride. */
static double access_instructions(const NestCount *c, const AffineExpr *address,
                                  bool is_gather) {
  if (c->lanes == NO_LOOP)
    return 1;
  double width = c->trips[c->lanes];
  int64_t stride = address->coef[c->nest->loops[c->lanes].axis];
  if (is_gather)
    return width;
  return stride == 0 || stride == 1 ? 1
         : stride == -1             ? 2
         : stride > 1 && stride <= MAX_DEINTERLEAVE && stride < (int64_t)width
             ? (double)stride
             : width;
}

static void add_access(NestCount *c, const void *of, const AffineExpr *address,
                       Dtype t, double transfers, bool is_gather) {
  for (uint32_t j = 0; j < c->access_count; j++) {
    const Access *a = &c->accesses[j];
    if (a->of == of && a->transfers == transfers &&
        memcmp(a->address->coef, address->coef, sizeof address->coef) == 0)
      return;
  }
  if (c->access_count < MAX_ACCESSES)
    c->accesses[c->access_count++] =
        (Access){.of = of,
                 .address = address,
                 .element_bytes = dtype_info[t].bytes,
                 .transfers = transfers,
                 .is_gather = is_gather};
}

static void count_op(NestCount *c, uint32_t op, CostBody *body) {
  const KernelOp *s = &c->spec->ops.at[op];
  double times = executions(c, c->depends[op]) / c->bodies;
  bool is_gather = s->kind == KOP_LOAD && s->checked_index_count > 0;
  switch (s->kind) {
  case KOP_CONST:
  case KOP_AFFINE:
    break;
  case KOP_LOAD:
  case KOP_LOAD_LOCAL: {
    double each = access_instructions(c, s->address, is_gather);
    times *= streamed_share(c, c->depends[op]);
    body->loads += each * times;
    body->others += each > 1 ? each * times : 0; /* shuffles */
    add_access(c,
               s->kind == KOP_LOAD ? (const void *)s->node
                                   : c->kernel->loops.at[s->source_loop],
               s->address, s->dtype, 1, is_gather);
    break;
  }
  case KOP_MAP:
    body->vectors += times * map_info[s->op].cost;
    break;
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    body->vectors += times;
    break;
  case KOP_RANDOM:
    body->vectors += times * RANDOM_COST;
    break;
  }
}

static uint64_t axes_below(uint32_t count) {
  return ((uint64_t)1 << count) - 1;
}

/* Additions of one reduction.  Accumulators that a loop indexes are in
 * memory. */
static void count_reduction(NestCount *c, const LoopOutput *r, CostBody *body) {
  const Nest *n = c->nest;
  uint64_t all = axes_below(c->spec->axis_count);
  double times = executions(c, all) / c->bodies, independent = 1, indexed = 1,
         terms = 1; /* that an accumulator in memory takes at once */
  bool in_memory = false;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    bool is_unrolled = n->loops[j].run == NEST_UNROLL;
    if (is_unrolled && j != c->lanes &&
        n->loops[j].axis >= c->spec->spatial_axes)
      terms *= c->trips[j];
    if (!nest_indexes_accumulators(n, j))
      continue;
    indexed *= c->trips[j];
    if (is_unrolled) {
      independent *= c->trips[j];
    } else {
      in_memory = true;
      terms = 1;
    }
  }
  double cost = reduce_info[r->reduce].cost;
  /* a product and its addition are one instruction */
  bool is_fused = n->fuses_products;
  body->vectors += times * (is_fused ? 0 : cost);
  if (in_memory ||
      independent > (double)vector_registers(c->schedule->vector_bytes)) {
    body->loads += times / terms;
    body->stores += times / terms;
    body->serial = fmax(body->serial,
                        times * cost * (1 + FORWARD_TERMS / terms) / indexed);
  } else {
    body->serial = fmax(body->serial, times * cost / independent);
  }
}

static void count_output(NestCount *c, const LoopOutput *r, CostBody *body) {
  uint64_t all = axes_below(c->spec->axis_count),
           spatial = axes_below(c->spec->spatial_axes);
  bool reduces = r->reduce != PRIM_NONE;
  uint32_t interleaved = nest_interleaved(c->nest);
  double woven = interleaved == NO_LOOP ? 1 : c->trips[interleaved];
  const AffineExpr *to[2] = {r->global_index, r->local_index};
  if (reduces)
    count_reduction(c, r, body);
  for (int j = 0; j < 2; j++) {
    if (!to[j])
      continue;
    double each = access_instructions(c, to[j], false), shuffles = each;
    double times = executions(c, reduces ? spatial : all) / c->bodies;
    if (woven > 1) {
      each = 1;
      shuffles = woven - 1;
    }
    body->stores += each * times;
    body->others += each > 1 || woven > 1 ? shuffles * times : 0;
    add_access(c, j ? (const void *)c->spec : (const void *)r->node, to[j],
               r->dtype, j ? 1 : 2, false);
  }
}

static void count_loops(NestCount *c, CostCounts *out, CostBody *body) {
  double outside = 1, starts = 1, inner = 1;
  for (uint32_t j = 0; j < c->nest->loop_count; j++) {
    const NestLoop *l = &c->nest->loops[j];
    if (l->run == NEST_UNROLL || j == c->lanes)
      continue;
    starts = outside;
    inner = c->trips[j];
    outside *= inner;
    body->others += LOOP_INSTRUCTIONS * outside / c->bodies;
  }
  /* the end of a longer loop is mispredicted */
  out->calls += starts * (inner > PREDICTED_TRIPS ? 1 : PREDICTED_COST);
}

/* Short sums overlap: the core runs ahead to the next ones. */
static void overlap_sums(const NestCount *c, CostBody *body) {
  const Nest *n = c->nest;
  double bodies = 1;
  for (uint32_t j = nest_accumulator_depth(n); j < n->loop_count; j++)
    if (n->loops[j].run != NEST_UNROLL && j != c->lanes &&
        !nest_indexes_accumulators(n, j))
      bodies *= c->trips[j];
  double instructions =
      bodies * (body->vectors + body->loads + body->stores + body->others);
  body->serial /= 1 + REORDER_WINDOW / instructions;
}

/* After each run, f32 sums are added to f64 sums, which are two vectors. */
static void count_runs(const NestCount *c, CostCounts *out) {
  double runs = 1;
  for (uint32_t j = 0; j < c->nest->loop_count; j++) {
    runs *= c->trips[j];
    if (c->nest->loops[j].is_run)
      cost_add_body(
          out,
          &(CostBody){.iterations = runs * (double)nest_accumulators(c->nest),
                      .vectors = 4,
                      .loads = 3,
                      .stores = 3,
                      .others = 2});
  }
}

/* Iterations without vectors, behind the last whole vector. */
static void count_peeled(const NestCount *c, CostCounts *out,
                         const CostBody *body) {
  if (c->lanes == NO_LOOP)
    return;
  uint32_t axis = c->nest->loops[c->lanes].axis;
  int64_t extent = loop_extent_hint(c->spec, axis),
          width = c->nest->loops[c->lanes].count;
  bool is_masked = c->nest->loops[c->lanes].tail == TAIL_MASK;
  for (uint32_t j = 0; j < c->nest->loop_count; j++)
    is_masked |=
        c->nest->loops[j].axis == axis && c->nest->loops[j].tail == TAIL_MASK;
  if (!width || extent % width == 0 || is_masked)
    return;
  CostBody rest = *body;
  rest.iterations *= (double)(extent % width) * (double)width / (double)extent;
  cost_add_body(out, &rest);
}

/* Each row ends with a tile that is not full, whose vectors have masks. */
static void count_masked_tiles(const NestCount *c, CostCounts *out,
                               const CostBody *body) {
  if (c->lanes == NO_LOOP)
    return;
  uint32_t axis = c->nest->loops[c->lanes].axis;
  for (uint32_t j = 0; j < c->nest->loop_count; j++) {
    const NestLoop *l = &c->nest->loops[j];
    double extent = (double)loop_extent_hint(c->spec, axis);
    if (l->axis == axis && l->tail == TAIL_IF &&
        fmod(extent, (double)l->step) > 0)
      cost_add_body(
          out,
          &(CostBody){.iterations = c->bodies / ceil(extent / (double)l->step),
                      .others = MASK_INSTRUCTIONS *
                                (body->loads + body->elements + body->stores)});
  }
}

/* ---- traffic ---- */

/* Indices of an axis that the loops from `depth` on cover. */
static double covered_from(const NestCount *c, uint32_t axis, uint32_t depth) {
  for (uint32_t j = depth; j < c->nest->loop_count; j++)
    if (c->nest->loops[j].axis == axis)
      return c->covered[j];
  return 1;
}

/* Bytes of the lines that the loops from `depth` on access.  Axes with the same
 * coefficient overlap, as a window does. */
static double footprint(const NestCount *c, const Access *a, uint32_t depth) {
  double elements = 1, run = 1;
  int64_t least = INT64_MAX;
  uint64_t done = 0;
  const int64_t *coef = a->address->coef;
  for (uint32_t v = 0; v < c->spec->axis_count; v++) {
    if (coef[v] == 0 || done >> v & 1)
      continue;
    double range = 0;
    for (uint32_t i = v; i < c->spec->axis_count; i++)
      if (llabs(coef[i]) == llabs(coef[v])) {
        range += covered_from(c, i, depth) - 1;
        done |= (uint64_t)1 << i;
      }
    elements *= range + 1;
    if (range > 0 && llabs(coef[v]) < least) {
      least = llabs(coef[v]);
      run = range + 1;
    }
  }
  for (uint32_t v = 0; v < c->spec->axis_count; v++)
    if (run > 1 && (double)coef[v] == (double)least * run)
      run *= covered_from(c, v, depth);
  double apart = least == INT64_MAX ? 1 : (double)least;
  double bytes = a->element_bytes * apart;
  if (a->is_gather || bytes >= LINE_BYTES)
    return elements * LINE_BYTES;
  return elements / run * (ceil(run * bytes / LINE_BYTES)) * LINE_BYTES;
}

static double footprint_of_all(const NestCount *c, uint32_t depth) {
  double bytes = 0;
  for (uint32_t j = 0; j < c->access_count; j++)
    bytes += footprint(c, &c->accesses[j], depth);
  return bytes;
}

/* Bytes that the loops from `depth` on load anew in each iteration of those
 * outside, in all. */
static double loaded_at(const NestCount *c, uint32_t depth) {
  double bytes = 0, outside = 1;
  for (uint32_t j = 0; j < depth; j++)
    outside *= c->trips[j];
  for (uint32_t j = 0; j < c->access_count; j++)
    bytes += c->accesses[j].transfers * footprint(c, &c->accesses[j], depth);
  return outside * bytes;
}

/* A cache holds what the loops from some depth on access.  The next loop
 * outside then finds what its last iteration accessed, and loads the rest. */
static double traffic(const NestCount *c, double cache) {
  uint32_t depth = 0;
  while (depth < c->nest->loop_count &&
         footprint_of_all(c, depth) > COST_CACHE_SHARE * cache)
    depth++;
  if (depth == 0)
    return 0;
  double share = cost_miss_share(footprint_of_all(c, depth - 1), cache);
  double more = loaded_at(c, depth - 1),
         less = depth > 1 ? loaded_at(c, depth - 2) : 0;
  return share * more + (1 - share) * fmin(less, more);
}

/* Rows of which only a part is read before other rows: each part begins a page,
 * which no prefetch has reached.  The core continues some rows at a time. */
static void count_page_starts(const NestCount *c, CostCounts *out) {
  for (uint32_t i = 0; i < c->access_count; i++) {
    const Access *a = &c->accesses[i];
    /* rows: between two parts of a row; streams: inside of the last loop along
     * the row */
    double outside = 1, all = 1, rows = 1, streams = 1;
    bool is_inside = false, has_rows = false;
    uint32_t along = NO_LOOP;
    for (uint32_t j = 0; j < c->nest->loop_count; j++) {
      const NestLoop *l = &c->nest->loops[j];
      double bytes = fabs((double)a->address->coef[l->axis]) * (double)l->step *
                     a->element_bytes;
      if (j == c->lanes)
        continue;
      if (bytes >= PAGE_STRIDE_BYTES) {
        has_rows = true;
        streams *= c->trips[j];
        rows *= is_inside ? c->trips[j] : 1;
      } else if (bytes > 0 && c->trips[j] > 1) {
        is_inside = true;
        along = j;
        outside = all;
        streams = 1;
      }
      all *= c->trips[j];
    }
    double part = along == NO_LOOP ? 0 : c->covered[along] * a->element_bytes;
    if (has_rows && rows > MAX_STREAMS && part < PAGE_STRIDE_BYTES)
      out->pages += streams > MAX_STREAMS ? all : outside * streams;
  }
}

void cost_add_nest(CostCounts *out, const Kernel *k, const Schedule *s,
                   const Nest *n, const CoreRates *r) {
  NestCount c = {.kernel = k,
                 .schedule = s,
                 .nest = n,
                 .spec = n->spec,
                 .depends = loop_op_vars(k->arena, n->spec),
                 .lanes = nest_lanes(n)};
  CostBody body = {.iterations = 1};
  find_trips(&c);
  for (uint32_t j = 0; j < c.spec->ops.len; j++)
    count_op(&c, j, &body);
  for (uint32_t j = 0; j < c.spec->outputs.len; j++)
    count_output(&c, &c.spec->outputs.at[j], &body);
  count_loops(&c, out, &body);
  body.iterations = c.bodies;
  overlap_sums(&c, &body);
  cost_add_body(out, &body);
  count_peeled(&c, out, &body);
  count_masked_tiles(&c, out, &body);
  count_runs(&c, out);
  count_page_starts(&c, out);
  for (int j = 0; j < CORE_BOUNDARIES; j++)
    out->bytes[j] += traffic(&c, r->cache_bytes[j]);
}
