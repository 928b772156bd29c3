/* Running: a plan, its nodes one after the other, data freed as soon as its
 * last reader is done. */
#include "tensor/internal.h"

#include <stdlib.h>

static bool memory_fits(const Graph *g, const Node *n, Fault *fault) {
  uint64_t limit =
      g->bytes_limit > 0 ? (uint64_t)g->bytes_limit : memory_physical();
  double bytes = dtype_info[n->dtype].bytes;
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    bytes *= (double)n->extents[k];
  if (bytes <= (double)limit)
    return true;
  TypeText t = form_text(g, n->dtype, n->free_count + n->rank, n->extents, 0);
  fault_set(fault, "%s needs %.1f GiB of memory", t.text, bytes / 0x1p30);
  fault->kind = FAULT_MEMORY;
  fault_help(fault,
             "at most %.1f GiB may be used: work on it in parts, or reduce it "
             "before it is stored",
             (double)limit / 0x1p30);
  return false;
}

static bool verified(uint32_t count, Node *const *roots, Fault *fault) {
  const char *wanted = getenv("AXON_VERIFY");
  if (!wanted || !*wanted)
    return true;
  Buffer message = {0};
  bool good = graph_verify(count, roots, &message);
  if (!good)
    fault_set(fault, "compiler bug in fusion: %s", message.text);
  buffer_free(&message);
  return good;
}

/* A node that is another one, element for element in the same order, shares
 * its data: what the end of a `for` over a stored node is. */
static bool share_data(Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard)
    return false;
  const Cell *value = &n->cells[n->cell_count - 1];
  if (value->kind != CELL_READ)
    return false;
  const Node *x = value->node;
  uint32_t axes = n->free_count + n->rank;
  bool same = value->arg_count == axes &&
              x->stars << x->free_count == n->stars << n->free_count;
  for (uint32_t k = 0; same && k < axes; k++) {
    const Cell *index = &n->cells[value->args[k]];
    bool only = n->extents[k] == 1 && index->kind == CELL_CONST &&
                index->value.i == 0;
    same = x->extents[k] == n->extents[k] &&
           (only || (index->kind == CELL_AXIS && index->axis == k));
  }
  if (same)
    n->data = tensor_retain(x->data);
  return same;
}

static bool run_plan(Graph *g, Plan *plan, Span *where, Fault *fault) {
  const Backend *backend = g->backend ? g->backend : &backend_reference;
  for (uint32_t k = 0; k < plan->stored.len; k++) {
    PlanNode *p = plan->stored.at[k];
    Node *n = p->node;
    *where = n->span;
    if (!share_data(n)) {
      if (!memory_fits(g, n, fault) || !backend->run(g, 1, &n, where, fault))
        return false;
      g->stored++;
    }
    plan_ran(p);
  }
  return true;
}

static bool all_data(uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; k < count; k++)
    if (!nodes[k]->data)
      return false;
  return true;
}

bool graph_force(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                 Fault *fault) {
  if (all_data(count, nodes))
    return true;
  Plan plan = {.graph = g};
  plan.arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    plan_end(&plan);
    trap_raise(trap.kind);
  }
  plan_make(&plan, count, nodes);
  bool good = verified(count, nodes, fault) && run_plan(g, &plan, where, fault);
  trap_end(&trap);
  plan_end(&plan);
  g->pending = 0;
  return good;
}
