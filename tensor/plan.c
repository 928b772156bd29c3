/* Fusion: which nodes are stored, and which become part of their readers.
 *
 * Nodes are decided about from the roots down, readers before inputs.  So when
 * a node's turn comes, all places that read it are known, as cells of groups
 * (the bodies of stored nodes); a value that two inlined readers share is one
 * cell of one group.  The node is either stored, and those cells stay reads,
 * or its body is put in their place.
 *
 * A node is inlined where that costs no more than storing it: it is never
 * evaluated much more often than it has elements, whatever its readers do, so
 * work cannot multiply along a chain.  Reductions are stored, except that a
 * reader which merely moves the elements of one takes over the whole of it. */
#include "tensor/cost.h"
#include "tensor/group.h"
#include "tensor/recipe.h"

enum {
  CELLS_MOST = 320,      /* of a group, beyond which nothing is inlined */
  CELLS_MOST_ALL = 4096, /* the same in the mode of tests */
  EAGER_DEPTH = 16,
  EAGER_CELLS = 24,
  FACTOR_COST = 6,    /* of an element of a factor of a product */
  INDEX_COST = 8,     /* of what is made of indices alone: about a read */
  FEWER = 4,          /* elements than their reader's: not done again */
  KEPT_WORK = 4,      /* of an element that is not worth being kept */
  ROW_WORK = 4,       /* elements of a row, for each operation before it */
  WINDOW_TERMS = 256, /* of a window that reads what is padded, */
  WINDOW_ROW = 5,     /* in rows of so many at least */
};

/* Done again so seldom, work is no more than to store its value. */
static const double TIMES_LEAST = 1.05;
/* Of what no near cache holds, so that to read it is to read memory. */
static const double STREAM_BYTES = 4 << 20;

/* ---- collecting ---- */

static PlanNode *plan_node(const Plan *plan, const Node *n) {
  return plan->nodes.at[n->mark - 1];
}

static uint32_t need_count(const Node *n) {
  return n->loop ? n->loop->need_count : 0;
}

static uint32_t child_count(const Node *n) {
  return n->cell_count + n->input_count + need_count(n) + 1;
}

static Node *child(const Node *n, uint32_t k) {
  if (k < n->cell_count)
    return n->cells[k].kind == CELL_READ ? n->cells[k].node : NULL;
  k -= n->cell_count;
  if (k < n->input_count)
    return n->inputs[k];
  k -= n->input_count;
  return k < need_count(n) ? n->loop->needs[k] : n->guard;
}

typedef struct Visit {
  Node *node;
  uint32_t next; /* child to look at */
} Visit;

static void add_node(Plan *plan, Node *n) {
  PlanNode *p = NEW(plan->arena, PlanNode);
  VEC_PUSH(plan->arena, plan->nodes, p);
  p->node = node_retain(n);
  n->mark = plan->nodes.len;
}

/* Depth first, inputs before readers, with a stack of its own.  A node that
 * is marked has been seen: graphs have no cycles. */
static void collect(Plan *plan, Node *root) {
  if (node_is_there(root) || root->mark)
    return;
  VEC(Visit) stack = {0};
  VEC_PUSH(plan->arena, stack, ((Visit){root, 0}));
  while (stack.len) {
    Visit *v = &stack.at[stack.len - 1];
    if (v->node->mark) { /* reached by another way meanwhile */
      stack.len--;
    } else if (v->next == child_count(v->node)) {
      add_node(plan, v->node);
      stack.len--;
    } else {
      Node *n = child(v->node, v->next++);
      if (n && !node_is_there(n) && !n->mark)
        VEC_PUSH(plan->arena, stack, ((Visit){n, 0}));
    }
  }
}

/* ---- substitution ---- */

static uint32_t cells_most(const Plan *plan) {
  return plan->graph->fuse == FUSE_ALL ? CELLS_MOST_ALL : CELLS_MOST;
}

static bool is_index(const Node *n) {
  return n->dtype == DT_I64 && n->rank == 0;
}

/* Indices are inlined as soon as they are met: what they index then sees
 * equal indices as equal. */
static bool is_eager(const Plan *plan, const Group *group, const Node *n,
                     uint32_t depth) {
  return plan->graph->fuse != FUSE_NONE && n->kind == NODE_COMP &&
         n->reduce == PRIM_NONE && is_index(n) &&
         n->cell_count <= EAGER_CELLS && depth < EAGER_DEPTH &&
         group->cells.len < cells_most(plan);
}

static uint32_t expand(Plan *plan, Group *group, const Node *n,
                       const uint32_t *axes, uint32_t depth);

static uint32_t expand_read(Plan *plan, Group *group, const Cell *cell,
                            const uint32_t *args, uint32_t depth) {
  uint32_t before = group->cells.len;
  uint32_t read = group_cell(group, cell, cell->arg_count, args);
  Node *x = cell->node;
  if (node_is_there(x) || read < before)
    return group_resolve(group, read);
  if (is_eager(plan, group, x, depth)) {
    uint32_t value = expand(plan, group, x, args, depth + 1);
    group->cells.at[read].forward = value + 1;
    return value;
  }
  Instance instance = {group, read};
  PlanNode *p = plan_node(plan, x);
  VEC_PUSH(plan->arena, p->instances, instance);
  return read;
}

static uint32_t expand_constant(const Plan *plan, Group *group,
                                const Cell *cell) {
  Cell c = *cell;
  uint32_t k = UINT32_MAX;
  if (plan->params && dtype_is_float(c.dtype))
    k = params_find(plan->params, c.value.f);
  if (k != UINT32_MAX)
    c.value.i = param_mark(k).i;
  return group_cell(group, &c, 0, NULL);
}

static uint32_t expand_random(const Plan *plan, Group *group, const Cell *cell,
                              const uint32_t *args) {
  Cell c = *cell;
  uint32_t k = plan->params ? params_find_key(plan->params, c.key) : UINT32_MAX;
  if (k != UINT32_MAX)
    c.key = key_mark(k);
  return group_cell(group, &c, c.arg_count, args);
}

/* The body of n as cells of the group, n's axes being the cells `axes`. */
static uint32_t expand(Plan *plan, Group *group, const Node *n,
                       const uint32_t *axes, uint32_t depth) {
  uint32_t *made = NEW_ARRAY(plan->arena, uint32_t, n->cell_count);
  bool sure = n->safe && plan->graph->sizes;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    Cell now = n->cells[k], *cell = &now;
    now.sure |= sure && (now.kind == CELL_READ || now.kind == CELL_OP);
    uint32_t small[8], count = cell->arg_count;
    uint32_t *args = count <= ARRAY_LEN(small)
                         ? small
                         : NEW_ARRAY(plan->arena, uint32_t, count);
    for (uint32_t j = 0; j < count; j++)
      args[j] = group_resolve(group, made[cell->args[j]]);
    if (cell->kind == CELL_AXIS)
      made[k] = axes[cell->axis];
    else if (cell->kind == CELL_READ)
      made[k] = expand_read(plan, group, cell, args, depth);
    else if (cell->kind == CELL_CONST)
      made[k] = expand_constant(plan, group, cell);
    else if (cell->kind == CELL_RANDOM)
      made[k] = expand_random(plan, group, cell, args);
    else
      made[k] = group_cell(group, cell, count, args);
  }
  return group_resolve(group, made[n->cell_count - 1]);
}

/* ---- what inlining costs ---- */

enum { OPAQUE_COST = 50, WORK_MOST = 1 << 30 };

/* Sums and multiples of indices are free: they become addresses. */
static double op_cost(const Cell *cell) {
  if (cell->dtype == DT_I64 &&
      (cell->op == PRIM_ADD || cell->op == PRIM_SUB || cell->op == PRIM_MUL))
    return 0;
  return prim_cost(cell->op);
}

static double body_cost(const Node *n) {
  double cost = 0;
  uint32_t reads = 0;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *cell = &n->cells[k];
    switch (cell->kind) {
    case CELL_CONST:
    case CELL_SIZE:
    case CELL_AXIS:
      break;
    case CELL_READ:
      cost += !is_index(cell->node) && reads++ > 0;
      break;
    case CELL_OP:
      cost += op_cost(cell);
      break;
    case CELL_SELECT:
    case CELL_CONVERT:
      cost += 1;
      break;
    case CELL_RANDOM:
      cost += RANDOM_COST;
      break;
    }
  }
  return cost;
}

/* Nothing but conversions, comparisons and the like. */
static bool is_simple(const Node *n) {
  bool simple = n->kind == NODE_COMP && n->reduce == PRIM_NONE;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *cell = &n->cells[k];
    simple &= cell->kind != CELL_RANDOM &&
              (cell->kind != CELL_OP || op_cost(cell) <= 1);
  }
  return simple;
}

static void count_references(const Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++) {
    const Node *n = plan->nodes.at[k]->node;
    for (uint32_t j = 0; j < child_count(n); j++) {
      const Node *x = child(n, j);
      if (x && !node_is_there(x))
        plan_node(plan, x)->inner_refs++;
    }
  }
}

static bool is_held_outside(const PlanNode *p) {
  return p->node->refs > p->inner_refs + 1; /* 1: the plan's own */
}

/* Somebody may ask for it again: then its work is not to be done again. */
static bool is_worth_keeping(const Plan *plan, const PlanNode *p) {
  const Graph *g = plan->graph;
  double limit =
      g->bytes_limit > 0 ? (double)g->bytes_limit : (double)memory_physical();
  double bytes = node_guess(g, p->node) * dtype_info[p->node->dtype].bytes;
  return !g->sizes && is_held_outside(p) && p->work > KEPT_WORK &&
         bytes < limit / 8;
}

static bool is_few(const Plan *plan, const Node *x, const Node *n) {
  return FEWER * node_guess(plan->graph, x) <= node_guess(plan->graph, n);
}

/* Inputs are before their readers. */
static void add_up_work(const Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++) {
    PlanNode *p = plan->nodes.at[k];
    const Node *n = p->node;
    const int64_t *reduced = n->extents + n->free_count + n->rank;
    p->work = n->kind == NODE_COMP ? body_cost(n) : OPAQUE_COST;
    p->chain = p->work;
    p->work += n->reduce != PRIM_NONE;
    p->work *= size_guess_product(plan->graph, n->reduce_count, reduced);
    p->of_indices = p->of_few = is_simple(n);
    p->of_data = n->kind == NODE_COMP && n->reduce == PRIM_NONE;
    for (uint32_t j = 0; j < child_count(n); j++) {
      const Node *x = child(n, j);
      p->of_indices &=
          !x || (!node_is_there(x) && plan_node(plan, x)->of_indices);
      p->of_data &= !x || node_is_there(x) || plan_node(plan, x)->of_data;
      p->of_few &= !x || is_few(plan, x, n) ||
                   (!node_is_there(x) && plan_node(plan, x)->of_few);
      if (x && !node_is_there(x) && !is_worth_keeping(plan, plan_node(plan, x)))
        p->work += plan_node(plan, x)->work;
      if (x && !node_is_there(x) && x->kind == NODE_COMP &&
          x->reduce == PRIM_NONE && !is_few(plan, x, n))
        p->chain += plan_node(plan, x)->chain;
    }
    if (p->chain > WORK_MOST)
      p->chain = WORK_MOST;
    if (p->work > WORK_MOST)
      p->work = WORK_MOST; /* shared inputs count twice: let it not overflow */
  }
}

/* Is the read a factor of a summed product, or of its numerator?  Backends
 * compute factors once, not for each product that they are part of. */
static bool is_factor(const Group *group, uint32_t at, uint32_t read) {
  at = group_resolve(group, at);
  const Cell *c = &group->cells.at[at].cell;
  if (at == read)
    return true;
  if (c->kind == CELL_CONVERT)
    return is_factor(group, c->args[0], read);
  if (c->kind == CELL_SELECT)
    return is_factor(group, c->args[1], read) ||
           is_factor(group, c->args[2], read);
  if (c->kind != CELL_OP || (c->op != PRIM_MUL && c->op != PRIM_DIV))
    return false;
  return is_factor(group, c->args[0], read) ||
         (c->op == PRIM_MUL && is_factor(group, c->args[1], read));
}

/* The axes of the result that a cell depends on.  Recursion is as deep as a
 * body, which the planner bounds. */
static uint64_t axes_of(const Group *group, uint32_t at, uint64_t *known,
                        bool *seen) {
  at = group_resolve(group, at);
  const Cell *c = &group->cells.at[at].cell;
  if (seen[at])
    return known[at];
  seen[at] = true;
  if (c->kind == CELL_AXIS && c->axis < group->axis_count)
    known[at] = (uint64_t)1 << c->axis;
  for (uint32_t j = 0; j < c->arg_count; j++)
    known[at] |= axes_of(group, c->args[j], known, seen);
  return known[at];
}

/* Is there an axis of the result that the cell does not depend on?  Else it is
 * of no use to compute it apart. */
static bool lacks_axis(const Plan *plan, const Group *group, uint32_t at) {
  uint64_t *known = NEW_ARRAY(plan->arena, uint64_t, group->cells.len);
  bool *seen = NEW_ARRAY(plan->arena, bool, group->cells.len);
  uint64_t has = axes_of(group, at, known, seen);
  for (uint32_t k = 0; k < group->axis_count; k++)
    if (group->extents[k] != 1 && !(has >> k & 1))
      return true;
  return false;
}

/* Is it done once for each element, however often the product is gone through?
 */
static bool is_done_once(const Plan *plan, const PlanNode *p,
                         const Instance *i) {
  const Group *group = i->group;
  const Cell *value = &group->cells.at[group_resolve(group, group->value)].cell;
  return plan->graph->backend && plan->graph->backend->kernels &&
         group->reduce == PRIM_SUM && value->kind == CELL_OP &&
         value->op == PRIM_MUL && dtype_is_float(p->node->dtype) &&
         is_factor(group, group->value, i->cell) &&
         lacks_axis(plan, group, i->cell);
}

/* How often each element would be computed; *once: where it is a factor, and
 * nowhere else. */
static double recomputation(const Plan *plan, const PlanNode *p, bool *once) {
  double times = 0, count = node_guess(plan->graph, p->node);
  bool cheap = body_cost(p->node) <= FACTOR_COST;
  *once = cheap;
  for (uint32_t k = 0; k < p->instances.len; k++) {
    bool factor = cheap && is_done_once(plan, p, &p->instances.at[k]);
    times += factor ? count : p->instances.at[k].group->iterations;
    *once &= factor;
  }
  return count > 0 ? times / count : 0;
}

static bool fits_groups(const Plan *plan, const PlanNode *p) {
  for (uint32_t k = 0; k < p->instances.len; k++)
    if (p->instances.at[k].group->cells.len + p->node->cell_count >
        cells_most(plan))
      return false;
  return true;
}

/* Where an index may lie outside, the node is stored: the backend checks the
 * indices of what it reads, and of nothing that was substituted away. */
static bool is_read_in_bounds(const PlanNode *p) {
  for (uint32_t k = 0; k < p->instances.len; k++)
    if (!group_reads_inside(p->instances.at[k].group, p->instances.at[k].cell,
                            p->node->extents))
      return false;
  return true;
}

/* Does p finish what would be stored for it alone, as bias and activation
 * finish a product?  To store p in its place is no more memory, the kernel of
 * that can go on with it, and readers find it as they want it. */
static bool is_finish(const Plan *plan, const PlanNode *p) {
  const Node *n = p->node;
  if (p->work <= FACTOR_COST || body_cost(n) == 0)
    return false;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Node *x = n->cells[k].kind == CELL_READ ? n->cells[k].node : NULL;
    if (!x || node_is_there(x) || x->kind != NODE_COMP ||
        (x->reduce == PRIM_NONE && body_cost(x) == 0) ||
        dtype_info[n->dtype].bytes > dtype_info[x->dtype].bytes ||
        node_guess(plan->graph, x) != node_guess(plan->graph, n))
      continue;
    uint32_t reads = 0;
    for (uint32_t j = 0; j < n->cell_count; j++)
      reads += n->cells[j].kind == CELL_READ && n->cells[j].node == x;
    const PlanNode *of = plan_node(plan, x);
    if (!of->root && !is_held_outside(of) && of->inner_refs == reads)
      return true;
  }
  return false;
}

/* What the cell gains where the axis goes on by one; INT64_MIN: nobody knows.
 * Recursion is as deep as a body, which the planner bounds. */
static int64_t gain_of(const Group *group, uint32_t at, uint32_t axis) {
  const Cell *c = &group->cells.at[group_resolve(group, at)].cell;
  if (c->kind != CELL_OP)
    return c->kind == CELL_AXIS                            ? c->axis == axis
           : c->kind == CELL_CONST || c->kind == CELL_SIZE ? 0
                                                           : INT64_MIN;
  if (c->op != PRIM_ADD && c->op != PRIM_SUB && c->op != PRIM_MUL)
    return INT64_MIN;
  int64_t x = gain_of(group, c->args[0], axis);
  int64_t y = gain_of(group, c->args[1], axis);
  if (x == INT64_MIN || y == INT64_MIN)
    return INT64_MIN;
  if (c->op == PRIM_MUL)
    return x || y ? INT64_MIN : 0;
  return c->op == PRIM_ADD ? x + y : x - y;
}

/* Is it an element where indices are inside, and a number elsewhere? */
static bool is_padding(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->cell_count == 0)
    return false;
  const Cell *value = &n->cells[n->cell_count - 1];
  if (value->kind != CELL_SELECT ||
      n->cells[value->args[1]].kind != CELL_READ ||
      n->cells[value->args[2]].kind != CELL_CONST)
    return false;
  for (uint32_t k = 0; k + 1 < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    bool made = c->kind == CELL_OP && c->dtype != DT_I64 && c->dtype != DT_BOOL;
    if (made || (c->kind == CELL_READ && k != value->args[1]) ||
        c->kind == CELL_SELECT || c->kind == CELL_CONVERT ||
        c->kind == CELL_RANDOM)
      return false;
  }
  return true;
}

/* Is it read by a window of few terms, along whose rows it lies?  Then vectors
 * of it are loaded with lanes left out, which costs no more than to load them
 * from where it would be stored, and is seldom done twice. */
static bool is_in_window(const Plan *plan, const Instance *i) {
  const Group *group = i->group;
  const Cell *read = &group->cells.at[i->cell].cell;
  const int64_t *reduced = group->extents + group->axis_count;
  int64_t terms;
  if (group->reduce == PRIM_NONE || group->reduce_count == 0 ||
      group->axis_count == 0 || read->arg_count == 0 ||
      size_guess(plan->graph, group->extents[group->axis_count - 1]) <
          WINDOW_ROW ||
      !size_product(plan->graph, group->reduce_count, reduced, &terms) ||
      !size_is_number(plan->graph, terms) || terms > WINDOW_TERMS)
    return false;
  for (uint32_t j = 0; j < read->arg_count; j++)
    if (gain_of(group, read->args[j], group->axis_count - 1) !=
        (j + 1 == read->arg_count))
      return false;
  return true;
}

static bool pads_windows(const Plan *plan, const PlanNode *p) {
  if (!plan->graph->backend || !plan->graph->backend->kernels ||
      !is_padding(p->node))
    return false;
  for (uint32_t k = 0; k < p->instances.len; k++)
    if (!is_in_window(plan, &p->instances.at[k]))
      return false;
  return true;
}

/* Is it made of little by little, and so large that whoever reads it waits for
 * memory?  Of what a product reads caches hold parts. */
static bool is_streamed(const Plan *plan, const PlanNode *p) {
  double bytes =
      node_guess(plan->graph, p->node) * dtype_info[p->node->dtype].bytes;
  for (uint32_t k = 0; k < p->instances.len; k++) {
    const Group *group = p->instances.at[k].group;
    if (group->reduce == PRIM_SUM &&
        is_factor(group, group->value, p->instances.at[k].cell))
      return false;
  }
  return p->of_few && p->chain <= INDEX_COST && bytes >= STREAM_BYTES;
}

/* Elements of a row of the group for which the cell is the same. */
static double row_of(const Plan *plan, const Group *group, uint32_t at) {
  uint64_t *known = NEW_ARRAY(plan->arena, uint64_t, group->cells.len);
  bool *seen = NEW_ARRAY(plan->arena, bool, group->cells.len);
  uint64_t has = axes_of(group, at, known, seen);
  double row = 1;
  for (uint32_t k = group->axis_count; k-- > 0 && !(has >> k & 1);)
    row *= (double)size_guess(plan->graph, group->extents[k]);
  return row;
}

/* Is it made of what is there, and is to make it little beside the rows of its
 * readers, which do it once for each?  Then that is less than to begin a kernel
 * for it, as for what batchnorm multiplies a channel by. */
static bool is_of_rows(const Plan *plan, const PlanNode *p) {
  bool rows = plan->graph->backend && plan->graph->backend->kernels;
  rows = rows && p->of_data;
  for (uint32_t k = 0; k < p->instances.len && rows; k++) {
    const Instance *i = &p->instances.at[k];
    rows = i->group->reduce == PRIM_NONE &&
           ROW_WORK * p->work <= row_of(plan, i->group, i->cell);
  }
  return rows;
}

/* Is it a tensor with fewer bits in its readers' type, where these are no sums?
 * They read less, and what widens an element is next to nothing. */
static bool is_widened(const PlanNode *p) {
  const Node *n = p->node;
  const Cell *value = &n->cells[n->cell_count - 1];
  if (value->kind != CELL_CONVERT || n->dtype != DT_F32)
    return false;
  const Cell *of = &n->cells[value->args[0]];
  if (of->kind != CELL_READ || (of->dtype != DT_F16 && of->dtype != DT_BF16))
    return false;
  for (uint32_t k = 0; k < p->instances.len; k++)
    if (p->instances.at[k].group->reduce != PRIM_NONE)
      return false;
  return true;
}

/* Is it no more work where its readers do it? */
static bool is_cheap(const Plan *plan, const PlanNode *p) {
  bool once;
  double cost = body_cost(p->node), times = recomputation(plan, p, &once);
  if (once)
    return !is_finish(plan, p);
  if ((p->of_indices && p->chain <= INDEX_COST) || pads_windows(plan, p) ||
      is_streamed(plan, p) || is_of_rows(plan, p) || is_widened(p))
    return true;
  return cost == 0 || times < TIMES_LEAST || (times <= 2 && p->chain <= 8) ||
         (times <= 4 && p->chain <= 2);
}

/* Why it does not become part of its readers; NULL: it does. */
static const char *why_stored(const Plan *plan, const PlanNode *p) {
  const Node *n = p->node;
  if (p->root)
    return "its value is asked for";
  if (p->required)
    return "it is a condition, or an operation wants it whole";
  if (n->kind != NODE_COMP)
    return "an operation of its own";
  if (n->reduce != PRIM_NONE)
    return "a reduction, which is done once";
  if (plan->graph->fuse == FUSE_NONE)
    return "fusion is off";
  if (!is_read_in_bounds(p))
    return "it is read at an index that data decides";
  if (!fits_groups(plan, p))
    return "what reads it is long already";
  if (plan->graph->fuse == FUSE_ALL)
    return NULL;
  if (is_worth_keeping(plan, p))
    return "the program still holds it, and it is work";
  return is_cheap(plan, p) ? NULL : "each element is read often, and is work";
}

/* ---- deciding ---- */

static void note_fused(const Plan *plan, Group *group, const Node *n,
                       bool moves) {
  if (!plan->graph->watch)
    return;
  FusedValue v = {n->span, n->dtype, node_count(n), moves};
  VEC_PUSH(plan->arena, group->fused, v);
}

static void inline_node(Plan *plan, PlanNode *p) {
  bool moves = plan->graph->watch && body_cost(p->node) == 0;
  for (uint32_t k = 0; k < p->instances.len; k++) {
    Group *group = p->instances.at[k].group;
    if (k == 0 || group != p->instances.at[k - 1].group)
      note_fused(plan, group, p->node, moves);
    uint32_t read = p->instances.at[k].cell, value, axes[2 * RANK_MAX];
    const Cell *cell = &group->cells.at[read].cell;
    for (uint32_t j = 0; j < cell->arg_count; j++)
      axes[j] = group_resolve(group, cell->args[j]);
    value = expand(plan, group, p->node, axes, 0);
    group->cells.at[read].forward = value + 1;
  }
}

/* Is p a reduction whose only reader moves its elements, none twice? */
static bool is_absorbed(const Plan *plan, const PlanNode *p) {
  if (!is_read_in_bounds(p) || p->root || p->required ||
      p->node->kind != NODE_COMP || p->node->reduce == PRIM_NONE ||
      p->instances.len != 1 || is_held_outside(p) ||
      plan->graph->fuse == FUSE_NONE)
    return false;
  const Group *group = p->instances.at[0].group;
  return group->reduce == PRIM_NONE &&
         group->axis_count + p->node->reduce_count <= RANK_MAX &&
         group_resolve(group, group->value) == p->instances.at[0].cell &&
         group->iterations <= node_guess(plan->graph, p->node);
}

static void absorb(Plan *plan, PlanNode *p) {
  const Node *n = p->node;
  Group *group = p->instances.at[0].group;
  note_fused(plan, group, n, true);
  uint32_t outer = n->free_count + n->rank, axes[2 * RANK_MAX];
  const Cell *cell = &group->cells.at[p->instances.at[0].cell].cell;
  for (uint32_t j = 0; j < outer; j++)
    axes[j] = group_resolve(group, cell->args[j]);
  group->reduce = n->reduce;
  group->reduce_count = n->reduce_count;
  for (uint32_t j = 0; j < n->reduce_count; j++) {
    group->extents[group->axis_count + j] = n->extents[outer + j];
    group->iterations *= (double)size_guess(plan->graph, n->extents[outer + j]);
    axes[outer + j] = group_axis(group, group->axis_count + j);
  }
  group->value = expand(plan, group, n, axes, 0);
}

static void require(const Plan *plan, const Node *n) {
  if (n && !node_is_there(n))
    plan_node(plan, n)->required = true;
}

/* Under a condition: what is not needed holds zeros, and reads nothing. */
static uint32_t guarded_value(Plan *plan, Group *group, const Node *n,
                              const uint32_t *axes) {
  uint32_t args[RANK_MAX], parts[3] = {0, group->value};
  const Cell *value = &group->cells.at[group_resolve(group, parts[1])].cell;
  Cell read = {.kind = CELL_READ, .dtype = DT_BOOL, .node = n->guard};
  Cell zero = {.kind = CELL_CONST, .dtype = value->dtype};
  Cell choice = {.kind = CELL_SELECT, .dtype = value->dtype, .span = n->span};
  zero.value.dtype = value->dtype;
  for (uint32_t k = 0; k < n->guard->free_count; k++) {
    uint32_t at = 0;
    while (n->free[at] != n->guard->free[k])
      at++;
    args[k] = axes[at];
  }
  read.arg_count = n->guard->free_count;
  read.span = n->guard->span;
  parts[0] = expand_read(plan, group, &read, args, 0);
  parts[2] = group_cell(group, &zero, 0, NULL);
  return group_cell(group, &choice, 3, parts);
}

static void store(Plan *plan, PlanNode *p) {
  const Node *n = p->node;
  p->stored = true;
  if (n->kind != NODE_COMP)
    require(plan, n->guard);
  for (uint32_t k = 0; k < n->input_count; k++)
    require(plan, n->inputs[k]);
  for (uint32_t k = 0; k < need_count(n); k++)
    require(plan, n->loop->needs[k]);
  if (n->kind != NODE_COMP)
    return;
  p->group = group_new(plan->arena, plan->graph, n);
  uint32_t axes[2 * RANK_MAX];
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++)
    axes[k] = group_axis(p->group, k);
  p->group->value = expand(plan, p->group, n, axes, 0);
  if (n->guard)
    p->group->value = guarded_value(plan, p->group, n, axes);
}

static void decide(Plan *plan, PlanNode *p) {
  if (!p->root && !p->required && p->instances.len == 0)
    return; /* only indices that were inlined at once read it */
  p->why = why_stored(plan, p);
  if (!p->why)
    inline_node(plan, p);
  else if (is_absorbed(plan, p))
    absorb(plan, p);
  else
    store(plan, p);
}

/* ---- the bodies that come out ---- */

static void add_input(Plan *plan, PlanNode *p, const Node *x) {
  if (!x || node_is_there(x))
    return;
  PlanNode *input = plan_node(plan, x);
  input->needed = true;
  if (input->last_reader == p)
    return;
  input->last_reader = p;
  input->readers++;
  VEC_PUSH(plan->arena, p->inputs, input);
}

static void finish(Plan *plan, PlanNode *p) {
  const Node *n = p->node;
  if (n->kind != NODE_COMP)
    add_input(plan, p, n->guard);
  for (uint32_t k = 0; k < need_count(n); k++)
    add_input(plan, p, n->loop->needs[k]);
  for (uint32_t k = 0; k < n->input_count; k++)
    add_input(plan, p, n->inputs[k]);
  if (!p->group)
    return;
  p->group = group_clean(plan->arena, p->group);
  for (uint32_t k = 0; k < p->group->cells.len; k++)
    if (p->group->cells.at[k].cell.kind == CELL_READ)
      add_input(plan, p, p->group->cells.at[k].cell.node);
}

static void let_go(PlanNode *p) {
  Node *n = p->node;
  p->node = NULL;
  if (!n)
    return;
  n->mark = 0;
  node_release(n);
}

static void install(Plan *plan) {
  for (uint32_t k = 0; k < plan->stored.len; k++)
    if (plan->stored.at[k]->group)
      group_install(plan->stored.at[k]->group, plan->stored.at[k]->node);
  for (uint32_t k = 0; k < plan->nodes.len; k++) {
    PlanNode *p = plan->nodes.at[k];
    if (!p->stored)
      p->node->inlined = true;
    if (!p->stored || !p->needed)
      let_go(p);
  }
}

void plan_make(Plan *plan, uint32_t count, Node *const *roots) {
  for (uint32_t k = 0; k < count; k++)
    collect(plan, roots[k]);
  count_references(plan);
  add_up_work(plan);
  for (uint32_t k = 0; k < count; k++)
    if (!node_is_there(roots[k])) {
      plan_node(plan, roots[k])->root = true;
      plan_node(plan, roots[k])->needed = true;
    }
  for (uint32_t k = plan->nodes.len; k-- > 0;)
    decide(plan, plan->nodes.at[k]);
  uint32_t needed = 0;
  for (uint32_t k = plan->nodes.len; k-- > 0;) {
    PlanNode *p = plan->nodes.at[k];
    if (p->stored && p->needed) {
      finish(plan, p);
      needed++;
    }
  }
  for (uint32_t k = 0; k < plan->nodes.len && needed; k++) {
    PlanNode *p = plan->nodes.at[k];
    if (p->stored && p->needed)
      VEC_PUSH(plan->arena, plan->stored, p);
  }
  install(plan);
}

/* What is to be run by a backend, or is left over after a failure, has its
 * numbers and keys again. */
static void fill_params(const Plan *plan, const PlanNode *p) {
  if (!p->node || !p->group || !plan->params)
    return;
  for (uint32_t k = 0; k < p->node->cell_count; k++) {
    Cell *c = &p->node->cells[k];
    if (c->kind == CELL_CONST)
      c->value = param_value(c->value, plan->params->values.at);
    if (c->kind == CELL_RANDOM)
      c->key = key_value(c->key, plan->params->keys.at);
  }
}

void plan_end(Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    fill_params(plan, plan->nodes.at[k]);
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    let_go(plan->nodes.at[k]);
  plan->nodes.len = 0;
}
