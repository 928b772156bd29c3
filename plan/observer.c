/* Reports a plan to the observer before it runs, with its memory use. */
#include "plan/observer.h"
#include "plan/fused_body.h"
#include "plan/plan.h"
#include "support/arena.h"
#include "support/map.h"

typedef struct MemoryUsage {
  const Plan *plan;
  uint32_t *readers;  /* for each node of the plan: remaining consumers */
  bool *materialized; /* for each node: it is in memory */
  Map input_tensors;  /* tensors that existed before */
  double current_bytes, peak_bytes, input_bytes;
} MemoryUsage;

static double node_bytes(const Node *n) {
  return (double)node_element_count(n) * dtype_info[n->dtype].bytes;
}

static PlanNode *plan_node_of(const Plan *plan, const Node *n) {
  return n->mark ? plan->nodes.at[n->mark - 1] : NULL;
}

static void add_input_tensor(MemoryUsage *m, const Node *x) {
  if (!x || !x->data || map_get(&m->input_tensors, x->data))
    return;
  map_put(&m->input_tensors, x->data, x->data);
  m->input_bytes += node_bytes(x);
}

static void add_inputs(MemoryUsage *m, const Node *n) {
  for (uint32_t k = 0; k < n->body_op_count; k++)
    if (n->body_ops[k].kind == BODY_READ)
      add_input_tensor(m, n->body_ops[k].node);
  for (uint32_t k = 0; k < n->input_count; k++)
    add_input_tensor(m, n->inputs[k]);
  add_input_tensor(m, n->guard);
}

/* The outputs exist together with the inputs.  Afterwards, inputs are freed at
 * their last use. */
static void account_group(MemoryUsage *m, const FusionGroup *c) {
  for (uint32_t k = 0; k < c->nodes.len; k++)
    if (fusion_group_stores(c, c->nodes.at[k])) {
      m->materialized[c->nodes.at[k]->mark - 1] = true;
      m->current_bytes += node_bytes(c->nodes.at[k]);
    }
  m->peak_bytes =
      m->current_bytes > m->peak_bytes ? m->current_bytes : m->peak_bytes;
  for (uint32_t k = 0; k < c->nodes.len; k++) {
    const PlanNode *p = plan_node_of(m->plan, c->nodes.at[k]);
    for (uint32_t j = 0; j < p->inputs.len; j++) {
      const Node *x = p->inputs.at[j]->node;
      bool last = --m->readers[x->mark - 1] == 0 && !p->inputs.at[j]->root;
      if (last && m->materialized[x->mark - 1])
        m->current_bytes -= node_bytes(x);
    }
  }
}

/* ---- values saved for a gradient ---- */

/* The first node of the call that p differentiates, itself or by a value that
 * is inlined into it.  0: p is no part of a reverse pass. */
static uint32_t reverse_of(const PlanNode *p) {
  uint32_t first = p->node->reverse_of;
  for (uint32_t k = 0; p->body && k < p->body->inlined_values.len; k++) {
    uint32_t other = p->body->inlined_values.at[k].reverse_of;
    first = other && (!first || other < first) ? other : first;
  }
  return first;
}

static void add_saved(const MemoryUsage *m, PlanSummary *out, Map *seen,
                      const Node *x, uint32_t first) {
  bool is_forward = x && !x->reverse_of && x->id >= first;
  if (!is_forward || map_get(seen, x) ||
      !(x->data || (x->mark && m->materialized[x->mark - 1])))
    return;
  map_put(seen, x, (void *)(uintptr_t)1);
  VEC_PUSH(out->arena, out->saved, ((SavedValue){x, first}));
}

static void find_saved(const MemoryUsage *m, PlanSummary *out) {
  Map seen;
  map_init(&seen, out->arena);
  for (uint32_t k = 0; k < m->plan->materialized.len; k++) {
    const PlanNode *p = m->plan->materialized.at[k];
    const Node *n = p->node;
    uint32_t first = reverse_of(p);
    for (uint32_t j = 0; first && j < n->body_op_count; j++)
      if (n->body_ops[j].kind == BODY_READ)
        add_saved(m, out, &seen, n->body_ops[j].node, first);
    for (uint32_t j = 0; first && j < n->input_count; j++)
      add_saved(m, out, &seen, n->inputs[j], first);
  }
}

void observer_notify_plan(Graph *g, const Plan *plan) {
  MemoryUsage m = {.plan = plan};
  m.readers = NEW_ARRAY(plan->arena, uint32_t, plan->nodes.len);
  m.materialized = NEW_ARRAY(plan->arena, bool, plan->nodes.len);
  map_init(&m.input_tensors, plan->arena);
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    m.readers[k] = plan->nodes.at[k]->pending_readers;
  for (uint32_t k = 0; k < plan->materialized.len; k++)
    add_inputs(&m, plan->materialized.at[k]->node);
  m.current_bytes = m.peak_bytes = m.input_bytes;
  for (uint32_t k = 0; k < plan->groups.len; k++)
    account_group(&m, plan->groups.at[k]);
  PlanSummary p = {.arena = plan->arena,
                   .graph = g,
                   .input_bytes = m.input_bytes,
                   .peak_bytes = m.peak_bytes,
                   .group_count = plan->groups.len,
                   .groups = plan->groups.at};
  find_saved(&m, &p);
  g->observer->planned(g->observer->owner, &p);
}
