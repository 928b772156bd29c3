/* Weights that several matmuls compute again.
 *
 * In the gradient of attention, matmuls read a large matrix, such as the
 * weights or their derivatives, by its rows and by its columns.  No kernel
 * computes the matrix by tiles for all of them.  Each of these matmuls instead
 * gets a group of its own, which computes the matrix again from small tensors.
 * The matrix is then not stored.  A backend needs fused-attention kernels for
 * these groups, or strip mining.  On a backend that accumulates
 * (accumulation.c), which does the same with less work, only those matmuls are
 * left that cannot join another group.
 *
 * The main entry point is planner_recompute. */
#include "machine/limits/planner.h"
#include "plan/backend.h"
#include "plan/group_builder.h"
#include "support/arena.h"

enum {
  NO_AXIS = UINT32_MAX,
  ROW_AXIS = UINT32_MAX - 1, /* the axis that the matmul reduces */
};

/* A value that the group computes again. */
typedef struct Member {
  const Candidate *of;
  /* For each variable of the value: the parallel axis of the group, ROW_AXIS
   * or NO_AXIS. */
  uint32_t axes[MAX_KERNEL_AXES];
} Member;

typedef struct Recomputation {
  const FusionPlanner *planner;
  Candidate *matmul;
  const Candidate *matrix; /* its large operand */
  uint32_t parallel_axes, matmul_vars[MAX_KERNEL_AXES];
  uint32_t member_count, contractions;
  Member members[MAX_GROUP_NODES];
} Recomputation;

static bool is_reduction(const Candidate *x) {
  const LoopNest *loop = x->lowered->loop;
  return loop->axis_count > loop->spatial_axes;
}

static Candidate *input_of(const FusionPlanner *c, const Candidate *x,
                           uint32_t j) {
  return &c->candidates[x->plan_node->inputs.at[j]->order];
}

/* ---- axes ---- */

/* Finds the parallel axes: those of the matmul that index the matrix.  The
 * other axis of the matrix is the one that the matmul reduces. */
static bool find_parallel_axes(Recomputation *r) {
  const LoopNest *loop = r->matmul->lowered->loop;
  uint32_t vars[MAX_KERNEL_AXES], rows = 0;
  uint32_t count = r->matrix->lowered->loop->spatial_axes;
  Member *m = &r->members[0];
  if (loop->axis_count != loop->spatial_axes + 1 ||
      !planner_map_reads(r->planner, r->matmul, r->matrix, vars))
    return false;
  for (uint32_t v = 0; v < count; v++) {
    m->axes[v] = vars[v] == loop->spatial_axes ? ROW_AXIS : NO_AXIS;
    rows += m->axes[v] == ROW_AXIS;
  }
  for (uint32_t u = 0; u < loop->spatial_axes; u++)
    for (uint32_t v = 0; v < count; v++)
      if (vars[v] == u && m->axes[v] == NO_AXIS) {
        m->axes[v] = r->parallel_axes;
        r->matmul_vars[r->parallel_axes++] = u;
        break;
      }
  return rows == 1 && r->parallel_axes + 1 == count &&
         r->parallel_axes < loop->spatial_axes;
}

/* True if the value has the row axis and each parallel axis. */
static bool has_all_axes(const Recomputation *r, const Member *m) {
  uint64_t seen = 0;
  bool row = false;
  for (uint32_t v = 0; v < m->of->lowered->loop->spatial_axes; v++) {
    if (m->axes[v] == NO_AXIS)
      return false;
    row |= m->axes[v] == ROW_AXIS;
    if (m->axes[v] != ROW_AXIS)
      seen |= (uint64_t)1 << m->axes[v];
  }
  return row && seen == ((uint64_t)1 << r->parallel_axes) - 1;
}

/* ---- members ---- */

/* True if the backend has no kernel for a group with this node. */
static bool was_rejected(const FusionPlanner *c, const Candidate *x) {
  return c->plan->graph->backend->has_fused_attention ? x->attention_rejected
                                                      : x->must_fit_cache;
}

static Member *member_of(Recomputation *r, const Candidate *x) {
  for (uint32_t k = 0; k < r->member_count; k++)
    if (r->members[k].of == x)
      return &r->members[k];
  return NULL;
}

/* Adds y, which member `reader` reads.  Returns false if the group cannot
 * compute it. */
static bool add_member(Recomputation *r, uint32_t reader, const Candidate *y) {
  uint32_t vars[MAX_KERNEL_AXES];
  Member m = {.of = y}, *known = member_of(r, y);
  if (!planner_map_reads(r->planner, r->members[reader].of, y, vars))
    return false;
  for (uint32_t v = 0; v < y->lowered->loop->spatial_axes; v++) {
    m.axes[v] = vars[v] == NO_AXIS ? NO_AXIS : r->members[reader].axes[vars[v]];
    if (known && known->axes[v] != m.axes[v])
      return false;
  }
  if (known)
    return true;
  if (r->member_count == MAX_GROUP_NODES || !has_all_axes(r, &m))
    return false;
  r->members[r->member_count++] = m;
  return true;
}

static double elements_along(const LoopNest *loop, uint64_t vars) {
  double elements = 1;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (vars >> v & 1)
      elements *= (double)loop_extent_hint(loop, v);
  return elements;
}

/* True if the operands of a matmul, except for the matrix, are so small that it
 * pays to read them again. */
static bool has_small_operands(const Recomputation *r, const Candidate *x) {
  const LoopNest *loop = x->lowered->loop;
  const LoopNest *matrix = r->matrix->lowered->loop;
  const uint64_t *vars = loop_op_vars(r->planner->arena, loop);
  uint64_t all = ((uint64_t)1 << matrix->spatial_axes) - 1;
  for (uint32_t k = 0; k < loop->ops.len; k++)
    if (loop->ops.at[k].kind == KOP_LOAD &&
        loop->ops.at[k].node != r->matrix->plan_node->node &&
        MIN_RECOMPUTED_RATIO * elements_along(loop, vars[k]) >
            elements_along(matrix, all))
      return false;
  return true;
}

/* Adds what the matrix is computed from, up to the operands of contractions and
 * to values that are much smaller; these are stored. */
static bool find_members(Recomputation *r) {
  r->member_count = 1;
  r->members[0].of = r->matrix;
  for (uint32_t k = 0; k < r->member_count; k++) {
    const Candidate *x = r->members[k].of;
    if (x->plan_node->root || x->plan_node->required || x->attention_rejected ||
        (is_reduction(x) && (!x->is_contraction || !has_small_operands(r, x))))
      return false;
    r->contractions += x->is_contraction;
    for (uint32_t j = 0; !is_reduction(x) && j < x->plan_node->inputs.len;
         j++) {
      const Candidate *y = input_of(r->planner, x, j);
      if (y->lowered && !planner_is_much_smaller(r->planner, y, r->matrix) &&
          !add_member(r, k, y))
        return false;
    }
  }
  return r->contractions > 0 && r->contractions <= MAX_SCORE_PRODUCTS;
}

/* True if x reduces the row axis of a member. */
static bool reduces_row_of(const Recomputation *r, const Candidate *x,
                           const Member *m) {
  uint32_t vars[MAX_KERNEL_AXES];
  const LoopNest *loop = x->lowered->loop;
  if (!planner_map_reads(r->planner, x, m->of, vars))
    return false;
  for (uint32_t v = 0; v < m->of->lowered->loop->spatial_axes; v++)
    if (m->axes[v] == ROW_AXIS && vars[v] != NO_AXIS &&
        vars[v] >= loop->spatial_axes)
      return true;
  return false;
}

/* True if the matrix depends on statistics of its rows that a kernel with the
 * matmul can compute, as in the forward pass of attention. */
static bool has_own_statistics(const Recomputation *r) {
  if (r->contractions > 1)
    return false;
  for (uint32_t k = 0; k < r->planner->plan->materialized.len; k++) {
    const Candidate *x = &r->planner->candidates[k];
    if (!x->lowered || !is_reduction(x) || x->is_contraction)
      continue;
    for (uint32_t j = 0; j < r->member_count; j++)
      if (planner_reads(x, r->members[j].of) &&
          reduces_row_of(r, x, &r->members[j]))
        return true;
  }
  return false;
}

/* ---- groups ---- */

static void build_group(FusionPlanner *c, const Recomputation *r) {
  GroupBuilder *d = r->matmul->group;
  d->parallel_axes = r->parallel_axes;
  d->recomputes = true;
  *(c->plan->graph->backend->has_fused_attention ? &d->needs_fused_attention
                                                 : &d->needs_strip_mining) =
      true;
  for (uint32_t a = 0; a < r->parallel_axes; a++)
    r->matmul->parallel_vars[a] = r->matmul_vars[a];
  for (uint32_t k = 0; k < r->member_count; k++) {
    const Member *m = &r->members[k];
    Candidate *copy = planner_insert_copy(c, d, m->of);
    for (uint32_t v = 0; v < m->of->lowered->loop->spatial_axes; v++)
      if (m->axes[v] != ROW_AXIS)
        copy->parallel_vars[m->axes[v]] = v;
  }
}

/* True if the matmul can join another group instead, if its backend supports
 * that: sums of 16-bit floats are rounded once, so they are complete at the end
 * only, and the number of tasks must be known. */
static bool may_accumulate(const FusionPlanner *c, const Candidate *x) {
  const Node *n = x->plan_node->node;
  return c->plan->graph->backend->can_accumulate &&
         dtype_info[n->dtype].bytes > 2 && !loop_is_symbolic(x->lowered->loop);
}

/* True if storing the matrix is no trouble for a backend without
 * fused-attention kernels. */
static bool is_small(const FusionPlanner *c, const Candidate *matrix) {
  const Node *n = matrix->plan_node->node;
  return !c->plan->graph->backend->has_fused_attention &&
         !loop_is_symbolic(matrix->lowered->loop) &&
         node_element_hint(c->plan->graph, n) * dtype_info[n->dtype].bytes <
             MAX_SHALLOW_BYTES;
}

static void try_recompute(FusionPlanner *c, Candidate *matmul) {
  Recomputation *r = NEW(c->arena, Recomputation);
  r->planner = c;
  r->matmul = matmul;
  r->matrix = planner_largest_input(c, matmul);
  if (r->matrix && r->matrix->lowered && !is_small(c, r->matrix) &&
      planner_is_much_smaller(c, matmul, r->matrix) && find_parallel_axes(r) &&
      find_members(r) && !has_own_statistics(r))
    build_group(c, r);
}

void planner_recompute(FusionPlanner *c) {
  const Backend *b = c->plan->graph->backend;
  if (!b->has_fused_attention && !b->can_accumulate)
    return; /* it computes whole rows only */
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    Candidate *x = &c->candidates[k];
    if (x->lowered && x->is_contraction && !was_rejected(c, x) &&
        !may_accumulate(c, x))
      try_recompute(c, x);
  }
  planner_drop_dead(c);
}
