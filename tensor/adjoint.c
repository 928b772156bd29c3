/* Reverse mode differentiation of the graph.
 *
 * The pass walks from the outputs to the leaves, in descending order of
 * creation.  The cotangent of a node is a node with the same axes: the sum of
 * the contributions of its readers.  Contributions are ordinary nodes, which
 * the planner fuses, stores or recomputes like any others.  So they can be
 * differentiated again. */
#include "tensor/adjoint.h"
#include "support/arena.h"
#include "support/trap.h"

#include <stdlib.h>

Node *reverse_own(ReversePass *p, Node *n) {
  if (n)
    VEC_PUSH(p->arena, p->owned, n);
  return n;
}

bool reverse_depends(const ReversePass *p, const Node *x) {
  const Dependent *d = map_get(&p->dependents, x);
  return d && d->depends;
}

bool reverse_is_enclosing(const ReversePass *p, const IndexVar *v) {
  for (uint32_t k = 0; k < p->tape->enclosing_count; k++)
    if (p->tape->enclosing[k] == v)
      return true;
  return false;
}

bool reverse_contribute(ReversePass *p, Node *x, Node *contribution) {
  Dependent *d = map_get(&p->dependents, x);
  if (!reverse_own(p, contribution))
    return false;
  if (!d || !d->depends)
    return true;
  d->only_reader = NULL;
  if (d->cotangent) {
    Node *terms[2] = {d->cotangent, contribution};
    contribution = reverse_own(
        p, node_map(p->graph, PRIM_ADD, 2, terms, DT_NONE, p->fault));
  }
  d->cotangent = contribution;
  return contribution;
}

/* ---- the nodes between leaves and outputs ---- */

/* Operand k of n in the derivative; NULL for some k. */
static uint32_t operand_count(const Node *n) {
  return n->rule ? n->rule->input_count : node_operand_count(n);
}

static Node *operand(const Node *n, uint32_t k) {
  return n->rule ? n->rule->inputs[k] : node_operand(n, k);
}

static Dependent *find_or_add(ReversePass *p, Node *n) {
  Dependent *d = map_get(&p->dependents, n);
  if (d)
    return NULL;
  d = NEW(p->arena, Dependent);
  d->node = n;
  map_put(&p->dependents, n, d);
  VEC_PUSH(p->arena, p->order, d);
  return d;
}

/* Collects all nodes that are on some tape, from the outputs on. */
static void collect_nodes(ReversePass *p, uint32_t count,
                          Node *const *outputs) {
  for (uint32_t k = 0; k < count; k++)
    if (outputs[k]->tape)
      find_or_add(p, outputs[k]);
  for (uint32_t at = 0; at < p->order.len; at++) {
    Node *n = p->order.at[at]->node;
    node_restore_own_body(n);
    for (uint32_t k = 0; k < operand_count(n); k++) {
      Node *x = operand(n, k);
      if (x && x->tape)
        find_or_add(p, x);
    }
  }
}

static int compare_ids(const void *a, const void *b) {
  const Dependent *x = *(Dependent *const *)a, *y = *(Dependent *const *)b;
  return (x->node->id > y->node->id) - (x->node->id < y->node->id);
}

static void mark_dependents(ReversePass *p, uint32_t leaf_count,
                            Node *const *leaves) {
  if (p->order.len)
    qsort(p->order.at, p->order.len, sizeof *p->order.at, compare_ids);
  for (uint32_t k = 0; k < leaf_count; k++) {
    Dependent *d = map_get(&p->dependents, leaves[k]);
    if (d)
      d->depends = d->is_leaf = true;
  }
  for (uint32_t at = 0; at < p->order.len; at++) {
    Dependent *d = p->order.at[at];
    for (uint32_t k = 0; !d->depends && k < operand_count(d->node); k++) {
      Node *x = operand(d->node, k);
      d->depends = x && dtype_is_float(x->dtype) && reverse_depends(p, x);
    }
  }
}

/* ---- the pass ---- */

static bool adjoint_of_node(ReversePass *p, Node *n, Node *g) {
  p->graph->span = n->span;
  switch (n->kind) {
  case NODE_COMP:
    return adjoint_comprehension(p, n, g);
  case NODE_OPAQUE:
    return adjoint_opaque(p, n, g);
  case NODE_LOOP:
    fault_set(p->fault, "no derivative of a loop whose number of iterations is "
                        "known only at run time");
    return false;
  case NODE_DATA:
  case NODE_ARG:
  case NODE_LOOP_CARRIED:
    return true;
  }
  return true;
}

/* The cotangents of the outputs of the rule of d, the last entry that was
 * visited.  Its other outputs are visited with it. */
static Node *const *rule_cotangents(ReversePass *p, const Dependent *d) {
  const VjpRule *rule = d->node->rule;
  Node **cotangents = NEW_ARRAY(p->arena, Node *, rule->output_count);
  cotangents[d->node->output_index] = d->cotangent;
  for (; p->left && p->order.at[p->left - 1]->node->rule == rule; p->left--) {
    const Dependent *other = p->order.at[p->left - 1];
    cotangents[other->node->output_index] = other->cotangent;
  }
  return cotangents;
}

static bool has_any(uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; k < count; k++)
    if (nodes[k])
      return true;
  return false;
}

static void end_pass(ReversePass *p) {
  if (!p->has_ended)
    p->graph->reverse_of = p->outer;
  p->has_ended = true;
}

ReverseStatus reverse_pass_run(ReversePass *p, VjpRule **rule,
                               Node *const **cotangents, Fault *fault) {
  Span span = p->graph->span;
  ReverseStatus status = REVERSE_DONE;
  p->fault = fault;
  while (p->left && status == REVERSE_DONE) {
    Dependent *d = p->order.at[--p->left];
    if (d->is_leaf || !d->depends)
      continue;
    if (d->node->rule) {
      *rule = p->rule = d->node->rule;
      *cotangents = rule_cotangents(p, d);
      if (has_any(p->rule->output_count, *cotangents))
        status = REVERSE_AT_RULE;
    } else if (d->cotangent && !adjoint_of_node(p, d->node, d->cotangent)) {
      status = REVERSE_FAILED;
    }
  }
  p->graph->span = span;
  if (status != REVERSE_AT_RULE)
    end_pass(p);
  return status;
}

/* The sum of a contribution to x over the indices of the rule that x does not
 * have.  Takes the contribution. */
static Node *summed_for(ReversePass *p, const Node *x, Node *contribution) {
  IndexVar *vars[MAX_RANK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < p->rule->index_count; k++)
    if (!node_has_free(x, p->rule->indices[k]) &&
        !reverse_is_enclosing(p, p->rule->indices[k]))
      vars[count++] = p->rule->indices[k];
  return reverse_sum_over(p, contribution, count, vars);
}

bool reverse_pass_contribute(ReversePass *p, Node *const *contributions,
                             Fault *fault) {
  p->fault = fault;
  for (uint32_t k = 0; k < p->rule->input_count; k++) {
    Node *x = p->rule->inputs[k];
    if (contributions[k] && reverse_depends(p, x) &&
        !reverse_contribute(p, x,
                            summed_for(p, x, node_retain(contributions[k]))))
      return false;
  }
  return true;
}

Node *reverse_pass_cotangent(const ReversePass *p, uint32_t leaf) {
  return p->leaves[leaf] ? p->leaves[leaf]->cotangent : NULL;
}

void reverse_pass_free(ReversePass *p) {
  if (!p->has_ended) /* an error ended it, and all passes around it */
    p->graph->reverse_of = 0;
  for (uint32_t k = 0; k < p->owned.len; k++)
    node_release(p->owned.at[k]);
  arena_free(p->arena);
}

static void begin_pass(ReversePass *p, uint32_t output_count,
                       Node *const *outputs, Node *const *cotangents,
                       uint32_t leaf_count, Node *const *leaves) {
  map_init(&p->dependents, p->arena);
  collect_nodes(p, output_count, outputs);
  mark_dependents(p, leaf_count, leaves);
  p->left = p->order.len;
  p->leaf_count = leaf_count;
  p->leaves = NEW_ARRAY(p->arena, Dependent *, leaf_count + 1);
  for (uint32_t k = 0; k < leaf_count; k++)
    p->leaves[k] = map_get(&p->dependents, leaves[k]);
  for (uint32_t k = 0; k < output_count; k++)
    if (cotangents[k] && dtype_is_float(outputs[k]->dtype))
      reverse_contribute(p, outputs[k], node_retain(cotangents[k]));
}

ReversePass *reverse_pass_new(Graph *g, const Tape *tape, uint32_t output_count,
                              Node *const *outputs, Node *const *cotangents,
                              uint32_t leaf_count, Node *const *leaves) {
  Arena *arena = arena_new();
  ReversePass *volatile p = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    if (p)
      reverse_pass_free(p);
    else
      arena_free(arena);
    trap_raise(trap.kind);
  }
  p = NEW(arena, ReversePass);
  *p = (ReversePass){
      .graph = g, .tape = tape, .arena = arena, .outer = g->reverse_of};
  g->reverse_of = tape->first_node;
  begin_pass(p, output_count, outputs, cotangents, leaf_count, leaves);
  trap_end(&trap);
  return p;
}
