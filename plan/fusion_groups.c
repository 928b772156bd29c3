/* Fusion groups: decides which materialized nodes share one kernel.
 *
 * A consumer can join the group of its producer if every access to the producer
 * uses the same loop variable on one or more axes.  These axes become the
 * parallel axes of the kernel.  Along them, an iteration never reads the result
 * of another iteration.
 *
 * Examples: the maximum, the shifted exponential and the sum of a softmax share
 * the row axes.  A matmul epilogue shares all axes of the matmul.  Attention
 * shares the row axes of both matmuls.
 *
 * Two groups merge if this reduces memory traffic, leaves enough parallel tasks
 * for all cores, and if the intermediates of one iteration fit into a cache.
 *
 * The main entry point is plan_build_groups. */
#include "machine/limits/planner.h"
#include "machine/machine.h"
#include "plan/backend.h"
#include "plan/cached_plan.h"
#include "plan/fused_body.h"
#include "plan/group_builder.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <string.h>

Candidate *planner_candidate_of(const FusionPlanner *c, const Node *n) {
  PlanNode *p = n->mark ? c->plan->nodes.at[n->mark - 1] : NULL;
  return p && p->materialized && p->live ? &c->candidates[p->order] : NULL;
}

/* ---- lowering ---- */

/* Allocated when needed: they are large. */
static AxisSplits *splits_of(FusionPlanner *c, Candidate *x) {
  if (!x->splits)
    x->splits = NEW(c->arena, AxisSplits);
  return x->splits;
}

/* The consumer accesses an axis of x as several axes.  Requests the same split
 * of x.  Overlapping windows are no split. */
static void request_splits(FusionPlanner *c, const LoopNest *reader,
                           const AffineExpr *at, uint32_t axis,
                           Candidate *candidate) {
  Graph *g = reader->graph;
  const Node *x = candidate->plan_node->node;
  for (uint32_t v = 0; v < reader->spatial_axes; v++) {
    int64_t t = at->coef[v], left;
    AffineExpr *quotient, *remainder;
    if (t != 0 && t != 1 && extent_proved(g, EXTENT_LE, 0, t) &&
        extent_floor_mod(g, x->extents[axis], t, &left) && left == 0 &&
        affine_div_rem(c->arena, at, t, reader, &quotient, &remainder))
      axis_splits_add(g, splits_of(c, candidate), axis, t);
  }
}

static void request_input_splits(FusionPlanner *c, const Candidate *candidate) {
  const LoopNest *loop = candidate->lowered->loop;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    Candidate *x =
        s->kind == KOP_LOAD ? planner_candidate_of(c, s->node) : NULL;
    if (!x || s->checked_index_count)
      continue;
    for (uint32_t k = 0; k < s->node->free_count + s->node->rank; k++)
      request_splits(c, loop, s->index_exprs[k], k, x);
  }
}

static void note_contraction(FusionPlanner *c, Candidate *candidate) {
  ContractionPattern p;
  const LoopNest *loop = candidate->lowered->loop;
  candidate->is_contraction = contraction_match_any_size(c->arena, loop, &p);
  candidate->depth =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  for (uint32_t n = 0; candidate->is_contraction && n < loop->spatial_axes;
       n++) {
    uint32_t m, factors;
    if (!contraction_operand_sides(loop, &p, n, &m, &factors) || !factors)
      continue;
    candidate->operand_axes[0] = contraction_row_axes(loop, &p, n, &factors);
    candidate->operand_axes[1] = contraction_row_axes(loop, &p, m, &factors);
    break;
  }
}

static bool node_is_empty(const Node *n) {
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    if (n->extents[k] == 0)
      return true;
  return false;
}

/* True if the node is interpreted in any case.  In a graph with too many nodes
 * for a search of pairs, each kernel is a single node; lowering it takes more
 * time and memory than running it. */
static bool is_interpreted(const FusionPlanner *c, const Node *n) {
  const Graph *g = c->plan->graph;
  return c->plan->materialized.len > MAX_PLAN_NODES && !g->hot &&
         plan_node_work(n) < (double)g->jit_threshold;
}

/* Consumers come before producers, so that the splits are known. */
static void lower_candidates(FusionPlanner *c) {
  for (uint32_t k = c->plan->materialized.len; k-- > 0;) {
    Candidate *candidate = &c->candidates[k];
    Node *n = candidate->plan_node->node;
    if (n->kind != NODE_COMP || node_is_empty(n) || is_interpreted(c, n))
      continue;
    candidate->lowered =
        lower_node(c->arena, c->plan->graph, n, splits_of(c, candidate));
    if (!candidate->lowered)
      continue;
    candidate->group->parallel_axes = candidate->lowered->loop->spatial_axes;
    for (uint32_t v = 0; v < candidate->lowered->loop->spatial_axes; v++)
      candidate->parallel_vars[v] = v;
    note_contraction(c, candidate);
    request_input_splits(c, candidate);
  }
}

/* ---- shared axes of two groups ---- */

/* For each parallel axis of the producer: the one of the consumer, or
 * UINT32_MAX. */
typedef struct AxisMap {
  uint32_t reader_axis[MAX_KERNEL_AXES];
  bool has_access, unmappable;
  /* The intermediates of a row do not fit into a cache. */
  bool needs_strip_mining;
  /* The backend must confirm that it has the kernel. */
  bool needs_fused_attention;
} AxisMap;

/* The parallel axis of the consumer that equals q; UINT32_MAX: none. */
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

/* Maps the axes of the producer by one access.  An axis that another access
 * maps differently is not shared. */
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
          s->kind == KOP_LOAD ? planner_candidate_of(c, s->node) : NULL;
      if (x && x->group == a)
        map_access_axes(c, x, reader, s, axis_map);
    }
  }
}

/* An axis of the consumer is shared with at most one axis of the producer. */
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

/* ---- profitability ---- */

typedef struct MergeCandidate {
  const Graph *graph;
  const GroupBuilder *producer, *consumer;
  const AxisMap *axis_map;
  double parallel_iterations;
  bool shares_contiguous_axis; /* the contiguous axis of the largest value is
                                  shared */
  double local_bytes; /* bytes of intermediates per parallel iteration */
  /* All axes of the producer's matmuls are shared. */
  bool producer_is_contraction, consumer_is_contraction, shares_all_axes;
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

/* True if the contiguous axis of the producer's largest value is shared. */
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

/* True if the rows of a matmul tile fit into a cache. */
static bool tile_rows_fit_cache(const MergeCandidate *m) {
  return m->local_bytes * VECTOR_ITERATIONS <= MAX_TILE_BYTES;
}

static bool must_fit_cache(const GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->must_fit_cache)
      return true;
  return false;
}

/* True if the reduction could be strip-mined instead.  Then the other matmul
 * operand is packed again for every few rows, so it should have few terms. */
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

/* True if one group has a reduction so long, and so few iterations, that it is
 * better split across cores.  A reduction in a larger group cannot be split. */
static bool prefers_split_reduction(const MergeCandidate *m) {
  /* A backend with thread groups does not vectorize columns. */
  const Backend *b = m->graph->backend;
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

/* The hint of a symbolic extent says nothing about the depth of a matmul.  If
 * the rows of the first matmul are reduced before the second reads them, as in
 * attention, the rows are usually long and the matmuls shallow. */
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

/* A backend with fused-attention kernels computes a matmul by tiles, which
 * contain no whole rows.  In another kernel, a large matmul would run element
 * by element.  It keeps its own kernel if its stored rows fit into memory.
 * Hints of symbolic extents say nothing about that. */
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
  return work >= MIN_TILED_WORK && bytes <= MAX_STORED_ROW_BYTES;
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

/* True if the producer is tiny compared to the consumer, and fusion would cost
 * the consumer parallel axes.  Examples: the lengths of texts, or a factor per
 * head, next to a softmax, which needs its row axes. */
static bool is_small_producer(const MergeCandidate *m) {
  uint32_t shared = 0;
  for (uint32_t k = 0; k < m->producer->parallel_axes; k++)
    shared += m->axis_map->reader_axis[k] != UINT32_MAX;
  double iterations = max_iterations(m->consumer);
  return shared < m->consumer->parallel_axes &&
         iterations >= MIN_ROW_KERNEL_POINTS &&
         iterations >= SMALL_PRODUCER_RATIO * max_iterations(m->producer);
}

/* True if a reader has axes that the matmul lacks, as the elements of a pooling
 * window.  A tile has no such axes, so the matmul would run element by
 * element. */
static bool reader_adds_axes(const MergeCandidate *m) {
  for (uint32_t k = 0; k < m->consumer->candidates.len; k++)
    if (m->consumer->candidates.at[k]->lowered->loop->spatial_axes >
        m->producer->parallel_axes)
      return true;
  return false;
}

/* The loop axes of a candidate of the producer that are shared. */
static uint64_t shared_vars(const MergeCandidate *m, const Candidate *x) {
  uint64_t vars = 0;
  for (uint32_t k = 0; k < m->producer->parallel_axes; k++)
    if (m->axis_map->reader_axis[k] != UINT32_MAX)
      vars |= (uint64_t)1 << x->parallel_vars[k];
  return vars;
}

/* True if fused iterations would share the rows of a deep matmul, and each
 * would have a part of the columns, as the heads of attention.  It would pack
 * this part for few rows.  Alone, the matmul has wide tiles, and its operand
 * may be prepacked. */
static bool divides_columns(const MergeCandidate *m) {
  for (uint32_t k = 0; k < m->producer->candidates.len; k++) {
    const Candidate *x = m->producer->candidates.at[k];
    const LoopNest *loop = x->lowered->loop;
    uint64_t shared = shared_vars(m, x);
    for (uint32_t side = 0; side < 2 && x->depth > SHALLOW_DEPTH; side++) {
      uint64_t columns = x->operand_axes[side];
      uint32_t row =
          loop_largest_axis(loop, x->operand_axes[1 - side] & shared);
      if ((columns & shared) && (columns & ~shared) && row != UINT32_MAX &&
          loop_extent_hint(loop, row) < MIN_DIVIDED_ROWS)
        return true;
    }
  }
  return false;
}

/* Returns why a merge is not worthwhile; NULL: it is.
 *
 * If both groups are matmuls, the second one reduces over an axis of the first.
 * Their work per row grows with the depth of the first matmul and the size of
 * the second one's result.  If these are large, the matmuls are compute-bound,
 * and fusion saves nothing. */
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
    return reader_adds_axes(m) ? "its reader has axes that a tile lacks" : NULL;
  if (prefers_own_tiles(m))
    return "tensor-core tiles do not contain whole rows";
  if (m->producer_is_contraction && m->consumer_is_contraction &&
      m->shares_all_axes)
    return "the tiles of two matmuls exceed the registers";
  /* The second matmul would store columns of its result, element by element:
   * a pointwise convolution behind another one. */
  if (m->producer_is_contraction && m->shares_contiguous_axis)
    return "its reader reduces columns, and a matmul stores rows";
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
    if (divides_columns(m))
      return "fused iterations would divide the columns of a matmul";
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
  if (b->max_row_bytes) /* it distributes loops if there are few iterations */
    return m->local_bytes <= b->max_row_bytes ? NULL : exceeds_cache;
  return m->local_bytes <= MAX_ROW_BYTES
             ? check_parallelism(m, MIN_TASKS_PER_CORE)
             : exceeds_cache;
}

/* ---- rows between matmuls: fused attention ---- */

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

/* True if b reads nothing of a from its last matmul on. */
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

/* True if the merged group may be fused attention: a matmul, operations on its
 * rows, a matmul with these rows, and elementwise operations on the result.
 *
 * A backend may have a kernel for this that stores no rows.  Then the merge is
 * worthwhile for all numbers and sizes of rows.  Otherwise groups are formed
 * again without it (reject_unfit_groups).  *reason: set if the consumer itself
 * must not join. */
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

GroupBuilder *planner_input_group(const FusionPlanner *c,
                                  const Candidate *candidate, uint32_t j) {
  return c->candidates[candidate->plan_node->inputs.at[j]->order].group;
}

/* Numbers the groups in topological order.  The recursion is shallow, since the
 * nodes were in topological order before groups were merged. */
static void number_group(FusionPlanner *c, GroupBuilder *d) {
  if (d->visit_stamp == c->stamp)
    return;
  d->visit_stamp = c->stamp;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    for (uint32_t j = 0; j < d->candidates.at[k]->plan_node->inputs.len; j++)
      number_group(c, planner_input_group(c, d->candidates.at[k], j));
  d->topological_order = ++c->last_order;
}

void planner_number_groups(FusionPlanner *c) {
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
      GroupBuilder *x = planner_input_group(c, d->candidates.at[k], j);
      if (x == a ? directly : x != d && depends_on(c, x, a, true))
        return true;
    }
  return false;
}

bool planner_depends_on(FusionPlanner *c, GroupBuilder *b,
                        const GroupBuilder *a) {
  c->stamp++;
  return depends_on(c, b, a, true);
}

bool planner_would_create_cycle(FusionPlanner *c, const GroupBuilder *a,
                                GroupBuilder *b) {
  c->stamp++;
  return depends_on(c, b, a, false);
}

/* ---- merging ---- */

/* Values that only a group with copies of them computes belong to it. */
static void move_dead_candidates(FusionPlanner *c, const GroupBuilder *from,
                                 GroupBuilder *to) {
  for (uint32_t k = 0; from->recomputes && k < c->plan->materialized.len; k++)
    if (c->candidates[k].is_dead && c->candidates[k].group == from)
      c->candidates[k].group = to;
}

static void merge_groups(FusionPlanner *c, GroupBuilder *a, GroupBuilder *b,
                         const AxisMap *axis_map) {
  uint32_t outer = 0, of_a[MAX_KERNEL_AXES], of_b[MAX_KERNEL_AXES];
  for (uint32_t k = 0; k < b->parallel_axes;
       k++) /* in the order of the consumer */
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
  d->recomputes = a->recomputes;
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
  move_dead_candidates(c, a, d);
}

static bool is_forced(const PlanNode *p) {
  return p->node->is_forced;
}

/* True if a schedule cuts after the value. */
static bool is_cut(const PlanNode *p) {
  return p->cuts;
}

/* True if b reads a value of a for which `has` holds. */
static bool reads_value(FusionPlanner *c, const GroupBuilder *a,
                        const GroupBuilder *b, bool (*has)(const PlanNode *)) {
  for (uint32_t k = 0; k < b->candidates.len; k++) {
    const PlanNode *p = b->candidates.at[k]->plan_node;
    for (uint32_t j = 0; j < p->inputs.len; j++)
      if (has(p->inputs.at[j]) &&
          planner_input_group(c, b->candidates.at[k], j) == a)
        return true;
  }
  return false;
}

/* Returns why b, which reads a, is not merged with it; NULL: they can merge
 * along the axis map. */
static const char *blocking_reason(FusionPlanner *c, const GroupBuilder *a,
                                   GroupBuilder *b, AxisMap *axis_map) {
  *axis_map = (AxisMap){.has_access = false};
  if (!a->candidates.at[0]->lowered)
    return "the other one is not a kernel";
  if (!b->candidates.at[0]->lowered)
    return "this is not a kernel";
  if (reads_value(c, a, b, is_cut))
    return "the schedule cuts after the value that is read";
  if (a->accumulated_axes)
    return "it is complete only after all rows";
  if (reads_value(c, a, b, is_forced))
    return "the program forces it";
  if (b->recomputes)
    return "each matmul computes the large matrix that it reads again";
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
  if (!reason && c->plan->graph->backend->can_accumulate &&
      planner_rereads_rows(c, a, b))
    reason = "it needs results of whole rows, and the rows again";
  if (!reason && c->plan->graph->backend->can_accumulate &&
      planner_drops_rows(c, a, b, axis_map->reader_axis))
    reason = "a large operand has other rows";
  if (reason)
    return reason;
  return planner_would_create_cycle(c, a, b)
             ? "fusion would create a dependency cycle"
             : NULL;
}

static void try_merge(FusionPlanner *c, GroupBuilder *a, GroupBuilder *b) {
  AxisMap axis_map;
  if (a == b || blocking_reason(c, a, b, &axis_map))
    return;
  merge_groups(c, a, b, &axis_map);
  planner_number_groups(c);
}

/* ---- final groups ---- */

bool group_builder_computes(const GroupBuilder *d, const PlanNode *p) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->plan_node == p)
      return true;
  return false;
}

static bool is_live_out(const FusionPlanner *c, const Candidate *x) {
  if (x->is_copy)
    return false;
  for (uint32_t k = x->position + 1; k < c->plan->materialized.len; k++) {
    const PlanNode *p = c->candidates[k].plan_node;
    for (uint32_t j = 0; j < p->inputs.len; j++)
      if (p->inputs.at[j] == x->plan_node &&
          !group_builder_computes(c->candidates[k].group, x->plan_node))
        return true;
  }
  for (uint32_t k = 0; k < c->copies.len; k++) {
    const Candidate *copy = c->copies.at[k];
    for (uint32_t j = 0; j < copy->plan_node->inputs.len; j++)
      if (copy->plan_node->inputs.at[j] == x->plan_node &&
          !group_builder_computes(copy->group, x->plan_node))
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
    m->live_out = !candidate->is_copy &&
                  (candidate->plan_node->root ||
                   candidate->plan_node->required || is_live_out(c, candidate));
    memcpy(m->parallel_vars, candidate->parallel_vars, sizeof m->parallel_vars);
  }
  Kernel *k =
      kernel_fuse_loops(c->arena, d->candidates.len, nodes, d->parallel_axes);
  if (k)
    k->recomputes = d->recomputes;
  return k;
}

/* For a single node.  NULL: it can be a kernel. */
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

/* ---- remarks for the observer ---- */

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
      if (planner_input_group(c, d->candidates.at[k], j) != d)
        add_blocker(c, d, remarks,
                    planner_input_group(c, d->candidates.at[k], j));
  }
  return remarks;
}

/* Emits groups after the groups that they read. */
static void emit_group(FusionPlanner *c, GroupBuilder *d) {
  if (d->emitted)
    return;
  d->emitted = true;
  for (uint32_t k = 0; k < d->candidates.len; k++)
    for (uint32_t j = 0; j < d->candidates.at[k]->plan_node->inputs.len; j++)
      emit_group(c, planner_input_group(c, d->candidates.at[k], j));
  FusionGroup *group = NEW(c->arena, FusionGroup);
  const Node *first = d->candidates.at[0]->plan_node->node;
  group->kernel = build_kernel(c, d);
  if (first->kind == NODE_COMP &&
      (!c->build_kernels || is_interpreted(c, first)))
    group->fallback_reason = "below the compilation threshold";
  else if (!group->kernel)
    group->fallback_reason = fallback_reason_of(c->arena, first);
  d->fusion_group = group;
  if (c->plan->graph->observer)
    group->remarks = collect_remarks(c, d);
  for (uint32_t k = 0; k < d->candidates.len; k++)
    VEC_PUSH(c->arena, group->nodes, d->candidates.at[k]->plan_node->node);
  VEC_PUSH(c->arena, c->plan->groups, group);
}

static void merge_all_groups(FusionPlanner *c) {
  planner_number_groups(c);
  for (uint32_t k = 0; k < c->plan->materialized.len; k++)
    for (uint32_t j = 0; j < c->candidates[k].plan_node->inputs.len; j++)
      try_merge(c, planner_input_group(c, &c->candidates[k], j),
                c->candidates[k].group);
}

static void make_groups(FusionPlanner *c) {
  c->copies.len = 0;
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    Candidate *candidate = &c->candidates[k];
    *candidate =
        (Candidate){.plan_node = c->plan->materialized.at[k],
                    .must_fit_cache = candidate->must_fit_cache,
                    .attention_rejected = candidate->attention_rejected,
                    .accumulation_rejected = candidate->accumulation_rejected};
    candidate->plan_node->order = candidate->position = k;
    candidate->group = NEW(c->arena, GroupBuilder);
    VEC_PUSH(c->arena, candidate->group->candidates, candidate);
  }
  if (c->build_kernels)
    lower_candidates(c);
  if (c->build_kernels && c->plan->materialized.len <= MAX_PLAN_NODES) {
    planner_recompute(c);
    merge_all_groups(c);
  }
  if (c->build_kernels && c->plan->materialized.len <= MAX_PLAN_NODES &&
      c->plan->graph->backend->can_accumulate)
    planner_accumulate(c);
}

static const Candidate *first_own_candidate(const GroupBuilder *d) {
  uint32_t k = 0;
  while (d->candidates.at[k]->is_copy)
    k++;
  return d->candidates.at[k];
}

/* True if the backend has the kernel that the group needs. */
static bool is_fit(const FusionPlanner *c, const GroupBuilder *d,
                   const Kernel *kernel) {
  const Backend *b = c->plan->graph->backend;
  return kernel &&
         (d->accumulated_axes        ? b->can_accumulate(kernel)
          : d->needs_fused_attention ? b->has_fused_attention(kernel)
                                     : kernel_can_strip_mine(kernel, NULL));
}

static void reject(const GroupBuilder *d, Candidate *x) {
  *(d->accumulated_axes        ? &x->accumulation_rejected
    : d->needs_fused_attention ? &x->attention_rejected
                               : &x->must_fit_cache) = true;
}

/* Marks the nodes of groups that would need strip mining but do not permit it,
 * or for which the backend has no kernel.  Returns false if there are none. */
static bool reject_unfit_groups(FusionPlanner *c) {
  bool any = false;
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    const GroupBuilder *d = c->candidates[k].group;
    bool needs_check = d->needs_strip_mining || d->needs_fused_attention ||
                       d->accumulated_axes > 0;
    if (!needs_check || first_own_candidate(d) != &c->candidates[k] ||
        is_fit(c, d, build_kernel(c, d)))
      continue;
    any = true;
    for (uint32_t j = 0; j < d->candidates.len; j++)
      reject(d, d->candidates.at[j]);
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
