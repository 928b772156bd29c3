/* Cached plans: a plan in terms of the numbers of a plan key, and its
 * instantiation for other nodes.  See cached_plan.h. */
#include "plan/cached_plan.h"

#include "machine/limits/planner.h"
#include "plan/backend.h"
#include "tensor/node.h"
#include "plan/observer.h"
#include "support/arena.h"
#include "support/map.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

typedef struct CachedBody { /* a materialized node with its fused body */
  uint32_t node_number;
  PrimId reduce;
  uint32_t reduce_count;
  int64_t *extents; /* NULL: the extents of the node itself */
  BodyOp *ops;      /* reads contain numbers instead of nodes */
  uint32_t op_count, arg_count;
  void *cached; /* see PlannedBody */
} CachedBody;

typedef struct CachedGroup {
  uint32_t node_count, input_count;
  CachedBody *bodies;
  bool library_op;
  bool compiled;     /* the backend runs something else than the bodies */
  uint32_t *inputs;  /* inputs of the kernel */
  bool *donated;     /* for each input: nothing reads it later */
  uint32_t alias_of; /* 1 + the number of the node whose data it shares; or 0 */
  void *backend_data;
  const char *fallback_reason;
} CachedGroup;

struct CachedPlan {
  Arena *arena;
  uint32_t group_count;
  CachedGroup *groups;
  /* Nodes that a kernel reads, or computes again, although their last consumer
   * in the graph has released them (find_late_reads, find_copies). */
  VEC(uint32_t)
  late_reads;
  /* Interpreted operations per run, and the number that is worth
   * compilation. */
  double interpreted_work, jit_work;
  double run_count;
  bool was_hot;
  bool odd_run; /* true in every second run */
};

/* ---- from a plan to a cached plan ---- */

typedef struct PlanRecorder {
  Arena *arena;
  const PlanKey *key;
  Map leaf_numbers; /* from Node * to 1 + its number */
} PlanRecorder;

static uint32_t node_number(const PlanRecorder *m, const Node *n) {
  if (n->mark)
    return n->mark - 1;
  return (uint32_t)(uintptr_t)map_get(&m->leaf_numbers, n) - 1;
}

static void record_ops(const PlanRecorder *m, const Node *n,
                       CachedBody *cached_body) {
  for (uint32_t k = 0; k < n->body_op_count; k++)
    cached_body->arg_count += n->body_ops[k].arg_count;
  cached_body->op_count = n->body_op_count;
  cached_body->ops = NEW_ARRAY(m->arena, BodyOp, n->body_op_count);
  uint32_t *args = NEW_ARRAY(m->arena, uint32_t, cached_body->arg_count);
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    BodyOp *c = &cached_body->ops[k];
    *c = n->body_ops[k];
    c->args = args;
    args += c->arg_count;
    if (c->arg_count)
      memcpy(c->args, n->body_ops[k].args, c->arg_count * sizeof *args);
    if (c->kind == BODY_READ)
      c->node = (Node *)(uintptr_t)node_number(m, c->node);
  }
}

static void record_body(const PlanRecorder *m, const Node *n,
                        CachedBody *cached_body) {
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  cached_body->node_number = node_number(m, n);
  if (n->kind != NODE_COMP)
    return;
  cached_body->reduce = n->reduce;
  cached_body->reduce_count = n->reduce_count;
  if (n->extents != (const int64_t *)(n + 1)) {
    cached_body->extents = NEW_ARRAY(m->arena, int64_t, axes);
    memcpy(cached_body->extents, n->extents,
           axes * sizeof *cached_body->extents);
  }
  record_ops(m, n, cached_body);
}

static void record_group(const PlanRecorder *m, const FusionGroup *c,
                         CachedGroup *r) {
  r->node_count = c->nodes.len;
  r->bodies = NEW_ARRAY(m->arena, CachedBody, r->node_count);
  for (uint32_t k = 0; k < r->node_count; k++)
    record_body(m, c->nodes.at[k], &r->bodies[k]);
  r->backend_data = c->backend_data;
  r->library_op = c->library_op;
  r->fallback_reason = c->fallback_reason;
  r->compiled = c->backend_data != NULL;
  r->alias_of = c->alias_of ? node_number(m, c->alias_of) + 1 : 0;
  const Node *opaque = c->library_op ? c->nodes.at[0] : NULL;
  if (!c->kernel && !opaque)
    return;
  r->input_count = opaque ? opaque->input_count : c->kernel->inputs.len;
  r->inputs = NEW_ARRAY(m->arena, uint32_t, r->input_count);
  for (uint32_t k = 0; k < r->input_count; k++)
    r->inputs[k] =
        node_number(m, opaque ? opaque->inputs[k] : c->kernel->inputs.at[k]);
}

double plan_node_work(const Node *n) {
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  return (double)n->body_op_count *
         (double)shape_element_count(axes, n->extents);
}

/* ---- last uses ---- */

enum { NEVER = UINT32_MAX };

/* Finds when each node releases its operands: after the first group that stores
 * its data, or after all consumers have data; otherwise never. */
static void find_last_uses(const PlanRecorder *m, const Plan *plan,
                           uint32_t *last_use) {
  const PlanKey *o = m->key;
  uint32_t *times = NEW_ARRAY(plan->arena, uint32_t, o->nodes.len);
  bool *stored = NEW_ARRAY(plan->arena, bool, o->nodes.len);
  for (uint32_t k = 0; k < plan->groups.len; k++) {
    const FusionGroup *c = plan->groups.at[k];
    for (uint32_t j = 0; j < c->nodes.len; j++) {
      uint32_t number = node_number(m, c->nodes.at[j]);
      if (stored[number])
        continue;
      times[number] = k;
      stored[number] =
          !c->backend_data || fusion_group_stores(c, c->nodes.at[j]);
    }
  }
  for (uint32_t k = o->nodes.len; k-- > 0;) {
    if (!stored[k])
      times[k] = o->externally_held[k] ? NEVER : last_use[k];
    for (uint32_t j = k ? o->operand_end.at[k - 1] : 0;
         j < o->operand_end.at[k]; j++) {
      uint32_t x = o->operand_numbers.at[j];
      last_use[x] = times[k] > last_use[x] ? times[k] : last_use[x];
    }
  }
}

static void add_late_read(const PlanRecorder *m, CachedPlan *r,
                          uint32_t number) {
  for (uint32_t j = 0; j < r->late_reads.len; j++)
    if (r->late_reads.at[j] == number)
      return;
  VEC_PUSH(m->arena, r->late_reads, number);
}

static void extend_lifetime(const PlanRecorder *m, CachedPlan *r,
                            uint32_t *last_use, uint32_t number, uint32_t at) {
  if (last_use[number] >= at)
    return;
  last_use[number] = at;
  add_late_read(m, r, number);
}

/* A node of several groups may have data after the first one, if that was
 * interpreted.  Then its consumers may release its operands. */
static void find_copies(const PlanRecorder *m, const Plan *plan,
                        CachedPlan *r) {
  bool *seen = NEW_ARRAY(plan->arena, bool, m->key->nodes.len);
  for (uint32_t k = 0; k < r->group_count; k++)
    for (uint32_t j = 0; j < r->groups[k].node_count; j++) {
      uint32_t number = r->groups[k].bodies[j].node_number;
      if (seen[number])
        add_late_read(m, r, number);
      seen[number] = true;
    }
}

/* A kernel may recompute an inlined node instead of reading it, as for an
 * index.  Then it reads the operands of that node, which the graph may have
 * released already.  This finds such operands. */
static void find_late_reads(const PlanRecorder *m, CachedPlan *r,
                            uint32_t *last_use) {
  for (uint32_t k = 0; k < r->group_count; k++) {
    const CachedGroup *c = &r->groups[k];
    for (uint32_t j = 0; j < c->input_count; j++)
      extend_lifetime(m, r, last_use, c->inputs[j], k);
    for (uint32_t j = 0; !c->compiled && j < c->node_count; j++)
      for (uint32_t i = 0; i < c->bodies[j].op_count; i++) {
        const BodyOp *expr = &c->bodies[j].ops[i];
        if (expr->kind == BODY_READ)
          extend_lifetime(m, r, last_use, (uint32_t)(uintptr_t)expr->node, k);
      }
  }
}

static void find_donated_inputs(const PlanRecorder *m, const Plan *plan,
                                CachedPlan *r) {
  const PlanKey *o = m->key;
  uint32_t *last_use =
      NEW_ARRAY(plan->arena, uint32_t, o->nodes.len + o->leaves.len);
  find_last_uses(m, plan, last_use);
  find_late_reads(m, r, last_use);
  find_copies(m, plan, r);
  for (uint32_t k = 0; k < r->group_count; k++) {
    CachedGroup *c = &r->groups[k];
    c->donated = NEW_ARRAY(m->arena, bool, c->input_count);
    for (uint32_t j = 0; j < c->input_count; j++)
      c->donated[j] =
          !o->externally_held[c->inputs[j]] && last_use[c->inputs[j]] == k;
  }
}

CachedPlan *cached_plan_new(Arena *arena, const Plan *plan, const PlanKey *o) {
  PlanRecorder m = {.arena = arena, .key = o};
  CachedPlan *r = NEW(arena, CachedPlan);
  map_init(&m.leaf_numbers, plan->arena);
  for (uint32_t k = 0; k < o->leaves.len; k++)
    map_put(&m.leaf_numbers, o->leaves.at[k],
            (void *)(uintptr_t)(o->nodes.len + k + 1));
  r->arena = arena;
  r->group_count = plan->groups.len;
  r->groups = NEW_ARRAY(arena, CachedGroup, r->group_count);
  r->jit_work = (double)plan->graph->jit_threshold * JIT_PAYOFF_RUNS;
  for (uint32_t k = 0; k < r->group_count; k++) {
    const FusionGroup *c = plan->groups.at[k];
    record_group(&m, c, &r->groups[k]);
    for (uint32_t j = 0; !c->backend_data && !c->alias_of && j < c->nodes.len;
         j++)
      if (c->nodes.at[j]->kind == NODE_COMP)
        r->interpreted_work += plan_node_work(c->nodes.at[j]);
  }
  find_donated_inputs(&m, plan, r);
  const Graph *g = plan->graph;
  if (g->hot || !g->jit_threshold || !g->backend->compiles_kernels)
    r->interpreted_work = 0; /* never plan it again */
  return r;
}

bool plan_is_hot(const Graph *g, double work, double times) {
  return times > 1 && work * times > (double)g->jit_threshold * JIT_PAYOFF_RUNS;
}

bool cached_plan_count_run(CachedPlan *r, double times, bool compiles_all) {
  r->run_count += times;
  r->odd_run = !r->odd_run;
  bool hot = !r->was_hot && r->interpreted_work * r->run_count > r->jit_work;
  r->was_hot |= hot;
  return hot || (compiles_all && r->interpreted_work > 0);
}

/* ---- from a cached plan to groups ---- */

typedef struct PlanBinding {
  CachedGroup *cached_group;
  Arena *plan_arena;
  Node *const *nodes; /* indexed by number */
  const double *params;
  const PrngKey *random_keys;
} PlanBinding;

static Node *key_node(const PlanKey *o, uint32_t number) {
  return number < o->nodes.len ? o->nodes.at[number]
                               : o->leaves.at[number - o->nodes.len];
}

/* A kernel walks over memory from the end at which the previous kernel stopped,
 * since the caches still hold it.  The direction changes with every kernel and
 * every run. */
static bool runs_in_reverse(const CachedPlan *r, uint32_t group_index) {
  return (group_index & 1) != r->odd_run;
}

static void bind_group(Arena *arena, CachedGroup *r, const PlanKey *o,
                       PlanBinding *binding, FusionGroup *c) {
  binding->cached_group = r;
  c->binding = binding;
  c->backend_data = r->backend_data;
  c->library_op = r->library_op;
  c->fallback_reason = r->fallback_reason;
  c->params = binding->params;
  c->random_keys = binding->random_keys;
  c->nodes.at = NEW_ARRAY(arena, Node *, r->node_count);
  c->nodes.len = r->node_count;
  for (uint32_t k = 0; k < r->node_count; k++)
    c->nodes.at[k] = key_node(o, r->bodies[k].node_number);
  c->alias_of = r->alias_of ? key_node(o, r->alias_of - 1) : NULL;
  c->donated = r->compiled || r->library_op ? r->donated : NULL;
  if (!r->compiled)
    return;
  c->kernel = NEW(arena, Kernel);
  const Node **inputs = NEW_ARRAY(arena, const Node *, r->input_count);
  for (uint32_t k = 0; k < r->input_count; k++)
    inputs[k] = key_node(o, r->inputs[k]);
  c->kernel->inputs.at = inputs;
  c->kernel->inputs.len = r->input_count;
}

void cached_plan_retain_inputs(const CachedPlan *r, const PlanKey *o) {
  for (uint32_t k = 0; k < r->late_reads.len; k++)
    node_retain(key_node(o, r->late_reads.at[k]));
}

void cached_plan_release_inputs(const CachedPlan *r, const PlanKey *o) {
  for (uint32_t k = 0; k < r->late_reads.len; k++)
    node_release(key_node(o, r->late_reads.at[k]));
}

void cached_plan_touched_nodes(Arena *arena, const CachedPlan *r,
                               const PlanKey *o, TouchedNodes *out) {
  for (uint32_t k = 0; k < r->group_count; k++)
    for (uint32_t j = 0; j < r->groups[k].node_count; j++)
      VEC_PUSH(arena, out->nodes,
               key_node(o, r->groups[k].bodies[j].node_number));
  out->computed_count = out->nodes.len;
  for (uint32_t k = 0; k < r->group_count; k++) {
    const CachedGroup *c = &r->groups[k];
    for (uint32_t j = 0; j < c->input_count; j++)
      VEC_PUSH(arena, out->nodes, key_node(o, c->inputs[j]));
    if (c->alias_of)
      VEC_PUSH(arena, out->nodes, key_node(o, c->alias_of - 1));
    for (uint32_t j = 0; !c->compiled && j < c->node_count; j++)
      for (uint32_t i = 0; i < c->bodies[j].op_count; i++) {
        const BodyOp *expr = &c->bodies[j].ops[i];
        if (expr->kind == BODY_READ)
          VEC_PUSH(arena, out->nodes,
                   key_node(o, (uint32_t)(uintptr_t)expr->node));
      }
  }
}

FusionGroup **cached_plan_instantiate(Arena *arena, const CachedPlan *r,
                                      const PlanKey *o, uint32_t *count) {
  FusionGroup **groups = NEW_ARRAY(arena, FusionGroup *, r->group_count);
  FusionGroup *at = NEW_ARRAY(arena, FusionGroup, r->group_count);
  PlanBinding *bindings = NEW_ARRAY(arena, PlanBinding, r->group_count);
  Node **nodes = NEW_ARRAY(arena, Node *, o->nodes.len + o->leaves.len);
  for (uint32_t k = 0; k < o->nodes.len + o->leaves.len; k++)
    nodes[k] = key_node(o, k);
  for (uint32_t k = 0; k < r->group_count; k++) {
    bindings[k].nodes = nodes;
    bindings[k].plan_arena = r->arena;
    bindings[k].params = o->params.values.at;
    bindings[k].random_keys = o->params.random_keys.at;
    bind_group(arena, &r->groups[k], o, &bindings[k], &at[k]);
    at[k].reverse_order = runs_in_reverse(r, k);
    groups[k] = &at[k];
  }
  *count = r->group_count;
  return groups;
}

/* ---- bodies ---- */

static void instantiate_ops(const PlanBinding *b, const CachedBody *cached_body,
                            BodyOp *ops) {
  uint32_t *args = (uint32_t *)(ops + cached_body->op_count);
  for (uint32_t k = 0; k < cached_body->op_count; k++) {
    BodyOp *c = &ops[k];
    *c = cached_body->ops[k];
    c->args = args;
    args += c->arg_count;
    if (c->arg_count)
      memcpy(c->args, cached_body->ops[k].args, c->arg_count * sizeof *args);
    if (c->kind == BODY_READ)
      c->node = node_retain(b->nodes[(uintptr_t)c->node]);
    if (c->kind == BODY_CONST)
      c->value = param_resolve(c->value, b->params);
    if (c->kind == BODY_RANDOM)
      c->key = key_resolve(c->key, b->random_keys);
  }
}

static void restore_body(const PlanBinding *b, const CachedBody *cached_body,
                         Node *n) {
  bool adds_axes =
      cached_body->extents && cached_body->reduce_count != n->reduce_count;
  size_t size = (n->free_count + n->rank + cached_body->reduce_count) *
                sizeof *cached_body->extents;
  int64_t *extents = adds_axes ? mem_try_alloc(size) : NULL;
  BodyOp *ops = mem_try_alloc(cached_body->op_count * sizeof *ops +
                              cached_body->arg_count * sizeof(uint32_t));
  if (!ops || (adds_axes && !extents)) {
    mem_free(ops);
    mem_free(extents);
    trap_raise(FAIL_MEMORY);
  }
  instantiate_ops(b, cached_body, ops);
  if (adds_axes)
    memcpy(extents, cached_body->extents, size);
  node_replace_body(n, ops, cached_body->op_count, cached_body->reduce,
                    cached_body->reduce_count, extents);
}

void fusion_group_restore_body(const FusionGroup *c, uint32_t k) {
  if (!c->binding)
    return;
  const CachedBody *cached_body = &c->binding->cached_group->bodies[k];
  if (cached_body->op_count && !c->nodes.at[k]->data)
    restore_body(c->binding, cached_body, c->nodes.at[k]);
}

bool fusion_group_planned_body(const FusionGroup *c, uint32_t k,
                               PlannedBody *out) {
  if (!c->binding || !c->binding->cached_group->bodies[k].op_count)
    return false;
  CachedBody *cached_body = &c->binding->cached_group->bodies[k];
  *out = (PlannedBody){.ops = cached_body->ops,
                       .op_count = cached_body->op_count,
                       .cached = &cached_body->cached,
                       .arena = c->binding->plan_arena};
  return true;
}

const Node *fusion_group_operand(const FusionGroup *c, const BodyOp *read) {
  return c->binding->nodes[(uintptr_t)read->node];
}

Scalar fusion_group_constant(const FusionGroup *c, const BodyOp *constant) {
  return param_resolve(constant->value, c->binding->params);
}
