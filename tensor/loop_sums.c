/* Sums over the iterations of a loop.
 *
 * A value of the carry that only adds up terms, such as the gradient of a
 * weight, is taken out of the loop.  The loop then stacks what the terms read,
 * and one sum over all iterations follows it:
 *
 *     s = s + outer x[t] y[t]    becomes    s + transpose X @ Y
 *
 * This pays if a term has more elements than what it reads and the loop does
 * not stack anyway.  The sum has another order, so only loops of reverse passes
 * allow it. */
#include "tensor/loop_sums.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "tensor/internal.h"

#include <string.h>

enum { MAX_TERM_DEPTH = 16 }; /* views and sums between a term and a product */

static bool depends_on_carry(const Node *n) {
  return n->symbolic || (n->guard && n->guard->symbolic);
}

static bool is_iteration_axis(const LoopSums *s, const Node *n, uint32_t axis) {
  return axis < n->free_count && n->free_vars[axis] == s->whole->index;
}

/* True if op k of n is a read of all elements, each at its own index. */
static bool reads_own_axes(const Node *n, uint32_t k) {
  const BodyOp *c = &n->body_ops[k];
  if (c->kind != BODY_READ || c->node->rank != n->rank)
    return false;
  for (uint32_t i = 0; i < n->rank; i++) {
    const BodyOp *index = &n->body_ops[c->args[c->node->free_count + i]];
    if (index->kind != BODY_AXIS || index->axis != n->free_count + i ||
        node_own_extents(n)[i] != node_own_extents(c->node)[i])
      return false;
  }
  return true;
}

/* If n is x + y, element by element, sets both. */
static bool is_sum_of_two(const Node *n, Node **x, Node **y) {
  const BodyOp *last = n->kind == NODE_COMP && n->body_op_count
                           ? &n->body_ops[n->body_op_count - 1]
                           : NULL;
  if (!last || n->reduce != PRIM_NONE || n->guard || last->kind != BODY_OP ||
      last->op != PRIM_ADD || !reads_own_axes(n, last->args[0]) ||
      !reads_own_axes(n, last->args[1]))
    return false;
  *x = n->body_ops[last->args[0]].node;
  *y = n->body_ops[last->args[1]].node;
  return true;
}

/* True if n only moves elements of one node, in each iteration alike.  Sets
 * that node. */
static bool is_move(const LoopSums *s, const Node *n, Node **x) {
  uint32_t last = n->body_op_count - 1;
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard ||
      n->body_ops[last].kind != BODY_READ)
    return false;
  *x = n->body_ops[last].node;
  for (uint32_t k = 0; k < last; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_READ || c->kind == BODY_RANDOM)
      return false;
    for (uint32_t i = 0; i < c->arg_count; i++) {
      const BodyOp *arg = &n->body_ops[c->args[i]];
      if (arg->kind == BODY_AXIS && is_iteration_axis(s, n, arg->axis))
        return false;
    }
  }
  for (uint32_t i = (*x)->free_count; i < n->body_ops[last].arg_count; i++) {
    const BodyOp *arg = &n->body_ops[n->body_ops[last].args[i]];
    if (arg->kind == BODY_AXIS && is_iteration_axis(s, n, arg->axis))
      return false;
  }
  return true;
}

/* x, or the node whose elements it has in the same places. */
static Node *without_moves(const LoopSums *s, Node *x) {
  Node *source = x;
  while (!source->data && is_move(s, source, &x) &&
         reads_own_axes(source, source->body_op_count - 1))
    source = x;
  return source;
}

static bool is_stacked(const LoopSums *s, const Node *x) {
  for (uint32_t k = 0; k < s->operands.len; k++)
    if (s->operands.at[k] == x)
      return true;
  return false;
}

/* The tensor of which x is the row of the iteration; NULL: there is none. */
static Node *rows_of(const LoopSums *s, Node *x) {
  return node_row_source(without_moves(s, x), s->whole->index);
}

static bool has_only_iteration_index(const LoopSums *s, const Node *n) {
  return n->free_count == 0 ||
         (n->free_count == 1 && is_iteration_axis(s, n, 0));
}

static int64_t own_elements(const Node *n) {
  return shape_element_count(n->rank, node_own_extents(n));
}

/* ---- which terms ---- */

/* True if the elements that are stacked only for n are fewer than its own. */
static bool is_small_product(const LoopSums *s, const Node *n) {
  int64_t read = 0;
  if (n->kind != NODE_COMP || n->guard || !has_only_iteration_index(s, n) ||
      (n->reduce != PRIM_NONE && n->reduce != PRIM_SUM) ||
      n->rank + n->reduce_count >= MAX_RANK)
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_RANDOM ||
        (c->kind == BODY_READ && (!has_only_iteration_index(s, c->node) ||
                                  c->node->rank + 1 >= MAX_RANK)))
      return false;
    if (c->kind == BODY_READ && !rows_of(s, c->node) &&
        (depends_on_carry(c->node) || c->node->free_count) &&
        !is_stacked(s, without_moves(s, c->node)))
      read += own_elements(c->node);
  }
  return read <= own_elements(n) / LOOP_SUM_MIN_GAIN;
}

static bool is_term(const LoopSums *s, const Node *n, uint32_t depth) {
  Node *x, *y;
  if (depth > MAX_TERM_DEPTH || dtype_is_narrow_float(n->dtype))
    return false;
  if (is_sum_of_two(n, &x, &y))
    return is_term(s, x, depth + 1) && is_term(s, y, depth + 1);
  if (is_move(s, n, &x) && depends_on_carry(x))
    return is_term(s, x, depth + 1);
  return is_small_product(s, n);
}

/* ---- the sum after the loop ---- */

/* A node for the stacked values of x, which the loop will compute. */
static Node *stacked(LoopSums *s, Node *x) {
  x = without_moves(s, x);
  for (uint32_t k = 0; k < s->operands.len; k++)
    if (s->operands.at[k] == x)
      return s->stacks.at[k];
  NodeSpec spec = {.dtype = x->dtype,
                   .rank = x->rank + 1,
                   .broadcast_mask = x->broadcast_mask << 1};
  spec.own_extents[0] = s->whole->index->extent;
  memcpy(spec.own_extents + 1, node_own_extents(x),
         x->rank * sizeof spec.own_extents[0]);
  Node *n = node_alloc(s->graph, NODE_DATA, &spec);
  n->speculatable = true;
  VEC_PUSH(s->arena, s->operands, x);
  VEC_PUSH(s->arena, s->stacks, n);
  return n;
}

/* Copies the body of n.  Iterations become the first reduced axis if `sums`.
 * reads[k] replaces the node of read k; has_rows[k]: its first axis are the
 * iterations. */
static Node *copy_body(LoopSums *s, const Node *n, bool sums,
                       Node *const *reads, const bool *has_rows) {
  NodeSpec spec = {.dtype = n->dtype,
                   .rank = n->rank,
                   .broadcast_mask = n->broadcast_mask,
                   .reduce = sums ? PRIM_SUM : PRIM_NONE,
                   .reduce_count = sums ? n->reduce_count + 1 : 0};
  memcpy(spec.own_extents, node_own_extents(n),
         n->rank * sizeof spec.own_extents[0]);
  spec.reduced_extents[0] = s->whole->index->extent;
  memcpy(spec.reduced_extents + 1, node_own_extents(n) + n->rank,
         n->reduce_count * sizeof spec.reduced_extents[0]);
  BodyBuilder b;
  body_init(&b, s->graph, &spec);
  uint32_t *ops = NEW_ARRAY(s->arena, uint32_t, n->body_op_count);
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    uint32_t args[2 * MAX_RANK], axis = c->axis - n->free_count, own = 0;
    for (uint32_t i = 0; i < c->arg_count; i++)
      args[i] = ops[c->args[i]];
    switch (c->kind) {
    case BODY_CONST:
      ops[k] = body_const(&b, c->value);
      break;
    case BODY_EXTENT:
      ops[k] = body_int(&b, c->extent);
      break;
    case BODY_AXIS:
      if (c->axis < n->free_count)
        ops[k] = sums ? body_reduced_axis(&b, 0) : body_int(&b, 0);
      else
        ops[k] = axis < n->rank ? body_own_axis(&b, axis)
                                : body_reduced_axis(&b, axis - n->rank + 1);
      break;
    case BODY_READ:
      own = c->node->free_count;
      if (has_rows[k]) { /* before the own axes */
        memmove(args + 1, args + own, (c->arg_count - own) * sizeof *args);
        args[0] = body_reduced_axis(&b, 0);
        own = 0;
      }
      ops[k] = body_read(&b, reads[k], args + own);
      if (b.ops[ops[k]].kind == BODY_READ)
        b.ops[ops[k]].proved_safe = c->proved_safe;
      break;
    case BODY_OP:
      ops[k] = body_op(&b, c->op, c->dtype, c->arg_count, args);
      b.ops[ops[k]].proved_safe = c->proved_safe;
      break;
    case BODY_SELECT:
      ops[k] = body_select(&b, args[0], args[1], args[2]);
      break;
    case BODY_CONVERT:
      ops[k] = body_convert(&b, args[0], c->dtype);
      break;
    case BODY_RANDOM: /* is_term refuses it */
      break;
    }
  }
  return body_finish(&b, s->graph, s->fault);
}

/* The sum of a term over all iterations; owned by s.  NULL: a fault. */
static Node *sum_of_term(LoopSums *s, const Node *n) {
  Node *x, *y, **reads = NEW_ARRAY(s->arena, Node *, n->body_op_count);
  bool *has_rows = NEW_ARRAY(s->arena, bool, n->body_op_count), linear;
  linear =
      is_sum_of_two(n, &x, &y) || (is_move(s, n, &x) && depends_on_carry(x));
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    if (n->body_ops[k].kind != BODY_READ)
      continue;
    x = reads[k] = n->body_ops[k].node;
    if (linear) {
      reads[k] = sum_of_term(s, x);
      if (!reads[k])
        return NULL;
      continue;
    }
    Node *rows = rows_of(s, x);
    has_rows[k] = rows || depends_on_carry(x) || x->free_count;
    reads[k] = rows ? rows : has_rows[k] ? stacked(s, x) : x;
  }
  Node *sum = copy_body(s, n, !linear, reads, has_rows);
  if (sum)
    VEC_PUSH(s->arena, s->owned, sum);
  return sum;
}

/* ---- the loop without the sums ---- */

/* Counts the reads of each node of the iteration. */
static void count_reads(LoopSums *s) {
  const FoldIteration *t = s->whole;
  VEC(Node *) worklist = {0};
  for (uint32_t k = 0; k < t->carry_count + t->stacked_count; k++)
    VEC_PUSH(s->arena, worklist, t->results[k]);
  if (t->condition)
    VEC_PUSH(s->arena, worklist, t->condition);
  while (worklist.len) {
    Node *n = worklist.at[--worklist.len];
    uint32_t *count = map_get(&s->read_counts, n);
    if (count) {
      ++*count;
      continue;
    }
    count = NEW(s->arena, uint32_t);
    *count = 1;
    map_put(&s->read_counts, n, count);
    for (uint32_t k = 0; k < node_operand_count(n); k++)
      if (node_operand(n, k))
        VEC_PUSH(s->arena, worklist, node_operand(n, k));
  }
}

static uint32_t read_count(const LoopSums *s, const Node *n) {
  const uint32_t *count = map_get(&s->read_counts, n);
  return count ? *count : 0;
}

/* The term that carry k adds up; NULL: it does something else. */
static Node *term_of_carry(const LoopSums *s, uint32_t k) {
  Node *x, *y, *in = s->whole->carry_in[k], *out = s->whole->results[k];
  if (!dtype_is_float(out->dtype) || !has_only_iteration_index(s, out) ||
      !is_sum_of_two(out, &x, &y) || read_count(s, in) != 1 ||
      read_count(s, out) != 1 || (x != in && y != in))
    return NULL;
  Node *term = x == in ? y : x;
  return is_term(s, term, 0) ? term : NULL;
}

static double stacked_bytes(const LoopSums *s) {
  double bytes = 0;
  for (uint32_t k = 0; k < s->stacks.len; k++)
    bytes += (double)own_elements(s->stacks.at[k]) *
             dtype_info[s->stacks.at[k]->dtype].bytes;
  return bytes;
}

bool loop_sums_split(LoopSums *s, double max_bytes) {
  const FoldIteration *t = s->whole;
  uint32_t count = t->carry_count + t->stacked_count, kept = 0;
  if (!t->reorders_sums)
    return false;
  map_init(&s->read_counts, s->arena);
  count_reads(s);
  s->sums = NEW_ARRAY(s->arena, Node *, t->carry_count + 1);
  bool any = false;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t k = 0; k < t->carry_count; k++) {
      Node *term = s->sums[k] ? NULL : term_of_carry(s, k);
      if (!term)
        continue;
      s->sums[k] = sum_of_term(s, term);
      if (!s->sums[k])
        return false;
      any = true;
    }
  if (!any || stacked_bytes(s) > max_bytes)
    return false;
  Node **carry_in = NEW_ARRAY(s->arena, Node *, t->carry_count + 1),
       **initial = NEW_ARRAY(s->arena, Node *, t->carry_count + 1),
       **results = NEW_ARRAY(s->arena, Node *, count + s->operands.len + 1);
  for (uint32_t k = 0; k < t->carry_count; k++) {
    if (s->sums[k])
      continue;
    carry_in[kept] = t->carry_in[k];
    initial[kept] = t->initial[k];
    results[kept++] = t->results[k];
  }
  for (uint32_t k = 0; k < t->stacked_count; k++)
    results[kept + k] = t->results[t->carry_count + k];
  for (uint32_t k = 0; k < s->operands.len; k++)
    results[kept + t->stacked_count + k] = s->operands.at[k];
  s->rest = *t;
  s->rest.carry_count = kept;
  s->rest.stacked_count = t->stacked_count + s->operands.len;
  s->rest.carry_in = carry_in;
  s->rest.initial = initial;
  s->rest.results = results;
  return true;
}

bool loop_sums_join(LoopSums *s, Node *const *rest, Node **out) {
  const FoldIteration *t = s->whole;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < s->stacks.len; k++) {
    Node *all = rest[s->rest.carry_count + t->stacked_count + k];
    s->stacks.at[k]->data = tensor_retain(all->data);
  }
  for (uint32_t k = 0; k < t->carry_count; k++) {
    Node *terms[2] = {t->initial[k], s->sums[k]};
    out[k] = s->sums[k]
                 ? node_map(s->graph, PRIM_ADD, 2, terms, DT_NONE, s->fault)
                 : node_retain(rest[kept++]);
    if (!out[k])
      return false;
  }
  for (uint32_t k = 0; k < t->stacked_count; k++)
    out[t->carry_count + k] = node_retain(rest[s->rest.carry_count + k]);
  return true;
}

void loop_sums_release(LoopSums *s) {
  for (uint32_t k = 0; k < s->owned.len; k++)
    node_release(s->owned.at[k]);
  for (uint32_t k = 0; k < s->stacks.len; k++)
    node_release(s->stacks.at[k]);
}
