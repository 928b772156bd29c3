/* Clusters: which stored nodes become one kernel.
 *
 * Two nodes may be in one where the reader's every access to the other has the
 * same variable in some of its axes: these are the *shared* axes, and along
 * them neither needs what another point computes.  So a maximum of each row,
 * what is subtracted from it and the sum of that share the rows; what follows
 * a matrix product shares all of its axes; a row softmax between two products
 * shares the rows with both.
 *
 * They are put together where that saves traffic with memory, leaves enough
 * independent points for all cores, and what is local to a point fits into a
 * cache. */
#include "machine/machine.h"
#include "plan/backend.h"
#include "plan/fused_body.h"

#include <string.h>

enum {
  VECTOR_ITERATIONS = 16, /* points that go together, where they are vectors */
  MAX_ROW_BYTES =
      128 << 10, /* bytes of one row, if the backend does not say, */
  MAX_COLUMN_BYTES = 8 << 10, /* of one of several columns, */
  MAX_TILE_BYTES = 1 << 20,   /* of the rows that a product takes at a time */
  MIN_TASKS_PER_CORE = 4,     /* independent pieces for each core */
  MAX_FUSED_DEPTH = 512,      /* of two products that share a row: together */
  MIN_ROWS_PER_CORE = 256,    /* of a product, for each core */
  MAX_CACHED_BYTES =
      16 << 20, /* bytes that a cache keeps for the next kernel, */
  MAX_SHALLOW_BYTES =
      1 << 20,           /* of a product of few terms, which costs as much as */
  SHALLOW_DEPTH = 128,   /* to write it and to read it again */
  SPLIT_TASKS = 16,      /* fewer pieces than that, of */
  SPLIT_WORK = 1 << 20,  /* more work than that: sums are cut */
  MAX_PLAN_NODES = 4096, /* stored nodes of a plan that is looked at, */
  MIN_ROW_KERNEL_POINTS =
      1 << 20, /* points of a kernel that keeps its rows, and as */
  SMALL_PRODUCER_RATIO = 64, /* many times those of what comes before */
  MAX_GROUP_NODES = 48, /* of a cluster: backends take kernels of 64 loops */
  MIN_TILED_WORK = 1 << 24, /* terms of a product that is a kernel by itself
                               where rows between two may be one */
};
static const double max_stored_row_bytes =
    4e9; /* bytes of rows that it leaves then */

typedef struct Candidate {
  PlanNode *plan_node;
  LoweredNode *lowered; /* NULL: stays alone */
  AxisSplits splits;
  bool is_contraction;
  bool must_fit_cache;     /* has to, into a cache: cannot go in portions */
  bool attention_rejected; /* the backend has no kernel of the rows that it
                              would share */
  double depth;            /* of a product: terms of a sum */
  struct GroupBuilder *group;
  uint32_t parallel_vars[MAX_KERNEL_AXES];
  uint32_t position;
} Candidate;

typedef struct GroupBuilder {  /* a cluster under construction */
  VEC(Candidate *) candidates; /* in the order of the plan */
  uint32_t parallel_axes;
  uint32_t topological_order, visit_stamp; /* number: after all that it reads */
  bool emitted;
  bool needs_strip_mining; /* its rows do not fit into a cache: they have to go
                              in portions */
  bool needs_fused_attention; /* if the backend has a kernel for it */
  FusionGroup *fusion_group;  /* once it is done */
} GroupBuilder;

typedef struct FusionPlanner {
  Plan *plan;
  Arena *arena;
  Candidate *candidates; /* one for each stored node, in order */
  uint32_t stamp, last_order;
  bool build_kernels;
} FusionPlanner;

static Candidate *candidate_of(const FusionPlanner *c, const Node *n) {
  PlanNode *p = n->mark ? c->plan->nodes.at[n->mark - 1] : NULL;
  return p && p->materialized && p->live ? &c->candidates[p->order] : NULL;
}

/* ---- stages ---- */

/* The reader walks over an axis of x as over several: x is cut likewise.
 * Windows that overlap do not. */
static void request_splits(FusionPlanner *c, const LoopNest *reader,
                           const AffineExpr *at, uint32_t axis, const Node *x,
                           AxisSplits *splits) {
  Graph *g = reader->graph;
  for (uint32_t v = 0; v < reader->spatial_axes; v++) {
    int64_t t = at->coef[v], left;
    AffineExpr *quotient, *remainder;
    if (t != 0 && t != 1 && extent_proved(g, EXTENT_LE, 0, t) &&
        extent_floor_mod(g, x->extents[axis], t, &left) && left == 0 &&
        affine_div_rem(c->arena, at, t, reader, &quotient, &remainder))
      axis_splits_add(g, splits, axis, t);
  }
}

static void request_input_splits(FusionPlanner *c, const Candidate *candidate) {
  const LoopNest *loop = candidate->lowered->loop;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    Candidate *x = s->kind == KOP_LOAD ? candidate_of(c, s->node) : NULL;
    if (!x || s->checked_index_count)
      continue;
    for (uint32_t k = 0; k < s->node->free_count + s->node->rank; k++)
      request_splits(c, loop, s->index_exprs[k], k, s->node, &x->splits);
  }
}

static void note_contraction(FusionPlanner *c, Candidate *candidate) {
  ContractionPattern p;
  const LoopNest *loop = candidate->lowered->loop;
  candidate->is_contraction = contraction_match_any_size(c->arena, loop, &p);
  candidate->depth =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
}

/* Readers before what they read, so that cuts are known. */
static bool node_is_empty(const Node *n) {
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    if (n->extents[k] == 0)
      return true;
  return false;
}

static void lower_candidates(FusionPlanner *c) {
  for (uint32_t k = c->plan->materialized.len; k-- > 0;) {
    Candidate *candidate = &c->candidates[k];
    Node *n = candidate->plan_node->node;
    if (n->kind != NODE_COMP || node_is_empty(n))
      continue;
    candidate->lowered =
        lower_node(c->arena, c->plan->graph, n, &candidate->splits);
    if (!candidate->lowered)
      continue;
    candidate->group->parallel_axes = candidate->lowered->loop->spatial_axes;
    for (uint32_t v = 0; v < candidate->lowered->loop->spatial_axes; v++)
      candidate->parallel_vars[v] = v;
    note_contraction(c, candidate);
    request_input_splits(c, candidate);
  }
}

/* ---- which axes two clusters share ---- */

typedef struct AxisMap { /* of a's shared axis: which of b's, or UINT32_MAX */
  uint32_t reader_axis[MAX_KERNEL_AXES];
  bool has_access, unmappable;
  bool
      needs_strip_mining; /* what is local to a row does not fit into a cache */
  bool needs_fused_attention; /* the backend is to be asked */
} AxisMap;

/* Which of the reader's shared axes a form is; UINT32_MAX: none. */
static uint32_t parallel_axis_of(const Candidate *reader, const AffineExpr *q,
                                 int64_t extent) {
  const GroupBuilder *d = reader->group;
  for (uint32_t b = 0; b < d->parallel_axes; b++) {
    uint32_t v = reader->parallel_vars[b];
    if (q->coef[v] != 1 || reader->lowered->loop->extents[v] != extent)
      continue;
    AffineExpr alone = {.constant = 0};
    alone.coef[v] = 1;
    return affine_equal(&alone, q) ? b : UINT32_MAX;
  }
  return UINT32_MAX;
}

/* What one access says: each axis of a must go with one of b. */
static void map_access_axes(FusionPlanner *c, const Candidate *x,
                            const Candidate *reader, const KernelOp *s,
                            AxisMap *axis_map) {
  AffineExpr *forms[MAX_KERNEL_AXES], *parts[MAX_KERNEL_AXES];
  const LoopNest *loop = x->lowered->loop;
  axis_map->unmappable |= s->checked_index_count > 0;
  for (uint32_t axis = 0;
       axis < s->node->free_count + s->node->rank && !axis_map->unmappable;
       axis++) {
    axis_map->unmappable = !lowered_node_delinearize(
        c->arena, x->lowered, axis, s->index_exprs[axis], reader->lowered->loop,
        parts);
    for (uint32_t k = 0; k < x->lowered->var_count[axis]; k++)
      forms[x->lowered->first_var[axis] + k] = parts[k];
  }
  if (axis_map->unmappable)
    return;
  for (uint32_t a = 0; a < x->group->parallel_axes; a++) {
    uint32_t v = x->parallel_vars[a];
    uint32_t b = parallel_axis_of(reader, forms[v], loop->extents[v]);
    if (!axis_map->has_access)
      axis_map->reader_axis[a] = b;
    else if (axis_map->reader_axis[a] != b)
      axis_map->reader_axis[a] = UINT32_MAX;
  }
  axis_map->has_access = true;
}

static void build_axis_map(FusionPlanner *c, const GroupBuilder *a,
                           const GroupBuilder *b, AxisMap *axis_map) {
  for (uint32_t k = 0; k < b->candidates.len; k++) {
    const Candidate *reader = b->candidates.at[k];
    const LoopNest *loop = reader->lowered->loop;
    for (uint32_t j = 0; j < loop->ops.len && !axis_map->unmappable; j++) {
      const KernelOp *s = &loop->ops.at[j];
      const Candidate *x =
          s->kind == KOP_LOAD ? candidate_of(c, s->node) : NULL;
      if (x && x->group == a)
        map_access_axes(c, x, reader, s, axis_map);
    }
  }
}

/* An axis of b goes with one of a only. */
static uint32_t count_shared_axes(const GroupBuilder *a, const GroupBuilder *b,
                                  AxisMap *axis_map) {
  bool is_used[MAX_KERNEL_AXES] = {false};
  uint32_t count = 0;
  (void)b;
  for (uint32_t k = 0; k < a->parallel_axes; k++) {
    uint32_t consumer_axis = axis_map->reader_axis[k];
    if (consumer_axis == UINT32_MAX)
      continue;
    if (is_used[consumer_axis])
      axis_map->reader_axis[k] = UINT32_MAX;
    else
      count++;
    is_used[consumer_axis] = true;
  }
  return count;
}

/* ---- is it worth it? ---- */

typedef struct MergeCandidate {
  const Graph *graph;
  const GroupBuilder *producer, *consumer;
  const AxisMap *axis_map;
  double parallel_iterations;
  bool shares_contiguous_axis; /* what is next to each other in memory is shared
                                */
  double local_bytes; /* of one point, all values that one reads of another */
  bool producer_is_contraction, consumer_is_contraction,
      shares_all_axes; /* all axes of a's products are shared */
} MergeCandidate;

static uint32_t count_contractions(const GroupBuilder *d) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    count += d->candidates.at[k]->is_contraction;
  return count;
}

static bool has_contraction(const GroupBuilder *d) {
  return count_contractions(d) > 0;
}

/* Is what lies next to each other in the largest value of a shared? */
static bool shares_last_axis(const MergeCandidate *m) {
  const Candidate *largest = m->producer->candidates.at[0];
  for (uint32_t k = 1; k < m->producer->candidates.len; k++)
    if (node_element_hint(m->graph,
                          m->producer->candidates.at[k]->plan_node->node) >
        node_element_hint(m->graph, largest->plan_node->node))
      largest = m->producer->candidates.at[k];
  const LoopNest *loop = largest->lowered->loop;
  for (uint32_t k = 0; k < m->producer->parallel_axes; k++)
    if (m->axis_map->reader_axis[k] != UINT32_MAX && loop->spatial_axes > 0 &&
        largest->parallel_vars[k] == loop->spatial_axes - 1)
      return true;
  return false;
}

static void estimate_merge(FusionPlanner *c, MergeCandidate *m) {
  const Candidate *first = m->producer->candidates.at[0];
  (void)c;
  m->parallel_iterations = 1;
  m->shares_all_axes = true;
  for (uint32_t k = 0; k < m->producer->parallel_axes; k++)
    if (m->axis_map->reader_axis[k] != UINT32_MAX)
      m->parallel_iterations *= (double)extent_hint(
          m->graph, first->lowered->loop->extents[first->parallel_vars[k]]);
    else
      m->shares_all_axes = false;
  for (uint32_t k = 0; k < m->producer->candidates.len; k++) {
    const Node *n = m->producer->candidates.at[k]->plan_node->node;
    m->local_bytes += node_element_hint(m->graph, n) / m->parallel_iterations *
                      dtype_info[n->dtype].bytes;
    if (m->producer->candidates.at[k]->is_contraction)
      m->shares_all_axes &=
          m->producer->parallel_axes ==
          m->producer->candidates.at[k]->lowered->loop->spatial_axes;
  }
  m->producer_is_contraction = has_contraction(m->producer);
  m->consumer_is_contraction = has_contraction(m->consumer);
  m->shares_contiguous_axis = shares_last_axis(m);
}

static double contraction_depth(const GroupBuilder *d) {
  double depth = 0;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->is_contraction)
      depth += d->candidates.at[k]->depth;
  return depth;
}

/* Do rows that a product takes at a time fit into a cache? */
static bool tile_rows_fit_cache(const MergeCandidate *m) {
  return m->local_bytes * VECTOR_ITERATIONS <= MAX_TILE_BYTES;
}

static bool must_fit_cache(const GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->must_fit_cache)
      return true;
  return false;
}

/* Or could they go in portions?  The product's other side is copied for each
 * few rows then, so it had better have few terms. */
static bool may_strip_mine(const MergeCandidate *m) {
  return contraction_depth(m->producer) <= 2 * SHALLOW_DEPTH &&
         !must_fit_cache(m->producer) && !must_fit_cache(m->consumer);
}

static const char *check_parallelism(const MergeCandidate *m,
                                     double min_per_core) {
  return m->parallel_iterations >= min_per_core * machine()->processors
             ? NULL
             : "the shared loops have too little parallelism";
}

/* Has one of them a sum so long, for so few points, that it is better cut?  As
 * part of a cluster it cannot be. */
static bool prefers_split_reduction(const MergeCandidate *m) {
  const Backend *b = m->graph->backend; /* those with teams want no lanes */
  bool vectorized = m->shares_contiguous_axis && !b->max_row_bytes;
  double tasks = m->parallel_iterations / (vectorized ? VECTOR_ITERATIONS : 1);
  double depth = 1;
  for (uint32_t k = 0; k < m->producer->candidates.len; k++)
    if (m->producer->candidates.at[k]->depth > depth)
      depth = m->producer->candidates.at[k]->depth;
  for (uint32_t k = 0; k < m->consumer->candidates.len; k++)
    if (m->consumer->candidates.at[k]->depth > depth)
      depth = m->consumer->candidates.at[k]->depth;
  return tasks < SPLIT_TASKS && depth * m->parallel_iterations >= SPLIT_WORK;
}

/* What open sizes may be like says nothing of how deep products are.  Where
 * rows of one are reduced before the other one reads them, they are long as a
 * rule, and the products are not deep. */
static bool may_be_shallow(const MergeCandidate *m) {
  bool reduces = false;
  for (uint32_t k = 0; k < m->producer->candidates.len; k++) {
    const Candidate *x = m->producer->candidates.at[k];
    const LoopNest *loop = x->lowered->loop;
    reduces |= !x->is_contraction && loop->axis_count > loop->spatial_axes;
    for (uint32_t v = loop->spatial_axes;
         v < loop->axis_count && x->is_contraction; v++)
      if (extent_is_static(m->graph, loop->extents[v]))
        return false;
  }
  return reduces;
}

static bool has_symbolic_extent(const Graph *g, const Node *n) {
  bool symbolic = false;
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    symbolic |= !extent_is_static(g, n->extents[k]);
  return symbolic;
}

/* Backends that have kernels for rows between products multiply by tiles, in
 * which no row is whole: as part of another kernel, a product that is some work
 * would be done point by point.  Its rows have to have room; what sizes may be
 * like says nothing of that. */
static bool prefers_own_tiles(const MergeCandidate *m) {
  const Backend *b = m->graph->backend;
  double work = 0, bytes = 0;
  if (!b->has_fused_attention || !m->producer_is_contraction ||
      m->shares_all_axes)
    return false;
  for (uint32_t k = 0; k < m->producer->candidates.len; k++) {
    const Candidate *x = m->producer->candidates.at[k];
    const Node *n = x->plan_node->node;
    if (!x->is_contraction)
      continue;
    work += node_element_hint(m->graph, n) * x->depth;
    if (!has_symbolic_extent(m->graph, n))
      bytes += node_element_hint(m->graph, n) * dtype_info[n->dtype].bytes;
  }
  return work >= MIN_TILED_WORK && bytes <= max_stored_row_bytes;
}

static double max_iterations(const GroupBuilder *d) {
  double max = 0;
  for (uint32_t k = 0; k < d->candidates.len; k++) {
    const LoopNest *loop = d->candidates.at[k]->lowered->loop;
    double iterations = loop_iterations_hint(loop, 0, loop->axis_count);
    max = iterations > max ? iterations : max;
  }
  return max;
}

/* Is a next to nothing beside b, which would share fewer axes for its sake?
 * As lengths of texts, or a factor of each head, beside a softmax: with them it
 * would not have its rows. */
static bool is_small_producer(const MergeCandidate *m) {
  uint32_t shared = 0;
  for (uint32_t k = 0; k < m->producer->parallel_axes; k++)
    shared += m->axis_map->reader_axis[k] != UINT32_MAX;
  double iterations = max_iterations(m->consumer);
  return shared < m->consumer->parallel_axes &&
         iterations >= MIN_ROW_KERNEL_POINTS &&
         iterations >= SMALL_PRODUCER_RATIO * max_iterations(m->producer);
}

/* Why it is not worth it; NULL: it is.
 * The sum of the second product goes over what the first one computes, and
 * its other axes are as many as the depth of that: then it is compute that is
 * shared out, not memory, if these are large. */
static const char *unprofitable_reason(const MergeCandidate *m) {
  static const char exceeds_cache[] =
      "intermediates of one iteration exceed the cache";
  if (m->consumer_is_contraction && !m->producer_is_contraction)
    return "it is a matmul operand";
  if (is_small_producer(m))
    return "it is small, and fusing it would split rows";
  if (prefers_split_reduction(m))
    return "the long reduction is split across cores";
  if (m->producer_is_contraction && !m->consumer_is_contraction &&
      m->shares_all_axes)
    return NULL;
  if (prefers_own_tiles(m))
    return "tensor-core tiles do not contain whole rows";
  if (m->producer_is_contraction && m->consumer_is_contraction &&
      m->shares_all_axes)
    return "the tiles of two matmuls exceed the registers";
  if (m->producer_is_contraction && m->consumer_is_contraction) {
    double others = 0;
    for (uint32_t k = 0; k < m->consumer->candidates.len; k++)
      if (m->consumer->candidates.at[k]->is_contraction)
        others = node_element_hint(
                     m->graph, m->consumer->candidates.at[k]->plan_node->node) /
                 m->parallel_iterations;
    if (contraction_depth(m->producer) + others > MAX_FUSED_DEPTH &&
        !may_be_shallow(m))
      return "both matmuls are compute-bound";
    return tile_rows_fit_cache(m) || may_strip_mine(m)
               ? check_parallelism(m, VECTOR_ITERATIONS * MIN_TASKS_PER_CORE)
               : exceeds_cache;
  }
  double max_unfused_bytes = contraction_depth(m->producer) <= SHALLOW_DEPTH
                                 ? MAX_SHALLOW_BYTES
                                 : MAX_CACHED_BYTES;
  if (m->producer_is_contraction &&
      m->local_bytes * m->parallel_iterations < max_unfused_bytes)
    return "fused rows would pack the matmul operand more often";
  if (m->producer_is_contraction)
    return tile_rows_fit_cache(m) || may_strip_mine(m)
               ? check_parallelism(m, MIN_ROWS_PER_CORE)
               : exceeds_cache;
  if (m->shares_contiguous_axis && !m->shares_all_axes)
    return m->local_bytes <= MAX_COLUMN_BYTES
               ? check_parallelism(m, VECTOR_ITERATIONS * MIN_TASKS_PER_CORE)
               : exceeds_cache;
  const Backend *b = m->graph->backend;
  if (b->max_row_bytes) /* which runs loops apart where points are few */
    return m->local_bytes <= b->max_row_bytes ? NULL : exceeds_cache;
  return m->local_bytes <= MAX_ROW_BYTES
             ? check_parallelism(m, MIN_TASKS_PER_CORE)
             : exceeds_cache;
}

/* ---- rows between products ---- */

static bool attention_was_rejected(const GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->attention_rejected)
      return true;
  return false;
}

static bool has_reductions(const GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++) {
    const LoopNest *loop = d->candidates.at[k]->lowered->loop;
    if (loop->axis_count > loop->spatial_axes)
      return true;
  }
  return false;
}

/* Does b read nothing of a but what comes before its last product? */
static bool reads_only_rows(const GroupBuilder *a, const GroupBuilder *b) {
  uint32_t last = a->candidates.len;
  while (last && !a->candidates.at[last - 1]->is_contraction)
    last--;
  for (uint32_t i = 0; i < b->candidates.len; i++) {
    const PlanNode *p = b->candidates.at[i]->plan_node;
    for (uint32_t j = 0; j < p->inputs.len; j++)
      for (uint32_t k = last ? last - 1 : 0; k < a->candidates.len; k++)
        if (a->candidates.at[k]->plan_node == p->inputs.at[j])
          return false;
  }
  return true;
}

/* Is it a product, what its rows come to, a product with these, or what is done
 * with each element of that?  Backends may have a kernel for such that keeps no
 * rows, which then is worth it whatever the rows' number and size; else all is
 * as if nobody had asked (reject_unfit_groups).  *why: not for what follows, of
 * which there is too much. */
static bool may_be_fused_attention(const MergeCandidate *m,
                                   const char **reason) {
  const Backend *b = m->graph->backend;
  uint32_t first = count_contractions(m->producer),
           second = count_contractions(m->consumer);
  *reason = NULL;
  if (!b->has_fused_attention || first == 0 || m->shares_all_axes ||
      attention_was_rejected(m->producer) ||
      attention_was_rejected(m->consumer))
    return false;
  if (first == 1 && second <= 1)
    return true;
  uint32_t shared = 0;
  for (uint32_t k = 0; k < m->producer->parallel_axes; k++)
    shared += m->axis_map->reader_axis[k] != UINT32_MAX;
  if (second || shared < m->producer->parallel_axes ||
      (has_reductions(m->consumer) &&
       !reads_only_rows(m->producer, m->consumer)))
    *reason = "this backend has no buffer for rows between two matmuls";
  return true;
}

/* ---- order ---- */

static GroupBuilder *input_group(const FusionPlanner *c,
                                 const Candidate *candidate, uint32_t j) {
  return c->candidates[candidate->plan_node->inputs.at[j]->order].group;
}

/* Numbers drafts so that each comes after those that it reads.  Recursion is
 * shallow: the nodes were in such an order before some were put together. */
static void number_group(FusionPlanner *c, GroupBuilder *d) {
  if (d->visit_stamp == c->stamp)
    return;
  d->visit_stamp = c->stamp;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    for (uint32_t j = 0; j < d->candidates.at[k]->plan_node->inputs.len; j++)
      number_group(c, input_group(c, d->candidates.at[k], j));
  d->topological_order = ++c->last_order;
}

static void number_groups(FusionPlanner *c) {
  c->stamp++;
  c->last_order = 0;
  for (uint32_t k = 0; k < c->plan->materialized.len; k++)
    number_group(c, c->candidates[k].group);
}

static bool depends_on(FusionPlanner *c, GroupBuilder *d, const GroupBuilder *a,
                       bool directly) {
  if (d->visit_stamp == c->stamp || d->topological_order < a->topological_order)
    return false;
  d->visit_stamp = c->stamp;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    for (uint32_t j = 0; j < d->candidates.at[k]->plan_node->inputs.len; j++) {
      GroupBuilder *x = input_group(c, d->candidates.at[k], j);
      if (x == a ? directly : x != d && depends_on(c, x, a, true))
        return true;
    }
  return false;
}

/* Would b have to wait for something that has to wait for a? */
static bool would_create_cycle(FusionPlanner *c, const GroupBuilder *a,
                               GroupBuilder *b) {
  c->stamp++;
  return depends_on(c, b, a, false);
}

/* ---- merging ---- */

static void merge_groups(FusionPlanner *c, GroupBuilder *a, GroupBuilder *b,
                         const AxisMap *axis_map) {
  uint32_t outer = 0, of_a[MAX_KERNEL_AXES], of_b[MAX_KERNEL_AXES];
  for (uint32_t k = 0; k < b->parallel_axes; k++) /* in the reader's order */
    for (uint32_t j = 0; j < a->parallel_axes; j++)
      if (axis_map->reader_axis[j] == k) {
        of_a[outer] = j;
        of_b[outer++] = k;
      }
  GroupBuilder *d = NEW(c->arena, GroupBuilder);
  d->parallel_axes = outer;
  d->needs_strip_mining = a->needs_strip_mining || b->needs_strip_mining ||
                          axis_map->needs_strip_mining;
  d->needs_fused_attention = a->needs_fused_attention ||
                             b->needs_fused_attention ||
                             axis_map->needs_fused_attention;
  uint32_t i = 0, j = 0;
  while (i < a->candidates.len || j < b->candidates.len) {
    bool first = j == b->candidates.len ||
                 (i < a->candidates.len && a->candidates.at[i]->position <
                                               b->candidates.at[j]->position);
    Candidate *candidate =
        first ? a->candidates.at[i++] : b->candidates.at[j++];
    uint32_t old[MAX_KERNEL_AXES];
    memcpy(old, candidate->parallel_vars, sizeof old);
    for (uint32_t k = 0; k < outer; k++)
      candidate->parallel_vars[k] = old[first ? of_a[k] : of_b[k]];
    candidate->group = d;
    VEC_PUSH(c->arena, d->candidates, candidate);
  }
}

/* Why b, which reads a, is not to be one with it; NULL: it is, along pairs. */
static const char *blocking_reason(FusionPlanner *c, const GroupBuilder *a,
                                   GroupBuilder *b, AxisMap *axis_map) {
  *axis_map = (AxisMap){.has_access = false};
  if (!a->candidates.at[0]->lowered)
    return "the other one is not a kernel";
  if (!b->candidates.at[0]->lowered)
    return "this is not a kernel";
  if (a->candidates.len + b->candidates.len > MAX_GROUP_NODES)
    return "too many values for one kernel";
  build_axis_map(c, a, b, axis_map);
  if (!axis_map->has_access || axis_map->unmappable)
    return "it is read by a gather or by parts of an axis";
  if (count_shared_axes(a, b, axis_map) == 0)
    return a->parallel_axes == 0 ? "it is a single value, computed first"
           : b->parallel_axes == 0
               ? "it is reduced to a single value"
               : "an iteration reads results of other iterations";
  MergeCandidate m = {.graph = c->plan->graph,
                      .producer = a,
                      .consumer = b,
                      .axis_map = axis_map};
  estimate_merge(c, &m);
  const char *reason;
  axis_map->needs_fused_attention = may_be_fused_attention(&m, &reason);
  axis_map->needs_strip_mining = !axis_map->needs_fused_attention &&
                                 m.producer_is_contraction &&
                                 !m.shares_all_axes && !tile_rows_fit_cache(&m);
  if (!axis_map->needs_fused_attention)
    reason = unprofitable_reason(&m);
  if (reason)
    return reason;
  return would_create_cycle(c, a, b) ? "fusion would create a dependency cycle"
                                     : NULL;
}

static void try_merge(FusionPlanner *c, GroupBuilder *a, GroupBuilder *b) {
  AxisMap axis_map;
  if (a == b || blocking_reason(c, a, b, &axis_map))
    return;
  merge_groups(c, a, b, &axis_map);
  number_groups(c);
}

/* ---- what comes out ---- */

static bool is_live_out(const FusionPlanner *c, const Candidate *x) {
  for (uint32_t k = x->position + 1; k < c->plan->materialized.len; k++) {
    const PlanNode *p = c->candidates[k].plan_node;
    for (uint32_t j = 0; j < p->inputs.len; j++)
      if (p->inputs.at[j] == x->plan_node && c->candidates[k].group != x->group)
        return true;
  }
  return false;
}

static Kernel *build_kernel(FusionPlanner *c, const GroupBuilder *d) {
  if (!d->candidates.at[0]->lowered)
    return NULL;
  FusedNode *nodes = NEW_ARRAY(c->arena, FusedNode, d->candidates.len);
  for (uint32_t k = 0; k < d->candidates.len; k++) {
    const Candidate *candidate = d->candidates.at[k];
    FusedNode *m = &nodes[k];
    m->lowered = candidate->lowered;
    m->node = candidate->plan_node->node;
    m->live_out = candidate->plan_node->root ||
                  candidate->plan_node->required || is_live_out(c, candidate);
    memcpy(m->parallel_vars, candidate->parallel_vars, sizeof m->parallel_vars);
  }
  return kernel_fuse_loops(c->arena, d->candidates.len, nodes,
                           d->parallel_axes);
}

/* Of a node alone; NULL: nothing keeps it from being a kernel. */
static const char *fallback_reason_of(Arena *arena, const Node *n) {
  if (n->guard)
    return "it is computed only under a condition";
  if (n->kind == NODE_OPAQUE)
    return arena_printf(arena, "%s is a library routine",
                        prim_info[n->op].name);
  if (node_is_empty(n))
    return "it has no elements";
  return "it has too many axes or index divisions";
}

/* ---- for who asks ---- */

static void add_blocker(FusionPlanner *c, GroupBuilder *d,
                        FusionRemarks *remarks, const GroupBuilder *from) {
  AxisMap axis_map;
  for (uint32_t k = 0; k < remarks->blockers.len; k++)
    if (remarks->blockers.at[k].producer == from->fusion_group)
      return;
  const char *reason = c->plan->materialized.len > MAX_PLAN_NODES
                           ? "too many values to search all pairs"
                           : blocking_reason(c, from, d, &axis_map);
  if (!reason)
    reason = "an earlier decision prevents it";
  FusionBlocker blocker = {from->fusion_group,
                           c->build_kernels ? reason : "too little work"};
  VEC_PUSH(c->arena, remarks->blockers, blocker);
}

static FusionRemarks *collect_remarks(FusionPlanner *c, GroupBuilder *d) {
  FusionRemarks *remarks = NEW(c->arena, FusionRemarks);
  for (uint32_t k = 0; k < d->candidates.len; k++) {
    const PlanNode *p = d->candidates.at[k]->plan_node;
    VEC_PUSH(c->arena, remarks->materialize_reasons, p->reason);
    for (uint32_t j = 0; p->body && j < p->body->inlined_values.len; j++)
      VEC_PUSH(c->arena, remarks->inlined_values,
               p->body->inlined_values.at[j]);
    for (uint32_t j = 0; j < p->inputs.len; j++)
      if (input_group(c, d->candidates.at[k], j) != d)
        add_blocker(c, d, remarks, input_group(c, d->candidates.at[k], j));
  }
  return remarks;
}

/* Clusters after those that they read. */
static void emit_group(FusionPlanner *c, GroupBuilder *d) {
  if (d->emitted)
    return;
  d->emitted = true;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    for (uint32_t j = 0; j < d->candidates.at[k]->plan_node->inputs.len; j++)
      emit_group(c, input_group(c, d->candidates.at[k], j));
  FusionGroup *group = NEW(c->arena, FusionGroup);
  group->kernel = build_kernel(c, d);
  if (!c->build_kernels &&
      d->candidates.at[0]->plan_node->node->kind == NODE_COMP)
    group->fallback_reason = "below the compilation threshold";
  else if (!group->kernel)
    group->fallback_reason =
        fallback_reason_of(c->arena, d->candidates.at[0]->plan_node->node);
  d->fusion_group = group;
  if (c->plan->graph->observer)
    group->remarks = collect_remarks(c, d);
  for (uint32_t k = 0; k < d->candidates.len; k++)
    VEC_PUSH(c->arena, group->nodes, d->candidates.at[k]->plan_node->node);
  VEC_PUSH(c->arena, c->plan->groups, group);
}

static void merge_all_groups(FusionPlanner *c) {
  number_groups(c);
  for (uint32_t k = 0; k < c->plan->materialized.len; k++)
    for (uint32_t j = 0; j < c->candidates[k].plan_node->inputs.len; j++)
      try_merge(c, input_group(c, &c->candidates[k], j),
                c->candidates[k].group);
}

static void make_groups(FusionPlanner *c) {
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    Candidate *candidate = &c->candidates[k];
    *candidate =
        (Candidate){.plan_node = c->plan->materialized.at[k],
                    .must_fit_cache = candidate->must_fit_cache,
                    .attention_rejected = candidate->attention_rejected};
    candidate->plan_node->order = candidate->position = k;
    candidate->group = NEW(c->arena, GroupBuilder);
    VEC_PUSH(c->arena, candidate->group->candidates, candidate);
  }
  if (c->build_kernels)
    lower_candidates(c);
  if (c->build_kernels && c->plan->materialized.len <= MAX_PLAN_NODES)
    merge_all_groups(c);
}

/* Notes the values whose rows would have to go in portions, and cannot, or that
 * the backend has no kernel for; false: there are none. */
static bool reject_unfit_groups(FusionPlanner *c) {
  bool any = false;
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    const GroupBuilder *d = c->candidates[k].group;
    if ((!d->needs_strip_mining && !d->needs_fused_attention) ||
        d->candidates.at[0] != &c->candidates[k])
      continue;
    const Kernel *kernel = build_kernel(c, d);
    if (kernel && (d->needs_fused_attention
                       ? c->plan->graph->backend->has_fused_attention(kernel)
                       : kernel_can_strip_mine(kernel, NULL)))
      continue;
    any = true;
    for (uint32_t j = 0; j < d->candidates.len; j++)
      *(d->needs_fused_attention ? &d->candidates.at[j]->attention_rejected
                                 : &d->candidates.at[j]->must_fit_cache) = true;
  }
  return any;
}

void plan_build_groups(Plan *plan, bool build_kernels) {
  FusionPlanner c = {
      .plan = plan, .arena = plan->arena, .build_kernels = build_kernels};
  c.candidates = NEW_ARRAY(plan->arena, Candidate, plan->materialized.len);
  make_groups(&c);
  while (reject_unfit_groups(&c))
    make_groups(&c);
  for (uint32_t k = 0; k < plan->materialized.len; k++)
    emit_group(&c, c.candidates[k].group);
}
