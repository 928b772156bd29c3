/* Sums over the rows of a fusion group.
 *
 * A group such as the backward pass of attention computes rows of a large
 * matrix: the derivatives of the scores.  Some matmuls sum over these rows, and
 * so would read the matrix from memory.  Instead, such a *sum* joins the group:
 * each block of rows adds to its result.  The rows then run in order, and only
 * the other parallel axes are tasks (Kernel.accumulated_axes).
 *
 * If the group also reads a large matrix of another group, such as the weights
 * of attention, it may compute this matrix again from small tensors.  Then
 * neither matrix is stored (rematerialization).
 *
 * The main entry point is planner_accumulate. */
#include "machine/limits/planner.h"
#include "machine/machine.h"
#include "plan/backend.h"
#include "plan/group_builder.h"
#include "runtime/runtime.h"
#include "support/arena.h"

#include <math.h>
#include <string.h>

enum { NO_AXIS = UINT32_MAX };

static double candidate_elements(const FusionPlanner *c, const Candidate *x) {
  return node_element_hint(c->plan->graph, x->plan_node->node);
}

static double candidate_bytes(const FusionPlanner *c, const Candidate *x) {
  return candidate_elements(c, x) * dtype_info[x->plan_node->node->dtype].bytes;
}

bool planner_is_much_smaller(const FusionPlanner *c, const Candidate *x,
                             const Candidate *y) {
  return MIN_SIZE_RATIO * candidate_elements(c, x) <= candidate_elements(c, y);
}

static Candidate *input_of(const FusionPlanner *c, const Candidate *x,
                           uint32_t j) {
  return &c->candidates[x->plan_node->inputs.at[j]->order];
}

const Candidate *planner_largest_input(const FusionPlanner *c,
                                       const Candidate *x) {
  const Candidate *largest = NULL;
  for (uint32_t j = 0; j < x->plan_node->inputs.len; j++) {
    const Candidate *y = input_of(c, x, j);
    if (!largest || candidate_elements(c, y) > candidate_elements(c, largest))
      largest = y;
  }
  return largest;
}

bool planner_reads(const Candidate *reader, const Candidate *x) {
  for (uint32_t j = 0; j < reader->plan_node->inputs.len; j++)
    if (reader->plan_node->inputs.at[j] == x->plan_node)
      return true;
  return false;
}

static bool group_reads(const GroupBuilder *d, const Candidate *x) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (planner_reads(d->candidates.at[k], x))
      return true;
  return false;
}

/* ---- rows that are read twice ---- */

typedef bool IsReduction(const Candidate *x);

static bool is_contraction(const Candidate *x) {
  return x->is_contraction;
}

static bool is_reduction(const Candidate *x) {
  const LoopNest *loop = x->lowered->loop;
  return loop->axis_count > loop->spatial_axes;
}

/* True if x depends, within its group, on a reduction of the rows of `rows`. */
static bool depends_on_reduced(const FusionPlanner *c, const Candidate *x,
                               const Candidate *rows, IsReduction *reduces) {
  if (x->group != rows->group || x->position <= rows->position)
    return false;
  if (reduces(x) && planner_reads(x, rows) &&
      planner_is_much_smaller(c, x, rows))
    return true;
  for (uint32_t j = 0; j < x->plan_node->inputs.len; j++)
    if (depends_on_reduced(c, input_of(c, x, j), rows, reduces))
      return true;
  return false;
}

/* True if the group reads the rows, and a value that depends on a reduction of
 * them. */
static bool reads_rows_and_result(const FusionPlanner *c, const GroupBuilder *b,
                                  const Candidate *rows, IsReduction *reduces) {
  const GroupBuilder *a = rows->group;
  for (uint32_t i = 0; i < a->candidates.len; i++)
    if (group_reads(b, a->candidates.at[i]) &&
        depends_on_reduced(c, a->candidates.at[i], rows, reduces))
      return true;
  return false;
}

/* True if the group reads the result of another matmul with such rows. */
static bool reads_other_rows(const FusionPlanner *c, const GroupBuilder *b,
                             const Candidate *rows) {
  for (uint32_t k = 0; k < b->candidates.len; k++) {
    const Candidate *reader = b->candidates.at[k];
    for (uint32_t j = 0; j < reader->plan_node->inputs.len; j++) {
      const Candidate *x = input_of(c, reader, j);
      if (x->is_contraction && x->group != rows->group &&
          !planner_is_much_smaller(c, x, rows))
        return true;
    }
  }
  return false;
}

static double row_bytes(const FusionPlanner *c, const Candidate *x) {
  const LoopNest *loop = x->lowered->loop;
  double rows = 1;
  for (uint32_t a = 0; a < x->group->parallel_axes; a++)
    rows *= (double)loop_extent_hint(loop, x->parallel_vars[a]);
  return candidate_bytes(c, x) / rows;
}

bool planner_rereads_rows(const FusionPlanner *c, const GroupBuilder *a,
                          const GroupBuilder *b) {
  for (uint32_t k = 0; k < a->candidates.len; k++) {
    const Candidate *rows = a->candidates.at[k];
    if (!group_reads(b, rows))
      continue;
    if (reads_rows_and_result(c, b, rows, is_contraction) ||
        (row_bytes(c, rows) > MAX_REREAD_ROW_BYTES &&
         reads_other_rows(c, b, rows) &&
         reads_rows_and_result(c, b, rows, is_reduction)))
      return true;
  }
  return false;
}

/* ---- axes ---- */

/* The variable that the expression is; NO_AXIS: it is more than one. */
static uint32_t single_variable(const LoopNest *loop, const AffineExpr *q,
                                int64_t extent) {
  for (uint32_t v = 0; v < loop->axis_count; v++) {
    AffineExpr alone = {.constant = 0};
    alone.coef[v] = 1;
    if (loop->extents[v] == extent && affine_equal(&alone, q))
      return v;
  }
  return NO_AXIS;
}

/* Sets vars[v] to the variable of the reader that indexes variable v of x;
 * NO_AXIS: no single one.  Returns false if the read cannot be mapped. */
static bool map_read(const FusionPlanner *c, const Candidate *reader,
                     const KernelOp *s, const Candidate *x, uint32_t *vars) {
  AffineExpr *parts[MAX_KERNEL_AXES];
  const LoopNest *loop = x->lowered->loop;
  uint32_t axes = s->node->free_count + s->node->rank;
  for (uint32_t axis = 0; axis < axes; axis++) {
    if (s->checked_index_count ||
        !lowered_node_delinearize(c->arena, x->lowered, axis,
                                  s->index_exprs[axis], reader->lowered->loop,
                                  parts))
      return false;
    for (uint32_t k = 0; k < x->lowered->var_count[axis]; k++) {
      uint32_t v = x->lowered->first_var[axis] + k;
      vars[v] =
          single_variable(reader->lowered->loop, parts[k], loop->extents[v]);
    }
  }
  return true;
}

bool planner_map_reads(const FusionPlanner *c, const Candidate *reader,
                       const Candidate *x, uint32_t *vars) {
  const LoopNest *loop = reader->lowered->loop;
  uint32_t other[MAX_KERNEL_AXES], count = x->lowered->loop->spatial_axes;
  bool found = false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind != KOP_LOAD || s->node != x->plan_node->node)
      continue;
    if (!map_read(c, reader, s, x, found ? other : vars) ||
        (found && memcmp(other, vars, count * sizeof *vars) != 0))
      return false;
    found = true;
  }
  return found;
}

/* Sets axes[v] to the parallel axis of the group that indexes variable v of x;
 * NO_AXIS: none.  The group computes or reads x. */
static bool find_group_axes(const FusionPlanner *c, const GroupBuilder *d,
                            const Candidate *x, uint32_t *axes) {
  uint32_t count = x->lowered->loop->spatial_axes, vars[MAX_KERNEL_AXES];
  bool found = x->group == d;
  for (uint32_t v = 0; v < count; v++)
    axes[v] = NO_AXIS;
  for (uint32_t a = 0; found && a < d->parallel_axes; a++)
    axes[x->parallel_vars[a]] = a;
  for (uint32_t k = 0; x->group != d && k < d->candidates.len; k++) {
    const Candidate *reader = d->candidates.at[k];
    if (!planner_reads(reader, x))
      continue;
    if (!planner_map_reads(c, reader, x, vars))
      return false;
    for (uint32_t v = 0; v < count; v++) {
      uint32_t a = 0;
      while (a < d->parallel_axes && reader->parallel_vars[a] != vars[v])
        a++;
      a = a < d->parallel_axes ? a : NO_AXIS;
      if (found && axes[v] != a)
        return false;
      axes[v] = a;
    }
    found = true;
  }
  return found;
}

/* Finds a value with such rows in the group of x that d reads; x, or NULL. */
static const Candidate *value_with_rows(const FusionPlanner *c,
                                        const GroupBuilder *d,
                                        const Candidate *x) {
  if (x->group == d || group_reads(d, x))
    return x;
  for (uint32_t k = 0; k < x->group->candidates.len; k++) {
    const Candidate *y = x->group->candidates.at[k];
    if (y->lowered && !planner_is_much_smaller(c, y, x) && group_reads(d, y))
      return y;
  }
  return NULL;
}

/* The same as find_group_axes.  If d does not read x, but another value y with
 * such rows, only the rows are mapped. */
static bool find_row_axes(const FusionPlanner *c, const GroupBuilder *d,
                          const Candidate *x, uint32_t *axes) {
  const Candidate *y = value_with_rows(c, d, x);
  uint32_t of_y[MAX_KERNEL_AXES];
  if (!y || y == x)
    return y && find_group_axes(c, d, x, axes);
  if (!find_group_axes(c, d, y, of_y))
    return false;
  for (uint32_t v = 0; v < x->lowered->loop->spatial_axes; v++)
    axes[v] = NO_AXIS;
  for (uint32_t h = 0; h < x->group->parallel_axes; h++)
    axes[x->parallel_vars[h]] = of_y[y->parallel_vars[h]];
  return true;
}

/* Inverts the map: by_axis[a] is the variable of x for parallel axis a. Returns
 * false if an axis has none. */
static bool invert_axes(const GroupBuilder *d, uint32_t count,
                        const uint32_t *axes, uint32_t *by_axis) {
  for (uint32_t a = 0; a < d->parallel_axes; a++) {
    by_axis[a] = NO_AXIS;
    for (uint32_t v = 0; v < count; v++)
      if (axes[v] == a)
        by_axis[a] = v;
    if (by_axis[a] == NO_AXIS)
      return false;
  }
  return true;
}

/* ---- groups that keep the rows of another group ---- */

static bool has_contraction(const GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->is_contraction)
      return true;
  return false;
}

/* True if x has rows: its group reduces an axis of x. */
static bool has_rows(const FusionPlanner *c, const Candidate *x) {
  return x->lowered && candidate_bytes(c, x) >= MAX_SHALLOW_BYTES &&
         x->group->parallel_axes < x->lowered->loop->spatial_axes &&
         has_contraction(x->group);
}

static bool drops_rows_of(const FusionPlanner *c, const GroupBuilder *a,
                          const uint32_t *reader_axes, const Candidate *x) {
  uint32_t axes[MAX_KERNEL_AXES];
  if (!find_group_axes(c, a, x, axes))
    return false;
  for (uint32_t h = 0; h < x->group->parallel_axes; h++) {
    uint32_t axis = axes[x->parallel_vars[h]];
    if (axis != NO_AXIS && reader_axes[axis] == NO_AXIS)
      return true;
  }
  return false;
}

bool planner_drops_rows(const FusionPlanner *c, const GroupBuilder *a,
                        const GroupBuilder *b, const uint32_t *reader_axes) {
  for (uint32_t k = 0; has_contraction(b) && k < a->candidates.len; k++)
    for (uint32_t j = 0; j < a->candidates.at[k]->plan_node->inputs.len; j++) {
      const Candidate *x = input_of(c, a->candidates.at[k], j);
      if (x->group != a && x->group != b && has_rows(c, x) &&
          drops_rows_of(c, a, reader_axes, x))
        return true;
    }
  return false;
}

/* ---- a sum joins a group ---- */

/* A sum that may join a group, by a large value that the sum reads, and that
 * the group computes or reads. */
typedef struct Join {
  GroupBuilder *group;
  Candidate *sum;
  const Candidate *x;
  uint32_t sum_vars[MAX_KERNEL_AXES]; /* by parallel axis of the group */
  /* The axis is a row of the result of the sum.  The group loses it. */
  bool drops[MAX_KERNEL_AXES];
  uint32_t kept;        /* number of axes that the group keeps */
  uint32_t accumulated; /* number of these that the sum reduces */
} Join;

static bool is_rejected(const GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++)
    if (d->candidates.at[k]->accumulation_rejected ||
        !d->candidates.at[k]->lowered)
      return true;
  return false;
}

/* True if the other nodes of the group are elementwise operations on x. */
static bool has_only_epilogue(const Candidate *x) {
  const GroupBuilder *d = x->group;
  bool only = d->candidates.at[0] == x && !d->needs_strip_mining &&
              !d->needs_fused_attention;
  for (uint32_t k = 1; k < d->candidates.len; k++)
    only &= !is_reduction(d->candidates.at[k]);
  return only;
}

/* True if the node is a matmul that may join another group. */
static bool is_sum(const FusionPlanner *c, const Candidate *x) {
  ContractionPattern p;
  return x->lowered && x->is_contraction && has_only_epilogue(x) &&
         !x->accumulation_rejected && !loop_is_symbolic(x->lowered->loop) &&
         contraction_match(c->arena, x->lowered->loop, &p);
}

/* The variables on which, of all that the sum reads, only x depends. */
static uint64_t own_variables(const FusionPlanner *c, const Join *j) {
  const LoopNest *loop = j->sum->lowered->loop;
  const uint64_t *vars = loop_op_vars(c->arena, loop);
  uint64_t of_x = 0, of_others = 0;
  for (uint32_t k = 0; k < loop->ops.len; k++) {
    const KernelOp *s = &loop->ops.at[k];
    if (s->kind == KOP_LOAD)
      *(s->node == j->x->plan_node->node ? &of_x : &of_others) |= vars[k];
  }
  return of_x & ~of_others;
}

/* Maps the axes of the group to those of the sum. */
static bool map_sum(const FusionPlanner *c, Join *j) {
  const LoopNest *loop = j->sum->lowered->loop;
  uint32_t vars[MAX_KERNEL_AXES], axes[MAX_KERNEL_AXES],
      by_axis[MAX_KERNEL_AXES], count = j->x->lowered->loop->spatial_axes;
  bool used[MAX_KERNEL_AXES] = {false};
  if (!find_row_axes(c, j->group, j->x, axes) ||
      !invert_axes(j->group, count, axes, by_axis) ||
      !planner_map_reads(c, j->sum, j->x, vars))
    return false;
  uint64_t own = own_variables(c, j);
  for (uint32_t a = 0; a < j->group->parallel_axes; a++) {
    uint32_t v = vars[by_axis[a]];
    if (v == NO_AXIS || used[v])
      return false;
    used[v] = true;
    j->sum_vars[a] = v;
    j->accumulated += v >= loop->spatial_axes;
    j->drops[a] = v < loop->spatial_axes && (own >> v & 1);
    j->kept += !j->drops[a];
  }
  return j->accumulated > 0 &&
         j->accumulated == loop->axis_count - loop->spatial_axes &&
         loop->axis_count >= j->kept + 2;
}

static bool reduces_axis(const Join *j, uint32_t a) {
  return j->sum_vars[a] >= j->sum->lowered->loop->spatial_axes;
}

/* True if the other sums of the group reduce the same axes. */
static bool agrees_with_group(const Join *j) {
  const GroupBuilder *d = j->group;
  for (uint32_t a = 0; a < d->parallel_axes; a++)
    if (j->drops[a] ||
        reduces_axis(j, a) != (a + d->accumulated_axes >= d->parallel_axes))
      return d->accumulated_axes == 0;
  return true;
}

/* True if this number of tasks occupies all cores for most of the time. */
static bool occupies_cores(double tasks) {
  double cores = machine()->processors;
  return tasks >= cores &&
         ceil(tasks / cores) * cores <= MAX_TASK_IMBALANCE * tasks;
}

/* True if the tasks that are left are worth what the group saves.  Values of
 * more than an eighth of memory are not stored in any case. */
static bool pays(const FusionPlanner *c, const Join *j) {
  double tasks = 1;
  const LoopNest *loop = j->sum->lowered->loop;
  double bytes = candidate_bytes(c, j->x);
  for (uint32_t a = 0; a < j->group->parallel_axes; a++)
    if (!reduces_axis(j, a) && !j->drops[a])
      tasks *= (double)loop_extent_hint(loop, j->sum_vars[a]);
  const Graph *g = c->plan->graph;
  double memory = g->max_tensor_bytes > 0 ? (double)g->max_tensor_bytes
                                          : (double)memory_limit();
  return bytes >= MAX_SHALLOW_BYTES &&
         (occupies_cores(tasks) || bytes >= memory / 8);
}

/* Drops axes, and moves those that the sum reduces behind the others. */
static void order_axes(Join *j) {
  GroupBuilder *d = j->group;
  uint32_t order[MAX_KERNEL_AXES], count = 0, old[MAX_KERNEL_AXES];
  for (uint32_t reduced = 0; reduced < 2; reduced++)
    for (uint32_t a = 0; a < d->parallel_axes; a++)
      if (reduces_axis(j, a) == reduced && !j->drops[a])
        order[count++] = a;
  for (uint32_t k = 0; k <= d->candidates.len; k++) {
    uint32_t *vars = k < d->candidates.len ? d->candidates.at[k]->parallel_vars
                                           : j->sum_vars;
    memcpy(old, vars, sizeof old);
    for (uint32_t a = 0; a < count; a++)
      vars[a] = old[order[a]];
  }
  d->parallel_axes = count;
}

void planner_insert(FusionPlanner *c, GroupBuilder *d, Candidate *x) {
  uint32_t k = d->candidates.len;
  VEC_PUSH(c->arena, d->candidates, x);
  for (; k > 0 && d->candidates.at[k - 1]->position > x->position; k--)
    d->candidates.at[k] = d->candidates.at[k - 1];
  d->candidates.at[k] = x;
  x->group = d;
}

/* Moves the sum from its group to a new one. */
static void detach(FusionPlanner *c, Candidate *sum) {
  GroupBuilder *old = sum->group, *alone = NEW(c->arena, GroupBuilder);
  for (uint32_t k = 1; k < old->candidates.len; k++)
    old->candidates.at[k - 1] = old->candidates.at[k];
  old->candidates.len--;
  alone->parallel_axes = sum->lowered->loop->spatial_axes;
  for (uint32_t v = 0; v < alone->parallel_axes; v++)
    sum->parallel_vars[v] = v;
  planner_insert(c, alone, sum);
  planner_number_groups(c);
}

static bool try_join(FusionPlanner *c, GroupBuilder *d, Candidate *sum,
                     const Candidate *x) {
  Join j = {.group = d, .sum = sum, .x = x};
  if (d == sum->group || is_rejected(d) || !has_contraction(d) ||
      d->candidates.len >= MAX_GROUP_NODES || !map_sum(c, &j) ||
      !agrees_with_group(&j) || !pays(c, &j) ||
      planner_depends_on(c, d, sum->group) ||
      planner_would_create_cycle(c, d, sum->group))
    return false;
  if (sum->group->candidates.len > 1) /* its epilogue is another kernel then */
    detach(c, sum);
  if (!d->accumulated_axes)
    order_axes(&j);
  d->accumulated_axes = j.accumulated;
  d->last_sum = sum;
  memcpy(sum->parallel_vars, j.sum_vars, sizeof j.sum_vars);
  planner_insert(c, d, sum);
  planner_number_groups(c);
  return true;
}

/* Groups that read x, or other values with its rows, come first: if the group
 * that computes x is an earlier one, as in a forward pass, it is better left
 * alone. */
static void join_some_group(FusionPlanner *c, Candidate *sum,
                            const Candidate *x) {
  for (uint32_t k = x->position + 1; k < c->plan->materialized.len; k++) {
    GroupBuilder *d = c->candidates[k].group;
    if (d != x->group && value_with_rows(c, d, x) && try_join(c, d, sum, x))
      return;
  }
  try_join(c, x->group, sum, x);
}

/* ---- values that are computed again ---- */

/* The values that are needed to compute one again. */
typedef struct Cone {
  VEC(const Candidate *) members;
} Cone;

static bool contains(const Cone *cone, const Candidate *x) {
  for (uint32_t k = 0; k < cone->members.len; k++)
    if (cone->members.at[k] == x)
      return true;
  return false;
}

/* Adds what x depends on in its group, up to values that are much smaller than
 * x; these are stored.  Returns false if that is too much work. */
static bool find_cone(FusionPlanner *c, const Candidate *x, Cone *cone) {
  VEC_PUSH(c->arena, cone->members, x);
  for (uint32_t k = 0; k < cone->members.len; k++) {
    const Candidate *at = cone->members.at[k];
    const LoopNest *loop = at->lowered->loop;
    bool reduces = loop->axis_count > loop->spatial_axes;
    if (k >= MAX_GROUP_NODES || at->plan_node->root ||
        at->plan_node->required ||
        (reduces && (!at->is_contraction || at->depth > 2 * SHALLOW_DEPTH)))
      return false;
    for (uint32_t j = 0; j < at->plan_node->inputs.len; j++) {
      const Candidate *y = input_of(c, at, j);
      if (y->group == x->group && !planner_is_much_smaller(c, y, x) &&
          !contains(cone, y))
        VEC_PUSH(c->arena, cone->members, y);
    }
  }
  return true;
}

/* True if only its group and d read x. */
static bool has_no_other_reader(const FusionPlanner *c, const Candidate *x,
                                const GroupBuilder *d) {
  for (uint32_t k = x->position + 1; k < c->plan->materialized.len; k++) {
    const Candidate *reader = &c->candidates[k];
    if (planner_reads(reader, x) && reader->group != x->group &&
        reader->group != d)
      return false;
  }
  return true;
}

Candidate *planner_insert_copy(FusionPlanner *c, GroupBuilder *d,
                               const Candidate *x) {
  Candidate *copy = NEW(c->arena, Candidate);
  *copy = *x;
  copy->is_copy = true;
  planner_insert(c, d, copy);
  VEC_PUSH(c->arena, c->copies, copy);
  return copy;
}

/* Computes x again in group d, which reads it. */
static void try_copy(FusionPlanner *c, GroupBuilder *d, const Candidate *x) {
  Cone cone = {0};
  uint32_t axes[MAX_KERNEL_AXES], by_axis[MAX_KERNEL_AXES],
      group_axis[MAX_KERNEL_AXES];
  const GroupBuilder *from = x->group;
  if (!has_no_other_reader(c, x, d) || !find_group_axes(c, d, x, axes) ||
      !invert_axes(d, x->lowered->loop->spatial_axes, axes, by_axis) ||
      !find_cone(c, x, &cone) ||
      cone.members.len + d->candidates.len > MAX_GROUP_NODES)
    return;
  for (uint32_t a = 0; a < d->parallel_axes; a++) {
    uint32_t h = 0;
    while (h < from->parallel_axes && x->parallel_vars[h] != by_axis[a])
      h++;
    if (h == from->parallel_axes)
      return;
    group_axis[a] = h;
  }
  for (uint32_t k = 0; k < cone.members.len; k++) {
    const Candidate *member = cone.members.at[k];
    if (group_builder_computes(d, member->plan_node))
      continue;
    Candidate *copy = planner_insert_copy(c, d, member);
    for (uint32_t a = 0; a < d->parallel_axes; a++)
      copy->parallel_vars[a] = member->parallel_vars[group_axis[a]];
  }
}

/* Large values of other groups that the group reads. */
static void copy_inputs(FusionPlanner *c, GroupBuilder *d) {
  for (uint32_t k = 0; k < d->candidates.len; k++) {
    const Candidate *reader = d->candidates.at[k];
    for (uint32_t j = 0; !reader->is_copy && j < reader->plan_node->inputs.len;
         j++) {
      const Candidate *x = input_of(c, reader, j);
      if (x->group != d && x->lowered && !x->plan_node->cuts &&
          planner_is_much_smaller(c, d->last_sum, x) &&
          !group_builder_computes(d, x->plan_node))
        try_copy(c, d, x);
    }
  }
}

/* ---- values that are not needed any more ---- */

/* The group that computes x again; NULL: none. */
static GroupBuilder *copying_group(const FusionPlanner *c, const Candidate *x) {
  for (uint32_t k = 0; k < c->copies.len; k++)
    if (c->copies.at[k]->plan_node == x->plan_node)
      return c->copies.at[k]->group;
  return NULL;
}

/* True if the reader has no copy of x in its group. */
static bool needs(const Candidate *reader, const Candidate *x) {
  return planner_reads(reader, x) &&
         (reader->group == x->group ||
          !group_builder_computes(reader->group, x->plan_node));
}

static bool is_needed(const FusionPlanner *c, const Candidate *x) {
  if (x->plan_node->root || x->plan_node->required)
    return true;
  for (uint32_t k = x->position + 1; k < c->plan->materialized.len; k++)
    if (!c->candidates[k].is_dead && needs(&c->candidates[k], x))
      return true;
  for (uint32_t k = 0; k < c->copies.len; k++)
    if (needs(c->copies.at[k], x))
      return true;
  return false;
}

void planner_drop_dead(FusionPlanner *c) {
  for (uint32_t k = c->plan->materialized.len; c->copies.len && k-- > 0;) {
    Candidate *x = &c->candidates[k];
    GroupBuilder *d = x->group, *other = copying_group(c, x);
    if (!other || is_needed(c, x))
      continue;
    uint32_t kept = 0;
    for (uint32_t j = 0; j < d->candidates.len; j++)
      if (d->candidates.at[j] != x)
        d->candidates.at[kept++] = d->candidates.at[j];
    d->candidates.len = kept;
    x->is_dead = true;
    x->group = other;
  }
}

/* ---- main entry point ---- */

void planner_accumulate(FusionPlanner *c) {
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    Candidate *sum = &c->candidates[k];
    const Candidate *x = planner_largest_input(c, sum);
    if (x && is_sum(c, sum) && x->lowered && planner_is_much_smaller(c, sum, x))
      join_some_group(c, sum, x);
  }
  for (uint32_t k = 0; k < c->plan->materialized.len; k++) {
    GroupBuilder *d = c->candidates[k].group;
    if (d->accumulated_axes && d->last_sum == &c->candidates[k])
      copy_inputs(c, d);
  }
  planner_drop_dead(c);
  planner_number_groups(c);
}
