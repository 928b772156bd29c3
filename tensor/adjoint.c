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
  if (d->cotangent) {
    Node *terms[2] = {d->cotangent, contribution};
    contribution = reverse_own(
        p, node_map(p->graph, PRIM_ADD, 2, terms, DT_NONE, p->fault));
  }
  d->cotangent = contribution;
  return contribution;
}

/* ---- the nodes between leaves and outputs ---- */

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
    for (uint32_t k = 0; k < node_operand_count(n); k++) {
      Node *x = node_operand(n, k);
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
    for (uint32_t k = 0; !d->depends && k < node_operand_count(d->node); k++) {
      Node *x = node_operand(d->node, k);
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

static bool run_pass(ReversePass *p, uint32_t output_count,
                     Node *const *outputs, Node *const *cotangents,
                     uint32_t leaf_count, Node *const *leaves) {
  collect_nodes(p, output_count, outputs);
  mark_dependents(p, leaf_count, leaves);
  for (uint32_t k = 0; k < output_count; k++)
    if (cotangents[k] && dtype_is_float(outputs[k]->dtype) &&
        !reverse_contribute(p, outputs[k], node_retain(cotangents[k])))
      return false;
  for (uint32_t at = p->order.len; at-- > 0;) {
    Dependent *d = p->order.at[at];
    if (d->depends && d->cotangent && !d->is_leaf &&
        !adjoint_of_node(p, d->node, d->cotangent))
      return false;
  }
  return true;
}

static void pass_end(ReversePass *p) {
  for (uint32_t k = 0; k < p->owned.len; k++)
    node_release(p->owned.at[k]);
  arena_free(p->arena);
}

bool graph_vjp(Graph *g, const Tape *tape, uint32_t output_count,
               Node *const *outputs, Node *const *cotangents,
               uint32_t leaf_count, Node *const *leaves, Node **out,
               Fault *fault) {
  ReversePass p = {
      .graph = g, .tape = tape, .arena = arena_new(), .fault = fault};
  Span span = g->span;
  map_init(&p.dependents, p.arena);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->span = span;
    pass_end(&p);
    trap_raise(trap.kind);
  }
  bool ok = run_pass(&p, output_count, outputs, cotangents, leaf_count, leaves);
  for (uint32_t k = 0; k < leaf_count; k++) {
    const Dependent *d = ok ? map_get(&p.dependents, leaves[k]) : NULL;
    out[k] = d && d->cotangent ? node_retain(d->cotangent) : NULL;
  }
  trap_end(&trap);
  g->span = span;
  pass_end(&p);
  return ok;
}
