/* What is told of a plan before it runs: the memory that it will take. */
#include "tensor/internal.h"
#include "tensor/watch.h"

typedef struct Memory {
  const Plan *plan;
  uint32_t *readers; /* of each node of the plan: those that yet read it */
  bool *there;       /* of each: it was put into memory */
  Map held;          /* tensors that were there before */
  double now, peak, before;
} Memory;

static double bytes_of(const Node *n) {
  return (double)node_count(n) * dtype_info[n->dtype].bytes;
}

static PlanNode *planned(const Plan *plan, const Node *n) {
  return n->mark ? plan->nodes.at[n->mark - 1] : NULL;
}

bool cluster_stores(const Cluster *c, const Node *n) {
  if (!c->kernel)
    return true;
  for (uint32_t j = 0; j < c->kernel->loops.len; j++) {
    const Loop *loop = c->kernel->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++)
      if (loop->results.at[i].node == n && loop->results.at[i].out)
        return true;
  }
  return false;
}

static void add_held(Memory *m, const Node *x) {
  if (!x || !x->data || map_get(&m->held, x->data))
    return;
  map_put(&m->held, x->data, x->data);
  m->before += bytes_of(x);
}

static void add_inputs(Memory *m, const Node *n) {
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (n->cells[k].kind == CELL_READ)
      add_held(m, n->cells[k].node);
  for (uint32_t k = 0; k < n->input_count; k++)
    add_held(m, n->inputs[k]);
  add_held(m, n->guard);
}

/* Its results are there beside its inputs; then these may go. */
static void run(Memory *m, const Cluster *c) {
  for (uint32_t k = 0; k < c->nodes.len; k++)
    if (cluster_stores(c, c->nodes.at[k])) {
      m->there[c->nodes.at[k]->mark - 1] = true;
      m->now += bytes_of(c->nodes.at[k]);
    }
  m->peak = m->now > m->peak ? m->now : m->peak;
  for (uint32_t k = 0; k < c->nodes.len; k++) {
    const PlanNode *p = planned(m->plan, c->nodes.at[k]);
    for (uint32_t j = 0; j < p->inputs.len; j++) {
      const Node *x = p->inputs.at[j]->node;
      bool last = --m->readers[x->mark - 1] == 0 && !p->inputs.at[j]->root;
      if (last && m->there[x->mark - 1])
        m->now -= bytes_of(x);
    }
  }
}

void watch_planned(Graph *g, const Plan *plan) {
  Memory m = {.plan = plan};
  m.readers = NEW_ARRAY(plan->arena, uint32_t, plan->nodes.len);
  m.there = NEW_ARRAY(plan->arena, bool, plan->nodes.len);
  map_init(&m.held, plan->arena);
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    m.readers[k] = plan->nodes.at[k]->readers;
  for (uint32_t k = 0; k < plan->stored.len; k++)
    add_inputs(&m, plan->stored.at[k]->node);
  m.now = m.peak = m.before;
  for (uint32_t k = 0; k < plan->clusters.len; k++)
    run(&m, plan->clusters.at[k]);
  Planned p = {.arena = plan->arena,
               .graph = g,
               .held = m.before,
               .peak = m.peak,
               .count = plan->clusters.len,
               .clusters = plan->clusters.at};
  g->watch->planned(g->watch->owner, &p);
}
